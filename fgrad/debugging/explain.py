"""Reasons why a gradient is None, zero or not finite.

    explain(tape, target, source)     for the record of a tape
    explain(function, *args)          for a run of the function, with the line of every operation

A record contains the dependencies between values; a trace records where values left it and where a derivative ended.
For gradients that are zero or not finite, a pass over the record is repeated, with its pullbacks observed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from fgrad import errors
from fgrad.core.coerce import collected
from fgrad.core.layers import layers
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, box, renewed
from fgrad.core.trace import UNTRACED, Trace
from fgrad.core.tree import flatten, paths, tree_map, unflatten
from fgrad.core.variable import Variable
from fgrad.debugging.notes import noting, raising_nothing
from fgrad.debugging.passes import Pass, Step, path_of
from fgrad.debugging.reports import Reason, bullets, counted, html_of, shown
from fgrad.tapes.tape import (
    Contents,
    GradientTape,
    check_tensors,
    contents_of,
    first_cotangents,
    key_of,
    paused,
    plain_value,
    watched_before,
)
from fgrad.transforms.calls import Selection, check_point, name_of, place_name, select
from fgrad.transforms.cuts import DEPARTURES, STOP, Exit, Outline, name_of_source
from fgrad.transforms.linearization import differentiable, gradient_at_edge
from fgrad.transforms.running import check_result, is_number
from fgrad.typing import Array

_WITHOUT_NUMBERS = {"none": "None", "unknown": "no longer known", "zero": "zero"}
_ONE_LINE = 8
_MOST_REASONS = 5


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The reasons for the gradient with respect to one source; printed, it is a readable text.

    Attributes:
        source: the name of the source in the text.
        status: "none", "zero", "not finite", "fine", or "unknown" if the record has been consumed.
        gradient: the gradient, or None.
        reasons: the reasons, the most certain first; for a "fine" gradient, what is missing from it.
        path: the operations from the source to the target, or to the place where the path was cut.
        hint: how to get more information, or empty.
    """

    source: str
    status: str
    gradient: Any
    reasons: tuple[Reason, ...]
    path: tuple[Step, ...] = ()
    hint: str = ""

    @property
    def line(self) -> str | None:
        """The first line of the user's program that a reason names, as `file:line: source`."""
        return next((reason.line for reason in self.reasons if reason.line), None)

    def title(self) -> str:
        """Return the first line of the text."""
        name = f"The gradient with respect to {self.source}"
        if self.status in _WITHOUT_NUMBERS:
            return f"{name} is {_WITHOUT_NUMBERS[self.status]}."
        if self.status == "not finite":
            return f"{name} is not finite: {shown(self.gradient)}"
        count, zeros = self.gradient.size, self.gradient.size - counted(self.gradient)[0]
        return f"{name} is {shown(self.gradient)}" + (f"; {zeros} of {count} elements are 0" if zeros else "")

    def _path(self) -> str:
        steps = [*map(str, self.path)]
        if len(steps) > _ONE_LINE:
            steps = [*steps[:4], f"... {len(steps) - 8} more ...", *steps[-4:]]
        return " -> ".join([self.source, *steps]) if steps else ""

    def __str__(self) -> str:
        path = f"\n  path: {self._path()}" if self.path else ""
        return f"{self.title()}{bullets(self.reasons)}{path}" + (f"\n  {self.hint}" if self.hint else "")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_of(self.title(), self.reasons, footer=" ".join(filter(None, [self._path(), self.hint])))


class Explanations(tuple[Explanation, ...]):
    """The explanations of several sources, one for each; printed below each other."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "There is no source to explain."

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(each._repr_html_() for each in self)


@overload
def explain(tape: GradientTape, /, target: Any, source: Tensor | Variable) -> Explanation: ...
@overload
def explain(tape: GradientTape, /, target: Any, source: Any) -> Any: ...
@overload
def explain(function: Callable[..., Any], /, *args: Any, argnums: None = None, **keywords: Any) -> Explanations: ...
@overload
def explain(function: Callable[..., Any], /, *args: Any, argnums: Selection, **keywords: Any) -> Any: ...
def explain(tape: object, /, *args: Any, argnums: Selection = None, **keywords: object) -> Any:
    """Return why a gradient is None, zero or not finite: the operation responsible, and its line.

    The record of a tape is not consumed. The lines of all operations are known if they were recorded inside `with
    fg.debug_lines():`; otherwise only those where a path was cut. A function is run once, with the lines of all
    operations.

    Args:
        tape: a GradientTape; or a function, followed by its arguments.
        args: for a tape the target and the source, or a container of them; for a function its arguments.
        argnums: for a function: position or name of the argument to explain, or several; by default all positional
            arguments, and the trainable variables that it reads.
        keywords: for a function, keyword arguments; for a tape `target` and `source` by name.

    Returns:
        An `Explanation`, which prints as a text. For a container of sources, or several arguments, `Explanations`: a
        tuple of them.

    Raises:
        SourceError: a TypeError; a target or source is not a tensor.
        ParameterError: a ValueError; `argnums` is invalid, a tape was given with other than two arguments, or a
            function without its arguments.
        NoResultError: a ValueError; the function returns None.
        NotCallableError: a TypeError; the first argument is neither a tape nor a function.

    Example:
        >>> import fgrad as fg
        >>> def loss(x, y):
        ...     return fg.stop_gradient(x) * y
        >>> print(fg.explain(loss, 2.0, 3.0, argnums="x"))  # doctest: +ELLIPSIS
        The gradient with respect to the argument 'x' is None.
          - stop_gradient at <doctest ...>:...: return fg.stop_gradient(x) * y
            The path is cut: later values are constants. Remove stop_gradient to differentiate through it.
          path: the argument 'x' -> stop_gradient (<doctest ...>...)

        >>> x = fg.constant(2.0)
        >>> with fg.GradientTape() as tape:
        ...     y = x * x
        >>> fg.explain(tape, y, x).reasons[0].kind
        'never watched'
    """
    if isinstance(tape, GradientTape):
        with raising_nothing():
            return _of_tape(tape, *_target_and_source(args, keywords))
    if not callable(tape) or type(tape) in BOXES:
        raise errors.NotCallableError(
            f"explain takes a GradientTape or a function first, not {tape!r} of type {type(tape).__name__}.\n"
            "Write explain(tape, target, source), or explain(function, *args)."
        )
    check_point("explain", tape, args, keywords)
    with raising_nothing():
        return _of_function(tape, args, keywords, argnums)


def reasons_of_none(tape: GradientTape, target: Any, sources: Sequence[Any]) -> str:
    """Return why gradients are None, as list items; each reason once."""
    return bullets(dict.fromkeys(reason for source in sources for reason in explain(tape, target, source).reasons))


def _target_and_source(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, Any]:
    named = dict(zip(("target", "source"), args, strict=False)) | keywords
    if len(args) > 2 or named.keys() != {"target", "source"}:
        raise errors.ParameterError("for a tape, explain takes a target and a source: explain(tape, target, source).")
    return named["target"], named["source"]


def _of_tape(tape: GradientTape, target: Any, source: Array) -> Explanation | Explanations:
    check_tensors("target", target)
    check_tensors("source", source)
    leaves, treedef = flatten(source)
    targets = flatten(target)[0]
    with paused(tape):
        found = [
            _Question(tape, targets, leaf, name_of_source(leaf, path)).answer()
            for leaf, path in zip(leaves, paths(source), strict=True)
        ]
    return found[0] if treedef.is_leaf() else Explanations(found)


def _of_function(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], argnums: Selection
) -> Explanation | Explanations:
    places, keywords = select(function, argnums, args, keywords)
    positional, keywords = list(args), dict(keywords)
    sources: list[tuple[str, Any, Any]] = []
    holders: Any = {place: positional if isinstance(place, int) else keywords for place in places}
    remade: list[tuple[Any, Any, Any, list[Any]]] = []
    alone = len(places) == 1 and argnums is not None
    for place, holder in holders.items():
        leaves, treedef = flatten(holder[place])
        alone = alone and treedef.is_leaf()
        names = [f"the argument {place_name(function, place)}{path}" for path in paths(holder[place])]
        leaves = [_as_source(leaf) for leaf in leaves]
        remade.append((holder, place, treedef, leaves))
        # Copies, since an assignment inside the function changes the tensor itself.
        sources += [(name, copy.copy(leaf), leaf) for name, leaf in zip(names, leaves, strict=True)]
    with noting(), GradientTape() as tape:
        for _, source, leaf in sources:
            if type(leaf) is Tensor:
                tape.watch(leaf)
                source._rebind(leaf)
        for holder, place, treedef, leaves in remade:
            holder[place] = unflatten(treedef, leaves)  # recorded: a constructor may compute
        result = tree_map(collected, function(*positional, **keywords))  # here, where the tape records it
    results = flatten(result)[0]
    check_result(function, result, results)
    targets = [leaf for leaf in results if type(leaf) in BOXES]
    plain = "" if targets else f"{name_of(function)} returned {shown(results[0])}, which is not a tensor"
    found = [
        _Question(tape, targets, source, name, plain).answer()
        for name, source, _ in sources
        if type(source) is Tensor or is_number(source)
    ]
    if argnums is None:
        found += [_Question(tape, targets, v, name_of_source(v), plain).answer() for v in tape.watched_variables()]
    return found[0] if alone and found else Explanations(found)


def _as_source(leaf: object) -> Any:
    """Return a leaf as a new tensor if it can be differentiated, otherwise unchanged."""
    value = differentiable(leaf)
    if value is None:
        return leaf
    return copy.copy(value) if type(value) is Tensor else box(value, UNTRACED, None)


_End = tuple[Reason, Collection[int]]
"""The reason for a missing path, and the keys of the values where the last path ended."""


class _Question:
    """The search for the reasons for the gradient of one source.

    Args:
        tape: the tape that recorded it; it is paused.
        targets: the tensors to differentiate.
        source: a tensor or variable, or a number without a derivative.
        name: the name of the source.
        plain: a message if there is no target because a function returned no tensor.
    """

    def __init__(self, tape: GradientTape, targets: list[Any], source: Array, name: str, plain: str = "") -> None:
        self.tape, self.targets, self.source, self.name, self.plain = tape, targets, source, name, plain

    def answer(self) -> Explanation:
        """Return the explanation."""
        contents = contents_of(self.tape)
        if contents is None:
            return self._none([Reason("never entered", "The tape was never entered: compute inside `with tape:`.")])
        if not hasattr(self.source, "dtype") or self.source.dtype.kind not in "fc":
            return self._none([_of_integers(self.name, self.source)])
        key = key_of(self.tape, self.source)
        if key is None:
            before = watched_before(self.tape, self.source)
            reason = (
                _not_watched(contents, self.source, self.name) if before is None else self._assigned(contents, before)
            )
            return self._none([reason])
        cotangents = first_cotangents(self.tape, self.targets, [None] * len(self.targets))
        if contents.recording.is_used:
            return self._of_used_tape(contents, key, set(cotangents))
        record = contents.recording.edges()
        outline = Outline(contents.recording.trace, record)
        if key in outline.ancestors(cotangents):
            return self._connected(Pass(record, outline, key, cotangents))
        reasons = self._why_none(contents, outline, key, set(cotangents))
        first, left = reasons[0]
        return self._none([reason for reason, _ in reasons], path_of(record, key, left, *_last_step(first)))

    def _none(self, reasons: Iterable[Reason], path: tuple[Step, ...] = ()) -> Explanation:
        return Explanation(self.name, "none", None, tuple(reasons), path)

    def _of_used_tape(self, contents: Contents, key: int, targets: set[int]) -> Explanation:
        """Explain as much as is known after the record has been consumed."""
        outline = contents.recording.outline
        late = not targets or key > max(targets)
        if late or (outline is not None and key not in outline.ancestors(targets)):
            outline = Outline(contents.recording.trace, []) if outline is None else outline
            return self._none(reason for reason, _ in self._why_none(contents, outline, key, targets))
        text = "The tape has been used, and its record is gone."
        hint = "Call explain before tape.gradient, make the tape persistent=True, or use explain(function, *args)."
        return Explanation(self.name, "unknown", None, (Reason("used up", text),), hint=hint)

    # Not connected

    def _why_none(self, contents: Contents, outline: Outline, key: int, targets: set[int]) -> list[_End]:
        """Return reasons for a missing path from the source to the targets, the most certain first."""
        if not targets and any(isinstance(t.holder(), GradientTape) for y in self.targets for t in _traces_of(y)):
            text = "The target was recorded by another tape, not by this one. Use that tape, or compute the target "
            text += "in this tape's block."
            return [(Reason("another tape", text), ())]
        if targets and key > max(targets):
            return [(self._late(contents, key), ())]
        exits = outline.exits_of(key, targets)
        certain: list[_End] = [(_of_exit(each), each.keys) for each in exits if each.how not in _NO_CUTS]
        if self.plain:
            certain.append((Reason("plain result", f"{self.plain}."), ()))
        if certain:
            return certain[:_MOST_REASONS]
        likely = [each for each in exits if each.how in _BRANCHES]
        likely += [each for each in outline.exits if each.how == _STOPPED]
        return [
            *((_of_exit(each), each.keys) for each in likely[:_MOST_REASONS]),
            (self._nothing_recorded(contents, outline, key, targets), ()),
        ]

    def _assigned(self, contents: Contents, key: int) -> Reason:
        return Reason(
            "assigned since",
            f"{_sentence(self.name)} was watched, and has been assigned to since, so that it holds other numbers. Call "
            "tape.gradient before the assignment, or assign to a copy: y = x.copy().",
            "watch",
            errors.line_at(contents.watched[key]),
        )

    def _late(self, contents: Contents, key: int) -> Reason:
        if key not in contents.watched:
            text = f"The target was computed before {self.name} was read, computed or assigned to by index. The order "
            text += "of arguments is target, source."
            return Reason("computed later", text)
        return Reason(
            "watched late",
            f"{_sentence(self.name)} was watched after the target was computed. Watch it where the block begins.",
            "watch",
            errors.line_at(contents.watched[key]),
        )

    def _nothing_recorded(self, contents: Contents, outline: Outline, key: int, targets: set[int]) -> Reason:
        if not targets and any(each.rank > contents.recording.trace.rank for each in _traces_of(self.source)):
            return Reason(
                "another tape",
                f"The target was not recorded by this tape; {self.name} is also watched by a tape that was started "
                "later. If the target is a gradient from that tape, compute it inside this tape's block.",
            )
        if targets:
            return Reason("independent", f"The target does not depend on {self.name}: no operation connects them.")
        if isinstance(self.source, Variable):
            return Reason(
                "not recorded",
                "The target was not recorded: it was computed outside of the tape's block, or only from constants, "
                "such as the array v.numpy(). Compute it inside the block, from the variables themselves.",
            )
        place = contents.watched.get(key)
        line = None if place is None else errors.line_at(place)
        alone = len(outline.descendants(key)) == 1 and not contents.recording.is_used
        return Reason(
            "not recorded",
            f"The target was not recorded: it was computed before {self.name} was watched, outside of the tape's "
            "block, or only from constants. "
            + (f"No operation on {self.name} was recorded after it was watched. " if alone else "")
            + "Watch at the start of the block, and compute the target inside, also for a gradient of another tape.",
            "watch" if line else "",
            line,
        )

    # Connected

    def _connected(self, ran: Pass) -> Explanation:
        gradient = gradient_at_edge(ran.cotangents.get(ran.key), plain_value(self.source))
        count, nan, infinite = counted(gradient)
        if nan or infinite:
            status, reasons = "not finite", ran.why_not_finite(self.targets)
        else:
            is_zero = count == 0 and gradient.size > 0
            exits = ran.outline.exits_of(ran.key, ran.targets)
            cuts = [each for each in exits if each.how in DEPARTURES or each.how == STOP]
            missing = [_of_exit(each, "Part of the gradient may be missing.  ") for each in cuts]
            status = "zero" if is_zero else "fine"
            reasons = [*ran.why_zero(self.name), *missing] if is_zero else [*missing, *ran.masks()]
        known = all(step.line for step in ran.path) and all(reason.line for reason in reasons if reason.operation)
        hint = "" if known else "Lines of all operations: record inside `with fg.debug_lines():`."
        return Explanation(self.name, status, gradient, tuple(reasons[:_MOST_REASONS]), ran.path, hint)


def _last_step(reason: Reason) -> list[Step]:
    return [Step(reason.operation, reason.line)] if reason.operation else []


def _sentence(name: str) -> str:
    return name[0].upper() + name[1:]


def _of_integers(name: str, source: object) -> Reason:
    dtype = getattr(source, "dtype", type(source).__name__)
    return Reason("integer", f"{_sentence(name)} is of type {dtype}, which has no derivative. Make it a float.")


def _traces_of(x: Array) -> list[Trace]:
    """Return the reverse traces that have boxed a tensor, running or not."""
    return [layer._trace for layer in layers(renewed(x)) if layer._trace.remembers]


def _not_watched(contents: Contents, source: object, name: str) -> Reason:
    """Return why a source is not in the record of a tape."""
    if not isinstance(source, Variable):
        return Reason(
            "never watched",
            f"{_sentence(name)} was never watched: call tape.watch(x) at the start of the block, with the same tensor; "
            "an equal tensor, or a new one such as x = x - rate * g, is different. Variables are watched by default; "
            "v -= rate * g turns a variable into a tensor: write v.assign_sub(rate * g).",
        )
    if not source.trainable:
        return Reason("not trainable", f"{_sentence(name)} is not trainable: call tape.watch(v), or make it trainable.")
    if not contents.recording.watch.all_trainable:
        text = f"The tape was made with watch_accessed_variables=False, and {name} was not watched: call tape.watch(v)."
        return Reason("never watched", text)
    return Reason(
        "never read",
        f"{_sentence(name)} was not read while the tape recorded in this thread. A value computed from it earlier, "
        "outside of the block, is a constant. Read it inside the block, in the "
        "thread that opened the tape.",
    )


_STOPPED = "stop_recording()"
_BRANCHES = {"bool()", "use as an index"}
_NO_CUTS = {*_BRANCHES, _STOPPED, "formatting"}
"""Exits that cut a path only if no other path leads to the target."""
_LEFT = {
    STOP: "The path is cut: later values are constants. Remove stop_gradient to differentiate through it.",
    "bool()": "Only the choice of a branch depends on it: its truth value was used, and the selected branch "
    "does not use it.",
    "use as an index": "Only an index depends on it, and a position has no derivative.",
    "storing it in a variable": "A variable stores the number alone: a derivative does not pass through assign. "
    "Compute with the tensor itself.",
    _STOPPED: "Operations inside tape.stop_recording() are not recorded.",
}
_REMEDIES = {
    ".numpy()": "Use the tensor itself: NumPy's functions accept it.",
    ".item()": "Use the tensor itself, or x[i] for an element, and NumPy's functions in place of those of math.",
    "int()": "It rounds, too: an integer has no derivative.",
}


def _of_exit(left: Exit, prefix: str = "") -> Reason:
    """Describe an exit of a value from a trace."""
    remedy = _REMEDIES.get(left.how, "Use the tensor itself.")
    by_value = f"A value left the trace: results computed from it are constants. {remedy}"
    kind = "branch" if left.how in _BRANCHES else left.how.removesuffix("()") if left.how in _LEFT else "cut"
    return Reason(kind, prefix + _LEFT.get(left.how, by_value), left.how, left.line)
