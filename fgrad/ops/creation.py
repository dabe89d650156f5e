"""New tensors: `fgrad.numpy.zeros` and its kin. NumPy cannot dispatch them, since they have no array argument.

They return Tensors, so traced values can be assigned to their elements.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array, holds_tensors
from fgrad.core.foreign import FOREIGN, OVERRIDES, own_payload
from fgrad.core.overrides import as_arguments
from fgrad.core.primitive import BOXES, FUNCTIONS
from fgrad.core.tensor import Tensor, boxed, strip_ended
from fgrad.core.tree import tree_map
from fgrad.core.views import layout_of_one, mark_as_array
from fgrad.ops.elementwise import astype, in_c_or_f_order, in_order_of
from fgrad.ops.elementwise import copy as copy_of
from fgrad.ops.families import answers, check_device, plain_axis
from fgrad.ops.indexing import to_write, values_of
from fgrad.ops.shaping import broadcast_to, promoted
from fgrad.typing import Array, ArrayLike, DTypeLike, Operand, Shape


def _new(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a constructor's tensor of shape `()` stand for an array, as NumPy's does: `x += y` writes into it."""

    @functools.wraps(function)
    def create(*args: Any, **keywords: Any) -> Any:
        made = function(*args, **keywords)
        if type(made) is Tensor and not made.shape:
            mark_as_array(made)
        return made

    return create


@answers(np.copy)
@_new
def copy(a: Array, order: str = "K", subok: bool = False) -> Any:
    """Return a new array, also of a number, in the memory order of NumPy's copy."""
    return copy_of(a, order)


def _like(name: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Make `zeros_like` or one of its kin, which depend on the shape and array type but not on the values.

    Args:
        name: NumPy's function of the name.
        function: NumPy's function that computes the answer.
    """

    @_new
    @functools.wraps(name)
    def like(
        prototype: Any,
        /,
        dtype: np.dtype[Any] | None = None,
        order: str = "K",
        subok: bool = True,
        shape: Shape | None = None,
        *,
        device: object = None,
    ) -> Any:
        check_device(device)
        if type(prototype) not in BOXES:
            return boxed(function(prototype, dtype, order, subok, shape))
        shape = prototype.shape if shape is None else shape
        array = layout_of_one(prototype)
        shown = array if isinstance(array, np.ndarray) and array.shape == prototype.shape else prototype._shown()
        if FOREIGN[type(shown)]:
            return boxed(function(shown, dtype=dtype, shape=shape))
        return boxed(function(shown, dtype, order, subok, shape))

    return answers(name)(like)


zeros_like = _like(np.zeros_like, np.zeros_like)
ones_like = _like(np.ones_like, np.ones_like)
empty_like = _like(np.empty_like, np.zeros_like)  # what memory held before would be a constant of recorded programs


@answers(np.full_like)
@_new
def full_like(
    a: ArrayLike,
    fill_value: Any,
    dtype: np.dtype[Any] | None = None,
    order: str = "K",
    subok: bool = True,
    shape: object = None,
    *,
    device: object = None,
) -> Any:
    """Return a tensor of the shape and dtype of `a`, filled with one value, which may be traced."""
    a = as_array(a)
    dtype = a.dtype if dtype is None else dtype
    found = full(a.shape if shape is None else shape, fill_value, dtype, device=device)
    if order in ("C", "F"):
        return copy_of(found, order)
    return in_c_or_f_order(found, a) if order == "A" or found.ndim != a.ndim else in_order_of(found, a)


def full(
    shape: object, fill_value: ArrayLike, dtype: np.dtype[Any] | None = None, order: str = "C", *, device: object = None
) -> Any:
    """Return a tensor filled with one value, which may be traced."""
    check_device(device)
    value = fill_value if dtype is None else to_write(fill_value, np.dtype(dtype))
    filled = broadcast_to(_tensor(value), shape)
    return astype(filled, filled.dtype if dtype is None else dtype)


def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", subok: bool = False, ndmin: int = 0
) -> Any:
    """Return a tensor from numbers, arrays, tensors or nested lists of them; derivatives are kept."""
    is_same = not copy and type(object) in BOXES and (dtype is None or object.dtype == dtype)
    result = _in_order(object if is_same else _array(object, dtype), order)
    return result.reshape((*(1,) * (ndmin - result.ndim), *result.shape)) if result.ndim < ndmin else result


def _in_order(x: Array, order: str | None) -> Any:
    """Return an array itself if it is in C or Fortran order, as requested, and otherwise a copy that is."""
    array = layout_of_one(x) if order in ("C", "F") else None
    if not isinstance(array, np.ndarray):
        return x
    is_right = array.flags.c_contiguous if order == "C" else array.flags.f_contiguous
    return x if is_right else copy_of(x, str(order))


def _array(object: Any, dtype: object) -> Any:
    if OVERRIDES[type(object)] and hasattr(object, "to_numpy"):  # with labels, of pandas or xarray: it may hold tensors
        object = object.to_numpy()
    if not holds_tensors(object):
        return boxed(own_payload(object, dtype))
    result = copy_of(object) if type(object) in BOXES else as_array(object)
    return result if dtype is None else result.astype(dtype)


def asarray(a: Any, dtype: DTypeLike | None = None, order: Any = None, *, device: Any = None, copy: Any = None) -> Any:
    """Return a value as a tensor; a tensor of the right dtype is returned unchanged."""
    check_device(device)
    if type(a) in BOXES and (dtype is None or a.dtype == dtype) and not copy:
        return _in_order(a, order)
    return array(a, dtype, order=order)


def asarray_chkfinite(a: ArrayLike, dtype: DTypeLike | None = None, order: object = None) -> Any:
    """Return a tensor whose elements must all be finite; this needs concrete values."""
    result = asarray(a, dtype)
    np.asarray_chkfinite(values_of(result, "np.asarray_chkfinite"))
    return result


def require(a: ArrayLike, dtype: DTypeLike | None = None, requirements: object = None) -> Any:
    """Return a tensor; the memory order is not visible to the caller."""
    return asarray(a, dtype)


class Joining:
    """`fgrad.numpy.r_` and `c_`: join the parts between brackets; slices are ranges.

    Args:
        axis: the axis along which the parts are joined.
        ndim: the number of axes of each part.
        columns: whether vectors are columns.
    """

    def __init__(self, axis: int, ndim: int, columns: bool) -> None:
        self.axis, self.ndim, self.columns = axis, ndim, columns

    def __getitem__(self, key: tuple[Any, ...]) -> Array:
        parts = key if isinstance(key, tuple) else (key,)
        if isinstance(parts[0], str):
            raise errors.ParameterError(
                f"fgrad.numpy.r_ and c_ accept no directive, but the first part is {parts[0]!r}.\n"
                "Join with np.concatenate, np.stack or np.block, which name the axis."
            )
        return np.concatenate([self._part(each) for each in parts], axis=self.axis)

    def _part(self, part: Operand) -> Any:
        x = _tensor(np.r_[part]) if isinstance(part, slice) else array(part)
        missing = self.ndim - x.ndim
        if missing <= 0:
            return x
        return x.reshape((*x.shape, *(1,) * missing) if self.columns and x.ndim else (*(1,) * missing, *x.shape))


def constant(value: ArrayLike, dtype: Any = None, shape: Any = None) -> Tensor:
    """Return a tensor with given values.

    Args:
        value: a number, array, tensor, or nested lists of them.
        dtype: by default NumPy's choice (a Python float gives float64).
        shape: the shape of the result; a single number is repeated.

    Returns:
        A new Tensor with a copy of the values.

    Raises:
        ValueError: NumPy cannot make an array of `value`, or `shape` does not fit.

    Example:
        >>> constant([1.0, 2.0])
        Tensor([1., 2.])
        >>> constant(0.5, shape=(2,))
        Tensor([0.5, 0.5])
    """
    result: Tensor = array(value, dtype)
    if shape is None:
        return result
    filled: Tensor = copy_of(broadcast_to(result, shape)) if result.size == 1 else result.reshape(shape)
    return filled


def convert_to_tensor(value: Any, dtype: Any = None) -> Tensor:
    """Return a value as a Tensor; a Tensor of the right dtype is returned unchanged.

    Args:
        value: a number, array, tensor, variable, or nested lists of them.
        dtype: by default that of the value.

    Returns:
        A Tensor; for a variable, its current value.

    Raises:
        ValueError: NumPy cannot make an array of `value`.

    Example:
        >>> convert_to_tensor([1, 2], dtype="float32")
        Tensor([1., 2.], dtype=float32)
    """
    if type(value) is Tensor and (dtype is None or value.dtype == dtype):
        return value
    made: Tensor = array(value, dtype)
    return made


def is_traced(x: object) -> bool:
    """Return whether a running transform or an open tape traces a value.

    Args:
        x: any object. The elements of containers are not inspected.

    Returns:
        True for a tensor or variable that is being traced, False for any other object.

    Example:
        >>> import fgrad as fg
        >>> def f(x):
        ...     print(is_traced(x), is_traced(2.0))
        ...     return 2.0 * x
        >>> result = fg.grad(f)(3.0)
        True False
        >>> is_traced(result)
        False
    """
    return type(x) in BOXES and type(strip_ended(x)) is Tensor


def to_numpy(tree: object) -> Any:
    """Return nested containers with NumPy arrays in place of tensors, for example for another library.

    Args:
        tree: a tensor or variable, or containers of them. Other leaves are kept.

    Returns:
        The same containers. Each tensor becomes a new, writable array, or a NumPy scalar if
        its shape is `()`.

    Raises:
        ExportError: a TypeError; a tensor is being traced, and its derivative would be lost.

    Example:
        >>> import fgrad as fg
        >>> to_numpy(fg.grad(lambda p: p["x"] ** 2 * p["n"])({"x": 3.0, "n": 2.0}))
        {'x': np.float64(12.0), 'n': np.float64(9.0)}
    """
    return _as_numpy(tree) if type(tree) in BOXES else tree_map(_as_numpy, tree)


def _as_numpy(leaf: Any) -> Any:
    if type(leaf) not in BOXES:
        return leaf
    if is_traced(leaf):
        raise errors.ExportError("fg.to_numpy", errors.users_line())
    return leaf.numpy()


def _tensor(x: ArrayLike) -> Any:
    return x if type(x) in BOXES else boxed(as_array(x))


# Ranges whose bounds may be traced


@answers(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: object = None,
) -> Any:
    """Return evenly spaced numbers between two bounds."""
    check_device(device)
    count = index(num)
    if count < 0:
        raise ValueError(f"Number of samples, {count}, must be non-negative.")
    kind = np.result_type(*map(promoted, (start, stop)), float(count))
    start, stop = (astype(_tensor(x) * 1.0, kind) for x in (start, stop))
    parts = count - 1 if endpoint else count
    step = (stop - start) / parts if parts > 0 else np.full_like(stop - start, np.nan)
    places = np.arange(count).reshape((-1,) + (1,) * step.ndim)
    row = start + (step * places.astype(kind) if parts > 0 else 0 * places.astype(kind) * (stop - start))
    if endpoint and count > 1:
        row = np.where(places == count - 1, stop, row)
    row = np.moveaxis(_of_dtype(row, dtype), 0, plain_axis(axis))
    return (row, step) if retstep else row


def _of_dtype(x: Array, dtype: np.dtype[Any] | None) -> Any:
    """Return an array in a dtype; for an integer dtype the values are rounded down."""
    if dtype is None:
        return x
    return astype(np.floor(x) if np.dtype(dtype).kind in "iu" else x, dtype)


@answers(np.logspace)
def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Any:
    """Return powers of a base with evenly spaced exponents."""
    if np.ndim(base):
        start, stop, base = np.broadcast_arrays(*map(_tensor, (start, stop, base)))
        base = np.expand_dims(base, plain_axis(axis))
    power = np.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return power if dtype is None else astype(power, dtype)


@answers(np.geomspace)
def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: DTypeLike | None = None, axis: int = 0
) -> Any:
    """Return a geometric sequence."""
    count = index(num)
    # NumPy, too, computes numbers of single precision in double here.
    least = np.float64 if dtype is None else np.dtype(dtype)
    kind = np.result_type(*map(promoted, (start, stop)), least, float(count))
    start, stop = np.broadcast_arrays(*(astype(_tensor(x), kind) for x in (start, stop)))
    if np.any(np.equal(start._shown(), 0)) or np.any(np.equal(stop._shown(), 0)):
        raise ValueError("Geometric sequence cannot include zero")
    places = np.arange(count).reshape((-1,) + (1,) * start.ndim)
    sign = np.sign(start)
    powers = sign * logspace(np.log10(start / sign), np.log10(stop / sign), count, endpoint)
    if count > 0:
        powers = np.where(places == 0, start, powers)
    if endpoint and count > 1:
        powers = np.where(places == count - 1, stop, powers)
    powers = np.moveaxis(powers, 0, plain_axis(axis))
    return powers if dtype is None else astype(powers, dtype)


def _creating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a NumPy constructor return a Tensor, also for tensor arguments, which NumPy does not dispatch."""
    answer = FUNCTIONS.get(function, function)

    @_new
    @functools.wraps(function)
    def create(*args: ArrayLike, **keywords: object) -> Any:
        has_tensors = any(map(holds_tensors, (*args, *keywords.values())))
        return boxed((answer if has_tensors else function)(*as_arguments(function, args), **keywords))

    return create


CONSTRUCTORS: dict[str, Any] = {
    "array": _new(array),
    "copy": _new(array),
    "zeros_like": zeros_like,
    "ones_like": ones_like,
    "empty_like": empty_like,
    "full_like": full_like,
    **dict.fromkeys(("asarray", "asanyarray", "ascontiguousarray", "asfortranarray"), asarray),
    "asarray_chkfinite": asarray_chkfinite,
    "require": require,
    "r_": Joining(0, 1, columns=False),
    "c_": Joining(-1, 2, columns=True),
    "full": _new(full),
    "empty": functools.wraps(np.empty)(_creating(np.zeros)),  # see `empty_like`
    **{
        name: _creating(getattr(np, name))
        for name in (
            "zeros", "ones", "arange", "linspace", "logspace", "geomspace", "eye", "identity", "tri", "indices",
            "fromiter", "fromstring", "frombuffer", "bartlett", "blackman", "hamming", "hanning", "kaiser",
        )
    },
}  # fmt: skip
"""Functions of `fgrad.numpy` that create tensors from plain values, by NumPy's names."""

EXTENSIONS: dict[str, Callable[[], Any]] = {}
"""Lookup of further names in `fgrad.numpy` that NumPy does not have; it raises AttributeError for an unknown
name."""
