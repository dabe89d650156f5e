"""Derivatives of functions, in Autograd's form: `grad(fun, argnum=0)` and the others return functions.

Values and derivatives are plain NumPy arrays and numbers, unless an outer derivative traces them. The gradient with
respect to a complex number is d/dx - i d/dy, the conjugate of the gradient in fgrad.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad as fg
from fgrad.compat.autograd.core import make_jvp as _make_jvp
from fgrad.compat.autograd.core import make_vjp as _make_vjp
from fgrad.compat.autograd.core import pullback_of_batch
from fgrad.compat.autograd.values import as_gradients, as_point, is_complex, is_number, mapped, plain, with_boxes
from fgrad.compat.autograd.vspaces import vspace
from fgrad.compat.autograd.wrap_util import get_name, unary_to_nary
from fgrad.errors import NonScalarError, ParameterError
from fgrad.typing import Array, ArrayLike, Operand

__all__ = [
    "checkpoint", "deriv", "egrad", "elementwise_grad", "grad", "grad_and_aux", "grad_named", "hessian",
    "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "jacobian", "make_ggnvp", "make_hvp",
    "make_jvp", "make_jvp_reversemode", "make_vjp", "multigrad_dict", "tensor_jacobian_product", "value_and_grad",
    "vector_jacobian_product",
]  # fmt: skip

make_vjp = unary_to_nary(_make_vjp)
make_jvp = unary_to_nary(_make_jvp)


def _value_and_grad(fun: Callable[..., Any], x: object) -> tuple[Any, Any]:
    shapes: list[tuple[int, ...]] = []

    @functools.wraps(fun)
    def number(x: object) -> Any:
        result = fun(x)
        _check_one_real_number(fun, result)
        shapes[:] = [np.shape(result)]
        return np.reshape(result, ()) if shapes[0] else result

    value, gradient = fg.value_and_grad(with_boxes(number))(as_point(x))
    return plain(np.reshape(value, shapes[0]) if shapes[0] else value), as_gradients(gradient, x)


def _check_one_real_number(fun: Callable[..., Any], result: Any) -> None:
    if not is_number(result) or np.size(result) != 1 or is_complex(result):
        form = f", of shape {np.shape(result)}" if hasattr(result, "dtype") else ""
        raise NonScalarError(
            f"grad needs a function with a real result, but {get_name(fun)} returned {result!s:.100}{form}.\n"
            "Sum it, or use jacobian, elementwise_grad, or holomorphic_grad for a complex function."
        )


@unary_to_nary
def grad(fun: Callable[..., Any], x: object) -> Any:
    """Return a function that computes the gradient of a function with one real number as its result.

    `grad(fun, argnum=0)` takes the arguments of `fun`, and returns the gradient with respect to the one at position
    `argnum`, in the same containers; a tuple of gradients for several positions.

    Raises:
        NonScalarError: a TypeError; the result is not a real number.

    Example:
        >>> import fgrad.compat.autograd.numpy as np
        >>> grad(lambda x, y: np.sum(x * y))(np.array([1.0, 2.0]), 3.0)
        array([3., 3.])
    """
    return _value_and_grad(fun, x)[1]


@unary_to_nary
def value_and_grad(fun: Callable[..., Any], x: object) -> tuple[Any, Any]:
    """Return a function that computes the value of a function and its gradient, as for `grad`; suitable for SciPy."""
    return _value_and_grad(fun, x)


@unary_to_nary
def grad_and_aux(fun: Callable[..., Any], x: object) -> tuple[Any, Any]:
    """Return a function that computes the gradient of the first of two results, and returns the second one."""
    (value, pullback, aux) = fg.vjp(with_boxes(fun), as_point(x), has_aux=True)
    _check_one_real_number(fun, value)
    return as_gradients(pullback(np.ones_like(plain(value)))[0], x), plain(aux)


@unary_to_nary
def elementwise_grad(fun: Callable[..., Any], x: ArrayLike) -> Any:
    """Return a function that computes the column sums of the Jacobian: its diagonal, if it is diagonal."""
    pullback, ans = _make_vjp(fun, x)
    if is_complex(ans):
        raise NonScalarError(f"elementwise_grad needs a real function, but {get_name(fun)} returned complex numbers.")
    return pullback(vspace(ans).ones())


egrad = elementwise_grad


@unary_to_nary
def deriv(fun: Callable[..., Any], x: ArrayLike) -> Any:
    """Return a function that computes the derivative along a vector of ones, by forward mode."""
    return _make_jvp(fun, x)(vspace(as_point(x)).ones())[1]


@unary_to_nary
def jacobian(fun: Callable[..., Any], x: ArrayLike) -> Any:
    """Return a function that computes the Jacobian, of the shape of the result followed by that of the argument.

    It has the containers of the argument. For a complex function of complex numbers it is the matrix of complex
    derivatives.

    Example:
        >>> import numpy as np
        >>> jacobian(lambda x: x * x[0])(np.array([2.0, 3.0]))
        array([[4., 0.],
               [3., 2.]])
    """
    pullback, ans = _make_vjp(fun, x)
    shape, size = np.shape(ans), int(np.size(ans))
    units = np.eye(size, dtype=ans.dtype).reshape(size, *shape)
    return mapped(lambda rows: np.reshape(rows, (*shape, *np.shape(rows)[1:])), pullback_of_batch(pullback, units))


@unary_to_nary
def hessian(fun: Callable[..., Any], x: ArrayLike) -> Any:
    """Return a function that computes the Hessian, of the shape of the result and twice that of the argument."""
    return jacobian(jacobian(fun))(x)


@unary_to_nary
def holomorphic_grad(fun: Callable[..., Any], x: Any) -> Any:
    """Return a function that computes the complex derivative of a holomorphic function."""
    if not is_complex(x):
        warnings.warn("holomorphic_grad was called with a real argument", stacklevel=4)
    return grad(lambda x: np.real(fun(x)))(x)


def grad_named(fun: Callable[..., Any], argname: str) -> Any:
    """Return a function that computes the gradient with respect to a named argument, which is passed by position."""
    names = list(inspect.signature(fun).parameters)
    if argname not in names:
        raise ParameterError(f"{get_name(fun)} has no parameter {argname!r}; it has {', '.join(names)}.")
    return grad(fun, names.index(argname))


def multigrad_dict(fun: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Return a function that computes the gradients with respect to all arguments, as a dict by name, with defaults.

    Example:
        >>> multigrad_dict(lambda x, y=3.0: x * y)(2.0)
        {'x': np.float64(3.0), 'y': np.float64(2.0)}
    """
    signature = inspect.signature(fun)

    def gradients(*args: Operand, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def called(arguments: dict[str, Any]) -> Any:
            given = inspect.BoundArguments(signature, dict(arguments))
            return fun(*given.args, **given.kwargs)

        found = grad(called)(dict(bound.arguments))
        return {name: found[name] for name in bound.arguments}

    return gradients


@unary_to_nary
def make_hvp(fun: Callable[..., Any], x: ArrayLike) -> tuple[Callable[[Any], Any], Any]:
    """Return a function of the arguments that returns `(hvp, gradient)`: `hvp(v)` is the Hessian times a vector."""
    return _make_vjp(grad(fun), x)


def hessian_tensor_product(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """Return a function of the arguments and a tensor: the Hessian times the tensor, contracted."""
    gradient = grad(fun, argnum)

    def product(*args: Array, **kwargs: object) -> Any:
        *args_, tensor = args
        return make_jvp(gradient, argnum)(*args_, **kwargs)(tensor)[1]

    return product


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """Return a function of the arguments and a tensor: the tensor times the Jacobian, contracted."""

    def contracted(*args: Array, **kwargs: object) -> Array:
        *args_, tensor = args
        return np.tensordot(tensor, fun(*args_, **kwargs), axes=np.ndim(tensor))

    return jacobian(contracted, argnum)  # type: ignore[no-any-return]


vector_jacobian_product = tensor_jacobian_product


@unary_to_nary
def make_jvp_reversemode(fun: Callable[..., Any], x: ArrayLike) -> Callable[[Any], Any]:
    """Return a function of the arguments that returns `jvp(v)`, the Jacobian times a vector, by double reverse mode."""
    pullback, ans = _make_vjp(fun, x)
    return _make_vjp(pullback, vspace(ans).zeros())[0]


def _half_square(x: Array) -> Any:
    return 0.5 * np.sum(x**2, axis=-1)


def make_ggnvp(f: Callable[..., Any], g: Callable[..., Any] = _half_square, f_argnum: int = 0) -> Callable[..., Any]:
    """Return a function of `f`'s arguments that returns `ggnvp(v)`: J^T H J v, with the Hessian H of `g` at `f`."""

    def maker(f: Callable[..., Any], x: Array) -> Callable[[Any], Any]:
        pullback, value = _make_vjp(f, x)
        pushed = make_jvp_reversemode(f)(x)
        hvp, _ = make_hvp(g)(value)
        return lambda v: pullback(hvp(pushed(v)))

    return unary_to_nary(maker)(f, f_argnum)  # type: ignore[no-any-return]


def checkpoint(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that keeps only its arguments for the backward pass, in which it is recomputed."""
    checkpointed: Callable[..., Any] = fg.checkpoint(fun)

    @functools.wraps(fun)
    def run(*args: Array, **kwargs: object) -> Any:
        return plain(checkpointed(*args, **kwargs))

    return run
