"""Spectral functions: `eigh`, `eigvalsh`, `eig`, `eigvals`, `svd`, `svdvals`, `polar`, `orthogonal_procrustes`.

The rules are those of NumPy's functions (`fgrad/ops/factorizations.py`, `fgrad/ops/singular.py`), and the
remarks there on repeated values, phases and triangles apply here. The values are SciPy's.

Not differentiable, because their results are arbitrary choices: `schur`, `orth`, `null_space`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from fgrad import errors
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.ops.families import register, sample
from fgrad.ops.lapack import in_stacks
from fgrad.ops.matrices import adjoint, conjugated, hermitian_from, stacked_batch, transposed
from fgrad.ops.solving import by_factors
from fgrad.scipy._plain import differentiates
from fgrad.scipy.linalg._arguments import OPTIONS, SCIPY, is_square, numbers, refused, rules_of, scipys_error
from fgrad.scipy.linalg.equations import triangular_solution
from fgrad.scipy.linalg.matrix_equations import sylvester_solution
from fgrad.typing import Array, ArrayLike

# Hermitian matrices


def _hermitian_parts(a: Array, triangle: str, driver: str | None) -> Any:
    def parts(a: Array) -> Any:
        return SCIPY.eigh(a, lower=triangle == "L", driver=driver, check_finite=False)

    return in_stacks(parts, a)


_EIGH_REVERSE, _EIGH_FORWARD = rules_of("eigh")

_eigh = register(
    Primitive(
        "scipy_eigh",
        _hermitian_parts,
        (lambda ans, a, triangle, driver: _EIGH_REVERSE(ans, a, triangle=triangle),),
        lambda tangents, ans, a, triangle, driver: _EIGH_FORWARD(tangents, ans, a, triangle=triangle),
        # SciPy's default driver returns vectors whose signs may change with the smallest change of the matrix.
        samples=(
            sample((3, 3), triangle="L", driver="evd", complex=False),
            sample((2, 2, 2), triangle="U", driver="evd", complex=False),
        ),
    )
)
_eigh.batch = stacked_batch(_eigh)


def _generalized(a: Array, b: Array, triangle: str, driver: str | None, kind: int) -> tuple[Any, Any]:
    """Return the parts of `a @ v = w * b @ v` (1), `a @ b @ v = w * v` (2) or `b @ a @ v = w * v` (3).

    The Cholesky factor of `b` reduces it to one Hermitian matrix, as in LAPACK.
    """
    a = hermitian_from(a, triangle)
    lower = np.linalg.cholesky(hermitian_from(b, triangle))
    if kind == 1:
        half = triangular_solution(lower, a, True, 0)
        one = adjoint(triangular_solution(lower, adjoint(half), True, 0))
    else:
        one = adjoint(lower) @ a @ lower
    w, v = apply(_eigh, (one,), {"triangle": "L", "driver": driver})
    return w, lower @ v if kind == 3 else triangular_solution(lower, v, True, 2)


_OF_HERMITIAN = """
Args:
    a: of shape (..., n, n). Only one triangle is read; the other has the derivative 0.
    b: Hermitian and positive definite, of the same shape, for `a @ v = w * b @ v`; likewise.
    lower: whether to read the lower triangles.
    type: with `b`, 1 is the equation above, 2 is `a @ b @ v = w * v`, and 3 is `b @ a @ v = w * v`.
    subset_by_index: the indices of the first and the last value of the result.
    subset_by_value: rejected if something is traced, since the number of results depends on the values.
    driver: the LAPACK function, without `b`; it may change the sign of vectors.
"""


@differentiates(scipy.linalg.eigh, _OF_HERMITIAN, OPTIONS)
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    """Return eigenvalues, in ascending order, and eigenvectors of a Hermitian matrix.

    Args:
        eigvals_only: whether to return the values alone.

    Returns:
        The values, of shape (..., n), and the vectors, as columns of shape (..., n, n).

    Raises:
        NoDerivativeError: a ValueError; the loss depends on the choice of vectors.
        ParameterError: a ValueError; `subset_by_value` is given.
        LinAlgError: a ValueError; `b` is not positive definite.
        ValueError: the shapes are incompatible, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> b = np.diag([1.0, 4.0])
        >>> fg.grad(lambda a: eigh(a, b, eigvals_only=True)[0])(np.diag([3.0, 4.0]))
        Tensor([[0.  , 0.  ],
                [0.  , 0.25]])
    """
    if subset_by_value is not None:
        raise errors.ParameterError(
            "eigh and eigvalsh do not accept subset_by_value if something is traced: the number of values would "
            "depend on the matrix.\nUse subset_by_index, or select from all values."
        )
    arrays = numbers(*([a] if b is None else [a, b]), check_finite=check_finite)
    fits = all(map(is_square, arrays)) and arrays[0].shape[-1] == arrays[-1].shape[-1]
    if not fits or (b is not None and type not in (1, 2, 3)):
        scipys_error(scipy.linalg.eigh, *arrays, type=type)
    triangle = "L" if lower else "U"
    if b is None:
        w, v = apply(_eigh, (arrays[0],), {"triangle": triangle, "driver": driver})
    else:
        w, v = _generalized(arrays[0], arrays[1], triangle, None, type)
    if subset_by_index is not None:
        first, last = map(int, subset_by_index)
        if not 0 <= first <= last < w.shape[-1]:
            scipys_error(scipy.linalg.eigh, *arrays, subset_by_index=subset_by_index)
        w, v = w[..., first : last + 1], v[..., first : last + 1]
    return w if eigvals_only else (w, v)


@differentiates(scipy.linalg.eigvalsh, _OF_HERMITIAN, OPTIONS)
def eigvalsh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    """Return eigenvalues, in ascending order, of a Hermitian matrix.

    Returns:
        The values, of shape (..., n).

    Raises:
        ParameterError: a ValueError; `subset_by_value` is given.
        LinAlgError: a ValueError; `b` is not positive definite.
        ValueError: the shapes are incompatible, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: eigvalsh(a)[1])(np.array([[1.0, 9.0], [2.0, 1.0]]))
        Tensor([[0.5, 0. ],
                [1. , 0.5]])
    """
    return eigh(
        a, b, lower=lower, eigvals_only=True, type=type, check_finite=check_finite,
        subset_by_index=subset_by_index, subset_by_value=subset_by_value, driver=driver,
    )  # fmt: skip


# General matrices


_EIG_REVERSE, _EIG_FORWARD = rules_of("eig")


def _as_numpys(ans: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return values and vectors with NumPy's dtypes: SciPy's are complex also if all of them are real."""
    w, v = ans
    return (np.real(w), v) if v.dtype.kind == "f" else ans


_eig = register(
    Primitive(
        "scipy_eig",
        lambda a: in_stacks(lambda a: scipy.linalg.eig(a, check_finite=False), a),
        (lambda ans, a: lambda cts: _EIG_REVERSE(_as_numpys(ans), a)(cts),),
        lambda tangents, ans, a: _EIG_FORWARD(tangents, _as_numpys(ans), a),
        # A two by two matrix with positive elements has different, real eigenvalues.
        samples=(sample((2, 2), domain=(0.5, 2), complex=False), sample((3, 2, 2), domain=(0.5, 2), complex=False)),
    )
)
_eig.batch = stacked_batch(_eig)


_OF_GENERAL = """
Args:
    a: of shape (..., n, n).
    b: rejected if something is traced; `eig(solve(b, a))` has the same values.
    homogeneous_eigvals: whether to return the values over ones, as two rows.
"""


@differentiates(scipy.linalg.eig, _OF_GENERAL, OPTIONS)
def eig(
    a: ArrayLike,
    b: ArrayLike | None = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Return complex eigenvalues, and eigenvectors of length 1, of a square matrix.

    Args:
        left: rejected if something is traced; the left vectors have the directions of the columns of
            `inv(v).conj().T`.
        right: whether to return the vectors, too.

    Returns:
        The values, of shape (..., n), and the vectors, as columns of shape (..., n, n).

    Raises:
        NoDerivativeError: a ValueError; the loss depends on the choice of vectors.
        ParameterError: a ValueError; `b` or `left` is given.
        ValueError: `a` is not square, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: eig(a)[0].imag[0])(np.array([[0.0, 1.0], [-1.0, 0.0]]))
        Tensor([[ 0. ,  0.5],
                [-0.5,  0. ]])
    """
    if b is not None:
        raise errors.ParameterError(
            "eig and eigvals do not accept `b` if something is traced; eig(solve(b, a)) has the same results, "
            "in another order."
        )
    if left:
        raise errors.ParameterError(
            "eig does not return left vectors if something is traced.\n"
            "With w, v = eig(a) they have the directions of the columns of inv(v).conj().T."
        )
    (a,) = numbers(a, check_finite=check_finite)
    if not is_square(a):
        scipys_error(scipy.linalg.eig, a)
    w, v = apply(_eig, (a,))
    w = np.stack([w, np.ones_like(w)], axis=-2) if homogeneous_eigvals else w
    return (w, v) if right else w


@differentiates(scipy.linalg.eigvals, _OF_GENERAL, OPTIONS)
def eigvals(
    a: ArrayLike,
    b: ArrayLike | None = None,
    overwrite_a: bool = False,
    *,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Return the complex eigenvalues of a square matrix.

    Versions of SciPy differ in the order of the last parameters.

    Returns:
        The values, of shape (..., n).

    Raises:
        ParameterError: a ValueError; `b` is given.
        ValueError: `a` is not square, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: np.sum(eigvals(a).real))(np.array([[1.0, 2.0], [0.0, 3.0]])).round(12)
        Tensor([[1., 0.],
                [0., 1.]])
    """
    return eig(a, b, right=False, check_finite=check_finite, homogeneous_eigvals=homogeneous_eigvals)


# Singular values


def _singular_parts(a: Array, full_matrices: bool, driver: str) -> Any:
    def parts(a: Array) -> Any:
        return SCIPY.svd(a, full_matrices, lapack_driver=driver, check_finite=False)

    return in_stacks(parts, a)


_SVD_REVERSE, _SVD_FORWARD = rules_of("svd")

_svd = register(
    Primitive(
        "scipy_svd",
        _singular_parts,
        (lambda ans, a, full_matrices, driver: _SVD_REVERSE(ans, a, full_matrices=full_matrices, hermitian=False),),
        lambda tangents, ans, a, full_matrices, driver: _SVD_FORWARD(
            tangents, ans, a, full_matrices=full_matrices, hermitian=False
        ),
        samples=(
            sample((3, 3), full_matrices=True, driver="gesdd", complex=False),
            sample((2, 2, 3), full_matrices=False, driver="gesvd", complex=False),
        ),
    )
)
_svd.batch = stacked_batch(_svd)


@differentiates(scipy.linalg.svd, OPTIONS)
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Return singular values, the largest one first, between the left and right vectors.

    Args:
        a: of shape (..., m, n).
        full_matrices: whether to complete the vectors to bases. A loss may depend only on the span of the added ones.
        compute_uv: whether to return the vectors, too.
        lapack_driver: "gesdd" or "gesvd".

    Returns:
        The left vectors as columns, the values, and the conjugated right vectors as rows.

    Raises:
        NoDerivativeError: a ValueError; the loss depends on the choice of vectors.
        ValueError: the driver is unknown, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: svd(a, compute_uv=False)[0])(np.diag([3.0, 2.0]))
        Tensor([[1., 0.],
                [0., 0.]])
    """
    (a,) = numbers(a, check_finite=check_finite)
    if a.ndim < 2 or lapack_driver not in ("gesdd", "gesvd"):
        scipys_error(scipy.linalg.svd, a, lapack_driver=lapack_driver)
    metadata = {"full_matrices": bool(full_matrices and compute_uv), "driver": lapack_driver}
    parts = apply(_svd, (a,), metadata)
    return parts if compute_uv else parts[1]


@differentiates(scipy.linalg.svdvals, OPTIONS)
def svdvals(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return singular values, the largest one first.

    Args:
        a: of shape (..., m, n).

    Returns:
        The values, of shape (..., min(m, n)).

    Raises:
        ValueError: there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: np.sum(svdvals(a)))(np.diag([3.0, -2.0]))
        Tensor([[ 1.,  0.],
                [ 0., -1.]])
    """
    return svd(a, compute_uv=False, check_finite=check_finite)


# The nearest matrix with orthonormal columns


def _nearest(a: Array) -> Any:
    if not a.shape[-1]:
        return a
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    return u @ vh


def _stretch(u: Array, a: Array) -> Any:
    """Return the Hermitian `p` with `a = u @ p`."""
    p = adjoint(u) @ a
    return 0.5 * (p + adjoint(p))


def _turn(p: Array, moved: Array) -> Any:
    """Return the skew-Hermitian `w` with `w @ p + p @ w = moved`."""
    return sylvester_solution(p, p, moved, "scipy.linalg.polar", same=True, is_derivative=True)


def _nearest_rule(ans: Array, a: Array) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        p = transposed(_stretch(ans, a))
        inner = _turn(p, transposed(ans) @ ct)
        back = conjugated(ans) @ (inner - adjoint(inner))
        if a.shape[-2] > a.shape[-1]:
            rest = ct - conjugated(ans) @ (transposed(ans) @ ct)
            back = back + transposed(by_factors(transposed(p), transposed(rest)))
        return back

    return pullback


def _nearest_tangent(tangents: Sequence[Any], ans: Array, a: Array) -> Any:
    p = _stretch(ans, a)
    inner = adjoint(ans) @ tangents[0]
    moved = ans @ _turn(p, inner - adjoint(inner))
    if a.shape[-2] > a.shape[-1]:
        rest = tangents[0] - ans @ inner
        moved = moved + transposed(by_factors(transposed(p), transposed(rest)))
    return moved


# With a = u @ p the tangent of u is u @ w + (da - u @ u^H @ da) @ inv(p), where w is skew-Hermitian and
# w @ p + p @ w = u^H @ da - da^H @ u (N. Higham, "Functions of Matrices" (2008), section 8.1). This is regular for
# equal singular values, to every order.
_nearest_factor = register(
    Primitive(
        "unitary_factor",
        _nearest,
        (_nearest_rule,),
        _nearest_tangent,
        samples=(sample((3, 3)), sample((4, 2)), sample((2, 3, 2)), sample((0, 0))),
    )
)
_nearest_factor.batch = stacked_batch(_nearest_factor)


def _unitary_factor(a: Array) -> Any:
    if a.shape[-2] < a.shape[-1]:
        return adjoint(apply(_nearest_factor, (adjoint(a),)))
    return apply(_nearest_factor, (a,))


@differentiates(scipy.linalg.polar)
def polar(a: Any, side: str = "right") -> Any:
    """Return the factors of `a = u @ p`, or of `a = p @ u`: one with orthonormal columns or rows, one Hermitian.

    Args:
        a: of full rank, of shape (..., m, n).
        side: "right" for `u @ p`, "left" for `p @ u`.

    Returns:
        The factors `u`, of the shape of `a`, and `p`.

    Raises:
        NoDerivativeError: a ValueError; the rank is not full, and a derivative is needed.
        ValueError: `side` is unknown, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: polar(a)[0][0, 1])(np.diag([3.0, 1.0]))
        Tensor([[ 0.  ,  0.25],
                [-0.25,  0.  ]])
    """
    (a,) = numbers(a)
    if side not in ("right", "left") or a.ndim < 2:
        scipys_error(scipy.linalg.polar, a, side=side)
    u = _unitary_factor(a)
    return u, _stretch(u, a) if side == "right" else _stretch(adjoint(u), adjoint(a))


@differentiates(scipy.linalg.orthogonal_procrustes, OPTIONS)
def orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> Any:  # noqa: N803  # SciPy's names
    """Return the orthogonal `r` for which `A @ r` comes closest to `B`, and the sum of singular values of `A.T @ B`.

    Args:
        A: of shape (..., m, n).
        B: of the same shape.

    Returns:
        The matrix, of shape (..., n, n), and the sum.

    Raises:
        NoDerivativeError: a ValueError; `A.T @ B` is singular, and a derivative is needed.
        ValueError: the shapes differ, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> a = np.eye(2)
        >>> fg.grad(lambda b: orthogonal_procrustes(a, b)[0][0, 1])(np.diag([3.0, 1.0]))
        Tensor([[ 0.  ,  0.25],
                [-0.25,  0.  ]])
    """
    A, B = numbers(A, B, check_finite=check_finite)  # noqa: N806
    if A.ndim < 2 or A.shape[-2:] != B.shape[-2:]:
        scipys_error(scipy.linalg.orthogonal_procrustes, A, B)
    product = adjoint(A) @ B
    return _unitary_factor(product), np.sum(np.linalg.svdvals(product), axis=-1)


# Arbitrary choices


schur = refused(
    scipy.linalg.schur,
    "has no derivative in fgrad: the order of the values, and the vectors of each block, are chosen arbitrarily.",
    "Functions of the matrix have one: expm, logm, sqrtm, solve_sylvester; and so have eig and eigvals.",
    """>>> np.diag(fgrad.scipy.linalg.schur(np.array([[2.0, 1.0], [0.0, 3.0]]))[0])
        array([2., 3.])""",
)
orth = refused(
    scipy.linalg.orth,
    "has no derivative: it chooses one of many bases.",
    "The projection on their span, `a @ pinv(a)`, has one.",
    """>>> np.abs(fgrad.scipy.linalg.orth(np.array([[2.0, 0.0], [0.0, 0.0]])))
        array([[1.],
               [0.]])""",
)
null_space = refused(
    scipy.linalg.null_space,
    "has no derivative: it chooses one of many bases.",
    "The projection on their span, `np.eye(n) - pinv(a) @ a`, has one.",
    """>>> np.abs(fgrad.scipy.linalg.null_space(np.array([[2.0, 0.0]])))
        array([[0.],
               [1.]])""",
)
