"""The base of all optimizers: one update rule for one array, mapped over variables or containers.

A subclass defines the rule; the base class maps it. For variables (`minimize`, `apply_gradients`) the optimizer keeps
the state; for the pure functions (`init`, `update`) the caller does. Weight decay, skipped steps, schedules and the
saving of state are implemented here.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, overload

import numpy as np

from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor
from fgrad.core.trace import running
from fgrad.core.tree import flatten, tree_map, unflatten
from fgrad.core.variable import Cell, Counter, Variable, recording
from fgrad.debugging.explain import reasons_of_none
from fgrad.errors.hints import missing_attribute
from fgrad.errors.places import depth_of_user
from fgrad.optimizers import inputs
from fgrad.optimizers.declared import NOT_NEGATIVE, Check, declarations, fixed, optimizer_class, varying
from fgrad.optimizers.inputs import Description
from fgrad.optimizers.schedules import ReduceOnPlateau
from fgrad.optimizers.settings import Hyper, Settings, check_hyper, evaluated, known, may_differ
from fgrad.optimizers.states import ByVariable, KeptByVariable, by_name, by_variable, in_form_of, meet
from fgrad.tapes.tape import GradientTape, gradient_of, recording_of, shortened, warn_of_none
from fgrad.typing import Array, ArrayLike, Operand

if TYPE_CHECKING:
    import optree

Slots = dict[str, Any]
"""The state of an update rule for one array, by name."""


class State(NamedTuple):
    """The state of an optimizer on a container of parameters; itself a container.

    Attributes:
        step: the number of updates made.
        slots: by name, a container with the structure of the parameters.
        skipped: the number of updates that were skipped because a gradient was not finite.

    Example:
        >>> import fgrad as fg
        >>> optimizer = fg.optimizers.GradientDescent(0.1)
        >>> params, state = optimizer.update({"w": 1.0}, optimizer.init({"w": 2.0}), {"w": 2.0})
        >>> state
        State(step=1, slots={}, skipped=0)
    """

    step: Any
    slots: dict[str, Any]
    skipped: Any = 0


class OptionalName:
    """The type of `name` for type checkers: None may be assigned, and a string is read."""

    @overload
    def __get__(self, optimizer: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, optimizer: object, owner: Any) -> str: ...
    def __get__(self, optimizer: Any, owner: Any) -> Any: ...
    def __set__(self, optimizer: Any, value: str | None) -> None: ...


@optimizer_class
class Optimizer(KeptByVariable):
    """The base class of the optimizers; a subclass defines `rule`.

    Hyper-parameters may be numbers, arrays, tensors, variables, schedules (called with the number of updates so far) or
    functions without arguments; each is evaluated once per step.

    Gradients are dense arrays: elements that a loss did not use have the gradient 0, and still move if the rule has a
    velocity or a moving average. For complex parameters a gradient is the direction of steepest ascent, and its square
    is the square of its modulus.

    Threads may share an optimizer, and variables: no step of a variable and its slots is lost.

    A pickle or a deep copy keeps the state by the names of the variables, like `state_dict`, and uses it for the
    variables of these names that are updated next.

    Example:
        >>> import fgrad as fg
        >>> class SignDescent(Optimizer):
        ...     def rule(self, gradient, param, slots, hyper):
        ...         return param - hyper.learning_rate * np.sign(gradient), {}
        >>> w = fg.Variable([1.0, -2.0], name="w")
        >>> SignDescent(0.25).minimize(lambda: w * w)
        >>> w
        Variable([ 0.75, -1.75], name='w')
    """

    learning_rate: Hyper = varying("the length of a step", NOT_NEGATIVE)
    weight_decay: Hyper = varying(
        "before the rule, parameters are multiplied by `1 - learning_rate * weight_decay` (decoupled, "
        "https://arxiv.org/abs/1711.05101). PyTorch's optimizers, except for `AdamW`, add `weight_decay * x` to the "
        "gradient instead, as a term `weight_decay / 2 * np.sum(x**2)` of the loss does",
        NOT_NEGATIVE,
        default=0.0,
        kw_only=True,
    )
    decay_mask: Any = fixed(
        "which parameters decay: a function of one of them that returns a boolean, the variables themselves in a list, "
        "or for `update` booleans with the structure of the parameters",
        default=None,
        kw_only=True,
    )
    skip_nonfinite: bool = fixed(
        "skip a step in which a gradient holds an infinity or a NaN: parameters, state and `global_step` are "
        "unchanged, and `skipped` is incremented",
        default=False,
        kw_only=True,
    )
    name: OptionalName = fixed("the name in messages; by default the name of the class", default=None, kw_only=True)

    hyper_names: ClassVar[tuple[str, ...]] = ()
    """The attributes that are hyper-parameters, besides `learning_rate` and `weight_decay`."""

    _called_in_steps: ClassVar[tuple[str, ...]] = ("rule", "initial_slots")
    """The methods of a subclass on which compiled steps depend, besides the parameters."""

    _slot_type: ClassVar[type[Cell]] = Cell
    _tape_type: ClassVar[type[GradientTape]] = GradientTape

    decays: ClassVar[str] = "before the rule"
    """Where weight decay is applied: "before the rule", "in the rule", or "never"."""

    instead_of: ClassVar[Mapping[Check, Check]] = {}
    """Checks that replace those with which parameters are declared."""

    def __post_init__(self) -> None:
        for name, declared in declarations(self):
            if declared.check is not None:
                check = self.instead_of.get(declared.check, declared.check)
                refuse = functools.partial(check_hyper, check) if declared.in_each_step else check.refuse
                refuse(name, getattr(self, name))
        self.name = type(self).__name__ if self.name is None else self.name
        if not self.name:
            raise errors.ParameterError("name must not be empty; omit it for the name of the class.")
        if self.decays == "never" and may_differ(self.weight_decay):
            raise errors.ParameterError(
                f"weight_decay has no effect in {type(self).__name__}, which recomputes parameters from sums of "
                "gradients. Use l2_regularization_strength."
            )
        self._step = 0
        self.skipped = 0
        self._has_warned = False
        self._keep_nothing()

    if not TYPE_CHECKING:  # keep mypy's errors for undefined attributes

        def __getattr__(self, name):
            raise missing_attribute(self, name)

    def __repr__(self) -> str:
        names = ["learning_rate", *self.hyper_names] + ["weight_decay"] * may_differ(self.weight_decay)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    # Defined by a subclass

    def rule(self, gradient: Array, param: Array, slots: Slots, hyper: Settings) -> tuple[Any, Slots]:
        """Return the updated array and slots.

        Both are then cast to the dtypes of the old ones.

        Args:
            gradient: an array of the shape and dtype of `param`.
            param: the array or tensor to update.
            slots: the slots returned by the last step; initially `initial_slots`.
            hyper: the values of the hyper-parameters in this step, such as `hyper.learning_rate`, and `hyper.step`: 1
                for the first update.
        """
        raise NotImplementedError(type(self).__name__)

    def initial_slots(self, param: Array) -> Slots:
        """Return the slots of an array before the first step."""
        return {}

    # One step of one array

    @property
    def slot_names(self) -> list[str]:
        """The names of the slots, sorted."""
        return sorted(self.initial_slots(np.zeros(())))

    def _settings(self, step: Operand, value_of: Callable[[str, Hyper, Any], Any] = evaluated) -> Settings:
        names = ("learning_rate", "weight_decay", *self.hyper_names)
        found = SimpleNamespace(step=step, **{name: value_of(name, getattr(self, name), step - 1) for name in names})
        rate = found.learning_rate
        if isinstance(rate, (float, int, np.ndarray)) and not np.all(np.greater_equal(rate, 0)):
            raise errors.ParameterError(
                f"learning_rate must be 0 or more, and in step {step} of {self.name} it is {rate}."
            )
        return found

    def _stepped(
        self, gradient: Array, param: Array, slots: Slots, hyper: Settings, decays: bool, describe: Description
    ) -> tuple[Any, Slots]:
        """Return an array and its slots after one step."""
        old = param
        if not decays:
            hyper = SimpleNamespace(**{**vars(hyper), "weight_decay": 0.0})
        elif self.decays == "before the rule":
            param = param * (1 - hyper.learning_rate * hyper.weight_decay)
        new, new_slots = self.rule(gradient, param, slots, hyper)
        new_slots = {name: inputs.like(slot, new_slots[name], describe) for name, slot in slots.items()}
        return inputs.like(old, new, describe), new_slots

    def _decaying(self, params: list[Any], treedef: object = None) -> list[bool]:
        """Return which of the parameters are subject to weight decay."""
        mask = self.decay_mask
        if self.decays == "never" or not may_differ(self.weight_decay):
            return [False] * len(params)
        if mask is None:
            return [True] * len(params)
        if callable(mask):
            return [bool(mask(param)) for param in params]
        chosen, outline = flatten(list(mask) if isinstance(mask, (set, frozenset)) else mask)
        if outline == treedef and all(isinstance(each, (bool, np.bool_)) for each in chosen):
            return list(map(bool, chosen))
        if all(isinstance(each, Variable) for each in chosen):
            decaying = [any(each is param for each in chosen) for param in params]
            if any(decaying) or not chosen:
                return decaying
        raise errors.ParameterError(
            "decay_mask must be a function of one parameter that returns a boolean, a list of variables of which "
            f"at least one is updated, or for update() booleans with the structure of the parameters; it is {mask!r}."
        )

    # Pure functions on containers

    def init(self, params: object) -> State:
        """Return the state before the first step.

        Args:
            params: a container of floating-point numbers, arrays or tensors.

        Returns:
            A `State`.

        Raises:
            DtypeError: a TypeError; a parameter is not a floating-point or complex number.

        Example:
            >>> import fgrad as fg
            >>> fg.optimizers.Momentum(0.1, momentum=0.9).init({"w": 2.0})
            State(step=0, slots={'momentum': {'w': Tensor(0.)}}, skipped=0)
        """
        slots = [self.initial_slots(param) for param in inputs.parameters(params)]
        return State(0, self._columns(slots, flatten(params)[1]))

    def update(self, grads: object, state: State, params: object) -> tuple[Any, State]:
        """Return the parameters and the state after one step; the arguments are not changed.

        Args:
            grads: gradients, with the structure of `params`; a parameter whose gradient is None is unchanged.
            state: from `init` or the last `update`.
            params: a container of floating-point numbers, arrays or tensors.

        Returns:
            `(params, state)`.

        Raises:
            ShapeError: a ValueError; a gradient does not have the shape of its parameter.
            DtypeError: a TypeError; a parameter is not a floating-point or complex number.
            StateError: a ValueError; the gradients or the state do not have the structure of the parameters, or the
                state belongs to another optimizer.

        Example:
            >>> import fgrad as fg
            >>> optimizer = fg.optimizers.GradientDescent(0.1)
            >>> params, state = optimizer.update({"w": 1.0}, optimizer.init({"w": 2.0}), {"w": 2.0})
            >>> params
            {'w': Tensor(1.9)}
        """
        leaves, treedef = flatten(params)
        slots = self._rows(state, treedef)
        values = inputs.parameters(params)
        gradients = inputs.matched(treedef, grads, "grads")
        names = [functools.partial(inputs.parameter_name, params, i) for i in range(len(values))]
        for i, gradient in enumerate(gradients):
            if gradient is not None:
                gradients[i] = inputs.fitting(inputs.array(gradient), values[i], names[i])
        finite = self._are_finite(gradients, names)
        if finite is False:
            return unflatten(treedef, map(inputs.tensor, values)), state._replace(skipped=state.skipped + 1)
        if finite is not True:  # a tensor: known when the running transform has ended
            gradients = [None if each is None else np.where(finite, each, 0) for each in gradients]
        hyper = self._settings(_count(state.step) + 1)
        shown = [leaf if isinstance(leaf, Variable) else value for leaf, value in zip(leaves, values, strict=True)]
        new, new_slots = list(values), list(slots)
        for i, decays in enumerate(self._decaying(shown, treedef)):
            if gradients[i] is not None:
                new[i], new_slots[i] = self._stepped(gradients[i], values[i], slots[i], hyper, decays, names[i])
        after = State(hyper.step, self._columns(new_slots, treedef), state.skipped)
        if finite is not True:
            new = [np.where(finite, *each) for each in zip(new, values, strict=True)]
            left_out = state._replace(skipped=state.skipped + 1)
            after = tree_map(functools.partial(np.where, finite), after, left_out)
        return unflatten(treedef, map(inputs.tensor, new)), after

    def _columns(self, slots: list[Slots], treedef: optree.PyTreeSpec) -> dict[str, Any]:
        """Return the slots of all parameters as one container for each name."""
        return {name: unflatten(treedef, [inputs.tensor(each[name]) for each in slots]) for name in self.slot_names}

    def _rows(self, state: State, treedef: optree.PyTreeSpec) -> list[Slots]:
        """Return the containers of a state as the slots of each parameter."""
        slots = getattr(state, "slots", None)
        if not isinstance(slots, dict) or sorted(slots) != self.slot_names:
            held = f"one with the slots {sorted(slots)}" if isinstance(slots, dict) else f"{state!r:.200}"
            raise errors.StateError(
                f"state must be a result of init or update of {type(self).__name__}, with the slots "
                f"{self.slot_names}; it is {held}.\n"
                "The order is update(grads, state, params). A saved state is loaded by fgrad.load(path, "
                "like=optimizer.init(params))."
            )
        columns = {name: inputs.matched(treedef, tree, f"state.slots[{name!r}]") for name, tree in slots.items()}
        count = treedef.num_leaves
        return [{name: inputs.array(column[i]) for name, column in columns.items()} for i in range(count)]

    # On variables

    def compute_gradients(
        self, loss: Callable[[], Any], var_list: Any = None, grad_loss: ArrayLike | None = None
    ) -> list[tuple[Any, Variable]]:
        """Return the gradients of a loss with respect to variables.

        Args:
            loss: a function without arguments; elements of its result are summed.
            var_list: the variables, or one; by default all trainable ones that `loss` reads.
            grad_loss: weights for the elements of the loss.

        Returns:
            A list of pairs `(gradient, variable)`, by default in the order of creation; the gradient is None if the
            loss does not depend on the variable.

        Raises:
            NotCallableError: a TypeError; `loss` is not a function, or takes arguments.
            NoVariablesError: a ValueError; `var_list` is empty.
            StructureError: a TypeError; `var_list` holds something other than variables.
            NoResultError: a ValueError; `loss` returns None.
            OutputError: a TypeError; `loss` returns no tensor, or one of integers.

        Example:
            >>> import fgrad as fg
            >>> w = fg.Variable(3.0, name="w")
            >>> fg.optimizers.GradientDescent(0.1).compute_gradients(lambda: w * w)
            [(Tensor(6.), Variable(3., name='w'))]
        """
        pairs, tape, _ = self._compute(loss, var_list, grad_loss)
        warn_of_none(tape)
        return pairs

    def _compute(
        self, loss: Any, var_list: Any, grad_loss: ArrayLike | None
    ) -> tuple[list[tuple[Any, Variable]], GradientTape, Any]:
        """Return the pairs, and the tape and the loss from which they were computed."""
        if not callable(loss) or type(loss) in BOXES:
            raise errors.NotCallableError(
                "loss must be a function without arguments, so that its operations can be recorded; "
                f"it is {loss!r:.200}. Write minimize(lambda: ...)."
            )
        if var_list is not None:
            var_list = [var_list] if isinstance(var_list, Variable) else list(var_list)
            for each in var_list:
                if not isinstance(each, Variable):
                    raise errors.StructureError(
                        f"var_list must hold variables; it holds {each!r:.200} of type {type(each).__name__}.\n"
                        "Create a variable that the loss reads, fg.Variable(value); for arrays and tensors use "
                        "update(grads, state, params)."
                    )
            if not var_list:
                raise errors.NoVariablesError("No variables to optimize: var_list is empty.")
        before = running.state()
        try:
            with self._tape_type(watch_accessed_variables=var_list is None) as tape:
                tape.watch([v for v in var_list or () if v.dtype.kind in "fc"])
                value = loss()
                if isinstance(value, Variable):
                    value = value.value()  # a read of the variable
        except BaseException as error:
            running.unwind(before)
            if isinstance(error, TypeError):
                inputs.refuse_parameters("loss", loss, errors.NotCallableError)
            raise
        inputs.check_loss(value)
        variables = list(tape.watched_variables() if var_list is None else var_list)
        value = shortened(tape, value) if grad_loss is None else value
        gradients = gradient_of(tape, value, variables, grad_loss)
        return list(zip(gradients, variables, strict=True)), tape, value

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Variable]], global_step: Variable | None = None
    ) -> None:
        """Update variables with gradients, exactly as they are given.

        After an error no variable has changed.

        Args:
            grads_and_vars: pairs `(gradient, variable)`; pairs with None are skipped. A gradient of another dtype is
                cast to that of the variable.
            global_step: a variable that is incremented by 1 afterwards.

        Raises:
            NoGradientsError: a ValueError; no pairs, or every gradient is None.
            ParameterError: a ValueError; `global_step` is not a variable, or is one of the updated variables.
            ShapeError: a ValueError; a gradient does not have the shape of its variable.
            DtypeError: a TypeError; a gradient is complex and its variable real, or one of them is not numeric.
            StructureError: a TypeError; a pair does not hold a variable.

        Example:
            >>> import fgrad as fg
            >>> w = fg.Variable(3.0, name="w")
            >>> fg.optimizers.GradientDescent(0.1).apply_gradients([(10.0, w)])
            >>> w
            Variable(2., name='w')
        """
        pairs = inputs.variable_pairs(grads_and_vars, global_step)
        names = {v: functools.partial(inputs.variable_name, v) for _, v in pairs}
        if recording() is not None:
            self._record([(g, v) for g, v in pairs if g is not None], names, global_step)
            return
        fitting = [(self._fitting(g, v, names[v]), v) for g, v in pairs if g is not None]
        with self._lock:
            if not self._are_finite([gradient for gradient, _ in fitting], [names[v] for _, v in fitting]):
                self.skipped += 1
                return
            self._apply(fitting, names)
            if global_step is not None:
                global_step.assign_add(1)

    def _fitting(self, gradient: Operand, variable: Variable, describe: Description) -> Any:
        """Return the gradient of a variable as `_stepped` takes it."""
        value = inputs.plain(gradient) if recording() is None else inputs.array(gradient)
        return inputs.fitting(value, variable, describe)

    def _are_finite(self, gradients: list[Any], names: Sequence[Description]) -> Any:
        """Return whether the step is made; warn once if its gradients are not finite."""
        if self.skip_nonfinite:
            return inputs.all_finite(gradients)
        if not self._has_warned:
            for gradient, describe in zip(gradients, names, strict=True):
                if isinstance(gradient, np.ndarray) and not inputs.is_finite(gradient):
                    self._has_warned = True
                    warnings.warn(
                        f"{self.name}: the gradient of {describe()} holds an infinity or a nan, and the step makes it "
                        "and the optimizer's state nan. Create the optimizer with skip_nonfinite=True to skip "
                        "such steps; fgrad.debug_nans names the operation that produced the first such value. This "
                        "warning is issued only once.",
                        errors.NonFiniteGradientWarning,
                        stacklevel=depth_of_user(),
                    )
                    break
        return True

    def _apply(self, fitting: list[tuple[Any, Variable]], names: Mapping[Variable, Description]) -> None:
        decays = dict(zip(names, self._decaying(list(names)), strict=True))
        hyper = self._settings(self._step + 1, known)
        gradients: dict[Variable, list[Any]] = {}
        for gradient, v in fitting:
            gradients.setdefault(v, []).append(gradient)
        before = {v: v._shown() for v in gradients}
        slots = self._slots_of(before)

        def stepped(v: Variable, value: Array) -> tuple[Any, Slots]:
            own = slots[v]
            for gradient in gradients[v]:
                value, own = self._stepped(gradient, value, own, hyper, decays[v], names[v])
            return value, own

        # Variables are assigned after all values are computed, so an error changes nothing.
        after = {v: stepped(v, value) for v, value in before.items()}
        for v in after:
            with v.lock:
                if v._shown() is not before[v]:  # another thread has assigned it meanwhile: step from its new value
                    after[v] = stepped(v, v._shown())
                v.assign(v.projected(after[v][0]))
        self._slots = slots | {v: own for v, (_, own) in after.items()}
        self._step += 1

    def _record(
        self, pairs: list[tuple[Any, Variable]], names: Mapping[Variable, Description], global_step: Variable | None
    ) -> None:
        """Record a step in a function that is being recorded: it reads and assigns the optimizer's state."""
        with self._lock:
            self._slots = self._slots_of({v: v._shown() for _, v in pairs})
        fitting = [(self._fitting(g, v, names[v]), v) for g, v in pairs]
        finite = inputs.all_finite(gradient for gradient, _ in fitting) if self.skip_nonfinite else True

        def assign(variable: Variable, new: Array) -> None:
            variable.assign(new if finite is True else np.where(finite, new, variable))

        step = self._counter("_step")
        count = step.value() + 1
        hyper = self._settings(count)
        decays = dict(zip(names, self._decaying(list(names)), strict=True))
        for gradient, v in fitting:
            cells = {name: self._slot_cell(v, name) for name in self._slots[v]}
            own = {name: cell.value() for name, cell in cells.items()}
            new, own = self._stepped(gradient, v.value(), own, hyper, decays[v], names[v])
            assign(v, v.projected(new))
            for name, cell in cells.items():
                assign(cell, own[name])
        assign(step, count)
        if global_step is not None:
            assign(global_step, global_step + 1)
        if finite is not True:
            skipped = self._counter("skipped")
            skipped.assign(np.where(finite, skipped, skipped + 1))

    def _counter(self, name: str) -> Cell:
        return self._cell(name, lambda: getattr(self, name), lambda new: setattr(self, name, int(new)), Counter)

    def _slot_cell(self, variable: Variable, name: str) -> Cell:
        def write(new: Array) -> None:
            self._slots[variable] = {**self._slots[variable], name: new}

        return self._cell((variable, name), lambda: self._slots[variable][name], write, self._slot_type)

    def _cell(self, key: Any, read: Callable[[], Any], write: Callable[[Any], None], kind: type[Cell]) -> Cell:
        with self._lock:
            if key not in self._cells:
                name = key if isinstance(key, str) else f"{key[1]} of {key[0].name}"
                self._cells[key] = kind(read, write, f"{self.name}: {name}", self._lock)
            return self._cells[key]

    def _slots_of(self, values: Mapping[Variable, Any]) -> ByVariable[Slots]:
        """Return all slots, including new ones for variables that are updated for the first time."""
        slots = dict(self._slots)
        for variable in meet(slots, values, self._fits):
            self._check_slots(variable, slots[variable])
        for variable, value in values.items():
            if variable not in slots:
                slots[variable] = self.initial_slots(value)
        return slots

    def minimize(
        self,
        loss: Callable[[], Any],
        global_step: Variable | Sequence[Variable] | None = None,
        var_list: Any = None,
        grad_loss: Any = None,
    ) -> None:
        """Take one step: `compute_gradients`, then `apply_gradients`.

        Args:
            loss, var_list, grad_loss: as for `compute_gradients`.
            global_step: as for `apply_gradients`; or a list of variables, which is taken as `var_list`, so that
                `minimize(loss, [w])` is `minimize(loss, var_list=[w])`.

        Raises:
            ParameterError: a ValueError; `global_step` is not a variable, or is one of the updated variables.
            NoGradientsError: a ValueError; the loss does not depend on any of the variables.
            NotCallableError, NoVariablesError, StructureError, NoResultError, OutputError: as for
                `compute_gradients`.

        Example:
            >>> import fgrad as fg
            >>> w = fg.Variable(3.0, name="w")
            >>> fg.optimizers.GradientDescent(0.1).minimize(lambda: w * w)
            >>> w
            Variable(2.4, name='w')
        """
        if var_list is None and isinstance(global_step, (list, tuple)):
            global_step, var_list = None, global_step
        pairs, tape, value = self._compute(loss, var_list, grad_loss)
        if all(gradient is None for gradient, _ in pairs):
            if not pairs:
                inputs.refuse_integers(recording_of(tape).watch.of_integers)
            names = inputs.names_of(pairs) or "any of the trainable variables"
            variables = [variable for _, variable in pairs]
            reasons = reasons_of_none(tape, value, variables)
            raise errors.NoGradientsError(
                f"No gradients provided for any variable: the loss does not depend on {names}.{reasons}\n"
                "Compute the loss from trainable variables, w = fg.Variable(value), inside the function, with NumPy's "
                "functions."
            )
        warn_of_none(tape)
        self.apply_gradients(pairs, global_step)  # type: ignore[arg-type]  # which looks at what it is

    # State

    @property
    def iterations(self) -> int:
        """The number of updates of variables that have been made; in a recorded function, a tensor."""
        return self._step if recording() is None else self._counter("_step").value()  # type: ignore[return-value]

    def get_slot(self, variable: Variable, name: str) -> Any:
        """Return a copy of a slot of a variable, or None if there is none. In a recorded function it is a tensor.

        Args:
            variable: a variable that has been updated, or has loaded state.
            name: the name of the slot, one of `get_slot_names`.

        Returns:
            An array, usually of the variable's shape.

        Raises:
            StateError: a ValueError; a function that is being recorded asks for a slot that does not exist yet.

        Example:
            >>> import fgrad as fg
            >>> w = fg.Variable(3.0, name="w")
            >>> optimizer = fg.optimizers.Momentum(0.1, momentum=0.9)
            >>> optimizer.apply_gradients([(2.0, w)])
            >>> print(optimizer.get_slot(w, "momentum"))
            2.0
        """
        slot = self._slots.get(variable, {}).get(name)
        if recording() is None or (slot is None and name not in self.slot_names):
            return None if slot is None else np.array(slot)
        if slot is None:
            raise errors.StateError(
                f"a function that is being recorded asks for the slot {name!r} of variable {variable.name!r}, which "
                "there is only after the first step.\nMake a step before the function is compiled."
            )
        return self._slot_cell(variable, name).value()

    def get_slot_names(self) -> list[str]:
        """Return the names of the existing slots, sorted; empty before the first step."""
        return self.slot_names if self._slots else []

    def variables(self) -> list[Any]:
        """Return copies of the optimizer's state, as one list.

        Returns:
            The number of updates, and then the slots of each variable, with variables in the order of their first
            update and slots in the order of `get_slot_names`.
        """
        with self._lock:
            slots = [np.array(slots[name]) for slots in self._slots.values() for name in self.slot_names]
            return [np.array(self._step), *slots]

    def fresh(self) -> Self:
        """Return a copy of this optimizer in its initial state.

        Hyper-parameters that change, such as variables, are shared.
        """
        twin = copy.copy(self)
        twin._step, twin._slots, twin.skipped, twin._has_warned = 0, {}, 0, False
        return twin

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizer's state, as containers of numbers and arrays, ready for `fgrad.save`.

        Returns:
            A dict: "optimizer" is the name of the class, "step" and "skipped" are counts, "slots" maps the name of each
            variable to a dict of arrays, and "schedules" holds the state of hyper-parameters that have one, such as
            `ReduceOnPlateau`. The second of two variables with the same name is `name_1`.

        Example:
            >>> import fgrad as fg
            >>> w = fg.Variable(3.0, name="w")
            >>> optimizer = fg.optimizers.Momentum(0.1, momentum=0.9)
            >>> optimizer.apply_gradients([(2.0, w)])
            >>> state = optimizer.state_dict()
            >>> state["step"], state["slots"]
            (1, {'w': {'momentum': array(2.)}})
        """
        with self._lock:  # the slots and the number of the same step
            own = by_name(self._slots)
            return {
                "optimizer": type(self).__name__,
                "step": self._step,
                "skipped": self.skipped,
                "slots": {name: {key: np.array(slot) for key, slot in slots.items()} for name, slots in own.items()},
                "schedules": {name: schedule.state_dict() for name, schedule in self._with_state().items()},
            }

    def load_state_dict(self, state: Mapping[str, Any], var_list: Iterable[Variable] | None = None) -> None:
        """Restore the state from a result of `state_dict`.

        Slots are matched with variables by name, and variables with equal names by their order. Slots of variables that
        the optimizer has not updated yet are kept until a variable of that name is updated. Slots of unnamed variables,
        whose default names are numbered throughout the process, are assigned to as many unnamed variables by position,
        if the shapes match; a `StateWarning` lists them.

        Args:
            state: a result of `state_dict`.
            var_list: variables to match now; by default those that have been updated.

        Raises:
            StateError: a ValueError; the state belongs to another optimizer, or a slot does not have the shape that its
                variable needs. In this case nothing has changed.

        Example:
            >>> import fgrad as fg
            >>> optimizer = fg.optimizers.Momentum(0.1, momentum=0.9)
            >>> optimizer.load_state_dict({"step": 1, "slots": {"w": {"momentum": 2.0}}})
            >>> w = fg.Variable(2.8, name="w")
            >>> optimizer.apply_gradients([(2.0, w)])
            >>> print(optimizer.get_slot(w, "momentum"))
            3.8
        """
        saved = self._checked_state(state)
        if var_list is None:
            var_list = [key for key in self._slots if isinstance(key, Variable)]
        slots = by_variable(saved, [var_list] if isinstance(var_list, Variable) else var_list, self._fits)
        for key, own in slots.items():
            if isinstance(key, Variable):
                self._check_slots(key, own)
        schedules, loaded = self._with_state(), state.get("schedules", {})
        if set(schedules) != set(loaded):
            raise errors.StateError(
                f"the state is of an optimizer whose hyper-parameters with a state of their own are {sorted(loaded)}; "
                f"here they are {sorted(schedules)}."
            )
        step, skipped = _count(state["step"]), int(state.get("skipped", 0))
        for name, schedule in schedules.items():
            copy.copy(schedule).load_state_dict(loaded[name])  # an error comes before anything has changed
        with self._lock:
            for name, schedule in schedules.items():
                schedule.load_state_dict(loaded[name])
            self._slots, self._step, self.skipped = slots, step, skipped

    def _with_state(self) -> dict[str, Any]:
        """Return the hyper-parameters that have state."""
        hypers = {name: getattr(self, name) for name in ("learning_rate", "weight_decay", *self.hyper_names)}
        return {name: hyper for name, hyper in hypers.items() if isinstance(hyper, ReduceOnPlateau)}

    def _checked_state(self, state: Mapping[str, Any]) -> dict[str, Slots]:
        """Return the slots of a saved state as arrays."""
        if not (isinstance(state, Mapping) and isinstance(state.get("slots"), Mapping) and "step" in state):
            raise errors.StateError(f"the state must be a result of state_dict(); it is {state!r:.200}.")
        kind = type(self).__name__
        if state.get("optimizer", kind) != kind:
            raise errors.StateError(f"the state is that of the optimizer {state['optimizer']}, and this is {kind}.")
        for name, own in state["slots"].items():
            if sorted(own) != self.slot_names:
                raise errors.StateError(
                    f"the state of variable {name!r} has the slots {sorted(own)}, and {kind} has {self.slot_names}."
                )
        return {name: {key: inputs.plain(slot) for key, slot in own.items()} for name, own in state["slots"].items()}

    def _fits(self, variable: Variable, slots: Slots) -> bool:
        """Return whether slots have the shapes that a variable needs."""
        expected = self.initial_slots(variable._shown())
        return all(np.shape(slots[name]) == np.shape(slot) for name, slot in expected.items())

    def _check_slots(self, variable: Variable, slots: Slots) -> None:
        """Convert loaded slots to the dtypes that a variable needs."""
        for name, expected in self.initial_slots(variable._shown()).items():
            slots[name] = in_form_of(expected, slots[name], f"slot {name!r} of variable {variable.name!r}")


def _count(step: Any) -> Any:
    """Return a number of updates as an integer, or as a tensor that stands for one."""
    step = inputs.array(step)
    if step.shape or step.dtype.kind not in "iu":
        raise errors.StateError(
            f"the step of a state must be one integer, and it has shape {step.shape} and dtype {step.dtype}.\n"
            "A state returned by vmap holds several: continue with it inside vmap."
        )
    return step if type(step) is Tensor else int(step)
