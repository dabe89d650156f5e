"""Functions of Hermitian matrices defined by a scalar function: `funm`.

With a = v diag(w) v.H it is f(a) = v diag(f(w)) v.H, and the derivative along directions (Y. Daletskii and S. Krein;
R. Bhatia, "Matrix Analysis" (1997), chapter V.3) is, in the basis of the vectors, a sum over all orders of them,

    df(a; e)_ij      =  f[w_i, w_j] e_ij
    d2f(a; e, g)_ij  =  sum over k of f[w_i, w_k, w_j] (e_ik g_kj + g_ik e_kj)

with divided differences, which are regular for equal values. It is symmetric in the directions; and so is the trace of
its product with one more matrix, so that the transpose of the derivative at `a` is the derivative at `a.T`. The
derivative with respect to a value that `f` closes over is the same matrix function, with the derivative of `f`.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import Tensor, apply
from fgrad.core.tree import flatten
from fgrad.graphs.equations import same_bits
from fgrad.ops.batching import aligned
from fgrad.ops.families import ForEach
from fgrad.ops.matrices import adjoint, transposed
from fgrad.ops.tracing import raw_array, run
from fgrad.rules.closures import Closure, followers
from fgrad.rules.kept import Kept
from fgrad.rules.randomness import RandomStates
from fgrad.scipy.linalg._arguments import (
    SCIPY,
    check_finite_values,
    is_square,
    lapack_dtype,
    of_dtype,
    scipys_error,
)
from fgrad.scipy.linalg._differences import divided_differences
from fgrad.transforms.calls import name_of
from fgrad.transforms.forward import jvp
from fgrad.typing import Array, ArrayLike

_ROUNDING = 1000
"""Number of roundings, relative to the largest element, by which a matrix may differ from its adjoint."""

# The scalar function


@dataclass(frozen=True, repr=False, eq=False)
class _Function:
    """The user's function, with the values that it closes over as parameters.

    Two recordings of one call make two of them, which are equal if they have the same values at the same eigenvalues.
    """

    closure: Closure
    name: str
    at_eigenvalues: Array

    def __eq__(self, other: object) -> bool:
        if type(other) is not _Function:
            return False
        one, another = self.at_eigenvalues, other.at_eigenvalues
        return one.shape == another.shape and one.dtype == another.dtype and same_bits(one, another)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name

    def __call__(self, parameters: Sequence[Any], x: Array) -> Any:
        return self.closure.call(parameters, x)


@dataclass(frozen=True, repr=False)
class _Slope:
    """The derivative of a function with respect to a parameter; the tangent of the latter is the last parameter."""

    function: Callable[..., Any]
    place: int

    def __repr__(self) -> str:
        return f"{self.function!r}'"

    def __call__(self, parameters: Sequence[Any], x: Array) -> Any:
        *own, change = parameters

        def by_parameter(parameter: Array) -> Any:
            return self.function([*own[: self.place], parameter, *own[self.place + 1 :]], x)

        return jvp(by_parameter, (own[self.place],), (change,))[1]


def _derivative(function: Callable[[Any], Any], order: int) -> Callable[[Any], Any]:
    for _ in range(order):
        function = _slope_of(function)
    return function


def _slope_of(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: jvp(function, (x,), (np.ones_like(x),))[1]


def _values(function: Callable[[Any], Any], x: Array) -> Array:
    """Return the values of a function at the elements of a vector, as a plain array."""
    values: Any = function(x)
    values = values.numpy() if type(values) is Tensor else np.asarray(values)
    if values.ndim and values.shape != x.shape:
        raise errors.ShapeError(
            f"the function of funm must return one number for each element of a vector; "
            f"for shape {x.shape} it returned shape {values.shape}."
        )
    # As in SciPy, the result has the precision of the matrix.
    dtype = np.result_type(x.dtype, np.complex64) if values.dtype.kind == "c" else x.dtype
    return np.broadcast_to(values.astype(dtype, copy=False), x.shape)


# The matrix function


def _decomposed(a: Array) -> tuple[Any, Any]:
    """Return the eigenvalues and eigenvectors of Hermitian matrices."""
    sizes = np.max(np.abs(a), axis=(-2, -1), keepdims=True, initial=0)
    if np.any(np.abs(a - adjoint(a)) > _ROUNDING * np.finfo(a.dtype).eps * sizes):
        raise errors.NoDerivativeError(
            "scipy.linalg.funm has a derivative in fgrad for symmetric and Hermitian matrices, and this one is not.\n"
            "expm, logm, sqrtm, fractional_matrix_power and the functions made of them have one for all; of others, "
            "write v @ np.diag(f(w)) @ inv(v) with w, v = eig(a), for eigenvalues that differ."
        )
    return np.linalg.eigh((a + adjoint(a)) / 2)


def _compute(a: Array, *rest: Array, function: Callable[..., Any], order: int) -> Any:
    """Return a function of Hermitian matrices, or its derivative along directions; their number is its order."""
    directions, parameters = rest[:order], rest[order:]
    w, v = _decomposed(a)
    places = [_along(w, axis, order + 1) for axis in range(order + 1)]

    def derivative(number: int, x: Array) -> Any:
        return _values(_derivative(lambda x: function(parameters, x), number), x)

    table = divided_differences(derivative, np.stack(np.broadcast_arrays(*places), axis=-1))
    if not order:
        return (v * table[..., None, :]) @ adjoint(v)
    turned = [adjoint(v) @ direction @ v for direction in directions]
    return v @ _contracted(table, turned) @ adjoint(v)


def _along(w: Array, axis: int, count: int) -> Array:
    """Return the last axis of an array as axis `place` of several."""
    sizes = [1] * count
    sizes[axis] = w.shape[-1]
    return np.reshape(w, (*w.shape[:-1], *sizes))


def _contracted(table: Array, directions: Sequence[Any]) -> Any:
    """Return the sum of the products of a table with the directions, over all permutations of these."""
    letters = string.ascii_letters[: len(directions) + 1]
    pairs = [f"...{first}{last}" for first, last in itertools.pairwise(letters)]
    form = f"...{letters},{','.join(pairs)}->...{letters[0]}{letters[-1]}"
    return sum(np.einsum(form, table, *chosen) for chosen in itertools.permutations(directions))


def _function_of(function: Callable[..., Any], a: Array, directions: Sequence[Any], parameters: Sequence[Any]) -> Any:
    metadata = {"function": function, "order": len(directions)}
    return apply(_funm, (a, *directions, *parameters), metadata)


def _tangent(
    tangents: Sequence[Any], ans: Array, a: Array, *rest: Array, function: Callable[..., Any], order: int
) -> Any:
    directions, parameters = list(rest[:order]), rest[order:]
    total: Any = ZERO
    for place, tangent in enumerate(tangents):
        if tangent is ZERO:
            continue
        if place == 0:
            moved = _function_of(function, a, [*directions, tangent], parameters)
        elif place <= order:
            others = [*directions[: place - 1], tangent, *directions[place:]]
            moved = _function_of(function, a, others, parameters)
        else:
            slope = _Slope(function, place - order - 1)
            moved = _function_of(slope, a, directions, [*parameters, tangent])
        total = moved if total is ZERO else total + moved
    return total


def _rule(
    argnum: int, ans: Array, a: Array, *rest: Array, function: Callable[..., Any], order: int
) -> Callable[[Any], Any]:
    """Return the pullback to the matrix, to one of the directions, or to a parameter."""
    directions, parameters = list(rest[:order]), rest[order:]
    if argnum > order:
        return lambda ct: _parameter_cotangent(ct, a, directions, parameters, function, argnum - order - 1)
    others = directions if argnum == 0 else [*directions[: argnum - 1], *directions[argnum:]]
    return lambda ct: _function_of(function, transposed(a), [*map(transposed, others), ct], parameters)


def _parameter_cotangent(
    ct: Array,
    a: Array,
    directions: Sequence[Any],
    parameters: tuple[Any, ...],
    function: Callable[..., Any],
    place: int,
) -> Any:
    """Return the cotangent of a parameter by its elements; usually it is a single number."""
    own, slope = parameters[place], _Slope(function, place)
    changes = np.eye(own.size, dtype=own.dtype).reshape((own.size, *own.shape))
    found = [np.sum(ct * _function_of(slope, a, directions, [*parameters, change])) for change in changes]
    return np.reshape(np.stack(found), own.shape) if found else np.zeros_like(own)


_funm = Primitive("funm", _compute, ForEach(_rule), _tangent, broadcasts=True)


def _batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
    count = metadata["order"] + 1
    if not any(mapped[count:]):
        return apply(_funm, (*aligned(values[:count], mapped[:count], 2), *values[count:]), metadata)
    # Each example has its own function.
    examples = [[x[i] if own else x for x, own in zip(values, mapped, strict=True)] for i in range(size)]
    return np.stack([apply(_funm, example, metadata) for example in examples])


_funm.batch = _batch

# SciPy's function


class _UsesTraced(Exception):  # noqa: N818  # a discovery, and not an error
    """A function called by SciPy uses a traced value."""


def _scipys(A: Array, func: Callable[..., Any], disp: bool) -> Any:  # noqa: N803
    """Return SciPy's `funm`, as long as the function returns nothing traced."""

    def plainly(x: Array) -> Array:
        values = func(x)
        if followers(flatten(values)[0]):
            raise _UsesTraced
        return np.asarray(values)

    return SCIPY.funm(A, plainly, disp)


def _traced(A: ArrayLike, func: Any, disp: bool) -> Any:  # noqa: N803
    if not disp:
        raise errors.ParameterError("funm does not accept `disp` if something is traced; omit it.")
    a = as_array(A)
    if not is_square(a):
        scipys_error(lambda a: scipy.linalg.funm(a, func), a)
    check_finite_values(a)
    a = of_dtype(a, lapack_dtype(a))
    kept, w = Kept().now(func), np.ravel(_decomposed(raw_array(a))[0])
    closure = Closure(kept, [(w,)])
    with RandomStates(kept).put_back():
        at_eigenvalues = np.asarray(raw_array(kept(w)))
    return _function_of(_Function(closure, name_of(func), at_eigenvalues), a, [], closure.values)


def funm(A: ArrayLike, func: Callable[[Any], Any], disp: bool = True) -> Any:  # noqa: N803  # SciPy's name
    """Return the function of a symmetric or Hermitian matrix defined by a scalar function.

    It is `v @ np.diag(func(w)) @ v.conj().T` with the eigenvalues and eigenvectors, and is differentiable also for
    equal eigenvalues, for which the vectors alone have no derivative: in both modes, to any order, with respect to the
    matrix and the values that `func` closes over.

    If nothing is traced, this is SciPy's function, which accepts any matrix.

    Args:
        A: of shape (..., n, n); symmetric or Hermitian, if something is traced.
        func: takes a vector, and returns one number for each element of it. If something is traced, the vector is
            real, and also contains numbers between the eigenvalues; the derivative of order `n` uses those of `func` up
            to this order.
        disp: as in SciPy: False returns an estimate of the error, too; rejected if something is traced.

    Returns:
        The function of the matrix, of the same shape; complex, if `func` returns complex numbers.

    Raises:
        NoDerivativeError: a ValueError; something is traced, and the matrix is not Hermitian.
        ParameterError: a ValueError; `disp` is False, and something is traced.
        ShapeError: a ValueError; `func` does not return one number for each element.
        ClosureError: a TypeError; `func` uses a traced value that cannot be found in its closure.
        ValueError: `A` is not square, or contains infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: funm(a, np.sin)[0, 1])(np.zeros((2, 2)))
        Tensor([[0., 1.],
                [0., 0.]])
        >>> fg.grad(lambda p: funm(np.diag([4.0, 4.0, 1.0]), lambda w: w**p)[0, 0])(1.0).round(6)
        Tensor(5.545177)
    """
    try:
        return run(_scipys, _traced, (A, func, disp), {})
    except _UsesTraced:
        return _traced(A, func, disp)
