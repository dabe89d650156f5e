"""Branches: one of several functions, selected by a value, or per example among the results of all.

cond(pred, true_fun, false_fun, *operands)    one of two functions
switch(index, branches, *operands)            one of several functions
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.variable import Variable, recording
from fgrad.loops.avals import combined, own
from fgrad.loops.branches import in_program
from fgrad.loops.values import checked_integer, checked_truth, is_of_program, is_undecided
from fgrad.loops.writes import OuterWriteError, no_outer_writes, own_operands
from fgrad.transforms.callbacks import check_callback, check_function, plainly_takes
from fgrad.transforms.calls import name_of


def chosen(holds: object, one: object, other: Any, names: tuple[str, str]) -> Any:
    """Return a tree whose leaves are those of `one` where `holds` is true, and those of `other` elsewhere.

    Leaves that are not selected contribute exactly 0 to a derivative, since `np.where` masks them.
    """
    return combined(one, other, partial(np.where, truth_of(holds)), names)


def truth_of(x: Any) -> Any:
    """Return whether a number is not 0."""
    return x if x.dtype == np.bool_ else np.not_equal(x, 0)


def _check_functions(name: str, functions: Sequence[Any], called: Sequence[str], operands: Sequence[Any]) -> None:
    """Raise if branches, whose names are `called`, are not functions of the operands."""
    count = len(operands)
    for function, each in zip(functions, called, strict=True):
        if not plainly_takes(function, count):
            given = ", ".join(["operand"] if count == 1 else [f"operand{position}" for position in range(count)])
            check_function(f"{each} of {name}", function, _NOT_CALLED)
            check_callback(f"{each} of {name}", function, f"{each}({given})", count)


_NOT_CALLED = "\nPass the functions themselves, without calling them, and their arguments after them."


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: object) -> Any:
    """Return the result of one of two functions, selected by a condition.

    If the condition has a value, this is a Python `if`, and the other function does not run. In a recording both are
    recorded, and the program runs one of them, unless both together are a few operations on numbers, or one assigns to
    variables, which then get what the selected one assigns. If the condition differs between examples of a `vmap`, both
    functions run, and for each example one result is selected by `np.where`; the other contributes exactly 0 to a
    derivative. In this case the functions must not assign to variables, or have other side effects.

    Args:
        pred: a boolean, or a number that is compared with 0.
        true_fun: a function of the operands, for a true condition.
        false_fun: a function for a false condition; it returns the same containers, shapes and dtypes.
        operands: the arguments of the functions.

    Returns:
        The result of the function.

    Raises:
        StructureError: a TypeError; both run, and return other containers; or `pred` is not a boolean or number.
        ShapeError: a ValueError; both run, and return other shapes; or `pred` is an array with several elements.
        DtypeError: a TypeError; both run, and return other dtypes.
        NotCallableError: a TypeError; one of the functions is not callable, or not with the operands.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def root(x):
        ...     return fg.cond(x > 0, np.sqrt, lambda x: 0.0 * x, x)
        >>> root(4.0)
        np.float64(2.0)
        >>> fg.vmap(fg.grad(root))(np.array([0.0, 4.0]))
        Tensor([0.  , 0.25])
    """
    _check_functions("cond", (true_fun, false_fun), ("true_fun", "false_fun"), operands)
    pred = checked_truth(pred, "the condition of cond")
    if not is_undecided(pred):
        return (true_fun if pred else false_fun)(*own(operands, keeps_variables=True))
    functions, names = (true_fun, false_fun), (f"true_fun ({name_of(true_fun)})", f"false_fun ({name_of(false_fun)})")
    if is_of_program(pred):
        holds = truth_of(pred)
        found = in_program([holds, np.logical_not(holds)], functions, names, operands)
        if found is not None:
            return found
    one, other = _all_results(lambda: [truth_of(pred), np.logical_not(truth_of(pred))], functions, names, operands)
    return chosen(pred, one, other, names)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: object) -> Any:
    """Return the result of one of several functions, selected by its index.

    If the index has a value, one function runs. In a recording all are recorded, and the program runs one; under `vmap`
    all run, and one result is selected for each example, as in `cond`.

    Args:
        index: an integer; one below 0 selects the first function, one that is too large the last.
        branches: functions of the operands, which return the same containers, shapes and dtypes.
        operands: the arguments of the functions.

    Returns:
        The result of the function.

    Raises:
        StructureError: a TypeError; all run, and return other containers.
        ShapeError: a ValueError; all run, and return other shapes; or `index` is an array with several elements.
        DtypeError: a TypeError; all run, and return other dtypes; or `index` is not an integer.
        NotCallableError: a TypeError; one of `branches` is not callable, or not with the operands.
        ParameterError: a ValueError; there are no branches.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.switch(1, [np.sin, np.exp, np.cos], 0.0)
        np.float64(1.0)
        >>> fg.vmap(lambda i, x: fg.switch(i, [np.negative, np.square], x))(np.array([0, 1]), np.array([3.0, 3.0]))
        Tensor([-3.,  9.])
    """
    if callable(branches):
        raise errors.NotCallableError("branches of switch are a list of functions: switch(index, [f, g], x).")
    branches = list(branches)
    if not branches:
        raise errors.ParameterError("switch needs at least one function; branches is empty.")
    _check_functions("switch", branches, [f"branches[{position}]" for position in range(len(branches))], operands)
    index = checked_truth(checked_integer(index, "the index of switch"), "the index of switch")
    if not is_undecided(index):
        selected = branches[min(max(operator.index(index), 0), len(branches) - 1)]
        return selected(*own(operands, keeps_variables=True))
    names = [f"branch {position} ({name_of(branch)})" for position, branch in enumerate(branches)]
    if is_of_program(index):
        found = in_program(_is_selected(index, len(branches)), branches, names, operands)
        if found is not None:
            return found
    results = _all_results(lambda: _is_selected(index, len(branches)), branches, names, operands)
    result, name = results[0], names[0]
    for position in range(1, len(branches)):
        result = chosen(np.greater_equal(index, position), results[position], result, (names[position], name))
    return result


def _all_results(
    conditions: Callable[[], Sequence[Any]],
    functions: Sequence[Callable[..., Any]],
    names: Sequence[str],
    operands: tuple[object, ...],
) -> list[Any]:
    """Return the results of all functions, one of which is selected; the others may not have side effects.

    In a recording, each may assign to variables, which get the values of the selected one.
    """
    results, assigned = [], []
    recorder = recording()
    for function, name in zip(functions, names, strict=True):
        apart = contextlib.nullcontext({}) if recorder is None else recorder.apart()
        try:
            with np.errstate(all="ignore"), no_outer_writes(), apart as found:
                results.append(function(*own_operands(operands)))
        except OuterWriteError:
            raise errors.InPlaceError.of_branch(name, errors.users_line()) from None
        assigned.append(found)
    if any(assigned):
        _assign_selected(conditions(), assigned)
    return results


def _assign_selected(conditions: Sequence[Any], assigned: Sequence[Mapping[Variable, Any]]) -> None:
    """Assign to each variable what the selected branch has assigned to it, if it has."""
    for variable in dict.fromkeys(variable for found in assigned for variable in found):
        value: Any = variable.value()
        for condition, found in zip(conditions, assigned, strict=True):
            if variable in found:
                value = np.where(condition, found[variable], value)
        variable.assign(value)


def _is_selected(index: Any, count: int) -> list[Any]:
    """Return a flag for each branch: whether the index selects it."""
    if count == 1:
        return [np.True_]
    within = [np.equal(index, position) for position in range(1, count - 1)]
    return [np.less_equal(index, 0), *within, np.greater_equal(index, count - 1)]
