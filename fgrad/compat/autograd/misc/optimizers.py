"""Optimizers in Autograd's form: `adam(grad, x0, callback=None, num_iters=100, step_size=0.001)`.

`grad(x, i)` returns the gradient at iteration `i`, and `callback(x, i, g)` is called before each step. The parameters
may be nested containers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fgrad.compat.autograd.misc.flatten import flatten
from fgrad.typing import Array, Operand

Step = Callable[[int, Any], Any]


def _optimizer(steps: Callable[..., Step]) -> Callable[..., Any]:
    """Make an optimizer from a factory that maps the number of parameters to a function from gradients to steps."""
    defaults = steps.__kwdefaults__ or {}
    names = list(defaults)

    @functools.wraps(steps)
    def optimize(
        grad: Callable[..., Any],
        x0: Mapping[str, Any],
        callback: Callable[..., Any] | None = None,
        *args: Operand,
        **kwargs: Any,
    ) -> Any:
        options = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        num_iters = options.pop("num_iters")
        x, unflatten = flatten(x0)
        step = steps(len(x), **options, num_iters=num_iters)
        for i in range(num_iters):
            g = flatten(grad(unflatten(x), i))[0]
            if callback:
                callback(unflatten(x), i, unflatten(g))
            x = x + step(i, g)
        return unflatten(x)

    return optimize


@_optimizer
def sgd(size: int, *, num_iters: int = 200, step_size: float = 0.1, mass: float = 0.9) -> Step:
    """Gradient descent with momentum."""
    velocity: Any = np.zeros(size)

    def step(i: int, g: Array) -> Any:
        nonlocal velocity
        velocity = mass * velocity - (1.0 - mass) * g
        return step_size * velocity

    return step


@_optimizer
def rmsprop(size: int, *, num_iters: int = 100, step_size: float = 0.1, gamma: float = 0.9, eps: float = 1e-8) -> Step:
    """RMSProp: steps divided by the square root of a moving average of squared gradients."""
    squares: Any = np.ones(size)

    def step(i: int, g: Array) -> Any:
        nonlocal squares
        squares = gamma * squares + (1 - gamma) * g**2
        return -step_size * g / (np.sqrt(squares) + eps)

    return step


@_optimizer
def adam(
    size: int, *, num_iters: int = 100, step_size: float = 0.001, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Step:
    """Adam: bias-corrected moving averages of gradients and their squares."""
    mean: Any = np.zeros(size)
    square: Any = np.zeros(size)

    def step(i: int, g: Array) -> Any:
        nonlocal mean, square
        mean = b1 * mean + (1 - b1) * g
        square = b2 * square + (1 - b2) * g**2
        return -step_size * mean / (1 - b1 ** (i + 1)) / (np.sqrt(square / (1 - b2 ** (i + 1))) + eps)

    return step
