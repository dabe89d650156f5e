"""Hyper-parameters: their types, their values in a step, and the checks of their values.

evaluated(name, hyper, updates)     the value in one step, possibly traced
known(name, hyper, updates)         the plain value
check_hyper(check, name, hyper)     raises if its value does not satisfy a condition
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, strip_ended
from fgrad.optimizers.declared import Check
from fgrad.optimizers.inputs import refuse_parameters
from fgrad.optimizers.schedules import Schedule
from fgrad.typing import Operand

Hyper: TypeAlias = Operand | Schedule | Callable[[], Operand]
"""A hyper-parameter: a number, an array, a tensor, a variable, a schedule, or a function without
arguments that returns one of the first four."""

Settings = SimpleNamespace
"""The hyper-parameters of one step by name, and `step`: 1 for the first update."""


def evaluated(name: str, hyper: Hyper, updates: Any) -> Any:
    """Return the value of a hyper-parameter after a number of updates: a number, an array, or a traced tensor.

    A single number is returned as a Python number, which takes the dtype of its other operand.
    """
    if isinstance(hyper, Schedule):
        hyper = hyper(updates)
    elif callable(hyper) and type(hyper) not in BOXES:
        hyper = hyper()
    if type(hyper) in (float, int):
        return hyper
    value = strip_ended(hyper)
    if type(value) is Tensor:
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise errors.ParameterError(
            f"{name} must be a real number, an array or variable of real numbers, a schedule, or a function without "
            f"arguments that returns one; it is {hyper!r}."
        )
    return array if array.ndim else array.item()


def known(name: str, hyper: Hyper, updates: Any) -> Any:
    """Return the value of a hyper-parameter as a number or array, even if an open tape traces it.

    Raises:
        ConcretizationError: a TypeError; it depends on an argument of `vmap`, or of a recorded function.
    """
    value = evaluated(name, hyper, updates)
    return evaluated(name, value.numpy(), updates) if type(value) is Tensor else value


def may_differ(hyper: Hyper, number: float = 0.0) -> bool:
    """Return whether a hyper-parameter is not, or may not always be, equal to a number."""
    return type(hyper) not in (float, int) or hyper != number


def check_hyper(check: Check, name: str, hyper: Hyper) -> None:
    """Raise if a hyper-parameter does not satisfy a condition, as far as its value is known now.

    Variables, traced tensors, functions and schedules are evaluated in the steps.
    """
    if isinstance(hyper, Schedule):
        return
    if type(hyper) in BOXES:
        check.refuse(name, hyper)
        return
    if callable(hyper):
        refuse_parameters(name, hyper, errors.ParameterError)
        return
    if isinstance(hyper, (list, tuple)) and any(type(each) in BOXES for each in hyper):
        raise errors.ParameterError(
            f"{name} must {check.requirement}, and it is a list of variables or tensors.\n"
            "An optimizer finds the variables that the loss reads, or pass minimize(loss, var_list=[...])."
        )
    check.refuse(name, evaluated(name, hyper, 0))
