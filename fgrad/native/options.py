"""Options of the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fgrad.graphs.graph import Block


@dataclass(frozen=True)
class Options:
    """The options of `compile`.

    Attributes:
        threads: the number of cores for large loops and products; None for the environment's setting, or all.
        precise: whether elementary functions are the C library's scalar ones.
        shared: whether native code is cached for all equal programs, rather than with one function.
        backend: "native", or the name of an engine.
        device: the device of an engine; None for its default.
        inline: whether an engine inlines the program into the surrounding one.
        cache: the folder of the persistent code cache; None for no cache.
        finds_loops: whether Python loops are rerolled.
    """

    threads: int | None = None
    precise: bool = False
    shared: bool = False
    backend: str = "native"
    device: Any = None
    inline: bool = False
    cache: str | None = None
    finds_loops: bool = True

    @property
    def engine(self) -> Engine:
        """The engine that runs programs."""
        return ENGINES[self.backend]

    @property
    def is_native(self) -> bool:
        """Whether programs run as native code."""
        return self.backend == "native"


DEFAULT = Options()


class Engine(Protocol):
    """An engine that runs recorded programs: native code, or a library."""

    def executable(self, block: Block, options: Options, written: Mapping[int, int]) -> Any:
        """Return the executable of a program, with `run(arrays)`, and `call(arrays)` for arrays of the engine.

        Args:
            block: the program.
            options: the options of the compilation.
            written: the positions of outputs that `run` may store in the memory of an input, with the input's position.
        """

    def owns(self, x: Any) -> bool:
        """Return whether an argument is an array of the library."""

    def example(self, x: Any) -> Any:
        """Return a NumPy array that describes an array of the library."""


ENGINES: dict[str, Engine] = {}
"""Engines by the name of the backend; each registers itself. Native code is one of them."""
