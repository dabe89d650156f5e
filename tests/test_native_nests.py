"""The loops that native programs are made of: which there are, how they lie, and how they are shared out."""

import numpy as np
import pytest

import fgrad as fg
from fgrad.core.tree import flatten
from fgrad.graphs.record import recorded
from fgrad.native import parallel
from fgrad.native.executable import Executable
from fgrad.native.options import Options
from fgrad.native.nests import Rows
from fgrad.native.plan import planned

RNG = np.random.default_rng(0)


def executable(function, *args, threads=1):
    return Executable(recorded(function, args, {})[0], Options(threads=threads))


def spaces(function, *args):
    """Return the spaces of the nests of a program, in order."""
    program = executable(function, *args)
    items = planned(program.program.all, program._results).items
    return [nest.writes[0].space for item in items if isinstance(item, Rows) for nest in item.nests]


def check(function, *args, rtol=1e-12, threads=1):
    found = executable(function, *args, threads=threads).run([np.asarray(x) for x in args])
    for ours, theirs in zip(found, flatten(function(*args))[0], strict=True):
        theirs = np.asarray(theirs)
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)
    return found


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


# Which there are


def test_operations_element_by_element_and_their_sums_are_one_nest():
    def f(x, y):
        z = np.sin(x) * y
        return z + 1.0, np.sum(z), np.sum(z * z), np.max(y)

    assert spaces(f, np.ones(50), np.ones(50)) == [(50,)]
    check(f, RNG.normal(size=50), RNG.normal(size=50))


def test_slices_and_their_transposes_are_no_arrays():
    assert len(spaces(fg.grad(rosenbrock), np.ones(50))) == 1
    check(fg.grad(rosenbrock), RNG.normal(size=50))


def test_what_is_dear_is_computed_once():
    def f(x):
        powers = np.exp(x)
        return powers[1:] * powers[:-1], np.sum(powers), powers[::2]

    functions = executable(f, np.ones(50)).llvm.split("define")[1:]
    assert len([each for each in functions if "exp(" in each]) == 1
    check(f, RNG.normal(size=50))


def test_what_a_large_space_needs_of_a_small_array_is_computed_once():
    def f(rates, x):
        return np.exp(rates)[:, None] * x

    assert spaces(f, np.ones(5), np.ones((5, 40))) == [(5,), (5, 40)]
    check(f, RNG.normal(size=5), RNG.normal(size=(5, 40)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arithmetic_is_numpys_to_the_last_bit(dtype):
    def f(x, y):
        return x * y - y * x, x * x + y * y - 3 * x * y, (x - y) / (x * y + 1), np.sqrt(x * x + y), 1 / x - y * y / x

    x, y = RNG.uniform(0.5, 2.0, size=(2, 1003)).astype(dtype)
    for found, wanted in zip(executable(f, x, y).run([x, y]), f(x, y), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert not np.any(fg.compile(np.cross)(np.stack([x] * 3, -1) * y[:, None], np.stack([x] * 3, -1) * y[:, None]))


# How they lie


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1:] - x[:-1],
        lambda x: x[::-1] + x,
        lambda x: x[::3],
        lambda x: np.pad(x, 2)[1:-1],
        lambda x: np.concatenate([x[4:], x[:4]]) * np.roll(x, 2),
        fg.grad(lambda x: np.sum(x[2::3] ** 2) + np.sum(x[::-2] ** 3)),
        fg.hessian(rosenbrock),
        lambda x: np.cumsum(x[::-1])[1:],
    ],
)
def test_parts_of_arrays(function):
    for size in (4, 5, 17):
        check(function, RNG.normal(size=size))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.T, x.T @ np.ones(7), np.sum(x, axis=0), np.max(x.T, axis=0)),
        lambda x: (np.sum(x * 2.0), np.mean(x, axis=1, keepdims=True) + x),
        lambda x: fg.grad(lambda x: np.sum(np.tanh(x) * x.T.reshape(9, 7).T.reshape(7, 9)))(x),
        lambda x: (x[:, 1:] - x[:, :-1], np.sum(x[1:], axis=0), np.prod(x[:, :3], axis=1)),
        lambda x: fg.grad(lambda x: np.sum((x[1:, 1:] - x[:-1, :-1]) ** 2))(x),
        lambda x: np.stack([x, x + 1.0], axis=1)[:, 0].T * 2.0,
    ],
)
def test_matrices(function):
    check(function, RNG.normal(size=(7, 9)))


def test_arrays_without_elements():
    check(lambda x: (np.sum(x), np.sum(x, axis=0), np.prod(x, axis=1), x + 1.0, x.T, np.any(x > 0)), np.ones((0, 3)))


def test_sums_of_short_numbers_lose_no_digits():
    x = RNG.random(2_000_000).astype(np.float32)
    (found,) = executable(np.sum, x).run([x])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.sum(x.astype(np.float64)), rtol=1e-6)


def test_functions_that_differ_in_places_alone_are_one():
    def f(x):
        for i in range(30):
            x = 0.5 * x + 0.1 * np.sin(x[i % 5]) * np.sum(x)
        return x

    text = executable(f, np.ones(5)).stages[0].segment.finished(set())
    assert text.count("define internal") < 20
    check(f, RNG.normal(size=5))


# How they are shared out


@pytest.fixture
def all_are_worth_parts(monkeypatch):
    monkeypatch.setattr(parallel, "_WORTH_PARTS", 1)


@pytest.mark.parametrize("threads", [1, 2, 3, 20])
@pytest.mark.usefixtures("all_are_worth_parts")
def test_parts_of_a_loop(threads):
    def f(x):
        return (
            np.exp(x), np.sum(np.exp(x)), np.sum(x, axis=0), np.max(x, axis=1), np.prod(x, axis=0), np.all(x > -9.0),
            np.any(x > 2.0, axis=0), x[1:] - x[:-1], np.cumsum(x, axis=1), np.argmax(x, axis=0), x.T,
        )  # fmt: skip

    x = RNG.normal(size=(37, 11))
    found = check(f, x, threads=threads)
    again = executable(f, x).run([x])
    assert all(ours.tobytes() == same.tobytes() for ours, same in zip(found, again, strict=True))


@pytest.mark.usefixtures("all_are_worth_parts")
def test_gradients_in_parts():
    check(fg.value_and_grad(rosenbrock), RNG.normal(size=500), threads=3)
    check(fg.grad(lambda x, i: np.sum(x[i] ** 2)), RNG.normal(size=30), RNG.integers(0, 30, 100), threads=3)


def test_threads_of_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert parallel.default_threads() == 3
    monkeypatch.setenv("FGRAD_NUM_THREADS", "1")
    assert parallel.default_threads() == 1
    with pytest.raises(fg.errors.ParameterError, match="threads of compile must be a positive integer"):
        fg.compile(np.sin, threads=0)


# Long programs


def chain(length):
    def f(x):
        y = x
        for i in range(length):
            y = np.sin(y) * 0.5 + x if i % 3 == 0 else (y * 1.01 if i % 3 == 1 else y - 0.1 * x)
        return np.sum(y)

    return f


def test_a_program_of_five_thousand_operations_neither_recurses_nor_has_long_functions():
    x = np.linspace(0.1, 1.0, 20)
    check(chain(100), x)
    lines = []
    for length in (1000, 5000):
        text = executable(chain(length), x).stages[0].segment.finished(set())
        lines.append(text.count("\n"))
        assert max(part.count("\n") for part in text.split("define ")) < 4000
    assert lines[1] < 8 * lines[0]
    check(chain(5000), x, rtol=1e-9)
    check(fg.grad(chain(1700)), x, rtol=1e-9)
