"""Parts of reports: reasons with the user's line, short texts for values, and HTML for notebooks.

Reason              one finding
shown(x)            a short text for a value
html_of(text)       a report in a notebook
escaped(text)       text escaped for HTML
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from fgrad.ops.tracing import raw_array

_FEW = 6


class Reason(NamedTuple):
    """One finding about a derivative.

    Attributes:
        kind: a short name of the mistake or fact, such as "never watched", "cut" or "mask".
        text: the finding as a sentence, with a remedy.
        operation: the operation concerned, such as ".item()" or "sqrt"; empty if there is none.
        line: the user's line, as `file:line: source`, or None if it is unknown.
        values: short descriptions of the operation's arguments.
    """

    kind: str
    text: str
    operation: str = ""
    line: str | None = None
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = [f"{self.operation} at {self.line}".lstrip()] if self.line else []
        return "\n    ".join([*place, self.text, *self.values])


def shown(x: Any) -> str:
    """Return the text of a number or a small array, and for a large one its dtype, shape and range."""
    array = np.asarray(raw_array(x))
    if array.ndim == 0:
        return str(array[()])
    if array.size <= _FEW:
        return np.array2string(array, separator=", ").replace("\n", "")
    kind = f"{array.dtype}[{','.join(map(str, array.shape))}]"
    if array.dtype.kind not in "fc":
        return kind
    finite = np.isfinite(array)
    parts = []
    if array.dtype.kind == "f" and finite.any():
        parts.append(f"from {array[finite].min():.6g} to {array[finite].max():.6g}")
    counts = {"nan": np.isnan(array).sum(), "infinite": np.isinf(array).sum(), "zero": (array == 0).sum()}
    parts += [f"{count} {name}" for name, count in counts.items() if count]
    return f"{kind} {', '.join(parts)}".rstrip()


def counted(x: Any) -> tuple[int, bool, bool]:
    """Return the number of nonzero elements, and whether any is NaN or infinite."""
    array = np.asarray(raw_array(x))
    if array.dtype.kind not in "fc":
        return int(np.count_nonzero(array)), False, False
    return int(np.count_nonzero(array)), bool(np.isnan(array).any()), bool(np.isinf(array).any())


def bullets(reasons: Iterable[Reason]) -> str:
    """Return reasons as a list, below each other."""
    return "".join(f"\n  - {reason}" for reason in reasons)


_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def escaped(text: str) -> str:
    """Return text escaped for HTML. Python's own module for that is slow to import."""
    return text.translate(_ENTITIES)


def html_of(title: str, reasons: Iterable[Reason], rows: Iterable[Iterable[str]] = (), footer: str = "") -> str:
    """Return a report as HTML: a title, a table whose first row holds its headings, reasons, a footer."""
    items = "".join(
        "<li>"
        + (f"{escaped(reason.operation)} at <code>{escaped(reason.line)}</code><br>" if reason.line else "")
        + escaped(reason.text)
        + "".join(f"<br><small>{escaped(value)}</small>" for value in reason.values)
        + "</li>"
        for reason in reasons
    )
    table = ""
    for place, row in enumerate(rows):
        tag = "td" if place else "th"
        table += f"<tr>{''.join(f'<{tag}>{escaped(cell)}</{tag}>' for cell in row)}</tr>"
    return (
        f"<div><b>{escaped(title)}</b>"
        + (f"<table>{table}</table>" if table else "")
        + (f"<ul>{items}</ul>" if items else "")
        + (f"<small>{escaped(footer)}</small>" if footer else "")
        + "</div>"
    )
