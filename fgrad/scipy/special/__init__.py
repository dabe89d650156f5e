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
from fgrad.scipy.special.bessel import (
    h1vp, h2vp, ivp, jvp, kvp, spherical_in, spherical_jn, spherical_kn, spherical_yn, yvp,
)
from fgrad.scipy.special.choices import comb, factorial, factorial2, factorialk, perm
from fgrad.scipy.special.dirichlet import diric
from fgrad.scipy.special.gammas import multigammaln
from fgrad.scipy.special.lambert import lambertw
from fgrad.scipy.special.logistic import log_softmax, logsumexp, softmax
from fgrad.scipy.special.polygammas import polygamma, zeta

__all__ = [
    "comb", "diric", "factorial", "factorial2", "factorialk", "h1vp", "h2vp", "ivp", "jvp", "kvp", "lambertw",
    "log_softmax", "logsumexp", "multigammaln", "perm", "polygamma", "softmax", "spherical_in", "spherical_jn",
    "spherical_kn", "spherical_yn", "yvp", "zeta",
]
if hasattr(_special, "sph_harm_y"):  # since SciPy 1.15
    from fgrad.scipy.special.harmonics import (
        assoc_legendre_p, assoc_legendre_p_all, legendre_p, legendre_p_all, sph_harm_y, sph_harm_y_all, sph_legendre_p,
        sph_legendre_p_all,
    )

    __all__ += [
        "assoc_legendre_p", "assoc_legendre_p_all", "legendre_p", "legendre_p_all", "sph_harm_y", "sph_harm_y_all",
        "sph_legendre_p", "sph_legendre_p_all",
    ]
# isort: on
# fmt: on

_TAKE_TENSORS = ("sinc", "softplus")
"""SciPy functions that are not ufuncs but accept tensors, because they call NumPy functions only."""

__all__ += [
    name
    for name in dir(_special)
    if name not in __all__ and (name in _TAKE_TENSORS or isinstance(getattr(_special, name), np.ufunc))
]

__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    """Return the SciPy function, which accepts tensors."""
    function = getattr(_special, name, None)
    if isinstance(function, np.ufunc) or (function is not None and name in _TAKE_TENSORS):
        return function
    reason = "scipy.special has it, but it does not accept traced tensors" if function else "nor has scipy.special"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {reason}")
