"""Types for annotations, as in `numpy.typing`: arrays and tensors, and what is taken as one.

    Array        a NumPy array, a tensor or variable, or an array of another library
    Operand      the same, or a Python number: what operators and derivative rules take as it is
    ArrayLike    what is converted to an array: numbers, nested sequences, arrays, tensors
    DTypeLike    what is converted to a dtype: `float`, `"float32"`, `np.float32`
    Axes         one axis, several, or None for all
    Shape        the size along each axis

A function that takes plain arrays and tensors alike is annotated with these. They are for type checkers: nothing is
converted or checked when a program runs.

Example:
    >>> import numpy as np, fgrad as fg
    >>> from fgrad.typing import Array, ArrayLike
    >>> def distance(x: ArrayLike, y: ArrayLike) -> Array:
    ...     return np.sqrt(np.sum(np.square(np.subtract(x, y))))
    >>> fg.grad(distance)([3.0, 0.0], [0.0, 4.0])
    [Tensor(0.6), Tensor(-0.8)]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "ArrayLike", "Axes", "DTypeLike", "Operand", "Shape"]

__dir__ = __all__.copy


class Array(Protocol):
    """What NumPy's arrays, fgrad's tensors and variables, and arrays of other libraries have in common.

    It is a protocol: an object is an `Array` for a type checker if it has these attributes, methods and operators,
    which have NumPy's meaning. What operations return is not said, as it is not by NumPy: an array, or a single number.

    Attributes:
        shape, ndim, size: the size along each axis, the number of axes, and the number of elements.
        dtype: of the elements.
        T: the transpose.
        real, imag: the parts of complex numbers.

    Example:
        >>> from fgrad.typing import Array
        >>> def energy(position: Array, velocity: Array) -> Array:
        ...     return (velocity**2).sum() / 2 - 1 / position[0]
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The size along each axis."""

    @property
    def ndim(self) -> int:
        """The number of axes."""

    @property
    def size(self) -> int:
        """The number of elements."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""

    @property
    def T(self) -> Array:  # noqa: N802  # NumPy's name
        """The transpose."""

    @property
    def real(self) -> Any:
        """The real part."""

    @property
    def imag(self) -> Any:
        """The imaginary part."""

    def __array__(self) -> npt.NDArray[Any]: ...

    def __getitem__(self, key: Any, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...

    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...
    def __index__(self) -> int: ...

    def __neg__(self) -> Any: ...
    def __pos__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __invert__(self) -> Any: ...

    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __floordiv__(self, other: Any, /) -> Any: ...
    def __rfloordiv__(self, other: Any, /) -> Any: ...
    def __mod__(self, other: Any, /) -> Any: ...
    def __rmod__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __rpow__(self, other: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __rmatmul__(self, other: Any, /) -> Any: ...
    def __and__(self, other: Any, /) -> Any: ...
    def __rand__(self, other: Any, /) -> Any: ...
    def __or__(self, other: Any, /) -> Any: ...
    def __ror__(self, other: Any, /) -> Any: ...
    def __xor__(self, other: Any, /) -> Any: ...
    def __rxor__(self, other: Any, /) -> Any: ...

    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __eq__(self, other: Any, /) -> Any: ...
    def __ne__(self, other: Any, /) -> Any: ...

    def item(self, *args: Any) -> Any:
        """Return the only element as a Python number."""

    def tolist(self) -> Any:
        """Return nested lists of Python numbers."""

    def copy(self) -> Any:
        """Return a copy."""

    def astype(self, dtype: Any, /) -> Any:
        """Return the elements in another dtype."""

    def reshape(self, shape: Any, /, *sizes: Any) -> Any:
        """Return the elements in another shape."""

    def ravel(self) -> Any:
        """Return the elements along one axis."""

    def transpose(self, *axes: Any) -> Any:
        """Return the array with its axes in another order."""

    def swapaxes(self, axis1: Any, axis2: Any, /) -> Any:
        """Return the array with two axes exchanged."""

    def squeeze(self, axis: Any = None) -> Any:
        """Return the array without axes of size 1."""

    def conj(self) -> Any:
        """Return the complex conjugate."""

    def sum(self, axis: Any = None) -> Any:
        """Return the sum, of all elements or along axes."""

    def prod(self, axis: Any = None) -> Any:
        """Return the product, of all elements or along axes."""

    def mean(self, axis: Any = None) -> Any:
        """Return the mean, of all elements or along axes."""

    def max(self, axis: Any = None) -> Any:
        """Return the largest element, of all or along axes."""

    def min(self, axis: Any = None) -> Any:
        """Return the smallest element, of all or along axes."""

    def all(self, axis: Any = None) -> Any:
        """Return whether all elements are true, of the whole or along axes."""

    def any(self, axis: Any = None) -> Any:
        """Return whether any element is true, of the whole or along axes."""


Operand: TypeAlias = Array | complex
"""An array, or a Python number; for type checkers, `complex` includes `int` and `float`."""

ArrayLike: TypeAlias = npt.ArrayLike | Sequence[Any]
"""What is converted to an array, as by `np.asarray`: a number, an array, tensor or variable, nested sequences of these,
or an object with the method `__array__`. NumPy's type of this name has no sequences of both tensors and numbers."""

DTypeLike: TypeAlias = npt.DTypeLike
"""What is converted to a dtype: a dtype, a type such as `float` or `np.float32`, or a name such as "float32"."""

Axes: TypeAlias = int | np.integer[Any] | tuple[int | np.integer[Any], ...] | None
"""One axis, several, or None for all; integers of NumPy serve, too."""

Shape: TypeAlias = tuple[int, ...]
"""The size along each axis."""
