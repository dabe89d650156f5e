"""Checks of derivatives against finite differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.compat.autograd.core import make_jvp, make_vjp
from fgrad.compat.autograd.vspaces import vspace
from fgrad.compat.autograd.wrap_util import get_name, unary_to_nary
from fgrad.errors import GradientCheckError, ParameterError
from fgrad.typing import Array, ArrayLike

TOL = RTOL = 1e-6
EPS = 1e-6


def scalar_close(a: ArrayLike, b: Any) -> bool:
    """Return whether two numbers are nearly equal."""
    return bool(abs(a - b) < TOL or abs(a - b) < RTOL * abs(a + b))


def make_numerical_jvp(f: Callable[[Any], Any], x: object) -> Callable[[Any], Any]:
    """Return a function of a tangent: the derivative of `f` along it, by a central difference."""
    space, space_of_value = vspace(x), vspace(f(x))

    def jvp(v: object) -> Any:
        after, before = (f(space.add(x, space.scalar_mul(v, step))) for step in (EPS / 2, -EPS / 2))
        change = space_of_value.add(after, space_of_value.scalar_mul(before, -1.0))
        return space_of_value.scalar_mul(change, 1.0 / EPS)

    return jvp


numerical_jvp = make_numerical_jvp


def check_vjp(f: Callable[[Any], Any], x: object) -> None:
    """Compare the pullback of a function with finite differences, along random directions.

    Raises:
        GradientCheckError: an AssertionError; they differ.
    """
    pullback, value = make_vjp(f, x)
    numerical = make_numerical_jvp(f, x)
    space, space_of_value = vspace(x), vspace(value)
    tangent, cotangent = space.randn(), space_of_value.randn()
    pulled = space.covector(pullback(space_of_value.covector(cotangent)))
    if vspace(pulled) != space:
        raise GradientCheckError(
            f"the gradient of {get_name(f)} lies in {vspace(pulled)}, but its argument in {space}."
        )
    expected = space_of_value.inner_prod(cotangent, numerical(tangent))
    found = space.inner_prod(tangent, pulled)
    if not scalar_close(expected, found):
        raise GradientCheckError(
            f"the derivative (VJP) check of {get_name(f)} failed at {x}: "
            f"its rules give {found}, but finite differences {expected}."
        )


def check_jvp(f: Callable[[Any], Any], x: object) -> None:
    """Compare the pushforward of a function with finite differences, along a random direction."""
    tangent = vspace(x).randn()
    check_equivalent(make_jvp(f, x)(tangent)[1], make_numerical_jvp(f, x)(tangent))


def check_equivalent(x: object, y: object) -> None:
    """Check that two values are in the same space, and nearly equal.

    Raises:
        GradientCheckError: an AssertionError; they are not.
    """
    space, other = vspace(x), vspace(y)
    if space != other:
        raise GradientCheckError(f"{x} lies in {space}, and {y} in {other}.")
    direction = space.randn()
    if not scalar_close(space.inner_prod(x, direction), space.inner_prod(y, direction)):
        raise GradientCheckError(f"{x} is not {y}.")


@unary_to_nary
def check_grads(f: Callable[[Any], Any], x: object, modes: Sequence[str] = ("fwd", "rev"), order: int = 2) -> None:
    """Check the derivatives of a function in both modes, up to an order, against finite differences.

    `check_grads(f, argnum=0, modes=("fwd", "rev"), order=2)(*args)`.

    Raises:
        GradientCheckError: an AssertionError; they differ.
    """
    if not set(modes) <= {"fwd", "rev"}:
        raise ParameterError(f"modes must be 'fwd' and 'rev', not {modes!r}.")
    for mode, check, derivative in (("fwd", check_jvp, _pushed), ("rev", check_vjp, _pulled)):
        if mode in modes:
            check(f, x)
            if order > 1:
                function, direction = derivative(f, x)
                check_grads(function, (0, 1), modes, order - 1)(x, direction)


def _pushed(f: Callable[[Any], Any], x: object) -> tuple[Any, Any]:
    def pushed(x: object, tangent: object) -> Any:
        return make_jvp(f, x)(tangent)[1]

    pushed.__name__ = f"jvp_{get_name(f)}"
    return pushed, vspace(x).randn()


def _pulled(f: Callable[[Any], Any], x: object) -> tuple[Any, Any]:
    def pulled(x: object, cotangent: Array) -> Any:
        return make_vjp(f, x)[0](cotangent)

    pulled.__name__ = f"vjp_{get_name(f)}"
    return pulled, vspace(f(x)).randn()


def combo_check(fun: Callable[..., Any], *check_args: ArrayLike, **check_kwargs: object) -> Callable[..., None]:
    """Return a function that runs `check_grads` for each combination of lists of arguments and of keywords."""

    def check(*args: Sequence[Any], **kwargs: Sequence[Any]) -> None:
        for values in itertools.product(*args):
            for chosen in itertools.product(*kwargs.values()):
                check_grads(fun, *check_args, **check_kwargs)(*values, **dict(zip(kwargs, chosen, strict=True)))

    return check
