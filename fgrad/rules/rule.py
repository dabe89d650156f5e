"""Functions of arrays with custom derivatives, and how traces process a call of one.

    Rule                  the function, and its linearization
    apply_rule(rule, xs)  a call, through the highest running trace among the inputs

A call goes to the highest running trace among its arguments, as an operation does; if the function may read variables
as inputs, they count as arguments, too (`_Reads`). The trace applies the rule to the unboxed values; so rules are
ordinary code, traced by the lower traces, and work at any order. Lower traces also take the derivative of the results
from the rule if it recurs (`_attached`); otherwise it is that of the code of `linearize`. A reverse trace records a
call as a few edges.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.foreign import Objects
from fgrad.core.layers import layers
from fgrad.core.primitive import ZERO
from fgrad.core.reverse import Parts, conform
from fgrad.core.snapshots import ChecksumGuard, is_large, snapshot
from fgrad.core.tensor import Tensor, apply_call, box, boxed, strip_ended
from fgrad.core.trace import Trace, observed_by, running, through_observers
from fgrad.core.variable import Variable, VariableWatch, creation_number, open_watches
from fgrad.rules.arguments import OnlyRead
from fgrad.rules.closures import Given, StandIns, Uses, copied, followers, given_now, running_layers, without
from fgrad.transforms.batch import vmap
from fgrad.transforms.calls import closed_over, name_of
from fgrad.transforms.forward import jvp
from fgrad.transforms.linearization import conjugate
from fgrad.typing import Array, ArrayLike

Leaves = Sequence[Any]
Variables = Sequence[Variable]
Linear = Callable[[Leaves, Variables], Leaves]


class Again(Protocol):
    """A function that a recorded program runs in place of a call."""

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        """Return the results for arrays and tensors."""

    def forms(self) -> Sequence[Any]:
        """Return an object with the shape and dtype of each result, so that the call need not run to be recorded."""


@dataclass(eq=False)
class Rule:
    """A function of arrays with a custom derivative, as passed to traces (see `core.trace.Call`).

    Attributes:
        function: the user's function, for messages.
        compute: maps a list of arrays to a list of results.
        linearize: maps a list of arrays to the results, the pullback (from the results' cotangents to those of the
            arrays, in the users' convention for complex numbers) and the pushforward. Both receive the variables whose
            cotangents or tangents follow those of the arrays.
        recurs: whether the rule also gives the derivative of the results for lower traces; otherwise it is that of the
            code in which `linearize` computes them.
        check_variables: raises if the rule has no derivatives for the variables that the function has read; None:
            variables are not inputs of the function.
        below: only variables of traces with a lower rank are inputs.
        batches: the traces of the batches over which the rule is mapped; their values may be closed over.
        called: the rank of a trace at the time of the user's call: the function can only close over values of batches
            that started earlier. 0: it closes over none.
        masked: for each array, whether the cotangent that the pullback returns is masked (`core.masked`). None: all
            are. With it, variables are not inputs.
    """

    function: Callable[..., Any]
    compute: Callable[[Leaves], Leaves]
    linearize: Callable[[Leaves], tuple[Leaves, Linear, Linear]]
    recurs: bool = False
    check_variables: Callable[[Variables], None] | None = None
    below: float = math.inf
    batches: tuple[Trace, ...] = ()
    called: int = 0
    masked: Sequence[bool] | None = None

    @property
    def name(self) -> str:
        """The name of the function in messages."""
        return name_of(self.function)

    def traces(self) -> list[Trace]:
        """Return the running traces of values that the function reads besides its leaves."""
        if self.check_variables is None:
            return []
        return [trace for trace in traces_of_variables() if trace.rank < self.below]

    @property
    def again(self) -> Again | None:
        """The function that a recorded program runs in place of the call; None: the call itself."""
        return None

    def run(self, leaves: Leaves) -> list[Any]:
        """Return the results for arrays that are not traced."""
        return list(self.compute(leaves))

    def only_reading(self, always: bool = True) -> Rule:
        """Return the rule with checks that the user's code does not write into the leaves.

        Args:
            always: whether also to check a run with plain leaves, which are the values of the user's tensors.
        """

        def compute(leaves: Leaves) -> Leaves:
            with OnlyRead(leaves, self.name):
                return self.compute(leaves)

        def linearize(leaves: Leaves) -> tuple[Leaves, Linear, Linear]:
            with OnlyRead(leaves, self.name):
                return self.linearize(leaves)

        return replace(self, compute=compute if always else self.compute, linearize=linearize)

    def mapped(self, ours: Sequence[bool], trace: object = None) -> Rule:
        """Return the rule for a batch of examples; cotangents of an unmapped array are summed."""
        return _mapped(self, ours, trace)

    def followed(self, trace: Trace, leaves: Leaves) -> list[Any]:
        """Return the results as tensors of a trace that differentiates with respect to arrays or variables."""
        return _followed(self, trace, leaves)


@dataclass(eq=False)
class Transparent:
    """A call that traces process operation by operation.

    Attributes:
        name: the name in messages.
        function: maps a list of arrays and tensors to a list of results.
    """

    name: str
    function: Callable[[Leaves], Leaves]

    def traces(self) -> list[Trace]:
        """Return an empty list: its operations reach the traces by themselves."""
        return []

    def run(self, leaves: Leaves) -> list[Any]:
        """Return the results."""
        return list(self.function(leaves))

    def followed(self, trace: Trace, leaves: Leaves) -> list[Any]:
        """Return the results as tensors of a trace."""
        return self.run(leaves)

    def mapped(self, ours: Sequence[bool], trace: object = None) -> Transparent:
        """Return the call for a batch of examples."""
        axes = [0 if own else None for own in ours]
        return Transparent(self.name, lambda leaves: vmap(self.function, in_axes=(axes,))(list(leaves)))


def apply_rule(rule: Rule, leaves: Leaves, below: float = math.inf) -> list[Any]:
    """Run a function with a custom rule under the highest running trace among its inputs.

    Args:
        rule: the function and its derivative.
        leaves: its arguments, arrays.
        below: only variables of traces with a lower rank are inputs.
    """
    return apply_call(rule if below == math.inf else replace(rule, below=below), leaves)


def call_rule(rule: Rule, leaves: Leaves) -> list[Any]:
    """Run a function with a custom rule for a user's call: it may close over values of a running batch.

    Such a batch is processed before the traces of the arguments, if it has started later.
    """
    rule = replace(rule, called=Trace().rank)
    try:
        return apply_rule(rule, leaves)
    except _UsesBatch as used:
        trace = used.trace
    return list(through_observers("call", rule, go_on=lambda leaves: trace.process_call(rule, leaves))(leaves))


class _UsesBatch(Exception):  # noqa: N818  # not an error
    """Raised when a function uses a value of a batch that started after the trace that runs its rule."""

    def __init__(self, trace: Trace) -> None:
        super().__init__("a batched value is used")
        self.trace = trace


def _check_batches(rule: Rule, trace: Trace, leaves: Leaves) -> None:
    """Raise `_UsesBatch` if one of the leaves belongs to a running batch that started after a trace.

    Batches over which the rule is already mapped do not count.
    """
    batches = [each for each in followers(leaves) if each.is_map and trace.level < each.level < rule.called]
    newer = [each for each in batches if each not in rule.batches and not _is_put_in_place(each)]
    if newer:
        raise _UsesBatch(max(newer, key=lambda each: each.level))


def traces_of_variables() -> list[Trace]:
    """Return the running traces that differentiate with respect to variables read in this thread."""
    watches = [watch for watch in open_watches() if watch.all_trainable or watch.chosen]
    return [w.trace for w in watches if w.trace.level and _takes_derivatives(w.trace)]


def _takes_derivatives(trace: Trace) -> bool:
    return trace.differentiates and not trace.takes_calls


class _Reads(VariableWatch):
    """Records the variables of a trace that are read, and returns their values without its layer.

    It reads after all other watches, so the layer of the highest trace is the outermost one.

    Args:
        follower: the trace.
        strips: whether to return values without the layer of `follower`.
        are_inputs: whether variables created in the run may be inputs of the function, if they outlive it.

    Attributes:
        marks: the trace's data for each variable.
        seen: the value returned at the first read of each variable.
        known: the marks of all values that were read, including those of variables freed since.
        has_made: whether variables created in the run have been read.
    """

    def __init__(self, follower: Trace, strips: bool, are_inputs: bool) -> None:
        super().__init__(Trace())
        self.follower, self.strips, self.are_inputs = follower, strips, are_inputs
        self.marks: dict[Variable, Any] = {}
        self.seen: dict[Variable, Any] = {}
        self.has_made = False
        self.known: list[Any] = []
        self._start = creation_number()

    def read(self, variable: Variable, value: Any) -> Any:
        if variable.number > self._start:
            self.has_made = True
            value = without([trace for trace in followers([value]) if self._ignores(trace)], value)
        if not self.follower.follows(value):
            return value
        found = value._payload if self.strips else value
        if variable not in self.marks:
            self.marks[variable], self.seen[variable] = value._mark, found
            self.known.append(value._mark)
        return found

    def _ignores(self, trace: Trace) -> bool:
        """Return whether variables created in the run are not inputs of a trace."""
        return _takes_derivatives(trace) and (not self.are_inputs or trace.rank > self.follower.rank)

    def variables(self) -> tuple[Variable, ...]:
        return tuple(sorted(self.marks, key=lambda variable: variable.number))

    def keeps_made(self) -> bool:
        """Return whether a variable created in the run outlives it; the others are removed from all watches."""
        noted: list[dict[Variable, Any]] = [self.marks, self.seen, *(watch.chosen for watch in open_watches())]
        made = [(weakref.ref(v), each, value) for each in noted for v, value in each.items() if v.number > self._start]
        for ref, each, _ in made:
            each.pop(ref(), None)  # type: ignore[arg-type]
        left = [(variable, each, value) for ref, each, value in made if (variable := ref()) is not None]
        for variable, each, value in left:
            each[variable] = value
        return bool(left)


def _followed(rule: Rule, trace: Any, leaves: Leaves) -> list[Any]:
    """Run a function with a custom rule under a trace of its arrays or its variables.

    If variables are inputs, the function may have state (a random generator), and its rule belongs to this run only. A
    trace that records the rule's code must therefore record this run.
    """
    large: list[Any] = []
    if trace.remembers:  # the user may overwrite plain arrays before the backward pass
        leaves = [np.asarray(x) if isinstance(x, np.ndarray) and type(x) is not Objects else x for x in leaves]
        large = [x for x in leaves if type(x) is np.ndarray and is_large(x) and not trace.lock(x, rule.name)]
        leaves = [snapshot(x, trace.copies) if type(x) is np.ndarray and not is_large(x) else x for x in leaves]
    if _is_persistent(trace):  # the pass uses the tensors again: copies, which the user cannot overwrite
        leaves = list(map(copied, leaves))
    ours = [trace.follows(leaf) for leaf in leaves]
    lower = [leaf._payload if own else leaf for leaf, own in zip(leaves, ours, strict=True)]
    reads_variables = rule.check_variables is not None
    sees_run = reads_variables and _is_persistent(trace)
    reads = _Reads(trace, reads_variables and not sees_run, reads_variables)
    uses = Uses(leaves)
    with reads, observed_by(uses):
        results, pull, push = rule.linearize(leaves if sees_run else lower)
        results = [settled(x) for x in results]
    _check_batches(rule, trace, uses.tensors)
    if reads.has_made and reads.keeps_made() and not reads_variables:
        raise closed_over(rule.name)
    leaves = [_layer_of(trace, leaf) if own else leaf for leaf, own in zip(leaves, ours, strict=True)]
    variables: Variables = reads.variables() if reads_variables else ()
    if not variables and not any(ours):
        return apply_rule(rule, leaves, trace.rank) if _is_differentiated(leaves) else list(results)
    if rule.check_variables is not None and variables:
        rule.check_variables(variables)
    if not sees_run and any(type(x) is Tensor and x._trace.level >= trace.level for x in results):
        raise closed_over(rule.name)
    read = [reads.seen[variable] for variable in variables]
    if not sees_run:
        read = [box(x, trace, reads.marks[variable]) for x, variable in zip(read, variables, strict=True)]
    if _closes_over(rule, trace.stands_for, leaves, uses.tensors):
        raise closed_over(rule.name)
    call = _Linearized(rule, trace, variables, reads, pull, push, uses.tensors)
    if _is_persistent(trace) and not sees_run:
        call.pull_seen = _seen(rule, trace, leaves, pull)
    return _attached(call, trace, [*leaves, *read], results, large)


def _layer_of(trace: Trace, leaf: Any) -> Any:
    """Return a leaf as a tensor of its trace: a tape that watched it in the function has added a layer."""
    while leaf._trace is not trace:
        leaf = leaf._payload
    return leaf


def _is_persistent(trace: Any) -> bool:
    """Return whether a trace also records backward passes over its record."""
    return trace.remembers and bool(trace.persistent)


@dataclass
class _Linearized:
    """One run of a function with a custom rule.

    Attributes:
        highest: the highest trace, which applies the rule first.
        variables: the variables that the function has read.
        reads: holds the values that they had.
        pull, push: the derivatives; they may hold tensors of running traces.
        outside: the tensors from outside that the run used besides its inputs.
        pull_seen: a pullback for the highest trace, if that trace records the code of the rule.
    """

    rule: Rule
    highest: Trace
    variables: Variables
    reads: _Reads
    pull: Linear
    push: Linear
    outside: Leaves
    pull_seen: Linear | None = None


def _derivative(linear: Linear, directions: Leaves, variables: Variables, reads: _Reads) -> Leaves:
    """Pull back or push forward; in the user's rule the variables have the values that were read."""
    if not variables:
        return linear(directions, ())
    with Given({}, reads.seen):
        return linear(directions, variables)


def _attached(call: _Linearized, trace: Any, inputs: Leaves, results: Leaves, large: Leaves = ()) -> list[Any]:
    """Return results with the rule's derivative, for a trace and, if the rule recurs, for lower ones.

    Args:
        call: the run that gave the results.
        trace: the highest trace of the inputs.
        inputs: the arrays, and the values of the variables.
        results: tensors of the trace if it recorded the run.
        large: plain arrays among the inputs that must not change.
    """
    rule = call.rule
    ours = [trace.follows(x) for x in inputs]
    lower = [strip_ended(x._payload) if own else x for x, own in zip(inputs, ours, strict=True)]
    arrays = lower[: len(lower) - len(call.variables)]
    marks = [x._mark if own else None for x, own in zip(inputs, ours, strict=True)]
    if any(trace.follows(x) for x in results) and _comes_from_outside(call, trace, marks):
        raise closed_over(rule.name)
    results = [strip_ended(x._payload) if trace.follows(x) else x for x in results]
    reads_variables = rule.check_variables is not None
    with _Reads(trace, reads_variables, reads_variables):
        below = max((x._trace for x in lower if type(x) is Tensor), key=lambda t: t.level, default=None)
        if rule.recurs and below is not None and _takes_derivatives(below):
            results = _attached(call, below, lower, results, large)
        elif rule.recurs and _is_differentiated(lower):
            results = apply_rule(rule, arrays, trace.rank)
    if not trace.remembers:
        return _moved(call, trace, lower, marks, results)
    return _recorded(call, trace, lower, marks, results, large)


def _comes_from_outside(call: _Linearized, trace: Trace, marks: Leaves) -> bool:
    """Return whether the run has used a value of a trace that is not one of the inputs."""
    known = {_identity(mark) for mark in [*marks, *call.reads.known]}
    for x in call.outside:
        if any(layer._trace is trace and _identity(layer._mark) not in known for layer in layers(x)):
            return True
    return False


def _closes_over(rule: Rule, below: Trace | None, leaves: Leaves, outside: Leaves) -> bool:
    """Return whether results depend on values of a trace other than the inputs, found by a second run."""

    def own(x: Any) -> set[int]:
        return {id(layer._mark) for layer in running_layers(x) if layer._trace is below}

    if below is None or set().union(*map(own, outside)) <= set().union(*map(own, leaves)):
        return False
    traces = [below, *(leaf._trace for leaf in leaves if type(leaf) is Tensor)]
    return below in followers(rule.compute([without(traces, leaf) for leaf in leaves]))


def _identity(mark: Any) -> Any:
    """Return a key for the mark of a tensor: a number, or the identity of a tangent."""
    return mark if type(mark) is int else (id(mark),)


def _is_differentiated(leaves: Leaves) -> bool:
    """Return whether a trace that takes derivatives, now or of a graph later, follows a leaf at any depth."""
    return any(trace.differentiates for trace in followers(leaves))


def _recorded(
    call: _Linearized, trace: Any, inputs: Leaves, keys: Sequence[int | None], results: Leaves, large: Leaves
) -> list[Any]:
    """Record a call in a trace; inputs and results are without its layer."""
    likes = [None if key is None else (x.shape, x.dtype) for key, x in zip(keys, inputs, strict=True)]
    names = names_of_inputs(len(inputs) - len(call.variables), call.variables)

    # The record refers to the pullback only, so that residuals of the pushforward are freed.
    pullback = call.pull_seen if call.pull_seen is not None and trace is call.highest else call.pull
    function, variables, reads = call.rule.function, call.variables, call.reads

    def pull(cotangents: Parts) -> list[Any]:
        directions = [conjugate(cotangents[i]) for i in range(len(cotangents))]
        try:
            given = _derivative(pullback, directions, variables, reads)
        except errors.LeakedTensorError:  # of a batch around the call
            raise closed_over(name_of(function)) from None
        return [
            ZERO if found is None else conjugate(_fitting(function, name, found, *like))
            for name, like, found in zip(names, likes, given, strict=True)
            if like is not None
        ]

    parents = [key for key in keys if key is not None]
    checked = ChecksumGuard(pull, list(large), name_of(function)) if large else pull
    masked = call.rule.masked and [own for own, key in zip(call.rule.masked, keys, strict=True) if key is not None]
    return trace.attach(name_of(function), parents, results, checked, masked)  # type: ignore[no-any-return]


def _seen(rule: Rule, trace: Trace, leaves: Leaves, pull: Linear) -> Linear:
    """Return a pullback that a trace can record while it runs: it runs the rule's code."""

    def pull_seen(cotangents: Leaves, variables: Variables) -> Leaves:
        return (rule.linearize(leaves)[1] if trace.level else pull)(cotangents, variables)

    return pull_seen


def _moved(call: _Linearized, trace: Any, inputs: Leaves, marks: Leaves, results: Leaves) -> list[Any]:
    """Box results with their tangents; `inputs` and `results` are without the layer of the trace."""
    directions = [zeros_of(x) if t is None else trace.direction(t) for x, t in zip(inputs, marks, strict=True)]
    tangents = [t if t is ZERO else settled(t) for t in _derivative(call.push, directions, call.variables, call.reads)]
    if any(each.is_map and each.level > trace.level for each in followers(tangents)):
        raise closed_over(call.rule.name)
    return [trace.moved(x, t) for x, t in zip(results, tangents, strict=True)]


class _Examples(StandIns):
    """Replaces examples of the batch in which a function was created by those of the batch that runs it.

    Args:
        made: the trace of the first batch, which may have ended.
        now: the trace of the other one.
        called: the rank of a trace at the time of the user's call, which can only use values of older batches.
    """

    def __init__(self, made: Any, now: Any, called: int) -> None:
        self.made, self.now, self.called = made, now, called

    @override
    def stand_in(self, x: Array) -> Any:
        if type(x) is not Tensor or not x._trace.is_map or any(each.is_replaced(x) for each in given_now()):
            return x
        if x._trace is self.made:
            return self.now.root(x._payload)
        if 0 < self.made.level < x._trace.level < self.called and not _is_put_in_place(x._trace):
            raise _UsesBatch(x._trace)
        return x


def _is_put_in_place(trace: Trace) -> bool:
    """Return whether a trace is one of a pair in which examples are replaced."""
    pairs = [(each.made, each.now) for each in running.observers if isinstance(each, _Examples)]
    return any(trace in pair for pair in pairs)


def _for_all(trace: Any, function: Callable[..., Any], axes: tuple[Any, ...], called: int) -> Callable[..., Any]:
    """Return a function of a batch of examples, from a function of one that may use other values of its batch."""
    if trace is None:
        return vmap(function, in_axes=axes)

    def of_one(example: Tensor, *args: ArrayLike) -> Any:
        with observed_by(_Examples(trace, example._trace, called)):
            return function(*args)

    return lambda *args: vmap(of_one, in_axes=(0, *axes))(boxed(np.zeros(trace.size)), *args)


def _mapped(rule: Rule, mapped: Sequence[bool], trace: Any) -> Rule:
    axes = [0 if own else None for own in mapped]
    batches = rule.batches if trace is None else (*rule.batches, trace)

    def linearize(leaves: Leaves) -> Any:
        def pull(cotangents: Leaves, variables: Variables) -> Leaves:
            def pull_one(leaves: Leaves, cotangents: Leaves) -> Leaves:
                found = rule.linearize(leaves)[1](cotangents, variables)
                return [zeros_of(x) if ct is None else ct for x, ct in zip([*leaves, *variables], found, strict=True)]

            found = _for_all(trace, pull_one, (axes, 0), rule.called)(list(leaves), list(cotangents))
            each = [*mapped, *(False for _ in variables)]
            return [ct if own else np.sum(ct, axis=0) for ct, own in zip(found, each, strict=True)]

        def push(tangents: Leaves, variables: Variables) -> Leaves:
            def push_one(leaves: Leaves, tangents: Leaves) -> Leaves:
                return rule.linearize(leaves)[2](tangents, variables)

            own_axes = [*axes, *(None for _ in variables)]
            return _for_all(trace, push_one, (axes, own_axes), rule.called)(list(leaves), list(tangents))  # type: ignore[no-any-return]

        is_lower = not rule.recurs and _is_differentiated(leaves)  # lower traces follow the code of `linearize`
        return (followed if is_lower else compute)(leaves), pull, push

    def followed(leaves: Leaves) -> Leaves:
        return _for_all(trace, lambda leaves: rule.linearize(leaves)[0], (axes,), rule.called)(list(leaves))  # type: ignore[no-any-return]

    def compute(leaves: Leaves) -> Leaves:
        return _for_all(trace, rule.compute, (axes,), rule.called)(list(leaves))  # type: ignore[no-any-return]

    return replace(rule, compute=compute, linearize=linearize, batches=batches)


def tangents_of(function: Callable[..., Any], inputs: Leaves, tangents: Leaves) -> Any:
    """Return the derivative of a function along tangents of its floating-point inputs; batches may hold integers."""
    moves = [x.dtype.kind in "fc" for x in inputs]
    moving, along = ([x for x, own in zip(each, moves, strict=True) if own] for each in (inputs, tangents))

    def run(*moved: Array) -> Any:
        rest = iter(moved)
        return function(*(next(rest) if own else x for x, own in zip(inputs, moves, strict=True)))

    return jvp(run, moving, along)[1]


def settled(leaf: Any) -> Any:
    """Return a leaf without ended layers, and a number as an array."""
    leaf = strip_ended(leaf)
    return leaf if type(leaf) is Tensor or hasattr(leaf, "dtype") else np.asarray(leaf)[()]


def zeros_of(like: Any) -> Any:
    """Return zeros of the shape and dtype of a leaf; of dtype float if the leaf has no derivative."""
    like = settled(like)
    return np.zeros_like(like) if like.dtype.kind in "fc" else np.zeros(like.shape)


def names_of_inputs(arrays: int, variables: Variables) -> list[str]:
    """Return what messages call the inputs of a rule."""
    names = [f"array number {place} of its arguments" for place in range(arrays)]
    return names + [f"the variable {variable.name!r}" for variable in variables]


def _fitting(
    function: Callable[..., Any], name: str, found: Array, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    """Return the cotangent that a rule gave for one input, in the input's dtype."""
    return conform(cotangent_of(function, name, found, shape), shape, dtype)


def cotangent_of(function: Callable[..., Any], name: str, found: Array, shape: tuple[int, ...]) -> Any:
    """Return the cotangent that a rule gave for one input.

    Raises:
        CustomRuleError: a ValueError; it has another shape than the input.
    """
    found = settled(found)
    if found.shape != shape:
        raise errors.CustomRuleError(
            f"the rule of {name_of(function)} returned an array of shape {found.shape} for {name}, which has shape "
            f"{shape}.\nA gradient has the shape of its argument: np.broadcast_to undoes a sum, and np.sum a broadcast."
        )
    return found
