"""Shared code of all transforms: the selection of arguments, and the functions that transforms return.

select(...)         maps names and positions to the arguments of a call
Transformed         the function that a transform returns: wrapped, picklable, also a method
one_call(...)       runs a function as one transform call, with one warning per line
decorator(...)      makes a transform usable as `@transform` and as `@transform(option=...)`
"""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np

from fgrad import errors
from fgrad.core import concretize
from fgrad.core.trace import running
from fgrad.errors.places import without_library

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

Place = int | str
"""An argument of a call: a position, or the name of a keyword."""
Selection = int | str | Sequence[int] | Sequence[str] | None


class Decorator(Protocol[R_co]):
    """The type of a transform with options alone: a decorator, whose functions have other results."""

    def __call__(self, function: Callable[P, Any], /) -> Callable[P, R_co]: ...


class Transformed:
    """A function that runs `run(function, args, keywords, **options)` when it is called.

    Args:
        run: the implementation of the transform, for one call.
        function: the user's function.
        options: the options of the transform.
        is_kept: whether the object is returned to the user, so that it copies the metadata of `function`, which takes
            time.
    """

    def __init__(
        self, run: Callable[..., Any], function: Callable[..., Any], options: dict[str, Any], is_kept: bool = True
    ) -> None:
        if not callable(function):
            raise errors.NotCallableError(
                f"{_name(run)} takes a function, not {function!r:.200} of type {type(function).__name__}.\n"
                + _instead_of_function(_name(run), function)
            )
        if is_kept:
            functools.update_wrapper(self, function, updated=())
        else:
            self.__name__ = name_of(function)
        self._run, self._function, self._options = run, function, options

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if args and isinstance(args[0], type) and _parameters(self._function)[:1] == ["cls"]:
            # Since Python 3.13 a classmethod passes the class without calling `__get__`.
            return self.__get__(args[0], type(args[0]))(*args[1:], **keywords)
        state = running.state()
        before = state[0]
        releases: list[Callable[[], None]] = []
        try:
            running.call = self, before, set() if before is None else before[2], releases
            return self._run(self._function, args, keywords, **self._options)
        except BaseException as error:
            running.unwind(state)
            if isinstance(error, Exception) and (before is None or before[0] is None):  # the outermost call
                error.__traceback__ = without_library(error.__traceback__, isinstance(error, errors.FgradError))
            raise
        finally:
            running.call = before
            if releases:
                release_all(releases)
            if before is None:
                concretize.forget_objects()

    def __get__(self, instance: object, owner: type | None = None) -> Transformed:
        if instance is None or not hasattr(self._function, "__get__"):
            return self
        return Transformed(self._run, self._function.__get__(instance, owner), self._options)

    def __reduce__(self) -> Any:
        found = found_by_name(self)
        if found is self:  # as by a decorator: it is pickled by name
            return self.__qualname__
        instance = getattr(self._function, "__self__", None)
        if isinstance(found, Transformed) and instance is not None:
            return getattr, (instance, self._function.__name__)
        return Transformed, (self._run, self._function, self._options)

    @property
    def transform(self) -> str:
        """The name of the transform, as users write it."""
        return _name(self._run)

    @property
    def function(self) -> Callable[..., Any]:
        """The function that is transformed."""
        return self._function

    def __repr__(self) -> str:
        return f"<{self.transform} of {self._function!r}>"


def found_by_name(x: object) -> Any:
    """Return what is bound to the name of a function, or of an object that is called like one; None if nothing is."""
    found: Any = sys.modules.get(getattr(x, "__module__", None) or "")
    for part in getattr(x, "__qualname__", "").split("."):
        found = getattr(found, part, None)
    return found


class PickledByName:
    """An object that is pickled by name where it is bound to its name, as by a decorator; otherwise by attributes."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__qualname__ if found_by_name(self) is self else super().__reduce_ex__(protocol)


def one_call(function: Callable[..., Any], *args: object) -> Any:
    """Run a function, such as a pass over a tape, as one transform call: with at most one warning per line."""
    state = running.state()
    releases: list[Callable[[], None]] = []
    try:
        running.call = state[0] or (None, None, set(), releases)
        return function(*args)
    except BaseException:
        running.unwind(state)
        raise
    finally:
        running.call = state[0]
        release_all(releases)


def release_all(releases: list[Callable[[], None]]) -> None:
    """Call the functions that were deferred to the end of a call; one that an interrupt ends is called again."""
    try:
        while releases:
            releases[-1]()
            releases.pop()
    except BaseException:
        while releases:
            releases.pop()()
        raise


def _instead_of_function(name: str, given: object) -> str:
    """Return a hint on what was probably meant instead of a function."""
    if hasattr(given, "assign"):
        return f"Pass the function that reads the variable: fg.implicit_gradients(f), or {name}(f)(variable)."
    if type(given) in (int, str):
        option = "static" if name == "compile" else "argnums"
        return f"Options of a decorator go by name, such as @fg.{name}({option}={given!r})."
    return f"Pass the function itself, without calling it: {name}(f)(x), not {name}(f(x))."


def _name(run: Any) -> str:
    return run.__name__.removeprefix("_run_")  # type: ignore[no-any-return]


def decorator(run: Callable[..., Any], function: Callable[..., Any] | None, **options: object) -> Any:
    """Return the transformed function; or, if `function` is None, a decorator.

    Raises:
        ParameterError: `argnums` or `params` is not a position or name.
    """
    for option in ("argnums", "params"):
        if option in options:
            _check_selection(run, option, options[option])
    if function is None:
        return lambda function: Transformed(run, function, options)
    return Transformed(run, function, options)


def _check_selection(run: Any, option: str, selection: object) -> None:
    if selection is None or type(selection) is int:  # common cases
        return
    several = list(selection) if isinstance(selection, (list, tuple, set, frozenset, range)) else [selection]
    if not all(isinstance(each, (int, str, np.integer)) for each in several):
        name = _name(run)
        raise errors.ParameterError(
            f"{option} of {name} must be positions or names of parameters, such as 0 or 'x'; "
            f"it is {selection!r:.200}.\n"
            f"Pass the point at which to differentiate in a second call: {name}(f)(x), not {name}(f, x)."
        )


def check_point(tool: str, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Raise if a tool that takes a function together with its arguments was given only the function.

    Raises:
        ParameterError: the function needs arguments, and none were given.
    """
    needed = [] if args or keywords else _needed(function)
    if needed:
        name, point = name_of(function), ", ".join(needed)
        name = name if name.isidentifier() else "f"
        raise errors.ParameterError(
            f"{tool} takes a function and its arguments, and no arguments were given for {point!r}.\n"
            f"Write fg.{tool}({name}, {point}), not fg.{tool}({name})({point})."
        )


def _needed(function: Callable[..., Any]) -> list[str]:
    """Return the names of the positional parameters without defaults; empty if they are unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in parameters if each.kind in kinds and each.default is each.empty]


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of the user's function in messages."""
    return getattr(function, "__name__", None) or repr(function)


def closed_over(name: str) -> errors.ClosureError:
    """Return the error for a function with a custom rule that uses a traced value which is not one of its inputs."""
    return errors.ClosureError(
        f"{name} has a custom derivative rule and uses a traced value that is not one of its arguments; the rule "
        "does not give its derivative.\n"
        "Pass the value (or the variable) as an argument, and return its derivative from the rule, too."
    )


def place_name(function: Any, place: Place) -> str:
    """Return the name of an argument in messages."""
    if isinstance(place, str):
        return repr(place)
    names = _parameters(function)
    return repr(names[place]) if place < len(names) else f"number {place}"


def _parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that can be passed by position; empty if they are unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def select(
    function: Callable[..., Any], selection: Selection, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[list[Place], dict[str, Any]]:
    """Find the arguments that names or positions select in one call.

    Args:
        function: the user's function, for its signature.
        selection: a name, a position or several of one kind; None means all positional arguments.
        args, keywords: the call.

    Returns:
        The places, and the keywords, to which a selected parameter that has its default value is added.

    Raises:
        ParameterError: there is no such parameter, or it was not passed and has no default.
    """
    if selection is None:
        return list(range(len(args))), keywords
    # Common cases
    if type(selection) is int and 0 <= selection < len(args):
        return [selection], keywords
    if type(selection) is tuple and all([type(each) is int and 0 <= each < len(args) for each in selection]):  # noqa: C419
        return list(selection), keywords
    chosen: list[int | str] = [selection] if isinstance(selection, (int, str, np.integer)) else list(selection)
    if len({isinstance(each, str) for each in chosen}) > 1:
        raise errors.ParameterError(f"params must be all names or all positions; got {chosen!r}.")
    places: list[Place] = []
    for each in chosen:
        if isinstance(each, str):
            place = _by_name(function, each, args, keywords)
        else:
            place = _by_position(function, operator.index(each), args)
        if isinstance(place, str) and place not in keywords:
            default = inspect.signature(function).parameters[place].default
            if default is inspect.Parameter.empty:
                raise errors.ParameterError(
                    f"{name_of(function)} cannot be differentiated with respect to {place!r}, which was not passed.\n"
                    f"Call the gradient function like the function itself, with a value for {place!r}."
                )
            keywords = {**keywords, place: default}
        places.append(place)
    return places, keywords


def _by_position(function: Callable[..., Any], position: int, args: tuple[Any, ...]) -> Place:
    if -len(args) <= position < len(args):
        return position % len(args)
    names = _parameters(function)
    if len(args) <= position < len(names):
        return names[position]
    by_keyword = [name for name in _all_parameters(function) if name not in names]
    raise errors.ParameterError(
        f"position {position} is out of range: {name_of(function)} was called with {len(args)} positional "
        f"argument{'s' if len(args) != 1 else ''}{' and has the parameters ' + ', '.join(names) if names else ''}."
        + ("" if args else "\nFor what f reads without being passed it, such as variables: fg.implicit_gradients(f)().")
        + "\nPositions count from 0"
        + (f"; select keyword-only parameters by name: {', '.join(map(repr, by_keyword))}." if by_keyword else ".")
    )


def _all_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of all parameters; empty if they are unknown."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _by_name(function: Callable[..., Any], name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Place:
    names = _parameters(function)
    if name in keywords:
        return name
    if name in names:
        return names.index(name) if names.index(name) < len(args) else name
    known = _all_parameters(function)
    if name in known and inspect.signature(function).parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
        return name
    raise errors.ParameterError(
        f"{name_of(function)} has no parameter {name!r}; "
        + (f"its parameters are {', '.join(known)}." if known else "its parameters have no known names: use positions.")
        + "".join(f"\nDid you mean {near!r}?" for near in difflib.get_close_matches(name, known, 1))
    )
