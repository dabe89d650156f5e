"""What a graph is made of: names, and equations between them."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.ops.indexing import ARRAY

_LONGEST_INLINE = 4
_WORTH_NO_COPY = 1 << 14
"""Bytes from which on arrays are compared where they lie."""


class Name:
    """What an equation, an input or a constant binds: a shape and a dtype, and a text to print.

    Attributes:
        text: as the graph prints it, such as `a`; given when the graph is finished.
        shape, dtype: of the arrays that it can stand for.
        is_weak: it stands for a number of Python's, which takes the dtype of the array that it meets.
    """

    __slots__ = ("text", "shape", "dtype", "is_weak")

    def __init__(self, value: Any, is_weak: bool = False) -> None:
        self.text = "?"
        self.shape: tuple[int, ...] = value.shape
        self.dtype: np.dtype[Any] = value.dtype
        self.is_weak = is_weak

    @property
    def form(self) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
        """All that two names can differ in, besides what they stand for."""
        return self.shape, self.dtype, self.is_weak

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{self.text}: {kind_of(self)}"


@dataclass(slots=True, eq=False)
class Equation:
    """One line of a graph: `outputs = primitive[metadata] inputs`.

    Attributes:
        outputs: the names that it binds; most primitives have one.
        primitive: the operation.
        inputs: names, and constants that are short enough to stand in the line.
        metadata: the primitive's keywords.
        quiet: it ran without NumPy's warnings, as the passes of derivatives do, and will again.
        direct: the implementation itself decides what it means to each trace (see `record_call`).
        place: the user's file and line that it is for, None if that was not noted.
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
        """The user's line as text, empty if it was not noted."""
        return errors.line_at(self.place) if self.place else ""

    def run(self, values: Mapping[Name, Any]) -> Iterator[tuple[Name, Any]]:
        """Return the names that it binds with their values.

        Raises:
            GraphInputError: a value has another form than the program was written for, such as fewer roots.
        """
        answers = self.computed([values[each] if type(each) is Name else each for each in self.inputs])
        return zip(self.outputs, answers, strict=True)

    def computed(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Return the results for other inputs.

        Raises:
            GraphInputError: a result has another form than the program was written for, such as fewer roots.
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
            if type(found) not in _PYTHONS or name.dtype.kind in _KINDS[type(found)]:
                return
            found = np.asarray(found)
        if found.shape != name.shape or not np.can_cast(found.dtype, name.dtype, "same_kind"):
            raise errors.GraphInputError(
                f"{self.primitive.name} gives {kind_of(found)} for these values, and {kind_of(name)} for those with "
                "which the graph was recorded, for which alone the rest of it was written.\n"
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


def in_pythons_way(value: Any) -> Any:
    """Return a number of NumPy's as one of Python's; tensors as they are."""
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
}
"""What gives numbers of Python's for numbers of Python's, which take the dtype of the array that they meet."""


def of_integers(primitive: Primitive, values: Sequence[Any]) -> Any:
    """Return what Python's own operator makes of integers, which have no bounds there; None if it is to make nothing.

    Numbers with a point are computed by NumPy: `1.0 / x` at 0.0 is inf, as it is for tensors.
    """
    if primitive.name not in OPERATORS or any(type(x) is not int for x in values):
        return None
    return OPERATORS[primitive.name](*values)


def _in_numpys_way(value: Any, name: Any) -> Any:
    """Return a number of Python's, for which a name stands, as one of NumPy's; all else as it is."""
    return name.dtype.type(value) if type(name) is Name and name.is_weak and type(value) in _PYTHONS else value


_PYTHONS = {bool, int, float, complex}
_KINDS = {bool: "bifc", int: "ifc", float: "fc", complex: "c"}
"""The kinds of dtypes that hold numbers of Python's."""


def kind_of(value: Any) -> str:
    """Return a dtype and a shape, as `float64[2,3]`."""
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"


def shown(value: Any) -> str:
    """Return a constant or an entry of the metadata in short."""
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
    """Return whether a constant may stand in an equation."""
    return value.ndim <= 1 and value.size <= _LONGEST_INLINE  # type: ignore[no-any-return]


def same_bits(one: Any, other: Any) -> bool:
    """Return whether two arrays of one form hold the same, bit by bit: 0.0 is not -0.0, and nan is nan.

    Of long doubles some bytes are no part of the number, and of objects the bytes say where they lie.
    """
    if one.dtype.names:
        return all(same_bits(one[name], other[name]) for name in one.dtype.names)
    if one.dtype.hasobject:
        return all(map(_same_object, one.ravel().tolist(), other.ravel().tolist()))
    if one.dtype.char in "gG":
        return _same_long(one.real, other.real) and (one.dtype.char == "g" or _same_long(one.imag, other.imag))
    kind = f"u{one.itemsize}"
    if one.nbytes < _WORTH_NO_COPY or one.itemsize not in (1, 2, 4, 8):
        return bool(one.tobytes() == other.tobytes())
    return bool(np.array_equal(one.view(kind), other.view(kind)))


def _same_long(one: Any, other: Any) -> bool:
    return np.array_equal(one, other, equal_nan=True) and np.array_equal(np.signbit(one), np.signbit(other))


def _same_object(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and repr(one) == repr(other) and bool(np.all(one == other)))
