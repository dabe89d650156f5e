"""Special functions, as in `scipy.special`.

SciPy's own ufuncs accept tensors without this module: `scipy.special.gammaln(t)`. This module has all of them,
and the functions that do not dispatch, such as `softmax(x, axis=1)` and `polygamma(1, x)`. Each family of functions
has a module, which contains the derivatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.scipy import _special

# fmt: off
# isort: off
from fgrad.scipy.special import (  # noqa: F401  # they register the derivatives
    airys, bessel, distributions, elementary, elliptic, equations, errorfunctions, ferrers, hypergeometric,
    information, integrals, kolmogorovsmirnov, noncentral, polynomials, struves,
)
# isort: on
# fmt: on
from fgrad.scipy.special.bessel import h1vp as h1vp
from fgrad.scipy.special.bessel import h2vp as h2vp
from fgrad.scipy.special.bessel import ivp as ivp
from fgrad.scipy.special.bessel import jvp as jvp
from fgrad.scipy.special.bessel import kvp as kvp
from fgrad.scipy.special.bessel import spherical_in as spherical_in
from fgrad.scipy.special.bessel import spherical_jn as spherical_jn
from fgrad.scipy.special.bessel import spherical_kn as spherical_kn
from fgrad.scipy.special.bessel import spherical_yn as spherical_yn
from fgrad.scipy.special.bessel import yvp as yvp
from fgrad.scipy.special.choices import comb as comb
from fgrad.scipy.special.choices import factorial as factorial
from fgrad.scipy.special.choices import factorial2 as factorial2
from fgrad.scipy.special.choices import factorialk as factorialk
from fgrad.scipy.special.choices import perm as perm
from fgrad.scipy.special.dirichlet import diric as diric
from fgrad.scipy.special.gammas import multigammaln as multigammaln
from fgrad.scipy.special.lambert import lambertw as lambertw
from fgrad.scipy.special.logistic import log_softmax as log_softmax
from fgrad.scipy.special.logistic import logsumexp as logsumexp
from fgrad.scipy.special.logistic import softmax as softmax
from fgrad.scipy.special.polygammas import polygamma as polygamma
from fgrad.scipy.special.polygammas import zeta as zeta

if hasattr(_special, "sph_harm_y"):  # since SciPy 1.15
    from fgrad.scipy.special.harmonics import assoc_legendre_p as assoc_legendre_p
    from fgrad.scipy.special.harmonics import assoc_legendre_p_all as assoc_legendre_p_all
    from fgrad.scipy.special.harmonics import legendre_p as legendre_p
    from fgrad.scipy.special.harmonics import legendre_p_all as legendre_p_all
    from fgrad.scipy.special.harmonics import sph_harm_y as sph_harm_y
    from fgrad.scipy.special.harmonics import sph_harm_y_all as sph_harm_y_all
    from fgrad.scipy.special.harmonics import sph_legendre_p as sph_legendre_p
    from fgrad.scipy.special.harmonics import sph_legendre_p_all as sph_legendre_p_all

_TAKE_TENSORS = ("sinc", "softplus")
"""SciPy functions that are not ufuncs but accept tensors, because they call NumPy functions only."""

_UFUNCS = [name for name in dir(_special) if isinstance(getattr(_special, name), np.ufunc)]

_OWN = {name for name, value in globals().items() if getattr(value, "__module__", "").startswith(f"{__name__}.")}

__all__ = list(_OWN.union(_UFUNCS, (name for name in _TAKE_TENSORS if hasattr(_special, name))))

__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    """Return the SciPy function, which accepts tensors."""
    function = getattr(_special, name, None)
    if isinstance(function, np.ufunc) or (function is not None and name in _TAKE_TENSORS):
        return function
    reason = "scipy.special has it, but it does not accept traced tensors" if function else "nor has scipy.special"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {reason}")
