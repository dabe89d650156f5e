"""Forward mode: the product of a Jacobian with a tangent, computed along with the value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.foreign import as_payload
from fgrad.core.forward import ForwardTrace
from fgrad.core.overrides import refuse_masked
from fgrad.core.tensor import Tensor, as_now, boxed, strip_ended
from fgrad.core.tree import flatten, outline_of, paths, unflatten
from fgrad.core.views import like_argument
from fgrad.errors.hints import names_keywords
from fgrad.transforms.calls import Transformed, name_of
from fgrad.transforms.linearization import described, differentiable, instead_of
from fgrad.transforms.running import is_array_of_others, is_number, owned, owned_tree, run_connected, untraced


@names_keywords
def jvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Return the value of a function and its derivative along tangents of its arguments.

    Args:
        function: a function of the primals; returns numbers, arrays or containers of them.
        primals: the arguments, in a tuple or list.
        tangents: a direction for each primal, of its structure and shapes.
        has_aux: `function` returns `(result, aux)`.

    Returns:
        `(value, tangent)`, of the same structure; with `has_aux` also the aux.

    Raises:
        TangentError: a ValueError; primals and tangents differ in structure or shape.
        IntegerInputError, NonNumericInputError: TypeErrors; a primal is an integer, or not a number.
        NoResultError: a ValueError; `function` returns None.
        NotCallableError: a TypeError; `function` is not a function.

    Example:
        >>> jvp(lambda x, y: x * y, (2.0, 3.0), (1.0, 10.0))
        (Tensor(6.), Tensor(23.))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise errors.TangentError("jvp takes primals and tangents each in a tuple: jvp(f, (x,), (t,)).")
    options = {"tangents": tangents, "has_aux": has_aux}
    return Transformed(_run_jvp, function, options, is_kept=False)(*primals)


def _run_jvp(
    function: Callable[..., Any],
    primals: tuple[Any, ...],
    keywords: dict[str, Any],
    tangents: Sequence[Any],
    has_aux: bool,
) -> tuple[Any, Any, Any] | tuple[Any, Any]:
    leaves, treedef = flatten(primals)
    tangent_leaves, tangent_treedef = flatten(tuple(tangents))
    if treedef != tangent_treedef:
        raise errors.TangentError(
            f"the primals of jvp have the structure {outline_of(treedef)}, and the tangents "
            f"{outline_of(tangent_treedef)}; they must be equal."
        )
    trace = ForwardTrace()
    inputs = [
        _moving(function, trace, lambda place=place: paths(primals)[place], leaf, tangent)  # type: ignore[misc]
        for place, (leaf, tangent) in enumerate(zip(leaves, tangent_leaves, strict=True))
    ]
    if any([x is None for x in inputs]):  # noqa: C419  # a generator takes twice the time
        rest = iter(inputs)
        for place, primal in enumerate(primals):
            own = flatten(primal)[0]
            refuse_no_numbers("jvp", function, f"primals[{place}]", own, [next(rest) for _ in own])
        inputs = [leaf if x is None else x for leaf, x in zip(leaves, inputs, strict=True)]
    outputs, moved, out_treedef, aux = _pushed(function, trace, lambda: (unflatten(treedef, inputs), {}), has_aux)
    given = [*leaves, *tangent_leaves]
    value = unflatten(out_treedef, owned([untraced(leaf) for leaf in outputs], given))
    tangent = unflatten(out_treedef, owned(moved, given))
    return (value, tangent, owned_tree(aux, given)) if has_aux else (value, tangent)


def _pushed(
    function: Callable[..., Any], trace: ForwardTrace, arguments: Callable[[], tuple[Any, Any]], has_aux: bool = False
) -> tuple[list[Any], list[Any], Any, Any]:
    """Run a function on inputs of a forward trace; return its results, their tangents, the structure, and aux."""
    outputs, treedef, aux = run_connected(trace, function, arguments, has_aux=has_aux)
    tangents = [trace.tangent_of(leaf) if trace.follows(leaf) else np.zeros_like(leaf) for leaf in outputs]
    moved = [untraced(boxed(t)) for t in tangents]
    return outputs, moved, treedef, aux


def pushforward(function: Callable[..., Any], inputs: Sequence[Any], directions: Sequence[Any]) -> Any:
    """Return the tangent of the result of a function of floating-point arrays, along a direction for each of them."""
    trace = ForwardTrace()
    held = [trace.held(x, name_of(function)) for x in inputs]
    _, moved, treedef, _ = _pushed(function, trace, lambda: (map(trace.root, held, directions), {}))
    return unflatten(treedef, moved)


def _moving(
    function: Callable[..., Any], trace: ForwardTrace, path: Callable[[], str], leaf: object, tangent: object
) -> Any:
    """Return a primal as an input of the trace, with its tangent checked; None if it is not a number.

    Args:
        path: returns its name in messages.
    """
    found = input_along("jvp", function, lambda what: f"{what}{path()}", leaf, tangent)
    if found is None:
        return None
    return like_argument(trace.root(trace.held(found[0], name_of(function)), found[1]), leaf)


def refuse_no_numbers(
    transform: str, function: Callable[..., Any], name: str, leaves: Sequence[Any], inputs: Sequence[Any]
) -> None:
    """Raise if an argument has leaves, and none is an input: the derivative would be that of a constant.

    Args:
        transform, function, name: as for `input_along`, and the name of the argument.
        leaves: its leaves.
        inputs: what is traced for each leaf; None for one that is not a number.

    Raises:
        NonNumericInputError: a TypeError.
    """
    if leaves and all(x is None for x in inputs):
        raise errors.NonNumericInputError(
            f"{transform} of {name_of(function)}: {name} is {described(leaves[0])}, which is not a number.\n"
            f"{instead_of(leaves[0], 'Fix the argument with a lambda')}."
        )


def input_along(
    transform: str, function: Callable[..., Any], name: Callable[[str], str], leaf: object, tangent: Any
) -> Any:
    """Return an input and its tangent as arrays or tensors, or None if it is not a number.

    Args:
        transform: the name of the transform in messages.
        function: the user's function, for messages.
        name: maps "primals" or "tangents" to the name of the input or tangent in messages.
        leaf, tangent: the user's input and tangent; None as tangent means ones.

    Raises:
        IntegerInputError: the input has no derivative.
        NonNumericInputError: it is an array of another library, or of text or objects.
        TangentError: the tangent does not match.
    """
    primal = differentiable(leaf)
    if primal is None:
        if not (is_number(leaf) or is_array_of_others(leaf)):
            return None
        if getattr(getattr(leaf, "dtype", None), "kind", "i") not in "biu":
            raise errors.NonNumericInputError(
                f"{transform} of {name_of(function)}: {name('primals')} is {described(leaf)}, which has no tangent.\n"
                f"{instead_of(leaf, 'Fix the argument with a lambda')}."
            )
        raise errors.IntegerInputError(
            f"{transform} of {name_of(function)}: {name('primals')} is an integer or boolean, which has no tangent.\n"
            "Pass a floating-point number, or fix the argument with a lambda."
        )
    refuse_masked(tangent)
    tangent = np.ones_like(primal) if tangent is None else strip_ended(tangent)
    tangent = tangent if type(tangent) is Tensor else as_payload(tangent)
    if tangent.dtype is primal.dtype and tangent.shape == primal.shape:  # common case
        return as_now(primal), as_now(tangent)
    if tangent.shape != primal.shape:
        raise errors.TangentError(
            f"{name('tangents')} has shape {tangent.shape}, and {name('primals')} has shape {primal.shape}; "
            "they must be equal."
        )
    if not np.can_cast(tangent.dtype, primal.dtype, "same_kind"):
        raise errors.TangentError(
            f"{name('tangents')} has dtype {tangent.dtype}, which cannot be cast to that of {name('primals')}, "
            f"{primal.dtype}."
        )
    return as_now(primal), as_now(tangent.astype(primal.dtype))
