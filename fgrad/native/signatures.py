"""C signature of a recorded function: a name, a dtype and a shape for each array in its arguments and results.

    signature(name, arguments, results, counts, named)      for containers whose arrays are `Array`s

The signature describes the nesting of containers, so that a function of `load_exported` has the same containers.
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
    """An array of the program, as a leaf of a container.

    Attributes:
        number: its position among the inputs, or among the outputs.
        dtype, shape: dtype and shape of the array.
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
"""Keywords of C, and of C++, which can include C headers."""

_OF_LIBRARY = {
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "calloc", "cbrt", "ceil", "copysign", "cos",
    "cosh", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "floor", "fma", "fmax", "fmin", "fmod", "free", "frexp",
    "hypot", "ldexp", "lgamma", "log", "log10", "log1p", "log2", "main", "malloc", "memcmp", "memcpy", "memmove",
    "memset", "modf", "nearbyint", "pow", "printf", "realloc", "rint", "round", "sin", "sinh", "sqrt", "tan",
    "tanh", "tgamma", "trunc",
}  # fmt: skip
"""Functions of the C library, whose symbols an exported function must not redefine."""

_RESERVED = _KEYWORDS | set(C_TYPES.values()) | {"workspace", "NULL", "INFINITY", "NAN", "linux", "unix"}
"""Names that a parameter must not have; the last ones are macros of many compilers."""


@dataclass(frozen=True)
class Argument:
    """A Python argument of the function.

    Attributes:
        kind: the name of its `inspect.Parameter` kind.
        tree: a container of `Array`s and of constants.
    """

    kind: str
    tree: Any


def signature(
    name: str, arguments: Mapping[str, Argument], results: Any, counts: tuple[int, int], named: Sequence[str] | None
) -> Signature:
    """Return the signature of a function.

    Args:
        name: of the C function.
        arguments: by Python name.
        results: a container of `Array`s.
        counts: the number of arrays in arguments and in results.
        named: names of the results: one name, or one for each item of a tuple, list or dict.

    Raises:
        ParameterError: a ValueError; a name is not valid in C, or the number of names does not match the results.
        UnsupportedError: a NotImplementedError; a container is of a user-defined class.
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
    """Return the parameters for the arrays in containers, in the program's order."""
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
    """A set of unique C names."""

    def __init__(self) -> None:
        self._taken: set[str] = set(_RESERVED)

    def new(self, path: str) -> str:
        """Return a C name for a Python path, such as `p_w` for `p['w']`."""
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
    """Return arguments by parameter name; without a signature, positional arguments are called `x0`, `x1`, ..."""
    try:
        bound = inspect.signature(function).bind(*args, **keywords)
    except ValueError:  # a function of C without a signature
        named = {**{f"x{place}": x for place, x in enumerate(args)}, **keywords}
        return {name: Argument("POSITIONAL_OR_KEYWORD", x) for name, x in named.items()}
    kinds = bound.signature.parameters
    return {name: Argument(kinds[name].kind.name, x) for name, x in bound.arguments.items()}


def _children(tree: object) -> list[tuple[str, Any, Any]] | None:
    """Return the path suffix, the key and the value of each child of a container; None for a leaf."""
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
    """Return the nesting of arrays as JSON: the number of an array, or a kind of container with its children."""
    if isinstance(tree, Array):
        return tree.number
    if isinstance(tree, Variable):  # its value is a constant of the code
        return {"variable": tree.name}
    children = _children(tree)
    if children is None:
        return {"constant": repr(tree)}
    if isinstance(tree, dict) and not all(isinstance(key, str) for _, key, _ in children):
        raise errors.UnsupportedError("export takes dicts whose keys are texts; other keys have no name in C.")
    has_places = isinstance(tree, (tuple, list, collections.deque)) and not hasattr(tree, "_fields")
    kind = "items" if isinstance(tree, dict) else "sequence" if has_places else "attributes"
    entries = {str(key): _tree(child) for _, key, child in children}
    return {kind: entries, "type": type(tree).__name__}
