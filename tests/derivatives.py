"""Both modes against finite differences, for the sweeps: what `fg.testing.check_grads` checks, from fewer evaluations.

A sweep runs it thousands of times. The value under a trace comes with the tangent and with the pullback; one central
difference is enough where it agrees, and the extrapolated one of `check_grads` decides where it does not; and all four
combinations of modes to second order are compared with one difference, that of the tangent: through inner products, as
reverse mode is to first order.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import fgrad as fg
from fgrad import testing
from fgrad.core.tree import flatten, unflatten

STEP = 1e-4
RTOL = 1e-5


class Derivatives(NamedTuple):
    """What has been compared: values, the directions and the tangents, the weights and the gradients."""

    values: list[Any]
    direction: tuple[Any, ...]
    tangent: Any
    weights: Any
    gradients: tuple[Any, ...]


def check_derivatives(f: Callable[..., Any], args: tuple[Any, ...], order: int = 2, rtol: float = 1e-6) -> Derivatives:
    """Compare values, and derivatives in both modes, with those of plain arrays.

    Args:
        f: a function of `args`; its value on plain arrays is right.
        args: arrays of double precision, not at a kink.
        order: 1 or 2.
        rtol: of the values; their shapes and dtypes must be the same.

    Raises:
        GradientCheckError: an AssertionError; a derivative differs.
    """
    expected = f(*(np.array(x) for x in args))
    rng = np.random.default_rng(0)
    direction = testing._random_like(args, rng)
    (forward, tangent), (reverse, pullback) = fg.jvp(f, args, direction), fg.vjp(f, *args)
    for value in (forward, reverse):
        assert_values(value, expected, rtol)
    margins = compared(f, expected, args, direction, tangent, "forward")
    weights = testing._random_like(tangent, rng)
    gradients = pullback(weights)
    for gradient, x in zip(testing._arrays(gradients), testing._arrays(args), strict=True):
        if x.dtype.kind in "fc":
            assert (gradient.dtype, gradient.shape) == (x.dtype, x.shape)
    compare_inner(gradients, direction, weights, tangent, margins, "reverse")
    if order > 1:
        check_second(f, args, direction, tangent, weights, testing._random_like(args, rng))
    return Derivatives(testing._arrays(expected), direction, tangent, weights, gradients)


def check_second(f: Any, args: Any, direction: Any, tangent: Any, weights: Any, turn: Any) -> None:
    """Compare the derivatives of the tangent and of the gradient along another direction, `turn`.

    <direction, d/dturn J^H weights> is <weights, d/dturn J direction>.
    """
    along, weighed = testing._along(f, direction), testing._weighed(f, weights)
    found = fg.jvp(along, args, turn)[1]
    margins = compared(along, tangent, args, turn, found, "forward then forward")
    for first, second, what in (
        (fg.vjp(along, *args)[1](weights), turn, "forward then reverse"),
        (fg.jvp(weighed, args, turn)[1], direction, "reverse then forward"),
        (fg.vjp(weighed, *args)[1](direction), turn, "reverse then reverse"),
    ):
        compare_inner(first, second, weights, found, margins, what)


def compared(f: Any, value: Any, args: Any, direction: Any, found: Any, what: str) -> list[Any]:
    """Compare a tangent with differences; return by how much these may be off."""
    slope = central(f, args, direction)
    rounding = 80 * np.finfo(float).eps * testing._size(value) / STEP
    pairs = list(zip(testing._arrays(found), slope, strict=True))
    if all(x.shape == y.shape and np.isclose(x, y, rtol=RTOL, atol=rounding).all() for x, y in pairs):
        return [rounding] * len(slope)
    extrapolated, margins = testing._difference(f, value, args, direction)
    testing._compare(found, extrapolated, RTOL, margins, what)
    return margins


def central(f: Any, args: Any, direction: Any) -> list[Any]:
    """Return one central difference along a direction."""
    treedef, pairs = flatten(args)[1], list(zip(testing._arrays(args), flatten(direction)[0], strict=True))
    ahead, behind = (
        testing._arrays(f(*unflatten(treedef, [x + step * t for x, t in pairs]))) for step in (STEP, -STEP)
    )
    return [testing._change(a, b) / (2 * STEP) for a, b in zip(ahead, behind, strict=True)]


def compare_inner(first: Any, second: Any, weights: Any, tangent: Any, margins: Any, what: str) -> None:
    """Compare <first, second> with <weights, tangent>, whose tangent has been compared with differences."""
    bound = sum(float(np.sum(np.abs(w) * b)) for w, b in zip(testing._arrays(weights), margins, strict=True))
    testing._compare(testing._inner(first, second), testing._inner(weights, tangent), RTOL, [bound], what)


def assert_values(found: Any, expected: Any, rtol: float) -> None:
    for x, y in zip(testing._arrays(found), testing._arrays(expected), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        scale = float(np.max(np.abs(y), initial=0, where=np.isfinite(y))) if y.dtype.kind in "fc" else 0.0
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * max(1.0, scale))
