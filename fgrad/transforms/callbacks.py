"""Checks of functions that are called with arguments which fgrad chooses: bodies of loops, objectives, parts of rules.

check_function(what, function)               raises if it is not a function
check_callback(what, function, form, ...)    raises if it does not take the arguments that it will get
check_solvers_function(where, function, ...) the same for a function that SciPy calls, with extra arguments
check_returned(function, result)             raises if a function has returned None to a solver
plainly_takes(function, count)               whether a Python function takes so many arguments, in no time
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

from fgrad import errors
from fgrad.typing import ArrayLike


def check_function(what: str, function: Callable[..., Any], instead: str = "") -> None:
    """Raise if an argument is not a function.

    Args:
        what: what it is for the user, such as "body of scan".
        function: the argument.
        instead: another line of the message.

    Raises:
        NotCallableError: a TypeError.
    """
    if not callable(function):
        kind = type(function).__name__
        raise errors.NotCallableError(f"{what} must be a function, and is {function!r:.100} of type {kind}.{instead}")


def check_callback(
    what: str,
    function: Callable[..., Any],
    form: str,
    count: int,
    keywords: Iterable[str] = (),
    kind: type[errors.FgradError] = errors.NotCallableError,
) -> None:
    """Raise if a function cannot be called with the arguments that it gets.

    Args:
        what: what it is for the user, such as "body of fori_loop".
        function: the user's function.
        form: the call, such as "body(i, value)".
        count: the number of positional arguments.
        keywords: the names of keyword arguments.
        kind: the class of the error.

    Raises:
        FgradError: an error of the class `kind`.
    """
    keywords = list(keywords)
    if not keywords and plainly_takes(function, count):
        return
    try:
        signature = inspect.signature(function, follow_wrapped=False)  # what a decorator passes on may be more or less
    except (TypeError, ValueError):  # some built-in functions have no signature
        return
    try:
        signature.bind(*range(count), **dict.fromkeys(keywords))
    except TypeError as error:
        raise kind(f"{what} is called as {form}, and {_why_not(function, signature, form, count, error)}") from None


def check_solvers_function(
    where: str, function: Callable[..., Any], given: str, args: Sequence[Any] = (), **keywords: object
) -> None:
    """Raise if the function that a solver calls does not take its arguments; what is not callable is left to SciPy.

    Args:
        where: the parameter and the solver, such as "fun of minimize".
        function: the user's function.
        given: the names of the solver's own arguments, such as "t, y".
        args: the further arguments, `*args`.
        keywords: keyword arguments.

    Raises:
        NotCallableError: a TypeError.
    """
    if callable(function):
        form = f"{where.split(' ')[0]}({given}{', *args' if args else ''}{', **kwargs' if keywords else ''})"
        check_callback(where, function, form, given.count(",") + 1 + len(args), keywords)


def check_returned(function: Callable[..., Any], result: ArrayLike) -> Any:
    """Return what a function has returned to a solver, which would take None for nan, or for no numbers at all.

    Raises:
        NoResultError: a ValueError; it is None.
    """
    if result is None:
        raise errors.NoResultError(
            f"{getattr(function, '__name__', function)} returned None, and the solver needs numbers from it.\n"
            "Let it end with `return`, in all of its branches."
        )
    return result


def plainly_takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether a Python function takes so many positional arguments, without the time of a signature."""
    if type(function) is not FunctionType:
        return False
    code = function.__code__
    takes_more = bool(code.co_flags & inspect.CO_VARARGS)
    fewest = code.co_argcount - len(function.__defaults__ or ())
    return not code.co_kwonlyargcount and fewest <= count and (takes_more or count <= code.co_argcount)


def _why_not(
    function: Callable[..., Any], signature: inspect.Signature, form: str, count: int, error: TypeError
) -> str:
    """Say what does not fit about a function, and what to write."""
    names = form[form.index("(") + 1 : -1]
    shown = f"{getattr(function, '__name__', type(function).__name__)}{signature}"
    shown = shown.replace("<lambda>(", "(lambda ").replace("(lambda )", "(lambda)")
    parameters = signature.parameters.values()
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    further = [*by_position[count:], *(p for p in parameters if p.kind is p.KEYWORD_ONLY)]
    missing = [p for p in further if p.default is p.empty]
    if missing:
        all_names = ", ".join(p.name for p in missing)
        given = ", ".join(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else p.name for p in missing)
        call = f"lambda {names}: f({names}, {given})" if names else f"lambda: f({given})"
        instead = f"Close over what is missing, {call}, or unpack inside of the function what it gets."
        return f"{shown} also needs {all_names}.\n{instead}"
    if len(by_position) >= count:
        return f"{shown} cannot be: {error}."
    instead = f"Give it the parameters ({names}); one that it does not need may be called _."
    return f"{shown} takes fewer arguments.\n{instead}"
