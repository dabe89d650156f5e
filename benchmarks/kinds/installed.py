"""Which libraries can be measured here."""

from __future__ import annotations

import functools
import importlib
import importlib.util

from .libraries import Autograd, CompiledFgrad, CompiledJax, Fgrad, Jax, Library
from .pytorch import Torch

PEERS = {"autograd": (Autograd,), "jax": (Jax, CompiledJax), "torch": (Torch,)}
"""By the package they need."""


@functools.cache
def fgrad() -> Library:
    """Return fgrad."""
    return Fgrad()


def written() -> Library:
    """Return the derivatives that fgrad takes, written out."""
    # Imported here, since another checkout, which is measured too, may have a graph made of other things.
    library: Library = importlib.import_module(".transcript", __package__).WrittenOut()
    return library


def compiled() -> list[Library]:
    """Return fgrad's compiled programs, where what they need is installed."""
    return [CompiledFgrad()] if importlib.util.find_spec("llvmlite") else []


def installed_peers() -> list[Library]:
    """Return the other libraries that are installed."""
    return [kind() for package, kinds in PEERS.items() if importlib.util.find_spec(package) for kind in kinds]
