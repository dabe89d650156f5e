"""Run families of random programs for some time: `python -m fuzz --seconds 60 --seed 3 --family scipy`.

    --seconds    how long, all families together; 300 if not told
    --family     one or several names with commas between; all if not told
    --seed       of the first case; the next ones count up. A random one if not told
    --count      cases of each family, in place of a time

Prints each failure as it comes, with the line that reproduces it, and at the end a table of counts. The exit status is
1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
import warnings
from collections import Counter

import numpy as np

from fuzz import numpy_programs, scipy_calls, tensorflow_programs, threads, transforms
from fuzz.case import OUTCOMES, WRONG, Family, Outcome

FAMILIES: dict[str, Family] = {
    "scipy": scipy_calls.run,
    "transforms": transforms.run,
    "tensorflow": tensorflow_programs.run,
    "threads": threads.run,
    "numpy": numpy_programs.run,
}


def run_case(family: str, seed: int) -> Outcome:
    """Run one case, in silence: what NumPy and SciPy warn of at odd points is not looked for here."""
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        return FAMILIES[family](seed)


def report(family: str, seed: int, outcome: Outcome) -> str:
    """Return a failure as text."""
    body = outcome.program.replace("\n", "\n    ")
    again = f"make fuzz FAMILY={family} SEED={seed} COUNT=1"
    return f"WRONG: {outcome.problem}\n    {again}\n\n    {body}\n"


def run_family(family: str, seed: int, seconds: float, count: int | None) -> tuple[Counter[str], list[int]]:
    """Run cases of a family, and return how many there were of each outcome, and the seeds of the wrong ones."""
    end, counts, wrong, done = time.monotonic() + seconds, Counter[str](), [], 0
    while done < count if count is not None else time.monotonic() < end:
        outcome = run_case(family, seed + done)
        counts[outcome.kind] += 1
        if outcome.kind == WRONG:
            wrong.append(seed + done)
            print(report(family, seed + done, outcome), flush=True)
        done += 1
    return counts, wrong


def table(results: dict[str, tuple[Counter[str], list[int]]]) -> str:
    """Return the counts as a table, and the seeds of what is wrong."""
    rows = [["family", "cases", *OUTCOMES, "seeds that are wrong"]]
    for family, (counts, wrong) in results.items():
        seeds = " ".join(map(str, wrong)) or "-"
        rows.append([family, str(counts.total()), *(str(counts[kind]) for kind in OUTCOMES), seeds])
    return "\n".join("".join(f"{cell:<12}" for cell in row).rstrip() for row in rows)


def arguments(words: list[str] | None) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(prog="make fuzz", description="Random programs that look for wrong answers.")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--family", default=",".join(FAMILIES))
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--count", type=int, default=None)
    chosen = parser.parse_args(words)
    chosen.families = chosen.family.split(",")
    for name in set(chosen.families) - set(FAMILIES):
        parser.error(f"no family {name!r}; there are {', '.join(FAMILIES)}")
    return chosen


def main(words: list[str] | None = None) -> int:
    """Run what the command line says, and return the exit status."""
    chosen = arguments(words)
    seed = secrets.randbelow(10**9) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    each = chosen.seconds / len(chosen.families)
    results = {family: run_family(family, seed, each, chosen.count) for family in chosen.families}
    print(table(results))
    return int(any(wrong for _, wrong in results.values()))


if __name__ == "__main__":
    sys.exit(main())
