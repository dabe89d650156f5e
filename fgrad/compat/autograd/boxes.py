"""Values of types that users register with `Box.register`, which are differentiated as a whole.

A tensor holds such a value as an exact number: an `Element`, which is added by its vector space. The user's
functions get it in a box, an instance of the class that was registered for its type, and primitives its plain value.

    BOXED, SPACES     the box class and the vector space of each type
    opened(x)         the value or box for what fgrad computes with
    as_array(x)       what fgrad computes with, for a value or box
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from fgrad import is_traced
from fgrad.core.foreign import Objects, as_objects
from fgrad.core.layers import below
from fgrad.core.primitive import BOXES
from fgrad.errors import StructureError
from fgrad.typing import ArrayLike

BOXED: dict[type, Any] = {}
"""The class of boxes for the values of each registered type; those of arrays and numbers are tensors."""
BOX_CLASSES: set[type] = set()
SPACES: dict[type, Callable[[Any], Any]] = {}
"""Creates the vector space of a value, for each type that has one."""


class Element(Number):
    """A value of a registered type, as a number that can be added.

    Args:
        value: the value, or the box of an outer trace.

    Raises:
        StructureError: a TypeError; there is no vector space for its type.
    """

    __slots__ = ("value",)
    __hash__ = object.__hash__

    def __init__(self, value: Any) -> None:
        if type(value) not in SPACES:
            raise StructureError(
                f"{type(value).__name__} has a box, but no vector space, so that its derivatives cannot be added.\n"
                f"Define a subclass of VSpace, and register it: Space.register({type(value).__name__})."
            )
        self.value = value

    def __add__(self, other: object) -> Any:
        if type(other) is Element:
            return Element(SPACES[type(self.value)](self.value).add(self.value, other.value))
        return self if other == 0 else NotImplemented  # zeros of NumPy's, for no derivative

    __radd__ = __add__

    def __repr__(self) -> str:
        return repr(self.value)


def opened(x: object) -> Any:
    """Return the plain value of an element, the box of a traced one, and any other object unchanged."""
    if type(x) is Element:
        return x.value
    inner = below(x) if type(x) in BOXES else x
    element = inner.item() if type(inner) is Objects and not inner.shape else None
    if type(element) is not Element:
        return x
    if not is_traced(x):
        return element.value
    cls = BOXED[type(element.value)]
    box = cls.__new__(cls)
    box._tensor = x
    return box


def unboxed(x: Any) -> Any:
    """Return the tensor in a box, and any other object unchanged."""
    return x._tensor if type(x) in BOX_CLASSES else x


def as_array(x: Any) -> Any:
    """Return a value of a registered type, or its box, as an array or tensor, and any other object unchanged."""
    return as_objects(Element(x)) if type(x) in BOXED else unboxed(x)


def holds_element(x: ArrayLike) -> bool:
    """Return whether a tensor holds a value of a registered type."""
    return type(below(x)) is Objects


ZERO_ELEMENT = as_objects(0)
"""The derivative of a value of a registered type where it is zero."""


def zeros_of(x: object) -> Any:
    """Return the zero of a value of a registered type."""
    return SPACES[type(x)](x).zeros()
