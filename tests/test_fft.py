"""All of `numpy.fft`: every size, axis and normalization, both modes, second order, batches, dtypes."""

import warnings
import weakref

import numpy as np
import pytest
from helpers import grouped, naming
from rows import check_row, identified

import fgrad as fg
from fgrad import errors
from fgrad.core.primitive import FUNCTIONS
from fgrad.core.tensor import Tensor
from fgrad.testing import check_grads

RNG = np.random.default_rng(3)
V = RNG.normal(size=6)
W = RNG.normal(size=5)
M = RNG.normal(size=(3, 4))
C = RNG.normal(size=(2, 3, 4))
Z = RNG.normal(size=6) + 1j * RNG.normal(size=6)
Y = RNG.normal(size=5) + 1j * RNG.normal(size=5)
ZM = RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))
ZC = RNG.normal(size=(2, 3, 4)) + 1j * RNG.normal(size=(2, 3, 4))

ALONG_AN_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
OF_A_PLANE = ["fft2", "ifft2", "rfft2", "irfft2"]
OF_SEVERAL_AXES = ["fftn", "ifftn", "rfftn", "irfftn"]
OF_REAL_SIGNALS = {"rfft", "ihfft", "rfft2", "rfftn"}
"""Those that NumPy refuses complex numbers for."""

NORMS = [None, "backward", "ortho", "forward"]


def signals(name, real, complex):
    """Return the arrays that a transform takes."""
    return [real] if name in OF_REAL_SIGNALS else [real, complex]


def transform(name, *args, **keywords):
    return lambda x: getattr(np.fft, name)(x, *args, **keywords)


ROWS = [
    *(
        (f"{name} of {x.dtype} {x.shape} n={n}", transform(name, n), x)
        for name in ALONG_AN_AXIS
        for size, (real, complex) in {6: (V, Z), 5: (W, Y)}.items()
        for x in signals(name, real, complex)
        for n in (None, size, size - 2, size + 1, size + 4, 1, 2)
    ),
    *(
        (f"{name} of {x.dtype} axis={axis} norm={norm} n={n}", transform(name, n, axis, norm), x)
        for name in ALONG_AN_AXIS
        for x in signals(name, M, ZM)
        for axis, norm, n in (
            (0, "ortho", None), (-2, "forward", 5), (1, "backward", 2), (np.int64(0), None, np.int32(3)),
        )
    ),
    *(
        (f"{name} of {x.dtype} norm={norm}", transform(name, norm=norm), x)
        for name in [*OF_A_PLANE, *OF_SEVERAL_AXES]
        for x in signals(name, M, ZM)
        for norm in NORMS
    ),
    *(
        (f"{name} of {x.dtype} s={s} axes={axes}", transform(name, s, axes, norm), x)
        for name in [*OF_A_PLANE, *OF_SEVERAL_AXES]
        for x in signals(name, C, ZC)
        for s, axes, norm in (
            (None, (0, 1), "ortho"), (None, (2, 0), None), (None, (-1,), "forward"), ((3, 5), (0, 2), None),
            ((-1, 2), (1, 2), "ortho"), ((2, 2), [-1, -3], None), (None, (1, 1), None), ((3, 4), (0, 0), "forward"),
        )
    ),
    *(
        (f"{name} of three axes, {x.dtype}", transform(name), x)
        for name in OF_SEVERAL_AXES
        for x in signals(name, C, ZC)
    ),
    *(
        (f"{name} of {x.shape} axes={axes}", transform(name, axes), x)
        for name in ("fftshift", "ifftshift")
        for x, axes in ((V, None), (W, None), (C, None), (C, 1), (C, (0, -1)), (ZM, [1]))
    ),
    ("there and back", lambda x: np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(W, 6), 6), V),
    ("power spectrum", lambda x: np.abs(np.fft.fft(x)) ** 2, V),
    ("shifted spectrum", lambda x: np.fft.fftshift(np.fft.fft(x * np.fft.fftfreq(5))), Y),
]  # fmt: skip


@pytest.mark.parametrize("cases", grouped(identified(ROWS), lambda name: name.partition(" of ")[0]))
def test_value_and_derivatives(cases):
    for name, f, x in cases:
        with naming(name):
            check_row(f, x)


@pytest.mark.parametrize("name", [*ALONG_AN_AXIS, *OF_A_PLANE, *OF_SEVERAL_AXES, "fftshift", "ifftshift"])
def test_every_transform_has_an_answer(name):
    assert getattr(np.fft, name) in FUNCTIONS


@pytest.mark.parametrize("name", [*ALONG_AN_AXIS, *OF_A_PLANE, *OF_SEVERAL_AXES])
def test_single_precision_stays_single(name):
    x = M.astype(np.float32)
    value, pullback = fg.vjp(getattr(np.fft, name), x)
    assert value.dtype == getattr(np.fft, name)(x).dtype
    assert value.dtype in (np.float32, np.complex64)
    (gradient,) = pullback(np.ones_like(value))
    assert (gradient.dtype, gradient.shape) == (np.float32, (3, 4))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("norm", NORMS)
def test_transposes_of_real_transforms_are_exact(n, norm):
    """The whole Jacobian by reverse mode is the one by forward mode, at the first and last frequency too."""
    x = RNG.normal(size=n)
    z = RNG.normal(size=n // 2 + 1) + 1j * RNG.normal(size=n // 2 + 1)

    def forwards(x):
        spectrum = np.fft.rfft(x, norm=norm)
        return np.concatenate([spectrum.real, spectrum.imag])

    def backwards(parts):
        return np.fft.irfft(parts[: n // 2 + 1] + 1j * parts[n // 2 + 1 :], n, norm=norm)

    for f, point in ((forwards, x), (backwards, np.concatenate([z.real, z.imag]))):
        np.testing.assert_allclose(fg.jacrev(f)(point), fg.jacfwd(f)(point), rtol=1e-13, atol=1e-14)


def test_the_first_and_the_last_frequency_of_a_real_signal_have_no_imaginary_part():
    gradient = fg.grad(lambda z: np.sum(np.fft.irfft(z) * np.arange(4.0)))(np.array([1 + 1j, 2 + 1j, 3 + 1j]))
    assert gradient.numpy()[[0, 2]].imag.tolist() == [0.0, 0.0]
    assert gradient.numpy()[1].imag != 0.0


def test_gradient_of_a_complex_signal_is_the_direction_of_steepest_ascent():
    """The loss |fft(z)|^2 is n |z|^2 (Parseval), whose gradient is 2 n z."""
    gradient = fg.grad(lambda z: np.sum(np.abs(np.fft.fft(z)) ** 2))(Z)
    np.testing.assert_allclose(gradient, 12 * Z, rtol=1e-13)
    hessian = fg.jacobian(fg.grad(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2)))(V)
    np.testing.assert_allclose(hessian, 12 * np.eye(6), atol=1e-12)


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_sample_frequencies_follow_the_spacing(name):
    f = getattr(np.fft, name)
    assert fg.vjp(lambda d: f(5, d), 0.5)[0].tolist() == f(5, 0.5).tolist()
    check_grads(lambda d: f(5, d), (np.array(0.5),))
    check_grads(lambda d: f(8, d=d) ** 2, (np.array(0.5),))


def test_third_order():
    def f(x):
        return np.sum(np.abs(np.fft.rfft(x)) ** 3)

    check_grads(f, (V,), order=3)


@pytest.mark.parametrize(("norm", "n"), [("nonsense", 4), (None, 0), (None, -1)])
@pytest.mark.parametrize("name", ALONG_AN_AXIS)
def test_what_numpy_refuses(name, norm, n):
    with pytest.raises(ValueError, match="Invalid n") as numpys:
        getattr(np.fft, name)(V, n, norm=norm)
    with pytest.raises(ValueError, match="Invalid n") as ours:
        fg.grad(lambda x: np.sum(np.abs(getattr(np.fft, name)(x, n, norm=norm))))(V)
    assert str(ours.value).replace(" ", "") == str(numpys.value).replace(" ", "")
    with pytest.raises(ValueError, match="Invalid n"):
        fg.vmap(lambda x: getattr(np.fft, name)(x, n, norm=norm))(M)


@pytest.mark.parametrize("name", ALONG_AN_AXIS)
def test_an_axis_that_is_not_there(name):
    """Under `vmap` the axis of the examples is none of the function's."""
    for axis in (1, -2):
        with pytest.raises(IndexError, match="tuple index out of range"):
            fg.vmap(lambda x, axis=axis: getattr(np.fft, name)(x, axis=axis))(M)
        with pytest.raises(np.exceptions.AxisError, match=f"axis {axis} is out of bounds for array of dimension 1"):
            fg.vmap(lambda x, axis=axis: getattr(np.fft, name)(x, 4, axis))(M)


@pytest.mark.parametrize("name", sorted(OF_REAL_SIGNALS))
def test_real_transforms_refuse_complex_signals(name):
    with pytest.raises(TypeError, match="rfft_n_even"):
        fg.vjp(getattr(np.fft, name), ZM)


def test_sizes_and_axes_must_match():
    for name in (*OF_A_PLANE, *OF_SEVERAL_AXES):
        with pytest.raises(ValueError, match="s has 2 sizes for 1 axes"):
            fg.vjp(lambda x, name=name: getattr(np.fft, name)(x, (2, 2), (0,)), M)


@pytest.mark.parametrize("name", OF_SEVERAL_AXES)
@pytest.mark.parametrize(("s", "axes"), [((2, 3), None), ((None, 3), (0, 1)), ((3, None), (0, 1))])
def test_deprecated_forms_warn_and_work(name, s, axes):
    f = transform(name, s, axes)
    with warnings.catch_warnings(action="ignore"):
        expected = f(M)
    with pytest.warns(DeprecationWarning, match="is deprecated in NumPy"):
        value = fg.vjp(f, M)[0]
    np.testing.assert_allclose(value, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", [*ALONG_AN_AXIS, *OF_A_PLANE, *OF_SEVERAL_AXES])
def test_no_traced_result_is_written_into_an_array(name):
    f = getattr(np.fft, name)
    with pytest.raises(errors.InPlaceError, match=f"{name} would write a tensor into a plain NumPy array"):
        fg.vjp(lambda x: f(x, out=np.zeros_like(f(M))), M)


@pytest.mark.parametrize("name", [*ALONG_AN_AXIS, *OF_A_PLANE, *OF_SEVERAL_AXES])
def test_a_transform_keeps_no_values_for_the_way_back(name):
    signals = []

    def f(x):
        signal = x * 2.0
        signals.append(weakref.ref(signal._payload))
        return getattr(np.fft, name)(signal)

    value, pullback = fg.vjp(f, M)
    assert signals[0]() is None
    assert pullback(np.ones_like(value))[0].shape == M.shape


def test_tensors_that_nothing_follows():
    assert type(np.fft.fft(Tensor(V))) is Tensor
    np.testing.assert_array_equal(np.fft.fftn(Tensor(M), out=np.empty(M.shape, complex)), np.fft.fftn(M))
