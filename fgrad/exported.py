"""Functions that `Compiled.export` has written, called from Python; of fgrad this needs its errors alone."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

import numpy as np

from fgrad import errors

__all__ = ["Exported", "load_exported"]

_INTERFACE = 1
_MOST_PARAMETERS = 1024
"""What ctypes takes."""

__dir__ = __all__.copy


class Exported:
    """A function in a shared library, as `load_exported` returns it.

    Attributes:
        description: what the library says of its function: a dict of `name`, `target`, `arguments`, `results` and more.
    """

    def __init__(self, library: ctypes.CDLL, description: dict[str, Any], path: Path) -> None:
        self.description = description
        self.__name__: str = description["name"]
        self._library, self._path = library, path
        self._function = library[self.__name__]
        self._function.restype = ctypes.c_int
        self._parameters = [each for each in description["parameters"] if _numbers(each["tree"])]
        self.__signature__ = Signature(
            [Parameter(each["name"], getattr(Parameter, each["kind"])) for each in self._parameters]
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return load_exported, (str(self._path),)

    def __repr__(self) -> str:
        return f"<exported function {self.__name__}{self.__signature__}>"

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Return the results as NumPy arrays, in the containers that the function returned.

        Args:
            args, keywords: NumPy arrays and numbers with the structure, shapes and dtypes of the exported arguments.

        Raises:
            TypeError: the arguments are not those of the function.
            ParameterError: a ValueError; an array has another shape or dtype, what is part of the code is another, or
                the arguments have no result.
        """
        bound = self.__signature__.bind(*args, **keywords)
        bound.apply_defaults()  # of *args and **keywords, which alone may be left out
        found = {
            number: _array(x, self.description["arguments"][number])
            for each in self._parameters
            for number, x in _leaves(each["tree"], bound.arguments[each["name"]], each["name"])
        }
        given = [found[number] for number in range(len(found))]
        made = [np.empty(each["shape"], each["dtype"]) for each in self.description["results"]]
        workspace = np.empty(self.description["workspace_bytes"], np.uint8)
        pointers = [ctypes.c_void_p(each.ctypes.data) for each in (*given, *made, workspace)]
        if self._function(*pointers):
            raise errors.ParameterError(
                f"{self.__name__} has no result for these arguments: an index is out of range, a matrix is singular or "
                "not positive definite, or there are infinities or NaN in products or factors of matrices."
            )
        return _nested(self.description["returns"], [each if each.shape else each[()] for each in made])


def _array(x: Any, expected: Mapping[str, Any]) -> Any:
    """Return an argument as an array in C order."""
    array, shape, dtype = np.asarray(x), tuple(expected["shape"]), np.dtype(expected["dtype"])
    if isinstance(x, np.ma.MaskedArray):
        raise errors.ParameterError(
            f"{expected['path']} is a masked array, and the exported function knows no masks.\nPass x.filled(value)."
        )
    if array.dtype == object:
        raise errors.ParameterError(
            f"{expected['path']} is a {type(x).__name__} that holds no plain numbers, such as a traced tensor: an "
            "exported function is not differentiated.\nExport its derivative, too, or pass values alone, x.numpy()."
        )
    is_number = isinstance(x, (bool, int, float)) and np.result_type(dtype, x) == dtype
    if array.shape != shape or (array.dtype != dtype and not is_number):
        raise errors.ParameterError(
            f"{expected['path']} is of dtype {array.dtype} and shape {array.shape}, and the function was exported for "
            f"{dtype} of shape {shape}.\nConvert it, or export the function for such an argument."
        )
    if is_number and dtype.kind in "iu" and not np.iinfo(dtype).min <= x <= np.iinfo(dtype).max:
        raise errors.ParameterError(f"{expected['path']} is {x}, and the function was exported for {dtype}.")
    return np.require(array, dtype, ["C", "ALIGNED"])


def _children(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {key: child for kind in ("items", "sequence", "attributes") for key, child in tree.get(kind, {}).items()}


def _numbers(tree: Any) -> list[int]:
    """Return the numbers of the arrays in a tree."""
    return [tree] if isinstance(tree, int) else [each for child in _children(tree).values() for each in _numbers(child)]


def _without_addresses(text: str) -> str:
    """Return a text without addresses of memory, which differ from process to process."""
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", text)


def _leaves(tree: Any, x: Any, path: str) -> Iterator[tuple[int, Any]]:
    """Yield the number of each array in a tree, and what an argument has there."""
    if isinstance(tree, int):
        yield tree, x
        return
    if "constant" in tree and _without_addresses(repr(x)) != _without_addresses(tree["constant"]):
        raise errors.ParameterError(
            f"{path} is {x!r:.80}, and was {tree['constant']:.80} when the function was exported: it is part of the "
            "code.\nExport the function for another value."
        )
    children = _children(tree)
    if "sequence" in tree and (not isinstance(x, Sequence) or len(x) != len(children)):
        raise errors.ParameterError(f"{path} is no {tree['type']} of {len(children)} items, as it was when exported.")
    for key, child in children.items():
        if not isinstance(child, int) and "variable" in child:
            continue
        try:
            value = getattr(x, key) if "attributes" in tree else x[int(key) if "sequence" in tree else key]
        except (AttributeError, KeyError, TypeError) as error:
            raise errors.ParameterError(f"{path} has no {key!r}, with which the function was exported.") from error
        yield from _leaves(child, value, f"{path}[{key!r}]")
    if "items" in tree and isinstance(x, Mapping) and (further := [key for key in x if key not in children]):
        raise errors.ParameterError(f"{path} has {further[0]!r}, without which the function was exported.")


def _nested(tree: Any, arrays: Sequence[Any]) -> Any:
    """Return arrays in containers; those of attributes are dicts."""
    if isinstance(tree, int):
        return arrays[tree]
    found = {key: _nested(child, arrays) for key, child in _children(tree).items()}
    if "sequence" in tree:
        return list(found.values()) if tree["type"] == "list" else tuple(found.values())
    return found if "items" in tree or "attributes" in tree else None


def _opened(library: Path) -> ctypes.CDLL:
    """Return a library; a copy, if another one was loaded from this file, which the system would give back."""
    content = hashlib.sha256(library.read_bytes()).digest()
    if _LOADED.setdefault(library, content) == content:
        return ctypes.CDLL(str(library))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a library that is in use may be kept
        return ctypes.CDLL(shutil.copy(library, folder))


_LOADED: dict[Path, bytes] = {}
"""What files of libraries held when they were loaded first, as checksums."""


def load_exported(path: str | os.PathLike[str]) -> Exported:
    """Return the function of a shared library that `fg.compile(f).export` has written.

    The file beside it that ends in `.json` says what is in it; the library says the same, and both are compared. A
    library is code: load none that you do not trust.

    Args:
        path: the library, such as `model.so`.

    Returns:
        A function of NumPy arrays. It has the parameters of the function that was exported, but for those that are
        part of the code, and nothing is traced. Where a container holds such a part, it must be the same. A pickle
        of it has the path alone, and loads the library there.

    Raises:
        LoadError: a ValueError; there is no such library or no description, they differ, the library is for another
            processor, or it has another version of the interface.

    Example:
        >>> import tempfile, numpy as np, fgrad as fg
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = fg.compile(fg.grad(lambda x: np.sum(x**3))).export(folder + "/slope", np.zeros(2))
        ...     slope = fg.load_exported(files.library)
        >>> slope(np.array([1.0, 2.0]))
        array([ 3., 12.])
    """
    library = Path(path).resolve()
    beside = library.with_suffix(".json")
    for file, what in ((library, "library"), (beside, "description")):
        if not file.is_file():
            raise errors.LoadError(f"there is no {what} {str(file)!r}; export writes both into one folder.")
    content = beside.read_bytes()
    try:
        description = json.loads(content)
        name = description["name"]
    except (ValueError, KeyError, TypeError) as error:
        raise errors.LoadError(f"{str(beside)!r} does not describe an exported function.") from error
    try:
        loaded = _opened(library)
        told = (ctypes.c_char * (len(content) + 1)).in_dll(loaded, f"{name}_description").value
    except (OSError, ValueError) as error:
        raise errors.LoadError(
            f"{str(library)!r} cannot be loaded as the function {name!r}: {error}.\nIt may be for another processor: "
            f"{description.get('target')!r} is what its description says."
        ) from error
    if told != content:
        raise errors.LoadError(
            f"{str(library)!r} and {str(beside)!r} do not belong together: the library describes its function "
            "otherwise.\nExport the function again."
        )
    _check_callable(library, description)
    return Exported(loaded, description, library)


def _check_callable(library: Path, description: Mapping[str, Any]) -> None:
    """Raise where a function cannot be called from here: by its interface, or the number of its parameters."""
    if description.get("interface") != _INTERFACE:
        raise errors.LoadError(
            f"{str(library)!r} has version {description.get('interface')!r} of the interface, and this fgrad loads "
            f"version {_INTERFACE}.\nExport the function again with this version of fgrad."
        )
    count = len(description["arguments"]) + len(description["results"]) + 1
    if count > _MOST_PARAMETERS:
        raise errors.LoadError(
            f"{description['name']} in {str(library)!r} has {count} parameters, and Python calls functions of "
            f"{_MOST_PARAMETERS} at most.\nExport a function that takes numbers as one array."
        )
