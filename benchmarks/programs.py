"""Measure seventeen kinds of program in three sizes, as ratios to derivatives written by hand in NumPy.

    python benchmarks/programs.py [--rounds N] [--only NAME] [--json FILE]
    python benchmarks/programs.py --against PATH [--rounds N] [--only NAME]
    python benchmarks/programs.py --compare BEFORE.json AFTER.json
    python benchmarks/programs.py --compiling [--rounds N] [--only NAME]

Every result is compared with the one by hand before it is timed. Candidates run alternately, and ratios are those of
the fastest rounds. Memory is the peak of one derivative, measured apart from the times. fgrad's compiled programs and
other libraries are measured too where what they need is installed; what compiles is not asked for long loops in Python.

There are two yardsticks. By hand, the algebra was done on paper, so a ratio to it says how many operations automatic
differentiation needs, and at once what a library costs beside them. `written` is the derivative written out operation
by operation, as fgrad records it, without a library, and tells the latter alone, as far as `kinds/transcript.py` says.

`--against` runs another checkout of fgrad in turns with the one that is imported here, round by round, each in a
process of its own, so that what else the machine does meets both. `--compare` sets two files beside each other: the
ratios to by hand, since the files may come from different hours. `--compiling` measures what compiled programs take
before they run and besides their arguments: the first call, and the memory for results and on the way, as `inspect` and
JAX's `memory_analysis` report it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # read when NumPy is imported
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import kinds
import numpy as np
from kinds import KINDS, SIZES, Kind, Library

HAND, WRITTEN, OURS = "by hand", "written", "fgrad"
CLOCK = time.perf_counter
"""Not the time of this process: what JAX's threads have done is added to that only some while later."""

BATCH_SECONDS = 0.005
LONGEST = 1.0
"""Seconds that one candidate may take in all its rounds together, once it has had three."""

Clock = Callable[[], float]
Seconds = dict[str, list[float]]
"""By candidate, what a call took in each round."""


def repeats(candidate: Callable[[], Any], clock: Clock = CLOCK) -> int:
    """Return how many calls make a batch that a clock can tell."""
    candidate()
    return max(1, round(BATCH_SECONDS / max(batch(candidate, 1, clock), 1e-9)))


def batch(candidate: Callable[[], Any], count: int, clock: Clock = CLOCK) -> float:
    """Return the seconds of one call, in a batch of them."""
    start = clock()
    for _ in range(count):
        candidate()
    return (clock() - start) / count


def measure(candidates: dict[str, Callable[[], Any]], rounds: int, clock: Clock = CLOCK) -> Seconds:
    """Return the seconds that one call takes, by candidate and round; slow ones have fewer rounds."""
    counts = {name: repeats(candidate, clock) for name, candidate in candidates.items()}
    seconds: Seconds = {name: [] for name in candidates}
    for iteration in range(rounds):
        for name, candidate in candidates.items():
            if iteration < 3 or sum(seconds[name]) * counts[name] < LONGEST:
                seconds[name].append(batch(candidate, counts[name], clock))
    return seconds


def peak(candidate: Callable[[], Any]) -> int:
    """Return the most bytes that a call holds at once."""
    tracemalloc.start()
    try:
        candidate()
        start = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        candidate()
        return tracemalloc.get_traced_memory()[1] - start
    finally:
        tracemalloc.stop()


def rows(only: str) -> Iterator[tuple[Kind, str]]:
    """Yield the kinds whose name contains a text, in each size."""
    for name, kind in KINDS.items():
        if only.lower() in name.lower():
            for size in SIZES:
                yield kind, size


def checked_candidates(kind: Kind, size: str, libraries: list[Library]) -> dict[str, Callable[[], Any]]:
    """Return what computes a derivative, by name, after comparing all with the one by hand."""
    args = kind.arguments(size)
    candidates: dict[str, Callable[[], Any]] = {HAND: lambda: kind.by_hand(*args)}
    for library in libraries:
        if kind.suits(library, size):
            try:
                kind.check(library, args)
            except Exception as error:
                if library.name == OURS:
                    raise
                print(f"  {library.name} is left out: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
                continue
            candidates[library.name] = kind.candidate(library, args)
    return candidates


def ratio(seconds: Seconds, name: str, reference: str = HAND) -> float:
    """Return how many times the reference a candidate takes."""
    return min(seconds[name]) / min(seconds[reference])


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def mean_ratio(rows: list[Seconds], name: str, reference: str = HAND) -> float:
    """Return the geometric mean of a candidate's ratios in some rows."""
    return geometric_mean([ratio(seconds, name, reference) for seconds in rows])


def label(kind: Kind, size: str) -> str:
    """Return the name of a row."""
    return f"{kind.name}, {size}"


# The table


def run_table(rounds: int, only: str) -> dict[str, Any]:
    """Measure all rows, print them, and return the raw figures."""
    libraries = [kinds.fgrad(), kinds.written(), *kinds.compiled(), *kinds.installed_peers()]
    names = [library.name for library in libraries]
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} cores; by hand, and over that")
    print(f"{'':40}{'by hand':>11}" + "".join(f"{name:>10}" for name in names) + f"{'memory':>10}")
    figures: dict[str, Any] = {}
    for kind, size in rows(only):
        candidates = checked_candidates(kind, size, libraries)
        seconds = measure(candidates, rounds)
        memory = {name: peak(candidates[name]) for name in (HAND, OURS)}
        figures[label(kind, size)] = {"seconds": seconds, "peak": memory}
        cells = [f"{ratio(seconds, name):8.2f} x" if name in seconds else f"{'':10}" for name in names]
        times = f"{min(seconds[HAND]) * 1e6:8.0f} us" + "".join(cells)
        print(f"{label(kind, size):40}{times}{memory[OURS] / memory[HAND]:8.2f} x", flush=True)
    report_means(figures, names)
    return figures


def report_means(figures: dict[str, Any], names: list[str]) -> None:
    """Print each candidate's geometric means, over by hand and over written out, and where fgrad is slowest."""
    rows = {name: row["seconds"] for name, row in figures.items()}
    print("\ngeometric means of the ratios to by hand")
    for name in names:
        shared = [seconds for seconds in rows.values() if name in seconds]
        if shared:
            beside = "" if name == OURS else f"; fgrad over the same rows {mean_ratio(shared, OURS):.2f} x"
            print(f"    {name:12}{mean_ratio(shared, name):8.2f} x over {len(shared)} rows{beside}")
    memory = [row["peak"][OURS] / row["peak"][HAND] for row in figures.values()]
    print(f"    {'memory':12}{geometric_mean(memory):8.2f} x over {len(memory)} rows")
    written = {row: seconds for row, seconds in rows.items() if WRITTEN in seconds}
    if written:
        print("    over written out: " + "; ".join(means_over_written(written.values(), names)))
    report_furthest("furthest behind", rows, HAND)
    report_furthest("furthest behind written out", written, WRITTEN)


def means_over_written(rows: Collection[Seconds], names: list[str]) -> Iterator[str]:
    """Yield each candidate's geometric mean over what is written out, and over how many rows that is."""
    for name in names:
        shared = [seconds for seconds in rows if name in seconds]
        if shared and name != WRITTEN:
            yield f"{name} {mean_ratio(shared, name, WRITTEN):.2f} x ({len(shared)} rows)"


def report_furthest(title: str, rows: dict[str, Seconds], reference: str) -> None:
    """Print the three rows in which fgrad takes longest over a reference."""
    ratios = {row: ratio(seconds, OURS, reference) for row, seconds in rows.items()}
    print(f"\n{title}")
    for row in sorted(ratios, key=lambda row: -ratios[row])[:3]:
        print(f"    {row:40}{ratios[row]:8.2f} x")


def compare_files(before: Path, after: Path) -> None:
    """Print the ratios after over before, each of fgrad's time over the time by hand, and of its memory."""
    olds, news = (json.loads(path.read_text()) for path in (before, after))
    changes = []
    print(f"{'':40}{'before':>10}{'after':>10}{'after/before':>15}{'memory':>10}")
    for name in olds:
        if name in news:
            old, new = (ratio(each[name]["seconds"], OURS) for each in (olds, news))
            memory = news[name]["peak"][OURS] / olds[name]["peak"][OURS]
            changes.append(new / old)
            print(f"{name:40}{old:8.2f} x{new:8.2f} x{new / old:15.3f}{memory:10.3f}")
    print(f"{'geometric mean':60}{geometric_mean(changes):15.3f}")


# What compiling takes


def first_call(kind: Kind, library: Library, args: tuple[Any, ...]) -> float:
    """Return the seconds of the first call of a function that was not compiled before."""
    candidate = kind.candidate(library, args)
    start = time.perf_counter()  # compilers have threads of their own
    candidate()
    return time.perf_counter() - start


def run_compiling(rounds: int, only: str) -> None:
    """Print what the first call takes, and the memory of a call, for fgrad's compiled programs and jax.jit's."""
    libraries = [*kinds.compiled(), *(each for each in kinds.installed_peers() if each.compiles)]
    names = [library.name for library in libraries]
    print(f"{'':40}" + "".join(f"{name:>12}" for name in names) + "".join(f"{name:>14}" for name in names))
    figures: list[list[list[float]]] = []
    for kind, size in rows(only):
        if all(kind.suits(library, size) for library in libraries):
            args = kind.arguments(size)
            seconds = [min(first_call(kind, each, args) for _ in range(rounds)) for each in libraries]
            memory = [each.memory(kind.derivative(each), args) for each in libraries]
            figures.append([seconds, list(map(float, memory))])
            cells = [f"{each * 1e3:9.1f} ms" for each in seconds] + [f"{each:12d} B" for each in memory]
            print(f"{label(kind, size):40}" + "".join(cells), flush=True)
    for place, what in enumerate(("first call", "memory") if len(libraries) == 2 else ()):
        ratios = [ours / theirs for ours, theirs in (row[place] for row in figures)]
        print(f"geometric mean of the {what} over {names[1]}'s{geometric_mean(ratios):8.2f} x")


# Two checkouts in turns


class Worker:
    """A process that runs rows with the fgrad of one checkout."""

    def __init__(self, checkout: Path) -> None:
        if not (checkout / "fgrad" / "__init__.py").is_file():
            raise SystemExit(f"{checkout} is not a checkout of fgrad: it has no folder fgrad")
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        command = [sys.executable, __file__, "--serve"]
        self.process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        if Path(self.ask()).resolve() != checkout.resolve():
            self.__exit__()
            raise SystemExit(f"fgrad is not imported from {checkout}, although that is first on the path")

    def ask(self, *question: Any) -> Any:
        """Send a question, if there is one, and wait for the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if question:
            print(json.dumps(question), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process that runs {question} has ended")
        return json.loads(answer)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.__exit__(None, None, None)  # closes the pipes, which ends the process, and waits


def checkout_in_use() -> Path:
    """Return the folder from which fgrad is imported."""
    return Path(importlib.import_module("fgrad").__file__ or "").parents[1]


def serve() -> None:
    """Answer questions from the standard input: `[name, size, count]`, with the seconds of one call.

    With a count of 0, the result is compared with the one by hand; the answer is how many calls make a batch.
    """
    fgrad = kinds.fgrad()
    print(json.dumps(str(checkout_in_use())), flush=True)
    row, candidate = None, None
    for line in sys.stdin:
        name, size, count = json.loads(line)
        if row != (name, size):
            row, candidate = (name, size), checked_candidates(KINDS[name], size, [fgrad])[OURS]
        assert candidate is not None
        print(json.dumps(batch(candidate, count) if count else repeats(candidate)), flush=True)


def run_against(other: Path, rounds: int, only: str) -> None:
    """Print fgrad's time here over its time in another checkout, row by row."""
    with Worker(other) as then, Worker(checkout_in_use()) as now:
        report_iterations({"now": now, "then": then}, rounds, only)


def report_iterations(workers: dict[str, Worker], rounds: int, only: str) -> None:
    """Let two workers run alternately, and print a line for each row: now over then, of the fastest and by median."""
    changes = []
    print(f"{'':40}{'then':>12}{'now':>12}{'fastest':>10}{'median':>10}")
    for kind, size in rows(only):
        count = min([worker.ask(kind.name, size, 0) for worker in workers.values()])
        seconds: Seconds = {name: [] for name in workers}
        for _ in range(rounds):
            for name, worker in workers.items():
                seconds[name].append(worker.ask(kind.name, size, count))
        fastest = ratio(seconds, "now", "then")
        middle = statistics.median(now / then for now, then in zip(seconds["now"], seconds["then"], strict=True))
        changes.append((fastest, middle))
        times = "".join(f"{min(seconds[name]) * 1e6:9.0f} us" for name in ("then", "now"))
        print(f"{label(kind, size):40}{times}{fastest:10.3f}{middle:10.3f}", flush=True)
    means = [geometric_mean(list(each)) for each in zip(*changes, strict=True)]
    print(f"{'geometric mean':64}" + "".join(f"{mean:10.3f}" for mean in means))


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="how often each candidate is timed")
    parser.add_argument("--only", metavar="NAME", default="", help="only kinds whose name contains this")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the raw figures")
    parser.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"), type=Path, help="two such files")
    parser.add_argument("--against", metavar="PATH", type=Path, help="another checkout of fgrad, measured in turns")
    parser.add_argument("--compiling", action="store_true", help="measure first calls and memory of compiled programs")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    choice = parser.parse_args()
    if not choice.compare and not any(rows(choice.only)):
        parser.error(f"no kind's name contains {choice.only!r}; there are " + "; ".join(KINDS))
    if choice.serve:
        serve()
    elif choice.compare:
        compare_files(*choice.compare)
    elif choice.compiling:
        run_compiling(choice.rounds, choice.only)
    elif choice.against:
        run_against(choice.against, choice.rounds, choice.only)
    else:
        figures = run_table(choice.rounds, choice.only)
        if choice.json:
            choice.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
