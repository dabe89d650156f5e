"""Which outputs of a function depend on which inputs: a trace that carries a pattern with every value.

The pattern of an array is a sparse boolean matrix with a row for each of its elements and a column for each input. An
operation unites rows as its entry in the table says (`fgrad.ops.patterns`).
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
from fgrad.core.payloads import INEXACT
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, apply, apply_call, box
from fgrad.core.trace import Call, Trace
from fgrad.ops.patterns import Chain, Links, Step, whole

MOST = 250_000_000
"""Elements of a pattern, which take more than a gigabyte."""


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
    """Carries with every value which inputs it depends on, by operations and not by values.

    Args:
        size: the number of inputs.
    """

    differentiates = True

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def root(self, value: Any, first: int) -> Tensor:
        """Return an array as inputs of this trace, of which the first one has a number."""
        rows = np.arange(value.size)
        return box(value, self, self._matrix(Links(rows, rows + first, (value.size, self.size))))

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        ours = [type(arg) is Tensor and arg.tracing is self for arg in args]
        values = [arg.value if own else arg for arg, own in zip(args, ours, strict=True)]
        patterns = {place: arg.mark for place, (arg, own) in enumerate(zip(args, ours, strict=True)) if own}
        ans = apply(primitive, values, metadata)
        step = Step(primitive, values, metadata, 0, ans, 0, frozenset(patterns))
        if type(ans) is tuple:
            return tuple([self._followed(step, patterns, place, each) for place, each in enumerate(ans)])
        return self._followed(step, patterns, 0, ans)

    def _followed(self, step: Step, patterns: Mapping[int, Any], place: int, ans: Any) -> Tensor:
        """Return one of the results of an operation with its pattern; an integer has none, but is no constant."""
        if ans.dtype.kind not in INEXACT:
            return box(ans, self, None)
        parts = [
            self._through((step.primitive.pattern or whole)(step.of(argnum, place, ans)), pattern)
            for argnum, pattern in patterns.items()
            if pattern is not None and step.has_derivative(argnum)
        ]
        return box(ans, self, self._united(parts, ans.size))

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        """Let all results depend on all that the arguments depend on: what a rule of its own does is not known."""
        ours = [type(leaf) is Tensor and leaf.tracing is self for leaf in leaves]
        results = apply_call(call, [leaf.value if own else leaf for leaf, own in zip(leaves, ours, strict=True)])
        marks = [leaf.mark for leaf, own in zip(leaves, ours, strict=True) if own and leaf.mark is not None]
        parts = [self._through((_row_of_all(mark.shape[0]),), mark) for mark in marks]
        row = self._united(parts, 1)
        return [self._repeated(x, row) for x in results]

    def _repeated(self, value: Any, row: Any) -> Any:
        if getattr(value, "dtype", np.dtype(bool)).kind not in INEXACT:
            return value
        zeros = np.zeros(value.size, np.intp)
        return box(value, self, self._through((Links(np.arange(value.size), zeros, (value.size, 1)),), row))

    def pattern_of(self, leaf: Any) -> Any:
        """Return the pattern of a result, which has no element if it is not connected to an input."""
        if type(leaf) is Tensor and leaf.tracing is self and leaf.mark is not None:
            return leaf.mark
        return self._united([], np.size(leaf))

    def _matrix(self, links: Links) -> Any:
        rows, columns, shape = links
        if np.any(np.diff(rows) < 0):
            order = np.argsort(rows, kind="stable")
            rows, columns = rows[order], columns[order]
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
        return sparse_library().csr_array((np.ones(len(columns), np.bool_), columns, starts), shape=shape)

    def _through(self, chain: Chain, pattern: Any) -> Any:
        for links in reversed(chain):
            counts = np.diff(pattern.indptr)
            if np.sum(counts[links.columns], dtype=np.float64) > MOST:
                raise errors.SparsityError(
                    f"an operation makes a pattern with more than {MOST} elements: nearly everything depends on "
                    "everything.\nUse products in place of a matrix: fg.jvp, fg.vjp or fg.hvp."
                )
            pattern = self._matrix(links) @ pattern
        return pattern

    def _united(self, parts: Sequence[Any], rows: int) -> Any:
        if not parts:
            return sparse_library().csr_array((rows, self.size), dtype=np.bool_)
        total = parts[0]
        for part in parts[1:]:
            total = total if part is total else total + part
        return total


def _row_of_all(count: int) -> Links:
    return Links(np.zeros(count, np.intp), np.arange(count), (1, count))
