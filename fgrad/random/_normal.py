"""The multivariate normal distribution: draws with derivatives with respect to the mean and the covariance.

With the Cholesky factor L the draw is mean + L z, which is differentiated directly. NumPy's other factors are made of
eigenvectors, which are discontinuous where eigenvalues coincide. There the derivative of a draw is defined as

    dx = dmean + 1/2 dC C^-1 (x - mean)

which makes its covariance C + dC for any factor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.foreign import LOOKING_AT_VALUES
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.ops.families import register, sample
from fgrad.typing import Array


def _centered(cov: Array, draw: Callable[[Any], Any]) -> Any:
    if cov.ndim == 2:
        return draw(cov)
    return np.stack([_centered(each, draw) for each in cov])


def _solved(cov: Array, x: Array) -> Any:
    """Return the inverse of the covariance times each draw."""
    try:
        columns = np.swapaxes(np.reshape(x, (*cov.shape[:-2], -1, cov.shape[-1])), -1, -2)
        return np.swapaxes(np.linalg.solve(cov.astype(x.dtype), columns), -1, -2)
    except np.linalg.LinAlgError:
        raise errors.NoDerivativeError(
            "multivariate_normal has no derivative with respect to 'cov', which is singular: the draws lie in a "
            f"subspace.\n  at {errors.users_line()}\nAdd a small multiple of the identity to it."
        ) from None


def _rule(ans: Array, cov: Array, draw: Callable[..., Any]) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        scores = _solved(cov, ans)
        product = np.swapaxes(np.reshape(ct, scores.shape), -1, -2) @ scores
        return (product + np.swapaxes(product, -1, -2)) / 4

    return pullback


def _tangent(tangents: Sequence[Any], ans: Array, cov: Array, draw: Callable[..., Any]) -> Any:
    (t,) = tangents
    return np.reshape(_solved(cov, ans) @ (t + np.swapaxes(t, -1, -2)) / 4, ans.shape).astype(ans.dtype)


def _standing_for_a_draw(size: tuple[int, ...]) -> Callable[[Any], Any]:
    return lambda cov: np.broadcast_to(np.sum(cov, axis=0), (*size, cov.shape[0])).astype(np.float64)


LOOKING_AT_VALUES.add("draw_multivariate_normal")
_CENTERED: Primitive = Primitive(
    "draw_multivariate_normal",
    _centered,
    (_rule,),
    _tangent,
    lambda values, mapped, size, metadata: apply(_CENTERED, values, metadata),
    samples=tuple(
        sample(shape, complex=False, draw=_standing_for_a_draw(size))
        for shape, size in (((1, 1), ()), ((3, 3), ()), ((2, 2), (4,)), ((2, 3, 3), (2, 2)))
    ),
)
register(_CENTERED)


def by_eigenvalues(cov: Any, draw: Callable[[Any], Any]) -> Any:
    """Return numbers with mean 0 and a given covariance, drawn by `draw` for a plain one."""
    return apply(_CENTERED, (cov,), {"draw": draw})


def by_cholesky(cov: Any, noise: object) -> Any:
    """Return independent standard normal numbers, along the last axis, transformed to a given covariance."""
    return noise @ np.swapaxes(np.linalg.cholesky(cov), -1, -2)
