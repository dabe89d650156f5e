"""Measure exported gradients as C functions, beside the C code that CasADi writes.

    python benchmarks/exports.py [--rounds N]

Three functions: a Rosenbrock function of 20 numbers, the position of a robot arm of seven joints, and one step of a
Kalman filter. Each is written for fgrad with NumPy, and for CasADi with its own symbols. Both codes are compiled by the
C compiler of this machine with -O3, for any processor of its kind, and called from the same loop in C. Where CasADi is
not installed, fgrad's numbers stand alone.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fgrad as fg

HAS_CASADI = importlib.util.find_spec("casadi") is not None
JOINTS, STATES = 7, 4
STEP = np.eye(STATES) + 0.1 * np.eye(STATES, k=1)
SEEN = np.eye(2, STATES)


def rosenbrock(x: Any) -> Any:
    """Return the Rosenbrock function."""
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def arm(angles: Any) -> Any:
    """Return how far the end of an arm in a plane is from a target."""
    total = np.cumsum(angles)
    return (np.sum(np.cos(total)) - 3.0) ** 2 + (np.sum(np.sin(total)) - 2.0) ** 2


def kalman(x: Any) -> Any:
    """Return the log likelihood of an observation, of a state and the logarithms of two variances."""
    mean, moves, noise = STEP @ x[:STATES], np.exp(x[STATES]), np.exp(x[STATES + 1])
    covariance = STEP @ STEP.T + moves * np.eye(STATES)
    spread = SEEN @ covariance @ SEEN.T + noise * np.eye(2)
    off = SEEN @ mean - np.ones(2)
    return -0.5 * (off @ np.linalg.solve(spread, off) + np.linalg.slogdet(spread)[1])


def casadi_rosenbrock(c: Any, x: Any) -> Any:
    """Return the same as an expression of CasADi."""
    return c.sum1(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def casadi_arm(c: Any, angles: Any) -> Any:
    """Return the same as an expression of CasADi."""
    total = c.cumsum(angles)
    return (c.sum1(c.cos(total)) - 3.0) ** 2 + (c.sum1(c.sin(total)) - 2.0) ** 2


def casadi_kalman(c: Any, x: Any) -> Any:
    """Return the same as an expression of CasADi."""
    step, seen = c.DM(STEP), c.DM(SEEN)
    mean, moves, noise = step @ x[:STATES], c.exp(x[STATES]), c.exp(x[STATES + 1])
    covariance = step @ step.T + moves * c.DM.eye(STATES)
    spread = seen @ covariance @ seen.T + noise * c.DM.eye(2)
    off = seen @ mean - 1
    return -0.5 * (off.T @ c.solve(spread, off) + c.log(c.det(spread)))


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[..., Any], int]] = {
    "Rosenbrock, 20 numbers": (rosenbrock, casadi_rosenbrock, 20),
    "robot arm, 7 joints": (arm, casadi_arm, JOINTS),
    "Kalman step, 4 states": (kalman, casadi_kalman, STATES + 2),
}

_MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <stdint.h>
#define COUNT 200000
{declarations}
int main(void) {{
    double x[{size}], value, gradient[{size}], total = 0;
    {workspace}
    for (int k = 0; k < {size}; k++) x[k] = 0.3 + 0.05 * k;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < COUNT; i++) {{ x[0] += 1e-9; {call}; total += gradient[0]; }}
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = end.tv_sec - start.tv_sec + 1e-9 * (end.tv_nsec - start.tv_nsec);
    printf("[%.17g, %.17g", 1e9 * seconds / COUNT, value);
    for (int k = 0; k < {size}; k++) printf(", %.17g", gradient[k]);
    printf("]\n");
    return total == 1e300;
}}
"""


def lines_of(function: Callable[..., Any]) -> int:
    """Return how many lines a user writes, without the documentation."""
    return len(inspect.getsource(function).splitlines()) - 1


def command(folder: Path, *parts: str) -> float:
    """Run the C compiler, and return the seconds that it takes."""
    start = time.perf_counter()
    subprocess.run(["cc", "-O3", *parts], cwd=folder, check=True)
    return time.perf_counter() - start


def by_fgrad(function: Callable[..., Any], size: int, folder: Path) -> tuple[float, int]:
    """Write the program, and return the seconds to compile it, and the size of the object file."""
    start = time.perf_counter()
    files = fg.compile(fg.value_and_grad(function)).export(folder / "model", np.full(size, 0.3), library=False)
    seconds = time.perf_counter() - start
    main = _MAIN.format(
        declarations='#include "model.h"', size=size, workspace="void *w = malloc(model_workspace_bytes());",
        call="if (model(x, &value, gradient, w)) return 1",
    )  # fmt: skip
    (folder / "main.c").write_text(main)
    command(folder, "main.c", "model.o", "-lm", "-o", "main")
    return seconds, files.object.stat().st_size


def by_casadi(function: Callable[..., Any], size: int, folder: Path) -> tuple[float, int]:
    """Write the program, and return the seconds to compile it, and the size of the object file."""
    c: Any = importlib.import_module("casadi")
    start = time.perf_counter()
    x = c.SX.sym("x", size)
    value = function(c, x)
    made = c.Function("model", [x], [value, c.gradient(value, x)])
    with contextlib.chdir(folder):  # it takes a name alone
        made.generate("model.c")
    seconds = time.perf_counter() - start + command(folder, "-c", "model.c")
    main = _MAIN.format(
        declarations="int model(const double **, double **, long long *, double *, int);", size=size,
        workspace="const double *in[8] = {x}; double *out[8] = {&value, gradient}; long long iw[64]; double w[4096];",
        call="if (model(in, out, iw, w, 0)) return 1",
    )  # fmt: skip
    (folder / "main.c").write_text(main)
    command(folder, "main.c", "model.o", "-lm", "-o", "main")
    return seconds, (folder / "model.o").stat().st_size


def main() -> None:
    """Print a line for each program and library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{'':26}{'lines':>8}{'seconds to compile':>20}{'bytes':>8}{'ns a call':>12}")
    for name, (function, of_casadi, size) in PROGRAMS.items():
        ways: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [("fgrad", by_fgrad, function)]
        if HAS_CASADI:
            ways.append(("CasADi", by_casadi, of_casadi))
        with tempfile.TemporaryDirectory() as root:
            built = {}
            for library, build, own in ways:
                folder = Path(root) / library
                folder.mkdir()
                built[library] = folder, lines_of(own), *build(own, size, folder)
            times: dict[str, list[float]] = {library: [] for library in built}
            results = {}
            for _ in range(rounds):
                for library, (folder, *_) in built.items():
                    told = json.loads(subprocess.run([folder / "main"], capture_output=True, check=True).stdout)
                    times[library].append(told[0])
                    results[library] = told[1:]
        for library, (_, lines, seconds, count) in built.items():
            np.testing.assert_allclose(results[library], results["fgrad"], rtol=1e-9)
            print(f"{name:26}{library:8}{lines:>4}{seconds:>15.3f}{count:>12}{min(times[library]):>10.1f}")


if __name__ == "__main__":
    main()
