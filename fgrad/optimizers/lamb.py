"""Lamb: Adam for large batches."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from fgrad.optimizers.adam import Adam, moments
from fgrad.optimizers.base import Options, Slots
from fgrad.optimizers.settings import Hyper, Settings
from fgrad.optimizers.squares import square


class Lamb(Adam):
    """Steps proportional to the norm of each parameter (https://arxiv.org/abs/1904.00962).

        m, v as for Adam
        r = (m / (1 - beta1**t)) / (sqrt(v / (1 - beta2**t)) + epsilon) + weight_decay * x
        x -= learning_rate * |x| / |r| * r

    The norms are taken over one array; if one of them is 0, their ratio is replaced by 1.

    Args:
        learning_rate: the length of a step, as a fraction of the parameter's norm.
        beta1, beta2: the decay rates of the averages.
        epsilon: keeps the divisor away from 0.
        corrected_epsilon: add epsilon to the corrected root, as above; see `Adam`.
        options: see `Optimizer`; weight decay is part of the step, as above.

    Raises:
        ParameterError: a ValueError; not `0 <= beta < 1`, or `epsilon` is negative.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable([3.0, -4.0], name="w")
        >>> Lamb(0.1).minimize(lambda: w * w)
        >>> np.round(w, 4)
        Tensor([ 2.6464, -3.6464])
    """

    decays = "in the rule"

    def __init__(
        self,
        learning_rate: Hyper = 0.001,
        beta1: Hyper = 0.9,
        beta2: Hyper = 0.999,
        epsilon: Hyper = 1e-6,
        *,
        corrected_epsilon: bool = True,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, corrected_epsilon=corrected_epsilon, **options)

    def rule(self, gradient: Any, param: Any, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        new = moments(gradient, slots, hyper)
        moved = new["m"] / (1 - hyper.beta1**hyper.step) / self.root(new["v"], hyper) + hyper.weight_decay * param
        squares = np.sum(square(param)), np.sum(square(moved))
        both = (squares[0] > 0) & (squares[1] > 0)
        ratio = np.sqrt(np.where(both, squares[0], 1) / np.where(both, squares[1], 1))
        return param - hyper.learning_rate * ratio * moved, new
