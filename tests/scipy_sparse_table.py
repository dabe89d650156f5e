"""What `fgrad.scipy.sparse` and its `linalg` do with the names of SciPy that they offer: the calls that the tests make.

A row is as in `coverage_table.py`; `tests/test_scipy_sparse.py` runs every call of every row. Points are the elements
of sparse arrays, whose places are fixed here, and dense arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from coverage_table import Row, aside, complex_too, real

import fgrad.scipy.sparse
import fgrad.scipy.sparse.linalg

S = fgrad.scipy.sparse
L = fgrad.scipy.sparse.linalg

Function = Callable[..., Any]

_RNG = np.random.default_rng(11)


def _draw(*shape: int) -> Any:
    return _RNG.uniform(0.5, 1.5, shape)


# What arrays are made of

WIDE = (np.array([2, 0, 1, 0, 2, 0]), np.array([1, 3, 2, 1, 3, 1])), (3, 4)
"""Places in no order, one of them twice."""
OTHER = (np.array([0, 1, 2, 2]), np.array([1, 1, 3, 0])), (3, 4)
SQUARE = (np.array([0, 1, 2, 3, 0, 1, 2, 3, 1]), np.array([0, 1, 2, 3, 1, 2, 3, 0, 0])), (4, 4)
DIAGONAL = np.array([5.0, -6.0, 7.0, 8.0])

D, E, V, W, X, Y = _draw(6), _draw(4), _draw(4), _draw(3), _draw(4, 2), _draw(2, 3)
Q, B, B2 = np.concatenate([DIAGONAL, _draw(5)]), _draw(4), _draw(4, 2)
DEFINITE = np.concatenate([np.abs(DIAGONAL), 0.4 * _draw(3)])
CHAIN, BETWEEN = np.array([1.0, 3.0, 6.0, 10.0, 15.0]), _draw(4)


def _form(form: Any) -> Function:
    return lambda data: form((data, WIDE[0]), shape=WIDE[1])


coo, csr, csc = map(_form, (S.coo_array, S.csr_array, S.csc_array))
FORMS = (coo, csr, csc)


def other(data: Any) -> Any:
    return S.csr_array((data, OTHER[0]), shape=OTHER[1])


def square(data: Any) -> Any:
    return S.csc_array((data, SQUARE[0]), shape=SQUARE[1])


def definite(data: Any) -> Any:
    """Return a Hermitian matrix; for complex elements those beside the diagonal are each other's conjugates."""
    diagonal, beside = np.real(data[:4]).astype(data.dtype), data[4:]
    return S.diags_array([diagonal, beside, np.conjugate(beside)], offsets=[0, 1, -1])


def _each(call: Function, *points: Any) -> list[Any]:
    """Make a call with an array of each format in place of its first argument."""
    return [(lambda data, *rest, form=form: call(form(data), *rest), *points) for form in FORMS]


_COMPRESSED = np.array([3, 1, 2, 0]), np.array([0, 2, 3, 4])

_ARRAYS = [
    complex_too(
        "fgrad.scipy.sparse.coo_array fgrad.scipy.sparse.csr_array fgrad.scipy.sparse.csc_array",
        *_each(lambda a, x: a @ x, D, V), (lambda a, x: csc(a) @ x, D, X), *_each(lambda a, x: x @ a, D, W),
        *_each(lambda a, b: (a @ other(b).T, a + other(b), a - other(b)), D, E), (lambda a: -coo(a) + coo(a), D),
        (lambda a, x: x @ coo(a), D, Y), (lambda a, x: x - csr(a) + x, D, np.outer(W, V)),
        (lambda a, x: 2.0 * csc(a) * x[0] / x[1], D, V),
        (lambda a: (coo(a)[1:], csr(a)[0, 1], abs(csc(a)[[2, 0]][:, [1, 3]])), D),
        (lambda data: S.csr_array((data, *_COMPRESSED)), E), (lambda data: S.csc_array((data, *_COMPRESSED)), E),
    ),
    complex_too(
        "fgrad.scipy.sparse.csr_array.multiply",
        *_each(lambda a, x: (a.multiply(x), a.multiply(x[:3, None])), D, V),
        (lambda a, x: coo(a).multiply(x), D, np.outer(W, V)),
        *_each(lambda a, b: (a.multiply(other(b)), a.multiply(other(b)[[2]]), a[:, [1]].multiply(other(b))), D, E),
    ),
    complex_too("fgrad.scipy.sparse.csr_array.dot", *_each(lambda a, x: (a.dot(x), a.dot(x[0])), D, V)),
    complex_too("fgrad.scipy.sparse.csr_array.power", *_each(lambda a: (a.power(2), a**3), D)),
    complex_too(
        "fgrad.scipy.sparse.csr_array.sum fgrad.scipy.sparse.csr_array.mean",
        *_each(lambda a: (a.sum(), a.sum(axis=0), a.sum(axis=1), a.sum(-1)), D),
        *_each(lambda a: (a.mean(), a.mean(axis=0), a.mean(axis=1)), D),
    ),
    complex_too(
        "fgrad.scipy.sparse.csr_array.diagonal fgrad.scipy.sparse.csr_array.trace",
        *_each(lambda a: (a.diagonal(), a.diagonal(1), a.diagonal(-1), a.diagonal(3), a.trace(2)), D),
    ),
    complex_too(
        "fgrad.scipy.sparse.csr_array.toarray fgrad.scipy.sparse.csr_array.todense", *_each(lambda a: a.toarray(), D)
    ),
    complex_too(
        "fgrad.scipy.sparse.csr_array.tocoo fgrad.scipy.sparse.csr_array.tocsr fgrad.scipy.sparse.csr_array.tocsc "
        "fgrad.scipy.sparse.csr_array.asformat fgrad.scipy.sparse.csr_array.copy",
        *_each(lambda a: (a.tocoo().data, a.tocsr().data, a.tocsc().data, a.asformat("csr").copy().data), D),
    ),
    complex_too(
        "fgrad.scipy.sparse.csr_array.T fgrad.scipy.sparse.csr_array.transpose fgrad.scipy.sparse.csr_array.conj "
        "fgrad.scipy.sparse.csr_array.conjugate",
        *_each(lambda a: (a.T, a.transpose().conj(), a.conjugate()), D),
    ),
    complex_too("fgrad.scipy.sparse.csr_array.astype", *_each(lambda a: a.astype(a.dtype), D)),
    aside("fgrad.scipy.sparse.SparseArray", "the class of all sparse arrays"),
    aside("fgrad.scipy.sparse.issparse", "answers whether something is a sparse array"),
]  # fmt: skip

_CONSTRUCTION = [
    complex_too(
        "fgrad.scipy.sparse.diags_array",
        lambda v, w: S.diags_array([v, w], offsets=[0, -1]), lambda v, w: S.diags_array(v, format="csc"),
        lambda v, w: S.diags_array([w[:1], v], offsets=[1, -2], shape=(6, 4), format="coo"),
        at=(V, W),
    ),
    aside("fgrad.scipy.sparse.eye_array", "of constants alone"),
    complex_too(
        "fgrad.scipy.sparse.block_array",
        lambda d, e, x: S.block_array([[csr(d), None], [None, csc(d)], [other(e), x]]), at=(D, E, np.outer(W, V)),
    ),
    complex_too(
        "fgrad.scipy.sparse.hstack fgrad.scipy.sparse.vstack fgrad.scipy.sparse.block_diag",
        *(
            lambda d, e, join=join: join([coo(d), other(e), csc(d)], format="csr")
            for join in (S.hstack, S.vstack, S.block_diag)
        ),
        at=(D, E),
    ),
    complex_too(
        "fgrad.scipy.sparse.kron",
        lambda d, e: S.kron(coo(d), other(e)), lambda d, e: S.kron(csr(d), np.outer(e, e), format="csc"), at=(D, E),
    ),
    complex_too(
        "fgrad.scipy.sparse.tril fgrad.scipy.sparse.triu",
        *_each(lambda a: (S.tril(a), S.triu(a, k=2, format="csc")), D),
    ),
]  # fmt: skip


def _iterated(method: Function, form: Function, **options: Any) -> Function:
    def call(data: Any, b: Any) -> Any:
        return method(form(data), b, rtol=20 * np.finfo(b.dtype).eps, **options)[0]

    return call


_FROM = np.ones(4)
_NEARLY = scipy.sparse.diags_array(1 / DIAGONAL)
_SMALLEST = {"k": 2, "which": "SA"}


def _eigenvalues(data: Any, **options: Any) -> Any:
    return np.sort(L.eigsh(definite(data), return_eigenvectors=False, **options))


def _phaseless(data: Any) -> Any:
    w, v = L.eigsh(definite(data), **_SMALLEST)
    order = np.argsort(w)
    return w[order], np.abs(v[:, order]) ** 2


EQUATIONS = [
    complex_too(
        "fgrad.scipy.sparse.linalg.spsolve",
        lambda d, b: L.spsolve(square(d), b), (lambda d, b: L.spsolve(square(d), b), Q, B2),
        (lambda d, b: L.spsolve(square(d).T, b), Q, B2[:, :1]),
        lambda d, b: L.spsolve(square(d).tocsr(), b, permc_spec="NATURAL"),
        at=(Q, B),
    ),
    complex_too(
        "fgrad.scipy.sparse.linalg.splu fgrad.scipy.sparse.linalg.SuperLU",
        *(lambda d, b, trans=trans: L.splu(square(d)).solve(b, trans) for trans in "NTH"),
        (lambda d, b: L.splu(square(d).toarray(), diag_pivot_thresh=0.5).solve(b), Q, B2),
        at=(Q, B),
    ),
    complex_too("fgrad.scipy.sparse.linalg.factorized", lambda d, b: L.factorized(square(d))(b), at=(Q, B)),
    complex_too(
        "fgrad.scipy.sparse.linalg.cg",
        _iterated(L.cg, definite), _iterated(L.cg, definite, x0=_FROM, maxiter=100),
        _iterated(L.cg, definite, M=abs(_NEARLY)),
        at=(DEFINITE, B),
    ),
    complex_too(
        "fgrad.scipy.sparse.linalg.bicgstab fgrad.scipy.sparse.linalg.gmres",
        *(_iterated(method, square) for method in (L.bicgstab, L.gmres)),
        *(_iterated(method, square, M=_NEARLY, x0=_FROM) for method in (L.bicgstab, L.gmres)),
        at=(Q, B),
    ),
    real("fgrad.scipy.sparse.linalg.minres", _iterated(L.minres, definite), at=(DEFINITE, B)),
    complex_too(
        "fgrad.scipy.sparse.linalg.eigsh",
        lambda d: _eigenvalues(d, k=2), lambda d: _eigenvalues(d, k=1, sigma=6.2), _phaseless,
        at=DEFINITE,
    ),
    complex_too(
        "fgrad.scipy.sparse.linalg.expm_multiply",
        lambda d, b: L.expm_multiply(0.2 * square(d), b), at=(Q, B2),
    ),
]  # fmt: skip

ARRAYS = [*_ARRAYS, *_CONSTRUCTION]
ROWS: list[Row] = [*ARRAYS, *EQUATIONS]

DIFFERENTIABLE = [row for row in ROWS if row.calls]
