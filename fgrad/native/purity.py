"""Detection of values that change from call to call, but that a recording has made constants."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from types import FunctionType, MethodType
from typing import Any, cast

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.foreign import FOREIGN, is_lazy, package_of
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, box, strip_ended
from fgrad.core.tree import flatten
from fgrad.core.variable import Variable
from fgrad.graphs.equations import Equation, Name, same_bits
from fgrad.graphs.graph import Block, Graph, output_of
from fgrad.graphs.loop import Iterations, iterations_of, loop_of
from fgrad.graphs.record import Recording, RecordTrace, held, run_recorded
from fgrad.graphs.replaying import RerollingTrace
from fgrad.transforms import linearization
from fgrad.typing import Array


def check_repeats(
    function: Callable[..., Any],
    examples: tuple[Any, ...],
    first: Graph,
    assigned: tuple[Variable, ...],
    before: RecordTrace,
    lifts: bool = False,
) -> None:
    """Record a function a second time, and raise if the recordings differ.

    Args:
        function: of the examples.
        examples: arrays and numbers.
        first: the first recording.
        assigned: the variables assigned in it.
        before: its trace, with all equations and constants, including unused ones.
        lifts: whether captured tensors become inputs.

    Raises:
        FrozenValueError: a constant or an equation differs.
    """
    second = run_recorded(function, examples, {}, integers=True, trace=_Repeat(first, before, lifts))
    leaves, treedef = flatten(second.result)
    outputs = [output_of(second.trace, leaf) for leaf in leaves]
    if _variables(first.variables.values(), assigned, first.outputs) != _variables(
        second.variables, second.assigned, outputs
    ):
        raise errors.FrozenValueError(
            f"{first.__name__} uses other variables each time that it runs: one that it makes itself lives no "
            "longer than a call.\nCreate variables outside of the compiled function."
        )
    comparison = _same(first, before, second)
    if first.treedef != treedef or not all(map(comparison.values, first.outputs, outputs)):
        raise errors.FrozenValueError(_message(first, None))


def _same(first: Graph, before: RecordTrace, second: Recording) -> _Same:
    """Return the comparison of names of two recordings.

    Raises:
        FrozenValueError: an equation that a result needs differs.
    """
    if second.trace.equations == before.equations:  # each is itself, see `_Repeat`
        return _Same((), first, first)
    graph = second.graph()
    names = zip((*first.inputs, *first.variables), (*graph.inputs, *graph.variables), strict=True)
    comparison = _Same(names, first, graph)
    for one, other in zip_longest(first.equations, graph.equations):
        if one is None or other is None or not comparison.equations(one, other):
            raise errors.FrozenValueError(_message(first, other or one))
    return comparison


def _variables(read: Iterable[Variable], assigned: Iterable[Variable], outputs: Iterable[Any]) -> list[list[int]]:
    """Return the ids of the variables that are read, assigned and returned."""
    returned = [x for x in map(held, outputs) if type(x) is Variable]
    return [list(map(id, each)) for each in (read, assigned, returned)]


class _Repeat(RerollingTrace):
    """Records a function a second time, reusing each equation of the first recording that is the same.

    So nothing is computed, and hardly anything remains to be compared, if the function does the same as the first time.
    An equation that differs is recorded as usual: it may not be needed by any result.

    Args:
        first: the first recording.
        before: its trace.
        lifts: whether captured tensors become inputs.
    """

    def __init__(self, first: Graph, before: RecordTrace, lifts: bool = False) -> None:
        super().__init__(lifts, isinstance(before, RerollingTrace) and before.rerolls)
        self.first: Graph = first
        self._rerolled_first = before.rerolled if isinstance(before, RerollingTrace) else {}
        self._written_first, self._constants_first = before.equations, before.constants
        self._examples_first, self._repeats = before.examples or [], before._repeats

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        place = len(self.equations)
        examples = self._examples_first[place] if place < len(self._examples_first) else None
        if examples is None or not self._is_repeated(equation := self._written_first[place], primitive, args, metadata):
            return super().process(primitive, args, metadata)
        self._repeat(equation, examples)
        if type(examples) is not tuple:
            return box(examples, self, equation.outputs[0])
        return tuple([box(each, self, name) for each, name in zip(examples, equation.outputs, strict=True)])

    @override
    def _written(
        self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any], ans: Any, direct: bool = False
    ) -> Any:
        place = len(self.equations)
        if place < len(self._written_first):
            equation = self._written_first[place]
            outputs = self._outputs(equation, ans)
            if outputs and self._is_repeated(equation, primitive, args, metadata):
                self._repeat(equation, self._examples_first[place] if place < len(self._examples_first) else None)
                return outputs if type(ans) is tuple else outputs[0]
        return super()._written(primitive, args, metadata, ans, direct)

    def _repeat(self, equation: Equation, examples: Any) -> None:
        """Append an equation of the first recording, with examples of its results."""
        self.equations.append(equation)
        cast(Any, self.examples).append(examples)
        self.place = equation.place

    @override
    def shorten(self, recording: linearization.Recording, start: int) -> None:
        range_ = start, len(self.equations)
        if range_ in self._rerolled_first and all(
            map(operator.is_, self.equations[start:], self._written_first[start : range_[1]])
        ):
            self.rerolled[range_] = self._rerolled_first[range_]
        super().shorten(recording, start)

    def _is_repeated(
        self, equation: Equation, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]
    ) -> bool:
        """Return whether an operation equals an equation."""
        if primitive is not equation.primitive and (
            primitive.name != equation.primitive.name or not _same_loops(loop_of(primitive), iterations_of(equation))
        ):
            return False
        if len(args) != len(equation.inputs):
            return False
        for arg, name in zip(args, equation.inputs, strict=True):
            if type(arg) is Tensor and arg._trace is self:
                if arg._mark is not name:
                    return False
            elif not self._is_constant(arg, name):
                return False
        known = equation.metadata
        return metadata is known or (
            metadata.keys() == known.keys() and all([_equivalent(x, known[key]) for key, x in metadata.items()])  # noqa: C419
        )

    def _is_constant(self, value: Array | float, first: Any) -> bool:
        """Return whether a value is the constant of the first recording that an equation has inline or by name."""
        known = self._constants_first.get(first) if type(first) is Name else None
        if known is not None and _equivalent(known, value):  # no copy is needed
            self.constants[first] = known
            return True
        own = self._constant(value)
        return type(own) is not Name and _equivalent(first, own)

    def _outputs(self, equation: Equation, ans: Any) -> tuple[Tensor, ...]:
        """Return results under the names of an equation; empty if their shapes or dtypes differ."""
        answers = ans if type(ans) is tuple else (ans,)
        if len(answers) != len(equation.outputs):
            return ()
        outputs = [self._named(each, name) for each, name in zip(answers, equation.outputs, strict=True)]
        found = tuple([each for each in outputs if each is not None])
        return found if len(found) == len(outputs) else ()

    def _named(self, value: Array, name: Name) -> Tensor | None:
        """Return a result under a name; None if its shape or dtype differs."""
        if type(value) is np.ndarray:  # fast path, without a new name
            return box(value, self, name) if (value.shape, value.dtype, False) == name.form else None
        own = self.root(value)
        return (
            box(own._payload, self, name) if type(own._payload) is not Tensor and own._mark.form == name.form else None
        )


class _Same:
    """Compares two recordings of one function, name by name."""

    def __init__(self, names: Iterable[tuple[Name, Name]], first: Block, second: Block) -> None:
        self._names: dict[Name, Name] = dict(names)
        self._constants = first.constants, second.constants

    def equations(self, one: Equation, other: Equation) -> bool:
        """Return whether two equations are equal, and record the correspondence of their outputs."""
        if one is other:  # the usual case, see `_Repeat`
            return True
        is_same = (
            one.primitive.name == other.primitive.name
            and len(one.inputs) == len(other.inputs)
            and all(map(self.values, one.inputs, other.inputs))
            and _equivalent(dict(one.metadata), dict(other.metadata))
            and _same_loops(iterations_of(one), iterations_of(other))
        )
        self._names.update(zip(one.outputs, other.outputs, strict=False))
        return is_same

    def values(self, one: object, other: object) -> bool:
        """Return whether two constants or names are equal."""
        if type(one) is Name and type(other) is Name:
            if one in self._constants[0] and other in self._constants[1]:
                return _equivalent(self._constants[0][one], self._constants[1][other])
            return self._names.get(one, one) is other
        return _equivalent(one, other)


def _equivalent(one: Any, other: Any) -> bool:
    """Return whether two constants or metadata entries are equal."""
    if one is other:
        return True
    one, other = strip_ended(one), strip_ended(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, (np.ndarray, np.generic)):
        return bool(one.shape == other.shape and one.dtype == other.dtype) and same_bits(one, other)
    if FOREIGN[type(one)]:
        return is_lazy(one) and bool(one.__dask_tokenize__() == other.__dask_tokenize__())  # elements are not loaded
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(_equivalent, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equivalent(x, other[key]) for key, x in one.items())
    if isinstance(one, slice):
        return _equivalent((one.start, one.stop, one.step), (other.start, other.stop, other.step))
    if isinstance(one, (float, complex)):
        return repr(one) == repr(other)  # nan is nan, and 0.0 is not -0.0
    if package_of(type(one)) == "jaxlib" and hasattr(one, "__array__"):  # an array, compared by elements
        return _equivalent(np.asarray(one), np.asarray(other))
    return bool(type(one).__eq__ in _BY_IDENTITY or one == other)


def _same_loops(one: Iterations | None, other: Iterations | None) -> bool:
    """Return whether two loops have equal bodies; None stands for an operation that is not a loop."""
    if one is None or other is None:
        return one is other
    forms = [(x.count, x.shared, x.carried, list(x.reads), list(x.writes), x.recomputes) for x in (one, other)]
    return (
        forms[0] == forms[1]
        and _same_blocks(one.body, other.body)
        and (one.condition is None) == (other.condition is None)
        and (one.condition is None or _same_blocks(one.condition, other.condition))
    )


def _same_blocks(one: Block, other: Any) -> bool:
    if len(one.inputs) != len(other.inputs) or len(one.equations) != len(other.equations):
        return False
    comparison = _Same(zip(one.inputs, other.inputs, strict=True), one, other)
    return all(map(comparison.equations, one.equations, other.equations)) and all(
        map(comparison.values, one.outputs, other.outputs)
    )


_BY_IDENTITY = (object.__eq__, FunctionType.__eq__, MethodType.__eq__, Tensor.__eq__, np.ufunc.__eq__)
"""Comparisons by identity, which do not tell whether two objects are equivalent, such as two equal closures."""


def _message(graph: Graph, equation: Equation | None) -> str:
    where = f"\n  at {equation.line}" if equation is not None and equation.line else ""
    what = f"in the operation {equation.primitive.name}" if equation is not None else "among its results"
    return (
        f"{graph.__name__} uses a value that changes from call to call, {what}: a random number, a clock, a counter. A "
        f"compiled program would use the first one for ever.{where}\nPass the value as an argument."
    )
