"""Elements that a mask without a value chooses: their number is unknown, so operations compute all elements.

    x[mask]                 a `Selected`, under `vmap` and while recording, if the mask depends on the examples
    x[mask] = f(x[mask])    writes where the mask is true
    np.sum(f(x[mask]))      reduces where the mask is true

Elementwise functions are applied to the whole array, in which ones take the place of elements that are not chosen: few
functions are undefined there. Where a reduction or a write consumes the result, the mask excludes them.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from typing_extensions import override

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.layers import below, is_undecided
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, as_now, strip_ended
from fgrad.errors.hints import missing_attribute


def is_open(mask: Any) -> bool:
    """Return whether a mask has no single value, so that the number of elements it chooses is unknown."""
    return type(below(strip_ended(mask), is_undecided)) in BOXES


def refuse(mask: Any, what: str = "indexing with a mask") -> NoReturn:
    """Raise where the number of elements that a mask chooses, or their places, would be used."""
    layer = below(strip_ended(mask), is_undecided)
    layer._trace.concrete(layer, what)  # raises an error with hints
    raise errors.ConcretizationError(what, errors.users_line())


class Selected(NDArrayOperatorsMixin):
    """The elements of an array where a mask is true: as in NumPy a new array, whose first axis counts them.

    Args:
        whole: an array with the axes of the mask first; what it holds where the mask is false has no meaning.
        mask: the mask, a tensor.

    Raises:
        ConcretizationError: from everything that depends on the number of elements, or on their places.
    """

    __slots__ = ("whole", "mask")

    def __init__(self, whole: Any, mask: Any) -> None:
        self.whole, self.mask = whole, mask

    @property
    def rest(self) -> tuple[int, ...]:
        """The shape of one element."""
        return self.whole.shape[self.mask.ndim :]  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        return 1 + len(self.rest)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.whole.dtype  # type: ignore[no-any-return]

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape; the number of elements is a tensor."""
        return np.count_nonzero(self.mask), *self.rest

    @property
    def size(self) -> Any:
        """The number of values: a tensor."""
        return math.prod(self.shape)

    @override
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        out = keywords.pop("out", None)
        if method != "__call__" or keywords.keys() - {"dtype", "casting"} or out not in (None, (self,)):
            refuse(self.mask)
        if ufunc is np.matmul:
            return self._product(*inputs)
        if ufunc.signature is not None:
            refuse(self.mask)
        result = self._elementwise(ufunc, inputs, keywords)
        if out is None:
            return result
        if result.rest != self.rest:
            raise ValueError(f"elements of shape {result.rest} cannot be written into elements of shape {self.rest}")
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise errors.DtypeError(
                f"{ufunc.__name__} of these elements in place would round {result.dtype} to {self.dtype}.\n"
                f"  at {errors.users_line()}\nWrite x = x + y for x += y."
            )
        self.whole = result.astype(self.dtype).whole
        return self

    def __array_function__(
        self, function: Callable[..., Any], types: Sequence[type], args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        if function in _ELEMENTWISE and not keywords.keys() & _OF_ARRAYS:
            return self._elementwise(function, args, keywords)
        if function in _REDUCTIONS:
            return self._reduced(function, **inspect.signature(function).bind(*args, **keywords).arguments)
        if function in (np.dot, np.inner) and len(args) == 2 and not keywords:
            x, y = args
            is_turned = function is np.inner and type(y) is not Selected
            return self._product(x, np.transpose(y) if is_turned else y)
        refuse(self.mask)

    def _elementwise(self, function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Apply a function element by element to arguments some of which are chosen by the mask."""
        if not any(type(x) is Selected for x in (*args, *keywords.values())):
            refuse(self.mask)

        def whole(x: Any) -> Any:
            found = values_where(x, self.mask, self.whole.ndim)
            return refuse(self.mask) if found is None and x is not None else found

        result = function(*map(whole, args), **{name: whole(x) for name, x in keywords.items()})
        if type(result) is tuple:
            return tuple(Selected(each, self.mask) for each in result)
        return Selected(result, self.mask)

    def _reduced(
        self, function: Callable[..., Any], a: Any, axis: Any = None, where: Any = True, **keywords: Any
    ) -> Any:
        """Return a reduction over elements."""
        keywords = {name: value for name, value in keywords.items() if value is not None and value is not np._NoValue}
        if a is not self or where is not True or keywords.keys() & {"out", "mean"}:
            refuse(self.mask)
        mask, whole = self.mask, self.whole
        axes = {*np.lib.array_utils.normalize_axis_tuple(range(self.ndim) if axis is None else axis, self.ndim)}
        own = tuple(each + mask.ndim - 1 for each in axes - {0})
        if 0 not in axes:
            return Selected(function(whole, axis=own, **keywords), mask)
        if function in _WITHOUT_START and "initial" not in keywords:
            refuse(mask)
        all_axes, chosen = (*range(mask.ndim), *own), over_elements(mask, whole.shape)
        if function is np.count_nonzero:
            result = np.count_nonzero(np.logical_and(chosen, whole), axis=all_axes, **keywords)
        else:
            result = function(whole, axis=all_axes, where=chosen, **keywords)
        # The axes of the mask are one axis of the elements.
        return np.reshape(result, result.shape[mask.ndim - 1 :]) if keywords.get("keepdims") else result

    def _product(self, x: Any, y: Any) -> Any:
        """Return a product: of two vectors of elements a number, of rows with a plain vector or matrix rows."""
        if type(x) is Selected and type(y) is Selected and x.ndim == y.ndim == 1:
            products = x * y
            return np.any(products) if products.dtype.kind == "b" else np.sum(products, dtype=products.dtype)
        if type(x) is Selected and type(y) is not Selected and x.ndim == 2 and 0 < np.ndim(y) <= 2:
            return Selected(x.whole @ y, x.mask)
        return refuse(self.mask)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not name.startswith("_") and not hasattr(np.ndarray, name):
            raise missing_attribute(self, name)
        if name not in _METHODS:
            refuse(self.mask)
        return functools.partial(getattr(np, name), self)

    def conj(self) -> Any:
        """Return the complex conjugates; real elements themselves, as NumPy's method does."""
        return np.conjugate(self) if self.dtype.kind == "c" else self

    conjugate = conj

    def astype(self, dtype: Any, *args: Any, **keywords: Any) -> Selected:
        """Return the elements in another dtype; the same object where NumPy's method returns it."""
        converted = self.whole.astype(dtype, *args, **keywords)
        return self if converted is self.whole else Selected(converted, self.mask)

    @override
    def __repr__(self) -> str:
        return f"<elements of dtype {self.dtype} that a mask without a value chooses>"

    def _refused(self, *args: object, **keywords: object) -> Any:
        refuse(self.mask)

    __len__ = __iter__ = __bool__ = __float__ = __int__ = __index__ = __complex__ = _refused
    __getitem__ = __setitem__ = __array__ = __reduce__ = _refused
    __hash__ = None  # type: ignore[assignment]


def select(x: Any, mask: Any) -> Selected:
    """Return the elements of an array where a mask without a value is true.

    Raises:
        IndexError: the mask does not match the array.
    """
    mask = as_now(strip_ended(mask))
    return Selected(np.where(over_elements(mask, x.shape), x, x.dtype.type(1)), mask)


def over_elements(mask: Any, shape: tuple[int, ...]) -> Any:
    """Return a mask over the first axes of an array so that it broadcasts against the array.

    Raises:
        IndexError: it does not match the shape of the array.
    """
    if mask.shape != shape[: mask.ndim]:
        raise IndexError(f"a mask of shape {mask.shape} does not match an array of shape {shape}")
    return np.reshape(mask, (*mask.shape, *(1,) * (len(shape) - mask.ndim)))


def values_where(value: Any, mask: Any, ndim: int) -> Any:
    """Return values for the elements where a mask is true so that they broadcast against the whole array.

    Args:
        value: elements that were chosen by the mask, or one value for all.
        mask: the mask.
        ndim: the number of axes of the array.

    Returns:
        The values; None if their number has to be that of the elements, which is unknown.

    Raises:
        ConcretizationError: the elements were chosen by another mask.
    """
    if type(value) is Selected:
        if not _is_same(value.mask, strip_ended(mask)):
            refuse(mask, "combining elements of two masks")
        return value.whole if value.whole.ndim == ndim else refuse(mask)
    if type(value) not in BOXES and not isinstance(value, (np.ndarray, list, tuple)):
        return value
    value, own = as_array(value), ndim - mask.ndim
    if value.ndim == own + 1 and value.shape[0] == 1:
        value = value.reshape(value.shape[1:])
    return None if value.ndim > own else value


def _is_same(x: Any, y: Any) -> bool:
    """Return whether two masks are known to be equal."""
    if x is y:
        return True
    if type(x) is Tensor and type(y) is Tensor:
        return x._trace is y._trace and x._trace.is_same(x, y, _is_same)
    return type(x) not in BOXES and type(y) not in BOXES and np.array_equal(x, y)


_ELEMENTWISE = {
    np.angle, np.around, np.clip, np.copy, np.full_like, np.i0, np.isclose, np.nan_to_num, np.ones_like, np.round,
    np.sinc, np.where, np.zeros_like,
}  # fmt: skip
_OF_ARRAYS = {"copy", "out", "shape"}
"""Keywords for a certain array, or a shape."""

_REDUCTIONS = {
    np.all, np.amax, np.amin, np.any, np.count_nonzero, np.max, np.mean, np.min, np.prod, np.std, np.sum, np.var,
}  # fmt: skip
_WITHOUT_START = {np.amax, np.amin, np.max, np.min}
"""Reductions that have no value for no elements, unless `initial` is given."""

_METHODS = {"all", "any", "clip", "copy", "dot", "max", "mean", "min", "prod", "round", "std", "sum", "var"}
