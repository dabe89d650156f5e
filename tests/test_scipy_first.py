"""Every function of `fgrad.scipy` once, along one direction: the part of its tests that `make check` runs.

The tests of each area go on: to second order, at hard points, with batches and other dtypes.
"""

import numpy as np
import pytest
from rows import with_calls
from scipy_tables import AREAS

import fgrad as fg

ROWS = [row for rows in AREAS.values() for row in rows if row.error is None and row.calls]


def weights(like):
    """Return weights for a result, none of which is 0."""
    return np.reshape(np.cos(np.arange(1.0, np.size(like) + 1)), np.shape(like)) + (1j if np.iscomplexobj(like) else 0)


def as_number(function):
    """Return a function whose result is one real number, in which every element has its own weight."""

    def number(*points):
        found = fg.tree_leaves(function(*points))
        leaves = [fg.convert_to_tensor(leaf) for leaf in found if np.result_type(leaf).kind in "fc"]
        return sum(np.sum(np.real(leaf * weights(np.zeros(leaf.shape, leaf.dtype)))) for leaf in leaves)

    return number


@pytest.mark.parametrize("row", with_calls(ROWS))
def test_the_derivative_along_a_direction(row):
    for call in row.calls:
        number, points = as_number(call.function), [np.asarray(x) for x in call.points]
        direction = [weights(x) * np.maximum(np.abs(x), 0.1) for x in points]
        forward = float(fg.jvp(number, points, direction)[1])
        gradients = fg.vjp(number, *points)[1](1.0)
        reverse = sum(float(np.sum(np.real(np.conj(g) * d))) for g, d in zip(gradients, direction, strict=True))
        ends = [[x + step * d for x, d in zip(points, direction, strict=True)] for step in (1e-6, -1e-6)]
        high, low = (float(number(*map(fg.constant, end))) for end in ends)
        np.testing.assert_allclose(reverse, forward, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose((high - low) / 2e-6, forward, rtol=1e-3, atol=1e-5)
