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


@pytest.mark.filterwarnings("ignore:Method .* does not use")
@pytest.mark.parametrize("row", with_calls([row for row in ROWS if row.calls]))
def test_solutions_are_differentiated(row):
    check_calls(row)


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

    check_grads(center, (y,), order=1)  # SciPy's solution is too coarse for second differences


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
    x0 = np.array([-1.2, 1.0, 0.8])
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


# Errors


def test_a_solver_that_has_not_converged_raises():
    def stopped(method: str, **options: Any) -> Any:
        def solved(a: Any) -> Any:
            def loss(x: Any) -> Any:
                return np.sum((x**2 - a) ** 2) + x[0] ** 4

            return optimize.minimize(loss, [9.0, -7.0], method=method, options=options).x

        return solved

    for method in ("BFGS", "trust-ncg", "L-BFGS-B"):
        with pytest.raises(errors.ConvergenceError, match="is none: its residuals|has not solved the problem"):
            fg.jacobian(stopped(method, maxiter=1))(2.0)
        stops = optimize.minimize(lambda x: np.sum(x**4 - x), [9.0, -7.0], method=method, options={"maxiter": 1})
        assert not stops.success
    with pytest.raises(errors.ConvergenceError, match="is none: its residuals|has not solved the problem"):
        fg.jacobian(lambda a: optimize.root(lambda x: np.exp(x) + a, [0.0]).x)(1.0)
    with pytest.raises(errors.ConvergenceError, match="is none: its residuals|has not solved the problem"):
        fg.jacobian(lambda a: optimize.least_squares(lambda x: x**3 - a * np.ones(2), [50.0], max_nfev=2).x)(1.0)
    with pytest.raises(errors.ConvergenceError, match="is none: its residuals|has not found the root"):
        fg.grad(lambda a: optimize.root_scalar(lambda x: x**3 - a, x0=90.0, maxiter=3).root)(8.0)
    with pytest.raises(RuntimeError, match="Failed to converge"):
        fg.grad(lambda a: optimize.brentq(lambda x: x**3 - a, 0, 10, maxiter=2))(8.0)


def test_a_flat_minimum_has_no_derivative():
    with pytest.raises(errors.SingularEquationError, match="has a singular Jacobian there"):
        fg.jacobian(lambda a: optimize.minimize(lambda x: (x[0] + x[1] - a) ** 2, [0.0, 0.0]).x)(1.0)


def test_wrong_calls_say_what_is_wrong():
    with pytest.raises(errors.NotCallableError, match="a solver takes a function, and got 3.0"):
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

    def dropping(x, a):
        return np.array([x, x])[0] * x - a

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
def test_a_solver_of_scipy_is_not_handed_half_a_derivative(solve):
    """Without the error the Jacobian would lack the column of p[0], and the solver stop where it began."""

    def residuals(p):
        return np.array([p[0] - 3.0, 1.0]) * p[1] - 1.0

    with pytest.raises(errors.ArrayConversionError, match="its derivative would be lost"):
        solve(residuals)
