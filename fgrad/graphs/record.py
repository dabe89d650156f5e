"""Recording: the program that a function runs, as a list of equations.

    trace(f)(*args)              run `f` once and record its operations
    graph(*args)                 run the program on other values of the same shapes
    print(graph)                 one line for each equation
    graph.counts()               how often each primitive occurs
    graph.to_dot()               a drawing; notebooks show it automatically

A recorded tensor has a shape and a dtype, and no value that Python could use, because the program must be valid for all
values. Its payload is an example value: the primitives run on it while they are recorded, so no shape rules are needed.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, cast

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.coerce import PLAIN
from fgrad.core.layers import below
from fgrad.core.primitive import Primitive
from fgrad.core.shapes import broadcast_shapes, first_of
from fgrad.core.tensor import Tensor, apply, apply_call, as_now, box, boxed, own_handle, strip_ended
from fgrad.core.trace import NOTHING, Call, Trace, is_seen, observing, running
from fgrad.core.tree import tree_map, unflatten
from fgrad.core.variable import Variable, VariableWatch
from fgrad.core.views import now_written
from fgrad.errors.hints import names_keywords
from fgrad.graphs.arguments import Arguments
from fgrad.graphs.equations import OPERATORS, PYTHONS, Equation, Name, in_pythons_way, is_short, of_integers, same_bits
from fgrad.graphs.graph import Graph
from fgrad.graphs.integers import check_holds
from fgrad.ops.indexing import SELECTING
from fgrad.ops.tracing import first_example
from fgrad.rules.rule import Rule, Transparent
from fgrad.transforms.calls import Transformed
from fgrad.transforms.metadata_keys import frozen
from fgrad.transforms.running import call_users, run
from fgrad.typing import Array, ArrayLike

P = ParamSpec("P")

_ARRAY = np.ndarray
_NUMBER = np.float64
_REALS = {np.float64, float}
_numpys: Any = np
_settings_of_numpy: Callable[[], object] = getattr(
    getattr(_numpys._core.umath, "_extobj_contextvar", None), "get", object
)
"""Returns an object that identifies the settings of `np.errstate` in this context: it changes with them.

If NumPy has no such variable, each call returns a new object. A call of `np.geterr` would take ten times as long.
"""


class _ValueNumbers:
    """Keys of recorded values, which are equal for results of the same operation on values with equal keys.

    Args:
        equations: the equations, to which further ones may be added.
    """

    def __init__(self, equations: list[Equation]) -> None:
        self._equations, self._count = equations, 0
        self._keys: dict[Name, Any] = {}
        self._numbers: dict[Any, int] = {}

    def of(self, name: Name) -> Any:
        """Return the key of a value; of one that no equation computes, its name."""
        for equation in self._equations[self._count :]:
            operation = equation if equation.direct else (id(equation.primitive), frozen(equation.metadata))
            inputs = tuple(self._keys.get(x, x) if type(x) is Name else frozen(x) for x in equation.inputs)
            number = self._numbers.setdefault((operation, inputs), len(self._numbers))
            self._keys.update((output, (number, place)) for place, output in enumerate(equation.outputs))
        self._count = len(self._equations)
        return self._keys.get(name, name)


class RecordTrace(Trace):
    """Records each operation on its tensors, whose marks are their names in the graph.

    Args:
        is_compiled: whether the function is compiled. Then equations have the user's lines, which take half a
            microsecond each, examples of results are kept for a second recording, and errors say what to write.
        lifts: whether tensors from outside become inputs: they are replaced by examples, and stored as constants.

    Attributes:
        equations: the recorded equations, in order.
        constants: the arrays that operations took from outside, by name.
        others: the constants that are neither numbers nor arrays of NumPy's.
        given: the values of the inputs, by name.
        meets_others: whether a result is traced by other traces.
        place: the user's line of the last operation, if recorded.
        first: an earlier recording of the same call, whose names the inputs get; None: they get new ones.
        examples: for each equation the example of its result, or a tuple for several; None for a call, and where they
            take much memory. The list itself is None if they are not kept.
    """

    differentiates = True  # later, in the graph
    is_program = True
    wants_python = True
    takes_calls = True
    belongs_to = "a recording"

    def __init__(self, is_compiled: bool = False, lifts: bool = False) -> None:
        super().__init__()
        self._is_compiled, self._lifts = is_compiled, lifts
        self.place: tuple[str, int] | None = None
        self.equations: list[Equation] = []
        self.constants: dict[Name, Any] = {}
        self.others: list[Any] = []
        self.given: dict[Name, Any] = {}
        self.meets_others = False
        self.first: Graph | None = None
        self.examples: list[Any] | None = [] if is_compiled else None
        self._real: dict[Name, Any] = {}
        self._computed = 0
        self._repeats = False
        self._known: dict[int, tuple[Any, Name]] = {}
        self._numbers = _ValueNumbers(self.equations)
        self._settings: tuple[Any, bool] = None, False

    def root(self, value: Any) -> Tensor:
        """Return a tensor with a new name, and an example value as its payload."""
        kind = type(value)
        if kind is _ARRAY or kind is _NUMBER:  # common case
            return box(value, self, Name(value))
        is_weak = kind in PYTHONS
        check_holds(value, "a function that is recorded")
        value = np.asarray(value)[()] if is_weak or not hasattr(value, "dtype") else value
        return box(value, self, Name(value, is_weak))

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        if primitive.is_elementwise and not metadata:
            first = args[0]
            example = first._payload if type(first) is Tensor and first._trace is self else first
            if type(example) in _REALS and (found := self._of_numbers(primitive, args)) is not None:
                return found
        if primitive in SELECTING and any(self.follows(arg) and arg.dtype == np.bool_ for arg in args[1:]):
            raise self._no_value("indexing with a mask")
        examples: list[Any] = []
        is_elementwise = is_weak = primitive.is_elementwise
        is_plain = not (observing and is_seen())
        for arg in args:
            if (kind := type(arg)) is Tensor and arg._trace is self:
                arg, name = arg._payload, arg._mark
                if is_elementwise and name.is_weak:
                    arg = in_pythons_way(arg)
                kind = type(arg)
            else:
                if now_written.arrays:  # protect the value, which becomes a constant
                    now_written.keep(arg)
                if kind is Tensor:
                    arg = self._lifted(arg, is_elementwise)
                    kind = type(arg)
            examples.append(arg)
            if kind is _NUMBER:  # common case
                is_weak = False
                continue
            is_plain = is_plain and (arg.size <= _LARGE if kind is _ARRAY else kind in PLAIN)
            is_weak = is_weak and kind in PYTHONS
        is_weak = is_weak and primitive.name in OPERATORS
        ans = of_integers(primitive, examples) if is_weak else None
        if ans is None:
            ans = self._answer(primitive, examples, args, metadata, is_plain)
            ans = in_pythons_way(ans) if is_weak else ans
        return self._written(primitive, args, metadata, ans)

    @override
    def is_same(self, x: Tensor, y: Tensor, are_same: Callable[[Any, Any], bool]) -> bool:
        return x._mark is y._mark or self._numbers.of(x._mark) == self._numbers.of(y._mark)

    def _of_numbers(self, primitive: Primitive, args: Sequence[Any]) -> Tensor | None:
        """Do what `process` does for numbers, which loops in Python compute with, in less time. None for others."""
        values, inputs = [], []
        for arg in args:
            value = name = arg
            if type(arg) is Tensor and arg._trace is self:
                value, name = arg._payload, arg._mark
                if name.is_weak:
                    return None
            elif type(arg) is float:
                value = _NUMBER(arg)
            if type(value) is not _NUMBER:
                return None
            values.append(value)
            inputs.append(name)
        if observing and is_seen():
            return None
        ans = primitive.compute(*values)
        if type(ans) is not _NUMBER:
            return None
        name = Name(ans)
        self._append(primitive, tuple(inputs), (name,))
        if self.examples is not None:
            self.examples.append(ans)
        return box(ans, self, name)

    def _answer(
        self,
        primitive: Primitive,
        examples: list[Any],
        args: Sequence[Any],
        metadata: Mapping[str, Any],
        is_plain: bool,
    ) -> Any:
        """Return the result for examples.

        If it is undefined for them, as where they are of one repeated element, actual values take their place. Where
        there are none, as inside of a loop, regular matrices do: the example of a result only has to have its form.
        """
        try:
            if is_plain:  # common case; a call without keywords is faster
                compute = primitive.implementation
                return compute(*examples, **metadata) if metadata else compute(*examples)
            if primitive.is_by_element and any(type(each) is _ARRAY and each.size > _LARGE for each in examples):
                self._repeats = True
                return _of_one_element(primitive, examples, metadata)
            return apply(primitive, examples, metadata)
        except Exception:
            if self._repeats and not self._lifts:
                with contextlib.suppress(Exception):
                    return apply(primitive, [self._value(arg) for arg in args], metadata)
            return apply(primitive, [*map(regular, examples)], metadata)

    def _value(self, arg: Any) -> Any:
        """Return the actual value of an argument for the given inputs, by running the equations recorded so far."""
        if not self.follows(arg):
            return arg
        self._real.update({**self.given, **self.constants})
        for equation in self.equations[self._computed :]:
            self._real.update(equation.run(self._real))
        self._computed = len(self.equations)
        return self._real[arg._mark]

    def _example(self, arg: object) -> Any:
        if type(arg) is not Tensor:
            return arg
        return arg._payload if arg._trace is self else self._lifted(arg, False)

    def _lifted(self, arg: Tensor, may_be_weak: bool) -> Any:
        """Return an example of a tensor from outside that will be an input."""
        if not self._lifts:
            return arg
        example = first_example(arg)
        return in_pythons_way(example) if may_be_weak and arg._trace.is_weak(arg) else example

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        if isinstance(call, Transparent):
            return call.run(leaves)
        again = call.again if isinstance(call, Rule) else None
        if again is None:
            return list(self.record_call(call.name, CalledAgain(call), leaves))
        return list(self.record_call(call.name, again, leaves, again.forms))

    def record_call(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        forms: Callable[[], Sequence[Any]] | None = None,
    ) -> Any:
        """Record the call of a function that dispatches to traces itself.

        Args:
            name: the name in the printed graph.
            function: takes arrays and tensors by position; returns one array or tensor, or a tuple of them.
                It is called again, with the current values, whenever the graph runs.
            args: the arguments, some of them tensors of this trace.
            forms: returns an object with the shape and dtype of each result, if the function need not run for that.

        Raises:
            ClosureError: the function uses a tensor of this trace that is not among its arguments.
        """
        examples = [self._example(arg) for arg in args]
        if forms is None or any(type(x) is Tensor for x in examples):
            ans = function(*examples)
        else:
            ans = tuple(forms())
        if any(self.follows(strip_ended(each)) for each in (ans if type(ans) is tuple else (ans,))):
            raise errors.ClosureError(
                f"{name} is recorded as one call and uses a recorded value, or a variable, that is not one of its "
                "arguments.\nPass it as an argument."
            )
        return self._written(Primitive(name, function), args, NOTHING, ans, direct=True)

    def _written(
        self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any], ans: Any, direct: bool = False
    ) -> Any:
        """Write the equation, and return its results as tensors."""
        inputs = tuple(
            [arg._mark if type(arg) is Tensor and arg._trace is self else self._constant(arg) for arg in args]
        )
        if (kind := type(ans)) is _NUMBER:  # common case
            examples, names = ans, (Name(ans),)
            results: Any = box(ans, self, names[0])
        elif kind is tuple:
            results = tuple(map(self.root, ans))
            names, examples = tuple([each._mark for each in results]), tuple([each._payload for each in results])
        else:
            results = self.root(ans)
            names, examples = (results._mark,), results._payload
        if kind is not _NUMBER and not self.meets_others:
            self.meets_others = _is_traced(examples)
        self._append(primitive, inputs, names, dict(metadata) if metadata else NOTHING, direct)
        if self.examples is not None:
            is_kept = not direct and (kind is _NUMBER or _may_be_kept(primitive, examples))
            self.examples.append(examples if is_kept else None)
        return results

    def _append(
        self, primitive: Primitive, inputs: tuple[Any, ...], names: tuple[Name, ...],
        metadata: Mapping[str, Any] = NOTHING, direct: bool = False,
    ) -> None:  # fmt: skip
        """Append an equation, with the user's line, and whether NumPy's warnings are off."""
        if self._is_compiled:
            self.place = running.place or errors.users_place(known=3)  # those of `process`, its caller and callee
        settings = _settings_of_numpy()
        if settings is not self._settings[0]:
            self._settings = settings, set(np.geterr().values()) == {"ignore"}
        self.equations.append(Equation(names, primitive, inputs, metadata, self._settings[1], direct, self.place))

    def _constant(self, value: Any) -> Any:
        """Return a constant as it is now: a short one inline, otherwise its name."""
        if (kind := type(value)) in PYTHONS or (issubclass(kind, np.generic) and kind is not np.void):
            return value
        value = strip_ended(value)
        value = np.array(value) if isinstance(value, (list, tuple)) else value
        if not isinstance(value, np.ndarray) and type(value) is not Tensor:
            self.others.append(value)
            return value
        if type(value) is not Tensor and is_short(value):
            return copy.copy(value)
        # An array used repeatedly is stored once, unless it was written to in the meantime.
        original, name = self._known.get(id(value), (None, None))
        if name is None or original is not value or not _unchanged(self.constants[name], value):
            name = Name(value, self._lifts and type(value) is Tensor and value._trace.is_weak(value))
            self.constants[name] = copy.copy(value)
            self._known[id(value)] = value, name
        return name

    @override
    def is_weak(self, tensor: Any) -> bool:
        return tensor._mark.is_weak  # type: ignore[no-any-return]

    @override
    def concrete(self, tensor: Tensor, how: str) -> Any:
        raise self._no_value(how)

    @override
    def plain_array(self, tensor: Tensor) -> Any:
        raise self._no_value("np.asarray or np.array")

    def _no_value(self, how: str) -> errors.ConcretizationError:
        return errors.ConcretizationError(how, errors.users_line(), _REMEDY if self._is_compiled else "")


@dataclass(frozen=True)
class CalledAgain:
    """A call to repeat when a program runs, through the traces that run then."""

    call: Call

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        """Return the results for arrays and tensors."""
        return tuple(apply_call(self.call, leaves))


_SMALL = 512
"""The size in bytes up to which an example is kept for a second recording."""


def _may_be_kept(primitive: Primitive, example: Any) -> bool:
    """Return whether an example takes little memory, and shares none with arguments: writes depend on that."""
    if type(example) is not _ARRAY:
        return isinstance(example, np.generic) or (
            type(example) is tuple and all([_may_be_kept(primitive, each) for each in example])  # noqa: C419  # faster
        )
    memory = example if example.base is None else example.base  # one element, if it is repeated
    return primitive.is_ufunc and type(memory) is _ARRAY and memory.nbytes <= _SMALL


def _is_traced(example: ArrayLike) -> bool:
    """Return whether an example is a tensor of another trace."""
    if type(example) is tuple:
        return any(map(_is_traced, example))
    return type(example) is Tensor and type(strip_ended(example)) is Tensor


_LARGE = 1024
"""The size above which an example is one repeated element: elementwise operations need not run on all."""


def regular(example: Any) -> Any:
    """Return a positive definite matrix, or a stack of them, in place of an example of floating-point numbers.

    Its eigenvalues differ, since some derivatives are undefined for equal ones.
    """
    if type(example) is not _ARRAY or example.ndim < 2 or example.dtype.kind not in "fc":
        return example
    rows, columns = example.shape[-2:]
    weights = np.arange(1, columns + 1, dtype=example.dtype)
    return np.broadcast_to(1 + weights * np.eye(rows, columns, dtype=example.dtype), example.shape)


def _of_one_element(primitive: Primitive, examples: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
    """Return an example of an elementwise result: the first element, repeated."""
    shape = broadcast_shapes(*[each.shape for each in examples if hasattr(each, "shape")])
    if 0 in shape or any(type(each) is Tensor for each in examples):
        return apply(primitive, examples, metadata)
    ans = apply(primitive, [first_of(x) if isinstance(x, np.ndarray) else x for x in examples], metadata)
    return tuple(np.broadcast_to(x, shape) for x in ans) if type(ans) is tuple else np.broadcast_to(ans, shape)


class _PlacedRecord(list[Any]):
    """The record of a reverse trace inside a recording: steps of its backward pass belong to lines of operations.

    Otherwise they would belong to the user's line that calls `grad`. Besides, the search for that line takes three
    times as long as for the line of an operation.
    """

    def __init__(self, trace: RecordTrace, entries: Sequence[Any] = (), places: Sequence[Any] = ()) -> None:
        super().__init__(entries)
        self._trace, self._places = trace, list(places)

    def append(self, entry: tuple[Any, ...]) -> None:
        list.append(self, entry)  # twice as fast as super()
        self._places.append(self._trace.place)

    def pop(self, place: Any = -1) -> Any:
        running.place = self._places.pop(place)
        return list.pop(self, place)

    def copy(self) -> _PlacedRecord:
        return _PlacedRecord(self._trace, self, self._places)


@contextlib.contextmanager
def _noting_places(trace: RecordTrace) -> Iterator[None]:
    """Make backward passes in the block record the lines of their operations."""
    before = running.record, running.place
    try:
        running.record, running.place = functools.partial(_PlacedRecord, trace), None
        yield
    finally:
        running.record, running.place = before


def _unchanged(kept: Any, value: Any) -> bool:
    if type(value) is Tensor:
        return kept._payload is value._payload and kept._trace is value._trace and kept._mark is value._mark
    return same_bits(kept, value)


class _Reads(VariableWatch):
    """Makes each variable that is read an input of the graph, by reference.

    The value at the first read is the example for all reads: other threads may assign meanwhile.

    Attributes:
        names: the variables and their names, in the order of reading.
    """

    def __init__(self, trace: RecordTrace) -> None:
        super().__init__(cast(Any, trace))
        self.names: dict[Variable, Name] = {}
        known = {} if trace.first is None else trace.first.variables
        self._known = {variable: name for name, variable in known.items()}
        self._found: dict[Variable, Any] = {}
        self._assigned: set[Variable] = set()

    @override
    def assigns(self, variable: Variable) -> None:
        self._assigned.add(variable)

    def read(self, variable: Variable, value: Array) -> Any:
        if variable not in self.names:
            found = below(value)
            name, known = Name(value, variable.is_weak), self._known.get(variable)
            self.names[variable] = known if known is not None and known.form == name.form else name
            self._found[variable] = found
            cast(Any, self.trace).given[self.names[variable]] = found
        self._check_unassigned(variable)
        # An example, without the layers of outer traces.
        return box(self._found[variable], self.trace, self.names[variable])

    def __exit__(self, kind: object = None, *exception: object) -> None:
        try:
            for variable in self.names if kind is None else ():
                self._check_unassigned(variable)
        finally:
            super().__exit__(kind, *exception)

    def _check_unassigned(self, variable: Variable) -> None:
        if variable in self._assigned:
            raise errors.RecordedAssignmentError(
                f"variable {variable.name!r} is assigned in a function that is being recorded, but a graph cannot hold "
                f"assignments.\n  noticed at {errors.users_line()}\n"
                "Return the new value, and assign it outside: w.assign(graph(x))."
            )


class Assignments(_Reads):
    """Makes values assigned to variables results of the graph; the variables themselves are not changed."""

    records = True

    def __init__(self, trace: RecordTrace) -> None:
        super().__init__(trace)
        self.values: dict[Variable, Any] = {}

    @override
    def writes(self, variable: Variable, value: Any) -> None:
        value = self._of_this_recording(value)
        new = own_handle(value) if type(value) is Tensor else np.array(value)  # later writes do not change it
        variable.check_fits(new)
        self.values[variable] = new if new.dtype == variable.dtype else new.astype(variable.dtype)

    @override
    @contextlib.contextmanager
    def apart(self) -> Iterator[dict[Variable, Any]]:
        before, found = self.values, dict[Variable, Any]()
        self.values = dict(before)
        try:
            yield found
        finally:
            found.update({key: new for key, new in self.values.items() if new is not before.get(key)})
            self.values = before

    def _of_this_recording(self, value: Array) -> Any:
        """Return a value in this recording, without the data of other traces."""
        return below(strip_ended(value), lambda trace: trace is self.trace)

    @override
    def read(self, variable: Variable, value: Array) -> Any:
        found = super().read(variable, value)
        new = self.values.get(variable)
        return found if new is None else boxed(as_now(new))


def recorded(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    integers: bool = False,
    trace: RecordTrace | None = None,
) -> tuple[Graph, tuple[Variable, ...]]:
    """Record a function that may assign to variables.

    Args:
        function: the user's function.
        args, keywords: the recorded call.
        integers: whether Python integers among the arguments are inputs.
        trace: the trace to use, for access to more than the graph.

    Returns:
        A graph of `(result, [new values of variables])`, and these variables. Variables among the results are `held`.
    """
    recording = run_recorded(function, args, keywords, integers, trace)
    return recording.graph(), recording.assigned


@dataclass(frozen=True)
class Recording:
    """What a function has done.

    Attributes:
        arguments: of the recorded call.
        variables: those that it read, by name.
        assigned: those to which it assigned.
        trace: what recorded it.
        result: the function's, and the new values of the variables.
    """

    arguments: Arguments
    variables: Mapping[Variable, Name]
    assigned: tuple[Variable, ...]
    trace: RecordTrace
    result: Any

    def graph(self) -> Graph:
        """Return the equations that the result needs."""
        return Graph(self.arguments, self.variables, self.trace, self.result)


def run_recorded(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    integers: bool = False,
    trace: RecordTrace | None = None,
) -> Recording:
    """Do what `recorded` does without the graph."""
    trace = trace or RecordTrace(is_compiled=True)
    arguments = Arguments(function, args, keywords, integers)
    if trace.first is not None:
        arguments.take_names(leaf for leaf, _ in trace.first.leaves)
    state = Assignments(trace)

    def with_state(*args: object, **keywords: object) -> Any:
        result = call_users(function, args, keywords)
        return tree_map(_itself, result), list(state.values.values())

    with _noting_places(trace):
        _, results, treedef, _ = run(trace, with_state, lambda: arguments.traced(trace), state)
    return Recording(arguments, state.names, tuple(state.values), trace, unflatten(treedef, results))


_REMEDY = (
    "An argument that decides control flow can be static, with a separate program for each value:\n"
    'fg.compile(f, static="n") or @fg.compile(static="n"). A choice between arrays is np.where(condition, a, b).'
)
"""A hint for compiled functions where a value is requested."""


def _itself(leaf: Any) -> _Held | Array:
    return _Held(leaf) if type(leaf) is Variable else leaf


@dataclass(eq=False)
class _Held:
    """A variable as the result of a recorded function: the variable itself, not its value."""

    variable: Variable


def held(result: object) -> Any:
    """Return a variable among the results of a graph of `recorded` as itself, other results unchanged."""
    return result.variable if type(result) is _Held else result


def _run_trace(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Graph:
    arguments = Arguments(function, args, keywords)
    trace = RecordTrace()
    reads = _Reads(trace)
    _, results, treedef, _ = run(trace, function, lambda: arguments.traced(trace), reads)
    return Graph(arguments, reads.names, trace, unflatten(treedef, results))


@names_keywords
def trace(function: Callable[P, Any]) -> Callable[P, Graph]:
    """Return a function that records the operations of `function` for given arguments.

    Inputs of the graph are arrays, tensors and Python's floating-point and complex numbers, which become float64 and
    complex128. Other arguments (integers, booleans, strings) are static: they are part of the program, as are the loops
    and branches that were run and the random numbers that were drawn.

    Args:
        function: takes and returns arrays, numbers or containers of them. It cannot use values of its inputs in Python
            control flow (`if x > 0`).

    Returns:
        A function of the same arguments that returns a `Graph`: the program, which can be printed, drawn and run again.

    Raises:
        ConcretizationError: a TypeError; `function` uses the value of an input.
        RecordedAssignmentError: a RuntimeError; `function` assigns a variable that it reads.
        NotCallableError: a TypeError; `function` is not a function.

    Example:
        >>> def wave(x, speed):
        ...     return np.sum(np.sin(speed * x))
        >>> graph = trace(wave)(np.array([0.0, 1.0, 2.0]), 3.0)
        >>> print(graph)
        graph of wave
        inputs     a: float64[3] = x
                   b: float64[] = speed
                   c: float64[3] = multiply b a
                   d: float64[3] = sin c
                   e: float64[] = sum[axis=None, keepdims=False] d
        outputs    e: float64[]
        >>> graph(np.zeros(3), 1.0)
        Tensor(0.)
    """
    return Transformed(_run_trace, function, {})
