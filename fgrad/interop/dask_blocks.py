"""Elementwise functions of plain arrays, applied to chunked arrays such as those of dask.

Such an array supports NumPy functions only. But an elementwise function can be applied to its chunks, one after
the other, when they are computed; the chunks are plain arrays.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.core import foreign
from fgrad.core.coerce import classes_of


def on_blocks(function: Callable[..., Any], args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
    """Return the result of an elementwise function for dask arrays among its arguments; NotImplemented without one."""
    kinds = classes_of("dask.array", "Array")  # an existing dask array implies that the module is imported
    if not kinds or not any(isinstance(x, kinds) for x in args):
        return NotImplemented
    of_block = functools.partial(function, **metadata) if metadata else function
    example = _on_one_element(of_block, args)
    if type(example) is tuple:
        return NotImplemented
    elemwise: Any = sys.modules["dask.array"].core.elemwise
    return elemwise(functools.partial(_as_array, of_block), *args, dtype=example.dtype)


def _as_array(function: Callable[..., Any], *blocks: object) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(function(*blocks))


def _on_one_element(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return the result for one element of each array, which gives its dtype and number of axes."""
    ones = [np.ones((1,) * len(x.shape), x.dtype) if hasattr(x, "shape") else x for x in args]
    with np.errstate(all="ignore"):
        result = function(*ones)
    return result if type(result) is tuple else np.asarray(result)


foreign.ON_BLOCKS.append(on_blocks)
