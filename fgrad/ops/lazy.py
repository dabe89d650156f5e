"""Operations that force the computation of a lazy array: they need values, or plain arrays.

They factorize, sort, search, write into an array, or iterate until convergence. Elementwise operations run block
by block instead; sums, products, moves and joins are planned like NumPy's.
"""

from fgrad.core.foreign import LOOKING_AT_VALUES

LOOKING_AT_VALUES |= {
    "argpartitioned", "argsorted", "characteristic_polynomial", "central_difference", "cofactors", "convolve",
    "convolve_axes_guarded", "convolve_guarded", "det", "eig", "eigh", "interp", "isin", "lexsort", "matrix_rank",
    "modified_bessel", "partition_order", "pinv", "pinv_and_values", "polyval", "qr", "rank_places", "replace",
    "roots", "searchsorted", "segment_sums", "slogdet", "solve_both", "solve_factored", "spherical_bessel",
    "stable_order", "svd", "tally", "weighted_places",
    # SciPy's
    "by_diagonals", "carlson_integral", "convolve_axes", "eigsh", "expm", "expm_frechet", "fractional_matrix_power",
    "gather_spline", "gathered_differences", "lengths", "logm", "lu", "pinv_and_rank", "projected_differences",
    "recursive_filter", "sampled_product", "sampled_product_guarded", "scaled_bessel_derivative", "scatter_spline",
    "scipy_eig", "scipy_eigh", "scipy_inv", "scipy_svd", "slide", "solve_banded", "solve_toeplitz", "sparse_product",
    "sparse_product_guarded", "sparse_solve", "spline_coefficients", "sqrtm", "sums_along_diagonals", "unitary_factor",
    "vonmises_distribution_inverse", "vonmises_distribution_slope", "vonmises_distribution_tail",
}  # fmt: skip
