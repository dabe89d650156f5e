"""Measure sparse Hessians and Jacobians, as ratios to a gradient, and to finite differences with the same pattern.

    python benchmarks/sparse.py [--rounds N]

A Hessian with three diagonals, of the chained function of Rosenbrock, is to take at most 15 times its gradient. Bundle
adjustment, the fit of cameras and points to pictures of them, is one step of Gauss and Newton by SciPy's
`least_squares`. Plans are made before; what that takes is shown, too. Candidates run alternately.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # read when NumPy is imported

import numpy as np
import scipy.optimize
from rounds import fastest

import fgrad as fg


def report(title: str, planned: float, found: dict[str, float]) -> None:
    """Print the times of candidates, and their ratios to the first one."""
    print(f"\n{title}; the plan takes {planned * 1e3:.3g} ms")
    first = next(iter(found.values()))
    for name, seconds in found.items():
        print(f"    {name:40}{seconds * 1e3:10.3g} ms{seconds / first:8.2f} x")


def planned(derivative: Any, x: Any) -> float:
    """Return the seconds that a plan takes, which is kept."""
    start = time.perf_counter()
    derivative(x)
    return time.perf_counter() - start


# A Hessian with three diagonals


def rosenbrock(x: Any) -> Any:
    """Return the chained function of Rosenbrock."""
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def report_hessian(n: int, rounds: int) -> None:
    """Measure the Hessian beside the gradient."""
    x = np.linspace(-1, 1, n)
    gradient, hessian = fg.grad(rosenbrock), fg.sparse_hessian(rosenbrock)
    seconds = planned(hessian, x)
    found = fastest({"gradient": lambda: gradient(x), "sparse Hessian (aim: 15 x)": lambda: hessian(x)}, rounds)
    report(f"Rosenbrock's chained function of {n} numbers", seconds, found)


# Bundle adjustment


class Scene:
    """Points that are seen by cameras: two numbers for each time that one sees the other.

    Args:
        cameras, points, sights: how many there are.
    """

    def __init__(self, cameras: int = 50, points: int = 900, sights: int = 10_000) -> None:
        rng = np.random.default_rng(0)
        self.cameras, self.points = cameras, points
        self.camera, self.point = rng.integers(0, cameras, sights), rng.integers(0, points, sights)
        self.truth = np.concatenate([rng.normal(0, 0.1, 6 * cameras), rng.normal(0, 1, 3 * points)])
        self.seen = np.zeros((sights, 2))
        self.seen = np.reshape(self.residuals(self.truth), (sights, 2)) + rng.normal(0, 1e-3, (sights, 2))
        self.start = self.truth + rng.normal(0, 0.01, self.truth.shape)

    def residuals(self, x: Any) -> Any:
        """Return how far off each point is in each picture.

        Args:
            x: for each camera a rotation, as a vector along its axis, and a translation; then the points.
        """
        cameras = np.reshape(x[: 6 * self.cameras], (self.cameras, 6))[self.camera]
        points = np.reshape(x[6 * self.cameras :], (self.points, 3))[self.point]
        axis, shift = cameras[:, :3], cameras[:, 3:]
        angle = np.sqrt(np.sum(axis**2, axis=1, keepdims=True) + 1e-30)
        axis = axis / angle
        turned = (  # Rodrigues' formula
            points * np.cos(angle)
            + np.cross(axis, points) * np.sin(angle)
            + axis * np.sum(axis * points, axis=1, keepdims=True) * (1 - np.cos(angle))
        )
        placed = turned + shift + np.array([0.0, 0.0, 10.0])
        return np.ravel(placed[:, :2] / placed[:, 2:] - self.seen)


def report_bundle_adjustment(rounds: int) -> None:
    """Measure the Jacobian, and a step with it, beside finite differences."""
    scene = Scene()
    jacobian = fg.sparse_jacobian(scene.residuals)
    seconds = planned(jacobian, scene.start)
    plan = jacobian.plan(scene.start)
    print(f"\n{plan}")

    def step(jac: Any, **options: Any) -> Any:
        return scipy.optimize.least_squares(scene.residuals, scene.start, jac, max_nfev=1, x_scale=1.0, **options)

    differences: dict[str, Any] = {"jac": "2-point", "jac_sparsity": plan.pattern}
    exact, estimated = step(jacobian).jac, step(**differences).jac
    assert np.max(np.abs((exact - estimated).data)) < 1e-5
    candidates = {
        "step, finite differences": lambda: step(**differences),
        "step, sparse Jacobian": lambda: step(jacobian),
        "sparse Jacobian alone": lambda: jacobian(scene.start),
        "residuals alone": lambda: scene.residuals(scene.start),
    }
    report(f"bundle adjustment of {len(scene.start)} unknowns", seconds, fastest(candidates, rounds))


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description="Measure fgrad's sparse derivatives.")
    parser.add_argument("--rounds", type=int, default=10, help="how often each candidate is timed")
    rounds = parser.parse_args().rounds
    for n in (1_000, 100_000):
        report_hessian(n, rounds)
    report_bundle_adjustment(max(3, rounds // 3))


if __name__ == "__main__":
    main()
