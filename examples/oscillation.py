"""Fit a damped oscillation to measured points, and say how sure each parameter is.

    python examples/oscillation.py

SciPy minimizes; fgrad gives it the gradient and the products with the Hessian. The errors of the
parameters come from the exact Hessian at the minimum. The picture goes to `out/oscillation.png`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

import fgrad as fg

NAMES = ("amplitude", "decay", "frequency", "phase", "offset")
TRUTH = np.array([2.0, 0.35, 1.2, 0.6, 0.5])
GUESS = np.array([1.0, 0.1, 1.15, 0.0, 0.0])
NOISE = 0.15


def model(params: Any, t: np.ndarray) -> Any:
    """Return the oscillation at the times `t`, in seconds."""
    amplitude, decay, frequency, phase, offset = params
    return amplitude * np.exp(-decay * t) * np.cos(2 * np.pi * frequency * t + phase) + offset


def measure(seed: int, count: int = 160) -> tuple[np.ndarray, np.ndarray]:
    """Return times, a little irregular, and noisy values."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 6, count))
    return t, model(TRUTH, t) + rng.normal(scale=NOISE, size=count)


def draw(t: np.ndarray, y: np.ndarray, params: np.ndarray, path: Path) -> None:
    """Draw the points with the fit, and below what is left of them."""
    fine = np.linspace(t[0], t[-1], 600)
    figure = Figure(figsize=(8, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.plot(t, y, ".", color="0.5", label="measured")
    above.plot(fine, model(TRUTH, fine), "--", color="C2", label="truth")
    above.plot(fine, model(params, fine), color="C3", label="fit")
    above.set_ylabel("displacement")
    above.legend()
    below.axhline(0, color="C3")
    below.plot(t, y - model(params, t), ".", color="0.5")
    below.set(xlabel="time (s)", ylabel="residual")
    for axes in (above, below):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def main(out: str = "out", seed: int = 0) -> dict[str, Any]:
    """Fit, print the table, and draw.

    Args:
        out: the folder for the picture.
        seed: of the measured points.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    t, y = measure(seed)

    def loss(params: Any) -> Any:
        return np.sum((model(params, t) - y) ** 2) / 2

    fit = minimize(
        loss,
        GUESS,
        method="trust-ncg",
        jac=fg.grad(loss),
        hessp=fg.hvp(loss),
    )
    variance = 2 * fit.fun / (len(t) - len(NAMES))
    hessian = fg.hessian(loss)(fit.x).numpy()
    errors = np.sqrt(variance * np.diag(np.linalg.inv(hessian)))

    print(f"{'':12}{'fit':>8} ± {'error':<8}{'truth':>8}   off by")
    for name, value, error, true in zip(NAMES, fit.x, errors, TRUTH, strict=True):
        print(f"{name:12}{value:8.4f} ± {error:<8.4f}{true:8.4f}   {abs(value - true) / error:.1f} errors")
    print(f"{'noise':12}{np.sqrt(variance):8.4f}{NOISE:19.4f}")
    print(f"{len(t)} points, {fit.nit} iterations. {fit.message}")
    draw(t, y, fit.x, folder / "oscillation.png")
    return {
        "params": fit.x,
        "errors": errors,
        "truth": TRUTH,
        "noise": float(np.sqrt(variance)),
        "gradient": fg.grad(loss)(fit.x).numpy(),
        "hessian": hessian,
        "iterations": fit.nit,
        "success": bool(fit.success),
    }


if __name__ == "__main__":
    main()
