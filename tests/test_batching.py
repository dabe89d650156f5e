"""Every primitive under `vmap`, against a loop over the examples."""

import itertools
import warnings

import numpy as np
import pytest
from helpers import naming
from primitive_names import NAMES, SAMPLED

import fgrad as fg
from fgrad.core.primitive import PRIMITIVES
from fgrad.testing import calls

SIZE = 3


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def batches(name, dtype):
    """Yield each sample of a primitive: what a failure calls it, its function, and `SIZE` variants of its arrays."""
    drawn = [calls(PRIMITIVES[name], dtype, seed) for seed in range(SIZE)]
    for place, each in enumerate(zip(*drawn, strict=True)):
        stacked = [np.stack(arrays) for arrays in zip(*(call.arrays for call in each), strict=True)]
        yield f"sample {place} of {np.dtype(dtype)}", each[0].function, stacked


def looped(f, arrays, axes):
    results = [f(*(a if axis is None else a[i] for a, axis in zip(arrays, axes, strict=True))) for i in range(SIZE)]
    if isinstance(results[0], tuple):
        return tuple(np.stack(each) for each in zip(*results, strict=True))
    return np.stack(results)


def variants(arrays):
    """Yield every choice of mapped arguments, and the arrays that go with it."""
    for axes in itertools.product((0, None), repeat=len(arrays)):
        if any(axis == 0 for axis in axes):
            yield axes, [a if axis == 0 else a[0] for a, axis in zip(arrays, axes, strict=True)]


def assert_agree(found, expected, rtol=1e-12, atol=1e-13):
    for x, y in zip(fg.tree_leaves(found), fg.tree_leaves(expected), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=atol)


def assert_batch_is_loop(derive, name, dtype):
    """Compare for every choice of mapped arguments; what single precision rounds away is no difference."""
    tolerances = {} if dtype is np.float64 else {"rtol": 1e-4, "atol": 1e-6}
    for sample, function, stacked in batches(name, dtype):
        f = derive(function)
        for axes, arrays in variants(stacked):
            with naming(sample, f"in_axes={axes}"):
                assert_agree(fg.vmap(f, in_axes=axes)(*arrays), looped(f, arrays, axes), **tolerances)


def test_every_primitive_has_a_batching_rule():
    assert [name for name in NAMES if PRIMITIVES[name].batch is None] == []


@pytest.mark.parametrize("name", SAMPLED)
def test_values(name):
    with warnings.catch_warnings(action="error", category=fg.errors.LoopWarning):
        assert_batch_is_loop(lambda f: f, name, np.float64)
        assert_batch_is_loop(lambda f: f, name, np.complex64)


def pulled(f):
    def gradients(*arrays):
        result, pullback = fg.vjp(f, *arrays)
        if isinstance(result, tuple):
            return pullback(tuple(np.cos(np.arange(r.size).reshape(r.shape)) for r in result))
        return pullback(np.cos(np.arange(result.size).reshape(result.shape)))

    return gradients


def moved(f):
    return lambda *arrays: fg.jvp(f, arrays, [np.cos(a) for a in arrays])[1]


@pytest.mark.parametrize("name", SAMPLED)
def test_gradients_and_tangents_of_examples(name):
    assert_batch_is_loop(pulled, name, np.float64)
    assert_batch_is_loop(moved, name, np.float64)


@pytest.mark.parametrize("name", SAMPLED)
def test_gradients_of_a_batch(name):
    """Reverse mode over batching, and two batches inside each other."""
    for sample, f, stacked in batches(name, np.float64):

        def by_loop(*arrays, f=f):
            return looped(f, arrays, [0] * len(arrays))

        with naming(sample):
            assert_agree(pulled(fg.vmap(f))(*stacked), pulled(by_loop)(*stacked))
            twice = [np.stack([a, a[::-1]], axis=1) for a in stacked]
            found = fg.vmap(fg.vmap(f), in_axes=1)(*twice)
            forwards, backwards = fg.vmap(f)(*stacked), fg.vmap(f)(*(a[::-1] for a in stacked))
            assert_agree(found, fg.tree_map(lambda *x: np.stack(x), forwards, backwards))
