"""What a solver reports besides its solution, and what has no derivative: a value to look at, and no silent constant.

Aside(value, "hess_inv of minimize")    raises where it meets an operation
aside(value, what)                      the same, of what has a derivative to lose; counts and flags as they are
aside_of_batch(values, what)            the same of a batch, with one value for each example
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from fgrad import errors
from fgrad.rules.closures import followers


class Aside:
    """A part of a result that depends on what is differentiated, and has no derivative of its own.

    It is shown and compared like its value. In arithmetic, in functions of NumPy, and as a number or an array it
    raises, and so does a transform whose function returns it: the derivative would be lost without a word.

    Attributes:
        value: what SciPy has found: plain, or of a batch with the examples of all.
        what: the name of the part, for messages.
    """

    def __init__(self, value: Any, what: str) -> None:
        self.value, self.what = value, what

    def __repr__(self) -> str:
        return f"{self.value!r} ({self.what}, which is not differentiated)"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __bool__(self) -> bool:
        return bool(self.value)

    def refuse(self, *args: Any, **keywords: Any) -> NoReturn:
        """Refuse to become a part of what is computed.

        Raises:
            UnsupportedError: a NotImplementedError; always.
        """
        raise errors.UnsupportedError(
            f"{self.what} is not differentiated, and it depends on what is.\n  at {errors.users_line()}\n"
            "Its `value` is what SciPy has found, to be looked at or used as a constant; what has a derivative is the "
            "solution, and what you compute from it with functions of NumPy or with fg.jacobian and fg.hessian."
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.refuse()

    __array_ufunc__ = __array_function__ = __array__ = refuse
    __float__ = __int__ = __complex__ = __index__ = __len__ = __iter__ = __getitem__ = __call__ = refuse
    __neg__ = __pos__ = __abs__ = refuse


def _compared(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: compare(self.value, other.value if isinstance(other, Aside) else other)


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Aside, f"__{_name}__", _compared(getattr(operator, _name)))
for _name in ("add", "sub", "mul", "truediv", "pow", "matmul", "floordiv", "mod"):
    setattr(Aside, f"__{_name}__", Aside.refuse)
    setattr(Aside, f"__r{_name}__", Aside.refuse)


def aside(value: Any, what: str) -> Any:
    """Return a part of a result as one that is not differentiated; what holds no real numbers as it is."""
    if isinstance(value, (str, bytes, int, np.bool_, np.integer, type(None))):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind not in "fcO":
        return value
    return Aside(value, what)


def aside_of_batch(values: list[Any], what: str) -> Any:
    """Return what is reported of each example of a batch, as a list that is not differentiated either."""
    return values if all(aside(value, what) is value for value in values) else Aside(values, what)


def is_constant_elsewhere(leaves: list[Any]) -> bool:
    """Return whether a trace follows leaves to which what is not computed by traced operations would be constant.

    To a batch it is not: each of its examples is solved for itself.
    """
    return any(not trace.is_map for trace in followers(leaves))
