"""Measure calls of compiled functions whose arguments are containers, beside `jax.jit`.

    python benchmarks/containers.py [--rounds N]

Each row adds up the same arrays, of three numbers each, in another container. A call is to take at most 1.3 times that
of the same number of plain arguments and 0.5 us for each array, and less than `jax.jit`'s. Candidates run alternately.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from programs import measure  # isort: skip  # it sets the number of threads

import numpy as np

import fgrad as fg

Pair = namedtuple("Pair", ["weight", "bias"])


@dataclass
class Layer:
    """Two arrays."""

    weight: Any
    bias: Any


def total(*args: Any) -> Any:
    """Return the sum of all arrays in containers."""
    return sum(fg.tree.leaves(args))


def pair(*args: Any) -> dict[str, Any]:
    """Return a container of results."""
    return {"sum": total(*args), "double": 2 * args[0]}


def rows() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Return functions and their arguments by what the row is called."""
    x = np.arange(3.0)
    return {
        "2 arrays": (total, (x, x)),
        "2 arrays, results in a dict": (pair, (x, x)),
        "list of 2": (total, ([x, x],)),
        "dict of 2": (total, ({"weight": x, "bias": x},)),
        "named tuple of 2": (total, (Pair(x, x),)),
        "dataclass of 2": (total, (Layer(x, x),)),
        "4 arrays": (total, (x, x, x, x)),
        "2 lists of 2": (total, ([x, x], [x, x])),
        "list of 2 dicts of 2": (total, ([{"weight": x, "bias": x}] * 2,)),
        "20 arrays": (total, (x,) * 20),
        "list of 10 dicts of 2": (total, ([{"weight": x, "bias": x}] * 10,)),
    }


def jitted(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], Any]:
    """Return the call by JAX, with arrays of its own."""
    import jax

    def of_leaves(*args: Any) -> Any:
        added = sum(jax.tree_util.tree_leaves(args))
        return {"sum": added, "double": 2 * args[0]} if function is pair else added

    return partial(jax.jit(of_leaves), *jax.tree_util.tree_map(jax.numpy.asarray, args))


def main() -> None:
    """Print the microseconds of a call in each row, and the ratio to `jax.jit` where JAX is installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    fg.register_dataclass(Layer)
    has_jax = importlib.util.find_spec("jax") is not None
    if has_jax:
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.tree_util.register_dataclass(Layer, ["weight", "bias"], [])
    print("us of a compiled call")
    for name, (function, args) in rows().items():
        candidates = {"fgrad": partial(fg.compile(function), *args)}
        if has_jax:
            candidates["jax.jit"] = jitted(function, args)
        seconds = {each: min(times) for each, times in measure(candidates, rounds).items()}
        told = "".join(f"{each:>10} {one * 1e6:7.1f}" for each, one in seconds.items())
        print(f"    {name:30}{told}" + (f"{seconds['fgrad'] / seconds['jax.jit']:8.2f}" if has_jax else ""))


if __name__ == "__main__":
    main()
