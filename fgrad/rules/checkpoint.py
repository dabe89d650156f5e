"""Checkpoints: functions that are recomputed in the backward pass instead of stored.

checkpoint      the usual rules, but residuals are not kept: the backward pass runs the function again
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import numpy as np

from fgrad import errors
from fgrad.core.foreign import INEXACT, as_payload, is_at_hand
from fgrad.core.primitive import BOXES
from fgrad.core.snapshots import ChecksumGuard, is_large, snapshot
from fgrad.core.tensor import Tensor, boxed, strip_ended
from fgrad.core.trace import running
from fgrad.core.tree import flatten, unflatten
from fgrad.errors.hints import names_keywords
from fgrad.ops.tracing import raw_array
from fgrad.rules.closures import Given, Uses, bound_now, copied, followers, give, given_now, globals_now, values_of
from fgrad.rules.randomness import RandomStates
from fgrad.rules.rule import Leaves, Rule, Variables, apply_rule, settled, tangents_of, traces_of_variables
from fgrad.transforms.calls import Transformed, name_of
from fgrad.transforms.reverse import vjp
from fgrad.transforms.running import is_number
from fgrad.typing import Array

if TYPE_CHECKING:
    import optree

P = ParamSpec("P")
R = TypeVar("R")


def _run_checkpoint(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    leaves, treedef = flatten((args, keywords))
    leaves = [boxed(strip_ended(leaf)) if type(leaf) is Tensor else leaf for leaf in leaves]
    if not _is_for_a_pass(leaves):
        return function(*args, **keywords)
    segment = _Segment(function, leaves, treedef)
    traces = followers(segment.inputs)
    if all(trace.is_map for trace in traces) or not segment.has_results():
        return segment.returned()  # no layer was stripped, or no result can depend on the inputs
    if any(trace.is_program for trace in traces) or not any(trace.remembers for trace in traces):
        with segment.random.again():
            return function(*args, **keywords)
    segment.keep_for_another_run()
    return segment.nested(apply_rule(Rule(function, segment.compute, segment.linearize), segment.inputs))


def _is_for_a_pass(leaves: Leaves) -> bool:
    """Return whether the highest known trace keeps residuals for a backward pass."""
    if any(observer.wants_all for observer in running.observers):
        return False
    traces = [leaf._trace for leaf in leaves if _is_followed(leaf)] + traces_of_variables()
    return max(traces, key=lambda trace: trace.level).remembers if traces else True


def _is_followed(leaf: Any) -> bool:
    return type(leaf) is Tensor and leaf._trace.level > 0


class _Segment:
    """A function of all traced values that it uses, run once on plain values, so that nothing was recorded.

    Attributes:
        inputs: the traced arguments, and the other traced values that it uses.
        random: the generators that it draws from, with their states before the run.
    """

    def __init__(self, function: Callable[..., Any], leaves: Leaves, treedef: optree.PyTreeSpec) -> None:
        self._function, self._treedef = function, treedef
        self._bound, self._globals = bound_now(function), globals_now(function)
        self._places = list(map(_is_followed, leaves))
        self._around = given_now()
        self.random = RandomStates(function, leaves)
        traced = [leaf for leaf in leaves if _is_followed(leaf)]
        self._leaves = [None if place else leaf for leaf, place in zip(leaves, self._places, strict=True)]
        args, keywords = self._call(values_of(traced))
        uses = Uses(flatten((args, keywords))[0], strips=True)
        with uses.looking():
            self._returned, self._out_treedef = flatten(function(*args, **keywords))
            self._is_result = list(map(_may_depend, self._returned))
            self._results: Leaves | None = self._results_among(self._returned)
        if not all(trace.is_map for trace in followers(self._results)):
            raise errors.ClosureError(
                f"{name_of(function)}, which is under checkpoint, uses a traced value that is not one of its "
                "arguments, on a way that cannot be followed, such as in another thread.\n"
                "Pass the value as an argument."
            )
        self._tensors, self._variables = uses.tensors, uses.reads
        # A value of a batch only was seen at every step, and loses no derivative if the second run does not use it.
        followed = [x for x in uses.tensors if not all(trace.is_map for trace in followers([x]))]
        self._needed = {*map(id, followed), *uses.reads}
        # Copies: observers do not replace them, and later writes to the tensors do not change them.
        self.inputs = list(map(copied, [*traced, *self._tensors, *self._variables.values()]))

    def has_results(self) -> bool:
        """Return whether the function returns any leaf that may depend on its inputs."""
        return any(self._is_result)

    def keep_for_another_run(self) -> None:
        """Keep the data that the next run needs to give the same results, and digests of the results.

        The user may overwrite plain arrays before it; large ones must not change.
        """
        large = [x for x in self._leaves if type(x) is np.ndarray and is_large(x)]
        self._leaves = [_as_it_is(x) if type(x) is np.ndarray and not is_large(x) else x for x in self._leaves]
        # Not a method: a reference to self would be a cycle, freed only by the garbage collector.
        self._unless_written = ChecksumGuard(lambda inputs: inputs, large, name_of(self._function)) if large else None
        self._digests = list(map(_digest, self._results or ()))
        self.random.keep_used()

    def _call(self, values: Leaves) -> Any:
        """Return the arguments, with values as tensors for those that were tensors."""
        rest = iter(values)
        whole = [boxed(next(rest)) if place else x for x, place in zip(self._leaves, self._places, strict=True)]
        return unflatten(self._treedef, [boxed(strip_ended(x)) if type(x) is Tensor else x for x in whole])

    def _results_among(self, returned: Leaves) -> list[Any]:
        """Return those leaves of the function's result that may depend on its inputs."""
        return [settled(x) for x, is_result in zip(returned, self._is_result, strict=True) if is_result]

    def _run_again(self, inputs: Leaves) -> list[Any]:
        """Run the function for given values of its inputs."""
        rest = list(inputs if self._unless_written is None else self._unless_written(inputs))
        count = sum(self._places)
        tensors = {id(x): boxed(value) for x, value in zip(self._tensors, rest[count:], strict=False)}
        variables = dict(zip(self._variables, rest[count + len(self._tensors) :], strict=True))
        with give(self._around, tensors, variables) as given, self.random.again():
            args, keywords = self._call(rest[:count])
            returned, treedef = flatten(self._bound(*args, **keywords))
            results = self._results_among(returned) if treedef == self._out_treedef else None
            if (
                results is None
                or self._knows_others()
                or (self._needed & given.unused and not self._is_looked_at(given))
            ):
                raise errors.RerunError(name_of(self._function))
        if not any(trace.is_map for trace in followers(results)):  # batch axes may have moved
            self._check(results)
        return results

    def _knows_others(self) -> bool:
        """Return whether a global name that the function uses has another value than before."""
        now = globals_now(self._function)
        return any(now.get(name) is not x and not _is_equal(now.get(name), x) for name, x in self._globals.items())

    def _check(self, results: Leaves) -> None:
        """Raise if the results differ from those of the first run: the derivative would be wrong."""
        if not all(map(_agree, map(_digest, results), self._digests)):
            raise errors.RerunError(name_of(self._function))

    def _is_looked_at(self, given: Given) -> bool:
        """Return whether observers around this run replace values that the function uses."""
        others = [each for each in running.observers if each is not given and each not in self._around]
        return any(isinstance(each, (Given, Uses)) for each in others)

    def compute(self, inputs: Leaves) -> Leaves:
        """Return the results; those of the first run are stored."""
        results, self._results = self._results, None
        return self._run_again(inputs) if results is None or followers(inputs) else results

    def linearize(self, inputs: Leaves) -> Any:
        """Return the results, for lower traces, and the derivatives: those of the function when it runs again."""

        def pull(cotangents: Leaves, variables: Variables) -> Leaves:
            return vjp(again, *inputs)[1](list(cotangents))  # type: ignore[no-any-return]

        def again(*inputs: Array) -> Leaves:
            return self._run_again(inputs)

        def push(tangents: Leaves, variables: Variables) -> Leaves:
            return tangents_of(lambda *inputs: self._run_again(inputs), inputs, tangents)  # type: ignore[no-any-return]

        return apply_rule(Rule(self._function, self.compute, self.linearize), inputs), pull, push

    def returned(self) -> Any:
        """Return the result of the first run."""
        return unflatten(self._out_treedef, self._returned)

    def nested(self, results: Leaves) -> Any:
        """Return results in the containers of the function's result, together with its other leaves."""
        rest = iter(results)
        whole = [next(rest) if own else x for x, own in zip(self._returned, self._is_result, strict=True)]
        self._returned = []
        return unflatten(self._out_treedef, whole)


def _as_it_is(array: Any) -> Any:
    """Return a copy of an array; a read-only one, which cannot be a work buffer, shares its copies."""
    return array.copy("K") if array.flags.writeable else snapshot(array, {})


def _may_depend(leaf: Any) -> bool:
    """Return whether a leaf may depend on inputs: also a plain number, since values may have left the trace."""
    return type(leaf) in BOXES or (is_number(leaf) and as_payload(leaf).dtype.kind in INEXACT)


def _is_equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and isinstance(a, (int, float, complex, str, np.generic)) and bool(a == b or a != a)


_Digest = tuple[tuple[int, ...], "np.dtype[Any]", float, float]
_WEIGHTS = np.linspace(0.5, 1.5, 1 << 14)


def _digest(result: Array) -> _Digest:
    """Return the shape, the dtype, and two sums that identify a result up to rounding; computed by blocks."""
    x = as_payload(raw_array(result))
    if not is_at_hand(x):
        return x.shape, x.dtype, 0.0, 0.0  # a lazy array would have to be computed
    weighed = total = 0.0
    if x.dtype.kind in "biufc":
        flat = x.reshape(-1)
        for start in range(0, flat.size, len(_WEIGHTS)):
            block = flat[start : start + len(_WEIGHTS)]
            block = np.where(np.isfinite(block), block, 1.0).astype(np.result_type(x.dtype, np.float64))
            # The weights are all different, so that the sum changes if elements change places.
            sums = np.dot(block, _WEIGHTS[: len(block)]) * (1 + start / flat.size)
            weighed += float(sums.real + sums.imag)
            total += float(np.sum(np.abs(block)))
    return x.shape, x.dtype, weighed, total


def _agree(a: _Digest, b: _Digest) -> bool:
    """Return whether two digests belong to one result: rounding of sums depends on the memory layout.

    Sums that overflow are ignored.
    """
    precision = 1e-3 if a[1].itemsize < 8 and a[1].kind in "fc" else 1e-8
    return a[:2] == b[:2] and not abs(a[2] - b[2]) > precision * max(a[3], b[3])


@overload
def checkpoint(function: np.ufunc) -> Callable[..., Any]: ...
@overload
def checkpoint(function: Callable[P, R]) -> Callable[P, R]: ...
@names_keywords
def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that keeps only its arguments for the backward pass, which runs it again.

    The gradient is the same to the last bit; the memory is that of one run of the function, at the cost of a second
    run. Everything the function uses, arguments or not, is differentiated. It must do the same when it runs again: it
    gets the same random numbers from NumPy's global generator and from generators that it visibly uses; it must not
    assign to variables, nor write into arguments or values that it closes over. Closed-over names keep their values at
    the call, such as the variable of a loop around it; if a global name of its module has another value by then, an
    error is raised. A value that leaves the function in another way than as a result, such as by an append to an outer
    list, is a constant.

    Args:
        function: takes and returns numbers, arrays or containers of them.

    Returns:
        A function with the same arguments and results.

    Raises:
        NotCallableError: a TypeError; `function` is not a function.
        ClosureError: a TypeError, from a call; `function` writes into a tensor that it did not create, or uses a traced
            value in another thread.
        RerunError: a RuntimeError, from the backward pass; the second run of `function` differs from the first.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> layer = fg.checkpoint(lambda x: np.sin(np.exp(x)))
        >>> fg.grad(lambda x: layer(layer(x)))(0.5) == fg.grad(lambda x: np.sin(np.exp(np.sin(np.exp(x)))))(0.5)
        Tensor(True)
    """
    return Transformed(_run_checkpoint, function, {})
