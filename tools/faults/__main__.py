"""Plant one fault after the other, and tell which of them tests catch: `python -m faults FILES`.

    FILES        test files and folders; all of pytest's if there are none
    --mark       tests with these markers only, as for `pytest -m`
    --only       numbers of faults, or words of their files or areas, with commas between; all if not told
    --workers    processes for the first run; 2 if not told

The faults are in `table.toml`. The tests run in a copy of the tree, in build/faults: first all of them, with a probe
at each fault in place of it (`probes.py`), to know which tests run its line. Then each fault is planted, and these
tests run until one fails. A fault that no test runs is not caught. Prints each fault with the test that has caught it,
and a table; the exit status is 1 if fewer are caught than a share of them, `--least`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from faults import probes
from faults.table import ROOT, Fault, faults

BUILD = ROOT / "build" / "faults"
TREE, LOG = BUILD / "tree", BUILD / "probes.txt"
LEAST = 0.9
"""The share of faults that `make check` is meant to catch."""
_PATIENCE = 900
"""Seconds that the tests of one fault may take; a fault with which they hang is caught."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_OWN = "tests/test_faults.py"
"""The tests that the faults can be planted, which would catch each one."""
_PASSED, _FAILING, _STOPPED, _NOTHING = 0, 1, 2, 5
"""Exit statuses of pytest: a file that cannot be imported stops it, and markers may leave out all tests."""


class Outcome(NamedTuple):
    """What the tests say of a fault.

    Attributes:
        fault: the fault.
        test: the test that has caught it, or "".
        tests: how many tests run its line.
    """

    fault: Fault
    test: str
    tests: int


def copied(source: Path = ROOT, tree: Path = TREE) -> None:
    """Copy the files of the repository, except those that git ignores, to an empty folder."""
    shutil.rmtree(tree, ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=source, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (source / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, tree / name)


def ran(tree: Path, *words: str, wanted: Path | None = None) -> tuple[int, str]:
    """Run pytest in a tree, and return its exit status and what it prints.

    Args:
        tree: the folder.
        words: of pytest's command line.
        wanted: the file that names the tests to run.

    Raises:
        RuntimeError: it has not run the tests.
    """
    paths = os.pathsep.join(filter(None, (str(tree), os.environ.get("PYTHONPATH", ""))))
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
    command += ["--deselect", _OWN, *words]
    known = {**os.environ, "PYTHONPATH": paths, "FAULT_TESTS": str(wanted)}
    try:
        done = subprocess.run(command, cwd=tree, env=known, timeout=_PATIENCE, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return _FAILING, f"FAILED {words[-1]} - does not end\n"
    if done.returncode not in (_PASSED, _FAILING, _STOPPED, _NOTHING):
        raise RuntimeError(f"pytest has ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode, done.stdout


def first_failure(printed: str) -> str:
    """Return the first test that failed, from what pytest prints."""
    found = _FAILED.search(printed)
    return found[1] if found else "a test that is not named"


def tests_that_run(chosen: Sequence[Fault], tree: Path, log: Path, words: Sequence[str]) -> dict[int, list[str]]:
    """Return for each fault the tests that run its line; those of files that run few faults come first.

    Raises:
        RuntimeError: a test fails without any fault.
    """
    log.unlink(missing_ok=True)
    (tree / f"{probes.MODULE}.py").write_text(probes.SOURCE.format(log=str(log)))
    sources = {fault.file: (tree / fault.file).read_text() for fault in chosen}
    for name, source in sources.items():
        own = [(fault.offset_in(source), fault.number) for fault in chosen if fault.file == name]
        (tree / name).write_text(probes.probed(source, own))
    status, printed = ran(tree, *words)
    for name, source in sources.items():
        (tree / name).write_text(source)
    if status not in (_PASSED, _NOTHING):
        raise RuntimeError(f"tests fail without a fault:\n{printed[-3000:]}")
    return in_order(probes.tests_by_probe(log))


def in_order(found: dict[int, set[str]]) -> dict[int, list[str]]:
    """Return tests by fault as lists: those of files that run few faults, which test something in particular, first."""
    many = Counter(file for tests in found.values() for file in {_file(test) for test in tests})
    return {number: sorted(filter(None, tests), key=lambda t: (many[_file(t)], t)) for number, tests in found.items()}


def _file(test: str) -> str:
    return test.partition("::")[0]


def _named(test: str) -> str:
    """Return the file of a test for pytest's command line; a module that only has examples by its folder.

    Pytest would take a module that is named itself for one of tests.
    """
    path = Path(_file(test))
    is_of_tests = path.name.startswith("test_") or path.suffix != ".py"
    return str(path if is_of_tests else path.parent)


def outcome_of(fault: Fault, tree: Path, tests: Sequence[str]) -> Outcome:
    """Plant a fault, run tests until one fails, and take the fault out again."""
    if not tests:
        return Outcome(fault, "", 0)
    path, wanted = tree / fault.file, tree / "wanted.txt"
    source = path.read_text()
    path.write_text(fault.planted(source))
    # Python tells stale bytecode by the size of the source and the second of its last change.
    os.utime(path, (time.time(), time.time() + 10 * fault.number))
    wanted.write_text("\n".join(tests))
    try:
        status, printed = ran(tree, "-x", "-p", probes.MODULE, *dict.fromkeys(map(_named, tests)), wanted=wanted)
    finally:
        path.write_text(source)
    return Outcome(fault, first_failure(printed) if status in (_FAILING, _STOPPED) else "", len(tests))


def table(outcomes: Sequence[Outcome]) -> str:
    """Return how many faults of each area are caught."""
    rows = []
    for area in dict.fromkeys(each.fault.area for each in outcomes):
        own = [each for each in outcomes if each.fault.area == area]
        rows.append((area, sum(bool(each.test) for each in own), len(own)))
    rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    return "\n".join(f"{area:<28}{caught:>4} of {count}" for area, caught, count in rows)


def line(outcome: Outcome) -> str:
    """Return what is known of a fault, in one line."""
    fault, how = outcome.fault, f"caught by {outcome.test}"
    if not outcome.test:
        how = f"NOT CAUGHT by {outcome.tests} tests that run it" if outcome.tests else "NOT CAUGHT: nothing runs it"
    return f"{fault.number:>3}  {fault.file}: {fault.breaks}\n     {how}"


def _is_chosen(fault: Fault, words: Sequence[str]) -> bool:
    by_word = (word in f"{fault.file} {fault.area}" for word in words if not word.isdigit())
    return not words or str(fault.number) in words or any(by_word)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="make faults", description="How many planted faults tests catch.")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--mark", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--workers", default="2")
    parser.add_argument("--least", type=float, default=LEAST)
    given = parser.parse_args(arguments)
    chosen = [each for each in faults() if _is_chosen(each, [word for word in given.only.split(",") if word])]
    words = ["-m", given.mark] if given.mark else []
    copied()
    tests = tests_that_run(chosen, TREE, LOG, [*words, "-n", given.workers, *given.files])
    outcomes = []
    for fault in chosen:
        outcomes.append(outcome_of(fault, TREE, tests.get(fault.number, [])))
        print(line(outcomes[-1]), flush=True)
    print(table(outcomes))
    return int(sum(bool(each.test) for each in outcomes) < given.least * len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
