"""Digital filters: recursive (IIR) filters, and smoothing by polynomials.

    lfilter, filtfilt           given by the coefficients of a rational transfer function
    sosfilt, sosfiltfilt        given by second-order sections
    lfilter_zi, sosfilt_zi      the initial states for which the step response is constant
    deconvolve                  the quotient of polynomials
    savgol_filter               the polynomial that fits each window best

A recursive filter solves the equations A y = B x with matrices that are lower triangular, and the same along each
diagonal. From dA y + A dy = B dx + dB x follows the tangent, and, with the transpose of A, which is the
same filter run backwards, the cotangents.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.signal

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import aligned
from fgrad.ops.elementwise import astype
from fgrad.ops.families import register, sample
from fgrad.ops.indexing import getitem
from fgrad.ops.padding import pad
from fgrad.ops.patterns import as_einsum
from fgrad.ops.tracing import raw_array
from fgrad.scipy._plain import differentiates
from fgrad.scipy.signal.convolutions import convolve, window
from fgrad.typing import Array, ArrayLike, Operand

# The recursive part of a filter


def _solved(a: Any, u: Any) -> Any:
    """Return y with a[0] y[n] = u[n] - a[1] y[n - 1] - a[2] y[n - 2] - ..., along the last axis."""
    dtype = np.result_type(a, u)
    wide = np.result_type(dtype, np.float32)  # SciPy does not support half precision
    a, u = a.astype(wide, copy=False), u.astype(wide, copy=False)
    if a.ndim == 1:
        return scipy.signal.lfilter(np.ones(1, wide), a, u).astype(dtype, copy=False)
    lead = np.broadcast_shapes(a.shape[:-1], u.shape[:-1])
    a, u = np.broadcast_to(a, (*lead, a.shape[-1])), np.broadcast_to(u, (*lead, u.shape[-1]))
    found = np.empty(u.shape, dtype)
    for place in np.ndindex(lead):
        found[place] = scipy.signal.lfilter(np.ones(1, wide), a[place], u[place])
    return found


def _backwards(a: Array, ct: Array) -> Any:
    """Solve the transposed equations, which start at the end."""
    return apply(_recursive, (a, ct[..., ::-1]))[..., ::-1]


def _coefficients_rule(ans: Array, a: Array, u: Array) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        n = ans.shape[-1]
        return -window(_backwards(a, ct), ans[..., ::-1], (n - 1,), (a.shape[-1],))

    return pullback


def _recursive_tangent(tangents: Sequence[Any], ans: Array, a: Array, u: Array) -> Any:
    moved, total = tangents
    if moved is not ZERO:
        bent = window(ans, moved, (0,), (ans.shape[-1],))
        total = -bent if total is ZERO else total - bent
    return apply(_recursive, (a, total))


_recursive = register(
    Primitive(
        "recursive_filter",
        _solved,
        (_coefficients_rule, lambda ans, a, u: lambda ct: _backwards(a, ct)),
        _recursive_tangent,
        broadcasts=True,
        samples=tuple(
            sample(*shapes, domain=((0.7, 1.3), (-2.0, 2.0)))
            for shapes in (((3,), (5,)), ((2,), (2, 4)), ((4,), (2,)), ((1,), (3,)), ((2, 2), (2, 4)))
        ),
        pattern=as_einsum("a,x->y"),
    )
)
_recursive.batch = lambda values, mapped, size, metadata: apply(_recursive, aligned(values, mapped, 1))


def _response(b: Any, a: Any, x: Any) -> Any:
    """Return a filter's response along the last axis."""
    u = window(x, b / a[:1], (0,), (x.shape[-1],))
    return apply(_recursive, (a / a[:1], u)) if a.shape[0] > 1 else u


def _continued_response(b: Array, a: Array, x: Array, zi: Array) -> tuple[Any, Any]:
    """Return a filter's response along the last axis from an initial state, and the final state.

    A state is the contribution of the past signal to the right-hand sides of the remaining equations.
    """
    b, a = b / a[:1], a / a[:1]
    size, order = x.shape[-1], zi.shape[-1]
    u = window(x, b, (0,), (size + order,)) + widened(zi, size + order)
    y = apply(_recursive, (a, u[..., :size])) if a.shape[0] > 1 else u[..., :size]
    return y, u[..., size:] - window(y, a, (size,), (order,))


def widened(x: Array, size: int) -> Array:
    """Return an array zero-padded to a size of the last axis."""
    missing = size - x.shape[-1]
    return np.concatenate([x, np.zeros_like(x, shape=(*x.shape[:-1], missing))], axis=-1) if missing else x


def _state_fits(zi: Array, x: Array, axis: int, order: int) -> bool:
    """Return whether a state has the shape of a signal, except along the filtered axis."""
    if zi.ndim != x.ndim:
        return False
    wanted = [*x.shape]
    wanted[axis] = order
    axis %= x.ndim
    return all(n == m or (n == 1 and place != axis) for place, (n, m) in enumerate(zip(zi.shape, wanted, strict=True)))


def _as_state(zi: Any, x: Any, axis: int, dtype: object) -> Any:
    """Return a state along the last axis, one for each signal."""
    state = np.moveaxis(zi, axis, -1)
    return astype(np.broadcast_to(state, (*np.moveaxis(x, axis, -1).shape[:-1], state.shape[-1])), dtype)


def _zeros_like_each(*arrays: Any) -> list[Any]:
    """Return arrays with the same shapes and dtypes, for SciPy's checks."""
    return [None if x is None else np.zeros(x.shape, x.dtype) for x in arrays]


_OF_FILTERS = """
Args:
    b, a: the coefficients of the numerator and of the denominator; traced ones are differentiated.
    sos: the six coefficients of each section, the fourth of which is 1; traced ones are differentiated.
    x: the signal, or several; traced ones are differentiated.
    axis: the axis of time.
    padtype, padlen: the kind and length of the extension of the signal at its ends.
"""


@differentiates(scipy.signal.lfilter, _OF_FILTERS)
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Return the response of a digital filter to a signal.

    Args:
        zi: the initial state; traced ones are differentiated.

    Returns:
        The response, and if `zi` is given, the state at the end.

    Raises:
        ValueError: SciPy's; the shapes are incompatible.
        NotImplementedError: SciPy's; the precision is not supported.

    Example:
        >>> import fgrad as fg
        >>> step = np.ones(3)
        >>> fg.jacobian(lambda decay: lfilter([1.0], np.stack([1.0, -decay]), step))(0.5)
        Tensor([0., 1., 2.])
    """
    b, a, x = np.atleast_1d(as_array(b)), np.atleast_1d(as_array(a)), as_array(x)
    zi = None if zi is None else as_array(zi)
    dtype = np.result_type(*(each.dtype for each in (b, a, x, zi) if each is not None))
    fits = x.ndim and b.ndim == a.ndim == 1 and x.size and b.size and a.size and dtype.char in "fdgFDG"
    fits = fits and (zi is None or _state_fits(zi, x, axis, max(b.size, a.size) - 1))
    if not fits or not -x.ndim <= axis < x.ndim or (a.size > 1 and np.any(raw_array(a[0]) == 0)):
        numerator, _, signal, state = _zeros_like_each(b, a, x, zi)
        return scipy.signal.lfilter(numerator, _first_of(a), signal, axis, state)
    b, a, signal = (astype(each, dtype) for each in (b, a, np.moveaxis(x, axis, -1)))
    if zi is None:
        return np.moveaxis(_response(b, a, signal), -1, axis)
    y, zf = _continued_response(b, a, signal, _as_state(zi, x, axis, dtype))
    return np.moveaxis(y, -1, axis), np.moveaxis(zf, -1, axis)


def _first_of(a: Array) -> Any:
    """Return a plain array of coefficients; for a batch, those of an example with a leading 0 if there is one."""
    examples = raw_array(a)
    if a.ndim != 1 or not a.size:
        return np.zeros(a.shape, a.dtype)
    examples = examples.reshape((-1, a.size))
    return examples[np.argmin(np.abs(examples[:, 0]))]


@differentiates(scipy.signal.lfilter_zi, _OF_FILTERS)
def lfilter_zi(b: Any, a: Any) -> Any:
    """Return the state of a filter for which the response to a constant signal is constant from the start.

    Returns:
        The state for the signal 1.

    Raises:
        ValueError: SciPy's; the shapes are incompatible.

    Example:
        >>> import fgrad as fg
        >>> fg.jacobian(lambda decay: lfilter_zi([1.0], np.stack([1.0, -decay])))(0.5)
        Tensor([4.])
    """
    b, a = np.atleast_1d(as_array(b)), np.atleast_1d(as_array(a))
    while a.ndim == 1 and a.shape[0] > 1 and np.all(raw_array(a[0]) == 0):
        a = a[1:]
    if b.ndim != 1 or a.ndim != 1 or not b.size or not a.size or a.shape == b.shape == (1,):
        return scipy.signal.lfilter_zi(np.ones(b.shape), np.ones(a.shape))  # raises SciPy's error
    b, a = b / a[:1], a / a[:1]
    size = max(b.shape[0], a.shape[0])
    b, a = widened(b, size), widened(a, size)
    # Each element of the state is a sum of future terms: b[j] - a[j] times the response.
    rest = b[1:] - a[1:] * (np.sum(b) / np.sum(a))
    return np.cumsum(rest[::-1])[::-1]


def _extended(x: Array, edge: int, padtype: str) -> Any:
    """Return a signal extended at both ends along the last axis."""
    first, last = x[..., :1], x[..., -1:]
    if padtype == "constant":
        shape = (*x.shape[:-1], edge)
        before, after = np.broadcast_to(first, shape), np.broadcast_to(last, shape)
    else:
        before, after = x[..., edge:0:-1], x[..., -2 : -(edge + 2) : -1]
        if padtype == "odd":
            before, after = 2 * first - before, 2 * last - after
    return np.concatenate([before, x, after], axis=-1)


def _there_and_back(response: Callable[[Any, Any], Any], zi: Array, x: Array, edge: int, padtype: Any) -> Any:
    """Filter along the last axis forwards, then backwards, with initial states that match the signal's ends.

    Args:
        response: maps a signal and a state to the response.
        zi: the state for the signal 1, with time as the last axis and the full number of axes.
        x: the signal.
        edge: the length of the extension at both ends.
        padtype: its kind: "odd", "even", "constant", or None for no extension.
    """
    extended = _extended(x, edge, padtype) if padtype is not None and edge > 0 else x
    for _ in range(2):
        extended = response(extended, zi * extended[..., :1])[..., ::-1]
    return extended[..., edge : extended.shape[-1] - edge] if edge > 0 else extended


def _edge(function: Callable[..., Any], padtype: object, padlen: int | None, x: Array, axis: int, taps: int) -> int:
    """Return the length of the extension of a signal at its ends, or raise SciPy's error."""
    edge = 0 if padtype is None else 3 * taps if padlen is None else padlen
    if padtype not in ("even", "odd", "constant", None) or x.shape[axis] <= edge:
        function(np.zeros(x.shape), axis, padtype, padlen)
    return int(edge)


@differentiates(scipy.signal.filtfilt, _OF_FILTERS)
def filtfilt(
    b: ArrayLike,
    a: ArrayLike,
    x: Any,
    axis: int = -1,
    padtype: Any = "odd",
    padlen: Any = None,
    method: str = "pad",
    irlen: Any = None,
) -> Any:
    """Return the response to a filter that is run forwards and then backwards, which has zero phase.

    Args:
        method: "pad"; "gust" is only for arrays that are not traced.
        irlen: for "gust".

    Returns:
        The response, as from `scipy.signal.filtfilt`.

    Raises:
        MissingRuleError: a TypeError; the method is "gust".
        ValueError: SciPy's; a shape or an option is invalid.

    Example:
        >>> import fgrad as fg
        >>> x = np.sin(np.arange(20.0))
        >>> fg.jacobian(lambda decay: filtfilt([1 - decay], np.stack([1.0, -decay]), x)[10])(0.5).round(3)
        Tensor(0.748)
    """
    if method == "gust":
        raise errors.MissingRuleError("scipy.signal.filtfilt with method='gust'", errors.users_line())
    b, a, x = np.atleast_1d(as_array(b)), np.atleast_1d(as_array(a)), as_array(x)
    if method != "pad" or b.ndim != 1 or a.ndim != 1 or not x.ndim:
        numerator, denominator, signal = _zeros_like_each(b, a, x)
        wrong: Any = method
        return scipy.signal.filtfilt(numerator, denominator, signal, axis, padtype, padlen, wrong)

    def refuse(signal: Array, axis: int, padtype: Any, padlen: Any) -> Any:
        return scipy.signal.filtfilt(np.ones(b.shape), np.ones(a.shape), signal, axis, padtype, padlen)

    edge = _edge(refuse, padtype, padlen, x, axis, max(a.shape[0], b.shape[0]))
    signal = np.moveaxis(x, axis, -1)
    return np.moveaxis(
        _there_and_back(lambda x, zi: lfilter(b, a, x, zi=zi)[0], lfilter_zi(b, a), signal, edge, padtype), -1, axis
    )


# Second-order sections


def _sections_fit(sos: Array) -> bool:
    return sos.ndim == 2 and sos.shape[1] == 6 and bool(np.all(raw_array(sos)[..., 3] == 1))


def _refuse_sections(sos: Array, x: Array, *how: Any) -> Any:
    """Raise SciPy's error for invalid arguments."""
    examples = raw_array(sos)
    if sos.ndim == 2 and sos.shape[1] == 6:
        examples = examples.reshape((-1, *sos.shape))
        examples = examples[np.argmax(np.any(examples[..., 3] != 1, axis=-1))]
    else:
        examples = np.zeros(sos.shape, sos.dtype)
    return scipy.signal.sosfilt(examples, *_zeros_like_each(x), *how)


def _on_a_copy(function: Callable[..., Any]) -> Any:
    """Return a SciPy function that receives a copy of the sections, because SciPy rejects read-only ones."""

    @functools.wraps(function)
    def call(sos: ArrayLike, *args: ArrayLike, **keywords: object) -> Any:
        return function(np.array(sos), *args, **keywords)

    return call


@differentiates(_on_a_copy(scipy.signal.sosfilt), _OF_FILTERS)
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Return the response of a cascade of second-order sections.

    Args:
        zi: the initial states of the sections; traced ones are differentiated.

    Returns:
        The response, and if `zi` is given, the states at the end.

    Raises:
        ValueError: SciPy's; the shapes are incompatible.
        NotImplementedError: SciPy's; the precision is not supported.

    Example:
        >>> import fgrad as fg
        >>> sos = np.array([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]])
        >>> fg.grad(lambda sos: sosfilt(sos, np.ones(3))[2])(sos)
        Tensor([[ 1.75,  1.5 ,  1.  , -2.75, -2.  , -1.  ]])
    """
    sos, x = as_array(sos), as_array(x)
    zi = None if zi is None else as_array(zi)
    dtype = np.result_type(*(each.dtype for each in (sos, x, zi) if each is not None))
    if not x.ndim or not _sections_fit(sos) or dtype.char not in "fdgFDG" or not -x.ndim <= axis < x.ndim:
        return _refuse_sections(sos, x, axis, None if zi is None else np.zeros(zi.shape, zi.dtype))
    if zi is not None:
        wanted = [sos.shape[0], *x.shape]
        wanted[1 + axis % x.ndim] = 2
        if zi.shape != tuple(wanted):
            return _refuse_sections(sos, x, axis, np.zeros(zi.shape, zi.dtype))
    sos, y = astype(sos, dtype), astype(np.moveaxis(x, axis, -1), dtype)
    states = []
    for number in range(sos.shape[0]):
        b, a = sos[number, :3], sos[number, 3:]
        if zi is None:
            y = _response(b, a, y)
        else:
            y, last = _continued_response(b, a, y, _as_state(zi[number], x, axis, dtype))
            states.append(np.moveaxis(last, -1, axis))
    y = np.moveaxis(y, -1, axis)
    return y if zi is None else (y, np.stack(states))


@differentiates(scipy.signal.sosfilt_zi, _OF_FILTERS)
def sosfilt_zi(sos: ArrayLike) -> Any:
    """Return the states of a cascade of sections for which the response to a constant signal is constant.

    Args:
        sos: the six coefficients of each section; traced ones are differentiated.

    Returns:
        The two numbers of each section, for the signal 1.

    Raises:
        ValueError: SciPy's; the shapes are incompatible.

    Example:
        >>> import fgrad as fg
        >>> sos = np.array([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]])
        >>> fg.jacobian(sosfilt_zi)(sos)[0, 0]
        Tensor([[ 1.,  2.,  2., -3., -4., -4.]])
    """
    sos = as_array(sos)
    if sos.ndim != 2 or sos.shape[1] != 6:
        return scipy.signal.sosfilt_zi(np.zeros(sos.shape))
    gain, states = np.ones((), sos.dtype), []
    for number in range(sos.shape[0]):
        b, a = sos[number, :3], sos[number, 3:]
        states.append(gain * lfilter_zi(b, a))
        gain = gain * (np.sum(b) / np.sum(a))
    return np.stack(states)


@differentiates(_on_a_copy(scipy.signal.sosfiltfilt), _OF_FILTERS)
def sosfiltfilt(sos: ArrayLike, x: Any, axis: int = -1, padtype: Any = "odd", padlen: Any = None) -> Any:
    """Return the response to a cascade of sections that is run forwards and then backwards, which has zero phase.

    Returns:
        The response, as from `scipy.signal.sosfiltfilt`.

    Raises:
        ValueError: SciPy's; a shape or an option is invalid.

    Example:
        >>> import fgrad as fg
        >>> sos = np.array([[0.5, 0.0, 0.0, 1.0, -0.5, 0.0]])
        >>> fg.grad(lambda x: sosfiltfilt(sos, x)[10])(np.zeros(20))[9:12].round(3)
        Tensor([0.167, 0.333, 0.167])
    """
    sos, x = as_array(sos), as_array(x)
    if not x.ndim or not _sections_fit(sos):
        return _refuse_sections(sos, x)
    # If the last coefficient of every section's numerator, or denominator, is 0, the filter is shorter.
    coefficients = raw_array(sos)
    ends = [np.all(coefficients[..., place] == 0, axis=tuple(range(coefficients.ndim - 2))) for place in (2, 5)]
    taps = 2 * sos.shape[0] + 1 - min(int(np.sum(end)) for end in ends)

    def refuse(signal: Array, axis: int, padtype: Any, padlen: Any) -> Any:
        chain = np.ones((sos.shape[0], 6))
        for place, end in zip((2, 5), ends, strict=True):
            chain[:, place] = ~end
        return scipy.signal.sosfiltfilt(chain, signal, axis, padtype, padlen)

    edge = _edge(refuse, padtype, padlen, x, axis, taps)
    signal = np.moveaxis(x, axis, -1)
    states = sosfilt_zi(sos).reshape((sos.shape[0], *(1,) * (x.ndim - 1), 2))
    return np.moveaxis(
        _there_and_back(lambda x, zi: sosfilt(sos, x, zi=zi)[0], states, signal, edge, padtype), -1, axis
    )


@differentiates(scipy.signal.deconvolve)
def deconvolve(signal: ArrayLike, divisor: ArrayLike) -> Any:
    """Return the quotient and the remainder of a signal divided by a divisor (inverse convolution).

    Args:
        signal: with one axis; traced ones are differentiated.
        divisor: with one axis; traced ones are differentiated.

    Returns:
        The quotient and the remainder, as from `scipy.signal.deconvolve`.

    Raises:
        ValueError: SciPy's; the shapes are incompatible.

    Example:
        >>> import fgrad as fg
        >>> fg.jacobian(lambda v: deconvolve(np.array([1.0, 3.0, 2.0]), v)[0])(np.array([1.0, 2.0]))
        Tensor([[-1.,  0.],
                [ 1., -1.]])
    """
    signal, divisor = np.atleast_1d(as_array(signal)), np.atleast_1d(as_array(divisor))
    if signal.ndim != 1 or divisor.ndim != 1 or not signal.size or not divisor.size:
        return scipy.signal.deconvolve(np.zeros(signal.shape), np.zeros(divisor.shape))
    if divisor.shape[0] > signal.shape[0]:
        return [], signal
    pulse = np.zeros(signal.shape[0] - divisor.shape[0] + 1)
    pulse[0] = 1
    quotient = lfilter(signal, divisor, pulse)
    return quotient, signal - convolve(divisor, quotient)


# Smoothing by polynomials


def _fitted(count: int, places: Array, degree: int, deriv: int) -> Array:
    """Return the matrix that maps values at 0, 1, ... to a derivative of their polynomial fit at given points."""
    fits = np.polyfit(np.arange(count, dtype=np.float64), np.eye(count), degree)
    for _ in range(deriv):
        fits = fits[:-1] * np.arange(len(fits) - 1, 0, -1)[:, None]
    return np.vander(places, len(fits)) @ fits


_AROUND = {"mirror": "reflect", "nearest": "edge", "wrap": "wrap"}
"""NumPy's names for the modes of extension."""


def _continued(x: Array, before: int, after: int, mode: str, cval: Operand) -> Any:
    """Return a signal extended at both ends along the last axis, with the modes of `scipy.ndimage`."""
    if mode == "constant":
        return pad(x, [(0, 0)] * (x.ndim - 1) + [(before, after)], constant_values=as_array(cval))
    around: Any = _AROUND[mode]
    return getitem(x, (..., np.pad(np.arange(x.shape[-1]), (before, after), around)))


@differentiates(scipy.signal.savgol_filter)
def savgol_filter(
    x: Any,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: Any = 1.0,
    axis: int = -1,
    mode: str = "interp",
    cval: Any = 0.0,
) -> Any:
    """Return a signal smoothed by the polynomial that fits each window best (Savitzky and Golay).

    Args:
        x: the signal, or several; traced ones are differentiated.
        window_length: the number of points in a window.
        polyorder: the degree of the polynomials.
        deriv: the order of the derivative.
        delta: the spacing of the points; a traced one is differentiated.
        axis: the axis of time.
        mode: the treatment of the ends: "interp", "mirror", "nearest", "wrap" or "constant".
        cval: the value of the extension for "constant"; a traced one is differentiated.

    Returns:
        The smoothed signal, as from `scipy.signal.savgol_filter`.

    Raises:
        ValueError: SciPy's; an option is invalid.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: savgol_filter(x, 5, 2)[3])(np.zeros(7)).round(3)
        Tensor([ 0.   , -0.086,  0.343,  0.486,  0.343, -0.086,  0.   ])
    """
    x = as_array(x)
    if mode not in ("interp", "constant", *_AROUND) or (mode == "interp" and window_length > x.shape[axis]):
        wrong: Any = mode
        return scipy.signal.savgol_filter(np.zeros(x.shape), window_length, polyorder, deriv, 1.0, axis, wrong)
    x = x if x.dtype.char in "fd" else astype(np.real(x), np.float64)
    weights = scipy.signal.savgol_coeffs(window_length, polyorder, deriv).astype(x.dtype)
    size, half = x.shape[axis], window_length // 2
    signal = np.moveaxis(x, axis, -1)
    if mode == "interp":
        middle = window(signal, weights, (window_length - 1,), (size - window_length + 1,))
        ends = [
            part @ _fitted(window_length, places, polyorder, deriv).T.astype(x.dtype)
            for part, places in (
                (signal[..., :window_length], np.arange(half)),
                (signal[..., size - window_length :], np.arange(window_length - half, window_length)),
            )
        ]
        first = half - (window_length - 1 - half)
        y = np.concatenate([ends[0], middle[..., first:], ends[1]], axis=-1)
    else:
        before = window_length - 1 - half
        y = window(_continued(signal, before, half, mode, cval), weights, (window_length - 1,), (size,))
    if deriv:
        y = y / delta**deriv
    return np.moveaxis(y, -1, axis)
