"""Integrals and differential equations, as in `scipy.integrate`: their solutions are differentiated.

solve_ivp, odeint                                  initial value problems
quad, quad_vec, dblquad, fixed_quad                integrals of functions
trapezoid, simpson, cumulative_trapezoid, ...      integrals of samples
"""

from fgrad.scipy.integrate.ivp import solve_ivp as solve_ivp
from fgrad.scipy.integrate.ode import odeint as odeint
from fgrad.scipy.integrate.quadrature import dblquad as dblquad
from fgrad.scipy.integrate.quadrature import fixed_quad as fixed_quad
from fgrad.scipy.integrate.quadrature import quad as quad
from fgrad.scipy.integrate.quadrature import quad_vec as quad_vec
from fgrad.scipy.integrate.samples import cumulative_simpson as cumulative_simpson
from fgrad.scipy.integrate.samples import cumulative_trapezoid as cumulative_trapezoid
from fgrad.scipy.integrate.samples import simpson as simpson
from fgrad.scipy.integrate.samples import trapezoid as trapezoid
