"""Loops and signals: a differential equation, a convolution, a chain of single numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .kind import Kind
from .libraries import Library

Random = np.random.Generator
STEP = 0.05


# Predators and prey, by Runge and Kutta's steps


def populations(rng: Random, steps: int) -> tuple[Any, ...]:
    """Return rates, 16 pairs of populations at the start, and what was observed at each step."""
    rates = np.array([1.1, 0.4, 0.1, 0.4])
    return rates, rng.uniform(1.0, 3.0, size=(2, 16)), rng.uniform(1.0, 3.0, size=(steps, 2, 16))


def simulation(library: Library) -> Callable[..., Any]:
    """Return the sum of squared errors, and its gradient by rates and start."""
    xp = library.numpy

    def change(state: Any, rates: Any) -> Any:
        prey, predators = state
        met = prey * predators
        return xp.stack((rates[0] * prey - rates[1] * met, rates[2] * met - rates[3] * predators))

    def loss(rates: Any, state: Any, observed: Any) -> Any:
        total = 0.0
        for each in observed:
            k1 = change(state, rates)
            k2 = change(state + 0.5 * STEP * k1, rates)
            k3 = change(state + 0.5 * STEP * k2, rates)
            k4 = change(state + STEP * k3, rates)
            state = state + STEP / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            total = total + xp.sum((state - each) ** 2)
        return total

    return library.value_and_grad(loss, (0, 1))


def change_by_hand(state: Any, rates: Any) -> Any:
    """Return how fast the populations change."""
    met = state[0] * state[1]
    result = rates[0::3, None] * state
    result[0] -= rates[1] * met
    np.subtract(rates[2] * met, result[1], out=result[1])
    return result


def change_back(state: Any, rates: Any, weights: Any, d_rates: Any) -> Any:
    """Return the weights of the state, where those of its change are known; add up those of the rates."""
    prey, predators = state
    met = prey * predators
    of_prey, of_predators = weights
    d_rates += (of_prey @ prey, -(of_prey @ met), of_predators @ met, -(of_predators @ predators))
    shared = rates[2] * of_predators - rates[1] * of_prey
    result = state[::-1] * shared
    result[0] += rates[0] * of_prey
    result[1] -= rates[3] * of_predators
    return result


def simulation_by_hand(rates: Any, state: Any, observed: Any) -> tuple[Any, ...]:
    """Compute the sum of squared errors, and take it back step by step."""
    stages, errors = [], np.empty(observed.shape)
    for i, each in enumerate(observed):
        k1 = change_by_hand(state, rates)
        second = state + 0.5 * STEP * k1
        k2 = change_by_hand(second, rates)
        third = state + 0.5 * STEP * k2
        k3 = change_by_hand(third, rates)
        fourth = state + STEP * k3
        stages.append((state, second, third, fourth))
        k2 += k3
        k2 *= 2.0
        k2 += k1
        k2 += change_by_hand(fourth, rates)
        k2 *= STEP / 6.0
        state = state + k2
        np.subtract(state, each, out=errors[i])
    d_rates, d_state = np.zeros(4), np.zeros(state.shape)
    for (first, second, third, fourth), error in zip(reversed(stages), errors[::-1], strict=True):
        d_state += 2.0 * error
        sixth = STEP / 6.0 * d_state
        d_fourth = change_back(fourth, rates, sixth, d_rates)
        d_third = change_back(third, rates, 2.0 * sixth + STEP * d_fourth, d_rates)
        d_second = change_back(second, rates, 2.0 * sixth + 0.5 * STEP * d_third, d_rates)
        d_state += change_back(first, rates, sixth + 0.5 * STEP * d_second, d_rates)
        d_state += d_fourth
        d_state += d_third
        d_state += d_second
    return np.vdot(errors, errors), (d_rates, d_state)


# A blurred signal


def signal(rng: Random, count: int, width: int) -> tuple[Any, ...]:
    """Return a signal, a filter, and what was measured."""
    return rng.normal(size=count), rng.normal(size=width) / width, rng.normal(size=count + width - 1)


def blur(library: Library) -> Callable[..., Any]:
    """Return the error of a blurred signal with a penalty for its jumps, and the gradient by signal and filter."""
    xp = library.numpy

    def loss(source: Any, kernel: Any, measured: Any) -> Any:
        error = library.convolve(source, kernel) - measured
        return xp.mean(error**2) + 0.1 * xp.mean(xp.diff(source) ** 2)

    return library.value_and_grad(loss, (0, 1))


def blur_by_hand(source: Any, kernel: Any, measured: Any) -> tuple[Any, ...]:
    """Compute the loss and its gradient."""
    error = np.convolve(source, kernel)
    error -= measured
    jumps = source[1:] - source[:-1]
    loss = (error @ error) / len(error) + 0.1 * (jumps @ jumps) / len(jumps)
    error *= 2.0 / len(error)
    jumps *= 0.2 / len(jumps)
    d_source = np.correlate(error, kernel, "valid")
    d_source[1:] += jumps
    d_source[:-1] -= jumps
    return loss, (d_source, np.correlate(error, source, "valid"))


# A chain of single numbers


def numbers(rng: Random, steps: int) -> tuple[Any, ...]:
    """Return a number, two factors, and what is added in each step."""
    return np.float64(0.3), np.float64(0.9), np.float64(0.2), 0.1 * rng.normal(size=steps)


def chain(library: Library) -> Callable[..., Any]:
    """Return the end of a chain of five operations a step, and its gradient."""
    sin = library.numpy.sin

    def end(x: Any, a: Any, b: Any, terms: Any) -> Any:
        for term in terms:
            x = a * x + b * sin(x) + term
        return x

    return library.value_and_grad(end, (0, 1, 2))


def chain_by_hand(x: Any, a: Any, b: Any, terms: Any) -> tuple[Any, ...]:
    """Compute the end of the chain, and go back with all cosines taken at once."""
    path, sines = np.empty(len(terms)), np.empty(len(terms))
    for i, term in enumerate(terms):
        path[i] = x
        sines[i] = sine = np.sin(x)
        x = a * x + b * sine + term
    weights = np.ones(len(terms) + 1)
    np.cumprod((a + b * np.cos(path))[::-1], out=weights[1:])
    back = weights[-2::-1]
    return x, (weights[-1], back @ path, back @ sines)


KINDS = [
    Kind("ODE, Runge-Kutta loop", ((20,), (100,), (400,)), populations, simulation, simulation_by_hand, compiled=0),
    Kind("convolution", ((100, 5), (10_000, 31), (100_000, 101)), signal, blur, blur_by_hand),
    Kind("chain of single numbers", ((20,), (100,), (400,)), numbers, chain, chain_by_hand, compiled=2),
]
