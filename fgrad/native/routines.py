"""Routines of libraries that native code calls: products of matrices by BLAS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ROUTINES: dict[str, Callable[..., Any]] = {}
"""By name: what returns the body of a function that runs a `Called`, and the functions of libraries that it calls."""
