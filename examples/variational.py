"""The posterior of a logistic regression by variational inference, on measurements of tumours.

    python examples/variational.py

The posterior of the weights is approximated by a normal distribution, whose mean and covariance maximize the evidence
lower bound. Its expectation is a mean over draws, which `fgrad.random` differentiates. Beside it stands Laplace's
approximation: the normal distribution with the curvature of the posterior at its peak. The picture goes to
`out/variational.png`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer

import fgrad as fg
from fgrad.optimizers import Adam
from fgrad.optimizers.schedules import ExponentialDecay

FEATURES = ("mean texture", "mean smoothness", "mean symmetry", "fractal dimension error")
NAMES = ("offset", *FEATURES)
DRAWS = 16


def load() -> tuple[np.ndarray, np.ndarray]:
    """Return features with mean 0 and variance 1 behind a column of ones, and 1 for malignant tumours."""
    data = load_breast_cancer()
    x = data.data[:, [list(data.feature_names).index(name) for name in FEATURES]]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    return np.column_stack([np.ones(len(x)), x]), 1.0 - data.target


def log_posterior(weights: Any, x: np.ndarray, y: np.ndarray) -> Any:
    """Return the logarithm of likelihood times prior, up to a constant, of weights along the last axis."""
    logits = weights @ x.T
    likelihood = np.sum(y * logits - np.logaddexp(0.0, logits), axis=-1)
    return likelihood - 0.5 * np.sum(weights**2, axis=-1) / 10


def laplace(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the peak of the posterior, and the covariance that its curvature there says."""
    value_and_slope = fg.value_and_grad(lambda weights: -log_posterior(weights, x, y))
    peak = minimize(value_and_slope, np.zeros(x.shape[1]), jac=True, method="BFGS", tol=1e-8).x
    return peak, np.linalg.inv(np.asarray(fg.hessian(lambda weights: -log_posterior(weights, x, y))(peak)))


def root_of(q: dict[str, Any]) -> Any:
    """Return the factor of Cholesky of the covariance."""
    return np.tril(q["below"], -1) + np.diag(np.exp(q["log_diagonal"]))


def evidence_lower_bound(q: dict[str, Any], rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> Any:
    """Return the bound, up to a constant: the mean of the logarithm of the posterior, and the entropy."""
    root = root_of(q)
    weights = rng.multivariate_normal(q["mean"], root @ root.T, size=DRAWS, method="cholesky")
    return np.mean(log_posterior(weights, x, y)) + np.sum(q["log_diagonal"])


def fit(x: np.ndarray, y: np.ndarray, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Return the mean and the covariance that maximize the bound, and the bound at each step."""
    count = x.shape[1]
    q: Any = {"mean": np.zeros(count), "below": np.zeros((count, count)), "log_diagonal": np.full(count, -2.0)}
    rng = fg.random.default_rng(seed)
    ascend = fg.value_and_grad(lambda q: -evidence_lower_bound(q, rng, x, y))
    optimizer = Adam(ExponentialDecay(0.05, decay_steps=steps, decay_rate=0.01))
    state = optimizer.init(q)
    bounds = []
    for _ in range(steps):
        loss, slopes = ascend(q)
        q, state = optimizer.update(slopes, state, q)
        bounds.append(-float(loss))
    root = np.asarray(root_of(q))
    return np.asarray(q["mean"]), root @ root.T, bounds


def ellipse(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """Return points two standard deviations away."""
    angles = np.linspace(0, 2 * np.pi, 200)
    return mean[:, None] + 2 * np.linalg.cholesky(cov) @ np.stack([np.cos(angles), np.sin(angles)])


def draw(bounds: list[float], normals: dict[str, tuple[np.ndarray, np.ndarray]], path: Path) -> None:
    """Draw the bound, and both distributions of two weights."""
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(bounds, color="C0", alpha=0.3, linewidth=0.8, label="of one step")
    left.plot(
        np.arange(19, len(bounds)), np.convolve(bounds, np.ones(20) / 20, "valid"), color="C0", label="mean of 20"
    )
    left.set(xlabel="step", ylabel="evidence lower bound", ylim=(np.percentile(bounds, 5), max(bounds) + 0.2))
    left.legend()
    two = [1, 2]
    for (name, (mean, cov)), color in zip(normals.items(), ("C0", "C3"), strict=True):
        right.plot(*ellipse(mean[two], cov[np.ix_(two, two)]), color=color, label=name)
    right.set(xlabel=f"weight of {NAMES[1]}", ylabel=f"weight of {NAMES[2]}")
    right.legend(loc="upper left")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)


def main(out: str = "out", steps: int = 500, seed: int = 0, picture: str = "variational.png") -> dict[str, Any]:
    """Fit both, print the table, and draw.

    Args:
        out: the folder for the picture.
        steps: of the optimizer.
        seed: of the random numbers.
        picture: its name.

    Returns:
        Means and standard deviations of the weights by both ways, and the bounds.
    """
    x, y = load()
    peak, curvature = laplace(x, y)
    mean, cov, bounds = fit(x, y, steps, seed)
    errors = np.sqrt(np.diag(cov)), np.sqrt(np.diag(curvature))
    print(f"{'weight of':24} {'variational':>16} {'Laplace':>16}")
    for name, *row in zip(NAMES, mean, errors[0], peak, errors[1], strict=True):
        print(f"{name:24} {row[0]:8.3f} ± {row[1]:5.3f} {row[2]:8.3f} ± {row[3]:5.3f}")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    draw(bounds, {"variational": (mean, cov), "Laplace": (peak, curvature)}, folder / picture)
    return {"mean": mean, "errors": errors[0], "cov": cov, "peak": peak, "curvature": curvature, "bounds": bounds}


if __name__ == "__main__":
    main()
