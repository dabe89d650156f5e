"""Results of a solver besides its solution, which have no derivative: readable values, but not silent constants.

Aside(value, "hess_inv of minimize")    raises when used in an operation
aside(value, what)                      the same for real values; counts and flags are returned unchanged
reported("minimize", found)             the parts of SciPy's result, or of its results for the examples of a batch
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from fgrad import errors
from fgrad.typing import Array


class Aside:
    """A part of a result that depends on differentiated values, but is not differentiable.

    It is shown and compared like its value. It raises in arithmetic, in NumPy functions, and on conversion to a number
    or an array, and so does a transform whose function returns it: the derivative would be lost silently.

    Attributes:
        value: SciPy's result, plain, or for a batch with one entry per example.
        what: the name of the part in messages.
    """

    def __init__(self, value: Any, what: str) -> None:
        self.value, self.what = value, what

    def __repr__(self) -> str:
        return f"{self.value!r} ({self.what}, which is not differentiated)"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __bool__(self) -> bool:
        return bool(self.value)

    def refuse(self, *args: Array, **keywords: object) -> NoReturn:
        """Refuse to take part in a computation.

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


def aside(value: object, what: str) -> Any:
    """Return a part of a result marked as not differentiated; without real numbers it is returned unchanged."""
    if isinstance(value, (str, bytes, int, np.bool_, np.integer, type(None))):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind not in "fcO":
        return value
    return Aside(value, what)


def reported(function: str, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return SciPy's report with its parts marked as not differentiated, except counts and flags.

    For a batch each part is a list by example; but there is one flag, whether all of them succeeded.
    """
    if len(found) == 1:
        return {name: aside(value, f"{name} of {function}") for name, value in found[0].items()}
    parts = {}
    for name in found[0]:
        values, what = [each[name] for each in found], f"{name} of {function}"
        is_plain = all(aside(value, what) is value for value in values)
        parts[name] = all(values) if name in _FLAGS else values if is_plain else Aside(values, what)
    return parts


_FLAGS = ("success", "converged")
