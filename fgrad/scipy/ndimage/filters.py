"""Image filters: weighted sums of neighbours, and rank filters.

An image is first extended according to the mode, which selects elements, and then the weights
slide along it. Both have exact transposes, so reverse mode is exact for each mode, also if the weights are longer
than the image. The sums are SciPy's.

    slide(image, weights)    sum_k image[i + k] weights[k] along the last axes, without padding
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.ndimage

from fgrad.core.coerce import as_array
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.families import register, sample
from fgrad.ops.padding import pad
from fgrad.ops.patterns import Chain, Step, whole, windowed
from fgrad.scipy._plain import differentiates, family
from fgrad.scipy.ndimage._arguments import (
    ALONG_AN_AXIS,
    ALONG_AXES,
    OF_AN_IMAGE,
    axes_of,
    image_of,
    one_each,
    padding_of,
)
from fgrad.typing import Array, ArrayLike, Axes, Operand

# The primitive


def slide(image: ArrayLike, weights: ArrayLike) -> Any:
    """Return the weighted sums of neighbours, along as many last axes as the weights have."""
    return apply(_slide, (image, weights))


def _valid(image: Array, weights: Array) -> tuple[slice, ...]:
    """Return the range of positions at which the weights are inside of an image."""
    sizes = zip(image.shape[image.ndim - weights.ndim :], weights.shape, strict=True)
    return tuple(slice(size // 2, max(size // 2, whole - (size - 1 - size // 2))) for whole, size in sizes)


def _sums(image: Array, weights: Array) -> Any:
    dtype = np.result_type(image, weights)
    if dtype == np.float16:
        image, weights = image.astype(np.float64), weights.astype(np.float64)  # SciPy accepts no other dtypes
    weights = np.conj(weights)  # SciPy conjugates them again
    if weights.ndim == 1:
        found = scipy.ndimage.correlate1d(image, weights, mode="constant")
    else:
        lead = (1,) * (image.ndim - weights.ndim)
        found = scipy.ndimage.correlate(image, weights.reshape(lead + weights.shape), mode="constant")
    valid: Any = (..., *_valid(image, weights))
    found = found[valid]
    return np.ascontiguousarray(found.astype(np.float16) if dtype == np.float16 else found)


def _spread(ct: Array, weights: Array) -> Any:
    """Return the transpose with respect to the image: the sums of the padded cotangent with reversed weights."""
    ndim = weights.ndim
    around = [(0, 0)] * (ct.ndim - ndim) + [(size - 1, size - 1) for size in weights.shape]
    return slide(np.pad(ct, around), np.flip(weights))


def _pieces(image: Array, shape: tuple[int, ...], sizes: tuple[int, ...]) -> list[Any]:
    """Return the parts of an image that each weight is multiplied with."""
    return [
        image[(..., *(slice(first, first + size) for first, size in zip(place, sizes, strict=True)))]
        for place in np.ndindex(shape)
    ]


def _collected(ct: Array, image: Array, shape: tuple[int, ...]) -> Array:
    """Return the transpose with respect to the weights: for each of them a sum over the image."""
    pieces = _pieces(image, shape, ct.shape[ct.ndim - len(shape) :])
    return np.reshape(np.stack([np.sum(ct * piece) for piece in pieces]), shape)


def _slide_batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
    image, weights = values
    if not mapped[1]:
        return slide(image, weights)
    images = image if mapped[0] else np.broadcast_to(image, (size, *image.shape))
    return np.stack([slide(images[i], weights[i]) for i in range(size)])


def _slide_tangent(tangents: Sequence[Any], ans: Array, image: Array, weights: Array) -> Any:
    of_image, of_weights = tangents
    parts = [] if of_image is ZERO else [slide(of_image, weights)]
    if of_weights is not ZERO:
        parts.append(slide(image, of_weights))
    return sum(parts[1:], parts[0])


def _pattern(step: Step) -> Chain:
    if step.argnum:
        return whole(step)
    sizes = np.shape(step.args[1])
    return windowed(step, dict(enumerate(map(range, sizes), -len(sizes))))


_slide = register(
    Primitive(
        "slide",
        _sums,
        (
            lambda ans, image, weights: lambda ct: _spread(ct, weights),
            lambda ans, image, weights: lambda ct: _collected(ct, image, weights.shape),
        ),
        _slide_tangent,
        _slide_batch,
        samples=tuple(
            sample(*shapes)
            for shapes in (((5,), (3,)), ((2, 4), (2,)), ((3, 1), (1,)), ((3, 4), (2, 3)), ((2, 3, 4), (3, 2)))
        ),
        pattern=_pattern,
    )
)


# Extended images


def _widths(size: int, origin: int) -> tuple[int, int]:
    """Return the extension of an image before and after, for weights of a given size."""
    before = size // 2 + int(origin)
    if not 0 <= before < max(size, 1):
        raise ValueError(f"invalid origin: {origin}, for {size} weights along the axis")
    return before, size - 1 - before


def extended(
    image: Any, axes: Sequence[int], sizes: Sequence[int], modes: object, cval: ArrayLike, origins: Sequence[int]
) -> Any:
    """Return an image extended along one axis after the other, for weights of given sizes."""
    for axis, size, mode, origin in zip(axes, sizes, one_each(modes, len(axes), "mode"), origins, strict=True):
        around = [(0, 0)] * image.ndim
        around[axis] = _widths(size, origin)
        keywords = {"constant_values": cval} if padding_of(mode) == "constant" else {}
        image = pad(image, around, padding_of(mode), **keywords)
    return image


def _along(image: Array, weights: Array, axis: int, mode: str, cval: Operand, origin: int) -> Any:
    """Return the weighted sums of neighbours along one axis."""
    (axis,) = axes_of(axis, image.ndim)
    whole = extended(image, [axis], weights.shape, mode, cval, [origin])
    return np.moveaxis(slide(np.moveaxis(whole, axis, -1), weights), -1, axis)


def _correlated(
    image: Any, weights: Any, axes: Sequence[int], mode: object, cval: Operand, origins: Sequence[int]
) -> Any:
    """Return the weighted sums of neighbours along several axes, those of the weights."""
    if weights.ndim != len(axes):
        raise RuntimeError(f"weights.ndim ({weights.ndim}) must match the number of axes ({len(axes)}): filter weights")
    whole, last = extended(image, axes, weights.shape, mode, cval, origins), tuple(range(-len(axes), 0))
    return np.moveaxis(slide(np.moveaxis(whole, axes, last), weights), last, axes)


def _weights_of(weights: ArrayLike) -> Any:
    weights = as_array(weights)
    return weights if weights.dtype.kind == "c" else weights.astype(np.float64)


def _reversed(weights: Array, origins: Sequence[int]) -> tuple[Any, list[int]]:
    """Return the weights reversed, and their origins."""
    pairs = zip(weights.shape, origins, strict=False)
    return np.flip(weights), [-int(origin) - (size % 2 == 0) for size, origin in pairs]


# Sums of neighbours


@family(scipy.ndimage, ALONG_AN_AXIS, OF_AN_IMAGE)
def _along_one_axis(
    turned: Callable[..., Any],
    /,
    input: ArrayLike,
    weights: Any,
    axis: int = -1,
    output: object = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Correlate along one axis with what a function makes of the weights and their origins."""
    weights = _weights_of(weights)
    if weights.ndim != 1 or weights.shape[0] < 1:
        raise RuntimeError("no filter weights given")
    image = image_of(input, output, turned.__name__)
    weights, (origin,) = turned(weights, [origin])
    return _along(image, weights, axis, mode, cval, origin)


@_along_one_axis
def correlate1d(weights: ArrayLike, origins: Any) -> Any:
    """Return the correlation with weights along one axis.

    Example:
        >>> import fgrad as fg
        >>> fg.jacobian(lambda x: correlate1d(x, [1.0, 2.0, 4.0]))(np.zeros(3))
        Tensor([[3., 4., 0.],
                [1., 2., 4.],
                [0., 1., 6.]])
    """
    return np.conj(weights), origins


@_along_one_axis
def convolve1d(weights: Any, origins: Any) -> Any:
    """Return the convolution with weights along one axis.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: convolve1d(x, [1.0, 2.0, 4.0])[1])(np.zeros(3))
        Tensor([4., 2., 1.])
    """
    return _reversed(weights, origins)


@family(scipy.ndimage, ALONG_AXES, OF_AN_IMAGE)
def _along_several_axes(
    turned: Callable[..., Any],
    /,
    input: ArrayLike,
    weights: ArrayLike,
    output: object = None,
    mode: object = "reflect",
    cval: Operand = 0.0,
    origin: object = 0,
    *,
    axes: Any = None,
) -> Any:
    """Correlate along several axes with what a function makes of the weights and their origins."""
    image, weights = image_of(input, output, turned.__name__), _weights_of(weights)
    axes = axes_of(axes, image.ndim)
    weights, origins = turned(weights, one_each(origin, len(axes), "origin"))
    return _correlated(image, weights, axes, mode, cval, origins)


@_along_several_axes
def correlate(weights: ArrayLike, origins: Any) -> Any:
    """Return the correlation with weights along several axes.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda w: np.sum(correlate(np.eye(3), w, mode="constant")))(np.zeros((1, 2)))
        Tensor([[2., 3.]])
    """
    return np.conj(weights), origins


@_along_several_axes
def convolve(weights: Any, origins: Any) -> Any:
    """Return the convolution with weights along several axes.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: convolve(x, [[1.0, 2.0]])[0, 0])(np.zeros((1, 2)))
        Tensor([[2., 1.]])
    """
    return _reversed(weights, origins)


@differentiates(scipy.ndimage.uniform_filter1d, ALONG_AN_AXIS, OF_AN_IMAGE)
def uniform_filter1d(
    input: ArrayLike,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Return the means of `size` neighbours along one axis.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: uniform_filter1d(x, 2)[0])(np.zeros(3))
        Tensor([1., 0., 0.])
    """
    if size < 1:
        raise RuntimeError("incorrect filter size")
    image = image_of(input, output, "uniform_filter1d")
    return _along(image, np.full(size, 1 / size), axis, mode, cval, origin)


@differentiates(scipy.ndimage.uniform_filter, ALONG_AXES, OF_AN_IMAGE)
def uniform_filter(
    input: ArrayLike,
    size: Any = 3,
    output: Any = None,
    mode: object = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Return the means of neighbours along several axes.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: uniform_filter(x, 3)[0, 0])(np.zeros((1, 3))).round(3)
        Tensor([[0.667, 0.333, 0.   ]])
    """
    image = image_of(input, output, "uniform_filter")
    axes = axes_of(axes, image.ndim)
    columns = [one_each(value, len(axes), name) for name, value in (("size", size), ("mode", mode), ("origin", origin))]
    for axis, count, each, start in zip(axes, *columns, strict=True):
        if count > 1:
            image = uniform_filter1d(image, int(count), axis, None, each, cval, start)
    return image


# Gaussian filters


def _gaussian(sigma: Array, order: int, radius: int) -> Any:
    """Return the weights of a Gaussian filter, or of its derivative, in SciPy's operations."""
    x = np.arange(-radius, radius + 1)
    square = sigma * sigma
    density = np.exp(-0.5 / square * x**2)
    density = density / np.sum(density)
    if order == 0:
        return density
    # With f' = (q' + q p') f, the polynomial q of each next derivative follows; p' = -x / sigma^2.
    coefficients = [1.0] + [0.0] * order
    for _ in range(order):
        risen = [0.0, *(c / -square for c in coefficients[:-1])]
        fallen = [*(k * c for k, c in enumerate(coefficients) if k), 0.0]
        coefficients = [up + down for up, down in zip(risen, fallen, strict=True)]
    polynomial = sum(c * (x**k).astype(np.float64) for k, c in enumerate(coefficients))
    return polynomial * density


_GAUSSIAN = """
Args:
    sigma: the standard deviation in pixels; for several axes one for all, or one for each. It is differentiated, too.
    order: the order of the derivative, likewise; 0 for the smoothed image itself.
    truncate: the radius of the filter in standard deviations.
    radius: the radius in pixels, in place of `truncate`, likewise.
    kwargs: `truncate` and `radius`, as for `gaussian_filter`.
"""


@differentiates(scipy.ndimage.gaussian_filter1d, _GAUSSIAN, ALONG_AN_AXIS, OF_AN_IMAGE)
def gaussian_filter1d(
    input: ArrayLike,
    sigma: Any,
    axis: int = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Any:
    """Return an image smoothed along one axis by a Gaussian, or a derivative of the smoothed image.

    Raises:
        ValueError: SciPy's; the order or the radius is negative.
        DtypeError: a TypeError; the result would have an integer dtype.
        ConcretizationError: a TypeError; `sigma` is batched, and the length of the filter depends on it.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda sigma: gaussian_filter1d([0.0, 1.0, 0.0], sigma)[1])(1.0).round(4)
        Tensor(-0.328)
    """
    reach = int(truncate * sigma + 0.5) if radius is None else radius
    if order < 0 or reach < 0 or int(reach) != reach:
        raise ValueError(f"order must be non-negative, and radius a nonnegative integer: they are {order} and {reach}")
    image = image_of(input, output, "gaussian_filter1d")
    return _along(image, np.flip(_gaussian(as_array(sigma) * 1.0, order, int(reach))), axis, mode, cval, 0)


@differentiates(scipy.ndimage.gaussian_filter, _GAUSSIAN, ALONG_AXES, OF_AN_IMAGE)
def gaussian_filter(
    input: ArrayLike,
    sigma: ArrayLike,
    order: Any = 0,
    output: object = None,
    mode: object = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
    axes: Axes = None,
) -> Any:
    """Return an image smoothed by a Gaussian along several axes, or a derivative of the smoothed image.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: gaussian_filter(x, 1.0, radius=1)[0, 0])(np.zeros((1, 2))).round(4)
        Tensor([[0.7259, 0.2741]])
    """
    image = image_of(input, output, "gaussian_filter")
    axes = axes_of(axes, image.ndim)
    given = (("sigma", sigma), ("order", order), ("mode", mode), ("radius", radius))
    columns = [one_each(value, len(axes), name) for name, value in given]
    for axis, width, power, each, reach in zip(axes, *columns, strict=True):
        if width > 1e-15:
            image = gaussian_filter1d(image, width, axis, power, None, each, cval, truncate, radius=reach)
    return image


# Derivatives of images


_OF_DIFFERENCES = """
Args:
    axis: the axis of the differences.
"""


@family(scipy.ndimage, _OF_DIFFERENCES, ALONG_AXES, OF_AN_IMAGE)
def _difference(
    weights: Callable[[], list[float]],
    /,
    input: ArrayLike,
    axis: int = -1,
    output: object = None,
    mode: object = "reflect",
    cval: Operand = 0.0,
) -> Any:
    """Return the differences along one axis, and the weighted sums along all others."""
    image = image_of(input, output, weights.__name__)
    (axis,) = axes_of(axis, image.ndim)
    modes = one_each(mode, image.ndim, "mode")
    found = correlate1d(image, [-1, 0, 1], axis, None, modes[axis], cval)
    for other in range(image.ndim):
        if other != axis:
            found = correlate1d(found, weights(), other, None, modes[other], cval)
    return found


@_difference
def sobel() -> list[float]:
    """Return the Sobel filter of an image along an axis.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: sobel(x)[1])(np.zeros(3))
        Tensor([-1.,  0.,  1.])
    """
    return [1.0, 2.0, 1.0]


@_difference
def prewitt() -> list[float]:
    """Return the Prewitt filter of an image along an axis.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: prewitt(x)[1])(np.zeros(3))
        Tensor([-1.,  0.,  1.])
    """
    return [1.0, 1.0, 1.0]


@differentiates(scipy.ndimage.laplace, ALONG_AXES, OF_AN_IMAGE)
def laplace(
    input: ArrayLike, output: Any = None, mode: object = "reflect", cval: Any = 0.0, *, axes: Any = None
) -> Any:
    """Return the Laplacian of an image, by second differences.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: laplace(x)[1])(np.zeros(3))
        Tensor([ 1., -2.,  1.])
    """
    image = image_of(input, output, "laplace")
    axes = axes_of(axes, image.ndim)
    modes = one_each(mode, len(axes), "mode")
    return sum(correlate1d(image, [1, -2, 1], axis, None, each, cval) for axis, each in zip(axes, modes, strict=True))


@family(scipy.ndimage, _GAUSSIAN, ALONG_AXES, OF_AN_IMAGE)
def _of_derivatives(
    combined: Callable[[Callable[[int, bool], list[Any]]], Any],
    /,
    input: ArrayLike,
    sigma: ArrayLike,
    output: object = None,
    mode: object = "reflect",
    cval: Operand = 0.0,
    *,
    axes: Axes = None,
    **kwargs: Any,
) -> Any:
    """Combine the derivatives of a smoothed image along each of several axes.

    They are a function of their order, and of whether the image is smoothed along all axes, or along these alone. As in
    SciPy, the mode of an axis holds for all axes while the derivative along this one is taken.
    """
    image = image_of(input, output, combined.__name__)
    axes = axes_of(axes, image.ndim)
    modes = one_each(mode, len(axes), "mode")

    def derivatives(order: int, along_all: bool) -> list[Any]:
        smoothed = tuple(range(image.ndim)) if along_all else axes
        orders = [[order * (each == axis) for each in smoothed] for axis in axes]
        return [
            gaussian_filter(image, sigma, each, None, own, cval, axes=smoothed, **kwargs)
            for each, own in zip(orders, modes, strict=True)
        ]

    return combined(derivatives) if axes else image


@_of_derivatives
def gaussian_laplace(derivatives: Callable[[int, bool], list[Any]]) -> Any:
    """Return the Laplacian of a smoothed image.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: gaussian_laplace(x, 1.0, radius=1)[0])(np.zeros(2)).round(4)
        Tensor([-0.4519,  0.    ])
    """
    return sum(derivatives(2, False))


@_of_derivatives
def gaussian_gradient_magnitude(derivatives: Callable[[int, bool], list[Any]]) -> Any:
    """Return the norm of the gradient of a smoothed image.

    Where the gradient is 0 the derivative of its norm is 0, too.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: gaussian_gradient_magnitude(x, 1.0)[1])(np.array([0.0, 1.0, 3.0])).round(3)
        Tensor([-0.349,  0.   ,  0.349])
    """
    total = sum(part * part for part in derivatives(1, True))
    zero = np.equal(total, 0)
    return np.where(zero, 0.0, np.sqrt(np.where(zero, 1.0, total)))
