"""Interpolation, as in `scipy.interpolate`."""

import typing as _typing

from fgrad.scipy._absent import absent as _absent
from fgrad.scipy.interpolate.bsplines import BSpline as BSpline
from fgrad.scipy.interpolate.bsplines import make_interp_spline as make_interp_spline
from fgrad.scipy.interpolate.cubic import Akima1DInterpolator as Akima1DInterpolator
from fgrad.scipy.interpolate.cubic import CubicHermiteSpline as CubicHermiteSpline
from fgrad.scipy.interpolate.cubic import CubicSpline as CubicSpline
from fgrad.scipy.interpolate.cubic import PchipInterpolator as PchipInterpolator
from fgrad.scipy.interpolate.cubic import pchip_interpolate as pchip_interpolate
from fgrad.scipy.interpolate.grids import RegularGridInterpolator as RegularGridInterpolator
from fgrad.scipy.interpolate.grids import interpn as interpn
from fgrad.scipy.interpolate.lines import interp1d as interp1d
from fgrad.scipy.interpolate.pieces import PPoly as PPoly

__all__ = [
    "Akima1DInterpolator", "BSpline", "CubicHermiteSpline", "CubicSpline", "PPoly", "PchipInterpolator",
    "RegularGridInterpolator", "interp1d", "interpn", "make_interp_spline", "pchip_interpolate",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
