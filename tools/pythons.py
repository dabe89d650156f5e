"""Run the tests that depend on Python itself on every other Python of this machine: `make test-pythons`.

They are looked for on the PATH and among pyenv's versions, one for each minor version from 3.11 on. Each gets a virtual
environment of its own, such as `.venv-3.13`, with what the extra `test` names. If there is no other Python, that is an
error, except with `--allow-none`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLDEST, NEWEST = 11, 15
TESTS = {
    "errors, and the places in programs that they name": ("errors", "mistakes", "places", "first_steps", "explain"),
    "frames of callers": ("debug_nans", "detached", "edges", "inspect", "profiling"),
    "code and closures of functions": ("closures", "custom", "loops", "moving_steps", "record", "scipy_ivp"),
    "signatures": ("composition", "docstrings", "gradient_functions"),
    "references, and what they keep in memory": ("compile", "memory_and_threads", "overwriting", "tape", "views"),
    "threads and signals": ("interrupts", "running", "threads"),
    "text, copies and pickles": ("plugging_in", "saving", "showing"),
}
"""Tests by what they look at that differs between Pythons."""

ASK = """
import ensurepip, sys
assert sys.implementation.name == "cpython" and sys.version_info[3] == "final" and not sys.abiflags
print(sys.version_info[1])
"""
"""What a Python 3 is asked: whether it can make environments, is a release of the usual kind, and its version."""


def candidates() -> Iterator[Path]:
    """Yield where a Python may be."""
    for minor in range(OLDEST, NEWEST + 1):
        for folder in os.get_exec_path():
            found = shutil.which(f"python3.{minor}", path=folder)
            if found:
                yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob("versions/3.*/bin/python"))


def minor_version(python: Path) -> int | None:
    """Return the minor version of a Python that serves; None of any other, and of a shim that runs nothing."""
    try:
        answer = subprocess.run([python, "-c", ASK], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return int(answer.stdout) if answer.returncode == 0 else None


def others() -> dict[int, Path]:
    """Return the other Pythons by their minor version."""
    found: dict[int, Path] = {}
    for python in candidates():
        minor = minor_version(python)
        if minor is not None and OLDEST <= minor <= NEWEST and minor != sys.version_info[1]:
            found.setdefault(minor, python)
    return dict(sorted(found.items()))


def environment(python: Path, minor: int) -> Path:
    """Return the Python of an environment, which is made if it is not there or older than pyproject.toml."""
    folder = ROOT / f".venv-3.{minor}"
    inside, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists() or ready.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        install: list[str | Path] = [inside, "-m", "pip", "install", "--quiet", "--no-compile", "--editable", ".[test]"]
        subprocess.run(install, check=True, cwd=ROOT)
        ready.touch()
    return inside


def main() -> int:
    """Run the tests on each Python, and return 1 if any has failed or if there is none."""
    parser = argparse.ArgumentParser(description="Run the tests that depend on Python itself on every other Python.")
    parser.add_argument("--allow-none", action="store_true", help="succeed where no other Python is found")
    allow_none = parser.parse_args().allow_none
    pythons = others()
    if not pythons:
        print(f"no other Python from 3.{OLDEST} to 3.{NEWEST} was found, so nothing was tested", end="")
        print(": --allow-none lets this pass" if allow_none else "; with --allow-none this is no error")
        return 0 if allow_none else 1
    failed = []
    for minor, python in pythons.items():
        print(f"Python 3.{minor}: {python}", flush=True)
        command: list[str | Path] = [environment(python, minor), "-m", "pytest", "-q", "-n", "2"]
        command += [f"tests/test_{name}.py" for names in TESTS.values() for name in names]
        status = subprocess.run(command, cwd=ROOT).returncode
        if status:
            ended = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
            failed.append(f"3.{minor} ({ended})")
    if failed:
        print(f"failed on Python {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
