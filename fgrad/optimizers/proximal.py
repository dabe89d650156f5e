"""Methods that shrink parameters towards 0, which gives exact zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.base import Optimizer, Slots
from fgrad.optimizers.declared import L1, L2, NOT_NEGATIVE, NOT_POSITIVE, POSITIVE, fixed, optimizer_class, varying
from fgrad.optimizers.settings import Hyper, Settings
from fgrad.optimizers.squares import filled, shrunk, square
from fgrad.typing import Array


@optimizer_class
class ProximalGradientDescent(Optimizer):
    """A gradient step followed by both regularizations (https://proceedings.neurips.cc/paper/2009, FOBOS).

        p = x - learning_rate * g
        x = shrunk(p, learning_rate * l1) / (1 + learning_rate * l2)

    where `shrunk` moves a number towards 0 by a distance.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([0.1, 2.0], name="w")
        >>> ProximalGradientDescent(0.1, l1_regularization_strength=1.0).minimize(lambda: w * w)
        >>> w
        Variable([0. , 1.5], name='w')
    """

    learning_rate: Hyper = varying("the length of a step for a gradient of length 1", NOT_NEGATIVE)
    l1_regularization_strength: Hyper = varying(L1, NOT_NEGATIVE, default=0.0)
    l2_regularization_strength: Hyper = varying(L2, NOT_NEGATIVE, default=0.0)

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        return _proximal(gradient, param, hyper.learning_rate, hyper), {}


@optimizer_class
class ProximalAdagrad(Optimizer):
    """An Adagrad step followed by both regularizations (https://jmlr.org/papers/v12/duchi11a.html).

        a += g * g
        p = x - learning_rate / sqrt(a) * g
        x = shrunk(p, learning_rate / sqrt(a) * l1) / (1 + learning_rate / sqrt(a) * l2)

    where `shrunk` moves a number towards 0 by a distance.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([0.1, 2.0], name="w")
        >>> ProximalAdagrad(0.1, l1_regularization_strength=1.0).minimize(lambda: w * w)
        >>> np.round(w, 3)
        Tensor([0.   , 1.875])
    """

    learning_rate: Hyper = varying("the size of the first steps", NOT_NEGATIVE)
    initial_accumulator_value: float = fixed("the initial value of `a`", POSITIVE, default=0.1)
    l1_regularization_strength: Hyper = varying(L1, NOT_NEGATIVE, default=0.0)
    l2_regularization_strength: Hyper = varying(L2, NOT_NEGATIVE, default=0.0)

    def initial_slots(self, param: Array) -> Slots:
        return {"accumulator": filled(param, self.initial_accumulator_value)}

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        total = slots["accumulator"] + square(gradient)
        return _proximal(gradient, param, hyper.learning_rate / np.sqrt(total), hyper), {"accumulator": total}


def _proximal(gradient: Array, param: Array, rate: Array | float, hyper: Settings) -> Any:
    near = shrunk(param - rate * gradient, rate * hyper.l1_regularization_strength)
    return near / (1 + rate * hyper.l2_regularization_strength)


@optimizer_class
class Ftrl(Optimizer):
    """Follows the regularized leader, proximally (https://research.google/pubs/pub41159/).

        b = a + g * g,  p = -learning_rate_power
        z += g + 2 * shrinkage * x - (b**p - a**p) / learning_rate * x
        q = b**p / learning_rate + 2 * l2 + beta / learning_rate
        x = -shrunk(z, l1) / q
        a = b

    where `shrunk` moves a number towards 0 by a distance, so that many elements become exactly 0. Parameters are
    recomputed in each step, so weight decay is not supported. A step with a learning rate of 0 changes nothing.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([0.1, 2.0], name="w")
        >>> Ftrl(0.1, l1_regularization_strength=0.5).minimize(lambda: w * w)
        >>> np.round(w, 2)
        Tensor([0.  , 1.73])
    """

    learning_rate: Hyper = varying("the size of the first steps", NOT_NEGATIVE)
    learning_rate_power: float = fixed(
        "the exponent of the accumulator: -0.5 as in Adagrad, 0 for constant steps", NOT_POSITIVE, default=-0.5
    )
    initial_accumulator_value: float = fixed("the initial value of `a`", NOT_NEGATIVE, default=0.1)
    l1_regularization_strength: Hyper = varying(L1, NOT_NEGATIVE, default=0.0)
    l2_regularization_strength: Hyper = varying(L2, NOT_NEGATIVE, default=0.0)
    l2_shrinkage_regularization_strength: Hyper = varying(
        "`shrinkage`, adds `shrinkage * |x|**2` to the loss", NOT_NEGATIVE, default=0.0
    )
    beta: Hyper = varying("see the formula; None means 0", NOT_NEGATIVE, default=None)

    decays = "never"

    def __post_init__(self) -> None:
        self.beta = 0.0 if self.beta is None else self.beta
        super().__post_init__()

    def initial_slots(self, param: Array) -> Slots:
        return {"accum": filled(param, self.initial_accumulator_value), "linear": np.zeros_like(param)}

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
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
