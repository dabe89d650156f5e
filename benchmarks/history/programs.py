"""The seventeen kinds of program in three sizes, eager and compiled, and how long an import takes.

The programs are those of `benchmarks/kinds`, of the checkout in which asv is called.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import kinds
from kinds import KINDS, SIZES, Library


class Programs:
    """A derivative of each kind, after a first call that is not measured."""

    params = (list(KINDS), list(SIZES))
    param_names = ("kind", "size")
    timeout = 120.0

    def setup(self, name: str, size: str) -> None:
        kind, library = KINDS[name], self.library()
        if not kind.suits(library, size):
            raise NotImplementedError  # by which asv leaves a case out
        self.run: Any = kind.candidate(library, kind.arguments(size))
        self.run()

    def library(self) -> Library:
        raise NotImplementedError


class Eager(Programs):
    """As the programs stand."""

    def library(self) -> Library:
        return kinds.fgrad()

    def time_derivative(self, name: str, size: str) -> None:
        self.run()

    def peakmem_derivative(self, name: str, size: str) -> None:
        self.run()


class Compiled(Programs):
    """By `fg.compile`, where llvmlite is installed."""

    def library(self) -> Library:
        found = kinds.compiled()
        if not found:
            raise NotImplementedError
        return found[0]

    def time_derivative(self, name: str, size: str) -> None:
        self.run()


def timeraw_import() -> str:
    """Return the program that is timed in a process of its own."""
    return "import fgrad"
