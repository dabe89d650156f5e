"""Python integers in JAX programs: a run with an integer overflow is discarded (`fgrad.graphs.integers`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fgrad.engines.jax.library import cast, is_known, jnp
from fgrad.graphs.equations import Equation
from fgrad.graphs.integers import DIVIDE, EXACT, GROW, LARGEST, SHIFT, is_integer, narrow_dtype
from fgrad.typing import Array


def void_integers(equation: Equation, inputs: Sequence[Any]) -> list[Any]:
    """Return booleans; if any is true, NumPy has to run the program."""
    integers = [x for x, each in zip(inputs, equation.inputs, strict=True) if is_integer(each)]
    dtype = narrow_dtype(equation)
    if dtype is not None:
        found: Iterator[Any] = (wrong for x in integers if type(x) is not int for wrong in _beyond(x, dtype))
    elif equation.outputs[0].is_weak and not equation.direct and len(integers) == len(inputs):
        found = _beyond_pythons(equation.primitive.name, integers)
    else:
        return []
    return [each for each in found if not (is_known(each) and not each)]


def _beyond(x: Array, dtype: np.dtype[Any]) -> Iterator[Any]:
    info = np.iinfo(dtype)
    yield x < int(info.min)
    if info.max < LARGEST:
        yield x > int(info.max)


def _beyond_pythons(name: str, integers: Sequence[Any]) -> Iterator[Any]:
    """Yield where Python arithmetic would raise, or have a result with too many bits."""
    if name in DIVIDE:
        yield integers[1] == 0
    floats = [cast(x, np.float64) for x in integers]
    if name in GROW:
        yield jnp.abs(getattr(jnp, name)(*floats)) >= float(LARGEST)
    if name in SHIFT:
        yield integers[1] < 0
    if name == "left_shift":
        yield jnp.abs(floats[0] * jnp.exp2(floats[1])) >= float(LARGEST)
    if name == "divide":
        yield from (jnp.abs(x) >= float(EXACT) for x in floats)
    if name == "power":  # JAX would truncate the exponent
        yield (integers[1] < 0) | (jnp.power(jnp.abs(floats[0]), floats[1]) >= float(LARGEST))
