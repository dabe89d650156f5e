"""Solvers, as in `scipy.optimize`, with exact derivatives as inputs and differentiable results.

root, fsolve, root_scalar, brentq, newton, ...     roots
fixed_point                                        fixed points
minimize, minimize_scalar                          minima, also over containers and under constraints
differential_evolution, shgo, basinhopping, ...    global minima
linprog, nnls, lsq_linear                          linear programs, bounded least squares
isotonic_regression, linear_sum_assignment         monotonic fits, optimal assignments
Bounds, LinearConstraint, NonlinearConstraint      SciPy's own
least_squares, curve_fit                           fits, with exact Jacobians and covariances
rosen, rosen_der, rosen_hess, rosen_hess_prod      Rosenbrock's function, a test problem
"""

import typing as _typing

from scipy.optimize import Bounds as Bounds
from scipy.optimize import LinearConstraint as LinearConstraint
from scipy.optimize import NonlinearConstraint as NonlinearConstraint
from scipy.optimize import OptimizeResult as OptimizeResult

from fgrad.scipy._absent import absent as _absent

# fmt: off
# isort: off
from fgrad.scipy.optimize.choices import isotonic_regression, linear_sum_assignment
from fgrad.scipy.optimize.everywhere import basinhopping, differential_evolution, dual_annealing, shgo
from fgrad.scipy.optimize.fitting import curve_fit, least_squares
from fgrad.scipy.optimize.minimizing import minimize, minimize_scalar
from fgrad.scipy.optimize.programs import linprog, lsq_linear, nnls
from fgrad.scipy.optimize.roots import (
    bisect, brenth, brentq, fixed_point, fsolve, newton, ridder, root, root_scalar, toms748,
)
from fgrad.scipy.optimize.rosenbrock import rosen, rosen_der, rosen_hess, rosen_hess_prod
# isort: on

__all__ = [
    "basinhopping", "bisect", "brenth", "brentq", "curve_fit", "differential_evolution", "dual_annealing",
    "fixed_point", "fsolve", "isotonic_regression", "least_squares", "linear_sum_assignment", "linprog",
    "lsq_linear", "minimize", "minimize_scalar", "newton", "nnls", "ridder", "root", "root_scalar", "rosen",
    "rosen_der", "rosen_hess", "rosen_hess_prod", "shgo", "toms748",
]
# fmt: on

__dir__ = __all__.copy

_METHODS_OF_FMIN = {
    "bfgs": "BFGS",
    "cg": "CG",
    "cobyla": "COBYLA",
    "l_bfgs_b": "L-BFGS-B",
    "ncg": "Newton-CG",
    "powell": "Powell",
    "slsqp": "SLSQP",
    "tnc": "TNC",
}
_METHODS_OF_ROOT = ("anderson", "broyden1", "broyden2", "diagbroyden", "excitingmixing", "linearmixing")
_INSTEAD = {
    **{f"fmin_{name}": f'minimize(f, x0, method="{method}").x' for name, method in _METHODS_OF_FMIN.items()},
    "fmin": 'minimize(f, x0, method="Nelder-Mead").x',
    **{name: f"minimize_scalar(f, method={name!r}).x" for name in ("brent", "golden")},
    "fminbound": "minimize_scalar(f, bounds=(a, b)).x",
    "leastsq": 'least_squares(f, x0, method="lm").x',
    **{name: f"root(f, x0, method={name!r}).x" for name in _METHODS_OF_ROOT},
    "newton_krylov": 'root(f, x0, method="krylov").x',
    "brute": "differential_evolution(f, bounds).x, or minimize(f, x0).x from the best point of a grid",
    "direct": "differential_evolution(f, bounds).x, or minimize(f, x0).x from the result of direct for plain numbers",
    "approx_fprime": "fg.grad(f)(x), which is exact",
    "check_grad": "fgrad.testing.check_grads(f, (x,))",
    "milp": "linprog with equal bounds for the integers that milp finds for plain numbers",
}

if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__, _INSTEAD)
