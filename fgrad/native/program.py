"""A user's function, recorded for arguments of one form, and its executable."""

from __future__ import annotations

import contextlib
import importlib
import operator
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad import errors
from fgrad.core.foreign import refuse_payloads
from fgrad.core.tensor import Tensor, box, strip_ended
from fgrad.core.trace import UNTRACED, Trace, observed_by, unobserved
from fgrad.core.tree import flatten, tree_map, unflatten
from fgrad.core.variable import Exclusive, Variable, assign_all
from fgrad.core.views import checking_writes, hidden_value, mark_as_array
from fgrad.errors.places import depth_of_user
from fgrad.graphs.equations import Name, kind_of
from fgrad.graphs.graph import Block, Graph
from fgrad.graphs.integers import is_by_sign
from fgrad.graphs.record import RecordTrace, held, recorded
from fgrad.graphs.replaying import RerollingTrace
from fgrad.graphs.rerolling import loops_of
from fgrad.native.artifacts import Signature
from fgrad.native.captured import Captured
from fgrad.native.forms import Form
from fgrad.native.functions import Function
from fgrad.native.options import Options
from fgrad.native.purity import check_repeats
from fgrad.native.reports import Inspection
from fgrad.native.signatures import Array, arguments_by_name, signature
from fgrad.ops.tracing import first_example
from fgrad.rules.arguments import may_share
from fgrad.rules.closures import Replaced, followers, given_now
from fgrad.transforms.calls import name_of
from fgrad.transforms.running import call_users, untraced
from fgrad.typing import Operand

if TYPE_CHECKING:
    import optree

_LONG_RECORDING = 50_000
"""Number of recorded operations of a loop from which a warning is issued: recording takes a second or more."""

_IN_MEMORY = "native code computes with numbers in memory"


class Program:
    """A function recorded for arguments of one form.

    Args:
        function: the user's.
        form: of the arguments.
        options: the options of the compiler.

    Attributes:
        function: runs the program; its parameters are the leaves and the variables that are read.
        graph: the recorded graph, of `((result, [final values of inputs]), [new values of variables])`.
        written: the positions of inputs that the function writes into.
        assigned: the variables to which the last results are assigned.
        leaves: for each leaf of the arguments, a label, and its dtype and shape, or its value if it is not an input.
        seconds: the time of recording, with the second recording for comparison.
        closes_over_traced: whether it holds for this call only; then there is no `function`.
        is_plain: whether it uses no variables, writes into no inputs, and returns only arrays.
    """

    def __init__(self, function: Callable[..., Any], form: Form, options: Options) -> None:
        self._variables: list[Variable] = []
        flat, self.name = _OnLeaves(function, form), name_of(function)
        refuse_payloads("compile", form._leaves, _IN_MEMORY)
        examples = tuple(map(_example, form.inputs))
        start = time.perf_counter()
        trace = RerollingTrace(rerolls=options.finds_loops)
        # Values given in place of tensors differ from run to run; an observer is needed only if there are such values.
        observers = [Replaced()] if given_now() else []
        self.closes_over_traced = not self._record(flat, examples, trace, form, observers)
        self._captured = Captured(function, form.fixed())
        if self.closes_over_traced:
            return
        self.seconds = time.perf_counter() - start
        self._variables = list(self.graph.variables.values())
        self._exclusive = Exclusive(self.assigned)
        self._trainable = [each.trainable for each in self._variables]
        is_number = [type(x) is Name or hasattr(x, "dtype") for x in self.graph.outputs]
        numbers = [strip_ended(x) for x, own in zip(self.graph.outputs, is_number, strict=True) if own]
        self.written = flat.written
        first = len(numbers) - len(self.assigned) - len(self.written)
        self._written = {first + place: number for place, number in enumerate(self.written)}
        self.function = Function(_block(self.graph, numbers), self.name, options, self._written)
        # A program that runs immediately is compiled during the second recording.
        runs = options.is_native and not followers(form.inputs) and not self.reads_traced()
        with self.function.compiling() if runs else contextlib.nullcontext():
            start = time.perf_counter()
            with unobserved(), observed_by(*observers):
                check_repeats(flat, examples, self.graph, self.assigned, trace)
            self.seconds += time.perf_counter() - start
        self._warn_of_long_recording(len(trace.equations) if runs else 0)
        if flat.changes_containers:
            self._warn_of_containers()
        self._captured.forget_changed()
        self.is_input, self.leaves = form.is_input, form.described(function, self.graph.inputs)
        flat.function = None  # the graph holds `flat`, and must not keep a method's object alive
        result = self.graph.treedef.child(0).child(0)
        self._nested, self._is_number = _nesting(result), is_number[: result.num_leaves]
        self._template = [None if own else held(x) for x, own in zip(self.graph.outputs, self._is_number, strict=False)]
        self.is_plain = not self._variables and not self.written and not self.assigned and all(is_number)

    def _record(
        self,
        flat: Callable[..., Any],
        examples: tuple[Any, ...],
        trace: RecordTrace,
        form: Form,
        observers: Sequence[Replaced],
    ) -> bool:
        """Record the function; return whether the record is valid for other calls, too."""
        try:
            with unobserved(), observed_by(*observers), checking_writes(partial(_refuse_older, trace)):
                self.graph, self.assigned = recorded(flat, examples, {}, integers=True, trace=trace)
        except _OlderWriteError:
            return False
        _check_recorded(self.graph, trace, form)
        if self.graph.meets_other_traces or any(each.tensors for each in observers):
            return False
        constants = (*self.graph.constants.values(), *self.graph.outputs)
        return not any(type(strip_ended(x)) is Tensor for x in constants)

    def _warn_of_long_recording(self, recorded: int) -> None:
        """Warn if the first call takes seconds because each iteration of a loop was recorded."""
        if recorded < _LONG_RECORDING:
            return
        block = self.function.executable().block
        if len(block.equations) < recorded / 10:
            longest = max(loops_of(block), key=lambda loop: loop.iterations * loop.equations)
            place = errors.line_at(longest.places[0]) if longest.places else "an unknown line"
            warnings.warn(
                f"{self.name}: {recorded:,} operations were recorded in {self.seconds:.1f} s, most of them in "
                f"{longest.iterations:,} iterations of the loop at {place}.\n"
                "fg.scan and fg.fori_loop record one iteration.",
                errors.CompileWarning,
                stacklevel=depth_of_user(),
            )

    def _warn_of_containers(self) -> None:
        warnings.warn(
            f"{self.name} changes a list, dict or object that is its argument. It is compiled with containers of its "
            "own, and those of the caller remain as they are.\n"
            "Return the new values; or write into an array, d['w'][...] = new, which the caller sees.",
            errors.CompileWarning,
            stacklevel=depth_of_user(),
        )

    def change(self) -> str:
        """Return a label of a captured object that has changed; empty if none has."""
        return self._captured.change()

    def is_current(self) -> bool:
        """Return whether captured objects are unchanged, and variables are as trainable as they were."""
        is_same = not self._captured.change()
        return is_same and (not self._variables or self._trainable == [each.trainable for each in self._variables])

    def reads_traced(self) -> bool:
        """Return whether the program reads a traced variable."""
        return bool(self._variables) and bool(followers(list(map(strip_ended, self._variables))))

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run the program on untraced leaves, while no trace is active."""
        if not self.is_plain:
            return self(leaves)
        return self._nested([result_of(each) for each in self.function.run(leaves)])

    def on_values(self, leaves: Sequence[Any]) -> Any:
        """Return the results of `__call__` as plain arrays and NumPy scalars, for plain leaves."""
        if not self.is_plain:
            return tree_map(strip_ended, self(leaves))
        return self._nested([each if each.shape else each[()] for each in self.function.run(leaves)])

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Run the program, write into its inputs, and assign to its variables."""
        if not self.assigned:
            return self._result(self._found(leaves))
        return self._result(self._exclusive.run(partial(self._found_and_assigned, leaves)))

    def _found_and_assigned(self, leaves: Sequence[Any]) -> Any:
        found = self._found(leaves)
        assign_all(self.assigned, found[len(found) - len(self.assigned) :])
        return found

    def with_arrays(self, leaves: Sequence[Any]) -> Any:
        """Run the program on arrays of an engine, and return such arrays; variables are assigned NumPy arrays.

        Raises:
            InPlaceError: a TypeError; the function writes into an argument.
        """
        if self.written:
            raise errors.InPlaceError.of_engine(self.name, self._label(self.written[0]), errors.users_line())

        def run() -> Any:
            found = self.function.call([*leaves, *map(strip_ended, self._variables)])
            assign_all(self.assigned, [np.array(x) for x in found[len(found) - len(self.assigned) :]])
            return found

        rest = iter(self._exclusive.run(run))
        return self._nested([next(rest) if own else x for x, own in zip(self._template, self._is_number, strict=True)])

    def _found(self, leaves: Sequence[Any]) -> list[Any]:
        if not self.written:
            return self.function([*leaves, *map(strip_ended, self._variables)])
        self._check_apart(leaves)
        inputs = [*leaves, *map(strip_ended, self._variables)]
        traced = [type(x) is Tensor and bool(followers([x])) for x in inputs]
        found = self._found_traced(inputs, traced) if any(traced) else self._found_in_place(inputs)
        for place, number in self._written.items():
            if found[place] is not leaves[number]:
                overwrite(leaves[number], found[place])
        return found

    def _found_traced(self, inputs: Sequence[Any], traced: list[bool]) -> list[Any]:
        """Run the program on inputs some of which are traced.

        Raises:
            InPlaceError: a TypeError; a value that depends on a traced input is to be written into an array.
        """
        found, depends = self.function(inputs), self.function.depending_results(tuple(traced))
        for place, number in self._written.items():
            if not depends[place] and not traced[number]:
                found[place] = first_example(found[place])
            elif isinstance(inputs[number], np.ndarray):
                raise errors.InPlaceError(f"{self.name}, in its argument {self._label(number)},", errors.users_line())
        return found

    def _found_in_place(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the program on untraced inputs, and overwrite the arrays that it writes into."""
        arrays = self.function.arrays(inputs)
        for number in self.written:
            array = arrays[number]
            if array is not inputs[number] or not array.flags.carray:
                arrays[number] = array.copy()  # a tensor's array is shared; the code needs C order
        return self.function.run_in_place(arrays)

    def _check_apart(self, leaves: Sequence[Any]) -> None:
        """Raise if an input that the function writes into shares memory with another one, or with a captured array.

        Raises:
            InPlaceError: a TypeError.
        """
        numbers = [x for x in leaves if type(x) in (int, float, complex)]
        owners = {id(x) for x in leaves if type(x) is np.ndarray and x.base is None}
        are_apart = len(owners) + len(numbers) == len(leaves)  # the usual case
        others = [] if are_apart else [(self._label(number), x) for number, x in enumerate(leaves)]
        for number in self.written:
            for label, x in [*others[:number], *others[number + 1 :], *self._captured.arrays]:
                if may_share(leaves[number], x):
                    raise errors.InPlaceError.of_shared(self.name, self._label(number), label, errors.users_line())

    def _label(self, number: int) -> str:
        """Return a label of an input in messages."""
        return [label for (label, _), own in zip(self.leaves, self.is_input, strict=True) if own][number]

    def _result(self, found: Sequence[Any]) -> Any:
        rest = iter(found)
        whole = [result_of(next(rest)) if own else x for x, own in zip(self._template, self._is_number, strict=True)]
        return self._nested(whole)

    def signature(
        self, name: str, function: Callable[..., Any], form: Form, results: str | Sequence[str] | None
    ) -> Signature:
        """Return the signature of the program as a C function."""
        self.check_pure()
        given, made = (
            [Array(number, each.dtype, each.shape) for number, each in enumerate(arrays)]
            for arrays in (self.graph.inputs, map(strip_ended, self.graph.outputs))
        )
        args, keywords = form.outline.whole(given)
        arguments, counts = arguments_by_name(function, args, keywords), (len(given), len(made))
        return signature(name, arguments, self._nested(made), counts, results)

    def check_pure(self) -> None:
        """Check that the program has no side effects, and returns arrays only.

        Raises:
            UnsupportedError: a NotImplementedError; the function assigns to variables, writes into arguments, or
                returns objects that are not arrays.
        """
        if self.written:
            raise errors.UnsupportedError(
                f"{self.name} writes into its argument {self._label(self.written[0])}, and an exported function only "
                "reads its arguments.\nWrite into a copy, such as np.array(x), and return it."
            )
        if self.assigned:
            raise errors.UnsupportedError(
                f"{self.name} assigns to variables, and an exported function keeps nothing.\nReturn the new values."
            )
        odd = next((x for x, own in zip(self._template, self._is_number, strict=True) if not own), None)
        if odd is not None:
            raise errors.UnsupportedError(f"{self.name} returns {odd!r:.50}, and an exported function arrays alone.")

    def inspected(
        self, leaves: Sequence[Any], eager: Callable[[], Any] | None, count: int, changes: Sequence[str]
    ) -> Inspection:
        """Return the report of the program.

        Args:
            leaves: the arguments.
            eager: calls the uncompiled function with them, to time stages and calls; None for no timing.
            count: the number of programs.
            changes: the differences between the programs.
        """
        function, measure = self.function, eager is not None
        described = [(f"{label}: {form}", own) for (label, form), own in zip(self.leaves, self.is_input, strict=True)]
        variables = self.graph.variables.items()
        inspection: Any = importlib.import_module("fgrad.native.inspection")  # a slow import, rarely needed
        report: Inspection = inspection.inspected(
            function,
            function.arrays([*map(strip_ended, leaves), *map(strip_ended, self._variables)]) if measure else None,
            name=self.name,
            inputs=[text for text, own in described if own],
            frozen=[text for text, own in described if not own],
            variables=[f"{variable.name}: {kind_of(name)}" for name, variable in variables],
            seconds=self.seconds,
            programs=count,
            changes=changes,
        )
        if eager is not None and not self.assigned and not self.written:
            report.calls = {
                "compiled": inspection.seconds_of(lambda: self(leaves)), "eager": inspection.seconds_of(eager),
            }  # fmt: skip
        return report


def _nesting(treedef: optree.PyTreeSpec) -> Callable[[list[Any]], Any]:
    """Return the constructor of a container from its leaves, the first of a list; fast for common containers."""
    if treedef.is_leaf():
        return lambda leaves: leaves[0]
    count = treedef.num_leaves
    if treedef.type is tuple and all(child.is_leaf() for child in treedef.children()):
        return lambda leaves: tuple(leaves[:count])
    return lambda leaves: unflatten(treedef, leaves[:count])


class _OnLeaves:
    """A user's function, as a function of the inputs of a program.

    It returns the result and the final values of the inputs that the user's function has written into.

    Attributes:
        function: the user's function; None when it is recorded.
        written: the positions of these inputs.
        changes_containers: whether it has changed a container among its arguments.
    """

    def __init__(self, function: Callable[..., Any], form: Form) -> None:
        self.function: Any = function
        self.__name__, self._outline = name_of(function), form.outline
        self._is_array = [isinstance(x, (np.ndarray, Tensor)) for x in form.inputs]
        self._of_no_axes = [n for n, x in enumerate(form.inputs) if isinstance(x, np.ndarray) and not x.shape]
        self.written: list[int] = []
        self.changes_containers = False

    def __call__(self, *inputs: Any) -> tuple[Any, list[Any]]:
        before = [x._mark for x in inputs]
        for n in self._of_no_axes:
            mark_as_array(inputs[n])
        args, keywords = given = self._outline.whole(inputs)
        leaves, treedef = flatten(given)
        result = call_users(self.function, args, keywords)
        leaves_after, treedef_after = flatten(given)
        self.changes_containers = treedef != treedef_after or not all(map(operator.is_, leaves, leaves_after))
        self.written = [n for n, x in enumerate(inputs) if self._is_array[n] and _mark_of(x) is not before[n]]
        return result, [inputs[n] for n in self.written]


class _OlderWriteError(Exception):
    """A recorded function writes into a tensor of an older trace, as each recording of it would."""


def _refuse_older(recording: Trace, root: Tensor) -> None:
    hidden = hidden_value(root)
    if any(trace.rank < recording.rank for trace in followers([root if hidden is None else hidden])):
        raise _OlderWriteError


def _mark_of(x: Any) -> Any:
    """Return the mark of a tensor after a function has run, which may have written into it."""
    x._trace.renewed(x)
    return strip_ended(x)._mark


def _check_recorded(graph: Graph, trace: RecordTrace, form: Form) -> None:
    """Raise if a graph has constants of other libraries, or is valid for these integers only."""
    refuse_payloads("compile", trace.others, _IN_MEMORY)
    if int in map(type, form.inputs):
        for equation in filter(is_by_sign, graph.equations):
            raise errors.ConcretizationError("use as an exponent", equation.line)


def _block(graph: Graph, outputs: Sequence[Any]) -> Block:
    return graph.with_ends([*graph.inputs, *graph.variables], outputs)


def _example(leaf: Operand) -> Any:
    return leaf if type(leaf) in (int, float, complex) else first_example(leaf)


def overwrite(argument: Any, new: Any) -> None:
    """Write into an argument what the function has written into it, which may have set its shape, too."""
    if argument.shape != new.shape:
        argument.shape = new.shape
    argument[...] = new


def result_of(value: Any) -> Any:
    """Return a result of a program as a plain tensor."""
    if type(value) is np.ndarray:
        return box(value if value.shape else value[()], UNTRACED, None)
    return untraced(value) if type(value) is Tensor else box(value, UNTRACED, None)
