"""Native code shared by equal programs.

    shared(block, options).run(leaves)      like an `Executable`; compiled unless an equal program was before

A function that is created anew for each use, such as a nested function, is recorded anew each time: its computation may
have changed. Recording takes a millisecond, and compiling fifty. So programs are compared; floating-point NumPy
scalars and arrays that the function closes over, which change most often, are inputs of the code rather than constants.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fgrad._locks import Lock
from fgrad.graphs.equations import Equation, Name, names_of
from fgrad.graphs.graph import Block
from fgrad.native.executable import Executable
from fgrad.native.options import Options
from fgrad.native.static_arguments import Static

_MOST_SHARED = 256

_known: OrderedDict[Hashable, Executable] = OrderedDict()
_lock = Lock()


@dataclass(frozen=True)
class Shared:
    """Native code, and the captured arrays of one program, which are inputs after its leaves."""

    executable: Executable
    further: tuple[Any, ...]

    def ready(self) -> tuple[float, float]:
        """Wait until the code is compiled, and return the executable's times."""
        return self.executable.ready()

    def run(self, leaves: Sequence[Any]) -> list[Any] | None:
        """Run the executable."""
        return self.executable.run([*leaves, *self.further])


def shared(block: Block, options: Options) -> Shared:
    """Return the native code of a program, shared with an earlier equal program."""
    open_block, further = _with_constants_as_inputs(block)
    if any(each.direct for each in open_block.equations):  # a user-defined function, which is a new object each time
        return Shared(Executable(open_block, options), further)
    key = options, _program_key(open_block)
    found = _known.get(key)
    if found is None:
        found = Executable(open_block, options)
    with _lock:
        found = _known[key] = _known.pop(key, found)  # most recently used last
        if len(_known) > _MOST_SHARED:
            _known.popitem(last=False)
    return Shared(found, further)


def _with_constants_as_inputs(block: Block) -> tuple[Block, tuple[Any, ...]]:
    """Return a program whose floating-point NumPy constants are inputs, and these constants."""
    constants = dict(block.constants)
    given: dict[Name, Any] = {name: constants.pop(name) for name in block.constants if _is_given(constants[name])}

    def named(x: Any) -> Any:
        if not _is_given(x):
            return x
        name = Name(x)
        given[name] = x
        return name

    equations = [replace(each, inputs=tuple(map(named, each.inputs))) for each in block.equations]
    open_block = Block([*block.inputs, *given], constants, equations, names_of(block.outputs))
    return open_block, tuple(np.ascontiguousarray(x).reshape(np.shape(x)) for x in given.values())


def _is_given(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f"


def _program_key(block: Block) -> Hashable:
    """Return the key of a program: equal keys mean equal programs."""
    names: dict[Name, int] = {}
    bound = tuple(_bound(names, name) for name in (*block.inputs, *block.constants))
    constants = tuple(Static(value) for value in block.constants.values())
    equations = tuple(_equation(names, each) for each in block.equations)
    return bound, constants, equations, tuple(_mentioned(names, each) for each in block.outputs)


def _bound(names: dict[Name, int], name: Name) -> Hashable:
    names[name] = len(names)
    return name.shape, name.dtype.str, name.is_weak


def _equation(names: dict[Name, int], equation: Equation) -> Hashable:
    inputs = tuple(_mentioned(names, each) for each in equation.inputs)
    metadata = _key_of(equation.metadata)
    outputs = tuple(_bound(names, each) for each in equation.outputs)
    return Static(equation.primitive), inputs, metadata, outputs, equation.quiet


def _mentioned(names: Mapping[Name, int], x: Any) -> Hashable:
    return ("name", names[x]) if type(x) is Name else _key_of(x)


def _key_of(x: Any) -> Hashable:
    """Return the key of a constant or of a metadata entry."""
    if isinstance(x, (tuple, list)):
        return type(x), tuple(map(_key_of, x))
    if isinstance(x, Mapping):
        return "mapping", tuple((key, _key_of(x[key])) for key in sorted(x))
    if isinstance(x, slice):
        return slice, tuple(map(_key_of, (x.start, x.stop, x.step)))
    return Static(x)
