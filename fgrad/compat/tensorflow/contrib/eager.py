"""`tf.contrib.eager`: gradient functions by TensorFlow's names, `import ... as tfe`.

They are fgrad's own, but Python's floats among the arguments to differentiate become float32 tensors.
"""

from __future__ import annotations

from typing import Any

import fgrad
from fgrad.compat.deferred.convert import convert
from fgrad.compat.tensorflow.gradient import GradientTape as GradientTape
from fgrad.compat.tensorflow.gradient import custom_gradient as custom_gradient
from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.modes import executing_eagerly as executing_eagerly
from fgrad.compat.tensorflow.variables import Variable as Variable
from fgrad.core.tree import tree_map
from fgrad.transforms.calls import Selection, decorator, select

__all__ = [
    "GradientTape", "Variable", "custom_gradient", "executing_eagerly", "gradients_function", "implicit_gradients",
    "implicit_value_and_gradients", "make_vjp", "value_and_gradients_function",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


__getattr__ = missing(__name__)

implicit_gradients = fgrad.implicit_gradients
implicit_value_and_gradients = fgrad.implicit_value_and_gradients


def gradients_function(f: Any = None, params: Selection = None) -> Any:
    """Return a function that computes gradients by the arguments of `f`; see `fgrad.gradients_function`."""
    return decorator(_run_gradients_function, f, params=params)


def value_and_gradients_function(f: Any = None, params: Selection = None) -> Any:
    """Return a function that computes the value of `f` and gradients; see `fgrad.value_and_gradients_function`."""
    return decorator(_run_value_and_gradients_function, f, params=params)


def make_vjp(f: Any = None, params: Selection = None, persistent: bool = True) -> Any:
    """Return a function that computes the value of `f` and a function of `dy`; see `fgrad.make_vjp`."""
    return decorator(_run_make_vjp, f, params=params, persistent=persistent)


def _run_gradients_function(function: Any, args: Any, keywords: Any, params: Selection) -> Any:
    return _called(fgrad.gradients_function(function, params), function, args, keywords, params)


def _run_value_and_gradients_function(function: Any, args: Any, keywords: Any, params: Selection) -> Any:
    return _called(fgrad.value_and_gradients_function(function, params), function, args, keywords, params)


def _run_make_vjp(function: Any, args: Any, keywords: Any, params: Selection, persistent: bool) -> Any:
    return _called(fgrad.make_vjp(function, params, persistent), function, args, keywords, params)


def _called(transformed: Any, function: Any, args: Any, keywords: dict[str, Any], params: Selection) -> Any:
    """Call a transformed function with the arguments to differentiate as tensors."""
    places, _ = select(function, params, args, {key: value for key, value in keywords.items() if key != "dy"})
    args = tuple(tree_map(_tensor, arg) if place in places else arg for place, arg in enumerate(args))
    return transformed(*args, **{key: tree_map(_tensor, x) if key in places else x for key, x in keywords.items()})


def _tensor(leaf: Any) -> Any:
    return convert(leaf) if isinstance(leaf, (bool, int, float, complex)) and not hasattr(leaf, "dtype") else leaf
