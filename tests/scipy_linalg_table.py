"""What `fgrad.scipy.linalg` does with each name of `scipy.linalg` that it offers: the calls that the tests make.

A row is as in `coverage_table.py`; `tests/test_scipy_linalg.py` runs every call of every row. The functions are
fgrad's: for plain arrays they are SciPy's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import coverage_table as table
import numpy as np
from coverage_table import Row, complex_too, hermitian, only_real, quietly, real, refused

import fgrad.scipy.linalg
from fgrad import errors

L = fgrad.scipy.linalg

_RNG = np.random.default_rng(5)


def _draw(*shape: int) -> Any:
    return _RNG.uniform(-1, 1, shape)


# Matrices that are regular also when their elements are turned by angles of up to 60 degrees.
S, S2 = _draw(4, 4) + np.diag([5.0, -6.0, 7.0, 8.0]), _draw(3, 3) + np.diag([4.0, 5.0, -6.0])
STACK, STACK2 = np.stack([S, S[::-1, ::-1] * 1.1]), np.stack([S2, S2.T * 0.9])
T, W = _draw(4, 2) + 2 * np.eye(4, 2), _draw(2, 4) + 2 * np.eye(2, 4)
TT, WW = np.stack([T, T[::-1]]), np.stack([W, W[:, ::-1]])
B, V, B3, V3 = _draw(4, 2), _draw(4), _draw(3, 2), _draw(3)
H = _draw(3, 3) + np.diag([1.0, -3.0, 5.0])
HH = np.stack([H, H.T * 1.1])
NEAR_ONE = 0.3 * _draw(3, 3) + np.diag([1.0, 1.3, 0.8])
NEARS = np.stack([NEAR_ONE, NEAR_ONE @ NEAR_ONE])
REAL_VALUES = np.array([[1.0, 0.4, 0.2], [0.3, 3.0, 0.5], [0.1, 0.2, 6.0]])
TURNING = np.array([[1.0, 2.0, 0.3], [-1.5, 0.5, 0.2], [0.1, 0.4, 3.0]])
BELOW_ZERO = np.array([[1.0, 0.3, 0.2], [0.1, -2.0, 0.4], [0.3, 0.1, 3.0]])
BANDS = _draw(4, 5) + np.array([[0.0], [0.0], [5.0], [0.0]])
NUMBERS, NUMBERS2 = _draw(5) + np.array([4.0, 0, 0, 0, 0]), _draw(5)
STABLE, INPUT, LARGE = 0.3 * _draw(3, 3), _draw(3, 2), _draw(11, 11) / 6
Q, R, E, CROSS = _draw(3, 3), _draw(2, 2), np.eye(3) + 0.05 * _draw(3, 3), 0.1 * _draw(3, 2)

# What calls are made of

Function = Callable[..., Any]


def phaseless(values: Any, vectors: Any) -> Any:
    """Return what no phase of an eigenvector changes."""
    return values, np.abs(vectors) ** 2, vectors[..., :, None, :] * np.conj(vectors[..., None, :, :])


def basis_free_svd(u: Any, s: Any, vh: Any) -> Any:
    """Return what no phase of singular vectors changes, and no basis of those that were added."""
    size = s.shape[-1]
    u_added, v_added = u[..., size:], np.conj(np.swapaxes(vh[..., size:, :], -1, -2))
    projections = [x @ np.conj(np.swapaxes(x, -1, -2)) for x in (u_added, v_added)]
    return s, np.abs(u[..., :size]) ** 2, u[..., :size] @ vh[..., :size, :], projections


def completed(q: Any, r: Any) -> Any:
    """Return factors of QR, and of added columns what they span."""
    added = q[..., r.shape[-1] :]
    return q[..., : r.shape[-1]], r, added @ np.conj(np.swapaxes(added, -1, -2))


def even(x: Any) -> Any:
    """Return the Hermitian part of a matrix."""
    return 0.5 * (x + np.conj(np.swapaxes(x, -1, -2)))


def with_options(function: Function, **options: Any) -> Function:
    return lambda *points: function(*points, **options)


STRUCTURES = (None, "gen", "diagonal", "tridiagonal", "banded", "upper triangular", "lower triangular", "sym", "her")


def _solve_calls() -> list[Any]:
    calls: list[Any] = [L.solve, (L.solve, S, V), (L.solve, STACK, B), (L.solve, S, np.stack([B, 2 * B]))]
    for name in STRUCTURES:
        for lower in (False, True):
            calls.append(with_options(L.solve, assume_a=name, lower=lower))
            calls.append(only_real(with_options(L.solve, assume_a=name, lower=lower, transposed=True), S, V))
    for lower in (False, True):
        call = with_options(L.solve, assume_a="pos", lower=lower)
        calls += [lambda a, b, call=call: call(hermitian(a), b), lambda a, b, call=call: call(hermitian(a).T, b[:, 0])]
        calls.append((lambda a, b, call=call: call(hermitian(a), b), STACK, B))
    return [*calls, (L.solve, S[:1, :1], V), (L.solve, S, B[:, :1])]


def _triangular_calls() -> list[Any]:
    options = [
        {"trans": trans, "lower": lower, "unit_diagonal": unit}
        for trans in (0, 1, 2)
        for lower in (False, True)
        for unit in (False, True)
    ]
    calls: list[Any] = [with_options(L.solve_triangular, **each) for each in options]
    calls += [(with_options(L.solve_triangular, **each), S, V) for each in options[:4]]
    return [*calls, (L.solve_triangular, STACK, B), (L.solve_triangular, S, np.stack([B, 2 * B]))]


def _inv_calls() -> list[Any]:
    calls: list[Any] = [L.inv, (L.inv, STACK), (L.inv, S[:1, :1])]
    for name in ("gen", "diagonal", "upper triangular", "lower triangular", "sym", "her"):
        calls += [with_options(L.inv, assume_a=name, lower=lower) for lower in (False, True)]
    calls += [lambda a, lower=lower: L.inv(hermitian(a), assume_a="pos", lower=lower) for lower in (False, True)]
    return calls


def _least_squares(**options: Any) -> Function:
    """Return solution, residuals, which some versions of SciPy have as complex numbers, and singular values."""

    def call(a: Any, b: Any) -> Any:
        x, residuals, _, s = L.lstsq(a, b, **options)
        return [x, np.real(residuals)] if s is None else [x, np.real(residuals), s]

    return call


_EQUATIONS = [
    complex_too("fgrad.scipy.linalg.solve", *_solve_calls(), at=(S, B)),
    complex_too("fgrad.scipy.linalg.solve_triangular", *_triangular_calls(), at=(S, B)),
    complex_too("fgrad.scipy.linalg.inv", *_inv_calls(), at=S),
    complex_too("fgrad.scipy.linalg.det", L.det, (L.det, STACK), (L.det, S[:1, :1]), at=S),
    complex_too(
        "fgrad.scipy.linalg.lstsq",
        _least_squares(), (_least_squares(), T, V), (_least_squares(), W, B[:2]), (_least_squares(), S, V),
        (_least_squares(), TT, B), _least_squares(lapack_driver="gelss"), _least_squares(lapack_driver="gelsy"),
        _least_squares(cond=1e-10),
        at=(T, B),
    ),
    complex_too(
        "fgrad.scipy.linalg.pinv",
        L.pinv, (L.pinv, W), (L.pinv, S), (L.pinv, TT), with_options(L.pinv, atol=1e-10),
        with_options(L.pinv, rtol=1e-10, atol=1e-12), with_options(L.pinv, return_rank=True),
        at=T,
    ),
    complex_too(
        "fgrad.scipy.linalg.pinvh",
        L.pinvh, with_options(L.pinvh, lower=False), (L.pinvh, HH), with_options(L.pinvh, atol=1e-9, return_rank=True),
        at=H,
    ),
    complex_too(
        "fgrad.scipy.linalg.norm",
        # Some of SciPy's norms are numbers of Python, which take the precision of what they are multiplied with.
        *(
            (lambda a, order=order: L.norm(a, order) * np.ones(1, np.real(a).dtype), points)
            for points, orders in ((T, (None, "fro", "nuc", 1, -1, 2, np.inf)), (V, (None, 1, 2, 3, np.inf)))
            for order in orders
        ),
        lambda a: L.norm(a, axis=0, keepdims=True),
        at=T,
    ),
]  # fmt: skip

_BANDED = [
    complex_too(
        "fgrad.scipy.linalg.solve_banded",
        *(
            (lambda ab, b, bands=bands: L.solve_banded(bands, ab, b), BANDS[2 - bands[1] : 3 + bands[0]], NUMBERS2)
            for bands in ((1, 2), (1, 1), (0, 2), (1, 0), (0, 0))
        ),
        lambda ab, b: L.solve_banded((2, 1), ab[::-1], b),
        (lambda ab, b: L.solve_banded((1, 1), ab, b), np.stack([BANDS[1:], 2 * BANDS[1:]]), _draw(5, 2)),
        (lambda ab, b: L.solve_banded((0, 0), ab, b), BANDS[2:3, :1], NUMBERS2[:1]),
        at=(BANDS, _draw(5, 3)),
    ),
    complex_too(
        "fgrad.scipy.linalg.solveh_banded",
        L.solveh_banded, (L.solveh_banded, BANDS[1:3], NUMBERS2), (L.solveh_banded, BANDS[2:3], NUMBERS2),
        lambda ab, b: L.solveh_banded(ab[::-1], b, lower=True),
        (lambda ab, b: L.solveh_banded(ab[::-1], b, lower=True), BANDS[1:3], NUMBERS2),
        (L.solveh_banded, np.stack([BANDS[:3], 2 * BANDS[:3]]), _draw(5, 2)),
        at=(BANDS[:3], _draw(5, 2)),
    ),
]  # fmt: skip

_BOTH = (False, True)

_FACTORIZATIONS = [
    complex_too(
        "fgrad.scipy.linalg.cholesky",
        *(lambda a, lower=lower: L.cholesky(hermitian(a), lower=lower) for lower in _BOTH),
        *((lambda a, lower=lower: L.cholesky(hermitian(a), lower), STACK2) for lower in _BOTH),
        at=S2,
    ),
    complex_too(
        "fgrad.scipy.linalg.cho_factor",
        # What SciPy leaves in the other triangle is not the same in all versions.
        lambda a: np.triu(L.cho_factor(hermitian(a))[0]),
        lambda a: np.tril(L.cho_factor(hermitian(a), lower=True)[0]),
        (lambda a: np.triu(L.cho_factor(hermitian(a))[0]), STACK2),
        at=S2,
    ),
    complex_too(
        "fgrad.scipy.linalg.cho_solve",
        *(lambda c, b, lower=lower: L.cho_solve((c, lower), b) for lower in _BOTH),
        *((lambda c, b, lower=lower: L.cho_solve((c, lower), b), S, V) for lower in _BOTH),
        (lambda c, b: L.cho_solve((c, True), b), STACK, B),
        lambda a, b: L.cho_solve(L.cho_factor(hermitian(a)), b),
        at=(S, B),
    ),
    complex_too(
        "fgrad.scipy.linalg.lu_factor",
        *((lambda a: L.lu_factor(a)[0], points) for points in (S, T, W, STACK, S[:1, :1])),
        at=S,
    ),
    complex_too(
        "fgrad.scipy.linalg.lu",
        *(
            (lambda a, p=p, i=i: tuple(L.lu(a, permute_l=p, p_indices=i)), points)
            for points in (S, T, W, TT)
            for p, i in ((False, False), (True, False), (False, True))
        ),
        at=S,
    ),
    complex_too(
        "fgrad.scipy.linalg.lu_solve",
        *(lambda f, b, trans=trans: L.lu_solve((f, np.array([1, 3, 2, 3])), b, trans) for trans in (0, 1, 2)),
        (lambda f, b: L.lu_solve((f, np.array([1, 3, 2, 3])), b), S, V),
        *(lambda a, b, trans=trans: L.lu_solve(L.lu_factor(a), b, trans) for trans in (0, 1, 2)),
        (lambda a, b: L.lu_solve(L.lu_factor(a), b), STACK, B),
        at=(S, B),
    ),
    complex_too(
        "fgrad.scipy.linalg.qr",
        *((lambda a: tuple(L.qr(a, mode="economic")), points) for points in (S, T, W, TT, WW)),
        *((lambda a: completed(*L.qr(a)), points) for points in (S, T, W, TT)),
        *((lambda a: L.qr(a, mode="r")[0], points) for points in (S, T, W)),
        *((lambda a: completed(*L.qr(a, pivoting=True)[:2]), points) for points in (S, T, W, TT)),
        (lambda a: L.qr(a, mode="r", pivoting=True), W),
        at=S,
    ),
]  # fmt: skip

_SPECTRA = [
    complex_too(
        "fgrad.scipy.linalg.eigh",
        *(
            (lambda a, lower=lower: phaseless(*L.eigh(a, lower=lower)), points)
            for lower in _BOTH
            for points in (H, HH, H[:1, :1])
        ),
        *(lambda a, driver=driver: phaseless(*L.eigh(a, driver=driver)) for driver in ("ev", "evd", "evr", "evx")),
        lambda a: phaseless(*L.eigh(a, subset_by_index=[1, 2])),
        *(
            (lambda a, b, k=k, lower=lower: phaseless(*L.eigh(a, hermitian(b), type=k, lower=lower)), H, S2)
            for k in (1, 2, 3)
            for lower in _BOTH
        ),
        (lambda a, b: phaseless(*L.eigh(a, hermitian(b), subset_by_index=[0, 1])), HH, STACK2),
        at=H,
    ),
    complex_too(
        "fgrad.scipy.linalg.eigvalsh",
        L.eigvalsh, with_options(L.eigvalsh, lower=False), (L.eigvalsh, HH),
        with_options(L.eigvalsh, subset_by_index=[0, 0]), (lambda a, b: L.eigvalsh(a, hermitian(b)), H, S2),
        at=H,
    ),
    complex_too(
        "fgrad.scipy.linalg.eig",
        *((lambda a: phaseless(*L.eig(a)), points) for points in (REAL_VALUES, TURNING)),
        (lambda a: phaseless(*L.eig(a)), np.stack([REAL_VALUES, REAL_VALUES.T])),
        lambda a: L.eig(a, right=False),
        lambda a: L.eig(a, right=False, homogeneous_eigvals=True),
        at=TURNING,
    ),
    complex_too("fgrad.scipy.linalg.eigvals", L.eigvals, (L.eigvals, REAL_VALUES), at=TURNING),
    complex_too(
        "fgrad.scipy.linalg.svd",
        *(
            (lambda a, full=full, driver=driver: basis_free_svd(*L.svd(a, full, lapack_driver=driver)), points)
            for points in (S2, T, W)
            for full in _BOTH
            for driver in ("gesdd", "gesvd")
        ),
        (lambda a: basis_free_svd(*L.svd(a, full_matrices=False)), TT),
        (lambda a: L.svd(a, compute_uv=False), T),
        at=T,
    ),
    complex_too("fgrad.scipy.linalg.svdvals", L.svdvals, (L.svdvals, WW), at=T),
    complex_too(
        "fgrad.scipy.linalg.polar",
        *((lambda a, side=side: tuple(L.polar(a, side)), points) for side in ("right", "left") for points in (S, T, W)),
        (lambda a: tuple(L.polar(a)), TT),
        only_real(L.polar, np.eye(3)), only_real(L.polar, np.diag([2.0, 2.0, -3.0])),
        at=S,
    ),
    complex_too(
        "fgrad.scipy.linalg.orthogonal_procrustes",
        L.orthogonal_procrustes, (lambda a, b: tuple(L.orthogonal_procrustes(a, b)), STACK2, STACK2[::-1]),
        at=(_draw(5, 3), _draw(5, 3)),
    ),
]  # fmt: skip

_EXPONENTIALS = ("sinm", "cosm", "tanm", "sinhm", "coshm", "tanhm")

_FUNCTIONS = [
    complex_too("fgrad.scipy.linalg.expm", L.expm, (L.expm, NEARS), (L.expm, np.array([[0.3]])), at=S2),
    complex_too(
        "fgrad.scipy.linalg.expm_frechet",
        lambda a, e: tuple(L.expm_frechet(a, e)), with_options(L.expm_frechet, compute_expm=False),
        (with_options(L.expm_frechet, compute_expm=False), NEARS, NEAR_ONE),
        at=(NEAR_ONE, Q),
    ),
    *(
        complex_too(f"fgrad.scipy.linalg.{name}", getattr(L, name), (getattr(L, name), NEARS), at=NEAR_ONE)
        for name in _EXPONENTIALS
    ),
    # SciPy warns of every logarithm in single precision, which it compares with double precision.
    complex_too(
        "fgrad.scipy.linalg.logm",
        *((lambda a: quietly(L.logm, a), points) for points in (NEAR_ONE, NEARS, np.array([[1.3]]))),
        only_real(lambda a: quietly(L.logm, a), BELOW_ZERO),
        at=NEAR_ONE,
    ),
    complex_too(
        "fgrad.scipy.linalg.sqrtm",
        L.sqrtm, (L.sqrtm, NEARS), only_real(L.sqrtm, BELOW_ZERO), only_real(L.sqrtm, np.array([[1.3]])),
        at=NEAR_ONE,
    ),
    complex_too(
        "fgrad.scipy.linalg.fractional_matrix_power",
        *(lambda a, t=t: L.fractional_matrix_power(a, t) for t in (0.3, -1.7, 2, -1, 1.0, 0)),
        (lambda a: L.fractional_matrix_power(a, 0.3), NEARS),
        only_real(lambda a: L.fractional_matrix_power(a, 0.4), BELOW_ZERO),
        only_real(L.fractional_matrix_power, NEAR_ONE, np.array(0.7)),
        only_real(L.fractional_matrix_power, BELOW_ZERO, np.array(-0.4)),
        at=NEAR_ONE,
    ),
    complex_too(
        "fgrad.scipy.linalg.funm",
        lambda a: L.funm(even(a), np.sin), (lambda a: L.funm(even(a), np.exp), NEARS),
        only_real(lambda a, t: L.funm(even(a), lambda w: np.exp(t * w)), NEAR_ONE, np.array(0.7)),
        at=NEAR_ONE,
    ),
]  # fmt: skip


def _riccati_calls(solve: Function) -> list[Any]:
    return [
        lambda a, b, q, r: solve(a, b, hermitian(q), hermitian(r)),
        (lambda a, b, q, r, e: solve(a, b, hermitian(q), hermitian(r), e), STABLE, INPUT, Q, R, E),
        (lambda a, b, q, r, s: solve(a, b, hermitian(q), hermitian(r), s=s), STABLE, INPUT, Q, R, CROSS),
        (
            lambda a, b, q, r, e, s: solve(a, b, hermitian(q), hermitian(r), e, s, balanced=False),
            *(STABLE, INPUT, Q, R, E, CROSS),
        ),
        (lambda a, b: solve(a, b, np.eye(3), np.eye(2)), np.stack([STABLE, STABLE.T]), INPUT),
    ]


_MATRIX_EQUATIONS = [
    complex_too(
        "fgrad.scipy.linalg.solve_sylvester",
        L.solve_sylvester, (L.solve_sylvester, STACK2, R + 3 * np.eye(2), B3),
        (L.solve_sylvester, TURNING, R + 3 * np.eye(2), B3),
        at=(S2, R + 9 * np.eye(2), B3),
    ),
    complex_too(
        "fgrad.scipy.linalg.solve_continuous_lyapunov fgrad.scipy.linalg.solve_lyapunov",
        L.solve_continuous_lyapunov, (L.solve_continuous_lyapunov, TURNING, Q),
        (L.solve_continuous_lyapunov, STACK2, Q),
        at=(S2, Q),
    ),
    complex_too(
        "fgrad.scipy.linalg.solve_discrete_lyapunov",
        *(with_options(L.solve_discrete_lyapunov, method=method) for method in (None, "direct", "bilinear")),
        (L.solve_discrete_lyapunov, np.stack([STABLE, STABLE.T]), np.stack([Q, Q.T])),
        (L.solve_discrete_lyapunov, LARGE, _draw(11, 11)),
        at=(STABLE, Q),
    ),
    complex_too(
        "fgrad.scipy.linalg.solve_continuous_are", *_riccati_calls(L.solve_continuous_are), at=(STABLE, INPUT, Q, R)
    ),
    complex_too(
        "fgrad.scipy.linalg.solve_discrete_are", *_riccati_calls(L.solve_discrete_are), at=(STABLE, INPUT, Q, R)
    ),
]  # fmt: skip

_OF_VECTORS = [
    complex_too(
        "fgrad.scipy.linalg.toeplitz",
        L.toeplitz, (L.toeplitz, NUMBERS, V), (L.toeplitz, B.T, V), (L.toeplitz, V[:1]),
        at=NUMBERS,
    ),
    complex_too("fgrad.scipy.linalg.circulant", L.circulant, (L.circulant, B.T), (L.circulant, V[:1]), at=NUMBERS),
    complex_too("fgrad.scipy.linalg.hankel", L.hankel, (L.hankel, NUMBERS, V), (L.hankel, V, NUMBERS), at=NUMBERS),
    complex_too(
        "fgrad.scipy.linalg.convolution_matrix",
        *(
            (lambda a, n=n, mode=mode: L.convolution_matrix(a, n, mode), points)
            for mode in ("full", "same", "valid")
            for n, points in ((3, NUMBERS), (7, NUMBERS), (1, V[:1]), (4, B.T))
        ),
        at=NUMBERS,
    ),
    complex_too(
        "fgrad.scipy.linalg.solve_toeplitz",
        L.solve_toeplitz, (L.solve_toeplitz, NUMBERS, NUMBERS2), (lambda c, r, b: L.solve_toeplitz((c, r), b), NUMBERS,
        NUMBERS2, _draw(5, 2)), (L.solve_toeplitz, np.stack([NUMBERS, 2 * NUMBERS]), _draw(5, 2)),
        at=(NUMBERS, _draw(5, 2)),
    ),
    complex_too(
        "fgrad.scipy.linalg.matmul_toeplitz",
        L.matmul_toeplitz, (L.matmul_toeplitz, NUMBERS, NUMBERS2),
        (lambda c, r, x: L.matmul_toeplitz((c, r), x), V, NUMBERS, _draw(5, 2)),
        (L.matmul_toeplitz, np.stack([NUMBERS, 2 * NUMBERS]), _draw(5, 2)),
        at=(NUMBERS, _draw(5, 2)),
    ),
    complex_too(
        "fgrad.scipy.linalg.solve_circulant",
        L.solve_circulant, with_options(L.solve_circulant, tol=1e-9), with_options(L.solve_circulant, singular="lstsq"),
        (with_options(L.solve_circulant, baxis=-1, outaxis=-1), np.stack([NUMBERS, NUMBERS[::-1]]), NUMBERS2),
        (with_options(L.solve_circulant, caxis=0, outaxis=-1), NUMBERS, _draw(5, 2)),
        (lambda b: L.solve_circulant(np.array([1.0, -1.0, 1.0, -1.0]), b, singular="lstsq"), V),
        at=(NUMBERS, NUMBERS2),
    ),
    complex_too(
        "fgrad.scipy.linalg.companion", L.companion, (L.companion, B + 2), (L.companion, NUMBERS[:3]), at=NUMBERS
    ),
    complex_too(
        "fgrad.scipy.linalg.fiedler_companion",
        *((L.fiedler_companion, NUMBERS[:n]) for n in (2, 3, 4)), (L.fiedler_companion, np.append(NUMBERS, V)),
        (L.fiedler_companion, B.T + 2),
        at=NUMBERS,
    ),
    real("fgrad.scipy.linalg.leslie", L.leslie, (L.leslie, B.T, V3), at=(V, V3)),
    real("fgrad.scipy.linalg.fiedler", L.fiedler, (L.fiedler, B.T), (L.fiedler, V[:1]), at=V),
    complex_too(
        "fgrad.scipy.linalg.block_diag",
        L.block_diag, (L.block_diag, V, np.array(0.3)), (L.block_diag, TT, B3), (L.block_diag, np.zeros((0, 2)), B3),
        at=(T, W, V),
    ),
    complex_too("fgrad.scipy.linalg.khatri_rao", L.khatri_rao, (L.khatri_rao, TT, B3), at=(B, B3)),
]  # fmt: skip

_NO = errors.NoDerivativeError
_PARAMETER = errors.ParameterError

_REFUSED = [
    refused("fgrad.scipy.linalg.schur", "order and vectors are arbitrary", _NO, "scipy.linalg.schur has no", at=S2),
    refused("fgrad.scipy.linalg.orth", "one of many bases", _NO, "scipy.linalg.orth has no", at=T),
    refused("fgrad.scipy.linalg.null_space", "one of many bases", _NO, "scipy.linalg.null_space has no", at=W),
]  # fmt: skip

OPTIONS_REFUSED = [
    ("eig with b", lambda a: L.eig(a, a), S2, _PARAMETER, "eig and eigvals take no `b`"),
    ("eigvals with b", lambda a: L.eigvals(a, a), S2, _PARAMETER, "eig and eigvals take no `b`"),
    ("eig with left vectors", lambda a: L.eig(a, left=True), S2, _PARAMETER, "eig does not return left vectors"),
    ("eigh by value", lambda a: L.eigh(a, subset_by_value=[0, 1]), H, _PARAMETER, "not accept subset_by_value"),
    ("eigvalsh by value", lambda a: L.eigvalsh(a, subset_by_value=[0, 1]), H, _PARAMETER, "not accept subset_by_value"),
    ("qr, raw", lambda a: L.qr(a, mode="raw")[1], S, _NO, "with mode='raw' has no derivative"),
    ("funm with disp", lambda a: L.funm(a, np.exp, False), S2, _PARAMETER, "funm does not accept `disp`"),
    ("funm of a matrix that is not Hermitian", lambda a: L.funm(a, np.exp), S2, _NO, "for symmetric and Hermitian"),
    ("funm with a sum", lambda a: L.funm(a + a.T, lambda w: w[:2]), S2, errors.ShapeError, "one number for each"),
    ("logm with disp", lambda a: L.logm(a, True), S2, _PARAMETER, "logm does not accept `disp`"),
    ("sqrtm with disp", lambda a: L.sqrtm(a, True), S2, _PARAMETER, "sqrtm does not accept `disp` or `blocksize`"),
    ("logm with disp by name", lambda a: L.logm(a, disp=True), S2, _PARAMETER, "logm does not accept `disp`"),
    ("sqrtm with blocksize", lambda a: L.sqrtm(a, blocksize=3), S2, _PARAMETER, "sqrtm does not accept"),
    ("sqrtm of a number", lambda a: L.sqrtm(a[0, 0]), S2, errors.ShapeError, "sqrtm needs matrices"),
    ("hankel of a matrix", lambda a: L.hankel(a), S2, errors.ShapeError, "hankel needs vectors"),
    (
        "a power of several exponents", lambda a: L.fractional_matrix_power(np.eye(3), a), V, errors.ShapeError,
        "the exponent of fractional_matrix_power must be one number",
    ),
]  # fmt: skip
"""Calls with options that are refused where something is traced: name, call, point, error, text."""

ROWS: list[Row] = [
    *_EQUATIONS, *_BANDED, *_FACTORIZATIONS, *_SPECTRA, *_FUNCTIONS, *_MATRIX_EQUATIONS, *_OF_VECTORS, *_REFUSED,
]  # fmt: skip
DIFFERENTIABLE = [row for row in ROWS if row.kind == table.DIFFERENTIABLE]
