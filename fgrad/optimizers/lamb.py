"""Lamb: Adam for large batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.optimizers.adam import Adam, moments
from fgrad.optimizers.base import Slots
from fgrad.optimizers.declared import NOT_NEGATIVE, fixed, optimizer_class, varying
from fgrad.optimizers.settings import Hyper, Settings
from fgrad.optimizers.squares import square
from fgrad.typing import Array


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
        new = moments(gradient, slots, hyper)
        moved = new["m"] / (1 - hyper.beta1**hyper.step) / self.root(new["v"], hyper) + hyper.weight_decay * param
        squares = np.sum(square(param)), np.sum(square(moved))
        both = (squares[0] > 0) & (squares[1] > 0)
        ratio = np.sqrt(np.where(both, squares[0], 1) / np.where(both, squares[1], 1))
        return param - hyper.learning_rate * ratio * moved, new
