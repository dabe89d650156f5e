"""Polynomials in the convention of NumPy's older functions: the coefficient of the highest power comes first.

`polyval`, `roots` and the characteristic polynomial of a matrix are primitives; sums, products, quotients,
derivatives, integrals and fits of polynomials are composed of other operations.

A `numpy.poly1d` may hold traced coefficients: `np.poly1d(c)(x)`, `p * q` and `p.deriv()` are differentiable.
Use `np.polydiv(p.coeffs, q.coeffs)` for a quotient, because `p / q` converts both to plain arrays.
The classes and functions of `numpy.polynomial` convert coefficients to an object array of traced numbers, and
compute with these; fits and roots raise an error that names the alternative. NumPy dispatches two of the functions,
`polyval2d` and `polygrid2d`.

Where the length of a result depends on the values, for example after leading zeros are removed, it is NumPy's.
Under `vmap` and while recording, where values are unknown, leading zeros are kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.reverse import conform
from fgrad.core.tensor import apply
from fgrad.ops.batching import aligned, ndim_of, one_by_one_batch
from fgrad.ops.elementwise import astype
from fgrad.ops.families import register, sample, scale
from fgrad.ops.indexing import values_of
from fgrad.ops.patterns import Chain, Step, elementwise, tied
from fgrad.ops.tracing import answers_traced
from fgrad.typing import Array, ArrayLike, Operand


def _coefficients(p: Any) -> Any:
    """Return coefficients as an array or tensor with at least one axis."""
    p = as_array(p.coeffs if isinstance(p, np.poly1d) else p)
    return p.reshape((1,)) if p.ndim == 0 else p


def _like_arguments(result: Any, *arguments: object) -> Any:
    """Return coefficients, or a `poly1d` of them if one of the arguments is a `poly1d`."""
    return np.poly1d(result) if any(isinstance(each, np.poly1d) for each in arguments) else result


def _value_of(x: Operand, what: str) -> Any:
    """Return the plain array of a tensor, or None where it has no value."""
    try:
        return values_of(x, what)
    except errors.ConcretizationError:
        return None


# Values


def _slopes(p: Array) -> Any:
    """Return the coefficients of the derivative; several polynomials are the columns of an array."""
    powers = np.arange(p.shape[0] - 1, 0, -1).astype(p.real.dtype)
    return p[:-1] * powers.reshape((-1,) + (1,) * (p.ndim - 1))


def _pulled_to_coefficients(ct: Array, x: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return the sums of ct, ct * x, ct * x**2, ..., the last one first."""
    sums = []
    for power in range(shape[0]):
        ct = scale(ct, x) if power else ct
        sums.append(conform(ct, shape[1:], dtype))
    return np.stack(sums[::-1])


def _polyval_tangent(tangents: Sequence[Any], ans: Array, p: Array, x: Array) -> Any:
    t_p, t_x = tangents
    total = ZERO if t_p is ZERO else apply(_polyval, (t_p, x))
    if t_x is not ZERO and p.shape[0] > 1:
        part = scale(t_x, apply(_polyval, (_slopes(p), x)))
        total = part if total is ZERO else total + part
    return total


def _argument_rule(ans: Array, p: Array, x: Array) -> Any:
    return (lambda ct: scale(ct, apply(_polyval, (_slopes(p), x)))) if p.shape[0] > 1 else None


def _coefficients_rule(ans: Array, p: Array, x: Array) -> Callable[[Any], Any]:
    shape, dtype = p.shape, p.dtype
    return lambda ct: _pulled_to_coefficients(ct, x, shape, dtype)


def _polyval_pattern(step: Step) -> Chain:
    if step.argnum:
        return elementwise(step)
    labels = ["power", *range(1 - len(step.shape), 0)]
    return tied(step.shape, labels, step.ans.shape, range(-step.ans.ndim, 0))


_polyval = register(
    Primitive(
        "polyval",
        lambda p, x: np.polyval(p, x)[()],
        (_coefficients_rule, _argument_rule),
        _polyval_tangent,
        broadcasts=True,
        samples=(
            sample((3,), (4,)), sample((4,), ()), sample((1,), (2,)), sample((2,), (2, 3)), sample((3, 2), (4, 2)),
            sample((3, 2), ()), sample((3,), (0,)),
        ),
        pattern=_polyval_pattern,
    )
)  # fmt: skip


def _batched_polyval(values: Sequence[Any], mapped: Sequence[Any], size: int, metadata: Mapping[str, Any]) -> Any:
    p, x = values
    own = ndim_of(p, mapped[0]) - 1
    depth = max(own, ndim_of(x, mapped[1]))
    if mapped[0]:  # the powers stay before the batch axis
        p = np.moveaxis(p, 0, 1)
        p = p.reshape((*p.shape[:2], *(1,) * (depth - own), *p.shape[2:]))
    return apply(_polyval, (p, *aligned((x,), mapped[1:], depth)))


_polyval.batch = _batched_polyval


@answers_traced(np.polyval)
def polyval(p: Array, x: Array) -> Any:
    """Return the values of a polynomial, or its composition with another polynomial."""
    p = as_array(p)
    if isinstance(x, np.poly1d):
        total: Any = 0
        for coefficient in p:
            total = total * x + coefficient
        return total
    x = as_array(x)
    return apply(_polyval, (p, x)) if p.shape[0] else np.zeros_like(x)


@answers_traced(np.vander)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803  # NumPy's name
    """Return the matrix whose columns are powers of `x`."""
    x = as_array(x)
    if x.ndim != 1:
        np.vander(np.zeros(x.shape))  # which raises NumPy's error
    x = astype(x, np.promote_types(x.dtype, int))
    count = x.shape[0] if N is None else N
    if count < 1:
        return np.zeros_like(x, shape=(x.shape[0], count))  # NumPy raises the error for a negative count
    columns = [np.ones_like(x)]
    for _ in range(count - 1):
        columns.append(columns[-1] * x if len(columns) > 1 else x)
    return np.stack(columns if increasing else columns[::-1], axis=1)


# Arithmetic


def _same_length(a1: Any, a2: Any) -> tuple[Any, Any]:
    """Return two coefficient arrays of equal length; the shorter one has zeros in front."""
    a1, a2 = _coefficients(a1), _coefficients(a2)
    length = max(a1.shape[0], a2.shape[0])
    return tuple(  # type: ignore[return-value]
        a if len(a) == length else np.concatenate([np.zeros_like(other, shape=(length - len(a),)), a])
        for a, other in ((a1, a2), (a2, a1))
    )


@answers_traced(np.polyadd)
def polyadd(a1: object, a2: object) -> Any:
    """Return the sum of two polynomials."""
    return _like_arguments(np.add(*_same_length(a1, a2)), a1, a2)


@answers_traced(np.polysub)
def polysub(a1: object, a2: object) -> Any:
    """Return the difference of two polynomials."""
    return _like_arguments(np.subtract(*_same_length(a1, a2)), a1, a2)


def _leading_zeros(p: Any) -> int:
    """Return the number of leading zeros that NumPy removes; the last coefficient is kept."""
    value = _value_of(p, "np.polymul")
    if value is None:
        return 0
    places = np.flatnonzero(value)
    return int(places[0]) if places.size else max(len(value) - 1, 0)


@answers_traced(np.polymul)
def polymul(a1: object, a2: object) -> Any:
    """Return the product of two polynomials, without leading zeros of the factors.

    A zero coefficient has a derivative, so leading zeros are removed from the product only.
    """
    first, second = (x if x.shape[0] else np.zeros(1, x.dtype) for x in (_coefficients(a1), _coefficients(a2)))
    product = np.convolve(first, second)[_leading_zeros(first) + _leading_zeros(second) :]
    return _like_arguments(product, a1, a2)


@answers_traced(np.polydiv)
def polydiv(u: Operand, v: ArrayLike) -> tuple[Any, Any]:
    """Return the quotient and the remainder of a division of polynomials."""
    rest, divisor = _coefficients(u) + 0.0, _coefficients(v) + 0.0
    dtype = np.result_type(rest, divisor)
    rest, degree = astype(rest, dtype), divisor.shape[0] - 1
    steps = max(rest.shape[0] - degree, 0)
    factor = 1.0 / divisor[0]
    quotient = []
    for k in range(steps):
        quotient.append(factor * rest[k])
        reduced = rest[k : k + degree + 1] - quotient[k] * divisor
        rest = np.concatenate([rest[:k], reduced, rest[k + degree + 1 :]])
    remainder = rest[_vanished(rest, steps) :]
    result = np.stack(quotient) if quotient else np.zeros(1, dtype)
    return _like_arguments(result, u, v), _like_arguments(remainder, u, v)


def _vanished(rest: Any, steps: int) -> int:
    """Return the number of leading coefficients of a remainder that are 0, or will become 0; the last is kept."""
    value, count = _value_of(rest, "np.polydiv"), 0
    if value is None:
        return min(steps, len(rest) - 1)
    while count < len(value) - 1 and np.allclose(value[count], 0, rtol=1e-14):
        count += 1
    return count


@answers_traced(np.polyder)
def polyder(p: Any, m: int = 1) -> Any:
    """Return the m-th derivative of a polynomial."""
    if int(m) < 0:
        np.polyder(np.zeros(1), m)  # which raises NumPy's error
    result = _coefficients(p)
    for _ in range(int(m)):
        result = result[:-1] * np.arange(result.shape[0] - 1, 0, -1)
    return _like_arguments(result, p)


@answers_traced(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """Return the m-th integral of a polynomial, with the constants `k`."""
    result, times = _coefficients(p), int(m)
    constants = _coefficients(np.zeros(max(times, 0)) if k is None else k)
    if constants.shape[0] == 1 and times > 1:
        constants = np.broadcast_to(constants, (times,))
    if times < 0 or constants.shape[0] < times:
        np.polyint(np.zeros(1), m, np.zeros(constants.shape))  # which raises NumPy's error
    for place in range(times):
        raised = result / np.arange(result.shape[0], 0, -1)
        result = np.concatenate([raised, constants[place : place + 1]])
    return _like_arguments(result, p)


# Roots. From p(r) = 0 follows dr = -dp(r) / p'(r) (implicit function theorem). A multiple root is not
# differentiable: the rule gives infinity or NaN.


def _roots_rule(ans: Array, p: Array) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        speeds = scale(-ct, 1 / np.polyval(_slopes(p), ans))
        return speeds @ astype(np.vander(ans, p.shape[0]), ans.dtype)  # NumPy's is of double precision

    return pullback


def _roots_tangent(tangents: Sequence[Any], ans: Array, p: Array) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return scale(np.polyval(-tangents[0], ans), 1 / np.polyval(_slopes(p), ans))


def _batched_roots(values: Any, mapped: object, size: int, metadata: object) -> Array:
    (p,) = values
    found = [apply(_roots, (p[i],)) for i in range(size)]
    if len({each.shape for each in found}) > 1:
        raise errors.ShapeError(
            "np.roots under vmap found different numbers of roots, because some of the polynomials have leading "
            f"coefficients that are 0: {sorted({len(each) for each in found})}.\nMap over polynomials of one degree."
        )
    return np.stack(found)


_roots = register(
    Primitive(
        "roots",
        np.roots,
        (_roots_rule,),
        _roots_tangent,
        _batched_roots,
        samples=(sample((2,), domain=(0.5, 2)), sample((3,), domain=(0.5, 2)), sample((4,), domain=(0.5, 2))),
    )
)


@answers_traced(np.roots)
def roots(p: Any) -> Any:
    """Return the roots of a polynomial, as the eigenvalues of its companion matrix."""
    p = _coefficients(p)
    if p.ndim != 1:
        np.roots(np.zeros(p.shape))  # which raises NumPy's error
    return apply(_roots, (p,))


# The coefficients of det(x - A) are polynomials in A. Their derivative is -tr(adj(x - A) dA), and the coefficients
# of the adjugate are M_1 = 1, M_k+1 = A M_k + c_k (Faddeev and LeVerrier, see Gantmacher, The Theory of Matrices,
# chapter IV.4). No eigenvalue is differentiated, so repeated ones do no harm.


def _adjugates(matrix: Array, coefficients: Array) -> Array:
    """Return the coefficients of the adjugate of x - A, one matrix below the other."""
    one = np.eye(matrix.shape[0], dtype=matrix.dtype)
    found: list[Any] = [one]
    for k in range(1, matrix.shape[0]):
        found.append(matrix @ found[-1] + coefficients[k] * one)
    return np.stack(found)


def _characteristic_tangent(tangents: Sequence[Any], ans: Array, matrix: Array) -> Array:
    changes = -np.einsum("ij,kji->k", tangents[0], _adjugates(matrix, ans))
    return np.concatenate([np.zeros_like(changes, shape=(1,)), changes])


_characteristic: Primitive = register(
    Primitive(
        "characteristic_polynomial",
        np.poly,
        (lambda ans, matrix: lambda ct: -np.einsum("k,kij->ji", ct[1:], _adjugates(matrix, ans)),),
        _characteristic_tangent,
        samples=(sample((1, 1)), sample((2, 2)), sample((3, 3))),
    )
)
_characteristic.batch = one_by_one_batch(0)(_characteristic)


@answers_traced(np.poly)
def poly(seq_of_zeros: object) -> Any:
    """Return the polynomial with given roots, or of a square matrix the characteristic polynomial."""
    zeros = _coefficients(seq_of_zeros)
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] and zeros.size:
        return apply(_characteristic, (zeros,))
    if zeros.ndim != 1:
        np.poly(np.zeros(zeros.shape))  # which raises NumPy's error
    if not zeros.size:
        return 1.0
    zeros = astype(zeros, np.mintypecode(zeros.dtype.char))
    nothing = np.zeros_like(zeros[:1])
    result = np.ones_like(zeros[:1])
    for zero in zeros:
        result = np.concatenate([result, nothing]) - np.concatenate([nothing, result * zero])
    return np.real(result) if zeros.dtype.kind == "c" and _are_conjugates(zeros) else result


def _are_conjugates(zeros: Any) -> bool:
    """Return whether complex roots come in conjugate pairs, so that NumPy returns real coefficients."""
    value = _value_of(zeros, "np.poly")
    return value is not None and bool(np.all(np.sort(value) == np.sort(np.conjugate(value))))


# Several variables, the constant coefficient first


def _horner(c: Any, x: Operand) -> Any:
    """Return the values of a polynomial with its coefficients along the first axis of `c`."""
    total = c[-1] + x * 0.0
    for place in range(2, c.shape[0] + 1):
        total = c[-place] + total * x
    return total


@answers_traced(np.polynomial.polynomial.polyval2d)
def polyval2d(x: ArrayLike, y: ArrayLike, c: ArrayLike) -> Any:
    """Return the values of a polynomial of two variables at pairs of numbers."""
    x, y, c = as_array(x), as_array(y), as_array(c)
    if x.shape != y.shape:
        raise ValueError("x, y are incompatible")
    return _horner(_horner(_with_axes(c, x.ndim), x), y)


@answers_traced(np.polynomial.polynomial.polygrid2d)
def polygrid2d(x: Any, y: Any, c: Any) -> Any:
    """Return the values of a polynomial of two variables on a grid."""
    x, y = (each if np.isscalar(each) else as_array(each) for each in (x, y))  # a scalar has no precision of its own
    return _horner(_with_axes(_horner(_with_axes(as_array(c), np.ndim(x)), x), np.ndim(y)), y)


def _with_axes(c: Any, count: int) -> Array:
    return np.reshape(c, (*c.shape, *(1,) * count))


# Fits


@answers_traced(np.polyfit)
def polyfit(
    x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: bool | str = False
) -> Any:
    """Return the least-squares fit of a polynomial to points."""
    x, y = as_array(x) + 0.0, as_array(y) + 0.0
    w = None if w is None else as_array(w) + 0.0
    order = int(deg) + 1
    if deg < 0 or _misfits(x, y, w):
        weights = None if w is None else np.zeros(w.shape)
        np.polyfit(np.zeros(x.shape), np.zeros(y.shape), deg, w=weights)  # which raises NumPy's error
    rcond = x.shape[0] * np.finfo(x.dtype).eps if rcond is None else rcond
    columns, right = np.vander(x, order), y
    if w is not None:
        columns, right = columns * w[:, None], right * (w[:, None] if y.ndim == 2 else w)
    size = np.sqrt(np.sum(columns * columns, axis=0))
    columns = columns / size
    c, residuals, rank, singular = np.linalg.lstsq(columns, right, rcond)
    c = c / (size[:, None] if y.ndim == 2 else size)
    if full:
        return c, residuals, rank, singular, rcond
    if _value_of(rank, "np.polyfit") not in (None, order):
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=4)
    if not cov:
        return c
    covariance = np.linalg.inv(columns.T @ columns) / np.outer(size, size)
    if cov != "unscaled":
        if x.shape[0] <= order:
            raise errors.ParameterError(
                f"np.polyfit with cov=True needs more points than coefficients: {x.shape[0]} points, {order} "
                "coefficients.\nGive more points, or cov='unscaled'."
            )
        scaling = residuals / (x.shape[0] - order)
        return c, covariance * scaling if y.ndim == 1 else covariance[:, :, None] * scaling
    return c, covariance if y.ndim == 1 else covariance[:, :, None]


def _misfits(x: Array, y: Array, w: Array) -> bool:
    """Return whether the fit has no points, or coordinates and weights of incompatible shapes."""
    if x.ndim != 1 or not x.size or y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        return True
    return w is not None and w.shape != x.shape
