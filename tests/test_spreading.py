"""Short loops inside of loops are written iteration after iteration: the results stay the same, bit by bit."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fgrad as fg
from fgrad.graphs.loop import iterations_of
from fgrad.graphs.record import recorded
from fgrad.native import executable

RNG = np.random.default_rng(0)
M, X, Y = np.eye(3) + 0.1 * RNG.normal(size=(3, 3)), RNG.normal(size=3), RNG.normal(size=(6, 4, 3))


def carry_alone(m, x, y):
    """The force at the end of a step is that at the beginning of the next."""

    def leap(state, _):
        q, p = state
        p = p - 0.1 * (m @ q)
        q = q + 0.1 * p
        return (q, p - 0.1 * (m @ q)), None

    def iteration(q, row):
        (q, p), _ = fg.scan(leap, (q, row[0]), None, 4)
        return q * 0.9, p

    return fg.scan(iteration, x, y)


def along_arrays(m, x, y):
    """Each step takes a row and leaves one, and a number that only counts goes from iteration to iteration."""

    def step(state, row):
        c, k = state
        c = np.tanh(m @ c) + row * k
        return (c, k + 1.0), (c, np.sum(c))

    def iteration(c, rows):
        (c, _), (made, sums) = fg.scan(step, (c, np.float64(0.5)), rows)
        return c, (made, sums)

    return fg.scan(iteration, x, y)


def backwards(m, x, y):
    def iteration(c, rows):
        c, made = fg.scan(lambda c, row: (np.sin(c) + m @ row, c * row), c, rows, reverse=True)
        return c, made

    return fg.scan(iteration, x, y)


def handed_through(m, x, y):
    """What an iteration leaves is what it got, and what is always the same."""

    def iteration(c, rows):
        (a, b), made = fg.scan(lambda s, row: ((s[1], s[0]), (s[0] + row, 1.0)), (c, c * 2.0), rows)
        return a + b, made

    return fg.scan(iteration, x, y)


def three_deep(m, x, y):
    def iteration(c, rows):
        def middle(c, row):
            return fg.scan(lambda c, _: (np.cos(m @ c), None), c, None, 2)[0] + row, None

        return fg.scan(middle, c, rows)[0], c

    return fg.scan(iteration, x, y)


def one_after_the_other(m, x, y):
    """What the first loop has left is used behind the second."""

    def iteration(c, rows):
        a, made = fg.scan(lambda c, row: (np.sin(m @ c) + row, c), c, rows)
        b, _ = fg.scan(lambda c, row: (np.cos(c) * row, None), a, rows)
        return a - b, (a * 2.0, made)

    return fg.scan(iteration, x, y)


def numbers_of_python(m, x, y):
    """A number of Python's, and that of an iteration, take the dtype of what they meet."""
    short = y.astype(np.float32)

    def iteration(c, rows):
        (number, c), _ = fg.scan(lambda s, row: ((s[0] * 0.5, s[1] * s[0] + row), None), (3.0, c), rows)
        return fg.fori_loop(0, 3, lambda k, c: c + k, c), c * number

    return fg.scan(iteration, x.astype(np.float32), short)


PROGRAMS = (carry_alone, along_arrays, backwards, handed_through, three_deep)


def gradient_of(function):
    def total(m, x, y):
        return sum(np.sum(np.asarray(1.0) * leaf**2) for leaf in fg.tree_leaves(function(m, x, y)))

    return lambda m, x, y: fg.grad(total, (0, 1, 2))(m, x, y)


def loops_in_turns(function, *args):
    """Return how many loops there are in the iterations of each loop."""
    block = executable.Executable(recorded(function, args, {})[0]).block
    bodies = [iterations.body for iterations in map(iterations_of, block.equations) if iterations]
    return [sum(iterations_of(equation) is not None for equation in body.equations) for body in bodies]


LOOPING = (*PROGRAMS, one_after_the_other, numbers_of_python)


@pytest.mark.parametrize("way", [lambda f: f, gradient_of], ids=["value", "gradient"])
@pytest.mark.parametrize("program", LOOPING)
def test_the_same_bits_as_with_loops(program, way, monkeypatch):
    function = way(program)
    found = fg.tree_leaves(fg.compile(function)(M, X, Y))
    monkeypatch.setattr(executable, "unrolled", lambda block: block)
    for one, other in zip(found, fg.tree_leaves(fg.compile(lambda *args: function(*args))(M, X, Y)), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    for one, other in zip(found, fg.tree_leaves(function(M, X, Y)), strict=True):
        assert one.dtype == other.dtype
        precision = np.finfo(one.dtype).eps * 1e5
        np.testing.assert_allclose(one.numpy(), np.asarray(other), rtol=precision, atol=precision)


@pytest.mark.parametrize("program", PROGRAMS)
def test_short_loops_in_turns_are_none(program):
    assert loops_in_turns(program, M, X, Y) == [0]


def test_a_loop_at_the_top_stays_one():
    assert loops_in_turns(lambda x: fg.fori_loop(0, 4, lambda k, c: np.sin(c), x), X) == [0]


def test_a_long_loop_in_turns_stays_one():
    def iteration(c, _):
        return fg.fori_loop(0, 100, lambda k, c: np.sin(c) + np.cos(c), c), None

    assert loops_in_turns(lambda x: fg.scan(iteration, x, None, 5)[0], X) == [1]


def test_a_loop_with_a_condition_in_turns_stays_one():
    def iteration(c, _):
        return fg.while_loop(lambda c: np.sum(c) < 9.0, lambda c: c * 2.0, c, max_steps=4), None

    assert loops_in_turns(lambda x: fg.scan(iteration, np.abs(x), None, 5)[0], X) == [1]


def test_what_the_end_of_an_iteration_and_the_next_compute_alike_is_computed_once():
    assert "sum x5" in str(fg.compile(carry_alone).inspect(M, X, Y))  # of eight products of a matrix and a vector
