"""Adam, with step sizes adapted to each element, and its relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.base import Optimizer, Slots
from fgrad.optimizers.declared import FRACTION, NOT_NEGATIVE, at_least, fixed, optimizer_class, varying
from fgrad.optimizers.settings import Hyper, Settings
from fgrad.optimizers.squares import filled, square
from fgrad.typing import Array, Operand


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
        new = _moments(gradient, slots, hyper)
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
        new = _moments(gradient, slots, hyper)
        new["vhat"] = np.maximum(slots["vhat"], new["v"])
        size = hyper.learning_rate / (1 - hyper.beta1**hyper.step)
        return param - size * new["m"] / self.root(new["vhat"], hyper), new


def _moments(gradient: Array, slots: Slots, hyper: Settings) -> Slots:
    """Return the moving averages of the gradient and of its square."""
    return {
        "m": hyper.beta1 * slots["m"] + (1 - hyper.beta1) * gradient,
        "v": hyper.beta2 * slots["v"] + (1 - hyper.beta2) * square(gradient),
    }


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
        new = _moments(gradient, slots, hyper)
        now, ahead = _momentum(hyper, hyper.step), _momentum(hyper, hyper.step + 1)
        product = slots["momentum_product"] * now
        mhat = ahead * new["m"] / (1 - product * ahead) + (1 - now) * gradient / (1 - product)
        new["momentum_product"] = product
        return param - hyper.learning_rate * mhat / self.root(new["v"], hyper), new


def _momentum(hyper: Settings, step: Operand) -> Any:
    return hyper.beta1 * (1 - 0.5 * 0.96 ** (hyper.momentum_decay * step))


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
        new = _moments(gradient, slots, hyper)
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


@optimizer_class
class Lamb(Adam):
    """Steps proportional to the norm of each parameter (https://arxiv.org/abs/1904.00962).

        m, v as for Adam
        r = (m / (1 - beta1**t)) / (sqrt(v / (1 - beta2**t)) + epsilon) + weight_decay * x
        x -= learning_rate * |x| / |r| * r

    The norms are taken over one array; if one of them is 0, their ratio is replaced by 1. Weight decay is part of the
    step, as above, and not applied before it.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([3.0, -4.0], name="w")
        >>> Lamb(0.1).minimize(lambda: w * w)
        >>> np.round(w, 4)
        Tensor([ 2.6464, -3.6464])
    """

    learning_rate: Hyper = varying(
        "the length of a step, as a fraction of the parameter's norm", NOT_NEGATIVE, default=0.001
    )
    epsilon: Hyper = varying(default=1e-6)
    corrected_epsilon: bool = fixed(default=True, kw_only=True)

    decays = "in the rule"

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        new = _moments(gradient, slots, hyper)
        moved = new["m"] / (1 - hyper.beta1**hyper.step) / self.root(new["v"], hyper) + hyper.weight_decay * param
        squares = np.sum(square(param)), np.sum(square(moved))
        both = (squares[0] > 0) & (squares[1] > 0)
        ratio = np.sqrt(np.where(both, squares[0], 1) / np.where(both, squares[1], 1))
        return param - hyper.learning_rate * ratio * moved, new
