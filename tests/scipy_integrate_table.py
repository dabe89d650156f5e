"""What fgrad does with the functions of `scipy.integrate`: rows for the coverage page, and for the tests."""

from functools import partial
from typing import Any

import numpy as np
from coverage_table import Row, complex_too, only_real, real

from fgrad.scipy import integrate

_RNG = np.random.default_rng(3)
A, B, LOW, HIGH = np.array(0.7), np.array(1.3), np.array(0.2), np.array(1.4)
START, POWERS = np.array([1.1, -0.4]), np.array([0.6, 1.5])
SAMPLES, MORE_SAMPLES = _RNG.uniform(0.3, 1.5, (2, 5)), _RNG.uniform(0.3, 1.5, (2, 6))
PLACES = np.cumsum(_RNG.uniform(0.3, 0.9, 5))
MANY_PLACES = np.cumsum(_RNG.uniform(0.3, 0.9, (2, 6)), axis=1)
STEP = np.array(0.3)

EXACTLY = {"rtol": 1e-11, "atol": 1e-12}
"""So that finite differences of adaptive solutions mean something."""

DOUBLE = np.float64(1.0)
"""Makes an integrand one of double precision, whatever the parameters are: SciPy's tolerances need it."""


def swinging(t: Any, y: Any, a: Any, b: Any) -> Any:
    return np.stack([y[1], -a * np.sin(y[0]) - t * y[1] * b])


def spiral(t: Any, y: Any, a: Any, b: Any) -> Any:
    return np.stack([a * y[1] + t * y[0] * b, 1j * y[0] - a * y[1] * y[0]])


def last(**options: Any) -> Any:
    """Return the last state, as a function of the first one, of the parameters, and of both times."""

    def of(y0: Any, a: Any, b: Any, start: Any, end: Any) -> Any:
        return integrate.solve_ivp(swinging, (start, end), y0, args=(a, b), **EXACTLY, **options).y[:, -1]

    return of


def several(**options: Any) -> Any:
    """Return some states on the way, by parameters that the function closes over."""

    def of(a: Any, b: Any, on_the_way: Any) -> Any:
        times = np.stack([0.0 * on_the_way, on_the_way, 0.0 * on_the_way + 1.0])
        return integrate.solve_ivp(
            lambda t, y: swinging(t, y, a, b), (0.0, 1.0), START, t_eval=times, **EXACTLY, **options
        ).y

    return of


def complex_last(**options: Any) -> Any:
    def of(y0: Any, a: Any, b: Any) -> Any:
        y0 = y0 * (1.0 + 0.5j)
        return integrate.solve_ivp(spiral, (0.0, 0.6), y0, args=(a, b), **EXACTLY, **options).y[:, -1]

    return of


def columns(**options: Any) -> Any:
    def of(y0: Any, a: Any, b: Any, t: Any) -> Any:
        return integrate.odeint(swinging, y0, t, args=(a, b), tfirst=True, rtol=1e-11, atol=1e-12, **options)

    return of


def string(load: Any, end: Any) -> Any:
    """Return the unknown parameter of a hanging string, and its middle, of what both conditions and equation have."""
    mesh = np.linspace(0.0, 1.0, 6)
    found = integrate.solve_bvp(
        lambda x, y, p: np.stack([y[1], load * np.exp(-x) + 0.3 * p[0] * y[0]]),
        lambda ya, yb, p: np.stack([ya[0], yb[0] - end, ya[1] + p[0]]),
        mesh,
        np.zeros((2, 6)),
        p=[0.5],
        tol=1e-9,
    )
    return np.append(found.p, found.sol(0.45))


def wave(x: Any, a: Any, b: Any) -> Any:
    return np.exp(-a * x) * np.cos(b * x)


def bell(x: Any, a: Any) -> Any:
    return np.exp(-((DOUBLE * x * a) ** 2))


def over(low: Any, high: Any, **options: Any) -> Any:
    return lambda a: integrate.quad(bell, low, high, args=(a,), **options)[0]


def _of_samples(function: Any, **options: Any) -> list[Any]:
    """Return the calls that the integrals of samples share."""
    whole = partial(function, **options)
    return [
        whole,
        (lambda y, dx: whole(y, dx=dx), SAMPLES, STEP),
        (whole, MORE_SAMPLES),
        only_real(lambda y, x: whole(y, x=x), SAMPLES, PLACES),
        only_real(lambda y, x: whole(y, x=x), MORE_SAMPLES, MANY_PLACES),
        only_real(lambda y, x: whole(y, x=x, axis=0), MORE_SAMPLES.T, MANY_PLACES.T),
        (whole, SAMPLES[0, :3]),
        (whole, SAMPLES[:, :2]),
        (lambda y, dx: whole(y, dx=dx, axis=0), SAMPLES[:, :1], STEP),
    ]


ROWS: list[Row] = [
    real(
        "fgrad.scipy.integrate.solve_ivp",
        *(last(method=method) for method in ("RK45", "DOP853")),
        last(method="DOP853", derivative="adjoint"),
        *((several(method=method), A, B, LOW) for method in ("RK45", "DOP853")),
        (several(method="DOP853", derivative="adjoint"), A, B, LOW),
        (complex_last(method="DOP853"), START, A, B),
        at=(START, A, B, LOW, HIGH),
        remark="by all that the solution depends on: exactly step by step (RK23, RK45, DOP853, Radau, BDF), or by the "
        "adjoint equation (these and LSODA); times and states of events; `sol` too",
    ),
    real(
        "fgrad.scipy.integrate.solve_bvp",
        string,
        at=(A, B),
        remark="by what the equation and the conditions depend on, by the ends and the singular term; `sol` too",
    ),
    real(
        "fgrad.scipy.integrate.odeint",
        columns(),
        at=(START, A, B, np.array([0.1, 0.3, 0.9])),
        remark="by the adjoint equation, or step by step with the method DOP853",
    ),
    real(
        "fgrad.scipy.integrate.quad",
        lambda a, b, low, high: integrate.quad(wave, low, high, args=(a, b))[0],
        lambda a, b, low, high: integrate.quad(lambda x: wave(x, a, b), high, low, points=[0.5, 0.9])[0],
        lambda a, b, low, high: np.real(
            integrate.quad(lambda x: np.exp((1j * b - a) * x), low, high, complex_func=True)[0]
        ),
        (over(-np.inf, np.inf), B),
        (over(0.5, np.inf), B),
        at=(A, B, LOW, HIGH),
        remark="by the limits, by its arguments and by what the function uses besides; not with a `weight`",
    ),
    real(
        "fgrad.scipy.integrate.quad_vec",
        lambda p, low, high: integrate.quad_vec(lambda x: (DOUBLE * x) ** p * np.cos(x), low, high)[0],
        lambda p, low, high: integrate.quad_vec(
            lambda x, p: np.sin(DOUBLE * x * p), low, high, args=(p,), points=[0.5]
        )[0],
        at=(POWERS, LOW, HIGH),
    ),
    real(
        "fgrad.scipy.integrate.dblquad",
        lambda a, low, high: integrate.dblquad(
            lambda y, x, a: np.exp(-a * x * y), low, high, lambda x: 0.5 * x, 1.5, args=(a,)
        )[0],
        at=(A, LOW, HIGH),
    ),
    real(  # by the outer limit alone: integrals of integrals of integrals take seconds to differentiate
        "fgrad.scipy.integrate.tplquad",
        lambda high: integrate.tplquad(lambda z, y, x: DOUBLE * x * z, 0.0, high, 0.0, 1.0, 0.0, lambda x, y: x)[0],
        at=HIGH,
    ),
    real(
        "fgrad.scipy.integrate.nquad",
        lambda a, low, high: integrate.nquad(
            lambda x, y, a: np.exp(-a * x * y), [lambda y, a: (0.0, a + y), (low, high)], args=(a,)
        )[0],
        at=(A, LOW, HIGH),
    ),
    real(
        "fgrad.scipy.integrate.fixed_quad",
        lambda a, b, low, high: integrate.fixed_quad(wave, low, high, args=(a, b), n=4)[0],
        at=(A, B, LOW, HIGH),
    ),
    complex_too("fgrad.scipy.integrate.trapezoid", *_of_samples(integrate.trapezoid), at=SAMPLES),
    complex_too("fgrad.scipy.integrate.simpson", *_of_samples(integrate.simpson), at=SAMPLES),
    complex_too(
        "fgrad.scipy.integrate.cumulative_trapezoid",
        *_of_samples(integrate.cumulative_trapezoid),
        partial(integrate.cumulative_trapezoid, initial=0),
        at=SAMPLES,
    ),
    complex_too(
        "fgrad.scipy.integrate.cumulative_simpson",
        *_of_samples(integrate.cumulative_simpson),
        (lambda y, before: integrate.cumulative_simpson(y, initial=before), SAMPLES, STEP),
        (lambda y, before: integrate.cumulative_simpson(y, initial=before), SAMPLES, SAMPLES[:, :1]),
        (lambda y, dx: integrate.cumulative_simpson(y, dx=dx), SAMPLES, SAMPLES[:, :1]),
        at=SAMPLES,
    ),
]
