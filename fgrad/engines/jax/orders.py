"""Rules for sorting, searching and interpolating."""

from __future__ import annotations

from typing import Any

from fgrad.engines.jax.library import cast, jnp
from fgrad.engines.jax.table import lowers
from fgrad.typing import Array


@lowers("stable_order")
def stable_order(x: Array, axis: int, descending: bool = False) -> Any:
    """Return the indices that sort along an axis; equal elements keep their order."""
    return jnp.argsort(x, axis, stable=True, descending=descending)


lowers("argsorted")(lambda x, axis, **how: jnp.argsort(x, axis, stable=True))
lowers("lexsort")(lambda *keys, axis: jnp.lexsort(keys, axis))


@lowers("rank_places")
def rank_places(x: Array, ranks: Array) -> Any:
    """Return the positions along the last axis of the elements with given ranks, in the order of a stable sort."""
    order = jnp.argsort(x, -1, stable=True)
    lead = jnp.broadcast_shapes(x.shape[:-1], ranks.shape[:-1])
    order, ranks = (jnp.broadcast_to(each, (*lead, each.shape[-1])) for each in (order, ranks))
    return jnp.take_along_axis(order, ranks, -1)


@lowers("isin")
def isin(element: object, test_elements: object, invert: bool = False, **how: object) -> Any:
    """Return which elements are contained in another array."""
    return jnp.isin(element, cast(test_elements, jnp.result_type(element, test_elements)), invert=invert)


@lowers("interp")
def interpolated(x: Array, fp: Array, xp: Array) -> Any:
    """Return the values of piecewise linear interpolation.

    Raises:
        NotImplementedError: there are several tables.
    """
    if fp.ndim != 1 or xp.ndim != 1:
        raise NotImplementedError("interpolation in several tables is not lowered")
    return jnp.interp(x, xp, fp)
