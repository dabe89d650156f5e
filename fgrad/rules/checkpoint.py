"""Functions that are run again instead of remembered.

checkpoint      the ordinary rules, but nothing is kept: the backward pass runs the function again
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from fgrad import errors
from fgrad.core.tensor import BOXES, Tensor, boxed, settle
from fgrad.core.trace import running
from fgrad.core.tree import flatten, unflatten
from fgrad.ops.tracing import example_of
from fgrad.rules.closures import Uses, copied, followers, give, given_now, values_of
from fgrad.rules.randomness import RandomStates
from fgrad.rules.rule import Leaves, Rule, Variables, apply_rule, settled, traces_of_variables
from fgrad.transforms.calls import Transformed, name_of
from fgrad.transforms.forward import jvp
from fgrad.transforms.reverse import vjp
from fgrad.transforms.running import is_number

P = ParamSpec("P")
R = TypeVar("R")


def _run_checkpoint(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    leaves, treedef = flatten((args, keywords))
    leaves = [settle(leaf) if type(leaf) in BOXES else leaf for leaf in leaves]
    if not _is_for_a_pass(leaves):
        return function(*args, **keywords)
    segment = _Segment(function, leaves, treedef)
    traces = followers(segment.inputs)
    if any(trace.is_program for trace in traces) or not any(trace.remembers for trace in traces):
        return function(*args, **keywords)
    results = apply_rule(Rule(function, segment.compute, segment.linearize), segment.inputs)
    return segment.nested(results)


def _is_for_a_pass(leaves: Leaves) -> bool:
    """Return whether the highest trace, as far as it is known, keeps something for a backward pass."""
    if any(observer.wants_all for observer in running.observers):
        return False
    traces = [leaf.tracing for leaf in leaves if type(leaf) is Tensor] + traces_of_variables()
    return max(traces, key=lambda trace: trace.level).remembers if traces else True


class _Segment:
    """A function of all that it depends on, which has run once on values alone, so that nothing was recorded.

    Attributes:
        inputs: the arrays among its arguments, and what it uses besides.
    """

    def __init__(self, function: Any, leaves: Leaves, treedef: Any) -> None:
        self._function, self._leaves, self._treedef = function, leaves, treedef
        self._places = [is_number(leaf) and hasattr(leaf, "dtype") for leaf in leaves]
        self._around = given_now()
        self._random = RandomStates(function, leaves)
        handed = self._handed(values_of(leaves))
        uses = Uses(handed, strips=True)
        with uses.looking():
            args, keywords = unflatten(treedef, handed)
            results, self._out_treedef = flatten(function(*args, **keywords))
            self._results: Leaves | None = list(map(settled, results))
        self._random.keep_used()
        self._digests = [_digest(x) for x in self._results]
        self._tensors, self._variables = uses.tensors, uses.reads
        arrays = [leaf for leaf, place in zip(leaves, self._places, strict=True) if place]
        self.inputs = [*arrays, *map(copied, [*self._tensors, *self._variables.values()])]

    def _handed(self, values: Leaves) -> list[Any]:
        """Return values as the function gets them: tensors for tensors, so that it can do with them what it does."""
        return [boxed(x) if type(leaf) is Tensor else x for leaf, x in zip(self._leaves, values, strict=True)]

    def _run(self, inputs: Leaves) -> list[Any]:
        """Run the function for other values of its inputs."""
        rest = iter(inputs)
        whole = self._handed(
            [next(rest) if place else leaf for leaf, place in zip(self._leaves, self._places, strict=True)]
        )
        tensors = {id(x): next(rest) for x in self._tensors}
        variables = {variable: next(rest) for variable in self._variables}
        with give(self._around, tensors, variables), self._random.again():
            args, keywords = unflatten(self._treedef, whole)
            results = list(map(settled, flatten(self._function(*args, **keywords))[0]))
        self._check(results)
        return results

    def _check(self, results: Leaves) -> None:
        """Refuse another result than that of the first run, whose derivative would belong to something else."""
        if any(trace.is_map for trace in followers(results)):
            return  # the examples may lie along other axes than they did
        found = [_digest(x) for x in results]
        if len(found) != len(self._digests) or not all(map(_agree, found, self._digests)):
            raise errors.RerunError(name_of(self._function))

    def compute(self, inputs: Leaves) -> Leaves:
        """Return the results; those of the first run are known."""
        results, self._results = self._results, None
        return self._run(inputs) if results is None or followers(inputs) else results

    def linearize(self, inputs: Leaves) -> Any:
        """Return the results, for the traces below, and the derivatives: of the function as it runs again."""

        def pull(cotangents: Leaves, variables: Variables) -> Leaves:
            return vjp(lambda *inputs: self._run(inputs), *inputs)[1](list(cotangents))  # type: ignore[no-any-return]

        def push(tangents: Leaves, variables: Variables) -> Leaves:
            return jvp(lambda *inputs: self._run(inputs), tuple(inputs), tuple(tangents))[1]  # type: ignore[no-any-return]

        return apply_rule(Rule(self._function, self.compute, self.linearize), inputs), pull, push

    def nested(self, results: Leaves) -> Any:
        """Return results in the containers in which the function returns them."""
        return unflatten(self._out_treedef, results)


_Digest = tuple[tuple[int, ...], "np.dtype[Any]", float, float]


def _digest(result: Any) -> _Digest:
    """Return a shape, a dtype, and two sums by which a result is known again, up to rounding."""
    x = np.asarray(example_of(result))
    if x.dtype.kind not in "biufc":
        return x.shape, x.dtype, 0.0, 0.0
    flat = np.where(np.isfinite(x), x, 1.0).reshape(-1).astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    weighed = np.dot(flat, np.linspace(0.5, 1.5, flat.size))  # so that elements that trade places are told
    return x.shape, x.dtype, float(np.real(weighed) + np.imag(weighed)), float(np.sum(np.abs(flat)))


def _agree(a: _Digest, b: _Digest) -> bool:
    """Return whether two digests are those of one result: sums may be rounded otherwise where memory lies otherwise."""
    precision = 1e-3 if a[1].itemsize < 8 and a[1].kind in "fc" else 1e-8
    return a[:2] == b[:2] and abs(a[2] - b[2]) <= precision * max(a[3], b[3])


def checkpoint(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that keeps only its arguments for the backward pass, which runs it again.

    The gradient is the same to the last bit; the memory is that of one run of the function, at the cost
    of a second one. Whatever the function uses, arguments or not, is differentiated. It must do the same
    when it runs again: NumPy's random numbers are the same ones, those of generators that it is seen to use too; do not
    assign to variables, and do not write into arguments or into what it closes over.

    Args:
        function: takes and returns numbers, arrays or containers of them.

    Returns:
        A function with the same arguments and results.

    Raises:
        NotCallableError: a TypeError; `function` is not a function.
        ClosureError: a TypeError, from a call; `function` writes into a tensor that it did not make.
        RerunError: a RuntimeError, from the backward pass; `function` gave another result than the first time.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> layer = fg.checkpoint(lambda x: np.sin(np.exp(x)))
        >>> fg.grad(lambda x: layer(layer(x)))(0.5) == fg.grad(lambda x: np.sin(np.exp(np.sin(np.exp(x)))))(0.5)
        Tensor(True)
    """
    return Transformed(_run_checkpoint, function, {})
