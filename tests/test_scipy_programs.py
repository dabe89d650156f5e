"""Linear programs, least squares under bounds, and minima that are looked for everywhere."""

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from derivatives import check_derivatives

import fgrad as fg
from fgrad import errors
from fgrad.scipy import optimize

C = np.array([-3.0, -5.0, 1.0])
A_UB, B_UB = np.array([[1.0, 2.0, 0.5], [3.0, 1.0, -1.0]]), np.array([40.0, 60.0])
A_EQ, B_EQ = np.array([[1.0, 1.0, 4.0]]), np.array([33.0])


def program(c: Any, a: Any, b: Any, e: Any, d: Any, limit: Any = 1.5, library: Any = optimize) -> Any:
    return library.linprog(c, a, b, e, d, bounds=[(0, None), (0, None), (0, limit)])


def test_linear_programs_by_everything_in_them():
    """Two of three unknowns are at bounds or inequalities, and one follows from the equation."""
    point = C, A_UB, B_UB, A_EQ, B_EQ
    found, scipys = program(*point), program(*point, library=scipy.optimize)
    np.testing.assert_array_equal(found.x, scipys.x)
    assert type(found.x) is np.ndarray
    for part in (lambda f: f.x, lambda f: f.fun):
        f = lambda c, a, b, e, d, limit, part=part: part(program(c, a, b, e, d, limit))  # noqa: E731
        check_derivatives(f, (*point, np.array(1.5)), order=2)
    np.testing.assert_allclose(fg.grad(lambda c: program(c, *point[1:]).fun)(C), scipys.x, atol=1e-12)
    several = np.stack([B_UB, 1.05 * B_UB])
    batch = fg.vmap(lambda b: program(C, A_UB, b, A_EQ, B_EQ).x)(several)
    np.testing.assert_allclose(batch, [program(C, A_UB, b, A_EQ, B_EQ).x for b in several], atol=1e-12)


def test_marginals_are_slopes_of_the_least_value():
    def value(b: Any, d: Any, limit: Any) -> Any:
        return program(C, A_UB, b, A_EQ, d, limit)

    point, scipys = (B_UB, B_EQ, 1.5), program(C, A_UB, B_UB, A_EQ, B_EQ, library=scipy.optimize)
    by_b, by_d, by_limit = fg.grad(lambda *p: value(*p).fun, argnums=(0, 1, 2))(*point)
    for name, slope in (("ineqlin", by_b), ("eqlin", by_d), ("upper", np.append(np.zeros(2), by_limit))):
        np.testing.assert_allclose(scipys[name].marginals, slope, atol=1e-10)
    traced: list[Any] = []
    fg.grad(lambda b: traced.append(value(b, B_EQ, 1.5)) or np.sum(b))(B_UB)
    for name in ("ineqlin", "eqlin", "lower", "upper"):
        for part in ("residual", "marginals"):
            np.testing.assert_allclose(traced[0][name][part].value, scipys[name][part], atol=1e-9)
    np.testing.assert_allclose(traced[0].slack.value, scipys.slack, atol=1e-9)
    np.testing.assert_allclose(traced[0].con.value, scipys.con, atol=1e-9)
    of_costs = fg.jacobian(lambda c: program(c, A_UB, B_UB, A_EQ, B_EQ).ineqlin.marginals)(C)
    assert np.any(of_costs != 0)
    with pytest.raises(errors.UnsupportedError, match="mip_gap of linprog is not differentiated"):
        fg.grad(lambda b: np.sum(b) * value(b, B_EQ, 1.5).mip_gap)(B_UB)


@pytest.mark.parametrize(
    "bounds", [(0, 4), [(0, 4)], [(0, 4), (0, 4)], [(None, 4.0), (0.0, None)], np.array([[0.0, 4.0], [0.0, 9.0]]), None]
)
def test_forms_of_a_linear_program(bounds):
    """Lists, sparse matrices, one side alone."""
    sides = [[1.0, 1.0]], [5.0]
    scipys = scipy.optimize.linprog([-2.0, -1.0], *sides, bounds=bounds)
    for matrix in (sides[0], scipy.sparse.csr_array(sides[0])):
        value, slope = fg.jvp(
            lambda b, m=matrix: optimize.linprog([-2.0, -1.0], m, b, bounds=bounds).x, (sides[1],), ([1.0],)
        )
        np.testing.assert_allclose(value, scipys.x)
        np.testing.assert_allclose(np.sum(slope), 1.0)
    equal = optimize.linprog(fg.constant([2.0, 1.0]), A_eq=sides[0], b_eq=sides[1])
    assert type(equal.x) is fg.Tensor


def test_linear_programs_without_a_derivative():
    def corner(b: Any) -> Any:
        return optimize.linprog([-1.0, -1.0], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], b).x

    np.testing.assert_allclose(fg.jacobian(corner)(np.array([1.0, 2.0, 4.0]))[:, :2], np.eye(2), atol=1e-12)
    with pytest.raises(errors.SingularEquationError, match=r"of linprog are redundant \(A_ub"):
        fg.jacobian(corner)(np.array([1.0, 2.0, 3.0]))
    several = pytest.warns(errors.WeaklyActiveWarning, match="linprog lies on bounds with a zero multiplier")
    with several, pytest.raises(errors.SingularEquationError):
        fg.jacobian(lambda b: optimize.linprog([-1.0, -1.0], [[1.0, 1.0]], b).x)(np.array([1.0]))
    with pytest.raises(
        errors.ConvergenceError, match="SciPy did not solve the problem of linprog: The problem is infeas"
    ):
        fg.jacobian(lambda b: optimize.linprog([1.0], [[1.0]], b).x)(np.array([-1.0]))
    assert optimize.linprog([1.0], [[1.0]], [-1.0]).status == 2
    with pytest.raises(errors.UnsupportedError, match="an integer solution is piecewise constant"):
        fg.jacobian(lambda b: optimize.linprog([-1.0], [[1.0]], b, integrality=1).x)(np.array([1.5]))


def test_least_squares_within_bounds():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(6, 3)), rng.normal(size=6)
    x, norm = optimize.nnls(a, b)
    assert 0 < np.count_nonzero(x) < 3
    np.testing.assert_array_equal(x, scipy.optimize.nnls(a, b)[0])
    check_derivatives(lambda a, b: optimize.nnls(a, b), (a, b))
    used = x > 0
    np.testing.assert_allclose(
        fg.jacobian(lambda b: optimize.nnls(a, b)[0])(b)[used], np.linalg.pinv(a[:, used]), atol=1e-10
    )
    batch = fg.vmap(lambda b: optimize.nnls(a, b)[1])(np.stack([b, -b]))
    np.testing.assert_allclose(batch, [norm, optimize.nnls(a, -b)[1]])

    def bounded(a: Any, b: Any, high: Any, method: str = "bvls") -> Any:
        return optimize.lsq_linear(a, b, (-0.2, high), method)

    high = np.array([0.1, 0.3, 0.4])
    found, scipys = bounded(a, b, high), scipy.optimize.lsq_linear(a, b, (-0.2, high), "bvls")
    assert 0 < np.count_nonzero(scipys.active_mask) < 3
    np.testing.assert_array_equal(found.x, scipys.x)
    check_derivatives(lambda a, b, high: [bounded(a, b, high)[name] for name in ("x", "cost", "fun")], (a, b, high))
    expected = fg.jacobian(lambda b: bounded(a, b, high).x)(b)
    np.testing.assert_allclose(fg.jacobian(lambda b: bounded(a, b, high, "trf").x)(b), expected, atol=1e-6)
    by_sparse = fg.jacobian(lambda b: bounded(scipy.sparse.csr_array(a), b, high, "trf").x)(b)
    np.testing.assert_allclose(by_sparse, expected, atol=1e-6)
    with pytest.raises(errors.UnsupportedError, match="optimality of lsq_linear is not differentiated"):
        fg.grad(lambda b: np.sum(b) * bounded(a, b, high).optimality)(b)
    with pytest.warns(errors.WeaklyActiveWarning), pytest.raises(errors.SingularEquationError):
        fg.jacobian(lambda b: optimize.nnls(np.ones((3, 2)), b)[0])(np.ones(3))


# Everywhere


def valleys(x: Any, a: Any) -> Any:
    """Two valleys, of which that at a is the deeper one."""
    return np.sum((x**2 - a**2) ** 2) + 0.3 * np.sum((x - a) ** 2)


SEARCHES = {
    "differential_evolution": lambda f, **o: optimize.differential_evolution(
        f, [(-3.0, 3.0)] * 2, rng=0, popsize=8, tol=1e-3, **o
    ),
    "dual_annealing": lambda f, **o: optimize.dual_annealing(
        f, scipy.optimize.Bounds([-3.0] * 2, 3.0), rng=0, maxiter=20, **o
    ),
    "shgo": lambda f, **o: optimize.shgo(f, [(-3.0, 3.0)] * 2, **o),
    "basinhopping": lambda f, **o: optimize.basinhopping(f, [-2.0, -1.0], niter=15, stepsize=2.0, rng=0, **o),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_minima_that_are_looked_for_everywhere(search):
    at = np.array([1.2, -0.7])

    def found(a: Any) -> Any:
        return search(lambda x: valleys(x, a))

    value, pullback = fg.vjp(lambda a: found(a).x, at)
    np.testing.assert_allclose(value, at, atol=1e-5)
    np.testing.assert_allclose([pullback(each)[0] for each in np.eye(2)], np.eye(2), atol=1e-4)
    np.testing.assert_allclose(fg.jvp(lambda a: search(valleys, args=(a,)).x, (at,), (at,))[1], at, atol=1e-4)
    shifted = lambda a: search(lambda x: valleys(x, a) + np.sum(a**2)).fun  # noqa: E731
    np.testing.assert_allclose(fg.hessian(shifted)(at), 2 * np.eye(2), atol=1e-3)
    plain = search(lambda x: float(np.sum((x - 1.0) ** 2)))
    assert type(plain.x) is np.ndarray
    np.testing.assert_allclose(plain.x, 1.0, atol=1e-5)


@pytest.mark.filterwarnings("ignore:delta_grad == 0.0")
def test_everywhere_in_a_batch_within_bounds_and_under_constraints():
    def at_bound(a: Any, high: Any) -> Any:
        return optimize.differential_evolution(lambda x: (x[0] - a) ** 2, [(0.0, high)], rng=0).x[0]

    np.testing.assert_allclose(fg.grad(at_bound, argnums=(0, 1))(3.0, 2.0), [0.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(fg.vmap(at_bound)(np.array([1.0, 3.0]), np.array([2.0, 2.0])), [1.0, 2.0], atol=1e-6)

    def on_ball(a: Any) -> Any:
        ball = optimize.NonlinearConstraint(lambda x: x @ x, -np.inf, a)
        return optimize.differential_evolution(
            lambda x: x[0] + x[1], [(-3, 3)] * 2, constraints=ball, rng=0, tol=1e-10
        ).x

    np.testing.assert_allclose(fg.jacobian(on_ball)(2.0), [-0.25, -0.25], atol=1e-3)
    inside = {"type": "ineq", "fun": lambda x: 1.0 - x[0]}
    by_shgo = fg.grad(lambda a: optimize.shgo(lambda x: (x[0] - a) ** 2, [(-3.0, 3.0)], constraints=inside).x[0])
    assert float(by_shgo(2.0)) == pytest.approx(0, abs=1e-6)
    assert float(by_shgo(0.5)) == pytest.approx(1, abs=1e-4)
    with pytest.raises(errors.ParameterError, match="omit `vectorized`"):
        optimize.differential_evolution(lambda x: x[0] ** 2, [(0.0, 1.0)], vectorized=True)
    with pytest.raises(errors.UnsupportedError, match="population of differential_evolution is not differentiated"):
        fg.grad(
            lambda a: optimize.differential_evolution(lambda x: (x[0] - a) ** 2, [(0.0, 1.0)], rng=0).population * a
        )(0.5)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("fmin_bfgs", r'minimize\(f, x0, method="BFGS"\)\.x'),
        ("fminbound", r"minimize_scalar\(f, bounds="),
        ("leastsq", r'least_squares\(f, x0, method="lm"\)'),
        ("broyden1", r"root\(f, x0, method='broyden1'\)"),
        ("milp", r"linprog with equal bounds for the integers"),
        ("approx_fprime", r"fg\.grad\(f\)\(x\), which is exact"),
    ],
)
def test_names_that_are_not_there_say_what_to_write(name, instead):
    with pytest.raises(
        errors.MissingNameError, match=rf"scipy\.optimize\.{name} has no derivative in fgrad(.|\n)*Instead: .*{instead}"
    ):
        getattr(optimize, name)


# Choices


def test_pairs_of_least_cost():
    rng = np.random.default_rng(4)
    cost = rng.normal(size=(4, 3))
    rows, columns = scipy.optimize.linear_sum_assignment(cost)
    for ours, scipys in zip(optimize.linear_sum_assignment(cost), (rows, columns), strict=True):
        np.testing.assert_array_equal(ours, scipys)
        assert type(ours) is np.ndarray
    expected = np.zeros((4, 3))
    expected[rows, columns] = 2 * cost[rows, columns]

    def least(cost: Any, maximize: bool = False) -> Any:
        return np.sum(cost[optimize.linear_sum_assignment(cost, maximize)] ** 2)

    np.testing.assert_allclose(fg.grad(least)(cost), expected)
    several = np.stack([cost, rng.normal(size=(4, 3))])
    np.testing.assert_allclose(fg.vmap(fg.grad(least))(several), [fg.grad(least)(each) for each in several])
    of_all = fg.grad(lambda several: np.sum(fg.vmap(least)(several)))(several)
    np.testing.assert_allclose(of_all[0], expected)
    assert float(least(cost, True)) != float(least(cost))
    with pytest.raises(errors.ConcretizationError, match="linear_sum_assignment needs a value"):
        fg.trace(least)(cost)


@pytest.mark.parametrize("increasing", [True, False])
def test_monotonic_fits(increasing):
    rng = np.random.default_rng(1)
    y, weights = rng.normal(size=8), rng.uniform(0.5, 2.0, 8)

    def fitted(y: Any, weights: Any = None) -> Any:
        return optimize.isotonic_regression(y, weights=weights, increasing=increasing)

    scipys = scipy.optimize.isotonic_regression(y, weights=weights, increasing=increasing)
    assert 1 < len(scipys.weights) < 8
    np.testing.assert_array_equal(fitted(y, weights).x, scipys.x)
    check_derivatives(lambda y, w: fitted(y, w).x, (y, weights))
    check_derivatives(lambda y: fitted(y).x, (y,))
    several = np.stack([y, y[::-1], np.arange(8.0)])
    np.testing.assert_allclose(
        fg.vmap(lambda y: fitted(y, weights).x)(several), [fitted(y, weights).x for y in several]
    )
    slopes = fg.vmap(fg.jacobian(lambda y: fitted(y, weights).x))(several)
    np.testing.assert_allclose(slopes, [fg.jacobian(lambda y: fitted(y, weights).x)(y) for y in several])
    reports: list[Any] = []
    fg.grad(lambda y: reports.append(fitted(y, weights)) or np.sum(y))(y)
    np.testing.assert_array_equal(reports[0].blocks, scipys.blocks)
    assert type(fitted(fg.constant(y)).x) is fg.Tensor
    with pytest.raises(ValueError, match="one dimension of equal length"):
        fitted(fg.constant(y), weights[:2])
