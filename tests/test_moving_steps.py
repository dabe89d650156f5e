"""Jumps inside functions that solvers call: in the derivative where their place is named, and else told of."""

import math
import warnings
from functools import partial

import numpy as np
import pytest
from helpers import along, naming, plain

import fgrad as fg
from fgrad import errors
from fgrad.scipy import interpolate, optimize, stats
from fgrad.scipy.integrate import dblquad, fixed_quad, odeint, quad, quad_vec, solve_ivp

A = 0.3


def told(function, *at):
    """Return what a function gives, and how often a step is told of; other warnings are none of these tests'."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*at)
    return result, [str(each.message) for each in caught if each.category is errors.MovingStepWarning]


def over(integrand, **options):
    """Return the integral over [0, 1] as a function of what the integrand takes besides."""
    return lambda a: quad(lambda x: integrand(x, a), 0.0, 1.0, **options)[0]


both_modes = pytest.mark.parametrize("mode", [fg.grad, along, fg.jacfwd], ids=["reverse", "forward", "jacfwd"])

STEPS = {
    "where": lambda x, a: np.where(x > a, x, 0.0),
    "where without the parameter in a branch": lambda x, a: np.where(x > a, 1.0, 0.0),
    "if": lambda x, a: x if x > a else 0.0,
    "if in an if": lambda x, a: (x if x > a else 0.0) if x > 0.1 else 0.0,
    "factor": lambda x, a: (x > a) * x,
    "heaviside": lambda x, a: np.heaviside(x - a, 0.5) * x,
    "sign": lambda x, a: np.sign(x - a) * x,
    "floor": lambda x, a: np.floor(x / a) * a,
    "ceil": lambda x, a: np.ceil(x / a),
    "round": lambda x, a: np.round(x / a) * x,
    "remainder": lambda x, a: x % a,
    "floor_divide": lambda x, a: x // a,
    "int": lambda x, a: a * int(x / a),
    "math.floor": lambda x, a: a * math.floor(x / a),
    "select": lambda x, a: np.select([x < a, x < 2 * a], [1.0, 2.0], 0.0),
    "piecewise": lambda x, a: np.where((x > a) & (x < 2 * a), x, 0.0),
    "searchsorted": lambda x, a: np.searchsorted(np.stack([0.0, a, 1.0]), x) * 1.0,
    "interp": lambda x, a: np.interp(x, np.stack([a, 1.0]), [1.0, 2.0], left=0.0),
    "copysign": lambda x, a: np.copysign(x, x - a),
    "phase": lambda x, a: np.arctan2(x - a, -1.0),
    "sum of a kink and a step": lambda x, a: np.abs(x - a) + np.where(x > 2 * a, 1.0, 0.0),
    "where a density begins": lambda x, a: stats.expon.pdf(x, a),
    "where a density ends": lambda x, a: stats.uniform.pdf(x, -1.0, 1.0 + a),
    "where a density with shapes ends": lambda x, a: stats.beta.pdf(x, 1.0, 1.0, 0.0, a),
}


@both_modes
def test_a_step_that_moves_is_told_of(mode):
    """Each by reverse mode, and some by the others, which look at the same values; an integral need not be exact."""
    for name in STEPS if mode is fg.grad else ("where", "if in an if", "math.floor", "where a density begins"):
        with naming(name):
            _, messages = told(mode(over(STEPS[name], epsabs=1e-3)), A)
            (message,) = messages
            assert "test_moving_steps.py" in message
            assert "points=" in message
            assert "fg.stop_gradient" in message


SILENT = {
    "relu": (lambda x, a: np.where(x > a, x - a, 0.0), A - 1),
    "if": (lambda x, a: x - a if x > a else 0.0, A - 1),
    "parabola": (lambda x, a: np.where(x > a, (x - a) ** 2, 0.0), -((1 - A) ** 2)),
    "root": (lambda x, a: np.where(x > a, np.sqrt(np.abs(x - a)), 0.0), -np.sqrt(1 - A)),
    "abs": (lambda x, a: np.abs(x - a), 2 * A - 1),
    "sign times distance": (lambda x, a: np.sign(x - a) * (x - a), 2 * A - 1),
    "maximum": (lambda x, a: np.maximum(x, a), A),
    "max": (lambda x, a: max(x, a), A),
    "clip": (lambda x, a: np.clip(x, a, 0.8), A),
    "huber": (lambda x, a: np.where(x < a, x * x / 2, a * (x - a / 2)), (1 - A) ** 2 / 2),
    "saw teeth without steps": (lambda x, a: np.abs((x / a) % 2 - 1), None),
    "a step that stays": (lambda x, a: np.where(x > 0.5, a, 0.0), 0.5),
    "a step that stays, compared with the parameter": (lambda x, a: np.where(a * (x - 0.5) > 0, a, 0.0), 0.5),
    "a branch on the parameter alone": (lambda x, a: a * x if a > 0 else 0.0, 0.5),
    "a step that is meant to stay": (lambda x, a: np.where(x > fg.stop_gradient(a), a, 0.0), 1 - A),
    "a value": (lambda x, a: np.where(x > a.numpy(), a, 0.0), 1 - A),
}


@pytest.mark.parametrize("name", SILENT)
def test_kinks_and_steps_that_stay_are_not(name):
    integrand, expected = SILENT[name]
    slope, messages = told(fg.grad(over(integrand, **({"epsabs": 1e-3} if expected is None else {}))), A)
    assert messages == []
    if expected is not None:
        assert slope.item() == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("at", [0.0, 1e-12, 1e-5])
def test_kinks_near_a_limit_are_none(at):
    slope, messages = told(fg.grad(over(lambda x, a: np.where(x > a, x - a, 0.0))), at)
    assert (slope.item(), messages) == (pytest.approx(at - 1, abs=2e-5), [])  # SciPy sees no point before it


@both_modes
def test_a_step_at_a_break_point_is_in_the_derivative(mode):
    def above(a):
        return quad(lambda x: np.where(x > a, x, 0.0), 0.0, 1.0, points=[a])[0]

    slope, messages = told(mode(above), A)
    assert (slope.item(), messages) == (pytest.approx(-A, rel=1e-12), [])
    second, messages = told(mode(mode(above)), A)
    assert (second.item(), messages) == (pytest.approx(-1.0, rel=1e-10), [])


def test_break_points_of_integrals_of_arrays_backwards_in_batches_and_outside():
    def rows(a):
        return quad_vec(lambda x: np.where(x > a, np.stack([x, x * a]), 0.0), 0.0, 1.0, points=[a])[0]

    np.testing.assert_allclose(fg.jacobian(rows)(0.5), [-0.5, 0.125], rtol=1e-7)
    np.testing.assert_allclose(fg.jacfwd(rows)(0.5), [-0.5, 0.125], rtol=1e-7)

    def between(a, low, high):
        return quad(lambda x: np.where(x > a, x, 0.0), low, high, points=[a])[0]

    assert plain(fg.grad(between, argnums=(0, 1, 2))(0.5, 1.0, 0.0)) == pytest.approx((0.5, -1.0, 0.0), rel=1e-12)
    assert fg.grad(between)(1.5, 0.0, 1.0).item() == 0.0
    points = np.array([0.2, 0.3])
    np.testing.assert_allclose(fg.vmap(fg.grad(lambda a: between(a, 0.0, 1.0)))(points), -points, rtol=1e-12)


def test_several_break_points():
    """In a list and as an array; one that is missing is told of."""

    def pulse(a, points):
        return quad(lambda x: np.where((x > a) & (x < 2 * a), x, 0.0), 0.0, 1.0, points=points(a))[0]

    slope, messages = told(fg.grad(pulse), A, lambda a: [a, 2 * a])
    assert (slope.item(), messages) == (pytest.approx(3 * A), [])
    assert len(told(fg.grad(pulse), A, lambda a: [a])[1]) == 1

    def counted(knots):
        return quad(lambda x: np.searchsorted(knots, x) * 1.0, 0.0, 1.0, points=knots)[0]

    np.testing.assert_allclose(fg.jacobian(counted)(np.array([0.2, 0.5])), [-1.0, -1.0], rtol=1e-12)
    assert fg.grad(over(lambda x, a: a * x, points=[]))(A).item() == pytest.approx(0.5)


def test_the_interval_may_be_parted_instead():
    def above(a):
        return quad(lambda x: np.where(x > a, x, 0.0), 0.0, a)[0] + quad(lambda x: x, a, 1.0)[0]

    slope, messages = told(fg.grad(above), A)
    assert (slope.item(), messages) == (pytest.approx(-A), [])


def test_what_is_differentiated_has_a_step_where_the_integrand_has_a_kink():
    """The first derivative is right, and the second one lacks the step."""

    def above(a, **options):
        return quad(lambda x: np.maximum(x - a, 0.0), 0.0, 1.0, **options)[0]

    for second in (fg.grad(fg.grad(above)), fg.jacfwd(fg.jacfwd(above)), along(fg.grad(above))):
        assert len(told(second, A)[1]) == 1
    curvature, messages = told(fg.grad(fg.grad(lambda a: above(a, points=[a]))), A)
    assert (curvature.item(), messages) == (pytest.approx(1.0, rel=1e-9), [])


@pytest.mark.parametrize(
    "integral",
    [
        lambda a: quad(lambda x, a: np.where(x > a, 1.0, 0.0), 0.0, 1.0, args=(a,))[0],
        lambda a: quad(lambda x: np.exp(-x * x) * (x > a), -np.inf, np.inf)[0],
        lambda a: np.sum(quad_vec(lambda x: np.stack([x, x * a]) * (x > a), 0.0, 1.0)[0]),
        lambda a: fixed_quad(lambda x: np.where(x > a, x, 0.0), 0.0, 1.0, n=9)[0],
        lambda a: fixed_quad(lambda x: np.where(x > 0.5, x, 0.0), 0.0, 2 * a + 0.4)[0],
        lambda a: dblquad(lambda y, x: np.where(x > a, y, 0.0), 0.0, 1.0, 0.0, 1.0)[0],
        lambda a: dblquad(lambda y, x, a: np.where(x > a, y, 0.0), 0.0, 1.0, 0.0, 1.0, args=(a,))[0],
        lambda a: dblquad(lambda y, x: x * y, 0.0, 1.0, 0.0, lambda x: np.where(x > a, 1.0, 0.5))[0],
    ],
)
def test_steps_in_all_kinds_of_integrals(integral):
    assert len(told(fg.grad(integral), A)[1]) == 1


@pytest.mark.parametrize("last", [0.9, 2.0])
def test_a_step_in_one_example_of_a_batch_is_told_of(last):
    """Also where the other examples have none, and decide nothing at most of the points."""

    def area(a, b):
        return quad(lambda x: a * x + (np.where(x > b, 1.0, 0.0) if x > 0.8 else 0.0), 0.0, 1.0)[0]

    found, warned = told(fg.vmap(fg.grad(area, argnums=(0, 1))), np.ones(3), np.array([2.0, 3.0, last]))
    assert len(warned) == (last < 1)
    np.testing.assert_allclose(plain(found[0]), 0.5)


def test_only_what_is_differentiated_counts():
    """A step that moves from example to example of a batch alone is no loss."""

    def of_scale(a):
        return fg.grad(lambda b: quad(lambda x: np.where(x > a, b * x, 0.0), 0.0, 1.0)[0])(2.0)

    points = np.array([0.2, 0.3])
    slopes, messages = told(fg.vmap(of_scale), points)
    np.testing.assert_allclose(slopes, (1 - points**2) / 2, rtol=1e-6)
    assert messages == []
    assert told(over(STEPS["where"]), A)[1] == []  # nothing is differentiated
    assert len(told(fg.vmap(fg.grad(over(STEPS["where"]))), points)[1]) == 1


def test_variables_and_tapes():
    threshold = fg.Variable(A)

    def of_tape():
        with fg.GradientTape() as tape:
            area = quad(lambda x: np.where(x > threshold, 1.0, 0.0), 0.0, 1.0)[0]
        return tape.gradient(area, threshold)

    assert len(told(of_tape)[1]) == 1


# Differential equations

WAYS = [{}, {"derivative": "adjoint"}, {"derivative": "adjoint", "method": "LSODA"}]


def last(slope, start=(0.0,), **options):
    return lambda a: solve_ivp(lambda t, y: slope(t, y, a), (0.0, 1.0), list(start), **options).y[0, -1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "slope",
    [
        lambda t, y, a: np.where(t > a, 1.0, 0.0) + 0 * y,
        lambda t, y, a: np.where(y > a, 2.0, 1.0),
        lambda t, y, a: [2.0 if y[0] > a else 1.0],
        lambda t, y, a: np.heaviside(t - a, 0.5) + 0 * y,
    ],
)
def test_a_switch_of_a_right_hand_side_is_told_of(slope, way):
    for mode in (fg.grad, fg.jacfwd):
        (message,) = told(mode(last(slope, **way)), A)[1]
        assert "event" in message


@pytest.mark.parametrize("way", WAYS)
def test_a_switch_by_a_state_that_is_differentiated_is_told_of(way):
    def of_start(start):
        return solve_ivp(lambda t, y: np.where(y > 0.5, 2.0, 1.0), (0.0, 1.0), [start], **way).y[0, -1]

    assert len(told(fg.grad(of_start), A)[1]) == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "slope",
    [
        lambda t, y, a: np.where(t > a, t - a, 0.0) + 0 * y,
        lambda t, y, a: 1.0 + np.maximum(y - a, 0.0),
        lambda t, y, a: np.where(y > a, 1.0 + (y - a), 1.0),
        lambda t, y, a: np.where(t > 0.5, a, 2 * a) + 0 * y,
    ],
)
def test_right_hand_sides_without_such_a_switch_are_not(slope, way):
    value = last(slope, **{**way, "rtol": 1e-9, "atol": 1e-9, "max_step": 0.02})
    numeric = (value(A + 1e-4) - value(A - 1e-4)) / 2e-4
    found, messages = told(fg.grad(value), A)
    assert (found.item(), messages) == (pytest.approx(numeric, rel=2e-3), [])


def test_odeint_tells_of_switches():
    def of_threshold(a):
        return odeint(lambda y, t: np.where(y > a, 2.0, 1.0), [0.0], np.array([0.0, 1.0]))[-1, 0]

    assert len(told(fg.grad(of_threshold), A)[1]) == 1


def test_times_that_move_take_the_steps_along():
    """A switch that stays moves in relation to steps that are fractions of the time span; the adjoint is right."""

    def until(end, **way):
        return solve_ivp(lambda t, y: np.where(t > 0.5, 1.0, 2.0) + 0 * y, (0.0, end), [0.0], max_step=0.1, **way).y[
            0, -1
        ]

    assert len(told(fg.grad(until), 0.9)[1]) == 1
    slope, messages = told(fg.grad(lambda end: until(end, derivative="adjoint")), 0.9)
    assert (slope.item(), messages) == (pytest.approx(1.0), [])


def test_an_event_parts_the_solution():
    """y' = 1 up to y = a, then 2."""

    def at_one(a):
        def reached(t, y):
            return y[0] - a

        reached.terminal = True
        first = solve_ivp(lambda t, y: [1.0], (0.0, 1.0), [0.0], events=reached)
        return solve_ivp(lambda t, y: [2.0], (first.t[-1], 1.0), first.y[:, -1]).y[0, -1]

    (value, slope), messages = told(fg.value_and_grad(at_one), A)
    assert (value.item(), slope.item(), messages) == (pytest.approx(1.7), pytest.approx(-1.0), [])


# Roots, minima and fixed points of functions with steps


def crossing(find, a):
    return find(lambda x: np.where(x > a, 1.0, -1.0), 0.0, 1.0)


ROOTS = {
    find.__name__: partial(crossing, find)
    for find in (optimize.brentq, optimize.brenth, optimize.bisect, optimize.ridder, optimize.toms748)
}
SOLVERS = {
    **ROOTS,
    "args": lambda a: optimize.brentq(lambda x, a: np.sign(x - a), 0.0, 1.0, args=(a,)),
    "root_scalar": lambda a: optimize.root_scalar(lambda x: np.where(x > a, 1.0, -1.0), bracket=(0, 1)).root,
    "newton": lambda a: optimize.newton(lambda x: np.where(x > a, 1.0, 0.0), 0.1, fprime=lambda x: 1.0),
    "root": lambda a: optimize.root(lambda x: np.sign(x - a), [0.2]).x[0],
    "fsolve": lambda a: optimize.fsolve(lambda x: np.sign(x - a), [0.2])[0],
    "minimize": lambda a: optimize.minimize(lambda x: np.sum(np.floor(x / a)), [0.2], method="Nelder-Mead").x[0],
    "minimize_scalar": lambda a: optimize.minimize_scalar(lambda x: np.where(x > a, 1.0, 0.0), bounds=(0, 1)).x,
    "implicit_diff": fg.implicit_diff(lambda a: a * 1.0, lambda x, a: np.where(x > a, 1.0, 0.0)),
    "matrix-free": fg.implicit_diff(lambda a: a * 1.0, lambda x, a: np.where(x > a, 1.0, 0.0), matrix_free=True),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_both_modes_refuse_a_root_of_a_step(name):
    for transform in (fg.grad, along, fg.jacfwd, lambda f: fg.jacfwd(fg.jacfwd(f)), lambda f: fg.grad(fg.grad(f))):
        with pytest.raises(errors.SingularEquationError):
            told(transform(SOLVERS[name]), A)
    for mode in (fg.grad, fg.jacfwd):
        with pytest.raises(errors.SingularEquationError):
            told(fg.vmap(mode(SOLVERS[name])), np.array([0.3, 0.4]))


@both_modes
def test_both_modes_refuse_a_root_of_a_branch(mode):
    with pytest.raises(errors.SingularEquationError):
        mode(lambda a: optimize.brentq(lambda x: 1.0 if x > a else -1.0, 0.0, 1.0))(A)


@both_modes
def test_what_is_meant_to_be_a_constant_of_an_equation_stays_one(mode):
    def scaled(a):
        return a * optimize.brentq(lambda x: np.where(x > fg.stop_gradient(a), 1.0, -1.0), 0.0, 1.0)

    assert mode(scaled)(A).item() == pytest.approx(A)


@both_modes
def test_a_fixed_point_of_a_step_moves_with_its_level(mode):
    def level(a):
        return optimize.fixed_point(lambda x: np.floor(0.45 / a) * a + 0.0 * x, 0.2)

    assert mode(level)(A).item() == pytest.approx(1.0)


# At one point a step has the derivative 0, which is right


@both_modes
def test_steps_outside_of_solvers_have_the_derivative_zero(mode):
    """Nothing is integrated over the place: the function is differentiable but at it."""
    assert mode(lambda a: np.floor(2.2 / a) * a)(A).item() == pytest.approx(7.0)
    assert mode(lambda a: a * np.searchsorted(np.array([0.0, 1.0]), a))(A).item() == 1.0
    assert mode(lambda a: a * np.digitize(a, np.array([0.0, 1.0])))(A).item() == 1.0
    numbers = np.arange(4.0)
    assert mode(lambda a: a * np.histogram(a * numbers, bins=np.array([0.0, 0.5, 1.0]))[0][0])(A).item() == 2.0
    assert mode(lambda a: np.histogram(numbers, bins=2, weights=a * numbers)[0][1] * 1.0)(A).item() == 5.0
    for kind in ("previous", "nearest"):
        knots = np.array([1.0, 2.0, 3.0])
        assert mode(lambda a: a * interpolate.interp1d(np.stack([0.0, a, 1.0]), knots, kind=kind)(0.5))(A).item() == 2.0


def test_a_single_break_point_needs_no_list():
    def above(threshold):
        return quad(lambda x: np.where(x > threshold, x, 0.0), 0.0, 1.0, points=threshold)[0]

    np.testing.assert_allclose(above(0.3), 0.455, rtol=1e-12)
    np.testing.assert_allclose(fg.grad(above)(0.3), -0.3, rtol=1e-12)
    np.testing.assert_allclose(fg.jacfwd(above)(0.3), -0.3, rtol=1e-12)
