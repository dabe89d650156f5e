"""The environment and the source of a package, and its tests with Autograd and with fgrad.

tested(client, folder)    everything, as a `Comparison`
environment(...)          a Python with what a package needs, and fgrad from here
results(report)           what pytest's report in XML says of each test
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clients.packages import AUTOGRAD, EXCEPTIONS, Client

ROOT = Path(__file__).parents[2]
PATIENCE = 3600.0
"""The seconds after which the tests of a package are stopped."""
OBJECT = re.compile("<[^\\[]*? at 0x[0-9a-f]+>", re.DOTALL)
VARIABLES = {"MPLBACKEND": "Agg", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
MODULES = {"autograd": ("-m",), "fgrad": ("-m", "fgrad.compat.autograd", "-m")}
"""How Python runs a module so that `import autograd` finds one or the other."""
ANSWERS = {"autograd": "autograd", "fgrad": "fgrad.compat.autograd"}


class PreparationError(Exception):
    """A package could not be installed, or its tests not be found."""


@dataclass
class Results:
    """What came of the tests of a package.

    Attributes:
        outcomes: of each test, by its class or file and its name: "passed", "skipped", "failure" or "error".
        seconds: of the processor, for all of them together, with the imports.
        answered: the name of the module that the name `autograd` stood for.
    """

    outcomes: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    answered: str = ""

    @property
    def passed(self) -> set[str]:
        return {name for name, outcome in self.outcomes.items() if outcome == "passed"}


@dataclass
class Comparison:
    """The tests of a package with either library.

    Attributes:
        client: the package.
        found: the results by library.
        problem: why there are none.
    """

    client: Client
    found: dict[str, Results] = field(default_factory=dict)
    problem: str = ""

    @property
    def lost(self) -> list[str]:
        """The tests that pass with Autograd and not with fgrad."""
        return sorted(self.found["autograd"].passed - self.found["fgrad"].passed) if self.found else []

    @property
    def excused(self) -> dict[str, str]:
        """Those of them for which there is a reason."""
        name = self.client.name
        return {test: EXCEPTIONS[name, test] for test in self.lost if (name, test) in EXCEPTIONS}

    @property
    def is_good(self) -> bool:
        return set(self.lost) == set(self.excused)


def tested(client: Client, folder: Path) -> Comparison:
    """Return what comes of a package's tests with Autograd and with fgrad, both in one environment."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        python, source = prepared(client, folder), sources(client, folder)
        found = {library: results_with(library, client, python, source, folder) for library in MODULES}
    except PreparationError as error:
        return Comparison(client, problem=str(error))
    return Comparison(client, found)


def prepared(client: Client, folder: Path) -> Path:
    """Return the Python of an environment with a package."""
    install: list[tuple[str, ...]] = [("--no-build-isolation",) * bool(client.build_needs) + (wanted(client),)]
    if client.build_needs:
        install.insert(0, client.build_needs)
    return environment(folder / "venv", [*install, client.needs])


def wanted(client: Client) -> str:
    """Return what pip is told to install."""
    return f"git+{client.repository}@{client.commit}" if client.is_built else f"{client.name}=={client.version}"


def environment(folder: Path, steps: Sequence[Sequence[str]]) -> Path:
    """Return the Python of an environment with Autograd, pytest, fgrad and what some steps install."""
    pinned = f"autograd=={AUTOGRAD}"
    return made(folder, [("pytest", pinned), *filter(None, steps), ("--editable", str(ROOT)), (pinned,)])


def made(folder: Path, steps: Sequence[Sequence[str]]) -> Path:
    """Return the Python of an environment in which some steps are installed.

    It is made anew if the steps are others than last time.
    """
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists() or ready.read_text() != repr(steps):
        done("make an environment", [sys.executable, "-m", "venv", "--clear", folder])
        for step in steps:
            done(f"install {' '.join(step)}", [python, "-m", "pip", "install", "--quiet", "--no-compile", *step])
        ready.write_text(repr(steps))
    return python


def done(what: str, command: Sequence[str | Path], folder: Path | None = None) -> None:
    """Run a command that prepares something, and say what has failed if it has."""
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ended.returncode:
        said = [line for line in ended.stderr.splitlines() if line.strip() and not line.startswith(("WARNING", "note"))]
        raise PreparationError(f"could not {what}: {said[-1].strip() if said else f'exit status {ended.returncode}'}")


def sources(client: Client, folder: Path) -> Path:
    """Return the folder of a package's source: of its repository, if it has one here, or its archive on PyPI."""
    kept = folder / (client.commit or client.version)
    if not kept.exists():
        fresh = folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        (checked_out if client.repository else unpacked)(client, fresh)
        fresh.rename(kept)
    missing = [tests for tests in client.tests if not (kept / tests).exists()]
    if missing:
        raise PreparationError(f"its source has no tests at {missing[0]}")
    return kept


def checked_out(client: Client, folder: Path) -> None:
    """Get the tests of a package out of its repository, and no more of it than need be."""
    git = ["git", "-C", folder]
    clone = ["git", "clone", "--quiet", "--filter=blob:none", "--no-checkout", client.repository, folder]
    done(f"clone {client.repository}", clone)
    done("check out", [*git, "sparse-checkout", "set", *{tests.partition("/")[0] for tests in client.tests}])
    done(f"check out {client.commit}", [*git, "-c", "advice.detachedHead=false", "checkout", "--quiet", client.commit])


def unpacked(client: Client, folder: Path) -> None:
    """Get the archive of a package's source from PyPI."""
    archive = f"{client.name}=={client.version}"
    fetch = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", folder, archive]
    done(f"download the source of {archive}", [sys.executable, "-m", "pip", *fetch])
    (packed,) = folder.iterdir()
    with tarfile.open(packed) as opened:
        opened.extractall(folder / "all", filter="data")
    (top,) = (folder / "all").iterdir()
    for part in top.iterdir():
        part.rename(folder / part.name)
    shutil.rmtree(folder / "all")
    packed.unlink()


def surroundings(client: Client | None = None) -> dict[str, str]:
    """Return the variables with which programs of others run: no settings of this repository's."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return {**own, **VARIABLES, "PYTHONPATH": str(ROOT / "tools"), **(client.variables if client else {})}


def results_with(library: str, client: Client, python: Path, source: Path, folder: Path) -> Results:
    """Run the tests of a package with one of the libraries."""
    report = folder / f"{library}.xml"
    report.unlink(missing_ok=True)
    (folder / "pytest.ini").touch()  # so that packages without settings of pytest's do not get this repository's
    options = [
        "-q",
        "-p",
        "clients.seeded",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        f"--rootdir={source}",
        f"--junitxml={report}",
        *client.options,
    ]
    command = [python, *MODULES[library], "pytest", *client.tests, *options]
    begin = spent()
    with (folder / f"{library}.log").open("w") as log:
        try:
            subprocess.run(
                command, cwd=source, env=surroundings(client), stdout=log, stderr=log, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            raise PreparationError(f"its tests with {library} took more than {PATIENCE:g} s") from None
    if not report.exists():
        raise PreparationError(f"its tests did not begin with {library}: see {report.with_suffix('.log')}")
    found = results(report)
    found.seconds = spent() - begin
    if library == "autograd" and not found.passed:
        raise PreparationError(f"none of its tests passes with Autograd: see {report.with_suffix('.log')}")
    if found.passed and found.answered != ANSWERS[library]:
        raise PreparationError(f"`import autograd` in its tests with {library} found: {found.answered}")
    return found


def spent() -> float:
    """Return the seconds of the processor that programs started here have taken, which others do not lengthen."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def results(report: Path) -> Results:
    """Return what pytest's report in XML says of each test.

    Objects in the names of tests are left out, which differ from run to run and from library to library; tests whose
    names are the same then are counted.
    """
    tree = ElementTree.parse(report).getroot()
    found, times = Results(), Counter[str]()
    for case in tree.iter("testcase"):
        said = [part.tag for part in case if part.tag in ("failure", "error", "skipped")]
        name = OBJECT.sub("<object>", f"{case.get('classname')}::{case.get('name')}")
        times[name] += 1
        found.outcomes[name if times[name] == 1 else f"{name} ({times[name]})"] = said[0] if said else "passed"
    answers = [each.get("value", "") for each in tree.iter("property") if each.get("name") == "autograd"]
    found.answered = answers[0] if answers else "nothing"
    return found
