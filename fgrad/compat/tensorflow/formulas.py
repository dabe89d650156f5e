"""Formulas shared by several operations, each finite and with a finite derivative wherever it exists."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.compat.deferred.graph import Convertible
from fgrad.core.primitive import PRIMITIVES, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import elementwise_batch
from fgrad.ops.indexing import ARRAY
from fgrad.typing import Array, Axes


def nonnegative_part(x: Any) -> Any:
    """Return `x` where it is positive and 0 elsewhere, with the derivative 0 at 0; NaN stays NaN."""
    return np.where(x <= 0, 0, x)


def minus_abs(x: Any) -> Any:
    """Return `-|x|`, with the derivative 1 at 0, for sums that are smooth there."""
    return np.where(x > 0, -x, x)


def logistic(x: Any) -> Any:
    """Return `1 / (1 + exp(-x))`, using exponentials of negative numbers only."""
    below = np.exp(np.where(x < 0, x, 0))
    return np.where(x < 0, below / (1 + below), 1 / (1 + np.exp(-np.where(x < 0, 0, x))))


def log_of_one_plus_exp(x: Convertible) -> Any:
    """Return `log(1 + exp(x))`, using exponentials of negative numbers only."""
    return nonnegative_part(x) + np.log1p(np.exp(minus_abs(x)))


def euclidean_norm(x: Convertible, axis: Axes, keepdims: bool) -> Any:
    """Return the square root of the sum of squares; its derivative at 0 is 0."""
    squares = np.sum(np.square(np.abs(x)), axis=axis, keepdims=keepdims)
    positive = squares > 0
    return np.where(positive, np.sqrt(np.where(positive, squares, 1)), squares)


def lowest(dtype: np.dtype[Any]) -> float:
    """Return the smallest number of a dtype, which is not above any other."""
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _from_standard_library(
    function: Callable[[float], float], slope: Callable[[Any], Any], name: str
) -> Callable[[Convertible], Any]:
    """Make an operation from a function of numbers and its derivative."""
    vectorized = np.vectorize(function, otypes=[np.float64])

    def implementation(x: Array) -> Any:
        x = np.asarray(x)
        return vectorized(x).astype(x.dtype if x.dtype.kind == "f" else np.float64)[()]

    primitive = Primitive(
        name,
        implementation,
        (lambda ans, x: lambda ct: ct * slope(x),),
        lambda tangents, ans, x: tangents[0] * slope(x),
        scales="pullback",
    )
    primitive.batch = elementwise_batch(primitive)
    return lambda x: apply(primitive, (x,))


def _bell(x: Array) -> Any:
    return 2 / math.sqrt(math.pi) * np.exp(-x * x)


error_function = _from_standard_library(math.erf, _bell, "erf")
"""The error function: the probability that a normal number of variance 1/2 is between -x and x."""
complementary_error_function = _from_standard_library(math.erfc, lambda x: -_bell(x), "erfc")
"""One minus the error function, accurate where it is small."""


def in_rows(rows: Any, numbers: Any, count: int) -> Any:
    """Return the sums of the rows with the same segment number, for `count` segments."""
    return apply(PRIMITIVES["scatter"], (rows, numbers), {"template": (ARRAY,), "shape": (count, *rows.shape[1:])})
