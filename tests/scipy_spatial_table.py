"""What fgrad does with the functions of `scipy.spatial.distance`: rows for the coverage page, and for the tests."""

from functools import partial
from typing import Any

import numpy as np
from coverage_table import Row, real, refused

from fgrad import errors
from fgrad.scipy.spatial import distance

_RNG = np.random.default_rng(11)
POINTS, OTHERS = _RNG.normal(size=(3, 3)), _RNG.normal(size=(2, 3))
SHARES, PARTS = _RNG.uniform(0.2, 1.5, (3, 3)), _RNG.uniform(0.2, 1.5, (2, 3))
WEIGHTS = np.array([0.7, 1.3, 0.4])
INVERSE = np.array([[2.1, 0.3, -0.2], [0.3, 1.4, 0.1], [-0.2, 0.1, 0.9]])
U, V = POINTS[0], POINTS[1]
WEIGHTED = ("euclidean", "sqeuclidean", "cityblock", "minkowski", "cosine", "correlation", "canberra", "braycurtis")
PLAIN = (*WEIGHTED, "chebyshev")


def _name(function: str) -> str:
    return f"fgrad.scipy.spatial.distance.{function}"


def _of_pairs(function: str) -> Row:
    """Return the row of a distance between two points, with and without weights."""
    f = getattr(distance, function)
    calls = [(f, U, V)]
    if function in WEIGHTED:
        calls.append((lambda u, v, w: f(u, v, w=w), U, V, WEIGHTS))
    return real(_name(function), *calls)


def _of_one_set(metric: Any, **options: Any) -> Any:
    return lambda x: distance.pdist(x, metric, **options)


def _cubed(u: Any, v: Any) -> Any:
    return np.sum((u - v) ** 3)


ROWS: list[Row] = [
    *map(_of_pairs, PLAIN),
    real(_name("mahalanobis"), (distance.mahalanobis, U, V, INVERSE)),
    real(_name("seuclidean"), (distance.seuclidean, U, V, WEIGHTS)),
    real(
        _name("jensenshannon"),
        (distance.jensenshannon, SHARES[0], SHARES[1]),
        (partial(distance.jensenshannon, base=2, axis=1, keepdims=True), SHARES[:2], PARTS),
    ),
    real(
        _name("cdist"),
        *(
            (partial(distance.cdist, metric=metric), POINTS, OTHERS)
            for metric in ("euclidean", "sqeuclidean", "cosine")
        ),
        (lambda a, b, w: distance.cdist(a, b, "minkowski", p=3, w=w), POINTS, OTHERS, WEIGHTS),
        (lambda a, b, inverse: distance.cdist(a, b, "mahalanobis", VI=inverse), POINTS, OTHERS, INVERSE),
        (partial(distance.cdist, metric="seuclidean"), POINTS, OTHERS),
        (partial(distance.cdist, metric=_cubed), POINTS[:2], OTHERS),
    ),
    real(
        _name("pdist"),
        (distance.pdist, POINTS),
        (_of_one_set("cityblock"), POINTS),
        (_of_one_set("seuclidean"), POINTS),
        (_of_one_set("mahalanobis"), _RNG.normal(size=(4, 2))),
        (_of_one_set(_cubed), POINTS),
    ),
    real(
        _name("squareform"),
        (distance.squareform, WEIGHTS),
        (lambda x: distance.squareform(distance.squareform(x)), WEIGHTS),
    ),
    refused(
        (f"{_name('cdist')} with metric='hamming'",),
        "counts where points differ",
        errors.UnsupportedError,
        "scipy.spatial.distance.cdist with metric='hamming' has no derivative",
        lambda x: distance.cdist(x, x, "hamming"),
        at=POINTS,
    ),
]
