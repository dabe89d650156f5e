"""The recorded programs of one function, by the form of its arguments."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from fgrad import errors
from fgrad._locks import Lock
from fgrad.core.tensor import strip_ended
from fgrad.core.tree import flatten, unflatten
from fgrad.errors.places import depth_of_user
from fgrad.native.forms import Form
from fgrad.native.layouts import layout_of
from fgrad.native.options import Engine, Options
from fgrad.native.program import Program
from fgrad.native.reports import changes_between
from fgrad.rules.closures import followers
from fgrad.transforms.calls import name_of

_MOST_PROGRAMS = 64
_MANY = 8
"""Number of programs of one function at each multiple of which a warning is issued."""


class Programs:
    """The recorded programs of one function, by the form of its arguments.

    Attributes:
        static: names or positions of arguments that are part of the program.
        engine: the engine that runs the programs.
        is_native: whether the engine is native code.
        known: the programs, the latest last.
        by_layout: the programs whose leaves are all inputs, by `layout_of` of the arguments.
        count: the number of programs recorded so far.
    """

    def __init__(self, static: tuple[Any, ...], options: Options) -> None:
        self.static, self._options = static, options
        self.engine, self.is_native = options.engine, options.is_native
        self.known: OrderedDict[Hashable, Program] = OrderedDict()
        self.by_layout: dict[Hashable, Program] = {}
        self.count = 0
        self._with_integers_fixed: set[Hashable] = set()
        self._change = ""  # the captured object whose change caused the last recording
        self._lock = Lock()

    def for_form(self, function: Callable[..., Any], form: Form) -> tuple[Program | None, Form]:
        """Return the program for a form of arguments, recorded if necessary, and the form with its inputs.

        There is no program if the function uses traced values other than its arguments: it would hold for this call.
        """
        program, form = self.known_for(form)
        return self._added(function, form) if program is None else (program, form)

    def for_form_with_integers_fixed(self, function: Callable[..., Any], form: Form) -> tuple[Program | None, Form]:
        """Return the program with the integers of a form as constants, as for this form from now on."""
        self._with_integers_fixed.add(form.key)
        return self.for_form(function, form)

    def known_for(self, form: Form) -> tuple[Program | None, Form]:
        """Return the same without recording: no program if there is none that is current."""
        if form.key in self._with_integers_fixed:
            form = form.with_integers_fixed()
        program = self.known.get(form.key)
        return (program if program is not None and program.is_current() else None), form

    def alone(
        self, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[Program, Form]:
        """Return the program for arguments, for code that runs without Python.

        Raises:
            ClosureError: a TypeError; there is none.
        """
        program, form = self.for_form(function, Form(function, self.static, args, keywords))
        if program is None:
            raise errors.ClosureError(
                f"{name_of(function)} uses a traced value that is not one of its arguments, so it has no program.\n"
                "Pass the value as an argument."
            )
        return program, form

    def for_arrays(
        self, engine: Engine, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[Program, list[Any]]:
        """Return the program for arguments with arrays of an engine, and its inputs.

        Raises:
            ClosureError: a TypeError; an fgrad transform traces an argument, a variable, or a captured value.
        """
        leaves, treedef = flatten((args, keywords))
        examples = [engine.example(x) if engine.owns(x) else x for x in leaves]
        program, form = self.alone(function, *unflatten(treedef, examples))
        inputs = [strip_ended(x) for x, own in zip(leaves, form.is_input, strict=True) if own]
        if followers(inputs) or program.reads_traced():
            raise errors.ClosureError(
                f"{name_of(function)} was called with arrays of an engine, and a transform of fgrad's follows what it "
                "computes with.\nPass NumPy's arrays, or transform the function before it is compiled."
            )
        return program, inputs

    def note_layout(self, program: Program, form: Form, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Register a program for later lookup by the layout of the arguments."""
        layout = layout_of(args, keywords)[0] if all(form.is_input) else None
        if layout is not None:
            self.by_layout[layout] = program

    def changes(self) -> list[str]:
        """Return the differences between the programs."""
        return changes_between([each.leaves for each in self.known.values()])

    def _added(self, function: Callable[..., Any], form: Form) -> tuple[Program | None, Form]:
        with self._lock:
            program = self.known.get(form.key)
            if program is None or not program.is_current():
                self._change = "" if program is None else program.change()
                program, form = self._made(function, form)
                if program.closes_over_traced:
                    return None, form
                self.known[form.key] = program
                self.count += 1
                if len(self.known) > _MOST_PROGRAMS:
                    self._drop_oldest()
                if self.count % _MANY == 0:
                    self._warn(function)
            return program, form

    def _drop_oldest(self) -> None:
        _, program = self.known.popitem(last=False)
        self.by_layout = {layout: each for layout, each in list(self.by_layout.items()) if each is not program}

    def _made(self, function: Callable[..., Any], form: Form) -> tuple[Program, Form]:
        try:
            return Program(function, form, self._options), form
        except Exception:
            if int not in map(type, form.inputs):
                raise
        # An integer may be a trip count or an axis, which must be constant.
        fixed = form.with_integers_fixed()
        program = Program(function, fixed, self._options)
        self._with_integers_fixed.add(form.key)
        return program, fixed

    def _warn(self, function: Callable[..., Any]) -> None:
        if self._change:
            warnings.warn(
                f"{name_of(function)} was compiled for the {self.count}th time: {self._change}, which it refers to, "
                "keeps changing, and is part of the program.\nPass it as an argument, or make it a Variable.",
                errors.CompileWarning,
                stacklevel=depth_of_user(),
            )
            return
        warnings.warn(
            f"{name_of(function)} was compiled for the {self.count}th time: its arguments keep changing in "
            "shape, dtype, structure, or in what is part of the program, such as integers whose value is used.\n"
            "Pad arrays to a few sizes, and pass what changes as arrays or floats.",
            errors.CompileWarning,
            stacklevel=depth_of_user(),
        )
