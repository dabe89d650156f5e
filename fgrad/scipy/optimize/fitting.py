"""Least-squares fits with exact Jacobians, differentiable with respect to the data and the inputs of the model."""

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
from fgrad.scipy._aside import reported
from fgrad.scipy._plain import called_as
from fgrad.scipy.optimize._search import (
    SCIPYS,
    Search,
    as_tuple,
    held_within,
    is_bounded,
    limits_of,
    python_of,
    result_from,
)
from fgrad.transforms.callbacks import check_callback, check_solvers_function
from fgrad.transforms.calls import name_of
from fgrad.transforms.jacobians import elementwise_grad, jacobian
from fgrad.transforms.reverse import grad, stop_gradient
from fgrad.typing import Array, ArrayLike

LOSSES: dict[str, Callable[[Any], Any]] = {
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.where(z <= 1, 1, z)) - 1),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}
"""SciPy's loss functions rho(z) of squared residuals, by name; "linear" is z."""


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
    **options: object,
) -> OptimizeResult:
    """Solve a nonlinear least-squares problem, as `scipy.optimize.least_squares`, with derivatives.

    It has derivatives by the implicit function theorem, with respect to `args`, `kwargs`, `bounds`, `f_scale`, and
    traced values and variables that `fun` and `loss` close over; in both modes, to any order. The derivative with
    respect to `x0` is 0.

    Args:
        fun: `fun(x, *args, **kwargs)` returns the residuals.
        x0: the starting point: a vector, or a container of arrays, which `fun` then takes.
        jac: by default the exact Jacobian; otherwise as in SciPy, such as `fg.sparse_jacobian(fun)`.
        bounds: `(lower, upper)`, vectors or numbers for all, or `scipy.optimize.Bounds`.
        method, ftol, xtol, gtol, options: as in SciPy.
        loss, f_scale: as in SciPy; a loss of your own, `loss(z)`, must use NumPy functions, with `np.stack`.
        args: extra arguments, which may be containers of arrays.
        kwargs: arguments by name.
        compile: whether SciPy calls native code for `fun` and for the exact Jacobian, as in `minimize`.

    Returns:
        SciPy's result; `x` has the structure of `x0`. `x`, `fun`, `cost`, `grad` and `jac` are differentiable; the
        other fields, such as `optimality`, raise if they are used in a computation.

    Raises:
        ConvergenceError: a RuntimeError; SciPy's solver failed, and a derivative is needed.
        SingularEquationError: a ValueError; the data do not determine all unknowns.
        ConcretizationError, FrozenValueError, MissingExtraError: with `compile`, as for `fg.compile`.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> t = np.array([0.0, 1.0, 2.0])
        >>> def rate(y):
        ...     return least_squares(lambda p: p[0] * np.exp(-p[1] * t) - y, [1.0, 1.0], xtol=1e-12).x[1]
        >>> np.round(fg.grad(rate)(2.0 * np.exp(-t)), 4)
        Tensor([ 0.4074, -0.8555, -0.6846])
    """
    check_solvers_function("fun of least_squares", fun, "x", as_tuple(args), **kwargs or {})
    search = _LeastSquares("least_squares", fun, x0, loss, compile)
    on_vectors = search.on_vectors(search.residuals)
    residuals, exact = search.plain(on_vectors), search.plain_jacobian(on_vectors)

    def solve(start: Array, lower: Array, upper: Array, scale: Array, given: Mapping[str, Any], *args: Array) -> Any:
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
    """Minimization of a loss of residuals within bounds."""

    def __init__(self, name: str, function: Callable[..., Any], start: ArrayLike, loss: Any, compile: bool) -> None:
        super().__init__(name, function, start, compile)
        self._loss = loss

    def residuals(self, x: Any, given: dict[str, Any], *args: Any) -> Any:
        """Return the result of the user's function; `given` are keyword arguments."""
        return self.function(x, *args, **given)

    def cost(self, x: Array, scale: Array, args: tuple[Any, ...]) -> Any:
        """Return the objective: half the sum of the losses."""
        left = raveled(self.residuals(x, *args))[0]
        if self._loss == "linear":
            return 0.5 * np.sum(left**2)
        return 0.5 * scale**2 * np.sum(self._rho((left / scale) ** 2))

    def slope(self, x: Array, scale: Array, args: tuple[Any, ...]) -> Any:
        """Return the gradient of the cost, as a vector."""
        vector, restore = raveled(x)
        return grad(lambda vector: self.cost(restore(vector), scale, args))(vector)

    def linearized(self, x: Any, scale: Array, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the residuals as a vector, and their Jacobian, where J^T J approximates the Hessian of the cost."""
        vector, restore = raveled(x)
        left = raveled(self.residuals(x, *args))[0]
        slopes = jacobian(lambda vector: raveled(self.residuals(restore(vector), *args))[0])(vector)
        return left, slopes if self._loss == "linear" else self.weights(left, scale)[:, None] * slopes

    def weights(self, left: Array, scale: Array) -> Any:
        """Return the weights of residuals for which J^T J approximates the Hessian of the cost.

        For slowly growing losses, weights that would not be positive are nearly 0, as in SciPy.
        """
        z, slope = (left / scale) ** 2, elementwise_grad(self._rho)
        return np.sqrt(np.maximum(slope(z) + 2 * z * elementwise_grad(slope)(z), np.finfo(float).eps))

    def least(self, solve: Callable[..., Any], limits: tuple[Any, Any], scale: Array, args: tuple[Any, ...]) -> Any:
        """Return SciPy's solution, differentiable.

        Args:
            solve: maps a starting vector, both limits, the scale and arguments to SciPy's result.
            limits: the lower and the upper bounds.
            scale: the scale of the residuals in the loss.
            args: the arguments of `residuals`.
        """

        def optimality(x: Array, lower: Array, upper: Array, scale: Array, *args: object) -> Any:
            slope = self.slope(x, scale, args)
            return held_within(raveled(x)[0], slope, self._curvature(x, args), (lower, upper)) if bounded else slope

        def uses(x: Array, lower: Array, upper: Array, scale: Array, *args: Any) -> Any:
            return self.cost(x, scale, args) if callable(self._loss) else self.residuals(x, *args)

        bounded = is_bounded(limits)
        return self.find(solve, optimality, (*limits, scale, *args), uses)

    def plain_loss(self, scale: Array) -> dict[str, Any]:
        """Return the loss for SciPy, which writes into the result of a user's function."""
        loss = (lambda z: np.array(self._loss(z))) if callable(self._loss) else self._loss
        return {"loss": loss, "f_scale": float(scale)}

    def _curvature(self, x: object, args: tuple[Any, ...]) -> Any:
        """Return the curvature of half the sum of squares in each unknown, for the detection of active bounds."""
        vector, restore = raveled(stop_gradient(x))  # the set of active bounds is a constant for derivatives
        slopes = jacobian(lambda vector: raveled(self.residuals(restore(vector), *args))[0])(vector)
        return np.sum(slopes**2, axis=0)

    def _rho(self, z: Array) -> Any:
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
    """Fit a function to data, as `scipy.optimize.curve_fit`, with derivatives.

    The Jacobian is exact. SciPy's result is refined by Gauss-Newton steps until
    the sum of squares stops decreasing, and the covariance is computed at this point. The parameters and their
    covariance are differentiable with respect to the data, their errors, `bounds`, and the values that `f` closes over.

    Args:
        f: `f(xdata, *parameters)` returns an array of the shape of `ydata`.
        xdata: the independent variable; passed on to `f`.
        ydata: the measured values, of shape `(M,)`.
        p0: the starting point, a number for each parameter; by default ones, or within the bounds.
        sigma: standard errors of `ydata`, of shape `(M,)`, or their covariance matrix.
        absolute_sigma: whether `sigma` has the unit of `ydata`; otherwise it is scaled to fit the residuals.
        check_finite, method, nan_policy, options: as in SciPy, with `loss` and `f_scale` as for `least_squares`.
        bounds: `(lower, upper)`, vectors or numbers for all, or `scipy.optimize.Bounds`.
        jac: not needed; as in SciPy.
        full_output: whether to return SciPy's report, too.
        compile: whether SciPy calls native code for `f` and for the exact Jacobian, as in `minimize`; so do the
            refining steps.

    Returns:
        `(parameters, covariance)`, of shapes `(N,)` and `(N, N)`; with `full_output` also SciPy's `infodict`,
        `mesg` and `ier`, for a batch as lists by example. In `infodict`, `fvec` is differentiable; other
        numbers raise if they are used in a computation. Standard errors are the square roots of the covariance's
        diagonal.

    Raises:
        RuntimeError: SciPy's solver failed.
        SingularEquationError: a ValueError; the data do not determine all parameters, and something is to
            be differentiated.
        StructureError: a TypeError; `p0` is a dictionary.
        ConcretizationError, FrozenValueError, MissingExtraError: with `compile`, as for `fg.compile`.

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
            f"p0 must be a list of numbers, one for each parameter of {name_of(f)}, but it is a {type(p0).__name__}.\n"
            "For a container of parameters use least_squares, with a function that returns model - data."
        )
    if nan_policy == "omit":
        xdata, ydata, sigma = _without_nan(xdata, ydata, sigma)
    fit = _Fit(f, p0, bounds, options.get("loss", "linear"), compile)
    scipys = {"absolute_sigma": absolute_sigma, "check_finite": check_finite, "method": method, "jac": jac}
    scipys = {**scipys, "nan_policy": nan_policy, **options}
    data = (_as_data(xdata), settled(ydata) * 1.0, None if sigma is None else settled(sigma) * 1.0)

    def solve(start: Array, lower: Array, upper: Array, scale: Array, *data: object) -> Any:
        plain_loss = {name: value for name, value in fit.plain_loss(scale).items() if name in options}
        return fit.solve(start, (np.array(lower), np.array(upper)), data, {**scipys, **plain_loss})

    scale = settled(options.get("f_scale", 1.0)) * 1.0
    parameters = fit.least(solve, fit.limits, scale, data)
    covariance = fit.covariance(parameters, scale, data, absolute_sigma)
    if not full_output:
        return parameters, covariance
    return parameters, covariance, *fit.details(parameters, data)


class _Fit(_LeastSquares):
    """One call of `curve_fit`; the residuals are in units of their errors."""

    def __init__(self, model: Callable[..., Any], p0: Any, bounds: Any, loss: Any, compile: bool) -> None:
        count = _number_of_parameters(python_of(model)) if p0 is None else raveled(p0)[0].size
        if p0 is not None and callable(model):
            what = f"f of curve_fit, with {count} parameter{'s' * (count != 1)} as in p0,"
            check_callback(what, model, "f(xdata, *p)", 1 + count)
        self.limits = limits_of(bounds, (count,))
        super().__init__("curve_fit", model, _within(*self.limits) if p0 is None else p0, loss, compile)
        self.function = python_of(model)  # the parameters are numbers

        def of_vector(p: Array, xdata: Array) -> Any:
            return self.function(xdata, *p)

        of_vector.__name__ = name_of(model)
        self._model, self._slopes = self.plain(of_vector), self.plain_jacobian(_raveled(of_vector))
        self._left, self._slopes_left = self.plain(self.residuals), self.plain_jacobian(self.residuals)

    def residuals(self, p: Any, xdata: Any, ydata: Any, sigma: Any) -> Any:
        """Return the residuals, in units of their errors."""
        left = np.reshape(self.function(xdata, *p) - ydata, -1)
        if sigma is None:
            return left
        return left / sigma if sigma.ndim == 1 else np.linalg.solve(np.linalg.cholesky(sigma), left)

    def solve(self, p0: Array, bounds: Any, data: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Fit plain data with SciPy, and refine the result."""
        xdata, ydata, sigma = data

        def model(xdata: Array, *p: Array) -> Any:
            return self._model((xdata,))(np.array(p))

        def slopes(xdata: Array, *p: Array) -> Any:
            return self._slopes((xdata,))(np.array(p))

        given = {"jac": slopes, **{name: value for name, value in options.items() if value is not None}}
        found, covariance, *details = SCIPYS.curve_fit(
            model, xdata, ydata, p0, sigma, bounds=bounds, full_output=True, **given
        )
        if self._loss == "linear" and np.isinf(bounds).all() and np.isfinite(covariance).all():
            found = self._refined(found, data)
        return result_from({"x": found, "pcov": covariance, "details": details, "success": True})

    def _refined(self, p: Array, data: tuple[Any, ...]) -> Any:
        """Return parameters after Gauss-Newton steps, as long as the steps become shorter.

        The sum of squares is flat at its minimum: its value to rounding determines only half the digits of the
        parameters. The steps determine the rest.
        """
        left, slopes_left = self._left(data), self._slopes_left(data)

        def cost(p: Array) -> float:
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

    def details(self, p: Array, data: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        """Return SciPy's further results, recomputed from the solution."""
        infos, messages, flags = zip(*(result.details for result in self.found), strict=True)
        if not followers([p]):
            return infos[0], messages[0], flags[0]
        info = {**reported("curve_fit", infos), "fvec": self.residuals(p, *data)}
        return (info, messages[0], flags[0]) if len(infos) == 1 else (info, messages, flags)

    def covariance(self, p: Array, scale: Array, data: tuple[Any, ...], absolute_sigma: bool) -> Any:
        """Return (J^T J)^-1 by the QR factors of J with normalized columns, scaled to the residuals.

        If SciPy finds it undetermined, return SciPy's.
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

    def raveled(*args: Array) -> Any:
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


def _within(lower: Array, upper: Array) -> Array:
    """Return the default starting point: ones, or the middle of bounds, or 1 away from a single bound."""
    start = np.where(np.isfinite(lower), lower + 1, np.where(np.isfinite(upper), upper - 1, 1.0))
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(lower) & np.isfinite(upper), (lower + upper) / 2, start)


def _as_data(xdata: Any) -> Any:
    """Return arrays unchanged, and lists of numbers or of arrays as arrays, as SciPy does."""
    if not isinstance(xdata, (list, tuple)):
        return strip_ended(xdata)
    leaves = [settled(leaf) for leaf in flatten(xdata)[0]]
    return np.stack(leaves) if followers(leaves) else np.asarray(xdata)


def _without_nan(xdata: Array, ydata: Array, sigma: Any) -> tuple[Any, Any, Any]:
    xdata, ydata = _as_data(xdata), settled(ydata)
    bad = np.isnan(raw_array(xdata))
    keep = ~(np.isnan(raw_array(ydata)) | (bad if bad.ndim == 1 else bad.any(axis=tuple(range(bad.ndim - 1)))))
    if sigma is not None:
        sigma = settled(sigma)
        sigma = sigma[keep] if sigma.ndim == 1 else sigma[keep][:, keep]
    return xdata[..., keep], ydata[keep], sigma
