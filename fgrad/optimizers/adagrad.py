"""Adagrad: steps that shrink with accumulated squared gradients, and its dual averaging form."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from fgrad import errors
from fgrad.core.variable import Variable
from fgrad.optimizers.base import Optimizer, Options, Slots
from fgrad.optimizers.settings import Hyper, Settings, check_not_negative, check_positive
from fgrad.optimizers.squares import filled, shrunk, square


class Adagrad(Optimizer):
    """Divides by the root of the sum of all squared gradients (https://jmlr.org/papers/v12/duchi11a.html).

        a += g * g
        x -= learning_rate * g / sqrt(a)

    Args:
        learning_rate: the size of the first steps.
        initial_accumulator_value: the initial value of `a`; positive, as there is no epsilon.
        options: see `Optimizer`.

    Raises:
        ParameterError: a ValueError; `initial_accumulator_value` is not positive.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> Adagrad(0.1).minimize(lambda: w * w)
        >>> np.round(w, 3)
        Tensor([   0.901, -199.9  ])
    """

    def __init__(
        self, learning_rate: Hyper, initial_accumulator_value: float = 0.1, **options: Unpack[Options]
    ) -> None:
        super().__init__(learning_rate, **options)
        check_positive(initial_accumulator_value=initial_accumulator_value)
        self.initial_accumulator_value = initial_accumulator_value

    def initial_slots(self, param: Any) -> Slots:
        return {"accumulator": filled(param, self.initial_accumulator_value)}

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        total = slots["accumulator"] + square(gradient)
        return param - hyper.learning_rate * gradient / np.sqrt(total), {"accumulator": total}


class AdagradDA(Optimizer):
    """Adagrad by dual averaging (https://jmlr.org/papers/v12/duchi11a.html): many elements become exactly 0.

        G += g
        A += g * g
        x = -learning_rate * shrunk(G, l1 * t) / (l2 * t * learning_rate + sqrt(A))

    where `shrunk` moves a number towards 0 by a distance. Parameters are recomputed in each step, so their initial
    value only matters for the first gradient, and weight decay is not supported.

    Args:
        learning_rate: a factor of the parameters.
        global_step: a variable that counts the updates made so far, which gives `t`; by default the optimizer counts by
            itself. Pass it to `apply_gradients` as well, which increments it.
        initial_gradient_squared_accumulator_value: the initial value of `A`; positive.
        l1_regularization_strength: the strength of the L1 penalty, which gives exact zeros.
        l2_regularization_strength: the strength of the L2 penalty.
        options: see `Optimizer`.

    Raises:
        ParameterError: a ValueError; the initial value is not positive, a strength is negative, `global_step` is not a
            variable, or there is a weight decay.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, -200.0], name="w")
        >>> AdagradDA(0.1, l1_regularization_strength=3.0).minimize(lambda: w * w)
        >>> np.round(w, 6)
        Tensor([0.     , 0.09925])
    """

    hyper_names = ("l1_regularization_strength", "l2_regularization_strength")
    decays = "never"

    def __init__(
        self,
        learning_rate: Hyper,
        global_step: Any = None,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: Hyper = 0.0,
        l2_regularization_strength: Hyper = 0.0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, **options)
        initial = initial_gradient_squared_accumulator_value
        check_positive(initial_gradient_squared_accumulator_value=initial)
        check_not_negative(
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
        )
        if global_step is not None and not isinstance(global_step, Variable):
            raise errors.ParameterError(f"global_step must be a variable or None, and it is {global_step!r}.")
        self.global_step = global_step
        self.initial_gradient_squared_accumulator_value = initial
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength

    def initial_slots(self, param: Any) -> Slots:
        return {
            "gradient_accumulator": np.zeros_like(param),
            "gradient_squared_accumulator": filled(param, self.initial_gradient_squared_accumulator_value),
        }

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        total = slots["gradient_accumulator"] + gradient
        squares = slots["gradient_squared_accumulator"] + square(gradient)
        count = hyper.step if self.global_step is None else self.global_step.numpy().item() + 1
        divisor = hyper.l2_regularization_strength * count * hyper.learning_rate + np.sqrt(squares)
        new = hyper.learning_rate * shrunk(-total, hyper.l1_regularization_strength * count) / divisor
        return new, {"gradient_accumulator": total, "gradient_squared_accumulator": squares}
