"""An orbit by its Taylor series: an ODE is solved to the last digits, in a few large steps.

    python examples/orbit.py

The solution of y' = f(y) is a series whose coefficients follow one after the other: the coefficient k of f(y(t)) needs
those of y up to k, and gives the one at k + 1. `fg.taylor` expands f along what is known of y. Steps of order 20 are
as long as the last coefficients allow (Jorba and Zou 2005, https://doi.org/10.1080/10586458.2005.10128904). The closed
form is Kepler's. The picture, of the steps and of the error by order, goes to `out/orbit.png`.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import fgrad as fg
from fgrad.scipy.optimize import brentq

ECCENTRICITY = 0.5


def force(state: Any) -> Any:
    """Return how place and velocity change, around a mass of 1 at the origin."""
    place, velocity = state[:2], state[2:]
    square = place @ place
    return np.concatenate([velocity, -place / (square * np.sqrt(square))])


def series(state: Any, order: int) -> Any:
    """Return the Taylor coefficients of the motion from a state on, of shape (order + 1, 4)."""
    known = [state]
    for k in range(order):
        known += [fg.taylor(force, k)(*known)[k] / (k + 1)]
    return np.stack(known)


def solve(state: Any, end: float, order: int = 20) -> tuple[Any, Any]:
    """Return the times of the steps up to `end`, and the states there."""
    times, states = [0.0], [np.asarray(state)]
    while times[-1] < end:
        coefficients = series(states[-1], order)
        radius = min(np.max(np.abs(coefficients[k])) ** (-1 / k) for k in (order - 1, order))
        step = min(radius * np.finfo(float).eps ** (1 / order), end - times[-1])  # what is left out is lost in rounding
        times.append(times[-1] + step)
        states.append(np.polynomial.polynomial.polyval(step, coefficients))
    return np.array(times), np.stack(states)


def by_kepler(time: float) -> Any:
    """Return the place at a time, from the nearest point on, by the equation E - e sin E = t."""
    anomaly = brentq(lambda x: x - ECCENTRICITY * np.sin(x) - time, -1.0, 2 * np.pi + 1, xtol=1e-15)
    return np.array([np.cos(anomaly) - ECCENTRICITY, np.sqrt(1 - ECCENTRICITY**2) * np.sin(anomaly)])


def error_after_one_orbit(order: int) -> tuple[float, int]:
    """Return how far from its start, which it comes back to, the motion ends; and in how many steps."""
    times, states = solve(START, 2 * np.pi, order)
    return float(np.linalg.norm(states[-1] - START)), len(times) - 1


START = np.array([1 - ECCENTRICITY, 0.0, 0.0, np.sqrt((1 + ECCENTRICITY) / (1 - ECCENTRICITY))])
"""The nearest point to the center, and the velocity there."""


def draw(states: Any, orders: Any, found: Any, path: Path) -> None:
    """Draw the orbit with its steps, and what errors and steps are at each order."""
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(
        *np.stack([by_kepler(t) for t in np.linspace(0, 2 * np.pi, 200)]).T, color="0.7", label="Kepler's ellipse"
    )
    left.plot(*states[:, :2].T, "o", color="C0", markersize=4, label="steps of order 20")
    left.plot(0, 0, "*", color="C1", markersize=10)
    left.set(aspect="equal")
    left.legend(fontsize=8, loc="lower left")
    errors, steps = zip(*found, strict=True)
    right.semilogy(orders, errors, "o-", color="C0", label="error after one orbit")
    right.semilogy(orders, steps, "s-", color="C3", label="steps")
    right.set(xlabel="order", xticks=orders)
    right.legend(fontsize=8)
    figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)


def main(out: str = "out", orders: tuple[int, ...] = (10, 15, 20, 25), picture: str = "orbit.png") -> dict[str, Any]:
    """Follow one orbit, print the errors, and draw.

    Args:
        out: the folder for the picture.
        orders: those to compare.
        picture: its name.

    Returns:
        The states after each step of order 20; the largest distance of one to Kepler's ellipse at that time; and for
        each order the error after one orbit, with the number of steps.
    """
    times, states = solve(START, 2 * np.pi)
    distance = max(float(np.linalg.norm(state[:2] - by_kepler(t))) for t, state in zip(times, states, strict=True))
    found = [error_after_one_orbit(order) for order in orders]
    print(f"largest distance to the closed form   {distance:.1e}, in {len(times) - 1} steps of order 20")
    for order, (error, steps) in zip(orders, found, strict=True):
        print(f"order {order:3}   error after one orbit {error:.1e}   {steps} steps")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    draw(states, orders, found, folder / picture)
    return {"states": states, "distance": distance, "found": found}


if __name__ == "__main__":
    main()
