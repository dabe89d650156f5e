"""Filters and transformations of images with any number of axes, as in `scipy.ndimage`."""

import typing as _typing

from fgrad.scipy._absent import absent as _absent

# fmt: off
# isort: off
from fgrad.scipy.ndimage.filters import (
    convolve, convolve1d, correlate, correlate1d, gaussian_filter, gaussian_filter1d, gaussian_gradient_magnitude,
    gaussian_laplace, laplace, prewitt, sobel, uniform_filter, uniform_filter1d,
)
from fgrad.scipy.ndimage.ranks import maximum_filter, median_filter, minimum_filter, percentile_filter
from fgrad.scipy.ndimage.transforms import (
    affine_transform, map_coordinates, rotate, shift, spline_filter, spline_filter1d, zoom,
)
# isort: on

__all__ = [
    "affine_transform", "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter",
    "gaussian_filter1d", "gaussian_gradient_magnitude", "gaussian_laplace", "laplace", "map_coordinates",
    "maximum_filter", "median_filter", "minimum_filter", "percentile_filter", "prewitt", "rotate", "shift", "sobel",
    "spline_filter", "spline_filter1d", "uniform_filter", "uniform_filter1d", "zoom",
]
# fmt: on

__dir__ = __all__.copy

if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
