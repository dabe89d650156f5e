"""Derivatives of ordinary Python and NumPy code: transforms of functions into gradient functions.

    >>> import numpy as np, fgrad as fg
    >>> fg.grad(lambda x: x**2 * np.sin(x))(2.0)
    Tensor(1.97260236)

The main names, each with its own help:

    grad, value_and_grad, gradients_function, implicit_gradients, GradientTape        gradients
    jvp, vjp, hvp, jacobian, hessian, vmap                                            products, matrices, batches
    custom_jvp, custom_vjp, implicit_diff, checkpoint, stop_gradient                  custom rules, solvers
    sparsity, sparse_jacobian, sparse_hessian                                         matrices that are mostly zeros
    random, score_function                                                            random numbers
    scan, fori_loop, while_loop, map, cond, switch                                    loops and branches
    tree, tree_map, tree_leaves                                                       nested containers
    explain, check, debug_nans, debug_overwrites, profile, trace                      diagnosis
    compile, load_exported, to_jax                                                    native code, for speed; C; JAX
    propagate, standard_errors, parameter_covariance                                  error bars
    Tensor, constant, Variable, optimizers, save, load                                parameters and training
    fgrad.scipy.optimize, linalg, special, stats, signal, interpolate, integrate      SciPy
    fgrad.interop                                                                     JAX and PyTorch functions
    fgrad.distributed                                                                 data on a cluster of machines
    fgrad.numpy, fgrad.plot, fgrad.progress, fgrad.extend, fgrad.testing              more
"""

import functools as _functools
import importlib as _importlib
import sys as _sys
import warnings as _warnings

import lazy_loader as _lazy_loader

from fgrad._locks import imported as _imported
from fgrad.errors import hints as _hints

__version__ = "0.2.0"

if hasattr(_sys, "_is_gil_enabled") and not _sys._is_gil_enabled():
    _warnings.warn(
        "fgrad is not tested on Python without its global interpreter lock, where threads may get wrong gradients; "
        "PYTHON_GIL=1 in the environment turns it on",
        RuntimeWarning,
        stacklevel=2,
    )

# The stub next to this file lists the names and where they are defined.
_find, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)


_WITHOUT_CORE = "errors", "load_exported"


def _load(name):
    if name not in _WITHOUT_CORE:
        _importlib.import_module("fgrad.core")  # first, so that threads import it in one order
    return _find(name)


def __getattr__(name):
    if name in __all__:
        return _imported(_functools.partial(_load, name))
    raise _hints.missing_name(__name__, name)
