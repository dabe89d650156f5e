"""Measure programs with long loops: plain loops of Python and scans, by fgrad and by JAX.

    python benchmarks/loops.py [--only NAME] [--lengths small,medium,large] [--rounds N] [--patience SECONDS]
                               [--leave-out WAY] [--json FILE]

Five ways to run each program, with what a call takes and what the first call takes, which compiles:

    jitted scan      jax.jit of lax.scan, which the others are set beside
    eager loop       fgrad, operation by operation, of a loop of Python
    compiled loop    fg.compile of a loop of Python
    compiled scan    fg.compile of fg.scan
    jitted loop      jax.jit of a loop of Python

All results are compared before they are timed. What compiles runs alternately in one process and one thread, and the
fastest rounds count. What would compile for longer than `--patience` is left out, and the table says so: how long it
would take is told from shorter loops, of which two very short ones are compiled first.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from programs import Seconds, batch, geometric_mean, measure, ratio  # isort: skip  # it sets the number of threads

import kinds
import numpy as np
from kinds import SIZES, Library
from sequences import PROGRAMS, Looping, Program, plain

EAGER, COMPILED, COMPILED_SCAN = "eager loop", "compiled loop", "compiled scan"
JITTED_SCAN, JITTED = "jitted scan", "jitted loop"
WAYS = (JITTED_SCAN, EAGER, COMPILED, COMPILED_SCAN, JITTED)

PROBES = (3, 6)
"""Numbers of iterations which are compiled first, to tell how long more of them would take."""

COMPILE_ROUNDS, COMPILE_SECONDS = 3, 2.0
"""The fastest of so many first calls counts, as long as they take no more together."""


@dataclass(frozen=True)
class Way:
    """A way to run a program.

    Attributes:
        library: what differentiates, and compiles or does not.
        looping: how the program's loops run.
    """

    library: Library
    looping: Looping

    def candidate(self, program: Program, count: int) -> Callable[[], Any]:
        """Return what runs a program once; its first call compiles, and further calls do not."""
        function = self.library.finish(program.written(self.library, self.looping, count))
        prepared = self.library.prepare(program.data(count))
        return lambda: function(*prepared)


@dataclass
class Row:
    """What is known of a program in one length, by the names of ways.

    Attributes:
        seconds: what a call took in each round.
        first: what the first call took.
        left_out: why a way was not measured.
        different: the ways whose results were not those of the others.
    """

    seconds: Seconds = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    different: list[str] = field(default_factory=list)


def found_ways(leave_out: list[str]) -> tuple[dict[str, Way], dict[str, str]]:
    """Return the ways that can be gone here, and why others cannot."""
    ways, missing = {}, dict.fromkeys(leave_out, "--leave-out says so")
    for name in WAYS:
        package = {JITTED_SCAN: "jax", JITTED: "jax", EAGER: "fgrad"}.get(name, "llvmlite")
        if name not in missing and importlib.util.find_spec(package) is None:
            missing[name] = f"{package} is not installed"
        if name not in missing:
            ways[name] = way_of(name)
    return ways, missing


def way_of(name: str) -> Way:
    """Return a way by its name."""
    libraries = {EAGER: kinds.fgrad, JITTED_SCAN: kinds.CompiledJax, JITTED: kinds.CompiledJax}
    library = libraries.get(name, kinds.CompiledFgrad)()
    is_scan = name in (JITTED_SCAN, COMPILED_SCAN)
    return Way(library, library.scan if is_scan else plain(library.numpy))


# How long a first call takes, and would take


def first_call(way: Way, program: Program, count: int) -> tuple[float, Callable[[], Any]]:
    """Return the seconds of a first call, the fastest of some unless they are long; and what has been called."""
    seconds: list[float] = []
    while not seconds or (len(seconds) < COMPILE_ROUNDS and sum(seconds) + min(seconds) < COMPILE_SECONDS):
        candidate = way.candidate(program, count)
        seconds.append(batch(candidate, 1))
    return min(seconds), candidate


def predicted(known: dict[int, float], count: int) -> float:
    """Return how long a number of iterations would compile, by how the last two that are known differ.

    Example:
        >>> predicted({10: 1.0, 20: 2.0}, 100)
        10.0
    """
    (few, short), (many, long) = sorted(known.items())[-2:]
    # A power above 2 is that of a busy machine, and very short loops would tell hours.
    power = min(max(0.0, math.log(long / short) / math.log(many / few)), 2.0)
    return long * (count / many) ** power


class Compilations:
    """What is known of how long one program compiles, by way and number of iterations.

    Args:
        program: the one.
        patience: the seconds that a first call may take.
    """

    def __init__(self, program: Program, patience: float) -> None:
        self._program, self._patience = program, patience
        self._known: dict[str, dict[int, float]] = {}

    def run(self, name: str, way: Way, count: int) -> tuple[float, Callable[[], Any]] | str:
        """Return the seconds of a first call and what has been called, or why it would be too long."""
        if not way.library.compiles:
            return first_call(way, self._program, count)
        if name not in self._known:
            self._known[name] = {iterations: first_call(way, self._program, iterations)[0] for iterations in PROBES}
        known = self._known[name]
        expected = predicted(known, count)
        if expected > self._patience:
            longest = max(known)
            return (
                f"{longest} iterations compiled for {known[longest]:.1f} s, so {count} would take {expected:.0f} s "
                f"(--patience {self._patience:g})"
            )
        seconds, candidate = first_call(way, self._program, count)
        known[count] = seconds
        return seconds, candidate


# The table


def prepared(row: Row, ways: dict[str, Way], compilations: Compilations, program: Program, count: int) -> Any:
    """Return what can be timed, by way, after comparing all results; write into the row why others cannot."""
    candidates: dict[str, Callable[[], Any]] = {}
    expected = None
    for name, way in sorted(ways.items(), key=lambda item: item[0] != EAGER):  # the others are compared with it
        try:
            found = compilations.run(name, way, count)
            if isinstance(found, str):
                row.left_out[name] = found
                continue
            result = list(map(np.asarray, kinds.leaves(found[1]())))
            expected = result if expected is None else expected
            kinds.compare(result, expected, program.tolerance)
        except Exception as error:
            if isinstance(error, AssertionError):
                row.different.append(name)
            row.left_out[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            continue
        candidates[name] = found[1]
        if way.library.compiles:
            row.first[name] = found[0]
    return {name: candidates[name] for name in WAYS if name in candidates}


def in_turns(candidates: dict[str, Callable[[], Any]], rounds: int) -> Seconds:
    """Return the seconds of a call, by way and round; eager loops run last.

    They take some hundred times as long, and what they leave in the caches would be the next one's to clear.
    """
    quick = {name: candidate for name, candidate in candidates.items() if name != EAGER}
    slow = {name: candidate for name, candidate in candidates.items() if name == EAGER}
    return measure(quick, rounds) | measure(slow, rounds)


def reference_of(row: Row) -> str:
    """Return the way that the others are set beside: the first that was measured."""
    return next(name for name in WAYS if name in row.seconds)


def cell(row: Row, name: str) -> str:
    """Return what the table says of a way: time, or ratio of times, and first call."""
    if name not in row.seconds:
        return f"{'-':>11}{'':10}"
    fastest, reference = min(row.seconds[name]), reference_of(row)
    call = f"{fastest * 1e6:8.0f} us" if name == reference else f"{ratio(row.seconds, name, reference):9.2f} x"
    return call + (f"{row.first[name]:8.2f} s" if name in row.first else f"{'':10}")


def run_table(choice: argparse.Namespace) -> dict[str, Row]:
    """Measure all rows, print them, write them, and return them."""
    ways, missing = found_ways(choice.leave_out)
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} cores, one thread")
    for name, reason in missing.items():
        print(f"{name} is left out: {reason}")
    print(f"{'':32}" + "".join(f"{name:>21}" for name in WAYS))
    print(f"{'':32}" + f"{'a call':>11}{'first':>10}" * len(WAYS))
    rows: dict[str, Row] = {}
    for program in chosen(choice.only):
        compilations = Compilations(program, choice.patience)
        for size in choice.lengths:
            count = program.lengths[SIZES.index(size)]
            label = f"{program.name}, {count} iterations"
            row = rows[label] = Row(left_out=dict(missing))
            row.seconds = in_turns(prepared(row, ways, compilations, program, count), choice.rounds)
            report_row(label, row, missing)
            if choice.json:  # now, since the table takes long
                choice.json.write_text(json.dumps({name: asdict(each) for name, each in rows.items()}, indent=1))
    report_means(rows)
    return rows


def report_row(label: str, row: Row, missing: dict[str, str]) -> None:
    """Print the line of a row, and why it has gaps."""
    print(f"{label:32}" + "".join(cell(row, name) for name in WAYS), flush=True)
    for name, reason in row.left_out.items():
        if name not in missing:
            print(f"    {name} is left out: {reason}", flush=True)


def report_means(rows: dict[str, Row]) -> None:
    """Print each way's geometric means, over the rows that have it beside the jitted scan."""
    for name in WAYS:
        both = [row for row in rows.values() if name in row.seconds and JITTED_SCAN in row.seconds]
        if both and name != JITTED_SCAN:
            call = geometric_mean([ratio(row.seconds, name, JITTED_SCAN) for row in both])
            print(f"{name:16}{call:8.2f} x {JITTED_SCAN} over {len(both)} rows", end="")
            firsts = [row.first[name] / row.first[JITTED_SCAN] for row in both if name in row.first]
            print(f"; first call {geometric_mean(firsts):.2f} x" if firsts else "")


def chosen(only: str) -> list[Program]:
    """Return the programs whose name contains a text."""
    return [program for name, program in PROGRAMS.items() if only.lower() in name.lower()]


def some_lengths(text: str) -> list[str]:
    """Return names of lengths, which are separated by commas."""
    names = text.split(",")
    if not set(names) <= set(SIZES):
        raise argparse.ArgumentTypeError(f"{text!r} is not some of {', '.join(SIZES)}, separated by commas")
    return names


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", default="", help="only programs whose name contains this")
    parser.add_argument("--lengths", type=some_lengths, default=list(SIZES), help="some of small,medium,large")
    parser.add_argument("--rounds", type=int, default=10, help="how often each candidate is timed")
    parser.add_argument("--patience", metavar="SECONDS", type=float, default=30.0, help="for what compiles")
    parser.add_argument("--leave-out", metavar="WAY", action="append", default=[], choices=WAYS, help=", ".join(WAYS))
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the raw figures, row by row")
    choice = parser.parse_args()
    if not chosen(choice.only):
        parser.error(f"no program's name contains {choice.only!r}; there are " + "; ".join(PROGRAMS))
    if len(set(choice.leave_out)) == len(WAYS):
        parser.error("--leave-out names all ways")
    rows = run_table(choice)
    wrong = [f"{label}: {name}" for label, row in rows.items() for name in row.different]
    if wrong:
        raise SystemExit("these results were not those of the others:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
