"""RMSProp: gradients divided by their recent magnitude."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from fgrad.optimizers.base import Optimizer, Options, Slots
from fgrad.optimizers.settings import Hyper, Settings, check_not_negative
from fgrad.optimizers.squares import filled, square


class RMSProp(Optimizer):
    """Divides by the root of a moving average of squared gradients (Hinton, 2012).

        s = decay * s + (1 - decay) * g * g
        m = momentum * m + learning_rate * g / sqrt(s + epsilon)
        x -= m

    The source is https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf. As in TensorFlow 1, `s`
    starts at 1 and the learning rate is part of the momentum update. The centered form divides by the standard
    deviation: `sqrt(s - |a|**2 + epsilon)` with `a = decay * a + (1 - decay) * g`.

    Args:
        learning_rate: the approximate size of a step.
        decay: the decay rate of the averages.
        momentum: the decay rate of the velocity.
        epsilon: keeps the divisor away from 0.
        centered: subtract the square of the average gradient.
        options: see `Optimizer`.

    Raises:
        ParameterError: a ValueError; not `0 <= decay < 1`, or `momentum` or `epsilon` is negative.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> RMSProp(0.1).minimize(lambda: w * w)
        >>> np.round(w, 3)
        Tensor([   0.825, -199.684])
    """

    hyper_names = ("decay", "momentum", "epsilon")

    def __init__(
        self,
        learning_rate: Hyper,
        decay: Hyper = 0.9,
        momentum: Hyper = 0.0,
        epsilon: Hyper = 1e-10,
        centered: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, **options)
        self._check_fraction(decay=decay)
        check_not_negative(momentum=momentum, epsilon=epsilon)
        self.decay, self.momentum, self.epsilon, self.centered = decay, momentum, epsilon, centered

    def initial_slots(self, param: Any) -> Slots:
        average = {"mg": np.zeros_like(param)} if self.centered else {}
        return {"rms": filled(param, 1.0), "momentum": np.zeros_like(param), **average}

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        new = {"rms": hyper.decay * slots["rms"] + (1 - hyper.decay) * square(gradient)}
        spread = new["rms"] + hyper.epsilon
        if self.centered:
            new["mg"] = hyper.decay * slots["mg"] + (1 - hyper.decay) * gradient
            spread = new["rms"] - square(new["mg"]) + hyper.epsilon
        new["momentum"] = hyper.momentum * slots["momentum"] + hyper.learning_rate * gradient / np.sqrt(spread)
        return param - new["momentum"], new
