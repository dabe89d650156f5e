"""Derivatives by TensorFlow's names, for eager code and graphs."""

from __future__ import annotations

from typing import Any

import fgrad
from fgrad import errors
from fgrad.compat.deferred import mode, symbolic
from fgrad.compat.deferred.graph import Convertible, GraphTensor, Symbol, holds_symbol
from fgrad.compat.deferred.scattering import IndexedSlices
from fgrad.compat.tensorflow.arrays import convert_to_tensor
from fgrad.compat.tensorflow.custom import custom_gradient as custom_gradient
from fgrad.compat.tensorflow.custom import grad_pass_through as grad_pass_through
from fgrad.compat.tensorflow.custom import recompute_grad as recompute_grad
from fgrad.compat.tensorflow.within import gradients_within, hessians_within, is_within, is_without_tape
from fgrad.core.tree import flatten, unflatten
from fgrad.transforms.linearization import UnconnectedGradients as UnconnectedGradients
from fgrad.transforms.linearization import check_unconnected


class GradientTape(fgrad.GradientTape):
    """See `fgrad.GradientTape`; for a graph's tensors its gradients are graph tensors.

    In a graph, too, only operations in its block are differentiated, with respect to watched tensors.
    """

    _explains_none = False  # as in TensorFlow

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        super().__init__(persistent, watch_accessed_variables)
        self._of_graph = symbolic.TapeOfGraph(watch_accessed_variables)

    def _start(self) -> None:
        super()._start()
        self._of_graph = symbolic.TapeOfGraph(self._watch_accessed)

    def _resume(self) -> None:
        super()._resume()
        self._of_graph.begin()

    def _pause(self) -> None:
        self._of_graph.end()
        super()._pause()

    def gradient(
        self,
        target: Convertible,
        sources: Any,
        output_gradients: object = None,
        unconnected_gradients: str = UnconnectedGradients.NONE,
    ) -> Any:
        """Return the gradient of `target` with respect to each of `sources`; see `fgrad.GradientTape.gradient`."""
        targets = flatten(target)[0]
        if not holds_symbol(targets):
            return super().gradient(target, sources, output_gradients, unconnected_gradients)
        leaves, treedef = flatten(sources)
        weights = None if output_gradients is None else flatten(output_gradients)[0]
        of_graph = self._of_graph
        edge = of_graph.edge_of(targets)
        found = symbolic.gradients(targets, leaves, weights, edge, unconnected_gradients, follows=of_graph.follows)
        return unflatten(treedef, found)

    def watch(self, tensor: Any) -> None:
        """Watch tensors or variables."""
        leaves = flatten(tensor)[0]
        if not holds_symbol(leaves):
            super().watch(tensor)
        self._of_graph.watch([leaf for leaf in leaves if isinstance(leaf, Symbol)])

    def watched_variables(self) -> tuple[Any, ...]:
        """Return the variables that the tape watches."""
        return (*super().watched_variables(), *self._of_graph.variables())

    def jacobian(
        self,
        target: Convertible,
        sources: Convertible,
        unconnected_gradients: str = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Return the Jacobian; see `fgrad.GradientTape.jacobian`. The last two arguments are ignored."""
        if not holds_symbol((target,)):
            return super().jacobian(target, sources, unconnected_gradients)
        leaves, treedef = flatten(sources)
        of_graph = self._of_graph
        edge = of_graph.edge_of([target])
        return unflatten(treedef, symbolic.jacobians(target, leaves, edge, unconnected_gradients, of_graph.follows))

    def batch_jacobian(
        self,
        target: Convertible,
        source: Convertible,
        unconnected_gradients: str = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Return a Jacobian per row; see `fgrad.GradientTape.batch_jacobian`.

        As in TensorFlow, it is zero if the target does not depend on the source. The last three arguments are
        ignored.
        """
        check_unconnected(unconnected_gradients)
        if not holds_symbol((target,)):
            return super().batch_jacobian(target, source, UnconnectedGradients.ZERO)
        of_graph = self._of_graph
        edge = of_graph.edge_of([target])
        return symbolic.batch_jacobian(target, source, edge, UnconnectedGradients.ZERO, of_graph.follows)


class AggregationMethod:
    """TensorFlow's ways to add gradients, which are ignored."""

    ADD_N = DEFAULT = 0
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: Any = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: str = UnconnectedGradients.NONE,
) -> list[Any]:
    """Return the gradients of `ys` with respect to `xs`: in a graph as graph tensors.

    Inside of `tf.function` they are gradients with respect to its arguments, variables, captured tensors, constants
    and values computed from these. Otherwise TensorFlow has no such function in eager mode; here an open or
    persistent tape that has recorded `ys` is used, as in `fgrad.gradients`.

    Args:
        ys: a tensor or a list of them, which are summed.
        xs: a tensor or variable, or a list of them.
        grad_ys: weights for `ys`, also `tf.IndexedSlices`; None inside means ones.
        name: the name of the graph's nodes.
        colocate_gradients_with_ops, gate_gradients, aggregation_method: ignored.
        stop_gradients: tensors that are treated as constants.
        unconnected_gradients: the result if there is no path: `UnconnectedGradients.NONE` or `.ZERO`.

    Returns:
        A list with one gradient for each of `xs`.

    Raises:
        TapeError: a RuntimeError; eagerly, no tape has recorded `ys`.
        SourceError: a TypeError; inside of `tf.function`, one of `xs` was created there, but not by `tf.constant`.
        DtypeError: a TypeError; in a graph, one of `ys` is complex and has no weight.
    """
    grad_ys = _dense(grad_ys)
    if mode.is_deferring() or holds_symbol((ys, xs)):
        _check_real(ys, grad_ys)
        return symbolic.gradients(ys, xs, grad_ys, stop_gradients, unconnected_gradients, name)
    if is_within():
        return gradients_within(ys, xs, grad_ys, stop_gradients, unconnected_gradients)
    try:
        if is_without_tape():  # not by an outer tape, which does not record the inside
            raise errors.TapeError("the function runs again, under a tape.")
        return fgrad.gradients(ys, xs, grad_ys, stop_gradients, unconnected_gradients)
    except errors.TapeError as error:
        raise errors.TapeError(
            "tf.gradients is not supported when eager execution is enabled. Use tf.GradientTape instead.\n"
            "(Alternatively, record ys by an open or persistent tape.)"
        ) from error


def _dense(weights: object) -> Any:
    """Return weights with tensors in place of `tf.IndexedSlices`."""
    if isinstance(weights, IndexedSlices):
        return convert_to_tensor(weights)
    return [_dense(each) for each in weights] if isinstance(weights, (list, tuple)) else weights


def _check_real(ys: object, grad_ys: object) -> None:
    ys, weights = ([x] if not isinstance(x, (list, tuple)) else x for x in (ys, grad_ys))
    for place, y in enumerate(ys):
        weight = weights[place] if place < len(weights) else None
        dtype = y.dtype if isinstance(y, GraphTensor) else None
        if weight is None and dtype is not None and dtype.kind == "c":
            raise errors.DtypeError(
                f"Gradients of complex tensors ({y!r}) must set grad_ys (y.dtype = {dtype}): a complex number has no "
                "one slope. Take those of tf.real(y) or tf.abs(y), or pass weights."
            )


def hessians(
    ys: Convertible,
    xs: Any,
    gate_gradients: Any = False,
    aggregation_method: Any = None,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
) -> list[Any]:
    """Return the second derivatives of `ys` with respect to each of `xs`, of shape `x.shape + x.shape`.

    Raises:
        TapeError: a RuntimeError; there is neither a graph nor a `tf.function`: eagerly, `fgrad.hessian` takes a
            function.
    """
    if mode.is_deferring() or holds_symbol((ys, xs)):
        return symbolic.hessians(ys, xs, name)
    if is_within():
        return hessians_within(ys, xs)
    is_without_tape()
    raise errors.TapeError(
        "tf.hessians is not supported when eager execution is enabled. Use fg.hessian(function)(x) instead."
    )
