"""Functions with user-defined rules, in Autograd's form, as fgrad operations.

    primitive, notrace_primitive                    create them
    defvjp, defvjp_argnum, defvjp_argnums           reverse rules
    defjvp, defjvp_argnum, defjvp_argnums           forward rules, which are optional
    def_linear                                      the forward rule of a multilinear function

There is one fgrad operation for each number of traced arrays in a call. The other parts of the call are metadata:
the function, its other arguments, and the structure of container arguments. The body of a primitive receives
plain values; its rules receive values of the outer traces, so that they are differentiable themselves.
"""

from __future__ import annotations

import functools
import itertools
import types
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from fgrad import Tensor, errors, is_traced, tree_map
from fgrad.compat.autograd.sparse import settled_sum
from fgrad.compat.autograd.values import fitted, getval, is_number, plain, zeros_like
from fgrad.compat.autograd.vspaces import vspace
from fgrad.core.primitive import FUNCTIONS, UFUNCS
from fgrad.errors import MissingRuleError, OutputError, StructureError
from fgrad.errors.places import depth_of_user
from fgrad.extend import Operation, defbatch, register_primitive
from fgrad.extend import defjvp as define_forward
from fgrad.extend import defvjp as define_reverse

primitive_vjps: dict[Any, Callable[..., Any]] = {}
"""The reverse rule of each primitive: `rule(argnums, ans, args, kwargs)` returns a function of the cotangent."""
primitive_jvps: dict[Any, Callable[..., Any]] = {}
"""The forward rule of each primitive: `rule(argnums, tangents, ans, args, kwargs)` returns the result's tangent."""


class Primitive:
    """A function with user-defined derivatives, created by `primitive`.

    Args:
        fun: takes any Python arguments; positional ones may be differentiated: arrays, numbers and
            containers of them.
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fun, updated=())
        self.fun = fun

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs and any(map(is_traced, _leaves(kwargs))):
            return self._with_traced_keywords(args, kwargs)
        is_flat = all(map(_is_leaf, args))
        traced = [leaf for leaf in (args if is_flat else _leaves(args)) if is_traced(leaf)]
        if not traced:
            return self.fun(*map(plain, args), **_plain_keywords(kwargs))
        call = _Call(self, args, _plain_keywords(kwargs), is_flat)
        result = _operation(len(traced), self in primitive_jvps)(*traced, call=call)
        return call.nested(result)

    def _with_traced_keywords(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the body on tensors if only keyword arguments are traced, for which there are no rules."""
        if any(map(is_traced, _leaves(args))):
            names = [name for name, value in kwargs.items() if any(map(is_traced, _leaves(value)))]
            raise missing_rule(self, "reverse", ", ".join(names))
        return self.fun(*args, **kwargs)

    def defgrad(self, gradfun: Callable[..., Any], argnum: int = 0) -> None:
        """Define the reverse rule of one argument, in an old form of Autograd: `gradfun(ans, *args)(g)`."""
        _warn_of_old_form("defgrad")
        self._define_one(argnum, gradfun)

    def defvjp(self, vjpfun: Callable[..., Any], argnum: int = 0) -> None:
        """Define the reverse rule of one argument, in an old form of Autograd: `vjpfun(g, ans, vs, gvs, *args)`."""
        from_spaces = functools.partial(_rule_of_spaces, vjpfun, argnum)
        _warn_of_old_form("defvjp")
        self._define_one(argnum, from_spaces)

    def defvjp_is_zero(self, argnums: Iterable[int] = (0,)) -> None:
        """Declare zero derivatives for some arguments, in an old form of Autograd."""
        _warn_of_old_form("defvjp_is_zero")
        for argnum in argnums:
            self._define_one(argnum, None)

    def _define_one(self, argnum: int, maker: Callable[..., Any] | None) -> None:
        rules: dict[int, Any] = self.__dict__.setdefault("_rules_by_argnum", {})
        rules[argnum] = maker
        defvjp(self, *rules.values(), argnums=list(rules))


def _rule_of_spaces(vjpfun: Callable[..., Any], argnum: int, ans: Any, *args: Any, **kwargs: Any) -> Any:
    return lambda g: vjpfun(g, ans, vspace(args[argnum]), vspace(g), *args, **kwargs)


def _warn_of_old_form(name: str) -> None:
    text = f"primitive.{name} is an old form of Autograd; use defvjp(primitive, ...) of autograd.extend"
    warnings.warn(text, DeprecationWarning, stacklevel=3)


def primitive(f_raw: Callable[..., Any]) -> Primitive:
    """Make a function a primitive: it runs on plain values, and its derivatives are defined by `defvjp`.

    Args:
        f_raw: any function.

    Returns:
        A function of the same arguments.

    Example:
        >>> import numpy as np
        >>> from fgrad.compat.autograd import grad
        >>> @primitive
        ... def cube(x):
        ...     return x**3
        >>> defvjp(cube, lambda ans, x: lambda g: g * 3 * x**2)
        >>> grad(cube)(2.0), grad(grad(cube))(2.0)
        (np.float64(12.0), np.float64(12.0))
    """
    return Primitive(f_raw)


class CodeOrPrimitive(Primitive):
    """A function that is traced like any other as long as it has no rules, and a primitive afterwards."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self in primitive_vjps or self in primitive_jvps:
            return super().__call__(*args, **kwargs)
        return self.fun(*args, **kwargs)


def open_to_rules(x: Any) -> Any:
    """Return a function of another library prepared for `defvjp`; functions with rules are unchanged."""
    is_function = isinstance(x, (types.FunctionType, types.BuiltinFunctionType, np.ufunc))
    return CodeOrPrimitive(x) if is_function and not has_rule(x) else x


def notrace_primitive(f_raw: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs on plain values, and has no derivative."""

    @functools.wraps(f_raw)
    def call(*args: Any, **kwargs: Any) -> Any:
        return f_raw(*tree_map(getval, args), **kwargs)

    return call


_NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)


class _Slot:
    """The slot of a traced array in the arguments of a call."""

    def __init__(self, place: int) -> None:
        self.place = place


@functools.cache
def _slot(place: int) -> _Slot:
    return _Slot(place)


class _Call:
    """One call of a primitive, without its traced arrays.

    Attributes:
        primitive: the primitive.
        args, kwargs: its arguments; positional ones have slots in place of traced arrays.
        is_flat: whether no argument is a container.
        argnums: for each traced array, the position of the argument that contains it.
        form: the structure of the result with placeholders for arrays, once it is known.
        is_one: whether the result is one array or number.
        pullbacks: of arguments with several arrays, with the corresponding result.
    """

    def __init__(self, primitive: Primitive, args: tuple[Any, ...], kwargs: dict[str, Any], is_flat: bool) -> None:
        self.primitive, self.kwargs, self.is_flat = primitive, kwargs, is_flat
        self.form, self.is_one = None, True
        self.pullbacks: dict[int, tuple[Any, Callable[[Any], Any]]] = {}
        self.argnums: list[int] = []
        if is_flat:
            self.args = [self._slot_or_plain(arg, argnum) for argnum, arg in enumerate(args)]
        else:
            self.args = [
                tree_map(functools.partial(self._slot_or_plain, argnum=argnum), arg) for argnum, arg in enumerate(args)
            ]

    def _slot_or_plain(self, x: Any, argnum: int) -> Any:
        """Return a slot for a traced array in an argument, and the plain value of any other leaf."""
        if not is_traced(x):
            return plain(x)
        self.argnums.append(argnum)
        return _slot(len(self.argnums) - 1)

    def __repr__(self) -> str:
        return getattr(self.primitive, "__name__", repr(self.primitive.fun))

    def whole(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the arguments with arrays in place of slots."""
        if self.is_flat:
            return [plain(arrays[x.place]) if type(x) is _Slot else x for x in self.args]
        return [tree_map(lambda x: plain(arrays[x.place]) if type(x) is _Slot else x, arg) for arg in self.args]

    def run(self, arrays: Sequence[Any]) -> Any:
        """Return the result of the body: one array, or a tuple of the arrays in it."""
        self.form = result = self.primitive.fun(*self.whole(arrays), **self.kwargs)
        self.is_one = isinstance(result, _NUMBERS)
        if self.is_one:
            return result
        found = _leaves(result)
        if not all(isinstance(x, _NUMBERS) for x in found):
            raise OutputError(
                f"the primitive {self!r} returned {result!r:.200}, but results must be numbers, arrays and "
                "containers of them.\nCompute other values outside of the primitive."
            )
        return tuple(np.asarray(x)[()] for x in found)

    def nested(self, result: Any) -> Any:
        """Return results of the operation, or their cotangents, in the structure of the body's result."""
        if self.is_one:
            return plain(result)
        parts = iter([result[place] for place in range(len(result))])
        return tree_map(lambda _: plain(next(parts)), self.form)

    def pulled(self, place: int, ans: Any, arrays: Sequence[Any]) -> Callable[[Any], Any] | None:
        """Return the pullback to one traced array, None if its derivative is zero."""
        like = arrays[place]
        if not is_number(like):  # integers and booleans, such as masks, have no derivative, and need no rule
            return None
        argnum = self.argnums[place]
        template = self.args[argnum]
        is_alone = type(template) is _Slot
        pullback = self._pullback_to(argnum, ans, arrays)

        def pull(ct: Any) -> Any:
            found = pullback(ct)
            found = found if is_alone else _part(template, place, found)
            return fitted(zeros_like(like) if found is None else found, like)

        return pull

    def _pullback_to(self, argnum: int, ans: Any, arrays: Sequence[Any]) -> Callable[[Any], Any]:
        """Return the pullback to an argument, shared by all arrays in it."""
        known = self.pullbacks.get(argnum)
        if known is not None and known[0] is ans:
            return known[1]
        maker = primitive_vjps.get(self.primitive)
        if maker is None:
            raise missing_rule(self.primitive, "reverse", argnum)
        vjp = maker((argnum,), self.nested(ans), tuple(self.whole(arrays)), self.kwargs)
        if type(self.args[argnum]) is _Slot:
            return lambda ct: settled_sum(*vjp(self.nested(ct)))
        last: list[Any] = [None, None]

        def pullback(ct: Any) -> Any:
            if last[0] is not ct or ct is None:
                (found,) = vjp(self.nested(ct))
                last[:] = [ct, settled_sum(found)]
            return last[1]

        self.pullbacks[argnum] = (ans, pullback)
        return pullback

    def pushed(self, place: int, tangent: Any, ans: Any, arrays: Sequence[Any]) -> Any:
        """Return the contribution of one traced array to the tangent of the result."""
        argnum, args, result = self.argnums[place], tuple(self.whole(arrays)), self.nested(ans)
        own = tree_map(lambda x: _tangent(x, place, tangent, arrays), self.args[argnum])
        found = primitive_jvps[self.primitive]((argnum,), (own,), result, args, self.kwargs)
        found = settled_sum(found)
        if self.is_one:
            return fitted(found, ans)
        parts = tree_map(lambda _, part: [part], result, found)
        return tuple(fitted(part, like) for part, like in zip(_leaves(parts), ans, strict=True))


def _plain_keywords(kwargs: dict[str, Any]) -> dict[str, Any]:
    return plain(kwargs) if kwargs else kwargs


def _is_leaf(x: Any) -> bool:
    """Return whether the type of an argument is not a container type."""
    kind = type(x)
    if kind not in _IS_LEAF:
        found = _leaves(x)
        _IS_LEAF[kind] = len(found) == 1 and found[0] is x
    return _IS_LEAF[kind]


_IS_LEAF: dict[type, bool] = {np.ndarray: True, Tensor: True, float: True, np.float64: True, type(None): True}


def _leaves(tree: Any) -> list[Any]:
    """Return the leaves of containers, unchanged."""
    found: list[Any] = []
    tree_map(found.append, tree)
    return found


def _part(template: Any, place: int, found: Any) -> Any:
    """Return the part of a rule's result for one array in a container."""
    if found is None:
        return found
    parts: list[Any] = []
    tree_map(lambda x, part: parts.append(part) if type(x) is _Slot and x.place == place else None, template, found)
    return parts[0]


def _tangent(leaf: Any, place: int, tangent: Any, arrays: Sequence[Any]) -> Any:
    """Return the tangent of an argument in which only one array has a tangent."""
    if type(leaf) is not _Slot:
        return zeros_like(leaf)
    return plain(tangent) if leaf.place == place else zeros_like(plain(arrays[leaf.place]))


def _run(*arrays: Any, call: _Call) -> Any:
    return call.run(arrays)


@functools.cache
def _operation(count: int, has_forward_rule: bool) -> Operation:
    """Return the operation for calls with `count` traced arrays; without forward rules it transposes the others."""
    name = f"autograd_primitive_{count}" + "_with_jvp" * has_forward_rule
    operation = register_primitive(_run, name)
    define_reverse(operation, *(_reverse_rule(place) for place in range(count)))
    defbatch(operation, functools.partial(_one_by_one, operation))
    if has_forward_rule:
        define_forward(operation, *(_forward_rule(place) for place in range(count)))
    return operation


def _reverse_rule(place: int) -> Callable[..., Any]:
    return lambda ans, *arrays, call: call.pulled(place, ans, arrays)


def _forward_rule(place: int) -> Callable[..., Any]:
    return lambda t, ans, *arrays, call: call.pushed(place, t, ans, arrays)


def _one_by_one(
    operation: Operation, values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: dict[str, Any]
) -> Any:
    """Run an operation on a batch by a loop: the body of a primitive takes plain values of one example."""
    results = [
        operation(*(x[place] if own else x for x, own in zip(values, mapped, strict=True)), **metadata)
        for place in range(size)
    ]
    if isinstance(results[0], tuple):
        return tuple(np.stack(parts) for parts in zip(*results, strict=True))
    return np.stack(results)


def missing_rule(fun: Any, mode: str, argument: Any) -> MissingRuleError:
    """Return the error for a missing rule of a primitive's argument."""
    name, define = getattr(fun, "__name__", repr(fun)), "defvjp" if mode == "reverse" else "defjvp"
    where = f"its argument {argument}" if isinstance(argument, int) else f"the keyword {argument}"
    return MissingRuleError(
        f"the primitive {name} in {where}",
        errors.users_line(),
        mode,
        f"Define it with {define}({name}, ...) of autograd.extend, for positional arguments.",
    )


def has_rule(fun: Any) -> bool:
    """Return whether a function is a NumPy or SciPy function with rules in fgrad."""
    while True:
        if isinstance(fun, np.ufunc):
            return fun in UFUNCS
        is_ours = str(getattr(fun, "__module__", "")).startswith(("fgrad.ops.", "fgrad.scipy."))
        if isinstance(fun, Hashable) and (fun in FUNCTIONS or is_ours):
            return True
        if not hasattr(fun, "__wrapped__"):
            return False
        fun = fun.__wrapped__  # for functions that accept lists; NumPy's may be wrapped again


def _define(rules: dict[Any, Any], fun: Any, maker: Callable[..., Any]) -> None:
    """Register the rule of a primitive; functions with rules in fgrad keep these, and others become primitives."""
    if isinstance(fun, Primitive):
        rules[fun] = maker
    elif not has_rule(fun):
        warnings.warn(
            f"{fun!r} is not a primitive, so that the rule given for it is not used: its derivative is that of its "
            "code.\nMake it one, own = primitive(function), and call `own`.",
            errors.UnusedRuleWarning,
            stacklevel=depth_of_user(),
        )


def defvjp_argnums(fun: Any, vjpmaker: Callable[..., Any]) -> None:
    """Define the reverse rules of a primitive: `vjpmaker(argnums, ans, args, kwargs)(g)` gives a cotangent for each."""
    _define(primitive_vjps, fun, vjpmaker)


def defvjp_argnum(fun: Any, vjpmaker: Callable[..., Any]) -> None:
    """Define the reverse rules of a primitive: `vjpmaker(argnum, ans, args, kwargs)(g)` gives the cotangent of one."""

    def maker(argnums: Sequence[int], *rest: Any) -> Callable[[Any], Any]:
        if len(argnums) == 1:  # common case
            pullback = vjpmaker(argnums[0], *rest)
            return lambda g: (pullback(g),)
        pullbacks = [vjpmaker(argnum, *rest) for argnum in argnums]
        return lambda g: tuple(pullback(g) for pullback in pullbacks)

    defvjp_argnums(fun, maker)


def defvjp(fun: Any, *vjpmakers: Callable[..., Any] | None, argnums: Iterable[int] | None = None) -> None:
    """Define the reverse rules of a primitive, one for each argument.

    Args:
        fun: the primitive.
        vjpmakers: `maker(ans, *args, **kwargs)` returns a function of the cotangent of the result, which returns that
            of the argument. None: the derivative is zero.
        argnums: the positions of their arguments; by default the first ones.

    Warns:
        UnusedRuleWarning: `fun` is not a primitive.
    """
    makers = dict(zip(itertools.count() if argnums is None else argnums, vjpmakers, strict=False))

    def maker(argnum: int, ans: Any, args: Any, kwargs: Any) -> Callable[[Any], Any]:
        if argnum not in makers:
            raise missing_rule(fun, "reverse", argnum)
        found = makers[argnum]
        return _nothing if found is None else found(ans, *args, **kwargs)

    defvjp_argnum(fun, maker)


def _nothing(g: Any) -> None:
    """The pullback of a result that does not depend on an argument."""


def defjvp_argnums(fun: Any, jvpmaker: Callable[..., Any]) -> None:
    """Define the forward rules of a primitive: `jvpmaker(argnums, tangents, ans, args, kwargs)` returns a tangent."""
    _define(primitive_jvps, fun, jvpmaker)


def defjvp_argnum(fun: Any, jvpmaker: Callable[..., Any]) -> None:
    """Define the forward rules of a primitive: `jvpmaker(argnum, tangent, ans, args, kwargs)`, to be summed."""

    def maker(argnums: Sequence[int], tangents: Sequence[Any], *rest: Any) -> Any:
        parts = [jvpmaker(argnum, t, *rest) for argnum, t in zip(argnums, tangents, strict=True)]
        return functools.reduce(lambda total, part: tree_map(np.add, total, part), parts)

    defjvp_argnums(fun, maker)


def defjvp(fun: Any, *jvpfuns: Callable[..., Any] | str | None, argnums: Iterable[int] | None = None) -> None:
    """Define the forward rules of a primitive, one per argument; without them the reverse ones are transposed.

    Args:
        fun: the primitive.
        jvpfuns: `rule(tangent, ans, *args, **kwargs)` returns the tangent of the result. "same": the function itself
            with the tangent in place of the argument, in which it is linear. None: the derivative is zero.
        argnums: the positions of their arguments; by default the first ones.

    Raises:
        StructureError: a TypeError; a rule is not valid.

    Warns:
        UnusedRuleWarning: `fun` is not a primitive.
    """
    rules = dict(zip(itertools.count() if argnums is None else argnums, jvpfuns, strict=False))
    for rule in rules.values():
        if not (rule is None or rule == "same" or callable(rule)):
            raise StructureError(f"a forward rule must be a function, 'same' or None, but it is {rule!r}.")

    def maker(argnum: int, tangent: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        if argnum not in rules:
            raise missing_rule(fun, "forward", argnum)
        rule = rules[argnum]
        if callable(rule):
            return rule(tangent, ans, *args, **kwargs)
        return tree_map(zeros_like, ans) if rule is None else _linear(fun, argnum, tangent, args, kwargs)

    defjvp_argnum(fun, maker)


def def_linear(fun: Any) -> None:
    """Declare that a primitive is linear in each of its arguments, which determines its forward rule."""
    defjvp_argnum(fun, lambda argnum, tangent, ans, args, kwargs: _linear(fun, argnum, tangent, args, kwargs))


deflinear = def_linear


def _linear(fun: Any, argnum: int, tangent: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return the value of a function with a tangent in place of one of its arguments."""
    return fun(*args[:argnum], tangent, *args[argnum + 1 :], **kwargs)


def register_notrace(trace_type: Any, primitive_fun: Any) -> None:
    """Declare that the derivative of a primitive with respect to all of its arguments is zero."""
    defvjp_argnum(primitive_fun, lambda argnum, ans, args, kwargs: _nothing)
