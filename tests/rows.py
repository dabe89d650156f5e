"""Checks of one call of a NumPy function: a row of a table is a name, the call, and where it is made."""

from typing import Any

import numpy as np
import pytest
from coverage_table import twisted
from derivatives import Derivatives, check_derivatives
from helpers import naming

import fgrad as fg
from fgrad.core.tensor import Tensor
from fgrad.core.tree import flatten, unflatten

SINGLE = {"d": np.float32, "D": np.complex64}


def identified(rows: Any) -> list[Any]:
    """Return the rows as parameters of a test, by their names, which must differ."""
    names = [row[0] for row in rows]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    return [pytest.param(*row[1:], id=row[0]) for row in rows]


def arrays(tree: Any) -> list[Any]:
    return [x.numpy() if type(x) is Tensor else np.asarray(x) for x in fg.tree_leaves(tree)]


def check_row(f: Any, *points: Any, order: int = 2) -> None:
    """Check values, both modes to second order, arguments apart, single precision, and `vmap` against a loop.

    Args:
        f: takes `points`; its value on plain arrays is NumPy's own.
        points: arrays of double precision.
        order: of the highest derivative.
    """
    points = tuple(map(np.asarray, points))
    with np.errstate(all="ignore"):
        found = check_derivatives(f, points, order, rtol=1e-12)
        assert_same_values(f(*map(Tensor, points)), found.values)
        check_apart(f, points, found)
        check_single(f, points)
        check_batch(f, points, found)


def check_values(f: Any, points: Any) -> None:
    """Tensors that are traced, and tensors that are not, must give what NumPy gives for arrays."""
    numpys = arrays(f(*points))
    for ours in (f(*map(Tensor, points)), fg.vjp(f, *points)[0], fg.jvp(f, points, points)[0]):
        assert_same_values(ours, numpys)


def assert_same_values(ours: Any, numpys: list[Any]) -> None:
    for found, expected in zip(arrays(ours), numpys, strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def check_apart(f: Any, points: Any, together: Derivatives) -> None:
    """Each argument alone, the others being plain, must have the derivatives that it has among them.

    Those by all arguments together have been compared with differences. Tangents of single arguments add up to them.
    """
    if len(points) == 1:
        return
    total = 0.0
    for place, (x, gradient) in enumerate(zip(points, together.gradients, strict=True)):
        alone = lambda x, place=place: f(*points[:place], x, *points[place + 1 :])  # noqa: E731
        tangent = fg.jvp(alone, (x,), together.direction[place : place + 1])[1]
        total = total + np.array([*arrays(tangent), None], object)[:-1]
        for found, expected in zip(arrays(fg.vjp(alone, x)[1](together.weights)), arrays(gradient), strict=True):
            assert_close(found, expected, 1e-8)
    for found, expected in zip(total, arrays(together.tangent), strict=True):
        assert_close(found, expected, 1e-8)


def assert_close(found: Any, expected: Any, rtol: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected), initial=1e-3))


def check_single(f: Any, points: Any) -> None:
    """Values and derivatives of single precision have the dtype of NumPy's values, or of the arguments."""
    points = [x.astype(SINGLE[x.dtype.char]) for x in map(np.asarray, points)]
    numpys = arrays(f(*points))
    value, pullback = fg.vjp(f, *points)
    _, tangent = fg.jvp(f, tuple(points), tuple(points))
    for found, tangent_of_it, expected in zip(arrays(value), arrays(tangent), numpys, strict=True):
        assert found.dtype == tangent_of_it.dtype == expected.dtype
    leaves, treedef = flatten(value)
    ones = unflatten(treedef, [np.ones_like(leaf) for leaf in leaves])
    for gradient, x in zip(pullback(ones), points, strict=True):
        assert (gradient.dtype, gradient.shape) == (x.dtype, x.shape)


def check_batch(f: Any, points: Any, first: Derivatives) -> None:
    """`vmap` must agree with a loop, for values and for gradients of a weighed sum."""
    second = tuple(x * 1.02 for x in points)
    value, pullback = fg.vjp(f, *second)
    loops = [first.values, arrays(value)], [arrays(first.gradients), arrays(pullback(first.weights))]
    several = [np.stack(pair) for pair in zip(points, second, strict=True)]
    together = fg.vmap(lambda *points: fg.vjp(f, *points)[1](first.weights))(*several)
    for found, loop, tolerance in ((fg.vmap(f)(*several), loops[0], 1e-12), (together, loops[1], 1e-10)):
        for ours, expected in zip(arrays(found), zip(*loop, strict=True), strict=True):
            np.testing.assert_allclose(ours, np.stack(expected), rtol=tolerance, atol=tolerance / 10)


def with_calls(rows: Any) -> list[Any]:
    """Return the rows of a coverage table as parameters, for `check_calls`."""
    return [pytest.param(row, id=row.names[0]) for row in rows if row.calls]


def check_calls(row: Any, order: int = 2) -> None:
    """Check each call of a row of a coverage table as `check_row` does, in real and in complex numbers.

    The highest order is that of the first call in real numbers. The others have the same rules, and first derivatives
    tell what differs between them.
    """
    assert row.calls
    for number, call in enumerate(row.calls):
        with naming(f"call {number}"):
            check_row(call.function, *call.points, order=order if number == 0 else 1)
        if call.complex:
            with naming(f"call {number} of complex numbers"):
                check_row(call.function, *map(twisted, call.points), order=1)
