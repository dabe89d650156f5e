"""JAX functions as operations.

from_jax(f)    f for arrays and tensors; differentiated and mapped by JAX
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, ParamSpec

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.interop.imported import Library, Numbers, Theirs, are_moving, call, load, split
from fgrad.rules.rule import Leaves
from fgrad.transforms.calls import decorator
from fgrad.typing import DTypeLike

P = ParamSpec("P")

_SMALL = 1 << 16
"""Size in bytes up to which an array is copied for JAX."""


class _Jax(Library):
    """The interface of JAX, whose transforms compose like those of fgrad."""

    name = "JAX"
    array = "arrays of JAX"

    def __init__(self) -> None:
        self._jax = load("jax")
        self._numpy = load("jax.numpy")

    @override
    def is_result(self, x: Any) -> bool:
        # JAX never converts its traced arrays to NumPy arrays or numbers: these are constants.
        return isinstance(x, (self._jax.Array, np.ndarray, np.generic, bool, int, float, complex))

    @override
    def mode(self, arrays: Leaves) -> AbstractContextManager[Any]:
        """Enable 64 bits in JAX if an array has them: otherwise JAX would convert it to 32 bits."""
        numbers = [x.dtype for x in arrays]
        narrow = any(dtype.kind in "fc" for dtype in numbers) and not any(map(_is_wide, numbers))
        return nullcontext() if narrow else self._jax.enable_x64(True)

    @override
    def run(self, function: Theirs, arrays: Leaves) -> list[Any]:
        return self._back(function(self._over(arrays)), arrays)

    @override
    def pulling(self, function: Theirs, arrays: Leaves, name: str | None) -> tuple[list[Any], Numbers]:
        moved, run = split(function, self._over(arrays), are_moving(arrays), self._is_moving)
        _, pull, all_results = self._jax.vjp(run, *moved, has_aux=True)

        def pulled(cotangents: Leaves) -> Leaves:
            return self._back(self._pulled_back(pull, self._over(cotangents)), [*arrays, *cotangents])

        return self._back(all_results, arrays), pulled

    @override
    def pushing(self, function: Theirs, arrays: Leaves) -> tuple[list[Any], Numbers]:
        moved, run = split(function, self._over(arrays), are_moving(arrays), self._is_moving)
        _, push, all_results = self._jax.linearize(run, *moved, has_aux=True)

        def pushed(tangents: Leaves) -> Leaves:
            return self._back(push(*self._over(tangents)), [*arrays, *tangents])

        return self._back(all_results, arrays), pushed

    @override
    def pulled(self, function: Theirs, moving: Sequence[bool]) -> Theirs:
        def pulled(arrays: list[Any]) -> list[Any]:
            moved, run = split(function, arrays[: len(moving)], moving, self._is_moving)
            _, pull, _ = self._jax.vjp(run, *moved, has_aux=True)
            return self._pulled_back(pull, arrays[len(moving) :])

        return pulled

    @override
    def pushed(self, function: Theirs, moving: Sequence[bool]) -> Theirs:
        def pushed(arrays: list[Any]) -> list[Any]:
            moved, run = split(function, arrays[: len(moving)], moving, self._is_moving)
            return list(self._jax.jvp(run, moved, tuple(arrays[len(moving) :]), has_aux=True)[1])

        return pushed

    @override
    def mapped(self, function: Theirs, axes: Sequence[int | None], name: str) -> Theirs:
        return self._jax.vmap(function, in_axes=(list(axes),))  # type: ignore[no-any-return]

    def _pulled_back(self, pull: Callable[[Any], Any], cotangents: list[Any]) -> list[Any]:
        """Pull back in the public convention; JAX's pullbacks transpose and do not conjugate."""
        conjugate = self._numpy.conjugate
        return [conjugate(x) for x in pull(tuple(conjugate(ct) for ct in cotangents))]

    def _is_moving(self, x: Any) -> bool:
        """Return whether a result has a derivative."""
        return bool(self._numpy.issubdtype(self._numpy.result_type(x), self._numpy.inexact))

    def _over(self, arrays: Leaves) -> list[Any]:
        """Return JAX arrays, which share memory where JAX can."""
        theirs = [x if isinstance(x, self._jax.Array) else self._put(np.asarray(x)) for x in arrays]
        for x, there in zip(arrays, theirs, strict=True):
            if there.dtype != x.dtype:
                raise _no_such_dtype(x.dtype, there.dtype)
        return theirs

    def _put(self, x: Any) -> Any:
        if x.dtype.itemsize > (16 if x.dtype.kind == "c" else 8):
            raise _no_such_dtype(x.dtype, None)
        # Copying small arrays is faster than avoiding it; for larger ones JAX decides whether a copy is needed.
        return self._numpy.array(x) if x.nbytes <= _SMALL else self._jax.device_put(x)

    def _back(self, results: Sequence[Any], given: Leaves) -> list[Any]:
        """Return read-only NumPy arrays on the memory of JAX arrays.

        Results in the memory of an argument are copied, since its owner may write to it.
        """
        shared = [x for x in given if x.nbytes > _SMALL]
        arrays = [np.asarray(x) for x in results]
        for x in arrays:
            if x.dtype.kind not in "biufc":
                raise errors.DtypeError(
                    f"a function of JAX returned an array of dtype {x.dtype}, which NumPy does not support.\n"
                    "Let it return x.astype(jax.numpy.float32)."
                )
        return [x.copy() if any(np.may_share_memory(x, each) for each in shared) else x for x in arrays]


def _is_wide(dtype: np.dtype[Any]) -> bool:
    return dtype.itemsize >= (16 if dtype.kind == "c" else 8)


def _no_such_dtype(dtype: DTypeLike, instead: object) -> errors.DtypeError:
    return errors.DtypeError(
        f"JAX has no arrays of dtype {dtype}" + (f", and would convert it to {instead}" if instead else "") + ".\n"
        "Convert it before the call: x.astype(np.float64)."
    )


_jax = cache(_Jax)


def _run_from_jax(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return call(_jax(), function, args, keywords)


def from_jax(function: Callable[P, Any]) -> Callable[P, Any]:
    """Make a function written with JAX one operation.

    JAX computes its value and its derivatives; all transforms support it, in both modes and to any order, and
    `vmap` is `jax.vmap`. JAX compiles functions under `jax.jit`: for speed, use `from_jax(jax.jit(f))`.

    Arrays keep their 64 bits: the call and its derivatives run with `jax.enable_x64`. If all floating-point arrays
    have 32 bits, and no integer has 64, they run with JAX's own setting. Memory is shared where JAX can share it.

    Args:
        function: takes and returns JAX arrays, or containers of them. Arrays and tensors become JAX arrays, and
            so are floats if there is no floating-point array; other arguments, such as Python integers, are passed
            unchanged. It must be pure, as JAX requires: it runs again when it is differentiated.
            Traced values that it closes over raise an `ArrayConversionError`; pass them as arguments.

    Returns:
        A function of NumPy arrays, tensors and containers of them, which returns tensors.

    Raises:
        MissingExtraError: an ImportError, from a call; JAX is not installed.
        NotCallableError: a TypeError; `function` is not a function.
        OutputError: a TypeError, from a call; `function` returned something that is not an array.
        DtypeError: a TypeError, from a call; JAX does not support the dtype of an argument, or NumPy that of a result.

    Example:
        >>> import jax.numpy as jnp, numpy as np, fgrad as fg
        >>> from fgrad.interop import from_jax
        >>> energy = from_jax(lambda x: jnp.sum(jnp.sin(x) ** 2))
        >>> fg.grad(lambda x: energy(np.exp(x)))(np.array([0.0, 1.0]))
        Tensor([ 0.90929743, -2.0361194 ])
    """
    return decorator(_run_from_jax, function)  # type: ignore[no-any-return]
