"""Run packages that use HIPS Autograd on fgrad: `python -m clients`, which `make clients-test` does.

    python -m clients                    all packages, and Autograd's examples
    python -m clients lifelines mici     some of them; `examples` is a name, too

Each package gets an environment of its own in `build/clients`, and its source from PyPI, or from its repository where
the archive there has no tests. They are run there with Autograd, then with fgrad, and what passes with the one has to
pass with the other. The tables are also written to `build/clients/table.md`.
"""

from __future__ import annotations

import argparse
import sys

from clients import examples
from clients.packages import CLIENTS
from clients.running import ROOT, Comparison, PreparationError, tested

FOLDER = ROOT / "build" / "clients"
EXAMPLES = "examples"


def row(found: Comparison) -> str:
    """Return the line of a package in the table."""
    client = found.client
    name = f"{client.name} {client.version}" + f" ({client.note})" * bool(client.note)
    if found.problem:
        return f"| {name} | {found.problem} | | | |"
    theirs, mine = found.found["autograd"], found.found["fgrad"]
    both = len(theirs.passed & mine.passed)
    gained = f" and {len(mine.passed) - both} more" * (len(mine.passed) > both)
    return f"| {name} | {len(theirs.passed)} | {both}{gained} | {theirs.seconds:.0f} | {mine.seconds:.0f} |"


def report(found: Comparison) -> None:
    """Print what came of a package."""
    print(row(found))
    for test, reason in found.excused.items():
        print(f"  expected: {test}: {reason}")
    for test in set(found.lost) - set(found.excused):
        print(f"  FAILED with fgrad alone: {test}; see {FOLDER / found.client.name / 'fgrad.log'}")
    sys.stdout.flush()


def example_row(found: examples.Agreement) -> str:
    """Return the line of an example in the table."""
    verdict = found.verdict.replace("|", "\\|")
    return f"| {found.name} | {found.compared} | {verdict} |"


def main() -> int:
    """Run what the command line names, and return 1 if something is lost on fgrad, or a package cannot be run."""
    names = [client.name for client in CLIENTS]
    parser = argparse.ArgumentParser(description="Run packages that use HIPS Autograd on fgrad.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join([*names, EXAMPLES])}; all if none")
    chosen = parser.parse_args().names or [*names, EXAMPLES]
    if unknown := sorted(set(chosen) - {*names, EXAMPLES}):
        parser.error(f"no package is called {unknown[0]}; there are {', '.join([*names, EXAMPLES])}")
    lines = ["| package | pass with Autograd | of these with fgrad | s | s |", "| --- | --- | --- | --- | --- |"]
    print("\n".join(lines))
    is_good = True
    for client in CLIENTS:
        if client.name in chosen:
            found = tested(client, FOLDER / client.name)
            report(found)
            lines.append(row(found))
            is_good = is_good and found.is_good
    if EXAMPLES in chosen:
        more, all_good = report_examples()
        lines += more
        is_good = is_good and all_good
    (FOLDER / "table.md").write_text("\n".join(lines) + "\n")
    return 0 if is_good else 1


def report_examples() -> tuple[list[str], bool]:
    """Run and print Autograd's examples; return their table, and whether all of them are right."""
    lines = ["", "| example of Autograd's | lines that both printed | with fgrad |", "| --- | --- | --- |"]
    try:
        found = examples.compare_all(FOLDER / "autograd")
    except PreparationError as error:
        found = []
        lines.append(f"| none | | {error} |")
    lines += map(example_row, found)
    print("\n".join(lines))
    return lines, all(each.is_good for each in found)


if __name__ == "__main__":
    sys.exit(main())
