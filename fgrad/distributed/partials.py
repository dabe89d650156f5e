"""What one part gives, on a worker or here: numbers to be added, aux, or the failure of the loss.

    share(number, part, sent, point)      what one part gives
    added(shares)                         the sum of some, or the first failure among them
    FAN_IN                                how many are added at a time

The sum is made in a tree: shares FAN_IN at a time, in their order, then those sums FAN_IN at a time. Which numbers meet
depends on the number of parts alone, so that rounding is the same wherever, and whenever, each of them is made.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]

from fgrad.core.tensor import strip_ended
from fgrad.core.tree import tree_map
from fgrad.distributed.programs import Point, Sent, loaded
from fgrad.errors.places import is_library, line_at, without_library

FAN_IN = 8


class Share(NamedTuple):
    """What one part gives, or the sum of what some give.

    Attributes:
        terms: numbers and arrays to be added; None is a gradient of what a loss does not depend on.
        aux: of one part.
    """

    terms: list[Any]
    aux: Any = None


class Failure(NamedTuple):
    """The exception that a loss raised.

    Attributes:
        number: of the part.
        line: the user's.
        error: as it was raised, or what can be said of one that cannot be sent.
        text: its traceback.
    """

    number: int
    line: str
    error: Exception
    text: str


def share(number: int, part: Any, sent: Sent, point: Point) -> Share | Failure:
    """Return what one part gives, on a worker."""
    return share_of(lambda: loaded(sent, point).result(part, point), number, sendable)


def share_of(compute: Callable[[], Any], number: int, kept: Callable[[Exception], Exception]) -> Share | Failure:
    """Return what a computation gives, or its failure.

    Args:
        compute: returns a list of what is to be added, and aux.
        number: of the part.
        kept: from an exception to what is kept of it.
    """
    try:
        terms, aux = compute()
        return Share([strip_ended(term) for term in terms], tree_map(strip_ended, aux))
    except Exception as error:
        error.__traceback__ = without_library(error.__traceback__, is_ours=False)
        text = "".join(traceback.format_exception(error))
        return Failure(number, _line(error), kept(error), text)


def sendable(error: Exception) -> Exception:
    """Return an exception, or another with its text if it does not come back from a pickle."""
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:  # whatever a class of the user's raises then
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _line(error: Exception) -> str:
    """Return the innermost line of the user's that an exception came through."""
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_library(frame.f_code.co_filename)
    ]
    return line_at(frames[-1]) if frames else ""


def added(shares: Sequence[Share | Failure]) -> Share | Failure:
    """Return the sum of shares, from the first to the last, or the first failure."""
    total = None
    for each in shares:
        if isinstance(each, Failure):
            return each
        total = each.terms if total is None else [_plus(a, b) for a, b in zip(total, each.terms, strict=True)]
    return Share(total or [])


def _plus(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def levels(count: int) -> list[int]:
    """Return how many sums there are at each level of the tree, from the shares to the one sum of all."""
    sizes = [count]
    while len(sizes) == 1 or sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // FAN_IN))
    return sizes


def aux_of(each: Share | Failure) -> Any:
    """Return what a part gives besides its terms; of a failure nothing, since the sum tells of it."""
    return None if isinstance(each, Failure) else each.aux
