"""What optimizers share: one update rule for one array, used on variables and on containers.

A subclass gives the rule; the base maps it. On variables (`minimize`, `apply_gradients`) the
optimizer keeps the state; as pure functions (`init`, `update`) the caller does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fgrad import errors
from fgrad.core.tensor import BOXES, boxed, settle
from fgrad.core.tree import flatten, unflatten
from fgrad.tape import GradientTape, departures
from fgrad.variable import Variable

Hyper = Any
"""A hyper-parameter: a number, an array, a variable, or a function without arguments that returns one."""

Slots = dict[str, Any]
"""What an update rule remembers of one array, by name."""


class State(NamedTuple):
    """The state of an optimizer on a container of parameters; itself a container.

    Attributes:
        step: how many updates have been made.
        slots: by name, a container like the parameters.
    """

    step: int
    slots: dict[str, Any]


class Optimizer:
    """The base of the optimizers; see `rule` for what one adds.

    Args:
        learning_rate: the length of a step; a number, array, variable, or function that returns one.
    """

    slot_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, learning_rate: Hyper) -> None:
        self.learning_rate = learning_rate
        self._step = 0
        self._slots: dict[Variable, Slots] = {}

    def rule(self, gradient: Any, param: Any, slots: Slots, step: int) -> tuple[Any, Slots]:
        """Return the updated array and slots.

        Args:
            gradient: of the array's shape and dtype.
            param: the array or tensor to update.
            slots: what the last step returned; zeros at first.
            step: 1 for the first update.
        """
        raise NotImplementedError(type(self).__name__)

    def _slots_for(self, param: Any) -> Slots:
        return {name: np.zeros_like(param) for name in self.slot_names}

    def _rate(self, param: Any) -> Any:
        return value_of(self.learning_rate, param)

    # Pure functions on containers

    def init(self, params: Any) -> State:
        """Return the state before the first step.

        Args:
            params: a container of floating-point numbers, arrays or tensors.

        Example:
            >>> import fgrad as fg
            >>> fg.optimizers.Momentum(0.1, momentum=0.9).init({"w": 2.0})
            State(step=0, slots={'momentum': {'w': Tensor(0.)}})
        """
        leaves, treedef = flatten(params)
        slots = [self._slots_for(_tensor(leaf)) for leaf in leaves]
        return State(
            0, {name: unflatten(treedef, [_tensor(each[name]) for each in slots]) for name in self.slot_names}
        )

    def update(self, grads: Any, state: State, params: Any) -> tuple[Any, State]:
        """Return the parameters and the state after one step; nothing is changed in place.

        Args:
            grads: gradients, nested as `params` are; where one is None the parameter stays.
            state: from `init` or the last `update`.
            params: a container of floating-point numbers, arrays or tensors.

        Returns:
            `(params, state)`.

        Raises:
            ShapeError: a ValueError; a gradient has another shape than its parameter.

        Example:
            >>> import fgrad as fg
            >>> optimizer = fg.optimizers.GradientDescent(0.1)
            >>> params, state = optimizer.update({"w": 1.0}, optimizer.init({"w": 2.0}), {"w": 2.0})
            >>> params
            {'w': Tensor(1.9)}
        """
        leaves, treedef = flatten(params)
        gradients = treedef.flatten_up_to(grads)
        slots = {name: treedef.flatten_up_to(state.slots[name]) for name in self.slot_names}
        step = state.step + 1
        new_leaves: list[Any] = []
        for place, (leaf, gradient) in enumerate(zip(leaves, gradients, strict=True)):
            param = _tensor(leaf)
            own = {name: slots[name][place] for name in self.slot_names}
            if gradient is not None:
                param, own = self.rule(_fitting(gradient, param, f"number {place}"), param, own, step)
            new_leaves.append(param)
            for name in self.slot_names:
                slots[name][place] = own[name]
        return (
            unflatten(treedef, new_leaves),
            State(step, {name: unflatten(treedef, slots[name]) for name in self.slot_names}),
        )

    # On variables

    def compute_gradients(
        self, loss: Callable[[], Any], var_list: Any = None, grad_loss: Any = None
    ) -> list[tuple[Any, Variable]]:
        """Return the gradients of a loss with respect to variables.

        Args:
            loss: a function without arguments; elements of its result are summed.
            var_list: the variables, or one; by default all trainable ones that `loss` reads.
            grad_loss: weights for the elements of the loss.

        Returns:
            A list of pairs `(gradient, variable)`, by default in the order of creation; the gradient is
            None where the loss does not depend on the variable.

        Raises:
            NotCallableError: a TypeError; `loss` is not a function.
            NoVariablesError: a ValueError; `var_list` is empty.
            NoResultError: a ValueError; `loss` returns None.
            OutputError: a TypeError; `loss` returns no tensor, or one of integers.

        Example:
            >>> import fgrad as fg
            >>> w = fg.Variable(3.0, name="w")
            >>> fg.optimizers.GradientDescent(0.1).compute_gradients(lambda: w * w)
            [(Tensor(6.), Variable(3., name='w'))]
        """
        return self._compute(loss, var_list, grad_loss)[0]

    def _compute(self, loss: Any, var_list: Any, grad_loss: Any) -> tuple[list[tuple[Any, Variable]], list[str]]:
        if not callable(loss) or type(loss) in BOXES:
            raise errors.NotCallableError(
                "loss must be a function without arguments, so that its operations can be recorded; "
                f"it is {loss!r}. Write minimize(lambda: ...)."
            )
        if var_list is not None:
            var_list = [var_list] if isinstance(var_list, Variable) else list(var_list)
            if not var_list:
                raise errors.NoVariablesError("No variables to optimize: var_list is empty.")
        with GradientTape(watch_accessed_variables=var_list is None) as tape:
            tape.watch([v for v in var_list or () if v.dtype.kind in "fc"])
            value = loss()
        _check_loss(value)
        variables = list(tape.watched_variables() if var_list is None else var_list)
        gradients = tape.gradient(value, variables, None if grad_loss is None else grad_loss)
        return list(zip(gradients, variables, strict=True)), departures(tape)

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Variable]], global_step: Variable | None = None
    ) -> None:
        """Update variables with gradients, exactly as they are given.

        Args:
            grads_and_vars: pairs `(gradient, variable)`; pairs with None are skipped. A gradient of
                another dtype is cast to the variable's.
            global_step: a variable to which 1 is added afterwards.

        Raises:
            NoGradientsError: a ValueError; no pairs, or every gradient is None.
            ShapeError: a ValueError; a gradient has another shape than its variable. No variable has changed.

        Example:
            >>> import fgrad as fg
            >>> w = fg.Variable(3.0, name="w")
            >>> fg.optimizers.GradientDescent(0.1).apply_gradients([(10.0, w)])
            >>> w
            Variable(2., name='w')
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise errors.NoGradientsError("No variables provided: the list of gradients and variables is empty.")
        if all(gradient is None for gradient, _ in pairs):
            raise errors.NoGradientsError(f"No gradients provided for any variable: {_names(pairs)}.")
        fitting = [(_fitting(g, v, repr(v.name)), v) for g, v in pairs if g is not None]
        step = self._step + 1
        for gradient, variable in fitting:
            param = variable._shown()
            slots = self._slots.get(variable) or self._slots_for(param)
            new, slots = self.rule(settle(gradient), param, slots, step)
            variable.assign(new)
            self._slots[variable] = {name: _array(slot) for name, slot in slots.items()}
        self._step = step
        if global_step is not None:
            global_step.assign_add(1)

    def minimize(
        self,
        loss: Callable[[], Any],
        global_step: Variable | None = None,
        var_list: Any = None,
        grad_loss: Any = None,
    ) -> None:
        """Take one step: `compute_gradients`, then `apply_gradients`.

        Args:
            loss, var_list, grad_loss: as for `compute_gradients`.
            global_step: as for `apply_gradients`.

        Raises:
            NoGradientsError: a ValueError; the loss depends on none of the variables.
            NotCallableError, NoVariablesError, NoResultError, OutputError: as for `compute_gradients`.

        Example:
            >>> import fgrad as fg
            >>> w = fg.Variable(3.0, name="w")
            >>> fg.optimizers.GradientDescent(0.1).minimize(lambda: w * w)
            >>> w
            Variable(2.4, name='w')
        """
        pairs, left = self._compute(loss, var_list, grad_loss)
        if all(gradient is None for gradient, _ in pairs):
            names = _names(pairs) or "any trainable variable"
            reasons = "".join(f"\n  a value left the trace by {each}" for each in left)
            raise errors.NoGradientsError(
                f"No gradients provided for any variable: the loss does not depend on {names}.{reasons}\n"
                "Compute the loss from trainable variables inside the function, with NumPy's functions."
            )
        self.apply_gradients(pairs, global_step)

    def get_slot(self, variable: Variable, name: str) -> Any:
        """Return a copy of what the optimizer remembers of a variable, or None if there is nothing."""
        slot = self._slots.get(variable, {}).get(name)
        return None if slot is None else np.array(slot)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots that exist, sorted; none before the first step."""
        return sorted(self.slot_names) if self._slots else []


def value_of(hyper: Hyper, param: Any) -> Any:
    """Return a hyper-parameter as a number or array that does not promote the parameter's dtype."""
    value = hyper() if callable(hyper) else hyper
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return value
    value = settle(value)
    return value.astype(param.dtype) if hasattr(value, "astype") else np.asarray(value, param.dtype)


def _tensor(x: Any) -> Any:
    x = settle(x)
    return boxed(np.asarray(x) if not hasattr(x, "dtype") else x)


def _array(x: Any) -> Any:
    return x.numpy() if type(x) in BOXES else np.asarray(x)


def _fitting(gradient: Any, param: Any, what: str) -> Any:
    """Return a gradient in the dtype of its parameter."""
    gradient = gradient if type(gradient) in BOXES else np.asarray(gradient)
    if gradient.dtype.kind not in "fciu":
        raise errors.DtypeError(f"the gradient of variable {what} must be numbers, and its dtype is {gradient.dtype}.")
    if gradient.shape != param.shape:
        raise errors.ShapeError(
            f"the gradient of variable {what} has shape {gradient.shape}, and the variable has shape {param.shape}.\n"
            "Each gradient is applied to all of its variable; no variable has been changed."
        )
    if gradient.dtype.kind == "c" and param.dtype.kind != "c":
        raise errors.DtypeError(f"the gradient of the real variable {what} is complex ({gradient.dtype}).")
    return gradient if gradient.dtype == param.dtype else gradient.astype(param.dtype)


def _names(pairs: list[tuple[Any, Variable]]) -> list[str]:
    return [variable.name for _, variable in pairs]


def _check_loss(value: Any) -> None:
    if value is None:
        raise errors.NoResultError("the loss function returned None; did you forget to return a value?")
    for leaf in flatten(value)[0]:
        if type(leaf) not in BOXES or leaf.dtype.kind not in "fc":
            raise errors.OutputError(
                f"the loss must be a floating-point tensor, and it is {leaf!r} of type "
                f"{leaf.dtype if hasattr(leaf, 'dtype') else type(leaf).__name__}.\n"
                "Compute it from variables with NumPy's functions, without float() or .numpy()."
            )
