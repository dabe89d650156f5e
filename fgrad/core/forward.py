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
from fgrad.core.tensor import Tensor, apply, box, boxed, settle
from fgrad.core.trace import Call, Trace, attention, through_observers


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

    def root(self, value: Any, tangent: Any) -> Tensor:
        """Return `value` as an input of this trace that moves along `tangent`."""
        return box(value, self, tangent)

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        values: list[Any] = []
        tangents: list[Any] = []
        is_plain = not attention
        for arg in args:
            if type(arg) is Tensor and arg.tracing is self:
                value = arg.value
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
        handed, jvp = tangents, primitive.jvp
        if self.guarded and primitive.guards_tangents:
            handed = [t if t is ZERO else Guarded(t) for t in tangents]
        if attention:
            run = through_observers(
                "push", primitive, tangents, values, ans, go_on=lambda: jvp(handed, ans, *values, **metadata)
            )
            tangent = run()
        else:
            try:
                tangent = jvp(handed, ans, *values, **metadata) if metadata else jvp(handed, ans, *values)
            except Exception as error:
                explain_refusal(primitive, (*values, *tangents), error)
                raise
        if not self.guarded:
            joins_constants = primitive.parted is not None and any(t is ZERO for t in tangents)
            self.guarded = primitive.masks or primitive.fills or joins_constants
        return tuple(map(self.moving, ans, tangent)) if type(ans) is tuple else self.moving(ans, tangent)

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
        return self.moving(value, settle(tangent.value) if own else tangent)

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        self.guarded = True  # what the user's rule has masked is not known
        return call.followed(self, leaves)
