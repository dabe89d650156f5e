"""Integrals and differential equations, as in `scipy.integrate`, with differentiable solutions.

solve_ivp, odeint                                  initial value problems
solve_bvp                                          boundary value problems
quad, quad_vec, fixed_quad                         integrals of functions
dblquad, tplquad, nquad                            multiple integrals
trapezoid, simpson, cumulative_trapezoid, ...      integrals of samples
"""

import typing as _typing

from fgrad.scipy._absent import absent as _absent
from fgrad.scipy.integrate.bvp import solve_bvp
from fgrad.scipy.integrate.ivp import solve_ivp
from fgrad.scipy.integrate.multiple import dblquad, nquad, tplquad
from fgrad.scipy.integrate.ode import odeint
from fgrad.scipy.integrate.quadrature import fixed_quad, quad, quad_vec
from fgrad.scipy.integrate.samples import cumulative_simpson, cumulative_trapezoid, simpson, trapezoid

__all__ = [
    "cumulative_simpson", "cumulative_trapezoid", "dblquad", "fixed_quad", "nquad", "odeint", "quad", "quad_vec",
    "simpson", "solve_bvp", "solve_ivp", "tplquad", "trapezoid",
]  # fmt: skip

__dir__ = __all__.copy

if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
