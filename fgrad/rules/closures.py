"""What a function uses beside its arguments: found by watching it run, and given to it anew.

    closure = Closure(function, [args, ...])    runs the function, to see which traced values it uses
    closure.values                              those values: tensors, and what variables were read as
    closure.call(values, *args)                 the function, with other values in their place

Rules for solvers need this: they run the user's function again, at another time, and differentiate it by
all that it depends on. A function says nothing of what it closes over; but whatever it uses passes through
the trace that follows it, and there it is seen. A tensor is replaced in place, for the time of one call: it
becomes a box that no trace follows, around the value that is to stand for it. So nothing else in fgrad has
to know of closures. Other threads that use the very same tensors must not do so during the call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from fgrad import errors
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import UNTRACED, Tensor, Trace, box, settle
from fgrad.core.tree import flatten, tree_map
from fgrad.core.variable import Variable, VariableWatch
from fgrad.transforms.batch import BatchTrace
from fgrad.transforms.calls import name_of


def followers(leaves: Sequence[Any]) -> list[Trace]:
    """Return the running traces that follow leaves, at any depth, each once."""
    found: dict[Trace, None] = {}
    for leaf in leaves:
        leaf = settle(leaf)
        while type(leaf) is Tensor:
            if leaf.tracing.level:
                found[leaf.tracing] = None
            leaf = leaf.value
    return list(found)


class Closure:
    """A function, and the traced values that it uses beside its arguments.

    Args:
        function: takes and returns numbers, arrays or containers of them.
        points: tuples of arguments; the function runs at each of them, twice if it uses traced values.

    Attributes:
        values: what it uses, as leaves that a rule may take as inputs.

    Raises:
        ClosureError: a TypeError; a traced value gets into the function on a way that cannot be followed.
    """

    def __init__(self, function: Callable[..., Any], points: Sequence[tuple[Any, ...]]) -> None:
        self._function = function
        self._around = replacements()
        self._tensors: list[Tensor] = []
        self._variables: dict[Variable, Any] = {}
        for args in points:
            self._add_what_is_used(args)
        # Copies: they are to be followed by their traces while the tensors themselves are replaced.
        self.values: list[Any] = [_copied(x) for x in [*self._tensors, *self._variables.values()]]

    @contextmanager
    def given(self, values: Sequence[Any]) -> Iterator[None]:
        """Put other values in place of what the function uses, for all that runs in the block."""
        count = len(self._tensors)
        tensors = zip(self._tensors, values[:count], strict=True)
        variables = dict(zip(self._variables, values[count:], strict=True))
        with replaced([*self._around, *tensors, *([_Given(variables)] if variables else [])]):
            yield

    def call(self, values: Sequence[Any], *args: Any) -> Any:
        """Run the function with other values in place of what it uses."""
        with self.given(values):
            return self._function(*args)

    def _add_what_is_used(self, args: tuple[Any, ...]) -> None:
        args = tree_map(_copied, args)  # which differ from the same tensors where the function closes over them
        reads = _Reads()
        with reads:
            results = flatten(self._function(*args))[0]
        traces = followers([*results, *reads.seen.values()])
        if not traces:
            return
        used = _Used([*flatten(args)[0], *reads.seen.values()])
        with reads, ExitStack() as stack:
            for trace in traces:
                stack.enter_context(used.observing(trace))
            self._function(*args)
        known = {id(tensor) for tensor in self._tensors}
        self._tensors += [tensor for tensor in used.tensors if id(tensor) not in known]
        self._variables = {**reads.seen, **self._variables}
        self._check(args, traces)

    def _check(self, args: tuple[Any, ...], traces: list[Trace]) -> None:
        """Refuse a function whose results are followed although nothing that it was seen to use is."""
        traces = [trace for trace in traces if not isinstance(trace, BatchTrace)]
        plain = [without(traces, x) for x in [*self._tensors, *self._variables.values()]]
        results = self.call(plain, *tree_map(lambda x: without(traces, x), args))
        if set(traces) & set(followers(flatten(results)[0])):
            raise errors.ClosureError(
                f"{name_of(self._function)} uses a traced value that is not one of its arguments, and makes another "
                "copy of it each time that it runs.\nPass the value as an argument."
            )


def _copied(leaf: Any) -> Any:
    """Return a tensor like another one, in all its layers."""
    leaf = settle(leaf)
    return box(_copied(leaf.value), leaf.tracing, leaf.note) if type(leaf) is Tensor else leaf


def without(traces: Sequence[Trace], x: Any) -> Any:
    """Return what is in a leaf below the layers of some traces, also where others lie between."""
    x = settle(x)
    if type(x) is not Tensor:
        return x
    inner = without(traces, x.value)
    return inner if x.tracing in traces else box(inner, x.tracing, x.note)


class _Reads(VariableWatch):
    """Notes the variables that are read as traced values, and keeps them the same object from read to read."""

    def __init__(self) -> None:
        super().__init__(Trace())
        self.seen: dict[Variable, Any] = {}

    def read(self, variable: Variable, value: Any) -> Any:
        if not followers([value]):
            return value
        return self.seen.setdefault(variable, value)


class _Given(VariableWatch):
    """Hands out values in place of those of variables."""

    def __init__(self, values: Mapping[Variable, Any]) -> None:
        super().__init__(Trace())
        self._values = values

    def read(self, variable: Variable, value: Any) -> Any:
        return self._values.get(variable, value)


class _Used:
    """Notes the tensors that come to a trace, but for known ones and those that the trace has made meanwhile."""

    def __init__(self, known: Sequence[Any]) -> None:
        self.tensors: list[Tensor] = []
        self._known = {id(x): x for x in known}  # holds what it knows, so that no other object gets its id

    @contextmanager
    def observing(self, trace: Any) -> Iterator[None]:
        """Look at what a trace processes, and at what it boxes: results of functions with rules of their own."""
        process, root = trace.process, trace.root

        def observe(primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
            for arg in args:
                if type(arg) is Tensor and arg.tracing is trace and id(arg) not in self._known:
                    self._known[id(arg)] = arg
                    self.tensors.append(arg)
            result = process(primitive, args, metadata)
            for each in result if type(result) is tuple else (result,):
                self._known[id(each)] = each
            return result

        def boxing(*args: Any) -> Any:
            made = root(*args)
            self._known[id(made)] = made
            return made

        with _in_place_of(trace, process=observe, root=boxing):
            yield


@contextmanager
def _in_place_of(thing: Any, **methods: Any) -> Iterator[None]:
    """Let an object have other methods for a while."""
    before = {name: vars(thing)[name] for name in methods if name in vars(thing)}
    vars(thing).update(methods)
    try:
        yield
    finally:
        for name in methods:
            del vars(thing)[name]
        vars(thing).update(before)


Replacement = tuple[Tensor, Any] | VariableWatch


class _InPlace(threading.local):
    """The replacements that hold in this thread."""

    def __init__(self) -> None:
        self.all: list[Replacement] = []


_in_place = _InPlace()


def replacements() -> tuple[Replacement, ...]:
    """Return the replacements that hold now, for a function that will run again when they do not."""
    return tuple(_in_place.all)


@contextmanager
def replaced(several: Sequence[Replacement]) -> Iterator[None]:
    """Let values stand for tensors, and watches for what variables hold, one after the other."""
    with ExitStack() as stack:
        for each in several:
            stack.enter_context(_valued(*each) if isinstance(each, tuple) else each)
        before, _in_place.all = _in_place.all, [*_in_place.all, *several]
        try:
            yield
        finally:
            _in_place.all = before


@contextmanager
def _valued(tensor: Tensor, value: Any) -> Iterator[None]:
    kept = tensor.tracing, tensor.value
    tensor.tracing, tensor.value = UNTRACED, value
    try:
        yield
    finally:
        tensor.tracing, tensor.value = kept
