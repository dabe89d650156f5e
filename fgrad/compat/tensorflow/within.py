"""`tf.gradients` inside of `tf.function`: the tape under which such a function runs if needed.

    Run                 a run of such a function, which records its requests for gradients
    taped(function)     the function, under a tape
    gradients_within    gradients of values computed in the function

A TensorFlow function is a graph, and may request gradients of everything that it computes. Here it then runs again,
under a tape that watches its arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from fgrad import errors
from fgrad.compat.deferred.graph import Convertible
from fgrad.compat.deferred.loops import as_list
from fgrad.compat.deferred.state import MADE
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor
from fgrad.core.trace import Trace
from fgrad.core.tree import flatten
from fgrad.core.variable import Variable, VariableWatch
from fgrad.tapes.tape import GradientTape, gradients_on, jacobian_on, key_of
from fgrad.transforms.linearization import UnconnectedGradients, check_unconnected
from fgrad.typing import Array

_tapes: ContextVar[tuple[GradientTape, ...]] = ContextVar("tapes", default=())


class Run:
    """A run of a function, while it is open.

    Attributes:
        needs_tape: whether gradients were requested without a tape.
        unknown: sources of requested gradients that the tape does not watch.
        assignments: a nested observer, which records whether variables are assigned.
    """

    def __init__(self) -> None:
        self.needs_tape = False
        self.unknown: list[Any] = []

    @functools.cached_property
    def assignments(self) -> Assignments:
        return Assignments()

    def __enter__(self) -> Run:
        self._token = _runs.set((*_runs.get(), self))
        return self

    def __exit__(self, *exception: object) -> None:
        _runs.reset(self._token)


class Assignments(VariableWatch):
    """Records whether variables are assigned while it is open."""

    def __init__(self) -> None:
        super().__init__(Trace(), all_trainable=False)
        self.happened = False

    def assigns(self, variable: Variable) -> None:
        self.happened = True


_runs: ContextVar[tuple[Run, ...]] = ContextVar("runs", default=())


def is_without_tape() -> bool:
    """Return whether a function runs without a tape; the request for one is recorded."""
    for run in _runs.get()[-1:]:
        run.needs_tape = True
    return bool(_runs.get())


def taped(function: Callable[..., Any], outside: Sequence[Any]) -> Callable[..., Any]:
    """Return a function that runs under a tape, which watches its arguments, and captured tensors."""

    @functools.wraps(function)
    def run(*args: Array, **keywords: object) -> Any:
        with GradientTape(persistent=True) as tape:
            leaves = [*flatten((args, keywords))[0], *outside]
            tape.watch([x for x in leaves if type(x) in BOXES and x.dtype.kind in "fc"])
            token = _tapes.set((*_tapes.get(), tape))
            try:
                return function(*args, **keywords)
            finally:
                _tapes.reset(token)

    return run


def _watch_made(constant: Array) -> None:
    """Watch a constant that a function creates under its tape."""
    if (tapes := _tapes.get()) and type(constant) is Tensor and constant.dtype.kind in "fc":
        tapes[-1].watch(constant)


MADE.append(_watch_made)


def is_within() -> bool:
    """Return whether a function runs under its tape."""
    return bool(_tapes.get())


def gradients_within(
    ys: Convertible,
    xs: Any,
    grad_ys: Any = None,
    stop_gradients: Any = None,
    unconnected: str = UnconnectedGradients.NONE,
) -> list[Any]:
    """Return the result of `tf.gradients` for values computed in the innermost function."""
    check_unconnected(unconnected)
    ys, xs = as_list(ys), as_list(xs)
    _check_known(xs)
    stops = [] if stop_gradients is None else as_list(stop_gradients)
    weights = None if grad_ys is None else as_list(grad_ys)
    return gradients_on(_tapes.get()[-1], ys, xs, weights, stops, unconnected)


def hessians_within(ys: Convertible, xs: Convertible) -> list[Any]:
    """Return the result of `tf.hessians` for values computed in the innermost function."""
    xs = as_list(xs)
    first = gradients_within(ys, xs, unconnected=UnconnectedGradients.ZERO)
    pairs = zip(first, xs, strict=True)
    return [jacobian_on(_tapes.get()[-1], gradient, x, UnconnectedGradients.ZERO) for gradient, x in pairs]


def _check_known(xs: Sequence[Any]) -> None:
    tape = _tapes.get()[-1]
    tensors = [x for x in xs if type(x) in BOXES and not isinstance(x, Variable) and x.dtype.kind in "fc"]
    if unknown := [x for x in tensors if key_of(tape, x) is None]:
        for run in _runs.get()[-1:]:
            run.unknown = unknown
        raise errors.SourceError(
            f"xs holds {unknown[0]!r:.200}, with respect to which there is no gradient: inside of tf.function, "
            "gradients exist with respect to its arguments, variables, captured tensors, results of tf.constant, and "
            "values computed from these.\n"
            "Make it an argument of the function, or use tf.GradientTape, and watch it."
        )
