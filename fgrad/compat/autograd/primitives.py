"""Functions with user-defined rules, in Autograd's form, as fgrad operations (see `calls`).

primitive, notrace_primitive                    create them
defvjp, defvjp_argnum, defvjp_argnums           reverse rules
defjvp, defjvp_argnum, defjvp_argnums           forward rules, which are optional
def_linear                                      the forward rule of a multilinear function
"""

from __future__ import annotations

import functools
import itertools
import types
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad import errors, is_traced, tree_map
from fgrad.compat.autograd import calls
from fgrad.compat.autograd.boxes import BOXED, unboxed
from fgrad.compat.autograd.calls import ByArgument, leaves_of, missing_rule, primitive_jvps, primitive_vjps
from fgrad.compat.autograd.values import getval, plain, zeros_like
from fgrad.compat.autograd.vspaces import AS_PRIMITIVES, vspace
from fgrad.core.primitive import FUNCTIONS, UFUNCS
from fgrad.errors import StructureError
from fgrad.errors.places import depth_of_user
from fgrad.typing import Array

_PLAIN = {np.ndarray, np.float64, float, int}


class Primitive:
    """A function with user-defined derivatives, created by `primitive`.

    Args:
        fun: takes any Python arguments; positional ones may be differentiated: arrays, numbers and
            containers of them.
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fun, updated=())
        self.fun = fun

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and _PLAIN.issuperset(map(type, args)):  # common case
            return self.fun(*args)
        if BOXED:
            args = tuple(tree_map(unboxed, args))
        if kwargs:
            if any(map(is_traced, leaves_of(kwargs))):
                return self._with_traced_keywords(args, kwargs)
            kwargs = plain(kwargs)
        call, traced = calls.traced_call(self, args, kwargs)
        return calls.run(call, traced) if traced else self.fun(*call.args, **kwargs)

    def _with_traced_keywords(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the body on tensors if only keyword arguments are traced, for which there are no rules."""
        if any(map(is_traced, leaves_of(args))):
            names = [name for name, value in kwargs.items() if any(map(is_traced, leaves_of(value)))]
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


def _rule_of_spaces(
    vjpfun: Callable[..., Any], argnum: int, ans: Array, *args: Array, **kwargs: object
) -> Callable[[Any], Any]:
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
    def call(*args: Array, **kwargs: object) -> Any:
        return f_raw(*tree_map(getval, args), **kwargs)

    return call


def has_rule(fun: object) -> bool:
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


def _define(rules: dict[Any, Any], fun: Callable[..., Any], maker: Callable[..., Any]) -> None:
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


def defvjp_argnums(fun: Callable[..., Any], vjpmaker: Callable[..., Any]) -> None:
    """Define the reverse rules of a primitive: `vjpmaker(argnums, ans, args, kwargs)(g)` gives a cotangent for each."""
    _define(primitive_vjps, fun, vjpmaker)


def defvjp_argnum(fun: Callable[..., Any], vjpmaker: Callable[..., Any]) -> None:
    """Define the reverse rules of a primitive: `vjpmaker(argnum, ans, args, kwargs)(g)` gives the cotangent of one."""
    defvjp_argnums(fun, ByArgument(vjpmaker))


def defvjp(
    fun: Callable[..., Any], *vjpmakers: Callable[..., Any] | None, argnums: Iterable[int] | None = None
) -> None:
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

    def maker(argnum: int, ans: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[[Any], Any]:
        if argnum not in makers:
            raise missing_rule(fun, "reverse", argnum)
        found = makers[argnum]
        return _nothing if found is None else found(ans, *args, **kwargs)

    defvjp_argnum(fun, maker)


def _nothing(g: Any) -> None:
    """The pullback of a result that does not depend on an argument."""


def defjvp_argnums(fun: Callable[..., Any], jvpmaker: Callable[..., Any]) -> None:
    """Define the forward rules of a primitive: `jvpmaker(argnums, tangents, ans, args, kwargs)` returns a tangent."""
    _define(primitive_jvps, fun, jvpmaker)


def defjvp_argnum(fun: Callable[..., Any], jvpmaker: Callable[..., Any]) -> None:
    """Define the forward rules of a primitive: `jvpmaker(argnum, tangent, ans, args, kwargs)`, to be summed."""

    def maker(argnums: Sequence[int], tangents: Sequence[Any], *rest: object) -> Any:
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

    def maker(argnum: int, tangent: Any, ans: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if argnum not in rules:
            raise missing_rule(fun, "forward", argnum)
        rule = rules[argnum]
        if callable(rule):
            return rule(tangent, ans, *args, **kwargs)
        return tree_map(zeros_like, ans) if rule is None else _linear(fun, argnum, tangent, args, kwargs)

    defjvp_argnum(fun, maker)


def def_linear(fun: Callable[..., Any]) -> None:
    """Declare that a primitive is linear in each of its arguments, which determines its forward rule."""
    defjvp_argnum(fun, lambda argnum, tangent, ans, args, kwargs: _linear(fun, argnum, tangent, args, kwargs))


deflinear = def_linear


def _linear(fun: Callable[..., Any], argnum: int, tangent: Array, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return the value of a function with a tangent in place of one of its arguments."""
    return fun(*args[:argnum], tangent, *args[argnum + 1 :], **kwargs)


def register_notrace(trace_type: object, primitive_fun: Callable[..., Any]) -> None:
    """Declare that the derivative of a primitive with respect to all of its arguments is zero."""
    defvjp_argnum(primitive_fun, lambda argnum, ans, args, kwargs: _nothing)


def _operation_of_spaces(name: str, *makers: Callable[..., Any]) -> Primitive:
    """Return an operation of vector spaces as a primitive, which is linear in each vector, with its reverse rules."""
    operation = AS_PRIMITIVES[name] = Primitive(lambda space, *vectors: getattr(space, name)(*vectors))
    defvjp(operation, None, *makers)
    return operation


def _same(ans: object, space: object, *vectors: object) -> Callable[[Any], Any]:
    return lambda g: g


for _add in (_operation_of_spaces("_add", _same, _same), _operation_of_spaces("_mut_add", _same, _same)):
    defjvp(_add, None, lambda g, ans, *rest: g, lambda g, ans, *rest: g)
for _product in (
    _operation_of_spaces(
        "_scalar_mul",
        lambda ans, space, x, a: lambda g: space.covector(space.scalar_mul(space.covector(g), a)),
        lambda ans, space, x, a: lambda g: space.inner_prod(g, space.covector(x)),
    ),
    _operation_of_spaces(
        "_inner_prod",
        lambda ans, space, x, y: lambda g: space.covector(space.scalar_mul(y, g)),
        lambda ans, space, x, y: lambda g: space.covector(space.scalar_mul(x, g)),
    ),
    _operation_of_spaces("_covector", lambda ans, space, x: lambda g: space.covector(g)),
):
    def_linear(_product)
