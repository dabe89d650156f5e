"""Optimizer runs over partitions, which can be resumed after the process was killed.

    run(loss, params, partitions, steps, optimizer, client=client, save_to=path)

The run is saved regularly as a whole: parameters, the state of the optimizer, and the history. A run whose file
exists is resumed from it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors, saving
from fgrad.core.primitive import BOXES
from fgrad.core.tree import flatten, paths, unflatten
from fgrad.core.variable import Variable, assign_all
from fgrad.distributed.derivatives import VariableGradients, value_and_grad
from fgrad.distributed.partitions import Partitions, as_partitions, checked_client
from fgrad.optimizers.base import Optimizer, State
from fgrad.optimizers.running import (
    Callback,
    History,
    OnContainer,
    OnVariables,
    Step,
    Subject,
    are_variables,
    check_steps,
    checked_optimizer,
    refuse_state,
    take_steps,
)

_KIND = "fgrad.distributed.run"


def run(
    loss: Callable[..., Any],
    params: Any,
    partitions: Any,
    steps: int,
    optimizer: Optimizer | None = None,
    *,
    client: Any = None,
    state: State | None = None,
    progress: bool = True,
    callback: Callback | None = None,
    check_finite: bool = True,
    save_to: str | os.PathLike[str] | None = None,
    every: int = 10,
) -> History:
    """Minimize the sum of a loss over partitions in a given number of steps.

    It is `fg.optimizers.run` with the gradients of `fgrad.distributed.value_and_grad`, and has the same result for any
    number of workers, to the last bit.

    Args:
        loss: returns one real number: `loss(part)` for variables, `loss(params, part)` for a container of arrays.
        params: the variables, one or a container of them, or a container of floating-point arrays.
        partitions: as for `value_and_grad`; a list of arrays is sent once, at the beginning.
        steps: the number of steps, including those of an earlier run in the file.
        optimizer, state, progress, callback, check_finite: as for `fg.optimizers.run`.
        client: a client of the cluster, or None to compute in this process.
        save_to: path of a file, in which the run is saved at its beginning, regularly between steps, and at its end,
            also after Ctrl-C. If the file exists, the run is resumed, with the same result as without an
            interruption; only the structure of `params` and `state` is then used. Use one file per run:
            the loss, the data, and the settings of the optimizer are not stored. Needs safetensors.
        every: the number of steps between saves.

    Returns:
        A `History` of all steps, including those before an interruption.

    Raises:
        PartitionError: a RuntimeError; the loss failed for a part, or a part is lost.
        LoadError: a ValueError; the file is damaged, or belongs to a run with other parameters, partitions or steps.
        StateError: a ValueError; the file belongs to another optimizer.
        MissingExtraError: an ImportError; safetensors is not installed, and `save_to` is given.
        ParameterError: a ValueError; as for `value_and_grad` and `fg.optimizers.run`, or `every` is not a step count.
        DivergenceError, NonScalarError, OutputError, NoGradientsError: as for `fg.optimizers.run`.
        StructureError, NotCallableError, NoVariablesError, IntegerInputError: as for `fg.optimizers.run`.

    Example:
        >>> import fgrad as fg
        >>> def loss(slope, part):
        ...     return np.sum((slope * part - 2.0 * part) ** 2) / 28
        >>> parts = [np.array([1.0, 2.0]), np.array([3.0])]
        >>> run(loss, 0.0, parts, 20, fg.optimizers.GradientDescent(0.5), progress=False)
        History(20 steps, loss 2 to 7.27596e-12, stopped='steps')
    """
    if not callable(loss) or type(loss) in BOXES:
        raise errors.NotCallableError(f"loss must be a function, but it is {loss!r}. Write run(loss, params, ...).")
    check_steps(steps)
    if isinstance(every, bool) or not isinstance(every, (int, np.integer)) or every < 1:
        raise errors.ParameterError(f"every must be a number of steps, 1 or more, but it is {every!r}.")
    optimizer = checked_optimizer(optimizer)
    parts = as_partitions(partitions, checked_client(client))
    history = History(params, None, int(steps))
    if save_to is None:
        file = None
    else:
        file = _File(os.fspath(save_to), int(every), params, optimizer, len(parts))
        params, state = file.restored(history, params, state)
    subject = _subject(loss, params, parts, optimizer, state)

    def save(is_end: bool) -> None:
        if file is not None:
            file.keep(history, subject.result(), is_end)

    save(is_end=True)  # detects an unwritable file before the first step
    take_steps(
        subject,
        history,
        progress=progress,
        callback=callback,
        checks=check_finite and not optimizer.skip_nonfinite,
        after=lambda: save(is_end=False),
    )
    save(is_end=True)
    return history


def _subject(loss: Any, params: object, parts: Partitions, optimizer: Optimizer, state: State | None) -> Subject:
    """Return the parameters to be optimized."""
    if params is None:
        raise errors.NoVariablesError("run needs the variables, or the container of arrays, but params is None.")
    if not are_variables(params):
        slopes = value_and_grad(loss, client=parts.client)
        return OnContainer(lambda current: slopes(current, parts), params, optimizer, state)
    refuse_state(state)
    variables = flatten(params)[0]
    gradients = VariableGradients(loss, parts.client)

    def compute() -> tuple[Any, list[tuple[Any, Variable]]]:
        value, found = gradients(variables, parts)
        return value, list(zip(found, variables, strict=True))

    return OnVariables(compute, params, optimizer)


class _File:
    """The file of a run, with the number of partitions, which determines the order of sums."""

    def __init__(self, path: str, every: int, params: object, optimizer: Optimizer, count: int) -> None:
        self._path, self._every, self._optimizer, self._count = path, every, optimizer, count
        self._leaves, self._treedef = flatten(params)
        self._names = [path or "params" for path in paths(params)]
        self._steps = -1

    def keep(self, history: History, result: tuple[Any, State | None], is_end: bool) -> None:
        """Write the file, if it is due and there are new steps."""
        steps = len(history)
        if steps == self._steps or not (is_end or steps % self._every == 0):
            return
        params, state = result
        rows = history.rows
        values = [v.numpy() if isinstance(v, Variable) else v for v in flatten(params)[0]]
        norms = np.array([list(row.norms.values()) for row in rows], np.float64)
        content = {
            "kind": _KIND,
            "partitions": self._count,
            "params": values,
            "state": None if state is None else flatten(state)[0],
            "optimizer": self._optimizer.state_dict(),
            "losses": history.losses,
            "times": history.times,
            "norms": norms.reshape(steps, len(self._leaves)),
        }
        saving.save(self._path, content)
        self._steps = steps

    def restored(self, history: History, params: object, state: State | None) -> tuple[Any, State | None]:
        """Return the initial parameters and state, and fill the history; without a file, the given ones."""
        if not os.path.exists(self._path):
            return params, state
        content = saving.load(self._path)
        self._check(content, history.planned)
        is_of_variables = are_variables(params)
        variables = self._leaves if is_of_variables else []
        self._optimizer.load_state_dict(content["optimizer"], variables)
        keys = variables if is_of_variables else self._names
        for loss, seconds, norms in zip(content["losses"], content["times"], content["norms"], strict=True):
            row = dict(zip(keys, map(float, norms), strict=True))
            history.rows.append(Step(float(loss), row, float(seconds)))
        self._steps = len(history)
        if is_of_variables:
            assign_all(variables, content["params"])
            return params, None
        params = unflatten(self._treedef, content["params"])
        like = flatten(self._optimizer.init(params))[1]
        return params, unflatten(like, content["state"])

    def _check(self, content: object, planned: int) -> None:
        """Reject the file of another run."""
        if not isinstance(content, dict) or content.get("kind") != _KIND:
            raise errors.LoadError(f"{self._path!r} is not a file of fgrad.distributed.run.")
        different = ""
        shapes = [np.shape(leaf) for leaf in content["params"]], [np.shape(leaf) for leaf in self._leaves]
        if shapes[0] != shapes[1]:
            different = f"parameters of shapes {shapes[0]}, and these are of shapes {shapes[1]}"
        elif content["partitions"] != self._count:
            different = f"{content['partitions']} partitions, and there are {self._count}"
        elif len(content["losses"]) > planned:
            different = f"{len(content['losses'])} steps, and {planned} are wanted"
        elif (content["state"] is None) != are_variables(self._treedef.unflatten(self._leaves)):
            different = "a container in place of variables, or variables in place of a container"
        if different:
            raise errors.LoadError(
                f"{self._path!r} is the file of a run with {different}.\n"
                "Give each run its own path, or remove the file to start again."
            )
