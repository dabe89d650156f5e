"""Loops over several elements at once: of every length, against NumPy, and against one element at a time."""

import numpy as np
import pytest
from helpers import naming

pytest.importorskip("llvmlite")

from fgrad.graphs.record import recorded
from fgrad.native.executable import Executable
from fgrad.native.options import Options

RNG = np.random.default_rng(0)
LENGTHS = [*range(1, 10), 15, 16, 17, 31, 32, 33, 65]
"""Every rest of eight, and lengths on both sides of where a loop over several registers begins."""


def run(function, *args, **options):
    graph = recorded(function, args, {})[0]
    return Executable(graph, Options(threads=1, **options)).run([np.asarray(x) for x in args])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.bool_])
def test_elements_of_all_lengths(dtype):
    def f(x, y):
        return x * y, np.where(x > y, x, y), np.maximum(x, y) == y, (x + x).astype(np.float32), ~(x > 0) & (y > 0)

    for count in LENGTHS:
        x, y = (RNG.integers(-9, 9, size=count).astype(dtype) for _ in range(2))
        for found, wanted in zip(run(f, x, y), f(x, y), strict=True):
            with naming(count):
                assert found.dtype == wanted.dtype
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.bool_])
def test_reductions_of_all_lengths(dtype):
    names = ("sum", "prod", "max", "min", "any", "all", "cumsum", "argmax")

    def f(x):
        return [getattr(np, name)(x, axis=axis) for name in names for axis in (0, 1)]

    for count in LENGTHS:
        x = RNG.integers(-3, 4, size=(3, count)).astype(dtype)
        for found, wanted in zip(run(f, x), f(x), strict=True):
            with naming(count):
                assert found.dtype == wanted.dtype
                np.testing.assert_allclose(found, wanted, rtol=1e-6 if dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("name", ["exp", "sin", "tanh", "log1p", "cbrt"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_functions_of_all_lengths(name, dtype):
    def f(x):
        return getattr(np, name)(x), np.sum(getattr(np, name)(x * x))

    for count in LENGTHS:
        x = RNG.uniform(0.1, 2, size=count).astype(dtype)
        for found, precise, wanted in zip(run(f, x), run(f, x, precise=True), f(x), strict=True):
            with naming(count):
                np.testing.assert_allclose(found, wanted, rtol=8 * np.finfo(dtype).eps * np.sqrt(count))
                np.testing.assert_allclose(precise, wanted, rtol=8 * np.finfo(dtype).eps * np.sqrt(count))


def test_special_values_go_through_reductions():
    for count in LENGTHS:
        for value in (np.nan, np.inf, -np.inf):
            x = np.ones(count)
            x[RNG.integers(count)] = value
            for found, wanted in zip(run(lambda x: (np.max(x), np.min(x), np.sum(x), x + x), x), _of(x), strict=True):
                np.testing.assert_array_equal(found, wanted)
        zeros = np.full(count, -0.0)
        assert not np.signbit(run(np.sum, zeros)[0])  # as of NumPy's sum, which begins at 0.0
        assert np.signbit(run(lambda x: x + x, zeros)[0]).all()


def _of(x):
    return np.max(x), np.min(x), np.sum(x), x + x


def test_products_of_small_matrices():
    for rows in (1, 2, 3, 5, 8, 9):
        for columns in LENGTHS[:12:2] if rows % 2 else LENGTHS[1:12:2]:
            a, x, b = RNG.normal(size=(rows, columns)), RNG.normal(size=columns), RNG.normal(size=(columns, 3))
            for found, wanted in zip(run(lambda a, x, b: (a @ x, a.T @ (a @ x), a @ b), a, x, b),
                                     (a @ x, a.T @ (a @ x), a @ b), strict=True):  # fmt: skip
                np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
