"""Every primitive under `vmap`, against a loop over the examples."""

import itertools
import warnings

import numpy as np
import pytest

import fgrad as fg
from fgrad.core.primitive import PRIMITIVES
from fgrad.testing import calls

NAMES = sorted(PRIMITIVES)
SIZE = 3


def identified(dtype=np.float64):
    return [
        pytest.param(name, place, id=f"{name}-{place}")
        for name in NAMES
        for place, _ in enumerate(calls(PRIMITIVES[name], dtype))
    ]


def batches_of(name, place, dtype):
    """Return the sample's function, and `SIZE` variants of its arrays stacked."""
    drawn = [list(calls(PRIMITIVES[name], dtype, seed))[place] for seed in range(SIZE)]
    stacked = [np.stack(each) for each in zip(*(call.arrays for call in drawn), strict=True)]
    return drawn[0].function, stacked


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


def assert_agree(found, expected):
    for x, y in zip(fg.tree_leaves(found), fg.tree_leaves(expected), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-12, atol=1e-13)


def test_every_primitive_has_a_batching_rule():
    assert [name for name in NAMES if PRIMITIVES[name].batch is None] == []


@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
@pytest.mark.parametrize(("name", "place"), identified())
def test_values(name, place, dtype):
    if dtype is np.complex64 and place >= len(list(calls(PRIMITIVES[name], dtype))):
        return  # the sample is one of real numbers
    f, stacked = batches_of(name, place, dtype)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="error", category=fg.errors.LoopWarning):
        for axes, arrays in variants(stacked):
            found = fg.vmap(f, in_axes=axes)(*arrays)
            expected = looped(f, arrays, axes)
            for x, y in zip(fg.tree_leaves(found), fg.tree_leaves(expected), strict=True):
                assert (x.shape, x.dtype) == (y.shape, y.dtype)
                np.testing.assert_allclose(np.asarray(x), y, rtol=1e-4 if dtype is np.complex64 else 1e-12, atol=1e-6)


def pulled(f):
    def gradients(*arrays):
        result, pullback = fg.vjp(f, *arrays)
        if isinstance(result, tuple):
            return pullback(tuple(np.cos(np.arange(r.size).reshape(r.shape)) for r in result))
        return pullback(np.cos(np.arange(result.size).reshape(result.shape)))

    return gradients


@pytest.mark.parametrize(("name", "place"), identified())
def test_gradients_of_examples(name, place):
    f, stacked = batches_of(name, place, np.float64)
    with np.errstate(all="ignore"):
        for axes, arrays in variants(stacked):
            assert_agree(fg.vmap(pulled(f), in_axes=axes)(*arrays), looped(pulled(f), arrays, axes))


@pytest.mark.parametrize(("name", "place"), identified())
def test_tangents_of_examples(name, place):
    f, stacked = batches_of(name, place, np.float64)

    def moved(*arrays):
        return fg.jvp(f, arrays, [np.cos(a) for a in arrays])[1]

    with np.errstate(all="ignore"):
        for axes, arrays in variants(stacked):
            assert_agree(fg.vmap(moved, in_axes=axes)(*arrays), looped(moved, arrays, axes))


@pytest.mark.parametrize(("name", "place"), identified())
def test_gradients_of_a_batch(name, place):
    """Reverse mode over batching, and two batches inside each other."""
    f, stacked = batches_of(name, place, np.float64)

    def by_loop(*arrays):
        results = [f(*(a[i] for a in arrays)) for i in range(SIZE)]
        if isinstance(results[0], tuple):
            return tuple(np.stack(each) for each in zip(*results, strict=True))
        return np.stack(results)

    with np.errstate(all="ignore"):
        assert_agree(pulled(fg.vmap(f))(*stacked), pulled(by_loop)(*stacked))
        twice = [np.stack([a, a[::-1]], axis=1) for a in stacked]
        found = fg.vmap(fg.vmap(f), in_axes=1)(*twice)
        forwards, backwards = fg.vmap(f)(*stacked), fg.vmap(f)(*(a[::-1] for a in stacked))
        assert_agree(found, fg.tree_map(lambda *x: np.stack(x), forwards, backwards))
