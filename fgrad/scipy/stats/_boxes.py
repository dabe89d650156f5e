"""Probabilities of boxes under multivariate normal and t distributions, integrated by SciPy.

Their derivatives are densities times probabilities of boxes with fewer sides. With respect to a limit, it is the
density at this limit times the probability of the other sides given that value; with respect to an element of the
shape, the density of two sides at their limits times the probability of the rest (R. L. Plackett, A reduction formula
for normal multivariate integrals, 1954, https://doi.org/10.1093/biomet/41.3-4.351; for the t distribution A. Genz and
F. Bretz, Computation of Multivariate Normal and t Probabilities, 2009). So SciPy's integrals, whose fifth digit is
random, are not differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import pi, sqrt
from typing import Any

import numpy as np
from scipy import stats

from fgrad import errors
from fgrad.rules.closures import followers
from fgrad.rules.implicit import for_each_example
from fgrad.rules.rule import Leaves, Rule, Variables, apply_rule
from fgrad.scipy import _special as special
from fgrad.scipy.stats._gammas import log_gamma_step
from fgrad.transforms.draws import of_algorithm
from fgrad.typing import Array, Operand

Given = tuple[Any, Any, tuple[Any, ...]]
"""For sides at their limits: the density, the scaling of the conditional shape, and the conditional parameters."""


@dataclass(frozen=True)
class Boxes:
    """Probabilities of boxes around zero, for one kind of distribution.

    Args:
        below: `below(x, *parameters)` is the univariate distribution function of scale 1.
        integral: `integral(lower, upper, shape, *parameters, **options)` is SciPy's, for two or more sides.
        one: `one(square, *parameters)`, for a side at its limit: `square` is the square of the limit, for scale 1.
        two: the same for two sides, where `square` is the squared distance with respect to their shape.
    """

    below: Callable[..., Any]
    integral: Callable[..., Any]
    one: Callable[..., Given]
    two: Callable[..., Given]

    def __call__(self, lower: Array, upper: Array, shape: Array, *parameters: Array, **options: Any) -> Any:
        """Return the probability that each component lies between its limits.

        Args:
            lower, upper: of shape (..., n); they may be infinite.
            shape: of shape (n, n).
            parameters: the parameters of the distribution, which have no derivative.
            options: options of SciPy's integral.
        """
        size = upper.shape[-1]
        if size == 0:
            return np.ones(upper.shape[:-1])
        if size == 1:
            return self._interval(lower[..., 0], upper[..., 0], np.sqrt(shape[0, 0]), parameters)

        def compute(leaves: Leaves) -> Leaves:
            return [for_each_example(lambda leaves: np.asarray(self.integral(*leaves, **options))[()], leaves)]

        bends = bool(followers([shape]))  # expensive, and rarely needed
        rule = Rule(
            self.integral, compute, lambda leaves: (apply_rule(rule, leaves), *self._derivatives(leaves, bends))
        )
        return apply_rule(rule, [lower, upper, shape, *parameters])[0]

    def _interval(self, lower: Array, upper: Array, scale: Array, parameters: Sequence[Any]) -> Any:
        """Return the probability of an interval, from the tail on its side of zero, where it is accurate."""
        turned = np.where(_where_finite(lower) + _where_finite(upper) > 0, -1.0, 1.0)
        first, last = (
            self.below(_each_finite(x, lambda x: turned * x / scale, turned), *parameters) for x in (lower, upper)
        )
        return turned * (last - first)

    def _given(
        self, places: Sequence[int], values: Array, lower: Array, upper: Array, shape: Array, parameters: Sequence[Any]
    ) -> Array:
        """Return the density of components at given values, times the probability of the rest; 0 at infinity."""
        is_finite = np.all(np.isfinite(values), -1)
        values = np.where(is_finite[..., None], values, 0.0)
        others = [place for place in range(shape.shape[0]) if place not in places]
        own, cross = shape[np.ix_(places, places)], shape[np.ix_(others, places)]
        by_value = np.linalg.solve(own, cross.T)
        square = np.sum(values * np.linalg.solve(own, values[..., None])[..., 0], -1)
        density, growth, parameters = (self.one if len(places) == 1 else self.two)(square, *parameters)
        shift, growth = values @ by_value, np.sqrt(growth)[..., None]
        limits = [_each_finite(x[..., others], lambda x: (x - shift) / growth) for x in (lower, upper)]
        rest = self(*limits, shape[np.ix_(others, others)] - cross @ by_value, *parameters)
        return np.where(is_finite, density / np.sqrt(np.linalg.det(own)) * rest, 0.0)

    def edges(self, lower: Array, upper: Array, shape: Array, parameters: Sequence[Any]) -> tuple[Any, Any]:
        """Return the derivatives with respect to each lower and upper limit, of shape (..., n)."""
        sides = [
            [self._given([i], limit[..., i : i + 1], lower, upper, shape, parameters) for i in range(shape.shape[0])]
            for limit in (lower, upper)
        ]
        below, above = (np.stack(side, -1) for side in sides)
        return below, above

    def bends(
        self, lower: Array, upper: Array, shape: Array, parameters: Sequence[Any], edges: tuple[Any, Any]
    ) -> Array:
        """Return the sums over limits of mixed second derivatives: twice the derivatives with respect to the shape."""
        size, (below, above) = shape.shape[0], edges
        rows: list[list[Any]] = [[0.0] * size for _ in range(size)]
        for i, j in combinations(range(size), 2):
            corners = product(((lower, -1.0), (upper, 1.0)), repeat=2)
            rows[i][j] = rows[j][i] = sum(
                a * b * self._given([i, j], np.stack([x[..., i], y[..., j]], -1), lower, upper, shape, parameters)
                for (x, a), (y, b) in corners
            )
        ends = _where_finite(upper) * above - _where_finite(lower) * below
        for i in range(size):
            mixed = sum(shape[i, j] * rows[i][j] for j in range(size) if j != i)
            rows[i][i] = -(ends[..., i] + mixed) / shape[i, i]
        return np.stack([np.stack(row, -1) for row in rows], -2)

    def _derivatives(self, leaves: Leaves, bends: bool) -> tuple[Callable[..., Leaves], Callable[..., Leaves]]:
        """Return the pullback and the pushforward; with `bends`, also with respect to the shape."""
        lower, upper, shape, *parameters = leaves

        def pull(cotangents: Leaves, variables: Variables) -> Leaves:
            ct = cotangents[0][..., None]
            below, above = edges = self.edges(lower, upper, shape, parameters)
            of_shape = None
            if bends:
                bent = ct[..., None] * self.bends(lower, upper, shape, parameters, edges) / 2
                of_shape = np.sum(bent, tuple(range(bent.ndim - 2)))
            return [-ct * below, ct * above, of_shape, *(None for _ in parameters)]

        def push(tangents: Leaves, variables: Variables) -> Leaves:
            below, above = edges = self.edges(lower, upper, shape, parameters)
            moved = np.sum(tangents[1] * above - tangents[0] * below, -1)
            if bends:
                moved = moved + np.sum(tangents[2] * self.bends(lower, upper, shape, parameters, edges), (-1, -2)) / 2
            return [moved]

        return pull, push


def _where_finite(x: Array) -> Array:
    return np.where(np.isfinite(x), x, 0.0)


def _each_finite(limit: Array, function: Callable[[Any], Any], sign: Operand = 1.0) -> Any:
    """Return a function of the finite limits; infinite ones are only multiplied by a sign."""
    return np.where(np.isfinite(limit), function(_where_finite(limit)), sign * limit)


@of_algorithm
def _normal_integral(lower: Array, upper: Array, shape: Array, **options: Any) -> Any:
    return stats.multivariate_normal.cdf(upper, None, shape, True, lower_limit=lower, **options)


@of_algorithm
def _t_integral(lower: Array, upper: Any, shape: Any, df: Any, **options: Any) -> Any:
    return stats.multivariate_t.cdf(upper, None, shape, df, True, lower_limit=lower, **options)


def _t_density(square: Array, df: Array) -> Any:
    """Return the density of Student's t distribution from the square of its variable."""
    return np.exp(log_gamma_step(df / 2, 0.5) - (df + 1) / 2 * np.log1p(square / df)) / np.sqrt(df * pi)


NORMAL = Boxes(
    special.ndtr,
    _normal_integral,
    one=lambda square: (np.exp(-square / 2) / sqrt(2 * pi), 1.0, ()),
    two=lambda square: (np.exp(-square / 2) / (2 * pi), 1.0, ()),
)
STUDENT = Boxes(
    lambda x, df: special.stdtr(df, x),
    _t_integral,
    one=lambda square, df: (_t_density(square, df), (df + square) / (df + 1), (df + 1,)),
    two=lambda square, df: ((1 + square / df) ** (-df / 2) / (2 * pi), 1 + square / df, (df,)),
)


def refuse_derivative(x: Operand, argument: str, function: str) -> None:
    """Raise if an argument without a derivative in closed form is differentiated.

    Raises:
        NoClosedFormError: a NotImplementedError.
    """
    if any(trace.differentiates for trace in followers([x])):
        raise errors.NoClosedFormError(function, argument, "", errors.users_line())
