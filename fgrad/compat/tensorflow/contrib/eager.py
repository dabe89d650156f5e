"""`tf.contrib.eager`: gradient functions by TensorFlow's names, `import ... as tfe`.

They are fgrad's own, except that Python floats among the differentiated arguments become float32 tensors, nested
lists of floats one tensor, and the gradients of a graph's tensors are graph tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import fgrad
from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.convert import convert
from fgrad.compat.deferred.graph import Convertible, holds_symbol
from fgrad.compat.deferred.state import identity
from fgrad.compat.tensorflow.gradient import GradientTape, custom_gradient
from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.modes import executing_eagerly
from fgrad.compat.tensorflow.variables import Variable
from fgrad.core.tree import flatten, tree_map
from fgrad.transforms.calls import Selection, decorator, name_of, select
from fgrad.typing import Operand

__all__ = [
    "GradientTape", "Variable", "custom_gradient", "executing_eagerly", "gradients_function", "implicit_gradients",
    "implicit_value_and_gradients", "make_vjp", "value_and_gradients_function",
]  # fmt: skip

__dir__ = __all__.copy

__getattr__ = missing(__name__)


def gradients_function(f: Callable[..., Any] | None = None, params: Selection = None) -> Any:
    """Return a function that computes gradients with respect to the arguments of `f`; see `fgrad.gradients_function`.

    In a graph they are graph tensors.
    """
    return decorator(_run_gradients_function, f, params=params)


def value_and_gradients_function(f: Callable[..., Any] | None = None, params: Selection = None) -> Any:
    """Return a function that computes the value of `f` and gradients; see `fgrad.value_and_gradients_function`."""
    return decorator(_run_value_and_gradients_function, f, params=params)


def make_vjp(f: Callable[..., Any] | None = None, params: Selection = None, persistent: bool = True) -> Any:
    """Return a function that computes the value of `f` and a function of `dy`; see `fgrad.make_vjp`."""
    return decorator(_run_make_vjp, f, params=params, persistent=persistent)


def implicit_gradients(f: Callable[..., Any] | None = None) -> Any:
    """Return a function that computes gradients for the variables that `f` reads; see `fgrad.implicit_gradients`."""
    return decorator(_run_implicit_gradients, f)


def implicit_value_and_gradients(f: Callable[..., Any] | None = None) -> Any:
    """Return a function that computes the value and those gradients; see `fgrad.implicit_value_and_gradients`."""
    return decorator(_run_implicit_value_and_gradients, f)


def _run_gradients_function(
    function: Callable[..., Any], args: Any, keywords: dict[str, Any], params: Selection
) -> Any:
    if _is_of_graph(args, keywords):
        return _pulled_in_graph(function, args, keywords, params)[1](keywords.get("dy"))
    return _called(fgrad.gradients_function(function, params), function, args, keywords, params)


def _run_value_and_gradients_function(
    function: Callable[..., Any], args: Any, keywords: dict[str, Any], params: Selection
) -> Any:
    if _is_of_graph(args, keywords):
        value, pull = _pulled_in_graph(function, args, keywords, params)
        return value, pull(keywords.get("dy"))
    return _called(fgrad.value_and_gradients_function(function, params), function, args, keywords, params)


def _run_make_vjp(
    function: Callable[..., Any], args: Any, keywords: dict[str, Any], params: Selection, persistent: bool
) -> Any:
    if _is_of_graph(args, keywords):
        return _pulled_in_graph(function, args, keywords, params)
    return _called(fgrad.make_vjp(function, params, persistent), function, args, keywords, params)


def _run_implicit_gradients(function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    if _is_of_graph(args, keywords):
        return _read_in_graph(function, args, keywords)[1]
    transformed: Any = fgrad.implicit_gradients(function)
    return transformed(*args, **keywords)


def _run_implicit_value_and_gradients(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Any:
    if _is_of_graph(args, keywords):
        return _read_in_graph(function, args, keywords)
    transformed: Any = fgrad.implicit_value_and_gradients(function)
    return transformed(*args, **keywords)


def _called(
    transformed: Callable[..., Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    params: Selection,
) -> Any:
    """Call a transformed function with the differentiated arguments converted to tensors."""
    places, _ = select(function, params, args, {key: value for key, value in keywords.items() if key != "dy"})
    args = tuple(_tensors(arg) if place in places else arg for place, arg in enumerate(args))
    return transformed(*args, **{key: _tensors(x) if key in places else x for key, x in keywords.items()})


def _tensors(arg: object) -> Any:
    """Return an argument with numbers converted to tensors; nested lists of numbers are one tensor."""
    leaves = flatten(arg)[0]
    if isinstance(arg, (list, tuple)) and leaves and all(map(_is_number, leaves)):
        return convert(arg)
    return tree_map(lambda leaf: convert(leaf) if _is_number(leaf) else leaf, arg)


def _is_number(leaf: Convertible) -> bool:
    return isinstance(leaf, (bool, int, float, complex)) and not hasattr(leaf, "dtype")


# In a graph, with a tape


def _is_of_graph(args: tuple[Any, ...], keywords: Mapping[str, Any]) -> bool:
    return mode.is_deferring() or holds_symbol(flatten((args, keywords))[0])


def _pulled_in_graph(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], params: Selection
) -> Any:
    """Return the value of a function of graph tensors, and its pullback."""
    given = {key: value for key, value in keywords.items() if key != "dy"}
    places, given = select(function, params, args, given)
    # Each argument is a separate tensor, even if one tensor is passed twice.
    args = tuple(tree_map(identity, _tensors(arg)) if place in places else arg for place, arg in enumerate(args))
    given = {key: tree_map(identity, _tensors(x)) if key in places else x for key, x in given.items()}
    sources = [args[place] if isinstance(place, int) else given[place] for place in places]
    with GradientTape(persistent=True) as tape:
        tape.watch(sources)
        value = _returned(function, function(*args, **given))

    def pull(dy: Operand | None = None) -> Any:
        return tape.gradient(value, sources, dy)

    return value, pull


def _read_in_graph(function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    """Return the value of a function, and pairs of gradients and the variables of a graph that it reads."""
    with GradientTape() as tape:
        value = _returned(function, function(*args, **keywords))
    variables = tape.watched_variables()
    if not variables:
        raise errors.NoVariablesError("No trainable variables were accessed while the function was being computed.")
    return value, list(zip(tape.gradient(value, variables), variables, strict=True))


def _returned(function: Callable[..., Any], value: Any) -> Any:
    if value is None:
        raise errors.NoResultError(
            f"Cannot differentiate a function that returns None; did you forget to return a value from "
            f"{name_of(function)}?"
        )
    return value
