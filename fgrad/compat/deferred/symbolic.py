"""Derivatives in a graph: nodes that use the run's tape.

    gradients(ys, xs)       a list of graph tensors, None if there is no path from x to y
    hessians(ys, xs)        the same for second derivatives
    jacobians(y, xs)        the same for the derivatives of each element of one tensor
    batch_jacobian(y, x)    the derivatives of each row of a tensor with respect to the same row of another one

A `Derivative` node declares its sources. The run watches them on one persistent
tape, from which the node takes the gradient; and because the tape records its own gradients if they are
differentiated again, higher derivatives need no further code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.compat.deferred.graph import Convertible, Graph, GraphTensor, Node, Symbol, as_node, default_graph, operation
from fgrad.compat.deferred.state import GraphVariable, as_symbol
from fgrad.tapes.tape import GradientTape, batch_jacobian_on, check_rows, gradients_on, jacobian_on
from fgrad.transforms.linearization import UnconnectedGradients, check_unconnected
from fgrad.typing import Array

_NUMBERS = "fc"

Follows = Callable[[Any], bool]
"""A predicate: whether derivatives with respect to a graph tensor or variable may be taken."""


def all_follow(x: object) -> bool:
    """Return True: derivatives with respect to any graph tensor or variable may be taken."""
    return True


class Paths:
    """The connection of nodes: the paths between sources and targets.

    Attributes:
        reached: the nodes through which derivatives of the targets may pass.
        between: the nodes on a path from a source to a target, ends included.
    """

    def __init__(self, targets: Sequence[Node], sources: Sequence[Any], stops: Sequence[Any]) -> None:
        self.reached: set[Node] = set()
        open_nodes = list(targets)
        while open_nodes:
            node = open_nodes.pop()
            if node not in self.reached:
                self.reached.add(node)
                if _passes(node, stops):
                    open_nodes += node.inputs
        self.between: set[Node] = set()
        for node in sorted(self.reached, key=lambda node: node.number):
            carries = _passes(node, stops) and not self.between.isdisjoint(node.inputs)
            if carries or _is_among(sources, node):
                self.between.add(node)

    def connected(self, source: object) -> bool:
        """Return whether a path leads from a source to a target."""
        return any(_is_among([source], node) for node in self.reached)


def _passes(node: Node, stops: Sequence[Any]) -> bool:
    """Return whether derivatives pass from a node to its inputs."""
    return node.differentiable and not _is_among(stops, node)


def _is_among(sources: Sequence[Any], node: Node) -> bool:
    """Return whether a node is one of the given sources; every read of a variable counts as the variable."""
    return node in sources or any(variable in sources for variable in node.reads)


class TapeOfGraph:
    """A tape's record of a graph: the nodes created while it recorded, and the watched sources.

    Args:
        accesses: whether it watches the trainable variables that these nodes read.
    """

    def __init__(self, accesses: bool) -> None:
        self._accesses = accesses
        self._watched: list[Any] = []
        self._spans: list[tuple[Graph, int, int]] = []
        self._open: tuple[Graph, int] | None = None

    def begin(self) -> None:
        """Record the nodes that are created in the open graph from now on."""
        graph = default_graph()
        self._open = graph, len(graph.nodes)

    def end(self) -> None:
        """Stop recording nodes."""
        if self._open is not None:
            graph, start = self._open
            self._spans.append((graph, start, len(graph.nodes)))
            self._open = None

    def watch(self, symbols: Sequence[Any]) -> None:
        """Watch graph tensors or variables, and the nodes that depend on them."""
        self._watched += symbols

    def _has_recorded(self, node: Node) -> bool:
        return any(node.graph is graph and start <= node.number < end for graph, start, end in self._present())

    def _present(self) -> list[tuple[Graph, int, int]]:
        return self._spans if self._open is None else [*self._spans, (*self._open, len(self._open[0].nodes))]

    def variables(self) -> list[GraphVariable]:
        """Return the watched variables: explicitly watched ones, then accessed ones."""
        found = dict.fromkeys(each for each in self._watched if isinstance(each, GraphVariable))
        if self._accesses:
            for graph, start, end in self._present():
                for node in list(graph.nodes.values())[start:end]:
                    reads = [variable for each in (node, *node.inputs) for variable in each.reads]
                    found.update(dict.fromkeys(variable for variable in reads if variable.trainable))
        return sorted(found, key=lambda variable: int(variable._read.number))

    def edge_of(self, targets: Sequence[Any]) -> list[Node]:
        """Return the nodes that targets depend on and that were created while the tape did not record."""
        edge: dict[Node, None] = {}
        seen, open_nodes = set(), [as_symbol(target) for target in targets]
        while open_nodes:
            node = open_nodes.pop()
            if node in seen:
                continue
            seen.add(node)
            if self._has_recorded(node):
                open_nodes += node.inputs
            elif node.inputs and has_derivative(node):  # otherwise it has no derivative
                edge[node] = None
        return list(edge)

    def follows(self, source: object) -> bool:
        """Return whether a graph tensor or variable is watched, or depends on a watched one by recorded nodes."""
        watched = {*self._watched, *self.variables()}
        seen, open_nodes = set(), [source]
        while open_nodes:
            node = open_nodes.pop()
            if node in watched or not watched.isdisjoint(getattr(node, "reads", ())):
                return True
            if node not in seen and isinstance(node, Node) and node.differentiable and self._has_recorded(node):
                seen.add(node)
                open_nodes += node.inputs
        return False


class Derivative(Node):
    """Derivatives of targets with respect to sources, as a list; its items are graph tensors."""

    def __init__(
        self,
        name: str,
        targets: Sequence[Any],
        sources: Sequence[Any],
        stops: Sequence[Any],
        weights: Sequence[Any] | None,
    ):
        frame = targets[0].graph.frame
        given = [each for each in (frame.variables if frame else ()) if each not in sources and has_derivative(each)]
        # In a loop a derivative is that of one iteration: its initial values are constants.
        self.targets, self.sources, self.stops = targets, sources, [*stops, *given]
        self.between = Paths(targets, sources, stops).between
        self._weights = weights
        weighing = [weight for weight in weights or () if weight is not None]
        taken = [source for source in (*sources, *self.stops) if isinstance(source, Node)]
        super().__init__(targets[0].graph, name, [*targets, *weighing, *taken])

    def passes_through(self, node: Node) -> bool:
        """Return whether a derivative passes from a node to a source before it."""
        is_read_source = any(variable in self.sources for variable in node.reads)
        return node in self.between and (is_read_source or not self.between.isdisjoint(node.inputs))

    def compute(self, run: Any) -> Any:
        weights = self._weights and [None if weight is None else run.values[weight] for weight in self._weights]
        targets = [run.values[target] for target in self.targets]
        with run.derivation(self):
            return self.derived(
                run.tape, targets, list(map(run.source, self.sources)), list(map(run.source, self.stops)), weights
            )

    def derived(self, tape: GradientTape, targets: Any, sources: Any, stops: Any, weights: Any) -> list[Any]:
        """Return the derivatives of values on a tape."""
        return gradients_on(tape, targets, sources, weights, stops, UnconnectedGradients.ZERO)

    def shape_by(self, source: list[Any]) -> list[Any] | None:
        """Return the shape of the derivative with respect to a source of a given shape; None means unknown."""
        return source

    @staticmethod
    def zeros(source: Any, targets: Sequence[Any]) -> Any:
        """Return the derivative of targets that do not depend on a source."""
        return _zeros(source)


class SecondDerivative(Derivative):
    """Second derivatives of targets with respect to each source; the targets are first derivatives."""

    def derived(self, tape: GradientTape, targets: Any, sources: Any, stops: Any, weights: Any) -> list[Any]:
        pairs = zip(targets, sources, strict=True)
        return [jacobian_on(tape, target, source, UnconnectedGradients.ZERO, stops) for target, source in pairs]

    def shape_by(self, source: list[Any]) -> list[Any] | None:
        return source * 2


class Jacobian(Derivative):
    """Derivatives of each element of one target with respect to each source."""

    def derived(self, tape: GradientTape, targets: Any, sources: Any, stops: Any, weights: Any) -> list[Any]:
        found: list[Any] = jacobian_on(tape, targets[0], sources, UnconnectedGradients.ZERO, stops)
        return found

    def shape_by(self, source: list[Any]) -> list[Any] | None:
        target = self.targets[0].facts()[0]
        return None if target is None else target + source

    @staticmethod
    @operation("zeros_like")
    def zeros(source: Any, targets: Sequence[Any]) -> Array:
        return np.zeros((*targets[0].shape, *source.shape), source.dtype)


class BatchJacobian(Jacobian):
    """Derivatives of each row of one target with respect to the same row of one source."""

    def derived(self, tape: GradientTape, targets: Any, sources: Any, stops: Any, weights: Any) -> list[Any]:
        return [batch_jacobian_on(tape, targets[0], x, UnconnectedGradients.ZERO, stops) for x in sources]

    def shape_by(self, source: list[Any]) -> list[Any] | None:
        return super().shape_by(source[1:])

    @staticmethod
    @operation("zeros_like")
    def zeros(source: Any, targets: Sequence[Any]) -> Array:
        return np.zeros((*targets[0].shape, *source.shape[1:]), source.dtype)


class Item(GraphTensor):
    """One of the derivatives of a node."""

    def __init__(self, derivative: Derivative, place: int) -> None:
        self._place, self._derivative = place, derivative
        super().__init__(derivative.graph, f"{derivative.name}/item", [derivative])

    def compute(self, run: Any) -> Any:
        return run.values[self.inputs[0]][self._place]

    def _infer(self) -> tuple[Any, Any]:
        source = self._derivative.sources[self._place]
        shape, dtype = (source._read if isinstance(source, GraphVariable) else source).facts()
        return (None if shape is None else self._derivative.shape_by(shape)), dtype


def gradients(
    ys: object,
    xs: object,
    grad_ys: object = None,
    stop_gradients: object = None,
    unconnected_gradients: str = UnconnectedGradients.NONE,
    name: str = "gradients",
    follows: Follows = all_follow,
) -> list[Any]:
    """Return graph tensors that compute the gradients of `ys` with respect to each of `xs`; see `tf.gradients`."""
    ys, xs = [as_symbol(y) for y in _as_list(ys, "ys")], _as_list(xs, "xs")
    weights = None if grad_ys is None else _as_list(grad_ys, "grad_ys")
    if weights is not None and len(weights) != len(ys):
        raise errors.SeedError(f"Length mismatch. Passed {len(weights)} grad_ys for {len(ys)} ys.")
    weights = weights and [None if w is None else as_symbol(w, y.dtype) for w, y in zip(weights, ys, strict=True)]
    for y, weight in zip(ys, weights or (), strict=bool(weights)):
        _check_weight(y, weight)
    return _derivatives(Derivative, ys, xs, stop_gradients, unconnected_gradients, follows, name, weights)


def jacobians(
    y: Convertible, xs: Sequence[Any], stop_gradients: object, unconnected: str, follows: Follows
) -> list[Any]:
    """Return graph tensors that compute the derivatives of each element of `y` with respect to each of `xs`.

    Their shapes are `y.shape + x.shape`; the other arguments are those of `gradients`.
    """
    return _derivatives(Jacobian, [_one_target(y)], xs, stop_gradients, unconnected, follows, "jacobian")


def batch_jacobian(y: Any, x: Any, stop_gradients: object, unconnected: str, follows: Follows) -> Any:
    """Return a graph tensor that computes the derivatives of each row of `y` with respect to the same row of `x`.

    Its shape is `y.shape + x.shape[1:]`; the other arguments are those of `gradients`.

    Raises:
        ShapeError: a ValueError; one has fewer than two axes, or the numbers of rows differ. If these are unknown
            before a run, the run raises it.
    """
    y, x = _one_target(y), _as_source(x, "source")
    if None not in (y.shape.ndims, x.shape.ndims):
        check_rows(y.shape, x.shape)
    return _derivatives(BatchJacobian, [y], [x], stop_gradients, unconnected, follows, "batch_jacobian")[0]


def _derivatives(
    kind: type[Derivative],
    ys: list[Any],
    xs: Sequence[Any],
    stop_gradients: object,
    unconnected: str,
    follows: Follows,
    name: str,
    weights: Sequence[Any] | None = None,
) -> list[Any]:
    """Return one derivative for each of `xs`; None or zeros if there is no path from it to `ys`."""
    check_unconnected(unconnected)
    stops = [] if stop_gradients is None else _as_list(stop_gradients, "stop_gradients")
    stops = [_as_source(x, "stop_gradients") for x in stops]
    paths = Paths(ys, (), stops)
    sources = [_as_source(x, "xs") if isinstance(x, Symbol) and follows(x) else None for x in xs]
    wanted = [x for x in dict.fromkeys(sources) if x is not None and paths.connected(x) and has_derivative(x)]
    derivative = kind(name, ys, wanted, stops, weights) if wanted else None
    found = {source: Item(derivative, place) for place, source in enumerate(wanted)} if derivative else {}
    if unconnected == UnconnectedGradients.NONE:
        return [found.get(source) for source in sources]
    pairs = zip(xs, sources, strict=True)
    return [found[source] if source in found else kind.zeros(x, ys) for x, source in pairs]


def has_derivative(x: Any) -> bool:
    """Return whether derivatives with respect to a graph tensor or variable exist: not for integers."""
    return x.dtype is None or x.dtype.kind in _NUMBERS


def _one_target(y: Convertible) -> Any:
    if not isinstance(y, Symbol):
        raise errors.SourceError(f"a Jacobian needs one graph tensor as target, not {y!r:.200}.")
    return as_symbol(y)


@operation("zeros_like")
def _zeros(x: Array) -> Any:
    return np.zeros_like(x)


def _check_weight(y: Any, weight: Any) -> None:
    if weight is None:
        return
    if weight.dtype is not None and y.dtype is not None and weight.dtype != y.dtype:
        raise errors.DtypeError(f"grad_ys has dtype {weight.dtype}, and the y that it weighs has dtype {y.dtype}.")
    if y.shape.is_fully_defined() and weight.shape.is_fully_defined() and weight.shape not in ((), y.shape):
        raise errors.SeedError(f"grad_ys has shape {weight.shape}, and the y that it weighs has shape {y.shape}.")


def _as_list(x: object, what: str) -> list[Any]:
    if x is None:
        raise errors.SymbolicTensorError(f"{what} is None; pass a graph tensor or a list of them.")
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _as_source(x: object, what: str) -> Any:
    """Return a node or graph variable; the default read of a variable is replaced by the variable."""
    if not isinstance(x, Symbol):
        raise errors.SourceError(f"{what} must be graph tensors or variables, and holds {x!r}.")
    if isinstance(x, GraphVariable):
        return x
    node = as_node(x)
    if node.frame is not node.graph.frame:
        raise errors.SourceError(
            f"{what} holds {x!r}, which is outside of the loop in which its derivative is taken.\n"
            "Take derivatives after the loop, or inside of it with respect to arguments of the body, values that it "
            "computes, or variables."
        )
    return node


def hessians(ys: Convertible, xs: Sequence[Any], name: str = "hessians") -> list[Any]:
    """Return graph tensors that compute the second derivatives of `ys` with respect to each of `xs`."""
    sources = [_as_source(x, "xs") for x in _as_list(xs, "xs")]
    first = gradients(ys, sources, unconnected_gradients=UnconnectedGradients.ZERO)
    derivative = SecondDerivative(name, first, sources, (), None)
    return [Item(derivative, place) for place in range(len(sources))]
