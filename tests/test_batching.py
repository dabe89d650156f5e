"""Every primitive under `vmap`, against a loop over the examples."""

import warnings

import numpy as np
import pytest
from helpers import in_groups, naming
from primitive_names import LONG, NAMES, SAMPLED, chosen

import fgrad as fg
from fgrad.core.primitive import PRIMITIVES

SIZE, OF_DERIVATIVES = 3, 2
"""How many examples a batch has: in derivatives, whose operations are checked with three, each more takes its time."""


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def batches(name, dtype, of_derivatives):
    """Yield samples of a primitive: what a failure calls each, its function, and several variants of its arrays."""
    size = OF_DERIVATIVES if of_derivatives else SIZE
    drawn = [chosen(name, dtype, seed, of_derivatives) for seed in range(size)]
    for each in zip(*drawn, strict=True):
        stacked = [np.stack(arrays) for arrays in zip(*(call.arrays for _, call in each), strict=True)]
        yield each[0][0], each[0][1].function, stacked


def looped(f, arrays, axes):
    size = next(len(a) for a, axis in zip(arrays, axes, strict=True) if axis is not None)
    results = [f(*(a if axis is None else a[i] for a, axis in zip(arrays, axes, strict=True))) for i in range(size)]
    if isinstance(results[0], tuple):
        return tuple(np.stack(each) for each in zip(*results, strict=True))
    return np.stack(results)


def variants(arrays, most):
    """Yield choices of mapped arguments, and the arrays that go with each: all of them, and then each one alone."""
    count = len(arrays)
    alone = [[place] for place in range(count)] if count > 1 else []
    for mapped in [range(count), *alone][:most]:
        axes = tuple(0 if place in mapped else None for place in range(count))
        yield axes, [a if axis == 0 else a[0] for a, axis in zip(arrays, axes, strict=True)]


def assert_agree(found, expected, rtol=1e-12, atol=1e-13):
    for x, y in zip(fg.tree_leaves(found), fg.tree_leaves(expected), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=atol)


def assert_batch_is_loop(derive, name, dtype, of_derivatives):
    """Compare for choices of mapped arguments; what single precision rounds away is no difference."""
    tolerances = {} if dtype is np.float64 else {"rtol": 1e-4, "atol": 1e-6}
    for sample, function, stacked in batches(name, dtype, of_derivatives):
        f = derive(function)
        for axes, arrays in variants(stacked, 1 if of_derivatives and name in LONG else None):
            with naming(sample, f"in_axes={axes}"):
                assert_agree(fg.vmap(f, in_axes=axes)(*arrays), looped(f, arrays, axes), **tolerances)


def test_every_primitive_has_a_batching_rule():
    assert [name for name in NAMES if PRIMITIVES[name].batch is None] == []


def check_values(name):
    with warnings.catch_warnings(action="error", category=fg.errors.LoopWarning):
        assert_batch_is_loop(lambda f: f, name, np.float64, of_derivatives=False)
        assert_batch_is_loop(lambda f: f, name, np.complex64, of_derivatives=False)


def pulled(f):
    """Return a function that gives gradients of a sum whose weights differ between the examples of a batch."""

    def gradients(*arrays):
        result, pullback = fg.vjp(f, *arrays)
        shift = sum(np.sum(np.real(each)) for each in arrays)
        return pullback(fg.tree_map(lambda r: np.cos(np.arange(r.size).reshape(r.shape) + shift), result))

    return gradients


def moved(f):
    return lambda *arrays: fg.jvp(f, arrays, [np.cos(a) for a in arrays])[1]


def derived(f):
    """Return a function that gives gradients and tangents."""
    return lambda *arrays: (*fg.tree_leaves(pulled(f)(*arrays)), *fg.tree_leaves(moved(f)(*arrays)))


def check_gradients_of_a_batch(name):
    """Reverse mode over batching, and two batches inside each other."""
    for sample, f, stacked in batches(name, np.float64, of_derivatives=True):

        def by_loop(*arrays, f=f):
            return looped(f, arrays, [0] * len(arrays))

        with naming(sample):
            assert_agree(pulled(fg.vmap(f))(*stacked), pulled(by_loop)(*stacked))
            twice = [np.stack([a, a[::-1]], axis=1) for a in stacked]
            found = fg.vmap(fg.vmap(f), in_axes=1)(*twice)
            forwards, backwards = fg.vmap(f)(*stacked), fg.vmap(f)(*(a[::-1] for a in stacked))
            assert_agree(found, fg.tree_map(lambda *x: np.stack(x), forwards, backwards))


@in_groups("name", SAMPLED)
def test_a_batch_is_a_loop(name):
    """For values, for gradients and tangents of each example, and for gradients of the batch."""
    check_values(name)
    assert_batch_is_loop(derived, name, np.float64, of_derivatives=True)
    check_gradients_of_a_batch(name)
