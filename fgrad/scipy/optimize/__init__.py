"""Solvers, as in `scipy.optimize`: they get exact derivatives, and what they find is differentiated.

root, fsolve, root_scalar, brentq, newton, ...     roots
fixed_point                                        fixed points
minimize, minimize_scalar                          minima, of functions of containers too
least_squares, curve_fit                           fits, with exact Jacobians and covariances
rosen, rosen_der, rosen_hess, rosen_hess_prod      Rosenbrock's function, to try minimizers on
"""

import typing as _typing

from fgrad.scipy._absent import absent as _absent
from fgrad.scipy.optimize.fitting import curve_fit as curve_fit
from fgrad.scipy.optimize.fitting import least_squares as least_squares
from fgrad.scipy.optimize.minimizing import minimize as minimize
from fgrad.scipy.optimize.minimizing import minimize_scalar as minimize_scalar
from fgrad.scipy.optimize.roots import bisect as bisect
from fgrad.scipy.optimize.roots import brenth as brenth
from fgrad.scipy.optimize.roots import brentq as brentq
from fgrad.scipy.optimize.roots import fixed_point as fixed_point
from fgrad.scipy.optimize.roots import fsolve as fsolve
from fgrad.scipy.optimize.roots import newton as newton
from fgrad.scipy.optimize.roots import ridder as ridder
from fgrad.scipy.optimize.roots import root as root
from fgrad.scipy.optimize.roots import root_scalar as root_scalar
from fgrad.scipy.optimize.roots import toms748 as toms748
from fgrad.scipy.optimize.rosenbrock import rosen as rosen
from fgrad.scipy.optimize.rosenbrock import rosen_der as rosen_der
from fgrad.scipy.optimize.rosenbrock import rosen_hess as rosen_hess
from fgrad.scipy.optimize.rosenbrock import rosen_hess_prod as rosen_hess_prod

if not _typing.TYPE_CHECKING:  # which is to find a name that is not there
    __getattr__ = _absent(__name__)
