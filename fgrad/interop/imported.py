"""Functions of other libraries as operations: the common part for all libraries.

    call(library, function, args, keywords)    one call, handled by the traces of its arguments
    Library                                    interface of a library; one subclass per library

Such a function takes and returns arrays of its library, in containers. For a trace it is one operation: the library
computes its value and its derivatives, and arrays are passed unchanged. The pullback is a function of that library,
too; if its arguments are traced at a lower level, it becomes one operation again. All orders, both modes and batches
follow from four methods of a library: run, pull back, push forward, map.
"""

from __future__ import annotations

import importlib
import itertools
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
"""A linear map on lists of NumPy arrays."""


class Library(ABC):
    """Interface of another library, which runs, differentiates and maps its own functions.

    The argument `moving` says which arrays are of floating point; cotangents and tangents belong to
    these arrays and to floating-point results only.

    Attributes:
        name: the name of the library in messages.
        array: the name of its arrays in messages.
    """

    name: str
    array: str

    @abstractmethod
    def is_result(self, x: Any) -> bool:
        """Return whether this is a valid array result of a function of the library."""

    @abstractmethod
    def mode(self, arrays: Leaves) -> AbstractContextManager[Any]:
        """Return a context manager for running functions of such arrays."""

    @abstractmethod
    def run(self, function: Theirs, arrays: Leaves) -> list[Any]:
        """Return the results for NumPy arrays, as NumPy arrays."""

    @abstractmethod
    def pulling(self, function: Theirs, arrays: Leaves, name: str | None) -> tuple[list[Any], Numbers]:
        """Return the results, and the pullback at the arrays; `name` is that of the user's function."""

    @abstractmethod
    def pushing(self, function: Theirs, arrays: Leaves) -> tuple[list[Any], Numbers | None]:
        """Return the results, and the pushforward at the arrays; None if `pushed` is as fast."""

    @abstractmethod
    def pulled(self, function: Theirs, moving: Sequence[bool]) -> Theirs:
        """Return the pullback as a function of arrays and cotangents, in the public convention."""

    @abstractmethod
    def pushed(self, function: Theirs, moving: Sequence[bool]) -> Theirs:
        """Return the pushforward as a function of arrays and tangents."""

    @abstractmethod
    def mapped(self, function: Theirs, axes: Sequence[int | None], name: str) -> Theirs:
        """Return the batched function, with batch axis 0 for those arrays whose axis is 0."""

    def pinned(self, function: Theirs) -> tuple[Theirs, Callable[[], None]]:
        """Return the function with its current random state, and a callback for after the first run."""
        return function, lambda: None


def split(
    function: Theirs, arrays: Sequence[Any], moving: Sequence[bool], is_moving: Callable[[Any], bool]
) -> tuple[tuple[Any, ...], Callable[..., tuple[tuple[Any, ...], list[Any]]]]:
    """Return the differentiated arrays, and the function of them to the floating-point results, and to all."""

    def run(*moved: Any) -> tuple[tuple[Any, ...], list[Any]]:
        rest = iter(moved)
        results = function([next(rest) if own else x for x, own in zip(arrays, moving, strict=True)])
        return tuple(filter(is_moving, results)), results

    return tuple(itertools.compress(arrays, moving)), run


def are_moving(arrays: Leaves) -> list[bool]:
    """Return which arrays are of floating point."""
    return [x.dtype.kind in "fc" for x in arrays]


def load(module: str, install: str = "") -> Any:
    """Return a module of an optional library.

    Args:
        module: the name of the module.
        install: the argument of `pip install`; by default the extra of that name.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        what = install or f"'fgrad[{module}]'"
        raise errors.MissingExtraError(
            f"this needs the library {module}, which is not installed: pip install {what}"
        ) from None


def call(library: Library, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Return the result of a function of another library, as tensors in the same containers."""
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


def _known(leaf: object) -> Any:
    """Return a leaf converted to a tensor or array if it represents one."""
    return settled(leaf) if isinstance(leaf, (Tensor, Variable)) else leaf


def _places(leaves: Leaves) -> list[bool]:
    """Return which leaves are passed as arrays; all others are passed unchanged.

    A Python number stays one beside floating-point arrays, whose dtype then determines that of the result, as in NumPy.
    """
    arrays = [isinstance(x, (Tensor, np.ndarray, np.generic)) and x.dtype.kind in "biufc" for x in leaves]
    if any(own and x.dtype.kind in "fc" for x, own in zip(leaves, arrays, strict=True)):
        return arrays
    return [own or type(x) in (float, complex) for x, own in zip(leaves, arrays, strict=True)]


def _native(x: Any) -> Any:
    """Return an array or tensor in native byte order, the only one that other libraries support."""
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def _results(library: Library, function: Callable[..., Any], result: Any) -> tuple[list[Any], list[Any]]:
    """Return the arrays in the result of a function, and its structure."""
    results, treedef = flatten(result)
    wrong = [x for x in results if not library.is_result(x)]
    if any(isinstance(x, (Tensor, Variable)) for x in wrong):
        raise errors.ClosureError(
            f"{name_of(function)} must be a function of {library.name}, but it computes with tensors of fgrad that "
            "are not among its arguments.\nPass them as arguments."
        )
    if result is None or wrong:
        what = "None" if result is None else f"{wrong[0]!r:.100} of type {type(wrong[0]).__name__}"
        raise errors.OutputError(
            f"{name_of(function)} must be a function of {library.name}, but it returned {what}.\n"
            f"Return {library.array}, or containers of them; a class of your own is a container after "
            "fg.register_pytree_node."
        )
    return results, [treedef]


@dataclass(eq=False)
class _Operation(Rule):
    """A function of another library as a rule, with its batching and differentiation.

    Attributes:
        library: the other library.
        theirs: the function of lists of its arrays.
        title: the name in messages.
        is_own: whether it is the user's function, rather than a derivative of it.
    """

    library: Any = None
    theirs: Any = None
    title: str = ""
    is_own: bool = True

    @property
    def name(self) -> str:
        return self.title

    def mapped(self, ours: Sequence[bool], trace: object = None) -> Rule:
        """Return the batched rule; the library maps the function itself."""
        axes = [0 if own else None for own in ours]
        theirs = self.library.mapped(self.theirs, axes, self.title)
        return _operation(self.library, self.function, theirs, self.title, self.is_own)

    def followed(self, trace: Trace, leaves: Leaves) -> list[Any]:
        """Return the results as tensors of a trace, with a pullback (reverse mode) or a pushforward (forward mode)."""
        return Rule.followed(replace(self, linearize=_Linearization(self, trace.remembers)), trace, leaves)

    def derived(self, theirs: Theirs, inputs: Leaves) -> list[Any]:
        """Return the result of a function derived from this one, as an operation."""
        return apply_rule(_operation(self.library, self.function, theirs, self.title, False), inputs)


def _operation(
    library: Library, function: Callable[..., Any], theirs: Theirs, title: str, is_own: bool = True
) -> _Operation:
    def compute(arrays: Leaves) -> Leaves:
        with library.mode(arrays):
            return library.run(theirs, arrays)

    def linearize(arrays: Leaves) -> tuple[Any, Any, Any]:
        return _Linearization(operation, True)(arrays)

    operation = _Operation(function, compute, linearize, library=library, theirs=theirs, title=title, is_own=is_own)
    return operation


@dataclass
class _Linearization:
    """The linearization of an operation for a trace.

    If the arrays have no other trace, the library computes the value and keeps its residuals. Otherwise value and
    derivative are operations for the traces below, so the function runs twice.

    Attributes:
        operation: the function.
        backward: whether cotangents are pulled back, rather than tangents pushed forward.
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
        inside, outside = are_moving(leaves), are_moving(results)
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
        """Return the image of cotangents or tangents, from the library's residuals or by the derived function."""
        if kept is None or any(type(x) is Tensor for x in given):
            return self.operation.derived(derived, [*leaves, *given])
        with self.operation.library.mode(leaves):
            return kept(given)


class _Again:
    """A function of another library with replayed random numbers: the same as in its first run."""

    def __init__(self, operation: _Operation) -> None:
        self._states = RandomStates(operation.function)
        self._theirs, self.has_run_there = operation.library.pinned(operation.theirs)

    def has_run(self) -> None:
        """Keep only the states of generators that the first run has used."""
        self._states.keep_used()
        self.has_run_there()

    def __call__(self, arrays: list[Any]) -> list[Any]:
        with self._states.again():
            results: list[Any] = self._theirs(arrays)
        return results


def _conformed(direction: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a cotangent or tangent with the shape and dtype of its primal, as other libraries require."""
    direction = settled(direction)
    if direction.shape != shape:
        direction = np.broadcast_to(direction, shape)
    return conform(direction, shape, dtype)
