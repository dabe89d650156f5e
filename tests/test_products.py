"""Products: of vectors, matrices and tensors, by every name that NumPy has outside of `linalg`."""

import numpy as np
import pytest
from rows import check_row, identified

import fgrad as fg
import fgrad.numpy as fnp
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
        with pytest.raises(errors.InPlaceError, match=f"np.{name} was to write a tensor into a plain NumPy array"):
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
