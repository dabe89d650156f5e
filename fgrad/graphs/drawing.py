"""Drawings of graphs, in the language of Graphviz.

dot_of(graph)     the source of a drawing
svg_of(source)    the drawing, if Graphviz is installed
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from fgrad.graphs.equations import Name, names_of


def dot_of(graph: Any) -> str:
    """Return the source of a directed graph, for `graphviz.Source` or the program `dot`."""
    sources = {name: name.text for name in (*graph.inputs, *graph.variables, *graph.constants)}
    lines = [_node(leaf.text, [repr(leaf), label], "ellipse") for leaf, label in graph.leaves if type(leaf) is Name]
    lines += [_node(name.text, [repr(name), each.name], "cylinder") for name, each in graph.variables.items()]
    lines += [_node(name.text, [repr(name)], "note") for name in graph.constants]
    for number, equation in enumerate(graph.equations):
        lines.append(_node(f"e{number}", [equation.operation(), *map(repr, equation.outputs)]))
        lines += _edges(equation.inputs, f"e{number}", sources)
        sources.update((name, f"e{number}") for name in equation.outputs)
    for number, (path, output) in enumerate(zip(graph.paths, graph.outputs, strict=True)):
        lines.append(_node(f"out{number}", [f"output {path}".strip()], "doubleoctagon"))
        lines += _edges((output,), f"out{number}", sources)
    body = "".join(f"  {line}\n" for line in ["node [shape=box, style=rounded]", *lines])
    return f"digraph {_quoted(graph.__name__)} {{\n{body}}}"


def svg_of(source: str) -> str | None:
    """Return a drawing as SVG, or None if Graphviz is not installed."""
    try:
        graphviz = importlib.import_module("graphviz")
    except ImportError:
        return None
    try:
        return str(graphviz.Source(source).pipe(format="svg", encoding="utf-8"))
    except graphviz.ExecutableNotFound:
        return None


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _node(identity: str, lines: list[str], shape: str | None = None) -> str:
    label = "\\n".join(_quoted(line)[1:-1] for line in lines)
    return f'{_quoted(identity)} [label="{label}"{f", shape={shape}" if shape else ""}]'


def _edges(inputs: Iterable[Any], target: str, sources: Mapping[Name, str]) -> list[str]:
    return [f'{_quoted(sources[name])} -> {_quoted(target)} [label="{name}"]' for name in names_of(inputs)]
