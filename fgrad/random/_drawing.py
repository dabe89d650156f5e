"""How a draw becomes an operation, and what each example of a `vmap` draws.

Pathwise(...)         a distribution whose draws move with its parameters; `draw` is one operation
counts, rows          the operations of draws that have no derivative
given(values)         values that were drawn for each example, as the tensor that the function under `vmap` sees
sizes()               how many examples there are, of each `vmap` around
own(x)                a parameter as one that each example has for itself

The numbers are NumPy's. With the parameters `p` and the draw `x(p)` known, its derivative is a function of both, the
velocity `v(x, p)`, for which

    F(x(p); p) = constant,    so that    v = -(dF/dp) / f

with the distribution function F and the density f (Figurnov, Mohamed and Mnih 2018, https://arxiv.org/abs/1805.08498).
A rule is handed the draw itself as a tensor, so a second derivative follows the draw, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fgrad.core.foreign import LOOKING_AT_VALUES
from fgrad.core.masked import Masked
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.core.trace import running
from fgrad.ops.batching import elementwise_batch
from fgrad.ops.families import ForEach, Sample, register

Formula = Callable[..., Any]


# What each example draws


def _maps() -> list[Any]:
    return [trace for trace in running.maps if trace.level]


def sizes() -> tuple[int, ...]:
    """Return the numbers of examples of the `vmap`s around, from outside."""
    return tuple(trace.size for trace in _maps())


def given(values: Any) -> Any:
    """Return values that lie along one axis more for each `vmap` around, as the tensor of one example."""
    for trace in _maps():
        values = trace.root(values)
    return values


def own(x: Any) -> Any:
    """Return a parameter that each example has for itself, also if it is the same for all."""
    return x + given(np.zeros(sizes(), np.int8)) if _maps() else x  # a small dtype, which widens no other


def each(draw: Callable[[], Any]) -> Any:
    """Return what is drawn once for each example, one after the other."""
    shape = sizes()
    if not shape:
        return draw()
    rows = [np.asarray(draw()) for _ in np.ndindex(*shape)]
    return given(np.reshape(np.stack(rows), (*shape, *rows[0].shape)))


# Draws that move with their parameters


def _drawn(*parameters: Any, draw: Formula) -> Any:
    return np.asarray(draw(*parameters))[()]


def _fitting(slope: Any, dtype: Any) -> Any:
    slope = np.asarray(slope) if isinstance(slope, float) else slope
    return slope if slope.dtype == dtype else slope.astype(dtype)


_SHAPES = {1: (((),), ((3,),), ((0, 2),)), 2: (((), ()), ((2, 1), (3,)), ((0, 3), (3,)))}
"""Of samples, by the number of parameters: few, because derivatives of draws take their time."""


@dataclass(eq=False)
class Pathwise:
    """A distribution of one number whose draws have derivatives in its parameters.

    Attributes:
        name: of the method of generators.
        motion: where a number lies that was drawn, as a function of the parameters: for the generic tests, which
            compare it with the velocities.
        velocities: for each parameter the derivative of a draw, a function of the draw and the parameters.
        domain: where the samples of the parameters lie.
    """

    name: str
    motion: Formula
    velocities: tuple[Formula, ...]
    domain: tuple[float, float] = (0.5, 2.0)
    primitive: Primitive = field(init=False)

    def __post_init__(self) -> None:
        self.primitive = Primitive(f"draw_{self.name}", _drawn, ForEach(self._reverse), self._forward)
        self.primitive.broadcasts, self.primitive.scales = True, "pullback"
        LOOKING_AT_VALUES.add(self.primitive.name)
        self.primitive.batch = elementwise_batch(self.primitive)
        self.primitive.samples = tuple(
            Sample(shapes, {"draw": self._in_double}, self.domain, complex=False)
            for shapes in _SHAPES[len(self.velocities)]
        )
        register(self.primitive)

    def draw(self, parameters: Sequence[Any], draw: Formula) -> Any:
        """Return numbers that `draw` draws for plain parameters, which are broadcast."""
        return apply(self.primitive, parameters, {"draw": draw})

    def _in_double(self, *parameters: Any) -> Any:
        return self.motion(*(np.asarray(x, np.float64) for x in parameters))

    def _reverse(self, argnum: int, ans: Any, *parameters: Any, draw: Formula) -> Any:
        velocity, dtype = self.velocities[argnum], ans.dtype
        return lambda ct: ct * _fitting(velocity(ans, *parameters), dtype)

    def _forward(self, tangents: Sequence[Any], ans: Any, *parameters: Any, draw: Formula) -> Any:
        total: Any = ZERO
        for t, velocity in zip(tangents, self.velocities, strict=True):
            if t is not ZERO:
                with np.errstate(all="ignore"):
                    part = Masked(t) * _fitting(velocity(ans, *parameters), ans.dtype)
                total = part if total is ZERO else total + part
        return total


# Draws that have no derivative


def _without_derivative(name: str) -> Primitive:
    def implementation(*parameters: Any, draw: Formula) -> Any:
        return np.asarray(draw(*parameters))[()]

    return Primitive(name, implementation)


counts = _without_derivative("draw_counts")
"""One number for each element of the parameters, which are broadcast."""
counts.batch = elementwise_batch(counts)

rows = _without_derivative("draw_rows")
"""What takes the parameters of one example at a time."""


def rows_batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
    """Draw for one example after the other."""
    examples = [[x[i] if m else x for x, m in zip(values, mapped, strict=True)] for i in range(size)]
    return np.stack([apply(rows, example, metadata) for example in examples])


rows.batch = rows_batch
