"""State that belongs to variables: saved by their names, and given back to the variables of these names.

In memory, state is kept by variable. What was loaded for a variable that has not been met yet waits
under its name, in the same dict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from fgrad import errors
from fgrad.core.variable import Variable

T = TypeVar("T")

ByVariable = dict["Variable | str", T]


def by_name(kept: Mapping[Variable | str, T]) -> dict[str, T]:
    """Return state by the names of its variables.

    Raises:
        StateError: two variables have the same name.
    """
    _check_unique(list(kept))
    return {_name(key): value for key, value in kept.items()}


def by_variable(saved: Mapping[str, T], variables: Iterable[Variable]) -> ByVariable[T]:
    """Return saved state by variable; what belongs to none of them stays under its name.

    Raises:
        StateError: two variables have the same name, and the state holds it.
    """
    found = {variable.name: variable for variable in unique(variables, saved)}
    return {found.get(name, name): value for name, value in saved.items()}


def meet(kept: ByVariable[Any], variables: Iterable[Variable]) -> list[Variable]:
    """Give variables that are used for the first time the state that waits under their names; return them.

    Raises:
        StateError: two of them have the same name, or state waits, and for none of the variables.
    """
    waiting = {key for key in kept if isinstance(key, str)}
    if not waiting:
        return []
    new = [variable for variable in variables if variable not in kept]
    found = unique(new, waiting)
    if new and not found and len(waiting) == len(kept):
        raise errors.StateError(
            f"the state that was loaded belongs to variables named {sorted(waiting)}, and none of the variables to "
            f"update has one of these names: theirs are {sorted(variable.name for variable in new)}.\n"
            "Create variables with the name= that they had when the state was saved."
        )
    for variable in found:
        kept[variable] = kept.pop(variable.name)
    return found


def unique(variables: Iterable[Variable], names: Iterable[str]) -> list[Variable]:
    """Return the variables that have one of the names, each once.

    Raises:
        StateError: two of them have the same name.
    """
    wanted = set(names)
    found = list({variable: None for variable in variables if variable.name in wanted})
    _check_unique(found)
    return found


def _check_unique(keys: Iterable[Variable | str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if _name(key) in seen:
            raise errors.StateError(
                f"two variables have the name {_name(key)!r}, and state is saved and loaded by name.\n"
                "Create them with different names, Variable(..., name=...)."
            )
        seen.add(_name(key))


def _name(key: Variable | str) -> str:
    return key if isinstance(key, str) else key.name
