"""Likelihoods and fits: logistic regression, mixtures, Gaussian processes, a random walk, clusters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from .kind import Kind
from .libraries import Library

Random = np.random.Generator
LOG_TWO_PI = np.log(2.0 * np.pi)


# Logistic regression


def classes(rng: Random, count: int, width: int) -> tuple[Any, ...]:
    """Return weights, an offset, features, and answers 0 or 1."""
    return rng.normal(size=width), np.float64(0.1), rng.normal(size=(count, width)), rng.integers(0, 2, count) * 1.0


def logistic(library: Library) -> Callable[..., Any]:
    """Return the penalized cross-entropy and its gradient."""
    xp = library.numpy

    def loss(weights: Any, offset: Any, features: Any, answers: Any) -> Any:
        scores = features @ weights + offset
        return xp.mean(xp.logaddexp(0.0, scores) - answers * scores) + 0.01 * xp.sum(weights**2)

    return library.value_and_grad(loss, (0, 1))


def logistic_by_hand(weights: Any, offset: Any, features: Any, answers: Any) -> tuple[Any, ...]:
    """Compute the penalized cross-entropy and its gradient."""
    scores = features @ weights
    scores += offset
    softplus = np.logaddexp(0.0, scores)
    loss = (softplus.sum() - answers @ scores) / len(scores) + 0.01 * (weights @ weights)
    scores -= softplus
    np.exp(scores, out=scores)
    scores -= answers
    scores /= len(scores)
    return loss, (scores @ features + 0.02 * weights, scores.sum())


# A mixture of Gaussians


def mixture_points(rng: Random, parts: int, count: int, width: int) -> tuple[Any, ...]:
    """Return weights, means and logarithms of the deviations of each part, and points."""
    weights, means, logs = rng.normal(size=parts), rng.normal(size=(parts, width)), rng.normal(size=(parts, width))
    return weights, means, 0.1 * logs, rng.normal(size=(count, width))


def mixture(library: Library) -> Callable[..., Any]:
    """Return the logarithm of a mixture's likelihood and its gradient."""
    xp, logsumexp = library.numpy, library.special.logsumexp

    def log_likelihood(weights: Any, means: Any, logs: Any, points: Any) -> Any:
        z = (points - means[:, None, :]) / xp.exp(logs)[:, None, :]
        densities = -0.5 * xp.sum(z**2, axis=2) - xp.sum(logs, axis=1)[:, None]
        densities = densities + (weights - logsumexp(weights))[:, None]
        return xp.sum(logsumexp(densities, axis=0)) - 0.5 * math.prod(points.shape) * LOG_TWO_PI

    return library.value_and_grad(log_likelihood, (0, 1, 2))


def mixture_by_hand(weights: Any, means: Any, logs: Any, points: Any) -> tuple[Any, ...]:
    """Compute the logarithm of the likelihood and its gradient."""
    inverse = np.exp(-logs)
    z = points - means[:, None, :]
    z *= inverse[:, None, :]
    shares = np.exp(weights - weights.max())
    total = shares.sum()
    constants = weights - weights.max() - np.log(total) - logs.sum(axis=1)
    densities = np.vecdot(z, z)
    densities *= -0.5
    densities += constants[:, None]
    top = densities.max(axis=0)
    densities -= top
    np.exp(densities, out=densities)
    sums = densities.sum(axis=0)
    value = np.log(sums).sum() + top.sum() - 0.5 * math.prod(points.shape) * LOG_TWO_PI
    densities /= sums
    counts = densities.sum(axis=1)
    d_means = (densities[:, None, :] @ z)[:, 0] * inverse
    z *= z
    d_logs = (densities[:, None, :] @ z)[:, 0] - counts[:, None]
    return value, (counts - len(points) * shares / total, d_means, d_logs)


# A Gaussian process


def process_points(rng: Random, count: int) -> tuple[Any, ...]:
    """Return two length scales, amplitude and noise as logarithms, and noisy values at points in the plane."""
    x = rng.uniform(0.0, 5.0, size=(count, 2))
    y = np.sin(x[:, 0]) * np.cos(x[:, 1]) + 0.1 * rng.normal(size=count)
    return np.array([0.1, 0.3]), np.float64(0.2), np.float64(-1.5), x, y


def process(library: Library) -> Callable[..., Any]:
    """Return the logarithm of a Gaussian process's likelihood and its gradient."""
    xp, solve = library.numpy, library.linalg.solve_triangular

    def log_likelihood(scales: Any, amplitude: Any, noise: Any, x: Any, y: Any) -> Any:
        z = x / xp.exp(scales)
        squares = xp.sum((z[:, None, :] - z[None, :, :]) ** 2, axis=2)
        covariance = xp.exp(2.0 * amplitude - 0.5 * squares) + xp.exp(2.0 * noise) * library.constant(np.eye(len(y)))
        factor = xp.linalg.cholesky(covariance)
        whitened = solve(factor, y, lower=True)
        return (
            -0.5 * xp.sum(whitened**2)
            - xp.sum(xp.log(xp.diagonal(factor, axis1=-1, axis2=-2)))
            - 0.5 * len(y) * LOG_TWO_PI
        )

    return library.value_and_grad(log_likelihood, (0, 1, 2))


def process_by_hand(scales: Any, amplitude: Any, noise: Any, x: Any, y: Any) -> tuple[Any, ...]:
    """Compute the logarithm of the likelihood; its gradient by the covariance is half (a a' - inverse)."""
    z = x * np.exp(-scales)
    kernel = np.zeros((len(y), len(y)))
    for column in z.T:
        difference = column[:, None] - column
        difference *= difference
        kernel += difference
    kernel *= -0.5
    kernel += 2.0 * amplitude
    np.exp(kernel, out=kernel)
    variance = np.exp(2.0 * noise)
    covariance = kernel.copy()
    covariance.reshape(-1)[:: len(y) + 1] += variance
    factor = np.linalg.cholesky(covariance)
    a = scipy.linalg.cho_solve((factor, True), y, check_finite=False)
    inverse, _ = scipy.linalg.lapack.dpotri(factor.T, lower=False)  # the transpose is a view in LAPACK's order
    inverse += np.triu(inverse, 1).T
    value = -0.5 * (y @ a) - np.log(np.diagonal(factor)).sum() - 0.5 * len(y) * LOG_TWO_PI
    d_noise = variance * (a @ a - np.trace(inverse))
    weights = a[:, None] * a
    weights -= inverse
    weights *= kernel
    d_scales = (z * z).T @ weights.sum(axis=1) - np.vecdot(z.T, (weights @ z).T)
    return value, (d_scales, weights.sum(), d_noise)


# A random walk, observed with noise


def walk(rng: Random, count: int) -> tuple[Any, ...]:
    """Return a path, the logarithms of its step and of the noise, and what was observed."""
    path = np.cumsum(0.1 * rng.normal(size=count))
    return path, np.float64(-2.0), np.float64(-1.0), path + 0.3 * rng.normal(size=count)


def random_walk(library: Library) -> Callable[..., Any]:
    """Return the logarithm of a path's density, and its gradient: what Hamiltonian Monte Carlo asks for."""
    xp, logpdf = library.numpy, library.norm.logpdf

    def log_density(path: Any, step: Any, noise: Any, observed: Any) -> Any:
        steps = xp.sum(logpdf(path[1:], path[:-1], xp.exp(step)))
        seen = xp.sum(logpdf(observed, path, xp.exp(noise)))
        return steps + seen + logpdf(step, -2.0, 1.0) + logpdf(noise, -1.0, 1.0)

    return library.value_and_grad(log_density, (0, 1, 2))


def random_walk_by_hand(path: Any, step: Any, noise: Any, observed: Any) -> tuple[Any, ...]:
    """Compute the logarithm of the density and its gradient."""
    step_precision, noise_precision = np.exp(-2.0 * step), np.exp(-2.0 * noise)
    moves, errors = path[1:] - path[:-1], observed - path
    step_square = step_precision * (moves @ moves)
    noise_square = noise_precision * (errors @ errors)
    priors = -0.5 * ((step + 2.0) ** 2 + (noise + 1.0) ** 2)
    value = priors - 0.5 * (step_square + noise_square) - len(moves) * step - len(errors) * noise
    value -= (0.5 * (len(moves) + len(errors)) + 1.0) * LOG_TWO_PI
    errors *= noise_precision
    moves *= step_precision
    errors[1:] -= moves
    errors[:-1] += moves
    return value, (errors, step_square - len(moves) - (step + 2.0), noise_square - len(observed) - (noise + 1.0))


# Clusters


def clusters(rng: Random, count: int, centers: int, width: int) -> tuple[Any, ...]:
    """Return centers and points."""
    return rng.normal(size=(centers, width)), rng.normal(size=(count, width))


def k_means(library: Library) -> Callable[..., Any]:
    """Return the gradient of the sum of squared distances, and the diagonal of its Hessian, which has no more."""
    xp = library.numpy

    def derivative(centers: Any, points: Any) -> Any:
        def cost(centers: Any) -> Any:
            return xp.sum(xp.min(xp.sum((points[:, None, :] - centers[None, :, :]) ** 2, axis=2), axis=1))

        return library.gradient_and_product(cost, centers, library.constant(np.ones(centers.shape)))

    return derivative


def k_means_by_hand(centers: Any, points: Any) -> tuple[Any, ...]:
    """Count and add up the points of each center."""
    differences = points[:, None, :] - centers
    nearest = np.vecdot(differences, differences).argmin(axis=1)
    members = np.zeros((len(centers), len(points)))
    members[nearest, np.arange(len(points))] = 2.0
    counts = members.sum(axis=1)[:, None]
    return counts * centers - members @ points, np.broadcast_to(counts, centers.shape).copy()


KINDS = [
    Kind("k-means, second order", ((100, 5, 3), (1000, 10, 8), (10_000, 20, 10)), clusters, k_means, k_means_by_hand),
    Kind("Gaussian process", ((20,), (100,), (400,)), process_points, process, process_by_hand),
    Kind("Gaussian mixture", ((3, 50, 2), (10, 1000, 5), (20, 5000, 10)), mixture_points, mixture, mixture_by_hand),
    Kind("logistic regression", ((100, 10), (1000, 50), (20_000, 100)), classes, logistic, logistic_by_hand),
    Kind("random walk, normal densities", ((100,), (1000,), (100_000,)), walk, random_walk, random_walk_by_hand),
]
