"""Conversion of operators on functions of one argument to operators on functions of any arguments."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.compat.autograd.sequences import subvals
from fgrad.errors import ParameterError


def get_name(f: Callable[..., Any]) -> str:
    """Return the name of a function, or a substitute."""
    return getattr(f, "__name__", "[unknown name]")


def get_doc(f: Callable[..., Any]) -> str:
    """Return the docstring of a function."""
    return getattr(f, "__doc__", None) or ""


def wraps(
    fun: Callable[..., Any], namestr: str = "{fun}", docstr: str = "{doc}", **kwargs: object
) -> Callable[[Any], Any]:
    """Return a decorator that sets the name and docstring of a function, from those of `fun`."""

    def wrapped(f: Callable[..., Any]) -> Callable[..., Any]:
        with contextlib.suppress(Exception):  # a name with braces, or an object without settable attributes
            f.__name__ = namestr.format(fun=get_name(fun), **kwargs)
            f.__doc__ = docstr.format(fun=get_name(fun), doc=get_doc(fun), **kwargs)
        return f

    return wrapped


_DOC = "    {op} of function {fun} with respect to the argument at position {argnum}.\n"


def unary_to_nary(unary_operator: Callable[..., Any]) -> Callable[..., Any]:
    """Convert an operator on functions of a single argument to one on functions of any arguments.

    Args:
        unary_operator: `unary_operator(fun, x, *args, **kwargs)`, such as the gradient of `fun` at `x`.

    Returns:
        `operator(fun, argnum=0, *args, **kwargs)`, which returns a function of the arguments of `fun`. `argnum` is the
        position of the argument `x`, or several positions, whose arguments are then a tuple.
    """

    @functools.wraps(unary_operator)
    def nary_operator(fun: Callable[..., Any], argnum: object = 0, *op_args: object, **op_kwargs: object) -> Any:
        if not isinstance(argnum, (int, tuple, list)):
            raise ParameterError(f"argnum must be a position or several of them in a tuple or list, not {argnum!r}.")

        @wraps(fun, "{op}_of_{fun}_wrt_argnum_{argnum}", _DOC, op=get_name(unary_operator), argnum=argnum)
        def nary_function(*args: object, **kwargs: object) -> Any:
            def unary_function(x: Any) -> Any:
                chosen = [(argnum, x)] if isinstance(argnum, int) else zip(argnum, x, strict=True)
                return fun(*subvals(args, chosen), **kwargs)

            unary_function.__name__ = get_name(fun)
            return unary_operator(unary_function, _chosen(fun, args, argnum), *op_args, **op_kwargs)

        return nary_function

    return nary_operator


def _chosen(fun: Callable[..., Any], args: tuple[Any, ...], argnum: int | Sequence[int]) -> Any:
    try:
        return args[argnum] if isinstance(argnum, int) else tuple(args[place] for place in argnum)
    except IndexError:
        raise ParameterError(
            f"{get_name(fun)} was called with {len(args)} positional arguments, but argnum is {argnum}.\n"
            "Pass differentiated arguments by position."
        ) from None
