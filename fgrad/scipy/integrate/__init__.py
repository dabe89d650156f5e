"""Integrals and differential equations, as in `scipy.integrate`, with differentiable solutions.

solve_ivp, odeint                                  initial value problems
solve_bvp                                          boundary value problems
quad, quad_vec, fixed_quad                         integrals of functions
dblquad, tplquad, nquad                            multiple integrals
trapezoid, simpson, cumulative_trapezoid, ...      integrals of samples
"""

import typing as _typing

from fgrad.scipy._absent import absent as _absent
from fgrad.scipy.integrate.bvp import solve_bvp as solve_bvp
from fgrad.scipy.integrate.ivp import solve_ivp as solve_ivp
from fgrad.scipy.integrate.multiple import dblquad as dblquad
from fgrad.scipy.integrate.multiple import nquad as nquad
from fgrad.scipy.integrate.multiple import tplquad as tplquad
from fgrad.scipy.integrate.ode import odeint as odeint
from fgrad.scipy.integrate.quadrature import fixed_quad as fixed_quad
from fgrad.scipy.integrate.quadrature import quad as quad
from fgrad.scipy.integrate.quadrature import quad_vec as quad_vec
from fgrad.scipy.integrate.samples import cumulative_simpson as cumulative_simpson
from fgrad.scipy.integrate.samples import cumulative_trapezoid as cumulative_trapezoid
from fgrad.scipy.integrate.samples import simpson as simpson
from fgrad.scipy.integrate.samples import trapezoid as trapezoid

__all__ = [
    "cumulative_simpson", "cumulative_trapezoid", "dblquad", "fixed_quad", "nquad", "odeint", "quad", "quad_vec",
    "simpson", "solve_bvp", "solve_ivp", "tplquad", "trapezoid",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
