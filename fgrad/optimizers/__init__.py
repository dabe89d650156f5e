"""Optimizers: on variables with `minimize`, or as pure functions `init` and `update` on containers.

`run` is a loop around either, with a history, a progress bar and a callback. `fgrad.optimizers.schedules` has
hyper-parameters that change from step to step.
"""

import typing as _typing

from fgrad.errors import hints as _names
from fgrad.optimizers import schedules as schedules
from fgrad.optimizers.adadelta import Adadelta as Adadelta
from fgrad.optimizers.adagrad import Adagrad as Adagrad
from fgrad.optimizers.adagrad import AdagradDA as AdagradDA
from fgrad.optimizers.adam import Adam as Adam
from fgrad.optimizers.adam import AdamW as AdamW
from fgrad.optimizers.adam import AMSGrad as AMSGrad
from fgrad.optimizers.adamax import Adamax as Adamax
from fgrad.optimizers.averages import ExponentialMovingAverage as ExponentialMovingAverage
from fgrad.optimizers.base import Optimizer as Optimizer
from fgrad.optimizers.base import State as State
from fgrad.optimizers.descent import GradientDescent as GradientDescent
from fgrad.optimizers.descent import Momentum as Momentum
from fgrad.optimizers.ftrl import Ftrl as Ftrl
from fgrad.optimizers.lamb import Lamb as Lamb
from fgrad.optimizers.lion import Lion as Lion
from fgrad.optimizers.nadam import Nadam as Nadam
from fgrad.optimizers.proximal import ProximalAdagrad as ProximalAdagrad
from fgrad.optimizers.proximal import ProximalGradientDescent as ProximalGradientDescent
from fgrad.optimizers.radam import RAdam as RAdam
from fgrad.optimizers.rmsprop import RMSProp as RMSProp
from fgrad.optimizers.running import History as History
from fgrad.optimizers.running import run as run

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
