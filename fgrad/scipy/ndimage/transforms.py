"""Geometric transforms of images, by spline interpolation, as in `scipy.ndimage`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.ndimage

from fgrad.ops.elementwise import astype
from fgrad.ops.padding import pad
from fgrad.ops.tracing import raw_array
from fgrad.scipy import _special as special
from fgrad.scipy._plain import differentiates
from fgrad.scipy._reals import real_array
from fgrad.scipy.ndimage._arguments import OF_AN_IMAGE, array_of, axes_of, image_of, one_each, padding_of
from fgrad.scipy.ndimage._splines import Spline, coefficients, gather
from fgrad.typing import Array, ArrayLike, Operand

_AROUND = 12
"""The number of elements by which SciPy extends an image in modes without an exact filter."""


def _check(order: int, mode: str, lowest: int = 0) -> None:
    if not lowest <= order <= 5:
        raise RuntimeError(f"spline order not supported: {order}")
    padding_of(mode)  # raises SciPy's error for an unknown mode


def _along_all(image: Any, order: int, mode: str) -> Any:
    """Return the coefficients of the spline through all elements."""
    for axis in range(image.ndim):
        image = np.moveaxis(coefficients(np.moveaxis(image, axis, -1), order, mode), -1, axis)
    return image


def _prepared(image: Array, places: Array, order: int, mode: str, cval: Operand, prefilter: bool) -> tuple[Any, Any]:
    """Return the coefficients of the spline, and the places relative to the first one."""
    if not prefilter or order < 2:
        return image, places
    if mode in ("nearest", "grid-constant"):
        keywords = {"constant_values": cval} if mode == "grid-constant" else {}
        image = pad(image, _AROUND, "constant" if keywords else "edge", **keywords)
        places = places + _AROUND
    return _along_all(image, order, mode), places


def _at(image: Array, places: Array, order: int, mode: str, cval: Operand, prefilter: bool) -> Any:
    """Return an image at places, whose coordinates are along the first axis, in the dtype of the image."""
    places = real_array(places, "an interpolation in scipy.ndimage").astype(np.float64)
    c, places = _prepared(image, places, order, mode, cval, prefilter)
    spline = Spline(tuple(c.shape), order, mode, (0,) * c.ndim)
    found = gather(c, places, spline)
    if mode in ("constant", "grid-constant") and not (isinstance(cval, (int, float)) and cval == 0):
        found = found + cval * (1 - gather(np.ones(c.shape), places, spline))
    return astype(found, image.dtype)


def _grid(shape: Any) -> Any:
    """Return the coordinates of all elements of an array."""
    return np.stack(np.meshgrid(*(np.arange(float(size)) for size in shape), indexing="ij"))


def _column(values: Array, ndim: int) -> Array:
    """Return a value for each axis, shaped to be multiplied with coordinates."""
    return np.reshape(values, (-1, *(1,) * ndim))


_COEFFICIENTS = """
Args:
    order: the degree of the spline, 2 to 5; for 0 and 1 the coefficients are the elements.
    output: the dtype of the result.
    mode: the extension of the image.

Raises:
    RuntimeError, ValueError: SciPy's; the order or the mode is invalid.
"""


@differentiates(scipy.ndimage.spline_filter1d, _COEFFICIENTS, OF_AN_IMAGE)
def spline_filter1d(
    input: ArrayLike, order: int = 3, axis: int = -1, output: object = np.float64, mode: str = "mirror"
) -> Any:
    """Return the coefficients of the splines through the elements along an axis.

    Args:
        axis: the filtered axis.
        output: the dtype of the result.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: spline_filter1d(x)[0])(np.zeros(2)).round(3)
        Tensor([ 2., -1.])
    """
    _check(order, mode)
    image = image_of(input, output, "spline_filter1d")
    if order < 2:
        return image
    (axis,) = axes_of(axis, image.ndim)
    return astype(np.moveaxis(coefficients(np.moveaxis(image, axis, -1), order, mode), -1, axis), image.dtype)


@differentiates(scipy.ndimage.spline_filter, _COEFFICIENTS, OF_AN_IMAGE)
def spline_filter(input: ArrayLike, order: int = 3, output: object = np.float64, mode: str = "mirror") -> Any:
    """Return the coefficients of the spline through all elements.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: spline_filter(x)[0, 0])(np.zeros((1, 2))).round(3)
        Tensor([[ 2., -1.]])
    """
    _check(order, mode, lowest=2)
    image = image_of(input, output, "spline_filter")
    return astype(_along_all(image, order, mode), image.dtype)


_BY_SPLINES = """
Args:
    order: the degree of the spline, 0 to 5.
    mode: the extension of the image: "reflect", "constant", "nearest", "mirror", "wrap", or a "grid-" form.
    cval: the value of the extension in the modes "constant" and "grid-constant"; it is differentiated, too.
    prefilter: whether the image contains values rather than the coefficients of `spline_filter`.

Raises:
    RuntimeError: SciPy's; the order, the mode or the number of coordinates is invalid.
    DtypeError: a TypeError; the result would have an integer dtype.
"""


@differentiates(scipy.ndimage.map_coordinates, _BY_SPLINES, OF_AN_IMAGE)
def map_coordinates(
    input: ArrayLike,
    coordinates: ArrayLike,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Return an image interpolated at given places.

    Args:
        coordinates: the places, with a row for each axis of the image; they are differentiated, too: the derivative is
            the spline's, and 0 outside in the mode "constant".

    Returns:
        An array with a value for each place.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: map_coordinates([0.0, 1.0, 4.0], [[x]], order=1)[0])(1.5)
        Tensor(3.)
    """
    _check(order, mode)
    image, places = image_of(input, output, "map_coordinates"), array_of(coordinates)
    if image.ndim < 1 or places.ndim < 2:
        raise RuntimeError("input and output rank must be > 0")
    if places.shape[0] != image.ndim:
        raise RuntimeError(
            f"invalid shape for coordinate array: {places.shape}, for an image of {image.ndim} axes, each with a row"
        )
    return _at(image, places, order, mode, cval, prefilter)


@differentiates(scipy.ndimage.shift, _BY_SPLINES, OF_AN_IMAGE)
def shift(
    input: ArrayLike,
    shift: ArrayLike,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Return a shifted image, with interpolation for fractional shifts.

    Args:
        shift: the shift, along all axes or along each; it is differentiated, too.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda s: shift([0.0, 1.0, 4.0], s, order=1)[2])(0.5)
        Tensor(-3.)
    """
    _check(order, mode)
    image = image_of(input, output, "shift")
    steps = array_of(one_each(shift, image.ndim, "shift"))
    return _at(image, _grid(image.shape) - _column(steps, image.ndim), order, mode, cval, prefilter)


@differentiates(scipy.ndimage.zoom, _BY_SPLINES, OF_AN_IMAGE)
def zoom(
    input: ArrayLike,
    zoom: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Any:
    """Return a resampled image.

    Args:
        zoom: the ratio of the sizes, along all axes or along each. Only the number of elements, an
            integer, depends on it, so it has no derivative.
        grid_mode: whether the edges of the outermost elements are fixed, rather than their centers.

    Returns:
        An array with the scaled number of elements along each axis.

    Example:
        >>> import fgrad as fg
        >>> fg.jacobian(lambda x: zoom(x, 1.5, order=1))(np.zeros(2))
        Tensor([[1. , 0. ],
                [0.5, 0.5],
                [0. , 1. ]])
    """
    _check(order, mode)
    image = image_of(input, output, "zoom")
    factors = one_each(zoom, image.ndim, "zoom")
    sizes = tuple(round(size * factor) for size, factor in zip(image.shape, factors, strict=True))
    if all(factor == 1 for factor in factors) and prefilter:
        return image
    given, wanted = (np.array(each, float) - (not grid_mode) for each in (image.shape, sizes))
    steps = np.divide(given, wanted, out=np.ones(image.ndim), where=wanted != 0)
    middle = 0.5 * grid_mode
    places = (_grid(sizes) + middle) * _column(steps, image.ndim) - middle
    return _at(image, places, order, mode, cval, prefilter)


def _transformation(matrix: Any, offset: Any, ndim: int) -> tuple[Any, Any]:
    """Return a matrix, or its diagonal, and the offset, also from homogeneous coordinates."""
    matrix = real_array(array_of(matrix), "scipy.ndimage.affine_transform").astype(np.float64)
    if matrix.ndim not in (1, 2) or matrix.shape[0] < 1:
        raise RuntimeError(f"no proper affine matrix provided: its shape is {matrix.shape}")
    if matrix.ndim == 2 and matrix.shape[1] == ndim + 1 and matrix.shape[0] in (ndim, ndim + 1):
        expected = [0] * ndim + [1]
        if matrix.shape[0] == ndim + 1 and not np.all(raw_array(matrix)[..., ndim, :] == expected):
            raise ValueError(f"Expected homogeneous transformation matrix, but bottom row was not equal to {expected}")
        return matrix[:ndim, :ndim], matrix[:ndim, ndim]
    if matrix.shape[0] != ndim:
        raise RuntimeError(f"affine matrix has wrong number of rows: {matrix.shape[0]}, for {ndim} axes")
    return matrix, array_of(one_each(offset, ndim, "offset"))


def _affine(matrix: Array, offset: Array, grid: Array) -> Any:
    """Return `matrix @ i + offset` for the elements of a grid, in SciPy's order, since rounding matters."""
    total = _column(offset, len(grid))
    for column, coordinate in zip(np.swapaxes(matrix, 0, 1), grid, strict=True):
        total = total + _column(column, len(grid)) * coordinate
    return total


@differentiates(scipy.ndimage.affine_transform, _BY_SPLINES, OF_AN_IMAGE)
def affine_transform(
    input: ArrayLike,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Any = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Return an image under an affine map: the element at `i` is the value of the image at `matrix @ i + offset`.

    Args:
        matrix: a square matrix, its diagonal, or one for homogeneous coordinates; it is differentiated, too.
        offset: the offset, along all axes or along each; it is differentiated, too.
        output_shape: the shape of the result, by default that of the image.

    Returns:
        An array of this shape.

    Raises:
        RuntimeError, ValueError: SciPy's; the matrix is invalid.

    Example:
        >>> import fgrad as fg
        >>> image = np.array([0.0, 1.0, 4.0, 9.0])
        >>> fg.grad(lambda m: affine_transform(image, [m], order=1)[2])(0.6)
        Tensor(6.)
    """
    _check(order, mode)
    image = image_of(input, output, "affine_transform")
    matrix, offset = _transformation(matrix, offset, image.ndim)
    grid = _grid(image.shape if output_shape is None else tuple(output_shape))
    if matrix.ndim == 2 and matrix.shape[1] != len(grid):
        raise RuntimeError(f"affine matrix has wrong number of columns: {matrix.shape[1]}, for {len(grid)} axes")
    if matrix.ndim == 1:
        places = _column(matrix, len(grid)) * grid + _column(offset, len(grid))
    else:
        places = _affine(matrix, offset, grid)
    return _at(image, places, order, mode, cval, prefilter)


@differentiates(scipy.ndimage.rotate, _BY_SPLINES, OF_AN_IMAGE)
def rotate(
    input: ArrayLike,
    angle: ArrayLike,
    axes: Any = (1, 0),
    reshape: bool = True,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Return an image rotated about its center.

    Args:
        angle: the angle in degrees; it is differentiated, too.
        axes: the two axes of the plane of rotation.
        reshape: whether the result is large enough for the rotated image; otherwise it has the size of the image.

    Returns:
        The rotated image.

    Raises:
        ValueError: SciPy's; the image has only one axis, or the plane is invalid.
        ConcretizationError: a TypeError; `angle` is batched, and the shape of the result depends on it.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda a: rotate(np.eye(3), a, order=1, reshape=False)[0, 1])(10.0).round(4)
        Tensor(0.0022)
    """
    _check(order, mode)
    image = image_of(input, output, "rotate")
    if image.ndim < 2 or len(axes) != 2:
        raise ValueError(f"input array should be at least 2D, and axes two values: they are {image.ndim}D and {axes}")
    plane = sorted(axes_of(axes, image.ndim))
    cosine, sine = special.cosdg(angle), special.sindg(angle)
    matrix = np.stack([np.stack([cosine, sine]), np.stack([-sine, cosine])])
    sizes = np.array([image.shape[axis] for axis in plane])
    rows, columns = sizes
    shape = sizes
    if reshape:
        corners = matrix @ np.array([[0.0, 0.0, rows, rows], [0.0, columns, 0.0, columns]])
        shape = np.array([int(size + 0.5) for size in np.ptp(corners, axis=1)])
    offset = (sizes - 1) / 2 - matrix @ ((shape - 1) / 2)
    places = _affine(matrix, offset, _grid(shape))
    return _each_plane(image, plane, lambda each: _at(each, places, order, mode, cval, prefilter))


def _each_plane(image: Any, plane: list[int], function: Callable[[Any], Any]) -> Any:
    """Return the results of a function of the planes of an image, in place of the planes."""
    if image.ndim == 2:
        return function(image)
    planes = np.moveaxis(image, plane, (-2, -1))
    lead = planes.shape[:-2]
    found = [function(planes[place]) for place in np.ndindex(lead)]
    whole = np.stack(found)
    return np.moveaxis(np.reshape(whole, (*lead, *whole.shape[1:])), (-2, -1), plane)
