"""Measure whole compiled training steps: a network, its gradient and Adam's update, beside `jax.jit`.

    python benchmarks/steps.py [--rounds N]

fgrad's step returns new arrays, or writes into its arguments; `jax.jit` keeps its arguments, or may reuse their memory
(donation). Each candidate goes on from its own last state; they run alternately.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from typing import Any

from programs import geometric_mean, measure  # isort: skip  # it sets the number of threads

import numpy as np

import fgrad as fg

State = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""Parameters, and Adam's first and second moments."""


def loss(xp: Any, p: dict[str, Any], x: Any, y: Any) -> Any:
    """Return the mean squared error of a network with two hidden layers."""
    hidden = xp.tanh(x @ p["w1"] + p["b1"])
    hidden = xp.tanh(hidden @ p["w2"] + p["b2"])
    return xp.mean((hidden @ p["w3"] + p["b3"] - y) ** 2)


def returning(xp: Any, value_and_grad: Callable[..., Any]) -> Callable[..., State]:
    """Return a step that returns a new state."""
    derivative = value_and_grad(lambda p, x, y: loss(xp, p, x, y))

    def step(p: Any, m: Any, v: Any, x: Any, y: Any) -> State:
        _, d = derivative(p, x, y)
        m = {key: 0.9 * m[key] + 0.1 * d[key] for key in p}
        v = {key: 0.999 * v[key] + 0.001 * d[key] ** 2 for key in p}
        return {key: p[key] - 1e-3 * m[key] / (xp.sqrt(v[key]) + 1e-8) for key in p}, m, v

    return step


def in_place() -> Callable[..., None]:
    """Return a step that writes into the state."""
    derivative = fg.value_and_grad(lambda p, x, y: loss(np, p, x, y))

    def step(p: Any, m: Any, v: Any, x: Any, y: Any) -> None:
        _, d = derivative(p, x, y)
        for key in p:
            m[key] *= 0.9
            m[key] += 0.1 * d[key]
            v[key] *= 0.999
            v[key] += 0.001 * d[key] ** 2
            p[key] -= 1e-3 * m[key] / (np.sqrt(v[key]) + 1e-8)

    return step


def problem(width: int, dtype: Any) -> tuple[State, tuple[Any, Any]]:
    """Return an initial state, and 64 samples of 64 numbers."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(dtype)

    p = {"w1": normal(64, width), "b1": normal(width), "w2": normal(width, width), "b2": normal(width)}
    p |= {"w3": normal(width, 1), "b3": normal(1)}
    m, v = ({key: np.zeros_like(each) for key, each in p.items()} for _ in range(2))
    return (p, m, v), (normal(64, 64), normal(64, 1))


def going_on(step: Callable[..., Any], state: Any, samples: Any, wait: Callable[[Any], Any]) -> Callable[[], Any]:
    """Return a function without arguments that takes one step; `wait` waits for the results."""
    known = [state]

    def run() -> Any:
        found = step(*known[0], *samples)
        if found is not None:
            known[0] = wait(found)
        return known[0]

    return run


def candidates(width: int, dtype: Any, has_jax: bool) -> dict[str, Callable[[], Any]]:
    """Return the ways to take a step, each with a state of its own."""
    state, samples = problem(width, dtype)

    def own() -> Any:
        return tuple({key: each.copy() for key, each in part.items()} for part in state)

    found = {
        "fgrad": going_on(fg.compile(returning(np, fg.value_and_grad)), own(), samples, lambda x: x),
        "fgrad, in place": going_on(fg.compile(in_place()), own(), samples, lambda x: x),
    }
    if has_jax:
        import jax

        jax.config.update("jax_enable_x64", True)
        theirs, arrays = returning(jax.numpy, jax.value_and_grad), jax.tree.map(jax.numpy.asarray, samples)
        for name, donated in (("jax.jit", ()), ("jax.jit, donated", (0, 1, 2))):
            of_jax = jax.tree.map(jax.numpy.asarray, own())
            step = jax.jit(theirs, donate_argnums=donated)
            found[name] = going_on(step, of_jax, arrays, jax.block_until_ready)
    return found


def check(ways: dict[str, Callable[[], Any]]) -> None:
    """Raise unless three steps of all ways give the same parameters."""
    for _ in range(3):
        states = [run() for run in ways.values()]
    for state in states:
        for key, wanted in states[0][0].items():
            np.testing.assert_allclose(np.asarray(state[0][key]), np.asarray(wanted), rtol=1e-3, atol=1e-5)


def main() -> None:
    """Print the microseconds of a step, and the ratios to `jax.jit` where JAX is installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 512, 1024])
    given = parser.parse_args()
    has_jax = importlib.util.find_spec("jax") is not None
    ratios: list[float] = []
    print("us of a training step, 64 samples")
    for width in given.widths:
        for dtype in (np.float32, np.float64):
            ways = candidates(width, dtype, has_jax)
            check(ways)
            seconds = {name: min(times) for name, times in measure(ways, given.rounds).items()}
            told = "".join(f"{name:>18} {each * 1e6:7.0f}" for name, each in seconds.items())
            if has_jax:
                ratios.append(seconds["fgrad, in place"] / seconds["jax.jit, donated"])
                told += f"{seconds['fgrad'] / seconds['jax.jit']:8.2f}{ratios[-1]:6.2f}"
            print(f"    width {width:5} {dtype.__name__}{told}")
    if ratios:
        print(f"in place, over donated: {geometric_mean(ratios):.2f} in the mean")


if __name__ == "__main__":
    main()
