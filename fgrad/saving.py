"""Saving and loading containers of arrays: parameters, the state of optimizers, settings.

    save(path, tree)        write a container to a file
    load(path)              read it as plain containers
    load(path, like=tree)   read it in the containers of `tree`, such as an optimizer's State

A file is in the safetensors format: the arrays in their memory layout, and a JSON header with the structure. No content
of a file is ever executed. Other tools can read the arrays, under names such as `params.w`. It needs the library
safetensors: `pip install safetensors`.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import zlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import IO, Any

import numpy as np
import optree

import fgrad.core  # noqa: F401  # first, so that threads import it in one order
from fgrad import errors
from fgrad.core.tensor import Tensor, boxed, strip_ended
from fgrad.core.tree import NAMESPACE
from fgrad.core.variable import Variable

_FORMAT = "1"
_DICTS = (dict, OrderedDict, defaultdict)
_PLAIN_KINDS = "biufc"
_ANY: Any = object()
"""Sentinel: `like` not given."""

_BYTES_KINDS = "USMm"
"""The kinds of arrays that are stored as bytes: strings, dates, and time differences."""


def save(path: str | os.PathLike[str], tree: object) -> None:
    """Write a container to a file atomically.

    Args:
        path: the path of the file; an existing file is replaced when the new one is complete.
        tree: nested dicts, lists, tuples, named tuples and registered classes of arrays, tensors,
            variables, numbers, booleans, strings and None.

    Raises:
        SaveError: a TypeError; a leaf is something else, or a traced tensor, or `path` is not a path.
        MissingExtraError: an ImportError; safetensors is not installed.
        OSError: the file cannot be written. An existing file is unchanged.

    Example:
        >>> import tempfile
        >>> import fgrad as fg
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> save(path, {"w": np.array([1.0, 2.0]), "steps": 3})
        >>> load(path)
        {'w': array([1., 2.]), 'steps': 3}
    """
    if not isinstance(path, (str, os.PathLike)):
        raise errors.SaveError(
            f"save takes the path first and then the container, and the path is {path!r:.100} of type "
            f"{type(path).__name__}.\nWrite fg.save(path, tree)."
        )
    numpy_format = _safetensors().numpy
    arrays: dict[str, Any] = {}
    outline = json.dumps(_written(tree, "", arrays))
    metadata = {"fgrad": _FORMAT, "tree": outline, "crc32": _checksum(outline, arrays)}
    data = numpy_format.save(arrays, metadata=metadata)
    _replace(os.path.realpath(path), data)


def load(path: str | os.PathLike[str], like: object = _ANY) -> Any:
    """Read a file written by `save`.

    Args:
        path: the path of the file.
        like: a tree with the structure of the saved one, whose containers are used; its leaves are ignored.

    Returns:
        The tree. Arrays, tensors, variables, and numbers of Python and NumPy are restored with their types, bit for
        bit; variables are new ones. Without `like`, containers are dicts, lists and tuples: a named tuple becomes a
        tuple, a registered class a list of its children.

    Raises:
        LoadError: a ValueError; the file is damaged or was not written by `save`, or `like` has another structure.
        MissingExtraError: an ImportError; safetensors is not installed.
        OSError: the file cannot be read.

    Example:
        >>> import tempfile
        >>> import fgrad as fg
        >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
        >>> state = fg.optimizers.Momentum(0.1, momentum=0.9).init({"w": 2.0})
        >>> save(path, state)
        >>> load(path)
        (0, {'momentum': {'w': Tensor(0.)}}, 0)
        >>> load(path, like=state)
        State(step=0, slots={'momentum': {'w': Tensor(0.)}}, skipped=0)
    """
    outline, arrays = _contents(path)
    try:
        return _read(outline, arrays, like, "")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        if isinstance(error, errors.FgradError):
            raise
        raise errors.LoadError(f"{os.fspath(path)!r} is damaged: its outline does not match its arrays.") from error


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise errors.MissingExtraError(
            "save and load need the library safetensors, which is not installed: pip install safetensors"
        ) from None
    return safetensors


# Containers, for writing and reading


def _kind(tree: Any) -> str | None:
    """Return the kind of a container, or None for a leaf."""
    if isinstance(tree, _DICTS):
        return "dict"
    if type(tree) in (list, tuple):
        return type(tree).__name__
    if optree.is_namedtuple(tree):
        return "namedtuple"
    return None if tree is None or optree.tree_is_leaf(tree, namespace=NAMESPACE) else "node"


def _opened(kind: str, tree: Any) -> tuple[list[Any], list[Any]]:
    """Return the keys of a container's children, and the children."""
    if kind == "dict":
        return list(tree), list(tree.values())
    if kind == "namedtuple":
        return list(tree._fields), list(tree)
    children = list(tree if kind != "node" else optree.tree_flatten_one_level(tree, namespace=NAMESPACE)[0])
    return list(range(len(children))), children


def _closed(kind: str, keys: list[Any], children: list[Any], like: Any) -> Any:
    """Return a container of the class of `like`, or a plain one."""
    if kind == "dict":
        if isinstance(like, defaultdict):
            return defaultdict(like.default_factory, zip(keys, children, strict=True))
        plain = dict if like is _ANY else type(like)
        return plain(zip(keys, children, strict=True))
    if kind == "list" or like is _ANY:
        return children if kind in ("list", "node") else tuple(children)
    if kind == "namedtuple":
        return type(like)(*children)
    if kind == "node":
        _, metadata, _, unflatten = optree.tree_flatten_one_level(like, namespace=NAMESPACE)
        return unflatten(metadata, children)
    return tuple(children)


# Writing. In the outline a container is a JSON object, and a leaf a JSON array that starts with its kind; strings,
# integers, booleans and None are stored directly.


def _written(tree: Any, place: str, arrays: dict[str, Any]) -> Any:
    """Return the outline of a tree, and collect its arrays."""
    kind = _kind(tree)
    if kind is not None:
        keys, children = _opened(kind, tree)
        names = [f"{place}.{_checked_key(key, place)}" for key in keys]
        nodes = [_written(child, name, arrays) for child, name in zip(children, names, strict=True)]
        return {"kind": kind, "class": type(tree).__name__, "keys": keys, "children": nodes}
    if tree is None or type(tree) in (bool, int, str):
        return tree
    if type(tree) is float:
        return ["float", tree.hex()]
    if type(tree) is complex:
        return ["complex", tree.real.hex(), tree.imag.hex()]
    if isinstance(tree, Variable):
        return ["variable", *_stored(tree.numpy(), place, arrays), tree.name, bool(tree.trainable)]
    if type(tree) is Tensor:
        return ["tensor", *_stored(_value(tree, place), place, arrays)]
    if isinstance(tree, np.generic):
        return ["scalar", *_stored(tree, place, arrays)]
    if type(tree) in (np.ndarray, np.memmap):
        return ["array", *_stored(tree, place, arrays)]
    raise errors.SaveError(
        f"{_place(place)} is {tree!r:.100} of type {type(tree).__name__}, which cannot be saved.\n"
        "Save arrays, tensors, variables, numbers, booleans, strings and None, in dicts, lists and tuples."
    )


def _checked_key(key: str, place: str) -> Any:
    if type(key) not in (str, int, bool) and key is not None:
        raise errors.SaveError(f"{_place(place)} has the key {key!r}; keys must be strings or integers.")
    return key


def _value(tensor: Tensor, place: str) -> Any:
    value = strip_ended(tensor)
    if type(value) is Tensor:
        raise errors.SaveError(
            f"{_place(place)} is a traced tensor, and its derivative would be lost in a file.\n"
            f"  at {errors.users_line()}\n"
            "Save x.numpy(), or save after the function or the tape's block has ended."
        )
    return value


def _stored(value: Any, place: str, arrays: dict[str, Any]) -> list[Any]:
    """Add an array to those of the file; return its name in the file, its dtype and its shape."""
    array = np.asarray(value, order="C")
    dtype = array.dtype
    if dtype.kind not in _PLAIN_KINDS + _BYTES_KINDS or dtype.char in "gG":
        raise errors.SaveError(f"{_place(place)} is an array of dtype {dtype}, which cannot be saved.")
    name = place.lstrip(".") or "_"
    while name in arrays:  # the keys 1 and "1" have the same name
        name += "_"
    flat = array.reshape(-1).astype(dtype.newbyteorder("<"), copy=False)
    if dtype.kind == "c":
        arrays[name] = flat.view(f"<f{dtype.itemsize // 2}").reshape(*array.shape, 2)
    elif dtype.kind in _BYTES_KINDS:
        arrays[name] = np.frombuffer(flat.tobytes(), np.uint8)
    else:
        arrays[name] = flat.reshape(array.shape)
    return [name, dtype.str, list(array.shape)]


def _checksum(outline: str, arrays: dict[str, Any]) -> str:
    """Return a checksum of the contents of a file: names, dtypes, shapes and bytes of its arrays, and the outline."""
    total = zlib.crc32(outline.encode())
    for name in sorted(arrays):
        array = arrays[name].astype(arrays[name].dtype.newbyteorder("<"), copy=False)
        total = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), total)
        total = zlib.crc32(array.reshape(-1).view(np.uint8), total)
    return f"{total:08x}"


def _place(place: str) -> str:
    return f"the value to save at {place.lstrip('.')!r}" if place else "the value to save"


def _replace(path: str, data: bytes) -> None:
    """Write a temporary file in the same folder, and rename it when it is complete."""
    temporary = f"{path}.{os.urandom(8).hex()}.tmp"
    try:
        with open(temporary, "xb") as file:
            _write(file, data)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(path):
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(os.path.dirname(path))


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)


def _sync_folder(folder: str) -> None:
    """Flush the new name to disk, if the system supports it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# Reading


def _contents(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Return the outline in a file, and its arrays."""
    safetensors = _safetensors()
    with open(path, "rb"):  # raises Python's own error for a missing or unreadable file
        pass
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
        outline = json.loads(metadata["tree"]) if "tree" in metadata else None
    except (safetensors.SafetensorError, OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise errors.LoadError(f"{os.fspath(path)!r} is damaged, or not a safetensors file: {error}.") from None
    if metadata.get("fgrad") != _FORMAT or "tree" not in metadata:
        raise errors.LoadError(
            f"{os.fspath(path)!r} is a safetensors file that was not written by fgrad.save of this version; its "
            f"metadata are {metadata!r:.100}."
        )
    if metadata.get("crc32", "") not in ("", _checksum(metadata["tree"], arrays)):  # older files have no checksum
        raise errors.LoadError(
            f"{os.fspath(path)!r} is damaged: its checksum does not match its contents. Use another copy of the file."
        )
    return outline, arrays


def _read(node: object, arrays: dict[str, Any], like: object, place: str) -> Any:
    """Return the tree of an outline, in the containers of `like`."""
    if isinstance(node, dict):
        kind, keys, nodes = node["kind"], node["keys"], node["children"]
        inside = [_ANY] * len(nodes) if like is _ANY else _inside(like, node, place)
        children = [
            _read(child, arrays, own, f"{place}.{key}") for child, own, key in zip(nodes, inside, keys, strict=True)
        ]
        return _closed(kind, keys, children, like)
    if like is not _ANY and _kind(like) is not None:
        raise errors.LoadError(f"the file holds a leaf{_at(place)}, where `like` has a {type(like).__name__}.")
    if not isinstance(node, list):
        return node
    return _LEAVES[node[0]](arrays, *node[1:])


def _inside(like: Any, node: dict[str, Any], place: str) -> list[Any]:
    """Return the children of `like` in the order of those in the file."""
    kind, keys = node["kind"], node["keys"]
    if _kind(like) != kind or (kind == "node" and type(like).__name__ != node["class"]):
        raise errors.LoadError(
            f"the file holds a {node['class']}{_at(place)}, where `like` has a {type(like).__name__}: {like!r:.100}."
        )
    own, children = _opened(kind, like)
    if len(own) != len(keys) or set(own) != set(keys):
        raise errors.LoadError(
            f"the file holds a {node['class']} of {keys!r:.200}{_at(place)}, where `like` has one of {own!r:.200}."
        )
    inside = dict(zip(own, children, strict=True))
    return [inside[key] for key in keys]


def _at(place: str) -> str:
    return f" at {place.lstrip('.')!r}" if place else ""


def _restored(arrays: dict[str, Any], name: str, dtype_name: str, shape: list[int]) -> Any:
    """Return an array in its original dtype and shape."""
    dtype = np.dtype(dtype_name)
    array = arrays[name]
    if dtype.kind == "c":
        array = array.reshape(-1).view(f"=c{dtype.itemsize}")
    elif dtype.kind in _BYTES_KINDS:
        array = np.frombuffer(array.tobytes(), dtype.newbyteorder("<"))
    if dtype.kind not in _PLAIN_KINDS + _BYTES_KINDS or array.dtype.newbyteorder("=") != dtype.newbyteorder("="):
        raise ValueError(f"{array.dtype} in place of {dtype}")
    return array.reshape(shape).astype(dtype, copy=True)


_LEAVES: dict[str, Callable[..., Any]] = {
    "float": lambda arrays, text: float.fromhex(text),
    "complex": lambda arrays, real, imag: complex(float.fromhex(real), float.fromhex(imag)),
    "array": _restored,
    "scalar": lambda arrays, *stored: _restored(arrays, *stored)[()],
    "tensor": lambda arrays, *stored: boxed(_restored(arrays, *stored)),
    "variable": lambda arrays, *stored: Variable(_restored(arrays, *stored[:3]), stored[4], stored[3]),
}
