"""Functions with custom derivative rules.

    custom_vjp, custom_gradient    with a custom reverse rule
    custom_jvp                     with a custom forward rule

Each makes a `Rule` from the user's functions (`rule.py`), for containers in place of arrays. The rule gives the
derivative of the results for all traces that follow an argument. For `custom_vjp` this holds for the highest trace
only; for lower ones the derivative is that of the code of `fwd`, which may call the function.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import numpy as np

from fgrad import errors
from fgrad.core.tensor import TensorLike, boxed, strip_ended
from fgrad.core.trace import substituted
from fgrad.core.tree import flatten, outline, outline_of, unflatten
from fgrad.errors.hints import names_keywords
from fgrad.rules.arguments import Residuals, own
from fgrad.rules.closures import running_layers
from fgrad.rules.rule import (
    Leaves,
    Linear,
    Rule,
    Variables,
    call_rule,
    cotangent_of,
    names_of_inputs,
    settled,
    zeros_of,
)
from fgrad.transforms.callbacks import check_callback
from fgrad.transforms.calls import PickledByName, name_of
from fgrad.transforms.reverse import vjp
from fgrad.typing import Array

if TYPE_CHECKING:
    import optree

P = ParamSpec("P")
R = TypeVar("R")


class _Custom(PickledByName, Generic[P, R]):
    """A function on containers with a custom rule; subclasses define the form of the rule."""

    @names_keywords
    def __init__(self, function: Callable[P, R]) -> None:
        if not callable(function):
            raise errors.NotCallableError(f"{type(self).__name__} takes a function, not {function!r:.200}.")
        functools.update_wrapper(self, function, updated=())
        self._function: Any = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        positional = _positional(self._function, args, keywords)
        leaves, treedef = flatten(positional)
        if _is_of_transposed(self, leaves):
            return self._function(*positional)  # type: ignore[no-any-return]
        structure: list[Any] = []

        def flat(result: Array) -> Leaves:
            results, out_treedef = flatten(result)
            structure[:] = [out_treedef]
            return results

        places = [isinstance(x, (float, complex)) or hasattr(strip_ended(x), "dtype") for x in leaves]

        def whole(arrays: Leaves) -> tuple[Any, ...]:
            rest = iter(arrays)
            filled = [next(rest) if place else x for x, place in zip(leaves, places, strict=True)]
            return unflatten(treedef, filled)  # type: ignore[no-any-return]

        arrays = [settled(x) for x, place in zip(leaves, places, strict=True) if place]
        rule = self._rule(whole, flat, treedef, places).only_reading(any(isinstance(x, TensorLike) for x in leaves))
        results = call_rule(rule, arrays)
        return unflatten(structure[0], results)  # type: ignore[no-any-return]

    def _rule(self, whole: object, flat: object, treedef: optree.PyTreeSpec, places: list[bool]) -> Rule:
        raise NotImplementedError(type(self).__name__)

    def _residuals(self, kept: Callable[[], Leaves], others: Leaves) -> tuple[Residuals, bool]:
        """Return what the rule keeps, and whether any of that or of the arguments and results is traced."""
        leaves = kept()
        _show_batches(leaves)
        return Residuals(kept, leaves, others, name_of(self._function)), _are_traced([*others, *leaves])

    def _check_takes(self, part: Callable[..., Any], form: str) -> None:
        """Raise if a part of the rule does not take the two arguments of a form."""
        check_callback(f"the rule of {name_of(self._function)}", part, form, 2, kind=errors.CustomRuleError)

    def _of_arrays(self, given: tuple[Any, ...], treedef: optree.PyTreeSpec, places: list[bool]) -> list[Any]:
        """Return the derivatives that a rule gave for the arguments, one entry for each array."""
        expected = len(treedef.children())
        given = () if given is None and not expected else given
        given = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if len(given) != expected:
            raise errors.CustomRuleError(
                f"the rule of {name_of(self._function)} was expected to return {expected} "
                f"gradient{'s' if expected != 1 else ''}, one per argument, but returned {len(given)}.\n"
                "Return them in a tuple, with None for an argument that has no derivative."
            )
        by_leaf: list[Any] = []
        for part, subtree in zip(given, treedef.children(), strict=True):
            by_leaf += [None] * subtree.num_leaves if part is None else subtree.flatten_up_to(part)
        return [each for each, place in zip(by_leaf, places, strict=True) if place]


def _positional(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Return all arguments of a call by position, as rules take them, including defaults."""
    try:
        signature = None if isinstance(function, np.ufunc) else inspect.signature(function)
    except ValueError:  # some built-in functions have no signature
        signature = None
    if signature is None:
        _check_no_keywords(function, keywords)
        return args
    bound = signature.bind(*args, **keywords)
    _check_no_keywords(function, bound.kwargs)
    bound.apply_defaults()
    return bound.args


def _check_no_keywords(function: Callable[..., Any], keywords: dict[str, Any]) -> None:
    if keywords:
        raise errors.CustomRuleError(
            f"{name_of(function)} has a custom rule and takes {', '.join(keywords)} by keyword only; "
            "a rule gives one derivative per argument by position."
        )


class custom_vjp(_Custom[P, R]):  # noqa: N801  # used as a decorator
    """A function with a custom reverse rule, in JAX's form.

    Forward mode follows from the rule by transposition. The function may close over values of an outer transform, and
    of any `vmap`; values of the transform that differentiates the call must be arguments.

    Args:
        function: takes and returns numbers, arrays or containers of them.

    Raises:
        CustomRuleError: a ValueError, from the backward pass; the rule returns too few cotangents, or one of another
            shape.
        ClosureError: a TypeError; the function closes over a traced value that is not an argument.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> @fg.custom_vjp
        ... def clipped(x):
        ...     return x * 1.0
        >>> clipped.defvjp(lambda x: (clipped(x), None), lambda residuals, ct: (np.clip(ct, -1.0, 1.0),))
        >>> fg.grad(lambda x: clipped(x) ** 2)(3.0)
        Tensor(1.)
    """

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Define the rule.

        Args:
            fwd: takes the arguments of the function; returns `(result, residuals)`.
            bwd: takes the residuals and a cotangent of the result; returns a tuple with a cotangent per argument, None
                for zero.

        Raises:
            CustomRuleError: a ValueError; `bwd` does not take two arguments.
        """
        self._check_takes(bwd, "bwd(residuals, cotangent)")
        self._fwd, self._bwd = fwd, bwd

    def _rule(self, whole: Any, flat: Any, treedef: optree.PyTreeSpec, places: list[bool]) -> Rule:
        if not hasattr(self, "_fwd"):
            raise errors.CustomRuleError(
                f"{name_of(self._function)} has no rule yet: define it with {name_of(self._function)}.defvjp(fwd, bwd)."
            )

        def linearize(arrays: Leaves) -> Any:
            pair = self._fwd(*whole(arrays))
            result, residuals = _pair(self._function, pair, "fwd", "(result, residuals)")
            results, out_treedef = flatten(result)
            flat(result)

            def kept() -> Leaves:  # without `arrays` and `results`, which the pullback would keep in memory
                return [*flatten(residuals)[0], *_closed_over(self._bwd)]

            known, is_traced = self._residuals(kept, [*arrays, *results])

            def pull(cotangents: Leaves, variables: Variables) -> Leaves:
                with known.in_use():
                    given = self._bwd(residuals, unflatten(out_treedef, _to_write_to(cotangents, is_traced)))
                return self._of_arrays(given, treedef, places)

            return results, pull, _transposed(self._function, pull, results, arrays)

        return Rule(self._function, lambda arrays: flat(self._function(*whole(arrays))), linearize)


def _pair(function: Callable[..., Any], found: object, what: str, expected: str) -> tuple[Any, Any]:
    """Return the two items that a part of a rule returned; raise if it is not a pair."""
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise errors.CustomRuleError(
            f"{what} of {name_of(function)} must return a pair {expected}; it returned {found!r:.200}."
        )
    return found[0], found[1]


def _tangents(function: Callable[..., Any], nested: Any, form: Any, results: Leaves) -> Leaves:
    """Return the tangents that a forward rule gave, one for each array of the result; None is one of zeros.

    Raises:
        CustomRuleError: a ValueError; their structure is not that of the result, or they have other shapes.
    """
    try:
        found = [None if each is None else flatten(each)[0] for each in form.flatten_up_to(nested)]
    except ValueError:
        found = []
    if len(found) != form.num_leaves or not all(each is None or len(each) == 1 for each in found):
        raise errors.CustomRuleError(
            f"the rule of {name_of(function)} returned a tangent with the structure {outline(nested)}, and the result "
            f"has the structure {outline_of(form)}.\n"
            "Return a tangent with the structure of the result, and None for an array without one."
        )
    return [
        zeros_of(y) if each is None else _tangent(function, each[0], y) for each, y in zip(found, results, strict=True)
    ]


def _tangent(function: Callable[..., Any], found: Any, result: Any) -> Any:
    """Return the tangent that a forward rule gave for one array of the result, in its shape."""
    tangent = settled(found)
    pairs = zip(tangent.shape[::-1], result.shape[::-1], strict=False)
    fits = tangent.ndim <= result.ndim and all(size in (1, wanted) for size, wanted in pairs)
    if not fits or (tangent.dtype.kind == "c" and result.dtype.kind == "f"):
        raise errors.CustomRuleError(
            f"the rule of {name_of(function)} returned a tangent of shape {tangent.shape} and dtype {tangent.dtype}, "
            f"and the result has shape {result.shape} and dtype {result.dtype}.\n"
            "A tangent has the shape of the result, and is real if that is."
        )
    return tangent if tangent.shape == result.shape else np.broadcast_to(tangent, result.shape)


def _to_write_to(leaves: Leaves, is_traced: bool) -> Leaves:
    """Return leaves that a user's rule may overwrite, such as by `ct *= slope`, as copies of shared ones.

    They are tensors if a traced value may be written into them.
    """
    copies = list(map(own, leaves))
    return list(map(boxed, copies)) if is_traced or _are_traced(leaves) else copies


def _are_traced(leaves: Leaves) -> bool:
    return any(True for leaf in leaves for _ in running_layers(leaf))


def _closed_over(function: Callable[..., Any]) -> Leaves:
    """Return the leaves of the values that part of a rule and what it wraps close over, as far as they exist."""
    functions = [function]
    while hasattr(functions[-1], "__wrapped__"):
        functions.append(functions[-1].__wrapped__)
    found: list[Any] = []
    for cell in [cell for each in functions for cell in getattr(each, "__closure__", None) or ()]:
        with contextlib.suppress(ValueError):  # an empty cell
            found += flatten(cell.cell_contents)[0]
    return found


def _show_batches(leaves: Leaves) -> None:
    """Report the batched values that a rule will use to its observers, before it uses them."""
    for leaf in leaves:
        if any(layer._trace.is_map for layer in running_layers(leaf)):
            substituted(leaf)


_being_transposed: ContextVar[tuple[tuple[Any, Any], ...]] = ContextVar("being_transposed", default=())
"""Functions whose forward rules are being transposed in this context, each with the trace of the tangents."""


def _is_of_transposed(function: Callable[..., Any], leaves: Leaves) -> bool:
    """Return whether a forward rule that is being transposed calls its own function on tangents.

    Such a call is linear, and the rule would recurse without end. The function's code is transposed instead.
    """
    traces = [trace for each, trace in _being_transposed.get() if each is function]
    return bool(traces) and any(layer._trace in traces for leaf in leaves for layer in running_layers(leaf))


def _transposed(function: Callable[..., Any], pull: Linear, results: Leaves, arrays: Leaves) -> Linear:
    """Return the pushforward that belongs to a linear pullback."""

    def push(tangents: Leaves, variables: Variables) -> Leaves:
        def filled(cotangents: Leaves) -> Leaves:
            names = names_of_inputs(len(arrays), variables)
            found = zip(names, [*arrays, *variables], pull(cotangents, variables), strict=True)
            return [
                zeros_of(x) if ct is None else cotangent_of(function, name, ct, x.shape) * 1.0 for name, x, ct in found
            ]

        return vjp(filled, [zeros_of(x) for x in results])[1](list(tangents))[0]  # type: ignore[no-any-return]

    return push


class custom_jvp(_Custom[P, R]):  # noqa: N801
    """A function with a custom forward rule, in JAX's form; reverse mode follows by transposition.

    Args:
        function: takes and returns numbers, arrays or containers of them.

    Raises:
        CustomRuleError: a ValueError; no rule is defined.
        ClosureError: a TypeError; the function closes over a traced value that is not an argument.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> @fg.custom_jvp
        ... def cube(x):
        ...     return x**3
        >>> cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))
        >>> fg.grad(cube)(2.0), fg.grad(fg.grad(cube))(2.0)
        (Tensor(12.), Tensor(12.))
    """

    def defjvp(self, rule: Callable[..., Any]) -> None:
        """Define the rule.

        Args:
            rule: takes a tuple of arguments and a tuple of tangents, and is linear in the tangents; returns `(result,
                tangent of the result)`, with None for an array that has no tangent.

        Raises:
            CustomRuleError: a ValueError; `rule` does not take two arguments.
        """
        self._check_takes(rule, "rule(primals, tangents)")
        self._forward = rule

    def _rule(self, whole: Any, flat: Any, treedef: optree.PyTreeSpec, places: list[bool]) -> Rule:
        if not hasattr(self, "_forward"):
            raise errors.CustomRuleError(
                f"{name_of(self._function)} has no rule yet: define it with {name_of(self._function)}.defjvp(rule)."
            )

        def linearize(arrays: Leaves) -> Any:
            # The function with its rule, and not its code, so that the rule applies to lower traces, too.
            again: Any = self
            result = again(*whole(arrays))
            results, form = flat(result), flatten(result)[1]
            _show_batches(_closed_over(self._forward))

            def push(tangents: Leaves, variables: Variables) -> Leaves:
                is_traced = _are_traced([*arrays, *tangents, *_closed_over(self._forward)])
                given = [_to_write_to(leaves, is_traced) for leaves in (arrays, tangents)]
                pair = self._forward(*map(whole, given))
                nested = _pair(self._function, pair, "the rule", "(result, tangent)")[1]
                return _tangents(self._function, nested, form, results)

            def pull(cotangents: Leaves, variables: Variables) -> Leaves:
                zeros = [zeros_of(x) for x in arrays]
                moved = vjp(pushed, zeros)[1]
                return moved(list(cotangents))[0]  # type: ignore[no-any-return]

            def pushed(tangents: Leaves) -> Leaves:
                trace = tangents[0]._trace if tangents else None
                token = _being_transposed.set((*_being_transposed.get(), (self, trace)))
                try:
                    return [settled(x) * 1.0 for x in push(tangents, ())]
                finally:
                    _being_transposed.reset(token)

            return results, pull, push

        return Rule(self._function, lambda arrays: flat(self._function(*whole(arrays))), linearize)


class _CustomGradient(_Custom[P, Any]):
    def _rule(self, whole: Any, flat: Any, treedef: optree.PyTreeSpec, places: list[bool]) -> Rule:
        grad_fns: list[Callable[..., Any]] = []

        def run(arrays: Leaves) -> tuple[Any, Any]:
            pair = self._function(*whole(arrays))
            if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[1]):
                raise errors.CustomRuleError(
                    f"a function under custom_gradient returns (result, grad_fn), and {name_of(self._function)} "
                    f"returned {pair!r}.\nWrite `return result, grad_fn`, where grad_fn(dy) gives the gradients of the "
                    "arguments."
                )
            grad_fns[:] = [pair[1]]
            return pair

        def linearize(arrays: Leaves) -> Any:
            result, grad_fn = run(arrays)
            results = flat(result)
            known, is_traced = self._residuals(lambda: _closed_over(grad_fn), [*arrays, *results])

            def pull(cotangents: Leaves, variables: Variables) -> Leaves:
                keywords = {"variables": list(variables)} if variables else {}
                with known.in_use():
                    given = grad_fn(*_to_write_to(cotangents, is_traced), **keywords)
                if not variables:
                    return self._of_arrays(given, treedef, places)
                given, by_variable = self._parted(given, variables)
                return [*self._of_arrays(given, treedef, places), *by_variable]

            return results, pull, _transposed(self._function, pull, results, arrays)

        def check_variables(variables: Variables) -> None:
            if not _takes_variables(grad_fns[0]):
                names = ", ".join(repr(variable.name) for variable in variables)
                raise errors.ClosureError(
                    f"{name_of(self._function)} reads the variable{'s' * (len(variables) > 1)} {names}, and its "
                    "grad_fn has no parameter 'variables'; their gradients would be lost.\n"
                    "Write grad_fn(*dy, variables=None), which returns (gradients of the arguments, list of gradients "
                    "of the variables); or pass the value (or the variable) as an argument."
                )

        return Rule(self._function, lambda arrays: flat(run(arrays)[0]), linearize, True, check_variables)

    def _parted(self, given: object, variables: Variables) -> tuple[Any, list[Any]]:
        """Return the gradients of a grad_fn for the arguments, and those for the variables."""
        if not isinstance(given, (tuple, list)) or len(given) != 2 or not isinstance(given[1], (tuple, list)):
            raise errors.CustomRuleError(
                f"the rule of {name_of(self._function)}, which reads variables, was expected to return a pair: the "
                f"gradients of the arguments and a list of those of the variables. It returned {given!r:.200}."
            )
        if len(given[1]) != len(variables):
            raise errors.CustomRuleError(
                f"the rule of {name_of(self._function)} was expected to return {len(variables)} gradients of "
                f"variables ({', '.join(repr(v.name) for v in variables)}), but returned {len(given[1])}."
            )
        return given[0], list(given[1])


def _takes_variables(grad_fn: Any) -> bool:
    try:
        parameters = inspect.signature(grad_fn).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return any(p.kind is p.VAR_KEYWORD or (p.name == "variables" and p.kind in by_name) for p in parameters)


def custom_gradient(function: Callable[P, tuple[R, Callable[..., Any]]]) -> Callable[P, R]:
    """Define a function together with its reverse rule, in TensorFlow's form: it returns its result and the rule.

    If the function reads variables that are differentiated, the rule is called as `grad_fn(*dy, variables=[...])`, with
    the variables in the order of their creation. In the rule they have the values that they had when the function read
    them.

    The rule is the derivative for every transform that follows an argument or a variable, and second derivatives are
    those of the rule's code. It belongs to the run of the function that returned it; only under `vmap` the function is
    run again for the backward pass, and must give the same results then.

    Args:
        function: returns `(result, grad_fn)`; `grad_fn(*dy)` takes a cotangent for each result, and returns a cotangent
            for each argument, in a list or tuple if there are several; None means zero. With variables it returns a
            pair: these cotangents, and a list with a cotangent for each variable.

    Returns:
        A function that returns only the result.

    Raises:
        CustomRuleError: a ValueError; `function` returns something else, or the rule returns too few gradients.
        ClosureError: a TypeError; the function reads variables and `grad_fn` has no parameter `variables`, or it uses a
            traced value that is not an argument.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> @fg.custom_gradient
        ... def log1pexp(x):
        ...     e = np.exp(x)
        ...     return np.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))
        >>> fg.grad(log1pexp)(0.0)
        Tensor(0.5)

        >>> w = fg.Variable(2.0, name="w")
        >>> @fg.custom_gradient
        ... def scaled(x):
        ...     def grad_fn(dy, variables=None):
        ...         return dy * w, [dy * x]
        ...     return w * x, grad_fn
        >>> fg.implicit_gradients(lambda: scaled(5.0))()
        [(Tensor(5.), Variable(2., name='w'))]
    """
    return _CustomGradient(function)
