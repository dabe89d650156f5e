"""Many small problems at once: option prices, and the reprojection errors of bundle adjustment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from .kind import Kind
from .libraries import Library

Random = np.random.Generator
ROOT_HALF = np.sqrt(0.5)
DENSITY = 1.0 / np.sqrt(2.0 * np.pi)


# Options


def market(rng: Random, count: int) -> tuple[Any, ...]:
    """Return prices of the stock, strikes, times, rates and volatilities."""
    ranges = ((80.0, 120.0), (80.0, 120.0), (0.2, 2.0), (0.01, 0.05), (0.1, 0.5))
    return tuple(rng.uniform(*each, size=count) for each in ranges)


def call_prices(library: Library) -> Callable[..., Any]:
    """Return the prices of call options by Black and Scholes."""
    xp, erf = library.numpy, library.special.erf

    def cumulative(z: Any) -> Any:
        return 0.5 * (1.0 + erf(z * ROOT_HALF))

    def prices(stock: Any, strike: Any, time: Any, rate: Any, volatility: Any) -> Any:
        deviation = volatility * xp.sqrt(time)
        d1 = (xp.log(stock / strike) + (rate + 0.5 * volatility**2) * time) / deviation
        d2 = d1 - deviation
        return stock * cumulative(d1) - strike * xp.exp(-rate * time) * cumulative(d2)

    return prices


def greeks(library: Library) -> Callable[..., Any]:
    """Return the sum of the prices, and all first derivatives."""
    prices = call_prices(library)
    return library.value_and_grad(lambda *args: library.numpy.sum(prices(*args)), (0, 1, 2, 3, 4))


def greeks_by_hand(stock: Any, strike: Any, time: Any, rate: Any, volatility: Any) -> tuple[Any, ...]:
    """Compute the sum of the prices and delta, its dual, theta, rho and vega."""
    root = np.sqrt(time)
    deviation = volatility * root
    d1 = (np.log(stock / strike) + (rate + 0.5 * volatility * volatility) * time) / deviation
    delta = scipy.special.erf(d1 * ROOT_HALF)
    delta += 1.0
    delta *= 0.5
    discounted = scipy.special.erf((d1 - deviation) * ROOT_HALF)
    discounted += 1.0
    discounted *= -0.5
    discounted *= np.exp(-rate * time)
    owed = strike * discounted
    vega = d1 * d1
    vega *= -0.5
    np.exp(vega, out=vega)
    vega *= DENSITY
    vega *= stock
    theta = vega * volatility
    vega *= root
    theta /= root
    theta *= 0.5
    theta -= rate * owed
    return stock @ delta + owed.sum(), (delta, discounted, theta, -time * owed, vega)


def second_greeks(library: Library) -> Callable[..., Any]:
    """Return gamma and vanna: the derivatives of delta by the stock's price and by the volatility."""
    prices = call_prices(library)

    def total_delta(*market: Any) -> Any:
        return library.numpy.sum(library.grad(lambda stock: library.numpy.sum(prices(stock, *market[1:])))(market[0]))

    return library.grad(total_delta, (0, 4))


def second_greeks_by_hand(stock: Any, strike: Any, time: Any, rate: Any, volatility: Any) -> tuple[Any, ...]:
    """Compute gamma and vanna."""
    deviation = volatility * np.sqrt(time)
    d1 = (np.log(stock / strike) + (rate + 0.5 * volatility * volatility) * time) / deviation
    density = d1 * d1
    density *= -0.5
    np.exp(density, out=density)
    density *= DENSITY
    d2 = d1 - deviation
    d2 *= density
    d2 /= -volatility
    density /= stock * deviation
    return density, d2


# Bundle adjustment


def observations(rng: Random, cameras: int, points: int) -> tuple[Any, ...]:
    """Return camera, point and weight of each observation side by side, and where the point was seen.

    A camera is its rotation (3), center (3), focal length, principal point (2) and distortion (2).
    """
    count = cameras * points
    scales = np.array([0.3, 0.3, 0.3, 1.0, 1.0, 1.0, 0.2, 0.1, 0.1, 0.1, 0.1])
    camera = scales * rng.normal(size=(cameras, 11))
    camera[:, 6] += 1.0
    place = rng.normal(size=(points, 3)) + np.array([0.0, 0.0, 8.0])
    rows = [np.repeat(camera, points, axis=0), np.tile(place, (cameras, 1)), rng.uniform(0.5, 1.0, (count, 1))]
    return np.concatenate(rows, axis=1), rng.normal(size=(count, 2))


def bundle_adjustment(library: Library) -> Callable[..., Any]:
    """Return the errors of all observations, and their block of 2 x 15 derivatives each."""
    xp = library.numpy

    def errors(rows: Any, seen: Any) -> Any:
        rotation, center, focal, principal = rows[:, 0:3], rows[:, 3:6], rows[:, 6:7], rows[:, 7:9]
        angle = xp.sqrt(xp.sum(rotation**2, axis=1, keepdims=True))
        axis = rotation / angle
        arm = rows[:, 11:14] - center
        along = axis * xp.sum(axis * arm, axis=1, keepdims=True)
        turned = xp.cos(angle) * arm + xp.sin(angle) * xp.cross(axis, arm) + (1.0 - xp.cos(angle)) * along
        flat = turned[:, :2] / turned[:, 2:]
        square = xp.sum(flat**2, axis=1, keepdims=True)
        distortion = 1.0 + rows[:, 9:10] * square + rows[:, 10:11] * square**2
        return rows[:, 14:] * (flat * distortion * focal + principal - seen)

    def derivative(rows: Any, seen: Any) -> Any:
        value, pull = library.pullback(lambda rows: errors(rows, seen), rows)
        across, down = np.zeros(seen.shape), np.zeros(seen.shape)
        across[:, 0] = down[:, 1] = 1.0
        return value, pull(library.constant(across)), pull(library.constant(down))

    return derivative


def crossing(vectors: np.ndarray) -> np.ndarray:
    """Return the matrices by which vectors are crossed from the left."""
    matrices = np.zeros((len(vectors), 3, 3))
    x, y, z = vectors.T
    matrices[:, 0, 1], matrices[:, 0, 2], matrices[:, 1, 2] = -z, y, -x
    matrices[:, 1, 0], matrices[:, 2, 0], matrices[:, 2, 1] = z, -y, x
    return matrices


def turning(rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrices of rotations, and what takes a turned vector's cross product to a change of rotation.

    That is the left Jacobian J of the group of rotations: d(R y) = -[R y] J dr.
    """
    square = np.vecdot(rotation, rotation)[:, None, None]
    angle = np.sqrt(square)
    cross = crossing(rotation)
    twice = cross @ cross
    sine, cosine = np.sin(angle), (1.0 - np.cos(angle)) / square
    matrices = (sine / angle) * cross
    matrices += cosine * twice
    jacobians = cosine * cross
    jacobians += ((angle - sine) / (square * angle)) * twice
    diagonal = np.arange(3)
    matrices[:, diagonal, diagonal] += 1.0
    jacobians[:, diagonal, diagonal] += 1.0
    return matrices, jacobians


def blocks_by_hand(rows: Any, seen: Any) -> tuple[Any, ...]:
    """Compute the errors and the blocks, factor by factor of the chain."""
    matrices, jacobians = turning(rows[:, 0:3])
    turned = (matrices @ (rows[:, 11:14] - rows[:, 3:6])[:, :, None])[:, :, 0]
    depth = turned[:, 2:]
    flat = turned[:, :2] / depth
    square = np.vecdot(flat, flat)[:, None]
    distortion = 1.0 + rows[:, 9:10] * square + rows[:, 10:11] * square * square
    focal, weight = rows[:, 6:7], rows[:, 14:]
    bent = flat * distortion
    error = bent * focal
    error += rows[:, 7:9]
    error -= seen
    scale = weight * focal
    by_flat = (2.0 * rows[:, 9:10] + 4.0 * rows[:, 10:11] * square)[:, :, None] * (flat[:, :, None] * flat[:, None, :])
    by_flat[:, 0, 0] += distortion[:, 0]
    by_flat[:, 1, 1] += distortion[:, 0]
    by_flat *= (scale / depth)[:, :, None]
    by_turned = np.concatenate([by_flat, -(by_flat @ flat[:, :, None])], axis=2)
    blocks = np.zeros((len(rows), 2, 15))
    np.matmul(np.cross(turned[:, None, :], by_turned), jacobians, out=blocks[:, :, 0:3])
    np.matmul(by_turned, matrices, out=blocks[:, :, 11:14])
    np.negative(blocks[:, :, 11:14], out=blocks[:, :, 3:6])
    blocks[:, :, 6] = weight * bent
    blocks[:, 0, 7] = blocks[:, 1, 8] = weight[:, 0]
    blocks[:, :, 9] = scale * flat * square
    blocks[:, :, 10] = blocks[:, :, 9] * square
    blocks[:, :, 14] = error
    error *= weight
    return error, blocks[:, 0], blocks[:, 1]


KINDS = [
    Kind("bundle adjustment", ((2, 10), (10, 50), (20, 500)), observations, bundle_adjustment, blocks_by_hand),
    Kind("Black-Scholes", ((1000,), (100_000,), (1_000_000,)), market, greeks, greeks_by_hand),
    Kind("Black-Scholes, second order", ((1000,), (10_000,), (100_000,)), market, second_greeks, second_greeks_by_hand),
]
