"""Checks of one call of a NumPy function: a row of a table is a name, the call, and where it is made."""

from typing import Any

import numpy as np
import pytest
from coverage_table import twisted
from helpers import naming

import fgrad as fg
from fgrad.core.tensor import Tensor
from fgrad.core.tree import flatten, unflatten
from fgrad.testing import check_grads

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
    with np.errstate(all="ignore"):
        check_values(f, points)
        check_grads(f, points, order=order)
        check_apart(f, points)
        check_single(f, points)
        check_batch(f, points)


def check_values(f: Any, points: Any) -> None:
    """Tensors that are traced, and tensors that are not, must give what NumPy gives for arrays."""
    numpys = f(*points)
    for ours in (f(*map(Tensor, points)), fg.vjp(f, *points)[0], fg.jvp(f, points, points)[0]):
        for found, expected in zip(arrays(ours), arrays(numpys), strict=True):
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def weighed(f: Any, points: Any) -> Any:
    """Return the value, and what the pullback gives for weights that differ."""
    value, pullback = fg.vjp(f, *points)
    leaves, treedef = flatten(value)
    weights = [np.cos(np.arange(float(leaf.size))).reshape(leaf.shape) for leaf in leaves]
    return value, pullback(unflatten(treedef, weights))


def check_apart(f: Any, points: Any) -> None:
    """Each argument alone, the others being plain, must have the derivatives that it has among them.

    Those by all arguments together have been compared with differences. Tangents of single arguments add up to them.
    """
    if len(points) == 1:
        return
    _, gradients = weighed(f, points)
    together, total = arrays(fg.jvp(f, points, points)[1]), 0.0
    for place, (x, gradient) in enumerate(zip(points, gradients, strict=True)):
        alone = lambda x, place=place: f(*points[:place], x, *points[place + 1 :])  # noqa: E731
        total = total + np.array([*arrays(fg.jvp(alone, (x,), (x,))[1]), None], object)[:-1]
        for found, expected in zip(arrays(weighed(alone, (x,))[1]), arrays(gradient), strict=True):
            assert_close(found, expected, 1e-8)
    for found, expected in zip(total, together, strict=True):
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


def check_batch(f: Any, points: Any) -> None:
    """`vmap` must agree with a loop, for values and for gradients of their sum."""
    several = [np.stack([x, x * 1.02, x * 0.98]) for x in map(np.asarray, points)]
    loop = [weighed(f, each) for each in zip(*several, strict=True)]
    values, gradients = ([arrays(part) for part in parts] for parts in zip(*loop, strict=True))
    for found, expected in zip(arrays(fg.vmap(f)(*several)), zip(*values, strict=True), strict=True):
        np.testing.assert_allclose(found, np.stack(expected), rtol=1e-12, atol=1e-13)
    together = fg.vmap(lambda *points: weighed(f, points)[1])(*several)
    for found, expected in zip(arrays(together), zip(*gradients, strict=True), strict=True):
        np.testing.assert_allclose(found, np.stack(expected), rtol=1e-10, atol=1e-12)


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
