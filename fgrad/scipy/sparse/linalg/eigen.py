"""Some eigenvalues and eigenvectors of a large Hermitian matrix: `eigsh`.

For `A v = w v` with `v` of length 1, `dw = v^H dA v` and `dv = -G dA v`, where `G` is the inverse of `A - w I` on the
orthogonal complement of `v` (J. R. Magnus, "On differentiating eigenvalues and eigenvectors" (1985),
https://doi.org/10.1017/S0266466600011129). `G` is not formed: the bordered matrix `[[A - w I, v], [v^H, 0]]` is sparse,
and regular for a simple eigenvalue, and solving with it gives products with `G`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse.linalg

from fgrad import errors
from fgrad.core.masked import unmasked
from fgrad.core.primitive import BOXES, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.families import register, sample
from fgrad.ops.lapack import in_stacks
from fgrad.ops.matrices import conjugated, cotangent_of, real
from fgrad.ops.tracing import is_always_zero, raw_array, raw_arrays
from fgrad.scipy._plain import called_as, differentiates
from fgrad.scipy.linalg._arguments import numbers
from fgrad.scipy.sparse._patterns import Pattern, placed
from fgrad.scipy.sparse._products import product, sampled, stacks, supported
from fgrad.scipy.sparse.arrays import made
from fgrad.scipy.sparse.linalg._systems import as_matrix, on_plain, solution
from fgrad.scipy.sparse.linalg.direct import Factors
from fgrad.typing import Array

_SCIPY: Any = scipy.sparse.linalg

Options = dict[str, Any]


def _found(data: Any, pattern: Pattern, options: Options) -> Any:
    def find(row: Array) -> Any:
        matrix = pattern.with_elements(row[0]).tocsr()
        hermitian = (matrix + matrix.conj().T) * row.dtype.type(0.5)
        given = {"v0": _start(pattern.shape[0], row.dtype), **options}
        w, v = _SCIPY.eigsh(hermitian, **{**given, "return_eigenvectors": True})
        if given.get("return_eigenvectors", True) or len(w) < 2:
            return w, v
        # Without vectors SciPy returns the values in another order, which depends on `which` and the dtype.
        ranks = np.argsort(np.argsort(_SCIPY.eigsh(hermitian, **given)))
        order = np.argsort(w)[ranks]
        return w[order], v[:, order]

    w, v = in_stacks(find, data.astype(supported(data.dtype), copy=False)[..., None, :])
    real_dtype = np.finfo(data.dtype).dtype
    return w.astype(real_dtype, copy=False), v.astype(data.dtype, copy=False)


def _start(size: int, dtype: np.dtype[Any]) -> Any:
    """Return the starting vector of ARPACK: always the same one, so that repeated runs agree."""
    return np.random.default_rng(0).uniform(-1, 1, size).astype(dtype)


def _bordered(data: Array, w: Array, v: Array, pattern: Pattern) -> Any:
    """Return the matrix `[[A - w I, v], [v^H, 0]]` for one eigenvalue and its vector, with the Hermitian part of A."""
    size = pattern.shape[0]
    rows, columns = pattern.coordinates
    all_rows, last = np.arange(size), np.full(size, size)
    places = placed(
        np.concatenate((rows, columns, all_rows, all_rows, last)),
        np.concatenate((columns, rows, all_rows, last, all_rows)),
        (size + 1, size + 1),
    )
    halves = 0.5 * data, 0.5 * conjugated(data)
    return made(places, np.concatenate((*halves, np.broadcast_to(-w, (size,)), v, conjugated(v))))


def _reduced(data: Array, ans: tuple[Any, ...], b: Array, pattern: Pattern, of_transpose: bool) -> Array:
    """Return the products of `G` of each eigenvalue with the corresponding column of `b`."""
    w, v = ans
    columns = []
    for i in range(w.shape[-1]):
        matrix = _bordered(data, w[i], v[:, i], pattern)
        right = np.concatenate((b[:, i], np.zeros((1,), b.dtype)))
        try:
            found = solution(matrix, right, Factors(False), of_transpose)[:-1]
        except RuntimeError:
            raise _repeated() from None
        _check_size(found, right, w)
        columns.append(found)
    return np.stack(columns, axis=-1)


_LARGEST = 1e11


def _check_size(found: Array, right: Array, w: Array) -> None:
    """Reject a solution so large that the eigenvalue cannot be simple."""
    found, right, w = map(raw_array, (found, right, w))
    sizes = [np.max(np.abs(x), initial=0) for x in (found, right, w)]
    if not sizes[0] * sizes[2] <= _LARGEST * sizes[1]:
        raise _repeated()


def _repeated() -> errors.NoDerivativeError:
    return errors.NoDerivativeError(
        "an eigenvector of eigsh belongs to a repeated eigenvalue: it is chosen arbitrarily, and "
        "there is no derivative.\nLet the loss depend on the eigenvalues alone, with return_eigenvectors=False."
    )


def _rule(ans: tuple[Any, ...], data: Array, pattern: Pattern, options: Options) -> Callable[[Any], Any]:
    def pullback(cts: object) -> Any:
        v = ans[1]
        ct_w, ct_v = (unmasked(cotangent_of(cts, place)) for place in (0, 1))
        left = np.zeros_like(v) if ct_w is None else conjugated(v) * ct_w[..., None, :]
        if ct_v is not None and not is_always_zero(ct_v):
            _check_phase(v, ct_v)
            left = left - _of_each(_reduced, data, ans, ct_v, pattern, True)
        return 0.5 * (sampled(left, v, pattern) + conjugated(sampled(left, v, pattern.T)))

    return pullback


def _of_each(
    function: Callable[..., Any], data: Array, ans: tuple[Any, ...], b: Array, pattern: Pattern, of_transpose: bool
) -> Any:
    """Return the results of a function for each of a stack of matrices."""
    if data.ndim == 1:
        return function(data, ans, b, pattern, of_transpose)
    w, v = ans
    each = [_of_each(function, data[i], (w[i], v[i]), b[i], pattern, of_transpose) for i in range(len(data))]
    return np.stack(each)


def _check_phase(v: Array, ct: Array) -> None:
    """Reject a loss that depends on the phase of a vector, which ARPACK chooses."""
    if v.dtype.kind != "c":
        return
    v, ct = raw_arrays(v, ct)
    turned = np.abs(np.sum(v * ct, axis=-2).imag)
    if np.max(turned, initial=0) > np.cbrt(np.finfo(v.dtype).eps) * np.max(np.abs(ct), initial=0):
        raise errors.NoDerivativeError(
            "the loss depends on the phase of a complex eigenvector, which eigsh chooses arbitrarily: there is no "
            "derivative.\nUse quantities that are the same for every phase, such as np.abs(v)**2."
        )


def _tangent(tangents: Sequence[Any], ans: tuple[Any, ...], data: Array, pattern: Pattern, options: Options) -> Any:
    (t,), (_, v) = tangents, ans
    pushed = 0.5 * (product(t, v, pattern) + product(conjugated(t), v, pattern.T))
    moved = real(np.sum(conjugated(v) * pushed, axis=-2))
    return moved, -_of_each(_reduced, data, ans, pushed, pattern, False)


_CHAIN = placed(np.array([0, 1, 2, 3, 0, 1, 1, 2]), np.array([0, 1, 2, 3, 1, 0, 2, 1]), (4, 4))

_entry = register(
    Primitive(
        "eigsh",
        _found,
        (_rule,),
        _tangent,
        samples=(
            sample((8,), complex=False, pattern=_CHAIN, options={"k": 2, "which": "LA"}),
            sample((2, 8), complex=False, pattern=_CHAIN, options={"k": 1, "which": "SA"}),
        ),
    )
)
_entry.batch = stacks(1)(_entry)


@differentiates(on_plain(_SCIPY.eigsh))
@called_as(scipy.sparse.linalg.eigsh)
def eigsh(A: object, k: int = 6, M: object = None, **options: Any) -> Any:  # noqa: N803
    """Find some eigenvalues of a Hermitian matrix, and their eigenvectors.

    Args:
        A: of shape (n, n), sparse or dense; its Hermitian part is used.
        k: the number of eigenvalues; if something is traced, less than n, and less than n - 1 for a complex matrix.
        M: must be None, if something is traced: generalized problems are not supported.
        options: as in SciPy: `sigma`, `which`, `v0`, `ncv`, `maxiter`, `tol`, `return_eigenvectors`, ... With `tol` the
            derivatives are as inaccurate as the values. ARPACK always starts from the same vector, unless `v0` is
            given.

    Returns:
        The eigenvalues, of shape (k,), and unless `return_eigenvectors` is False the vectors, of shape (n, k). The
        values are in SciPy's order, which is another one without the vectors.

    Raises:
        UnsupportedError: a NotImplementedError; something is traced, and `M` is given, or `k` is too large.
        NoDerivativeError: a ValueError; the derivative of a vector is needed, and its eigenvalue is not simple, or the
            loss depends on the phase of a complex one.
        ValueError: the matrix is not square.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> from fgrad.scipy import sparse
        >>> def largest(diagonal):
        ...     return eigsh(sparse.diags_array(diagonal), k=1, return_eigenvectors=False)[0]
        >>> np.round(fg.grad(largest)(np.array([1.0, 5.0, 2.0])), 6)
        Tensor([0., 1., 0.])
    """
    if M is not None:
        raise errors.UnsupportedError(
            f"eigsh was called with M and a traced argument, but generalized problems have no derivative.\n"
            f"  at {errors.users_line()}\nWith the factor of M = L @ L.T solve for inv(L) @ A @ inv(L).T."
        )
    with_vectors = options.get("return_eigenvectors", True)
    matrix = as_matrix(A, "eigsh")
    (data,) = numbers(matrix.data, check_finite=False)
    most = matrix.shape[0] - (2 if data.dtype.kind == "c" else 1)
    if k > most:
        raise errors.UnsupportedError(
            f"eigsh was called with k={k} for a {'complex' if data.dtype.kind == 'c' else 'real'} matrix of "
            f"shape {matrix.shape}, of which ARPACK finds {most} eigenvalues at most; for a plain dense matrix "
            f"SciPy computes all.\n  at {errors.users_line()}\nUse np.linalg.eigh(A), for a sparse matrix with "
            "A.toarray()."
        )
    given = {name: value for name, value in options.items() if name != "v0" or value is not None}
    if type(given.get("v0")) in BOXES:
        given["v0"] = raw_array(given["v0"])
    w, v = apply(_entry, (data,), {"pattern": matrix.pattern, "options": {"k": k, **given}})
    return (w, v) if with_vectors else w
