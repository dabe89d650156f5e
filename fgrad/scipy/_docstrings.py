r"""Docstrings of families of functions: what they have in common is written once.

completed_by(*shared)   the decorated function's docstring gets what it lacks from the shared ones:
                        whole sections, and under Args the entries of its parameters

So the docstring of a function says what it is, what it has of its own, and gives an example:

    >>> from fgrad.scipy._docstrings import completed_by
    >>> @completed_by("Args:\n    a: a sample.\n    axis: its axis.\n\nReturns:\n    A number.")
    ... def spread(a, degree, axis=0):
    ...     "Return the spread.\n\nArgs:\n    degree: positive."
    >>> print(spread.__doc__)
    Return the spread.
    <BLANKLINE>
    Args:
        a: a sample.
        degree: positive.
        axis: its axis.
    <BLANKLINE>
    Returns:
        A number.
    <BLANKLINE>
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

Sections = dict[str, str]
"""The text under each heading of a docstring; what stands before the first one is under ""."""

Entries = list[tuple[list[str], str]]
"""The names and the meaning of each entry under Args."""

_ORDER = ("", "Args", "Returns", "Raises", "Example")
_HEADING = re.compile(rf"^({'|'.join(_ORDER[1:])}):\n", re.MULTILINE)
_ENTRY = re.compile(r"^    (?=\S)", re.MULTILINE)


def completed_by(*shared: str) -> Callable[[F], F]:
    """Complete the docstring of a function by what it shares with others.

    Args:
        shared: sections of a docstring, in the same form; several texts complete it one after the other. Entries for
            parameters that the function does not have are left out.
    """

    def enter(function: F) -> F:
        if function.__doc__ and shared:  # without docstrings in Python -OO
            function.__doc__ = _completed(function.__doc__, shared, list(inspect.signature(function).parameters))
        return function

    return enter


def _completed(text: str, shared: tuple[str, ...], parameters: list[str]) -> str:
    sections, entries = _parsed(inspect.cleandoc(text))
    for more_sections, more_entries in map(_parsed_once, shared):
        sections = more_sections | sections
        described = {name for names, _ in entries for name in names}
        for names, meaning in more_entries:
            missing = [name for name in names if name in parameters and name not in described]
            if missing:
                entries.append((missing, meaning))
    entries.sort(key=lambda entry: parameters.index(entry[0][0]))
    arguments = "\n".join(f"    {', '.join(names)}: {meaning}" for names, meaning in entries)
    return _joined(sections | {"Args": arguments})


def _parsed(text: str) -> tuple[Sections, Entries]:
    opening, *rest = _HEADING.split(text)
    sections = {"": opening, **dict(zip(rest[::2], rest[1::2], strict=True))}
    parts = [entry.rstrip().partition(": ") for entry in _ENTRY.split(sections.get("Args", ""))[1:]]
    return sections, [(names.split(", "), meaning) for names, _, meaning in parts]


@functools.cache
def _parsed_once(shared: str) -> tuple[Sections, Entries]:
    return _parsed(shared.strip("\n"))


def _joined(sections: Sections) -> str:
    shown = [(heading, sections[heading].rstrip()) for heading in _ORDER if sections.get(heading)]
    return "\n\n".join(f"{heading}:\n{body}" if heading else body for heading, body in shown) + "\n"
