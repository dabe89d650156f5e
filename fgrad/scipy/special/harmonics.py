"""Legendre polynomials and spherical harmonics with the interface of SciPy 1.15.

SciPy's functions need plain arrays; those of this module also accept tensors. Derivatives with respect to the angle
combine neighbouring orders, which is regular at the poles of the sphere. Degree and order are constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, apply
from fgrad.ops.elementwise import astype
from fgrad.scipy import _special as special
from fgrad.scipy._plain import differentiates
from fgrad.scipy.special._declaring import dtype_of
from fgrad.scipy.special._several import along_last, arrays_of
from fgrad.scipy.special.ferrers import ferrers_derivatives, legendre_derivative
from fgrad.typing import Array, ArrayLike, Operand

_UNIT: dict[str, Any] = {"domain": (-0.9, 0.9), "complex": False}


def _stacked(value: Array, derivatives: list[Any]) -> Array:
    """Return a value and its derivatives stacked along a first axis, in the dtype of the value."""
    return np.stack([value, *(np.broadcast_to(astype(each, value.dtype), value.shape) for each in derivatives)])


def _as_scipys(function: Callable[..., Any], args: tuple[Any, ...], result: Any) -> Any:
    """Return arrays in the dtype that a SciPy function returns for such arguments."""
    dtype = dtype_of(function, *args)
    return tuple(astype(each, dtype) for each in result) if isinstance(result, tuple) else astype(result, dtype)


def _degrees(n: int, m: Operand, *arrays: Operand) -> tuple[Any, Any]:
    """Return all degrees up to `n`, and the orders 0 to `m` and `-m` to -1, shaped to precede the arrays' axes."""
    axes = (1,) * len(np.broadcast_shapes(*map(np.shape, arrays)))
    degrees = np.reshape(np.arange(n + 1), (n + 1, 1, *axes))
    numbers = np.concatenate([np.arange(abs(m) + 1), np.arange(-abs(m), 0)])
    return degrees, np.reshape(numbers, (1, numbers.size, *axes))


_FUNCTIONS = """
Args:
    n: the degrees, integers, which are constants.
    m: the orders, integers, which are constants.
    z: real numbers.
    theta: the polar angle.
    phi: the azimuthal angle.
    diff_n: the highest derivative, 0, 1 or 2.

Returns:
    An array with the functions and their derivatives along the first axis.

Raises:
    ValueError: `diff_n` is larger than 2.
"""

_OF_ALL_DEGREES = """
Args:
    n: the highest degree.
    m: the highest order.

Returns:
    An array with axes for derivatives, degrees, and orders 0 to `m` and `-m` to -1, followed by those of
    `z` or `theta`.

Raises:
    ValueError: `diff_n` is larger than 2, or `n` is negative.
"""

_ASSOCIATED = """
Args:
    z: real numbers, from -1 to 1 if they are traced.
    branch_cut: must be 2 if `z` is traced.
    norm: whether the polynomials are normalized.
"""


# With respect to z

_legendre = along_last(
    lambda n, z: special.legendre_p(n, z)[0],
    lambda n, z: legendre_derivative(n, 1, z),
    "n",
    name="legendre_p",
    leading=(3,),
    **_UNIT,
)


@differentiates(special.legendre_p, _FUNCTIONS)
def legendre_p(n: ArrayLike, z: ArrayLike, *, diff_n: Any = 0) -> Any:
    """Return Legendre polynomials and their derivatives, as `scipy.special.legendre_p` does.

    Raises:
        NotImplementedError: `diff_n` is larger than 2.

    Example:
        >>> import fgrad as fg, fgrad.scipy.special
        >>> fg.grad(lambda z: fgrad.scipy.special.legendre_p(2, z)[0])(1.0)
        Tensor(3.)
    """
    special.legendre_p(0, 0.0, diff_n=diff_n)  # SciPy's checks, and its messages
    n, z = arrays_of((n, z))
    value = apply(_legendre, (n, z))
    return _stacked(value, [factor * legendre_derivative(n, k, z) for k, factor in ((1, 1), (2, 3))[:diff_n]])


@differentiates(special.legendre_p_all, _OF_ALL_DEGREES, _FUNCTIONS)
def legendre_p_all(n: int, z: Any, *, diff_n: Any = 0) -> Any:
    """Return the Legendre polynomials of all degrees up to `n`, as `scipy.special.legendre_p_all` does.

    Returns:
        An array with axes for derivatives and degrees, followed by those of `z`.

    Example:
        >>> import fgrad as fg, fgrad.scipy.special
        >>> fg.jacobian(lambda z: fgrad.scipy.special.legendre_p_all(2, z)[0])(1.0)
        Tensor([0., 1., 3.])
    """
    special.legendre_p_all(n, 0.0, diff_n=diff_n)
    degrees, _ = _degrees(n, 0, z)
    return _as_scipys(special.legendre_p_all, (0, z), legendre_p(degrees[:, 0], z, diff_n=diff_n))


def _normalization(n: Operand, m: Operand) -> Any:
    """Return the normalization factor of an associated Legendre polynomial."""
    is_zero = np.greater(np.absolute(m), n)
    ratio = special.gammaln(np.where(is_zero, 1.0, n - m + 1.0)) - special.gammaln(np.where(is_zero, 1.0, n + m + 1.0))
    return np.exp(0.5 * ratio) * np.sqrt(n + 0.5)


def _derivatives(n: Array | float, m: Array | float, z: Array, norm: bool, count: int = 1) -> list[Any]:
    """Return derivatives of associated Legendre polynomials; they are 0 where the order is above the degree."""
    is_zero = np.greater(np.absolute(m), n)
    found = ferrers_derivatives(np.where(is_zero, 0, m), n, z, count)
    factor = _normalization(n, m) if norm else 1.0
    return [np.where(is_zero, 0.0, factor * each) for each in found]


def _associated(norm: bool) -> Primitive:
    return along_last(
        lambda n, m, z: special.assoc_legendre_p(n, m, z, norm=norm)[0],
        lambda n, m, z: _derivatives(n, m, z, norm)[0],
        "n m",
        name="normalized_assoc_legendre_p" if norm else "assoc_legendre_p",
        leading=(3, 2),
        **_UNIT,
    )


_by_norm = {norm: _associated(norm) for norm in (False, True)}


@differentiates(special.assoc_legendre_p, _ASSOCIATED, _FUNCTIONS)
def assoc_legendre_p(n: Any, m: Any, z: Any, *, branch_cut: Any = 2, norm: Any = False, diff_n: Any = 0) -> Any:
    """Return associated Legendre polynomials and their derivatives, as `scipy.special.assoc_legendre_p` does.

    Raises:
        MissingRuleError: a TypeError; `z` is traced, and it is complex or `branch_cut` is not 2.
        ValueError: `diff_n` is larger than 2.

    Example:
        >>> import fgrad as fg, fgrad.scipy.special
        >>> fg.grad(lambda z: fgrad.scipy.special.assoc_legendre_p(2, 2, z)[0])(1.0)
        Tensor(-6.)
    """
    special.assoc_legendre_p(0, 0, 0.0, norm=norm, diff_n=diff_n)
    n, m, z = arrays_of((n, m, z))
    if type(branch_cut) is Tensor or np.any(np.not_equal(branch_cut, 2)) or z.dtype.kind == "c":
        name = "scipy.special.assoc_legendre_p of complex numbers, or with another branch cut than 2,"
        raise errors.MissingRuleError(name, errors.users_line())
    derivatives = _derivatives(n, m, z, norm, diff_n) if diff_n else []
    return _stacked(apply(_by_norm[norm], (n, m, z)), derivatives)


@differentiates(special.assoc_legendre_p_all, _ASSOCIATED, _OF_ALL_DEGREES, _FUNCTIONS)
def assoc_legendre_p_all(n: int, m: int, z: Any, *, branch_cut: Any = 2, norm: Any = False, diff_n: Any = 0) -> Any:
    """Return associated Legendre polynomials of all degrees and orders, as `scipy.special.assoc_legendre_p_all` does.

    Raises:
        MissingRuleError: a TypeError; `z` is traced, and it is complex or `branch_cut` is not 2.
        ValueError: `diff_n` is larger than 2, or `n` or `m` is negative.

    Example:
        >>> import fgrad as fg, fgrad.scipy.special
        >>> fg.jacobian(lambda z: fgrad.scipy.special.assoc_legendre_p_all(1, 0, z)[0])(0.5)
        Tensor([[0.],
                [1.]])
    """
    special.assoc_legendre_p_all(n, m, 0.0, norm=norm, diff_n=diff_n)
    result = assoc_legendre_p(*_degrees(n, m, z), z, branch_cut=branch_cut, norm=norm, diff_n=diff_n)
    return _as_scipys(special.assoc_legendre_p_all, (0, 0, z), result)


# With respect to the angle


def _neighbour(n: Array | float, m: Array | float, theta: Array, step: int, count: int) -> Any:
    """Return half the count-th derivative of the function of the next or previous order, times its weight."""
    weight = np.sqrt(np.maximum((n - step * m) * (n + step * m + 1.0), 0.0))
    return 0.5 * weight * _along_angle(n, m + step, theta, count)


def _along_angle(n: Array | float, m: Array | float, theta: Array, count: int) -> Any:
    """Return the count-th derivative of a spherical Legendre function with respect to the angle."""
    if count == 0:
        return apply(_spherical, (n, m, theta))
    difference = _neighbour(n, m, theta, 1, count - 1) - _neighbour(n, m, theta, -1, count - 1)
    # SciPy uses the absolute value of the sine, so that the function is mirrored outside of 0 to pi.
    return np.where(np.sin(theta) < 0, -difference, difference)


_spherical = along_last(
    lambda n, m, theta: special.sph_legendre_p(n, m, theta)[0],
    lambda n, m, theta: _along_angle(n, m, theta, 1),
    "n m",
    name="sph_legendre_p",
    leading=(3, 2),
    domain=(0.2, 3.0),
    complex=False,
)


@differentiates(special.sph_legendre_p, _FUNCTIONS)
def sph_legendre_p(n: Any, m: Any, theta: Any, *, diff_n: Any = 0) -> Any:
    """Return spherical Legendre functions and their derivatives, as `scipy.special.sph_legendre_p` does.

    Example:
        >>> import fgrad as fg, fgrad.scipy.special
        >>> print(f"{fg.grad(lambda x: fgrad.scipy.special.sph_legendre_p(1, 1, x)[0])(0.0):.6f}")
        -0.345494
    """
    special.sph_legendre_p(0, 0, 0.0, diff_n=diff_n)
    n, m, theta = arrays_of((n, m, theta))
    derivatives = [_along_angle(n, m, theta, count) for count in range(1, diff_n + 1)]
    return _stacked(apply(_spherical, (n, m, theta)), derivatives)


@differentiates(special.sph_legendre_p_all, _OF_ALL_DEGREES, _FUNCTIONS)
def sph_legendre_p_all(n: int, m: int, theta: Any, *, diff_n: Any = 0) -> Any:
    """Return spherical Legendre functions of all degrees and orders, as `scipy.special.sph_legendre_p_all` does.

    Example:
        >>> import fgrad as fg, fgrad.scipy.special
        >>> fg.vjp(lambda x: fgrad.scipy.special.sph_legendre_p_all(2, 1, x), 0.5)[0].shape
        (1, 3, 3)
    """
    special.sph_legendre_p_all(n, m, 0.0, diff_n=diff_n)
    result = sph_legendre_p(*_degrees(n, m, theta), theta, diff_n=diff_n)
    return _as_scipys(special.sph_legendre_p_all, (0, 0, theta), result)


def _harmonics(n: Any, m: Any, theta: Any, phi: Operand, count: int) -> tuple[Any, ...]:
    """Return spherical harmonics, optionally with gradients and Hessians."""
    turn, around = np.exp(1j * m * phi), 1j * m
    values = [_along_angle(n, m, theta, k) * turn for k in range(count + 1)]
    found = [values[0]]
    if count > 0:
        found.append(np.stack([values[1], around * values[0]], axis=-1))
    if count > 1:
        mixed, twice = around * values[1], around * around * values[0]
        rows = [np.stack([values[2], mixed], axis=-1), np.stack([mixed, twice], axis=-1)]
        found.append(np.stack(rows, axis=-2))
    return tuple(found)


@differentiates(special.sph_harm_y, _FUNCTIONS)
def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: Any = 0) -> Any:
    """Return spherical harmonics and their derivatives, as `scipy.special.sph_harm_y` does.

    Returns:
        A complex array; with derivatives a tuple of it, the gradients and the Hessians with respect to both angles,
        along the last axes.

    Example:
        >>> import fgrad as fg, fgrad.scipy.special
        >>> slope = fg.grad(lambda x: fgrad.scipy.special.sph_harm_y(1, 1, x, 0.3).real)(0.0)
        >>> print(f"{slope:.6f}")
        -0.330063
    """
    special.sph_harm_y(0, 0, 0.0, 0.0, diff_n=diff_n)
    n, m, theta, phi = arrays_of((n, m, theta, phi))
    found = _harmonics(n, m, theta, phi, diff_n)
    return _as_scipys(special.sph_harm_y, (n, m, theta, phi), found if diff_n else found[0])


@differentiates(special.sph_harm_y_all, _OF_ALL_DEGREES, _FUNCTIONS)
def sph_harm_y_all(n: int, m: int, theta: Any, phi: Any, *, diff_n: Any = 0) -> Any:
    """Return spherical harmonics of all degrees and orders, as `scipy.special.sph_harm_y_all` does.

    Returns:
        As for `sph_harm_y`; each array has leading axes for degrees and for orders 0 to `m` and `-m` to -1.

    Example:
        >>> import fgrad as fg, fgrad.scipy.special
        >>> fg.vjp(lambda x: fgrad.scipy.special.sph_harm_y_all(2, 1, x, 0.3), 0.5)[0].shape
        (3, 3)
    """
    special.sph_harm_y_all(n, m, 0.0, 0.0, diff_n=diff_n)
    result = sph_harm_y(*_degrees(n, m, theta, phi), theta, phi, diff_n=diff_n)
    return _as_scipys(special.sph_harm_y_all, (0, 0, theta, phi), result)
