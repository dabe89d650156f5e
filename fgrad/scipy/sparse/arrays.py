"""Sparse arrays whose elements may be traced: `csr_array`, `csc_array`, `coo_array`.

An array is a fixed pattern, and elements, which are one array or tensor. Products are those of
`_products.py`; other operations select elements, or sum some of them. Rearrangements are SciPy's:
`rearranged` applies them to labels in place of elements.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import scipy.sparse

from fgrad import errors
from fgrad.core.coerce import as_array, holds_tensors
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, boxed, strip_ended
from fgrad.core.tree import register_pytree_node
from fgrad.ops.elementwise import astype
from fgrad.ops.tracing import raw_array
from fgrad.scipy.sparse._patterns import FORMATS, Pattern, placed
from fgrad.scipy.sparse._products import product, summed
from fgrad.typing import Array, ArrayLike, DTypeLike, Operand, Shape

_SCIPY: Any = scipy.sparse

_SHOWN = 10
"""Of more elements than these, the first and the last ones are printed."""


class SparseArray:
    """A matrix with some stored elements; the others are constantly 0.

    It has the operators and methods of SciPy's sparse arrays, differentiable with respect to its elements and the other
    operand. It is a container with one leaf, its elements `data`; so transforms and optimizers accept and return
    it. It is immutable.

    Attributes:
        data: the elements, of shape (nnz,); an array or a tensor.
        pattern: their positions.
        format: "coo", "csr" or "csc".
        shape, nnz, dtype: as in SciPy's arrays.
        coords: the rows and the columns of the elements.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> a = csr_array(np.array([[0.0, 2.0], [3.0, 0.0]]))
        >>> fg.grad(lambda a: np.sum(a @ np.array([1.0, 5.0])))(a)
        <csr_array of 2 x 2 with 2 stored elements: Tensor([5., 1.])>
    """

    format: ClassVar[str]
    ndim: ClassVar[int] = 2
    data: Any
    pattern: Pattern

    __slots__ = ("data", "pattern", "__weakref__")
    __array_ufunc__ = None  # operators of arrays and tensors defer to those below
    __hash__ = None  # type: ignore[assignment]
    __iter__ = None

    def __init__(
        self, arg1: Any, shape: tuple[int, int] | None = None, dtype: DTypeLike | None = None, copy: bool = False
    ) -> None:
        whole = _from_argument(arg1, shape, self.format)
        whole = whole.asformat(self.format)
        object.__setattr__(self, "pattern", whole.pattern)
        object.__setattr__(self, "data", whole.data if dtype is None else as_array(whole.data, np.dtype(dtype)))

    def __setattr__(self, name: str, value: ArrayLike) -> NoReturn:
        raise errors.UnsupportedError(
            f"a sparse array of fgrad is immutable, but `{name}` was assigned to.\n  at "
            f"{errors.users_line()}\nMake a new array: A.with_data(data) has the same pattern."
        )

    __setitem__ = __setattr__

    def __getattr__(self, name: str) -> Any:
        raise _missing(self, name)

    def __reduce__(self) -> Any:
        return made, (self.pattern, self.data)

    def __repr__(self) -> str:
        rows, columns = self.shape
        with np.printoptions(threshold=_SHOWN, edgeitems=2):
            elements = repr(self.data)
        return f"<{type(self).__name__} of {rows} x {columns} with {self.nnz} stored elements: {elements}>"

    def __bool__(self) -> NoReturn:
        raise ValueError("The truth value of an array with more than one element is ambiguous.")

    def __len__(self) -> NoReturn:
        raise TypeError("sparse array length is ambiguous; use shape[0]")

    def __array__(self, dtype: DTypeLike | None = None, copy: Any = None) -> NoReturn:
        raise errors.StructureError(
            f"a sparse array of fgrad cannot be converted to a NumPy array.\n  at {errors.users_line()}\n"
            "Write A.toarray() for all of its elements, A.data for those that are stored, and A @ x, A.sum(axis) or "
            "A.multiply(x) in place of NumPy functions."
        )

    def __eq__(self, other: object) -> bool:
        raise errors.UnsupportedError(
            f"sparse arrays of fgrad do not support comparisons.\n  at {errors.users_line()}\n"
            "Compare A.data with B.data, if both have the same pattern, or A.toarray() with B.toarray()."
        )

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__

    # Properties

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.pattern.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self.data.dtype  # type: ignore[no-any-return]

    @property
    def nnz(self) -> int:
        """The number of stored elements."""
        return self.pattern.nnz

    size = nnz

    @property
    def coords(self) -> tuple[Any, Any]:
        """The rows and the columns of the stored elements."""
        return self.pattern.coordinates

    # Conversions

    def with_data(self, data: ArrayLike) -> Self:
        """Return the array with other elements at the same positions.

        Args:
            data: of shape (nnz,), in the order of `data`.

        Raises:
            ShapeError: a ValueError; their number is wrong.
        """
        data = as_array(data)
        if data.shape != (self.nnz,):
            raise errors.ShapeError(f"data has shape {data.shape}, but the pattern has {self.nnz} elements.")
        return made(self.pattern, data)  # type: ignore[no-any-return]

    def asformat(self, format: str | None, copy: bool = False) -> Any:
        """Return the array in a format; for "csr" and "csc" duplicates are summed.

        Args:
            format: "coo", "csr", "csc", or None for the current one.
            copy: accepted and ignored, as an array is immutable.

        Raises:
            UnsupportedError: a NotImplementedError; the format is not supported.
        """
        if format in (None, self.format):
            return self
        if format not in FORMATS:
            raise errors.UnsupportedError(
                f"a sparse array of fgrad has one of the formats {', '.join(FORMATS)}, but {format!r} was requested."
            )
        whole = self if format == "coo" else self._without_duplicates()
        return rearranged(lambda matrix: matrix.asformat(format), whole)

    def tocoo(self, copy: bool = False) -> Any:
        """Return the array as a `coo_array`."""
        return self.asformat("coo")

    def tocsr(self, copy: bool = False) -> Any:
        """Return the array as a `csr_array`."""
        return self.asformat("csr")

    def tocsc(self, copy: bool = False) -> Any:
        """Return the array as a `csc_array`."""
        return self.asformat("csc")

    def _without_duplicates(self) -> Any:
        sums = self.pattern.sums_duplicates()
        return self if sums is None else made(self.pattern.without_duplicates(), summed(self.data, sums))

    def copy(self) -> Self:
        """Return the array with a copy of its elements."""
        return self.with_data(np.copy(self.data))

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Self:
        """Return the array with elements of another dtype."""
        return self.with_data(astype(as_array(self.data), np.dtype(dtype)))

    def conj(self, copy: bool = True) -> Self:
        """Return the array of the complex conjugates."""
        return self.with_data(np.conjugate(self.data))

    conjugate = conj

    @property
    def T(self) -> Any:  # noqa: N802  # NumPy's name
        """The transpose."""
        return made(self.pattern.T, self.data)

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        """Return the transpose."""
        return self.T

    def toarray(self, order: Any = None, out: None = None) -> Any:
        """Return all elements as a dense array or tensor."""
        rows, columns = self.coords
        m, n = self.shape
        places = rows.astype(np.int64) * n + columns
        return np.reshape(summed(self.data, placed(places, np.arange(self.nnz), (m * n, self.nnz))), (m, n))

    todense = toarray

    def toscipy(self) -> Any:
        """Return SciPy's sparse array of the values, which must not be traced.

        Raises:
            ArrayConversionError: a TypeError; they are traced.
        """
        return self.pattern.with_elements(np.array(self.data))

    def __getitem__(self, key: object) -> Any:
        """Return a submatrix or one element: `A[2, 3]`, `A[1:4]`, `A[[0, 2]]`.

        Raises:
            ShapeError: a ValueError; the result would have one axis.
        """
        keys = key if isinstance(key, tuple) else (key,)
        if sum(np.ndim(each) == 0 and hasattr(each, "__index__") for each in keys) == 1:
            raise errors.ShapeError(
                "a row or column of a sparse array has one axis, and sparse arrays of fgrad are matrices.\nKeep both "
                "axes with a list, A[[i]] or A[:, [j]], or take A[[i]].toarray()[0]."
            )
        return rearranged(lambda matrix: matrix[key], self._without_duplicates().tocsr())

    # Arithmetic

    def __neg__(self) -> Self:
        return self.with_data(-self.data)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Any:
        whole = self._without_duplicates()
        return whole.with_data(np.abs(whole.data))

    def __add__(self, other: Any) -> Any:
        if issparse(other):
            return _sum(self, as_sparse(other))
        if _is_number(other):
            if type(other) not in BOXES and other == 0:
                return self
            raise NotImplementedError("adding a nonzero scalar to a sparse array is not supported")
        return self.toarray() + other

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + (-as_sparse(other) if issparse(other) else -as_array(other))

    def __rsub__(self, other: ArrayLike) -> Any:
        return -self + other

    def multiply(self, other: Any) -> Any:
        """Return the elementwise product, which is sparse.

        Args:
            other: a number, or an array that broadcasts to the shape, such as one of shape (n,) for the columns or
                (m, 1) for the rows; or a sparse array.

        Raises:
            ValueError: it does not broadcast.
        """
        if issparse(other):
            return _of_both(self, as_sparse(other))
        return self.with_data(self.data * _at_places(as_array(other), self.pattern))

    __mul__ = __rmul__ = multiply

    def __truediv__(self, other: Any) -> Any:
        if issparse(other):
            raise errors.UnsupportedError(
                f"a sparse array was divided by one, which is 0 in most places.\n  at {errors.users_line()}\n"
                "Divide the elements: A.with_data(A.data / B.data), if both have the same pattern."
            )
        return self.with_data(self.data / _at_places(as_array(other), self.pattern))

    def __pow__(self, exponent: Operand) -> Any:
        return self.power(exponent)

    def power(self, n: Any, dtype: Any = None) -> Any:
        """Return the array with its elements raised to a positive power.

        Raises:
            NotImplementedError: the power is not positive; elements that are not stored would not stay 0.
        """
        if not _is_number(n) or not raw_array(n) > 0:
            raise NotImplementedError("input is not a positive number, for which zeros would stay 0")
        whole = self._without_duplicates()
        return whole.with_data(as_array(whole.data, dtype) ** n)

    def dot(self, other: Any) -> Any:
        """Return the product with a vector, a matrix or a sparse array; with a number, as `*` does."""
        return self * other if _is_number(other) else self @ other

    def __matmul__(self, other: Any) -> Any:
        if issparse(other):
            return _matrix_product(self, as_sparse(other))
        x = _factor(other, self.shape[1], "(n,k={}),(k={},m)->(n,m)")
        if x.ndim == 1:
            return product(self.data, x[:, None], self.pattern)[:, 0]
        return product(self.data, x, self.pattern)

    def __rmatmul__(self, other: ArrayLike) -> Any:
        if issparse(other):
            return as_sparse(other) @ self
        x = as_array(other)
        return self.T @ x if x.ndim < 2 else np.swapaxes(self.T @ np.swapaxes(x, -1, -2), -1, -2)

    # Sums

    def sum(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
        """Return the sum of all elements, or of those along an axis.

        Args:
            axis: 0 for the sums of columns, 1 for those of rows, None for all.
            dtype: the dtype of the sum.
            out: must be None.

        Raises:
            ValueError: the axis does not exist.
        """
        data = as_array(self.data, None if dtype is None else np.dtype(dtype))
        if axis is None:
            return np.sum(data)
        if axis not in (0, 1, -1, -2):
            raise ValueError(f"axis {axis!r} is out of bounds for an array of dimension 2")
        places = self.coords[1 if axis in (0, -2) else 0]
        size = self.shape[1 if axis in (0, -2) else 0]
        return summed(data, placed(places, np.arange(self.nnz), (size, self.nnz)))

    def mean(self, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
        """Return the mean of all elements, or of those along an axis; elements that are not stored count as 0."""
        total = self.sum(axis, dtype)
        return total / (self.shape[0] * self.shape[1] if axis is None else self.shape[axis])

    def diagonal(self, k: int = 0) -> Any:
        """Return a diagonal as a vector.

        Args:
            k: the number of the diagonal; those above the main one are positive.
        """
        rows, columns = self.coords
        size = max(0, min(self.shape[0] + min(k, 0), self.shape[1] - max(k, 0)))
        kept = np.flatnonzero(columns.astype(np.int64) - rows == k)
        sums = placed(rows[kept] + min(k, 0), np.arange(len(kept)), (size, len(kept)))
        return summed(self.data[kept], sums)

    def trace(self, offset: int = 0) -> Any:
        """Return the sum of a diagonal."""
        return np.sum(self.diagonal(offset))


class coo_array(SparseArray):  # noqa: N801  # SciPy's name
    """A sparse array with elements in any order; duplicates are summed when they are used.

    Args:
        arg1: `(data, (rows, columns))`, with `data` of shape (nnz,), which may be traced; a sparse array, SciPy's or
            fgrad's; a plain array of shape (m, n), whose nonzero elements are stored; or `(m, n)`.
        shape: the numbers of rows and columns; by default the smallest that contain the indices.
        dtype: the dtype of the elements.
        copy: accepted and ignored: the data are always copied.

    Raises:
        ValueError: indices and elements are incompatible.
        StructureError: a TypeError; a traced dense array, whose zeros are not known to be constant.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> rows, columns = np.array([0, 1, 1]), np.array([0, 0, 0])
        >>> fg.grad(lambda x: (coo_array((x, (rows, columns)), shape=(2, 2)) @ np.ones(2))[1])(np.ones(3))
        Tensor([0., 1., 1.])
    """

    __slots__ = ()
    format = "coo"

    @property
    def row(self) -> Any:
        """The rows of the elements."""
        return self.coords[0]

    @property
    def col(self) -> Any:
        """The columns of the elements."""
        return self.coords[1]


class _Compressed(SparseArray):
    __slots__ = ()

    @property
    def indices(self) -> Any:
        """The columns of the elements, or for `csc_array` the rows."""
        return self.pattern.indices[0]

    @property
    def indptr(self) -> Any:
        """The start of each row, or column, in the elements."""
        return self.pattern.indices[1]


class csr_array(_Compressed):  # noqa: N801  # SciPy's name
    """A sparse array with elements by rows, the fastest format for products.

    Args:
        arg1: as for `coo_array`, or `(data, indices, indptr)`. Duplicates are summed, except in
            `(data, indices, indptr)`, which is not changed.
        shape: the numbers of rows and columns; by default the smallest that contain the indices.
        dtype: the dtype of the elements.
        copy: accepted and ignored: the data are always copied.

    Raises:
        ValueError: indices and elements are incompatible.
        StructureError: a TypeError; a traced dense array, whose zeros are not known to be constant.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> places = np.array([0, 0, 1]), np.array([0, 1, 1])
        >>> fg.grad(lambda x: np.sum(csr_array((x, places)) @ np.array([3.0, 4.0])))(np.ones(3))
        Tensor([3., 4., 4.])
    """

    __slots__ = ()
    format = "csr"


class csc_array(_Compressed):  # noqa: N801  # SciPy's name
    """A sparse array with elements by columns, the fastest format for linear systems.

    Args:
        arg1: as for `coo_array`, or `(data, indices, indptr)`.
        shape: the numbers of rows and columns; by default the smallest that contain the indices.
        dtype: the dtype of the elements.
        copy: accepted and ignored: the data are always copied.

    Raises:
        ValueError: indices and elements are incompatible.
        StructureError: a TypeError; a traced dense array, whose zeros are not known to be constant.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> places = np.array([0, 0, 1]), np.array([0, 1, 1])
        >>> csc_array((np.array([1.0, 2.0, 3.0]), places)).toarray()
        array([[1., 2.],
               [0., 3.]])
    """

    __slots__ = ()
    format = "csc"


CLASSES: dict[str, type[SparseArray]] = {kind.format: kind for kind in (coo_array, csr_array, csc_array)}


def made(pattern: Pattern, data: ArrayLike) -> Any:
    """Return the array of a pattern with a leaf unchanged: inside transforms it may be any object."""
    array = object.__new__(CLASSES[pattern.format])
    object.__setattr__(array, "pattern", pattern)
    object.__setattr__(array, "data", data)
    return array


for _kind in CLASSES.values():
    register_pytree_node(
        _kind, lambda array: ((array.data,), array.pattern), lambda pattern, parts: made(pattern, *parts)
    )


# Conversion of arguments


def issparse(x: object) -> bool:
    """Return whether an object is a sparse array, SciPy's or fgrad's.

    Args:
        x: any object.

    Returns:
        A Python bool.

    Example:
        >>> import scipy.sparse
        >>> issparse(scipy.sparse.eye_array(2))
        True
    """
    return isinstance(x, SparseArray) or bool(_SCIPY.issparse(x))


def as_sparse(x: Any) -> Any:
    """Return a SciPy sparse array as an fgrad one, in its own format or else by rows."""
    if isinstance(x, SparseArray):
        return x
    if x.ndim != 2:
        raise errors.ShapeError(
            f"a sparse array of SciPy has shape {x.shape}, but those of fgrad must be matrices.\nReshape it: "
            "a.reshape(1, -1)."
        )
    known = x if x.format in FORMATS else x.tocsr()
    return made(Pattern(known), np.array(known.data))


def as_constant(x: object) -> Any:
    """Return a SciPy sparse array as an fgrad one, with a private copy of the elements."""
    found = as_sparse(x)
    return made(found.pattern, boxed(found.data))


def _from_argument(arg1: ArrayLike, shape: Shape | None, format: str) -> Any:
    """Return the array given by the first argument of a class."""
    if issparse(arg1):
        return _of_shape(as_sparse(arg1), shape)
    if isinstance(arg1, tuple) and len(arg1) == 2 and isinstance(arg1[1], (tuple, list)):
        data, places = _elements(arg1[0]), tuple(map(_plain_indices, arg1[1]))
        return made(Pattern(FORMATS["coo"]((_stand_in(data), places), shape=shape)), data)
    if isinstance(arg1, tuple) and len(arg1) == 3 and format != "coo":
        data, indices, starts = _elements(arg1[0]), *map(_plain_indices, arg1[1:])
        return made(Pattern(FORMATS[format]((_stand_in(data), indices, starts), shape=shape)), data)
    if not isinstance(arg1, tuple) and (holds_tensors(arg1) and type(strip_ended(as_array(arg1))) is Tensor):
        raise errors.StructureError(
            f"{format}_array was called with a traced dense array, whose zeros are not known to be constant.\n"
            f"  at {errors.users_line()}\nGive elements and their positions, {format}_array((a[i, j], (i, j)), "
            "shape=a.shape), or compute with the dense array."
        )
    plain = arg1 if isinstance(arg1, tuple) else np.asarray(arg1)
    return as_sparse(FORMATS[format](plain, shape=shape))


def _of_shape(array: SparseArray, shape: Any) -> Any:
    if shape is not None and tuple(shape) != array.shape:
        raise ValueError(f"inconsistent shapes: {array.shape} and {tuple(shape)}")
    return array


def _elements(data: Array) -> Any:
    data = as_array(data)
    if data.ndim != 1:
        raise errors.ShapeError(
            f"the elements of a sparse array have shape {data.shape}, but must be a vector.\nFor many arrays with the "
            "same pattern, construct one in a function, and apply fg.vmap to it."
        )
    return data


def _plain_indices(indices: Array) -> Array:
    return np.asarray(raw_array(indices) if type(indices) in BOXES else indices)


def _stand_in(data: Array) -> Array:
    return np.zeros(data.shape, np.bool_)


# Rearrangements by SciPy


def rearranged(function: Callable[..., Any], *arrays: SparseArray) -> Any:
    """Return the result of a SciPy function that moves elements, and omits some.

    Args:
        function: maps SciPy arrays to one, or to one element of one; it must not compute with elements.
        arrays: without duplicates.
    """
    labelled, first = [], 1
    for array in arrays:
        labelled.append(array.pattern.labels(first))
        first += array.nnz
    found: Any = function(*labelled)
    data = joined(arrays)
    if not _SCIPY.issparse(found):
        return data[int(found) - 1] if found else np.zeros((), data.dtype)[()]
    found = found if found.format in FORMATS else found.tocsr()
    return made(Pattern(found), data[found.data - 1])


def joined(arrays: Sequence[SparseArray]) -> Any:
    """Return the elements of several arrays as one vector."""
    return arrays[0].data if len(arrays) == 1 else np.concatenate([array.data for array in arrays])


def _sum(a: SparseArray, b: SparseArray) -> Any:
    if a.shape != b.shape:
        raise ValueError(f"inconsistent shapes: {a.shape} and {b.shape}")
    if a.pattern == b.pattern:
        return a.with_data(a.data + b.data)
    rows, columns = (np.concatenate(each) for each in zip(a.coords, b.coords, strict=True))
    return made(placed(rows, columns, a.shape), joined((a, b))).asformat("csr" if a.format == "coo" else a.format)


def _of_both(a: SparseArray, b: SparseArray) -> Any:
    """Return the elementwise product of two arrays, stored where both are."""
    if a.shape != b.shape:
        return _of_row_or_column(a, b)
    a, b = (each._without_duplicates().tocsr() for each in (a, b))
    ours, others = (r.astype(np.int64) * a.shape[1] + c for r, c in (a.coords, b.coords))
    _, kept, known = np.intersect1d(ours, others, assume_unique=True, return_indices=True)
    rows, columns = (each[kept] for each in a.coords)
    return made(placed(rows, columns, a.shape), a.data[kept] * b.data[known]).tocsr()


def _of_row_or_column(a: SparseArray, b: SparseArray) -> Any:
    """Return the elementwise product of two arrays, one or both of which are broadcast."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    if b.shape == shape:
        return b.multiply(a.toarray())
    return a.multiply(b.toarray()) if a.shape == shape else (a @ b if a.shape[1] == 1 else b @ a)


def _matrix_product(a: SparseArray, b: SparseArray) -> Any:
    """Return the matrix product of two arrays: its elements are those of `b` times a matrix of elements of `a`."""
    if a.shape[1] != b.shape[0]:
        raise ValueError(_MISMATCH + f"(n,k={a.shape[1]}),(k={b.shape[0]},m)->(n,m)")
    m, n = a.shape[0], b.shape[1]
    by_rows = b._without_duplicates().tocsr()
    lengths = np.diff(by_rows.indptr)[a.coords[1]]
    ours = np.repeat(np.arange(a.nnz), lengths)  # each element of `a`, once for each element in the matching row of `b`
    starts = by_rows.indptr[:-1].astype(np.int64)[a.coords[1]]
    others = np.arange(len(ours)) - np.repeat(np.cumsum(lengths) - lengths - starts, lengths)
    places = a.coords[0][ours].astype(np.int64) * n + by_rows.indices[others]
    known, kept = np.unique(places, return_inverse=True)
    pairs = placed(kept, others, (len(known), by_rows.nnz))
    data = product(a.data[ours], by_rows.data[:, None], pairs)[:, 0]
    return made(placed(*np.divmod(known, max(n, 1)), (m, n)), data).tocsr()


_MISMATCH = "matmul: dimension mismatch with signature "


def _factor(x: ArrayLike, rows: int, signature: str) -> Any:
    """Return a vector or columns as an operand of a matrix product."""
    x = as_array(x)
    if x.ndim not in (1, 2):
        what = "a number: write A * x" if x.ndim == 0 else f"an array of shape {x.shape}: give a matrix, or use fg.vmap"
        raise ValueError(f"a sparse array was multiplied by @ with {what}.")
    if x.shape[0] != rows:
        raise ValueError(_MISMATCH + signature.format(rows, x.shape[0]))
    return x


def _is_number(x: Any) -> bool:
    return np.ndim(x) == 0 if type(x) not in BOXES else not x.shape


def _at_places(x: Array, pattern: Pattern) -> Any:
    """Return the elements of an array broadcast to the shape of a pattern, at its positions."""
    if x.ndim == 0:
        return x
    if x.ndim > 2 or np.broadcast_shapes(x.shape, pattern.shape) != pattern.shape:
        raise ValueError(f"inconsistent shapes: {pattern.shape} and {x.shape}")
    x = np.reshape(x, (1, -1)) if x.ndim == 1 else x
    rows, columns = pattern.coordinates
    return x[rows if x.shape[0] > 1 else np.zeros_like(rows), columns if x.shape[1] > 1 else np.zeros_like(columns)]


def _missing(array: SparseArray, name: str) -> AttributeError:
    """Return the error for a missing attribute, with the existing ones."""
    text = f"{type(array).__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(text)
    if hasattr(FORMATS[array.format], name):
        return errors.MissingNameError(
            f"{text}, which SciPy's has.\nCompute it with A.data and A.coords, or of A.toarray(); A.toscipy() is "
            "SciPy's array of plain values."
        )
    near = difflib.get_close_matches(name, [each for each in dir(type(array)) if not each.startswith("_")], 1, 0.7)
    return errors.MissingNameError(text + f".\nDid you mean {near[0]}?") if near else AttributeError(text)
