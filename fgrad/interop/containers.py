"""User-defined containers: dataclasses whose fields every transform traverses.

@register_dataclass                     every init field holds children
@register_dataclass(static=("name",))   except those that are named
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from fgrad import errors
from fgrad.core.tree import register_pytree_node

C = TypeVar("C", bound=type)


@overload
def register_dataclass(cls: C, static: Sequence[str] = ()) -> C: ...
@overload
def register_dataclass(cls: None = None, static: Sequence[str] = ()) -> Callable[[C], C]: ...
def register_dataclass(cls: Any = None, static: Sequence[str] = ()) -> Any:
    """Register a dataclass as a container, like a dict of its fields. Usable as a decorator with or without arguments.

    Instances with other leaves, such as traced tensors, are made without calling the class: fields are set, `__init__`
    and `__post_init__` do not run again, and attributes that are not fields are not kept. A class may be registered
    again, as by a notebook cell that runs again.

    Args:
        cls: a dataclass; its subclasses must be registered separately.
        static: names of fields without anything to differentiate, such as sizes and names. They must
            compare with `==`.

    Returns:
        The class.

    Raises:
        ParameterError: a ValueError; `static` names an unknown field.
        StructureError: a TypeError; the class is not a dataclass, or has a field with `init=False`, which would
            not be updated with the fields that it is computed from.
        ValueError: the class is one of fgrad's, and a container already.

    Example:
        >>> import dataclasses, fgrad as fg
        >>> @register_dataclass(static=("unit",))
        ... @dataclasses.dataclass
        ... class Line:
        ...     slope: float
        ...     start: float
        ...     unit: str = "m"
        >>> fg.grad(lambda line: line.slope * 3.0 + line.start)(Line(2.0, 1.0))
        Line(slope=Tensor(3.), start=Tensor(1.), unit='m')
    """
    if cls is None:
        return lambda cls: register_dataclass(cls, static)
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        raise errors.StructureError(
            f"register_dataclass takes a dataclass, but the argument is {cls!r}.\n"
            "Write @dataclasses.dataclass below it; for other classes use fg.register_pytree_node."
        )
    _check(cls, static)
    names = [field.name for field in dataclasses.fields(cls)]
    children = tuple(name for name in names if name not in static)
    kept = tuple(name for name in names if name in static)

    def flatten_node(node: object) -> Any:
        values = [getattr(node, name) for name in children]
        return values, tuple([getattr(node, name) for name in kept]), children

    def unflatten_node(metadata: Any, values: Any) -> Any:
        node = object.__new__(cls)
        for name, value in zip(children + kept, (*values, *metadata), strict=True):
            object.__setattr__(node, name, value)  # also for frozen classes
        return node

    register_pytree_node(cls, flatten_node, unflatten_node)
    return cls


def _check(cls: Any, static: Sequence[str]) -> None:
    """Reject unknown fields, and fields that are computed from others."""
    if isinstance(static, str):
        raise errors.ParameterError(f"static must be a list or tuple of names, ({static!r},) in place of {static!r}.")
    fields = dataclasses.fields(cls)
    unknown = [name for name in static if name not in {field.name for field in fields}]
    if unknown:
        listed = ", ".join(field.name for field in fields)
        raise errors.ParameterError(f"{cls.__name__} has no field {unknown[0]!r}; its fields are {listed}.")
    computed = [field.name for field in fields if not field.init and field.name not in static]
    if computed:
        raise errors.StructureError(
            f"{cls.__name__} has a field {computed[0]!r} with init=False, which would not follow the fields that it is "
            "computed from.\nMake it a property, or name it in static if it does not depend on them."
        )
