"""What holds for the whole suite: after each test, nothing is left open."""

from collections.abc import Iterator

import pytest

from fgrad.core import variable


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    yield
    assert variable._watchers.open == []
