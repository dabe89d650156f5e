"""The table of primitives: the definitions of all operations, and the lookup of NumPy names in it.

Primitive(...)             the entry: implementation, rules, samples
ReverseRule(...)           a reverse rule that declares what it saves
UFUNCS[np.sin]             the primitive that a ufunc runs on Tensors
FUNCTIONS[np.sum]          the Python function that any other NumPy name runs
PRIMITIVES["sin"]          every primitive by name; the generic tests loop over it
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import numpy as np

from fgrad import errors

Rule = Callable[..., Any]


class Rules(Protocol):
    """The reverse rules of a primitive: one for each argument, by its position."""

    def __getitem__(self, argnum: int, /) -> Rule | None: ...


class Zero:
    """Symbolic zero: a derivative that is known to be zero and never allocated. `ZERO` is its only instance."""

    def __repr__(self) -> str:
        return "ZERO"


ZERO: Final = Zero()


class ReverseRule:
    """A reverse rule that is a function of the cotangent and of its residuals, such as `lambda ct, y: ct * y`.

    The parameters after the cotangent declare what is kept until the backward pass: `ans`, or arguments by name.
    Nothing else of the operation stays in memory. Called like any reverse rule, `rule(ans, *args)`, it returns the
    pullback.

    Args:
        function: takes the cotangent and the residuals.
        saved: the names of the residuals.
        saves: their positions in `(ans, *args)`.

    Attributes:
        pick: takes the residuals out of `(ans, *args)`: a single one itself, several as a tuple.
        primitive: the operation.
        masks: whether it returns masked cotangents.
    """

    __slots__ = ("function", "saved", "saves", "count", "pick", "primitive", "masks")
    primitive: Primitive
    masks: bool

    def __init__(self, function: Callable[..., Any], saved: Sequence[str] = (), saves: Sequence[int] = ()) -> None:
        self.function, self.saved, self.saves, self.count = function, saved, saves, len(saved)
        self.pick: Callable[[Any], Any] = operator.itemgetter(*saves) if saves else _nothing

    def __call__(self, ans: Any, *args: Any, **metadata: Any) -> Callable[[Any], Any]:
        if metadata:
            names = ", ".join(metadata)
            raise errors.CustomRuleError(
                f"{self.primitive.name} was called with {names}=, which its reverse rule does not accept.\n"
                f"Write lambda ans, x, *, {names}: lambda ct: ..."
            )
        saved = self.pick((ans, *args))
        return lambda ct: self.pull(ct, saved)

    def pull(self, ct: Any, saved: Any) -> Any:
        """Return the cotangent of the argument, from that of the result and the residuals."""
        if self.count == 1:
            return self.function(ct, saved)
        return self.function(ct, *saved) if self.count else self.function(ct)


def _nothing(values: Sequence[Any]) -> None:
    return None


def reverse_rule(rule: Rule | None, arguments: Sequence[str] | Callable[..., Any]) -> Rule | None:
    """Return a rule whose first parameter is `ct` as a `ReverseRule`, and any other rule unchanged.

    A rule of the other form, `lambda ans, x: lambda ct: ...`, may keep any argument.

    Args:
        rule: in either form.
        arguments: the names of the operation's arguments, or the function whose parameters they are.

    Raises:
        CustomRuleError: a ValueError; a rule names something other than `ans` and arguments of the operation.
    """
    if rule is None or isinstance(rule, ReverseRule):
        return rule
    first, *saved = _positional(rule) or [""]
    if first != "ct":
        return rule
    names = _positional(arguments) if callable(arguments) else arguments
    others = [name for name in [*inspect.signature(rule).parameters][1:] if name not in ("ans", *names)]
    if others:
        raise errors.CustomRuleError(
            f"a reverse rule whose first parameter is `ct` names what it saves, and {', '.join(others)} is not an "
            f"array of the operation, which has {', '.join(names) or 'no known names'}.\n"
            "Name `ans` or these; with keywords write lambda ans, x, *, axis: lambda ct: ..."
        )
    return ReverseRule(rule, saved, [0 if name == "ans" else 1 + names.index(name) for name in saved])


def _positional(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that can be passed by position; empty if they are unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def may_save(rule: Rule | None, place: int) -> bool:
    """Return whether the pullback of a reverse rule may keep the argument at position `place`."""
    if rule is None:
        return False
    return 1 + place in rule.saves if isinstance(rule, ReverseRule) else True


PRIMITIVES: dict[str, Primitive] = {}
UFUNCS: dict[np.ufunc, Primitive] = {}
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}
BOXES: set[type] = set()
"""The types of tensors and variables."""
UFUNC_FORMS: dict[tuple[np.ufunc, str], Callable[..., Any]] = {}
ANSWERS: dict[np.ufunc, Callable[..., Any]] = {}
"""Functions called in place of `apply` where a ufunc, or its operator, is called on tensors."""


@dataclass(eq=False, slots=True, repr=False)
class Primitive:
    """An operation with its rules. Arrays are its positional arguments, metadata its keywords.

    An attribute is set only once: to set it again raises. Properties that only few operations have stand in tables of
    the code that uses them, such as `VIEWS`.

    Attributes:
        name: the name in errors, graphs and tests.
        implementation: computes the result on plain arrays. A tuple of arrays means several outputs.
        vjps: one reverse rule per argument. `rule(ans, *args, **metadata)` returns the pullback, a
            function of the cotangent of `ans`; it computes nothing before the cotangent comes. A `ReverseRule` declares
            its residuals; for any other rule all arguments are kept. A rule that is None, or returns None, means "the
            derivative is zero"; `vjps=None` means "no derivative flows through this operation".
            Rules are linear in the cotangent and never conjugate: complex conventions are settled
            where a pass begins and ends.
        parted: in place of `vjps`, for an operation that joins any number of arrays and keeps none of them:
            `parted(ans, *args, **metadata)` returns one pullback for all, a function of the cotangent of `ans` that
            returns a list with one cotangent for each argument.
        jvp: the forward rule: `jvp(tangents, ans, *args, **metadata)` returns the tangent of `ans`;
            an argument that is constant has the tangent ZERO.
        batch: the batching rule.
        broadcasts: arguments are broadcast against each other, so cotangents are summed back.
        scales: rules of the form `ct * slope` or `ct / slope`, element by element, or a sum of such products, where the
            slope may be infinite. They take masked derivatives as `Masked`, whose exact zeros win. "pullback": the
            reverse rules; "both": the forward rule, too.
        masks: rules that return masked derivatives. "tangent": the forward rule, which puts exact zeros where the
            result is constant; "both": the reverse rules, too, which put them where the operation did not use an
            element.
        samples: calls for the generic tests (see `fgrad.testing`).
        kind: the kind of operation, for reports: "comparison", "rounding", "position" or "conversion" if the derivative
            is 0, "choice" of one of the arguments, "product"; "guard" and "part" are internal operations.
        linear: "together" if it is linear in its arrays jointly; "each" if it is linear in each of them.
        is_elementwise: each element of the result depends on one element of each argument, which are broadcast; rules
            also accept a batch of cotangents or tangents along a new first axis.
        pattern: the dependencies of elements of the result on elements of the arguments, as in `fgrad.ops.patterns`;
            None: all on all. The batching rule of a family sets that of the family.
        closure: the `ReverseRule` of edges whose pullback is a closure, stored as the residual.
        compute: the implementation, or for a ufunc that is an operator the operator, ten times faster for numbers.
    """

    name: str
    implementation: Callable[..., Any]
    vjps: Rules | None = None
    jvp: Rule | None = None
    batch: Rule | None = None
    parted: Rule | None = None
    broadcasts: bool = False
    scales: Literal["", "pullback", "both"] = ""
    masks: Literal["", "tangent", "both"] = ""
    samples: tuple[Any, ...] = ()
    kind: str = ""
    linear: str = ""
    is_elementwise: bool = False
    pattern: Rule | None = None
    compute: Callable[..., Any] = field(init=False)
    closure: ReverseRule = field(init=False)

    def __post_init__(self) -> None:
        if not self.is_elementwise and self.is_ufunc and self.implementation.signature is None:  # type: ignore[attr-defined]
            self.is_elementwise = True
        self.compute = _OPERATORS.get(self.implementation, self.implementation)
        self.closure = self.own(ReverseRule(_called, ["pullback"]))
        if isinstance(self.vjps, tuple):
            object.__setattr__(self, "vjps", self.owned(self.vjps))

    def __setattr__(self, name: str, value: object) -> None:
        if getattr(self, name, None):
            raise AttributeError(f"{name} of the primitive {self.name!r} is defined already")
        object.__setattr__(self, name, value)

    @property
    def is_by_element(self) -> bool:
        """Whether one element of each argument determines the shape and dtype of the result."""
        return self.is_elementwise or self.kind in ("conversion", "rounding")

    @property
    def is_ufunc(self) -> bool:
        """Whether the implementation is a ufunc, which works on tensors by itself."""
        return isinstance(self.implementation, np.ufunc)

    def owned(self, rules: Sequence[Rule | None]) -> tuple[Rule | None, ...]:
        """Return reverse rules, with those of type `ReverseRule` assigned to this primitive."""
        found = tuple(reverse_rule(rule, self.implementation) for rule in rules)
        for rule in found:
            if isinstance(rule, ReverseRule):
                self.own(rule)
        return found

    def own(self, rule: ReverseRule) -> ReverseRule:
        """Assign a rule to this primitive, and return it."""
        rule.primitive, rule.masks = self, self.masks == "both"
        return rule

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"  # short: graphs print it in the metadata of views


def _called(ct: Any, pullback: Callable[[Any], Any]) -> Any:
    return pullback(ct)


_OPERATORS: dict[Any, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
    np.negative: operator.neg,
}
