"""Keep the core small: count its code lines, and those of its longest functions.

A code line holds something that runs: no blank line, no comment, no docstring. The program prints
each file's count and fails above the limits.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

CORE = Path(__file__).parent.parent / "fgrad" / "core"
MOST_LINES = 500
LONGEST_BODY = 40

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        # A statement that is only a string: a docstring, also below an attribute.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def bodies(source: str) -> list[tuple[int, str]]:
    """Return the size in code lines of each function's body, and the function's name."""
    lines = code_lines(source)
    return [
        (sum(node.body[0].lineno <= line <= (node.end_lineno or 0) for line in lines), node.name)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, FUNCTIONS)
    ]


def main() -> int:
    """Print the sizes and return how many limits are exceeded."""
    total, failures = 0, []
    for path in sorted(CORE.glob("**/*.py")):
        source = path.read_text(encoding="utf-8")
        size = len(code_lines(source))
        total += size
        longest, name = max(bodies(source), default=(0, "no function"))
        print(f"{path.name:20} {size:4} lines of code; longest body {longest:3} ({name})")
        failures += [
            f"{path.name}: the body of {name} has {size} lines of code; the limit is {LONGEST_BODY}"
            for size, name in bodies(source)
            if size > LONGEST_BODY
        ]
    print(f"{'core':20} {total:4} lines of code of {MOST_LINES}")
    if total > MOST_LINES:
        failures.append(f"the core has {total} lines of code; the limit is {MOST_LINES}")
    print(*failures, sep="\n", end="\n" if failures else "")
    return len(failures)


if __name__ == "__main__":
    sys.exit(main())
