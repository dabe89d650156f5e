"""Proximal methods: a gradient step, followed by shrinkage towards 0, which gives exact zeros."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from fgrad.optimizers.base import Optimizer, Options, Slots
from fgrad.optimizers.settings import Hyper, Settings, check_not_negative, check_positive
from fgrad.optimizers.squares import filled, shrunk, square


class ProximalGradientDescent(Optimizer):
    """A gradient step followed by both regularizations (https://proceedings.neurips.cc/paper/2009, FOBOS).

        p = x - learning_rate * g
        x = shrunk(p, learning_rate * l1) / (1 + learning_rate * l2)

    where `shrunk` moves a number towards 0 by a distance.

    Args:
        learning_rate: the length of a step for a gradient of length 1.
        l1_regularization_strength: `l1`, the strength of the L1 penalty, which gives exact zeros.
        l2_regularization_strength: `l2`, the strength of the L2 penalty.
        options: see `Optimizer`.

    Raises:
        ParameterError: a ValueError; a strength is negative.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([0.1, 2.0], name="w")
        >>> ProximalGradientDescent(0.1, l1_regularization_strength=1.0).minimize(lambda: w * w)
        >>> w
        Variable([0. , 1.5], name='w')
    """

    hyper_names = ("l1_regularization_strength", "l2_regularization_strength")

    def __init__(
        self,
        learning_rate: Hyper,
        l1_regularization_strength: Hyper = 0.0,
        l2_regularization_strength: Hyper = 0.0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, **options)
        check_not_negative(
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
        )
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        return _proximal(gradient, param, hyper.learning_rate, hyper), {}


class ProximalAdagrad(Optimizer):
    """An Adagrad step followed by both regularizations (https://jmlr.org/papers/v12/duchi11a.html).

        a += g * g
        p = x - learning_rate / sqrt(a) * g
        x = shrunk(p, learning_rate / sqrt(a) * l1) / (1 + learning_rate / sqrt(a) * l2)

    where `shrunk` moves a number towards 0 by a distance.

    Args:
        learning_rate: the size of the first steps.
        initial_accumulator_value: the initial value of `a`; positive.
        l1_regularization_strength: `l1`, the strength of the L1 penalty, which gives exact zeros.
        l2_regularization_strength: `l2`, the strength of the L2 penalty.
        options: see `Optimizer`.

    Raises:
        ParameterError: a ValueError; the initial value is not positive, or a strength is negative.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([0.1, 2.0], name="w")
        >>> ProximalAdagrad(0.1, l1_regularization_strength=1.0).minimize(lambda: w * w)
        >>> np.round(w, 3)
        Tensor([0.   , 1.875])
    """

    hyper_names = ("l1_regularization_strength", "l2_regularization_strength")

    def __init__(
        self,
        learning_rate: Hyper,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: Hyper = 0.0,
        l2_regularization_strength: Hyper = 0.0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, **options)
        check_positive(initial_accumulator_value=initial_accumulator_value)
        check_not_negative(
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
        )
        self.initial_accumulator_value = initial_accumulator_value
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength

    def initial_slots(self, param: Any) -> Slots:
        return {"accumulator": filled(param, self.initial_accumulator_value)}

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        total = slots["accumulator"] + square(gradient)
        return _proximal(gradient, param, hyper.learning_rate / np.sqrt(total), hyper), {"accumulator": total}


def _proximal(gradient: Any, param: Any, rate: Any, hyper: Settings) -> Any:
    near = shrunk(param - rate * gradient, rate * hyper.l1_regularization_strength)
    return near / (1 + rate * hyper.l2_regularization_strength)
