"""Branches of a graph: nodes created in a branch function run only if the branch is taken.

    branches(pred, true_fn, false_fn)    the result of one of two functions, chosen by a run

The nodes of a branch function have a guard: a condition and its required value. A run
skips nodes whose guard does not hold, and their dependents, up to the `Merge` node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.graph import GraphTensor, Node, Operation
from fgrad.compat.deferred.state import as_symbol
from fgrad.core.tree import flatten, leaves_and_nones, unflatten


class Merge(GraphTensor):
    """The value of one of two nodes; of an operation, the condition that chose it."""

    def __init__(self, pred: GraphTensor, one: Node, other: Node, name: str | None) -> None:
        super().__init__(pred.graph, name or "cond", [pred, one, other])

    def taken(self, run: Any) -> Node:
        """Return the node that a run has chosen."""
        pred, one, other = self.inputs
        return one if run.values[pred] else other

    def is_skipped(self, run: Any) -> bool:
        """Return whether the run skips this node: it does not skip it for a branch that is not taken."""
        return self.inputs[0] in run.skipped or self.taken(run) in run.skipped or self._is_held_back(run)

    def compute(self, run: Any) -> Any:
        node = self.taken(run)
        return run.values[self.inputs[0] if isinstance(node, Operation) else node]

    def _infer(self) -> tuple[Any, Any]:
        facts = [node.facts() for node in self.inputs[1:] if isinstance(node, GraphTensor)]
        if len(facts) < 2:
            return self.inputs[0].facts()  # type: ignore[attr-defined, no-any-return]
        (shape, dtype), (other_shape, other_dtype) = facts
        dtype = dtype if dtype == other_dtype else None
        if shape is None or other_shape is None or len(shape) != len(other_shape):
            return None, dtype
        return [size if size == other else None for size, other in zip(shape, other_shape, strict=True)], dtype


def branches(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None) -> Any:
    """Return the result of one of two functions, which are both called immediately; a run chooses between their nodes.

    Raises:
        StructureError: a TypeError; the structures or the kinds of dtype of the results differ, or there is no result.
    """
    pred = as_symbol(pred)
    (ones, treedef), (others, other_treedef) = (
        _branch(pred, truth, function) for truth, function in ((True, true_fn), (False, false_fn))
    )
    if treedef != other_treedef:
        raise errors.StructureError(
            f"true_fn and false_fn must return the same structure, and return {treedef} and {other_treedef}."
        )
    for one, other in zip(ones, others, strict=True):
        _check_dtypes(one, other)
    merged = [Merge(pred, one, other, name) for one, other in zip(ones, others, strict=True)]
    return unflatten(treedef, merged)


def _check_dtypes(one: Node, other: Node) -> None:
    """Reject results of two branches with dtypes of different kinds; precisions may differ, as in all operations."""
    dtypes = [each for node in (one, other) if isinstance(node, GraphTensor) and (each := node.facts()[1]) is not None]
    if len({each.kind for each in dtypes}) > 1:
        raise errors.StructureError(
            f"true_fn and false_fn must return the same kind of dtype, and return {dtypes[0]} and {dtypes[1]}.\n"
            "Convert one of them, tf.cast(x, dtype)."
        )


def _branch(pred: GraphTensor, truth: bool, function: Callable[[], Any]) -> tuple[list[Node], Any]:
    """Return the nodes that a branch function returns, and their structure."""
    graph = pred.graph
    with mode.block(graph), graph.guarded(pred, truth):
        result = function()
        if None in leaves_and_nones(result):
            raise errors.StructureError(f"{'true_fn' if truth else 'false_fn'} must have a return value, not None.")
        leaves, treedef = flatten(result)
        return [leaf if isinstance(leaf, Operation) else as_symbol(leaf) for leaf in leaves], treedef
