"""Scalar operations in the loop IR, as a table.

SCALAR_OPERATIONS["add"].emit(code, kind, a, b)    appends the instructions, and returns the result

`kind` is the scalar type of the operands. Results are rounded as in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from fgrad.native.ir import FALSE, TRUE, Builder, Constant, Op, Type, Value, integer, real


@dataclass(frozen=True)
class Scalar:
    """A scalar type.

    Attributes:
        type: the type in registers.
        stored: the type in memory, where a boolean is a byte.
        family: "float", "signed", "unsigned" or "bool".
    """

    type: Type
    stored: Type
    family: str

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.family == "float"

    @property
    def bits(self) -> int:
        """The number of bits in a register."""
        return self.type.bits


def _integers() -> dict[str, Scalar]:
    found = {}
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        type = Type(f"i{np.dtype(name).itemsize * 8}")
        found[name] = Scalar(type, type, "unsigned" if name[0] == "u" else "signed")
    return found


SCALARS = {
    "float64": Scalar(Type.F64, Type.F64, "float"),
    "float32": Scalar(Type.F32, Type.F32, "float"),
    "bool": Scalar(Type.I1, Type.I8, "bool"),
    **_integers(),
}
"""Scalar types by dtype name. NumPy executes operations on other dtypes."""


_by_dtype = {dtype: SCALARS[dtype.name] for dtype in map(np.dtype, SCALARS)}
"""The same by dtype, since NumPy builds the name of a dtype at each access."""


def scalar_of(dtype: np.dtype[Any]) -> Scalar:
    """Return the scalar type of a dtype."""
    return _by_dtype[dtype]


def is_native(dtype: np.dtype[Any]) -> bool:
    """Return whether native code supports a dtype."""
    return dtype in _by_dtype


def literal(value: Any, dtype: Any) -> Constant:
    """Return a constant of a dtype."""
    return Constant(scalar_of(dtype).type, value)


def loaded(code: Builder, kind: Scalar, address: Value) -> Value:
    """Append a load of a scalar."""
    found = code.load(kind.stored, address)
    return code.compare("ne", found, integer(0, Type.I8)) if kind.family == "bool" else found


def store(code: Builder, kind: Scalar, value: Value, address: Value) -> None:
    """Append a store of a scalar."""
    code.store(code.cast(Op.ZEXT, value, Type.I8) if kind.family == "bool" else value, address)


Emit = Callable[..., Value]


class Cost(IntEnum):
    """Cost of an operation, in additions: a cycle or two; more, but less than a memory access; or a function call."""

    CHEAP = 1
    MODERATE = 3
    EXPENSIVE = 16


class ScalarOperation(NamedTuple):
    """A scalar operation.

    Attributes:
        emit: appends the operation: `emit(code, kind, *args)`.
        cost: the cost.
        is_for_floats: whether the operation is defined, in this form, for floating-point types only.
        jax: the module of JAX with an operation of the same name; None if there is none, or if its results differ from
            NumPy's: then `fgrad.engines.jax` has a rule.
    """

    emit: Emit
    cost: Cost = Cost.EXPENSIVE
    is_for_floats: bool = False
    jax: str | None = "numpy"


# Emitters


def _zero(kind: Scalar) -> Constant:
    return Constant(kind.type, 0)


def _one(kind: Scalar) -> Constant:
    return Constant(kind.type, 1)


def _arithmetic(of_floats: Op | None, of_integers: Op | None, of_truths: Op | None = None) -> Emit:
    """Return the emitter of an instruction that depends on the family of the type; None where it is not defined."""

    def emit(code: Builder, kind: Scalar, a: Value, b: Value) -> Value:
        op = of_floats if kind.is_float else of_truths if kind.family == "bool" else of_integers
        assert op is not None
        return code.binary(op, a, b)

    return emit


def _comparison(of_floats: str, of_integers: str) -> Emit:
    """Return the emitter of a comparison; for integers it depends on signedness."""

    def emit(code: Builder, kind: Scalar, a: Value, b: Value) -> Value:
        sign = "" if of_integers in ("eq", "ne") else "s" if kind.family == "signed" else "u"
        return code.compare(of_floats if kind.is_float else sign + of_integers, a, b)

    return emit


def _intrinsic(name: str) -> Emit:
    """Return the emitter of an LLVM intrinsic."""
    return lambda code, kind, *args: code.intrinsic(name, *args)


def _function(name: str) -> Emit:
    """Return the emitter of a C library function, with suffix f in single precision."""
    return lambda code, kind, *args: code.call(name + ("f" if kind.type is Type.F32 else ""), *args)


_equal, _not_equal = _comparison("oeq", "eq"), _comparison("une", "ne")
_less, _greater = _comparison("olt", "lt"), _comparison("ogt", "gt")
_exp, _exp2, _log, _log1p = _function("exp"), _function("exp2"), _function("log"), _function("log1p")
_copysign, _floor = _intrinsic("copysign"), _intrinsic("floor")


def _is_zero(code: Builder, kind: Scalar, a: Value) -> Value:
    return code.compare("oeq", a, _zero(kind))


def _is_nan(code: Builder, kind: Scalar, a: Value) -> Value:
    return code.compare("uno", a, a) if kind.is_float else FALSE


def _extremum(wins_over: Emit, of_truths: Op) -> Emit:
    """Return the emitter of an extremum; NaN propagates, and of equal operands the second is returned (0.0, -0.0)."""

    def emit(code: Builder, kind: Scalar, a: Value, b: Value) -> Value:
        if kind.family == "bool":
            return code.binary(of_truths, a, b)
        wins = wins_over(code, kind, a, b)
        if kind.is_float:
            wins = code.either(wins, _is_nan(code, kind, a))
        return code.select(wins, a, b)

    return emit


_maximum, _minimum = _extremum(_greater, Op.OR), _extremum(_less, Op.AND)


def _extremum_of_numbers(wins_over: Emit, of_others: Emit) -> Emit:
    """Return the emitter of an extremum that ignores NaN; of equal operands the second is returned."""

    def emit(code: Builder, kind: Scalar, a: Value, b: Value) -> Value:
        if not kind.is_float:
            return of_others(code, kind, a, b)
        return code.select(code.either(wins_over(code, kind, a, b), _is_nan(code, kind, b)), a, b)

    return emit


def _multiply(code: Builder, kind: Scalar, a: Value, b: Value) -> Value:
    return code.binary(Op.FMUL if kind.is_float else Op.AND if kind.family == "bool" else Op.MUL, a, b)


def _square(code: Builder, kind: Scalar, a: Value) -> Value:
    return _multiply(code, kind, a, a)


def _reciprocal(code: Builder, kind: Scalar, a: Value) -> Value:
    return code.fdiv(_one(kind), a)


def _negative(code: Builder, kind: Scalar, a: Value) -> Value:
    return code.fneg(a) if kind.is_float else code.sub(_zero(kind), a, flags="")


def _absolute(code: Builder, kind: Scalar, a: Value) -> Value:
    if kind.is_float:
        return code.intrinsic("fabs", a)
    if kind.family != "signed":
        return a
    return code.select(code.compare("slt", a, _zero(kind)), _negative(code, kind, a), a)


def _sign(code: Builder, kind: Scalar, a: Value) -> Value:
    zero, one, minus = (Constant(kind.type, each) for each in (0, 1, -1))
    above, below = _greater(code, kind, a, zero), _less(code, kind, a, zero)
    either = code.select(above, one, code.select(below, minus, zero))
    return code.select(_is_nan(code, kind, a), a, either) if kind.is_float else either


def _scale(code: Builder, kind: Scalar, cotangent: Value, slope: Value) -> Value:
    """Return the product, where an exact zero of the cotangent absorbs infinities and NaN."""
    product = _multiply(code, kind, cotangent, slope)
    if isinstance(slope, Constant) and all(map(math.isfinite, slope.numbers)):
        return product
    lost = code.both(_is_zero(code, kind, cotangent), _is_nan(code, kind, product))
    return code.select(lost, _zero(kind), product)


def _logaddexp(power: Emit, unit: float) -> Emit:
    """Return the emitter of the logarithm of a sum of two powers; equal operands, maybe infinite, are special-cased.

    Args:
        power: exp or exp2.
        unit: the natural logarithm of the base.
    """

    def emit(code: Builder, kind: Scalar, a: Value, b: Value) -> Value:
        distance = code.intrinsic("fabs", code.fsub(a, b))
        small = power(code, kind, code.fneg(distance))
        larger, rest = _maximum(code, kind, a, b), _log1p(code, kind, small)
        if unit != 1.0:
            rest = code.fmul(rest, real(1 / unit, kind.type))
        total = code.fadd(larger, rest)
        twice = code.fadd(a, real(float(np.log(2)) / unit, kind.type))
        return code.select(code.compare("oeq", a, b), twice, total)

    return emit


def _share(power: Emit) -> Emit:
    """Return the emitter of exp(x - total), clipped so that infinities give 0 at minus and 1 at plus infinity."""

    def emit(code: Builder, kind: Scalar, x: Value, total: Value) -> Value:
        limits = np.finfo(f"float{kind.bits}")
        highest, lowest = real(float(limits.max), kind.type), real(float(limits.min), kind.type)
        x = _minimum(code, kind, x, highest)
        total = _minimum(code, kind, _maximum(code, kind, total, lowest), highest)
        return power(code, kind, code.fsub(x, total))

    return emit


def _is_negative(code: Builder, kind: Scalar, a: Value) -> Value:
    return code.compare("olt", a, _zero(kind))


def _have_other_signs(code: Builder, kind: Scalar, a: Value, b: Value) -> Value:
    return code.binary(Op.XOR, _is_negative(code, kind, a), _is_negative(code, kind, b))


def _remainder(code: Builder, kind: Scalar, a: Value, b: Value) -> Value:
    """Return the remainder with the sign of `b`, as in Python and NumPy."""
    rest = code.binary(Op.FREM, a, b)
    moved = code.select(_have_other_signs(code, kind, rest, b), code.fadd(rest, b), rest)
    return code.select(_is_zero(code, kind, rest), _copysign(code, kind, _zero(kind), b), moved)


def _floor_divide(code: Builder, kind: Scalar, a: Value, b: Value) -> Value:
    """Return the floor of the quotient as NumPy does: from the remainder, so that it is exact."""
    one = _one(kind)
    rest = code.binary(Op.FREM, a, b)
    times = code.fdiv(code.fsub(a, rest), b)
    is_less = code.both(code.compare("une", rest, _zero(kind)), _have_other_signs(code, kind, rest, b))
    times = code.select(is_less, code.fsub(times, one), times)
    whole = _floor(code, kind, times)
    is_far = code.compare("ogt", code.fsub(times, whole), real(0.5, kind.type))
    whole = code.select(is_far, code.fadd(whole, one), whole)
    ratio = code.fdiv(a, b)
    nothing = _copysign(code, kind, _zero(kind), ratio)
    whole = code.select(_is_zero(code, kind, times), nothing, whole)
    return code.select(_is_zero(code, kind, b), ratio, whole)


def _heaviside(code: Builder, kind: Scalar, a: Value, at_zero: Value) -> Value:
    either = code.select(_greater(code, kind, a, _zero(kind)), _one(kind), _zero(kind))
    either = code.select(_is_zero(code, kind, a), at_zero, either)
    return code.select(_is_nan(code, kind, a), a, either)


def _expit(code: Builder, kind: Scalar, a: Value) -> Value:
    return _reciprocal(code, kind, code.fadd(_exp(code, kind, code.fneg(a)), _one(kind)))


def _sech_square(code: Builder, kind: Scalar, a: Value) -> Value:
    """Return 1 / cosh(a)**2 as 4 p / (1 + p)**2 with p = exp(-2 |a|), which does not overflow."""
    distance = code.intrinsic("fabs", a)
    power = _exp(code, kind, code.fmul(distance, real(-2.0, kind.type)))
    fourfold, total = code.fmul(power, real(4.0, kind.type)), code.fadd(power, _one(kind))
    return code.fdiv(fourfold, _square(code, kind, total))


def _xlogy(logarithm: Emit) -> Emit:
    """Return the emitter of x * log(y), which is 0 where x is 0, unless y is NaN."""

    def emit(code: Builder, kind: Scalar, x: Value, y: Value) -> Value:
        product = code.fmul(x, logarithm(code, kind, y))
        is_nothing = code.both(_is_zero(code, kind, x), code.compare("ord", y, y))
        return code.select(is_nothing, _zero(kind), product)

    return emit


def _constant_times(factor: float) -> Emit:
    return lambda code, kind, a: code.fmul(a, real(factor, kind.type))


def _compared_with_infinity(predicate: str, otherwise: Constant) -> Emit:
    """Return the emitter of a comparison of |a| with infinity; constant for other types than floating-point."""

    def emit(code: Builder, kind: Scalar, a: Value) -> Value:
        if not kind.is_float:
            return otherwise
        return code.compare(predicate, code.intrinsic("fabs", a), real(np.inf, kind.type))

    return emit


def _sign_bit(code: Builder, kind: Scalar, a: Value) -> Value:
    if kind.is_float:
        a = code.cast(Op.BITCAST, a, Type(f"i{kind.bits}"))
    elif kind.family != "signed":
        return FALSE
    assert a.type is not None
    return code.compare("slt", a, integer(0, a.type))


def _truth(code: Builder, kind: Scalar, a: Value) -> Value:
    return a if kind.family == "bool" else _not_equal(code, kind, a, _zero(kind))


def _logical(op: Op) -> Emit:
    return lambda code, kind, a, b: code.binary(op, _truth(code, kind, a), _truth(code, kind, b))


def _invert(code: Builder, kind: Scalar, a: Value) -> Value:
    return code.binary(Op.XOR, a, TRUE if kind.family == "bool" else Constant(kind.type, -1))


# The table

_CHEAP, _MODERATE = Cost.CHEAP, Cost.MODERATE
_SPECIAL = "scipy.special"


def _float_operation(emit: Emit, cost: Cost = Cost.EXPENSIVE, jax: str | None = "numpy") -> ScalarOperation:
    return ScalarOperation(emit, cost, True, jax)


def _cheap(emit: Emit) -> ScalarOperation:
    return ScalarOperation(emit, _CHEAP)


_SAME_NAME = (
    "cosh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "tanh", "hypot",
    "cbrt",
)  # fmt: skip
_OTHER_NAME = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2",
}  # fmt: skip
"""Functions of the C library, by NumPy's name."""

SCALAR_OPERATIONS: dict[str, ScalarOperation] = {
    "add": _cheap(_arithmetic(Op.FADD, Op.ADD, Op.OR)),
    "subtract": _cheap(_arithmetic(Op.FSUB, Op.SUB)),
    "multiply": _cheap(_multiply),
    "divide": _float_operation(_arithmetic(Op.FDIV, None), _MODERATE),
    "fmod": _float_operation(_arithmetic(Op.FREM, None)),
    "bitwise_and": _cheap(_arithmetic(None, Op.AND, Op.AND)),
    "bitwise_or": _cheap(_arithmetic(None, Op.OR, Op.OR)),
    "bitwise_xor": _cheap(_arithmetic(None, Op.XOR, Op.XOR)),
    "equal": _cheap(_equal),
    "not_equal": _cheap(_not_equal),
    "less": _cheap(_less),
    "less_equal": _cheap(_comparison("ole", "le")),
    "greater": _cheap(_greater),
    "greater_equal": _cheap(_comparison("oge", "ge")),
    "maximum": ScalarOperation(_maximum, _CHEAP, jax=None),
    "minimum": ScalarOperation(_minimum, _CHEAP, jax=None),
    "fmax": ScalarOperation(_extremum_of_numbers(_greater, _maximum)),
    "fmin": ScalarOperation(_extremum_of_numbers(_less, _minimum)),
    "negative": _cheap(_negative),
    "positive": _cheap(lambda code, kind, a: a),
    "abs": _cheap(_absolute),
    "fabs": _float_operation(_absolute, _CHEAP),
    "sign": ScalarOperation(_sign, _MODERATE, jax=None),
    "square": _cheap(_square),
    "reciprocal": _float_operation(_reciprocal, _MODERATE),
    "sqrt": _float_operation(_intrinsic("sqrt"), _MODERATE),
    "floor": _float_operation(_floor, _MODERATE),
    "ceil": _float_operation(_intrinsic("ceil"), _MODERATE),
    "trunc": _float_operation(_intrinsic("trunc"), _MODERATE),
    "rint": _float_operation(_intrinsic("rint"), _MODERATE),
    "copysign": _float_operation(_copysign, _CHEAP),
    "remainder": _float_operation(_remainder, jax=None),
    "floor_divide": _float_operation(_floor_divide, jax=None),
    "heaviside": _float_operation(_heaviside, _MODERATE, jax=None),
    "scale": _float_operation(_scale, _CHEAP, jax=None),
    "share": _float_operation(_share(_exp), jax=None),
    "share_of_2": _float_operation(_share(_exp2), jax=None),
    "logaddexp": _float_operation(_logaddexp(_exp, 1.0)),
    "logaddexp2": _float_operation(_logaddexp(_exp2, float(np.log(2)))),
    "expit": _float_operation(_expit, jax=_SPECIAL),
    "sech_square": _float_operation(_sech_square, jax=None),
    "xlogy": _float_operation(_xlogy(_log), jax=_SPECIAL),
    "xlog1py": _float_operation(_xlogy(_log1p), jax=_SPECIAL),
    "deg2rad": _float_operation(_constant_times(np.pi / 180)),
    "radians": _float_operation(_constant_times(np.pi / 180)),
    "rad2deg": _float_operation(_constant_times(180 / np.pi)),
    "degrees": _float_operation(_constant_times(180 / np.pi)),
    "isnan": _cheap(_is_nan),
    "isfinite": _cheap(_compared_with_infinity("one", TRUE)),
    "isinf": _cheap(_compared_with_infinity("oeq", FALSE)),
    "signbit": ScalarOperation(_sign_bit),
    "logical_and": _cheap(_logical(Op.AND)),
    "logical_or": _cheap(_logical(Op.OR)),
    "logical_xor": ScalarOperation(_logical(Op.XOR)),
    "logical_not": _cheap(lambda code, kind, a: code.negated(_truth(code, kind, a))),
    "invert": _cheap(_invert),
    "power": _float_operation(_function("pow"), jax=None),
    "erf": _float_operation(_function("erf"), jax=_SPECIAL),
    "erfc": _float_operation(_function("erfc"), jax=_SPECIAL),
    **{name: _float_operation(_function(name)) for name in _SAME_NAME},
    **{name: _float_operation(_function(theirs)) for name, theirs in _OTHER_NAME.items()},
}


def cost_of(name: str) -> Cost:
    """Return the cost of a node's operation; casts and selects are cheap."""
    return _CHEAP if name in ("cast", "select") else SCALAR_OPERATIONS[name].cost


def convert(code: Builder, a: Value, given: Scalar, wanted: Scalar) -> Value:
    """Append a conversion to another scalar type, as by `astype`."""
    if given == wanted or (given.type is wanted.type and not given.is_float):
        return a
    if wanted.family == "bool":
        return _truth(code, given, a)
    if given.is_float and wanted.is_float:
        op = Op.FPEXT if wanted.bits > given.bits else Op.FPTRUNC
    elif wanted.is_float:
        op = Op.SITOFP if given.family == "signed" else Op.UITOFP
    elif given.is_float:
        op = Op.FPTOSI if wanted.family == "signed" else Op.FPTOUI
    else:
        op = Op.TRUNC if wanted.bits < given.bits else Op.SEXT if given.family == "signed" else Op.ZEXT
    return code.cast(op, a, wanted.type)
