"""Graphs as StableHLO, in the format of `jax.export`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.tensor import strip_ended
from fgrad.engines.jax.library import in_64_bits, jax
from fgrad.engines.jax.programs import Run, check_known
from fgrad.graphs.equations import Name
from fgrad.graphs.graph import Block, Graph
from fgrad.graphs.loop_invariants import simplified
from fgrad.graphs.rerolling import rerolled


def exported(graph: Graph, platforms: Sequence[str] | None) -> bytes:
    """Return the program of a graph: a function of its inputs that returns a list of results.

    Raises:
        MissingExtraError: the serialization library of JAX is not installed.
    """
    program = written(graph, platforms)
    try:
        return bytes(program.serialize())
    except ImportError:
        raise errors.MissingExtraError(
            "graph.export() needs the library flatbuffers, which is not installed: pip install 'fgrad[jax]'"
        ) from None


def written(graph: Graph, platforms: Sequence[str] | None) -> Any:
    """Return the exported JAX program of a graph."""
    values = {name: np.asarray(strip_ended(variable)) for name, variable in graph.variables.items()}
    constants = {**graph.constants, **values}
    block = simplified(rerolled(Block(graph.inputs, constants, graph.equations, graph.outputs)))
    check_known(block)

    def function(*leaves: object) -> list[Any]:
        return [jax.numpy.asarray(strip_ended(x)) for x in Run().computed(block, leaves)]

    function.__name__ = "main"
    with in_64_bits():
        forms = [_form(name) for name in graph.inputs]
        return importlib.import_module("jax.export").export(jax.jit(function), platforms=platforms)(*forms)


def _form(name: Name) -> Any:
    return jax.ShapeDtypeStruct(name.shape, name.dtype.newbyteorder("="))
