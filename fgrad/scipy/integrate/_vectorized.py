"""Callbacks at many points together: in one batch, or in one for each path of the control flow.

    points = Points(function, shared, t, y)     the function is called as `function(t[i], y[i], *shared)`
    points.jacobians()                          its Jacobians with respect to `y`
    points.pulled(cotangents, ...)              cotangents of `t`, and of the shared inputs, summed over the points
    points.pushed(tangents, ...)                tangents of its results

For the derivative of a solution, all points at which a function was called are known, with their values. So one
batched call can replace them, as under `vmap`; but if the function needs a concrete value (`if t > 1`), there is
one. If all points have the same value, the function receives it; otherwise, it starts again with the points
that agree. `NotTogether` is raised if the points have almost nothing in common.

The results are ordinary traced arrays if the arguments are traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad.core.layers import concrete
from fgrad.core.tensor import Tensor, settled, strip_ended
from fgrad.transforms.batch import BatchTrace, vmap
from fgrad.transforms.forward import jvp
from fgrad.transforms.jacobians import jacobian
from fgrad.transforms.reverse import vjp
from fgrad.typing import Array

AT_ONCE = 8192
"""Largest size of a batch, which bounds the memory of the records."""

WAYS = 24
"""Maximal number of paths of the control flow; beyond it the function is called point by point."""

Function = Callable[..., Any]


class NotTogether(Exception):  # noqa: N818  # a choice of another way, and not an error
    """The points must be evaluated one by one."""


def first_that_works(*ways: Callable[[], Any]) -> Any:
    """Return the result of the first of several methods that does not raise `NotTogether`."""
    *others, last = ways
    for way in others:
        try:
            return way()
        except NotTogether:
            pass  # outside of the handler, so that later errors have no context
    return last()


class _Parted(BaseException):
    """The points of a batch have different concrete values. Not an Exception, so that user code does not catch it."""

    def __init__(self, answers: Array) -> None:
        super().__init__("the points of a batch take different branches")
        rows = np.reshape(answers, (len(answers), -1))
        _, which = np.unique(rows, axis=0, return_inverse=True)
        order, sizes = np.argsort(which.reshape(-1), kind="stable"), np.bincount(which.reshape(-1))
        self.groups = np.split(order, np.cumsum(sizes)[:-1])


class _PointsTrace(BatchTrace):
    """A batch with concrete values, as long as they are the same for all its points."""

    @override
    def concrete(self, tensor: Tensor, how: str) -> Any:
        if how == "formatting":
            return super().concrete(tensor, how)
        return _common(tensor._payload, concrete(tensor._payload, how))

    @override
    def plain_array(self, tensor: Tensor) -> Any:
        values = tensor._payload
        return _common(values, values._trace.plain_array(values) if type(values) is Tensor else values)


def _common(values: Array, plain: Array) -> Any:
    """Return the value that the points have in common."""
    if not np.equal(plain, plain[:1]).all():
        raise _Parted(plain)
    return values[0]


def in_one_batch(function: Function, arrays: Sequence[Any]) -> Any:
    """Return the results of a function, one array, for each entry along the first axis of some arrays."""
    size = arrays[0].shape[0]
    if size == 1:
        return _row(function(*(array[0] for array in arrays)))[None]
    trace = _PointsTrace(size)
    with trace:
        result = settled(function(*(trace.root(array) for array in arrays)))
    if type(result) is Tensor and result._trace is trace:
        return result._payload
    row = _row(result)
    return np.broadcast_to(row, (size, *row.shape))


def _row(result: Array) -> Array:
    result = settled(result)
    return result if type(result) is Tensor else np.asarray(result)


def pulled(function: Function, args: Sequence[Any], cotangent: Array) -> list[Any]:
    """Return the cotangents of arguments, and None for integer arguments."""
    places, of_moving, moving = _floating(function, args)
    found: list[Any] = [None] * len(args)
    if places:
        for place, each in zip(places, vjp(of_moving, *moving)[1](cotangent), strict=True):
            found[place] = strip_ended(each)
    return found


def pushed(function: Function, args: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return the tangent of a function's result; those of integer arguments are ignored."""
    places, of_moving, moving = _floating(function, args)
    if not places:
        return np.zeros_like(function(*args))
    return strip_ended(jvp(of_moving, moving, [tangents[place] for place in places])[1])


def _floating(function: Function, args: Sequence[Any]) -> tuple[list[int], Function, list[Any]]:
    places = [place for place, arg in enumerate(args) if arg.dtype.kind in "fc"]

    def of_moving(*moving: Array) -> Any:
        whole = list(args)
        for place, arg in zip(places, moving, strict=True):
            whole[place] = arg
        return function(*whole)

    return places, of_moving, [args[place] for place in places]


def in_groups(work: Function, arrays: Sequence[Any], groups: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Run a computation on groups of points, and return its results in the order of the points.

    Args:
        work: maps arrays of points to an array of results, along their first axes.
        arrays: the points.
        groups: the indices of points that may be evaluated together.

    Returns:
        The results, and the groups that were evaluated together.

    Raises:
        NotTogether: the groups would be too small.
    """
    queue, done, results, count = list(groups), [], [], arrays[0].shape[0]
    while queue:
        group = queue.pop(0)
        whole = len(group) == count
        try:
            results.append(strip_ended(work(*(array if whole else array[group] for array in arrays))))
            done.append(group)
        except _Parted as parted:
            queue = [group[part] for part in parted.groups] + queue
            if len(queue) + len(done) > WAYS + count // AT_ONCE:
                raise NotTogether from None
        except Exception:  # it may work point by point; otherwise the user's own error is raised then
            raise NotTogether from None
    if len(done) == 1:
        return results[0], done
    return np.concatenate(results)[np.argsort(np.concatenate(done))], done


class Points:
    """A function and the many points at which it is called.

    Args:
        function: takes a number, a vector and the shared inputs; returns a vector of the same length.
        shared: the shared inputs, which are arrays.
        times, states: the points, along their first axes.
    """

    def __init__(self, function: Function, shared: Sequence[Any], times: Array, states: Array) -> None:
        self._function, self._shared = function, list(shared)
        self._times, self._states = times, states
        self.count: int = states.shape[0]
        pieces = max(1, -(-self.count // AT_ONCE))
        self._groups = np.array_split(np.arange(self.count), pieces)

    def values(self) -> Any:
        """Return the function's results; this also works if the points cannot be batched."""
        function, shared = self._function, self._shared

        def of_group(t: Array, y: Array) -> Any:
            return in_one_batch(lambda t, y: function(t, y, *shared), (t, y))

        def of_each() -> Array:
            pairs = zip(self._times, self._states, strict=True)
            return np.stack([_row(function(t, y, *shared)) for t, y in pairs])

        return first_that_works(lambda: self._in_groups(of_group, self._times, self._states), of_each)

    def jacobians(self, directions: Sequence[Sequence[Any]] = ()) -> Any:
        """Return for each point the matrix of derivatives with respect to the state.

        Args:
            directions: tangents of the shared inputs; the derivatives along them are further columns.
        """
        n, count = self._states.shape[1], len(directions)
        units = [np.eye(n + count)[:, :n]]
        for place in range(len(self._shared)):
            along = np.stack([direction[place] for direction in directions]) if count else None
            like = self._shared[place]
            none = np.zeros((n, *like.shape), like.dtype)
            units.append(none if along is None else np.concatenate([none, along]))

        def of_one(t: Array, y: Array) -> Any:
            def along(*tangents: Array) -> Any:
                return pushed(lambda y, *shared: self._function(t, y, *shared), [y, *self._shared], tangents)

            if not count:
                return jacobian(lambda y: self._function(t, y, *self._shared), mode="forward")(y)
            return np.swapaxes(vmap(along)(*units), 0, 1)

        return self._in_groups(lambda t, y: in_one_batch(of_one, (t, y)), self._times, self._states)

    def pulled(self, cotangents: Array, times_move: bool) -> tuple[Any, list[Any]]:
        """Return the cotangents of the times, None if they are constant, and those of the shared inputs."""
        totals: list[Any] = [None] * len(self._shared)
        if not self._shared and not times_move:
            return None, totals

        def pull(t: Array, y: Array, cotangent: Array) -> Any:
            moving = [t, *self._shared] if times_move else self._shared
            found = pulled(self._together(t, y, times_move), moving, cotangent)
            of_times = found.pop(0) if times_move else t
            totals[:] = [b if a is None else a + b for a, b in zip(totals, found, strict=True)]
            return of_times

        of_times = self._in_groups(pull, self._times, self._states, cotangents)
        return of_times if times_move else None, totals

    def pushed(self, times: Array | None, shared: Sequence[Any]) -> Any:
        """Return the tangents of the results from those of the times (None: constant) and of the shared inputs."""

        def push(t: Array, y: Array, moving: Array) -> Any:
            if times is None:
                return pushed(self._together(t, y, False), self._shared, shared)
            return pushed(self._together(t, y, True), [t, *self._shared], [moving, *shared])

        return self._in_groups(push, self._times, self._states, self._times if times is None else times)

    def _together(self, t: Array, y: Array, times_move: bool) -> Function:
        """Return the function at some points, as a function of the times, if they move, and of the shared inputs."""

        def of_all(t: Array, *shared: Array) -> Any:
            return in_one_batch(lambda t, y: self._function(t, y, *shared), (t, y))

        return of_all if times_move else lambda *shared: of_all(t, *shared)

    def _in_groups(self, work: Function, *arrays: Array) -> Any:
        result, self._groups = in_groups(work, arrays, self._groups)
        return result
