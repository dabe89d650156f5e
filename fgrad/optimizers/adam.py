"""Adam: steps of a size that adapts to each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.base import Hyper, Optimizer, Slots, value_of


class Adam(Optimizer):
    """Divides a moving average of the gradient by the root of one of its square.

        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        x -= learning_rate * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(v) + epsilon)

    This is the form before section 2.1 of Kingma and Ba, https://arxiv.org/abs/1412.6980, and
    TensorFlow's: epsilon is added to the root that is not yet corrected for its start at 0.

    Args:
        learning_rate: about the largest change of an element in one step.
        beta1, beta2: how much of the averages stays from step to step.
        epsilon: keeps the divisor away from 0.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Adam(0.1).minimize(lambda: w * w)
        >>> np.round(w, 6)
        Tensor([   0.9, -199.9])
    """

    slot_names = ("m", "v")

    def __init__(
        self, learning_rate: Hyper = 0.001, beta1: Hyper = 0.9, beta2: Hyper = 0.999, epsilon: Hyper = 1e-8
    ) -> None:
        super().__init__(learning_rate)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def rule(self, gradient: Any, param: Any, slots: Slots, step: int) -> tuple[Any, Slots]:
        beta1, beta2, epsilon = (value_of(h, param) for h in (self.beta1, self.beta2, self.epsilon))
        m = beta1 * slots["m"] + (1 - beta1) * gradient
        v = beta2 * slots["v"] + (1 - beta2) * np.real(gradient * np.conjugate(gradient))
        correction = (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        return param - self._rate(param) * correction * m / (np.sqrt(v) + epsilon), {"m": m, "v": v}
