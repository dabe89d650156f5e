"""Detection of jumps of an integrand or right-hand side whose locations depend on differentiated values.

    switches = Switches(name, function, moving, remedy)
    switches.warn(points, leaves)      warns of a jump between points at which a solver has called the function

For the integral of f over [0, 1] with f = 1 for x > a, else 0, the derivative of f with respect to a is 0 at every x,
but that of the integral is -1: the location of the jump moves. No derivative of f shows this. But a moving jump
requires that f applies an operation without a derivative - a comparison, a rounding, an index - to a value that depends
on a. `SwitchTrace` traces dependent values, and records the outcomes. If they differ between two neighbouring points,
bisection finds the location, and values next to it distinguish a jump from a kink, which needs no warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, apply, apply_call, box, boxed, strip_ended
from fgrad.core.trace import Call, Trace, running
from fgrad.errors.places import depth_of_user
from fgrad.ops.tracing import raw_array
from fgrad.rules.closures import followers
from fgrad.scipy.integrate._callback import for_each_example, values_of
from fgrad.scipy.integrate._forms import is_moving
from fgrad.scipy.integrate._vectorized import NotTogether, first_that_works, in_groups, in_one_batch
from fgrad.transforms.cuts import STOP
from fgrad.typing import Array

Place = tuple[str, int]
Way = tuple[tuple[Place, Any], ...]
"""The decisions in a run of a function: line and outcome of each."""

MOST_POINTS, SOME_POINTS = 1000, 200
MOST_SWITCHES = 20
"""Maximal number of decision points that are examined, on one path each."""

REMEDY = (
    "Let an event end the solution there, and restart from its time and state; if only the times in t_span are "
    "differentiated, derivative='adjoint' suffices. If the location is meant to be constant, use "
    "fg.stop_gradient on the values it depends on."
)
"""Remedy for a right-hand side with a moving jump."""

_EPSILON = 2.0**-52
_CLOSE, _NEAR = 2.0**16, 2.0**32
"""Distances from a location, in units of its rounding error."""

_NUDGE = 1e-7
_SMALLEST = 1e-9
"""A jump that is smaller, relative to the values beside it, counts as rounding."""

DECISIONS: Mapping[str, Callable[..., Any]] = {
    "sign": lambda x: np.sign(x.real),
    "heaviside": lambda x, _: np.sign(x),
    "copysign": lambda _, y: np.signbit(y),
    "remainder": np.floor_divide,
    "divmod": np.floor_divide,
    "fmod": lambda x, y: np.trunc(x / y),
    "modf": np.trunc,
    "arctan2": lambda y, x: np.signbit(y) & (x < 0),
    "interp": lambda x, _, knots: np.searchsorted(knots, x),
}
"""Operations with a decision and a derivative."""


class SwitchTrace(Trace):
    """Traces values that depend on given arrays, and records decisions based on them.

    Attributes:
        decided: line and outcome of each decision; under an outer batch, of all its examples.
    """

    differentiates = True

    def __init__(self) -> None:
        super().__init__()
        self.decided: list[tuple[Place, Any]] = []

    def root(self, value: Any) -> Tensor:
        """Return a value as a traced tensor."""
        return box(value, self, None)

    def _inside(self, x: Array | float) -> Any:
        return x._payload if type(x) is Tensor and x._trace is self else x

    def _result(self, value: Array) -> Any:
        return self.root(value) if value.dtype.kind in "fc" else boxed(value)

    def decide(self, outcome: Array) -> None:
        """Record an outcome."""
        self.decided.append((errors.users_place(), outcome))

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        inside = [self._inside(arg) for arg in args]
        result = apply(primitive, inside, metadata)
        if primitive.name == STOP:
            return boxed(result)
        if primitive.name in DECISIONS:
            self.decide(DECISIONS[primitive.name](*inside))
        elif type(result) is tuple:
            return tuple(map(self._result, result))
        elif primitive.kind == "rounding" or primitive.jvp is None or result.dtype.kind not in "fc":
            self.decide(result)
            return boxed(result)
        return tuple(map(self._result, result)) if type(result) is tuple else self._result(result)

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        return list(map(self._result, apply_call(call, list(map(self._inside, leaves)))))

    @override
    def concrete(self, tensor: Any, how: str) -> Any:
        if how == "int()":
            self.decide(np.floor(tensor._payload))
        elif how == "bool()":
            self.decide(tensor._payload != 0)
        return tensor._payload


class _Path:
    """The straight path from one point to another, parametrized from 0 to 1.

    Attributes:
        rounding: the accuracy of locations on it.
    """

    def __init__(self, points: Sequence[Array], number: int) -> None:
        self._begin = [part[number] for part in points]
        self._moves = [part[number + 1] - part[number] for part in points]
        pairs = zip(points, self._moves, strict=True)
        sizes = [np.max(np.abs(part[number : number + 2]), initial=0.0) for part, _ in pairs]
        ratios = [size / np.max(np.abs(move)) for size, move in zip(sizes, self._moves, strict=True) if move.any()]
        self.rounding = _EPSILON * float(min(ratios))

    def at(self, *places: float) -> list[Array]:
        """Return the components of points on the path, along their first axes."""
        pairs = zip(self._begin, self._moves, strict=True)
        return [np.stack([begin + place * move for place in places]) for begin, move in pairs]


@dataclass
class Switches:
    """A function called by a solver, and the locations at which its decisions change.

    Attributes:
        name: the name of the user's function.
        function: takes the components of a point, and leaves; returns an array.
        moving: which of the components and leaves depend on differentiated values.
        remedy: the advice for a moving jump.
    """

    name: str
    function: Callable[..., Any]
    moving: Sequence[bool]
    remedy: str
    _numbers: dict[Way, int] = field(default_factory=dict)
    _known: list[Way] = field(default_factory=list)

    def warn(self, points: Sequence[Array], leaves: Sequence[Any], known: Sequence[float] = ()) -> None:
        """Warn of the first jump with a moving location.

        Args:
            points: the components of all points, along their first axes; neighbours are consecutive.
            leaves: plain arrays.
            known: locations, as first components of points, whose motion is in the derivative.
        """
        count = len(points[0])
        if count > MOST_POINTS:
            points = [part[np.linspace(0, count - 1, MOST_POINTS).astype(int)] for part in points]
        if count < 2 or not any(self.moving):
            return
        with np.errstate(all="ignore"):
            place = self._first_step(points, leaves, known)
            self.function(*(part[-1] for part in points), *leaves)  # to restore a state that the function may keep
        if place is not None:
            _warn(self.name, place, self.remedy)

    def is_needed(self, points: Sequence[Array], leaves: Sequence[Any]) -> bool:
        """Return whether the function makes decisions at points, for any example if the leaves are those of a batch.

        All examples run together, so that a function without decisions need not run for each of them.
        """
        if not len(points[0]):  # between equal limits
            return False
        every = np.unique(np.linspace(0, len(points[0]) - 1, SOME_POINTS).astype(int))
        found = False

        def run(*point: Array) -> Any:
            nonlocal found
            found = found or bool(self._decisions(point, leaves))
            return np.zeros(())

        try:
            with np.errstate(all="ignore"):
                in_groups(
                    lambda *points: in_one_batch(run, points),
                    [part[every] for part in points],
                    [np.arange(len(every))],
                )
        except NotTogether:
            return True
        return found

    def _first_step(self, points: Sequence[Array], leaves: Sequence[Any], known: Sequence[float]) -> Place | None:
        """Return the user's line of the decision at the first moving jump."""
        ways = self._ways(points, leaves)
        switches = [i for i in np.flatnonzero(ways[1:] != ways[:-1]) if self._line(*ways[i : i + 2]) not in _told()]
        for number in switches[:MOST_SWITCHES]:
            path, before = _Path(points, int(number)), 0.0
            for _ in range(MOST_SWITCHES):
                before, behind = self._switch(path, before, leaves)
                if self._is_missing(path, before, behind, leaves, known):
                    return self._line(*self._ways(path.at(before, behind), leaves))
                before = behind
                if len(set(self._ways(path.at(behind, 1.0), leaves))) == 1:
                    break
        return None

    # Decisions

    def _ways(self, points: Sequence[Array], leaves: Sequence[Any]) -> Any:
        """Return numbers for the decisions of the function at points; equal numbers mean equal decisions."""

        def together(*points: Array) -> Array:
            return np.array([self._number(way) for way in self._decided(points, leaves)])

        def one_by_one() -> Array:
            return np.concatenate([together(*(part[i : i + 1] for part in points)) for i in range(len(points[0]))])

        everything = [np.arange(len(points[0]))]
        return first_that_works(lambda: in_groups(together, points, everything)[0], one_by_one)

    def _number(self, way: Way) -> int:
        if way not in self._numbers:
            self._numbers[way] = len(self._known)
            self._known.append(way)
        return self._numbers[way]

    def _decided(self, points: Sequence[Array], leaves: Sequence[Any]) -> list[Way]:
        """Return the decisions of the function at points that can be evaluated together."""
        decided: list[tuple[Place, Any]] = []

        def run(*point: Array) -> Any:
            decided[:] = self._decisions(point, leaves)
            return np.zeros(())

        in_one_batch(run, points)
        count = len(points[0])
        rows = [(place, _rows(outcome, count)) for place, outcome in decided]
        return [tuple((place, row[i].tobytes()) for place, row in rows) for i in range(count)]

    def _decisions(self, point: Sequence[Any], leaves: Sequence[Any]) -> list[tuple[Place, Any]]:
        """Return line and outcome of each decision of the function in one run."""
        trace = SwitchTrace()
        with trace:
            pairs = zip((*point, *leaves), self.moving, strict=True)
            self.function(*(trace.root(x) if moves else x for x, moves in pairs))
        return trace.decided

    def _line(self, first: int, last: int) -> Place:
        """Return the line of the first decision that differs between two runs."""
        pairs = zip_longest(*(self._known[number] for number in (first, last)), fillvalue=(("", 0), b""))
        return next(a[0] if a[0][0] else b[0] for a, b in pairs if a != b)

    # Location and kind of a change

    def _switch(self, path: _Path, before: float, leaves: Sequence[Any]) -> tuple[float, float]:
        """Return locations on both sides of a change of decisions."""
        behind, (way,) = 1.0, self._ways(path.at(before), leaves)
        while behind - before > path.rounding:
            middle = (before + behind) / 2
            if not before < middle < behind:
                break
            if self._ways(path.at(middle), leaves)[0] == way:
                before = middle
            else:
                behind = middle
        return before, behind

    def _is_missing(
        self, path: _Path, before: float, behind: float, leaves: Sequence[Any], known: Sequence[float]
    ) -> bool:
        """Return whether there is a moving jump that the derivative does not contain."""
        at = path.at(before)[0][0]
        if any(abs(at - place) <= _SMALLEST * abs(place) for place in known):
            return False
        return self._is_step(path, before, behind, leaves) and self._is_moving(path, before, behind, leaves)

    def _is_step(self, path: _Path, before: float, behind: float, leaves: Sequence[Any]) -> bool:
        """Return whether the function's values jump; at a kink they converge as the locations do."""
        near = path.rounding * _NEAR
        points = path.at(before - near, before, behind, behind + near)
        far_before, left, right, far_behind = (
            np.asarray(strip_ended(self.function(*(part[i] for part in points), *leaves))) for i in range(4)
        )
        jump, size = _largest(right - left), max(_largest(left), _largest(right))
        around = max(_largest(left - far_before), _largest(far_behind - right))
        return jump > _SMALLEST * size and not (np.isfinite(around) and jump < around / 4)

    def _is_moving(self, path: _Path, before: float, behind: float, leaves: Sequence[Any]) -> bool:
        """Return whether the location depends on traced values."""
        rng, close = np.random.default_rng(0), path.rounding * _CLOSE
        points, count = path.at(before - close, behind + close), len(path.at(0.0))
        moved = [_nudged(x, rng) if moves else x for x, moves in zip((*points, *leaves), self.moving, strict=True)]
        here = self._ways(points, leaves)
        return bool((self._ways(moved[:count], moved[count:]) != here).any())


def is_looked_at(leaves: Sequence[Any]) -> bool:
    """Return whether a search for jumps has called the computation with leaves."""
    return any(isinstance(trace, SwitchTrace) for trace in followers(leaves))


def _rows(outcome: Array, count: int) -> Any:
    """Return an outcome for each of several points; a batch may contain all of them."""
    outcome = strip_ended(outcome)
    if type(outcome) is Tensor:
        return raw_array(outcome._payload)
    return [np.asarray(outcome)] * count


def _largest(x: Array) -> float:
    return float(np.max(np.abs(x), initial=0.0))


def _nudged(x: Array, rng: np.random.Generator) -> Any:
    """Return slightly larger or smaller numbers; integers are returned unchanged."""
    if x.dtype.kind not in "fc":
        return x
    by = _NUDGE * rng.uniform(0.5, 1.0, x.shape) * rng.choice([-1.0, 1.0], x.shape)
    return x + by * np.where(x == 0, 1.0, np.abs(x))


def _told() -> set[Place]:
    """Return the lines about which a warning was given since the outermost transform began."""
    return set() if running.call is None else running.call[2]


def _warn(name: str, place: Place, remedy: str) -> None:
    """Warn about a jump, once per line."""
    _told().add(place)
    warnings.warn(
        f"a part of the derivative may be missing: {name} jumps where the outcome changes at {errors.line_at(place)}\n"
        f"and the location of that jump depends on differentiated values.\n{remedy}",
        errors.MovingStepWarning,
        stacklevel=depth_of_user(),
    )


def warn_of_steps_along(
    name: str, field: Callable[..., Any], leaves: Sequence[Any], steps: Callable[..., Any], times_move: bool = False
) -> None:
    """Warn of a jump of a right-hand side along a solution, if its location moves.

    Args:
        name: the name of the user's function.
        field: takes a time, a state and inputs.
        leaves: the first state, times, and the inputs; they may be traced.
        steps: maps plain leaves to times of the solution, and the states at these times.
        times_move: whether these times depend on differentiated values, so that a constant location moves relative to
            them.
    """
    start, _, *inputs = leaves
    moving = tuple(map(is_moving, inputs))
    state_moves = is_moving(start) or any(moving)
    if not (state_moves or times_move) or is_looked_at(leaves):
        return
    switches = Switches(name, field, (times_move, state_moves, *moving), REMEDY)

    def of_one(leaves: Sequence[Any]) -> Sequence[Any]:
        switches.warn(list(steps(leaves)), leaves[2:])
        return []

    for_each_example(of_one, values_of(leaves))
