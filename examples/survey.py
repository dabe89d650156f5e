"""A survey: where landmarks and cameras are is found from the directions in which the cameras see the landmarks.

    python examples/survey.py

Each direction depends on one camera and one landmark, so the Jacobian of 120 directions by 72 numbers is mostly zeros.
`fg.sparse_jacobian` finds where it is not, and needs five derivatives for all of it. SciPy's `least_squares` takes the
sparse matrix as it is. The picture, of the pattern and of the map, goes to `out/survey.png`.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import least_squares

import fgrad as fg

CAMERAS, LANDMARKS = 8, 24
RADIUS = 10.0


class Survey:
    """Directions that were measured, with noise, between cameras on a circle and landmarks within it.

    Args:
        seed: of the random numbers.
    """

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        iterations = np.linspace(0, 2 * np.pi, CAMERAS, endpoint=False)
        places = RADIUS * np.stack([np.cos(iterations), np.sin(iterations)], axis=1)
        self.cameras = np.column_stack([places, iterations + np.pi])  # each looks at the middle
        self.landmarks = rng.uniform(-0.5, 0.5, (LANDMARKS, 2)) * RADIUS
        pairs = [(camera, landmark) for landmark in range(LANDMARKS) for camera in range(CAMERAS)]
        kept = np.sort(rng.choice(len(pairs), 120, replace=False))
        self.camera, self.landmark = np.array(pairs)[kept].T
        truth = self.cameras, self.landmarks
        self.measured = self.directions(*truth) + rng.normal(0, 1e-3, len(kept))
        self.start = np.concatenate([np.ravel(part + rng.normal(0, 0.3, part.shape)) for part in truth])

    def parts(self, x: Any) -> tuple[Any, Any]:
        """Return the cameras, each with a place and a heading, and the landmarks."""
        return np.reshape(x[: 3 * CAMERAS], (CAMERAS, 3)), np.reshape(x[3 * CAMERAS :], (LANDMARKS, 2))

    def directions(self, cameras: Any, landmarks: Any) -> Any:
        """Return the angle at which each camera sees a landmark, from where it is heading to."""
        seen_from, seen = cameras[self.camera], landmarks[self.landmark]
        heading, offset = seen_from[:, 2], seen - seen_from[:, :2]
        ahead = offset[:, 0] * np.cos(heading) + offset[:, 1] * np.sin(heading)
        aside = offset[:, 1] * np.cos(heading) - offset[:, 0] * np.sin(heading)
        return np.arctan2(aside, ahead)

    def residuals(self, x: Any) -> Any:
        """Return how far off each direction is, in standard deviations."""
        return (self.directions(*self.parts(x)) - self.measured) / 1e-3


def draw(plan: fg.SparsePlan, survey: Survey, x: np.ndarray, path: Path) -> None:
    """Draw the pattern by its colors, and the map."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    fg.plot.pattern(plan, ax=left)
    left.set(xlabel="unknown number", ylabel="direction")
    for vector, color, label in ((survey.start, "0.7", "start"), (x, "C3", "found")):
        cameras, landmarks = survey.parts(vector)
        right.plot(*landmarks.T, "o", color=color, markersize=4, label=f"landmarks, {label}")
        right.plot(*cameras[:, :2].T, "^", color=color, markersize=7, label=f"cameras, {label}")
    right.set(xlabel="east", ylabel="north", aspect="equal")
    right.legend(fontsize=7, loc="upper right")
    figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)


def main(out: str = "out", seed: int = 0, picture: str = "survey.png") -> dict[str, Any]:
    """Fit the map, print how well, and draw.

    Args:
        out: the folder for the picture.
        seed: of the random numbers.
        picture: its name.

    Returns:
        The plan of the Jacobian, SciPy's result, and the mean square of the residuals for each degree of freedom.
    """
    survey = Survey(seed)
    jacobian = fg.sparse_jacobian(survey.residuals)
    plan = jacobian.plan(survey.start)
    found = least_squares(survey.residuals, survey.start, jac=jacobian)
    # A map can be shifted, turned and scaled without a change of any direction: four numbers are not determined.
    free = len(found.fun) - len(found.x) + 4
    mean_square = 2 * found.cost / free
    print(f"Jacobian            {plan}")
    print(f"steps               {found.nfev}")
    print(f"mean square error   {mean_square:.2f} variances, for {free} degrees of freedom")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    draw(plan, survey, found.x, folder / picture)
    return {"plan": plan, "found": found, "mean_square": mean_square}


if __name__ == "__main__":
    main()
