"""Gradient descent: plain, with momentum, and with steps of constant size."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.base import Optimizer, Slots
from fgrad.optimizers.declared import FRACTION, NOT_NEGATIVE, fixed, optimizer_class, varying
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


@optimizer_class
class Lion(Optimizer):
    """Steps by the sign of an average of gradients (https://arxiv.org/abs/2302.06675).

        x -= learning_rate * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * x)
        m = beta2 * m + (1 - beta2) * g

    The sign of a complex number is the number divided by its modulus.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Lion(0.1).minimize(lambda: w * w)
        >>> w
        Variable([   0.9, -199.9], name='w')
    """

    learning_rate: Hyper = varying("the size of each step; a tenth of Adam's is usual", NOT_NEGATIVE, default=0.0001)
    beta1: Hyper = varying("the weight of the average in a step", FRACTION, default=0.9)
    beta2: Hyper = varying("the decay rate of the average", FRACTION, default=0.99)

    def initial_slots(self, param: Array) -> Slots:
        return {"m": np.zeros_like(param)}

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        direction = np.sign(hyper.beta1 * slots["m"] + (1 - hyper.beta1) * gradient)
        m = hyper.beta2 * slots["m"] + (1 - hyper.beta2) * gradient
        return param - hyper.learning_rate * direction, {"m": m}
