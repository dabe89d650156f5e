"""Programs that JAX runs, against NumPy: every primitive's samples, special values, loops, transforms, devices."""

import itertools
import os
import pickle
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.special as scipys
from helpers import naming
from primitive_names import SAMPLED

import fgrad as fg
from fgrad import errors
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import apply
from fgrad.extend import register_primitive
from fgrad.graphs.equations import Name
from fgrad.testing import calls

jax = pytest.importorskip("jax")
jnp = jax.numpy

from fgrad.engines.jax.library import in_64_bits  # noqa: E402  # only where there is JAX
from fgrad.engines.jax.programs import Run  # noqa: E402
from fgrad.engines.jax.table import NAMES, is_lowered  # noqa: E402

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "accelerators.md"

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def in_jax(function):
    return fg.compile(function, backend="jax")


def leaves_of(tree):
    return [np.asarray(leaf) for leaf in fg.tree_leaves(tree)]


def check(found, wanted, tolerance=1e-11):
    for x, y in zip(leaves_of(found), leaves_of(wanted), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        if y.dtype.kind not in "fc":
            np.testing.assert_array_equal(x, y)
            continue
        scale = np.max(np.abs(y[np.isfinite(y)]), initial=0)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale)


# Every primitive

LOWERED = [name for name in SAMPLED if is_lowered(name)]
OF_NUMPY = [name for name in LOWERED if not NAMES.get(name, "").startswith("scipy.special")]
PARTLY = {
    "argmax", "argmin", "cofactors", "dawsn", "erf", "erfc", "erfcx", "erfinv", "exp1", "expi", "fresnel", "gamma",
    "gammaln", "hyp1f1", "hyp2f1", "interp", "log_ndtr", "ndtr", "psi", "rgamma", "spence",
}  # fmt: skip
"""Primitives of which some samples are refused: complex arguments, mostly."""

TOLERANCES = {np.float64: 1e-11, np.complex128: 1e-11, np.float32: 1e-4}
"""Of float32, sums in another order, and logarithms of numbers next to 1, leave four digits."""


def recorded(names, dtype, most=None):
    """Return the samples of primitives with their graphs."""
    found = []
    for name in names:
        for call in itertools.islice(calls(PRIMITIVES[name], dtype), most):
            try:
                found.append((name, call.arrays, fg.trace(call.function)(*call.arrays)))
            except errors.ConcretizationError:  # its shape depends on values
                continue
    return found


def run_together(samples):
    """Return what JAX makes of samples in one program; None where it refuses one."""

    def together(inputs):
        found = []
        for (_, _, graph), arrays in zip(samples, inputs, strict=True):
            run = Run()
            try:
                results = [jnp.asarray(x) for x in run.computed(graph, arrays)]
            except errors.NotLoweredError:
                results = None
            found.append((results, run.failed() if run.failures else None))
        return found

    with in_64_bits():  # without optimization, which takes most of the time
        jitted = jax.jit(together, compiler_options={"xla_backend_optimization_level": 0})
        return jitted([[np.asarray(x) for x in arrays] for _, arrays, _ in samples])


def check_samples(samples, tolerance):
    refused = set()
    for (name, arrays, graph), (found, failed) in zip(samples, run_together(samples), strict=True):
        if found is None:
            refused.add(name)
            continue
        with naming(name, *map(np.shape, arrays)):
            wanted = [
                x if type(x) is not Name else y for x, y in zip(graph.outputs, leaves_of(graph(*arrays)), strict=True)
            ]
            assert failed is None or not failed
            check(found, wanted, tolerance)
    assert refused <= PARTLY


@pytest.mark.parametrize("part", range(6))
def test_values_of_every_primitive(part):
    names = LOWERED[part::6]
    check_samples(recorded(names, np.float64), 1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_values_in_other_dtypes(dtype):
    check_samples(recorded(OF_NUMPY, dtype, 1), TOLERANCES[dtype])


def test_the_page_names_what_has_no_counterpart():
    missing = [name for name in sorted(PRIMITIVES) if name in SAMPLED and not is_lowered(name)]
    text = ", ".join(f"`{name}`" for name in missing)
    shown = re.search(r"<!-- without a counterpart -->\n(.*?)\n<!-- end -->", PAGE.read_text(), re.DOTALL)
    assert shown is not None and " ".join(shown[1].split()) == text, text
