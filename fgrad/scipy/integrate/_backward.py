"""The discrete derivative of a solution computed by BDF, step by step.

    Backward(function, field, ...).solved(...)     the traced solution at all times

A step of BDF of order q and length h goes from the differences D_0 .. D_q of the last values, at equal distances h, to

    y = sum_j D_j + d     with d = h / alpha_q f(t, y) - sum_j gamma_j / alpha_q D_j

and to new differences, which are linear in the old ones and in d (L. F. Shampine and M. W. Reichelt, "The MATLAB ODE
suite", 1997, https://doi.org/10.1137/S1064827594276424). When h changes, the polynomial through the values is resampled
at the new distances, which is linear, too. SciPy chooses orders and step sizes. For given ones, all values together
solve a system of equations in which only f is nonlinear; its derivative follows from the implicit function theorem.
A perturbation propagates from step to step, so the linear systems are solved by a recurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.ops.tracing import raw_array
from fgrad.rules.closures import values_of
from fgrad.rules.implicit import Equation, Inverse, solution
from fgrad.scipy.integrate._callback import for_each_example
from fgrad.scipy.integrate._discontinuities import warn_of_steps_along
from fgrad.scipy.integrate._forms import key_of
from fgrad.scipy.integrate._rk_adjoint import places_of
from fgrad.scipy.integrate._tableau import recurrence
from fgrad.scipy.integrate._vectorized import Points, first_that_works
from fgrad.transforms.calls import name_of
from fgrad.transforms.jacobians import jacobian
from fgrad.transforms.reverse import vjp
from fgrad.typing import Array

Leaves = Sequence[Any]

ROWS = 7
"""Number of stored differences: one more than those of the highest order, 5, and the value itself."""

LARGEST_MATRIX = 32
"""Largest number of equations; beyond it the matrices of the recurrence are too large."""

TOLERANCE = 1e-2
"""Limit of the Newton correction to SciPy's solution, which is accurate to a fraction of `rtol`."""

_GAMMA = np.append(0.0, np.cumsum(1 / np.arange(1, 6)))
_ALPHA = (1 - np.array([0, -0.1850, -1 / 9, -0.0823, -0.0415, 0])) * _GAMMA


def _at_distances(order: int, factor: float) -> Array:
    """Return the matrix that maps the differences of a polynomial to those at distances scaled by a factor."""

    def changed(factor: float) -> Array:
        i, j = np.arange(1, order + 1)[:, None], np.arange(1, order + 1)
        matrix = np.zeros((order + 1, order + 1))
        matrix[0], matrix[1:, 1:] = 1, (i - 1 - factor * j) / i
        return np.cumprod(matrix, axis=0)

    made: Array = changed(factor) @ changed(1.0)
    return made.T


def _coefficients(leaves: Leaves) -> list[Any]:
    """Return the linear map of each step on the differences before it, for plain orders and times.

    Returns:
        For N steps: `along` and `by`, with which the new differences are along @ X + by * y, shapes (N, 7, 7) and
        (N, 7); `past`, with which c f(t, y) = y + past @ X, shape (N, 7); and c / h, shape (N,).
    """
    orders, times = leaves
    lengths = np.diff(times)
    along, by, past = np.zeros((len(orders), ROWS, ROWS)), np.zeros((len(orders), ROWS)), np.zeros((len(orders), ROWS))
    rates, before = np.zeros(len(orders)), lengths[0]
    for step, (q, h) in enumerate(zip(orders.astype(int), lengths, strict=True)):
        if h == 0:  # no change; steps of length 0 pad the shorter examples of a batch
            along[step], past[step, 0] = np.eye(ROWS), -1.0
            continue
        moved = np.zeros((q + 1, ROWS))
        moved[:, : q + 1] = _at_distances(q, h / before)
        by[step, : q + 2], rates[step], before = 1.0, 1 / _ALPHA[q], h
        along[step, : q + 1] = np.triu(np.ones((q + 1, q + 1))) @ moved
        along[step] -= by[step][:, None] * np.sum(moved, axis=0)  # d = y - sum_j D_j
        past[step] = (_GAMMA[: q + 1] / _ALPHA[q] - 1) @ moved
    return [along, by, past, rates]


@dataclass
class Backward:
    """Steps of BDF with given sizes and orders.

    Attributes:
        function: the user's function, for messages.
        field: the right-hand side: maps a time, a real vector and inputs to the slope.
        times_move: whether the times are differentiated.
        known: states computed by SciPy, by the leaves that they belong to.
    """

    function: Callable[..., Any]
    field: Callable[..., Any]
    times_move: bool
    known: dict[bytes, Array] = field(default_factory=dict)

    def remember(self, leaves: Leaves) -> list[Any]:
        """Store the states that are known for the given leaves."""
        self.known[key_of(leaves[1:])] = leaves[0]
        return []

    def solved(self, states: Array, orders: Array, start: Array, times: Array, inputs: Leaves) -> Differences:
        """Return the solution.

        Args:
            states: plain, from SciPy, of shape (N + 1, n).
            orders: the order of each step, and of the polynomial through its end, of shape (N, 2).
            start: the first state.
            times: the times of all states.
            inputs: the inputs of the right-hand side.

        Raises:
            ParameterError: a ValueError; there are too many equations.
        """
        size = start.shape[0]
        if size > LARGEST_MATRIX:
            raise errors.ParameterError(
                f"the steps of BDF are differentiable for up to {LARGEST_MATRIX} equations, but "
                f"{name_of(self.function)} has {size}.\nUse derivative='adjoint', or the method Radau."
            )
        own = [start, times, *inputs]
        for_each_example(self.remember, values_of([states, *own]))
        known = lambda plain: (plain[1], self.known[key_of(plain)])  # noqa: E731
        warn_of_steps_along(name_of(self.function), self.field, own, known, self.times_move)
        found = for_each_example(_coefficients, values_of([orders[:, 0], times]))
        linear = [each * 1.0 for each in found]
        equation = Equation(
            self.function,
            lambda leaves: leaves[0],
            lambda values, leaves: _System(self.field, leaves[1:]).residuals(values),
            tolerance=TOLERANCE,
            inverse=lambda values, leaves: _System(self.field, leaves[1:]).inverse(values),
        )
        leaves = [*linear, start, times, *inputs]
        values = solution(equation, [np.reshape(states[1:], -1), *leaves])
        return Differences(times, _System(self.field, leaves).differences(values), orders[:, 1] * 1.0)


class _System:
    """The equations of all steps, with the values at the ends of the steps as one vector of unknowns."""

    def __init__(self, field: Callable[..., Any], leaves: Leaves) -> None:
        self._along, self._by, self._past, self._rates, self._start, self._times, *self._inputs = leaves
        self._field = field
        self._size = self._start.shape[0]
        self._lengths = self._times[1:] - self._times[:-1]

    def differences(self, values: Array) -> Any:
        """Return the differences after all steps and before the first one, of shape (n, N + 1, 7)."""
        ends = np.swapaxes(np.reshape(values, (-1, self._size)), 0, 1)
        slope = self._field(self._times[0], self._start, *self._inputs)
        none = np.zeros((self._size, ROWS - 2))
        first = np.concatenate([np.stack([self._start, self._lengths[0] * slope], axis=1), none], axis=1)
        terms = np.concatenate([first[:, None], ends[:, :, None] * self._by], axis=1)
        return recurrence(np.broadcast_to(self._along, (self._size, *self._along.shape)), terms)

    def residuals(self, values: Array) -> Array:
        """Return c f(t, y) - y - past @ X of all steps, as one vector."""
        ends = np.reshape(values, (-1, self._size))
        slopes = self._points(ends).values()
        past = np.swapaxes(np.sum(self.differences(values)[:, :-1] * self._past, axis=-1), 0, 1)
        return np.reshape((self._rates * self._lengths)[:, None] * slopes - ends - past, -1)

    def inverse(self, values: Array) -> Inverse:
        """Return the inverse of the Jacobian of the residuals."""
        ends, size = np.reshape(values, (-1, self._size)), self._size

        def one_by_one() -> Array:
            places = zip(self._times[1:], ends, strict=True)
            fields = [(lambda y, t=t: self._field(t, y, *self._inputs), y) for t, y in places]
            return np.stack([jacobian(field, mode="forward")(y) for field, y in fields])

        jacobians = first_that_works(self._points(ends).jacobians, one_by_one)
        ahead = np.linalg.inv((self._rates * self._lengths)[:, None, None] * jacobians - np.eye(size))
        pushed = (self._by[:, :, None] * self._past[:, None, :])[:, :, None, :, None] * ahead[:, None, :, None, :]
        kept = self._along[:, :, None, :, None] * np.eye(size)[:, None, :]
        matrices = np.reshape(kept + pushed, (-1, ROWS * size, ROWS * size))
        return _Inverse(matrices, self._by, ahead)

    def _points(self, ends: Array) -> Points:
        return Points(self._field, self._inputs, self._times[1:], ends)


class _Inverse:
    """The inverse of a Jacobian, by the recurrence of changes of the differences.

    Args:
        matrices: map the perturbations before each step to those after it.
        by: the change of the differences with the value at the end of the step.
        ahead: the inverses of c J - 1.
    """

    def __init__(self, matrices: Array, by: Array, ahead: Array) -> None:
        self._matrices, self._by, self._ahead = matrices, by, ahead

    def times(self, b: Array) -> Array:
        count, size, _ = self._ahead.shape
        driven = (self._ahead @ np.reshape(b, (count, size, 1)))[..., 0]
        terms = np.reshape(self._by[:, :, None] * driven[:, None, :], (count, -1))
        changes = recurrence(self._matrices, np.concatenate([np.zeros((1, terms.shape[1])), terms]))
        return np.reshape(changes[1:, :size], -1)

    def transposed_times(self, b: Array) -> Any:
        return vjp(self.times, np.zeros(b.shape))[1](b)[0]

    def is_singular(self) -> bool:
        return not np.isfinite(raw_array(self._ahead)).all()

    def of_values(self, x: Array, leaves: Leaves) -> _Inverse:
        return _Inverse(*values_of([self._matrices, self._by, self._ahead]))


class Differences:
    """A solution at all times, from the polynomials through the ends of the steps.

    Args:
        times: the ends of the steps.
        differences: the differences at the ends, of shape (n, N + 1, 7).
        orders: the orders of the polynomials, for each step.

    Attributes:
        states: the states at the ends, one row each.
        parts: the arrays that define it.
    """

    def __init__(self, times: Array, differences: Array, orders: Array) -> None:
        self.times, self._differences, self._orders = times, differences, orders
        self.states = np.swapaxes(differences[:, :, 0], 0, 1)
        self.parts = [times, differences, orders]

    def of(self, parts: Leaves) -> Differences:
        """Return the same solution with other arrays."""
        return Differences(*parts)

    def at(self, times: Array) -> Any:
        """Return the states at the given times, of shape (m, n); a time may be slightly outside."""
        (places,) = for_each_example(places_of, values_of([self.times, times]))
        end = self.times[places + 1]
        h = end - self.times[places]
        passed = (times - end) / np.where(h == 0, 1.0, h)
        weights = [np.ones_like(passed)]
        for number in range(ROWS - 2):
            weights.append(weights[-1] * (passed + number) / (number + 1))
        used = np.arange(ROWS - 1) <= self._orders[places][:, None]
        found = np.swapaxes(self._differences[:, places + 1, : ROWS - 1], 0, 1)
        return np.sum(found * np.where(used, np.stack(weights, axis=-1), 0.0)[:, None, :], axis=-1)
