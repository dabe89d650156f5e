"""The result of one part, on a worker or here: numbers to be added, aux, or the failure of the loss.

    share(number, part, sent, point)      the result of one part
    added(shares)                         the sum of several results, or the first failure among them
    FAN_IN                                how many results one addition combines

The sum is a tree: results are added FAN_IN at a time, in order, and so are these sums. The grouping depends on the
number of parts alone, so that rounding does not depend on where, or when, each result is computed.
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
    """The result of one part, or the sum of several results.

    Attributes:
        terms: numbers and arrays to be added; None is the gradient of an unconnected variable.
        aux: the aux value of one part.
    """

    terms: list[Any]
    aux: Any = None


class Failure(NamedTuple):
    """The exception that a loss raised.

    Attributes:
        number: the number of the part.
        line: the user's line.
        error: the original exception, or a description of one that cannot be sent.
        text: the traceback.
    """

    number: int
    line: str
    error: Exception
    text: str


def share(number: int, part: Any, sent: Sent, point: Point) -> Share | Failure:
    """Return the result of one part, on a worker."""
    return share_of(lambda: loaded(sent, point).result(part, point), number, sendable)


def share_of(compute: Callable[[], Any], number: int, kept: Callable[[Exception], Exception]) -> Share | Failure:
    """Return the result of a computation of one part, or its failure, with the exception as `kept` stores it."""
    try:
        terms, aux = compute()
        return Share([strip_ended(term) for term in terms], tree_map(strip_ended, aux))
    except Exception as error:
        error.__traceback__ = without_library(error.__traceback__, is_ours=False)
        text = "".join(traceback.format_exception(error))
        return Failure(number, _line(error), kept(error), text)


def sendable(error: Exception) -> Exception:
    """Return an exception, or a substitute with its text if it cannot be pickled and unpickled."""
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:  # an exception class of the user can raise anything
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _line(error: Exception) -> str:
    """Return the user's innermost line in the traceback of an exception."""
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_library(frame.f_code.co_filename)
    ]
    return line_at(frames[-1]) if frames else ""


def added(shares: Sequence[Share | Failure]) -> Share | Failure:
    """Return the sum of results, or the first failure."""
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
    """Return the number of sums at each level of the tree, from the results to the total."""
    sizes = [count]
    while len(sizes) == 1 or sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // FAN_IN))
    return sizes


def aux_of(each: Share | Failure) -> Any:
    """Return the aux of a result; None for a failure, since the sum reports it."""
    return None if isinstance(each, Failure) else each.aux
