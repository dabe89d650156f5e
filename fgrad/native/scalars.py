"""Operations on single numbers, in the language of LLVM: one line for each where it can be.

OPERATIONS["add"](code, kind, a, b)    emits the instructions, and returns the name of the result

`kind` is the LLVM type of the arguments as a `Scalar`, which says whether they are floating-point numbers, and with
how many bits. Nothing is rounded otherwise than NumPy rounds it: no flag lets a product and a sum be one operation, or
says that there are no NaNs, infinities or negative zeros.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Scalar:
    """A kind of number: its LLVM type, and what tells kinds apart.

    Attributes:
        type: in registers.
        stored: in memory, where truth values take a byte.
        family: "float", "signed", "unsigned" or "bool".
        bits: in registers.
    """

    type: str
    stored: str
    family: str
    bits: int

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point number."""
        return self.family == "float"

    @property
    def suffix(self) -> str:
        """What LLVM appends to the names of its functions."""
        return f"f{self.bits}" if self.is_float else f"i{self.bits}"


def _integers() -> dict[str, Scalar]:
    found = {}
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        bits = np.dtype(name).itemsize * 8
        found[name] = Scalar(f"i{bits}", f"i{bits}", "unsigned" if name[0] == "u" else "signed", bits)
    return found


SCALARS = {
    "float64": Scalar("double", "double", "float", 64),
    "float32": Scalar("float", "float", "float", 32),
    "bool": Scalar("i1", "i8", "bool", 1),
    **_integers(),
}
"""By the name of the dtype. Arrays of others are left to NumPy."""


_by_dtype = {dtype: SCALARS[dtype.name] for dtype in map(np.dtype, SCALARS)}
"""The same by dtype: NumPy makes up a name anew each time."""


def scalar_of(dtype: Any) -> Scalar:
    """Return the kind of number of a dtype."""
    return _by_dtype[dtype]


def is_native(dtype: Any) -> bool:
    """Return whether there are registers for a dtype."""
    return dtype in _by_dtype


@dataclass
class Code:
    """Lines of LLVM's language, and names for what they compute.

    Attributes:
        lines: the instructions so far.
        used: the functions of libraries that are called: by name, how many arguments of which type they take.
        is_wide: innermost loops compute several elements at once.
    """

    lines: list[str] = field(default_factory=list)
    used: dict[str, tuple[str, ...]] = field(default_factory=dict)
    count: int = 0
    is_wide: bool = True

    def name(self) -> str:
        """Return a new name."""
        self.count += 1
        return f"%t{self.count}"

    def do(self, instruction: str) -> str:
        """Emit an instruction, and return the name of its result."""
        name = self.name()
        self.lines.append(f"  {name} = {instruction}")
        return name

    def call(self, function: str, kind: str, *arguments: str, result: str = "") -> str:
        """Call a function whose arguments are of one type."""
        result = result or kind
        self.used.setdefault(function, (result, *[kind] * len(arguments)))
        given = ", ".join(f"{kind} {each}" for each in arguments)
        return self.do(f"call {result} @{function}({given})")


def literal(value: Any, dtype: Any) -> str:
    """Return a number as LLVM reads it."""
    kind = scalar_of(dtype)
    if kind.is_float:
        (bits,) = struct.unpack("<Q", struct.pack("<d", float(value)))
        return f"0x{bits:016X}"
    return str(value).lower() if kind.family == "bool" else str(int(value))


def number(value: float, kind: Scalar) -> str:
    """Return a floating-point number as LLVM reads it in a kind, rounded to it."""
    return literal(np.float32(value) if kind.bits == 32 else value, np.dtype(f"float{kind.bits}"))


Emit = Callable[..., str]
OPERATIONS: dict[str, Emit] = {}


def _arithmetic(of_floats: str, of_integers: str, of_truths: str = "") -> Emit:
    """Return an instruction that has other names for other kinds of numbers."""

    def emit(code: Code, kind: Scalar, *args: str) -> str:
        name = of_floats if kind.is_float else of_truths if kind.family == "bool" else of_integers
        return code.do(f"{name} {kind.type} {', '.join(args)}")

    return emit


def _comparison(of_floats: str, of_integers: str) -> Emit:
    """Return a comparison; integers without a sign have other names."""

    def emit(code: Code, kind: Scalar, a: str, b: str) -> str:
        if kind.is_float:
            return code.do(f"fcmp {of_floats} {kind.type} {a}, {b}")
        sign = "" if of_integers in ("eq", "ne") else "s" if kind.family == "signed" else "u"
        return code.do(f"icmp {sign}{of_integers} {kind.type} {a}, {b}")

    return emit


def _intrinsic(name: str) -> Emit:
    """Return one of LLVM's own functions."""
    return lambda code, kind, *args: code.call(f"llvm.{name}.{kind.suffix}", kind.type, *args)


def _function(name: str) -> Emit:
    """Return a function of the C library, which has the suffix f for short numbers."""
    return lambda code, kind, *args: code.call(name + ("f" if kind.bits == 32 else ""), kind.type, *args)


def select(code: Code, kind: Scalar, condition: str, a: str, b: str) -> str:
    """Choose one of two numbers."""
    return code.do(f"select i1 {condition}, {kind.type} {a}, {kind.type} {b}")


def _is_nan(code: Code, kind: Scalar, a: str) -> str:
    return code.do(f"fcmp uno {kind.type} {a}, {a}") if kind.is_float else "false"


def _extremum(comparison: str) -> Emit:
    """Return the larger or smaller one; NaN wins, and of equals, as 0.0 and -0.0 are, the second, as processors do."""

    def emit(code: Code, kind: Scalar, a: str, b: str) -> str:
        if kind.family == "bool":
            return code.do(f"{'or' if comparison == 'greater' else 'and'} i1 {a}, {b}")
        wins = OPERATIONS[comparison](code, kind, a, b)
        if kind.is_float:
            wins = code.do(f"or i1 {wins}, {_is_nan(code, kind, a)}")
        return select(code, kind, wins, a, b)

    return emit


def _extremum_of_numbers(comparison: str) -> Emit:
    """Return the larger or smaller one; NaN loses, and of equals the second wins."""

    def emit(code: Code, kind: Scalar, a: str, b: str) -> str:
        if not kind.is_float:
            return _extremum(comparison)(code, kind, a, b)
        wins = OPERATIONS[comparison](code, kind, a, b)
        wins = code.do(f"or i1 {wins}, {_is_nan(code, kind, b)}")
        return select(code, kind, wins, a, b)

    return emit


def _square(code: Code, kind: Scalar, a: str) -> str:
    return OPERATIONS["multiply"](code, kind, a, a)


def _reciprocal(code: Code, kind: Scalar, a: str) -> str:
    return code.do(f"fdiv {kind.type} {number(1.0, kind)}, {a}")


def _absolute(code: Code, kind: Scalar, a: str) -> str:
    if kind.is_float:
        return code.call(f"llvm.fabs.{kind.suffix}", kind.type, a)
    if kind.family != "signed":
        return a
    return select(code, kind, code.do(f"icmp slt {kind.type} {a}, 0"), OPERATIONS["negative"](code, kind, a), a)


def _negative(code: Code, kind: Scalar, a: str) -> str:
    return code.do(f"fneg {kind.type} {a}" if kind.is_float else f"sub {kind.type} 0, {a}")


def _sign(code: Code, kind: Scalar, a: str) -> str:
    zero, one, minus = ("0.0", "1.0", "-1.0") if kind.is_float else ("0", "1", "-1")
    above = OPERATIONS["greater"](code, kind, a, zero)
    below = OPERATIONS["less"](code, kind, a, zero)
    either = select(code, kind, above, one, select(code, kind, below, minus, zero))
    return select(code, kind, _is_nan(code, kind, a), a, either) if kind.is_float else either


def _scale(code: Code, kind: Scalar, cotangent: str, slope: str) -> str:
    """Return the product, in which an exact zero of the cotangent wins over infinities and NaN."""
    product = OPERATIONS["multiply"](code, kind, cotangent, slope)
    zero = code.do(f"fcmp oeq {kind.type} {cotangent}, 0.0")
    lost = code.do(f"and i1 {zero}, {_is_nan(code, kind, product)}")
    return select(code, kind, lost, "0.0", product)


def _logaddexp(code: Code, kind: Scalar, a: str, b: str) -> str:
    """Return log(exp(a) + exp(b)); equal infinities have no difference that could be told."""
    difference = code.do(f"fsub {kind.type} {a}, {b}")
    distance = code.call(f"llvm.fabs.{kind.suffix}", kind.type, difference)
    power = OPERATIONS["exp"](code, kind, code.do(f"fneg {kind.type} {distance}"))
    larger = OPERATIONS["maximum"](code, kind, a, b)
    total = code.do(f"fadd {kind.type} {larger}, {OPERATIONS['log1p'](code, kind, power)}")
    twice = code.do(f"fadd {kind.type} {a}, {number(float(np.log(2)), kind)}")
    return select(code, kind, code.do(f"fcmp oeq {kind.type} {a}, {b}"), twice, total)


def _logaddexp2(code: Code, kind: Scalar, a: str, b: str) -> str:
    difference = code.do(f"fsub {kind.type} {a}, {b}")
    distance = code.call(f"llvm.fabs.{kind.suffix}", kind.type, difference)
    power = OPERATIONS["exp2"](code, kind, code.do(f"fneg {kind.type} {distance}"))
    larger = OPERATIONS["maximum"](code, kind, a, b)
    bits = code.do(f"fmul {kind.type} {OPERATIONS['log1p'](code, kind, power)}, {number(1 / float(np.log(2)), kind)}")
    total = code.do(f"fadd {kind.type} {larger}, {bits}")
    twice = code.do(f"fadd {kind.type} {a}, {number(1.0, kind)}")
    return select(code, kind, code.do(f"fcmp oeq {kind.type} {a}, {b}"), twice, total)


def _share(power: str) -> Emit:
    """Return exp(x - total); where both are infinite, which they are together, 0 below and 1 above."""

    def emit(code: Code, kind: Scalar, x: str, total: str) -> str:
        limits = np.finfo(f"float{kind.bits}")
        highest, lowest = number(float(limits.max), kind), number(float(limits.min), kind)
        x = OPERATIONS["minimum"](code, kind, x, highest)
        total = OPERATIONS["minimum"](code, kind, OPERATIONS["maximum"](code, kind, total, lowest), highest)
        return OPERATIONS[power](code, kind, code.do(f"fsub {kind.type} {x}, {total}"))

    return emit


def _remainder(code: Code, kind: Scalar, a: str, b: str) -> str:
    """Return the remainder with the sign of `b`, as Python and NumPy do."""
    rest = code.do(f"frem {kind.type} {a}, {b}")
    exact = code.do(f"fcmp oeq {kind.type} {rest}, 0.0")
    signs = code.do(f"xor i1 {_is_negative(code, kind, rest)}, {_is_negative(code, kind, b)}")
    moved = select(code, kind, signs, code.do(f"fadd {kind.type} {rest}, {b}"), rest)
    return select(code, kind, exact, code.call(f"llvm.copysign.{kind.suffix}", kind.type, "0.0", b), moved)


def _is_negative(code: Code, kind: Scalar, a: str) -> str:
    return code.do(f"fcmp olt {kind.type} {a}, 0.0")


def _floor_divide(code: Code, kind: Scalar, a: str, b: str) -> str:
    """Return the whole number of times, as NumPy does: from the remainder, so that it is exact."""
    rest = code.do(f"frem {kind.type} {a}, {b}")
    times = code.do(f"fdiv {kind.type} {code.do(f'fsub {kind.type} {a}, {rest}')}, {b}")
    inexact = code.do(f"fcmp une {kind.type} {rest}, 0.0")
    signs = code.do(f"xor i1 {_is_negative(code, kind, rest)}, {_is_negative(code, kind, b)}")
    less = code.do(f"fsub {kind.type} {times}, {number(1.0, kind)}")
    times = select(code, kind, code.do(f"and i1 {inexact}, {signs}"), less, times)
    whole = code.call(f"llvm.floor.{kind.suffix}", kind.type, times)
    far = code.do(f"fcmp ogt {kind.type} {code.do(f'fsub {kind.type} {times}, {whole}')}, {number(0.5, kind)}")
    whole = select(code, kind, far, code.do(f"fadd {kind.type} {whole}, {number(1.0, kind)}"), whole)
    ratio = code.do(f"fdiv {kind.type} {a}, {b}")
    nothing = code.call(f"llvm.copysign.{kind.suffix}", kind.type, "0.0", ratio)
    whole = select(code, kind, code.do(f"fcmp oeq {kind.type} {times}, 0.0"), nothing, whole)
    return select(code, kind, code.do(f"fcmp oeq {kind.type} {b}, 0.0"), ratio, whole)


def _heaviside(code: Code, kind: Scalar, a: str, at_zero: str) -> str:
    above = OPERATIONS["greater"](code, kind, a, "0.0")
    either = select(code, kind, above, number(1.0, kind), "0.0")
    either = select(code, kind, code.do(f"fcmp oeq {kind.type} {a}, 0.0"), at_zero, either)
    return select(code, kind, _is_nan(code, kind, a), a, either)


def _expit(code: Code, kind: Scalar, a: str) -> str:
    power = OPERATIONS["exp"](code, kind, code.do(f"fneg {kind.type} {a}"))
    return _reciprocal(code, kind, code.do(f"fadd {kind.type} {power}, {number(1.0, kind)}"))


def _sech_square(code: Code, kind: Scalar, a: str) -> str:
    """Return 1 / cosh(a)**2 as 4 p / (1 + p)**2 with p = exp(-2 |a|), which does not overflow."""
    distance = code.call(f"llvm.fabs.{kind.suffix}", kind.type, a)
    power = OPERATIONS["exp"](code, kind, code.do(f"fmul {kind.type} {distance}, {number(-2.0, kind)}"))
    total = code.do(f"fadd {kind.type} {power}, {number(1.0, kind)}")
    fourfold = code.do(f"fmul {kind.type} {power}, {number(4.0, kind)}")
    return code.do(f"fdiv {kind.type} {fourfold}, {_square(code, kind, total)}")


def _xlogy(function: str) -> Emit:
    """Return x * log(y), which is 0 where x is, unless y is NaN."""

    def emit(code: Code, kind: Scalar, x: str, y: str) -> str:
        product = code.do(f"fmul {kind.type} {x}, {OPERATIONS[function](code, kind, y)}")
        zero = code.do(f"fcmp oeq {kind.type} {x}, 0.0")
        known = code.do(f"fcmp ord {kind.type} {y}, {y}")
        return select(code, kind, code.do(f"and i1 {zero}, {known}"), "0.0", product)

    return emit


def _constant_times(factor: float) -> Emit:
    return lambda code, kind, a: code.do(f"fmul {kind.type} {a}, {number(factor, kind)}")


def _is_finite(code: Code, kind: Scalar, a: str) -> str:
    if not kind.is_float:
        return "true"
    size = code.call(f"llvm.fabs.{kind.suffix}", kind.type, a)
    return code.do(f"fcmp one {kind.type} {size}, {number(float('inf'), kind)}")


def _is_infinite(code: Code, kind: Scalar, a: str) -> str:
    if not kind.is_float:
        return "false"
    size = code.call(f"llvm.fabs.{kind.suffix}", kind.type, a)
    return code.do(f"fcmp oeq {kind.type} {size}, {number(float('inf'), kind)}")


def _sign_bit(code: Code, kind: Scalar, a: str) -> str:
    if not kind.is_float:
        return code.do(f"icmp slt {kind.type} {a}, 0") if kind.family == "signed" else "false"
    bits = code.do(f"bitcast {kind.type} {a} to i{kind.bits}")
    return code.do(f"icmp slt i{kind.bits} {bits}, 0")


def _truth(code: Code, kind: Scalar, a: str) -> str:
    if kind.family == "bool":
        return a
    return code.do(f"fcmp une {kind.type} {a}, 0.0" if kind.is_float else f"icmp ne {kind.type} {a}, 0")


def _logical(instruction: str) -> Emit:
    return lambda code, kind, a, b: code.do(f"{instruction} i1 {_truth(code, kind, a)}, {_truth(code, kind, b)}")


def _logical_not(code: Code, kind: Scalar, a: str) -> str:
    return code.do(f"xor i1 {_truth(code, kind, a)}, true")


def _invert(code: Code, kind: Scalar, a: str) -> str:
    return code.do(f"xor {kind.type} {a}, {'true' if kind.family == 'bool' else '-1'}")


OPERATIONS.update(
    add=_arithmetic("fadd", "add", "or"),
    subtract=_arithmetic("fsub", "sub"),
    multiply=_arithmetic("fmul", "mul", "and"),
    divide=_arithmetic("fdiv", ""),
    fmod=_arithmetic("frem", ""),
    bitwise_and=_arithmetic("", "and", "and"),
    bitwise_or=_arithmetic("", "or", "or"),
    bitwise_xor=_arithmetic("", "xor", "xor"),
    equal=_comparison("oeq", "eq"),
    not_equal=_comparison("une", "ne"),
    less=_comparison("olt", "lt"),
    less_equal=_comparison("ole", "le"),
    greater=_comparison("ogt", "gt"),
    greater_equal=_comparison("oge", "ge"),
    maximum=_extremum("greater"),
    minimum=_extremum("less"),
    fmax=_extremum_of_numbers("greater"),
    fmin=_extremum_of_numbers("less"),
    negative=_negative,
    positive=lambda code, kind, a: a,
    abs=_absolute,
    fabs=_absolute,
    sign=_sign,
    square=_square,
    reciprocal=_reciprocal,
    sqrt=_intrinsic("sqrt"),
    floor=_intrinsic("floor"),
    ceil=_intrinsic("ceil"),
    trunc=_intrinsic("trunc"),
    rint=_intrinsic("rint"),
    copysign=_intrinsic("copysign"),
    remainder=_remainder,
    floor_divide=_floor_divide,
    heaviside=_heaviside,
    scale=_scale,
    share=_share("exp"),
    share_of_2=_share("exp2"),
    logaddexp=_logaddexp,
    logaddexp2=_logaddexp2,
    expit=_expit,
    sech_square=_sech_square,
    xlogy=_xlogy("log"),
    xlog1py=_xlogy("log1p"),
    deg2rad=_constant_times(np.pi / 180),
    radians=_constant_times(np.pi / 180),
    rad2deg=_constant_times(180 / np.pi),
    degrees=_constant_times(180 / np.pi),
    isnan=_is_nan,
    isfinite=_is_finite,
    isinf=_is_infinite,
    signbit=_sign_bit,
    logical_and=_logical("and"),
    logical_or=_logical("or"),
    logical_xor=_logical("xor"),
    logical_not=_logical_not,
    invert=_invert,
    exp=_function("exp"),
    exp2=_function("exp2"),
    expm1=_function("expm1"),
    log=_function("log"),
    log2=_function("log2"),
    log10=_function("log10"),
    log1p=_function("log1p"),
    sin=_function("sin"),
    cos=_function("cos"),
    tan=_function("tan"),
    sinh=_function("sinh"),
    cosh=_function("cosh"),
    tanh=_function("tanh"),
    arcsin=_function("asin"),
    arccos=_function("acos"),
    arctan=_function("atan"),
    arcsinh=_function("asinh"),
    arccosh=_function("acosh"),
    arctanh=_function("atanh"),
    arctan2=_function("atan2"),
    hypot=_function("hypot"),
    cbrt=_function("cbrt"),
    power=_function("pow"),
    erf=_function("erf"),
    erfc=_function("erfc"),
)

FLOATS_ONLY = {
    "divide", "fmod", "remainder", "floor_divide", "heaviside", "scale", "share", "share_of_2", "logaddexp",
    "logaddexp2", "expit", "sech_square", "xlogy", "xlog1py", "deg2rad", "radians", "rad2deg", "degrees", "reciprocal",
    "sqrt", "floor", "ceil", "trunc", "rint", "copysign", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
    "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh",
    "arctan2", "hypot", "cbrt", "power", "erf", "erfc", "fabs",
}  # fmt: skip
"""What other numbers do not have, or what they do otherwise."""

CHEAP = {
    "add", "subtract", "multiply", "negative", "positive", "abs", "fabs", "square", "maximum", "minimum", "cast",
    "select", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "scale", "bitwise_and",
    "bitwise_or",
    "bitwise_xor", "logical_and", "logical_or", "logical_not", "invert", "isnan", "isfinite", "isinf", "copysign",
}  # fmt: skip
"""What takes a cycle or two."""

MIDDLING = {"divide", "reciprocal", "sqrt", "floor", "ceil", "trunc", "rint", "sign", "heaviside"}
"""What takes some more; memory is not faster than that."""


def convert(code: Code, a: str, given: Scalar, wanted: Scalar) -> str:
    """Return a number as another kind, as `astype` does."""
    if given == wanted:
        return a
    if wanted.family == "bool":
        return _truth(code, given, a)
    if given.is_float and wanted.is_float:
        return code.do(f"{'fpext' if wanted.bits > given.bits else 'fptrunc'} {given.type} {a} to {wanted.type}")
    if wanted.is_float:
        instruction = "sitofp" if given.family == "signed" else "uitofp"
        return code.do(f"{instruction} {given.type} {a} to {wanted.type}")
    if given.is_float:
        instruction = "fptosi" if wanted.family == "signed" else "fptoui"
        return code.do(f"{instruction} {given.type} {a} to {wanted.type}")
    if given.bits == wanted.bits:
        return a
    instruction = "trunc" if wanted.bits < given.bits else "sext" if given.family == "signed" else "zext"
    return code.do(f"{instruction} {given.type} {a} to {wanted.type}")
