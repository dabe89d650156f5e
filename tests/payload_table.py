"""Which operations work on arrays of other libraries and on arrays of fractions; `tests/test_payloads.py` runs all.

    REFUSED_BY_DASK     primitives that refuse dask arrays altogether
    PARTLY_BY_DASK      those that do so with some arguments, or in their derivative
    OF_FRACTIONS        primitives whose results and derivatives are exact for fractions; all others refuse them, or
                        give what NumPy gives for arrays of objects

`tools/table_pages.py` makes a page of it.
"""

from primitive_names import DRAWS, SAMPLED

REFUSED_BY_DASK = {
    "airy", "airye", "argpartitioned", "argsorted", "by_diagonals", "carlson_integral", "central_difference",
    "characteristic_polynomial", "cofactors", "convolve", "convolve_axes", "convolve_axes_guarded", "convolve_guarded",
    "det", "eig", "eigh", "eigsh", "ellipj", "expm", "expm_frechet", "fft", "fractional_matrix_power", "fresnel",
    "gather_spline", "gathered_differences", "ifft", "interp", "irfft", "isin", "it2i0k0", "it2j0y0", "itairy",
    "iti0k0", "itj0y0", "kelvin", "lengths", "lexsort", "logm", "lu", "mathieu_cem", "mathieu_modcem1",
    "mathieu_modcem2", "mathieu_modsem1", "mathieu_modsem2", "mathieu_sem", "matrix_rank", "modfresnelm", "modfresnelp",
    "modified_bessel", "obl_ang1", "obl_ang1_cv", "obl_rad1", "obl_rad1_cv", "obl_rad2", "obl_rad2_cv",
    "partition_order", "pbdv", "pbvv", "pbwa", "pinv", "pinv_and_rank", "pinv_and_values", "polyval", "pro_ang1",
    "pro_ang1_cv", "pro_rad1", "pro_rad1_cv", "pro_rad2", "pro_rad2_cv", "projected_differences", "qr", "rank_places",
    "recursive_filter", "replace", "rfft", "roots", "sampled_product", "sampled_product_guarded",
    "scaled_bessel_derivative", "scatter_spline", "scipy_eig", "scipy_eigh", "scipy_inv", "scipy_svd", "searchsorted",
    "segment_sums", "shichi", "sici", "slide", "slogdet", "solve_banded", "solve_both", "solve_factored",
    "solve_toeplitz", "sparse_product", "sparse_product_guarded", "sparse_solve", "spherical_bessel",
    "spline_coefficients", "sqrtm", "stable_order", "sums_along_diagonals", "svd", "tally", "unitary_factor",
    "vonmises_distribution_inverse", "vonmises_distribution_slope", "vonmises_distribution_tail", "weighted_places",
    *DRAWS,
}  # fmt: skip

PARTLY_BY_DASK = {
    "cholesky", "diagonal", "elliprd", "elliprj", "hankel1e", "hankel2e", "i0e", "i1e", "index", "inv", "ive", "k0e",
    "k1e", "kve", "permute", "reshape", "rice_isf", "rice_ppf", "scatter", "solve", "unpermute",
}  # fmt: skip

OF_DASK = set(SAMPLED) - REFUSED_BY_DASK - PARTLY_BY_DASK

OF_FRACTIONS = {
    "abs", "abs_squared", "add", "all", "along", "any", "argmax", "argmin", "argpartitioned", "argsorted",
    "broadcast_to", "by_diagonals", "ceil", "central_difference", "concatenate", "conjugate", "convolve",
    "convolve_axes_guarded", "convolve_guarded", "cross", "cumprod", "cumsum", "diagonal", "diagonal_matrix",
    "difference", "divide", "einsum", "einsum_guarded", "equal", "floor", "floor_divide", "gathered_differences",
    "greater", "greater_equal", "imag", "index", "isin", "less", "less_equal", "lexsort", "logical_and", "logical_not",
    "logical_or", "matmul", "matmul_guarded", "max", "maximum", "mean", "min", "minimum", "multiply", "nanmax",
    "nanmin", "negative", "not_equal", "partition_order", "permute", "polyval", "positive", "prod",
    "projected_differences", "rank_places", "real", "reciprocal", "recurrence", "replace", "reshape", "roll", "scale",
    "scatter", "searchsorted", "segment_sums", "sign", "sliding_windows", "split", "square", "stable_order", "stack",
    "stop_gradient", "subtract", "sum", "sums_along_diagonals", "transpose", "trunc", "unpermute", "variance", "where",
}  # fmt: skip
