"""`import autograd`: the modules of this package under Autograd's names."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

from fgrad.errors import StateError

_HERE = __name__.rpartition(".")[0]
_THERE = "autograd"


class _Alias(importlib.abc.Loader):
    """Loader of a module of this package that is imported under another name."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        self._module = importlib.import_module(_HERE + spec.name.removeprefix(_THERE))
        self._own = self._module.__spec__
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own  # the import machinery has set it to that of the other name


class _Finder(importlib.abc.MetaPathFinder):
    """Finder of `autograd` and its submodules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _THERE and not fullname.startswith(f"{_THERE}."):
            return None
        own = importlib.util.find_spec(_HERE + fullname.removeprefix(_THERE))
        if own is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Alias(), is_package=bool(own.submodule_search_locations))


_finder = _Finder()


def install() -> None:
    """Redirect `import autograd`, and imports of its submodules, to this package in the whole process.

    Use it for programs and packages that import Autograd and should not be changed. Call it before they
    are imported.

    Raises:
        StateError: a ValueError; Autograd itself is already imported.

    Example: a package that imports autograd itself. ::

        import fgrad.compat.autograd
        fgrad.compat.autograd.install()
        import lifelines
    """
    loaded = sys.modules.get(_THERE)
    if loaded is not None and loaded is not sys.modules[_HERE]:
        raise StateError(
            f"Autograd itself is already imported, from {getattr(loaded, '__file__', None)}, and modules "
            "that use it would continue to do so.\nCall fgrad.compat.autograd.install() before any import of autograd, "
            "or run the program by python -m fgrad.compat.autograd."
        )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
