"""`tf.math`, including its names at the top level of TensorFlow.

Every function accepts tensors, variables, arrays, numbers and nested lists of them. In eager mode it returns a
tensor; in a graph, or called with a graph tensor, it makes a node. Operations without a gradient in TensorFlow,
such as `round` and comparisons, have the gradient None here.

    exp, log, sin, sqrt, sigmoid ...               elementwise functions of one tensor
    add, multiply, maximum, pow, equal ...         elementwise functions of two tensors
    reduce_sum, reduce_max, argmax, cumsum ...     along axes
    matmul, tensordot, einsum                      products
    clip_by_value, clip_by_norm, global_norm ...   clipping
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import clipping, errors
from fgrad.compat.deferred.convert import another, as_dtype
from fgrad.compat.deferred.graph import Convertible, GraphTensor, Symbol, TensorShape, as_node, operation
from fgrad.compat.deferred.scattering import IndexedSlices
from fgrad.compat.tensorflow import arrays
from fgrad.compat.tensorflow.arguments import (
    along,
    at,
    axes,
    check_within,
    chosen,
    convert,
    operands,
    order,
    plain,
    sizes,
    turned,
)
from fgrad.compat.tensorflow.formulas import (
    complementary_error_function,
    error_function,
    euclidean_norm,
    in_rows,
    log_of_one_plus_exp,
    logistic,
    lowest,
)
from fgrad.compat.tensorflow.missing import missing
from fgrad.core.tensor import boxed
from fgrad.ops import reductions
from fgrad.transforms.reverse import stop_gradient
from fgrad.typing import Array, ArrayLike, DTypeLike, Operand

__all__ = [
    "TopK", "abs", "accumulate_n", "acos", "acosh", "add", "add_n", "angle", "argmax", "argmin", "asin", "asinh",
    "atan", "atan2", "atanh", "ceil", "check_numerics", "clip_by_average_norm", "clip_by_global_norm",
    "clip_by_norm", "clip_by_value", "complex", "conj", "cos", "cosh", "count_nonzero", "cumprod", "cumsum", "div",
    "divide", "divide_no_nan", "einsum", "equal", "erf", "erfc", "exp", "expm1", "floor", "floordiv", "floormod",
    "global_norm", "greater", "greater_equal", "imag", "is_finite", "is_inf", "is_nan", "l2_normalize", "less",
    "less_equal", "log", "log1p", "log_sigmoid", "logical_and", "logical_not", "logical_or", "logical_xor",
    "matmul", "maximum", "minimum", "mod", "multiply", "multiply_no_nan", "negative", "nextafter", "not_equal",
    "pow", "real", "reciprocal", "reduce_all", "reduce_any", "reduce_euclidean_norm", "reduce_logsumexp",
    "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_std", "reduce_sum", "reduce_variance", "rint",
    "round", "rsqrt", "scalar_mul", "scatter_nd", "segment_max", "segment_mean", "segment_min", "segment_prod",
    "segment_sum", "sigmoid", "sign", "sin", "sinh", "softplus", "sqrt", "square", "squared_difference", "subtract",
    "tan", "tanh", "tensor_scatter_nd_add", "tensordot", "top_k", "truediv", "unsorted_segment_sum", "xdivy",
    "xlog1py", "xlogy",
]  # fmt: skip

__dir__ = __all__.copy

_LONG = np.dtype(np.int64)


def _deferrable(name: str, function: Callable[..., Any], doc: str, differentiable: bool = True, node: str = "") -> Any:
    """Set the name and docstring of a function of a family, and make it deferrable."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return operation(node, differentiable)(function)


def _unary(name: str, function: Callable[..., Any], doc: str, differentiable: bool = True, node: str = "") -> Any:
    def elementwise(x: ArrayLike) -> Any:
        return function(convert(x))

    return _deferrable(name, elementwise, doc, differentiable, node)


def _binary(name: str, function: Callable[..., Any], doc: str, differentiable: bool = True, node: str = "") -> Any:
    def elementwise(x: ArrayLike, y: ArrayLike) -> Any:
        return function(*operands(x, y))

    return _deferrable(name, elementwise, doc, differentiable, node)


# fmt: off
# Elementwise functions of one tensor

abs        = _unary("abs",        np.absolute,     "Return the absolute value; of complex numbers, the modulus.")
negative   = _unary("negative",   np.negative,     "Return `-x`.", node="Neg")
sign       = _unary("sign",       np.sign,         "Return -1, 0 or 1; the derivative is 0.")
square     = _unary("square",     np.square,       "Return `x * x`.")
sqrt       = _unary("sqrt",       np.sqrt,         "Return the square root.")
rsqrt      = _unary("rsqrt",      lambda x: 1 / np.sqrt(x), "Return one over the square root.")
reciprocal = _unary("reciprocal", lambda x: 1 / x, "Return `1 / x`.")
exp        = _unary("exp",        np.exp,          "Return e to the power of `x`.")
expm1      = _unary("expm1",      np.expm1,        "Return `exp(x) - 1`, accurate near 0.")
log        = _unary("log",        np.log,          "Return the natural logarithm.")
log1p      = _unary("log1p",      np.log1p,        "Return `log(1 + x)`, accurate near 0.")
sin        = _unary("sin",        np.sin,          "Return the sine.")
cos        = _unary("cos",        np.cos,          "Return the cosine.")
tan        = _unary("tan",        np.tan,          "Return the tangent.")
asin       = _unary("asin",       np.arcsin,       "Return the angle of a sine.")
acos       = _unary("acos",       np.arccos,       "Return the angle of a cosine.")
atan       = _unary("atan",       np.arctan,       "Return the angle of a tangent.")
sinh       = _unary("sinh",       np.sinh,         "Return the hyperbolic sine.")
cosh       = _unary("cosh",       np.cosh,         "Return the hyperbolic cosine.")
tanh       = _unary("tanh",       np.tanh,         "Return the hyperbolic tangent.")
asinh      = _unary("asinh",      np.arcsinh,      "Return the inverse of the hyperbolic sine.")
acosh      = _unary("acosh",      np.arccosh,      "Return the inverse of the hyperbolic cosine.")
atanh      = _unary("atanh",      np.arctanh,      "Return the inverse of the hyperbolic tangent.")
conj       = _unary("conj",       np.conjugate,    "Return the complex conjugate.")
real       = _unary("real",       np.real,         "Return the real part.")
imag       = _unary("imag",       np.imag,         "Return the imaginary part.")
angle      = _unary("angle",      np.angle,        "Return the angle of complex numbers, in radians.")

floor       = _unary("floor",       np.floor,       "Return the next integer below; there is no gradient.", False)
ceil        = _unary("ceil",        np.ceil,        "Return the next integer above; there is no gradient.", False)
round       = _unary("round",       np.round,       "Return the nearest integer, an even one at ties; there is no gradient.", False)  # noqa: E501
rint        = _unary("rint",        np.rint,        "Return the nearest integer, an even one at ties; there is no gradient.", False)  # noqa: E501
is_nan      = _unary("is_nan",      np.isnan,       "Return where elements are NaN.", False)
is_inf      = _unary("is_inf",      np.isinf,       "Return where elements are infinite.", False)
is_finite   = _unary("is_finite",   np.isfinite,    "Return where elements are neither infinite nor NaN.", False)
logical_not = _unary("logical_not", np.logical_not, "Return where elements are false.", False)

# Elementwise functions of two tensors

add                = _binary("add",                np.add,          "Return `x + y`.")
subtract           = _binary("subtract",           np.subtract,     "Return `x - y`.", node="Sub")
multiply           = _binary("multiply",           np.multiply,     "Return `x * y`.", node="Mul")
truediv            = _binary("truediv",            np.true_divide,  "Return `x / y`, a float also of integers.", node="TrueDiv")  # noqa: E501
divide             = _binary("divide",             np.true_divide,  "Return `x / y`, a float also of integers.")
mod                = _binary("mod",                np.remainder,    "Return the remainder of `x / y`, with the sign of `y`.")  # noqa: E501
floormod           = _binary("floormod",           np.remainder,    "Return the remainder of `x / y`, with the sign of `y`.", node="FloorMod")  # noqa: E501
pow                = _binary("pow",                np.power,        "Return `x` to the power of `y`.")
maximum            = _binary("maximum",            np.maximum,      "Return the larger of two elements; at ties both have half of the derivative.")  # noqa: E501
minimum            = _binary("minimum",            np.minimum,      "Return the smaller of two elements; at ties both have half of the derivative.")  # noqa: E501
nextafter          = _binary("nextafter",          np.nextafter,    "Return the next number after `x` towards `y`.", node="NextAfter")  # noqa: E501
squared_difference = _binary("squared_difference", lambda x, y: np.square(x - y), "Return `(x - y) * (x - y)`.")
floordiv           = _binary("floordiv",           np.floor_divide, "Return the next integer below `x / y`; there is no gradient.", False, node="FloorDiv")  # noqa: E501

equal         = _binary("equal",         np.equal,         "Return where `x == y`.", False)
not_equal     = _binary("not_equal",     np.not_equal,     "Return where `x != y`.", False)
less          = _binary("less",          np.less,          "Return where `x < y`.", False)
less_equal    = _binary("less_equal",    np.less_equal,    "Return where `x <= y`.", False)
greater       = _binary("greater",       np.greater,       "Return where `x > y`.", False)
greater_equal = _binary("greater_equal", np.greater_equal, "Return where `x >= y`.", False)
logical_and   = _binary("logical_and",   np.logical_and,   "Return where both are true.", False)
logical_or    = _binary("logical_or",    np.logical_or,    "Return where at least one of two is true.", False)
logical_xor   = _binary("logical_xor",   np.logical_xor,   "Return where exactly one of two is true.", False)
# fmt: on


@operation("Atan2")
def atan2(y: Convertible, x: Convertible) -> Any:
    """Return the angle of the points `(x, y)` in the plane."""
    return np.arctan2(*operands(y, x))


@operation("div")
def div(x: Any, y: Any) -> Any:
    """Return `x / y`; for integers the floor, as in Python 2."""
    x, y = operands(x, y)
    return np.floor_divide(x, y) if x.dtype.kind in "iu" and y.dtype.kind in "iu" else np.true_divide(x, y)


@operation()
def complex(real: Convertible, imag: Any) -> Any:
    """Return complex numbers with given real and imaginary parts."""
    real, imag = operands(real, imag)
    return real + imag * 1j


@operation()
def xlogy(x: Convertible, y: Convertible) -> Any:
    """Return `x * log(y)`, and 0 where `x` is 0, whatever `y` is."""
    return _zero_where_first_is(lambda x, y: x * np.log(y), *operands(x, y))


@operation()
def xlog1py(x: Convertible, y: Convertible) -> Any:
    """Return `x * log(1 + y)`, and 0 where `x` is 0, whatever `y` is."""
    return _zero_where_first_is(lambda x, y: x * np.log1p(y), *operands(x, y))


@operation()
def xdivy(x: Convertible, y: Convertible) -> Any:
    """Return `x / y`, and 0 where `x` is 0, whatever `y` is."""
    return _zero_where_first_is(lambda x, y: x / y, *operands(x, y))


def _zero_where_first_is(function: Callable[..., Any], x: Array, y: Array) -> Array:
    is_zero = x == 0
    return np.where(is_zero, 0, function(x, np.where(is_zero, 1, y)))


@operation("MulNoNan")
def multiply_no_nan(x: Convertible, y: Convertible) -> Any:
    """Return `x * y`, and 0 where `y` is 0, also if `x` is infinite or NaN."""
    x, y = operands(x, y)
    return np.where(np.logical_and(y == 0, np.logical_not(np.isfinite(x))), 0, x) * y


@operation("DivNoNan")
def divide_no_nan(x: Convertible, y: Convertible) -> Any:
    """Return `x / y`, and 0 where `y` is 0."""
    x, y = operands(x, y)
    return np.where(y == 0, 0, x / np.where(y == 0, 1, y))


@operation("scalar_mul")
def scalar_mul(scalar: Convertible, x: Any) -> Any:
    """Return a number times a tensor."""
    x, scalar = operands(x, scalar)
    return scalar * x


# fmt: off
sigmoid     = _unary("sigmoid",     logistic, "Return `1 / (1 + exp(-x))`.")
log_sigmoid = _unary("log_sigmoid", lambda x: -log_of_one_plus_exp(-x), "Return `log(sigmoid(x))` without overflow.")
# fmt: on


@operation()
def softplus(features: Convertible) -> Any:
    """Return `log(1 + exp(x))` without overflow."""
    return log_of_one_plus_exp(convert(features))


# fmt: off
erf  = _unary("erf",  error_function, "Return the error function.")
erfc = _unary("erfc", complementary_error_function, "Return one minus the error function, accurate where it is small.")
# fmt: on


# Sums of lists


@operation("AddN")
def add_n(inputs: Any) -> Any:
    """Return the sum of a list of tensors of one shape."""
    terms = operands(*inputs) if isinstance(inputs, (list, tuple)) else [convert(inputs)]
    if not terms:
        raise errors.ParameterError("inputs must be a list with at least one tensor.")
    total = terms[0]
    for term in terms[1:]:
        if term.shape != total.shape:
            raise errors.ShapeError(f"inputs must have the same shape, but there are {total.shape} and {term.shape}.")
        total = total + term
    return total


def accumulate_n(inputs: object, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Any:
    """Return the sum of a list of tensors of one shape; see `add_n`."""
    return add_n(inputs, name=name or "AccumulateNV2")


# Along axes


def _reduction(name: str, function: Callable[..., Any], doc: str, differentiable: bool = True, node: str = "") -> Any:
    """Make a reduction: `function(x, axis, keepdims)` becomes deferrable, with TensorFlow 1's old keywords."""

    def reduce(
        input_tensor: Any, axis: Any = None, keepdims: Any = None, reduction_indices: Any = None, keep_dims: Any = None
    ) -> Any:
        axis = chosen("axis", axis, "reduction_indices", reduction_indices)
        keepdims = bool(chosen("keepdims", keepdims, "keep_dims", keep_dims))
        return function(convert(input_tensor), axis=axes(axis), keepdims=keepdims)

    return _deferrable(name, reduce, doc, differentiable, node)


def _keeping_dtype(reduction: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the dtype of integers in sums and means, as TensorFlow does and NumPy does not."""

    def reduce(x: Any, axis: Any, keepdims: bool) -> Any:
        if x.dtype.kind == "b":
            raise errors.DtypeError("booleans cannot be summed or multiplied; use tf.cast or tf.math.count_nonzero.")
        result = reduction(x, axis=axis, keepdims=keepdims)
        return result.astype(x.dtype) if x.dtype.kind in "iu" else result

    return reduce


def _extreme(reduction: Callable[..., Any], of_nothing: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return the lowest number for an empty maximum, as TensorFlow does, where NumPy raises."""

    def reduce(x: Any, axis: Any, keepdims: bool) -> Any:
        if x.size:
            return reduction(x, axis=axis, keepdims=keepdims)
        return np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype) + of_nothing(x.dtype)

    return reduce


def _highest(dtype: np.dtype[Any]) -> float:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


# fmt: off
reduce_sum            = _reduction("reduce_sum",            _keeping_dtype(np.sum),  "Return the sum along axes, by default of all elements.", node="Sum")  # noqa: E501
reduce_prod           = _reduction("reduce_prod",           _keeping_dtype(np.prod), "Return the product along axes, by default of all elements.", node="Prod")  # noqa: E501
reduce_mean           = _reduction("reduce_mean",           _keeping_dtype(np.mean), "Return the mean along axes, by default of all elements; for integers it is truncated.", node="Mean")  # noqa: E501
reduce_max            = _reduction("reduce_max",            _extreme(np.max, lowest),  "Return the largest element along axes; equal ones share the derivative.", node="Max")  # noqa: E501
reduce_min            = _reduction("reduce_min",            _extreme(np.min, _highest), "Return the smallest element along axes; equal ones share the derivative.", node="Min")  # noqa: E501
reduce_logsumexp      = _reduction("reduce_logsumexp",      reductions.logsumexp,    "Return `log(sum(exp(x)))` along axes, without overflow.", node="Logsumexp")  # noqa: E501
reduce_variance       = _reduction("reduce_variance",       np.var,                  "Return the mean squared deviation from the mean along axes.", node="Variance")  # noqa: E501
reduce_std            = _reduction("reduce_std",            np.std,                  "Return the standard deviation along axes; its derivative is 0 where all elements are equal.", node="Std")  # noqa: E501
reduce_euclidean_norm = _reduction("reduce_euclidean_norm", euclidean_norm,          "Return the square root of the sum of squares along axes; its derivative at 0 is 0.", node="EuclideanNorm")  # noqa: E501
reduce_any            = _reduction("reduce_any",            np.any,                  "Return whether any element along axes is true.", False, node="Any")  # noqa: E501
reduce_all            = _reduction("reduce_all",            np.all,                  "Return whether all elements along axes are true.", False, node="All")  # noqa: E501
# fmt: on


@operation("count_nonzero", differentiable=False)
def count_nonzero(
    input: Convertible, axis: Any = None, keepdims: Any = None, dtype: DTypeLike = _LONG, reduction_indices: Any = None,
    keep_dims: bool | None = None
) -> Any:  # fmt: skip
    """Return how many elements along axes are nonzero; the last two arguments are old names."""
    axis = axes(chosen("axis", axis, "reduction_indices", reduction_indices))
    keepdims = bool(chosen("keepdims", keepdims, "keep_dims", keep_dims))
    return np.sum(convert(input) != 0, axis=axis, keepdims=keepdims).astype(as_dtype(dtype))


def _index_of(name: str, function: Callable[..., Any], doc: str, node: str) -> Any:
    def index(input: Any, axis: Any = None, output_type: Any = _LONG, dimension: Any = None) -> Any:
        axis = chosen("axis", axis, "dimension", dimension)
        return function(convert(input), axis=0 if axis is None else axes(axis)).astype(as_dtype(output_type))

    return _deferrable(name, index, doc, False, node)


# fmt: off
argmax = _index_of("argmax", np.argmax, "Return the index of the first largest element along an axis, by default the first axis.", node="ArgMax")  # noqa: E501
argmin = _index_of("argmin", np.argmin, "Return the index of the first smallest element along an axis, by default the first axis.", node="ArgMin")  # noqa: E501
# fmt: on


def _cumulative(name: str, function: Callable[..., Any], start: int, doc: str) -> Any:
    def accumulate(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False) -> Any:
        x, axis = convert(x), axes(axis)
        backwards = slice(None, None, -1)
        x = at(x, axis, backwards) if reverse else x
        if exclusive:
            first = np.full_like(at(x, axis, slice(1)), start)
            x = np.concatenate([first, at(x, axis, slice(-1))], axis)
        result = function(x, axis).astype(x.dtype)
        return at(result, axis, backwards) if reverse else result

    return _deferrable(name, accumulate, doc)


# fmt: off
cumsum  = _cumulative("cumsum", np.cumsum, 0, "Return cumulative sums along an axis, without the element itself if `exclusive`, from the end if `reverse`.")  # noqa: E501
cumprod = _cumulative("cumprod", np.cumprod, 1, "Return cumulative products along an axis, without the element itself if `exclusive`, from the end if `reverse`.")  # noqa: E501
# fmt: on


class TopK(NamedTuple):
    """The largest elements, in order, and their indices."""

    values: Any
    indices: Any


def top_k(input: Convertible, k: Any = 1, sorted: bool = True, name: str | None = None) -> TopK:
    """Return the `k` largest elements along the last axis, the largest one first.

    Args:
        input: a tensor with at least one axis.
        k: the number of elements.
        sorted: ignored: they are always in order. Equal elements keep their order.

    Returns:
        The values, and their int32 indices.

    Raises:
        InvalidArgumentError: a ValueError; there are fewer than `k` elements.
    """
    return TopK(_largest(input, k, name=name), _places_of_largest(input, k, name=name))


@operation("TopKV2")
def _largest(x: Any, k: int) -> Any:
    x = convert(x)
    return along(x, _first_places(x, k), -1)


@operation("TopKV2", differentiable=False)
def _places_of_largest(x: ArrayLike, k: int) -> Any:
    return boxed(_first_places(convert(x), k).astype(np.int32))


def _first_places(x: Array, k: int) -> Any:
    if not x.ndim or x.shape[-1] < int(k):
        raise errors.InvalidArgumentError(f"input must have at least k = {int(k)} columns, and its shape is {x.shape}.")
    return order(x, -1, descending=True)[..., : int(k)]


# Sums of segments


@operation()
def segment_sum(data: Convertible, segment_ids: Any) -> Any:
    """Return the sums of the rows with the same segment number; the largest number determines their count."""
    ids = plain(convert(segment_ids))
    return _sum_by_number(convert(data), ids, int(ids.max(initial=-1)) + 1)


@operation()
def segment_mean(data: Convertible, segment_ids: Any) -> Any:
    """Return the means of the rows with the same segment number; empty segments give zeros."""
    x, ids = convert(data), plain(convert(segment_ids))
    totals = _sum_by_number(x, ids, int(ids.max(initial=-1)) + 1)
    counts = np.reshape(np.maximum(np.bincount(ids, minlength=len(totals)), 1), (-1,) + (1,) * (x.ndim - 1))
    if x.dtype.kind in "fc":
        return totals / counts.astype(x.real.dtype)
    return np.trunc(totals / counts).astype(x.dtype)


@operation()
def segment_prod(data: Convertible, segment_ids: Any) -> Any:
    """Return the products of the rows with the same segment number; empty segments give ones."""
    return _reduced_by_number(np.prod, 1, convert(data), plain(convert(segment_ids)))


@operation()
def segment_max(data: Convertible, segment_ids: Any) -> Any:
    """Return the maxima of the rows with the same segment number; empty segments give zeros.

    Ties share the derivative.
    """
    return _reduced_by_number(np.max, 0, convert(data), plain(convert(segment_ids)))


@operation()
def segment_min(data: Convertible, segment_ids: Any) -> Any:
    """Return the minima of the rows with the same segment number; see `segment_max`."""
    return _reduced_by_number(np.min, 0, convert(data), plain(convert(segment_ids)))


def _reduced_by_number(reduce: Callable[..., Any], empty: int, rows: Array, ids: Any) -> Array:
    """Reduce the rows with the same segment number, which are adjacent."""
    count = int(ids.max(initial=-1)) + 1
    check_within(ids, count, "segment_ids")
    _check_rows(rows, ids)
    if np.any(np.diff(ids) < 0):
        raise errors.InvalidArgumentError("segment_ids must be in increasing order, but they are not.")
    if not count:
        return rows
    ends = np.searchsorted(ids, np.arange(count + 1))
    nothing = np.full(rows.shape[1:], empty, rows.dtype)
    parts = [reduce(rows[i:j], axis=0) if i < j else nothing for i, j in itertools.pairwise(ends)]
    return np.stack(parts)


@operation()
def unsorted_segment_sum(data: Convertible, segment_ids: Any, num_segments: Any) -> Any:
    """Return `num_segments` sums of the rows with the same segment number; negative numbers are skipped."""
    x, ids = convert(data), plain(convert(segment_ids))
    return _sum_by_number(x[ids >= 0], ids[ids >= 0], int(num_segments))


def _sum_by_number(rows: Array, ids: Array, count: int) -> Any:
    check_within(ids, count, "segment_ids")
    _check_rows(rows, ids)
    return in_rows(rows, ids, count)


def _check_rows(rows: Array, ids: Array) -> None:
    if rows.shape[:1] != ids.shape:
        raise errors.ShapeError(f"data has the shape {rows.shape}, but there are segment_ids of shape {ids.shape}.")


@operation("ScatterNd")
def scatter_nd(indices: Any, updates: Convertible, shape: Any) -> Any:
    """Return a tensor of zeros with updates added at indices; those at the same index are summed.

    Args:
        indices: each index is a row along the last axis.
        updates: for each index an element, or a block if the index is shorter than the shape.
        shape: the shape of the result.

    Raises:
        InvalidArgumentError: a ValueError; an index is negative or too large.
        ShapeError: a ValueError; the shape of the updates does not match the indices and `shape`.
    """
    return _scattered(plain(convert(indices)), convert(updates), sizes(shape))


@operation("TensorScatterAdd")
def tensor_scatter_nd_add(tensor: Convertible, indices: Any, updates: Convertible) -> Any:
    """Return a tensor with updates added at indices; see `scatter_nd`."""
    x, updates = operands(tensor, updates)
    return x + _scattered(plain(convert(indices)), updates, x.shape)


def _scattered(places: Any, updates: Any, shape: tuple[int, ...]) -> Array:
    depth = places.shape[-1]
    wanted = (*places.shape[:-1], *shape[depth:])
    if updates.shape != wanted:
        raise errors.ShapeError(f"updates must have the shape {wanted}, but they have {updates.shape}.")
    for axis in range(depth):
        check_within(places[..., axis], shape[axis])
    numbers = np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), shape[:depth])
    rows = np.reshape(updates, (numbers.size, *shape[depth:]))
    return np.reshape(_sum_by_number(rows, np.ravel(numbers), int(np.prod(shape[:depth]))), shape)


# Products


@operation("MatMul")
def matmul(
    a: Convertible,
    b: Convertible,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
) -> Any:
    """Return the matrix product.

    Args:
        a, b: matrices, or batches of them.
        transpose_a, transpose_b: whether to transpose first.
        adjoint_a, adjoint_b: whether to transpose and conjugate first.
        a_is_sparse, b_is_sparse: ignored.
    """
    a, b = operands(a, b)
    return np.matmul(turned(a, transpose_a, adjoint_a), turned(b, transpose_b, adjoint_b))


@operation("Tensordot")
def tensordot(a: Any, b: Any, axes: Any) -> Any:
    """Return the products summed over pairs of axes: a number of them, or two lists."""
    a, b = operands(a, b)
    pairs = plain(convert(axes)).tolist()
    return np.tensordot(a, b, pairs)


@operation("einsum")
def einsum(equation: str, *inputs: Convertible, optimize: Any = None) -> Any:
    """Return the sum of products given by a string such as `"ij,jk->ik"`."""
    return np.einsum(equation, *operands(*inputs))


@operation("l2_normalize")
def l2_normalize(x: Convertible, axis: Any = None, epsilon: float = 1e-12, dim: Any = None) -> Any:
    """Divide vectors by their Euclidean norm, or by the square root of `epsilon` if it is larger.

    Args:
        x: a tensor.
        axis: the axes of the vectors, by default all.
        epsilon: the smallest squared norm.
        dim: the old name of `axis`.
    """
    x = convert(x)
    squares = np.sum(np.square(np.abs(x)), axis=axes(chosen("axis", axis, "dim", dim)), keepdims=True)
    return x / np.sqrt(np.maximum(squares, epsilon))


# Clipping


@operation("CheckNumerics")
def check_numerics(tensor: Any, message: str) -> Any:
    """Return a tensor with the same values; if one of them is infinite or NaN, raise.

    Args:
        tensor: a tensor of floats.
        message: the beginning of the error's message.

    Raises:
        InvalidArgumentError: a ValueError; a value is infinite or NaN.
    """
    x = convert(tensor)
    values = plain(stop_gradient(x))
    found = [name for name, is_there in (("Inf", np.isinf), ("NaN", np.isnan)) if is_there(values).any()]
    if found:
        raise errors.InvalidArgumentError(f"{message} : Tensor had {' and '.join(found)} values")
    return another(x)


def _of_values(*limits: str) -> Callable[[Any], Any]:
    """Return a decorator of a function that clips: for tensors, and for the values of `tf.IndexedSlices`.

    Args:
        limits: the names of its arguments that must not broadcast the tensor to another shape.
    """

    def decorate(clip: Callable[..., Any]) -> Any:
        signature = inspect.signature(clip)

        @functools.wraps(clip)
        def call(t: object, *args: object, **keywords: object) -> Any:
            if isinstance(t, IndexedSlices):
                return t._replace(values=call(t.values, *args, **keywords))
            if isinstance(t, Symbol):
                given = signature.bind(t, *args, **{k: x for k, x in keywords.items() if k != "name"}).arguments
                _check_limits(t, {name: given[name] for name in limits})
            return clip(t, *args, **keywords)

        return call

    return decorate


def _check_limits(t: object, limits: dict[str, Any]) -> None:
    """Raise if it is known of graph tensors that limits broadcast another one to another shape."""
    given = [as_node(x) if isinstance(x, Symbol) else x for x in (t, *limits.values())]
    shapes = [x.shape if isinstance(x, GraphTensor) else TensorShape(np.shape(x)) for x in given]
    if all(shape.is_fully_defined() for shape in shapes):
        own, *others = [np.broadcast_to(0.0, shape) for shape in shapes]
        result = np.broadcast_arrays(own, *others)[0]
        clipping.in_shape(result, own, **dict(zip(limits, others, strict=True)))


@_of_values("clip_value_min", "clip_value_max")
@operation("clip_by_value")
def clip_by_value(t: Convertible, clip_value_min: Convertible, clip_value_max: Convertible) -> Any:
    """Limit every element to an interval; where the lower bound is above the upper one, the lower one wins.

    An element at a bound is inside: its derivative is 1. The bounds do not broadcast the tensor to another shape.
    """
    t, low, high = operands(t, clip_value_min, clip_value_max)
    limited = np.where(t > high, high, t)
    return clipping.in_shape(np.where(limited < low, low, limited), t, clip_value_min=low, clip_value_max=high)


@_of_values("clip_norm")
@operation("clip_by_norm")
def clip_by_norm(t: Convertible, clip_norm: Any, axes: Any = None) -> Any:
    """Scale a tensor down so that its Euclidean norm, or that along axes, is at most `clip_norm`."""
    t, clip_norm = operands(t, clip_norm)
    return clipping.clip_by_norm(t, clip_norm, axes)


@_of_values("clip_norm")
@operation("clip_by_average_norm")
def clip_by_average_norm(t: Any, clip_norm: Any) -> Any:
    """Scale a tensor down so that its Euclidean norm, divided by its size, is at most `clip_norm`."""
    t, clip_norm = operands(t, clip_norm)
    return clipping.clip_by_norm(t, clip_norm * t.size)


def _list(t_list: object) -> Sequence[Any]:
    if not isinstance(t_list, (list, tuple)):
        raise errors.StructureError(f"t_list must be a list of tensors, but it is {t_list!r}; pass [t] for one.")
    return t_list


def global_norm(t_list: object, name: str | None = None) -> Any:
    """Return the Euclidean norm of several tensors as one vector.

    Args:
        t_list: a list of tensors, or of `tf.IndexedSlices`; None is skipped.

    Raises:
        StructureError: a TypeError; `t_list` is not a list.
    """
    held = [t.values if isinstance(t, IndexedSlices) else t for t in _list(t_list) if t is not None]
    return _norm_of_all(held, name=name)


@operation("global_norm")
def _norm_of_all(tensors: Sequence[Any]) -> Any:
    return clipping.global_norm([convert(t) for t in tensors]) if tensors else boxed(np.float32(0))


def clip_by_global_norm(
    t_list: object, clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Any]:
    """Scale several tensors together so that their global norm is at most `clip_norm`.

    Args:
        t_list: a list of tensors, or of `tf.IndexedSlices`; None stays None.
        clip_norm: the maximal norm.
        use_norm: the global norm, if it is already computed.

    Returns:
        The list of tensors, and the global norm before clipping. If that is not finite, they are all NaN.

    Raises:
        StructureError: a TypeError; `t_list` is not a list.
    """
    norm = global_norm(t_list) if use_norm is None else arrays.convert_to_tensor(use_norm)
    return [None if t is None else _scaled_by_norm(t, clip_norm, norm, name=name) for t in _list(t_list)], norm


@_of_values()
@operation("clip_by_global_norm")
def _scaled_by_norm(t: ArrayLike, clip_norm: Operand, norm: Array) -> Any:
    return clipping.clip_by_global_norm([convert(t)], convert(clip_norm, hint=norm.dtype), norm)[0][0]


__getattr__ = missing(__name__)
