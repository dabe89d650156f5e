"""Autograd's own examples, which its archive on PyPI holds, with either library: what they print is compared.

compared(example, folder)     run one with both
agreement(mine, theirs)       how many lines agree, in words and nearly in numbers
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from clients.packages import AUTOGRAD, Client
from clients.running import MODULES, PreparationError, environment, sources, surroundings

EXAMPLES = (
    "neural_net_regression.py", "gaussian_process.py", "ode_net.py", "fluidsim/fluidsim.py", "bayesian_neural_net.py",
    "black_box_svi.py", "define_gradient.py", "fixed_points.py", "gmm.py", "hmm_em.py", "ica.py",
    "logistic_regression.py", "lstm.py", "negative_binomial_maxlike.py", "print_trace.py", "rkhs.py",
    "rosenbrock.py", "tanh.py",
)  # fmt: skip
"""Those that load nothing from the network."""
SECONDS = 30
"""Of the processor, after which an example is stopped: most go on for minutes. What both have printed is compared."""
PATIENCE = 20 * SECONDS
"""The seconds by the clock, after which an example that waits is stopped."""
TOLERANCE = 1e-4
"""Of numbers, relative: they come out of hundreds of steps of an optimizer."""
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
ARCHIVE = Client("autograd", AUTOGRAD, ("examples",))

PRINTS_NOTHING = "ends well, and prints nothing"
DIFFERENT = {
    "print_trace.py": "as meant: it prints the operations of a gradient, which are others",
}
"""Examples that print something else or fail, with the reason why that is right or known."""


@dataclass
class Output:
    """What an example has printed, how long it ran, and what it ended with: None if it was stopped."""

    lines: list[str]
    seconds: float
    status: int | None


@dataclass
class Agreement:
    """How far two outputs agree.

    Attributes:
        name: of the example.
        mine, theirs: with fgrad and with Autograd.
        compared: how many lines both have.
        first: the first line of theirs that is different, with ours; None if none is.
    """

    name: str
    mine: Output
    theirs: Output
    compared: int
    first: tuple[str, str] | None

    @property
    def verdict(self) -> str:
        if self.theirs.status:
            return "fails with Autograd, too"
        if self.name in DIFFERENT:
            return DIFFERENT[self.name]
        if self.mine.status:
            return "fails with fgrad"
        if self.first is not None:
            return f"differs: {self.first[1]!r}, with Autograd {self.first[0]!r}"
        if self.compared:
            return "the same"
        is_end = self.mine.status == self.theirs.status == 0
        return PRINTS_NOTHING if is_end else f"nothing to compare: stopped after {SECONDS} s"

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong: an example that prints nothing with Autograd either, in its time, tells nothing."""
        if self.theirs.status or (not self.compared and not self.theirs.lines):
            return True
        return self.verdict in ("the same", PRINTS_NOTHING, DIFFERENT.get(self.name))


def compare_all(folder: Path) -> list[Agreement]:
    """Run all examples with both libraries.

    Raises:
        PreparationError: what they need cannot be installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    python = environment(folder / "venv", [("matplotlib", "scipy", "future")])
    source = sources(ARCHIVE, folder)
    return [compared(name, python, source / "examples", folder / "run") for name in EXAMPLES]


def compared(name: str, python: Path, examples: Path, folder: Path) -> Agreement:
    """Run an example with both libraries, each in a fresh copy of the folder, since examples write files."""
    found = {}
    for library in MODULES:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(examples, folder)
        script = folder / name
        found[library] = run([str(python), *MODULES[library], "clients.script", script.name], script.parent)
        log = folder.parent / f"{script.stem}.{library}.log"
        log.write_text("\n".join(found[library].lines))
    return agreement(name, found["fgrad"], found["autograd"])


def run(command: list[str], folder: Path) -> Output:
    """Run a command for a limited time, and return what it has printed until then."""
    start = time.perf_counter()
    printed = folder / "printed"
    with printed.open("w") as out, (folder / "complaints").open("w") as complaints:
        try:
            status: int | None = subprocess.run(
                ["sh", "-c", f'ulimit -S -t {SECONDS}; exec "$@"', "limited", *command],
                cwd=folder,
                env=surroundings(),
                stdout=out,
                stderr=complaints,
                timeout=PATIENCE,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = None
    if status == -signal.SIGXCPU:
        status = None
    text = printed.read_text()
    lines = text.splitlines()
    if status is None and not text.endswith("\n"):
        lines = lines[:-1]  # which it was about to print
    return Output(lines, time.perf_counter() - start, status)


def agreement(name: str, mine: Output, theirs: Output) -> Agreement:
    """Compare what an example has printed with either library, as far as both came.

    Of examples that have ended, all of it; of those that were stopped, what both have printed.
    """
    ended = mine.status is not None and theirs.status is not None
    pairs = list(zip(theirs.lines, mine.lines, strict=False))
    first = next((pair for pair in pairs if not alike(*pair)), None)
    if first is None and ended and len(mine.lines) != len(theirs.lines):
        first = (f"{len(theirs.lines)} lines", f"{len(mine.lines)} lines")
    return Agreement(name, mine, theirs, len(pairs), first)


def alike(line: str, other: str) -> bool:
    """Return whether two lines have the same words and nearly the same numbers.

    NumPy shows what is a number for one library, and an array without axes for the other, in different words.
    """
    line, other = (re.sub(r"(?:np\.float64|array)\(([^()\[\]]*)\)", r"\1", text) for text in (line, other))
    if NUMBER.sub("#", line) != NUMBER.sub("#", other):
        return False
    pairs = zip(map(float, NUMBER.findall(line)), map(float, NUMBER.findall(other)), strict=True)
    return all(abs(a - b) <= TOLERANCE * max(abs(a), abs(b)) + 1e-9 for a, b in pairs)


__all__ = ["Agreement", "Output", "PreparationError", "agreement", "alike", "compare_all"]
