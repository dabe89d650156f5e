"""`fgrad.scipy.ndimage`: its table, SciPy's values and exact transposes in all modes, edges."""

import numpy as np
import pytest
import rows
import scipy.ndimage
import scipy_ndimage_table as table

import fgrad as fg
from fgrad.scipy import ndimage
from fgrad.testing import check_grads

MODES = ("reflect", "grid-mirror", "constant", "grid-constant", "nearest", "mirror", "grid-wrap", "wrap")
RNG = np.random.default_rng(1)
IMAGE = RNG.normal(size=(5, 6))


@pytest.mark.parametrize("row", rows.with_calls(table.ROWS))
def test_every_row(row):
    rows.check_calls(row)


def assert_linear(name, *args, exact=False, **options):
    """The value is SciPy's, and <A x, y> is <x, A' y>."""
    value, pullback = fg.vjp(lambda x: getattr(ndimage, name)(x, *args, **options), IMAGE)
    expected = getattr(scipy.ndimage, name)(IMAGE, *args, **options)
    assert value.shape == expected.shape
    if exact:
        np.testing.assert_array_equal(value.numpy(), expected)
    np.testing.assert_allclose(value.numpy(), expected, rtol=1e-13, atol=2e-14)
    y = RNG.normal(size=expected.shape)
    forward, back = np.sum(expected * y), np.sum(IMAGE * pullback(y)[0].numpy())
    assert abs(forward - back) <= 1e-14 * np.sum(np.abs(expected * y)) + 2e-14


@pytest.mark.parametrize("mode", MODES)
def test_filters_in_every_mode(mode):
    for weights in (table.WEIGHTS, table.WEIGHTS[:2], RNG.normal(size=15)):
        assert_linear("correlate1d", weights, exact=True, axis=0, mode=mode)
        assert_linear("convolve1d", weights, exact=True, mode=mode)
    assert_linear("correlate", table.KERNEL, exact=True, mode=mode)
    assert_linear("convolve", RNG.normal(size=(3, 4)), exact=True, mode=mode, origin=(0, -1))
    assert_linear("gaussian_filter", 1.3, order=(0, 1), mode=mode)
    assert_linear("uniform_filter", 4, mode=mode)
    for name in ("sobel", "prewitt", "laplace"):
        assert_linear(name, mode=mode)


@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("mode", MODES)
def test_splines_in_every_mode(mode, order):
    places = np.array([[0.3, 2.7, -1.2, 5.1, 9.3, -0.3], [1.2, 5.6, 2.2, -4.0, 12.0, 5.2]])
    for prefilter in (True, False):
        assert_linear("map_coordinates", places, exact=True, order=order, mode=mode, prefilter=prefilter)
    assert_linear("affine_transform", table.MATRIX, table.OFFSET, order=order, mode=mode)
    if order > 1:
        assert_linear("spline_filter", order, mode=mode)


@pytest.mark.parametrize("mode", ["constant", "mirror", "grid-wrap"])
def test_transformations(mode):
    for order in (0, 1, 3):
        assert_linear("zoom", 1.7, order=order, mode=mode)
        assert_linear("shift", (0.3, -1.6), order=order, mode=mode)
        assert_linear("affine_transform", [0.9, 0.6], 0.3, order=order, mode=mode)
        for angle in (33.0, 90, 180):
            assert_linear("rotate", angle, order=order, mode=mode)
    assert_linear("zoom", (1.3, 0.6), mode="grid-constant", grid_mode=True)


def test_half_way_between_elements_the_nearest_one_is_scipys():
    places = np.arange(-9, 20) / 2
    for mode in MODES:
        found = fg.jacobian(lambda x, m=mode: ndimage.map_coordinates(x, places[None], order=0, mode=m))(np.zeros(6))
        expected = [scipy.ndimage.map_coordinates(each, places[None], order=0, mode=mode) for each in np.eye(6)]
        np.testing.assert_array_equal(found.numpy().T, expected)


@pytest.mark.parametrize("mode", ["reflect", "mirror", "grid-wrap"])
def test_long_lines_are_filtered_backwards_without_a_matrix(mode):
    x, y = RNG.normal(size=(2, 500))
    for order in (2, 3, 5):
        (back,) = fg.vjp(lambda x, o=order: ndimage.spline_filter1d(x, o, mode=mode), x)[1](y)
        forward = scipy.ndimage.spline_filter1d(x, order, mode=mode)
        assert abs(forward @ y - x @ back.numpy()) <= 1e-14 * np.sum(np.abs(forward * y))


def test_coordinates_have_the_splines_derivative():
    """Of a polynomial that the spline holds, away from the ends; outside of the image it is 0."""
    x = np.arange(40.0)
    for order in (1, 2, 3, 4, 5):
        slope = fg.elementwise_grad(lambda t, o=order: ndimage.map_coordinates(3 * x, t[None], order=o))
        np.testing.assert_allclose(slope(np.array([18.3, 20.0, 21.6])).numpy(), 3, rtol=1e-7)
        np.testing.assert_array_equal(slope(np.array([-0.5, 39.5])).numpy(), 0)
    curve = fg.hessian(lambda t: ndimage.map_coordinates(x * x, t[None, None])[0])(np.array(20.3))
    np.testing.assert_allclose(curve.numpy(), 2, rtol=1e-7)


def test_a_registration_finds_the_shift():
    image = scipy.ndimage.gaussian_filter(np.eye(12), 2.0)
    moved = scipy.ndimage.shift(image, (0.7, -0.4), mode="nearest")

    def residuals(step):
        return np.ravel(ndimage.shift(image, step, mode="nearest") - moved)

    step = np.zeros(2)
    for _ in range(8):
        jacobian = fg.jacobian(residuals)(step).numpy()
        step = step - np.linalg.lstsq(jacobian, np.asarray(residuals(step)), rcond=None)[0]
    np.testing.assert_allclose(step, [0.7, -0.4], atol=1e-10)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, s: ndimage.gaussian_filter1d(x, s, axis=0),
        lambda x, s: ndimage.gaussian_filter(x, (s, 1.1), (0, 1), truncate=2),
        lambda x, s: ndimage.gaussian_laplace(x, s, truncate=2),
        lambda x, s: ndimage.gaussian_gradient_magnitude(x, s, truncate=2),
    ],
)
def test_the_width_of_a_gaussian_filter_is_differentiated(f):
    """As long as the filter keeps its length; a batch of widths would need filters of several lengths."""
    check_grads(f, (IMAGE, np.array(0.83)))
    with pytest.raises(fg.errors.ConcretizationError):
        fg.vmap(lambda s: f(IMAGE, s))(np.array([0.8, 1.4]))


def test_choices_are_scipys():
    footprint = np.array([[1, 1, 0], [0, 1, 1]], dtype=bool)
    for mode in ("reflect", "constant", "nearest", "mirror", "wrap"):
        for options in ({"size": 3}, {"size": (2, 4)}, {"footprint": footprint, "origin": (0, 1)}):
            for name, args in (("maximum_filter", ()), ("minimum_filter", ()), ("median_filter", ())):
                value = fg.vjp(lambda x, f=name, a=args: getattr(ndimage, f)(x, *a, mode=mode, **options), IMAGE)[0]
                np.testing.assert_array_equal(value, getattr(scipy.ndimage, name)(IMAGE, mode=mode, **options))
            for percent in (0, 37, -20, 100):
                value = fg.vjp(lambda x, p=percent: ndimage.percentile_filter(x, p, mode=mode, **options), IMAGE)[0]
                np.testing.assert_array_equal(
                    value, scipy.ndimage.percentile_filter(IMAGE, percent, mode=mode, **options)
                )


def test_a_flat_image_has_a_gradient_of_length_zero():
    found = fg.grad(lambda x: np.sum(ndimage.gaussian_gradient_magnitude(x, 1.0)))(np.ones((4, 4)))
    np.testing.assert_array_equal(found.numpy(), 0)


def test_precision_is_that_of_the_output():
    image = IMAGE.astype(np.float32)
    for output in (None, np.float64):
        value, pullback = fg.vjp(lambda x, o=output: ndimage.gaussian_filter(x, 1.0, output=o), image)
        expected = scipy.ndimage.gaussian_filter(image, 1.0, output=output)
        assert value.dtype == expected.dtype
        np.testing.assert_allclose(value.numpy(), expected, rtol=1e-6)
        assert pullback(np.ones_like(expected))[0].dtype == np.float32


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: ndimage.gaussian_filter(x, 1.0, output=np.empty((5, 6))), fg.errors.UnsupportedError, "`output`"),
        (lambda x: ndimage.sobel(x, output=int), fg.errors.DtypeError, "returns integers"),
        (lambda x: ndimage.correlate1d(x, [1.0], mode="mirorr"), RuntimeError, "mode not supported: 'mirorr'"),
        (lambda x: ndimage.zoom(x, 2.0, mode="mirorr"), RuntimeError, "mode not supported: 'mirorr'"),
        (lambda x: ndimage.zoom(x, 2.0, order=6), RuntimeError, "spline order not supported"),
        (lambda x: ndimage.map_coordinates(x, np.zeros((3, 2))), RuntimeError, "invalid shape for coordinate array"),
        (lambda x: ndimage.correlate(x, [1.0]), RuntimeError, "filter weights"),
        (lambda x: ndimage.correlate1d(x, [1.0, 2.0], origin=2), ValueError, "invalid origin"),
        (lambda x: ndimage.gaussian_filter(x, (1.0, 2.0, 3.0)), RuntimeError, "sequence argument must have length"),
        (lambda x: ndimage.median_filter(x), RuntimeError, "no footprint or filter size provided"),
        (lambda x: ndimage.affine_transform(x, np.eye(3) + 1), ValueError, "bottom row"),
    ],
)
def test_what_is_wrong_is_said(call, error, match):
    with pytest.raises(error, match=match):
        fg.vjp(call, IMAGE)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ndimage.map_coordinates(np.arange(5.0), x[None], order=1),
        lambda x: ndimage.shift(np.arange(5.0), x[0], order=1),
        lambda x: ndimage.affine_transform(np.ones((2, 2)), np.stack([x, x[::-1]])),
    ],
)
def test_complex_places_are_refused(function):
    with pytest.raises(fg.errors.DtypeError, match="takes real numbers"):
        fg.vjp(function, np.array([1.2 + 0.5j, 2.0]))
