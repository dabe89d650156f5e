"""Native code that is shared by all programs that are the same.

    shared(block, options).run(leaves)      as an `Executable`, which is compiled if no program before was the same

A function that is made anew for each use, such as one inside of another function, is recorded anew each time: what it
computes may have changed. To record takes a millisecond, and to compile fifty. So programs are compared; and what
changes most often from one to the next, the NumPy numbers and arrays that a function has closed over, is an
argument of the code and not part of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fgrad._locks import Lock
from fgrad.graphs.equations import Equation, Name
from fgrad.graphs.graph import Block
from fgrad.native.executable import Executable
from fgrad.native.options import Options
from fgrad.native.static_arguments import Static

_MOST_SHARED = 256

_known: OrderedDict[Hashable, Executable] = OrderedDict()
_lock = Lock()


@dataclass(frozen=True)
class Shared:
    """Native code, and the arrays of one program that go in after its leaves."""

    executable: Executable
    further: tuple[Any, ...]

    def ready(self) -> tuple[float, float]:
        """Wait until LLVM has compiled, and return what the executable does."""
        return self.executable.ready()

    def run(self, leaves: Sequence[Any]) -> list[Any] | None:
        """Return what the executable does."""
        return self.executable.run([*leaves, *self.further])


def shared(block: Block, options: Options) -> Shared:
    """Return the native code for a program, which is that of an earlier program if both are the same."""
    opened, further = _opened(block)
    if any(each.direct for each in opened.equations):  # a function of the user's, which is another one each time
        return Shared(Executable(opened, options), further)
    key = options, _form_of(opened)
    found = _known.get(key)
    if found is None:
        found = Executable(opened, options)
    with _lock:
        found = _known[key] = _known.pop(key, found)  # the latest is the last
        if len(_known) > _MOST_SHARED:
            _known.popitem(last=False)
    return Shared(found, further)


def _opened(block: Block) -> tuple[Block, tuple[Any, ...]]:
    """Return a program with floating-point constants of NumPy's among its inputs, and these."""
    constants = dict(block.constants)
    given: dict[Name, Any] = {name: constants.pop(name) for name in block.constants if _is_given(constants[name])}

    def named(x: Any) -> Any:
        if not _is_given(x):
            return x
        name = Name(x)
        given[name] = x
        return name

    equations = [replace(each, inputs=tuple(map(named, each.inputs))) for each in block.equations]
    outputs = [each for each in block.outputs if type(each) is Name]
    opened = Block([*block.inputs, *given], constants, equations, outputs)
    return opened, tuple(np.ascontiguousarray(x).reshape(np.shape(x)) for x in given.values())


def _is_given(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f"


def _form_of(block: Block) -> Hashable:
    """Return what is the same for programs that do the same."""
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
    metadata = _part(equation.metadata)
    outputs = tuple(_bound(names, each) for each in equation.outputs)
    return Static(equation.primitive), inputs, metadata, outputs, equation.quiet


def _mentioned(names: Mapping[Name, int], x: Any) -> Hashable:
    return ("name", names[x]) if type(x) is Name else _part(x)


def _part(x: Any) -> Hashable:
    """Return a constant, or an entry of metadata, as a part of a key."""
    if isinstance(x, (tuple, list)):
        return type(x), tuple(map(_part, x))
    if isinstance(x, Mapping):
        return "mapping", tuple((key, _part(x[key])) for key in sorted(x))
    if isinstance(x, slice):
        return slice, tuple(map(_part, (x.start, x.stop, x.step)))
    return Static(x)
