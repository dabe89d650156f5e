"""The public names with their signatures, one in a line: `python tests/public_names.py > tests/public_names.txt`.

A change of the file is a decision about what users may rely on, and has a line in the changelog.
"""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGES = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "api_pages.py"))

BY_OTHERS = ("fgrad.numpy", "fgrad.scipy.special", "fgrad.compat.tensorflow", "fgrad.compat.autograd")
"""Whose names are those of NumPy and SciPy that are installed, and of TensorFlow and Autograd."""


def lines() -> Iterator[str]:
    """Yield each name with its signature."""
    for module_name in (*PAGES["PUBLIC"], *PAGES["GROUPS"]):
        if not module_name.startswith(BY_OTHERS):
            module = importlib.import_module(module_name)
            for name in dir(module):
                yield f"{module_name}.{name}{_signature(getattr(module, name))}"


def _signature(value: Any) -> str:
    """Return the parameters of a function or class with their defaults; nothing of a module, error or distribution.

    A function with the signature of the SciPy that is installed is shown without defaults, which depend on its version.
    """
    is_error = isinstance(value, type) and issubclass(value, BaseException)
    if is_error or not (inspect.isroutine(value) or isinstance(value, type)):
        return ""
    parameters = inspect.signature(value).parameters.values()
    empty = {"annotation": inspect.Parameter.empty}
    if inspect.isfunction(value) and hasattr(value, "__signature__"):
        empty["default"] = inspect.Parameter.empty
    text = str(inspect.Signature([parameter.replace(**empty) for parameter in parameters]))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


if __name__ == "__main__":
    print("\n".join(lines()))
