"""What the kinds of program ask of a library that differentiates, and the libraries that can do it.

A program is written once, in NumPy's names. A library says which module has these names, and how it takes gradients.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np


class Library:
    """A library that differentiates functions which are written in NumPy's names.

    Attributes:
        name: the head of its column.
        compiles: whether a program is compiled as a whole, loops unrolled.
        is_slow_by_step: whether a long loop in Python takes minutes.
        numpy: the module with NumPy's functions.
        special: the module with SciPy's special functions.
        linalg: the module with SciPy's linear algebra.
        norm: SciPy's normal distribution.
        convolve: NumPy's `convolve`, mode "full".
    """

    name: str
    compiles = False
    is_slow_by_step = False
    numpy: Any
    special: Any
    linalg: Any
    norm: Any
    convolve: Callable[[Any, Any], Any]

    def constant(self, array: Any) -> Any:
        """Return an array that a program makes by itself as the library's."""
        return array

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return arguments as the library's arrays."""
        return args

    def finish(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what runs a function to its end, compiled where the library compiles."""
        return function

    def candidate(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], Any]:
        """Return what computes a function of these arguments once, to its end."""
        finished, prepared = self.finish(function), self.prepare(args)
        return lambda: finished(*prepared)

    def value_and_grad(self, function: Callable[..., Any], argnums: Any) -> Callable[..., Any]:
        """Return what computes a number and its gradient."""
        raise NotImplementedError

    def grad(self, function: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
        """Return what computes the gradient of a number."""
        raise NotImplementedError

    def hessian(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what computes the matrix of second derivatives."""
        raise NotImplementedError

    def jacobian(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what computes the matrix of first derivatives."""
        raise NotImplementedError

    def pullback(self, function: Callable[..., Any], x: Any) -> tuple[Any, Callable[[Any], Any]]:
        """Return a value, and what takes weights of it back to `x`."""
        raise NotImplementedError

    def gradient_and_product(self, function: Callable[..., Any], x: Any, v: Any) -> tuple[Any, Any]:
        """Return the gradient at `x`, and the product of the Hessian with `v`."""
        raise NotImplementedError

    def memory(self, function: Callable[..., Any], args: tuple[Any, ...]) -> int:
        """Return the bytes that a compiled function takes for results and on the way."""
        raise NotImplementedError

    def scan(self, step: Callable[..., Any], carry: Any, xs: Any, count: int) -> tuple[Any, Any]:
        """Return the carry after all iterations along arrays, and the outputs of all iterations."""
        raise NotImplementedError

    def adam(self, rate: float) -> tuple[Callable[[Any], Any], Callable[..., tuple[Any, Any]]]:
        """Return what makes Adam's first state of weights, and what steps: weights and state, of gradients and both."""
        raise NotImplementedError


class Fgrad(Library):
    """fgrad: programs run on NumPy itself."""

    name = "fgrad"
    numpy = np

    def __init__(self) -> None:
        fg = importlib.import_module("fgrad")
        self.special = importlib.import_module("fgrad.scipy.special")
        self.linalg = importlib.import_module("fgrad.scipy.linalg")
        self.norm = importlib.import_module("fgrad.scipy.stats").norm
        self.convolve = np.convolve
        self.jvp, self.vjp = fg.jvp, fg.vjp
        self.grad, self.value_and_grad = fg.grad, fg.value_and_grad
        self.hessian, self.jacobian = fg.hessian, fg.jacobian

    def pullback(self, function: Callable[..., Any], x: Any) -> tuple[Any, Callable[[Any], Any]]:
        value, pull = self.vjp(function, x)
        return value, lambda weights: pull(weights)[0]

    def gradient_and_product(self, function: Callable[..., Any], x: Any, v: Any) -> tuple[Any, Any]:
        return self.jvp(self.grad(function), (x,), (v,))

    def scan(self, step: Callable[..., Any], carry: Any, xs: Any, count: int) -> tuple[Any, Any]:
        return importlib.import_module("fgrad").scan(step, carry, xs, count)  # type: ignore[no-any-return]

    def adam(self, rate: float) -> tuple[Callable[[Any], Any], Callable[..., tuple[Any, Any]]]:
        optimizer = importlib.import_module("fgrad").optimizers.Adam(rate, corrected_epsilon=True)
        return optimizer.init, optimizer.update


class CompiledFgrad(Fgrad):
    """fgrad with `compile` around the derivative; compiling is not timed."""

    name = "compiled"
    compiles = True

    def finish(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return importlib.import_module("fgrad").compile(function)  # type: ignore[no-any-return]

    def memory(self, function: Callable[..., Any], args: tuple[Any, ...]) -> int:
        found = self.finish(function).inspect(*args).memory  # type: ignore[attr-defined]
        return sum(size for what, size in found.items() if what != "constants")


class Autograd(Library):
    """HIPS Autograd."""

    name = "autograd"

    def __init__(self) -> None:
        self.autograd = importlib.import_module("autograd")
        self.numpy = importlib.import_module("autograd.numpy")
        self.special = importlib.import_module("autograd.scipy.special")
        self.linalg = importlib.import_module("autograd.scipy.linalg")
        self.norm = importlib.import_module("autograd.scipy.stats").norm
        self.convolve = importlib.import_module("autograd.scipy.signal").convolve
        self.hessian, self.jacobian = self.autograd.hessian, self.autograd.jacobian

    def grad(self, function: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
        return self.autograd.grad(function, argnums)

    def value_and_grad(self, function: Callable[..., Any], argnums: Any) -> Callable[..., Any]:
        return self.autograd.value_and_grad(function, argnums)

    def pullback(self, function: Callable[..., Any], x: Any) -> tuple[Any, Callable[[Any], Any]]:
        pull, value = self.autograd.make_vjp(function)(x)
        return value, pull

    def gradient_and_product(self, function: Callable[..., Any], x: Any, v: Any) -> tuple[Any, Any]:
        pull, gradient = self.autograd.make_vjp(self.grad(function))(x)
        return gradient, pull(v)


class Jax(Library):
    """JAX, operation by operation."""

    name = "jax"
    is_slow_by_step = True

    def __init__(self) -> None:
        self.jax = importlib.import_module("jax")
        self.jax.config.update("jax_enable_x64", True)
        self.numpy = importlib.import_module("jax.numpy")
        self.special = importlib.import_module("jax.scipy.special")
        self.linalg = importlib.import_module("jax.scipy.linalg")
        self.norm = importlib.import_module("jax.scipy.stats").norm
        self.convolve = self.numpy.convolve
        self.grad, self.value_and_grad = self.jax.grad, self.jax.value_and_grad
        self.hessian, self.jacobian = self.jax.hessian, self.jax.jacrev

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return self.jax.tree.map(self.numpy.asarray, args)

    def finish(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: self.jax.block_until_ready(function(*args))

    def pullback(self, function: Callable[..., Any], x: Any) -> tuple[Any, Callable[[Any], Any]]:
        value, pull = self.jax.vjp(function, x)
        return value, lambda weights: pull(weights)[0]

    def gradient_and_product(self, function: Callable[..., Any], x: Any, v: Any) -> tuple[Any, Any]:
        return self.jax.jvp(self.grad(function), (x,), (v,))

    def scan(self, step: Callable[..., Any], carry: Any, xs: Any, count: int) -> tuple[Any, Any]:
        return self.jax.lax.scan(step, carry, xs, count)  # type: ignore[no-any-return]

    def adam(self, rate: float) -> tuple[Callable[[Any], Any], Callable[..., tuple[Any, Any]]]:
        optax = importlib.import_module("optax")
        optimizer = optax.adam(rate)

        def update(gradients: Any, state: Any, weights: Any) -> tuple[Any, Any]:
            steps, state = optimizer.update(gradients, state, weights)
            return optax.apply_updates(weights, steps), state

        return optimizer.init, update


class CompiledJax(Jax):
    """JAX with `jit` around the derivative; compiling is not timed."""

    name = "jax.jit"
    compiles = True

    def finish(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return super().finish(self.jax.jit(function))

    def memory(self, function: Callable[..., Any], args: tuple[Any, ...]) -> int:
        found = self.jax.jit(function).lower(*self.prepare(args)).compile().memory_analysis()
        return int(found.temp_size_in_bytes + found.output_size_in_bytes)
