"""`fgrad.scipy.optimize`: SciPy's solvers with exact derivatives, and derivatives of what they find."""

import threading
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from helpers import plain
from measured_fits import FITS
from rows import check_calls, with_calls
from scipy_optimize_table import ROWS

import fgrad as fg
from fgrad import errors
from fgrad.scipy import optimize
from fgrad.testing import check_grads

TO_SECOND_ORDER = {"root", "brentq", "fixed_point", "minimize", "linprog", "nnls", "curve_fit", "isotonic_regression"}
"""One of each kind of solver: the rule of a solution is the same for all, and so is what its derivative is."""


@pytest.mark.filterwarnings("ignore:Method .* does not use")
@pytest.mark.parametrize("row", with_calls(ROWS))
def test_solutions_are_differentiated(row):
    check_calls(row, order=2 if row.names[0].removeprefix("fgrad.scipy.optimize.") in TO_SECOND_ORDER else 1)


# Closed forms


def test_first_to_third_derivative_of_a_cube_root():
    def cube_root(a: Any) -> Any:
        return optimize.brentq(lambda x: x**3 - a, 0.0, 10.0)

    first, second, third = fg.grad(cube_root), fg.grad(fg.grad(cube_root)), fg.grad(fg.grad(fg.grad(cube_root)))
    assert float(first(8.0)) == pytest.approx(1 / 12, rel=1e-12)
    assert float(second(8.0)) == pytest.approx(-2 / 9 * 8 ** (-5 / 3), rel=1e-12)
    assert float(third(8.0)) == pytest.approx(10 / 27 * 8 ** (-8 / 3), rel=1e-12)
    value, tangent = fg.jvp(fg.grad(cube_root), (8.0,), (1.0,))
    assert (float(value), float(tangent)) == pytest.approx((1 / 12, -2 / 9 * 8 ** (-5 / 3)), rel=1e-12)


def test_derivatives_of_a_linear_system_by_root():
    matrix = np.array([[3.0, 1.0], [1.0, 2.0]])

    def solved(a: Any, b: Any) -> Any:
        return optimize.root(lambda x: a @ x - b, np.zeros(2)).x

    b = np.array([1.0, 4.0])
    inverse = np.linalg.inv(matrix)
    by_matrix, by_right_side = fg.jacobian(solved, argnums=(0, 1))(matrix, b)
    np.testing.assert_allclose(by_right_side, inverse, rtol=1e-12)
    np.testing.assert_allclose(by_matrix, -np.einsum("ij,k->ijk", inverse, inverse @ b), rtol=1e-12)


def test_derivatives_of_a_quadratic_minimum():
    """argmin of x^T H x / 2 - b^T x is H^-1 b, the minimum -b^T H^-1 b / 2 with the Hessian -H^-1 in b."""
    h, b = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, -2.0])

    def found(b: Any) -> Any:
        return optimize.minimize(lambda x: x @ h @ x / 2 - b @ x, np.zeros(2), method="trust-exact", tol=1e-12)

    np.testing.assert_allclose(fg.jacobian(lambda b: found(b).x)(b), np.linalg.inv(h), rtol=1e-10)
    np.testing.assert_allclose(fg.grad(lambda b: found(b).fun)(b), -np.linalg.solve(h, b), rtol=1e-8)
    np.testing.assert_allclose(fg.hessian(lambda b: found(b).fun)(b), -np.linalg.inv(h), rtol=1e-8)


def test_derivatives_of_linear_least_squares():
    """The solution is the pseudoinverse times the data; its derivative by the matrix is that of `pinv`."""
    a, y = np.array([[1.0, 0.2], [0.3, 2.0], [0.7, 1.1]]), np.array([1.0, 2.0, 4.0])

    def solved(a: Any, y: Any) -> Any:
        return optimize.least_squares(lambda x: a @ x - y, np.zeros(2), xtol=1e-14, ftol=1e-14, gtol=1e-14).x

    np.testing.assert_allclose(fg.jacobian(solved, argnums=1)(a, y), np.linalg.pinv(a), rtol=1e-10)
    expected = fg.jacobian(lambda a: np.linalg.pinv(a) @ y)
    np.testing.assert_allclose(fg.jacobian(solved)(a, y), expected(a), rtol=1e-9)
    np.testing.assert_allclose(fg.jacobian(fg.jacobian(solved))(a, y), fg.jacobian(expected)(a), rtol=1e-7, atol=1e-9)


def test_a_fixed_point():
    """x = cos(a x): dx/da = -x sin(ax) / (1 + a sin(ax))."""
    a = 1.3
    x = optimize.fixed_point(lambda x: np.cos(a * x), 0.5, xtol=1e-14)
    found = fg.grad(lambda a: optimize.fixed_point(lambda x: np.cos(a * x), 0.5, xtol=1e-14))(a)
    assert float(found) == pytest.approx(-x * np.sin(a * x) / (1 + a * np.sin(a * x)), rel=1e-10)


def test_a_minimum_of_one_number():
    """x^2 / 2 + a exp(x) has the slope x + a exp(x): dx/da = -exp(x) / (1 + a exp(x)), and df/da = exp(x)."""

    def found(a: Any) -> Any:
        return optimize.minimize_scalar(lambda x: x**2 / 2 + a * np.exp(x))

    x = float(found(1.3).x)
    slope = -np.exp(x) / (1 + 1.3 * np.exp(x))
    assert float(fg.grad(lambda a: found(a).x)(1.3)) == pytest.approx(slope, rel=1e-7)
    assert float(fg.grad(lambda a: found(a).fun)(1.3)) == pytest.approx(np.exp(x), rel=1e-7)
    assert float(fg.grad(fg.grad(lambda a: found(a).fun))(1.3)) == pytest.approx(np.exp(x) * slope, rel=1e-6)
    limited = fg.grad(lambda b: optimize.minimize_scalar(lambda x: (x - 4) ** 2, bounds=(0.0, b), method="bounded").x)
    assert float(limited(1.5)) == pytest.approx(1)


@pytest.mark.parametrize("loss", ["soft_l1", "huber", "cauchy", "arctan"])
def test_robust_losses(loss):
    y = np.array([1.0, 1.4, 3.0, 1.1])

    def center(y: Any) -> Any:
        tight = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
        return optimize.least_squares(lambda m: m - y, [1.0], loss=loss, f_scale=0.3, **tight).x

    # SciPy's solution is too coarse for second differences: it is off by up to 1e-9, which is 1e-5 of a step of 1e-4.
    check_grads(center, (y,), order=1, atol=1e-5)


def test_a_bound_that_holds_the_minimum_back_decides():
    def found(a: Any, limit: Any) -> Any:
        return optimize.minimize(lambda x: np.sum((x - a) ** 2), [0.1, 0.1], bounds=[(0.0, limit), (0.0, 9.0)]).x

    by_a, by_limit = fg.jacobian(found, argnums=(0, 1))(np.array([3.0, 3.0]), 1.0)
    np.testing.assert_allclose(by_a, [[0, 0], [0, 1]], atol=1e-8)
    np.testing.assert_allclose(by_limit, [1, 0], atol=1e-8)


# What is differentiated: arguments, what is closed over, variables, any transform


def test_variables_and_closures_are_inputs():
    v = fg.Variable(8.0, name="v")
    value, pairs = fg.implicit_value_and_gradients(lambda: optimize.brentq(lambda x: x**3 - v, 0, 10))()
    assert float(value) == pytest.approx(2.0)
    assert pairs[0][1] is v
    assert float(pairs[0][0]) == pytest.approx(1 / 12)

    def both(a: Any) -> Any:
        return optimize.brentq(lambda x, c: x**3 - a * c, 0, 10, args=(2.0 * a,))  # x^3 = 2 a^2

    assert float(fg.grad(both)(2.0)) == pytest.approx(2 ** (1 / 3) * 2 / 3 * 2 ** (-1 / 3), rel=1e-10)


def test_tapes_single_and_persistent():
    with fg.GradientTape() as tape:
        a = fg.constant(8.0)
        tape.watch(a)
        x = optimize.root(lambda x: x**3 - a, [1.0], tol=1e-14).x
    np.testing.assert_allclose(tape.gradient(x, a), 1 / 12, rtol=1e-9)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(a)
        x = optimize.brentq(lambda x: x**3 - a, 0, 10)
        first = tape.gradient(x, a)
        second = tape.gradient(first, a)
    assert float(second) == pytest.approx(-2 / 9 * 8 ** (-5 / 3), rel=1e-9)


def test_nested_solvers():
    """y with y^3 = x, where x^2 = a: y = a^(1/6)."""

    def inner(a: Any) -> Any:
        return optimize.brentq(lambda x: x**2 - a, 0, 10)

    def outer(a: Any) -> Any:
        return optimize.brentq(lambda y: y**3 - inner(a), 0, 10)

    assert float(fg.grad(outer)(5.0)) == pytest.approx(5 ** (-5 / 6) / 6, rel=1e-9)
    assert float(fg.grad(fg.grad(outer))(5.0)) == pytest.approx(-5 / 36 * 5 ** (-11 / 6), rel=1e-8)


def test_a_batch_has_a_start_and_a_solution_for_each_example():
    starts, a = np.array([1.0, -1.0, 2.0]), np.array([4.0, 9.0, 16.0])

    def found(x0: Any, a: Any) -> Any:
        return optimize.root(lambda x: x**2 - a, x0, tol=1e-14).x[0]

    np.testing.assert_allclose(fg.vmap(found)(starts, a), [2.0, -3.0, 4.0])
    np.testing.assert_allclose(fg.vmap(fg.grad(found, argnums=1))(starts, a), [1 / 4, -1 / 6, 1 / 8])
    summed = fg.grad(lambda a: np.sum(fg.vmap(found)(starts, a)))
    np.testing.assert_allclose(summed(a), [1 / 4, -1 / 6, 1 / 8])
    np.testing.assert_allclose(fg.vmap(lambda a: found(np.array(1.0), a))(a), [2, 3, 4])


def test_the_start_has_the_derivative_zero():
    assert float(fg.grad(lambda x0: optimize.root(lambda x: x**2 - 2, x0).x[0])(1.0)) == 0


def test_containers():
    def residuals(p: Any, a: Any) -> Any:
        return {"sum": p["x"] + np.sum(p["y"]) - a, "rest": p["y"] - p["x"] * np.array([1.0, 2.0])}

    def solved(a: Any) -> Any:
        return optimize.root(residuals, {"x": 0.0, "y": np.zeros(2)}, args=(a,)).x

    found = fg.jacobian(solved)(8.0)
    np.testing.assert_allclose(found["x"], 1 / 4)
    np.testing.assert_allclose(found["y"], [1 / 4, 1 / 2])


def test_complex_unknowns():
    """A root of z^2 = c, differentiated by the real and the imaginary part of c."""

    def solved(re: Any, im: Any) -> Any:
        start = {"z": np.array(1.0 + 0.5j)}
        return optimize.root(lambda p: p["z"] ** 2 - (re + 1j * im), start, tol=1e-14).x["z"]

    slope = 1 / (2 * np.sqrt(1 + 2j))
    by_re = fg.jvp(lambda re: solved(re, 2.0), (1.0,), (1.0,))[1]
    by_im = fg.jvp(lambda im: solved(1.0, im), (2.0,), (1.0,))[1]
    np.testing.assert_allclose([by_re, by_im], [slope, 1j * slope], rtol=1e-10)


# What SciPy is handed


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def test_rosenbrocks_function_is_that_of_scipy():
    x = np.array([-1.2, 1.0, 0.7, 1.3])
    for name in ("rosen", "rosen_der", "rosen_hess"):
        np.testing.assert_allclose(getattr(optimize, name)(x), getattr(scipy.optimize, name)(x))
    for name in ("rosen", "rosen_der"):
        columns = np.stack([x, x[::-1]], axis=1)
        np.testing.assert_allclose(getattr(optimize, name)(columns), getattr(scipy.optimize, name)(columns))
    np.testing.assert_allclose(optimize.rosen_hess_prod(x, x[::-1]), scipy.optimize.rosen_hess_prod(x, x[::-1]))
    np.testing.assert_allclose(fg.grad(optimize.rosen)(x), optimize.rosen_der(x))
    np.testing.assert_allclose(fg.hessian(optimize.rosen)(x), optimize.rosen_hess(x))
    np.testing.assert_allclose(fg.hvp(optimize.rosen)(x, x[::-1]), optimize.rosen_hess_prod(x, x[::-1]))


class _Counted:
    """Counts the calls of a function on plain arrays: those that SciPy makes for values."""

    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, 0

    def __call__(self, x: Any, *args: Any) -> Any:
        self.calls += isinstance(fg.tree_leaves(x)[0], np.ndarray)
        return self.function(x, *args)


@pytest.mark.parametrize(
    "method",
    ["BFGS", "L-BFGS-B", "CG", "Newton-CG", "TNC", "SLSQP", "trust-constr", "dogleg", "trust-ncg", "trust-exact",
     "trust-krylov", "Nelder-Mead", "Powell", "COBYLA"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value encountered in multiply:RuntimeWarning")  # within trust-krylov
def test_every_method_minimizes_a_function_of_a_container(method):
    def f(p: Any) -> Any:
        return (p["a"] - 1.0) ** 2 + np.sum((p["b"] - p["a"]) ** 2) + 0.1 * np.sum(p["b"] ** 4)

    options = {"maxiter": 4000} if method in ("Nelder-Mead", "COBYLA", "Powell") else {}
    found = optimize.minimize(f, {"a": 0.5, "b": np.array([0.4, 0.6])}, method=method, tol=1e-9, options=options)
    exact = optimize.minimize(f, {"a": 0.5, "b": np.array([0.4, 0.6])}, method="trust-exact", tol=1e-13).x
    np.testing.assert_allclose(found.x["a"], exact["a"], atol=1e-4)
    np.testing.assert_allclose(found.x["b"], exact["b"], atol=1e-4)
    if method in ("BFGS", "L-BFGS-B", "trust-ncg", "trust-exact"):
        assert set(found.jac) == {"a", "b"}


@pytest.mark.parametrize("method", ["Newton-CG", "trust-ncg", "trust-krylov", "trust-constr", "dogleg", "trust-exact"])
@pytest.mark.filterwarnings("ignore:invalid value encountered in multiply:RuntimeWarning")  # within trust-krylov
def test_methods_of_second_order_get_second_derivatives(method):
    """Without them SciPy would warn, raise, or build up an approximation."""
    x0 = np.array([1.1, 1.2, 1.3])
    given = {"jac": scipy.optimize.rosen_der}
    given["hess"] = scipy.optimize.rosen_hess
    ours = optimize.minimize(rosenbrock, x0, method=method)
    scipys = scipy.optimize.minimize(scipy.optimize.rosen, x0, method=method, **given)
    np.testing.assert_allclose(ours.x, np.ones(3), atol=1e-3)
    assert ours.nit <= scipys.nit + 3


def test_gradients_spare_the_calls_that_differences_would_need():
    start = np.full(20, 0.5)
    counted = _Counted(scipy.optimize.rosen)
    scipy.optimize.minimize(counted, start, method="BFGS")
    ours = optimize.minimize(rosenbrock, start)
    assert ours.nfev * 10 < counted.calls


def test_constraints_get_exact_jacobians():
    above = {"type": "ineq", "fun": lambda p: p["x"][0] - 1.0}
    found = optimize.minimize(lambda p: np.sum(p["x"] ** 2), {"x": np.array([2.0, 3.0])}, constraints=above)
    np.testing.assert_allclose(found.x["x"], [1.0, 0.0], atol=1e-6)
    on_circle = scipy.optimize.NonlinearConstraint(lambda x: np.sum(x**2), 1.0, 1.0)
    found = optimize.minimize(lambda x: x[0] + x[1], [1.0, 0.5], constraints=on_circle, method="trust-constr")
    np.testing.assert_allclose(found.x, [-np.sqrt(0.5)] * 2, atol=1e-4)


def test_users_own_derivatives_are_used():
    called = []

    def slope(x: Any) -> Any:
        called.append(x)
        return 2 * x

    optimize.minimize(lambda x: np.sum(x**2), [1.0, 2.0], jac=slope)
    assert called
    both = optimize.minimize(lambda x: (np.sum(x**2), 2 * x), [1.0, 2.0], jac=True)
    np.testing.assert_allclose(both.x, [0, 0], atol=1e-6)
    differences = optimize.minimize(lambda x: float(x[0] ** 2), [1.0], jac=False)
    np.testing.assert_allclose(differences.x, [0], atol=1e-6)


def test_callbacks_get_the_unknowns_as_they_are():
    seen: list[Any] = []
    optimize.minimize(lambda p: np.sum((p["x"] - 1) ** 2), {"x": np.zeros(2)}, callback=seen.append)
    assert seen
    assert seen[0].keys() == {"x"}

    def with_result(intermediate_result: Any) -> None:
        seen.append(intermediate_result)

    optimize.minimize(lambda p: np.sum((p["x"] - 1) ** 2), {"x": np.zeros(2)}, callback=with_result)
    assert seen[-1].x.keys() == {"x"}


def test_without_traced_values_it_is_scipys_solution():
    x0 = [-1.2, 1.0]
    ours = optimize.minimize(scipy.optimize.rosen, x0, jac=scipy.optimize.rosen_der)
    scipys = scipy.optimize.minimize(scipy.optimize.rosen, x0, jac=scipy.optimize.rosen_der)
    np.testing.assert_array_equal(ours.x, scipys.x)
    assert type(ours.x) is np.ndarray
    assert (ours.nit, ours.message, ours.fun) == (scipys.nit, scipys.message, scipys.fun)
    assert type(optimize.brentq(lambda x: x - 1, 0, 3)) is not fg.Tensor
    assert type(optimize.brentq(lambda x, a: x - a, 0, 3, args=(fg.constant(1.0),))) is fg.Tensor


def test_gradient_functions_go_straight_into_scipy():
    derivatives = {"jac": fg.grad(rosenbrock), "hessp": fg.hvp(rosenbrock)}
    found = scipy.optimize.minimize(rosenbrock, np.zeros(4), method="trust-ncg", **derivatives)
    np.testing.assert_allclose(found.x, np.ones(4), atol=1e-5)


# Fits of measured data


@pytest.mark.parametrize("fit", [pytest.param(fit, id=fit.name) for fit in FITS])
def test_fits_of_measured_data_have_the_certified_digits(fit):
    """Ten digits of the eleven that are certified, in parameters and standard errors, from every start."""
    for start in fit.starts:
        found, covariance = optimize.curve_fit(fit.model, fit.x, fit.y, start)
        np.testing.assert_allclose(found, fit.parameters, rtol=1e-10)
        np.testing.assert_allclose(np.sqrt(np.diag(covariance)), fit.deviations, rtol=1e-10)


def test_a_fit_is_differentiated_by_measured_data():
    """A shift of one observation, against the fits of the shifted data."""
    fit = FITS[0]
    by_data = np.array(fg.jacobian(lambda y: optimize.curve_fit(fit.model, fit.x, y, fit.starts[1])[0])(fit.y))
    step = 1e-3 * np.eye(14)[3]
    ahead = optimize.curve_fit(fit.model, fit.x, fit.y + step, fit.starts[1])[0]
    behind = optimize.curve_fit(fit.model, fit.x, fit.y - step, fit.starts[1])[0]
    np.testing.assert_allclose(by_data[:, 3], (ahead - behind) / 2e-3, rtol=1e-6)


def test_curve_fit_takes_what_scipys_does():
    t, y = np.linspace(0, 3, 12), 2 * np.exp(-0.7 * np.linspace(0, 3, 12)) + 0.05 * np.cos(np.arange(12))

    def model(t: Any, a: Any, b: Any) -> Any:
        return a * np.exp(-b * t)

    sigma = 0.05 + 0.01 * np.arange(12)
    for options in (
        {},
        {"sigma": sigma, "absolute_sigma": True},
        {"sigma": sigma},
        {"sigma": np.diag(sigma**2) + 1e-4, "absolute_sigma": True},
        {"bounds": ([0, 0], [1.5, 3])},
        {"bounds": (0, np.inf)},
        {"p0": [1.0, 1.0], "method": "trf"},
    ):
        ours, our_covariance = optimize.curve_fit(model, t, y, **options)
        scipys, covariance = scipy.optimize.curve_fit(model, t, y, **options)
        np.testing.assert_allclose(ours, scipys, rtol=1e-5)
        np.testing.assert_allclose(our_covariance, covariance, rtol=1e-3)
    assert optimize.curve_fit(model, t, y, full_output=True)[4] in (1, 2, 3, 4)
    holes = np.where(np.arange(12) == 4, np.nan, y)
    found = optimize.curve_fit(model, t, holes, nan_policy="omit")[0]
    np.testing.assert_allclose(found, optimize.curve_fit(model, np.delete(t, 4), np.delete(y, 4))[0], rtol=1e-9)
    with pytest.raises(ValueError, match="pass p0"):
        optimize.curve_fit(lambda t, *p: t, t, y)


# Least squares: the cost, losses, bounds


TIGHT = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
SPOILED = np.array([2.1, 1.0, 0.9, 1.6, 0.3, 0.35, 0.1, 0.2])
STEPS = np.arange(8) / 3


def saturating(z: Any) -> Any:
    """A loss of one's own, that of Geman and McClure."""
    return np.stack([z / (1 + z), 1 / (1 + z) ** 2, -2 / (1 + z) ** 3])


LOSSES = ["linear", "soft_l1", "huber", "cauchy", "arctan", saturating]


def fall(p: Any, shift: Any) -> Any:
    """Residuals that depend on a number in a nonlinear way."""
    return p[0] * np.exp(-p[1] * STEPS) + 0.3 * np.sin(shift * STEPS) - SPOILED


def differences(f: Any, x: float, step: float) -> tuple[Any, Any]:
    """Return the first and the second derivative of a function of a number, by central differences."""
    ahead, here, behind = (np.asarray(f(x + k * step)) for k in (1, 0, -1))
    return (ahead - behind) / (2 * step), (ahead - 2 * here + behind) / step**2


def fields(found: Any) -> Any:
    return np.concatenate([found.x, found.fun, np.reshape(found.cost, (1,))])


@pytest.mark.parametrize("loss", LOSSES)
def test_the_cost_and_the_solution_of_every_loss(loss):
    def with_library(library: Any) -> Any:
        def found(shift: Any) -> Any:
            return library.least_squares(fall, [1.0, 1.0], loss=loss, f_scale=0.2, args=(shift,), **TIGHT)

        return found

    ours, scipys = with_library(optimize), with_library(scipy.optimize)
    by_shift = fg.jacfwd(lambda shift: fields(ours(shift)))
    first, second = differences(lambda shift: fields(scipys(shift)), 0.4, 1e-3)
    np.testing.assert_allclose(by_shift(0.4), first, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(fg.jacobian(by_shift)(0.4), differences(by_shift, 0.4, 1e-3)[0], rtol=1e-3, atol=1e-4)
    by_cost = fg.grad(lambda shift: ours(shift).cost)
    assert float(by_cost(0.4)) == pytest.approx(first[-1], rel=1e-4)
    assert float(fg.grad(by_cost)(0.4)) == pytest.approx(second[-1], rel=1e-4)
    values = fg.jvp(lambda shift: fields(ours(shift)), (0.4,), (1.0,))[0]
    # SciPy, which has no exact Jacobian, stops elsewhere within its tolerance; at a minimum the cost does not tell.
    np.testing.assert_allclose(values, fields(scipys(0.4)), rtol=1e-6, atol=1e-7)
    assert float(values[-1]) == pytest.approx(scipys(0.4).cost, rel=1e-13)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_example_of_a_batch_has_its_own_cost(loss):
    shifts = np.array([0.2, 0.4, 0.7])

    def found(shift: Any) -> Any:
        return optimize.least_squares(fall, [1.0, 1.0], loss=loss, f_scale=0.2, args=(shift,), **TIGHT)

    costs, residuals, slopes = fg.vmap(lambda shift: (found(shift).cost, found(shift).fun, found(shift).grad))(shifts)
    by_shift = fg.vmap(fg.grad(lambda shift: found(shift).cost))(shifts)
    for i, shift in enumerate(shifts):
        alone = found(shift)
        np.testing.assert_allclose(costs[i], alone.cost, rtol=1e-12)
        np.testing.assert_allclose(residuals[i], alone.fun, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(slopes[i], alone.grad, atol=1e-9)
        np.testing.assert_allclose(by_shift[i], fg.grad(lambda shift: found(shift).cost)(shift), rtol=1e-9)


@pytest.mark.parametrize("method", ["trf", "dogbox"])
@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber", saturating])
@pytest.mark.parametrize(("lower", "upper"), [(0.0, 0.3), (2.5, 5.0), (0.0, 5.0), (-np.inf, 0.3), (2.5, np.inf)])
def test_bounds_decide_where_they_hold_the_minimum_back(loss, lower, upper, method):
    """The other unknown is free, and depends on the bound of its neighbor."""
    options = {"loss": loss, "f_scale": 0.2, "method": method, "args": (0.4,), **TIGHT}
    start = [1.0, min(max(0.6, lower + 0.1), upper - 0.1)]

    def ours(lower: Any, upper: Any) -> Any:
        bounds = np.stack([-np.inf, lower]), np.stack([np.inf, upper])
        return fields(optimize.least_squares(fall, start, bounds=bounds, **options))

    def scipys(lower: Any, upper: Any) -> Any:
        return fields(scipy.optimize.least_squares(fall, start, bounds=([-np.inf, lower], [np.inf, upper]), **options))

    # SciPy stops short of the minimum by 1e-8, as the processor's rounding has it: over the step that is the error.
    by_lower, by_upper = fg.jacobian(ours, argnums=(0, 1))(lower, upper)
    np.testing.assert_allclose([by_lower[1], by_upper[1]], [lower == 2.5, upper == 0.3], atol=1e-6)
    expected = differences(lambda b: scipys(b, upper), lower, 1e-3)[0] if np.isfinite(lower) else 0
    np.testing.assert_allclose(by_lower, np.broadcast_to(expected, 11), atol=1e-4)
    expected = differences(lambda b: scipys(lower, b), upper, 1e-3)[0] if np.isfinite(upper) else 0
    np.testing.assert_allclose(by_upper, np.broadcast_to(expected, 11), atol=1e-4)


def test_second_derivatives_at_a_bound():
    def cost(limit: Any) -> Any:
        return optimize.least_squares(fall, [1.0, 0.2], bounds=([0.0, 0.0], np.stack([9.0, limit])), args=(0.4,)).cost

    def scipys(limit: float) -> Any:
        bounds = [0.0, 0.0], [9.0, limit]
        return scipy.optimize.least_squares(fall, [1.0, 0.2], bounds=bounds, args=(0.4,), **TIGHT).cost

    first, second = differences(scipys, 0.3, 1e-3)
    assert float(fg.grad(cost)(0.3)) == pytest.approx(first, rel=1e-5)
    assert float(fg.grad(fg.grad(cost))(0.3)) == pytest.approx(second, rel=1e-4)
    assert float(fg.jvp(fg.grad(cost), (0.3,), (1.0,))[1]) == pytest.approx(second, rel=1e-4)


def nearest(limits: Any, **options: Any) -> Any:
    """The point within bounds next to (2, -2)."""
    return optimize.least_squares(lambda x: x - np.array([2.0, -2.0]), [0.2, 0.1], bounds=limits, **options).x


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (lambda a: (-np.inf, a), [1, 0]),
        (lambda a: (-a, np.inf), [0, -1]),
        (lambda a: (-a, a), [1, -1]),
        (lambda a: (-5.0, 5 * a), [0, 0]),
        (lambda a: ([-9, -1], a * np.ones(2)), [1, 0]),
        (lambda a: (np.stack([-9.0, -a]), np.inf), [0, -1]),
        (lambda a: scipy.optimize.Bounds(-a, a), [1, -1]),
        (lambda a: scipy.optimize.Bounds([-9, -9], a * np.ones(2)), [1, 0]),
        (lambda a: scipy.optimize.Bounds(ub=a), [1, 0]),
    ],
)
def test_all_forms_of_bounds(limits, expected):
    np.testing.assert_allclose(fg.jacobian(lambda a: nearest(limits(a)))(1.0), expected, atol=1e-7)
    np.testing.assert_allclose(fg.jacfwd(lambda a: nearest(limits(a)))(1.0), expected, atol=1e-7)
    batch = fg.vmap(lambda a: nearest(limits(a)))(np.array([0.5, 1.0]))
    np.testing.assert_allclose(batch, [nearest(limits(0.5)), nearest(limits(1.0))], atol=1e-9)


def test_bounds_of_unknowns_in_a_container():
    def found(limit: Any) -> Any:
        lower, upper = {"a": 0.0, "b": np.zeros(2)}, {"b": np.stack([limit, 9.0]), "a": limit}
        return optimize.least_squares(
            lambda p: {"x": p["a"] - 3.0, "y": p["b"] - 2.0}, {"b": np.full(2, 0.1), "a": 0.1}, bounds=(lower, upper)
        )

    result = found(1.0)
    assert result.fun == pytest.approx([-2, -1, 0], abs=1e-6)
    by_limit = fg.jacobian(lambda limit: (found(limit).x, found(limit).fun))(1.0)
    np.testing.assert_allclose(by_limit[0]["a"], 1)
    np.testing.assert_allclose(by_limit[0]["b"], [1, 0], atol=1e-8)
    np.testing.assert_allclose(by_limit[1], [1, 1, 0], atol=1e-8)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3, 1e6])
def test_the_units_do_not_matter_to_what_a_bound_holds_back(unit):
    def found(limit: Any) -> Any:
        residuals = lambda p: unit * (fall(p * np.array([1 / unit, 1.0]), 0.4))  # noqa: E731
        upper = np.stack([limit * unit, 5.0])
        return optimize.least_squares(residuals, [0.5 * unit, 0.6], bounds=(0, upper)).x / np.array([unit, 1.0])

    def scipys(limit: float) -> Any:
        return scipy.optimize.least_squares(fall, [0.5, 0.6], bounds=(0, [limit, 5.0]), args=(0.4,), **TIGHT).x

    if unit >= 1:  # below, SciPy stops before it is there
        np.testing.assert_allclose(fg.jacobian(found)(1.0), differences(scipys, 1.0, 1e-3)[0], rtol=1e-3, atol=1e-5)
    else:
        with pytest.raises(errors.ConvergenceError, match="is not a solution: its residuals"):
            fg.jacobian(found)(1.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_scale_of_a_loss_and_arguments_by_name_are_differentiated(loss):
    def with_library(library: Any) -> Any:
        def found(scale: Any, shift: Any) -> Any:
            options = {"loss": loss, "f_scale": scale, "kwargs": {"shift": shift}}
            return fields(library.least_squares(fall, [1.0, 1.0], **options, **TIGHT))

        return found

    ours, scipys = with_library(optimize), with_library(scipy.optimize)
    by_scale, by_shift = fg.jacobian(ours, argnums=(0, 1))(0.2, 0.4)
    np.testing.assert_allclose(by_scale, differences(lambda s: scipys(s, 0.4), 0.2, 1e-3)[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(by_shift, differences(lambda s: scipys(0.2, s), 0.4, 1e-3)[0], rtol=1e-3, atol=1e-4)
    if loss == "linear":
        assert not np.any(by_scale)


def test_a_loss_that_depends_on_a_traced_value():
    def power(a: Any) -> Any:
        def loss(z: Any) -> Any:
            grown = 1 + z
            return np.stack([(grown**a - 1) / a, grown ** (a - 1), (a - 1) * grown ** (a - 2)])

        return loss

    def with_library(library: Any) -> Any:
        return lambda a: fields(library.least_squares(fall, [1.0, 1.0], loss=power(a), args=(0.4,), **TIGHT))

    first, second = differences(with_library(scipy.optimize), 0.4, 1e-3)
    by_a = fg.jacobian(with_library(optimize))
    np.testing.assert_allclose(by_a(0.4), first, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(fg.jacobian(by_a)(0.4), differences(by_a, 0.4, 1e-3)[0], rtol=1e-3, atol=1e-4)
    assert float(fg.jacobian(by_a)(0.4)[-1]) == pytest.approx(second[-1], rel=1e-3)
    batch = fg.vmap(with_library(optimize))(np.array([0.4, 0.8]))
    np.testing.assert_allclose(batch[1], with_library(optimize)(0.8), rtol=1e-9, atol=1e-12)

    def kept(z: Any) -> Any:
        rho = np.empty((3, z.size))
        rho[0], rho[1], rho[2] = saturating(z)
        return rho

    assert optimize.least_squares(fall, [1.0, 1.0], loss=kept, args=(0.4,)).success
    with pytest.raises(errors.ArrayConversionError, match="np.stack"):
        fg.grad(lambda shift: optimize.least_squares(fall, [1.0, 1.0], loss=kept, args=(shift,)).cost)(0.4)


def test_a_residual_of_zero_or_at_the_corner_of_a_loss():
    """Huber's loss at z = 0 and z = 1, where its second derivative jumps."""
    y = np.array([1.0, 1.2, 0.8])

    def cost(y: Any) -> Any:
        return optimize.least_squares(lambda m: m - y, [1.0], loss="huber", f_scale=0.2).cost

    np.testing.assert_allclose(fg.grad(cost)(y), [0, 0.2, -0.2], atol=1e-9)
    for loss in LOSSES:
        exact = fg.grad(lambda y, loss=loss: optimize.least_squares(lambda m: m - y, [0.5], loss=loss).cost)
        np.testing.assert_allclose(exact(np.ones(3)), np.zeros(3), atol=1e-7)


def test_data_in_single_precision_and_a_start_of_integers():
    y = SPOILED.astype(np.float32)

    def cost(y: Any) -> Any:
        return optimize.least_squares(lambda p: p[0] * np.exp(-p[1] * STEPS) - y, [1, 1], loss="cauchy").cost

    found = fg.grad(cost)(y)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, fg.grad(cost)(y.astype(float)), rtol=1e-4)


def test_unknown_losses_are_scipys_errors():
    for loss in ("cubic", None):
        with pytest.raises(ValueError, match="`loss` must be one of"):
            optimize.least_squares(fall, [1.0, 1.0], loss=loss, args=(0.4,))


def decaying(t: Any, height: Any, rate: Any) -> Any:
    return height * np.exp(-rate * t)


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 0.3), (2.5, 5.0), (0.0, 5.0)])
def test_a_fit_is_differentiated_by_its_bounds(lower, upper):
    def ours(lower: Any, upper: Any) -> Any:
        bounds = np.stack([0.0, lower]), np.stack([9.0, upper])
        found, covariance = optimize.curve_fit(decaying, STEPS, SPOILED, bounds=bounds, **TIGHT)
        return np.concatenate([found, np.reshape(covariance, -1)])

    def scipys(lower: Any, upper: Any) -> Any:
        bounds = [0.0, lower], [9.0, upper]
        found, covariance = scipy.optimize.curve_fit(decaying, STEPS, SPOILED, bounds=bounds, **TIGHT)
        return np.concatenate([found, np.reshape(covariance, -1)])

    np.testing.assert_allclose(ours(lower, upper), scipys(lower, upper), rtol=1e-5)
    by_lower, by_upper = fg.jacobian(ours, argnums=(0, 1))(lower, upper)
    np.testing.assert_allclose([by_lower[1], by_upper[1]], [lower == 2.5, upper == 0.3], atol=1e-6)
    # SciPy's own slopes leave eight digits of a fit: a smaller step would divide their rounding.
    expected = differences(lambda b: scipys(b, upper), lower, 1e-3)[0]
    np.testing.assert_allclose(by_lower, expected, rtol=1e-3, atol=1e-4)
    expected = differences(lambda b: scipys(lower, b), upper, 1e-3)[0]
    np.testing.assert_allclose(by_upper, expected, rtol=1e-3, atol=1e-4)
    batch = fg.vmap(lambda b: ours(lower, b))(np.array([upper, upper + 0.05]))
    np.testing.assert_allclose(batch, [ours(lower, upper), ours(lower, upper + 0.05)], rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_fit_with_a_loss(loss):
    """The parameters are those of the loss, and not of the sum of squares; so is the covariance."""

    def with_library(library: Any) -> Any:
        def found(shift: Any, scale: Any) -> Any:
            y = SPOILED + 0.1 * np.sin(shift * STEPS)
            options = {"loss": loss, "f_scale": scale, "method": "trf", **TIGHT}
            found, covariance = library.curve_fit(decaying, STEPS, y, **options)
            return np.concatenate([found, np.reshape(covariance, -1)])

        return found

    ours, scipys = with_library(optimize), with_library(scipy.optimize)
    np.testing.assert_allclose(ours(0.4, 0.2), scipys(0.4, 0.2), rtol=1e-5)
    by_shift, by_scale = fg.jacobian(ours, argnums=(0, 1))(0.4, 0.2)
    expected = differences(lambda shift: scipys(shift, 0.2), 0.4, 1e-3)[0]  # of eight digits, too
    np.testing.assert_allclose(by_shift, expected, rtol=1e-3, atol=1e-4)
    expected = differences(lambda scale: scipys(0.4, scale), 0.2, 1e-3)[0]
    np.testing.assert_allclose(by_scale, expected, rtol=1e-3, atol=1e-4)


def test_every_fit_of_a_batch_has_its_own_covariance_and_report():
    data = np.stack([SPOILED, SPOILED + 0.1 * np.cos(STEPS), SPOILED[::-1].copy()])
    reports = []

    def fit(y: Any) -> Any:
        found, covariance, *report = optimize.curve_fit(decaying, STEPS, y, full_output=True)
        reports.append(report)
        return found, covariance

    found, covariances = fg.vmap(fit)(data)
    infos, messages, flags = reports[0]
    for i, y in enumerate(data):
        alone, covariance, info, message, flag = optimize.curve_fit(decaying, STEPS, y, full_output=True)
        np.testing.assert_allclose(found[i], alone, rtol=1e-9)
        np.testing.assert_allclose(covariances[i], covariance, rtol=1e-7)
        np.testing.assert_allclose(infos["fjac"].value[i], info["fjac"])
        assert (infos["nfev"][i], messages[i], flags[i]) == (info["nfev"], message, flag)


def test_a_batch_with_a_covariance_that_cannot_be_estimated_raises():
    def fit(y: Any) -> Any:
        return optimize.curve_fit(lambda t, a, b: a + b * t, np.array([0.0, 1.0]), y)[1]

    with pytest.warns(scipy.optimize.OptimizeWarning), pytest.raises(errors.UnsupportedError, match="of one fit of a"):
        fg.vmap(fit)(np.array([[1.0, 2.0], [2.0, 3.0]]))


def test_the_gradient_of_a_minimum_at_a_bound_is_differentiated():
    """It is what the bound costs: 2 (limit - a)."""

    def slope(limit: Any) -> Any:
        return optimize.minimize(lambda x: np.sum((x - 3.0) ** 2), [0.1], bounds=[(0.0, limit)]).jac

    np.testing.assert_allclose(slope(1.0), [-4], atol=1e-7)
    np.testing.assert_allclose(fg.jacobian(slope)(1.0), [2])
    np.testing.assert_allclose(fg.vmap(slope)(np.array([1.0, 2.0])), [[-4], [-2]], atol=1e-7)
    in_container = fg.vmap(lambda a: optimize.minimize(lambda p: (p["x"] - a) ** 4 + a * p["x"], {"x": 0.0}).jac["x"])
    np.testing.assert_allclose(in_container(np.array([1.0, 2.0])), [0, 0], atol=1e-4)


def test_the_unit_of_a_function_does_not_matter_to_what_a_bound_holds_back():
    for unit in (1e-2, 1.0, 1e6):

        def found(limit: Any, unit: float = unit) -> Any:
            function = lambda x: unit * np.sum((x - np.array([3.0, 500.0])) ** 2)  # noqa: E731
            return optimize.minimize(function, [0.1, 499.0], bounds=[(0.0, limit), (0.0, 1000.0)]).x

        np.testing.assert_allclose(fg.jacobian(found)(1.0), [1, 0], atol=1e-6)


def test_minima_of_one_number_in_a_batch_have_their_own_values():
    def found(a: Any) -> Any:
        return optimize.minimize_scalar(lambda x: (x - a) ** 2 + a, bounds=(0.0, 5.0))

    np.testing.assert_allclose(fg.vmap(lambda a: found(a).fun)(np.array([1.0, 2.0])), [1, 2], atol=1e-7)
    reports = []
    fg.vmap(lambda a: reports.append(found(a)) or a)(np.array([1.0, 2.0]))
    assert reports[0].success
    assert len(reports[0].message) == 2
    assert reports[0].nfev == [found(1.0).nfev, found(2.0).nfev]


# Errors


def test_a_solver_that_has_not_converged_raises():
    def stopped(method: str, **options: Any) -> Any:
        def solved(a: Any) -> Any:
            def loss(x: Any) -> Any:
                return np.sum((x**2 - a) ** 2) + x[0] ** 4

            return optimize.minimize(loss, [9.0, -7.0], method=method, options=options).x

        return solved

    for method in ("BFGS", "trust-ncg", "L-BFGS-B"):
        with pytest.raises(errors.ConvergenceError, match="is not a solution: its residuals|did not solve the problem"):
            fg.jacobian(stopped(method, maxiter=1))(2.0)
        stops = optimize.minimize(lambda x: np.sum(x**4 - x), [9.0, -7.0], method=method, options={"maxiter": 1})
        assert not stops.success
    with pytest.raises(errors.ConvergenceError, match="is not a solution: its residuals|did not solve the problem"):
        fg.jacobian(lambda a: optimize.root(lambda x: np.exp(x) + a, [0.0]).x)(1.0)
    with pytest.raises(errors.ConvergenceError, match="is not a solution: its residuals|did not solve the problem"):
        fg.jacobian(lambda a: optimize.least_squares(lambda x: x**3 - a * np.ones(2), [50.0], max_nfev=2).x)(1.0)
    with pytest.raises(errors.ConvergenceError, match="is not a solution: its residuals|did not find the root"):
        fg.grad(lambda a: optimize.root_scalar(lambda x: x**3 - a, x0=90.0, maxiter=3).root)(8.0)
    with pytest.raises(RuntimeError, match="Failed to converge"):
        fg.grad(lambda a: optimize.brentq(lambda x: x**3 - a, 0, 10, maxiter=2))(8.0)


def test_a_flat_minimum_has_no_derivative():
    with pytest.raises(errors.SingularEquationError, match="has a singular Jacobian there"):
        fg.jacobian(lambda a: optimize.minimize(lambda x: (x[0] + x[1] - a) ** 2, [0.0, 0.0]).x)(1.0)


def test_wrong_calls_say_what_is_wrong():
    with pytest.raises(errors.NotCallableError, match="a solver takes a function, but got 3.0"):
        optimize.minimize(3.0, [1.0])
    with pytest.raises(errors.ShapeError, match="returns 1 numbers for a solution of 2"):
        fg.jacobian(fg.implicit_diff(lambda a: np.array([a, a]), lambda x, a: x[:1] - a))(1.0)
    with pytest.raises(errors.NotCallableError, match="takes `optimality`, a function that is zero"):
        fg.implicit_diff(lambda a: a)
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        optimize.minimize(lambda x: 1 / 0, [1.0])


# implicit_diff around anything


def square_root(a: Any) -> Any:
    """Return the root by Heron's method, in plain floats."""
    x = float(a)
    for _ in range(60):
        x = (x + float(a) / x) / 2
    return np.float64(x)


@pytest.mark.parametrize("matrix_free", [False, True])
def test_any_solver_is_differentiated_by_its_optimality(matrix_free):
    solver = fg.implicit_diff(square_root, lambda x, a: x**2 - a, matrix_free=matrix_free)
    check_grads(solver, (2.0,), order=2)
    assert float(fg.grad(fg.grad(solver))(4.0)) == pytest.approx(-1 / 32, rel=1e-10)
    np.testing.assert_allclose(fg.vmap(fg.grad(solver))(np.array([1.0, 4.0])), [0.5, 0.25])


def test_without_the_matrix_many_unknowns():
    """A chain of 300 springs: tridiagonal; products alone, against the dense solution."""
    n = 300
    second_differences = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1) + 0.5 * np.eye(n)

    def forces(x: Any, load: Any) -> Any:
        left = np.concatenate([np.zeros(1), x[:-1]])
        right = np.concatenate([x[1:], np.zeros(1)])
        return 2.5 * x - left - right + 0.01 * x**3 - load

    def solver(load: Any) -> Any:
        return scipy.optimize.root(forces, np.zeros(n), args=(load,), method="krylov", tol=1e-11).x

    load = np.sin(np.arange(n) / 20)
    weights = np.cos(np.arange(n))
    free = fg.implicit_diff(solver, forces, matrix_free=True)
    found = fg.grad(lambda load: np.sum(weights * free(load)))(load)
    jacobian = second_differences + np.diag(0.03 * solver(load) ** 2)
    np.testing.assert_allclose(found, np.linalg.solve(jacobian.T, weights), rtol=1e-7, atol=1e-9)


def test_a_decorator_with_keywords_and_closures():
    def loss(a: Any) -> Any:
        @fg.implicit_diff(optimality=lambda x, *, scale: x**3 - a * scale)
        def solve(*, scale: Any) -> Any:
            return scipy.optimize.brentq(lambda x: x**3 - a * scale, 0, 10)

        return solve(scale=a)

    assert float(fg.grad(loss)(8.0)) == pytest.approx(2 / 3 * 8 ** (-1 / 3), rel=1e-9)


def test_a_wrong_solution_raises():
    wrong = fg.implicit_diff(lambda a: np.float64(1.5), lambda x, a: x**2 - a)
    assert float(wrong(4.0)) == 1.5
    with pytest.raises(errors.ConvergenceError, match="Newton's method would change it by"):
        fg.grad(wrong)(4.0)
    with pytest.raises(errors.ConvergenceError, match="Newton's method would change it by"):
        fg.jvp(wrong, (4.0,), (1.0,))


def test_an_error_leaves_what_is_closed_over_as_it_was():
    def loss(a: Any) -> Any:
        def broken(x: Any) -> Any:
            if x > 1.5:
                raise KeyError("typo")
            return x - a

        with pytest.raises(KeyError, match="typo"):
            optimize.brentq(broken, 0.0, 2.0)
        return a * a

    assert float(fg.grad(loss)(1.0)) == 2


def test_threads_do_not_see_each_other():
    results: dict[int, float] = {}

    def work(number: int) -> None:
        a = float(number + 1)
        results[number] = float(fg.grad(lambda a: optimize.brentq(lambda x: x**3 - a, 0, 10))(a))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, slope in results.items():
        assert slope == pytest.approx((number + 1) ** (-2 / 3) / 3)


# A solver runs on values alone, but what it differentiates itself loses nothing in silence


def by_newton(equation):
    """Return a solver by Newton's method of a function of one number and parameters."""

    def solver(a):
        x = np.array(1.0)
        for _ in range(20):
            x = x - float(equation(x, a)) / float(fg.grad(equation)(x, a))
        return x

    return fg.implicit_diff(solver, equation)


def test_a_derivative_that_a_solver_takes_is_not_dropped_without_a_word():
    assert plain(fg.grad(by_newton(lambda x, a: x * x - a))(4.0)) == pytest.approx(0.25)

    def in_an_array(x, a):
        return np.array([x, x])[0] * x - a

    assert plain(by_newton(in_an_array)(4.0)) == pytest.approx(2.0)
    assert plain(fg.grad(by_newton(in_an_array))(4.0)) == pytest.approx(0.25)

    def dropping(x, a):
        return np.array([x, x], dtype=float)[0] * x - a

    with pytest.raises(errors.ArrayConversionError, match=r"np.array\(\[x, y\]\): write np.stack"):
        by_newton(dropping)(4.0)
    with pytest.raises(errors.ArrayConversionError, match=r"np.array\(\[x, y\]\): write np.stack"):
        fg.grad(by_newton(dropping))(4.0)


def test_a_solver_may_make_plain_arrays_of_what_others_differentiate():
    def solver(a):
        return np.linalg.solve(np.array([[a, 0.0], [0.0, 1.0]]), np.ones(2))

    solve = fg.implicit_diff(solver, lambda x, a: np.stack([a * x[0], x[1]]) - 1.0)
    assert plain(fg.jacobian(solve)(2.0)) == pytest.approx([-0.25, 0.0])
    assert plain(fg.jacobian(lambda b: solve(b * b))(2.0)) == pytest.approx([-0.25, 0.0])


@pytest.mark.parametrize(
    "solve",
    [
        lambda f: optimize.least_squares(f, [1.0, 1.0]),
        lambda f: optimize.minimize(lambda p: np.sum(f(p) ** 2), [1.0, 1.0]),
        lambda f: optimize.root(f, [1.0, 1.0]),
        lambda f: optimize.curve_fit(lambda x, *p: f(np.stack(p)) + x, np.zeros(2), np.zeros(2), [1.0, 1.0]),
    ],
    ids=["least_squares", "minimize", "root", "curve_fit"],
)
@pytest.mark.filterwarnings("ignore:Covariance of the parameters could not be estimated")
def test_a_solver_of_scipy_is_not_handed_half_a_derivative(solve):
    """If the Jacobian lacked the column of p[0], the solver would stop where it began."""

    def residuals(p):
        return np.array([p[0] - 3.0, 1.0]) * p[1] - 1.0

    found, expected = solve(residuals), solve(lambda p: np.stack([p[0] - 3.0, 1.0]) * p[1] - 1.0)
    if isinstance(found, tuple):
        np.testing.assert_allclose(found[0], [4.0, 1.0], rtol=1e-6)
    else:
        np.testing.assert_allclose(found.x, expected.x, rtol=1e-6)

    def dropping(p):
        return np.array([p[0] - 3.0, 1.0], dtype=float) * p[1] - 1.0

    with pytest.raises(errors.ArrayConversionError, match="its derivative would be lost"):
        solve(dropping)


# What is in a result besides the solution


def _powers(a: Any) -> Any:
    return optimize.brentq(lambda x: x**3 - a, 0.0, 9.0, full_output=True)


PARTS = {
    "the root of brentq": lambda library, a: library.brentq(lambda x: x**3 - a, 0.0, 9.0, full_output=True)[1].root,
    "the root of newton": lambda library, a: (
        library.newton(lambda x: x**3 - a, 1.5, tol=1e-13, full_output=True)[1].root
    ),
    "the root of root_scalar": lambda library, a: (
        library.root_scalar(lambda x: x**3 - a, bracket=(0.0, 9.0), xtol=1e-13).root
    ),
    "fun of root": lambda library, a: library.root(lambda x: x**3 - a * x, [1.0], tol=1e-13).fun,
    "jac of least_squares": lambda library, a: (
        library.least_squares(lambda p: np.exp(-p * STEPS) - a * np.cos(STEPS), [0.5], gtol=1e-13, xtol=1e-13).jac
    ),
    "grad of least_squares": lambda library, a: (
        library.least_squares(
            lambda p: p[0] * STEPS - a * np.cos(STEPS), [0.5], bounds=([0.4], [2.0]), gtol=1e-13, xtol=1e-13
        ).grad
    ),
    "jac of a robust fit": lambda library, a: (
        library.least_squares(
            lambda p: p[0] * STEPS - a * STEPS**2, [0.5], loss="soft_l1", gtol=1e-13, xtol=1e-13, ftol=1e-15
        ).jac
    ),
    "jac of minimize": lambda library, a: (
        library.minimize(
            lambda x: np.sum((x - a) ** 2) + x[0] ** 4, [0.9, 0.5], bounds=[(0.9, 1.0), (0.0, 3.0)], tol=1e-12
        ).jac
    ),
    "fvec of curve_fit": lambda library, a: library.curve_fit(
        lambda t, p: np.exp(-p * t), STEPS, a * np.cos(STEPS), [0.5], full_output=True, ftol=1e-14, xtol=1e-14
    )[2]["fvec"],
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_parts_of_a_result_are_differentiated_and_batched(part):
    """Against differences of SciPy's own, and example by example."""
    # Where SciPy itself takes differences, eight digits are left, and a smaller step would divide their rounding.
    expected = differences(lambda a: np.ravel(part(scipy.optimize, a)), 1.7, 1e-3)[0]
    for derivative in (fg.jacrev, fg.jacfwd):
        np.testing.assert_allclose(
            np.ravel(derivative(lambda a: part(optimize, a))(1.7)), expected, rtol=2e-3, atol=2e-4
        )
    several = np.array([1.5, 1.7, 2.1])
    alone = [part(optimize, a) for a in several]
    # A fit ends where the sum of squares stays the same to the last digit, so that half of the digits are known.
    np.testing.assert_allclose(fg.vmap(lambda a: part(optimize, a))(several), np.stack(alone), rtol=1e-6, atol=1e-6)
    slopes = fg.vmap(fg.jacfwd(lambda a: part(optimize, a)))(several)
    loop = np.stack([fg.jacfwd(lambda a: part(optimize, a))(a) for a in several])
    np.testing.assert_allclose(slopes, loop, rtol=1e-6, atol=1e-6)


def test_the_hessian_at_the_minimum_is_differentiated():
    def hess(a: Any) -> Any:
        return optimize.minimize(lambda x: np.sum((x - a) ** 2) + x[0] ** 4, [0.9, 0.5], method="trust-exact").hess

    x, step = optimize.brentq(lambda x: 2 * (x - 1.7) + 4 * x**3, 0.0, 2.0), 1e-6
    moved = optimize.brentq(lambda x: 2 * (x - 1.7 - step) + 4 * x**3, 0.0, 2.0)
    np.testing.assert_allclose(fg.jacobian(hess)(1.7), [[12 * (moved**2 - x**2) / step, 0], [0, 0]], rtol=1e-4)


ASIDE = {
    "hess_inv of minimize": lambda a: optimize.minimize(lambda x: np.sum((x - a) ** 2), [0.1, 0.2]).hess_inv,
    "hess_inv of L-BFGS-B": lambda a: (
        optimize.minimize(lambda x: np.sum((x - a) ** 2), [0.1, 0.2], method="L-BFGS-B").hess_inv
    ),
    "fjac of root": lambda a: optimize.root(lambda x: x**3 - a, [1.0]).fjac,
    "optimality of least_squares": lambda a: optimize.least_squares(lambda x: x - a, [1.0]).optimality,
    "fjac of curve_fit": lambda a: optimize.curve_fit(
        lambda t, p: np.exp(-p * t), STEPS, a * np.cos(STEPS), [0.5], full_output=True
    )[2]["fjac"],
}


@pytest.mark.parametrize("part", ASIDE.values(), ids=ASIDE)
def test_what_has_no_derivative_in_a_result_is_no_silent_constant(part):
    """It can be looked at, and raises where it meets a tensor, or anything else that would make a result of it."""
    refused = pytest.raises(errors.UnsupportedError, match=r"is not differentiated(.|\n)*at test_scipy_optimize\.py")
    for use in (lambda a, x: a * x, lambda a, x: x + a, lambda a, x: np.sum(x) * a, lambda a, x: a * np.asarray(x)):
        for derivative in (fg.grad, fg.jacfwd):
            with refused:
                derivative(lambda a, use=use: use(a, part(a)))(1.7)
        with refused:
            fg.vmap(lambda a, use=use: use(a, part(a)))(np.array([1.5, 1.7]))
    with pytest.raises(errors.OutputError, match="which is not differentiated"):
        fg.jacobian(part)(1.7)
    seen: list[Any] = []
    fg.grad(lambda a: seen.append(part(a)) or a)(1.7)
    plainly = part(1.7)
    if isinstance(plainly, (float, np.ndarray)):
        np.testing.assert_array_equal(seen[0].value, plainly)
    assert "which is not differentiated" in repr(seen[0])


def test_a_report_counts_as_scipys_does():
    reports: list[Any] = []
    fg.grad(lambda a: reports.append(_powers(a)[1]) or _powers(a)[0])(8.0)
    fg.vmap(lambda a: reports.append(_powers(a)[1]) or a)(np.array([1.0, 8.0]))
    scipys = [scipy.optimize.brentq(lambda x, a=a: x**3 - a, 0.0, 9.0, full_output=True)[1] for a in (1.0, 8.0)]
    assert (reports[0].function_calls, reports[0].flag) == (scipys[1].function_calls, "converged")
    assert reports[1].converged is True
    assert reports[1].iterations == [each.iterations for each in scipys]
    plainly = _powers(8.0)[1]
    assert type(plainly.root) is not fg.Tensor
    assert plainly.converged


def roots_by_newton(a, **options):
    return optimize.newton(lambda x, a: x**2 - a, np.ones(np.shape(a)), args=(a,), **options)


@pytest.mark.parametrize("options", [{}, {"fprime": lambda x, a: 2.0 * x}, {"x1": np.full(2, 1.5)}, {"compile": True}])
def test_newton_finds_an_array_of_roots(options):
    a = np.array([2.0, 9.0])
    np.testing.assert_allclose(roots_by_newton(a, **options), np.sqrt(a))
    slopes = fg.jacobian(lambda a: roots_by_newton(a, **options))(a)
    np.testing.assert_allclose(slopes, np.diag(0.5 / np.sqrt(a)), rtol=1e-6, atol=1e-12)


def test_newton_with_an_array_is_differentiated_twice_batched_and_checked():
    a = np.array([2.0, 9.0])
    hessian = fg.hessian(lambda a: np.sum(roots_by_newton(a)))(a)
    np.testing.assert_allclose(hessian, np.diag(-0.25 * a**-1.5), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(fg.vmap(roots_by_newton)(np.stack([a, 2.0 * a])), np.sqrt([a, 2.0 * a]))
    report = roots_by_newton(a, full_output=True)
    assert report._fields == ("root", "converged", "zero_der")
    assert report.converged.all()
    with pytest.raises(errors.ShapeError, match="one number for each unknown"):
        optimize.newton(lambda x: x[:1] ** 2 - 2.0, np.ones(2))
    with pytest.raises(errors.SingularEquationError), pytest.warns(RuntimeWarning):
        fg.grad(lambda a: np.sum(roots_by_newton(-a)))(np.ones(2))


@pytest.mark.parametrize("method", ["BFGS", "Nelder-Mead", "trust-constr", "Newton-CG"])
def test_the_minimum_is_a_number_of_numpy(method):
    found = optimize.minimize(lambda x: np.sum((x - 1) ** 2), np.zeros(2), method=method)
    assert type(found.fun) is np.float64


def _overwriting(function, before):
    """Return a function of `x` and further arguments that writes into `x`, before or after its value is computed."""

    def overwritten(x, *args):
        if before:
            x *= 2.0
        value = function(x, *args)
        x[0] = 9.0
        return value

    return overwritten


def _distance(x, p):
    return np.sum((x - p) ** 2) + 0.1 * np.sum(x**4)


def _residuals(x, p):
    return np.stack([x[0] ** 2 - p, x[1] - p * x[0]])


X0 = np.array([0.5, 1.5])
OF_OVERWRITING = {
    "minimize": lambda f, p, **options: optimize.minimize(f[0], X0, (p,), **options).x,
    "minimize, jac=False": lambda f, p, **options: optimize.minimize(f[0], X0, (p,), jac=False, **options).x,
    "with constraints": lambda f, p, **options: (
        optimize.minimize(lambda x, p: _distance(x, p), X0, (p,), constraints={"type": "eq", "fun": f[2]}, **options).x
    ),
    "basinhopping": lambda f, p: optimize.basinhopping(lambda x: f[0](x, p), X0, 2, rng=0).x,
    "root": lambda f, p, **options: optimize.root(f[1], X0, (p,), **options).x,
    "fsolve": lambda f, p, **options: optimize.fsolve(f[1], X0, (p,), **options),
    "least_squares": lambda f, p, **options: optimize.least_squares(f[1], X0, args=(p,), **options).x,
    "newton": lambda f, p, **options: optimize.newton(f[3], X0, args=(p,), **options),
    "fixed_point": lambda f, p, **options: optimize.fixed_point(f[4], X0, (p,), **options),
}


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("solver", OF_OVERWRITING)
def test_functions_may_write_into_their_unknowns(solver, before):
    kinds = _distance, _residuals, lambda x: x[0] - 0.75 * x[1], lambda x, p: x**2 - p, lambda x, p: np.cos(x) / p
    own = [_overwriting(each, before) for each in kinds]
    factor = 2.0 if before else 1.0
    same = [lambda x, *args, each=each: each(factor * x, *args) for each in kinds]
    solve, start = OF_OVERWRITING[solver], X0.copy()
    for options in ({}, {"compile": True}) if solver != "basinhopping" else ({},):
        np.testing.assert_allclose(solve(own, 2.0, **options), solve(same, 2.0), rtol=1e-6, atol=1e-7)
        found = fg.value_and_grad(lambda p, o=options: np.sum(solve(own, p, **o)))(2.0)
        np.testing.assert_allclose(
            found, fg.value_and_grad(lambda p: np.sum(solve(same, p)))(2.0), rtol=1e-4, atol=1e-6
        )
    np.testing.assert_array_equal(X0, start)
