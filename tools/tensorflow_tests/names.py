"""`import tensorflow` and its modules, answered with the names of `fgrad.compat.tensorflow`.

installed(namespace)    make Python find `tensorflow` and every module of it here
Modules                 the finder, and the modules that it makes
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

PACKAGES = {
    "tensorflow",
    "tensorflow.python",
    "tensorflow.python.client",
    "tensorflow.python.eager",
    "tensorflow.python.framework",
    "tensorflow.python.keras",
    "tensorflow.python.keras.engine",
    "tensorflow.python.layers",
    "tensorflow.python.ops",
    "tensorflow.python.ops.losses",
    "tensorflow.python.ops.parallel_for",
    "tensorflow.python.platform",
    "tensorflow.python.training",
    "tensorflow.python.util",
}
"""What holds modules alone. In all others, names are looked up."""

PLACES = (
    "",
    "math",
    "nn",
    "linalg",
    "train",
    "random",
    "layers",
    "initializers",
    "errors",
    "dtypes",
    "autodiff",
    "nn.rnn_cell",
    "contrib.eager",
)
"""Where names are looked for, in this order."""


class Modules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `tensorflow` and its modules.

    Args:
        namespace: the name of the module of fgrad in TensorFlow's place.
        elsewhere: the names that are found under another name, or that are no part of what users call: for each
            module, objects by name.
    """

    def __init__(self, namespace: str, elsewhere: Mapping[str, Mapping[str, Any]]) -> None:
        root = importlib.import_module(namespace)
        self._root = namespace
        self._places = [attrgetter(place)(root) if place else root for place in PLACES]
        self._elsewhere = elsewhere

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of a module of TensorFlow."""
        if name != "tensorflow" and name.rpartition(".")[0] not in PACKAGES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return the module."""
        return _Module(spec.name, self)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: names are looked up when they are asked for."""

    def found(self, module: str, name: str) -> Any:
        """Return what a name stands for.

        Raises:
            AttributeError: there is nothing of this name.
        """
        own = self._elsewhere.get(module.removeprefix("tensorflow.python."), {})
        if name in own:
            return own[name]
        own_module = sys.modules.get(module.replace("tensorflow", self._root, 1))
        if own_module is not None and name in dir(own_module) and module not in PACKAGES:
            return getattr(own_module, name)
        if module not in PACKAGES and not name.startswith("_"):
            for place in self._places:
                if name in dir(place):
                    return getattr(place, name)
        raise AttributeError(f"{module}.{name} has no counterpart in fgrad.compat")


class _Module(types.ModuleType):
    """A module of TensorFlow."""

    def __init__(self, name: str, modules: Modules) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._modules = modules

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._modules.found(self.__name__, name)


@contextlib.contextmanager
def installed(namespace: str, elsewhere: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Return a context in which `tensorflow` is found here, and no other is."""
    modules = Modules(namespace, elsewhere)
    sys.meta_path.insert(0, modules)
    try:
        yield
    finally:
        sys.meta_path.remove(modules)
        for name in [name for name in sys.modules if name.partition(".")[0] == "tensorflow"]:
            del sys.modules[name]
