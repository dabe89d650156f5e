"""Family `transforms`: random stacks of transforms over random functions of three numbers.

A program is a function `f0`, an expression in NumPy's operations, and functions `f1`, `f2` ... of which each applies a
transform of fgrad to the one before and makes one number of it. What the last one gives must be what the same program
gives in numbers with infinitesimals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

import fgrad as fg
from fgrad import errors
from fuzz import stages
from fuzz.case import REFUSED, RIGHT, UNDECIDED, WRONG, Outcome
from fuzz.expressions import PREAMBLE, expression
from fuzz.infinitesimals import Number

BIGGEST = 1e8
"""Larger results are not compared: the program has run away."""
DIGITS = 40


@dataclass(frozen=True)
class Program:
    """A program as text, and what judges it.

    Attributes:
        text: defines functions, of which the last has the given name.
        name: of the function.
        judge: the same function, of numbers with infinitesimals.
        x: where it is called.
    """

    text: str
    name: str
    judge: Callable[[Sequence[Number]], Number]
    x: list[float]

    def replay(self) -> str:
        """Return the program as a file that prints its result."""
        return f"{self.text}\nprint({self.name}(fg.constant({self.x!r})))"

    def function(self) -> Callable[[Any], Any]:
        """Return the function, compiled."""
        names: dict[str, Any] = {}
        exec(compile(self.text, "<program>", "exec"), names)
        return names[self.name]  # type: ignore[no-any-return]


def drawn(rng: np.random.Generator, depth: int | None = None) -> Program:
    """Return a random program, with so many stages or fewer."""
    source, judge = expression(rng)
    text, name, work, order = f"{PREAMBLE}\n\ndef f0(x):\n    return {source}\n", "f0", 1, 0
    for place in range(1, (int(rng.integers(2, 6)) if depth is None else depth) + 1):
        stage = stages.STAGES[rng.integers(len(stages.STAGES))]
        if work * stage.work > 60 or order + stage.order > 6:
            continue
        v, u = (rng.uniform(-1, 1, 3).round(2).tolist() for _ in range(2))
        new = f"f{place}"
        text += "\n" + stage.source.format(f=name, g=new, v=f"np.array({v})", u=f"np.array({u})")
        judge, name, work, order = stage.judge(judge, v, u), new, work * stage.work, order + stage.order
    # Ties have derivatives by choice, and so has 0, where sizes and sines tie.
    sizes = rng.permutation(np.linspace(0.1, 1.2, 3)) + rng.uniform(-0.2, 0.2, 3).round(2).clip(min=0.0)
    x = sizes.round(2) * rng.choice([-1, 1], 3)
    return Program(text, name, judge, x.tolist())


def run(seed: int) -> Outcome:
    """Return what comes of the program that a seed says."""
    program = drawn(np.random.default_rng(seed))
    try:
        expected = float(program.judge([Number({0: x}) for x in program.x]).real)
    except (OverflowError, ZeroDivisionError, ValueError) as error:
        return Outcome(UNDECIDED, program.replay(), f"the judge: {error}")
    if not abs(expected) < BIGGEST:
        return Outcome(UNDECIDED, program.replay(), "the judge's result is too large")
    try:
        found = program.function()(fg.constant(program.x))
        problem = fault(program, found, expected)
    except errors.FgradError as error:
        return Outcome(REFUSED, program.replay(), f"{type(error).__name__}: {error}")
    except Exception as error:
        return Outcome(WRONG, program.replay(), f"{type(error).__name__}: {error}")
    return Outcome(WRONG if problem else RIGHT, program.replay(), problem)


def fault(program: Program, found: Any, expected: float) -> str:
    """Return what is wrong with a result, or nothing.

    How much rounding may do is found by running the program with many digits: what the judge itself loses in double
    precision, fgrad may lose some hundred times.
    """
    if np.shape(found) or np.asarray(found).dtype != np.float64:
        return f"the result is {found!r}, not one number of double precision"
    if math.isclose(float(found), expected, rel_tol=1e-10, abs_tol=1e-12):
        return ""
    with mp.workdps(DIGITS):
        exact = program.judge([Number({0: mp.mpf(x)}) for x in program.x]).real
        lost = float(abs(exact - expected))
        if abs(float(found) - float(exact)) <= 300 * lost + 1e-8 * abs(float(exact)) + 1e-11:
            return ""
        return f"the result is {float(found)!r}, not {float(exact)!r}"
