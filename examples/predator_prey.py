"""Fit the equations of predators and prey to twenty years of furs, and say how sure each parameter is.

    python examples/predator_prey.py

Lotka and Volterra: hares multiply and are eaten, lynxes starve and eat. `solve_ivp` solves the equations,
whose parameters the function simply closes over; the exact gradient and products with the Hessian come through
the solution. The picture goes to `out/predator_prey.png`.

The numbers are the pelts, in thousands, that the Hudson's Bay Company bought in the years from 1900 to 1920
(Howard 2009, Modeling Basics; Carpenter 2018 fits them by sampling).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

import fgrad as fg
from fgrad.scipy.integrate import solve_ivp

YEARS = np.arange(1900.0, 1921.0)
HARES = np.array([
    30, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22, 25.4,
    27.1, 40.3, 57, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7,
])  # fmt: skip
LYNXES = np.array([
    4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1,
    7.4, 8, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6,
])  # fmt: skip

NAMES = ("birth of hares", "hunting", "death of lynxes", "gain by hunting", "hares in 1900", "lynxes in 1900")
GUESS = np.array([0.5, 0.02, 1.0, 0.02, 30.0, 4.0])


def populations(logs: Any, years: np.ndarray, derivative: str = "steps") -> Any:
    """Return hares and lynxes, a row each.

    Args:
        logs: the logarithms of the parameters, which are positive.
        years: when, in order, from the first one on.
        derivative: how the solution is to be differentiated.
    """
    birth, hunting, death, gain, hares, lynxes = np.exp(logs)

    def slope(t: float, y: Any) -> Any:
        hares, lynxes = y
        return [(birth - hunting * lynxes) * hares, (gain * hares - death) * lynxes]

    span = years[0], years[-1]
    return solve_ivp(slope, span, [hares, lynxes], t_eval=years, rtol=1e-7, atol=1e-8, derivative=derivative).y


def loss(logs: Any, derivative: str = "steps") -> Any:
    """Return half the sum of squares of what is left of the logarithms of the furs."""
    return np.sum((np.log(populations(logs, YEARS, derivative)) - np.log([HARES, LYNXES])) ** 2) / 2


def draw(logs: np.ndarray, path: Path) -> None:
    """Draw the furs with the fit, and the circle on which both populations go."""
    fine = np.linspace(YEARS[0], YEARS[-1], 400)
    hares, lynxes = np.asarray(populations(logs, fine))
    figure = Figure(figsize=(10, 4), layout="constrained")
    in_time, circle = figure.subplots(1, 2, width_ratios=(3, 2))
    for furs, fit, color, label in ((HARES, hares, "C0", "hares"), (LYNXES, lynxes, "C3", "lynxes")):
        in_time.plot(YEARS, furs, "o", color=color, label=label)
        in_time.plot(fine, fit, color=color)
    in_time.set(xlabel="year", xticks=YEARS[::5].astype(int), ylabel="pelts (thousands)")
    in_time.legend()
    circle.plot(HARES, LYNXES, "o", color="0.6")
    circle.plot(hares, lynxes, color="C2")
    circle.set(xlabel="hares", ylabel="lynxes")
    for axes in (in_time, circle):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def main(out: str = "out") -> dict[str, Any]:
    """Fit, print the table, and draw.

    Args:
        out: the folder for the picture.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    fit = minimize(fg.value_and_grad(loss), np.log(GUESS), jac=True, hessp=fg.hvp(loss), method="trust-ncg")
    variance = 2 * fit.fun / (2 * len(YEARS) - len(NAMES))
    errors = np.sqrt(variance * np.diag(np.linalg.inv(fg.hessian(loss)(fit.x).numpy())))

    params = np.exp(fit.x)
    for name, value, error in zip(NAMES, params, errors, strict=True):
        print(f"{name:16}{value:9.4f} ± {value * error:.4f}")
    print(f"{'noise':16}{np.sqrt(variance):9.4f} of the logarithms")
    print(f"{fit.nit} iterations. {fit.message}")
    draw(fit.x, folder / "predator_prey.png")
    return {
        "params": params,
        "errors": params * errors,
        "noise": float(np.sqrt(variance)),
        "first_loss": float(loss(np.log(GUESS))),
        "loss": float(fit.fun),
        "gradient": fg.grad(loss)(fit.x).numpy(),
        "gradient_by_adjoint": fg.grad(loss)(np.log(GUESS), "adjoint").numpy(),
        "first_gradient": fg.grad(loss)(np.log(GUESS)).numpy(),
        "success": bool(fit.success),
    }


if __name__ == "__main__":
    main()
