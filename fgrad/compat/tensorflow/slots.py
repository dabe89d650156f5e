"""State of the optimizers of `tf.train` as variables, and gradients of selected rows of a variable.

SlotVariable        in eager mode: state of an optimizer, or an average, as a variable
Slot, Power         in a graph: the same, in the session that runs it
Rows, rows_of       the gradient of selected rows, from `tf.IndexedSlices`
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fgrad import errors
from fgrad.compat.deferred.convert import convert
from fgrad.compat.deferred.graph import Convertible, Graph, GraphTensor, Node, Operation, TensorShape
from fgrad.compat.deferred.scattering import IndexedSlices
from fgrad.compat.deferred.state import GraphVariable, as_symbol
from fgrad.compat.tensorflow.arguments import check_within
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import boxed
from fgrad.core.variable import Cell
from fgrad.optimizers import inputs
from fgrad.optimizers.settings import known
from fgrad.typing import Array


class SlotVariable(Cell):
    """State of an optimizer: the optimizer's own variable, so that assignments affect both."""

    initializer = None

    def get_shape(self) -> TensorShape:
        """Return the shape."""
        return TensorShape(self.shape)


BOXES.add(SlotVariable)


def _shown(read: Callable[[], Any], name: str, source: str) -> SlotVariable:
    """Return a read-only variable that shows a derived value."""

    def refuse(new: Array) -> None:
        raise errors.UpdateError(f"{name.removesuffix(':0')} is derived from {source}, and cannot be assigned.")

    return SlotVariable(read, refuse, name)


def power_variable(optimizer: object, beta: str) -> SlotVariable:
    """Return the power of a hyper-parameter that corrects the next step of an optimizer."""
    return _shown(lambda: power_of(optimizer, beta), f"{beta}_power:0", "the number of steps")


def average_variable(averages: Any, variable: Any, name: str) -> SlotVariable:
    """Return the moving average of a variable."""
    return _shown(lambda: averages.average(variable).numpy(), name, "the variable that it averages")


def power_of(optimizer: Any, beta: str) -> Any:
    """Return a hyper-parameter raised to the number of the next step."""
    return np.float32(known(beta, getattr(optimizer, beta), optimizer.iterations) ** (optimizer.iterations + 1))


class StateTensor(GraphTensor):
    """A part of an optimizer's state in the session that runs it."""

    def __init__(self, optimizer: Any, graph: Graph, name: str, forget: Callable[[Any], None]) -> None:
        self._optimizer, self._forget = optimizer, forget
        with graph.control_dependencies(None), graph.scope(""):
            super().__init__(graph, name, ())

    @functools.cached_property
    def initializer(self) -> Operation:
        """The operation that initializes this part in a session."""

        def begin(run: Any) -> None:
            if self._optimizer in run.session.optimizers:
                self._forget(run)

        with self.graph.control_dependencies(None), self.graph.scope(""):
            return Operation(f"{self._name}/Assign", begin, [], self.graph)

    def native(self, run: Any) -> Any:
        """Return the session's optimizer, or that of the graph before its first step."""
        return run.session.optimizers.get(self._optimizer, self._optimizer)


class Slot(StateTensor):
    """The state of an optimizer for a variable under a name."""

    def __init__(self, optimizer: Any, variable: GraphVariable, name: str) -> None:
        self._variable, self._slot = variable, name
        super().__init__(optimizer, variable.graph, f"{variable._name}/{optimizer.name}", self._begin)

    def compute(self, run: Any) -> Any:
        held, native = run.session.variable(self._variable), self.native(run)
        slots = native._slots.get(held) or native.initial_slots(held._shown())
        return boxed(np.array(slots[self._slot]))

    def _begin(self, run: Any) -> None:
        if run.session.has(self._variable):
            held = run.session.variable(self._variable)
            self.live(run).assign(self.native(run).initial_slots(held._shown())[self._slot])

    def live(self, run: Any) -> SlotVariable:
        """Return its variable in a session."""
        found: SlotVariable = self._optimizer.in_session(run).live_slot(
            run.session.variable(self._variable), self._slot
        )
        return found

    def assign(self, value: Any, use_locking: bool = False, name: Any = None, read_value: bool = True) -> Any:
        """Return a tensor whose evaluation assigns the value; its value is the new one."""
        return SlotAssignment(self, value)

    def _infer(self) -> tuple[Any, Any]:
        shape = self._variable.shape
        return (None if shape.ndims is None else list(shape)), self._variable.dtype


class SlotAssignment(GraphTensor):
    """An assignment to the state of an optimizer, executed when it is evaluated."""

    def __init__(self, slot: Slot, value: list[Any]) -> None:
        self._of = slot
        super().__init__(slot.graph, f"{slot._name}/Assign", [as_symbol(value, slot.dtype, slot.graph)])

    def compute(self, run: Any) -> Any:
        return self._of.live(run).assign(run.values[self.inputs[0]]).value()

    def _infer(self) -> tuple[Any, Any]:
        return self._of.facts()


class Power(StateTensor):
    """The power of a hyper-parameter that corrects the next step."""

    _static = [], np.dtype(np.float32)

    def __init__(self, optimizer: Any, graph: Graph, beta: str, node: Node | None) -> None:
        self._beta = beta
        super().__init__(optimizer, graph, f"{beta}_power", self._begin)
        self.inputs = [] if node is None else [node]

    def compute(self, run: Any) -> Any:
        native = self.native(run)
        if self.inputs:
            getattr(native, self._beta).value = run.values[self.inputs[0]]
        return boxed(power_of(native, self._beta))

    def _begin(self, run: object) -> None:
        self.native(run)._step = 0


class Rows(NamedTuple):
    """The gradient of selected rows of a variable; that of the others is zero.

    Attributes:
        values: the gradients of the rows.
        numbers: their indices, without repetition, in increasing order.
        shape: the shape of the variable.
    """

    values: Any
    numbers: Any
    shape: tuple[int, ...]

    def dense(self) -> Any:
        """Return the gradient of all rows."""
        array = np.zeros(self.shape, self.values.dtype)
        array[self.numbers] = self.values
        return array


def rows_of(slices: IndexedSlices, variable: Any, describe: inputs.Description) -> Rows:
    """Return the gradient of rows of a variable; gradients of a repeated row are summed."""
    values, numbers = (inputs.plain(convert(each)) for each in (slices.values, slices.indices))
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise errors.DtypeError(
            f"the indices of a gradient of {describe()} must be a vector of integers, but they have dtype "
            f"{numbers.dtype} and shape {numbers.shape}."
        )
    wanted = (len(numbers), *variable.shape[1:])
    if not variable.shape or values.shape != wanted:
        raise errors.ShapeError(
            f"the gradient of {len(numbers)} rows of {describe()} must have shape {wanted}, but it has {values.shape}."
        )
    check_within(numbers, variable.shape[0], "the indices of a gradient")
    given = inputs.fitting(values, np.broadcast_to(np.zeros((), variable.dtype), wanted), describe)
    unique, places = np.unique(numbers, return_inverse=True)
    summed = np.zeros((len(unique), *wanted[1:]), variable.dtype)
    np.add.at(summed, places, given)
    return Rows(summed, unique, variable.shape)


def with_rows(old: Any, numbers: Convertible, new: Convertible) -> Any:
    """Return an array with some rows replaced."""
    changed = old.copy()
    changed[numbers] = new
    return changed
