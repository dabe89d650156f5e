"""Special functions of mathematical physics: the table, 50 digits, edges, refusals.

scipy_special_table_b.py    the calls that are checked against SciPy's values and finite differences
SLOPES, CURVATURES          derivatives against mpmath: large arguments, poles, removable points, ends of intervals
EDGES                       derivatives at single points that are known exactly
CONSTANTS                   arguments without a closed form
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special as special
import scipy_special_table_b as table
from coverage_table import DIFFERENTIABLE, NOT_SUPPORTED, look_up
from helpers import grouped, naming
from rows import check_calls, with_calls

import fgrad as fg
import fgrad.scipy.special as ours
from fgrad.core.tensor import Tensor
from fgrad.errors import MissingRuleError, NoClosedFormError
from fgrad.testing import check_grads

INF = np.inf
Number = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def scipys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def rows_of(kind):
    return [row for row in table.ROWS if row.kind == kind]


def by_function(cases):
    """Return the cases as parameters, one for each function."""
    return grouped([pytest.param(*case[1:], id=case[0]) for case in cases], lambda name: name.partition(" ")[0])


# The table


@pytest.mark.parametrize("row", with_calls(rows_of(DIFFERENTIABLE)))
def test_values_derivatives_precision_and_batches(row):
    check_calls(row)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.names[0]) for row in rows_of(NOT_SUPPORTED)])
def test_what_has_no_closed_form_says_so(row):
    (call,) = row.calls
    with pytest.raises(row.error, match=re.escape(row.match)):
        fg.vjp(call.function, *call.points)
    for place in range(len(call.points)):
        with pytest.raises(row.error, match=re.escape(f"{row.names[0]} has no closed-form derivative")):
            fg.jvp(
                lambda x, place=place: call.function(*call.points[:place], x, *call.points[place + 1 :]),
                (call.points[place],),
                (np.ones(1),),
            )


def test_the_names_in_the_table_exist_and_have_one_row():
    names = [name for row in table.ROWS for name in row.names]
    assert len(names) == len(set(names))
    assert [name for name in names if look_up(name) is None] == []


# Against mpmath, at 50 digits


def nth(f: Number, x: Any, n: int) -> Any:
    """Return the n-th derivative of a function of one number, by forward mode within forward mode."""
    if n == 0:
        return f(x)
    return fg.jvp(lambda x: nth(f, x, n - 1), (x,), (np.ones_like(x),))[1]


def of(f: Number, n: int = 1) -> Number:
    """Return the n-th derivative of a function of mpmath by differences, which leave 20 digits."""

    def derivative(x: Any) -> Any:
        step = (abs(x) or 1) * mp.mpf(10) ** (-15 if n == 1 else -12)
        if n == 1:
            return (f(x + step) - f(x - step)) / (2 * step)
        return (f(x + step) - 2 * f(x) + f(x - step)) / step**2

    return derivative


def assert_derivative(f: Number, derivative: Number, x: Any, n: int, tolerance: float) -> None:
    found = nth(f, np.array(x), n).numpy()
    with mp.workdps(50):
        expected = derivative(mp.mpmathify(x))
        if found.dtype.kind != "c":
            expected = mp.re(expected)
        assert abs(mp.mpmathify(found.item()) - expected) <= tolerance * abs(expected), (
            x,
            found,
            mp.nstr(expected, 17),
        )


SMALL = [1e-8, 1e-3, 0.5, 0.99, 1.0, 1.01, 3.0]
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


def wright(x: Any) -> Any:
    return mp.nsum(lambda k: x**k / mp.factorial(k) * mp.rgamma(0.5 * k + 1.2), [0, mp.inf])


BESSEL = [
    ("j0", special.j0, lambda x: mp.besselj(0, x), [*SMALL, *MEDIUM, -3.0, 1e5]),
    ("j1", special.j1, lambda x: mp.besselj(1, x), [*SMALL, *MEDIUM, -3.0, 1e5]),
    ("y0", special.y0, lambda x: mp.bessely(0, x), [*SMALL, *MEDIUM, 1e5]),
    ("y1", special.y1, lambda x: mp.bessely(1, x), [*SMALL, *MEDIUM, 1e5]),
    ("i0", special.i0, lambda x: mp.besseli(0, x), [*TO_700, 709.0, -3.0]),
    ("i1", special.i1, lambda x: mp.besseli(1, x), [*TO_700, 709.0, -3.0]),
    ("k0", special.k0, lambda x: mp.besselk(0, x), TO_700),
    ("k1", special.k1, lambda x: mp.besselk(1, x), TO_700),
    ("i0e", special.i0e, scaled(mp.besseli, 0), [*SMALL, *MEDIUM, *LARGE, -0.5, -51.0, -1e8]),
    ("i1e", special.i1e, scaled(mp.besseli, 1), [*SMALL, *MEDIUM, *LARGE, -0.5, -51.0, -1e8]),
    ("k0e", special.k0e, scaled(mp.besselk, 0), [*SMALL, *MEDIUM, *LARGE]),
    ("k1e", special.k1e, scaled(mp.besselk, 1), [*SMALL, *MEDIUM, *LARGE]),
    *(
        (
            f"{name} of order {v}",
            lambda x, f=f, v=v: f(v, x),
            lambda x, g=g, v=v: g(v, x),
            [1e-3, 0.5, 3.0, 49.0, 120.0],
        )
        for name, f, g in (
            ("jv", special.jv, mp.besselj),
            ("yv", special.yv, mp.bessely),
            ("iv", special.iv, mp.besseli),
            ("kv", special.kv, mp.besselk),
            ("hankel1", special.hankel1, mp.hankel1),
            ("hankel2", special.hankel2, mp.hankel2),
        )
        for v in (0, 2.5, -1.3, 40)
    ),
    *(
        (
            f"{name} of order {v}",
            lambda x, f=f, v=v: f(v, x),
            scaled(g, v),
            [0.5, 51.0, 1e8] if v == 40 else [1e-3, 0.5, 49.0, 51.0, 1e3, *LARGE, *([] if name == "ive" else PLANE)],
        )
        for name, f, g in (
            ("ive", special.ive, mp.besseli),
            ("kve", special.kve, mp.besselk),
            ("hankel1e", special.hankel1e, mp.hankel1),
            ("hankel2e", special.hankel2e, mp.hankel2),
        )
        for v in (0, 2.5, 40)
    ),
    ("yn", lambda x: special.yn(3, x), lambda x: mp.bessely(3, x), [1e-3, 3.0, 49.0]),
    ("kn", lambda x: special.kn(3, x), lambda x: mp.besselk(3, x), [1e-3, 3.0, 49.0]),
    *(
        (
            f"{name} of order {n}",
            lambda x, name=name, n=n: getattr(ours, name)(n, x),
            spherical(f, n),
            [1e-3, 1.0, 10.0, 600.0],
        )
        for name, f in (
            ("spherical_jn", mp.besselj),
            ("spherical_yn", mp.bessely),
            ("spherical_in", mp.besseli),
            ("spherical_kn", mp.besselk),
        )
        for n in (0, 1, 7)
    ),
    *(
        (
            f"airy {k}",
            output(special.airy, k),
            lambda x, f=f, k=k: f(x, derivative=k % 2),
            [-50.0, -3.0, 1e-3, 1.0, 10.0, 30.0],
        )
        for k, f in enumerate((mp.airyai, mp.airyai, mp.airybi, mp.airybi))
    ),
    *(
        (
            f"airye {k}",
            output(special.airye, k),
            lambda x, k=k: mp.airyai(x, derivative=k) * mp.exp(zeta(x)),
            [1e-3, 1.0, 9.99, 10.01, 18.0, 1e2, 1e4, 5 + 3j, 15 + 12j, -20 + 200j],
        )
        for k in (0, 1)
    ),
    *(
        (
            f"airye {k + 2}",
            output(special.airye, k + 2),
            lambda x, k=k: bi_scaled(x, k),
            [-50.0, -0.1, 1e-3, 1.0, 9.99, 10.01, 18.0, 1e2, 1e4],
        )
        for k in (0, 1)
    ),
]

STRUVE = [
    *(
        (
            f"{name} of order {v}",
            lambda x, f=f, v=v: f(v, x),
            lambda x, g=g, v=v: g(v, x),
            [10.1, 50.0, 200.0] if v == 200 else [1e-3, 0.99, 1.01, 10.1, 50.0, 200.0],
        )
        for name, f, g in (("struve", special.struve, mp.struveh), ("modstruve", special.modstruve, mp.struvel))
        for v in (0, 1, 2.5, -0.5, 40, 200)
    ),
    ("struve of negative numbers", lambda x: special.struve(0, x), lambda x: mp.struveh(0, x), [-20.0, -1.01, -0.5]),
    (
        "modstruve of negative numbers",
        lambda x: special.modstruve(1, x),
        lambda x: mp.struvel(1, x),
        [-20.0, -1.01, -0.5],
    ),
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
            f"{name} of {m} along phi",
            lambda phi, f=f, m=m: f(phi, m),
            lambda phi, g=g, m=m: g(phi, m),
            [-7.0, 1e-5, 0.3, np.pi / 2, 10.0],
        )
        for name, f, g in (("ellipkinc", special.ellipkinc, mp.ellipf), ("ellipeinc", special.ellipeinc, mp.ellipe))
        for m in (-3.0, 0.0, 0.9)
    ),
    *(
        (
            f"{name} along m at {u}",
            lambda m, place=place, u=u: special.ellipj(u, m)[place],
            lambda m, name=name, u=u: mp.re(mp.ellipfun(name, u, m=m)),
            [1e-9, 0.3, 0.9, 1 - 1e-6],
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
            (
                "elliprf",
                special.elliprf,
                mp.elliprf,
                [(1.0, 2.0, 3.0), (1.0, 1.0, 1.0), (1e-6, 1.0, 1e9), (0.0, 1.0, 2.0)],
            ),
            (
                "elliprd",
                special.elliprd,
                mp.elliprd,
                [(1.0, 2.0, 3.0), (1.0, 1.0, 1.0), (1.0, 1 + 1e-9, 1.0), (0.0, 1.0, 2.0)],
            ),
            (
                "elliprg",
                special.elliprg,
                mp.elliprg,
                [(1.0, 2.0, 3.0), (1.0, 1.0, 1.0), (1e-6, 1.0, 2.0), (0.0, 1.0, 2.0)],
            ),
            (
                "elliprc",
                special.elliprc,
                mp.elliprc,
                [(1.0, 2.0), (1.0, 1 + 1e-9), (3.0, 1e-8), (2.0, -1.0), (1e-3, -5.0)],
            ),
            (
                "elliprj",
                special.elliprj,
                mp.elliprj,
                [
                    (1.0, 2.0, 3.0, 4.0),
                    (1.0, 1.0, 1.0, 1.0),
                    (1.0, 2.0, 3.0, 1 + 1e-10),
                    (1.0, 2.0, 3.0, 1e-8),
                    (1.0, 2.0, 3.0, -1.0),
                    (0.0, 2.0, 3.0, 1.0),
                ],
            ),
        )
        for point in points
        for place in range(len(point))
        if point[place]
    ),
]

INTEGRALS = [
    ("expi", special.expi, mp.ei, [1e-12, 0.5, 100.0, 712.0, -1e-3, -100.0]),
    ("exp1", special.exp1, mp.e1, [1e-12, 0.5, 100.0, 700.0, 0.5 + 3j, -3 + 2j]),
    *(
        (f"expn {n}", lambda x, n=n: special.expn(n, x), lambda x, n=n: mp.expint(n, x), [1e-3, 1.0, 100.0])
        for n in (0, 1, 2, 10)
    ),
    ("Si", output(special.sici, 0), mp.si, [1e-12, 0.99, 1.01, 30.0, 1e6, -2.0, 0.9 + 0.3j, 3 - 2j]),
    ("Ci", output(special.sici, 1), mp.ci, [1e-12, 0.99, 1.01, 30.0, 1e6, 3 - 2j]),
    ("Shi", output(special.shichi, 0), mp.shi, [1e-12, 0.99, 1.01, 30.0, 712.0, -2.0, 0.9 + 0.3j]),
    ("Chi", output(special.shichi, 1), mp.chi, [1e-12, 0.99, 1.01, 30.0, 712.0, 3 - 2j]),
    ("Fresnel's S", output(special.fresnel, 0), mp.fresnels, [1e-3, 0.7, 5.1, 1e3 + 0.3, 1 + 1j]),
    ("Fresnel's C", output(special.fresnel, 1), mp.fresnelc, [1e-3, 0.7, 5.1, 1e3 + 0.3, 1 + 1j]),
    ("K+", output(special.modfresnelp, 1), upper_fresnel, [0.3, 3.0, 7.9, 8.1, 1e3, 1e5]),
    ("K-", output(special.modfresnelm, 1), lambda x: mp.conj(upper_fresnel(x)), [0.3, 3.0, 7.9, 8.1, 1e3, 1e5]),
    (
        "spence",
        special.spence,
        lambda z: mp.polylog(2, 1 - z),
        [1e-12, 0.1, 0.91, 1 - 1e-8, 1.09, 1.11, 10.0, 1e8, 2 + 3j],
    ),
    ("W", lambda z: ours.lambertw(z).real, lambda z: mp.re(mp.lambertw(z)), [1e-12, -0.36, -0.3678, 0.99, 1.01, 1e100]),
    *(
        (
            f"W on branch {k}",
            lambda z, k=k: ours.lambertw(z, k),
            lambda z, k=k: mp.lambertw(z, k),
            [1e-8 + 1e-8j, 0.36j, -5 + 1j, 1e200 - 1e199j],
        )
        for k in (0, -1, 3)
    ),
    ("omega", special.wrightomega, lambda x: mp.re(mp.lambertw(mp.exp(x))), [-700.0, -3.0, 0.0, 1.0, 100.0, 1e4]),
]

POLYNOMIALS = [
    (f"{name} {n}", lambda x, f=f, n=n: f(n, x), lambda x, g=g, n=n: g(n, x), points)
    for name, f, g, points in (
        ("eval_legendre", special.eval_legendre, mp.legendre, ENDS),
        ("eval_sh_legendre", special.eval_sh_legendre, lambda n, x: mp.legendre(n, 2 * x - 1), SHIFTED_ENDS),
        ("eval_chebyt", special.eval_chebyt, mp.chebyt, ENDS),
        ("eval_sh_chebyt", special.eval_sh_chebyt, lambda n, x: mp.chebyt(n, 2 * x - 1), SHIFTED_ENDS),
        ("eval_chebyu", special.eval_chebyu, mp.chebyu, ENDS),
        (
            "eval_gegenbauer",
            lambda n, x: special.eval_gegenbauer(n, 0.7, x),
            lambda n, x: mp.gegenbauer(n, 0.7, x),
            ENDS,
        ),
        ("eval_jacobi", lambda n, x: special.eval_jacobi(n, 0.7, 1.2, x), lambda n, x: mp.jacobi(n, 0.7, 1.2, x), ENDS),
        ("eval_laguerre", special.eval_laguerre, lambda n, x: mp.laguerre(n, 0, x), [0.0, 1e-3, 2.0, 50.0]),
        (
            "eval_genlaguerre",
            lambda n, x: special.eval_genlaguerre(n, 0.7, x),
            lambda n, x: mp.laguerre(n, 0.7, x),
            [1e-3, 2.0, 50.0],
        ),
        ("eval_hermite", special.eval_hermite, mp.hermite, [0.0, 1e-3, 2.0, -10.0]),
    )
    for n in (0, 1, 2, 9, 50)
]

FERRERS = [
    (
        f"lpmv {m} {v}",
        lambda x, m=m, v=v: special.lpmv(m, v, x),
        lambda x, m=m, v=v: mp.re(mp.legenp(v, m, x, type=2)),
        points,
    )
    for m, v, points in (
        *((m, 6, [-1 + 1e-3, 1e-3, 0.95]) for m in (1, 2, 3)),
        *((m, 6, [-1 + 1e-6, 1e-3, 1 - 1e-6]) for m in (0, -1, -3)),
        *((m, 2.5, [-0.7, 1e-3, 1 - 1e-6]) for m in (0, 1, -2)),
        (2, 20, [-0.7, 0.95]),
        (1, -3.5, [-0.7, 0.95]),
    )
]

HYPERGEOMETRIC = [
    *(
        (
            f"hyp0f1 {v}",
            lambda x, v=v: special.hyp0f1(v, x),
            lambda x, v=v: mp.hyp0f1(v, x),
            [-1e4, -3.0, 0.0, 0.1, 50.0, 1e4],
        )
        for v in (0.5, 4.0, -1.5)
    ),
    *(
        (
            f"hyp1f1 {a} {b}",
            lambda x, a=a, b=b: special.hyp1f1(a, b, x),
            lambda x, a=a, b=b: mp.hyp1f1(a, b, x),
            [-200.0, -3.0, 0.0, 0.1, 50.0, 200.0],
        )
        for a, b in ((0.7, 1.3), (2.0, 5.5), (-3.0, 1.5))
    ),
    *(
        (
            f"hyp2f1 {a} {b} {c}",
            lambda x, a=a, b=b, c=c: special.hyp2f1(a, b, c, x),
            lambda x, a=a, b=b, c=c: mp.hyp2f1(a, b, c, x),
            [-1e6, -3.0, -0.5, 0.0, 0.5, 0.95, 1 - 1e-9],
        )
        for a, b, c in ((0.7, 1.3, 2.1), (0.5, 0.5, 1.0), (1.0, 1.0, 2.0), (3.0, -0.5, 4.5))
    ),
    ("hyperu", lambda x: special.hyperu(2.0, 5.5, x), lambda x: mp.hyperu(2, 5.5, x), [1e-3, 0.5, 3.0, 50.0]),
    *(
        (name, lambda x, f=f: f(0.5, 1.2, x), g, [1e-3, 0.5, 20.0])
        for name, f, g in (
            ("wright_bessel", special.wright_bessel, wright),
            ("log_wright_bessel", special.log_wright_bessel, lambda x: mp.log(wright(x))),
        )
    ),
    *(
        (f"pbdv {v}", lambda x, v=v: special.pbdv(v, x)[0], lambda x, v=v: mp.pcfd(v, x), [-3.0, 1e-3, 2.0, 10.0])
        for v in (1.5, 3.0, -0.7)
    ),
    *(
        (
            f"pbvv {v}",
            lambda x, v=v: special.pbvv(v, x)[0],
            lambda x, v=v: mp.re(mp.pcfv(-v - 0.5, x)),
            [-3.0, 1e-3, 2.0, 10.0],
        )
        for v in (1.5, 3.0, -0.7)
    ),
    ("pbwa", lambda x: special.pbwa(0.5, x)[0], lambda x: mp.re(mp.pcfw(0.5, x)), [0.5, 2.0]),
    *(
        (
            f"diric {n}",
            lambda x, n=n: ours.diric(x, n),
            lambda x, n=n: mp.sin(n * x / 2) / (n * mp.sin(x / 2)),
            [1e-3, 1.0, 6.2, 20.0],
        )
        for n in (2, 5, 100)
    ),
]


EXACT = [
    ("itairy Ai", output(special.itairy, 0), mp.airyai, [-3.0, 1e-3, 2.0]),
    ("itairy Bi", output(special.itairy, 1), mp.airybi, [-3.0, 1e-3, 2.0]),
    ("itairy Ai backwards", output(special.itairy, 2), lambda x: mp.airyai(-x), [1e-3, 2.0]),
    ("itairy Bi backwards", output(special.itairy, 3), lambda x: mp.airybi(-x), [1e-3, 2.0]),
    ("itj0y0 J", output(special.itj0y0, 0), lambda x: mp.besselj(0, x), [-3.0, 1e-8, 20.0]),
    ("itj0y0 Y", output(special.itj0y0, 1), lambda x: mp.bessely(0, x), [1e-8, 20.0]),
    ("iti0k0 I", output(special.iti0k0, 0), lambda x: mp.besseli(0, x), [-3.0, 1e-8, 20.0]),
    ("iti0k0 K", output(special.iti0k0, 1), lambda x: mp.besselk(0, x), [1e-8, 20.0]),
    ("it2j0y0 J", output(special.it2j0y0, 0), lambda x: (1 - mp.besselj(0, x)) / x, [-3.0, 1e-8, 0.99, 1.01, 20.0]),
    ("it2j0y0 Y", output(special.it2j0y0, 1), lambda x: -mp.bessely(0, x) / x, [1e-8, 20.0]),
    ("it2i0k0 I", output(special.it2i0k0, 0), lambda x: (mp.besseli(0, x) - 1) / x, [-3.0, 1e-8, 0.99, 1.01, 20.0]),
    ("it2i0k0 K", output(special.it2i0k0, 1), lambda x: -mp.besselk(0, x) / x, [1e-8, 20.0]),
    ("itstruve0", special.itstruve0, lambda x: mp.struveh(0, x), [-3.0, 1e-8, 20.0]),
    ("it2struve0", special.it2struve0, lambda x: -mp.struveh(0, x) / x, [-3.0, 1e-8, 0.99, 1.01, 20.0]),
    ("itmodstruve0", special.itmodstruve0, lambda x: mp.struvel(0, x), [-3.0, 1e-8, 20.0]),
    (
        "Fresnel's S far out",
        output(special.fresnel, 0),
        lambda x: mp.sin(mp.pi * x * x / 2),
        [1e4 + 0.1, -1e6 - 0.3, 1e8 + 0.6],
    ),
    (
        "Fresnel's C far out",
        output(special.fresnel, 1),
        lambda x: mp.cos(mp.pi * x * x / 2),
        [1e4 + 0.1, -1e6 - 0.3, 1e8 + 0.6],
    ),
    ("F+", output(special.modfresnelp, 0), lambda x: -mp.exp(1j * x * x), [-2.0, 0.0, 3.0, 100.0]),
    ("F-", output(special.modfresnelm, 0), lambda x: -mp.exp(-1j * x * x), [-2.0, 0.0, 3.0, 100.0]),
    *(
        (
            f"besselpoly {lmb} {nu}",
            lambda a, lmb=lmb, nu=nu: special.besselpoly(a, lmb, nu),
            lambda a, lmb=lmb, nu=nu: mp.quad(
                lambda t: 2 * t ** (lmb + 1) * mp.besselj(nu, 2 * a * t, derivative=1), [0, 1]
            ),
            [0.3, 2.0],
        )
        for lmb, nu in ((1.0, 0.5), (0.0, 0.0), (2.0, 3.5))
    ),
    *(
        (f"{name} slope", getattr(special, f"{name}p"), of(lambda x, f=f: f(0, x), 2), [1e-3, 0.99, 1.01, 5.0, 30.0])
        for name, f in (("ber", mp.ber), ("bei", mp.bei), ("ker", mp.ker), ("kei", mp.kei))
    ),
    (
        "Kelvin's Be slope",
        output(special.kelvin, 2),
        of(lambda x: mp.ber(0, x) + 1j * mp.bei(0, x), 2),
        [0.5, 5.0, 30.0],
    ),
    (
        "Kelvin's Ke slope",
        output(special.kelvin, 3),
        of(lambda x: mp.ker(0, x) + 1j * mp.kei(0, x), 2),
        [0.5, 5.0, 30.0],
    ),
    ("pbdv slope", lambda x: special.pbdv(1.5, x)[1], of(lambda x: mp.pcfd(1.5, x), 2), [-3.0, 0.5, 10.0]),
    ("pbvv slope", lambda x: special.pbvv(1.5, x)[1], of(lambda x: mp.re(mp.pcfv(-2, x)), 2), [-3.0, 0.5, 10.0]),
    ("pbwa slope", lambda x: special.pbwa(0.5, x)[1], of(lambda x: mp.re(mp.pcfw(0.5, x)), 2), [0.5, 2.0]),
]

NUMERICAL = [*BESSEL, *STRUVE, *ELLIPTIC, *INTEGRALS, *POLYNOMIALS, *FERRERS, *HYPERGEOMETRIC]
SLOPES = [*EXACT, *((name, f, of(reference), points) for name, f, reference, points in NUMERICAL)]


@pytest.mark.parametrize("cases", by_function(SLOPES))
@pytest.mark.slow
def test_first_derivatives_have_ten_digits(cases):
    for name, f, derivative, points in cases:
        for x in points:
            with naming(name, x):
                assert_derivative(f, derivative, x, 1, 1e-10)


SCIPYS_OWN_DIGITS = [
    # SciPy's Kelvin functions leave their power series at 10, where it still has nine digits.
    *(
        (name, getattr(special, name), of(lambda x, f=f: f(0, x)), [9.9, 10.1], 1e-8)
        for name, f in (("ber", mp.ber), ("bei", mp.bei), ("ker", mp.ker), ("kei", mp.kei))
    ),
    # SciPy's argument of the hypergeometric function, (1 - x) / 2, has lost six digits of 1 + x.
    ("lpmv", lambda x: special.lpmv(1, 2.5, x), of(lambda x: mp.legenp(2.5, 1, x, type=2)), [-1 + 1e-6], 1e-8),
    # SciPy's own U(1.7, 2.3, 10) has nine digits.
    ("hyperu", lambda x: special.hyperu(0.7, 1.3, x), of(lambda x: mp.hyperu(0.7, 1.3, x)), [10.0], 1e-8),
    # SciPy's own 1F1(1.7; 2.3; 20i) has eight digits.
    ("hyp1f1", lambda z: special.hyp1f1(0.7, 1.3, z), of(lambda z: mp.hyp1f1(0.7, 1.3, z)), [20j], 1e-7),
    # 1 + W is the difference of nearly equal numbers so near to its branch point -1 / e.
    ("lambertw", lambda z: ours.lambertw(z).real, of(lambda z: mp.re(mp.lambertw(z))), [-0.36787944], 1e-8),
    # SciPy's sums of Laguerre functions of broken degree alternate in sign.
    ("laguerre", lambda x: special.eval_laguerre(0.5, x), of(lambda x: mp.laguerre(0.5, 0, x)), [50.0], 1e-9),
    # SciPy's J0 and J1 lose a digit for each that the argument has before its point.
    ("j0", special.j0, of(lambda x: mp.besselj(0, x)), [1e7], 1e-8),
]


@pytest.mark.parametrize(
    ("f", "derivative", "points", "tolerance"), [pytest.param(*row[1:], id=row[0]) for row in SCIPYS_OWN_DIGITS]
)
def test_first_derivatives_have_the_digits_of_scipys_functions(f, derivative, points, tolerance):
    for x in points:
        assert_derivative(f, derivative, x, 1, tolerance)


CURVATURES = [
    ("j1", special.j1, lambda x: mp.besselj(1, x), [0.01, 0.99, 1.01, 30.0]),
    ("i0e", special.i0e, scaled(mp.besseli, 0), [0.5, 49.0, 51.0, 1e6]),
    ("k1e", special.k1e, scaled(mp.besselk, 1), [0.5, 49.0, 51.0, 1e6]),
    ("kve", lambda x: special.kve(2.5, x), scaled(mp.besselk, 2.5), [0.5, 49.0, 51.0, 1e6]),
    ("hankel1e", lambda x: special.hankel1e(2.5, x), scaled(mp.hankel1, 2.5), [0.5, 49.0, 51.0, 1e6]),
    ("airye", output(special.airye, 0), lambda x: mp.airyai(x) * mp.exp(zeta(x)), [0.5, 9.9, 10.1, 1e4]),
    ("airye Bi'", output(special.airye, 3), lambda x: bi_scaled(x, 1), [0.5, 9.9, 12.0, 1e4]),
    ("spherical_jn", lambda x: ours.spherical_jn(0, x), spherical(mp.besselj, 0), [0.01, 3.0, 100.0]),
    ("struve", lambda x: special.struve(1, x), lambda x: mp.struveh(1, x), [0.01, 0.99, 1.01, 30.0]),
    ("modstruve", lambda x: special.modstruve(0, x), lambda x: mp.struvel(0, x), [0.01, 0.99, 1.01, 30.0]),
    ("ellipk", special.ellipk, mp.ellipk, [-1e6, -0.01, 0.0, 0.01, 0.9]),
    ("ellipe", special.ellipe, mp.ellipe, [-1e6, -0.01, 0.0, 0.01, 0.9]),
    ("ellipkinc", lambda m: special.ellipkinc(4.0, m), lambda m: mp.ellipf(4, m), [-1e3, -0.01, 0.01, 0.9]),
    ("ellipj", lambda m: special.ellipj(2.0, m)[0], lambda m: mp.re(mp.ellipfun("sn", 2, m=m)), [0.01, 0.5, 0.99]),
    ("elliprf", lambda y: special.elliprf(1.0, y, 1.0), lambda y: mp.elliprf(1, y, 1), [0.01, 1.0, 1.01, 1e3]),
    ("elliprd", lambda z: special.elliprd(1.0, 2.0, z), lambda z: mp.elliprd(1, 2, z), [0.01, 1.0, 2.0, 1e3]),
    ("elliprj", lambda p: special.elliprj(1.0, 2.0, 3.0, p), lambda p: mp.elliprj(1, 2, 3, p), [0.01, 1.0, 2.0, 1e3]),
    ("Si", output(special.sici, 0), mp.si, [0.01, 0.99, 1.01, 30.0]),
    ("Shi", output(special.shichi, 0), mp.shi, [0.01, 0.99, 1.01, 30.0]),
    ("spence", special.spence, lambda z: mp.polylog(2, 1 - z), [0.5, 0.91, 0.99, 1.01, 1.09, 1.11]),
    ("K+", output(special.modfresnelp, 1), upper_fresnel, [0.5, 7.9, 8.1, 1e4]),
    ("W", lambda z: ours.lambertw(z).real, lambda z: mp.re(mp.lambertw(z)), [-0.3, 0.99, 1.01, 1e10]),
    ("omega", special.wrightomega, lambda x: mp.re(mp.lambertw(mp.exp(x))), [-30.0, 1.0, 30.0]),
    ("eval_legendre", lambda x: special.eval_legendre(9, x), lambda x: mp.legendre(9, x), [-1.0, 0.3, 1.0]),
    ("eval_chebyt", lambda x: special.eval_chebyt(9, x), lambda x: mp.chebyt(9, x), [-1.0, 0.3, 1.0]),
    ("lpmv", lambda x: special.lpmv(2, 6, x), lambda x: mp.re(mp.legenp(6, 2, x, type=2)), [-1 + 1e-6, 0.3, 1 - 1e-6]),
    ("diric", lambda x: ours.diric(x, 5), lambda x: mp.sin(2.5 * x) / (5 * mp.sin(x / 2)), [0.01, 3.0, 6.2]),
    ("hyp2f1", lambda x: special.hyp2f1(0.7, 1.3, 2.1, x), lambda x: mp.hyp2f1(0.7, 1.3, 2.1, x), [-50.0, 0.01, 0.999]),
]


@pytest.mark.parametrize(("f", "reference", "points"), [pytest.param(*row[1:], id=row[0]) for row in CURVATURES])
@pytest.mark.slow
def test_second_derivatives_have_nine_digits(f, reference, points):
    for x in points:
        assert_derivative(f, of(reference, 2), x, 2, 1e-9)


# Single points


def along(f: Any, *before: Any, place: int | None = None) -> Number:
    """Return a function of its last argument, and of its results the one at a place."""
    return lambda x: f(*before, x) if place is None else f(*before, x)[place]


FIRST = [
    ("j0 next to 0", special.j0, 1e-30, -5e-31),
    ("j1", special.j1, 0.0, 0.5),
    ("jv of a small order", along(special.jv, 0.5), 0.0, INF),
    ("y0", special.y0, 0.0, INF),
    ("y1", special.y1, 0.0, INF),
    ("yv", along(special.yv, 2.5), 0.0, INF),
    ("yv that overflows", along(special.yv, 40), 1e-8, INF),
    ("yn", along(special.yn, 3), 0.0, INF),
    ("k0", special.k0, 0.0, -INF),
    ("k1", special.k1, 0.0, -INF),
    ("kv", along(special.kv, 2.5), 0.0, -INF),
    ("kn", along(special.kn, 3), 0.0, -INF),
    ("k0e", special.k0e, 0.0, -INF),
    ("kve that overflows", along(special.kve, 40), 1e-8, -INF),
    ("i0e at its kink", special.i0e, 0.0, 0.0),
    ("i1e", special.i1e, 0.0, 0.5),
    ("ive of an odd order", along(special.ive, 3), 0.0, 0.0),
    ("i1 that overflows", special.i1, 1e3, INF),
    ("spherical_jn", along(ours.spherical_jn, 1), 0.0, 1 / 3),
    *((f"spherical_yn {n}", along(ours.spherical_yn, n), 0.0, INF) for n in (0, 1, 4)),
    *((f"spherical_kn {n}", along(ours.spherical_kn, n), 0.0, -INF) for n in (0, 1, 4)),
    ("airye", along(special.airye, place=0), 0.0, special.airy(0)[1]),
    ("Si", along(special.sici, place=0), 0.0, 1.0),
    ("Ci", along(special.sici, place=1), 0.0, INF),
    ("Shi", along(special.shichi, place=0), 0.0, 1.0),
    ("Chi", along(special.shichi, place=1), 0.0, INF),
    ("Chi just before it overflows", along(special.shichi, place=1), 716.0, np.exp(716 - np.log(2 * 716.0))),
    ("expi", special.expi, 0.0, INF),
    ("exp1", special.exp1, 0.0, -INF),
    ("expn 1", along(special.expn, 1), 0.0, -INF),
    ("expn 3", along(special.expn, 3), 0.0, -1.0),
    ("spence at 1", special.spence, 1.0, -1.0),
    ("spence at 0", special.spence, 0.0, -INF),
    ("Fresnel's S", along(special.fresnel, place=0), 2.0, 0.0),
    ("Fresnel's C", along(special.fresnel, place=1), 2.0, 1.0),
    ("Fresnel's C beyond whole numbers", along(special.fresnel, place=1), 1e200, 1.0),
    ("ellipk at 0", special.ellipk, 0.0, np.pi / 8),
    ("ellipk at 1", special.ellipk, 1.0, INF),
    ("ellipe at 0", special.ellipe, 0.0, -np.pi / 8),
    ("ellipe at 1", special.ellipe, 1.0, -INF),
    ("ellipkm1", special.ellipkm1, 0.0, -INF),
    ("ellipkinc of 0", along(special.ellipkinc, 0.0), 0.5, 0.0),
    ("elliprf", lambda x: special.elliprf(x, 1.0, 2.0), 0.0, -INF),
    ("elliprg", lambda x: special.elliprg(x, 1.0, 2.0), 0.0, special.elliprf(0.0, 1.0, 2.0) / 4),
    ("elliprd", lambda x: special.elliprd(x, 1.0, 2.0), 0.0, -INF),
    ("elliprc", lambda x: special.elliprc(x, 2.0), 0.0, -INF),
    *((f"eval_legendre at {x}", along(special.eval_legendre, 5), x, 15.0) for x in (1.0, -1.0)),
    *((f"eval_chebyt at {x}", along(special.eval_chebyt, 5), x, 25.0) for x in (1.0, -1.0)),
    *((f"eval_chebyu at {x}", along(special.eval_chebyu, 3), x, 20.0) for x in (1.0, -1.0)),
    ("eval_chebyt of a broken degree", along(special.eval_chebyt, 2.5), 1.0, 6.25),
    *(
        (f"{name} of degree {n}", along(getattr(special, name), n), 0.3, 0.0)
        for name in ("eval_legendre", "eval_chebyt", "eval_chebyu", "eval_laguerre", "eval_sh_legendre", "eval_chebyc")
        for n in (0, 0.0)
    ),
    ("eval_hermite of degree 0", along(special.eval_hermite, 0), 0.3, 0.0),
    ("eval_jacobi of degree 0", along(special.eval_jacobi, 0, 0.5, 1.5), 0.3, 0.0),
    ("lpmv 0 3", along(special.lpmv, 0, 3), 1.0, 6.0),
    ("lpmv 1 3", along(special.lpmv, 1, 3), 1.0, INF),
    ("lpmv 2 2", along(special.lpmv, 2, 2), 1.0, -6.0),
    ("lpmv 2 2 at the other end", along(special.lpmv, 2, 2), -1.0, 6.0),
    ("lpmv 3 3", along(special.lpmv, 3, 3), 1.0, 0.0),
    ("lpmv above the degree", along(special.lpmv, 2, 1), 1.0, 0.0),
    ("hyp2f1", along(special.hyp2f1, 0.7, 1.3, 2.0), 0.0, 0.7 * 1.3 / 2),
    ("hyp1f1", along(special.hyp1f1, 0.7, 2.0), 0.0, 0.35),
    ("hyp1f1 of degree 1", along(special.hyp1f1, -1.0, -3.0), 0.1, 1 / 3),
    ("hyp1f1 of degree 1 and b = -1", along(special.hyp1f1, -1.0, -1.0), 0.1, 1.0),
    ("hyp0f1", along(special.hyp0f1, 4.0), 0.0, 0.25),
    ("omega at infinity", special.wrightomega, INF, 1.0),
    ("omega at minus infinity", special.wrightomega, -INF, 0.0),
    ("W", lambda z: ours.lambertw(z).real, 0.0, 1.0),
    ("ber", special.ber, 0.0, 0.0),
    ("berp", special.berp, 0.0, 0.0),
    ("beip", special.beip, 0.0, 0.5),
    ("ker", special.ker, 0.0, -INF),
    ("kei", special.kei, 0.0, 0.0),
    ("kerp", special.kerp, 0.0, INF),
    ("keip", special.keip, 0.0, INF),
    ("struve 0", along(special.struve, 0), 0.0, 2 / np.pi),
    ("struve 2.5", along(special.struve, 2.5), 0.0, 0.0),
    ("modstruve 0", along(special.modstruve, 0), 0.0, 2 / np.pi),
    ("it2j0y0", along(special.it2j0y0, place=0), 0.0, 0.0),
    ("it2struve0", special.it2struve0, 0.0, -2 / np.pi),
    ("diric", lambda x: ours.diric(x, 5), 0.0, 0.0),
    ("pbdv", along(special.pbdv, 1.0, place=0), 0.0, 1.0),
]
SECOND = [
    ("j1", special.j1, 0.0, 0.0),
    ("i0e", special.i0e, 0.0, 1.5),
    ("spherical_jn", along(ours.spherical_jn, 0), 0.0, -1 / 3),
    ("Si", along(special.sici, place=0), 0.0, 0.0),
    ("spence", special.spence, 1.0, 0.5),
    ("ellipk", special.ellipk, 0.0, 9 * np.pi / 64),
    ("ellipe", special.ellipe, 0.0, -3 * np.pi / 64),
    ("eval_legendre", along(special.eval_legendre, 5), -1.0, -105.0),
    ("eval_chebyt", along(special.eval_chebyt, 3), 1.0, 24.0),
    ("lpmv 0 3", along(special.lpmv, 0, 3), 1.0, 15.0),
    ("lpmv 2 3", along(special.lpmv, 2, 3), 1.0, -90.0),
    ("berp", special.berp, 0.0, 0.0),
    ("struve", along(special.struve, 1), 0.0, 4 / (3 * np.pi)),
    ("modstruve", along(special.modstruve, 1), 0.0, 4 / (3 * np.pi)),
    ("it2j0y0", along(special.it2j0y0, place=0), 0.0, 0.25),
    ("it2i0k0", along(special.it2i0k0, place=0), 0.0, 0.25),
    ("diric", lambda x: ours.diric(x, 5), 0.0, -2.0),
    ("W", lambda z: ours.lambertw(z).real, 0.0, -2.0),
    ("hyp1f1", along(special.hyp1f1, 0.7, 2.0), 0.0, 0.7 * 1.7 / 6),
    ("hyp1f1 of degree 1", along(special.hyp1f1, -1.0, -3.0), 0.1, 0.0),
    ("hyp1f1 of degree 2", along(special.hyp1f1, -2.0, -3.0), 0.1, 1 / 3),
]


@pytest.mark.parametrize("cases", by_function(FIRST))
def test_first_derivatives_at_single_points(cases):
    for name, f, x, expected in cases:
        with naming(name, x):
            np.testing.assert_allclose(nth(f, np.array(x), 1), expected, rtol=1e-12, atol=1e-300)
            np.testing.assert_allclose(fg.grad(f)(x), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("cases", by_function(SECOND))
def test_second_derivatives_at_single_points(cases):
    for name, f, x, expected in cases:
        with naming(name, x):
            np.testing.assert_allclose(nth(f, np.array(x), 2), expected, rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(fg.grad(fg.grad(f))(x), expected, rtol=1e-12, atol=1e-15)


def test_a_third_derivative_without_a_pole():
    np.testing.assert_allclose(nth(special.ellipk, np.array(0.0), 3), 675 * np.pi / 2304, rtol=1e-12)


@pytest.mark.parametrize(
    ("f", "density"),
    [
        (special.erf, "error_density"),
        (special.erfc, "complement_density"),
        (special.ndtr, "normal_density"),
        (lambda x: special.owens_t(x, 0.5), "normal_density"),
    ],
)
def test_the_density_in_a_slope_is_one_operation(f, density):
    x = np.linspace(-2, 2, 5)
    gradient = fg.grad(lambda x: np.sum(f(x)))
    counts = fg.trace(gradient)(x).counts()
    assert counts[density] == 1
    assert "exp" not in counts
    single = gradient(x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, gradient(x), rtol=1e-5, atol=1e-7)
    kept = x.copy()
    check_grads(f, (x,), order=3)
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("name", ["y0", "k1", "ellipe", "exp1", "spence"])
def test_what_a_mask_leaves_out_counts_for_nothing(name):
    function = getattr(special, name)
    pole = 1.0 if name == "ellipe" else 0.0

    def masked(x):
        return np.where(x == pole, x, function(x))

    assert fg.grad(masked)(pole) == 1
    assert fg.jvp(masked, (pole,), (1.0,))[1] == 1
    assert fg.grad(fg.grad(masked))(pole) == 0


def test_derivatives_of_normalized_polynomials_at_the_ends():
    """SciPy's own values and derivatives do not have the factor of the normalization there."""
    ends = np.array([-1.0, 0.3, 1.0])
    _, slope = fg.vjp(lambda z: ours.assoc_legendre_p(1, 0, z, norm=True, diff_n=1), ends)[0]
    np.testing.assert_allclose(slope, [1.5**0.5] * 3)
    _, tangent = fg.jvp(lambda z: ours.assoc_legendre_p(1, 0, z, norm=True), (ends,), (np.ones(3),))
    np.testing.assert_allclose(tangent, [[1.5**0.5] * 3])


def test_beyond_the_poles_of_the_sphere_the_function_is_mirrored():
    """SciPy takes the size of the sine."""
    inside, outside = (fg.grad(lambda t: ours.sph_legendre_p(2, 1, t)[0])(t) for t in (0.4, -0.4))
    np.testing.assert_allclose(outside, -inside)


def test_the_periodic_sinc_function_needs_a_positive_whole_number():
    value, pullback = fg.vjp(lambda x: ours.diric(x, np.array([-1, 0, 2.5, 3])), np.full(4, 0.7))
    np.testing.assert_array_equal(np.isnan(value), [True, True, True, False])
    np.testing.assert_array_equal(pullback(np.ones(4))[0][:3], 0)


# Arguments without a closed form


CONSTANTS = [
    *((name, "v", (1.5, 0.7)) for name in ("jv", "yv", "iv", "kv", "jve", "yve", "ive", "kve")),
    *(
        (name, "v", (1.5, 0.7))
        for name in ("hankel1", "hankel2", "hankel1e", "hankel2e", "struve", "modstruve", "pbdv", "pbvv")
    ),
    *((name, "n", (2.0, 0.7)) for name in ("yn", "kn", "expn")),
    ("pbwa", "a", (0.5, 0.7)),
    ("hyp0f1", "v", (1.5, 0.7)),
    ("hyp1f1", "a b", (1.5, 2.5, 0.7)),
    ("hyp2f1", "a b c", (1.5, 2.5, 3.5, 0.7)),
    ("hyperu", "a b", (1.5, 2.5, 0.7)),
    ("wright_bessel", "a b", (1.5, 2.5, 0.7)),
    ("log_wright_bessel", "a b", (1.5, 2.5, 0.7)),
    *(
        (f"eval_{name}", "n", (2.5, 0.7))
        for name in (
            "legendre",
            "sh_legendre",
            "chebyt",
            "sh_chebyt",
            "chebyc",
            "chebyu",
            "sh_chebyu",
            "chebys",
            "laguerre",
        )
    ),
    ("eval_gegenbauer", "n alpha", (2.5, 0.7, 0.3)),
    ("eval_genlaguerre", "n alpha", (2.5, 0.7, 0.3)),
    ("eval_jacobi", "n alpha beta", (2.5, 0.7, 1.2, 0.3)),
    ("eval_sh_jacobi", "n p q", (2.5, 2.7, 1.2, 0.3)),
    ("lpmv", "m v", (1.0, 2.5, 0.3)),
    ("besselpoly", " lmb nu", (0.7, 1.0, 0.5)),
    *(
        (f"mathieu_{name}", "m q", (2.0, 1.5, 0.7))
        for name in ("cem", "sem", "modcem1", "modcem2", "modsem1", "modsem2")
    ),
    *((f"{kind}_ang1", "m n c", (1.0, 2.0, 0.7, 0.3)) for kind in ("pro", "obl")),
    *((f"{kind}_{name}", "m n c", (1.0, 2.0, 0.7, 3.0)) for kind in ("pro", "obl") for name in ("rad1", "rad2")),
    *((f"{kind}_ang1_cv", "m n c cv", (1.0, 2.0, 0.7, 6.1, 0.3)) for kind in ("pro", "obl")),
    *(
        (f"{kind}_{name}_cv", "m n c cv", (1.0, 2.0, 0.7, 6.1, 3.0))
        for kind in ("pro", "obl")
        for name in ("rad1", "rad2")
    ),
]


@pytest.mark.parametrize(("name", "arguments", "args"), [pytest.param(*case, id=case[0]) for case in CONSTANTS])
def test_arguments_without_a_closed_form_say_so(name, arguments, args):
    beginning = rf"scipy\.special\.{name} has no closed-form derivative with respect to its argument "
    for place, argument in enumerate(arguments.split(" ")):
        if not argument:
            continue  # this one is differentiated

        def f(x, place=place):
            return getattr(special, name)(*args[:place], x, *args[place + 1 :])

        with naming(argument):
            with pytest.raises(
                NoClosedFormError, match=rf"{beginning}'{argument}'(.|\n)*\nMake '{argument}' a constant"
            ):
                fg.vjp(f, args[place])
            with pytest.raises(
                NoClosedFormError, match=rf"{beginning}'{argument}'(.|\n)*\nMake '{argument}' a constant"
            ):
                fg.jvp(f, (args[place],), (1.0,))


@pytest.mark.parametrize(
    ("name", "argument", "f"),
    [
        *((name, "v", lambda v, name=name: getattr(ours, name)(v, 0.7)) for name in ("jvp", "yvp", "ivp", "kvp")),
        ("h1vp", "v", lambda v: ours.h1vp(v, 0.7).real),
        ("lambertw", "k", lambda k: ours.lambertw(0.7, k).real),
        ("lambertw", "tol", lambda tol: ours.lambertw(0.7, 0, tol).real),
        ("spherical_jn", "n", lambda n: ours.spherical_jn(n, 0.7)),
        ("spherical_kn", "n", lambda n: ours.spherical_kn(n, 0.7, True)),
        ("diric", "n", lambda n: ours.diric(0.7, n)),
    ],
)
def test_an_argument_of_a_function_without_a_closed_form_says_so(name, argument, f):
    ufunc = {"jvp": "jv", "yvp": "yv", "ivp": "iv", "kvp": "kv", "h1vp": "hankel1"}.get(name, name)
    message = rf"scipy\.special\.{ufunc} has no closed-form derivative with respect to its argument '{argument}'"
    with pytest.raises(NoClosedFormError, match=message):
        fg.grad(f)(1.0)
    with pytest.raises(NoClosedFormError, match=message):
        fg.jvp(f, (1.0,), (1.0,))


@pytest.mark.parametrize(
    "f",
    [
        lambda n: ours.sph_harm_y(n, 0, 0.3, 0.2),
        lambda n: ours.legendre_p(n, 0.3),
        lambda n: special.eval_hermite(n, 0.3),
    ],
)
def test_degrees_that_scipy_takes_as_integers_alone(f):
    with pytest.raises(TypeError, match="could not be safely coerced|cannot be cast|Cannot cast"):
        fg.jvp(f, (2.0,), (1.0,))


def test_a_whole_number_that_follows_from_what_is_traced_is_a_constant():
    def f(x):
        order = np.floor(x).astype(int)
        return special.jv(order, x) + ours.spherical_jn(order, x) + special.eval_legendre(order, x / 4)

    def g(x):
        return special.jv(2, x) + ours.spherical_jn(2, x) + special.eval_legendre(2, x / 4)

    np.testing.assert_allclose(fg.grad(f)(2.3), fg.grad(g)(2.3))
    np.testing.assert_allclose(nth(f, np.array(2.3), 1), nth(g, np.array(2.3), 1))


def test_lists_are_arrays():
    value, pullback = fg.vjp(lambda x: special.jv([0, 1, 2], x) + special.hyp1f1(1.5, [1, 2, 3], x), 0.7)
    assert value.shape == (3,)
    orders = np.arange(3)
    slopes = special.jvp(orders, 0.7) + 1.5 / (orders + 1) * special.hyp1f1(2.5, orders + 2, 0.7)
    np.testing.assert_allclose(pullback(np.ones(3))[0], slopes.sum())


def test_orders_may_be_mapped():
    orders, x = np.array([0.5, 1.0, 2.5]), np.array([0.3, 1.2, 2.6])
    slopes = fg.vmap(lambda v, x: fg.grad(lambda x: special.jv(v, x))(x))(orders, x)
    np.testing.assert_allclose(slopes, special.jvp(orders, x))
    n = np.array([0, 1, 4])
    slopes = fg.vmap(lambda n, x: fg.grad(lambda x: ours.spherical_jn(n, x))(x))(n, x)
    np.testing.assert_allclose(slopes, special.spherical_jn(n, x, True))


# What is not supported


@pytest.mark.parametrize(
    "f",
    [
        lambda z: ours.assoc_legendre_p(2, 1, z, branch_cut=3),
        lambda z: ours.assoc_legendre_p(2, 1, z + 0j),
        lambda z: ours.assoc_legendre_p_all(2, 1, z, branch_cut=3),
    ],
)
def test_other_branches_of_legendre_functions_say_so(f):
    with pytest.raises(
        MissingRuleError, match="assoc_legendre_p of complex numbers, or with another branch cut than 2"
    ):
        fg.vjp(f, 0.5)


@pytest.mark.parametrize(
    ("f", "error", "match"),
    [
        (lambda x: ours.jvp(1, x, -1), ValueError, "non-negative integer"),
        (lambda x: ours.legendre_p(1, x, diff_n=3), NotImplementedError, "orders 0, 1, and 2"),
        (lambda x: ours.legendre_p_all(-1, x), ValueError, "non-negative integer"),
        (lambda x: ours.assoc_legendre_p(1, 1, x, diff_n=3), ValueError, "orders 0, 1, and 2"),
        (lambda x: ours.sph_legendre_p(1, 1, x, diff_n=3), ValueError, "orders 0, 1, and 2"),
        (lambda x: ours.sph_harm_y(1, 1, x, 0.3, diff_n=3), ValueError, "orders 0, 1, and 2"),
        (lambda x: ours.sph_harm_y_all(-1, 1, x, 0.3), ValueError, "non-negative integer"),
    ],
)
def test_scipys_own_errors(f, error, match):
    with pytest.raises(error, match=match):
        fg.vjp(f, 0.5)
    with pytest.raises(error, match=match):
        f(np.array(0.5))


@pytest.mark.parametrize("name", ["jvp", "h1vp", "spherical_jn", "legendre_p", "diric"])
def test_without_a_trace_scipys_functions_answer(name):
    function, scipys = getattr(ours, name), getattr(special, name)
    args = (np.array([0.3, 1.2]), 3) if name == "diric" else (2, np.array([0.3, 0.9]))
    assert type(function(*args)) is np.ndarray
    np.testing.assert_array_equal(function(*args), scipys(*args))
    boxed = [fg.constant(x) if isinstance(x, np.ndarray) else x for x in args]
    assert type(function(*boxed)) is Tensor
    np.testing.assert_array_equal(function(*boxed), scipys(*args))
    assert function.__name__ == name


# Orders that SciPy truncates, negative degrees, and arguments at which a term of a formula is infinite


@pytest.mark.parametrize("function", [special.kn, special.yn])
@pytest.mark.parametrize("n", [0.3, 0.6, 1.7, -0.6, -1.7])
@pytest.mark.filterwarnings("ignore:floating point number truncated")
def test_the_derivative_belongs_to_the_order_that_scipy_truncates(function, n):
    assert function(n, 1.5) == function(int(n), 1.5)
    assert float(fg.grad(lambda x: function(n, x))(1.5)) == float(fg.grad(lambda x: function(int(n), x))(1.5))
    check_grads(lambda x: function(n, x), (1.5,))


POLYNOMIALS = [
    *(getattr(special, f"eval_{name}") for name in ("legendre", "sh_legendre", "chebyt", "sh_chebyt", "chebyc")),
    *(getattr(special, f"eval_{name}") for name in ("chebyu", "sh_chebyu", "chebys")),
]


@pytest.mark.parametrize("function", POLYNOMIALS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("n", [-5, -4, -3, -2, -1, -1.0, -2.0, -3.0, -0.5, -1.5, 0, 1])
def test_polynomials_of_negative_degrees(function, n):
    check_grads(lambda x: function(n, x), (np.array([0.3, 0.7]),))


@pytest.mark.parametrize("function", [special.eval_hermite, special.eval_hermitenorm])
def test_polynomials_without_negative_degrees(function):
    assert np.isnan(function(-2, 0.3))
    assert np.isnan(float(fg.grad(lambda x: function(-2, x))(0.3)))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_symmetric_integral_of_the_second_kind_of_one_number(place):
    def along(x):
        args = [0.0, 0.0, 0.0]
        args[place] = x
        return special.elliprg(*args)

    assert float(fg.grad(along)(4.0)) == pytest.approx(0.125, rel=1e-14)  # it is half of the root
    check_grads(along, (4.0,))


@pytest.mark.parametrize("point", [(0.0, 2.0, 3.0), (1.0, 0.0, 2.0), (1.0, 1.0, 0.0), (0.0, 1.0, 1.0), (1.0, 2.0, 3.0)])
def test_principal_values_where_an_argument_is_zero(point):
    with np.errstate(all="ignore"):
        check_grads(lambda p: special.elliprj(*point, p), (-1.3,))
        check_grads(lambda p: special.elliprj(*(np.array(x) for x in point), p), (np.array([-0.4, -2.0]),))


@pytest.mark.parametrize("alpha", [-0.3, 0.7, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("x", [-0.6, 0.3, 1.7])
def test_gegenbauer_polynomials_of_the_degree_minus_one(alpha, x):
    """They are 0 for all x, as mpmath has it; SciPy's of the degree below, which the derivative is made of, are NaN."""
    for degree in (-1, -1.0):
        derivatives = [functools.partial(special.eval_gegenbauer, degree, alpha)]
        for order in range(3):
            exact = mp.diff(lambda t: mp.gegenbauer(-1, alpha, t), x, order)
            assert float(derivatives[-1](x)) == float(exact) == 0
            derivatives.append(fg.grad(derivatives[-1]))


def test_gegenbauer_polynomials_of_the_degree_minus_one_where_scipy_has_none():
    assert np.isnan(special.eval_gegenbauer(-1.0, 0.5, 0.3))
    assert np.isnan(fg.grad(lambda x: special.eval_gegenbauer(-1.0, 0.5, x))(0.3))
