"""Rules for reading and writing by index, and for moving, slicing and joining.

NumPy raises for an index out of range. In JAX such an index reads NaN, or writes nothing; the checks below report it,
and the results of the run are discarded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.views import VIEWS
from fgrad.engines.jax.library import cast, is_known, jnp
from fgrad.engines.jax.table import lowers, refuses
from fgrad.ops.indexing import ARRAY
from fgrad.typing import Array

Template = tuple[Any, ...]


def key_of(template: Template, arrays: Any) -> tuple[Any, ...]:
    """Return a key with its arrays inserted."""
    rest = iter(arrays)
    return tuple(next(rest) if item is ARRAY else item for item in template)


@lowers("index")
def index(x: Any, *arrays: Any, template: Template) -> Any:
    """Return the elements at a key."""
    key = key_of(template, arrays)
    x = jnp.asarray(x)
    return x[key] if all(map(is_known, arrays)) else x.at[key].get(mode="fill")


@lowers("scatter")
def scattered(values: Any, *arrays: Any, template: Template, shape: tuple[int, ...]) -> Any:
    """Return zeros with values added at a key."""
    place = jnp.zeros(shape, values.dtype).at[key_of(template, arrays)]
    return place.set(values) if all(x.dtype.kind == "b" for x in arrays) else place.add(values, mode="drop")


@lowers("replace")
def replaced(x: Array, value: object, *arrays: Any, template: Template, path: Any = (), lead: int = 0) -> Any:
    """Return an array with a value at a key of one of its views; for repeated indices the last value counts."""
    moves = [step for step in path if step[0].name not in _PARTS]
    places = np.arange(x.size).reshape(x.shape)
    for primitive, metadata, _ in moves:
        places = VIEWS[primitive](places, lead, **metadata)
    chosen = index(places, *arrays, template=template)
    flat = jnp.asarray(x).reshape(-1)
    values = jnp.broadcast_to(value, chosen.shape)
    if len(moves) < len(path):
        values = _with_part(flat[chosen], values, [step[0].name for step in path if step[0].name in _PARTS])
    values, chosen = cast(values, x.dtype).reshape(-1), chosen.reshape(-1)
    if all(each.dtype.kind == "b" for each in arrays):  # masks select no element twice
        return flat.at[chosen].set(values, mode="drop").reshape(x.shape)
    order = jnp.full(x.size, -1).at[chosen].max(jnp.arange(chosen.size), mode="drop")
    last = values[jnp.maximum(order, 0)] if chosen.size else flat
    return jnp.where(order < 0, flat, last).reshape(x.shape)


_PARTS = ("real", "imag")


def _with_part(numbers: Array, value: Any, names: list[str]) -> Any:
    """Return complex numbers with a new real or imaginary part."""
    if not jnp.iscomplexobj(numbers):
        return value
    return value + 1j * numbers.imag if names[0] == "real" else numbers.real + 1j * value


def _beyond(shape: tuple[int, ...], arrays: Any, template: Template) -> Any:
    """Return where the arrays of a key are out of range; None if they cannot be."""
    named = sum(item is not None and item is not Ellipsis for item in template)
    masks = sum(x.ndim - 1 for x in arrays if x.dtype.kind == "b")
    rest, axis, found = iter(arrays), 0, None
    for item in template:
        if item is Ellipsis:
            axis += len(shape) - named - masks
        elif item is ARRAY:
            array = next(rest)
            if not is_known(array):
                size = shape[axis]
                wide = cast(array, np.int64)  # unsigned integers have no -size
                wrong = jnp.any((wide < -size) | (wide >= size))
                found = wrong if found is None else found | wrong
            axis += array.ndim if array.dtype.kind == "b" else 1
        elif item is not None:
            axis += 1
    return found


refuses("index")(lambda ans, x, *arrays, template: _beyond(x.shape, arrays, template))
refuses("scatter")(lambda ans, values, *arrays, template, shape: _beyond(shape, arrays, template))


@refuses("replace")
def writes_beyond(
    ans: Array, x: Array, value: object, *arrays: object, template: Template, path: Any = (), lead: int = 0
) -> Any:
    """Return where a key is out of the range of the view."""
    view = np.broadcast_to(0, x.shape)
    for primitive, metadata, _ in path:
        view = VIEWS[primitive](view, lead, **metadata)
    return _beyond(view.shape, arrays, template)


# Moving, slicing and joining

lowers("concatenate")(lambda *arrays, axis: jnp.concatenate(arrays, axis))
lowers("stack")(lambda *arrays, axis: jnp.stack(arrays, axis))
lowers("split")(lambda x, sections, axis: tuple(jnp.split(x, sections, axis)))
lowers("diagonal")(lambda x, offset: jnp.diagonal(x, offset, -2, -1))


@lowers("diagonal_matrix")
def diagonal_matrix(values: Array, shape: tuple[int, int], offset: int) -> Any:
    """Return zeros with values on a diagonal of the last two axes."""
    rows = np.arange(values.shape[-1]) + max(-offset, 0)
    return jnp.zeros((*values.shape[:-1], *shape), values.dtype).at[..., rows, rows + offset].set(values)


@lowers("sliding_windows")
def sliding_windows(x: Array, sizes: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """Return all windows of the given sizes along axes, in new axes at the end."""
    ndim = x.ndim
    for size, axis in zip(sizes, axes, strict=True):
        axis %= ndim
        places = np.arange(x.shape[axis] - size + 1)[:, None] + np.arange(size)
        x = jnp.moveaxis(jnp.take(x, places, axis), axis + 1, -1)
    return x


@lowers("by_diagonals")
def by_diagonals(values: Array, columns: int) -> Any:
    """Return matrices whose diagonals, from the lower left on, are constant with the given values."""
    return sliding_windows(values, (columns,), (values.ndim - 1,))[..., ::-1, :]


@lowers("central_difference")
def central_difference(x: Array, axis: int, edge: int, reverse: bool) -> Any:
    """Return each element's next neighbour minus the previous one; beyond the ends, `edge` times the end element."""
    moved = jnp.moveaxis(x, axis, 0)
    sign = -1 if reverse else 1
    first, last = moved[1:2] - edge * moved[:1], edge * moved[-1:] - moved[-2:-1]
    return jnp.moveaxis(sign * jnp.concatenate([first, moved[2:] - moved[:-2], last]), 0, axis)


@lowers("permute")
def permuted(x: Array, order: object, axis: int) -> Any:
    """Return the elements along an axis in the order of a permutation."""
    return jnp.take_along_axis(x, order, axis)


@lowers("unpermute")
def unpermuted(x: Array, order: object, axis: int) -> Any:
    """Undo `permuted`."""
    return jnp.take_along_axis(x, jnp.argsort(order, axis), axis)
