"""What fgrad does with the special functions of mathematical physics: rows as in `coverage_table.py`.

    ROWS    Bessel, Airy, Struve and Kelvin functions, elliptic and other integrals, orthogonal polynomials,
            spherical harmonics, hypergeometric functions, solutions of differential equations

Names that begin with `scipy.` work on tensors as they are; those that begin with `fgrad.` are to be called
by that name. The points sweep the domain; its ends are in `test_scipy_special_b.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as special
from coverage_table import Row, complex_too, each, only_real, real, refused

import fgrad.scipy.special as ours
from fgrad.errors import NoClosedFormError

A = np.array
POSITIVE = A([0.3, 0.8, 1.4, 3.1, 7.7, 19.3])
LARGE = A([33.3, 120.4, 1021.7])
BOTH = A([-7.7, -2.1, -0.6, 0.4, 1.7, 9.2])
MODERATE = A([-1.6, -0.7, 0.2, 1.3])
UNIT = A([-0.93, -0.4, 0.1, 0.5, 0.88])
SHIFTED = A([0.05, 0.3, 0.55, 0.94])
ABOVE_ONE = A([1.4, 2.2, 3.9])
ANGLES = A([0.2, 1.1, 2.0, 3.0])
DEGREES = A([12.0, 80.0, 131.0])
FIRST, SECOND, THIRD, FOURTH = A([0.3, 1.2, 2.6]), A([2.4, 0.4, 1.9]), A([1.1, 0.7, 3.5]), A([0.9, 2.8, 0.4])
ORDERS = A([[-1.3], [0.0], [2.5]])
DEGREES_OF_POLYNOMIALS = A([[0], [1], [4]])


def constants(names: str) -> str:
    return f"no closed form in {names}"


def of_order(name: str, *calls: Any, argument: str = "v", at: Any = POSITIVE) -> Row:
    """Make a row of a function of an order, which is a constant, and of complex numbers."""
    function = getattr(special, name.split()[0].removeprefix("scipy.special."))
    return complex_too(name, lambda z: function(ORDERS, z), *calls, at=at, remark=constants(argument))


_BESSEL = [
    real("scipy.special.j0", at=BOTH),
    real("scipy.special.j1", at=BOTH),
    real("scipy.special.y0", special.y0, (special.y0, LARGE), at=POSITIVE),
    real("scipy.special.y1", special.y1, (special.y1, LARGE), at=POSITIVE),
    real("scipy.special.i0", at=BOTH),
    real("scipy.special.i1", at=BOTH),
    real("scipy.special.k0", at=POSITIVE),
    real("scipy.special.k1", at=POSITIVE),
    real("scipy.special.i0e", special.i0e, (special.i0e, LARGE), at=BOTH),
    real("scipy.special.i1e", special.i1e, (special.i1e, LARGE), at=BOTH),
    real("scipy.special.k0e", special.k0e, (special.k0e, LARGE), at=POSITIVE),
    real("scipy.special.k1e", special.k1e, (special.k1e, LARGE), at=POSITIVE),
    of_order("scipy.special.jv scipy.special.jn", only_real(lambda z: special.jv(3, z), BOTH)),
    of_order("scipy.special.yv"),
    of_order("scipy.special.iv", only_real(lambda z: special.iv([0, 3], z), BOTH[:, None])),
    of_order("scipy.special.kv"),
    real("scipy.special.yn", lambda x: special.yn(A([[0], [1], [4]]), x), at=POSITIVE, remark=constants("n")),
    real("scipy.special.kn", lambda x: special.kn(A([[0], [1], [4]]), x), at=POSITIVE, remark=constants("n")),
    of_order("scipy.special.jve", (lambda z: special.jve(1.5, z), LARGE / 20)),
    of_order("scipy.special.yve", (lambda z: special.yve(1.5, z), LARGE / 20)),
    of_order("scipy.special.ive", only_real(lambda z: special.ive(2, z), BOTH), (lambda z: special.ive(1.5, z), LARGE)),
    of_order("scipy.special.kve", (lambda z: special.kve(1.5, z), LARGE)),
    of_order("scipy.special.hankel1"),
    of_order("scipy.special.hankel2"),
    of_order("scipy.special.hankel1e", (lambda z: special.hankel1e(1.5, z), LARGE)),
    of_order("scipy.special.hankel2e", (lambda z: special.hankel2e(1.5, z), LARGE)),
    *(
        complex_too(
            f"fgrad.scipy.special.{name}",
            lambda z, name=name: getattr(ours, name)(1.5, z),
            *(lambda z, name=name, n=n: getattr(ours, name)([[0], [2]], z, n) for n in (0, 2)),
            at=POSITIVE,
            remark=constants("v"),
        )
        for name in ("jvp", "yvp", "ivp", "kvp", "h1vp", "h2vp")
    ),
    *(
        complex_too(
            f"fgrad.scipy.special.{name}",
            lambda z, name=name: getattr(ours, name)(A([[0], [1], [4]]), z),
            lambda z, name=name: getattr(ours, name)(0, z, True),
            lambda z, name=name: getattr(ours, name)(3, z, True),
            at=POSITIVE,
            remark=constants("n"),
        )
        for name in ("spherical_jn", "spherical_yn", "spherical_in", "spherical_kn")
    ),
]

_AIRY = [
    complex_too("scipy.special.airy", special.airy, only_real(special.airy, BOTH), at=POSITIVE[:4]),
    complex_too("scipy.special.airye", special.airye, only_real(lambda z: special.airye(z)[2:], BOTH), at=POSITIVE),
    real("scipy.special.itairy", at=A([0.05, 0.09, -0.12]), remark="SciPy's own values have five digits"),
]

_STRUVE = [
    real(
        "scipy.special.struve",
        lambda x: special.struve(A([[-0.7], [0.0], [2.5]]), x),
        (lambda x: special.struve(1, x), BOTH),
        at=POSITIVE,
        remark=constants("v"),
    ),
    real(
        "scipy.special.modstruve",
        lambda x: special.modstruve(A([[-0.7], [0.0], [2.5]]), x),
        (lambda x: special.modstruve(1, x), BOTH),
        at=POSITIVE,
        remark=constants("v"),
    ),
    *each(real, "scipy.special.ber scipy.special.bei scipy.special.berp scipy.special.beip", at=BOTH),
    *each(real, "scipy.special.ker scipy.special.kei scipy.special.kerp scipy.special.keip", at=POSITIVE),
    real("scipy.special.kelvin", at=POSITIVE),
    real(
        "scipy.special.besselpoly",
        lambda a: special.besselpoly(a, A([[0.0], [1.3]]), A([[1.0], [0.4]])),
        at=A([0.3, 1.2, 3.3]),
        remark=constants("lmb, nu"),
    ),
    *each(
        real,
        "scipy.special.itj0y0 scipy.special.iti0k0 scipy.special.it2j0y0 scipy.special.it2i0k0 "
        "scipy.special.itstruve0 scipy.special.it2struve0 scipy.special.itmodstruve0",
        at=A([0.4, 0.9, 1.3, 3.1, 6.2]),
    ),
]

_ELLIPTIC = [
    real("scipy.special.ellipk", at=A([-30.0, -1.2, 0.1, 0.6, 0.97])),
    real("scipy.special.ellipkm1", at=A([0.02, 0.4, 1.3, 20.0])),
    real("scipy.special.ellipe", at=A([-30.0, -1.2, 0.1, 0.6, 0.97])),
    real("scipy.special.ellipkinc", at=(A([-7.0, -0.4, 1.3, 4.6]), A([0.7, -2.2, 0.3, 0.9]))),
    real("scipy.special.ellipeinc", at=(A([-7.0, -0.4, 1.3, 4.6]), A([0.7, -2.2, 0.3, 0.9]))),
    real("scipy.special.ellipj", at=(A([-7.0, -0.4, 1.3, 4.6]), A([0.7, 0.2, 0.3, 0.9]))),
    complex_too(
        "scipy.special.elliprc",
        special.elliprc,
        only_real(special.elliprc, FIRST, -SECOND),
        (special.elliprc, FIRST, FIRST),
        at=(FIRST, SECOND),
    ),
    complex_too(
        "scipy.special.elliprd",
        special.elliprd,
        only_real(lambda y, z: special.elliprd(0.0, y, z), FIRST, SECOND),
        (special.elliprd, FIRST, FIRST, FIRST),
        at=(FIRST, SECOND, THIRD),
    ),
    complex_too(
        "scipy.special.elliprf",
        special.elliprf,
        only_real(lambda y, z: special.elliprf(0.0, y, z), FIRST, SECOND),
        (special.elliprf, FIRST, FIRST, FIRST),
        at=(FIRST, SECOND, THIRD),
    ),
    complex_too(
        "scipy.special.elliprg",
        special.elliprg,
        only_real(lambda y, z: special.elliprg(0.0, y, z), FIRST, SECOND),
        (special.elliprg, FIRST, FIRST, FIRST),
        at=(FIRST, SECOND, THIRD),
    ),
    complex_too(
        "scipy.special.elliprj",
        special.elliprj,
        (special.elliprj, FIRST, FIRST, FIRST, FIRST),
        only_real(special.elliprj, FIRST, SECOND, THIRD, -FOURTH),
        at=(FIRST, SECOND, THIRD, FOURTH),
    ),
]

_INTEGRALS = [
    complex_too("scipy.special.expi", special.expi, only_real(special.expi, BOTH), at=POSITIVE),
    complex_too("scipy.special.exp1", at=POSITIVE),
    real("scipy.special.expn", lambda x: special.expn(A([[0], [1], [2], [7]]), x), at=POSITIVE, remark=constants("n")),
    complex_too("scipy.special.sici", special.sici, only_real(special.sici, BOTH), at=POSITIVE),
    complex_too("scipy.special.shichi", special.shichi, only_real(special.shichi, BOTH), at=POSITIVE),
    complex_too("scipy.special.fresnel", special.fresnel, only_real(special.fresnel, BOTH), at=MODERATE),
    real("scipy.special.modfresnelp", at=A([0.3, 1.2, 2.6, 4.4])),
    real("scipy.special.modfresnelm", at=A([0.3, 1.2, 2.6, 4.4])),
    complex_too("scipy.special.spence", special.spence, only_real(special.spence, A([0.93, 1.02, 1.1])), at=POSITIVE),
    complex_too(
        "fgrad.scipy.special.lambertw",
        ours.lambertw,
        lambda z: ours.lambertw(z, [[-1], [2]]),
        only_real(ours.lambertw, A([-1.7, -0.35, -0.2])),
        at=POSITIVE,
        remark=constants("k"),
    ),
    complex_too("scipy.special.wrightomega", special.wrightomega, only_real(special.wrightomega, BOTH), at=POSITIVE),
]


def polynomial(name: str, before: tuple[Any, ...] = (), names: str = "n", at: Any = UNIT) -> Row:
    """Make a row of an orthogonal polynomial: of whole degrees, of a broken one, and for complex numbers."""
    function = getattr(special, name)
    degrees = (DEGREES_OF_POLYNOMIALS, 2.6)
    calls = [lambda x, n=n: function(n, *before, x) for n in degrees]
    return complex_too(f"scipy.special.{name}", *calls, at=at, remark=constants(names))


_POLYNOMIALS = [
    polynomial("eval_legendre"),
    polynomial("eval_sh_legendre", at=SHIFTED),
    polynomial("eval_chebyt"),
    polynomial("eval_sh_chebyt", at=SHIFTED),
    polynomial("eval_chebyc", at=MODERATE),
    polynomial("eval_chebyu"),
    polynomial("eval_sh_chebyu", at=SHIFTED),
    polynomial("eval_chebys", at=MODERATE),
    polynomial("eval_gegenbauer", (0.7,), "n, alpha"),
    polynomial("eval_jacobi", (0.7, 1.2), "n, alpha, beta"),
    polynomial("eval_sh_jacobi", (2.7, 1.2), "n, p, q", at=SHIFTED),
    polynomial("eval_laguerre", at=MODERATE),
    polynomial("eval_genlaguerre", (0.7,), "n, alpha", at=MODERATE),
    real(
        "scipy.special.eval_hermite",
        lambda x: special.eval_hermite(DEGREES_OF_POLYNOMIALS, x),
        at=BOTH / 3,
        remark=constants("n"),
    ),
    real(
        "scipy.special.eval_hermitenorm",
        lambda x: special.eval_hermitenorm(DEGREES_OF_POLYNOMIALS, x),
        at=BOTH / 3,
        remark=constants("n"),
    ),
    real(
        "scipy.special.lpmv",
        lambda x: special.lpmv(A([[0], [1], [-2], [3]]), 3, x),
        lambda x: special.lpmv(A([[0], [1], [-2]]), 2.6, x),
        at=UNIT,
        remark=constants("m, v"),
    ),
    real("fgrad.scipy.special.diric", lambda x: ours.diric(x, A([[1], [2], [5]])), at=BOTH, remark=constants("n")),
]

if hasattr(special, "sph_harm_y"):
    _POLYNOMIALS += [
        real(
            "fgrad.scipy.special.legendre_p",
            lambda z: ours.legendre_p(DEGREES_OF_POLYNOMIALS, z),
            lambda z: ours.legendre_p(5, z, diff_n=2),
            at=UNIT,
            remark=constants("n"),
        ),
        real(
            "fgrad.scipy.special.legendre_p_all",
            lambda z: ours.legendre_p_all(4, z),
            lambda z: ours.legendre_p_all(2, z, diff_n=1),
            at=UNIT,
        ),
        real(
            "fgrad.scipy.special.assoc_legendre_p",
            lambda z: ours.assoc_legendre_p(4, A([[0], [1], [-2], [5]]), z),
            lambda z: ours.assoc_legendre_p(3, 2, z, diff_n=2),
            lambda z: ours.assoc_legendre_p(3, A([[1], [-3]]), z, norm=True, diff_n=1),
            at=UNIT,
            remark=constants("n, m") + "; not of complex numbers, nor with branch_cut=3",
        ),
        real(
            "fgrad.scipy.special.assoc_legendre_p_all",
            lambda z: ours.assoc_legendre_p_all(3, 2, z),
            lambda z: ours.assoc_legendre_p_all(1, 2, z, norm=True, diff_n=1),
            at=UNIT,
            remark="not of complex numbers, nor with branch_cut=3",
        ),
        real(
            "fgrad.scipy.special.sph_legendre_p",
            lambda t: ours.sph_legendre_p(4, A([[0], [1], [-2], [5]]), t),
            lambda t: ours.sph_legendre_p(3, 1, t, diff_n=2),
            at=ANGLES,
            remark=constants("n, m"),
        ),
        real(
            "fgrad.scipy.special.sph_legendre_p_all",
            lambda t: ours.sph_legendre_p_all(3, 2, t),
            lambda t: ours.sph_legendre_p_all(1, 1, t, diff_n=1),
            at=ANGLES,
        ),
        real(
            "fgrad.scipy.special.sph_harm_y",
            lambda t, p: ours.sph_harm_y(4, A([[0], [1], [-2]]), t, p),
            lambda t, p: ours.sph_harm_y(3, 1, t, p, diff_n=1),
            lambda t, p: ours.sph_harm_y(3, 1, t, p, diff_n=2),
            (lambda p: ours.sph_harm_y(3, -2, 0.7, p), ANGLES),
            at=(ANGLES, BOTH[:4]),
            remark=constants("n, m"),
        ),
        real(
            "fgrad.scipy.special.sph_harm_y_all",
            lambda t, p: ours.sph_harm_y_all(3, 2, t, p),
            lambda t, p: ours.sph_harm_y_all(1, 1, t, p, diff_n=2),
            at=(ANGLES, BOTH[:4]),
        ),
    ]

_HYPERGEOMETRIC = [
    complex_too(
        "scipy.special.hyp0f1",
        lambda z: special.hyp0f1(A([[0.7], [3.0]]), z),
        only_real(lambda z: special.hyp0f1(1.3, z), 3 * BOTH),
        at=POSITIVE,
        remark=constants("v"),
    ),
    complex_too(
        "scipy.special.hyp1f1",
        lambda z: special.hyp1f1(A([[0.7], [-2.0]]), 1.3, z),
        only_real(lambda z: special.hyp1f1(0.7, 2.3, z), BOTH),
        at=POSITIVE,
        remark=constants("a, b"),
    ),
    complex_too(
        "scipy.special.hyp2f1",
        lambda z: special.hyp2f1(A([[0.7], [-2.0]]), 1.3, 2.1, z),
        only_real(lambda z: special.hyp2f1(0.7, 1.3, 2.1, z), A([-30.0, -2.2, 0.95])),
        at=UNIT,
        remark=constants("a, b, c"),
    ),
    real(
        "scipy.special.hyperu",
        lambda x: special.hyperu(A([[0.7], [-2.0]]), 1.3, x),
        at=POSITIVE,
        remark=constants("a, b"),
    ),
    *(
        real(
            f"scipy.special.{name}",
            lambda x, name=name: getattr(special, name)(A([[0.3], [1.0]]), 1.3, x),
            at=POSITIVE[:4],
            remark=constants("a, b"),
        )
        for name in ("wright_bessel", "log_wright_bessel")
        if hasattr(special, name)
    ),
]

_DOUBLE = np.float64(0.7)
"""SciPy does not come to an end with characteristic values of spheroidal functions in single precision."""

_PRO, _OBL = (float(special.pro_cv(1, 2, _DOUBLE)), float(special.obl_cv(1, 2, _DOUBLE)))


def spheroidal(name: str, value: float, at: Any) -> list[Row]:
    """Make the rows of a spheroidal function, with and without its characteristic value."""
    function, handed = getattr(special, name), getattr(special, f"{name}_cv")
    return [
        real(f"scipy.special.{name}", lambda x: function(1, 2, _DOUBLE, x), at=at, remark=constants("m, n, c")),
        real(
            f"scipy.special.{name}_cv",
            lambda x: handed(1, 2, _DOUBLE, value, x),
            at=at,
            remark=constants("m, n, c, cv"),
        ),
    ]


CHARACTERISTIC = "characteristic values have no closed form"


def characteristic(name: str, argument: str, *points: Any) -> Row:
    match = f"scipy.special.{name} has no closed-form derivative with respect to its argument {argument!r}"
    return refused(f"scipy.special.{name}", CHARACTERISTIC, NoClosedFormError, match, at=points)


_EQUATIONS = [
    *(
        real(
            f"scipy.special.{name}",
            lambda x, name=name: getattr(special, name)(A([[-0.7], [2.0], [3.4]]), x),
            at=BOTH / 3,
            remark=constants("v"),
        )
        for name in ("pbdv", "pbvv")
    ),
    real("scipy.special.pbwa", lambda x: special.pbwa(A([[-0.7], [2.0]]), x), at=MODERATE, remark=constants("a")),
    *(
        real(
            f"scipy.special.{name}",
            lambda x, name=name: getattr(special, name)(A([[1], [2]]), 1.5, x),
            at=DEGREES,
            remark=constants("m, q"),
        )
        for name in ("mathieu_cem", "mathieu_sem")
    ),
    *(
        real(
            f"scipy.special.{name}",
            lambda x, name=name: getattr(special, name)(A([[1], [2]]), 1.5, x),
            at=A([0.3, 0.9, 1.4]),
            remark=constants("m, q"),
        )
        for name in ("mathieu_modcem1", "mathieu_modcem2", "mathieu_modsem1", "mathieu_modsem2")
    ),
    *spheroidal("pro_ang1", _PRO, UNIT),
    *spheroidal("pro_rad1", _PRO, ABOVE_ONE),
    *spheroidal("pro_rad2", _PRO, ABOVE_ONE[1:]),
    *spheroidal("obl_ang1", _OBL, UNIT),
    *spheroidal("obl_rad1", _OBL, ABOVE_ONE),
    *spheroidal("obl_rad2", _OBL, ABOVE_ONE[2:]),
    characteristic("mathieu_a", "m", A([2.0]), A([1.5])),
    characteristic("mathieu_b", "m", A([2.0]), A([1.5])),
    characteristic("pro_cv", "m", A([1.0]), A([2.0]), A([0.7])),
    characteristic("obl_cv", "m", A([1.0]), A([2.0]), A([0.7])),
]

ROWS: list[Row] = [
    *_BESSEL, *_AIRY, *_STRUVE, *_ELLIPTIC, *_INTEGRALS, *_POLYNOMIALS, *_HYPERGEOMETRIC, *_EQUATIONS,
]  # fmt: skip
