"""Taylor series: a trace that carries the Taylor coefficients of values, at polynomial cost in the order.

Operations need no additional rules for this. The derivative of the series y = f(x) is y' = f'(x) x', which the forward
rule computes; the rule runs once, on series whose coefficients are computed on demand. Coefficient k - 1 of y' needs
only the coefficients of y below k, so that y' may depend on y:

    y_k = (y')_(k-1) / k

as in Griewank and Walther, Evaluating Derivatives (2008), section 13.2, where rules are derived in this way by hand.
Linear operations apply to each coefficient, products are Cauchy products, and quotients are solved from a Cauchy
product.
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
"""Analytic functions of the square matrices in their first array that also accept block matrices; other arrays are
parameters."""

Find = Callable[[int], Any]
"""Returns a coefficient above 0 by its number; ZERO is a symbolic zero."""


class Series:
    """The Taylor coefficients of an array, each computed on demand.

    Args:
        value: the first coefficient, which is the array itself.
        find: computes another coefficient; it may use those below. None: all are zero.
        order: the number of the last coefficient.
        is_masked: whether exact zeros of coefficients mean "does not move", and win over infinities.
    """

    __slots__ = ("_find", "_known", "order", "is_masked")

    def __init__(self, value: Any, find: Find | None, order: int, is_masked: bool = False) -> None:
        self._known, self._find, self.order, self.is_masked = [value], find, order, is_masked

    @property
    def is_constant(self) -> bool:
        """Whether all coefficients except the value are zero."""
        return self._find is None

    def __getitem__(self, number: int) -> Any:
        known, find = self._known, self._find
        if find is None:
            return ZERO if number else known[0]
        if len(known) <= number:
            if is_seen():  # observers see the user's operations, and not those of rules on series
                new = len(known)
                with unobserved():
                    self._go_up_to(number, find)
                for coefficient in known[new:]:  # and none of the given coefficients
                    if type(coefficient) is Tensor:
                        notify_copy(coefficient)
            else:
                self._go_up_to(number, find)
        return known[number]

    def _go_up_to(self, number: int, find: Find) -> None:
        known = self._known
        while len(known) <= number:
            known.append(_in_form(find(len(known)), known[0]))

    def of_copy(self, value: Any) -> Series:
        """Return the series with a copy of the value, which may be overwritten; all coefficients are known."""
        series = Series(value, self._find, self.order, self.is_masked)
        series._known += self._known[1:]
        return series

    def finish(self) -> None:
        """Compute all coefficients, and drop the function that computes them."""
        if self._find is not None:
            self[self.order]
            self.forget()

    def forget(self) -> None:
        """Drop the function that computes further coefficients, which refers to this series: a reference cycle."""
        if self._find is not None:
            self._find = _nothing_more


def _nothing_more(number: int) -> Any:
    raise errors.LeakedTensorError("a rule", errors.users_line())


def _in_form(coefficient: Any, value: Any) -> Any:
    """Return a coefficient with the shape and dtype of its array."""
    if coefficient is ZERO:
        return ZERO
    coefficient = payload_of(coefficient)
    if coefficient.dtype is not (dtype := value.dtype):
        coefficient = coefficient.astype(dtype)
    return coefficient if coefficient.shape == value.shape else np.broadcast_to(coefficient, value.shape)


class _Rules(threading.local):
    """The state of the rules that run on series in this thread.

    Attributes:
        shared: the results of operations: rules use each other's results, as those of sine and cosine do, and would
            make new series without end. None outside of rules.
        made: the series created since a rule began to run.
        passing: series needed until the coefficients of a result of the user's operation are known.
        calls: the calls whose rules run.
    """

    def __init__(self) -> None:
        self.shared: dict[Any, Any] | None = None
        self.made: list[Series] = []
        self.passing: list[Series] = []
        self.calls: dict[Any, _Called] = {}

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Run rules in a block, and drop the series they have made afterwards."""
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
        rules: the state of the rules that run.
    """

    differentiates = True
    wants_python = True
    takes_calls = True

    def __init__(self, order: int) -> None:
        super().__init__()
        self.order = order
        self.rules = _Rules()

    def root(self, value: Any, *coefficients: object) -> Tensor:
        """Return an input of this trace: an array and its coefficients from the first on, followed by zeros.

        Exact zeros in them mean "does not move".
        """
        count, is_masked = len(coefficients), any(map(may_hold_zeros, coefficients))
        find = lambda k: coefficients[k - 1] if k <= count else ZERO  # noqa: E731
        return box(value, self, Series(value, find, self.order, is_masked))

    @override
    def mark_of_copy(self, mark: Any, payload: Any) -> Series:
        return mark.of_copy(payload)  # type: ignore[no-any-return]

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        if self.rules.shared is not None:
            return self._in_rule(primitive, args, metadata)
        results = self._finished(self._result(primitive, args, metadata))
        if is_seen():
            self._show(primitive, args, results)
        return results

    def _show(self, primitive: Primitive, args: Sequence[Any], ans: Any) -> None:
        """Notify observers of the coefficients of an operation, as of a forward rule with tangents."""
        results = ans if type(ans) is tuple else (ans,)
        for k in range(1, self.order + 1) if any(map(self.follows, results)) else ():
            given, made = ([x._mark[k] if self.follows(x) else ZERO for x in each] for each in (args, results))
            through_observers("push", primitive, given, args, ans, go_on=lambda made=made: made)()

    def _finished(self, results: Any) -> Any:
        """Return results of the user's operation, with all their coefficients computed."""
        with self.rules.begun():
            self._finish(results if type(results) is tuple else (results,))
        return results

    @np.errstate(all="ignore")
    def _finish(self, results: Sequence[Any]) -> None:
        """Compute all coefficients of results.

        Raises:
            ParameterError: a ValueError; the rules need each other's series more deeply than Python's recursion limit
                allows.
        """
        try:
            self._go_to_the_end(results)
        except RecursionError:  # each derivative of a rule needs further rules
            deepest = sys.getrecursionlimit()
        else:
            return
        raise errors.ParameterError(
            f"the Taylor coefficients up to number {self.order} need more nested calls of rules than Python's "
            f"recursion limit of {deepest} allows.\n  at {errors.users_line()}\nTake a lower order; from 170 on "
            "derivatives are also too large for floating-point numbers."
        )

    def _go_to_the_end(self, results: Sequence[Any]) -> None:
        for k in range(1, self.order + 1):
            _go_on(self.rules.made, k)
        for result in results:
            if self.follows(result):
                result._mark.finish()

    def _in_rule(
        self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]
    ) -> tuple[Any, ...] | Tensor:
        """Return the result of an operation of a rule, computed once for equal arguments.

        Its coefficients are computed later, when a rule of the user's may have written to the arguments.
        """
        shared: Any = self.rules.shared
        args = [as_now(strip_ended(x)) for x in args]
        key = primitive, tuple(map(self._identity, args)), frozen(metadata)
        if key not in shared:
            own = [x.copy("K") if type(x) is np.ndarray else x for x in args]
            shared[key] = self._result(primitive, own, metadata), args, metadata  # kept alive as long as their keys
        found = shared[key][0]
        return tuple(map(own_handle, found)) if type(found) is tuple else own_handle(found)

    def _identity(self, arg: Any) -> Any:
        """Return a key that is equal for arguments that are the same series, or equal constants."""
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

    def made_of(self, value: object, find: Find | None, order: int, is_masked: bool = False) -> Tensor:
        """Return a tensor with a new series; with a constant one if `find` is None."""
        series = Series(value, find, order, is_masked)
        if self.rules.shared is not None:
            self.rules.made.append(series)
            self.rules.passing.append(series)
        made = box(value, self, series)
        return notify_copy(made) if is_seen() else made  # no operation of which observers know the result

    def direction(self, series: Series, last: int | None = None) -> Any:
        """Return the derivative of a series with respect to its parameter, as a tensor; in rules the same one.

        Args:
            series: the series.
            last: the number of its last coefficient that counts; None: all.
        """
        last = series.order if last is None else last
        if self.rules.shared is None:
            return self._derivative(series, last)
        key = id(series), last
        if key not in self.rules.shared:
            self.rules.shared[key] = self._derivative(series, last), series
        return self.rules.shared[key][0]

    def _derivative(self, series: Series, last: int) -> Tensor:
        def find(k: int) -> Any:
            coefficient = series[k + 1]
            return coefficient if coefficient is ZERO else coefficient * (k + 1)

        first = series[1]
        return self.made_of(np.zeros_like(series[0]) if first is ZERO else first, find, last - 1, series.is_masked)

    def moved(self, value: Any, tangent: Any) -> Any:
        """Return a value whose series has the derivative `tangent`; a user's rule may have masked any part of it."""
        value = value._payload if self.follows(value) else strip_ended(value)
        if value.dtype.kind not in INEXACT:
            return boxed(value)
        order = min(tangent._mark.order + 1, self.order) if self.follows(tangent) else self.order
        return self.made_of(value, lambda k: _coefficient(self, tangent, k), order, True)

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        key = id(getattr(call, "function", call)), tuple(map(self._identity, leaves))
        if key in self.rules.calls:  # the rule uses the results of its own function
            return self.rules.calls[key].results(call)
        if self.rules.shared is not None:
            return self._of_call(key, call, leaves)
        with self.rules.begun():
            results = self._of_call(key, call, leaves)
            self._finish(results)
        return results

    def _of_call(self, key: object, call: Call, leaves: Sequence[Any]) -> list[Any]:
        """Return the results of a call, by running its rule in a forward trace above this one, on series."""
        own = self.rules.calls[key] = _Called(self, leaves)
        if not own.order:  # the rule of the last derivative
            del self.rules.calls[key]
            return own.results(call)
        above = ForwardTrace()
        above.stands_for = self
        try:
            with above:
                # The rule may call its own function with these directions: each such call has an order less.
                directions = [Masked(self.direction(x._mark, own.order)) if self.follows(x) else None for x in leaves]
                moving = [x if t is None else above.root(x, t) for x, t in zip(leaves, directions, strict=True)]
                results = above.process_call(call, moving)
        finally:
            del self.rules.calls[key]
        parts = [
            (x._payload, above.tangent_of(x)) if type(x) is Tensor and x._trace is above else (x, ZERO) for x in results
        ]
        return own.with_slopes([value for value, _ in parts], [slope for _, slope in parts])


def _go_on(made: Sequence[Series], k: int) -> None:
    """Compute coefficient `k` of all series, one after the other, to avoid a deep recursion."""
    for series in made:
        if series.order >= k:
            series[k]


class _Called:
    """The results of a call whose rule runs, and may use them.

    Args:
        trace: the series trace.
        leaves: the inputs of the call.
    """

    def __init__(self, trace: SeriesTrace, leaves: Sequence[Any]) -> None:
        self._trace = trace
        self._values = [x._payload if trace.follows(x) else x for x in leaves]
        self.order = min((x._mark.order for x in leaves if trace.follows(x)), default=trace.order)
        self._results: list[Any] | None = None
        self._slopes: Sequence[Any] = ()

    def results(self, call: Call) -> list[Any]:
        """Return the results of the call, for its rule; their coefficients are available once the rule has run."""
        values = apply_call(call, self._values)
        if self._results is None:
            self._results = [self._result(place, strip_ended(value)) for place, value in enumerate(values)]
        return list(map(own_handle, self._results))

    def _result(self, place: int, value: Any) -> Any:
        if value.dtype.kind not in INEXACT:
            return boxed(value)
        return self._trace.made_of(value, lambda k: _coefficient(self._trace, self._slopes[place], k), self.order, True)

    def with_slopes(self, values: Sequence[Any], slopes: Sequence[Any]) -> list[Any]:
        """Return the results with the derivatives from the rule; made from `values` if it did not use them."""
        if self._results is None:
            return [
                x if slope is ZERO else self._trace.moved(x, slope) for x, slope in zip(values, slopes, strict=True)
            ]
        self._slopes = slopes
        return self._results


def _coefficient(trace: SeriesTrace, slope: Any, k: int) -> Any:
    """Return coefficient `k` of a series with the derivative `slope`, or ZERO."""
    if trace.follows(slope):
        return _integrated(slope._mark, k)
    return slope if k == 1 else ZERO


def _integrated(slope: Series, k: int) -> Any:
    """Return coefficient `k` of the integral of a series."""
    coefficient = slope[k - 1]
    return coefficient if coefficient is ZERO or k == 1 else coefficient / k


class Operation:
    """One operation on series, which computes the coefficients of its results.

    Args:
        trace: the series trace.
        primitive, args, metadata: the operation.

    Attributes:
        series: the series of the arguments; constant ones for constants.
        values: the arguments themselves.
        ans: the results, as tensors; set once they are computed.
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
        """Return the method for coefficients: by the kind of the operation, or by its forward rule."""
        if self.primitive.linear:
            return _together if self.primitive.linear == "together" else _each
        if self.primitive is UFUNCS[np.true_divide]:
            return _quotient
        if self.primitive in OF_BLOCKS and all(each.is_constant for each in self.series[1:]):
            return _by_blocks
        return _by_rule

    def followed(self, value: Any, place: int) -> Any:
        """Return the result at position `place` as a tensor."""
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
        """Return coefficient `k` of all results."""
        while len(self._found) < k:
            self._found.append(self._find(self, len(self._found) + 1))
        return self._found[k - 1]

    def slopes(self) -> list[Any]:
        """Return the result of the forward rule, as series or ZERO."""
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
        """Return the series that the rule has made, in order of dependence."""
        return self._made

    def _run_rule(self) -> Any:
        trace, jvp = self.trace, self.primitive.jvp
        args = [self._argument(x) for x in self.args]
        tangents = [ZERO if each.is_constant else trace.direction(each) for each in self.series]
        if self.primitive.scales == "both" and not self._is_guard:
            pairs = zip(tangents, self.series, strict=True)
            tangents = [Masked(t) if t is not ZERO and each.is_masked else t for t, each in pairs]
        return jvp(tangents, self.ans, *args, **self.metadata)  # type: ignore[misc]

    def _argument(self, arg: object) -> Any:
        """Return an argument for the rule; a tensor of another trace as a constant series of this one."""
        arg = strip_ended(arg)
        if type(arg) is not Tensor or self.trace.follows(arg):
            return arg
        return self.trace.made_of(arg, None, self.trace.order)

    def _series_of(self, slope: Any) -> Any:
        if slope is ZERO or self.trace.follows(slope):
            return slope if slope is ZERO else slope._mark
        return Series(payload_of(slope), None, self.trace.order)

    def product(self, coefficients: Sequence[Any], guard: int | None) -> Any:
        """Return the operation, linear in each argument, of coefficients; exact zeros of the one at `guard` win."""
        if guard is None:
            return apply(self.primitive, coefficients, self.metadata)
        guarded = [Masked(x) if place == guard else x for place, x in enumerate(coefficients)]
        if self.primitive is UFUNCS[np.multiply]:
            return guarded[0] * guarded[1]
        return contract(self.primitive, guarded, self.metadata)

    def guard(self, numbers: Sequence[int]) -> int | None:
        """Return the position of a coefficient whose exact zeros win over infinities of the others."""
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
    """Return the other term if a sum or difference has a term ZERO; else None."""
    if primitive in (UFUNCS[np.add], UFUNCS[np.subtract]) and coefficients[1] is ZERO:
        return coefficients[0]
    return coefficients[1] if primitive is UFUNCS[np.add] and coefficients[0] is ZERO else None


def _each(operation: Operation, k: int) -> Sequence[Any]:
    """Return the sum of products of coefficients whose numbers add up to k."""
    total: Any = ZERO
    is_square = operation.primitive is UFUNCS[np.multiply] and operation.series[0] is operation.series[1]
    for numbers in _splits(k, operation.series):
        if is_square and numbers[0] > numbers[1]:
            continue  # the same product as an earlier one
        coefficients = [each[number] for each, number in zip(operation.series, numbers, strict=True)]
        if not any(x is ZERO for x in coefficients):
            part = operation.product(coefficients, operation.guard(numbers))
            part = part * 2 if is_square and numbers[0] < numbers[1] else part
            total = part if total is ZERO else total + part
    return (total,)


def _splits(total: int, series: Sequence[Series]) -> Iterator[tuple[int, ...]]:
    """Yield tuples of numbers, one for each series, that add up to `total`; a constant has only number 0."""
    if not series:
        if not total:
            yield ()
        return
    for first in range(1 if series[0].is_constant else total + 1):
        for rest in _splits(total - first, series[1:]):
            yield first, *rest


def _quotient(operation: Operation, k: int) -> Sequence[Any]:
    """Return the coefficient of y = a / b, from a_k = b_0 y_k + b_1 y_(k-1) + ... + b_k y_0."""
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
    """Return the last block of the function of the block matrix whose block rows are shifted coefficients.

    Such matrices multiply like series (Mathias 1996, https://doi.org/10.1137/S0895479894266324), and so functions of
    them are functions of series.
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
