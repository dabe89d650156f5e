"""State of graphs: variables, and assignments to them.

    GraphVariable           a variable of a graph; every session has its own value
    assign(ref, value)      an assignment: immediate, or executed by a session

A graph variable has no value. A session keeps an `fgrad.Variable` for it, created by the initializer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.convert import another, as_dtype, convert
from fgrad.compat.deferred.dtypes import named
from fgrad.compat.deferred.graph import (
    Graph,
    GraphTensor,
    Node,
    Operation,
    Symbol,
    TensorShape,
    as_node,
    default_graph,
    default_session,
    effect_of,
    holds_symbol,
    operation,
)
from fgrad.compat.deferred.scattering import Scatters, scattered
from fgrad.core.primitive import BOXES
from fgrad.typing import Array, ArrayLike, Operand

MADE: list[Callable[[Any], None]] = []
"""Callbacks for constants that are created from numbers."""


@operation("Const")
def constant(value: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Return a constant tensor.

    Args:
        value: a number, array or nested lists of them.
        dtype: by default float32 for Python floats and int32 for Python integers; arrays keep theirs.
        shape: the shape of the result; a single number is repeated.
    """
    tensor = convert(value, dtype)
    if shape is not None:
        tensor = np.broadcast_to(tensor, shape) if tensor.size == 1 else np.reshape(tensor, shape)
    if type(value) not in BOXES:
        for take in MADE:
            take(tensor)
    return tensor


@operation("Identity")
def identity(input: ArrayLike) -> Any:
    """Return a tensor with the same values, through which derivatives pass."""
    return another(convert(input))


def as_symbol(value: object, dtype: object = None, graph: Graph | None = None) -> Any:
    """Return a value as a tensor of a graph, by default of the open one."""
    if isinstance(value, Symbol):
        return as_node(value)
    with mode.block(graph or default_graph()):
        return constant(value, dtype)


class GraphVariable(Scatters, Symbol):
    """A variable of a graph; see `tf.Variable` for its arguments."""

    def __init__(
        self,
        initial_value: Any,
        trainable: bool = True,
        name: str | None = None,
        dtype: object = None,
        shape: Any = None,
        constraint: Callable[[Any], Any] | None = None,
    ) -> None:
        self.graph: Graph = default_graph()
        self._name = self.graph.unique_name(name or "Variable")
        self.trainable = trainable
        self.constraint = constraint
        self._dtype = as_dtype(dtype)
        self._shape = shape
        with self.graph.control_dependencies(None), self.graph.scope(self._name + "/"):
            self.initial_value: Any = as_symbol(initial_value() if callable(initial_value) else initial_value, dtype)
            self._read = Read(self, "read")
            self.initializer = Operation("Assign", self._initialize, [self.initial_value], self.graph)
        self.graph.variables.append(self)

    def _initialize(self, run: Any) -> None:
        value = run.values[self.initial_value]
        if not np.can_cast(value.dtype, self.dtype, "same_kind"):
            raise errors.DtypeError(
                f"variable {self.name!r} has dtype {self.dtype}, and its initial value has dtype {value.dtype}; "
                "use tf.cast."
            )
        run.create(self, value.astype(self.dtype))

    @property
    def name(self) -> str:
        return f"{self._name}:0"

    @property
    def _shared_name(self) -> str:
        return self._name

    @property
    def op(self) -> Node:
        return effect_of(self._read, self._name)

    @property
    def dtype(self) -> Any:
        return named(self._dtype) or self.initial_value.dtype

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self._shape) if self._shape is not None else self.initial_value.shape

    def get_shape(self) -> TensorShape:
        """Return the sizes of the axes, as far as they are known."""
        return self.shape

    def read_value(self) -> Read:
        """Return the value as a tensor, read after the open control dependencies; in a loop, in each iteration."""
        return Read(self, "ReadVariableOp") if self.graph.controls or self.graph.frame else self._read

    value = read_value

    def initialized_value(self) -> GraphTensor:
        """Return the value if a session has it, otherwise the initial value."""
        return Initialized(self)

    def eval(self, session: Any = None, feed_dict: Any = None) -> Any:
        """Return the value in a session, by default the innermost one."""
        return (session or default_session("eval()")).run(self, feed_dict)

    def load(self, value: Operand, session: Any = None) -> None:
        """Set the value of the variable in a session."""
        (session or default_session("load()")).variable(self).assign(value)

    def assign(self, value: Any, use_locking: bool = False, name: Any = None, read_value: bool = True) -> Any:
        """Return a tensor whose evaluation replaces the value; its value is the new one."""
        return Assignment(self, "Assign", name, None, value)

    def assign_add(self, delta: float, use_locking: bool = False, name: Any = None, read_value: bool = True) -> Any:
        """Return a tensor whose evaluation adds to the value; its value is the new one."""
        return Assignment(self, "AssignAdd", name, lambda old, new: old + new, delta)

    def assign_sub(self, delta: Any, use_locking: bool = False, name: Any = None, read_value: bool = True) -> Any:
        """Return a tensor whose evaluation subtracts from the value; its value is the new one."""
        return Assignment(self, "AssignSub", name, lambda old, new: old - new, delta)

    def _scatter(self, kind: str, by_rows: bool, updates: object, indices: object, name: str | None) -> Assignment:
        def changed(old: Array, updates: Array, indices: Array) -> Any:
            return scattered(kind, by_rows, old, updates, indices, self.name)

        return Assignment(self, f"Scatter{'' if by_rows else 'Nd'}{kind}", name, changed, updates, indices)

    def __getitem__(self, key: object) -> Any:
        part = super().__getitem__(key)
        part.assign = functools.partial(self._assign_at, key, lambda old, new: new)
        part.assign_add = functools.partial(self._assign_at, key, np.add)
        part.assign_sub = functools.partial(self._assign_at, key, np.subtract)
        return part

    def _assign_at(
        self, key: object, combine: Callable[[Any, Any], Any], value: object, name: str | None = None
    ) -> Assignment:
        """Return a tensor whose evaluation changes a part; its value is that of the whole variable."""
        if holds_symbol(key if isinstance(key, tuple) else (key,)):
            raise errors.SymbolicTensorError(
                f"a part of {self.name!r} is assigned at {key!r}, which has no value before a session runs it.\n"
                "Use tf.where, or tf.scatter_nd_add, which take tensors as indices."
            )

        def changed(old: Array, new: Array) -> Any:
            return with_part(old, key, combine, new, self.name)

        return Assignment(self, name or "strided_slice_assign", name, changed, value)

    def __repr__(self) -> str:
        return f"<Variable {self.name!r} shape={self.shape} dtype={self.dtype}>"


def with_part(old: Array, key: Any, combine: Callable[[Any, Any], Any], new: ArrayLike, name: str) -> Any:
    """Return the values of a variable with a part combined with other values."""
    changed, new = np.array(old), np.asarray(new)
    if not np.can_cast(new.dtype, changed.dtype, "same_kind"):
        raise errors.DtypeError(
            f"variable {name!r} has dtype {changed.dtype}, and cannot hold {new.dtype} in a part; use tf.cast."
        )
    if not _fits(new.shape, changed[key].shape):
        raise errors.ShapeError(
            f"the part [{key}] of variable {name!r} has shape {changed[key].shape}, and what is assigned to it has "
            f"shape {new.shape}.\nReshape it, or choose a part of its shape."
        )
    changed[key] = combine(changed[key], new)
    return changed


def _fits(shape: tuple[int, ...], part: tuple[int, ...]) -> bool:
    """Return whether an array of a shape can be broadcast to a part."""
    try:
        return np.broadcast_shapes(shape, part) == part
    except ValueError:
        return False


class Read(GraphTensor):
    """The value of a variable at one point of a run."""

    def __init__(self, variable: GraphVariable, name: str, inputs: Sequence[Node] = ()) -> None:
        self.variable, self.reads = variable, (variable,)
        super().__init__(variable.graph, name, inputs)

    def compute(self, run: Any) -> Any:
        if not run.session.has(self.variable) and run.computes(self.variable.initializer):
            # It is read for the initial value of another variable, before it is initialized itself.
            return run.values[self.variable.initial_value].astype(self.variable.dtype)
        return run.session.variable(self.variable).value()

    def _infer(self) -> tuple[Any, Any]:
        shape = self.variable.shape
        return (None if shape.ndims is None else list(shape)), self.variable.dtype


class Initialized(GraphTensor):
    """The value of a variable, or its initial value if a session has none yet."""

    def __init__(self, variable: GraphVariable) -> None:
        self.variable = variable
        super().__init__(variable.graph, "initialized_value", [variable.initial_value])

    def compute(self, run: Any) -> Any:
        if run.session.has(self.variable):
            return run.session.variable(self.variable).value()
        return run.values[self.inputs[0]].astype(self.variable.dtype)

    def _infer(self) -> tuple[Any, Any]:
        return self.variable._read.facts()


class Assignment(Read):
    """An assignment to a variable, executed when it is evaluated; its value is the new one.

    It counts as a read: derivatives go to the variable, and not to the assigned value, as with a tape.
    """

    differentiable = False

    def __init__(
        self,
        variable: GraphVariable,
        kind: str,
        name: str | None,
        combine: Callable[..., Any] | None,
        value: object,
        *places: object,
    ) -> None:
        self._combine = combine
        # A plain value is converted to the variable's dtype.
        given = [as_symbol(value, variable.dtype, variable.graph)]
        super().__init__(variable, name or kind, given + [as_symbol(each, None, variable.graph) for each in places])

    def compute(self, run: Any) -> Any:
        new, *places = (run.values[each].numpy() for each in self.inputs)
        if self._combine is None and not run.session.has(self.variable):
            return run.create(self.variable, new.astype(self.variable.dtype)).value()
        held = run.session.variable(self.variable)
        return held.assign(new if self._combine is None else self._combine(held.numpy(), new, *places)).value()


# Shared with eager mode


def group(*inputs: object, name: str | None = None) -> Any:
    """Return an operation that runs several; in eager mode, where they have already run, None."""
    nodes = [each for each in inputs if isinstance(each, (Symbol, Node))]
    if not nodes and not mode.is_deferring():
        return None
    return Operation(name or "group_deps", lambda run: None, nodes, nodes[0].graph if nodes else None)


def variables_initializer(variables: Sequence[Any], name: str = "init") -> Operation:
    """Return an operation that initializes variables of a graph."""
    graph = variables[0].graph if variables else None
    return Operation(name, lambda run: None, [variable.initializer for variable in variables], graph)


def global_variables_initializer(name: str = "init") -> Any:
    """Return an operation that initializes all variables of the graph, and the states of optimizers.

    In eager mode variables are already initialized, and it is None.
    """
    if not mode.is_deferring():
        return None
    graph = default_graph()

    def forget(run: Any) -> None:
        run.session.optimizers.clear()

    return Operation(name, forget, [variable.initializer for variable in graph.variables], graph)


initialize_variables = variables_initializer
initialize_all_variables = global_variables_initializer


def assign(ref: Any, value: Any, validate_shape: bool = True, use_locking: bool = False, name: object = None) -> Any:
    """Replace the value of a variable: immediately, or in a graph when the result is evaluated."""
    return ref.assign(value)


def assign_add(ref: Any, value: ArrayLike, use_locking: bool = False, name: object = None) -> Any:
    """Add to the value of a variable: immediately, or in a graph when the result is evaluated."""
    return ref.assign_add(value)


def assign_sub(ref: Any, value: ArrayLike, use_locking: bool = False, name: object = None) -> Any:
    """Subtract from the value of a variable: immediately, or in a graph when the result is evaluated."""
    return ref.assign_sub(value)


def uninitialized(variable: GraphVariable) -> errors.FailedPreconditionError:
    """Return the error for an uninitialized variable in a session."""
    return errors.FailedPreconditionError(
        f"Attempting to use uninitialized value {variable._name}: run tf.global_variables_initializer() "
        "in this session first."
    )
