"""Forward mode: a trace that carries tangents along with values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad.core.coerce import PLAIN
from fgrad.core.foreign import INEXACT, explain_refusal, payload_of
from fgrad.core.masked import Masked, may_hold_zeros, unmasked
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import Tensor, apply, box, boxed, strip_ended
from fgrad.core.trace import Call, Trace, is_seen, observing, running, through_observers
from fgrad.core.unbroadcast import is_finite
from fgrad.typing import Array, ArrayLike

_ARRAY = np.ndarray
_PLAIN_TANGENTS = {_ARRAY, np.float64, np.float32, type(ZERO)}


def _bare(tangents: Sequence[Any], ndim: int) -> tuple[list[Any], Trace | None, bool, bool] | None:
    """Return tangents as plain arrays, for elementwise rules; None if one of them is of another kind.

    Args:
        tangents: plain ones, masked ones, and batches of plain ones.
        ndim: the number of axes of the result, to which a batch is broadcast.

    Returns:
        The plain arrays; the trace of which they are a batch, or None; whether any tangent is masked; and whether all
        nonzero ones are.
    """
    values: list[Any] = []
    batch: Trace | None = None
    has_masked, is_masked = False, True
    for tangent in tangents:
        if (kind := type(tangent)) is Masked:
            has_masked, tangent = True, tangent.derivative
            kind = type(tangent)
        elif tangent is not ZERO:
            is_masked = False
        if kind is Tensor:
            trace, tangent = tangent._trace, tangent._payload
            if not trace.is_map or type(tangent) is not _ARRAY or not (batch is None or batch is trace):
                return None
            batch = trace
            if new := ndim + 1 - tangent.ndim:  # axes along which the argument is repeated
                tangent = tangent.reshape(len(tangent), *(1,) * new, *tangent.shape[1:])
        elif kind not in _PLAIN_TANGENTS:
            return None
        values.append(tangent)
    return values, batch, has_masked, is_masked


class ForwardTrace(Trace):
    """Carries a tangent with every value, the derivative along a direction of the inputs, as the mark of its tensor."""

    differentiates = True

    @override
    def known_of(self, tensor: Tensor) -> Sequence[Any]:
        return tensor._payload, unmasked(tensor._mark)

    def root(self, value: Any, tangent: object) -> Tensor:
        """Return `value` as an input of this trace that moves along `tangent`."""
        return box(value, self, mark_of(tangent))

    def tangent_of(self, x: Any) -> Any:
        """Return the tangent of a value: an array or tensor for a tensor of this trace, otherwise ZERO."""
        return unmasked(x._mark) if type(x) is Tensor and x._trace is self else ZERO

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        values: list[Any] = []
        tangents: list[Any] = []
        is_plain = not (observing and is_seen())
        for arg in args:
            if type(arg) is Tensor and arg._trace is self:
                value = arg._payload
                tangents.append(arg._mark)
            else:
                value = arg
                tangents.append(ZERO)
            values.append(value)
            is_plain = is_plain and type(value) in PLAIN  # `apply` would give the same, more slowly
        if not is_plain:
            ans = apply(primitive, values, metadata)
        else:
            ans = primitive.implementation(*values, **metadata) if metadata else primitive.compute(*values)
        if primitive.jvp is None:
            return boxed(ans)
        is_scaled = is_plain and primitive.is_elementwise and not metadata and type(ans) is not tuple
        if is_scaled and (moved := self._scaled(primitive, tangents, ans, values)) is not None:
            return moved
        is_masked = bool(primitive.masks) or _are_masked(tangents, primitive.parted is not None)
        tangent = self._tangent(primitive, tangents, ans, values, metadata)
        if type(ans) is tuple:
            return tuple(self.moving(x, t, is_masked) for x, t in zip(ans, tangent, strict=False))
        return self.moving(ans, tangent, is_masked)

    def _scaled(
        self, primitive: Primitive, tangents: Sequence[Any], ans: Array, values: Sequence[Any]
    ) -> Tensor | None:
        """Return the result with its tangent, if the tangents are plain arrays or batches of them; else None.

        A batch is unboxed for the rule: an elementwise rule treats it like any other array.
        """
        jvp: Any = primitive.jvp
        if _PLAIN_TANGENTS.issuperset(map(type, tangents)):
            batch, is_masked = None, False
            tangent = strip_ended(jvp(tangents, ans, *values))
        else:
            if (found := _bare(tangents, ans.ndim)) is None:
                return None
            bare, batch, has_masked, is_masked = found
            tangent = strip_ended(jvp(bare, ans, *values))
            if has_masked and primitive.scales == "both" and tangent is not ZERO and not is_finite(tangent):
                running.guarded += 1
                tangent = strip_ended(jvp(_masked_like(tangents, bare), ans, *values))
        if tangent is ZERO or ans.dtype.kind not in INEXACT:
            return boxed(ans)  # type: ignore[no-any-return]
        shape = ans.shape if batch is None else (len(tangent), *ans.shape)
        if tangent.dtype is not ans.dtype:
            tangent = tangent.astype(ans.dtype)
        if tangent.shape != shape:
            tangent = np.broadcast_to(tangent, shape)
        if batch is not None:
            tangent = box(tangent, batch, None)
        return box(ans, self, Masked(tangent) if is_masked or primitive.masks else tangent)

    def _tangent(
        self,
        primitive: Primitive,
        tangents: Sequence[Any],
        ans: ArrayLike,
        values: Sequence[Any],
        metadata: Mapping[str, Any],
    ) -> Any:
        """Return the result of the forward rule."""
        bare, jvp = list(map(unmasked, tangents)), primitive.jvp
        handed = tangents if primitive.scales == "both" else bare
        assert jvp is not None
        if observing and is_seen():
            return through_observers(
                "push", primitive, bare, values, ans, go_on=lambda: jvp(handed, ans, *values, **metadata)
            )()
        try:
            return jvp(handed, ans, *values, **metadata) if metadata else jvp(handed, ans, *values)
        except Exception as error:
            explain_refusal(primitive, (*values, *bare), error)
            raise

    def moving(self, value: Array, tangent: Any, is_masked: bool) -> Tensor:
        """Box a value with its tangent, converted to the shape and dtype of the value."""
        if tangent is ZERO or value.dtype.kind not in INEXACT:
            return boxed(value)  # type: ignore[no-any-return]
        tangent = payload_of(unmasked(tangent))
        if tangent.dtype is not (dtype := value.dtype):
            tangent = tangent.astype(dtype)
        if tangent.shape != (shape := value.shape):
            tangent = np.broadcast_to(tangent, shape)
        return box(value, self, Masked(tangent) if is_masked else tangent)

    def direction(self, tangent: object) -> Any:
        """Return the tangent of an input that the rule of a call receives."""
        return unmasked(tangent)

    def moved(self, value: Array, tangent: Any) -> Tensor:
        """Box a result of a call with its tangent, taken out of the layer of this trace.

        A user's rule does not declare which zeros come from a mask, so all may.
        """
        own = type(tangent) is Tensor and tangent._trace is self
        return self.moving(value, strip_ended(tangent._payload) if own else tangent, True)

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        return call.followed(self, leaves)


def mark_of(tangent: object) -> Any:
    """Return the mark of an input with a tangent; exact zeros in the tangent mean "does not move"."""
    return Masked(tangent) if type(tangent) is not Masked and may_hold_zeros(tangent) else tangent


def _are_masked(tangents: Sequence[Any], joins: bool = False) -> bool:
    """Return whether the tangent of a result is masked: all nonzero ones are, or it `joins` them with zeros."""
    constant = [t is ZERO for t in tangents]
    if joins and any(constant):
        return True
    return all(is_zero or type(t) is Masked for t, is_zero in zip(tangents, constant, strict=True))


def _masked_like(tangents: Sequence[Any], bare: Sequence[Any]) -> list[Any]:
    """Return `bare` with those tangents masked that are masked in `tangents`."""
    return [Masked(own) if type(t) is Masked else own for t, own in zip(tangents, bare, strict=True)]
