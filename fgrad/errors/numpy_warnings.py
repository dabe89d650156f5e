"""NumPy's warnings about numbers name the user's line, and not the line of fgrad that has called NumPy.

NumPy warns, from C, at whatever has called it, and Python shows a warning once for each line: of all the logarithms of
a process, the first one that was infinite. What warns from a module of fgrad is therefore given again, at the user's
line. This costs nothing where nothing warns. It takes the place of Python's default alone: filters of the user's, and
options such as `-W error`, come first.
"""

from __future__ import annotations

import re
import threading
import warnings
from typing import Any

from fgrad.errors.places import depth_of_user

_TEXTS = re.compile(
    "(divide by zero|overflow|underflow|invalid value) encountered|Mean of empty slice|Degrees of freedom <= 0|All-NaN"
)
_seen = threading.local()
"""The text that this thread warns of, which only the pattern for texts receives."""


class _Text:
    """What `warnings.filters` has in the place of a pattern for texts."""

    def match(self, text: str) -> bool:
        _seen.text = text if _TEXTS.match(text) else None
        return _seen.text is not None

    def __reduce__(self) -> str:  # other libraries send the filters to other processes
        return "_TEXT"


class _Module:
    """What `warnings.filters` has in the place of a pattern for modules."""

    def match(self, module: str) -> bool:
        text = getattr(_seen, "text", None)
        if text is None or not module.startswith("fgrad."):
            return False
        _seen.text = None  # the warning below is looked up in the filters, too
        depth = depth_of_user()
        warnings.warn(text, RuntimeWarning, stacklevel=depth)
        _seen.text = text
        return True

    def __reduce__(self) -> str:
        return "_MODULE"


_TEXT, _MODULE = _Text(), _Module()


def name_users_line() -> None:
    """Add the filter, behind all others."""
    filters: list[Any] = warnings.filters  # type: ignore[assignment]
    entry = ("ignore", _TEXT, RuntimeWarning, _MODULE, 0)
    if entry not in filters:
        filters.append(entry)
