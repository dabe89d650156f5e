"""Nadam: Adam with Nesterov's momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.adam import Adam, moments
from fgrad.optimizers.base import Slots
from fgrad.optimizers.declared import NOT_NEGATIVE, fixed, optimizer_class, varying
from fgrad.optimizers.settings import Hyper, Settings
from fgrad.optimizers.squares import filled
from fgrad.typing import Array, Operand


@optimizer_class
class Nadam(Adam):
    """Adam with Nesterov momentum (Dozat, https://openreview.net/forum?id=OM0jvwB8jIp57ZJjtNEZ).

        u(t) = beta1 * (1 - 0.5 * 0.96**(momentum_decay * t)),  p(t) = u(1) * ... * u(t)
        m, v as for Adam
        mhat = u(t+1) * m / (1 - p(t+1)) + (1 - u(t)) * g / (1 - p(t))
        x -= learning_rate * mhat / (sqrt(v / (1 - beta2**t)) + epsilon)

    The default of epsilon is that of Keras; PyTorch has 1e-8.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Nadam(0.1).minimize(lambda: w * w)
        >>> np.round(w, 3)
        Tensor([   0.894, -199.894])
    """

    epsilon: Hyper = varying(default=1e-7)
    momentum_decay: Hyper = varying(
        "the rate at which the momentum warms up: 1 in Keras, 0.004 in PyTorch", NOT_NEGATIVE, default=1.0
    )
    corrected_epsilon: bool = fixed(default=True, kw_only=True)

    def initial_slots(self, param: Array) -> Slots:
        # The product has no closed form, and beta1 may change, so it is part of the state: with the shape of beta1 and
        # momentum_decay.
        factors: list[Any] = [self.beta1, self.momentum_decay]
        shape = np.broadcast_shapes(*map(np.shape, factors))
        return {**super().initial_slots(param), "momentum_product": filled(np.zeros(shape, param.dtype), 1.0)}

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        new = moments(gradient, slots, hyper)
        now, ahead = _momentum(hyper, hyper.step), _momentum(hyper, hyper.step + 1)
        product = slots["momentum_product"] * now
        mhat = ahead * new["m"] / (1 - product * ahead) + (1 - now) * gradient / (1 - product)
        new["momentum_product"] = product
        return param - hyper.learning_rate * mhat / self.root(new["v"], hyper), new


def _momentum(hyper: Settings, step: Operand) -> Any:
    return hyper.beta1 * (1 - 0.5 * 0.96 ** (hyper.momentum_decay * step))
