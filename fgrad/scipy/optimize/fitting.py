"""Fits by least squares with exact Jacobians, differentiated by the data and by what the model depends on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from fgrad import errors
from fgrad.core.tensor import settle
from fgrad.core.tree import flatten
from fgrad.ops.tracing import example_of
from fgrad.rules.closures import followers
from fgrad.rules.rule import settled
from fgrad.rules.vectors import raveled
from fgrad.scipy.optimize._search import SCIPYS, Search, as_tuple, result_from
from fgrad.transforms.calls import name_of
from fgrad.transforms.jacobians import jacobian
from fgrad.transforms.reverse import vjp

SLOPES: dict[str, Callable[[Any], Any]] = {
    "linear": np.ones_like,
    "soft_l1": lambda z: 1 / np.sqrt(1 + z),
    "huber": lambda z: np.where(z <= 1, 1, 1 / np.sqrt(np.where(z <= 1, 1, z))),
    "cauchy": lambda z: 1 / (1 + z),
    "arctan": lambda z: 1 / (1 + z**2),
}
"""The derivatives of SciPy's loss functions rho(z), by their names."""


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = None,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    loss: Any = "linear",
    f_scale: float = 1.0,
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    **options: Any,
) -> OptimizeResult:
    """Solve a nonlinear least-squares problem, as `scipy.optimize.least_squares`, and differentiate the solution.

    It is differentiated by the implicit function theorem: by `args`, and by traced values and variables that
    `fun` uses besides; in both modes, to any order. Its derivative by `x0` is 0.

    Args:
        fun: `fun(x, *args, **kwargs)` returns the residuals.
        x0: where to start: a vector, or a container of arrays, which `fun` is then called with.
        jac: by default the exact Jacobian; otherwise as SciPy's.
        bounds: `(lower, upper)`, vectors or numbers for all.
        method, ftol, xtol, gtol, options: SciPy's.
        loss, f_scale: SciPy's; a loss of one's own is written in traced functions.
        args: extra arguments, containers of arrays too.
        kwargs: arguments by name, which are constants.

    Returns:
        SciPy's result; `x` is nested as `x0` is. `x`, `fun` and `cost` are differentiated.

    Raises:
        ConvergenceError: a RuntimeError; SciPy has not succeeded, and something is to be differentiated.
        SingularEquationError: a ValueError; the data do not determine all unknowns.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> t = np.array([0.0, 1.0, 2.0])
        >>> def rate(y):
        ...     return least_squares(lambda p: p[0] * np.exp(-p[1] * t) - y, [1.0, 1.0], xtol=1e-12).x[1]
        >>> np.round(fg.grad(rate)(2.0 * np.exp(-t)), 4)
        Tensor([ 0.4074, -0.8555, -0.6846])
    """
    given = {} if kwargs is None else kwargs
    search = Search(lambda x, *args: fun(x, *args, **given), x0)
    rho_slope = SLOPES[loss] if isinstance(loss, str) and loss in SLOPES else lambda z: loss(z)[1]

    def solve(start: Any, *args: Any) -> Any:
        function = search.on_vectors(search.function)
        slopes = search.plain_jacobian(function, args) if jac is None else jac
        if callable(jac):
            slopes = lambda vector, *_: jac(vector, *args, **given)  # noqa: E731
        tolerances = {"ftol": ftol, "xtol": xtol, "gtol": gtol, "loss": loss, "f_scale": f_scale}
        return SCIPYS.least_squares(
            lambda vector: np.array(function(vector, *args)), start, slopes, bounds, method, **tolerances, **options
        )

    def optimality(x: Any, *args: Any) -> Any:
        vector, restore = raveled(x)
        residuals, pullback = vjp(lambda vector: raveled(search.function(restore(vector), *args))[0], vector)
        slope = pullback(residuals * rho_slope((residuals / f_scale) ** 2))[0]
        return slope if is_free else vector - np.clip(vector - slope, *bounds)

    is_free = bool(np.all(np.isinf(np.concatenate([np.ravel(example_of(limit)) for limit in bounds]))))
    extra = as_tuple(args)
    x = search.find(solve, optimality, extra)
    if not followers(flatten(x)[0]):
        return search.result(x=x)
    residuals = search.function(x, *extra)
    cost = search.found[0].cost if loss != "linear" else 0.5 * np.sum(raveled(residuals)[0] ** 2)
    return search.result(x=x, fun=residuals, cost=cost)


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    check_finite: bool | None = None,
    bounds: Any = (-np.inf, np.inf),
    method: str | None = None,
    jac: Any = None,
    *,
    full_output: bool = False,
    nan_policy: str | None = None,
    **options: Any,
) -> Any:
    """Fit a function to data, as `scipy.optimize.curve_fit`, and differentiate what was fitted.

    The Jacobian is exact. What SciPy has found is refined by steps of the method of Gauss and Newton until
    they do not lower the sum of squares any more, and the covariance is computed at that very point. The
    parameters and their covariance are differentiated by the data, their errors, and by what else `f` uses.

    Args:
        f: `f(xdata, *parameters)` returns an array of the shape of `ydata`.
        xdata: where was measured; passed on to `f`.
        ydata: what was measured, of shape `(M,)`.
        p0: where to start, a number for each parameter; by default ones, or within the bounds.
        sigma: standard errors of `ydata`, of shape `(M,)`, or their covariance matrix.
        absolute_sigma: whether `sigma` has the unit of `ydata`; otherwise it is scaled to fit the residuals.
        check_finite, method, nan_policy, options: SciPy's.
        bounds: `(lower, upper)`, vectors or numbers for all.
        jac: not needed; as SciPy's.
        full_output: return SciPy's report, too.

    Returns:
        `(parameters, covariance)`, of shapes `(N,)` and `(N, N)`; with `full_output` also SciPy's `infodict`,
        `mesg` and `ier`. Standard errors are the roots of the covariance's diagonal.

    Raises:
        RuntimeError: SciPy has not succeeded.
        SingularEquationError: a ValueError; the data do not determine all parameters, and something is to
            be differentiated.
        StructureError: a TypeError; `p0` is a dictionary.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> t, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.7, 4.4, 7.0, 11.5])
        >>> found, covariance = curve_fit(lambda t, a, b: a * np.exp(b * t), t, y)
        >>> np.round(found, 4), np.round(np.sqrt(np.diag(covariance)), 4)
        (array([1.654 , 0.4843]), array([0.0318, 0.0054]))
        >>> np.round(fg.jacobian(lambda y: curve_fit(lambda t, a, b: a * np.exp(b * t), t, y)[0][1])(y), 4)
        Tensor([-0.0501, -0.0485, -0.0253,  0.0457])
    """
    if isinstance(p0, Mapping):
        raise errors.StructureError(
            f"p0 must be a list of numbers, one for each parameter of {name_of(f)}, and it is a {type(p0).__name__}.\n"
            "A container of parameters goes into least_squares, with a function that returns model - data."
        )
    if nan_policy == "omit":
        xdata, ydata, sigma = _without_nan(xdata, ydata, sigma)
    fit = _Fit(f, p0, bounds)
    scipys = {"check_finite": check_finite, "bounds": bounds, "method": method, "nan_policy": nan_policy, **options}
    extra = (_as_data(xdata), settled(ydata) * 1.0, None if sigma is None else settled(sigma) * 1.0)

    def solve(start: Any, *data: Any) -> Any:
        return fit.solve(start, data, absolute_sigma, jac, scipys)

    parameters = fit.find(solve, fit.optimality, extra)
    report = fit.found[0]
    covariance = fit.covariance(parameters, extra, absolute_sigma, report.pcov)
    return (parameters, covariance, *report.details) if full_output else (parameters, covariance)


class _Fit(Search):
    """One call of `curve_fit`; its function is that of the residuals in units of their errors."""

    def __init__(self, model: Callable[..., Any], p0: Any, bounds: Any) -> None:
        def residuals(p: Any, xdata: Any, ydata: Any, sigma: Any) -> Any:
            left = np.reshape(model(xdata, *p) - ydata, -1)
            if sigma is None:
                return left
            return left / sigma if sigma.ndim == 1 else np.linalg.solve(np.linalg.cholesky(sigma), left)

        self._model, self._bounds = model, bounds
        super().__init__(residuals, _within(bounds, _number_of_parameters(model)) if p0 is None else p0)
        self._is_free = bool(np.all(np.isinf(np.concatenate([np.ravel(limit) for limit in bounds]))))

    def solve(self, p0: Any, data: tuple[Any, ...], absolute_sigma: bool, jac: Any, options: dict[str, Any]) -> Any:
        """Let SciPy fit plain data; refine what it has found."""
        xdata, ydata, sigma = data

        def model(xdata: Any, *p: Any) -> Any:
            return np.array(self._model(xdata, *p))

        def slopes(xdata: Any, *p: Any) -> Any:
            return np.array(jacobian(lambda p: np.reshape(self._model(xdata, *p), -1))(np.array(p)))

        given = {name: value for name, value in options.items() if value is not None}
        found, covariance, *details = SCIPYS.curve_fit(
            model, xdata, ydata, p0, sigma, absolute_sigma, jac=jac or slopes, full_output=True, **given
        )
        if self._is_free and np.isfinite(covariance).all():
            found = self._refined(found, data)
        return result_from({"x": found, "pcov": covariance, "details": details, "success": True})

    def _refined(self, p: Any, data: tuple[Any, ...]) -> Any:
        """Return parameters after steps of Gauss and Newton, as long as the steps become shorter.

        The sum of squares is flat at its minimum: where it is lowest to rounding, the parameters are
        known to half the digits alone. The steps tell them to the last.
        """

        def cost(p: Any) -> float:
            return float(np.sum(np.square(self.function(p, *data))))

        length, highest = float("inf"), cost(p) * (1 + 1e-9)
        for _ in range(50):
            slopes = np.array(jacobian(lambda p: self.function(p, *data))(p))
            units = np.linalg.norm(slopes, axis=0)
            step = np.linalg.lstsq(slopes / units, np.array(self.function(p, *data)), rcond=None)[0]
            if not np.linalg.norm(step) < length or not cost(p - step / units) <= highest:
                return p
            p, length = p - step / units, float(np.linalg.norm(step))
        return p

    def optimality(self, p: Any, *data: Any) -> Any:
        """Return the gradient of half the sum of squares; at a bound, how far it goes beyond."""
        residuals, pullback = vjp(lambda p: self.function(p, *data), p)
        slope = pullback(residuals)[0]
        return slope if self._is_free else p - np.clip(p - slope, *self._bounds)

    def covariance(self, p: Any, data: tuple[Any, ...], absolute_sigma: bool, scipys: Any) -> Any:
        """Return (J^T J)^-1 by the QR factors of J with columns of length 1, scaled to fit the residuals."""
        if not np.isfinite(scipys).all():
            return scipys
        slopes = jacobian(lambda p: self.function(p, *data))(p)
        lengths = np.sqrt(np.sum(slopes**2, axis=0))
        root = np.linalg.inv(np.linalg.qr(slopes / lengths, mode="r")) / lengths[:, None]
        product = root @ np.transpose(root)
        if not absolute_sigma:
            left = self.function(p, *data)
            product = product * (np.sum(left**2) / (left.size - p.size))
        return product if followers([product]) else np.array(product)


def _number_of_parameters(model: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()
    kinds = [p.kind for p in parameters]
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not kinds or inspect.Parameter.VAR_POSITIONAL in kinds:
        raise ValueError("Unable to determine number of fit parameters: pass p0.")
    return sum(kind in by_position for kind in kinds) - 1


def _within(bounds: Any, count: int) -> Any:
    """Return where a fit starts by itself: at ones, but in the middle of bounds, or 1 from the only one."""
    lower, upper = (np.broadcast_to(np.asarray(limit, dtype=float), (count,)) for limit in bounds)
    start = np.where(np.isfinite(lower), lower + 1, np.where(np.isfinite(upper), upper - 1, 1.0))
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(lower) & np.isfinite(upper), (lower + upper) / 2, start)


def _as_data(xdata: Any) -> Any:
    """Return arrays as they are, and lists of numbers or of arrays as arrays, as SciPy does."""
    if not isinstance(xdata, (list, tuple)):
        return settle(xdata)
    leaves = [settled(leaf) for leaf in flatten(xdata)[0]]
    return np.stack(leaves) if followers(leaves) else np.asarray(xdata)


def _without_nan(xdata: Any, ydata: Any, sigma: Any) -> tuple[Any, Any, Any]:
    xdata, ydata = _as_data(xdata), settled(ydata)
    bad = np.isnan(example_of(xdata))
    keep = ~(np.isnan(example_of(ydata)) | (bad if bad.ndim == 1 else bad.any(axis=tuple(range(bad.ndim - 1)))))
    if sigma is not None:
        sigma = settled(sigma)
        sigma = sigma[keep] if sigma.ndim == 1 else sigma[keep][:, keep]
    return xdata[..., keep], ydata[keep], sigma
