"""Two regressions on a cluster: data in chunks that only workers see, exact gradients and Hessian products.

    python examples/cluster.py                          2 million rows of 20 columns, two worker processes
    python examples/cluster.py --rows 100000 --workers 1

A logistic and a Poisson model are fitted by SciPy's `minimize`, which runs here and sees 20 numbers at a time. At the
end the same is done with all data in the memory of this process, and gives the same coefficients.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from distributed import Client, LocalCluster
from scipy.optimize import minimize

import fgrad as fg
import fgrad.distributed

METHOD: dict[str, Any] = {"method": "trust-ncg", "options": {"gtol": 1e-8}}


def truth(columns: int) -> Any:
    """Return the coefficients from which data are drawn."""
    return np.linspace(-0.5, 0.5, columns)


def binary_chunk(number: int, rows: int, columns: int) -> Any:
    """Draw a chunk of rows with labels 0 and 1; this runs on a worker."""
    rng = np.random.default_rng([1, number])
    x = rng.normal(size=(rows, columns))
    return x, (rng.random(rows) < 1 / (1 + np.exp(-x @ truth(columns)))).astype(float)


def counts_chunk(number: int, rows: int, columns: int) -> Any:
    """Draw a chunk of rows with counts; this runs on a worker."""
    rng = np.random.default_rng([2, number])
    x = rng.normal(size=(rows, columns))
    return x, rng.poisson(np.exp(0.5 * (x @ truth(columns)))).astype(float)


def logistic(coefficients: Any, part: Any) -> Any:
    """Return the negative log-likelihood of a chunk of labels."""
    x, y = part
    scores = x @ coefficients
    return np.sum(np.logaddexp(0.0, scores) - y * scores)


def poisson(coefficients: Any, part: Any) -> Any:
    """Return the negative log-likelihood of a chunk of counts, but for what does not depend on the coefficients."""
    x, y = part
    scores = x @ coefficients
    return np.sum(np.exp(scores) - y * scores)


MODELS = {"logistic": (binary_chunk, logistic), "Poisson": (counts_chunk, poisson)}


class Fit(NamedTuple):
    """What came of one model."""

    coefficients: Any
    in_memory: Any
    evaluations: int
    seconds: float
    growth: int


def fit(loss: Callable[..., Any], rows: int, columns: int, client: Client, partitions: Any) -> Any:
    """Fit by Newton's method in a trust region, on a cluster; the mean over rows keeps the tolerance meaningful."""

    def mean(coefficients: Any, part: Any) -> Any:
        return loss(coefficients, part) / rows

    slopes = fgrad.distributed.value_and_grad(mean, client=client)
    product = fgrad.distributed.hvp(mean, client=client)
    return minimize(slopes, np.zeros(columns), args=(partitions,), jac=True, hessp=product, **METHOD)


def fit_in_memory(loss: Callable[..., Any], rows: int, columns: int, data: Any) -> Any:
    """Do the same with all rows at once, in this process."""

    def mean(coefficients: Any) -> Any:
        return loss(coefficients, data) / rows

    return minimize(fg.value_and_grad(mean), np.zeros(columns), jac=True, hessp=fg.hvp(mean), **METHOD)


def run(client: Client, rows: int, columns: int, chunks: int) -> dict[str, Fit]:
    """Fit both models on a cluster, then in memory."""
    sizes = [rows // chunks + (number < rows % chunks) for number in range(chunks)]
    fits = {}
    for name, (chunk, loss) in MODELS.items():
        partitions = client.map(chunk, range(chunks), sizes, columns=columns)
        before, start = peak_memory(), time.perf_counter()
        found = fit(loss, rows, columns, client, partitions)
        seconds, growth = time.perf_counter() - start, peak_memory() - before
        fits[name] = Fit(found.x, None, found.nfev + found.nhev, seconds, growth)
    for name, (chunk, loss) in MODELS.items():
        parts = [chunk(number, size, columns) for number, size in enumerate(sizes)]
        data = np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
        fits[name] = fits[name]._replace(in_memory=fit_in_memory(loss, rows, columns, data).x)
    return fits


def peak_memory() -> int:
    """Return the most bytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(rows: int = 2_000_000, columns: int = 20, chunks: int = 16, workers: int = 2) -> dict[str, Fit]:
    """Start a cluster on this machine, fit and print."""
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        fits = run(client, rows, columns, chunks)
    print(f"{rows} rows of {columns} columns in {chunks} chunks, {workers} workers")
    for name, each in fits.items():
        difference = float(np.max(np.abs(each.coefficients - each.in_memory)))
        error = float(np.max(np.abs(each.coefficients - truth(columns) * (0.5 if name == "Poisson" else 1.0))))
        print(f"{name}")
        print(f"  steps               {each.evaluations} evaluations in {each.seconds:.1f} s")
        print(f"  coefficients        within {error:.0e} of the truth, {difference:.0e} of the fit in memory")
        print(f"  memory              {each.growth / 2**20:.0f} MiB more in this process than before the fit")
    return fits


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--chunks", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    main(**vars(parser.parse_args()))
