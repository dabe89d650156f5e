"""What fgrad does with the functions of `scipy.ndimage`: rows for the coverage page, and for the tests."""

from functools import partial
from typing import Any

import numpy as np
from coverage_table import Row, complex_too, real

from fgrad.scipy import ndimage

_RNG = np.random.default_rng(5)
LINE, IMAGE = _RNG.normal(size=6), _RNG.normal(size=(4, 5))
WEIGHTS, KERNEL = np.array([0.5, 1.2, -0.7]), _RNG.normal(size=(2, 3))
LEVEL, WIDTH = np.array(0.7), np.array(0.83)
PLACES = np.array([[0.3, 2.7, -1.2, 1.4], [1.2, 3.6, 2.2, -0.7]])
MATRIX, OFFSET = np.array([[0.87, 0.23], [-0.31, 1.07]]), np.array([0.3, -0.4])


def _filter(name: str, **options: Any) -> Any:
    return partial(getattr(ndimage, name), **options)


def _row(name: str, *calls: Any, word: Any = real) -> Row:
    return word(f"fgrad.scipy.ndimage.{name}", *calls)


def _sums(name: str, weights: Any) -> Row:
    f = getattr(ndimage, name)
    return _row(
        name,
        (f, IMAGE, weights),
        (lambda x, w, c: f(x, w, mode="constant", cval=c), IMAGE, weights, LEVEL),
        (_filter(name, mode="wrap", origin=-1), IMAGE, weights),
        word=complex_too,
    )


def _of_derivatives(name: str) -> Row:
    """In SciPy, the mode of an axis holds for all axes while the derivative along this one is taken."""
    return _row(
        name,
        (_filter(name, sigma=0.8, truncate=2), IMAGE),
        (_filter(name, sigma=(0.8, 1.1), mode=["reflect", "wrap"]), IMAGE),
        (_filter(name, sigma=0.7, mode="nearest", axes=(-1,)), IMAGE),
    )


def _chosen(name: str, *args: Any) -> Row:
    f = getattr(ndimage, name)
    return _row(
        name,
        (lambda x: f(x, *args, size=3), IMAGE),
        (lambda x: f(x, *args, footprint=[[0, 1], [1, 1]], mode="mirror"), IMAGE),
    )


ROWS: list[Row] = [
    _sums("correlate1d", WEIGHTS),
    _sums("convolve1d", WEIGHTS[:2]),
    _sums("correlate", KERNEL),
    _sums("convolve", KERNEL),
    _row("uniform_filter1d", (_filter("uniform_filter1d", size=4, axis=0), IMAGE)),
    _row("uniform_filter", (_filter("uniform_filter", size=(2, 3), mode="nearest"), IMAGE)),
    _row(
        "gaussian_filter1d",
        (_filter("gaussian_filter1d", sigma=0.9, mode="wrap"), LINE),
        (_filter("gaussian_filter1d", sigma=1.1, order=2, axis=0, radius=2), IMAGE),
    ),
    _row("gaussian_filter", (_filter("gaussian_filter", sigma=(0.9, 1.2), order=(0, 1)), IMAGE)),
    _row("sobel", (_filter("sobel", axis=0), IMAGE)),
    _row("prewitt", (_filter("prewitt", mode="mirror"), IMAGE)),
    _row("laplace", (ndimage.laplace, IMAGE)),
    _of_derivatives("gaussian_laplace"),
    _of_derivatives("gaussian_gradient_magnitude"),
    _row("spline_filter1d", (_filter("spline_filter1d", axis=0), IMAGE), (_filter("spline_filter1d", order=1), LINE)),
    _row("spline_filter", (_filter("spline_filter", order=5, mode="reflect"), IMAGE)),
    _row(
        "map_coordinates",
        (ndimage.map_coordinates, IMAGE, PLACES),
        (_filter("map_coordinates", order=2, mode="wrap"), IMAGE, PLACES),
        (_filter("map_coordinates", order=4, mode="nearest"), LINE, PLACES[:1]),
        (lambda x, c: ndimage.map_coordinates(x, PLACES, mode="grid-constant", cval=c), IMAGE, LEVEL),
    ),
    _row(
        "zoom",
        (_filter("zoom", zoom=(1.7, 0.6), order=2), IMAGE),
        (_filter("zoom", zoom=2, grid_mode=True, mode="reflect"), LINE),
    ),
    _row("shift", (lambda x, s: ndimage.shift(x, [s, -0.4], mode="reflect"), IMAGE, WIDTH)),
    _row(
        "affine_transform",
        (_filter("affine_transform", mode="mirror"), IMAGE, MATRIX, OFFSET),
        (_filter("affine_transform", mode="nearest", order=1, output_shape=(3, 2)), IMAGE, MATRIX[0], OFFSET),
    ),
    _row("rotate", (_filter("rotate", reshape=False, mode="mirror"), IMAGE, np.array(21.0))),
    _chosen("maximum_filter"),
    _chosen("minimum_filter"),
    _chosen("median_filter"),
    _chosen("percentile_filter", 20),
]
