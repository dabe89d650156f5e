"""Adamax: Adam with the largest gradient in place of an average of squares."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from fgrad.optimizers.base import Optimizer, Options, Slots
from fgrad.optimizers.settings import Hyper, Settings, check_fraction, check_not_negative
from fgrad.optimizers.squares import filled


class Adamax(Optimizer):
    """Divides a moving average of the gradient by a decaying maximum of its modulus.

        m = beta1 * m + (1 - beta1) * g
        u = max(beta2 * u, |g| + epsilon)
        x -= learning_rate / (1 - beta1**t) * m / u

    This is Algorithm 2 of Kingma and Ba, https://arxiv.org/abs/1412.6980, with epsilon placed as in PyTorch.

    Args:
        learning_rate: about the largest change of an element in one step.
        beta1: the decay rate of the average.
        beta2: the decay rate of the maximum.
        epsilon: keeps the divisor away from 0.
        options: see `Optimizer`.

    Raises:
        ParameterError: a ValueError; not `0 <= beta < 1`, or `epsilon` is negative.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Adamax(0.1).minimize(lambda: w * w)
        >>> np.round(w, 6)
        Tensor([   0.9, -199.9])
    """

    hyper_names = ("beta1", "beta2", "epsilon")

    def __init__(
        self,
        learning_rate: Hyper = 0.002,
        beta1: Hyper = 0.9,
        beta2: Hyper = 0.999,
        epsilon: Hyper = 1e-8,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, **options)
        check_fraction(beta1=beta1, beta2=beta2)
        check_not_negative(epsilon=epsilon)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def initial_slots(self, param: Any) -> Slots:
        return {"m": np.zeros_like(param), "u": filled(param, 0.0)}

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        m = hyper.beta1 * slots["m"] + (1 - hyper.beta1) * gradient
        u = np.maximum(hyper.beta2 * slots["u"], np.abs(gradient) + hyper.epsilon)
        size = hyper.learning_rate / (1 - hyper.beta1**hyper.step)
        return param - size * m / u, {"m": m, "u": u}
