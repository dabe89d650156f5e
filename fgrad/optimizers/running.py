"""The loop around an optimizer: steps, a progress bar, a callback, and a history.

    run(loss, variables, steps, optimizer)      `loss()` reads the variables, which are updated in place
    run(loss, params, steps, optimizer)         `loss(params)` takes a container; the history holds the new one

One step of a run is `compute_gradients` and `apply_gradients`, or `update`; these can be used to write another loop.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.core.tree import flatten, leaves_and_nones, paths
from fgrad.core.variable import Variable
from fgrad.optimizers import inputs
from fgrad.optimizers.adam import Adam
from fgrad.optimizers.base import Optimizer, State
from fgrad.progress import track
from fgrad.transforms.reverse import value_and_grad

Callback = Callable[[int, float, Any], Any]


class Step(NamedTuple):
    """The measurements of one step; the norms are by variable, or by the path in the container."""

    loss: float
    norms: dict[Any, float]
    seconds: float


@dataclasses.dataclass(repr=False, eq=False)
class History:
    """The history of a run: one entry for each completed step.

    Attributes:
        params: the parameters after the last step: the container, or the given variables.
        state: the state of the optimizer after the last step, to continue from; None for variables, for which the
            optimizer keeps it.
        planned: the number of steps requested.
        stopped: why the run ended: "steps" (all are done), "callback", "interrupted" (Ctrl-C), or "error".

    Example:
        >>> import fgrad as fg
        >>> history = run(lambda p: p["w"] ** 2, {"w": 1.0}, 3, fg.optimizers.GradientDescent(0.25), progress=False)
        >>> history.losses
        array([1.    , 0.25  , 0.0625])
        >>> history.gradient_norms
        {"['w']": array([2. , 1. , 0.5])}
    """

    params: Any
    state: State | None
    planned: int
    stopped: str = "error"
    _rows: list[Step] = dataclasses.field(default_factory=list)

    @property
    def losses(self) -> npt.NDArray[np.float64]:
        """The loss of each step, computed before the parameters were updated."""
        return np.array([row.loss for row in self._rows], np.float64)

    @property
    def times(self) -> npt.NDArray[np.float64]:
        """The time at the end of each step, in seconds since the run began."""
        return np.array([row.seconds for row in self._rows], np.float64)

    @property
    def rows(self) -> list[Step]:
        """The measurements, step by step."""
        return self._rows

    @property
    def seconds(self) -> float:
        """The time at the end of the last step."""
        return self._rows[-1].seconds if self._rows else 0.0

    @property
    def gradient_norms(self) -> dict[str, npt.NDArray[np.float64]]:
        """The Euclidean norm of the gradient in each step, by the name of the variable or the path to the parameter.

        It is infinite if the gradient is not finite, and NaN if the loss did not depend on the variable.
        """
        keys = dict.fromkeys(key for row in self._rows for key in row.norms)
        names: dict[str, npt.NDArray[np.float64]] = {}
        for key in keys:
            name = key.name if isinstance(key, Variable) else key
            norms = np.array([row.norms.get(key, math.nan) for row in self._rows], np.float64)
            names[_unused(name, names)] = norms
        return names

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        if not self._rows:
            return f"History(no steps, stopped={self.stopped!r})"
        first, last = self._rows[0], self._rows[-1]
        count = f"{len(self)} of {self.planned} steps" if len(self) != self.planned else f"{len(self)} steps"
        return f"History({count}, loss {first.loss:.6g} to {last.loss:.6g}, stopped={self.stopped!r})"


def _unused(name: str, taken: Iterable[str]) -> str:
    """Return a name, with a number appended if another variable has the same."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name} ({number})"
    return candidate


# The parameters


class OnVariables:
    """Variables; `compute` returns the loss, and pairs `(gradient, variable)`."""

    def __init__(
        self, compute: Callable[[], tuple[Any, list[tuple[Any, Variable]]]], variables: Any, optimizer: Optimizer
    ) -> None:
        self._compute, self._given, self._optimizer = compute, variables, optimizer
        self._used: list[Variable] = []

    def evaluate(self) -> tuple[Any, Any]:
        """Return the loss and the gradients, in the form that the callback receives."""
        value, pairs = self._compute()
        self._used = [variable for _, variable in pairs]
        return value, pairs

    def norms(self, gradients: Any) -> dict[Any, Any]:
        """Return a mapping from variables, or paths of parameters, to their gradients."""
        return {variable: gradient for gradient, variable in gradients}

    def update(self, gradients: Any) -> None:
        """Make the step."""
        self._optimizer.apply_gradients(gradients)

    def snapshot(self) -> Any:
        """Return the data with which `restore` undoes a step."""
        optimizer = self._optimizer
        values = [(variable, variable.numpy()) for variable in self._used]
        return values, optimizer._slots, optimizer._step, optimizer.skipped

    def restore(self, before: Any) -> None:
        """Undo an incomplete step."""
        values, slots, step, skipped = before
        for variable, value in values:
            variable.assign(value)
        self._optimizer._slots, self._optimizer._step, self._optimizer.skipped = slots, step, skipped

    def result(self) -> tuple[Any, State | None]:
        """Return the parameters and the state of the optimizer."""
        return self._used if self._given is None else self._given, None


class OnContainer:
    """A container of arrays, with the methods of `OnVariables`; `compute` maps one to the loss and the gradient."""

    def __init__(
        self, compute: Callable[[Any], tuple[Any, Any]], params: Any, optimizer: Optimizer, state: State | None
    ) -> None:
        self._compute, self._optimizer = compute, optimizer
        self._current = params, optimizer.init(params) if state is None else state
        self._names = [path or "params" for path in paths(params)]

    def evaluate(self) -> tuple[Any, Any]:
        return self._compute(self._current[0])

    def norms(self, gradients: Any) -> dict[Any, Any]:
        return dict(zip(self._names, leaves_and_nones(gradients), strict=True))

    def update(self, gradients: Any) -> None:
        params, state = self._current
        self._current = self._optimizer.update(gradients, state, params)

    def snapshot(self) -> Any:
        return self._current

    def restore(self, before: Any) -> None:
        self._current = before

    def result(self) -> tuple[Any, State | None]:
        return self._current


Subject: TypeAlias = OnVariables | OnContainer
"""The parameters of a run, with the loss of them."""


def are_variables(params: Any) -> bool:
    """Return whether parameters are variables, and not a container of arrays."""
    leaves = flatten(params)[0]
    kinds = {isinstance(leaf, Variable) for leaf in leaves}
    if len(kinds) > 1:
        raise errors.StructureError(
            "params must hold either variables, which loss() reads, or arrays, which loss(params) takes; it holds both."
        )
    if params is not None and not leaves:
        raise errors.NoVariablesError("No variables to optimize: params is empty.")
    return params is None or kinds == {True}


def refuse_state(state: State | None) -> None:
    """Raise if a state was given for variables."""
    if state is not None:
        raise errors.ParameterError(
            "state belongs to a container of arrays; for variables the optimizer keeps it: pass the same "
            "optimizer again, or use its load_state_dict."
        )


def _subject(loss: Any, params: Any, optimizer: Optimizer, state: State | None) -> Subject:
    """Return the parameters to optimize, with their loss."""
    if not are_variables(params):
        return OnContainer(value_and_grad(loss), params, optimizer, state)
    refuse_state(state)
    variables = None if params is None else flatten(params)[0]

    def compute() -> tuple[Any, list[tuple[Any, Variable]]]:
        values = []

        def kept() -> Any:
            values.append(loss())
            return values[-1]

        pairs = optimizer.compute_gradients(kept, variables)
        return values[-1], pairs

    return OnVariables(compute, params, optimizer)


# The loop


def run(
    loss: Callable[..., Any],
    params: Any,
    steps: int,
    optimizer: Optimizer | None = None,
    *,
    state: State | None = None,
    progress: bool = True,
    callback: Callback | None = None,
    check_finite: bool = True,
) -> History:
    """Minimize a loss in a given number of steps.

    Ctrl-C ends a run after the last completed step: the result is the same as that of a run with fewer steps, and
    `stopped` is "interrupted". A step is made completely or not at all.

    Args:
        loss: returns one real number: `loss()` for variables, `loss(params)` for a container of arrays.
        params: the variables, one or a container of them, which are updated in place; None means all trainable ones
            that `loss` reads. Or a container of floating-point arrays; it is not changed, and the history holds the new
            one.
        steps: the number of steps.
        optimizer: by default `Adam()`.
        state: for a container, the `state` of an earlier history, to continue from.
        progress: show a bar on stderr (see `fgrad.progress`).
        callback: called after each step with its number from 1 on, the loss (a float), and the gradients: pairs
            `(gradient, variable)`, or a container like the parameters. The loss and the gradients are those from which
            the step was computed. It stops the run by returning True, or by raising StopIteration as in
            `scipy.optimize`; otherwise it may return None or False.
        check_finite: raise if the loss or a gradient is not finite. Otherwise the run continues; with an optimizer that
            has `skip_nonfinite=True`, such steps change nothing.

    Returns:
        A `History` with `losses`, `gradient_norms`, `times`, `params`, `state` and `stopped`.

    Raises:
        DivergenceError: a FloatingPointError; the loss or a gradient is not finite. The step is not made, and the error
            has the `history` up to then.
        NonScalarError: a TypeError; the loss is not one number.
        OutputError: a TypeError; the loss is complex, or not a tensor.
        NoGradientsError: a ValueError; the loss does not depend on any of the variables.
        ParameterError: a ValueError; `steps` is not a number of steps, the callback returned something else, or `state`
            was given for variables.
        StructureError: a TypeError; `params` holds variables and arrays.
        NotCallableError, NoVariablesError, NoResultError, IntegerInputError: as for `minimize` and `grad`.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable(3.0, name="w")
        >>> run(lambda: (w - 1) ** 2, w, 10, fg.optimizers.GradientDescent(0.25), progress=False)
        History(10 steps, loss 4 to 1.52588e-05, stopped='steps')
        >>> run(lambda p: (p["w"] - 1) ** 2, {"w": 3.0}, 3, fg.optimizers.GradientDescent(0.5), progress=False).params
        {'w': Tensor(1.)}
    """
    if not callable(loss) or type(loss) in BOXES:
        raise errors.NotCallableError(f"loss must be a function, and it is {loss!r:.200}. Write run(lambda: ..., ...).")
    check_steps(steps)
    optimizer = checked_optimizer(optimizer)
    history = History(params, None, int(steps))
    subject = _subject(loss, params, optimizer, state)
    return take_steps(
        subject, history, progress=progress, callback=callback, checks=check_finite and not optimizer.skip_nonfinite
    )


def check_steps(steps: Any) -> None:
    """Raise if `steps` is not a number of steps."""
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 0:
        raise errors.ParameterError(f"steps must be a number of steps, 0 or more, and it is {steps!r}.")


def checked_optimizer(optimizer: Any) -> Optimizer:
    """Return an optimizer; the default one for None."""
    optimizer = Adam() if optimizer is None else optimizer
    if not isinstance(optimizer, Optimizer):
        raise errors.ParameterError(
            f"optimizer must be an optimizer, such as fg.optimizers.Adam(0.1), and it is {optimizer!r}."
        )
    return optimizer


def take_steps(
    subject: Subject,
    history: History,
    *,
    progress: bool,
    callback: Callback | None,
    checks: bool,
    after: Callable[[], Any] = lambda: None,
) -> History:
    """Make the planned steps that are not yet in a history, and return it; `after` is called after each of them."""
    start = time.perf_counter() - history.seconds
    try:
        with track(range(len(history) + 1, history.planned + 1), "optimizing", show=progress) as bar:
            for step in bar:
                value, gradients = subject.evaluate()
                number = _number(value)
                norms = {key: _norm(gradient) for key, gradient in subject.norms(gradients).items()}
                if checks:
                    _check_finite(history, number, subject.norms(gradients))
                _take(subject, gradients, history, Step(number, norms, time.perf_counter() - start))
                bar.note(f"loss {number:.6g}")
                if callback is not None and _wants_to_stop(callback, step, number, gradients):
                    history.stopped = "callback"
                    return history
                after()
        history.stopped = "steps"
    except KeyboardInterrupt:
        history.stopped = "interrupted"
    finally:
        history.params, history.state = subject.result()
    return history


def _take(subject: Subject, gradients: object, history: History, row: Step) -> None:
    """Make a step and record it, both or neither, even if Ctrl-C interrupts."""
    before, count = subject.snapshot(), len(history)
    try:
        history._rows.append(row)
        subject.update(gradients)
    except BaseException:
        del history._rows[count:]
        subject.restore(before)
        raise


def _number(value: Any) -> float:
    """Return a loss as a Python number."""
    inputs.check_loss(value)
    if len(flatten(value)[0]) != 1 or type(value) not in BOXES or value.shape != ():
        what = f"shape {value.shape}" if type(value) in BOXES else f"a {type(value).__name__}"
        raise errors.NonScalarError(f"run needs a scalar loss; it has {what}.\nReturn a sum or mean.")
    if value.dtype.kind == "c":
        raise errors.OutputError("the loss must be real to be minimized; it is complex.\nReturn np.abs(loss).")
    return value.item()  # type: ignore[no-any-return]


def _norm(gradient: Any) -> float:
    """Return the norm of a gradient in double precision: NaN for None, infinity for a gradient that is not finite."""
    if gradient is None:
        return math.nan
    array = np.abs(inputs.plain(gradient)).astype(np.float64)
    scale = float(np.max(array, initial=0.0))
    if not math.isfinite(scale):
        return math.inf
    if scale == 0:
        return scale
    return scale * float(np.linalg.norm((array / scale).ravel()))


def _check_finite(history: History, loss: float, gradients: dict[Any, Any]) -> None:
    """Raise if a loss or gradients are not finite."""
    bad = [
        f"variable {key.name!r}" if isinstance(key, Variable) else f"parameter {key}"
        for key, gradient in gradients.items()
        if gradient is not None and not np.all(np.isfinite(inputs.plain(gradient)))
    ]
    if math.isfinite(loss) and not bad:
        return
    before = f", and was {history.losses[-1]:.6g} in the step before" if len(history) else ""
    where = f"\nThe gradient is not finite for {', '.join(bad)}." if bad else ""
    error = errors.DivergenceError(
        f"the loss is {loss:.6g} in step {len(history) + 1}{before}.{where}\n"
        "This step was not made. Take shorter steps (a smaller learning_rate), clip the gradients, or look for an "
        "operation whose derivative is not finite at this point.\n"
        "check_finite=False continues regardless; skip_nonfinite=True of the optimizer skips such steps."
    )
    error.history = history
    raise error


def _wants_to_stop(callback: Callback, step: int, loss: float, gradients: object) -> bool:
    """Return whether a callback ends the run."""
    try:
        answer = callback(step, loss, gradients)
    except StopIteration:
        return True
    if answer is None or isinstance(answer, (bool, np.bool_)):
        return bool(answer)
    raise errors.ParameterError(
        f"the callback returned {answer!r}; it must return True to stop the run, or None or False to continue."
    )
