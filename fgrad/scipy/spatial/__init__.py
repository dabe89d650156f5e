"""Distances between points, as in `scipy.spatial`: the area `distance`."""

import typing as _typing

from fgrad.scipy._absent import absent as _absent
from fgrad.scipy.spatial import distance as distance

if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
