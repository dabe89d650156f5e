"""Names of TensorFlow's modules that have another place or name here, and what only its tests use.

elsewhere(tf)    for each module, objects by name
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import fgrad
from fgrad.compat.tensorflow.contrib import eager
from tensorflow_tests import cases


def elsewhere(tf: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return the names that are declared here: by module, without `tensorflow.python.`, and by name."""
    test = {
        "TestCase": cases.TestCase,
        "Benchmark": object,
        "is_gpu_available": lambda *args, **keywords: False,
        "is_built_with_rocm": lambda: False,
    }
    functions = {
        "implicit_grad": eager.implicit_gradients,
        "implicit_val_and_grad": eager.implicit_value_and_gradients,
        "val_and_grad_function": eager.value_and_gradients_function,
    }
    return {
        "framework.test_util": cases.decorators(tf),
        "platform.test": test,
        "eager.test": test,
        "platform.googletest": test,
        "eager.context": {
            "eager_mode": lambda: cases.eager_mode(tf),
            "graph_mode": lambda: cases.graph_mode(tf),
            "device": lambda name: contextlib.nullcontext(),
        },
        "eager.backprop": functions,
        "eager.forwardprop": {"ForwardGradientAccumulator": ForwardGradientAccumulator},
        "eager.function": {"defun": tf.function},
        "keras.engine.training": {"Model": absent("keras.Model")},
        "ops.resource_variable_ops": {
            "ResourceVariable": tf.Variable,
            "is_resource_variable": lambda x: isinstance(x, tf.Variable),
        },
        "ops.variables": {"RefVariable": tf.Variable, "VariableV1": tf.Variable},
        "ops.resources": {"initialize_resources": tf.variables_initializer},
        "ops.gradient_checker": {"compute_gradient_error": lambda *args, **keys: gradient_error(tf, *args, **keys)},
        "ops.gradient_checker_v2": {"compute_gradient": lambda *args, **keys: compared_gradients(tf, *args, **keys)},
        "ops.math_ops": {"_as_indexed_slices": lambda x: tf.IndexedSlices(x, tf.range(tf.shape(x)[0]), tf.shape(x))},
        "util.nest": NEST,
    }


def absent(name: str) -> type:
    """Return what files that use a name as they are imported find in its place, so that their other tests can run."""

    def refuse(self: Any, *args: Any, **keywords: Any) -> None:
        raise AttributeError(f"{name} has no counterpart in fgrad.compat")

    return type(name.rpartition(".")[2], (), {"__init__": refuse})


# Containers


def _is_sequence(x: Any) -> bool:
    return isinstance(x, (list, dict)) or (isinstance(x, tuple) and not hasattr(x, "as_list"))


def _flatten(structure: Any) -> list[Any]:
    if not _is_sequence(structure):
        return [structure]
    parts = [structure[key] for key in sorted(structure)] if isinstance(structure, dict) else structure
    return [leaf for part in parts for leaf in _flatten(part)]


def _map_structure(function: Callable[..., Any], *structures: Any) -> Any:
    first = structures[0]
    if not _is_sequence(first):
        return function(*structures)
    if isinstance(first, dict):
        return {key: _map_structure(function, *(each[key] for each in structures)) for key in first}
    parts = [_map_structure(function, *each) for each in zip(*structures, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)


def _pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    leaves = iter(flat_sequence)
    return _map_structure(lambda _: next(leaves), structure)


NEST = {"flatten": _flatten, "map_structure": _map_structure, "pack_sequence_as": _pack_sequence_as}


# Derivatives


class ForwardGradientAccumulator:
    """The accumulator as it was called while TensorFlow developed it: primals are given in the block."""

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def __enter__(self) -> ForwardGradientAccumulator:
        return self

    def __exit__(self, *exception: Any) -> None:
        for part in reversed(self._parts):
            part.__exit__(*exception)

    def watch(self, primals: Any, tangents: Any) -> None:
        """Follow the derivatives along tangents from here on."""
        self._parts.append(fgrad.ForwardAccumulator(primals, tangents).__enter__())

    def jvp(self, target: Any) -> Any:
        """Return the sum of the derivatives along all tangents."""
        found = [each for each in (part.jvp(target) for part in self._parts) if each is not None]
        return sum(found[1:], found[0]) if found else None


# Finite differences, as TensorFlow's tests arrange them: a row for each element of an argument


def _slopes(run: Callable[[Any], Any], at: Any, delta: float) -> Any:
    """Return the Jacobian of a function of one array by central differences."""
    rows = []
    for place in range(at.size):
        step = np.zeros_like(at)
        step.flat[place] = delta
        rows.append((np.asarray(run(at + step)) - np.asarray(run(at - step))).ravel() / (2 * delta))
    return np.array(rows)


def compared_gradients(tf: Any, f: Callable[..., Any], x: list[Any], delta: float = 1e-3) -> Any:
    """Return the Jacobians of a function by a tape, and by differences, each in a list."""
    arguments = [tf.convert_to_tensor(each) for each in x]
    derived, measured = [], []
    for place, at in enumerate(arguments):

        def on_one(value: Any, place: int = place) -> Any:
            return f(*arguments[:place], tf.convert_to_tensor(value), *arguments[place + 1 :])

        with tf.GradientTape(persistent=True) as tape:
            tape.watch(at)
            y = f(*arguments[:place], at, *arguments[place + 1 :])
        found = tape.jacobian(y, at, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        derived.append(found.numpy().reshape(-1, at.numpy().size).T)
        measured.append(_slopes(lambda value: on_one(value).numpy(), at.numpy(), delta))
    return derived, measured


def gradient_error(
    tf: Any, x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3
) -> float:
    """Return the largest difference of a Jacobian in a graph from that by differences."""
    session = tf.get_default_session()
    at = np.random.rand(*x_shape) if x_init_value is None else np.asarray(x_init_value)
    at = at.astype(x.dtype.as_numpy_dtype)
    weights = tf.placeholder(y.dtype, y_shape)
    gradient = tf.convert_to_tensor(tf.gradients(y, x, weights)[0])
    rows = np.eye(int(np.prod(y_shape)), dtype=y.dtype.as_numpy_dtype)
    columns = [session.run(gradient, {x: at, weights: row.reshape(y_shape)}).ravel() for row in rows]
    measured = _slopes(lambda value: session.run(y, {x: value}), at, delta)
    return float(np.max(np.abs(np.transpose(columns) - measured), initial=0.0))
