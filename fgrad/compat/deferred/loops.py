"""Loops of a graph: the nodes of a body are computed once per iteration of a run.

    loop(cond, body, loop_vars, ...)    the final values of the loop variables

The condition and the body are called once, on nodes that stand for the loop variables; the nodes that they create
belong to a separate `Frame`. A run computes these nodes in every iteration, on the tape of the run, so that
derivatives pass through the iterations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.convert import another
from fgrad.compat.deferred.graph import Convertible, Frame, Graph, GraphTensor, Node, TensorShape, default_graph
from fgrad.compat.deferred.session import Plan
from fgrad.compat.deferred.state import as_symbol
from fgrad.core.tree import flatten, unflatten
from fgrad.transforms.reverse import stop_gradient


class LoopVariable(GraphTensor):
    """A loop variable: its value in an iteration is the result of the previous iteration."""

    def __init__(self, graph: Graph, shape: TensorShape, dtype: object) -> None:
        self._static = (None if shape.ndims is None else shape.as_list(), dtype)
        super().__init__(graph, "LoopVariable", ())

    def check(self, x: Any) -> None:
        """Raise unless a graph tensor or a value is a valid next value of this variable."""
        if None not in (x.dtype, self.dtype) and x.dtype != self.dtype:
            raise errors.DtypeError(
                f"a variable of tf.while_loop begins with dtype {self.dtype}, and the body returns {x.dtype} for it.\n"
                "Use tf.cast, in the body or on the initial value."
            )
        if not _may_be(x.shape, self.shape):
            raise errors.ShapeError(
                f"a variable of tf.while_loop begins with shape {self.shape}, and the body returns shape {x.shape} for "
                "it.\nFor a shape that changes, pass shape_invariants, with None for each size that changes."
            )


def _may_be(shape: Any, wanted: TensorShape) -> bool:
    """Return whether an array of a shape may be compatible, as far as the shape is known."""
    if wanted.ndims is None or getattr(shape, "ndims", 0) is None:
        return True
    pairs = zip(shape, wanted, strict=False)
    return len(shape) == len(wanted) and all(None in pair or pair[0] == pair[1] for pair in pairs)


class Loop(Node):
    """The iterations of a loop; its value is a list of the final loop variables."""

    def __init__(
        self, initial: Sequence[Any], shapes: Sequence[TensorShape], limit: Convertible | None, name: str
    ) -> None:
        graph = initial[0].graph
        self._initial, self._limit = initial, limit
        self._frame = Frame(graph.frame)
        with graph.within(self._frame):
            self.variables = [LoopVariable(graph, shape, x.dtype) for x, shape in zip(initial, shapes, strict=True)]
        self._frame.variables += self.variables
        self._title = name

    def close(self, condition: GraphTensor, results: Sequence[Any], differentiable: bool) -> None:
        """Create the node, after the nodes inside are known."""
        fed = frozenset(self.variables)
        self._condition, self._results, self.differentiable = condition, results, differentiable
        self._test, self._iteration = (Plan(nodes, fed, self._frame) for nodes in ([condition], results))
        self.inside = [*self._test.inside, *self._iteration.inside]
        self.reads = {variable for node in self.inside for variable in node.reads}
        limit = [] if self._limit is None else [self._limit]
        needed = [*self._initial, *limit, *self._test.captured, *self._iteration.captured]
        super().__init__(condition.graph, self._title, list(dict.fromkeys(needed)))

    def compute(self, run: Any) -> list[Any]:
        values = [run.values[node] for node in self._initial]
        limit = math.inf if self._limit is None else int(run.values[self._limit])
        iterations = 0
        while iterations < limit and run.iteration(self._test, self._fed(values))[self._condition]:
            found = run.iteration(self._iteration, self._fed(values))
            values = [found[node] for node in self._results]
            iterations += 1
        return values

    def _fed(self, values: Sequence[Any]) -> dict[LoopVariable, Any]:
        for variable, value in zip(self.variables, values, strict=True):
            variable.check(value)
        return dict(zip(self.variables, values, strict=True))


class LoopResult(GraphTensor):
    """The final value of one loop variable."""

    def __init__(self, loop: Loop, place: int) -> None:
        self._place, self._loop = place, loop
        self._static = loop.variables[place].facts()
        super().__init__(loop.graph, f"{loop.name}/exit", [loop])

    def compute(self, run: Any) -> Any:
        value = run.values[self._loop][self._place]
        self._loop.variables[self._place].check(value)
        return another(value if self._loop.differentiable else stop_gradient(value))


def loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    shape_invariants: list[Any] | None,
    maximum_iterations: Convertible | None,
    differentiable: bool,
    name: str | None,
) -> list[Any]:
    """Return the final loop variables, after a body has been called on them while a condition holds."""
    leaves, treedef = flatten(list(loop_vars))
    initial = [as_symbol(leaf) for leaf in leaves]
    graph = next((each.graph for each in initial), default_graph())
    limit = None if maximum_iterations is None else as_symbol(maximum_iterations, None, graph)
    node = Loop(initial, _shapes(initial, treedef, shape_invariants), limit, name or "while")
    arguments = unflatten(treedef, node.variables)
    with mode.block(graph), graph.scope(node._title), graph.within(node._frame):
        condition = _truth(cond(*arguments))
        results = _returned(body(*arguments), node.variables, treedef)
    node.close(condition, results, differentiable)
    return unflatten(treedef, [LoopResult(node, place) for place in range(len(leaves))])  # type: ignore[no-any-return]


def _shapes(initial: Sequence[Any], treedef: Any, invariants: list[Any] | None) -> list[TensorShape]:
    if invariants is None:
        return [each.shape for each in initial]
    try:
        shapes = [TensorShape(shape) for shape in treedef.flatten_up_to(list(invariants))]
    except (ValueError, TypeError):
        raise errors.StructureError(
            "shape_invariants must have the structure of loop_vars, with a shape for each variable."
        ) from None
    for each, shape in zip(initial, shapes, strict=True):
        if not _may_be(each.shape, shape):
            raise errors.ShapeError(f"shape_invariants has {shape} for {each!r}, whose shape is {each.shape}.")
    return shapes


def _truth(value: Convertible) -> GraphTensor:
    condition: GraphTensor = as_symbol(value)
    if condition.dtype is not None and (condition.dtype.kind != "b" or condition.shape not in ((), None)):
        raise errors.StructureError(f"cond must return one truth value, and returns {condition!r}; use tf.reduce_all.")
    return condition


def _returned(results: object, variables: Sequence[LoopVariable], treedef: object) -> list[Any]:
    """Return the nodes that a body returns."""
    leaves, found = flatten(as_list(results))
    if found != treedef:
        raise errors.StructureError(f"body must return the structure of its arguments, {treedef}, and returns {found}.")
    nodes = [as_symbol(leaf, variable.dtype) for leaf, variable in zip(leaves, variables, strict=True)]
    for node, variable in zip(nodes, variables, strict=True):
        variable.check(node)
    return nodes


def as_list(results: object) -> list[Any]:
    """Return a list or tuple, such as loop variables, as a list; a single object is wrapped."""
    return list(results) if isinstance(results, (list, tuple)) else [results]
