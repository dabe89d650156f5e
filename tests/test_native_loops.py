"""Loops in compiled programs: against the same loop as it runs eagerly, in all that an iteration may do."""

import threading
import tracemalloc

import numpy as np
import pytest
from helpers import naming
from hypothesis import given, settings
from hypothesis import strategies as st

import fgrad as fg
from fgrad import errors
from fgrad.core.tree import flatten

pytest.importorskip("llvmlite")

X = np.array([0.5, -1.0, 2.0])
Y = np.array([0.3, 0.9, -0.2])
X32 = X.astype(np.float32)
XS = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
M = np.array([[0.3, 0.1, 0.0], [0.2, -0.5, 0.1], [0.7, 0.0, 0.2]])
EYE = np.eye(3)
RNG = np.random.default_rng(0)


def assert_alike(found, wanted, rtol=1e-11):
    """Hold containers, shapes, dtypes and elements against those of the eager run."""
    (leaves, nested), (others, treedef) = flatten(found), flatten(wanted)
    assert nested == treedef
    for x, y in zip(map(np.asarray, leaves), map(np.asarray, others), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_allclose(x, y, 1e-5 if x.dtype.itemsize == 4 else rtol, 1e-12)


def compare(function, *args, rtol=1e-11):
    """Compile a function, and run it twice; run its recording, too."""
    wanted, compiled = function(*args), fg.compile(function)
    for _ in range(2):
        assert_alike(compiled(*args), wanted, rtol)
    if not any(type(x) in (int, bool) for x in args):  # which are part of the program of `trace`
        assert_alike(fg.trace(function)(*args)(*args), wanted, rtol)


# Carries, outputs and what is closed over


def scanned(iteration, xs=None, length=None):
    return lambda *carry: fg.scan(iteration, carry if len(carry) > 1 else carry[0], xs, length)


def doubled_in_place(c, x):
    c[0] += x[0]
    c[1:] *= 2
    first = c[:2]
    c[2] = 5
    return c, first


def swapped_in_place(c, x):
    a, b = c
    a += b
    b[0] = a[1]
    return (b, a), a


TURNS = {
    "rotated": (scanned(lambda c, x: ((c[1], c[2], c[0]), c[0]), length=5), X, 2 * X, 3 * X),
    "rotated numbers": (scanned(lambda c, x: ((c[1], c[2], c[0]), c[0]), length=5), 1.0, 2.0, 3.0),
    "passed through": (scanned(lambda c, x: ((c[0], c[1] + c[0]), c), length=5), X, Y),
    "twice": (scanned(lambda c, x: ((c[0] + c[1],) * 2, (c[0], c[0], c[0] + c[1])), length=4), X, Y),
    "one in both places": (scanned(lambda c, x: ((c[1], c[1]), c), length=3), X, Y),
    "constants": (scanned(lambda c, x: (c, (1.0, np.ones(2), Y, x, c)), XS), X),
    "the element": (scanned(lambda c, x: (x, x), XS), X),
    "views": (scanned(lambda c, x: (c[::-1], (c[:1], x[::2], c[None], np.broadcast_to(c[0], (4,)))), XS), X),
    "in place": (scanned(doubled_in_place, XS), X),
    "in place, swapped": (scanned(swapped_in_place, XS), X, Y),
    "containers": (lambda a: fg.scan(lambda c, x: ({"n": None, "a": [c["a"][0] * x]}, None), {"n": None, "a": [a]}, XS),
                   X),
    "output in a container with None": (lambda a: fg.map(lambda r: (np.sum(r), {"a": r[0], "n": None}), a), XS),
    "no carry": (lambda a: fg.scan(lambda c, x: ((), x * 2), (), a), X),
    "empty arrays": (scanned(lambda c, x: ((c[0] * 2, c[1] + np.sum(c[0])), c), XS), np.zeros((0, 3)), np.array(2.0)),
    "integers": (lambda a: fg.scan(lambda c, x: (c + 1, c * x), a, np.arange(5)), np.int64(3)),
    "truth values": (scanned(lambda c, x: (~c, c), length=3), np.array([True, False])),
    "complex": (scanned(lambda c, x: (c * (1 + 1j), np.abs(c)), length=3), X + 1j),
    "half precision": (scanned(lambda c, x: (c * 0.5, c), length=3), X.astype(np.float16)),
    "zeros below 0": (lambda a: fg.scan(lambda c, x: (c * -0.0, c + x), a, np.array([-0.0, 0.0])), -0.0 * X),
    "not finite": (lambda a: fg.scan(lambda c, x: (c / x, np.maximum(c, x)), a, np.array([1.0, 0.0, np.nan])), X),
    "element of the iteration": (lambda a: fg.fori_loop(1, 4, lambda i, c: c + a[i - 1] * a[-i], np.zeros(3)), XS),
    "places": (lambda a: fg.scan(lambda c, i: (c[i] + a, a[i[0]]), a, np.array([[2, 0, 1], [1, 1, 1]])), X),
    "products": (scanned(lambda c, x: (np.tanh(M @ c) + x, np.einsum("ij,jk,k->i", M, M, x)), XS), X),
    "factors": (scanned(lambda c, x: (np.linalg.solve(M + 3 * EYE, c) + x, np.linalg.inv(EYE + 0.1 * c)), XS), X),
    "sorted": (scanned(lambda c, x: (np.sort(c + x), np.argsort(c)), XS), X),
    "transformed": (scanned(lambda c, x: (np.fft.fft(c + x).real, c), XS), X),
    "reduced": (scanned(lambda c, x: (c / np.sum(c * c), (np.mean(c), np.prod(x), np.argmax(x))), XS), X),
    "asks for an element": (lambda a: fg.scan(lambda c, x: (c + x if x > 0 else c * 2, c), a, X), X),
    "asks for the iteration": (lambda a: fg.fori_loop(0, 3, lambda i, c: c + 1 if i % 2 else c * 2, a), X),
    "no iterations": (lambda a: fg.scan(lambda c, x: (c + x, c), a, XS[:0]), X),
    "one iteration": (lambda a: fg.scan(lambda c, x: (c + x, c), a, XS[:1]), X),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::fgrad.errors.CompileWarning")
@pytest.mark.parametrize("name", TURNS)
def test_iterations(name):
    compare(*TURNS[name])


NUMBERS = {
    "meets float32": (lambda a: fg.scan(lambda c, x: (c + x, c), 0.0, a), X32),
    "stays a number": (lambda a, w: fg.scan(lambda c, x: (c * w, c), w, length=3)[0] * a, X32, 2.5),
    "the iteration": (lambda a: fg.fori_loop(0, 3, lambda i, c: c * i / (i + 1) + i**2 + i**3 - i // 2, a), X32),
    "square": (lambda a, w: a * w**2, X32, 3.0),
    "explicit square": (lambda a, w: a * np.square(w), X32, 3.0),
    "integer becomes a float": (lambda a: fg.fori_loop(0, 3, lambda i, c: c * 0.5, a), 3),
    "integer becomes complex": (lambda a: fg.scan(lambda c, x: (c * (1 + 1j), c), a, length=3), 3),
    "in a loop": (lambda a: fg.fori_loop(0, 3, lambda i, c: fg.fori_loop(0, 2, lambda j, d: d * 0.5, c), a), 3),
    "in while_loop": (lambda a: fg.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * 0.5, c[1] + 1), (a, 0)), 3),
    "float becomes an integer": (lambda a: fg.fori_loop(0, 3, lambda i, c: i, a), 0.5),
    "types rotated": (lambda a, b: fg.scan(lambda c, x: ((c[1], c[0]), c[0]), (a, b), length=3), 1, 2.0),
    "becomes a constant": (lambda a: fg.scan(lambda c, x: (2.0, c * x), 1.0, a), X32),
    "becomes an integer constant": (lambda a: fg.scan(lambda c, x: (2, c), a, length=3), 0.5),
    "becomes NumPy's integer": (lambda a: fg.scan(lambda c, x: (np.int64(2), c), a, length=3), 0.5),
    "becomes a truth value": (lambda a: fg.fori_loop(0, 3, lambda i, c: True, a), 3),
    "is a constant behind the loop": (lambda a: fg.fori_loop(0, 3, lambda i, c: 2.0, 1.0) * a, X32),
    "becomes what is closed over": (lambda a, w: fg.fori_loop(0, 3, lambda i, c: w, 1.0) * a, X32, 2.5),
    "gradient beside a constant": (fg.grad(lambda a: np.sum(fg.scan(lambda c, x: (2.0, c * x), 1.0, a)[1])), X32),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_pythons(name):
    compare(*NUMBERS[name])


def test_outputs_that_begin_as_numbers_keep_what_is_behind_the_point():
    assert fg.scan(lambda c, x: (np.int64(2), c), 0.5, length=3)[1].tolist() == [0.5, 2.0, 2.0]


def test_containers_with_none_in_results():
    for make in (lambda a: (a, {"n": None, "a": a + 1}), lambda a: ((a, a + 1), None), lambda a: (a, (a,))):
        assert_alike(fg.compile(make)(X), make(X))


# Segments


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 7), st.sampled_from([False, True, 1, 2, 3, 5, 99]), st.booleans())
def test_segments(count, checkpoint, reverse):
    xs = np.linspace(-1.0, 1.0, count * 3).reshape(count, 3)

    def loop(a, xs):
        return fg.scan(lambda c, x: (np.tanh(c * x) + x[0], (c, x * c[1])), a, xs, None, reverse, checkpoint)

    def loss(a, xs):
        end, (first, second) = loop(a, xs)
        return np.sum(end) + np.sum(first * second)

    with naming(count, checkpoint, reverse):
        compare(loop, X, xs)
        compare(fg.grad(loss, argnums=(0, 1)), X, xs)


def test_segments_take_memory_like_the_square_root():
    xs = np.linspace(-1.0, 1.0, 10_000).copy()
    xs.flags.writeable = False  # so that a call need not look whether it has been overwritten

    def measured(count, checkpoint):
        def loss(w):
            iteration = lambda c, x: (np.tanh(w * c + x), None)  # noqa: E731
            return np.sum(fg.scan(iteration, np.ones(50), xs[:count], checkpoint=checkpoint)[0])

        compiled, point = fg.compile(fg.grad(loss)), np.full(50, 0.5)
        compiled(point)
        tracemalloc.start()
        gradient = compiled(point).numpy()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return compiled.inspect(point).memory["arena"], peak, gradient

    kept, _, gradient = measured(10_000, False)
    ends, peak, same = measured(10_000, True)
    quarter, _, _ = measured(2_500, True)
    assert same.tolist() == gradient.tolist()
    assert ends < 0.05 * kept
    assert ends < 2.2 * quarter
    assert peak < 10_000  # the arena is there before; no iteration takes anything besides


# Derivatives, in both orders


def solved_by(b):
    return lambda c: np.linalg.solve(M * b + 5 * EYE, c) * b


def with_product(b):
    return lambda c: M @ np.sin(c) * b


LOOPS = {
    "swapped": lambda a, b: fg.scan(lambda c, x: ((c[1] * b, c[0]), c[0] * x), (a, b), XS)[1],
    "closed over": lambda a, b: fg.scan(lambda c, x: (np.tanh(c * b + x), b), a, np.sin(XS * a))[1],
    "element of the iteration": lambda a, b: fg.fori_loop(0, 3, lambda i, c: c * a[i] + b[2 - i] * b, a),
    "integer carry": lambda a, b: fg.scan(lambda c, x: ((c[0] + 1, c[1] * b + c[0]), c[1]), (0, a), XS)[1],
    "solved": lambda a, b: fg.scan(lambda c, x: (np.linalg.solve(M * a + 3 * EYE, c * b) + x, c), a, XS)[1],
    "three loops": lambda a, b: fg.scan(
        lambda c, x: (fg.fori_loop(0, 2, lambda i, d: fg.scan(lambda e, z: (np.sin(e * z + b), e), d, c)[0], c), c),
        a,
        XS,
    )[1],
    "segments": lambda a, b: fg.scan(lambda c, x: (np.tanh(c * b + x), c), a, XS[:3], None, True, 2)[1],
    "while": lambda a, b: fg.while_loop(lambda c: np.sum(c) < 9, lambda c: 1.5 * c + b * b, a, max_steps=6),
    "sorted": lambda a, b: fg.scan(lambda c, x: (np.sort(c * b + x), c), a, XS)[1],
    "branches": lambda a, b: fg.fori_loop(0, 4, lambda i, c: fg.switch(i % 2, [lambda c: c * b, np.sin], c), a),
    "choices": lambda a, b: fg.fori_loop(
        0, 4, lambda i, c: fg.switch(i % 3, [with_product(b), solved_by(b), np.sort], c), a
    ),
    "choice": lambda a, b: fg.cond(a[0] > b[0], with_product(b), solved_by(b), a * b),
    "other choice": lambda a, b: fg.cond(a[0] < b[0], with_product(b), solved_by(b), a * b),
    "choice in a choice": lambda a, b: fg.cond(
        np.sum(a) > 0, lambda c: fg.cond(np.sum(c * b) > 0, solved_by(b), with_product(b), c) * c, np.sort, a
    ),
    "loop chosen": lambda a, b: fg.cond(
        a[0] > 0, lambda: fg.scan(lambda c, x: (np.tanh(c * b + x), c), a, XS)[1], lambda: XS * b
    ),
    "constants chosen": lambda a, b: fg.cond(a[0] > 9, lambda: a * np.sort(b), lambda: np.array([1.0, 2.0, 3.0])) * b,
    "while with products": lambda a, b: fg.while_loop(
        lambda c: np.sum(c * c) < 50, lambda c: M @ c + b * b + 1.5 * c, a, max_steps=9
    ),
    "while without iterations": lambda a, b: fg.while_loop(
        lambda c: np.sum(c[0]) > 99, lambda c: (c[0] + M @ c[1], XS[0]), (a, a * b), max_steps=9
    )[1],
}


def summed(f):
    return lambda *args: np.sum(np.sin(f(*args)))


DERIVATIVES = {
    "grad": lambda f: fg.grad(summed(f), argnums=(0, 1)),
    "grad of grad": lambda f: fg.grad(summed(fg.grad(summed(f))), argnums=(0, 1)),
    "jvp": lambda f: lambda a, b: fg.jvp(f, (a, b), (np.cos(a), np.sin(b))),
    "vmap, closed over": lambda f: lambda a, b: fg.vmap(f, in_axes=(None, 0))(a, np.stack([b, 2 * b])),
    "vmap of grad": lambda f: (
        lambda a, b: fg.vmap(fg.grad(summed(f), argnums=(0, 1)), in_axes=(0, None))(np.stack([a, 2 * a]), b)
    ),
}


INSIDE = ("grad", "vmap, closed over")
"""Those that are taken of the compiled loop; the others are compiled with the loop in them."""


@pytest.mark.filterwarnings("ignore::fgrad.errors.CompileWarning")
@pytest.mark.parametrize("name", LOOPS)
def test_derivatives(name):
    compiled = fg.compile(LOOPS[name])
    for derivative, transform in DERIVATIVES.items():
        wanted = transform(LOOPS[name])(X, Y)
        with naming(derivative):
            if derivative in INSIDE:
                assert_alike(transform(compiled)(X, Y), wanted, 1e-8)
            else:
                assert_alike(fg.compile(transform(LOOPS[name]))(X, Y), wanted, 1e-8)


def test_what_does_not_depend_has_no_gradient():
    compiled = fg.compile(lambda a, b: np.sum(fg.scan(lambda c, x: (c * a, None), a, XS)[0]))
    assert fg.gradients_function(compiled)(X, Y)[1] is None


# Programs that run on other values than they were recorded for


def check_others(function, good, *others):
    """Compile for good values, and hold results and errors for others against those of the eager function."""
    compiled = fg.compile(function)
    compiled(*good)
    for values in others:
        try:
            wanted = function(*values)
        except (np.linalg.LinAlgError, IndexError) as error:
            with pytest.raises(type(error), match=str(error).split()[0]):
                compiled(*values)
        else:
            assert_alike(compiled(*values), wanted, 1e-9)


def stacked(*places):
    return np.stack([EYE * each for each in places])


def test_a_failure_in_any_iteration_raises():
    def solved(a, m):
        return fg.scan(lambda c, m: (np.linalg.solve(m, c), c), a, m)

    def nested(a, m):
        iteration = lambda c, m: (fg.fori_loop(0, 2, lambda i, d: np.linalg.cholesky(m) @ d, c), np.sort(c))  # noqa: E731
        return fg.scan(iteration, a, m)

    singular = [(X, stacked(*each)) for each in ((1, 1, 0), (1, 0, 1), (0, 1, 1))]
    for function in (solved, fg.grad(lambda a, m: np.sum(solved(a, m)[1])), nested):
        check_others(function, (X, stacked(1, 2, 3)), *singular)
    places = np.array([0, 1, 2, 0])
    picked = lambda a, i: fg.scan(lambda c, i: (c + a[i], a[i]), a, i)  # noqa: E731
    check_others(picked, (X, places), (X, places + 1), (X, places - 3), (X, places - 4))


def test_while_loops():
    def grown(a, limit):
        return fg.while_loop(lambda c: c[0] < limit, lambda c: (c[0] * 2, c[1] + 1), (a, 0))

    check_others(grown, (1.0, 10.0), (1.0, 0.0), (np.nan, 10.0), (0.1, 100.0))
    starts, limits = np.array([1.0, 2.0, 30.0]), np.array([10.0, 20.0, 10.0])
    check_others(fg.vmap(grown), (starts, limits), (starts * [1, np.nan, 0.1], limits), (starts, 0 * limits))

    def ended(a, limit):
        return np.sum(fg.while_loop(lambda c: np.sum(c) < limit, lambda c: 2 * c + 1 / c, a, max_steps=5))

    for transform in (lambda f: f, lambda f: fg.grad(f, argnums=(0, 1)), fg.hessian):
        check_others(transform(ended), (X, 10.0), (X, 100.0), (X, -10.0))
    sorted_ones = lambda a, limit: fg.while_loop(lambda c: np.sum(c) < limit, lambda c: np.sort(c) + 3, a)  # noqa: E731
    check_others(sorted_ones, (X, 100.0), (X, -100.0), (X, np.nan))
    assert not np.shares_memory(fg.compile(sorted_ones)(X, -100.0).numpy(), X)


CHOICES = {
    "solve": lambda a, m: fg.cond(a[0] > 0, lambda: np.linalg.solve(m, a), lambda: m @ a),
    "sort": lambda a, m: fg.cond(a[0] > 0, np.sort, lambda a: m @ a, a),
    "places": lambda a, m: fg.cond(a[0] > 0, lambda: m[a.astype(int)], lambda: m * a),
    "numbers and arrays": lambda a, m: fg.cond(a[0] > 0, lambda: (1.0, np.sum(m @ a)), lambda: (2.0, 3.0)),
    "numbers": lambda a, m: fg.cond(a[0] > 0, lambda: (None, np.sum(m @ a) * 2), lambda: (None, 2.5)),
    "containers": lambda a, m: fg.cond(
        a[0], lambda: {"a": [m @ a], "n": None}, lambda: {"a": [np.linalg.solve(m, a)], "n": None}
    ),
    "in place": lambda a, m: fg.cond(a[0] > 0, doubled_and_sorted, lambda a: m @ a, a * 1),
    "three": lambda a, m: fg.switch(
        a[0].astype(int), [lambda: m @ a, lambda: np.linalg.solve(m, a), lambda: np.sort(a)]
    ),
    "one": lambda a, m: fg.switch(a[0].astype(int), [lambda: m @ a]),
    "of many": fg.vmap(lambda a, m: fg.cond(a > 0, lambda: np.linalg.cholesky(m + 9 * EYE), lambda: m @ m), (0, None)),
    "each iteration": lambda a, m: fg.scan(
        lambda c, x: (fg.cond(x > 0, lambda c: np.linalg.solve(m, c), np.sort, c), c), a, a
    ),
    "each iteration of a plain loop": lambda a, m: [
        fg.cond(a[i % 3] > 0, lambda c: m @ np.sin(c), np.sort, a * i) for i in range(40)
    ],
}


def doubled_and_sorted(a):
    a *= 2
    a.sort()
    return a


@pytest.mark.filterwarnings("ignore::fgrad.errors.CompileWarning")
@pytest.mark.parametrize("name", CHOICES)
def test_choices(name):
    """A matrix is singular or indefinite where it is not to be looked at."""
    points = [np.array([first, 2.0, 1.0]) for first in (1.0, -1.0, 0.0, 2.0, -7.0, 9.0)]
    check_others(CHOICES[name], (X, M + 3 * EYE), *((a, m) for a in points for m in (M + 3 * EYE, 0 * M)))
    if name != "places":
        slopes = fg.grad(lambda a, m: sum(np.sum(x) for x in fg.tree_leaves(CHOICES[name](a, m))), argnums=(0, 1))
        check_others(slopes, (X, M + 3 * EYE), *((a, M + 3 * EYE) for a in points))


def test_one_way_of_a_choice_runs():
    chosen = fg.compile(lambda x, y: fg.cond(x > 0, lambda: np.sort(y), lambda: y[::-1] @ M))
    report = chosen.inspect(1.0, X)
    ways = [stage for stage in report.stages if stage.shape == (1,)]
    assert [stage.kind for stage in ways] == ["Python", "iterations"]
    assert ways[1].operations == {"multiply": 1, "sum": 1}  # the same in all iterations, and yet not done before
    assert all(loop.startswith("one way of a choice, ") for loop in report.loops)
    assert "iterations if chosen" in str(report)


def test_a_slight_choice_is_a_selection():
    report = fg.compile(lambda x: fg.cond(x > 0, lambda: np.sqrt(x), lambda: 0.0 * x)).inspect(1.0)
    assert not report.loops
    assert "select" in str(report)


def test_ways_that_act_are_both_recorded():
    drawn = np.random.default_rng(0)
    with pytest.raises(errors.FrozenValueError):
        fg.compile(lambda a: fg.cond(a[0] > 0, lambda: M @ a * drawn.normal(), lambda: M @ a))(X)
    asks = fg.compile(lambda a: fg.cond(a[0] > 0, lambda: M @ a if a[1] > 0 else a, lambda: M @ a))
    with pytest.raises(errors.ConcretizationError, match=r"bool\(\)"):
        asks(X)


def test_a_bound_that_is_computed():
    def summed_up(a, n):
        return fg.fori_loop(n - 2, np.abs(n), lambda i, c: c * i + M @ c, a)

    zero, *counts = map(np.int64, (0, 3, -2, 5, 1))
    check_others(summed_up, (X, zero), *((X, n) for n in counts))
    check_others(lambda a, n: fg.jvp(lambda a: summed_up(a, n), (a,), (Y,))[1], (X, zero), *((X, n) for n in counts))
    check_others(lambda a, n: fg.fori_loop(0, n, lambda i, c: c * i + a, a), (X32, zero), *((X32, n) for n in counts))
    many = fg.vmap(summed_up, in_axes=(None, 0))
    check_others(many, (X, np.array([1, 3])), (X, np.array([0, -2])), (X, np.array([4, 1])))
    with pytest.raises(errors.ConcretizationError, match=r"a backward pass through a loop(.|\n)*max_steps=100"):
        fg.compile(fg.grad(lambda a, n: np.sum(summed_up(a, n))))(X, counts[0])


def test_what_a_while_loop_without_iterations_does_not_compute_does_not_raise():
    matrix = fg.Variable(EYE)

    def grown(a, limit):
        return fg.while_loop(lambda c: np.sum(c) < limit, lambda c: np.linalg.eigvalsh(matrix) + c + 3, a)

    compiled = fg.compile(grown)
    compiled(X, 100.0)
    matrix.assign(np.full((3, 3), np.nan))
    assert compiled(X, -100.0).tolist() == X.tolist()


# State


def test_iterations_may_assign_to_variables():
    v = fg.Variable(np.ones(3))

    def decayed(c, x):
        v.assign(v * 0.5 + x)
        return c + v, v * 1.0

    def stored(c, x):
        c = c + v
        v.assign(c)
        return c + x, None

    for iteration in (decayed, stored):
        inside = lambda c, x, iteration=iteration: (fg.fori_loop(0, 2, lambda i, d: iteration(d, x)[0], c), c)  # noqa: E731
        for each in (iteration, inside):
            function = lambda a, each=each: fg.scan(each, a, XS)  # noqa: E731
            compiled = fg.compile(function)
            for run in range(2):
                with naming(iteration, run):
                    v.assign(np.ones(3))
                    wanted, after = function(X), v.numpy()
                    v.assign(np.ones(3))
                    assert_alike(compiled(X), wanted)
                    assert_alike(v.numpy(), after)


def test_random_draws():
    def drawn(a):
        rng = np.random.default_rng(0)
        return fg.scan(lambda c, x: (c + rng.normal(size=3), rng.normal()), a, length=4)

    compare(drawn, X)
    rng = np.random.default_rng(0)
    with pytest.raises(errors.FrozenValueError, match="random number"):
        fg.compile(lambda a: fg.scan(lambda c, x: (c + rng.normal(), None), a, length=3)[0])(X)


@pytest.mark.parametrize("what", ["iteration", "condition", "max_steps", "reverse", "length"])
def test_loops_that_change_from_call_to_call_are_noticed(what):
    calls = []

    def changing(a):
        calls.append(None)
        n = len(calls)
        if what == "iteration":
            return fg.scan(lambda c, x: (c + n, c), a, None, 4)[1]
        if what == "condition":
            return fg.while_loop(lambda c: np.sum(c) < n, lambda c: c + 1, a)
        if what == "max_steps":
            return fg.while_loop(lambda c: np.sum(c) < 9, lambda c: c + 1, a, max_steps=n)
        reverse, length = (bool(n % 2), 4) if what == "reverse" else (False, n)
        return fg.scan(lambda c, x: (c + 1, c), a, None, length, reverse)[1]

    with pytest.raises(errors.FrozenValueError, match="changes from call to call"):
        fg.compile(changing)(X)


def test_threads_call_one_loop():
    compiled = fg.compile(lambda a: fg.scan(lambda c, x: (np.tanh(M @ c) + x, np.linalg.solve(M + 3 * EYE, c)), a, XS))
    wanted = [compiled(place * X)[1].tolist() for place in range(4)]
    wrong = []

    def work(place):
        wrong.extend(1 for _ in range(50) if compiled(place * X)[1].tolist() != wanted[place])

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Reports and errors


def test_a_void_iteration_ends_a_loop_with_a_condition():
    def followed(place, table):
        return fg.while_loop(lambda i: i < 100, lambda i: table[i], place)

    table = np.array([1, 2, 3, 4, 10])  # 10 is no place in it: NumPy raises, where native code would go on for ever
    compiled = fg.compile(followed)
    assert compiled(np.int64(0), np.array([1, 2, 3, 4, 100])).item() == 100
    with pytest.raises(IndexError):
        compiled(np.int64(0), table)


def test_inspect_counts_iterations():
    limited = fg.compile(lambda a: fg.fori_loop(0, 5, lambda i, c: np.sin(c), a)).inspect(X)
    assert [(each.kind, each.shape, each.flops) for each in limited.stages] == [("iterations", (5,), 15)]
    free = fg.compile(lambda a: fg.while_loop(lambda c: np.sum(c) < 9, lambda c: 2 * c, a)).inspect(X)
    assert [(each.kind, each.shape, each.flops) for each in free.stages] == [("iterations", (), 3)]
    assert "iterations while a condition holds" in str(free)


def other_dtype(c, x):
    return {"w": c["w"].astype(np.float32)}, None


def test_mistakes():
    compiled = fg.compile(lambda a: fg.scan(other_dtype, {"w": a}, XS)[0])
    with pytest.raises(errors.DtypeError, match=r"carry\['w'\] had dtype float64, and other_dtype") as e:
        compiled(X)
    assert "test_native_loops.py" in str(e.value)
    loss = lambda a: np.sum(fg.while_loop(lambda c: np.sum(c) < 9, lambda c: 1.5 * c, a))  # noqa: E731
    for function in (fg.compile(fg.grad(loss)), fg.grad(fg.compile(loss))):
        with pytest.raises(errors.ConcretizationError, match=r"a backward pass through a loop(.|\n)*max_steps=100"):
            function(X)


# Loops of Python's


def slope(weights, y):
    return np.tanh(weights @ y) - 0.5 * y


def runge_kutta(weights, y, count=5, step=0.05):
    for _ in range(count):
        k1 = slope(weights, y)
        k2 = slope(weights, y + step / 2 * k1)
        k3 = slope(weights, y + step / 2 * k2)
        y = y + step / 6 * (k1 + 2.0 * k2 + 2.0 * k3 + slope(weights, y + step * k3))
    return np.sum(y * y)


def gated(weights, xs):
    hidden, cell, total = np.zeros(4), np.zeros(4), 0.0
    for t in range(len(xs) - 1):
        gates = np.concatenate([xs[t], hidden]) @ weights
        cell = cell / (1.0 + np.exp(-gates[:4])) + np.tanh(gates[4:8])
        hidden = np.tanh(cell) / (1.0 + np.exp(-gates[8:]))
        total = total + np.sum((hidden - xs[t + 1]) ** 2)
    return total


def filtered(moves, noise, seen):
    mean, spread, total = np.zeros(2), np.eye(2), 0.0
    for each in seen:
        mean, spread = moves @ mean, moves @ spread @ moves.T + 0.1 * np.eye(2)
        surprise = spread + noise * np.eye(2)
        gain = np.linalg.solve(surprise, spread).T
        total = total + (each - mean) @ np.linalg.solve(surprise, each - mean)
        mean, spread = mean + gain @ (each - mean), spread - gain @ spread
    return total + np.sum(mean)


def collected(x, factors):
    rows = []
    for factor in factors:
        x = np.sin(x * factor) + 0.1
        rows.append(x)
    return np.sum(np.stack(rows) * np.arange(1.0, len(rows) + 1)[:, None])


PYTHONS_LOOPS = {
    "Runge-Kutta": (runge_kutta, RNG.normal(size=(3, 3)), RNG.normal(size=3)),
    "gates": (gated, RNG.normal(size=(8, 12)), RNG.normal(size=(9, 4))),
    "filter": (filtered, 0.5 * RNG.normal(size=(2, 2)), 0.7, RNG.normal(size=(8, 2))),
    "collected": (collected, RNG.normal(size=5), RNG.uniform(size=60)),
}


@pytest.mark.parametrize("name", PYTHONS_LOOPS)
@pytest.mark.parametrize("transform", ["value", "gradient", "product"])
def test_loops_of_pythons_are_found_and_change_no_bit(name, transform):
    function, *args = PYTHONS_LOOPS[name]
    changed = {
        "value": lambda: function,
        "gradient": lambda: fg.value_and_grad(function, argnums=tuple(range(len(args)))),
        "product": lambda: lambda x, *rest: fg.hvp(lambda x: function(x, *rest))(x, x),
    }[transform]()
    compiled = fg.compile(changed)
    found = flatten(compiled(*args))[0]
    assert "iterations" in [stage.kind for stage in compiled.inspect(*args).stages]
    unrolled = fg.compile(changed, reroll=False)
    plain = flatten(unrolled(*args))[0]
    assert "iterations" not in [stage.kind for stage in unrolled.inspect(*args).stages]
    # An array that waits for the pass back lies row by row. By how an array lies, the libraries for products sum in one
    # order or another, and NumPy's sine is that of vectors or of single numbers, as the processor has it.
    rtol = 0.0 if transform == "value" else 1e-13
    for x, y in zip(found, plain, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol, 0.0)


def test_a_loop_of_pythons_runs_again_for_other_values():
    compiled = fg.compile(fg.value_and_grad(runge_kutta, argnums=(0, 1)))
    for _ in range(3):
        weights, y = RNG.normal(size=(3, 3)), RNG.normal(size=3)
        wanted = fg.value_and_grad(runge_kutta, argnums=(0, 1))(weights, y)
        assert_alike(compiled(weights, y), wanted, rtol=1e-9)


def unaligned(x):
    return np.frombuffer(b"." + x.tobytes(), offset=1).reshape(x.shape)


LAYOUTS = {
    "rows": XS,
    "transposed": np.ascontiguousarray(XS.T).T,
    "columns": np.asfortranarray(XS),
    "every second": np.repeat(XS, 2, axis=1)[:, ::2],
    "backwards": XS[::-1, ::-1],
    "repeated": np.broadcast_to(XS[1], XS.shape),
    "one element of each row": np.broadcast_to(XS[:, :1], XS.shape),
    "unaligned": unaligned(XS),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "loop",
    [
        lambda given, x: fg.fori_loop(0, 3, lambda i, c: given, x),
        lambda given, x: fg.fori_loop(0, 3, lambda i, c: (c[1] + given, given), (x, x)),
        lambda given, x: fg.scan(lambda c, y: (given, given[1] + y), x, x),
        lambda given, x: fg.scan(lambda c, y: (c + y, given), x, x),
        lambda given, x: fg.map(lambda y: given, x),
        lambda given, x: fg.while_loop(lambda c: c[1] < 3, lambda c: (given, c[1] + 1), (x, 0)),
        lambda given, x: fg.vmap(lambda row: fg.fori_loop(0, 2, lambda i, c: given[0] * 0.9, row))(x),
        lambda given, x: fg.fori_loop(0, 2, lambda i, c: fg.fori_loop(0, 2, lambda j, d: given, c), x),
        lambda given, x: fg.cond(x[0, 0] > 0, lambda: given, lambda: x),
    ],
)
def test_an_iteration_may_give_an_array_from_outside_that_lies_in_any_order(loop, layout):
    compare(lambda x: loop(LAYOUTS[layout], x), np.ones((4, 3)))
    compare(lambda x, given: loop(given, x), np.ones((4, 3)), LAYOUTS[layout])
