"""What fgrad does with every public name of `numpy`, `numpy.linalg` and `numpy.fft`, and with arrays and ufuncs.

    AREAS           the table: rows by area; `tests/test_coverage.py` runs every call of every row
    MODULES         what it covers, by the names under which the page counts
    counts()        how many names are of each class
    unclassed()     the public names of the installed NumPy that no row has

`tools/table_pages.py` makes a page of it for the site, and `docs/coverage.md` has its exceptions. A row
says what kind of function it is by the word that it begins with:

    real            differentiable, in real numbers
    complex_too     differentiable, in real and complex numbers
    in_pieces       constant in pieces: the derivative is 0 wherever there is one
    answer          not differentiable: what it answers is no floating-point number, or takes no derivative along
    aside           not differentiable: no tensor takes part
    refused         not supported: a traced tensor raises the error that is named

The calls of a row are functions of arrays in plain NumPy, by default the function itself. They are made
at the arrays of `at`; a call in brackets brings its own.
"""

from __future__ import annotations

import io
import operator
import os
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.special

import fgrad.numpy as fnp
import fgrad.scipy.special
from fgrad import errors

DIFFERENTIABLE = "differentiable"
IN_PIECES = "piecewise constant"
NOT_DIFFERENTIABLE = "not differentiable"
NOT_SUPPORTED = "not supported"
CLASSES = (DIFFERENTIABLE, IN_PIECES, NOT_DIFFERENTIABLE, NOT_SUPPORTED)


@dataclass(frozen=True)
class Call:
    """One call of a function of NumPy.

    Attributes:
        function: takes the points, in plain NumPy.
        points: real arrays of double precision.
        complex: whether the call is made with complex numbers, too.        batched: whether `vmap` can run it.
        apart: whether it can be differentiated with respect to one point alone, while the others are plain.
    """

    function: Callable[..., Any]
    points: tuple[Any, ...] = ()
    complex: bool = True
    batched: bool = True
    apart: bool = True


@dataclass(frozen=True)
class Row:
    """What holds for one name of NumPy, and for those that mean the same object.

    Attributes:
        names: as users write them after `np.`, or `ndarray.sum`.
        kind: one of `CLASSES`.
        calls: those that the tests make.
        remark: for the page.
        error: what a traced tensor raises, if it does.
        match: the beginning of that error's message.
        until: the last NumPy that has the name.
    """

    names: tuple[str, ...]
    kind: str
    calls: tuple[Call, ...]
    remark: str = ""
    error: type[Exception] | None = None
    match: str = ""
    until: str = ""

    def present(self) -> list[str]:
        """Return the names that the installed NumPy has."""
        return [name for name in self.names if look_up(name) is not None]


ROOTS = {"scipy": scipy, "fgrad": fgrad}
"""What names begin with that are not NumPy's."""


def look_up(name: str) -> Any:
    """Return the object that a name of the table means, or None where the installed NumPy lacks it."""
    root, _, rest = name.partition(".")
    try:
        return operator.attrgetter(rest)(ROOTS[root]) if root in ROOTS else operator.attrgetter(name)(np)
    except AttributeError:
        return None


def _itself(name: str) -> Callable[..., Any]:
    return lambda *arrays: look_up(name)(*arrays)


def _row(
    kind: str,
    names: str | tuple[str, ...],
    calls: tuple[Any, ...],
    at: Any,
    complex: bool = False,
    batched: bool = True,
    **facts: Any,
) -> Row:
    first, *others = names.split() if isinstance(names, str) else names
    points = at if isinstance(at, tuple) else (at,)
    made = []
    for call in calls or (_itself(first),):
        if isinstance(call, tuple):
            call = Call(call[0], call[1:])
        elif not isinstance(call, Call):
            call = Call(call)
        call = replace(call, complex=complex and call.complex, batched=batched and call.batched)
        made.append(call if call.points else replace(call, points=points))
    return Row((first, *others), kind, tuple(made), **facts)


def only_real(function: Callable[..., Any], *points: Any) -> Call:
    """Make a call with real numbers only, in a row whose other calls take complex ones."""
    return Call(function, points, complex=False)


def together(function: Callable[..., Any], *points: Any) -> Call:
    """Make a call that needs all its points to be traced, because it writes one into another."""
    return Call(function, points, apart=False)


def into(write: Callable[..., Any], *points: Any) -> Call:
    """Make a call that returns a copy of its first point after something was written into it."""

    def written(x: Any, *others: Any) -> Any:
        x = x.copy()
        write(x, *others)
        return x

    return together(written, *points)


def one_by_one(function: Callable[..., Any], *points: Any) -> Call:
    """Make a call that `vmap` cannot run, because the shape of its result depends on the values."""
    return Call(function, points, batched=False)


def real(names: str | tuple[str, ...], *calls: Any, at: Any = None, **facts: Any) -> Row:
    """Class names as differentiable in real numbers."""
    return _row(DIFFERENTIABLE, names, calls, M if at is None else at, **facts)


def complex_too(names: str | tuple[str, ...], *calls: Any, at: Any = None, **facts: Any) -> Row:
    """Class names as differentiable in real and in complex numbers."""
    return _row(DIFFERENTIABLE, names, calls, M if at is None else at, complex=True, **facts)


def in_pieces(names: str | tuple[str, ...], *calls: Any, at: Any = None, **facts: Any) -> Row:
    """Class names as constant in pieces."""
    return _row(IN_PIECES, names, calls, M if at is None else at, **facts)


def answer(names: str | tuple[str, ...], remark: str, *calls: Any, at: Any = None, **facts: Any) -> Row:
    """Class names as not differentiable, because of what they answer."""
    return _row(NOT_DIFFERENTIABLE, names, calls, M if at is None else at, remark=remark, **facts)


def aside(names: str | tuple[str, ...], remark: str, **facts: Any) -> Row:
    """Class names as not differentiable, because no tensor takes part."""
    return replace(_row(NOT_DIFFERENTIABLE, names, (_itself,), (), remark=remark, **facts), calls=())


def refused(
    names: str | tuple[str, ...], remark: str, error: type[Exception], match: str, *calls: Any, at: Any = None
) -> Row:
    """Class names as not supported: a traced tensor raises an error, whose message begins with `match`."""
    return _row(NOT_SUPPORTED, names, calls, M if at is None else at, remark=remark, error=error, match=match)


def each(word: Callable[..., Row], names: str, *args: Any, **facts: Any) -> list[Row]:
    """Make a row of the same kind for each of several names."""
    return [word(name, *args, **facts) for name in names.split()]


# The arrays. Positive ones serve most functions; no two numbers are equal, none is a whole number.

_RNG = np.random.default_rng(0)


def _draw(*shape: int, low: float = 0.3, high: float = 1.5) -> Any:
    return _RNG.uniform(low, high, shape)


V, W = _draw(4), _draw(4)
LONG = _draw(7)
M, M2 = _draw(2, 3), _draw(2, 3)
N = _draw(3, 2)
C = _draw(2, 3, 4)
SQUARE, SQUARE2 = _draw(3, 3) + 2 * np.eye(3), _draw(3, 3) + 2 * np.eye(3)
SQUARES = _draw(2, 3, 3) + 2 * np.eye(3)
TALL, WIDE = _draw(4, 3), _draw(3, 4)
POINT = np.array(0.7)
UNIT = _draw(2, 3, low=-0.9, high=0.9)
SIGNED, SIGNED2 = _draw(2, 3, low=-2, high=2), _draw(2, 3, low=-2, high=2)
SIGNED_V = _draw(5, low=-2, high=2)
ABOVE_ONE = _draw(2, 3, low=1.2, high=3)
WITH_NAN = np.array([[0.3, np.nan, 1.1], [0.9, 0.4, np.nan]])
WIDELY = _draw(6, low=-7, high=7)
MASK = np.array([[True, False, True], [False, True, True]])
CONDITION = np.array([True, False, True, True])
GRID = np.array([0.0, 0.5, 1.1, 2.0])


def twisted(x: Any) -> Any:
    """Return complex numbers as large as those of an array, with angles of up to 60 degrees."""
    angles = np.random.default_rng(x.size).uniform(-1, 1, x.shape)
    return np.asarray(x * np.exp(1j * angles))


# What calls are made of


def hermitian(x: Any) -> Any:
    """Return a positive definite matrix, Hermitian to the last bit, which products are not on all processors."""
    square = x @ np.conj(np.matrix_transpose(x))
    return (square + np.conj(np.matrix_transpose(square))) / 2 + np.eye(x.shape[-1])


def whole(x: Any) -> Any:
    """Return integers between 1 and 6."""
    return np.floor(4 * x).astype(np.int64)


def quietly(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that NumPy warns against."""
    with warnings.catch_warnings(action="ignore"):
        return function(*args)


def assign(x: Any, key: Any, value: Any) -> None:
    """Write `x[key] = value`, which a lambda cannot."""
    x[key] = value


def increased(x: Any, y: Any) -> Any:
    """Return `x += y`, which a lambda cannot write."""
    x = x.copy()
    x += y
    return x


def basis_free(values: Any, vectors: Any) -> Any:
    """Return what eigenvectors say whatever their order and phase: sizes, and the exponential of the matrix."""
    sizes = np.take_along_axis(np.abs(vectors), np.argsort(values)[..., None, :], -1)
    return np.sort(values), sizes, vectors * np.exp(values)[..., None, :] @ np.linalg.inv(vectors)


def basis_free_svd(u: Any, s: Any, vh: Any) -> Any:
    """Return what singular vectors say whatever the phase of each pair, and whatever the basis of the null space."""
    count = s.shape[-1]
    beyond = u[..., count:]
    null_space = beyond @ np.conj(np.matrix_transpose(beyond))
    return s, np.abs(u[..., :count]), (u[..., :count] * np.exp(s)[..., None, :]) @ vh[..., :count, :], null_space


def to_file(write: Callable[[str], Any]) -> bytes:
    """Return what a function writes into the file that it is told."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        write(path)
        with open(path, "rb") as file:
            return file.read()


def to_stream(write: Callable[[Any], Any]) -> int:
    """Return how much a function writes into an open file."""
    stream = io.BytesIO()
    write(stream)
    return len(stream.getvalue())


BOOLEANS, INTEGERS, DTYPES = "answers booleans", "answers integers", "answers dtypes"
SHAPES_ONLY = "answers a fact of shape or memory"
TEXT, FILES = "answers text", "writes a file"
OF_INTEGERS = "of integers"
SIZES_ONLY = "takes sizes only"
SETTINGS = "settings of NumPy"
DATES = "of dates"
BY_VALUES = "the shape of the result depends on the values"
DISPATCH = "NumPy does not dispatch it"
NO_NUMBER = "answers False for a traced number; `fgrad.numpy.isscalar` answers True"
CONVERSION = "NumPy requested a plain array from a traced tensor"
OBJECTS = "This function needs floating-point numbers"
LOST, NUMBER = "asks for a plain number", "float() requested a plain number from a traced tensor"
OLD_CLASS = "a class of its own"
OF_TENSORS = "makes an array of traced numbers, which fgrad takes for one tensor"
MEMORY = "about memory, which a traced tensor has none of"

PAIR, SIGNED_PAIR = (M, M2), (SIGNED, SIGNED2)

# fmt: off

_TRIGONOMETRIC = [
    complex_too("sin"),
    complex_too("cos"),
    complex_too("tan"),
    complex_too("arcsin asin", at=UNIT),
    complex_too("arccos acos", at=UNIT),
    complex_too("arctan atan", at=UNIT),
    complex_too("sinh"),
    complex_too("cosh"),
    complex_too("tanh"),
    complex_too("arcsinh asinh"),
    complex_too("arccosh acosh", at=ABOVE_ONE),
    complex_too("arctanh atanh", at=UNIT),
    real("arctan2 atan2", at=SIGNED_PAIR),
    real("hypot", at=SIGNED_PAIR),
    real("degrees"),
    real("rad2deg"),
    real("radians"),
    real("deg2rad"),
    real(
        "unwrap", np.unwrap, lambda x: np.unwrap(x, discont=4, period=5.0), (lambda x: np.unwrap(x, axis=0), 4 * C),
        at=WIDELY,
    ),
    complex_too("sinc"),
    real("i0", at=SIGNED),
]

_EXPONENTS = [
    *each(complex_too, "exp expm1 exp2 log log1p log2 log10"),
    real("logaddexp", at=SIGNED_PAIR),
    real("logaddexp2", at=SIGNED_PAIR),
]

_ARITHMETIC = [
    complex_too("add", np.add, lambda x, y: np.add(x, y[0]), lambda x, y: np.add(x, 2), at=PAIR),
    complex_too("subtract", np.subtract, lambda x, y: np.subtract(x[0], y), at=PAIR),
    complex_too("multiply", np.multiply, lambda x, y: np.multiply(x[:, :1], y), at=PAIR),
    complex_too("divide true_divide", np.divide, lambda x, y: np.divide(1, x) + y, at=PAIR),
    complex_too("power pow", np.power, lambda x, y: np.power(x, 3) + np.power(2.5, y), at=PAIR),
    complex_too("float_power", at=PAIR, remark="in double precision, as NumPy's"),
    *each(complex_too, "negative positive reciprocal square sqrt"),
    complex_too("absolute abs", at=SIGNED),
    real("fabs", at=SIGNED),
    real("cbrt", at=SIGNED),
    real("remainder mod", at=SIGNED_PAIR),
    real("fmod", at=SIGNED_PAIR),
    real("divmod", at=SIGNED_PAIR, remark="the quotient is constant in pieces"),
    in_pieces("floor_divide", np.floor_divide, lambda x, y: x // y[0], at=SIGNED_PAIR),
    real("maximum", np.maximum, lambda x, y: np.maximum(x, y[0]) + np.maximum(x, 0.1), at=SIGNED_PAIR),
    real("minimum", at=SIGNED_PAIR),
    real("fmax", np.fmax, lambda x, y: np.fmax(WITH_NAN, x) + y, at=SIGNED_PAIR),
    real("fmin", np.fmin, lambda x, y: np.fmin(WITH_NAN, x) + y, at=SIGNED_PAIR),
    real(
        "clip", lambda x: np.clip(x, 0.5, 1.1), lambda x: np.clip(x, None, 1.1) + np.clip(x, 0.5, None),
        lambda x: np.clip(x, min=0.5, max=x.mean()), (np.clip, SIGNED, SIGNED2 - 1, SIGNED2 + 1),
    ),
    complex_too("nan_to_num", np.nan_to_num, lambda x: np.nan_to_num(x, copy=True, nan=0.5), at=WITH_NAN),
]

_PARTS = [
    *each(in_pieces, "floor ceil trunc rint", at=SIGNED),
    in_pieces("fix", lambda x: quietly(np.fix, x), at=SIGNED, remark="deprecated in NumPy 2.5"),
    in_pieces("round", np.round, lambda x: np.round(x, 1), lambda x: np.round(x, decimals=-1), at=SIGNED),
    in_pieces("around", np.around, lambda x: np.around(x, 2), at=SIGNED),
    in_pieces("sign", at=SIGNED, remark="of complex numbers x / |x|, which is differentiable"),
    in_pieces(
        "heaviside", lambda x: np.heaviside(x, 0.5), (np.heaviside, *SIGNED_PAIR), at=SIGNED,
        remark="differentiable in its value at 0",
    ),
    in_pieces("spacing"),
    real("nextafter", at=PAIR, remark="with the derivative of its first argument"),
    real("modf", at=SIGNED, remark="the whole part is constant in pieces"),
    real("frexp", lambda x: np.frexp(x)[0], at=SIGNED, remark="the exponents are integers"),
    real("ldexp", lambda x: np.ldexp(x, 2), lambda x: np.ldexp(x, np.array([1, 0, -2])), at=SIGNED),
    real("copysign", at=SIGNED_PAIR),
    answer("signbit", BOOLEANS, at=SIGNED),
]

_COMPLEX = [
    complex_too("real"),
    complex_too("imag"),
    complex_too("conjugate conj"),
    complex_too("angle", np.angle, lambda x: np.angle(x, deg=True), (np.angle, twisted(M).real)),
    real(
        "real_if_close", np.real_if_close, one_by_one(lambda x: np.real_if_close(x + 0j)),
        remark="of complex numbers: the dtype depends on the values",
    ),
    *each(answer, "isreal iscomplex isrealobj iscomplexobj", BOOLEANS),
]

_LOGIC = [
    *each(answer, "equal not_equal less less_equal greater greater_equal", BOOLEANS, at=SIGNED_PAIR),
    *each(answer, "logical_and logical_or logical_xor", BOOLEANS, at=SIGNED_PAIR),
    *each(answer, "logical_not isfinite isinf isnan isneginf isposinf", BOOLEANS, at=SIGNED),
    answer("isclose", BOOLEANS, np.isclose, lambda x, y: np.isclose(x, y, atol=1.0), at=SIGNED_PAIR),
    answer("allclose", BOOLEANS, np.allclose, lambda x, y: np.allclose(x, x + 1e-12 * y), at=PAIR, batched=False),
    answer("array_equal", BOOLEANS, np.array_equal, lambda x, y: np.array_equal(x, x), at=PAIR, batched=False),
    answer("array_equiv", BOOLEANS, np.array_equiv, lambda x, y: np.array_equiv(x, [x, x]), at=PAIR, batched=False),
    answer("all", BOOLEANS, np.all, lambda x: np.all(x > 0.5, axis=1, keepdims=True)),
    answer("any", BOOLEANS, np.any, lambda x: np.any(x > 1.4, axis=0)),
    answer("isnat", "of dates", lambda x: np.isnat(np.datetime64("NaT", "D"))),
    answer("isin", BOOLEANS, lambda x: np.isin(x, [M[0, 0], 2.0]), lambda x: np.isin(x, x[0], invert=True)),
]


def _of_integers(names: str) -> Row:
    """Class ufuncs of two whole numbers."""
    name = names.split()[0]
    return answer(names, OF_INTEGERS, lambda x, y: look_up(name)(whole(x), whole(y)), at=PAIR)


_BITS = [
    *map(_of_integers, ("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm")),
    _of_integers("left_shift bitwise_left_shift"),
    _of_integers("right_shift bitwise_right_shift"),
    answer("invert bitwise_not bitwise_invert", OF_INTEGERS, lambda x: np.invert(whole(x))),
    answer("bitwise_count", OF_INTEGERS, lambda x: np.bitwise_count(whole(x))),
    answer("packbits", OF_INTEGERS, lambda x: np.packbits(x > 1, axis=1), batched=False),
    answer("unpackbits", OF_INTEGERS, lambda x: np.unpackbits(whole(x).astype(np.uint8), axis=1), batched=False),
]

_SUMS = [
    complex_too(
        "sum", np.sum, lambda x: np.sum(x, axis=(0, -1), keepdims=True), lambda x: np.sum(x, axis=1),
        lambda x: np.sum(x, axis=2, where=x.real > 0.7, initial=2.0), lambda x: np.sum(x, dtype=np.complex128), at=C,
    ),
    complex_too(
        "prod", np.prod, lambda x: np.prod(x, axis=1, keepdims=True), (lambda x: np.prod(x, axis=0, where=MASK), M),
        lambda x: np.prod(x, axis=(0, 2), initial=2.0), (lambda x: np.prod(x * GRID), V), at=C,
    ),
    complex_too("cumsum", np.cumsum, lambda x: np.cumsum(x, axis=1), lambda x: np.cumsum(x, dtype=np.complex128), at=C),
    complex_too("cumprod", np.cumprod, lambda x: np.cumprod(x, axis=1), (lambda x: np.cumprod(x * GRID), V), at=M),
    complex_too(
        "cumulative_sum", (np.cumulative_sum, V), lambda x: np.cumulative_sum(x, axis=1, include_initial=True), at=C,
    ),
    complex_too(
        "cumulative_prod", (np.cumulative_prod, V), lambda x: np.cumulative_prod(x, axis=0, include_initial=True),
    ),
    complex_too(
        "diff", np.diff, lambda x: np.diff(x, 2, axis=1, append=x[:, :1]), lambda x: np.diff(x, prepend=0.5), at=TALL,
    ),
    complex_too("ediff1d", np.ediff1d, lambda x: np.ediff1d(x, to_end=x[0, :2], to_begin=-1.0)),
    complex_too(
        "gradient", (np.gradient, LONG), np.gradient, lambda x: np.gradient(x, 0.5, axis=1, edge_order=2),
        lambda x: np.gradient(x, axis=(1, 0)), lambda x: np.gradient(x, GRID, [1.0, 1.3, 2.0]),
        (lambda x, h: np.gradient(x, h), LONG, POINT), at=TALL,
    ),
    complex_too(
        "trapezoid", np.trapezoid, lambda y: np.trapezoid(y, dx=0.5, axis=0), (np.trapezoid, TALL, np.cumsum(TALL, 1)),
        (lambda y, x: np.trapezoid(y, x, axis=0), TALL, V), (lambda y, h: np.trapezoid(y, dx=h), TALL, POINT), at=TALL,
    ),
    complex_too("cross", np.cross, lambda x, y: np.cross(x, y[0]), lambda x, y: np.cross(x.T, y.T, axis=0), at=PAIR),
    complex_too(
        "nansum", np.nansum, lambda x: np.nansum(x, axis=0, keepdims=True),
        lambda x: np.nansum(x, axis=1, where=MASK, initial=2.0), at=WITH_NAN,
    ),
    complex_too("nanprod", np.nanprod, lambda x: np.nanprod(x, axis=1, where=MASK, initial=2.0), at=WITH_NAN),
    complex_too("nancumsum", np.nancumsum, lambda x: np.nancumsum(x, axis=1), at=WITH_NAN),
    complex_too("nancumprod", np.nancumprod, lambda x: np.nancumprod(x, axis=0), at=WITH_NAN),
]


def _quantiles(name: str, scale: float) -> list[Any]:
    """Return calls of a function of the family of `quantile`."""
    methods = (
        "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen",
        "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
    )  # fmt: skip
    return [
        *(lambda x, method=method: look_up(name)(x, [0.23 * scale, 0.71 * scale], method=method) for method in methods),
        lambda x: look_up(name)(x, 0.4 * scale, axis=0, keepdims=True),
        lambda x: look_up(name)(x, 0.5 * scale, axis=1, weights=WEIGHTS, method="inverted_cdf"),
        (lambda x, q: look_up(name)(x, q * 0.5 * scale, axis=1), C[0], POINT),
    ]


WEIGHTS = _draw(2, 3)
COUNTS = np.array([1, 3, 2])

_STATISTICS = [
    complex_too(
        "mean", np.mean, lambda x: np.mean(x, axis=(0, 2), keepdims=True), lambda x: np.mean(x, dtype=np.complex128),
        (lambda x: np.mean(x, axis=0, where=MASK), M), at=C,
    ),
    *(
        complex_too(
            name, _itself(name), lambda x, name=name: look_up(name)(x, axis=(0, 2), ddof=1, keepdims=True),
            (lambda x, name=name: look_up(name)(x, axis=1, where=MASK), M),
            lambda x, name=name: look_up(name)(x, axis=1, correction=0.5),
            (lambda x, name=name: look_up(name)(x, axis=1, mean=np.mean(x, axis=1, keepdims=True)), M), at=C,
        )
        for name in ("var", "std")
    ),
    complex_too(
        "average", np.average, lambda x: np.average(x, axis=1, keepdims=True),
        (lambda x, w: np.average(x, axis=0, weights=w, returned=True), M, WEIGHTS), at=C,
    ),
    *(
        real(
            names, _itself(names), lambda x, name=names: look_up(name)(x, axis=(0, 2), keepdims=True),
            (lambda x, name=names: look_up(name)(x, axis=1, initial=1.0, where=MASK), M), at=C,
        )
        for names in ("max", "amax", "min", "amin")
    ),
    real("ptp", np.ptp, lambda x: np.ptp(x, axis=1, keepdims=True), at=C),
    real("median", np.median, lambda x: np.median(x, axis=(0, 2), keepdims=True), lambda x: np.median(x, axis=1), at=C),
    real("quantile", *_quantiles("quantile", 1)),
    real("percentile", *_quantiles("percentile", 100)),
    real("nanmax", np.nanmax, lambda x: np.nanmax(x, axis=1, initial=1.0, keepdims=True), at=WITH_NAN),
    real("nanmin", np.nanmin, lambda x: np.nanmin(x, axis=0), at=WITH_NAN),
    complex_too("nanmean", np.nanmean, lambda x: np.nanmean(x, 1, keepdims=True, where=MASK), at=WITH_NAN),
    complex_too("nanvar", lambda x: np.nanvar(x, axis=1, ddof=1), lambda x: np.nanvar(x, where=MASK), at=WITH_NAN),
    complex_too("nanstd", np.nanstd, lambda x: np.nanstd(x, axis=1), at=WITH_NAN),
    real("nanmedian", np.nanmedian, lambda x: np.nanmedian(x, axis=1, keepdims=True), at=WITH_NAN),
    real("nanquantile", *_quantiles("nanquantile", 1)[9:], lambda x: np.nanquantile(x, 0.3, axis=1), at=WITH_NAN),
    real("nanpercentile", *_quantiles("nanpercentile", 100)[9:], lambda x: np.nanpercentile(x, 30), at=WITH_NAN),
    complex_too(
        "cov", np.cov, lambda x: np.cov(x, rowvar=False, bias=True), lambda x: np.cov(x, x[:1], ddof=0),
        lambda x: np.cov(x, fweights=[1, 2, 3, 1], aweights=W), (np.cov, V, W), at=WIDE,
    ),
    complex_too(
        "corrcoef", np.corrcoef, lambda x: np.corrcoef(x, rowvar=False), (np.corrcoef, LONG, LONG[::-1] ** 2), at=WIDE,
    ),
    real("bincount", lambda w: np.bincount([1, 0, 1, 3], w, minlength=5), at=V, remark="differentiable in its weights"),
    real(
        "histogram", lambda w: np.histogram(W, [0.2, 0.7, 1.6], weights=w)[0],
        lambda w: np.histogram(W, 3, (0.0, 2.0), density=True, weights=w)[0], lambda x: np.histogram(x, 3)[1], at=V,
        remark="differentiable in its weights, and the edges in the bounds of the range",
    ),
    real(
        "histogram2d", lambda w: np.histogram2d(V, W, 2, [[0, 1], [0, 2]], weights=w)[0], at=V, remark="as `histogram`",
    ),
    real(
        "histogramdd", lambda w: np.histogramdd(TALL, 2, [[0, 1], [0, 2], [0, 2]], weights=w)[0], at=V,
        remark="as `histogram`",
    ),
    real(
        "histogram_bin_edges", lambda x: np.histogram_bin_edges(x, 3),
        one_by_one(lambda x: np.histogram_bin_edges(x, "sturges")),
        one_by_one(lambda x: np.histogram_bin_edges(V, 3, (x[0] - 3, x[1] + 3))), at=LONG,
    ),
    answer("digitize", INTEGERS, lambda x: np.digitize(x, [0.5, 1.0])),
]

_SORTING = [
    complex_too(
        "sort", np.sort, lambda x: np.sort(x, axis=0), lambda x: np.sort(x, axis=None),
        lambda x: np.sort(x, axis=1, kind="stable"),
    ),
    complex_too("sort_complex", at=V),
    complex_too("partition", lambda x: np.partition(x, 1, axis=0), (lambda x: np.partition(x, [1, 2]), V), at=TALL),
    answer("argsort", INTEGERS, np.argsort, lambda x: np.argsort(x, axis=0)),
    answer("argpartition", INTEGERS, lambda x: np.argpartition(x, 1)),
    answer("lexsort", INTEGERS, at=PAIR[:1]),
    *(
        answer(name, INTEGERS, _itself(name), lambda x, name=name: look_up(name)(x, axis=1, keepdims=True))
        for name in ("argmax", "argmin", "nanargmax", "nanargmin")
    ),
    answer("searchsorted", INTEGERS, lambda x: np.searchsorted([0.5, 1.0], x), lambda x: np.searchsorted(x[0], 0.6)),
    answer("count_nonzero", INTEGERS, lambda x: np.count_nonzero(x > 1, axis=1)),
    answer("nonzero", INTEGERS, lambda x: np.nonzero(x > 0.8), batched=False),
    answer("flatnonzero", INTEGERS, lambda x: np.flatnonzero(x > 0.8), batched=False),
    answer("argwhere", INTEGERS, lambda x: np.argwhere(x > 0.8), batched=False),
    complex_too(
        "unique", np.unique, lambda x: np.unique(x, return_index=True, return_inverse=True)[0],
        lambda x: np.unique(np.stack([x[0], x[1], x[0]]), axis=0), batched=False, remark=BY_VALUES,
    ),
    complex_too("unique_values", lambda x: np.sort(np.unique_values(x)), batched=False, remark=BY_VALUES),
    complex_too("unique_counts", lambda x: np.unique_counts(x).values, batched=False, remark=BY_VALUES),
    complex_too("unique_inverse", lambda x: np.unique_inverse(x).values, batched=False, remark=BY_VALUES),
    complex_too("unique_all", lambda x: np.unique_all(x).values, batched=False, remark=BY_VALUES),
    *each(complex_too, "union1d setdiff1d setxor1d", at=(V, W), batched=False, remark=BY_VALUES),
    complex_too("intersect1d", lambda x: np.intersect1d(x, x[1:3]), at=V, batched=False, remark=BY_VALUES),
]

_SHAPES = [
    complex_too("reshape", lambda x: np.reshape(x, (3, -1)), lambda x: np.reshape(x, (3, 2), order="F")),
    complex_too("ravel", np.ravel, lambda x: np.ravel(x, order="F"), at=C),
    complex_too("transpose permute_dims", np.transpose, lambda x: np.transpose(x, (1, -1, 0)), at=C),
    complex_too("matrix_transpose", at=C),
    complex_too("swapaxes", lambda x: np.swapaxes(x, 0, -1), at=C),
    complex_too("moveaxis", lambda x: np.moveaxis(x, [0, 1], [-1, 0]), at=C),
    complex_too("rollaxis", lambda x: np.rollaxis(x, 2), lambda x: np.rollaxis(x, 1, 3), at=C),
    complex_too("expand_dims", lambda x: np.expand_dims(x, 1), lambda x: np.expand_dims(x, (0, -1))),
    complex_too("squeeze", np.squeeze, lambda x: np.squeeze(x, axis=0), at=C[:1, :, :1]),
    *each(complex_too, "atleast_1d atleast_2d atleast_3d", at=V),
    complex_too("broadcast_to", lambda x: np.broadcast_to(x, (4, 2, 3))),
    complex_too("broadcast_arrays", at=(M, V[:3])),
    complex_too(
        "concatenate concat", lambda x, y: np.concatenate([x, y, M], axis=1),
        lambda x, y: np.concatenate((x, y), axis=None), at=PAIR,
    ),
    complex_too("stack", lambda x, y: np.stack([x, y], axis=-1), lambda x, y: np.stack([x[0], y[1], V[:3]]), at=PAIR),
    *(
        complex_too(name, lambda x, y, name=name: look_up(name)([x, y]), at=PAIR)
        for name in ("vstack", "hstack", "dstack")
    ),
    complex_too("column_stack", lambda x, y: np.column_stack([x, y]), at=(V, W)),
    complex_too("row_stack", lambda x, y: quietly(np.row_stack, [x, y]), at=(V, W), until="2.4", remark="deprecated"),
    complex_too(
        "block", lambda x, y: np.block([[x, y], [y, np.ones((2, 3))]]), lambda x, y: np.block([x, 2.0 * y]), at=PAIR,
    ),
    complex_too("append", lambda x, y: np.append(x, y, axis=0), np.append, at=PAIR),
    complex_too("split", lambda x: np.split(x, 2), lambda x: np.split(x, [1, 3], axis=1), at=C),
    complex_too(
        "array_split", lambda x: np.array_split(x, 3), lambda x: np.array_split(x, 2, axis=1), at=V[:, None] * W,
    ),
    complex_too("vsplit", lambda x: np.vsplit(x, 2), at=C),
    complex_too("hsplit", lambda x: np.hsplit(x, 3), at=C),
    complex_too("dsplit", lambda x: np.dsplit(x, 2), at=C),
    complex_too("unstack", np.unstack, lambda x: np.unstack(x, axis=1)),
    complex_too("tile", lambda x: np.tile(x, 2), lambda x: np.tile(x, (2, 1, 2))),
    complex_too("repeat", lambda x: np.repeat(x, 2), lambda x: np.repeat(x, COUNTS, axis=1)),
    complex_too(
        "delete", lambda x: np.delete(x, 1), lambda x: np.delete(x, [0, 2], axis=1),
        lambda x: np.delete(x, slice(1), 0),
    ),
    complex_too(
        "insert", lambda x: np.insert(x, 1, 2.0), lambda x: np.insert(x, [0, 2], x[:, :1], axis=1),
        (lambda x, v: np.insert(x, 1, v, axis=0), M, V[:3]),
    ),
    complex_too("resize", lambda x: np.resize(x, (3, 3)), lambda x: np.resize(x, 4)),
    complex_too(
        "trim_zeros", lambda x: np.trim_zeros(x * np.array([0, 1, 1, 0])), at=V, batched=False, remark=BY_VALUES,
    ),
    complex_too("flip", np.flip, lambda x: np.flip(x, 1), lambda x: np.flip(x, (0, 2)), at=C),
    complex_too("fliplr", at=C),
    complex_too("flipud", at=C),
    complex_too(
        "roll", lambda x: np.roll(x, 1), lambda x: np.roll(x, (1, -1), axis=(0, 1)), lambda x: np.roll(x, 5, 1), at=C,
    ),
    complex_too("rot90", np.rot90, lambda x: np.rot90(x, 2), lambda x: np.rot90(x, -1, (0, 2)), at=C),
    complex_too(
        "pad", lambda x: np.pad(x, 1), lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=((0.5, 1), (2, 3))),
        *(
            lambda x, mode=mode: np.pad(x, ((1, 2), (0, 1)), mode)
            for mode in ("edge", "linear_ramp", "mean", "reflect", "symmetric", "wrap")
        ),
        lambda x: np.pad(x, 1, "reflect", reflect_type="odd"), lambda x: np.pad(x, 2, "mean", stat_length=2),
        *(only_real(lambda x, mode=mode: np.pad(x, 1, mode)) for mode in ("maximum", "minimum", "median")),
        lambda x: np.pad(x, 1, "linear_ramp", end_values=0.5), lambda x: np.pad(x, {0: (1, 2)}, "edge"), at=TALL,
        remark="not with the mode `empty`, whose values are arbitrary",
    ),
]

_SELECTING = [
    complex_too(
        "take", lambda x: np.take(x, [[5, 0]]), lambda x: np.take(x, [2, 0, 2], axis=1),
        lambda x: np.take(x, [5, -3], 0, mode="wrap"),
    ),
    complex_too(
        "take_along_axis", lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1),
        lambda x: np.take_along_axis(x, np.array([[0], [2]]), 1),
    ),
    complex_too("compress", lambda x: np.compress([True, False, True], x, axis=1), lambda x: np.compress([0, 1, 1], x)),
    complex_too("extract", lambda x: np.extract(MASK, x), one_by_one(lambda x: np.extract(x.real > 0.8, x))),
    complex_too(
        "choose", lambda x, y: np.choose([[0, 1, 0]], [x, y]), lambda x, y: np.choose(COUNTS, [x, y], mode="wrap"),
        at=PAIR,
    ),
    complex_too(
        "select", lambda x, y: np.select([x.real > 1, y.real > 0.8], [x * y, y], default=0.5),
        lambda x, y: np.select([MASK], [x]) + y, at=PAIR,
    ),
    complex_too(
        "where", lambda x, y: np.where(x.real > y.real, x * x, y), lambda x, y: np.where(MASK, x, 0.0) + y, at=PAIR,
    ),
    complex_too(
        "piecewise", lambda x: np.piecewise(x, [x.real > 1, x.real < 0.5], [lambda x: x * x, 2.0, np.sin]),
        lambda x: np.piecewise(x, [MASK], [lambda x, a: a * x, lambda x, a: a / x], 3.0),
    ),
    complex_too("diagonal", np.diagonal, lambda x: np.diagonal(x, 1, axis1=2, axis2=0), at=SQUARES),
    complex_too(
        "copyto", into(lambda x, y: np.copyto(x, 2 * y)), into(lambda x, y: np.copyto(x, y, where=MASK)), at=PAIR,
    ),
    complex_too("put", into(lambda x, y: np.put(x, [0, 4], y[0, :2])), at=PAIR),
    complex_too("place", into(lambda x, y: np.place(x, MASK, y[0])), at=PAIR),
    complex_too("putmask", into(lambda x, y: np.putmask(x, MASK, y)), at=PAIR),
    complex_too("put_along_axis", into(lambda x, y: np.put_along_axis(x, np.array([[1], [0]]), y[:, :1], 1)), at=PAIR),
    complex_too("fill_diagonal", into(lambda x, y: np.fill_diagonal(x, y[0, :2])), at=PAIR),
    answer("indices", SIZES_ONLY, lambda x: np.indices(x.shape)),
    answer("ix_", INTEGERS, lambda x: np.ix_(whole(x[0]))),
    answer(
        "ravel_multi_index", OF_INTEGERS, lambda x: np.ravel_multi_index((whole(x[0]), [1, 2, 0]), (7, 3)),
        batched=False,
    ),
    answer("unravel_index", OF_INTEGERS, lambda x: np.unravel_index(whole(x), (3, 5)), batched=False),
    answer("diag_indices", SIZES_ONLY, lambda x: np.diag_indices(len(x))),
    answer("diag_indices_from", SHAPES_ONLY, at=SQUARE),
    answer("mask_indices", SIZES_ONLY, lambda x: np.mask_indices(3, np.triu)),
    answer("tril_indices", SIZES_ONLY, lambda x: np.tril_indices(len(x))),
    answer("triu_indices", SIZES_ONLY, lambda x: np.triu_indices(len(x), 1)),
    answer("tril_indices_from", SHAPES_ONLY),
    answer("triu_indices_from", SHAPES_ONLY),
]

_MATRICES = [
    complex_too("diag", (np.diag, V), np.diag, lambda x: np.diag(x, -1), (lambda x: np.diag(x, 1), V), at=SQUARE),
    complex_too("diagflat", np.diagflat, lambda x: np.diagflat(x, 1)),
    complex_too("tril", np.tril, lambda x: np.tril(x, -1), at=SQUARES),
    complex_too("triu", np.triu, lambda x: np.triu(x, 1), at=SQUARES),
    complex_too("vander", np.vander, lambda x: np.vander(x, 3, increasing=True), at=V),
    complex_too("meshgrid", np.meshgrid, lambda x, y: np.meshgrid(x, y, indexing="ij", sparse=True), at=(V, LONG)),
    complex_too(
        "linspace", lambda x, y: np.linspace(x, y, 5),
        lambda x, y: np.linspace(x, y, 4, endpoint=False, retstep=True, axis=1), at=PAIR,
    ),
    complex_too("logspace", lambda x, y: np.logspace(x, y, 5), lambda x, y: np.logspace(0.1, x, 3, base=y), at=PAIR),
    complex_too(
        "geomspace", lambda x, y: np.geomspace(x, y, 5), lambda x, y: np.geomspace(x, y, 4, endpoint=False, axis=-1),
        at=PAIR,
    ),
    complex_too("full_like", together(lambda x, v: np.full_like(x, v) * x), at=(M, POINT)),
    answer("zeros_like", "answers zeros"),
    answer("ones_like", "answers ones"),
    answer("empty_like", "answers zeros", lambda x: np.empty_like(x).shape),
    complex_too("copy"),
    complex_too("astype", lambda x: np.astype(x, np.complex128)),
    *each(aside, "zeros ones empty eye identity tri", SIZES_ONLY),
    real(
        "array", lambda x: np.array(x), lambda x: np.array([x[0, 0], x[1, 2] * x[0, 1]]),
        lambda x: np.array([[x[0, 0], 1.0], [0.0, x[1, 1]]]) @ x, lambda x: np.array([x[0], x[1] * x[0]]),
        remark=OF_TENSORS,
    ),
    real("asarray", lambda x: np.asarray(x), lambda x: np.asarray([x[0], x[1] * x[0]]), remark=OF_TENSORS),
    real("asanyarray", lambda x: np.asanyarray(x), remark=OF_TENSORS),
    real("asarray_chkfinite", lambda x: np.asarray_chkfinite(x), remark=OF_TENSORS),
    real("ascontiguousarray", lambda x: np.ascontiguousarray(x), remark=OF_TENSORS),
    real("asfortranarray", lambda x: np.asfortranarray(x), remark=OF_TENSORS),
    real("require", lambda x: np.require(x), lambda x: np.require(x, requirements="C"), remark=OF_TENSORS),
    real("full", lambda x: np.full((2,), x[0, 0]), remark=OF_TENSORS),
    refused("arange", DISPATCH, errors.ArrayConversionError, CONVERSION, lambda x: np.arange(x, 3.0), at=POINT),
    refused("fromiter", DISPATCH, errors.ArrayConversionError, CONVERSION, lambda x: np.fromiter(x[0], float)),
    refused("asmatrix", OLD_CLASS, errors.ObjectArrayError, OBJECTS, lambda x: quietly(np.asmatrix, x)),
    refused("matrix", OLD_CLASS, errors.ObjectArrayError, OBJECTS, lambda x: quietly(np.matrix, x)),
    refused("bmat", OLD_CLASS, errors.ObjectArrayError, OBJECTS, lambda x: quietly(np.bmat, [[x]])),
    real("r_", lambda x: np.r_[x[0], x[1, 0]], lambda x: np.r_["0,2", x[0], x[1]], remark=OF_TENSORS),
    real("c_", lambda x: np.c_[x[0], x[1]], remark=OF_TENSORS),
    real("mgrid", lambda x: np.mgrid[0:x:4j], at=POINT),
    real("ogrid", lambda x: np.ogrid[0:x:4j], at=POINT),
    answer("s_", "answers an index", lambda x: np.s_[whole(x)]),
    answer("index_exp", "answers an index", lambda x: np.index_exp[whole(x)]),
    refused(
        "from_dlpack", "hands over memory, which a traced tensor has none of", errors.ExportError, "DLPack would take",
    ),
]

_PRODUCTS = [
    complex_too("dot", (np.dot, V, W), (np.dot, M, N), (np.dot, C, V), (np.dot, M, POINT)),
    complex_too("vdot", (np.vdot, V, W), (np.vdot, M, M2)),
    complex_too("inner", (np.inner, V, W), (np.inner, M, M2)),
    complex_too("outer", at=(V, M)),
    complex_too("kron", (np.kron, V, W), (np.kron, M, N), (np.kron, V, M)),
    complex_too(
        "matmul", (np.matmul, M, N), (np.matmul, C, V), (np.matmul, V, TALL), (np.matmul, SQUARES, SQUARE),
        (lambda x, y: np.matmul(x, y, axes=[(1, 0), (0, 1), (0, 1)]), TALL, WIDE.T),
    ),
    complex_too("vecdot", (np.vecdot, M, M2), (np.vecdot, C, V), (lambda x, y: np.vecdot(x, y, axis=0), M, M2)),
    complex_too("matvec", (np.matvec, C, V), (np.matvec, M, M2[0])),
    complex_too("vecmat", (np.vecmat, V, TALL)),
    complex_too(
        "tensordot", (np.tensordot, C, WIDE), (lambda x, y: np.tensordot(x, y, axes=([0, 1], [0, 1])), M, C),
        (lambda x, y: np.tensordot(x, y, axes=0), V, W),
    ),
    complex_too(
        "einsum", (lambda x, y: np.einsum("ij,jk->ki", x, y), M, N), (lambda x: np.einsum("ii->i", x), SQUARE),
        (lambda x, y: np.einsum("...j,j", x, y), C, V),
        (lambda x, y: np.einsum("ij,kj,jl", x, x, y, optimize=True), M, N),
        (lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [0, 2]), M, N),
    ),
    answer(
        "einsum_path", "answers an order of contractions", lambda x, y: np.einsum_path("ij,jk->ik", x, y), at=(M, N),
    ),
    complex_too("trace", np.trace, lambda x: np.trace(x, 1, axis1=2, axis2=0), at=SQUARES),
    complex_too(
        "convolve", *(lambda x, y, mode=mode: np.convolve(x, y, mode) for mode in ("full", "same", "valid")),
        at=(LONG, V),
    ),
    complex_too(
        "correlate", *(lambda x, y, mode=mode: np.correlate(x, y, mode) for mode in ("full", "same", "valid")),
        at=(LONG, V),
    ),
]

_POLYNOMIALS = [
    complex_too("poly", (np.poly, V), (np.poly, SQUARE)),
    complex_too("polyadd", at=(V, LONG)),
    complex_too("polysub", at=(V, LONG)),
    complex_too("polymul", at=(V, W)),
    complex_too(
        "polydiv", lambda u, v: np.polydiv(u, v)[0], lambda u, v: np.polyval(np.polydiv(u, v)[1], 0.7), at=(LONG, V),
    ),
    complex_too("polyder", np.polyder, lambda p: np.polyder(p, 2), at=LONG),
    complex_too(
        "polyint", np.polyint, lambda p: np.polyint(p, 2, k=[1.0, 2.0]),
        together(lambda p, k: np.polyint(p, k=k), V, POINT), at=LONG,
    ),
    complex_too("polyval", (np.polyval, V, M), (lambda p: np.polyval(p, p), V)),
    complex_too(
        "polyfit", lambda y: np.polyfit(GRID, y, 2), (lambda y: np.polyfit(GRID, y, 1, full=True)[:2], TALL),
        (lambda x, y: np.polyfit(x, y, 1), V, W), (lambda y: np.polyfit(GRID, y, 1, w=V), TALL),
        (lambda y: np.polyfit(np.arange(7.0), y, 2, cov=True)[1], LONG), at=V,
    ),
    complex_too(
        "roots", np.roots, lambda p: np.roots(p * np.array([0, 1, 1, 1])), at=V, remark="where no roots coincide",
    ),
]

_SAMPLING = [
    complex_too(
        "interp", lambda f: np.interp([0.2, 0.7, 3.0], GRID, f), only_real(lambda x: np.interp(x, GRID, V)),
        only_real(lambda x: np.interp(x, GRID, V, left=-1.0, right=2.0), 2 * M),
        only_real(np.interp, 2 * M, np.cumsum(V), W), only_real(lambda x: np.interp(x, GRID, V, period=1.5), 3 * M),
        at=V, remark="complex values at real points",
    ),
    real("kaiser", lambda beta: np.kaiser(5, beta), at=POINT, remark=OF_TENSORS),
    *each(aside, "bartlett blackman hamming hanning", SIZES_ONLY),
]

_OVER_SLICES = [
    complex_too(
        "apply_along_axis", lambda x: np.apply_along_axis(lambda v: v * v.sum(), 1, x),
        lambda x: np.apply_along_axis(np.prod, 0, x), lambda x: np.apply_along_axis(lambda v: np.outer(v, v), 0, x),
    ),
    complex_too("apply_over_axes", lambda x: np.apply_over_axes(np.sum, x, [0, 2]), at=C),
    complex_too("fromfunction", lambda x: np.fromfunction(lambda i, j: x * (i + j), (2, 3))),
    real(
        "vectorize", lambda x: np.vectorize(lambda v: v * v)(x),
        (lambda x, y: np.vectorize(lambda v, w: v * w)(x, y), M, M2), remark=OF_TENSORS + ", one call for each element",
    ),
    refused(
        "frompyfunc", "calls a Python function from C for each element; use `fg.vmap`", errors.MissingRuleError,
        "<lambda> (vectorized) has no derivative rule", lambda x: np.frompyfunc(lambda v: 2 * v, 1, 1)(x),
    ),
    real("poly1d", one_by_one(lambda x: np.poly1d(x)(0.5)), lambda x: np.poly1d([1.0, 2.0, 3.0])(x), at=V),
    refused("nditer", MEMORY, TypeError, "Iterator operand"),
    refused("nested_iters", MEMORY, TypeError, "Iterator operand", lambda x: np.nested_iters([x], [[0], [1]])),
    real("ndenumerate", lambda x: sum(v**2 * (1 + place[1]) for place, v in np.ndenumerate(x))),
    answer("broadcast", SHAPES_ONLY, lambda x: np.broadcast(x, x).shape),
    answer("ndindex", SIZES_ONLY, lambda x: list(np.ndindex(x.shape))),
]

_LINALG = [
    complex_too(
        "linalg.cholesky", lambda x: np.linalg.cholesky(hermitian(x)),
        (lambda x: np.linalg.cholesky(hermitian(x), upper=True), SQUARES), at=SQUARE,
    ),
    complex_too(
        "linalg.cond", np.linalg.cond, (lambda x: np.linalg.cond(x, "fro"), SQUARES),
        *(lambda x, p=p: np.linalg.cond(x, p) for p in (1, -1, -2, np.inf, "nuc")), (np.linalg.cond, TALL), at=SQUARE,
    ),
    complex_too("linalg.cross", at=PAIR),
    complex_too("linalg.det", np.linalg.det, (np.linalg.det, SQUARES), at=SQUARE),
    complex_too("linalg.diagonal", np.linalg.diagonal, lambda x: np.linalg.diagonal(x, offset=1), at=SQUARES),
    complex_too(
        "linalg.eig", lambda x: basis_free(*np.linalg.eig(x)), at=SQUARE, remark="where no eigenvalues coincide",
    ),
    complex_too(
        "linalg.eigh", lambda x: basis_free(*np.linalg.eigh(hermitian(x))),
        (lambda x: basis_free(*np.linalg.eigh(hermitian(x), UPLO="U")), SQUARES), at=SQUARE,
    ),
    complex_too(
        "linalg.eigvals", lambda x: np.sort(np.linalg.eigvals(x)), (lambda x: np.sort(np.linalg.eigvals(x)), SQUARES),
        at=SQUARE,
    ),
    complex_too("linalg.eigvalsh", lambda x: np.linalg.eigvalsh(hermitian(x)), at=SQUARES),
    complex_too("linalg.inv", np.linalg.inv, (np.linalg.inv, SQUARES), at=SQUARE),
    complex_too(
        "linalg.lstsq", lambda a, b: np.linalg.lstsq(a, b), lambda a, b: np.linalg.lstsq(a, b[:, 0], rcond=None)[0],
        (lambda a, b: np.linalg.lstsq(a, b)[0], WIDE, V[:3]), at=(TALL, TALL[:, :2] ** 2),
    ),
    complex_too("linalg.matmul", at=(M, N)),
    complex_too(
        "linalg.matrix_norm", np.linalg.matrix_norm,
        *(
            lambda x, p=p: np.linalg.matrix_norm(x, ord=p, keepdims=True)
            for p in (1, -1, 2, -2, "nuc", np.inf, -np.inf)
        ),
        at=C,
    ),
    complex_too(
        "linalg.matrix_power", *(lambda x, n=n: np.linalg.matrix_power(x, n) for n in (0, 1, 3, -2)), at=SQUARES,
    ),
    answer("linalg.matrix_rank", INTEGERS, at=SQUARES),
    complex_too("linalg.matrix_transpose", at=C),
    complex_too(
        "linalg.multi_dot", lambda x, y: np.linalg.multi_dot([x, y, x, y[:, 0]]),
        lambda x, y: np.linalg.multi_dot([x, y, x]), lambda x, y: np.linalg.multi_dot([x[0], y, x]), at=(M, N),
    ),
    complex_too(
        "linalg.norm", np.linalg.norm,
        *(lambda x, p=p: np.linalg.norm(x, p, axis=1, keepdims=True) for p in (1, 2, 3.5, -1, np.inf, -np.inf)),
        *(lambda x, p=p: np.linalg.norm(x, p, axis=(0, 2)) for p in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)),
        (np.linalg.norm, V), lambda x: np.linalg.norm(x[0], 2), lambda x: np.linalg.norm(x[0], "fro", keepdims=True),
        at=C,
    ),
    complex_too("linalg.outer", at=(V, W)),
    complex_too(
        "linalg.pinv", np.linalg.pinv, (np.linalg.pinv, WIDE), (np.linalg.pinv, SQUARES),
        lambda x: np.linalg.pinv(x, rtol=1e-3), (lambda x: np.linalg.pinv(hermitian(x), hermitian=True), SQUARE),
        at=TALL,
    ),
    complex_too(
        "linalg.qr", np.linalg.qr, (np.linalg.qr, SQUARES), (lambda x: np.linalg.qr(x, "r"), WIDE),
        (lambda x: np.linalg.qr(x, "complete"), WIDE), at=TALL,
        remark="not with the modes `complete`, of a tall matrix, and `raw`, which raise `NoDerivativeError`",
    ),
    complex_too("linalg.slogdet", np.linalg.slogdet, (np.linalg.slogdet, SQUARES), at=SQUARE),
    complex_too(
        "linalg.solve", (np.linalg.solve, SQUARE, TALL[:3]), (np.linalg.solve, SQUARE, V[:3]),
        (np.linalg.solve, SQUARES, SQUARE2),
    ),
    complex_too(
        "linalg.svd", lambda x: basis_free_svd(*np.linalg.svd(x, full_matrices=False)),
        (lambda x: basis_free_svd(*np.linalg.svd(x, full_matrices=False)), WIDE),
        (lambda x: basis_free_svd(*np.linalg.svd(x)), TALL), (lambda x: np.linalg.svd(x, compute_uv=False), SQUARES),
        (lambda x: np.linalg.svd(hermitian(x), compute_uv=False, hermitian=True), SQUARE), at=TALL,
    ),
    complex_too("linalg.svdvals", np.linalg.svdvals, (np.linalg.svdvals, WIDE), at=SQUARES),
    complex_too("linalg.tensordot", lambda x, y: np.linalg.tensordot(x, y, axes=1), at=(M, N)),
    complex_too(
        "linalg.tensorinv", lambda x: np.linalg.tensorinv(x.reshape(2, 2, 4)),
        lambda x: np.linalg.tensorinv(x.reshape(4, 2, 2), ind=1), at=_draw(4, 4) + 2 * np.eye(4),
    ),
    complex_too(
        "linalg.tensorsolve", lambda a, b: np.linalg.tensorsolve(a.reshape(2, 2, 4), b),
        at=(_draw(4, 4) + 2 * np.eye(4), _draw(2, 2)),
    ),
    complex_too("linalg.trace", np.linalg.trace, lambda x: np.linalg.trace(x, offset=-1), at=SQUARES),
    complex_too("linalg.vecdot", np.linalg.vecdot, lambda x, y: np.linalg.vecdot(x, y, axis=0), at=PAIR),
    complex_too(
        "linalg.vector_norm", np.linalg.vector_norm,
        *(
            lambda x, p=p: np.linalg.vector_norm(x, axis=(0, 2), keepdims=True, ord=p)
            for p in (1, 2, 3, -1, np.inf, -np.inf)
        ),
        at=C,
    ),
]

_FFT = [
    *(
        complex_too(
            f"fft.{name}", _itself(f"fft.{name}"),
            *(
                lambda x, name=name, norm=norm: look_up(f"fft.{name}")(x, 5, axis=0, norm=norm)
                for norm in ("ortho", "forward", "backward")
            ),
            at=C,
        )
        for name in ("fft", "ifft", "irfft", "hfft")
    ),
    *(
        complex_too(
            f"fft.{name}", _itself(f"fft.{name}"),
            lambda x, name=name: look_up(f"fft.{name}")(x, axes=(0, 1), norm="ortho"),
            lambda x, name=name: look_up(f"fft.{name}")(x, (3, 5), (2, 0)), at=C,
        )
        for name in ("fft2", "ifft2", "fftn", "ifftn", "irfft2", "irfftn")
    ),
    *(
        real(
            f"fft.{name}", _itself(f"fft.{name}"),
            *(
                lambda x, name=name, norm=norm: look_up(f"fft.{name}")(x, 5, axis=0, norm=norm)
                for norm in ("ortho", "forward", "backward")
            ),
            at=C,
        )
        for name in ("rfft", "ihfft")
    ),
    *(
        real(
            f"fft.{name}", _itself(f"fft.{name}"),
            lambda x, name=name: look_up(f"fft.{name}")(x, axes=(0, 1), norm="ortho"),
            lambda x, name=name: look_up(f"fft.{name}")(x, (3, 5), (2, 0)), at=C,
        )
        for name in ("rfft2", "rfftn")
    ),
    complex_too("fft.fftshift", np.fft.fftshift, lambda x: np.fft.fftshift(x, axes=1), at=C),
    complex_too("fft.ifftshift", np.fft.ifftshift, lambda x: np.fft.ifftshift(x, axes=(0, 2)), at=C),
    real("fft.fftfreq", lambda d: np.fft.fftfreq(5, d), at=POINT, remark="in the spacing"),
    real("fft.rfftfreq", lambda d: np.fft.rfftfreq(6, d), at=POINT, remark="in the spacing"),
]


def _of_memory(name: str, call: Callable[..., Any]) -> Row:
    """Class an attribute or method of arrays that is about memory."""
    message = f"ndarray.{name} has no derivative rule"
    return refused(f"ndarray.{name}", MEMORY, errors.MissingRuleError, message, call)



def _of_either(name: str, call: Callable[..., Any], at: Any = M) -> Row:
    """Class a function of `np.emath`, which answers complex numbers where real ones have no answer."""
    return complex_too(
        f"emath.{name}", lambda x: call(x + 0j), replace(one_by_one(call, at), complex=False),
        replace(one_by_one(call, SIGNED), complex=False), at=at,
        remark="of real numbers the dtype depends on the values",
    )


_EMATH = [
    _of_either("sqrt", np.emath.sqrt),
    _of_either("log", np.emath.log),
    _of_either("log2", np.emath.log2),
    _of_either("log10", np.emath.log10),
    _of_either("logn", lambda x: np.emath.logn(3, x)),
    _of_either("power", lambda x: np.emath.power(x, 1.5)),
    _of_either("arccos", np.emath.arccos, UNIT),
    _of_either("arcsin", np.emath.arcsin, UNIT),
    _of_either("arctanh", np.emath.arctanh, UNIT),
]

_STRIDES = [
    complex_too(
        "lib.stride_tricks.sliding_window_view", lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)), at=TALL,
    ),
    refused(
        "lib.stride_tricks.as_strided", MEMORY, errors.ArrayConversionError, CONVERSION,
        lambda x: np.lib.stride_tricks.as_strided(x, (2,)),
    ),
]

_ARRAYS = [
    *(complex_too(f"ndarray.{name}", lambda x, name=name: getattr(x, name)) for name in ("T", "mT", "real", "imag")),
    complex_too(
        "ndarray.astype", lambda x: x.astype(np.complex128),
        only_real(lambda x: x.astype(np.float32).astype(np.float64) if x.dtype == np.float32 else x.astype(float)),
    ),
    real("ndarray.clip", lambda x: x.clip(0.5, 1.1), lambda x: x.clip(max=1.1)),
    complex_too("ndarray.choose", lambda x: (x.real > 1).astype(int).choose([x, 2.0 * x])),
    complex_too("ndarray.compress", lambda x: x.compress([True, False, True], axis=1)),
    complex_too("ndarray.conj", lambda x: x.conj()),
    complex_too("ndarray.conjugate", lambda x: x.conjugate()),
    complex_too("ndarray.copy", lambda x: x.copy()),
    complex_too("ndarray.cumprod", lambda x: x.cumprod(axis=1)),
    complex_too("ndarray.cumsum", lambda x: x.cumsum(), lambda x: x.cumsum(axis=0)),
    complex_too("ndarray.diagonal", lambda x: x.diagonal(1), at=SQUARE),
    complex_too("ndarray.dot", together(lambda x, y: x.dot(y)), (lambda x: x.dot(N), M), at=(M, N)),
    complex_too("ndarray.fill", into(lambda x, v: x.fill(v)), at=(M, POINT)),
    complex_too("ndarray.flat", lambda x: x.flat[1:4], into(lambda x: assign(x.flat, [0, 2], x[0, 1]))),
    complex_too("ndarray.flatten", lambda x: x.flatten(), lambda x: x.flatten("F")),
    real("ndarray.max", lambda x: x.max(), lambda x: x.max(axis=1, keepdims=True)),
    real("ndarray.min", lambda x: x.min(), lambda x: x.min(axis=0)),
    complex_too("ndarray.mean", lambda x: x.mean(), lambda x: x.mean(axis=1, keepdims=True)),
    complex_too("ndarray.partition", into(lambda x: x.partition(1)), at=TALL),
    complex_too("ndarray.prod", lambda x: x.prod(), lambda x: x.prod(axis=1)),
    complex_too("ndarray.put", into(lambda x: x.put([0, 4], [2.0, 3.0]))),
    complex_too("ndarray.ravel", lambda x: x.ravel(), lambda x: x.ravel("F")),
    complex_too("ndarray.repeat", lambda x: x.repeat(2), lambda x: x.repeat(COUNTS, axis=1)),
    complex_too("ndarray.reshape", lambda x: x.reshape(3, 2), lambda x: x.reshape((-1, 1), order="F")),
    complex_too("ndarray.resize", into(lambda x: x.resize(2, 2, refcheck=False))),
    in_pieces("ndarray.round", lambda x: x.round(), lambda x: x.round(1)),
    complex_too("ndarray.sort", into(lambda x: x.sort()), into(lambda x: x.sort(axis=0))),
    complex_too("ndarray.squeeze", lambda x: x.squeeze(), lambda x: x.squeeze(axis=0), at=C[:1, :, :1]),
    complex_too("ndarray.std", lambda x: x.std(), lambda x: x.std(axis=1, ddof=1)),
    complex_too(
        "ndarray.sum", lambda x: x.sum(), lambda x: x.sum(axis=1, keepdims=True), lambda x: x.sum(0, where=MASK),
    ),
    complex_too("ndarray.swapaxes", lambda x: x.swapaxes(0, 1)),
    complex_too("ndarray.take", lambda x: x.take([0, 5]), lambda x: x.take([2, 0, 2], axis=1)),
    complex_too("ndarray.to_device", lambda x: x.to_device("cpu")),
    complex_too("ndarray.trace", lambda x: x.trace(), lambda x: x.trace(offset=1), at=SQUARE),
    complex_too(
        "ndarray.transpose", lambda x: x.transpose(), lambda x: x.transpose(1, 0), lambda x: x.transpose((1, 0)),
    ),
    complex_too("ndarray.var", lambda x: x.var(), lambda x: x.var(axis=1, ddof=1)),
    answer("ndarray.all", BOOLEANS, lambda x: x.all(), lambda x: (x > 0.5).all(axis=1)),
    answer("ndarray.any", BOOLEANS, lambda x: x.any(), lambda x: (x > 1.2).any(axis=0)),
    *(
        answer(f"ndarray.{name}", INTEGERS, lambda x, name=name: getattr(x, name)(axis=1))
        for name in ("argmax", "argmin", "argsort")
    ),
    answer("ndarray.argpartition", INTEGERS, lambda x: x.argpartition(1)),
    answer("ndarray.nonzero", INTEGERS, lambda x: (x > 0.8).nonzero(), batched=False),
    answer("ndarray.searchsorted", INTEGERS, lambda x: np.sort(x[0]).searchsorted([0.5, 1.0])),
    *(
        answer(f"ndarray.{name}", SHAPES_ONLY, lambda x, name=name: getattr(x, name))
        for name in ("shape", "ndim", "size", "dtype", "itemsize", "nbytes", "device")
    ),
    answer("ndarray.item", "answers a Python number, and leaves the trace", lambda x: x.item(0), batched=False),
    answer("ndarray.tolist", "answers Python numbers, and leaves the trace", lambda x: x.tolist(), batched=False),
    answer("ndarray.tobytes", "answers bytes", lambda x: x.tobytes(), batched=False),
    answer("ndarray.dumps", "answers bytes", lambda x: len(x.dumps()), batched=False),
    answer("ndarray.dump", FILES, lambda x: len(to_file(lambda file: x.dump(file))), batched=False),
    answer("ndarray.tofile", FILES, lambda x: to_file(lambda file: x.tofile(file)), batched=False),
    _of_memory("base", lambda x: x.base),
    _of_memory("ctypes", lambda x: x.ctypes),
    _of_memory("data", lambda x: x.data),
    _of_memory("flags", lambda x: x.flags),
    _of_memory("strides", lambda x: x.strides),
    _of_memory("byteswap", lambda x: x.byteswap()),
    _of_memory("getfield", lambda x: x.getfield(np.float32)),
    _of_memory("setfield", lambda x: x.setfield(1.0, np.float64)),
    _of_memory("setflags", lambda x: x.setflags(write=False)),
    complex_too("ndarray.view", lambda x: x.view(), into(lambda x, y: assign(x.view(), 0, y), M, M2[1])),
]

_OPERATORS = [
    complex_too(
        ("x[key]",), lambda x: x[1], lambda x: x[..., ::-2], lambda x: x[:, [0, 2, 0]], lambda x: x[[1, 0], [2, 2]],
        lambda x: x[None, 0, 1:], lambda x: x[-1, 0], lambda x: x[MASK], lambda x: x[np.array([[0], [1]]), 1:],
    ),
    complex_too(
        ("x[key] = y",), into(lambda x, y: assign(x, 0, y[1])), into(lambda x, y: assign(x, MASK, 2.0)),
        into(lambda x, y: assign(x, (slice(None), [0, 2]), y[:, :2])),
        into(lambda x, y: assign(x, ([0, 1], [2, 0]), y[0, :2])), at=PAIR,
    ),
    complex_too(("x += y",), together(increased), at=PAIR),
    complex_too(("x + y",), lambda x, y: x + y + 1, at=PAIR),
    complex_too(("x - y",), lambda x, y: 1 - (x - y), at=PAIR),
    complex_too(("x * y",), lambda x, y: 2 * x * y, at=PAIR),
    complex_too(("x / y",), lambda x, y: 1 / (x / y), at=PAIR),
    complex_too(("x ** y",), lambda x, y: 2**x**y + x**2, at=PAIR),
    complex_too(("x @ y",), lambda x, y: x @ y @ x, at=(M, N)),
    real(("x % y",), lambda x, y: x % y + 5 % y, at=SIGNED_PAIR),
    in_pieces(("x // y",), lambda x, y: x // y, at=SIGNED_PAIR),
    real(("divmod(x, y)",), divmod, at=SIGNED_PAIR),
    complex_too(("-x, +x",), lambda x: -x * +x),
    complex_too(("abs(x)",), abs),
    answer(("x < y, x == y, ...",), BOOLEANS, lambda x, y: (x < y) | (x >= y) & ~(x == y) ^ (x != y), at=PAIR),
    answer(
        ("int(x), bool(x)",), "answers a Python number, and leaves the trace",
        lambda x: (int(x), bool(x)), at=POINT, batched=False,
    ),
    refused("float(x)", LOST, errors.DetachedError, NUMBER, lambda x: x * float(x), at=POINT),
    refused("complex(x)", LOST, errors.DetachedError, "complex() requested", lambda x: x * complex(x), at=POINT),
]

_SMOOTH_PAIRS = (
    "add", "subtract", "multiply", "divide", "power", "float_power", "maximum", "minimum", "fmax", "fmin",
    "logaddexp", "logaddexp2", "hypot", "arctan2", "copysign", "fmod", "remainder",
)
"""The ufuncs of two arguments whose result is differentiable."""

_WRONG_IN_NUMPY = ("power", "arctan2")
"""Along the last axis NumPy 2.4 answers `op(first, last)` for three elements where its AVX-512 loops run."""


def _of_pairs(method: str, *args: Any, points: tuple[Any, ...] = (M,), but: tuple[str, ...] = ()) -> list[Call]:
    """Return a call of a ufunc's method for each of the differentiable ufuncs of two arguments."""
    return [
        only_real(lambda *arrays, name=name: getattr(look_up(name), method)(*arrays, *args), *points)
        for name in _SMOOTH_PAIRS
        if name not in but
    ]


_UFUNCS = [
    complex_too(
        "ufunc.__call__", lambda x, y: np.multiply(x, y, dtype=np.complex128),
        into(lambda x, y: np.add(x, y, out=x, where=MASK)), into(lambda x, y: np.multiply(x, y, out=x)), at=PAIR,
        remark="with `out`, `where`, `dtype`, `casting`",
    ),
    complex_too(
        "ufunc.reduce", *_of_pairs("reduce"), *_of_pairs("reduce", 1, but=_WRONG_IN_NUMPY),
        lambda x: np.add.reduce(x, axis=None, initial=2.0, keepdims=True), lambda x: np.multiply.reduce(x, where=MASK),
        only_real(lambda x: np.maximum.reduce(x, axis=1, where=MASK, initial=0.7)),
    ),
    complex_too(
        "ufunc.accumulate", *_of_pairs("accumulate"), lambda x: np.multiply.accumulate(x, axis=1),
        lambda x: np.add.accumulate(x, 1),
    ),
    complex_too(
        "ufunc.reduceat", *_of_pairs("reduceat", [0, 2, 1], points=(LONG,), but=_WRONG_IN_NUMPY),
        lambda x: np.add.reduceat(x, [0, 2], axis=1),
    ),
    complex_too("ufunc.outer", *_of_pairs("outer", points=(V[:2], W[:3])), (np.multiply.outer, M, W)),
    complex_too(
        "ufunc.at",
        *(
            replace(into(lambda x, y, name=name: look_up(name).at(x, [0, 2, 0], y[:3]), V, W), complex=False)
            for name in _SMOOTH_PAIRS
        ),
        into(lambda x, y: np.add.at(x, [0, 2, 0], y[:3]), V, W), into(lambda x: np.exp.at(x, [0, 1]), V),
    ),
    *each(
        aside, "ufunc.identity ufunc.nargs ufunc.nin ufunc.nout ufunc.ntypes ufunc.signature ufunc.types",
        "a fact of the ufunc",
    ),
    answer("ufunc.resolve_dtypes", DTYPES, lambda x: np.add.resolve_dtypes((x.dtype, x.dtype, None))),
]

_FACTS = [
    *each(answer, "shape ndim size", SHAPES_ONLY),
    answer("broadcast_shapes", SHAPES_ONLY, lambda x: np.broadcast_shapes(x.shape, (1, 1))),
    answer("may_share_memory", SHAPES_ONLY, lambda x: np.may_share_memory(x, M2)),
    answer("shares_memory", SHAPES_ONLY, lambda x: np.shares_memory(x, M2)),
    answer("isscalar", NO_NUMBER, lambda x: fnp.isscalar(x[0, 0]), lambda x: fnp.isscalar(x)),
    answer("iterable", SHAPES_ONLY),
    refused("isfortran", MEMORY, errors.MissingRuleError, "ndarray.flags has no derivative rule"),
    *each(answer, "result_type common_type min_scalar_type", DTYPES),
    answer("can_cast", DTYPES, lambda x: np.can_cast(x.dtype, np.float32)),
    answer("promote_types", DTYPES, lambda x: np.promote_types(x.dtype, np.float32)),
    answer("isdtype", DTYPES, lambda x: np.isdtype(x.dtype, "real floating")),
    answer("issubdtype", DTYPES, lambda x: np.issubdtype(x.dtype, np.floating)),
    answer("mintypecode", DTYPES, lambda x: np.mintypecode([x.dtype.char])),
    answer("typename", DTYPES, lambda x: quietly(np.typename, x.dtype.char)),
]

_OUTPUT = [
    answer("array2string", TEXT),
    answer("array_repr", TEXT, lambda x: len(np.array_repr(x)) > 0),
    answer("array_str", TEXT),
    refused("format_float_positional", LOST, errors.ArrayConversionError, CONVERSION, at=POINT),
    refused("format_float_scientific", LOST, errors.ArrayConversionError, CONVERSION, at=POINT),
    answer("base_repr", TEXT, lambda x: np.base_repr(whole(x)), at=POINT, batched=False),
    answer("binary_repr", TEXT, lambda x: np.binary_repr(whole(x)), at=POINT, batched=False),
    answer("save", FILES, lambda x: to_stream(lambda file: np.save(file, x)), batched=False),
    answer("savez", FILES, lambda x: to_stream(lambda file: np.savez(file, x)), batched=False),
    answer("savez_compressed", FILES, lambda x: to_stream(lambda file: np.savez_compressed(file, x)), batched=False),
    answer("savetxt", FILES, lambda x: to_stream(lambda file: np.savetxt(file, x)), batched=False),
    *each(aside, "fromfile fromregex fromstring frombuffer genfromtxt load loadtxt", "reads a file, text or bytes"),
    *each(aside, "get_printoptions set_printoptions printoptions", SETTINGS),
    *each(aside, "getbufsize setbufsize geterr seterr geterrcall seterrcall", SETTINGS),
    *each(aside, "get_include info show_config show_runtime", "about NumPy itself"),
    *each(aside, "test linalg.test fft.test", "NumPy's own tests"),
    *each(aside, "busday_count busday_offset is_busday datetime_as_string datetime_data", DATES),
]

# fmt: on

AREAS: dict[str, list[Row]] = {
    "Trigonometric and hyperbolic functions": _TRIGONOMETRIC,
    "Exponents and logarithms": _EXPONENTS,
    "Arithmetic": _ARITHMETIC,
    "Parts of numbers": _PARTS,
    "Complex numbers": _COMPLEX,
    "Truth values": _LOGIC,
    "Bits and whole numbers": _BITS,
    "Sums, products and differences": _SUMS,
    "Statistics": _STATISTICS,
    "Sorting, searching and sets": _SORTING,
    "Shapes": _SHAPES,
    "Selecting and writing": _SELECTING,
    "New arrays and matrices": _MATRICES,
    "Products of arrays": _PRODUCTS,
    "Polynomials": _POLYNOMIALS,
    "Interpolation and windows": _SAMPLING,
    "Functions over slices and elements": _OVER_SLICES,
    "numpy.linalg": _LINALG,
    "numpy.fft": _FFT,
    "numpy.emath": _EMATH,
    "numpy.lib.stride_tricks": _STRIDES,
    "Methods and attributes of arrays": _ARRAYS,
    "Operators": _OPERATORS,
    "Ufuncs": _UFUNCS,
    "Facts of shape, memory and dtype": _FACTS,
    "Text, files, settings": _OUTPUT,
}

MODULES = {
    "numpy": np,
    "numpy.linalg": np.linalg,
    "numpy.fft": np.fft,
    "numpy.emath": np.emath,
    "numpy.lib.stride_tricks": np.lib.stride_tricks,
    "ndarray": np.ndarray,
    "ufunc": np.ufunc,
}
"""What the table covers, by the names that count on the page."""


def rows() -> Iterator[Row]:
    """Yield every row of the table."""
    for area in AREAS.values():
        yield from area


def module_of(name: str) -> str:
    """Return which of `MODULES` a name of the table belongs to, or "operators"."""
    if not name.replace(".", "").isidentifier():
        return "operators"
    place = name.rpartition(".")[0]
    return place if place in MODULES else f"numpy.{place}".rstrip(".")


def public_names(module: str) -> set[str]:
    """Return the public functions, ufuncs and methods that the installed NumPy has in one of `MODULES`.

    Types, submodules and constants are no functions; the page says once and for all what holds for them.
    """
    place: Any = MODULES[module]
    prefix = module.removeprefix("numpy").lstrip(".")
    names = {name for name in {*dir(place), *getattr(place, "__all__", ())} if not name.startswith("_")}
    if isinstance(place, types.ModuleType):
        kept = {name: getattr(place, name) for name in names}
        names = {name for name, value in kept.items() if callable(value) and not isinstance(value, type)}
    return {f"{prefix}.{name}".lstrip(".") for name in names}


def unclassed() -> set[str]:
    """Return the public names of the installed NumPy that the table lacks."""
    classed = {name for row in rows() for name in row.names}
    return set().union(*map(public_names, MODULES)) - classed


def counts() -> dict[str, dict[str, int]]:
    """Return how many names of each module are of each class."""
    table = {module: dict.fromkeys(CLASSES, 0) for module in [*MODULES, "operators"]}
    for row in rows():
        for name in row.names:
            table[module_of(name)][row.kind] += 1
    return table
