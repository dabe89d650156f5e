"""Interpolation, as in `scipy.interpolate`."""

import typing as _typing

from fgrad.scipy._absent import absent as _absent

# fmt: off
# isort: off
from fgrad.scipy.interpolate.bsplines import BSpline, make_interp_spline
from fgrad.scipy.interpolate.cubic import (
    Akima1DInterpolator, CubicHermiteSpline, CubicSpline, PchipInterpolator, pchip_interpolate,
)
from fgrad.scipy.interpolate.grids import RegularGridInterpolator, interpn
from fgrad.scipy.interpolate.lines import interp1d
from fgrad.scipy.interpolate.pieces import PPoly
# isort: on

__all__ = [
    "Akima1DInterpolator", "BSpline", "CubicHermiteSpline", "CubicSpline", "PPoly", "PchipInterpolator",
    "RegularGridInterpolator", "interp1d", "interpn", "make_interp_spline", "pchip_interpolate",
]
# fmt: on

__dir__ = __all__.copy

if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
