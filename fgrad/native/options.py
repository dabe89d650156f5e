"""How a program is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fgrad.graphs.graph import Block


@dataclass(frozen=True)
class Options:
    """What a user of `compile` may ask for.

    Attributes:
        threads: on how many cores large loops and products run; None: what the environment says, or all.
        precise: elementary functions are the C library's, one number at a time.
        shared: native code is kept for all programs that are the same, and not with one function.
        backend: what runs programs: "native", or the name of an engine.
        device: where an engine runs them; None: where it does by itself.
        inline: what an engine runs is to be part of what it runs around them.
        cache: the folder in which native code is kept for other processes; None: nowhere.
        finds_loops: whether loops of Python's are found again in what is recorded.
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
        """What runs programs."""
        return ENGINES[self.backend]

    @property
    def is_native(self) -> bool:
        """Whether programs run as native code."""
        return self.backend == "native"


DEFAULT = Options()


class Engine(Protocol):
    """Native code, or a library, that runs recorded programs."""

    def executable(self, block: Block, options: Options) -> Any:
        """Return what runs a program, as an `Executable` does: `run(arrays)`, and `call(arrays)` for its own arrays."""

    def owns(self, x: Any) -> bool:
        """Return whether an argument is an array of the library."""

    def example(self, x: Any) -> Any:
        """Return a NumPy array as an array of the library."""


ENGINES: dict[str, Engine] = {}
"""By the name of the backend; each registers itself. Native code is among them: it runs programs itself, as iterations
of a loop."""
