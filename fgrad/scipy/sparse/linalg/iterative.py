"""Iterative solvers: `cg`, `bicgstab`, `gmres`, `minres`.

The derivative is not that of the iterations, but of the solution: it is solved for by the same method, with the same
tolerances, once for each system.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse.linalg

from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.core.snapshots import LARGE
from fgrad.ops.elementwise import astype
from fgrad.ops.tracing import raw_array
from fgrad.rules.closures import followers
from fgrad.scipy._plain import differentiates
from fgrad.scipy.sparse.arrays import SparseArray
from fgrad.scipy.sparse.linalg._systems import on_plain, solution, system
from fgrad.typing import Array, ArrayLike

_SCIPY: Any = scipy.sparse.linalg
_FOR_HERMITIAN = {"cg", "minres"}


class Iterations:
    """Solver by an iterative method of SciPy.

    Args:
        method: SciPy's function.
        options: its keyword arguments.
        is_strict: whether to raise if it does not converge; otherwise `info` is set.
    """

    def __init__(self, method: Callable[..., Any], options: dict[str, Any], is_strict: bool = False) -> None:
        self._method, self._options, self._is_strict = method, options, is_strict
        self.info = 0

    def solve(self, matrix: Any, b: Any, of_transpose: bool) -> Any:
        """Return the solution; see `Solver`."""
        conjugates = of_transpose and self._method.__name__ in _FOR_HERMITIAN
        if conjugates:  # the transpose of a Hermitian matrix is its conjugate
            b, of_transpose = np.conjugate(b), False
        options = _of_transpose(self._options) if of_transpose else self._options
        a = (matrix.T if of_transpose else matrix).tocsr()
        columns = [self._column(a, column, options) for column in b.T]
        x = np.stack(columns, axis=-1) if columns else np.zeros_like(b)
        return np.conjugate(x) if conjugates else x

    def _column(self, matrix: object, b: Array, options: dict[str, Any]) -> Any:
        if not self._is_strict or not np.any(b):
            return self._run(matrix, b, options)
        size = np.linalg.norm(b)  # a derivative may have any scale, and SciPy's methods fail for small ones
        return self._run(matrix, b / size, options) * size

    def _run(self, matrix: object, b: Array, options: dict[str, Any]) -> Any:
        x, info = self._method(matrix, b, **options)
        self.info = self.info or int(info)
        if info and self._is_strict:
            raise _not_converged(self._method.__name__, info, "a system of its derivative")
        return x

    def for_derivatives(self) -> Iterations:
        """Return the solver of derivatives, which starts at 0 and has no callback."""
        if self._is_strict:
            return self
        if self.info:
            raise _not_converged(self._method.__name__, self.info, "the system whose solution is differentiated")
        kept = {name: value for name, value in self._options.items() if name not in ("x0", "callback", "show", "check")}
        return Iterations(self._method, kept, is_strict=True)

    def __repr__(self) -> str:
        return str(self._method.__name__)


def _of_transpose(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the transposed preconditioner, or without one if it has no transpose."""
    preconditioner = options.get("M")
    if preconditioner is None:
        return options
    turned: Any = scipy.sparse.linalg.aslinearoperator(preconditioner).T
    try:
        turned.matvec(np.zeros(turned.shape[1]))
    except NotImplementedError:  # it only saves time
        turned = None
    return {**options, "M": turned}


def _not_converged(function: str, info: int, what: str) -> errors.ConvergenceError:
    return errors.ConvergenceError(
        f"{function} did not solve {what}: it returned info={info}.\n"
        "Give a larger maxiter, a preconditioner M (with rmatvec, if it is a LinearOperator), or a larger rtol; or use "
        "fgrad.scipy.sparse.linalg.spsolve."
    )


_DOCUMENTATION = """{summary}

    The derivative is that of the solution of the system, solved for by the same method.

    Args:
        A: {matrix} of shape (n, n), sparse or dense; a LinearOperator, if nothing is traced.
        b: of shape (n,).
        x0: the starting point; it has no derivative, and under `fg.vmap` it is 0.
        rtol, atol: the tolerances of residuals, relative to `b` and absolute. They apply to the systems of
            derivatives, too, which are not more accurate. Older versions of SciPy also have `tol`.
        maxiter: the maximal number of iterations.
        M: a preconditioner, an approximate inverse of `A`; it has no derivative.
        callback: called after each iteration on `A @ x = b`.{extra}

    Returns:
        The solution, and `info`: 0 if it converged; otherwise as in SciPy. For a batch it is the first that is not 0.

    Raises:
        ConvergenceError: a RuntimeError; a derivative is needed, and the system or one of its derivatives did not
            converge; or a recorded program runs, and its system does not converge.
        ValueError: the shapes are incompatible.

    Example:
        >>> import numpy as np, fgrad as fg, scipy.sparse
        >>> a = scipy.sparse.csr_array([[4.0, 1.0], [1.0, 3.0]])
        >>> fg.grad(lambda b: {name}(a, b, rtol=1e-10)[0][0])(np.array([1.0, 2.0])).numpy().round(6)
        array([ 0.272727, -0.090909])
    """


def _iterating(method: Callable[..., Any], summary: str, extra: str, matrix: str) -> Callable[..., Any]:
    """Return the implementation of a SciPy method for traced arguments."""

    def solve(A: object, b: ArrayLike, x0: ArrayLike | None = None, **options: object) -> Any:  # noqa: N803
        whole, right = system(A, b, method.__name__)
        if right.ndim == 2 and right.shape[1] != 1:
            raise ValueError(f"shapes of A {whole.shape} and b {right.shape} are incompatible")
        # A recorded program runs later, when `info` cannot be checked.
        right = _in_precision_of(method.__name__, right)
        is_program = any(trace.is_program for trace in followers([whole.data, right]))
        plain = {name: _constant(value) for name, value in {**options, "x0": x0}.items()}
        solver = Iterations(method, plain, is_program)
        x = solution(whole, right[:, 0] if right.ndim == 2 else right, solver)
        return x, solver.info

    solve.__name__ = solve.__qualname__ = method.__name__
    solve.__module__ = __name__
    solve.__doc__ = _DOCUMENTATION.format(summary=summary, extra=extra, matrix=matrix, name=method.__name__)
    answer = differentiates(on_plain(method))(solve)
    answer.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    del answer.__wrapped__  # type: ignore[attr-defined]
    return answer


def _in_precision_of(method: str, b: Array) -> Any:
    """Return a right-hand side in the dtype of a method."""
    if method != "minres":
        return b
    if b.dtype.kind == "c":
        raise errors.UnsupportedError(
            "minres was called with complex numbers, whose imaginary parts SciPy's discards.\n"
            f"  at {errors.users_line()}\nWrite gmres, or cg if the matrix is positive definite."
        )
    return astype(b, _precision_of_minres(b.dtype))


@functools.cache
def _precision_of_minres(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of solutions, which before SciPy 1.18 is double precision."""
    return _SCIPY.minres(np.eye(1, dtype=dtype), np.ones(1, dtype))[0].dtype  # type: ignore[no-any-return]


def _constant(option: Any) -> Any:
    """Return a snapshot of an option, without its traces; None for one that differs between examples.

    A preconditioner is used again in the backward pass. A large one is not copied: if it is modified,
    the solution is still the same.
    """
    is_sparse: bool = scipy.sparse.issparse(option)
    if is_sparse or isinstance(option, np.ndarray):
        return option if option.size * option.dtype.itemsize > LARGE else option.copy()
    if isinstance(option, SparseArray):
        data = _constant(option.data)
        return None if data is None else option.pattern.with_elements(data)
    if type(option) not in BOXES:
        return option
    value = raw_array(option)
    return value if value.shape == option.shape else None


cg = _iterating(
    _SCIPY.cg, "Solve a Hermitian positive definite system by conjugate gradients.", "", "Hermitian, positive definite,"
)
bicgstab = _iterating(_SCIPY.bicgstab, "Solve a system by stabilized biconjugate gradients.", "", "a matrix")
gmres = _iterating(
    _SCIPY.gmres,
    "Solve a system by generalized minimal residuals.",
    "\n        restart, callback_type: as in SciPy.",
    "a matrix",
)
minres = _iterating(
    _SCIPY.minres,
    "Solve a Hermitian system by minimal residuals.",
    "\n        shift: solve `(A - shift * I) @ x = b`.\n        show, check: as in SciPy.",
    "Hermitian,",
)
