"""Products with Jacobians, rules of primitives, and vector spaces.

make_vjp(fun, x)         the pullback and the value
make_jvp(fun, x)         a function of a tangent, which returns the value and its tangent
VJPNode, JVPNode         the nodes that `tracer.trace` creates
defvjp, defjvp, ...      see `primitives`; `vspace`, `VSpace`: see `vspaces`
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad as fg
from fgrad.compat.autograd.boxes import as_array
from fgrad.compat.autograd.calls import primitive_jvps, primitive_vjps
from fgrad.compat.autograd.primitives import (
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    deflinear,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    primitive,
)
from fgrad.compat.autograd.sequences import subvals, toposort
from fgrad.compat.autograd.sparse import SparseObject
from fgrad.compat.autograd.tracer import Box, Node, getval, isbox
from fgrad.compat.autograd.values import (
    as_gradients,
    as_point,
    conjugate,
    fitted,
    is_complex,
    is_number,
    mapped,
    plain,
    with_boxes,
    zeros_like,
)
from fgrad.compat.autograd.vspaces import VSpace, vspace
from fgrad.core.foreign import OBJECT
from fgrad.errors import ConcretizationError
from fgrad.typing import Array

__all__ = [
    "Box", "JVPNode", "Node", "SparseObject", "VJPNode", "VSpace", "backward_pass", "def_linear", "defjvp",
    "defjvp_argnum", "defjvp_argnums", "deflinear", "defvjp", "defvjp_argnum", "defvjp_argnums", "getval", "isbox",
    "make_jvp", "make_vjp", "primitive", "primitive_jvps", "primitive_vjps", "vspace",
]  # fmt: skip

Linear = Callable[[Any], Any]


def make_vjp(fun: Callable[..., Any], x: object) -> tuple[Linear, Any]:
    """Return `(vjp, value)` of a function of one argument at a point; `vjp(g)` is g J, without conjugation.

    Args:
        fun: takes the argument; returns numbers, arrays or containers of them.
        x: a number, an array or a container of them.

    Example:
        >>> pullback, value = make_vjp(lambda x: 1j * x, 2.0 + 0j)
        >>> value, pullback(1.0)
        (np.complex128(2j), np.complex128(1j))
    """
    value, pullback = fg.vjp(with_boxes(fun), as_point(x))
    value = plain(value)

    def linear(g: object) -> Any:
        return as_gradients(pullback(conjugate(mapped(_fitted, g, value)))[0], x)

    def vjp(g: object) -> Any:
        if _is_alike(g, value):  # common case
            return as_gradients(pullback(g)[0], x)
        if not any(fg.tree_leaves(mapped(_is_beyond, value, g))):
            return linear(g)
        # A complex cotangent of a real result: the pullback is linear over complex numbers, too.
        real = mapped(lambda y, t: np.real(t) if _is_beyond(y, t) else t, value, g)
        imaginary = mapped(lambda y, t: np.imag(t) if _is_beyond(y, t) else zeros_like(y), value, g)
        return mapped(lambda a, b: a + 1j * b, linear(real), linear(imaginary))

    return vjp, value


def _is_alike(g: Any, value: Any) -> bool:
    """Return whether a cotangent is a real array of the shape and dtype of its result."""
    kind = type(g)
    if kind is not type(value) or (kind is not np.ndarray and kind is not np.float64):
        return False
    return g.dtype is value.dtype and g.dtype.kind == "f" and g.shape == value.shape


def _fitted(g: object, value: object) -> Any:
    return fitted(g, value) if is_number(value) else as_array(g)


def _is_beyond(value: Any, g: Any) -> bool:
    """Return whether a cotangent is complex, but its result is real."""
    return is_complex(g) and not is_complex(value)


def make_jvp(fun: Callable[..., Any], x: object) -> Callable[[Any], tuple[Any, Any]]:
    """Return a function of a tangent, which runs a function of one argument, and returns its value and tangent.

    Example:
        >>> make_jvp(lambda x: x**2, 3.0)(1.0)
        (np.float64(9.0), np.float64(6.0))
    """
    point = as_point(x)

    def jvp(tangent: object) -> tuple[Any, Any]:
        directions = mapped(lambda x, t: _tangent(t, x), point, tangent)
        value, moved = fg.jvp(with_boxes(fun), (point,), (directions,))
        return plain(value), plain(moved)

    return jvp


def _tangent(tangent: object, point: object) -> Any:
    has_tangent = is_number(point) or getattr(point, "dtype", None) is OBJECT
    return fitted(tangent, point) if has_tangent else point


def pullback_of_batch(pullback: Linear, units: Any) -> Any:
    """Return the pullbacks of cotangents along a first axis, one by one if a rule needs their values."""
    if len(units) > 1:
        with contextlib.suppress(ConcretizationError, NotImplementedError):
            return plain(fg.vmap(pullback)(units))
    rows = [pullback(unit) for unit in units]
    return mapped(lambda *parts: np.stack(parts), *rows)


class VJPNode(Node):
    """The node of an operation for `trace` in reverse mode.

    Attributes:
        parents: the nodes of the traced arguments.
        vjp: maps the cotangent of the result to those of these arguments.
    """

    def __init__(
        self,
        value: Array | float,
        fun: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parent_argnums: tuple[int, ...],
        parents: tuple[Any, ...],
    ) -> None:
        self.parents = parents
        run, active = _of_active(fun, args, kwargs, parent_argnums)
        self.vjp = make_vjp(run, active)[0]

    def initialize_root(self) -> None:
        self.parents = ()
        self.vjp = _no_cotangents


def _no_cotangents(g: Array) -> tuple[()]:
    return ()


def _of_active(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], argnums: tuple[int, ...]
) -> tuple[Any, tuple[Any, ...]]:
    """Return an operation as a function of a tuple of its traced arguments, and these."""

    def run(active: tuple[Any, ...]) -> Any:
        return fun(*subvals(args, zip(argnums, active, strict=True)), **kwargs)

    return run, tuple(args[argnum] for argnum in argnums)


class JVPNode(Node):
    """The node of an operation for `trace` in forward mode.

    Attributes:
        g: the tangent.
    """

    def __init__(
        self,
        value: Array | float,
        fun: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parent_argnums: tuple[int, ...],
        parents: tuple[Any, ...],
    ) -> None:
        run, active = _of_active(fun, args, kwargs, parent_argnums)
        self.g = make_jvp(run, active)(tuple(parent.g for parent in parents))[1]

    def initialize_root(self, g: Any) -> None:
        self.g = g


def backward_pass(g: Any, end_node: object) -> Any:
    """Return the cotangent of the input, from that of the result with a given node."""
    cotangents = {end_node: g}
    for node in toposort(end_node):
        cotangent = cotangents.pop(node)
        for parent, part in zip(node.parents, node.vjp(cotangent), strict=True):
            cotangents[parent] = mapped(np.add, cotangents[parent], part) if parent in cotangents else part
    return cotangent
