"""Fixed points, with derivatives by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.compat.autograd.core import make_vjp
from fgrad.compat.autograd.primitives import defvjp, primitive
from fgrad.compat.autograd.vspaces import vspace
from fgrad.typing import Array, ArrayLike, Operand


@primitive
def fixed_point(
    f: Callable[[Any], Callable[[Any], Any]],
    a: ArrayLike,
    x0: ArrayLike,
    distance: Callable[[Any, Any], Any],
    tol: float,
) -> Any:
    """Return the fixed point of `f(a)`, by iteration from `x0` until it changes by no more than `tol`.

    Its derivative with respect to `a` is that of the fixed point, independent of the number of iterations.
    """
    step = f(a)
    previous, x = x0, step(x0)
    while distance(x, previous) > tol:
        previous, x = x, step(x)
    return x


def _vjp(
    ans: Array, f: Callable[..., Any], a: ArrayLike, x0: Operand, distance: Callable[..., Any], tol: float
) -> Callable[[Any], Any]:
    pull_a, _ = make_vjp(lambda a: f(a)(ans), a)

    def adjoint(given: tuple[Any, Any, Any]) -> Callable[[Any], Any]:
        """Return the iteration whose fixed point is the total cotangent."""
        a, x, g = given
        pull_x, _ = make_vjp(f(a), x)
        return lambda ct: vspace(x).add(pull_x(ct), g)

    def vjp(g: Array) -> Any:
        return pull_a(fixed_point(adjoint, (a, ans, g), vspace(ans).zeros(), distance, tol))

    return vjp


defvjp(fixed_point, None, _vjp, None)
