"""Sylvester, Lyapunov and algebraic Riccati equations.

    solve_sylvester(a, b, q)             a @ x + x @ b = q
    solve_continuous_lyapunov(a, q)      a @ x + x @ a^H = q
    solve_discrete_lyapunov(a, q)        a @ x @ a^H - x + q = 0
    solve_continuous_are(a, b, q, r)     a^H @ x + x @ a - x @ b @ inv(r) @ b^H @ x + q = 0
    solve_discrete_are(a, b, q, r)       the same for discrete time

The solution of one transposed equation gives the cotangents of all arguments, which are therefore passed to a primitive
as one matrix. For the Sylvester equation the Schur factors of `a` and `b` are computed once, for the value and for
derivatives of every order.

Source: T.-C. Kao and G. Hennequin, "Automatic differentiation of Sylvester, Lyapunov, and algebraic Riccati
equations" (2020), https://arxiv.org/abs/2011.11430; extended here to the generalized Riccati equations.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg

from fgrad import errors
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.ops.lapack import fixed, in_stacks, lapack
from fgrad.ops.matrices import adjoint, conjugated, stacked_batch, transposed
from fgrad.ops.solving import by_factors
from fgrad.scipy._plain import differentiates, family
from fgrad.scipy.linalg._arguments import in_double, in_one_stack, is_square, numbers, scipys_error
from fgrad.typing import Array, ArrayLike, Operand


def _beside(*parts: Array) -> Array:
    """Return matrices side by side; stacks are broadcast."""
    return np.concatenate(in_one_stack(*parts), axis=-1)


def _blocks(*rows: tuple[Any, ...]) -> Any:
    """Return a matrix from rows of blocks."""
    return transposed(_beside(*(transposed(_beside(*row)) for row in rows)))


def _zeros(like: Array, rows: int, columns: int) -> Array:
    return np.zeros((rows, columns), like.dtype)


def _of_one_kind(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a SciPy function that is called with real arrays only or, if one is complex, with complex ones only.

    For a mixture SciPy computes a complex Schur form that still has blocks on its diagonal, and its result does
    not solve the equation.
    """

    def as_complex(x: object) -> str | Array | None:
        return x if x is None or isinstance(x, str) else np.asarray(x) + 0j

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        if any(map(np.iscomplexobj, (*args, *keywords.values()))):
            args, keywords = tuple(map(as_complex, args)), {name: as_complex(x) for name, x in keywords.items()}
        return function(*args, **keywords)

    return call


# The Sylvester equation


def _schur_of(a: Array) -> tuple[Any, Any]:
    if not a.shape[-1]:
        return a, a
    return in_stacks(lambda a: scipy.linalg.schur(a, check_finite=False), a)  # type: ignore[no-any-return]


_schur = fixed("schur_factors", _schur_of)


_WARNING = {"scipy.linalg.solve_continuous_lyapunov", "scipy.linalg.solve_discrete_lyapunov"}


def _perturbed(function: str, is_derivative: bool) -> None:
    """Raise or warn if the equation has no unique solution; SciPy is silent for the Sylvester equation."""
    if is_derivative:
        raise errors.NoDerivativeError(
            f"{function} has no derivative here: the equation that its derivative solves is singular.\n"
            "So it is for the square root, or the polar factors, of a singular matrix."
        )
    if function in _WARNING:
        message = (
            'Input "a" has an eigenvalue pair whose sum is very close to or exactly zero. The solution is obtained '
            "via perturbing the coefficients."
        )
        warnings.warn(message, RuntimeWarning, stacklevel=2)


def _solved(
    joined: Array,
    *factors: Array,
    rows: int,
    of_transpose: bool,
    of_adjoint: bool,
    function: str,
    is_derivative: bool,
) -> Any:
    turned = "NC"

    def solve_one(joined: Array, r: Array, u: Array, s: Array, v: Array) -> Any:
        q = joined[:rows, rows:]
        q = np.conjugate(q) if of_transpose else q
        inner = np.conjugate(u.T) @ q @ v
        y, scale, info = lapack("trsyl", inner.dtype.char)(
            r, s, inner, trana=turned[of_transpose], tranb=turned[of_transpose != of_adjoint]
        )
        if info == 1:
            _perturbed(function, is_derivative)
        x = (u @ y @ np.conjugate(v.T)) / scale
        return np.conjugate(x) if of_transpose else x

    if not 0 < rows < joined.shape[-1]:
        return joined[..., :rows, rows:]
    return in_stacks(solve_one, joined, *factors)


def _parts(joined: Array, rows: int) -> tuple[Any, Any]:
    return joined[..., :rows, :rows], joined[..., rows:, rows:]


def _sylvester_rule(
    ans: Array, joined: Array, *factors: Array, rows: int, of_transpose: bool, **how: object
) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        a, b = _parts(joined, rows)
        metadata = {**how, "rows": rows, "of_transpose": not of_transpose, "is_derivative": True}
        moved = apply(_sylvester, (_joined(a, b, ct), *factors), metadata)
        ct_a, ct_b = moved @ transposed(ans), transposed(ans) @ moved
        if of_transpose:
            ct_a, ct_b = transposed(ct_a), transposed(ct_b)
        return _joined(-ct_a, -ct_b, moved)

    return pullback


def _sylvester_tangent(
    tangents: Sequence[Any], ans: Array, joined: Array, *factors: Array, rows: int, of_transpose: bool, **how: object
) -> Any:
    moved = tangents[0]
    ta, tb = _parts(moved, rows)
    ta, tb = (transposed(ta), transposed(tb)) if of_transpose else (ta, tb)
    tq = moved[..., :rows, rows:] - ta @ ans - ans @ tb
    metadata = {**how, "rows": rows, "of_transpose": of_transpose, "is_derivative": True}
    return apply(_sylvester, (_joined(*_parts(joined, rows), tq), *factors), metadata)


def _joined(a: Array, b: Array, q: Array) -> Any:
    """Return the arguments of the Sylvester equation as one matrix."""
    return _blocks((a, q), (_zeros(b, b.shape[-1], a.shape[-1]), b))


_sylvester = Primitive(
    "sylvester",
    _solved,
    (_sylvester_rule, None, None, None, None),
    _sylvester_tangent,
    broadcasts=True,
)
_sylvester.batch = stacked_batch(_sylvester)


def sylvester_solution(
    a: Any, b: Any, q: Any, function: str, same: bool = False, of_adjoint: bool = False, is_derivative: bool = False
) -> Any:
    """Return the `x` with `a @ x + x @ b = q`.

    Args:
        a, b, q: arrays or tensors of one dtype; stacks are broadcast.
        function: the name in messages.
        same: whether `b` is `a`, which then is factored once.
        of_adjoint: whether `b` is the adjoint of `a`, likewise.
        is_derivative: whether the solution is part of the derivative of `function`.

    Raises:
        NoDerivativeError: a ValueError; the equation is singular, and its solution is needed for a derivative.
    """
    factors = _schur(a)
    factors = factors + (factors if same or of_adjoint else _schur(b))
    metadata = {
        "rows": a.shape[-1], "of_transpose": False, "of_adjoint": of_adjoint, "function": function,
        "is_derivative": is_derivative,
    }  # fmt: skip
    return apply(_sylvester, (_joined(a, b, q), *factors), metadata)


@differentiates(_of_one_kind(scipy.linalg.solve_sylvester))
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Solve the Sylvester equation `a @ x + x @ b = q`.

    Args:
        a: of shape (..., m, m).
        b: of shape (..., n, n).
        q: of shape (..., m, n).

    Returns:
        The solution, of shape (..., m, n).

    Raises:
        NoDerivativeError: a ValueError; the equation is singular, and a derivative is needed.
        ValueError: the shapes are incompatible, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> a, b, q = np.diag([1.0, 2.0]), np.array([[3.0]]), np.array([[4.0], [5.0]])
        >>> fg.grad(lambda b: solve_sylvester(a, b, q)[0, 0])(b)
        Tensor([[-0.25]])
    """
    a, b, q = numbers(a, b, q)
    if not (is_square(a) and is_square(b) and q.ndim >= 2 and q.shape[-2:] == (a.shape[-1], b.shape[-1])):
        scipys_error(scipy.linalg.solve_sylvester, a, b, q)
    return sylvester_solution(a, b, q, "scipy.linalg.solve_sylvester")


# Lyapunov equations


@differentiates(_of_one_kind(scipy.linalg.solve_continuous_lyapunov))
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """Solve the continuous Lyapunov equation `a @ x + x @ a.conj().T = q`.

    Args:
        a: of shape (..., n, n).
        q: of the same shape.

    Returns:
        The solution, of the same shape.

    Raises:
        NoDerivativeError: a ValueError; the equation is singular, and a derivative is needed.
        ValueError: the shapes are incompatible, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: solve_continuous_lyapunov(a, np.eye(2))[0, 0])(np.diag([1.0, 2.0])) + 0
        Tensor([[-0.5,  0. ],
                [ 0. ,  0. ]])
    """
    a, q = numbers(a, q)
    if not is_square(a) or a.shape[-2:] != q.shape[-2:]:
        scipys_error(scipy.linalg.solve_continuous_lyapunov, a, q)
    return sylvester_solution(a, adjoint(a), q, "scipy.linalg.solve_continuous_lyapunov", of_adjoint=True)


solve_lyapunov = solve_continuous_lyapunov


def _by_kronecker(a: Array, q: Array) -> Array:
    size = a.shape[-1]
    products = a[..., :, None, :, None] * conjugated(a)[..., None, :, None, :]
    lhs = np.eye(size**2) - np.reshape(products, (*a.shape[:-2], size**2, size**2))
    return np.reshape(by_factors(lhs, np.reshape(q, (*q.shape[:-2], size**2, 1))), q.shape)


def _by_bilinear_map(a: Array, q: Array, function: str, is_derivative: bool) -> Any:
    one = np.eye(a.shape[-1])
    moved = transposed(by_factors(transposed(a + one), transposed(a - one)))  # (a - 1) @ inv(a + 1)
    half = by_factors(a + one, q)
    scaled = 2 * adjoint(by_factors(a + one, adjoint(half)))
    return sylvester_solution(moved, adjoint(moved), -scaled, function, of_adjoint=True, is_derivative=is_derivative)


def _discrete_solution(a: Array, q: Array, method: str | None, function: str, is_derivative: bool = False) -> Any:
    if a.shape[-1] < 10 if method is None else method == "direct":
        return _by_kronecker(a, q)
    return _by_bilinear_map(a, q, function, is_derivative)


@differentiates(_of_one_kind(scipy.linalg.solve_discrete_lyapunov))
def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """Solve the discrete Lyapunov equation `a @ x @ a.conj().T - x + q = 0`.

    Args:
        a: of shape (..., n, n).
        q: of the same shape.
        method: "direct" solves n**2 linear equations, "bilinear" a continuous Lyapunov equation; by default the former
            for n < 10.

    Returns:
        The solution, of the same shape, in double precision.

    Raises:
        NoDerivativeError: a ValueError; the equation is singular, and a derivative is needed.
        LinAlgError: a ValueError; the equations are singular.
        ValueError: the shapes are incompatible, there are infinities or NaN, or the method is unknown.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: solve_discrete_lyapunov(a, np.array([[3.0]]))[0, 0])(np.array([[0.5]]))
        Tensor([[5.33333333]])
    """
    a, q = in_double(a, q)
    method = None if method is None else method.lower()
    if not is_square(a) or a.shape[-2:] != q.shape[-2:] or method not in (None, "direct", "bilinear"):
        scipys_error(scipy.linalg.solve_discrete_lyapunov, a, q, method=method)
    return _discrete_solution(a, in_one_stack(a, q)[1], method, "scipy.linalg.solve_discrete_lyapunov")


# Riccati equations
#
# With G = E^H X B + S and K = inv(R) @ G^H, the equation for continuous time is
#     A^H X E + E^H X A - G K + Q = 0.
# With G = A^H X B + S and K = inv(R + B^H X B) @ G^H, that for discrete time is
#     A^H X A - E^H X E - G K + Q = 0.
# With the closed loop C = A - B K the differential dX solves, where M^H is the adjoint of M,
#     C^H dX E + E^H dX C + M + M^H + K^H dR K + dQ = 0,   M = E^H X (dA - dB K) + dE^H X C - dS K,
#     C^H dX C - E^H dX E + M + M^H + K^H dR K + dQ = 0,   M = C^H X (dA - dB K) - dE^H X E - dS K.
# The rules are these, and their transposes.


def _pieces(joined: Array, size: int) -> tuple[Any, ...]:
    """Return A, B, Q, S, E and R from the matrix that contains them."""
    rows = (joined[..., :size, :], joined[..., size : 2 * size, :], joined[..., 2 * size : 3 * size, :size])
    (a, b), (q, s) = ((row[..., :size], row[..., size:]) for row in rows[:2])
    return a, b, q, s, rows[2], joined[..., 3 * size :, size:]


def _in_one(a: Array, b: Array, q: Array, s: Array, e: Array, r: Array) -> Any:
    return _blocks((a, b), (q, s), (e, _zeros(a, *b.shape[-2:])), (_zeros(a, *b.shape[:-3:-1]), r))


def _well_scaled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a SciPy function that does not scale an equation with `e`.

    SciPy scales it, but not `e`, so that its result does not solve the equation.
    """

    @functools.wraps(function)
    def call(
        a: Array, b: Array, q: Array, r: Array, e: Array | None = None, s: Array | None = None, balanced: bool = True
    ) -> Any:
        return function(a, b, q, r, e, s, balanced and e is None)

    return call


_SCIPYS = SimpleNamespace(
    solve_continuous_are=_well_scaled(scipy.linalg.solve_continuous_are),
    solve_discrete_are=_well_scaled(scipy.linalg.solve_discrete_are),
)


def _riccati(joined: Array, size: int, discrete: bool, has_e: bool, has_s: bool, balanced: bool) -> Any:
    def solve_one(joined: Array) -> Any:
        a, b, q, s, e, r = _pieces(joined, size)
        solve = _SCIPYS.solve_discrete_are if discrete else _SCIPYS.solve_continuous_are
        return solve(a, b, q, r, e if has_e else None, s if has_s else None, balanced)

    return in_stacks(solve_one, joined)


def _loop(x: Array, pieces: tuple[Any, ...], discrete: bool) -> tuple[Any, Any]:
    """Return the gain K and the closed loop C."""
    a, b, _, s, e, r = pieces
    before = adjoint(b) @ x
    gain = by_factors(r + before @ b if discrete else r, before @ (a if discrete else e) + adjoint(s))
    return gain, a - b @ gain


def _moved_solution(loop: Array, e: Array, rest: Array, discrete: bool, has_e: bool) -> Any:
    """Return the X with C X E^H + E X C^H + rest = 0, or with C X C^H - E X E^H + rest = 0."""
    name = f"scipy.linalg.solve_{'discrete' if discrete else 'continuous'}_are"
    if has_e:
        loop = by_factors(e, loop)
        rest = adjoint(by_factors(e, adjoint(by_factors(e, rest))))
    if discrete:
        return _discrete_solution(loop, rest, None, name, is_derivative=True)
    return sylvester_solution(loop, adjoint(loop), -rest, name, of_adjoint=True, is_derivative=True)


def _riccati_rule(
    ans: Array, joined: Array, size: int, discrete: bool, has_e: bool, **how: Operand
) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        pieces = _pieces(joined, size)
        gain, loop = _loop(ans, pieces, discrete)
        loop, e, x = conjugated(loop), conjugated(pieces[4]), conjugated(ans)
        ct_q = _moved_solution(loop, e, 0.5 * (ct + adjoint(ct)), discrete, has_e)
        ct_a, ct_e = (x @ part @ ct_q for part in ((loop, -e) if discrete else (e, loop)))
        right = ct_q @ transposed(gain)
        return _in_one(2 * ct_a, -2 * ct_a @ transposed(gain), ct_q, -2 * right, 2 * ct_e, conjugated(gain) @ right)

    return pullback


def _riccati_tangent(
    tangents: Sequence[Any], ans: Array, joined: Array, size: int, discrete: bool, has_e: bool, **how: Operand
) -> Any:
    pieces = _pieces(joined, size)
    ta, tb, tq, ts, te, tr = _pieces(tangents[0], size)
    gain, loop = _loop(ans, pieces, discrete)
    e = pieces[4]
    along = adjoint(loop if discrete else e) @ ans @ (ta - tb @ gain) - ts @ gain
    turned = adjoint(te) @ ans @ (e if discrete else loop)
    along = along - turned if discrete else along + turned
    rest = along + adjoint(along) + adjoint(gain) @ tr @ gain + tq
    moved = _moved_solution(adjoint(loop), adjoint(e), rest, discrete, has_e)
    return 0.5 * (moved + adjoint(moved))


_riccati_primitive = Primitive("riccati", _riccati, (_riccati_rule,), _riccati_tangent)
_riccati_primitive.batch = stacked_batch(_riccati_primitive)


_OF_RICCATI = """
Args:
    a: of shape (..., n, n).
    b: of shape (..., n, m).
    q: Hermitian, of shape (..., n, n). Its gradient is Hermitian, too: SciPy accepts no other `q`.
    e: regular, of shape (..., n, n), and
    balanced: whether to scale the equation first; ignored with `e`, for which SciPy's scaling gives wrong results.

Returns:
    The solution, which is Hermitian, in double precision.
"""


@family(_SCIPYS, _OF_RICCATI)
def _riccati_equation(
    is_discrete: Callable[[], bool],
    /,
    a: ArrayLike,
    b: ArrayLike,
    q: ArrayLike,
    r: ArrayLike,
    e: ArrayLike | None = None,
    s: ArrayLike | None = None,
    balanced: bool = True,
) -> Any:
    """Solve the equation for continuous or for discrete time."""
    function = getattr(_SCIPYS, is_discrete.__name__)
    return _riccati_solution(function, is_discrete(), (a, b, q, r, e, s), bool(balanced))


def _riccati_solution(function: Callable[..., Any], discrete: bool, given: Sequence[Any], balanced: bool) -> Any:
    found = iter(in_double(*(x for x in given if x is not None)))
    arrays: list[Any] = [None if x is None else next(found) for x in given]
    a, b, q, r, e, s = arrays
    size, sides = a.shape[-1], b.shape[-2:]
    shapes = ((size, size), sides, (size, size), sides[-1:] * 2, (size, size), sides)
    fits = all(x is None or x.shape[-2:] == shape for x, shape in zip(arrays, shapes, strict=True))
    if not fits or b.ndim < 2 or sides[0] != size:
        function(*(None if x is None else np.ones(x.shape) for x in arrays))
    one = np.eye(size, dtype=a.dtype) if e is None else e
    joined = _in_one(a, b, q, _zeros(a, *sides) if s is None else s, one, r)
    how = {"has_e": e is not None, "has_s": s is not None, "balanced": balanced}
    return apply(_riccati_primitive, (joined,), {"size": size, "discrete": discrete, **how})


@_riccati_equation
def solve_continuous_are() -> bool:
    """Solve the Riccati equation `a^H x + x a - x b inv(r) b^H x + q = 0` for the stabilizing `x`.

    Args:
        r: Hermitian and regular, of shape (..., m, m); likewise.
        s: of shape (..., n, m), for `a^H x e + e^H x a - (e^H x b + s) inv(r) (b^H x e + s^H) + q = 0`.

    Raises:
        NoDerivativeError: a ValueError; the closed loop has eigenvalues on the imaginary axis.
        LinAlgError: a ValueError; there is no stabilizing solution.
        ValueError: the shapes are incompatible, there are infinities or NaN, or `q` or `r` is not Hermitian.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> one = np.eye(1)
        >>> fg.grad(lambda q: solve_continuous_are(0 * one, one, q, one)[0, 0])(4 * one).round(12)
        Tensor([[0.25]])
    """
    return False


@_riccati_equation
def solve_discrete_are() -> bool:
    """Solve `a^H x a - x - (a^H x b) inv(r + b^H x b) (b^H x a) + q = 0` for the stabilizing `x`.

    Args:
        r: Hermitian, of shape (..., m, m); likewise.
        s: of shape (..., n, m), for
            `a^H x a - e^H x e - (a^H x b + s) inv(r + b^H x b) (b^H x a + s^H) + q = 0`.

    Raises:
        NoDerivativeError: a ValueError; the closed loop has eigenvalues on the unit circle.
        LinAlgError: a ValueError; there is no stabilizing solution.
        ValueError: the shapes are incompatible, there are infinities or NaN, or `q` or `r` is not Hermitian.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> one = np.eye(1)
        >>> fg.grad(lambda q: solve_discrete_are(0 * one, one, q, one)[0, 0])(4 * one).round(12)
        Tensor([[1.]])
    """
    return True
