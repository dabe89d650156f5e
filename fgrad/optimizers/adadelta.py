"""Adadelta: steps in the units of the parameters."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from fgrad.optimizers.base import Optimizer, Options, Slots
from fgrad.optimizers.settings import Hyper, Settings, check_not_negative
from fgrad.optimizers.squares import filled, square


class Adadelta(Optimizer):
    """Divides by a moving average of gradients and multiplies by one of steps (https://arxiv.org/abs/1212.5701).

        a = rho * a + (1 - rho) * g * g
        u = sqrt(d + epsilon) / sqrt(a + epsilon) * g
        x -= learning_rate * u
        d = rho * d + (1 - rho) * u * u

    Args:
        learning_rate: a factor of the step; 1 in the paper.
        rho: the decay rate of the averages.
        epsilon: the square of the size of the first steps.
        options: see `Optimizer`.

    Raises:
        ParameterError: a ValueError; not `0 <= rho < 1`, or `epsilon` is negative.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Adadelta(1.0, rho=0.95, epsilon=1e-6).minimize(lambda: w * w)
        >>> np.round(w, 5)
        Tensor([   0.99553, -199.99553])
    """

    hyper_names = ("rho", "epsilon")

    def __init__(
        self, learning_rate: Hyper = 0.001, rho: Hyper = 0.95, epsilon: Hyper = 1e-8, **options: Unpack[Options]
    ) -> None:
        super().__init__(learning_rate, **options)
        self._check_fraction(rho=rho)
        check_not_negative(epsilon=epsilon)
        self.rho, self.epsilon = rho, epsilon

    def initial_slots(self, param: Any) -> Slots:
        return {"accum": filled(param, 0.0), "accum_update": filled(param, 0.0)}

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        rho, epsilon = hyper.rho, hyper.epsilon
        squares = rho * slots["accum"] + (1 - rho) * square(gradient)
        moved = np.sqrt(slots["accum_update"] + epsilon) / np.sqrt(squares + epsilon) * gradient
        moves = rho * slots["accum_update"] + (1 - rho) * square(moved)
        return param - hyper.learning_rate * moved, {"accum": squares, "accum_update": moves}
