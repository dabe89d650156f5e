"""The choice between SciPy's own function and a differentiable one.

@differentiates(scipy.linalg.expm)       the decorated function runs if an argument is traced;
                                         otherwise SciPy's own function does, with its speed and errors
@family(scipy.ndimage)                   the decorated function has the parameters of several functions, and becomes
                                         a decorator for what differs: the formula of each of them
@called_as(scipy.optimize.basinhopping)  the decorated function has SciPy's parameters, in SciPy's order
is_boxed((y0, args))                     whether the results are tensors: for functions that choose themselves
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from fgrad.core.primitive import BOXES
from fgrad.core.tree import flatten
from fgrad.ops.tracing import run
from fgrad.scipy._docstrings import completed_by

_VARIOUS = inspect.Parameter.VAR_KEYWORD

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")


def is_boxed(arguments: object) -> bool:
    """Return whether a user's arguments contain a tensor, so that the result contains tensors."""
    return any(type(leaf) in BOXES for leaf in flatten(arguments)[0])


def differentiates(function: Callable[..., Any], *shared: str) -> Callable[[F], F]:
    """Run SciPy's function if nothing is traced, and otherwise the decorated one.

    Containers among the arguments are traversed. If SciPy's function runs on tensors, its arrays are
    returned as tensors.

    Args:
        function: SciPy's.
        shared: what completes the docstring, see `completed_by`.
    """

    def enter(answer: Callable[..., Any]) -> Any:
        @functools.wraps(completed_by(*shared)(answer))
        def choose(*args: object, **keywords: object) -> Any:
            return run(function, answer, args, keywords)

        return choose

    return enter


def family(
    module: object, *shared: str
) -> Callable[[Callable[Concatenate[Any, P], Any]], Callable[[Callable[..., Any]], Callable[P, Any]]]:
    """Make of the decorated function a decorator for formulas, each of which becomes a SciPy function.

    The decorated function takes the formula, and the arguments of a call: these are the parameters that each
    function of the family shows. A formula has the name of SciPy's function, and the docstring.

        @family(scipy.ndimage, SHARED)
        def _rank_filter(rank, /, input, size=None):
            return rank(_neighbours(input, size))

        @_rank_filter
        def maximum_filter(neighbours):
            return np.max(neighbours, -1)

    Args:
        module: SciPy's.
        shared: what completes the docstrings, see `completed_by`.
    """

    def enter(compute: Callable[Concatenate[Any, P], Any]) -> Callable[[Callable[..., Any]], Callable[P, Any]]:
        whole = inspect.signature(compute)
        signature = whole.replace(parameters=list(whole.parameters.values())[1:])

        def member(formula: Callable[..., Any]) -> Callable[P, Any]:
            def answer(*args: Any, **keywords: Any) -> Any:
                try:
                    return compute(formula, *args, **keywords)
                except TypeError:
                    _check_call(formula.__name__, signature, args, keywords)
                    raise

            for name in ("__module__", "__name__", "__qualname__", "__doc__"):
                setattr(answer, name, getattr(formula, name))
            answer.__signature__ = signature  # type: ignore[attr-defined]
            function = differentiates(getattr(module, formula.__name__), *shared)(answer)
            del function.__signature__  # type: ignore[attr-defined]  # is for those of SciPy's version
            return function

        return member

    return enter


def _check_call(name: str, signature: inspect.Signature, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        raise TypeError(f"{name}() {error}") from None


def called_as(function: Callable[..., Any], *further: str) -> Callable[[F], F]:
    """Let the decorated function be called with the arguments of a SciPy function, whose signature it shows.

    It receives the arguments of a call by name, so it names only those that it uses, and takes the others as
    `**options`.

    Args:
        function: SciPy's.
        further: parameters of the decorated function that SciPy's does not have; they are passed by name.
    """
    theirs = inspect.signature(function)
    ordinary = [each for each in theirs.parameters.values() if each.kind is not _VARIOUS]
    various = [each for each in theirs.parameters.values() if each.kind is _VARIOUS]

    def enter(answer: Callable[..., Any]) -> Any:
        own = inspect.signature(answer).parameters
        added = [own[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in further]
        signature = theirs.replace(parameters=[*ordinary, *added, *various])

        @functools.wraps(answer)
        def call(*args: object, **keywords: object) -> Any:
            bound = signature.bind(*args, **keywords).arguments
            named = bound.pop(various[0].name, {}) if various else {}
            return answer(**bound, **named)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return enter
