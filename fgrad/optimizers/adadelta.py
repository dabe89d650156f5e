"""Adadelta: steps in the units of the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.base import Optimizer, Slots
from fgrad.optimizers.declared import FRACTION, NOT_NEGATIVE, optimizer_class, varying
from fgrad.optimizers.settings import Hyper, Settings
from fgrad.optimizers.squares import filled, square
from fgrad.typing import Array


@optimizer_class
class Adadelta(Optimizer):
    """Divides by a moving average of gradients and multiplies by one of steps (https://arxiv.org/abs/1212.5701).

        a = rho * a + (1 - rho) * g * g
        u = sqrt(d + epsilon) / sqrt(a + epsilon) * g
        x -= learning_rate * u
        d = rho * d + (1 - rho) * u * u

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Adadelta(1.0, rho=0.95, epsilon=1e-6).minimize(lambda: w * w)
        >>> np.round(w, 5)
        Tensor([   0.99553, -199.99553])
    """

    learning_rate: Hyper = varying("a factor of the step; 1 in the paper", NOT_NEGATIVE, default=0.001)
    rho: Hyper = varying("the decay rate of the averages", FRACTION, default=0.95)
    epsilon: Hyper = varying("the square of the size of the first steps", NOT_NEGATIVE, default=1e-8)

    def initial_slots(self, param: Array) -> Slots:
        return {"accum": filled(param, 0.0), "accum_update": filled(param, 0.0)}

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        rho, epsilon = hyper.rho, hyper.epsilon
        squares = rho * slots["accum"] + (1 - rho) * square(gradient)
        moved = np.sqrt(slots["accum_update"] + epsilon) / np.sqrt(squares + epsilon) * gradient
        moves = rho * slots["accum_update"] + (1 - rho) * square(moved)
        return param - hyper.learning_rate * moved, {"accum": squares, "accum_update": moves}
