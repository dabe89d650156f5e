"""Declarations of primitives by family: most rules follow from the kind of operation.

    elementwise(np.sin, rule)     one reverse rule per argument; the forward rule is the same formula
    without_closed_form(f, "v")   a rule that raises: the derivative has no closed form
    linear(f, transpose)          linear in its only argument; the forward rule is the operation
    constant_in_pieces(f)         piecewise constant: the derivative is 0
    jointly_linear(f, rules)      linear in all arguments together, any number of them
    @answers(np.sum)              the implementation of `np.sum` for Tensors
    @answers_member("sort")       the implementation of a method or attribute of arrays
    @answers_form(np.add, "at")   the implementation of a form of a ufunc

A reverse rule is `lambda ct, ans, x: ...`: a function of the cotangent and of its residuals, `ans` and arguments
by name. Its parameters declare what stays in memory. With metadata or a choice between formulas it is
`lambda ans, x, **metadata: lambda ct: ...`, which keeps every argument.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

from fgrad import errors
from fgrad.core.coerce import PLAIN
from fgrad.core.masked import PRODUCTS
from fgrad.core.primitive import (
    FUNCTIONS,
    METHODS,
    PRIMITIVES,
    UFUNC_FORMS,
    UFUNCS,
    ZERO,
    Primitive,
    ReverseRule,
    Rule,
    reverse_rule,
)
from fgrad.core.reverse import conform
from fgrad.core.tensor import apply
from fgrad.core.trace import is_seen
from fgrad.core.unbroadcast import is_finite, summed_product
from fgrad.ops.batching import Batch, elementwise_batch, joining_batch
from fgrad.typing import Array, ArrayLike, Axes, Operand

F = TypeVar("F", bound=Callable[..., Any])

Domain = tuple[float, float]


@dataclass(frozen=True)
class Sample:
    """One call of a primitive for the generic tests: shapes of array arguments, and metadata.

    Attributes:
        shapes: one per array; the elements are random.
        metadata: keyword arguments. For an array, give a function without arguments that returns it.
        domain: the interval from which values are drawn; for complex numbers, of both parts. A tuple of
            intervals gives one for each array.
        constants: arguments that follow the arrays and are not differentiated.
        complex: whether the arrays may be complex.
        leading: arguments that stand before the arrays and are not differentiated.
    """

    shapes: tuple[tuple[int, ...], ...]
    metadata: dict[str, Any] = field(default_factory=dict)
    domain: Domain | tuple[Domain, ...] = (-2.0, 2.0)
    constants: tuple[Any, ...] = ()
    complex: bool = True
    leading: tuple[Any, ...] = ()


def sample(
    *shapes: tuple[int, ...],
    domain: Domain | tuple[Domain, ...] = (-2.0, 2.0),
    constants: tuple[Any, ...] = (),
    complex: bool = True,
    leading: tuple[Any, ...] = (),
    **metadata: object,
) -> Sample:
    """Describe one call of a primitive for the generic tests."""
    return Sample(shapes, metadata, domain, constants, complex, leading)


UNARY = (((),), ((3,),), ((2, 3),), ((0, 2),))
BINARY = (
    ((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((3,), ()), ((), (2, 2)), ((0, 3), (3,)),
)  # fmt: skip
TERNARY = (((), (), ()), ((3,), (), (2, 1)), ((2, 1), (1, 3), (3,)), ((0, 3), (3,), ()))
QUATERNARY = (((), (), (), ()), ((3,), (), (2, 1), (2, 3)), ((0, 3), (3,), (), (1,)))
SHAPES: dict[int, tuple[tuple[tuple[int, ...], ...], ...]] = {1: UNARY, 2: BINARY, 3: TERNARY, 4: QUATERNARY}
"""Shapes of samples by the number of arrays: scalars, arrays that broadcast, empty arrays."""


def register(primitive: Primitive) -> Primitive:
    """Register a primitive, and dispatch its ufunc to it."""
    if primitive.name in PRIMITIVES:
        raise errors.ParameterError(
            f"a primitive named {primitive.name!r} is registered already.\n"
            "Choose another name. In a notebook, a cell that registers one runs once."
        )
    PRIMITIVES[primitive.name] = primitive
    if primitive.is_ufunc:
        UFUNCS[primitive.implementation] = primitive  # type: ignore[index]
    return primitive


def answers(*functions: Any) -> Callable[[F], F]:
    """Register a function as the implementation of NumPy functions for Tensors."""

    def enter(answer: F) -> F:
        for function in functions:
            if isinstance(function, np.ufunc):
                UFUNC_FORMS[function, "__call__"] = answer
            else:
                FUNCTIONS[function] = answer
        return answer

    return enter


def answers_form(ufunc: np.ufunc, form: str) -> Callable[[F], F]:
    """Register a function as a form of a ufunc: a method, `"__call__"`, or a call with `"keywords"`."""

    def enter(answer: F) -> F:
        UFUNC_FORMS[ufunc, form] = answer
        return answer

    return enter


def answers_member(name: str) -> Callable[[F], F]:
    """Register a function as a method of arrays, or as an attribute if it has no other arguments."""

    def enter(answer: F) -> F:
        METHODS[name] = answer
        return answer

    return enter


def check_device(device: Any) -> None:
    """Raise NumPy's error for an unsupported device; tensors have the same devices as NumPy arrays."""
    if device is not None:
        np.empty(0, device=device)


def plain_axis(axis: Any) -> Any:
    """Return an axis, or a tuple of axes, as Python integers; NumPy integers and tensors are accepted."""
    if axis is None or type(axis) is int:
        return axis
    return tuple(map(operator.index, axis)) if np.iterable(axis) else operator.index(axis)


def checked_axis(axis: Any, x: Array) -> Any:
    """Return axes of an array as Python integers.

    Raises:
        AxisError: NumPy's, an IndexError and ValueError; the array lacks one of the axes.
    """
    if axis is None:
        return None
    axis = plain_axis(axis)
    if not (type(axis) is int and -x.ndim <= axis < x.ndim):
        np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    return axis


def reduced_axis(axis: Axes, x: Any) -> Any:
    """Return the axes of a reduction; for a scalar, 0 and -1 mean no axis, as in NumPy."""
    if axis is None or (type(axis) is int and -(ndim := x.ndim) <= axis < ndim):
        return axis
    axis = plain_axis(axis)
    return None if type(axis) is int and -1 <= axis <= 0 and not x.ndim else checked_axis(axis, x)


def identity(ct: Array) -> Any:
    """The identity pullback."""
    return ct


def _elementwise_tangent(rules: Sequence[Rule | None]) -> Rule:
    """Return the forward rule that applies the reverse rules to tangents."""
    # Specializations without loops, for one and two arguments
    if len(rules) == 1:
        (alone,) = rules
        return lambda tangents, ans, x: ZERO if alone is None else _taken(alone, tangents[0], (ans, x))
    if len(rules) == 2:
        first, second = rules
        return functools.partial(_tangent_of_two, first, second)

    def forward(tangents: Sequence[Any], ans: Array, *args: Operand) -> Any:
        values = (ans, *args)
        parts = [
            _taken(rule, t, values) for rule, t in zip(rules, tangents, strict=True) if not (t is ZERO or rule is None)
        ]
        return functools.reduce(operator.add, parts) if parts else ZERO

    return forward


def _taken(rule: Rule, tangent: object, values: tuple[Any, ...]) -> Any:
    """Return a tangent pushed forward by a reverse rule, for `(ans, *args)`."""
    if type(rule) is ReverseRule:
        return rule.pull(tangent, rule.pick(values))
    return rule(*values)(tangent)


def _tangent_of_two(
    first: Rule | None, second: Rule | None, tangents: Sequence[Any], ans: Array, x: Operand, y: Operand
) -> Any:
    s, t = tangents
    if s is ZERO or first is None:
        return ZERO if t is ZERO or second is None else _taken(second, t, (ans, x, y))
    along_first = _taken(first, s, (ans, x, y))
    return along_first if t is ZERO or second is None else along_first + _taken(second, t, (ans, x, y))


_quiet = np.errstate(all="ignore")
"""As a decorator, `errstate` takes half the time of a block inside the function."""


def elementwise(
    implementation: Callable[..., Any],
    *rules: Rule | None,
    name: str | None = None,
    names: str = "x y z w",
    jvp: Rule | None = None,
    domain: Domain | tuple[Domain, ...] = (-2.0, 2.0),
    complex: bool = True,
    scales: Literal["", "pullback", "both"] | None = None,
    masks: Literal["", "tangent", "both"] = "",
    shapes: Sequence[tuple[tuple[int, ...], ...]] | None = None,
    leading: tuple[Any, ...] = (),
) -> Primitive:
    """Declare an operation in which each element of the result depends on one element of each argument.

    Args:
        implementation: a ufunc, which is then dispatched to the primitive, or any function that broadcasts.
        rules: one reverse rule per argument. The Jacobian is diagonal and thus its own transpose,
            so the same formula takes a tangent forward.
        name: by default the implementation's.
        names: names of the arguments, which rules use to declare what they save.
        jvp: the forward rule where the formula differs (functions of complex numbers without a
            complex derivative).
        domain: the interval of samples; a tuple of intervals gives one for each array.
        complex: whether samples may be complex.
        scales, masks: see `Primitive`. By default the rules scale, `ct * slope` or `ct / slope`, and so does a forward
            rule that is made of them.
        shapes: the shapes of samples; by default those of one or two arguments that broadcast.
        leading: arguments of the samples that precede the arrays and are not differentiated.
    """
    rules = tuple(reverse_rule(rule, names.split()) for rule in rules)
    forward = _elementwise_tangent(rules)
    if scales is None:
        scales = "both" if jvp is None else "pullback"
    if scales:
        forward = _quiet(forward)
    if shapes is None:
        shapes = SHAPES[len(rules) - len(leading)]
    primitive = Primitive(
        name or implementation.__name__,
        implementation,
        vjps=rules,
        jvp=jvp or forward,
        broadcasts=len(rules) > 1,
        scales=scales,
        masks=masks,
        is_elementwise=True,
        samples=tuple(sample(*each, domain=domain, complex=complex, leading=leading) for each in shapes),
    )
    primitive.batch = elementwise_batch(primitive)
    return register(primitive)


def scaled_sum(ct: Any, slope: Array, shape: tuple[int, ...]) -> Any:
    """Return the cotangent of a broadcast argument of the given shape: the sum of products with a slope."""
    total = summed_product(ct, slope, shape)
    return conform(ct * slope, shape, ct.dtype) if total is None else total


def without_closed_form(function: str, argument: str, instead: str = "") -> Rule:
    """Return a rule that raises: the derivative with respect to an argument has no closed form.

    Args:
        function: the public name, such as `scipy.special.jv`.
        argument: its name in the documentation of the function.
        instead: a sentence with the alternative.
    """

    def rule(ans: ArrayLike, *args: Operand) -> Any:
        raise errors.NoClosedFormError(function, argument, instead, errors.users_line())

    return rule


def linear(
    implementation: Callable[..., Any],
    rule: Rule,
    *samples: Sample,
    name: str | None = None,
    jvp: Rule | None = None,
    batch: Callable[[Primitive], Batch] | None = None,
    pattern: Rule | None = None,
) -> Primitive:
    """Declare an operation that is linear in its only array; by default the forward rule is the operation itself."""

    def forward(tangents: Sequence[Any], ans: Array, x: Array, **metadata: object) -> Any:
        return apply(primitive, tangents, metadata)

    primitive = Primitive(
        name or implementation.__name__,
        implementation,
        (rule,),
        jvp or forward,
        samples=samples,
        linear="together",
        pattern=pattern,
    )
    primitive.batch = batch(primitive) if batch else None
    return register(primitive)


def constant_in_pieces(
    implementation: Callable[..., Any],
    batch: Callable[[Primitive], Batch],
    *samples: Sample,
    name: str | None = None,
    kind: str = "",
) -> Primitive:
    """Declare a piecewise constant operation on one array: the derivative is 0 wherever it exists."""
    primitive = Primitive(name or implementation.__name__, implementation, (None,), samples=samples, kind=kind)
    primitive.batch = batch(primitive)
    return register(primitive)


class ForEach:
    """The reverse rules of any number of arguments, from one rule with the argument's index as a parameter."""

    def __init__(self, rule: Callable[..., Any]) -> None:
        self._rule = rule
        self._rules: dict[int, Rule] = {}  # rules cache their properties, so each index has a rule object of its own

    def __getitem__(self, argnum: int) -> Rule:
        if argnum not in self._rules:
            self._rules[argnum] = lambda ans, *args, **metadata: self._rule(argnum, ans, *args, **metadata)
        return self._rules[argnum]


def jointly_linear(
    implementation: Callable[..., Any], parted: Rule, *samples: Sample, name: str | None = None
) -> Primitive:
    """Declare an operation that joins arrays: linear, with a pullback that splits the cotangent."""

    def forward(tangents: Sequence[Any], ans: Array, *args: Array, **metadata: Any) -> Any:
        filled = [np.zeros_like(x) if t is ZERO else t for x, t in zip(args, tangents, strict=True)]
        return apply(primitive, filled, metadata)

    primitive = Primitive(name or implementation.__name__, implementation, None, forward, samples=samples)
    primitive.parted, primitive.batch = parted, joining_batch(primitive)
    primitive.linear = "together"
    return register(primitive)


def _scaled(cotangent: Any, slope: Operand) -> Any:
    product = cotangent * slope
    if not is_finite(product):
        product = np.where(cotangent == 0, np.zeros((), product.dtype), product)[()]
    return product


def _scale_tangent(tangents: Sequence[Any], ans: Array, cotangent: Array, slope: Operand) -> Any:
    moved, bent = tangents
    if moved is ZERO or bent is ZERO:
        return scale(cotangent, bent) if moved is ZERO else scale(moved, slope)
    return scale(moved, slope) + scale(cotangent, bent)


_scale = elementwise(
    _scaled,
    lambda ct, slope: scale(ct, slope),
    lambda ct, cotangent: scale(cotangent, ct),
    name="scale",
    names="cotangent slope",
    jvp=_scale_tangent,
    scales="",
    masks="both",
)
_scale.kind, _scale.linear = "guard", "each"


def scale(cotangent: Array | float, slope: Operand) -> Any:
    """Return a cotangent or tangent times a slope; exactly 0 where the former is 0."""
    if type(cotangent) in PLAIN and type(slope) in PLAIN and not is_seen():
        return _scaled(cotangent, slope)  # fast path; `apply` would have the same result
    return apply(_scale, (cotangent, slope))


PRODUCTS[np.multiply] = scale
