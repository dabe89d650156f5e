"""Functions that are run again instead of remembered.

checkpoint      the ordinary rules, but nothing is kept: the backward pass runs the function again
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from fgrad.core.tensor import Tensor, settle
from fgrad.core.trace import Edge, Parts, ReverseTrace, pull_back
from fgrad.core.tree import flatten, unflatten
from fgrad.core.variable import watch_of
from fgrad.rules.closures import replaced, replacements
from fgrad.rules.custom import Leaves, as_array, is_of, record_call, traces_of_variables
from fgrad.transforms.calls import Transformed

P = ParamSpec("P")
R = TypeVar("R")


def _run_checkpoint(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    leaves, treedef = flatten((args, keywords))
    leaves = [settle(leaf) for leaf in leaves]
    traces = {leaf.tracing for leaf in leaves if type(leaf) is Tensor}.union(traces_of_variables())
    for trace in sorted(traces, key=lambda trace: trace.level, reverse=True):
        if not isinstance(trace, ReverseTrace):
            break
        segment = _Segment(trace, function, treedef, leaves)
        if any(type(x) is Tensor and x.tracing.level > trace.level for x in segment.results):
            break  # it uses values that a higher trace follows, which is not to lose them
        if segment.record:
            return segment.recorded()
    return function(*args, **keywords)


class _Segment:
    """A run of a function that a trace records apart, so that the record can be dropped and made again."""

    def __init__(self, trace: ReverseTrace, function: Any, treedef: Any, leaves: Leaves) -> None:
        self._trace, self._watch = trace, watch_of(trace)
        self._function, self._treedef, self._leaves = function, treedef, leaves
        self._around = replacements()
        self.results, self.record = self._run_apart()

    def _run(self) -> list[Any]:
        args, keywords = unflatten(self._treedef, self._leaves)
        with replaced(self._around):
            results, self._out_treedef = flatten(self._function(*args, **keywords))
        return [as_array(x) for x in results]

    def _run_apart(self) -> tuple[list[Any], list[Edge]]:
        """Run the function on a record of its own, also when the trace has ended."""
        trace = self._trace
        whole, trace.record = trace.record, []
        level, trace.level = trace.level, trace.rank
        try:
            if level == 0 and self._watch is not None:
                with self._watch:
                    return self._run(), trace.record
            return self._run(), trace.record
        finally:
            trace.record, trace.level = whole, level

    def recorded(self) -> Any:
        """Return the results as those of one step, with this run forgotten."""
        trace, results = self._trace, self.results
        keys = [x.note for x in results if is_of(x, trace)]
        made = {edge[0] for edge in self.record}
        used = [*(edge[2] for edge in self.record), *keys]
        parents = [key for key in dict.fromkeys(used) if key not in made]
        values = [x.value if is_of(x, trace) else x for x in results]
        self.results, self.record = [], []
        return unflatten(self._out_treedef, record_call(trace, parents, values, self._pull))

    def _pull(self, cotangents: Parts) -> dict[int, Any]:
        trace = self._trace
        if trace.persistent and trace.level:
            # The pass is recorded in its turn, and so is the run that it looks back on.
            start = len(trace.record)
            again = self._run()
            record = trace.record[start:]
        else:
            again, record = self._run_apart()
        seeds: dict[int, Any] = {}
        for place, x in enumerate(again):
            if is_of(x, trace):
                seeds[x.note] = seeds[x.note] + cotangents[place] if x.note in seeds else cotangents[place]
        return pull_back(record, seeds, guarded=True)


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
        >>> import numpy as np, fgrad as fg
        >>> layer = fg.checkpoint(lambda x: np.sin(np.exp(x)))
        >>> fg.grad(lambda x: layer(layer(x)))(0.5) == fg.grad(lambda x: np.sin(np.exp(np.sin(np.exp(x)))))(0.5)
        Tensor(True)
    """
    return Transformed(_run_checkpoint, function, {})
