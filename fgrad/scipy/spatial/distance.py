"""Distances between points, as in `scipy.spatial.distance`, differentiable in the points and in all weights.

    cdist, pdist, squareform    distances between all points of two sets, or of one; conversion of the latter
    euclidean, sqeuclidean, cityblock, chebyshev, minkowski, cosine, correlation, canberra, braycurtis,
    mahalanobis, seuclidean, jensenshannon    between two points

Where points coincide a distance has a kink, and the derivative is the subgradient of least norm: 0. Distances
between sets of booleans, such as `jaccard`, are SciPy's.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.spatial.distance as scipys

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.ops.norms import absolute_power
from fgrad.ops.tracing import first_example
from fgrad.scipy import _special as special
from fgrad.scipy._absent import absent
from fgrad.scipy._plain import differentiates
from fgrad.scipy._reals import real_array
from fgrad.scipy.spatial._pairs import lengths, over_length
from fgrad.typing import Array, ArrayLike, Operand

__all__ = [
    "braycurtis", "canberra", "cdist", "chebyshev", "cityblock", "correlation", "cosine", "euclidean",
    "jensenshannon", "mahalanobis", "minkowski", "pdist", "seuclidean", "sqeuclidean", "squareform",
]  # fmt: skip

_F = TypeVar("_F", bound=Callable[..., Any])

__dir__ = __all__.copy

# Two points


def _vector(x: ArrayLike) -> Any:
    """Return a point in its own precision, as SciPy computes some distances; integers become doubles."""
    x = as_array(x)
    return x if x.dtype.kind in "fc" else x.astype(np.float64)


def _points(x: ArrayLike) -> Any:
    """Return points in double precision, as SciPy computes the other distances."""
    return real_array(x, "a distance of scipy.spatial").astype(np.float64)


def _weight(w: Array) -> Any:
    return None if w is None else _points(w)


def _matrix(x: Array) -> Array:
    return np.atleast_2d(as_array(x))


def _plain(x: Array | float) -> Any:
    return x


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "w": _weight, "V": _vector, "VI": _matrix, "p": _plain, "centered": _plain
}  # fmt: skip
"""How options of distances become arrays."""

_FORMULAS: dict[str, tuple[str, Callable[..., Any]]] = {}
"""The names and formulas of the distances, by these names and SciPy's aliases."""

_FUNCTIONS: list[Callable[..., Any]] = []


def _enter(function: Callable[..., Any], formula: Callable[..., Any], aliases: str) -> None:
    name = function.__name__
    _FORMULAS.update(dict.fromkeys((name, *aliases.split()), (name, formula)))
    _FUNCTIONS.append(function)


def _checked(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Check arguments by SciPy's function, with its errors; return its conversion of them, or of one example."""
    return function(*map(_example, args), **{name: _example(x) for name, x in keywords.items()})


def _example(x: ArrayLike) -> Any:
    return None if x is None else first_example(as_array(x))


_OF_TWO_POINTS = """
Args:
    u, v: arrays with one axis.
    w: a weight for each coordinate.

Returns:
    A number.

Raises:
    ValueError: SciPy's; an array has several axes, or a weight is negative.
"""


def _distance(aliases: str = "", precision: str = "own") -> Callable[[_F], _F]:
    """Make of a formula the function of two points that SciPy has by its name, and enter it for all points of sets.

    The formula is for arrays of points along the last axis, which broadcast.

    Args:
        aliases: SciPy's other names of the distance, for `cdist` and `pdist`.
        precision: in which SciPy computes with two points: "own", "double", or "result" for that of its result, which
            depends on SciPy's version.
    """

    def enter(formula: Callable[..., Any]) -> Any:
        scipys_own, names = getattr(scipys, formula.__name__), list(inspect.signature(formula).parameters)[2:]

        @differentiates(scipys_own, _OF_TWO_POINTS)
        @functools.wraps(formula)
        def between(u: Any, v: Any, *given: Operand, **named: Any) -> Any:
            result = _checked(scipys_own, u, v, *given, **named)
            is_double = precision == "double" or (precision == "result" and np.result_type(result) == np.float64)
            point = _points if is_double else _vector
            options = dict(zip(names, given, strict=False), **named) if given or named else {}
            return formula(point(u), point(v), **{name: _CONVERSIONS[name](x) for name, x in options.items()})

        _enter(between, formula, aliases)
        return between

    return enter


def _weighted(terms: Array, w: Any) -> Any:
    return np.sum(terms if w is None else terms * w, -1)


def _root(x: Array) -> Array:
    """Return the square root, with the derivative 0 at 0."""
    zero = np.equal(x, 0)
    return np.where(zero, 0.0, np.sqrt(np.where(zero, 1.0, x)))


def _length(difference: Array, w: Any) -> Any:
    return np.linalg.norm(difference, axis=-1) if w is None else _root(_weighted(difference * difference, w))


def _largest(difference: Array, w: Array | None) -> Any:
    size = np.abs(difference)
    return np.max(size if w is None else np.where(np.greater(w, 0), size, 0.0), -1)


def _cosine_distance(u: Array, v: Array, w: Array | None) -> Any:
    return 1 - _weighted(u * v, w) / np.sqrt(_weighted(u * u, w) * _weighted(v * v, w))


@_distance("euclid eu e", precision="result")
def euclidean(u: ArrayLike, v: Any, w: ArrayLike | None = None) -> Any:
    """Return the Euclidean distance between two points.

    Returns:
        A number; before SciPy 1.18 in double precision.

    Raises:
        ValueError: SciPy's; a weight is negative, or before SciPy 1.18 an array has several axes.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(euclidean)([3.0, 4.0], [0.0, 0.0])
        [Tensor(0.6), Tensor(0.8)]
    """
    return _length(u - v, w)


@_distance("sqe sqeuclid")
def sqeuclidean(u: ArrayLike, v: Any, w: ArrayLike | None = None) -> Any:
    """Return the square of the Euclidean distance.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(sqeuclidean)(np.array([3.0, 4.0]), np.zeros(2))
        Tensor([6., 8.])
    """
    difference = u - v
    return _weighted(difference * difference, w)


@_distance("cblock cb c")
def cityblock(u: ArrayLike, v: Any, w: ArrayLike | None = None) -> Any:
    """Return the sum of absolute coordinate differences.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(cityblock)(np.array([3.0, -4.0, 1.0]), np.array([0.0, 0.0, 1.0]))
        Tensor([ 1., -1.,  0.])
    """
    return _weighted(np.abs(u - v), w)


@_distance("chebychev cheby cheb ch")
def chebyshev(u: ArrayLike, v: Any, w: Any = None) -> Any:
    """Return the largest absolute coordinate difference.

    A coordinate with the weight 0 is ignored, and other weights have no influence.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(chebyshev)(np.array([3.0, -4.0]), np.zeros(2))
        Tensor([ 0., -1.])
    """
    return _largest(u - v, w)


@_distance("mi m pnorm", precision="result")
def minkowski(u: ArrayLike, v: Any, p: Any = 2, w: Any = None) -> Any:
    """Return the distance in a norm.

    Args:
        p: the order of the norm, which may be infinite.

    Raises:
        ValueError: SciPy's; the order is not positive, an array has several axes, or a weight is negative.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(minkowski)(np.array([1.0, 1.0]), np.zeros(2), 3).round(4)
        Tensor([0.63, 0.63])
    """
    if first_example(p) == np.inf:
        return _largest(u - v, w)
    total = _weighted(absolute_power(u - v, p), w)
    none = np.equal(total, 0)
    return np.where(none, 0.0, np.where(none, 1.0, total) ** (1 / p))


@_distance("cos")
def cosine(u: Any, v: Any, w: Any = None) -> Any:
    """Return 1 minus the cosine of the angle between two vectors.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(cosine)(np.array([1.0, 0.0]), np.array([0.0, 2.0]))
        Tensor([ 0., -1.])
    """
    return _cosine_distance(u, v, w)


@_distance("co")
def correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    """Return 1 minus the correlation of two vectors.

    Args:
        centered: whether the means are subtracted; otherwise it is `cosine`.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(correlation)(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 4.0])).round(3)
        Tensor([0., 0., 0.])
    """
    if centered:
        w = None if w is None else w / np.sum(w)
        u, v = (x - (np.mean(x, -1) if w is None else np.sum(x * w, -1))[..., None] for x in (u, v))
    return _cosine_distance(u, v, w)


@_distance(precision="double")
def canberra(u: ArrayLike, v: Any, w: ArrayLike | None = None) -> Any:
    """Return the sum of |u - v| / (|u| + |v|), where 0 / 0 is 0, and NaN is left out.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(canberra)(np.array([3.0, 0.0]), np.array([1.0, 0.0]))
        Tensor([0.125, 0.   ])
    """
    terms = over_length(np.abs(u - v), np.abs(u) + np.abs(v))
    return np.nansum(terms if w is None else terms * w, -1)


def _canberra_of_sets(u: Array, v: Array, w: Array | None = None) -> Any:
    return _weighted(over_length(np.abs(u - v), np.abs(u) + np.abs(v)), w)


_FORMULAS["canberra"] = "canberra", _canberra_of_sets  # where SciPy keeps NaN


@_distance(precision="double")
def braycurtis(u: ArrayLike, v: Any, w: ArrayLike | None = None) -> Any:
    """Return the sum of |u - v| divided by the sum of |u + v|.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(braycurtis)(np.array([3.0, 1.0]), np.array([1.0, 1.0])).round(3)
        Tensor([ 0.111, -0.056])
    """
    return _weighted(np.abs(u - v), w) / _weighted(np.abs(u + v), w)


@_distance("mahal mah")
def mahalanobis(u: ArrayLike, v: Any, VI: ArrayLike) -> Any:  # noqa: N803  # SciPy's name
    """Return the Mahalanobis distance between two points.

    Args:
        VI: the inverse of a covariance, which is differentiated, too.

    Returns:
        A number in double precision.

    Raises:
        ValueError: SciPy's; an array has several axes.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(mahalanobis)(np.array([2.0, 0.0]), np.zeros(2), np.diag([4.0, 1.0]))
        Tensor([2., 0.])
    """
    difference = u - v
    return _root(np.sum(np.matmul(difference, VI) * difference, -1))


@_distance("se s", precision="double")
def seuclidean(u: ArrayLike, v: Any, V: Any) -> Any:  # noqa: N803  # SciPy's name
    """Return the Euclidean distance between two points, each coordinate divided by the root of its variance.

    Args:
        V: a variance for each coordinate, which is differentiated, too.

    Returns:
        A number in double precision.

    Raises:
        TypeError: SciPy's; the number of variances is wrong.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(seuclidean)(np.array([2.0, 0.0]), np.zeros(2), np.array([0.25, 1.0]))
        Tensor([2., 0.])
    """
    return _length(u - v, 1 / V)


def _jensenshannon(u: Array, v: Array, base: Operand | None = None, axis: int = -1, keepdims: bool = False) -> Any:
    # As in SciPy, `axis` counts the axes of each array, and then those of both together.
    u, v = (x / np.sum(x, axis, keepdims=True) for x in (u, v))
    middle = (u + v) / 2
    total = sum(np.sum(special.rel_entr(x, middle), axis, keepdims=keepdims) for x in (u, v))
    if base is not None:  # as in SciPy, which keeps the precision of arrays, but not of single numbers
        total = (total / np.log(base)).astype(total.dtype if total.ndim else np.float64)
    return _root(total / 2)


@differentiates(scipys.jensenshannon)
def jensenshannon(p: Any, q: Any, base: Any = None, *, axis: int = 0, keepdims: bool = False) -> Any:
    """Return the Jensen-Shannon distance between two distributions, which are normalized.

    Args:
        p, q: probabilities, or weights.
        base: the base of the logarithm; None for e.
        axis: the axis of the probabilities.
        keepdims: whether that axis is kept with size 1.

    Returns:
        The distances, one for each pair of distributions.

    Raises:
        ValueError: NumPy's; the arrays do not broadcast.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(jensenshannon)(np.array([0.5, 0.5]), np.array([0.5, 0.5]))
        Tensor([0., 0.])
    """
    return _jensenshannon(_vector(p), _vector(q), base, axis, keepdims)


_enter(jensenshannon, _jensenshannon, "js")

# All points of one set or two


def _formula_of(metric: Any, function: str) -> tuple[str, Callable[..., Any]]:
    """Return the name and the formula of a distance."""
    name = getattr(metric, "__name__", "") if metric in _FUNCTIONS else metric
    if isinstance(name, str) and name.lower() in _FORMULAS:
        return _FORMULAS[name.lower()]
    scipys.cdist(np.zeros((1, 1)), np.zeros((1, 1)), metric)  # raises SciPy's error for an unknown distance
    raise errors.UnsupportedError(
        f"scipy.spatial.distance.{function} with metric={metric!r} has no derivative.\n  at {errors.users_line()}\n"
        f"The differentiable ones are {', '.join(each.__name__ for each in _FUNCTIONS)}, and functions of two points."
    )


def _settled(name: str, points: Array, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a distance, with defaults that are computed from the points."""
    options = {key: value for key, value in options.items() if value is not None}
    if name == "seuclidean":
        options["V"] = np.var(points, axis=0, ddof=1) if "V" not in options else _vector(options["V"])
    if name == "mahalanobis":
        if "VI" not in options:
            options["VI"] = np.linalg.inv(np.cov(points.T)).T if points.shape[1] > 1 else 1 / np.cov(points.T)
        options["VI"] = _matrix(options["VI"])
    return options


def _refuse_out(out: Array | None, function: str) -> None:
    if out is not None:
        raise errors.UnsupportedError(
            f"scipy.spatial.distance.{function} does not write differentiated results into `out`.\n"
            f"  at {errors.users_line()}\nUse the return value."
        )


@differentiates(scipys.cdist)
def cdist(XA: ArrayLike, XB: ArrayLike, metric: object = "euclidean", *, out: Any = None, **kwargs: object) -> Any:  # noqa: N803
    """Return the distances between all points of one set and all of another.

    Args:
        XA, XB: arrays with a point in each row; both are differentiated.
        metric: the name of a distance of this module, or a function of two points.
        out: not supported for traced arrays.
        kwargs: options of the distance, such as `w`, `p`, `V` and `VI`; the latter two are by default
            computed from the points, and differentiated.

    Returns:
        An array in double precision, with a row for each point of `XA`. For Euclidean distances, value, gradient and
        second derivatives need memory for this array, and not for all differences.

    Raises:
        ValueError: SciPy's; the number of axes or coordinates is wrong.
        UnsupportedError: a NotImplementedError; a distance without a derivative, or `out`.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda a: np.sum(cdist(a, [[0.0, 0.0]])))(np.array([[3.0, 4.0], [0.0, 0.0]]))
        Tensor([[0.6, 0.8],
                [0. , 0. ]])
    """
    _refuse_out(out, "cdist")
    a, b = _points(XA), _points(XB)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        scipys.cdist(np.zeros(a.shape), np.zeros(b.shape))  # raises SciPy's error
    if callable(metric) and metric not in _FUNCTIONS:
        return np.stack([np.stack([metric(u, v, **kwargs) for v in b]) for u in a])
    name, formula = _formula_of(metric, "cdist")
    options = _settled(name, np.concatenate([a, b]), kwargs)
    if name.endswith("euclidean") and name != "seuclidean" and not options:
        return lengths(a, b, name == "sqeuclidean")
    return formula(a[:, None], b, **options)


@differentiates(scipys.pdist)
def pdist(X: ArrayLike, metric: object = "euclidean", *, out: Any = None, **kwargs: object) -> Any:  # noqa: N803
    """Return the distances between all pairs of points.

    Args:
        X: an array with a point in each row, which is differentiated.
        metric, out, kwargs: as for `cdist`.

    Returns:
        An array with one axis, in double precision: the distances of the first point from all later ones, then those
        of the second. `squareform` converts it to a matrix.

    Raises:
        ValueError: SciPy's; the number of axes is wrong.
        UnsupportedError: a NotImplementedError; a distance without a derivative, or `out`.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: np.sum(pdist(x)))(np.array([[0.0], [1.0], [3.0]]))
        Tensor([[-2.],
                [ 0.],
                [ 2.]])
    """
    _refuse_out(out, "pdist")
    points = _points(X)
    if points.ndim != 2:
        scipys.pdist(np.zeros(points.shape))  # raises SciPy's error
    first, second = np.triu_indices(points.shape[0], 1)
    if callable(metric) and metric not in _FUNCTIONS:
        return np.stack([metric(points[i], points[j], **kwargs) for i, j in zip(first, second, strict=True)])
    name, formula = _formula_of(metric, "pdist")
    options = _settled(name, points, kwargs)
    if name.endswith("euclidean") and name != "seuclidean" and not options:
        return lengths(points, points, name == "sqeuclidean")[first, second]
    return formula(points[first], points[second], **options)


@differentiates(scipys.squareform)
def squareform(X: ArrayLike, force: str = "no", checks: bool = True) -> Any:  # noqa: N803
    """Convert a matrix of distances to a vector of those of all pairs, or the vector to the matrix.

    Args:
        X: the vector or the matrix, which is differentiated.
        force: "tovector" or "tomatrix", to allow only this conversion.
        checks: whether a matrix must be symmetric, with zeros on its diagonal.

    Returns:
        The other form; the derivative with respect to a matrix is in its upper triangle.

    Raises:
        ValueError: SciPy's; the array is neither.

    Example:
        >>> import fgrad as fg
        >>> fg.jacobian(lambda x: squareform(x)[1])(np.array([3.0, 4.0, 5.0]))
        Tensor([[1., 0., 0.],
                [0., 0., 0.],
                [0., 0., 1.]])
    """
    x = as_array(X)
    options: Any = (force, checks)
    scipys.squareform(first_example(x), *options)
    if x.ndim == 2:
        return x[np.triu_indices(x.shape[0], 1)]
    size = int(np.ceil(np.sqrt(2 * x.size))) if x.size else 1
    place = scipys.squareform(np.arange(x.size)) if x.size else np.zeros((1, 1), np.int64)
    return np.where(np.eye(size, dtype=bool), np.zeros((), x.dtype), np.concatenate([x, np.zeros_like(x[:1])])[place])


if not TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = absent(__name__)
