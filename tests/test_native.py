"""Native programs against NumPy: every primitive's samples, special values, integers, keys, and the last bits."""

import itertools

import mpmath
import numpy as np
import pytest
from helpers import naming
from primitive_names import SAMPLED

import fgrad as fg
from fgrad import errors
from fgrad.core.primitive import PRIMITIVES, UFUNCS
from fgrad.graphs.equations import Name
from fgrad.native.executable import Executable
from fgrad.native.scalars import FLOATS_ONLY, OPERATIONS
from fgrad.testing import calls

pytest.importorskip("llvmlite")

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.3, 1e-310, -1e-310, 1e-45, 3e38, -1e30, np.inf, -np.inf, np.nan]
"""Numbers at which operations decide; in single precision some are others of these."""


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def compiled(function, *arrays):
    """Return what runs a function natively, and the graph of which it was made."""
    graph = fg.trace(function)(*arrays)
    return Executable(graph), graph


def results(function, *arrays):
    """Return the results of a native program, those of the recorded one, and what NumPy ran of it."""
    executable, graph = compiled(function, *arrays)
    given = [np.ascontiguousarray(x, name.dtype).reshape(name.shape) for x, name in zip(arrays, graph.inputs, strict=True)]
    found = executable.run(given)
    leaves = [np.asarray(x) for x in fg.tree_leaves(graph(*arrays))]
    wanted = [x for x, name in zip(leaves, graph.outputs, strict=True) if type(name) is Name]
    assert found is not None
    return found, wanted, executable.program.refused


def check(found, wanted, tolerance):
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, wanted)
        return
    scale = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale)


# Every primitive


def recordable(name, dtype):
    """Return the sample calls of a primitive that a graph can hold: all but those whose shape depends on values."""
    found = []
    for call in calls(PRIMITIVES[name], dtype):
        try:
            fg.trace(call.function)(*call.arrays)
        except errors.ConcretizationError:
            continue
        found.append(call)
    return found


def together(group):
    """Return the calls of a group as one function, and the arrays that it takes."""
    ends = np.cumsum([0, *(len(call.arrays) for call in group)])

    def function(*arrays):
        parts = [arrays[a:b] for a, b in itertools.pairwise(ends)]
        return [call.function(*part) for call, part in zip(group, parts, strict=True)]

    return function, [x for call in group for x in call.arrays]


def weighed(function):
    """Return the sum of all that a function returns, each number with a weight of its own."""

    def total(*arrays):
        leaves = [x for x in fg.tree_leaves(function(*arrays)) if x.dtype.kind == "f" and x.size]
        return sum(np.sum(x * np.linspace(0.5, 1.5, x.size, dtype=x.dtype).reshape(x.shape)) for x in leaves)

    return total


TOLERANCES = {np.float64: 1e-12, np.float32: 2e-5}


@pytest.mark.parametrize("name", SAMPLED)
def test_values_of_every_primitive(name):
    for dtype, tolerance in TOLERANCES.items():
        group = recordable(name, dtype)
        if group:
            for found, wanted in zip(*results(*_with_arrays(group))[:2], strict=True):
                with naming(np.dtype(dtype)):
                    check(found, wanted, tolerance)


def _with_arrays(group):
    function, arrays = together(group)
    return function, *arrays


@pytest.mark.parametrize("name", [name for name in SAMPLED if PRIMITIVES[name].vjps is not None])
def test_gradients_of_every_primitive(name):
    group = recordable(name, np.float64)
    function, arrays = together(group)
    places = tuple(place for place, x in enumerate(arrays) if x.dtype.kind == "f")
    if places and any(x.dtype.kind == "f" for x in fg.tree_leaves(function(*arrays))):
        derivative = fg.value_and_grad(weighed(function), places)
        for found, wanted in zip(*results(derivative, *arrays)[:2], strict=True):
            check(found, wanted, 1e-9)
