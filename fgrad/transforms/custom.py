"""Functions with derivative rules of their own, and functions that are run again instead of remembered.

    custom_vjp, custom_gradient    the reverse rule is given
    custom_jvp                     the forward rule is given
    checkpoint                     the ordinary rules, but nothing is kept: the backward pass runs it again

A call goes to the highest running trace among its arguments, as an operation does. There the rule is
applied to what is inside; so rules are ordinary code, seen by the traces below, and all of it works at
any order. In reverse mode one call becomes a few edges of the record (`_record_call`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

from fgrad import errors
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import Tensor, Trace, boxed, settle
from fgrad.core.trace import ForwardTrace, Parts, ReverseTrace, conform, pull_back
from fgrad.core.tree import flatten, unflatten
from fgrad.transforms.batch import BatchTrace, vmap
from fgrad.transforms.calls import Transformed, name_of
from fgrad.transforms.linearization import conjugate
from fgrad.transforms.record import RecordTrace
from fgrad.transforms.reverse import vjp
from fgrad.variable import watch_of

P = ParamSpec("P")
R = TypeVar("R")

_CALL = Primitive("call", lambda *args: args, masks=True)

Leaves = Sequence[Any]


@dataclass
class Rule:
    """A function of arrays with a derivative of its own.

    Attributes:
        function: the user's, for messages.
        call: from a list of arrays to a list of results.
        linearize: from a list of arrays to the results, the pullback (from the results' cotangents to
            those of the arrays, in the users' convention for complex numbers) and the pushforward.
    """

    function: Callable[..., Any]
    call: Callable[[Leaves], Leaves]
    linearize: Callable[[Leaves], tuple[Leaves, Callable[[Leaves], Leaves], Callable[[Leaves], Leaves]]]


def apply_rule(rule: Rule, leaves: Leaves) -> list[Any]:
    """Run a function with its own rule under the highest running trace among its arrays."""
    leaves = [settle(leaf) for leaf in leaves]
    traces = [leaf.tracing for leaf in leaves if type(leaf) is Tensor]
    trace: Trace | None = max(traces, key=lambda trace: trace.level, default=None)
    ours = [type(leaf) is Tensor and leaf.tracing is trace for leaf in leaves]
    if isinstance(trace, ReverseTrace):
        return _recorded(rule, trace, leaves, ours)
    if isinstance(trace, ForwardTrace):
        return _moved(rule, trace, leaves, ours)
    if isinstance(trace, BatchTrace):
        values = [leaf.value if own else leaf for leaf, own in zip(leaves, ours, strict=True)]
        return [trace.root(_array(x)) for x in apply_rule(_mapped(rule, ours), values)]
    if isinstance(trace, RecordTrace):

        def call(*each: Any) -> tuple[Any, ...]:
            return tuple(apply_rule(rule, each))

        return list(trace.record_call(name_of(rule.function), call, leaves))
    return list(rule.call(leaves))


def _linearized(rule: Rule, trace: Trace, leaves: Leaves, ours: Sequence[bool]) -> Any:
    """Return results, pullback and pushforward of a call one level below a trace."""
    lower = [leaf.value if own else leaf for leaf, own in zip(leaves, ours, strict=True)]
    results, pullback, pushforward = rule.linearize(lower)
    results = [_array(x) for x in results]
    if any(type(x) is Tensor and x.tracing.level >= trace.level for x in results):
        raise errors.ClosureError(
            f"{name_of(rule.function)} has a derivative rule of its own and uses a traced value that is not one of "
            "its arguments; the rule says nothing of its derivative.\n"
            "Pass the value (or the variable) as an argument, and return its derivative from the rule, too."
        )
    return results, pullback, pushforward, lower


def _recorded(rule: Rule, trace: ReverseTrace, leaves: Leaves, ours: Sequence[bool]) -> list[Any]:
    results, pullback, _, lower = _linearized(rule, trace, leaves, ours)
    if trace.persistent:
        # The rule is to see tensors of the trace, so that what it does is recorded in its turn.
        def pullback(cotangents: Leaves) -> Leaves:
            return rule.linearize(leaves)[1](cotangents)

    keys = [leaf.note if own else None for leaf, own in zip(leaves, ours, strict=True)]
    likes = [(x.shape, x.dtype) if own else None for x, own in zip(lower, ours, strict=True)]

    def pull(cotangents: Parts) -> dict[int, Any]:
        given = pullback([conjugate(cotangents[i]) for i in range(len(cotangents))])
        total: dict[int, Any] = {}
        for place, (key, like, found) in enumerate(zip(keys, likes, given, strict=True)):
            if key is not None and like is not None and found is not None:
                found = conjugate(_fitting(rule.function, place, found, *like))
                total[key] = total[key] + found if key in total else found
        return total

    return _record_call(trace, list(dict.fromkeys(key for key in keys if key is not None)), results, pull)


def _moved(rule: Rule, trace: ForwardTrace, leaves: Leaves, ours: Sequence[bool]) -> list[Any]:
    results, _, pushforward, lower = _linearized(rule, trace, leaves, ours)
    tangents = [leaf.note if own else _zeros(x) for leaf, own, x in zip(leaves, ours, lower, strict=True)]
    moved = pushforward(tangents)
    return [
        trace.root(x, _array(t).astype(x.dtype)) if x.dtype.kind in "fc" else boxed(x)
        for x, t in zip(results, moved, strict=True)
    ]


def _mapped(rule: Rule, mapped: Sequence[bool]) -> Rule:
    """Return the rule of many examples; where an array is the same for all, its cotangents are summed."""
    axes = [0 if own else None for own in mapped]

    def linearize(leaves: Leaves) -> Any:
        def pull(cotangents: Leaves) -> Leaves:
            def pull_one(leaves: Leaves, cotangents: Leaves) -> Leaves:
                found = rule.linearize(leaves)[1](cotangents)
                return [_zeros(x) if ct is None else ct for x, ct in zip(leaves, found, strict=True)]

            found = vmap(pull_one, in_axes=(axes, 0))(list(leaves), list(cotangents))
            return [ct if own else np.sum(ct, axis=0) for ct, own in zip(found, mapped, strict=True)]

        def push(tangents: Leaves) -> Leaves:
            def push_one(leaves: Leaves, tangents: Leaves) -> Leaves:
                return rule.linearize(leaves)[2](tangents)

            return vmap(push_one, in_axes=(axes, axes))(list(leaves), list(tangents))  # type: ignore[no-any-return]

        return call(leaves), pull, push

    def call(leaves: Leaves) -> Leaves:
        return vmap(rule.call, in_axes=(axes,))(list(leaves))  # type: ignore[no-any-return]

    return Rule(rule.function, call, linearize)


def _record_call(
    trace: ReverseTrace, parents: Sequence[int], results: Leaves, pull: Callable[[Any], dict[int, Any]]
) -> list[Any]:
    """Record a call as one step, and return its results as tensors of the trace.

    Args:
        trace: the trace to record it.
        parents: keys of the values that the call depends on.
        results: arrays, or tensors of lower traces.
        pull: from the cotangents of all results to those of the parents, by key.
    """
    call, together = trace.root(None).note, trace.root(None).note
    outputs = [trace.root(result) for result in results]
    likes = [(result.shape, result.dtype) for result in results]
    for place, parent in enumerate(parents):
        trace.record.append((call, place == 0, parent, functools.partial(_picked, parent), None, _CALL))
    trace.record.append((together, True, call, pull, None, _CALL))
    for place, output in enumerate(outputs):
        trace.record.append((output.note, True, together, functools.partial(Parts, likes, place), None, _CALL))
    return outputs


def _picked(key: int, cotangents: dict[int, Any]) -> Any:
    return cotangents.get(key, ZERO)


def _array(leaf: Any) -> Any:
    leaf = settle(leaf)
    return leaf if type(leaf) is Tensor or hasattr(leaf, "dtype") else np.asarray(leaf)[()]


def _zeros(like: Any) -> Any:
    like = _array(like)
    return np.zeros_like(like) if like.dtype.kind in "fc" else np.zeros(like.shape)


def _fitting(function: Any, place: int, found: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return what a rule gave for one array, in its dtype."""
    found = _array(found)
    if found.shape != shape:
        raise errors.CustomRuleError(
            f"the rule of {name_of(function)} returned an array of shape {found.shape} for array number {place} of "
            f"its arguments, which has shape {shape}."
        )
    return conform(found, shape, dtype)


# The public forms


class _Custom:
    """A function on containers with a rule of its own, in the forms of its subclasses."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise errors.NotCallableError(f"{type(self).__name__} takes a function, not {function!r}.")
        functools.update_wrapper(self, function, updated=())
        self._function = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        args = _positional(self._function, args, keywords)
        leaves, treedef = flatten(args)
        structure: list[Any] = []

        def flat(result: Any) -> Leaves:
            results, out_treedef = flatten(result)
            structure[:] = [out_treedef]
            return results

        places = [isinstance(x, (float, complex)) or hasattr(settle(x), "dtype") for x in leaves]

        def whole(arrays: Leaves) -> tuple[Any, ...]:
            rest = iter(arrays)
            filled = [next(rest) if place else x for x, place in zip(leaves, places, strict=True)]
            return unflatten(treedef, filled)  # type: ignore[no-any-return]

        arrays = [_array(x) for x, place in zip(leaves, places, strict=True) if place]
        results = apply_rule(self._rule(whole, flat, treedef, places), arrays)
        return unflatten(structure[0], results)

    def _rule(self, whole: Any, flat: Any, treedef: Any, places: list[bool]) -> Rule:
        raise NotImplementedError(type(self).__name__)

    def _of_arrays(self, given: Any, treedef: Any, places: list[bool]) -> list[Any]:
        """Return what a rule gave for the arguments, one entry for each array."""
        given = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        expected = len(treedef.children())
        if len(given) != expected:
            raise errors.CustomRuleError(
                f"the rule of {name_of(self._function)} was expected to return {expected} "
                f"gradient{'s' if expected != 1 else ''}, one per argument, but returned {len(given)}."
            )
        by_leaf: list[Any] = []
        for part, subtree in zip(given, treedef.children(), strict=True):
            by_leaf += [None] * subtree.num_leaves if part is None else subtree.flatten_up_to(part)
        return [each for each, place in zip(by_leaf, places, strict=True) if place]


def _positional(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Return all arguments of a call by position, as rules take them, defaults included."""
    try:
        bound = inspect.signature(function).bind(*args, **keywords)
    except ValueError:  # a built-in function does not tell
        return args
    if bound.kwargs:
        raise errors.CustomRuleError(
            f"{name_of(function)} has a rule of its own and takes {', '.join(bound.kwargs)} by keyword only; "
            "a rule gives one derivative per argument by position."
        )
    bound.apply_defaults()
    return bound.args


class custom_vjp(_Custom):  # noqa: N801  # used as a decorator
    """A function whose reverse rule is given, in JAX's form.

    Forward mode follows from the rule by transposition. Values of an outer transform may be closed over;
    those of the transform that meets the call must be arguments.

    Args:
        function: takes and returns numbers, arrays or containers of them.

    Raises:
        CustomRuleError: a ValueError, from the backward pass; the rule returns too few cotangents, or
            one of another shape.
        ClosureError: a TypeError; a traced value is closed over that is not an argument.

    Example:
        >>> import fgrad as fg
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
            fwd: takes what the function takes; returns `(result, residuals)`.
            bwd: takes the residuals and a cotangent of the result; returns a tuple with a cotangent per
                argument, None for zero.
        """
        self._fwd, self._bwd = fwd, bwd

    def _rule(self, whole: Any, flat: Any, treedef: Any, places: list[bool]) -> Rule:
        if not hasattr(self, "_fwd"):
            raise errors.CustomRuleError(
                f"{name_of(self._function)} has no rule yet: define it with {name_of(self._function)}.defvjp(fwd, bwd)."
            )

        def linearize(arrays: Leaves) -> Any:
            result, residuals = self._fwd(*whole(arrays))
            results, out_treedef = flatten(result)
            flat(result)

            def pull(cotangents: Leaves) -> Leaves:
                given = self._bwd(residuals, unflatten(out_treedef, cotangents))
                return self._of_arrays(given, treedef, places)

            return results, pull, _transposed(pull, results, arrays)

        return Rule(self._function, lambda arrays: flat(self._function(*whole(arrays))), linearize)


def _transposed(pull: Callable[[Leaves], Leaves], results: Leaves, arrays: Leaves) -> Callable[[Leaves], Leaves]:
    """Return the pushforward that belongs to a pullback, which is linear."""

    def push(tangents: Leaves) -> Leaves:
        def filled(cotangents: Leaves) -> Leaves:
            found = zip(arrays, pull(cotangents), strict=True)
            return [_zeros(x) if ct is None else _array(ct) * 1.0 for x, ct in found]

        return vjp(filled, [_zeros(x) for x in results])[1](list(tangents))[0]  # type: ignore[no-any-return]

    return push


class custom_jvp(_Custom):  # noqa: N801
    """A function whose forward rule is given, in JAX's form; reverse mode follows by transposition.

    Args:
        function: takes and returns numbers, arrays or containers of them.

    Raises:
        CustomRuleError: a ValueError; no rule is defined.
        ClosureError: a TypeError; a traced value is closed over that is not an argument.

    Example:
        >>> import fgrad as fg
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
            rule: takes a tuple of arguments and a tuple of tangents, linear in the latter; returns
                `(result, tangent of the result)`.
        """
        self._forward = rule

    def _rule(self, whole: Any, flat: Any, treedef: Any, places: list[bool]) -> Rule:
        if not hasattr(self, "_forward"):
            raise errors.CustomRuleError(
                f"{name_of(self._function)} has no rule yet: define it with {name_of(self._function)}.defjvp(rule)."
            )

        def linearize(arrays: Leaves) -> Any:
            results = flat(self._function(*whole(arrays)))

            def push(tangents: Leaves) -> Leaves:
                return flatten(self._forward(whole(arrays), whole(tangents))[1])[0]

            def pull(cotangents: Leaves) -> Leaves:
                zeros = [_zeros(x) for x in arrays]
                return vjp(lambda t: [_array(x) * 1.0 for x in push(t)], zeros)[1](list(cotangents))[0]  # type: ignore[no-any-return]

            return results, pull, push

        return Rule(self._function, lambda arrays: flat(self._function(*whole(arrays))), linearize)


class _CustomGradient(_Custom):
    def _rule(self, whole: Any, flat: Any, treedef: Any, places: list[bool]) -> Rule:
        def run(arrays: Leaves) -> tuple[Any, Any]:
            pair = self._function(*whole(arrays))
            if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[1]):
                raise errors.CustomRuleError(
                    f"a function under custom_gradient returns (result, grad_fn), and {name_of(self._function)} "
                    f"returned {pair!r}."
                )
            return pair

        def linearize(arrays: Leaves) -> Any:
            result, grad_fn = run(arrays)
            results = flat(result)

            def pull(cotangents: Leaves) -> Leaves:
                return self._of_arrays(grad_fn(*cotangents), treedef, places)

            return results, pull, _transposed(pull, results, arrays)

        return Rule(self._function, lambda arrays: flat(run(arrays)[0]), linearize)


def custom_gradient(function: Callable[P, tuple[R, Callable[..., Any]]]) -> Callable[P, R]:
    """Give a function its reverse rule, in TensorFlow's form: it returns its result and the rule.

    Args:
        function: returns `(result, grad_fn)`; `grad_fn(*dy)` takes a cotangent for each result, and
            returns a cotangent for each argument, in a list or tuple if there are several.

    Returns:
        A function that returns the result alone.

    Raises:
        CustomRuleError: a ValueError; `function` returns something else, or the rule too few gradients.
        ClosureError: a TypeError; a traced value or a variable is used that is not an argument.

    Example:
        >>> import fgrad as fg
        >>> @fg.custom_gradient
        ... def log1pexp(x):
        ...     e = np.exp(x)
        ...     return np.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))
        >>> fg.grad(log1pexp)(0.0)
        Tensor(0.5)
    """
    return _CustomGradient(function)


def _run_checkpoint(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    leaves, treedef = flatten((args, keywords))
    leaves = [settle(leaf) for leaf in leaves]
    traces = [leaf.tracing for leaf in leaves if type(leaf) is Tensor]
    trace = max(traces, key=lambda trace: trace.level, default=None)
    if not isinstance(trace, ReverseTrace):
        return function(*args, **keywords)

    watch = watch_of(trace)

    def rerun() -> tuple[list[Any], Any, list[Any]]:
        """Run the function on a record of its own, also when the trace has ended."""
        whole, trace.record = trace.record, []
        level, trace.level = trace.level, trace.rank
        try:
            if level == 0 and watch is not None:
                with watch:
                    return run()
            return run()
        finally:
            trace.record, trace.level = whole, level

    def run() -> tuple[list[Any], Any, list[Any]]:
        run_args, run_keywords = unflatten(treedef, leaves)
        results, out_treedef = flatten(function(*run_args, **run_keywords))
        return [_array(x) for x in results], out_treedef, trace.record

    results, out_treedef, record = rerun()
    made = {edge[0] for edge in record}
    ours = [type(x) is Tensor and x.tracing is trace for x in results]
    used = [edge[2] for edge in record] + [x.note for x, own in zip(results, ours, strict=True) if own]
    parents = [key for key in dict.fromkeys(used) if key not in made]

    def pull(cotangents: Parts) -> dict[int, Any]:
        if trace.persistent and trace.level:
            # The pass is recorded in its turn, and so is the run that it looks back on.
            start = len(trace.record)
            again, _, whole = run()
            record = whole[start:]
        else:
            again, _, record = rerun()
        seeds: dict[int, Any] = {}
        for place, x in enumerate(again):
            if type(x) is Tensor and x.tracing is trace:
                seeds[x.note] = seeds[x.note] + cotangents[place] if x.note in seeds else cotangents[place]
        return pull_back(record, seeds, guarded=True)

    values = [x.value if own else x for x, own in zip(results, ours, strict=True)]
    return unflatten(out_treedef, _record_call(trace, parents, values, pull))


def checkpoint(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that keeps only its arguments for the backward pass, which runs it again.

    The gradient is the same to the last bit; the memory is that of one run of the function, at the cost
    of a second one. Whatever the function uses, arguments or not, is differentiated. It must do the same
    when it runs again: fix the seeds of random numbers, and do not assign to variables.

    Args:
        function: takes and returns numbers, arrays or containers of them.

    Returns:
        A function with the same arguments and results.

    Raises:
        NotCallableError: a TypeError; `function` is not a function.

    Example:
        >>> import fgrad as fg
        >>> layer = fg.checkpoint(lambda x: np.sin(np.exp(x)))
        >>> fg.grad(lambda x: layer(layer(x)))(0.5) == fg.grad(lambda x: np.sin(np.exp(np.sin(np.exp(x)))))(0.5)
        Tensor(True)
    """
    return Transformed(_run_checkpoint, function, {})
