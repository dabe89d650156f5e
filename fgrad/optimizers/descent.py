"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.base import Optimizer, Slots
from fgrad.optimizers.declared import NOT_NEGATIVE, fixed, optimizer_class, varying
from fgrad.optimizers.settings import Hyper, Settings
from fgrad.typing import Array


@optimizer_class
class GradientDescent(Optimizer):
    """Steps against the gradient: `x -= learning_rate * g`.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, 2.0], name="w")
        >>> GradientDescent(0.1).minimize(lambda: w * w)
        >>> w
        Variable([0.8, 1.6], name='w')
    """

    learning_rate: Hyper = varying("the length of a step for a gradient of length 1", NOT_NEGATIVE)

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        return param - hyper.learning_rate * gradient, {}


@optimizer_class
class Momentum(Optimizer):
    """Gradient descent with a velocity (Polyak, 1964).

        m = momentum * m + g
        x -= learning_rate * m

    Nesterov's form is `x -= learning_rate * (g + momentum * m)` (Sutskever et al.,
    https://proceedings.mlr.press/v28/sutskever13.html).

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable(1.0, name="w")
        >>> optimizer = Momentum(0.1, momentum=0.9)
        >>> for _ in range(2):
        ...     optimizer.minimize(lambda: w * w)
        >>> f"{w:.2f}"
        '0.46'
    """

    momentum: Hyper = varying("the decay rate of the velocity", NOT_NEGATIVE)
    use_nesterov: bool = fixed("whether to use Nesterov's form", default=False)

    def initial_slots(self, param: Array) -> Slots:
        return {"momentum": np.zeros_like(param)}

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        velocity = hyper.momentum * slots["momentum"] + gradient
        moved = gradient + hyper.momentum * velocity if self.use_nesterov else velocity
        return param - hyper.learning_rate * moved, {"momentum": velocity}
