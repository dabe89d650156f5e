"""A derivative written out: the calls of NumPy that fgrad makes for it, one after the other, without a library.

`written_out` records a derivative with `fg.trace` and makes a Python function of the program, with a line for each
equation: what someone has who writes a backward pass down operation by operation, and does no algebra. fgrad's time
over its time says what fgrad costs beside NumPy, and its time over that by hand what the algebra saves.

The lines call what fgrad calls on plain arrays: a ufunc, an operator, a function of NumPy's, or a few lines of fgrad's
own over them, such as those that add at an index or that look for infinities in a product. These count as NumPy here.

It is not everywhere what fgrad does when it takes the derivative itself, so a ratio to it is no pure overhead:

- It does less where fgrad computes what nothing needs: a graph has only the equations on which its results depend. Nor
  does it decide anything by shapes and indices, which are part of the program.
- It does more where fgrad, which has the arrays at hand, has a shorter way: a product that is summed at once is two
  equations, or three; the cotangents of slices, which fgrad adds up in one array, are here each an array of zeros and
  a sum; a sum into an array that nobody else has is here a new array; the density of a normal distribution, one
  operation of values, is here a formula with masks for infinities. There fgrad may even be ahead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import fgrad as fg
from fgrad.graphs.equations import Equation, Name

from .libraries import Fgrad


class WrittenOut(Fgrad):
    """What fgrad has recorded, run as a plain Python function; to record it is not timed."""

    name = "written"

    def candidate(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], Any]:
        graph = fg.trace(function)(*args)
        leaves = zip(fg.tree_leaves(args), graph.leaves, strict=True)
        arrays = [array for array, (recorded, _) in leaves if type(recorded) is Name]
        # Without NumPy's warnings, as passes run: once around the whole, which is what fgrad pays as well.
        run = np.errstate(all="ignore")(written_out(graph))
        return lambda: run(*arrays)


def written_out(graph: fg.Graph) -> Callable[..., tuple[Any, ...]]:
    """Return a function of the arrays that are inputs of a graph, which returns a tuple of the arrays of its result.

    A split into one part is not told from an operation with one result; `Kind.check` would see it, as all else.

    Raises:
        ValueError: the program refers to what is no array: a variable, a tensor, a number of Python's as an input, or a
            call that decides only when it runs what it computes, as a loop or a compiled function.
    """
    text, values = source(graph)
    exec(compile(text, f"<{graph.__name__}, written out>", "exec"), values)
    return values["derivative"]  # type: ignore[no-any-return]


def source(graph: fg.Graph) -> tuple[str, dict[str, Any]]:
    """Return the text of the function `derivative`, and by name what it mentions."""
    if graph.variables:
        raise ValueError(f"it reads variables: {', '.join(each.name for each in graph.variables.values())}")
    mentioned = _Mentioned(graph.constants)
    lines = [f"def derivative({', '.join(map(mentioned.text, graph.inputs))}):"]
    for equation, spent in zip(graph.equations, last_uses(graph), strict=True):
        lines.append(f"    {', '.join(map(mentioned.text, equation.outputs))} = {mentioned.call(equation)}")
        if spent:
            lines.append(f"    del {', '.join(map(mentioned.text, spent))}")
    lines.append(f"    return ({''.join(f'{mentioned.text(each)}, ' for each in graph.outputs)})")
    return "\n".join(lines), mentioned.values


def last_uses(graph: fg.Graph) -> list[list[Name]]:
    """Return, for each equation, the names whose arrays are not needed after it: a large array is freed at once."""
    needed = {*filter(_is_name, graph.outputs), *graph.constants}
    spent = []
    for equation in reversed(graph.equations):
        names = dict.fromkeys(filter(_is_name, (*equation.inputs, *equation.outputs)))
        spent.append([name for name in names if name not in needed])
        needed.update(names)
    return spent[::-1]


class _Mentioned:
    """How a function's text refers to names, functions and constants.

    Attributes:
        values: what it has to find among its global names: functions, and constants that are no literals.
    """

    def __init__(self, constants: Mapping[Name, Any]) -> None:
        self.values: dict[str, Any] = {}
        self._known: dict[int, str] = {}
        for name, array in constants.items():
            self.values[self.text(name)] = _plain(array)

    def text(self, value: Any) -> str:
        """Return how to refer to a name of the graph, or to a constant."""
        if _is_name(value):
            _refuse_number(value)
            return f"v_{value.text}"  # some texts, such as `as` and `if`, are words of Python's
        return repr(value) if _is_literal(value) else self._named(value, "constant")

    def call(self, equation: Equation) -> str:
        """Return the call that computes the outputs of an equation."""
        primitive = equation.primitive
        if equation.direct:
            raise ValueError(f"{primitive.name} decides when it runs what it computes")
        function = primitive.implementation if equation.metadata else primitive.compute
        arguments = [*map(self.text, equation.inputs)]
        arguments += [f"{name}={self.text(value)}" for name, value in equation.metadata.items()]
        return f"{self._named(function, primitive.name)}({', '.join(arguments)})"

    def _named(self, value: Any, what: str) -> str:
        known = self._known.get(id(value))  # which no other has, since `values` holds this one
        if known is None:
            known = self._known[id(value)] = f"{re.sub(r'[^0-9A-Za-z_]', '_', what)}_{len(self.values)}"
            self.values[known] = _plain(value)
        return known


def _is_name(value: Any) -> bool:
    return type(value) is Name


def _is_literal(value: Any) -> bool:
    return type(value) in (int, bool, type(None), str) or (type(value) is tuple and all(map(_is_literal, value)))


def _plain(value: Any) -> Any:
    """Return a constant, in which there is no tensor.

    Raises:
        ValueError: there is one.
    """
    if any(isinstance(each, (fg.Tensor, fg.Variable)) for each in _parts(value)):
        raise ValueError("it refers to a tensor")
    return value


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from _parts(each)
    else:
        yield value


def _refuse_number(name: Name) -> None:
    """Raise ValueError for what takes the dtype of the arrays that it meets, which NumPy's numbers do not."""
    if name.is_weak:
        raise ValueError(f"{name.text} stands for a number of Python's: pass it as one of NumPy's")
