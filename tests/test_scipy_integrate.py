"""`fgrad.scipy.integrate`: integrals of functions and of samples, and their derivatives.

Differential equations have a file of their own, `test_scipy_ivp.py`.
"""

import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import scipy.integrate
import scipy.special
from derivatives import check_derivatives
from helpers import along, plain
from rows import check_calls, with_calls
from scipy_integrate_table import ROWS

import fgrad as fg
from fgrad import errors
from fgrad.scipy import integrate
from fgrad.scipy.integrate import dblquad, fixed_quad, nquad, quad, quad_vec, quadrature, tplquad
from fgrad.scipy.integrate._vectorized import NotTogether, Points, in_groups, in_one_batch
from fgrad.testing import check_grads


@pytest.mark.parametrize("row", with_calls(ROWS))
def test_integrals_and_solutions_are_differentiated(row):
    """Those over several variables to first order: second derivatives of `quad` are those of integrals in it, too.

    Batches and single precision of these are those of `dblquad`: all three are one integral in another.
    """
    name = row.names[0].rpartition(".")[2]
    if name in ("tplquad", "nquad"):
        for call in row.calls:
            check_derivatives(call.function, call.points, order=1, rtol=1e-12)
    else:
        check_calls(row, order=1 if name == "dblquad" else 2)


# Closed forms


def test_the_gaussian_integral_and_its_derivatives():
    """sqrt(pi / a), to the third derivative, in both modes."""

    def area(a):
        return quad(lambda x: np.exp(-a * x**2), -np.inf, np.inf)[0]

    a = 1.7
    root = np.sqrt(np.pi / a)
    value, slope = fg.value_and_grad(area)(a)
    assert value.item() == scipy.integrate.quad(lambda x: np.exp(-a * x**2), -np.inf, np.inf)[0]
    assert slope.item() == pytest.approx(-root / (2 * a), rel=1e-9)
    assert along(area)(a).item() == pytest.approx(-root / (2 * a), rel=1e-9)
    for second in (fg.grad(fg.grad(area)), along(fg.grad(area)), fg.grad(along(area)), along(along(area))):
        assert second(a).item() == pytest.approx(3 * root / (4 * a**2), rel=1e-8)
    assert fg.grad(fg.grad(fg.grad(area)))(a).item() == pytest.approx(-15 * root / (8 * a**3), rel=1e-8)


def test_moments_of_a_gaussian_by_all_parameters():
    """mean^2 + width^2, by mean and width, which are found in one integral."""

    def density(x, mean, width):
        return np.exp(-(((x - mean) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))

    def second_moment(mean, width):
        args = {"mean": mean, "width": width}
        return quad(lambda x, args: x**2 * density(x, args["mean"], args["width"]), -np.inf, np.inf, args)[0]

    gradient = fg.grad(second_moment, argnums=(0, 1))(0.3, 1.4)
    np.testing.assert_allclose(plain(gradient), [0.6, 2.8], rtol=1e-9)
    hessian = fg.hessian(lambda p: second_moment(p[0], p[1]))(np.array([0.3, 1.4]))
    np.testing.assert_allclose(hessian, 2 * np.eye(2), atol=1e-7)


def test_the_elliptic_integral():
    """K(m) as an integral, against SciPy's ellipk and the formula of its derivative."""

    def k(m):
        return quad(lambda angle: 1 / np.sqrt(1 - m * np.sin(angle) ** 2), 0, np.pi / 2)[0]

    for m in (0.1, 0.5, 0.9):
        of_k, of_e = scipy.special.ellipk(m), scipy.special.ellipe(m)
        slope = (of_e - (1 - m) * of_k) / (2 * m * (1 - m))
        value, found = fg.value_and_grad(k)(m)
        assert value.item() == pytest.approx(of_k, rel=1e-12)
        assert found.item() == pytest.approx(slope, rel=1e-9)
        assert found.item() == pytest.approx(fg.grad(lambda m: scipy.special.ellipk(m))(m).item(), rel=1e-9)


def test_limits():
    """By Leibniz's rule, to second order, also where a limit appears in the integrand."""
    value, gradient = fg.value_and_grad(lambda a, b: quad(np.cos, a, b)[0], argnums=(0, 1))(0.3, 1.2)
    assert value.item() == pytest.approx(np.sin(1.2) - np.sin(0.3), rel=1e-12)
    np.testing.assert_allclose(plain(gradient), [-np.cos(0.3), np.cos(1.2)], rtol=1e-14)
    hessian = fg.hessian(lambda x: quad(np.cos, x[0], x[1])[0])(np.array([0.3, 1.2]))
    np.testing.assert_allclose(hessian, np.diag([np.sin(0.3), -np.sin(1.2)]), atol=1e-14)

    def convolved(t):  # int_0^t (t - x) exp(x) dx = exp(t) - 1 - t
        return quad(lambda x: (t - x) * np.exp(x), 0.0, t)[0]

    assert fg.grad(convolved)(1.3).item() == pytest.approx(np.exp(1.3) - 1, rel=1e-10)
    assert fg.grad(fg.grad(convolved))(1.3).item() == pytest.approx(np.exp(1.3), rel=1e-10)


def test_infinite_limits_are_constants():
    def tail(low, high):
        return quad(lambda x: x * np.exp(-x), low, high)[0]  # of which there is no value at infinity

    assert plain(fg.grad(tail, argnums=(0, 1))(0.5, np.inf)) == pytest.approx((-0.5 * np.exp(-0.5), 0.0), rel=1e-12)
    assert along(lambda low: tail(low, np.inf))(0.5).item() == pytest.approx(-0.5 * np.exp(-0.5), rel=1e-12)
    both = fg.grad(lambda a: quad(lambda x: a * np.exp(-(x**2)), np.inf, -np.inf)[0])(2.0)
    assert both.item() == pytest.approx(-np.sqrt(np.pi), rel=1e-9)


def test_the_limits_may_be_equal_or_the_wrong_way_round():
    def between(a, b, c, **options):
        return quad(lambda x: np.exp(c * x), a, b, **options)[0]

    at = (0.7, 0.7, 1.3)
    assert plain(fg.grad(between, argnums=(0, 1, 2))(*at)) == (-np.exp(0.91), np.exp(0.91), 0.0)
    for options in ({}, {"points": [0.4]}):
        backwards = partial(between, 0.9, 0.2, **options)
        forwards = partial(between, 0.2, 0.9)
        assert fg.grad(backwards)(1.3).item() == pytest.approx(-fg.grad(forwards)(1.3).item(), rel=1e-10)


def test_a_singular_integrand():
    """int_0^1 x^(a - 1) dx = 1 / a; the derivative has a logarithm more at 0. The limit 0 is not differentiated by."""
    slope = fg.grad(lambda a: quad(lambda x: x ** (a - 1), 0, 1)[0])(0.5)
    assert slope.item() == pytest.approx(-4.0, rel=1e-7)


def test_break_points_are_passed_on():
    """Nobody would find this peak by himself."""

    def peak(width, **options):
        return quad(lambda x: np.exp(-(((x - 700.0) / width) ** 2)), 0, 1000, **options)[0]

    assert fg.vjp(peak, 0.01)[0].item() < 1e-10
    near = [699.9, 700.0, 700.1]
    assert fg.grad(lambda width: peak(width, points=near))(0.01).item() == pytest.approx(np.sqrt(np.pi), rel=1e-8)
    traced = fg.grad(lambda width: peak(width, points=700.0 + width * np.array([-10.0, 0.0, 10.0])))
    assert traced(0.01).item() == pytest.approx(np.sqrt(np.pi), rel=1e-8)


@pytest.mark.parametrize("function", [lambda x, a: np.exp(1j * a * x), lambda x, a: (x + 1j * a) ** 2])
def test_complex_integrands(function):
    def integral(a, low):
        return quad(function, low, 2.0, args=(a,), complex_func=True)[0]

    check_grads(integral, (0.7, 0.3))
    check_grads(integral, (0.7 + 0.2j, 0.3))


# What an integral depends on


def test_arguments_closures_and_variables_give_the_same():
    a, b = 0.7, 1.3

    def integrand(x, a, b):
        return np.exp(-a * x) * np.cos(b * x)

    def by_args(a, b):
        return quad(integrand, 0.0, 2.0, args=(a, b))[0]

    def by_closure(a, b):
        return quad(lambda x: integrand(x, a, b), 0.0, 2.0)[0]

    def by_tree(tree):
        return quad(lambda x, tree: integrand(x, tree["a"], *tree["b"]), 0.0, 2.0, args=tree)[0]

    expected = plain(fg.grad(by_args, argnums=(0, 1))(a, b))
    np.testing.assert_allclose(plain(fg.grad(by_closure, argnums=(0, 1))(a, b)), expected, rtol=1e-13)
    by_one = fg.grad(lambda c: quad(lambda x, c: integrand(x, c, b), 0.0, 2.0, c)[0])
    np.testing.assert_allclose(by_one(a), expected[0], rtol=1e-13)
    tree = fg.grad(by_tree)({"a": a, "b": [b]})
    np.testing.assert_allclose([tree["a"].item(), tree["b"][0].item()], expected, rtol=1e-13)
    variables = fg.Variable(a), fg.Variable(b)
    pairs = fg.implicit_gradients(lambda: by_closure(*variables))()
    np.testing.assert_allclose([gradient.item() for gradient, _ in pairs], expected, rtol=1e-13)


@pytest.mark.parametrize("sine", [np.sin, lambda x: math.sin(float(x))])
def test_a_branch_uses_another_parameter(sine):
    """In one batch for each branch, or point by point if the integrand needs numbers."""

    def area(left, right):
        def integrand(x):
            if x < 1:
                return left * sine(x)
            return right**2 * sine(x)

        return quad(integrand, 0.0, 2.0, points=[1.0])[0]

    left, right = 1 - np.cos(1.0), np.cos(1.0) - np.cos(2.0)
    np.testing.assert_allclose(plain(fg.grad(area, argnums=(0, 1))(0.7, 1.9)), [left, 3.8 * right], rtol=1e-9)
    assert fg.grad(fg.grad(area, argnums=1), argnums=1)(0.7, 1.9).item() == pytest.approx(2 * right, rel=1e-9)


def test_a_batch_of_integrals():
    def area(width, high):
        return quad(lambda x: np.exp(-((x / width) ** 2)), 0.0, high)[0]

    widths, highs = np.array([0.5, 1.0, 3.0]), np.array([0.1, 2.0, 5.0])
    pairs = list(zip(widths, highs, strict=True))
    np.testing.assert_array_equal(fg.vmap(area)(widths, highs), [area(*each) for each in pairs])
    gradient = fg.grad(area, argnums=(0, 1))
    loop = [plain(gradient(*each)) for each in pairs]
    np.testing.assert_allclose(np.stack(plain(fg.vmap(gradient)(widths, highs)), axis=1), loop, rtol=1e-12)
    estimates = fg.vmap(lambda width: quad(lambda x: np.exp(-x / width), 0.0, 1.0)[1])(widths)
    np.testing.assert_array_equal(
        estimates, [scipy.integrate.quad(lambda x: np.exp(-x / w), 0.0, 1.0)[1] for w in widths]
    )


def test_derivatives_of_a_batch_are_integrated_together(monkeypatch):
    """Also to second order, with limits that are equal, or the wrong way round; and where only single ones can be."""
    calls = []
    monkeypatch.setattr(quadrature, "in_one_batch", lambda *args: calls.append(args) or in_one_batch(*args))

    def integral(b):
        return integrate.quad(lambda x: np.sin(b * x), 0.0, b)[0]

    b = np.linspace(-1.0, 2.0, 31)
    b[3] = 1.3
    smooth, away = b != 0, np.where(b == 0, 1.0, b)
    found = fg.vmap(fg.grad(integral))(b)
    assert 1 <= len(calls) < 10
    np.testing.assert_allclose(
        found[smooth], (2 * np.sin(away**2) - (1 - np.cos(away**2)) / away**2)[smooth], atol=1e-9
    )
    twice, step = fg.vmap(fg.grad(fg.grad(integral)))(away), 1e-5
    slopes = [fg.vmap(fg.grad(integral))(away + sign * step).numpy() for sign in (1, -1)]
    np.testing.assert_allclose(twice, (slopes[0] - slopes[1]) / (2 * step), atol=1e-6)

    monkeypatch.setattr(quadrature, "FEW_NUMBERS", 30)  # so that they do not fit into memory together
    calls.clear()
    np.testing.assert_allclose(fg.vmap(fg.grad(integral))(b), found, rtol=1e-10, atol=1e-12)
    assert len(calls) > 30

    a, ends = np.full(3, 1.5), np.array([1.0, np.inf, 2.0])
    found = fg.vmap(fg.grad(lambda a, end: integrate.quad(lambda x: np.exp(-a * x), 0.0, end)[0]))(a, ends)
    left = [np.exp(-1.5 * end) * (1 / 1.5**2 + end / 1.5) if np.isfinite(end) else 0.0 for end in ends]
    np.testing.assert_allclose(found, -1 / a**2 + left, rtol=1e-7)


def test_one_call_stands_for_many_points():
    calls = []

    def integrand(x, a):
        calls.append(x)
        return np.exp(-a * x)

    fg.grad(lambda a: quad(integrand, 0.0, 2.0, args=(a,))[0])(0.7)
    assert len(calls) < 21 + 10


def test_integrals_in_integrals():
    """A function that integrates is an integrand, too, in whatever way a value gets into the inner integral."""

    def closed_over(c):
        return quad(lambda x: quad(lambda y: np.exp(-c * x * y), 0.0, x)[0], 0.0, 1.0)[0]

    def as_argument(c):
        return quad(lambda x: quad(lambda y, c: np.exp(-c * x * y), 0.0, x, args=(c,))[0], 0.0, 1.0)[0]

    def as_limit(c):
        return quad(lambda x: quad(lambda y: np.exp(-0.8 * x * y), 0.0, c)[0], 0.0, 1.0)[0]

    def exact(c, limit=None):
        return scipy.integrate.dblquad(lambda y, x: np.exp(-c * x * y), 0.0, 1.0, 0.0, limit or (lambda x: x))[0]

    expected = (exact(0.801) - exact(0.799)) / 0.002
    assert fg.grad(closed_over)(0.8).item() == pytest.approx(expected, rel=1e-6)
    assert fg.grad(as_argument)(0.8).item() == pytest.approx(expected, rel=1e-6)
    assert fg.grad(as_limit)(0.7).item() == pytest.approx((exact(0.8, 0.701) - exact(0.8, 0.699)) / 0.002, rel=1e-6)


def test_double_integrals():
    options = {"args": (0.7,), "epsabs": 1e-9, "epsrel": 1e-9}
    problem = (lambda y, x, a: a * np.exp(x * y), 0.2, 1.4, lambda x: 0.5 * x, 2)
    assert dblquad(*problem, **options) == scipy.integrate.dblquad(*problem, **options)

    def mass(radius, density):  # of a ball's upper half, from its distance to the middle
        return dblquad(lambda r, angle: density * r**2 * np.sin(angle), 0.0, np.pi / 2, 0.0, lambda angle: radius)[0]

    assert plain(fg.grad(mass, argnums=(0, 1))(2.0, 3.0)) == pytest.approx((12.0, 8 / 3), rel=1e-9)
    assert isinstance(fg.grad(lambda a: dblquad(lambda y, x: a * x, 0, 1, 0, 1)[0], has_aux=False)(1.0), fg.Tensor)
    value, estimate = None, None

    def with_estimate(a):
        nonlocal value, estimate
        value, estimate = dblquad(lambda y, x: a * np.exp(x * y), 0.0, 1.0, 0.0, 1.0)
        return value

    fg.grad(with_estimate)(1.0)
    assert 0 < estimate == scipy.integrate.dblquad(lambda y, x: np.exp(x * y), 0.0, 1.0, 0.0, 1.0)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "integral", [dblquad, pytest.param(lambda f, a, b, c, d: nquad(f, [(c, d), (a, b)]), id="nquad")]
)
def test_multiple_integrals_have_derivatives_of_every_order(integral):
    def laplace(s):
        return integral(lambda y, x: np.exp(-s * x * y), 0.0, 1.0, 0.0, 1.0)[0]

    def exact(k):
        return scipy.integrate.dblquad(lambda y, x: (-x * y) ** k * np.exp(-0.3 * x * y), 0.0, 1.0, 0.0, 1.0)[0]

    expected = list(map(exact, range(4)))
    np.testing.assert_allclose(fg.derivatives(laplace, 3)(0.3), expected, rtol=1e-12)
    np.testing.assert_allclose(fg.vmap(fg.derivatives(laplace, 1))(np.full(2, 0.3)), [expected[:2]] * 2, rtol=1e-12)
    np.testing.assert_allclose(fg.grad(lambda s: fg.derivatives(laplace, 1)(s)[1])(0.3), expected[2], rtol=1e-12)
    np.testing.assert_allclose(fg.derivatives(fg.grad(laplace), 2)(0.3), expected[1:], rtol=1e-12)


@pytest.mark.slow
def test_limits_of_multiple_integrals_have_derivatives_of_every_order():
    def of_triangle(s):  # s^6 / 8
        return dblquad(lambda y, x: x * y, 0.0, s, 0.0, lambda x: x * s)[0]

    def of_pyramid(s):  # s^3 / 3
        return tplquad(lambda z, y, x: 1.0, 0.0, s, 0.0, lambda x: x, 0.0, lambda x, y: x)[0]

    np.testing.assert_allclose(fg.derivatives(of_triangle, 2)(1.0), [1 / 8, 6 / 8, 30 / 8], rtol=1e-12)
    np.testing.assert_allclose(fg.taylor(of_pyramid, 2)(2.0), [8 / 3, 4.0, 2.0], rtol=1e-12)


def test_the_search_for_moving_jumps_computes_no_inner_integrals(monkeypatch):
    """It needs their integrands at one node, and not their values."""
    count, quad_of_scipy = 0, scipy.integrate.quad

    def counted(*args, **keywords):
        nonlocal count
        count += 1
        return quad_of_scipy(*args, **keywords)

    def moment(p):
        return dblquad(lambda y, x: x * y**2 * p, 0.0, p, 0.0, lambda x: x + p)[0]

    monkeypatch.setattr(scipy.integrate, "quad", counted)
    moment(0.7)
    alone, count = count, 0
    fg.vjp(moment, 0.7)
    assert count < 2 * alone  # once for the values, and some until the closures are known


def test_triple_integrals():
    bounds = (0.1, 1.2, lambda x: 0.5 * x, 1.4, 0.0, lambda x, y: x + 2 * y)
    options = {"args": (0.7,), "epsabs": 1e-7, "epsrel": 1e-7}

    def integrand(z, y, x, a):
        return a * x * y**2 * np.exp(-a * z)

    assert tplquad(integrand, *bounds, **options) == scipy.integrate.tplquad(integrand, *bounds, **options)

    def mass(width, height, density):  # of a box that grows denser with z
        return tplquad(lambda z, y, x, d: d * z, 0.0, width, 0.0, 2.0, 0.0, lambda x, y: height, args=(density,))[0]

    assert plain(fg.grad(mass, argnums=(0, 1, 2))(1.0, 3.0, 4.0)) == pytest.approx((36.0, 24.0, 9.0), rel=1e-9)


def test_integrals_over_several_variables():
    def integrand(x, y, z, a):
        return np.exp(-a * x * y) + z * a

    problem = (integrand, [lambda y, z, a: (0.0, y + a), lambda z, a: (z, 2.0), (0.0, 1.0)])
    for opts in (
        None, {"epsabs": 1e-5}, [{"epsabs": 1e-6}, {"points": [0.5, 1.5]}, lambda a: {"epsrel": 1e-6 * a}],
    ):  # fmt: skip
        for full_output in (False, True):
            ours, scipys = (f(*problem, (0.7,), opts, full_output) for f in (nquad, scipy.integrate.nquad))
            assert ours == scipys
    assert nquad(lambda x: x, [(0.0, 2.0)]) == scipy.integrate.nquad(lambda x: x, [(0.0, 2.0)])


def test_integrals_over_several_variables_are_differentiated():
    found = []

    def simplex(edge, power):  # of t^power: edge^(2 + power) / ((power + 1) (power + 2))
        ranges = [lambda x: (0.0, edge - x), (0.0, edge)]
        found.append(nquad(lambda t, x: t**power, ranges, opts={"epsabs": 1e-7}, full_output=True))
        return found[-1][0]

    def exact(edge, power):
        return edge ** (2 + power) / ((1 + power) * (2 + power))

    value, gradient = fg.value_and_grad(simplex, argnums=(0, 1))(1.5, 2.0)
    assert value.item() == pytest.approx(exact(1.5, 2.0), rel=1e-7)
    assert plain(gradient) == pytest.approx(plain(fg.grad(exact, argnums=(0, 1))(1.5, 2.0)), rel=1e-6)
    assert found[0][1] > 0
    assert found[0][2]["neval"] > 0
    with pytest.raises(errors.UnsupportedError, match="the estimate of the error of nquad is not differentiated"):
        fg.grad(lambda a: sum(nquad(lambda x, y: a * x, [(0.0, 1.0)] * 2)))(1.5)
    mapped = fg.vmap(lambda a: nquad(lambda x, y: a * x * y, [(0.0, 1.0), (0.0, 2.0)])[0])(np.array([1.0, 3.0]))
    np.testing.assert_allclose(mapped, [1.0, 3.0], rtol=1e-9)


def test_break_points_of_inner_integrals():
    """Those outside of the limits are left out, as by SciPy."""

    def above(threshold):  # the integral over y of threshold-dependent steps in x: 2 (1 - threshold)
        ranges = [(0.0, 1.0), (0.0, 2.0)]
        opts = [{"points": [threshold, 7.0]}, {}]
        return nquad(lambda x, y: np.where(x > threshold, 1.0, 0.0), ranges, opts=opts)[0]

    value, slope = fg.value_and_grad(above)(0.25)
    assert plain((value, slope)) == pytest.approx((1.5, -2.0), rel=1e-7)


def test_vector_integrals():
    powers = np.array([[1.0, 2.0], [3.0, 0.5]])

    def integral(scale, high):
        return quad_vec(lambda x: (scale * x) ** powers, 0.0, high)[0]

    value, pullback = fg.vjp(integral, 1.5, 2.0)
    np.testing.assert_allclose(value, 1.5**powers * 2 ** (powers + 1) / (powers + 1), rtol=1e-9)
    by_scale, by_high = pullback(np.ones((2, 2)))
    assert by_scale.item() == pytest.approx(np.sum(powers / 1.5 * value.numpy()), rel=1e-8)
    assert by_high.item() == pytest.approx(np.sum(3.0**powers), rel=1e-8)
    result = quad_vec(lambda x: x * np.ones(2), 0.0, 1.0, full_output=True)
    assert [type(part) for part in result[:2]] == [np.ndarray, float]
    assert result[2].success
    value = fg.vjp(lambda a: quad_vec(lambda x: a * x, 0.0, 1.0, norm="max")[0], 2.0)[0]
    assert value.item() == pytest.approx(1.0)


def test_fixed_quadrature():
    assert fixed_quad(np.cos, 0.0, 1.0, n=4) == scipy.integrate.fixed_quad(np.cos, 0.0, 1.0, n=4)
    slope = fg.grad(lambda b: fixed_quad(lambda x, c: np.cos(c * x), 0.0, b, (1.5,), n=9)[0])(1.0)
    assert slope.item() == pytest.approx(np.cos(1.5), rel=1e-12)
    for call in (lambda b: fixed_quad(np.cos, 0.0, b), fg.grad(lambda b: fixed_quad(np.cos, 0.0, b)[0])):
        with pytest.raises(ValueError, match="only available for finite limits"):
            call(np.inf)


# SciPy itself, and its forms


def test_where_nothing_is_traced_it_is_scipys_function():
    def integrand(x, a):
        return np.cos(a * x) / np.sqrt(x)

    for options in ({}, {"weight": "cos", "wvar": 2.0}, {"full_output": 1}, {"epsabs": 1e-3, "limit": 100}):
        found = quad(integrand, 0.1, 2, (0.7,), **options)
        expected = scipy.integrate.quad(integrand, 0.1, 2, (0.7,), **options)
        assert found[:2] == expected[:2]
        assert type(found[0]) is float
        assert len(found) == len(expected)
    value, estimate = quad(integrand, fg.constant(0.1), 2, fg.Variable(0.7))
    assert type(value) is fg.Tensor
    assert value.item() == scipy.integrate.quad(integrand, 0.1, 2, (0.7,))[0]
    assert isinstance(estimate, float)
    with pytest.warns(scipy.integrate.IntegrationWarning, match="maximum number of subdivisions"):
        quad(lambda x: 1 / x, 0, 1)


def test_full_output_under_a_trace():
    outputs = []

    def area(a):
        outputs.append(quad(lambda x: np.exp(-a * x), 0.0, 1.0, full_output=True))
        return outputs[-1][0]

    fg.grad(area)(0.5)
    value, estimate, information = outputs[0]
    assert isinstance(value, fg.Tensor)
    expected = scipy.integrate.quad(lambda x: np.exp(-0.5 * x), 0.0, 1.0, full_output=True)
    assert (estimate.value, information["neval"]) == (expected[1], expected[2]["neval"])
    fg.vmap(area)(np.array([0.5, 1.0]))
    assert len(outputs[1][2]) == 2
    assert 0.0 < estimate < 1e-9
    assert f"{estimate:.1e}" == f"{expected[1]:.1e}"


@pytest.mark.parametrize("part", [1, 2])
def test_what_is_known_of_an_error_is_no_silent_constant(part):
    """It may be looked at inside of the function, and raises where it would become a part of the result."""

    def reported(a):
        result = quad(lambda x: np.exp(-a * x), 0.0, 1.0, full_output=1)
        return result[part]["rlist"] if part == 2 else result[part]

    for derivative in (fg.grad, fg.jacfwd):
        with pytest.raises(errors.UnsupportedError, match=r"quad is not differentiated(.|\n)*test_scipy_integrate\.py"):
            derivative(lambda a: a * reported(a))(0.5)
        with pytest.raises(errors.OutputError, match="quad, which is not differentiated"):
            derivative(reported)(0.5)


def test_compiled_integrands():
    """They are SciPy's as long as nothing is traced."""
    program = """
import ctypes, ctypes.util, scipy, fgrad as fg, numpy as np
from fgrad.scipy.integrate import quad
sine = ctypes.CDLL(ctypes.util.find_library("m")).sin
sine.restype, sine.argtypes = ctypes.c_double, (ctypes.c_double,)
compiled = scipy.LowLevelCallable(sine)
assert abs(quad(compiled, 0, 1)[0] - (1 - np.cos(1))) < 1e-14
try:
    fg.grad(lambda b: quad(compiled, 0, b)[0])(1.0)
except fg.errors.UnsupportedError as error:
    assert "that is no Python function" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_single_precision():
    value, pullback = fg.vjp(lambda a: quad(lambda x: a * x, 0.0, 1.0)[0], np.float32(2.0))
    assert value.dtype == np.float64  # as SciPy's
    assert pullback(1.0)[0].dtype == np.float32
    calls = []

    def integrand(x, a):
        calls.append(x)
        return 1e3 * np.exp(-a * np.float64(1.0) * x)

    slope = fg.grad(lambda a: quad(integrand, 0.0, 1.0, (a,), epsabs=0.0, epsrel=1e-11)[0])(np.float32(2.0))
    assert slope.dtype == np.float32
    assert slope.item() == pytest.approx(1e3 * (3 * np.exp(-2) / 4 - 0.25), rel=1e-6)
    assert len(calls) < 100  # the derivative is computed in double precision, so that SciPy can tell its error


# Errors


def test_scipys_own_functions_name_ours():
    for name in ("quad", "quad_vec", "dblquad", "tplquad"):
        call = getattr(scipy.integrate, name)
        bounds = (0.0, 1.0) * {"dblquad": 2, "tplquad": 3}.get(name, 1)
        with pytest.raises(errors.ScipyCallError, match=rf"Write fgrad\.scipy\.integrate\.{name}, which has the same"):
            fg.grad(lambda a: call(lambda *x: a * x[0], *bounds[:-1], bounds[-1] * a)[0])(1.0)


def test_a_weight_is_refused_under_a_trace():
    with pytest.raises(NotImplementedError, match=r"the integral of sine with weight='cos' cannot be differentiated"):

        def sine(x):
            return np.sin(x)

        fg.grad(lambda b: quad(sine, 0.0, b, weight="cos", wvar=2.0)[0])(1.0)


def test_an_integral_that_does_not_converge():
    with pytest.raises(RuntimeError, match="did not find the integral of diverging: The maximum number of subdiv"):

        def diverging(x, a):
            return a / x

        fg.grad(lambda a: quad(diverging, 0.0, 1.0, args=(a,))[0])(1.0)
    with pytest.raises(errors.ConvergenceError, match="SciPy did not find the integral of <lambda>: Target precision"):
        fg.grad(lambda a: np.sum(quad_vec(lambda x: a / x * np.ones(2), 0.0, 1.0, limit=20)[0]))(1.0)


def test_a_derivative_that_does_not_converge(monkeypatch):
    """x^a is integrable on (0, 1) for a > -1, and x^(a - 1) is not for a < 0."""
    monkeypatch.setattr("fgrad.scipy.integrate.quadrature.MANY_INTERVALS", 60)  # of which 400 take seconds
    with pytest.raises(errors.ConvergenceError, match="did not find an integral for a derivative of that of <lambda>"):
        fg.grad(lambda shift: quad(lambda x: (x + shift) ** -0.5, 0.0, 1.0)[0])(0.0)


def test_rounding_stays_a_warning():
    """An integrand of seven digits, integrated to ten: what can be reached is reached, for the derivative, too."""

    def area(a):
        return quad(lambda x: a * np.round(np.exp(x), 7), 0.0, 1.0, epsabs=0.0, epsrel=1e-10)[0]

    with pytest.warns(scipy.integrate.IntegrationWarning, match="roundoff error is detected"):
        expected = area(2.0)
    with pytest.warns(scipy.integrate.IntegrationWarning, match="roundoff error is detected"):
        value, slope = fg.value_and_grad(area)(2.0)
    assert value.item() == expected
    assert slope.item() == pytest.approx(np.e - 1, rel=1e-7)


def test_errors_of_the_users_are_their_own():
    def misspelt(x, a):
        return aa * x  # noqa: F821

    def in_an_array(x, a):
        return np.array([a * x], dtype=float)[0]

    def late(x, a):
        if x > 0.9:
            raise KeyError("late")
        return a * x

    for function, error, match in (
        (misspelt, NameError, "name 'aa' is not defined"),
        (in_an_array, errors.ArrayConversionError, r"return np.array\(\[a \* x\], dtype=float\)\[0\]"),
        (late, KeyError, "late"),
    ):
        with pytest.raises(error, match=match):
            fg.grad(lambda a, function=function: quad(function, 0.0, 1.0, args=(a,))[0])(1.0)
        with pytest.raises(error, match=match):
            fg.grad(lambda a, function=function: quad(lambda x: function(x, a), 0.0, 1.0)[0])(1.0)


def test_an_exception_leaves_nothing_broken():
    variable = fg.Variable(2.0)

    def loss(x):
        tensor = x * 1.0

        def integrand(t):
            if t > 0.9:
                raise ZeroDivisionError("in the middle")
            return tensor * t * variable

        with pytest.raises(ZeroDivisionError, match="in the middle"):
            quad(integrand, 0.0, 1.0)
        return tensor * variable

    assert fg.grad(loss)(3.0).item() == 2.0
    assert fg.implicit_gradients(loss)(3.0)[0][0].item() == 3.0


# Many points at once


def test_points_go_together_as_far_as_they_agree():
    times, states, sizes = np.linspace(0, 1, 12), np.linspace(-1, 1, 24).reshape(12, 2), []

    def function(t, y, a):
        sizes.append(1)
        if t > 0.4:
            return a * y if y[0] > 0.5 else y**2
        return a * y * t

    expected = np.stack([function(t, y, 3.0) for t, y in zip(times, states, strict=True)])
    sizes.clear()
    points = Points(function, [np.float64(3.0)], times, states)
    np.testing.assert_allclose(points.values(), expected)
    first = len(sizes)
    np.testing.assert_allclose(points.values(), expected)
    assert (first, len(sizes) - first) == (5, 3)  # the ways are known then
    jacobians = points.jacobians()
    loop = [fg.jacobian(lambda y, t=t: function(t, y, 3.0) * 1.0)(y) for t, y in zip(times, states, strict=True)]
    np.testing.assert_allclose(jacobians, loop)
    of_times, (of_a,) = points.pulled(np.ones((12, 2)), True)
    each = [
        fg.grad(lambda a, t=t, y=y: np.sum(function(t, y, a) + 0.0 * a))(3.0).item()
        for t, y in zip(times, states, strict=True)
    ]
    assert of_a.item() == pytest.approx(sum(each))
    np.testing.assert_allclose(of_times, np.where(times > 0.4, 0.0, 3 * np.sum(states, axis=1)))


def test_points_that_have_nothing_in_common():
    def function(t, y):
        return y * math.sin(float(t))

    times, states = np.linspace(0, 1, 100), np.ones((100, 1))
    points = Points(function, [], times, states)
    with pytest.raises(NotTogether):
        points.jacobians()
    np.testing.assert_allclose(points.values()[:, 0], np.sin(times))


def test_more_points_than_fit_into_a_batch(monkeypatch):
    monkeypatch.setattr("fgrad.scipy.integrate._vectorized.AT_ONCE", 5)
    times, states = np.linspace(0, 1, 12), np.ones((12, 1))
    points = Points(lambda t, y, a: a * t * y, [np.float64(2.0)], times, states)
    np.testing.assert_allclose(points.values()[:, 0], 2 * times)
    of_times, (of_a,) = points.pulled(np.ones((12, 1)), True)
    np.testing.assert_allclose(of_times, np.full(12, 2.0))
    assert of_a.item() == pytest.approx(np.sum(times))


def test_a_value_that_all_points_share_is_given():
    points, together = [np.arange(4.0)], [np.arange(4)]
    found, groups = in_groups(lambda x: in_one_batch(lambda x: x * float(x > -1.0), [x]), points, together)
    np.testing.assert_allclose(found, np.arange(4.0))
    assert len(groups) == 1
    found, _ = in_groups(lambda x: in_one_batch(lambda x: 2.0, [x]), points, together)
    np.testing.assert_allclose(found, [2.0] * 4)


# Samples


SAMPLED = ("trapezoid", "simpson", "cumulative_trapezoid", "cumulative_simpson")


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("count", range(1, 8))
def test_integrals_of_samples_are_scipys(name, count):
    ours, scipys = getattr(integrate, name), getattr(scipy.integrate, name)
    rng = np.random.default_rng(count)
    y = rng.normal(size=(2, count))
    for x in (np.cumsum(rng.uniform(0.5, 1.5, count)), np.cumsum(rng.uniform(0.5, 1.5, (2, count)), axis=1)):
        for calls in ((lambda f: lambda y, x: f(y, x=x)), (lambda f: lambda y, x: f(y.T, x=x.T, axis=0))):
            expected = calls(scipys)(y, x)
            np.testing.assert_array_equal(calls(ours)(y, x), expected)
            np.testing.assert_allclose(fg.vjp(calls(ours), y, x)[0], expected, rtol=1e-12)
    np.testing.assert_allclose(fg.vjp(lambda y: ours(y, dx=0.3), y)[0], scipys(y, dx=0.3), rtol=1e-12)
    assert type(ours(fg.constant(y))) is fg.Tensor


def test_samples_at_the_same_place():
    """SciPy leaves out what would be divided by 0; gradients stay finite."""
    y, x = np.array([1.0, 3.0, 2.0, 5.0]), np.array([0.0, 1.0, 1.0, 2.0])
    value, pullback = fg.vjp(lambda y, x: integrate.simpson(y, x=x), y, x)
    assert value.item() == pytest.approx(scipy.integrate.simpson(y, x=x))
    assert all(np.isfinite(each).all() for each in pullback(1.0))


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("trapezoid", {"x": np.arange(3.0)}, "length of x along axis must be"),
        ("simpson", {"x": np.arange(3.0)}, "length of x along axis must be"),
        ("simpson", {"x": np.ones((1, 2, 4))}, "shape of x must be 1-D or the same as y"),
        ("cumulative_trapezoid", {"initial": 1.0}, "`initial` must be `None` or `0`"),
        ("cumulative_simpson", {"x": np.array([0.0, 1.0, 1.0, 2.0])}, "must be strictly increasing"),
        ("cumulative_simpson", {"dx": np.ones((2, 2))}, "`dx` must either be a scalar"),
        ("cumulative_simpson", {"initial": np.ones((2, 2))}, "`initial` must either be a scalar"),
    ],
)
def test_samples_that_do_not_fit(name, options, match):
    with pytest.raises(ValueError, match=match):
        fg.vjp(lambda y: getattr(integrate, name)(y, **options), np.ones((2, 4)))


def test_no_samples():
    with pytest.raises(ValueError, match="At least one point is required along `axis`"):
        fg.vjp(integrate.cumulative_trapezoid, np.ones((2, 0)))


@pytest.mark.parametrize(("low", "high"), [(-np.inf, 0.5), (-np.inf, -0.7), (0.5, -np.inf)])
def test_from_minus_infinity_to_a_finite_limit(low, high):
    """Where the integrand of the derivative changes its sign with x."""

    def moments(b):
        return quad(lambda x: x * np.exp(-1.3 * x**2 + b * x), low, high)[0]

    def integral(b):
        return quad(lambda x: np.exp(-1.3 * x**2 + b * x), low, high)[0]

    assert fg.grad(integral)(0.3).item() == pytest.approx(moments(0.3), rel=1e-8)
    assert fg.jvp(integral, (0.3,), (1.0,))[1].item() == pytest.approx(moments(0.3), rel=1e-8)
    slopes = fg.vmap(fg.grad(integral))(np.array([0.3, -0.2]))
    np.testing.assert_allclose(slopes, [moments(0.3), moments(-0.2)], rtol=1e-8)


def test_equal_limits_in_a_batch():
    def integral(c):
        return quad(lambda x, c: np.exp(c * x), 0.5, 0.5, args=(c,))[0]

    np.testing.assert_array_equal(fg.vmap(integral)(np.array([0.3, 0.4])), np.zeros(2))
    np.testing.assert_array_equal(fg.vmap(fg.grad(integral))(np.array([0.3, 0.4])), np.zeros(2))


def test_a_complex_integral_with_exchanged_limits_is_refused():
    def integral(factor, low, high):
        return integrate.quad(lambda x: factor * (x + 1j * x**2), low, high, complex_func=True)[0]

    np.testing.assert_allclose(fg.vjp(integral, 2.0, 0.0, 1.0)[0], 1 + 2j / 3)
    assert integral(2.0, 1.0, 0.0) == scipy.integrate.quad(lambda x: 2 * (x + 1j * x**2), 1, 0, complex_func=True)[0]
    points = 2.0, 1.0, 0.0
    for place, point in enumerate(points):
        with pytest.raises(errors.UnsupportedError, match=r"from 1 down to 0 (.|\n)*Exchange the limits"):
            fg.jvp(lambda x, n=place: integral(*points[:n], x, *points[n + 1 :]), (point,), (1.0,))


@pytest.mark.parametrize("dx", [0.5, np.float64(0.5), np.array(0.5), np.full(2, 0.5)])
def test_the_distance_does_not_widen_samples(dx):
    y = np.ones(3, np.float32)
    expected = scipy.integrate.trapezoid(y, dx=dx)
    value, pullback = fg.vjp(lambda y: integrate.trapezoid(y, dx=dx), y)
    assert (value, value.dtype, pullback(1.0)[0].dtype) == (expected, expected.dtype, y.dtype)
