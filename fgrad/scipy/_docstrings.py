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

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

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
            parameters = list(inspect.signature(function).parameters)
            own = _sections(inspect.cleandoc(function.__doc__))
            for text in shared:
                own = _completed(own, _sections(text.strip("\n")), parameters)
            function.__doc__ = _joined(own)
        return function

    return enter


def _sections(text: str) -> dict[str, str]:
    """Return the text under each heading of a docstring; what stands before the first one is under ""."""
    opening, *rest = _HEADING.split(text)
    return {"": opening, **dict(zip(rest[::2], rest[1::2], strict=True))}


def _joined(sections: dict[str, str]) -> str:
    shown = [(heading, sections[heading].rstrip()) for heading in _ORDER if sections.get(heading)]
    return "\n\n".join(f"{heading}:\n{body}" if heading else body for heading, body in shown) + "\n"


def _completed(own: dict[str, str], common: dict[str, str], parameters: list[str]) -> dict[str, str]:
    return {**common, **own, "Args": _arguments(own.get("Args", ""), common.get("Args", ""), parameters)}


def _arguments(own: str, common: str, parameters: list[str]) -> str:
    """Return the entries of all parameters in their order; one of several parameters stands where its first does."""
    entries = _entries(own)
    described = {name for names, _ in entries for name in names}
    for names, meaning in _entries(common):
        missing = [name for name in names if name in parameters and name not in described]
        if missing:
            entries.append((missing, meaning))
    entries.sort(key=lambda entry: parameters.index(entry[0][0]))
    return "\n".join(f"    {', '.join(names)}: {meaning}" for names, meaning in entries)


def _entries(section: str) -> list[tuple[list[str], str]]:
    """Return the names and the meaning of each entry."""
    found = []
    for entry in _ENTRY.split(section)[1:]:
        names, _, meaning = entry.rstrip().partition(": ")
        found.append((names.split(", "), meaning))
    return found
