"""Operators and ufuncs of tensors with pandas columns and frames: the result is a column with the same labels.

It holds one tensor as a pandas extension array, so that later operations of pandas with labels, such as alignment,
work as usual. Unsupported operations raise.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import FIND_PARTNER, classes_of
from fgrad.core.overrides import refused
from fgrad.core.primitive import BOXES, UFUNCS, Primitive
from fgrad.core.tensor import Tensor, apply, strip_ended

_OF_INTEGERS = {np.floor_divide, np.remainder, np.divmod}
"""Operations for which pandas treats integer division by 0 differently from NumPy."""


def find_partner(kind: type) -> Callable[..., Any] | None:
    """Return the handler for operations of tensors with a pandas type; None for other types."""
    columns = classes_of("pandas", "Series", "DataFrame", "Index")
    return _computed if issubclass(kind, columns + classes_of("pandas.api.extensions", "ExtensionArray")) else None


def _computed(primitive: Primitive, args: Sequence[Any]) -> Any:
    """Return the result of an operation on tensors and columns."""
    ufunc = next(ufunc for ufunc, entry in UFUNCS.items() if entry is primitive)
    args = [strip_ended(x) for x in args]
    if not any(type(x) is Tensor for x in args):
        return ufunc(*args)
    x = next(x for x in args if _is_column(x))
    pandas = sys.modules["pandas"]
    if hasattr(x, "tensor"):  # a TensorArray
        return x.__array_ufunc__(ufunc, "__call__", *args)
    if type(x) not in (pandas.Series, pandas.DataFrame) or sum(map(_is_column, args)) > 1:
        raise refused(x)
    if ufunc is np.matmul:
        return _product(primitive, x, args)
    if ufunc.signature is not None:
        raise refused(x)
    run = _Elementwise(primitive, ufunc, x, args)
    with np.errstate(all="ignore"):  # as in pandas
        return run.on_frame() if type(x) is pandas.DataFrame else run.on_series(x, args)


def _is_column(x: Any) -> bool:
    return type(x) not in BOXES and find_partner(type(x)) is not None


def _product(primitive: Primitive, x: Any, args: Sequence[Any]) -> Any:
    """Return the matrix product of a tensor with a column, without labels, or with a frame, with labels."""
    pandas: Any = sys.modules["pandas"]
    if type(x) is pandas.Series:
        return apply(primitive, [numbers_of(each) if each is x else each for each in args])
    first, second = args
    if second is not x or np.ndim(first) != 1:
        raise refused(x)
    values = np.stack([numbers_of(x.iloc[:, i]) for i in range(x.shape[1])], axis=1)
    return pandas.Series(_held(apply(primitive, [first, values])), index=x.columns)


class _Elementwise:
    """An elementwise operation on tensors and a column or frame."""

    def __init__(self, primitive: Primitive, ufunc: np.ufunc, x: Any, args: Sequence[Any]) -> None:
        self.primitive, self.ufunc, self.x, self.args = primitive, ufunc, x, args

    def on_series(self, series: Any, args: Sequence[Any]) -> Any:
        """Return a column, or several, for arguments that include a column."""
        values = numbers_of(series)
        args = [values if each is series else each for each in args]
        if self.ufunc in _OF_INTEGERS and all(np.result_type(each).kind in "biu" for each in args):
            raise refused(series, f"pandas defines {self.ufunc.__name__} of integers differently from NumPy")
        results = apply(self.primitive, args)
        several = results if isinstance(results, tuple) else (results,)
        for result in several:
            if result.shape != (len(series),):
                raise errors.ShapeError(
                    f"a column of {len(series)} elements cannot hold the shape {result.shape}.\n"
                    f"  at {errors.users_line()}\n"
                    "Pass a number or one for each element; or use the values without labels, x.to_numpy()."
                )
        columns = tuple(type(series)(_held(result), series.index, name=series.name) for result in several)
        return columns if isinstance(results, tuple) else columns[0]

    def on_frame(self) -> Any:
        """Return a frame, or several; a tensor with one axis has one element per column of the frame."""
        frame = self.x
        size = frame.shape[1]
        others = [each if each is frame or np.ndim(each) < 1 else self._spread(each) for each in self.args]
        results = []
        for i in range(size):
            series = frame.iloc[:, i]
            args = [
                series if each is frame else each[i] if np.ndim(each) == 1 else each[:, i] if np.ndim(each) else each
                for each in others
            ]
            results.append(self.on_series(series, args))
        if results and isinstance(results[0], tuple):
            return tuple(self._joined(columns) for columns in zip(*results, strict=True))
        return self._joined(results)

    def _spread(self, x: Any) -> Any:
        """Return an array or tensor with one element per column, or per element of the frame."""
        frame = self.x
        if np.ndim(x) == 1:
            if len(x) == frame.shape[1]:
                return x
        elif np.ndim(x) == 2 and all(a in (1, b) for a, b in zip(np.shape(x), frame.shape, strict=True)):
            return np.broadcast_to(x, frame.shape)
        raise errors.ShapeError(
            f"a frame of shape {frame.shape} cannot be combined with a tensor of shape {np.shape(x)}.\n"
            f"  at {errors.users_line()}\n"
            "Pass a number, one for each column, or one for each element; or use frame.to_numpy()."
        )

    def _joined(self, columns: Sequence[Any]) -> Any:
        frame = self.x
        joined = type(frame)(dict(enumerate(columns)), index=frame.index)
        joined.columns = frame.columns
        return joined


def numbers_of(series: Any) -> Any:
    """Return the contents of a column: an array of numbers, or a tensor."""
    held = getattr(series.array, "tensor", None)
    if type(held) is Tensor:
        return held
    if not isinstance(series.dtype, np.dtype) or series.dtype.kind not in "biufc":
        raise refused(series, f"its dtype is {series.dtype}, which is not supported with tensors")
    return series.to_numpy()


def _held(result: Any) -> Any:
    return importlib.import_module("fgrad.interop.tensor_arrays").held(result)


FIND_PARTNER.append(find_partner)
