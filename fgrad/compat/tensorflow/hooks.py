"""Optimizers that users write: the methods that a subclass of `tf.train.Optimizer` defines, and those that it calls."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.graph import Convertible, Operation, default_graph
from fgrad.compat.deferred.state import GraphVariable, group
from fgrad.compat.tensorflow.arrays import convert_to_tensor, zeros_like
from fgrad.compat.tensorflow.variables import GraphKeys, IndexedSlices, Variable
from fgrad.typing import Array, DTypeLike

Pairs = Sequence[tuple[Any, Any]]


class Hooks:
    """The methods of an optimizer that a subclass defines, with what they do by default.

    Attributes:
        name: the name of the optimizer, and of its operation in a graph.
    """

    name: str

    def _begin(self, use_locking: bool) -> None:
        self._use_locking, self._name = use_locking, self.name
        self._states: dict[str, dict[Any, Any]] = {}
        self._others: dict[tuple[str, Any], Any] = {}

    # Defined by a subclass

    def _create_slots(self, var_list: list[Any]) -> None:
        """Create the state for variables, by `_zeros_slot` and similar methods; called in each step."""

    def _prepare(self) -> None:
        """Make tensors of the hyper-parameters; called before the variables are updated."""

    def _apply_dense(self, grad: object, var: object) -> Any:
        """Return the operation that updates a variable; in eager mode, update it."""
        raise errors.UpdateError(
            f"{type(self).__name__} must define _apply_dense(grad, var), which updates a variable, such as "
            "`return var.assign_sub(0.1 * grad)`; or _resource_apply_dense, with the same arguments."
        )

    _resource_apply_dense = _apply_dense

    def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
        """Return the operation that does all updates, and what is to be done after them."""
        return group(*update_ops, name=name_scope)

    # Called by a subclass

    def _zeros_slot(self, var: Array, slot_name: str, op_name: str) -> Any:
        """Return the state of a variable under a name, at first zero."""
        with _before(var):
            return self._get_or_make_slot(var, zeros_like(_start(var)), slot_name, op_name)

    def _get_or_make_slot(self, var: Any, val: Any, slot_name: str, op_name: str) -> Any:
        """Return the state of a variable under a name, at first with a given value."""
        held = self._slot_dict(slot_name)
        if var not in held:
            with _before(var):
                held[var] = Variable(val, trainable=False, name=f"{var._shared_name}/{op_name}")
        return held[var]

    def _get_or_make_slot_with_initializer(
        self, var: Any, initializer: Any, shape: Any, dtype: DTypeLike, slot_name: str, op_name: str
    ) -> Any:
        """Return the state of a variable under a name, at first what a function of the shape and dtype returns."""
        if var not in self._slot_dict(slot_name):
            with _before(var):
                return self._get_or_make_slot(var, initializer(shape, dtype), slot_name, op_name)
        return self._slot_dict(slot_name)[var]

    def _slot_dict(self, slot_name: str) -> dict[Any, Any]:
        """Return the state under a name, by variable."""
        return self._states.setdefault(slot_name, {})

    def _create_non_slot_variable(self, initial_value: object, name: str, colocate_with: Any) -> Any:
        """Return the state with a name that is not that of one variable, at first with a given value."""
        key = name, getattr(colocate_with, "graph", None)
        if key not in self._others:
            with _before(colocate_with):
                self._others[key] = Variable(initial_value, trainable=False, name=name)
        return self._others[key]

    def _get_non_slot_variable(self, name: str, graph: object = None) -> Any:
        """Return a result of `_create_non_slot_variable`, or None."""
        return self._others.get((name, graph))

    def _non_slot_variables(self) -> list[Any]:
        """Return all of them."""
        return list(self._others.values())

    def _call_if_callable(self, param: Any) -> Any:
        """Return a hyper-parameter, or what it returns if it is a function."""
        return param() if callable(param) else param

    # State, for all

    def get_slot(self, var: Convertible, name: str) -> Any:
        """Return the state for a variable under a name, which is a variable, or None."""
        return self._states.get(name, {}).get(var)

    def get_slot_names(self) -> list[str]:
        """Return the names of the states, sorted; none before gradients were applied."""
        return sorted(self._states)

    def variables(self) -> list[Any]:
        """Return the states for all variables, sorted by name; in a graph, for the variables of this graph."""
        found = [*self._non_slot_variables(), *(each for held in self._states.values() for each in held.values())]
        eager = [each for each in found if not isinstance(each, GraphVariable)]
        if mode.is_deferring() or not eager:
            eager = [each for each in found if getattr(each, "graph", None) is default_graph()]
        return sorted(eager, key=lambda each: str(each.name))

    # A step

    def _applied(self, pairs: Pairs, global_step: Any, name: str | None) -> Operation | None:
        """Update variables by the methods of the subclass; in a graph, return the operation that does it."""
        given = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        name = name or self.name
        first = given[0][1]
        with _before(first):
            self._create_slots([variable for _, variable in given])
        with mode.block(first.graph) if isinstance(first, GraphVariable) else contextlib.nullcontext():
            self._prepare()
            updates = [self._updated(_dense(gradient, variable), variable) for gradient, variable in given]
            done = self._finish(updates, name if global_step is None else f"{name}/update")
            if global_step is not None:
                with default_graph().control_dependencies([done]) if done is not None else contextlib.nullcontext():
                    done = group(global_step.assign_add(1), name=name)
        if isinstance(first, GraphVariable):
            first.graph.add_to_collection(GraphKeys.TRAIN_OP, done)
        return done  # type: ignore[no-any-return]

    def _updated(self, gradient: Array, variable: Any) -> Any:
        """Update a variable by that of the two methods that the subclass defines; the first of these in a graph."""
        names = ["_apply_dense", "_resource_apply_dense"]
        if not isinstance(variable, GraphVariable):
            names.reverse()
        own = [name for name in names if getattr(type(self), name) is not Hooks._apply_dense]
        update = getattr(self, (own or names)[0])(gradient, variable)
        if variable.constraint is None:
            return update
        if not isinstance(variable, GraphVariable):
            return variable.assign(variable.constraint(variable.value()))
        with variable.graph.control_dependencies([update]):
            return variable.assign(variable.constraint(variable.read_value()))


def _before(variable: Array) -> Any:
    """Return a context for new variables that belong to another one, in whatever the other one was made."""
    stack = contextlib.ExitStack()
    if isinstance(variable, GraphVariable):
        for block in (mode.block(variable.graph), variable.graph.control_dependencies(None), variable.graph.scope("")):
            stack.enter_context(block)
    elif mode.is_deferring():
        stack.enter_context(mode.block(None))
    return stack


def _start(variable: Any) -> Any:
    return variable.initialized_value() if isinstance(variable, GraphVariable) else variable.value()


def _dense(gradient: Array, variable: Array) -> Any:
    """Return a gradient as a tensor of the variable's dtype."""
    if isinstance(gradient, IndexedSlices) and gradient.dense_shape is None:
        gradient = gradient._replace(dense_shape=tuple(variable.shape))
    return convert_to_tensor(gradient, dtype_hint=np.dtype(variable.dtype))
