"""Whole second derivatives and Jacobians: Rosenbrock's function, a small network."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .kind import Kind
from .libraries import Library

Random = np.random.Generator


def rosenbrock(x: Any) -> Any:
    """Compute Rosenbrock's function of a vector."""
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def point(rng: Random, n: int) -> tuple[Any, ...]:
    """Return where to take the Hessian."""
    return (rng.normal(size=n),)


def pair(rng: Random, n: int) -> tuple[Any, ...]:
    """Return where to take the Hessian, and what to multiply it with."""
    return rng.normal(size=n), rng.normal(size=n)


def bands(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the diagonal of Rosenbrock's Hessian, and what stands beside it."""
    diagonal = np.empty_like(x)
    np.multiply(x, x, out=diagonal)
    diagonal[:-1] *= 1200.0
    diagonal[:-1] -= 400.0 * x[1:]
    diagonal[:-1] += 2.0
    diagonal[-1] = 0.0
    diagonal[1:] += 200.0
    return diagonal, -400.0 * x[:-1]


def hessian_by_hand(x: np.ndarray) -> np.ndarray:
    """Fill the three bands into a matrix."""
    n = len(x)
    diagonal, beside = bands(x)
    matrix = np.zeros((n, n))
    flat = matrix.reshape(-1)
    flat[:: n + 1] = diagonal
    flat[1 :: n + 1] = beside
    flat[n :: n + 1] = beside
    return matrix


def product_by_hand(x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Multiply the three bands with a vector."""
    diagonal, beside = bands(x)
    diagonal *= v
    diagonal[:-1] += beside * v[1:]
    diagonal[1:] += beside * v[:-1]
    return diagonal


def hessian(library: Library) -> Callable[..., Any]:
    """Return the Hessian of Rosenbrock's function."""
    return library.hessian(rosenbrock)


def hessian_product(library: Library) -> Callable[..., Any]:
    """Return the product of Rosenbrock's Hessian with a vector."""
    return lambda x, v: library.gradient_and_product(rosenbrock, x, v)[1]


def network(rng: Random, hidden: int) -> tuple[Any, ...]:
    """Return 20 inputs, and the weights of a network with two hidden layers and 20 outputs."""
    widths = (20, hidden, hidden, 20)
    weights = [rng.normal(size=shape) / np.sqrt(shape[0]) for shape in itertools.pairwise(widths)]
    return rng.normal(size=20), *weights


def jacobian(library: Library) -> Callable[..., Any]:
    """Return the Jacobian of the network's outputs by its inputs."""
    tanh = library.numpy.tanh

    def derivative(x: Any, w1: Any, w2: Any, w3: Any) -> Any:
        return library.jacobian(lambda x: tanh(tanh(x @ w1) @ w2) @ w3)(x)

    return derivative


def jacobian_by_hand(x: np.ndarray, w1: np.ndarray, w2: np.ndarray, w3: np.ndarray) -> np.ndarray:
    """Multiply the layers' Jacobians from the side of the outputs."""
    h1 = np.tanh(x @ w1)
    h2 = np.tanh(h1 @ w2)
    back = w3.T * (1.0 - h2 * h2)
    back = back @ w2.T
    back *= 1.0 - h1 * h1
    return back @ w1.T


KINDS = [
    Kind("Rosenbrock, Hessian", ((10,), (50,), (200,)), point, hessian, hessian_by_hand),
    Kind("Rosenbrock, Hessian product", ((100,), (10_000,), (100_000,)), pair, hessian_product, product_by_hand),
    Kind("network, Jacobian", ((20,), (100,), (400,)), network, jacobian, jacobian_by_hand),
]
