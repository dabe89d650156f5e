"""Minima under constraints: derivatives by the conditions of Karush, Kuhn and Tucker, against closed forms."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from scipy.optimize import LinearConstraint, NonlinearConstraint

import fgrad as fg
from fgrad import errors
from fgrad.scipy import optimize
from fgrad.testing import check_grads

INTERIOR = {"method": "trust-constr", "options": {"gtol": 1e-10, "xtol": 1e-13, "barrier_tol": 1e-11}}
METHODS = {
    "SLSQP": {"method": "SLSQP", "tol": 1e-13},
    "trust-constr": INTERIOR,
    "COBYLA": {"method": "COBYLA", "tol": 1e-9},
    "COBYQA": {"method": "COBYQA", "tol": 1e-10},
}
SHARP = METHODS["SLSQP"]


def distance(c: Any) -> Any:
    return lambda x: np.sum((x - c) ** 2)


def nearest(c: Any, constraints: Any, start: Any = None, **options: Any) -> Any:
    """The point next to c that fulfils the constraints."""
    start = np.full(np.shape(c), 0.1) if start is None else start
    return optimize.minimize(distance(c), start, constraints=constraints, **(options or SHARP))


# Closed forms


@pytest.mark.parametrize("options", METHODS.values(), ids=METHODS)
def test_the_nearest_point_of_a_ball(options):
    """It is r c / |c| where c is outside, with the derivative r (1 - u u^T) / |c|; and c where it is inside."""

    def within(c: Any, r: Any) -> Any:
        return nearest(c, {"type": "ineq", "fun": lambda x: r**2 - x @ x}, **options).x

    c = np.array([3.0, 4.0])
    u = c / 5
    # SciPy's COBYLA ends up to 5e-5 from the minimum, whatever `tol` is: that depends on the processor's rounding.
    atol = 1e-4 if options["method"] == "COBYLA" else 1e-6
    for derivative in (fg.jacrev, fg.jacfwd):
        by_c, by_r = derivative(within, argnums=(0, 1))(c, 2.0)
        np.testing.assert_allclose(by_c, 2.0 * (np.eye(2) - np.outer(u, u)) / 5, atol=atol)
        np.testing.assert_allclose(by_r, u, atol=atol)
    np.testing.assert_allclose(fg.jacobian(within)(c / 10, 2.0), np.eye(2), atol=1e-8)


def test_the_nearest_point_of_a_ball_has_further_derivatives():
    def within(c: Any) -> Any:
        return nearest(c, {"type": "ineq", "fun": lambda x: 1 - x @ x}).x

    c = np.array([3.0, 4.0, 1.0])
    expected = fg.jacobian(lambda c: c / np.linalg.norm(c))
    np.testing.assert_allclose(fg.jacobian(fg.jacobian(within))(c), fg.jacobian(expected)(c), atol=1e-7)
    np.testing.assert_allclose(fg.jacfwd(fg.jacrev(within))(c), fg.jacobian(expected)(c), atol=1e-7)


@pytest.mark.parametrize("options", [SHARP, INTERIOR], ids=["SLSQP", "trust-constr"])
def test_the_nearest_point_of_a_plane(options):
    """With A x = b it is c - A^+ (A c - b), by all of c, A and b."""

    def on_plane(c: Any, a: Any, b: Any) -> Any:
        return nearest(c, LinearConstraint(a, b, b), **options).x

    point = np.array([1.0, -2.0, 0.5]), np.array([[1.0, 2.0, -1.0], [0.3, 0.1, 1.0]]), np.array([1.0, 0.4])
    found = fg.jacobian(on_plane, argnums=(0, 1, 2))(*point)
    expected = fg.jacobian(lambda c, a, b: c - np.linalg.pinv(a) @ (a @ c - b), argnums=(0, 1, 2))(*point)
    for ours, closed in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, closed, atol=2e-6)


def test_the_nearest_point_of_the_simplex():
    """With k positive elements its derivative by c is 1 - 1/k among them, and 0 elsewhere."""

    def on_simplex(c: Any) -> Any:
        return nearest(c, {"type": "eq", "fun": lambda x: np.sum(x) - 1}, bounds=[(0, None)] * 4, **SHARP).x

    expected = np.zeros((4, 4))
    expected[:3, :3] = np.eye(3) - 1 / 3
    np.testing.assert_allclose(fg.jacobian(on_simplex)(np.array([0.6, 0.4, 0.3, -2.0])), expected, atol=1e-12)
    several = np.array([[0.6, 0.4, 0.3, -2.0], [0.1, 0.2, 0.3, 0.4], [2.0, 0.0, 0.0, 0.0], [0.9, 0.7, -1.0, -1.0]])
    batch = fg.vmap(fg.jacobian(on_simplex))(several)
    for jacobian, k, place in zip(batch, (3, 4, 1, 2), several, strict=True):
        np.testing.assert_allclose(jacobian, fg.jacobian(on_simplex)(place), atol=1e-10)
        assert np.trace(jacobian) == pytest.approx(k - 1, abs=1e-8)


def test_a_portfolio_without_short_sales():
    """The weights of assets that are held solve the linear system of the equation; the others stay 0."""
    covariance = np.array([[0.10, 0.02, 0.01], [0.02, 0.08, 0.03], [0.01, 0.03, 0.30]])
    expected_returns = np.array([0.08, 0.07, -0.2])

    def weights(mu: Any, sigma: Any, aversion: Any) -> Any:
        return optimize.minimize(
            lambda w, mu: aversion / 2 * w @ sigma @ w - mu @ w,
            np.full(3, 1 / 3),
            args=(mu,),
            constraints=LinearConstraint(np.ones((1, 3)), 1.0, 1.0),
            bounds=scipy.optimize.Bounds(0.0, np.inf),
            **SHARP,
        ).x

    def of_two(mu: Any, sigma: Any, aversion: Any) -> Any:
        curvature = aversion * (sigma + sigma.T)[:2, :2] / 2
        system = np.block([[curvature, np.ones((2, 1))], [np.ones((1, 2)), np.zeros((1, 1))]])
        return np.concatenate([np.linalg.solve(system, np.append(mu[:2], 1.0))[:2], np.zeros(1)])

    point = expected_returns, covariance, 4.0
    np.testing.assert_allclose(weights(*point), of_two(*point), atol=1e-8)
    found, expected = (fg.jacobian(f, argnums=(0, 1, 2))(*point) for f in (weights, of_two))
    for ours, closed in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, closed, atol=1e-7)


def test_water_filling():
    """sum log(n + p) is largest with n + p at one level: of k channels in use, level = (power + sum n) / k."""

    def powers(noise: Any, power: Any) -> Any:
        def above(p: Any) -> Any:
            return p

        constraints = [
            {"type": "eq", "fun": lambda p: power - np.sum(p)},
            NonlinearConstraint(above, 0.0, np.inf),
        ]
        return optimize.minimize(
            lambda p: -np.sum(np.log(noise + p)), np.full(3, 0.4), constraints=constraints, **SHARP
        )

    noise = np.array([0.5, 0.9, 3.0])
    by_noise, by_power = fg.jacobian(lambda n, p: powers(n, p).x, argnums=(0, 1))(noise, 1.2)
    np.testing.assert_allclose(by_power, [0.5, 0.5, 0], atol=1e-6)
    np.testing.assert_allclose(by_noise, [[-0.5, 0.5, 0], [0.5, -0.5, 0], [0, 0, 0]], atol=1e-6)
    level = (1.2 + 0.5 + 0.9) / 2
    rate = fg.grad(lambda p: powers(noise, p).fun)
    assert float(rate(1.2)) == pytest.approx(-1 / level, rel=1e-5)
    assert float(fg.grad(rate)(1.2)) == pytest.approx(0.5 / level**2, rel=1e-4)


def test_a_linear_function_on_a_curved_set_and_at_a_corner():
    """Where what is made least has no curvature, that of the constraint decides, or the corner alone."""

    def on_circle(c: Any) -> Any:
        ball = NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0)
        return optimize.minimize(lambda x: c @ x, [0.1, -0.2], constraints=ball, **SHARP).x

    c = np.array([-3.0, 4.0])
    expected = fg.jacobian(lambda c: -c / np.linalg.norm(c))(c)
    np.testing.assert_allclose(fg.jacobian(on_circle)(c), expected, atol=1e-6)

    def corner(a: Any, b: Any) -> Any:
        return optimize.minimize(lambda x: -x[0] - 2 * x[1], [0.0, 0.0], constraints=LinearConstraint(a, -np.inf, b)).x

    a, b = np.array([[1.0, 1.0], [-1.0, 2.0], [1.0, 0.0]]), np.array([4.0, 2.0, 9.0])
    inverse = np.linalg.inv(a[:2])
    by_b = fg.jacobian(corner, argnums=1)(a, b)
    np.testing.assert_allclose(by_b, np.concatenate([inverse, np.zeros((2, 1))], axis=1), atol=1e-12)


# Every form of a constraint


@pytest.mark.parametrize(
    "constraint",
    [
        lambda a: LinearConstraint(np.ones((1, 2)), a, np.inf),
        lambda a: LinearConstraint(np.ones((1, 2)) / a, 1.0, np.inf),
        lambda a: LinearConstraint(-np.ones((1, 2)), -9.0, -a),
        lambda a: [NonlinearConstraint(lambda x: np.sum(x), a, 9.0)],
        lambda a: NonlinearConstraint(lambda x: a - np.sum(x), -np.inf, 0.0, jac=lambda x: -np.ones((1, 2))),
        lambda a: {"type": "ineq", "fun": lambda x: x[0] + x[1] - a},
        lambda a: {"type": "ineq", "fun": lambda x, a: x[0] + x[1] - a, "args": (a,)},
        lambda a: {"type": "eq", "fun": lambda x, a: np.sum(x) - a, "args": (a,), "jac": lambda x, a: np.ones(2)},
        lambda a: ({"type": "ineq", "fun": lambda x: [x[0] + x[1] - a, x[0] + 9.0]},),
    ],
)
def test_constraints_of_every_form_are_differentiated(constraint):
    """The sum of two unknowns is to be a, and the first is to weigh thrice as much as the second: 1/4 and 3/4."""

    def found(a: Any) -> Any:
        weighted = lambda x: 3 * x[0] ** 2 + x[1] ** 2  # noqa: E731
        return optimize.minimize(weighted, [1.0, 1.0], constraints=constraint(a), **SHARP).x

    np.testing.assert_allclose(fg.jacrev(found)(1.5), [0.25, 0.75], atol=1e-8)
    np.testing.assert_allclose(fg.jacfwd(found)(1.5), [0.25, 0.75], atol=1e-8)
    slopes = fg.vmap(fg.jacfwd(found))(np.array([1.5, 2.0]))
    np.testing.assert_allclose(slopes, [[0.25, 0.75]] * 2, atol=1e-7)


def test_sparse_matrices_and_containers():
    ones = scipy.sparse.csr_array(np.ones((1, 3)))

    def found(c: Any) -> Any:
        return optimize.minimize(
            lambda p: (p["a"] - c) ** 2 + np.sum(p["b"] ** 2),
            {"a": 0.0, "b": np.zeros(2)},
            constraints=[LinearConstraint(ones, 1.0, 1.0), {"type": "ineq", "fun": lambda p: 0.2 - p["b"][0]}],
            bounds=({"a": 0.0, "b": np.zeros(2)}, 5.0),
            **SHARP,
        ).x

    slopes = fg.jacobian(found)(0.5)  # a - c = b = multiplier, and a + 2 b = 1
    assert float(slopes["a"]) == pytest.approx(2 / 3, abs=1e-8)
    np.testing.assert_allclose(slopes["b"], [-1 / 3, -1 / 3], atol=1e-8)
    slopes = fg.jacobian(found)(0.1)  # b[0] is held back
    assert float(slopes["a"]) == pytest.approx(0.5, abs=1e-8)
    np.testing.assert_allclose(slopes["b"], [0, -0.5], atol=1e-8)


def test_bounds_beside_constraints_are_differentiated():
    above = {"type": "ineq", "fun": lambda x: x[0] - 0.5}

    def found(limit: Any) -> Any:
        return optimize.minimize(distance(0.0), [3.0], bounds=[(limit, 9.0)], constraints=above, **SHARP).x[0]

    assert float(fg.grad(found)(1.0)) == pytest.approx(1)
    assert float(fg.grad(found)(0.2)) == pytest.approx(0, abs=1e-12)


def test_variables_tapes_and_native_code():
    radius = fg.Variable(2.0, name="radius")
    c = np.array([3.0, 4.0])

    def within() -> Any:
        return nearest(c, {"type": "ineq", "fun": lambda x: radius**2 - x @ x}, compile=True, **SHARP).x[1]

    with fg.GradientTape() as tape:
        y = within()
    assert float(tape.gradient(y, radius)) == pytest.approx(0.8, abs=1e-7)
    _, pairs = fg.implicit_value_and_gradients(within)()
    assert float(pairs[0][0]) == pytest.approx(0.8, abs=1e-7)


def test_against_differences():
    def found(a: Any, b: Any) -> Any:
        constraints = [
            {"type": "ineq", "fun": lambda x: a[0] - x[0] ** 2 - np.exp(x[1] / a[1])},
            {"type": "eq", "fun": lambda x: x[0] * x[2] - b},
        ]
        function = lambda x: (x[0] - 2) ** 2 + (x[1] - a[1]) ** 2 + np.cosh(x[2]) * a[0]  # noqa: E731
        return optimize.minimize(
            function, [1.0, 0.5, 0.5], constraints=constraints, bounds=[(None, 1.3)] * 3, tol=1e-15
        ).x

    check_grads(found, (np.array([3.0, 1.4]), np.array(0.3)), order=1, rtol=1e-5, atol=1e-5)


# What a result says


def test_multipliers_are_what_limits_cost():
    """The least value changes by the multiplier as the limit moves, so its derivative is a second one of the value."""

    def found(a: Any) -> Any:
        constraints = [
            NonlinearConstraint(lambda x: np.sum(x**4), -1.0, a[0]),
            {"type": "ineq", "fun": lambda x: 9.0 - np.sum(x)},
            {"type": "eq", "fun": lambda x: x[0] - x[1] - a[1]},
            LinearConstraint(np.array([[0.0, 0.0, 1.0]]), a[2], np.inf),
        ]
        return optimize.minimize(distance(2.0), np.full(3, 0.5), constraints=constraints, bounds=[(-5, 5)] * 3, **SHARP)

    a = np.array([2.0, 0.1, 1.1])
    plain = found(a).multipliers  # equation, limits of the first (lower, upper), of the second, and of the last
    assert plain.shape == (5,)
    np.testing.assert_allclose(plain[[1, 3]], 0, atol=1e-6)
    of_value = fg.grad(lambda a: found(a).fun)
    upper = lambda a: found(a).multipliers[np.array([2, 0, 4])] * np.array([-1, 1, 1])  # noqa: E731
    np.testing.assert_allclose(upper(a), of_value(a), atol=1e-5)
    np.testing.assert_allclose(fg.jacobian(upper)(a), fg.jacobian(of_value)(a), rtol=1e-5, atol=1e-6)
    traced = fg.vjp(lambda a: found(a).multipliers, a)[0]
    np.testing.assert_allclose(traced, plain, atol=1e-5)


def test_the_report_of_trust_constr_is_differentiated():
    def found(a: Any) -> Any:
        constraints = [NonlinearConstraint(lambda x: x @ x, -np.inf, a), LinearConstraint(np.eye(2)[:1], -9.0, 9.0)]
        return optimize.minimize(distance(2.0), [0.1, 0.2], constraints=constraints, bounds=[(-5, 5)] * 2, **INTERIOR)

    a = 2.0  # x = sqrt(a / 2), multiplier = 2 / x - 1
    parts = ("v", "constr", "jac", "grad")

    def report(a: Any) -> Any:
        result = found(a)
        return {part: result[part] for part in parts}

    plain, traced, slopes = found(a), fg.vjp(report, a)[0], fg.jacobian(report)(a)
    for part in parts:
        for ours, scipys in zip(traced[part], plain[part], strict=True):
            np.testing.assert_allclose(ours, scipys, atol=1e-4)
    np.testing.assert_allclose(slopes["v"][0], [-0.5], atol=1e-4)
    np.testing.assert_allclose(slopes["constr"][0], 1, atol=1e-8)
    np.testing.assert_allclose(slopes["jac"][0], [[0.5, 0.5]], atol=1e-6)
    np.testing.assert_allclose(slopes["grad"], [0.5, 0.5], atol=1e-6)
    with pytest.raises(errors.UnsupportedError, match="lagrangian_grad of minimize is not differentiated"):
        fg.grad(lambda a: found(a).lagrangian_grad * a)(a)
    batch = fg.vmap(lambda a: found(a).v[0])(np.array([2.0, 2.5]))
    np.testing.assert_allclose(np.ravel(batch), [1.0, 2 / np.sqrt(1.25) - 1], atol=1e-5)


@pytest.mark.parametrize("options", METHODS.values(), ids=METHODS)
def test_without_traced_values_it_is_scipys_result(options):
    """Of functions that cannot be differentiated, too."""
    constraints = [{"type": "ineq", "fun": lambda x: 1.0 - float(x[0])}, LinearConstraint(np.eye(2), -3, 3)]
    function = lambda x: float(x[0] - 2) ** 2 + float(x[1]) ** 2  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        is_given_slopes = not options["method"].startswith("COBY")
        slopes, none = ({"jac": "2-point"}, {"jac": False}) if is_given_slopes else ({}, {})
        scipys = scipy.optimize.minimize(function, [0.5, 0.5], constraints=constraints, **slopes, **options)
        constraints[0]["jac"] = lambda x: np.array([-1.0, 0.0])
        ours = optimize.minimize(function, [0.5, 0.5], constraints=constraints, **none, **options)
    assert ours.keys() == scipys.keys()
    assert type(ours.x) is np.ndarray
    np.testing.assert_allclose(ours.x, scipys.x, atol=1e-7)


def test_what_a_function_uses_at_the_minimum_alone_is_differentiated():
    def found(a: Any) -> Any:
        def function(x: Any) -> Any:
            return np.sum((x - 2.0) ** 2) if x[0] < 0.6 else np.sum((x - 2.0) ** 2) * 1.0

        def limit(x: Any) -> Any:
            return 1.0 - x[0] if x[0] < 0.9 else a - x[0]

        return optimize.minimize(function, [0.1], constraints={"type": "ineq", "fun": limit}).x[0]

    assert float(fg.grad(found)(1.0)) == pytest.approx(1)


# Where there is no derivative


def test_constraints_that_depend_on_one_another_raise():
    def found(c: Any) -> Any:
        whole = {"type": "eq", "fun": lambda x: np.sum(x) - 1}
        return nearest(c, whole, np.full(2, 0.5), bounds=[(0, 1), (0, None)], **SHARP).x

    np.testing.assert_allclose(fg.jacobian(found)(np.array([0.3, 0.4])), [[0.5, -0.5], [-0.5, 0.5]], atol=1e-12)
    with pytest.raises(errors.SingularEquationError, match=r"are redundant \(constraints\[0\], bounds\)"):
        fg.jacobian(found)(np.array([3.0, -1.0]))


def test_a_minimum_that_is_flat_along_a_constraint_raises():
    def found(a: Any) -> Any:
        below = LinearConstraint([[1, 1]], 0, a)
        return optimize.minimize(lambda x: (x[0] + x[1] - 5.0) ** 2, [0.0, 0.0], constraints=below).x

    with pytest.raises(errors.SingularEquationError, match="has a singular Jacobian there"):
        fg.jacobian(found)(1.0)


@pytest.mark.parametrize("options", [SHARP, INTERIOR], ids=["SLSQP", "trust-constr"])
def test_a_constraint_that_just_does_not_hold_the_minimum_back_is_warned_of(options):
    def found(c: Any) -> Any:
        return nearest(c, {"type": "ineq", "fun": lambda x: 1 - x @ x}, **options).x

    with pytest.warns(errors.WeaklyActiveWarning, match=r"lies on constraints\[0\] with a zero multiplier"):
        slopes = fg.jacobian(found)(np.array([0.6, 0.8]))
    assert np.linalg.eigvalsh(slopes)[1] == pytest.approx(1, abs=1e-4)  # along the circle both sides agree


@pytest.mark.parametrize("unit", [1e-2, 1.0, 1e3, 1e6])
def test_units_do_not_matter_to_what_is_active(unit):
    def found(c: Any, r: Any) -> Any:
        ball = NonlinearConstraint(lambda x: x @ x / unit**2, -np.inf, r**2)
        function = lambda x: np.sum((x / unit - c) ** 2)  # noqa: E731
        start, bounds = np.full(2, 0.1 * unit), [(None, unit)] * 2
        return optimize.minimize(function, start, constraints=[ball], bounds=bounds, tol=1e-13).x / unit

    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.WeaklyActiveWarning)
        np.testing.assert_allclose(fg.jacobian(found, argnums=1)(np.array([3.0, 4.0]), 1.1), [0.6, 0.8], atol=1e-3)
        np.testing.assert_allclose(fg.jacobian(found, argnums=1)(np.array([0.3, 0.4]), 1.1), [0, 0], atol=1e-3)


def test_a_search_that_has_not_converged_raises():
    def found(a: Any) -> Any:
        constraints = {"type": "ineq", "fun": lambda x: a - x @ x}
        return optimize.minimize(optimize.rosen, [-9.0, 7.0], constraints=constraints, options={"maxiter": 2}).x

    with pytest.raises(errors.ConvergenceError, match="SciPy did not solve the problem"):
        fg.jacobian(found)(2.0)


def test_what_is_no_constraint_is_named():
    with pytest.raises(errors.StructureError, match=r"constraints\[1\] must be a dictionary.* its type is function"):
        nearest(np.zeros(2), [{"type": "eq", "fun": lambda x: x[0]}, lambda x: x[1]])
