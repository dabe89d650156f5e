"""The C signature of a recorded function: a name, a dtype and a shape for each array in its arguments and results.

    signature(name, arguments, results, named)      of containers, in which inputs are `Input`

The description of an exported function says how they are nested, so that `load_exported` takes the same containers.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.native.artifacts import Parameter, Signature


@dataclass(frozen=True, eq=False)
class Array:
    """An array of the program, in its place in a container."""

    dtype: Any
    shape: tuple[int, ...]


_RESERVED = {
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float",
    "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof",
    "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "workspace",
}  # fmt: skip


def signature(name: str, arguments: Mapping[str, Any], results: Any, named: Sequence[str] | None) -> Signature:
    """Return the signature of a function.

    Args:
        name: of the function in C.
        arguments: by the name in Python, containers of `Array`s, and of what is part of the program.
        results: a container of `Array`s.
        named: what to call the results: one name, or one for each item of a tuple, list or dict.

    Raises:
        ParameterError: a ValueError; a name is none in C, or the number of names is not that of the results.
        UnsupportedError: a NotImplementedError; a container is of a class of the user's.
    """
    if not name.isidentifier() or not name.isascii() or name in _RESERVED:
        raise errors.ParameterError(
            f"export names the C function after the file, and {name!r} is no name in C.\n"
            "Use letters, digits and underscores, as in export('build/model', x)."
        )
    names, counts = _Names(), (itertools.count(), itertools.count())
    returned = {"result": results} if named is None else dict(_named_results(results, named))
    trees = {
        "parameters": [{"name": own, "tree": _tree(tree, counts[0])} for own, tree in arguments.items()],
        "returns": _tree(results, counts[1]),
    }
    return Signature(name, _parameters(arguments, names), _parameters(returned, names), trees)


def _parameters(trees: Mapping[str, Any], names: _Names) -> list[Parameter]:
    return [
        Parameter(names.new(path), path, np.dtype(each.dtype).name, each.shape)
        for own, tree in trees.items()
        for path, each in _arrays(tree, own)
    ]


class _Names:
    """Names in C, each once."""

    def __init__(self) -> None:
        self._taken: set[str] = set(_RESERVED)

    def new(self, path: str) -> str:
        """Return a name for something in Python, such as `p_w` for `p['w']`."""
        plain = re.sub(r"\W+", "_", path, flags=re.ASCII).strip("_")
        plain = plain if plain and not plain[0].isdigit() else f"x_{plain}"
        found, count = plain, 2
        while found in self._taken:
            found, count = f"{plain}_{count}", count + 1
        self._taken.add(found)
        return found


def _named_results(results: Any, named: Sequence[str]) -> list[tuple[str, Any]]:
    names = [named] if isinstance(named, str) else list(named)
    items = list(results.values()) if isinstance(results, dict) else results
    parts = list(items) if isinstance(items, (tuple, list)) and not isinstance(named, str) else [results]
    if len(names) != len(parts) or not all(each.isidentifier() and not keyword.iskeyword(each) for each in names):
        raise errors.ParameterError(
            f"results of export is one name for each of the {len(parts)} results of the function, and is {named!r}."
        )
    return list(zip(names, parts, strict=True))


def arguments_by_name(function: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by the names of the parameters; what there is no name for is called `x0`, `x1`, ..."""
    try:
        return dict(inspect.signature(function).bind(*args, **keywords).arguments)
    except ValueError:  # a function of C without a signature
        return {**{f"x{place}": x for place, x in enumerate(args)}, **keywords}


def _children(tree: Any) -> list[tuple[str, Any, Any]] | None:
    """Return the children of a container: how each is reached, by which key, and what it is; None for a leaf."""
    if isinstance(tree, dict):
        return [(f"[{key!r}]", key, tree[key]) for key in sorted(tree)]
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return [(f".{key}", key, getattr(tree, key)) for key in tree._fields]
    if isinstance(tree, (tuple, list)):
        return [(f"[{place}]", place, each) for place, each in enumerate(tree)]
    if dataclasses.is_dataclass(tree) and not isinstance(tree, (type, Array)):
        return [(f".{each.name}", each.name, getattr(tree, each.name)) for each in dataclasses.fields(tree)]
    return None


def _arrays(tree: Any, path: str) -> Iterator[tuple[str, Array]]:
    """Yield each array in a container, with its path."""
    if isinstance(tree, Array):
        yield path, tree
    for step, _, child in _children(tree) or ():
        yield from _arrays(child, path + step)


def _tree(tree: Any, count: Iterator[int]) -> Any:
    """Return how arrays are nested, as JSON: the number of an array, or a kind of container with its children."""
    if isinstance(tree, Array):
        return next(count)
    children = _children(tree)
    if children is None:
        return {"constant": repr(tree)[:80]}
    if isinstance(tree, dict) and not all(isinstance(key, str) for _, key, _ in children):
        raise errors.UnsupportedError("export takes dicts whose keys are texts; other keys have no name in C.")
    kind = "items" if isinstance(tree, dict) else "sequence" if type(tree) in (tuple, list) else "attributes"
    told = {str(key): _tree(child, count) for _, key, child in children}
    return {kind: told, "type": type(tree).__name__}
