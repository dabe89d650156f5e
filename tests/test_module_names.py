"""Modules that are imported by the names that they have in other libraries hold the same objects."""

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.scipy import stats


@pytest.mark.parametrize("name", ["linalg", "fft", "random", "polynomial"])
def test_parts_of_numpy(name):
    module, original = importlib.import_module(f"fgrad.numpy.{name}"), getattr(np, name)
    assert module.__all__ == original.__all__
    for each in {*original.__all__} - {"fftfreq", "rfftfreq"}:
        assert getattr(module, each) is getattr(original, each) is getattr(getattr(fnp, name), each)


def test_parts_of_numpy_are_differentiated():
    import fgrad.numpy.linalg as npla

    assert fg.grad(lambda x: npla.norm(x))(np.array([3.0, 4.0])).tolist() == [0.6, 0.8]


@pytest.mark.parametrize("name", stats.__all__)
def test_distributions(name):
    assert importlib.import_module(f"fgrad.scipy.stats.{name}") is getattr(stats, name)


IMPORTS = [
    "import fgrad.scipy.stats.norm as norm; print(norm.cdf(0.0))",
    "from fgrad.scipy.stats.norm import cdf; print(cdf(0.0))",
    "from fgrad.scipy.stats import norm; print(norm.cdf(0.0))",
    "import fgrad.scipy.stats.norm; print(fgrad.scipy.stats.norm.cdf(0.0))",
    "import fgrad.numpy.random; print(0.5 * fgrad.numpy.random.default_rng(0).normal(1.0, 0.0))",
    "import fgrad.numpy.linalg as npla; print(npla.det([[0.5]]))",
]
EACH = """
import os, sys
import scipy.stats  # what takes longest, and is none of fgrad's
for program in sys.argv[1:]:
    sys.stdout.flush()
    if os.fork() == 0:
        exec(program, {})
        break
    os.wait()
"""


def test_imports_of_a_fresh_process():
    commands = [[EACH, *IMPORTS]] if hasattr(os, "fork") else [[program] for program in IMPORTS]
    done = [subprocess.run([sys.executable, "-c", *each], capture_output=True, text=True) for each in commands]
    assert "".join(each.stderr for each in done) == ""  # a traceback shows the import
    assert "".join(each.stdout for each in done) == "0.5\n" * len(IMPORTS)


def test_names_that_there_are_not():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("fgrad.scipy.stats.nonsense")


def test_none_of_it_is_loaded_before_it_is_asked_for():
    program = "import sys, fgrad.numpy; print([name for name in sys.modules if name.startswith('fgrad.numpy.')])"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"


FIRST = """
import builtins, sys, fgrad
before, seen = builtins.__import__, []
def note(name, *args, **keywords):
    if name.startswith("fgrad.") and name.split(".")[1] not in ("_locks", "errors", "typing"):
        seen.append(name)
    return before(name, *args, **keywords)
builtins.__import__ = note
{}
print(*[name for name in seen if not "{}".startswith(name)][:1])
"""

PUBLIC = [
    "clipping", "compat.autograd", "compat.autograd.numpy", "compat.tensorflow", "compat.tensorflow1", "distributed",
    "extend", "interop", "optimizers", "plot", "random", "saving", "scipy.optimize", "sparse", "testing", "tree",
    "uncertainty",
]  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_each_module_begins_with_the_core(name):
    """Threads that import several modules for the first time would wait for each other in a circle otherwise."""
    program = FIRST.format(f"import fgrad.{name}", f"fgrad.{name}")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "fgrad.core\n"


IMPORT_WITH_LOOKUPS = """
import dataclasses, sys
made = dataclasses.dataclass
def looking_up(cls=None, /, **options):
    if cls is None:
        return lambda cls: looking_up(cls, **options)
    getattr(sys.modules[cls.__module__], "float", None)
    return made(cls, **options)
dataclasses.dataclass = looking_up
import fgrad.{module}
"""


@pytest.mark.parametrize("module", ["distributed", "optimizers", "optimizers.schedules"])
def test_dataclasses_may_look_for_names_in_their_modules(module):
    # As they do from Python 3.15 on, for the names of annotations, while the module is being imported.
    code = IMPORT_WITH_LOOKUPS.format(module=module)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
