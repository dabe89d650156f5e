"""`fgrad.scipy.signal`: SciPy's filters and convolutions on tensors, and their derivatives."""

import re
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.signal
from rows import check_calls, with_calls
from scipy_signal_table import DENOMINATOR, NUMERATOR, ROWS, SIGNAL

import fgrad as fg
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import Tensor
from fgrad.scipy import signal
from fgrad.scipy.signal import convolutions
from fgrad.testing import calls

DIFFERENTIABLE = [row for row in ROWS if row.error is None]
REFUSED = [row for row in ROWS if row.error is not None]


@pytest.mark.parametrize("row", with_calls(DIFFERENTIABLE))
def test_functions_are_differentiated(row):
    check_calls(row)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.names[0])
def test_what_is_not_supported_says_so(row):
    for call in row.calls:
        with pytest.raises(row.error, match=re.escape(row.match)):
            fg.vjp(call.function, *call.points)


# The primitives


@pytest.mark.parametrize("name", ["convolve_axes", "recursive_filter"])
def test_the_ways_of_convolving_agree(name, monkeypatch):
    """Pieces laid out side by side, and sums over shifts where that would take too much memory."""
    for call in calls(PRIMITIVES[name]):
        expected = call.function(*call.arrays)
        with monkeypatch.context() as patch:
            patch.setattr(convolutions, "_LARGE", 0)
            np.testing.assert_allclose(call.function(*call.arrays), expected, rtol=1e-12, atol=1e-14)


def test_a_direct_convolution_of_large_images_takes_little_memory():
    image, edge = np.ones((256, 256)), np.ones((24, 24))  # all pieces side by side would take 280 MB
    tracemalloc.start()
    found = convolutions.window(image, edge, (23, 23), (233, 233))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.all(found == 24 * 24)
    assert peak < 10e6


# Closed forms


def test_derivatives_of_a_convolution_are_shifted_copies():
    found = fg.jacobian(lambda v: signal.convolve(SIGNAL, v))(np.zeros(3))
    expected = np.zeros((9, 3))
    for place in range(3):
        expected[place : place + 7, place] = SIGNAL
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_derivatives_of_a_correlation_with_itself():
    """The sum of squares at lag 0 has the gradient 2 x, and those at all lags together (sum x)**2."""
    at_no_lag = fg.grad(lambda x: signal.correlate(x, x, "valid")[0])
    np.testing.assert_allclose(at_no_lag(SIGNAL), 2 * SIGNAL, rtol=1e-14)
    np.testing.assert_allclose(
        fg.grad(lambda x: np.sum(signal.correlate(x, x)))(SIGNAL), np.full(7, 2 * SIGNAL.sum()), rtol=1e-12
    )


def test_derivatives_of_an_exponential_decay():
    """The response to a pulse is a**n, its derivatives n a**(n - 1) and n (n - 1) a**(n - 2)."""
    n = np.arange(12.0)
    pulse = (n == 0).astype(float)

    def response(a: Any) -> Any:
        return signal.lfilter([1.0], np.stack([1.0, -a]), pulse)

    first, second = fg.jacobian(response), fg.jacobian(fg.jacobian(response))
    np.testing.assert_allclose(first(0.7), n * 0.7 ** (n - 1), rtol=1e-12)
    np.testing.assert_allclose(second(0.7), n * (n - 1) * 0.7 ** (n - 2), rtol=1e-12)


def test_a_filter_in_pieces_is_the_filter_of_the_whole():
    """Values and gradients, where the state that one piece leaves is that in which the next begins."""
    x = np.sin(np.arange(20.0))

    def whole(b: Any, a: Any, x: Any) -> Any:
        return signal.lfilter(b, a, x)

    def in_pieces(b: Any, a: Any, x: Any) -> Any:
        state, parts = np.zeros(2), []
        for begin, end in ((0, 1), (1, 9), (9, 20)):
            part, state = signal.lfilter(b, a, x[begin:end], zi=state)
            parts.append(part)
        return np.concatenate(parts)

    arguments = NUMERATOR, DENOMINATOR, x
    np.testing.assert_allclose(in_pieces(*arguments), whole(*arguments), rtol=1e-12)
    for ours, expected in zip(fg.vjp(in_pieces, *arguments)[1](x), fg.vjp(whole, *arguments)[1](x), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-11)


def test_the_response_to_a_constant_signal_does_not_depend_on_time():
    """Neither does its derivative: that of sum(b) / sum(a)."""

    def response(b: Any, a: Any) -> Any:
        return signal.lfilter(b, a, np.ones(6), zi=signal.lfilter_zi(b, a))[0]

    by_b, by_a = fg.jacobian(response, argnums=(0, 1))(NUMERATOR, DENOMINATOR)
    total_b, total_a = NUMERATOR.sum(), DENOMINATOR.sum()
    np.testing.assert_allclose(by_b, np.full((6, 3), 1 / total_a), rtol=1e-12)
    np.testing.assert_allclose(by_a, np.full((6, 3), -total_b / total_a**2), rtol=1e-12)


def test_a_long_filter_costs_a_few_filters():
    """The gradient is made of filters and convolutions, not of the matrix, which would take 3 GB."""
    x = np.cos(np.arange(20_000.0))
    tracemalloc.start()
    gradients = fg.grad(lambda b, a, x: np.sum(signal.lfilter(b, a, x) ** 2), argnums=(0, 1, 2))(
        NUMERATOR, DENOMINATOR, x
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert all(np.isfinite(each.numpy()).all() for each in gradients)
    assert peak < 40 * x.nbytes


def test_sections_are_the_filter_of_their_products():
    sos = np.array([[0.5, 0.2, -0.3, 1.0, 0.4, 0.2], [0.7, -0.1, 0.3, 1.0, -0.3, 0.1]])

    def multiplied(sos: Any) -> Any:
        b, a = np.convolve(sos[0, :3], sos[1, :3]), np.convolve(sos[0, 3:], sos[1, 3:])
        return signal.lfilter(b, a, SIGNAL)

    ours = fg.jacobian(lambda sos: signal.sosfilt(sos, SIGNAL))(sos)
    np.testing.assert_allclose(ours, fg.jacobian(multiplied)(sos), rtol=1e-11, atol=1e-13)


def test_detrending_is_a_projection():
    for how in ({}, {"type": "constant"}, {"bp": [3]}):
        found = fg.jacobian(lambda x, how=how: signal.detrend(x, **how))(np.zeros(7)).numpy()
        np.testing.assert_allclose(found @ found, found, atol=1e-14)
        np.testing.assert_allclose(found, found.T, atol=1e-14)
        np.testing.assert_allclose(found.sum(0), np.zeros(7), atol=1e-14)


def test_smoothing_reproduces_polynomials_and_differentiates_them():
    t = np.arange(12.0) / 3
    coefficients = np.array([0.3, -1.1, 0.7])

    def smooth(c: Any) -> Any:
        return signal.savgol_filter(np.polyval(c, t), 5, 2, deriv=1, delta=1 / 3)

    np.testing.assert_allclose(smooth(coefficients), 0.6 * t - 1.1, rtol=1e-10)
    expected = np.stack([2 * t, np.ones(12), np.zeros(12)], axis=1)
    np.testing.assert_allclose(fg.jacobian(smooth)(coefficients), expected, atol=1e-12)


def test_the_envelope_of_a_wave():
    t = np.arange(32) * (2 * np.pi / 32)

    def envelope(size: Any) -> Any:
        return np.abs(signal.hilbert(size * np.cos(3 * t)))

    np.testing.assert_allclose(fg.jacobian(envelope)(1.7), np.ones(32), rtol=1e-12)


def test_resampling_a_band_limited_signal_is_exact():
    def sampled(frequency: Any, count: int) -> Any:
        return np.sin(2 * np.pi * (np.arange(count) / count) + frequency)

    found = fg.jacobian(lambda f: signal.resample(sampled(f, 9), 24))(0.3)
    np.testing.assert_allclose(found, fg.jacobian(lambda f: sampled(f, 24))(0.3), atol=1e-14)


# As SciPy


def test_without_a_trace_scipy_answers():
    """In its own types for arrays, and as tensors for tensors."""
    for function, arguments in (
        (signal.convolve, (SIGNAL, [1.0, 2.0])),
        (signal.lfilter, ([1.0], [1.0, -0.5], SIGNAL)),
        (signal.detrend, (SIGNAL,)),
        (signal.hilbert, (SIGNAL,)),
        (signal.savgol_filter, (SIGNAL, 5, 2)),
    ):
        expected = getattr(scipy.signal, function.__name__)(*arguments)
        plain = function(*arguments)
        assert type(plain) is np.ndarray
        np.testing.assert_array_equal(plain, expected)
        boxed = function(*(Tensor(x) if x is SIGNAL else x for x in arguments))
        assert type(boxed) is Tensor
        np.testing.assert_array_equal(boxed, expected)


def test_integers_stay_integers_without_a_trace():
    found = signal.convolve(np.array([1, 2, 3]), np.array([1, 1]))
    assert found.dtype.kind == "i"


def test_empty_arrays_are_empty():
    found = fg.vjp(lambda x: signal.fftconvolve(x, np.zeros(0)), SIGNAL)[0]
    assert found.shape == (0,)


X = np.array([2.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
MISTAKES = [
    lambda m, x: m.convolve(x, x[None]),
    lambda m, x: m.convolve(x, x, mode="most"),
    lambda m, x: m.convolve(x, x, method="quick"),
    lambda m, x: m.convolve(x[:6].reshape(2, 3), x[:6].reshape(3, 2), mode="valid"),
    lambda m, x: m.convolve(x, x[:0], method="direct"),
    lambda m, x: m.correlate(x, x, mode="most"),
    lambda m, x: m.correlate(x, x[None]),
    lambda m, x: m.fftconvolve(x, x[None]),
    lambda m, x: m.fftconvolve(x, x, mode="most"),
    lambda m, x: m.fftconvolve(x[:6].reshape(2, 3), x[:6].reshape(3, 2), axes=1),
    lambda m, x: m.fftconvolve(x[None], x[None], axes=()),
    lambda m, x: m.oaconvolve(x, x[:2], mode="most"),
    lambda m, x: m.convolve2d(x, x),
    lambda m, x: m.convolve2d(x[None], x[None], mode="most"),
    lambda m, x: m.convolve2d(x[None], x[None], boundary="none"),
    lambda m, x: m.correlate2d(x, x),
    lambda m, x: m.lfilter([1.0], [0.0, 1.0], x),
    lambda m, x: m.lfilter([1.0], x * 0, [1.0, 2.0]),
    lambda m, x: m.lfilter([[1.0, 2.0]], [1.0], x),
    lambda m, x: m.lfilter([], [1.0], x),
    lambda m, x: m.lfilter([1.0, 2.0], [1.0, 1.0], x[0]),
    lambda m, x: m.lfilter([1.0, 2.0], [1.0, 0.5], x, zi=x[:2]),
    lambda m, x: m.lfilter([1.0, 2.0], [1.0, 0.5], x, zi=x[None, :1]),
    lambda m, x: m.lfilter(x.astype(np.float16), x.astype(np.float16), x.astype(np.float16)),
    lambda m, x: m.lfilter_zi(x[None], [1.0]),
    lambda m, x: m.filtfilt([1.0], [1.0, 0.5, 0.2], x),
    lambda m, x: m.filtfilt([1.0], [1.0, 0.5], x, padtype="zero"),
    lambda m, x: m.filtfilt([1.0], [1.0, 0.5], x, method="best"),
    lambda m, x: m.sosfilt(x, [1.0]),
    lambda m, x: m.sosfilt(x[None, :6], [1.0]),
    lambda m, x: m.sosfilt([[1, 1, 1, 1, 1, 1]], x, zi=np.ones((1, 3))),
    lambda m, x: m.sosfilt_zi(x),
    lambda m, x: m.sosfiltfilt([[1, 1, 1, 1, 1, 1]], x),
    lambda m, x: m.sosfiltfilt(x, x),
    lambda m, x: m.deconvolve(x[None], x),
    lambda m, x: m.savgol_filter(x, 11, 2),
    lambda m, x: m.savgol_filter(x, 3, 2, mode="best"),
    lambda m, x: m.savgol_filter(x, 3, 5),
    lambda m, x: m.detrend(x, type="cubic"),
    lambda m, x: m.detrend(x, bp=9),
    lambda m, x: m.hilbert(x * 1j),
    lambda m, x: m.hilbert(x, 0),
    lambda m, x: m.hilbert2(x, (1, 2, 3)),
    lambda m, x: m.hilbert2(x, axes=(0, 0)),
    lambda m, x: m.hilbert2(x, axes=(0,)),
    lambda m, x: m.hilbert2(x * 1j),
    lambda m, x: m.resample(x, 3, domain="wave"),
    lambda m, x: m.resample(x, 3, window=np.ones(3)),
    lambda m, x: m.resample(x, 3, window="none"),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_mistakes_get_scipys_errors(number):
    """The same class and text, whether something is traced or not."""
    mistake = MISTAKES[number]
    with pytest.raises((ValueError, NotImplementedError)) as expected:
        mistake(scipy.signal, X)
    for wrong in (lambda x: mistake(signal, x), fg.grad(lambda x: np.sum(mistake(signal, x)))):
        with pytest.raises(expected.type, match=re.escape(str(expected.value))):
            wrong(X)


def test_of_a_batch_of_filters_one_may_be_wrong():
    with pytest.raises(ValueError, match=re.escape("filter coefficient a[0] == 0")):
        fg.vmap(lambda a: signal.lfilter([1.0], a, X))(np.array([[1.0, 0.5], [0.0, 0.5]]))


def test_a_recorded_filter_runs_on_other_values():
    graph = fg.trace(signal.lfilter)(NUMERATOR, DENOMINATOR, SIGNAL)
    other = NUMERATOR[::-1], DENOMINATOR + 0.1, SIGNAL**2
    np.testing.assert_allclose(graph(*other), scipy.signal.lfilter(*other), rtol=1e-12)


INTEGERS = np.array([3, -1, 4, 1, -5, 9])
OF_INTEGERS = [
    lambda m, x: m.resample_poly(INTEGERS, 3, 2, window=x),
    lambda m, x: m.resample_poly(INTEGERS, 3, 2, window=x, padtype="maximum"),
    lambda m, x: m.resample_poly(INTEGERS, 2, 1, cval=x[0]),
    lambda m, x: m.resample_poly(INTEGERS.astype(np.float32), 3, 2, window=x),
    lambda m, x: m.convolve2d(INTEGERS[None], x[None], fillvalue=0.7),
    lambda m, x: m.correlate2d(INTEGERS[:, None], x[:, None], fillvalue=0.7),
    lambda m, x: m.convolve2d(INTEGERS[None].astype(np.float32), x[None], fillvalue=0.7),
]


@pytest.mark.parametrize("number", range(len(OF_INTEGERS)))
def test_signals_of_a_narrower_dtype_do_not_round_what_is_traced(number):
    function, filter_ = OF_INTEGERS[number], np.array([0.3, 0.8, 0.4])
    value, _ = fg.vjp(lambda x: function(signal, x), filter_)
    expected = function(scipy.signal, filter_)
    assert value.dtype == expected.dtype
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    fg.testing.check_grads(lambda x: function(signal, x), (filter_,))


# NaN, empty arrays and dtypes as SciPy's


def check_forward(function, scipys, *points):
    """Compare the value of a differentiated call with SciPy's, dtype included."""
    value, expected = fg.vjp(function, *points)[0], scipys(*points)
    assert (value.shape, value.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(value.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_nonfinite_factor_reaches_only_its_own_products(value):
    x, h = np.arange(1.0, 7.0), np.array([1.0, value, 2.0])
    check_forward(lambda h: signal.upfirdn(h, x, 2, 3), lambda h: scipy.signal.upfirdn(h, x, 2, 3), h)
    rows = np.stack([x, -x])
    check_forward(lambda x: signal.upfirdn(h, x, 3, 2), lambda x: scipy.signal.upfirdn(h, x, 3, 2), rows)
    for name in ("convolve", "correlate"):
        own, scipys = getattr(signal, name), getattr(scipy.signal, name)
        for mode in ("full", "same", "valid"):
            check_forward(lambda x, f=own, m=mode: f(x, h, m, "direct"), lambda x, f=scipys, m=mode: f(x, h, m), x)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_linear_trend_needs_finite_numbers(value):
    x = np.where(np.arange(20) == 5, value, 1.0)
    for module in (scipy.signal, signal):
        for function in (module.detrend, lambda x, m=module: m.csd(x, x, nperseg=8, detrend="linear")[1]):
            with pytest.raises(ValueError, match="infs or NaNs"):
                fg.vjp(function, x) if module is signal else function(x)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 4)])
@pytest.mark.parametrize("name", ["welch", "periodogram", "csd"])
def test_spectra_of_nothing_have_scipys_shape(name, shape):
    def density(module):
        function = getattr(module, name)
        return lambda x: function(x, x)[1] if name == "csd" else function(x)[1]

    check_forward(density(signal), density(scipy.signal), np.ones(shape))


@pytest.mark.parametrize("mode", ["full", "same"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_an_empty_image_has_surroundings(name, mode):
    own, scipys = getattr(signal, name), getattr(scipy.signal, name)
    for shape in ((0, 0), (0, 3), (2, 0)):
        image = np.zeros(shape)
        check_forward(
            lambda v, i=image: own(i, v, mode, fillvalue=2.0),
            lambda v, i=image: scipys(i, v, mode, fillvalue=2.0),
            np.arange(4.0).reshape(2, 2),
        )


@pytest.mark.parametrize("name", ["fftconvolve", "oaconvolve"])
@pytest.mark.parametrize("dtypes", ["bf", "bF", "le", "li"])
def test_transforms_of_integers_have_scipys_precision(name, dtypes):
    own, scipys = getattr(signal, name), getattr(scipy.signal, name)
    first, second = (np.arange(1, 7).astype(dtype) for dtype in dtypes)
    found, expected = fg.vmap(lambda x: own(x, second))(first[None])[0], scipys(first, second)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)  # SciPy transforms in single precision
