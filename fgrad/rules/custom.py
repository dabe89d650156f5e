"""Functions with derivative rules of their own.

    custom_vjp, custom_gradient    the reverse rule is given
    custom_jvp                     the forward rule is given

A call goes to the highest running trace among its arguments, as an operation does; for `custom_gradient`
the variables that the function reads count as arguments, too (`_Reads`). There the rule is applied to
what is inside; so rules are ordinary code, seen by the traces below, and all of it works at any order.
Those traces take the derivative of the results from the rule, too (`_attached`); only for `custom_vjp`
it is that of the code of `fwd`, which may call the function. In reverse mode one call becomes a few
edges of the record (`record_call`).
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

from fgrad import errors
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import Tensor, Trace, box, boxed, settle
from fgrad.core.trace import Edge, ForwardTrace, Parts, ReverseTrace, conform
from fgrad.core.tree import flatten, unflatten
from fgrad.core.variable import Variable, VariableWatch, open_watches
from fgrad.graphs.record import RecordTrace
from fgrad.transforms.batch import BatchTrace, vmap
from fgrad.transforms.calls import name_of
from fgrad.transforms.linearization import conjugate
from fgrad.transforms.reverse import vjp

P = ParamSpec("P")
R = TypeVar("R")

_CALL = Primitive("call", lambda *args: args, masks=True)

Leaves = Sequence[Any]
Variables = Sequence[Variable]
Linear = Callable[[Leaves, Variables], Leaves]


@dataclass
class Rule:
    """A function of arrays with a derivative of its own.

    Attributes:
        function: the user's, for messages.
        call: from a list of arrays to a list of results.
        linearize: from a list of arrays to the results, the pullback (from the results' cotangents to
            those of the arrays, in the users' convention for complex numbers) and the pushforward.
            Both are told the variables whose cotangents or tangents come after those of the arrays.
        recurs: the derivative of the results is the rule's for the traces below, too; otherwise it is
            that of the code in which `linearize` computes them.
        check_variables: raises if the rule has no derivatives for the variables that the function has
            read; None: variables are no inputs of the function.
    """

    function: Callable[..., Any]
    call: Callable[[Leaves], Leaves]
    linearize: Callable[[Leaves], tuple[Leaves, Linear, Linear]]
    recurs: bool = False
    check_variables: Callable[[Variables], None] | None = None


class _Reads(VariableWatch):
    """Notes which variables are read that a trace follows, and hands out their values without its layer.

    It reads after all other watches, so the layer of the highest trace is the outermost one.

    Attributes:
        notes: what the trace keeps for each variable.
        seen: the value of each variable as it was handed out when it was first read.
    """

    def __init__(self, follower: Trace, strips: bool) -> None:
        super().__init__(Trace())
        self.follower, self.strips = follower, strips
        self.notes: dict[Variable, Any] = {}
        self.seen: dict[Variable, Any] = {}

    def read(self, variable: Variable, value: Any) -> Any:
        if not is_of(value, self.follower):
            return value
        found = value.value if self.strips else value
        self.notes.setdefault(variable, value.note)
        self.seen.setdefault(variable, found)
        return found

    def variables(self) -> tuple[Variable, ...]:
        return tuple(sorted(self.notes, key=lambda variable: variable.number))

    def again(self) -> VariableWatch:
        """Return a watch under which the variables have the values that they had."""
        return _Again(self.seen)


class _Again(VariableWatch):
    def __init__(self, seen: dict[Variable, Any]) -> None:
        super().__init__(Trace())
        self._seen = seen

    def read(self, variable: Variable, value: Any) -> Any:
        return self._seen.get(variable, value)


def apply_rule(rule: Rule, leaves: Leaves, below: float = math.inf) -> list[Any]:
    """Run a function with its own rule under the highest running trace among its inputs.

    Args:
        rule: the function and its derivative.
        leaves: the arrays that it takes.
        below: only variables followed by traces of a lower rank are inputs.
    """
    leaves = [settle(leaf) for leaf in leaves]
    traces = [leaf.tracing for leaf in leaves if type(leaf) is Tensor]
    if rule.check_variables is not None:
        traces += [trace for trace in traces_of_variables() if trace.rank < below]
    trace: Trace | None = max(traces, key=lambda trace: trace.level, default=None)
    if isinstance(trace, (ReverseTrace, ForwardTrace)):
        return _followed(rule, trace, leaves)
    if isinstance(trace, BatchTrace):
        ours = [is_of(leaf, trace) for leaf in leaves]
        values = [leaf.value if own else leaf for leaf, own in zip(leaves, ours, strict=True)]
        return [trace.root(as_array(x)) for x in apply_rule(_mapped(rule, ours), values, below)]
    if isinstance(trace, RecordTrace):

        def call(*each: Any) -> tuple[Any, ...]:
            return tuple(apply_rule(rule, each))

        return list(trace.record_call(name_of(rule.function), call, leaves))
    return list(rule.call(leaves))


def is_of(x: Any, trace: Trace) -> bool:
    """Return whether a trace has boxed a value."""
    return type(x) is Tensor and x.tracing is trace


def traces_of_variables() -> list[Trace]:
    """Return the running traces that follow variables which are read in this thread."""
    watches = [watch for watch in open_watches() if watch.all_trainable or watch.chosen]
    return [w.trace for w in watches if w.trace.level and isinstance(w.trace, (ReverseTrace, ForwardTrace))]


def _followed(rule: Rule, trace: ReverseTrace | ForwardTrace, leaves: Leaves) -> list[Any]:
    """Run a function with its own rule under a trace that follows its arrays or its variables.

    Where variables are inputs, the function may have a state (a generator of random numbers), and its
    rule belongs to this one run. So if the trace is to record the rule's code, it has to see the run.
    """
    ours = [is_of(leaf, trace) for leaf in leaves]
    lower = [leaf.value if own else leaf for leaf, own in zip(leaves, ours, strict=True)]
    seen_by_trace = rule.check_variables is not None and isinstance(trace, ReverseTrace) and trace.persistent
    reads = _Reads(trace, strips=rule.check_variables is not None and not seen_by_trace)
    starts = _lengths_of_records(rule, leaves)
    with reads:
        results, pull, push = rule.linearize(leaves if seen_by_trace else lower)
        results = [as_array(x) for x in results]
    variables: Variables = () if rule.check_variables is None else reads.variables()
    if not variables and not any(ours):
        return apply_rule(rule, leaves, trace.rank) if _is_differentiated(leaves) else list(results)
    if rule.check_variables is not None and variables:
        rule.check_variables(variables)
    if not seen_by_trace and any(type(x) is Tensor and x.tracing.level >= trace.level for x in results):
        raise _closure_error(rule)
    read = [reads.seen[variable] for variable in variables]
    if not seen_by_trace:
        read = [box(x, trace, reads.notes[variable]) for x, variable in zip(read, variables, strict=True)]
    call = _Call(rule, trace, variables, reads, pull, push, starts)
    if isinstance(trace, ReverseTrace) and trace.persistent and not seen_by_trace:
        call.pull_seen = _seen(rule, trace, leaves, pull)
    return _attached(call, trace, [*leaves, *read], results)


@dataclass
class _Call:
    """One run of a function with its own rule.

    Attributes:
        highest: the trace that was the first to have the rule.
        variables: those that it has read.
        reads: holds the values that they had.
        pull, push: the derivatives; they may hold tensors of running traces.
        starts: how long the records of reverse traces were before the run.
        pull_seen: the pullback for the highest trace, if that is to see what the rule does.
    """

    rule: Rule
    highest: Trace
    variables: Variables
    reads: _Reads
    pull: Linear
    push: Linear
    starts: dict[Trace, int]
    pull_seen: Linear | None = None


def _derivative(linear: Linear, directions: Leaves, variables: Variables, reads: _Reads) -> Leaves:
    """Pull back or push forward; in the user's rule the variables have the values that they had."""
    if not variables:
        return linear(directions, ())
    with reads.again():
        return linear(directions, variables)


def _attached(call: _Call, trace: ReverseTrace | ForwardTrace, inputs: Leaves, results: Leaves) -> list[Any]:
    """Return results whose derivative is the rule's, for a trace and, if the rule recurs, those below.

    Args:
        call: the run that gave the results.
        trace: the highest that follows one of the inputs.
        inputs: the arrays, and the values of the variables.
        results: tensors of the trace where it has seen the run.
    """
    rule = call.rule
    ours = [is_of(x, trace) for x in inputs]
    lower = [settle(x.value) if own else x for x, own in zip(inputs, ours, strict=True)]
    arrays = lower[: len(lower) - len(call.variables)]
    notes = [x.note if own else None for x, own in zip(inputs, ours, strict=True)]
    if isinstance(trace, ReverseTrace):
        from_others = _roots(trace.record[call.starts[trace] :], [x.note for x in results if is_of(x, trace)])
        if from_others - set(notes):
            raise _closure_error(rule)
    results = [settle(x.value) if is_of(x, trace) else x for x in results]
    with _Reads(trace, strips=rule.check_variables is not None):
        hidden = isinstance(trace, ForwardTrace) and trace is not call.highest  # no record could tell
        if hidden and any(is_of(settle(x), trace) for x in rule.call(arrays)):
            raise _closure_error(rule)
        below = max((x.tracing for x in lower if type(x) is Tensor), key=lambda t: t.level, default=None)
        if rule.recurs and isinstance(below, (ReverseTrace, ForwardTrace)):
            results = _attached(call, below, lower, results)
        elif rule.recurs and _is_differentiated(lower):
            results = apply_rule(rule, arrays, trace.rank)
    if isinstance(trace, ForwardTrace):
        return _moved(call, trace, lower, notes, results)
    return _recorded(call, trace, lower, notes, results)


def _lengths_of_records(rule: Rule, leaves: Leaves) -> dict[Trace, int]:
    """Return for each trace that may see a run how long its record is; 0 for those without a record."""
    traces = [] if rule.check_variables is None else traces_of_variables()
    for leaf in leaves:
        while type(leaf) is Tensor:
            traces.append(leaf.tracing)
            leaf = leaf.value
    return {trace: len(trace.record) if isinstance(trace, ReverseTrace) else 0 for trace in traces}


def _closure_error(rule: Rule) -> errors.ClosureError:
    return errors.ClosureError(
        f"{name_of(rule.function)} has a derivative rule of its own and uses a traced value that is not one of "
        "its arguments; the rule says nothing of its derivative.\n"
        "Pass the value (or the variable) as an argument, and return its derivative from the rule, too."
    )


def _is_differentiated(leaves: Leaves) -> bool:
    """Return whether a trace for derivatives, now or of a graph later, follows one of the leaves, at any depth."""
    for leaf in leaves:
        while type(leaf) is Tensor:
            if leaf.tracing.level and not isinstance(leaf.tracing, BatchTrace):
                return True
            leaf = leaf.value
    return False


def _roots(record: Sequence[Edge], keys: Sequence[int]) -> set[int]:
    """Return the keys from which results come, by the edges of a part of a record, without being made there."""
    reached, made = set(keys), set()
    for edge in reversed(record):
        if edge[0] in reached:
            made.add(edge[0])
            reached.add(edge[2])
    return reached - made


def _recorded(
    call: _Call, trace: ReverseTrace, inputs: Leaves, keys: Sequence[int | None], results: Leaves
) -> list[Any]:
    """Record a call in a trace; inputs and results are without its layer."""
    likes = [None if key is None else (x.shape, x.dtype) for key, x in zip(keys, inputs, strict=True)]
    arrays = len(inputs) - len(call.variables)
    names = [f"array number {place} of its arguments" for place in range(arrays)]
    names += [f"the variable {variable.name!r}" for variable in call.variables]

    # The record keeps the pullback alone, and not what the pushforward would need.
    pullback = call.pull_seen if call.pull_seen is not None and trace is call.highest else call.pull
    function, variables, reads = call.rule.function, call.variables, call.reads

    def pull(cotangents: Parts) -> dict[int, Any]:
        directions = [conjugate(cotangents[i]) for i in range(len(cotangents))]
        given = _derivative(pullback, directions, variables, reads)
        total: dict[int, Any] = {}
        for name, key, like, found in zip(names, keys, likes, given, strict=True):
            if key is not None and like is not None and found is not None:
                found = conjugate(_fitting(function, name, found, *like))
                total[key] = total[key] + found if key in total else found
        return total

    return record_call(trace, list(dict.fromkeys(key for key in keys if key is not None)), results, pull)


def _seen(rule: Rule, trace: ReverseTrace, leaves: Leaves, pull: Linear) -> Linear:
    """Return a pullback which, while the trace runs, lets it see what the rule does."""

    def pull_seen(cotangents: Leaves, variables: Variables) -> Leaves:
        return (rule.linearize(leaves)[1] if trace.level else pull)(cotangents, variables)

    return pull_seen


def _moved(call: _Call, trace: ForwardTrace, inputs: Leaves, notes: Leaves, results: Leaves) -> list[Any]:
    """Box results with their tangents; inputs and results are without the layer of the trace."""
    directions = [_zeros(x) if t is None else t for x, t in zip(inputs, notes, strict=True)]
    moved = _derivative(call.push, directions, call.variables, call.reads)
    tangents = [as_array(t) for t in moved]
    tangents = [settle(t.value) if is_of(t, trace) else t for t in tangents]
    return [
        trace.root(x, t.astype(x.dtype)) if x.dtype.kind in "fc" else boxed(x)
        for x, t in zip(results, tangents, strict=True)
    ]


def _mapped(rule: Rule, mapped: Sequence[bool]) -> Rule:
    """Return the rule of many examples; where an array is the same for all, its cotangents are summed."""
    axes = [0 if own else None for own in mapped]

    def linearize(leaves: Leaves) -> Any:
        def pull(cotangents: Leaves, variables: Variables) -> Leaves:
            def pull_one(leaves: Leaves, cotangents: Leaves) -> Leaves:
                found = rule.linearize(leaves)[1](cotangents, variables)
                return [_zeros(x) if ct is None else ct for x, ct in zip([*leaves, *variables], found, strict=True)]

            found = vmap(pull_one, in_axes=(axes, 0))(list(leaves), list(cotangents))
            each = [*mapped, *(False for _ in variables)]
            return [ct if own else np.sum(ct, axis=0) for ct, own in zip(found, each, strict=True)]

        def push(tangents: Leaves, variables: Variables) -> Leaves:
            def push_one(leaves: Leaves, tangents: Leaves) -> Leaves:
                return rule.linearize(leaves)[2](tangents, variables)

            own_axes = [*axes, *(None for _ in variables)]
            return vmap(push_one, in_axes=(axes, own_axes))(list(leaves), list(tangents))  # type: ignore[no-any-return]

        return call(leaves), pull, push

    def call(leaves: Leaves) -> Leaves:
        return vmap(rule.call, in_axes=(axes,))(list(leaves))  # type: ignore[no-any-return]

    return Rule(rule.function, call, linearize, rule.recurs, rule.check_variables)


def record_call(
    trace: ReverseTrace, parents: Sequence[int], results: Leaves, pull: Callable[[Any], dict[int, Any]]
) -> list[Any]:
    """Record a call as one step, and return its results as tensors of the trace.

    Args:
        trace: the trace to record it.
        parents: keys of the values that the call depends on.
        results: arrays, or tensors of lower traces.
        pull: from the cotangents of all results to those of the parents, by key.
    """
    call, together = trace.root(None).note, trace.root(None).note
    outputs = [trace.root(result) for result in results]
    likes = [(result.shape, result.dtype) for result in results]
    for place, parent in enumerate(parents):
        trace.record.append((call, place == 0, parent, functools.partial(_picked, parent), None, _CALL))
    trace.record.append((together, True, call, pull, None, _CALL))
    for place, output in enumerate(outputs):
        trace.record.append((output.note, True, together, functools.partial(Parts, likes, place), None, _CALL))
    return outputs


def _picked(key: int, cotangents: dict[int, Any]) -> Any:
    return cotangents.get(key, ZERO)


def as_array(leaf: Any) -> Any:
    """Return a leaf without dead layers, and a number as an array."""
    leaf = settle(leaf)
    return leaf if type(leaf) is Tensor or hasattr(leaf, "dtype") else np.asarray(leaf)[()]


def _zeros(like: Any) -> Any:
    like = as_array(like)
    return np.zeros_like(like) if like.dtype.kind in "fc" else np.zeros(like.shape)


def _fitting(function: Any, name: str, found: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return what a rule gave for one input, in its dtype."""
    found = as_array(found)
    if found.shape != shape:
        raise errors.CustomRuleError(
            f"the rule of {name_of(function)} returned an array of shape {found.shape} for {name}, which has shape "
            f"{shape}.\nA gradient has the shape of its argument: np.broadcast_to undoes a sum, and np.sum a broadcast."
        )
    return conform(found, shape, dtype)


# The public forms


class _Custom:
    """A function on containers with a rule of its own, in the forms of its subclasses."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise errors.NotCallableError(f"{type(self).__name__} takes a function, not {function!r}.")
        functools.update_wrapper(self, function, updated=())
        self._function = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        args = _positional(self._function, args, keywords)
        leaves, treedef = flatten(args)
        structure: list[Any] = []

        def flat(result: Any) -> Leaves:
            results, out_treedef = flatten(result)
            structure[:] = [out_treedef]
            return results

        places = [isinstance(x, (float, complex)) or hasattr(settle(x), "dtype") for x in leaves]

        def whole(arrays: Leaves) -> tuple[Any, ...]:
            rest = iter(arrays)
            filled = [next(rest) if place else x for x, place in zip(leaves, places, strict=True)]
            return unflatten(treedef, filled)  # type: ignore[no-any-return]

        arrays = [as_array(x) for x, place in zip(leaves, places, strict=True) if place]
        results = apply_rule(self._rule(whole, flat, treedef, places), arrays)
        return unflatten(structure[0], results)

    def _rule(self, whole: Any, flat: Any, treedef: Any, places: list[bool]) -> Rule:
        raise NotImplementedError(type(self).__name__)

    def _of_arrays(self, given: Any, treedef: Any, places: list[bool]) -> list[Any]:
        """Return what a rule gave for the arguments, one entry for each array."""
        expected = len(treedef.children())
        given = () if given is None and not expected else given
        given = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if len(given) != expected:
            raise errors.CustomRuleError(
                f"the rule of {name_of(self._function)} was expected to return {expected} "
                f"gradient{'s' if expected != 1 else ''}, one per argument, but returned {len(given)}.\n"
                "Return them in a tuple, with None for an argument that has no derivative."
            )
        by_leaf: list[Any] = []
        for part, subtree in zip(given, treedef.children(), strict=True):
            by_leaf += [None] * subtree.num_leaves if part is None else subtree.flatten_up_to(part)
        return [each for each, place in zip(by_leaf, places, strict=True) if place]


def _positional(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Return all arguments of a call by position, as rules take them, defaults included."""
    try:
        bound = inspect.signature(function).bind(*args, **keywords)
    except ValueError:  # a built-in function does not tell
        return args
    if bound.kwargs:
        raise errors.CustomRuleError(
            f"{name_of(function)} has a rule of its own and takes {', '.join(bound.kwargs)} by keyword only; "
            "a rule gives one derivative per argument by position."
        )
    bound.apply_defaults()
    return bound.args


class custom_vjp(_Custom):  # noqa: N801  # used as a decorator
    """A function whose reverse rule is given, in JAX's form.

    Forward mode follows from the rule by transposition. Values of an outer transform may be closed over;
    those of the transform that meets the call must be arguments.

    Args:
        function: takes and returns numbers, arrays or containers of them.

    Raises:
        CustomRuleError: a ValueError, from the backward pass; the rule returns too few cotangents, or
            one of another shape.
        ClosureError: a TypeError; a traced value is closed over that is not an argument.

    Example:
        >>> import fgrad as fg
        >>> @fg.custom_vjp
        ... def clipped(x):
        ...     return x * 1.0
        >>> clipped.defvjp(lambda x: (clipped(x), None), lambda residuals, ct: (np.clip(ct, -1.0, 1.0),))
        >>> fg.grad(lambda x: clipped(x) ** 2)(3.0)
        Tensor(1.)
    """

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Define the rule.

        Args:
            fwd: takes what the function takes; returns `(result, residuals)`.
            bwd: takes the residuals and a cotangent of the result; returns a tuple with a cotangent per
                argument, None for zero.

        Raises:
            CustomRuleError: a ValueError; `bwd` does not take two arguments.
        """
        _check_takes(self._function, bwd, "bwd(residuals, cotangent)", 2)
        self._fwd, self._bwd = fwd, bwd

    def _rule(self, whole: Any, flat: Any, treedef: Any, places: list[bool]) -> Rule:
        if not hasattr(self, "_fwd"):
            raise errors.CustomRuleError(
                f"{name_of(self._function)} has no rule yet: define it with {name_of(self._function)}.defvjp(fwd, bwd)."
            )

        def linearize(arrays: Leaves) -> Any:
            pair = self._fwd(*whole(arrays))
            result, residuals = _pair(self._function, pair, "fwd", "(result, residuals)")
            results, out_treedef = flatten(result)
            flat(result)

            def pull(cotangents: Leaves, variables: Variables) -> Leaves:
                given = self._bwd(residuals, unflatten(out_treedef, cotangents))
                return self._of_arrays(given, treedef, places)

            return results, pull, _transposed(pull, results, arrays)

        return Rule(self._function, lambda arrays: flat(self._function(*whole(arrays))), linearize)


def _pair(function: Any, found: Any, what: str, expected: str) -> tuple[Any, Any]:
    """Return what a part of a rule gave, after a look at its form."""
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise errors.CustomRuleError(
            f"{what} of {name_of(function)} must return a pair {expected}, and it returned {found!r:.200}."
        )
    return found[0], found[1]


def _check_takes(function: Any, part: Any, form: str, count: int) -> None:
    """Refuse a part of a rule that cannot be called with so many arguments."""
    try:
        inspect.signature(part).bind(*range(count))
    except TypeError as error:
        raise errors.CustomRuleError(
            f"the rule of {name_of(function)} is called as {form}, and {name_of(part)} cannot be: {error}."
        ) from None
    except ValueError:  # a built-in function does not tell
        pass


def _transposed(pull: Linear, results: Leaves, arrays: Leaves) -> Linear:
    """Return the pushforward that belongs to a pullback, which is linear."""

    def push(tangents: Leaves, variables: Variables) -> Leaves:
        def filled(cotangents: Leaves) -> Leaves:
            found = zip([*arrays, *variables], pull(cotangents, variables), strict=True)
            return [_zeros(x) if ct is None else as_array(ct) * 1.0 for x, ct in found]

        return vjp(filled, [_zeros(x) for x in results])[1](list(tangents))[0]  # type: ignore[no-any-return]

    return push


class custom_jvp(_Custom):  # noqa: N801
    """A function whose forward rule is given, in JAX's form; reverse mode follows by transposition.

    Args:
        function: takes and returns numbers, arrays or containers of them.

    Raises:
        CustomRuleError: a ValueError; no rule is defined.
        ClosureError: a TypeError; a traced value is closed over that is not an argument.

    Example:
        >>> import fgrad as fg
        >>> @fg.custom_jvp
        ... def cube(x):
        ...     return x**3
        >>> cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))
        >>> fg.grad(cube)(2.0), fg.grad(fg.grad(cube))(2.0)
        (Tensor(12.), Tensor(12.))
    """

    def defjvp(self, rule: Callable[..., Any]) -> None:
        """Define the rule.

        Args:
            rule: takes a tuple of arguments and a tuple of tangents, linear in the latter; returns
                `(result, tangent of the result)`.

        Raises:
            CustomRuleError: a ValueError; `rule` does not take two arguments.
        """
        _check_takes(self._function, rule, "rule(primals, tangents)", 2)
        self._forward = rule

    def _rule(self, whole: Any, flat: Any, treedef: Any, places: list[bool]) -> Rule:
        if not hasattr(self, "_forward"):
            raise errors.CustomRuleError(
                f"{name_of(self._function)} has no rule yet: define it with {name_of(self._function)}.defjvp(rule)."
            )

        def linearize(arrays: Leaves) -> Any:
            # The call itself, and not its code, so that the rule is the traces' below, too.
            results = flat(self(*whole(arrays)))

            def push(tangents: Leaves, variables: Variables) -> Leaves:
                pair = self._forward(whole(arrays), whole(tangents))
                return flatten(_pair(self._function, pair, "the rule", "(result, tangent)")[1])[0]

            def pull(cotangents: Leaves, variables: Variables) -> Leaves:
                zeros = [_zeros(x) for x in arrays]
                moved = vjp(lambda tangents: [as_array(x) * 1.0 for x in push(tangents, ())], zeros)[1]
                return moved(list(cotangents))[0]  # type: ignore[no-any-return]

            return results, pull, push

        return Rule(self._function, lambda arrays: flat(self._function(*whole(arrays))), linearize)


class _CustomGradient(_Custom):
    def _rule(self, whole: Any, flat: Any, treedef: Any, places: list[bool]) -> Rule:
        grad_fns: list[Callable[..., Any]] = []

        def run(arrays: Leaves) -> tuple[Any, Any]:
            pair = self._function(*whole(arrays))
            if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[1]):
                raise errors.CustomRuleError(
                    f"a function under custom_gradient returns (result, grad_fn), and {name_of(self._function)} "
                    f"returned {pair!r}.\nWrite `return result, grad_fn`, where grad_fn(dy) gives the gradients of the "
                    "arguments."
                )
            grad_fns[:] = [pair[1]]
            return pair

        def linearize(arrays: Leaves) -> Any:
            result, grad_fn = run(arrays)
            results = flat(result)

            def pull(cotangents: Leaves, variables: Variables) -> Leaves:
                if not variables:
                    return self._of_arrays(grad_fn(*cotangents), treedef, places)
                given, by_variable = self._parted(grad_fn(*cotangents, variables=list(variables)), variables)
                return [*self._of_arrays(given, treedef, places), *by_variable]

            return results, pull, _transposed(pull, results, arrays)

        def check_variables(variables: Variables) -> None:
            if not _takes_variables(grad_fns[0]):
                names = ", ".join(repr(variable.name) for variable in variables)
                raise errors.ClosureError(
                    f"{name_of(self._function)} reads the variable{'s' * (len(variables) > 1)} {names}, and its "
                    "grad_fn has no parameter 'variables'; so their gradients would be lost.\n"
                    "Write grad_fn(*dy, variables=None), which returns (gradients of the arguments, list of gradients "
                    "of the variables); or pass the value (or the variable) as an argument."
                )

        return Rule(self._function, lambda arrays: flat(run(arrays)[0]), linearize, True, check_variables)

    def _parted(self, given: Any, variables: Variables) -> tuple[Any, list[Any]]:
        """Return what a grad_fn gave for the arguments and for the variables."""
        if not isinstance(given, (tuple, list)) or len(given) != 2 or not isinstance(given[1], (tuple, list)):
            raise errors.CustomRuleError(
                f"the rule of {name_of(self._function)}, which reads variables, was expected to return a pair: the "
                f"gradients of the arguments and a list of those of the variables. It returned {given!r}."
            )
        if len(given[1]) != len(variables):
            raise errors.CustomRuleError(
                f"the rule of {name_of(self._function)} was expected to return {len(variables)} gradients of "
                f"variables ({', '.join(repr(v.name) for v in variables)}), but returned {len(given[1])}."
            )
        return given[0], list(given[1])


def _takes_variables(grad_fn: Any) -> bool:
    try:
        parameters = inspect.signature(grad_fn).parameters.values()
    except (TypeError, ValueError):  # a built-in function does not tell
        return False
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return any(p.kind is p.VAR_KEYWORD or (p.name == "variables" and p.kind in by_name) for p in parameters)


def custom_gradient(function: Callable[P, tuple[R, Callable[..., Any]]]) -> Callable[P, R]:
    """Give a function its reverse rule, in TensorFlow's form: it returns its result and the rule.

    Where the function reads variables that are differentiated, the rule is called with them, as
    `grad_fn(*dy, variables=[...])`, in the order of their creation. In the rule they have the values
    that they had when the function read them.

    The rule is the derivative for every transform that follows an argument or a variable, and second
    derivatives are those of the rule's code. It belongs to the run of the function that returned it;
    only under `vmap` the function is run again for the backward pass, and must do the same then.

    Args:
        function: returns `(result, grad_fn)`; `grad_fn(*dy)` takes a cotangent for each result, and
            returns a cotangent for each argument, in a list or tuple if there are several; None is zero.
            With variables it returns a pair: that, and a list with a cotangent for each variable.

    Returns:
        A function that returns the result alone.

    Raises:
        CustomRuleError: a ValueError; `function` returns something else, or the rule too few gradients.
        ClosureError: a TypeError; the function reads variables and `grad_fn` has no parameter
            `variables`, or a traced value is used that is not an argument.

    Example:
        >>> import fgrad as fg
        >>> @fg.custom_gradient
        ... def log1pexp(x):
        ...     e = np.exp(x)
        ...     return np.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))
        >>> fg.grad(log1pexp)(0.0)
        Tensor(0.5)

        >>> w = fg.Variable(2.0, name="w")
        >>> @fg.custom_gradient
        ... def scaled(x):
        ...     def grad_fn(dy, variables=None):
        ...         return dy * w, [dy * x]
        ...     return w * x, grad_fn
        >>> fg.implicit_gradients(lambda: scaled(5.0))()
        [(Tensor(5.), Variable(2., name='w'))]
    """
    return _CustomGradient(function)
