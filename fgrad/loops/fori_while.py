"""Loops whose iterations depend on each other, without outputs of each iteration.

fori_loop(lower, upper, body, init)              a fixed number of iterations
while_loop(cond, body, init, max_steps=None)     iterations while a condition holds
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.tree import flatten
from fgrad.errors.hints import names_keywords
from fgrad.graphs.loop import UNLIMITED, Along
from fgrad.loops.avals import Form, own
from fgrad.loops.cond_switch import chosen
from fgrad.loops.recorded import as_loop, is_recorded
from fgrad.loops.values import checked_integer, checked_truth, is_of_program, is_undecided
from fgrad.ops.tracing import raw_array
from fgrad.transforms import callbacks
from fgrad.transforms.calls import name_of


class _Loop:
    """A loop that runs while a condition holds, separately for each example.

    Args:
        what: the name of the value that is requested, for a message if it does not exist.
        condition: a function of the number of iterations so far and the carry, which returns the condition.
        body: a function of the same, which returns the next carry.
        function: the user's function, for messages.
        limit: the maximal number of iterations, or None.
    """

    def __init__(
        self,
        what: str,
        condition: Callable[[int, Any], Any],
        body: Callable[[int, Any], Any],
        function: Callable[..., Any],
        limit: int | None,
    ) -> None:
        self._what, self._condition, self._body, self._limit = what, condition, body, limit
        self._function = function

    def run(self, init: Any) -> Any:
        """Return the carry after the last iteration."""
        carry = own(init)
        if is_recorded(flatten(carry)[0]) and (found := self._as_program(carry)) is not None:
            return found[0]
        form = Form("the carry", self._function, carry)
        running: Any = True  # or a mask of the running examples, once they differ
        iteration = 0
        while self._limit is None or iteration < self._limit:
            holds = self._condition(iteration, carry)
            if running is not True or is_undecided(holds):
                running = holds if running is True else np.logical_and(running, holds)
                if not self._any(running, iteration, carry):
                    break
                carry = self._masked_iteration(form, running, iteration, carry)
            elif holds:
                carry = form.fitted(self._body(iteration, carry))
            else:
                break
            iteration += 1
        return carry

    def _as_program(self, init: Any) -> tuple[Any, list[Any]] | None:
        """Return the results of a recorded loop, the carry first; None if iterations are recorded separately."""

        def prepared(carry: Any) -> Callable[[Any, Any], Any]:
            form = Form("the carry", self._function, carry)

            def iteration(carry: Any, elements: Sequence[Any]) -> Any:
                holds = self._condition(0, carry)
                return form.fitted(self._body(0, carry)), [np.not_equal(holds, 0)]

            return iteration

        if self._limit == 0:
            return None
        count = UNLIMITED if self._limit is None else self._limit
        return as_loop(self._function, prepared, init, (), Along(), count, has_condition=True)

    def _any(self, running: Any, iteration: int, carry: object) -> bool:
        """Return whether any example needs another iteration; True if this is unknown in a recording."""
        if not is_of_program(running):
            return bool(np.any(raw_array(running)))
        if self._limit is None:
            self._body(iteration, own(carry))  # an iteration that is not representative may raise a more specific error
            raise errors.ConcretizationError(self._what, errors.users_line())
        return True

    def _masked_iteration(self, form: Form, running: object, iteration: int, carry: object) -> Any:
        """Return the carry after another iteration, unchanged for finished examples."""
        with np.errstate(all="ignore"):  # results of finished examples are discarded
            after = form.fitted(self._body(iteration, own(carry)))
        return chosen(running, after, carry, (name_of(self._function), "the iteration before"))


@names_keywords
def fori_loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """Return the result of applying `body` to a value in a fixed number of iterations.

    The same as `for i in range(lower, upper): init = body(i, init)`, with a value that keeps its structure, shapes and
    dtypes. In a recording, such as by `fg.compile`, a single iteration is recorded.

    Args:
        lower: the index of the first iteration, an integer.
        upper: the index at which the loop ends; if it does not exceed `lower`, there are no iterations. Under `vmap`
            the bounds may differ between examples. In a recording plain integers are static; if a bound is computed
            there, the loop is a `while_loop`, and a backward pass raises.
        body: a function of the index and the value, which returns the next value.
        init: the value before the first iteration: numbers, arrays or containers of them. Python numbers take their
            dtype from the first iteration.

    Returns:
        The value after the last iteration.

    Raises:
        StructureError: a TypeError; `body` returns other containers, or something other than numbers.
        ShapeError: a ValueError; it returns another shape.
        DtypeError: a TypeError; it returns another dtype, or a bound is not an integer.
        ConcretizationError: a TypeError; a recording computes a bound, and there is a backward pass, or an iteration
            that is not representative of all, as in `while_loop`.
        NotCallableError: a TypeError; `body` is not a function, or not one of the index and the value.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def power(x, n):
        ...     return fg.fori_loop(0, n, lambda i, y: x * y, 1.0)
        >>> fg.grad(power)(2.0, 3)
        Tensor(12.)
        >>> fg.vmap(power)(np.array([2.0, 2.0]), np.array([3, 5]))
        Tensor([ 8., 32.])
    """
    check_function("fori_loop", "body", body, "i", "value")
    lower, upper = (checked_truth(checked_integer(x, _BOUND), _BOUND) for x in (lower, upper))
    if is_of_program(lower) or is_of_program(upper):
        return _counted(lower, upper, body, init)
    if not is_undecided(lower) and not is_undecided(upper):
        return _repeated(range(operator.index(lower), operator.index(upper)), body, init)
    loop = _Loop(
        _BOUND,
        lambda iteration, carry: lower + iteration < upper,
        lambda iteration, carry: body(lower + iteration, carry),
        body,
        None,
    )
    return loop.run(init)


def _counted(lower: object, upper: Any, body: Callable[[Any, Any], Any], init: object) -> Any:
    """Return the carry after iterations whose number is computed in the program."""

    def condition(iteration: int, carry: Any) -> Any:
        return carry[0] < upper

    def counting(iteration: int, carry: Any) -> Any:
        return carry[0] + 1, body(*carry)

    return _Loop(_BOUND, condition, counting, body, None).run((lower, init))[1]


def _repeated(numbers: range, body: Callable[[Any, Any], Any], init: object) -> Any:
    carry = own(init)

    def prepared(carry: Any) -> Callable[[Any, Any], Any]:
        form = Form("the carry", body, carry)
        return lambda carry, elements: (form.fitted(body(elements[0], carry)), [])

    if numbers and is_recorded(flatten(carry)[0]):
        found = as_loop(body, prepared, carry, [numbers], Along(), len(numbers))
        if found is not None:
            return found[0]
    fitted = Form("the carry", body, carry).fitted
    for i in numbers:
        carry = fitted(body(i, carry))
    return carry


_BOUND = "a bound of fori_loop"


@names_keywords
def while_loop(cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, max_steps: int | None = None) -> Any:
    """Return the result of applying `body` to a value while a condition holds.

    The same as `while cond(init): init = body(init)`, with a value that keeps its structure, shapes and dtypes. It is
    differentiated through the iterations that were run, in either mode. Under `vmap` it runs until all examples are
    finished, and keeps the values of finished examples.

    In a recording, such as by `fg.compile`, one iteration is recorded, and the condition is evaluated when the program
    runs. A backward pass needs the maximal number of iterations: without `max_steps` it raises, and with it the program
    allocates arrays for that many iterations; those after the end compute nothing.

    Args:
        cond: a function of the value, which returns a boolean.
        body: a function of the value, which returns the next value.
        init: the value before the first iteration: numbers, arrays or containers of them. Python numbers take their
            dtype from the first iteration.
        max_steps: the maximal number of iterations; the loop ends after them, even if the condition still holds. It is
            needed for backward passes of programs.

    Returns:
        The value after the last iteration.

    Raises:
        StructureError: a TypeError; `body` returns other containers, or something other than numbers; or `cond` does
            not return a boolean.
        ShapeError: a ValueError; `body` returns another shape; or `cond` returns an array with several elements.
        DtypeError: a TypeError; `body` returns another dtype.
        ParameterError: a ValueError; `max_steps` is not a number of iterations.
        ConcretizationError: a TypeError; in a recording, `max_steps` is not given, and there is a backward pass, or an
            iteration that is not representative of all: it assigns to variables, draws random numbers, or requests a
            value.
        NotCallableError: a TypeError; `cond` or `body` is not a function, or not one of a single argument.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def square_root(a):
        ...     return fg.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)
        >>> fg.grad(square_root)(4.0)
        Tensor(0.25)
        >>> fg.vmap(square_root)(np.array([4.0, 9.0]))
        Tensor([2., 3.])
    """
    check_function("while_loop", "cond", cond, "value")
    check_function("while_loop", "body", body, "value")
    limit = None if max_steps is None else checked_count("max_steps", max_steps)
    loop = _Loop(
        _CONDITION,
        lambda iteration, carry: _truth(cond(carry)),
        lambda iteration, carry: body(carry),
        body,
        limit,
    )
    return loop.run(init)


_CONDITION = "the condition of while_loop"


def _truth(found: Any) -> Any:
    """Return what a condition has returned; a number that is no integer may be the next value of a body."""
    if isinstance(found, float) or getattr(getattr(found, "dtype", None), "kind", "b") in "fc":
        raise errors.StructureError(
            f"{_CONDITION} must be a boolean, and is {found!r:.100}.\nThe condition is the first argument: "
            "while_loop(cond, body, init). To go on while a number is not 0, write x != 0."
        )
    return checked_truth(found, _CONDITION)


def check_function(name: str, parameter: str, function: Callable[..., Any], *given: str) -> None:
    """Raise if an argument of a loop is not a function of the arguments whose names are `given`.

    Raises:
        NotCallableError: a TypeError.
    """
    callbacks.check_function(f"{parameter} of {name}", function)
    callbacks.check_callback(f"{parameter} of {name}", function, f"{parameter}({', '.join(given)})", len(given))


def checked_count(name: str, count: Any) -> int:
    """Return a number of iterations.

    Raises:
        ParameterError: a ValueError; it is not a number of iterations.
    """
    if isinstance(count, bool) or not hasattr(type(count), "__index__") or operator.index(count) < 0:
        raise errors.ParameterError(f"{name} must be a number of iterations, 0 or more, and is {count!r:.100}.")
    return operator.index(count)
