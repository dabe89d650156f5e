"""`tf.train`: optimizers, learning-rate decay and moving averages by TensorFlow 1's names.

In eager mode an optimizer is fgrad's own. In a graph, `compute_gradients` returns pairs of a graph tensor and
a variable, and `apply_gradients` an operation: when a session runs it, the session's own copy of the
optimizer receives the values of the gradients.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from fgrad import errors, optimizers
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.convert import convert
from fgrad.compat.deferred.graph import (
    Convertible,
    GraphTensor,
    Node,
    Operation,
    Symbol,
    as_node,
    default_graph,
    holds_symbol,
    operation,
)
from fgrad.compat.deferred.state import GraphVariable, as_symbol, group
from fgrad.compat.deferred.symbolic import gradients
from fgrad.compat.tensorflow.arguments import is_deferred
from fgrad.compat.tensorflow.arrays import zeros_like
from fgrad.compat.tensorflow.checkpoints import CheckpointState as CheckpointState
from fgrad.compat.tensorflow.checkpoints import Saver as Saver
from fgrad.compat.tensorflow.checkpoints import checkpoint_exists as checkpoint_exists
from fgrad.compat.tensorflow.checkpoints import get_checkpoint_state as get_checkpoint_state
from fgrad.compat.tensorflow.checkpoints import latest_checkpoint as latest_checkpoint
from fgrad.compat.tensorflow.checkpoints import update_checkpoint_state as update_checkpoint_state
from fgrad.compat.tensorflow.gradient import GradientTape
from fgrad.compat.tensorflow.hooks import Hooks, Pairs
from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.random import random_normal
from fgrad.compat.tensorflow.slots import (
    Power,
    Rows,
    Slot,
    SlotVariable,
    average_variable,
    power_variable,
    rows_of,
    with_rows,
)
from fgrad.compat.tensorflow.variables import (
    GraphKeys,
    IndexedSlices,
    Variable,
    get_variable_scope,
    global_variables,
    moving_average_variables,
    trainable_variables,
)
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor
from fgrad.core.tree import flatten, tree_map
from fgrad.core.variable import Cell
from fgrad.core.variable import Variable as NativeVariable
from fgrad.optimizers import schedules
from fgrad.optimizers.declared import FRACTION, SHARE, Check, declarations
from fgrad.optimizers.inputs import variable_pairs
from fgrad.typing import Array, Operand

__all__ = [
    "AdadeltaOptimizer", "AdagradDAOptimizer", "AdagradOptimizer", "AdamOptimizer", "CheckpointState",
    "ExponentialMovingAverage", "FtrlOptimizer", "GradientDescentOptimizer", "MomentumOptimizer", "Optimizer",
    "ProximalAdagradOptimizer", "ProximalGradientDescentOptimizer", "RMSPropOptimizer", "Saver",
    "checkpoint_exists", "cosine_decay", "cosine_decay_restarts", "create_global_step", "exponential_decay",
    "get_checkpoint_state", "get_global_step", "get_or_create_global_step", "inverse_time_decay",
    "latest_checkpoint", "linear_cosine_decay", "natural_exp_decay", "noisy_linear_cosine_decay",
    "piecewise_constant", "piecewise_constant_decay", "polynomial_decay", "update_checkpoint_state",
]  # fmt: skip

__dir__ = __all__.copy


class FromRun:
    """A hyper-parameter that is a graph tensor: a function that returns its value in the current run."""

    def __init__(self, symbol: Convertible) -> None:
        self.node: Node = as_node(symbol)
        self.value: Any = None

    def __call__(self) -> Any:
        return self.value


class Optimizer(Hooks, optimizers.Optimizer):
    """The base class of optimizers, in eager mode and in graphs.

    A subclass defines `_apply_dense(grad, var)` or `_resource_apply_dense(grad, var)`, which updates one variable. It
    may define `_create_slots(var_list)`, which creates state by `self._zeros_slot(var, slot_name, self._name)`,
    `_prepare()`, and `_finish(update_ops, name_scope)`. A gradient of selected rows is passed with all rows.

    Args:
        use_locking: ignored.
        name: the name, also of the operation in a graph.

    Raises:
        ParameterError: a ValueError; the name is empty.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> class Sum(tf.train.Optimizer):
        ...     def __init__(self, rate):
        ...         super().__init__(use_locking=False, name="Sum")
        ...         self._rate = rate
        ...
        ...     def _create_slots(self, var_list):
        ...         for variable in var_list:
        ...             self._zeros_slot(variable, "total", self._name)
        ...
        ...     def _apply_dense(self, grad, var):
        ...         total = self.get_slot(var, "total").assign_add(grad)
        ...         return var.assign_sub(self._rate * total)
        >>> w = tf.Variable(1.0)
        >>> optimizer = Sum(0.25)
        >>> for _ in range(2):
        ...     optimizer.minimize(lambda: w * w)
        >>> float(w)
        -0.25
    """

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2

    _tape_type = GradientTape

    def __init__(self, use_locking: bool, name: str) -> None:
        super().__init__(0.0, name=name)
        self._begin(use_locking)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    def compute_gradients(  # type: ignore[override]
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Convertible | None = None,
    ) -> list[tuple[Any, Any]]:
        """Return pairs of a gradient, or None, and a variable.

        Args:
            loss: a function without arguments; in a graph also a tensor. Its elements are summed.
            var_list: the variables, or one, also tensors; by default all trainable ones, or for a function those that
                it reads.
            gate_gradients, aggregation_method, colocate_gradients_with_ops: ignored.
            grad_loss: weights for the elements of the loss.

        Raises:
            ParameterError: a ValueError; `gate_gradients` is invalid.
            TapeError: a RuntimeError; in eager mode, the loss is a tensor.
            NoVariablesError: a ValueError; there are no variables.
            NotCallableError: a TypeError; the loss is neither a function nor a graph tensor.
            NoResultError: a ValueError; the function returns None.
            OutputError: a TypeError and ValueError; the loss is not a floating-point number.
        """
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise errors.ParameterError(
                "gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH. "
                f"Not {gate_gradients}"
            )
        if not isinstance(loss, Symbol):
            if type(loss) in BOXES:
                raise errors.TapeError(
                    "`loss` passed to Optimizer.compute_gradients should be a function when eager execution is "
                    "enabled: how a tensor was computed is not recorded. Write minimize(lambda: ...)."
                )
            if _is_for_tape(var_list):
                return _by_tape(loss, var_list, grad_loss)
            try:
                return super().compute_gradients(_eager(loss), var_list, grad_loss)
            except _OfGraphError:
                return _by_tape(loss, var_list, grad_loss)
        _check_loss(loss)
        variables = _variables(var_list)
        return list(zip(gradients(loss, variables, grad_loss), variables, strict=True))

    def apply_gradients(  # type: ignore[override]
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Convertible | None = None, name: str | None = None
    ) -> Operation | None:
        """Update variables with gradients: immediately, or in a graph when the returned operation runs.

        Args:
            grads_and_vars: pairs `(gradient, variable)`; pairs with None are skipped. A gradient may be
                `tf.IndexedSlices`: then, except for `AdamOptimizer`, other rows and their
                state are not changed.
            global_step: a variable that is then incremented by 1.
            name: the name of the operation.

        Raises:
            NoGradientsError: a ValueError; no pairs, or every gradient is None.
            UpdateError: a NotImplementedError; a pair contains a tensor instead of a variable.
        """
        pairs = list(grads_and_vars)
        for each in pairs:
            _check_updatable(each)
        if not any(isinstance(variable, Symbol) for _, variable in pairs):
            variable_pairs(pairs, global_step)
        elif all(gradient is None for gradient, _ in pairs):
            names = [variable.name for _, variable in pairs]
            raise errors.NoGradientsError(f"No gradients provided for any variable: {names}.")
        return self._applied(pairs, global_step, name)

    def minimize(  # type: ignore[override]
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation | None:
        """Take one step: `compute_gradients`, then `apply_gradients`; in a graph, return the operation."""
        if callable(loss) and not _is_for_tape(var_list):
            with contextlib.suppress(_OfGraphError):
                super().minimize(_eager(loss), global_step, var_list, grad_loss)
                return None
        pairs = self.compute_gradients(loss, var_list, gate_gradients, grad_loss=grad_loss)
        if all(gradient is None for gradient, _ in pairs):
            raise errors.NoGradientsError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients, "
                f"between variables {[getattr(variable, 'name', variable) for _, variable in pairs]} and loss {loss!r}."
            )
        return self.apply_gradients(pairs, global_step, name)

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def state_dict(self) -> dict[str, Any]:
        """Raise an error: the state is in variables, which are saved like others."""
        raise errors.StateError(
            f"{type(self).__name__} holds its state in variables: save those of its method variables(), "
            "or in a graph all, with tf.train.Saver."
        )


class RuleOptimizer(Optimizer):
    """The base of `tf.train`'s own optimizers: fgrad's, with support for graphs."""

    powers: ClassVar[tuple[str, ...]] = ()
    """The hyper-parameters whose powers are part of the state."""

    moves_all_rows: ClassVar[bool] = False
    """Whether a gradient of selected rows also changes other rows."""

    _slot_type: ClassVar[type[Cell]] = SlotVariable
    instead_of: ClassVar[Mapping[Check, Check]] = {FRACTION: SHARE}

    __repr__ = optimizers.Optimizer.__repr__
    state_dict = optimizers.Optimizer.state_dict

    def __init__(self, *args: Any, use_locking: bool = False, **keywords: Any) -> None:
        super(Optimizer, self).__init__(*args, **keywords)
        self._begin(use_locking)
        self._slot_nodes: dict[GraphVariable, dict[str, Slot]] = {}
        self._power_nodes: dict[Any, list[Power]] = {}

    def __post_init__(self) -> None:
        for name, declared in declarations(self):
            value = getattr(self, name)
            if declared.in_each_step and isinstance(value, Symbol):
                setattr(self, name, FromRun(value))
        super().__post_init__()

    def _applied(self, pairs: Pairs, global_step: Any, name: str | None) -> Operation | None:
        if not any(isinstance(variable, Symbol) for _, variable in pairs):
            super(Optimizer, self).apply_gradients(pairs, global_step)
            return None
        step = self._update(pairs, global_step, name or self.name)
        step.graph.add_to_collection(GraphKeys.TRAIN_OP, step)
        return step

    def _update(self, pairs: Pairs, global_step: Convertible | None, name: str) -> Operation:
        """Return the operation that applies gradients in the session that runs it."""
        updates = [(_deferred(g, v), v) for g, v in pairs if g is not None]
        names, known = list(self.initial_slots(np.zeros(()))), self._slot_nodes
        new = {v: {name: Slot(self, v, name) for name in names} for _, v in updates if v not in known}
        self._slot_nodes = {**new, **known}
        hypers = [each for each in vars(self).values() if isinstance(each, FromRun)]

        def update(run: Any) -> None:
            for hyper in hypers:
                hyper.value = run.values[hyper.node]
            held = [
                (tree_map(run.values.__getitem__, gradient), run.session.variable(variable))
                for gradient, variable in updates
            ]
            step = None if global_step is None else run.session.variable(global_step)
            self.in_session(run).apply_gradients(held, step)

        graph = updates[0][1].graph
        if self not in graph.optimizers:
            graph.optimizers.append(self)
        inputs = [*flatten([gradient for gradient, _ in updates])[0], *(hyper.node for hyper in hypers)]
        constrained = [v for v in dict.fromkeys(v for _, v in updates) if v.constraint is not None]
        step = Operation(f"{name}/update" if constrained else name, update, inputs, graph)
        return _projected(step, constrained, name) if constrained else step

    def in_session(self, run: Any) -> Any:
        """Return the copy of the optimizer in the session of a run."""
        held = run.session.optimizers
        if self not in held:
            held[self] = self.fresh()
        return held[self]

    # Gradients of selected rows

    def _fitting(self, gradient: Any, variable: Any, describe: Any) -> Any:
        if not isinstance(gradient, IndexedSlices):
            return super()._fitting(gradient, variable, describe)
        rows = rows_of(gradient, variable, describe)
        return rows.dense() if self.moves_all_rows else rows

    def _stepped(
        self, gradient: Any, param: Array, slots: dict[str, Any], hyper: Any, decays: bool, describe: Callable[..., Any]
    ) -> Any:
        if not isinstance(gradient, Rows):
            return super()._stepped(gradient, param, slots, hyper, decays, describe)
        rows = gradient.numbers
        own = {name: slot[rows] for name, slot in slots.items()}
        new, found = super()._stepped(gradient.values, param[rows], own, hyper, decays, describe)
        return with_rows(param, rows, new), {name: with_rows(slot, rows, found[name]) for name, slot in slots.items()}

    # State

    def live_slot(self, variable: Any, name: str) -> Any:
        """Return the state for a variable that is not in a graph, initialized before the first step."""
        with self._lock:
            self._slots = self._slots_of({variable: variable._shown()})
        return self._slot_cell(variable, name)

    def _slot_cell(self, variable: Any, name: str) -> Any:
        cell = super()._slot_cell(variable, name)
        place = list(self._slots[variable]).index(name)
        cell.name = f"{variable.name.removesuffix(':0')}/{self.name}{f'_{place}' if place else ''}:0"
        return cell

    def get_slot(self, var: Any, name: str) -> Any:
        """Return the state for a variable under a name, or None.

        It is a variable that the optimizer uses; in a graph, a tensor with the same methods.
        """
        if isinstance(var, GraphVariable):
            return self._slot_nodes.get(var, {}).get(name)
        return self._slot_cell(var, name) if name in self._slots.get(var, {}) else None

    def get_slot_names(self) -> list[str]:
        """Return the names of the states, sorted; none before gradients were applied."""
        return self.slot_names if self._slot_nodes or self._slots else []

    def variables(self) -> list[Any]:
        """Return the states for all variables, sorted by name; in a graph, for the variables of this graph."""
        if mode.is_deferring() or not self._live():
            graph = default_graph()
            own = [slots for variable, slots in self._slot_nodes.items() if variable.graph is graph]
            found = [*(slot for slots in own for slot in slots.values()), *(self._powers_in(graph) if own else ())]
        else:
            found = [self.get_slot(variable, name) for variable in self._live() for name in self._slots[variable]]
            found += [self._power(beta) for beta in self.powers if found]
        return sorted(found, key=lambda each: str(each.name))

    def _all_powers(self) -> list[Any]:
        """Return the powers that correct the next step, also before the first one."""
        if mode.is_deferring() or not self._live():
            return self._powers_in(default_graph()) if self._slot_nodes else [None] * len(self.powers)
        return [self._power(beta) for beta in self.powers]

    def _live(self) -> list[Any]:
        return [key for key in self._slots if isinstance(key, NativeVariable)]

    def _power(self, beta: str) -> Any:
        if beta not in self._cells:
            self._cells[beta] = power_variable(self, beta)
        return self._cells[beta]

    def _powers_in(self, graph: Any) -> list[Power]:
        if graph not in self._power_nodes:
            hypers = {beta: getattr(self, beta) for beta in self.powers}
            nodes = {beta: hyper.node if isinstance(hyper, FromRun) else None for beta, hyper in hypers.items()}
            made = [Power(self, graph, beta, node) for beta, node in nodes.items()]
            self._power_nodes = {**self._power_nodes, graph: made}
        return self._power_nodes[graph]


class _OfGraphError(Exception):
    """The loss is a graph tensor."""


def _eager(loss: Any) -> Any:
    """Return a loss function that raises if it belongs to a graph, which may only be visible in its result."""
    if not callable(loss):
        return loss

    @functools.wraps(loss, updated=())
    def eager(*args: object, **keywords: object) -> Any:
        value = loss(*args, **keywords)
        if isinstance(value, Symbol):
            raise _OfGraphError
        return value

    return eager


def _is_for_tape(var_list: object) -> bool:
    """Return whether gradients of a function are those of a graph, or with respect to tensors."""
    given = var_list if isinstance(var_list, (list, tuple)) else [var_list]
    return mode.is_deferring() or any(type(each) is Tensor or isinstance(each, Symbol) for each in given)


def _by_tape(loss: object, var_list: object, grad_loss: Convertible | None) -> list[tuple[Any, Any]]:
    """Return pairs of gradients of a function and their variables or tensors."""
    if not callable(loss):
        raise errors.NotCallableError(
            f"loss must be a graph tensor or a function without arguments that returns one, but it is {loss!r:.200}."
        )
    if var_list is not None:
        var_list = list(var_list) if isinstance(var_list, (list, tuple)) else [var_list]
    with GradientTape() as tape:
        tape.watch(var_list or [])
        value = loss()
    if value is None:
        raise errors.NoResultError("the loss function returned None; did you forget to return a value?")
    if isinstance(value, Symbol):
        _check_loss(value)
    sources = list(tape.watched_variables()) if var_list is None else var_list
    return list(zip(tape.gradient(value, sources, grad_loss), sources, strict=True))


def _check_updatable(pair: tuple[Any, ...]) -> None:
    """Raise if the second element of a pair is a tensor."""
    variable = pair[1] if isinstance(pair, (tuple, list)) and len(pair) == 2 else None
    if type(variable) is Tensor or (isinstance(variable, Symbol) and not isinstance(variable, GraphVariable)):
        raise errors.UpdateError(f"Trying to update a Tensor {variable!r}: gradients are applied to variables.")


def _deferred(gradient: Convertible, variable: GraphVariable) -> Any:
    """Return a gradient as a tensor of the variable's graph, or as slices of such tensors."""
    if isinstance(gradient, IndexedSlices):
        values, indices = _deferred(gradient.values, variable), as_symbol(gradient.indices, None, variable.graph)
        return IndexedSlices(values, indices)
    return as_symbol(gradient, variable.dtype, variable.graph)


def _projected(step: Operation, constrained: Sequence[GraphVariable], name: str) -> Operation:
    """Return the operation that takes a step, and then applies the constraints of variables."""
    with mode.block(step.graph), step.graph.control_dependencies([step]):
        projections = [v.assign(v.constraint(v.read_value())) for v in constrained if v.constraint is not None]
    return group(step, *projections, name=name)  # type: ignore[no-any-return]


def _check_loss(loss: Any) -> None:
    dtype = as_node(loss).dtype
    if dtype is not None and dtype.kind not in "fc":
        raise errors.DtypeError(
            f"Invalid type {dtype} for {loss.name}, expected: [float32, float64, float16]. Use tf.cast."
        )


def _variables(var_list: object) -> list[Any]:
    if var_list is None:
        with mode.block(default_graph()):
            var_list = trainable_variables()
    variables = list(var_list) if isinstance(var_list, (list, tuple)) else [var_list]
    if not variables:
        raise errors.NoVariablesError("No variables to optimize: the graph has no trainable variables.")
    return variables


# The optimizers


class GradientDescentOptimizer(RuleOptimizer, optimizers.GradientDescent):
    """See `fgrad.optimizers.GradientDescent`."""

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(learning_rate, name=name)


class MomentumOptimizer(RuleOptimizer, optimizers.Momentum):
    """See `fgrad.optimizers.Momentum`."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: float,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(learning_rate, momentum, use_nesterov, name=name)


class AdagradOptimizer(RuleOptimizer, optimizers.Adagrad):
    """See `fgrad.optimizers.Adagrad`."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        super().__init__(learning_rate, initial_accumulator_value, name=name)


class AdagradDAOptimizer(RuleOptimizer, optimizers.AdagradDA):
    """See `fgrad.optimizers.AdagradDA`. In a graph it has its own update counter."""

    def __init__(
        self,
        learning_rate: Any,
        global_step: Convertible,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        super().__init__(
            learning_rate,
            None if isinstance(global_step, Symbol) else global_step,
            initial_gradient_squared_accumulator_value,
            l1_regularization_strength,
            l2_regularization_strength,
            name=name,
        )


class AdadeltaOptimizer(RuleOptimizer, optimizers.Adadelta):
    """See `fgrad.optimizers.Adadelta`."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(learning_rate, rho, epsilon, name=name)


class RMSPropOptimizer(RuleOptimizer, optimizers.RMSProp):
    """See `fgrad.optimizers.RMSProp`."""

    def __init__(
        self,
        learning_rate: Any,
        decay: float = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(learning_rate, decay, momentum, epsilon, centered, name=name)


class AdamOptimizer(RuleOptimizer, optimizers.Adam):
    """See `fgrad.optimizers.Adam`."""

    powers = ("beta1", "beta2")
    moves_all_rows = True

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Convertible = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, name=name)

    def _get_beta_accumulators(self) -> tuple[Any, ...]:
        """Return the powers of beta1 and beta2 that correct the next step; None before the first one."""
        return tuple(self._all_powers())


class FtrlOptimizer(RuleOptimizer, optimizers.Ftrl):
    """See `fgrad.optimizers.Ftrl`."""

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            learning_rate_power,
            initial_accumulator_value,
            l1_regularization_strength,
            l2_regularization_strength,
            l2_shrinkage_regularization_strength,
            beta,
            name=name,
        )


class ProximalGradientDescentOptimizer(RuleOptimizer, optimizers.ProximalGradientDescent):
    """See `fgrad.optimizers.ProximalGradientDescent`."""

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(learning_rate, l1_regularization_strength, l2_regularization_strength, name=name)


class ProximalAdagradOptimizer(RuleOptimizer, optimizers.ProximalAdagrad):
    """See `fgrad.optimizers.ProximalAdagrad`."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        super().__init__(
            learning_rate, initial_accumulator_value, l1_regularization_strength, l2_regularization_strength, name=name
        )


# Learning-rate decay


_PIECEWISE = schedules.PiecewiseConstantDecay


def _dtype_of_rates(rates: Any, otherwise: Any) -> Any:
    """Return the dtype of learning rates that are tensors or arrays; numbers of Python have none."""
    dtypes = [getattr(rate, "dtype", None) for rate in (rates if isinstance(rates, (list, tuple)) else [rates])]
    is_known = all(dtype is not None and np.issubdtype(dtype, np.floating) for dtype in dtypes)
    return np.result_type(*dtypes) if is_known else otherwise


def _decayed(schedule: Any, name: str | None, learning_rate: Any, global_step: Any, *rest: Any) -> Any:
    """Return the rate at a step: in a graph a tensor, in eager mode a function that reads the step in each call."""

    def rate(learning_rate: Any, step: Any, *rest: Any) -> Array:
        found = np.asarray(schedule(learning_rate, *rest)(step))
        return found.astype(_dtype_of_rates(rest[0] if schedule is _PIECEWISE else learning_rate, found.dtype))

    if not is_deferred(learning_rate, global_step, *rest):
        return lambda: rate(learning_rate, global_step, *rest)
    return operation(schedule.__name__)(rate)(learning_rate, global_step, *rest, name=name)


def exponential_decay(
    learning_rate: Any,
    global_step: Convertible,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """Return a rate that decays by a factor; see `fgrad.optimizers.schedules.ExponentialDecay`."""
    return _decayed(schedules.ExponentialDecay, name, learning_rate, global_step, decay_steps, decay_rate, staircase)


def natural_exp_decay(
    learning_rate: Any,
    global_step: Convertible,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """Return a rate that decays by powers of e; see `fgrad.optimizers.schedules.NaturalExpDecay`."""
    return _decayed(schedules.NaturalExpDecay, name, learning_rate, global_step, decay_steps, decay_rate, staircase)


def inverse_time_decay(
    learning_rate: Any,
    global_step: Convertible,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """Return a rate divided by a growing number; see `fgrad.optimizers.schedules.InverseTimeDecay`."""
    return _decayed(schedules.InverseTimeDecay, name, learning_rate, global_step, decay_steps, decay_rate, staircase)


def polynomial_decay(
    learning_rate: Any,
    global_step: Convertible,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Any:
    """Return a rate that decreases to a final value; see `fgrad.optimizers.schedules.PolynomialDecay`."""
    return _decayed(
        schedules.PolynomialDecay, name, learning_rate, global_step, decay_steps, end_learning_rate, power, cycle
    )


def piecewise_constant(x: Convertible, boundaries: Any, values: Any, name: str | None = None) -> Any:
    """Return the value of the interval of a step; see `fgrad.optimizers.schedules.PiecewiseConstantDecay`.

    Raises:
        ParameterError: a ValueError; the values differ in dtype, or a boundary has another dtype than the step.
    """
    if isinstance(values, (list, tuple)):
        _check_equal_dtypes("values", values, values[:1])
    if isinstance(boundaries, (list, tuple)):
        _check_equal_dtypes("boundaries", boundaries, [x])
    return _decayed(schedules.PiecewiseConstantDecay, name, boundaries, x, values)


piecewise_constant_decay = piecewise_constant


def _check_equal_dtypes(name: str, given: Sequence[Any], like: Sequence[Any]) -> None:
    """Raise unless values have the dtype of another one; integers may have fewer bits."""
    (wanted,) = [_dtype_of(each) for each in like] or [None]
    for each in given:
        dtype = _dtype_of(each)
        are_known = wanted is not None and dtype is not None  # NumPy's float64 is equal to None
        if are_known and dtype != wanted and not (dtype.kind == wanted.kind == "i"):
            raise errors.ParameterError(
                f"{name} has an element of dtype {dtype}, {each!r}, where {wanted} is needed: the values of "
                f"piecewise_constant have one dtype, and the boundaries that of the step. Write {wanted}s."
            )


def _dtype_of(x: Any) -> Any:
    """Return the dtype of a value as a tensor, None if it is unknown."""
    x = x() if callable(x) and not hasattr(x, "dtype") else x
    return x.dtype if hasattr(x, "dtype") else convert(x).dtype


def cosine_decay(
    learning_rate: Any, global_step: Convertible, decay_steps: Any, alpha: Any = 0.0, name: str | None = None
) -> Any:
    """Return a rate that decreases along half a cosine; see `fgrad.optimizers.schedules.CosineDecay`."""
    return _decayed(schedules.CosineDecay, name, learning_rate, global_step, decay_steps, alpha)


def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Convertible,
    first_decay_steps: Any,
    t_mul: Any = 2.0,
    m_mul: Any = 1.0,
    alpha: Any = 0.0,
    name: str | None = None,
) -> Any:
    """Return a rate that decreases and restarts; see `fgrad.optimizers.schedules.CosineDecayRestarts`."""
    return _decayed(
        schedules.CosineDecayRestarts, name, learning_rate, global_step, first_decay_steps, t_mul, m_mul, alpha
    )


def linear_cosine_decay(
    learning_rate: Any,
    global_step: Convertible,
    decay_steps: Any,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Any:
    """Return a rate that is a line times a cosine; see `fgrad.optimizers.schedules.LinearCosineDecay`."""
    return _decayed(
        schedules.LinearCosineDecay, name, learning_rate, global_step, decay_steps, num_periods, alpha, beta
    )


def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: Any = 1.0,
    variance_decay: Any = 0.55,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Any:
    """Return a rate that is a line with random noise, times a cosine; see `linear_cosine_decay`.

    Args:
        learning_rate: the first rate, without noise.
        global_step: the number of the step.
        decay_steps: the number of steps until the line is 0.
        initial_variance: the variance of the noise at the step 0.
        variance_decay: the variance is divided by the number of the step, counted from 1, to this power.
        num_periods: the number of periods of the cosine in `decay_steps`.
        alpha, beta: the rate is `learning_rate * ((alpha + line + noise) * cosine + beta)`.
    """
    rest = (decay_steps, initial_variance, variance_decay, num_periods, alpha, beta)
    if is_deferred(learning_rate, global_step, *rest):
        return _noisy(learning_rate, global_step, random_normal([]), *rest, name=name)
    return lambda: _noisy(learning_rate, global_step, random_normal([]), *rest)


@operation("NoisyLinearCosineDecay")
def _noisy(
    rate: Any, step: Any, noise: Any, steps: Any, variance: Any, decay: Any, periods: Any, alpha: Any, beta: Any
) -> Any:
    rate = convert(rate)
    steps = convert(steps).astype(rate.dtype)
    done = np.minimum(convert(step).astype(rate.dtype), steps)
    noise = noise.astype(rate.dtype) * np.sqrt(variance / (1 + done) ** decay)
    cosine = 0.5 * (1 + np.cos(np.pi * periods * done / steps))
    return rate * ((alpha + 1 - done / steps + noise) * cosine + beta)


# The global step


def create_global_step(graph: Any = None) -> Any:
    """Return a new variable that counts steps; optimizers increment it if it is passed to them."""
    step = Variable(0, trainable=False, name="global_step", dtype=np.int64)
    if isinstance(step, GraphVariable):
        step.graph.add_to_collection(GraphKeys.GLOBAL_STEP, step)
    return step


def get_global_step(graph: Any = None) -> Any:
    """Return the graph's global step, or None."""
    held = (graph or default_graph()).get_collection(GraphKeys.GLOBAL_STEP)
    return held[0] if held else None


def get_or_create_global_step(graph: Any = None) -> Any:
    """Return the graph's global step, and create it if there is none."""
    return get_global_step(graph) or create_global_step(graph)


# Moving averages


class ExponentialMovingAverage:
    """Maintains exponential moving averages of variables; see `fgrad.optimizers`.

    Args:
        decay: the fraction of an average that is kept in every step.
        num_updates: the number of steps so far; with it early averages adapt faster.
        zero_debias: whether averages of tensors, which start at zero, are corrected for it. Those of variables
            start with the values of the variables.
        name: the name of the averages.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> w = tf.Variable(1.0)
        >>> averages = tf.train.ExponentialMovingAverage(0.9)
        >>> averages.apply([w])
        >>> _ = w.assign(3.0)
        >>> averages.apply([w])
        >>> round(float(averages.average(w)), 6)
        1.2
    """

    def __init__(
        self, decay: Any, num_updates: Any = None, zero_debias: bool = False, name: str = "ExponentialMovingAverage"
    ) -> None:
        self._decay, self._num_updates, self.name = decay, num_updates, name
        # In a graph the decay may be a graph tensor, which fgrad's own averages do not support.
        eager = not holds_symbol((decay, num_updates))
        self._eager = optimizers.ExponentialMovingAverage(decay, num_updates) if eager else None
        self._shown: dict[Any, SlotVariable] = {}
        self._zero_debias = zero_debias
        self._averages: dict[Symbol, GraphVariable] = {}
        self._sums: dict[Symbol, tuple[GraphVariable, GraphVariable]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shown": {}}  # a copy does not share the shown averages

    def apply(self, var_list: Any = None) -> Any:
        """Update the averages: immediately, or in a graph when the returned operation runs.

        Args:
            var_list: variables, and in a graph also tensors, whose averages start at zero; by default all
                trainable variables.
        """
        variables = _variables(var_list)
        if self._eager is not None and not holds_symbol(variables):
            return self._eager.apply(variables)
        followed = [self._followed(variable) for variable in variables]
        self._note(variables)
        return Operation(self.name, lambda run: None, followed, followed[0].graph)

    def _followed(self, value: Symbol) -> GraphTensor:
        if value not in self._averages:
            with value.graph.control_dependencies(None), value.graph.scope(""):
                self._start(value)
        average = self._averages[value]
        if value not in self._sums:
            return average.assign(_follow(average, value, self._decay, self._num_updates))  # type: ignore[no-any-return]
        total, steps = self._sums[value]
        total = total.assign(_follow(total, value, self._decay, self._num_updates))
        corrected = _without_start(total, steps.assign_add(1.0), self._decay, self._num_updates)
        return average.assign(corrected)  # type: ignore[no-any-return]

    def _start(self, value: Any) -> None:
        """Create the variables for the average of a variable or tensor."""
        name = self.average_name(value)
        is_variable = isinstance(value, GraphVariable)
        start = value.initialized_value() if is_variable else zero_of(value)
        self._averages[value] = GraphVariable(start, trainable=False, name=name)
        if self._zero_debias and not is_variable:
            parts = f"{scope_prefix()}{name}"
            total = GraphVariable(zero_of(value), trainable=False, name=f"{parts}/biased")
            self._sums[value] = total, GraphVariable(0.0, trainable=False, name=f"{parts}/local_step")

    def average(self, var: Any) -> Any:
        """Return the average of a variable as a variable, or None if there is none."""
        if self._eager is None or isinstance(var, Symbol):
            return self._averages.get(var)
        if var not in self._shown and self._eager.average(var) is not None:
            self._shown[var] = average_variable(self._eager, var, f"{self.average_name(var)}:0")
        return self._shown.get(var)

    def _note(self, variables: Sequence[Any]) -> None:
        """Add variables to `tf.moving_average_variables`."""
        for variable in variables:
            held = variable.graph.get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES)
            if isinstance(variable, GraphVariable) and variable not in held:
                variable.graph.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, variable)

    def average_name(self, var: Any) -> str:
        """Return the name of the average of a variable or tensor: its current one, or the one that it will get here."""
        if isinstance(var, Symbol) and var in self._averages:
            return self._averages[var]._name
        return f"{scope_prefix()}{var.name.removesuffix(':0')}/{self.name}"

    def variables_to_restore(self, moving_avg_variables: Any = None) -> dict[str, Any]:
        """Return the argument of a `Saver` that loads averages in place of their variables.

        Args:
            moving_avg_variables: the variables whose averages were saved; in a graph by default all trainable ones
                and those with averages.

        Returns:
            A dict: variables by the name of their average, and all others of the graph by their own name.

        Example:
            >>> import fgrad.compat.tensorflow1 as tf
            >>> with tf.Graph().as_default():
            ...     w, step = tf.Variable(1.0, name="w"), tf.Variable(0, trainable=False, name="step")
            ...     averages = tf.train.ExponentialMovingAverage(0.9)
            ...     sorted(averages.variables_to_restore())
            ['step', 'w/ExponentialMovingAverage']
        """
        with mode.block(default_graph()):
            chosen = moving_avg_variables
            if chosen is None:
                chosen = [*trainable_variables(), *moving_average_variables()]
            names = {variable.name for variable in chosen}
            others = [variable for variable in global_variables() if variable.name not in names]
        by_name = {self.average_name(variable): variable for variable in chosen}
        return {**{variable._name: variable for variable in others}, **by_name}


def scope_prefix() -> str:
    """Return the prefix of the names of variables that are created here."""
    scope = get_variable_scope().name
    return f"{scope}/" if scope else ""


@operation("Follow")
def _follow(average: Array, value: Array, decay: Operand, num_updates: Operand | None) -> Any:
    decay = _decay_after(decay, num_updates)
    return decay * average + (1 - decay) * value


@operation("ZeroDebias")
def _without_start(total: Array, steps: Array, decay: float, num_updates: Any) -> Any:
    return total / (1 - _decay_after(decay, num_updates) ** steps).astype(total.dtype)


def _decay_after(decay: Operand, num_updates: Operand | None) -> Any:
    return decay if num_updates is None else np.minimum(decay, (1 + num_updates) / (10 + num_updates))


def zero_of(value: GraphTensor) -> Any:
    """Return zeros like a tensor, without its value if the shape is known."""
    return np.zeros(value.shape, value.dtype) if value.shape.is_fully_defined() else zeros_like(value)


__getattr__ = missing(__name__)
