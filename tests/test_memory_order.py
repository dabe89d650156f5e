"""Results lie in memory as NumPy's: what `ravel` and `reshape` return is a view of the same results, or a copy."""

import coverage_table as table
import numpy as np
import pytest
from helpers import in_groups, naming

import fgrad as fg
import fgrad.numpy
from fgrad.core.tensor import Tensor
from fgrad.core.tree import flatten

OTHERS = {
    "logspace", "median", "vectorize", "linalg.matrix_power",
    "array", "asarray", "asanyarray", "asarray_chkfinite", "asfortranarray", "require",
    "squeeze", "ndarray.squeeze",
}  # fmt: skip
"""Names whose results may lie otherwise: new arrays of objects, or views whose strides count."""


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def rows():
    found = [row for row in table.rows() if row.kind in (table.DIFFERENTIABLE, table.IN_PIECES)]
    return [row for row in found if (not row.until or row.present()) and row.names[0] not in OTHERS]


def orders(x):
    return (x.flags.c_contiguous, x.flags.f_contiguous)


def arrays(tree):
    return [x._payload if type(x) is Tensor else np.asarray(x) for x in flatten(tree)[0]]


def in_f_order(x):
    return np.asfortranarray(x) if np.ndim(x) > 1 else x


def check_orders(call, points):
    wanted = arrays(call.function(*points))
    if not any(x.ndim > 1 and x.size > 1 for x in wanted):
        return
    found = arrays(fg.vjp(call.function, *points)[0])
    for ours, numpys in zip(found, wanted, strict=True):
        if numpys.ndim > 1 and numpys.size > 1:
            assert orders(ours) == orders(numpys)


@in_groups("row", rows(), lambda row: row.names[0])
def test_results_have_the_memory_order_of_numpys(row):
    for number, call in enumerate(row.calls):
        with naming(row.names[0], number):
            check_orders(call, call.points)
            check_orders(call, tuple(map(in_f_order, call.points)))


MADE = {
    "take": lambda x: np.take(x, [1, 0], axis=1),
    "delete": lambda x: np.delete(x, 1, axis=1),
    "insert": lambda x: np.insert(x, 1, 0.0, axis=1),
    "compress": lambda x: np.compress([1, 0, 1, 1], x, axis=1),
    "select": lambda x: np.select([x.T > 0], [x.T]),
    "meshgrid": lambda x: np.meshgrid(x[0, :, 0], x[1, :, 0])[0],
    "quantile": lambda x: np.quantile(x, [0.2, 0.3], axis=1),
    "sort": lambda x: np.sort(x.T, axis=0),
    "partition": lambda x: np.partition(x.T, 1, axis=0),
    "stack": lambda x: np.stack([x.T, x.T]),
    "pad": lambda x: np.pad(x.T, 1),
    "full_like": lambda x: np.full_like(x.T, 2) * x.T,
    "zeros_like": lambda x: np.zeros_like(x.T) + 0 * x.T,
    "a product with a plain array": lambda x: x.T * np.asfortranarray(np.ones((2, 4, 3))),
    "matmul": lambda x: x @ np.ones((2, 3)),
    "tensordot": lambda x: np.tensordot(x, np.ones((4, 3)), axes=([1], [0])),
    "inv": lambda x: np.linalg.inv(x[:2, :2]),
    "solve": lambda x: np.linalg.solve(x[:2, :2], x[:2, :2]),
    "vander": lambda x: np.vander(x[0, :, 0]),
    "take of one": lambda x: np.take(x, 1, axis=0),
}


@pytest.mark.parametrize("name", MADE)
def test_writes_through_reshaped_results_are_those_of_the_plain_run(name):
    def f(x):
        y = MADE[name](x)
        y.reshape(-1)[:] = 7.0
        return np.sum(y) + 0 * np.sum(x)

    x = np.random.default_rng(0).uniform(0.1, 1.1, size=(3, 4, 2))
    wanted = f(x)
    assert fg.value_and_grad(f)(x)[0].item() == pytest.approx(wanted)
    assert fg.jvp(f, (x,), (x,))[0].item() == pytest.approx(wanted)
    for axis in (0, -1):
        batch = np.stack([x, x], axis)
        example = np.moveaxis(batch, axis, 0)[0].copy("K")  # examples of a batch lie together
        assert fg.vmap(f, in_axes=axis)(batch)[0].item() == pytest.approx(f(example))


NEW = {
    "pad by nothing": lambda x: np.pad(x, 0),
    "take of one": lambda x: np.take(x, 1, axis=0),
    "delete of nothing": lambda x: np.delete(x, [], axis=0),
    "insert of nothing": lambda x: np.insert(x, [], 0.0, axis=0),
    "sort": lambda x: np.sort(x, axis=0),
    "full_like": lambda x: np.full_like(x, 2.0, order=None),
}


@pytest.mark.parametrize("name", NEW)
def test_new_results_share_no_memory_with_arguments(name):
    def f(x):
        y = NEW[name](x)
        y[...] = 9.0
        return np.sum(x)

    x = np.ones((3, 2))
    value, slope = fg.value_and_grad(f)(x)
    assert (value.item(), slope.tolist()) == (f(x), [[1.0, 1.0]] * 3)


@pytest.mark.parametrize("order", ["C", "F", "K", "A", None])
@pytest.mark.parametrize("make", ["array", "asarray"])
@pytest.mark.parametrize("is_turned", [True, False])
def test_order_of_new_arrays(order, make, is_turned):
    def f(x, module):
        y = getattr(module, make)(x.T if is_turned else x, order=order)
        flat = y.ravel()
        flat += 10.0  # shows in y if the order is C
        return y

    x = np.arange(6.0).reshape(2, 3)
    expected = f(x.copy(), np)
    assert np.array_equal(f(fg.constant(x.copy()), fgrad.numpy), expected)
    assert np.array_equal(fg.vmap(lambda x: f(1.0 * x, fgrad.numpy))(x[None])[0], expected)
    assert np.array_equal(fg.value_and_grad(lambda x: np.sum(f(1.0 * x, fgrad.numpy) ** 2))(x)[0], np.sum(expected**2))
