"""Lion: steps of constant size, in the direction of a sign."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from fgrad.optimizers.base import Optimizer, Options, Slots
from fgrad.optimizers.settings import Hyper, Settings, check_fraction


class Lion(Optimizer):
    """Steps by the sign of an average of gradients (https://arxiv.org/abs/2302.06675).

        x -= learning_rate * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * x)
        m = beta2 * m + (1 - beta2) * g

    The sign of a complex number is the number divided by its modulus.

    Args:
        learning_rate: the size of each step; a tenth of Adam's is usual.
        beta1: the weight of the average in a step.
        beta2: the decay rate of the average.
        options: see `Optimizer`.

    Raises:
        ParameterError: a ValueError; not `0 <= beta < 1`.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Lion(0.1).minimize(lambda: w * w)
        >>> w
        Variable([   0.9, -199.9], name='w')
    """

    hyper_names = ("beta1", "beta2")

    def __init__(
        self, learning_rate: Hyper = 0.0001, beta1: Hyper = 0.9, beta2: Hyper = 0.99, **options: Unpack[Options]
    ) -> None:
        super().__init__(learning_rate, **options)
        check_fraction(beta1=beta1, beta2=beta2)
        self.beta1, self.beta2 = beta1, beta2

    def initial_slots(self, param: Any) -> Slots:
        return {"m": np.zeros_like(param)}

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        direction = np.sign(hyper.beta1 * slots["m"] + (1 - hyper.beta1) * gradient)
        m = hyper.beta2 * slots["m"] + (1 - hyper.beta2) * gradient
        return param - hyper.learning_rate * direction, {"m": m}
