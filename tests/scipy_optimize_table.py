"""What fgrad does with the functions of `scipy.optimize`: rows for the coverage page, and for the tests."""

from dataclasses import replace
from typing import Any

import numpy as np
from coverage_table import Row, answer, real

import fgrad.scipy.optimize as optimize

A, B, V = np.array(1.7), np.array(0.4), np.array([0.9, 1.6])
POINT = np.array([-0.4, 0.7, 1.3, 0.2])
DATA = np.array([2.1, 1.2, 0.8, 0.35])
TIMES = np.array([0.0, 0.5, 1.1, 2.0])


def cube(x: Any, a: Any, b: Any) -> Any:
    return x**3 + b * x - a


def system(x: Any, v: Any) -> Any:
    return np.stack([2 * x[0] + x[1] + 0.1 * x[0] ** 3 - v[0], x[0] - 3 * x[1] + np.sin(x[1]) + v[1]])


def bowl(x: Any, v: Any) -> Any:
    """Quadratic in the unknowns, so that one step of Newton's method finds the minimum to rounding."""
    return (x[0] - v[0] ** 2) ** 2 * (1 + v[1]) + (x[1] - np.sin(v[0]) * v[1]) ** 2 + 0.3 * v[1] * x[0] * x[1]


def decay(t: Any, height: Any, rate: Any) -> Any:
    return height * np.exp(-rate * t)


def scalar(**options: Any) -> Any:
    return lambda a, b: optimize.root_scalar(cube, args=(a, b), xtol=1e-14, **options).root


def bracketed(name: str) -> Any:
    return lambda a, b: getattr(optimize, name)(cube, 0.0, 3.0, (a, b))


def minimum(method: str, **options: Any) -> Any:
    return lambda v: optimize.minimize(bowl, [0.1, 0.2], args=(v,), method=method, **options).x


def level(v: Any) -> dict[str, Any]:
    return {"type": "eq", "fun": lambda x: x[0] + x[1] - 0.5 * v[1]}


def programmed(c: Any, b: Any) -> Any:
    return optimize.linprog(c, [[1.0, 2.0], [3.0, 1.0]], b)


def deep(x: Any, v: Any) -> Any:
    """Quadratic, with the minimum within the bounds."""
    return np.sum((x - v) ** 2 * np.array([1.0, 2.0]))


def fitted(method: str) -> Any:
    """Linear in the unknowns, for the same reason."""

    def fit(y: Any, t: Any) -> Any:
        return optimize.least_squares(lambda p: p[0] * np.exp(-t) + p[1] * t - y, [1.0, 1.0], method=method).x

    return fit


BY_WHAT = "by its arguments and by what the function uses besides"

ROWS: list[Row] = [
    real(
        "fgrad.scipy.optimize.root",
        lambda v: optimize.root(system, [0.1, 0.1], args=(v,), tol=1e-13).x,
        lambda v: optimize.root(lambda x: system(x, v), [0.1, 0.1], method="lm", tol=1e-13).x,
        lambda v: optimize.root(system, [0.1, 0.1], args=(v,), method="krylov", tol=1e-13).x,
        at=V,
        remark=BY_WHAT,
    ),
    real("fgrad.scipy.optimize.fsolve", lambda v: optimize.fsolve(system, [0.1, 0.1], v, xtol=1e-13), at=V),
    real(
        "fgrad.scipy.optimize.root_scalar",
        scalar(bracket=(0.0, 3.0)),
        scalar(x0=1.0),
        scalar(x0=1.0, method="halley"),
        scalar(x0=1.0, x1=1.1),
        at=(A, B),
        remark=BY_WHAT,
    ),
    *(
        real(f"fgrad.scipy.optimize.{name}", bracketed(name), at=(A, B))
        for name in ("brentq", "brenth", "ridder", "bisect", "toms748")
    ),
    real("fgrad.scipy.optimize.newton", lambda a, b: optimize.newton(cube, 1.0, args=(a, b), tol=1e-14), at=(A, B)),
    real(
        "fgrad.scipy.optimize.fixed_point",
        lambda v: optimize.fixed_point(lambda x: 0.5 * np.cos(x) + 0.1 * x[::-1] + 0.2 * v, [0.5, 0.5], xtol=1e-14),
        lambda v: optimize.fixed_point(lambda x: 0.3 * np.sin(x * v) + 0.4, [0.5, 0.5], method="iteration", xtol=1e-14),
        at=V,
    ),
    real(
        "fgrad.scipy.optimize.minimize",
        *map(minimum, ("trust-ncg", "trust-exact", "dogleg")),
        lambda v: optimize.minimize(bowl, [0.1, 0.2], (v,), "trust-exact").fun,
        lambda v: optimize.minimize(bowl, [0.1, 0.2], (v,), constraints=level(v), tol=1e-15).x,
        at=V,
        remark="with bounds and under constraints, too",
    ),
    # Brent's method gives half the digits, too few for differences; the tests compare with closed forms.
    replace(real("fgrad.scipy.optimize.minimize_scalar"), calls=()),
    real(
        "fgrad.scipy.optimize.differential_evolution",
        lambda v: optimize.differential_evolution(deep, [(0.0, 2.0)] * 2, (v,), rng=0, popsize=8, tol=1e-6).fun,
        at=V,
        remark="the minimum that is found",
    ),
    real(
        "fgrad.scipy.optimize.dual_annealing",
        lambda v: optimize.dual_annealing(deep, [(0.0, 2.0)] * 2, (v,), rng=0, maxiter=10).fun,
        at=V,
        remark="the minimum that is found",
    ),
    real(
        "fgrad.scipy.optimize.shgo",
        lambda v: optimize.shgo(deep, [(0.0, 2.0)] * 2, (v,)).fun,
        at=V,
        remark="the minimum that is found",
    ),
    real(
        "fgrad.scipy.optimize.basinhopping",
        lambda v: optimize.basinhopping(deep, [0.5, 0.5], niter=1, rng=0, args=(v,)).fun,
        at=V,
        remark="the minimum that is found",
    ),
    real(
        "fgrad.scipy.optimize.linprog",
        lambda c, b: programmed(-c, b).x,
        lambda c, b: programmed(-c, b).fun,
        lambda c, b: programmed(-c, b).ineqlin.marginals,
        at=(np.array([3.0, 5.0]), np.array([40.0, 60.0])),
        remark="by everything in it, and so the marginals; not in integers",
    ),
    real(
        "fgrad.scipy.optimize.nnls",
        lambda a, b: optimize.nnls(a, b),
        at=(np.stack([DATA, TIMES, -TIMES * DATA], axis=1), DATA[::-1]),
    ),
    real(
        "fgrad.scipy.optimize.lsq_linear",
        lambda a, b: optimize.lsq_linear(a, b, (-0.2, 0.3), "bvls").x,
        lambda a, b: optimize.lsq_linear(a, b, (-0.2, 0.3), "bvls").cost,
        at=(np.stack([DATA, TIMES], axis=1), DATA[::-1]),
    ),
    real(
        "fgrad.scipy.optimize.isotonic_regression",
        lambda y, w: optimize.isotonic_regression(y, weights=w).x,
        at=(POINT, TIMES + 1),
    ),
    answer(
        "fgrad.scipy.optimize.linear_sum_assignment",
        "answers whole numbers",
        lambda x: optimize.linear_sum_assignment(x),
        at=(DATA[:, None] * np.cos(3 * TIMES),),
    ),
    real("fgrad.scipy.optimize.least_squares", *map(fitted, ("trf", "dogbox", "lm")), at=(DATA, TIMES)),
    real(
        "fgrad.scipy.optimize.curve_fit",
        lambda y, t: optimize.curve_fit(decay, t, y)[0],
        lambda y, t: optimize.curve_fit(decay, t, y)[1] * 100,
        lambda y, s: optimize.curve_fit(decay, TIMES, y, sigma=s, absolute_sigma=True)[1],
        at=(DATA, TIMES + 0.2),
        remark="parameters and their covariance, by the data and their errors",
    ),
    real("fgrad.scipy.optimize.rosen", optimize.rosen, at=POINT),
    real("fgrad.scipy.optimize.rosen_der", optimize.rosen_der, at=POINT),
    real("fgrad.scipy.optimize.rosen_hess", optimize.rosen_hess, at=POINT),
    real("fgrad.scipy.optimize.rosen_hess_prod", optimize.rosen_hess_prod, at=(POINT, POINT[::-1])),
]
