"""`fgrad.scipy.integrate.solve_bvp`: derivatives of solutions of boundary value problems, against closed forms."""

from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import fgrad as fg
from fgrad import errors
from fgrad.scipy.integrate import solve_bvp

MESH = np.linspace(0.0, 1.0, 5)


def at_zero(ya: Any, yb: Any) -> Any:
    return np.stack([ya[0], yb[0]])


def bratu(a: Any, library: Any = None, tol: float = 1e-8, **options: Any) -> Any:
    """y'' = -a exp(y) with y = 0 at both ends."""
    solve = solve_bvp if library is None else library.solve_bvp
    return solve(lambda x, y: np.stack([y[1], -a * np.exp(y[0])]), at_zero, MESH, np.zeros((2, 5)), tol=tol, **options)


def steepness(a: float) -> float:
    """Return the first slope in closed form: theta tanh(theta / 4) with theta = sqrt(2 a) cosh(theta / 4)."""
    theta = scipy.optimize.brentq(lambda t: t - np.sqrt(2 * a) * np.cosh(t / 4), 0.0, 4.0, xtol=1e-15)
    return float(theta * np.tanh(theta / 4))


def difference(f: Any, a: float, step: float = 1e-4) -> Any:
    return (f(a + step) - f(a - step)) / (2 * step)


def test_first_and_second_derivatives_of_a_nonlinear_problem():
    first = lambda a: bratu(a).y[1, 0]  # noqa: E731
    assert float(first(1.3)) == pytest.approx(steepness(1.3), rel=1e-8)
    expected = difference(steepness, 1.3)
    assert float(fg.grad(first)(1.3)) == pytest.approx(expected, rel=1e-6)
    assert float(fg.jacfwd(first)(1.3)) == pytest.approx(expected, rel=1e-6)
    second = difference(lambda a: difference(steepness, a), 1.3, 1e-3)
    for derivative in (fg.grad(fg.grad(first)), fg.jacfwd(fg.grad(first)), fg.grad(fg.jacfwd(first))):
        assert float(derivative(1.3)) == pytest.approx(second, rel=1e-5)


def test_every_part_of_the_result():
    def parts(a: Any, library: Any = None) -> Any:
        found = bratu(a, library)
        return found.y, found.yp, found.sol(np.array([0.1, 0.55])), found.sol(0.3)

    scipys = bratu(1.0, scipy.integrate)
    value, tangent = fg.jvp(parts, (1.0,), (1.0,))
    for ours, expected in zip(value, parts(1.0, scipy.integrate), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)
    for ours, above, below in zip(tangent, parts(1.0 + 1e-6), parts(1.0 - 1e-6), strict=True):
        np.testing.assert_allclose(ours, (above - below) / 2e-6, rtol=1e-5, atol=1e-6)
    reports: list[Any] = []
    fg.grad(lambda a: reports.append(bratu(a)) or a)(1.0)
    assert (reports[0].success, reports[0].niter, reports[0].status) == (True, scipys.niter, 0)
    np.testing.assert_array_equal(reports[0].rms_residuals.value, scipys.rms_residuals)
    with pytest.raises(errors.UnsupportedError, match="rms_residuals of solve_bvp is not differentiated"):
        fg.grad(lambda a: np.sum(bratu(a).rms_residuals))(1.0)


def test_where_nothing_is_traced_it_is_scipys_function():
    ours, scipys = bratu(1.0), bratu(1.0, scipy.integrate)
    assert type(ours.y) is np.ndarray
    np.testing.assert_array_equal(ours.y, scipys.y)
    np.testing.assert_array_equal(ours.sol(0.3), scipys.sol(0.3))
    assert type(ours.sol(0.3)) is np.ndarray
    assert ours.p is None
    assert float(fg.grad(lambda x: ours.sol(x)[0])(0.3)) == pytest.approx(scipys.sol(0.3)[1], rel=1e-6)
    on_tensors = solve_bvp(lambda x, y: np.stack([y[1], 0 * y[0]]), at_zero, fg.constant(MESH), np.zeros((2, 5)))
    assert type(on_tensors.y) is fg.Tensor


def eigenvalue(length: Any, guess: Any = 3.0) -> Any:
    """The k of y'' = -k^2 y, y(0) = y(length) = 0: it is pi / length."""

    def conditions(ya: Any, yb: Any, p: Any) -> Any:
        return np.stack([ya[0], yb[0], ya[1] - p[0]])

    guessed = np.stack([np.sin(np.pi * MESH), np.pi * np.cos(np.pi * MESH)])
    p = np.stack([guess])
    slopes = lambda x, y, p: np.stack([y[1], -(p[0] ** 2) * y[0]])  # noqa: E731
    return solve_bvp(slopes, conditions, MESH * length, guessed, p, tol=1e-7)


def test_parameters_and_the_end_of_the_interval():
    k = lambda length: eigenvalue(length).p[0]  # noqa: E731
    assert float(fg.grad(k)(2.0)) == pytest.approx(-np.pi / 4, rel=1e-7)
    assert float(fg.grad(fg.grad(k))(2.0)) == pytest.approx(np.pi / 4, rel=1e-6)
    middle = lambda length: eigenvalue(length).sol(1.0)[0]  # noqa: E731  # sin(pi / length)
    assert float(fg.grad(middle)(2.0)) == pytest.approx(0, abs=1e-6)
    assert float(fg.grad(middle)(1.5)) == pytest.approx(-np.pi / 1.5**2 * np.cos(np.pi / 1.5), rel=1e-5)
    np.testing.assert_allclose(fg.jacobian(lambda length: eigenvalue(length).x[-1])(2.0), 1.0)
    assert float(fg.grad(lambda guess: eigenvalue(2.0, guess).p[0])(3.0)) == 0


def test_boundary_conditions_and_variables():
    """A straight line from a to b."""
    left, right = fg.Variable(2.0, name="left"), fg.Variable(5.0, name="right")

    def line(x: Any) -> Any:
        found = solve_bvp(
            lambda x, y: np.stack([y[1], 0.0 * y[0]]),
            lambda ya, yb: np.stack([ya[0] - left, yb[0] - right]),
            MESH,
            np.zeros((2, 5)),
        )
        return found.sol(x)[0]

    with fg.GradientTape(persistent=True) as tape:
        y = line(0.25)
    assert float(y) == pytest.approx(2.75)
    assert [float(g) for g in tape.gradient(y, [left, right])] == pytest.approx([0.75, 0.25])
    assert float(fg.grad(line)(0.25)) == pytest.approx(3.0)


def test_a_complex_solution():
    """y'' = -w^2 y with y(0) = 1 and y'(0) = i w is exp(i w x), with the derivative i x exp(i w x)."""

    def end(w: Any) -> Any:
        return solve_bvp(
            lambda x, y: np.stack([y[1], -(w**2) * y[0]]),
            lambda ya, yb: np.stack([ya[0] - 1.0, ya[1] - 1j * w]),
            MESH,
            np.ones((2, 5), complex),
            tol=1e-8,
        ).y[0, -1]

    value, slope = fg.jvp(end, (1.7,), (1.0,))
    assert complex(value) == pytest.approx(np.exp(1.7j), rel=1e-6)
    assert complex(slope) == pytest.approx(1j * np.exp(1.7j), rel=1e-5)
    assert float(fg.grad(lambda w: np.imag(end(w)))(1.7)) == pytest.approx(np.cos(1.7), rel=1e-5)


def test_a_singular_term():
    """y'' = -2 / x y' - (a y)^5 with y(1) = sqrt(3 / 4), by Lane and Emden: of a = 1 it is 1 / sqrt(1 + x^2 / 3)."""
    term = np.array([[0.0, 0.0], [0.0, -2.0]])

    def at_start(a: Any, s: Any, tol: float = 1e-9) -> Any:
        return solve_bvp(
            lambda x, y: np.stack([y[1], -((a * y[0]) ** 5)]),
            lambda ya, yb: np.stack([ya[1], yb[0] - np.sqrt(0.75)]),
            MESH,
            np.stack([np.ones(5), np.zeros(5)]),
            S=s,
            tol=tol,
        ).y[0, 0]

    assert float(at_start(1.0, term)) == pytest.approx(1, rel=1e-8)
    expected = difference(lambda a: at_start(a, term), 1.0, 1e-5)  # which a larger step would be off by a millionth
    assert float(fg.grad(at_start)(1.0, term)) == pytest.approx(expected, rel=1e-6)
    by_term = fg.grad(lambda s: at_start(1.0, s * term))(1.0)
    assert float(by_term) == pytest.approx(difference(lambda s: at_start(1.0, s * term), 1.0, 1e-5), rel=1e-6)


def test_jacobians_of_the_users_are_used_and_may_use_what_is_traced():
    called = []

    def slope(a: Any) -> Any:
        def jacobian(x: Any, y: Any) -> Any:
            called.append(x)
            flat = np.zeros((2, 2, len(x)))
            flat[0, 1] = 1.0
            steep = np.stack([np.zeros_like(flat[0]), np.stack([-a * np.exp(y[0]), 0.0 * y[0]])])
            return flat + steep

        ends = lambda ya, yb: (np.array([[1.0, 0], [0, 0]]), np.array([[0.0, 0], [1, 0]]))  # noqa: E731
        return bratu(a, fun_jac=jacobian, bc_jac=ends).y[1, 0]

    assert float(fg.grad(slope)(1.3)) == pytest.approx(difference(steepness, 1.3), rel=1e-6)
    assert called


def test_every_example_of_a_batch_has_a_mesh_of_its_own():
    several = np.array([0.5, 1.5, 3.3])
    lengths = [len(bratu(a).x) for a in several]
    assert len(set(lengths)) == 3
    found = fg.vmap(lambda a: bratu(a).y)(several)
    assert found.shape == (3, 2, max(lengths))
    for a, y, length in zip(several, found, lengths, strict=True):
        np.testing.assert_allclose(y[:, :length], bratu(a).y, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(y[:, length:], np.repeat(y[:, length - 1 : length], max(lengths) - length, axis=1))
    slopes = fg.vmap(fg.grad(lambda a: bratu(a).y[1, -1]))(several)
    np.testing.assert_allclose(slopes, [-difference(steepness, a) for a in several], rtol=1e-6)
    with pytest.raises(errors.ShapeError, match="under vmap have meshes of different lengths"):
        fg.vmap(lambda a: bratu(a).sol(0.5))(several)
    same = fg.vmap(lambda a: bratu(a, tol=1e-3).sol(0.5)[0])(np.array([1.0, 1.1]))
    np.testing.assert_allclose(same, [bratu(a, tol=1e-3).sol(0.5)[0] for a in (1.0, 1.1)], rtol=1e-12)
    reports: list[Any] = []
    fg.vmap(lambda a: reports.append(bratu(a)) or a)(several)
    assert reports[0].niter == [bratu(a).niter for a in several]


def test_a_stiff_layer_on_a_fine_mesh():
    """e y'' = y with y(0) = 1, y(1) = 0: the first slope is about -1 / sqrt(e)."""

    def slope(e: Any) -> Any:
        conditions = lambda ya, yb: np.stack([ya[0] - 1.0, yb[0]])  # noqa: E731
        return solve_bvp(lambda x, y: np.stack([y[1], y[0] / e]), conditions, MESH, np.zeros((2, 5))).y[1, 0]

    assert float(fg.grad(slope)(1e-4)) == pytest.approx(0.5 * 1e6, rel=1e-3)


def test_problems_without_a_solution():
    with pytest.raises(errors.ConvergenceError, match="SciPy did not solve the boundary value problem of <lambda>"):
        fg.grad(lambda a: bratu(a).y[1, 0])(8.0)  # above 3.51 there is none
    assert not bratu(8.0).success

    def flat(conditions: Any) -> Any:
        def found(a: Any) -> Any:
            line = lambda x, y: np.stack([y[1], 0.0 * y[0]])  # noqa: E731
            return solve_bvp(line, lambda ya, yb: conditions(ya, yb, a), MESH, np.zeros((2, 5)), bc_tol=1e-2).y[0, 0]

        return found

    twice = flat(lambda ya, yb, a: np.stack([ya[1] - yb[1], a * (ya[1] - yb[1])]))
    with pytest.raises(errors.ConvergenceError, match="A singular Jacobian encountered"):
        fg.grad(twice)(1.0)
    nearly = flat(lambda ya, yb, a: np.stack([yb[1] + 1e-17 * a * ya[0], ya[1]]))
    with pytest.raises(errors.SingularEquationError, match="has a singular Jacobian there"):
        fg.grad(nearly)(1.0)
    far = flat(lambda ya, yb, a: np.stack([(ya[0] - a) ** 3, yb[0]]))
    with pytest.raises(errors.ConvergenceError, match="Newton's method would change it"):
        fg.grad(far)(1.0)


def test_errors_of_the_users_are_scipys():
    with pytest.raises(ValueError, match="`bc` return is expected to have shape"):
        fg.grad(lambda a: solve_bvp(lambda x, y: a * y, at_zero, MESH, np.zeros((1, 5))).y[0, 0])(1.0)
