"""What fgrad does with SciPy's functions: the rows of all areas, for `tools/table_pages.py`.

`scipy.special` has a row for each of its ufuncs, which work on tensors as they are, and for what
`fgrad.scipy.special` adds; the other areas have one for each name that `fgrad.scipy` offers. The calls
of the rows are run by the tests of the area.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import scipy.special
import scipy_integrate_table
import scipy_interpolate_table
import scipy_linalg_table
import scipy_ndimage_table
import scipy_optimize_table
import scipy_signal_table
import scipy_sparse_table
import scipy_spatial_table
import scipy_special_table_a
import scipy_special_table_b
import scipy_stats_table
from coverage_table import CLASSES, Row

AREAS: dict[str, list[Row]] = {
    "special": sorted(
        [*scipy_special_table_a.ROWS, *scipy_special_table_b.ROWS], key=lambda row: row.names[0].rpartition(".")[2]
    ),
    "linalg": scipy_linalg_table.ROWS,
    "stats": scipy_stats_table.ROWS,
    "optimize": scipy_optimize_table.ROWS,
    "integrate": scipy_integrate_table.ROWS,
    "interpolate": scipy_interpolate_table.ROWS,
    "signal": scipy_signal_table.ROWS,
    "ndimage": scipy_ndimage_table.ROWS,
    "spatial.distance": scipy_spatial_table.ROWS,
    "sparse": scipy_sparse_table.ARRAYS,
    "sparse.linalg": scipy_sparse_table.EQUATIONS,
}


def names(rows: list[Row]) -> dict[str, str]:
    """Return the names of rows with the class of each; a row for a variant says so behind the name."""
    found: dict[str, str] = {}
    for row in rows:
        for name in row.names:
            found.setdefault(name.partition(" ")[0], row.kind)
    return found


def counts() -> dict[str, dict[str, int]]:
    """Return how many names of each area are of each class."""
    kinds = {area: list(names(rows).values()) for area, rows in AREAS.items()}
    return {area: {kind: found.count(kind) for kind in CLASSES} for area, found in kinds.items()}


def ufuncs(inputs: Any) -> set[str]:
    """Return the ufuncs of `scipy.special` with so many arguments, under one name each."""
    found: dict[int, str] = {}
    for name, value in sorted(vars(scipy.special).items()):
        if isinstance(value, np.ufunc) and not name.startswith("_") and value.nin in inputs:
            found.setdefault(id(value), name)
    return set(found.values())


def offered(area: str) -> set[str]:
    """Return the names that `fgrad.scipy` offers in an area."""
    module = importlib.import_module(f"fgrad.scipy.{area}")
    return {
        f"{module.__name__}.{name}"
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith(module.__name__)
    }
