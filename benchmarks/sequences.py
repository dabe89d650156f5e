"""Programs in which each iteration depends on the one before, written once for loops of Python and loops of a library.

    program = PROGRAMS["Kalman filter"]
    program.written(library, looping, 200)(*program.data(200))

`looping` is the loop: `plain(numpy)`, which is a `for` of Python, or a library's own scan. What a program needs of a
library otherwise stands in `kinds.libraries`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from kinds import Library

Args = tuple[Any, ...]
Looping = Callable[..., tuple[Any, Any]]
"""Called with a function, a carry, arrays to go along, and a number of iterations; returns the carry and stacked
outputs."""


def plain(xp: Any) -> Looping:
    """Return a loop of Python that does what a scan does; outputs are an array or None."""

    def looping(step: Callable[..., Any], carry: Any, xs: Any, count: int) -> tuple[Any, Any]:
        outputs = []
        for i in range(count):
            x = tuple(each[i] for each in xs) if isinstance(xs, tuple) else None if xs is None else xs[i]
            carry, output = step(carry, x)
            outputs.append(output)
        return carry, None if outputs[0] is None else xp.stack(outputs)

    return looping


@dataclass(frozen=True)
class Program:
    """A program with a loop.

    Attributes:
        name: what the table calls it.
        lengths: the numbers of iterations, from short to long.
        data: makes the arguments for a number of iterations.
        written: with a library, a way to loop and a number of iterations, returns the function of the arguments to
        time.
        tolerance: how far results may be from each other, relative to the largest element.
    """

    name: str
    lengths: tuple[int, int, int]
    data: Callable[[int], Args]
    written: Callable[[Library, Looping, int], Callable[..., Any]]
    tolerance: float = 1e-10


# A recurrent network of two layers, which tells what comes next

WIDTH = 14


def sequence(count: int) -> Args:
    """Return the weights of two layers, what goes in at each iteration, and what is wanted of it."""
    rng = np.random.default_rng(0)

    def layer() -> Args:
        from_below, from_units = (rng.normal(size=(WIDTH, 4 * WIDTH)) / np.sqrt(WIDTH) for _ in range(2))
        return from_below, from_units, 0.1 * rng.normal(size=4 * WIDTH)

    return (layer(), layer()), rng.normal(size=(count, WIDTH)), rng.normal(size=(count, WIDTH))


def recurrent(library: Library, looping: Looping, count: int) -> Callable[..., Any]:
    """Return the mean of squared errors over all iterations, and its gradient by the weights."""
    xp = library.numpy

    def sigmoid(z: Any) -> Any:
        return 1.0 / (1.0 + xp.exp(-z))

    def unit(state: Any, below: Any, weights: Any) -> Any:
        hidden, cell = state
        from_below, from_units, bias = weights
        enter, forget, leave, change = xp.split(below @ from_below + hidden @ from_units + bias, 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * xp.tanh(change)
        return sigmoid(leave) * xp.tanh(cell), cell

    def loss(layers: Any, inputs: Any, wanted: Any) -> Any:
        def iteration(states: Any, below: Any) -> Any:
            first = unit(states[0], below, layers[0])
            second = unit(states[1], first[0], layers[1])
            return (first, second), second[0]

        silence = (np.zeros(WIDTH), np.zeros(WIDTH))
        _, answers = looping(iteration, (silence, silence), inputs, count)
        return xp.mean((answers - wanted) ** 2)

    return library.value_and_grad(loss, 0)


# Differential equations, by Runge and Kutta's steps


def runge_kutta(slope: Callable[[Any], Any], y: Any, step: float) -> Any:
    """Return the state after a step."""
    k1 = slope(y)
    k2 = slope(y + 0.5 * step * k1)
    k3 = slope(y + 0.5 * step * k2)
    k4 = slope(y + step * k3)
    return y + step / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def coupled(_: int) -> Args:
    """Return how 8 states act on each other, and the states at the start."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(8, 8)) / np.sqrt(8), rng.normal(size=8)


def equation(library: Library, looping: Looping, count: int) -> Callable[..., Any]:
    """Return the sum of squares at the end, and its gradient by the couplings and the start."""
    xp = library.numpy

    def loss(couplings: Any, start: Any) -> Any:
        def iteration(y: Any, _: Any) -> Any:
            return runge_kutta(lambda y: xp.tanh(couplings @ y) - 0.5 * y, y, 0.01), None

        end, _ = looping(iteration, start, None, count)
        return xp.sum(end**2)

    return library.value_and_grad(loss, (0, 1))


def swing(count: int) -> Args:
    """Return masses and lengths, angles and speeds at the start, and the angles that were seen at each iteration.

    The swing is a small one, which is regular: after a large one, rounding alone decides where the pendulum is.
    """
    rng = np.random.default_rng(0)
    facts = np.array([1.0, 0.6, 1.0, 0.7])
    return facts, np.array([0.5, 0.3, 0.0, 0.2]), 0.3 * rng.normal(size=(count, 2))


def pendulum(library: Library, looping: Looping, count: int) -> Callable[..., Any]:
    """Return the squared error of a double pendulum's angles, and its gradient by all facts and the start."""
    xp = library.numpy

    def loss(facts: Any, start: Any, seen: Any) -> Any:
        m1, m2, l1, l2 = facts

        def slope(state: Any) -> Any:
            a, b, speed, other = state
            sine, cosine = xp.sin(a - b), xp.cos(a - b)
            mass = m1 + m2 * sine * sine
            of_first, of_second = l1 * speed * speed, l2 * other * other
            pull, push = 9.81 * (m1 + m2) * xp.sin(a), 9.81 * xp.sin(b)
            first = -(m2 * sine * (of_first * cosine + of_second) + pull - m2 * push * cosine) / (l1 * mass)
            second = (sine * ((m1 + m2) * of_first + m2 * of_second * cosine) + pull * cosine - (m1 + m2) * push) / (
                l2 * mass
            )
            return xp.stack((speed, other, first, second))

        def iteration(state: Any, _: Any) -> Any:
            state = runge_kutta(slope, state, 0.005)
            return state, state[:2]

        _, angles = looping(iteration, start, None, count)
        return xp.mean((angles - seen) ** 2)

    return library.value_and_grad(loss, (0, 1))


# A Kalman filter


def track(count: int) -> Args:
    """Return the logarithms of the noises' variances, how the 4 states move on, and 2 measurements a step."""
    rng = np.random.default_rng(0)
    moves = np.eye(4)
    moves[:2, 2:] = 0.1 * np.eye(2)
    moves[2:] *= 0.95
    measured = np.cumsum(0.1 * rng.normal(size=(count, 2)), axis=0) + 0.2 * rng.normal(size=(count, 2))
    return np.log(np.array([0.01, 0.01, 0.1, 0.1])), np.log(np.array([0.04, 0.05])), moves, measured


def kalman(library: Library, looping: Looping, count: int) -> Callable[..., Any]:
    """Return the logarithm of the likelihood, and its gradient by the noises and by how the states move on."""
    xp = library.numpy
    shows = np.eye(2, 4)

    def likelihood(log_process: Any, log_noise: Any, moves: Any, measured: Any) -> Any:
        process, noise = xp.diag(xp.exp(log_process)), xp.diag(xp.exp(log_noise))

        def iteration(carry: Any, each: Any) -> Any:
            mean, spread = carry
            mean, spread = moves @ mean, moves @ spread @ moves.T + process
            error = each - shows @ mean
            cross = shows @ spread
            surprise = cross @ shows.T + noise
            gain = xp.linalg.solve(surprise, cross).T
            term = -0.5 * (error @ xp.linalg.solve(surprise, error) + xp.linalg.slogdet(surprise)[1])
            return (mean + gain @ error, spread - gain @ cross), term

        _, terms = looping(iteration, (np.zeros(4), np.eye(4)), measured, count)
        return xp.sum(terms) - count * np.log(2.0 * np.pi)

    return library.value_and_grad(likelihood, (0, 1, 2))


# Hamiltonian Monte Carlo

LEAPS = 10


def chances(count: int) -> Args:
    """Return the precision of 10 correlated numbers, where they begin, and each iteration's momenta and chance."""
    rng = np.random.default_rng(0)
    factor = np.eye(10) + 0.3 * np.tril(rng.normal(size=(10, 10)), -1)
    return factor @ factor.T, np.zeros(10), rng.normal(size=(count, 10)), rng.uniform(size=count)


def monte_carlo(library: Library, looping: Looping, count: int) -> Callable[..., Any]:
    """Return the samples of a normal distribution; each iteration has an inner loop."""
    xp = library.numpy
    step = 0.15

    def samples(precision: Any, start: Any, momenta: Any, chances: Any) -> Any:
        def leap(state: Any, _: Any) -> Any:
            q, p = state
            p = p - 0.5 * step * (precision @ q)
            q = q + step * p
            return (q, p - 0.5 * step * (precision @ q)), None

        def energy(q: Any, p: Any) -> Any:
            return 0.5 * (q @ precision @ q + p @ p)

        def iteration(q: Any, drawn: Any) -> Any:
            p, chance = drawn
            (new, end), _ = looping(leap, (q, p), None, LEAPS)
            q = xp.where(chance < xp.exp(energy(q, p) - energy(new, end)), new, q)
            return q, q

        return looping(iteration, start, (momenta, chances), count)[1]

    return samples


# Training of the classifier of digits

HIDDEN, BATCH = 256, 32


def images(count: int) -> Args:
    """Return the weights at the start, images and their digits, and which of them are in each batch."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(0)
    pixels, labels = load_digits(return_X_y=True)
    weights = (
        rng.normal(size=(64, HIDDEN)) / np.sqrt(64),
        np.zeros(HIDDEN),
        rng.normal(size=(HIDDEN, 10)) / np.sqrt(HIDDEN),
        np.zeros(10),
    )
    return weights, pixels / 16, labels, rng.integers(0, len(labels), size=(count, BATCH))


def training(library: Library, looping: Looping, count: int) -> Callable[..., Any]:
    """Return the weights after Adam's steps, and the loss of each."""
    xp, logsumexp = library.numpy, library.special.logsumexp
    initial, update = library.adam(0.003)

    def loss(weights: Any, pixels: Any, labels: Any) -> Any:
        w1, b1, w2, b2 = weights
        scores = xp.maximum(pixels @ w1 + b1, 0) @ w2 + b2
        return xp.mean(logsumexp(scores, axis=1) - scores[np.arange(BATCH), labels])

    def train(weights: Any, pixels: Any, labels: Any, batches: Any) -> Any:
        def iteration(carry: Any, chosen: Any) -> Any:
            weights, state = carry
            value, gradients = library.value_and_grad(loss, 0)(weights, pixels[chosen], labels[chosen])
            return update(gradients, state, weights), value

        (weights, _), losses = looping(iteration, (weights, initial(weights)), batches, count)
        return weights, losses

    return train


PROGRAMS = {
    program.name: program
    for program in (
        Program("LSTM, 2 layers of 14", (32, 128, 512), sequence, recurrent),
        Program("RK4, 8 states", (100, 1000, 3000), coupled, equation),
        Program("double pendulum", (100, 1000, 3000), swing, pendulum),
        Program("Kalman filter", (50, 200, 1000), track, kalman),
        Program("HMC, value alone", (20, 200, 2000), chances, monte_carlo),
        Program("training by Adam", (45, 450, 1800), images, training),
    )
}
