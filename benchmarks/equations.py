"""Measure what the gradient of a solution costs, as ratios to SciPy's own solve in one run.

    python benchmarks/equations.py [--rounds N]

Three species in a row, of which each eats the one before: ten parameters, a loss on the solution, and all its
derivatives. The budget is 5 times SciPy's solve, which is part of it.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

from run import Candidates, report  # isort: skip  # it sets the number of threads before NumPy is imported

import numpy as np
import scipy.integrate

import fgrad as fg
from fgrad.scipy.integrate import odeint, quad, solve_ivp

START = np.array([1.0, 0.5, 0.3])
PARAMETERS = np.array([1.0, 5.0, 1.0, 0.5, 0.8, 0.3, 0.5, 0.2, 0.4, 0.2])
END = 40.0
TIMES = np.linspace(0.0, END, 100)
TOLERANCES = {"rtol": 1e-6, "atol": 1e-8}


def chain(t: Any, y: Any, p: Any) -> list[Any]:
    """Return the growth of grass, hares and foxes."""
    grass, hares, foxes = y
    eaten = p[2] * grass * hares / (1 + p[3] * grass)
    caught = p[6] * hares * foxes / (1 + p[7] * hares)
    return [
        p[0] * grass * (1 - grass / p[1]) - eaten,
        p[4] * eaten - p[5] * hares - caught,
        p[8] * caught - p[9] * foxes,
    ]


def losses(method: str, derivative: str, **options: Any) -> dict[str, Callable[[Any], Any]]:
    """Return the loss with parameters that are passed on, and with parameters that are closed over."""
    solve = functools.partial(
        solve_ivp, t_span=(0.0, END), y0=START, method=method, derivative=derivative, **TOLERANCES, **options
    )
    return {
        "as arguments": lambda p: np.sum(solve(chain, args=(p,)).y ** 2),
        "closed over": lambda p: np.sum(solve(lambda t, y: chain(t, y, p)).y ** 2),
    }


def candidates(method: str, **options: Any) -> Candidates:
    """Return SciPy's solve, and the ways to a gradient, after a check that they agree."""
    scipys = functools.partial(
        scipy.integrate.solve_ivp, chain, (0.0, END), START, method, args=(PARAMETERS,), **TOLERANCES, **options
    )
    found: Candidates = {"SciPy, the solution alone": scipys}
    reference = None
    for derivative in ("steps", "adjoint"):
        if derivative == "steps" and method in ("Radau", "BDF", "LSODA"):
            continue
        for how, loss in losses(method, derivative, **options).items():
            gradient = fg.grad(loss)
            reference = gradient(PARAMETERS).numpy() if reference is None else reference
            np.testing.assert_allclose(gradient(PARAMETERS), reference, rtol=1e-2, err_msg=derivative)
            found[f"gradient, {derivative}, {how}"] = functools.partial(gradient, PARAMETERS)
    return found


def candidates_of_odeint() -> Candidates:
    """Return SciPy's odeint and the gradient of a loss on its solution."""
    options = {"y0": START, "t": TIMES, "tfirst": True}
    gradient = fg.grad(lambda p: np.sum(odeint(chain, args=(p,), **options) ** 2))
    return {
        "SciPy, the solution alone": lambda: scipy.integrate.odeint(chain, args=(PARAMETERS,), **options),
        "gradient, adjoint, as arguments": lambda: gradient(PARAMETERS),
    }


def candidates_of_quad() -> Candidates:
    """Return an integral and its gradient by ten parameters."""

    def integrand(x: float, p: Any) -> Any:
        return np.exp(-p[9] * x) * np.sum(p[:9] * np.cos(x * np.arange(9.0)))

    gradient = fg.grad(lambda p: quad(integrand, 0.0, 5.0, args=(p,))[0])
    return {
        "SciPy, the integral alone": lambda: scipy.integrate.quad(integrand, 0.0, 5.0, args=(PARAMETERS,)),
        "gradient": lambda: gradient(PARAMETERS),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    for method in ("RK45", "DOP853", "RK23", "LSODA", "BDF", "Radau"):
        steps = len(scipy.integrate.solve_ivp(chain, (0, END), START, method, args=(PARAMETERS,), **TOLERANCES).t)
        report(f"solve_ivp by {method}, {steps - 1} steps, a loss on all of them", candidates(method), rounds)
        report(f"solve_ivp by {method}, a loss at 100 times", candidates(method, t_eval=TIMES), rounds)
    report("odeint, a loss at 100 times", candidates_of_odeint(), rounds)
    report("quad", candidates_of_quad(), rounds)


if __name__ == "__main__":
    main()
