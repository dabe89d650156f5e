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


class _Seen(threading.local):
    """What this thread warns of.

    Attributes:
        text: of the warning; the pattern for modules does not receive it.
        is_given_again: whether that warning is the one at the user's line.
    """

    text: str | None = None
    is_given_again = False


_seen = _Seen()


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
        # The user's line may be in a module with such a name, too, as in a doctest of fgrad.
        if _seen.text is None or _seen.is_given_again or not module.startswith("fgrad."):
            return False
        _seen.is_given_again = True
        try:
            warnings.warn(_seen.text, RuntimeWarning, stacklevel=depth_of_user())
        finally:
            _seen.is_given_again = False
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
