"""Recording: the program that a function runs, as a list of equations.

    trace(f)(*args)              run `f` once and write down what it computes
    graph(*args)                 run the program on other values of the same shapes
    print(graph)                 one line for each equation
    graph.counts()               how often each primitive occurs
    graph.to_dot()               a drawing; notebooks show it by themselves

A recorded tensor has a shape and a dtype, and no value that Python could see, because the program must
hold for all values. An example value lies in its box all the same: the primitives run on it while they
are written down, so no rule for shapes is needed.
"""

from __future__ import annotations

import copy
import functools
import importlib
import itertools
import string
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, cast

import numpy as np

from fgrad import errors
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import BOXES, NOTHING, Tensor, apply, apply_call, box, boxed, settle
from fgrad.core.trace import Call, Trace
from fgrad.core.tree import flatten, paths, unflatten
from fgrad.core.variable import Variable, VariableWatch
from fgrad.ops.indexing import ARRAY
from fgrad.transforms.calls import Place, Transformed, name_of, place_name
from fgrad.transforms.linearization import differentiable
from fgrad.transforms.running import is_number, run

P = ParamSpec("P")

_LONGEST_INLINE = 4


class Name:
    """What an equation, an input or a constant binds: a shape and a dtype, and a text to print.

    Attributes:
        text: as the graph prints it, such as `a`; given when the graph is finished.
        shape, dtype: of the arrays that it can stand for.
    """

    __slots__ = ("text", "shape", "dtype")

    def __init__(self, value: Any) -> None:
        self.text = "?"
        self.shape: tuple[int, ...] = value.shape
        self.dtype: np.dtype[Any] = value.dtype

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{self.text}: {_kind(self)}"


@dataclass(slots=True, eq=False)
class Equation:
    """One line of a graph: `outputs = primitive[metadata] inputs`.

    Attributes:
        outputs: the names that it binds; most primitives have one.
        primitive: the operation.
        inputs: names, and constants that are short enough to stand in the line.
        metadata: the primitive's keywords.
        quiet: it ran without NumPy's warnings, as the passes of derivatives do, and will again.
        direct: the implementation itself decides what it means to each trace (see `record_call`).
    """

    outputs: tuple[Name, ...]
    primitive: Primitive
    inputs: tuple[Any, ...]
    metadata: Mapping[str, Any]
    quiet: bool
    direct: bool = False

    def run(self, values: Mapping[Name, Any]) -> Iterator[tuple[Name, Any]]:
        """Return the names that it binds with their values."""
        inputs = [values[each] if type(each) is Name else each for each in self.inputs]
        if self.quiet:
            with np.errstate(all="ignore"):
                ans = self._computed(inputs)
        else:
            ans = self._computed(inputs)
        return zip(self.outputs, ans if type(ans) is tuple else (ans,), strict=True)

    def _computed(self, inputs: list[Any]) -> Any:
        if self.direct:
            return self.primitive.implementation(*inputs, **self.metadata)
        return apply(self.primitive, inputs, self.metadata)

    def operation(self) -> str:
        """Return the primitive with its metadata, as the graph prints them."""
        listed = ", ".join(f"{name}={_shown(value)}" for name, value in self.metadata.items())
        return f"{self.primitive.name}[{listed}]" if listed else self.primitive.name

    def __str__(self) -> str:
        inputs = "".join(f" {each if type(each) is Name else _shown(each)}" for each in self.inputs)
        return f"{', '.join(map(repr, self.outputs))} = {self.operation()}{inputs}"

    __repr__ = __str__


def _kind(value: Any) -> str:
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"


def _shown(value: Any) -> str:
    """Return a constant or an entry of the metadata in short."""
    if value is ARRAY:
        return "_"
    if value is Ellipsis:
        return "..."
    if isinstance(value, slice):
        parts = ["" if part is None else str(part) for part in (value.start, value.stop, value.step)]
        return ":".join(parts if value.step is not None else parts[:2])
    if isinstance(value, (tuple, list)):
        text = ", ".join(map(_shown, value))
        return f"[{text}]" if isinstance(value, list) else f"({text}{',' * (len(value) == 1)})"
    if isinstance(value, (np.ndarray, np.generic)):
        return str(value.tolist()) if _is_short(value) else _kind(value)
    if isinstance(value, (type, np.dtype)) and (not isinstance(value, type) or issubclass(value, np.generic)):
        return np.dtype(value).name
    return getattr(value, "__name__", None) or repr(value)


def _is_short(value: Any) -> bool:
    return len(value.shape) <= 1 and int(np.prod(value.shape)) <= _LONGEST_INLINE


# Recording


class RecordTrace(Trace):
    """Writes down each operation on its tensors, whose notes are their names in the graph.

    Attributes:
        equations: what was computed, in order.
        constants: by name, the arrays that operations took from elsewhere.
    """

    differentiates = True  # the graph may be, later
    is_program = True

    def __init__(self) -> None:
        super().__init__()
        self.equations: list[Equation] = []
        self.constants: dict[Name, Any] = {}
        self._known: dict[int, tuple[Any, Name]] = {}

    def root(self, value: Any) -> Tensor:
        """Return a new name in a box with an example of what it stands for."""
        value = value if hasattr(value, "dtype") else np.asarray(value)[()]
        return box(value, self, Name(value))

    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        if primitive.selects and any(self.follows(arg) and arg.dtype == np.bool_ for arg in args[1:]):
            raise errors.ConcretizationError("indexing with a mask", errors.users_line())
        ans = apply(primitive, [arg.value if self.follows(arg) else arg for arg in args], metadata)
        return self._written(primitive, args, metadata, ans)

    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        return list(self.record_call(call.name, lambda *each: tuple(apply_call(call, each)), leaves))

    def record_call(self, name: str, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Record the call of a function that decides for itself what it means to each trace.

        Args:
            name: as the graph prints it.
            function: of arrays and tensors by position; returns one array or tensor, or a tuple of them.
                It is called again, with the values then, whenever the graph runs.
            args: the arguments, some of them tensors of this trace.

        Raises:
            ClosureError: the function uses a tensor of this trace that is not among its arguments.
        """
        ans = function(*(arg.value if self.follows(arg) else arg for arg in args))
        if any(self.follows(settle(each)) for each in (ans if type(ans) is tuple else (ans,))):
            raise errors.ClosureError(
                f"{name} is recorded as one call and uses a recorded value, or a variable, that is not one of its "
                "arguments.\nPass it as an argument."
            )
        return self._written(Primitive(name, function), args, NOTHING, ans, direct=True)

    def follows(self, value: Any) -> bool:
        """Return whether a value is a tensor of this trace."""
        return type(value) is Tensor and value.tracing is self

    def _written(
        self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any], ans: Any, direct: bool = False
    ) -> Any:
        """Write the equation, and return its results in boxes."""
        inputs = tuple(arg.note if self.follows(arg) else self._constant(arg) for arg in args)
        outputs = tuple(self.root(each) for each in (ans if type(ans) is tuple else (ans,)))
        quiet = set(np.geterr().values()) == {"ignore"}
        names = tuple(output.note for output in outputs)
        self.equations.append(Equation(names, primitive, inputs, dict(metadata), quiet, direct))
        return outputs if type(ans) is tuple else outputs[0]

    def _constant(self, value: Any) -> Any:
        """Return a constant, which will not change when the user's array does: in short, or by its name."""
        value = settle(value)
        value = np.array(value) if isinstance(value, (list, tuple)) else value
        if not isinstance(value, np.ndarray) and type(value) is not Tensor:
            return value
        if type(value) is not Tensor and _is_short(value):
            return copy.copy(value)
        # An array that is met again is stored once, unless it was written to in the meantime.
        original, name = self._known.get(id(value), (None, None))
        if name is None or original is not value or not _unchanged(self.constants[name], value):
            name = Name(value)
            self.constants[name] = copy.copy(value)
            self._known[id(value)] = value, name
        return name

    def concrete(self, tensor: Tensor, how: str) -> Any:
        raise errors.ConcretizationError(how, errors.users_line())

    def as_array(self, tensor: Tensor) -> Any:
        raise errors.ConcretizationError("np.asarray or np.array", errors.users_line())


def _unchanged(kept: Any, value: Any) -> bool:
    if type(value) is Tensor:
        return kept.value is value.value and kept.tracing is value.tracing and kept.note is value.note
    return bool(kept.tobytes() == value.tobytes())  # bit by bit: 0.0 is not -0.0, and nan is nan


class _Reads(VariableWatch):
    """Makes each variable that is read an input of the graph, by reference.

    Attributes:
        names: the variables in the order of reading, with their names.
    """

    def __init__(self, trace: RecordTrace) -> None:
        super().__init__(cast(Any, trace))
        self.names: dict[Variable, Name] = {}
        self._found: dict[Variable, Any] = {}

    def read(self, variable: Variable, value: Any) -> Any:
        found = value
        while type(found) is Tensor:
            found = found.unbox()
        if variable not in self.names:
            self.names[variable], self._found[variable] = Name(value), found
        if found is not self._found[variable]:  # each assignment makes a new array
            raise errors.RecordedAssignmentError(
                f"variable {variable.name!r} is assigned in a function that is being recorded, and a graph holds no "
                f"assignments.\n  noticed at {errors.users_line()}\n"
                "Return the new value, and assign it outside: w.assign(graph(x))."
            )
        return box(value, self.trace, self.names[variable])

    def __exit__(self, kind: Any = None, *exception: object) -> None:
        try:
            for variable in self.names if kind is None else ():
                settle(variable)  # which raises if it has been assigned since it was read
        finally:
            super().__exit__(kind, *exception)


# The finished program


class _Arguments:
    """The arguments of the recorded call: which leaves are inputs, and what the others were.

    Args:
        function: the user's function.
        args, keywords: the recorded call.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.function = function
        leaves, self.treedef = flatten((args, keywords))
        self.values = [_array_of(leaf) for leaf in leaves]
        self.leaves: list[Any] = [
            leaf if value is None else Name(value) for leaf, value in zip(leaves, self.values, strict=True)
        ]
        self.places = _places(args, keywords)
        self.labels = [(place, path) for place, tree in self.places.items() for path in paths(tree)]
        self._treedefs = {place: flatten(tree)[1] for place, tree in self.places.items()}

    def texts(self) -> list[str]:
        """Return what the graph prints for each leaf, such as `p['w']`."""
        names = [(place_name(self.function, place), path) for place, path in self.labels]
        return [(name[1:-1] if name[0] == "'" else f"argument {name}") + path for name, path in names]

    def traced(self, trace: RecordTrace) -> Any:
        """Return the call with tensors of the trace in place of the inputs, and forget the examples."""
        pairs = zip(self.leaves, self.values, strict=True)
        traced = unflatten(self.treedef, [leaf if value is None else box(value, trace, leaf) for leaf, value in pairs])
        self.values, self.places = [], {}
        return traced

    def bind(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[Name, Any]:
        """Return the value of each input in another call.

        Raises:
            GraphInputError: the call differs in structure, shapes, dtypes or in what is no input.
        """
        leaves, treedef = flatten((args, keywords))
        if treedef != self.treedef:
            raise errors.GraphInputError(self._structures(args, keywords))
        bound = {}
        for recorded, leaf, label in zip(self.leaves, leaves, self.labels, strict=True):
            if type(recorded) is Name:
                bound[recorded] = self._fitting(recorded, leaf, label)
            elif not _same(recorded, leaf):
                raise errors.GraphInputError(
                    f"{self._argument(label)} is {leaf!r}, and the graph was recorded with {recorded!r}, which is "
                    "part of the program.\nRecord again, or record with an array, np.asarray(n), to have an input."
                )
        return bound

    def _fitting(self, name: Name, leaf: Any, label: tuple[Place, str]) -> Any:
        if type(leaf) in (int, float, complex) and np.result_type(name.dtype, leaf) == name.dtype:
            leaf = np.asarray(leaf, name.dtype)[()]
        value = _array_of(settle(leaf))
        if value is None:
            problem = f"is {leaf!r}, of type {type(leaf).__name__}", f"with an array, {_kind(name)}"
        elif value.shape != name.shape:
            problem = f"has shape {value.shape}", f"with shape {name.shape}"
        elif value.dtype != name.dtype:
            problem = f"has dtype {value.dtype}", f"with dtype {name.dtype}"
        else:
            return value
        raise errors.GraphInputError(
            f"{self._argument(label)} {problem[0]}, and the graph was recorded {problem[1]}.\n"
            f"Record it for these arguments, fg.trace({name_of(self.function)})(...), or convert the argument."
        )

    def _argument(self, label: tuple[Place, str]) -> str:
        return f"graph of {name_of(self.function)}: the argument {place_name(self.function, label[0])}{label[1]}"

    def _structures(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
        """Say how a call is made otherwise than the recorded one."""
        places = _places(args, keywords)
        if places.keys() != self._treedefs.keys():
            calls = [_outline(each) for each in (places, self._treedefs)]
            return (
                f"graph of {name_of(self.function)}: it was called with {calls[0]}, and recorded with {calls[1]}.\n"
                "Pass the arguments as they were passed, by position or by name."
            )
        differing = next(place for place, tree in places.items() if flatten(tree)[1] != self._treedefs[place])
        return (
            f"{self._argument((differing, ''))} is nested as {flatten(places[differing])[1]}, and the graph was "
            f"recorded with {self._treedefs[differing]}."
        )


def _array_of(leaf: Any) -> Any:
    """Return a leaf as the array or tensor that is an input, or None if it is part of the program."""
    if type(leaf) in BOXES and type(leaf) is not Tensor:
        return None  # a variable, which stands for itself
    value = differentiable(leaf)
    if value is None and (isinstance(leaf, (np.ndarray, np.generic)) or type(leaf) is Tensor):
        value = settle(leaf)
        return value if value.dtype.kind in "biu" else None
    return value


def _places(args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[Place, Any]:
    """Return the arguments by place, in the order in which `flatten` goes through them."""
    return {**dict(enumerate(args)), **{name: keywords[name] for name in sorted(keywords)}}


def _outline(places: Collection[Place]) -> str:
    count = sum(isinstance(place, int) for place in places)
    named = [place for place in places if isinstance(place, str)]
    text = f"{count} positional argument{'s' * (count != 1)}"
    return f"{text} and the keyword{'s' * (len(named) != 1)} {', '.join(named)}" if named else text


def _same(recorded: Any, leaf: Any) -> bool:
    """Return whether an argument that is no input is the one that was recorded."""
    if recorded is leaf or type(recorded) is not type(leaf) or type(leaf) in BOXES:
        return recorded is leaf
    return bool(np.array_equal(recorded, leaf)) if isinstance(leaf, np.ndarray) else bool(recorded == leaf)


class Graph:
    """The program of a function for arguments of certain shapes and dtypes.

    It is a function itself: it can be differentiated, batched and recorded. Variables are read when it
    runs. Integers, booleans and other things of Python's among the arguments are part of the program.

    Attributes:
        inputs: the names of the arguments' arrays, in order.
        variables: the variables that the function read, by name.
        constants: the arrays that were neither, by name; short ones stand in the equations.
        equations: the program.
        outputs: a name, or a constant, for each leaf of the result.

    Example:
        >>> import fgrad as fg
        >>> graph = trace(lambda x: np.sum(x * x))(np.ones(3))
        >>> graph
        graph of <lambda>
        inputs     a: float64[3] = x
                   b: float64[3] = multiply a a
                   c: float64[] = sum[axis=None, keepdims=False] b
        outputs    c: float64[]
        >>> graph(np.array([1.0, 2.0, 3.0])), fg.grad(graph)(np.array([1.0, 2.0, 3.0]))
        (Tensor(14.), Tensor([2., 4., 6.]))
    """

    __name__: str

    def __init__(self, arguments: _Arguments, reads: _Reads, trace: RecordTrace, result: Any) -> None:
        functools.update_wrapper(self, arguments.function, updated=())
        self.__name__ = name_of(arguments.function)
        self._arguments = arguments
        self._leaves = list(zip(arguments.leaves, arguments.texts(), strict=True))
        leaves, self._treedef = flatten(result)
        self._paths = paths(result)
        self.inputs = tuple(leaf for leaf in arguments.leaves if type(leaf) is Name)
        self.variables = {name: variable for variable, name in reads.names.items()}
        self.outputs = tuple(_output(trace, leaf) for leaf in leaves)
        self.equations, used = _needed(trace.equations, self.outputs)
        self.constants = {name: value for name, value in trace.constants.items() if name in used}
        self._spent = _last_uses(self.equations, self.outputs)
        texts = _texts()
        for name in (*self.inputs, *self.variables, *(name for each in self.equations for name in each.outputs)):
            name.text = next(texts)
        for number, name in enumerate(self.constants):
            name.text = f"k{number}"

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run the program.

        Args:
            args, keywords: as they were recorded, with any values.

        Returns:
            What the function returned, with Tensors for numbers.

        Raises:
            GraphInputError: a ValueError; an argument has another structure, shape or dtype.
        """
        values = {**self._arguments.bind(args, keywords), **self.constants}
        values.update((name, settle(variable)) for name, variable in self.variables.items())
        for equation, spent in zip(self.equations, self._spent, strict=True):
            values.update(equation.run(values))
            for name in spent:
                del values[name]
        return unflatten(self._treedef, [_fresh(values[each] if type(each) is Name else each) for each in self.outputs])

    def counts(self) -> dict[str, int]:
        """Return how often each primitive occurs.

        Example:
            >>> trace(lambda x: np.sin(x) * np.sin(2 * x))(1.0).counts()
            {'sin': 2, 'multiply': 2}
        """
        return dict(Counter(equation.primitive.name for equation in self.equations))

    def __str__(self) -> str:
        sections = {
            "inputs": [f"{leaf!r} = {label}" for leaf, label in self._leaves if type(leaf) is Name],
            "fixed": [f"{label} = {_shown(leaf)}" for leaf, label in self._leaves if type(leaf) is not Name],
            "variables": [f"{name!r} = {variable.name}" for name, variable in self.variables.items()],
            "constants": [repr(name) for name in self.constants],
            "": list(map(str, self.equations)),
            "outputs": [
                (f"{path} = " if path else "") + (repr(output) if type(output) is Name else _shown(settle(output)))
                for path, output in zip(self._paths, self.outputs, strict=True)
            ],
        }
        lines = [f"graph of {self.__name__}"]
        for title, entries in sections.items():
            lines += [f"{'' if place else title:<11}{entry}" for place, entry in enumerate(entries)]
        return "\n".join(lines)

    __repr__ = __str__

    def to_dot(self) -> str:
        r"""Return the graph in the language of Graphviz.

        Returns:
            The source of a directed graph: for `graphviz.Source`, or for the program `dot`.

        Example:
            >>> print(trace(lambda x: np.sin(x))(1.0).to_dot())
            digraph "<lambda>" {
              node [shape=box, style=rounded]
              "a" [label="a: float64[]\nx", shape=ellipse]
              "e0" [label="sin\nb: float64[]"]
              "a" -> "e0" [label="a"]
              "out0" [label="output", shape=doubleoctagon]
              "e0" -> "out0" [label="b"]
            }
        """
        sources = {name: name.text for name in (*self.inputs, *self.variables, *self.constants)}
        lines = [_node(leaf.text, [repr(leaf), label], "ellipse") for leaf, label in self._leaves if type(leaf) is Name]
        lines += [_node(name.text, [repr(name), each.name], "cylinder") for name, each in self.variables.items()]
        lines += [_node(name.text, [repr(name)], "note") for name in self.constants]
        for number, equation in enumerate(self.equations):
            lines.append(_node(f"e{number}", [equation.operation(), *map(repr, equation.outputs)]))
            lines += _edges(equation.inputs, f"e{number}", sources)
            sources.update((name, f"e{number}") for name in equation.outputs)
        for number, (path, output) in enumerate(zip(self._paths, self.outputs, strict=True)):
            lines.append(_node(f"out{number}", [f"output {path}".strip()], "doubleoctagon"))
            lines += _edges((output,), f"out{number}", sources)
        body = "".join(f"  {line}\n" for line in ["node [shape=box, style=rounded]", *lines])
        return f"digraph {_quoted(self.__name__)} {{\n{body}}}"

    def _repr_svg_(self) -> str | None:
        """Return a drawing for a notebook, or None where Graphviz is not installed."""
        try:
            graphviz = importlib.import_module("graphviz")
        except ImportError:
            return None
        try:
            return str(graphviz.Source(self.to_dot()).pipe(format="svg", encoding="utf-8"))
        except graphviz.ExecutableNotFound:
            return None


def _output(trace: RecordTrace, leaf: Any) -> Any:
    """Return a result's name, or the constant that it is."""
    if trace.follows(leaf):
        return leaf.note
    return leaf if type(leaf) is Tensor or not is_number(leaf) else Tensor(leaf)


def _fresh(value: Any) -> Any:
    """Return a result in a handle of its own, so that assignment to it changes no other."""
    value = settle(value)
    if type(value) is not Tensor and not is_number(value):
        return value
    tensor = boxed(value)
    return box(tensor.value, tensor.tracing, tensor.note)


def _needed(equations: list[Equation], outputs: Iterable[Any]) -> tuple[tuple[Equation, ...], set[Name]]:
    """Return the equations on which outputs depend, and the names that occur in them."""
    used = {output for output in outputs if type(output) is Name}
    kept = []
    for equation in reversed(equations):
        if not used.isdisjoint(equation.outputs):
            kept.append(equation)
            used.update(each for each in equation.inputs if type(each) is Name)
    return tuple(reversed(kept)), used


def _last_uses(equations: Sequence[Equation], outputs: Iterable[Any]) -> list[list[Name]]:
    """Return, for each equation, the names whose values nothing after it needs."""
    seen = {output for output in outputs if type(output) is Name}
    spent = []
    for equation in reversed(equations):
        occurring = dict.fromkeys(each for each in (*equation.inputs, *equation.outputs) if type(each) is Name)
        spent.append([name for name in occurring if name not in seen])
        seen.update(occurring)
    return spent[::-1]


def _texts() -> Iterator[str]:
    """Return a, b, ..., z, aa, ab, ..., without end."""
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_lowercase, repeat=length):
            yield "".join(letters)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _node(identity: str, lines: list[str], shape: str | None = None) -> str:
    label = "\\n".join(_quoted(line)[1:-1] for line in lines)
    return f'{_quoted(identity)} [label="{label}"{f", shape={shape}" if shape else ""}]'


def _edges(inputs: Iterable[Any], target: str, sources: Mapping[Name, str]) -> list[str]:
    names = [each for each in inputs if type(each) is Name]
    return [f'{_quoted(sources[name])} -> {_quoted(target)} [label="{name}"]' for name in names]


def _run_trace(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Graph:
    arguments = _Arguments(function, args, keywords)
    trace = RecordTrace()
    reads = _Reads(trace)
    _, results, treedef, _ = run(trace, function, lambda: arguments.traced(trace), reads)
    return Graph(arguments, reads, trace, unflatten(treedef, results))


def trace(function: Callable[P, Any]) -> Callable[P, Graph]:
    """Return a function that records what `function` computes for given arguments.

    Inputs of the graph are arrays, tensors and Python's floating-point and complex numbers, which
    become float64 and complex128. All else among the arguments (integers, booleans, texts) is part of
    the program, and so are the loops and branches that were run and random numbers that were drawn.

    Args:
        function: takes and returns arrays, numbers or containers of them. It cannot ask for values
            that depend on its inputs (`if x > 0`).

    Returns:
        A function of the same arguments that returns a `Graph`: the program, which can be printed,
        drawn and run again.

    Raises:
        ConcretizationError: a TypeError; `function` asks for a value.
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
