"""The choice between SciPy's own function and a differentiable one.

@differentiates(scipy.linalg.expm)       the decorated function runs if an argument is traced;
                                         otherwise SciPy's own function does, with its speed and errors
@called_as(scipy.optimize.basinhopping)  the decorated function has SciPy's parameters, in SciPy's order
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from fgrad.ops.tracing import run
from fgrad.scipy._docstrings import completed_by

_VARIOUS = inspect.Parameter.VAR_KEYWORD

F = TypeVar("F", bound=Callable[..., Any])


def differentiates(function: Any, *shared: str) -> Callable[[F], F]:
    """Run SciPy's function if nothing is traced, and otherwise the decorated one.

    Containers among the arguments are traversed. If SciPy's function runs on tensors, its arrays are
    returned as tensors.

    Args:
        function: SciPy's.
        shared: what completes the docstring, see `completed_by`.
    """

    def enter(answer: Any) -> Any:
        @functools.wraps(completed_by(*shared)(answer))
        def choose(*args: Any, **keywords: Any) -> Any:
            return run(function, answer, args, keywords)

        return choose

    return enter


def called_as(function: Any, *further: str) -> Callable[[F], F]:
    """Let the decorated function be called with the arguments of a SciPy function, whose signature it shows.

    It is handed by name the arguments that a call has, so it names those alone that it uses, and takes the others as
    `**options`.

    Args:
        function: SciPy's.
        further: parameters of the decorated function that SciPy's does not have; they are passed by name.
    """
    theirs = inspect.signature(function)
    ordinary = [each for each in theirs.parameters.values() if each.kind is not _VARIOUS]
    various = [each for each in theirs.parameters.values() if each.kind is _VARIOUS]

    def enter(answer: Any) -> Any:
        own = inspect.signature(answer).parameters
        added = [own[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in further]
        signature = theirs.replace(parameters=[*ordinary, *added, *various])

        @functools.wraps(answer)
        def call(*args: Any, **keywords: Any) -> Any:
            bound = signature.bind(*args, **keywords).arguments
            named = bound.pop(various[0].name, {}) if various else {}
            return answer(**bound, **named)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return enter
