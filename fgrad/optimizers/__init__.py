"""Optimizers: on variables with `minimize`, or as pure functions `init` and `update` on containers.

`run` is a loop around either, with a history, a progress bar and a callback. `fgrad.optimizers.schedules` has
hyper-parameters that change from step to step.
"""

import typing as _typing

from fgrad.errors import hints as _names
from fgrad.optimizers import schedules
from fgrad.optimizers.adadelta import Adadelta
from fgrad.optimizers.adagrad import Adagrad, AdagradDA
from fgrad.optimizers.adam import Adam, AdamW, AMSGrad
from fgrad.optimizers.adamax import Adamax
from fgrad.optimizers.averages import ExponentialMovingAverage
from fgrad.optimizers.base import Optimizer, State
from fgrad.optimizers.descent import GradientDescent, Momentum
from fgrad.optimizers.ftrl import Ftrl
from fgrad.optimizers.lamb import Lamb
from fgrad.optimizers.lion import Lion
from fgrad.optimizers.nadam import Nadam
from fgrad.optimizers.proximal import ProximalAdagrad, ProximalGradientDescent
from fgrad.optimizers.radam import RAdam
from fgrad.optimizers.rmsprop import RMSProp
from fgrad.optimizers.running import History, run

__all__ = [
    "AMSGrad", "Adadelta", "Adagrad", "AdagradDA", "Adam", "AdamW", "Adamax", "ExponentialMovingAverage", "Ftrl",
    "GradientDescent", "History", "Lamb", "Lion", "Momentum", "Nadam", "Optimizer", "ProximalAdagrad",
    "ProximalGradientDescent", "RAdam", "RMSProp", "State", "run", "schedules",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


if not _typing.TYPE_CHECKING:  # keep mypy's errors for undefined names

    def __getattr__(name):
        raise _names.missing_name(__name__, name)
