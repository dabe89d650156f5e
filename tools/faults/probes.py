"""Probes: expressions that write down which tests run a line.

A probe stands around the expression that holds the line, `(__import__("fault_probe").hit(7), (x + y))[1]`, so that what
a fault in it would change is known to have run. The value, and the numbers of all lines, stay the same.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

MODULE = "fault_probe"
SOURCE = '''"""Writes down which tests run which probes; as a plugin of pytest, leaves out all tests but those given."""

import contextlib
import os
import pathlib

_seen = set()
_log = {log!r}


def hit(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if (number, test) not in _seen:
        _seen.add((number, test))
        with contextlib.suppress(OSError), open(_log, "a") as file:  # a test may limit the size of files
            file.write(f"{{number}}\\t{{test}}\\n")


def pytest_collection_modifyitems(items):
    wanted = set(pathlib.Path(os.environ["FAULT_TESTS"]).read_text().splitlines())
    items[:] = [item for item in items if item.nodeid in wanted]
'''
"""The module that the probes import; pytest names the test in the environment, also for processes that it starts."""

Place = tuple[int, int]
"""A line from 1, and the number of bytes before a place in it, as in `ast`."""


def probed(source: str, offsets: Sequence[tuple[int, int]]) -> str:
    """Return a source with probes.

    Args:
        source: of a module.
        offsets: for each probe its place in the source, in characters, and its number.

    Raises:
        ValueError: there is no expression at a place.
    """
    tree, lines = ast.parse(source), source.encode().splitlines(keepends=True)
    inserted: defaultdict[int, defaultdict[int, str]] = defaultdict(lambda: defaultdict(str))
    for offset, number in offsets:
        before = source[:offset]
        place = before.count("\n") + 1, len(before[before.rfind("\n") + 1 :].encode())
        found = _expression_at(tree, place)
        assert found.end_lineno is not None
        assert found.end_col_offset is not None
        inserted[found.lineno][found.col_offset] += f'(__import__("{MODULE}").hit({number}), ('
        inserted[found.end_lineno][found.end_col_offset] += "))[1]"
    for number, columns in inserted.items():
        line = lines[number - 1]
        for column in sorted(columns, reverse=True):
            line = line[:column] + columns[column].encode() + line[column:]
        lines[number - 1] = line
    return b"".join(lines).decode()


def _expression_at(tree: ast.AST, place: Place) -> ast.expr:
    """Return the body of the innermost lambda around a place, or the expression of the innermost statement."""
    around = [each for each in ast.walk(tree) if isinstance(each, (ast.stmt, ast.Lambda)) and _holds(each, place)]
    innermost = max(around, key=lambda each: (each.lineno, each.col_offset), default=None)
    if isinstance(innermost, ast.Lambda):
        return innermost.body
    read = [] if innermost is None else list(_read_by(innermost))
    if not read:
        raise ValueError(f"there is no expression at line {place[0]}: {place[1]}")
    return next((each for each in read if _holds(each, place)), read[-1])


def _read_by(statement: ast.stmt) -> Iterable[ast.expr]:
    """Yield the expressions that a statement itself computes: not those of statements in it, nor what it assigns to."""
    for each in ast.iter_child_nodes(statement):
        each = each.context_expr if isinstance(each, ast.withitem) else each
        if isinstance(each, ast.expr) and not isinstance(getattr(each, "ctx", None), (ast.Store, ast.Del)):
            yield each


def _holds(node: ast.expr | ast.stmt, place: Place) -> bool:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (node.lineno, node.col_offset) <= place < (node.end_lineno, node.end_col_offset)


def tests_by_probe(log: Path) -> dict[int, set[str]]:
    """Return the tests that have run each probe; "" is the time in which tests are collected."""
    found: dict[int, set[str]] = {}
    for line in log.read_text().splitlines() if log.exists() else ():
        number, _, test = line.partition("\t")
        found.setdefault(int(number), set()).add(test)
    return found
