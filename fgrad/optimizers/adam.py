"""Adam, with step sizes adapted to each element, and its variants."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.base import Optimizer, Slots
from fgrad.optimizers.declared import FRACTION, NOT_NEGATIVE, fixed, optimizer_class, varying
from fgrad.optimizers.settings import Hyper, Settings
from fgrad.optimizers.squares import filled, square
from fgrad.typing import Array


@optimizer_class
class Adam(Optimizer):
    """Divides a moving average of the gradient by the root of a moving average of its square.

        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        x -= learning_rate * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(v) + epsilon)

    This is the form before section 2.1 of Kingma and Ba, https://arxiv.org/abs/1412.6980, and TensorFlow's: epsilon is
    added to the root before its bias correction. With `corrected_epsilon` it is added to the corrected root, as in
    their Algorithm 1, PyTorch and optax:

        x -= learning_rate * (m / (1 - beta1**t)) / (sqrt(v / (1 - beta2**t)) + epsilon)

    `weight_decay` is decoupled, as in `AdamW`; that of PyTorch's `Adam` is not: it adds `weight_decay * x` to the
    gradient, as a term `weight_decay / 2 * np.sum(x**2)` of the loss does.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Adam(0.1).minimize(lambda: w * w)
        >>> np.round(w, 6)
        Tensor([   0.9, -199.9])
    """

    learning_rate: Hyper = varying("about the largest change of an element in a step", NOT_NEGATIVE, default=0.001)
    beta1: Hyper = varying("the decay rate of the average of gradients", FRACTION, default=0.9)
    beta2: Hyper = varying("the decay rate of the average of squares", FRACTION, default=0.999)
    epsilon: Hyper = varying("keeps the divisor away from 0", NOT_NEGATIVE, default=1e-8)
    corrected_epsilon: bool = fixed(
        "add epsilon to the corrected root: the second form of `Adam`", default=False, kw_only=True
    )

    def initial_slots(self, param: Array) -> Slots:
        return {"m": np.zeros_like(param), "v": filled(param, 0.0)}

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        new = moments(gradient, slots, hyper)
        size = hyper.learning_rate / (1 - hyper.beta1**hyper.step)
        return param - size * new["m"] / self.root(new["v"], hyper), new

    def root(self, v: Any, hyper: Settings) -> Any:
        """Return the bias-corrected root of the average of squares, with epsilon added."""
        correction = (1 - hyper.beta2**hyper.step) ** 0.5
        if self.corrected_epsilon:
            return np.sqrt(v) / correction + hyper.epsilon
        return (np.sqrt(v) + hyper.epsilon) / correction


@optimizer_class
class AdamW(Adam):
    """Adam with decoupled weight decay, https://arxiv.org/abs/1711.05101.

        x *= 1 - learning_rate * weight_decay

    and then Adam's step. The defaults are PyTorch's; `corrected_epsilon=False, epsilon=1e-7,
    weight_decay=0.004` are those of Keras.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> AdamW(0.1, weight_decay=0.1).minimize(lambda: w * w)
        >>> np.round(w, 6)
        Tensor([   0.89, -197.9 ])
    """

    corrected_epsilon: bool = fixed(default=True, kw_only=True)
    weight_decay: Hyper = varying(default=0.01, kw_only=True)


@optimizer_class
class AMSGrad(Adam):
    """Adam that divides by the largest average of squares so far (https://arxiv.org/abs/1904.09237).

        m, v as for Adam
        vhat = max(vhat, v)
        x -= learning_rate * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(vhat) + epsilon)

    The paper omits the bias corrections; they are kept here as in Adam.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> AMSGrad(0.1).minimize(lambda: w * w)
        >>> np.round(w, 6)
        Tensor([   0.9, -199.9])
    """

    def initial_slots(self, param: Array) -> Slots:
        return {**super().initial_slots(param), "vhat": filled(param, 0.0)}

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        new = moments(gradient, slots, hyper)
        new["vhat"] = np.maximum(slots["vhat"], new["v"])
        size = hyper.learning_rate / (1 - hyper.beta1**hyper.step)
        return param - size * new["m"] / self.root(new["vhat"], hyper), new


def moments(gradient: Array, slots: Slots, hyper: Settings) -> Slots:
    """Return the moving averages of the gradient and of its square."""
    return {
        "m": hyper.beta1 * slots["m"] + (1 - hyper.beta1) * gradient,
        "v": hyper.beta2 * slots["v"] + (1 - hyper.beta2) * square(gradient),
    }
