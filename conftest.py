"""Bytecode is kept; and what is not collected: tests and examples for a library that is not installed.

`make peers-test` installs it.
"""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

# The workers and the Pythons that tests start would compile every module anew, which takes a second for each of them.
# Where the environment asks for sources without bytecode beside them, it goes where `make clean` finds it.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parent / "build" / "bytecode")
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": sys.pycache_prefix}

_OF = {
    "torch": [
        "fgrad/interop/torch_export.py",
        "fgrad/interop/torch_functions.py",
        "tests/test_interop_torch.py",
        "tests/test_torch_samples.py",
    ],
    "expecttest": ["tests/test_torch_samples.py"],  # PyTorch's own tests import it
    "einops": ["fgrad/interop/einops_backend.py"],
    "sparse": ["tests/test_payloads_sparse.py"],
}

_WITHOUT_COMPILER = ["docs/how-to/export.md", "fgrad/exported.py"]
"""What links shared libraries, where there is a C compiler."""

_OTHER_FILES = [f"fgrad/numpy/{name}.py" for name in ("fft", "linalg", "polynomial", "random")]
"""Modules in whose place `sys.modules` has NumPy's, whose files are others."""

collect_ignore = [name for package, names in _OF.items() if not importlib.util.find_spec(package) for name in names]
collect_ignore += _OTHER_FILES
if not any(map(shutil.which, ("cc", "gcc", "clang"))):
    collect_ignore += _WITHOUT_COMPILER


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    """Close the figures that a test or the examples of a page have opened: matplotlib warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
