"""The elements of a graph: names, and equations between them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.ops.indexing import ARRAY
from fgrad.typing import Array

PYTHONS = {bool, int, float, complex}
"""The types of Python's numbers."""
_LONGEST_INLINE = 4
_WORTH_NO_COPY = 1 << 14
"""Size in bytes from which arrays are compared without copies."""


class Name:
    """A variable of a graph, bound by an equation, an input or a constant: a shape, a dtype, and a printed text.

    Attributes:
        text: the printed text, such as `a`; assigned when the graph is finished.
        shape, dtype: those of its values.
        is_weak: whether it stands for a Python number, which takes the dtype of the other operand.
    """

    __slots__ = ("text", "shape", "dtype", "is_weak")

    def __init__(self, value: Any, is_weak: bool = False) -> None:
        self.text = "?"
        self.shape: tuple[int, ...] = value.shape
        self.dtype: np.dtype[Any] = value.dtype
        self.is_weak = is_weak

    @property
    def form(self) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
        """The shape, the dtype and whether it is weak."""
        return self.shape, self.dtype, self.is_weak

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{self.text}: {kind_of(self)}"


@dataclass(slots=True, eq=False)
class Equation:
    """One line of a graph: `outputs = primitive[metadata] inputs`.

    Attributes:
        outputs: the names it binds; most primitives have one.
        primitive: the operation.
        inputs: names, and constants that are short enough to be printed inline.
        metadata: the primitive's keywords.
        quiet: whether it ran without NumPy's warnings, as derivative passes do, and will again.
        direct: whether the implementation itself dispatches to traces (see `record_call`).
        place: the user's file and line it belongs to, None if unknown.
    """

    outputs: tuple[Name, ...]
    primitive: Primitive
    inputs: tuple[Any, ...]
    metadata: Mapping[str, Any]
    quiet: bool
    direct: bool = False
    place: tuple[str, int] | None = None

    @property
    def line(self) -> str:
        """The user's line as text, empty if unknown."""
        return errors.line_at(self.place) if self.place else ""

    def run(self, values: Mapping[Name, Any]) -> Iterator[tuple[Name, Any]]:
        """Return the names it binds with their values.

        Raises:
            GraphInputError: a value has another shape or dtype than recorded, such as fewer roots.
        """
        answers = self.computed([values[each] if type(each) is Name else each for each in self.inputs])
        return zip(self.outputs, answers, strict=True)

    def computed(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Return the results for given inputs.

        Raises:
            GraphInputError: a result has another shape or dtype than recorded, such as fewer roots.
        """
        if not self.primitive.is_elementwise:
            inputs = [_in_numpys_way(x, name) for x, name in zip(inputs, self.inputs, strict=True)]
        if self.quiet:
            with np.errstate(all="ignore"):
                ans = self._computed(inputs)
        else:
            ans = self._computed(inputs)
        answers = ans if type(ans) is tuple else (ans,)
        for name, each in zip(self.outputs, answers, strict=True):
            self._check(name, each)
        return answers

    def _check(self, name: Name, found: Any) -> None:
        if name.is_weak:
            if type(found) not in PYTHONS or name.dtype.kind in _KINDS[type(found)]:
                return
            found = np.asarray(found)
        if found.shape != name.shape or not np.can_cast(found.dtype, name.dtype, "same_kind"):
            raise errors.GraphInputError(
                f"{self.primitive.name} gives {kind_of(found)} for these values, and gave {kind_of(name)} when the "
                "graph was recorded; the rest of the graph is only valid for that.\n"
                "Record a graph for values of this kind, or call the function itself."
            )

    def _computed(self, inputs: list[Any]) -> Any:
        if self.direct:
            return self.primitive.implementation(*inputs, **self.metadata)
        if not self.outputs[0].is_weak:
            return apply(self.primitive, inputs, self.metadata)
        ans = of_integers(self.primitive, inputs)
        return in_pythons_way(apply(self.primitive, inputs, self.metadata)) if ans is None else ans

    def operation(self) -> str:
        """Return the primitive with its metadata, as the graph prints them."""
        listed = ", ".join(f"{name}={shown(value)}" for name, value in self.metadata.items())
        return f"{self.primitive.name}[{listed}]" if listed else self.primitive.name

    def __str__(self) -> str:
        inputs = "".join(f" {each if type(each) is Name else shown(each)}" for each in self.inputs)
        return f"{', '.join(map(repr, self.outputs))} = {self.operation()}{inputs}"

    __repr__ = __str__


def names_of(values: Iterable[Any]) -> list[Name]:
    """Return the names among inputs or outputs, some of which may be constants."""
    return [x for x in values if type(x) is Name]


def renamed(values: Iterable[Any], names: Mapping[Any, Any]) -> list[Any]:
    """Return inputs or outputs with what stands for a name in its place, if that is known."""
    return [names.get(x, x) if type(x) is Name else x for x in values]


def in_pythons_way(value: Array) -> Any:
    """Return a NumPy number as a Python number; tensors unchanged."""
    is_number = isinstance(value, np.generic) or (type(value) is np.ndarray and not value.shape)
    return value.item() if is_number else value


OPERATORS: dict[str, Any] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "negative": operator.neg,
    "positive": operator.pos,
    "abs": operator.abs,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
}
"""Operators that return Python numbers for Python numbers, which take the dtype of the other operand."""


def of_integers(primitive: Primitive, values: Sequence[Any]) -> Any:
    """Return the result of Python's own operator for integers, which are unbounded there; None for other operands.

    Floating-point numbers are computed by NumPy: `1.0 / x` at 0.0 is inf, as it is for tensors.
    """
    if primitive.name not in OPERATORS or any(type(x) is not int for x in values):
        return None
    return OPERATORS[primitive.name](*values)


def _in_numpys_way(value: Array, name: object) -> Any:
    """Return a Python number as a NumPy number if it is the value of a name; other values unchanged."""
    return name.dtype.type(value) if type(name) is Name and name.is_weak and type(value) in PYTHONS else value


_KINDS = {bool: "bifc", int: "ifc", float: "fc", complex: "c"}
"""The kinds of dtypes that can hold Python numbers."""


def kind_of(value: Any) -> str:
    """Return a dtype and a shape, as in `float64[2,3]`."""
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"


def shown(value: Any) -> str:
    """Return a short text for a constant or an entry of the metadata."""
    if value is ARRAY:
        return "_"
    if value is Ellipsis:
        return "..."
    if isinstance(value, slice):
        parts = ["" if part is None else str(part) for part in (value.start, value.stop, value.step)]
        return ":".join(parts if value.step is not None else parts[:2])
    if isinstance(value, (tuple, list)):
        text = ", ".join(map(shown, value))
        return f"[{text}]" if isinstance(value, list) else f"({text}{',' * (len(value) == 1)})"
    if isinstance(value, (np.ndarray, np.generic)):
        return str(value.tolist()) if is_short(value) else kind_of(value)
    if isinstance(value, (type, np.dtype)) and (not isinstance(value, type) or issubclass(value, np.generic)):
        return np.dtype(value).name
    return getattr(value, "__name__", None) or repr(value)


def is_short(value: Any) -> bool:
    """Return whether a constant may be printed inline in an equation."""
    return value.ndim <= 1 and value.size <= _LONGEST_INLINE  # type: ignore[no-any-return]


def same_bits(one: Any, other: Any) -> bool:
    """Return whether two arrays of one shape and dtype are equal bit by bit: 0.0 is not -0.0, and nan is nan.

    Some bytes of long doubles are padding, and the bytes of objects are their addresses.
    """
    if type(one) is np.float64:  # common case
        return bool(one.tobytes() == other.tobytes())
    if one.dtype.names:
        return all(same_bits(one[name], other[name]) for name in one.dtype.names)
    if one.dtype.hasobject:
        return all(map(_same_object, one.ravel().tolist(), other.ravel().tolist()))
    if one.dtype.char in "gG":
        return _same_long(one.real, other.real) and (one.dtype.char == "g" or _same_long(one.imag, other.imag))
    kind = f"u{one.itemsize}"
    if one.nbytes < _WORTH_NO_COPY or one.itemsize not in (1, 2, 4, 8):
        return bool(np.ravel(one).tobytes() == np.ravel(other).tobytes())  # `tobytes` of NumPy 2.2 refuses 33 axes
    return bool(np.array_equal(one.view(kind), other.view(kind)))


def _same_long(one: Any, other: Any) -> bool:
    return np.array_equal(one, other, equal_nan=True) and np.array_equal(np.signbit(one), np.signbit(other))


def _same_object(one: object, other: Any) -> bool:
    return one is other or (type(one) is type(other) and repr(one) == repr(other) and bool(np.all(one == other)))
