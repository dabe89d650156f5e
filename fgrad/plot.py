"""Plots with matplotlib: of training, of gradients, of a function with its derivatives, and of sparse derivatives.

    learning_curve(losses)          the loss over the steps
    gradient_flow(history)          the norm of each variable's gradient over the steps
    function(f, (low, high))        a function of one number, and its derivatives
    pattern(plan)                   the sparsity pattern of a Jacobian or Hessian, by the colors of its plan

Each function draws into `ax`, or into a new figure, and returns the axes. matplotlib is imported by the first plot; it
is optional: `pip install matplotlib`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import fgrad.core  # noqa: F401  # first, so that threads import it in one order
from fgrad import errors
from fgrad.optimizers.running import History
from fgrad.patterns.plans import SparsePlan
from fgrad.transforms.reverse import grad

__all__ = ["function", "gradient_flow", "learning_curve", "pattern"]

__dir__ = __all__.copy

_WIDE = 100.0
"""The ratio between the largest and the smallest value from which an axis is logarithmic."""


def _axes(ax: Any, title: str) -> Any:
    """Return the axes to draw into, by default those of a new figure."""
    if ax is not None:
        return ax
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise errors.MissingExtraError(
            "fgrad.plot needs the library matplotlib, which is not installed: pip install matplotlib"
        ) from None
    ax = pyplot.subplots(layout="constrained")[1]
    ax.set_title(title)
    ax.grid(alpha=0.3)
    return ax


def _numbers(what: str, values: Any) -> npt.NDArray[np.float64]:
    """Return a curve as an array."""
    array = np.asarray([np.asarray(value) for value in values])
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise errors.ParameterError(
            f"{what} must be a sequence of real numbers, but it has shape {array.shape} and dtype {array.dtype}."
        )
    return array.astype(np.float64)


def _smoothed(values: npt.NDArray[np.float64], width: int) -> npt.NDArray[np.float64]:
    """Return the mean of each value and the preceding ones, up to `width` in total."""
    return np.array([np.mean(values[max(0, end - width) : end]) for end in range(1, len(values) + 1)])


def _scale(ax: Any, log: bool | None, curves: Sequence[npt.NDArray[np.float64]]) -> None:
    """Make the vertical axis logarithmic if `log` is true, or, if it is None, if the range of values is wide."""
    if log is None:
        values = np.concatenate([*curves, np.empty(0)])
        values = values[np.isfinite(values)]
        log = bool(values.size and values.min() > 0 and values.max() / values.min() >= _WIDE)
    if log:
        ax.set_yscale("log")


def learning_curve(
    losses: Any, ax: Any = None, smooth: int | None = None, log: bool | None = None, label: str | None = None
) -> Any:
    """Plot losses over the steps.

    Args:
        losses: a sequence of numbers, a `History`, or a dict of these, with a curve for each.
        ax: the axes of matplotlib to draw into; by default those of a new figure.
        smooth: also draw, more prominently, the moving average of this many losses.
        log: whether the vertical axis is logarithmic; by default if all losses are positive and the largest is at least
            100 times the smallest.
        label: the label of the curve in a legend; a dict has its own labels.

    Returns:
        The axes.

    Raises:
        MissingExtraError: an ImportError; matplotlib is not installed.
        ParameterError: a ValueError; `losses` are not real numbers, or `smooth` is not a positive integer.

    Example:
        >>> import fgrad as fg
        >>> history = fg.optimizers.run(lambda x: (x - 1) ** 2, 3.0, 20, progress=False)
        >>> axes = learning_curve(history)
        >>> axes.get_xlabel(), axes.get_ylabel()
        ('step', 'loss')
    """
    if smooth is not None and (isinstance(smooth, bool) or not isinstance(smooth, (int, np.integer)) or smooth < 1):
        raise errors.ParameterError(f"smooth must be a positive number of steps, but it is {smooth!r}.")
    named = losses if isinstance(losses, Mapping) else {label: losses}
    curves = {
        name: each.losses if isinstance(each, History) else _numbers("losses", each) for name, each in named.items()
    }
    ax = _axes(ax, "learning curve")
    for name, values in curves.items():
        steps = np.arange(1, len(values) + 1)
        if smooth is None:
            ax.plot(steps, values, label=name)
        else:
            (faint,) = ax.plot(steps, values, alpha=0.3, linewidth=1)
            ax.plot(steps, _smoothed(values, int(smooth)), color=faint.get_color(), label=name)
    _scale(ax, log, list(curves.values()))
    ax.set(xlabel="step", ylabel="loss")
    if any(name is not None for name in curves):
        ax.legend()
    return ax


def gradient_flow(history: Any, ax: Any = None, log: bool | None = None) -> Any:
    """Plot the norm of the gradient of each variable over the steps.

    A gradient of exactly zero cannot be shown on a logarithmic axis, and one that is not finite on no axis: the curve
    has a gap there, with a triangle at the lower edge for zero and a cross at the upper edge for a gradient that is not
    finite. A step in which the loss did not depend on a variable is a gap without a marker.

    Args:
        history: the result of `optimizers.run`, or a dict of norms by the name of the variable, with None for no
            gradient.
        ax: the axes of matplotlib to draw into; by default those of a new figure.
        log: whether the vertical axis is logarithmic; by default if the largest norm is at least 100 times the smallest
            nonzero one.

    Returns:
        The axes.

    Raises:
        MissingExtraError: an ImportError; matplotlib is not installed.
        ParameterError: a ValueError; the norms are not real numbers.

    Example:
        >>> axes = gradient_flow({"w": [3.0, 2.0, 0.0], "b": [1.0, 0.5, 0.1]})
        >>> [text.get_text() for text in axes.get_legend().get_texts()]
        ['w', 'b']
    """
    norms = history.gradient_norms if isinstance(history, History) else history
    if not isinstance(norms, Mapping):
        raise errors.ParameterError(
            f"gradient_flow takes the history of optimizers.run or a dict of norms by name, not {norms!r:.100}."
        )
    gaps = {name: [i for i, each in enumerate(values) if each is None] for name, values in norms.items()}
    curves = {
        name: _numbers(f"the norms of {name!r}", [np.nan if each is None else each for each in values])
        for name, values in norms.items()
    }
    ax = _axes(ax, "gradient flow")
    _scale(ax, log, [values[values > 0] for values in curves.values()])
    given = isinstance(history, History)
    for name, values in curves.items():
        steps = np.arange(1, len(values) + 1)
        none = np.isnan(values) if given else np.isin(np.arange(len(values)), gaps[name])
        vanished = (values == 0) & (ax.get_yscale() == "log")
        drawn = np.where(np.isfinite(values) & ~vanished, values, np.nan)
        (line,) = ax.plot(steps, drawn, ".-", markersize=3, label=name)
        _mark(ax, steps[vanished], "v", 0.02, line.get_color())
        _mark(ax, steps[~np.isfinite(values) & ~none], "x", 0.98, line.get_color())
    ax.set(xlabel="step", ylabel="norm of the gradient")
    if curves:
        ax.legend()
    return ax


def _mark(ax: Any, steps: npt.NDArray[Any], marker: str, height: float, color: Any) -> None:
    """Draw markers at some steps, at a height between the lower edge, 0, and the upper edge, 1."""
    if len(steps):
        heights = np.full(len(steps), height)
        ax.plot(steps, heights, marker, color=color, transform=ax.get_xaxis_transform(), label="_marks")


def function(
    f: Callable[[Any], Any],
    range: tuple[float, float],
    orders: Sequence[int] = (0, 1, 2),
    ax: Any = None,
    points: int = 200,
) -> Any:
    """Plot a function of one number, and its derivatives by nested `grad`.

    The function is called with one number per call, so it may contain `if` and loops.

    Args:
        f: takes a floating-point number; returns one.
        range: the lower and the upper end, as a pair.
        orders: the orders of the derivatives: 0 is the function itself. The time at least doubles with each order.
        ax: the axes of matplotlib to draw into; by default those of a new figure.
        points: the number of equidistant points, including both ends.

    Returns:
        The axes.

    Raises:
        MissingExtraError: an ImportError; matplotlib is not installed.
        ParameterError: a ValueError; `range`, `orders` or `points` is invalid.
        NonScalarError: a TypeError; the result is not one number.
        DetachedError, NoResultError: as for `grad`.

    Example:
        >>> axes = function(np.tanh, (-3, 3))
        >>> [line.get_label() for line in axes.get_lines()]
        ['tanh', "tanh'", "tanh''"]
    """
    low, high = _ends(range)
    if not orders or any(isinstance(order, bool) or not isinstance(order, int) or order < 0 for order in orders):
        raise errors.ParameterError(f"orders must be numbers from 0 on, such as (0, 1), but it is {orders!r}.")
    if isinstance(points, bool) or not isinstance(points, int) or points < 2:
        raise errors.ParameterError(f"points must be an integer, 2 or more, but it is {points!r}.")
    x = np.linspace(low, high, points)
    curves = {order: np.array([_value(_derivative(f, order), number) for number in x]) for order in orders}
    name = getattr(f, "__name__", "f")
    ax = _axes(ax, "" if name == "<lambda>" else name)
    for order, values in curves.items():
        ax.plot(x, values, label=_title("f" if name == "<lambda>" else name, order))
    ax.set_xlabel("x")
    ax.legend()
    return ax


def _ends(range: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in range)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise errors.ParameterError(f"range must be a pair of numbers, the smaller one first, but it is {range!r}.")
    return low, high


def _derivative(f: Callable[[Any], Any], order: int) -> Callable[[Any], Any]:
    return _derivative(grad(f), order - 1) if order else f


def _value(f: Callable[[Any], Any], x: float) -> float:
    value = np.asarray(f(x))
    if value.shape != () or value.dtype.kind not in "biuf":
        raise errors.NonScalarError(
            f"plot.function draws functions with a real scalar result, and at {x} it has shape "
            f"{value.shape} and dtype {value.dtype}."
        )
    return float(value)


def _title(name: str, order: int) -> str:
    if order <= 3:
        return name + "'" * order
    return f"{name}⁽{''.join('⁰¹²³⁴⁵⁶⁷⁸⁹'[int(digit)] for digit in str(order))}⁾"


def pattern(plan: SparsePlan, ax: Any = None) -> Any:
    """Draw the elements of a sparse matrix of derivatives; elements of one color are computed together.

    Args:
        plan: a plan from the method `plan` of `fgrad.sparse_jacobian` or `fgrad.sparse_hessian`.
        ax: the axes of matplotlib to draw into; by default those of a new figure.

    Returns:
        The axes.

    Raises:
        MissingExtraError: an ImportError; matplotlib is not installed.
        ParameterError: a ValueError; `plan` is not a plan.

    Example:
        >>> import fgrad as fg
        >>> axes = pattern(fg.sparse_jacobian(np.diff).plan(np.ones(6)))
        >>> axes.get_title()
        '5 x 6, 10 elements, 2 colors'
    """
    if not isinstance(plan, SparsePlan):
        raise errors.ParameterError(
            f"plot.pattern draws a plan, but the argument is {plan!r:.100}.\nWrite fg.sparse_jacobian(f).plan(x)."
        )
    rows, columns = plan.shape
    ax = _axes(ax, f"{rows} x {columns}, {plan.pattern.nnz} elements, {plan.count} color{'s' * (plan.count != 1)}")
    found = plan.pattern.tocoo()
    colors = plan.colors[found.row if plan.mode == "reverse" else found.col]
    size = max(280 / max(rows, columns, 8), 1.5) ** 2  # marker size in points
    ax.scatter(
        found.col, found.row, size, colors, marker="s", cmap="tab10" if plan.count <= 10 else "viridis", linewidths=0
    )
    ax.set(xlabel="input", ylabel="result", xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), aspect="equal")
    return ax
