"""Samples along an axis, as arguments of SciPy's statistical functions.

rows(name, samples, axis, nan_policy)    samples with the reduced axis last, and a function that shapes the results
Result                                   the result of a test: a tuple, with further attributes
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from fgrad import errors
from fgrad.core.tree import register_pytree_node
from fgrad.ops.elementwise import astype
from fgrad.ops.families import plain_axis
from fgrad.ops.indexing import values_of
from fgrad.scipy._reals import real_array
from fgrad.typing import Array, ArrayLike, Operand

OF_SAMPLES = """
Args:
    a: the sample.
    axis: the axis of the sample; None for all elements.
    ddof: the correction of the count for the standard deviation.
    nan_policy: "propagate" or "raise".
    keepdims: whether the axis is kept with size 1.

Raises:
    UnsupportedError: a NotImplementedError; `nan_policy` is "omit".
"""
"""What functions of samples are documented with."""


def floating(x: ArrayLike, name: str) -> Any:
    """Return a sample as an array of real floating-point numbers.

    Raises:
        DtypeError: a TypeError; it is complex.
    """
    array = real_array(x, name)
    return array if array.dtype.kind == "f" else astype(array, np.float64)


def rows(
    name: str, samples: Sequence[Any], axis: int | None, nan_policy: str = "propagate", keepdims: bool = False
) -> tuple[list[Any], Callable[[Any], Any]]:
    """Return samples of one dtype with the reduced axis last, and a function that shapes the results.

    Args:
        name: the name of the function.
        samples: arrays; axes are prepended to those with fewer.
        axis: the reduced axis, several, or None for all elements.
        nan_policy: as in SciPy.
        keepdims: whether results keep the axes with size 1.

    Raises:
        AxisError: NumPy's, a ValueError; the axis does not exist.
        ValueError: `nan_policy` is "raise", and there is a NaN; or it is invalid.
        UnsupportedError: `nan_policy` is "omit".
    """
    arrays = [floating(x, name) for x in samples]
    dtype = np.result_type(*(x.dtype for x in arrays))
    arrays = [x if x.dtype == dtype else astype(x, dtype) for x in arrays]  # before a computation, as in SciPy
    for x in arrays:
        check_nan_policy(name, x, nan_policy)
    most = max(x.ndim for x in arrays)
    if axis is None:
        return [x.reshape(-1) for x in arrays], lambda result: result.reshape((1,) * most) if keepdims else result
    arrays = [x.reshape((1,) * (most - x.ndim) + x.shape) for x in arrays]
    axes = np.lib.array_utils.normalize_axis_tuple(plain_axis(axis), most)
    last = tuple(range(-len(axes), 0))
    moved = [np.moveaxis(x, axes, last) for x in arrays]
    merged = [x.reshape((*x.shape[: most - len(axes)], math.prod(x.shape[most - len(axes) :]))) for x in moved]
    return merged, lambda result: np.expand_dims(result, axes) if keepdims else result


def check_nan_policy(name: str, x: Array, nan_policy: str) -> None:
    """Raise if a sample contains a NaN that the policy excludes."""
    if nan_policy not in ("propagate", "raise", "omit"):
        raise ValueError("nan_policy must be one of {'propagate', 'raise', 'omit'}")
    if nan_policy == "omit":
        raise errors.UnsupportedError(
            f"{name} does not support nan_policy='omit' for a traced sample.\n"
            "Remove NaN before the call, which is differentiable: x[~np.isnan(x)]."
        )
    if nan_policy == "raise" and np.isnan(values_of(x, f"{name} with nan_policy='raise'")).any():
        raise ValueError("The input contains nan values")


class Result(tuple[Any, ...]):
    """The result of a test: a tuple of the first values, with all of them as attributes.

    Args:
        values: the attributes, in the order of `fields`.

    Attributes:
        fields: their names.
        length: the length of the tuple.
    """

    fields: ClassVar[tuple[str, ...]]
    length: ClassVar[int]

    def __new__(cls, *values: Operand) -> Result:
        """Make the tuple, and set the attributes."""
        self = super().__new__(cls, values[: cls.length])
        self.__dict__.update(zip(cls.fields, values, strict=True))
        return self

    def __init_subclass__(cls) -> None:
        register_pytree_node(cls, lambda result: (list(result.__dict__.values()), None), lambda _, each: cls(*each))

    def __reduce__(self) -> Any:
        return type(self), tuple(self.__dict__.values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"
