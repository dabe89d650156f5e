"""Finished graphs: the program of a function, which can be printed, run and drawn."""

from __future__ import annotations

import functools
import itertools
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor, box, boxed, strip_ended
from fgrad.core.trace import notify_copy, running
from fgrad.core.tree import flatten, paths, unflatten
from fgrad.core.variable import Variable
from fgrad.graphs.arguments import Arguments
from fgrad.graphs.drawing import dot_of, svg_of
from fgrad.graphs.equations import Equation, Name, names_of, shown
from fgrad.graphs.weak_types import shortened
from fgrad.transforms.calls import name_of
from fgrad.transforms.running import is_number, owned
from fgrad.typing import Operand


class Block:
    """Equations with inputs and outputs: a program without the containers of a function.

    Attributes:
        inputs: the names of the inputs, in order.
        constants: the constant arrays, by name; short ones are inline in the equations.
        equations: the program, without what no result needs.
        outputs: a name, or a constant, for each result.
    """

    def __init__(
        self,
        inputs: Sequence[Name],
        constants: Mapping[Name, Any],
        equations: Sequence[Equation],
        outputs: Sequence[Any],
    ) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.equations, used = _needed(equations, self.outputs)
        self.constants = {name: value for name, value in constants.items() if name in used}

    def with_ends(self, inputs: Sequence[Name], outputs: Sequence[Any]) -> Block:
        """Return the same program with other inputs, and with outputs that have the same names among them."""
        block = Block(inputs, {}, (), outputs)
        block.equations, block.constants = self.equations, self.constants
        return block

    @functools.cached_property
    def _spent(self) -> list[list[Name]]:
        """For each equation, the names whose values are not used after it."""
        return _last_uses(self.equations, self.outputs)

    def computed(self, bound: Mapping[Name, Any]) -> list[Any]:
        """Return the results for values of the inputs."""
        values = {**bound, **self.constants}
        around = running.place
        try:
            for equation, spent in zip(self.equations, self._spent, strict=True):
                running.place = equation.place or around  # for another recording
                values.update(equation.run(values))
                for name in spent:
                    del values[name]
        finally:
            running.place = around
        return [values[each] if type(each) is Name else each for each in self.outputs]


class Graph(Block):
    """The program of a function for arguments of certain shapes and dtypes.

    It is itself a function: it can be differentiated, batched and recorded. Variables are read when it runs. Integers,
    booleans and other Python objects among the arguments are static.

    Attributes:
        variables: the variables that the function read, by name.
        leaves: the recorded arguments, each with its text in the printed graph.
        paths: the path to each leaf of the result.
        treedef: the structure of the result.
        meets_other_traces: whether the function has used values traced by other transforms.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> graph = fg.trace(lambda x: np.sum(x * x))(np.ones(3))
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

    def __init__(self, arguments: Arguments, variables: Mapping[Variable, Name], trace: Any, result: Any) -> None:
        functools.update_wrapper(self, arguments.function, updated=())
        self.__name__ = name_of(arguments.function)
        self._arguments = arguments
        self.leaves = list(zip(arguments.leaves, arguments.texts(), strict=True))
        leaves, self.treedef = flatten(result)
        self.paths = paths(result)
        inputs = [leaf for leaf in arguments.leaves if type(leaf) is Name]
        self.meets_other_traces: bool = trace.meets_others
        outputs = [output_of(trace, leaf) for leaf in leaves]
        super().__init__(inputs, trace.constants, shortened(trace.equations, outputs), outputs)
        self.variables = {name: variable for variable, name in variables.items()}
        results = itertools.chain.from_iterable([each.outputs for each in self.equations])
        for name, text in zip(itertools.chain(self.inputs, self.variables, results), _texts(), strict=False):
            name.text = text
        for number, name in enumerate(self.constants):
            name.text = f"k{number}"

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run the program.

        Args:
            args, keywords: arguments of the recorded structure, with any values.

        Returns:
            The results of the function, with Tensors for numbers.

        Raises:
            GraphInputError: a ValueError; an argument has another structure, shape or dtype.
        """
        bound = self._arguments.bind(args, keywords)
        variables = {name: strip_ended(variable) for name, variable in self.variables.items()}
        results = list(map(_fresh, self.computed({**bound, **variables})))
        return unflatten(self.treedef, owned(results, bound.values()))

    def counts(self) -> dict[str, int]:
        """Return how often each primitive occurs.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> fg.trace(lambda x: np.sin(x) * np.sin(2 * x))(1.0).counts()
            {'sin': 2, 'multiply': 2}
        """
        return dict(Counter(equation.primitive.name for equation in self.equations))

    def __str__(self) -> str:
        sections = {
            "inputs": [f"{leaf!r} = {label}" for leaf, label in self.leaves if type(leaf) is Name],
            "fixed": [f"{label} = {shown(leaf)}" for leaf, label in self.leaves if type(leaf) is not Name],
            "variables": [f"{name!r} = {variable.name}" for name, variable in self.variables.items()],
            "constants": [repr(name) for name in self.constants],
            "": list(map(str, self.equations)),
            "outputs": [
                (f"{path} = " if path else "") + (repr(output) if type(output) is Name else shown(strip_ended(output)))
                for path, output in zip(self.paths, self.outputs, strict=True)
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
            >>> import numpy as np, fgrad as fg
            >>> print(fg.trace(lambda x: np.sin(x))(1.0).to_dot())
            digraph "<lambda>" {
              node [shape=box, style=rounded]
              "a" [label="a: float64[]\nx", shape=ellipse]
              "e0" [label="sin\nb: float64[]"]
              "a" -> "e0" [label="a"]
              "out0" [label="output", shape=doubleoctagon]
              "e0" -> "out0" [label="b"]
            }
        """
        return dot_of(self)

    def export(self, platforms: Sequence[str] | None = None) -> bytes:
        """Return the program as StableHLO, which runs without fgrad, NumPy and Python.

        The bytes are those of `jax.export`, which can load them: `jax.export.deserialize(data).call(*inputs)`. The
        inputs are the arrays that the graph prints as inputs, in that order; the results are a list. Variables have
        their current values. Where NumPy would raise, as for a singular matrix or an index out of range, the result has
        NaNs.

        Args:
            platforms: the target platforms, such as `("cpu", "cuda", "tpu")`; by default that of JAX on this machine.

        Returns:
            The program.

        Raises:
            MissingExtraError: an ImportError; JAX is not installed: `pip install 'fgrad[jax]'`.
            NotLoweredError: a NotImplementedError; JAX has no counterpart of an operation.
        """
        return EXPORT[0](self, platforms)

    def _repr_svg_(self) -> str | None:
        """Return a drawing for a notebook, or None if Graphviz is not installed."""
        return svg_of(self.to_dot())


EXPORT: list[Callable[[Graph, Sequence[str] | None], bytes]] = []
"""The function that exports graphs to other libraries."""


def frozen(graph: Graph) -> Block:
    """Return the program of a graph with the current values of variables as constants."""
    values = {name: np.array(strip_ended(variable)) for name, variable in graph.variables.items()}
    outputs = list(map(strip_ended, graph.outputs))
    return Block(graph.inputs, {**graph.constants, **values}, graph.equations, outputs)


def output_of(trace: Any, leaf: Any) -> Any:
    """Return the name of a result, or its constant value."""
    if trace.follows(leaf):
        return leaf._mark
    return leaf if type(leaf) is Tensor or not is_number(leaf) else Tensor(leaf)


def _fresh(value: Operand) -> Any:
    """Return a result as a new tensor object, so that an assignment to it changes no other."""
    value = strip_ended(value)
    if type(value) is not Tensor and not is_number(value):
        return value
    tensor = boxed(value if type(value) is Tensor or hasattr(value, "dtype") else np.asarray(value)[()])
    return notify_copy(box(tensor._payload, tensor._trace, tensor._mark))


def _needed(equations: Sequence[Equation], outputs: Iterable[Any]) -> tuple[tuple[Equation, ...], set[Name]]:
    """Return the equations on which outputs depend, and the names that occur in them."""
    used = set(names_of(outputs))
    kept = []
    for equation in reversed(equations):
        if not used.isdisjoint(equation.outputs):
            kept.append(equation)
            used.update(names_of(equation.inputs))
    return tuple(reversed(kept)), used


def _last_uses(equations: Sequence[Equation], outputs: Iterable[Any]) -> list[list[Name]]:
    """Return, for each equation, the names whose values are not used after it."""
    seen = set(names_of(outputs))
    spent = []
    for equation in reversed(equations):
        occurring = dict.fromkeys([*names_of(equation.inputs), *equation.outputs])
        spent.append([name for name in occurring if name not in seen])
        seen.update(occurring)
    return spent[::-1]


def _texts() -> Iterator[str]:
    """Return a, b, ..., z, aa, ab, ..., without end."""
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_lowercase, repeat=length):
            yield "".join(letters)
