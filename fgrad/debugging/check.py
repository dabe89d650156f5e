"""Checks of the derivatives of a function at a point: a report for the user.

    check(f, *args)      value, both modes, finite differences with their error, kinks and cuts near the point

Finite differences are extrapolated to step 0 from several step sizes, which gives an estimate of their error (Ridders,
https://doi.org/10.1016/S0141-1195(82)80057-0).
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fgrad import errors
from fgrad.core.coerce import collected
from fgrad.core.primitive import BOXES, Primitive
from fgrad.core.tensor import Tensor, box
from fgrad.core.trace import UNTRACED
from fgrad.core.tree import flatten, paths, tree_map, unflatten
from fgrad.debugging.explain import explain
from fgrad.debugging.notes import Note, noting, raising_nothing
from fgrad.debugging.reports import Reason, bullets, html_of, shown
from fgrad.graphs.equations import kind_of
from fgrad.ops.kinks import DISTANCES
from fgrad.ops.tracing import raw_array
from fgrad.tapes.accumulator import ForwardAccumulator, tangent_of
from fgrad.tapes.tape import GradientTape, gradient_of
from fgrad.transforms.calls import Selection, check_point, name_of, place_name, select
from fgrad.transforms.cuts import STOP
from fgrad.transforms.linearization import differentiable
from fgrad.transforms.reverse import vjp
from fgrad.transforms.running import check_result

_SMALL = 6
"""The size up to which each element of an array is checked; for larger ones a few directions are."""
_DIRECTIONS = 3
_NEAR = 1e-4
_MOST_REASONS = 5
_PRECISION = {"f": 1e-3, "F": 1e-3, "e": 1e-1}
"""The relative tolerance of derivatives, by the dtype of the argument; 1e-6 for other dtypes."""


class Derivative(NamedTuple):
    """The derivative along one direction, computed in three ways.

    Attributes:
        where: the element, or the direction, along which an argument changes.
        forward, reverse: the derivative by the two modes.
        numeric: the derivative by finite differences.
        error: the estimated error of the differences.
        agrees: whether all three agree.
        kink: whether the function has another slope, or no value, on the other side of the point.
        unsure: whether the differences are inconclusive, because rounding of the value hides the derivative.
    """

    where: str
    forward: float
    reverse: float
    numeric: float
    error: float
    agrees: bool
    kink: bool
    unsure: bool = False

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a row of the report."""
        verdict = "kink" if self.kink else "cannot tell" if self.unsure else "agree" if self.agrees else "DISAGREE"
        numbers = (f"{x:.10g}" for x in (self.forward, self.reverse, self.numeric))
        return (self.where, *numbers, f"{self.error:.1g}", verdict)


@dataclass(frozen=True, eq=False, repr=False)
class CheckReport:
    """The results of `check`; printed, it is a readable report.

    Attributes:
        name: the name of the function.
        value: its result.
        derivatives: the derivatives along each element or direction.
        dtypes: the dtypes of each argument and its gradient, and of the results.
        kinks: operations with a kink or a jump close to the point.
        cuts: exits where a derivative is lost, such as `.item()`.
        problems: other problems, the worst first, such as a value that differs from that on plain arrays.
    """

    name: str
    value: Any
    derivatives: tuple[Derivative, ...]
    dtypes: tuple[str, ...]
    kinks: tuple[Reason, ...]
    cuts: tuple[Reason, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether all derivatives agree, the point is not on a kink, and there is no other problem."""
        return not self.problems and all(each.agrees and not each.kink for each in self.derivatives)

    def verdict(self) -> str:
        """Return the result in one line."""
        if self.ok:
            return "All derivatives agree."
        wrong = [each.where for each in self.derivatives if not (each.agrees or each.kink or each.unsure)]
        kinks = [each.where for each in self.derivatives if each.kink]
        unsure = [each.where for each in self.derivatives if each.unsure and not each.kink]
        parts = [*self.problems]
        if wrong:
            parts.append(f"Derivatives disagree: {', '.join(wrong)}.")
        if kinks:
            parts.append(f"The point is on a kink, where there is no derivative: {', '.join(kinks)}.")
        if unsure:
            parts.append(f"Differences are inconclusive, since rounding of the value hides them: {', '.join(unsure)}.")
        return " ".join(parts)

    def _rows(self) -> list[tuple[str, ...]]:
        return [("", "forward", "reverse", "differences", "error", ""), *(each.cells() for each in self.derivatives)]

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        table = "".join(f"\n  {line}" for line in lines) if self.derivatives else ""
        kinks = f"\nkinks{bullets(self.kinks)}" if self.kinks else ""
        cuts = f"\ncuts{bullets(self.cuts)}" if self.cuts else ""
        dtypes = "".join(f"\n  {line}" for line in self.dtypes)
        return f"check of {self.name}: {self.verdict()}{dtypes}{table}{kinks}{cuts}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title = f"check of {self.name}: {self.verdict()}"
        return html_of(title, (*self.kinks, *self.cuts), self._rows(), "; ".join(self.dtypes))


def check(
    function: Callable[..., Any], /, *args: object, argnums: Selection = None, order: int = 1, **keywords: object
) -> CheckReport:
    """Return a report on whether the derivatives of a function at a point are correct.

    The value must equal that of the function for plain arrays, if it accepts them. Forward and reverse mode are
    compared with each other and with finite differences, whose own error is estimated. Arguments with few elements are
    checked element by element, others along some random directions. Results that are not a single number are reduced by
    a random weighted sum. If derivatives disagree, the report gives the reason if it is a kink at the point or a value
    that has left the trace.

    Args:
        function: takes and returns numbers, arrays or containers of them. It is called many times.
        args: the point; double precision gives the most conclusive results.
        argnums: position or name of the arguments to check, or several; by default all positional arguments.
        order: the highest order of derivative. For orders above 1 the derivative along random directions is checked in
            the same way, in forward over reverse and reverse over reverse mode.
        keywords: keyword arguments of the function.

    Returns:
        A `CheckReport`, which prints as a text, and whose `ok` is a boolean.

    Raises:
        IntegerInputError: a TypeError; no argument is a floating-point or complex number.
        ParameterError, NoResultError, OutputError: as for `grad`.
        NotCallableError: a TypeError; `function` is not a function.

    Example:
        >>> report = check(lambda x: x * np.sin(x), 0.5)
        >>> report.ok
        True
        >>> print(check(lambda x: np.abs(x), 0.0).verdict())
        The point is on a kink, where there is no derivative: x.
    """
    if not callable(function) or type(function) in BOXES:
        raise errors.NotCallableError(
            f"check takes a function, not {function!r:.200} of type {type(function).__name__}.\n"
            "Pass the function itself and then its arguments: check(f, x), not check(f(x))."
        )
    check_point("check", function, args, keywords)
    with raising_nothing(), np.errstate(all="ignore"):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", errors.MovingStepWarning)
            report = _Check(_Call(function, args, keywords, argnums)).report(order)
        return replace(report, problems=(*report.problems, *_moving_steps(told)))


def _moving_steps(told: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    """Collect the messages of MovingStepWarnings; re-issue all other warnings."""
    steps = dict.fromkeys(str(each.message) for each in told if isinstance(each.message, errors.MovingStepWarning))
    for each in told:
        if not isinstance(each.message, errors.MovingStepWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno, source=each.source)
    return tuple(step[:1].upper() + step[1:] for step in steps)


class _Call:
    """A function of those arrays among its arguments that are checked.

    Attributes:
        function: the user's function.
        points: the arrays, in the dtypes of the arguments.
        names: their names in the report.
        order: the order of the derivatives to check.
    """

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], argnums: Selection
    ) -> None:
        self.function = function
        places, keywords = select(function, argnums, args, keywords)
        self._args, self._keywords = list(args), dict(keywords)
        self._leaves: list[tuple[int | str, Any, list[Any], list[int]]] = []
        self.points: list[Any] = []
        self.names: list[str] = []
        self.order = 1
        for place in dict.fromkeys(places):
            holder: Any = self._args if isinstance(place, int) else self._keywords
            leaves, treedef = flatten(holder[place])
            values = [differentiable(leaf) for leaf in leaves]
            checked = [i for i, value in enumerate(values) if value is not None]
            self._leaves.append((place, treedef, leaves, checked))
            self.points += [np.asarray(values[i]) for i in checked]
            name = place_name(function, place)
            name = name[1:-1] if name[0] == "'" else f"argument {name}"
            names = [name + path for path in paths(holder[place])]
            self.names += [names[i] for i in checked]
        if not self.points:
            raise errors.IntegerInputError(
                f"check of {name_of(function)}: none of the arguments is a floating-point or complex number.\n"
                "Derivatives need floating-point numbers: pass 3.0 instead of 3."
            )

    def plain(self) -> Any:
        """Call the function with plain copies of its tensors and arrays."""
        args, keywords = tree_map(_plain_copy, self._arguments([np.array(point)[()] for point in self.points]))
        return self.function(*args, **keywords)

    def __call__(self, *points: Any) -> Any:
        """Call the function with other arrays in place of its points, as tensors."""
        args, keywords = self._arguments(
            [point if type(point) in BOXES else box(np.asarray(point)[()], UNTRACED, None) for point in points]
        )
        return self.function(*args, **keywords)

    def _arguments(self, points: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of the function, with others in place of its points."""
        args, keywords, rest = list(self._args), dict(self._keywords), iter(points)
        for place, treedef, leaves, checked in self._leaves:
            leaves = [next(rest) if i in checked else leaf for i, leaf in enumerate(leaves)]
            holder: Any = args if isinstance(place, int) else keywords
            holder[place] = unflatten(treedef, leaves)
        return args, keywords


def _plain_copy(leaf: object) -> Any:
    if type(leaf) is Tensor:
        return leaf.numpy()
    return leaf.copy() if type(leaf) is np.ndarray else leaf


class _Slope:
    """The derivative of a call along fixed directions, as a call at the same points."""

    def __init__(self, call: _Call | _Slope, weights: list[Any], directions: list[Any]) -> None:
        self.function: Any = call.function
        self.points: list[Any] = call.points
        self.names: list[str] = call.names
        self.order: int = call.order + 1
        self._call, self._weights, self._directions = call, weights, directions

    def __call__(self, *points: Any) -> Any:
        """Return the directional derivative at other points."""
        _, pullback = vjp(lambda *points: _floats(self._call(*points)), *points)
        pairs = zip(self._directions, pullback(self._weights), strict=True)
        return sum((np.sum(np.real(np.conjugate(d) * gradient)) for d, gradient in pairs), np.zeros(()))


def _floats(result: Any) -> list[Any]:
    """Return the results of floating-point or complex dtype, tensors or not."""
    return [leaf for leaf in flatten(result)[0] if np.asarray(raw_array(leaf)).dtype.kind in "fc"]


def _epsilon(arrays: Sequence[Any]) -> float:
    """Return the relative rounding error of numbers."""
    return max((float(np.finfo(x.dtype).eps) for x in arrays if x.dtype.kind in "fc"), default=0.0)


def _plain(leaves: Sequence[Any]) -> list[Any]:
    return [np.asarray(raw_array(leaf)) for leaf in leaves]


def _inner(a: Sequence[Any], b: Sequence[Any]) -> float:
    return float(sum(np.sum(np.real(np.conjugate(x) * y)) for x, y in zip(a, b, strict=True)))


class _Check:
    """One check of a call at its points.

    Attributes:
        call: the function of its points.
        value: its result.
    """

    def __init__(self, call: _Call | _Slope) -> None:
        self.call = call
        self._rng = np.random.default_rng(0)
        self._near: dict[tuple[str, str], tuple[float, Reason]] = {}
        self._tape = GradientTape()
        self._epsilon = 0.0
        tensors = [box(point[()], UNTRACED, None) for point in call.points]
        with noting(look=self._look_for_kink), self._tape:
            self._tape.watch(tensors)
            self._sources = [copy.copy(tensor) for tensor in tensors]
            self.value = tree_map(collected, call(*tensors))  # here, where the tape records it
        check_result(call.function, self.value, flatten(self.value)[0])
        results = _plain(_floats(self.value))
        alone = sum(x.size for x in results) == 1
        self._weights = [np.ones_like(x) if alone else self._random(x) for x in results]

    def _random(self, like: Any) -> Any:
        real = self._rng.standard_normal(like.shape)
        if like.dtype.kind == "c":
            return (real + 1j * self._rng.standard_normal(like.shape)).astype(like.dtype)
        return real.astype(like.dtype)

    def report(self, order: int) -> CheckReport:
        """Compute and return the report."""
        cuts = self._cuts()
        gradients = self._gradients()
        rows = self._derivatives(gradients, order)
        kinks = sorted(self._near.values(), key=lambda found: found[0])
        return CheckReport(
            name_of(self.call.function),
            self.value,
            tuple(rows),
            tuple(self._dtypes(gradients)),
            tuple(reason for _, reason in kinks[:_MOST_REASONS]),
            tuple(cuts[:_MOST_REASONS]),
            tuple(self._problems(gradients)),
        )

    def _derivatives(self, gradients: list[Any], order: int) -> list[Derivative]:
        rows = [self._derivative(gradients, *each) for each in self._directions()] if self._is_steady() else []
        if order > 1 and rows and all(row.agrees and not row.kink for row in rows):
            slope = _Check(_Slope(self.call, self._weights, [self._random(x) for x in self.call.points]))
            rows += slope._derivatives(slope._gradients(), order - 1)
        return rows

    # Derivatives by three methods

    def _with_weights(self, result: Any) -> tuple[list[Any], list[Any]]:
        """Return the results that are tensors, and their weights; plain results are constants."""
        pairs = [pair for pair in zip(_floats(result), self._weights, strict=True) if type(pair[0]) in BOXES]
        return [leaf for leaf, _ in pairs], [weight for _, weight in pairs]

    def _cuts(self) -> list[Reason]:
        targets, _ = self._with_weights(self.value)
        found = explain(self._tape, targets, self._sources)
        return list(dict.fromkeys(reason for each in found for reason in each.reasons if reason.kind in _CUTS))

    def _gradients(self) -> list[Any]:
        targets, weights = self._with_weights(self.value)
        return _plain(gradient_of(self._tape, targets, self._sources, weights, "zero"))

    def _tangent(self, direction: list[Any]) -> float:
        """Return the directional derivative by forward mode."""
        tensors = [box(point[()], UNTRACED, None) for point in self.call.points]
        with ForwardAccumulator(tensors, direction) as accumulator:
            result = self.call(*tensors)
            targets, weights = self._with_weights(result)
        return _inner(weights, _plain(tangent_of(accumulator, targets, "zero")))

    def _moved(self, direction: list[Any], step: float) -> float:
        """Return the weighted sum of the results at a distance from the points, in double precision."""
        points = [np.asarray(x, np.result_type(x, np.float64)) for x in self.call.points]
        moved = [x + step * t for x, t in zip(points, direction, strict=True)]
        results = _plain(_floats(self.call(*moved)))
        self._epsilon = _epsilon(results)
        return _inner(self._weights, results)

    def _directions(self) -> Iterator[tuple[str, list[Any], float, str]]:
        """Yield the name of a direction, the direction, the size of numbers along it, and their dtype."""
        zeros = [np.zeros_like(x) for x in self.call.points]
        order = f"order {self.call.order}: " if self.call.order > 1 else ""
        for place, (name, x) in enumerate(zip(self.call.names, self.call.points, strict=True)):
            moves = _elements(name, x) if x.size <= _SMALL else self._at_random(name, x)
            for label, move in moves:
                size = np.max(np.abs(x[move != 0]), initial=0) or np.max(np.abs(x), initial=0) or 1.0
                yield order + label, [*zeros[:place], move, *zeros[place + 1 :]], float(size), x.dtype.char

    def _at_random(self, name: str, x: Any) -> Iterator[tuple[str, Any]]:
        for number in range(_DIRECTIONS):
            move = self._random(x)
            yield f"{name}, random direction {number}", move / np.max(np.abs(move))

    def _derivative(self, gradients: list[Any], label: str, move: list[Any], size: float, dtype: str) -> Derivative:
        def moved(step: float) -> float:
            return self._moved(move, step)

        forward, reverse = self._tangent(move), _inner(gradients, move)
        here, first = moved(0.0), _FIRST_STEP * size
        numeric, error = _extrapolated(moved, first, self._epsilon)
        slope, epsilon = max(abs(forward), abs(reverse)), float(np.finfo(dtype).eps)
        rounding = epsilon * abs(here) / size
        tolerance = _PRECISION.get(dtype, 1e-6) * slope + rounding
        # Both are rounded separately: if one is exactly 0, as after a cancellation, the other need not be.
        agrees = abs(forward - reverse) <= tolerance + rounding and abs(forward - numeric) <= tolerance + 10 * error
        # A slope that is small compared with the changes of the function, as near a minimum, counts as one of their
        # size.
        seen = max(slope, abs(moved(first) - here) / first, abs(here - moved(-first)) / first)
        unsure = agrees and slope > 10 * epsilon * min(1, abs(here) / size) and rounding + 10 * error > 0.1 * seen
        kink = _is_kink(moved, size)
        return Derivative(label, forward, reverse, numeric, error, bool(agrees and not unsure), kink, bool(unsure))

    # Further checks

    def _is_steady(self) -> bool:
        """Return whether the function gives the same value again."""
        still = [np.zeros_like(x) for x in self.call.points]
        return bool(np.array_equal(self._moved(still, 0.0), self._moved(still, 0.0), equal_nan=True))

    def _dtypes(self, gradients: list[Any]) -> Iterator[str]:
        for name, x, gradient in zip(self.call.names, self.call.points, gradients, strict=True):
            yield f"{name}: {kind_of(x)}, gradient {kind_of(gradient)}"
        yield f"value: {', '.join(f'{shown(x)} ({kind_of(x)})' for x in _plain(flatten(self.value)[0]))}"

    def _problems(self, gradients: list[Any]) -> Iterator[str]:
        if not self._is_steady():
            yield "The function gives another value in each call: it is random, or has state."
        else:
            yield from self._other_values(gradients)
        if not all(np.isfinite(x).all() for x in _plain(_floats(self.value))):
            yield "The value is not finite."

    def _other_values(self, gradients: list[Any]) -> Iterator[str]:
        """Yield a message if the value differs from that of the function on plain arrays."""
        if isinstance(self.call, _Slope):
            return
        try:
            expected = _plain(flatten(self.call.plain())[0])
        except Exception:  # it needs tensors: there is nothing to compare with
            return
        found = _plain(flatten(self.value)[0])
        points = self.call.points
        epsilon = _epsilon([*points, *found])
        share = sum(float(np.sum(np.abs(g * x))) for g, x in zip(gradients, points, strict=True))
        slack = 1e3 * epsilon * share if math.isfinite(share) else 0.0  # values may be rounded differently
        if len(found) != len(expected) or not all(map(partial(_is_same, epsilon, slack), found, expected)):
            texts = (", ".join(map(shown, each)) for each in (found, expected))
            yield "The value with tensors is {}, but with plain arrays it is {}.".format(*texts)

    def _look_for_kink(self, primitive: Primitive, note: Note, metadata: Mapping[str, Any]) -> None:
        """Remember an operation with a kink or a jump close to its arguments."""
        measure = DISTANCES.get(primitive)
        if measure is None or not any(getattr(np.asarray(x), "dtype", None) in _REAL for x in note.args):
            return
        distance = measure(metadata, *map(np.asarray, note.args))
        key = note.operation, note.line
        if distance <= _NEAR and distance < self._near.get(key, (math.inf,))[0]:
            how = "on" if distance == 0 else f"{distance:.1g} away from"
            text = f"The arguments of {note.operation} are {how} a point where its slope or its value is discontinuous."
            self._near[key] = distance, Reason("kink", text, *key, note.values())


def _is_same(epsilon: float, slack: float, found: Any, expected: Any) -> bool:
    if found.dtype.kind not in "biufc" or found.shape != expected.shape:
        return bool(found.shape == expected.shape)
    return np.allclose(found, expected, rtol=math.sqrt(epsilon), atol=slack, equal_nan=True)


def _elements(name: str, x: Any) -> Iterator[tuple[str, Any]]:
    """Yield a direction for each element, and for the imaginary part of complex ones."""
    for index in np.ndindex(x.shape):
        label = name + (f"[{', '.join(map(str, index))}]" if index else "")
        for unit, suffix in ((1, ""), (1j, ", imaginary part")) if x.dtype.kind == "c" else ((1, ""),):
            move = np.zeros_like(x)
            move[index] = unit
            yield label + suffix, move


_FIRST_STEP = 0.05
_STEPS = 9
_SMALLER = 4


def _extrapolated(moved: Callable[[float], float], step: float, epsilon: float = 2.0**-52) -> tuple[float, float]:
    """Return the derivative at 0 by central differences, extrapolated to step 0, and its estimated error."""
    best, error = math.nan, math.inf
    rows: list[list[float]] = []
    for _ in range(_STEPS):
        ahead, behind = moved(step), moved(-step)
        rounding = 2 * epsilon * max(abs(ahead), abs(behind)) / step
        row = [(ahead - behind) / (2 * step)]
        for place, coarser in enumerate(rows[-1] if rows else []):
            factor = float(_SMALLER) ** (2 * place + 2)  # the error of differences is a series of even powers
            row.append((factor * row[place] - coarser) / (factor - 1))
            spread = max(abs(row[-1] - row[-2]), abs(row[-1] - coarser)) + rounding
            if spread <= error:
                best, error = row[-1], spread
        rows.append(row)
        step /= _SMALLER
    return best, error


def _is_kink(moved: Callable[[float], float], size: float) -> bool:
    """Return whether the slopes on both sides of a point differ, however close to it."""
    here = moved(0.0)

    def jump(step: float) -> tuple[float, float]:
        ahead, behind = (moved(step) - here) / step, (here - moved(-step)) / step
        return abs(ahead - behind), max(abs(ahead), abs(behind))

    (wide, _), (close, slope) = jump(1e-6 * size), jump(2.5e-7 * size)
    if not math.isfinite(here):
        return False
    if not math.isfinite(close):
        return True  # there is no value on one side
    return close > 0.5 * wide and close > 1e-4 * slope and close > 1e-7 * abs(here) / size


_REAL = {np.dtype(name) for name in ("float16", "float32", "float64")}
_CUTS = {
    "cut", STOP, "storing it in a variable", "comparison", "rounding", "position", "integers", "constant",
}  # fmt: skip
"""The kinds of reasons for a missing derivative."""
