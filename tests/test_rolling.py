"""Loops that Python unrolled, and the program finds again: the same answers, bit by bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgrad as fg
from fgrad.graphs.graph import Block
from fgrad.graphs.record import recorded
from fgrad.graphs.rolling import loops_of, rolled

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
    """Return the loops of a program by depth, as (turns, depth), and how many equations are left outside of them."""
    block = block_of(function, *args)
    found = rolled(block)
    values = others(block)
    kept = {name: np.copy(value) for name, value in values.items()}
    for ours, theirs in zip(found.computed(values), block.computed(values), strict=True):
        assert is_same(ours, theirs)
    assert all(np.array_equal(values[name], kept[name]) for name in kept)
    loops = loops_of(found)
    outside = len(found.equations) - sum(loop.depth == 0 for loop in loops)
    return [(loop.turns, loop.depth) for loop in loops], outside


def normal(*shape):
    return RNG.normal(size=shape)


def total(function):
    """Return the value and all gradients of the sum of a function's results."""

    def summed(*args):
        found = function(*args)
        return sum(np.sum(each) for each in (found if type(found) is tuple else (found,)))

    return lambda *args: fg.value_and_grad(summed, argnums=tuple(range(len(args))))(*args)


# Programs


def runge_kutta(w, y, turns=TURNS):
    h = 5.0 / turns

    def slope(y):
        return np.tanh(w @ y) - 0.5 * y

    for _ in range(turns):
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
            cs = cs[:i] + [cs[i] * np.tanh(forget) + np.tanh(write) * np.tanh(new)] + cs[i + 1 :]
            x = np.tanh(read) * np.tanh(cs[i])
            hs = hs[:i] + [x] + hs[i + 1 :]
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


def stacked_layers(x, turns=30, layers=12):
    hs = [x] * layers
    for _ in range(turns):
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


BACK = {
    "runge-kutta": [(TURNS, 0), (TURNS - 1, 0)],
    "lstm": [(28, 0), (27, 0)],
    "kalman": None,
    "columns": None,
    "neighbours": None,
    "filled": None,
    "swapped": None,
    "windows": None,
    "network": None,
    "layers in time": None,
    "collected": None,
    "every other": None,
    "numbered": None,
    "weighted": None,
    "third": None,
    "of the first": None,
    "three before": None,
    "clocked": None,
    "from the end": None,
    "stacked layers": None,
}


@pytest.mark.parametrize("name", BACK)
def test_the_pass_back_is_a_loop_too(name):
    function, args, _ = PROGRAMS[name]
    gradients = fg.value_and_grad(function) if name == "network" else total(function)
    loops, outside = check(gradients, *args)
    print(name, loops, outside)
