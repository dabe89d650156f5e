"""Adamax: Adam with the largest gradient in place of an average of squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.base import Optimizer, Slots
from fgrad.optimizers.declared import FRACTION, NOT_NEGATIVE, optimizer_class, varying
from fgrad.optimizers.settings import Hyper, Settings
from fgrad.optimizers.squares import filled
from fgrad.typing import Array


@optimizer_class
class Adamax(Optimizer):
    """Divides a moving average of the gradient by a decaying maximum of its modulus.

        m = beta1 * m + (1 - beta1) * g
        u = max(beta2 * u, |g| + epsilon)
        x -= learning_rate / (1 - beta1**t) * m / u

    This is Algorithm 2 of Kingma and Ba, https://arxiv.org/abs/1412.6980, with epsilon placed as in PyTorch.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Adamax(0.1).minimize(lambda: w * w)
        >>> np.round(w, 6)
        Tensor([   0.9, -199.9])
    """

    learning_rate: Hyper = varying("about the largest change of an element in a step", NOT_NEGATIVE, default=0.002)
    beta1: Hyper = varying("the decay rate of the average", FRACTION, default=0.9)
    beta2: Hyper = varying("the decay rate of the maximum", FRACTION, default=0.999)
    epsilon: Hyper = varying("keeps the divisor away from 0", NOT_NEGATIVE, default=1e-8)

    def initial_slots(self, param: Array) -> Slots:
        return {"m": np.zeros_like(param), "u": filled(param, 0.0)}

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        m = hyper.beta1 * slots["m"] + (1 - hyper.beta1) * gradient
        u = np.maximum(hyper.beta2 * slots["u"], np.abs(gradient) + hyper.epsilon)
        size = hyper.learning_rate / (1 - hyper.beta1**hyper.step)
        return param - size * m / u, {"m": m, "u": u}
