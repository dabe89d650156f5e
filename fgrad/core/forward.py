"""Forward mode: a trace that carries tangents along with values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import Tensor, apply, box, boxed
from fgrad.core.trace import Call, Trace, attention, through_observers


class ForwardTrace(Trace):
    """Carries with every value its tangent: the derivative along one direction of the inputs."""

    differentiates = True

    def root(self, value: Any, tangent: Any) -> Tensor:
        """Return `value` as an input of this trace that moves along `tangent`."""
        return box(value, self, tangent)

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        active = [type(arg) is Tensor and arg.tracing is self for arg in args]
        values = [arg.value if ours else arg for arg, ours in zip(args, active, strict=True)]
        ans = apply(primitive, values, metadata)
        if primitive.jvp is None:
            return boxed(ans)
        tangents = [arg.mark if ours else ZERO for arg, ours in zip(args, active, strict=True)]
        if attention:
            jvp = primitive.jvp
            run = through_observers(
                "push", primitive, tangents, values, ans, go_on=lambda: jvp(tangents, ans, *values, **metadata)
            )
            tangent = run()
        else:
            tangent = primitive.jvp(tangents, ans, *values, **metadata)
        return tuple(map(self.moving, ans, tangent)) if type(ans) is tuple else self.moving(ans, tangent)

    def moving(self, value: Any, tangent: Any) -> Tensor:
        """Box a value with its tangent, in the form of the value."""
        if tangent is ZERO or value.dtype.kind not in "fc":
            return boxed(value)  # type: ignore[no-any-return]
        if tangent.dtype is not value.dtype:
            tangent = tangent.astype(value.dtype)
        if tangent.shape != value.shape:
            tangent = np.broadcast_to(tangent, value.shape)
        return self.root(value, tangent)

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        return call.followed(self, leaves)
