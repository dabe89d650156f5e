"""Nadam: Adam with Nesterov's momentum."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

import numpy as np

from fgrad.optimizers.adam import Adam, moments
from fgrad.optimizers.base import Options, Slots
from fgrad.optimizers.settings import Hyper, Settings, check_not_negative
from fgrad.optimizers.squares import filled


class Nadam(Adam):
    """Adam with Nesterov momentum (Dozat, https://openreview.net/forum?id=OM0jvwB8jIp57ZJjtNEZ).

        u(t) = beta1 * (1 - 0.5 * 0.96**(momentum_decay * t)),  p(t) = u(1) * ... * u(t)
        m, v as for Adam
        mhat = u(t+1) * m / (1 - p(t+1)) + (1 - u(t)) * g / (1 - p(t))
        x -= learning_rate * mhat / (sqrt(v / (1 - beta2**t)) + epsilon)

    Args:
        learning_rate: about the largest change of an element in one step.
        beta1, beta2: the decay rates of the averages.
        epsilon: keeps the divisor away from 0. The default is that of Keras; PyTorch has 1e-8.
        momentum_decay: the rate at which the momentum warms up: 1 in Keras, 0.004 in PyTorch.
        corrected_epsilon: add epsilon to the corrected root, as above; see `Adam`.
        options: see `Optimizer`.

    Raises:
        ParameterError: a ValueError; not `0 <= beta < 1`, or `epsilon` or `momentum_decay` is negative.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Nadam(0.1).minimize(lambda: w * w)
        >>> np.round(w, 3)
        Tensor([   0.894, -199.894])
    """

    hyper_names: ClassVar[tuple[str, ...]] = (*Adam.hyper_names, "momentum_decay")

    def __init__(
        self,
        learning_rate: Hyper = 0.001,
        beta1: Hyper = 0.9,
        beta2: Hyper = 0.999,
        epsilon: Hyper = 1e-7,
        momentum_decay: Hyper = 1.0,
        *,
        corrected_epsilon: bool = True,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, corrected_epsilon=corrected_epsilon, **options)
        check_not_negative(momentum_decay=momentum_decay)
        self.momentum_decay = momentum_decay

    def initial_slots(self, param: Any) -> Slots:
        # The product has no closed form, and beta1 may change, so it is part of the state: with the shape of beta1 and
        # momentum_decay.
        shape = np.broadcast_shapes(np.shape(self.beta1), np.shape(self.momentum_decay))
        return {**super().initial_slots(param), "momentum_product": filled(np.zeros(shape, param.dtype), 1.0)}

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        new = moments(gradient, slots, hyper)
        now, ahead = _momentum(hyper, hyper.step), _momentum(hyper, hyper.step + 1)
        product = slots["momentum_product"] * now
        mhat = ahead * new["m"] / (1 - product * ahead) + (1 - now) * gradient / (1 - product)
        new["momentum_product"] = product
        return param - hyper.learning_rate * mhat / self.root(new["v"], hyper), new


def _momentum(hyper: Settings, step: Any) -> Any:
    return hyper.beta1 * (1 - 0.5 * 0.96 ** (hyper.momentum_decay * step))
