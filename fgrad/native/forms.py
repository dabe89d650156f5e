"""The form of arguments: what decides which program is for a call.

form = Form(function, static, args, keywords)
form.key, form.inputs               calls with the same key have the same program, which takes the inputs
form.outline.whole(inputs)          arguments and keywords again
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.overrides import refuse_labelled
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor
from fgrad.core.tree import flatten, unflatten
from fgrad.graphs.arguments import texts_of
from fgrad.graphs.equations import Name, kind_of, shown
from fgrad.graphs.integers import LARGEST
from fgrad.native.layouts import inside
from fgrad.native.static_arguments import Static
from fgrad.transforms.calls import select

_INPUT = object()
"""What stands for a leaf that goes into the program."""

_SIMPLE = {np.ndarray, np.float64, Tensor, float}
"""The types of arguments of the usual calls, which are no containers."""


class Form:
    """What decides which program is for a call.

    Attributes:
        key: calls with the same one have the same program.
        inputs: the leaves that go into the program.
        is_input: which they are.
        inside: what the function sees of containers, besides leaves.
        outline: what the others are.
    """

    def __init__(
        self, function: Callable[..., Any], static: tuple[Any, ...], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        self._leaves, self._treedef = flatten((args, keywords))
        if static in ((), None):
            kinds = [_kind(leaf) for leaf in self._leaves]
        else:
            fixed = _is_static(function, static, args, keywords)
            kinds = [None if is_fixed else _kind(leaf) for leaf, is_fixed in zip(self._leaves, fixed, strict=True)]
        self._is_simple = not keywords and all(type(x) in _SIMPLE for x in args)
        self.inside = () if self._is_simple else inside((args, keywords))
        self._fill(kinds)

    def _fill(self, kinds: list[Any]) -> None:
        pairs = list(zip(self._leaves, kinds, strict=True))
        self._kinds = kinds
        self.is_input = [kind is not None for kind in kinds]
        self.inputs = [leaf for leaf, kind in pairs if kind is not None]
        self.outline = _Outline(self._treedef, [leaf if kind is None else _INPUT for leaf, kind in pairs])
        self.key: Hashable = tuple(kinds)
        if not self._is_simple or None in kinds:
            fixed = tuple(Static(leaf) for leaf, kind in pairs if kind is None)
            self.key = self._treedef, self.inside, self.key, fixed

    def described(self, function: Callable[..., Any], names: Sequence[Name]) -> list[tuple[str, str]]:
        """Return what to call each leaf, and its form by the name of its input, or its value."""
        rest = iter(names)
        forms = [kind_of(next(rest)) if own else shown(x) for x, own in zip(self._leaves, self.is_input, strict=True)]
        return list(zip(texts_of(function, *unflatten(self._treedef, self._leaves)), forms, strict=True))

    def fixed(self) -> list[Any]:
        """Return what is part of the program: leaves, and what objects of registered classes are besides children."""
        metadata = [x.value for x in self.inside if type(x) is Static]
        return [*(x for x in self.outline.leaves if x is not _INPUT), *metadata]

    def with_integers_fixed(self) -> Form:
        """Return the form in which Python's integers are part of the program."""
        form = copy.copy(self)
        form._fill([None if kind is int else kind for kind in self._kinds])
        return form


@dataclass
class _Outline:
    """Arguments without those that go into the program: these are not kept.

    Attributes:
        treedef: how all of them are nested.
        leaves: `_INPUT` for those that go into it.
    """

    treedef: Any
    leaves: list[Any]

    def whole(self, inputs: Sequence[Any]) -> Any:
        """Return arguments and keywords with the given inputs."""
        rest = iter(inputs)
        return unflatten(self.treedef, [next(rest) if leaf is _INPUT else leaf for leaf in self.leaves])


def _is_static(
    function: Callable[..., Any], static: Any, args: tuple[Any, ...], keywords: dict[str, Any]
) -> list[bool]:
    """Return which leaves are part of the program because the user says so."""
    try:
        names = set(select(function, static, args, keywords)[0])
    except errors.ParameterError:
        inspect.signature(function).bind(*args, **keywords)  # what is missing is Python's to say
        raise
    fixed: list[bool] = []
    places: list[tuple[Any, Any]] = [*enumerate(args), *((name, keywords[name]) for name in sorted(keywords))]
    for place, tree in places:
        fixed += [place in names] * len(flatten(tree)[0])
    return fixed


def _kind(leaf: Any) -> Any:
    """Return what programs depend on, of a leaf that goes into them; None if it is part of the program itself."""
    kind = type(leaf)
    if kind is np.ndarray or kind is Tensor:
        return (leaf.shape, leaf.dtype) if leaf.dtype.kind in "biufc" else None
    if kind is float or kind is complex or (kind is int and abs(leaf) < LARGEST):
        return kind
    refuse_labelled(leaf)  # which could be written to later, and the program would not see it
    if kind in BOXES or not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype.kind not in "biufc":
        return None  # among others a variable, which is read when the program runs
    return leaf.shape, leaf.dtype
