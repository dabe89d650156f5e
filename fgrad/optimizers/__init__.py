"""Optimizers: on variables with `minimize`, or as pure functions `init` and `update` on containers.

`run` is a loop around either, with a history, a progress bar and a callback. `fgrad.optimizers.schedules` has
hyper-parameters that change from step to step.
"""

import typing as _typing

import fgrad.core as _core  # noqa: F401  # first, so that threads import it in one order
from fgrad.errors import hints as _names
from fgrad.optimizers import schedules
from fgrad.optimizers.adagrad import Adadelta, Adagrad, AdagradDA, RMSProp
from fgrad.optimizers.adam import Adam, Adamax, AdamW, AMSGrad, Lamb, Nadam, RAdam
from fgrad.optimizers.averages import ExponentialMovingAverage
from fgrad.optimizers.base import Optimizer, State
from fgrad.optimizers.descent import GradientDescent, Lion, Momentum
from fgrad.optimizers.proximal import Ftrl, ProximalAdagrad, ProximalGradientDescent
from fgrad.optimizers.running import History, run

__all__ = [
    "AMSGrad", "Adadelta", "Adagrad", "AdagradDA", "Adam", "AdamW", "Adamax", "ExponentialMovingAverage", "Ftrl",
    "GradientDescent", "History", "Lamb", "Lion", "Momentum", "Nadam", "Optimizer", "ProximalAdagrad",
    "ProximalGradientDescent", "RAdam", "RMSProp", "State", "run", "schedules",
]  # fmt: skip

__dir__ = __all__.copy

if not _typing.TYPE_CHECKING:  # keep mypy's errors for undefined names

    def __getattr__(name):
        raise _names.missing_name(__name__, name)
