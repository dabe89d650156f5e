"""Adagrad: steps that shrink with accumulated squared gradients, and its dual averaging form."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.variable import Variable
from fgrad.optimizers.base import Optimizer, Slots
from fgrad.optimizers.declared import L1, L2, NOT_NEGATIVE, POSITIVE, Check, fixed, optimizer_class, varying
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
