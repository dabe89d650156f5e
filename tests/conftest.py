"""What holds for the whole suite: one thread for BLAS, and after each test nothing is left open."""

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest

# Read when NumPy is first imported. The matrices of the tests are small: the threads of two workers on
# two processors would do nothing but wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from fgrad.core import variable
from fgrad.core.primitive import FUNCTIONS, PRIMITIVES, UFUNCS
from fgrad.core.trace import running


def pytest_collection_finish() -> None:
    """Let the collector look no more at the tests themselves, which stay to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def nothing_older_is_looked_at() -> None:
    """Let the collector look no more at what earlier modules keep, such as JAX's programs: many tests call it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    yield
    assert variable.open_watches() == []
    assert (running.call, running.maps) == (None, ())


@pytest.fixture(scope="module")
def generators(request: pytest.FixtureRequest) -> list[tuple[np.random.Generator, Any]]:
    """Return the module's generators of random numbers, each with its state before the first test."""
    found = [each for each in vars(request.module).values() if isinstance(each, np.random.Generator)]
    return [(each, each.bit_generator.state) for each in found]


@pytest.fixture(autouse=True)
def same_numbers_in_any_order(generators: list[tuple[np.random.Generator, Any]]) -> None:
    """Let each test draw what it draws alone: which tests have run before depends on the worker."""
    for generator, state in generators:
        generator.bit_generator.state = state


@pytest.fixture(scope="module")
def jax_as_it_was() -> Iterator[None]:
    """For modules that run benchmarks, which set JAX to double precision for their whole process."""
    import jax  # here, since most modules need none

    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def table() -> Iterator[None]:
    """What a test registers is taken back."""
    kept: list[tuple[Any, Any]] = [(each, dict(each)) for each in (PRIMITIVES, UFUNCS, FUNCTIONS)]
    yield
    for changed, before in kept:
        changed.clear()
        changed.update(before)
