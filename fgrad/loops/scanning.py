"""Loops along arrays that stack an output of each iteration.

scan(f, init, xs)    each iteration depends on the previous one
map(f, xs)           independent iterations
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad import errors
from fgrad.core.overrides import refuse_masked
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, own_handle, strip_ended
from fgrad.core.tree import flatten, paths, tree_map, unflatten
from fgrad.errors.hints import names_keywords
from fgrad.graphs.loop import Along
from fgrad.loops.avals import WEAK, Form, own, strong
from fgrad.loops.fori_while import check_function, checked_count
from fgrad.loops.recorded import as_loop, is_recorded
from fgrad.ops.shaping import stack
from fgrad.rules.checkpoint import checkpoint as checkpointed
from fgrad.rules.closures import bound_now
from fgrad.rules.randomness import RandomStates, generators_of
from fgrad.transforms.calls import name_of
from fgrad.typing import DTypeLike

if TYPE_CHECKING:
    import optree


class _Scan:
    """A scan of a function along arrays.

    Args:
        function: the user's function.
        init: the carry before the first iteration.
        treedef: the structure of the elements for an iteration.
    """

    def __init__(self, function: Callable[..., Any], init: Any, treedef: optree.PyTreeSpec) -> None:
        self._function, self._treedef = function, treedef
        self._carries = Form("the carry", function, init)
        self._outputs: Form | None = None
        self._is_silent = False  # the output is None

    def iterations(self, carry: object, xs: Sequence[Any], indices: range) -> tuple[Any, list[list[Any]]]:
        """Return the carry after some iterations, and the leaves of the output of each; no rows if it is None."""
        rows = []
        for x in _elements(xs, self._treedef, indices):
            carry, y = self.iteration(carry, x)
            if y is not None or not self._is_silent:
                rows.append(self.row(y))
        return carry, rows

    def iteration(self, carry: object, x: Any) -> tuple[Any, Any]:
        """Return the next carry, and the output of one iteration."""
        result = self._function(carry, x)
        carry, y = result if type(result) is tuple and len(result) == 2 else self._pair_of(result)
        return self._carries.fitted(carry), y

    def _pair_of(self, result: Any) -> tuple[Any, Any]:
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise errors.OutputError(
                f"the function of scan must return a pair, the carry and an output, but {name_of(self._function)} "
                f"returned {result!r:.100}.\nWithout an output, return (carry, None)."
            )
        return result[0], result[1]

    def row(self, y: Any) -> list[Any]:
        """Return the leaves of an output, copied where the next iteration could write into them."""
        if self._outputs is None:
            self._outputs = Form("the output", self._function, y)
            self._is_silent = y is None
        else:
            self._outputs.fitted(y)
        return [self._unaliased(leaf) for leaf in self._outputs.leaves]

    def _unaliased(self, leaf: Any) -> Any:
        if type(leaf) is np.ndarray:
            is_shared = leaf.base is not None or self._is_carry(leaf)
            return leaf.copy() if is_shared else leaf
        if type(leaf) in BOXES and (type(leaf) is not Tensor or leaf._alias is not None or self._is_carry(leaf)):
            value = strip_ended(leaf)
            return own_handle(value) if type(value) is Tensor else np.array(value)
        return leaf

    def _is_carry(self, leaf: object) -> bool:
        return any([leaf is each for each in self._carries.leaves])  # noqa: C419  # twice as fast

    def stacked(self, rows: Sequence[list[Any]]) -> list[Any]:
        """Return the leaves of the outputs, each stacked over all iterations along its first axis."""
        outputs = self._outputs
        facts = () if outputs is None else zip(outputs.kinds, outputs.began_weak, strict=True)
        columns = zip(zip(*rows, strict=True), facts, strict=True)
        return [_stacked(list(column), kind[1], is_weak) for column, (kind, is_weak) in columns]

    def nested(self, outputs: Iterable[Any]) -> Any:
        """Return leaves with the structure of the function's output."""
        return None if self._outputs is None else unflatten(self._outputs.treedef, outputs)

    def without_iterations(self, carry: object, xs: Sequence[Any]) -> tuple[Any, Any]:
        """Return the carry, and empty outputs, whose shapes and dtypes are determined by a discarded iteration."""
        examples = [np.zeros(x.shape[1:], x.dtype)[None] for x in xs]
        with np.errstate(all="ignore"), RandomStates(self._function).put_back():
            self.iterations(own(carry), examples, range(1))
        facts = () if self._outputs is None else zip(self._outputs.kinds, self._outputs.leaves, strict=True)
        empty = [np.zeros((0, *shape), _dtype(dtype, [leaf])) for (shape, dtype), leaf in facts]
        return self._carries.fitted(carry), self.nested(empty)

    def in_segments(self, carry: object, xs: Sequence[Any], indices: range, size: int) -> tuple[Any, Any]:
        """Return the carry after all iterations, and the outputs; only the ends of each segment are stored."""
        function = self._function
        self._function = bound_now(function)  # with its current closure, since the backward pass reruns segments
        generators = generators_of(function)
        segments = []
        for first in range(0, len(indices), size):
            segment_range = indices[first : first + size]
            start, stop = min(segment_range), max(segment_range) + 1
            segment = self._segment(range(stop - start)[:: segment_range.step])
            carry, stacked = segment(carry, [x[start:stop] for x in xs], generators)
            segments.append(stacked)
        segments = segments[:: indices.step]
        joined = [np.concatenate(parts) for parts in zip(*segments, strict=True)]
        return carry, self.nested(joined)

    def _segment(self, indices: range) -> Callable[..., Any]:
        """Return a function of the carry and the arrays that runs some iterations, and again in the backward pass.

        It takes the generators that the user's function uses as arguments, so that checkpoint restores their states.
        """

        def segment(carry: object, xs: Sequence[Any], generators: Sequence[Any]) -> Any:
            carry, rows = self.iterations(own(carry), xs, indices)
            return carry, self.stacked(rows[:: indices.step])

        segment.__name__ = name_of(self._function)
        return checkpointed(segment)


def _elements(xs: Sequence[Any], treedef: optree.PyTreeSpec, indices: range) -> Iterator[Any]:
    """Return copies of the elements of the iterations at some indices, with the structure of the arrays."""
    if treedef == _NUMBER:
        (x,) = xs
        if type(x) is np.ndarray and x.ndim == 1 and len(x) == len(indices):
            return iter(x[:: indices.step])  # three times as fast
        return (_element(x, i) for i in indices)
    return (unflatten(treedef, [_element(x, i) for x in xs]) for i in indices)


def _element(x: Any, index: int) -> Any:
    element = x[index]
    if type(element) is Tensor:
        return own_handle(element)
    return element.copy() if type(element) is np.ndarray else element


_NUMBER = flatten(0.0)[1]


def _stacked(column: list[Any], dtype: DTypeLike, is_weak: bool) -> Any:
    """Return a column of leaves stacked along a new first axis; Python numbers get the dtype of the others."""
    if is_weak and dtype is not WEAK:
        dtype = np.result_type(dtype, *[kind(0) for kind in {int, float, complex} & {type(x) for x in column}])
    if not any(type(leaf) in BOXES for leaf in column):
        return np.array(column, None if dtype is WEAK else dtype)
    if is_weak:
        dtype = _dtype(dtype, column)
        column = [strong(leaf, dtype) for leaf in column]
    return stack(column)


def _dtype(dtype: DTypeLike, column: list[Any]) -> Any:
    """Return a dtype; for weak leaves the dtype of an array of them."""
    return np.result_type(*[_own_dtype(leaf) for leaf in column]) if dtype is WEAK else dtype


def _own_dtype(leaf: object) -> Any:
    return leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype


@names_keywords
def scan(
    f: Callable[[Any, Any], Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool | int = False,
) -> tuple[Any, Any]:
    """Return the final carry of a function scanned along arrays, and the stacked outputs.

    The same as this loop, with a carry and outputs that keep their containers, shapes and dtypes:

        ys = []
        for x in xs:
            init, y = f(init, x)
            ys.append(y)
        return init, np.stack(ys)

    In a recording, such as by `fg.compile`, a single iteration is recorded, and a single one of a backward pass.
    Iterations that assign to variables or draw random numbers are recorded one by one.

    Args:
        f: a function of the carry and an element of `xs`, which returns the next carry and an output; None is an output
            without leaves. If there are no iterations, it runs once on zeros, to determine its outputs. It may write
            into the carry and the element: `init` and `xs` do not change.
        init: the carry before the first iteration: numbers, arrays or containers of them. Python numbers take their
            dtype from the first iteration.
        xs: an array, or a container of arrays, whose first axes have the same size; `f` receives their elements in the
            same container, or None if `xs` is None.
        length: the number of iterations, required without `xs`.
        reverse: iterate from the last element to the first; outputs have the positions of their elements.
        checkpoint: True stores the residuals of a backward pass only for about the square root of the number of
            iterations, and reruns those between, as `fg.checkpoint` does; a number sets how many iterations lie
            between.

    Returns:
        The carry after the last iteration, and a container of the outputs of all iterations, stacked along a first
        axis.

    Raises:
        StructureError: a TypeError; `f` returns other containers than before, or something other than numbers.
        ShapeError: a ValueError; it returns another shape; or arrays in `xs` have no first axis, or different sizes.
        DtypeError: a TypeError; it returns another dtype.
        OutputError: a TypeError; it does not return a pair.
        ParameterError: a ValueError; `length` is missing, or does not match `xs`; or `checkpoint` is not a number of
            iterations.
        NotCallableError: a TypeError; `f` is not a function, or not one of the carry and an element.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def step(total, x):
        ...     total = total + x
        ...     return total, total * total
        >>> fg.scan(step, 0.0, np.array([1.0, 2.0, 3.0]))
        (np.float64(6.0), array([ 1.,  9., 36.]))
        >>> fg.grad(lambda xs: fg.scan(step, 0.0, xs)[0])(np.array([1.0, 2.0, 3.0]))
        Tensor([1., 1., 1.])
    """
    check_function("scan", "f", f, "carry", "x")
    leaves, treedef = flatten(xs)
    count = _count(xs, leaves, length)
    carry = own(init)
    loop = _Scan(f, carry, treedef)
    arrays = [x if type(x) in BOXES else np.asarray(x) for x in leaves]
    indices = range(count)[:: -1 if reverse else 1]
    if not count:
        return loop.without_iterations(carry, arrays)
    size = min(_segment_size(checkpoint, count), count)
    if is_recorded([*flatten(carry)[0], *arrays]):
        program = _Program(f, treedef, reverse)
        found = program.in_segments(carry, arrays, count, size) if size else program.run(carry, arrays, count)
        if found is not None:
            return found
    if size:
        return loop.in_segments(carry, arrays, indices, size)
    carry, rows = loop.iterations(carry, arrays, indices)
    return carry, loop.nested(loop.stacked(rows[:: indices.step]))


class _Program:
    """A scan in a recording.

    Args:
        function: the user's function.
        treedef: the structure of the elements for an iteration.
        reverse: whether iterations run from the last element to the first.
    """

    def __init__(self, function: Callable[..., Any], treedef: optree.PyTreeSpec, reverse: bool) -> None:
        self._function, self._treedef, self._reverse = function, treedef, reverse

    def run(
        self,
        carry: Any,
        xs: Sequence[Any],
        count: int,
        function: Callable[..., Any] | None = None,
        recomputes: bool = False,
    ) -> tuple[Any, Any] | None:
        """Return the last carry and the outputs; None if iterations must be recorded one by one."""
        function = function or self._function
        loops = []

        def prepared(carry: object) -> Callable[[Any, Any], Any]:
            loop = _Scan(function, carry, self._treedef)
            loops.append(loop)

            def iteration(carry: object, elements: Sequence[Any]) -> Any:
                after, y = loop.iteration(carry, unflatten(self._treedef, elements))
                return after, loop.row(y)

            return iteration

        along = Along(count - 1, -1) if self._reverse else Along()
        found = as_loop(function, prepared, carry, xs, along, count, recomputes=recomputes)
        return None if found is None else (found[0], loops[-1].nested(found[1]))

    def in_segments(self, carry: object, xs: Sequence[Any], count: int, size: int) -> tuple[Any, Any] | None:
        """Return the same, storing only the ends of each segment of iterations."""
        function = self._function

        def segment(carry: object, xs: object) -> tuple[Any, Any]:
            return scan(function, carry, xs, length=size, reverse=self._reverse)

        segment.__name__ = name_of(function)
        number, rest = divmod(count, size)
        full, tail = slice(count - rest), slice(count - rest, None)
        if self._reverse:
            full, tail = slice(rest, None), slice(rest)
        blocks = [x[full].reshape(number, size, *x.shape[1:]) for x in xs]
        found = self.run(carry, blocks, number, segment, recomputes=True)
        if found is None or not rest:
            return found and (found[0], tree_map(_unblocked, found[1]))
        last = self.run(found[0], [x[tail] for x in xs], rest)
        if last is None:
            return None
        outputs = zip(*(flatten(each)[0] for each in (tree_map(_unblocked, found[1]), last[1])), strict=True)
        pairs = [each[::-1] if self._reverse else each for each in outputs]
        return last[0], unflatten(flatten(last[1])[1], [np.concatenate(each) for each in pairs])


def _unblocked(y: Any) -> Any:
    return y.reshape(y.shape[0] * y.shape[1], *y.shape[2:])


def _count(xs: object, leaves: list[Any], length: object) -> int:
    """Return the number of iterations for arrays.

    Raises:
        ShapeError, ParameterError: ValueErrors; it is undefined, or the sizes differ.
    """
    names = ["xs" + path for path in paths(xs)]
    for name, leaf in zip(names, leaves, strict=True):
        refuse_masked(leaf)
        if not getattr(leaf, "shape", ()):
            raise errors.ShapeError(
                f"{name} is {leaf!r:.100}, which has no axis to iterate over.\nPass an array, such as "
                "np.array([1.0, 2.0]) in place of the list [1.0, 2.0]; close over values shared by all iterations."
            )
    sizes = [leaf.shape[0] for leaf in leaves]
    if len(set(sizes)) > 1:
        listed = ", ".join(f"{size} of {name}" for size, name in zip(sizes, names, strict=True))
        raise errors.ShapeError(f"the first axes of the arrays of a loop have different sizes: {listed}.")
    if length is None and not sizes:
        raise errors.ParameterError("scan needs xs, or length, the number of iterations.")
    count = int(sizes[0]) if length is None else checked_count("length", length)
    if sizes and count != sizes[0]:
        raise errors.ParameterError(f"length is {count}, and {names[0]} has {sizes[0]} elements along its first axis.")
    return count


def _segment_size(checkpoint: object, count: int) -> int:
    """Return the number of iterations between stored carries; 0 means that none are rerun."""
    if isinstance(checkpoint, (bool, np.bool_)):
        return math.isqrt(count - 1) + 1 if checkpoint else 0
    return checked_count("checkpoint", checkpoint)


@names_keywords
def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """Return the stacked results of a function for each element along the first axis of arrays, computed in order.

    The same as `np.stack([f(x) for x in xs])`. In contrast to `vmap` it needs only the memory of one call at a time,
    and `f` may request values.

    Args:
        f: a function of an element of `xs`, which returns the same containers, shapes and dtypes each time.
        xs: an array, or a container of arrays, whose first axes have the same size.

    Returns:
        A container of the results, stacked along a first axis.

    Raises:
        StructureError: a TypeError; `f` returns other containers than before, or something other than numbers.
        ShapeError: a ValueError; it returns another shape; or arrays in `xs` have no first axis, or different sizes.
        DtypeError: a TypeError; it returns another dtype.
        ParameterError: a ValueError; there is no array in `xs`.
        NotCallableError: a TypeError; `f` is not a function, or not one of a single argument.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.map(lambda x: x * x if x > 0 else 0.0, np.array([-1.0, 2.0, 3.0]))
        array([0., 4., 9.])
    """
    check_function("map", "f", f, "x")
    if not flatten(xs)[0]:
        raise errors.ParameterError(f"map iterates over arrays, and there is none in xs, {xs!r:.100}.")

    def iteration(_: None, x: Any) -> tuple[None, Any]:
        return None, f(x)

    iteration.__name__ = name_of(f)
    return scan(iteration, None, xs)[1]
