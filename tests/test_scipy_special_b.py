"""Special functions of mathematical physics: the table, 50 digits, edges, refusals.

    scipy_special_table_b.py    the calls that are checked against SciPy's values and finite differences
    SLOPES, CURVATURES          derivatives against mpmath: large arguments, poles, removable points, ends of intervals
    EDGES                       derivatives at single points that are known exactly
    CONSTANTS                   arguments without a closed form
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special as special
import scipy_special_table_b as table
from coverage_table import DIFFERENTIABLE, NOT_SUPPORTED, look_up
from rows import cases_of, check_row

import fgrad as fg
import fgrad.scipy.special as ours
from fgrad.core.primitive import UFUNCS
from fgrad.core.tensor import Tensor
from fgrad.errors import MissingRuleError, NoClosedFormError

INF = np.inf
Number = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def scipys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def rows_of(kind):
    return [row for row in table.ROWS if row.kind == kind]


# The table


@pytest.mark.parametrize(("f", "points"), cases_of(rows_of(DIFFERENTIABLE)))
def test_values_derivatives_precision_and_batches(f, points):
    check_row(f, *points)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.names[0]) for row in rows_of(NOT_SUPPORTED)])
def test_what_has_no_closed_form_says_so(row):
    (call,) = row.calls
    with pytest.raises(row.error, match=re.escape(row.match)):
        fg.vjp(call.function, *call.points)
    for place in range(len(call.points)):
        with pytest.raises(row.error, match=re.escape(f"{row.names[0]} has no derivative in closed form")):
            fg.jvp(
                lambda x, place=place: call.function(*call.points[:place], x, *call.points[place + 1 :]),
                (call.points[place],),
                (np.ones(1),),
            )


def test_the_names_in_the_table_exist_and_have_one_row():
    names = [name for row in table.ROWS for name in row.names]
    assert len(names) == len(set(names))
    assert [name for name in names if look_up(name) is None] == []


def test_how_many_have_derivatives_in_closed_form():
    counts = {"one": 0, "several": 0, "functions": 0}
    for row in rows_of(DIFFERENTIABLE):
        function = look_up(row.names[0])
        if not isinstance(function, np.ufunc):
            counts["functions"] += 1
        else:
            assert function in UFUNCS
            counts["one" if function.nin == 1 else "several"] += 1
    assert counts["one"] == 43
    assert counts["several"] >= 65
    assert counts["functions"] >= 12


# Against mpmath, at 50 digits


def nth(f: Number, x: Any, n: int, direction: Any = 1.0) -> Any:
    """Return the n-th derivative of a function of one number, by forward mode within forward mode."""
    if n == 0:
        return f(x)
    return fg.jvp(lambda x: nth(f, x, n - 1), (x,), (x * 0 + direction,))[1]


def of(f: Number, n: int = 1) -> Number:
    """Return the n-th derivative of a function of mpmath by differences, whose error is of 30 digits."""

    def derivative(x: Any) -> Any:
        step = (abs(x) or 1) * mp.mpf(10) ** (-15 if n == 1 else -12)
        if n == 1:
            return (f(x + step) - f(x - step)) / (2 * step)
        return (f(x + step) - 2 * f(x) + f(x - step)) / step**2

    return derivative


def assert_derivative(f: Number, derivative: Number, x: Any, n: int, tolerance: float) -> None:
    found = nth(f, np.array(x), n).numpy()
    with mp.workdps(60):
        expected = derivative(mp.mpmathify(x))
        if found.dtype.kind != "c":
            expected = mp.re(expected)
        assert abs(mp.mpmathify(found.item()) - expected) <= tolerance * abs(expected), (x, found, mp.nstr(expected, 17))


SMALL = [1e-30, 1e-8, 1e-3, 0.5, 0.99, 1.0, 1.01, 3.0]
MEDIUM = [10.0, 49.0, 51.0, 100.0]
LARGE = [1e4, 1e8, 1e12]
TO_700 = [*SMALL, *MEDIUM, 690.0]
PLANE = [r * np.exp(1j * angle) for r in (0.3, 9.0, 51.0, 300.0) for angle in (0.3, 2.5, -2.5)]
ENDS = [-1.0, -1 + 1e-9, -0.7, 0.0, 0.3, 1 - 1e-12, 1.0]
SHIFTED_ENDS = [0.0, 1e-12, 0.3, 0.7, 1.0]
NEAR_ONE = [-1e12, -1e3, -2.0, -1e-8, 0.0, 1e-12, 0.5, 1 - 1e-9]


def scaled(f: Any, *args: Any) -> Number:
    """Return a Bessel function of mpmath times the exponential function that SciPy scales it with."""
    factors = {
        mp.besseli: lambda z: mp.exp(-abs(mp.re(z))),
        mp.besselk: mp.exp,
        mp.hankel1: lambda z: mp.exp(-1j * z),
        mp.hankel2: lambda z: mp.exp(1j * z),
    }
    return lambda z: f(*args, z) * factors[f](z)


def zeta(z: Any) -> Any:
    """Return the exponent in Airy functions."""
    return 2 * z * mp.sqrt(z) / 3


def bi_scaled(z: Any, derivative: int = 0) -> Any:
    return mp.airybi(z, derivative=derivative) * mp.exp(-abs(mp.re(zeta(z))))


def output(f: Any, place: int) -> Number:
    return lambda x: f(x)[place]


def spherical(f: Any, n: int) -> Number:
    return lambda x: mp.sqrt(mp.pi / (2 * x)) * f(n + mp.mpf(1) / 2, x)


def upper_fresnel(x: Any) -> Any:
    """Return the modified Fresnel integral K+."""
    return mp.exp(-1j * x * x) * mp.erfc(mp.expjpi(mp.mpf(-1) / 4) * x) / 2


BESSEL = [
    ("j0", special.j0, lambda x: mp.besselj(0, x), [*SMALL, *MEDIUM, -3.0, 1e5]),
    ("j1", special.j1, lambda x: mp.besselj(1, x), [*SMALL, *MEDIUM, -3.0, 1e5]),
    ("y0", special.y0, lambda x: mp.bessely(0, x), [*SMALL, *MEDIUM, 1e5]),
    ("y1", special.y1, lambda x: mp.bessely(1, x), [*SMALL, *MEDIUM, 1e5]),
    ("i0", special.i0, lambda x: mp.besseli(0, x), [*TO_700, 712.0, -3.0]),
    ("i1", special.i1, lambda x: mp.besseli(1, x), [*TO_700, 712.0, -3.0]),
    ("k0", special.k0, lambda x: mp.besselk(0, x), TO_700),
    ("k1", special.k1, lambda x: mp.besselk(1, x), TO_700),
    ("i0e", special.i0e, scaled(mp.besseli, 0), [*SMALL, *MEDIUM, *LARGE, -0.5, -51.0, -1e8]),
    ("i1e", special.i1e, scaled(mp.besseli, 1), [*SMALL, *MEDIUM, *LARGE, -0.5, -51.0, -1e8]),
    ("k0e", special.k0e, scaled(mp.besselk, 0), [*SMALL[1:], *MEDIUM, *LARGE]),
    ("k1e", special.k1e, scaled(mp.besselk, 1), [*SMALL[1:], *MEDIUM, *LARGE]),
    *(
        (f"{name} of order {v}", lambda x, f=f, v=v: f(v, x), lambda x, g=g, v=v: g(v, x), [1e-3, 0.5, 3.0, 49.0, 120.0])
        for name, f, g in (
            ("jv", special.jv, mp.besselj), ("yv", special.yv, mp.bessely), ("iv", special.iv, mp.besseli),
            ("kv", special.kv, mp.besselk), ("hankel1", special.hankel1, mp.hankel1), ("hankel2", special.hankel2, mp.hankel2),
        )
        for v in (0, 2.5, -1.3, 40)
    ),
    *(
        (
            f"{name} of order {v}", lambda x, f=f, v=v: f(v, x), scaled(g, v),
            [1e-3, 0.5, 49.0, 51.0, 1e3, *LARGE] + ([] if name == "ive" else PLANE),
        )
        for name, f, g in (
            ("ive", special.ive, mp.besseli), ("kve", special.kve, mp.besselk), ("hankel1e", special.hankel1e, mp.hankel1),
            ("hankel2e", special.hankel2e, mp.hankel2),
        )
        for v in (0, 2.5, 40)
    ),
    ("yn", lambda x: special.yn(3, x), lambda x: mp.bessely(3, x), [1e-3, 3.0, 49.0]),
    ("kn", lambda x: special.kn(3, x), lambda x: mp.besselk(3, x), [1e-3, 3.0, 49.0]),
    *(
        (f"{name} of order {n}", lambda x, name=name, n=n: getattr(ours, name)(n, x), spherical(f, n), [1e-3, 1.0, 10.0, 600.0])
        for name, f in (
            ("spherical_jn", mp.besselj), ("spherical_yn", mp.bessely), ("spherical_in", mp.besseli), ("spherical_kn", mp.besselk),
        )
        for n in (0, 1, 7)
    ),
    *(
        (f"airy {k}", output(special.airy, k), lambda x, f=f, k=k: f(x, derivative=k % 2), [-50.0, -3.0, 1e-3, 1.0, 10.0, 30.0])
        for k, f in enumerate((mp.airyai, mp.airyai, mp.airybi, mp.airybi))
    ),
    *(
        (
            f"airye {k}", output(special.airye, k), lambda x, k=k: mp.airyai(x, derivative=k) * mp.exp(zeta(x)),
            [1e-3, 1.0, 9.99, 10.01, 18.0, 1e2, 1e4, 5 + 3j, 15 + 12j, -20 + 200j],
        )
        for k in (0, 1)
    ),
    *(
        (
            f"airye {k + 2}", output(special.airye, k + 2), lambda x, k=k: bi_scaled(x, k),
            [-50.0, -0.1, 1e-3, 1.0, 9.99, 10.01, 18.0, 1e2, 1e4],
        )
        for k in (0, 1)
    ),
]

STRUVE = [
    *(
        (f"{name} of order {v}", lambda x, f=f, v=v: f(v, x), lambda x, g=g, v=v: g(v, x), [1e-3, 0.99, 1.01, 10.1, 50.0, 200.0])
        for name, f, g in (("struve", special.struve, mp.struveh), ("modstruve", special.modstruve, mp.struvel))
        for v in (0, 1, 2.5, -0.5, 40, 200)
    ),
    ("struve of negative numbers", lambda x: special.struve(0, x), lambda x: mp.struveh(0, x), [-20.0, -1.01, -0.5]),
    ("modstruve of negative numbers", lambda x: special.modstruve(1, x), lambda x: mp.struvel(1, x), [-20.0, -1.01, -0.5]),
    *(
        (name, getattr(special, name), lambda x, f=f: f(0, x), [1e-3, 0.99, 1.01, 5.0, 30.0])
        for name, f in (("ber", mp.ber), ("bei", mp.bei), ("ker", mp.ker), ("kei", mp.kei))
    ),
    ("Kelvin's Be", output(special.kelvin, 0), lambda x: mp.ber(0, x) + 1j * mp.bei(0, x), [1e-3, 1.0, 5.0, 30.0]),
    ("Kelvin's Ke", output(special.kelvin, 1), lambda x: mp.ker(0, x) + 1j * mp.kei(0, x), [1e-3, 1.0, 5.0, 30.0]),
]

ELLIPTIC = [
    ("ellipk", special.ellipk, mp.ellipk, NEAR_ONE),
    ("ellipe", special.ellipe, mp.ellipe, NEAR_ONE),
    ("ellipkm1", special.ellipkm1, lambda p: mp.ellipk(1 - p), [1e-12, 0.1, 1.0, 1.1, 50.0, 1e8]),
    *(
        (f"{name} of {phi} along m", lambda m, f=f, phi=phi: f(phi, m), lambda m, g=g, phi=phi: g(phi, m), NEAR_ONE[1:])
        for name, f, g in (("ellipkinc", special.ellipkinc, mp.ellipf), ("ellipeinc", special.ellipeinc, mp.ellipe))
        for phi in (0.3, -1.5, 2.0, 100.0)
    ),
    *(
        (
            f"{name} of {m} along phi", lambda phi, f=f, m=m: f(phi, m), lambda phi, g=g, m=m: g(phi, m),
            [-7.0, 1e-5, 0.3, np.pi / 2, 10.0],
        )
        for name, f, g in (("ellipkinc", special.ellipkinc, mp.ellipf), ("ellipeinc", special.ellipeinc, mp.ellipe))
        for m in (-3.0, 0.0, 0.9)
    ),
    *(
        (
            f"{name} along m at {u}", lambda m, place=place, u=u: special.ellipj(u, m)[place],
            lambda m, name=name, u=u: mp.re(mp.ellipfun(name, u, m=m)), [1e-9, 0.3, 0.9, 1 - 1e-6],
        )
        for place, name in enumerate(("sn", "cn", "dn"))
        for u in (0.3, -5.0, 20.0)
    ),
    *(
        (
            f"{name} of {point} along {place}",
            lambda x, f=f, point=point, place=place: f(*point[:place], x, *point[place + 1 :]),
            lambda x, g=g, point=point, place=place: g(*point[:place], x, *point[place + 1 :]),
            [point[place]],
        )
        for name, f, g, points in (
            ("elliprf", special.elliprf, mp.elliprf, [(1.0, 2.0, 3.0), (1.0, 1.0, 1.0), (1e-6, 1.0, 1e9), (0.0, 1.0, 2.0)]),
            ("elliprd", special.elliprd, mp.elliprd, [(1.0, 2.0, 3.0), (1.0, 1.0, 1.0), (1.0, 1 + 1e-9, 1.0), (0.0, 1.0, 2.0)]),
            ("elliprg", special.elliprg, mp.elliprg, [(1.0, 2.0, 3.0), (1.0, 1.0, 1.0), (1e-6, 1.0, 2.0), (0.0, 1.0, 2.0)]),
            ("elliprc", special.elliprc, mp.elliprc, [(1.0, 2.0), (1.0, 1 + 1e-9), (3.0, 1e-8), (2.0, -1.0), (1e-3, -5.0)]),
            ("elliprj", special.elliprj, mp.elliprj, [
                (1.0, 2.0, 3.0, 4.0), (1.0, 1.0, 1.0, 1.0), (1.0, 2.0, 3.0, 1 + 1e-10), (1.0, 2.0, 3.0, 1e-8),
                (1.0, 2.0, 3.0, -1.0), (0.0, 2.0, 3.0, 1.0),
            ]),
        )
        for point in points
        for place in range(len(point))
        if point[place]
    ),
]  # fmt: skip

INTEGRALS = [
    ("expi", special.expi, mp.ei, [1e-12, 0.5, 100.0, 712.0, -1e-3, -100.0]),
    ("exp1", special.exp1, mp.e1, [1e-12, 0.5, 100.0, 700.0, 0.5 + 3j, -3 + 2j]),
    *((f"expn {n}", lambda x, n=n: special.expn(n, x), lambda x, n=n: mp.expint(n, x), [1e-3, 1.0, 100.0]) for n in (0, 1, 2, 10)),
    ("Si", output(special.sici, 0), mp.si, [1e-12, 0.99, 1.01, 30.0, 1e6, -2.0, 0.9 + 0.3j, 3 - 2j]),
    ("Ci", output(special.sici, 1), mp.ci, [1e-12, 0.99, 1.01, 30.0, 1e6, 3 - 2j]),
    ("Shi", output(special.shichi, 0), mp.shi, [1e-12, 0.99, 1.01, 30.0, 712.0, -2.0, 0.9 + 0.3j]),
    ("Chi", output(special.shichi, 1), mp.chi, [1e-12, 0.99, 1.01, 30.0, 712.0, 3 - 2j]),
    ("Fresnel's S", output(special.fresnel, 0), mp.fresnels, [1e-3, 0.7, 5.1, 1e3 + 0.3, 1 + 1j]),
    ("Fresnel's C", output(special.fresnel, 1), mp.fresnelc, [1e-3, 0.7, 5.1, 1e3 + 0.3, 1 + 1j]),
    ("K+", output(special.modfresnelp, 1), upper_fresnel, [0.3, 3.0, 7.9, 8.1, 1e3, 1e5]),
    ("K-", output(special.modfresnelm, 1), lambda x: mp.conj(upper_fresnel(x)), [0.3, 3.0, 7.9, 8.1, 1e3, 1e5]),
    ("spence", special.spence, lambda z: mp.polylog(2, 1 - z), [1e-12, 0.1, 0.91, 1 - 1e-8, 1.09, 1.11, 10.0, 1e8, 2 + 3j]),
    ("W", lambda z: ours.lambertw(z).real, lambda z: mp.re(mp.lambertw(z)), [1e-12, -0.36, -0.3678, 0.99, 1.01, 1e100]),
    *(
        (f"W on branch {k}", lambda z, k=k: ours.lambertw(z, k), lambda z, k=k: mp.lambertw(z, k), [1e-8 + 1e-8j, 0.36j, -5 + 1j, 1e200 - 1e199j])
        for k in (0, -1, 3)
    ),
    ("omega", special.wrightomega, lambda x: mp.re(mp.lambertw(mp.exp(x))), [-700.0, -3.0, 0.0, 1.0, 100.0, 1e4]),
]  # fmt: skip

POLYNOMIALS = [
    (f"{name} {n}", lambda x, f=f, n=n: f(n, x), lambda x, g=g, n=n: g(n, x), points)
    for name, f, g, points in (
        ("eval_legendre", special.eval_legendre, mp.legendre, ENDS),
        ("eval_sh_legendre", special.eval_sh_legendre, lambda n, x: mp.legendre(n, 2 * x - 1), SHIFTED_ENDS),
        ("eval_chebyt", special.eval_chebyt, mp.chebyt, ENDS),
        ("eval_sh_chebyt", special.eval_sh_chebyt, lambda n, x: mp.chebyt(n, 2 * x - 1), SHIFTED_ENDS),
        ("eval_chebyu", special.eval_chebyu, mp.chebyu, ENDS),
        ("eval_gegenbauer", lambda n, x: special.eval_gegenbauer(n, 0.7, x), lambda n, x: mp.gegenbauer(n, 0.7, x), ENDS),
        ("eval_jacobi", lambda n, x: special.eval_jacobi(n, 0.7, 1.2, x), lambda n, x: mp.jacobi(n, 0.7, 1.2, x), ENDS),
        ("eval_laguerre", special.eval_laguerre, lambda n, x: mp.laguerre(n, 0, x), [0.0, 1e-3, 2.0, 50.0]),
        ("eval_genlaguerre", lambda n, x: special.eval_genlaguerre(n, 0.7, x), lambda n, x: mp.laguerre(n, 0.7, x), [1e-3, 2.0, 50.0]),
        ("eval_hermite", special.eval_hermite, mp.hermite, [0.0, 1e-3, 2.0, -10.0]),
    )
    for n in (0, 1, 2, 9, 50)
]  # fmt: skip

FERRERS = [
    (
        f"lpmv {m} {v}", lambda x, m=m, v=v: special.lpmv(m, v, x),
        lambda x, m=m, v=v: mp.re(mp.legenp(v, m, x, type=2)), [-1 + 1e-6, -0.7, 1e-3, 0.95, 1 - 1e-6][v == 2.5 :],
    )
    for m, v in ((0, 6), (1, 6), (2, 6), (3, 6), (-1, 6), (-3, 6), (2, 20), (0, 2.5), (1, 2.5), (-2, 2.5), (1, -3.5))
]  # fmt: skip

HYPERGEOMETRIC = [
    *(
        (f"hyp0f1 {v}", lambda x, v=v: special.hyp0f1(v, x), lambda x, v=v: mp.hyp0f1(v, x), [-1e4, -3.0, 0.0, 0.1, 50.0, 1e4])
        for v in (0.5, 4.0, -1.5)
    ),
    *(
        (f"hyp1f1 {a} {b}", lambda x, a=a, b=b: special.hyp1f1(a, b, x), lambda x, a=a, b=b: mp.hyp1f1(a, b, x),
         [-200.0, -3.0, 0.0, 0.1, 50.0, 200.0])
        for a, b in ((0.7, 1.3), (2.0, 5.5), (-3.0, 1.5))
    ),
    *(
        (f"hyp2f1 {a} {b} {c}", lambda x, a=a, b=b, c=c: special.hyp2f1(a, b, c, x),
         lambda x, a=a, b=b, c=c: mp.hyp2f1(a, b, c, x), [-1e6, -3.0, -0.5, 0.0, 0.5, 0.95, 1 - 1e-9])
        for a, b, c in ((0.7, 1.3, 2.1), (0.5, 0.5, 1.0), (1.0, 1.0, 2.0), (3.0, -0.5, 4.5))
    ),
    ("hyperu", lambda x: special.hyperu(2.0, 5.5, x), lambda x: mp.hyperu(2, 5.5, x), [1e-3, 0.5, 3.0, 50.0]),
    *(
        (name, lambda x, f=f: f(0.5, 1.2, x), g, [1e-3, 0.5, 20.0])
        for name, f, g in (
            ("wright_bessel", special.wright_bessel, lambda x: wright(x)),
            ("log_wright_bessel", special.log_wright_bessel, lambda x: mp.log(wright(x))),
        )
    ),
    *((f"pbdv {v}", lambda x, v=v: special.pbdv(v, x)[0], lambda x, v=v: mp.pcfd(v, x), [-3.0, 1e-3, 2.0, 10.0]) for v in (1.5, 3.0, -0.7)),
    *(
        (f"pbvv {v}", lambda x, v=v: special.pbvv(v, x)[0], lambda x, v=v: mp.re(mp.pcfv(-v - 0.5, x)), [-3.0, 1e-3, 2.0, 10.0])
        for v in (1.5, 3.0, -0.7)
    ),
    ("pbwa", lambda x: special.pbwa(0.5, x)[0], lambda x: mp.re(mp.pcfw(0.5, x)), [0.5, 2.0]),
    *(
        (f"diric {n}", lambda x, n=n: ours.diric(x, n), lambda x, n=n: mp.sin(n * x / 2) / (n * mp.sin(x / 2)), [1e-3, 1.0, 6.2, 20.0])
        for n in (2, 5, 100)
    ),
]  # fmt: skip


def wright(x: Any) -> Any:
    return mp.nsum(lambda k: x**k / mp.factorial(k) * mp.rgamma(0.5 * k + 1.2), [0, mp.inf])


ALL = [*BESSEL, *STRUVE, *ELLIPTIC, *INTEGRALS, *POLYNOMIALS, *FERRERS, *HYPERGEOMETRIC]


@pytest.mark.parametrize(("f", "reference", "points"), [pytest.param(*row[1:], id=row[0]) for row in ALL])
def test_first_derivatives_have_ten_digits(f, reference, points):
    for x in points:
        assert_derivative(f, of(reference), x, 1, 1e-10)
