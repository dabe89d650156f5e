"""Loops over several elements at once: of every length, against NumPy, and against one element at a time."""

import numpy as np
import pytest
from helpers import naming

pytest.importorskip("llvmlite")

from fgrad.graphs.record import recorded
from fgrad.native.executable import Executable
from fgrad.native.options import Options
from fgrad.native.widening import Innermost, Widths, widened

RNG = np.random.default_rng(0)
LENGTHS = [*range(1, 20), 31, 32, 33, 63, 64, 65, 100]


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
        for columns in LENGTHS[:20]:
            a, x, b = RNG.normal(size=(rows, columns)), RNG.normal(size=columns), RNG.normal(size=(columns, 3))
            for found, wanted in zip(run(lambda a, x, b: (a @ x, a.T @ (a @ x), a @ b), a, x, b),
                                     (a @ x, a.T @ (a @ x), a @ b), strict=True):  # fmt: skip
                np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


WIDTHS = Widths({64: 8, 32: 16}, frozenset(["exp"]))


def wide(lines, stop=20, carried=(), behind=()):
    return widened(Innermost(lines, "%v0", 0, stop, carried, behind, "0", "entry", stop), WIDTHS)


ADDRESS = "  %t1 = getelementptr inbounds double, ptr %p0, i64 %v0"
OUT = "  %t9 = getelementptr inbounds double, ptr %p1, i64 %v0"


def test_what_is_made_wide():
    lines = [ADDRESS, "  %t2 = load double, ptr %t1", "  %t3 = call double @exp(double %t2)", OUT,
             "  store double %t3, ptr %t9"]  # fmt: skip
    text, used = wide(lines)
    assert used == {"_ZGVeN8v_exp": ("<8 x double>", "<8 x double>")}
    assert sum("@_ZGVeN8v_exp" in line for line in text) == 3  # two vectors, and the last elements once more
    text, used = wide(lines, stop=7)
    assert set(used) == {"_ZGVdN4v_exp", "_ZGVbN2v_exp"}
    assert sum("@exp(" in line for line in text) == 1
    text, _ = wide(lines, stop=1000)
    assert sum("@_ZGVeN8v_exp" in line for line in text) == 1  # a loop, without a rest


@pytest.mark.parametrize("lines", [
    ["  %t7 = mul i64 %v0, 3", ADDRESS.replace("%v0", "%t7"), "  %t2 = load double, ptr %t1"],
    [ADDRESS, "  %t2 = load double, ptr %t1", "  %t3 = icmp slt i64 %v0, 4"],
])  # fmt: skip
def test_elements_that_are_no_neighbours_and_numbers_of_iterations_are_made_wide(lines):
    assert is_wide(wide(lines))


@pytest.mark.parametrize("lines", [
    [ADDRESS.replace("%v0", "%t7"), "  %t2 = load double, ptr %t1", "  store double %t2, ptr %p9"],
    [ADDRESS, "  %t2 = load double, ptr %t1", "  %t3 = call double @unknown(double %t2)"],
    ["  something else"],
])  # fmt: skip
def test_what_is_left_to_the_compiler(lines):
    assert wide(lines) is None


def is_wide(written):
    return any("<" in line for line in written[0])


def test_sums_in_order_are_taken_iteration_by_iteration():
    lines = [ADDRESS, "  %t2 = load double, ptr %t1", "  %t3 = fadd double %t0, %t2"]
    carried = [("%t0", "double", "0.0", "%t3")]
    assert not is_wide(wide(lines, carried=carried))
    lines[-1] = lines[-1].replace("fadd", "fadd reassoc")
    assert is_wide(wide(lines, carried=carried))
    assert not is_wide(wide([*lines, OUT, "  store double %t3, ptr %t9"], carried=carried))
    assert not is_wide(wide(lines, carried=carried, behind=["  store double %t2, ptr %p0"]))
