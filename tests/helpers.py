"""What several test files share."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fgrad as fg


def plain(tree: Any) -> Any:
    """Return containers with every Tensor, Variable and array as nested lists of Python numbers."""
    if isinstance(tree, (fg.Tensor, fg.Variable, np.ndarray, np.generic)):
        return tree.tolist()
    if isinstance(tree, dict):
        return {key: plain(value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*map(plain, tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(plain, tree))
    return tree


def along(f: Any) -> Any:
    """Return the derivative of a function of one scalar, by forward mode."""

    def derivative(x: Any) -> Any:
        return fg.jvp(f, (x,), (1.0,))[1]

    return derivative


def in_every_order(f: Any, point: tuple[float, ...], highest: int = 3) -> dict[tuple[int, ...], list[float]]:
    """Return the partial derivatives of a function of numbers, taken in each order of arguments and by mixed modes.

    Args:
        f: of as many numbers as the point has.
        point: where.
        highest: up to which order.

    Returns:
        By the arguments, sorted, the values that all ways lead to.
    """
    found: dict[tuple[int, ...], list[float]] = {}
    for order in range(1, highest + 1):
        for places in itertools.product(range(len(point)), repeat=order):
            for forward in ((), range(order), range(0, order, 2)):  # which of the derivatives are taken by forward mode
                derivative = f
                for step, place in enumerate(places):
                    derivative = _partial(derivative, place, step in forward)
                with np.errstate(all="ignore"):
                    found.setdefault(tuple(sorted(places)), []).append(float(derivative(*map(np.float64, point))))
    return found


def _partial(f: Any, place: int, forward: bool) -> Any:
    if not forward:
        return fg.grad(f, place)
    return lambda *args: along(lambda x: f(*args[:place], x, *args[place + 1 :]))(args[place])


def grouped(cases: Any, name_of: Callable[[str], str]) -> list[Any]:
    """Return one parameter for each name, a list of its cases with their ids: the test goes through them.

    Args:
        cases: `pytest.param`s with ids.
        name_of: makes an id the name of the group.
    """
    groups: dict[str, list[Any]] = {}
    for case in cases:
        groups.setdefault(name_of(case.id), []).append((case.id, *case.values))
    return [pytest.param(group, id=name) for name, group in groups.items()]


TOGETHER = 10
"""How many cases a test of `in_groups` goes through."""


def in_groups(name: str, values: Any, name_of: Callable[[Any], str] = str) -> Callable[[Any], Any]:
    """Parametrize a test whose cases take some milliseconds, which is less than it takes to begin and to end one.

    Args:
        name: of the test's parameter.
        values: that it takes in turn; a failure says which one it was.
        name_of: makes a name of a value, for `pytest -k`.
    """
    values = list(values)
    groups = [values[i : i + TOGETHER] for i in range(0, len(values), TOGETHER)]

    def decorated(test: Any) -> Any:
        def each(group: Any) -> None:
            for value in group:
                with naming(name_of(value)):
                    test(**{name: value})

        for said in ("__name__", "__doc__", "__module__", "pytestmark"):
            if hasattr(test, said):
                setattr(each, said, getattr(test, said))
        ids = ["-".join(map(name_of, group)) for group in groups]
        return pytest.mark.parametrize("group", groups, ids=ids)(each)

    return decorated


@contextlib.contextmanager
def naming(*case: Any) -> Iterator[None]:
    """Say in a failure which case of several in one test it is about."""
    try:
        yield
    except BaseException as error:  # as pytest's own failures are
        error.add_note(f"in the case {', '.join(map(str, case))}")
        raise


def on_tape(loss, w):
    """Return the gradient of a loss by a tape."""
    with fg.GradientTape() as tape:
        v = fg.constant(w)
        tape.watch(v)
        result = loss(v)
    return tape.gradient(result, v)


@contextlib.contextmanager
def defined_as(primitive, **attributes):
    """Let a primitive say something else for the time of a block."""
    before = {name: getattr(primitive, name) for name in attributes}
    try:
        for name, value in attributes.items():
            object.__setattr__(primitive, name, value)
        yield
    finally:
        for name, value in before.items():
            object.__setattr__(primitive, name, value)
