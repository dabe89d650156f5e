"""Recorded programs compiled and run by JAX, for `fg.compile(f, backend="jax")`.

Executable(block, options).run(arrays)    from NumPy arrays to NumPy arrays
executable.call(arrays)                   from JAX arrays to JAX arrays, on their devices
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.engines.jax.library import has_64_bits, in_64_bits, in_native_order, jax
from fgrad.engines.jax.programs import Run, check_32_bits, prepared
from fgrad.graphs.derived import computed
from fgrad.graphs.equations import Name, names_of
from fgrad.graphs.graph import Block
from fgrad.native.options import Options


class Executable:
    """The program of a graph, which JAX compiles at the first run.

    Args:
        block: the graph.
        options: the device.

    Attributes:
        block: the graph after rerolling and optimization of loops.
    """

    def __init__(self, block: Block, options: Options) -> None:
        self.block = prepared(block)
        self._source = block
        self._device = options.device
        self._jitted = jax.jit(self.traced)

    def traced(self, *leaves: object) -> tuple[list[Any], Any]:
        """Return the results that are not constants, and whether NumPy would have raised, as JAX operations."""
        run = Run()
        return _without_constants(run.computed(self.block, leaves), self.block), run.failed()

    def run(self, arrays: Sequence[Any]) -> list[Any] | None:
        """Return the results that are not constants; None where NumPy has to run the program, and will raise."""
        with in_64_bits():
            device = _device(self._device)
            with jax.default_device(device):
                found, failed = self._jitted(*(jax.device_put(in_native_order(x), device) for x in arrays))
            if failed is not None and failed:
                return None
            names = names_of(self.block.outputs)
            return [np.array(x, name.dtype) for x, name in zip(found, names, strict=True)]

    def call(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the same results as JAX arrays, for JAX arrays.

        Raises:
            Exception: NumPy's error for such arrays.
        """
        with in_64_bits():
            found, failed = self._jitted(*arrays)
            if failed is not None and not isinstance(failed, jax.core.Tracer) and failed:
                results = computed(self._source, [np.asarray(x) for x in arrays])
                return list(map(jax.numpy.asarray, _without_constants(results, self._source)))
            return list(found)


class Inlined:
    """A program as part of a larger JAX program: `fg.to_jax`.

    Args:
        block: the program.
    """

    def __init__(self, block: Block) -> None:
        self.block = prepared(block)

    def call(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the results that are not constants.

        Raises:
            DtypeError: a TypeError; JAX would compute in 32 bits what NumPy computes in 64.
        """
        if not has_64_bits():
            check_32_bits(self.block)
        return _without_constants(Run().computed(self.block, arrays), self.block)


def _without_constants(results: Sequence[Any], block: Block) -> list[Any]:
    """Return the results of a program that are not constants."""
    return [x for x, name in zip(results, block.outputs, strict=True) if type(name) is Name]


def _device(device: object) -> Any:
    """Return a JAX device; None means JAX's default."""
    if not isinstance(device, str):
        return device
    try:
        return jax.devices(device)[0]
    except RuntimeError as error:
        raise errors.ParameterError(f"device {device!r} of compile is not available in JAX: {error}") from None
