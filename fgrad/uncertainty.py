"""Error propagation: from uncertain inputs to results, and from a fit to the errors of its parameters.

    propagate(f, mean, covariance)          mean and covariance of f(x), for an uncertain x
    standard_errors(loss, params)           the standard error of each fitted parameter
    parameter_covariance(loss, params)      the covariance of fitted parameters, for further propagation

A covariance has the structure and shapes of second derivatives by `fg.hessian`: for an array `x` it has the shape
`x.shape + x.shape`, for a container it is a container of containers.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fgrad.core  # noqa: F401  # first, so that threads import it in one order
from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, boxed, strip_ended
from fgrad.core.tree import flatten, paths, tree_map, unflatten
from fgrad.transforms.calls import name_of
from fgrad.transforms.jacobians import hessian, jacfwd, jacobian, jacrev
from fgrad.transforms.reverse import value_and_grad
from fgrad.transforms.running import check_result
from fgrad.typing import Array

__all__ = ["parameter_covariance", "propagate", "standard_errors"]

__dir__ = __all__.copy


class _Flat:
    """A container of arrays as one vector.

    Args:
        what: the name of the container, for messages.
        tree: a container of real floating-point numbers, arrays or tensors.

    Raises:
        DtypeError: a leaf is something else.
        ParameterError: there is no leaf.
    """

    def __init__(self, what: str, tree: Any) -> None:
        leaves, self.treedef = flatten(tree)
        if not leaves:
            raise errors.ParameterError(f"{what} holds no numbers: {tree!r:.200}.")
        self.names = [what + path for path in paths(tree)]
        self.leaves = [_real(name, leaf) for name, leaf in zip(self.names, leaves, strict=True)]
        self.shapes = [leaf.shape for leaf in self.leaves]
        self._ends = list(itertools.accumulate(leaf.size for leaf in self.leaves))
        self.size = self._ends[-1]

    def vector(self) -> Any:
        return np.concatenate([np.ravel(leaf) for leaf in self.leaves])

    def parts(self, vector: Any, axis: int = 0) -> list[Any]:
        """Return the parts of an axis that belong to the leaves."""
        return np.split(vector, self._ends[:-1], axis)

    def tree(self, vector: Any) -> Any:
        """Return a container with the elements of a vector."""
        parts = zip(self.parts(vector), self.shapes, strict=True)
        return unflatten(self.treedef, [np.reshape(part, shape) for part, shape in parts])

    def blocks(self, matrix: Any) -> Any:
        """Return a matrix as a container of containers of arrays."""
        rows = []
        for row, shape in zip(self.parts(matrix), self.shapes, strict=True):
            columns = zip(self.parts(row, 1), self.shapes, strict=True)
            rows.append(unflatten(self.treedef, [np.reshape(block, shape + other) for block, other in columns]))
        return unflatten(self.treedef, rows)

    def name(self, place: int) -> str:
        """Return the name of an element of the vector, for messages."""
        return next(name for name, end in zip(self.names, self._ends, strict=True) if place < end)


def _real(name: str, leaf: object) -> Any:
    value = strip_ended(leaf) if type(leaf) in BOXES else np.asarray(leaf)
    if value.dtype.kind != "f":
        raise errors.DtypeError(
            f"{name} must be real floating-point numbers, and its dtype is {value.dtype}.\n"
            "Write 3.0 for 3; for a complex number, pass the real and the imaginary part as two numbers."
        )
    return value


def _is_false(condition: object) -> bool:
    """Return whether a condition is known to be false; under `vmap` and in a recording it is unknown."""
    try:
        return not bool(condition)
    except errors.ConcretizationError:
        return False


# Covariances


def _matrix(covariance: object, flat: _Flat) -> Any:
    """Return a covariance as a matrix over all elements."""
    matrix = _as_matrix(covariance, flat)
    diagonal = np.diagonal(matrix)
    if _is_false(np.all(np.isfinite(matrix))) or _is_false(np.all(diagonal >= 0)):
        raise errors.ParameterError("covariance must be finite, with nonnegative variances on its diagonal.")
    slack = 100 * np.finfo(matrix.dtype).eps * np.sqrt(np.outer(diagonal, diagonal))
    if _is_false(np.all(np.abs(matrix - matrix.T) <= slack)):
        raise errors.ParameterError(
            "covariance must be symmetric.\nUse (c + c.T) / 2 if the difference is a rounding error."
        )
    return matrix


def _as_matrix(covariance: object, flat: _Flat) -> Any:
    if flat.treedef.is_leaf() or type(covariance) in (np.ndarray, Tensor):
        array = _real("covariance", covariance)
        if flat.treedef.is_leaf() and array.shape == flat.shapes[0] * 2:
            return np.reshape(array, (flat.size, flat.size))
        if array.shape == (flat.size, flat.size):
            return array
        if flat.treedef.is_leaf() and array.shape == flat.shapes[0]:
            return np.diag(np.ravel(array))
        raise _misfit(flat, f"it has shape {array.shape}")
    try:
        rows = flat.treedef.flatten_up_to(covariance)
        if all(flatten(row)[1].is_leaf() for row in rows):
            return _diagonal(rows, flat)
        blocks = [flat.treedef.flatten_up_to(row) for row in rows]
    except ValueError as error:
        raise _misfit(flat, f"it has another structure: {error}") from None
    return np.concatenate([_block_row(row, place, flat) for place, row in enumerate(blocks)])


def _diagonal(variances: Sequence[Any], flat: _Flat) -> Array:
    arrays = [_real("covariance", each) for each in variances]
    if [array.shape for array in arrays] != flat.shapes:
        raise _misfit(flat, f"its parts have the shapes {[array.shape for array in arrays]}")
    return np.diag(np.concatenate([np.ravel(array) for array in arrays]))


def _block_row(blocks: Sequence[Any], place: int, flat: _Flat) -> Array:
    row = []
    for block, other in zip(blocks, flat.shapes, strict=True):
        array = _real("covariance", block)
        if array.shape != flat.shapes[place] + other:
            raise _misfit(flat, f"a block of shape {flat.shapes[place] + other} has shape {array.shape}")
        row.append(np.reshape(array, (flat.leaves[place].size, -1)))
    return np.concatenate(row, axis=1)


def _misfit(flat: _Flat, what: str) -> errors.ShapeError:
    return errors.ShapeError(
        f"covariance does not match the mean, whose parts have the shapes {flat.shapes}: {what}.\n"
        f"It must be a matrix of shape {(flat.size, flat.size)}, blocks with the structure of fg.hessian, or only "
        "variances, with the structure of the mean."
    )


# Propagation


def propagate(f: Callable[[Any], Any], mean: Any, covariance: Any, order: int = 1) -> tuple[Any, Any]:
    r"""Return the mean and the covariance of `f(x)` for an uncertain `x`.

    With the Jacobian J and the Hessian H of each result at the mean, and the covariance S of `x`:

    Order 1 is the law of propagation of uncertainty, `f(mean)` and J S J^T (JCGM 100:2008, "GUM", equation 13;
    for several results JCGM 102:2011, clause 6.2). It is exact for linear functions.

    Order 2 adds all terms of the next order in S, for a Gaussian `x` (GUM, note to 5.1.2, there for independent inputs;
    the products of four deviations are those of Isserlis, https://doi.org/10.1093/biomet/12.1-2.134): to the mean of
    the result a, tr(H_a S)/2; to the covariance of the results a and b, tr(H_a S H_b S)/2 + (J_a S t_b + J_b S t_a)/2,
    where t is the gradient of tr(H S). It is exact for quadratic functions.

    Args:
        f: a function of a container like `mean`; returns real numbers, arrays or containers of them.
        mean: real floating-point numbers, arrays or containers of them.
        covariance: the covariance of the mean, as blocks (`x.shape + x.shape` for an array, containers of containers as
            from `fg.hessian`), as a matrix over all elements in order, or only the variances, with the structure of the
            mean, for independent inputs.
        order: 1 or 2; 2 needs third derivatives, and memory for the Hessian of each result.

    Returns:
        `(mean, covariance)` of `f(x)`: with the structure of the result, and as blocks.

    Raises:
        ShapeError: a ValueError; the covariance does not match the mean.
        DtypeError: a TypeError; a number is an integer or complex.
        ParameterError: a ValueError; the covariance is not symmetric or has negative variances, `order` is invalid, or
            the second-order expansion gives a negative variance, since the covariance is too large.
        NoResultError, OutputError, DetachedError: as for `grad`.

    Example:
        >>> import fgrad as fg
        >>> mean, variance = propagate(lambda p: p["U"] / p["I"], {"U": 12.0, "I": 2.0}, {"U": 0.04, "I": 0.01})
        >>> print(f"{mean:.2f} ± {np.sqrt(variance):.2f}")
        6.00 ± 0.32
        >>> propagate(lambda x: x**2, 3.0, 0.5, order=2)
        (Tensor(9.5), Tensor(18.5))
    """
    if isinstance(order, bool) or order not in (1, 2):
        raise errors.ParameterError(f"order must be 1 or 2, and it is {order!r}.")
    flat = _Flat("mean", mean)
    spread = _matrix(covariance, flat)
    result = f(unflatten(flat.treedef, flat.leaves))
    check_result(f, result, flatten(result)[0])
    out = _Flat(f"the result of {name_of(f)}", result)

    @functools.wraps(f)
    def of_vector(vector: Any) -> Array:
        return np.concatenate([np.ravel(leaf) for leaf in flatten(f(flat.tree(vector)))[0]])

    point, center = flat.vector(), out.vector()
    slopes = jacobian(of_vector)(point)
    carried = slopes @ spread @ slopes.T
    if order == 2:
        more, added = _second_order(of_vector, point, slopes, spread)
        center, carried = center + more, carried + added
        _check_variances(np.diagonal(carried), out)
    return _boxes(out.tree(center)), _boxes(out.blocks((carried + carried.T) / 2))


def _second_order(function: Callable[[Any], Any], point: Any, slopes: Any, spread: Any) -> tuple[Any, Any]:
    """Return the second-order terms of the mean and of the covariance."""
    second = jacfwd(jacrev(function))

    def curvature(vector: Any) -> Any:
        return np.einsum("aij,ij->a", second(vector), spread)

    bent = np.matmul(second(point), spread)
    mixed = slopes @ spread @ jacfwd(curvature)(point).T
    return curvature(point) / 2, (np.einsum("aij,bji->ab", bent, bent) + mixed + mixed.T) / 2


def _check_variances(variances: Any, out: _Flat) -> None:
    if _is_false(np.all(variances >= 0)):
        bad = int(np.argmin(variances))
        raise errors.ParameterError(
            f"the second-order expansion gives {out.name(bad)} a negative variance: the covariance is too large for "
            "it.\nUse order=1, or compute f for samples of x."
        )


def _boxes(tree: object) -> Any:
    return tree_map(lambda leaf: boxed(strip_ended(leaf)[()]), tree)


# Errors of fitted parameters


def parameter_covariance(loss: Callable[[Any], Any], params: Any, residuals: int | None = None) -> Any:
    """Return the covariance of parameters that minimize a loss.

    For a negative log-likelihood this is the inverse of its Hessian at the minimum, the inverse of the observed
    information (Efron and Hinkley 1978, https://doi.org/10.1093/biomet/65.3.457).

    For a sum of squared residuals of equal but unknown variance, that variance is estimated by the sum of squares
    divided by `residuals` minus the number of parameters, and the covariance is twice the estimate times the inverse
    Hessian (Seber and Wild, Nonlinear Regression, Wiley 1989, chapter 2). A factor of the loss, such as 1/2, makes no
    difference in this case.

    Args:
        loss: a function of a container like `params`; returns one real number.
        params: the minimum of `loss`: real floating-point numbers, arrays or containers of them.
        residuals: for a sum of squares, or a multiple of it, the number of squares. By default the loss is a negative
            log-likelihood (for residuals of known variance, half the sum of `(residual / sigma) ** 2`).

    Returns:
        The covariance, with the structure and shapes of second derivatives by `fg.hessian`.

    Raises:
        ParameterError: a ValueError; `params` is not a minimum, the data do not determine all parameters, or there are
            no more residuals than parameters.
        DtypeError: a TypeError; a parameter is an integer or complex.
        NonScalarError, NoResultError, DetachedError: as for `grad`.

    Example:
        >>> t, y = np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.9, 5.2, 6.9])
        >>> def loss(p):
        ...     return np.sum((p["start"] + p["rate"] * t - y) ** 2)
        >>> parameter_covariance(loss, {"start": 1.0, "rate": 2.0}, residuals=4)["rate"]["start"]
        Tensor(-0.009)
    """
    flat = _Flat("params", params)
    return flat.blocks(_covariance(loss, flat, residuals))


def standard_errors(loss: Callable[[Any], Any], params: Any, residuals: int | None = None) -> Any:
    """Return the standard error of each parameter that minimizes a loss.

    They are the square roots of the variances in `parameter_covariance`, which defines them.

    Args:
        loss, params, residuals: as for `parameter_covariance`.

    Returns:
        The errors, with the structure of `params`.

    Raises:
        ParameterError, DtypeError, NonScalarError, NoResultError, DetachedError: as for
            `parameter_covariance`.

    Example:
        >>> x = np.array([4.8, 5.1, 5.3, 4.8])
        >>> standard_errors(lambda mean: np.sum((x - mean) ** 2) / (2 * 0.2**2), 5.0)  # sigma is 0.2
        Tensor(0.1)
        >>> standard_errors(lambda mean: np.sum((x - mean) ** 2), 5.0, residuals=4)    # sigma is not known
        Tensor(0.12247449)
    """
    flat = _Flat("params", params)
    return _boxes(flat.tree(np.sqrt(np.diagonal(_covariance(loss, flat, residuals)))))


def _covariance(loss: Callable[[Any], Any], flat: _Flat, residuals: int | None) -> Any:
    """Return the covariance of parameters as a matrix."""
    free = None if residuals is None else residuals - flat.size
    if free is not None and free <= 0:
        raise errors.ParameterError(
            f"{residuals} residuals do not determine {flat.size} parameters and a variance: more residuals are needed."
        )

    @functools.wraps(loss)
    def of_vector(vector: Any) -> Any:
        return loss(flat.tree(vector))

    point = flat.vector()
    value, gradient = value_and_grad(of_vector)(point)
    curvature = hessian(of_vector)(point)
    diagonal = np.diagonal(curvature)
    if _is_false(np.all(diagonal > 0)):
        raise _no_minimum(flat, int(np.argmin(diagonal)))
    scale = np.sqrt(diagonal)  # the units of the parameters do not matter then
    scaled = curvature / np.outer(scale, scale)
    lengths, directions = np.linalg.eigh((scaled + scaled.T) / 2)
    if _is_false(lengths[0] > 10 * flat.size * np.finfo(lengths.dtype).eps):
        raise _no_minimum(flat, int(np.argmax(np.abs(directions[:, 0]))))
    inverse = (directions / lengths) @ directions.T / np.outer(scale, scale)
    variance = 1.0 if free is None else 2 * value / free
    step = inverse @ gradient
    is_close = np.all(np.abs(step) <= np.sqrt(np.finfo(lengths.dtype).eps) * np.abs(point))
    if _is_false((gradient @ step <= variance) | is_close):
        raise errors.ParameterError(
            "params is not the minimum of the loss: the next step of Newton's method would be "
            f"{float(np.sqrt(gradient @ step / variance)):.3g} standard errors long.\n"
            "Minimize the loss first, and pass the result."
        )
    return inverse * variance


def _no_minimum(flat: _Flat, place: int) -> errors.ParameterError:
    return errors.ParameterError(
        f"the loss has no minimum at params: its second derivative is not positive along a direction in which "
        f"{flat.name(place)} changes most.\n"
        "Minimize the loss first; if this is the result, the data do not determine all parameters: fix some of them."
    )
