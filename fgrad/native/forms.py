"""The form of arguments, which determines the program of a call.

form = Form(function, static, args, keywords)
form.key, form.inputs               the key of the program, and its inputs
form.outline.whole(inputs)          arguments and keywords, rebuilt from inputs
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
from fgrad.core.views import layout_of_one
from fgrad.graphs.arguments import texts_of
from fgrad.graphs.equations import Name, kind_of, shown
from fgrad.graphs.integers import LARGEST
from fgrad.native.layouts import NUMBER, inside, shape_in_memory
from fgrad.native.static_arguments import Static
from fgrad.transforms.calls import select

_INPUT = object()
"""The placeholder of a leaf that is an input."""

_SIMPLE = {np.ndarray, np.float64, Tensor, float}
"""The types of common arguments that are not containers."""


class Form:
    """The form of the arguments of a call: the structure, which leaves are inputs, and the other values.

    Attributes:
        key: the key of the program; calls with equal keys have the same program.
        inputs: the leaves that are inputs of the program.
        is_input: for each leaf, whether it is an input.
        inside: the properties of containers that the function can see, besides their leaves.
        outline: the arguments without their inputs.
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
        """Return a description of each leaf, and the shape and dtype of its input, or its value."""
        rest = iter(names)
        forms = [kind_of(next(rest)) if own else shown(x) for x, own in zip(self._leaves, self.is_input, strict=True)]
        return list(zip(texts_of(function, *unflatten(self._treedef, self._leaves)), forms, strict=True))

    def fixed(self) -> list[Any]:
        """Return the constants of the program: static leaves, and the metadata of objects of registered classes."""
        metadata = [x.value for x in self.inside if type(x) is Static]
        return [*(x for x in self.outline.leaves if x is not _INPUT), *metadata]

    def with_integers_fixed(self) -> Form:
        """Return the form in which Python integers are constants of the program."""
        form = copy.copy(self)
        form._fill([None if kind is int else kind for kind in self._kinds])
        return form


@dataclass
class _Outline:
    """Arguments without their inputs, so that these are not kept alive.

    Attributes:
        treedef: the structure of the arguments.
        leaves: the leaves, `_INPUT` in place of inputs.
    """

    treedef: Any
    leaves: list[Any]

    def whole(self, inputs: Sequence[Any]) -> Any:
        """Return the arguments and keywords with given inputs."""
        rest = iter(inputs)
        return unflatten(self.treedef, [next(rest) if leaf is _INPUT else leaf for leaf in self.leaves])


def _is_static(
    function: Callable[..., Any], static: Any, args: tuple[Any, ...], keywords: dict[str, Any]
) -> list[bool]:
    """Return which leaves belong to arguments that the user declared static."""
    try:
        names = set(select(function, static, args, keywords)[0])
    except errors.ParameterError:
        inspect.signature(function).bind(*args, **keywords)  # Python's error, if an argument is missing
        raise
    fixed: list[bool] = []
    places: list[tuple[Any, Any]] = [*enumerate(args), *((name, keywords[name]) for name in sorted(keywords))]
    for place, tree in places:
        fixed += [place in names] * len(flatten(tree)[0])
    return fixed


def _kind(leaf: Any) -> Any:
    """Return the part of the key for a leaf, as `form_of` does, or a Python type; None if the leaf is a constant."""
    kind = type(leaf)
    if kind is np.ndarray or kind is Tensor:
        if leaf.dtype.kind not in "biufc":
            return None
        is_number = kind is Tensor and not leaf.shape
        return (NUMBER if is_number else shape_in_memory(layout_of_one(leaf))), leaf.dtype
    if kind is float or kind is complex or (kind is int and abs(leaf) < LARGEST):
        return kind
    refuse_labelled(leaf)  # later writes to it would not affect the program
    if kind in BOXES or not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype.kind not in "biufc":
        return None  # for example a variable, which is read when the program runs
    return shape_in_memory(leaf) if isinstance(leaf, np.ndarray) else NUMBER, leaf.dtype
