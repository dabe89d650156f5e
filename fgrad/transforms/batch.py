"""Batching: a function of one example is applied to a batch of examples, without a loop.

A batched tensor holds its examples along the first axis of its payload and shows the shape of one example. An operation
on batched tensors is one operation on all examples, by the primitive's batching rule; without such a rule it is a loop
over the examples, with one warning.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, overload

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.foreign import as_payload
from fgrad.core.overrides import refuse_labelled
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, apply, apply_call, box, boxed, own_handle, strip_ended
from fgrad.core.trace import Call, Trace, running
from fgrad.core.tree import flatten, outline, paths, unflatten
from fgrad.core.views import layout
from fgrad.errors.hints import names_keywords
from fgrad.errors.places import depth_of_user
from fgrad.transforms import draws
from fgrad.transforms.calls import Decorator, decorator, name_of, place_name
from fgrad.transforms.running import check_numbers, owned, run
from fgrad.typing import Array

P = ParamSpec("P")


class BatchTrace(Trace):
    """Runs each operation on all examples at once.

    Args:
        size: the number of examples.

    Attributes:
        drawn_until: the position of NumPy's global generator after the last draw that is the same for all examples by
            design.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.drawn_until: Any = None

    def root(self, value: Any) -> Tensor:
        """Return a tensor whose examples lie along the first axis of `value`."""
        return box(value, self, None)

    is_map = True
    belongs_to = "a vmap"

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        values, mapped = [], []
        for arg in args:
            mapped.append(ours := type(arg) is Tensor and arg._trace is self)
            values.append(arg._payload if ours else arg)
        if primitive.batch is None:
            _warn_of_loop(primitive.name)
            ans = _looped(primitive, values, mapped, self.size, metadata)
        else:
            ans = primitive.batch(values, mapped, self.size, metadata)
        return tuple(map(self.root, ans)) if type(ans) is tuple else box(ans, self, None)

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        ours = [type(leaf) is Tensor and leaf._trace is self for leaf in leaves]
        values = [leaf._payload if own else leaf for leaf, own in zip(leaves, ours, strict=True)]
        return [self.root(_array(x)) for x in apply_call(call.mapped(ours, self), values)]

    @override
    def shape_of(self, tensor: Any) -> tuple[int, ...]:
        return (self.renewed(tensor) if self.outdated else tensor)._payload.shape[1:]  # type: ignore[no-any-return]

    @override
    def known_of(self, tensor: Tensor) -> Sequence[Any]:
        return (tensor._payload,)

    @override
    def concrete(self, tensor: Tensor, how: str) -> Any:
        raise errors.ConcretizationError(how, errors.users_line())

    @override
    def plain_array(self, tensor: Tensor) -> Any:
        raise errors.ConcretizationError("np.asarray or np.array", errors.users_line())


@functools.cache
def _warn_of_loop(name: str) -> None:
    warnings.warn(
        f"vmap has no batching rule for {name} and runs it in a loop over the examples",
        errors.LoopWarning,
        stacklevel=depth_of_user(),
    )


def _looped(
    primitive: Primitive, values: list[Any], mapped: list[bool], size: int, metadata: Mapping[str, Any]
) -> tuple[Any, ...] | Array:
    results = [
        apply(primitive, [value[i] if ours else value for value, ours in zip(values, mapped, strict=True)], metadata)
        for i in range(size)
    ]
    if type(results[0]) is tuple:
        return tuple(np.stack(each) for each in zip(*results, strict=True))
    return np.stack(results)


def _axes_of(tree: object, axes: object, what: str) -> list[int | None]:
    """Return the axis of each leaf; `axes` may be a container that is a prefix of the tree.

    Raises:
        AxisError: `axes` is not a prefix of the tree.
    """
    if axes is None or isinstance(axes, int):
        return [axes] * len(flatten(tree)[0])
    if isinstance(axes, (tuple, list)) and isinstance(tree, (tuple, list)) and len(axes) == len(tree):
        return [axis for part, own in zip(tree, axes, strict=True) for axis in _axes_of(part, own, what)]
    if isinstance(axes, dict) and isinstance(tree, dict) and axes.keys() == tree.keys():
        return [axis for key in sorted(tree) for axis in _axes_of(tree[key], axes[key], what)]
    if isinstance(axes, (tuple, list)) and isinstance(tree, tuple):
        things = "argument" if what == "in_axes" else "result"
        raise errors.AxisError(
            f"{what} is {axes!r}, which does not match {len(tree)} {things}{'s' * (len(tree) != 1)}.\n"
            f"Give an axis for each {things}, None if it is the same for all examples, or one number for all."
        )
    raise errors.AxisError(
        f"{what} is {axes!r}, which does not match the containers {outline(tree)}.\n"
        "Give a number, None, or a container of them with the same structure."
    )


def _array(leaf: Any) -> Any:
    value = strip_ended(leaf)
    return own_handle(value) if type(value) is Tensor else as_payload(value)


def _leading(leaf: Any, axis: int, names: Callable[[], list[str]], place: int) -> Any:
    """Return an array with one of its axes moved to the front; `names` returns its name in messages.

    Raises:
        AxisError: there is no such axis.
    """
    refuse_labelled(leaf)
    value = _array(leaf)
    ndim = len(value.shape)
    if not -ndim <= axis < ndim:
        name = names()[place]
        instead = "in_axes=None for it if it is the same for all examples" + (
            ", or an array of numbers in place of a list of them" if name.endswith("]") else ""
        )
        raise errors.AxisError(
            f"in_axes names axis {axis} of {name}, which has shape {value.shape}.\n"
            f"Pass an array with a batch axis; or {instead}."
        )
    return _example_by_example(value if axis in (0, -ndim) else np.moveaxis(value, axis, 0))


def _example_by_example(values: Any) -> Any:
    """Return a batch with one example after the other in memory, so that results lie there as those of one example."""
    array = layout(values)
    if not isinstance(array, np.ndarray) or array.flags.c_contiguous:
        return values
    steps = list(map(abs, array.strides[array.ndim - len(values.shape) :]))
    if steps[0] == max(steps):
        return values
    axes = sorted(range(1, len(steps)), key=lambda axis: -steps[axis])
    ordered = np.transpose(values, (0, *axes))
    return np.transpose(np.copy(ordered, "C"), np.argsort((0, *axes)))


def _run_vmap(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    in_axes: object,
    out_axes: Any,
    of_users: bool = False,
) -> Any:
    """Run a function on all examples.

    Args:
        function, args, keywords: the call.
        in_axes, out_axes: as `vmap` takes them.
        of_users: the examples are the user's, and not directions of a derivative, for which shared random numbers are
            correct.
    """
    leaves, treedef = flatten((args, keywords))
    if type(in_axes) is int and not keywords:  # common case
        axes: list[int | None] = [in_axes] * len(leaves)
    else:
        axes = [*_axes_of(args, in_axes, "in_axes"), *_axes_of(keywords, 0, "in_axes")]
    names = functools.partial(_names, function, args, keywords)  # only computed for a message, since it is slow
    values = [
        leaf if axis is None else _leading(leaf, axis, names, place)
        for place, (leaf, axis) in enumerate(zip(leaves, axes, strict=True))
    ]
    size = _common_size(function, values, axes, names)
    trace = BatchTrace(size)
    name = name_of(function)
    traced = [
        value if axis is None else trace.root(trace.held(value, name)) for value, axis in zip(values, axes, strict=True)
    ]
    run_all = _run_examples if of_users else run
    result, results, out_treedef, _ = run_all(trace, function, lambda: unflatten(treedef, traced))
    if result is None:
        raise errors.NoResultError(
            f"{name_of(function)} returned None, so vmap has no result to batch; did you forget to return a "
            f"value from {name_of(function)}?"
        )
    check_numbers(function, results)
    if type(out_axes) is int:
        axes = [out_axes] * len(results)
    else:
        axes = _axes_of(unflatten(out_treedef, [0.0] * len(results)), out_axes, "out_axes")
    placed = [_placed(function, trace, leaf, axis) for leaf, axis in zip(results, axes, strict=True)]
    return unflatten(out_treedef, owned(placed, leaves))


def _run_examples(
    trace: BatchTrace, function: Callable[..., Any], arguments: Callable[[], Any]
) -> tuple[Any, list[Any], Any, Any]:
    """Run a function on the user's examples; warn if random numbers are the same for all of them."""
    maps, trace.drawn_until = running.maps, draws.position()
    try:
        running.maps = (*maps, trace)
        ran = run(trace, function, arguments)
    finally:
        running.maps = maps
    if draws.position() != trace.drawn_until:
        warnings.warn(
            f"{name_of(function)} has drawn random numbers from np.random under vmap: they are the same for all "
            "examples. Draw from fgrad.random.default_rng, which draws separately for each example; or draw before, "
            "with a batch axis, and pass the numbers as an argument",
            errors.SharedDrawsWarning,
            stacklevel=depth_of_user(),
        )
    return ran


def on_all(function: Callable[[list[Any]], Any], examples: list[Any]) -> Any:
    """Apply a function of one list to many lists, whose arrays lie along the first axes of `examples`."""
    trace = BatchTrace(len(examples[0]))
    _, results, treedef, _ = run(trace, function, lambda: ((list(map(trace.root, examples)),), {}))
    return unflatten(treedef, owned([_placed(function, trace, leaf, 0) for leaf in results], examples))


def _names(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> list[str]:
    """Return the names of the leaves of a call, for messages."""
    places: list[int | str] = [*range(len(args)), *sorted(keywords)]
    trees = [*args, *(keywords[name] for name in sorted(keywords))]
    named = zip(places, trees, strict=True)
    return [place_name(function, place) + path for place, tree in named for path in paths(tree)]


def _common_size(
    function: Callable[..., Any], values: list[Any], axes: list[int | None], names: Callable[[], list[str]]
) -> int:
    """Return the common size of the mapped axes.

    Raises:
        AxisError: nothing is mapped, or the sizes differ.
    """
    sizes = {place: values[place].shape[0] for place, axis in enumerate(axes) if axis is not None}
    if not sizes:
        raise errors.AxisError(f"vmap of {name_of(function)} has no argument to map over: in_axes is None for all.")
    if len(set(sizes.values())) > 1:
        known = names()
        listed = ", ".join(f"{size} for {known[place]}" for place, size in sizes.items())
        raise errors.AxisError(
            f"vmap of {name_of(function)} maps over axes of different sizes: {listed}.\n"
            "Give in_axes=None to arguments that are the same for all examples."
        )
    return int(next(iter(sizes.values())))


def _placed(function: Callable[..., Any], trace: BatchTrace, leaf: Any, axis: int | None) -> Any:
    """Return a result with its batch axis at position `axis`."""
    mapped = type(leaf) is Tensor and leaf._trace is trace
    if axis is None:
        if mapped:
            raise errors.AxisError(
                f"out_axes is None for a result of {name_of(function)} that differs between the examples.\n"
                "Give the position of the batch axis, such as 0."
            )
        return boxed(_array(leaf))
    value = leaf._payload if mapped else np.broadcast_to(_array(leaf), (trace.size, *np.shape(leaf)))
    ndim = len(value.shape)
    if not -ndim <= axis < ndim:
        raise errors.AxisError(
            f"out_axes is {axis} for a result of {name_of(function)} with {ndim} axes, including the batch axis.\n"
            f"Give one from {-ndim} to {ndim - 1}."
        )
    return boxed(value if axis in (0, -ndim) else np.moveaxis(value, 0, axis))


@overload
def vmap(function: np.ufunc, in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]: ...
@overload
def vmap(function: Callable[P, Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[P, Any]: ...
@overload
def vmap(function: None = None, in_axes: Any = 0, out_axes: Any = 0) -> Decorator[Any]: ...
@names_keywords
def vmap(function: Callable[..., Any] | None = None, in_axes: object = 0, out_axes: Any = 0) -> Any:
    """Return a function that applies `function` to a batch of examples at once.

    Random numbers that `function` draws from `np.random` or a NumPy generator are drawn once, and are the same for all
    examples (with a SharedDrawsWarning, which is a UserWarning, for `np.random`); a generator of `fgrad.random` draws
    separately for each example.

    Args:
        function: takes and returns numbers, arrays or containers of them. It cannot use values of mapped arguments in
            Python control flow (`if x > 0`).
        in_axes: the batch axis of the arguments: a number for all, or a tuple with one entry per argument, each a
            number, None (the same for all examples), or a container of them. Keyword arguments are mapped over their
            first axis.
        out_axes: the position of the batch axis in the results, likewise.

    Returns:
        A function of arguments with an additional axis, which returns results with an additional axis.

    Raises:
        AxisError: a ValueError; an axis does not exist, or the sizes of mapped axes differ.
        NoResultError: a ValueError; `function` returns None.
        ConcretizationError: a TypeError; `function` uses a value of a mapped argument.
        NotCallableError: a TypeError; `function` is not a function.

    Example:
        >>> x = np.arange(6.0).reshape(3, 2)
        >>> vmap(np.dot, in_axes=(0, None))(x, np.array([1.0, 10.0]))
        Tensor([10., 32., 54.])
    """
    return decorator(_run_vmap, function, in_axes=in_axes, out_axes=out_axes, of_users=True)
