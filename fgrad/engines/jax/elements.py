"""Rules for elementwise operations that JAX lacks, or for which its result differs from NumPy's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.engines.jax.library import cast, dtype_of, jax, jnp, scipys
from fgrad.engines.jax.table import lowers, refuses
from fgrad.typing import Array, DTypeLike

if TYPE_CHECKING:
    from collections.abc import Callable


@lowers("scale")
def scaled(cotangent: Array, slope: Array) -> Any:
    """Return a product in which exact zeros of the first factor win over infinities and NaN of the second."""
    product = cotangent * slope
    return jnp.where((cotangent == 0) & ~jnp.isfinite(product), jnp.zeros((), product.dtype), product)


def _share(x: Array, total: Array, power: Callable[[Array], Array]) -> Any:
    # If the total is infinite, finite numbers in place of infinities give 0 below and 1 above.
    limits = jnp.finfo(jnp.result_type(x, total))
    lowest, highest = (jnp.asarray(each, limits.dtype) for each in (limits.min, limits.max))
    return power(jnp.minimum(x, highest) - jnp.clip(total, lowest, highest))


@refuses("astype")
def _beyond_integers(ans: Array, x: Array, dtype: DTypeLike) -> Any:
    """Return where a number is out of the range of an integer dtype: JAX clips it, NumPy does not."""
    if dtype_of(ans).kind not in "iu" or dtype_of(x).kind not in "fc":
        return np.False_
    info, x = np.iinfo(dtype_of(ans)), cast(jnp.real(x), np.float64)
    return ~((x > info.min - 1.0) & (x < info.max + 1.0))


@lowers("modf")
def modf(x: Array) -> tuple[Any, Any]:
    """Return fractional and whole parts, both with the sign of the number."""
    whole = jnp.trunc(x)
    return jnp.copysign(jnp.where(jnp.isinf(x), jnp.zeros((), x.dtype), x - whole), x), whole


def _larger(name: str) -> Callable[..., Any]:
    """Return the rule of an extremum of two arrays, which is NaN where either one is; JAX drops complex NaN."""

    def rule(x: Array, y: Array) -> Any:
        ans = getattr(jnp, name)(x, y)
        return jnp.where(jnp.isnan(x), x, jnp.where(jnp.isnan(y), y, ans)) if ans.dtype.kind == "c" else ans

    return rule


lowers("maximum")(_larger("maximum"))
lowers("minimum")(_larger("minimum"))
lowers("share")(lambda x, total: _share(x, total, jnp.exp))
lowers("share_of_2")(lambda x, total: _share(x, total, jnp.exp2))
lowers("sign")(lambda x: jnp.where(x == 0, jnp.zeros((), x.dtype), jnp.sign(x)))  # NumPy's sign of -0.0 is 0.0
lowers("heaviside")(lambda x, at_zero: jnp.where(x == 0, at_zero, jnp.where(x != x, x, (x > 0).astype(x.dtype))))
lowers("abs_squared")(lambda x: jnp.square(jnp.abs(x)))
lowers("hypot_squared")(lambda x, y: jnp.square(jnp.hypot(x, y)))
lowers("astype")(lambda x, dtype: cast(x, dtype))
lowers("where")(lambda condition, x, y: jnp.where(condition, x, y))
lowers("sealed")(lambda x, a, values, left, right, other, kind, of: x)
lowers("unknown")(lambda x, y, flags, later: jnp.where(flags, jnp.nan, jnp.zeros_like(x + y)))


# Integers: division by 0 gives 0 in NumPy


def _divisor(x: Array) -> Any:
    return jnp.where(x == 0, jnp.ones((), x.dtype), x)


@lowers("floor_divide")
def floor_divided(x: Array, y: Array) -> Any:
    """Return the floor division."""
    if x.dtype.kind == "f":
        return _float_divmod(x, y)[0]
    return jnp.where(y == 0, jnp.zeros((), x.dtype), jnp.floor_divide(x, _divisor(y)))


@lowers("remainder")
def remainder(x: Array, y: Array) -> Any:
    """Return the remainder, with the sign of the divisor."""
    if x.dtype.kind == "f":
        return _float_divmod(x, y)[1]
    return jnp.where(y == 0, jnp.zeros((), x.dtype), jnp.remainder(x, _divisor(y)))


@lowers("divmod")
def parted(x: Array, y: Array) -> tuple[Any, Any]:
    """Return quotient and remainder."""
    return floor_divided(x, y), remainder(x, y)


def _float_divmod(x: Array, y: Array) -> tuple[Any, Any]:
    """Return NumPy's `divmod` of floating-point numbers, following its algorithm (`npy_divmod`)."""
    x, y = jnp.broadcast_arrays(x, y)
    rest = jnp.fmod(x, y)
    quotient = (x - rest) / y
    is_across = (rest != 0) & ((y < 0) != (rest < 0))
    rest_signed = jnp.where(rest == 0, jnp.copysign(jnp.zeros((), x.dtype), y), rest)
    rest_signed = jnp.where(is_across, rest + y, rest_signed)
    quotient = jnp.where(is_across, quotient - 1, quotient)
    low = jnp.floor(quotient)
    low = jnp.where(quotient - low > 0.5, low + 1, low)
    whole = jnp.where(quotient == 0, jnp.copysign(jnp.zeros((), x.dtype), x / y), low)
    return jnp.where(y == 0, x / y, whole), jnp.where(y == 0, rest, rest_signed)


@lowers("power")
def power(x: Array, y: Array) -> Any:
    """Return powers; complex powers of 0 are 0 where the real part of the exponent is positive."""
    ans = jnp.power(x, y)
    if ans.dtype.kind != "c":
        return ans
    return jnp.where((x == 0) & (jnp.real(y) > 0), jnp.zeros((), ans.dtype), ans)


@refuses("power")
def has_no_power(ans: Array, x: Array, y: Array) -> Any:
    """Return where integer powers have negative exponents, or exponents of more than 6 bits, which JAX truncates."""
    return None if ans.dtype.kind not in "iu" else (y < 0) | (y > 63)


# Special functions

lowers("exp10")(lambda x: jnp.power(jnp.asarray(10, x.dtype), x))
lowers("radian")(lambda d, m, s: (d + (m + s / 60) / 60) * (math.pi / 180))
lowers("sech_square")(lambda x: jnp.square(1 / jnp.cosh(x)))
lowers("cosm1")(lambda x: -2 * jnp.square(jnp.sin(x / 2)))
lowers("exprel")(lambda x: jnp.where(x == 0, jnp.ones((), x.dtype), jnp.expm1(x) / jnp.where(x == 0, 1, x)))
lowers("log_expit")(lambda x: -jax.nn.softplus(-x))
lowers("betaincc")(lambda a, b, x: scipys.betainc(b, a, 1 - x))
lowers("inv_boxcox")(lambda y, power: jnp.where(power == 0, jnp.exp(y), jnp.exp(jnp.log1p(power * y) / _unless(power))))
lowers("inv_boxcox1p")(
    lambda y, power: jnp.where(power == 0, jnp.expm1(y), jnp.expm1(jnp.log1p(power * y) / _unless(power)))
)
lowers("pseudo_huber")(lambda delta, r: _pseudo_huber(delta, r))
lowers("rgamma")(lambda x: scipys.gammasgn(x) * jnp.exp(-scipys.gammaln(x)))


def _unless(power: Array) -> Any:
    return jnp.where(power == 0, jnp.ones((), power.dtype), power)


def _pseudo_huber(delta: Array, r: Array) -> Any:
    ratio = r / jnp.where(delta == 0, 1, delta)
    value = delta * delta * jnp.expm1(0.5 * jnp.log1p(ratio * ratio))
    return jnp.where(delta < 0, jnp.inf, jnp.where((delta == 0) | (r == 0), 0.0, value))


@lowers("huber")
def huber(delta: Array, r: Array) -> Any:
    """Return the Huber loss: quadratic up to delta, and linear beyond."""
    size = jnp.abs(r)
    value = jnp.where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta))
    return jnp.where(delta < 0, jnp.inf, value)
