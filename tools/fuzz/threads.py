"""Family `threads`: the same work alone, and in several threads at once, which must give the same to the last bit.

The interpreter switches threads as often as it can. The work is that of the other families, stacks of transforms and
calls of SciPy's functions, and training by tapes and optimizers; the threads share functions, but no state.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

import fgrad as fg
from fgrad import errors
from fuzz import scipy_calls, transforms
from fuzz.case import RIGHT, UNDECIDED, WRONG, Outcome

Task = Callable[[], Any]
REPEATS = 2

OPTIMIZERS: list[Callable[[], Any]] = [
    lambda: fg.optimizers.GradientDescent(0.1),
    lambda: fg.optimizers.Momentum(0.1, 0.8),
    lambda: fg.optimizers.Adam(0.05),
    lambda: fg.optimizers.RMSProp(0.05),
    lambda: fg.optimizers.Adagrad(0.2),
    lambda: fg.optimizers.Ftrl(0.3),
]


def run(seed: int) -> Outcome:
    """Return what comes of the tasks that a seed says, together and alone."""
    rng = np.random.default_rng(seed)
    made = [drawn(rng) for _ in range(int(rng.integers(2, 5)))]
    text = "\n\n".join(text for text, _ in made)
    alone = [answer(task) for _, task in made]
    if all(isinstance(found, str) for found in alone):
        return Outcome(UNDECIDED, text, f"alone, each task raises: {alone[0]}")
    count = int(rng.integers(4, 9))
    tasks = [made[place % len(made)][1] for place in range(count * REPEATS)]
    for place, found in enumerate(together(tasks, count)):
        expected = alone[place % len(made)]
        if not same(found, expected):
            said = f"in {count} threads, task {place % len(made)} gives {found!r}, and alone {expected!r}"
            return Outcome(WRONG, text, said)
    return Outcome(RIGHT, text)


def answer(task: Task) -> Any:
    """Return what a task gives as plain numbers, or the error that it raises, as text."""
    try:
        return [np.asarray(x) for x in fg.tree_leaves(task())]
    except errors.FgradError as error:
        return type(error).__name__
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def same(found: Any, expected: Any) -> bool:
    """Return whether two answers are the same to the last bit."""
    if isinstance(found, str) or isinstance(expected, str):
        return bool(isinstance(found, str) and found == expected)
    return len(found) == len(expected) and all(
        x.shape == y.shape and x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")
        for x, y in zip(found, expected, strict=True)
    )


@contextmanager
def switching() -> Iterator[None]:
    """Switch threads after as few instructions as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def together(tasks: list[Task], count: int) -> list[Any]:
    """Run tasks in so many threads, which start at once, and return what each gave."""
    start = threading.Barrier(count)

    def run_one(place: int) -> Any:
        if place < count:
            start.wait(60)
        with np.errstate(all="ignore"):  # which each thread has of its own
            return answer(tasks[place])

    with switching(), ThreadPoolExecutor(count) as pool:
        return list(pool.map(run_one, range(len(tasks))))


def drawn(rng: np.random.Generator) -> tuple[str, Task]:
    """Return a random task, and what it is."""
    kind = rng.integers(4)
    seed = int(rng.integers(10**9))
    if kind == 0:
        return of_scipy(seed)
    return of_training(seed) if kind == 1 else of_transforms(seed)


def of_transforms(seed: int) -> tuple[str, Task]:
    """Return a stack of transforms."""
    program = transforms.drawn(np.random.default_rng(seed), depth=2)
    function = program.function()
    return program.replay(), lambda: function(fg.constant(program.x))


def of_scipy(seed: int) -> tuple[str, Task]:
    """Return the derivatives of a call of SciPy's, in both modes."""
    draw = scipy_calls.drawn(np.random.default_rng(seed), seed)

    def function(*xs: Any) -> Any:
        return scipy_calls.leaves(draw.call.function(*draw.at(xs)))

    def task() -> Any:
        xs = draw.along(0.0)
        value, pullback = fg.vjp(function, *xs)
        return value, fg.jvp(function, tuple(xs), tuple(draw.directions[0])), pullback(draw.weights(value))

    return draw.text(), task


def of_training(seed: int) -> tuple[str, Task]:
    """Return some steps of an optimizer, by a tape or by its own gradients, over an expression's loss."""
    rng = np.random.default_rng(seed)
    program = transforms.drawn(rng, depth=0)
    function, by_tape = program.function(), rng.random() < 0.5
    make = OPTIMIZERS[rng.integers(len(OPTIMIZERS))]

    def task() -> Any:
        w, optimizer = fg.Variable(program.x), make()
        for _ in range(8):
            if by_tape:
                with fg.GradientTape() as tape:
                    loss = function(w * 1.0) + np.sum(w * w)
                optimizer.apply_gradients([(tape.gradient(loss, w), w)])
            else:
                optimizer.minimize(lambda: function(w * 1.0) + np.sum(w * w))
        return w.numpy()

    how = "by a tape" if by_tape else "by minimize"
    text = f"{program.replay()}\n# 8 steps of {type(make()).__name__} {how} from there, on that plus np.sum(x * x)"
    return text, task
