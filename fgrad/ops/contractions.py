"""Multilinear operations such as `matmul`: their declaration, and their products with masked arguments.

    multilinear(f, rules)        declare one; the forward rule is a sum of operations
    contract(primitive, args)    the result; exact zeros of a masked argument win over infinities of the others

A zero that a mask puts into a cotangent means "not used": `where(False, a @ x, x[0])` has the derivative of `x[0]`,
also if `a` contains an infinity. `scale` handles products of two numbers; this module handles sums of products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fgrad.core.foreign import as_payload, is_at_hand
from fgrad.core.masked import PRODUCTS, Masked
from fgrad.core.primitive import UFUNCS, ZERO, Primitive, Rule, Rules
from fgrad.core.tensor import apply
from fgrad.core.trace import NOTHING, is_seen
from fgrad.core.unbroadcast import is_finite
from fgrad.ops.families import ForEach, Sample, register
from fgrad.ops.patterns import without
from fgrad.typing import Array

_guarded: dict[Primitive, Primitive] = {}
"""Per operation: the variant in which exact zeros of one argument win."""


def multilinear(
    implementation: Callable[..., Any],
    rules: Rules,
    *samples: Sample,
    name: str | None = None,
    broadcasts: bool = False,
    pattern: Rule | None = None,
) -> Primitive:
    """Declare an operation that is linear in each array; its tangent is a sum over them.

    Exact zeros of tangents, and after a mask those of cotangents, win over infinities. The rules and the batching
    rule may receive `Masked` arrays; they may pass them to operators and to `contract`.
    """

    def forward(tangents: Sequence[Any], ans: Array, *args: Array, **metadata: object) -> Any:
        return _sum_over_tangents(primitive, tangents, args, metadata)

    primitive = Primitive(
        name or implementation.__name__,
        implementation,
        rules,
        forward,
        broadcasts=broadcasts,
        scales="both",
        samples=samples,
        linear="each",
        pattern=pattern,
    )
    _guarded[primitive] = register(_guarded_twin(primitive))
    return register(primitive)


@np.errstate(all="ignore")
def _sum_over_tangents(
    primitive: Primitive,
    tangents: Sequence[Any],
    args: tuple[Any, ...],
    metadata: Mapping[str, Any],
    guard: int | None = None,
) -> Any:
    """Return the sum over tangents of the operation, with each in place of its argument; zeros at `guard` win."""
    total: Any = ZERO
    for place, t in enumerate(tangents):
        if t is not ZERO:
            moved = [*args]
            moved[place] = t
            if guard is None:
                part = contract(primitive, moved, metadata)
            else:
                part = _guarded_by(guard, primitive, moved, metadata)
            total = part if total is ZERO else total + part
    return total


def contract(primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any] = NOTHING) -> Any:
    """Return the result of a multilinear operation, one argument of which may be `Masked`."""
    for guard, arg in enumerate(args):
        if type(arg) is Masked:
            plain = [*args]
            plain[guard] = arg.derivative
            return _guarded_by(guard, primitive, plain, metadata)
    return apply(primitive, args, metadata)


PRODUCTS[np.matmul] = lambda a, b: contract(UFUNCS[np.matmul], (a, b))


def _guarded_by(guard: int, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
    """Return the result of an operation in which exact zeros of the argument at index `guard` win."""
    if not is_seen() and all(type(x) is np.ndarray for x in args):
        return _without_unused(primitive, args, metadata, guard)  # fast path; `apply` would have the same result
    return apply(_guarded[primitive], args, {**metadata, "guard": guard})


def _guarded_twin(primitive: Primitive) -> Primitive:
    """Return the variant of an operation in which exact zeros of the argument at `guard` win over infinities.

    Its rules are those of the operation, called with this argument as `Masked`. In the derivative with respect to
    this argument, the cotangent or tangent is `Masked` instead.
    """

    def implementation(*args: Array, guard: int, **metadata: object) -> Any:
        return _without_unused(primitive, args, metadata, guard)

    def rule(argnum: int, ans: Array, *args: Array, guard: int, **metadata: object) -> Callable[[Any], Any]:
        guarded = [Masked(x) if place == guard != argnum else x for place, x in enumerate(args)]
        pullback = primitive.vjps[argnum](ans, *guarded, **metadata)  # type: ignore[index, misc]
        return lambda ct: pullback(Masked(ct) if argnum == guard else ct)

    def forward(tangents: Sequence[Any], ans: Array, *args: Array, guard: int, **metadata: object) -> Any:
        return _sum_over_tangents(primitive, tangents, args, metadata, guard)

    def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
        guard = metadata["guard"]
        guarded = [Masked(x) if place == guard else x for place, x in enumerate(values)]
        others = {name: value for name, value in metadata.items() if name != "guard"}
        return primitive.batch(guarded, mapped, size, others)  # type: ignore[misc]

    twin = Primitive(
        f"{primitive.name}_guarded",
        implementation,
        ForEach(rule),
        forward,
        batch,
        broadcasts=primitive.broadcasts,
        masks="both",
        samples=tuple(replace(each, metadata={**each.metadata, "guard": 0}) for each in primitive.samples[:2]),
        kind="guard",
        linear="each",
        pattern=primitive.pattern and (lambda step: primitive.pattern(without(step, "guard"))),  # type: ignore[misc]
    )
    return twin


def _without_unused(primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any], guard: int) -> Any:
    """Return sums of products in which a factor that is exactly 0 makes the product 0, even times an infinity."""
    ans = primitive.implementation(*args, **metadata)
    if is_finite(ans):
        return ans
    if np.all(args[guard]) if is_at_hand(ans) else _are_finite(args[:guard]) and _are_finite(args[guard + 1 :]):
        return ans  # only if the result is computed already
    return _by_counting(lambda *args: primitive.implementation(*args, **metadata), ans, args, guard)


def _are_finite(args: Sequence[Any]) -> bool:
    return all(map(is_finite, args))


def _by_counting(function: Callable[..., Any], ans: Array, args: Sequence[Any], guard: int) -> Any:
    """Return sums of products: finite if all factors in use are finite, otherwise an infinity or NaN.

    If the number of infinite products equals the absolute sum of their signs, all have one sign; otherwise the sum is
    NaN. The counts may be rounded, as in Fourier transforms.

    Args:
        function: the sums of products; linear in each argument.
        ans: its value.
        args: its arguments.
        guard: the index of the argument whose zeros win.
    """
    args = [as_payload(x) for x in args]
    finite = [np.isfinite(x) for x in args]
    total = function(*(np.where(are, x, np.zeros((), x.dtype)) for are, x in zip(finite, args, strict=True)))
    used = [x != 0 if place == guard else np.ones(x.shape) for place, x in enumerate(args)]
    count = _beyond_finite(function, used, finite)
    if ans.dtype.kind == "c":
        return np.where(count == 0, total, ans)[()]
    balance = _beyond_finite(function, [np.where(np.isnan(x), 0, np.sign(x)) for x in args], finite)
    infinity = np.where(count == np.abs(balance), np.copysign(np.inf, balance), np.nan)
    return np.where(count == 0, total, total + infinity.astype(total.dtype))[()]


def _beyond_finite(function: Callable[..., Any], weights: Sequence[Any], finite: Sequence[Any]) -> Any:
    """Return the sums of products with all weights, minus those of the weights whose other factors are all finite."""
    weights = [weight.astype(np.float64) for weight in weights]
    of_finite = function(*(weight * are for weight, are in zip(weights, finite, strict=True)))
    return np.rint(function(*weights) - of_finite)
