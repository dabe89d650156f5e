"""RAdam: Adam with rectified variance of the adaptive learning rate."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.adam import Adam, moments
from fgrad.optimizers.base import Slots
from fgrad.optimizers.declared import at_least, fixed, optimizer_class
from fgrad.optimizers.settings import Settings
from fgrad.typing import Array


@optimizer_class
class RAdam(Adam):
    """Rectified Adam, https://arxiv.org/abs/1908.03265.

        m, v as for Adam,  mhat = m / (1 - beta1**t)
        rho_inf = 2 / (1 - beta2) - 1,  rho = rho_inf - 2 * t * beta2**t / (1 - beta2**t)
        r = sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
        x -= learning_rate * r * mhat * sqrt(1 - beta2**t) / (sqrt(v) + epsilon)    if rho > threshold
        x -= learning_rate * mhat                                                   otherwise

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> RAdam(0.1).minimize(lambda: w * w)
        >>> w
        Variable([   0.8, -160. ], name='w')
    """

    threshold: float = fixed(
        "the value of rho from which the adaptive step is used: 4 in the paper, 5 in PyTorch and optax",
        at_least(4),
        default=4.0,
    )

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        new = moments(gradient, slots, hyper)
        mhat = new["m"] / (1 - hyper.beta1**hyper.step)
        power = hyper.beta2**hyper.step
        limit = 2 / (1 - hyper.beta2) - 1
        length = limit - 2 * hyper.step * power / (1 - power)
        steady = length > self.threshold
        if steady is False:
            return param - hyper.learning_rate * mhat, new
        if steady is not True:  # a tensor or array: both cases are computed, and must be defined
            length = np.where(steady, length, self.threshold + 1)
        above = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        rectified = above**0.5 * mhat / self.root(new["v"], hyper)
        moved = rectified if steady is True else np.where(steady, rectified, mhat)
        return param - hyper.learning_rate * moved, new
