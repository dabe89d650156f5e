"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from fgrad.optimizers.base import Optimizer, Options, Slots
from fgrad.optimizers.settings import Hyper, Settings, check_not_negative


class GradientDescent(Optimizer):
    """Steps against the gradient: `x -= learning_rate * g`.

    Args:
        learning_rate: the length of a step for a gradient of length 1.
        weight_decay, decay_mask, skip_nonfinite, name, unknown: see `Optimizer`.

    Raises:
        ParameterError: a ValueError; `learning_rate` is not a number.
        KeywordError: a TypeError; the keyword is unknown.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, 2.0], name="w")
        >>> GradientDescent(0.1).minimize(lambda: w * w)
        >>> w
        Variable([0.8, 1.6], name='w')
    """

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        return param - hyper.learning_rate * gradient, {}


class Momentum(Optimizer):
    """Gradient descent with a velocity (Polyak, 1964).

        m = momentum * m + g
        x -= learning_rate * m

    Nesterov's form is `x -= learning_rate * (g + momentum * m)` (Sutskever et al.,
    https://proceedings.mlr.press/v28/sutskever13.html).

    Args:
        learning_rate: the length of a step.
        momentum: the decay rate of the velocity.
        use_nesterov: whether to use Nesterov's form.
        options: see `Optimizer`.

    Raises:
        ParameterError: a ValueError; `momentum` is negative.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable(1.0, name="w")
        >>> optimizer = Momentum(0.1, momentum=0.9)
        >>> for _ in range(2):
        ...     optimizer.minimize(lambda: w * w)
        >>> f"{w:.2f}"
        '0.46'
    """

    hyper_names = ("momentum",)

    def __init__(
        self, learning_rate: Hyper, momentum: Hyper, use_nesterov: bool = False, **options: Unpack[Options]
    ) -> None:
        super().__init__(learning_rate, **options)
        check_not_negative(momentum=momentum)
        self.momentum, self.use_nesterov = momentum, use_nesterov

    def initial_slots(self, param: Any) -> Slots:
        return {"momentum": np.zeros_like(param)}

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        velocity = hyper.momentum * slots["momentum"] + gradient
        moved = gradient + hyper.momentum * velocity if self.use_nesterov else velocity
        return param - hyper.learning_rate * moved, {"momentum": velocity}
