"""The tracer tensor, and `apply`, through which every operation passes.

    apply(primitive, args, metadata)    run an operation under the top trace of its arguments
    apply_call(call, leaves)            the same for a function with a custom derivative
    Tensor                              a value, its trace, and the trace's data on it
    strip_ended(x)                      take off the layers whose trace is not running

Python's operators, NumPy's ufuncs and NumPy's functions all arrive at `apply`, through the
tables in `primitive.py`. What an operation means there is decided by traces alone (`trace.py`).
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fgrad import errors
from fgrad.core import concretize
from fgrad.core.coerce import (
    OPERANDS,
    PARTNERS,
    as_exact_operand,
    as_operand,
    collected,
    defers_to,
    is_exact,
)
from fgrad.core.foreign import FOREIGN, OBJECT, OVERRIDES, computed_by, in_memory, own_payload
from fgrad.core.layers import below, concrete
from fgrad.core.overrides import answered, as_arguments, overridden, reflected_by, refused
from fgrad.core.primitive import ANSWERS, BOXES, FUNCTIONS, METHODS, UFUNCS, Primitive
from fgrad.core.trace import (
    NOTHING,
    UNTRACED,
    Call,
    Trace,
    is_seen,
    notify_copy,
    observing,
    running,
    substituted,
    through_observers,
)
from fgrad.core.tree import LEAVES, flatten, unflatten
from fgrad.errors import hints
from fgrad.typing import Array, ArrayLike, DTypeLike

_ARRAY = np.ndarray

UFUNCS_OF_OBJECTS = {
    name
    for name, ufunc in vars(np).items()
    if isinstance(ufunc, np.ufunc) and any(set(loop) <= set("O->") for loop in ufunc.types)
}
"""Ufuncs that NumPy looks up as methods of the elements of an object array, such as `sin`."""

_NUMBERS = {"float()", "int()", "complex()", "bool()"}


def apply(
    primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any] = NOTHING, observed: bool = False
) -> Any:
    """Pass an operation to the highest running trace among its arguments, or compute it if there is none.

    Args:
        primitive: the operation.
        args: its arrays and tensors.
        metadata: its keywords.
        observed: whether the observers have been called for this operation already.
    """
    if observing and not observed and is_seen():
        run = through_observers("operation", primitive, metadata, go_on=partial(_apply_seen, primitive, metadata))
        return run(args)
    top_level = 0
    for arg in args:
        if (kind := type(arg)) is not Tensor:
            if kind in OPERANDS or (kind is _ARRAY and arg.dtype is not OBJECT):
                continue
            if kind not in BOXES:
                return _apply_to_others(primitive, args, metadata)
        if (level := arg._trace.level) > top_level:
            top, top_level = arg._trace, level
        elif not level:
            settled = [strip_ended(arg) for arg in args]
            nothing_left = is_seen() and not any(type(x) in BOXES for x in settled)  # and observers have not seen it
            return boxed(apply(primitive, settled, metadata, nothing_left))
    if top_level:
        return top.process(primitive, args, metadata)
    return primitive.implementation(*args, **metadata) if metadata else primitive.implementation(*args)


def _apply_to_others(primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
    """Run an operation with operands of other libraries, or of types seen for the first time."""
    for x in args:
        if OVERRIDES[type(x)]:
            ufunc = next((ufunc for ufunc, entry in UFUNCS.items() if entry is primitive), None)
            if ufunc is None:
                return apply(primitive, as_arguments(primitive, args), metadata, True)
            return overridden(x, ufunc, "__call__", [strip_ended(x) for x in args], metadata)
        if type(x) not in BOXES and (compute := PARTNERS[type(x)]) is not None:
            return compute(primitive, args)
    as_ours = as_exact_operand if any(map(is_exact, args)) else as_operand
    args = [x if type(x) in BOXES else as_ours(x) for x in args]
    if not any(FOREIGN[type(x)] for x in args):
        return apply(primitive, args, metadata, True)
    settled = [strip_ended(x) for x in args]
    traces = [x._trace for x in settled if type(x) is Tensor]
    if not traces:
        result = computed_by(primitive, settled, metadata)
        return boxed(result) if any(type(x) in BOXES for x in args) else result
    # Copied, as plain arrays are: the user may write to this one before the backward pass. A lazy one costs nothing.
    args = [x.copy() if FOREIGN[type(x)] else x for x in settled]
    return max(traces, key=lambda trace: trace.level).process(primitive, args, metadata)


def _apply_seen(primitive: Primitive, metadata: Mapping[str, Any], args: Sequence[Any]) -> Any:
    return apply(primitive, args, metadata, True)


def apply_call(call: Call, leaves: Sequence[Any]) -> list[Any]:
    """Pass a call of a function with a custom derivative to the highest trace among its inputs, or run it."""
    before = running.state()
    try:
        if is_seen():
            return list(through_observers("call", call, go_on=lambda leaves: _apply_call(call, leaves))(leaves))
        return _apply_call(call, leaves)
    except BaseException:
        running.unwind(before)
        raise


def _apply_call(call: Call, leaves: Sequence[Any]) -> list[Any]:
    leaves = [strip_ended(leaf) for leaf in leaves]
    traces = [leaf._trace for leaf in leaves if type(leaf) is Tensor]
    traces += call.traces()
    if not traces:
        return list(call.run(leaves))
    return max(traces, key=lambda trace: trace.level).process_call(call, leaves)


def strip_ended(x: Any) -> Any:
    """Return the value of `x` below the layers whose trace has ended: an array or a Tensor."""
    while type(x) in BOXES:
        if observing and is_seen():
            x = substituted(x)
            if type(x) not in BOXES:
                break
        if x._trace.level:
            if not x._trace.outdated:
                break
            x = x._trace.renewed(x)
        else:
            x = x.unbox()
    return x


def renewed(x: Array) -> Any:
    """Return an up-to-date view if the root of `x` has been written to, otherwise `x`."""
    return x._trace.renewed(x) if type(x) is Tensor else x


def is_weak(x: Array) -> bool:
    """Return whether `x` stands for a Python number."""
    value = strip_ended(x)
    return type(value) is Tensor and value._trace.is_weak(value)


def settled(leaf: Any) -> Any:
    """Return `strip_ended(leaf)`, with an array of traced numbers made into one tensor."""
    return strip_ended(collected(leaf))


def boxed(value: Any) -> Any:
    """Return `value` as a Tensor, and several outputs as a tuple of Tensors; overriding types unchanged."""
    kind = type(value)
    if kind is _ARRAY:  # common case
        return box(value, UNTRACED, None)
    if kind is Tensor or OVERRIDES[kind]:
        return value
    if kind is tuple:
        return tuple(boxed(item) for item in value)
    return box(value, UNTRACED, None)


ATTRIBUTES: list[Callable[[Any, str], Any]] = []
"""Further attributes of tensors: `find(tensor, name)` returns an attribute that arrays do not have, or None."""


def _binary(ufunc: np.ufunc, twin: str) -> tuple[Callable[[Any, Any], Tensor], Callable[[Any, Any], Tensor]]:
    """Make an operator and its reflected one, the method named `twin`, from the ufunc that NumPy would call."""
    primitive: Any = None  # found at the first call: the table is not filled yet

    def operator(self: Array, other: Any) -> Any:
        nonlocal primitive
        primitive = primitive or UFUNCS[ufunc]
        kind = type(other)
        # Fast path: a single active trace, in half the time.
        if type(self) is Tensor and (trace := self._trace).level and not (observing and is_seen()):
            if kind is Tensor:
                if other._trace is trace:
                    return trace.process_two(primitive, self, other)
            elif kind in OPERANDS or (kind is _ARRAY and other.dtype is not OBJECT):
                return trace.process_two(primitive, self, other)
        if kind not in OPERANDS and kind not in BOXES and defers_to(other):
            return reflected_by(other, twin, ufunc, strip_ended(self) if OVERRIDES[kind] else self)
        return apply(primitive, (self, other))

    def reflected(self: Array, other: Any) -> Any:
        nonlocal primitive
        primitive = primitive or UFUNCS[ufunc]
        if type(other) in OPERANDS and type(self) is Tensor and self._trace.level and not (observing and is_seen()):
            return self._trace.process_two(primitive, other, self)
        return apply(primitive, (other, self))

    return operator, reflected


def _quotient(divide: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
    """Make `other / self`, which NumPy calls for the reciprocal of an array of objects."""

    def operator(self: Array, other: object) -> Any:
        if type(other) is int:
            concretize.refuse_reciprocal(sys._getframe(1), self)
        return divide(self, other)

    return operator


def _comparison(ufunc: np.ufunc, twin: str) -> Callable[[Any, Any], Tensor]:
    compare, _ = _binary(ufunc, twin)

    def operator(self: Any, other: Any) -> Tensor:
        result = compare(self, other)
        if type(result) is Tensor and type(truth := result._shown()) is np.bool_ and not truth:
            concretize.refuse_nan(sys._getframe(1), self._shown(), other._shown() if type(other) in BOXES else other)
        return result

    return operator


def _in_place(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    """Make the operator that writes its result into the tensor.

    A tensor of shape `()` is immutable, as a number is, unless it stands for an array.
    """

    def operator(self: Any, other: Array) -> Any:
        if not self._trace.shape_of(self) and (self._alias is None or not METHODS["stands_for_array"](self)):
            return apply(UFUNCS[ufunc], (self, other)) if type(other) in OPERANDS else NotImplemented
        if type(other) not in OPERANDS and type(other) not in BOXES:
            if OVERRIDES[type(other)]:
                raise refused(other, "only numbers can be written into a tensor")
            if defers_to(other):
                return NotImplemented
        METHODS["computed_in_place"](self, ufunc, other)
        return self

    return operator


def _unary(ufunc: np.ufunc) -> Callable[[Any], Tensor]:
    def operator(self: Array) -> Any:
        return ANSWERS[ufunc](self) if ufunc in ANSWERS else apply(UFUNCS[ufunc], (self,))

    return operator


_conjugate = _unary(np.conjugate)


def _rounding(function: Callable[[Any], int]) -> Callable[[Any], int]:
    """Make the method for a rounding function of `math`; an integer has no derivative that could be lost."""

    def method(self: Any) -> int:
        return function(float(self._concrete("int()")))

    return method


def _unpacked(arguments: tuple[Any, ...]) -> tuple[Any, ...] | list[Any] | None:
    """Return the only tuple argument, or the tuple of all arguments, as NumPy's methods do."""
    if len(arguments) == 1 and (arguments[0] is None or isinstance(arguments[0], (tuple, list))):
        return arguments[0]
    return arguments


def _answer(function: Callable[..., Any], *args: object, **keywords: object) -> Tensor:
    """Call the function of fgrad that replaces a NumPy function on tensors."""
    return FUNCTIONS[function](*args, **keywords)  # type: ignore[no-any-return]


def _member(name: str) -> Callable[..., Any]:
    """Make the method that replaces the ndarray method of that name."""

    def method(self: Array, *args: object, **keywords: object) -> Any:
        return METHODS[name](self, *args, **keywords)

    method.__name__ = name
    method.__doc__ = getattr(np.ndarray, name).__doc__
    return method


def _method(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Make the method that calls the NumPy function with the tensor as first argument."""

    def method(self: Array, *args: object, **keywords: Any) -> Any:
        return _answer(function, self, *args, **keywords)

    method.__name__ = function.__name__
    method.__doc__ = f"NumPy's `{function.__name__}` of this tensor."
    return method


def _writer(name: str) -> Callable[[Any, Any], None]:
    """Make the setter of an attribute that is a view."""

    def write(self: Any, value: object) -> None:
        getattr(self, name)[...] = value

    return write


class TensorLike:
    """Base of Tensor and Variable: NumPy's attributes, methods, operators and protocols."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # like an ndarray: == is elementwise
    __pandas_priority__ = 5000  # higher than a DataFrame's, so that the tensor's operators are called

    _trace: Trace

    def unbox(self) -> Any:
        """Return the value one layer below: an array or a Tensor."""
        raise NotImplementedError(type(self).__name__)

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: object) -> Any:
        if method == "__call__" and not keywords and (primitive := UFUNCS.get(ufunc)):
            if ufunc in ANSWERS:
                return ANSWERS[ufunc](*inputs)
            if len(inputs) == 1 and type(self) is Tensor and self._trace.level and not (observing and is_seen()):
                return self._trace.process(primitive, inputs, NOTHING)
            return apply(primitive, inputs)
        for x in inputs:
            if OVERRIDES[type(x)]:
                return overridden(x, ufunc, method, [strip_ended(x) for x in inputs], keywords)
        return METHODS["called_by_ufunc"](ufunc, method, inputs, keywords)

    def __array_function__(
        self, function: Callable[..., Any], types: tuple[Any, ...], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        for kind in types:
            if OVERRIDES[kind]:
                return answered(function, types, args, keywords)
        for x in (*args, *keywords.values()) if keywords else args:
            if OVERRIDES[type(x)]:
                args, values = as_arguments(function, args), as_arguments(function, keywords.values())
                keywords = dict(zip(keywords, values, strict=True))
                break
        if function in FUNCTIONS:
            return FUNCTIONS[function](*args, **keywords)
        return call_without_rule(function, numpys_name(function), args, keywords)

    @property
    def __array__(self) -> Callable[..., npt.NDArray[Any]]:
        """Return the function that makes a plain array, or an object array where NumPy collects traced numbers."""
        value = self._settled()
        if type(value) is not Tensor:
            return self._plain_array
        if concretize.is_left_to_operand(sys._getframe(1)):
            return self._as_object
        if not concretize.is_collected(value):
            return self._plain_array
        concretize.collecting(value)
        if self.shape or (self._alias is not None and METHODS["stands_for_array"](self)):
            return self._object_array if self.size else self._plain_array
        raise AttributeError("__array__")  # NumPy then takes the number itself as an object

    def _plain_array(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        value = self._settled()
        if type(value) is Tensor and not value.size:  # an empty tensor has no values to lose
            return np.empty(value.shape, value.dtype if dtype is None else dtype)
        array = _read_only(value._trace.plain_array(value) if type(value) is Tensor else value)
        return array.astype(array.dtype if dtype is None else dtype, copy=bool(copy))

    def _as_object(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        whole = np.empty((), OBJECT)
        whole[()] = self
        return whole

    def _object_array(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if dtype is not None and dtype != OBJECT:
            return self._plain_array(dtype, copy)
        flat = self.reshape(-1)
        array = np.fromiter((flat[i] for i in range(self.size)), OBJECT, self.size).reshape(self.shape)
        array.flags.writeable = bool(copy)  # a write would not reach the tensor
        if not copy and type(self) is Tensor:
            METHODS["lend"](self, array)
        return array

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """Return the module of functions that work on tensors, as the array API standard asks."""
        return METHODS["__array_namespace__"](self, api_version=api_version)

    def __dlpack__(
        self,
        /,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule of the value, for `from_dlpack` of another library."""
        keywords = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return METHODS["__dlpack__"](self, **keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return where the value is, as DLPack counts devices."""
        return METHODS["__dlpack_device__"](self)  # type: ignore[no-any-return]

    @property
    def __jax_array__(self) -> Callable[[], Any]:
        """Make the array of JAX, as its functions ask; a traced tensor has none, so that JAX leaves operators to it."""
        if self._is_traced():
            raise AttributeError("__jax_array__")
        return functools.partial(METHODS["__jax_array__"], self)

    # Attributes of the value

    @property
    def shape(self) -> tuple[int, ...]:
        return self._trace.shape_of(self)

    @shape.setter
    def shape(self, shape: Any) -> None:
        METHODS["reshaped_in_place"](self, shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.unbox().dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self.shape[0]))

    def __getattr__(self, name: str) -> Any:
        """Look up ndarray's less common attributes and methods: in `METHODS`, else on the plain value."""
        if name in UFUNCS_OF_OBJECTS and not self.shape:
            return functools.partial(getattr(np, name), self)
        if name.startswith("_") or not hasattr(np.ndarray, name):
            for find in ATTRIBUTES:
                if (found := find(self, name)) is not None:
                    return found
            raise hints.missing_attribute(self, name, self._is_traced())
        member, value = getattr(np.ndarray, name), strip_ended(self)
        if name in METHODS:
            answer = functools.partial(METHODS[name], self)
            return answer if callable(member) else answer()
        if type(value) is not Tensor:
            return getattr(value if FOREIGN[type(value)] else _read_only(value), name)
        if not callable(member):
            raise concretize.missing_member(name)
        return lambda *args, **keywords: call_without_rule(None, f"ndarray.{name}", (value,), {})

    # Exits from the trace: Python requests the value

    def _is_traced(self) -> bool:
        """Return whether a trace follows a tensor; a variable is not read to find out."""
        return type(self) is Tensor and type(strip_ended(self)) is Tensor

    def _settled(self) -> Any:
        """Return the value without ended traces, for a plain number or array to be made of it."""
        return strip_ended(self)

    def _concrete(self, how: str) -> Any:
        value: Any = self._settled()
        if type(value) is Tensor and how in _NUMBERS and value.dtype.kind in "fc":
            concretize.check_number(sys._getframe(2), how, value)
        return concrete(value, how)

    def numpy(self) -> Any:
        """Return the value as a new NumPy array (a NumPy scalar for shape `()`)."""
        return np.array(in_memory(self._concrete(".numpy()")))[()]

    def item(self, *index: int) -> Any:
        """Return one element as a Python number."""
        return in_memory(self._concrete(".item()")).item(*index)

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        return in_memory(self._concrete(".tolist()")).tolist()

    def __bool__(self) -> bool:
        return bool(self._concrete("bool()"))

    def __int__(self) -> int:
        return int(self._concrete("int()"))

    def __float__(self) -> float:
        return float(self._concrete("float()"))

    def __complex__(self) -> complex:
        return complex(self._concrete("complex()"))

    __floor__, __ceil__, __trunc__ = _rounding(math.floor), _rounding(math.ceil), _rounding(math.trunc)

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise TypeError(
                f"an index must be an integer, and this tensor has shape {self.shape} and dtype {self.dtype}; "
                "write int(x), which has no derivative, or pass it in an argument that is not differentiated"
            )
        return int(self._concrete("use as an index"))

    def __format__(self, spec: str) -> str:
        return format(self._concrete("formatting"), spec) if spec else str(self)

    def __str__(self) -> str:
        return str(self._shown())

    def __repr__(self) -> str:
        return self._repr("")

    def _shown(self) -> Any:
        return below(self._settled())

    def _repr(self, suffix: str) -> str:
        return METHODS["__repr__"](self, suffix)  # type: ignore[no-any-return]

    def _repr_html_(self) -> str:
        return METHODS["_repr_html_"](self)  # type: ignore[no-any-return]

    # Operators

    __add__, __radd__ = _binary(np.add, "__radd__")
    __sub__, __rsub__ = _binary(np.subtract, "__rsub__")
    __mul__, __rmul__ = _binary(np.multiply, "__rmul__")
    __truediv__, __rtruediv__ = _binary(np.true_divide, "__rtruediv__")
    __rtruediv__ = _quotient(__rtruediv__)
    __floordiv__, __rfloordiv__ = _binary(np.floor_divide, "__rfloordiv__")
    __mod__, __rmod__ = _binary(np.remainder, "__rmod__")
    __divmod__, __rdivmod__ = _binary(np.divmod, "__rdivmod__")
    __matmul__, __rmatmul__ = _binary(np.matmul, "__rmatmul__")
    _power, __rpow__ = _binary(np.power, "__rpow__")
    __and__, __rand__ = _binary(np.bitwise_and, "__rand__")
    __or__, __ror__ = _binary(np.bitwise_or, "__ror__")
    __xor__, __rxor__ = _binary(np.bitwise_xor, "__rxor__")
    __lshift__, __rlshift__ = _binary(np.left_shift, "__rlshift__")
    __rshift__, __rrshift__ = _binary(np.right_shift, "__rrshift__")
    __lt__, __gt__ = _comparison(np.less, "__gt__"), _comparison(np.greater, "__lt__")
    __le__, __ge__ = _comparison(np.less_equal, "__ge__"), _comparison(np.greater_equal, "__le__")
    __eq__ = _binary(np.equal, "__eq__")[0]  # type: ignore[assignment]  # elementwise, as for arrays
    __ne__ = _binary(np.not_equal, "__ne__")[0]  # type: ignore[assignment]
    __neg__ = _unary(np.negative)
    __pos__ = _unary(np.positive)
    __abs__ = _unary(np.absolute)
    __invert__ = _unary(np.invert)

    def conj(self) -> Any:
        """Return the complex conjugate; a real tensor itself, as NumPy's method does."""
        is_itself = type(self) is Tensor and self.dtype.kind != "c"
        return self if is_itself else _conjugate(self)

    conjugate = conj
    _square = _unary(np.square)

    def __pow__(self, exponent: object) -> Tensor:
        # NumPy's own ** takes the same shortcut. A tensor that stands for a Python number does not, and remains one.
        takes_square = type(exponent) is int and exponent == 2 and (self.shape or not is_weak(self))
        return self._square() if takes_square else self._power(exponent)

    def __getitem__(self, key: object) -> Tensor:
        return METHODS["__getitem__"](self, key)  # type: ignore[no-any-return]

    # Methods that call the NumPy function of the same name

    T = property(_method(np.transpose))
    mT = property(_method(np.matrix_transpose))
    real = property(_method(np.real), _writer("real"))
    imag = property(_method(np.imag), _writer("imag"))
    flat = property(_member("flat"), _writer("flat"), doc="The flattened elements, for reading, writing and iteration.")

    def reshape(self, *shape: object, order: str = "C") -> Tensor:
        return _answer(np.reshape, self, _unpacked(shape), order=order)

    def transpose(self, *axes: object) -> Tensor:
        return _answer(np.transpose, self, _unpacked(axes) or None)

    sum = _method(np.sum)
    mean = _method(np.mean)
    prod = _method(np.prod)
    max = _method(np.max)
    min = _method(np.min)
    var = _method(np.var)
    std = _method(np.std)
    argmax = _method(np.argmax)
    argmin = _method(np.argmin)
    all = _method(np.all)
    any = _method(np.any)
    cumsum = _method(np.cumsum)
    cumprod = _method(np.cumprod)
    swapaxes = _method(np.swapaxes)
    squeeze = _method(np.squeeze)
    ravel = _method(np.ravel)
    copy = _member("copy")
    take = _method(np.take)
    dot = _method(np.dot)
    clip = _method(np.clip)
    round = __round__ = _method(np.round)
    astype = _member("astype")


class Tensor(TensorLike):
    """An array that a transform or tape can trace; it can be used wherever a NumPy array can.

    Args:
        value: anything `np.array` accepts; it is copied.
        dtype: as NumPy's; by default NumPy's choice (a Python float gives float64).

    Raises:
        ArrayConversionError: `value` holds traced tensors; stack them instead.

    Example:
        >>> x = Tensor([1.0, 2.0])
        >>> x * 2
        Tensor([2., 4.])
        >>> np.sin(x).shape
        (2,)
    """

    __slots__ = ("_payload", "_trace", "_mark", "_alias", "_squared", "__weakref__")

    _payload: Any
    """An array, or a tensor of a lower trace."""
    _mark: Any
    _alias: Any
    """View data: the tensor this is a view of, or the views of this one; None if there are none (`views.py`)."""
    _squared: Callable[[], Any] | None
    """For lengths only: computes the square, which has derivatives also at 0, where the length has none."""

    def __init__(self, value: ArrayLike, dtype: npt.DTypeLike | None = None) -> None:
        self._payload, self._trace, self._mark = own_payload(value, dtype), UNTRACED, None
        self._alias, self._squared = None, None

    @property
    def value(self) -> Any:
        """The array of a concrete tensor, NumPy's or another library's, without a copy.

        Other libraries, such as astropy, read an attribute of this name from any object. A traced tensor therefore has
        none: its derivative would be lost silently.
        """
        payload = strip_ended(self)
        if type(payload) is Tensor:
            raise AttributeError  # `__getattr__`, which Python calls next, writes the message
        return payload

    def unbox(self) -> Any:
        return (self._trace.renewed(self) if self._trace.outdated else self)._payload

    @property
    def dtype(self) -> np.dtype[Any]:  # twice as fast as that of TensorLike
        return self._trace.dtype_of(self) if self._trace.outdated else self._payload.dtype

    def _rebind(self, other: Tensor) -> None:
        """Make this tensor object hold another value; earlier results are unchanged."""
        self._payload, self._mark, self._squared = other._payload, other._mark, None
        self._trace = other._trace  # last: other threads read the trace first

    def __setitem__(self, key: object, value: ArrayLike) -> None:
        METHODS["__setitem__"](self, key, value)

    def _assign(self, other: Tensor) -> None:
        """Make this tensor object hold the result of a write, unless an observer stores it."""
        if not any(observer.assigned(self, other) for observer in running.observers):
            self._rebind(other)

    # In place, as NumPy does it

    __iadd__ = _in_place(np.add)
    __isub__ = _in_place(np.subtract)
    __imul__ = _in_place(np.multiply)
    __itruediv__ = _in_place(np.true_divide)
    __ifloordiv__ = _in_place(np.floor_divide)
    __imod__ = _in_place(np.remainder)
    __ipow__ = _in_place(np.power)
    __imatmul__ = _in_place(np.matmul)
    __iand__ = _in_place(np.bitwise_and)
    __ior__ = _in_place(np.bitwise_or)
    __ixor__ = _in_place(np.bitwise_xor)
    __ilshift__ = _in_place(np.left_shift)
    __irshift__ = _in_place(np.right_shift)

    def __copy__(self, memo: Any = None) -> Tensor:
        x: Any = boxed(substituted(self)) if is_seen() else self
        return own_handle(x._trace.renewed(x))

    __deepcopy__ = __copy__

    def __reduce__(self) -> Any:
        if type(strip_ended(self)) is Tensor:
            raise errors.ExportError("pickling", errors.users_line())
        return Tensor, (self.numpy(),)


BOXES.add(Tensor)
LEAVES.add(Tensor)

new_tensor = functools.partial(object.__new__, Tensor)


def box(value: Any, trace: Trace, mark: Any) -> Tensor:
    """Return a Tensor over `value`, which is not copied."""
    tensor = new_tensor()
    tensor._payload = value  # 3x faster than __init__
    tensor._trace = trace
    tensor._mark = mark
    tensor._alias = tensor._squared = None
    return tensor


def own_handle(x: Tensor) -> Tensor:
    """Return a new tensor object with the same value: a write to one does not change the other."""
    if x._payload is None:  # an outdated view
        x = x._trace.renewed(x)
    handle = box(x._payload, x._trace, x._mark)
    return notify_copy(handle) if observing and is_seen() else handle


def as_now(x: Array) -> Array:
    """Return a tensor as a new object that later assignments of the user do not change, otherwise `x`."""
    return own_handle(x) if type(x) is Tensor else x


def _read_only(value: Array) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.asarray(value).view()
    array.flags.writeable = False
    return array


def numpys_name(function: Callable[..., Any]) -> str:
    """Return the name of a NumPy function in messages."""
    name = getattr(function, "__name__", repr(function))
    module = getattr(function, "__module__", None) or ("numpy" if getattr(np, name, None) is function else "")
    return f"{module.replace('numpy', 'np', 1)}.{name}".lstrip(".")


def call_without_rule(function: Any, name: str, args: Any, keywords: dict[str, Any]) -> Any:
    """Run a NumPy function without a rule on plain arrays; raise if an argument is traced."""
    leaves, treedef = flatten((tuple(args), keywords))
    leaves = [strip_ended(leaf) for leaf in leaves]
    if any(type(leaf) is Tensor for leaf in leaves):
        raise errors.MissingRuleError(name, errors.users_line())
    args, keywords = unflatten(treedef, leaves)
    return function(*args, **keywords)
