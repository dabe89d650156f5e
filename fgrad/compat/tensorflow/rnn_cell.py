"""`tf.nn.rnn_cell`: cells of recurrent networks, which hold their variables.

BasicRNNCell, GRUCell, BasicLSTMCell     create their variables in the first call
MultiRNNCell                             several cells, each on the outputs of the one before
static_rnn, dynamic_rnn                  a cell on a sequence; they are also in `tf.nn`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import errors
from fgrad.compat.deferred.convert import as_dtype
from fgrad.compat.deferred.graph import Convertible
from fgrad.compat.tensorflow.arrays import (
    concat,
    convert_to_tensor,
    expand_dims,
    shape,
    split,
    stack,
    unstack,
    where,
    zeros,
    zeros_like,
)
from fgrad.compat.tensorflow.initializers import Ones, Zeros
from fgrad.compat.tensorflow.math import add, less, matmul, sigmoid, tanh
from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.variables import get_variable, variable_scope
from fgrad.core.tree import flatten, tree_map, unflatten
from fgrad.typing import DTypeLike

__all__ = [
    "BasicLSTMCell", "BasicRNNCell", "GRUCell", "LSTMStateTuple", "MultiRNNCell", "RNNCell",
]  # fmt: skip


class LSTMStateTuple(NamedTuple):
    """The state of a cell with a memory.

    Attributes:
        c: the memory.
        h: the last output.
    """

    c: Any
    h: Any


class RNNCell:
    """The base class of cells: a subclass defines `state_size`, `output_size` and `call(inputs, state)`.

    Args:
        name: the name of the scope of its variables.
        dtype: of the variables, by default that of the first inputs.

    Attributes:
        variables: the variables, empty before the first call.
    """

    state_size: Any
    output_size: Any

    _scope = "rnn_cell"

    def __init__(self, name: str | None = None, dtype: DTypeLike | None = None) -> None:
        self._name, self._dtype = name, as_dtype(dtype)
        self.variables: list[Any] = []
        self._is_built = False

    def __call__(self, inputs: Convertible, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Return the output for a batch of inputs, and the next state."""
        x = convert_to_tensor(inputs)
        if not self._is_built:
            with variable_scope(scope or self._name, default_name=self._scope):
                self._build(x)
            self._is_built = True
        found: tuple[Any, Any] = self.call(x, state)
        return found

    def _build(self, inputs: Convertible) -> None:
        """Create the variables."""

    def call(self, inputs: Convertible, state: Any) -> Any:
        """Return the output and the next state."""
        raise NotImplementedError(f"{type(self).__name__}.call(inputs, state)")

    def zero_state(self, batch_size: Convertible, dtype: object) -> Any:
        """Return a state of zeros."""
        return tree_map(lambda size: zeros([batch_size, size], dtype), self.state_size)

    @property
    def trainable_variables(self) -> list[Any]:
        """The trainable ones of the variables."""
        return [variable for variable in self.variables if variable.trainable]

    weights = property(lambda self: self.variables)
    trainable_weights = trainable_variables

    def _linear(self, name: str, inputs: Any, units: int, bias: object = Zeros) -> None:
        """Create the variables of a linear function of inputs and state."""
        size = getattr(inputs.shape, "ndims", 2) and inputs.shape[-1]
        if size is None:
            raise errors.ShapeError(f"the last size of the inputs of a cell must be known; they are {inputs!r}.")
        dtype = self._dtype if self._dtype is not None else inputs.dtype
        dtype = np.dtype(np.float32) if dtype is None else dtype
        width = int(size) + self.output_size
        self.variables.append(get_variable(f"{name}kernel", [width, units], dtype))
        self.variables.append(get_variable(f"{name}bias", [units], dtype, bias))

    def _applied(self, place: int, *parts: object) -> Any:
        """Return the linear function with the variables at a place."""
        kernel, bias = self.variables[place : place + 2]
        return add(matmul(concat(parts, axis=1), kernel), bias)


class _CellOfUnits(RNNCell):
    """A cell whose state is its last output."""

    def __init__(
        self,
        num_units: int,
        activation: Callable[[Any], Any] | None = None,
        reuse: object = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(name, dtype)
        self.state_size = self.output_size = num_units
        self._activation = activation or tanh


class BasicRNNCell(_CellOfUnits):
    """A cell whose output is `activation([inputs, state] @ kernel + bias)`.

    Args:
        num_units: the size of the output.
        activation: by default `tf.tanh`.
        reuse: ignored: a cell keeps its variables.
        name: the name of the scope of its variables.
        dtype: of the variables, by default that of the first inputs.
    """

    _scope = "basic_rnn_cell"

    def _build(self, inputs: Convertible) -> None:
        self._linear("", inputs, self.output_size)

    def call(self, inputs: Convertible, state: Convertible) -> Any:
        """Return the output, which is also the next state."""
        output = self._activation(self._applied(0, inputs, state))
        return output, output


class GRUCell(_CellOfUnits):
    """A cell with gates for resetting and updating its state (https://arxiv.org/abs/1406.1078).

    Args:
        num_units, activation, reuse, name, dtype: as for `BasicRNNCell`.
    """

    _scope = "gru_cell"

    def _build(self, inputs: Convertible) -> None:
        self._linear("gates/", inputs, 2 * self.output_size, Ones)
        self._linear("candidate/", inputs, self.output_size)

    def call(self, inputs: Convertible, state: Convertible) -> Any:
        """Return the output, which is also the next state."""
        reset, update = split(sigmoid(self._applied(0, inputs, state)), 2, axis=1)
        candidate = self._activation(self._applied(2, inputs, reset * state))
        output = update * state + (1.0 - update) * candidate
        return output, output


class BasicLSTMCell(RNNCell):
    """A cell with a memory, and gates for writing, forgetting and reading (https://arxiv.org/abs/1409.2329).

    Args:
        num_units, activation, reuse, name, dtype: as for `BasicRNNCell`.
        forget_bias: added to the bias of the gate that forgets.
        state_is_tuple: whether the state is an `LSTMStateTuple`; otherwise memory and output in one tensor.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> cell = tf.nn.rnn_cell.BasicLSTMCell(2)
        >>> output, state = cell(tf.ones([3, 4]), cell.zero_state(3, tf.float32))
        >>> output.shape, state.c.shape, cell.variables[0].shape
        ((3, 2), (3, 2), (6, 8))
    """

    _scope = "basic_lstm_cell"

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Callable[[Any], Any] | None = None,
        reuse: object = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(name, dtype)
        self.output_size = num_units
        self.state_size = LSTMStateTuple(num_units, num_units) if state_is_tuple else 2 * num_units
        self._is_tuple, self._forget_bias, self._activation = state_is_tuple, forget_bias, activation or tanh

    def _build(self, inputs: Convertible) -> None:
        self._linear("", inputs, 4 * self.output_size)

    def call(self, inputs: Convertible, state: Any) -> Any:
        """Return the output, and the next state."""
        memory, last = state if self._is_tuple else split(state, 2, axis=1)
        write, new, forget, read = split(self._applied(0, inputs, last), 4, axis=1)
        kept = memory * sigmoid(forget + self._forget_bias)
        memory = kept + sigmoid(write) * self._activation(new)
        output = self._activation(memory) * sigmoid(read)
        return output, LSTMStateTuple(memory, output) if self._is_tuple else concat([memory, output], axis=1)


class MultiRNNCell(RNNCell):
    """Several cells, each of which takes the outputs of the one before.

    Args:
        cells: the cells.
        state_is_tuple: whether the state is a tuple of their states, which it must be.
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells or not state_is_tuple:
            raise errors.ParameterError("MultiRNNCell needs at least one cell, and state_is_tuple=True.")
        self._cells = list(cells)
        self.state_size = tuple(cell.state_size for cell in cells)
        self.output_size = cells[-1].output_size

    def __call__(self, inputs: Convertible, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Return the output of the last cell, and the next states of all."""
        states = []
        with variable_scope(scope, default_name="multi_rnn_cell"):
            for place, (cell, own) in enumerate(zip(self._cells, state, strict=True)):
                if cell._is_built:
                    inputs, after = cell(inputs, own)
                else:
                    with variable_scope(f"cell_{place}"):
                        inputs, after = cell(inputs, own)
                states.append(after)
        self.variables = [variable for cell in self._cells for variable in cell.variables]
        return inputs, tuple(states)


# On sequences


def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Return the outputs of a cell for a sequence of inputs, and its last state.

    Args:
        cell: a cell of `tf.nn.rnn_cell`.
        inputs: a list of tensors with one row for each sequence of the batch.
        initial_state: the first state; by default zeros of `dtype`.
        dtype: the dtype of that state.
        sequence_length: the lengths of the sequences, by default all of them. Behind the end of a sequence outputs are
            zero, and its state stays.
        scope: the name of the scope of the variables, by default "rnn".

    Returns:
        A list of outputs, and the last state.

    Raises:
        ParameterError: a ValueError; there are no inputs, or neither `initial_state` nor `dtype` is given.
    """
    inputs = [convert_to_tensor(x) for x in inputs]
    if not inputs or (initial_state is None and dtype is None):
        raise errors.ParameterError("a recurrent network needs inputs, and an initial_state or the dtype of zeros.")
    outputs, state = [], initial_state
    with variable_scope(scope, default_name="rnn"):
        if state is None:
            state = cell.zero_state(_rows_of(inputs[0]), dtype)
        for place, x in enumerate(inputs):
            output, after = cell(x, state)
            if sequence_length is not None:
                is_inside = expand_dims(less(place, convert_to_tensor(sequence_length)), 1)
                output = where(is_inside, output, zeros_like(output))
                after = _chosen(is_inside, after, state)
            outputs.append(output)
            state = after
    return outputs, state


def _rows_of(x: Any) -> Any:
    from_shape = x.shape[0] if getattr(x.shape, "ndims", len(x.shape)) else None
    return shape(x)[0] if from_shape is None else int(from_shape)


def _chosen(condition: Convertible, new: LSTMStateTuple, old: object) -> Any:
    leaves, treedef = flatten(new)
    return unflatten(treedef, [where(condition, x, y) for x, y in zip(leaves, flatten(old)[0], strict=True)])


def dynamic_rnn(
    cell: Callable[..., Any],
    inputs: Convertible,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: object = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """Return the outputs of a cell for a sequence of inputs in one tensor, and its last state; see `static_rnn`.

    Args:
        cell, sequence_length, initial_state, dtype, scope: as for `static_rnn`.
        inputs: a tensor of shape `(batch, steps, size)`; the number of steps must be known.
        time_major: whether the steps are the first axis, of `inputs` and of the outputs.
        parallel_iterations, swap_memory: ignored.

    Raises:
        ShapeError: a ValueError; the number of steps is not known.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> cell = tf.nn.rnn_cell.GRUCell(2)
        >>> outputs, state = tf.nn.dynamic_rnn(cell, tf.ones([3, 5, 4]), dtype=tf.float32)
        >>> outputs.shape, bool(tf.reduce_all(outputs[:, -1] == state))
        ((3, 5, 2), True)
    """
    axis = 0 if time_major else 1
    outputs, state = static_rnn(cell, unstack(inputs, axis=axis), initial_state, dtype, sequence_length, scope)
    return stack(outputs, axis=axis), state


__getattr__ = missing(__name__)
