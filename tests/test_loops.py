"""Loops and branches as functions: against the same program unrolled in Python, under each transform and each two."""

import functools
import gc
import itertools
import tracemalloc
import warnings

import numpy as np
import pytest
from helpers import naming
from hypothesis import given, settings
from hypothesis import strategies as st

import fgrad as fg
from fgrad import errors
from fgrad.testing import check_grads

A = np.array([[0.5, -0.3], [0.2, 0.4]])
XS = np.array([[0.3, -1.2], [0.8, 0.1], [-0.4, 0.6], [1.1, 0.2], [0.7, -0.9]])
POINT = np.array([0.7, -0.4])

# Programs: with fgrad's functions, and unrolled; functions of two numbers that return two


def step(carry, x):
    state, total = carry
    state = np.tanh(A @ state + x)
    return (state, total + state[0] * state[1]), {"y": state * total, "none": None}


def scanned(x, **options):
    (state, total), ys = fg.scan(step, (x, 0.0), XS, **options)
    assert ys["none"] is None
    assert ys["y"].shape == (5, 2)
    return state * total + np.sum(ys["y"] * XS, axis=0)


def unrolled(x, xs=XS):
    carry, ys = (x, 0.0), []
    for each in xs:
        carry, y = step(carry, each)
        ys.append(y["y"])
    return carry[0] * carry[1] + np.sum(np.stack(ys) * xs, axis=0)


def along_traced(x):
    carry, ys = fg.scan(lambda c, row: (c * row["a"] + row["b"], c), 1.0, {"a": x, "b": np.sin(x)})
    return carry + ys


def along_traced_unrolled(x):
    carry, ys = 1.0, []
    for each in x:
        ys.append(carry)
        carry = carry * each + np.sin(each)
    return carry + np.stack(ys)


def counted(x):
    return fg.fori_loop(1, 5, lambda i, c: np.sin(c * i) + x, 0.0 * x)


def counted_unrolled(x):
    c = 0.0 * x
    for i in range(1, 5):
        c = np.sin(c * i) + x
    return c


def grown(x):
    def body(c):
        return c[0] * 1.7 + 0.1 * np.sin(x), c[1] + 1

    return fg.while_loop(lambda c: np.sum(c[0] * c[0]) < 20.0, body, (x, 0), max_steps=9)[0]


def grown_unrolled(x):
    c = x
    while np.sum(c * c) < 20.0:
        c = c * 1.7 + 0.1 * np.sin(x)
    return c


def branched(x):
    return fg.cond(x[0] > 0, lambda x: np.sqrt(x[0]) * x, lambda x: np.exp(x), x)


def branched_unrolled(x):
    return np.sqrt(x[0]) * x if x[0] > 0 else np.exp(x)


def switched(x):
    place = np.floor(x[0] * 2.0).astype(int)
    return fg.switch(place, [np.sin, lambda x: np.sin(x) * x[1], lambda x: np.log(x[0]) * x], x)


def switched_unrolled(x):
    place = int(np.floor(x[0] * 2.0).astype(int))
    return [np.sin, lambda x: np.sin(x) * x[1], lambda x: np.log(x[0]) * x][min(max(place, 0), 2)](x)


def mapped(x):
    return fg.map(lambda row: np.dot(row, x) ** 2, A * x)


def mapped_unrolled(x):
    return np.stack([np.dot(row, x) ** 2 for row in A * x])


def nested(x):
    def iteration(c, row):
        c = fg.cond(np.sum(c) > 0, lambda c: c * row, lambda c: np.cos(c) + row, c)
        return fg.fori_loop(0, 2, lambda i, c: c - 0.1 * c**3, c), fg.map(lambda each: each * x[0], c)

    c, ys = fg.scan(iteration, x, XS, reverse=True)
    return c + ys[1]


def nested_unrolled(x):
    c, ys = x, []
    for row in XS[::-1]:
        c = c * row if np.sum(c) > 0 else np.cos(c) + row
        ys.append(c * x[0])
        for _ in range(2):
            c = c - 0.1 * c**3
    return c + ys[3]


PROGRAMS = {
    "scan": (scanned, unrolled),
    "scan, checkpoint": (lambda x: scanned(x, checkpoint=True), unrolled),
    "scan, segments": (lambda x: scanned(x, checkpoint=2, reverse=True), None),
    "scan along traced": (along_traced, along_traced_unrolled),
    "fori_loop": (counted, counted_unrolled),
    "while_loop": (grown, grown_unrolled),
    "cond": (branched, branched_unrolled),
    "switch": (switched, switched_unrolled),
    "map": (mapped, mapped_unrolled),
    "nested": (nested, nested_unrolled),
}


def backwards(x):
    carry, ys = (x, 0.0), []
    for each in XS[::-1]:
        carry, y = step(carry, each)
        ys.append(y["y"])
    return carry[0] * carry[1] + np.sum(np.stack(ys[::-1]) * XS, axis=0)


PROGRAMS["scan, segments"] = (PROGRAMS["scan, segments"][0], backwards)
PROGRAMS["scan, reverse"] = (lambda x: scanned(x, reverse=True), backwards)

# Transforms, of functions of two numbers that return two; and what stands for them with a program that asks for values


def by_tape(f):
    def gradient(x):
        x = fg.constant(x) if isinstance(x, np.ndarray) else x
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = np.sum(np.sin(f(x)))
        return tape.gradient(y, x)

    return gradient


def examples(x):
    return np.stack([x, 1.5 * x, -x, x[::-1]])


TRANSFORMS = {
    "grad": (lambda f: fg.grad(lambda x: np.sum(np.sin(f(x)))), None),
    "tape": (by_tape, None),
    "jvp": (lambda f: lambda x: fg.jvp(f, (x,), (np.array([1.0, -0.5]),))[1], None),
    "hessian": (lambda f: lambda x: fg.hessian(lambda x: np.sum(f(x)))(x) @ np.array([1.0, 2.0]), None),
    "vmap": (
        lambda f: lambda x: np.sum(fg.vmap(f)(examples(x)), axis=0),
        lambda f: lambda x: sum(f(each) for each in examples(x)),
    ),
    "checkpoint": (fg.checkpoint, lambda f: f),
    "trace": (lambda f: lambda x: fg.trace(f)(x)(x), lambda f: f),
    "compile": (fg.compile, lambda f: f),
}


def compare(outer, inner, program):
    """Hold a program under two transforms against the unrolled one; None is no transform."""
    ours, plain = PROGRAMS[program]
    for name in (inner, outer):
        ours = TRANSFORMS[name][0](ours) if name is not None else ours
    with naming(outer, inner, program), warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.CompileWarning)
        found, wanted = np.asarray(ours(POINT)), result_of_unrolled(plain, inner, outer)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@functools.cache  # many programs are the same loop in other forms
def result_of_unrolled(plain, inner, outer):
    for name in (inner, outer):
        if name is not None:
            transform, instead = TRANSFORMS[name]
            plain = (instead or transform)(plain)
    return np.asarray(plain(POINT))


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_transform(program):
    for transform in (None, *TRANSFORMS):
        if transform == "compile":
            pytest.importorskip("llvmlite")
        compare(transform, None, program)


INTERPRETED = [name for name in TRANSFORMS if name != "compile"]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.slow
def test_two_transforms(program):
    """A third of the pairs: each with some of the programs, and each transform in both places of each program."""
    place = list(PROGRAMS).index(program)
    for (i, outer), (j, inner) in itertools.product(enumerate(INTERPRETED), repeat=2):
        if (i + j + place) % 3 == 0:
            compare(outer, inner, program)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["scan, segments", "while_loop", "nested"])
def test_compiled_programs_of_two_transforms(program):
    """Each transform in one order or the other; `test_native_loops.py` has more of them."""
    pytest.importorskip("llvmlite")
    for place, name in enumerate(TRANSFORMS, list(PROGRAMS).index(program)):
        compare(*(("compile", name) if place % 2 else (name, "compile")), program)


# Random bodies

OPERATIONS = (
    lambda c, x: (np.sin(c[0]) + x, c[1]),
    lambda c, x: (c[0] * c[1], x - c[0]),
    lambda c, x: (c[1], np.tanh(c[0] + c[1])),
    lambda c, x: (c[0] / (1.0 + c[1] * c[1]), c[1] + 0.5 * x),
    lambda c, x: fg.cond(c[0] > c[1], lambda c: (c[0] - x, c[1]), lambda c: (c[0], c[1] * np.cos(x)), c),
    lambda c, x: fg.fori_loop(0, 2, lambda i, c: (c[1] * 0.9, c[0] + i * x), c),
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, len(OPERATIONS) - 1), min_size=1, max_size=5),
    st.integers(0, 5),
    st.booleans(),
    st.sampled_from([False, True, 1, 2]),
    st.floats(-2.0, 2.0),
)
def test_random_bodies(places, count, reverse, checkpoint, start):
    def body(c, x):
        for place in places:
            c = OPERATIONS[place](c, x)
        return c, c[0] * x

    def loop(start, xs):
        (a, b), ys = fg.scan(body, (start, 1.0), xs, reverse=reverse, checkpoint=checkpoint)
        return a * b + np.sum(ys * xs)

    def plain(start, xs):
        c, total = (start, 1.0), 0.0
        for i in range(count)[:: -1 if reverse else 1]:
            c, y = body(c, xs[i])
            total = total + y * xs[i]
        return c[0] * c[1] + total

    xs = np.linspace(-1.0, 1.5, count)
    with np.errstate(all="ignore"):  # products of products may be too large
        for transform in (lambda f: f, lambda f: fg.grad(f, argnums=(0, 1)), lambda f: fg.grad(fg.grad(f))):
            found, wanted = transform(loop)(start, xs), transform(plain)(start, xs)
            fg.tree_map(
                lambda a, b: np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-8, 1e-9), found, wanted
            )
        starts = np.array([start, 0.3, -1.0])
        found = fg.vmap(fg.grad(loop), in_axes=(0, None))(starts, xs)
        np.testing.assert_allclose(np.asarray(found), [fg.grad(plain)(each, xs).item() for each in starts], 1e-8, 1e-9)


# Iterations that do not look at what they are handed


IGNORING = {
    "scan": lambda x, xs: fg.scan(lambda c, y: (x * 0.9, c), xs[0], xs)[1],
    "scan in segments": lambda x, xs: fg.scan(lambda c, y: (y * 0.9, c * c), x * xs[0], xs, checkpoint=2)[1],
    "one of two": lambda x, xs: fg.scan(lambda c, y: ((c[1], x * x), c[0] * c[1]), (xs[0] ** 2, xs[1] * x), xs)[1],
    "a constant": lambda x, xs: fg.scan(lambda c, y: (np.ones(2), c * c), xs[0] ** 2, xs)[1],
    "fori_loop": lambda x, xs: fg.fori_loop(0, 3, lambda i, c: x * 0.9, xs[0]),
    "fori_loop of integers": lambda x, xs: fg.fori_loop(0, 3, lambda i, c: c + 1, 3) * x * xs[0],
    "while_loop": lambda x, xs: fg.while_loop(lambda c: c[1] < 3, lambda c: (x * 0.9, c[1] + 1), (xs[0], 0), 5)[0],
    "while_loop of signs": lambda x, xs: (
        fg.while_loop(lambda c: c[1] < 3, lambda c: (np.sign(x), c[1] + 1), (np.ones(2), 0), 1)[0] * xs[0] * x
    ),
    "map": lambda x, xs: fg.map(lambda y: x * 0.9, xs),
    "nested": lambda x, xs: fg.scan(
        lambda c, y: (fg.fori_loop(0, 2, lambda i, d: x, c), fg.scan(lambda d, z: (z * x, d), c, xs)[1]), xs[0], xs
    )[1],
}
BY_ONE_ARGUMENT = {
    "grad": fg.grad,
    "jacfwd": fg.jacfwd,
    "hessian": fg.hessian,
    "grad by the other": lambda f, k: fg.grad(lambda *args: np.sum(fg.grad(f, k)(*args) ** 3), 1 - k),
    "vmap of grad": lambda f, k: lambda x, xs: fg.vmap(fg.grad(f, k), (None, 0))(x, np.stack([xs, 2 * xs])),
    "grad of vmap": lambda f, k: fg.grad(lambda x, xs: np.sum(fg.vmap(f, (None, 0))(x, np.stack([xs, 2 * xs]))), k),
}


@pytest.mark.parametrize("name", IGNORING)
@pytest.mark.slow
def test_programs_of_iterations_that_ignore_what_they_are_handed_have_the_derivatives_of_plain_loops(name):
    """The compiled derivative is that of the plain loop, and so is the derivative of the compiled loop.

    Each transform is on both sides of the compiler, and by both arguments, in one program or another.
    """
    pytest.importorskip("llvmlite")

    def loss(x, xs):
        return np.sum(IGNORING[name](x, xs) ** 2)

    xs = np.arange(6.0).reshape(3, 2) / 7 + 0.3
    compiled, number = fg.compile(loss), list(IGNORING).index(name)
    for place, (label, transform) in enumerate(BY_ONE_ARGUMENT.items()):
        argnum, outside = (place + number) % 2, (place + number // 2) % 2 == 0
        wanted = np.asarray(transform(loss, argnum)(POINT, xs))
        found = fg.compile(transform(loss, argnum)) if outside else transform(compiled, argnum)
        with naming(label, argnum, "outside" if outside else "inside"):
            np.testing.assert_allclose(np.asarray(found(POINT, xs)), wanted, rtol=1e-10, atol=1e-12)


# What loops promise


def test_plain_arrays_stay_plain():
    (state, total), ys = fg.scan(step, (POINT, 0.0), XS)
    assert type(state) is type(ys["y"]) is np.ndarray
    assert type(total) is np.float64
    assert type(fg.fori_loop(0, 3, lambda i, c: c + 1, 0)) is int


def test_empty_loops_know_the_form_of_their_outputs():
    drawn = np.random.default_rng(0)

    def iteration(c, x):
        return c + np.sum(x), {"a": np.outer(x, x).astype(np.float32), "n": None, "i": 3, "r": drawn.normal()}

    start = drawn.bit_generator.state
    carry, ys = fg.scan(iteration, 0.0, np.zeros((0, 2)))
    assert drawn.bit_generator.state == start
    assert type(carry) is np.float64
    assert (ys["a"].shape, ys["a"].dtype, ys["n"], ys["i"].dtype) == ((0, 2, 2), np.float32, None, np.int64)
    assert fg.map(np.sin, np.zeros((0, 3))).shape == (0, 3)
    assert fg.scan(lambda c, x: (c, x), 1.0, length=0) == (1.0, None)
    assert fg.fori_loop(3, 1, lambda i, c: 1 / 0, 5.0) == 5.0
    assert fg.while_loop(lambda c: False, lambda c: 1 / 0, {"a": 5.0}) == {"a": 5.0}
    assert fg.while_loop(lambda c: True, lambda c: c + 1, 0, max_steps=0) == 0
    assert fg.grad(lambda x: np.sum(fg.scan(iteration, x, np.zeros((0, 2)))[0]))(2.0).item() == 1.0


def test_length_without_arrays():
    carry, ys = fg.scan(lambda c, x: (2 * c, c if x is None else 1 / 0), 1.0, length=4)
    assert (carry, ys.tolist()) == (16.0, [1.0, 2.0, 4.0, 8.0])
    assert fg.scan(lambda c, x: (2 * c, c), 1.0, None, 4, reverse=True)[1].tolist() == [8.0, 4.0, 2.0, 1.0]
    assert fg.scan(lambda c, x: (2 * c, c), 1.0, {"a": []}, 2)[1].tolist() == [1.0, 2.0]


def test_numbers_of_pythons_take_the_dtype_that_they_meet():
    xs = np.ones(3, np.float32)
    carry, ys = fg.scan(lambda c, x: (c + x, c * 2), 0.0, xs)
    assert (carry.dtype, ys.dtype, ys.tolist()) == (np.float32, np.float32, [0.0, 2.0, 4.0])
    carry, ys = fg.trace(lambda c, xs: fg.scan(lambda c, x: (c + x, c * 2), c, xs))(0.0, xs)(0.0, xs)
    assert (carry.dtype, ys.dtype, ys.tolist()) == (np.float32, np.float32, [0.0, 2.0, 4.0])
    assert fg.scan(lambda c, x: (1.0, c), np.float32(0), xs)[0].dtype == np.float32
    assert fg.grad(lambda x: fg.scan(lambda c, y: (c + y * x, 0), 0, xs)[0])(np.float32(2)).item() == 3.0
    assert fg.vmap(lambda x: fg.cond(x > 0, lambda: 1.0, lambda: x))(xs).dtype == np.float32
    recorded = fg.trace(lambda c: fg.scan(lambda c, x: (c * 2.0, c), c, length=3))(1.0)
    assert recorded(-0.0)[1].tolist() == [-0.0, -0.0, -0.0]
    assert np.signbit(recorded(-0.0)[1].numpy()).all()


def test_functions_may_write_into_their_carry():
    init, xs = np.zeros(2), np.ones((3, 2))

    def add(c, x):
        c += x
        return c, c

    carry, ys = fg.scan(add, init, xs)
    assert (carry.tolist(), ys.tolist(), init.tolist()) == ([3, 3], [[1, 1], [2, 2], [3, 3]], [0, 0])
    tensor = fg.constant(init)
    assert fg.scan(add, tensor, xs)[1].tolist() == ys.tolist()
    assert tensor.tolist() == [0, 0]
    assert fg.vmap(lambda init: fg.scan(add, init, xs)[1])(np.zeros((2, 2))).tolist() == [ys.tolist()] * 2

    def view(c, x):
        first = c[:1]
        c[0] = c[0] * x
        return c, first

    factors = np.array([1.0, 2.0, 3.0])
    assert fg.scan(view, np.ones(2), factors)[1].tolist() == [[1.0], [2.0], [6.0]]
    gradient = fg.grad(lambda init: np.sum(fg.scan(view, init, factors)[1]))(np.ones(2))
    assert gradient.tolist() == [9.0, 0.0]
    assert fg.scan(lambda c, x: (c, x.__iadd__(1)), 0.0, xs)[1].tolist() == (xs + 1).tolist()
    assert xs.tolist() == np.ones((3, 2)).tolist()

    def double(c):
        c[0] = c[0] * 2
        return c

    batch = np.array([[1.0, 0.0], [20.0, 0.0], [3.0, 1.0]])
    ends = fg.vmap(lambda c: fg.while_loop(lambda c: c[0] < 10, double, c))(batch)
    assert ends.tolist() == [[16.0, 0.0], [20.0, 0.0], [12.0, 1.0]]
    both = fg.vmap(lambda c: fg.cond(c[0] < 10, double, lambda c: c + 1, c))(batch)
    assert both.tolist() == [[2.0, 0.0], [21.0, 1.0], [6.0, 1.0]]


def test_variables():
    w, v = fg.Variable(2.0), fg.Variable(3.0)
    for options in ({}, {"checkpoint": True}):
        gradients = fg.implicit_gradients(
            lambda options=options: fg.scan(lambda c, x: (c * w * x, c), v, np.arange(1.0, 4.0), **options)[0]
        )()
        assert [(gradient.item(), variable) for gradient, variable in gradients] == [(216.0, w), (48.0, v)]


def test_one_way_runs_where_the_condition_has_a_value():
    assert fg.cond(True, np.sin, lambda x: 1 / 0, 0.0) == 0.0
    assert fg.grad(lambda x: fg.cond(x > 1, lambda: x * x, lambda: 1 / 0))(3.0).item() == 6.0
    assert fg.cond(np.float64(2.5), lambda: "yes", lambda: "no") == "yes"
    assert [fg.switch(i, [lambda: "a", lambda: "b", lambda: "c"]) for i in (-3, 0, 1, 2, 9)] == list("aabcc")


def test_the_way_that_is_not_taken_has_the_derivative_0():
    def root(x):
        return fg.cond(x > 0, lambda x: np.sqrt(x) + np.log(x), lambda x: 0.0 * x, x)

    points = np.array([0.0, -1.0, 4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fg.vmap(fg.grad(root))(points).tolist() == [0.0, 0.0, 0.5]
        assert fg.vmap(lambda x: fg.jvp(root, (x,), (1.0,))[1])(points).tolist() == [0.0, 0.0, 0.5]
        assert fg.vmap(fg.grad(fg.grad(root)))(points).tolist() == [0.0, 0.0, -1 / 32 - 1 / 16]
        assert fg.trace(fg.grad(root))(4.0)(0.0).item() == 0.0

    def quotient(x):  # what is done after three iterations divides 1 by 0 in the fourth
        return fg.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1.0, c[1] + x / c[0]), (x, 0.0))[1]

    assert fg.vmap(quotient)(np.array([3.0, 1.0])).tolist() == [5.5, 1.0]
    wanted = [fg.grad(quotient)(each).item() for each in (3.0, 1.0)]
    assert fg.vmap(fg.grad(quotient))(np.array([3.0, 1.0])).tolist() == wanted


def test_bounds_that_differ_between_examples():
    ends = np.array([3, 0, 5])
    assert fg.vmap(lambda n: fg.fori_loop(0, n, lambda i, c: c + i, 0))(ends).tolist() == [3, 0, 10]
    assert fg.vmap(lambda n: fg.fori_loop(n, 4, lambda i, c: c + i, 0))(ends).tolist() == [3, 6, 0]
    powers = fg.vmap(fg.grad(lambda x, n: fg.fori_loop(0, n, lambda i, c: c * x, 1.0)), in_axes=(None, 0))
    assert powers(2.0, ends).tolist() == [12.0, 0.0, 80.0]


def test_a_loop_ends_after_the_most_steps():
    assert fg.while_loop(lambda c: True, lambda c: c + 1, 0, max_steps=7) == 7
    many = fg.vmap(lambda c: fg.while_loop(lambda c: c < 9, lambda c: c * 3.0, c, max_steps=2))
    assert many(np.array([0.1, 4.0, 10.0])) == pytest.approx([0.9, 12.0, 10.0])
    graph = fg.trace(lambda c: fg.while_loop(lambda c: c < 9, lambda c: c * 3.0, c, max_steps=2))(0.1)
    assert [graph(c).item() for c in (0.1, 4.0, 10.0)] == pytest.approx([0.9, 12.0, 10.0])


# Checkpoints


def test_checkpoint_keeps_the_gradient_and_draws_the_same_numbers():
    def loss(w, checkpoint):
        rng = np.random.default_rng(0)
        factor = 2.0

        def iteration(c, x):
            return np.sin(c * w) + factor * rng.normal() * x, c

        c, ys = fg.scan(iteration, w, np.linspace(0.0, 1.0, 10), checkpoint=checkpoint)
        factor = 5.0
        return c + np.sum(ys)

    value, gradient = fg.value_and_grad(loss)(0.3, False)
    for checkpoint in (True, 1, 3, 10, 99):
        found = fg.value_and_grad(loss)(0.3, checkpoint)
        assert found[0] == value
        # What belongs to w is added up by segments, and so rounded otherwise.
        assert found[1].item() == pytest.approx(gradient.item(), rel=1e-14)


@pytest.mark.slow
def test_checkpoint_takes_memory_like_the_square_root():
    xs = np.linspace(-1.0, 1.0, 2_500)

    def loss(w, iterations, checkpoint):
        iteration = lambda c, x: (np.tanh(w * c + x), None)  # noqa: E731
        return np.sum(fg.scan(iteration, np.ones(50), xs[:iterations], checkpoint=checkpoint)[0])

    def peak(iterations, checkpoint):
        gc.collect()
        tracemalloc.start()
        gradient = fg.grad(loss)(np.full(50, 0.5), iterations, checkpoint)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found, gradient

    peak(100, True)  # what is made once
    all_kept, gradient = peak(2_500, False)
    ends_kept, same = peak(2_500, True)
    quarter, _ = peak(625, True)
    assert same.tolist() == gradient.tolist()
    assert ends_kept < 0.2 * all_kept  # 0.174: an iteration that is recorded takes a kilobyte, with its arrays
    assert ends_kept < 2.6 * quarter  # 2 is the square root, 4 were all of it


# Errors, read aloud


def other_dtype(c, x):
    return {"w": [c["w"][0], c["w"][1].astype(np.float64)]}, None


def looped(x):
    return fg.while_loop(lambda c: c < 10, lambda c: c * 2.0, x)


X3 = np.ones(3)
BY_SIGN = fg.vmap(lambda x, f, g: fg.cond(x > 0, f, g, x), in_axes=(0, None, None))

RANDOM = np.random.default_rng(0)
MISTAKES = {
    "dtype of a carry": (
        lambda: fg.scan(other_dtype, {"w": [1.0, np.float32(2)]}, X3),
        errors.DtypeError, r"carry\['w'\]\[1\] had dtype float32, and other_dtype returns float64 for it",
    ),
    "number for an integer": (
        lambda: fg.fori_loop(0, 3, lambda i, c: 0.5, np.int64(2)),
        errors.DtypeError, "carry had dtype int64, and <lambda> returns a Python float",
    ),
    "shape of a carry": (
        lambda: fg.scan(lambda c, x: (c + X3, None), 0.0, X3),
        errors.ShapeError, r"carry had shape \(\), and <lambda> returns shape \(3,\)(.|\n)*such as np.zeros\(\(3,\)\)",
    ),
    "shape in while_loop": (
        lambda: fg.while_loop(lambda c: True, lambda c: (c[0], c[1][1:]), (0, X3)),
        errors.ShapeError, r"carry\[1\] had shape \(3,\), and <lambda> returns shape \(2,\)",
    ),
    "containers of a carry": (
        lambda: fg.scan(lambda c, x: ([c], None), 0.0, X3),
        errors.StructureError, r"the carry that <lambda> returns has the structure \[\*\], and before it had \*",
    ),
    "as many leaves in other containers": (
        lambda: fg.scan(lambda c, x: ((c[0][0], c[0][1]), None), ((1.0, 2.0), None), X3),
        errors.StructureError, r"structure \(\*, \*\), and before it had \(\(\*, \*\), None\)",
    ),
    "carry becomes None": (
        lambda: fg.fori_loop(0, 3, lambda i, c: None, 0.0),
        errors.StructureError, "has the structure None",
    ),
    "text in a carry": (
        lambda: fg.scan(lambda c, x: (c, None), {"name": "a"}, X3),
        errors.StructureError, r"carry\['name'\] is 'a' of type str, which is neither a number nor an array",
    ),
    "no pair": (
        lambda: fg.scan(lambda c, x: c, 0.0, X3),
        errors.OutputError, "must return a pair, the carry and an output, but <lambda> returned 0.0",
    ),
    "shape of an output": (
        lambda: fg.map(lambda x: x if x > 1 else X3, np.array([0.0, 2.0])),
        errors.ShapeError, r"output had shape \(3,\), and <lambda> returns shape \(\)",
    ),
    "containers of an output": (
        lambda: fg.scan(lambda c, x: (c + 1, c or None), 0, X3),
        errors.StructureError, r"the output that <lambda> returns has the structure \*, and before it had None",
    ),
    "list in place of an array": (
        lambda: fg.scan(lambda c, x: (c, None), 0.0, [1.0, 2.0]),
        errors.ShapeError, r"xs\[0\] is 1.0, which has no axis to iterate over",
    ),
    "sizes of arrays": (
        lambda: fg.scan(lambda c, x: (c, None), 0.0, {"a": X3, "b": np.ones(2)}),
        errors.ShapeError, r"different sizes: 3 of xs\['a'\], 2 of xs\['b'\]",
    ),
    "length and arrays": (
        lambda: fg.scan(lambda c, x: (c, None), 0.0, X3, length=4),
        errors.ParameterError, "length is 4, and xs has 3 elements",
    ),
    "neither length nor arrays": (
        lambda: fg.scan(lambda c, x: (c, None), 0.0),
        errors.ParameterError, "scan needs xs, or length",
    ),
    "no length": (
        lambda: fg.scan(lambda c, x: (c, None), 0.0, length=-1),
        errors.ParameterError, "length must be a number of iterations, 0 or more, and is -1",
    ),
    "no array for map": (lambda: fg.map(np.sin, []), errors.ParameterError, "map iterates over arrays"),
    "segments": (
        lambda: fg.scan(lambda c, x: (c, None), 0.0, X3, checkpoint=1.5),
        errors.ParameterError, "checkpoint must be a number of iterations, 0 or more, and is 1.5",
    ),
    "max_steps": (
        lambda: fg.while_loop(lambda c: True, lambda c: c, 0.0, max_steps=-2),
        errors.ParameterError, "max_steps must be a number of iterations",
    ),
    "function of scan": (lambda: fg.scan(X3, 0.0, X3), errors.NotCallableError, "f of scan must be a function"),
    "function of cond": (
        lambda: fg.cond(True, np.sin(1.0), np.cos),
        errors.NotCallableError, "true_fun of cond must be a function, and is .*0.84(.|\n)*without calling them",
    ),
    "bound": (
        lambda: fg.fori_loop(0, 2.5, lambda i, c: c, 0),
        errors.DtypeError, "a bound of fori_loop must be an integer, and is 2.5",
    ),
    "index": (lambda: fg.switch(1.0, [np.sin], 1.0), errors.DtypeError, "the index of switch must be an integer"),
    "branches": (lambda: fg.switch(1, [], 1.0), errors.ParameterError, "switch needs at least one function"),
    "several conditions": (
        lambda: fg.cond(X3 > 0, np.sin, np.cos, X3),
        errors.ShapeError, r"the condition of cond must be a single boolean, and has shape \(3,\)(.|\n)*np.where",
    ),
    "several conditions of a loop": (
        lambda: fg.while_loop(lambda c: c < 10, lambda c: c * 2.0, X3),
        errors.ShapeError, r"the condition of while_loop must be a single boolean(.|\n)*np.all or np.any",
    ),
    "no condition": (
        lambda: fg.while_loop(lambda c: None, lambda c: c * 2.0, X3),
        errors.StructureError, "the condition of while_loop must be a boolean, and is None",
    ),
    "a body in place of the condition": (
        lambda: fg.while_loop(lambda c: c * 2.0, lambda c: c < 10, 1.0),
        errors.StructureError, r"must be a boolean, and is 2\.0\.\n.*while_loop\(cond, body, init\)",
    ),
    "a body in place of the condition, recorded": (
        lambda: fg.compile(lambda x: fg.while_loop(lambda c: c * 2.0, lambda c: c < 10, x))(1.0),
        errors.StructureError, r"must be a boolean(.|\n)*while_loop\(cond, body, init\)",
    ),
    "containers of branches": (
        lambda: BY_SIGN(X3, lambda x: (x,), lambda x: [x]),
        errors.StructureError, r"true_fun \(<lambda>\) returns \(\*,\), and false_fun \(<lambda>\) returns \[\*\]",
    ),
    "shapes of branches": (
        lambda: BY_SIGN(X3, lambda x: {"a": x}, lambda x: {"a": X3}),
        errors.ShapeError, r"result\['a'\] has shape \(\) from true_fun \(<lambda>\) and \(3,\) from false_fun",
    ),
    "dtypes of branches": (
        lambda: BY_SIGN(X3, lambda x: x, lambda x: x.astype(np.float32)),
        errors.DtypeError, r"result is float64 from true_fun \(<lambda>\) and float32 from false_fun",
    ),
    "texts of branches": (
        lambda: BY_SIGN(X3, lambda x: "a", lambda x: "b"),
        errors.StructureError, "result is 'a' of true_fun .* only numbers and arrays can be selected",
    ),
    "pass back in a recording": (
        lambda: fg.trace(fg.grad(looped))(3.0),
        errors.ConcretizationError, r"a backward pass through a loop(.|\n)*needs a value(.|\n)*max_steps=100",
    ),
    "pass back through a recording": (
        lambda: fg.grad(fg.trace(looped)(3.0))(3.0),
        errors.ConcretizationError, r"a backward pass through a loop(.|\n)*needs a value(.|\n)*max_steps=100",
    ),
    "value in the body of a recorded while loop": (
        lambda: fg.trace(lambda x: fg.while_loop(lambda x: x < 9.0, lambda x: x + 1.0 if x < 3.0 else 2.0 * x, x))(1.0),
        errors.ConcretizationError, r"bool\(\) needs a value(.|\n)*np.where",
    ),
    "random numbers in a recorded while loop": (
        lambda: fg.trace(lambda x: fg.while_loop(lambda x: x < 9.0, lambda x: x + RANDOM.normal() ** 2, x))(1.0),
        errors.ConcretizationError, r"condition of while_loop needs a value(.|\n)*random numbers(.|\n)*max_steps=100",
    ),
    "bound in a recording": (
        lambda: fg.trace(lambda n: fg.fori_loop(0, n.astype(int), lambda i, c: c + RANDOM.normal(), 0.0))(3.0),
        errors.ConcretizationError, r"a bound of fori_loop needs a value(.|\n)*as plain integers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake):
    program, error, text = MISTAKES[mistake]
    with pytest.raises(error, match=text) as caught:
        program()
    assert isinstance(caught.value, (TypeError, ValueError))
    assert "test_loops.py" in str(caught.value)


def test_what_branches_and_loops_hand_on_unchanged_is_not_batched():
    table, sizes = np.array([5.0, 6.0]), np.array([1.0, 2.0, 3.0])

    def branch(size, table):
        return fg.cond(size > 1, lambda x, table: (x * size, table), lambda x, table: (x, table), 2.0, table)

    def loop(size, table):
        return fg.while_loop(lambda state: state[0] < size, lambda state: (state[0] + 1, state[1]), (0.0, table))

    def switch(size, table):
        place = size.astype(np.int64)
        return fg.switch(place, [lambda t: (0.0, t), lambda t: (1.0, t), lambda t: (size, t)], table)

    for function, expected in ((branch, [2.0, 4.0, 6.0]), (loop, [1.0, 2.0, 3.0]), (switch, [1.0, 2.0, 3.0])):
        found, same = fg.vmap(function, in_axes=(0, None), out_axes=(0, None))(sizes, table)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(same, table)
        slope = fg.grad(lambda t, f=function: np.sum(fg.vmap(f, (0, None), (0, None))(sizes, t)[1] ** 2))(table)
        np.testing.assert_array_equal(slope, 2 * table)


def test_what_one_branch_writes_to_is_batched():
    def write(table):
        table[0] = 9.0
        return table

    found = fg.vmap(lambda size: fg.cond(size > 1, write, lambda t: t, np.array([5.0, 6.0])))(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(found, [[5.0, 6.0], [9.0, 6.0]])


def test_an_index_beyond_the_ends_selects_the_nearest_function_of_a_program():
    ways = [np.sort, lambda x: np.linalg.solve(np.outer(x, x) + np.eye(3), x), lambda x: np.cumsum(np.sort(np.sin(x)))]
    compiled, x = fg.compile(lambda index, x: fg.switch(index, ways, x)), np.array([0.3, 0.1, 0.2])
    for index, place in ((-3, 0), (0, 0), (1, 1), (2, 2), (9, 2)):
        np.testing.assert_allclose(compiled(np.array(index), x), ways[place](x), rtol=1e-13)


def test_a_carry_that_becomes_an_integer_is_not_rounded_before():
    def f(x):
        return fg.fori_loop(0, 3, lambda i, carry: (carry > 0.4) * 1, 0.5) * x

    assert f(2.0) == fg.compile(f)(2.0) == 2.0


# Writes into tensors from outside


def scaled_in_a_scan(x):
    y = 1.0 * x

    def step(carry, k):
        alias = y
        alias *= 2.0
        return carry + alias[0], None

    return fg.scan(step, 0.0, np.arange(3.0))[0] + np.sum(y)


def written_in_a_loop(x):
    y = 1.0 * x

    def step(k, carry):
        y[0] = 2.0 * y[0] + carry
        return carry * y[1]

    return fg.fori_loop(0, 3, step, x[0]) + np.sum(y**2)


def elements_written_in_a_scan(x):
    squares = 0.0 * x

    def step(carry, i):
        squares[i] = carry * x[i]
        return carry + 1.0, None

    fg.scan(step, 0.5, np.arange(3))
    return np.sum(squares**2)


def written_in_a_map(x):
    y = 1.0 * x
    fg.map(lambda k: y.__imul__(1.0 + k)[0] * 1.0, np.arange(3.0))
    return np.sum(y**2)


def copies_written_in_a_scan(x):
    y = 1.0 * x

    def step(carry, row):
        own = 3.0 * y
        own[0] = carry
        own *= row
        row *= 2.0
        return np.sum(own), row

    last, rows = fg.scan(step, 0.5, np.stack([x, 2.0 * x]) * 1.0)
    return last + np.sum(rows) + np.sum(y)


def operands_written_in_branches(x):
    y = 1.0 * x

    def one(y):
        y *= 2.0
        return np.sum(np.sin(np.exp(y)))

    def two(y):
        y[0] = 3.0
        return np.sum(np.cos(np.exp(y)))

    return fg.cond(x[0] > 0, one, two, y) + fg.switch(1, [one, two], y) + np.sum(y)


@pytest.mark.parametrize(
    "f",
    [
        scaled_in_a_scan, written_in_a_loop, elements_written_in_a_scan, written_in_a_map, copies_written_in_a_scan,
        operands_written_in_branches,
    ],
)  # fmt: skip
def test_writes_of_loops_and_branches_are_those_of_a_run_in_python(f):
    for x in (np.array([0.5, -1.0, 2.0]), np.array([-0.5, 1.5, 0.25])):
        value, gradient = fg.value_and_grad(f)(x)
        assert f(fg.constant(x)) == value
        check_grads(f, (x,), order=1)
        np.testing.assert_allclose(fg.compile(f)(x), value, rtol=1e-12)
        np.testing.assert_allclose(fg.compile(fg.grad(f))(x), gradient, rtol=1e-12)
        np.testing.assert_allclose(fg.vmap(fg.grad(f))(np.stack([x, x]))[1], gradient, rtol=1e-12)


def test_a_write_into_an_element_does_not_reach_the_array():
    def f(x):
        rows = np.stack([x, 2.0 * x])

        def step(carry, row):
            row *= 2.0
            return carry + np.sum(row), None

        return fg.scan(step, 0.0, rows)[0] + np.sum(rows)

    x = np.array([0.5, -1.0, 2.0])
    for run in (f, lambda x: f(fg.constant(x)), fg.compile(f), lambda x: fg.value_and_grad(f)(x)[0]):
        assert run(x) == 13.5
    assert fg.grad(f)(x).tolist() == fg.compile(fg.grad(f))(x).tolist() == [9.0, 9.0, 9.0]


@pytest.mark.parametrize("kind", ["cond", "switch"])
def test_a_recorded_branch_may_not_write_into_a_tensor_from_outside(kind):
    def f(x):
        y = 1.0 * x

        def write(x):
            y[0] = 2.0
            return np.sum(y)

        if kind == "cond":
            return fg.cond(x[0] > 1.0, write, np.sum, x) + np.sum(y)
        return fg.switch((x[0] > 1.0) * 1, [np.sum, write], x) + np.sum(y)

    x = np.array([0.5, -1.0, 2.0])
    assert f(fg.constant(x)) == 3.0
    with pytest.raises(errors.InPlaceError, match=r"(true_fun|branch 1) \(write\) writes into a tensor from outside"):
        fg.compile(f)(x)


def test_assignments_of_branches_in_programs():
    def made():
        w, count = fg.Variable([1.0, 2.0]), fg.Variable(0)

        def add(x):
            w.assign_add(x)
            count.assign_add(1)
            return fg.cond(np.sum(x) > 6, double, lambda x: np.sum(w * x), x)

        def double(x):
            w.assign(2 * w)
            return np.sum(w * x**2)

        def program(x):
            return fg.cond(np.sum(x) > 3, add, lambda x: np.sum(w * x), x)

        return program, w, count

    xs = np.array([[0.0, 1.0], [3.0, 1.0], [4.0, 5.0], [0.0, 2.0]])
    (plain, *state), (compiled, *other) = made(), made()
    fast = fg.compile(fg.value_and_grad(compiled))
    for x in xs:
        for found, wanted in zip(fast(x), fg.value_and_grad(plain)(x), strict=True):
            np.testing.assert_allclose(found, wanted)
    for variable, same in zip(state, other, strict=True):
        np.testing.assert_array_equal(variable, same)
    assert state[1].numpy() == 2


def test_assignments_of_branches_in_compiled_loops():
    w, v = fg.Variable(0.0), fg.Variable([0.0, 0.0])
    branches = [lambda: v.assign_add([1.0, 1.0]), lambda: v.assign([5.0, 5.0]), lambda: None]

    def step(i, a):
        fg.switch(i, [lambda branch=branch: (branch(), 0.0)[1] for branch in branches])
        return fg.cond(i % 2 == 0, lambda a: (w.assign_add(1.0), a + w)[1], lambda a: a * 2.0, a)

    assert fg.compile(lambda a: fg.fori_loop(0, 5, step, a))(1.0).item() == 15.0
    assert w.numpy() == 3.0
    assert v.numpy().tolist() == [5.0, 5.0]


def test_a_branch_that_runs_at_once_may_assign_to_a_variable():
    v = fg.Variable(np.ones(2))
    assert fg.cond(True, lambda v: v.assign_add(np.ones(2)), lambda v: v, v) is v
    assert fg.switch(1, [lambda v: v, lambda v: v.assign(2.0 * v)], v) is v
    assert v.numpy().tolist() == [4.0, 4.0]


@pytest.mark.parametrize(
    "derivative", [fg.hessian, lambda f: fg.jacfwd(fg.jacfwd(f)), lambda f: fg.jacrev(fg.jacfwd(f))]
)
@pytest.mark.parametrize("dtype", [np.complex128, np.float32])
def test_tangents_of_a_recorded_carry_have_its_dtype(derivative, dtype):
    def loss(x):
        carry, outputs = fg.scan(lambda c, x: (c * x + dtype(0.5), np.abs(c)), dtype(1), x)
        return np.sum(np.abs(carry * outputs * dtype(2)) ** 2)

    x = np.array([0.3, 0.5, 0.9], np.finfo(dtype).dtype)
    found, expected = fg.trace(derivative(loss))(x), derivative(loss)(x)
    np.testing.assert_allclose(found(x), expected, rtol=1e-5)
    assert found(x).dtype == expected.dtype == x.dtype
    assert {name.dtype for each in found.equations for name in each.outputs} <= {np.dtype(dtype), x.dtype}


def test_iterations_that_write_elements_are_batched():
    def written(x):
        def iteration(carry, t):
            carry = carry * 1.0
            carry[t] = carry[t] + np.sin(carry[t - 1])
            return carry, None

        return np.sum(fg.scan(iteration, x, np.arange(1, len(x)))[0] ** 2)

    batch = np.linspace(-1.0, 2.0, 12).reshape(3, 4)
    wanted = np.array([float(written(row)) for row in batch])
    for transform in (fg.vmap(written), fg.compile(fg.vmap(written)), fg.vmap(fg.compile(written))):
        np.testing.assert_allclose(transform(batch).numpy(), wanted, 1e-12)
    gradients = [fg.grad(written)(row).numpy() for row in batch]
    np.testing.assert_allclose(fg.compile(fg.vmap(fg.grad(written)))(batch).numpy(), gradients, 1e-12)
