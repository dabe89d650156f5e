"""Parameters of optimizers and schedules, declared in one line each: documentation, check, default.

    @optimizer_class
    class Lion(Optimizer):
        beta1: Hyper = varying("the weight of the average in a step", FRACTION, default=0.9)

The class becomes a dataclass: its `__init__` has these parameters, in this order, after those of its base class. Type
checkers and editors see the same `__init__`, by `dataclass_transform`. The sections Args and Raises of the docstring
are made from the declarations and stand before its example.

varying, fixed                      declare a parameter of an optimizer; `fixed` also one of a schedule
optimizer_class, schedule_class     make a class from its declarations
Check                               a condition on a parameter: FRACTION, SHARE, POSITIVE, at_least(bound), ...
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import MISSING
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import numpy as np

from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import strip_ended
from fgrad.core.variable import Variable
from fgrad.errors.hints import names_keywords
from fgrad.typing import Operand

C = TypeVar("C", bound=type)


class Check(NamedTuple):
    """A condition on the value of a parameter: a function of the value, and the words that follow "must"."""

    holds: Callable[[Any], Any]
    requirement: str

    def refuse(self, name: str, value: Any) -> None:
        """Raise if the condition does not hold for a value, or for one element of an array."""
        try:
            holds = bool(np.all(self.holds(value)))
        except TypeError:
            holds = False
        if not holds:
            shown = repr(value) if isinstance(value, str) else value
            raise errors.ParameterError(f"{name} must {self.requirement}, and it is {shown}.")


def of_numbers(holds: Callable[[Any], Any], requirement: str) -> Check:
    """Return a condition on real numbers. It holds for variables and traced tensors, whose values may change."""

    def holds_now(value: Operand) -> Any:
        value = value if type(value) is Variable else strip_ended(value)
        if type(value) in BOXES:
            return True
        value = np.asarray(value)
        return value.dtype.kind in "fiuO" and holds(value)

    return Check(holds_now, requirement)


def at_least(bound: float) -> Check:
    """Return the condition that a number is not below a bound."""
    return of_numbers(lambda x: np.greater_equal(x, bound), f"be {bound} or more")


NOT_NEGATIVE = at_least(0)
POSITIVE = of_numbers(lambda x: np.greater(x, 0), "be positive")
NOT_POSITIVE = of_numbers(lambda x: np.less_equal(x, 0), "not be positive")
FRACTION = of_numbers(lambda x: np.greater_equal(x, 0) & np.less(x, 1), "be at least 0 and below 1")
SHARE = of_numbers(lambda x: np.greater_equal(x, 0) & np.less_equal(x, 1), "be at least 0 and at most 1")
BETWEEN = of_numbers(lambda x: np.greater(x, 0) & np.less(x, 1), "be between 0 and 1")


class Declaration(NamedTuple):
    """What is declared of a parameter, besides its name and default."""

    doc: str
    check: Check | None
    in_each_step: bool


def varying(doc: str = "", check: Check | None = None, *, default: Any = MISSING, kw_only: bool = False) -> Any:
    """Declare a hyper-parameter that may vary: a schedule, a variable or a function, evaluated in each step.

    Args:
        doc: its line in the documentation. If it is omitted, documentation and check are those of the base class, and
            only the default is another.
        check: the condition that its value must satisfy.
        default: its default; a parameter without one must be passed.
        kw_only: whether it must be passed by keyword.
    """
    return _field(Declaration(doc, check, True), default, kw_only)


def fixed(doc: str = "", check: Check | None = None, *, default: Any = MISSING, kw_only: bool = False) -> Any:
    """Declare a parameter that is not evaluated in each step; the arguments are those of `varying`."""
    return _field(Declaration(doc, check, False), default, kw_only)


def _field(declaration: Declaration, default: object, kw_only: bool) -> Any:
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"declaration": declaration})


@dataclass_transform(eq_default=False, field_specifiers=(varying, fixed))
def optimizer_class(cls: C) -> C:
    """Make a class of optimizers from its declarations: `__init__`, `hyper_names` and documentation."""
    made: Any = dataclasses.dataclass(eq=False, repr=False, match_args=False)(cls)
    made.__init__ = names_keywords(placed_here(made).__init__)
    _inherit_declarations(made)
    of_all = ("learning_rate", "weight_decay")
    made.hyper_names = tuple(name for name, each in declarations(made) if each.in_each_step and name not in of_all)
    base = next(each for each in reversed(made.__mro__) if dataclasses.is_dataclass(each))
    options = [field.name for field in dataclasses.fields(base) if field.kw_only and base is not made]
    made.__doc__ = _documented(made, options, "KeywordError: a TypeError; the keyword is unknown.")
    return made  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, field_specifiers=(fixed,))
def schedule_class(cls: C) -> C:
    """Make a class of schedules from its declarations: `__init__`, comparison, `repr` and documentation."""
    made: Any = dataclasses.dataclass(frozen=True)(cls)
    made.__doc__ = _documented(made)
    return placed_here(made)  # type: ignore[no-any-return]


def placed_here(cls: C) -> C:
    """Let the `__init__` that was made for a dataclass belong to this file, so that errors name the user's line."""
    init: Any = vars(cls)["__init__"]
    init.__code__ = init.__code__.replace(co_filename=__file__)
    return cls


def declarations(cls: Any) -> Iterator[tuple[str, Declaration]]:
    """Yield the names and declarations of the parameters of a class, or of an instance, in their order."""
    for field in dataclasses.fields(cls):
        if "declaration" in field.metadata:
            yield field.name, field.metadata["declaration"]


def _inherit_declarations(cls: Any) -> None:
    """Let parameters that were declared again only for another default keep documentation and check."""
    for field in dataclasses.fields(cls):
        if not field.metadata["declaration"].doc:
            field.metadata = cls.__base__.__dataclass_fields__[field.name].metadata


L1 = "`l1`, the strength of the L1 penalty, which gives exact zeros"
L2 = "`l2`, the strength of the L2 penalty"
"""What several optimizers say of their parameters."""


# Documentation


def _documented(cls: type, options: Collection[str] = (), *raises: str) -> str:
    """Return the docstring of a class with the sections Args and Raises before its example.

    Args:
        cls: the class; a section Raises that its docstring has is kept.
        options: the parameters that are documented in the base class.
        raises: further entries of the section Raises.
    """
    text = inspect.cleandoc(cls.__doc__ or "")
    made = _section("Args", _arguments(cls, options))
    if "Raises:\n" not in text:
        made += _section("Raises", [_requirements(cls), *raises])
    before, *after = re.split(r"^(?=Raises:$|Example:$)", text, maxsplit=1, flags=re.MULTILINE)
    return f"{before.rstrip()}\n\n{made}" + "".join(after)


def _section(title: str, entries: Iterable[str]) -> str:
    return f"{title}:\n" + "".join(f"{_ENTRY.fill(each)}\n" for each in entries) + "\n"


_ENTRY = textwrap.TextWrapper(116, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)


def _arguments(cls: type, options: Collection[str]) -> list[str]:
    """Return an entry for each text, with the names of all parameters that it documents."""
    names: dict[str, list[str]] = {}
    for name, each in declarations(cls):
        if name not in options:
            names.setdefault(each.doc, []).append(name)
    entries = [f"{', '.join(each)}: {doc}." for doc, each in names.items()]
    return [*entries, f"{', '.join(options)}: see `Optimizer`."] if options else entries


def _requirements(cls: type) -> str:
    """Return the entry of the error that is raised if a check fails."""
    names: dict[str, list[str]] = {}
    for name, each in declarations(cls):
        if each.check is not None:
            names.setdefault(each.check.requirement, []).append(f"`{name}`")
    conditions = [f"{', '.join(each)} must {requirement}" for requirement, each in names.items()]
    return f"ParameterError: a ValueError; a value is not allowed: {'; '.join(conditions)}."
