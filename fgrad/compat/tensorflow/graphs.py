"""What is said of a graph besides operations: placeholders, dependencies, devices."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.graph import Graph, GraphTensor, Operation, Placeholder, TensorShape, default_graph
from fgrad.compat.deferred.state import as_symbol


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Placeholder:
    """Return a graph tensor whose value is fed at every run.

    Args:
        dtype: in which values are fed.
        shape: of the values; None in it admits any size, None for it any shape.
        name: of the node.

    Raises:
        SessionError: a RuntimeError; operations are computed at once, and there is no graph to feed.
    """
    if not mode.is_deferring():
        raise errors.SessionError(
            "tf.placeholder() is not compatible with eager execution.\nCall tf.disable_v2_behavior() first, work in "
            "`with tf.Graph().as_default():`, or import fgrad.compat.tensorflow1, which is in graph mode at once."
        )
    return Placeholder(dtype, shape, name)


class PlaceholderWithDefault(GraphTensor):
    """A value that may be fed, and otherwise is that of another tensor."""

    def __init__(self, input: Any, shape: Any, name: str | None) -> None:
        default = as_symbol(input)
        self._static = (None if shape is None else list(TensorShape(shape)), default.dtype)
        super().__init__(default.graph, name or "PlaceholderWithDefault", [default])

    def compute(self, run: Any) -> Any:
        return run.values[self.inputs[0]]


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> PlaceholderWithDefault:
    """Return a graph tensor whose value may be fed; see `placeholder`.

    Args:
        input: its value where none is fed.
        shape: of the values.
        name: of the node.
    """
    return PlaceholderWithDefault(input, shape, name)


class ConfigProto:
    """Options for a session, without effect: fgrad computes where it runs.

    Args:
        options: TensorFlow's, by their names.
    """

    def __init__(self, **options: Any) -> None:
        self.gpu_options = SimpleNamespace()
        vars(self).update(options)


def get_default_graph() -> Graph:
    """Return the graph into which operations are put."""
    return default_graph()


def get_default_session() -> Any:
    """Return the session whose block is innermost, or None."""
    return mode.open_session()


def control_dependencies(control_inputs: Any) -> Any:
    """Return a context in which new nodes wait for others; eagerly everything happens in order."""
    if not mode.is_deferring():
        return contextlib.nullcontext()
    return default_graph().control_dependencies(control_inputs)


def device(device_name: Any) -> Any:
    """Return a context without effect: fgrad computes where it runs."""
    return contextlib.nullcontext()


def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    """Return a context without effect: fgrad computes where it runs."""
    return contextlib.nullcontext()


def no_op(name: str | None = None) -> Operation | None:
    """Return an operation that does nothing; eagerly None."""
    return Operation(name or "NoOp", lambda run: None, ()) if mode.is_deferring() else None


def function(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return the function itself: TensorFlow compiles it, and fgrad runs Python as it is."""
    return functools.partial(function, **options) if func is None else func

