"""The inputs of optimizers: gradients, parameters, pairs, losses; checked before anything changes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad import errors
from fgrad.core.foreign import in_memory
from fgrad.core.overrides import refuse_masked
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, boxed, strip_ended
from fgrad.core.tree import flatten, paths
from fgrad.core.variable import Variable
from fgrad.typing import Array, ArrayLike

if TYPE_CHECKING:
    import optree

Description = Callable[[], str]
"""Returns the name of an array for a message; called only if there is a message."""


def tensor(x: ArrayLike) -> Any:
    """Return a number, array or tensor as a tensor."""
    return boxed(array(x))


def array(x: Any) -> Any:
    """Return the value below ended traces: an array, or a traced tensor."""
    refuse_masked(x)
    x = strip_ended(x)
    return x if hasattr(x, "dtype") else np.asarray(x)


def plain(x: Any) -> Any:
    """Return the plain value: an array."""
    refuse_masked(x)
    x = strip_ended(x)
    return x.numpy() if type(x) is Tensor else np.asarray(in_memory(x))


def parameters(params: object) -> list[Any]:
    """Return the leaves of a container of parameters as arrays or traced tensors."""
    values = [array(leaf) for leaf in flatten(params)[0]]
    for i, value in enumerate(values):
        _check_continuous(value, functools.partial(parameter_name, params, i))
    return values


def parameter_name(params: object, i: int) -> str:
    """Return the name of the leaf at a position, for messages."""
    return f"parameter {paths(params)[i] or 'params'}"


def variable_name(variable: Variable) -> str:
    """Return the name of a variable, for messages."""
    return f"variable {variable.name!r}"


def matched(treedef: optree.PyTreeSpec, tree: Any, what: str) -> list[Any]:
    """Return the parts of a tree at the positions of the parameters."""
    try:
        found: list[Any] = treedef.flatten_up_to(tree)
    except ValueError as error:
        raise errors.StateError(f"{what} must have the structure of the parameters: {error}") from None
    return found


def fitting(gradient: Array, param: Array, describe: Description) -> Any:
    """Return a gradient in the dtype of its parameter."""
    _check_continuous(param, describe)
    gradient = gradient if type(gradient) in BOXES else np.asarray(gradient)
    if gradient.dtype.kind not in "fciu":
        raise errors.DtypeError(f"the gradient of {describe()} must be numbers, and its dtype is {gradient.dtype}.")
    if gradient.shape != param.shape:
        what = describe().partition(" ")[0]
        raise errors.ShapeError(
            f"the gradient of {describe()} has shape {gradient.shape}, and the {what} has shape {param.shape}.\n"
            f"A gradient is applied to its whole {what}; nothing has been changed. It may be the gradient of another "
            f"{what}, or be wrapped in a list (clip_by_global_norm returns the list and the norm)."
        )
    if gradient.dtype.kind == "c" and param.dtype.kind != "c":
        raise errors.DtypeError(f"the gradient of the real {describe()} is complex ({gradient.dtype}).")
    return gradient if gradient.dtype == param.dtype else gradient.astype(param.dtype)


def _check_continuous(param: Array, describe: Description) -> None:
    if param.dtype.kind not in "fc":
        raise errors.DtypeError(
            f"{describe()} has dtype {param.dtype}; an optimizer can only update floating-point or complex "
            "values.\nCreate it with a dot, 1.0, or with dtype=float; or exclude it from the optimization."
        )


def like(old: Any, new: Any, describe: Description) -> Any:
    """Return the result of a rule, in the dtype of the old value."""
    new = array(new)
    if new.shape != old.shape:
        raise errors.ShapeError(
            f"the update of {describe()} has shape {new.shape} in place of {old.shape}: a hyper-parameter is an array "
            "that does not broadcast to this shape."
        )
    return new if new.dtype == old.dtype else new.astype(old.dtype)


def all_finite(gradients: Iterable[Any]) -> Any:
    """Return whether every element of the gradients is finite: a boolean, or a tensor if it has no value yet."""
    finite: Any = True
    for gradient in gradients:
        if gradient is not None:
            finite = np.logical_and(finite, np.all(np.isfinite(gradient)))
    try:
        return bool(finite)
    except errors.ConcretizationError:
        return finite


def is_finite(array: ArrayLike) -> bool:
    """Return whether every element of an array is finite; a finite sum shows it quickly."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.add.reduce(array, axis=None))) or bool(np.all(np.isfinite(array)))


def variable_pairs(grads_and_vars: Iterable[Any], global_step: ArrayLike | None) -> list[tuple[Any, Variable]]:
    """Return pairs of gradients and variables as a list."""
    if callable(grads_and_vars):
        raise errors.StructureError(
            f"apply_gradients takes pairs (gradient, variable); it was given a function, "
            f"{grads_and_vars!r:.200}.\n"
            "Call it: implicit_gradients(loss)(), or let optimizer.minimize(loss) do both."
        )
    pairs: list[Any] = [grads_and_vars] if type(grads_and_vars) in BOXES else list(grads_and_vars)
    for each in pairs:
        if not (isinstance(each, (tuple, list)) and len(each) == 2 and isinstance(each[1], Variable)):
            raise errors.StructureError(
                f"apply_gradients takes pairs (gradient, variable), but one element is {each!r:.200}. "
                "Only variables can be updated; for arrays and tensors use update(grads, state, params).\n"
                "Write apply_gradients(zip(gradients, variables)), or apply_gradients([(gradient, variable)]) for one."
            )
    if global_step is not None and not isinstance(global_step, Variable):
        raise errors.ParameterError(
            f"global_step must be a variable, and it is {global_step!r}.\n"
            "Pass the variables to optimize by name: minimize(loss, var_list=[...])."
        )
    if any(variable is global_step for _, variable in pairs):
        raise errors.ParameterError(
            f"global_step, to which each step adds 1, is {global_step!r}, and the step updates that variable, too.\n"
            "Variables to optimize go into a list: minimize(loss, [w]), or minimize(loss, var_list=[w])."
        )
    if not pairs:
        raise errors.NoGradientsError("No variables provided: the list of gradients and variables is empty.")
    if all(gradient is None for gradient, _ in pairs):
        raise errors.NoGradientsError(
            f"No gradients provided for any variable: {names_of(pairs)}.\n"
            "fg.explain(tape, loss, variable) shows why a gradient is None."
        )
    return pairs


def refuse_integers(variable: Variable | None) -> None:
    """Raise if the only variable that a loss has read holds integers; None: it has read no such variable."""
    if variable is not None:
        raise errors.NoGradientsError(
            f"No gradients provided for any variable: variable {variable.name!r} has dtype {variable.dtype}, and only "
            "floating-point and complex variables have gradients.\n"
            "Create it with floating-point numbers, such as fg.Variable(3.0)."
        )


def names_of(pairs: Iterable[tuple[Any, Variable]]) -> list[str]:
    """Return the names of the variables in pairs."""
    return [variable.name for _, variable in pairs]


def refuse_parameters(name: str, function: Callable[..., Any], kind: type[errors.FgradError]) -> None:
    """Raise if a function cannot be called without arguments."""
    if needed := _needed(function):
        kinds = "a number, a schedule, or a function without arguments"
        instead = "A function of the step is a schedule: a subclass of fg.optimizers.schedules.Schedule with "
        instead += "value(self, step). For a class of schedules, pass an instance."
        if name == "loss":
            kinds = "a function without arguments"
            instead = "Make it read variables of the enclosing scope, w = fg.Variable(...), or bind the arguments, "
            instead += "lambda: f(x); for a function of arrays use update(grads, state, params) or run."
        raise kind(
            f"{name} must be {kinds}, and {getattr(function, '__name__', repr(function))} takes "
            f"{', '.join(map(repr, needed))}.\n{instead}"
        ) from None


def _needed(function: Callable[..., Any]) -> list[str]:
    """Return the names of required parameters; empty if they are unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]


def check_loss(value: Any) -> None:
    """Raise if the result of a loss function is not a floating-point tensor."""
    if value is None:
        raise errors.NoResultError("the loss function returned None; did you forget to return a value?")
    for leaf in flatten(value)[0]:
        if type(leaf) not in BOXES or leaf.dtype.kind not in "fc":
            raise errors.OutputError(
                f"the loss must be a floating-point tensor, and it is {leaf!r} of type "
                f"{leaf.dtype if hasattr(leaf, 'dtype') else type(leaf).__name__}.\n"
                + (
                    "Create its variables with floating-point numbers, such as 3.0."
                    if type(leaf) in BOXES
                    else "Compute it from variables with NumPy's functions, without float() or .numpy()."
                )
            )
