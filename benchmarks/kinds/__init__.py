"""Seventeen kinds of program in three sizes, each with its derivative written by hand beside it."""

from . import elementwise, likelihoods, matrices, networks, simulations
from .installed import compiled, fgrad, installed_peers, written
from .kind import SIZES, Kind, compare, leaves
from .libraries import CompiledFgrad, CompiledJax, Library

MODULES = (networks, matrices, likelihoods, elementwise, simulations)
KINDS = {kind.name: kind for module in MODULES for kind in module.KINDS}

__all__ = [
    "KINDS",
    "MODULES",
    "SIZES",
    "CompiledFgrad",
    "CompiledJax",
    "Kind",
    "Library",
    "compare",
    "compiled",
    "fgrad",
    "installed_peers",
    "leaves",
    "written",
]
