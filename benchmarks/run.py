"""Measure fgrad's speed, as ratios to NumPy in one run.

    python benchmarks/run.py [--rounds N]

Candidates run alternately, so that what else the machine does meets all of them. Two ratios are printed:
of the fastest rounds, which shows the work, and of the median rounds, which shows the daily life.
autograd, mygrad, jax and torch are measured too where they are installed. Matrix products run in one
thread, so that a busy second core does not decide.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # read when NumPy is imported

import numpy as np
import scipy.integrate
import scipy.linalg
import scipy.optimize
import scipy.special
import scipy.stats

import fgrad as fg
import fgrad.scipy.integrate
import fgrad.scipy.linalg
import fgrad.scipy.optimize
import fgrad.scipy.stats
from fgrad.scipy.special import logsumexp

Candidates = dict[str, Callable[[], Any]]
"""By name, what to time; the first is what the others are compared with."""

PEERS = ("autograd", "mygrad", "torch", "jax")
BATCH_SECONDS = 0.005


def measure(candidates: Candidates, rounds: int) -> dict[str, list[float]]:
    """Return the seconds that one call takes, by candidate and round."""
    calls = {}
    for name, candidate in candidates.items():
        candidate()
        start = time.perf_counter()
        candidate()
        calls[name] = max(1, round(BATCH_SECONDS / (time.perf_counter() - start)))
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            repeats = range(calls[name])
            start = time.perf_counter()
            for _ in repeats:
                candidate()
            seconds[name].append((time.perf_counter() - start) / calls[name])
    return seconds


def report(title: str, candidates: Candidates, rounds: int) -> None:
    """Measure candidates and print a line for each."""
    seconds = measure(candidates, rounds)
    reference = next(iter(seconds.values()))
    print(f"\n{title}\n{'':34}{'fastest':>12}{'ratio':>9}{'median':>13}{'ratio':>9}")
    for name, each in seconds.items():
        fastest, median = min(each), statistics.median(each)
        print(
            f"    {name:30}{fastest * 1e6:9.1f} us{fastest / min(reference):7.2f} x"
            f"{median * 1e6:10.1f} us{median / statistics.median(reference):7.2f} x"
        )


def installed_peers() -> dict[str, Any]:
    """Return the other libraries that can be imported, by name, and say which cannot."""
    peers = {}
    for name in PEERS:
        try:
            peers[name] = importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed, and left out")
    return peers


# A chain of operations: what one operation costs


def chain(x: Any, factor: Any, term: Any) -> Any:
    """Compute with 1000 operations, one after the other."""
    for _ in range(500):
        x = x * factor
        x = x + term
    return x


def chain_of_autograd(autograd: Any, x: np.ndarray, factor: Any, term: Any) -> Callable[[], Any]:
    """Return the chain's value and gradient by HIPS Autograd."""
    function = autograd.value_and_grad(lambda x: autograd.numpy.sum(chain(x, factor, term)))
    return lambda: function(x)[1]


def chain_of_mygrad(mygrad: Any, x: np.ndarray, factor: Any, term: Any) -> Callable[[], Any]:
    """Return the chain's value and gradient by MyGrad."""

    def run() -> Any:
        leaf = mygrad.tensor(x)
        chain(leaf, factor, term).sum().backward()
        return leaf.grad

    return run


def chain_of_torch(torch: Any, x: np.ndarray, factor: Any, term: Any) -> Callable[[], Any]:
    """Return the chain's value and gradient by PyTorch."""
    leaf = torch.tensor(x, requires_grad=True)
    if isinstance(factor, np.ndarray):
        factor, term = torch.tensor(factor), torch.tensor(term)
    return lambda: torch.autograd.grad(chain(leaf, factor, term).sum(), leaf)[0]


def chain_of_jax(jax: Any, x: np.ndarray, factor: Any, term: Any) -> Callable[[], Any]:
    """Return the chain's value and gradient by JAX, operation by operation."""
    if isinstance(factor, np.ndarray):
        factor, term = jax.numpy.asarray(factor), jax.numpy.asarray(term)
    function = jax.value_and_grad(lambda x: chain(x, factor, term).sum())
    leaf = jax.numpy.asarray(x)
    return lambda: function(leaf)[1].block_until_ready()


CHAINS = {"autograd": chain_of_autograd, "mygrad": chain_of_mygrad, "torch": chain_of_torch, "jax": chain_of_jax}


def chain_candidates(peers: dict[str, Any], array_constants: bool) -> Candidates:
    """Return the ways to compute the chain, after a check that they agree."""
    x, factor, term = np.linspace(0.5, 1.5, 8), 1.0001, 0.001
    constants: Any = (np.full(8, factor), np.full(8, term)) if array_constants else (factor, term)
    gradients = fg.value_and_gradients_function(lambda x: chain(x, *constants))
    candidates: Candidates = {"NumPy, forward only": lambda: chain(x, *constants), "fgrad": lambda: gradients(x)[1][0]}
    candidates |= {name: CHAINS[name](peer, x, *constants) for name, peer in peers.items()}
    for name in list(candidates)[1:]:
        np.testing.assert_allclose(np.asarray(candidates[name]()), factor**500, err_msg=name)
    return candidates


# A network: what a training step costs


class Network:
    """The data and first weights of a network 64-128-10 on a batch of 64, in float32."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(64, 64)).astype(np.float32)
        self.y = rng.integers(0, 10, 64)
        self.rows = np.arange(64)
        self.params = [
            (rng.normal(size=shape) * scale).astype(np.float32)
            for shape, scale in (((64, 128), 0.125), ((128,), 0.1), ((128, 10), 0.1), ((10,), 0.1))
        ]

    def loss(self, w1: Any, b1: Any, w2: Any, b2: Any, hidden: Any, logsumexp: Any, mean: Any) -> Any:
        """Compute the cross-entropy in the spelling that NumPy-like libraries share."""
        scores = hidden(self.x @ w1 + b1) @ w2 + b2
        return mean(logsumexp(scores, axis=1) - scores[self.rows, self.y])


def by_hand(network: Network, relu: bool) -> Callable[[], list[np.ndarray]]:
    """Return the loss's gradients written out in NumPy, in place where that saves an array."""
    x, y, rows = network.x, network.y, network.rows
    count = np.float32(len(x))
    w1, b1, w2, b2 = network.params

    def run() -> list[np.ndarray]:
        h = x @ w1
        h += b1
        (np.maximum(h, 0, out=h) if relu else np.tanh(h, out=h))
        scores = h @ w2
        scores += b2
        scores -= scores.max(axis=1, keepdims=True)
        right = scores[rows, y]
        d = np.exp(scores, out=scores)
        sums = d.sum(axis=1, keepdims=True)
        loss = (np.log(sums[:, 0]) - right).mean()
        d /= sums
        d[rows, y] -= 1
        d /= count
        d_hidden = d @ w2.T
        if relu:
            d_hidden *= h > 0
        else:
            slope = h * h
            np.subtract(1, slope, out=slope)
            d_hidden *= slope
        return [loss, x.T @ d_hidden, d_hidden.sum(axis=0), h.T @ d, d.sum(axis=0)]

    return run


def network_of_fgrad(network: Network, relu: bool) -> Candidates:
    """Return a step with the weights as arguments, and one with variables."""
    hidden = (lambda z: np.maximum(z, 0)) if relu else np.tanh

    def loss(w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        return network.loss(w1, b1, w2, b2, hidden, logsumexp, np.mean)

    by_argument = fg.value_and_gradients_function(loss)
    variables = [fg.Variable(param) for param in network.params]
    by_variable = fg.implicit_value_and_gradients(lambda: loss(*variables))

    def run_with_arguments() -> list[Any]:
        value, gradients = by_argument(*network.params)
        return [value, *gradients]

    def run_with_variables() -> list[Any]:
        value, pairs = by_variable()
        return [value, *(gradient for gradient, _ in pairs)]

    return {"fgrad": run_with_arguments, "fgrad, with variables": run_with_variables}


def network_of_autograd(autograd: Any, network: Network, relu: bool) -> Candidates:
    """Return a step by HIPS Autograd."""
    anp = autograd.numpy
    special = importlib.import_module("autograd.scipy.special") if importlib.util.find_spec("scipy") else None
    hidden = (lambda z: anp.maximum(z, 0)) if relu else anp.tanh

    def own_logsumexp(scores: Any, axis: int) -> Any:
        top = anp.max(scores, axis=axis, keepdims=True)
        return anp.log(anp.sum(anp.exp(scores - top), axis=axis)) + top[:, 0]

    lse = special.logsumexp if special else own_logsumexp
    function = autograd.value_and_grad(
        lambda w1, b1, w2, b2: network.loss(w1, b1, w2, b2, hidden, lse, anp.mean), argnum=(0, 1, 2, 3)
    )

    def run() -> list[Any]:
        value, gradients = function(*network.params)
        return [value, *gradients]

    return {"autograd": run}


def network_of_mygrad(mygrad: Any, network: Network, relu: bool) -> Candidates:
    """Return a step by MyGrad, with its own loss function."""
    losses = importlib.import_module("mygrad.nnet.losses")
    hidden = importlib.import_module("mygrad.nnet.activations").relu if relu else mygrad.tanh

    def run() -> list[Any]:
        w1, b1, w2, b2 = leaves = [mygrad.tensor(param) for param in network.params]
        loss = losses.softmax_crossentropy(hidden(network.x @ w1 + b1) @ w2 + b2, network.y)
        loss.backward()
        return [loss.item(), *(leaf.grad for leaf in leaves)]

    return {"mygrad": run}


def network_of_torch(torch: Any, network: Network, relu: bool) -> Candidates:
    """Return a step by PyTorch, with its own loss function."""
    leaves = [torch.tensor(param, requires_grad=True) for param in network.params]
    x, y = torch.tensor(network.x), torch.tensor(network.y)
    hidden = torch.relu if relu else torch.tanh

    def run() -> list[Any]:
        w1, b1, w2, b2 = leaves
        loss = torch.nn.functional.cross_entropy(hidden(x @ w1 + b1) @ w2 + b2, y)
        return [loss.detach(), *torch.autograd.grad(loss, leaves)]

    return {"torch": run}


def network_of_jax(jax: Any, network: Network, relu: bool) -> Candidates:
    """Return a step by JAX, operation by operation and compiled."""
    hidden = jax.nn.relu if relu else jax.numpy.tanh
    params = [jax.numpy.asarray(param) for param in network.params]
    function = jax.value_and_grad(
        lambda w1, b1, w2, b2: network.loss(w1, b1, w2, b2, hidden, jax.nn.logsumexp, jax.numpy.mean),
        argnums=(0, 1, 2, 3),
    )
    compiled = jax.jit(function)

    def run(function: Callable[..., Any]) -> list[Any]:
        value, gradients = jax.block_until_ready(function(*params))
        return [value, *gradients]

    return {"jax": lambda: run(function), "jax, compiled": lambda: run(compiled)}


NETWORKS = {
    "autograd": network_of_autograd,
    "mygrad": network_of_mygrad,
    "torch": network_of_torch,
    "jax": network_of_jax,
}


def network_candidates(peers: dict[str, Any], relu: bool) -> Candidates:
    """Return the ways to compute a training step, after a check that they agree."""
    network = Network()
    candidates: Candidates = {"NumPy, by hand": by_hand(network, relu)}
    candidates |= network_of_fgrad(network, relu)
    for name, peer in peers.items():
        candidates |= NETWORKS[name](peer, network, relu)
    expected = candidates["NumPy, by hand"]()
    for name, candidate in candidates.items():
        for one, other in zip(candidate(), expected, strict=True):
            np.testing.assert_allclose(np.asarray(one), other, rtol=1e-4, atol=1e-6, err_msg=name)
    return candidates


# Single operations


def report_operations(rounds: int, count: int = 1000) -> None:
    """Print what one operation in a chain costs: bare, under a reverse trace, and in the pass back."""
    x, y = np.linspace(0.5, 1.5, 8), np.linspace(0.999, 1.001, 8)
    print(
        f"\none operation on 8 numbers, in ns; the weights are those of the result's elements\n{'':24}"
        f"{'NumPy':>6}{'traced':>9}{'back':>8}{'back with weights':>20}{'(traced + back) / NumPy':>26}"
    )
    for name, step, args in (
        ("x + 0.001", lambda x: x + 0.001, (x,)),
        ("x * 1.001", lambda x: x * 1.001, (x,)),
        ("x + array", lambda x: x + y, (x,)),
        ("x * array", lambda x: x * y, (x,)),
        ("x + y, both traced", lambda x, y: x + y, (x, y)),
        ("x * y, both traced", lambda x, y: x * y, (x, y)),
        ("np.sin(x)", np.sin, (x,)),
    ):
        bare, traced, back, weighed = [], [], [], []
        for _ in range(rounds):
            bare.append(timed_chain(step, count, *args)[1])
            (_, seconds), pullback = fg.make_vjp(lambda *args, step=step: timed_chain(step, count, *args))(*args)
            traced.append(seconds)
            back.append(timed(pullback))
            weighed.append(timed(functools.partial(pullback, (np.ones(8), None))))
        each, ahead, behind, with_weights = (min(times) / count * 1e9 for times in (bare, traced, back, weighed))
        print(f"    {name:20}{each:6.0f}{ahead:9.0f}{behind:8.0f}{with_weights:20.0f}{(ahead + behind) / each:24.1f} x")


def timed(function: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def timed_chain(step: Callable[..., Any], count: int, x: Any, *others: Any) -> tuple[Any, float]:
    """Apply an operation again and again to its own result; return the last one and the seconds."""
    start = time.perf_counter()
    for _ in range(count):
        x = step(x, *others)
    return x, time.perf_counter() - start


# Functions of NumPy on large arrays, and functions of SciPy


class Call(NamedTuple):
    """A row of a table: a function whose value and gradient are timed, beside its value alone.

    Attributes:
        name: what the table calls it.
        aim: how many times the value alone it may take.
        function: all its floating-point arguments are differentiated.
        args: where.
        bare: what computes the value alone, where that is another function.
    """

    name: str
    aim: float
    function: Callable[..., Any]
    args: tuple[Any, ...]
    bare: Callable[..., Any] | None = None


def large_calls() -> list[Call]:
    """Return calls of functions of NumPy. Arrays have a million elements, matrices 500 rows and columns."""
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=1_000_000), rng.normal(size=25)
    chosen = rng.integers(0, x.size, x.size)
    a, b = rng.normal(size=(500, 500)), rng.normal(size=(500, 500))
    positive = a @ a.T + 500 * np.eye(500)
    return [
        Call("exp", 4, np.exp, (x,)),
        Call("sum", 4, np.sum, (x,)),
        Call("cumsum", 4, np.cumsum, (x,)),
        Call("sort", 4, np.sort, (x,)),
        Call("x[integers]", 4, lambda x: x[chosen], (x,)),
        Call("take", 4, lambda x: np.take(x, chosen), (x,)),
        Call("fft", 4, np.fft.fft, (x,)),
        Call("convolve, kernel of 25", 4, np.convolve, (x, kernel)),
        Call("norm of a vector", 4, np.linalg.norm, (x,)),
        Call("matmul", 3, np.matmul, (a, b)),
        Call("einsum ij,jk->ik", 3, lambda a, b: np.einsum("ij,jk->ik", a, b, optimize=True), (a, b)),
        Call("cholesky", 3, np.linalg.cholesky, (positive,)),
        Call("solve, 500 right sides", 3, np.linalg.solve, (a, b)),
        Call("inv", 3, np.linalg.inv, (a,)),
        Call("det", 3, np.linalg.det, (a / 10,)),
        Call("eigh", 3, np.linalg.eigh, (positive,)),
        Call("svd", 3, np.linalg.svd, (a,)),
        Call("qr", 3, np.linalg.qr, (a,)),
        Call("norm of a matrix, 2", 3, lambda a: np.linalg.norm(a, 2), (a,)),
    ]


def scipy_calls() -> list[Call]:
    """Return calls of functions of SciPy; `benchmarks/equations.py` has more of differential equations."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 5.0, 100_000)
    a = rng.normal(size=(100, 100)) / 10
    start, rates = np.linspace(0.5, 1.5, 5), rng.uniform(0.2, 1.0, 10)
    times = np.linspace(0.0, 4.0, 50)
    data = 2.0 * np.exp(-0.8 * times) + 0.3 + 0.01 * rng.normal(size=50)
    guess = np.array([1.0, 1.0, 0.0])

    def growth(t: float, y: Any, p: Any) -> Any:
        return y * (p[:5] - p[5:] * y)

    def decay(t: Any, height: Any, rate: Any, rest: Any) -> Any:
        return height * np.exp(-rate * t) + rest

    def cubic(x: Any, p: Any) -> Any:
        return x * x * x - p * x - 1.0

    def solution(solve: Any, rates: Any) -> Any:
        return solve(growth, (0.0, 20.0), start, args=(rates,), rtol=1e-6, atol=1e-8).y

    def fit(curve_fit: Any, times: Any, data: Any) -> Any:
        return curve_fit(decay, times, data, guess)[0]

    def root(brentq: Any, p: Any) -> Any:
        return brentq(cubic, 0.0, 5.0, args=(p,))

    def with_both(function: Any, ours: Any, scipys: Any) -> tuple[Any, Any]:
        return functools.partial(function, ours), functools.partial(function, scipys)

    solutions = with_both(solution, fgrad.scipy.integrate.solve_ivp, scipy.integrate.solve_ivp)
    fits = with_both(fit, fgrad.scipy.optimize.curve_fit, scipy.optimize.curve_fit)
    roots = with_both(root, fgrad.scipy.optimize.brentq, scipy.optimize.brentq)
    normal = fgrad.scipy.stats.norm.logpdf, (x, np.float64(0.3), np.float64(1.2)), scipy.stats.norm.logpdf
    return [
        Call("solve_ivp, 10 parameters", 5, solutions[0], (rates,), solutions[1]),
        Call("curve_fit, by its data", 5, fits[0], (times, data), fits[1]),
        Call("brentq", 5, roots[0], (np.float64(2.0),), roots[1]),
        Call("expm, 100 x 100", 5, fgrad.scipy.linalg.expm, (a,), scipy.linalg.expm),
        Call("norm.logpdf, 100,000 numbers", 5, *normal),
        Call("gammaln, 100,000 numbers", 5, scipy.special.gammaln, (x,)),
    ]


def value_and_pullback(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], Any]:
    """Return what computes the value and the gradient of its sum with random weights."""
    rng = np.random.default_rng(1)
    weights = fg.tree_map(lambda leaf: rng.normal(size=np.shape(leaf)).astype(np.result_type(leaf)), function(*args))

    def run() -> Any:
        value, pullback = fg.vjp(function, *args)
        return value, pullback(weights)

    return run


def report_calls(title: str, calls: list[Call], rounds: int) -> None:
    """Print what value and gradient cost together, beside the value alone."""
    print(f"\n{title}\n{'':34}{'value':>12}{'gradient':>13}{'fastest':>10}{'median':>10}{'aim':>7}")
    for name, aim, function, args, bare in calls:
        candidates = {"alone": functools.partial(bare or function, *args), "ours": value_and_pullback(function, args)}
        alone, ours = measure(candidates, rounds).values()
        fastest, median = min(ours) / min(alone), statistics.median(ours) / statistics.median(alone)
        print(
            f"    {name:30}{min(alone) * 1e3:9.3g} ms{min(ours) * 1e3:10.3g} ms"
            f"{fastest:8.2f} x{median:8.2f} x{aim:5g} x{'  over' if fastest > aim else ''}"
        )


# Importing

IMPORT = """
import time, numpy
start = time.perf_counter()
import {name}
print(time.perf_counter() - start)
"""


def report_imports(names: list[str], rounds: int) -> None:
    """Print how long imports take in a fresh process that has imported NumPy already.

    Everything is compiled before, in a folder of its own: installed packages are, and a checkout may not be.
    """
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        for iteration in range(rounds + 1):
            for name in names:
                command = [sys.executable, "-c", IMPORT.format(name=name)]
                output = subprocess.check_output(command, text=True, env=environment)
                if iteration:
                    seconds[name].append(float(output))
    print(f"\nimport, on top of numpy\n{'':34}{'fastest':>12}{'median':>12}")
    for name, each in seconds.items():
        print(f"    {name:30}{min(each) * 1e3:9.0f} ms{statistics.median(each) * 1e3:9.0f} ms")


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description="Measure fgrad's speed, as ratios to NumPy in one run.")
    parser.add_argument("--rounds", type=int, default=40, help="how often each candidate is timed")
    rounds = parser.parse_args().rounds
    print(f"fgrad on Python {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} cores")
    peers = installed_peers()
    if "jax" in peers:
        peers["jax"].config.update("jax_enable_x64", True)
    report(
        "chain of 1000 operations x * c, x + c on 8 numbers: value and gradient (aim: 5 x)",
        chain_candidates(peers, array_constants=False),
        rounds,
    )
    report("the same with arrays as constants", chain_candidates(peers, array_constants=True), rounds)
    report(
        "network 64-128-10, tanh, batch of 64, float32: loss and all gradients (aim: 2 x)",
        network_candidates(peers, relu=False),
        rounds,
    )
    report("the same with relu", network_candidates(peers, relu=True), rounds)
    report_operations(rounds)
    report_calls(
        "functions of 1,000,000 numbers or 500 x 500 matrices: value and gradient, times the value by NumPy",
        large_calls(),
        max(3, rounds // 4),
    )
    report_calls("functions of SciPy: value and gradient, times the value by SciPy", scipy_calls(), max(3, rounds // 4))
    report_imports(["optree", "fgrad", *peers], max(3, rounds // 4))


if __name__ == "__main__":
    main()
