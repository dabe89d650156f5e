"""Vector spaces of values: zeros, random elements, sums, inner products.

vspace(value)             the space of a number, an array, or a container of them
VSpace                    the base class; `register` assigns a space to a type
ArrayVSpace, ...          spaces of arrays, complex arrays, sequences and dicts
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

import fgrad as fg
from fgrad.compat.autograd.boxes import BOX_CLASSES, SPACES
from fgrad.compat.autograd.sparse import SparseObject
from fgrad.compat.autograd.values import getval
from fgrad.errors import StructureError
from fgrad.typing import Array, ArrayLike, Operand

AS_PRIMITIVES: dict[str, Callable[..., Any]] = {}
"""The operations of spaces of other values than arrays, as primitives: `operation(space, *vectors)`."""


class VSpace:
    """The vector space of a value. Subclasses override the operations.

    Args:
        value: one of its elements.
    """

    mappings: ClassVar[dict[type, Callable[[Any], Any]]] = SPACES
    iscomplex = False
    is_of_arrays = False
    """Whether its operations consist of operations on arrays, which are differentiated one by one."""

    def __init__(self, value: Any) -> None:
        pass

    @classmethod
    def register(cls, value_type: type, vspace_maker: Callable[[Any], Any] | None = None) -> None:
        """Register this space, or the result of `vspace_maker(value)`, for values of a type."""
        VSpace.mappings[value_type] = vspace_maker or cls

    def zeros(self) -> Any:
        raise NotImplementedError(type(self).__name__)

    def ones(self) -> Any:
        raise NotImplementedError(type(self).__name__)

    def standard_basis(self) -> Iterator[Any]:
        raise NotImplementedError(type(self).__name__)

    def randn(self) -> Any:
        raise NotImplementedError(type(self).__name__)

    def add(self, x_prev: object, x_new: object) -> Any:
        return self._run("_add", x_prev, x_new)

    def mut_add(self, x_prev: ArrayLike | None, x_new: object) -> Any:
        return self._run("_mut_add", self.zeros() if x_prev is None else x_prev, x_new)

    def scalar_mul(self, x: object, a: Any) -> Any:
        return self._run("_scalar_mul", x, a)

    def inner_prod(self, x: object, y: object) -> Any:
        return self._run("_inner_prod", x, y)

    def covector(self, x: object) -> Any:
        return self._run("_covector", x)

    def _run(self, name: str, *vectors: object) -> Any:
        return getattr(self, name)(*vectors) if self.is_of_arrays else AS_PRIMITIVES[name](self, *vectors)

    # Operations that subclasses may override

    def _add(self, x: Operand, y: Array) -> Any:
        return x + y

    def _mut_add(self, x: Array, y: Operand) -> Array:
        x += y
        return x

    def _scalar_mul(self, x: Array, a: Operand) -> Any:
        return x * a

    def _inner_prod(self, x: Any, y: Any) -> Any:
        raise NotImplementedError(type(self).__name__)

    def _covector(self, x: object) -> Any:
        return x

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # the spaces of containers hold others

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__}({inside})"


class ArrayVSpace(VSpace):
    """The space of real arrays of one shape and dtype, or of numbers."""

    is_of_arrays = True

    def __init__(self, value: Array | float) -> None:
        self.shape: Any = np.shape(value)
        self.dtype = value.dtype if hasattr(value, "dtype") else np.result_type(value)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def zeros(self) -> Any:
        return np.zeros(self.shape, self.dtype)

    def ones(self) -> Any:
        return np.ones(self.shape, self.dtype)

    def standard_basis(self) -> Iterator[Any]:
        for place in np.ndindex(*self.shape):
            yield self._unit(place, 1)

    def _unit(self, place: tuple[int, ...], number: complex) -> Any:
        unit = self.zeros()
        unit[place] = number
        return unit

    def randn(self) -> Any:
        return np.asarray(np.random.randn(*self.shape)).astype(self.dtype)

    def _inner_prod(self, x: Operand, y: Operand) -> Any:
        return np.dot(np.ravel(x), np.ravel(y))


class ComplexArrayVSpace(ArrayVSpace):
    """The space of complex arrays, as a real vector space of twice the dimension."""

    iscomplex = True

    @property
    def size(self) -> int:
        return 2 * int(np.prod(self.shape))

    def ones(self) -> Any:
        return np.full(self.shape, 1 + 1j, self.dtype)

    def standard_basis(self) -> Iterator[Any]:
        for place, number in itertools.product(np.ndindex(*self.shape), (1, 1j)):
            yield self._unit(place, number)

    def randn(self) -> Any:
        real, imaginary = np.random.randn(2, *self.shape)
        return np.asarray(real + 1j * imaginary).astype(self.dtype)

    def _inner_prod(self, x: Any, y: Any) -> Any:
        return np.real(np.dot(np.conj(np.ravel(x)), np.ravel(y)))

    def _covector(self, x: Any) -> Any:
        return np.conj(x)


class ContainerVSpace(VSpace):
    """The product space of containers.

    Attributes:
        shape: the container, with spaces in place of values.
    """

    is_of_arrays = True

    def __init__(self, value: Any) -> None:
        self.shape: Any = self._built(map(vspace, self._values(value)), value)

    def _values(self, value: Any) -> list[Any]:
        return list(value.values() if isinstance(value, dict) else value)

    def _built(self, values: Any, like: Any) -> Any:
        if isinstance(like, dict):
            return dict(zip(like, values, strict=True))
        return like._make(values) if hasattr(like, "_make") else type(like)(values)

    def _with_spaces(self, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Return each space with the parts of containers that are in it; the order of keys may differ."""
        if isinstance(self.shape, dict):
            values = tuple([value[key] for key in self.shape] for value in values)
        return zip(self._values(self.shape), *values, strict=True)

    def _each(self, method: str, *values: Any) -> list[Any]:
        return [getattr(space, method)(*parts) for space, *parts in self._with_spaces(*values)]

    def _map(self, method: str, *values: object) -> Any:
        return self._built(self._each(method, *values), self.shape)

    @property
    def size(self) -> int:
        return sum(space.size for space in self._values(self.shape))

    def zeros(self) -> Any:
        return self._map("zeros")

    def ones(self) -> Any:
        return self._map("ones")

    def randn(self) -> Any:
        return self._map("randn")

    def standard_basis(self) -> Iterator[Any]:
        for place, space in enumerate(self._values(self.shape)):
            for unit in space.standard_basis():
                values = self._each("zeros")
                values[place] = unit
                yield self._built(values, self.shape)

    def _add(self, x: object, y: object) -> Any:
        return self._map("add", x, y)

    def _mut_add(self, x: object, y: object) -> Any:
        return self._map("mut_add", x, y)

    def _scalar_mul(self, x: object, a: Operand) -> Any:
        return self._built([space.scalar_mul(part, a) for space, part in self._with_spaces(x)], self.shape)

    def _inner_prod(self, x: object, y: object) -> Any:
        return sum(self._each("inner_prod", x, y))

    def _covector(self, x: object) -> Any:
        return self._map("covector", x)


class SequenceVSpace(ContainerVSpace):
    """The space of lists, tuples and named tuples."""


class ListVSpace(SequenceVSpace):
    """The space of lists."""


class TupleVSpace(SequenceVSpace):
    """The space of tuples."""


class NamedTupleVSpace(SequenceVSpace):
    """The space of named tuples."""


class DictVSpace(ContainerVSpace):
    """The space of dicts."""


def _of_array(value: Array) -> VSpace:
    return ComplexArrayVSpace(value) if np.iscomplexobj(value) else ArrayVSpace(value)


for _real, _complex in ((float, complex), (np.float32, np.complex64), (np.float64, np.complex128)):
    ArrayVSpace.register(_real)
    ComplexArrayVSpace.register(_complex)
ArrayVSpace.register(np.float16)
ArrayVSpace.register(np.longdouble)
ComplexArrayVSpace.register(np.clongdouble)
VSpace.register(np.ndarray, _of_array)
ListVSpace.register(list)
TupleVSpace.register(tuple)
DictVSpace.register(dict)
VSpace.register(SparseObject, lambda x: x.vs)


def vspace(value: object) -> Any:
    """Return the vector space of a number, an array or a container of them.

    Raises:
        StructureError: a TypeError; the type of the value is not registered: use `VSpace.register`.

    Example:
        >>> import numpy as np
        >>> space = vspace({"a": np.ones(2), "b": 1.0})
        >>> space.size, space.zeros()
        (3, {'a': array([0., 0.]), 'b': array(0.)})
    """
    if isinstance(value, (fg.Tensor, fg.Variable)):
        return _of_array(value) if value.dtype.kind in "fc" else vspace(getval(value))
    if type(value) in BOX_CLASSES:
        return vspace(getval(value))
    if type(value) in VSpace.mappings:
        return VSpace.mappings[type(value)](value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return NamedTupleVSpace(value)
    raise StructureError(
        f"{value!r:.200} of type {type(value).__name__} has no registered vector space, and no "
        "derivative.\nPass floating-point numbers, arrays or containers of them; VSpace.register adds a type."
    )
