"""Linear algebra of Runge-Kutta steps: propagation of perturbations through all steps together.

    Tableau.of_method(RK45, dense)     the coefficients of a SciPy method
    responses(tableau, h, J, first)    the perturbations of all stages, and
    transposed(tableau, h, J, given)   the transpose of that
    recurrence(A, b)                   x_0 = b_0, x_k+1 = A_k x_k + b_k+1

A step of length h from (t, y) has the stages k_s = f(t + c_s h, y + h sum_j a_sj k_j), and ends at
y + h sum_s b_s k_s. Here `J` holds the Jacobians of f at all stages of all steps, and `h` all step sizes. So the only
loop over steps is the recurrence, in which a step is the product of a matrix and a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import DOP853, RK23, RK45, Radau
from scipy.special import roots_jacobi

from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import all_mapped
from fgrad.typing import Array


@dataclass(frozen=True)
class Tableau:
    """The coefficients of a Runge-Kutta method.

    Attributes:
        a, b, c: the Butcher tableau. Stages for interpolation only have the weight 0 in `b`.
        parts: the interpolant is y + (t - t_n) sum_s v_s(x) k_s at x = (t - t_n) / h, where each v_s is a
            polynomial; `parts` holds their coefficients, one row for each stage.
        alternates: whether they are coefficients of 1, (1 - x), (1 - x) x, (1 - x) x (1 - x), ... rather than of
            powers.
    """

    a: Array
    b: Array
    c: Array
    parts: Array
    alternates: bool = False

    @property
    def stages(self) -> int:
        """Return the number of stages."""
        return len(self.c)

    @property
    def is_explicit(self) -> bool:
        """Return whether each stage depends only on those before it."""
        return not np.triu(self.a).any()

    def weights(self, x: Array) -> Any:
        """Return the v_s at fractions of a step, along a new last axis."""
        products = [np.ones_like(x)]
        for number in range(self.parts.shape[1] - 1):
            products.append(products[-1] * (1 - x if self.alternates and number % 2 == 0 else x))
        return np.stack(products, axis=-1) @ self.parts.T

    @classmethod
    def of_method(cls, method: type[Any], dense: bool) -> Tableau:
        """Return the coefficients of a SciPy method, optionally with the stages of its interpolant."""
        if issubclass(method, Radau):
            return cls.of_radau(3)
        count = method.n_stages
        total = count if not dense else len(method.D[0]) if issubclass(method, DOP853) else count + 1
        a, b, c = np.zeros((total, total)), np.zeros(total), np.ones(total)
        a[:count, : method.A.shape[1]], b[:count], c[:count] = method.A, method.B, method.C
        if not dense:
            return cls(a, b, c, np.zeros((count, 0)))
        a[count, :count] = method.B  # the slope at the end of the step
        if not issubclass(method, DOP853):
            return cls(a, b, c, method.P)
        a[count + 1 :, :], c[count + 1 :] = method.A_EXTRA, method.C_EXTRA
        return cls(a, b, c, _parts_of_dop853(method.D, b, count), alternates=True)

    @classmethod
    def of_radau(cls, stages: int) -> Tableau:
        """Return Radau IIA: collocation at the nodes of Radau quadrature, which include the end.

        The solution is a polynomial that satisfies the equation at these nodes (Hairer and Wanner, Solving Ordinary
        Differential Equations II, section IV.5); so the polynomial is also the interpolant.
        """
        c = np.append((1 + roots_jacobi(stages - 1, 1, 0)[0]) / 2, 1.0)
        powers = np.arange(stages)
        parts = np.linalg.inv(c[:, None] ** powers).T / (powers + 1)
        a = c[:, None] ** (powers + 1) @ parts.T
        return cls(a, a[-1], c, parts)


def _parts_of_dop853(d: Array, b: Array, end: int) -> Array:
    """Return the interpolant of DOP853, which is defined by the change of y, both slopes, and the rows `d`."""
    first, last = np.zeros_like(b), np.zeros_like(b)
    first[0], last[end] = 1.0, 1.0
    return np.vstack([b, first - b, 2 * b - last - first, d]).T


EXPLICIT = (RK23, RK45, DOP853)
"""The explicit Runge-Kutta methods of SciPy."""

BY_STAGES = (*EXPLICIT, Radau)
"""The Runge-Kutta methods of SciPy."""


def combined(weights: Array, slopes: Sequence[Any]) -> Any:
    """Return the sum of arrays with plain weights."""
    used = [place for place, weight in enumerate(weights) if weight]
    if len(used) == 1:
        return weights[used[0]] * slopes[used[0]]
    stacked = np.stack([slopes[place] for place in used])
    return np.reshape(weights[used] @ np.reshape(stacked, (len(used), -1)), stacked.shape[1:])


def responses(tableau: Tableau, h: Array, jacobians: Array, first: Array) -> Array:
    """Return the changes dk_s = first_s + J_s h sum_j a_sj dk_j of all stages.

    Args:
        tableau: of S stages.
        h: the sizes of N steps.
        jacobians: shape (N, S, n, n).
        first: the other perturbations of the stages, shape (N, S, n, m).
    """
    if not tableau.is_explicit:
        n, m = first.shape[2:]
        size = tableau.stages * n
        moved = np.linalg.solve(_matrix(tableau, h, jacobians), np.reshape(first, (-1, size, m)))
        return np.reshape(moved, first.shape)
    slopes: list[Any] = []
    lengths = np.reshape(h, (-1, 1, 1))
    for stage in range(tableau.stages):
        slope = first[:, stage]
        if tableau.a[stage].any():
            slope = slope + jacobians[:, stage] @ (lengths * combined(tableau.a[stage], slopes))
        slopes.append(slope)
    return np.stack(slopes, axis=1)


def transposed(tableau: Tableau, h: Array, jacobians: Array, given: Array) -> tuple[Any, Any]:
    """Return the cotangents k_s = given_s + h sum_i a_is l_i of all stages, and l_i = J_i^T k_i.

    Args:
        tableau, h, jacobians: as for `responses`.
        given: shape (N, S, n).
    """
    turned = np.swapaxes(jacobians, -1, -2)
    if not tableau.is_explicit:
        size = tableau.stages * given.shape[2]
        matrix = np.swapaxes(_matrix(tableau, h, jacobians), -1, -2)
        stages = np.reshape(np.linalg.solve(matrix, np.reshape(given, (-1, size, 1))), given.shape)
        return stages, (turned @ stages[..., None])[..., 0]
    lengths = np.reshape(h, (-1, 1))
    stages_back: list[Any] = []
    states_back: list[Any] = []
    for stage in reversed(range(tableau.stages)):
        cotangent = given[:, stage]
        later = tableau.a[stage + 1 :, stage][::-1]
        if later.any():
            cotangent = cotangent + lengths * combined(later, states_back)
        stages_back.append(cotangent)
        states_back.append((turned[:, stage] @ cotangent[..., None])[..., 0])
    return np.stack(stages_back[::-1], axis=1), np.stack(states_back[::-1], axis=1)


def _matrix(tableau: Tableau, h: Array, jacobians: Array) -> Array:
    """Return the matrices of the coupled equations for the perturbations of all stages of a step."""
    n, size = jacobians.shape[-1], tableau.stages * jacobians.shape[-1]
    blocks = np.reshape(h, (-1, 1, 1, 1, 1)) * tableau.a[:, None, :, None] * jacobians[:, :, :, None, :]
    return np.eye(size) - np.reshape(blocks, (-1, tableau.stages * n, size))


def transitions(tableau: Tableau, h: Array, jacobians: Array) -> Any:
    """Return for each step the matrix that maps a perturbation of its start to that of its end."""
    moved = responses(tableau, h, jacobians, jacobians)
    return np.eye(jacobians.shape[-1]) + np.reshape(h, (-1, 1, 1)) * np.tensordot(moved, tableau.b, (1, 0))


# The recurrence


def recurrence(matrices: Array, terms: Array) -> Any:
    """Return x_0 = b_0, x_1 = A_0 x_0 + b_1, ... for matrices of shape (K, n, n) and terms of shape (K + 1, n)."""
    return apply(_recurrence, (matrices, terms))


def reversed_recurrence(matrices: Array, terms: Array) -> Any:
    """Return x_K = b_K, x_k = A_k^T x_k+1 + b_k, which is the transpose of `recurrence` as a function of the terms."""
    backwards = np.flip(np.swapaxes(matrices, -1, -2), -3)
    return np.flip(apply(_recurrence, (backwards, np.flip(terms, -2))), -2)


def _run(matrices: Array, terms: Array) -> Array:
    result = np.array(terms)
    if matrices.ndim == 3:
        for k, matrix in enumerate(matrices):
            result[k + 1] += matrix @ result[k]
    else:
        for k in range(matrices.shape[-3]):
            result[..., k + 1, :] += (matrices[..., k, :, :] @ result[..., k, :, None])[..., 0]
    return result


def _of_matrices(ans: Array, matrices: Array, terms: Array) -> Callable[[Any], Any]:
    return lambda ct: reversed_recurrence(matrices, ct)[..., 1:, :, None] * ans[..., :-1, None, :]


def _tangent(tangents: Sequence[Any], ans: Array, matrices: Array, terms: Array) -> Any:
    moving, more = (0.0 * x if t is ZERO else t for t, x in zip(tangents, (matrices, terms), strict=True))
    driven = (moving @ ans[..., :-1, :, None])[..., 0]
    return recurrence(matrices, more + np.concatenate([0.0 * ans[..., :1, :], driven], axis=-2))


_recurrence: Primitive = Primitive(
    "recurrence",
    _run,
    (_of_matrices, lambda ans, matrices, terms: lambda ct: reversed_recurrence(matrices, ct)),
    _tangent,
    lambda values, mapped, size, metadata: apply(_recurrence, all_mapped(values, mapped, size)),
)
