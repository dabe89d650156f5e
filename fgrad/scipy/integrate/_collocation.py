"""The discrete equations of a boundary value problem: collocation on a mesh, as in `scipy.integrate.solve_bvp`.

    System(fun, bc, ...).residuals(unknowns, leaves)     zero at the solution
    System(fun, bc, ...).inverse(unknowns, leaves)       the inverse of their Jacobian, which is sparse

The solution is a cubic spline that satisfies the equation at both ends and in the middle of each interval (J. Kierzenka
and L. F. Shampine, "A BVP solver based on residual control and the Matlab PSE", 2001,
https://doi.org/10.1145/502800.502801). On a fixed mesh, this is a system of equations for the values at its
nodes and for the unknown parameters. The equations of an interval contain only the values at its two ends. So all nodes
with even numbers can be perturbed together, and so can those with odd ones: twice as many directions as there are
equations give the whole Jacobian (A. R. Curtis, M. J. D. Powell and J. K. Reid, "On the estimation of sparse Jacobian
matrices", 1974, https://doi.org/10.1093/imamat/13.1.117).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse.linalg

from fgrad.ops.tracing import raw_array
from fgrad.rules.closures import values_of
from fgrad.rules.implicit import Inverse
from fgrad.scipy.integrate._forms import complex_form, real_form
from fgrad.scipy.sparse.arrays import csc_array
from fgrad.scipy.sparse.linalg.direct import splu
from fgrad.transforms.draws import of_algorithm
from fgrad.transforms.jacobians import jacobian
from fgrad.typing import Array

Leaves = Sequence[Any]


@dataclass
class System:
    """The equations of collocation and the boundary conditions.

    The unknowns are one real vector: the values at each node in turn, and the parameters. The
    leaves are the mesh, the matrix of a singular term if there is one, and the inputs of the functions.

    Attributes:
        fun: the right-hand side, `fun(x, y, p, inputs)`, at several points together; p is None without parameters.
        bc: the boundary conditions, `bc(ya, yb, p, inputs)`.
        size: the number of equations.
        count: the number of parameters.
        is_complex: whether the values are complex numbers, which count as two real ones.
        is_singular: whether there is a singular term.
    """

    fun: Callable[..., Array]
    bc: Callable[..., Array]
    size: int
    count: int
    is_complex: bool
    is_singular: bool

    @property
    def width(self) -> int:
        """Number of real numbers at a node."""
        return 2 * self.size if self.is_complex else self.size

    def parted(self, unknowns: Array) -> tuple[Array, Array]:
        """Return the values, a row for each node, and the parameters, both in real form."""
        end = unknowns.shape[0] - (2 * self.count if self.is_complex else self.count)
        return np.reshape(unknowns[:end], (-1, self.width)), unknowns[end:]

    def numbers(self, real: Array) -> Array:
        """Return numbers in the form of the user's functions, from their real form."""
        return complex_form(real) if self.is_complex else real

    def slopes(self, x: Array, values: Array, p: Array, leaves: Leaves, from_start: bool) -> Any:
        """Return the right-hand side at several points.

        Args:
            x: the points.
            values: the values at the points, a row for each.
            p: the parameters.
            leaves: the leaves of the system.
            from_start: whether the first point is the start of the interval, where a singular term has its limit.
        """
        mesh, *rest = leaves
        y = np.swapaxes(self.numbers(values), 0, 1)
        found = self.fun(x, y, self.numbers(p) if self.count else None, rest[1:] if self.is_singular else rest)
        if not self.is_singular:
            return real_form(np.swapaxes(found, 0, 1))
        matrix, first = rest[0], 1 if from_start else 0
        later = found[:, first:] + matrix @ y[:, first:] / (x[first:] - mesh[0])
        # y' = f + S y / (x - a) with S y(a) = 0 has the slope (I - S)^+ f at a.
        start = np.linalg.pinv(np.eye(self.size) - matrix) @ found[:, :first]
        return real_form(np.swapaxes(np.concatenate([start, later], axis=1), 0, 1))

    def collocation(self, values: Array, p: Array, leaves: Leaves) -> Any:
        """Return the residual of the equation in the middle of each interval; a row for each."""
        x = leaves[0]
        h = (x[1:] - x[:-1])[:, None]
        ends = self.slopes(x, values, p, leaves, True)
        middle = (values[1:] + values[:-1]) / 2 - h / 8 * (ends[1:] - ends[:-1])
        in_middle = self.slopes((x[1:] + x[:-1]) / 2, middle, p, leaves, False)
        return values[1:] - values[:-1] - h / 6 * (ends[:-1] + ends[1:] + 4 * in_middle)

    def conditions(self, start: Array, end: Array, p: Array, leaves: Leaves) -> Any:
        """Return the residuals of the boundary conditions."""
        given = self.numbers(p) if self.count else None
        rest = leaves[2:] if self.is_singular else leaves[1:]
        return real_form(self.bc(self.numbers(start), self.numbers(end), given, rest))

    def residuals(self, unknowns: Array, leaves: Leaves) -> Array:
        """Return the residuals, which are zero at a solution, as many as there are unknowns."""
        values, p = self.parted(unknowns)
        inside = self.collocation(values, p, leaves)
        return np.concatenate([np.reshape(inside, -1), self.conditions(values[0], values[-1], p, leaves)])

    def inverse(self, unknowns: Array, leaves: Leaves) -> Inverse:
        """Return the inverse of the Jacobian of the residuals."""
        values, p = self.parted(unknowns)
        nodes, width = values.shape
        seeds = np.zeros((2 * width, nodes, width))
        for parity in (0, 1):
            seeds[parity * width : (parity + 1) * width, parity::2] = np.eye(width)[:, None, :]

        def moved(by: Array) -> Any:
            return self.collocation(values + np.tensordot(by[: 2 * width], seeds, 1), p + by[2 * width :], leaves)

        def at_ends(ends: Array) -> Any:
            return self.conditions(ends[:width], ends[width : 2 * width], ends[2 * width :], leaves)

        inside = jacobian(moved)(np.zeros(2 * width + p.shape[0]))
        outside = jacobian(at_ends)(np.concatenate([values[0], values[-1], p]))
        data = np.concatenate([np.reshape(inside, -1), np.reshape(outside, -1)])
        matrix = csc_array((data, _places(nodes, width, p.shape[0])), shape=(unknowns.size, unknowns.size))
        return _Sparse(self, matrix)


def _places(nodes: int, width: int, count: int) -> tuple[Array, Array]:
    """Return the rows and the columns of the elements of the Jacobian, in the order of their computation."""
    interval, equation, seed = np.meshgrid(np.arange(nodes - 1), np.arange(width), np.arange(2 * width), indexing="ij")
    node = interval + (interval + seed // width) % 2  # the end of the interval with the parity of the seed
    of_parameters = np.arange(nodes * width, nodes * width + count)
    repeated = np.broadcast_to(of_parameters, (nodes - 1, width, count))
    columns = np.concatenate([node * width + seed % width, repeated], axis=-1)
    rows = np.broadcast_to((interval * width + equation)[:, :, :1], columns.shape)
    of_ends = np.concatenate([np.arange(width), (nodes - 1) * width + np.arange(width), of_parameters])
    conditions = np.arange((nodes - 1) * width, nodes * width + count)
    last_rows, last_columns = np.meshgrid(conditions, of_ends, indexing="ij")
    return (
        np.concatenate([np.reshape(rows, -1), np.reshape(last_rows, -1)]),
        np.concatenate([np.reshape(columns, -1), np.reshape(last_columns, -1)]),
    )


class _Sparse:
    """The inverse of a sparse matrix, by its factors."""

    def __init__(self, system: System, matrix: csc_array) -> None:
        self._system, self._matrix = system, matrix
        self._factors: Any = None

    def times(self, b: Array) -> Any:
        return self._factored().solve(b)

    def transposed_times(self, b: Array) -> Any:
        return self._factored().solve(b, "T")

    def _factored(self) -> Any:
        self._factors = self._factors or splu(self._matrix)
        return self._factors

    def is_singular(self) -> bool:
        data = np.asarray(raw_array(self._matrix.data))
        return any(_is_singular(self._matrix.pattern.with_elements(row)) for row in data.reshape(-1, data.shape[-1]))

    def of_values(self, x: Array, leaves: Leaves) -> _Sparse:
        return _Sparse(self._system, self._matrix.with_data(values_of([self._matrix.data])[0]))


@of_algorithm
def _is_singular(matrix: Any) -> bool:
    """Return whether a sparse matrix is singular to rounding, independent of the scaling of rows and columns."""
    for axis in (0, 1):
        largest = np.asarray(abs(matrix).max(axis=axis).todense()).reshape(-1)
        if not np.all(largest > 0):
            return True
        scale = scipy.sparse.diags_array(1 / largest)
        matrix = matrix @ scale if axis == 0 else scale @ matrix
    try:
        factors: Any = scipy.sparse.linalg.splu(matrix.tocsc())
    except RuntimeError:
        return True
    of_transpose = {"rmatvec": lambda b: factors.solve(b, "T"), "matvec": factors.solve, "dtype": matrix.dtype}
    inverse = scipy.sparse.linalg.LinearOperator(matrix.shape, **of_transpose)
    condition = scipy.sparse.linalg.onenormest(inverse) * scipy.sparse.linalg.norm(matrix, 1)
    return not condition * np.finfo(matrix.dtype).eps < 1
