"""Run TensorFlow's own tests of gradients and optimizers on fgrad: `python -m tensorflow_tests`.

    python -m tensorflow_tests                    all files, as `make tensorflow-tests` does
    python -m tensorflow_tests adam gradients     the files whose paths contain one of these

The files are fetched at one commit of TensorFlow into `build/tensorflow-tests`. They run unchanged: `import tensorflow`
is answered with the names of `fgrad.compat`. Each test must pass, or have a reason in
`tools/tensorflow_tests/files.py`. The table is also written to `build/tensorflow-tests/table.md`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from clients.running import ROOT

from tensorflow_tests.files import FILES, LEFT
from tensorflow_tests.running import Results, tested

FOLDER = ROOT / "build" / "tensorflow-tests"
HEAD = ("| file | passed | failed | do not apply |", "| --- | ---: | ---: | ---: |")


def row(found: Results) -> str:
    """Return the line of a file in the table."""
    if found.problem:
        return f"| {found.file.path} | {found.problem} | | |"
    return f"| {found.file.path} | {len(found.passed)} | {len(found.failed)} | {len(found.outside)} |"


def total(found: Sequence[Results]) -> str:
    """Return the last line of the table."""
    counts = [sum(len(each) for each in column) for column in zip(*((r.passed, r.failed, r.outside) for r in found))]  # noqa: B905
    return f"| all | {' | '.join(map(str, counts))} |"


def reason_lines(found: Sequence[Results]) -> Iterator[str]:
    """Yield the table of the failing tests, by reason."""
    yield "| failing tests | reason |"
    yield "| --- | --- |"
    names: dict[str, list[str]] = {}
    for each in found:
        for test in each.failed:
            reason = LEFT.get((each.file.path, test), "not known")
            names.setdefault(reason, []).append(test.partition(".")[2])
    for reason, tests in names.items():
        yield f"| {', '.join(f'`{test}`' for test in tests)} | {reason} |"


def outside_lines(found: Sequence[Results]) -> Iterator[str]:
    """Yield the table of how many tests do not apply, by reason."""
    yield "| what it tests | tests |"
    yield "| --- | ---: |"
    counts: dict[str, int] = {}
    for each in found:
        for reason in each.outside.values():
            counts[reason] = counts.get(reason, 0) + 1
    for reason, count in counts.items():
        yield f"| {reason} | {count} |"


def report(found: Results) -> None:
    """Print what came of a file."""
    print(row(found))
    for test in found.unknown:
        print(f"  FAILED: {test}: {found.outcomes[test][1].strip().splitlines()[-1]:.200}")
    for test in found.outdated:
        print(f"  has a reason in files.py, but does not fail: {test}")
    sys.stdout.flush()


def table(found: Sequence[Results]) -> list[str]:
    """Return the lines of all tables."""
    return [*HEAD, *map(row, found), total(found), "", *reason_lines(found), "", *outside_lines(found)]


def main() -> int:
    """Run what the command line names, and return 1 if a test fails without a reason, or a file cannot be run."""
    parser = argparse.ArgumentParser(description="Run TensorFlow's own tests on fgrad.")
    parser.add_argument("names", nargs="*", metavar="name", help="a part of a path, such as adam; all files if none")
    names = parser.parse_args().names
    chosen = [file for file in FILES if not names or any(name in file.path for name in names)]
    if not chosen:
        parser.error(f"no file is called {names[0]}; there are {', '.join(file.path for file in FILES)}")
    found = []
    for file in chosen:
        found.append(tested(file, FOLDER))
        report(found[-1])
    lines = table(found)
    (FOLDER / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(["", *lines]))
    return 0 if all(each.is_good for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
