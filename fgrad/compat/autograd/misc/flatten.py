"""Conversion between nested containers and vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad as fg
from fgrad.compat.autograd.values import plain


def flatten(value: object) -> tuple[Any, Callable[[Any], Any]]:
    """Return a vector of all numbers in a tree, and a function that converts a vector back to the containers.

    Example:
        >>> vector, unflatten = flatten({"b": 1.0, "a": [2.0, 3.0]})
        >>> vector, unflatten(vector + 1)
        (array([2., 3., 1.]), {'b': np.float64(2.0), 'a': [np.float64(3.0), np.float64(4.0)]})
    """
    if not fg.tree_leaves(value):
        return np.zeros(0), lambda vector: value
    vector, unravel = fg.tree.ravel(value)
    return plain(vector), lambda vector: plain(unravel(vector))


def flatten_func(func: Callable[..., Any], example: object) -> tuple[Callable[..., Any], Callable[[Any], Any], Any]:
    """Return a function as a function from vectors to vectors, the conversion back, and the example as a vector."""
    vector, unflatten = flatten(example)
    return lambda x, *args: flatten(func(unflatten(x), *args))[0], unflatten, vector
