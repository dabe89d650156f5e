"""Distributions of one number: formulas of the standard form, and one mechanism for all the rest.

    Continuous(scipys, logpdf=..., cdf=...)   location, scale, support, parameters that are not allowed
    Discrete(scipys, logpmf=..., cdf=...)     the same for counts

A formula bears the name of SciPy's method, and takes the standardized argument and the shape parameters. It is
ordinary code, so every order of derivative follows. It is called inside the support and for parameters that are
allowed, or NaN; elsewhere masks put exact zeros into the derivatives.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.ops.elementwise import stop_gradient_of
from fgrad.scipy.stats._base import Distribution, count_of, differentiated, in_double
from fgrad.scipy.stats._integrals import flat_exp

Formula = Callable[..., Any]


def constant_where_infinite(x: Any) -> Any:
    """Return `x`, with the derivative 0 where it is infinite."""
    return np.where(np.isinf(x), np.where(np.greater(x, 0), np.inf, -np.inf), x)


def _times(moment: Any, scale: Any) -> Any:
    """Return a moment of the standard form times the scale; where there is none, because it is infinite, a constant."""
    infinite = np.isinf(moment)
    return np.where(infinite, np.inf * np.where(scale > 0, 1.0, np.nan), np.where(infinite, 1.0, moment) * scale)


def all_positive(*shapes: Any) -> Any:
    """Return where all parameters are positive."""
    return functools.reduce(np.logical_and, (np.greater(shape, 0) for shape in shapes), np.True_)


def log_of_complement(probability: Any, complement: Any) -> Any:
    """Return the logarithm of a probability, by the smaller one of it and its complement."""
    small = np.less_equal(probability, complement)
    with np.errstate(divide="ignore"):  # the logarithm of 0 is -inf, as SciPy's
        return np.where(small, np.log(np.where(small, probability, 0.5)), np.log1p(-np.where(small, 0.5, complement)))


class Located(Distribution):
    """A distribution with a location, whose methods are differentiated in all their arguments.

    Args:
        scipys: SciPy's own, which answers where nothing is traced.
        allowed: where the shape parameters are allowed, by default where all are positive.
        support: the ends of the support of the standard form: numbers, or a function of the shape parameters.
        formulas: of the standard form, by the names of SciPy's methods.
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
        self.allowed = allowed
        self.ends = (scipys.a, scipys.b) if support is None else support
        self.formulas = formulas

    def _formula(self, name: str) -> Formula:
        """Return a formula of the standard form, or raise an error that says that there is none."""
        if name not in self.formulas:
            raise errors.MissingRuleError(f"{self.full_name}.{name}", errors.users_line())
        return self.formulas[name]

    def _parameters(self, args: Sequence[Any], keywords: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        """Return the shape parameters, location and scale in double precision; NaN where one is not allowed."""
        bound = self.signature.bind(*args, **keywords)
        bound.apply_defaults()
        values = {name: self._number(name, x) for name, x in bound.arguments.items()}
        shapes = [values[name] for name in self.shape_names]
        loc, scale = values["loc"], values.get("scale", 1.0)
        # Of the values alone, so that no derivative of a parameter is computed for the sake of a condition.
        allowed = np.logical_and(self.allowed(*map(stop_gradient_of, shapes)), np.greater(stop_gradient_of(scale), 0))
        one = np.where(allowed, 1.0, np.nan)
        return [shape * one for shape in shapes], loc, scale * one

    def _number(self, name: str, x: Any) -> Any:
        """Return an argument in double precision."""
        return in_double(x, self.full_name)

    def _standardized(self, x: Any, args: Any, keywords: dict[str, Any]) -> tuple[Any, list[Any], Any]:
        """Return the argument of the standard form, the shape parameters and the scale."""
        shapes, loc, scale = self._parameters(args, keywords)
        return (self._number(self.argument, x) - loc) / scale, shapes, scale

    def _ends(self, shapes: list[Any]) -> tuple[Any, Any]:
        return self.ends(*shapes) if callable(self.ends) else self.ends

    @differentiated
    def mean(self, *args: Any, **kwds: Any) -> Any:
        """Return the mean.

        Args:
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the parameters broadcast.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda a: stats.gamma.mean(a, scale=3.0))(2.0)
            Tensor(3.)
        """
        shapes, loc, scale = self._parameters(args, kwds)
        return constant_where_infinite(self._formula("mean")(*shapes) * scale + loc)

    @differentiated
    def var(self, *args: Any, **kwds: Any) -> Any:
        """Return the variance.

        Args:
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the parameters broadcast.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.norm.var(scale=scale))(3.0)
            Tensor(6.)
        """
        shapes, loc, scale = self._parameters(args, kwds)
        return _times(_times(self._formula("var")(*shapes), scale), scale) + 0.0 * loc

    @differentiated
    def std(self, *args: Any, **kwds: Any) -> Any:
        """Return the standard deviation.

        Args:
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the parameters broadcast.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.expon.std(scale=scale))(3.0)
            Tensor(1.)
        """
        shapes, loc, scale = self._parameters(args, kwds)
        # The square of the scale may overflow where the scale itself does not.
        return _times(np.sqrt(self._formula("var")(*shapes)), scale) + 0.0 * loc

    @differentiated
    def entropy(self, *args: Any, **kwds: Any) -> Any:
        """Return the entropy: of a density with respect to length, or of probabilities.

        Args:
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the parameters broadcast.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.
            MissingRuleError: a TypeError; it has no closed form for this distribution.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.norm.entropy(scale=scale))(2.0)
            Tensor(0.5)
        """
        shapes, loc, scale = self._parameters(args, kwds)
        return self._formula("entropy")(*shapes) + np.log(scale) + 0.0 * loc

    @differentiated
    def cdf(self, x: Any, *args: Any, **kwds: Any) -> Any:
        """Return the distribution function: the probability of `x` or less.

        Args:
            x: where to evaluate it.
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the arguments broadcast, in double precision as SciPy's.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.
            NoDerivativeError: a ValueError; `x` counts something, and is differentiated.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda a: stats.gamma.cdf(1.0, a))(1.0)
            Tensor(-0.43172971)
        """
        low, high, y, shapes = self._tails(x, args, kwds, "cdf")
        return np.where(low, 0.0, np.where(high, 1.0, self._formula("cdf")(y, *shapes)))

    @differentiated
    def sf(self, x: Any, *args: Any, **kwds: Any) -> Any:
        """Return the survival function: the probability of more than `x`.

        Args:
            x: where to evaluate it.
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the arguments broadcast, in double precision as SciPy's.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.
            NoDerivativeError: a ValueError; `x` counts something, and is differentiated.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.expon.sf(1.0, scale=scale))(1.0)
            Tensor(0.36787944)
        """
        low, high, y, shapes = self._tails(x, args, kwds, "sf")
        return np.where(low, 1.0, np.where(high, 0.0, self._formula("sf")(y, *shapes)))

    @differentiated
    def logcdf(self, x: Any, *args: Any, **kwds: Any) -> Any:
        """Return the logarithm of the distribution function, accurate in both tails.

        Args:
            x: where to evaluate it.
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the arguments broadcast, in double precision as SciPy's.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.
            NoDerivativeError: a ValueError; `x` counts something, and is differentiated.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda x: stats.norm.logcdf(x))(-100.0)
            Tensor(100.009998)
        """
        low, high, y, shapes = self._tails(x, args, kwds, "logcdf")
        formula = self.formulas.get("logcdf") or self._log_of("cdf", "sf")
        return np.where(low, -np.inf, np.where(high, 0.0, constant_where_infinite(formula(y, *shapes))))

    @differentiated
    def logsf(self, x: Any, *args: Any, **kwds: Any) -> Any:
        """Return the logarithm of the survival function, accurate in both tails.

        Args:
            x: where to evaluate it.
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the arguments broadcast, in double precision as SciPy's.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.
            NoDerivativeError: a ValueError; `x` counts something, and is differentiated.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda x: stats.norm.logsf(x))(-100.0)
            Tensor(-0.)
        """
        low, high, y, shapes = self._tails(x, args, kwds, "logsf")
        formula = self.formulas.get("logsf") or self._log_of("sf", "cdf")
        return np.where(low, 0.0, np.where(high, -np.inf, constant_where_infinite(formula(y, *shapes))))

    def _log_of(self, name: str, complement: str) -> Formula:
        of, other = self._formula(name), self._formula(complement)
        return lambda y, *shapes: log_of_complement(of(y, *shapes), other(y, *shapes))

    def _tails(self, x: Any, args: Any, keywords: dict[str, Any], method: str) -> tuple[Any, Any, Any, list[Any]]:
        """Return where a tail has all or nothing, the standardized argument, a safe one there, and the shapes."""
        raise NotImplementedError(type(self).__name__)


class Continuous(Located):
    """A continuous distribution of `scipy.stats`, differentiated in its argument and in all its parameters.

    Outside of the support the density is 0, its logarithm -inf, and the derivatives are exactly 0; so they are
    where the density itself is 0 or infinite at an end of the support, and where the logarithm of a tail is -inf.
    With a parameter that is not allowed everything is NaN.

    Args:
        scipys: SciPy's own, which answers where nothing is traced.
        logpdf: the logarithm of the density of the standard form.
        allowed: where the shape parameters are allowed, by default where all are positive.
        support: the ends of the support of the standard form: numbers, or a function of the shape parameters.
        open_density: the density is 0 at the ends of the support.
        open_tails: the formulas of `cdf` and `sf` do not hold at the ends of the support.
        inside: a number in the support, or a function of the shape parameters.
        formulas: of the standard form, by the names of SciPy's methods.

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
        **formulas: Formula,
    ) -> None:
        super().__init__(scipys, allowed, support, logpdf=logpdf, **formulas)
        self.open_density = open_density
        self.open_tails = open_tails
        self.inside = inside

    def _safe(self, outside: Any, y: Any, shapes: list[Any]) -> Any:
        return np.where(outside, self.inside(*shapes) if callable(self.inside) else self.inside, y)

    def _before(self, y: Any, start: Any, is_open: bool) -> Any:
        """Return where a number is before the support; at an end that is open, too, or infinite."""
        if type(start) is float and np.isinf(start):
            return np.equal(y, -np.inf)
        return np.less_equal(y, start) if is_open else np.less(y, start)

    def _after(self, y: Any, end: Any, is_open: bool) -> Any:
        if type(end) is float and np.isinf(end):
            return np.equal(y, np.inf)
        return np.greater_equal(y, end) if is_open else np.greater(y, end)

    def _tails(self, x: Any, args: Any, keywords: dict[str, Any], method: str) -> tuple[Any, Any, Any, list[Any]]:
        y, shapes, _ = self._standardized(x, args, keywords)
        start, end = self._ends(shapes)
        # At an end the derivative is the density there, unless the logarithm of 0 is wanted.
        low = self._before(y, start, self.open_tails or method == "logcdf")
        high = self._after(y, end, self.open_tails or method == "logsf")
        return low, high, self._safe(np.logical_or(low, high), y, shapes), shapes

    @differentiated
    def logpdf(self, x: Any, *args: Any, **kwds: Any) -> Any:
        """Return the logarithm of the density.

        Args:
            x: where to evaluate it.
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the arguments broadcast, in double precision as SciPy's.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.
            DtypeError: a TypeError; an argument is complex.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.norm.logpdf)(3.0, loc=1.0, scale=2.0)
            Tensor(-0.5)
        """
        y, shapes, scale = self._standardized(x, args, kwds)
        start, end = self._ends(shapes)
        outside = np.logical_or(self._before(y, start, self.open_density), self._after(y, end, self.open_density))
        inner = self.formulas["logpdf"](self._safe(outside, y, shapes), *shapes)
        return np.where(outside, -np.inf, constant_where_infinite(inner - np.log(scale)))

    @differentiated
    def pdf(self, x: Any, *args: Any, **kwds: Any) -> Any:
        """Return the density.

        Args:
            x: where to evaluate it.
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the arguments broadcast, in double precision as SciPy's.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.
            DtypeError: a TypeError; an argument is complex.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.expon.pdf)(0.0)
            Tensor(-1.)
        """
        return flat_exp(self.logpdf(x, *args, **kwds))

    @differentiated
    def ppf(self, q: Any, *args: Any, **kwds: Any) -> Any:
        """Return the quantile: where the distribution function is `q`.

        Args:
            q: a probability.
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the arguments broadcast; NaN where `q` is no probability.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.
            DtypeError: a TypeError; an argument is complex.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.uniform.ppf)(0.25, loc=1.0, scale=4.0)
            Tensor(4.)
        """
        return self._quantile("ppf", q, args, kwds)

    @differentiated
    def isf(self, q: Any, *args: Any, **kwds: Any) -> Any:
        """Return the inverse of the survival function: where that is `q`.

        Args:
            q: a probability.
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the arguments broadcast; NaN where `q` is no probability.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.
            DtypeError: a TypeError; an argument is complex.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.expon.isf)(0.25)
            Tensor(-4.)
        """
        return self._quantile("isf", q, args, kwds)

    @differentiated
    def median(self, *args: Any, **kwds: Any) -> Any:
        """Return the median.

        Args:
            args, kwds: shape parameters, `loc` and `scale`, by name or position.

        Returns:
            An array of the shape to which the parameters broadcast.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.expon.median(scale=scale))(1.0)
            Tensor(0.69314718)
        """
        return self._quantile("ppf", 0.5, args, kwds)

    def _quantile(self, name: str, q: Any, args: Any, keywords: dict[str, Any]) -> Any:
        shapes, loc, scale = self._parameters(args, keywords)
        q = self._number("q", q)
        start, end = self._ends(shapes) if name == "ppf" else self._ends(shapes)[::-1]
        inside = np.logical_and(np.greater(q, 0), np.less(q, 1))
        inner = self._formula(name)(np.where(inside, q, 0.5), *shapes)
        ends = np.where(np.equal(q, 0), start, np.where(np.equal(q, 1), end, np.nan))
        return np.where(inside, inner, ends) * scale + loc


class Discrete(Located):
    """A discrete distribution of `scipy.stats`, differentiated in its parameters.

    Counts are whole numbers, between which the probabilities are not defined; so a count has no derivative, and
    one that is differentiated raises an error. Between whole numbers the probability is 0 as SciPy's, and so are
    its derivatives, and those of the logarithm of a tail that is -inf. With a parameter that is not allowed
    everything is NaN.

    Args:
        scipys: SciPy's own, which answers where nothing is traced.
        logpmf, pmf: the probabilities of the standard form, and their logarithms.
        allowed: where the shape parameters are allowed.
        counts: the shape parameters that are counts themselves.
        support: the ends of the support of the standard form: numbers, or a function of the shape parameters.
        formulas: of the standard form, by the names of SciPy's methods.

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

    def _number(self, name: str, x: Any) -> Any:
        """Return an argument in double precision; refuse the derivative of one that counts something."""
        counts = name in ("k", "loc", *self.counts)
        return count_of(x, name, self.full_name) if counts else super()._number(name, x)

    def _tails(self, x: Any, args: Any, keywords: dict[str, Any], method: str) -> tuple[Any, Any, Any, list[Any]]:
        k, shapes, _ = self._standardized(x, args, keywords)
        start, end = self._ends(shapes)
        low, high = np.less(k, start), np.greater_equal(k, end)
        return low, high, np.floor(np.where(np.logical_or(low, high), start, k)), shapes

    @differentiated
    def logpmf(self, k: Any, *args: Any, **kwds: Any) -> Any:
        """Return the logarithm of the probability of a count.

        Args:
            k: the count.
            args, kwds: shape parameters and `loc`, by name or position.

        Returns:
            An array of the shape to which the arguments broadcast.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.
            NoDerivativeError: a ValueError; a count is differentiated.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda p: stats.binom.logpmf(3, 4, p))(0.5)
            Tensor(4.)
        """
        return self._probability("logpmf", k, args, kwds, -np.inf)

    @differentiated
    def pmf(self, k: Any, *args: Any, **kwds: Any) -> Any:
        """Return the probability of a count.

        Args:
            k: the count.
            args, kwds: shape parameters and `loc`, by name or position.

        Returns:
            An array of the shape to which the arguments broadcast.

        Raises:
            TypeError: a parameter is missing, or there is none of that name.
            NoDerivativeError: a ValueError; a count is differentiated.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda p: stats.bernoulli.pmf(1, p))(0.0)
            Tensor(1.)
        """
        return self._probability("pmf", k, args, kwds, 0.0)

    def _probability(self, name: str, k: Any, args: Any, keywords: dict[str, Any], outside: float) -> Any:
        k, shapes, _ = self._standardized(k, args, keywords)
        start, end = self._ends(shapes)
        none = (k < start) | (k > end) | np.isinf(k) | ((np.floor(k) != k) & ~np.isnan(k))
        return np.where(none, outside, self.formulas[name](np.where(none, start, k), *shapes))
