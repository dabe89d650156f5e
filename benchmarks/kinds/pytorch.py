"""PyTorch, operation by operation, under NumPy's names for what the kinds of program use."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from .libraries import Library


class Torch(Library):
    """PyTorch on one thread, with the passes that its users write: `torch.autograd.grad`, and `vmap` for matrices."""

    name = "torch"

    def __init__(self) -> None:
        torch = self.torch = importlib.import_module("torch")
        torch.set_num_threads(1)

        def reduced(function: Any, over_axes: Any) -> Any:
            """Return a reduction, whose axis PyTorch calls otherwise."""

            def reduce(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
                return function(x) if axis is None else over_axes(x, axis, keepdims)

            return reduce

        self.numpy = SimpleNamespace(
            **{name: getattr(torch, name) for name in ("cos", "einsum", "exp", "log", "sin", "sqrt", "stack", "tanh")},
            sum=reduced(torch.sum, torch.sum),
            mean=reduced(torch.mean, torch.mean),
            max=reduced(torch.max, torch.amax),
            min=reduced(torch.min, torch.amin),
            diff=torch.diff,
            cross=lambda x, y: torch.linalg.cross(x, y),
            split=lambda x, count, axis: torch.chunk(x, count, axis),
            logaddexp=lambda x, y: torch.logaddexp(torch.as_tensor(x, dtype=y.dtype), y),
            diagonal=lambda x, axis1, axis2: torch.diagonal(x, dim1=axis1, dim2=axis2),
            linalg=SimpleNamespace(cholesky=torch.linalg.cholesky),
        )
        self.special = SimpleNamespace(erf=torch.special.erf, logsumexp=lambda x, axis=0: torch.logsumexp(x, axis))
        self.linalg = SimpleNamespace(
            solve_triangular=lambda a, b, lower: torch.linalg.solve_triangular(a, b[:, None], upper=not lower)[:, 0]
        )
        normal = torch.distributions.Normal
        self.norm = SimpleNamespace(logpdf=lambda x, loc, scale: normal(loc, scale, validate_args=False).log_prob(x))

    def convolve(self, x: Any, kernel: Any) -> Any:  # type: ignore[override]
        functions = self.torch.nn.functional
        return functions.conv1d(x[None, None], kernel.flip(0)[None, None], padding=len(kernel) - 1)[0, 0]

    def constant(self, array: Any) -> Any:
        return self.torch.from_numpy(array)

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self.torch.from_numpy(np.array(arg)) for arg in args)

    def value_and_grad(self, function: Callable[..., Any], argnums: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            args = tuple(x.detach().requires_grad_() if i in argnums else x for i, x in enumerate(args))
            value = function(*args)
            return value.detach(), self.torch.autograd.grad(value, [args[i] for i in argnums])

        return run

    def grad(self, function: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
        if argnums != 0:
            run = self.value_and_grad(function, argnums)
            return lambda *args: run(*args)[1]

        def inner(x: Any) -> Any:  # of what is differentiated again
            return self.torch.autograd.grad(function(x), x, create_graph=True)[0]

        return inner

    def hessian(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self.torch.func.hessian(function)  # type: ignore[no-any-return]

    def jacobian(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self.torch.func.jacrev(function)  # type: ignore[no-any-return]

    def pullback(self, function: Callable[..., Any], x: Any) -> tuple[Any, Callable[[Any], Any]]:
        x = x.detach().requires_grad_()
        value = function(x)
        return value.detach(), lambda weights: self.torch.autograd.grad(value, x, weights, retain_graph=True)[0]

    def gradient_and_product(self, function: Callable[..., Any], x: Any, v: Any) -> tuple[Any, Any]:
        x = x.detach().requires_grad_()
        gradient = self.torch.autograd.grad(function(x), x, create_graph=True)[0]
        return gradient.detach(), self.torch.autograd.grad(gradient, x, v)[0]
