"""Derivatives of long loops in plain Python, compiled: as loops, and equal to those of the plain run."""

import numpy as np
import pytest

import fgrad as fg
from fgrad.core.tree import flatten
from fgrad.graphs import replaying
from fgrad.graphs.loop import iterations_of
from fgrad.graphs.replaying import RerollingTrace
from fgrad.scipy import linalg

RNG = np.random.default_rng(5)
X = RNG.uniform(0.3, 0.9, 4)
XS = RNG.uniform(0.2, 1.0, (60, 4))
MATRIX = RNG.normal(size=(4, 4)) / 4


@pytest.fixture(autouse=True)
def short_programs_are_long(monkeypatch):
    monkeypatch.setattr(replaying, "_LONG", 60)
    monkeypatch.setattr(replaying, "_SHORTER", 2)


@pytest.fixture
def replayed(monkeypatch):
    """The programs with loops whose derivatives replaced those of their iterations, None for those refused."""
    found, original = [], RerollingTrace._rerolled

    def rerolled(*args):
        found.append(original(*args))
        return found[-1]

    monkeypatch.setattr(RerollingTrace, "_rerolled", rerolled)
    return found


def orbit(state):
    for _ in range(40):
        position, speed = state[:2], state[2:]
        speed = speed - 0.1 * position / np.sum(position**2) ** 1.5
        state = np.concatenate([position + 0.1 * speed, speed])
    return np.sum(state**2)


def pendulum(state):
    for _ in range(30):
        a, b, p, q = state
        state = state + 0.01 * np.stack([p, q, np.sin(a - b) * p, np.cos(a) * q])
    return np.sum(state * state)


def recursion(params, xs):
    scale, decay = params[0], params[1]
    variance, loss = np.var(xs), 0.0
    for row in xs:
        loss = loss + np.log(variance) + row[0] ** 2 / variance
        variance = scale + decay * row[0] ** 2 + 0.5 * variance
    return loss


def network(weights, inside, xs):
    h = np.zeros(4)
    for x in xs:
        h = np.tanh(h @ weights + x @ inside)
    return np.sum(h**2)


def gates(weights, xs):
    h = c = np.zeros(4)
    for x in xs:
        i, f = np.split(x[:2] @ weights + np.tile(h, 2), 2)
        c = c / (1 + np.exp(-f)) + np.tanh(i)
        h = np.tanh(c)
    return np.sum(h * c)


def lagged(x):
    before, now, total = x, 2 * x, 0.0
    for _ in range(40):
        before, now = now, 0.9 * now - 0.2 * np.sin(before)
        total = total + np.sum(now)
    return total


def backwards(x, xs):
    for row in xs[::-1]:
        x = x * np.cos(row) + row[::-1]
    return np.sum(x)


def every_second(x, xs):
    for t in range(1, 59, 2):
        x = x * np.cos(xs[t]) + xs[t - 1] * np.sin(x)
    return np.sum(x * x)


def stacked(x):
    rows = []
    for _ in range(40):
        x = x + 0.1 * np.sin(x)
        rows.append(x)
    return np.sum(np.stack(rows) ** 2)


def masked(x):
    for _ in range(40):
        x = np.where(x > 0.5, x - 0.1 * np.sqrt(x), x + 0.05)
    return np.sum(x)


def nested(x):
    for _ in range(12):
        y = x
        for _ in range(15):
            y = y + 0.01 * np.sin(y)
        x = 0.5 * (x + y)
    return np.sum(x)


def two_loops(x):
    for _ in range(40):
        x = x + 0.1 * np.sin(x)
    y = x * 2
    for _ in range(40):
        y = y - 0.05 * y * x
    return np.sum(y)


def written(x):
    y = fg.numpy.zeros(40)
    y[0] = x[0]
    for t in range(1, 40):
        y[t] = 0.9 * y[t - 1] + x[1] * np.sin(y[t - 1])
    return np.sum(y**2)


def complex_rotation(x):
    z = x + 0.5j
    for _ in range(40):
        z = z * np.exp(0.1j) + 0.01 * z * z
    return np.sum(np.abs(z) ** 2)


def stopped(x):
    for _ in range(40):
        x = x + 0.1 * fg.stop_gradient(np.sin(x)) * x
    return np.sum(x)


def inverses(x):
    p = np.eye(4) * x
    for _ in range(40):
        p = np.linalg.inv(p) + MATRIX * 0.1
    for _ in range(40):
        x = np.linalg.solve(p, x) + 1.0
    return np.sum(p) + np.sum(x)


def few_numbers(x):
    for weight in [0.1, 0.2, 0.4, 0.3, 0.7]:  # so few are constants in the program
        x = x + weight * np.sin(x) - np.cos(x * weight) / (1 + x * x) + np.tanh(x) * weight
        x = x - weight * np.cos(x) + np.sin(x * weight) / (2 + x * x) - np.exp(-x * x) * weight
        x = x + np.arctan(x) * weight - np.cos(x + weight) / (1 + x * x) + np.tanh(x) * weight
        x = x - weight * np.cos(x) + np.sin(x - weight) / (2 + x * x) - np.sqrt(1 + x * x) * weight
    return np.sum(x)


LOOPS = {
    "few numbers": (few_numbers, X),
    "inverses": (inverses, X),
    "stopped": (stopped, X),
    "orbit": (orbit, X),
    "pendulum": (pendulum, X),
    "recursion": (recursion, X, XS),
    "network": (network, MATRIX, MATRIX.T, XS),
    "gates": (gates, RNG.normal(size=(2, 8)) / 3, XS),
    "lagged": (lagged, X),
    "backwards": (backwards, X, XS),
    "every second": (every_second, X, XS),
    "stacked": (stacked, X),
    "masked": (masked, X),
    "nested": (nested, X),
    "two loops": (two_loops, X),
    "written": (written, X),
    "complex": (complex_rotation, X),
}


def assert_same(found, wanted, rtol=1e-11):
    for x, y in zip(flatten(found)[0], flatten(wanted)[0], strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol, 1e-13)


@pytest.mark.parametrize("name", LOOPS)
def test_derivatives_of_loops_are_those_of_their_iterations(name, replayed):
    function, *args = LOOPS[name]
    transform = fg.value_and_grad(function, argnums=tuple(range(len(args))))
    compiled = fg.compile(transform)
    assert_same(compiled(*args), transform(*args))
    others = [arg * 0.9 for arg in args]
    assert_same(compiled(*others), transform(*others))
    (program,) = replayed  # the second recording uses the program of the first one
    assert program is not None
    assert any(iterations_of(equation) for equation in program.block.equations)


def test_gradients_of_gradients_of_compiled_loops():
    def second(function):
        return fg.grad(lambda x: np.sum(fg.grad(function)(x) ** 2))

    np.testing.assert_allclose(second(fg.compile(orbit))(X), second(orbit)(X), rtol=1e-10)


def test_all_transforms_that_seed_with_ones_differentiate_loops(replayed):
    w = fg.Variable(X)
    transforms = [
        (fg.grad(pendulum), (X,)),
        (fg.gradients_function(pendulum), (X,)),
        (fg.value_and_grad(lambda x: (pendulum(x), x[0]), has_aux=True), (X,)),
        (fg.implicit_value_and_gradients(lambda: pendulum(w * 1.0)), ()),
        (fg.value_and_grad(lambda tree: pendulum(tree["a"]) * tree["b"]), ({"a": X, "b": np.float64(2.0)},)),
    ]
    for transform, args in transforms:
        assert_same(fg.compile(transform)(*args), transform(*args))
    assert len(replayed) == len(transforms)
    assert None not in replayed


@pytest.mark.parametrize("given", [True, False])
def test_steps_of_optimizers_differentiate_loops(given, replayed):
    def trained(compiles):
        w = fg.Variable(X)
        optimizer = fg.optimizers.Adam(0.05)
        step = compiles(lambda: optimizer.minimize(lambda: pendulum(w * 1.0), [w] if given else None))
        for _ in range(5):
            step()
        return w.numpy()

    np.testing.assert_allclose(trained(fg.compile), trained(lambda step: step), 1e-9)
    assert len(replayed) == 1
    assert None not in replayed


def test_a_variable_that_is_assigned_in_the_loss_has_its_gradient():
    def trained(compiles):
        w = fg.Variable(X)
        optimizer = fg.optimizers.GradientDescent(0.05)

        def loss():
            w.assign(0.9 * w)
            return pendulum(w * 1.0)

        step = compiles(lambda: optimizer.minimize(loss, [w]))
        for _ in range(3):
            step()
        return w.numpy()

    np.testing.assert_allclose(trained(fg.compile), trained(lambda step: step), 1e-9)


def test_derivatives_that_are_weighed_or_nested_are_those_of_the_plain_run():
    for transform in (
        fg.jacobian(lambda x: np.stack([pendulum(x), np.sum(x)])),
        fg.hessian(pendulum),
        lambda x: fg.hvp(pendulum)(x, x),
        lambda x: fg.vjp(pendulum, x)[1](2.0),
        fg.vmap(fg.grad(pendulum)),
        fg.grad(lambda x: np.sum(fg.grad(pendulum)(x) ** 2)),
        lambda x: fg.gradients_function(pendulum)(x, dy=0.0),
    ):
        x = XS[:3] if isinstance(transform, type(fg.vmap(orbit))) and "vmap" in repr(transform) else X
        assert_same(fg.compile(transform)(x), transform(x), 1e-9)


def test_loops_whose_iterations_are_results_too_run_once(replayed):
    def trajectory(x):
        rows = [x]
        for _ in range(40):
            rows.append(rows[-1] + 0.1 * np.sin(rows[-1]))
        return np.sum(rows[-1]), np.stack(rows)

    transform = fg.value_and_grad(trajectory, has_aux=True)
    assert_same(fg.compile(transform)(X), transform(X))
    assert replayed == [None]


@pytest.mark.parametrize("name", LOOPS)
def test_derivatives_and_batches_of_compiled_loops_are_those_of_their_iterations(name):
    function, first, *rest = LOOPS[name]
    compiled = fg.compile(function)
    direction, batch = RNG.normal(size=first.shape), np.stack([first, first * 0.8])
    for transform, args in [
        (fg.value_and_grad, (first,)),
        (lambda f: fg.jvp(lambda x: f(x, *rest), [first], [direction]), ()),
        (lambda f: fg.vmap(f, in_axes=(0, *(None for _ in rest))), (batch,)),
        (lambda f: fg.vmap(fg.grad(f), in_axes=(0, *(None for _ in rest))), (batch,)),
        (lambda f: fg.hvp(lambda x: f(x, *rest))(first, direction), ()),
    ]:
        of_compiled, of_plain = transform(compiled), transform(function)
        found = of_compiled(*args, *rest) if callable(of_compiled) else of_compiled
        wanted = of_plain(*args, *rest) if callable(of_plain) else of_plain
        assert_same(found, wanted, 1e-9)


def joined(a):
    w, v = np.linalg.eigh(a)
    return np.sum(w * v[0] ** 2)


AFTER = {
    "inv": lambda a: np.sum(np.linalg.inv(a)),
    "cholesky": lambda a: np.sum(np.linalg.cholesky(a)),
    "values and vectors": joined,
    "real root": lambda a: np.sum(linalg.sqrtm(a)),
}


def test_kinds_of_results_after_a_loop_are_those_of_actual_values():
    def function(x):
        a = np.array([[0.0, 1.0], [-1.0, 0.0]]) * x[0]
        for _ in range(40):
            a = 0.95 * a - 0.02 * a.T
        return np.sum(np.abs(np.linalg.eigvals(a)) ** 2)

    assert_same(fg.compile(fg.value_and_grad(function))(X), fg.value_and_grad(function)(X), 1e-9)
    assert_same(fg.grad(fg.compile(function))(X), fg.grad(function)(X), 1e-9)


@pytest.mark.parametrize("size", [1, 80])
@pytest.mark.parametrize("name", AFTER)
def test_what_follows_a_loop_is_recorded_with_possible_values(name, size):
    def function(x):
        a = np.diag(np.arange(1.0, 5.0)) + np.outer(x, x)
        row = np.zeros(1000 * size) * x[0]  # for 80, with it the results are large
        for _ in range(40):
            a, row = 0.95 * a + 0.02 * a.T, row + np.sum(row[:2])
        return AFTER[name](a) + np.sum(row)

    wanted = fg.value_and_grad(function)(X)
    compiled = fg.compile(function)
    assert_same(fg.compile(fg.value_and_grad(function))(X), wanted, 1e-9)
    assert_same(fg.value_and_grad(compiled)(X), wanted, 1e-9)
    assert_same(fg.vmap(fg.grad(compiled))(np.stack([X, X]))[1], wanted[1], 1e-9)


@pytest.mark.parametrize("name", ["values and vectors", "real root"])
def test_what_follows_a_loop_function_is_recorded_with_regular_matrices(name):
    def function(x):
        a = np.diag(np.arange(1.0, 5.0)) + np.outer(x, x)
        return AFTER[name](fg.scan(lambda a, _: (0.95 * a + 0.02 * a.T, None), a, length=40)[0])

    assert_same(fg.compile(fg.value_and_grad(function))(X), fg.value_and_grad(function)(X), 1e-9)


def test_loop_functions_are_not_run_for_examples():
    calls = []

    def function(x):
        for _ in range(40):
            x = x + 0.1 * np.sin(x)
        a, _ = fg.scan(lambda a, row: (calls.append(1) or a + np.outer(row, row), None), np.zeros((4, 4)), x * XS)
        return np.sum(np.linalg.inv(a))

    compiled = fg.compile(function)
    assert_same(fg.grad(compiled)(X), fg.grad(function)(X), 1e-8)
    assert len(calls) < 2 * len(XS)


def test_gradients_of_loops_that_are_zero_come_with_a_warning(replayed):
    with pytest.warns(fg.errors.NoGradientWarning, match="every gradient of"):
        fg.compile(fg.grad(lambda x: np.sum(np.sign(pendulum(x)))))(X)
    assert replayed[0] is not None


@fg.custom_vjp
def doubled(x):
    return 2 * x


doubled.defvjp(lambda x: (2 * x, None), lambda kept, ct: (7 * ct,))


def with_rule(x):
    for _ in range(40):
        x = 0.4 * doubled(x) + 0.01 * np.sin(x)
    return np.sum(x)


def with_captured(x):
    def inner(p):
        for _ in range(40):
            p = p + 0.1 * np.sin(p) * x
        return np.sum(p)

    return fg.grad(inner)(x)  # p and x have the same value, and only p is differentiated


def with_leak(x):
    kept = []

    def inner(p):
        for _ in range(40):
            p = p + 0.1 * np.sin(p)
            kept.append(p)
        return np.sum(p)

    gradient = fg.grad(inner)(x)
    return gradient, fg.grad(lambda p: inner(p) ** 2)(x)


def test_iterations_with_rules_of_their_own_are_differentiated_one_by_one(replayed):
    transform = fg.value_and_grad(with_rule)
    assert_same(fg.compile(transform)(X), transform(X))
    assert not any(replayed)


def test_a_value_that_is_captured_too_is_not_differentiated():
    assert_same(fg.compile(with_captured)(X), with_captured(X))
    assert_same(fg.compile(with_leak)(X), with_leak(X))
    twice = fg.value_and_grad(lambda x, y: orbit(x) * pendulum(y), argnums=(0, 1))
    assert_same(fg.compile(lambda x: twice(x, x))(X), twice(X, X))


def zero_times_infinite(x, mask):
    total, y = 0.0, x
    for _ in range(30):
        total = total + np.sum(0.0 * np.sqrt(y)) if mask is None else total + np.sum(np.where(mask, np.sqrt(y), 0.0))
        y = y * 1.0
    return total


@pytest.mark.parametrize("mask", [None, np.array([True, False, True, True])])
def test_zeros_win_over_infinities_where_a_mask_has_made_them(mask):
    x = np.array([1.0, 0.0, 2.0, 3.0])
    transform = fg.value_and_grad(lambda x: zero_times_infinite(x, mask))
    with np.errstate(all="ignore"):
        wanted = transform(x)
    assert np.isnan(wanted[1].numpy()[1]) == (mask is None)
    assert_same(fg.compile(transform)(x), wanted)


MASK = np.array([True, False, True, True])


STEPS = np.zeros((40, 4))
STEPS[5:7, 1] = -1.0, 1.0
"""With these, the slope of the square root is infinite in a single iteration."""


def masked_first(x):
    total = np.sum(x)
    for step in STEPS:
        total = total + np.sum(np.where(MASK, x, 0.0)) + np.sum(0.0 * x)
        x = np.sqrt(x + step)
    return total


def masked_last(x):
    total = np.sum(x)
    for step in STEPS:
        total = total + np.sum(0.0 * x) + np.sum(np.where(MASK, x, 0.0))
        x = np.sqrt(x + step)
    return total


def masked_alone(x):
    total = np.sum(x)
    for step in STEPS:
        total = total + np.sum(np.where(MASK, x, 0.0))
        x = np.sqrt(x + step)
    return total


def masked_in_some_iterations(x):
    a = b = c = x
    for _ in range(80):
        a, b, c = b, np.sqrt(c), np.where(MASK, a, 0.0)
    return np.sum(a) + np.sum(b) + np.sum(c)


def masked_elements(x):
    rows, total = np.sqrt(x * np.abs(STEPS[:, 1])), 1.0  # each element has zeros elsewhere
    for row in rows:
        total = np.sin(total) + 0.0 * row + 0.1 * total
    return total


@pytest.mark.parametrize(
    "function", [masked_first, masked_last, masked_alone, masked_elements, masked_in_some_iterations]
)
def test_cotangents_are_masked_where_those_of_the_plain_run_are(function):
    x = {masked_in_some_iterations: np.array([1.0, 0.0, 2.0, 3.0]), masked_elements: np.float64(1.0)}.get(
        function, np.ones(4)
    )
    with np.errstate(all="ignore"):
        wanted = fg.grad(function)(x).numpy()
        assert np.isnan(wanted).any() == (function in (masked_first, masked_last))
        assert_same(fg.compile(fg.grad(function))(x), wanted)


def test_the_choice_of_finding_no_loops_holds_for_derivatives(replayed):
    assert_same(fg.compile(fg.grad(pendulum), reroll=False)(X), fg.grad(pendulum)(X))
    assert not replayed


def test_values_that_change_are_noticed_in_long_programs():
    counter = iter(range(10**6))
    changing = fg.compile(fg.grad(lambda x: pendulum(x) * next(counter)))
    with pytest.raises(fg.errors.FrozenValueError):
        changing(X)
