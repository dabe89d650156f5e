"""The environment, TensorFlow's files of tests, and what comes of them.

tested(file, folder)    what came of the tests of a file, as `Results`
prepared(folder)        a Python with what the tests import, and the files
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from clients.running import ROOT, PreparationError, done, made, surroundings

from tensorflow_tests.files import COMMIT, FILES, LEFT, OUTSIDE, REPOSITORY, File

NEEDS = ("absl-py==2.3.1", "six==1.17.0")
"""What the tests import besides NumPy and TensorFlow."""

PATIENCE = 1800.0
"""The seconds after which the tests of a file are stopped."""


@dataclass
class Results:
    """What came of the tests of a file.

    Attributes:
        file: the file.
        outcomes: of each test, by its class and its name: "passed", "skipped" or "failed", and why.
        problem: why there are none.
    """

    file: File
    outcomes: dict[str, tuple[str, str]] = field(default_factory=dict)
    problem: str = ""

    def _names(self, *kinds: str) -> list[str]:
        return [name for name, (kind, _) in self.outcomes.items() if kind in kinds]

    @property
    def passed(self) -> list[str]:
        return self._names("passed")

    @property
    def outside(self) -> dict[str, str]:
        """The tests of what fgrad has no part of, with the reason."""
        skipped = {name: self.outcomes[name][1] for name in self._names("skipped")}
        declared = {name: OUTSIDE[self.file.path, name] for name in self._names("failed") if self._is_in(OUTSIDE, name)}
        return skipped | declared

    @property
    def failed(self) -> list[str]:
        return [name for name in self._names("failed") if name not in self.outside]

    @property
    def unknown(self) -> list[str]:
        """The failing tests for which there is no reason."""
        return [name for name in self.failed if not self._is_in(LEFT, name)]

    @property
    def outdated(self) -> list[str]:
        """The tests with a reason that pass, or that are not there."""
        declared = [name for path, name in (*OUTSIDE, *LEFT) if path == self.file.path]
        return [name for name in declared if self.outcomes.get(name, ("", ""))[0] != "failed"]

    def _is_in(self, reasons: object, name: str) -> bool:
        return (self.file.path, name) in reasons  # type: ignore[operator]

    @property
    def is_good(self) -> bool:
        return not (self.problem or self.unknown or self.outdated)


def prepared(folder: Path) -> tuple[Path, Path]:
    """Return the Python of an environment for the tests, and the folder of TensorFlow's files."""
    folder.mkdir(parents=True, exist_ok=True)
    python = made(folder / "venv", [("--editable", f"{ROOT}[compile,scipy]"), NEEDS])
    return python, sources(folder)


def sources(folder: Path) -> Path:
    """Return the folder of TensorFlow's files, of which only those with tests are fetched."""
    kept, repository = folder / COMMIT, folder / "repository"
    git = ["git", "-C", str(repository)]
    if not repository.exists():
        done("make a repository", ["git", "init", "--quiet", "--bare", repository])
        done("name TensorFlow's repository", [*git, "remote", "add", "origin", REPOSITORY])
    missing = [file.path for file in FILES if not (kept / file.path).exists()]
    if missing:
        fetch = ["fetch", "--quiet", "--depth", "1", "--filter=blob:none", "origin", COMMIT]
        done(f"fetch {COMMIT} of {REPOSITORY}", [*git, *fetch])
    for path in missing:
        write(kept / path, [*git, "show", f"{COMMIT}:tensorflow/python/{path}"])
    return kept


def write(path: Path, command: Iterable[str]) -> None:
    """Write what a command prints into a file."""
    ended = subprocess.run([*command], capture_output=True)
    if ended.returncode:
        raise PreparationError(f"could not fetch {path.name}: {ended.stderr.decode().strip()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(ended.stdout)


def tested(file: File, folder: Path) -> Results:
    """Return what comes of the tests of a file."""
    try:
        python, source = prepared(folder)
        return Results(file, outcomes(file, python, source, folder))
    except PreparationError as error:
        return Results(file, problem=str(error))


def outcomes(file: File, python: Path, source: Path, folder: Path) -> dict[str, tuple[str, str]]:
    """Run the tests of a file, and return what came of each."""
    report = folder / f"{file.path.replace('/', '.')}.json"
    log = report.with_suffix(".log")
    report.unlink(missing_ok=True)
    command = [python, "-m", "tensorflow_tests.worker", source / file.path, file.namespace, report]
    with log.open("w") as opened:
        try:
            subprocess.run(
                command, cwd=folder, env=surroundings(), stdout=opened, stderr=opened, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            raise PreparationError(f"its tests took more than {PATIENCE:g} s") from None
    if not report.exists():
        raise PreparationError(f"its tests did not begin: see {log}")
    return {name: (kind, why) for name, (kind, why) in json.loads(report.read_text()).items()}
