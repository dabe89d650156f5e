"""Cotangents that are mostly zeros, as rules in Autograd's form may return them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.compat.autograd.values import plain


class SparseObject:
    """A cotangent that is added to an array of zeros, or to what has come in already.

    Args:
        vs: the vector space of the cotangent.
        mut_add: writes it into an array, or adds it there, and returns the array.
    """

    def __init__(self, vs: Any, mut_add: Callable[[Any], Any]) -> None:
        self.vs, self.mut_add = vs, mut_add


def settled_sum(found: Any) -> Any:
    """Return a cotangent as arrays: a sparse one is written into tensors, which traced numbers can be written into."""
    if not isinstance(found, SparseObject):
        return found
    zeros = fg.tree_map(lambda x: fnp.array(x) if isinstance(x, np.ndarray) else x, found.vs.zeros())
    return plain(found.mut_add(zeros))
