"""Write the API pages: `python tools/docs.py FOLDER`.

pdoc shows a name where it is defined. Users import names from where they are re-exported, so each
public module is given the list of what it exports, and the modules behind it are left out.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pdoc

from fgrad.ops.creation import CONSTRUCTORS

_TENSORFLOW = "fgrad.compat.tensorflow"

PUBLIC = (
    "fgrad",
    "fgrad.compat",
    _TENSORFLOW,
    *(f"{_TENSORFLOW}.{name}" for name in ("linalg", "math", "nn", "random", "train", "contrib", "contrib.eager")),
    "fgrad.compat.tensorflow1",
    "fgrad.errors",
    "fgrad.extend",
    "fgrad.numpy",
    "fgrad.optimizers",
    "fgrad.optimizers.schedules",
    "fgrad.scipy",
    "fgrad.scipy.special",
    "fgrad.testing",
)


def exports(module: ModuleType) -> list[str]:
    """Return the names that a module defines or exports as `import x as x`, and its public modules."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and (getattr(value, "__module__", None) == module.__name__ or f" as {name}\n" in source)
    ]
    below = [name.rpartition(".") for name in PUBLIC]
    return names + [name for parent, _, name in below if parent == module.__name__]


def main(folder: str) -> None:
    """Write the pages into a folder."""
    for name in PUBLIC:
        module = importlib.import_module(name)
        if name == "fgrad.numpy":
            vars(module).update(CONSTRUCTORS)  # which it finds when they are asked for
            module.__all__ = list(CONSTRUCTORS)
        else:
            module.__all__ = exports(module)
    # Annotations of private attributes name types that only their own module knows.
    warnings.filterwarnings("ignore", "Error parsing type annotation", UserWarning)
    pdoc.render.configure(docformat="google")
    pdoc.pdoc("fgrad", output_directory=Path(folder))


if __name__ == "__main__":
    main(sys.argv[1])
