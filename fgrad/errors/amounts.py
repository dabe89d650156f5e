"""Amounts as text, for reports."""

from __future__ import annotations


def bytes_text(count: float) -> str:
    """Return a number of bytes, such as `19.2 MB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def count_text(count: float) -> str:
    """Return a number of operations, such as `1.2 M`."""
    for unit in ("", " k", " M", " G"):
        if count < 1000:
            return f"{count:.0f}" if not unit else f"{count:.1f}{unit}"
        count /= 1000
    return f"{count:.1f} T"


def seconds_text(seconds: float) -> str:
    """Return a time, such as `96 us`."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
