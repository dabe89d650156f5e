"""HIPS Autograd's names on fgrad: `from fgrad.compat import autograd`, `import fgrad.compat.autograd.numpy as np`.

    grad, value_and_grad, jacobian, hessian, elementwise_grad, ...     derivatives, as NumPy arrays
    extend: primitive, defvjp, defjvp                                  functions with user-defined rules
    numpy, scipy, misc, builtins, test_util, core, tracer              the modules of Autograd
    install()                                                          redirect `import autograd` in this process

    >>> from fgrad.compat.autograd import grad
    >>> import fgrad.compat.autograd.numpy as np
    >>> grad(lambda x: np.sum(np.tanh(x)))(np.array([0.0, 1.0]))
    array([1.        , 0.41997434])

`python -m fgrad.compat.autograd script.py` runs a program that imports autograd.
"""

from fgrad.compat.autograd import (
    builtins,
    core,
    differential_operators,
    extend,
    misc,
    numpy,
    tracer,
    util,
    vspaces,
    wrap_util,
)
from fgrad.compat.autograd.aliases import install
from fgrad.compat.autograd.builtins import dict, isinstance, list, tuple, type
from fgrad.compat.autograd.differential_operators import (
    checkpoint,
    deriv,
    egrad,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_jvp_reversemode,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)
from fgrad.compat.autograd.primitives import primitive

__version__ = "1.9.1"
"""The version of Autograd with these names."""

__all__ = [
    "builtins", "checkpoint", "core", "deriv", "dict", "differential_operators", "egrad", "elementwise_grad", "extend",
    "grad", "grad_and_aux", "grad_named", "hessian", "hessian_tensor_product", "hessian_vector_product",
    "holomorphic_grad", "install", "isinstance", "jacobian", "list", "make_ggnvp", "make_hvp", "make_jvp",
    "make_jvp_reversemode", "make_vjp", "misc", "multigrad_dict", "numpy", "primitive", "tensor_jacobian_product",
    "tracer", "tuple", "type", "util", "value_and_grad", "vector_jacobian_product", "vspaces", "wrap_util",
]  # fmt: skip
