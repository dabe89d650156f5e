"""NumPy's names. Most functions dispatch to fgrad's rules; here are those that accept iterables, or create arrays.

The result is a writable plain array, unless an argument is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import fgrad.numpy as fnp
from fgrad.compat.autograd.namespaces import fill, gathered, holds_traced
from fgrad.compat.autograd.primitives import has_rule, primitive
from fgrad.compat.autograd.values import getval, plain
from fgrad.errors import ParameterError, hints
from fgrad.typing import ArrayLike

numpy_version = np.__version__

_HELPERS = {*globals()} - {"numpy_version"}
_numpys: dict[str, Any] = {}
"""NumPy's names, separate from those of this module, whose code uses Python's `any` and `sum`."""

fill(_numpys, np)


def _making(name: str) -> Callable[..., Any]:
    """Return a function that creates an array, or a tensor from traced numbers."""
    plainly, traced = getattr(np, name), getattr(fnp, name)

    @functools.wraps(plainly)
    def make(*args: ArrayLike, **kwargs: object) -> Any:
        makes = traced if any(map(holds_traced, args)) else plainly
        return makes(*args, **kwargs)

    return make


array, asarray, asanyarray, ascontiguousarray, asfortranarray, copy, full, full_like = map(
    _making, ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "copy", "full", "full_like")
)


def _joining(name: str) -> Callable[..., Any]:
    """Return a function that joins arrays from any iterable: a list, a generator, the values of a dict."""
    join = getattr(np, name)

    @functools.wraps(join)
    def joined(arrays: Iterable[Any], *args: Any, **kwargs: object) -> Any:
        parts = arrays if hasattr(arrays, "dtype") else list(map(gathered, arrays))
        return plain(join(parts, *args, **kwargs))

    return joined


concatenate, concat, stack, vstack, hstack, dstack, column_stack, block = map(
    _joining, ("concatenate", "concatenate", "stack", "vstack", "hstack", "dstack", "column_stack", "block")
)
row_stack = vstack


def concatenate_args(axis: int, *args: ArrayLike) -> Any:
    """Return arrays joined along an axis."""
    return concatenate(args, axis)


def array_from_args(array_args: Any, array_kwargs: Mapping[str, Any], *args: ArrayLike) -> Any:
    """Return an array from numbers and arrays."""
    return array(args, *array_args, **array_kwargs)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Any:
    """Return an array with others appended, as NumPy's `append`."""
    return np.append(gathered(arr), gathered(values), axis)


def select(condlist: Iterable[Any], choicelist: Iterable[Any], default: Any = 0) -> Any:
    """Return elements of the first choice whose condition holds, as NumPy's `select`."""
    return np.select(list(condlist), list(map(gathered, choicelist)), default)


def where(condition: Any, *args: Any, **kwargs: Any) -> Any:
    """Return elements of `x` or `y`, as NumPy's `where`; for plain arguments a plain result, as in Autograd."""
    if not args and not kwargs:
        return np.where(condition)
    if len(args) + len(kwargs) != 2 or not set(kwargs) <= {"x", "y"}:
        raise ParameterError("where needs a condition and both x and y, or only the condition.")
    x, y = (*args, *(kwargs[name] for name in ("x", "y") if name in kwargs))
    result = np.where(condition, gathered(x), gathered(y))
    return result if any(map(_holds_arrays, (condition, x, y))) else result.tolist()


def _holds_arrays(x: ArrayLike) -> bool:
    return any(map(_holds_arrays, x)) if isinstance(x, (list, tuple)) else hasattr(x, "dtype")


class _Joining:
    """`r_` and `c_`, which join the parts between brackets."""

    def __init__(self, name: str) -> None:
        self._plain, self._traced = getattr(np, name), getattr(fnp, name)

    def __getitem__(self, key: tuple[Any, ...]) -> Any:
        return (self._traced if holds_traced(key) else self._plain)[key]


r_, c_ = _Joining("r_"), _Joining("c_")


def make_diagonal(D: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:  # noqa: N803  # Autograd's name
    """Return matrices with the last axis of an array on their diagonals: requires `axis1=-1` and `axis2=-2`."""
    if (offset, axis1, axis2) != (0, -1, -2):
        raise ParameterError("make_diagonal needs offset=0, axis1=-1 and axis2=-2.")
    return D[..., None] * np.eye(D.shape[-1])


def metadata(A: ArrayLike) -> tuple[tuple[int, ...], int, Any, bool]:  # noqa: N803
    """Return the shape of an array, its number of axes, its dtype, and whether it is complex."""
    return np.shape(A), np.ndim(A), np.result_type(getval(A)), bool(np.iscomplexobj(A))


def wrap_namespace(old: Mapping[str, Any], new: dict[str, Any]) -> None:
    """Copy the functions of a module to a namespace: NumPy's unchanged, and others as primitives without rules.

    Args:
        old: a mapping of names, such as `vars(module)`.
        new: the namespace to fill, such as `globals()`.
    """
    known: dict[int, Any] = {}
    for name, value in old.items():
        if isinstance(value, type) or value is None or isinstance(value, (int, float)):
            new[name] = value
        elif callable(value):
            new[name] = known.setdefault(id(value), value if has_rule(value) else primitive(value))


def __getattr__(name: str) -> Any:
    if name not in _numpys:
        raise hints.missing_name(__name__, name)
    return _numpys[name]


__all__: list[str] = []
__all__.extend(sorted({*_numpys, *(name for name in globals() if not name.startswith("_"))} - _HELPERS))

__dir__ = __all__.copy
