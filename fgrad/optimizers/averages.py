"""Moving averages of variables, which often generalize better than the variables themselves.

average = ExponentialMovingAverage(0.999)
average.apply([w, b])               after each step
with average.averaged():            evaluate with the averages in the variables
    ...
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.tensor import boxed
from fgrad.core.variable import Cell, Variable, recording
from fgrad.optimizers.declared import FRACTION, NOT_NEGATIVE
from fgrad.optimizers.inputs import plain
from fgrad.optimizers.settings import Hyper, check_hyper, known
from fgrad.optimizers.states import KeptByVariable, by_name, by_variable, in_form_of, meet


class ExponentialMovingAverage(KeptByVariable):
    """Keeps exponentially weighted averages of variables (Polyak and Juditsky, 1992).

        average = decay * average + (1 - decay) * variable

    An average starts with the value that its variable has when it is first applied.

    Args:
        decay: the weight of the old average at each update.
        num_updates: the number of updates made: a number, a variable, or a function without arguments. With it, decay
            is at most `(1 + num_updates) / (10 + num_updates)`, so that the average changes faster in the beginning.
        zero_debias: start with 0 and divide by the sum of the weights so far; then the first value has no larger weight
            than others.

    Raises:
        ParameterError: a ValueError; not `0 <= decay < 1`, or `num_updates` is negative.

    Example:
        >>> import fgrad as fg
        >>> w = fg.Variable(1.0, name="w")
        >>> average = fg.ExponentialMovingAverage(0.9)
        >>> average.apply([w])
        >>> average.apply([w.assign(3.0)])
        >>> average.average(w)
        Tensor(1.2)
        >>> with average.averaged():
        ...     print(w)
        1.2
        >>> w
        Variable(3., name='w')
    """

    def __init__(self, decay: Hyper, num_updates: Hyper | None = None, zero_debias: bool = False) -> None:
        check_hyper(FRACTION, "decay", decay)
        if num_updates is not None:
            check_hyper(NOT_NEGATIVE, "num_updates", num_updates)
        self.decay, self.num_updates, self.zero_debias = decay, num_updates, zero_debias
        self._step = 0
        self._keep_nothing()

    def apply(self, var_list: Variable | Iterable[Variable]) -> None:
        """Update the averages of variables; call it after each step.

        Args:
            var_list: floating-point or complex variables, or one of them.

        Raises:
            DtypeError: a TypeError; a variable holds integers.
            StateError: a ValueError; loaded averages do not match the variables.
        """
        variables = [var_list] if isinstance(var_list, Variable) else list(var_list)
        for variable in variables:
            if variable.dtype.kind not in "fc":
                raise errors.DtypeError(
                    f"variable {variable.name!r} has dtype {variable.dtype}; there are averages of floating-point and "
                    "complex variables only."
                )
        with self._lock:
            self._apply(variables)

    def _apply(self, variables: list[Variable]) -> None:
        averages = dict(self._slots)
        for variable in meet(averages, variables, _fits):
            averages[variable] = _checked(variable, averages[variable])
        decay = self._decay()
        for variable in variables:
            value = variable.numpy()
            start = {"sum": np.zeros_like(value), "weight": 0.0} if self.zero_debias else {"sum": value, "weight": 1.0}
            kept = averages.get(variable, start)
            total = kept["sum"] - (1 - decay) * (kept["sum"] - value)
            weight = kept["weight"] - (1 - decay) * (kept["weight"] - 1)
            averages[variable] = {"sum": np.asarray(total, variable.dtype), "weight": weight}
        self._slots = averages
        self._step += 1

    def _decay(self) -> Any:
        decay = known("decay", self.decay, self._step)
        if self.num_updates is None:
            return decay
        updates = known("num_updates", self.num_updates, self._step)
        return min(decay, (1 + updates) / (10 + updates))

    def average(self, variable: Variable) -> Any:
        """Return the average of a variable as a tensor, or None if there is none.

        Args:
            variable: a variable from an earlier `var_list`.

        Raises:
            StateError: a ValueError; there is none, and a function is being recorded, which would not notice a later
                one.
        """
        key = variable if variable in self._slots else variable.name
        if recording() is None:
            return boxed(_average(self._slots[key])) if key in self._slots else None
        if key not in self._slots:
            raise errors.StateError(
                f"a function that is being recorded asks for the average of variable {variable.name!r}, of which "
                "there is none yet.\nCall apply before the function is compiled."
            )
        if key not in self._cells:  # the average is an input of the recorded function, as a variable is

            def refuse(new: Any) -> None:
                raise NotImplementedError

            cell = Cell(lambda: _average(self._slots[key]), refuse, f"average of {variable.name}")
            self._cells[key] = cell
        return self._cells[key].value()

    def variables(self) -> list[Variable]:
        """Return the variables that have an average."""
        return [key for key in self._slots if isinstance(key, Variable)]

    def names(self) -> list[str]:
        """Return the names of the variables that have an average, including loaded averages."""
        return [key if isinstance(key, str) else key.name for key in self._slots]

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Assign the averages to the variables while a `with` block runs.

        Afterwards the earlier values of the variables are restored, also after an exception.

        Raises:
            StateError: a ValueError; some loaded or unpickled averages have not been matched with variables yet.
        """
        if waiting := [key for key in self._slots if isinstance(key, str)]:
            raise errors.StateError(
                f"loaded or copied averages for {waiting} have not been matched with variables yet.\n"
                "Pass the variables: average.load_state_dict(average.state_dict(), var_list=[...])."
            )
        before = {variable: variable.numpy() for variable in self.variables()}
        for variable in before:
            variable.assign(_average(self._slots[variable]))
        try:
            yield
        finally:
            for variable, value in before.items():
                variable.assign(value)

    def state_dict(self) -> dict[str, Any]:
        """Return the averages as containers of numbers and arrays, ready for `fgrad.save`.

        Returns:
            A dict: "averages" maps the name of each variable to the sum and its weight, "step" is the number of calls
            of `apply`.
        """
        with self._lock:
            own = by_name(self._slots)
            averages = {name: {**kept, "sum": np.array(kept["sum"])} for name, kept in own.items()}
            return {"averages": averages, "step": self._step}

    def load_state_dict(self, state: Mapping[str, Any], var_list: Variable | Iterable[Variable] | None = None) -> None:
        """Restore the averages from a result of `state_dict`.

        Args:
            state: a result of `state_dict`.
            var_list: variables to match by name; by default those that have an average. Other averages are kept until a
                variable of their name is used.

        Raises:
            StateError: a ValueError; it is not such a state, or an average does not have the shape of its variable. In
                this case nothing has changed.
        """
        if not (isinstance(state, Mapping) and isinstance(state.get("averages"), Mapping) and "step" in state):
            raise errors.StateError(f"the state must be a result of state_dict(); it is {state!r:.200}.")
        variables = self.variables() if var_list is None else var_list
        found = by_variable(state["averages"], [variables] if isinstance(variables, Variable) else variables, _fits)
        averages = {
            key: _checked(key, kept) if isinstance(key, Variable) else dict(kept) for key, kept in found.items()
        }
        step = int(state["step"])
        with self._lock:
            self._slots, self._step = averages, step


def _average(kept: Mapping[str, Any]) -> Any:
    return kept["sum"] if kept["weight"] == 1 else (kept["sum"] / kept["weight"]).astype(kept["sum"].dtype)


def _fits(variable: Variable, kept: Mapping[str, Any]) -> bool:
    return "sum" in kept and np.shape(kept["sum"]) == variable.shape


def _checked(variable: Variable, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return a loaded average in the dtype of its variable."""
    if set(kept) != {"sum", "weight"}:
        raise errors.StateError(f"the average of variable {variable.name!r} must hold sum and weight: {kept!r:.200}.")
    total = in_form_of(variable, plain(kept["sum"]), f"the average of variable {variable.name!r}")
    return {"sum": total, "weight": float(kept["weight"])}
