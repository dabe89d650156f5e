"""Functions of other libraries as operations here: what is the same for all libraries.

    call(library, function, args, keywords)    one call, by way of the traces that follow its arguments
    Library                                    what a library has to offer for that; one subclass for each

Such a function takes and returns arrays of its library, in containers. To a trace it is one operation: its value and
its derivatives are computed over there, and arrays cross the border as they are. What pulls cotangents back is a
function of that library, too; a trace below that follows what it is given makes one operation of it in its turn. So
come all orders, both modes and batches, from four things that a library can do: run, pull back, push forward, map.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.reverse import conform
from fgrad.core.tensor import Tensor, boxed
from fgrad.core.trace import Trace
from fgrad.core.tree import flatten, unflatten
from fgrad.core.variable import Variable
from fgrad.rules.randomness import RandomStates
from fgrad.rules.rule import Leaves, Rule, Variables, apply_rule, settled, zeros_of
from fgrad.transforms.calls import name_of

Theirs = Callable[[list[Any]], list[Any]]
"""A function of a library: from a list of its arrays to a list of its arrays."""

Numbers = Callable[[Leaves], Leaves]
"""A linear map on lists of NumPy's arrays."""


class Library(ABC):
    """What another library offers: its functions run, and are differentiated and mapped, over there.

    Where `moving` is asked for, it says which arrays are of floating point; cotangents and tangents are those of
    moving arrays and moving results alone.

    Attributes:
        name: what messages call it.
        array: what messages call its arrays.
    """

    name: str
    array: str

    @abstractmethod
    def is_result(self, x: Any) -> bool:
        """Return whether a function of the library may return this in place of an array."""

    @abstractmethod
    def mode(self, arrays: Leaves) -> AbstractContextManager[Any]:
        """Return a block in which to run functions of such arrays."""

    @abstractmethod
    def run(self, function: Theirs, arrays: Leaves) -> list[Any]:
        """Return the results for NumPy's arrays, as such."""

    @abstractmethod
    def pulling(self, function: Theirs, arrays: Leaves, name: str | None) -> tuple[list[Any], Numbers]:
        """Return the results, and the pullback at the arrays; `name` is that of the user's own function."""

    @abstractmethod
    def pushing(self, function: Theirs, arrays: Leaves) -> tuple[list[Any], Numbers | None]:
        """Return the results, and the pushforward at the arrays; None: `pushed` is as fast."""

    @abstractmethod
    def pulled(self, function: Theirs, moving: Sequence[bool]) -> Theirs:
        """Return the function of arrays and cotangents that pulls back, in the users' convention."""

    @abstractmethod
    def pushed(self, function: Theirs, moving: Sequence[bool]) -> Theirs:
        """Return the function of arrays and tangents that pushes forward."""

    @abstractmethod
    def mapped(self, function: Theirs, axes: Sequence[int | None], name: str) -> Theirs:
        """Return the function of many examples, which lie along the first axis of those arrays with axis 0."""

    def pinned(self, function: Theirs) -> tuple[Theirs, Callable[[], None]]:
        """Return the function with random numbers as they are drawn now, and what to call after the first run."""
        return function, lambda: None


def load(module: str, install: str = "") -> Any:
    """Return a module of a library that is optional.

    Args:
        module: its name.
        install: what `pip install` is to be told; by default the extra of that name.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        what = install or f"'fgrad[{module}]'"
        raise errors.MissingExtraError(
            f"this needs the library {module}, which is not installed: pip install {what}"
        ) from None


def call(library: Library, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Return the result of a function of another library, as tensors in the containers that it has made."""
    leaves, treedef = flatten((args, keywords))
    leaves = [_known(leaf) for leaf in leaves]
    places = _places(leaves)
    structure: list[Any] = []

    def flat(arrays: list[Any]) -> list[Any]:
        rest = iter(arrays)
        whole = [next(rest) if place else leaf for leaf, place in zip(leaves, places, strict=True)]
        given, named = unflatten(treedef, whole)
        results, structure[:] = _results(library, function, function(*given, **named))
        return results

    arrays = [settled(leaf) for leaf, place in zip(leaves, places, strict=True) if place]
    results = apply_rule(_operation(library, function, flat, name_of(function)), [_native(x) for x in arrays])
    return unflatten(structure[0], [boxed(x) for x in results])


def _known(leaf: Any) -> Any:
    """Return a leaf as the tensor or array that it stands for, if it stands for one."""
    return settled(leaf) if isinstance(leaf, (Tensor, Variable)) else leaf


def _places(leaves: Leaves) -> list[bool]:
    """Return which leaves are handed over as arrays; the others reach the function as they are.

    A number of Python's stays one beside arrays of floating point, whose dtype is then that of the result, as in NumPy.
    """
    arrays = [isinstance(x, (Tensor, np.ndarray, np.generic)) and x.dtype.kind in "biufc" for x in leaves]
    if any(own and x.dtype.kind in "fc" for x, own in zip(leaves, arrays, strict=True)):
        return arrays
    return [own or type(x) in (float, complex) for x, own in zip(leaves, arrays, strict=True)]


def _native(x: Any) -> Any:
    """Return an array in this machine's order of bytes, the only one that other libraries know."""
    if type(x) is Tensor:
        return x
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def _results(library: Library, function: Callable[..., Any], result: Any) -> tuple[list[Any], list[Any]]:
    """Return the arrays in what a function has returned, and how they are nested.

    Raises:
        ClosureError: there is a tensor in it.
        OutputError: something in it is no array of the library.
    """
    results, treedef = flatten(result)
    wrong = [x for x in results if not library.is_result(x)]
    if any(isinstance(x, (Tensor, Variable)) for x in wrong):
        raise errors.ClosureError(
            f"{name_of(function)} is to be a function of {library.name}, and it computes with tensors of fgrad that "
            "are not among its arguments.\nPass them as arguments."
        )
    if result is None or wrong:
        what = "None" if result is None else f"{wrong[0]!r:.100} of type {type(wrong[0]).__name__}"
        raise errors.OutputError(
            f"{name_of(function)} is to be a function of {library.name}, and it returned {what}.\n"
            f"Return {library.array}, or containers of them; a class of one's own is a container after "
            "fg.register_pytree_node."
        )
    return results, [treedef]


@dataclass(eq=False)
class _Operation(Rule):
    """A function of another library, as a rule that knows how it is mapped and which mode a trace wants.

    Attributes:
        library: the other one.
        theirs: the function, of lists of its arrays.
        title: what messages call it.
        is_own: it is the user's, and not what was derived from that.
    """

    library: Any = None
    theirs: Any = None
    title: str = ""
    is_own: bool = True

    @property
    def name(self) -> str:
        return self.title

    def mapped(self, ours: Sequence[bool], trace: Any = None) -> Rule:
        """Return the rule of many examples, which the library maps itself."""
        axes = [0 if own else None for own in ours]
        theirs = self.library.mapped(self.theirs, axes, self.title)
        return _operation(self.library, self.function, theirs, self.title, self.is_own)

    def followed(self, trace: Trace, leaves: Leaves) -> list[Any]:
        """Return the results as tensors of a trace; one that remembers will pull back, another pushes forward."""
        return Rule.followed(replace(self, linearize=_Linearization(self, trace.remembers)), trace, leaves)

    def derived(self, theirs: Theirs, inputs: Leaves) -> list[Any]:
        """Return what a function that was derived from this one makes of arrays, as an operation in its turn."""
        return apply_rule(_operation(self.library, self.function, theirs, self.title, False), inputs)


def _operation(
    library: Library, function: Callable[..., Any], theirs: Theirs, title: str, is_own: bool = True
) -> _Operation:
    def compute(arrays: Leaves) -> Leaves:
        with library.mode(arrays):
            return library.run(theirs, arrays)

    def linearize(arrays: Leaves) -> Any:
        return _Linearization(operation, True)(arrays)

    operation = _Operation(function, compute, linearize, library=library, theirs=theirs, title=title, is_own=is_own)
    return operation


@dataclass
class _Linearization:
    """How an operation is linearized for a trace.

    Where no other trace follows the arrays, the library computes the value and keeps what the derivative needs of it.
    Elsewhere value and derivative are each an operation on what the traces below follow, so the function runs twice.

    Attributes:
        operation: the function.
        backward: cotangents are to be pulled back, and not tangents pushed forward.
    """

    operation: _Operation
    backward: bool

    def __call__(self, leaves: Leaves) -> tuple[Leaves, Any, Any]:
        operation, library = self.operation, self.operation.library
        again = _Again(operation)
        kept: Any = None
        if any(type(x) is Tensor for x in leaves):
            results = apply_rule(operation, leaves)
        else:
            with library.mode(leaves):
                if self.backward:
                    results, kept = library.pulling(operation.theirs, leaves, operation.title * operation.is_own)
                else:
                    results, kept = library.pushing(operation.theirs, leaves)
        again.has_run()
        inside, outside = _moving(leaves), _moving(results)
        likes = [(x.shape, x.dtype) for x in results]

        def pull(cotangents: Leaves, variables: Variables) -> Leaves:
            given = [_conformed(ct, *like) for ct, like, own in zip(cotangents, likes, outside, strict=True) if own]
            derived = library.pulled(again, inside)
            found = iter(self._linear(kept if self.backward else None, derived, leaves, given))
            return [next(found) if own else None for own in inside]

        def push(tangents: Leaves, variables: Variables) -> Leaves:
            pairs = zip(tangents, leaves, inside, strict=True)
            given = [_conformed(t, x.shape, x.dtype) for t, x, own in pairs if own]
            derived = library.pushed(again, inside)
            found = iter(self._linear(None if self.backward else kept, derived, leaves, given))
            return [next(found) if own else zeros_of(x) for x, own in zip(results, outside, strict=True)]

        return results, pull, push

    def _linear(self, kept: Numbers | None, derived: Theirs, leaves: Leaves, given: Leaves) -> Leaves:
        """Return the image of directions, by what the library has kept or by the function that was derived."""
        if kept is None or any(type(x) is Tensor for x in given):
            return self.operation.derived(derived, [*leaves, *given])
        with self.operation.library.mode(leaves):
            return kept(given)


class _Again:
    """A function of another library that draws the random numbers again that it drew in its first run."""

    def __init__(self, operation: _Operation) -> None:
        self._states = RandomStates(operation.function)
        self._theirs, self.has_run_there = operation.library.pinned(operation.theirs)

    def has_run(self) -> None:
        """Keep the states of those generators alone that the first run has drawn from."""
        self._states.keep_used()
        self.has_run_there()

    def __call__(self, arrays: list[Any]) -> list[Any]:
        with self._states.again():
            results: list[Any] = self._theirs(arrays)
        return results


def _moving(arrays: Leaves) -> list[bool]:
    return [x.dtype.kind in "fc" for x in arrays]


def _conformed(direction: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a cotangent or tangent in the form of its primal, which other libraries insist on."""
    direction = settled(direction)
    if direction.shape != shape:
        direction = np.broadcast_to(direction, shape)
    return conform(direction, shape, dtype)
