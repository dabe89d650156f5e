"""Calls of primitives in Autograd's form, as operations of fgrad.

There is one fgrad operation for each number of traced arrays in a call. The other parts of the call are metadata: the
function, its other arguments, and the structure of container arguments. The body of a primitive receives plain values;
its rules receive values of the outer traces, so that they are differentiable themselves.

    traced_call(primitive, args, kwargs)     the call and its traced arrays
    run(call, traced)                        its result, as an operation on these
    primitive_vjps, primitive_jvps           the rules
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import Tensor, errors, is_traced, tree_map
from fgrad.compat.autograd.boxes import BOXED, as_array, holds_element
from fgrad.compat.autograd.sparse import settled_sum
from fgrad.compat.autograd.values import fitted, plain, zeros_like
from fgrad.core.foreign import INEXACT
from fgrad.errors import MissingRuleError, OutputError
from fgrad.extend import Operation, defbatch, register_primitive
from fgrad.extend import defjvp as define_forward
from fgrad.extend import defvjp as define_reverse
from fgrad.typing import Array, ArrayLike

primitive_vjps: dict[Any, Callable[..., Any]] = {}
"""The reverse rule of each primitive: `rule(argnums, ans, args, kwargs)` returns a function of the cotangent."""
primitive_jvps: dict[Any, Callable[..., Any]] = {}
"""The forward rule of each primitive: `rule(argnums, tangents, ans, args, kwargs)` returns the result's tangent."""

_NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)
_ARRAY = np.ndarray


class ByArgument:
    """A reverse rule for several arguments, made of a rule for one.

    Args:
        of_one: `of_one(argnum, ans, args, kwargs)` returns a function of the cotangent.
    """

    def __init__(self, of_one: Callable[..., Any]) -> None:
        self.of_one = of_one

    def __call__(self, argnums: Sequence[int], *rest: Any) -> Callable[[Any], Any]:
        pullbacks = [self.of_one(argnum, *rest) for argnum in argnums]
        return lambda g: tuple(pullback(g) for pullback in pullbacks)


class Call:
    """One call of a primitive whose arguments are no containers, without its traced arrays.

    Attributes:
        primitive: the primitive.
        args, kwargs: its arguments; those that are traced are left out.
        argnums: for each traced array, the position of the argument that contains it.
        form: the structure of the result with placeholders for arrays, once it is known.
        is_one: whether the result is one array or number.
    """

    __slots__ = ("primitive", "args", "kwargs", "argnums", "form", "is_one")

    def __init__(self, primitive: Any, args: list[Any], kwargs: dict[str, Any], argnums: list[int]) -> None:
        self.primitive, self.args, self.kwargs, self.argnums = primitive, args, kwargs, argnums
        self.form: Any = None
        self.is_one = True

    def __repr__(self) -> str:
        return getattr(self.primitive, "__name__", repr(self.primitive.fun))

    def whole(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the arguments with arrays in the places of those that are traced."""
        args = self.args.copy()
        for argnum, array in zip(self.argnums, arrays, strict=True):
            args[argnum] = array if type(array) is _ARRAY else plain(array)
        return args

    def run(self, arrays: Sequence[Any]) -> Any:
        """Return the result of the body: one array, or a tuple of the arrays in it."""
        result = self.primitive.fun(*self.whole(arrays), **self.kwargs)
        if isinstance(result, _NUMBERS):
            return result
        self.form = result
        self.is_one = type(result) in BOXED
        found = [np.asarray(x)[()] if isinstance(x, _NUMBERS) else as_array(x) for x in leaves_of(result)]
        if not all(isinstance(x, _NUMBERS) for x in found):
            raise OutputError(
                f"the primitive {self!r} returned {result!r:.200}, but results must be numbers, arrays and "
                "containers of them.\nCompute other values outside of the primitive."
            )
        return found[0] if self.is_one else tuple(found)

    def nested(self, result: Any) -> Any:
        """Return results of the operation, or their cotangents, in the structure of the body's result."""
        if type(result) is _ARRAY:  # common case
            return result
        if self.is_one:
            return plain(result)
        parts = iter([result[place] for place in range(len(result))])
        return tree_map(lambda _: plain(next(parts)), self.form)

    def pulled(self, place: int, ans: object, arrays: Sequence[Any]) -> Callable[[Any], Any] | None:
        """Return the pullback to one traced array, None if its derivative is zero."""
        like = arrays[place]
        if like.dtype.kind not in INEXACT:  # integers and booleans, such as masks, have no derivative, and need no rule
            return None
        pullback = self.pullback_to(self.argnums[place], ans, arrays)
        return lambda ct: fitted(settled_sum(pullback(self.nested(ct))), like)

    def pullback_to(self, argnum: int, ans: Any, arrays: Sequence[Any]) -> Callable[[Any], Any]:
        """Return the pullback to an argument, by the rule of the primitive."""
        maker = primitive_vjps.get(self.primitive)
        if maker is None:
            raise missing_rule(self.primitive, "reverse", argnum)
        ans, args = self.nested(ans), tuple(self.whole(arrays))
        if type(maker) is ByArgument:  # common case
            return maker.of_one(argnum, ans, args, self.kwargs)  # type: ignore[no-any-return]
        vjp = maker((argnum,), ans, args, self.kwargs)

        def pullback(ct: Array) -> Any:
            (found,) = vjp(ct)
            return found

        return pullback

    def pushed(self, place: int, tangent: object, ans: Any, arrays: Sequence[Any]) -> Any:
        """Return the contribution of one traced array to the tangent of the result."""
        argnum, args, result = self.argnums[place], tuple(self.whole(arrays)), self.nested(ans)
        own = self.tangent_of(place, tangent, arrays)
        found = primitive_jvps[self.primitive]((argnum,), (own,), result, args, self.kwargs)
        found = settled_sum(found)
        if self.is_one:
            return fitted(found, ans)
        parts = tree_map(lambda _, part: [part], result, found)
        return tuple(fitted(part, like) for part, like in zip(leaves_of(parts), ans, strict=True))

    def tangent_of(self, place: int, tangent: Any, arrays: Sequence[Any]) -> Any:
        """Return the tangent of the argument with a traced array, from that of the array."""
        return plain(tangent)


class _Slot:
    """The slot of a traced array in a container."""

    def __init__(self, place: int) -> None:
        self.place = place


@functools.cache
def _slot(place: int) -> _Slot:
    return _Slot(place)


class NestedCall(Call):
    """A call with containers among the arguments, which have slots in place of traced arrays.

    Attributes:
        pullbacks: of arguments with several arrays, with the corresponding result.
    """

    __slots__ = ("pullbacks",)

    def __init__(
        self, primitive: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], argnums: list[int]
    ) -> None:
        super().__init__(primitive, args, kwargs, argnums)
        self.pullbacks: dict[int, tuple[Any, Callable[[Any], Any]]] = {}

    def whole(self, arrays: Sequence[Any]) -> list[Any]:
        return [tree_map(lambda x: plain(arrays[x.place]) if type(x) is _Slot else x, arg) for arg in self.args]

    def pulled(self, place: int, ans: Any, arrays: Sequence[Any]) -> Callable[[Any], Any] | None:
        like = arrays[place]
        if like.dtype.kind not in INEXACT:
            return None
        argnum = self.argnums[place]
        template = self.args[argnum]
        pullback = self._shared_pullback(argnum, ans, arrays)
        return lambda ct: fitted(_part(template, place, pullback(ct)), like)

    def _shared_pullback(self, argnum: int, ans: ArrayLike, arrays: Sequence[Any]) -> Callable[[Any], Any]:
        """Return the pullback to an argument, which runs once for all arrays in it."""
        known = self.pullbacks.get(argnum)
        if known is not None and known[0] is ans:
            return known[1]
        of_argument = self.pullback_to(argnum, ans, arrays)
        last: list[Any] = [None, None]

        def pullback(ct: Any) -> Any:
            if last[0] is not ct or ct is None:
                last[:] = [ct, settled_sum(of_argument(self.nested(ct)))]
            return last[1]

        self.pullbacks[argnum] = (ans, pullback)
        return pullback

    def tangent_of(self, place: int, tangent: Any, arrays: Sequence[Any]) -> Any:
        def of_leaf(leaf: Any) -> Any:
            if type(leaf) is not _Slot:
                return zeros_like(leaf)
            return plain(tangent) if leaf.place == place else zeros_like(plain(arrays[leaf.place]))

        return tree_map(of_leaf, self.args[self.argnums[place]])


def traced_call(primitive: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Call, list[Any]]:
    """Return the call of a primitive, and the traced arrays in its arguments, which are left out of the call."""
    if all(map(_is_leaf, args)):
        argnums = [argnum for argnum, arg in enumerate(args) if type(arg) is not _ARRAY and is_traced(arg)]
        traced, rest = [args[argnum] for argnum in argnums], [*args]
        for argnum in argnums:
            rest[argnum] = None
        if len(argnums) < len(args):
            rest = [x if type(x) is _ARRAY else plain(x) for x in rest]
        return Call(primitive, rest, kwargs, argnums), traced
    traced, argnums = [], []

    def slot_or_plain(x: object, argnum: int) -> Any:
        if not is_traced(x):
            return plain(x)
        traced.append(x)
        argnums.append(argnum)
        return _slot(len(argnums) - 1)

    rest = [tree_map(functools.partial(slot_or_plain, argnum=argnum), arg) for argnum, arg in enumerate(args)]
    return NestedCall(primitive, rest, kwargs, argnums), traced


def run(call: Call, traced: Sequence[Any]) -> Any:
    """Return the result of a call, as an operation on its traced arrays."""
    of_elements = bool(BOXED) and any(map(holds_element, traced))
    result = _operation(len(traced), call.primitive in primitive_jvps, of_elements)(*traced, call=call)
    return call.nested(result)


def leaves_of(tree: object) -> list[Any]:
    """Return the leaves of containers, unchanged."""
    found: list[Any] = []
    tree_map(found.append, tree)
    return found


def _is_leaf(x: object) -> bool:
    """Return whether the type of an argument is not a container type."""
    kind = type(x)
    if kind not in _IS_LEAF:
        found = leaves_of(x)
        _IS_LEAF[kind] = len(found) == 1 and found[0] is x
    return _IS_LEAF[kind]


_IS_LEAF: dict[type, bool] = {_ARRAY: True, Tensor: True, float: True, np.float64: True, type(None): True}


def _part(template: object, place: int, found: object) -> Any:
    """Return the part of a rule's result for one array in a container."""
    if found is None or type(template) is _Slot:
        return found
    parts: list[Any] = []
    tree_map(lambda x, part: parts.append(part) if type(x) is _Slot and x.place == place else None, template, found)
    return parts[0]


@functools.cache
def _operation(count: int, has_forward_rule: bool, of_elements: bool) -> Operation:
    """Return the operation for calls with `count` traced arrays; without forward rules it transposes the others."""
    name = f"autograd_primitive_{count}" + "_with_jvp" * has_forward_rule + "_of_elements" * of_elements
    operation = register_primitive(lambda *arrays, call: call.run(arrays), name)
    define_reverse(operation, *(_reverse_rule(place) for place in range(count)))
    defbatch(operation, functools.partial(_one_by_one, operation))
    if has_forward_rule:
        define_forward(operation, *(_forward_rule(place) for place in range(count)))
    if of_elements:
        operation.primitive.kind = "conversion"  # it may return floating-point numbers for other objects
    return operation


def _reverse_rule(place: int) -> Callable[..., Any]:
    return lambda ans, *arrays, call: call.pulled(place, ans, arrays)


def _forward_rule(place: int) -> Callable[..., Any]:
    return lambda t, ans, *arrays, call: call.pushed(place, t, ans, arrays)


def _one_by_one(
    operation: Operation, values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: dict[str, Any]
) -> tuple[Any, ...] | Array:
    """Run an operation on a batch by a loop: the body of a primitive takes plain values of one example."""
    results = [
        operation(*(x[place] if own else x for x, own in zip(values, mapped, strict=True)), **metadata)
        for place in range(size)
    ]
    if isinstance(results[0], tuple):
        return tuple(np.stack(parts) for parts in zip(*results, strict=True))
    return np.stack(results)


def missing_rule(fun: Callable[..., Any], mode: str, argument: object) -> MissingRuleError:
    """Return the error for a missing rule of a primitive's argument."""
    name, define = getattr(fun, "__name__", repr(fun)), "defvjp" if mode == "reverse" else "defjvp"
    where = f"its argument {argument}" if isinstance(argument, int) else f"the keyword {argument}"
    return MissingRuleError(
        f"the primitive {name} in {where}",
        errors.users_line(),
        mode,
        f"Define it with {define}({name}, ...) of autograd.extend, for positional arguments.",
    )
