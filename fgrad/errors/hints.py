"""Hints for unknown names: the equivalents in fgrad of names of other libraries.

missing_attribute(owner, name)     the error for an attribute of a tensor, variable or optimizer (`__getattr__`)
missing_name(module, name)         the error for a name of a module
refuse_keywords(cls, keywords)     raises if a class was called with unknown keywords
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import inspect
import sys
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from fgrad import errors

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
    "relu": "np.maximum(x, 0)",
    "sigmoid": "scipy.special.expit(x)",
    "softmax": "fgrad.scipy.special.softmax(x)",
}

_OF_OPTIMIZERS = {
    "step": "optimizer.minimize(loss), or optimizer.apply_gradients(pairs of gradient and variable)",
    "zero_grad": "omit it: gradients are returned, not accumulated in variables",
    "param_groups": "the hyper-parameters are attributes, such as optimizer.learning_rate",
    "lr": "optimizer.learning_rate",
    "get_gradients": "optimizer.compute_gradients(loss)",
    "get_weights": "optimizer.state_dict()",
    "set_weights": "optimizer.load_state_dict(state)",
}

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
    "function": "omit it: nothing is compiled",
    "enable_eager_execution": "omit it; for TensorFlow's names, import fgrad.compat.tensorflow as tf",
    "SGD": "GradientDescent(learning_rate), or Momentum(learning_rate, momentum)",
    "sgd": "GradientDescent(learning_rate), or Momentum(learning_rate, momentum)",
    "exponential_decay": "schedules.ExponentialDecay(initial_learning_rate, decay_steps, decay_rate)",
}

_OF_KEYWORDS = {
    "lr": "learning_rate",
    "step_size": "learning_rate",
    "eta": "learning_rate",
    "alpha": "learning_rate",
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
    "params": "var_list of minimize",
}


_FOR_SPARSE = "To multiply a sparse array with a tensor, write a @ x, or make it a tensor before: fg.constant(a)."
_FOR_NUMBA = (
    "Add a rule for it with fgrad.extend.register_primitive, or pass x.numpy() if no derivative is wanted. "
    f"{_FOR_SPARSE}"
)


def missing_attribute(owner: Any, name: str, is_traced: bool = False) -> Exception:
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


@functools.cache
def _instead_of_attribute(name: str, is_optimizer: bool) -> str:
    """Return what there is in place of an attribute; other libraries ask for some of them again and again."""
    instead = (_OF_OPTIMIZERS if is_optimizer else _OF_TENSORS).get(name, "")
    # Not by `getattr`, to which NumPy answers some names with a warning.
    return f"np.{name}(x)" if not instead and not is_optimizer and callable(vars(np).get(name)) else instead


def missing_name(module: str, name: str) -> AttributeError:
    """Return the error for an unknown name of a module, with its equivalent."""
    if name.startswith("__"):
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    names = [each for each in dir(sys.modules[module]) if not each.startswith("_")]
    return errors.MissingNameError(f"module {module!r} has no attribute {name!r}.{_instead(module, name, names)}")


def _instead(module: str, name: str, names: Collection[str]) -> str:
    if name in _OF_MODULES:
        return f"\nInstead: {_OF_MODULES[name]}."
    if hasattr(sys.modules[module], "__path__") and importlib.util.find_spec(f"{module}.{name}"):
        return f"\nIt is a separate module: import {module}.{name}."
    optimizers = vars(sys.modules["fgrad"].optimizers)
    trimmed = name.removesuffix("Optimizer")
    if isinstance(optimizers.get(trimmed), type):
        return f"\nInstead: fg.optimizers.{trimmed}."
    if module == "fgrad" and hasattr(np, name):
        return f"\nInstead: np.{name}."
    if module == "fgrad.random" and hasattr(np.random.Generator, name):
        return f"\nIt is a method of generators: rng = fg.random.default_rng(seed), and rng.{name}(...)."
    near = difflib.get_close_matches(name, names, cutoff=0.75)
    return f"\nDid you mean {' or '.join(near)}?" if near else ""


def refuse_keywords(cls: type, keywords: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise if a class was called with unknown keywords.

    Args:
        cls: the class.
        keywords: the unexpected keywords.
        known: names of keywords that its `__init__` does not list.

    Raises:
        KeywordError: there is an unexpected keyword.
    """
    for name in keywords:
        parameters = inspect.signature(cls).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        names += [each for each in known if each not in names]
        other = _OF_KEYWORDS.get(name, "")
        near = [other] if other.split(" ")[0] in names else difflib.get_close_matches(name, names, 1)
        called = f"; in fgrad it is called {near[0]}" if near else ""
        called = "; fg.optimizers.Momentum has" if (cls.__name__, name) == ("GradientDescent", "momentum") else called
        raise errors.KeywordError(
            f"{cls.__name__}() got an unexpected keyword argument {name!r}{called}.\n"
            f"Its keywords are {', '.join(names)}."
        )
