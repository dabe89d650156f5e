"""Fits by least squares with exact Jacobians, differentiated by the data and by what the model depends on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from fgrad import errors
from fgrad.core.tensor import strip_ended
from fgrad.core.tree import flatten
from fgrad.ops.tracing import raw_array
from fgrad.rules.closures import followers
from fgrad.rules.rule import settled
from fgrad.rules.vectors import raveled
from fgrad.scipy._plain import called_as
from fgrad.scipy.optimize._search import (
    SCIPYS,
    Search,
    as_tuple,
    held_within,
    is_bounded,
    limits_of,
    python_of,
    reported,
    reported_of_batch,
    result_from,
)
from fgrad.transforms.calls import name_of
from fgrad.transforms.jacobians import elementwise_grad, jacobian
from fgrad.transforms.reverse import grad, stop_gradient

LOSSES: dict[str, Callable[[Any], Any]] = {
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.where(z <= 1, 1, z)) - 1),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}
"""SciPy's loss functions rho(z) of squared residuals, by their names; "linear" is z."""


@called_as(SCIPYS.least_squares, "compile")
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
    *,
    compile: bool = False,
    **options: Any,
) -> OptimizeResult:
    """Solve a nonlinear least-squares problem, as `scipy.optimize.least_squares`, and differentiate the solution.

    It is differentiated by the implicit function theorem: by `args`, `kwargs`, `bounds`, `f_scale`, and by traced
    values and variables that `fun` and `loss` use besides; in both modes, to any order. Its derivative by `x0`
    is 0.

    Args:
        fun: `fun(x, *args, **kwargs)` returns the residuals.
        x0: where to start: a vector, or a container of arrays, which `fun` is then called with.
        jac: by default the exact Jacobian; otherwise as SciPy's, such as `fg.sparse_jacobian(fun)`.
        bounds: `(lower, upper)`, vectors or numbers for all, or `scipy.optimize.Bounds`.
        method, ftol, xtol, gtol, options: SciPy's.
        loss, f_scale: SciPy's; a loss of one's own, `loss(z)`, is written in NumPy's functions, with `np.stack`.
        args: extra arguments, containers of arrays too.
        kwargs: arguments by name.
        compile: SciPy calls native code for `fun` and for the exact Jacobian, as in `minimize`.

    Returns:
        SciPy's result; `x` is nested as `x0` is. `x`, `fun`, `cost`, `grad` and `jac` are differentiated; what else is
        in it, such as `optimality`, then raises where something is computed with it.

    Raises:
        ConvergenceError: a RuntimeError; SciPy has not succeeded, and something is to be differentiated.
        SingularEquationError: a ValueError; the data do not determine all unknowns.
        ConcretizationError, FrozenValueError, MissingExtraError: with `compile`, as `fg.compile` raises them.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> t = np.array([0.0, 1.0, 2.0])
        >>> def rate(y):
        ...     return least_squares(lambda p: p[0] * np.exp(-p[1] * t) - y, [1.0, 1.0], xtol=1e-12).x[1]
        >>> np.round(fg.grad(rate)(2.0 * np.exp(-t)), 4)
        Tensor([ 0.4074, -0.8555, -0.6846])
    """
    search = _LeastSquares("least_squares", fun, x0, loss, compile)
    on_vectors = search.on_vectors(search.residuals)
    residuals, exact = search.plain(on_vectors), search.plain_jacobian(on_vectors)

    def solve(start: Any, lower: Any, upper: Any, scale: Any, given: Any, *args: Any) -> Any:
        slopes = exact((given, *args)) if jac is None else jac
        if callable(jac):
            slopes = lambda vector, *_: jac(vector, *args, **given)  # noqa: E731
        scipys = {"ftol": ftol, "xtol": xtol, "gtol": gtol, **search.plain_loss(scale), **options}
        within = np.array(lower), np.array(upper)
        return SCIPYS.least_squares(residuals((given, *args)), start, slopes, within, method, **scipys)

    limits, scale = limits_of(bounds, raveled(search.start)[0].shape), settled(f_scale) * 1.0
    extra = (kwargs or {}, *as_tuple(args))
    x = search.least(solve, limits, scale, extra)
    if not followers(flatten(x)[0]):
        return search.result(x=x)
    fields = {"cost": search.cost(x, scale, extra), "grad": search.slope(x, scale, extra)}
    left, slopes = search.linearized(x, scale, extra)
    return search.result(x=x, fun=left, jac=slopes, **fields)


class _LeastSquares(Search):
    """A search for what makes a loss of residuals least, within bounds."""

    def __init__(self, name: str, function: Callable[..., Any], start: Any, loss: Any, compile: bool) -> None:
        super().__init__(name, function, start, compile)
        self._loss = loss

    def residuals(self, x: Any, given: Any, *args: Any) -> Any:
        """Return what the user's function returns; `given` are arguments by name."""
        return self.function(x, *args, **given)

    def cost(self, x: Any, scale: Any, args: tuple[Any, ...]) -> Any:
        """Return what is made least: half the sum of the losses."""
        left = raveled(self.residuals(x, *args))[0]
        if self._loss == "linear":
            return 0.5 * np.sum(left**2)
        return 0.5 * scale**2 * np.sum(self._rho((left / scale) ** 2))

    def slope(self, x: Any, scale: Any, args: tuple[Any, ...]) -> Any:
        """Return the gradient of the cost, as a vector."""
        vector, restore = raveled(x)
        return grad(lambda vector: self.cost(restore(vector), scale, args))(vector)

    def linearized(self, x: Any, scale: Any, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the residuals, as a vector, and their Jacobian, in which J^T J is about the Hessian of the cost."""
        vector, restore = raveled(x)
        left = raveled(self.residuals(x, *args))[0]
        slopes = jacobian(lambda vector: raveled(self.residuals(restore(vector), *args))[0])(vector)
        return left, slopes if self._loss == "linear" else self.weights(left, scale)[:, None] * slopes

    def weights(self, left: Any, scale: Any) -> Any:
        """Return the weights of residuals: with them J^T J is the Hessian of the cost, but for that of the residuals.

        Where a loss grows so slowly that they would not be positive they are nearly 0, as in SciPy.
        """
        if self._loss == "linear":
            return np.ones_like(left)
        z, slope = (left / scale) ** 2, elementwise_grad(self._rho)
        return np.sqrt(np.maximum(slope(z) + 2 * z * elementwise_grad(slope)(z), np.finfo(float).eps))

    def least(self, solve: Callable[..., Any], limits: tuple[Any, Any], scale: Any, args: tuple[Any, ...]) -> Any:
        """Return what SciPy finds, differentiated.

        Args:
            solve: from a start, as a vector, both limits, the scale and arguments to SciPy's result.
            limits: the lower and the upper bounds.
            scale: that of the residuals in the loss.
            args: those of `residuals`.
        """

        def optimality(x: Any, lower: Any, upper: Any, scale: Any, *args: Any) -> Any:
            slope = self.slope(x, scale, args)
            return held_within(raveled(x)[0], slope, self._curvature(x, args), (lower, upper)) if bounded else slope

        def uses(x: Any, lower: Any, upper: Any, scale: Any, *args: Any) -> Any:
            return self.cost(x, scale, args) if callable(self._loss) else self.residuals(x, *args)

        bounded = is_bounded(limits)
        return self.find(solve, optimality, (*limits, scale, *args), uses)

    def plain_loss(self, scale: Any) -> dict[str, Any]:
        """Return the loss as SciPy takes it, which writes into what a function of the user's returns."""
        loss = (lambda z: np.array(self._loss(z))) if callable(self._loss) else self._loss
        return {"loss": loss, "f_scale": float(scale)}

    def _curvature(self, x: Any, args: tuple[Any, ...]) -> Any:
        """Return that of half the sum of squares in each unknown, with which a bound is found to hold."""
        vector, restore = raveled(stop_gradient(x))  # which bounds hold is no matter of derivatives
        slopes = jacobian(lambda vector: raveled(self.residuals(restore(vector), *args))[0])(vector)
        return np.sum(slopes**2, axis=0)

    def _rho(self, z: Any) -> Any:
        return self._loss(z)[0] if callable(self._loss) else LOSSES[self._loss](z)


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
    compile: bool = False,
    **options: Any,
) -> Any:
    """Fit a function to data, as `scipy.optimize.curve_fit`, and differentiate what was fitted.

    The Jacobian is exact. What SciPy has found is refined by steps of the method of Gauss and Newton until
    they do not lower the sum of squares any more, and the covariance is computed at that very point. The
    parameters and their covariance are differentiated by the data, their errors, `bounds`, and what else `f` uses.

    Args:
        f: `f(xdata, *parameters)` returns an array of the shape of `ydata`.
        xdata: where was measured; passed on to `f`.
        ydata: what was measured, of shape `(M,)`.
        p0: where to start, a number for each parameter; by default ones, or within the bounds.
        sigma: standard errors of `ydata`, of shape `(M,)`, or their covariance matrix.
        absolute_sigma: whether `sigma` has the unit of `ydata`; otherwise it is scaled to fit the residuals.
        check_finite, method, nan_policy, options: SciPy's, with `loss` and `f_scale` as those of `least_squares`.
        bounds: `(lower, upper)`, vectors or numbers for all, or `scipy.optimize.Bounds`.
        jac: not needed; as SciPy's.
        full_output: return SciPy's report, too.
        compile: SciPy calls native code for `f` and for the exact Jacobian, as in `minimize`; and so do the steps that
            refine what it has found.

    Returns:
        `(parameters, covariance)`, of shapes `(N,)` and `(N, N)`; with `full_output` also SciPy's `infodict`,
        `mesg` and `ier`, in a batch as lists of those of its examples. Of `infodict`, `fvec` is differentiated; other
        numbers raise where something is computed with them. Standard errors are the roots of the covariance's
        diagonal.

    Raises:
        RuntimeError: SciPy has not succeeded.
        SingularEquationError: a ValueError; the data do not determine all parameters, and something is to
            be differentiated.
        StructureError: a TypeError; `p0` is a dictionary.
        ConcretizationError, FrozenValueError, MissingExtraError: with `compile`, as `fg.compile` raises them.

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
    fit = _Fit(f, p0, bounds, options.get("loss", "linear"), compile)
    scipys = {"absolute_sigma": absolute_sigma, "check_finite": check_finite, "method": method, "jac": jac}
    scipys = {**scipys, "nan_policy": nan_policy, **options}
    data = (_as_data(xdata), settled(ydata) * 1.0, None if sigma is None else settled(sigma) * 1.0)

    def solve(start: Any, lower: Any, upper: Any, scale: Any, *data: Any) -> Any:
        plain_loss = {name: value for name, value in fit.plain_loss(scale).items() if name in options}
        return fit.solve(start, (np.array(lower), np.array(upper)), data, {**scipys, **plain_loss})

    scale = settled(options.get("f_scale", 1.0)) * 1.0
    parameters = fit.least(solve, fit.limits, scale, data)
    covariance = fit.covariance(parameters, scale, data, absolute_sigma)
    if not full_output:
        return parameters, covariance
    return parameters, covariance, *fit.details(parameters, data)


class _Fit(_LeastSquares):
    """One call of `curve_fit`; its residuals are in units of their errors.

    Attributes:
        limits: the lower and the upper bounds.
    """

    def __init__(self, model: Callable[..., Any], p0: Any, bounds: Any, loss: Any, compile: bool) -> None:
        count = _number_of_parameters(python_of(model)) if p0 is None else raveled(p0)[0].size
        self.limits = limits_of(bounds, (count,))
        super().__init__("curve_fit", model, _within(*self.limits) if p0 is None else p0, loss, compile)

        def of_vector(p: Any, xdata: Any) -> Any:
            return self.function(xdata, *p)

        of_vector.__name__ = name_of(model)
        self._model, self._slopes = self.plain(of_vector), self.plain_jacobian(_raveled(of_vector))
        self._left, self._slopes_left = self.plain(self.residuals), self.plain_jacobian(self.residuals)

    def residuals(self, p: Any, xdata: Any, ydata: Any, sigma: Any) -> Any:
        """Return how far the model is from the data, in units of their errors."""
        left = np.reshape(self.function(xdata, *p) - ydata, -1)
        if sigma is None:
            return left
        return left / sigma if sigma.ndim == 1 else np.linalg.solve(np.linalg.cholesky(sigma), left)

    def solve(self, p0: Any, bounds: Any, data: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Let SciPy fit plain data; refine what it has found."""
        xdata, ydata, sigma = data

        def model(xdata: Any, *p: Any) -> Any:
            return self._model((xdata,))(np.array(p))

        def slopes(xdata: Any, *p: Any) -> Any:
            return self._slopes((xdata,))(np.array(p))

        given = {"jac": slopes, **{name: value for name, value in options.items() if value is not None}}
        found, covariance, *details = SCIPYS.curve_fit(
            model, xdata, ydata, p0, sigma, bounds=bounds, full_output=True, **given
        )
        if self._loss == "linear" and np.isinf(bounds).all() and np.isfinite(covariance).all():
            found = self._refined(found, data)
        return result_from({"x": found, "pcov": covariance, "details": details, "success": True})

    def _refined(self, p: Any, data: tuple[Any, ...]) -> Any:
        """Return parameters after steps of Gauss and Newton, as long as the steps become shorter.

        The sum of squares is flat at its minimum: where it is lowest to rounding, the parameters are
        known to half the digits alone. The steps tell them to the last.
        """
        left, slopes_left = self._left(data), self._slopes_left(data)

        def cost(p: Any) -> float:
            return float(np.sum(np.square(left(p))))

        length, highest = float("inf"), cost(p) * (1 + 1e-9)
        for _ in range(50):
            slopes = slopes_left(p)
            units = np.linalg.norm(slopes, axis=0)
            step = np.linalg.lstsq(slopes / units, left(p), rcond=None)[0]
            if not np.linalg.norm(step) < length or not cost(p - step / units) <= highest:
                return p
            p, length = p - step / units, float(np.linalg.norm(step))
        return p

    def details(self, p: Any, data: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        """Return SciPy's further findings; what they say of the solution is computed from it."""
        infos, messages, flags = zip(*(result.details for result in self.found), strict=True)
        if not followers([p]):
            return infos[0], messages[0], flags[0]
        is_one = len(infos) == 1
        info = reported("curve_fit", infos[0]) if is_one else reported_of_batch("curve_fit", infos)
        info["fvec"] = self.residuals(p, *data)
        return (info, messages[0], flags[0]) if is_one else (info, messages, flags)

    def covariance(self, p: Any, scale: Any, data: tuple[Any, ...], absolute_sigma: bool) -> Any:
        """Return (J^T J)^-1 by the QR factors of J with columns of length 1, scaled to fit the residuals.

        Where SciPy finds that the data do not determine it, SciPy's.
        """
        if not all(np.isfinite(result.pcov).all() for result in self.found):
            if len(self.found) > 1:
                raise errors.UnsupportedError(
                    "fgrad.scipy.optimize.curve_fit: the covariance of one fit of a batch cannot be estimated.\n"
                    "Fit the examples in a loop, and see which."
                )
            return self.found[0].pcov
        left, slopes = self.linearized(p, scale, data)
        lengths = np.sqrt(np.sum(slopes**2, axis=0))
        root = np.linalg.inv(np.linalg.qr(slopes / lengths, mode="r")) / lengths[:, None]
        product = root @ np.transpose(root)
        if not absolute_sigma:
            product = product * (2 * self.cost(p, scale, data) / (left.size - p.size))
        return product if followers([product]) else np.array(product)


def _raveled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose result is a vector."""

    def raveled(*args: Any) -> Any:
        return np.reshape(function(*args), -1)

    raveled.__name__ = name_of(function)
    return raveled


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


def _within(lower: Any, upper: Any) -> Any:
    """Return where a fit starts by itself: at ones, but in the middle of bounds, or 1 from the only one."""
    start = np.where(np.isfinite(lower), lower + 1, np.where(np.isfinite(upper), upper - 1, 1.0))
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(lower) & np.isfinite(upper), (lower + upper) / 2, start)


def _as_data(xdata: Any) -> Any:
    """Return arrays as they are, and lists of numbers or of arrays as arrays, as SciPy does."""
    if not isinstance(xdata, (list, tuple)):
        return strip_ended(xdata)
    leaves = [settled(leaf) for leaf in flatten(xdata)[0]]
    return np.stack(leaves) if followers(leaves) else np.asarray(xdata)


def _without_nan(xdata: Any, ydata: Any, sigma: Any) -> tuple[Any, Any, Any]:
    xdata, ydata = _as_data(xdata), settled(ydata)
    bad = np.isnan(raw_array(xdata))
    keep = ~(np.isnan(raw_array(ydata)) | (bad if bad.ndim == 1 else bad.any(axis=tuple(range(bad.ndim - 1)))))
    if sigma is not None:
        sigma = settled(sigma)
        sigma = sigma[keep] if sigma.ndim == 1 else sigma[keep][:, keep]
    return xdata[..., keep], ydata[keep], sigma
