"""Solvers that call native code: the same results and derivatives as without, by programs that are recorded once.

The tolerance is 1e-9, relative, where a solver adapts its steps to what it computes: native code adds up in another
order and has other elementary functions than NumPy, to some units in the last place, which the steps carry on. It is
larger where a solver stops at a tolerance of its own, and that is said there.
"""

import warnings

import numpy as np
import pytest
import scipy.optimize

import fgrad as fg
from fgrad import errors
from fgrad.native import machine, shared_code, values
from fgrad.native.program import Program
from fgrad.scipy import integrate, optimize

TIGHT = {"rtol": 1e-8, "atol": 1e-10}


def close(one, other, tolerance=1e-9):
    one, other = np.asarray(one), np.asarray(other)
    assert one.shape == other.shape
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.max(np.abs(other), initial=0.0))


@pytest.fixture
def runs(monkeypatch):
    """Count the programs that are made, and the runs of native code."""
    counts = {"programs": 0, "runs": 0}
    made, on_values = Program.__init__, Program.on_values

    def counted(self, *args):
        counts["programs"] += 1
        return made(self, *args)

    def counted_runs(self, leaves):
        counts["runs"] += 1
        return on_values(self, leaves)

    monkeypatch.setattr(Program, "__init__", counted)
    monkeypatch.setattr(Program, "on_values", counted_runs)
    return counts


# Equations


def oscillator(mu):
    return lambda t, y: np.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])


def hunting(t, y, rates):
    prey, predators = y
    return [prey * (rates[0] - rates[1] * predators), predators * (rates[2] * prey - rates[3])]


RATES = np.array([1.1, 0.4, 0.1, 0.4])


def reaction(p, n=20):
    """Return a reaction and diffusion of two substances on a line, 2 n unknowns: too many for matrices of steps."""

    def field(t, y):
        u, v = y[:n], y[n:]
        laplacians = [np.diff(np.concatenate([w[:1], w, w[-1:]]), 2) * (n - 1) ** 2 for w in (u, v)]
        both = u * v**2
        return np.concatenate([p[0] * laplacians[0] - both + p[2] * (1 - u), p[1] * laplacians[1] + both - p[3] * v])

    return field


def reaction_start(n=20):
    x = np.linspace(0, 1, n)
    return np.concatenate([1 - 0.5 * np.exp(-50 * (x - 0.5) ** 2), 0.25 * np.exp(-50 * (x - 0.5) ** 2)])


P = np.array([2e-3, 1e-3, 0.04, 0.1])


# solve_ivp


def test_the_right_hand_side_is_native_and_recorded_once(runs):
    calls = []

    def field(t, y):
        calls.append(type(y))
        return oscillator(1.5)(t, y)

    found = integrate.solve_ivp(field, (0.0, 10.0), [2.0, 0.0], compile=True, **TIGHT)
    expected = integrate.solve_ivp(oscillator(1.5), (0.0, 10.0), [2.0, 0.0], **TIGHT)
    assert type(found.y) is np.ndarray
    assert found.nfev == expected.nfev
    close(found.y, expected.y)
    assert len(calls) == 3  # to find what it closes over, to record, and to record again
    assert runs == {"programs": 1, "runs": found.nfev}


@pytest.mark.parametrize("derivative", ["steps", "adjoint"])
def test_gradients_by_what_is_closed_over_and_by_everything_else(derivative):
    def end(mu, start, times, compile):
        options = {"derivative": derivative, "compile": compile, **TIGHT}
        return integrate.solve_ivp(oscillator(mu), times, start, **options).y[0, -1]

    args = 1.5, np.array([2.0, 0.5]), np.array([0.5, 4.0])
    value, gradients = fg.value_and_grad(end, argnums=(0, 1, 2))(*args, True)
    expected_value, expected = fg.value_and_grad(end, argnums=(0, 1, 2))(*args, False)
    close(value, expected_value)
    for one, other in zip(gradients, expected, strict=True):
        close(one, other)
    tangents = fg.jvp(lambda *args: end(*args, True), args, (1.0, np.ones(2), np.ones(2)))[1]
    close(tangents, sum(np.sum(np.asarray(each)) for each in expected))


@pytest.mark.parametrize("method", ["RK23", "DOP853", "Radau", "BDF", "LSODA"])
def test_methods(method):
    def end(rates, compile):
        options = {"method": method, "derivative": "adjoint", "args": (rates,), "compile": compile}
        return integrate.solve_ivp(hunting, (0.0, 3.0), [10.0, 5.0], rtol=1e-6, **options).y[:, -1]

    close(end(RATES, True), end(RATES, False))
    close(fg.jacobian(lambda r: end(r, True))(RATES), fg.jacobian(lambda r: end(r, False))(RATES), 1e-8)


def stiff(k):
    return lambda t, y: np.stack(
        [-k[0] * y[0] + k[1] * y[1] * y[2], k[0] * y[0] - k[1] * y[1] * y[2] - k[2] * y[1] ** 2, k[2] * y[1] ** 2]
    )


def test_a_stiff_problem():
    def end(k, compile):
        options = {"method": "Radau", "derivative": "adjoint", "rtol": 1e-6, "atol": 1e-10, "compile": compile}
        return integrate.solve_ivp(stiff(k), (0.0, 10.0), [1.0, 0.0, 0.0], **options).y[0, -1]

    k = np.array([0.04, 1e4, 3e7])
    # The implicit equations are solved to the method's tolerance, with Jacobians from differences of rounded values.
    close(fg.grad(lambda k: end(k, True))(k), fg.grad(lambda k: end(k, False))(k), 1e-7)


@pytest.mark.parametrize(
    "options",
    [
        {"rtol": 1e-6},
        {"derivative": "adjoint", "rtol": 1e-6},
        {"derivative": "adjoint", "method": "BDF", "rtol": 1e-7, "atol": 1e-9},  # whose errors add up to more
    ],
)
def test_steps_that_are_gone_through_one_by_one_are_native(runs, options):
    def size(p, compile):
        found = integrate.solve_ivp(reaction(p), (0.0, 2.0), reaction_start(), compile=compile, **options)
        return np.sum(found.y[:, -1] ** 2)

    expected = fg.grad(lambda p: size(p, False))(P)
    assert runs["runs"] == 0
    close(fg.grad(lambda p: size(p, True))(P), expected, 1e-8)  # by SciPy's steps, of the adjoint equation too
    assert runs["programs"] == 2  # the right-hand side, and its transposed derivative
    assert runs["runs"] > 50
    close(
        fg.jvp(lambda p: size(p, True), (P,), (P,))[1], np.sum(expected * P), 1e-5 if "derivative" in options else 1e-8
    )


def test_implicit_steps_that_are_gone_through_one_by_one():
    def size(p, end, compile):
        options = {"method": "Radau", "rtol": 1e-4, "compile": compile}
        return np.sum(integrate.solve_ivp(reaction(p), (0.0, end), reaction_start(), **options).y[:, -1] ** 2)

    expected = fg.grad(lambda p, end: size(p, end, False), argnums=(0, 1))(P, 0.5)
    for one, other in zip(fg.grad(lambda p, end: size(p, end, True), argnums=(0, 1))(P, 0.5), expected, strict=True):
        close(one, other, 1e-6)


def test_the_times_of_steps_that_are_gone_through_one_by_one():
    def size(end, compile):
        return np.sum(integrate.solve_ivp(reaction(P), (0.0, end), reaction_start(), compile=compile).y[:, -1] ** 2)

    close(fg.grad(lambda end: size(end, True))(2.0), fg.grad(lambda end: size(end, False))(2.0))


def test_second_derivatives():
    def end(mu, compile):
        return integrate.solve_ivp(oscillator(mu), (0.0, 2.0), [2.0, 0.0], compile=compile, **TIGHT).y[0, -1]

    close(fg.grad(fg.grad(lambda mu: end(mu, True)))(1.5), fg.grad(fg.grad(lambda mu: end(mu, False)))(1.5))


def test_a_batch_solves_each_example_with_its_own_values(runs):
    def end(mu, compile):
        return integrate.solve_ivp(oscillator(mu), (0.0, 3.0), [2.0, 0.0], compile=compile, **TIGHT).y[0, -1]

    mus = np.array([0.5, 1.0, 2.0])
    expected = [fg.grad(lambda mu: end(mu, False))(mu) for mu in mus]
    close(fg.vmap(fg.grad(lambda mu: end(mu, True)))(mus), expected)
    close(fg.vmap(lambda mu: end(mu, True))(mus), [end(mu, False) for mu in mus])
    assert runs["programs"] == 2  # one for each solve, which serves all examples


def test_variables_are_read_when_the_program_runs():
    mu = fg.Variable(1.5)

    def end(compile):
        return integrate.solve_ivp(
            lambda t, y: oscillator(mu)(t, y), (0.0, 3.0), [2.0, 0.0], compile=compile, **TIGHT
        ).y[0, -1]

    gradients = [fg.implicit_gradients(end)(compile)[0][0] for compile in (True, False)]
    close(*gradients)
    before = end(True)
    mu.assign(0.5)
    close(end(True), end(False))
    assert abs(end(True) - before) > 0.1


def test_tapes():
    gradients = []
    for compile in (True, False):
        mu = fg.constant(1.5)
        with fg.GradientTape() as tape:
            tape.watch(mu)
            end = integrate.solve_ivp(oscillator(mu), (0.0, 3.0), [2.0, 0.0], compile=compile, **TIGHT).y[0, -1]
        gradients.append(tape.gradient(end, mu))
    close(*gradients)


def test_what_is_closed_over_is_as_it_is_at_each_call():
    scale = np.array([1.0, 2.0])

    def end():
        return integrate.solve_ivp(lambda t, y: -scale * y, (0.0, 1.0), [1.0, 1.0], compile=True, **TIGHT).y[:, -1]

    first = end()
    scale[:] = 0.5
    second = end()
    close(first, np.exp([-1.0, -2.0]), 1e-6)
    close(second, np.exp([-0.5, -0.5]), 1e-6)


def test_one_solution_within_another():
    def outer(k, compile):
        def field(t, y):
            inner = integrate.solve_ivp(lambda s, z: -k * y[0] * z, (0.0, 1.0), [1.0], compile=compile, rtol=1e-8)
            return np.stack([-inner.y[0, -1] * y[0]])

        return integrate.solve_ivp(field, (0.0, 0.5), [1.0], rtol=1e-5).y[0, -1]

    close(fg.grad(lambda k: outer(k, True))(0.7), fg.grad(lambda k: outer(k, False))(0.7))
    rates = np.array([0.3, 0.7])
    close(fg.vmap(fg.grad(lambda k: outer(k, True)))(rates), [fg.grad(lambda k: outer(k, False))(k) for k in rates])


def test_events_dense_output_and_output_times():
    def height(t, y):
        return y[0]

    height.terminal = True

    def fall(gravity, compile):
        options = {"events": height, "dense_output": True, "t_eval": np.array([0.1, 0.2]), "compile": compile}
        found = integrate.solve_ivp(lambda t, y: [y[1], -gravity], (0.0, 9.0), [1.0, 0.0], **options, **TIGHT)
        return found.t_events[0][0] + np.sum(found.y) + found.sol(0.15)[0]

    close(fg.grad(lambda g: fall(g, True))(9.81), fg.grad(lambda g: fall(g, False))(9.81))


def test_vectorized_and_complex_right_hand_sides():
    def field(t, y):
        return np.stack([y[1], -4.0 * y[0]])

    options = {"vectorized": True, "method": "Radau", "rtol": 1e-8}
    found = [integrate.solve_ivp(field, (0.0, 1.0), [1.0, 0.0], compile=c, **options).y for c in (True, False)]
    close(*found, 1e-7)

    def rotated(w, c):
        return np.real(integrate.solve_ivp(lambda t, y: 1j * w * y, (0, 1.0), [1.0 + 0j], compile=c).y[0, -1])

    close(fg.grad(lambda w: rotated(w, True))(2.0), fg.grad(lambda w: rotated(w, False))(2.0))


def test_a_moving_step_is_warned_of():
    def end(place):
        field = lambda t, y: np.where(t > place, 1.0, 2.0) * np.ones(1)  # noqa: E731
        return integrate.solve_ivp(field, (0.0, 1.0), [0.0], compile=True, max_step=0.1).y[0, -1]

    with pytest.warns(errors.MovingStepWarning):
        fg.grad(end)(0.55)


@pytest.mark.parametrize("derivative", ["steps", "adjoint"])
def test_odeint(runs, derivative):
    def states(rates, compile):
        times = np.array([0.0, 1.0, 2.0])
        options = {"tfirst": True, "derivative": derivative, "compile": compile}
        return integrate.odeint(hunting, [10.0, 5.0], times, (rates,), **options)

    expected = fg.jacobian(lambda r: states(r, False))(RATES)
    close(states(RATES, True), states(RATES, False))
    assert runs["runs"] > 20
    close(fg.jacobian(lambda r: states(r, True))(RATES), expected, 1e-8)


# Functions that the user has compiled


def test_a_compiled_right_hand_side_is_kept_by_the_user(runs):
    fast = fg.compile(hunting)

    def end(rates, function=fast, **options):
        return integrate.solve_ivp(function, (0.0, 3.0), [10.0, 5.0], args=(rates,), **TIGHT, **options).y[0, -1]

    value, gradient = fg.value_and_grad(end)(RATES)
    expected = fg.value_and_grad(lambda r: end(r, hunting))(RATES)
    close(value, expected[0])
    close(gradient, expected[1])
    before = runs["programs"]
    fg.grad(end)(RATES * 1.1)
    end(RATES * 1.2, compile=True)
    assert runs["programs"] == before == 1


def test_a_compiled_function_that_closes_over_what_is_differentiated():
    def end(mu, compile):
        field = fg.compile(oscillator(mu)) if compile else oscillator(mu)
        return integrate.solve_ivp(field, (0.0, 3.0), [2.0, 0.0], **TIGHT).y[0, -1]

    mus = np.array([0.5, 1.5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fg.vmap(fg.grad(lambda mu: end(mu, True)))(mus)
    close(found, [fg.grad(lambda mu: end(mu, False))(mu) for mu in mus])


def test_a_compiled_function_inside_of_the_right_hand_side():
    def end(mu, compile):
        inner = fg.compile(lambda y: mu * (1 - y[0] ** 2) * y[1]) if compile else lambda y: mu * (1 - y[0] ** 2) * y[1]
        field = lambda t, y: np.stack([y[1], inner(y) - y[0]])  # noqa: E731
        return integrate.solve_ivp(field, (0.0, 2.0), [2.0, 0.0], **TIGHT).y[0, -1]

    mus = np.array([0.5, 1.5])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.CompileWarning)  # it closes over a traced value, and runs as it is
        close(fg.vmap(lambda mu: end(mu, True))(mus), [end(mu, False) for mu in mus])
        close(fg.grad(lambda mu: end(mu, True))(1.5), fg.grad(lambda mu: end(mu, False))(1.5))


def test_a_compiled_function_inside_of_a_checkpoint():
    def scaled(mu):
        return fg.checkpoint(lambda y: np.sum(inner(mu, y) ** 2))(np.ones(2))

    def inner(mu, y):
        return functions.setdefault(id(mu), fg.compile(lambda y: mu * y))(y)

    functions = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.CompileWarning)
        close([fg.grad(scaled)(mu) for mu in (1.5, 2.5)], [6.0, 10.0])


def test_a_compiled_function_in_every_other_solver():
    square = fg.compile(lambda x: np.sum((x - 2.0) ** 2 + x**4))
    left = fg.compile(lambda x, a: x**3 - a)
    plain = lambda x, a: x**3 - a  # noqa: E731
    for method in ("BFGS", "trust-ncg", "trust-exact", "Nelder-Mead"):
        close(optimize.minimize(square, np.zeros(2), method=method).x, np.full(2, 0.8351), 1e-3)
    close(fg.grad(lambda a: optimize.brentq(left, 0.0, 9.0, (a,)))(8.0), 1 / 12)
    close(fg.grad(lambda a: optimize.newton(left, 1.0, args=(a,)))(8.0), 1 / 12)
    close(fg.grad(lambda a: optimize.root_scalar(left, (a,), x0=1.0).root)(8.0), 1 / 12)
    close(fg.grad(lambda a: optimize.root(left, [1.0], (a,)).x[0])(8.0), 1 / 12)
    close(fg.grad(lambda a: optimize.least_squares(left, [1.0], args=(a,), gtol=1e-12).x[0])(8.0), 1 / 12)
    close(optimize.fixed_point(fg.compile(np.cos), 0.5), optimize.fixed_point(np.cos, 0.5))
    close(optimize.minimize_scalar(fg.compile(lambda x: (x - 1.0) ** 2)).x, 1.0)
    close(fg.grad(lambda b: integrate.quad(left, 0.0, b, args=(1.0,))[0])(2.0), plain(2.0, 1.0))
    line = fg.compile(lambda x, a, b: a * x + b)
    close(optimize.curve_fit(line, np.arange(3.0), np.array([1.0, 3.0, 5.0]))[0], [2.0, 1.0])


# optimize


def rosenbrock(x, a=1.0):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (a - x[:-1]) ** 2)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "trust-ncg", "Newton-CG", "trust-exact", "Nelder-Mead"])
def test_minimize(runs, method):
    start, options = np.array([0.5, 0.6, 0.7]), {"tol": 1e-9, "method": method}
    expected = optimize.minimize(rosenbrock, start, (1.1,), **options)
    found = optimize.minimize(rosenbrock, start, (1.1,), compile=True, **options)
    close(found.x, expected.x, 1e-6)  # as far as the method goes: rounding decides where it stops
    assert found.success
    assert 0 < runs["programs"] <= 2
    assert runs["runs"] >= found.nfev
    slopes = [
        fg.jacobian(lambda a, c=c: optimize.minimize(rosenbrock, start, (a,), compile=c, **options).x)(1.1)
        for c in (True, False)
    ]
    close(*slopes, 1e-4 if method == "Nelder-Mead" else 1e-6)


def test_minimize_by_what_is_closed_over_in_a_batch_with_containers_and_bounds(runs):
    def nearest(c, compile):
        loss = lambda p: np.sum((p["x"] - c) ** 2) + p["y"] ** 2 + np.sum(p["x"] ** 4)  # noqa: E731
        bounds = {"x": np.zeros(2), "y": -1.0}, {"x": np.full(2, 0.4), "y": 1.0}
        start = {"x": np.full(2, 0.1), "y": 0.5}
        return optimize.minimize(loss, start, bounds=bounds, compile=compile, tol=1e-12).x["x"]

    points = np.array([[0.3, 0.2], [3.0, 0.1]])
    expected = fg.vmap(fg.jacobian(lambda c: nearest(c, False)))(points)
    close(fg.vmap(fg.jacobian(lambda c: nearest(c, True)))(points), expected, 1e-6)
    assert runs["programs"] == 1


def test_a_gradient_of_ones_own_and_pairs():
    pair = lambda x: (np.sum((x - 1.0) ** 2), 2.0 * (x - 1.0))  # noqa: E731
    close(optimize.minimize(pair, np.zeros(2), jac=True, compile=True).x, np.ones(2), 1e-6)
    own = optimize.minimize(lambda x: np.sum((x - 1.0) ** 2), np.zeros(2), jac=lambda x: 2.0 * (x - 1.0), compile=True)
    close(own.x, np.ones(2), 1e-6)
    roots = optimize.root(lambda x: (x**2 - 2.0, np.diag(2.0 * x)), np.ones(2), jac=True, compile=True)
    close(roots.x, np.full(2, np.sqrt(2.0)))


def test_constraints():
    constraints = [
        {"type": "ineq", "fun": lambda x: 1.0 - np.sum(x**2)},
        scipy.optimize.NonlinearConstraint(lambda x: x[0] - x[1], 0.2, 9.0),
    ]
    found = [
        optimize.minimize(lambda x: np.sum((x - 2.0) ** 2), [0.1, 0.0], constraints=constraints, compile=c).x
        for c in (True, False)
    ]
    close(*found, 1e-7)


@pytest.mark.parametrize("loss", ["linear", "soft_l1"])
def test_least_squares_and_curve_fit(runs, loss):
    t = np.linspace(0.0, 2.0, 12)
    y = 2.0 * np.exp(-0.7 * t) + 0.01 * np.cos(9.0 * t)

    def fitted(y, compile):
        options = {"loss": loss, "xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12, "compile": compile}
        return optimize.least_squares(lambda p: p[0] * np.exp(-p[1] * t) - y, [1.0, 1.0], **options).x

    def curve(y, compile):
        return optimize.curve_fit(lambda t, a, b: a * np.exp(-b * t), t, y, compile=compile)[0]

    for fit in (fitted, curve):
        expected = fit(y, False), fg.jacobian(lambda y, fit=fit: fit(y, False))(y)
        before = dict(runs)
        close(fit(y, True), expected[0], 1e-8)
        assert runs["programs"] > before["programs"]
        assert runs["runs"] > before["runs"]
        close(fg.jacobian(lambda y, fit=fit: fit(y, True))(y), expected[1], 1e-6)


def test_roots():
    def crossing(r, compile):
        residuals = lambda x: np.stack([x[0] ** 2 + x[1] ** 2 - r**2, x[0] - x[1]])  # noqa: E731
        return optimize.root(residuals, [1.0, 1.0], compile=compile).x

    close(fg.jacobian(lambda r: crossing(r, True))(2.0), fg.jacobian(lambda r: crossing(r, False))(2.0))
    close(optimize.fsolve(lambda x: x**2 - 2.0, [1.0], compile=True), [np.sqrt(2.0)])
    ways = {
        "brentq": lambda a, c: optimize.brentq(lambda x: x**3 - a, 0.0, 9.0, compile=c),
        "newton": lambda a, c: optimize.newton(lambda x: x**3 - a, 1.0, compile=c),
        "halley": lambda a, c: optimize.root_scalar(lambda x: x**3 - a, x0=1.0, method="halley", compile=c).root,
        "fixed_point": lambda a, c: optimize.fixed_point(lambda x: np.cos(a * x), 0.5, compile=c),
        "minimize_scalar": lambda a, c: optimize.minimize_scalar(lambda x: (x - a) ** 4 + x**2, compile=c).x,
    }
    for way in ways.values():
        by = [fg.value_and_grad(lambda a, way=way, c=c: way(a, c))(0.8) for c in (True, False)]
        close(by[0][0], by[1][0], 1e-7)  # a minimum by values alone is known to half of the digits
        close(by[0][1], by[1][1], 1e-7)


# The program


def test_the_same_operations_are_compiled_once(monkeypatch):
    made = []
    original = shared_code.Executable

    def counted(*args):
        made.append(args)
        return original(*args)

    monkeypatch.setattr(shared_code, "Executable", counted)

    def end(mu):
        return integrate.solve_ivp(oscillator(mu), (0.0, 1.0), [2.0, 0.123], compile=True).y[0, -1]

    first = [end(np.float64(mu)) for mu in (0.5, 0.75)]
    assert len(made) <= 1  # numbers of NumPy's are handed to the code
    close(first, [integrate.solve_ivp(oscillator(mu), (0.0, 1.0), [2.0, 0.123]).y[0, -1] for mu in (0.5, 0.75)])
    end(0.5), end(0.75)  # one of Python's is part of it
    assert len(made) <= 3


def test_programs_that_differ_are_told_apart():
    y = np.array([1.0, 2.0])
    functions = [
        lambda y: y + y[::-1],
        lambda y: y - y[::-1],
        lambda y: y[::-1] - y,
        lambda y: 2.0 * y,
        lambda y: 3.0 * y,
        lambda y: np.array([5, 6]) * y,
        lambda y: np.array([6, 7]) * y,
        lambda y: np.array([5.0, 6.0]) * y,
        lambda y: np.array([6.0, 7.0]) * y,
        lambda y: np.sum(y, keepdims=True),
        lambda y: (y, 2 * y),
        lambda y: (2 * y, y),
        lambda y: y**2.0,
        lambda y: np.array(2.0) ** y,
        lambda y: np.arange(8).reshape(4, 2) * y,  # too many integers to stand in an equation
        lambda y: np.arange(8)[::-1].reshape(4, 2) * y,
    ]
    for _ in range(2):
        for function in functions:
            for one, other in zip(
                np.atleast_2d(values.on_values(function)(y)), np.atleast_2d(function(y)), strict=True
            ):
                close(one, other, 1e-15)


def test_results_of_a_program_are_arrays_of_their_own():
    same = values.on_values(lambda y: (y, y, np.arange(2.0)))
    y = np.array([1.0, 2.0])
    for _ in range(2):
        results = same(y)
        assert [type(each) for each in results] == [np.ndarray] * 3
        results[0][:] = results[2][:] = 7.0
        assert y.tolist() == results[1].tolist() == [1.0, 2.0]


def test_each_form_of_arguments_has_a_program():
    fast = values.on_values(lambda x, n: np.sum(x) * n)
    assert fast(np.ones(2), 2) == 4.0
    assert fast(np.ones(3), 2) == 6.0
    assert fast(np.ones(3, np.float32), 2).dtype == np.float32
    assert fast.recordings == 3
    bound = fast.bound(2)
    assert [bound(np.ones(4)), bound(np.ones(4)), bound(np.ones(5)), bound(np.ones(4))] == [8.0, 8.0, 10.0, 8.0]


def repeated(x, n):
    return sum(x**k for k in range(n))


def test_integers_whose_values_are_used_are_constants_of_programs():
    fast, y = values.on_values(repeated), np.array([2.0, 3.0])
    for n in (3, 3, 2, 3):
        close(fast(y, n), repeated(y, n))
    assert fast.recordings == 2
    close(integrate.quad(fg.compile(repeated), 0.0, 1.0, args=(3,))[0], 11 / 6)
    found = integrate.solve_ivp(fg.compile(lambda t, y, n: -repeated(y, n)), (0.0, 1.0), y, args=(2,), **TIGHT)
    close(found.y[:, -1], (y + 1) * np.exp(-1.0) - 1, 1e-7)


def test_observers_see_the_functions_python():
    calls = []
    with fg.debug_nans():
        found = integrate.solve_ivp(lambda t, y: calls.append(t) or -y, (0.0, 1.0), [1.0], compile=True)
    assert len(calls) == found.nfev
    twice = values.on_values(lambda y: np.sqrt(fg.constant(y) - 2.0))
    twice(np.array([3.0]))
    with pytest.raises(errors.NonFiniteError), fg.debug_nans(), np.errstate(invalid="ignore"):
        twice(np.array([1.0]))


# Errors


def test_a_function_that_asks_for_values():
    def field(t, y):
        return -y if y[0] > 0 else y

    with pytest.raises(errors.ConcretizationError, match="y\\[0\\] > 0"):
        integrate.solve_ivp(field, (0.0, 1.0), [1.0], compile=True)
    with pytest.raises(errors.ConcretizationError):
        optimize.minimize(lambda x: np.sum(x**2) if x[0] > 0 else np.sum(x**4), [1.0], compile=True)


def test_a_function_that_is_another_one_each_time():
    rng = np.random.default_rng(0)
    with pytest.raises(errors.FrozenValueError):
        integrate.solve_ivp(lambda t, y: -y + rng.normal(), (0.0, 1.0), [1.0], compile=True)


def test_the_users_error_comes_through():
    def field(t, y):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        integrate.solve_ivp(field, (0.0, 1.0), [1.0], compile=True)


def test_without_llvmlite(monkeypatch):
    def absent(name, *args):
        if name.startswith("llvmlite"):
            raise ImportError(name)
        return found(name, *args)

    found = machine.importlib.import_module
    monkeypatch.setattr(machine.importlib, "import_module", absent)
    monkeypatch.setattr(shared_code, "_known", type(shared_code._known)())
    machine.Machine.this.cache_clear()
    try:
        with pytest.raises(errors.MissingExtraError, match="fgrad\\[compile\\]"):
            integrate.solve_ivp(oscillator(1.0), (0.0, 1.0), [1.0, 0.0], compile=True)
        with pytest.raises(errors.MissingExtraError):
            optimize.minimize(rosenbrock, np.zeros(3), compile=True)
    finally:
        machine.Machine.this.cache_clear()
