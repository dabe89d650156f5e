"""The arguments of a recorded call: inputs of the graph, and static arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.overrides import refuse_labelled
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, box, strip_ended
from fgrad.core.tree import flatten, outline_of, paths, unflatten
from fgrad.core.views import like_argument
from fgrad.graphs.equations import Name, in_pythons_way, kind_of
from fgrad.transforms.calls import Place, name_of, place_name
from fgrad.transforms.linearization import differentiable
from fgrad.typing import Operand


class Arguments:
    """The arguments of the recorded call: inputs, and the values of static ones.

    Args:
        function: the user's function.
        args, keywords: the recorded call.
        integers: whether Python integers are inputs, too.
    """

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], integers: bool = False
    ) -> None:
        self.function = function
        leaves, self.treedef = flatten((args, keywords))
        self.values = [np.int64(leaf) if integers and type(leaf) is int else _array_of(leaf) for leaf in leaves]
        self.leaves: list[Any] = [
            leaf if value is None else Name(value, is_weak=type(leaf) in (int, float, complex))
            for leaf, value in zip(leaves, self.values, strict=True)
        ]
        places = _places(args, keywords)
        self.labels = _labels(places)
        self._treedefs = {place: flatten(tree)[1] for place, tree in places.items()}

    def texts(self) -> list[str]:
        """Return the printed text of each leaf, such as `p['w']`."""
        return _texts(self.function, self.labels)

    def take_names(self, leaves: Iterable[Any]) -> None:
        """Use the names of another recording of the same call, whose leaves these are."""
        pairs = zip(self.leaves, leaves, strict=True)
        self.leaves = [other if type(own) is Name and type(other) is Name else own for own, other in pairs]

    def traced(self, trace: Any) -> Any:
        """Return the call with tensors of the trace for the inputs; the examples are released."""
        pairs = list(zip(self.leaves, self.values, strict=True))
        trace.given.update((name, value) for name, value in pairs if value is not None)
        tensors = [leaf if value is None else like_argument(box(value, trace, leaf), value) for leaf, value in pairs]
        traced = unflatten(self.treedef, tensors)
        self.values = []
        return traced

    def bind(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[Name, Any]:
        """Return the value of each input in another call.

        Raises:
            GraphInputError: the call differs in structure, shapes, dtypes or static values.
        """
        leaves, treedef = flatten((args, keywords))
        if treedef != self.treedef:
            raise errors.GraphInputError(self._structures(args, keywords))
        bound = {}
        for recorded, leaf, label in zip(self.leaves, leaves, self.labels, strict=True):
            if type(recorded) is Name:
                bound[recorded] = self._fitting(recorded, leaf, label)
            elif not _same(recorded, leaf):
                raise errors.GraphInputError(
                    f"{self._argument(label)} is {leaf!r}, and the graph was recorded with {recorded!r}, which is "
                    "a static argument.\nRecord again, or record with an array, np.asarray(n), to have an input."
                )
        return bound

    def _fitting(self, name: Name, leaf: Operand, label: tuple[Place, str]) -> Any:
        if type(leaf) in (int, float, complex) and np.result_type(name.dtype, leaf) == name.dtype:
            leaf = np.asarray(leaf, name.dtype)[()]
        value = _array_of(strip_ended(leaf))
        if name.is_weak and value is not None and kind_of(value) == kind_of(name):
            return in_pythons_way(value)
        if value is None:
            problem = f"is {leaf!r}, of type {type(leaf).__name__}", f"with an array, {kind_of(name)}"
        elif value.shape != name.shape:
            problem = f"has shape {value.shape}", f"with shape {name.shape}"
        elif value.dtype != name.dtype:
            problem = f"has dtype {value.dtype}", f"with dtype {name.dtype}"
        else:
            return value
        raise errors.GraphInputError(
            f"{self._argument(label)} {problem[0]}, and the graph was recorded {problem[1]}.\n"
            f"Record it for these arguments, fg.trace({name_of(self.function)})(...), or convert the argument."
        )

    def _argument(self, label: tuple[Place, str]) -> str:
        return f"graph of {name_of(self.function)}: the argument {place_name(self.function, label[0])}{label[1]}"

    def _structures(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
        """Return how a call differs in structure from the recorded one."""
        places = _places(args, keywords)
        if places.keys() != self._treedefs.keys():
            calls = [_outline(each) for each in (places, self._treedefs)]
            return (
                f"graph of {name_of(self.function)}: it was called with {calls[0]}, but recorded with {calls[1]}.\n"
                "Pass the arguments as in the recorded call, by position or by name."
            )
        differing = next(place for place, tree in places.items() if flatten(tree)[1] != self._treedefs[place])
        found, known = flatten(places[differing])[1], self._treedefs[differing]
        return (
            f"{self._argument((differing, ''))} has the structure {outline_of(found)}, and the graph was recorded with "
            f"{outline_of(known)}."
        )


def texts_of(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> list[str]:
    """Return the text of each leaf of a call, such as `p['w']`."""
    return _texts(function, _labels(_places(args, keywords)))


def _labels(places: Mapping[Place, Any]) -> list[tuple[Place, str]]:
    return [(place, path) for place, tree in places.items() for path in paths(tree)]


def _texts(function: Callable[..., Any], labels: Iterable[tuple[Place, str]]) -> list[str]:
    names = [(place_name(function, place), path) for place, path in labels]
    return [(name[1:-1] if name[0] == "'" else f"argument {name}") + path for name, path in names]


def _array_of(leaf: Any) -> Any:
    """Return a leaf as the array or tensor of an input, or None if it is static."""
    if type(leaf) in BOXES and type(leaf) is not Tensor:
        return None  # a variable, which is read when the graph runs
    refuse_labelled(leaf)
    value = differentiable(leaf)
    if value is None and (isinstance(leaf, (np.ndarray, np.generic)) or type(leaf) is Tensor):
        value = strip_ended(leaf)
        return value if value.dtype.kind in "biu" else None
    return value


def _places(args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[Place, Any]:
    """Return the arguments by place, in the order of `flatten`."""
    return {**dict(enumerate(args)), **{name: keywords[name] for name in sorted(keywords)}}


def _outline(places: Collection[Place]) -> str:
    count = sum(isinstance(place, int) for place in places)
    named = [place for place in places if isinstance(place, str)]
    text = f"{count} positional argument{'s' * (count != 1)}"
    return f"{text} and the keyword{'s' * (len(named) != 1)} {', '.join(named)}" if named else text


def _same(recorded: Any, leaf: Any) -> bool:
    """Return whether a static argument equals the recorded one."""
    if recorded is leaf or type(recorded) is not type(leaf) or type(leaf) in BOXES:
        return recorded is leaf
    return bool(np.array_equal(recorded, leaf)) if isinstance(leaf, np.ndarray) else bool(recorded == leaf)
