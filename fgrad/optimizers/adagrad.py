"""Steps divided by the root of squared gradients: of their sum, as in Adagrad, or of a moving average."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.variable import Variable
from fgrad.optimizers.base import Optimizer, Slots
from fgrad.optimizers.declared import FRACTION, L1, L2, NOT_NEGATIVE, POSITIVE, Check, fixed, optimizer_class, varying
from fgrad.optimizers.settings import Hyper, Settings
from fgrad.optimizers.squares import filled, shrunk, square
from fgrad.typing import Array


@optimizer_class
class Adagrad(Optimizer):
    """Divides by the root of the sum of all squared gradients (https://jmlr.org/papers/v12/duchi11a.html).

        a += g * g
        x -= learning_rate * g / sqrt(a)

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Adagrad(0.1).minimize(lambda: w * w)
        >>> np.round(w, 3)
        Tensor([   0.901, -199.9  ])
    """

    learning_rate: Hyper = varying("the size of the first steps", NOT_NEGATIVE)
    initial_accumulator_value: float = fixed("the initial value of `a`; there is no epsilon", POSITIVE, default=0.1)

    def initial_slots(self, param: Array) -> Slots:
        return {"accumulator": filled(param, self.initial_accumulator_value)}

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        total = slots["accumulator"] + square(gradient)
        return param - hyper.learning_rate * gradient / np.sqrt(total), {"accumulator": total}


@optimizer_class
class AdagradDA(Optimizer):
    """Adagrad by dual averaging (https://jmlr.org/papers/v12/duchi11a.html): many elements become exactly 0.

        G += g
        A += g * g
        x = -learning_rate * shrunk(G, l1 * t) / (l2 * t * learning_rate + sqrt(A))

    where `shrunk` moves a number towards 0 by a distance. Parameters are recomputed in each step, so their initial
    value only matters for the first gradient, and weight decay is not supported.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> AdagradDA(0.1, l1_regularization_strength=3.0).minimize(lambda: w * w)
        >>> np.round(w, 6)
        Tensor([0.     , 0.09925])
    """

    learning_rate: Hyper = varying("a factor of the parameters", NOT_NEGATIVE)
    global_step: Any = fixed(
        "a variable that counts the updates made so far, which gives `t`; by default the optimizer counts by itself. "
        "Pass it to `apply_gradients` as well, which increments it",
        Check(lambda step: step is None or isinstance(step, Variable), "be a variable or None"),
        default=None,
    )
    initial_gradient_squared_accumulator_value: float = fixed("the initial value of `A`", POSITIVE, default=0.1)
    l1_regularization_strength: Hyper = varying(L1, NOT_NEGATIVE, default=0.0)
    l2_regularization_strength: Hyper = varying(L2, NOT_NEGATIVE, default=0.0)

    decays = "never"

    def initial_slots(self, param: Array) -> Slots:
        return {
            "gradient_accumulator": np.zeros_like(param),
            "gradient_squared_accumulator": filled(param, self.initial_gradient_squared_accumulator_value),
        }

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        total = slots["gradient_accumulator"] + gradient
        squares = slots["gradient_squared_accumulator"] + square(gradient)
        count = hyper.step if self.global_step is None else self.global_step.numpy().item() + 1
        divisor = hyper.l2_regularization_strength * count * hyper.learning_rate + np.sqrt(squares)
        new = hyper.learning_rate * shrunk(-total, hyper.l1_regularization_strength * count) / divisor
        return new, {"gradient_accumulator": total, "gradient_squared_accumulator": squares}


@optimizer_class
class Adadelta(Optimizer):
    """Divides by a moving average of gradients and multiplies by one of steps (https://arxiv.org/abs/1212.5701).

        a = rho * a + (1 - rho) * g * g
        u = sqrt(d + epsilon) / sqrt(a + epsilon) * g
        x -= learning_rate * u
        d = rho * d + (1 - rho) * u * u

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Adadelta(1.0, rho=0.95, epsilon=1e-6).minimize(lambda: w * w)
        >>> np.round(w, 5)
        Tensor([   0.99553, -199.99553])
    """

    learning_rate: Hyper = varying("a factor of the step; 1 in the paper", NOT_NEGATIVE, default=0.001)
    rho: Hyper = varying("the decay rate of the averages", FRACTION, default=0.95)
    epsilon: Hyper = varying("the square of the size of the first steps", NOT_NEGATIVE, default=1e-8)

    def initial_slots(self, param: Array) -> Slots:
        return {"accum": filled(param, 0.0), "accum_update": filled(param, 0.0)}

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        rho, epsilon = hyper.rho, hyper.epsilon
        squares = rho * slots["accum"] + (1 - rho) * square(gradient)
        moved = np.sqrt(slots["accum_update"] + epsilon) / np.sqrt(squares + epsilon) * gradient
        moves = rho * slots["accum_update"] + (1 - rho) * square(moved)
        return param - hyper.learning_rate * moved, {"accum": squares, "accum_update": moves}


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
