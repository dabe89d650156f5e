"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from typing import Any

from fgrad.optimizers.base import Hyper, Optimizer, Slots, value_of


class GradientDescent(Optimizer):
    """Steps against the gradient: `x -= learning_rate * g`.

    Args:
        learning_rate: the length of a step for a gradient of length 1.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, 2.0], name="w")
        >>> GradientDescent(0.1).minimize(lambda: w * w)
        >>> w
        Variable([0.8, 1.6], name='w')
    """

    def rule(self, gradient: Any, param: Any, slots: Slots, step: int) -> tuple[Any, Slots]:
        return param - self._rate(param) * gradient, slots


class Momentum(Optimizer):
    """Descends with a velocity: `m = momentum * m + g; x -= learning_rate * m` (Polyak, 1964).

    With Nesterov's form the step looks ahead: `x -= learning_rate * (g + momentum * m)`
    (Sutskever et al., https://proceedings.mlr.press/v28/sutskever13.html).

    Args:
        learning_rate: the length of a step.
        momentum: how much of the velocity stays from step to step.
        use_nesterov: look ahead.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable(1.0, name="w")
        >>> optimizer = Momentum(0.1, momentum=0.9)
        >>> for _ in range(2):
        ...     optimizer.minimize(lambda: w * w)
        >>> f"{w:.2f}"
        '0.46'
    """

    slot_names = ("momentum",)

    def __init__(self, learning_rate: Hyper, momentum: Hyper, use_nesterov: bool = False) -> None:
        super().__init__(learning_rate)
        self.momentum = momentum
        self.use_nesterov = use_nesterov

    def rule(self, gradient: Any, param: Any, slots: Slots, step: int) -> tuple[Any, Slots]:
        rate, kept = self._rate(param), value_of(self.momentum, param)
        velocity = kept * slots["momentum"] + gradient
        moved = gradient + kept * velocity if self.use_nesterov else velocity
        return param - rate * moved, {"momentum": velocity}
