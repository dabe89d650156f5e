"""The messages of errors in examples of docstrings, where these have `...`: what the example says when it runs.

with_messages(text)     a docstring with them
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import re
import tempfile
import warnings
from typing import Any

FILE = "example.py"
_ELIDED = re.compile(r"^\s*([\w.]*?)(\w+): \.\.\.$")


def with_messages(text: str) -> str:
    """Run the examples of a docstring, and return it with the whole message of each error that it shows as `...`."""
    lines, program = text.split("\n"), Program()
    examples = doctest.DocTestParser().get_examples(text)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        raised = [program.run(example.source) for example in examples]
    for example, error in reversed(list(zip(examples, raised, strict=True))):
        first = example.lineno + example.source.count("\n")
        for place in range(first, first + example.want.count("\n")):
            elided = _ELIDED.match(lines[place])
            if elided and type(error).__name__ == elided[2]:
                message = f"{elided[1]}{elided[2]}: {error}"
                lines[place : place + 1] = [" " * example.indent + line for line in message.split("\n") if line.strip()]
    return "\n".join(lines)


class Program:
    """The examples of a docstring, run one after the other as the lines of one file."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._lines: list[str] = []

    def run(self, source: str) -> Exception | None:
        """Run an example, and return the error that ends it."""
        code = compile("\n" * len(self._lines) + source, FILE, "single")
        self._lines += source.splitlines(keepends=True)
        linecache.cache[FILE] = (len(self._lines), None, self._lines, FILE)
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(code, self._names)
        except Exception as error:
            return error
        return None
