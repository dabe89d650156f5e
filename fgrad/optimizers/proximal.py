"""Proximal methods: a gradient step, followed by shrinkage towards 0, which gives exact zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.base import Optimizer, Slots
from fgrad.optimizers.declared import L1, L2, NOT_NEGATIVE, POSITIVE, fixed, optimizer_class, varying
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
