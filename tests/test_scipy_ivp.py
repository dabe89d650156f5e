"""`fgrad.scipy.integrate.solve_ivp` and `odeint`: solutions of differential equations, and their derivatives."""

import math
import sys
from functools import partial

import numpy as np
import pytest
import scipy.integrate
from helpers import along, plain
from scipy.integrate._ivp.bdf import change_D

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.tensor import box
from fgrad.scipy.integrate import _rk_adjoint, _variational, odeint, solve_ivp
from fgrad.scipy.integrate._records import Record, recording
from fgrad.scipy.integrate._tableau import Tableau
from fgrad.testing import check_grads

BY_STEPS = [{"method": method, "derivative": "steps"} for method in ("RK23", "RK45", "DOP853", "Radau", "BDF")]
BY_ADJOINT = [{"method": method, "derivative": "adjoint"} for method in ("RK45", "DOP853", "Radau", "BDF", "LSODA")]
EXACTLY = {"rtol": 1e-10, "atol": 1e-12}


def name_of(way):
    return f"{way['method']} {way['derivative']}"


every_way = pytest.mark.parametrize("way", BY_STEPS + BY_ADJOINT, ids=name_of)
one_of_each = pytest.mark.parametrize(
    "way", [{"method": "DOP853", "derivative": kind} for kind in ("steps", "adjoint")], ids=name_of
)


def central(f, x, step=1e-5):
    """Return the derivative of a function of a vector, by differences of fourth order."""
    x = np.asarray(x, float)
    columns = []
    for unit in np.eye(x.size):
        ahead, far = f(x + step * unit) - f(x - step * unit), f(x + 2 * step * unit) - f(x - 2 * step * unit)
        columns.append((8 * ahead - far) / (12 * step))
    return np.stack(columns, axis=-1)


class Counted:
    """A function that counts how often it is called."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args):
        self.calls += 1
        return self.function(*args)


# Values


def pendulum(t, y, length, friction):
    return [y[1], -9.81 / length * np.sin(y[0]) - friction * y[1]]


@every_way
@pytest.mark.parametrize("t_eval", [None, np.array([0.0, 0.2, 0.25, 1.3]), np.array([0.7])])
@pytest.mark.parametrize("backwards", [False, True])
def test_values_under_a_trace_are_scipys(way, t_eval, backwards):
    span, sign = ((1.3, 0.0), -1) if backwards else ((0.0, 1.3), 1)
    t_eval = t_eval if t_eval is None else t_eval[::sign]
    options = {"method": way["method"], "t_eval": t_eval, "rtol": 1e-5}
    expected = scipy.integrate.solve_ivp(pendulum, span, [0.5, 0.0], args=(1.2, 0.3), **options)

    def solved(length):
        found = solve_ivp(pendulum, span, [0.5, 0.0], args=(length, 0.3), derivative=way["derivative"], **options)
        assert (found.status, found.success, found.message) == (0, True, expected.message)
        assert (found.sol, found.t_events, found.y_events) == (None, None, None)
        return found.t * length, found.y

    for t, y in (fg.vjp(solved, 1.2)[0], fg.jvp(solved, (1.2,), (1.0,))[0]):
        np.testing.assert_allclose(t, expected.t * 1.2, rtol=1e-14)
        np.testing.assert_allclose(y, expected.y, rtol=1e-13, atol=1e-14)  # the rounding of steps, at zeros too


def test_interpolants_are_computed_once():
    times = np.linspace(0.0, 1.3, 50)
    options = {"t_eval": times, "args": (1.2, 0.3), "rtol": 1e-8}
    expected = scipy.integrate.solve_ivp(pendulum, (0.0, 1.3), [0.5, 0.0], "DOP853", **options)
    counts = []

    def solved(angle):
        found = solve_ivp(pendulum, (0.0, 1.3), [angle, 0.0], "DOP853", **options)
        counts.append(found.nfev)
        return found.y

    fg.vjp(solved, 0.5)
    assert counts == [expected.nfev]


def test_where_nothing_is_traced_it_is_scipys_function():
    counted = Counted(pendulum)
    options = {"args": (1.2, 0.3), "t_eval": [0.5, 1.0], "dense_output": True, "events": lambda t, y, *args: y[0]}
    expected = scipy.integrate.solve_ivp(pendulum, (0, 2), [0.5, 0], **options)
    found = solve_ivp(counted, (0, 2), [0.5, 0], **options)
    assert type(found) is type(expected)
    assert type(found.y) is np.ndarray
    assert counted.calls == found.nfev == expected.nfev
    np.testing.assert_array_equal(found.y, expected.y)
    np.testing.assert_array_equal(found.sol(0.3), expected.sol(0.3))
    np.testing.assert_array_equal(found.t_events[0], expected.t_events[0])


def test_tensors_that_nothing_follows_give_tensors():
    found = solve_ivp(pendulum, (0.0, 2.0), fg.constant([0.5, 0.0]), args=(fg.constant(1.2), fg.Variable(0.3)))
    expected = scipy.integrate.solve_ivp(pendulum, (0.0, 2.0), [0.5, 0.0], args=(1.2, 0.3))
    assert type(found.y) is type(found.t) is fg.Tensor
    np.testing.assert_array_equal(found.y, expected.y)


def test_what_scipy_refuses_is_refused_in_its_words():
    with pytest.raises(TypeError, match="Supplied 'args' cannot be unpacked"):
        solve_ivp(pendulum, (0, 1), [1.0, 0.0], args=3)
    with pytest.raises(ValueError, match="`method` must be one of"):
        solve_ivp(pendulum, (0, 1), [1.0, 0.0], "RK46", args=(1.0, 1.0))
    for traced in (lambda x: x, fg.stop_gradient):
        with pytest.raises(ValueError, match="Values in `t_eval` are not within `t_span`"):
            fg.grad(lambda x: solve_ivp(lambda t, y: -y, (0, 1), [traced(x)], t_eval=[2.0]).y[0, 0])(1.0)
        with pytest.raises(ValueError, match="`y0` must be 1-dimensional"):
            fg.grad(lambda x: solve_ivp(lambda t, y: -y, (0, 1), traced(x)).y[0, 0])(1.0)


# Closed forms


@every_way
def test_exponential_decay(way):
    """y = y0 exp(-rate (t1 - t0)), by everything it depends on, in both modes."""

    def last(y0, rate, start, end):
        return solve_ivp(lambda t, y: -rate * y, (start, end), [y0], **way, **EXACTLY).y[0, -1]

    y0, rate, start, end = at = (2.0, 0.7, 0.3, 1.9)
    y = y0 * np.exp(-rate * (end - start))
    expected = [y / y0, -(end - start) * y, rate * y, -rate * y]
    found = fg.grad(last, argnums=(0, 1, 2, 3))(*at)
    np.testing.assert_allclose(plain(found), expected, rtol=2e-8)
    moved = [fg.jvp(last, at, tuple(unit))[1].item() for unit in np.eye(4)]
    np.testing.assert_allclose(moved, expected, rtol=2e-8)


@every_way
def test_times_of_output_move_the_states_along_the_slope(way):
    def states(rate, times):
        return solve_ivp(lambda t, y: -rate * y, (0.0, 2.0), [2.0], t_eval=times, **way, **EXACTLY).y[0]

    rate, times = 0.7, np.array([0.0, 0.4, 1.1, 2.0])
    y = 2 * np.exp(-rate * times)
    by_rate, by_times = fg.jacobian(states, argnums=(0, 1))(rate, times)
    np.testing.assert_allclose(by_rate, -times * y, rtol=2e-7, atol=1e-9)
    np.testing.assert_allclose(by_times, np.diag(-rate * y), rtol=2e-6, atol=1e-9)


def test_times_of_steps_are_fractions_of_the_interval():
    found = fg.jacobian(lambda end: solve_ivp(lambda t, y: -y, (1.0, end), [1.0]).t)(3.0).numpy()
    times = scipy.integrate.solve_ivp(lambda t, y: -y, (1.0, 3.0), [1.0]).t
    np.testing.assert_allclose(found, (times - 1) / 2, rtol=1e-14)


IMPLICIT_ADJOINT = {"method": "Radau", "derivative": "adjoint"}


@every_way
def test_harmonic_oscillator_to_second_order(way):
    """cos(w t), by the frequency that the function closes over; and its second derivative by frequency and time."""
    options, precision = (way, 1e-6) if way["method"] != "RK23" else ({**way, "rtol": 1e-7}, 1e-5)
    finely = {"rtol": 1e-9, "atol": 1e-11}
    w, t = 1.3, 2.2 if way != IMPLICIT_ADJOINT else 0.6  # each step of it solves systems of equations

    def last(w, end):
        return solve_ivp(lambda t, y: [y[1], -(w**2) * y[0]], (0.0, end), [1.0, 0.0], **{**finely, **options}).y[0, -1]

    assert fg.grad(last)(w, t).item() == pytest.approx(-t * np.sin(w * t), rel=precision)
    by_both = fg.grad(lambda w: fg.grad(last, argnums=1)(w, t))(w)
    assert by_both.item() == pytest.approx(-np.sin(w * t) - w * t * np.cos(w * t), rel=precision)
    curved = along(lambda w: fg.grad(last)(w, t))(w)
    assert curved.item() == pytest.approx(-(t**2) * np.cos(w * t), rel=precision)


@one_of_each
def test_third_order(way):
    def last(rate):
        return solve_ivp(lambda t, y: -rate * y, (0.0, 1.5), [1.0], **way, **EXACTLY).y[0, -1]

    assert fg.grad(fg.grad(fg.grad(last)))(0.4).item() == pytest.approx(-(1.5**3) * np.exp(-0.6), rel=1e-7)


# Finite differences


def predators(t, y, growth, hunting, gain, death):
    return [growth * y[0] - hunting * y[0] * y[1], gain * y[0] * y[1] - death * y[1]]


PREDATORS = np.array([1.1, 0.4, 0.1, 0.4])


@pytest.mark.parametrize("way", [*BY_STEPS[1:], *BY_ADJOINT], ids=name_of)
def test_predators_and_prey_to_a_millionth(way):
    """The gradient at a tolerance of 1e-8, against differences of solutions at a tolerance of 1e-12."""
    times, weights = np.linspace(0.0, 6.0, 7), np.cos(np.arange(14.0)).reshape(2, 7)
    options = {"rtol": 1e-8, "atol": 1e-10, "t_eval": times}

    def loss(params):
        found = solve_ivp(lambda t, y: predators(t, y, *params), (0, 6), [10.0, 5.0], **way, **options)
        return np.sum(weights * found.y)

    def exact(params):
        exactly = {**options, "method": "DOP853", "rtol": 1e-13, "atol": 1e-13}
        return np.sum(weights * scipy.integrate.solve_ivp(predators, (0, 6), [10.0, 5.0], args=params, **exactly).y)

    expected = central(exact, PREDATORS, 1e-4)
    tolerance = {"LSODA": 1e-5, "BDF": 3e-5}.get(way["method"], 1e-6)  # their own error is larger than the tolerance
    np.testing.assert_allclose(fg.grad(loss)(PREDATORS), expected, rtol=tolerance)


@one_of_each
def test_second_order_is_the_difference_of_gradients(way):
    def loss(params):
        states = solve_ivp(predators, (0.0, 1.0), [10.0, 5.0], args=tuple(params), **way, rtol=1e-10, atol=1e-10).y
        return np.sum(states[:, -1] ** 2)

    direction = np.array([1.0, -0.5, 0.3, 0.2])
    expected = central(lambda step: fg.grad(loss)(PREDATORS + step[0] * direction).numpy(), np.zeros(1), 1e-4)[:, 0]
    np.testing.assert_allclose(fg.hvp(loss)(PREDATORS, direction), expected, rtol=1e-6)
    reverse = fg.grad(lambda params: np.sum(fg.grad(loss)(params) * direction))(PREDATORS)
    np.testing.assert_allclose(reverse, expected, rtol=1e-6)
    hessian = fg.hessian(loss)(PREDATORS).numpy()
    np.testing.assert_allclose(hessian @ direction, expected, rtol=1e-6)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-6)


@one_of_each
def test_gradients_of_what_the_solver_says_at_loose_tolerances(way):
    """The steps' derivative is that of the computed numbers; the adjoint equation's is that of the solution."""
    loose = {"first_step": 0.5, "max_step": 0.5, "rtol": 1.0, "atol": 1.0, "method": "RK23"}

    def last(rate, derivative):
        return solve_ivp(lambda t, y: -rate * y, (0, 2), [1.0], derivative=derivative, **loose).y[0, -1]

    found = fg.grad(last)(1.5, way["derivative"]).item()
    if way["derivative"] == "steps":
        assert found == pytest.approx(central(lambda x: last(x[0], "steps"), [1.5])[0], rel=1e-8)
        assert found != pytest.approx(-2 * np.exp(-3), rel=1e-2)
    else:
        assert found == pytest.approx(-2 * np.exp(-3), rel=0.1)


@pytest.mark.parametrize(
    ("method", "derivative", "end", "tolerance"),
    [
        *((method, "adjoint", 60, 1e-6) for method in ("Radau", "BDF", "LSODA")),
        ("Radau", "adjoint", 110, 1e-4),
        ("Radau", "steps", 60, 1e-6),
        ("BDF", "steps", 60, 1e-6),
        ("Radau", "steps", 110, 1e-4),
    ],
)
def test_a_stiff_equation(method, derivative, end, tolerance):
    """Van der Pol's oscillator on its slow branch, and after the jump to the other one."""

    def oscillator(t, y, stiffness):
        return [y[1], stiffness * (1 - y[0] ** 2) * y[1] - y[0]]

    def jac(t, y, stiffness):
        return [[0, 1], [-2 * stiffness * y[0] * y[1] - 1, stiffness * (1 - y[0] ** 2)]]

    def last(params):
        start = np.stack([2.0 + 0.0 * params[1], params[1]])
        # The errors of its steps add up to a hundred times the tolerance with BDF.
        rtol = 1e-9 if method == "BDF" else 1e-8
        options = {"args": (params[0],), "derivative": derivative, "rtol": rtol, "atol": 1e-2 * rtol}
        return solve_ivp(oscillator, (0.0, end), start, method, **options).y[0, -1]

    def exact(params):
        options = {"args": (params[0],), "rtol": 1e-12, "atol": 1e-14, "jac": jac}
        return scipy.integrate.solve_ivp(oscillator, (0.0, end), [2.0, params[1]], "LSODA", **options).y[0, -1]

    at = np.array([100.0, 0.5])
    np.testing.assert_allclose(fg.grad(last)(at), central(exact, at, 0.1), rtol=tolerance)


@pytest.mark.parametrize("derivative", [fg.grad, along])
def test_intervals_are_shorter_than_the_steps_where_the_change_needs_it(derivative):
    """At 0 the solution is constant, and the solver's steps are long; a change of it swings all the same."""

    def last(start, push):
        options = {"derivative": "adjoint", "rtol": 1e-8, "atol": 1e-8}
        found = solve_ivp(lambda t, y: np.cos(40 * t) * (3 * y + push), (0.0, 2.0), [start], **options)
        assert found.t.shape[0] < 10
        return found.y[0, -1]

    factor = np.exp(3 * np.sin(80) / 40)
    assert derivative(lambda start: last(start, 0.0))(0.0).item() == pytest.approx(factor, rel=1e-8)
    assert derivative(lambda push: last(0.0, push))(0.0).item() == pytest.approx((factor - 1) / 3, rel=1e-8)

    def drifting(push):
        options = {"derivative": "adjoint", "rtol": 1e-8, "atol": 1e-8}
        return solve_ivp(lambda t, y: push * np.cos(40 * t), (0.0, 2.0), [1.0], **options).y[0, -1]

    assert derivative(drifting)(0.0).item() == pytest.approx(np.sin(80) / 40, rel=1e-8)


# What the solution depends on


@one_of_each
def test_what_the_function_closes_over_and_its_arguments_give_the_same(way):
    at = PREDATORS

    def of_args(*params):
        return np.sum(solve_ivp(predators, (0.0, 3.0), [10.0, 5.0], args=params, **way).y[:, -1])

    def of_closure(*params):
        return np.sum(solve_ivp(lambda t, y: predators(t, y, *params), (0.0, 3.0), [10.0, 5.0], **way).y[:, -1])

    def of_tree(tree):
        def slope(t, y, tree):
            return predators(t, y, tree["growth"], *tree["others"])

        return np.sum(solve_ivp(slope, (0.0, 3.0), [10.0, 5.0], args=(tree,), **way).y[:, -1])

    variables = [fg.Variable(x) for x in at]
    expected = plain(fg.grad(of_args, argnums=(0, 1, 2, 3))(*at))
    np.testing.assert_allclose(plain(fg.grad(of_closure, argnums=(0, 1, 2, 3))(*at)), expected, rtol=1e-12)
    tree = fg.grad(of_tree)({"growth": at[0], "others": list(at[1:])})
    np.testing.assert_allclose([tree["growth"].item(), *plain(tree["others"])], expected, rtol=1e-12)
    pairs = fg.implicit_gradients(lambda: of_closure(*variables))()
    np.testing.assert_allclose([gradient.item() for gradient, _ in pairs], expected, rtol=1e-12)
    with fg.GradientTape() as tape:
        loss = of_closure(*variables)
    np.testing.assert_allclose(plain(tape.gradient(loss, variables)), expected, rtol=1e-12)


def test_a_persistent_tape_differentiates_the_gradient_again():
    rate = fg.Variable(0.4)
    with fg.GradientTape(persistent=True) as tape:
        last = solve_ivp(lambda t, y: -rate * y, (0.0, 1.5), [1.0], rtol=1e-9, atol=1e-12).y[0, -1]
        slope = tape.gradient(last, rate)
    assert tape.gradient(slope, rate).item() == pytest.approx(1.5**2 * np.exp(-0.6), rel=1e-7)


@one_of_each
def test_forms_in_which_values_come(way):
    """A list of tensors as the first state, a tensor of times, columns, and one number as the slope of all."""

    def last(a, b, span):
        return solve_ivp(lambda t, y: -a * y * t, span, [a, b], vectorized=True, **way, **EXACTLY).y[:, -1]

    check_grads(last, (0.7, 1.3, np.array([0.2, 1.1])), order=1)

    def with_one_number(a):
        return solve_ivp(lambda t, y: a * t, (0.0, 2.0), [1.0, 2.0], **way).y[:, -1]

    np.testing.assert_allclose(fg.jacobian(with_one_number)(0.5), [2.0, 2.0], rtol=1e-12)


@pytest.mark.parametrize("way", [*BY_STEPS[1:3], *BY_ADJOINT[1:2], *BY_ADJOINT[3:4]], ids=name_of)
def test_complex_states(way):
    """y = y0 exp((i w - d) t), and an equation that is not analytic in y."""
    exactly = EXACTLY if way["method"] != "BDF" else {"rtol": 1e-8, "atol": 1e-10}

    def last(y0, rate):
        return solve_ivp(lambda t, y: rate * y, (0.0, 1.5), np.stack([y0]), **way, **exactly).y[0, -1]

    y0, rate = 1.0 - 0.5j, -0.3 + 2.0j
    value, pullback = fg.vjp(last, y0, rate)
    expected = y0 * np.exp(1.5 * rate)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    by_y0, by_rate = pullback(1.0 + 0.0j)
    np.testing.assert_allclose(by_y0, np.conj(expected / y0), rtol=1e-6)
    np.testing.assert_allclose(by_rate, np.conj(1.5 * expected), rtol=1e-6)
    if way["method"] != "BDF":  # SciPy's implicit methods need analytic equations
        mixed = np.array([[-0.2 + 0.1j, 0.3], [0.1j, -0.4]])
        y0 = np.array([1.0 + 1j, 2.0])

        def not_analytic(y0, mixed):
            return solve_ivp(lambda t, y: mixed @ np.conj(y), (0.0, 1.0), y0, **way, **EXACTLY).y[:, -1]

        check_grads(not_analytic, (y0, mixed), order=2 if way["derivative"] == "steps" else 1)


def test_tolerances_of_each_component():
    def last(rate, **options):
        found = solve_ivp(lambda t, y: rate * y, (0.0, 1.0), [1.0 + 0j, 2.0], "DOP853", derivative="adjoint", **options)
        return np.real(found.y[0, -1])

    several = {"rtol": np.array([1e-10, 1e-9]), "atol": np.array([1e-12, 1e-11])}
    assert fg.grad(fg.grad(last))(0.3, **several).item() == pytest.approx(np.exp(0.3), rel=1e-7)
    found = fg.grad(lambda rate: odeint(lambda y, t: rate * y, [1.0, 2.0], [0.0, 1.0], **several)[1, 0])(0.3)
    assert found.item() == pytest.approx(np.exp(0.3), rel=1e-7)


def test_single_precision():
    value, pullback = fg.vjp(lambda y0: solve_ivp(lambda t, y: -y, (0, 1), y0).y, np.array([1.0], np.float32))
    assert value.dtype == np.float64  # as SciPy's
    assert pullback(np.ones(value.shape))[0].dtype == np.float32


@one_of_each
def test_an_interval_of_length_zero(way):
    def last(y0, end):
        return solve_ivp(lambda t, y: -2.0 * y, (0.3, end), [y0], **way).y[0, -1]

    assert plain(fg.grad(last, argnums=(0, 1))(1.5, 0.3)) == pytest.approx((1.0, -3.0), abs=1e-12)


def test_options_of_scipys_and_a_jacobian_that_uses_traced_values():
    def last(rate):
        jacobians = []

        def jac(t, y, as_argument):
            jacobians.append(t)
            return [[-rate + 0.0 * as_argument]]

        options = {"jac": jac, "derivative": "adjoint", "max_step": 0.1, "first_step": 0.01, "rtol": 1e-8}
        found = solve_ivp(lambda t, y, rate: -rate * y, (0.0, 1.0), [1.0], "BDF", args=(rate,), **options)
        assert jacobians
        assert found.t.shape[0] > 10
        return found.y[0, -1]

    assert fg.grad(last)(2.0).item() == pytest.approx(-np.exp(-2.0), rel=1e-5)


# Control flow, and how often the function is called


@pytest.mark.parametrize("way", [BY_STEPS[1], BY_ADJOINT[1]], ids=name_of)
def test_a_branch_that_is_reached_late_uses_another_parameter(way):
    def last(early, late):
        def slope(t, y):
            if t < 1:
                return -early * y
            return -late * y

        return solve_ivp(slope, (0.0, 2.0), [1.0], max_step=0.05, **way, **EXACTLY).y[0, -1]

    np.testing.assert_allclose(plain(fg.grad(last, argnums=(0, 1))(0.7, 1.9)), [-np.exp(-2.6)] * 2, rtol=1e-7)


def test_a_smooth_change_of_branch_by_the_state():
    """A spring that acts on one side alone: the slope is continuous, its derivative jumps."""

    def last(stiffness, derivative):
        def slope(t, y):
            return [y[1], -stiffness * y[0] if y[0] < 0 else 0.0 * y[0] - 1.0 * (y[0] > 1)]

        options = {"method": "DOP853", "derivative": derivative, "rtol": 1e-11, "atol": 1e-11}
        return solve_ivp(slope, (0.0, 2.0), [0.5, -1.0], **options).y[0, -1]

    expected = central(lambda x: last(x[0], "steps"), [3.0], 1e-4)[0]
    assert fg.grad(last)(3.0, "steps").item() == pytest.approx(expected, rel=1e-5)
    assert fg.grad(last)(3.0, "adjoint").item() == pytest.approx(expected, rel=1e-5)


@one_of_each
@pytest.mark.parametrize("branches", [False, True])
def test_one_call_stands_for_all_points(way, branches):
    """What is needed beyond SciPy's own calls does not grow with the number of steps."""
    extra = []
    for end in (1.0, 20.0):

        def slope(t, y, rate):
            if branches and t > 0.5 * end:
                return -2 * rate * y
            return -rate * y

        counted = Counted(slope)

        def last(rate):
            return solve_ivp(counted, (0.0, end), [1.0], args=(rate,), max_step=0.1, **way).y[0, -1]

        fg.grad(last)(0.3)
        options = {"max_step": 0.1, "dense_output": way["derivative"] == "adjoint"}
        scipys = scipy.integrate.solve_ivp(slope, (0.0, end), [1.0], way["method"], args=(0.3,), **options)
        extra.append(counted.calls - scipys.nfev)
    assert extra[-1] < 60
    assert abs(extra[-1] - extra[0]) < 30


@one_of_each
@pytest.mark.parametrize("second", [False, True])
def test_functions_that_need_numbers_are_called_point_by_point(way, second):
    """`math.sin` takes a number; and no two points have the same time."""

    def last(rate, sine):
        def slope(t, y):
            return -rate * y * sine(t)

        return solve_ivp(slope, (0.0, 1.0), [1.0], rtol=1e-6, **way).y[0, -1]

    derivative = fg.grad(fg.grad(last)) if second else fg.grad(last)
    one_by_one, together = derivative(0.3, lambda t: math.sin(float(t))), derivative(0.3, np.sin)
    assert one_by_one.item() == pytest.approx(together.item(), rel=1e-9 if way["derivative"] == "steps" else 1e-5)
    tangent = fg.jvp(lambda rate: last(rate, lambda t: math.sin(float(t))), (0.3,), (1.0,))[1]
    assert tangent.item() == pytest.approx(fg.grad(last)(0.3, np.sin).item(), rel=1e-5)


@one_of_each
def test_functions_that_refuse_a_batch_are_called_point_by_point(way):
    """Whatever goes wrong with many points at once is no error as long as it goes right with one."""

    def last(rate):
        def slope(t, y):
            if isinstance(t, fg.Tensor):
                raise TypeError("time is a number")
            return -rate * y * t

        return solve_ivp(slope, (0.0, 1.0), [1.0], rtol=1e-7, atol=1e-9, **way).y[0, -1]

    assert fg.grad(last)(0.3).item() == pytest.approx(-0.5 * np.exp(-0.15), rel=1e-5)


@pytest.mark.parametrize("way", [*BY_STEPS[2:4], BY_ADJOINT[1]], ids=name_of)
def test_large_systems_take_products_with_jacobians(way, monkeypatch):
    rng = np.random.default_rng(0)
    weights, y0 = rng.normal(size=(5, 5)), rng.normal(size=5)

    def last(weights, y0, end):
        def slope(t, y):
            return np.tanh(weights @ y) * np.cos(t)

        return solve_ivp(slope, (0.0, end), y0, rtol=1e-9, atol=1e-10, **way).y[:, -1]

    def products():
        pullback = fg.vjp(last, weights, y0, 0.5)[1]
        return [*pullback(np.arange(5.0)), fg.jvp(last, (weights, y0, 0.5), (weights[::-1], y0 * 2, 0.5))[1]]

    expected = products()
    monkeypatch.setattr(_rk_adjoint, "LARGEST_MATRIX", 2)
    monkeypatch.setattr(_variational, "LARGEST_MATRIX", 2)
    for found, wanted in zip(products(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", [scipy.integrate.RK45, scipy.integrate.Radau])
def test_steps_that_scipy_has_not_taken_are_taken_again(method):
    """From the times alone: the stages of implicit methods by Newton's method."""
    record = Record()
    slope = partial(pendulum, length=1.3, friction=0.2)
    options = {"method": recording(method, record, False), "rtol": 1e-10, "atol": 1e-12}
    scipy.integrate.solve_ivp(slope, (0.0, 0.3), [0.3, 0.0], **options)
    again = _rk_adjoint.Steps(pendulum, lambda t, y: np.stack(slope(t, y)), Tableau.of_method(method, False), False)
    states, slopes = again.solution([np.array([0.3, 0.0]), np.array(record.times)])
    np.testing.assert_allclose(states, record.states, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(slopes, record.slopes, rtol=1e-6, atol=1e-7)


# BDF, whose steps depend on several before them

BACKWARD = {"method": "BDF", "derivative": "steps"}


def damped(t, y, rate):
    return -rate * y**3 + np.cos(t)


def replayed(rate, orders, times):
    """The last value of y' = -rate y^3 + cos t, by BDF with given orders and times, as SciPy's code has it."""
    gamma = np.append(0.0, np.cumsum(1 / np.arange(1, 6)))
    alpha = (1 - np.array([0, -0.1850, -1 / 9, -0.0823, -0.0415, 0])) * gamma
    h = times[1] - times[0]
    d = np.zeros((8, 1))
    d[:2, 0] = 1.0, damped(times[0], 1.0, rate) * h
    for q, before, t in zip(orders, times[:-1], times[1:], strict=True):
        change_D(d, q, (t - before) / h)
        h = t - before
        y = predicted = np.sum(d[: q + 1])
        past, c = gamma[1 : q + 1] @ d[1 : q + 1, 0] / alpha[q], h / alpha[q]
        for _ in range(30):
            y -= (c * damped(t, y, rate) - past - (y - predicted)) / (-3 * c * rate * y**2 - 1)
        d[q + 2], d[q + 1] = y - predicted - d[q + 1], y - predicted
        for row in reversed(range(q + 1)):
            d[row] += d[row + 1]
    return d[0, 0]


def test_the_derivative_of_bdf_is_that_of_its_steps():
    """With loose tolerances it is another one than that of the true solution."""
    loose = {"t_span": (0.0, 6.0), "y0": [1.0], "rtol": 3e-2, "atol": 1e-3}

    def last(rate, **options):
        return solve_ivp(damped, args=(rate,), **{**loose, **BACKWARD, **options}).y[0, -1]

    record = Record()
    scipy.integrate.solve_ivp(partial(damped, rate=0.7), method=recording(scipy.integrate.BDF, record, False), **loose)
    orders, times = np.array(record.orders)[:, 0], np.array(record.times)
    assert len(set(orders)) > 1
    # SciPy ends Newton's iteration at 3 % of the tolerance, in each step.
    assert replayed(0.7, orders, times) == pytest.approx(record.states[-1][0], abs=3 * 0.03 * loose["rtol"])
    expected = (replayed(0.7 + 1e-5, orders, times) - replayed(0.7 - 1e-5, orders, times)) / 2e-5
    assert float(fg.grad(last)(0.7)) == pytest.approx(expected, rel=3 * 0.03 * loose["rtol"])
    true = central(lambda rate: last(rate[0], **EXACTLY), [0.7])[0]
    assert abs(expected / true - 1) > 2e-2


def test_bdf_between_its_steps_at_events_and_in_a_batch():
    def reached(t, y, length, friction):
        return y[0]

    def parts(length, friction=0.3, **options):
        found = solve_ivp(
            pendulum,
            (0.0, 2.0),
            [0.4, 0.0],
            args=(length, friction),
            rtol=1e-9,
            atol=1e-11,
            dense_output=True,
            events=reached,
            **BACKWARD,
        )
        return found.t_events[0], found.y_events[0], found.sol(np.array([0.1, 1.234])), found.sol(2.0)

    value, slope = fg.jvp(parts, (1.3,), (1.0,))
    for ours, scipys in zip(value, parts(1.3), strict=True):
        np.testing.assert_allclose(ours, scipys, atol=1e-9)
    for ours, above, below in zip(slope, parts(1.3 + 1e-4), parts(1.3 - 1e-4), strict=True):
        np.testing.assert_allclose(ours, (above - below) / 2e-4, atol=2e-5)

    def last(length, friction):
        return solve_ivp(
            pendulum, (0.0, 2.0), [0.4, 0.0], args=(length, friction), t_eval=[0.5, 2.0], rtol=1e-8, **BACKWARD
        ).y

    lengths = np.array([0.2, 1.3, 9.0])
    batch, frictions = (
        fg.vmap(fg.jacobian(last), in_axes=(0, None))(lengths, 0.3),
        fg.jacobian(last, argnums=1)(0.2, 0.3),
    )
    for length, one in zip(lengths, batch, strict=True):
        np.testing.assert_allclose(one, fg.jacobian(last)(length, 0.3), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(frictions, central(lambda f: last(0.2, f[0]), [0.3], 1e-3)[..., 0], atol=1e-4)


@pytest.mark.parametrize("method", ["Radau", "BDF"])
def test_implicit_steps_backwards_in_time(method):
    """y' = -a y sin t is y = y(2) exp(a (cos t - cos 2))."""

    def first(last, a):
        options = {"method": method, "rtol": 1e-9, "atol": 1e-11}
        return solve_ivp(lambda t, y: [-a * y[0] * np.sin(t)], (2.0, 0.0), [last], **options).y[0, -1]

    growth = 1 - np.cos(2.0)
    expected = np.exp(0.7 * growth), 1.2 * growth * np.exp(0.7 * growth)
    np.testing.assert_allclose(plain(fg.grad(first, argnums=(0, 1))(1.2, 0.7)), expected, rtol=1e-6)


def test_functions_of_bdf_that_take_many_ways_and_systems_that_are_too_large():
    def last(rate):
        def slope(t, y):
            return [-rate * y[0] * (1.0 + int(40 * t) / 40)]

        return solve_ivp(slope, (0.0, 1.0), [1.0], max_step=0.01, rtol=1e-6, **BACKWARD).y[0, -1]

    expected = -(1 + 39 / 80) * np.exp(-0.5 * (1 + 39 / 80))
    assert float(fg.grad(last)(0.5)) == pytest.approx(expected, rel=1e-3)
    with pytest.raises(errors.ParameterError, match="up to 32 equations, but slope has 40"):

        def slope(t, y):
            return -y

        fg.grad(lambda x: np.sum(solve_ivp(slope, (0.0, 1.0), x * np.ones(40), **BACKWARD).y))(1.0)


# Batches


@one_of_each
def test_every_example_of_a_batch_has_steps_of_its_own(way):
    def last(rate, y0):
        return solve_ivp(lambda t, y: -rate * y, (0.0, 0.7), np.stack([y0, 1.0 + 0.0 * y0]), **way, **EXACTLY).y[:, -1]

    rates, starts = np.array([0.1, 5.0, 1.0]), np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(
        fg.vmap(last)(rates, starts), [last(*each) for each in zip(rates, starts, strict=True)]
    )
    derivatives = [
        fg.jacobian(last, argnums=(0, 1)),
        fg.grad(lambda rate, y0: fg.grad(lambda rate: last(rate, y0)[0])(rate)),
        lambda rate, y0: fg.jvp(last, (rate, y0), (1.0, 2.0))[1],
    ]
    for derivative in derivatives:
        loop = [derivative(*each) for each in zip(rates, starts, strict=True)]
        found = fg.vmap(derivative)(rates, starts)
        for place in range(3):
            for ours, expected in zip(fg.tree_leaves(found), fg.tree_leaves(loop[place]), strict=True):
                np.testing.assert_allclose(ours[place], expected, rtol=1e-10, atol=1e-12)
    twice = fg.vmap(fg.vmap(last, in_axes=(0, None)), in_axes=(None, 0))(rates, starts)
    np.testing.assert_array_equal(twice[2, 1], last(rates[1], starts[2]))


def test_a_batch_of_steps_repeats_the_last_ones():
    def steps_of(rate):
        found = solve_ivp(lambda t, y: -rate * y, (0.0, 2.0), [1.0])
        return found.t, found.y[0]

    times, states = fg.vmap(steps_of)(np.array([0.1, 5.0]))
    short = scipy.integrate.solve_ivp(lambda t, y: -0.1 * y, (0.0, 2.0), [1.0])
    count = len(short.t)
    assert times.shape[1] > count
    np.testing.assert_array_equal(times[0, :count], short.t)
    assert (times[0, count:] == 2.0).all()
    assert (states[0, count:] == short.y[0, -1]).all()


@one_of_each
def test_a_batch_with_times_of_output(way):
    times = np.array([0.3, 1.1])

    def states(rate):
        return solve_ivp(lambda t, y: -rate * y, (0.0, 2.0), [1.0], t_eval=times * rate, **way, **EXACTLY).y[0]

    rates = np.array([0.5, 1.5])
    np.testing.assert_allclose(fg.vmap(states)(rates), np.stack([states(rate) for rate in rates]), rtol=1e-14)
    slopes = fg.vmap(fg.jacobian(states))(rates)
    np.testing.assert_allclose(slopes, [-2 * r * times * np.exp(-(r**2) * times) for r in rates], rtol=1e-7)


def test_a_batch_of_functions_that_ask_for_values():
    """SciPy solves the examples one after the other, so `if` works; derivatives follow the same way."""

    def last(rate):
        def slope(t, y, rate):
            return -rate * y if y[0] > 0.5 else -2 * rate * y

        return solve_ivp(slope, (0.0, 2.0), [1.0], args=(rate,)).y[0, -1]

    rates = np.array([0.2, 1.5])
    np.testing.assert_array_equal(fg.vmap(last)(rates), [last(rate) for rate in rates])


# Events


def cannon(t, y, gravity):
    return [y[1], -gravity]


def hits_ground(t, y, gravity):
    return y[0]


hits_ground.terminal, hits_ground.direction = True, -1


def at_the_top(t, y, gravity):
    return y[1]


@every_way
def test_events_are_differentiated(way):
    """From height 1 upwards with speed v: (v + sqrt(v^2 + 2 g)) / g until the ground, v / g until the top."""
    options = {"events": [hits_ground, at_the_top], **way}
    exactly = {"rtol": 1e-8, "atol": 1e-10} if way["method"] in ("RK23", "BDF") else EXACTLY

    def facts(speed, gravity):
        found = solve_ivp(cannon, (0.0, 100.0), [1.0, speed], args=(gravity,), **options, **exactly)
        (ground,), (top,) = found.t_events
        assert found.status == 1
        return np.stack([ground, top, found.t[-1], found.y[1, -1], found.y_events[0][0, 1], found.y_events[1][0, 0]])

    v, g = 5.0, 9.81
    root = np.sqrt(v**2 + 2 * g)
    value = fg.vjp(facts, v, g)[0]
    expected = [(v + root) / g, v / g, (v + root) / g, -root, -root, 1 + v**2 / (2 * g)]
    np.testing.assert_allclose(value, expected, rtol=1e-7)
    by_speed, by_gravity = fg.jacobian(facts, argnums=(0, 1))(v, g)
    np.testing.assert_allclose(
        by_speed, [(1 + v / root) / g, 1 / g, (1 + v / root) / g, -v / root, -v / root, v / g], rtol=1e-6
    )
    to_ground = -(v + root) / g**2 + 1 / (g * root)
    np.testing.assert_allclose(
        by_gravity, [to_ground, -v / g**2, to_ground, -1 / root, -1 / root, -(v**2) / (2 * g**2)], rtol=1e-6
    )
    scipys = scipy.integrate.solve_ivp(
        cannon, (0.0, 100.0), [1.0, v], way["method"], args=(g,), events=options["events"], **exactly
    )
    np.testing.assert_allclose(value[:2], [scipys.t_events[0][0], scipys.t_events[1][0]], rtol=1e-12)
    np.testing.assert_allclose(value[3:5], [scipys.y[1, -1]] * 2, rtol=1e-12)


@one_of_each
def test_events_to_second_order_and_by_what_they_close_over(way):
    def rises_to(level):
        found = solve_ivp(
            lambda t, y: [y[1], -9.81], (0.0, 1.0), [0.0, 5.0], events=lambda t, y: y[0] - level, **way, **EXACTLY
        )
        assert [each.shape for each in found.t_events] == [(2,)]
        assert found.y_events[0].shape == (2, 2)
        return found.t_events[0][0]

    root = np.sqrt(25 - 2 * 9.81 * 0.8)
    assert fg.grad(rises_to)(0.8).item() == pytest.approx(1 / root, rel=1e-8)
    assert fg.grad(fg.grad(rises_to))(0.8).item() == pytest.approx(9.81 / root**3, rel=1e-7)


def test_events_that_do_not_happen_and_times_of_output_after_the_end():
    def run(speed):
        options = {"args": (9.81,), "events": (hits_ground, lambda t, y, g: y[0] - 100.0)}
        found = solve_ivp(cannon, (0.0, 10.0), [1.0, speed], t_eval=[0.5, 1.0, 2.0], dense_output=True, **options)
        assert found.t.shape == (2,)
        assert found.t_events[1].shape == found.y_events[1].shape == (0,)
        assert found.sol.t_max.item() == pytest.approx(found.t_events[0][0].item())
        return np.sum(found.y[0])

    assert fg.grad(run)(5.0).item() == pytest.approx(1.5, rel=1e-6)


def test_events_backwards_in_time():
    def crossing(rate):
        def half(t, y):
            return y[0] - 2.0

        half.terminal = True
        found = solve_ivp(lambda t, y: -rate * y, (0.0, -5.0), [1.0], events=[half, lambda t, y: y[0] - 1.5], **EXACTLY)
        return found.t[-1]

    assert fg.grad(crossing)(0.7).item() == pytest.approx(np.log(2) / 0.49, rel=1e-8)


def test_events_of_a_batch():
    def ground(speed):
        return solve_ivp(cannon, (0.0, 100.0), [1.0, speed], args=(9.81,), events=hits_ground, **EXACTLY).t_events[0][0]

    speeds = np.array([1.0, 5.0])
    np.testing.assert_allclose(fg.vmap(ground)(speeds), [ground(speed) for speed in speeds], rtol=1e-12)
    expected = (1 + speeds / np.sqrt(speeds**2 + 2 * 9.81)) / 9.81
    np.testing.assert_allclose(fg.vmap(fg.grad(ground))(speeds), expected, rtol=1e-8)

    def path(speed, drag):
        def falling(t, y, gravity):
            return [y[1], -gravity - drag * y[1]]

        found = solve_ivp(falling, (0.0, 100.0), [1.0, speed], args=(9.81,), events=hits_ground, max_step=0.1)
        return found.t, found.y

    times, states = fg.vmap(path)(speeds, np.zeros(2))
    for place, speed in enumerate(speeds):
        own = scipy.integrate.solve_ivp(
            cannon, (0.0, 100.0), [1.0, speed], args=(9.81,), events=hits_ground, max_step=0.1
        )
        count = len(own.t)
        np.testing.assert_allclose(times[place, :count], own.t, rtol=1e-12)
        np.testing.assert_allclose(states[place, :, :count], own.y, rtol=1e-10, atol=1e-12)
        assert (times[place, count:] == times[place, count - 1]).all()
        assert (states[place, :, count:] == states[place, :, count - 1 : count]).all()
    with pytest.raises(ValueError, match=r"of cannon under vmap have different numbers of events: \[0, 1\]"):
        fg.vmap(lambda g: solve_ivp(cannon, (0, 0.5), [1, 1.0], args=(g,), events=lambda t, y, g: y[0]).t_events[0])(
            np.array([1.0, 20.0])
        )


# Dense output


@one_of_each
def test_the_solution_at_any_time(way):
    times = np.array([1.7, 0.0, 0.4])

    def at(rate, times):
        sol = solve_ivp(lambda t, y: -rate * y, (0.0, 2.0), [1.0, 2.0], dense_output=True, **way, **EXACTLY).sol
        assert (sol.t_min.item(), sol.t_max.item()) == (0.0, 2.0)
        assert sol(0.3).shape == (2,)
        return sol(times)

    y = np.array([[1.0], [2.0]]) * np.exp(-0.7 * times)
    value, pullback = fg.vjp(at, 0.7, times)
    np.testing.assert_allclose(value, y, rtol=1e-8)
    by_rate, by_times = pullback(np.ones((2, 3)))
    assert by_rate.item() == pytest.approx(np.sum(-times * y), rel=1e-7)
    np.testing.assert_allclose(by_times, -0.7 * np.sum(y, axis=0), rtol=1e-6)
    assert fg.grad(fg.grad(lambda rate: at(rate, 1.7)[0]))(0.7).item() == pytest.approx(1.7**2 * y[0, 0], rel=1e-6)
    with pytest.raises(ValueError, match=r"a time or a vector of times, but got shape \(1, 3\)"):
        fg.grad(lambda rate: np.sum(at(rate, times[None])))(0.7)


def test_the_solution_outside_of_its_interval():
    def outside(rate, derivative):
        sol = solve_ivp(lambda t, y: -rate * y, (0.0, 2.0), [1.0], dense_output=True, derivative=derivative).sol
        return sol(2.1)[0]

    expected = scipy.integrate.solve_ivp(lambda t, y: -0.7 * y, (0.0, 2.0), [1.0], dense_output=True).sol(2.1)[0]
    assert fg.vjp(lambda rate: outside(rate, "steps"), 0.7)[0].item() == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="is known from t = 0 to 2, but is evaluated at"):
        fg.grad(lambda rate: outside(rate, "adjoint"))(0.7)


# Errors


def test_scipys_own_functions_name_ours():
    def slope(t, y):
        return -y

    calls = {
        "solve_ivp": lambda x: scipy.integrate.solve_ivp(slope, (0, 1), np.stack([x])).y[0, -1],
        "odeint": lambda x: scipy.integrate.odeint(lambda y, t: -x * y, 1.0, [0.0, 1.0])[-1, 0],
    }
    for name, call in calls.items():
        with pytest.raises(errors.ScipyCallError, match=rf"Write fgrad\.scipy\.integrate\.{name}, which has the same"):
            fg.grad(call)(1.0)


@pytest.mark.parametrize("method", ["LSODA"])
def test_steps_of_implicit_methods_are_refused(method):
    message = f"the solution of slope by {method} cannot be differentiated step by step"
    with pytest.raises(ValueError, match=message) as caught:

        def slope(t, y):
            return -y

        fg.grad(lambda x: solve_ivp(slope, (0, 1), [x], method).y[0, -1])(1.0)
    assert "Use derivative='adjoint'" in str(caught.value)
    assert solve_ivp(slope, (0, 1), [1.0], method).success


def test_an_unknown_kind_of_derivative():
    for call in (partial(solve_ivp, pendulum, (0, 1), [1.0, 1.0]), partial(odeint, None, 1.0, [0.0])):
        with pytest.raises(errors.ParameterError, match="derivative must be 'steps' or 'adjoint', but it is 'exact'"):
            call(derivative="exact")


@one_of_each
def test_a_solver_that_has_failed(way):
    def explodes(t, y):
        return y**2

    with np.errstate(all="ignore"):
        assert solve_ivp(explodes, (0, 2), [1.0], way["method"]).status == -1
        with pytest.raises(RuntimeError, match="did not solve the initial value problem of explodes: Required step"):
            fg.grad(lambda x: solve_ivp(explodes, (0, 2), [x], **way).y[0, -1])(1.0)


@one_of_each
def test_the_function_may_return_an_array_of_traced_numbers(way):
    """As `np.array([...])` makes one; it is the same as one tensor."""

    def collected(rate):
        function = lambda t, y: np.array([-rate * y[0], y[0] - rate * y[1] ** 2])  # noqa: E731
        return solve_ivp(function, (0, 1), np.array([1.0, rate]), **way).y[:, -1]

    def stacked(rate):
        function = lambda t, y: np.stack([-rate * y[0], y[0] - rate * y[1] ** 2])  # noqa: E731
        return solve_ivp(function, (0, 1), np.stack([1.0, rate]), **way).y[:, -1]

    np.testing.assert_allclose(fg.jvp(collected, (0.7,), (1.0,)), fg.jvp(stacked, (0.7,), (1.0,)), rtol=1e-12)
    np.testing.assert_allclose(fg.jacobian(collected)(0.7), fg.jacobian(stacked)(0.7), rtol=1e-12)


def handled_before():
    """Return what is handled in this thread by whoever called the test, which every error has as its context.

    It is nothing, but that in Python 3.12 an interrupt by a tracer, as `test_interrupts.py` makes them, can leave there
    for ever what was handled when it came.
    """
    return sys.exc_info()[1]


@one_of_each
def test_errors_of_the_users_are_their_own(way):
    def misspelt(t, y):
        return -rte * y  # noqa: F821

    def too_long(t, y):
        return [y[0], y[1], y[0]]

    def in_an_array(t, y, rate):
        return np.array([-rate * value for value in y], dtype=float)

    def late(t, y, rate):
        if t > 0.5:
            raise KeyError("late")
        return -rate * y

    def last(function):
        return lambda x: solve_ivp(function, (0, 1), [x, x], **way).y[0, -1]

    with pytest.raises(NameError, match="name 'rte' is not defined"):
        fg.grad(last(misspelt))(1.0)
    with pytest.raises(ValueError, match=r"shape|broadcast"):
        fg.grad(last(too_long))(1.0)
    with pytest.raises(errors.ArrayConversionError, match=r"write np.stack"):
        fg.grad(lambda x: last(partial(in_an_array, rate=x))(1.0))(1.0)
    with pytest.raises(errors.ArrayConversionError, match=r"return np.array\(\[-rate"):
        fg.grad(lambda x: solve_ivp(in_an_array, (0, 1), [x], args=(x,), **way).y[0, -1])(1.0)
    with pytest.raises(KeyError, match="late") as caught:
        fg.grad(lambda x: last(partial(late, rate=x))(1.0))(1.0)
    assert caught.value.__context__ is handled_before()


@one_of_each
def test_an_exception_leaves_nothing_broken(way):
    """What the function closes over is followed again afterwards, and so is a variable."""
    variable = fg.Variable(2.0)

    def loss(x):
        tensor = x * 1.0

        def slope(t, y):
            if t > 0.5:
                raise ZeroDivisionError("in the middle")
            return -tensor * y * variable

        with pytest.raises(ZeroDivisionError, match="in the middle"):
            solve_ivp(slope, (0, 1), [1.0], **way)
        return tensor * variable

    assert fg.grad(loss)(3.0).item() == 2.0
    assert fg.implicit_gradients(loss)(3.0)[0][0].item() == 3.0


def test_a_program_that_is_recorded_has_no_values_to_solve_with():
    with pytest.raises(errors.ConcretizationError, match="an adaptive solver needs a value"):
        fg.trace(lambda x: solve_ivp(lambda t, y: -x * y, (0, 1), [1.0]).y[0, -1])(1.0)


def test_a_new_copy_at_each_call_cannot_be_followed():
    def last(x):
        def slope(t, y):
            return -y * box(x._payload, x._trace, x._mark)  # as no function of fgrad makes one

        return solve_ivp(slope, (0, 1), [1.0]).y[0, -1]

    with pytest.raises(errors.ClosureError, match="Pass the value as an argument") as caught:
        fg.grad(last)(1.0)
    assert caught.value.__context__ is handled_before()


def test_what_is_used_once_and_not_again_cannot_be_followed():
    """By a function that remembers how often it was called, and not by its arguments."""

    def last(x):
        calls = []

        def slope(t, y):
            calls.append(t)
            return -y * (x if len(calls) % 7 == 3 else 1.0)

        return solve_ivp(slope, (0, 1), [1.0]).y[0, -1]

    with pytest.raises(errors.ClosureError, match="slope uses a traced value that is not one of its arguments"):
        fg.grad(last)(1.0)


# Copies of functions without tensors, which SciPy calls in their place


def test_functions_with_a_memory_keep_it():
    """Whatever a function does to what it closes over is not lost."""

    def last(rate):
        calls, seen, tensors, count = [], {"times": 0}, [rate], 0

        def helper(y):
            return -rate * y

        def slope(t, y):
            nonlocal count
            count += 1
            calls.append(t)
            seen["times"] += 1
            tensors.append(rate)
            return helper(y)

        found = solve_ivp(slope, (0.0, 1.0), [1.0])
        assert count == len(calls) == seen["times"] >= len(tensors) - 1 >= found.nfev
        return found.y[0, -1]

    assert fg.grad(last)(0.5).item() == pytest.approx(-np.exp(-0.5), rel=1e-3)


def test_scipy_calls_a_copy_with_arrays_in_the_place_of_tensors():
    """For speed: the calls of the solver itself see no tensor, and those for the derivative are few."""
    kinds = []

    def last(rate, others):
        def slope(t, y):
            kinds.extend(map(type, (rate, others["b"][0])))
            return -rate * y + others["b"][0]

        return solve_ivp(slope, (0.0, 1.0), [1.0], max_step=0.01).y[0, -1]

    fg.grad(last)(0.5, {"b": [fg.Variable(1.0)]})
    assert kinds.count(fg.Tensor) + kinds.count(fg.Variable) < 30 < 1000 < kinds.count(np.float64)


def test_functions_may_assign_to_tensors_of_outer_functions():
    """Themselves, or by another function; what they assign stays, and is what they read."""

    def last(rate, by_itself):
        current = rate * 1.0

        def choose(t):
            nonlocal current
            current = rate if t < 0.5 else 2 * rate

        def slope_by_another(t, y):
            choose(t)
            return -current * y

        def slope(t, y):
            nonlocal current
            current = rate if t < 0.5 else 2 * rate
            return -current * y

        options = {"max_step": 0.02, "rtol": 1e-8}
        found = solve_ivp(slope if by_itself else slope_by_another, (0.0, 1.0), [1.0], **options)
        assert (current / rate).item() == 2.0
        return found.y[0, -1]

    for by_itself in (True, False):
        value, slope = fg.value_and_grad(last)(0.5, by_itself)
        assert value.item() == pytest.approx(np.exp(-0.75), rel=1e-4)
        assert slope.item() == pytest.approx(-1.5 * np.exp(-0.75), rel=1e-4)


def test_functions_may_ask_tensors_for_what_arrays_have_not():
    def last(rate):
        def slope(t, y):
            assert isinstance(rate, fg.Tensor)
            return -rate * y * (1.0 if rate.numpy() > 0 else 0.0)

        return solve_ivp(slope, (0.0, 1.0), [1.0]).y[0, -1]

    assert fg.grad(last)(0.5).item() == pytest.approx(-np.exp(-0.5), rel=1e-3)


@pytest.mark.parametrize("container", [lambda x: {"a": [x]}, lambda x: [{"a": [x]}], lambda x: (x, [x])])
def test_containers_of_tensors_are_closed_over(container):
    def last(rate):
        params = container(rate)

        def slope(t, y, scale=rate * 1.0, *, shift=rate * 0.0):
            assert type(params) in (dict, list, tuple) or isinstance(params, (dict, list))
            return -fg.tree_leaves(params)[0] * y * scale + shift

        return solve_ivp(partial(slope, scale=rate * 1.0), (0.0, 1.0), [1.0], **EXACTLY).y[0, -1]

    assert fg.grad(last)(0.5).item() == pytest.approx(-np.exp(-0.25), rel=1e-8)


def test_methods_of_objects_and_functions_that_call_themselves():
    class Model:
        def __init__(self, rate):
            self.rate = rate

        def slope(self, t, y):
            return -self.rate * y

    def by_object(rate):
        return solve_ivp(Model(rate).slope, (0.0, 1.0), [1.0], **EXACTLY).y[0, -1]

    def by_recursion(rate):
        def slope(t, y, depth=3):
            return -rate * y if depth == 0 else slope(t, y, depth - 1)

        return solve_ivp(slope, (0.0, 1.0), [1.0], **EXACTLY).y[0, -1]

    for last in (by_object, by_recursion):
        assert fg.grad(last)(0.5).item() == pytest.approx(-np.exp(-0.5), rel=1e-8)


def test_results_may_be_filled_in_place():
    def last(rate):
        def slope(t, y):
            found = fnp.zeros(2)
            found[0], found[1] = -rate * y[0], y[0]
            return found

        return solve_ivp(slope, (0.0, 1.0), [1.0, 0.0], **EXACTLY).y[1, -1]

    rate = 0.5
    expected = (np.exp(-rate) * (1 + rate) - 1) / rate**2
    assert fg.grad(last)(rate).item() == pytest.approx(expected, rel=1e-8)


# odeint


def oscillator(y, t, w):
    return [y[1], -(w**2) * y[0]]


TIMES = np.array([0.2, 0.7, 0.7, 2.1])


@pytest.mark.parametrize("derivative", ["adjoint", "steps"])
def test_odeint_by_everything_it_depends_on(derivative):
    times = TIMES if derivative == "adjoint" else np.delete(TIMES, 1)

    def states(w, y0, times):
        found = odeint(oscillator, y0, times, args=(w,), rtol=1e-10, atol=1e-11, derivative=derivative)
        assert found.shape == (len(times), 2)
        return found[:, 0]

    w, y0, t = 1.3, np.array([1.0, 0.5]), times - times[0]
    value = fg.vjp(states, w, y0, times)[0]
    np.testing.assert_allclose(value, np.cos(w * t) + 0.5 / w * np.sin(w * t), rtol=1e-8)
    by_w, by_y0, by_times = fg.jacobian(states, argnums=(0, 1, 2))(w, y0, times)
    expected = -t * np.sin(w * t) + 0.5 * (t / w * np.cos(w * t) - np.sin(w * t) / w**2)
    np.testing.assert_allclose(by_w, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(by_y0, np.stack([np.cos(w * t), np.sin(w * t) / w], axis=1), rtol=1e-7, atol=1e-9)
    slope = -w * np.sin(w * t) + 0.5 * np.cos(w * t)
    own = np.diag(slope)
    own[:, 0] -= slope
    np.testing.assert_allclose(by_times, own, rtol=1e-6, atol=1e-8)
    slope_of_last = fg.grad(lambda w: states(w, y0, times)[-1])
    expected = central(lambda w: slope_of_last(w[0]), [w])[0]
    assert fg.grad(slope_of_last)(w).item() == pytest.approx(expected, 1e-5)


@pytest.mark.slow
def test_odeint_has_derivatives_of_every_order():
    """The derivative of a rule that uses its own results, under a series trace and under a gradient inside of it."""

    def last(w, start, length):
        times = np.array([0.0, 0.3, 1.0]) * length
        return odeint(lambda y, t: -w * y, [1.0, start], times, rtol=1e-10, atol=1e-11)[-1, 1]

    for place, expected in enumerate(([1, -1, 1, -1], [1, 1, 0, 0], [1, -0.3, 0.09, -0.027])):
        point = [0.3, 1.0, 1.0]

        def of_one(x, place=place):
            return last(*point[:place], x, *point[place + 1 :])

        expected = np.array(expected) * np.exp(-0.3)
        np.testing.assert_allclose(fg.derivatives(of_one, 3)(point[place]), expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(fg.derivatives(fg.grad(of_one), 2)(point[place]), expected[1:], rtol=1e-7, atol=1e-9)


def test_odeint_is_scipys_where_nothing_is_traced():
    counted = Counted(oscillator)
    found, information = odeint(counted, [1.0, 0.5], TIMES, (1.3,), full_output=True)
    expected, of_scipys = scipy.integrate.odeint(oscillator, [1.0, 0.5], TIMES, (1.3,), full_output=True)
    np.testing.assert_array_equal(found, expected)
    assert information["nfe"][-1] == of_scipys["nfe"][-1]
    assert counted.calls <= information["nfe"][-1] + 2
    assert type(odeint(oscillator, fg.constant([1.0, 0.5]), TIMES, (1.3,))) is fg.Tensor


def test_odeint_in_its_other_forms():
    def last(w, **options):
        return odeint(lambda t, y: oscillator(y, t, w), [1.0, 0.0], [0.0, 1.0], tfirst=True, **options)

    def dfun(t, y):
        return [[0.0, 1.0], [-1.69, 0.0]]

    for options in ({}, {"Dfun": dfun}, {"hmax": 0.1}, {"mxstep": 1000, "rtol": 1e-9, "atol": 1e-9}):
        value, slope = fg.value_and_grad(lambda w: last(w, **options)[-1, 0])(1.3)
        assert (
            value.item()
            == scipy.integrate.odeint(
                lambda t, y: oscillator(y, t, 1.3), [1.0, 0.0], [0.0, 1.0], tfirst=True, **options
            )[-1, 0]
        )
        assert slope.item() == pytest.approx(-np.sin(1.3), rel=1e-6)
    for derivative in ("adjoint", "steps"):
        informations = []

        def with_information(w):
            states, information = last(w, full_output=True, derivative=derivative)
            informations.append(information)
            return states[-1, 0]

        assert fg.grad(with_information)(1.3).item() == pytest.approx(-np.sin(1.3), rel=1e-6)
        assert "message" in informations[0]
    assert fg.grad(lambda y0: odeint(lambda y, t: -y, y0, [0.0, 1.0])[-1, 0])(2.0).item() == pytest.approx(np.exp(-1))
    assert fg.grad(lambda y0: odeint(lambda y, t: -y, y0, [0.0])[-1, 0])(2.0).item() == 1.0
    assert fg.grad(lambda x: odeint(lambda y, t, x: -x * y, 1.0, [0.0, 1.0], x)[-1, 0])(2.0).item() == pytest.approx(
        -np.exp(-2), rel=1e-6
    )


def test_odeint_of_a_batch():
    def states(w):
        return odeint(oscillator, [1.0, 0.0], [0.0, 0.5, 1.0], args=(w,))[:, 0]

    several = np.array([0.5, 1.0, 3.0])
    np.testing.assert_array_equal(fg.vmap(states)(several), [states(w) for w in several])
    expected = [-np.sin(w) for w in several]
    np.testing.assert_allclose(fg.vmap(fg.grad(lambda w: states(w)[-1]))(several), expected, rtol=1e-5)
    informations = []

    def with_information(w):
        found, information = odeint(oscillator, [1.0, 0.0], [0.0, 1.0], args=(w,), full_output=True)
        informations.append(information)
        return found

    fg.vmap(with_information)(several)
    assert len(informations[0]) == 3


def test_odeint_that_has_failed():
    def explodes(y, t):
        return y**2

    with pytest.raises(errors.ConvergenceError, match="odeint did not solve the initial value problem of explodes: "):
        fg.grad(lambda x: odeint(explodes, x, [0.0, 2.0], mxstep=50)[-1, 0])(1.0)
    with pytest.warns(scipy.integrate.ODEintWarning):
        odeint(explodes, 1.0, [0.0, 2.0], mxstep=50)


# What is overwritten between the solution and the pass back


@every_way
def test_the_first_state_and_the_tolerances_may_be_overwritten_before_the_pass_back(way):
    """They count again: the state in the first step, the tolerances where the adjoint equation is differentiated."""

    def slopes(overwritten):
        data = {"y0": np.array([1.1, -0.4]), "t_eval": np.array([0.3, 0.7, 1.3]), "atol": np.array([1e-7, 1e-6])}

        def last(a):
            return np.sum(solve_ivp(lambda t, y: [y[1], -a * np.sin(y[0])], (0.0, 1.4), rtol=1e-6, **data, **way).y)

        pullbacks = [fg.vjp(function, 0.7)[1] for function in (last, fg.grad(last))]
        for name in overwritten:
            data[name][:] = [9.0, 8.0, 7.0][: len(data[name])]
        return [pullback(1.0)[0].item() for pullback in pullbacks]

    assert slopes(("y0", "t_eval", "atol")) == slopes(())


def test_what_odeint_is_given_may_be_overwritten_before_the_pass_back():
    def slopes(overwritten):
        data = {"y0": np.array([1.0, 0.0]), "t": np.array([0.0, 0.5, 1.0])}
        tolerances = {"rtol": np.array([1e-6, 1e-5]), "atol": np.array([1e-6, 1e-5])}

        def last(w):
            return np.sum(odeint(oscillator, **data, args=(w,), **tolerances)[-1])

        pullbacks = [fg.vjp(function, 0.7)[1] for function in (last, fg.grad(last))]
        for name in overwritten:
            {**data, **tolerances}[name][:] = 3.0
        return [pullback(1.0)[0].item() for pullback in pullbacks]

    expected = slopes(())
    for name in ("y0", "t", "rtol", "atol"):
        assert slopes((name,)) == expected
