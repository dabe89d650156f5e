"""Install what would be released in empty environments, and use it there: `make package-test`.

The wheel is built from the sdist, so both are tried: the sdist without extras, and the wheel without extras and with
each extra alone, then with all together, on this Python and on every other one of this machine (`tools/pythons.py`). A
short program for each extra then runs in a folder outside of the repository, where only the installed package can be
found.

    --extras scipy,save     these extras alone; without them all, of which torch and jax are large downloads
    --this-python           no other Python
    --lowest                instead, the lowest versions that pyproject.toml allows, of what it names itself, on this
                            Python: needs uv; without torch, except where --extras names it
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pythons

ROOT = Path(__file__).parents[1]
FOR_DEVELOPMENT = {"demo", "test", "dev", "peers"}
"""Extras that are for work on fgrad, or for programs of the repository."""
FOR_TESTS = ("hypothesis", "mpmath", "pandas", "pytest", "scikit-learn")
"""What the tests need that run with the lowest versions."""
LARGE = {"torch"}
"""Extras whose lowest version is a download of some gigabytes."""

ALWAYS = """
import importlib.metadata, pathlib, sys
import numpy as np, fgrad as fg
assert pathlib.Path(fg.__file__).is_relative_to(sys.prefix), fg.__file__
assert fg.__version__ == importlib.metadata.version("fgrad")
def f(x):
    return np.sum(np.sin(x) ** 2)
x = np.array([0.5, 1.0])
np.testing.assert_allclose(fg.grad(f)(x), np.sin(2 * x))
np.testing.assert_allclose(fg.hessian(f)(x), np.diag(2 * np.cos(2 * x)), atol=1e-12)
np.testing.assert_allclose(fg.vmap(fg.grad(lambda x: x**3))(x), 3 * x**2)
w = fg.Variable(3.0)
fg.optimizers.Adam(0.1).minimize(lambda: w * w, [w])
assert w < 3.0
"""

PROGRAMS = {
    "": """
import importlib.util
if importlib.util.find_spec("safetensors") is None:
    try:
        fg.save("model", {"w": x})
    except fg.errors.MissingExtraError:
        pass
    else:
        raise AssertionError("a file was saved without safetensors")
""",
    "scipy": """
from fgrad.scipy import linalg, optimize, stats
np.testing.assert_allclose(fg.grad(lambda a: optimize.brentq(lambda x: x**3 - a, 0, 10))(8.0), 1 / 12)
np.testing.assert_allclose(fg.grad(stats.norm.logpdf)(2.0), -2.0)
np.testing.assert_allclose(fg.grad(lambda a: np.sum(linalg.expm(a)))(np.zeros((1, 1))), [[1.0]])
""",
    "progress": """
import tqdm
fg.optimizers.run(lambda: w * w, [w], 3, fg.optimizers.Adam(0.1), progress=True)
""",
    "plot": """
import matplotlib
matplotlib.use("agg")
import fgrad.plot
fgrad.plot.learning_curve([3.0, 2.0, 1.0]).figure.savefig("curve.png")
""",
    "draw": """
import graphviz
graphviz.Source(fg.trace(f)(x).to_dot())
""",
    "save": """
fg.save("model", {"w": x})
np.testing.assert_array_equal(fg.load("model")["w"], x)
""",
    "einsum": """
import opt_einsum
np.testing.assert_allclose(fg.grad(lambda x: np.einsum("i,i,j->", x, x, x, optimize=True))(np.ones(2)), [6.0, 6.0])
""",
    "compile": """
np.testing.assert_allclose(fg.compile(fg.grad(f))(x), np.sin(2 * x))
""",
    "torch": """
import torch
from fgrad.interop import from_torch
np.testing.assert_allclose(fg.grad(from_torch(lambda x: torch.sum(torch.sin(x) ** 2)))(x), np.sin(2 * x))
""",
    "jax": """
np.testing.assert_allclose(fg.compile(fg.grad(f), backend="jax")(x), np.sin(2 * x))
""",
    "distributed": """
import fgrad.distributed
value, gradient = fgrad.distributed.value_and_grad(lambda x, part: part * np.sum(x))(x, [1.0, 2.0])
np.testing.assert_allclose(gradient, [3.0, 3.0])
""",
}
"""What is run after ALWAYS, by the extra that is installed alone."""

TESTS = {
    "": "cumulative custom gradient_functions jacobians mistakes module_names numpy_functions optimizers primitives "
    "reductions selecting shapes tape variable views vmap",
    "scipy": "composition implicit scipy_optimize scipy_ivp",
    "save": "saving",
    "compile": "compile loops",
    "jax": "engine_jax",
    "distributed": "distributed",
}
"""Tests that run with the lowest versions, by the extra they need; they call nothing newer of NumPy or SciPy."""


def extras() -> list[str]:
    """Return the extras that users install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [name for name in project["optional-dependencies"] if name not in FOR_DEVELOPMENT]


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command without what this process has on its path, and return what it prints.

    Raises:
        RuntimeError: it has failed.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=clean, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


class Workshop:
    """A folder outside of the repository, with an environment that has the tools, and what they have built."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        run(sys.executable, "-m", "venv", folder / "tools")
        self._pip: list[str | Path] = [folder / "tools" / "bin" / "python", "-m", "pip"]
        run(*self._pip, "install", "--quiet", "--upgrade", "pip", "build", "twine")
        run(self._pip[0], "-m", "build", "--outdir", folder / "dist", ROOT)
        (self.wheel,) = (folder / "dist").glob("*.whl")
        (self.sdist,) = (folder / "dist").glob("*.tar.gz")

    def check_built(self) -> None:
        """Refuse what lacks a file or holds one that is not to be installed."""
        print(run(self._pip[0], "-m", "twine", "check", "--strict", self.wheel, self.sdist).strip())
        with zipfile.ZipFile(self.wheel) as wheel, tarfile.open(self.sdist) as sdist:
            check_names(run("git", "ls-files", "fgrad").split(), wheel.namelist(), sdist.getnames())

    def try_out(self, python: Path, artifact: Path, extra: str) -> None:
        """Install into a new environment, and run the program of an extra there, or of several, "plot,save"."""
        environment, outside = self.folder / "environment", self.folder / "outside"
        for each in (environment, outside):
            shutil.rmtree(each, ignore_errors=True)
        outside.mkdir()
        run(python, "-m", "venv", "--without-pip", environment)
        inside = environment / "bin" / "python"
        wanted = f"{artifact}[{extra}]" if extra else str(artifact)
        program = "".join(PROGRAMS[each] for each in extra.split(","))
        run(*self._pip, "--python", inside, "install", "--quiet", "--no-compile", wanted)
        run(inside, "-I", "-W", "error::DeprecationWarning:fgrad", "-c", ALWAYS + program, cwd=outside)

    def try_lowest(self, python: Path, wanted: Sequence[str]) -> None:
        """Install the lowest versions of all that the extras name, and run their programs and some tests."""
        uv = shutil.which("uv")
        if uv is None:
            raise RuntimeError("--lowest needs uv: pip install uv")
        environment, outside, lowest = self.folder / "lowest", self.folder / "outside", self.folder / "lowest.txt"
        outside.mkdir(exist_ok=True)
        run(python, "-m", "venv", "--clear", "--without-pip", environment)
        inside = environment / "bin" / "python"
        install = [uv, "pip", "install", "--quiet", "--python", inside]
        # Of the folder: of a wheel, what it needs would not be direct.
        run(*install, "--resolution", "lowest-direct", f"{ROOT}[{','.join(wanted)}]")
        versions = run(uv, "pip", "freeze", "--quiet", "--python", inside)
        lowest.write_text("".join(line for line in versions.splitlines(True) if "fgrad" not in line))
        print(", ".join(sorted(lowest.read_text().split())), flush=True)
        for extra in wanted:
            run(inside, "-I", "-c", ALWAYS + PROGRAMS[extra], cwd=outside)
        run(*install, "--constraint", lowest, *FOR_TESTS)  # which would bring newer versions along
        for name in ("tests", "tools", "docs", "examples"):
            shutil.copytree(ROOT / name, outside / name, dirs_exist_ok=True)
        for name in ("pyproject.toml", "conftest.py", "README.md"):
            shutil.copy(ROOT / name, outside)
        tests = [f"tests/test_{name}.py" for extra in ("", *wanted) for name in TESTS.get(extra, "").split()]
        print(run(inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, cwd=outside).splitlines()[-1])


def check_names(tracked: Iterable[str], in_wheel: Iterable[str], in_sdist: Iterable[str]) -> None:
    """Refuse a wheel that is not the package and its metadata alone, or an sdist that does not hold the tests.

    Raises:
        RuntimeError: that is so.
    """
    installed, package = {name for name in in_wheel if ".dist-info/" not in name}, set(tracked)
    expected = {name for name in package if not name.endswith(".md")} | {"fgrad/py.typed", "fgrad/__init__.pyi"}
    missing, foreign = expected - installed, installed - package
    sources = {name.partition("/")[2] for name in in_sdist}
    lacking = {"tests/conftest.py", "tools/package_test.py", "Makefile", "LICENSE", "CHANGELOG.md", *expected} - sources
    if missing or foreign or lacking:
        raise RuntimeError(f"the wheel lacks {missing}, and holds {foreign}; the sdist lacks {lacking}")


def cases(workshop: Workshop, wanted: Sequence[str]) -> Iterator[tuple[str, Path, str]]:
    """Yield what is installed: its kind, the file, and the extra; at the end all extras together."""
    yield "sdist", workshop.sdist, ""
    for extra in ("", *wanted):
        yield "wheel", workshop.wheel, extra
    if len(wanted) > 1:
        yield "wheel", workshop.wheel, ",".join(wanted)


def table(workshop: Workshop, found: dict[int, Path], wanted: Sequence[str]) -> int:
    """Try everything out, print a line for each, and return how many have failed."""
    failed = []
    print(f"{'Python':<8}{'from':<8}{'extra':<14}result")
    for minor, python in found.items():
        for kind, artifact, extra in cases(workshop, wanted):
            try:
                workshop.try_out(python, artifact, extra)
                result = "ok"
            except RuntimeError as error:
                result = "failed"
                failed.append(f"Python 3.{minor}, {kind}, extra {extra or 'none'}: {error}")
            shown = "together" if "," in extra else extra or "-"
            print(f"{f'3.{minor}':<8}{kind:<8}{shown:<14}{result}", flush=True)
    print("\n".join(failed))
    return len(failed)


def main() -> int:
    """Build, install and try out; return 1 if anything has failed."""
    parser = argparse.ArgumentParser(description="Install the package in empty environments, and use it there.")
    parser.add_argument("--extras", help="names, separated by commas; by default all that are for users")
    parser.add_argument("--this-python", action="store_true", help="on this Python alone")
    parser.add_argument("--lowest", action="store_true", help="with the lowest versions that are allowed")
    options = parser.parse_args()
    everything = [name for name in extras() if not (options.lowest and name in LARGE)]
    wanted = everything if options.extras is None else [name for name in options.extras.split(",") if name]
    found = {sys.version_info[1]: Path(sys.executable)} | ({} if options.this_python else pythons.others())
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder))
        workshop.check_built()
        if not options.lowest:
            return min(1, table(workshop, dict(sorted(found.items())), wanted))
        workshop.try_lowest(Path(sys.executable), wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
