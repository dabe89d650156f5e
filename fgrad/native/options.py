"""How a program is compiled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """What a user of `compile` may ask for.

    Attributes:
        threads: on how many cores large loops run; None: what the environment says, or all.
        precise: elementary functions are the C library's, one number at a time.
        shared: native code is kept for all programs that are the same, and not with one function.
    """

    threads: int | None = None
    precise: bool = False
    shared: bool = False


DEFAULT = Options()
