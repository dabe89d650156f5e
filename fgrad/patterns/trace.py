"""Sparsity patterns by tracing: which outputs of a function depend on which inputs.

The pattern of an array is a sparse boolean matrix with a row for each of its elements and a column for each input. An
operation combines rows by the `pattern` of its primitive (`fgrad.ops.patterns`).
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.foreign import INEXACT
from fgrad.core.forward import ForwardTrace
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, apply, apply_call, box, settled
from fgrad.core.trace import Call, Trace
from fgrad.ops.patterns import Chain, Links, Step, joined, tied, whole
from fgrad.typing import Array

MOST = 100_000_000
"""The maximal number of elements of a pattern, which take half a gigabyte."""


@functools.cache
def sparse_library() -> Any:
    """Return the module `scipy.sparse`.

    Raises:
        MissingExtraError: SciPy is not installed.
    """
    if importlib.util.find_spec("scipy") is None:
        raise errors.MissingExtraError(
            "sparse derivatives need SciPy, which is not installed.\nInstall it: pip install scipy."
        )
    return importlib.import_module("scipy.sparse")


class PatternTrace(Trace):
    """Carries with every value the inputs it depends on, by operations and not by values.

    Args:
        size: the number of inputs.
        depth: the nesting depth of functions with custom derivatives.
    """

    differentiates = True
    wants_python = True
    takes_calls = True

    def __init__(self, size: int, depth: int = 0) -> None:
        super().__init__()
        self.size, self.depth = size, depth

    def root(self, value: Any, first: int) -> Tensor:
        """Return an array as inputs of this trace, numbered from `first` on."""
        rows = np.arange(value.size)
        return box(value, self, self._matrix(Links(rows, rows + first, (value.size, self.size))))

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        ours = [type(arg) is Tensor and arg._trace is self for arg in args]
        values = [arg._payload if own else arg for arg, own in zip(args, ours, strict=True)]
        patterns = {place: arg._mark for place, (arg, own) in enumerate(zip(args, ours, strict=True)) if own}
        ans = apply(primitive, values, metadata)
        step = Step(primitive, values, metadata, 0, ans, 0, frozenset(patterns))
        if type(ans) is tuple:
            return tuple([self._followed(step, patterns, place, each) for place, each in enumerate(ans)])
        return self._followed(step, patterns, 0, ans)

    def _followed(self, step: Step, patterns: Mapping[int, Any], place: int, ans: Array) -> Tensor:
        """Return a result of an operation with its pattern; an integer has none, but is not a constant."""
        if ans.dtype.kind not in INEXACT:
            return box(ans, self, None)
        if step.primitive.parted is not None:  # it joins arrays, possibly many
            marks = [patterns.get(argnum) for argnum in range(len(step.args))]
            rows = [self._nothing(np.size(x)) if own is None else own for x, own in zip(step.args, marks, strict=True)]
            return box(ans, self, self._through(joined(step), _stacked(rows)))
        parts = [
            self._through((step.primitive.pattern or whole)(step.of(argnum, place, ans)), pattern)
            for argnum, pattern in patterns.items()
            if pattern is not None and step.has_derivative(argnum)
        ]
        return box(ans, self, self._united(parts, ans.size))

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        """Combine by the derivative of the function: its tangents are traced separately.

        If the derivative itself uses such functions, all results depend on all arguments.
        """
        ours = [type(leaf) is Tensor and leaf._trace is self for leaf in leaves]
        values = [leaf._payload if own else leaf for leaf, own in zip(leaves, ours, strict=True)]
        places = [place for place, own in enumerate(ours) if own and leaves[place]._mark is not None]
        if self.depth or not places:
            found = [(x, ()) for x in apply_call(call, values)]
        else:
            found = _by_tangents(call, values, places)
        pattern = _stacked([self._nothing(0), *(leaves[place]._mark for place in places)])
        return [self._called(settled(x), local, pattern) for x, local in found]

    def _called(self, value: Any, local: object, pattern: Any) -> Tensor:
        """Return a result of a call from its pattern in the arguments; () means all."""
        if value.dtype.kind not in INEXACT:
            return box(value, self, None)
        if type(local) is not tuple:
            return box(value, self, self._product(local, pattern))
        everything = tied(pattern.shape[:1], ["in"], (value.size,), ["out"])
        return box(value, self, self._through(everything, pattern))

    def pattern_of(self, leaf: Any) -> Any:
        """Return the pattern of a result, empty if it is not connected to an input."""
        if type(leaf) is Tensor and leaf._trace is self and leaf._mark is not None:
            return leaf._mark
        return self._nothing(np.size(leaf))

    def _matrix(self, links: Links) -> Any:
        rows, columns, shape = links
        if np.any(np.diff(rows) < 0):
            order = np.argsort(rows, kind="stable")
            rows, columns = rows[order], columns[order]
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
        return sparse_library().csr_array((np.ones(len(columns), np.bool_), columns, starts), shape=shape)

    def _through(self, chain: Chain, pattern: object) -> Any:
        for links in reversed(chain):
            pattern = self._product(self._matrix(links), pattern)
        return pattern

    def _product(self, matrix: Any, pattern: Any) -> Any:
        counts = np.diff(pattern.indptr)
        if np.sum(counts[matrix.indices], dtype=np.float64) > MOST:
            raise errors.SparsityError(
                f"an operation makes a pattern with more than {MOST} elements: nearly everything depends on "
                "everything.\nUse products instead of a matrix: fg.jvp, fg.vjp or fg.hvp."
            )
        return matrix @ pattern

    def _united(self, parts: Sequence[Any], rows: int) -> Any:
        if not parts:
            return self._nothing(rows)
        total = parts[0]
        for part in parts[1:]:
            total = total if part is total else total + part
        return total

    def _nothing(self, rows: int) -> Any:
        return sparse_library().csr_array((rows, self.size), dtype=np.bool_)


def _stacked(patterns: Sequence[Any]) -> Any:
    return sparse_library().vstack(patterns, format="csr")


def _by_tangents(call: Call, values: Sequence[Any], places: Sequence[int]) -> list[tuple[Any, Any]]:
    """Return the results of a call, each with its pattern in the arguments at some positions, concatenated."""
    sizes = [values[place].size for place in places]
    inner, forward = PatternTrace(sum(sizes), depth=1), ForwardTrace()
    moving = list(values)
    with inner, forward:
        for place, first in zip(places, np.cumsum([0, *sizes]), strict=False):
            tangent = inner.root(np.ones(values[place].shape, values[place].dtype), first)
            moving[place] = forward.root(values[place], tangent)
        return [_parted(x, forward, inner) for x in apply_call(call, moving)]


def _parted(result: Any, forward: ForwardTrace, inner: PatternTrace) -> tuple[Any, Any]:
    """Return a result and the pattern of its tangent."""
    if type(result) is Tensor and result._trace is forward:
        return result._payload, inner.pattern_of(forward.tangent_of(result))
    return result, inner.pattern_of(np.zeros(np.shape(result)))
