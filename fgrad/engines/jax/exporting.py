"""Graphs as StableHLO, in the format of `jax.export`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from fgrad import errors
from fgrad.engines.jax.library import in_64_bits, jax
from fgrad.engines.jax.programs import Run, prepared
from fgrad.graphs.equations import Name
from fgrad.graphs.graph import Graph, frozen


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
    block = prepared(frozen(graph))

    def function(*leaves: object) -> list[Any]:
        return list(map(jax.numpy.asarray, Run().computed(block, leaves)))

    function.__name__ = "main"
    with in_64_bits():
        forms = [_form(name) for name in graph.inputs]
        return importlib.import_module("jax.export").export(jax.jit(function), platforms=platforms)(*forms)


def _form(name: Name) -> Any:
    return jax.ShapeDtypeStruct(name.shape, name.dtype.newbyteorder("="))
