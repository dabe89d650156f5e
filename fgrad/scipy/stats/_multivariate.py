"""Multivariate distributions: normal, t, Dirichlet, multinomial, Wishart and inverse Wishart.

Covariances and other matrices are symmetrized before use; so the gradient with respect to one is symmetric, and is
the derivative along symmetric changes. SciPy itself checks the values and raises its errors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from math import log, pi
from typing import Any

import numpy as np
from scipy import stats

from fgrad import errors
from fgrad.core.views import as_number
from fgrad.ops.tracing import raw_array
from fgrad.scipy import _special as special
from fgrad.scipy._reals import real_array
from fgrad.scipy.special import multigammaln
from fgrad.scipy.stats._base import Distribution, count_of, differentiated, in_double
from fgrad.scipy.stats._boxes import NORMAL, STUDENT, refuse_derivative
from fgrad.scipy.stats._gammas import digamma_step, log_gamma_step
from fgrad.scipy.stats._integrals import flat_exp
from fgrad.typing import Array, ArrayLike, Operand

LOG_TWO_PI = log(2 * pi)


class Multivariate(Distribution):
    """A multivariate distribution, some methods of which are differentiable.

    Args:
        scipys: SciPy's distribution, which is used if nothing is traced.
        name: its name in this package.
    """

    def __init__(self, scipys: Any, name: str) -> None:
        signature = inspect.signature(type(scipys).__call__)
        parameters = [x for x in signature.parameters.values() if x.name not in ("self", "seed", "kwds")]
        super().__init__(scipys, name, inspect.Signature(parameters))

    def parameters_of(self, method: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return, by name, the parameters of a frozen distribution that a method takes."""
        taken = inspect.signature(getattr(type(self), method)).parameters
        return {name: x for name, x in parameters.items() if name in taken}

    def scipys_method(self, name: str) -> Callable[..., Any]:
        """Return a method of SciPy's distribution, with scalar arrays converted to the numbers that it needs."""
        method = super().scipys_method(name)
        return lambda *args, **kwds: method(*map(_number, args), **{key: _number(x) for key, x in kwds.items()})

    def _double(self, x: ArrayLike) -> Any:
        return in_double(x, self.full_name)

    def _real(self, x: ArrayLike) -> Any:
        return real_array(x, self.full_name)

    def _checked(self, method: str, *args: Any) -> None:
        """Let SciPy's method check the values and raise its errors; examples of a batch are not checked."""
        examples = [_number(raw_array(x)) for x in args]
        if all(np.shape(example) == np.shape(x) for example, x in zip(examples, args, strict=True)):
            getattr(self.scipys, method)(*examples)


def _number(x: Array | bool) -> Array | bool:
    return x[()] if isinstance(x, np.ndarray) and not x.ndim else x


def _squeezed(x: Any) -> Any:
    return as_number(np.squeeze(x))


def _symmetric(x: Any) -> Any:
    return (x + np.swapaxes(x, -1, -2)) / 2


def _factor(matrix: Any) -> tuple[Any, Any]:
    """Return the lower triangular factor of symmetric matrices, and the logarithm of their determinant."""
    factor = np.linalg.cholesky(_symmetric(matrix))
    return factor, 2 * np.sum(np.log(np.diagonal(factor, 0, -2, -1)), -1)


def _as_matrix(x: Array, dim: int) -> Any:
    """Return the matrix given by a number, a diagonal or a matrix."""
    if x.ndim == 0:
        return x * np.eye(dim)
    return np.diag(x) if x.ndim == 1 else x


class Elliptical(Multivariate):
    """The common part of the normal and the t distribution: a center, and a matrix for the shape."""

    def _limits(self, x: Array, lower: Any, center: Array) -> tuple[Any, Any]:
        """Return the lower and upper limits of boxes relative to the center, along the last axis."""
        x, dim = self._double(x), center.shape[0]
        if x.ndim == 0:
            x = np.reshape(x, (1,))
        elif x.ndim == 1 and dim == 1:
            x = np.reshape(x, (-1, 1))
        lower = np.full(dim, -np.inf) if lower is None else self._double(lower)
        upper, lower = np.broadcast_arrays(x - center, lower - center)
        return lower, upper

    def _of_dimensions(self, dimensions: Any, center: Any, shape: Any) -> tuple[Any, Any]:
        """Return the center and the shape of a subset of components; SciPy checks their indices."""
        center, shape = self._center_and_shape(center, shape)
        size = center.shape[0]
        marginal = self.scipys.marginal(dimensions, np.arange(float(size)), np.eye(size))
        taken = np.asarray(marginal.mean if hasattr(marginal, "mean") else marginal.loc, np.intp)
        return center[taken], shape[np.ix_(taken, taken)]

    def _valid(self, center: Any, shape: Any, *df: Any) -> tuple[Any, ...]:
        """Return the vector, the matrix and the degrees of freedom, if there are any, after SciPy's checks."""
        parameters = (*self._center_and_shape(center, shape), *(self._double(1 if x is None else x) for x in df))
        self._checked("__call__", *parameters)
        return parameters

    def _center_and_shape(self, center: Array | None, shape: Any) -> tuple[Any, Any]:
        """Return the vector and the matrix, with SciPy's defaults."""
        if isinstance(shape, stats.Covariance):
            shape = shape.covariance
        shape = self._double(1.0 if shape is None else shape)
        if center is None:
            center = np.zeros(shape.shape[:1] if shape.ndim == 2 else 1)
        center = self._double(center)
        dim = center.size
        if dim == 1:
            center, shape = np.reshape(center, (1,)), np.reshape(shape, (1, 1))
        return center, _as_matrix(shape, dim)

    def _distance(self, x: Any, center: Array, shape: Array) -> tuple[Any, Any]:
        """Return the squared distances of points from the center with respect to the shape, and its log-determinant."""
        x, dim = self._double(x), center.shape[0]
        if x.ndim < 2:
            x = np.reshape(x, (-1, 1) if dim == 1 else (1, -1))
        factor, log_determinant = _factor(shape)
        away = x - center
        white = np.linalg.solve(factor, np.reshape(away, (-1, dim)).T)
        return np.reshape(np.sum(white * white, 0), away.shape[:-1]), log_determinant

    def _no_singular(self, allow_singular: bool) -> None:
        if allow_singular:
            raise errors.ParameterError(
                f"{self.full_name} with allow_singular=True is not differentiable: the density of a singular "
                "matrix lives on a subspace that moves with the matrix.\n"
                f"  at {errors.users_line()}\n"
                "Omit allow_singular, and give a positive definite matrix."
            )


_OF_NORMAL = """
Args:
    x: points, whose components are along the last axis.
    dimensions: their indices, a number or several.
    mean: the mean, a vector; by default zeros.
    cov: the covariance: a matrix, its diagonal, or a number for a multiple of the identity.
    allow_singular: only for arguments that are not traced.
    maxpts, abseps, releps: the accuracy of SciPy's integral, for three or more components.
    lower_limit: lower limits, which are broadcast with `x`; by default minus infinity.
    options: `rng`, as in SciPy.

Returns:
    An array of the shape of `x` without its last axis; a number for one point.

Raises:
    ValueError: incompatible shapes, or the covariance is not positive definite (SciPy's errors).
    ParameterError: a ValueError; `allow_singular` with traced arguments.
"""


class MultivariateNormal(Elliptical):
    """The multivariate normal distribution, differentiable in the point, the mean and the covariance."""

    @differentiated(_OF_NORMAL)
    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """Return the logarithm of the density.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.multivariate_normal.logpdf)(np.array([1.0, 2.0]), cov=[[2.0, 0.0], [0.0, 4.0]])
            Tensor([-0.5, -0.5])
        """
        self._no_singular(allow_singular)
        mean, cov = self._valid(mean, cov)
        distance, log_determinant = self._distance(x, mean, cov)
        return _squeezed(-0.5 * (mean.shape[0] * LOG_TWO_PI + log_determinant + distance))

    @differentiated(_OF_NORMAL)
    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """Return the density.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.multivariate_normal.pdf)(np.array([1.0, 2.0]), np.zeros(2))
            Tensor([-0.01306423, -0.02612847])
        """
        return flat_exp(self.logpdf(x, mean, cov, allow_singular))

    @differentiated(_OF_NORMAL)
    def cdf(
        self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False, maxpts: object = None,
        abseps: float = 1e-5, releps: float = 1e-5, *, lower_limit: object = None, **options: Any,
    ) -> Any:  # fmt: skip
        """Return the probability that all components are below those of a point, or in a box.

        Returns:
            An array of the shape of `x` without its last axis; a number for one point. The derivatives, by Plackett's
            formula, consist of probabilities with one and two components fewer; so they are exact up to two
            components, and up to four as accurate as SciPy's values.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> cov = np.array([[1.0, 0.5], [0.5, 1.0]])
            >>> fg.grad(stats.multivariate_normal.cdf, argnums=2)(np.zeros(2), np.zeros(2), cov)
            Tensor([[-0.04594407,  0.09188815],
                    [ 0.09188815, -0.04594407]])
        """
        self._no_singular(allow_singular)
        mean, cov = self._valid(mean, cov)
        options = {"maxpts": maxpts, "abseps": abseps, "releps": releps, **options}
        return _squeezed(NORMAL(*self._limits(x, lower_limit, mean), _symmetric(cov), **options))

    @differentiated(_OF_NORMAL)
    def logcdf(
        self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False, maxpts: object = None,
        abseps: float = 1e-5, releps: float = 1e-5, *, lower_limit: object = None, **options: Any,
    ) -> Any:  # fmt: skip
        """Return the logarithm of the probability that all components are below those of a point, or in a box.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.multivariate_normal.logcdf)(np.zeros(2), np.zeros(2))
            Tensor([0.79788456, 0.79788456])
        """
        accuracy = (maxpts, abseps, releps)
        return np.log(self.cdf(x, mean, cov, allow_singular, *accuracy, lower_limit=lower_limit, **options))

    @differentiated(_OF_NORMAL)
    def marginal(self, dimensions: int, mean: Any = None, cov: int = 1, allow_singular: bool = False) -> Any:
        """Return the marginal distribution of a subset of components.

        Returns:
            A frozen distribution.

        Raises:
            ValueError: there is no such component (SciPy's error).
            ParameterError: a ValueError; `allow_singular` with traced arguments.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda mean: stats.multivariate_normal.marginal(1, mean).logpdf(3.0))(np.array([1.0, 2.0]))
            Tensor([0., 1.])
        """
        self._no_singular(allow_singular)
        return self(*self._of_dimensions(dimensions, mean, cov))

    @differentiated(_OF_NORMAL)
    def entropy(self, mean: Any = None, cov: Any = 1) -> Any:
        """Return the entropy.

        Args:
            mean: the mean, of which only the length matters.

        Returns:
            A number.

        Raises:
            ValueError: incompatible shapes, or the covariance is not positive definite (SciPy's errors).

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda cov: stats.multivariate_normal.entropy(cov=cov))(np.array([[2.0, 0.0], [0.0, 4.0]]))
            Tensor([[0.25 , 0.   ],
                    [0.   , 0.125]])
        """
        mean, cov = self._valid(mean, cov)
        return 0.5 * (mean.shape[0] * (LOG_TWO_PI + 1) + _factor(cov)[1])


_OF_STUDENT = """
Args:
    x: points, whose components are along the last axis.
    dimensions: their indices, a number or several.
    loc: the location, a vector; by default zeros.
    shape: a positive definite matrix, its diagonal, or a number for a multiple of the identity.
    df: the degrees of freedom, a finite number.
    allow_singular: only for arguments that are not traced.
    maxpts, random_state: settings of SciPy's integral, for two or more components.
    lower_limit: lower limits, which are broadcast with `x`; by default minus infinity.

Returns:
    An array of the shape of `x` without its last axis; a number for one point.

Raises:
    ValueError: incompatible shapes, `shape` is not positive definite, or `df` is not positive (SciPy's errors).
    ParameterError: a ValueError; `allow_singular` with traced arguments.
"""


class MultivariateT(Elliptical):
    """The multivariate t distribution, differentiable in the point, the location, the shape and `df`."""

    @differentiated(_OF_STUDENT)
    def logpdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
        """Return the logarithm of the density.

        Raises:
            ValueError: incompatible shapes, `shape` is not positive definite, or `df` is not positive (SciPy's errors).

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.multivariate_t.logpdf)(np.array([1.0, 2.0]), np.zeros(2), df=3.0)
            Tensor([-0.625, -1.25 ])
        """
        loc, shape, df = self._valid(loc, shape, df)
        distance, log_determinant = self._distance(x, loc, shape)
        dim, half = loc.shape[0], df / 2
        constant = log_gamma_step(half, dim / 2) - dim / 2 * np.log(df * pi) - log_determinant / 2
        return _squeezed(constant - (half + dim / 2) * np.log1p(distance / df))

    @differentiated(_OF_STUDENT)
    def pdf(
        self,
        x: ArrayLike,
        loc: ArrayLike | None = None,
        shape: ArrayLike = 1,
        df: ArrayLike = 1,
        allow_singular: bool = False,
    ) -> Any:
        """Return the density.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.multivariate_t.pdf)(np.array([1.0, 2.0]), np.zeros(2), df=3.0)
            Tensor([-0.008566  , -0.01713201])
        """
        self._no_singular(allow_singular)
        return flat_exp(self.logpdf(x, loc, shape, df))

    @differentiated(_OF_STUDENT)
    def cdf(
        self, x: Any, loc: Any = None, shape: object = 1, df: Any = 1, allow_singular: bool = False, *,
        maxpts: Any = None, lower_limit: object = None, random_state: Any = None,
    ) -> Any:  # fmt: skip
        """Return the probability that all components are below those of a point, or in a box.

        Args:
            df: the degrees of freedom, a finite number; the derivative with respect to it has no closed form.

        Returns:
            An array of the shape of `x` without its last axis; a number for one point. The derivatives consist of
            probabilities with one and two components fewer; so they are exact up to two components.

        Raises:
            ValueError: incompatible shapes, `shape` is not positive definite, or `df` is not positive (SciPy's errors).
            ParameterError: a ValueError; `allow_singular` with traced arguments.
            NoClosedFormError: a NotImplementedError; `df` is differentiated.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.multivariate_t.cdf)(np.zeros(2), np.zeros(2), df=3.0)
            Tensor([0.1837763, 0.1837763])
        """
        self._no_singular(allow_singular)
        refuse_derivative(df, "df", f"{self.full_name}.cdf")
        loc, shape, df = self._valid(loc, shape, df)
        lower, upper = self._limits(x, lower_limit, loc)
        return _squeezed(STUDENT(lower, upper, _symmetric(shape), df, maxpts=maxpts, random_state=random_state))

    @differentiated(_OF_STUDENT)
    def marginal(
        self, dimensions: object, loc: Any = None, shape: Any = 1, df: float = 1, allow_singular: bool = False
    ) -> Any:
        """Return the marginal distribution of a subset of components, with the same degrees of freedom.

        Args:
            df: the degrees of freedom.

        Returns:
            A frozen distribution.

        Raises:
            ValueError: there is no such component (SciPy's error).
            ParameterError: a ValueError; `allow_singular` with traced arguments.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> def density(loc):
            ...     return stats.multivariate_t.marginal([1], loc, np.eye(2), 3.0).logpdf(3.0)
            >>> fg.grad(density)(np.array([1.0, 2.0]))
            Tensor([0., 1.])
        """
        self._no_singular(allow_singular)
        return self(*self._of_dimensions(dimensions, loc, shape), df)

    @differentiated(_OF_STUDENT)
    def entropy(self, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
        """Return the entropy.

        Args:
            loc: the location, which has no influence.

        Returns:
            A number.

        Raises:
            ValueError: incompatible shapes, `shape` is not positive definite, or `df` is not positive (SciPy's errors).

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda shape: stats.multivariate_t.entropy(shape=shape, df=3.0))(np.diag([2.0, 4.0]))
            Tensor([[0.25 , 0.   ],
                    [0.   , 0.125]])
        """
        loc, shape, df = self._valid(None, shape, df)
        dim, half = loc.shape[0], df / 2
        steps = (half + dim / 2) * digamma_step(half, dim / 2) - log_gamma_step(half, dim / 2)
        return steps + dim / 2 * np.log(df * pi) + _factor(shape)[1] / 2


_OF_DIRICHLET = """
Args:
    x: proportions, along the first axis; the last one may be omitted.
    alpha: positive parameters, a vector.

Returns:
    An array of the shape of `alpha`.

Raises:
    ValueError: a parameter is not positive (SciPy's error).
"""


class Dirichlet(Multivariate):
    """The Dirichlet distribution of proportions, differentiable in the point and in `alpha`.

    All components of the point are independent variables; if the last one is omitted, it is 1 minus the
    sum of the others.
    """

    def _sums(self, alpha: Array) -> tuple[Any, Any]:
        """Return the sum of the parameters, and the logarithm of the normalizing constant."""
        total = np.sum(alpha)
        return total, np.sum(special.gammaln(alpha)) - special.gammaln(total)

    def _alpha(self, alpha: Array) -> Array:
        alpha = self._real(alpha)
        self._checked("__call__", alpha)
        return alpha

    @differentiated(_OF_DIRICHLET)
    def logpdf(self, x: Any, alpha: Any) -> Any:
        """Return the logarithm of the density.

        Returns:
            An array of the shape of `x` without its first axis; a number for one point.

        Raises:
            ValueError: `x` is not on the simplex, or a parameter is not positive (SciPy's errors).

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.dirichlet.logpdf)(np.array([0.25, 0.75]), [2.0, 4.0])
            Tensor([4., 4.])
        """
        alpha, x = self._real(alpha), self._real(x)
        self._checked("logpdf", x, alpha)
        if x.shape[0] != alpha.shape[0]:
            x = np.concatenate([x, 1 - np.sum(x, 0, keepdims=True)])
        powers = np.reshape(alpha - 1, (-1,) + (1,) * (x.ndim - 1))
        return _squeezed(np.sum(special.xlogy(powers, x), 0) - self._sums(alpha)[1])

    @differentiated(_OF_DIRICHLET)
    def pdf(self, x: Any, alpha: Sequence[Any]) -> Any:
        """Return the density.

        Returns:
            An array of the shape of `x` without its first axis; a number for one point.

        Raises:
            ValueError: `x` is not on the simplex, or a parameter is not positive (SciPy's errors).

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.dirichlet.pdf)(np.array([0.5, 0.5]), [2.0, 2.0])
            Tensor([3., 3.])
        """
        return flat_exp(self.logpdf(x, alpha))

    @differentiated(_OF_DIRICHLET)
    def mean(self, alpha: Any) -> Any:
        """Return the mean.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.jacobian(stats.dirichlet.mean)(np.array([1.0, 3.0]))
            Tensor([[ 0.1875, -0.0625],
                    [-0.1875,  0.0625]])
        """
        alpha = self._alpha(alpha)
        return _squeezed(alpha / np.sum(alpha))

    @differentiated(_OF_DIRICHLET)
    def var(self, alpha: Any) -> Any:
        """Return the variance of each component.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda alpha: stats.dirichlet.var(alpha)[0])(np.array([1.0, 1.0]))
            Tensor([-0.02777778, -0.02777778])
        """
        alpha = self._alpha(alpha)
        total = np.sum(alpha)
        return _squeezed(alpha * (total - alpha) / (total * total * (total + 1)))

    @differentiated(_OF_DIRICHLET)
    def cov(self, alpha: Any) -> Any:
        """Return the covariance.

        Returns:
            A matrix.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda alpha: stats.dirichlet.cov(alpha)[0, 1])(np.array([1.0, 1.0]))
            Tensor([0.02777778, 0.02777778])
        """
        alpha = self._alpha(alpha)
        total = np.sum(alpha)
        share = alpha / total
        return _squeezed((np.diag(share) - np.outer(share, share)) / (total + 1))

    @differentiated(_OF_DIRICHLET)
    def entropy(self, alpha: Any) -> Any:
        """Return the entropy.

        Returns:
            A number.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.dirichlet.entropy)(np.array([1.0, 2.0]))
            Tensor([ 0.39493407, -0.25      ])
        """
        alpha = self._alpha(alpha)
        total, log_constant = self._sums(alpha)
        return (
            log_constant
            - np.sum((alpha - 1) * special.digamma(alpha))
            + (total - alpha.shape[0]) * special.digamma(total)
        )


_OF_MULTINOMIAL = """
Args:
    x: the counts, along the last axis.
    n: the number of trials.
    p: the probabilities, along the last axis.

Returns:
    An array of the shape to which the arguments broadcast, without the last axis.

Raises:
    NoDerivativeError: a ValueError; `x` or `n` is differentiated.
"""


class Multinomial(Multivariate):
    """The multinomial distribution of counts, differentiable in the probabilities `p`.

    All probabilities are independent variables. They must sum to 1 to rounding; otherwise all results are NaN,
    as in future versions of SciPy.
    """

    def _n_and_p(self, n: int, p: Array) -> tuple[Any, Any]:
        """Return the numbers of trials and the probabilities, NaN where they are invalid."""
        n, p = count_of(n, "n", self.full_name), self._double(p)
        sums_to_one = np.abs(1 - np.sum(p, -1)) <= 10 * np.finfo(np.float64).eps
        allowed = sums_to_one & np.all(p >= 0, -1) & np.all(p <= 1, -1) & (n >= 0)
        return n, p * np.where(allowed, 1.0, np.nan)[..., None]

    def _powers(self, x: Any, n: Any, p: Any) -> tuple[Any, Any, Any]:
        """Return the counts, where they are not possible, and the logarithm of the multinomial coefficient."""
        x = count_of(x, "x", self.full_name)
        none = np.any(np.floor(x) != x, -1) | np.any(x < 0, -1) | (np.sum(x, -1) != n)
        x = np.where(none[..., None], 0.0, x)
        none = none & ~np.isnan(p[..., 0])
        return x, none, special.gammaln(n + 1) - np.sum(special.gammaln(x + 1), -1)

    @differentiated(_OF_MULTINOMIAL)
    def logpmf(self, x: object, n: int, p: Any) -> Array:
        """Return the logarithm of the probability of counts.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda p: stats.multinomial.logpmf([1, 2], 3, p))(np.array([0.5, 0.5]))
            Tensor([2., 4.])
        """
        n, p = self._n_and_p(n, p)
        x, none, log_ways = self._powers(x, n, p)
        return np.where(none, -np.inf, log_ways + np.sum(special.xlogy(x, p), -1))

    @differentiated(_OF_MULTINOMIAL)
    def pmf(self, x: Any, n: int, p: Any) -> Array:
        """Return the probability of counts.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda p: stats.multinomial.pmf([1, 2], 3, p))(np.array([0.5, 0.5]))
            Tensor([0.75, 1.5 ])
        """
        n, p = self._n_and_p(n, p)
        x, none, log_ways = self._powers(x, n, p)
        few = np.minimum(x, 8.0)  # see `_power_times` of the discrete distributions
        rest = flat_exp(log_ways + np.sum(special.xlogy(x - few, p), -1))
        return np.where(none, 0.0, np.prod(p**few, -1) * rest)

    @differentiated(_OF_MULTINOMIAL)
    def mean(self, n: Any, p: Any) -> Any:
        """Return the mean of each count.

        Returns:
            An array of the shape to which `n[..., None]` and `p` broadcast.

        Raises:
            NoDerivativeError: a ValueError; `n` is differentiated.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda p: stats.multinomial.mean(4, p)[0])(np.array([0.25, 0.75]))
            Tensor([4., 0.])
        """
        n, p = self._n_and_p(n, p)
        return n[..., None] * p

    @differentiated(_OF_MULTINOMIAL)
    def cov(self, n: Any, p: Any) -> Any:
        """Return the covariance of the counts.

        Returns:
            An array of matrices, along the last two axes.

        Raises:
            NoDerivativeError: a ValueError; `n` is differentiated.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda p: stats.multinomial.cov(4, p)[0, 1])(np.array([0.25, 0.75]))
            Tensor([-3., -1.])
        """
        n, p = self._n_and_p(n, p)
        diagonal = np.eye(p.shape[-1]) * p[..., None]
        return n[..., None, None] * (diagonal - p[..., None] * p[..., None, :])


_OF_WISHART = """
Args:
    x: a positive definite matrix, or a stack along the last of three axes.
    df: the degrees of freedom, a number.
    scale: a positive definite matrix, its diagonal, or a number.

Returns:
    A number for each matrix.

Raises:
    ValueError: incompatible shapes, a matrix is not positive definite, or `df` is too small (SciPy's errors).
"""


class Wishart(Multivariate):
    """The Wishart distribution of sums of squares of normal vectors, differentiable in the matrix, `df` and `scale`."""

    def _df_and_scale(self, df: Operand, scale: Any) -> tuple[Any, Any]:
        scale = self._double(1.0 if scale is None else scale)
        scale = np.reshape(scale, (1, 1)) if scale.ndim == 0 else _as_matrix(scale, scale.shape[0])
        df = self._double(scale.shape[0] if df is None else df)
        self._checked("__call__", df, scale)
        return df, scale

    def _matrices(self, x: Any, dim: int) -> Any:
        """Return a stack of matrices; in SciPy the stack is the last of three axes."""
        x = self._double(x)
        if x.ndim == 1 and dim == 1:
            return np.reshape(x, (-1, 1, 1))
        x = _as_matrix(x, dim)
        return x[None] if x.ndim == 2 else np.moveaxis(x, -1, 0)

    def _log_density(self, x: Array, df: Array, scale: Array) -> Any:
        """Return the logarithm of the density of a stack of matrices."""
        dim = scale.shape[0]
        _, log_x = _factor(x)
        _, log_scale = _factor(scale)
        trace = np.trace(np.linalg.solve(_symmetric(scale), x), axis1=-2, axis2=-1)
        constant = df / 2 * (dim * log(2) + log_scale) + multigammaln(df / 2, dim)
        return (df - dim - 1) / 2 * log_x - trace / 2 - constant

    @differentiated(_OF_WISHART)
    def logpdf(self, x: Any, df: Any, scale: Any) -> Any:
        """Return the logarithm of the density.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.wishart.logpdf)(np.array([[1.0, 0.0], [0.0, 0.5]]), 5.0, np.eye(2))
            Tensor([[0.5, 0. ],
                    [0. , 1.5]])
        """
        df, scale = self._df_and_scale(df, scale)
        return _squeezed(self._log_density(_symmetric(self._matrices(x, scale.shape[0])), df, scale))

    @differentiated(_OF_WISHART)
    def pdf(self, x: ArrayLike, df: ArrayLike, scale: ArrayLike) -> Any:
        """Return the density.

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(stats.wishart.pdf)(1.0, 3.0, 1.0)
            Tensor(0.)
        """
        return flat_exp(self.logpdf(x, df, scale))

    @differentiated(_OF_WISHART)
    def mean(self, df: Any, scale: list[Any]) -> Any:
        """Return the mean.

        Returns:
            A matrix.

        Raises:
            ValueError: `df` is too small (SciPy's error).

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda df: np.trace(stats.wishart.mean(df, [1.0, 2.0])))(5.0)
            Tensor(3.)
        """
        df, scale = self._df_and_scale(df, scale)
        return _squeezed(df * scale)

    @differentiated(_OF_WISHART)
    def var(self, df: Any, scale: Any) -> Any:
        """Return the variance of each element.

        Returns:
            A matrix.

        Raises:
            ValueError: `df` is too small (SciPy's error).

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda df: np.trace(stats.wishart.var(df, [1.0, 2.0])))(5.0)
            Tensor(10.)
        """
        df, scale = self._df_and_scale(df, scale)
        diagonal = np.diagonal(scale)
        return _squeezed(df * (scale**2 + np.outer(diagonal, diagonal)))

    @differentiated(_OF_WISHART)
    def entropy(self, df: Any, scale: Any) -> Any:
        """Return the entropy.

        Returns:
            A number.

        Raises:
            ValueError: `df` is too small, or the matrix is not positive definite (SciPy's errors).

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.wishart.entropy(5.0, scale))(2.0)
            Tensor(0.5)
        """
        df, scale = self._df_and_scale(df, scale)
        dim = scale.shape[0]
        log_scale = _factor(scale)[1] + dim * log(2)
        digammas = np.sum(special.digamma((df - np.arange(dim)) / 2))
        return (dim + 1) / 2 * log_scale + multigammaln(df / 2, dim) - (df - dim - 1) / 2 * digammas + df * dim / 2


class InverseWishart(Wishart):
    """The inverse Wishart distribution, differentiable in the matrix, `df` and `scale`."""

    def _log_density(self, x: Operand, df: Operand, scale: Array) -> Any:
        dim = scale.shape[0]
        _, log_x = _factor(x)
        _, log_scale = _factor(scale)
        trace = np.trace(np.linalg.solve(x, _symmetric(scale)), axis1=-2, axis2=-1)
        constant = df / 2 * (dim * log(2) - log_scale) + multigammaln(df / 2, dim)
        return -(df + dim + 1) / 2 * log_x - trace / 2 - constant

    @differentiated(_OF_WISHART)
    def mean(self, df: Any, scale: Any) -> Any:
        """Return the mean.

        Returns:
            A matrix; None if `df` is too small for a mean, as in SciPy.

        Raises:
            ValueError: `df` is too small for a density (SciPy's error).

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda df: np.trace(stats.invwishart.mean(df, [1.0, 2.0])))(5.0)
            Tensor(-0.75)
        """
        df, scale = self._df_and_scale(df, scale)
        excess = df - scale.shape[0] - 1
        return _squeezed(scale / excess) if np.all(raw_array(excess) > 0) else None

    @differentiated(_OF_WISHART)
    def var(self, df: Any, scale: Any) -> Any:
        """Return the variance of each element.

        Returns:
            A matrix; None if `df` is too small for a variance, as in SciPy.

        Raises:
            ValueError: `df` is too small for a density (SciPy's error).

        Example:
            >>> import numpy as np, fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.invwishart.var(6.0, scale))(3.0)
            Tensor(0.375)
        """
        df, scale = self._df_and_scale(df, scale)
        excess, diagonal = df - scale.shape[0], np.diagonal(scale)
        if not np.all(raw_array(excess) > 3):
            return None
        squares = (excess + 1) * scale**2 + (excess - 1) * np.outer(diagonal, diagonal)
        return _squeezed(squares / (excess * (excess - 1) ** 2 * (excess - 3)))

    def entropy(self, df: Any, scale: Any) -> Any:
        """Return SciPy's entropy of arguments that are not traced.

        Args:
            df: the degrees of freedom, a number.
            scale: a positive definite matrix, its diagonal, or a number.

        Returns:
            A number.

        Raises:
            MissingRuleError: a TypeError; an argument is traced. (For matrices, SciPy 1.17's value is wrong by a
                constant, which is not reproduced here.)
        """
        return self.refusing(self.scipys_method("entropy"), "entropy")(df, scale)


multivariate_normal = MultivariateNormal(stats.multivariate_normal, "multivariate_normal")
multivariate_t = MultivariateT(stats.multivariate_t, "multivariate_t")
dirichlet = Dirichlet(stats.dirichlet, "dirichlet")
multinomial = Multinomial(stats.multinomial, "multinomial")
wishart = Wishart(stats.wishart, "wishart")
invwishart = InverseWishart(stats.invwishart, "invwishart")
