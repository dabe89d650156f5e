"""All of `numpy.linalg`: each way to call it, where a derivative needs care, and where there is none."""

import inspect
import itertools
import re
import warnings

import numpy as np
import pytest
from helpers import grouped, naming
from rows import check_row, identified

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.primitive import FUNCTIONS
from fgrad.core.tensor import Tensor
from fgrad.ops import equations, factorizations, solving
from fgrad.ops.tracing import raw_arrays
from fgrad.scipy import linalg as fsl
from fgrad.testing import check_grads

L = np.linalg
RNG = np.random.default_rng(1)


def uniform(*shape):
    return RNG.uniform(-1, 1, shape)


def complex_uniform(*shape):
    return uniform(*shape) + 1j * uniform(*shape)


def positive(x):
    """Return a positive definite matrix near one with eigenvalues that are well apart."""
    return x @ x.conj().swapaxes(-1, -2) * 0.3 + np.diag(np.arange(1.0, x.shape[-1] + 1))


S, T, W = uniform(3, 3) + np.diag([3.0, -2.0, 1.5]), uniform(4, 2), uniform(2, 4)
SS, TT = uniform(2, 3, 3) + np.diag([3.0, -2.0, 1.5]), uniform(2, 4, 2)
CS, CT, CSS = complex_uniform(3, 3) + np.diag([3.0, -2.0, 1.5j]), complex_uniform(4, 2), complex_uniform(2, 3, 3)
P, CP, PP = positive(uniform(3, 3)), positive(complex_uniform(3, 3)), positive(uniform(2, 3, 3))
H, CH = uniform(3, 3) + np.diag([1.0, -3.0, 5.0]), complex_uniform(3, 3) + np.diag([1.0, -3.0, 5.0])
REAL_VALUES = np.array([[1.0, 0.4, 0.2], [0.3, 3.0, 0.5], [0.1, 0.2, 6.0]])
B, V, CB = uniform(3, 2), uniform(3), complex_uniform(3, 2)
ONE, NONE = np.array([[1.7]]), np.zeros((0, 0))
CUBE = uniform(2, 3, 4)


def phaseless(f):
    """Return a function of values and vectors that no phase of a vector changes."""

    def g(x):
        result = f(x)
        return result[0], np.abs(result[1]) ** 2, outer_products(result[1])

    return g


def outer_products(v):
    return v[..., :, None, :] * np.conj(v[..., None, :, :])


def singular_parts(x, full=False):
    u, s, vh = L.svd(x, full_matrices=full)
    size = s.shape[-1]
    return s, np.abs(u[..., :size]) ** 2, u[..., :, :size] @ vh[..., :size, :]


ROWS = [
    ("solve", L.solve, S, B),
    ("solve a vector", L.solve, S, V),
    ("solve stacks", L.solve, SS, B),
    ("solve with one matrix", L.solve, S, uniform(2, 3, 2)),
    ("solve stacks, broadcast", L.solve, SS[:, None], uniform(1, 3, 3, 1)),
    ("solve a vector with stacks", L.solve, SS, V),
    ("solve, complex", L.solve, CS, CB),
    ("solve, complex and real", L.solve, CS, B),
    ("solve, 1 by 1", L.solve, ONE, ONE),
    ("solve, empty", L.solve, NONE, np.zeros((0, 2))),
    ("solve for a number of right-hand sides", lambda b: L.solve(S, b), B),
    ("inv", L.inv, S),
    ("inv of stacks", L.inv, SS),
    ("inv, complex", L.inv, CS),
    ("inv, 1 by 1", L.inv, ONE),
    ("inv, empty", L.inv, NONE),
    ("pinv, square", L.pinv, S),
    ("pinv, tall", L.pinv, T),
    ("pinv, wide", L.pinv, W),
    ("pinv of stacks", L.pinv, TT),
    ("pinv, complex", L.pinv, CT),
    ("pinv, complex and wide", L.pinv, CT.T),
    ("pinv with rcond", lambda x: L.pinv(x, 1e-8), T),
    ("pinv with rtol", lambda x: L.pinv(x, rtol=1e-8), T),
    ("pinv with rtol=None", lambda x: L.pinv(x, rtol=None), T),
    ("pinv, Hermitian", lambda x: L.pinv(x, hermitian=True), H),
    ("pinv, complex Hermitian", lambda x: L.pinv(x, hermitian=True), CH),
    ("lstsq, tall", lambda a, b: L.lstsq(a, b)[:2], uniform(5, 3), uniform(5, 2)),
    ("lstsq, a vector", lambda a, b: L.lstsq(a, b)[:2], uniform(5, 3), uniform(5)),
    ("lstsq, wide", lambda a, b: L.lstsq(a, b)[0], uniform(3, 5), uniform(3, 2)),
    ("lstsq, square", lambda a, b: L.lstsq(a, b)[0], S, V),
    ("lstsq, complex", lambda a, b: L.lstsq(a, b)[:2], complex_uniform(5, 3), complex_uniform(5, 2)),
    ("lstsq, singular values", lambda a, b: L.lstsq(a, b)[3], uniform(5, 3), uniform(5, 2)),
    ("lstsq, everything", lambda a, b: [L.lstsq(a, b, rcond=1e-10)[i] for i in (0, 1, 3)], T, uniform(4)),
    ("tensorsolve", L.tensorsolve, uniform(2, 3, 6) + np.eye(6).reshape(2, 3, 6), uniform(2, 3)),
    ("tensorsolve with axes", lambda a, b: L.tensorsolve(a, b, axes=(0, 2)), uniform(2, 6, 3), uniform(6)),
    ("tensorinv", lambda a: L.tensorinv(a, ind=1), uniform(6, 2, 3)),
    ("tensorinv of two", L.tensorinv, uniform(3, 2, 2, 3)),
    ("det", L.det, S),
    ("det of stacks", L.det, SS),
    ("det, complex", L.det, CS),
    ("det, 1 by 1", L.det, ONE),
    ("det, empty", L.det, NONE),
    ("slogdet", L.slogdet, S),
    ("slogdet of stacks", L.slogdet, SS),
    ("slogdet, complex", L.slogdet, CS),
    ("slogdet, 1 by 1", L.slogdet, -ONE),
    ("slogdet, its logarithm", lambda x: L.slogdet(x).logabsdet, S),
    ("cholesky", L.cholesky, P),
    ("cholesky of stacks", L.cholesky, PP),
    ("cholesky, complex", L.cholesky, CP),
    ("cholesky, upper", lambda x: L.cholesky(x, upper=True), P),
    ("cholesky, complex and upper", lambda x: L.cholesky(x, upper=True), CP),
    ("cholesky, 1 by 1", L.cholesky, ONE),
    ("cholesky, empty", L.cholesky, NONE),
    ("qr, square", L.qr, S),
    ("qr, tall", L.qr, T),
    ("qr, wide", L.qr, W),
    ("qr of stacks", L.qr, TT),
    ("qr, complex", L.qr, CT),
    ("qr, complex and wide", L.qr, CT.T),
    ("qr, only r", lambda x: L.qr(x, mode="r"), T),
    ("qr, only r, wide", lambda x: L.qr(x, "r"), W),
    ("qr, complete and square", lambda x: L.qr(x, mode="complete"), S),
    ("qr, complete and wide", lambda x: L.qr(x, mode="complete"), W),
    ("qr, only q", lambda x: L.qr(x).Q, T),
    ("qr, 1 by 1", L.qr, ONE),
    ("eigh", L.eigh, H),
    ("eigh, upper", lambda x: L.eigh(x, UPLO="U"), H),
    ("eigh of stacks", L.eigh, PP),
    ("eigh, complex", phaseless(L.eigh), CH),
    ("eigh, complex and upper", phaseless(lambda x: L.eigh(x, "U")), CH),
    ("eigh, 1 by 1", L.eigh, ONE),
    ("eigh, only vectors", lambda x: L.eigh(x).eigenvectors, H),
    ("eigvalsh", L.eigvalsh, H),
    ("eigvalsh, upper", lambda x: L.eigvalsh(x, "u"), H),
    ("eigvalsh, complex", L.eigvalsh, CH),
    ("eigvalsh of stacks", L.eigvalsh, PP),
    ("eigvalsh, empty", L.eigvalsh, NONE),
    ("eig, real values", L.eig, REAL_VALUES),
    ("eig of stacks", L.eig, np.stack([REAL_VALUES, REAL_VALUES.T])),
    ("eig, complex values", phaseless(L.eig), np.array([[1.0, 2.0, 0.3], [-1.5, 0.5, 0.2], [0.1, 0.4, 3.0]])),
    ("eig, complex", phaseless(L.eig), CS),
    ("eig, 1 by 1", L.eig, ONE),
    ("eigvals", L.eigvals, REAL_VALUES),
    ("eigvals, complex values", L.eigvals, np.array([[1.0, 2.0], [-1.5, 0.5]])),
    ("eigvals, complex", L.eigvals, CS),
    ("svd", L.svd, S),
    ("svd, tall", lambda x: L.svd(x, full_matrices=False), T),
    ("svd, wide", lambda x: L.svd(x, full_matrices=False), W),
    ("svd of stacks", lambda x: L.svd(x, full_matrices=False), TT),
    ("svd, complex", singular_parts, CS),
    ("svd, complex and tall", singular_parts, CT),
    ("svd, complex and wide", singular_parts, CT.T),
    ("svd, full and tall", lambda x: singular_parts(x, full=True), T),
    ("svd, full, its added vectors", lambda x: added_projection(L.svd(x)), T),
    ("svd, full and wide", lambda x: added_projection(L.svd(x)), W),
    ("svd, full and complex", lambda x: added_projection(L.svd(x)), CT),
    ("svd, full, complex and wide", lambda x: added_projection(L.svd(x)), CT.T),
    ("svd, only u", lambda x: L.svd(x).U, S),
    ("svd, only vh", lambda x: L.svd(x, full_matrices=False).Vh, W),
    ("svd without vectors", lambda x: L.svd(x, compute_uv=False), T),
    ("svd, Hermitian", lambda x: L.svd(x, hermitian=True), H),
    ("svd, Hermitian without vectors", lambda x: L.svd(x, compute_uv=False, hermitian=True), H),
    ("svd, complex Hermitian", lambda x: L.svd(x, compute_uv=False, hermitian=True), CH),
    ("svd, 1 by 1", L.svd, ONE),
    ("svd, empty", lambda x: L.svd(x, full_matrices=False), np.zeros((0, 3))),
    ("svdvals", L.svdvals, T),
    ("svdvals, complex", L.svdvals, CT),
    ("svdvals of stacks", L.svdvals, TT),
    ("matrix_power 3", lambda x: L.matrix_power(x, 3), S),
    ("matrix_power 1", lambda x: L.matrix_power(x, 1), S),
    ("matrix_power 0", lambda x: L.matrix_power(x, 0) + x, S),
    ("matrix_power 7", lambda x: L.matrix_power(x / 3, 7), SS),
    ("matrix_power -2", lambda x: L.matrix_power(x, np.int64(-2)), CS),
    ("multi_dot", lambda a, b, c: L.multi_dot([a, b, c]), T, W, uniform(4, 3)),
    ("multi_dot of two", lambda a, b: L.multi_dot([a, b]), T, W),
    ("multi_dot of four", lambda a, b, c: L.multi_dot([a, b, c, b]), T, W, uniform(4, 2)),
    ("multi_dot with vectors", lambda a, b, c: L.multi_dot([a, b, c]), uniform(4), T, uniform(2)),
    ("multi_dot from a vector", lambda a, b, c: L.multi_dot([a, b, c]), uniform(4), T, W),
    ("multi_dot to a vector", lambda a, b, c: L.multi_dot([a, b, c]), W, T, uniform(2)),
    ("matmul", L.matmul, CUBE, uniform(4, 2)),
    ("tensordot", lambda a, b: L.tensordot(a, b, axes=([1], [0])), CUBE, B),
    ("outer", L.outer, V, uniform(4)),
    ("outer, complex", L.outer, CB[:, 0], CB[:, 1]),
    ("cross", L.cross, uniform(2, 3), V),
    ("cross along an axis", lambda a, b: L.cross(a, b, axis=0), uniform(3, 2), uniform(3, 2)),
    ("vecdot", L.vecdot, CUBE, uniform(4)),
    ("vecdot, complex", L.vecdot, CB, CB * 1j + 1),
    ("vecdot along an axis", lambda a, b: L.vecdot(a, b, axis=0), B, uniform(3, 2)),
    ("trace", L.trace, CUBE),
    ("trace with an offset", lambda x: L.trace(x, offset=1), CUBE),
    ("diagonal", L.diagonal, CUBE),
    ("diagonal with an offset", lambda x: L.diagonal(x, offset=-1), CUBE),
    ("matrix_transpose", L.matrix_transpose, CUBE),
    ("cond", L.cond, T),
    *((f"cond {p!r}", lambda x, p=p: L.cond(x, p), S) for p in (2, -2, "fro", "nuc", 1, -1, np.inf, -np.inf)),
    ("cond of stacks", L.cond, TT),
    ("cond of stacks, 1", lambda x: L.cond(x, 1), SS),
    ("cond, complex", lambda x: L.cond(x, 1), CS),
    ("norm", L.norm, V),
    ("norm of a matrix", L.norm, CT),
    ("norm of many axes", lambda x: L.norm(x, keepdims=True), CUBE),
    ("norm of a number", L.norm, np.array(-2.0)),
    *(
        (f"norm {p!r} of a vector", lambda x, p=p: L.norm(x, p), V)
        for p in (1, 2, 3, 2.5, 0.5, -1, -2.0, np.inf, -np.inf)
    ),
    *((f"norm {p!r} of complex numbers", lambda x, p=p: L.norm(x, p), CB[:, 0]) for p in (1, 2, 3, 0.5, np.inf)),
    *(
        (f"norm {p!r} along an axis", lambda x, p=p: L.norm(x, p, axis=1, keepdims=True), T)
        for p in (None, 1, 3, -np.inf)
    ),
    *(
        (f"norm {p!r} of a matrix", lambda x, p=p: L.norm(x, p), T)
        for p in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    ),
    *(
        (f"norm {p!r} of matrices in axes", lambda x, p=p: L.norm(x, p, axis=(2, 0), keepdims=True), CUBE)
        for p in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    ),
    ("norm 2 of a complex matrix", lambda x: L.norm(x, 2), CT),
    ("norm nuc of a complex matrix", lambda x: L.norm(x, "nuc"), CT),
    ("vector_norm", L.vector_norm, CUBE),
    ("vector_norm along axes", lambda x: L.vector_norm(x, axis=(2, 0), keepdims=True, ord=3), CUBE),
    ("vector_norm along an axis", lambda x: L.vector_norm(x, axis=1, ord=1), CUBE),
    ("vector_norm of all, kept", lambda x: L.vector_norm(x, keepdims=True, ord=np.inf), T),
    ("matrix_norm", L.matrix_norm, CUBE),
    ("matrix_norm nuc", lambda x: L.matrix_norm(x, keepdims=True, ord="nuc"), CUBE),
]


def added_projection(parts):
    """Return the projections on the vectors that full matrices have more, and those of the others."""
    u, s, vh = parts
    size = s.shape[-1]
    u_added, v_added = u[:, size:], vh[size:]
    return u_added @ np.conj(u_added).T, np.conj(v_added).T @ v_added, s


@pytest.mark.parametrize("cases", grouped(identified(ROWS), lambda name: re.match(r"\w+", name)[0]))
def test_value_and_derivatives(cases):
    for name, f, *points in cases:
        with naming(name):
            check_row(f, *points)


def test_every_function_of_the_namespace_is_answered():
    names = [name for name, f in vars(L).items() if callable(f) and not inspect.isclass(f) and not name.startswith("_")]
    assert {name for name in names if getattr(L, name) not in FUNCTIONS} == {"test"}
    for name in set(names) - {"test"}:
        if name not in ("diagonal", "matrix_transpose", "matmul", "tensordot"):
            assert FUNCTIONS[getattr(L, name)].__doc__, name


NAMES = {L.eigh: "EighResult", L.eig: "EigResult", L.svd: "SVDResult", L.qr: "QRResult", L.slogdet: "SlogdetResult"}


@pytest.mark.parametrize(("f", "name"), NAMES.items(), ids=NAMES.values())
def test_several_results_are_numpys_named_tuples_of_tensors(f, name):
    seen = [f(Tensor(H))]

    def loss(x):
        seen.append(f(x))
        return np.sum(np.abs(seen[-1][0]))

    fg.grad(loss)(H)
    fg.jvp(loss, (H,), (H,))
    fg.vmap(loss)(np.stack([H, H]))
    assert len(seen) == 4
    for result in seen:
        assert type(result) is type(f(H))
        assert type(result).__name__ == name
        assert all(type(each) is Tensor for each in result)


# Singular and repeated


def by_minors(x):
    """Return a determinant without any elimination."""
    if x.shape[-1] == 1:
        return x[0, 0]
    rest = [fnp.concatenate([x[1:, :i], x[1:, i + 1 :]], axis=1) for i in range(x.shape[-1])]
    return sum((-1) ** i * x[0, i] * by_minors(minor) for i, minor in enumerate(rest))


def of_rank(rank, size=4):
    rng = np.random.default_rng(rank)
    return rng.uniform(-1, 1, (size, rank)) @ rng.uniform(-1, 1, (rank, size))


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
def test_det_of_every_rank_to_second_order(rank):
    x = of_rank(rank)
    np.testing.assert_allclose(fg.grad(L.det)(x), fg.grad(by_minors)(x), atol=1e-13)
    for hessian in (fg.hessian(L.det)(x), fg.jacrev(fg.grad(L.det))(x), fg.jacfwd(fg.jacfwd(L.det))(x)):
        np.testing.assert_allclose(hessian, fg.hessian(by_minors)(x), atol=1e-13)


def test_det_of_singular_complex_and_stacked_matrices():
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    np.testing.assert_allclose(fg.grad(L.det)(singular), [[4, -2], [-2, 1]], atol=1e-14)
    stack = np.stack([singular, np.eye(2), np.zeros((2, 2))])
    gradients = fg.gradients_function(L.det)(stack)[0]
    np.testing.assert_allclose(gradients, [[[4, -2], [-2, 1]], np.eye(2), np.zeros((2, 2))], atol=1e-14)
    np.testing.assert_allclose(fg.vmap(fg.grad(L.det))(stack), gradients, atol=1e-14)
    check_grads(L.det, (CB @ CB.T,))


def test_the_third_derivative_of_a_determinant():
    def third(x):
        return fg.jacfwd(fg.jacfwd(fg.jacrev(L.det)))(x)

    np.testing.assert_allclose(third(S), fg.jacfwd(fg.jacfwd(fg.jacrev(by_minors)))(S), atol=1e-12)
    with pytest.raises(errors.NoDerivativeError, match="a third was requested"):
        third(of_rank(2, 3))


def test_a_determinant_next_to_singular_is_accurate():
    x = np.array([[1.0, 2.0], [2.0, 4.0 + 1e-12]])
    np.testing.assert_allclose(fg.grad(L.det)(x), [[4 + 1e-12, -2], [-2, 1]], rtol=1e-14)


def test_slogdet_of_a_singular_matrix_is_honest():
    x = np.stack([np.array([[1.0, 2.0], [2.0, 4.0]]), np.diag([2.0, 4.0])])
    with np.errstate(all="ignore"):
        found = fg.gradients_function(lambda x: L.slogdet(x)[1])(x)[0].numpy()
    assert np.array_equal(found[0], [[np.inf, -np.inf], [-np.inf, np.inf]])
    np.testing.assert_allclose(found[1], np.diag([0.5, 0.25]), rtol=1e-14)


def test_numpys_error_for_a_singular_matrix():
    for f in (L.inv, lambda x: L.solve(x, V[:2])):
        with pytest.raises(L.LinAlgError, match="Singular matrix"):
            fg.gradients_function(f)(np.ones((2, 2)))
    with pytest.raises(L.LinAlgError, match="Matrix is not positive definite"):
        fg.gradients_function(L.cholesky)(-np.eye(2))


REPEATED = np.diag([2.0, 2.0, 5.0])
TURN, CTURN = L.qr(uniform(3, 3))[0], L.qr(complex_uniform(3, 3))[0]
TURNS = pytest.mark.parametrize("turn", [np.eye(3), TURN, CTURN], ids=["diagonal", "turned", "complex"])


def turned(turn, middle):
    return turn @ middle @ turn.conj().T


def polar(x):
    u, _, vh = L.svd(x, full_matrices=False)
    return u @ vh


def onto(v):
    return v @ np.conj(v).T


ALONG_AXES = pytest.mark.filterwarnings("ignore:vectors of a repeated value lie along axes:fgrad.errors.BasisWarning")


@TURNS
@ALONG_AXES
def test_losses_that_no_choice_of_basis_changes(turn):
    """Finite differences split the repeated value, and the loss does not see it.

    Forward mode does not know the loss, and has NaN for vectors that the change of the matrix mixes.
    """
    x = turned(turn, REPEATED)
    check_grads(lambda x: onto(L.eigh(x)[1][:, :2]), (x,), order=1, modes=["rev"])
    check_grads(lambda x: onto(L.eigh(x)[1][:, 2:]), (x,), order=1)
    check_grads(lambda x: L.eigvalsh(x)[2], (x,), order=1)
    check_grads(lambda x: np.sum(np.exp(L.eigvalsh(x))), (x,), order=1)
    check_grads(lambda x: np.sum(np.exp(L.eigh(x)[0])), (x,), order=1)
    check_grads(lambda x: np.sum(L.svdvals(x) ** 2), (x,), order=1)
    check_grads(lambda x: np.prod(L.svdvals(x)), (x,), order=1)
    check_grads(lambda x: onto(L.svd(x)[0][:, 1:]), (x,), order=1, modes=["rev"])
    check_grads(polar, (x,), order=1, modes=["rev"])
    check_grads(lambda x: L.norm(x, "nuc"), (x,), order=1)
    check_grads(lambda x: L.pinv(x), (x,), order=2)


@TURNS
@ALONG_AXES
def test_repeated_values_against_closed_forms(turn):
    x, c = turned(turn, REPEATED), turned(turn, H + H.T)
    t = uniform(3, 3) if turn is not CTURN else complex_uniform(3, 3)
    read = np.tril(t, -1) + np.tril(t, -1).conj().T + np.diag(np.diag(t).real)  # what NumPy reads of t
    pair, other = onto(turn[:, :2]), onto(turn[:, 2:])

    def along(f, forward=None):
        found = np.real(np.sum(np.conj(fg.grad(f)(x)) * t))
        np.testing.assert_allclose(fg.jvp(f, (x,), (t,))[1], found if forward is None else forward, rtol=1e-12)
        return found

    moved = np.real(np.sum(c * (pair @ read @ other + other @ read @ pair))) / (2 - 5)
    np.testing.assert_allclose(
        along(lambda x: np.real(np.sum(c * onto(L.eigh(x)[1][:, :2]))), np.nan), moved, rtol=1e-11
    )
    cubes = np.real(np.trace(3 * x @ x @ read))
    np.testing.assert_allclose(along(lambda x: np.sum(L.eigvalsh(x) ** 3)), cubes, rtol=1e-12)
    np.testing.assert_allclose(along(lambda x: np.sum(L.eigh(x).eigenvalues ** 3)), cubes, rtol=1e-12)


def test_repeated_singular_values_against_closed_forms():
    x = 2.0 * L.qr(uniform(4, 3))[0]
    np.testing.assert_allclose(fg.grad(lambda x: np.sum(L.svdvals(x) ** 2))(x), 2 * x, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(fg.grad(lambda x: L.norm(x, "nuc"))(x), x / 2, rtol=1e-12, atol=1e-14)
    # Equal largest values share the derivative, so that it does not depend on the basis.
    np.testing.assert_allclose(fg.grad(lambda x: L.norm(x, 2))(x), x / 6, rtol=1e-12, atol=1e-14)
    c = uniform(4, 3)
    q = x / 2
    expected = (c - q @ q.T @ c + q @ (q.T @ c - c.T @ q) / 2) / 2  # that of Q's polar factor, which is Q, halved
    gradient = fg.grad(lambda x: np.sum(c * polar(x)))(x)
    np.testing.assert_allclose(gradient, expected, rtol=1e-11, atol=1e-13)


SPLIT = [
    lambda x: np.sum(L.eigvalsh(x) ** 3),
    lambda x: np.sum(L.svdvals(x) ** 3),
    lambda x: np.sum(C3 * onto(L.eigh(x)[1][:, :2])),
    lambda x: np.sum(C3 * polar(x)),
    lambda x: np.real(np.sum(L.eigvals(x) ** 3)),
]
C3 = uniform(3, 3)


@pytest.mark.parametrize("f", SPLIT)
def test_the_second_derivative_of_repeated_values_is_not_a_quiet_number(f):
    for second in (fg.hessian(f), fg.jacrev(fg.grad(f)), fg.jacfwd(fg.jacfwd(f)), fg.jacrev(fg.jacfwd(f))):
        assert np.isfinite(second(turned(TURN, np.diag([2.0, 3.0, 5.0]))).numpy()).all()
        try:
            found = second(turned(TURN, REPEATED)).numpy()
        except errors.NoDerivativeError:
            continue
        assert np.isnan(found).any()


def test_a_second_derivative_along_which_repeated_values_stay_equal():
    f, x = (lambda x: np.sum(L.eigvalsh(x) ** 3)), turned(TURN, REPEATED)
    np.testing.assert_allclose(fg.hvp(f)(x, np.eye(3)), np.tril(12 * x) - np.diag(np.diag(6 * x)), rtol=1e-12)


SECOND = {
    "hessian": fg.hessian,
    "jacfwd of jacfwd": lambda f: fg.jacfwd(fg.jacfwd(f)),
    "jacrev of grad": lambda f: fg.jacrev(fg.grad(f)),
    "jacrev of jacfwd": lambda f: fg.jacrev(fg.jacfwd(f)),
}
POINT = np.array([0.3, -0.7, 0.2])
OUTER_LENGTH = np.sqrt(5) * (np.eye(3) - np.outer(POINT, POINT) / (POINT @ POINT)) / L.norm(POINT)
LOW_RANK = [
    (f"norm {order} of {name}", lambda x, make=make, order=order: L.norm(make(x), order))
    for order in (2, "nuc")
    for name, make in (
        ("a tall matrix", lambda x: np.outer(x, [1.0, 2.0])),
        ("a wide matrix", lambda x: np.outer([1.0, 2.0], x)),
        ("stacked columns", lambda x: np.stack([x, 2 * x]).T),
        ("a matrix with columns of zeros", lambda x: np.outer(x, [1.0, 0.0, 2.0, 0.0, 0.0])),
        ("a complex matrix", lambda x: np.outer(x, [1.0, 2.0j])),
    )
]


@pytest.mark.parametrize("second", SECOND.values(), ids=SECOND)
@pytest.mark.parametrize("f", identified(LOW_RANK))
def test_the_norm_of_a_matrix_that_keeps_its_low_rank_has_second_derivatives(f, second):
    np.testing.assert_allclose(second(f)(POINT), OUTER_LENGTH, rtol=1e-12, atol=1e-12)
    points = np.stack([POINT, 2 * POINT])
    np.testing.assert_allclose(fg.vmap(second(f))(points)[1], OUTER_LENGTH / 2, rtol=1e-12, atol=1e-12)
    for along in (POINT, np.array([1.0, 0.0, 0.0]), np.array([0.7, 0.3, 0.0])):  # where it changes in length alone
        np.testing.assert_allclose(fg.hvp(f)(POINT, along), OUTER_LENGTH @ along, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("second", SECOND.values(), ids=SECOND)
def test_the_second_derivative_where_a_value_leaves_zero_is_not_a_quiet_number(second):
    """The values 1 and sqrt(2) t**2, of which the latter has a vector that NumPy does not find at 0."""

    def tall(t):
        return np.stack([np.stack([1 + 0 * t[0], t[0]]), np.stack([t[0], 0 * t[0]]), np.stack([t[0], 0 * t[0]])])

    for make in (tall, lambda t: tall(t).T):
        for f in (L.svdvals, lambda x: L.svd(x)[1]):
            assert np.isnan(second(lambda t, f=f, make=make: np.sum(f(make(t))))(np.zeros(1))).all()


SIMPLE = {
    "eigvalsh": lambda a: L.eigvalsh(a)[-1],
    "eigh": lambda a: L.eigh(a)[0][-1],
    "eigvals": lambda a: np.max(np.real(L.eigvals(a))),
    "svdvals": lambda a: L.svdvals(a)[0],
    "svd of a Hermitian matrix": lambda a: L.svd(a, hermitian=True)[1][0],
    "norm": lambda a: L.norm(a, 2),
    "cond": L.cond,
    "scipy": lambda a: fsl.eigvalsh(a)[-1],
}


@pytest.mark.parametrize("second", SECOND.values(), ids=SECOND)
@pytest.mark.parametrize("f", SIMPLE.values(), ids=SIMPLE)
def test_a_simple_value_beside_repeated_ones_has_second_derivatives_in_every_mode(f, second):
    def largest(x):
        return f(np.outer(x, x) + np.eye(3))  # 1 + |x|**2

    np.testing.assert_allclose(second(largest)(POINT), 2 * np.eye(3), atol=1e-12)
    squared = second(lambda x: largest(x) ** 2)(POINT)
    np.testing.assert_allclose(squared, 4 * (1 + POINT @ POINT) * np.eye(3) + 8 * np.outer(POINT, POINT), atol=1e-12)
    points = np.stack([POINT, 2 * POINT])
    np.testing.assert_allclose(fg.vmap(second(largest))(points), [2 * np.eye(3)] * 2, atol=1e-12)


@pytest.mark.parametrize("f", SIMPLE.values(), ids=SIMPLE)
def test_a_simple_value_beside_repeated_ones_in_nested_gradients(f):
    def largest(x):
        return f(np.outer(x, x) + np.eye(3))

    found = fg.grad(lambda x: np.sum(fg.grad(largest)(x) ** 2))(POINT)
    np.testing.assert_allclose(found, 8 * POINT, rtol=1e-12)
    x = fg.Variable(POINT)
    with fg.GradientTape() as outer:
        with fg.GradientTape() as inner:
            value = largest(x)
        length = np.sum(inner.gradient(value, x) ** 2)
    np.testing.assert_allclose(outer.gradient(length, x), 8 * POINT, rtol=1e-12)


def test_a_simple_value_beside_repeated_ones_along_axes():
    a = np.diag([3.0, 1.0, 1.0])
    for f in (SIMPLE["eigvalsh"], SIMPLE["eigvals"], SIMPLE["svdvals"], SIMPLE["norm"]):
        found = fg.grad(lambda s, f=f: fg.grad(lambda s: f(a * s) ** 2)(s))(1.0)
        np.testing.assert_allclose(found, 18.0, rtol=1e-12)


SYMMETRIC = {  # in the equal values, so that the losses are smooth
    "squares": (lambda w: np.sum((w - 2) ** 2), lambda s, t, a: 2 * np.trace(s @ t)),
    "cubes": (lambda w: np.sum(w**3), lambda s, t, a: 3 * np.trace(a @ (s @ t + t @ s))),
    "squared sum": (lambda w: np.sum(w) ** 2, lambda s, t, a: 2 * np.trace(s) * np.trace(t)),
}
VALUES = {
    "eigvalsh": L.eigvalsh,
    "eigh": lambda a: L.eigh(a)[0],
    "eigvals": lambda a: np.real(L.eigvals(a)),
    "svdvals": L.svdvals,
}


@pytest.mark.parametrize("second", SECOND.values(), ids=SECOND)
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize(("loss", "expected"), SYMMETRIC.values(), ids=SYMMETRIC)
@pytest.mark.parametrize("a", [REPEATED, turned(TURN, REPEATED), 2 * np.eye(3)], ids=["diagonal", "turned", "identity"])
@ALONG_AXES
def test_second_derivatives_along_two_changes_are_right_or_not_a_number(a, loss, expected, values, second):
    """At two times the identity the first derivative of the squares is 0, and still the values are used."""
    v = L.eigh(a)[1]
    keeps = turned(v, np.diag([0.5, -1.0, 2.0]))
    mixes = turned(v, np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    both = turned(v, np.array([[0.5, 0.2, 0.3], [0.2, -1.0, 0.2], [0.3, 0.2, 2.0]]))
    for changes in itertools.product((keeps, mixes, both), repeat=2):
        try:
            found = second(lambda p, own=changes: loss(values(a + p[0] * own[0] + p[1] * own[1])))(np.zeros(2))[0, 1]
        except errors.NoDerivativeError:
            continue
        is_known = np.isfinite(found)
        assert not is_known or abs(found - expected(*changes, a)) < 1e-10
        assert not is_known or changes[0] is keeps or changes[1] is keeps


@pytest.mark.parametrize("inner", [fg.jacfwd, fg.jacrev])
@pytest.mark.parametrize("outer", [fg.jacfwd, fg.jacrev])
def test_third_derivatives_do_not_forget_what_is_undetermined(outer, inner):
    """The derivative of an undetermined one is undetermined too, also along a change that does not split values."""
    v = L.eigh(turned(TURN, REPEATED))[1]
    keeps = turned(v, np.array([[0.5, 0.0, 0.3], [0.0, -1.0, 0.2], [0.3, 0.2, 2.0]]))
    mixes = turned(v, np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    for changes in ((mixes, mixes, keeps), (mixes, keeps, keeps), (keeps, mixes, keeps), (keeps, keeps, mixes)):

        def cubes(p, changes=changes):
            return np.sum(L.eigvalsh(turned(TURN, REPEATED) + sum(p[i] * changes[i] for i in range(3))) ** 3)

        assert np.isnan(outer(fg.jacrev(inner(cubes)))(np.zeros(3))[0, 1, 2])


@pytest.mark.parametrize("second", SECOND.values(), ids=SECOND)
@pytest.mark.parametrize("outer", [fg.jacfwd, fg.jacrev])
def test_the_derivative_of_an_undetermined_second_derivative_with_respect_to_a_factor(outer, second):
    def times(p):
        return second(lambda x: p * np.sum(L.eigvalsh(x) ** 3))(turned(TURN, REPEATED))

    assert not np.any(np.isnan(times(2.0)) & ~np.isnan(outer(times)(2.0)))


def test_singular_matrices_have_singular_vectors():
    x = of_rank(2)
    check_grads(lambda x: onto(L.svd(x)[0][:, :2]), (x,), order=1)
    check_grads(lambda x: onto(L.svd(x, full_matrices=False)[2][2:].T), (x,), order=1, modes=["rev"])
    check_grads(lambda x: L.svdvals(x)[:2], (x,), order=1)
    check_grads(lambda x: onto(L.svd(x[:, :3], full_matrices=False)[0][:, :2]), (x,), order=1)
    tall = of_rank(1)[:, :2]
    check_grads(lambda x: np.sum(L.svdvals(x) ** 2), (tall,), order=1)


E2 = np.diag([1.0, 1.0, 3.0])
REFUSED = [
    ("a vector of a repeated value", lambda x: np.sum(H * L.eigh(x)[1]), turned(TURN, E2), "depends on the phase"),
    ("one vector's projection", lambda x: (H @ L.eigh(x)[1])[0, 0] ** 2, turned(TURN, E2), "np.linalg.eigh chooses"),
    ("the phase of an eigenvector", lambda x: np.sum(L.eigh(x)[1].imag), CH, "which np.linalg.eigh chooses"),
    ("the phase of eig", lambda x: np.imag(L.eig(x)[1][1, 0]), CS, "which np.linalg.eig chooses"),
    ("the basis of eig", lambda x: np.real(L.eig(x)[1][1, 0]), np.eye(2), "which np.linalg.eig chooses"),
    ("the phase of a singular vector", lambda x: np.real(L.svd(x)[0][0, 0]), CS, "which np.linalg.svd chooses"),
    ("a repeated singular vector", lambda x: np.sum(H * L.svd(x)[0]), turned(TURN, E2), "which np.linalg.svd chooses"),
    ("a vector of the value 0", lambda x: L.svd(x, False)[0][0, 2], of_rank(2)[:, :3], "which np.linalg.svd chooses"),
    ("two vectors of the value 0", lambda x: np.sum(L.svd(x)[0][:, 2:]), of_rank(2), "which np.linalg.svd chooses"),
    ("added vectors", lambda x: L.svd(x)[0][0, 3], T, "the vectors that full_matrices=True adds"),
    ("added rows", lambda x: L.svd(x)[2][3, 0], W, "the vectors that full_matrices=True adds"),
    ("pinv that drops a value", lambda x: np.sum(L.pinv(x, 0.5)), np.diag([1.0, 0.1]), "dropped singular values"),
    ("lstsq that drops a value", lambda x: np.sum(L.lstsq(x, V[:2], 0.5)[0]), np.diag([1.0, 0.1]), "dropped singular"),
    ("qr complete", lambda x: np.sum(L.qr(x, "complete")[1]), T, "adds columns to q, which are arbitrary"),
    ("qr raw", lambda x: np.sum(L.qr(x, "raw")[0]), T, "mode='raw' has no derivative; use mode='reduced'"),
]


WEIGHTS = np.arange(9.0).reshape(3, 3)
AXES = [
    (name, f, x, rf"lie along coordinate axes in the basis chosen by np.linalg.{name.split()[0]}")
    for name, f, x in (
        ("eigh of the identity", lambda x: np.sum(WEIGHTS * L.eigh(x)[1] ** 2), np.eye(3)),
        ("eigh of a pair", lambda x: L.eigh(x)[1][0, 0] ** 2, E2),
        ("eigh in a stack", lambda x: np.sum(WEIGHTS * L.eigh(x)[1] ** 2), np.stack([CH.real, E2])),
        ("eig", lambda x: np.sum(WEIGHTS * np.real(L.eig(x)[1]) ** 2), np.eye(3)),
        ("svd", lambda x: L.svd(x)[0][0, 0] ** 2, np.eye(3)),
    )
]
REFUSED += AXES


@pytest.mark.parametrize(("f", "x", "text"), identified(AXES))
def test_where_reverse_mode_refuses_a_basis_along_axes_forward_mode_has_nan(f, x, text):
    assert np.isnan(fg.jvp(f, (x,), (np.ones_like(x) + np.eye(3),))[1])


def test_a_loss_that_does_not_depend_on_the_basis_is_differentiated_where_the_matrix_is_turned_before():
    def share(v):
        return np.sum(WEIGHTS[0] * onto(v[:, :2]).diagonal())

    found = fg.grad(lambda a: share(TURN @ L.eigh(TURN.T @ a @ TURN)[1]))(E2)
    np.testing.assert_allclose(found, np.zeros((3, 3)), atol=1e-12)
    with pytest.warns(errors.BasisWarning):
        equal = fg.grad(lambda a: np.sum(L.eigh(a)[1] ** 2))(E2)  # the lengths of the vectors, in any basis
    np.testing.assert_array_equal(equal, np.zeros((3, 3)))


@pytest.mark.parametrize(
    "f",
    [
        lambda v: np.sum(v**4),
        lambda v: np.sum(v[:, 0] ** 2 * v[:, 1] ** 2),
        lambda v: np.sum(v[:, 0] ** 2 * v[:, 1] ** 2) + np.sum(WEIGHTS * onto(v[:, :2])),
        lambda v: np.sum(v[:, 0] ** 2 * v[:, 1] ** 2) + np.sum(WEIGHTS * onto(v[:, 2:])),
    ],
)
@pytest.mark.parametrize("vectors", [lambda a: L.eigh(a)[1], lambda a: L.svd(a)[0][:, ::-1]])
def test_what_vectors_along_axes_cannot_tell_is_said(f, vectors):
    with pytest.warns(errors.BasisWarning, match="lie along axes") as caught:
        fg.grad(lambda a: f(vectors(a)))(np.diag([1.0, 1.0, 2.0]))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("a", [np.diag([1.0, 2.0, 3.0]), turned(TURN, np.diag([1.0, 1.0, 2.0]))])
def test_vectors_of_different_values_or_in_another_basis_are_not_warned_of(a):
    with warnings.catch_warnings(action="error"):
        fg.grad(lambda a: np.sum(WEIGHTS * onto(L.eigh(a)[1][:, :2])))(a)
        fg.grad(lambda a: np.sum(L.eigvalsh(a) ** 2))(np.eye(3))


def by_svd_of(x):
    u, s, vh = L.svd(x)
    return np.sum(WEIGHTS * ((u * s**2) @ vh))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(WEIGHTS * ((lambda w, v: (v * np.exp(w)) @ v.T)(*L.eigh(x)))),
        lambda x: np.sum(WEIGHTS * onto(L.eigh(x)[1][:, :2])),
        by_svd_of,
    ],
)
@pytest.mark.parametrize("gap", [1e-12, 1e-13, 3e-14])
def test_values_so_close_that_the_derivative_is_rounding_are_warned_of(f, gap):
    x = turned(TURN, np.diag([1.0, 1.0 + gap, 3.0]))
    for derivative in (fg.grad(f), fg.jacfwd(f), lambda x: fg.jvp(f, (x,), (WEIGHTS,))):
        with pytest.warns(
            errors.CloseValuesWarning, match=r"few digits are right; write a function of the matrix"
        ) as caught:
            derivative(x)
        assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("f", "gap"),
    [
        (lambda x: np.sum(WEIGHTS * ((lambda w, v: (v * np.exp(w)) @ v.T)(*L.eigh(x)))), 1e-8),
        (lambda x: np.sum(np.exp(L.eigh(x)[0])), 1e-13),
        (lambda x: np.sum(L.eigh(x)[1] @ WEIGHTS[0]) ** 2, 1e-12),  # which tells the vectors apart
        (lambda x: np.sum(onto(L.eigh(x)[1])), 1e-3),  # a constant
    ],
)
def test_values_that_are_close_enough_are_not_warned_of(f, gap):
    with warnings.catch_warnings(action="error"):
        fg.grad(f)(turned(TURN, np.diag([1.0, 1.0 + gap, 3.0])))


@pytest.mark.parametrize("values", [L.eigvalsh, L.svdvals, L.eigvals, lambda x: L.svd(x, compute_uv=False)])
def test_values_alone_may_be_close(values):
    x = turned(TURN, np.diag([1.0, 1.0 + 1e-13, 3.0]))
    with warnings.catch_warnings(action="error"):
        found = fg.jacfwd(lambda x: np.sum(np.real(values(x))))(x)
    np.testing.assert_allclose(found + found.T, 2 * np.eye(3), atol=1e-10)


@pytest.mark.parametrize("gap", [1e-12, 1e-13])
def test_close_values_of_any_matrix_are_warned_of_in_forward_mode(gap):
    x = turned(TURN, np.diag([1.0, 1.0 + gap, 3.0]))
    with pytest.warns(errors.CloseValuesWarning, match="np.linalg.eig "):
        fg.jvp(lambda x: np.real(L.eig(x)[1]), (x,), (WEIGHTS,))


def matrix_function(x):
    w, v = L.eigh(x)
    return np.sum(H * ((v * np.exp(w)) @ v.T))


REFUSED.append(("a function of a matrix", matrix_function, turned(TURN, E2), "joins vectors and values"))


@pytest.mark.parametrize(("f", "x", "text"), identified(REFUSED))
def test_what_has_no_derivative_is_refused(f, x, text):
    with pytest.raises(errors.NoDerivativeError, match=text):
        fg.grad(f)(x)


def by_eigh(f):
    def function(x):
        w, v = L.eigh(x)
        return (v * f(w)) @ v.conj().T

    return function


def by_svd(x):
    u, s, vh = L.svd(x, full_matrices=False)
    return (u * s) @ vh


def by_eig(x):
    w, v = L.eig(x)
    return np.real((v * w) @ L.inv(v))


def by_scipys_eigh(x):
    w, v = fsl.eigh(x)
    return (v * np.sqrt(w)) @ v.T


TOGETHER = [
    ("identity", by_eigh(lambda w: w), np.eye(2)),
    ("zero", by_eigh(lambda w: w), np.zeros((2, 2))),
    ("sqrtm", by_eigh(np.sqrt), np.diag([1.0, 2.0, 2.0])),
    ("sqrtm, turned", by_eigh(np.sqrt), turned(TURN, np.diag([1.0, 2.0, 2.0]))),
    ("scipy", by_scipys_eigh, turned(TURN, np.diag([1.0, 2.0, 2.0]))),
    ("svd", by_svd, np.eye(2)),
    ("svd, turned", by_svd, turned(TURN, np.diag([1.0, 2.0, 2.0]))),
    ("svd of zero", by_svd, np.zeros((3, 2))),
    ("svd of a tall matrix of rank 1", by_svd, np.eye(3)[:, :2] * [1.0, 0.0]),
    ("eig", by_eig, np.eye(2)),
    ("eig of zero", by_eig, np.zeros((2, 2))),
    ("eig, turned", by_eig, turned(TURN, np.diag([1.0, 2.0, 2.0]))),
]


@pytest.mark.parametrize(("f", "x"), identified(TOGETHER))
def test_values_and_vectors_of_repeated_values_together(f, x):
    """Reverse mode refuses; what forward mode finds is a finite difference, or NaN; and so to second order."""
    for derivative in (fg.jacrev(f), fg.jacrev(fg.jacrev(f)), fg.jacfwd(fg.jacrev(f)), lambda x: fg.linearize(f, x)):
        with pytest.raises(errors.NoDerivativeError, match="joins vectors and values .* where values are repeated"):
            derivative(x)
    jacobian, mixes = fg.jacfwd(f)(x).numpy(), False
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        expected, found = (f(x + step) - f(x - step)) / 2e-6, jacobian[(..., *place)]
        is_known = np.isfinite(found)
        mixes |= not is_known.all()
        np.testing.assert_allclose(found[is_known], expected[is_known], atol=1e-6)
    assert mixes


def test_linearize_refuses_an_arbitrary_choice_as_the_gradient_does():
    """A cotangent of ones is symmetric, and does not ask for the choice."""

    def rotation(x):
        u, _, vh = L.svd(x)
        return u @ vh

    x = np.diag([1.0, 0.0, 0.0])
    for derivative in (fg.jacrev(rotation), lambda x: fg.linearize(rotation, x)):
        with pytest.raises(errors.NoDerivativeError, match="chooses arbitrarily"):
            derivative(x)


def test_one_element_of_a_function_of_a_matrix():
    """Its derivative by the values is 0 in NumPy's basis, which does not make it one of the vectors alone."""
    with pytest.raises(errors.NoDerivativeError, match="joins vectors and values"):
        fg.grad(lambda x: by_eigh(np.sqrt)(x)[0, 1])(np.eye(2))


def test_the_largest_components_of_a_matrix_of_low_rank():
    """What is cut off is repeated, and not used."""

    def largest(x):
        w, v = L.eigh(x)
        return (v[:, -2:] * np.sqrt(w[-2:])) @ v[:, -2:].T

    check_grads(largest, (turned(TURN, np.diag([0.0, 1.0, 3.0])),), order=2)
    wide = turned(L.qr(uniform(4, 4))[0], np.diag([0.0, 0.0, 1.0, 3.0]))
    np.testing.assert_allclose(fg.jacfwd(largest)(wide), fg.jacrev(largest)(wide), atol=1e-12)


@pytest.mark.parametrize("transform", [fg.jacrev, fg.jacfwd, fg.hessian])
def test_a_repeated_value_that_lacks_vectors_is_refused(transform):
    with pytest.raises(errors.NoDerivativeError, match="its vectors are linearly dependent"):
        transform(lambda x: np.sum(np.real(L.eigvals(x)) ** 2))(np.array([[1.0, 1.0], [0.0, 1.0]]))


def test_a_function_of_a_matrix_is_right_where_values_differ():
    check_grads(matrix_function, (H,))


def test_pseudo_inverse_and_least_squares_of_low_rank():
    """The derivative holds along changes that keep the rank, as those of a product do."""
    thin = uniform(4, 2)

    def product(x):
        return x @ W[:, :3]

    check_grads(lambda x: L.pinv(product(x), rcond=1e-10), (thin,))
    check_grads(lambda x, b: L.lstsq(product(x), b, rcond=1e-10)[0], (thin, uniform(4)))
    _, residuals, rank, s = L.lstsq(Tensor(product(thin)), uniform(4))
    assert (residuals.shape, int(rank), s.shape) == ((0,), 2, (3,))

    def whole(a):
        x, residuals, rank, s = L.lstsq(a, V[:2])
        assert (residuals.shape, int(rank), s.shape, x.shape) == ((0,), 2, (2,), (4,))
        return np.sum(x)

    fg.grad(whole)(W)
    np.testing.assert_array_equal(fg.vmap(lambda a: L.lstsq(a, V)[2])(np.stack([S, np.ones((3, 3))])), [3, 1])


def test_an_ill_conditioned_pseudo_inverse_is_no_truncated_one():
    x = turned(TURN, np.diag([1.0, 1e-5, 1e-11]))
    np.testing.assert_allclose(fg.grad(lambda x: L.pinv(x)[0, 0])(x), fg.grad(lambda x: L.inv(x)[0, 0])(x), rtol=1e-2)


# What is read, kept and asked for


@pytest.mark.parametrize(
    ("f", "read"),
    [
        (L.cholesky, np.tril),
        (lambda x: L.cholesky(x, upper=True), np.triu),
        # Squared, since the sum of eigenvalues is the trace, which has zeros for derivatives.
        (lambda x: L.eigvalsh(x) ** 2, np.tril),
        (lambda x: L.eigh(x, "U")[0] ** 2, np.triu),
        (lambda x: L.svd(x, compute_uv=False, hermitian=True) ** 2, np.tril),
        (lambda x: L.pinv(x, hermitian=True), np.tril),
    ],
)
def test_only_the_triangle_that_numpy_reads_gets_a_derivative(f, read):
    gradient = fg.gradients_function(f)(P)[0].numpy()
    assert np.array_equal(gradient, read(gradient))
    assert np.all(read(gradient, 0)[read(np.ones((3, 3))) > 0] != 0)
    unread = np.where(read(np.ones((3, 3))) > 0, P, np.nan)
    np.testing.assert_array_equal(fg.gradients_function(f)(unread)[0], gradient)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(L.eigh(x)[1][:, 0] ** 3) + np.sum(L.eigvalsh(x) ** 2),
        lambda x: np.sum(L.svd(x)[0] ** 3),
        lambda x: np.sum(L.qr(x)[0] ** 3),
        lambda x: L.slogdet(x)[1] ** 2,
        lambda x: np.real(np.sum(L.eig(x)[1] ** 3)),
        lambda x: np.sum(L.lstsq(x, V)[0] ** 2) + np.sum(L.lstsq(x, V)[3] ** 2),
    ],
    ids=["eigh", "svd", "qr", "slogdet", "eig", "lstsq"],
)
def test_second_derivatives_inside_a_persistent_tape(f):
    x = fg.constant(REAL_VALUES)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        slope = tape.gradient(f(x), x)
        total = np.sum(slope**2)
    expected = fg.grad(lambda x: np.sum(fg.grad(f)(x) ** 2))(REAL_VALUES)
    np.testing.assert_allclose(tape.gradient(total, x), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(tape.gradient(total, x), expected, rtol=1e-9, atol=1e-12)


def test_a_persistent_tape_gives_gradients_after_it_has_closed():
    x = fg.constant(CH)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        loss = np.sum(np.abs(L.eigh(x)[1]) ** 4)
    expected = fg.grad(lambda x: np.sum(np.abs(L.eigh(x)[1]) ** 4))(CH)
    for _ in range(2):
        np.testing.assert_allclose(tape.gradient(loss, x), expected, rtol=1e-12)


def counted_calls(monkeypatch):
    """Return a list that gets the name of each function of LAPACK that is used, and "solve" for NumPy's."""
    calls = []
    lapack, solve = solving.lapack, L.solve

    def counted_lapack(name, char):
        calls.append(name)
        return lapack(name, char)

    def counted_solve(a, b):
        calls.append("solve")
        return solve(a, b)

    monkeypatch.setattr(solving, "lapack", counted_lapack)
    monkeypatch.setattr(L, "solve", counted_solve)
    return calls, solve


SINGLE = S.astype(np.float32), B.astype(np.float32)


@pytest.mark.parametrize(("a", "b"), [(S, B), (S, V), (CS, CB), SINGLE])
def test_solve_factors_a_matrix_once_for_all_passes(monkeypatch, a, b):
    calls, solve = counted_calls(monkeypatch)
    value, pullback = fg.vjp(lambda a, b: solve(a, b), a, b)
    first, second = pullback(value), pullback(value)
    assert calls == ["getrf", *["getrs"] * 5]
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    calls.clear()
    tangent = fg.jvp(lambda b: solve(a, b), (b,), (b,))[1]
    assert calls == ["getrf", *["getrs"] * 2]
    assert tangent.dtype == value.dtype
    np.testing.assert_allclose(tangent, value, rtol=1e-5)


def test_stacks_and_many_sides_are_solved_for_both_arguments_at_once(monkeypatch):
    calls, solve = counted_calls(monkeypatch)
    gradient = fg.gradients_function(lambda a, b: solve(a, b))
    for a, b in ((SS, SS), (np.diag(np.arange(1.0, 41.0)), np.ones((40, 40)))):
        calls.clear()
        gradient(a, b)
        assert calls == ["solve", "solve"]  # forward, and back for both


def test_solve_is_the_same_without_scipy(monkeypatch):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((40, 40)) + 40 * np.eye(40), rng.standard_normal(40)

    def derivatives():
        gradient = fg.gradients_function(lambda a, b: np.sum(L.solve(a, b) ** 3))
        hessian = fg.hvp(lambda a: np.sum(L.solve(a, b) ** 3))(a, a)
        return [*gradient(a, b), hessian, fg.jvp(lambda a: L.solve(a, b), (a,), (a,))[1]]

    with_scipy = derivatives()
    monkeypatch.setattr(equations, "lapack", lambda name, char: None)
    for one, other in zip(with_scipy, derivatives(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-15)


def test_solve_of_a_nearly_singular_matrix_warns_of_nothing():
    a = np.diag([1.0, 1e-20])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fg.grad(lambda b: np.sum(L.solve(a, b)))(np.ones(2))
    np.testing.assert_allclose(found, [1, 1e20])


def test_numbers_of_two_kinds_are_solved_as_numpy_does():
    for a, b in ((S, CB), (CS, B), (S.astype(np.float32), B), (S, np.array([1, 2, 3]))):
        value, pullback = fg.vjp(lambda a, b=b: L.solve(a, b), a)
        expected = L.solve(a, b)
        assert value.dtype == expected.dtype
        np.testing.assert_allclose(value, expected, rtol=1e-5)
        assert pullback(value)[0].dtype == a.dtype


def test_factorizations_of_repeated_use_are_not_computed_again(monkeypatch):
    """The reverse rules of `inv`, `pinv`, `eigh` and `svd` use what the function itself has computed."""
    pullbacks = [fg.vjp(f, P) for f in (L.inv, L.pinv, L.eigh, L.svd, L.eigvalsh, L.svdvals)]
    for name in ("inv", "pinv", "eigh", "svd", "solve"):
        monkeypatch.setattr(L, name, None)
    for value, pullback in pullbacks:
        assert pullback(value)[0].shape == (3, 3)


def test_large_triangles_are_treated_by_halves():
    rng = np.random.default_rng(0)
    x, c = rng.standard_normal((130, 130)), rng.standard_normal((130, 130))
    x = x @ x.T + 130 * np.eye(130)
    gradient = fg.grad(lambda x: np.sum(c * L.cholesky(x)))(x).numpy()
    # Murray's formula for the whole (section 3.1), which is used for small matrices only.
    factor = L.cholesky(x)
    inner = np.tril(factor.T @ np.tril(c))
    inner[np.diag_indices(130)] /= 2
    whole = L.solve(factor.T, L.solve(factor.T, inner.T).T)
    whole = whole + whole.T
    np.testing.assert_allclose(gradient, np.tril(whole) - np.diag(np.diag(whole)) / 2, rtol=1e-9, atol=1e-12)
    t = rng.standard_normal((130, 130))
    tangent = fg.jvp(lambda x: np.sum(c * L.cholesky(x)), (x,), (t,))[1]
    np.testing.assert_allclose(tangent, np.sum(gradient * t), rtol=1e-9)


def derivatives_of_cholesky(x, c, t):
    """Compute the gradient of a weighed factor, its own derivative along `t`, and that of a pass back twice."""
    gradient = fg.grad(lambda x: np.sum(np.real(c * L.cholesky(x)) ** 4))
    second = fg.grad(lambda x: np.sum(np.real(gradient(x) * t)))(x)
    return [gradient(x).numpy(), fg.jvp(gradient, (x,), (t,))[1].numpy(), second.numpy()]


@pytest.mark.parametrize("size", [1, 5, 64, 65, 130, 200])
@pytest.mark.parametrize("is_complex", [False, True])
def test_the_factor_is_pulled_back_alike_with_and_without_scipy(monkeypatch, size, is_complex):
    rng = np.random.default_rng(size)
    x, t, c = rng.standard_normal((3, size, size)) + (1j * rng.standard_normal((3, size, size)) if is_complex else 0)
    x, t = x @ x.conj().T + size * np.eye(size), t + t.conj().T
    with_scipy = derivatives_of_cholesky(x, c, t)
    monkeypatch.setattr(factorizations, "lapack", lambda name, char: None)
    for one, other in zip(with_scipy, derivatives_of_cholesky(x, c, t), strict=True):
        assert not np.any(np.triu(one, 1))
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11 * np.max(np.abs(other)))


def test_the_factor_is_pulled_back_without_an_inverse(monkeypatch):
    x = np.diag(np.arange(1.0, 101.0))
    pullbacks = [fg.vjp(L.cholesky, part) for part in (P, x, x.astype(np.float32), x + 0j)]
    for name in ("inv", "solve"):
        monkeypatch.setattr(L, name, None)
    for value, pullback in pullbacks:
        (found,) = pullback(value)
        assert found.dtype == value.dtype


def test_factors_of_stacks_are_pulled_back_as_single_ones():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 70, 70))
    x = x @ x.mT + 70 * np.eye(70)
    c = rng.standard_normal((70, 70))
    gradient = fg.grad(lambda x: np.sum(c * L.cholesky(x)))
    expected = np.stack([gradient(each) for each in x])
    np.testing.assert_allclose(gradient(x), expected, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(fg.vmap(gradient)(x), expected, rtol=1e-10, atol=1e-13)
    _, pullback = fg.vjp(L.cholesky, x[0])
    np.testing.assert_allclose(
        fg.vmap(lambda c: pullback(c)[0])(x), np.stack([pullback(c)[0] for c in x]), rtol=1e-10, atol=1e-13
    )


@pytest.mark.filterwarnings("ignore:every gradient of")
def test_ranks_have_no_derivative_and_can_be_batched():
    stack = np.stack([np.eye(3), np.ones((3, 3)), np.zeros((3, 3))])
    np.testing.assert_array_equal(L.matrix_rank(Tensor(stack)), [3, 1, 0])
    np.testing.assert_array_equal(fg.vmap(L.matrix_rank)(stack), [3, 1, 0])
    np.testing.assert_array_equal(fg.vmap(lambda x: L.matrix_rank(x, hermitian=True, rtol=1e-3))(stack), [3, 1, 0])
    assert fg.gradients_function(lambda x: L.matrix_rank(x) * 1.0)(S)[0].tolist() == np.zeros((3, 3)).tolist()
    assert fg.grad(lambda x: L.matrix_rank(x) * x[0])(V).tolist() == [1.0, 0.0, 0.0]


def test_norms_of_order_zero_count():
    x = np.array([0.0, 2.0, -1.0])
    assert L.norm(Tensor(x), 0).item() == 2.0
    assert fg.grad(lambda x: L.norm(x, 0) + x[0])(x).tolist() == [1.0, 0.0, 0.0]


def test_integers_and_lists_as_arguments():
    assert L.inv(Tensor([[2, 1], [1, 1]])).tolist() == [[1.0, -1.0], [-1.0, 2.0]]
    np.testing.assert_allclose(fg.grad(lambda b: np.sum(L.solve([[2, 0], [0, 4]], b)))(V[:2]), [0.5, 0.25])
    np.testing.assert_allclose(fg.grad(lambda a: np.sum(L.solve(a, [1, 2])))(2 * np.eye(2)), [[-0.25, -0.5]] * 2)


NUMPYS_ERRORS = [
    ("solve, not square", L.solve, T, V),
    ("solve, too short", L.solve, S, V[:2]),
    ("solve, one axis", L.solve, V, V),
    ("inv, not square", L.inv, T),
    ("inv, one axis", L.inv, V),
    ("det, not square", L.det, T),
    ("slogdet, one axis", L.slogdet, V),
    ("cholesky, not square", L.cholesky, T),
    ("eigh, not square", L.eigh, T),
    ("eigh, UPLO", lambda x: L.eigh(x, "X"), S),
    ("eig, not square", L.eig, T),
    ("eig, not finite", L.eig, S * np.nan),
    ("svd, one axis", L.svd, V),
    ("qr, mode", lambda x: L.qr(x, "none"), S),
    ("pinv, two cutoffs", lambda x: L.pinv(x, 1e-3, rtol=1e-3), S),
    ("lstsq, rows", L.lstsq, S, V[:2]),
    ("matrix_power, not square", lambda x: L.matrix_power(x, 2), T),
    ("matrix_power, not an integer", lambda x: L.matrix_power(x, 0.5), S),
    ("multi_dot of one", lambda x: L.multi_dot([x]), S),
    ("multi_dot of three axes", lambda x: L.multi_dot([S, x, S]), CUBE),
    ("tensorinv, ind", lambda x: L.tensorinv(x, 0), CUBE),
    ("outer of a matrix", L.outer, S, V),
    ("cross of four", L.cross, T.T, T.T),
    ("norm, three axes", lambda x: L.norm(x, 2), CUBE),
    ("norm, order of vectors", lambda x: L.norm(x, "fro"), V),
    ("norm, order of matrices", lambda x: L.norm(x, 3), S),
    ("norm, axis twice", lambda x: L.norm(x, 1, axis=(0, 0)), S),
    ("norm, axis", lambda x: L.norm(x, axis="x"), S),
    ("cond, empty", L.cond, np.zeros((0, 0))),
    ("cond, not square", lambda x: L.cond(x, 1), T),
    ("float16", L.inv, np.eye(2, dtype=np.float16)),
]


@pytest.mark.parametrize(("f", "points"), [pytest.param(row[1], row[2:], id=row[0]) for row in NUMPYS_ERRORS])
def test_numpys_errors_stay(f, points):
    with pytest.raises(Exception) as numpys:  # noqa: PT011  # whatever it is
        f(*points)
    for run in (lambda: fg.vjp(f, *points), lambda: f(*map(Tensor, points))):
        with pytest.raises(type(numpys.value)) as ours:
            run()
        assert str(ours.value) == str(numpys.value)


def test_nothing_is_written_into_an_array():
    with pytest.raises(errors.InPlaceError, match="multi_dot would write a tensor"):
        fg.grad(lambda x: np.sum(L.multi_dot([x, S], out=np.zeros((3, 3)))))(S)


def test_graphs_and_jacobians_of_factorizations():
    graph = fg.trace(lambda a, b: (L.solve(a, b), L.eigh(a)[0], L.norm(a, 2)))(S, V)
    for found, expected in zip(graph(P, B[:, 0]), (L.solve(P, B[:, 0]), L.eigvalsh(P), L.norm(P, 2)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(fg.jacrev(L.inv)(S), fg.jacfwd(L.inv)(S), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(fg.jacrev(L.cholesky)(P), fg.jacfwd(L.cholesky)(P), rtol=1e-10, atol=1e-13)


def test_qr_of_dependent_columns_has_no_derivative():
    a = np.array([[1.0, 1.0], [0.0, 0.0]])
    with pytest.raises(errors.NoDerivativeError, match="the columns of the matrix, .* are linearly dependent"):
        fg.grad(lambda a: np.sum(np.linalg.qr(a)[1]))(a)
    with pytest.raises(errors.NoDerivativeError, match="are linearly dependent"):
        fg.jvp(lambda a: np.linalg.qr(a)[1], (a,), (a,))


# Pullbacks are linear where the cotangent is 0, too

A_MATRIX, A_VECTOR = np.array([[2.0, 0.3, -0.4], [0.1, 2.5, 0.6], [-0.2, 0.4, 3.0]]), np.array([0.5, -1.2, 0.7])
TRANSPOSED = [
    ("solve, in the matrix", lambda a: np.linalg.solve(a, A_VECTOR), (A_MATRIX,)),
    ("solve, in the vector", lambda b: np.linalg.solve(A_MATRIX, b), (A_VECTOR,)),
    ("solve, in both", np.linalg.solve, (A_MATRIX, A_VECTOR)),
    ("solve, in stacks", np.linalg.solve, (np.stack([A_MATRIX, A_MATRIX.T]), A_MATRIX)),
    ("inv", np.linalg.inv, (A_MATRIX,)),
    ("cholesky", lambda a: np.linalg.cholesky(a @ a.T), (A_MATRIX,)),
    ("the gradient of det", fg.grad(np.linalg.det), (A_MATRIX,)),
    ("lstsq", lambda a, b: np.linalg.lstsq(a, b)[0], (A_MATRIX[:, :2], A_VECTOR)),
]


@pytest.mark.parametrize(("f", "points"), [pytest.param(f, points, id=name) for name, f, points in TRANSPOSED])
def test_linearize_agrees_with_forward_mode(f, points):
    tangents = [np.cos(np.arange(x.size)).reshape(x.shape) for x in points]
    value, expected = fg.jvp(f, points, tangents)
    np.testing.assert_allclose(fg.linearize(f, *points)[1](*tangents), expected, rtol=1e-12)

    pullback = fg.vjp(f, *points)[1]
    transposed = fg.vjp(pullback, np.zeros_like(value))[1]
    np.testing.assert_allclose(transposed(tuple(tangents))[0], expected, rtol=1e-12)
    direction = np.sin(np.arange(value.size)).reshape(value.shape)
    moved = fg.jvp(pullback, (np.zeros_like(value),), (direction,))[1]
    for found, wanted in zip(moved, pullback(direction), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_masked_matrix_that_is_singular_still_gets_exact_zeros():
    stack = np.stack([A_MATRIX, np.diag([1.0, 0.0, 2.0])])

    def f(a):
        return np.where(np.array([True, False]), np.linalg.slogdet(a)[1], 0.0)

    with np.errstate(all="ignore"):
        gradient = fg.grad(lambda a: np.sum(f(a)))(stack)
    np.testing.assert_allclose(gradient[0], np.linalg.inv(A_MATRIX).T)
    assert np.all(np.asarray(gradient[1]) == 0.0)


def test_a_function_of_the_matrix_is_what_the_error_says_to_write():
    m = np.array([[1.0, 2.0], [2.0, 3.0]])
    with pytest.raises(errors.NoDerivativeError, match="values are repeated") as info:
        fg.grad(lambda x: np.sum(by_eigh(np.sqrt)(x) * m))(np.eye(2))
    for name, f, slope in (
        ("np.linalg.inv", L.inv, -0.25),
        ("matrix_power", lambda x: L.matrix_power(x, 3), 12.0),
        ("expm", fsl.expm, np.exp(2.0)),
        ("sqrtm", fsl.sqrtm, 0.5 / np.sqrt(2.0)),
        ("logm", fsl.logm, 0.5),
        ("fractional_matrix_power", lambda x: fsl.fractional_matrix_power(x, 0.3), 0.3 * 2**-0.7),
        ("funm", lambda x: fsl.funm(x, np.tanh), 1 / np.cosh(2.0) ** 2),
    ):
        assert name in str(info.value)
        for derivative in (fg.grad, fg.jacfwd):
            found = derivative(lambda x, f=f: np.sum(f(x) * m))(2 * np.eye(2))
            np.testing.assert_allclose(found, slope * m, rtol=1e-12)


def test_the_cotangents_of_values_and_vectors_do_not_tell_a_function_of_the_matrix():
    """So a rule that has these alone cannot be right for both: one is constant, the other is the matrix."""
    m, values, vectors = np.array([[0.0, 1.0], [1.0, 0.0]]), *L.eigh(np.eye(2))
    constant = fg.grad(lambda w, v: np.sum(v @ v.T * m) + 0 * np.sum(w), argnums=(0, 1))(values, vectors)
    matrix = fg.grad(lambda w, v: np.sum((v * w) @ v.T * m), argnums=(0, 1))(values, vectors)
    for one, other in zip(constant, matrix, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [(0, 2, 2), (0, 0), (2, 0, 0), (0, 3, 2), (2, 0, 3)])
@pytest.mark.parametrize("f", [L.svd, L.svdvals, L.eigh, L.eigvalsh, L.eig, L.eigvals, L.pinv, L.qr, L.det, L.inv])
def test_stacks_without_matrices_in_forward_mode(f, shape):
    x = np.ones(shape)
    if f in (L.eigh, L.eigvalsh, L.eig, L.eigvals, L.det, L.inv) and shape[-2] != shape[-1]:
        return  # which NumPy refuses
    plain = f(x)
    found = fg.jvp(f, (x,), (x,))[1]
    for own, tangent in zip(*[each if isinstance(each, tuple) else (each,) for each in (plain, found)], strict=True):
        assert (tangent.shape, tangent.dtype) == (own.shape, own.dtype)
    jacobian = fg.jacfwd(f)(x)
    assert (jacobian[0] if isinstance(jacobian, tuple) else jacobian).shape[-len(shape) :] == shape


# Second derivatives in a batch


def symmetric_of(x):
    return np.outer(x, x) + np.diag([1.0, 2.0, 4.0])


def general_of(x):
    return symmetric_of(x) + np.array([[0.0, 0.3, 0.1], [0.0, 0.0, 0.2], [0.0, 0.0, 0.0]]) * x


IN_BATCHES = [
    ("eigh", lambda x: np.sum(np.arange(3) * L.eigh(symmetric_of(x))[1] ** 2) + L.eigh(symmetric_of(x))[0][0]),
    ("scipy's eigh", lambda x: np.sum(fsl.eigh(symmetric_of(x), np.diag([2.0, 1.0, 1.0]))[1] ** 4)),
    ("eig", lambda x: np.sum(np.arange(3) * np.real(L.eig(general_of(x))[1]) ** 2)),
    ("svd", lambda x: np.sum(np.arange(3) * L.svd(general_of(x))[0] ** 2) + L.svd(general_of(x))[1][0]),
    ("eigvalsh", lambda x: L.eigvalsh(symmetric_of(x))[0]),
    ("eigvals", lambda x: np.real(L.eigvals(general_of(x)))[0]),
    ("norm 2", lambda x: L.norm(general_of(x), 2)),
    ("norm nuc", lambda x: L.norm(general_of(x), "nuc")),
    ("cond", lambda x: L.cond(general_of(x))),
    ("lstsq", lambda x: np.sum(L.lstsq(general_of(x), x, rcond=None)[0])),
]


@pytest.mark.parametrize("outer", [fg.jacfwd, fg.jacrev])
@pytest.mark.parametrize("inner", [fg.jacfwd, fg.jacrev])
@pytest.mark.parametrize("f", identified(IN_BATCHES))
def test_second_derivatives_of_a_batch_are_those_of_its_examples(f, inner, outer):
    """With three examples, as many as directions, both batches have the same length."""
    second = outer(inner(f))
    points = np.random.default_rng(3).uniform(0.1, 0.6, (4, 3))
    expected = np.stack([second(x) for x in points])
    for size in (1, 2, 3, 4):
        np.testing.assert_allclose(fg.vmap(second)(points[:size]), expected[:size], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("f", identified(IN_BATCHES))
def test_products_with_hessians_in_a_batch_of_batches(f):
    rng = np.random.default_rng(3)
    points, directions = rng.uniform(0.1, 0.6, (2, 3)), rng.uniform(-1, 1, (4, 3))
    along_all = fg.vmap(fg.hvp(f), in_axes=(None, 0))
    found = fg.vmap(along_all, in_axes=(0, None))(points, directions)
    expected = [[fg.hvp(f)(x, t) for t in directions] for x in points]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_arrays_of_several_batches_broadcast():
    seen = []

    def outer(x, y):
        fg.vmap(lambda z: seen.append(raw_arrays(x, z, x * z, 2.0 * np.ones(5))) or z)(y)
        return x

    fg.vmap(outer, in_axes=(0, None))(np.zeros((2, 5)), np.zeros((3, 5)))
    fg.vmap(outer)(np.zeros((2, 5)), np.zeros((2, 3, 5)))
    shapes = [[each.shape for each in arrays] for arrays in seen]
    assert shapes[0] == [(2, 1, 5), (1, 3, 5), (2, 3, 5), (1, 1, 5)]
    assert shapes[1] == [(2, 1, 5), (2, 3, 5), (2, 3, 5), (1, 1, 5)]


def test_an_undecidable_basis_in_a_batch_is_that_of_its_own_example():
    """Of three examples only the last has a repeated value, and only its second element moves the weights apart."""

    def losses(x):
        v = L.eigh(np.diag(np.array([1.0, 2.0, 4.0]) - x))[1]
        return np.stack([np.sum(v**2), np.sum(WEIGHTS * v**2), np.sum(v**2)])

    points = np.array([[0.1, 0.0, 0.0], [0.2, 0.0, 0.0], [0.0, 1.0, 0.0]])
    with pytest.raises(errors.NoDerivativeError, match="lie along coordinate axes"):
        fg.jacrev(losses)(points[2])
    with pytest.raises(errors.NoDerivativeError, match="lie along coordinate axes"):
        fg.vmap(fg.jacrev(losses))(points)
