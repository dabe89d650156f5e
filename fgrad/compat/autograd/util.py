"""Helper functions of Autograd."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from fgrad.compat.autograd.sequences import subval, subvals, toposort
from fgrad.compat.autograd.test_util import check_grads

__all__ = ["func", "quick_grad_check", "subval", "subvals", "toposort"]


def func(f: Any) -> Any:
    """Return a function from a class, which is the function itself."""
    return f


def quick_grad_check(
    fun: Callable[..., Any],
    arg0: Any,
    extra_args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    **ignored: object,
) -> None:
    """Compare a gradient with finite differences, as in old versions of Autograd; see `test_util.check_grads`."""
    warnings.warn(
        "quick_grad_check is deprecated: use check_grads of autograd.test_util", DeprecationWarning, stacklevel=2
    )
    check_grads(lambda x: fun(x, *extra_args, **(kwargs or {})), modes=["rev"], order=1)(arg0)
