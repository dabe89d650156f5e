"""The C signature of a recorded function: a name, a dtype and a shape for each array in its arguments and results.

    signature(name, arguments, results, counts, named)      of containers, in which arrays are `Array`s

The description of an exported function says how they are nested, so that `load_exported` takes the same containers.
"""

from __future__ import annotations

import collections
import dataclasses
import inspect
import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.variable import Variable
from fgrad.native.artifacts import C_TYPES, Parameter, Signature


@dataclass(frozen=True, eq=False)
class Array:
    """An array of the program, in its place in a container.

    Attributes:
        number: which one it is of what the program takes, or returns.
        dtype, shape: its own.
    """

    number: int
    dtype: Any
    shape: tuple[int, ...]


_KEYWORDS = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
    "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl", "concept",
    "const", "const_cast", "consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete", "do",
    "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend",
    "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
    "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires",
    "restrict", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch",
    "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "typeof",
    "typeof_unqual", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor",
    "xor_eq",
}  # fmt: skip
"""Words of C and C++, which reads headers of C, too."""

_OF_LIBRARY = {
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "calloc", "cbrt", "ceil", "copysign", "cos",
    "cosh", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "floor", "fma", "fmax", "fmin", "fmod", "free", "frexp",
    "hypot", "ldexp", "lgamma", "log", "log10", "log1p", "log2", "main", "malloc", "memcmp", "memcpy", "memmove",
    "memset", "modf", "nearbyint", "pow", "printf", "realloc", "rint", "round", "sin", "sinh", "sqrt", "tan",
    "tanh", "tgamma", "trunc",
}  # fmt: skip
"""Functions of C's library: a program cannot have two of one name."""

_RESERVED = _KEYWORDS | set(C_TYPES.values()) | {"workspace", "NULL", "INFINITY", "NAN", "linux", "unix"}
"""What cannot name a parameter; the last ones are macros of many compilers."""


@dataclass(frozen=True)
class Argument:
    """What a function of Python's takes under one name.

    Attributes:
        kind: `inspect.Parameter`'s name for how it is passed.
        tree: a container of `Array`s, and of what is part of the program.
    """

    kind: str
    tree: Any


def signature(
    name: str, arguments: Mapping[str, Argument], results: Any, counts: tuple[int, int], named: Sequence[str] | None
) -> Signature:
    """Return the signature of a function.

    Args:
        name: of the function in C.
        arguments: by the name in Python.
        results: a container of `Array`s.
        counts: how many arrays there are in arguments, and in results.
        named: what to call the results: one name, or one for each item of a tuple, list or dict.

    Raises:
        ParameterError: a ValueError; a name is none in C, or the number of names is not that of the results.
        UnsupportedError: a NotImplementedError; a container is of a class of the user's.
    """
    is_name = name.isidentifier() and name.isascii() and name not in _RESERVED
    if not is_name or name.removesuffix("f") in _OF_LIBRARY or name in _OF_LIBRARY:
        what = "a function of C's library" if is_name else "no name in C"
        raise errors.ParameterError(
            f"export names the C function after the file, and {name!r} is {what}.\n"
            "Use letters, digits and underscores, as in export('build/model', x)."
        )
    names = _Names()
    returned = {"result": results} if named is None else dict(_named_results(results, named))
    given = _parameters({own: each.tree for own, each in arguments.items()}, counts[0], names)
    trees = {
        "parameters": [{"name": own, "kind": each.kind, "tree": _tree(each.tree)} for own, each in arguments.items()],
        "returns": _tree(results),
    }
    return Signature(name, given, _parameters(returned, counts[1], names), trees)


def _parameters(trees: Mapping[str, Any], count: int, names: _Names) -> list[Parameter]:
    """Return the parameters for the arrays in containers, in the order in which the program has them."""
    found = {each.number: (path, each) for own, tree in trees.items() for path, each in _arrays(tree, own)}
    if len(found) < count:
        raise errors.UnsupportedError(
            f"export finds {len(found)} of the {count} arrays in {', '.join(trees)}: it looks into tuples, lists, "
            "dicts, named tuples and dataclasses.\nPass and return arrays in such containers."
        )
    return [_parameter(names, *found[number]) for number in range(count)]


def _parameter(names: _Names, path: str, array: Array) -> Parameter:
    dtype = np.dtype(array.dtype).name
    if dtype not in C_TYPES:
        raise errors.UnsupportedError(
            f"{path} is of dtype {dtype}, for which exported functions have no type.\n"
            "Pass and return real and imaginary parts, or numbers of 32 or 64 bits."
        )
    return Parameter(names.new(path), path, dtype, array.shape)


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
    are_names = all(each.isidentifier() and not keyword.iskeyword(each) for each in names)
    if not (are_names and len(names) == len({*names}) == len(parts)):
        raise errors.ParameterError(
            f"results of export is one name for each of the {len(parts)} results of the function, and is {named!r}."
        )
    return list(zip(names, parts, strict=True))


def arguments_by_name(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, Argument]:
    """Return arguments by the names of the parameters; what there is no name for is called `x0`, `x1`, ..."""
    try:
        bound = inspect.signature(function).bind(*args, **keywords)
    except ValueError:  # a function of C without a signature
        named = {**{f"x{place}": x for place, x in enumerate(args)}, **keywords}
        return {name: Argument("POSITIONAL_OR_KEYWORD", x) for name, x in named.items()}
    kinds = bound.signature.parameters
    return {name: Argument(kinds[name].kind.name, x) for name, x in bound.arguments.items()}


def _children(tree: object) -> list[tuple[str, Any, Any]] | None:
    """Return the children of a container: how each is reached, by which key, and what it is; None for a leaf."""
    if isinstance(tree, dict):
        return [(f"[{key!r}]", key, x) for key, x in tree.items()]
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return [(f".{key}", key, getattr(tree, key)) for key in tree._fields]
    if isinstance(tree, (tuple, list, collections.deque)):
        return [(f"[{place}]", place, each) for place, each in enumerate(tree)]
    if dataclasses.is_dataclass(tree) and not isinstance(tree, (type, Array)):
        return [(f".{each.name}", each.name, getattr(tree, each.name)) for each in dataclasses.fields(tree)]
    return None


def _arrays(tree: object, path: str) -> Iterator[tuple[str, Array]]:
    """Yield each array in a container, with its path."""
    if isinstance(tree, Array):
        yield path, tree
    for step, _, child in _children(tree) or ():
        yield from _arrays(child, path + step)


def _tree(tree: object) -> Any:
    """Return how arrays are nested, as JSON: the number of an array, or a kind of container with its children."""
    if isinstance(tree, Array):
        return tree.number
    if isinstance(tree, Variable):  # whose value is in the code; a call has no use for it
        return {"variable": tree.name}
    children = _children(tree)
    if children is None:
        return {"constant": repr(tree)}
    if isinstance(tree, dict) and not all(isinstance(key, str) for _, key, _ in children):
        raise errors.UnsupportedError("export takes dicts whose keys are texts; other keys have no name in C.")
    has_places = isinstance(tree, (tuple, list, collections.deque)) and not hasattr(tree, "_fields")
    kind = "items" if isinstance(tree, dict) else "sequence" if has_places else "attributes"
    told = {str(key): _tree(child) for _, key, child in children}
    return {kind: told, "type": type(tree).__name__}
