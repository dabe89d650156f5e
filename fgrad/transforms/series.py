"""High orders: a trace that carries the Taylor series of values, at a cost that grows with a power of the order.

No operation has a rule of its own for this. The derivative of the series y = f(x) is y' = f'(x) x', which is what the
forward rule computes; the rule is run once, on series, of which each coefficient is computed when it is asked for. The
coefficient k - 1 of y' needs no more than the coefficients of y below k, so that y can be among them:

    y_k = (y')_(k-1) / k

as in Griewank and Walther, Evaluating Derivatives (2008), section 13.2, where rules are derived in this way by hand.
What is linear acts on each coefficient, products are those of Cauchy, and quotients solve one for what is sought.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.foreign import INEXACT, payload_of
from fgrad.core.forward import ForwardTrace
from fgrad.core.masked import Masked, may_hold_zeros
from fgrad.core.primitive import UFUNCS, ZERO, Primitive
from fgrad.core.tensor import Tensor, apply, apply_call, as_now, box, boxed, own_handle, strip_ended
from fgrad.core.trace import Call, Trace, is_seen, notify_copy, through_observers, unobserved
from fgrad.ops.contractions import contract
from fgrad.transforms.metadata_keys import frozen, identity

OF_BLOCKS: set[Primitive] = set()
"""Analytic functions of the square matrices in their first array, also where these are made of blocks; other arrays are
parameters."""

Find = Callable[[int], Any]
"""Returns a coefficient above 0 by its number; ZERO is one that is known to be zero."""


class Series:
    """The Taylor coefficients of an array, each computed when it is first asked for.

    Args:
        value: the first coefficient, which is the array.
        find: computes another one; it may ask for those below. None: all are zero.
        order: the number of the last coefficient that there is.
        is_masked: exact zeros of coefficients mean "does not move", and win over infinities.
    """

    __slots__ = ("_find", "_known", "order", "is_masked")

    def __init__(self, value: Any, find: Find | None, order: int, is_masked: bool = False) -> None:
        self._known, self._find, self.order, self.is_masked = [value], find, order, is_masked

    @property
    def is_constant(self) -> bool:
        """Whether all but the value is zero."""
        return self._find is None

    def __getitem__(self, number: int) -> Any:
        known, find = self._known, self._find
        if find is None:
            return ZERO if number else known[0]
        if len(known) <= number:
            if is_seen():  # who looks is to see the user's operations, and not those of rules on series
                new = len(known)
                with unobserved():
                    self._go_up_to(number, find)
                for coefficient in known[new:]:  # which are none that have come in from outside
                    if type(coefficient) is Tensor:
                        notify_copy(coefficient)
            else:
                self._go_up_to(number, find)
        return known[number]

    def _go_up_to(self, number: int, find: Find) -> None:
        known = self._known
        while len(known) <= number:
            known.append(_in_form(find(len(known)), known[0]))

    def finish(self) -> None:
        """Compute all coefficients, and forget how."""
        if self._find is not None:
            self[self.order]
            self.forget()

    def forget(self) -> None:
        """Forget how further coefficients are computed: by what refers to this series in its turn."""
        if self._find is not None:
            self._find = _nothing_more


def _nothing_more(number: int) -> Any:
    raise errors.LeakedTensorError("a rule", errors.users_line())


def _in_form(coefficient: Any, value: Any) -> Any:
    """Return a coefficient in the shape and dtype of its array."""
    if coefficient is ZERO:
        return ZERO
    coefficient = payload_of(coefficient)
    if coefficient.dtype is not (dtype := value.dtype):
        coefficient = coefficient.astype(dtype)
    return coefficient if coefficient.shape == value.shape else np.broadcast_to(coefficient, value.shape)


class _Rules(threading.local):
    """What the rules have made that run on series in this thread.

    Attributes:
        shared: the results of operations: rules ask for each other's, as those of sine and cosine do, and would make
            new series without end. None outside of rules.
        made: the series that were made since a rule began to run.
        passing: those that are needed until the coefficients of a result of the user's operation are known.
        calls: the calls whose rules run.
    """

    def __init__(self) -> None:
        self.shared: dict[Any, Any] | None = None
        self.made: list[Series] = []
        self.passing: list[Series] = []
        self.calls: dict[Any, _Called] = {}

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Let rules run in a block, and forget afterwards what they have made."""
        self.shared = {}
        try:
            yield
        finally:
            for series in self.passing:
                series.forget()
            self.shared, self.made, self.passing = None, [], []


class SeriesTrace(Trace):
    """Carries with every value its Taylor series along one direction of the inputs.

    Args:
        order: the number of the last coefficient.

    Attributes:
        rules: what the rules have made that run now.
    """

    differentiates = True
    wants_python = True
    takes_calls = True

    def __init__(self, order: int) -> None:
        super().__init__()
        self.order = order
        self.rules = _Rules()

    def root(self, value: Any, *coefficients: Any) -> Tensor:
        """Return an input of this trace: an array and its coefficients from the first on, after which all are zero.

        Exact zeros in them mean "does not move".
        """
        count, is_masked = len(coefficients), any(map(may_hold_zeros, coefficients))
        find = lambda k: coefficients[k - 1] if k <= count else ZERO  # noqa: E731
        return box(value, self, Series(value, find, self.order, is_masked))

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        if self.rules.shared is not None:
            return self._in_rule(primitive, args, metadata)
        results = self._finished(self._result(primitive, args, metadata))
        if is_seen():
            self._show(primitive, args, results)
        return results

    def _show(self, primitive: Primitive, args: Sequence[Any], ans: Any) -> None:
        """Let those who look see the coefficients of an operation, as what a forward rule makes of tangents."""
        results = ans if type(ans) is tuple else (ans,)
        for k in range(1, self.order + 1) if any(map(self.follows, results)) else ():
            given, made = ([x._mark[k] if self.follows(x) else ZERO for x in each] for each in (args, results))
            through_observers("push", primitive, given, args, ans, go_on=lambda made=made: made)()

    def _finished(self, results: Any) -> Any:
        """Return results of the user's operation, with all that is known of them computed."""
        with self.rules.begun():
            self._finish(results if type(results) is tuple else (results,))
        return results

    @np.errstate(all="ignore")
    def _finish(self, results: Sequence[Any]) -> None:
        """Compute all coefficients of results.

        Raises:
            ParameterError: a ValueError; the rules ask for each other's series more deeply than Python can call.
        """
        try:
            self._go_to_the_end(results)
        except RecursionError:  # each derivative of a rule has rules of its own
            deepest = sys.getrecursionlimit()
        else:
            return
        raise errors.ParameterError(
            f"the Taylor coefficients up to the number {self.order} take more calls of rules within rules than "
            f"Python allows, which are {deepest}.\n  at {errors.users_line()}\nTake a lower order; from 170 on "
            "derivatives are also too large for floating-point numbers."
        )

    def _go_to_the_end(self, results: Sequence[Any]) -> None:
        for k in range(1, self.order + 1):
            _go_on(self.rules.made, k)
        for result in results:
            if self.follows(result):
                result._mark.finish()

    def _in_rule(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        """Return the result of an operation of a rule, which may have been asked for before.

        Its coefficients are asked for later, when a rule of the user's may have written to what it was computed from.
        """
        shared: Any = self.rules.shared
        args = [as_now(strip_ended(x)) for x in args]
        key = primitive, tuple(map(self._identity, args)), frozen(metadata)
        if key not in shared:
            own = [x.copy() if type(x) is np.ndarray else x for x in args]
            shared[key] = self._result(primitive, own, metadata), args, metadata  # which live as long as their keys
        found = shared[key][0]
        return tuple(map(own_handle, found)) if type(found) is tuple else own_handle(found)

    def _identity(self, arg: Any) -> Any:
        """Return what is equal for arguments that are the same series, or equal constants."""
        if self.follows(arg):
            return id(arg._mark)
        return (id(arg._payload), id(arg._trace), identity(arg._mark)) if type(arg) is Tensor else frozen(arg)

    def _result(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        operation = Operation(self, primitive, args, metadata)
        ans = apply(primitive, operation.values, metadata)
        if primitive.jvp is None:
            return boxed(ans)
        several = type(ans) is tuple
        results = [operation.followed(x, place) for place, x in enumerate(ans if several else (ans,))]
        operation.ans = tuple(results) if several else results[0]
        return operation.ans

    def made_of(self, value: Any, find: Find | None, order: int, is_masked: bool = False) -> Tensor:
        """Return a tensor with a new series; a constant one if there is no way to find others than the value."""
        series = Series(value, find, order, is_masked)
        if self.rules.shared is not None:
            self.rules.made.append(series)
            self.rules.passing.append(series)
        return box(value, self, series)

    def direction(self, series: Series) -> Any:
        """Return the derivative of a series along its parameter, as a tensor of this trace; in rules the same again."""
        if self.rules.shared is None:
            return self._derivative(series)
        if id(series) not in self.rules.shared:
            self.rules.shared[id(series)] = self._derivative(series), series
        return self.rules.shared[id(series)][0]

    def _derivative(self, series: Series) -> Any:
        def find(k: int) -> Any:
            coefficient = series[k + 1]
            return coefficient if coefficient is ZERO else coefficient * (k + 1)

        first = series[1]
        return self.made_of(
            np.zeros_like(series[0]) if first is ZERO else first, find, series.order - 1, series.is_masked
        )

    def moved(self, value: Any, tangent: Any) -> Any:
        """Return a value whose series has the derivative `tangent`; what the user's rule has masked is not known."""
        value = value._payload if self.follows(value) else strip_ended(value)
        if value.dtype.kind not in INEXACT:
            return boxed(value)
        order = min(tangent._mark.order + 1, self.order) if self.follows(tangent) else self.order
        return self.made_of(value, lambda k: _coefficient(self, tangent, k), order, True)

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        key = id(getattr(call, "function", call)), tuple(map(self._identity, leaves))
        if key in self.rules.calls:  # the rule asks for the results that it is the rule of
            return self.rules.calls[key].results(call)
        if self.rules.shared is not None:
            return self._of_call(key, call, leaves)
        with self.rules.begun():
            results = self._of_call(key, call, leaves)
            self._finish(results)
        return results

    def _of_call(self, key: Any, call: Call, leaves: Sequence[Any]) -> list[Any]:
        """Return the results of a call whose rule a forward trace above this one runs: on series, in both its parts."""
        own = self.rules.calls[key] = _Called(self, leaves)
        if not own.order:  # the rule of the last derivative of all
            del self.rules.calls[key]
            return own.results(call)
        above = ForwardTrace()
        above.stands_for = self
        try:
            with above:
                moving = [above.root(x, Masked(self.direction(x._mark))) if self.follows(x) else x for x in leaves]
                results = above.process_call(call, moving)
        finally:
            del self.rules.calls[key]
        parts = [
            (x._payload, above.tangent_of(x)) if type(x) is Tensor and x._trace is above else (x, ZERO) for x in results
        ]
        return own.with_slopes([value for value, _ in parts], [slope for _, slope in parts])


def _go_on(made: Sequence[Series], k: int) -> None:
    """Compute the coefficients with a number of series, one after the other: together they may be a long chain."""
    for series in made:
        if series.order >= k:
            series[k]


class _Called:
    """The results of a call whose rule runs, and may ask for them.

    Args:
        trace: the one that follows them.
        leaves: its inputs.
    """

    def __init__(self, trace: SeriesTrace, leaves: Sequence[Any]) -> None:
        self._trace = trace
        self._values = [x._payload if trace.follows(x) else x for x in leaves]
        self.order = min((x._mark.order for x in leaves if trace.follows(x)), default=trace.order)
        self._results: list[Any] | None = None
        self._slopes: Sequence[Any] = ()

    def results(self, call: Call) -> list[Any]:
        """Return the results of the call in the rule; their coefficients can be asked for once the rule has run."""
        values = apply_call(call, self._values)
        if self._results is None:
            self._results = [self._result(place, strip_ended(value)) for place, value in enumerate(values)]
        return list(map(own_handle, self._results))

    def _result(self, place: int, value: Any) -> Any:
        if value.dtype.kind not in INEXACT:
            return boxed(value)
        return self._trace.made_of(value, lambda k: _coefficient(self._trace, self._slopes[place], k), self.order, True)

    def with_slopes(self, values: Sequence[Any], slopes: Sequence[Any]) -> list[Any]:
        """Return the results, now that the rule has given their derivatives; and their values, if it did not ask."""
        if self._results is None:
            return [
                x if slope is ZERO else self._trace.moved(x, slope) for x, slope in zip(values, slopes, strict=True)
            ]
        self._slopes = slopes
        return self._results


def _coefficient(trace: SeriesTrace, slope: Any, k: int) -> Any:
    """Return the coefficient of a series whose derivative is a tensor, or ZERO."""
    if trace.follows(slope):
        return _integrated(slope._mark, k)
    return slope if k == 1 else ZERO


def _integrated(slope: Series, k: int) -> Any:
    """Return the coefficient of a series whose derivative is known."""
    coefficient = slope[k - 1]
    return coefficient if coefficient is ZERO or k == 1 else coefficient / k


class Operation:
    """One operation on series, which finds the coefficients of its results.

    Args:
        trace: the one that follows it.
        primitive, args, metadata: the operation.

    Attributes:
        series: those of the arguments; of constants, constant ones.
        values: the arguments themselves.
        ans: the results, as tensors; put in once they are there.
    """

    def __init__(
        self, trace: SeriesTrace, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]
    ) -> None:
        self.trace, self.primitive, self.args, self.metadata = trace, primitive, args, metadata
        self.series = [x._mark if trace.follows(x) else Series(x, None, trace.order) for x in args]
        self.values = [each[0] for each in self.series]
        self.ans: Any = None
        self._is_guard = primitive.kind == "guard"
        self._find = self._form()
        self._found: list[Sequence[Any]] = []
        self._slopes: list[Any] | None = None
        self._made: list[Series] = []

    def _form(self) -> Callable[[Operation, int], Sequence[Any]]:
        """Return how coefficients are found: by what the operation is, or by its forward rule."""
        if self.primitive.linear:
            return _together if self.primitive.linear == "together" else _each
        if self.primitive is UFUNCS[np.true_divide]:
            return _quotient
        if self.primitive in OF_BLOCKS and all(each.is_constant for each in self.series[1:]):
            return _by_blocks
        return _by_rule

    def followed(self, value: Any, place: int) -> Any:
        """Return the result at a place as a tensor."""
        if value.dtype.kind not in INEXACT:
            return boxed(value)
        moving = [each for each in self.series if not each.is_constant]
        if moving:
            joins_constants = self.primitive.parted is not None and len(moving) < len(self.series)
            is_masked = bool(self.primitive.masks) or joins_constants or all(each.is_masked for each in moving)
            order = min(each.order for each in moving)
            return self.trace.made_of(value, lambda k: self.coefficients(k)[place], order, is_masked)
        return self.trace.made_of(value, None, self.trace.order)

    def coefficients(self, k: int) -> Sequence[Any]:
        """Return the coefficients with a number of all results."""
        while len(self._found) < k:
            self._found.append(self._find(self, len(self._found) + 1))
        return self._found[k - 1]

    def slopes(self) -> list[Any]:
        """Return what the forward rule gives for the series, as series or ZERO."""
        if self._slopes is None:
            rules = self.trace.rules
            before = rules.made
            try:
                rules.made = self._made
                found = self._run_rule()
            finally:
                rules.made = before
            several = type(found) in (tuple, list)
            self._slopes = [self._series_of(x) for x in (found if several else (found,))]
        return self._slopes

    def made(self) -> list[Series]:
        """Return the series that the rule has made, each after those that it needs."""
        return self._made

    def _run_rule(self) -> Any:
        trace, jvp = self.trace, self.primitive.jvp
        args = [self._argument(x) for x in self.args]
        tangents = [ZERO if each.is_constant else trace.direction(each) for each in self.series]
        if self.primitive.scales == "both" and not self._is_guard:
            pairs = zip(tangents, self.series, strict=True)
            tangents = [Masked(t) if t is not ZERO and each.is_masked else t for t, each in pairs]
        return jvp(tangents, self.ans, *args, **self.metadata)  # type: ignore[misc]

    def _argument(self, arg: Any) -> Any:
        """Return an argument for the rule; a tensor of another trace as a constant of this one, to be shared."""
        arg = strip_ended(arg)
        if type(arg) is not Tensor or self.trace.follows(arg):
            return arg
        return self.trace.made_of(arg, None, self.trace.order)

    def _series_of(self, slope: Any) -> Any:
        if slope is ZERO or self.trace.follows(slope):
            return slope if slope is ZERO else slope._mark
        return Series(payload_of(slope), None, self.trace.order)

    def product(self, coefficients: Sequence[Any], guard: int | None) -> Any:
        """Return the operation, linear in each argument, of some coefficients; of one exact zeros may win."""
        if guard is None:
            return apply(self.primitive, coefficients, self.metadata)
        guarded = [Masked(x) if place == guard else x for place, x in enumerate(coefficients)]
        if self.primitive is UFUNCS[np.multiply]:
            return guarded[0] * guarded[1]
        return contract(self.primitive, guarded, self.metadata)

    def guard(self, numbers: Sequence[int]) -> int | None:
        """Return the place of a coefficient whose exact zeros win over infinities of the others."""
        if self._is_guard:
            return None
        pairs = enumerate(zip(numbers, self.series, strict=True))
        return next((place for place, (number, each) in pairs if number and each.is_masked), None)


def _by_rule(operation: Operation, k: int) -> Sequence[Any]:
    slopes = operation.slopes()
    _go_on(operation.made(), k - 1)
    return [slope if slope is ZERO else _integrated(slope, k) for slope in slopes]


def _together(operation: Operation, k: int) -> Sequence[Any]:
    """Return the operation of the coefficients with the same number."""
    coefficients = [each[k] for each in operation.series]
    if all(x is ZERO for x in coefficients):
        return [ZERO] * (len(operation.ans) if type(operation.ans) is tuple else 1)
    if (alone := _unchanged(operation.primitive, coefficients)) is not None:
        return (alone,)
    filled = [
        x if x is not ZERO else 0.0 if operation.primitive.is_elementwise else np.zeros_like(each[0])
        for x, each in zip(coefficients, operation.series, strict=True)
    ]
    ans = apply(operation.primitive, filled, operation.metadata)
    return ans if type(ans) is tuple else (ans,)


def _unchanged(primitive: Primitive, coefficients: Sequence[Any]) -> Any:
    """Return the one of two coefficients that a sum or difference with zero is, if it is."""
    if primitive in (UFUNCS[np.add], UFUNCS[np.subtract]) and coefficients[1] is ZERO:
        return coefficients[0]
    return coefficients[1] if primitive is UFUNCS[np.add] and coefficients[0] is ZERO else None


def _each(operation: Operation, k: int) -> Sequence[Any]:
    """Return the sum of products of coefficients whose numbers have the sum k."""
    total: Any = ZERO
    is_square = operation.primitive is UFUNCS[np.multiply] and operation.series[0] is operation.series[1]
    for numbers in _splits(k, operation.series):
        if is_square and numbers[0] > numbers[1]:
            continue  # which is the same product as one before
        coefficients = [each[number] for each, number in zip(operation.series, numbers, strict=True)]
        if not any(x is ZERO for x in coefficients):
            part = operation.product(coefficients, operation.guard(numbers))
            part = part * 2 if is_square and numbers[0] < numbers[1] else part
            total = part if total is ZERO else total + part
    return (total,)


def _splits(total: int, series: Sequence[Series]) -> Iterator[tuple[int, ...]]:
    """Yield the numbers of coefficients, one for each series, that have a sum; constants have the value alone."""
    if not series:
        if not total:
            yield ()
        return
    for first in range(1 if series[0].is_constant else total + 1):
        for rest in _splits(total - first, series[1:]):
            yield first, *rest


def _quotient(operation: Operation, k: int) -> Sequence[Any]:
    """Return the coefficient of y = a / b, by a_k = b_0 y_k + b_1 y_(k-1) + ... + b_k y_0."""
    above, below = operation.series
    own, rest = operation.ans._mark, above[k]
    for number in range(1, k + 1):
        factor, other = below[number], own[k - number]
        if factor is not ZERO and other is not ZERO:
            part = Masked(factor) * other if below.is_masked else factor * other
            rest = -part if rest is ZERO else rest - part
    if rest is ZERO:
        return (ZERO,)
    return ((Masked(rest) if own.is_masked else rest) / below[0],)


def _by_blocks(operation: Operation, k: int) -> Sequence[Any]:
    """Return the last block of the function of the matrix whose rows of blocks are shifted coefficients.

    Such matrices multiply as series do (Mathias 1996, https://doi.org/10.1137/S0895479894266324), and so their
    functions are those of series.
    """
    matrix, *parameters = operation.series
    size = matrix[0].shape[-1]
    parts = [matrix[number] for number in range(k + 1)]
    zeros = np.zeros_like(matrix[0])
    row = np.concatenate([*(zeros for _ in range(k)), *(zeros if part is ZERO else part for part in parts)], axis=-1)
    rows = [row[..., (k - below) * size : (2 * k + 1 - below) * size] for below in range(k + 1)]
    blocks = np.concatenate(rows, axis=-2)
    ans = apply(operation.primitive, [blocks, *(each[0] for each in parameters)], operation.metadata)
    return (ans[..., :size, k * size :],)
