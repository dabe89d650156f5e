"""Filters and transformations of images with any number of axes, as in `scipy.ndimage`."""

import typing as _typing

from fgrad.scipy._absent import absent as _absent
from fgrad.scipy.ndimage.filters import convolve as convolve
from fgrad.scipy.ndimage.filters import convolve1d as convolve1d
from fgrad.scipy.ndimage.filters import correlate as correlate
from fgrad.scipy.ndimage.filters import correlate1d as correlate1d
from fgrad.scipy.ndimage.filters import gaussian_filter as gaussian_filter
from fgrad.scipy.ndimage.filters import gaussian_filter1d as gaussian_filter1d
from fgrad.scipy.ndimage.filters import gaussian_gradient_magnitude as gaussian_gradient_magnitude
from fgrad.scipy.ndimage.filters import gaussian_laplace as gaussian_laplace
from fgrad.scipy.ndimage.filters import laplace as laplace
from fgrad.scipy.ndimage.filters import prewitt as prewitt
from fgrad.scipy.ndimage.filters import sobel as sobel
from fgrad.scipy.ndimage.filters import uniform_filter as uniform_filter
from fgrad.scipy.ndimage.filters import uniform_filter1d as uniform_filter1d
from fgrad.scipy.ndimage.ranks import maximum_filter as maximum_filter
from fgrad.scipy.ndimage.ranks import median_filter as median_filter
from fgrad.scipy.ndimage.ranks import minimum_filter as minimum_filter
from fgrad.scipy.ndimage.ranks import percentile_filter as percentile_filter
from fgrad.scipy.ndimage.transforms import affine_transform as affine_transform
from fgrad.scipy.ndimage.transforms import map_coordinates as map_coordinates
from fgrad.scipy.ndimage.transforms import rotate as rotate
from fgrad.scipy.ndimage.transforms import shift as shift
from fgrad.scipy.ndimage.transforms import spline_filter as spline_filter
from fgrad.scipy.ndimage.transforms import spline_filter1d as spline_filter1d
from fgrad.scipy.ndimage.transforms import zoom as zoom

__all__ = [
    "affine_transform", "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter",
    "gaussian_filter1d", "gaussian_gradient_magnitude", "gaussian_laplace", "laplace", "map_coordinates",
    "maximum_filter", "median_filter", "minimum_filter", "percentile_filter", "prewitt", "rotate", "shift", "sobel",
    "spline_filter", "spline_filter1d", "uniform_filter", "uniform_filter1d", "zoom",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
