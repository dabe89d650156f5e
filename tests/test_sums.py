"""Sums that rules take on the way: whether an array is finite, and products that are added up as they are made."""

import itertools

import numpy as np
import pytest

from fgrad.core.unbroadcast import is_finite, summed_product

SIZES = (1, 300, 10_000, 10_001, 25_000)
LAYOUTS = {
    "a vector": lambda x: x,
    "backwards": lambda x: x[::-1],
    "every other": lambda x: np.repeat(x, 2)[::2],
    "columns": lambda x: np.asfortranarray(np.stack([x, x])),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("char", "fdFD")
@np.errstate(all="ignore")  # as in a pass
def test_whatever_is_not_finite_is_seen_anywhere(char, layout):
    for size in SIZES:
        x = np.random.default_rng(0).normal(size=size).astype(char)
        assert is_finite(LAYOUTS[layout](x))
        for place, bad in itertools.product({0, size // 2, size - 1}, (np.nan, np.inf, -np.inf)):
            spoiled = x.copy()
            spoiled[place] = bad
            assert not is_finite(LAYOUTS[layout](spoiled)), (size, place, bad)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("char", "fd")
def test_products_are_added_up(char, layout):
    rng = np.random.default_rng(0)
    for size in SIZES:
        x, y = (LAYOUTS[layout](rng.normal(size=size).astype(char)) for _ in range(2))
        for shape in {(), (1,) * x.ndim, (*x.shape[:-1], 1), (1, *x.shape[1:])}:
            axes = tuple(range(x.ndim)) if not shape else tuple(a for a in range(x.ndim) if shape[a] != x.shape[a])
            products = x.astype(float) * y
            expected = np.sum(products, axis=axes).reshape(shape)
            rounding = np.finfo(char).eps * np.sum(np.abs(products), axis=axes).max()
            np.testing.assert_allclose(summed_product(x, y, shape), expected, rtol=0, atol=rounding)
