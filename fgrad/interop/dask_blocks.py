"""Elementwise functions of plain arrays on arrays that come in blocks, as those of dask do.

Such an array knows NumPy's functions by name, and no others; but a function in which each element depends on one of
each argument can be run on the blocks, one after the other, when they are computed. There it meets plain arrays.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.core import foreign


def on_blocks(function: Callable[..., Any], args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
    """Return what an elementwise function gives for arrays of which some are of dask; NotImplemented if none is."""
    library = sys.modules.get("dask.array")  # where there is such an array, it has been imported
    if library is None or not any(isinstance(x, library.Array) for x in args):
        return NotImplemented
    of_block = functools.partial(function, **metadata) if metadata else function
    example = _on_one_element(of_block, args)
    if type(example) is tuple:
        return NotImplemented
    return library.core.elemwise(functools.partial(_as_array, of_block), *args, dtype=example.dtype)


def _as_array(function: Callable[..., Any], *blocks: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(function(*blocks))


def _on_one_element(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return the result for one element of each array, which tells its dtype and number of axes."""
    ones = [np.ones((1,) * len(x.shape), x.dtype) if hasattr(x, "shape") else x for x in args]
    with np.errstate(all="ignore"):
        result = function(*ones)
    return result if type(result) is tuple else np.asarray(result)


foreign.ON_BLOCKS.append(on_blocks)
