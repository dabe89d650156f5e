"""What came out of one case of a family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

RIGHT = "right"
WRONG = "wrong"
REFUSED = "refused"
"""fgrad raised an error of its own, which is an answer."""
UNDECIDED = "undecided"
"""The judge has no answer: the plain program fails or is not finite, or differences of it do not converge."""
OUTCOMES = (RIGHT, REFUSED, UNDECIDED, WRONG)


@dataclass(frozen=True)
class Outcome:
    """What came out of one case.

    Attributes:
        kind: one of `OUTCOMES`.
        program: what was run, to be read, and if it can be, to be replayed.
        problem: what is wrong, or why there is no answer.
    """

    kind: str
    program: str
    problem: str = ""


Family = Callable[[int], Outcome]


class UndecidedError(Exception):
    """The judge has no answer."""


class WrongError(Exception):
    """What fgrad gives is not what the judge says."""
