"""User callbacks: called by SciPy with plain values, and differentiated with respect to all values that they use.

    users = UsersFunctions([fun, *events], args)
    users.inputs()                    the traced values in `args`, and those that the functions close over
    users.call(0, inputs, t, y)       the first function, with other arrays for these inputs
    users.run(solve, leaves)          `solve(plain functions, plain leaves)`, for each example of a batch
    as_now(options)                   a copy of SciPy's options, which the user may overwrite afterwards

SciPy calls native code if the user requests it. Derivatives call Python, mostly at many points together.

The values that a function closes over are unknown before it runs. So SciPy is called first; if a function returns
a traced result, the run is stopped, the traced inputs of the function at this point are determined, and SciPy is
called again with plain values in their place. This also handles branches that are reached late, and if nothing
is traced, nothing runs twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import collected
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, settled, strip_ended
from fgrad.core.trace import observed_by
from fgrad.core.tree import flatten, tree_map, unflatten
from fgrad.native.compiled import Compiled
from fgrad.native.values import OnValues, on_values
from fgrad.ops.creation import array
from fgrad.rules.arguments import OnlyRead, only_reading
from fgrad.rules.closures import Closure, Touches, followers
from fgrad.rules.closures import values_of as concrete_values_of
from fgrad.rules.kept import Kept
from fgrad.scipy.integrate._plain_closure import Twin
from fgrad.transforms.callbacks import check_returned
from fgrad.transforms.calls import name_of
from fgrad.typing import Array, Operand

Function = Callable[..., Any]


class _Used(Exception):  # noqa: N818  # a discovery, and not an error
    """A function used a traced value that was not known as an input."""

    def __init__(self, users: UsersFunctions, point: tuple[Any, ...]) -> None:
        super().__init__("a traced value is used")
        self.users, self.point = users, point


def as_now(options: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of SciPy's options: tolerance arrays are used again for derivatives.

    Functions are not copied; they are among the `UsersFunctions`.
    """
    kept = Kept()
    return {name: value if callable(value) else kept.now(value) for name, value in options.items()}


class UsersFunctions:
    """Callbacks with the same arguments, and extra arguments that are the same in every call.

    Args:
        functions: the user's functions.
        args: the extra arguments, which may contain containers.
        compile: whether SciPy gets native code for the first one, as for functions that the user has compiled.
    """

    def __init__(self, functions: Sequence[Function], args: tuple[Any, ...], compile: bool = False) -> None:
        self.functions = [each.function if isinstance(each, Compiled) else each for each in functions]
        self._on_values = [_on_values(each, compile and not place) for place, each in enumerate(functions)]
        self._leaves, self._treedef = flatten(args)
        self._leaves = [seen(strip_ended(leaf)) if type(leaf) in BOXES else leaf for leaf in self._leaves]
        self._places = [type(leaf) is Tensor for leaf in self._leaves]
        self._points: list[tuple[Any, ...]] = []
        self._closure = Closure(self._all, [])
        self._kept: Kept | None = None
        self._is_differentiated = False

    @property
    def _names(self) -> str:
        return ", ".join(map(name_of, self.functions))

    def _all(self, own: tuple[Any, ...], args: tuple[Any, ...]) -> list[Any]:
        return [function(*own, *args) for function in self.functions]

    def inputs(self) -> list[Any]:
        """Return the values with respect to which the functions are differentiated."""
        traced = [leaf for leaf, place in zip(self._leaves, self._places, strict=True) if place]
        return [*traced, *self._closure.values]

    def is_traced(self, leaves: Sequence[Any]) -> bool:
        """Return whether a trace follows one of the inputs, or one of some other values."""
        return bool(followers([*leaves, *self.inputs()]))

    @contextmanager
    def given(self, inputs: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Replace the inputs by other arrays inside the block; yields the extra arguments."""
        rest = iter(inputs)
        whole = [next(rest) if place else leaf for leaf, place in zip(self._leaves, self._places, strict=True)]
        kept = nullcontext() if self._kept is None else self._kept.given(self._names)
        with kept, self._closure.given(list(rest)):
            yield unflatten(self._treedef, whole)

    def call(self, number: int, inputs: Sequence[Any], *own: Operand) -> Any:
        """Call one of the functions with other arrays in place of the inputs."""
        with self.given(inputs) as args:
            return tree_map(settled, self.functions[number](*own, *args))  # the function may return one of the inputs

    def run(self, solve: Function, leaves: Sequence[Any]) -> Any:
        """Run a SciPy solver with plain values.

        Args:
            solve: maps the functions, which take their own arguments and return plain arrays, and plain
                leaves to a list of arrays. It is called again if a function turns out to use further inputs.
            leaves: other values on which the solution depends; they may be traced.

        Returns:
            The result of `solve`; for a batch, the arrays of all examples stacked in tensors.

        Raises:
            ConcretizationError: a TypeError; the leaves are being recorded, and have no values.
        """
        count = len(leaves)
        while True:
            inputs = self.inputs()
            values = values_of([*leaves, *inputs])
            self._is_differentiated = self.is_traced(leaves)
            try:
                found = for_each_example(lambda plain: self._run(solve, plain[:count], plain[count:]), values)
                if self._is_differentiated:
                    self._keep()
                return found
            except _Used as used:
                if used.users is not self:
                    raise
                point = used.point
            self._points.append(point)
            self._closure = Closure(self._all, self._points)
            if len(self.inputs()) == len(inputs):
                raise self._cannot_be_followed()

    def _keep(self) -> None:
        """Take a snapshot of the functions and extra arguments: they run again for derivatives."""
        if self._kept is None:
            self._kept = kept = Kept()
            self._on_values = [kept.now(each) for each in self._on_values]
            self.functions = [kept.now(each) for each in self.functions]
            self._leaves = [kept.now(leaf) for leaf in self._leaves]

    def run_plainly(self, solve: Function, leaves: Sequence[Any], inputs: Sequence[Any]) -> Any:
        """Run a SciPy solver again, for plain leaves and inputs; see `run`.

        Raises:
            ClosureError: a TypeError; a function uses more inputs than before.
        """
        try:
            return self._run(solve, leaves, inputs)
        except _Used as used:
            if used.users is not self:
                raise
        raise self._cannot_be_followed()

    def _cannot_be_followed(self) -> errors.ClosureError:
        return errors.ClosureError(
            f"{self._names} uses a traced value that is not one of its arguments, on a way that cannot be followed.\n"
            "Pass it as an argument, in `args`."
        )

    def _run(self, solve: Function, leaves: Sequence[Any], inputs: Sequence[Any]) -> Any:
        touches = Touches()
        with self.given(inputs) as args, observed_by(touches), OnlyRead(inputs, self._names):
            twins = [Twin(function) for function in self._on_values]
            if any(twin.function is not own for twin, own in zip(twins, self._on_values, strict=True)):
                try:
                    found = solve([self._plain(twin.function, args, touches) for twin in twins], leaves)
                    if all(twin.is_up_to_date() for twin in twins):
                        return found
                except _Used:
                    raise
                except Exception:  # if the plain copy is not the cause, the function itself raises again
                    pass
            return solve([self._plain(function, args, touches) for function in self._on_values], leaves)

    def _plain(self, function: Function, args: tuple[Any, ...], touches: Touches) -> Function:
        call = _bound(function, args)
        if self._is_differentiated:
            call = only_reading(call, name_of(function))

        def run(*own: Operand) -> Any:
            result = check_returned(function, collected(call(*own)))
            is_plain = type(result) is np.ndarray or not has_tensors(result)
            if is_plain and not touches.traces:
                return result
            if touches.traces or is_followed(result):
                raise _Used(self, (tuple(np.array(x) if isinstance(x, np.ndarray) else x for x in own), args))
            return plain(result)

        return run


def _on_values(function: Function, compile: bool) -> Function:
    """Return a function for SciPy; as native code it returns one array, whatever the user's function returns."""
    if isinstance(function, Compiled):
        return on_values(function)
    return on_values(_with_one_result(function)) if compile else function


def _bound(function: Function, args: tuple[Any, ...]) -> Function:
    """Return a function of its own arguments, which are numbers and vectors."""
    if not isinstance(function, OnValues):
        return lambda *own: function(*own, *args)
    call = function.bound(*args)
    # Native code takes arrays, and times may be Python or NumPy numbers: one form needs only one program.
    return lambda *own: call(*[x if type(x) is np.ndarray else np.array(x, np.float64) for x in own])


def _with_one_result(function: Function) -> Function:
    def run(*args: object) -> Any:
        result = collected(function(*args))
        return array(result) if type(result) in (list, tuple) and has_tensors(result) else result

    run.__name__ = name_of(function)
    return run


def seen(leaf: Any) -> Any:
    """Return a leaf after an operation that its trace can observe.

    A rule does not reveal its inputs, and the inputs of the running function may themselves be searched for.
    """
    return +leaf if type(leaf) is Tensor and leaf.dtype.kind != "b" else leaf


def has_tensors(tree: Any) -> bool:
    """Return whether the result of a function contains a tensor."""
    if type(tree) in (list, tuple):
        return any(type(item) in BOXES or (type(item) in (list, tuple) and has_tensors(item)) for item in tree)
    return type(tree) in BOXES


def is_followed(tree: Any) -> bool:
    """Return whether a running trace follows any of the leaves."""
    return any(type(strip_ended(leaf)) is Tensor for leaf in flatten(tree)[0])


def plain(tree: Any) -> Any:
    """Return containers with arrays in place of tensors that are not traced."""
    leaves, treedef = flatten(tree)
    return unflatten(treedef, [strip_ended(leaf) if type(leaf) in BOXES else leaf for leaf in leaves])


def values_of(leaves: Sequence[Any]) -> list[Any]:
    """Return leaves without the layers of differentiating traces; those of batches are kept.

    Raises:
        ConcretizationError: one of them is being recorded.
    """
    if any(trace.is_program for trace in followers(leaves)):
        raise errors.ConcretizationError("an adaptive solver", errors.users_line())
    return concrete_values_of(leaves)


def for_each_example(function: Callable[[Sequence[Any]], Sequence[Any]], leaves: Sequence[Any]) -> list[Any]:
    """Run a function of values; for batched leaves, example by example.

    Args:
        function: maps a list of plain leaves to a list of arrays. The lengths may differ between examples:
            the last entry along the first axis is repeated up to the largest length.
        leaves: values, and batches of them.
    """
    leaves = [strip_ended(leaf) for leaf in leaves]
    traces = {leaf._trace for leaf in leaves if type(leaf) is Tensor}
    if not traces:
        return list(function(leaves))
    trace: Any = max(traces, key=lambda trace: trace.level)
    ours = [type(leaf) is Tensor and leaf._trace is trace for leaf in leaves]
    found = [
        for_each_example(function, [leaf._payload[i] if own else leaf for leaf, own in zip(leaves, ours, strict=True)])
        for i in range(trace.size)
    ]
    return [trace.root(np.stack(_as_long_as_the_longest(each))) for each in zip(*found, strict=True)]


def batches_of(leaves: Sequence[Any]) -> list[Any]:
    """Return the traces of the batches that leaves are of, the innermost first."""
    found = set()
    for leaf in leaves:
        while type(leaf := strip_ended(leaf)) is Tensor:
            found.add(leaf._trace)
            leaf = leaf._payload
    return sorted(found, key=lambda trace: -trace.level)


def unbatched(value: Array, traces: Sequence[Any]) -> Any:
    """Return a value of batches as an array, whose first axes are those of the batches, the outermost first."""
    for trace in traces:
        value = strip_ended(value)
        if type(value) is Tensor and value._trace is trace:
            value = value._payload
        else:
            value = np.broadcast_to(value, (trace.size, *np.shape(value)))
    return strip_ended(value)


def batched(array: Array, traces: Sequence[Any]) -> Array:
    """Return a value of batches from the array that `unbatched` makes of it."""
    for trace in reversed(traces):
        array = trace.root(array)
    return array


def _as_long_as_the_longest(arrays: Sequence[Any]) -> list[Any]:
    if not arrays[0].shape:
        return list(arrays)
    longest = max(len(array) for array in arrays)
    last = [array[-1:] if len(array) else np.zeros((1, *array.shape[1:]), array.dtype) for array in arrays]
    return [
        np.concatenate([array, np.repeat(end, longest - len(array), axis=0)]) if len(array) < longest else array
        for array, end in zip(arrays, last, strict=True)
    ]
