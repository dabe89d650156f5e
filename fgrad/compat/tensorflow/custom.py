"""`tf.custom_gradient`, and functions based on it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import fgrad
from fgrad import errors
from fgrad.compat.deferred.convert import convert
from fgrad.compat.deferred.graph import Convertible, Symbol, operation
from fgrad.compat.deferred.state import as_symbol
from fgrad.compat.tensorflow.arguments import is_deferred, several
from fgrad.compat.tensorflow.arrays import stop_gradient
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import boxed
from fgrad.core.tree import flatten, leaves_and_nones, tree_map, unflatten
from fgrad.transforms.calls import name_of
from fgrad.typing import Array, Operand

if TYPE_CHECKING:
    import optree


class CustomGradient:
    """A function with its own gradient, called like the function, which returns its result and its rule."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self._f = f
        functools.update_wrapper(self, f, updated=())

    def __get__(self, instance: object, owner: type | None = None) -> CustomGradient:
        if instance is None:
            return self
        bound = functools.update_wrapper(functools.partial(self._f, instance), self._f, updated=())
        return CustomGradient(bound)  # so that the object itself is not an argument

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        leaves, treedef = flatten(args)
        if is_deferred(*leaves, *keywords.values()):
            return self._deferred(leaves, treedef, keywords)
        return self._called(leaves, treedef, keywords)

    def _deferred(self, leaves: list[Any], treedef: optree.PyTreeSpec, keywords: Mapping[str, Any]) -> Any:
        """Return the result as tensors of a graph."""

        def flat(*leaves: Array, **keywords: object) -> list[Any]:
            return flatten(self._called(list(leaves), treedef, keywords))[0]

        outline = self._outline(leaves, treedef, keywords)
        parts = several(flat, outline.num_leaves, getattr(self._f, "__name__", "CustomGradient"))
        return unflatten(outline, parts(*leaves, **keywords))

    def _outline(self, leaves: list[Any], treedef: optree.PyTreeSpec, keywords: Mapping[str, Any]) -> Any:
        """Return the structure of the result, from a trial run on the graph's tensors that is not executed."""
        symbols = [as_symbol(x) if _is_number(x) or isinstance(x, Symbol) else x for x in leaves]
        try:
            return flatten(self._result_and_rule(symbols, treedef, keywords)[0])[1]
        except (errors.SymbolicTensorError, errors.SymbolicArrayError):  # it needs values: assume one tensor
            return flatten(0.0)[1]

    def _called(self, leaves: list[Any], treedef: optree.PyTreeSpec, keywords: Mapping[str, Any]) -> Any:
        """Return the result for arguments of a structure; each tensor is an argument of the rule."""

        def flat(*leaves: Any) -> Any:
            result, grad_fn = self._result_and_rule(map(_as_tensor, leaves), treedef, keywords)
            return tree_map(_as_result, result), _flat_rule(grad_fn)

        flat.__name__ = flat.__qualname__ = getattr(self._f, "__name__", type(self._f).__name__)
        return fgrad.custom_gradient(flat)(*map(_as_result, leaves))

    def _result_and_rule(self, leaves: Iterable[Any], treedef: optree.PyTreeSpec, keywords: Mapping[str, Any]) -> Any:
        found = self._f(*unflatten(treedef, leaves), **keywords)
        if not (isinstance(found, (tuple, list)) and len(found) == 2 and callable(found[1])):
            raise errors.CustomRuleError(
                f"a function under custom_gradient must return (result, grad_fn), but {name_of(self._f)} returned "
                f"{found!r:.200}.\nWrite `return result, grad_fn`, where grad_fn(dy) gives the gradients of the "
                "arguments."
            )
        return found


def _is_number(x: Convertible) -> bool:
    return isinstance(x, (float, complex, np.ndarray, np.generic)) or type(x) in BOXES


def _flat_rule(grad_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule on lists of tensors, from one with any structure."""

    @functools.wraps(grad_fn)
    def rule(*dy: Array, **keywords: object) -> Any:
        given = grad_fn(*map(_as_tensor, dy), **keywords)
        if not keywords:
            return tuple(leaves_and_nones(given)) if given is not None else given
        is_pair = isinstance(given, (tuple, list)) and len(given) == 2
        return (tuple(leaves_and_nones(given[0])), given[1]) if is_pair else given

    return rule


def _as_tensor(x: Array) -> Any:
    return boxed(x) if isinstance(x, (np.ndarray, np.generic)) else x


def _as_result(x: Operand) -> Any:
    """Return a number or array as a tensor."""
    return convert(x) if _is_number(x) and type(x) not in BOXES else x


def custom_gradient(f: Callable[..., Any]) -> CustomGradient:
    """Give a function its own gradient; see `fgrad.custom_gradient`.

    The function receives tensors. Its rule returns one gradient for each tensor among the arguments, in any structure;
    keyword arguments have none, and the `self` of a method is not an argument.

    In a graph the function runs when a session runs the graph, on values: all graph tensors that it uses must be
    arguments.
    """
    return CustomGradient(f)


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the values of another one, and the derivative of the identity.

    The derivative of each result goes to the argument at the same position, and none to variables.

    Args:
        f: a function with as many results as arguments, and with equal shapes.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> x = tf.constant([1.2, 2.7])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = tf.grad_pass_through(tf.round)(x * x)
        >>> y, tape.gradient(y, x)
        (Tensor([1., 7.], dtype=float32), Tensor([2.4, 5.4], dtype=float32))
    """

    @functools.wraps(f)
    def passed(*args: Array, **keywords: object) -> Any:
        leaves, treedef = flatten(args)
        still = [stop_gradient(leaf) if _is_number(leaf) or isinstance(leaf, Symbol) else leaf for leaf in leaves]
        values, outline = flatten(f(*unflatten(treedef, still), **keywords))
        if len(values) != len(leaves):
            raise errors.CustomRuleError(
                f"grad_pass_through needs a function with as many results as arguments, but {name_of(f)} has "
                f"{len(values)} results for {len(leaves)} arguments."
            )
        pairs = zip(leaves, values, strict=True)
        return unflatten(outline, [_passing(leaf, stop_gradient(value)) for leaf, value in pairs])

    return passed


@operation("Identity")
def _passing(x: Array, value: Array) -> Any:
    """Return a value with the derivative of `x`."""
    return fgrad.custom_gradient(lambda x, value: (value * 1, lambda dy: (dy, None)))(convert(x), convert(value))


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is recomputed in the backward pass; see `fgrad.checkpoint`. In a graph it is `f`."""
    eager = fgrad.checkpoint(f)

    @functools.wraps(f)
    def call(*args: object, **keywords: object) -> Any:
        return (f if is_deferred(*args, *keywords.values()) else eager)(*args, **keywords)

    return call
