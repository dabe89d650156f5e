"""Jacobians of a graph's tensors, without a tape."""

from __future__ import annotations

from typing import Any

from fgrad import errors
from fgrad.compat.deferred import symbolic
from fgrad.compat.deferred.graph import Convertible, holds_symbol
from fgrad.compat.tensorflow.missing import missing
from fgrad.core.tree import flatten, unflatten
from fgrad.transforms.linearization import UnconnectedGradients

__all__ = ["batch_jacobian", "jacobian"]


def jacobian(
    output: Convertible, inputs: Convertible, use_pfor: bool = True, parallel_iterations: int | None = None
) -> Any:
    """Return the Jacobians of a graph tensor, of shape `output.shape + input.shape`.

    Args:
        output: a graph tensor.
        inputs: a graph tensor or variable, or a container of them.
        use_pfor, parallel_iterations: ignored.

    Returns:
        Graph tensors with the structure of `inputs`; None where `output` does not depend on an input.

    Raises:
        TapeError: a RuntimeError; execution is eager.

    Example:
        >>> import fgrad.compat.tensorflow1 as tf
        >>> from fgrad.compat.tensorflow1.python.ops.parallel_for.gradients import jacobian
        >>> x = tf.constant([1.0, 2.0])
        >>> with tf.Session() as session:
        ...     session.run(jacobian(x * x[0], x))
        array([[2., 0.],
               [2., 1.]], dtype=float32)
    """
    _check_in_graph(output)
    leaves, treedef = flatten(inputs)
    return unflatten(treedef, symbolic.jacobians(output, leaves, (), UnconnectedGradients.NONE, symbolic.all_follow))


def batch_jacobian(output: Any, inp: Any, use_pfor: bool = True, parallel_iterations: int | None = None) -> Any:
    """Return the Jacobian of each row of a graph tensor with respect to the same row of another one.

    Args:
        output: a graph tensor, whose rows depend on the same rows of `inp` only.
        inp: a graph tensor with as many rows.
        use_pfor, parallel_iterations: ignored.

    Returns:
        A graph tensor of shape `(rows, *output.shape[1:], *inp.shape[1:])`; None if `output` does not depend on `inp`.

    Raises:
        TapeError: a RuntimeError; execution is eager.
        ShapeError: a ValueError; the numbers of rows differ.
    """
    _check_in_graph(output)
    rows = [x.shape[0] if x.shape.ndims else None for x in (output, inp)]
    if None not in rows and rows[0] != rows[1]:
        raise errors.ShapeError(
            f"Need first dimension of output shape {output.shape} and inp shape {inp.shape} to match: each row of "
            "output is differentiated with respect to the same row of inp."
        )
    return symbolic.batch_jacobian(output, inp, (), UnconnectedGradients.NONE, symbolic.all_follow)


def _check_in_graph(output: Convertible) -> None:
    if not holds_symbol((output,)):
        raise errors.TapeError(
            "how a tensor was computed is not recorded when execution is eager: use the method jacobian or "
            "batch_jacobian of tf.GradientTape, or fg.jacobian(function)."
        )


__getattr__ = missing(__name__)
