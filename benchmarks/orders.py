"""Measure derivatives of high order, and Laplacians against the trace of a Hessian.

    python benchmarks/orders.py [--rounds N]

The 20th derivative of tanh(x sin x) is to take at most 10 ms, with a relative error below 1e-10; mpmath knows it. What
an order costs is shown for twice the order again and again, beside nested derivatives. The Laplacian of a network with
100 inputs is to take at most half of the trace of its Hessian. Candidates run alternately.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # read when NumPy is imported

import mpmath
import numpy as np
from rounds import fastest

import fgrad as fg

ORDERS = (4, 8, 16, 32)
NESTED = (2, 4, 6)
WIDTHS = (64, 128, 256, 512)


def composition(x: Any) -> Any:
    """Return tanh(x sin x)."""
    return np.tanh(x * np.sin(x))


def nested(order: int) -> Callable[[Any], Any]:
    """Return a derivative of the composition, by derivatives of derivatives."""
    function: Callable[[Any], Any] = composition
    for _ in range(order):
        function = fg.elementwise_grad(function)
    return function


def measure_orders(rounds: int) -> None:
    """Print what derivatives of one composition take, and the error of the 20th."""
    with mpmath.workdps(60):
        wanted = float(mpmath.diff(lambda x: mpmath.tanh(x * mpmath.sin(x)), mpmath.mpf(0.7), 20))
    error = abs(float(fg.derivatives(composition, 20)(0.7)[20]) / wanted - 1)
    candidates: dict[str, Callable[[], Any]] = {
        "derivatives to 20 (aim: 10 ms)": lambda: fg.derivatives(composition, 20)(0.7)
    }
    for order in ORDERS:
        candidates[f"derivatives to {order}"] = lambda order=order: fg.derivatives(composition, order)(0.7)  # type: ignore[misc]
    for function, order in ((nested(order), order) for order in NESTED):
        candidates[f"nested, the one of order {order}"] = lambda function=function: function(0.7)  # type: ignore[misc]
    print(f"tanh(x sin x); the relative error of the 20th derivative is {error:.1e} (aim: 1e-10)")
    for name, seconds in fastest(candidates, rounds).items():
        print(f"    {name:40}{seconds * 1e3:10.3g} ms")


def network(width: int) -> Callable[[Any], Any]:
    """Return a network with 100 inputs and two layers."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(100, width)) / 10, rng.normal(size=(width, width)) / np.sqrt(width)
    return lambda x: np.sum(np.tanh(np.tanh(x @ first + 0.1) @ second - 0.1))


def measure_laplacians(rounds: int) -> None:
    """Print what Laplacians take, as ratios to the trace of the Hessian."""
    print("\nLaplacian of a network with 100 inputs, to the trace of its Hessian (aim: 0.5 x)")
    x = np.random.default_rng(1).normal(size=100)
    for width in WIDTHS:
        function = network(width)
        laplacian, hessian = fg.laplacian(function), fg.hessian(function)
        found = fastest({"laplacian": lambda: laplacian(x), "hessian": lambda: np.trace(hessian(x))}, rounds)  # noqa: B023
        ratio = found["laplacian"] / found["hessian"]
        print(f"    two layers of {width:4}{found['laplacian'] * 1e3:10.3g} ms{ratio:8.2f} x")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description="Measure fgrad's derivatives of high order.")
    parser.add_argument("--rounds", type=int, default=30, help="how often each candidate runs")
    rounds = parser.parse_args().rounds
    measure_orders(rounds)
    measure_laplacians(rounds)


if __name__ == "__main__":
    main()
