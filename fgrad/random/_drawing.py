"""Draws as operations, and draws for the examples of a `vmap`.

Pathwise(...)         a distribution whose draws depend on its parameters; `draw` is one operation
counts, rows          the operations of draws without derivatives
given(values)         values drawn for each example, as the tensor that the function under `vmap` gets
sizes()               the batch sizes of the enclosing `vmap`s
own(x)                a parameter made separate for each example

The numbers are NumPy's. For parameters `p` and a draw `x(p)`, the derivative of the draw is a function of both, the
velocity `v(x, p)`, for which

    F(x(p); p) = constant,    so that    v = -(dF/dp) / f

with the distribution function F and the density f (Figurnov, Mohamed and Mnih 2018, https://arxiv.org/abs/1805.08498).
The rule receives the draw itself as a tensor, so a second derivative also differentiates the draw.
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
from fgrad.typing import Array

Formula = Callable[..., Any]


# Draws for each example


def _maps() -> list[Any]:
    return [trace for trace in running.maps if trace.level]


def sizes() -> tuple[int, ...]:
    """Return the batch sizes of the enclosing `vmap`s, the outermost first."""
    return tuple(trace.size for trace in _maps())


def given(values: Any) -> Any:
    """Return values with a leading axis for each enclosing `vmap`, as the tensor of one example."""
    for trace in _maps():
        values = trace.root(values)
    return values


def own(x: Any) -> Any:
    """Return a parameter as a mapped one, even if it is the same for all examples."""
    return x + given(np.zeros(sizes(), np.int8)) if _maps() else x  # a small dtype, which does not promote others


def each(draw: Callable[[], Any]) -> Any:
    """Return the results of drawing once for each example, in order."""
    shape = sizes()
    if not shape:
        return draw()
    rows = [np.asarray(draw()) for _ in np.ndindex(*shape)]
    return given(np.reshape(np.stack(rows), (*shape, *rows[0].shape)))


# Draws with derivatives


def _drawn(*parameters: Array, draw: Formula) -> Array:
    return np.asarray(draw(*parameters))[()]


def _fitting(slope: Array, dtype: np.dtype[Any]) -> Any:
    slope = np.asarray(slope) if isinstance(slope, float) else slope
    return slope if slope.dtype == dtype else slope.astype(dtype)


_SHAPES = {1: (((),), ((3,),), ((0, 2),)), 2: (((), ()), ((2, 1), (3,)), ((0, 3), (3,)))}
"""Shapes of samples, by the number of parameters: few, because derivatives of draws are slow."""


@dataclass(eq=False)
class Pathwise:
    """A distribution of one number whose draws have derivatives with respect to its parameters.

    Attributes:
        name: the name of the generator's method.
        motion: a draw as a function of the parameters: for the generic tests, which compare its derivative with the
            velocities.
        velocities: for each parameter the derivative of a draw, as a function of the draw and the parameters.
        domain: the domain of the parameters in samples.
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
        """Return numbers drawn by `draw` for plain parameters, which are broadcast."""
        return apply(self.primitive, parameters, {"draw": draw})

    def _in_double(self, *parameters: object) -> Any:
        return self.motion(*(np.asarray(x, np.float64) for x in parameters))

    def _reverse(self, argnum: int, ans: Array, *parameters: Array, draw: Formula) -> Callable[[Any], Any]:
        velocity, dtype = self.velocities[argnum], ans.dtype
        return lambda ct: ct * _fitting(velocity(ans, *parameters), dtype)

    def _forward(self, tangents: Sequence[Any], ans: Array, *parameters: Array, draw: Formula) -> Any:
        total: Any = ZERO
        for t, velocity in zip(tangents, self.velocities, strict=True):
            if t is not ZERO:
                with np.errstate(all="ignore"):
                    part = Masked(t) * _fitting(velocity(ans, *parameters), ans.dtype)
                total = part if total is ZERO else total + part
        return total


# Draws without derivatives


def _without_derivative(name: str) -> Primitive:
    def implementation(*parameters: object, draw: Formula) -> Any:
        return np.asarray(draw(*parameters))[()]

    return Primitive(name, implementation)


counts = _without_derivative("draw_counts")
"""One number for each element of the parameters, which are broadcast."""
counts.batch = elementwise_batch(counts)

rows = _without_derivative("draw_rows")
"""An operation on the parameters of one example at a time."""


def rows_batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Array:
    """Draw separately for each example."""
    examples = [[x[i] if m else x for x, m in zip(values, mapped, strict=True)] for i in range(size)]
    return np.stack([apply(rows, example, metadata) for example in examples])


rows.batch = rows_batch
