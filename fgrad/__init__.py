"""Derivatives of ordinary Python and NumPy code. A function goes in, a gradient function comes out.

    >>> import numpy as np, fgrad as fg
    >>> fg.grad(lambda x: x**2 * np.sin(x))(2.0)
    Tensor(1.97260236)

What there is, each with its own help:

    grad, value_and_grad, gradients_function, implicit_gradients, GradientTape        gradients
    jvp, vjp, hvp, jacobian, hessian, vmap                                            products, matrices, batches
    custom_jvp, custom_vjp, implicit_diff, checkpoint, stop_gradient                  rules of one's own
    sparsity, sparse_jacobian, sparse_hessian                                         matrices that are mostly zeros
    random, score_function                                                            random numbers
    scan, fori_loop, while_loop, map, cond, switch                                    loops and branches
    explain, check, debug_nans, debug_overwrites, profile, trace                                        finding out
    compile, to_jax                                                                   native code, for speed; JAX
    propagate, standard_errors, parameter_covariance                                  error bars
    Tensor, constant, Variable, optimizers, save, load                                parameters and training
    fgrad.scipy.optimize, linalg, special, stats, signal, interpolate, integrate      SciPy
    fgrad.interop                                                                     functions of JAX and PyTorch
    fgrad.distributed                                                                 data on a cluster of machines
    fgrad.numpy, fgrad.plot, fgrad.progress, fgrad.extend, fgrad.testing              more
"""

import typing as _typing

from fgrad import errors as errors
from fgrad import ops as ops
from fgrad import optimizers as optimizers
from fgrad import plot as plot
from fgrad import progress as progress
from fgrad import random as random
from fgrad.clipping import clip_by_global_norm as clip_by_global_norm
from fgrad.clipping import clip_by_norm as clip_by_norm
from fgrad.clipping import clip_by_value as clip_by_value
from fgrad.clipping import global_norm as global_norm
from fgrad.core.snapshots import debug_overwrites as debug_overwrites
from fgrad.core.tensor import Tensor as Tensor
from fgrad.core.tree import register_pytree_node as register_pytree_node
from fgrad.core.tree import tree_leaves as tree_leaves
from fgrad.core.tree import tree_map as tree_map
from fgrad.core.variable import Variable as Variable
from fgrad.debugging import showing as showing
from fgrad.debugging.check import check as check
from fgrad.debugging.explain import explain as explain
from fgrad.debugging.notes import debug_lines as debug_lines
from fgrad.debugging.notes import debug_nans as debug_nans
from fgrad.debugging.profiling import profile as profile
from fgrad.engines.jax.functions import to_jax as to_jax
from fgrad.errors import hints as _names
from fgrad.graphs.graph import Graph as Graph
from fgrad.graphs.record import trace as trace
from fgrad.interop import blocks as _blocks  # noqa: F401  # which lets arrays of dask in
from fgrad.interop import columns as _columns  # noqa: F401  # which lets columns of pandas in
from fgrad.interop import interchange as interchange
from fgrad.interop import matrices as _matrices  # noqa: F401  # which lets sparse matrices of SciPy in
from fgrad.interop import twins as _twins  # noqa: F401  # which finds functions of SciPy's here, for errors
from fgrad.interop import ufuncs as _ufuncs  # noqa: F401  # which lets SciPy's in
from fgrad.interop.containers import register_dataclass as register_dataclass
from fgrad.loops.choosing import cond as cond
from fgrad.loops.choosing import switch as switch
from fgrad.loops.scanning import map as map
from fgrad.loops.scanning import scan as scan
from fgrad.loops.turning import fori_loop as fori_loop
from fgrad.loops.turning import while_loop as while_loop
from fgrad.native import loading as _loading  # noqa: F401  # which makes native code
from fgrad.native.compiled import Compiled as Compiled
from fgrad.native.compiled import compile as compile
from fgrad.native.reports import Inspection as Inspection
from fgrad.ops.creation import constant as constant
from fgrad.ops.creation import convert_to_tensor as convert_to_tensor
from fgrad.ops.shaping import stack as stack
from fgrad.optimizers.averages import ExponentialMovingAverage as ExponentialMovingAverage
from fgrad.patterns.matrices import sparse_hessian as sparse_hessian
from fgrad.patterns.matrices import sparse_jacobian as sparse_jacobian
from fgrad.patterns.matrices import sparsity as sparsity
from fgrad.patterns.plans import SparsePlan as SparsePlan
from fgrad.rules.checkpoint import checkpoint as checkpoint
from fgrad.rules.custom import custom_gradient as custom_gradient
from fgrad.rules.custom import custom_jvp as custom_jvp
from fgrad.rules.custom import custom_vjp as custom_vjp
from fgrad.rules.implicit import implicit_diff as implicit_diff
from fgrad.rules.score import score_function as score_function
from fgrad.saving import load as load
from fgrad.saving import save as save
from fgrad.tapes.accumulator import ForwardAccumulator as ForwardAccumulator
from fgrad.tapes.tape import GradientTape as GradientTape
from fgrad.tapes.tape import gradients as gradients
from fgrad.transforms.batch import vmap as vmap
from fgrad.transforms.forward import jvp as jvp
from fgrad.transforms.jacobians import elementwise_grad as elementwise_grad
from fgrad.transforms.jacobians import gauss_newton_vp as gauss_newton_vp
from fgrad.transforms.jacobians import hessian as hessian
from fgrad.transforms.jacobians import hvp as hvp
from fgrad.transforms.jacobians import jacfwd as jacfwd
from fgrad.transforms.jacobians import jacobian as jacobian
from fgrad.transforms.jacobians import jacrev as jacrev
from fgrad.transforms.jacobians import linearize as linearize
from fgrad.transforms.laplacian import laplacian as laplacian
from fgrad.transforms.linearization import UnconnectedGradients as UnconnectedGradients
from fgrad.transforms.reverse import grad as grad
from fgrad.transforms.reverse import gradients_function as gradients_function
from fgrad.transforms.reverse import implicit_gradients as implicit_gradients
from fgrad.transforms.reverse import implicit_value_and_gradients as implicit_value_and_gradients
from fgrad.transforms.reverse import make_vjp as make_vjp
from fgrad.transforms.reverse import stop_gradient as stop_gradient
from fgrad.transforms.reverse import value_and_grad as value_and_grad
from fgrad.transforms.reverse import value_and_gradients_function as value_and_gradients_function
from fgrad.transforms.reverse import vjp as vjp
from fgrad.transforms.taylor import derivatives as derivatives
from fgrad.transforms.taylor import taylor as taylor
from fgrad.uncertainty import parameter_covariance as parameter_covariance
from fgrad.uncertainty import propagate as propagate
from fgrad.uncertainty import standard_errors as standard_errors

__version__ = "0.1.0"

if not _typing.TYPE_CHECKING:  # which is to find a name that is not there

    def __getattr__(name):
        raise _names.missing_name(__name__, name)
