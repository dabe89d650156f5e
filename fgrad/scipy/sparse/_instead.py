"""Alternatives to SciPy names that this package does not have."""

INSTEAD = {
    **{f"{each}_matrix": f"{each}_array" for each in ("coo", "csr", "csc")},
    **{f"{each}_{kind}": "csr_array" for each in ("bsr", "dia") for kind in ("array", "matrix")},
    **{
        f"{each}_{kind}": "coo_array((data, (rows, columns)))"
        for each in ("lil", "dok")
        for kind in ("array", "matrix")
    },
    **dict.fromkeys(("diags", "spdiags"), "diags_array"),
    **dict.fromkeys(("eye", "identity"), "eye_array"),
    **dict.fromkeys(("bmat",), "block_array"),
    **dict.fromkeys(("sparray", "spmatrix"), "SparseArray"),
    **dict.fromkeys(("isspmatrix", "isspmatrix_csr", "isspmatrix_csc", "isspmatrix_coo"), "issparse"),
    "kronsum": "kron",
    "find": "A.coords and A.data",
    "spsolve_triangular": "spsolve",
    "spilu": "splu; or spilu of SciPy for a preconditioner, which has no derivative",
    "inv": "splu(A).solve",
    "expm": "expm_multiply, or fgrad.scipy.linalg.expm of A.toarray()",
    "norm": "np.linalg.norm(A.data) for the norm of Frobenius",
    "matrix_power": "repeated A @ x",
    **dict.fromkeys(("bicg", "cgs", "qmr", "tfqmr"), "bicgstab"),
    **dict.fromkeys(("lgmres", "gcrotmk"), "gmres"),
    **dict.fromkeys(("lsqr", "lsmr"), "spsolve(A.T @ A, A.T @ b)"),
    **dict.fromkeys(("eigs", "lobpcg"), "eigsh, for Hermitian matrices"),
    "svds": "eigsh of A.T @ A",
    **dict.fromkeys(
        ("LinearOperator", "aslinearoperator"),
        "fg.implicit_diff(solver, lambda x, b: product(x) - b, matrix_free=True), for a matrix given by its products",
    ),
}
