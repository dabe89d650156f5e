"""Sparse cotangents, which rules in Autograd's form may return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.compat.autograd.values import plain


class SparseObject:
    """A cotangent that is added to an array of zeros, or to accumulated cotangents.

    Args:
        vs: the vector space of the cotangent.
        mut_add: adds it to an array in place, or creates one, and returns the array.
    """

    def __init__(self, vs: Any, mut_add: Callable[[Any], Any]) -> None:
        self.vs, self.mut_add = vs, mut_add


def settled_sum(found: Any) -> Any:
    """Return a cotangent as arrays: a sparse one is written into tensors, which may contain traced numbers."""
    if not isinstance(found, SparseObject):
        return found
    zeros = fg.tree_map(lambda x: fnp.array(x) if isinstance(x, np.ndarray) else x, found.vs.zeros())
    return plain(found.mut_add(zeros))
