"""Functions that a solver calls many times: native code for plain values, the Python function for traced ones.

    fast = on_values(function)
    fast(t, y)                 for plain arrays and numbers: one call of native code, which returns plain arrays
    fast(t, y)                 for traced arguments: the function itself, for derivatives

Traced values that the function closes over, and values that are replaced while the solver runs, are inputs of the
program, looked up at each call. So one program serves all examples of a batch, and all calls of the solver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor, boxed, settled, strip_ended
from fgrad.core.trace import observed_by, running, unobserved
from fgrad.core.tree import flatten, tree_map
from fgrad.native.compiled import Compiled
from fgrad.native.forms import Form
from fgrad.native.layouts import form_of
from fgrad.native.options import Options
from fgrad.native.program import Program
from fgrad.native.programs import Programs
from fgrad.rules.closures import Replaced, Uses, copied, followers, give
from fgrad.transforms.calls import name_of

Function = Callable[..., Any]


def on_values(function: Function, compile: bool = True) -> Function:
    """Return a function that runs native code for plain values, if it is or should be compiled.

    Args:
        function: of arrays, numbers and containers of them, by position.
        compile: whether to compile a function that the user has not compiled.
    """
    return OnValues(function) if compile or isinstance(function, Compiled) else function


class OnValues:
    """The function that `on_values` returns.

    Args:
        function: the user's, or a derivative of it.

    Attributes:
        function: the Python function.
        recordings: the number of forms of arguments that were recorded.
    """

    def __init__(self, function: Function) -> None:
        self.function = function.function if isinstance(function, Compiled) else function
        self.__name__ = name_of(function)
        self.recordings = 0
        self._tensors: list[Tensor] = []
        self._own = Programs(static=(), options=Options(shared=True))
        self._programs = function.programs if isinstance(function, Compiled) else self._own

    def __call__(self, *args: Any) -> Any:
        if not any(each.wants_python for each in running.observers):
            leaves = [*map(strip_ended, self._tensors), *args] if self._tensors else args
            program = self._programs.known.get(tuple([form_of(x) for x in leaves]))
            if program is not None and program.is_plain:
                return program.on_values(leaves)
            return self._for_any_form(args)
        return self.function(*args)

    def bound(self, *rest: object) -> Function:
        """Return a function of the leading arguments, with the others bound, for a run in which nothing else changes.

        The bound arguments and the captured values are looked up once.
        """
        forms: list[Any] = []
        before: list[Any] = []
        behind: list[Any] = []
        run: Function = self

        def call(*own: Any) -> Any:
            nonlocal forms, run, before, behind
            for x, (shape, dtype) in zip(own, forms, strict=False):  # much faster than a key
                if type(x) is not np.ndarray or x.dtype is not dtype or x.shape != shape:
                    forms = []
                    break
            if forms:
                return run([*before, *own, *behind])
            result = self(*own, *rest)
            found = self._direct(own, rest)
            if found is not None and all(type(x) is np.ndarray for x in own):
                run, before, behind = found
                forms = [(x.shape, x.dtype) for x in own]
            return result

        return call

    def _direct(self, own: tuple[Any, ...], rest: tuple[Any, ...]) -> tuple[Function, list[Any], list[Any]] | None:
        """Return the program for arguments, and the arrays before and after the leading ones; None if there is none."""
        if any(each.wants_python for each in running.observers):
            return None
        before = list(map(strip_ended, self._tensors))
        program = self._programs.known.get(tuple([form_of(x) for x in (*before, *own, *rest)]))
        if program is None or not program.is_plain:
            return None
        arrays = program.function.arrays([*before, *own, *rest])
        return program.on_values, arrays[: len(before)], arrays[len(before) + len(own) :]

    def _for_any_form(self, args: tuple[Any, ...]) -> Any:
        """Return the result for nested or traced arguments, and for arguments without a program."""
        if followers(flatten(args)[0]):
            return self.function(*args)
        program, form = self._program(args)
        if program is None or followers(form.inputs) or program.reads_traced():
            return self.function(*args)
        return program.on_values(form.inputs)

    def _program(self, args: tuple[Any, ...]) -> tuple[Program | None, Form]:
        program, form = self._programs.known_for(self._form(args))
        if program is not None:
            return program, form
        self._look_for_tensors(args)
        self.recordings += 1
        return self._programs.for_form(self._function_of_form(), self._form(args))

    def _form(self, args: tuple[Any, ...]) -> Form:
        static = () if self._tensors else self._programs.static
        return Form(self._function_of_form(), static, (*map(strip_ended, self._tensors), *args), {})

    def _function_of_form(self) -> Function:
        return self._explicit if self._tensors else self.function

    def _look_for_tensors(self, args: tuple[Any, ...]) -> None:
        """Find the traced values that the function uses, including values that replace them at present.

        A function that can be recorded does not depend on values, so it uses the same tensors at all points.
        """
        replaced = Replaced()
        with unobserved():
            args = tree_map(copied, args)
            uses = Uses(flatten(args)[0])
            with uses.looking(), observed_by(replaced):
                self.function(*args)
        found = {id(x): x for x in (*self._tensors, *uses.tensors, *replaced.tensors)}
        self._tensors = list(found.values())
        if self._tensors:
            self._programs = self._own  # those of a user's compiled function know nothing of its closure

    def _explicit(self, *leaves: object) -> Any:
        """Call the function with the first arguments in place of the captured tensors."""
        count = len(self._tensors)
        values = dict(zip(map(id, self._tensors), map(boxed, leaves[:count]), strict=True))
        with give((), values, {}):
            return tree_map(settled, self.function(*leaves[count:]))  # one of these values may be returned unchanged
