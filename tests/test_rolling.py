"""Loops that Python unrolled, and the program finds again: the same answers, bit by bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgrad as fg
from fgrad.graphs import periods, rerolling
from fgrad.graphs.graph import Block
from fgrad.graphs.record import recorded
from fgrad.graphs.rerolling import loops_of, rerolled
from fgrad.ops import indexing

RNG = np.random.default_rng(0)
TURNS = 40


def block_of(function, *args):
    graph, _ = recorded(function, args, {}, integers=True)
    return Block([*graph.inputs, *graph.variables], graph.constants, graph.equations, graph.outputs)


def others(block, seed=1):
    """Return values for a program other than those with which it was recorded."""
    rng = np.random.default_rng(seed)
    found = {}
    for name in block.inputs:
        value = rng.normal(size=name.shape).astype(name.dtype)[()]
        found[name] = value.item() if name.is_weak else value
    return found


def is_same(a, b):
    """Return whether values are the same bit by bit, but for the sign of zeros."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and (a + 0).tobytes() == (b + 0).tobytes()


def check(function, *args):
    """Return the loops of a program by depth, as (iterations, depth), and how many equations are left outside of
    them."""
    block = block_of(function, *args)
    found = rerolled(block)
    values = others(block)
    kept = {name: np.copy(value) for name, value in values.items()}
    for ours, theirs in zip(found.computed(values), block.computed(values), strict=True):
        assert is_same(ours, theirs)
    assert all(np.array_equal(values[name], kept[name]) for name in kept)
    loops = loops_of(found)
    outside = len(found.equations) - sum(loop.depth == 0 for loop in loops)
    return [(loop.iterations, loop.depth) for loop in loops], outside


def normal(*shape):
    return RNG.normal(size=shape)


def total(function):
    """Return the value and all gradients of the sum of a function's results."""

    def summed(*args):
        found = function(*args)
        return sum(np.sum(each) for each in (found if type(found) is tuple else (found,)))

    return lambda *args: fg.value_and_grad(summed, argnums=tuple(range(len(args))))(*args)


# Programs


def runge_kutta(w, y, iterations=TURNS):
    h = 5.0 / iterations

    def slope(y):
        return np.tanh(w @ y) - 0.5 * y

    for _ in range(iterations):
        a = slope(y)
        b = slope(y + h / 2 * a)
        c = slope(y + h / 2 * b)
        d = slope(y + h * c)
        y = y + h / 6 * (a + 2.0 * b + 2.0 * c + d)
    return np.sum(y * y)


def lstm(main, xs, layers=2, width=3):
    hs, cs, total = [np.zeros(width)] * layers, [np.zeros(width)] * layers, 0.0
    for t in range(len(xs) - 1):
        x = xs[t]
        for i in range(layers):
            gates = np.concatenate([x, hs[i], x, hs[i]]) * main[2 * i] + main[2 * i + 1]
            forget, write, read, new = (gates[width * k : width * (k + 1)] for k in range(4))
            cs[i] = cs[i] * np.tanh(forget) + np.tanh(write) * np.tanh(new)
            x = hs[i] = np.tanh(read) * np.tanh(cs[i])
        total = total + np.sum((x - xs[t + 1]) ** 2)
    return total


def kalman(a, q, ys):
    m, p, h, total = np.zeros(2), np.eye(2), np.array([[1.0, 0.0]]), 0.0
    for t in range(len(ys)):
        m, p = a @ m, a @ p @ a.T + q @ q.T
        s = h @ p @ h.T + 0.1
        k = p @ h.T @ np.linalg.inv(s)
        r = ys[t] - h @ m
        total = total - 0.5 * (r @ np.linalg.solve(s, r) + np.linalg.slogdet(s)[1])
        m, p = m + k @ r, p - k @ h @ p
    return total


def leapfrog(q, p):
    def energy(q):
        return np.sum(q**4 / 4 - q**2 / 2 + q[0] * q[1])

    for _ in range(TURNS):
        p = p - 0.05 * fg.grad(energy)(q)
        q = q + 0.1 * p
        p = p - 0.05 * fg.grad(energy)(q)
    return q, p


def adam(w, x, y):
    m = v = 0 * w
    for t in range(1, TURNS + 1):
        g = fg.grad(lambda w: np.mean((x @ w - y) ** 2))(w)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        w = w - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)
    return w


def in_batches(w, x):
    for i in range(0, len(x), 2):
        w = w - 0.1 * fg.grad(lambda w, part=x[i : i + 2]: np.mean((part @ w) ** 2))(w)
    return w


def collected(w, y):
    ys = []
    for _ in range(TURNS):
        y = np.tanh(w @ y) + 0.1
        y = y - 0.1 * np.sin(y)
        ys.append(y)
    middle = np.stack(ys[3:9] + ys[20:25])
    return np.stack(ys), np.stack(ys[::-1]), np.stack(ys, axis=1), np.concatenate(ys), middle, ys[7]


def layers_in_time(w, x, xs):
    for t in range(20):
        x = x + xs[t]
        for _ in range(10):
            x = np.tanh(w @ x) + 0.1 * x
            x = x * 1.1 - np.sin(x) * 0.2
            x = x + 0.1 - np.cos(x) * 0.1
        x = x - xs[t + 1] * 0.1
    return np.sum(x)


def network(parameters, x):
    for w, b in parameters:
        x = np.tanh(w @ x + b) * 0.9 + np.sin(x) * 0.1
    return np.sum(x**2)


def windows(x, xs):
    for t in range(len(xs) - 3):
        x = np.sin(x) * np.sum(xs[t : t + 3]) - x * 0.1
    return x


def columns(x, xs):
    for t in range(xs.shape[1]):
        x = np.sin(x) + xs[:, t] * xs[0, t]
    return x


def from_the_end(x, xs):
    for t in range(1, len(xs)):
        x = np.sin(x) + xs[-t] * np.cos(x)
    return x


def every_other(x, xs):
    for t in range(0, len(xs), 2):
        x = np.sin(x) * xs[t] + np.tanh(xs[t]) - x
    return x


def neighbours(x, xs):
    for t in range(len(xs) - 3):
        x = np.sin(x) * xs[t] + xs[t + 1] * xs[t + 3] - xs[t]
    return x


def filled(x):
    out = fg.numpy.zeros((TURNS + 1, 3))
    out[0] = x
    for t in range(TURNS):
        out[t + 1] = np.sin(out[t]) + 0.5 * out[t]
    return np.sum(out**2)


def swapped(a, b):
    for _ in range(TURNS):
        a, b = b, np.sin(a + b) * 0.5 + a - b * 0.1
    return a, b


def two_apart(a, b):
    for _ in range(2 * TURNS):
        a, b = b, np.sin(a) * 1.1 + 0.1
    return a, b


def interleaved(a, b):
    for _ in range(TURNS):
        a, b = np.sin(a) + 1.5, np.tanh(b) * 2.0 - a
    return a * b, b


def clocked(x, h):
    t = 0.0
    for _ in range(TURNS):
        x, t = x + h * np.sin(t * x), t + h
    return x, t


def numbered(x):
    for t in range(TURNS):
        x = np.sin(x * (t + 0.5)) + t
        x = x * 0.3 + 1
    return x


def weighted(x):
    tables = [np.arange(6.0) + t for t in range(TURNS)]
    for t in range(TURNS):
        x = np.sin(x) * tables[t] + np.cos(x) * 0.5 - x * np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    return x


def third(x):
    for t in range(TURNS):
        x = np.sin(x) * 1.5 + 0.2 - x * 0.1
        if t == 3:
            kept = x
    return x * kept


def of_the_first(x):
    first = None
    for _ in range(TURNS):
        x = np.sin(x) * 1.5 + 0.2
        x = x - 0.1 * (x if first is None else first)
        first = x if first is None else first
    return x


def three_before(x, y):
    h = [x, y, x]
    for _ in range(TURNS):
        h.append(np.sin(h[-1]) + 0.5 * h[-3] - 0.1)
    return h[-1]


def stacked_layers(x, iterations=30, layers=12):
    hs = [x] * layers
    for _ in range(iterations):
        z = x
        for i in range(layers):
            z = hs[i] = np.sin(z + hs[i]) * 0.5
    return z


ONE = [(TURNS, 0)]
PROGRAMS = {
    "runge-kutta": (runge_kutta, (normal(3, 3), normal(3, 1)), ONE),
    "lstm": (lstm, (normal(4, 12), normal(30, 3)), [(28, 0)]),
    "kalman": (kalman, (normal(2, 2), normal(2, 2), normal(TURNS, 1)), [(TURNS - 2, 0)]),
    "leapfrog": (leapfrog, (normal(3), normal(3)), ONE),
    "adam": (adam, (normal(3), normal(5, 3), normal(5)), ONE),
    "batches": (in_batches, (normal(3), normal(2 * TURNS, 3)), ONE),
    "collected": (collected, (normal(3, 3), normal(3)), ONE),
    "layers in time": (layers_in_time, (normal(3, 3), normal(3), normal(21, 3)), [(20, 0), (10, 1)]),
    "network": (network, ([(normal(4, 4) / 2, normal(4)) for _ in range(TURNS)], normal(4)), ONE),
    "windows": (windows, (normal(3), normal(TURNS + 3)), ONE),
    "columns": (columns, (normal(3), normal(3, TURNS)), ONE),
    "from the end": (from_the_end, (normal(3), normal(TURNS + 1, 3)), ONE),
    "every other": (every_other, (normal(3), normal(2 * TURNS, 3)), ONE),
    "neighbours": (neighbours, (normal(3), normal(TURNS + 3, 3)), ONE),
    "filled": (filled, (normal(3),), ONE),
    "swapped": (swapped, (normal(3), normal(3)), ONE),
    "two apart": (two_apart, (normal(3), normal(3)), [(2 * TURNS, 0)]),
    "interleaved": (interleaved, (normal(3), normal(3)), ONE),
    "clocked": (clocked, (normal(3), 0.01), ONE),
    "clocked in float32": (clocked, (normal(3).astype(np.float32), 0.01), ONE),
    "numbered": (numbered, (normal(3),), ONE),
    "weighted": (weighted, (normal(6),), ONE),
    "third": (third, (normal(3),), ONE),
    "of the first": (of_the_first, (normal(3),), [(TURNS - 1, 0)]),
    "three before": (three_before, (normal(3), normal(3)), ONE),
    "stacked layers": (stacked_layers, (normal(3),), [(30, 0)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_of_pythons_is_one_equation(name):
    function, args, expected = PROGRAMS[name]
    loops, _ = check(function, *args)
    assert loops == expected


BOTH = [(TURNS, 0), (TURNS - 1, 0)]
BACK = {
    "runge-kutta": (BOTH, 74),
    "lstm": ([(28, 0), (27, 0)], 236),
    "kalman": ([(38, 0), (39, 0)], 157),
    "network": (BOTH, 92),
    "layers in time": ([(20, 0), (10, 1), (19, 0), (9, 1), (9, 0)], 71),
    "collected": ([(40, 0), (38, 0)], 83),
    "columns": (BOTH, 13),
    "windows": (BOTH, 18),
    "neighbours": (BOTH, 26),
    "every other": (BOTH, 24),
    "from the end": (BOTH, 19),
    "filled": ([(40, 0), (40, 0)], 8),
    "swapped": (BOTH, 9),
    "clocked": ([(39, 0), (39, 0)], 23),  # t begins as a number of Python's, to which h adds one of NumPy's
    "numbered": (BOTH, 6),
    "weighted": (BOTH, 13),
    "third": ([(40, 0), (35, 0)], 40),
    "of the first": ([(39, 0), (38, 0)], 16),
    "three before": ([(40, 0), (37, 0)], 12),
    "stacked layers": ([(30, 0), (28, 0)], 121),
}
"""The loops of a value and its gradients, and how many equations there are beside them."""


@pytest.mark.parametrize("name", BACK)
def test_the_pass_back_is_a_loop_too(name):
    function, args, _ = PROGRAMS[name]
    gradients = fg.value_and_grad(function) if name == "network" else total(function)
    loops, outside = check(gradients, *args)
    expected, most = BACK[name]
    assert loops == expected
    assert outside <= most


def test_a_long_program_is_as_short_as_a_short_one():
    w, y = normal(3, 3), normal(3, 1)
    short, long = (rerolled(block_of(total(lambda w, y, n=n: runge_kutta(w, y, n)), w, y)) for n in (10, 200))
    assert len(short.equations) == len(long.equations)
    assert [loop.iterations for loop in loops_of(long)] == [200, 199]


def test_constants_of_loops_inside_are_constants_of_the_program():
    def f(x, xs):
        for t in range(12):
            for i in range(10):
                x = np.sin(x * (i + 0.5)) + np.cos(x) * np.arange(7.0 + i)[:7] * 0.1
                x = x * 0.9 - np.tanh(x) * 0.1 + np.exp(-x * x) * 0.1
            x = x + xs[t]
        return x

    loops, _ = check(f, normal(7), normal(12, 7))
    assert loops == [(12, 0), (10, 1)]
    block = rerolled(block_of(lambda *args: total(f)(*args), normal(7), normal(12, 7)))
    bodies = [each.primitive.implementation.body for each in block.equations if each.primitive.name == "loop"]
    assert len(bodies) >= 2
    assert not any(body.constants for body in bodies)
    check(total(f), normal(7), normal(12, 7))


def test_second_derivatives_are_loops():
    loops, outside = check(fg.hessian(lambda x: np.sum(numbered(x))), normal(3))
    assert len(loops) == 2
    assert outside < 60


def test_cotangents_of_elements_are_gathered_behind_the_loop():
    block = rerolled(block_of(total(neighbours), normal(3), normal(TURNS + 3, 3)))
    back = [each for each in block.equations if each.primitive.name == "loop"][-1]
    names = [each.primitive.name for each in back.primitive.implementation.body.equations]
    assert "scatter" not in names
    assert "scatter" in [each.primitive.name for each in block.equations]


@pytest.mark.parametrize("few", [0, 10_000])
def test_cotangents_are_gathered_from_large_and_small_arrays(monkeypatch, few):
    monkeypatch.setattr(indexing, "_FEW", few)
    assert check(total(every_other), normal(3), normal(2 * TURNS, 3))[0] == BOTH
    assert check(total(neighbours), normal(3), normal(TURNS + 3, 3))[0] == BOTH
    assert check(total(columns), normal(3), normal(3, TURNS))[0] == BOTH
    block = rerolled(block_of(total(every_other), normal(3), normal(2 * TURNS, 3)))
    back = [each for each in block.equations if each.primitive.name == "loop"][-1]
    names = {each.primitive.name for each in back.primitive.implementation.body.equations}
    assert names.isdisjoint({"scatter", "replace", "index"})


def driven(x, c):
    state = np.zeros(len(x))
    for i in range(TURNS):
        state = np.tanh(state * c + x[:, i])
    return np.sum(state * np.arange(len(x)))


def test_cotangents_of_columns_are_gathered_along_their_axis():
    # The slope of the last iteration is needed at once, so its argument comes with it out of the loop.
    assert check(fg.grad(driven), normal(TURNS, TURNS), 0.7)[0] == [(TURNS - 1, 0), (TURNS - 1, 0)]


def test_what_is_added_to_elsewhere_too_stays_in_the_loop():
    def f(x, xs):
        for t in range(TURNS):
            x = np.sin(x) * xs[t] + np.cos(x) * xs[0] - xs[t, 1] * xs[TURNS - 1 - t]
        return x

    assert check(total(f), normal(3), normal(TURNS, 3))[0] == BOTH


def added(x, t, total):
    return total + indexing.scatter_add(x, t, (TURNS + 1, 3))


def sums(x, kind):
    """Add to another row in each iteration, and look at the sum elsewhere, too."""
    total, before, seen = np.zeros((TURNS + 1, 3)) * x, np.ones((TURNS + 1, 3)) * x, []
    for t in range(TURNS):
        x = np.sin(x) * 1.5 + 0.2
        if kind == "the sum of each iteration":
            x = x + 0.1 * np.mean(total, 0)
        if kind == "another start":
            total = indexing.setitem(total if t else before, t, total[t] + x)
            continue
        total = added(x, t, total)
        if kind == "what is between two additions":
            seen.append(total)
        if kind == "in place":
            total = indexing.setitem(total, t, total[t] + x)
        else:
            total = added(x * 2.0, t + 1, total)
        seen.append(total)
    found = {"the start": before, "another start": before}
    return total, found[kind] if kind in found else seen[10] if "iteration" in kind or "between" in kind else x, x


@pytest.mark.parametrize(
    ("kind", "gathered"),
    [
        ("nothing else", True),
        ("in place", True),
        ("the start", True),
        ("another start", False),
        ("the sum of an iteration", False),
        ("what is between two additions", False),
        ("the sum of each iteration", False),
    ],
)
def test_sums_are_made_behind_the_loop_if_nothing_looks_at_them_before(kind, gathered):
    assert check(sums, normal(3), kind)[0][0][0] in (TURNS, TURNS - 1)
    block = rerolled(block_of(sums, normal(3), kind))
    (loop,) = (each.primitive.implementation for each in block.equations if each.primitive.name == "loop")
    names = {each.primitive.name for each in loop.body.equations}
    assert names.isdisjoint({"scatter", "replace"}) == gathered


# Programs that are nearly loops, or none


@pytest.mark.parametrize("iteration", [0, 1, 2, 17, TURNS - 2, TURNS - 1])
def test_one_iteration_is_another(iteration):
    def f(x):
        for t in range(TURNS):
            x = np.sin(x) * 1.5 + 0.2 - x * 0.3
            x = np.cos(x) if t == iteration else np.tanh(x)
            x = x - 0.1 * np.sin(x)
        return x

    loops, _ = check(f, normal(3))
    assert sum(iterations for iterations, _ in loops) >= TURNS - 4
    check(total(f), normal(3))


@pytest.mark.parametrize("iteration", [0, 3, 20, TURNS - 1])
def test_one_iteration_looks_elsewhere(iteration):
    def f(x, y, xs):
        kept = x
        for t in range(TURNS):
            z = y if t == iteration else x
            kept = x if t == 5 else kept
            x = np.sin(z) * 1.5 + xs[t if t != iteration else 0] - kept * 0.3
        return x

    check(f, normal(3), normal(3), normal(TURNS, 3))
    check(total(f), normal(3), normal(3), normal(TURNS, 3))


def test_a_value_of_some_iteration_is_used_at_the_end():
    def f(x):
        seen = []
        for _ in range(TURNS):
            x = np.sin(x) * 1.5 + 0.2 - x * 0.1
            seen.append(x)
        return x * seen[3] + seen[-2] - seen[-1] * seen[0], seen[17]

    assert check(f, normal(3))[0] == ONE


def test_constants_that_are_equal_are_one():
    def f(x, same):
        for t in range(TURNS):
            table = np.arange(6.0) if same else np.arange(6.0) + (t == 7)
            x = np.sin(x * table) + np.cos(x) - table * 0.5
        return x

    same, other = (rerolled(block_of(lambda x, each=each: f(x, each), normal(6))) for each in (True, False))
    (loop,) = (each.primitive.implementation for each in same.equations)
    assert not loop.reads
    check(lambda x: f(x, False), normal(6))
    (loop,) = (each.primitive.implementation for each in other.equations)
    assert loop.reads


def test_zeros_and_nans_keep_their_bits():
    def f(x):
        for t in range(TURNS):
            x = np.copysign(x, -0.0 if t % 2 else 0.0) * np.array([np.nan if t == 9 else 1.0, -1.0, 0.0 * -1.0 * t])
            x = x + np.sin(x) - 0.5
        return x

    check(f, normal(3))


def test_programs_without_loops_stay_as_they_are():
    block = block_of(total(lambda x: np.sin(x) * np.cos(x) + x), normal(3))
    assert rerolled(block) is block
    rng = np.random.default_rng(0)
    choice = rng.integers(3, size=400)

    def f(x):
        for each in choice:
            x = (np.sin, np.cos, np.tanh)[each](x)
        return x

    block = block_of(f, normal(3))
    assert rerolled(block) is block


def test_short_loops_stay_as_they_are():
    def f(x, iterations):
        for _ in range(iterations):
            for _ in range(20):
                x = np.sin(np.cos(np.tanh(x)))
            x = x * 2.0
        return x

    assert check(lambda x: f(x, 1), normal(3)) == ([], 61)


def test_large_arrays_are_not_put_together_for_a_loop(monkeypatch):
    function, args, _ = PROGRAMS["network"]
    monkeypatch.setattr(rerolling, "LARGEST_COPY", 100)
    block = block_of(function, *args)
    assert check(function, *args) == ([], len(block.equations))
    check(fg.value_and_grad(function), *args)


def test_calls_are_of_an_iteration_if_they_are_the_same():
    @fg.checkpoint
    def step(x):
        return np.sin(x) * 1.5 + 0.1

    def f(x):
        for _ in range(TURNS):
            x = step(x) + np.cos(x)
            x = x * 0.9 - np.tanh(x)
        return x

    check(f, normal(3))
    check(total(f), normal(3))


def test_loops_say_where_they_are():
    block = block_of(runge_kutta, normal(3, 3), normal(3, 1))
    (loop,) = loops_of(rerolled(block))
    assert (loop.iterations, loop.equations, loop.depth) == (TURNS, 29, 0)
    assert loop.places == sorted({each.place for each in block.equations[:29]})
    assert not loop.is_conditional
    assert loops_of(block) == []


# Any loop

STEPS = [
    "sin", "add", "multiply", "matmul", "iteration", "mean", "number", "before", "append", "read", "mirrored", "window",
    "inner", "column", "kept", "literal", "fill",
]  # fmt: skip


def any_loop(steps, iterations, carried):
    """Return a function with a loop whose body is a list of steps, each on two values that the iteration has so far."""

    def f(w, xs, *carry):
        appended, history = [], [list(carry)] * 2
        kept, rows = carry[0], fg.numpy.zeros((iterations, 3))
        for t in range(iterations):
            pool = list(carry)
            for name, i, j in steps:
                a, b = pool[i % len(pool)], pool[j % len(pool)]
                if name == "append":
                    appended.append(a)
                elif name == "kept":
                    kept = a if t == 2 else kept
                elif name == "fill":
                    rows[t] = a
                else:
                    pool.append(np.tanh(stepped(name, a, b, t, iterations, w, xs, history, i, kept)))
            carry = pool[-carried:]
            history = [history[-1], list(carry)]
        return (*carry, *([np.stack(appended)] if appended else []), rows, kept)

    return f


def stepped(name, a, b, t, iterations, w, xs, history, i, kept):
    if name == "inner":
        for _ in range(6):
            a = np.sin(a) + b * 0.1
        return a
    return {
        "sin": lambda: np.sin(a),
        "add": lambda: a + b,
        "multiply": lambda: a * b,
        "matmul": lambda: w @ a,
        "iteration": lambda: np.concatenate([a[1:], b[:1]]),
        "mean": lambda: a * np.mean(b),
        "number": lambda: a * (0.1 * t + 0.2),
        "before": lambda: a + history[-2][i % len(history[-2])],
        "read": lambda: a + xs[t + i % 3],
        "mirrored": lambda: a * xs[iterations - 1 - t],
        "window": lambda: a + np.sum(xs[t : t + 2], 0),
        "column": lambda: a * xs[:, 1][t],
        "literal": lambda: a + np.array([1.0, t, 0.5]),
        "kept": lambda: a,
    }[name]()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=7),
    st.integers(4, 11),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([0, 10_000]),
)
def test_any_loop_computes_what_its_iterations_compute(steps, iterations, carried, is_back, few):
    rng = np.random.default_rng(0)
    args = [rng.normal(size=shape) for shape in [(3, 3), (iterations + 3, 3), *[(3,)] * carried]]
    f = any_loop(steps, iterations, carried)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(periods, "FEWEST_SAVED", 6)  # so that there are loops in nearly all of them
        patch.setattr(rerolling, "FEWEST_SAVED", 6)
        patch.setattr(indexing, "_FEW", few)  # from where on cotangents are gathered in another way
        check(total(f) if is_back else f, *args)
