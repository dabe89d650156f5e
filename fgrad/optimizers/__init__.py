"""Optimizers: on variables with `minimize`, or as pure functions `init` and `update` on containers."""

from fgrad.optimizers.adam import Adam as Adam
from fgrad.optimizers.base import Optimizer as Optimizer
from fgrad.optimizers.base import State as State
from fgrad.optimizers.descent import GradientDescent as GradientDescent
from fgrad.optimizers.descent import Momentum as Momentum
