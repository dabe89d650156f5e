"""RMSProp: gradients divided by their recent magnitude."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.base import Optimizer, Slots
from fgrad.optimizers.declared import FRACTION, NOT_NEGATIVE, fixed, optimizer_class, varying
from fgrad.optimizers.settings import Hyper, Settings
from fgrad.optimizers.squares import filled, square
from fgrad.typing import Array


@optimizer_class
class RMSProp(Optimizer):
    """Divides by the root of a moving average of squared gradients (Hinton, 2012).

        s = decay * s + (1 - decay) * g * g
        m = momentum * m + learning_rate * g / sqrt(s + epsilon)
        x -= m

    The source is https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf. As in TensorFlow 1, `s`
    starts at 1 and the learning rate is part of the momentum update. The centered form divides by the standard
    deviation: `sqrt(s - |a|**2 + epsilon)` with `a = decay * a + (1 - decay) * g`.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> RMSProp(0.1).minimize(lambda: w * w)
        >>> np.round(w, 3)
        Tensor([   0.825, -199.684])
    """

    learning_rate: Hyper = varying("the approximate size of a step", NOT_NEGATIVE)
    decay: Hyper = varying("the decay rate of the averages", FRACTION, default=0.9)
    momentum: Hyper = varying("the decay rate of the velocity", NOT_NEGATIVE, default=0.0)
    epsilon: Hyper = varying("keeps the divisor away from 0", NOT_NEGATIVE, default=1e-10)
    centered: bool = fixed("subtract the square of the average gradient", default=False)

    def initial_slots(self, param: Array) -> Slots:
        average = {"mg": np.zeros_like(param)} if self.centered else {}
        return {"rms": filled(param, 1.0), "momentum": np.zeros_like(param), **average}

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        new = {"rms": hyper.decay * slots["rms"] + (1 - hyper.decay) * square(gradient)}
        spread = new["rms"] + hyper.epsilon
        if self.centered:
            new["mg"] = hyper.decay * slots["mg"] + (1 - hyper.decay) * gradient
            spread = new["rms"] - square(new["mg"]) + hyper.epsilon
        new["momentum"] = hyper.momentum * slots["momentum"] + hyper.learning_rate * gradient / np.sqrt(spread)
        return param - new["momentum"], new
