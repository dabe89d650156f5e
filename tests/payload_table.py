"""Which operations work on arrays of other libraries and on arrays of fractions; `tests/test_payloads.py` runs all, and
`tests/test_payloads_sparse.py` those on sparse arrays.

    REFUSED_BY_DASK     primitives that refuse dask arrays altogether
    PARTLY_BY_DASK      those that do so with some arguments, or in their derivative
    REFUSED_BY_SPARSE   primitives that refuse arrays of the package sparse altogether
    PARTLY_BY_SPARSE    those that do so with some arguments, or in their derivative
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

REFUSED_BY_SPARSE = {
    "any_exprel", "argpartitioned", "argsorted", "assoc_legendre_p", "beta_density", "beta_distribution_slope",
    "by_diagonals", "carlson_integral", "central_difference", "characteristic_polynomial", "cholesky", "cofactors",
    "convolve", "convolve_axes", "convolve_axes_guarded", "convolve_guarded", "cross", "cumprod", "cumsum", "det",
    "digamma_difference", "draw_beta", "draw_chisquare", "draw_f", "draw_gamma", "draw_standard_gamma",
    "draw_standard_t", "draw_vonmises", "draw_wald", "eig", "eigh", "eigsh", "expm", "expm_frechet", "f_density",
    "f_distribution_slope", "faddeeva", "fft", "fractional_matrix_power", "gamma_density", "gamma_distribution_slope",
    "gathered_differences", "hurwitz_zeta", "ifft", "interp", "inv", "inverse_boxcox_less_one", "inverse_mills_ratio",
    "invgauss_isf", "invgauss_ppf", "irfft", "isin", "legendre_p", "lengths", "lexsort", "log_tukey", "logm", "lu",
    "matmul_guarded", "matrix_rank", "modified_bessel", "noncentral_chi_square_density", "noncentral_f_kernel",
    "noncentral_t_moment", "normalized_assoc_legendre_p", "partition_order", "pinv", "pinv_and_rank", "pinv_and_values",
    "polygamma", "polyval", "projected_differences", "qr", "rank_places", "recurrence", "recursive_filter", "replace",
    "rfft", "rice_isf", "rice_ppf", "roots", "sampled_product", "sampled_product_guarded", "scaled_bessel_derivative",
    "scatter", "scipy_eig", "scipy_eigh", "scipy_inv", "scipy_svd", "searchsorted", "segment_sums", "skewnorm_ppf",
    "slide", "sliding_windows", "slogdet", "smirnov_derivative", "solve", "solve_banded", "solve_both",
    "solve_factored", "solve_toeplitz", "sparse_product", "sparse_product_guarded", "sparse_solve", "sph_legendre_p",
    "spherical_bessel", "spherical_in", "spherical_jn", "spherical_kn", "spherical_yn", "spline_coefficients", "sqrtm",
    "stable_order", "student_distribution_slope", "sums_along_diagonals", "svd", "t_density", "tally", "unitary_factor",
    "unpermute", "vonmises_distribution_inverse", "vonmises_distribution_slope", "vonmises_distribution_tail",
    "weighted_places",
}  # fmt: skip

PARTLY_BY_SPARSE = {
    "airye", "bdtr", "bdtrc", "bdtri", "beta", "beta_distribution_inverse", "beta_distribution_tail", "betainc",
    "betaincc", "betainccinv", "betaincinv", "betaln", "betaprime_isf", "betaprime_ppf", "binom", "boxcox", "boxcox1p",
    "chdtr", "chdtrc", "chdtri", "chndtr", "chndtrinc", "chndtrix", "dawsn", "diagonal", "difference", "draw_dirichlet",
    "draw_multivariate_normal", "einsum", "einsum_guarded", "elliprd", "elliprj", "erfcx", "exprel",
    "f_distribution_inverse", "f_distribution_tail", "fdtr", "fdtrc", "fdtri", "gamma_distribution_inverse",
    "gamma_distribution_tail", "gammainc", "gammaincc", "gammainccinv", "gammaincinv", "gather_spline", "gdtr", "gdtrc",
    "gdtrix", "hankel1e", "hankel2e", "i0e", "i1e", "index", "inv_boxcox", "inv_boxcox1p", "ive", "k0e", "k1e", "kve",
    "ldexp", "log_ndtr", "matmul", "nbdtr", "nbdtrc", "nbdtri", "ncfdtr", "ncfdtri", "nctdtr", "nctdtrinc", "nctdtrit",
    "ndtri_exp", "pdtr", "pdtrc", "pdtri", "permute", "poch", "prod", "psi", "reshape", "scatter_spline", "sealed",
    "smirnov", "smirnovi", "stack", "stdtr", "stdtrit", "student_distribution_inverse", "student_distribution_tail",
    "tklmbda", "voigt_profile", "wofz",
}  # fmt: skip

OF_SPARSE = set(SAMPLED) - REFUSED_BY_SPARSE - PARTLY_BY_SPARSE

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
