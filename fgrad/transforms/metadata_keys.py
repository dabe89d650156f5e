"""Hashable keys for metadata: operations with equal keys and equal inputs are the same."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np


def frozen(value: Any) -> Any:
    """Return a hashable key of metadata; keys are equal if the values are equal bit by bit."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind, tuple([frozen(each) for each in value])
    if kind is int or kind is str or kind is bool or value is None:
        return kind, value
    if kind is slice:
        return kind, value.start, value.stop, value.step
    if kind is float or kind is complex:
        return kind, repr(value)  # 0.0 is not -0.0, and nan is nan
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind != "O":
        return kind, value.shape, value.dtype, value.tobytes()
    if isinstance(value, Mapping):
        return kind, tuple([(key, frozen(each)) for key, each in value.items()])
    return kind, identity(value)


def identity(value: object) -> Any:
    """Return a hashable key of an object: itself if it is hashable, otherwise its id."""
    if isinstance(value, functools.partial):
        return value.func, frozen(value.args), frozen(value.keywords)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value
