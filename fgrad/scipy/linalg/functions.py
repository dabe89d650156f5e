"""Matrix functions: `expm`, `logm`, `sqrtm`, powers, and functions composed of exponentials.

The derivative of a function along a direction, its Frechet derivative, is a block of the same function of a matrix
of twice the size (R. Mathias, "A chain rule for matrix functions and applications" (1996),
https://doi.org/10.1137/S0895479895283409):

    f([[a, e],    [[f(a), df(a, e)],
       [0, a]]) =  [0,    f(a)    ]]

and the transpose of the derivative at `a` is the derivative at `a.T`. Since it is a matrix function itself, this
holds for every order. The exponential has a faster algorithm (A. Al-Mohy and N. Higham, "Computing the Frechet
derivative of the matrix exponential, with an application to condition number estimation" (2009),
https://doi.org/10.1137/080716426), and the square root solves a Sylvester equation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.families import register, sample
from fgrad.ops.lapack import fixed, in_stacks
from fgrad.ops.matrices import stacked_batch, transposed
from fgrad.ops.solving import by_factors
from fgrad.ops.tracing import raw_array
from fgrad.scipy._plain import differentiates, family
from fgrad.scipy.linalg._arguments import (
    SCIPY,
    check_finite_values,
    in_one_stack,
    is_square,
    lapack_dtype,
    of_dtype,
    scipys_error,
)
from fgrad.scipy.linalg.matrix_equations import sylvester_solution
from fgrad.transforms.draws import of_algorithm
from fgrad.transforms.series import OF_BLOCKS
from fgrad.typing import Array, ArrayLike, Operand

# Twice the size


def _norms(x: Array) -> Any:
    return np.max(np.sum(np.abs(x), axis=-2, keepdims=True), axis=-1, keepdims=True, initial=0)


def _scales(a: Array, direction: Array) -> Array:
    """Return powers of 2 that make a direction small next to the matrix, without influence on the algorithm."""
    sizes, wanted = _norms(direction), _norms(a) * 2.0**-10
    is_usual = (sizes > 0) & (wanted > 0) & np.isfinite(sizes) & np.isfinite(wanted)
    ratio = np.where(is_usual, wanted, 1) / np.where(is_usual, sizes, 1)
    return np.exp2(np.round(np.log2(ratio))).astype(sizes.dtype)


_scales_of = fixed("frechet_scales", _scales)


def _twice(a: Array, direction: Array) -> Array:
    """Return the block matrix of twice the size with a matrix on its diagonal and a direction above it."""
    a, direction = in_one_stack(a, direction)
    top = np.concatenate([a, direction], axis=-1)
    return np.concatenate([top, np.concatenate([np.zeros_like(a), a], axis=-1)], axis=-2)


def _along(function: Callable[[Any], Any], a: Array, direction: Array) -> Any:
    """Return the derivative of a function of matrices along a direction."""
    size = a.shape[-1]
    if not size:
        return direction
    scales = _scales_of(a, direction)
    return function(_twice(a, direction * scales))[..., :size, size:] / scales


def _square(function: Callable[..., Any], A: ArrayLike, *others: Any) -> Any:  # noqa: N803  # SciPy's name
    """Return square matrices in a suitable dtype, or raise SciPy's error."""
    a = as_array(A)
    if not is_square(a):
        scipys_error(lambda a: function(a, *others), a)
    return of_dtype(a, lapack_dtype(a))


# The exponential


_LARGE = 75.0
"""For a larger norm the scaling is so strong that squaring loses digits, unless SciPy finds a better scale."""

_SMALL = 20
"""Up to this size SciPy's compiled `expm` is faster than the algorithm for the derivative."""


def _exponential(a: Array) -> Array:
    return scipy.linalg.expm(a)


def _frechet_one(a: Array, direction: Array) -> Any:
    if a.shape[-1] <= _SMALL or not _norms(a)[0, 0] <= _LARGE:
        return _along(_exponential, a, direction)
    return SCIPY.expm_frechet(a, direction, compute_expm=False, check_finite=False).astype(a.dtype)


def _frechet(a: Array, direction: Array) -> Any:
    return apply(_expm_frechet, (a, direction))


def _second(a: Array, direction: Array, other: Array) -> Any:
    """Return the second derivative of the exponential along two directions; it is symmetric in these."""
    size, scales = a.shape[-1], _scales_of(a, direction)
    moved = _frechet(_twice(a, direction * scales), _twice(other, np.zeros_like(other)))
    return moved[..., :size, size:] / scales


def _frechet_tangent(tangents: Sequence[Any], ans: Array, a: Array, direction: Array) -> Any:
    ta, te = tangents
    if ta is ZERO:
        return _frechet(a, te)
    bent = _second(a, direction, ta)
    return bent if te is ZERO else bent + _frechet(a, te)


_expm_frechet = register(
    Primitive(
        "expm_frechet",
        lambda a, direction: in_stacks(_frechet_one, a, direction),
        (
            lambda ans, a, direction: lambda ct: _second(transposed(a), transposed(direction), ct),
            lambda ans, a, direction: lambda ct: _frechet(transposed(a), ct),
        ),
        _frechet_tangent,
        broadcasts=True,
        samples=(sample((3, 3), (3, 3)), sample((2, 2, 2), (2, 2)), sample((0, 0), (0, 0))),
    )
)
_expm_frechet.batch = stacked_batch(_expm_frechet)

_expm = register(
    Primitive(
        "expm",
        _exponential,
        (lambda ans, a: lambda ct: _frechet(transposed(a), ct),),
        lambda tangents, ans, a: _frechet(a, tangents[0]),
        samples=(sample((3, 3)), sample((2, 2, 2)), sample((1, 1)), sample((0, 0))),
    )
)
_expm.batch = stacked_batch(_expm)
OF_BLOCKS.add(_expm)


def _exp(a: Array) -> Any:
    return apply(_expm, (a,))


@differentiates(scipy.linalg.expm)
def expm(A: ArrayLike) -> Any:  # noqa: N803  # SciPy's name
    """Return the exponential of a matrix.

    Args:
        A: of shape (..., n, n).

    Returns:
        The exponential, of the same shape.

    Raises:
        LinAlgError: a ValueError; `A` is not square.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: expm(a)[0, 1])(np.array([[0.0, 1.0], [0.0, 0.0]])).round(12)
        Tensor([[0.5       , 1.        ],
                [0.16666667, 0.5       ]])
    """
    a = as_array(A)
    a = np.reshape(a, (1, 1)) if a.size == 1 and a.ndim < 2 else a
    return _exp(_square(scipy.linalg.expm, a))


@differentiates(scipy.linalg.expm_frechet)
def expm_frechet(
    A: ArrayLike,  # noqa: N803  # SciPy's names
    E: ArrayLike,  # noqa: N803
    method: str | None = None,
    compute_expm: bool = True,
    check_finite: bool = True,
) -> Any:
    """Return the exponential of a matrix, and its Frechet derivative along a direction.

    Args:
        A: of shape (..., n, n).
        E: the direction, of the same shape.
        method: "SPS" or "blockEnlarge"; if something is traced, only the dtypes of the results depend on it.
        compute_expm: whether to return the exponential, too.
        check_finite: whether infinities and NaN are rejected.

    Returns:
        The exponential and the derivative, or the latter alone.

    Raises:
        ValueError: the shapes differ, the method is unknown, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> a, e = np.zeros((2, 2)), np.array([[1.0, 2.0], [0.0, 3.0]])
        >>> fg.grad(lambda a: expm_frechet(a, e, compute_expm=False)[0, 0])(a)
        Tensor([[1., 0.],
                [1., 0.]])
    """
    a, e = as_array(A), as_array(E)
    if check_finite:
        check_finite_values(a, e)
    if not is_square(a) or a.shape[-2:] != e.shape[-2:] or method not in (None, "SPS", "blockEnlarge"):
        scipys_error(scipy.linalg.expm_frechet, a, e, method=method)
    dtype = own = lapack_dtype(a, e)
    if method != "blockEnlarge":  # the block matrix has one dtype; the other algorithm computes in double precision
        dtype, own = (np.result_type(each, np.float64) for each in (dtype, lapack_dtype(a)))
    moved = _frechet(of_dtype(a, dtype), of_dtype(e, dtype))
    if not compute_expm:
        return moved
    ahead = _exp(of_dtype(a, own))
    return ahead if ahead.shape == moved.shape else np.copy(np.broadcast_to(ahead, moved.shape)), moved


# Logarithms and powers, which have a branch cut along the negative numbers
#
# On the cut, where their values jump, pairs of equal eigenvalues could be assigned to different
# sides. So the derivative is computed at a rotated matrix: for |c| = 1
#     log(c a) = log(a) + log(c)        (c a)**t = c**t a**t

_ZERO = 1e-20
"""SciPy's `logm` treats eigenvalues below this as 0, too."""

_AT_CUT = 1e-9
"""Relative distance from the cut within which rounding decides on the side."""


def _turn_one(a: Array) -> Any:
    """Return a factor of absolute value 1 that rotates eigenvalues away from the cut; 1 if there are none on it."""
    values = np.linalg.eigvals(a)
    if np.any(np.abs(values) < _ZERO):
        raise errors.NoDerivativeError(
            "scipy.linalg.logm, and fractional_matrix_power with a fractional exponent, have no derivative where the "
            "matrix is singular."
        )
    below = values[(values.real < 0) & (np.abs(values.imag) <= _AT_CUT * np.abs(values))]
    if not below.size:
        return np.ones((1, 1), a.dtype)
    gaps = np.abs(np.diff(np.sort(below.real)))
    if np.iscomplexobj(a) or below.imag.any() or np.any(gaps <= _AT_CUT * np.max(np.abs(below))):
        raise errors.NoDerivativeError(
            "scipy.linalg.logm, and fractional_matrix_power with a fractional exponent, jump at negative eigenvalues: "
            "they have no derivative if a complex matrix has such an eigenvalue, or a real one has it twice."
        )
    lowest = np.min(np.angle(values) + np.pi)
    return np.exp(np.array([[-0.5j * min(lowest, 1.0)]])).astype(np.result_type(a.dtype, np.complex64))


_turns_of = fixed("turns_from_cut", lambda a: in_stacks(_turn_one, a) if a.size else np.ones((1, 1), a.dtype))


def _quietly(function: Callable[..., Any], *args: Operand) -> Any:
    """Call a SciPy function without its warnings, which were already given for the user's matrix."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


@of_algorithm
def _logarithm(a: Array, quiet: bool) -> Any:
    if quiet:
        return in_stacks(lambda a: _quietly(scipy.linalg.logm, a), a)
    return in_stacks(scipy.linalg.logm, a)


def _log(a: Array) -> Any:
    return apply(_logm, (a,), {"quiet": True})


def _log_along(a: Array, direction: Array) -> Any:
    turn = _turns_of(a)
    return _along(_log, turn * a, turn * direction)


_logm = register(
    Primitive(
        "logm",
        _logarithm,
        (lambda ans, a, quiet: lambda ct: _log_along(transposed(a), ct),),
        lambda tangents, ans, a, quiet: _log_along(a, tangents[0]),
        # A two by two matrix with a product of 2 off the diagonal has eigenvalues in the right half-plane.
        samples=(sample((1, 1), domain=(0.5, 2), quiet=True), sample((2, 1, 1), domain=(0.5, 2), quiet=True)),
    )
)
_logm.batch = stacked_batch(_logm)
OF_BLOCKS.add(_logm)


@differentiates(scipy.linalg.logm)
def logm(A: ArrayLike, *given: ArrayLike, **named: object) -> Any:  # noqa: N803  # SciPy's name
    """Return the principal logarithm of a matrix.

    There is a branch cut along negative eigenvalues. For a real matrix with different such eigenvalues, the derivative
    is that along the cut.

    Args:
        A: regular, of shape (..., n, n).
        given, named: `disp`, which SciPy has deprecated; rejected if something is traced.

    Returns:
        The logarithm, of the same shape, in double precision. It is complex if there are negative eigenvalues.

    Raises:
        NoDerivativeError: a ValueError; the function jumps, because a complex matrix has a negative eigenvalue, or a
            real one has one twice.
        ParameterError: a ValueError; `disp` is given.
        ValueError: `A` is not square.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: logm(a)[0, 1])(np.diag([1.0, np.e])).round(6)
        Tensor([[0.      , 0.581977],
                [0.      , 0.      ]])
    """
    if given or named:
        raise errors.ParameterError("logm does not accept `disp` if something is traced; omit it.")
    return apply(_logm, (_square(scipy.linalg.logm, A),), {"quiet": False})


@of_algorithm
def _powered(a: Array, exponent: Array) -> Any:
    return in_stacks(lambda a, t: _quietly(scipy.linalg.fractional_matrix_power, a, t.item()), a, exponent)


def _raised(a: Array, exponent: Array) -> Any:
    return apply(_power, (a, exponent))


def _power_along(a: Array, exponent: Array, direction: Array) -> Any:
    if np.all(raw_array(exponent) % 1 == 0):
        return _along(lambda x: _raised(x, exponent), a, direction)
    turn = _turns_of(a)
    moved = _along(lambda x: _raised(x, exponent), turn * a, turn * direction)
    return moved if turn.dtype.kind == "f" else moved * np.conjugate(turn) ** exponent


def _exponent_slope(ans: Array, a: Array) -> Any:
    return _log(a) @ ans


def _power_tangent(tangents: Sequence[Any], ans: Array, a: Array, exponent: Array) -> Any:
    ta, tt = tangents
    moved = ZERO if ta is ZERO else _power_along(a, exponent, ta)
    if tt is ZERO:
        return moved
    grown = tt * _exponent_slope(ans, a)
    return grown if moved is ZERO else moved + grown


_power = register(
    Primitive(
        "fractional_matrix_power",
        _powered,
        (
            lambda ans, a, exponent: lambda ct: _power_along(transposed(a), exponent, ct),
            lambda ans, a, exponent: lambda ct: np.sum(ct * _exponent_slope(ans, a), axis=(-2, -1), keepdims=True),
        ),
        _power_tangent,
        broadcasts=True,
        samples=(
            sample((1, 1), (1, 1), domain=(0.5, 2), complex=False),
            sample((2, 1, 1), (1, 1), domain=(0.5, 2), complex=False),
        ),
    )
)
_power.batch = stacked_batch(_power)
OF_BLOCKS.add(_power)


@differentiates(scipy.linalg.fractional_matrix_power)
def fractional_matrix_power(A: ArrayLike, t: ArrayLike) -> Any:  # noqa: N803  # SciPy's name
    """Return a power of a matrix with a real exponent.

    There is a branch cut along negative eigenvalues, as for `logm`.

    Args:
        A: of shape (..., n, n); regular, unless `t` is an integer.
        t: the exponent, a number; it may be traced, too.

    Returns:
        The power, of the shape of `A`.

    Raises:
        NoDerivativeError: a ValueError; the function jumps, as for `logm`.
        ShapeError: a ValueError; `t` is not a number.
        ValueError: `A` is not square.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: fractional_matrix_power(a, 0.5)[0, 0])(np.diag([4.0, 9.0])).round(12)
        Tensor([[0.25, 0.  ],
                [0.  , 0.  ]])
        >>> fg.grad(lambda t: fractional_matrix_power(np.diag([4.0, 9.0]), t)[0, 0])(1.0).round(6)
        Tensor(5.545177)
    """
    a, exponent = _square(scipy.linalg.fractional_matrix_power, A, 1), as_array(t)
    if exponent.ndim:
        raise errors.ShapeError(
            f"the exponent of fractional_matrix_power must be one number, but `t` has shape {exponent.shape}.\n"
            "Use fg.vmap for several exponents."
        )
    return apply(_power, (a, np.reshape(exponent, (1, 1))))


# The square root


def _root_tangent(x: Array, moved: Array) -> Any:
    """Return the `y` with `x @ y + y @ x = moved`."""
    dtype = np.result_type(x.dtype, moved.dtype)
    x, moved = of_dtype(x, dtype), of_dtype(moved, dtype)
    return sylvester_solution(x, x, moved, "scipy.linalg.sqrtm", same=True, is_derivative=True)


_sqrtm = register(
    Primitive(
        "sqrtm",
        lambda a: in_stacks(scipy.linalg.sqrtm, a),
        (lambda ans, a: lambda ct: _root_tangent(transposed(ans), ct),),
        lambda tangents, ans, a: _root_tangent(ans, tangents[0]),
        samples=(sample((1, 1), domain=(0.5, 2)), sample((2, 1, 1), domain=(0.5, 2))),
    )
)
_sqrtm.batch = stacked_batch(_sqrtm)


@differentiates(scipy.linalg.sqrtm)
def sqrtm(A: ArrayLike, *given: ArrayLike, **named: object) -> Any:  # noqa: N803  # SciPy's name
    """Return the principal square root of a matrix.

    There is a branch cut along negative eigenvalues, where the derivative is that along the cut.

    Args:
        A: of shape (..., n, n).
        given, named: `disp` and `blocksize`, which SciPy has deprecated; rejected if something is traced.

    Returns:
        The root, of the same shape. It is complex if there are negative eigenvalues.

    Raises:
        NoDerivativeError: a ValueError; the matrix is singular, and a derivative is needed.
        ParameterError: a ValueError; `disp` or `blocksize` is given.
        LinAlgError: a ValueError; `A` is not square.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: sqrtm(a)[0, 1])(np.diag([4.0, 9.0]))
        Tensor([[0. , 0.2],
                [0. , 0. ]])
    """
    if given or named:
        raise errors.ParameterError("sqrtm does not accept `disp` or `blocksize` if something is traced; omit them.")
    a = as_array(A)
    if a.ndim < 2:
        raise errors.ShapeError(f"sqrtm needs matrices, but `A` has shape {a.shape}.\nWrite np.reshape(A, (1, 1)).")
    return apply(_sqrtm, (_square(scipy.linalg.sqrtm, a),))


# Functions composed of exponentials


def _both(a: Array) -> tuple[Any, Any]:
    return _exp(a), _exp(-a)


def _cos_and_sin(a: Array) -> tuple[Any, Any]:
    if a.dtype.kind != "c":
        both = _exp(1j * a)
        return np.real(both), np.imag(both)
    ahead, back = _both(1j * a)
    return 0.5 * (ahead + back), -0.5j * (ahead - back)


def _quotient(below: Any, above: Any) -> Any:
    """Return a quotient of matrices; infinities and NaN are rejected, as by SciPy."""
    check_finite_values(below, above)
    return by_factors(below, above)


_OF_A_MATRIX = """
Args:
    A: of shape (..., n, n).

Returns:
    An array of the same shape.

Raises:
    ValueError: `A` is not square.
"""


@family(scipy.linalg, _OF_A_MATRIX)
def _of_exponentials(formula: Callable[[Any], Any], /, A: ArrayLike) -> Any:  # noqa: N803  # SciPy's name
    """Apply a formula for square matrices."""
    return formula(_square(getattr(scipy.linalg, formula.__name__), A))


@_of_exponentials
def cosm(a: Any) -> Any:
    """Return the cosine of a matrix.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: cosm(a)[0, 0])(np.diag([np.pi / 2, 0.0])).round(12)
        Tensor([[-1.,  0.],
                [ 0.,  0.]])
    """
    return _cos_and_sin(a)[0]


@_of_exponentials
def sinm(a: Any) -> Any:
    """Return the sine of a matrix.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: sinm(a)[0, 0])(np.zeros((2, 2)))
        Tensor([[1., 0.],
                [0., 0.]])
    """
    return _cos_and_sin(a)[1]


@_of_exponentials
def tanm(a: Any) -> Any:
    """Return the tangent of a matrix.

    Raises:
        ValueError: `A` is not square, or the cosine or the sine has infinities or NaN.
        LinAlgError: a ValueError; the cosine is singular.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: tanm(a)[0, 0])(np.diag([np.pi / 4, 0.0])).round(12)
        Tensor([[2., 0.],
                [0., 0.]])
    """
    return _quotient(*_cos_and_sin(a))


@_of_exponentials
def coshm(a: Any) -> Any:
    """Return the hyperbolic cosine of a matrix.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: coshm(a)[0, 0])(np.diag([np.arcsinh(2.0), 0.0])).round(12)
        Tensor([[2., 0.],
                [0., 0.]])
    """
    ahead, back = _both(a)
    return 0.5 * (ahead + back)


@_of_exponentials
def sinhm(a: Any) -> Any:
    """Return the hyperbolic sine of a matrix.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: sinhm(a)[0, 0])(np.zeros((2, 2)))
        Tensor([[1., 0.],
                [0., 0.]])
    """
    ahead, back = _both(a)
    return 0.5 * (ahead - back)


@_of_exponentials
def tanhm(a: Any) -> Any:
    """Return the hyperbolic tangent of a matrix.

    Raises:
        ValueError: `A` is not square, or the hyperbolic cosine or sine has infinities or NaN.
        LinAlgError: a ValueError; the hyperbolic cosine is singular.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: tanhm(a)[0, 0])(np.zeros((2, 2)))
        Tensor([[1., 0.],
                [0., 0.]])
    """
    ahead, back = _both(a)
    return _quotient(ahead + back, ahead - back)
