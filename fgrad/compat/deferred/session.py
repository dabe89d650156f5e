"""Sessions, which run graphs.

A run determines the nodes that its fetches need, and evaluates each of them once, in the order of creation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.convert import another
from fgrad.compat.deferred.graph import Frame, Graph, GraphTensor, Node, Symbol, default_graph
from fgrad.compat.deferred.state import GraphVariable, uninitialized
from fgrad.compat.deferred.symbolic import Derivative
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, boxed
from fgrad.core.tree import flatten, leaves_and_nones, unflatten
from fgrad.core.variable import Variable
from fgrad.tapes.tape import GradientTape
from fgrad.transforms.reverse import stop_gradient
from fgrad.typing import Array


class Session:
    """Runs a graph, and stores the values of its variables.

    Args:
        target, config: ignored; in TensorFlow they select machines and devices.
        graph: the graph; by default the open one.

    Example:
        >>> import fgrad.compat.tensorflow1 as tf
        >>> x = tf.placeholder(tf.float32, shape=[None])
        >>> total = tf.reduce_sum(x * x)
        >>> with tf.Session() as session:
        ...     session.run([total, tf.gradients(total, x)], feed_dict={x: [1.0, 2.0]})
        [np.float32(5.0), [array([2., 4.], dtype=float32)]]
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: object = None) -> None:
        self.graph = graph or default_graph()
        self.optimizers: dict[Any, Any] = {}
        self.generators: dict[Node, Any] = {}
        self._variables: dict[GraphVariable, Variable] = {}
        self._plans: dict[Any, Plan] = {}
        self._closed = False
        self._blocks: list[Any] = []

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Return the values of graph tensors, as NumPy arrays.

        Args:
            fetches: a graph tensor, variable, operation or name, or a container of them.
            feed_dict: values by graph tensor: placeholders, or other tensors whose values are replaced.
            options, run_metadata: ignored.

        Returns:
            Values with the structure of `fetches`; None for operations.

        Raises:
            SessionError: a RuntimeError; the session is closed.
            FetchError: a TypeError; a fetch does not belong to this graph.
            InvalidArgumentError: a ValueError; a placeholder is not fed, or a fed value is incompatible.
            FailedPreconditionError: a RuntimeError; a variable has no value yet.
        """
        if self._closed:
            raise errors.SessionError("Attempted to use a closed Session.")
        if None in leaves_and_nones(fetches):
            raise errors.FetchError("Fetch argument None has invalid type: fetch tensors, variables and operations.")
        leaves, treedef = flatten(fetches)
        nodes = [self._outside(leaf) for leaf in leaves]
        feeds = {self._outside(key): value for key, value in (feed_dict or {}).items()}
        feeds = {node: _fed(node, value) for node, value in feeds.items()}
        run = Run(self, self._plan(nodes, feeds), feeds)
        values = run.evaluate()
        for node in run.skipped.intersection(nodes):
            if isinstance(node, GraphTensor):
                raise errors.InvalidArgumentError(f"{node.name!r} has no value: it is in a branch that was not taken.")
        return unflatten(treedef, [_plain(values[node]) for node in nodes])

    def _outside(self, fetch: object) -> Node:
        """Return the node of a fetch, which must not be inside of a loop."""
        node = self.graph.node(fetch)
        if node.frame is not None:
            raise errors.FetchError(
                f"{node.name!r} is inside of a loop, where it has another value in every iteration: it cannot be "
                "fetched or fed.\nMake it one of the loop's variables, and fetch what tf.while_loop returns."
            )
        return node

    def _plan(self, nodes: list[Node], feeds: Iterable[Node]) -> Plan:
        """Return the plan of a run, which is cached by fetches and fed tensors."""
        key = (tuple(nodes), frozenset(feeds))
        if key not in self._plans:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = Plan(nodes, key[1])
        return self._plans[key]

    def variable(self, variable: GraphVariable) -> Variable:
        """Return this session's variable for a graph variable."""
        if variable not in self._variables:
            raise uninitialized(variable)
        return self._variables[variable]

    def has(self, variable: GraphVariable) -> bool:
        """Return whether a variable has been initialized in this session."""
        return variable in self._variables

    def create(self, variable: GraphVariable, value: Any) -> Variable:
        """Initialize a variable in this session, or reinitialize it."""
        held = self._variables.get(variable)
        if held is not None and held.shape == value.shape:
            return held.assign(value)
        held = Variable(value, variable.trainable, variable.name, variable.dtype)
        self._variables[variable] = held
        return held

    def as_default(self) -> contextlib.AbstractContextManager[Session]:
        """Return a context in which `eval` and `run` of tensors and operations use this session."""
        return mode.session_block(self)

    def __enter__(self) -> Session:
        block = contextlib.ExitStack()
        block.enter_context(mode.block(self.graph))
        block.enter_context(mode.session_block(self))
        self._blocks.append(block)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._blocks.pop().close()
        if not self._blocks:
            self.close()

    def close(self) -> None:
        """Close the session and discard the values of its variables."""
        self._closed = True
        self._variables.clear()
        self.optimizers.clear()


_MOST_PLANS = 64


class InteractiveSession(Session):
    """A session that is the default one from its creation until it is closed."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: object = None) -> None:
        super().__init__(target, graph, config)
        self._default = contextlib.ExitStack()
        self._default.enter_context(mode.session_block(self))

    def close(self) -> None:
        """Close the session."""
        self._default.close()
        super().close()


class Plan:
    """The plan of a run, for given fetches and feeds, or of one iteration of a loop.

    Attributes:
        order: the nodes to evaluate, in order.
        captured: the nodes outside of the loop whose values an iteration needs.
        sources: the graph tensors and variables with respect to which derivatives are taken.
        recorded: the derivatives that are differentiated again.
    """

    def __init__(self, fetches: Iterable[Node], feeds: frozenset[Node], frame: Frame | None = None) -> None:
        kept: set[Node] = set()
        while True:
            needed = _needed(fetches, feeds - kept, frame)
            computed = [each for node in needed if node.frame is frame for each in (node, *node.inside)]
            derivatives = [node for node in computed if isinstance(node, Derivative)]
            # Derivatives pass through a fed tensor, so its inputs are needed.
            passed = {fed for each in derivatives for fed in feeds if each.passes_through(fed)}
            if passed <= kept:
                break
            kept |= passed
        self.order = sorted((node for node in needed if node.frame is frame), key=lambda node: node.number)
        self.captured = sorted((node for node in needed if node.frame is not frame), key=lambda node: node.number)
        self.inside = computed
        self.kept = kept
        self.sources = {source for each in derivatives for source in (*each.sources, *each.stops)}
        # When a loop is created, it is unknown whether its inner derivatives are differentiated from outside.
        is_seen = [frame is not None or any(each in other.between for other in derivatives) for each in derivatives]
        self.recorded = {each for each, seen in zip(derivatives, is_seen, strict=True) if seen}
        self.has_derivatives = bool(derivatives)
        self.has_branches = any(node.guards for node in self.order)


def _needed(fetches: Iterable[Node], feeds: Iterable[Node], frame: Frame | None) -> set[Node]:
    """Return all nodes that fetches depend on, without the inputs of fed nodes and of nodes outside of the frame."""
    needed: set[Node] = set()
    open_nodes = list(fetches)
    while open_nodes:
        node = open_nodes.pop()
        if node not in needed:
            needed.add(node)
            if node not in feeds and node.frame is frame:
                open_nodes += node.inputs
                open_nodes += node.controls
    return needed


class Run:
    """One run of a session, or one iteration of a loop in a run.

    Attributes:
        session: the session, whose variables are read and assigned.
        values: the values of evaluated nodes.
        skipped: the nodes of branches that are not taken, and their dependents; their value is None.
        tape: the tape for derivatives.
    """

    def __init__(self, session: Session, plan: Plan, feeds: dict[Node, Tensor], outer: Run | None = None) -> None:
        self.session, self._plan, self._feeds = session, plan, feeds
        self.values: dict[Node, Any] = {} if outer is None else {each: outer.values[each] for each in plan.captured}
        self.skipped: set[Node] = set()
        self.tape: GradientTape = outer.tape if outer else GradientTape(True, watch_accessed_variables=False)

    def evaluate(self) -> dict[Node, Any]:
        """Return the values of all nodes of the plan."""
        with contextlib.ExitStack() as block:
            block.enter_context(mode.block(None))
            if self._plan.has_derivatives:
                block.enter_context(self.tape)
                self.tape.watch([held for held in map(self._held, self._plan.sources) if held is not None])
            self._evaluate_in_order()
        return self.values

    def iteration(self, plan: Plan, feeds: dict[Node, Tensor]) -> dict[Node, Any]:
        """Return the values of all nodes of a plan for one iteration of a loop."""
        inner = Run(self.session, plan, feeds, self)
        inner._evaluate_in_order()
        return inner.values

    def _evaluate_in_order(self) -> None:
        for node in self._plan.order:
            if self._plan.has_branches and node not in self._feeds and node.is_skipped(self):
                self.skipped.add(node)
                self.values[node] = None
            else:
                self.values[node] = self._value(node)

    def _value(self, node: Node) -> Any:
        fed = self._feeds.get(node)
        if fed is not None and node not in self._plan.kept:
            value = fed
        else:
            value = self._computed(node)
            if fed is not None:
                value = fed + (value - stop_gradient(value))
        if node in self._plan.sources and value.dtype.kind in "fc":
            value = self._own(node, value)
            self.tape.watch(value)
        return value

    def _computed(self, node: Node) -> Any:
        try:
            return node.compute(self)
        except Exception as error:
            error.add_note(f"This happened while a session computed {node.name!r}, defined at {node.line}")
            raise

    def _own(self, node: Node, value: Array) -> Any:
        """Return a value as a new tensor, so that watching it watches this node only."""
        if type(value) is not Tensor:
            return boxed(value)
        is_shared = node in self._feeds or any(value is self.values.get(each) for each in node.inputs)
        return another(value) if is_shared else value

    def _held(self, source: object) -> Variable | None:
        """Return the variable to watch for a source, if it is a variable with a value."""
        if isinstance(source, GraphVariable) and self.session.has(source) and source.dtype.kind in "fc":
            return self.session.variable(source)
        return None

    def computes(self, node: Node) -> bool:
        """Return whether a node is computed in this run."""
        return node in self._plan.order

    def create(self, variable: GraphVariable, value: Array) -> Variable:
        """Initialize a variable in the session, or reinitialize it."""
        held = self.session.create(variable, value)
        if variable in self._plan.sources and variable.dtype.kind in "fc":
            self.tape.watch(held)
        return held

    def source(self, source: Any) -> Any:
        """Return a source of derivatives in the form that the tape watches."""
        return self.session.variable(source) if isinstance(source, GraphVariable) else self.values[source]

    def derivation(self, derivative: Node) -> contextlib.AbstractContextManager[None]:
        """Return a context for derivatives: they are recorded only if they are differentiated again."""
        return contextlib.nullcontext() if derivative in self._plan.recorded else self.tape.stop_recording()


def _fed(node: Node, value: object) -> Tensor:
    """Return a fed value as a tensor of the node's dtype."""
    if isinstance(value, (Symbol, Node)):
        raise errors.FetchError("The value of a feed cannot be a graph tensor: feed numbers and arrays.")
    if not isinstance(node, GraphTensor):
        raise errors.FetchError(f"{node.name!r} is an operation and cannot be fed.")
    given = np.asarray(value)
    array = given if node.dtype is None else _in_dtype(given, node)
    if not node.shape.admits(array.shape):
        raise errors.InvalidArgumentError(
            f"Cannot feed value of shape {array.shape} for Tensor {node.name}, which has shape {node.shape}"
        )
    return boxed(array[()])  # type: ignore[no-any-return]


def _in_dtype(given: Any, node: GraphTensor) -> Any:
    """Return a fed array in the dtype of its node; rounding is allowed, truncation is not."""
    if given.dtype.kind not in "biufc":
        raise errors.InvalidArgumentError(f"the value fed for {node.name!r} is not an array of numbers: {given!r:.100}")
    with np.errstate(invalid="ignore"):
        array = (given.real if node.dtype.kind != "c" else given).astype(node.dtype)
    if not (np.can_cast(given.dtype, node.dtype, "same_kind") or np.array_equal(array, given)):
        raise errors.InvalidArgumentError(
            f"the value fed for {node.name!r} has dtype {given.dtype}, and values that {node.dtype} cannot hold.\n"
            f"To truncate them, pass value.astype({str(node.dtype)!r})."
        )
    return array


def _plain(value: Any) -> Any:
    """Return a fetched value as a NumPy array."""
    if type(value) in BOXES:
        return value.numpy()
    return np.asarray(value)[()] if value is not None else None
