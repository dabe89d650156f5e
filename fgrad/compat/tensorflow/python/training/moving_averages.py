"""Moving averages that are updated by a value, as layers for normalization do."""

from __future__ import annotations

import weakref
from typing import Any

from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.graph import GraphTensor, default_graph
from fgrad.compat.deferred.state import GraphVariable
from fgrad.compat.tensorflow.arrays import cast, convert_to_tensor, identity, zeros_like
from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.train import ExponentialMovingAverage as ExponentialMovingAverage
from fgrad.compat.tensorflow.train import scope_prefix, zero_of
from fgrad.compat.tensorflow.variables import Variable

__all__ = ["ExponentialMovingAverage", "assign_moving_average", "weighted_moving_average"]


def assign_moving_average(
    variable: Any, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None
) -> Any:
    """Update a variable that is the moving average of values; in a graph, when the result is evaluated.

    Args:
        variable: the average.
        value: the next value.
        decay: the fraction of the average that is kept.
        zero_debias: whether the average begins at 0 and is corrected for it: after one call, it is `value`. The sum
            without the correction, and the number of calls, are kept in two more variables. In a graph, each call has
            its own; in eager mode, each variable has.
        name: ignored.

    Returns:
        The variable; in a graph, a tensor with its new value.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> from fgrad.compat.tensorflow.python.training import moving_averages
        >>> mean = tf.Variable(10.0, name="mean")
        >>> moving_averages.assign_moving_average(mean, 2.0, 0.75, zero_debias=False)
        Variable(8., name='mean:0', dtype=float32)
    """
    value = convert_to_tensor(value, dtype_hint=variable.dtype)
    if not zero_debias:
        return variable.assign_sub((variable - value) * _kept(1.0, decay, variable))
    total, steps = _sums_of(variable)
    total = total.assign_sub((total - value) * _kept(1.0, decay, variable))
    power = convert_to_tensor(decay, dtype_hint=variable.dtype) ** steps.assign_add(1.0)
    return variable.assign(total / _kept(1.0, power, variable))


def _kept(one: float, part: float, variable: Any) -> Any:
    return cast(one - convert_to_tensor(part, dtype_hint=variable.dtype), variable.dtype)


# By id: variables compare their values.
_sums: dict[int, tuple[weakref.ref[Any], Any]] = {}


def _sums_of(variable: Any) -> Any:
    """Return the variables for a sum, and for the number of its updates."""
    if isinstance(variable, GraphVariable):
        return _new_sums(f"{scope_prefix()}{variable._shared_name}/", zeros_like(variable.initial_value))
    number = id(variable)
    if number not in _sums:
        made = _new_sums(f"{variable._shared_name}/", zeros_like(variable.value()))
        _sums[number] = weakref.ref(variable, lambda _: _sums.pop(number, None)), made
    return _sums[number][1]


def _new_sums(path: str, zero: object) -> tuple[Any, Any]:
    if not isinstance(zero, GraphTensor):
        with mode.block(None):
            return tuple(
                Variable(x, trainable=False, name=path + n) for x, n in ((zero, "biased"), (0.0, "local_step"))
            )  # type: ignore[return-value]
    graph = zero.graph
    with mode.block(graph), graph.control_dependencies(None), graph.scope(path):
        return GraphVariable(zero, False, "biased"), GraphVariable(0.0, False, "local_step", zero.dtype)


def weighted_moving_average(
    value: Any, decay: Any, weight: Any, truediv: bool = True, collections: Any = None, name: str | None = None
) -> Any:
    """Return the moving average of weighted values, which each evaluation in a session updates.

    Args:
        value: the next value.
        decay: the fraction of the average that is kept.
        weight: the weight of the value.
        truediv, collections: ignored.
        name: the name of the nodes, by default "WeightedMovingAvg".

    Raises:
        SessionError: a RuntimeError; execution is eager, and nothing keeps the sums.
    """
    value, weight = convert_to_tensor(value), convert_to_tensor(weight)
    if not isinstance(value, GraphTensor):
        raise errors.SessionError(
            "weighted_moving_average keeps its sums in a graph. In eager mode, keep two variables, and update both by "
            "assign_moving_average with zero_debias=False."
        )
    graph = default_graph()
    with graph.scope(f"{scope_prefix()}{name or 'WeightedMovingAvg'}/"):
        sums = [GraphVariable(zero_of(value), False, each) for each in ("value_x_weight", "weight")]
    news = (value * weight, identity(weight))
    total, weights = (
        each.assign_sub((each - new) * _kept(1.0, decay, each)) for each, new in zip(sums, news, strict=True)
    )
    return total / weights


__getattr__ = missing(__name__)
