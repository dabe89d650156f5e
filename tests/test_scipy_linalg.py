"""`fgrad.scipy.linalg`: every call of its table, what is read, hard points, errors, and what is computed."""

import inspect
import re
import warnings
from collections import Counter

import mpmath
import numpy as np
import pytest
import scipy.linalg
import scipy_linalg_table as table
from coverage_table import hermitian
from derivatives import check_derivatives
from rows import arrays, check_calls, identified, with_calls

import fgrad as fg
import fgrad.scipy.linalg
from fgrad import errors
from fgrad.core.tensor import Tensor
from fgrad.ops import lapack as lapacks
from fgrad.ops import solving
from fgrad.scipy.linalg import functions, matrix_equations
from fgrad.scipy.linalg._differences import divided_differences
from fgrad.testing import check_grads

L = fgrad.scipy.linalg
RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def the_same_numbers_in_any_order():
    RNG.bit_generator.state = np.random.default_rng(8).bit_generator.state


def uniform(*shape):
    return RNG.uniform(-1, 1, shape)


def complex_uniform(*shape):
    return uniform(*shape) + 1j * uniform(*shape)


A, B, V = table.S2, table.B3, table.V3
CA, CB = A + 1j * uniform(3, 3), B + 1j * uniform(3, 2)


# The table


@pytest.mark.parametrize("row", with_calls(table.DIFFERENTIABLE))
def test_values_and_derivatives(row):
    """SciPy's values; both modes to second order; single precision; batches."""
    check_calls(row)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.names[0]) for row in table.ROWS if row.error])
def test_what_has_no_derivative_says_so(row):
    """Traced; and where nothing is, it is SciPy's."""
    for call in row.calls:
        for traced in (lambda f, x: fg.vjp(f, x), lambda f, x: fg.jvp(f, (x,), (x,)), lambda f, x: fg.vmap(f)(x[None])):
            with pytest.raises(row.error, match=re.escape(row.match)):
                traced(call.function, *call.points)
        for ours, scipys in zip(
            arrays(call.function(Tensor(call.points[0]))), arrays(call.function(*call.points)), strict=True
        ):
            np.testing.assert_array_equal(ours, scipys)


@pytest.mark.parametrize(("f", "point", "error", "text"), identified(table.OPTIONS_REFUSED))
def test_options_that_are_refused_say_so(f, point, error, text):
    with pytest.raises(error, match=re.escape(text)):
        fg.vjp(f, point)


PUBLIC = [name for name in vars(L) if not name.startswith("_") and inspect.isfunction(getattr(L, name))]


def test_every_function_is_in_the_table_once():
    named = [name.removeprefix("fgrad.scipy.linalg.") for row in table.ROWS for name in row.names]
    assert sorted(named) == sorted(PUBLIC)


VERSIONS_DIFFER = {"eigvals", "logm", "sqrtm"}


@pytest.mark.parametrize("name", PUBLIC)
def test_signatures_are_scipys(name):
    def parameters(function):
        found = inspect.signature(function).parameters.values()
        # The default of lwork has no meaning, and is not the same in all versions.
        return [(each.name, each.kind, each.name == "lwork" or each.default) for each in found]

    ours, scipys = parameters(getattr(L, name)), parameters(getattr(scipy.linalg, name))
    if name in VERSIONS_DIFFER:
        assert ours[0] == scipys[0]
    else:
        assert ours == scipys
    assert getattr(L, name).__doc__


def test_plain_arrays_are_answered_by_scipy_and_tensors_with_tensors():
    plain = L.lu_factor(A)
    assert [type(x) for x in plain] == [np.ndarray, np.ndarray]
    np.testing.assert_array_equal(plain[0], scipy.linalg.lu_factor(A)[0])
    boxed = L.lu_factor(Tensor(A))
    assert [type(x) for x in boxed] == [Tensor, Tensor]
    assert type(L.solve(fg.Variable(A), B)) is Tensor
    assert not L.cho_factor(Tensor(hermitian(A)))[1]


# What is read of a matrix


def parts_moved(x):
    """Return one change of each element of an array, and of each imaginary part."""
    for index in np.ndindex(x.shape):
        for unit in (1.0, 1j) if np.iscomplexobj(x) else (1.0,):
            change = np.zeros_like(x)
            change[index] = unit
            yield index, unit, change


def assert_each_element(f, x, step=1e-6):
    """Compare a gradient with finite differences of each element; return how many elements are not read."""
    value = np.asarray(f(x))
    weights = np.cos(1 + np.arange(value.size)).reshape(value.shape)

    def loss(x):
        return np.sum(np.real(f(x) * weights))

    gradient, unread = fg.grad(loss)(x).numpy(), 0
    for index, unit, change in parts_moved(x):
        found = gradient[index].real if unit == 1 else gradient[index].imag
        ahead, behind = f(x + step * change), f(x - step * change)
        if np.array_equal(ahead, value) and np.array_equal(behind, value):
            assert found == 0
            unread += 1
        else:
            expected = np.sum(np.real((ahead - behind) * weights)) / (2 * step)
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    return unread


def definite(x):
    return x + np.diag([8.0, 9.0, 10.0])


LAST = np.outer([-0.1, 0, 9], [1, 1, 1])

READERS = {
    "diagonal": 6, "upper triangular": 3, "lower triangular": 3, "tridiagonal": 2, "sym": 3, "her": 3, "pos": 3,
    "gen": 0, None: 0,
}  # fmt: skip


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("structure", READERS)
@pytest.mark.parametrize("is_complex", [False, True])
def test_solve_has_the_derivative_zero_where_it_does_not_read(structure, lower, is_complex):
    a, b = (definite(CA), CB) if is_complex else (definite(A), B)
    unread = assert_each_element(lambda a: L.solve(a, b, assume_a=structure, lower=lower), a)
    imaginary = 3 if structure in ("her", "pos") else 0  # of the diagonal
    assert unread == (2 * READERS[structure] + imaginary if is_complex else READERS[structure])


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(
    ("f", "unread", "of_diagonal"),
    [
        (lambda a, lower: L.solve_triangular(a, B, lower=lower), 3, 0),
        (lambda a, lower: L.solve_triangular(a, B, lower=lower, trans="C"), 3, 0),
        (lambda a, lower: L.solve_triangular(a, B, lower=lower, unit_diagonal=True), 6, 0),
        (lambda a, lower: L.inv(a, assume_a="lower triangular" if lower else "upper triangular"), 3, 0),
        (lambda a, lower: L.inv(a, assume_a="sym", lower=lower), 3, 0),
        (lambda a, lower: L.inv(a, assume_a="her", lower=lower), 3, 1),
        (lambda a, lower: L.inv(a, assume_a="pos", lower=lower), 3, 1),
        (lambda a, lower: L.inv(a, assume_a="diagonal"), 0, 0),
        (lambda a, lower: L.pinvh(a, lower=lower), 3, 1),
        (lambda a, lower: L.cholesky(a, lower=lower), 3, 1),
        (lambda a, lower: (np.tril if lower else np.triu)(L.cho_factor(a, lower=lower)[0]), 3, 1),
        (lambda a, lower: L.cho_solve((a, lower), B), 3, 0),
        (lambda a, lower: L.cho_solve(L.cho_factor(a, lower), B), 3, 1),
        (lambda a, lower: L.eigvalsh(a, lower=lower), 3, 1),
        (lambda a, lower: L.eigvalsh(np.eye(3), a, lower=lower), 3, 1),
        (lambda a, lower: L.lu_solve((a, np.array([0, 2, 2])), B), 0, 0),
        # The last row is the diagonal of bands.
        (lambda a, lower: L.solveh_banded((0.1 * a + LAST)[:: -1 if lower else 1], B, lower=lower), 3, 1),
        (lambda a, lower: L.solve_banded((1, 1), a[[1, 0, 2] if lower else [2, 0, 1]], B), 2, 0),
        (lambda a, lower: L.toeplitz(a[0], a[1]), 4, 0),
        (lambda a, lower: L.hankel(a[0], a[1]), 4, 0),
        (lambda a, lower: L.solve_toeplitz((a[0], a[1]), B), 4, 0),
    ],
)
def test_each_function_has_the_derivative_zero_where_it_does_not_read(f, unread, of_diagonal, lower, is_complex):
    a = definite(CA) if is_complex else definite(A)
    expected = 2 * unread + 3 * of_diagonal if is_complex else unread
    assert assert_each_element(lambda a: f(a, lower), a) == expected


@pytest.mark.parametrize(
    ("f", "read"),
    [
        (lambda a: L.solve(a, B, assume_a="sym", lower=True, check_finite=False), np.tril),
        (lambda a: L.solve(a, B, assume_a="pos", check_finite=False), np.triu),
        (lambda a: L.solve(a, B, assume_a="lower triangular", check_finite=False), np.tril),
        (lambda a: L.solve(a, B, assume_a="diagonal", check_finite=False), lambda a: a * np.eye(3)),
        (lambda a: L.solve_triangular(a, B, check_finite=False), np.triu),
        (lambda a: L.solve_triangular(a, B, 0, True, True, check_finite=False), lambda a: np.tril(a, -1)),
        (lambda a: L.inv(a, assume_a="her", lower=True, check_finite=False), np.tril),
        (lambda a: L.cholesky(a, check_finite=False), np.triu),
        (lambda a: L.cho_solve((a, True), B, check_finite=False), np.tril),
        (lambda a: L.eigvalsh(a, check_finite=False), np.tril),
        (lambda a: L.pinvh(a, lower=False, check_finite=False), np.triu),
    ],
)
def test_nan_where_nothing_is_read_does_no_harm(f, read):
    """To first and second order."""
    is_read = read(np.ones((3, 3))) != 0
    a = np.where(is_read, definite(A), np.nan)
    gradient = fg.grad(lambda a: np.sum(f(a) ** 2))
    np.testing.assert_allclose(gradient(a), np.where(is_read, gradient(definite(A)), 0), rtol=1e-12)
    twice = fg.grad(lambda a: np.sum(gradient(a) ** 2))(a)
    assert np.isfinite(twice).all()
    assert (twice.numpy()[~is_read] == 0).all()


# Accuracy at hard points, against 60 digits


def mp_expm(x):
    return mpmath.expm(x, method="taylor")


def mp_power(exponent):
    return lambda x: mpmath.expm(mpmath.mpf(exponent) * mpmath.logm(x), method="taylor")


def along(f, a, direction):
    """Return the derivative of a function of matrices along a direction, by differences with 60 digits."""
    with mpmath.workdps(60):
        a, direction, step = mpmath.matrix(a.tolist()), mpmath.matrix(direction.tolist()), mpmath.mpf(10) ** -20
        moved = (f(a + step * direction) - f(a - step * direction)) / (2 * step)
        return np.array(moved.tolist(), complex)


NILPOTENT = np.diag([1.0, 2.0, 3.0], 1)
DEFECTIVE = np.array([[2.0, 1, 0], [0, 2, 1], [0, 0, 2]])
SKEW = 20 * (lambda x: x - x.T)(uniform(4, 4))
ROTATION = scipy.linalg.expm(0.1 * SKEW)
POSITIVE = hermitian(uniform(4, 4))
WARD = np.array([[-131.0, 19, 18], [-390, 56, 54], [-387, 57, 52]])

HARD = [
    ("expm, zeros", L.expm, mp_expm, np.zeros((3, 3)), 1e-14),
    ("expm, nilpotent", L.expm, mp_expm, NILPOTENT, 1e-14),
    ("expm, large and nilpotent", L.expm, mp_expm, np.array([[0.0, 1e6], [0, 0]]), 1e-13),
    ("expm, defective", L.expm, mp_expm, DEFECTIVE, 1e-13),
    ("expm, overscaled", L.expm, mp_expm, np.array([[1.0, 1e6], [0, -1]]), 1e-13),
    ("expm, stiff", L.expm, mp_expm, np.array([[-1.0, 100], [0, -1000]]), 1e-13),
    # By 32 radians: what is squared here magnifies rounding to 3e-13; SciPy's `expm_frechet` has 1e-15.
    ("expm, a rotation", L.expm, mp_expm, SKEW, 1e-12),
    ("expm, next to singular", L.expm, mp_expm, np.array([[1.0, 1], [1, 1 + 1e-12]]), 1e-14),
    ("expm, tiny", L.expm, mp_expm, 1e-9 * uniform(3, 3), 1e-14),
    # The problem itself magnifies rounding: SciPy's values are as far off.
    ("expm, large", L.expm, mp_expm, 30 * uniform(4, 4), 1e-11),
    ("expm, Ward's", L.expm, mp_expm, WARD, 1e-11),
    ("expm, complex", L.expm, mp_expm, complex_uniform(3, 3), 1e-14),
    ("logm, positive", L.logm, mpmath.logm, POSITIVE, 1e-13),
    ("logm, one", L.logm, mpmath.logm, np.eye(3), 1e-14),
    ("logm, next to one", L.logm, mpmath.logm, np.eye(3) + 1e-5 * uniform(3, 3), 1e-13),
    ("logm, a rotation", L.logm, mpmath.logm, ROTATION, 1e-13),
    ("logm, defective", L.logm, mpmath.logm, DEFECTIVE, 1e-13),
    ("logm, next to singular", L.logm, mpmath.logm, np.array([[1.0, 1], [0, 1e-10]]), 1e-12),
    ("logm, of many sizes", L.logm, mpmath.logm, np.array([[1e4, 1, 2], [0, 1, 1], [0, 0, 1e-3]]), 1e-12),
    ("logm, complex", L.logm, mpmath.logm, scipy.linalg.expm(complex_uniform(3, 3)), 1e-13),
    ("sqrtm, positive", L.sqrtm, mpmath.sqrtm, POSITIVE, 1e-13),
    ("sqrtm, one", L.sqrtm, mpmath.sqrtm, np.eye(3), 1e-14),
    ("sqrtm, a rotation", L.sqrtm, mpmath.sqrtm, ROTATION, 1e-13),
    ("sqrtm, defective", L.sqrtm, mpmath.sqrtm, DEFECTIVE, 1e-13),
    ("sqrtm, next to singular", L.sqrtm, mpmath.sqrtm, np.array([[1.0, 1], [0, 1e-10]]), 1e-12),
    ("sqrtm, complex", L.sqrtm, mpmath.sqrtm, scipy.linalg.expm(complex_uniform(3, 3)), 1e-13),
    *(
        (f"{exponent}, {name}", lambda a, t=exponent: L.fractional_matrix_power(a, t), mp_power(exponent), a, 1e-12)
        for exponent in (0.3, -1.7)
        for name, a in (("positive", POSITIVE), ("one", np.eye(3)), ("defective", DEFECTIVE), ("a rotation", ROTATION))
    ),
]


@pytest.mark.parametrize(("f", "reference", "a", "tolerance"), identified(HARD))
def test_functions_of_matrices_at_hard_points(f, reference, a, tolerance):
    """The error of the derivative along a direction, and of the gradient, next to the largest there is."""
    direction, weights = uniform(*a.shape), uniform(*a.shape)
    expected = along(reference, a, direction)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy's, of the value
        tangent = fg.jvp(f, (a,), (direction.astype(a.dtype),))[1].numpy()
        value, pullback = fg.vjp(f, a)
        gradient = pullback(weights.astype(value.dtype))[0].numpy()
    assert np.linalg.norm(tangent - expected) <= tolerance * np.linalg.norm(expected)
    error = np.sum(gradient.conj() * direction) - np.sum(weights * expected)
    assert abs(error.real) <= tolerance * np.linalg.norm(gradient) * np.linalg.norm(direction)


@pytest.mark.parametrize("size", [30, 60])
@pytest.mark.parametrize("scale", [0.01, 1.0, 8.0])
def test_both_algorithms_for_the_exponential_agree(size, scale, monkeypatch):
    a, direction = scale * uniform(size, size) / np.sqrt(size), uniform(size, size)
    quick = fg.jvp(L.expm, (a,), (direction,))[1].numpy()
    monkeypatch.setattr(functions, "_SMALL", 1000)
    slow = fg.jvp(L.expm, (a,), (direction,))[1].numpy()
    assert not np.array_equal(quick, slow)
    np.testing.assert_allclose(quick, slow, rtol=1e-11, atol=1e-12 * np.max(np.abs(slow)))


def test_a_matrix_of_many_hard_blocks_is_as_accurate_as_one():
    """SciPy's algorithm for the derivative would lose five digits here."""
    block, direction = np.array([[1.0, 1e6], [0, -1]]), uniform(2, 2)
    a, along_all = (scipy.linalg.block_diag(*[x] * 12) for x in (block, direction))
    found = fg.jvp(L.expm, (a,), (along_all,))[1].numpy()
    expected = scipy.linalg.block_diag(*[along(mp_expm, block, direction).real] * 12)
    assert np.linalg.norm(found - expected) <= 1e-13 * np.linalg.norm(expected)


def by_divided_differences(f, a, direction):
    """Return the derivative of a function of a matrix with eigenvalues that differ (Daletskii and Krein)."""
    w, v = np.linalg.eig(a.astype(complex))
    values, gaps = f(w), w[:, None] - w + np.eye(len(w))
    quotients = np.where(np.eye(len(w)) == 1, 0, (values[:, None] - values) / gaps)
    step = 1e-6
    quotients = quotients + np.diag((f(w + step) - f(w - step)) / (2 * step))
    return v @ (quotients * np.linalg.solve(v, direction @ v)) @ np.linalg.inv(v)


@pytest.mark.parametrize(
    ("f", "of_numbers"),
    [
        (L.logm, np.log),
        (L.sqrtm, np.sqrt),
        (lambda a: L.fractional_matrix_power(a, 0.4), lambda w: w**0.4),
        (lambda a: L.fractional_matrix_power(a, -1.3), lambda w: w**-1.3),
    ],
)
@pytest.mark.parametrize(
    "a", [table.BELOW_ZERO, np.diag([-3.0, -2.0, 1.0]), np.array([[-3.0, 1, 0], [0, -1, 2], [0.2, 0, -9]])]
)
def test_eigenvalues_below_zero(f, of_numbers, a):
    """The derivative along the cut, where the imaginary part is that of the limit from above."""
    direction = uniform(3, 3)
    found = fg.jvp(f, (a,), (direction,))[1]
    np.testing.assert_allclose(found, by_divided_differences(of_numbers, a, direction), rtol=1e-8, atol=1e-9)
    check_grads(f, (a,), order=2)


JUMPS = "jump at negative eigenvalues"


@pytest.mark.parametrize(
    ("f", "a", "text"),
    [
        (L.logm, np.diag([-1.0, -1.0, 2.0]), JUMPS),
        (L.logm, np.diag([-1.0 + 0j, 1.0]), JUMPS),
        (L.logm, np.array([[-1.0, 1e-12], [-1e-12, -1.0]]), JUMPS),
        (lambda a: L.fractional_matrix_power(a, 0.5), -np.eye(2), JUMPS),
        (L.logm, np.array([[1.0, 1.0], [0.0, 0.0]]), "the matrix is singular"),
        (lambda a: L.fractional_matrix_power(a, 1.5), np.array([[1.0, 1.0], [0.0, 0.0]]), "the matrix is singular"),
        (L.sqrtm, np.array([[1.0, 1.0], [0.0, 0.0]]), "scipy.linalg.sqrtm has no derivative here"),
        (lambda a: L.polar(a)[0], np.diag([1.0, 0.0, 0.0]), "scipy.linalg.polar has no derivative here"),
        (lambda a: L.lu(a)[1], np.zeros((2, 2)), "scipy.linalg.lu and lu_factor have no derivative here"),
        (lambda a: L.qr(a)[1], np.ones((3, 2)), "np.linalg.qr has no derivative here"),
        (lambda a: L.qr(a)[0][:, 2], uniform(3, 1), "the vectors that mode='full' adds"),
        (lambda a: L.pinv(a, rtol=0.9), np.diag([1.0, 0.5]), "dropped singular values that are not zero"),
        (lambda a: L.pinv(a, atol=0.9), np.diag([1.0, 0.5]), "dropped singular values that are not zero"),
        (lambda a: L.eigh(a)[1][0], np.eye(2), "the loss depends on the phase of vectors"),
    ],
)
def test_where_there_is_no_derivative_an_error_says_so(f, a, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy's, of the value
        value, pullback = fg.vjp(f, a)
        with pytest.raises(errors.NoDerivativeError, match=re.escape(text)):
            pullback(np.cos(np.arange(value.size)).reshape(value.shape).astype(value.dtype))
        if "vectors" not in text:  # forward mode does not know of a loss, which might depend on a choice
            with pytest.raises(errors.NoDerivativeError, match=re.escape(text)):
                fg.jvp(f, (a,), (np.ones_like(a),))


def test_a_whole_exponent_needs_no_root():
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    for exponent in (2, 3.0):
        found = fg.grad(lambda a, t=exponent: np.sum(L.fractional_matrix_power(a, t)))(singular)
        expected = fg.grad(lambda a, t=exponent: np.sum(np.linalg.matrix_power(a, int(t))))(singular)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(
        fg.grad(lambda a: L.fractional_matrix_power(a, 3)[0, 0])(-np.eye(2)), [[3, 0], [0, 0]], atol=1e-14
    )


@pytest.mark.parametrize(
    ("f", "third"),
    [
        (L.expm, np.exp),
        (L.logm, lambda x: 2 / x**3),
        (L.sqrtm, lambda x: 0.375 * x**-2.5),
        (lambda a: L.fractional_matrix_power(a, 0.3), lambda x: 0.3 * 0.7 * 1.7 * x**-2.7),
        (L.tanhm, lambda x: (4 * np.sinh(x) ** 2 - 2) / np.cosh(x) ** 4),
        (lambda a: L.inv(a), lambda x: -6 / x**4),
        (lambda a: L.cholesky(a), lambda x: 0.375 * x**-2.5),
    ],
)
def test_third_derivatives(f, third):
    derivative = lambda x: f(x * np.eye(2))[1, 1]  # noqa: E731
    for transforms in ((fg.grad, fg.grad, fg.grad), (fg.jacfwd, fg.jacrev, fg.jacfwd)):
        found = derivative
        for transform in transforms:
            found = transform(found)
        np.testing.assert_allclose(found(1.3), third(1.3), rtol=1e-10)


def test_equations_hold_also_for_real_and_complex_arrays_together():
    """SciPy's own solutions of such mixtures are wrong, where a real matrix has complex eigenvalues."""
    a, b, q = table.TURNING, complex_uniform(2, 2) + 3 * np.eye(2), uniform(3, 2)
    square, small = complex_uniform(3, 3), 0.2 * a

    def sylvester(b):
        x = L.solve_sylvester(a, b, q)
        return a @ x + x @ b - q

    def lyapunov(q):
        x = L.solve_continuous_lyapunov(a, q=q)
        return a @ x + x @ a.T - q

    def discrete(q):
        x = L.solve_discrete_lyapunov(small, q, method="bilinear")
        return small @ x @ small.T - x + q

    for residual, point in ((sylvester, b), (lyapunov, square), (discrete, square)):
        assert np.max(np.abs(residual(point))) < 1e-13
        np.testing.assert_allclose(fg.vjp(residual, point)[0], residual(point), atol=1e-13)
        check_grads(residual, (point,), order=1)


@pytest.mark.parametrize("solve", [L.solve_continuous_are, L.solve_discrete_are])
def test_riccatis_equations_with_e_hold(solve):
    """SciPy's own solutions are wrong where it has scaled the equation."""
    a, b, q, r, e = table.STABLE, table.INPUT, hermitian(table.Q), hermitian(table.R), table.E

    def residual(a):
        x = solve(a, b, q, r, e)
        if solve is L.solve_continuous_are:
            return a.T @ x @ e + e.T @ x @ a - e.T @ x @ b @ np.linalg.solve(r, b.T @ x @ e) + q
        return a.T @ x @ a - e.T @ x @ e - a.T @ x @ b @ np.linalg.solve(r + b.T @ x @ b, b.T @ x @ a) + q

    np.testing.assert_allclose(residual(a), np.zeros((3, 3)), atol=1e-12)
    np.testing.assert_allclose(fg.jvp(residual, (a,), (uniform(3, 3),)), np.zeros((2, 3, 3)), atol=1e-11)


def test_the_gradient_of_riccatis_equation_is_hermitian_where_scipy_asks_for_it():
    gradient = fg.grad(lambda q: np.sum(L.solve_continuous_are(table.STABLE, table.INPUT, q, np.eye(2))[0]))(np.eye(3))
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-14)


# Equal singular values, and empty arrays


def test_polar_factors_with_equal_singular_values_have_every_derivative():
    f = lambda a: np.sum(L.polar(a)[0] ** 3) + np.sum(L.polar(a, "left")[1] ** 3)  # noqa: E731
    for a in (np.eye(3), 2 * np.eye(4, 2), ROTATION):
        check_grads(f, (a,), order=3)


def test_empty_matrices():
    for f in (
        lambda x: L.solve(x, np.zeros((0, 2))), lambda x: L.solve(np.eye(3), np.zeros((3, 0)) + np.sum(x)),
        L.inv, L.expm, L.sqrtm, L.cosm, L.tanm, lambda x: L.lu(x)[1], lambda x: L.lu_factor(x)[0], L.cholesky,
        lambda x: L.eigh(x)[0], L.svdvals, L.pinv, lambda x: L.polar(x)[0], lambda x: L.solve_sylvester(x, x, x),
        lambda x: L.solve_triangular(x, np.zeros(0)), lambda x: L.cho_solve((x, True), np.zeros(0)),
        lambda x: L.block_diag(x, np.eye(2)), lambda x: L.khatri_rao(x, np.zeros((3, 0))),
        lambda x: L.expm_frechet(x, x)[1], lambda x: L.qr(x)[1],
    ):  # fmt: skip
        empty = np.zeros((0, 0))
        value, pullback = fg.vjp(f, empty)
        assert value.shape == f(empty).shape
        assert pullback(np.ones(value.shape))[0].shape == (0, 0)
    assert fg.vjp(L.det, np.zeros((0, 0)))[0] == 1
    for stack in (np.zeros((0, 2, 2)), np.zeros((2, 0, 3, 3))):
        for f in (L.expm, lambda x: L.solve_triangular(x + np.eye(x.shape[-1]), x), lambda x: L.lu_factor(x)[0]):
            assert fg.vjp(f, stack)[0].shape == stack.shape


# Dtypes and containers


def test_half_precision_is_computed_in_single():
    a, b = (A.astype(np.float16), B.astype(np.float16))
    for f in (L.solve, lambda a, b: L.solve_triangular(a, b), lambda a, b: L.expm(a) @ b):
        value, pullback = fg.vjp(f, a, b)
        assert value.dtype == np.float32
        assert [x.dtype for x in pullback(np.ones_like(value))] == [np.float16, np.float16]


def test_arguments_of_two_dtypes():
    value, pullback = fg.vjp(L.solve, A.astype(np.float32), B)
    assert value.dtype == np.float64
    assert [x.dtype for x in pullback(np.ones((3, 2)))] == [np.float32, np.float64]
    value, pullback = fg.vjp(L.solve, A, CB)
    assert [x.dtype for x in pullback(np.ones((3, 2), complex))] == [np.float64, np.complex128]
    assert fg.grad(lambda x: L.solve([[x, 1], [0, 2]], [3, 4])[0])(2.0) == -0.25
    assert fg.grad(lambda x: np.sum(L.block_diag([x, 1.0], x)))(2.0) == 2


def test_objects_are_refused():
    with pytest.raises(ValueError, match="object arrays are not supported"):
        fg.vjp(lambda a: L.solve(np.array([[None]]), a), np.ones(1))


# Stacks


STACKS = [
    ("solve", lambda a, b: L.solve(a, b, assume_a="pos")),
    ("solve_triangular", lambda a, b: L.solve_triangular(a, b, lower=True)),
    ("inv", lambda a, b: L.inv(a) @ b),
    ("cho_solve", lambda a, b: L.cho_solve(L.cho_factor(a), b)),
    ("lu_solve", lambda a, b: L.lu_solve(L.lu_factor(a), b)),
    ("lstsq", lambda a, b: L.lstsq(a, b)[0]),
    ("sqrtm", lambda a, b: L.sqrtm(a) @ b),
    ("eigvalsh", lambda a, b: L.eigvalsh(a)[..., None] * b),
    ("polar", lambda a, b: L.polar(a)[1] @ b),
    ("solve_sylvester", lambda a, b: L.solve_sylvester(a, np.eye(2), b)),
]


@pytest.mark.parametrize("f", [pytest.param(f, id=name) for name, f in STACKS])
def test_a_stack_is_a_loop(f):
    """Also where only one of the arguments is a stack, of more than one axis."""
    stack, sides = hermitian(uniform(2, 3, 3, 3)), uniform(3, 3, 2)
    for a, b in ((stack, sides), (stack, sides[0]), (stack[0, 0], sides)):
        value, pullback = fg.vjp(f, a, b)
        np.testing.assert_allclose(value, f(a, b), rtol=1e-11, atol=1e-12)
        ones = np.ones(value.shape)
        gradients = [np.zeros(a.shape), np.zeros(b.shape)]
        for index in np.ndindex(np.broadcast_shapes(a.shape[:-2], b.shape[:-2])):
            places = [index[len(index) - (x.ndim - 2) :] for x in (a, b)]
            single, pullback_one = fg.vjp(f, a[places[0]], b[places[1]])
            for total, place, part in zip(gradients, places, pullback_one(np.ones(single.shape)), strict=True):
                total[place] += part
        for found, expected in zip(pullback(ones), gradients, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


def test_factors_of_stacks_from_scipy_are_solved_with():
    stack, sides = hermitian(uniform(2, 3, 3)), uniform(3, 2)
    factors, pivots = scipy.linalg.cho_factor(stack), scipy.linalg.lu_factor(stack)
    for f in (lambda b: L.cho_solve(factors, b), lambda b: L.lu_solve(pivots, b)):
        np.testing.assert_allclose(fg.vjp(f, sides)[0], np.linalg.solve(stack, sides), rtol=1e-11)


# Errors


def stated(value):
    """Return a matrix that holds one value that is not finite."""
    x = A.copy()
    x[0, 1] = value
    return x


LINALG = np.linalg.LinAlgError
ONES = np.ones((3, 3))

BAD = [
    ("solve, shapes", L.solve, (A, np.ones(2)), ValueError, "incompatible shapes"),
    ("solve, not square", L.solve, (B, B), ValueError, "Expected square matrix"),
    ("solve, singular", L.solve, (ONES, B), LINALG, "singular matrix detected"),
    ("solve, not positive", lambda a: L.solve(a, B, assume_a="pos"), (-ONES,), LINALG, "singular matrix detected"),
    ("solve, no diagonal", lambda a: L.solve(a, B, assume_a="diagonal"), (0 * A,), LINALG, "singular matrix detected"),
    ("solve, a number", L.solve, (np.zeros((1, 1)), V), LINALG, "singular matrix detected"),
    ("solve, unknown", lambda a: L.solve(a, B, assume_a="odd"), (A,), ValueError, "odd is not a recognized matrix"),
    ("solve, transposed", lambda a: L.solve(a, B, transposed=True), (CA,), NotImplementedError, "can currently not"),
    ("solve, nan", L.solve, (stated(np.nan), B), ValueError, "array must not contain infs or NaNs"),
    ("solve, inf", lambda b: L.solve(A, b), (stated(np.inf),), ValueError, "array must not contain infs or NaNs"),
    ("solve_triangular, shapes", L.solve_triangular, (A, np.ones(2)), ValueError, "are incompatible"),
    ("solve_triangular, not square", L.solve_triangular, (B, B), ValueError, "expected square matrix"),
    ("solve_triangular, singular", L.solve_triangular, (np.diag([1.0, 0, 1]), B), LINALG, "failed at diagonal 1"),
    ("inv, singular", L.inv, (np.zeros((2, 2)),), LINALG, "singular"),
    ("inv, not square", L.inv, (B,), ValueError, "Expected square matrix"),
    ("inv, no diagonal", lambda a: L.inv(a, assume_a="diagonal"), (np.zeros((2, 2)),), LINALG, "singular"),
    ("det, not square", L.det, (B,), ValueError, "must be square"),
    ("det, a vector", L.det, (V,), ValueError, "must be at least two-dimensional"),
    ("lstsq, shapes", L.lstsq, (A, np.ones(2)), ValueError, "should have the same number of rows"),
    ("lstsq, driver", lambda a: L.lstsq(a, B, lapack_driver="no"), (A,), ValueError, 'LAPACK driver "no" is not found'),
    ("pinv, negative", lambda a: L.pinv(a, rtol=-1.0), (A,), ValueError, "atol and rtol values must be positive"),
    ("pinvh, negative", lambda a: L.pinvh(a, atol=-1.0), (A,), ValueError, "atol and rtol values must be positive"),
    ("pinvh, not square", L.pinvh, (B,), ValueError, 'expected square "a" matrix'),
    ("norm, nan", L.norm, (stated(np.nan),), ValueError, "array must not contain infs or NaNs"),
    ("solve_banded, shapes", lambda a: L.solve_banded((1, 1), a, np.ones(2)), (A,), ValueError, "not compatible"),
    ("solve_banded, bands", lambda a: L.solve_banded((2, 1), a, V), (A,), ValueError, "invalid values for the number"),
    ("solve_banded, singular", lambda a: L.solve_banded((1, 1), a, V), (0 * A,), LINALG, "singular matrix"),
    ("solveh_banded, negative", L.solveh_banded, (-ONES, V), LINALG, "leading minor not positive definite"),
    ("solveh_banded, shapes", L.solveh_banded, (A, np.ones(2)), ValueError, "not compatible"),
    ("cholesky, negative", L.cholesky, (-A.T @ A,), LINALG, "leading minor|potrf"),
    ("cholesky, not square", L.cholesky, (B,), ValueError, "square"),
    ("cho_factor, negative", L.cho_factor, (-A.T @ A,), LINALG, "leading minor|potrf"),
    ("cho_factor, not square", L.cho_factor, (B,), ValueError, "square"),
    ("cho_solve, shapes", lambda c: L.cho_solve((c, True), np.ones(2)), (A,), ValueError, "incompatible dimensions"),
    ("cho_solve, nan", lambda c: L.cho_solve((c, True), B), (stated(np.nan),), ValueError, "infs or NaNs"),
    ("lu_solve, shapes", lambda f: L.lu_solve((f, np.arange(3)), np.ones(2)), (A,), ValueError, "are incompatible"),
    ("lu, a vector", L.lu, (V,), ValueError, "must be at least two-dimensional"),
    ("lu_factor, nan", L.lu_factor, (stated(np.nan),), ValueError, "array must not contain infs or NaNs"),
    ("qr, mode", lambda a: L.qr(a, mode="no"), (A,), ValueError, "Mode argument should be one of"),
    ("eigh, not square", L.eigh, (B,), ValueError, 'expected square "a" matrix'),
    ("eigh, type", lambda a, b: L.eigh(a, b, type=4), (A, np.eye(3)), ValueError, '"type" keyword only accepts'),
    ("eigh, shapes", L.eigh, (A, np.eye(2)), ValueError, "wrong b dimensions"),
    ("eigh, subset", lambda a: L.eigh(a, subset_by_index=[1, 5]), (A,), ValueError, "indices are not valid"),
    ("eigh, driver", lambda a: L.eigh(a, driver="no"), (A,), ValueError, '"no" is unknown'),
    ("eig, not square", L.eig, (B,), ValueError, "xpected .*square matrix"),
    ("svd, driver", lambda a: L.svd(a, lapack_driver="no"), (A,), ValueError, 'lapack_driver must be "gesdd"'),
    ("svd, nan", L.svdvals, (stated(np.nan),), ValueError, "array must not contain infs or NaNs"),
    ("polar, side", lambda a: L.polar(a, "up"), (A,), ValueError, "`side` must be either"),
    ("orthogonal_procrustes, shapes", L.orthogonal_procrustes, (A, B), ValueError, "the shapes of A and B differ"),
    ("expm, not square", L.expm, (B,), LINALG, "must be square"),
    ("expm, a vector", L.expm, (V,), LINALG, "must be at least two-dimensional"),
    ("logm, not square", L.logm, (B,), ValueError, "expected a square matrix"),
    ("sqrtm, not square", L.sqrtm, (B,), LINALG, "must be square"),
    ("a power, not square", lambda a: L.fractional_matrix_power(a, 0.5), (B,), ValueError, "expected square"),
    ("sinm, not square", L.sinm, (B,), ValueError, "expected square array_like input"),
    ("tanhm, a vector", L.tanhm, (V,), ValueError, "expected square array_like input"),
    ("expm_frechet, method", lambda a: L.expm_frechet(a, a, "no"), (A,), ValueError, "Unknown implementation no"),
    ("expm_frechet, shapes", L.expm_frechet, (A, np.eye(2)), ValueError, "expected A and E to be the same shape"),
    ("expm_frechet, nan", L.expm_frechet, (A, stated(np.nan)), ValueError, "infs or NaNs"),
    ("solve_sylvester, shapes", L.solve_sylvester, (A, A, B), ValueError, "not aligned"),
    ("lyapunov, shapes", L.solve_continuous_lyapunov, (A, np.eye(2)), ValueError, "should have the same shape"),
    ("lyapunov, not square", L.solve_continuous_lyapunov, (B, B), ValueError, "should be square"),
    ("discrete, method", lambda a: L.solve_discrete_lyapunov(a, a, "no"), (A,), ValueError, "Unknown solver no"),
    (
        "are, shapes", lambda a: L.solve_continuous_are(a, np.eye(2), A, A), (A,), ValueError,
        "should have the same number of rows",
    ),
    ("are, r", lambda a: L.solve_discrete_are(a, B, np.eye(3), a), (A,), ValueError, "same number of cols"),
    ("are, s", lambda a: L.solve_discrete_are(a, B, np.eye(3), np.eye(2), s=a), (A,), ValueError, "the same shape"),
    ("are, e", lambda a: L.solve_discrete_are(a, B, np.eye(3), np.eye(2), B), (A,), ValueError, "should be square"),
    ("are, q", lambda q: L.solve_continuous_are(A, B, q, np.eye(2)), (A,), ValueError, "should be symmetric/hermitian"),
    ("solve_toeplitz, shapes", L.solve_toeplitz, (V, np.ones(2)), ValueError, "Incompatible dimensions"),
    ("solve_toeplitz, singular", L.solve_toeplitz, (np.ones(3), V), LINALG, "Singular principal minor"),
    ("matmul_toeplitz, shapes", L.matmul_toeplitz, (V, np.ones(2)), ValueError, "Incompatible dimensions"),
    ("solve_circulant, singular", L.solve_circulant, (np.ones(3), V), LINALG, "near singular circulant matrix"),
    ("solve_circulant, shapes", L.solve_circulant, (np.ones(2), V), ValueError, "are incompatible"),
    ("solve_circulant, axis", lambda c: L.solve_circulant(c, V, caxis=3), (V,), ValueError, "'caxis' entry is out of"),
    ("convolution_matrix, size", lambda a: L.convolution_matrix(a, 0), (V,), ValueError, "n must be a positive"),
    ("convolution_matrix, mode", lambda a: L.convolution_matrix(a, 2, "no"), (V,), ValueError, "'mode' argument must"),
    ("companion, short", L.companion, (V[:1],), ValueError, "must be at least 2"),
    ("companion, zero", L.companion, (np.array([0.0, 1.0]),), ValueError, "must not be zero"),
    ("fiedler_companion, zero", L.fiedler_companion, (np.array([0.0, 1.0, 2.0]),), ValueError, "coefficient is zero"),
    ("leslie, shapes", L.leslie, (V, V), ValueError, "Incorrect lengths for f and s"),
    ("khatri_rao, shapes", L.khatri_rao, (A, B), ValueError, "number of columns for both arrays should be equal"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "points", "error", "text"), identified(BAD))
def test_errors_are_scipys(f, points, error, text):
    with pytest.raises(error, match=text):
        f(*points)
    with pytest.raises(error, match=text) as caught:
        fg.vjp(f, *points)
    assert not isinstance(caught.value, errors.FgradError)


def test_an_ill_conditioned_matrix_is_warned_of():
    a = np.diag([1.0, 1e-17])
    for assume_a in ("gen", "pos"):
        for call in (lambda f: f(a), lambda f: fg.vjp(f, a)):
            with pytest.warns(scipy.linalg.LinAlgWarning, match="An ill-conditioned matrix detected"):
                call(lambda a, name=assume_a: L.solve(a, np.ones(2), assume_a=name))


def test_a_singular_equation_of_lyapunovs_is_warned_of():
    a = np.diag([1.0, -1.0])
    for call in (lambda f: f(a), lambda f: fg.vjp(f, a)):
        with pytest.warns(RuntimeWarning, match="eigenvalue pair whose sum is very close to or exactly zero"):
            call(lambda a: L.solve_continuous_lyapunov(a, np.eye(2)))


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda a: L.solve_continuous_lyapunov(a, np.eye(2)), "solve_continuous_lyapunov"),
        (lambda a: L.solve_sylvester(a, -a, np.eye(2)), "solve_sylvester"),
    ],
)
def test_a_singular_equation_has_a_value_as_in_scipy_and_no_derivative(f, name):
    a = np.diag([1.0, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        value, pullback = fg.vjp(f, a)
        np.testing.assert_allclose(value, f(a), rtol=1e-9)
        with pytest.raises(errors.NoDerivativeError, match=f"scipy.linalg.{name} has no derivative here"):
            pullback(np.ones((2, 2)))
        with pytest.raises(errors.NoDerivativeError, match=f"scipy.linalg.{name} has no derivative here"):
            fg.jvp(f, (a,), (a,))


# What is computed


@pytest.fixture
def counted(monkeypatch):
    """Count calls of LAPACK."""
    found = Counter()

    def lapack(name, char):
        found[name] += 1
        return lapacks.lapack(name, char)

    for module in (solving, matrix_equations):
        monkeypatch.setattr(module, "lapack", lapack)
    return found


def everything(f, *points):
    """Compute a value, both derivatives, and a second one."""
    gradients = fg.grad(lambda *x: np.sum(f(*x) ** 2), argnums=tuple(range(len(points))))
    gradients(*points)
    fg.jvp(lambda *x: gradients(*x)[0], points, points)


def test_a_matrix_is_factored_once(counted):
    everything(L.solve, A, B)
    assert counted["getrf"] == 2  # once for the gradient, and once for its derivative, which are two passes
    counted.clear()
    everything(lambda a, b: L.solve(a, b, assume_a="pos"), hermitian(A), B)
    assert counted["potrf"] == 2
    assert not counted["getrf"]


def test_solving_with_factors_factors_nothing(counted):
    for f in (L.solve_triangular, lambda c, b: L.cho_solve((c, False), b), lambda c, b: L.lu_solve((c, [0, 1, 2]), b)):
        counted.clear()
        everything(f, A, B)
        assert set(counted) == {"trtrs"}


def test_one_matrix_for_a_batch_is_factored_once(counted):
    sides = uniform(20, 3)
    found = fg.vmap(lambda b: L.solve(A, b))(sides)
    assert counted["getrf"] == counted["getrs"] == 1
    np.testing.assert_allclose(found, np.linalg.solve(A, sides.T).T, rtol=1e-12)


def test_sylvesters_factors_are_computed_once(monkeypatch):
    count = Counter()

    def schur(*args, **keywords):
        count["schur"] += 1
        return original(*args, **keywords)

    original = scipy.linalg.schur
    monkeypatch.setattr(scipy.linalg, "schur", schur)
    fg.grad(lambda a, b, q: np.sum(L.solve_sylvester(a, b, q)), argnums=(0, 1, 2))(A, np.eye(2), B)
    assert count["schur"] == 2
    count.clear()
    fg.grad(lambda a, q: np.sum(L.solve_continuous_lyapunov(a, q)), argnums=(0, 1))(A, A)
    assert count["schur"] == 1


# With the rest of fgrad


def test_a_graph_runs_with_other_matrices():
    def f(a, b):
        return L.solve(a, b) + L.expm(a / 9) @ b + L.lu_solve(L.lu_factor(a), b) + L.sqrtm(hermitian(a)) @ b

    graph = fg.trace(f)(A, B)
    other = A[::-1, ::-1] + 0.1
    np.testing.assert_allclose(graph(other, 2 * B), f(other, 2 * B), rtol=1e-12)
    np.testing.assert_allclose(
        fg.grad(lambda a: np.sum(graph(a, B)))(other), fg.grad(lambda a: np.sum(f(a, B)))(other), rtol=1e-9
    )


def test_a_tape_and_a_variable():
    w = fg.Variable(hermitian(A))
    with fg.GradientTape(persistent=True) as tape:
        factors = L.cho_factor(w)
        loss = np.sum(L.cho_solve(factors, B) ** 2)
        first = tape.gradient(loss, w)
    expected = fg.grad(lambda a: np.sum(L.solve(a, B, assume_a="pos") ** 2))(w.numpy())
    np.testing.assert_allclose(first, expected, rtol=1e-10)
    assert tape.gradient(first, w).shape == (3, 3)


@pytest.mark.parametrize(
    ("f", "name", "same"),
    [
        *((L.solve, each, each[:3]) for each in ("general", "symmetric", "hermitian")),
        (L.solve, "positive definite", "pos"),
        (lambda a, b, assume_a: L.inv(a, assume_a=assume_a) @ b, "general", "gen"),
        *(
            (lambda a, b, assume_a: L.solve_triangular(a, b, trans=assume_a), letter, number)
            for letter, number in (("N", 0), ("T", 1), ("C", 2))
        ),
    ],
)
def test_names_that_mean_the_same(f, name, same):
    a = definite(CA)
    found, expected = (fg.vjp(lambda a, given=given: f(a, B, assume_a=given), a) for given in (name, same))
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1](CB)[0], expected[1](CB)[0])


def test_arguments_by_name_and_those_that_are_ignored():
    a, b = definite(A), B
    expected = fg.grad(lambda a: np.sum(L.solve(a, b)))(a)
    found = fg.grad(lambda a: np.sum(L.solve(b=b, a=a, overwrite_a=True, overwrite_b=True, check_finite=False)))(a)
    np.testing.assert_array_equal(found, expected)
    kept = a.copy()
    fg.grad(lambda a: np.sum(L.inv(a, overwrite_a=True) + L.cholesky(a, overwrite_a=True)))(a)
    L.inv(Tensor(a), overwrite_a=True)
    np.testing.assert_array_equal(a, kept)


# Functions of Hermitian matrices


even = table.even


def of_values(values, is_complex=False):
    """Return a Hermitian matrix with these eigenvalues, in a basis of no special directions."""
    count = len(values)
    q = np.linalg.qr(complex_uniform(count, count) if is_complex else uniform(count, count))[0]
    return even((q * np.array(values)) @ q.conj().T)


EQUAL = {
    "all equal": [2.0, 2.0, 2.0],
    "two equal": [1.0, 1.0, 2.0],
    "two equal pairs": [1.0, 1.0, 2.0, 2.0],
    "a gap of 1e-9": [1.0, 1.0 + 1e-9, 2.0],
    "a gap of 1e-4": [1.0, 1.0 + 1e-4, 2.0],
    "a gap of 0.03": [1.0, 1.03, 1.07],
    "apart": [0.5, 1.0, 3.0],
}
"""Eigenvalues, equal and not."""


@pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize(("f", "other"), [(np.exp, L.expm), (np.log, L.logm), (np.sqrt, L.sqrtm)])
@pytest.mark.parametrize("values", EQUAL.values(), ids=EQUAL)
def test_a_function_of_equal_eigenvalues_has_the_derivatives_of_the_one_without_factors(values, f, other, is_complex):
    """Of the first and second order, also along changes that are not Hermitian: `other` does it for any matrix."""
    a = of_values(values, is_complex)
    size = len(values)
    draw = complex_uniform if is_complex else uniform
    m, change, further = draw(size, size), draw(size, size), draw(size, size)

    def loss(function):
        return lambda a: np.sum(np.real(function(a) * m))

    ours, reference = loss(lambda a: L.funm(a, f)), loss(other)
    np.testing.assert_allclose(fg.grad(ours)(a), fg.grad(reference)(a), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(
        fg.jvp(lambda a: L.funm(a, f), (a,), (change,))[1], fg.jvp(other, (a,), (change,))[1], rtol=1e-11, atol=1e-11
    )
    second = [fg.jvp(fg.grad(each), (a,), (change,))[1] for each in (ours, reference)]
    np.testing.assert_allclose(*second, rtol=1e-10, atol=1e-10)
    twice = [
        fg.jvp(lambda a, each=each: fg.jvp(each, (a,), (change,))[1], (a,), (further,))[1]
        for each in (lambda a: L.funm(a, f), other)
    ]
    np.testing.assert_allclose(*twice, rtol=1e-10, atol=1e-10)


def test_third_derivatives_at_equal_eigenvalues():
    a, e = of_values([1.0, 1.0, 2.0]), uniform(3, 3)

    def along(function):
        return lambda t: function(a + t * even(e))

    def third(f):
        return fg.jacfwd(fg.jacrev(fg.jacfwd(f)))(0.0)

    np.testing.assert_allclose(third(along(lambda a: L.funm(a, np.exp))), third(along(L.expm)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("values", EQUAL.values(), ids=EQUAL)
@pytest.mark.slow
def test_a_function_of_a_matrix_and_parameters_agrees_with_differences(values):
    a = of_values(values)
    check_derivatives(lambda a: L.funm(even(a), lambda w: 1 / (1 + w * w)), (a,), order=2)
    check_derivatives(lambda a, p: L.funm(even(a), lambda w: w**p), (a, 1.3), order=2)
    check_derivatives(
        lambda a, p: L.funm(even(a), lambda w: p[0] * np.sin(w * p[1])), (a, np.array([1.3, 0.5])), order=2
    )
    check_derivatives(lambda a: L.funm(even(a), lambda w: w / np.trace(a)), (a,), order=2)


def test_parameters_of_a_constant_matrix_are_differentiated():
    a = np.diag([4.0, 4.0, 1.0])
    power, scale = fg.Variable(0.5), fg.Variable(2.0)

    def loss():
        return np.sum(L.funm(a, lambda w: scale * w**power))

    (by_power, first), (by_scale, second) = fg.implicit_gradients(loss)()
    assert [first, second] == [power, scale]
    np.testing.assert_allclose([by_power, by_scale], [8 * np.log(4.0), 5.0], rtol=1e-12)
    mapped = fg.vmap(fg.grad(lambda p: np.trace(L.funm(a, lambda w: w**p))))(np.array([0.5, 1.0]))
    np.testing.assert_allclose(mapped, 2 * np.log(4.0) * np.array([2.0, 4.0]), rtol=1e-12)


def test_the_function_is_the_one_of_the_call():
    """What a loop binds to its name later does not matter to a pullback."""
    pullbacks = [fg.vjp(lambda a: L.funm(a, lambda w: w * number), np.eye(2))[1] for number in (1.0, 2.0)]
    for number, pullback in zip((1.0, 2.0), pullbacks, strict=True):
        np.testing.assert_allclose(pullback(np.eye(2))[0], number * np.eye(2))


def test_a_function_of_matrices_maps_over_stacks_and_examples():
    stack = np.stack([of_values(values) for values in EQUAL.values() if len(values) == 3])
    m = uniform(3, 3)
    gradient = fg.grad(lambda a: np.sum(L.funm(a, np.tanh) * m))
    one_by_one = np.stack([gradient(a) for a in stack])
    np.testing.assert_allclose(gradient(stack), one_by_one, rtol=1e-12)
    np.testing.assert_allclose(fg.vmap(gradient)(stack), one_by_one, rtol=1e-12)


def test_complex_values_of_a_real_matrix():
    a, m = of_values([1.0, 1.0, 2.0]), uniform(3, 3)
    found = [
        fg.grad(lambda a, f=f: np.sum(np.imag(f(a)) * m))(a)
        for f in (lambda a: L.funm(a, lambda w: np.exp(1j * w)), lambda a: L.expm(1j * a))
    ]
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-12)


def test_where_the_function_has_no_slope_the_derivative_is_not_finite():
    found = fg.grad(lambda a: np.sum(L.funm(a, np.sqrt)))(np.zeros((2, 2)))
    assert not np.any(np.isfinite(found))


def mp_difference(f, points):
    """Return a divided difference with equal points moved apart by much less than the last digit."""
    with mpmath.workdps(150):
        points = [mpmath.mpf(point) + place * mpmath.mpf(10) ** -25 for place, point in enumerate(sorted(points))]
        table = [f(point) for point in points]
        for width in range(1, len(points)):
            table = [(table[i + 1] - table[i]) / (points[i + width] - points[i]) for i in range(len(table) - 1)]
        return float(table[0])


@pytest.mark.parametrize("scale", [1e-5, 1.0, 30.0])
@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-8, 1e-5, 1e-3, 1e-2, 0.1, 0.3, 1.0])
@pytest.mark.parametrize(
    ("derivative", "f"),
    [
        (lambda n, x: np.exp(x), mpmath.exp),
        (lambda n, x: np.log(x) if n == 0 else -((-1.0) ** n) * float(mpmath.factorial(n - 1)) / x**n, mpmath.log),
        (lambda n, x: float(mpmath.ff(0.5, n)) * x ** (0.5 - n), mpmath.sqrt),
    ],
    ids=["exp", "log", "sqrt"],
)
def test_divided_differences_of_close_and_equal_points(derivative, f, gap, scale):
    for pattern, tolerance in (
        ([0, 1], 1e-12), ([0, 1, 0.5], 1e-12), ([0, 0, 1], 1e-12), ([0, 0, 0], 1e-12),
        ([0, 1, 0.5, 0.1], 1e-10), ([0, 0, 1, 1], 1e-10),
    ):  # fmt: skip
        points = scale * (1 + gap * np.array(pattern))
        np.testing.assert_allclose(divided_differences(derivative, points), mp_difference(f, points), rtol=tolerance)


# Dtypes, shapes and errors as SciPy's


@pytest.mark.parametrize("method", ["SPS", "blockEnlarge"])
@pytest.mark.parametrize(("of_matrix", "of_direction"), ["dd", "dD", "Dd", "ff", "fF", "fd"])
def test_exponential_and_direction_have_scipys_dtypes(method, of_matrix, of_direction):
    a, e = uniform(3, 3).astype(of_matrix), uniform(2, 3, 3).astype(of_direction)
    expected = scipy.linalg.expm_frechet(a, e, method)
    found = fg.jvp(lambda a: L.expm_frechet(a, e, method), (a,), (a,))[0]
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", ["polar", "tanm", "tanhm"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nonfinite_matrices_are_refused_as_by_scipy(name, value):
    a = np.array([[1.0, value], [0.0, 1.0]])
    for function in (getattr(scipy.linalg, name), lambda a: fg.vjp(getattr(L, name), a)):
        with pytest.raises(ValueError, match="infs or NaNs"):
            function(a)


@pytest.mark.parametrize(("count", "other"), [(0, 0), (0, 3), (3, 0)])
@pytest.mark.parametrize("name", ["toeplitz", "hankel"])
def test_matrices_of_empty_vectors_have_scipys_shape(name, count, other):
    c, r = np.ones(count), np.ones(other)
    expected = getattr(scipy.linalg, name)(c, r)
    value, pullback = fg.vjp(getattr(L, name), c, r)
    assert value.shape == expected.shape
    assert [each.shape for each in pullback(expected)] == [c.shape, r.shape]


def test_a_circulant_matrix_of_nothing_is_empty():
    assert fg.vjp(L.circulant, np.ones((2, 0)))[0].shape == scipy.linalg.circulant(np.ones((2, 0))).shape


@pytest.mark.parametrize("function", [lambda w: w * np.float64(2), lambda w: w * 2j])
def test_a_function_of_a_matrix_has_its_precision(function):
    a = hermitian(uniform(3, 3)).real.astype(np.float32)
    value, pullback = fg.vjp(lambda a: L.funm(a, function), a)
    assert value.dtype == scipy.linalg.funm(a, function).dtype
    assert pullback(value)[0].dtype == np.float32


def test_a_function_of_a_matrix_compiles():
    a = np.array([[2.0, 1.0], [1.0, 3.0]])

    def raised(a, p=2.0):
        return L.funm(a, lambda w: w**p + np.exp(w))[0, 1]

    for function in (raised, fg.grad(raised), fg.grad(raised, 1), fg.hessian(raised)):
        compiled = fg.compile(function)
        for scale in (1.0, 0.5):
            np.testing.assert_allclose(compiled(scale * a, 1.5), function(scale * a, 1.5), rtol=1e-12)


def test_a_random_number_in_the_function_of_a_matrix_is_not_frozen():
    rng = np.random.default_rng(0)

    def scaled(a):
        factor = rng.random()
        return L.funm(a, lambda w: factor * w)

    with pytest.raises(errors.FrozenValueError, match="in the operation funm"):
        fg.compile(scaled)(np.eye(2))
