"""Hints for unknown names: the equivalents in fgrad of names of other libraries.

missing_attribute(owner, name)     the error for an attribute of a tensor, variable or optimizer (`__getattr__`)
missing_name(module, name)         the error for a name of a module
refuse_keywords(called, keywords)  raises if a function or class was called with unknown keywords
@names_keywords                    makes a function raise that error
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import numpy as np

from fgrad import errors

F = TypeVar("F", bound=Callable[..., Any])

_OF_TENSORS = {
    "backward": "gradients are returned, not stored: fg.grad(f)(x), or tape.gradient(y, x)",
    "grad": "gradients are returned, not stored: fg.grad(f)(x), or tape.gradient(y, x)",
    "requires_grad": "make it an fg.Variable, or call tape.watch(x); fg.grad(f)(x) needs neither",
    "requires_grad_": "make it an fg.Variable, or call tape.watch(x); fg.grad(f)(x) needs neither",
    "detach": "fg.stop_gradient(x)",
    "detach_": "fg.stop_gradient(x)",
    "grad_fn": "fg.explain(tape, y, x) and fg.trace(f)(x) show what was recorded",
    "value": "a traced tensor has none, since a derivative would be lost; x.item() and x.numpy() give the plain value",
    "primitive": "fg.trace(f)(x) shows what was recorded",
    "at": "elements can be assigned: y = np.copy(x); y[i] = value",
    "clone": "x.copy()",
    "cpu": "omit it: tensors hold NumPy arrays",
    "cuda": "tensors hold NumPy arrays, on the CPU",
    "to": "x.astype(dtype)",
    "float": "x.astype(np.float32)",
    "double": "x.astype(np.float64)",
    "long": "x.astype(np.int64)",
    "int": "x.astype(np.int32)",
    "type": "x.dtype, or x.astype(dtype)",
    "dim": "x.ndim",
    "numel": "x.size",
    "get_shape": "x.shape",
    "block_until_ready": "omit it: values are computed immediately",
    "eval": "x.numpy()",
    "assign": "only an fg.Variable can be assigned to: w = fg.Variable(x)",
    "assign_add": "only an fg.Variable can be assigned to: w = fg.Variable(x)",
    "assign_sub": "only an fg.Variable can be assigned to: w = fg.Variable(x)",
    "unsqueeze": "np.expand_dims(x, axis)",
    "permute": "np.transpose(x, axes)",
    "norm": "np.linalg.norm(x)",
    "det": "np.linalg.det(x)",
    "inverse": "np.linalg.inv(x)",
    "contiguous": "omit it: tensors hold NumPy arrays",
    "retain_grad": "gradients are returned, not stored: tape.gradient(y, [x, z]) takes intermediate results, too",
    "register_hook": "@fg.custom_gradient of the identity, whose rule gets the cotangent",
    "t": "x.T",
    "new_zeros": "np.zeros_like(x, shape=shape)",
    "new_ones": "np.ones_like(x, shape=shape)",
    "unbind": "list(x)",
    "add_": "x += y",
    "sub_": "x -= y",
    "mul_": "x *= y",
    "div_": "x /= y",
    "zero_": "x[...] = 0",
    "fill_": "x[...] = value",
    "copy_": "x[...] = value",
}

_OF_ARRAYS = {
    "add": "x + y",
    "sub": "x - y",
    "mul": "x * y",
    "div": "x / y",
    "neg": "-x",
    "pow": "x**y",
    "mm": "x @ y",
    "bmm": "x @ y",
    "mv": "x @ y",
    "cat": "np.concatenate(arrays, axis)",
    "chunk": "np.array_split(x, n, axis)",
    "clamp": "np.clip(x, low, high)",
    "expand": "np.broadcast_to(x, shape)",
    "gather": "np.take_along_axis(x, indices, axis)",
    "index_select": "np.take(x, indices, axis)",
    "masked_fill": "np.where(mask, value, x)",
    "masked_select": "x[mask]",
    "one_hot": "np.eye(n)[labels]",
    "repeat_interleave": "np.repeat(x, n, axis)",
    "rsqrt": "1 / np.sqrt(x)",
    "where": "np.where(condition, x, y)",
    "topk": "np.sort(x)[..., -k:]",
    "erf": "scipy.special.erf(x)",
    "digamma": "scipy.special.digamma(x)",
    "relu": "np.maximum(x, 0)",
    "sigmoid": "scipy.special.expit(x)",
    "softmax": "fgrad.scipy.special.softmax(x)",
    "log_softmax": "fgrad.scipy.special.log_softmax(x)",
    "logsumexp": "fgrad.scipy.special.logsumexp(x)",
}
"""Functions of arrays in other libraries, which are methods there, too."""

_OF_OPTIMIZERS = {
    "step": "optimizer.minimize(loss), or optimizer.apply_gradients(pairs of gradient and variable)",
    "zero_grad": "omit it: gradients are returned, not accumulated in variables",
    "param_groups": "the hyper-parameters are attributes, such as optimizer.learning_rate",
    "lr": "optimizer.learning_rate",
    "get_gradients": "optimizer.compute_gradients(loss)",
    "get_weights": "optimizer.state_dict()",
    "set_weights": "optimizer.load_state_dict(state)",
}

_OF_TENSORFLOW = (
    "Session", "cast", "contrib", "get_variable", "global_variables_initializer", "keras", "layers", "losses",
    "placeholder", "reduce_max", "reduce_mean", "reduce_sum", "summary", "train", "variable_scope",
)  # fmt: skip

_OF_MODULES = {
    "jit": "omit it: Python's if, for and while work; or use fg.compile, for speed",
    "pmap": "fg.vmap(f)",
    "lax": "fg.scan, fg.fori_loop, fg.while_loop, fg.map, fg.cond and fg.switch, or Python's if, for and while; "
    "and NumPy's functions",
    "nn": "a layer is a function of variables or of a container of arrays: np.maximum(x @ w + b, 0)",
    "Module": "a model is a function of variables, or any object that holds them",
    "no_grad": "outside of a tape nothing is recorded; inside of one, `with tape.stop_recording():`",
    "tensor": "fg.constant(value)",
    "make_jvp": "fg.jvp(f, primals, tangents)",
    "make_hvp": "fg.hvp(f)(x, v)",
    "elementwise_gradient": "fg.elementwise_grad(f)",
    "derivative": "fg.grad(f)(x)",
    "egrad": "fg.elementwise_grad(f)",
    "holomorphic_grad": "fg.jvp(f, (z,), (1 + 0j,))[1]",
    "check_grads": "fgrad.testing.check_grads(f, args)",
    "make_jaxpr": "fg.trace(f)(x)",
    "defvjp": "fgrad.extend.defvjp, or @fg.custom_vjp",
    "defjvp": "fgrad.extend.defjvp, or @fg.custom_jvp",
    "apply_updates": "optimizer.update(grads, state, params) returns the new parameters and the new state",
    "function": "omit it; or use fg.compile, for speed",
    "enable_eager_execution": "omit it; for TensorFlow's names, import fgrad.compat.tensorflow as tf",
    "SGD": "GradientDescent(learning_rate), or Momentum(learning_rate, momentum)",
    "sgd": "GradientDescent(learning_rate), or Momentum(learning_rate, momentum)",
    "exponential_decay": "schedules.ExponentialDecay(initial_learning_rate, decay_steps, decay_rate)",
    "ravel_pytree": "fg.tree.ravel(tree)",
    "flatten_util": "fg.tree.ravel(tree)",
    "tree_util": "fg.tree",
    "tree.all": "all(fg.tree.leaves(tree))",
    "tree.reduce": "functools.reduce(f, fg.tree.leaves(tree))",
    "tree_flatten": "fg.tree.flatten(tree)",
    "tree_unflatten": "fg.tree.unflatten(treedef, leaves)",
    "tree_structure": "fg.tree.structure(tree)",
    "remat": "fg.checkpoint(f)",
    "eval_shape": "call f and look at .shape and .dtype; fg.trace(f)(x) shows those of each operation",
    "ShapeDtypeStruct": "call f with an array, and look at .shape and .dtype of what it returns",
    "device_put": "leave it out: arrays are NumPy's; fg.compile(f, backend='jax', device='gpu') runs f on a device",
    "device_get": "x.numpy() of a tensor; fg.to_numpy(tree) of a container",
    "devices": "leave it out: arrays are NumPy's; fg.compile(f, backend='jax', device='gpu') runs f on a device",
    "block_until_ready": "leave it out: values are always there",
    "gradient": "fg.grad(f)(x), the derivative of a function; np.gradient(y) takes differences of values",
    "diff": "fg.grad(f)(x), the derivative of a function; np.diff(y) takes differences of values",
    "D": "fg.grad(f)(x)",
    "vhp": "fg.hvp(f)(x, v): a Hessian is symmetric",
    "hessp": "fg.hvp(f)(x, v), and hessp=fg.hvp(f) in scipy.optimize.minimize",
    "jac": "fg.jacobian(f)(x)",
    "hess": "fg.hessian(f)(x)",
    "detach": "fg.stop_gradient(x)",
    "backward": "gradients are returned, not stored: fg.grad(f)(x), or tape.gradient(y, x)",
    "enable_grad": "omit it: fg.grad and tapes record by themselves",
    "set_grad_enabled": "omit it: outside of a tape nothing is recorded",
    "optim": "fg.optimizers",
    "optimizer": "fg.optimizers",
    "optimize": "fgrad.scipy.optimize, with SciPy's minimizers; fg.optimizers, with Adam and others",
    "minimize": "fgrad.scipy.optimize.minimize(f, x0), SciPy's; or optimizer.minimize(loss) of fg.optimizers",
    "curve_fit": "fgrad.scipy.optimize.curve_fit(f, x, y, p0), SciPy's",
    "least_squares": "fgrad.scipy.optimize.least_squares(residuals, x0), SciPy's",
    "root": "fgrad.scipy.optimize.root(f, x0), SciPy's",
    "solve_ivp": "fgrad.scipy.integrate.solve_ivp(f, (t0, t1), y0), SciPy's",
    "odeint": "fgrad.scipy.integrate.odeint(f, y0, t), SciPy's",
    "quad": "fgrad.scipy.integrate.quad(f, a, b), SciPy's",
    "associative_scan": "np.cumsum and its kin, or fg.scan, one element after the other",
    "Parameter": "fg.Variable(value)",
    "float32": "np.float32; arrays of it stay of it",
    "float64": "np.float64",
    "dtypes": "NumPy's, such as np.float32",
    "vectorize": "fg.vmap(f)",
    "io_callback": "leave it out: Python runs as it is, print too; under fg.compile it runs when f is recorded",
    "njit": "fg.compile(f)",
    "config": "leave it out: dtypes are NumPy's, so float64 is the default; options are keywords of functions",
    "save_model": "fg.save(path, params)",
    "load_model": "fg.load(path)",
    "PRNGKey": "a generator, which has a state of its own: rng = fg.random.default_rng(seed)",
    "random.key": "a generator, which has a state of its own: rng = fg.random.default_rng(seed)",
    "random.split": "rng.spawn(n) makes n independent generators of one",
    "random.fold_in": "fg.random.default_rng([seed, number])",
    "hessian_vector_product": "fg.hvp(f)(x, v)",
    "hessian_tensor_product": "fg.hvp(f)(x, v)",
    "vector_jacobian_product": "fg.vjp(f, x)[1](ct)",
    "jacobian_vector_product": "fg.jvp(f, (x,), (v,))",
    "multigrad": "fg.grad(f, argnums=(0, 1))",
    "multigrad_dict": "fg.grad(f) of a function of one dict",
    "grad_and_aux": "fg.grad(f, has_aux=True)",
    "value_and_jacobian": "fg.vjp(f, x) gives the value and products with the Jacobian",
    "pure_callback": "leave it out: Python runs as it is; fg.custom_vjp(f) gives a rule to what is no NumPy",
    "Array": "fg.Tensor",
    "from_numpy": "omit it: functions take NumPy arrays; fg.constant(array) makes a tensor of one",
    "as_tensor": "omit it: functions take NumPy arrays; fg.constant(array) makes a tensor of one",
    "is_tensor": "isinstance(x, fg.Tensor), or fg.is_traced(x)",
    "inference_mode": "outside of a tape nothing is recorded; inside of one, `with tape.stop_recording():`",
    "manual_seed": "a generator, which has a state of its own: rng = fg.random.default_rng(seed)",
    "random.seed": "a generator, which has a state of its own: rng = fg.random.default_rng(seed)",
    "rand": "np.random.default_rng(seed).random(shape)",
    "randn": "np.random.default_rng(seed).normal(size=shape)",
    "cuda": "leave it out: arrays are NumPy's; fg.compile(f, backend='jax', device='gpu') runs f on a device",
    "device": "leave it out: arrays are NumPy's; fg.compile(f, backend='jax', device='gpu') runs f on a device",
    "autograd": "fg.grad and the other transforms; for the names of HIPS Autograd, import fgrad.compat.autograd",
    "func": "fg.grad, fg.vmap, fg.jvp and the others: they are names of fgrad itself",
    "make_ggnvp": "fg.gauss_newton_vp(f)(x, v)",
    "deriv": "fg.jvp(f, (x,), (1.0,))[1]",
    "grad_named": "fg.grad(f, argnums='name')",
    "value_and_multigrad": "fg.value_and_grad(f, argnums=(0, 1))",
    "primitive": "fgrad.extend.register_primitive(f), or @fg.custom_vjp",
    "getval": "x.numpy(), or fg.stop_gradient(x)",
    "recompute_grad": "fg.checkpoint(f)",
    "case": "Python's if, or fg.switch(index, functions, x)",
    "map_fn": "fg.map(f, xs), or fg.vmap(f)(xs)",
    "vectorized_map": "fg.vmap(f)(xs)",
    "LBFGS": "fgrad.scipy.optimize.minimize(f, x0, method='L-BFGS-B')",
    "chain": "apply the steps one after the other: clip the gradients, then optimizer.update(grads, state, params)",
    "StepLR": "schedules.ExponentialDecay(rate, decay_steps, decay_rate, staircase=True)",
    "ExponentialLR": "schedules.ExponentialDecay(rate, 1, decay_rate)",
    "CosineAnnealingLR": "schedules.CosineDecay(rate, decay_steps)",
    "cosine_decay_schedule": "schedules.CosineDecay(rate, decay_steps)",
    "piecewise_constant_schedule": "schedules.PiecewiseConstantDecay(boundaries, values)",
    "polynomial_schedule": "schedules.PolynomialDecay(rate, decay_steps, end_rate, power)",
    **dict.fromkeys(_OF_TENSORFLOW, "for TensorFlow's names, import fgrad.compat.tensorflow as tf"),
}
"""Names by themselves, or after a module's name, such as `random.split` of `fgrad.random`."""

_AREAS_OF_SCIPY = ("integrate", "interpolate", "ndimage", "signal", "spatial", "special", "stats")

_OF_KEYWORDS = {
    "lr": "learning_rate",
    "step_size": "learning_rate",
    "eta": "learning_rate",
    "alpha": "learning_rate",
    "RMSProp.alpha": "decay",
    "RMSProp.rho": "decay",
    "eps": "epsilon",
    "betas": "beta1 and beta2",
    "beta_1": "beta1",
    "beta_2": "beta2",
    "b1": "beta1",
    "b2": "beta2",
    "mass": "momentum",
    "mu": "momentum",
    "nesterov": "use_nesterov",
    "wd": "weight_decay",
    "argnum": "argnums",
    "argnames": "argnums",
    "wrt": "argnums",
    "in_dims": "in_axes",
    "out_dims": "out_axes",
    "in_axis": "in_axes",
    "out_axis": "out_axes",
    "static_argnums": "static",
    "static_argnames": "static",
    "body_fun": "body",
    "cond_fun": "cond",
    "init_val": "init",
    "fun": "function",
    "func": "function",
    "gradients_function.argnums": "params",
    "value_and_gradients_function.argnums": "params",
    "make_vjp.argnums": "params",
}
"""What a keyword of another library is called here, if the function or class has it; by itself, or after its name."""

_WITHOUT_KEYWORD = {
    "params": "leave it out: variables are named by minimize(loss, var_list=[...]), or found as those that loss reads",
    "decay": "a schedule: learning_rate=schedules.InverseTimeDecay(rate, decay_steps, decay_rate)",
    "argnum": "a function of the argument that is meant: lambda y: f(x, y)",
    "argnums": "a function of the argument that is meant: lambda y: f(x, y)",
    "static_argnums": "leave it out: arguments that are not differentiated may be anything",
    "static_argnames": "leave it out: arguments that are not differentiated may be anything",
    "checkpoint.static_argnums": "leave it out: arguments may be anything, and keep their values",
    "vmap.static_argnums": "in_axes=(0, None) for an argument that all examples share",
    "nondiff_argnums": "leave it out: the rule returns None for an argument without a derivative",
    "custom_jvp.nondiff_argnums": "leave it out: the rule uses no tangent of an argument that has no derivative",
    "holomorphic": "leave it out: functions of complex numbers need no option; the complex derivative of a holomorphic "
    "function is fg.jvp(f, (z,), (1 + 0j,))[1]",
    "axis_size": "leave it out: the size is that of the arrays along in_axes; np.arange(n) is one where there is none",
    "axis_name": "leave it out: axes have no names; what combines examples, such as a mean, goes after vmap",
    "spmd_axis_name": "leave it out: axes have no names",
    "allow_int": "leave it out: integers have no gradient; make them floats, such as np.asarray(x, float)",
    **dict.fromkeys(
        ("donate", "donate_argnums", "donate_argnames"),
        "leave it out: w -= step in a compiled function writes into the memory of w",
    ),
    "create_graph": "leave it out: derivatives can be differentiated again as they are",
    "retain_graph": "leave it out: derivatives can be differentiated again as they are",
    "vectorize": "leave it out: rows and columns are computed together; chunk_size limits how many",
    "policy": "leave it out: arguments alone are kept; checkpoint a part of f to keep the rest",
    "prevent_cse": "leave it out: nothing is eliminated",
    "unroll": "leave it out: fg.compile chooses how loops run",
    "nopython": "leave it out: what cannot be compiled is an error, or a step that inspect() lists",
    "parallel": "threads=n",
    "vmap.chunk_size": "fg.map(f, xs), one example after the other, or vmap of parts of the examples",
    "vmap.axis": "in_axes=axis",
}
"""What to write in place of a keyword that has no counterpart; by itself, or after the name of a function."""


_FOR_SPARSE = "To multiply a sparse array with a tensor, write a @ x, or make it a tensor before: fg.constant(a)."
_FOR_NUMBA = (
    "Add a rule for it with fgrad.extend.register_primitive, or pass x.numpy() if no derivative is wanted. "
    f"{_FOR_SPARSE}"
)


def missing_attribute(owner: object, name: str, is_traced: bool = False) -> Exception:
    """Return the error for an unknown attribute of an object, with its equivalent."""
    if name == "_numba_type_":  # arrays of the package sparse, which ask for it, then leave @ to the tensor
        if is_traced:
            return errors.MissingRuleError("a function compiled by numba", errors.users_line(), instead=_FOR_NUMBA)
        return errors.UnsupportedError(
            f"a function compiled by numba takes plain arrays: pass x.numpy(). {_FOR_SPARSE}"
        )
    if name.startswith("_"):
        return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")
    text = f"{type(owner).__name__!r} object has no attribute {name!r}"
    instead = _instead_of_attribute(name, hasattr(type(owner), "apply_gradients"))
    if instead:
        return errors.MissingNameError(f"{text}.\nInstead: {instead}.")
    return AttributeError(text, name=name, obj=owner)  # for Python's suggestions of similar names


@functools.lru_cache(maxsize=1024)
def _instead_of_attribute(name: str, is_optimizer: bool) -> str:
    """Return what there is in place of an attribute; other libraries ask for some of them again and again."""
    if is_optimizer:
        return _OF_OPTIMIZERS.get(name, "")
    return _OF_TENSORS.get(name) or _OF_ARRAYS.get(name) or _call_of_numpys(name)


def _call_of_numpys(name: str) -> str:
    """Return a call of NumPy's function of a name; empty if there is none."""
    function = vars(np).get(name)  # not by `getattr`, to which NumPy answers some names with a warning
    if isinstance(function, type):
        return f"x.astype(np.{name})" if issubclass(function, np.generic) else ""
    if not callable(function):
        return ""
    if isinstance(function, np.ufunc):
        return f"np.{name}({', '.join('xyz'[: function.nin])})"
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a function in C, whose signature is not known
        parameters = ()  # type: ignore[assignment]
    required = [p.name for p in parameters if p.default is p.empty and p.kind <= p.POSITIONAL_OR_KEYWORD]
    return f"np.{name}({', '.join(required) if len(required) > 1 else 'x'})"


def missing_name(module: str, name: str) -> AttributeError:
    """Return the error for an unknown name of a module, with its equivalent."""
    if name.startswith("__"):
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    names = [each for each in dir(sys.modules[module]) if not each.startswith("_")]
    return errors.MissingNameError(f"module {module!r} has no attribute {name!r}.{_instead(module, name, names)}")


def _instead(module: str, name: str, names: Collection[str]) -> str:
    keys = f"{module.removeprefix('fgrad.')}.{name}", name
    instead = next((table[key] for table in (_OF_MODULES, _OF_ARRAYS) for key in keys if key in table), "")
    if instead:
        return f"\nInstead: {instead}."
    if hasattr(sys.modules[module], "__path__") and importlib.util.find_spec(f"{module}.{name}"):
        return f"\nIt is a separate module: import {module}.{name}."
    if module == "fgrad" and name in _AREAS_OF_SCIPY:
        return f"\nIt is a separate module: import fgrad.scipy.{name}."
    # Not by an import where it is being imported: from Python 3.15 on, dataclasses look for names in their module.
    optimizers = vars(sys.modules.get("fgrad.optimizers") or sys.modules["fgrad"].optimizers)
    trimmed = name.removesuffix("Optimizer")
    if isinstance(optimizers.get(trimmed), type):
        return f"\nInstead: fg.optimizers.{trimmed}."
    if module == "fgrad" and hasattr(np, name):
        return f"\nInstead: np.{name}."
    if name in sys.modules["fgrad"].__all__:
        return f"\nInstead: fg.{name}."
    if module == "fgrad.random" and hasattr(np.random.Generator, name):
        return f"\nIt is a method of generators: rng = fg.random.default_rng(seed), and rng.{name}(...)."
    near = [each for each in names if each.lower() == name.lower()]
    near = near or difflib.get_close_matches(name, names, cutoff=0.75)
    return f"\nDid you mean {' or '.join(near)}?" if near else ""


def refuse_keywords(called: Callable[..., Any], keywords: Mapping[str, Any], known: Collection[str] = ()) -> None:
    """Raise if a function or class was called with keywords that neither its signature nor `known` has."""
    for name in keywords:
        parameters = inspect.signature(called).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        names += [each for each in known if each not in names]
        instead = _counterpart(called.__name__, name, names)
        raise errors.KeywordError(
            f"{called.__name__}() got an unexpected keyword argument {name!r}{instead}.\n"
            f"Its keywords are {', '.join(names)}."
        )


def _counterpart(called: str, name: str, names: list[str]) -> str:
    """Say what to write in place of a keyword."""
    other = _OF_KEYWORDS.get(f"{called}.{name}") or _OF_KEYWORDS.get(name, "")
    if other.split(" ")[0] in names:
        return f"; here it is called {other}"
    if (called, name) == ("GradientDescent", "momentum"):
        return "; fg.optimizers.Momentum has"
    instead = _WITHOUT_KEYWORD.get(f"{called}.{name}") or _WITHOUT_KEYWORD.get(name)
    if instead:
        return f".\nInstead: {instead}"
    near = difflib.get_close_matches(name, names, 1)
    return f"; here it is called {near[0]}" if near else ""


def names_keywords(function: F) -> F:
    """Let a function, or the `__init__` of a class, refuse keywords that it does not have with a hint."""
    parameters = inspect.signature(function).parameters.values()
    names = {p.name: None for p in parameters if p.name != "self" and p.kind is not p.VAR_POSITIONAL}
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    takes_all = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    most = len(positional) if positional[:1] in (["function"], ["residuals"]) and not takes_all else sys.maxsize

    @functools.wraps(function)
    def call(*args: object, **keywords: object) -> Any:
        if len(args) > most:
            name = function.__name__
            point = "x, v" if name in ("hvp", "gauss_newton_vp") else "x"
            raise errors.KeywordError(
                f"{name}() takes {', '.join(positional)}, and got {len(args)} arguments.\n"
                f"Pass the arguments of the function in a second call: {name}(f)({point})."
            )
        if not names.keys() >= keywords.keys():
            called = type(args[0]) if function.__name__ == "__init__" else function
            refuse_keywords(called, {name: value for name, value in keywords.items() if name not in names}, names)
        return function(*args, **keywords)

    return call  # type: ignore[return-value]
