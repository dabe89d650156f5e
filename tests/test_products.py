"""Products: of vectors, matrices and tensors, by every name that NumPy has outside of `linalg`."""

import re

import numpy as np
import pytest
from rows import check_row, identified

import fgrad as fg
import fgrad.numpy as fnp
import fgrad.scipy.signal
from fgrad import errors
from fgrad.core.tensor import Tensor
from fgrad.testing import check_grads

RNG = np.random.default_rng(4)
V = RNG.uniform(0.3, 1.5, 3)
M = RNG.uniform(0.3, 1.5, (2, 3))
N = RNG.uniform(0.3, 1.5, (3, 2))
C = RNG.uniform(0.3, 1.5, (4, 2, 3))
D = RNG.uniform(0.3, 1.5, (4, 3, 2))
X = np.array(0.7)
Z = V + 1j * V[::-1]
ZM = M + 1j * M[::-1]

ROWS = [
    ("dot", np.dot, M, N),
    ("dot of numbers", np.dot, X, M),
    ("dot of many axes", np.dot, C, N),
    ("dot with a list", lambda x: np.dot([1.0, 2.0, 3.0], x), V),
    ("inner", np.inner, M, C),
    ("inner of vectors", np.inner, Z, Z[::-1]),
    ("outer", np.outer, M, V),
    ("vdot", np.vdot, Z, Z[::-1]),
    ("vdot of matrices", np.vdot, M, M[::-1]),
    ("vecdot", np.vecdot, M, V),
    ("vecdot axis", lambda x, y: np.vecdot(x, y, axis=0), M, M[::-1]),
    ("vecdot axes", lambda x, y: np.vecdot(x, y, axes=[0, 1, ()]), N, M),
    ("vecdot keepdims", lambda x, y: np.vecdot(x, y, axis=1, keepdims=True), C, C[::-1]),
    ("vecdot of complex numbers", np.vecdot, ZM, Z),
    ("matvec", np.matvec, M, V),
    ("matvec of many", np.matvec, C, V),
    ("matvec axes", lambda x, y: np.matvec(x, y, axes=[(1, 0), 0, 0]), C, RNG.uniform(0.3, 1.5, (4, 3))),
    ("matvec of complex numbers", np.matvec, ZM, Z),
    ("vecmat", np.vecmat, V, N),
    ("vecmat of many", np.vecmat, V, D),
    ("vecmat of complex numbers", np.vecmat, Z, ZM.T),
    ("matmul", np.matmul, C, N),
    ("matmul axes", lambda x, y: np.matmul(x, y, axes=[(1, 2), (2, 1), (0, 1)]), C, C[::-1]),
    ("matmul dtype", lambda x, y: np.matmul(x, y, dtype=np.complex128), M, N),
    ("matmul of complex numbers", np.matmul, ZM, ZM.T),
    ("kron", np.kron, M, N),
    ("kron of different shapes", np.kron, V, C),
    ("kron with a number", np.kron, X, M),
    ("kron of complex numbers", np.kron, Z, ZM),
    ("cross", np.cross, V, V[::-1]),
    ("cross of many", np.cross, C, V),
    ("cross axis", lambda x, y: np.cross(x, y, axis=0), N, N[::-1]),
    ("cross axes", lambda x, y: np.cross(x, y, axisa=0, axisb=1, axisc=0), N, M),
    ("cross of complex numbers", np.cross, Z, Z[::-1] ** 2),
    ("trace of a product", lambda x, y: np.trace(x @ y), M, N),
    ("tensordot", lambda x, y: np.tensordot(x, y, axes=([1, 2], [1, 0])), C, N.reshape(3, 2, 1)),
    ("tensordot negative axes", lambda x, y: np.tensordot(x, y, axes=([-1], [0])), C, N),
    ("tensordot 2", lambda x, y: np.tensordot(x, y), C, M[:, :, None]),
    ("einsum", lambda x, y: np.einsum("bij,kj->bki", x, y), C, M),
    ("einsum ellipsis", lambda x, y: np.einsum("...ij,j->...i", x, y), C, V),
    ("einsum broadcast", lambda x, y: np.einsum("...i,...i", x, y), C, V),
    ("einsum implicit", lambda x, y: np.einsum("ij,ji", x, y), M, N),
    ("einsum diagonal", lambda x: np.einsum("ii->i", x), C[0] @ D[0]),
    ("einsum trace with free axes", lambda x: np.einsum("iij->j", x), C[:2, :, :]),
    ("einsum transposed", lambda x: np.einsum("ij->ji", x), M),
    ("einsum sum over an axis", lambda x: np.einsum("ijk->ik", x), C),
    ("einsum optimize", lambda x, y, z: np.einsum("ij,jk,k->i", x, y, z, optimize=True), M, N, V[:2]),
    ("einsum optimal", lambda x, y: np.einsum("ij,jk,kl->il", x, y, M, optimize="optimal"), M, N),
    ("einsum by a path", lambda x, y: np.einsum("ij,jk->ik", x, y, optimize=["einsum_path", (0, 1)]), M, N),
    ("einsum sublists", lambda x, y: np.einsum(x, [0, 1, 2], y, [2, 3], [0, 3]), C, N),
    ("einsum sublists implicit", lambda x, y: np.einsum(x, [1, 0], y, [0, 2]), M, N),
    ("einsum sublists ellipsis", lambda x, y: np.einsum(x, [..., 0], y, [..., 0], [...]), C, V),
    ("einsum of lists", lambda x: np.einsum("i,i", x, [1.0, 2.0, 3.0]), V),
    ("einsum dtype", lambda x: np.einsum("ij->i", x, dtype=np.complex128, casting="safe"), M),
    ("einsum of complex numbers", lambda x, y: np.einsum("ij,j->i", x, y), ZM, Z),
    ("einsum of one operand three times", lambda x: np.einsum("i,i,i->", x, x, x), V),
]


@pytest.mark.parametrize("row", [pytest.param(row[1:], id=row[0]) for row in ROWS])
def test_values_and_derivatives(row):
    check_row(*row)


def test_rows_have_names_of_their_own():
    assert len(identified(ROWS)) == len(ROWS)


def test_results_in_out():
    def f(x):
        out = fnp.zeros((2, 2))
        np.dot(x, N, out=out)
        np.matmul(x, N, out=out)
        np.einsum("ij,jk->ik", x, N, out=out)
        return np.outer(out, x, out=fnp.zeros((4, 6)))

    check_grads(f, (M,))
    for name, call in [
        ("dot", lambda x: np.dot(x, N, out=np.zeros((2, 2)))),
        ("matmul", lambda x: np.matmul(x, N, out=np.zeros((2, 2)))),
        ("einsum", lambda x: np.einsum("ij,jk->ik", x, N, out=np.zeros((2, 2)))),
        ("outer", lambda x: np.outer(x, N, out=np.zeros((6, 6)))),
        ("vecdot", lambda x: np.vecdot(x, x, out=np.zeros(2))),
    ]:
        with pytest.raises(errors.InPlaceError, match=f"np.{name} would write a tensor into a plain NumPy array"):
            fg.grad(call)(M)


REFUSED = [
    lambda x: np.vecdot(1.0, x[0, 0]), lambda x: np.matvec(x[0], x[0]), lambda x: np.vecmat(x, x[0]),
    lambda x: np.cross(x[0, :1], x[0, :1]), lambda x: np.cross(x, x, axis=5), lambda x: np.kron(x, None),
    lambda x: np.einsum("ij,k", x), lambda x: np.einsum("ij->i", x, dtype=np.int32),
    lambda x: np.tensordot(x, x, axes=1), lambda x: np.dot(x, x), lambda x: np.inner(x, x.T),
]  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_what_numpy_refuses(call):
    with pytest.raises((ValueError, TypeError)) as numpys:
        call(M)
    with pytest.raises(type(numpys.value)):
        fg.vjp(call, M)


@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors")
def test_cross_of_vectors_in_the_plane():
    try:
        expected = np.cross(M[:, :2], V[:2])
    except ValueError as numpys:
        with pytest.raises(ValueError, match=str(numpys)[:20]):
            fg.vjp(lambda x: np.cross(x, V[:2]), M[:, :2])
        return
    np.testing.assert_allclose(np.cross(Tensor(M[:, :2]), V[:2]), expected)
    np.testing.assert_allclose(np.cross(Tensor(M[:, :2]), V), np.cross(M[:, :2], V))
    check_grads(lambda x: np.cross(x, V[:2]), (M[:, :2],))
    check_grads(lambda x: np.cross(x, V), (M[:, :2],))


def test_a_path_is_that_of_arrays():
    assert np.einsum_path("ij,jk,kl->il", Tensor(M), N, M)[0] == np.einsum_path("ij,jk,kl->il", M, N, M)[0]
    fg.grad(lambda x: np.sum(np.einsum("ij,jk->ik", x, N, optimize=np.einsum_path("ij,jk->ik", x, N)[0])))(M)


@pytest.mark.filterwarnings("ignore:the gradient of")  # of integers
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "f2", "i4"])
@pytest.mark.parametrize("shape", [(1,), (3,), (1, 2), (2, 2), (2, 1, 2)])
def test_products_with_a_number_keep_numpys_sign_of_zero(shape, dtype):
    """BLAS adds vectors and matrices to zeros, where -0.0 becomes 0.0; what is no vector or matrix is multiplied."""
    x = np.full(shape, -1).astype(dtype)
    for function in (lambda x: np.dot(x, 0), lambda x: np.dot(0, x), lambda x: np.inner(x, 0)):
        wanted = function(x)
        for found in (function(Tensor(x)), fg.vjp(function, x)[0], fg.vmap(function)(np.stack([x, x]))[0]):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(np.signbit(np.real(found)), np.signbit(np.real(wanted)))


# What a mask leaves out

LARGE = np.random.default_rng(7).uniform(0.3, 1.5, (4, 3, 3))


def _with_infinities(x):
    """Return an array with an infinity and a NaN, and the same with finite numbers in their places."""
    bad = x.copy()
    bad.flat[0], bad.flat[-1] = np.inf, np.nan
    return bad, np.where(np.isfinite(bad), bad, 7.0)


MASKED = [
    ("matmul of vectors", np.matmul, V, V),
    ("matmul with a vector", np.matmul, LARGE[0], V),
    ("matmul of a vector", lambda a, x: x @ a, LARGE[0], V),
    ("matmul", np.matmul, LARGE[0], N),
    ("matmul of many", np.matmul, C, N),
    ("matmul of many with many", np.matmul, C, D),
    ("matmul of a vector with many", lambda a, x: x @ a, C, V[:2]),
    ("dot", np.dot, M, N),
    ("dot of many axes", np.dot, C, N),
    ("vdot", np.vdot, V, V[::-1]),
    ("inner", np.inner, M, C[0]),
    ("outer", np.outer, V, V),
    ("vecdot", np.vecdot, M, V),
    ("tensordot", lambda a, x: np.tensordot(a, x, axes=([1, 2], [1, 0])), C, N),
    ("einsum", lambda a, x: np.einsum("ij,jk->ik", a, x), M, N),
    ("einsum of three", lambda a, x: np.einsum("ij,jk,k->i", a, x, V[:2]), M, N),
    ("einsum of one twice", lambda a, x: np.einsum("ij,j,j->i", a, x, x), M, V),
    ("einsum with a diagonal", lambda a, x: np.einsum("ij,jj->i", a, x), M, LARGE[0]),
    ("kron", np.kron, M, V),
    ("cross", np.cross, LARGE[0], V),
    ("convolve", np.convolve, np.arange(1.0, 8.0), V),
    ("convolve with the longer", lambda a, x: np.convolve(x, a, "same"), V, np.arange(1.0, 8.0)),
    ("correlate", lambda a, x: np.correlate(a, x, "full"), np.arange(1.0, 8.0), V),
    ("trace of a product", lambda a, x: np.trace(a @ x), M, N),
    ("multi_dot", lambda a, x: np.linalg.multi_dot([x.T, a, x]), LARGE[0], N),
    ("matrix power", lambda a, x: np.linalg.matrix_power(x, 2) @ a, LARGE[0], LARGE[1]),
    ("prod", lambda a, x: np.prod(a * x, axis=1), M, V),
    ("fourier transforms", lambda a, x: fgrad.scipy.signal.fftconvolve(a, x), np.arange(1.0, 8.0), V),
]
MASKED_AS_A_WHOLE = [
    ("det", lambda a, x: np.linalg.det(a * x)[:, None, None], LARGE[:3], V),
    ("slogdet", lambda a, x: np.linalg.slogdet(a * x)[1][:, None, None], LARGE[:3], V),
    ("inv", lambda a, x: np.linalg.inv(a * x), LARGE[:3], V),
    ("solve", lambda a, x: np.linalg.solve(a, x[:, None]), LARGE[:3], V),
    ("solve for both", lambda a, x: np.linalg.solve(a * x, x[:, None]), LARGE[:3], V),
    ("cholesky", lambda a, x: np.linalg.cholesky(a * x[0] + 5.0 * np.eye(3)), LARGE[:3], V),
]
MASKED_CASES = [
    *(pytest.param(*row[1:], (), id=row[0]) for row in MASKED),
    *(pytest.param(*row[1:], (-2, -1), id=row[0]) for row in MASKED_AS_A_WHOLE),
]


@pytest.mark.parametrize(("function", "a", "x", "axes"), MASKED_CASES)
@np.errstate(all="ignore")
def test_what_a_mask_leaves_out_contributes_nothing(function, a, x, axes):
    """Infinities that are used nowhere might as well be other numbers: in both modes, twice, and example by example."""
    bad, finite = _with_infinities(a)
    is_used = np.all(np.isfinite(bad), axis=axes, keepdims=True) if axes else np.isfinite(function(bad, x))

    def loss(a, x):
        return np.sum(np.where(is_used, function(a, x) ** 2, 0.0))

    def weighed(a, x):
        return np.sum(fg.grad(loss, argnums=1)(a, x) * np.cos(np.arange(x.size)).reshape(x.shape))

    for order in (loss, weighed):
        expected = fg.grad(order, argnums=(0, 1))(finite, x)
        for mode in (fg.grad, fg.jacfwd):
            found = mode(order, argnums=(0, 1))(bad, x)
            for each, wanted in zip(found, expected, strict=True):
                np.testing.assert_allclose(each, wanted, rtol=1e-9, atol=1e-9)
        of_both = fg.vmap(fg.grad(order, argnums=1), in_axes=(0, None))(np.stack([finite, bad]), x)
        np.testing.assert_allclose(of_both, np.stack([expected[1]] * 2), rtol=1e-9, atol=1e-9)


@np.errstate(all="ignore")
def test_an_infinity_that_a_product_uses_stays():
    weights = np.array([[np.inf, 1.0], [2.0, 3.0], [-np.inf, 4.0]])

    def of_rows(*rows):
        return lambda x: np.sum(np.where(np.isin([0, 1, 2], rows), weights @ x, 0.0))

    for gradient in (fg.grad, fg.jacfwd):
        np.testing.assert_array_equal(gradient(of_rows(0, 1))(np.ones(2)), [np.inf, 4.0])
        np.testing.assert_array_equal(gradient(of_rows(1, 2))(np.ones(2)), [-np.inf, 7.0])
        np.testing.assert_array_equal(gradient(of_rows(0, 2))(np.ones(2)), [np.nan, 5.0])
        np.testing.assert_array_equal(gradient(of_rows(1))(np.ones(2)), [2.0, 3.0])
        np.testing.assert_array_equal(gradient(lambda x: weights[0] @ x)(np.ones(2)), [np.inf, 1.0])
    roots = fg.grad(lambda x: np.ones(2) @ np.where([True, False], np.sqrt(x), 0.0))(np.zeros(2))
    np.testing.assert_array_equal(roots, [np.inf, 0.0])
    complex_ones = fg.grad(lambda x: np.sum(np.where([False, True], np.real((weights[:2] * 1j) @ (1j * x)), 0.0)))
    np.testing.assert_array_equal(complex_ones(np.ones(2)), [-2.0, -3.0])


def _rotation(vector):
    """Return the matrix that turns by a vector: Rodrigues' formula, and its series next to 0."""
    angle = np.linalg.norm(vector)

    def crossing(v):
        turns = np.zeros((3, 3, 3))
        turns[[2, 0, 1], [1, 2, 0], [0, 1, 2]], turns[[1, 2, 0], [2, 0, 1], [0, 1, 2]] = 1.0, -1.0
        return turns @ v

    k, w = crossing(vector / angle), crossing(vector)
    formula = np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k
    return np.where(angle > 0, formula, np.eye(3) + w + w @ w / 2)


@np.errstate(all="ignore")
def test_a_rotation_by_nothing():
    def loss(vector):
        return np.array([1.0, -2.0, 0.5]) @ _rotation(vector) @ np.array([1.0, 2.0, 3.0])

    near, at = np.full(3, 1e-4), np.zeros(3)
    for derivative in (fg.grad, fg.jacfwd, fg.hessian):
        np.testing.assert_allclose(derivative(loss)(at), derivative(loss)(near), atol=1e-2)
        both = fg.vmap(derivative(loss))(np.stack([at, near]))
        np.testing.assert_allclose(both, np.stack([derivative(loss)(at), derivative(loss)(near)]), atol=1e-6)


@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_what_is_no_mode_is_refused_as_numpy_does(name):
    function = getattr(np, name)
    for mode in (np.array([1, 2]), [1], "other", 7):
        with pytest.raises(Exception) as expected:  # noqa: PT011  # whichever NumPy raises
            function(V, V, mode)
        with pytest.raises(expected.type, match=re.escape(str(expected.value))):
            fg.grad(lambda x, mode=mode: np.sum(function(x, V, mode)))(V)
