"""Programs as arrays of integers, for a vectorized search for loops.

Listing(block)               the kind of each equation, and the origin of its inputs
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.graphs.equations import PYTHONS, Equation, Name
from fgrad.graphs.graph import Block
from fgrad.transforms.metadata_keys import frozen, identity

_KEYED = {"index", "scatter", "replace"}
"""The primitives whose templates may hold integers that change from iteration to iteration."""
_LARGEST_COMPARED = 1 << 16
"""Size in bytes up to which constants are compared with each other."""


class Listing:
    """The equations of a block, as arrays.

    Values are numbered in the order of the equations that compute them. A value from outside (an input, a constant or
    an inline constant) has a negative number; equal constants have equal numbers.

    Attributes:
        equations: the program.
        kinds: a number for each equation; equal for equations that differ only in their inputs and in `places`.
        sources: the numbers of all inputs, concatenated over the equations.
        first_source: the start of each equation in `sources`, and the end.
        first_value: the number of the first output of each equation, and the end.
        maker: the equation that computes each value.
        names: the name of each value.
        outside: the values of -1, -2, ...: a name, or an inline constant.
        places: the integers in the templates of keys, concatenated over the equations: integer items, and the start and
            stop of slices.
        first_place: the start of each equation in `places`, and the end.
        numbers: the number of each name.
        constants: the arrays of constant names.
    """

    def __init__(self, block: Block) -> None:
        self.equations = block.equations
        self.constants = block.constants
        self.outside: list[Any] = []
        self.numbers: dict[Name, int] = {}
        self.names: list[Name] = []
        self._forms: dict[Any, int] = {}
        self._form_of: dict[int, int] = {}
        self._met: dict[Any, int] = {}
        for name in block.inputs:
            self.numbers[name] = self._added(name, self._form(name.shape, name.dtype, name.is_weak))
        for name, value in block.constants.items():
            self.numbers[name] = self._constant(name, value)
        self._list()

    def _list(self) -> None:
        """Process the equations column by column, since there may be hundreds of thousands."""
        outputs = [each.outputs for each in self.equations]
        self.names = list(itertools.chain.from_iterable(outputs))
        self.numbers.update(zip(self.names, itertools.count()))
        made = self._ids([(name.shape, name.dtype, name.is_weak) for name in self.names])
        self._form_of.update(enumerate(made))
        inputs = [each.inputs for each in self.equations]
        numbers = self.numbers
        sources = [numbers[x] if type(x) is Name else self._literal(x) for each in inputs for x in each]
        taken = list(map(self._form_of.__getitem__, sources))
        first_source, first_value = (
            list(itertools.accumulate(map(len, each), initial=0)) for each in (inputs, outputs)
        )
        places: list[int] = []
        first_place, keys = [0], []
        for number, equation in enumerate(self.equations):
            # The part of the equation that may be equal in other iterations.
            own = taken[first_source[number] : first_source[number + 1]]
            new = made[first_value[number] : first_value[number + 1]]
            keys.append((_operation(equation, places), equation.quiet, *own, None, *new))
            first_place.append(len(places))
        self.kinds, self.sources, self.places = np.array(self._ids(keys)), np.array(sources, int), np.array(places, int)
        self.first_source, self.first_place = np.array(first_source), np.array(first_place)
        self.first_value = np.array(first_value)
        self.maker = np.repeat(np.arange(len(keys)), np.diff(self.first_value))

    def _ids(self, keys: Sequence[Any]) -> list[int]:
        """Return a number for each key; equal keys have the same."""
        known = self._forms
        return [known[key] if key in known else self._form(*key) for key in keys]

    def _form(self, *form: object) -> int:
        return self._forms.setdefault(form, len(self._forms))

    def _added(self, each: object, form: int) -> int:
        self.outside.append(each)
        number = -len(self.outside)
        self._form_of[number] = form
        return number

    def _constant(self, name: Name, value: object) -> int:
        form = self._form(name.shape, name.dtype, name.is_weak)
        if type(value) is not np.ndarray or value.nbytes > _LARGEST_COMPARED or value.dtype.kind == "O":
            return self._added(name, form)
        key = (form, value.tobytes())
        if key not in self._met:
            self._met[key] = self._added(name, form)
        return self._met[key]

    def _literal(self, value: object) -> int:
        """Return the number of an inline constant."""
        kind = type(value)
        key: Any = (kind, repr(value)) if kind in PYTHONS else (kind, frozen(value))
        number = self._met.get(key)
        if number is None:
            self._met[key] = number = self._added(value, self._form_of_literal(value))
        return number

    def _form_of_literal(self, value: object) -> int:
        if type(value) in PYTHONS or isinstance(value, (np.generic, np.ndarray)):
            array = np.asarray(value)
            if array.dtype.kind in "biufc":
                return self._form(array.shape, array.dtype, type(value) in PYTHONS)
        return self._form(type(value), frozen(value))  # must be the same in all iterations


def _operation(equation: Equation, places: list[int]) -> Any:
    """Return a key of an equation's operation; the integers in its template are appended to `places`."""
    primitive, metadata = equation.primitive, equation.metadata
    if equation.direct:  # each call has a separate primitive
        return identity(primitive.implementation), frozen(metadata)
    if not metadata:
        return id(primitive)
    return id(primitive), _keyed(metadata, places) if primitive.name in _KEYED else frozen(metadata)


def _keyed(metadata: Mapping[str, Any], places: list[int]) -> Any:
    """Return a key of metadata; the integers in its template are appended to `places`."""
    items: list[Any] = []
    for item in template_of(metadata):
        count = places_in(item)
        if not count:
            items.append(frozen(item))
        elif count == 1:
            places.append(int(item))
            items.append(None)
        else:
            places += item.start, item.stop
            items.append((slice, item.step))
    if len(metadata) == 1:
        return tuple(items)
    rest = {key: x for key, x in metadata.items() if key != "template"}
    if _writes_to_a_part(metadata):
        ((primitive, _, shape),) = rest.pop("path")
        rest["path"] = id(primitive), shape
    return tuple(items), frozen(rest)


def template_of(metadata: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the template of a key: of the view, if all of that is written to."""
    return metadata["path"][0][1]["template"] if _writes_to_a_part(metadata) else metadata["template"]  # type: ignore[no-any-return]


def _writes_to_a_part(metadata: Mapping[str, Any]) -> bool:
    """Return whether the metadata is that of a write to a whole view `x[key]`."""
    path = metadata.get("path", ())
    return len(path) == 1 and path[0][0].name == "index" and metadata["template"] == (Ellipsis,) and len(metadata) == 2


def places_in(item: Any) -> int:
    """Return the number of integers of a template item that count as places."""
    kind = type(item)
    if kind is slice:
        return 2 if type(item.start) is int and type(item.stop) is int else 0
    return 1 if kind is int or isinstance(item, np.integer) else 0
