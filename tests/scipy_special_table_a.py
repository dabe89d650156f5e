"""What fgrad does with the special functions of statistics and information theory: rows as in `coverage_table.py`.

    ROWS    gamma, beta and error functions, logistic functions, entropies, the distributions, numbers of choices

Names that begin with `scipy.` work on tensors as they are; those that begin with `fgrad.` are to be called
by that name. The points sweep the domain; its ends are in `test_scipy_special_a.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as special
from coverage_table import Row, complex_too, in_pieces, only_real, real, refused

import fgrad.scipy.special as ours
from fgrad.errors import NoClosedFormError

A = np.array
SWEEP = A([0.2, 0.9, 1.7, 3.4, 11.3])
BOTH_SIDES = A([-2.6, -1.3, -0.4, 0.7, 1.9, 6.3])
LINE = A([-6.2, -2.3, -0.4, 0.3, 1.4, 5.1])
NARROW = A([-2.1, -0.8, 0.3, 1.6])
UNIT = A([0.04, 0.31, 0.5, 0.72, 0.95])
SIGNED_UNIT = A([-0.93, -0.4, 0.2, 0.77])
FIRST, SECOND = A([0.3, 1.2, 2.6, 4.7]), A([2.4, 0.4, 1.9, 3.3])
LOGS = A([-9.0, -2.4, -0.7, -0.1])


def no(names: str, argument: str, *calls: Any, remark: str = "no closed form in any argument", at: Any = UNIT) -> Row:
    """Make a row of a function without a derivative in closed form in an argument."""
    first = names.split()[0]
    match = f"{first} has no closed-form derivative with respect to its argument {argument!r}, which is traced"
    return refused(names, remark, NoClosedFormError, match, *calls, at=at)


def shapes(arguments: str) -> str:
    return f"no closed form in {arguments}"


def wholes(arguments: str) -> str:
    return f"whole numbers have no derivative: {arguments}"


_GAMMA = [
    complex_too("scipy.special.gamma", special.gamma, only_real(special.gamma, BOTH_SIDES), at=SWEEP),
    real("scipy.special.gammaln", special.gammaln, (special.gammaln, BOTH_SIDES), at=10 * SWEEP),
    complex_too("scipy.special.loggamma", at=SWEEP),
    in_pieces("scipy.special.gammasgn", at=BOTH_SIDES),
    complex_too("scipy.special.rgamma", at=BOTH_SIDES),
    complex_too("scipy.special.psi scipy.special.digamma", special.psi, only_real(special.psi, BOTH_SIDES), at=SWEEP),
    real(
        "fgrad.scipy.special.polygamma",
        lambda x: ours.polygamma(1, x),
        lambda x: ours.polygamma(0, x),
        lambda x: ours.polygamma([[2], [3]], x),
        (lambda x: ours.polygamma(2, x), BOTH_SIDES),
        at=SWEEP,
        remark=wholes("n"),
    ),
    real(
        "fgrad.scipy.special.zeta",
        lambda q: ours.zeta(2.5, q),
        lambda q: ours.zeta(A([[1.5], [3.0]]), q),
        at=SWEEP,
        remark=shapes("x"),
    ),
    no("scipy.special.zetac", "x", at=SWEEP),
    real(
        "scipy.special.poch",
        special.poch,
        (special.poch, A([-1.6, -0.3, 0.4]), A([2.2, 1.1, -2.7])),
        at=(FIRST, SECOND),
    ),
    real(
        "fgrad.scipy.special.multigammaln",
        lambda a: ours.multigammaln(a, 3),
        lambda a: ours.multigammaln(a, 1),
        at=1 + SWEEP,
    ),
    real(
        "scipy.special.gammainc",
        lambda x: special.gammainc(2.5, x),
        (lambda x: special.gammainc(40.0, x), 40 * UNIT + 20),
        at=SWEEP,
        remark=shapes("a"),
    ),
    real(
        "scipy.special.gammaincc",
        lambda x: special.gammaincc(0.5, x),
        (lambda x: special.gammaincc(40.0, x), 40 * UNIT + 20),
        at=SWEEP,
        remark=shapes("a"),
    ),
    real("scipy.special.gammaincinv", lambda y: special.gammaincinv(A([[0.4], [2.5]]), y), at=UNIT, remark=shapes("a")),
    real(
        "scipy.special.gammainccinv", lambda y: special.gammainccinv(A([[0.4], [2.5]]), y), at=UNIT, remark=shapes("a")
    ),
]

_BETA = [
    real("scipy.special.beta", special.beta, (special.beta, A([-0.6, 0.4]), A([1.3, -2.2])), at=(FIRST, SECOND)),
    real("scipy.special.betaln", at=(FIRST, SECOND)),
    real(
        "scipy.special.binom",
        special.binom,
        (special.binom, A([-1.6, 2.5]), A([0.7, -0.6])),
        at=(SECOND + 3, FIRST),
    ),
    real("scipy.special.betainc", lambda x: special.betainc(2.5, A([[0.4], [3.5]]), x), at=UNIT, remark=shapes("a, b")),
    real(
        "scipy.special.betaincc", lambda x: special.betaincc(2.5, A([[0.4], [3.5]]), x), at=UNIT, remark=shapes("a, b")
    ),
    real(
        "scipy.special.betaincinv",
        lambda y: special.betaincinv(2.5, A([[0.8], [3.5]]), y),
        at=UNIT,
        remark=shapes("a, b"),
    ),
    real(
        "scipy.special.betainccinv",
        lambda y: special.betainccinv(2.5, A([[0.8], [3.5]]), y),
        at=UNIT,
        remark=shapes("a, b"),
    ),
]

_ERROR = [
    complex_too("scipy.special.erf", at=NARROW),
    complex_too("scipy.special.erfc", at=NARROW),
    complex_too("scipy.special.erfcx", special.erfcx, only_real(special.erfcx, A([5.0, 12.0, 60.0])), at=NARROW),
    complex_too("scipy.special.erfi", at=SIGNED_UNIT),
    real("scipy.special.erfinv", at=SIGNED_UNIT),
    real("scipy.special.erfcinv", at=1 + SIGNED_UNIT),
    complex_too("scipy.special.dawsn", special.dawsn, only_real(special.dawsn, 3 * LINE), at=NARROW),
    complex_too("scipy.special.wofz", special.wofz, (special.wofz, 3 * LINE), at=NARROW),
    real(
        "scipy.special.voigt_profile", at=(A([-2.0, 0.3, 1.0, 9.0]), A([0.6, 1.3, 2.1, 0.8]), A([1.1, 0.2, 0.7, 0.4]))
    ),
]

_LOGISTIC = [
    real("scipy.special.expit", at=LINE),
    real("scipy.special.logit", at=UNIT),
    real("scipy.special.log_expit", at=LINE),
    complex_too(
        "fgrad.scipy.special.logsumexp",
        ours.logsumexp,
        lambda x: ours.logsumexp(x, axis=1),
        lambda x: ours.logsumexp(x, axis=(0, 1), keepdims=True),
        lambda x: ours.logsumexp(x, 0, return_sign=True),
        (lambda x, b: ours.logsumexp(x, 1, b), A([[0.3, 1.0, -2.0], [1.4, 0.2, 0.9]]), A([0.4, 1.2, 0.6])),
        only_real(
            lambda x, b: ours.logsumexp(x, 1, b, True, True),
            A([[0.3, 1.0, -2.0], [1.4, 0.2, 0.9]]),
            A([-2.0, 0.5, 0.6]),
        ),
        at=A([[0.3, 1.0, -2.0], [1.4, 0.2, 0.9]]),
    ),
    complex_too(
        "fgrad.scipy.special.softmax",
        ours.softmax,
        lambda x: ours.softmax(x, axis=1),
        lambda x: ours.softmax(x, (0, 1)),
        at=A([[0.3, 1.0, -2.0], [1.4, 0.2, 0.9]]),
    ),
    real(
        "fgrad.scipy.special.log_softmax",
        ours.log_softmax,
        lambda x: ours.log_softmax(x, axis=0),
        lambda x: ours.log_softmax(x, (0, 1)),
        at=A([[0.3, 1.0, -2.0], [1.4, 0.2, 0.9]]),
    ),
]
if hasattr(special, "softplus"):
    _LOGISTIC.append(real("scipy.special.softplus", at=LINE))

_INFORMATION = [
    complex_too("scipy.special.xlogy", at=(FIRST, SECOND)),
    complex_too(
        "scipy.special.xlog1py",
        special.xlog1py,
        only_real(special.xlog1py, BOTH_SIDES, BOTH_SIDES / 7),
        at=(FIRST, SECOND),
    ),
    real("scipy.special.entr", at=SWEEP),
    real("scipy.special.rel_entr", at=(FIRST, SECOND)),
    real("scipy.special.kl_div", at=(FIRST, SECOND)),
    real("scipy.special.huber", at=(A([1.0, 1.0, 0.6, 0.6]), A([0.4, 1.9, -0.3, -2.2]))),
    real("scipy.special.pseudo_huber", at=(A([1.0, 1.0, 0.6, 0.6]), A([0.4, 1.9, -0.3, -2.2]))),
    real(
        "scipy.special.boxcox",
        special.boxcox,
        (lambda x: special.boxcox(x, 0.0), FIRST),
        at=(FIRST, A([0.7, -1.2, 1e-9, 2.0])),
    ),
    real("scipy.special.boxcox1p", at=(A([0.4, -0.5, 1e-3, 3.0]), A([0.7, -1.2, 1e-9, 2.0]))),
    real("scipy.special.inv_boxcox", at=(A([0.4, -0.5, 0.1, 3.0]), A([0.7, -1.2, 1e-9, 2.0]))),
    real("scipy.special.inv_boxcox1p", at=(A([0.4, -0.5, 0.1, 3.0]), A([0.7, -1.2, 1e-9, 2.0]))),
]

_ELEMENTARY = [
    real("scipy.special.cbrt", at=SWEEP),
    real("scipy.special.exp2", at=LINE),
    real("scipy.special.exp10", at=SIGNED_UNIT),
    complex_too("scipy.special.expm1", at=NARROW),
    real("scipy.special.exprel", at=LINE),
    complex_too("scipy.special.log1p", at=A([-0.6, 0.2, 3.0])),
    real("scipy.special.powm1", at=(FIRST, A([-1.5, 0.3, 2.0, 1.2]))),
    real("scipy.special.cosm1", at=LINE),
    in_pieces("scipy.special.round", at=LINE),
    real("scipy.special.sindg", at=20 * LINE),
    real("scipy.special.cosdg", at=20 * LINE),
    real("scipy.special.tandg", at=10 * LINE),
    real("scipy.special.cotdg", at=A([20.0, 45.0, 110.0, -50.0])),
    real("scipy.special.radian", at=(A([20.0, -3.0]), A([5.0, 0.3]), A([1.0, 12.0]))),
    real(
        "scipy.special.agm",
        special.agm,
        (special.agm, FIRST, FIRST),
        (special.agm, -FIRST, -SECOND),
        at=(FIRST, SECOND),
    ),
]
if hasattr(special, "sinc"):
    _ELEMENTARY.append(complex_too("scipy.special.sinc", at=NARROW))

_NORMAL = [
    complex_too("scipy.special.ndtr", at=NARROW),
    real("scipy.special.ndtri", at=UNIT),
    complex_too(
        "scipy.special.log_ndtr", special.log_ndtr, only_real(special.log_ndtr, A([-30.0, -8.0, 5.0])), at=NARROW
    ),
    real("scipy.special.ndtri_exp", at=LOGS),
    real("scipy.special.owens_t", at=(NARROW, A([0.4, -1.2, 2.3, 0.1]))),
    real("scipy.special.nrdtrimn", at=(A([0.1, 0.3, 0.8]), A([0.6, 1.0, 2.0]), A([-1.0, 0.3, 2.0]))),
    real("scipy.special.nrdtrisd", at=(A([-1.0, 0.3, 2.0]), A([0.8, 0.7, 0.2]), A([1.0, 1.3, -1.0]))),
]

_DISTRIBUTIONS = [
    real("scipy.special.stdtr", lambda t: special.stdtr(A([[0.7], [4.0], [np.inf]]), t), at=LINE, remark=shapes("df")),
    real("scipy.special.stdtrit", lambda p: special.stdtrit(A([[0.7], [4.0]]), p), at=UNIT, remark=shapes("df")),
    no("scipy.special.stdtridf", "p", at=(A([0.7]), A([0.6]))),
    real("scipy.special.fdtr", lambda x: special.fdtr(2.5, A([[0.7], [4.0]]), x), at=SWEEP, remark=shapes("dfn, dfd")),
    real(
        "scipy.special.fdtrc", lambda x: special.fdtrc(2.5, A([[0.7], [4.0]]), x), at=SWEEP, remark=shapes("dfn, dfd")
    ),
    real("scipy.special.fdtri", lambda p: special.fdtri(2.5, 4.0, p), at=UNIT, remark=shapes("dfn, dfd")),
    no("scipy.special.fdtridfd", "dfn", at=(A([2.0]), A([0.6]), A([1.2]))),
    real("scipy.special.gdtr", lambda a, x: special.gdtr(a, 2.5, x), at=(FIRST, SECOND), remark=shapes("b")),
    real("scipy.special.gdtrc", lambda a, x: special.gdtrc(a, 2.5, x), at=(FIRST, SECOND), remark=shapes("b")),
    real("scipy.special.gdtrix", lambda a, p: special.gdtrix(a, 2.5, p), at=(FIRST, UNIT[:4]), remark=shapes("b")),
    real("scipy.special.gdtria", lambda p, x: special.gdtria(p, 2.5, x), at=(UNIT[:4], FIRST), remark=shapes("b")),
    no("scipy.special.gdtrib", "a", at=(A([2.0]), A([0.6]), A([1.2]))),
    real("scipy.special.chdtr", lambda x: special.chdtr(A([[0.7], [4.0]]), x), at=SWEEP, remark=shapes("v")),
    real("scipy.special.chdtrc", lambda x: special.chdtrc(A([[0.7], [4.0]]), x), at=SWEEP, remark=shapes("v")),
    real("scipy.special.chdtri", lambda p: special.chdtri(A([[0.7], [4.0]]), p), at=UNIT, remark=shapes("v")),
    no("scipy.special.chdtriv", "p", at=(A([0.6]), A([1.2]))),
    no("scipy.special.btdtria", "p", at=(A([0.6]), A([1.2]), A([0.4]))),
    no("scipy.special.btdtrib", "a", at=(A([1.2]), A([0.6]), A([0.4]))),
    real(
        "scipy.special.pdtr",
        lambda m: special.pdtr(A([[0], [3]]), m),
        lambda m: special.pdtr(2.7, m),
        at=SWEEP,
        remark=wholes("k"),
    ),
    real("scipy.special.pdtrc", lambda m: special.pdtrc(A([[0], [3]]), m), at=SWEEP, remark=wholes("k")),
    real("scipy.special.pdtri", lambda y: special.pdtri(A([[0], [3]]), y), at=UNIT, remark=wholes("k")),
    no("scipy.special.pdtrik", "p", at=(A([0.6]), A([1.2]))),
    real("scipy.special.bdtr", lambda p: special.bdtr(A([[0], [3], [5]]), 5, p), at=UNIT, remark=wholes("k, n")),
    real(
        "scipy.special.bdtrc", lambda p: special.bdtrc(A([[-1], [0], [3], [5]]), 5, p), at=UNIT, remark=wholes("k, n")
    ),
    real("scipy.special.bdtri", lambda y: special.bdtri(A([[0], [3]]), 5, y), at=UNIT, remark=wholes("k, n")),
    no("scipy.special.bdtrik", "y", at=(A([0.6]), A([5.0]), A([0.4]))),
    no("scipy.special.bdtrin", "k", at=(A([2.0]), A([0.6]), A([0.4]))),
    real("scipy.special.nbdtr", lambda p: special.nbdtr(A([[0], [3]]), 4, p), at=UNIT, remark=wholes("k, n")),
    real("scipy.special.nbdtrc", lambda p: special.nbdtrc(A([[0], [3]]), 4, p), at=UNIT, remark=wholes("k, n")),
    real("scipy.special.nbdtri", lambda y: special.nbdtri(A([[0], [3]]), 4, y), at=UNIT, remark=wholes("k, n")),
    no("scipy.special.nbdtrik", "y", at=(A([0.6]), A([5.0]), A([0.4]))),
    no("scipy.special.nbdtrin", "k", at=(A([2.0]), A([0.6]), A([0.4]))),
    real("scipy.special.tklmbda", at=(A([-0.8, 0.3, 4.0, -3.0, 1.1]), A([0.7, 1.4, 0.1, -0.8, 0.4]))),
]

_NONCENTRAL = [
    real(
        "scipy.special.chndtr",
        lambda x, nc: special.chndtr(x, A([[0.7], [4.0]]), nc),
        at=(SWEEP, SWEEP[::-1]),
        remark=shapes("df"),
    ),
    real(
        "scipy.special.chndtrix",
        lambda p, nc: special.chndtrix(p, A([[0.9], [4.0]]), nc),
        at=(UNIT, SWEEP),
        remark=shapes("df"),
    ),
    real(
        "scipy.special.chndtrinc",
        lambda x, p: special.chndtrinc(x, 2.5, p),
        at=(A([3.4, 11.3]), A([0.5, 0.2])),
        remark=shapes("df"),
    ),
    no("scipy.special.chndtridf", "x", at=(A([5.0]), A([0.6]), A([0.4]))),
    real(
        "scipy.special.ncfdtr",
        lambda nc, f: special.ncfdtr(2.5, 4.0, nc, f),
        at=(SWEEP, SWEEP[::-1]),
        remark=shapes("dfn, dfd"),
    ),
    real(
        "scipy.special.ncfdtri",
        lambda nc, p: special.ncfdtri(2.5, 4.0, nc, p),
        at=(SWEEP, UNIT),
        remark=shapes("dfn, dfd"),
    ),
    real(
        "scipy.special.ncfdtrinc",
        lambda p, f: special.ncfdtrinc(3.5, 4.5, p, f),
        at=(A([0.3, 0.2]), A([2.5, 3.1])),
        remark=shapes("dfn, dfd") + "; SciPy's value has 5 digits",
    ),
    no("scipy.special.ncfdtridfd", "dfn", at=(A([2.0]), A([0.6]), A([0.4]), A([1.2]))),
    no("scipy.special.ncfdtridfn", "p", at=(A([0.6]), A([2.0]), A([0.4]), A([1.2]))),
    real(
        "scipy.special.nctdtr",
        lambda nc, t: special.nctdtr(A([[0.7], [4.0]]), nc, t),
        at=(NARROW, NARROW[::-1]),
        remark=shapes("df"),
    ),
    real(
        "scipy.special.nctdtrit", lambda nc, p: special.nctdtrit(4.0, nc, p), at=(NARROW, UNIT[:4]), remark=shapes("df")
    ),
    real(
        "scipy.special.nctdtrinc", lambda p, t: special.nctdtrinc(4.0, p, t), at=(UNIT[:4], NARROW), remark=shapes("df")
    ),
    no("scipy.special.nctdtridf", "p", at=(A([0.6]), A([0.4]), A([1.2]))),
]

_KOLMOGOROV = [
    real("scipy.special.kolmogorov", at=A([0.3, 0.6, 0.9, 1.3, 2.0])),
    real("scipy.special.kolmogi", at=UNIT),
    real(
        "scipy.special.smirnov",
        lambda d: special.smirnov(A([[1], [7]]), d),
        at=A([0.1, 0.3, 0.49, 0.8]),
        remark=wholes("n"),
    ),
    real(
        "scipy.special.smirnovi",
        lambda p: special.smirnovi(A([[1], [7]]), p),
        at=A([0.1, 0.3, 0.6]),
        remark=wholes("n"),
    ),
]

_CHOICES = [
    real(
        "fgrad.scipy.special.factorial",
        ours.factorial,
        (lambda n: ours.factorial(n, extend="complex"), BOTH_SIDES),
        (ours.factorial, BOTH_SIDES),
        at=SWEEP,
    ),
    real("fgrad.scipy.special.factorial2", lambda n: ours.factorial2(n, extend="complex"), at=SWEEP),
    real(
        "fgrad.scipy.special.factorialk",
        lambda n: ours.factorialk(n, 3, extend="complex"),
        lambda n: ours.factorialk(n, -2.5, extend="complex"),
        at=SWEEP,
    ),
    real(
        "fgrad.scipy.special.comb",
        ours.comb,
        lambda n, k: ours.comb(n, k, repetition=True),
        (ours.comb, A([1.5, -1.0]), A([2.5, 1.0])),
        at=(SECOND + 3, FIRST),
    ),
    real("fgrad.scipy.special.perm", ours.perm, (ours.perm, A([1.5, -1.0]), A([2.5, 1.0])), at=(SECOND + 3, FIRST)),
]

ROWS: list[Row] = [
    *_GAMMA, *_BETA, *_ERROR, *_LOGISTIC, *_INFORMATION, *_ELEMENTARY, *_NORMAL, *_DISTRIBUTIONS, *_NONCENTRAL,
    *_KOLMOGOROV, *_CHOICES,
]  # fmt: skip
