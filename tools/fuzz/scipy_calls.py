"""Family `scipy`: random points for the calls of SciPy's functions in the tables of the tests.

Values are compared with those of the plain call, first derivatives in both modes with its differences, second ones
with differences of the first. Of special functions that mpmath has, too, derivatives are compared with mpmath's, all
over their domains.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy_tables
from coverage_table import DIFFERENTIABLE, IN_PIECES, Call, look_up, twisted

import fgrad as fg
from fgrad import errors
from fuzz import mpmath_judge
from fuzz.case import REFUSED, RIGHT, UNDECIDED, WRONG, Outcome, UndecidedError, WrongError
from fuzz.differences import compare

NOT_COMPARABLE = ("scipy.special.ncfdtrinc",)
"""Of which SciPy's values have four digits, so that their differences say nothing of derivatives with twelve."""
BY_STEPS = ("fgrad.scipy.integrate.solve_ivp", "fgrad.scipy.integrate.odeint")
"""What is as exact as the tolerance of a solver; second derivatives are less so."""
ELEMENT_BY_ELEMENT = ("special", "stats")
"""Areas whose points are elements that have nothing to do with each other: they can be mixed."""


@functools.cache
def calls() -> list[tuple[str, str, int, Call]]:
    """Return the calls that have derivatives: area, name, number in its row, call."""
    return [
        (area, row.names[0], number, call)
        for area, rows in scipy_tables.AREAS.items()
        for row in rows
        if row.kind in (DIFFERENTIABLE, IN_PIECES) and row.names[0] not in NOT_COMPARABLE
        for number, call in enumerate(row.calls)
    ]


@dataclass
class Draw:
    """A call at random points: some arguments are traced, along directions, and results are weighed."""

    name: str
    number: int
    call: Call
    points: list[Any]
    places: list[int]
    directions: list[list[Any]]
    seed: int

    def text(self) -> str:
        """Return what is called, to be read."""
        lines = [f"call {self.number} of {self.name!r} in tests/scipy_tables.py, traced in {self.places}, at"]
        lines += [f"    {x.tolist()!r}" for x in self.points]
        return "\n".join([*lines, "along", *(f"    {x.tolist()!r}" for x in self.directions[0])])

    def at(self, xs: Sequence[Any]) -> list[Any]:
        """Return all arguments of the call, with these as those that are traced."""
        points = list(self.points)
        for place, x in zip(self.places, xs, strict=True):
            points[place] = x
        return points

    def weighed(self, results: list[Any]) -> Any:
        """Return one number made of results: the real part of their sum with weights."""
        return sum(np.sum(np.real(np.conj(w) * y)) for w, y in zip(self.weights(results), results, strict=True))

    def weights(self, results: list[Any]) -> list[Any]:
        """Return the weights of results, which depend on the seed alone."""
        rng = np.random.default_rng(self.seed)
        drawn = [(rng.uniform(0.5, 1.5, y.shape), rng.uniform(-1, 1, y.shape)) for y in results]
        return [a + 1j * b if np.iscomplexobj(y) else a for (a, b), y in zip(drawn, results, strict=True)]

    def along(self, h: float, number: int = 0) -> list[Any]:
        """Return the traced arguments, moved along a direction."""
        directions = self.directions[number]
        return [self.points[place] + h * v for place, v in zip(self.places, directions, strict=True)]


def run(seed: int) -> Outcome:
    """Return what comes of the call that a seed says."""
    rng = np.random.default_rng(seed)
    if rng.random() < 0.25:
        return mpmath_judge.run(seed)
    draw = drawn(rng, seed)
    try:
        expected = plain_value(draw)
        check_value_and_slopes(draw, expected)
        if rng.random() < 0.5:
            check_curvature(draw)
    except UndecidedError as error:
        return Outcome(UNDECIDED, draw.text(), str(error))
    except WrongError as error:
        return Outcome(WRONG, draw.text(), str(error))
    except errors.FgradError as error:
        return Outcome(REFUSED, draw.text(), f"{type(error).__name__}: {error}")
    except Exception as error:  # the plain call did not raise
        return Outcome(WRONG, draw.text(), f"{type(error).__name__}: {error}")
    return Outcome(RIGHT, draw.text())


def drawn(rng: np.random.Generator, seed: int) -> Draw:
    """Return a random call."""
    area = list(scipy_tables.AREAS)[rng.integers(len(scipy_tables.AREAS))]
    of_area = [found for found in calls() if found[0] == area]
    _, name, number, call = of_area[rng.integers(len(of_area))]
    points = moved([np.asarray(x, float) for x in call.points], area, rng)
    if call.complex and rng.random() < 0.5:
        points = [twisted(x) for x in points]
    places = [place for place in range(len(points)) if not call.apart or rng.random() < 0.7]
    places = places or [int(rng.integers(len(points)))]
    directions = [[direction(points[place], rng) for place in places] for _ in range(2)]
    return Draw(name, number, call, points, places, directions, seed)


def moved(points: list[Any], area: str, rng: np.random.Generator) -> list[Any]:
    """Return points near some others; what has nothing to do with each other may be mixed."""
    if area in ELEMENT_BY_ELEMENT and rng.random() < 0.5:
        sizes = {x.size: (rng.permutation(x.size), rng.random(x.size)) for x in points if x.ndim == 1}
        points = [mixed(x, *sizes[x.size]) if x.ndim == 1 else x for x in points]
    spread = rng.choice([0.0, 0.01, 0.1])
    return [x * (1 + spread * rng.uniform(-1, 1, x.shape)) for x in points]


def mixed(x: Any, order: Any, shares: Any) -> Any:
    """Return numbers between those of an array and others of it."""
    return x * shares + x[order] * (1 - shares)


def direction(x: Any, rng: np.random.Generator) -> Any:
    """Return a random direction, as long as the numbers are large."""
    v = rng.uniform(-1, 1, x.shape) * np.where(x == 0, 0.1, np.abs(x))
    return v * np.exp(1j * rng.uniform(-1, 1)) if np.iscomplexobj(x) else v


def leaves(tree: Any) -> list[Any]:
    """Return the results that may have derivatives."""
    found = [x if isinstance(x, fg.Tensor) else np.asarray(x) for x in fg.tree_leaves(tree)]
    return [x for x in found if np.issubdtype(x.dtype, np.inexact)]


def plain_function(draw: Draw) -> Callable[..., Any]:
    """Return SciPy's function where the call is that of one of fgrad's, and the call's own function else."""
    name = draw.name.removeprefix("fgrad.")
    ours, scipys = look_up(draw.name), look_up(name)
    return scipys if scipys is not None and draw.call.function is ours else draw.call.function


def plain_results(draw: Draw, h: float, number: int = 0) -> list[Any]:
    """Return the results of the plain call at a point along a direction."""
    return leaves(plain_function(draw)(*draw.at(draw.along(h, number))))


def plain_value(draw: Draw) -> list[Any]:
    """Return the results of the plain call, which must be finite."""
    try:
        results = plain_results(draw, 0.0)
    except Exception as error:
        raise UndecidedError(f"the plain call raises {type(error).__name__}: {error}") from None
    if not results or not all(np.all(np.isfinite(y)) for y in results):
        raise UndecidedError("the plain value is not finite")
    return results


def guarded(f: Callable[[float], Any]) -> Callable[[float], Any]:
    """Return a plain function that answers NaN where it raises: outside of its domain."""

    def answer(h: float) -> Any:
        try:
            return f(h)
        except Exception:
            return np.nan

    return answer


def check_value_and_slopes(draw: Draw, expected: list[Any]) -> None:
    """Compare values, and the first derivatives in both modes."""

    def function(*xs: Any) -> Any:
        return leaves(draw.call.function(*draw.at(xs)))

    xs = draw.along(0.0)
    value, tangents = fg.jvp(function, tuple(xs), tuple(draw.directions[0]))
    again, pullback = fg.vjp(function, *xs)
    for results in (value, again):
        for found, plain in zip(results, expected, strict=True):
            found = np.asarray(found)
            scale = np.max(np.abs(plain), initial=0.0)
            if found.shape != plain.shape or not np.allclose(found, plain, rtol=1e-10, atol=1e-12 * scale):
                raise WrongError(f"the traced value is {found!r}, not {plain!r}")
    plain = guarded(lambda h: draw.weighed(plain_results(draw, h)))
    compare("the derivative in forward mode", draw.weighed(tangents), plain)
    pushed = fg.linearize(function, *xs)[1](*draw.directions[0])
    compare("the derivative by linearize", draw.weighed(pushed), plain)
    cotangents = pullback(draw.weights(value))
    product = sum(np.sum(np.real(np.conj(c) * v)) for c, v in zip(cotangents, draw.directions[0], strict=True))
    compare("the derivative in reverse mode", product, plain)


def check_curvature(draw: Draw) -> None:
    """Compare second derivatives, forward over forward and reverse over forward, with differences of the first."""

    def slope(*xs: Any) -> Any:
        def function(*xs: Any) -> Any:
            return leaves(draw.call.function(*draw.at(xs)))

        return draw.weighed(fg.jvp(function, xs, tuple(draw.directions[0]))[1])

    xs = draw.along(0.0, 1)
    first = guarded(lambda h: slope(*draw.along(h, 1)))
    precision = 1e-6 if draw.name in BY_STEPS else 1e-8
    compare("the second derivative, forward over forward", fg.jvp(slope, xs, draw.directions[1])[1], first, precision)
    gradients = fg.grad(slope, argnums=tuple(range(len(xs))))(*xs)
    product = sum(np.sum(np.real(np.conj(c) * v)) for c, v in zip(gradients, draw.directions[1], strict=True))
    compare("the second derivative, reverse over forward", product, first, precision)
