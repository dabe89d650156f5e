"""Ftrl: follow the regularized leader."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from fgrad import errors
from fgrad.optimizers.base import Optimizer, Options, Slots
from fgrad.optimizers.settings import Hyper, Settings, check_not_negative, check_number
from fgrad.optimizers.squares import filled, shrunk, square


class Ftrl(Optimizer):
    """Follows the regularized leader, proximally (https://research.google/pubs/pub41159/).

        b = a + g * g,  p = -learning_rate_power
        z += g + 2 * shrinkage * x - (b**p - a**p) / learning_rate * x
        q = b**p / learning_rate + 2 * l2 + beta / learning_rate
        x = -shrunk(z, l1) / q
        a = b

    where `shrunk` moves a number towards 0 by a distance, so that many elements become exactly 0. Parameters are
    recomputed in each step, so weight decay is not supported. A step with a learning rate of 0 changes nothing.

    Args:
        learning_rate: the size of the first steps.
        learning_rate_power: the exponent of the accumulator: -0.5 as in Adagrad, 0 for constant steps.
        initial_accumulator_value: the initial value of `a`.
        l1_regularization_strength: `l1`, the strength of the L1 penalty, which gives exact zeros.
        l2_regularization_strength: `l2`, the strength of the L2 penalty.
        l2_shrinkage_regularization_strength: `shrinkage`, adds `shrinkage * |x|**2` to the loss.
        beta: see the formula; None means 0.
        options: see `Optimizer`.

    Raises:
        ParameterError: a ValueError; a strength or the initial value is negative, the power is positive, or there is a
            weight decay.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([0.1, 2.0], name="w")
        >>> Ftrl(0.1, l1_regularization_strength=0.5).minimize(lambda: w * w)
        >>> np.round(w, 2)
        Tensor([0.  , 1.73])
    """

    hyper_names = (
        "l1_regularization_strength",
        "l2_regularization_strength",
        "l2_shrinkage_regularization_strength",
        "beta",
    )
    decays = "never"

    def __init__(
        self,
        learning_rate: Hyper,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: Hyper = 0.0,
        l2_regularization_strength: Hyper = 0.0,
        l2_shrinkage_regularization_strength: Hyper = 0.0,
        beta: Hyper | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, **options)
        beta = 0.0 if beta is None else beta
        check_not_negative(
            initial_accumulator_value=initial_accumulator_value,
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
            l2_shrinkage_regularization_strength=l2_shrinkage_regularization_strength,
            beta=beta,
        )
        check_number(learning_rate_power=learning_rate_power)
        if learning_rate_power > 0:
            raise errors.ParameterError(f"learning_rate_power must not be positive, and it is {learning_rate_power}.")
        self.learning_rate_power = learning_rate_power
        self.initial_accumulator_value = initial_accumulator_value
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength
        self.l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self.beta = beta

    def initial_slots(self, param: Any) -> Slots:
        return {"accum": filled(param, self.initial_accumulator_value), "linear": np.zeros_like(param)}

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        total = slots["accum"] + square(gradient)
        rests = hyper.learning_rate == 0  # as at the end of a schedule; avoid a division by 0
        rate = hyper.learning_rate + rests
        before = slots["accum"] ** -self.learning_rate_power / rate
        now = total**-self.learning_rate_power / rate
        shrinkage = 2 * hyper.l2_shrinkage_regularization_strength * param
        linear = slots["linear"] + gradient + shrinkage - (now - before) * param
        divisor = now + 2 * hyper.l2_regularization_strength + hyper.beta / rate
        divisor = np.where(divisor == 0, 1, divisor)  # 0 while all gradients have been 0
        found = shrunk(-linear, hyper.l1_regularization_strength) / divisor
        kept = {name: np.where(rests, slots[name], new) for name, new in (("accum", total), ("linear", linear))}
        return np.where(rests, param, found), kept
