"""Forward mode: a trace that carries tangents along with values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad.core.operands import PLAIN
from fgrad.core.payloads import INEXACT, explain_refusal, payload_of
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.reverse import Guarded
from fgrad.core.sums import is_finite
from fgrad.core.tensor import Tensor, apply, box, boxed, settle
from fgrad.core.trace import Call, Trace, attention, is_seen, running, through_observers

_ARRAY = np.ndarray
_PLAIN_TANGENTS = {_ARRAY, np.float64, np.float32, type(ZERO)}


def _of_batch(tangents: Sequence[Any], ndim: int) -> tuple[Trace | None, Sequence[Any]]:
    """Return the trace that holds tangents as batches of plain arrays, and these, to be broadcast with `ndim` axes."""
    batch: Trace | None = None
    bare: list[Any] = []
    for tangent in tangents:
        if type(tangent) is Tensor:
            trace, tangent = tangent.tracing, tangent.payload
            if not trace.is_map or type(tangent) is not _ARRAY or not (batch is None or batch is trace):
                return None, ()
            batch = trace
            if new := ndim + 1 - tangent.ndim:  # axes along which the argument is repeated
                tangent = tangent.reshape(len(tangent), *(1,) * new, *tangent.shape[1:])
        elif type(tangent) not in _PLAIN_TANGENTS:
            return None, ()
        bare.append(tangent)
    return batch, bare


class ForwardTrace(Trace):
    """Carries with every value its tangent: the derivative along one direction of the inputs.

    Args:
        guarded: tangents of inputs may hold exact zeros that mean "does not move".

    Attributes:
        guarded: exact zeros of tangents win over infinite slopes; so it is after a mask, as in a pass back.
    """

    differentiates = True

    def __init__(self, guarded: bool = False) -> None:
        super().__init__()
        self.guarded = guarded

    @override
    def known_of(self, tensor: Tensor) -> Sequence[Any]:
        return tensor.payload, tensor.mark

    def root(self, value: Any, tangent: Any) -> Tensor:
        """Return `value` as an input of this trace that moves along `tangent`."""
        return box(value, self, tangent)

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        values: list[Any] = []
        tangents: list[Any] = []
        is_plain = not (attention and is_seen())
        for arg in args:
            if type(arg) is Tensor and arg.tracing is self:
                value = arg.payload
                tangents.append(arg.mark)
            else:
                value = arg
                tangents.append(ZERO)
            values.append(value)
            is_plain = is_plain and type(value) in PLAIN  # for which `apply` would come to the same, after some time
        if not is_plain:
            ans = apply(primitive, values, metadata)
        else:
            ans = primitive.implementation(*values, **metadata) if metadata else primitive.compute(*values)
        if primitive.jvp is None:
            return boxed(ans)
        if is_plain and primitive.is_diagonal and (moved := self._scaled(primitive, tangents, ans, values)) is not None:
            return moved
        tangent = self._tangent(primitive, tangents, ans, values, metadata)
        if not self.guarded:
            joins_constants = primitive.parted is not None and any(t is ZERO for t in tangents)
            self.guarded = primitive.masks or primitive.fills or joins_constants
        return tuple(map(self.moving, ans, tangent)) if type(ans) is tuple else self.moving(ans, tangent)

    def _scaled(self, primitive: Primitive, tangents: Sequence[Any], ans: Any, values: Sequence[Any]) -> Tensor | None:
        """Return a result of plain arrays with its tangent, where that is plain, or a batch of plain ones; else None.

        A batch is taken out of its box for the time: what is done element by element takes it as it is.
        """
        batch: Trace | None = None
        if not _PLAIN_TANGENTS.issuperset(map(type, tangents)):
            batch, tangents = _of_batch(tangents, ans.ndim)
            if batch is None:
                return None
        jvp: Any = primitive.jvp
        tangent = settle(jvp(tangents, ans, *values))
        if self.guarded and primitive.guards_tangents and tangent is not ZERO and not is_finite(tangent):
            running.guarded += 1
            tangent = settle(jvp([t if t is ZERO else Guarded(t) for t in tangents], ans, *values))
        self.guarded = self.guarded or primitive.masks
        if tangent is ZERO or ans.dtype.kind not in INEXACT:
            return boxed(ans)  # type: ignore[no-any-return]
        shape = ans.shape if batch is None else (len(tangent), *ans.shape)
        if tangent.dtype is not ans.dtype:
            tangent = tangent.astype(ans.dtype)
        if tangent.shape != shape:
            tangent = np.broadcast_to(tangent, shape)
        return box(ans, self, tangent if batch is None else box(tangent, batch, None))

    def _tangent(
        self,
        primitive: Primitive,
        tangents: Sequence[Any],
        ans: Any,
        values: Sequence[Any],
        metadata: Mapping[str, Any],
    ) -> Any:
        """Return what the forward rule says."""
        handed, jvp = tangents, primitive.jvp
        assert jvp is not None
        if self.guarded and primitive.guards_tangents:
            handed = [t if t is ZERO else Guarded(t) for t in tangents]
        if attention and is_seen():
            return through_observers(
                "push", primitive, tangents, values, ans, go_on=lambda: jvp(handed, ans, *values, **metadata)
            )()
        try:
            return jvp(handed, ans, *values, **metadata) if metadata else jvp(handed, ans, *values)
        except Exception as error:
            explain_refusal(primitive, (*values, *tangents), error)
            raise

    def moving(self, value: Any, tangent: Any) -> Tensor:
        """Box a value with its tangent, in the form of the value."""
        if tangent is ZERO or value.dtype.kind not in INEXACT:
            return boxed(value)  # type: ignore[no-any-return]
        tangent = payload_of(tangent)
        if tangent.dtype is not (dtype := value.dtype):
            tangent = tangent.astype(dtype)
        if tangent.shape != (shape := value.shape):
            tangent = np.broadcast_to(tangent, shape)
        return box(value, self, tangent)

    def direction(self, tangent: Any) -> Any:
        """Return what the rule of a call is handed as the tangent of an input."""
        return tangent

    def moved(self, value: Any, tangent: Any) -> Tensor:
        """Box a result of a call with its tangent, from which the layer of this trace is taken."""
        own = type(tangent) is Tensor and tangent.tracing is self
        return self.moving(value, settle(tangent.payload) if own else tangent)

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        self.guarded = True  # what the user's rule has masked is not known
        return call.followed(self, leaves)
