"""State of variables: saved by the names of the variables, and restored by name.

In memory, state is stored by variable. Loaded state for a variable that has not been used yet is stored under its name,
in the same dict. Variables with equal names are distinguished by their order: `w`, `w_1`. A variable created without a
name has a default name with a number, counted throughout the process, so the state of such variables is restored by
position if necessary.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

import numpy as np

from fgrad import errors
from fgrad._locks import Lock
from fgrad.core.variable import Cell, Variable
from fgrad.errors.places import depth_of_user

T = TypeVar("T")

ByVariable = dict["Variable | str", T]

Fits = Callable[[Variable, Any], bool]
"""Returns whether state has the shapes that a variable needs."""


class KeptByVariable:
    """The base of what keeps state of variables: in `_slots`, for each variable a dict of arrays by name.

    A copy of a variable is another variable. So in a pickle, or a deep copy, the state is stored by name, until
    variables of these names are used: copies in the same pickle, or existing ones.
    """

    _slots: ByVariable[dict[str, Any]]

    def _keep_nothing(self) -> None:
        self._slots = {}
        self._lock = Lock()
        self._cells: dict[Any, Cell] = {}

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            kept = {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_cells")}
            return {**kept, "_slots": {name: dict(own) for name, own in by_name(self._slots).items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock(), _cells={})

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        with self._lock:
            slots = {key: dict(own) for key, own in self._slots.items()}
            twin.__dict__.update(self.__dict__, _slots=slots, _lock=Lock(), _cells={})
        return twin


def in_form_of(like: Any, loaded: Any, what: str) -> Any:
    """Return a loaded array in the dtype of another one, after a check that it has its shape."""
    if loaded.shape != like.shape or not np.can_cast(loaded.dtype, like.dtype, "same_kind"):
        raise errors.StateError(
            f"{what} needs shape {like.shape} and dtype {like.dtype}; in the loaded state it has {loaded.shape} and "
            f"{loaded.dtype}."
        )
    return loaded.astype(like.dtype)


def by_name(kept: Mapping[Variable | str, T]) -> dict[str, T]:
    """Return state by the names of its variables, made unique."""
    names = _unique_names(kept)
    return {names[key]: value for key, value in kept.items()}


def by_variable(saved: Mapping[str, T], variables: Iterable[Variable], fits: Fits) -> ByVariable[T]:
    """Return saved state by variable; state without a matching variable stays under its name."""
    found = {name: variable for variable, name in _matches(saved, [], list(variables), fits).items()}
    return {found.get(name, name): value for name, value in saved.items()}


def meet(kept: ByVariable[Any], variables: Iterable[Variable], fits: Fits) -> list[Variable]:
    """Assign waiting state to variables that are used for the first time; return these variables."""
    waiting = {key: value for key, value in kept.items() if isinstance(key, str)}
    if not waiting:
        return []
    known = [key for key in kept if isinstance(key, Variable)]
    new = [variable for variable in dict.fromkeys(variables) if variable not in kept]
    found = _matches(waiting, known, new, fits)
    if new and not found and len(waiting) == len(kept):
        raise errors.StateError(
            f"the loaded state belongs to variables named {sorted(waiting)}, and none of the variables to "
            f"update has one of these names: they are named {sorted(variable.name for variable in new)}.\n"
            "Create variables with the names, name=, that they had when the state was saved."
        )
    for variable, name in found.items():
        kept[variable] = kept.pop(name)
    return list(found)


def _matches(waiting: Mapping[str, Any], known: list[Variable], new: list[Variable], fits: Fits) -> dict[Variable, str]:
    """Return the names under which state is stored for new variables, in their order."""
    names = _unique_names([*known, *new])
    unnamed = [variable for variable in new if variable.name == f"Variable_{variable.number}"]
    places = [name for name in waiting if _UNNAMED.fullmatch(name)]
    if not all(variable.name in places for variable in unnamed):  # their numbers differ from those of the saved ones
        names.update((each, "") for each in unnamed)
        by_position = dict(zip(unnamed, places, strict=False))
        if len(unnamed) == len(places) and all(fits(each, waiting[name]) for each, name in by_position.items()):
            _tell(by_position)
            names.update(by_position.items())
    return {variable: names[variable] for variable in new if names[variable] in waiting}


def _tell(by_position: Mapping[Variable, str]) -> None:
    pairs = ", ".join(f"that of {name!r} to {variable.name!r}" for variable, name in by_position.items())
    warnings.warn(
        f"state was assigned to variables without names by position: {pairs}.\n"
        "Create them with names, fg.Variable(value, name=...), for a match in any order.",
        errors.StateWarning,
        stacklevel=depth_of_user(),
    )


_UNNAMED = re.compile(r"Variable_\d+")
"""Default names of variables that are created without one."""


def _unique_names(keys: Iterable[Variable | str]) -> dict[Variable | str, str]:
    """Return a unique name for each variable; names of waiting state are unchanged."""
    keys = list(keys)
    names: dict[Variable | str, str] = {key: key for key in keys if isinstance(key, str)}
    used = set(names.values())
    for key in keys:
        if isinstance(key, Variable) and key not in names:
            name, number = key.name, 0
            while name in used:
                number += 1
                name = f"{key.name}_{number}"
            used.add(name)
            names[key] = name
    return names
