"""The forward accumulator: carries tangents through the operations of a `with` block.

An accumulator is a forward trace that is opened by hand, as a tape is a reverse trace. A tape gives all derivatives of
one number in one pass; an accumulator gives the derivatives of all results along one direction, while they are
computed, and records nothing.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.foreign import INEXACT
from fgrad.core.forward import ForwardTrace, mark_of
from fgrad.core.masked import unmasked
from fgrad.core.primitive import BOXES, Primitive
from fgrad.core.tensor import boxed, strip_ended
from fgrad.core.trace import Trace
from fgrad.core.tree import flatten, leaves_and_nones, outline, tree_map
from fgrad.core.variable import Variable, VariableWatch
from fgrad.tapes.tape import (
    check_tensors,
    is_view,
    layer_of,
    lost_view,
    plain_value,
    put_layer,
    warn_of_integers,
    watched_layer_of,
)
from fgrad.transforms.linearization import UnconnectedGradients, check_unconnected, gradient_at_edge
from fgrad.typing import Array


class _HeldTrace(ForwardTrace):
    """A forward trace that belongs to an accumulator.

    Attributes:
        holder: returns the accumulator, or None when it has been freed.
    """

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        result = super().process(primitive, args, metadata)
        if primitive.jvp is None:
            return result
        return tuple(map(self._connected, result)) if type(result) is tuple else self._connected(result)

    def _connected(self, result: Any) -> Any:
        """Box a result with zero derivative, such as that of `floor`: it is connected, with tangent zero."""
        if result._trace is self or result.dtype.kind not in INEXACT:
            return result
        value = strip_ended(result)
        return self.root(value, np.zeros_like(value))


class ForwardAccumulator:
    """Computes derivatives along tangents of its primals, together with the values.

    Values computed in the block depend on the primals; values computed before are constants. It can be used inside and
    around tapes, gradient functions and other accumulators. Of two accumulators the one that was opened later is the
    inner one, so the earlier one can differentiate the product of the later one for the second derivative.

    Nothing is recorded: a tensor computed in the block holds its own tangent as long as the tensor lives. Only reads of
    variables in the thread that opened the accumulator are observed.

    Args:
        primals: a Tensor or Variable, or a container of them.
        tangents: a direction for each primal: a number, list, array or tensor of its shape. Arrays and tensors also
            have its dtype. Tangents of a primal that occurs twice are added.

    Raises:
        WatchError: a ValueError; a primal is not a Tensor or Variable.
        TangentError: a ValueError; a tangent has another structure, shape or dtype than its primal.

    Example:
        >>> import fgrad as fg
        >>> x = fg.constant([1.0, 2.0])
        >>> with fg.ForwardAccumulator(x, [1.0, 10.0]) as accumulator:
        ...     y = x * x
        >>> accumulator.jvp(y)
        Tensor([ 2., 40.])

        The product of a Hessian with a vector, forward over reverse:

        >>> with fg.ForwardAccumulator(x, [1.0, 0.0]) as accumulator:
        ...     with fg.GradientTape() as tape:
        ...         tape.watch(x)
        ...         y = x[0] ** 2 * x[1]
        ...     gradient = tape.gradient(y, x)
        >>> accumulator.jvp(gradient)
        Tensor([4., 2.])
    """

    def __init__(self, primals: Any, tangents: Any) -> None:
        self._tangents: Tangents = {}
        for primal, tangent in _pairs(primals, tangents):
            if primal.dtype.kind not in INEXACT:
                warn_of_integers("primal", primal)
                continue
            tangent = _fitting(primal, tangent)
            _, prior = self._tangents.get(id(primal), (primal, None))
            gone = functools.partial(_forget, weakref.ref(self), id(primal))
            self._tangents[id(primal)] = weakref.ref(primal, gone), tangent if prior is None else prior + tangent
        self._trace: _HeldTrace | None = None
        self._watch: VariableWatch | None = None

    def __enter__(self) -> ForwardAccumulator:
        if self._trace is not None and self._trace.level > 0:
            raise errors.TapeStateError(
                "Accumulator is already recording: this with block opens an accumulator that is already open.\n"
                "Use a second ForwardAccumulator for a second derivative."
            )
        if self._trace is None or self._watch is None:
            self._trace = _HeldTrace()
            self._trace.holder = weakref.ref(self)
            self._watch = VariableWatch(self._trace, all_trainable=False)
            weakref.finalize(self, _release, self._trace, self._tangents).atexit = False
        self._trace.__enter__()
        chosen: dict[Variable, Any] = self._watch.chosen
        for primal, tangent in _alive(self._tangents):
            if isinstance(primal, Variable):
                chosen[primal] = mark_of(tangent)
            elif watched_layer_of(self._trace, primal) is None:
                put_layer(primal, self._trace, mark_of(tangent))
        self._watch.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._trace is not None and self._watch is not None and self._trace.level > 0:
            self._watch.__exit__()
            self._trace.__exit__(*exception)

    def answers_for(self, trace: Trace) -> bool:
        """Return whether this accumulator holds the tangents of a trace."""
        return self._trace is trace

    def jvp(self, target: Any, unconnected_gradients: str = UnconnectedGradients.NONE) -> Any:
        """Return the derivative of `target` along the tangents: the product of its Jacobian with them.

        It can be called inside the block and after it, any number of times.

        Args:
            target: a Tensor or Variable, or a container of them.
            unconnected_gradients: the result if the target does not depend on the primals: `UnconnectedGradients.NONE`
                or `.ZERO`.

        Returns:
            Tangents with the structure of the target, each of the shape and dtype of its part of the target.

        Raises:
            TapeError: a RuntimeError; the accumulator was never entered.
            SourceError: a TypeError; the target is not a tensor.
            ParameterError: a ValueError; `unconnected_gradients` has another value.

        Example:
            >>> import fgrad as fg
            >>> w = fg.Variable(3.0)
            >>> with fg.ForwardAccumulator(w, 1.0) as accumulator:
            ...     powers = {"square": w**2, "cube": w**3}
            >>> accumulator.jvp(powers)
            {'square': Tensor(6.), 'cube': Tensor(27.)}
        """
        tangents = tangent_of(self, target, unconnected_gradients)
        return tangents

    def _tangent(self, x: Array, unconnected: str) -> Any:
        trace = _trace(self)
        assert self._watch is not None
        if isinstance(x, Variable):
            tangent: Any = self._watch.chosen.get(x)
        else:
            layer = watched_layer_of(trace, x)
            tangent = None if layer is None else layer._mark
        if tangent is None:
            self._check_views()
        return gradient_at_edge(None, plain_value(x), unconnected) if tangent is None else boxed(unmasked(tangent))

    def _check_views(self) -> None:
        """Raise if a primal is a view that is no longer traced."""
        for primal, _ in _alive(self._tangents):
            if is_view(primal) and watched_layer_of(_trace(self), primal) is None:
                raise lost_view("a primal", primal.shape)


def _trace(accumulator: ForwardAccumulator) -> Trace:
    """Return the trace of an accumulator that has been entered."""
    assert accumulator._trace is not None
    return accumulator._trace


def tangent_of(accumulator: ForwardAccumulator, target: Any, unconnected: str) -> Any:
    """Return the result of `ForwardAccumulator.jvp`, without its warnings."""
    check_unconnected(unconnected)
    if accumulator._trace is None:
        raise errors.TapeError(
            "this ForwardAccumulator was never entered: nothing has been computed.\n"
            "Compute the target inside `with fg.ForwardAccumulator(primals, tangents) as accumulator:`."
        )
    check_tensors("target", target)
    return tree_map(lambda leaf: accumulator._tangent(leaf, unconnected), target)


Tangents = dict[int, tuple[weakref.ref[Any], Any]]
"""The primals, by id, with their tangents; a primal that is gone has no derivative to ask for."""


def _alive(tangents: Tangents) -> list[tuple[Any, Any]]:
    """Return each primal that is not gone with its tangent."""
    pairs = [(held(), tangent) for held, tangent in list(tangents.values())]
    return [(primal, tangent) for primal, tangent in pairs if primal is not None]


def _forget(accumulator: weakref.ref[ForwardAccumulator], number: int, gone: Callable[..., Any]) -> None:
    """Free the tangent of a primal that is gone."""
    held = accumulator()
    if held is not None:
        held._tangents.pop(number, None)


def _release(trace: Trace, tangents: Tangents) -> None:
    """Free the tangents of the primals when their accumulator is gone.

    The watch is freed with its accumulator. The garbage collector may call this in the middle of `ContextVar.set`, so
    it must not set one itself: the interpreter would crash (https://github.com/python/cpython/issues/148891).
    """
    trace.level = 0
    for primal, _ in _alive(tangents):
        layer = None if isinstance(primal, Variable) else layer_of(trace, primal)
        if layer is not None:
            layer._mark = None


def _pairs(primals: Any, tangents: Any) -> list[tuple[Any, Any]]:
    """Return each primal with its tangent."""
    for leaf in leaves_and_nones(primals):
        if type(leaf) not in BOXES:
            raise errors.WatchError(
                f"Passed in object {leaf!r} of type {type(leaf).__name__!r} as a primal, not a Tensor or "
                "Variable.\n"
                "Make a tensor of it first, x = fg.constant(value), and compute with x."
            )
    leaves, treedef = flatten(primals)
    try:
        directions = treedef.flatten_up_to(tangents)
    except (ValueError, TypeError) as error:
        raise errors.TangentError(
            f"the primals have the structure {outline(primals)}, and the tangents {outline(tangents)}; "
            "they must be equal."
        ) from error
    return list(zip(leaves, directions, strict=True))


def _fitting(primal: Array, tangent: Array) -> Any:
    """Return a tangent as an array or tensor, with its shape and dtype checked."""
    has_dtype = hasattr(tangent, "dtype")
    tangent = strip_ended(tangent) if has_dtype else _array(tangent)
    tangent = tangent.copy() if isinstance(tangent, np.ndarray) else tangent  # the user may write to it
    if tangent.shape != primal.shape:
        raise errors.TangentError(
            f"a tangent has shape {tangent.shape}, and its primal has shape {primal.shape}; they must be equal."
        )
    fits = tangent.dtype == primal.dtype if has_dtype else np.can_cast(tangent.dtype, primal.dtype, "same_kind")
    if not fits:
        raise errors.TangentError(
            f"a tangent has dtype {tangent.dtype}, and its primal has dtype {primal.dtype}; they must be equal.\n"
            f"Convert it with .astype({str(primal.dtype)!r}) if that is what you want."
        )
    return tangent if has_dtype else tangent.astype(primal.dtype)


def _array(tangent: Any) -> Any:
    """Return numbers, or lists of them, as an array."""
    try:
        array = np.asarray(tangent)
    except (ValueError, TypeError) as error:
        if isinstance(error, errors.FgradError):
            raise
        array = np.asarray(None)
    if array.dtype.kind not in "biufc":
        raise errors.TangentError(
            f"a tangent is {tangent!r:.200}; it must be a number, list, array or tensor of numbers."
        )
    return array
