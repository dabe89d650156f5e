"""A plugin of pytest for both runs of a package's tests.

Each test begins with the same state of Python's and NumPy's random numbers, so that both runs draw the same ones. The
report says which module answered to the name `autograd`.
"""

import random
import sys

import numpy as np
import pytest


def pytest_configure():
    """Begin with modules and classes, which may draw random numbers, too."""
    seed()


def pytest_runtest_setup():
    """Begin with a test."""
    seed()


def seed():
    """Bring Python's and NumPy's random numbers into the state that each run begins with."""
    random.seed(0)
    np.random.seed(0)


@pytest.fixture(autouse=True, scope="session")
def _which_autograd(record_testsuite_property):
    yield
    record_testsuite_property("autograd", getattr(sys.modules.get("autograd"), "__name__", "nothing"))
