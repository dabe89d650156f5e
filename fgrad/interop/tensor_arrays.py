"""The array of a pandas column that holds a tensor. It is imported when a column is combined with a traced tensor.

held(result)     the array of a column for a result: a TensorArray if it is traced, otherwise a plain array
TensorArray      an extension array of pandas: elements, missing values, arithmetic, reductions
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from pandas.api.extensions import ExtensionArray, ExtensionDtype  # type: ignore[import-untyped]
from pandas.core.arraylike import OpsMixin  # type: ignore[import-untyped]
from typing_extensions import override

from fgrad import errors
from fgrad.core import concretize
from fgrad.core.coerce import as_array
from fgrad.core.layers import below, is_undecided
from fgrad.core.overrides import refused
from fgrad.core.tensor import Tensor, boxed, strip_ended
from fgrad.typing import DTypeLike

_SKIPPING: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (np.nansum, np.sum),
    "prod": (np.nanprod, np.prod),
    "mean": (np.nanmean, np.mean),
    "median": (np.nanmedian, np.median),
    "min": (np.nanmin, np.min),
    "max": (np.nanmax, np.max),
    "var": (np.nanvar, np.var),
    "std": (np.nanstd, np.std),
}
"""Functions of reductions without missing values, and with them."""

_ACCUMULATING: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "cumsum": (np.nancumsum, np.cumsum),
    "cumprod": (np.nancumprod, np.cumprod),
}
"""Functions of accumulations without missing values, and with them."""


def held(result: Any) -> Any:
    """Return the array of a column for a result: the tensor, or a plain array if nothing is traced.

    A result without exactly one axis is not a column, and is returned unchanged.
    """
    value = strip_ended(result)
    if np.ndim(value) != 1:
        return result
    return TensorArray(value) if type(value) is Tensor and not _is_plain(value) else np.asarray(value)


def _is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor holds concrete integers or booleans."""
    return tensor.dtype.kind in "bui" and type(below(tensor, is_undecided)) is not Tensor


class TensorDtype(ExtensionDtype):  # type: ignore[misc]
    """The dtype of a column that holds a tensor.

    Args:
        numbers: the dtype of the tensor.
    """

    type = Tensor
    na_value = np.nan
    _metadata = ("numbers",)
    _is_numeric = True

    def __init__(self, numbers: Any) -> None:
        self.numbers = np.dtype(numbers)

    @property
    def name(self) -> str:
        return f"tensor[{self.numbers}]"

    @property
    def kind(self) -> Any:
        return self.numbers.kind

    @property
    def _is_boolean(self) -> bool:
        return bool(self.numbers.kind == "b")

    @classmethod
    def construct_array_type(cls) -> Callable[[Any], Any]:
        return TensorArray

    def _get_common_dtype(self, dtypes: Sequence[Any]) -> TensorDtype | None:
        numbers = [getattr(dtype, "numbers", dtype) for dtype in dtypes]
        if all(isinstance(dtype, np.dtype) and dtype.kind in "biufc" for dtype in numbers):
            return TensorDtype(np.result_type(*numbers))
        return None


class TensorArray(OpsMixin, ExtensionArray):  # type: ignore[misc]
    """The array of a column that holds a tensor with one axis.

    NaN is a missing value, as in floating-point arrays of pandas. Converted to NumPy, it is an array of
    traced numbers.

    Args:
        tensor: a tensor with one axis, which is not copied.
    """

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __getattr__(self, name: str) -> Any:
        """Return a method of arrays that pandas' arrays do not have, such as `sum`: that of the tensor."""
        if not name.startswith("_") and callable(getattr(np.ndarray, name, None)):
            return getattr(self.tensor, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: DTypeLike | None = None, copy: bool = False) -> TensorArray:
        values = scalars.tensor if isinstance(scalars, TensorArray) else as_array(list(scalars))
        tensor = boxed(as_array(values, getattr(dtype, "numbers", None)))
        return cls(tensor.copy() if copy else tensor)

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[TensorArray]) -> TensorArray:
        return cls(np.concatenate([each.tensor for each in to_concat]))

    @property
    @override
    def dtype(self) -> TensorDtype:
        return TensorDtype(self.tensor.dtype)

    @property
    @override
    def nbytes(self) -> int:
        return int(self.tensor.size * self.tensor.dtype.itemsize)

    @override
    def __len__(self) -> int:
        return len(self.tensor)

    @override
    def __getitem__(self, key: Any) -> Any:
        key = self._key(key)
        found = self.tensor[key]
        return found if isinstance(key, (int, np.integer)) else TensorArray(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        value = np.nan if value is None or value is pd.NA else value
        self.tensor[self._key(key)] = self._operand(np.asarray(value) if isinstance(value, pd.Series) else value)

    def _key(self, key: object) -> Any:
        if isinstance(key, tuple):
            (key,) = (each for each in key if each is not Ellipsis)
        return key if isinstance(key, (int, np.integer, slice)) else pd.api.indexers.check_array_indexer(self, key)

    @override
    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> TensorArray:
        indices = np.asarray(indices, np.intp)
        if not allow_fill:
            return TensorArray(self.tensor[indices])
        if (indices < -1).any():
            raise ValueError("indices must be -1, for a missing value, or higher")
        missing = indices == -1
        if not missing.any():
            return TensorArray(self.tensor[indices])
        fill = np.nan if fill_value is None or fill_value is pd.NA else fill_value
        if missing.all():
            return TensorArray(boxed(np.full(len(indices), fill)))
        return TensorArray(np.where(missing, fill, self.tensor[np.where(missing, 0, indices)]))

    @override
    def isna(self) -> Any:
        return np.asarray(np.isnan(self.tensor)) if self.tensor.dtype.kind in "fc" else np.zeros(len(self), bool)

    @override
    def copy(self) -> TensorArray:
        return TensorArray(self.tensor.copy())

    @override
    def astype(self, dtype: Any, copy: bool = True) -> Any:
        dtype = pd.api.types.pandas_dtype(dtype)
        numbers = getattr(dtype, "numbers", dtype)
        if isinstance(numbers, np.dtype) and numbers.kind in "fc":
            return TensorArray(self.tensor.astype(numbers))
        return super().astype(dtype, copy)

    @override
    def to_numpy(self, dtype: Any = None, copy: bool = False, na_value: object = pd.api.extensions.no_default) -> Any:
        """Return the tensor; an array of traced numbers if the dtype is object or missing values are replaced."""
        if np.dtype(dtype).kind == "O" or na_value is not pd.api.extensions.no_default:
            return super().to_numpy(dtype, copy, na_value)
        tensor = self.tensor if dtype is None else self.tensor.astype(dtype)
        return tensor.copy() if copy else tensor

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        """Return an array of traced numbers."""
        concretize.collecting(self.tensor)
        return self.tensor._object_array(dtype, copy)

    @override
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **keywords: object) -> Any:
        if any(isinstance(x, (pd.Series, pd.DataFrame, pd.Index)) for x in inputs):
            return NotImplemented
        result = getattr(ufunc, method)(*map(self._operand, inputs), **keywords)
        return tuple(map(held, result)) if isinstance(result, tuple) else held(result)

    def _operand(self, x: Any) -> Any:
        """Return the tensor of a TensorArray; plain arrays and numbers are returned unchanged."""
        if isinstance(x, ExtensionArray) and not isinstance(x, TensorArray):
            x = x.to_numpy() if isinstance(x.dtype, np.dtype) else x
            if isinstance(x, ExtensionArray):
                raise refused(x, f"its dtype is {x.dtype}, which is not supported with tensors")
        return x.tensor if isinstance(x, TensorArray) else x

    def _arith_method(self, other: Any, op: Callable[..., Any]) -> Any:
        if isinstance(other, (pd.Series, pd.DataFrame, pd.Index)):
            return NotImplemented
        other = self._operand(np.asarray(other) if isinstance(other, (list, tuple, range)) else other)
        result = op(self.tensor, other)
        return tuple(map(held, result)) if isinstance(result, tuple) else held(result)

    _cmp_method = _logical_method = _arith_method

    def __neg__(self) -> Any:
        return held(-self.tensor)

    def __pos__(self) -> Any:
        return held(+self.tensor)

    def __abs__(self) -> Any:
        return held(abs(self.tensor))

    def __invert__(self) -> Any:
        return held(~self.tensor)

    def _accumulate(self, name: str, *, skipna: bool = True, **keywords: Any) -> Any:
        """Return an accumulation by name; where skipped values are missing, the result is missing."""
        if name not in _ACCUMULATING:
            raise _unsupported(name, _ACCUMULATING)
        result = _ACCUMULATING[name][0 if skipna else 1](self.tensor)
        return held(np.where(np.isnan(self.tensor), np.nan, result) if self.tensor.dtype.kind in "fc" else result)

    def _reduce(self, name: str, *, skipna: bool = True, keepdims: bool = False, **keywords: Any) -> Any:
        """Return a reduction by its name."""
        if name not in _SKIPPING or keywords.pop("min_count", 0) > 0:
            raise _unsupported(name, _SKIPPING)
        function = _SKIPPING[name][0 if skipna else 1]
        options = {"ddof": keywords.get("ddof", 1)} if name in ("var", "std") else {}
        result = boxed(function(self.tensor, **options))
        return TensorArray(result.reshape(1)) if keepdims else result


def _unsupported(name: str, known: Iterable[str]) -> errors.UnsupportedError:
    """Return the error for a feature that a column with a tensor does not support."""
    return errors.UnsupportedError(
        f"a column that holds a tensor has no {name}.\n  at {errors.users_line()}\n"
        f"It has {', '.join(known)}; x.to_numpy() is a tensor for NumPy functions."
    )
