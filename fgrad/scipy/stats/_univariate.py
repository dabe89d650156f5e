"""Univariate distributions: formulas of the standard form, and one mechanism for location, scale and derivatives.

    Continuous(scipys, logpdf=..., cdf=...)   location, scale, support, validity of parameters
    Discrete(scipys, logpmf=..., cdf=...)     the same for counts

A formula has the name of SciPy's method, and takes the standardized argument and the shape parameters. It is
composed of ordinary operations, so derivatives of every order follow. Its arguments are in the support, and its
parameters are valid or NaN; elsewhere masks put exact zeros into the derivatives. Usually all elements are valid; a
check of the values for this is faster than masks, and the formula is then computed alone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.tensor import apply
from fgrad.ops.elementwise import stop_gradient_of
from fgrad.ops.tracing import concrete_value
from fgrad.scipy.stats._base import (
    Distribution,
    count_of,
    differentiated,
    in_double,
    is_above,
    is_everywhere,
    is_finite,
    is_positive,
)
from fgrad.scipy.stats._densities import Form, far_density, log_density
from fgrad.scipy.stats._integrals import flat_exp
from fgrad.typing import Array, ArrayLike, Operand

Formula = Callable[..., Any]

FAR = -700.0
"""Below this logarithm numbers lose digits, and finally underflow."""
_LOWEST = -745.2
"""The logarithm of the smallest positive double."""


def constant_where_infinite(x: Array) -> Array:
    """Return `x`, with the derivative 0 where it is infinite."""
    return np.where(np.isinf(x), np.where(np.greater(x, 0), np.inf, -np.inf), x)


def _times(moment: Operand, scale: Any) -> Any:
    """Return a moment of the standard form times the scale; an infinite one is a constant."""
    infinite = np.isinf(moment)
    return np.where(infinite, np.inf * np.where(scale > 0, 1.0, np.nan), np.where(infinite, 1.0, moment) * scale)


def all_positive(*shapes: Any) -> Any:
    """Return where all parameters are positive."""
    return functools.reduce(np.logical_and, (np.greater(shape, 0) for shape in shapes), np.True_)


def log_of_complement(probability: Any, complement: Any) -> Array:
    """Return the logarithm of a probability, from the smaller one of it and its complement."""
    small = np.less_equal(probability, complement)
    with np.errstate(divide="ignore"):  # log(0) is -inf, as in SciPy
        return np.where(small, np.log(np.where(small, probability, 0.5)), np.log1p(-np.where(small, 0.5, complement)))


# What methods are documented with

_OF_PARAMETERS = """
Args:
    args, kwds: shape parameters, `loc` and `scale`, by name or position.

Returns:
    An array of the shape to which the parameters broadcast.

Raises:
    TypeError: a parameter is missing or unknown.
"""

_OF_POINTS = """
Args:
    x: the points of evaluation.

Returns:
    An array of the shape to which the arguments broadcast, in double precision as in SciPy.

Raises:
    TypeError: a parameter is missing or unknown.
    NoDerivativeError: a ValueError; `x` is a count, and is differentiated.
"""

_OF_REAL_NUMBERS = """
Raises:
    TypeError: a parameter is missing or unknown.
    DtypeError: a TypeError; an argument is complex.
"""

_OF_PROBABILITIES = """
Args:
    q: a probability.

Returns:
    An array of the shape to which the arguments broadcast; NaN where `q` is not a probability.
"""

_OF_COUNTS = """
Args:
    k: the count.
    args, kwds: shape parameters and `loc`, by name or position.

Returns:
    An array of the shape to which the arguments broadcast.

Raises:
    TypeError: a parameter is missing or unknown.
    NoDerivativeError: a ValueError; a count is differentiated.
"""

# The distributions


class Located(Distribution):
    """A distribution with a location, whose methods are differentiable in all their arguments.

    Args:
        scipys: SciPy's distribution, which is used if nothing is traced.
        allowed: where the shape parameters are valid; by default where all are positive.
        support: the ends of the support of the standard form: numbers, or a function of the shape parameters.
        formulas: formulas of the standard form, by the names of SciPy's methods.
    """

    defaults: dict[str, float]
    argument: str

    def __init__(
        self,
        scipys: Any,
        allowed: Formula = all_positive,
        support: tuple[float, float] | Formula | None = None,
        **formulas: Formula,
    ) -> None:
        self.shape_names = scipys.shapes.split(", ") if scipys.shapes else []
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature(
            [inspect.Parameter(shape, kind) for shape in self.shape_names]
            + [inspect.Parameter(name, kind, default=default) for name, default in self.defaults.items()]
        )
        super().__init__(scipys, scipys.name, signature)
        self.parameter_names = list(signature.parameters)
        self.default_values = list(self.defaults.values())
        self.allowed = allowed
        self.ends = (scipys.a, scipys.b) if support is None else support
        self.unbounded = self.ends == (-np.inf, np.inf)
        self.formulas = formulas

    def _formula(self, name: str) -> Formula:
        """Return a formula of the standard form, or raise an error if it does not exist."""
        if name not in self.formulas:
            raise errors.MissingRuleError(f"{self.full_name}.{name}", errors.users_line())
        return self.formulas[name]

    def _bound(self, args: Sequence[Any], keywords: dict[str, Any]) -> Sequence[Any]:
        """Return all parameters: the shapes, the location and the scale."""
        names, count = self.parameter_names, len(args)
        if keywords:
            values = self.defaults | dict(zip(names, args, strict=False)) | keywords
            if values.keys() == self.signature.parameters.keys() and keywords.keys().isdisjoint(names[:count]):
                return [values[name] for name in names]
        elif len(self.shape_names) <= count <= len(names):
            return [*args, *self.default_values[count - len(self.shape_names) :]]
        try:
            bound = self.signature.bind(*args, **keywords)
        except TypeError as error:
            raise errors.KeywordError(
                f"{self.full_name}: {error}. The parameters of this distribution are {', '.join(names)}."
            ) from None
        bound.apply_defaults()
        return list(bound.arguments.values())

    def _given(self, args: Sequence[Any], keywords: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        """Return the shape parameters, location and scale in double precision."""
        values = [
            x if type(x) is float else self._number(name, x)
            for name, x in zip(self.parameter_names, self._bound(args, keywords), strict=True)
        ]
        values.append(1.0)  # the scale of distributions without one
        count = len(self.shape_names)
        return values[:count], values[count], values[count + 1]

    def _where_allowed(self, shapes: list[Any]) -> Any:
        # Computed from values alone, so that no derivative is computed for a condition.
        return self.allowed(*map(stop_gradient_of, shapes))

    def _allows(self, shapes: list[Any]) -> bool:
        """Return whether all shape parameters are known to be valid."""
        if self.allowed is all_positive:
            return all(map(is_positive, shapes))
        return is_everywhere(self._where_allowed(shapes))

    def _or_nan(self, shapes: list[Any], scale: Array | float) -> tuple[list[Any], Any]:
        """Return the shape parameters and the scale, NaN where one of them is invalid."""
        if is_positive(scale) and self._allows(shapes):
            return shapes, scale
        allowed = np.logical_and(self._where_allowed(shapes), np.greater(stop_gradient_of(scale), 0))
        one = np.where(allowed, 1.0, np.nan)
        return [shape * one for shape in shapes], scale * one

    def _parameters(self, args: Sequence[Any], keywords: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        """Return the shape parameters, location and scale; NaN where one is invalid."""
        shapes, loc, scale = self._given(args, keywords)
        shapes, scale = self._or_nan(shapes, scale)
        return shapes, loc, scale

    def _number(self, name: str, x: ArrayLike) -> Any:
        """Return an argument in double precision."""
        return in_double(x, self.full_name)

    def _distance(self, x: ArrayLike, loc: Operand) -> Any:
        """Return the argument relative to the location."""
        number = self._number(self.argument, x)
        return number if type(loc) is float and loc == 0 else number - loc

    def _standardized(self, distance: Array, scale: Operand) -> Any:
        """Return the argument of the tails of the standard form."""
        return distance / scale

    def _ends(self, shapes: list[Any]) -> tuple[Any, Any]:
        return self.ends(*shapes) if callable(self.ends) else self.ends

    @differentiated(_OF_PARAMETERS)
    def mean(self, *args: object, **kwds: object) -> Any:
        """Return the mean.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda a: stats.gamma.mean(a, scale=3.0))(2.0)
            Tensor(3.)
        """
        shapes, loc, scale = self._parameters(args, kwds)
        return constant_where_infinite(self._formula("mean")(*shapes) * scale + loc)

    @differentiated(_OF_PARAMETERS)
    def var(self, *args: Any, **kwds: ArrayLike) -> Any:
        """Return the variance.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.norm.var(scale=scale))(3.0)
            Tensor(6.)
        """
        shapes, loc, scale = self._parameters(args, kwds)
        return _times(_times(self._formula("var")(*shapes), scale), scale) + 0.0 * loc

    @differentiated(_OF_PARAMETERS)
    def std(self, *args: object, **kwds: ArrayLike) -> Any:
        """Return the standard deviation.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.expon.std(scale=scale))(3.0)
            Tensor(1.)
        """
        shapes, loc, scale = self._parameters(args, kwds)
        # The square of the scale may overflow where the scale itself does not.
        return _times(np.sqrt(self._formula("var")(*shapes)), scale) + 0.0 * loc

    @differentiated(_OF_PARAMETERS)
    def entropy(self, *args: object, **kwds: ArrayLike) -> Any:
        """Return the entropy: of a density with respect to length, or of probabilities.

        Raises:
            TypeError: a parameter is missing or unknown.
            MissingRuleError: a TypeError; it has no closed form for this distribution.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.norm.entropy(scale=scale))(2.0)
            Tensor(0.5)
        """
        shapes, loc, scale = self._parameters(args, kwds)
        return self._formula("entropy")(*shapes) + np.log(scale) + 0.0 * loc

    @differentiated(_OF_POINTS, _OF_PARAMETERS)
    def cdf(self, x: ArrayLike, *args: object, **kwds: object) -> Any:
        """Return the distribution function: the probability of `x` or less.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda a: stats.gamma.cdf(1.0, a))(1.0)
            Tensor(-0.43172971)
        """
        return self._tail("cdf", x, args, kwds, below=0.0, above=1.0)

    @differentiated(_OF_POINTS, _OF_PARAMETERS)
    def sf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Any:
        """Return the survival function: the probability of more than `x`.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.expon.sf(1.0, scale=scale))(1.0)
            Tensor(0.36787944)
        """
        return self._tail("sf", x, args, kwds, below=1.0, above=0.0)

    @differentiated(_OF_POINTS, _OF_PARAMETERS)
    def logcdf(self, x: ArrayLike, *args: object, **kwds: object) -> Any:
        """Return the logarithm of the distribution function, accurate in both tails.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda x: stats.norm.logcdf(x))(-100.0)
            Tensor(100.009998)
        """
        return self._tail("logcdf", x, args, kwds, below=-np.inf, above=0.0)

    @differentiated(_OF_POINTS, _OF_PARAMETERS)
    def logsf(self, x: ArrayLike, *args: object, **kwds: object) -> Any:
        """Return the logarithm of the survival function, accurate in both tails.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda x: stats.norm.logsf(x))(-100.0)
            Tensor(-0.)
        """
        return self._tail("logsf", x, args, kwds, below=0.0, above=-np.inf)

    def _tail_formula(self, method: str) -> Formula:
        if method in self.formulas or not method.startswith("log"):
            return self._formula(method)
        tail, complement = ("cdf", "sf") if method == "logcdf" else ("sf", "cdf")
        of, other = self._formula(tail), self._formula(complement)
        return lambda y, *shapes: log_of_complement(of(y, *shapes), other(y, *shapes))

    def _tail(
        self, method: str, x: ArrayLike, args: tuple[Any, ...], keywords: dict[str, Any], below: float, above: float
    ) -> Any:
        """Return the probability of a tail, or its logarithm, and its values before and after the support."""
        formula, far = self._tail_formula(method), self.formulas.get(f"far_{method}")
        shapes, loc, scale = self._parameters(args, keywords)
        y = self._standardized(self._distance(x, loc), scale)
        if is_finite(scale) and self._is_inside(y, shapes):
            found = formula(y, *shapes)
            if is_finite(found) and (far is None or is_above(found, FAR)):
                return self._flattened(found, y, shapes, method)
        low, high = self._outside(y, shapes, method)
        y = self._safe(np.logical_or(low, high), y, shapes)
        found = formula(y, *shapes)
        if far is not None and not is_above(found, FAR):
            found = self._with_far_slope(far, found, y, shapes)
        elif method.startswith("log"):
            found = constant_where_infinite(found)
        found = self._flattened(found, y, shapes, method)
        return np.where(low, below, np.where(high, above, found))

    def _flattened(self, found: Any, y: Operand, shapes: list[Any], method: str) -> Any:
        """Return a tail, with the derivative 0 where it is 0 or 1 and the density is 0, too.

        There an overflowed, infinite slope in the formula would give NaN.
        """
        return found

    def _with_far_slope(self, far: Formula, found: Any, y: Operand, shapes: list[Any]) -> Any:
        """Return the logarithm of a tail; far out, where the tail loses its digits, with the correct slope.

        The value is SciPy's, which is -inf where the tail is 0.
        """
        logarithm = far(y, *shapes)
        lost = np.logical_and(np.less(stop_gradient_of(found), FAR), np.isfinite(logarithm))
        change = np.where(lost, logarithm - stop_gradient_of(logarithm), 0.0)
        return np.where(lost, stop_gradient_of(found), constant_where_infinite(found)) + change

    def _is_inside(self, y: Operand, shapes: list[Any]) -> bool:
        """Return whether all standardized numbers are known to be valid for the formulas, without masks."""
        raise NotImplementedError(type(self).__name__)

    def _outside(self, y: Operand, shapes: list[Any], method: str) -> tuple[Any, Any]:
        """Return where a tail is 0 or 1: before and after the support."""
        raise NotImplementedError(type(self).__name__)

    def _safe(self, outside: object, y: Operand, shapes: list[Any]) -> Any:
        """Return standardized numbers, with those outside of the support replaced by others inside."""
        raise NotImplementedError(type(self).__name__)


class Continuous(Located):
    """A continuous distribution of `scipy.stats`, differentiable in its argument and in all its parameters.

    Outside of the support the density is 0, its logarithm -inf, and the derivatives are exactly 0. They are also 0
    where the density itself is 0 or infinite at an end of the support, and where the logarithm of a tail is -inf,
    unless there is a formula of the far tail. For invalid parameters all results are NaN.

    Args:
        scipys: SciPy's distribution, which is used if nothing is traced.
        logpdf: the logarithm of the density of the standard form.
        allowed: where the shape parameters are valid; by default where all are positive.
        support: the ends of the support of the standard form: numbers, or a function of the shape parameters.
        open_density: whether the density is 0 at the ends of the support.
        open_tails: whether the formulas of `cdf` and `sf` are invalid at the ends of the support.
        inside: a number in the support, or a function of the shape parameters.
        fall, scores: the derivatives of `-logpdf` with respect to the argument and of `logpdf` with respect to the
            shape parameters, which make it one operation; without them it consists of several.
        power: if the density behaves like a power near 0, the power of the argument times the density, as a function of
            the shape parameters; `fall` then excludes it.
        rest: the argument times `fall`, if that is a shorter formula.
        squared: the square of the argument times `fall`, if that is a constant.
        tail_power, tail_fall: the same as `power` and `fall`, for a density that is another power beyond 1.
        formulas: formulas of the standard form, by the names of SciPy's methods; and `far_logcdf`, `far_logsf`, for
            derivatives where the tail itself is 0 in double precision, or has lost its digits.

    Example:
        >>> import fgrad as fg
        >>> from fgrad.scipy import stats
        >>> fg.grad(stats.norm.logpdf, argnums=(0, 1, 2))(2.0, 1.0, 1.0)
        (Tensor(-1.), Tensor(1.), Tensor(0.))
    """

    defaults = {"loc": 0.0, "scale": 1.0}  # noqa: RUF012  # read only
    argument = "x"

    def __init__(
        self,
        scipys: Any,
        logpdf: Formula,
        allowed: Formula = all_positive,
        support: tuple[float, float] | Formula | None = None,
        open_density: bool = False,
        open_tails: bool = False,
        inside: float | Formula = 0.5,
        fall: Formula | None = None,
        power: Formula | None = None,
        rest: Formula | None = None,
        squared: float | None = None,
        tail_power: Formula | None = None,
        tail_fall: Formula | None = None,
        scores: tuple[Formula, ...] = (),
        **formulas: Formula,
    ) -> None:
        super().__init__(scipys, allowed, support, logpdf=logpdf, **formulas)
        between = (3.3, 4.0) if scipys.a == 1 else (-1.5, -0.5) if scipys.b == 0 else (0.5, 1.5)
        self.form = Form(scipys.name, logpdf, fall, power, rest, squared, tail_power, tail_fall, scores)
        self.density = log_density(self.form, between) if fall is not None else None
        self.open_density = open_density
        self.open_tails = open_tails
        self.inside = inside

    def instead_of(self, name: str) -> str:
        """Return an alternative to a method without a derivative."""
        if name != "rvs":
            return ""
        by_quantiles = f"fgrad.{self.full_name}.ppf(rng.random(size), ...)"
        return f"Draw by quantiles, {by_quantiles}; or with a generator of fg.random.default_rng(seed)."

    def _safe(self, outside: Any, y: Any, shapes: list[Any]) -> Array:
        return np.where(outside, self.inside(*shapes) if callable(self.inside) else self.inside, y)

    def _before(self, y: Array, start: Operand, is_open: bool) -> Any:
        """Return where a number is before the support, or at an open or infinite end."""
        if type(start) is float and np.isinf(start):
            return np.equal(y, -np.inf)
        return np.less_equal(y, start) if is_open else np.less(y, start)

    def _after(self, y: Array, end: Operand, is_open: bool) -> Any:
        if type(end) is float and np.isinf(end):
            return np.equal(y, np.inf)
        return np.greater_equal(y, end) if is_open else np.greater(y, end)

    def _is_inside(self, y: Any, shapes: list[Any]) -> bool:
        return is_finite(y) and self._is_between(y, 1.0)

    def _is_between(self, distance: Array, scale: Operand) -> bool:
        """Return whether distances from the location are known to be inside the support, and not at an end of it."""
        if self.unbounded or callable(self.ends):
            return self.unbounded
        # The tensors are compared, not their values, so that a search for jumps can record the decision.
        start, end = (limit if limit == 0 or np.isinf(limit) else limit * scale for limit in self.ends)
        after = self.ends[0] == -np.inf or is_everywhere(np.greater(distance, start))
        return after and (self.ends[1] == np.inf or is_everywhere(np.less(distance, end)))

    def _flattened(self, found: Any, y: Operand, shapes: list[Any], method: str) -> Any:
        full, none = (0.0, np.nan) if method.startswith("log") else (1.0, 0.0)
        value = concrete_value(found)
        if value is not None and not np.any((value == full) | (value == none)):
            return found
        constant = stop_gradient_of(found)
        at_end = np.logical_or(np.equal(constant, full), np.equal(constant, none))
        with np.errstate(all="ignore"):
            density = self.formulas["logpdf"](*map(stop_gradient_of, (y, *shapes)))
        flat = np.logical_and(at_end, np.logical_not(np.greater(density, _LOWEST)))
        return found if is_everywhere(np.logical_not(flat)) else np.where(flat, constant, found)

    def _outside(self, y: Any, shapes: list[Any], method: str) -> tuple[Any, Any]:
        start, end = self._ends(shapes)
        # At an end the derivative is the density there, unless the result is the logarithm of 0.
        low = self._before(y, start, self.open_tails or method == "logcdf")
        return low, self._after(y, end, self.open_tails or method == "logsf")

    def _placed(self, x: ArrayLike, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, Any, list[Any]]:
        shapes, loc, scale = self._given(args, keywords)
        return self._distance(x, loc), scale, shapes

    def _inner_log_density(self, distance: Array, scale: Operand, shapes: list[Any]) -> Any:
        """Return the logarithm of the density if it is known to be finite everywhere; otherwise None."""
        regular = is_positive(scale) and (not shapes or (all(map(is_finite, shapes)) and self._allows(shapes)))
        if self.density and regular and self._is_between(distance, scale):
            with np.errstate(all="ignore"):
                found = apply(self.density, (distance, scale, *shapes))
                if is_finite(found):
                    return found
        return None

    def _outside_density(self, y: Array, shapes: list[Any]) -> Any:
        """Return where standardized numbers are before or after the support of the density."""
        start, end = self._ends(shapes)
        return np.logical_or(self._before(y, start, self.open_density), self._after(y, end, self.open_density))

    def _masked_log_density(self, y: Array, scale: Operand, shapes: list[Any], outside: Array) -> Array:
        inner = self.formulas["logpdf"](self._safe(outside, y, shapes), *shapes)
        return np.where(outside, -np.inf, constant_where_infinite(inner - np.log(scale)))

    def _masked_density(self, distance: Array, scale: float, shapes: list[Any]) -> Any:
        y = distance / scale
        outside = self._outside_density(y, shapes)
        logarithm = self._masked_log_density(y, scale, shapes, outside)
        if is_everywhere(np.logical_not(self._is_far(stop_gradient_of(logarithm), y))):
            return flat_exp(logarithm)
        inside = stop_gradient_of(self._safe(True, y, shapes) * scale)
        return np.where(outside, 0.0, far_density(self.form, np.where(outside, inside, distance), scale, *shapes))

    def _is_moderate(self, distance: Array, scale: Any) -> bool:
        """Return whether the power near 0 need not be separated from the rest of the density."""
        form = self.form
        if form.power is None and form.tail_power is None:
            return True
        values = [concrete_value(x) for x in (distance, scale)]
        if list(map(np.shape, values)) != [np.shape(distance), np.shape(scale)]:  # a batch
            values = [stop_gradient_of(x) for x in (distance, scale)]
        return is_everywhere(np.logical_not(form.has_power(values[0] / values[1])))

    def _is_far(self, logarithm: Array, y: Array) -> Any:
        """Return where derivatives of the density cannot be computed from those of its logarithm."""
        far = np.logical_or(np.less(logarithm, FAR), self.form.has_power(y))
        return np.logical_and(far, np.isfinite(logarithm))

    @differentiated(_OF_REAL_NUMBERS, _OF_POINTS, _OF_PARAMETERS)
    def logpdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Any:
        """Return the logarithm of the density.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.norm.logpdf)(3.0, loc=1.0, scale=2.0)
            Tensor(-0.5)
        """
        distance, scale, shapes = self._placed(x, args, kwds)
        found = self._inner_log_density(distance, scale, shapes)
        if found is not None:
            return found
        shapes, scale = self._or_nan(shapes, scale)
        y = distance / scale
        return self._masked_log_density(y, scale, shapes, self._outside_density(y, shapes))

    @differentiated(_OF_REAL_NUMBERS, _OF_POINTS, _OF_PARAMETERS)
    def pdf(self, x: ArrayLike, *args: object, **kwds: object) -> Any:
        """Return the density.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.expon.pdf)(0.0)
            Tensor(-1.)
        """
        distance, scale, shapes = self._placed(x, args, kwds)
        logarithm = self._inner_log_density(distance, scale, shapes)
        if logarithm is None:
            shapes, scale = self._or_nan(shapes, scale)
            return self._masked_density(distance, scale, shapes)
        if is_above(logarithm, FAR) and self._is_moderate(distance, scale):
            return np.exp(logarithm)
        return far_density(self.form, distance, scale, *shapes)

    @differentiated(_OF_PROBABILITIES, _OF_REAL_NUMBERS, _OF_PARAMETERS)
    def ppf(self, q: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Any:
        """Return the quantile: the inverse of the distribution function.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.uniform.ppf)(0.25, loc=1.0, scale=4.0)
            Tensor(4.)
        """
        return self._quantile("ppf", q, args, kwds)

    @differentiated(_OF_PROBABILITIES, _OF_REAL_NUMBERS, _OF_PARAMETERS)
    def isf(self, q: ArrayLike, *args: ArrayLike, **kwds: object) -> Any:
        """Return the inverse of the survival function.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.expon.isf)(0.25)
            Tensor(-4.)
        """
        return self._quantile("isf", q, args, kwds)

    @differentiated(_OF_PARAMETERS)
    def median(self, *args: object, **kwds: ArrayLike) -> Any:
        """Return the median.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.expon.median(scale=scale))(1.0)
            Tensor(0.69314718)
        """
        return self._quantile("ppf", 0.5, args, kwds)

    def _quantile(self, name: str, q: ArrayLike, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        shapes, loc, scale = self._parameters(args, keywords)
        q = self._number("q", q)
        start, end = self._ends(shapes) if name == "ppf" else self._ends(shapes)[::-1]
        inside = np.logical_and(np.greater(q, 0), np.less(q, 1))
        inner = self._formula(name)(np.where(inside, q, 0.5), *shapes)
        ends = np.where(np.equal(q, 0), start, np.where(np.equal(q, 1), end, np.nan))
        return np.where(inside, inner, ends) * scale + loc


class Discrete(Located):
    """A discrete distribution of `scipy.stats`, differentiable in its parameters.

    Counts are integers, so a count has no derivative, and differentiating one raises an error. Between integers
    the probability is 0 as in SciPy, and so are its derivatives, and those of the logarithm of a tail that is -inf,
    unless there is a formula of the far tail. For invalid
    parameters all results are NaN.

    Args:
        scipys: SciPy's distribution, which is used if nothing is traced.
        logpmf, pmf: the logarithms of the probabilities of the standard form, and the probabilities.
        allowed: where the shape parameters are valid.
        counts: the shape parameters that are counts themselves.
        support: the ends of the support of the standard form: numbers, or a function of the shape parameters.
        formulas: formulas of the standard form, by the names of SciPy's methods.

    Example:
        >>> import fgrad as fg
        >>> from fgrad.scipy import stats
        >>> fg.grad(lambda mu: stats.poisson.logpmf(3, mu))(2.0)
        Tensor(0.5)
    """

    def __init__(
        self,
        scipys: Any,
        logpmf: Formula,
        pmf: Formula,
        allowed: Formula,
        counts: tuple[str, ...] = (),
        support: tuple[float, float] | Formula | None = None,
        **formulas: Formula,
    ) -> None:
        super().__init__(scipys, allowed, support, logpmf=logpmf, pmf=pmf, **formulas)
        self.counts = counts

    defaults = {"loc": 0.0}  # noqa: RUF012  # read only
    argument = "k"

    def _number(self, name: str, x: ArrayLike) -> Any:
        """Return an argument in double precision; reject the derivative of a count."""
        counts = name in ("k", "loc", *self.counts)
        return count_of(x, name, self.full_name) if counts else super()._number(name, x)

    def _standardized(self, distance: Any, scale: Operand) -> Any:
        return np.floor(self._count(distance, scale))

    def _count(self, distance: Array, scale: Operand) -> Any:
        """Return the count; NaN where a parameter is invalid, in which case the scale is NaN."""
        return distance if type(scale) is float else distance * scale

    def _is_inside(self, k: Any, shapes: list[Any]) -> bool:
        low, high = self._outside(k, shapes, "")
        return is_finite(k) and is_everywhere(np.logical_not(np.logical_or(low, high)))

    def _outside(self, k: Any, shapes: list[Any], method: str) -> tuple[Any, Any]:
        start, end = self._ends(shapes)
        return np.less(k, start), np.greater_equal(k, end)

    def _safe(self, outside: Any, k: Any, shapes: list[Any]) -> Any:
        return np.where(outside, self._ends(shapes)[0], k)

    @differentiated(_OF_COUNTS)
    def logpmf(self, k: ArrayLike, *args: ArrayLike, **kwds: object) -> Any:
        """Return the logarithm of the probability of a count.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda p: stats.binom.logpmf(3, 4, p))(0.5)
            Tensor(4.)
        """
        return self._probability("logpmf", k, args, kwds, -np.inf)

    @differentiated(_OF_COUNTS)
    def pmf(self, k: ArrayLike, *args: ArrayLike, **kwds: object) -> Any:
        """Return the probability of a count.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda p: stats.bernoulli.pmf(1, p))(0.0)
            Tensor(1.)
        """
        return self._probability("pmf", k, args, kwds, 0.0)

    def _probability(
        self, name: str, k: ArrayLike, args: tuple[Any, ...], keywords: dict[str, Any], outside: float
    ) -> Any:
        shapes, loc, scale = self._parameters(args, keywords)
        k = self._count(self._distance(k, loc), scale)
        start, end = self._ends(shapes)
        none = (k < start) | (k > end) | np.isinf(k) | ((np.floor(k) != k) & ~np.isnan(k))
        if is_finite(scale) and is_everywhere(np.logical_not(none)):
            return self.formulas[name](k, *shapes)
        return np.where(none, outside, self.formulas[name](np.where(none, start, k), *shapes))
