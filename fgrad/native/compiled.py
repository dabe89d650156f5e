"""`fgrad.compile`: a function of the user's, recorded once for each form of its arguments, and run as native code."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import os
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from fgrad import errors
from fgrad._locks import Lock
from fgrad.core.foreign import refuse_payloads
from fgrad.core.overrides import refuse_labelled
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, box, boxed, strip_ended
from fgrad.core.trace import UNTRACED, is_seen, observed_by, running, unobserved
from fgrad.core.tree import flatten, tree_map, unflatten
from fgrad.core.variable import assign_all, recording
from fgrad.errors.hints import names_keywords
from fgrad.errors.places import depth_of_user
from fgrad.graphs.arguments import texts_of
from fgrad.graphs.equations import Name, kind_of, shown
from fgrad.graphs.graph import Block, Graph
from fgrad.graphs.integers import LARGEST, is_by_sign
from fgrad.graphs.record import held, new_recording, recorded
from fgrad.graphs.rolling import loops_of
from fgrad.native.artifacts import ExportedFiles, Signature, Target
from fgrad.native.cache import cache_folder
from fgrad.native.captured import Captured
from fgrad.native.freezing import check_repeats
from fgrad.native.functions import Function
from fgrad.native.layouts import form_of, inside, layout_of
from fgrad.native.options import ENGINES, Engine, Options
from fgrad.native.reports import Inspection, changes_between
from fgrad.native.signatures import Array, arguments_by_name, signature
from fgrad.native.static import OfInstances, Static
from fgrad.ops.tracing import first_example
from fgrad.rules.closures import Replaced, followers, given_now
from fgrad.transforms.calls import Transformed, name_of, select
from fgrad.transforms.running import call_users, is_number, untraced

P = ParamSpec("P")
R = TypeVar("R")

_MOST_PROGRAMS = 64
_LONG_RECORDING = 50_000
"""So many operations of a loop, recorded twice, are worth a warning: that takes a second or more."""
_MANY = 8
"""So many programs for one function, one after the other, are worth a warning."""


class Compiled(Transformed, Generic[P, R]):
    """The function that `compile` returns: called, it does what the function does, as native code.

    Args:
        function: the user's.
        options: of `compile`.
        programs: those that there are already, for a method of one object.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> total = fg.compile(lambda x, y: np.sum(x * y))
        >>> total(np.array([1.0, 2.0]), 3.0)
        Tensor(9.)
        >>> print(total.inspect(np.array([1.0, 2.0]), 3.0).stages[0].operations)
        {'multiply': 1, 'sum': 1}
    """

    def __init__(self, function: Callable[P, R], options: dict[str, Any], programs: Programs | None = None) -> None:
        self._programs = Programs(**options) if programs is None else programs
        super().__init__(_run_compile, function, {"programs": self._programs})
        self._given = options
        self._of_instances = OfInstances(lambda: Programs(**options))

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        if not running.watches and running.call is None:  # the usual case, in the shortest time
            leaves: Sequence[Any] = args
            program = None if keywords else self._programs.known.get(tuple([form_of(x) for x in args]))
            if program is None:
                layout, leaves = layout_of(args, keywords)
                program = self._programs.by_layout.get(layout)
            if program is not None and not is_seen() and program.is_current():
                return program.run(leaves)  # type: ignore[no-any-return]
        return super().__call__(*args, **keywords)  # type: ignore[no-any-return]

    @property
    def programs(self) -> Programs:
        """The programs that there are, for who runs them without this function's way through transforms."""
        return self._programs

    def inspect(self, *args: Any, measure: bool = False, **keywords: Any) -> Inspection:
        """Return what the program for these arguments consists of; it is compiled if there is none yet.

        Args:
            args, keywords: as the function is called with them.
            measure: time each stage for these arguments, by running all of them ten times or more.

        Returns:
            A report; printed, it lists the loops and routines with the user's lines, what NumPy runs and why, flops,
            bytes and memory.

        Raises:
            FgradError: what a call raises, too.
        """
        options = {"programs": self._programs, "measure": measure}
        call = Transformed(_run_inspect, self._function, options, is_kept=False)
        return call(*args, **keywords)  # type: ignore[no-any-return]

    def export(
        self, path: str | os.PathLike[str], *args: Any, keywords: Mapping[str, Any] | None = None,
        results: str | Sequence[str] | None = None, target: str | None = None, cpu: str = "", features: str = "",
        blas: bool = False, library: bool = True,
    ) -> ExportedFiles:  # fmt: skip
        """Write the program for these arguments as a C function, which needs neither Python nor NumPy.

        `export("build/model", x)` writes `model.h`, `model.o`, `model.json` and a shared library into the folder
        `build`. The function `model` takes the addresses of arguments and results, arrays in C order, and that of a
        workspace of `model_workspace_bytes()` bytes. It returns 0, or 1 where an argument has no result, such as an
        index out of range. It allocates nothing and keeps nothing: threads with a workspace each may call it at once.
        Results and workspace share no memory with each other, nor with arguments.
        Variables are part of the code, with the values that they have now. `load_exported` loads the library.

        Args:
            path: folder and name; the name is that of the function in C.
            args, keywords: arguments of the function; their shapes and dtypes are those that the C function takes.
            results: what to call the results: one name, or one for each item of a tuple, list or dict.
            target: the processor and system in LLVM's words, such as "aarch64-unknown-linux-gnu"; None: this machine.
                For another one there is no shared library.
            cpu: the kind of processor, as gcc's `-march`; "native" for that of this machine; "" for any.
            features: extensions of the processor, such as "+avx2,+fma".
            blas: call BLAS and LAPACK for products, solutions and factors, in place of loops.
            library: link a shared library, with the C compiler of the variable `CC`, or cc, gcc or clang.

        Returns:
            The paths: `header`, `object`, `description`, and `library`, which may be None.

        Raises:
            UnsupportedError: a NotImplementedError; an operation has no native code; the message names it and its line.
                Or an argument or result is complex, or a container of a class of the user's that is no dataclass.
            ParameterError: a ValueError; a name is none in C, there is no such target, or no C compiler.
            FgradError: what a call raises, too.

        Example:
            >>> import pathlib, tempfile, numpy as np, fgrad as fg
            >>> energy = fg.compile(fg.value_and_grad(lambda x: np.sum(x**4)))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     files = energy.export(folder + "/energy", np.zeros(3), results=["value", "gradient"], library=False)
            ...     print(next(line for line in files.header.read_text().splitlines() if line.startswith("int ")))
            int energy(const double *x, double *value, double *gradient, void *workspace);
        """
        target_of_code = Target(target, cpu, features, blas)
        options = {
            "programs": self._programs, "path": Path(path), "results": results, "target": target_of_code,
            "library": library and target is None,
        }  # fmt: skip
        call = Transformed(_run_export, self._function, options, is_kept=False)
        return call(*args, **(keywords or {}))  # type: ignore[no-any-return]

    def low_level(self, signature: str, *args: Any, keywords: Mapping[str, Any] | None = None) -> Any:
        """Return the program for these arguments as a C function, for libraries that call one in their inner loops.

        `scipy.LowLevelCallable(f)` is made of it, Numba calls it in compiled functions, and `ffi.cast(type, address)`
        with `ctypes.cast(f, ctypes.c_void_p).value` is one of cffi. Variables are part of the code, with the values
        that they have now.

        Args:
            signature: "double (double)" and "double (double, void *)", as `scipy.integrate.quad` calls them;
                "double (int, double *)" and "double (int, double *, void *)", as `nquad` does;
                "int (double *, intptr_t, double *, void *)", as `scipy.ndimage.generic_filter` does;
                "int (intptr_t *, double *, int, int, void *)", as `geometric_transform` does.
            args, keywords: arguments of the function: one floating-point number by default; for addresses one vector,
                or so many numbers. They are integers of 64 bits for `intptr_t *`. Numbers in `keywords` and in dicts
                lie in the order of their names.

        Returns:
            A function of `ctypes`. The code exists as long as it does. Where the arguments have no result it returns
            NaN, or 0 for failure.

        Raises:
            UnsupportedError: a NotImplementedError; an operation has no native code, or the program needs much memory.
            ParameterError: a ValueError; there is no such signature, or the function does not fit it.

        Example:
            >>> import numpy as np, fgrad as fg, scipy.integrate
            >>> density = fg.compile(lambda x: np.exp(-x * x)).low_level("double (double)")
            >>> round(scipy.integrate.quad(scipy.LowLevelCallable(density), 0.0, np.inf)[0], 6)
            0.886227
        """
        options = {"programs": self._programs, "signature": signature}
        call = Transformed(_run_low_level, self._function, options, is_kept=False)
        return call(*(args or (() if keywords else (1.0,))), **(keywords or {}))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or not hasattr(self._function, "__get__"):
            return self
        return Compiled(self._function.__get__(instance, owner), self._given, self._of_instances[instance])

    def __reduce__(self) -> Any:
        whole = super().__reduce__()
        return whole if isinstance(whole, str) or whole[0] is getattr else (Compiled, (self._function, self._given))


def _run_compile(function: Any, args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs) -> Any:
    if any(observer.wants_python for observer in running.observers):
        return _run_python(function, args, keywords, programs)
    engine = programs.engine
    if engine is not None and any(map(engine.owns, flatten((args, keywords))[0])):
        program, inputs = programs.for_arrays(engine, function, args, keywords)
        return program.with_arrays(inputs)
    form = Form(function, programs.static, args, keywords)
    if recording() is not None or any(trace.wants_python for trace in followers(form.inputs)):
        return call_users(function, args, keywords)  # it becomes part of the program around it
    program, form = programs.for_form(function, form)
    if program.closes_over_traced:
        programs.forget(form)
        warnings.warn(
            f"{name_of(function)} uses a traced value that is not one of its arguments, so there is no program for it, "
            "and it runs as it would without compile.\nPass the value as an argument.",
            errors.CompileWarning,
            stacklevel=depth_of_user(),
        )
        return call_users(function, args, keywords)
    programs.note_layout(program, form, args, keywords)
    try:
        return program(form.inputs)
    except errors.GraphInputError:
        if int not in map(type, form.inputs):
            raise
    # A result has another form for these integers, such as a power with a negative exponent: they are asked for.
    program, form = programs.for_form_with_integers_fixed(function, form)
    return program(form.inputs)


def _run_inspect(
    function: Any, args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs, measure: bool
) -> Inspection:
    if programs.engine is not None:
        raise errors.ParameterError(
            "inspect describes native code, and this function runs on another engine.\n"
            "Its program is fg.trace(f)(x), and what JAX makes of it jax.jit(fg.to_jax(f)).lower(x).compile()."
        )
    program, form = programs.for_form(function, Form(function, programs.static, args, keywords))
    if program.closes_over_traced:
        programs.forget(form)
        raise _no_program(function)
    return program.inspected(form.inputs, measure, programs)


def _run_export(
    function: Any, args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs, path: Path,
    results: str | Sequence[str] | None, target: Target, library: bool,
) -> ExportedFiles:  # fmt: skip
    exporting: Any = importlib.import_module("fgrad.native.exporting")  # which few ask for
    if library:
        exporting.compiler()
    program, form = _program_alone(function, args, keywords, programs)
    code = exporting.object_file(program.signature(path.name, function, form, results), program.frozen(), target)
    return exporting.write(code, path, library)  # type: ignore[no-any-return]


def _run_low_level(
    function: Any, args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs, signature: str
) -> Any:
    lowlevel: Any = importlib.import_module("fgrad.native.lowlevel")
    if signature not in lowlevel.SIGNATURES:
        known = "\n".join(f"  {each}" for each in lowlevel.SIGNATURES)
        raise errors.ParameterError(f"low_level has no signature {signature!r:.80}; there are:\n{known}")
    program, _ = _program_alone(function, args, keywords, programs)
    program.check_pure()
    return lowlevel.low_level(program.frozen(), program.name, signature)


def _program_alone(
    function: Any, args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs
) -> tuple[Program, Form]:
    """Return the program for arguments, to be run without this process's Python."""
    if programs.engine is not None:
        raise errors.ParameterError("a C function is native code, and this function runs on another engine.")
    program, form = programs.for_form(function, Form(function, programs.static, args, keywords))
    if program.closes_over_traced:
        programs.forget(form)
        raise _no_program(function)
    return program, form


def _no_program(function: Any) -> errors.ClosureError:
    return errors.ClosureError(
        f"{name_of(function)} uses a traced value that is not one of its arguments, so it has no program.\n"
        "Pass the value as an argument."
    )


def _run_python(function: Any, args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs) -> Any:
    """Run the function itself, on tensors as when it is recorded, for somebody who wants to see its operations."""
    form = Form(function, programs.static, args, keywords)
    inputs = [x if type(x) in (int, float, complex) else boxed(x) for x in form.inputs]
    args, keywords = form.outline.whole(inputs)
    return tree_map(lambda x: _tensor(x) if is_number(x) else x, call_users(function, args, keywords))


class Programs:
    """The programs of one function, by the form of the arguments.

    Attributes:
        static: names or positions of arguments that are part of the program.
        engine: what runs them in place of native code; None: nothing.
        known: those that there are, the latest last.
        by_layout: those of arguments in containers all of whose leaves go into the program, by `layout_of`.
        count: how many there have been.
    """

    def __init__(self, static: Any, options: Options) -> None:
        self.static, self._options = static, options
        self.engine = options.engine
        self.known: OrderedDict[Hashable, Program] = OrderedDict()
        self.by_layout: dict[Hashable, Program] = {}
        self.count = 0
        self._with_integers_fixed: set[Hashable] = set()
        self._change = ""  # what the function refers to and was another one, the last time
        self._lock, self._assigning = Lock(), Lock()

    def for_form(self, function: Any, form: Form) -> tuple[Program, Form]:
        """Return the program for arguments of a form, and the form in which they go into it."""
        if form.key in self._with_integers_fixed:
            form = form.with_integers_fixed()
        program = self.known.get(form.key)
        return self._added(function, form) if program is None or not program.is_current() else (program, form)

    def for_form_with_integers_fixed(self, function: Any, form: Form) -> tuple[Program, Form]:
        """Return the program in which the integers of a form are part of it, as they are from now on."""
        self._with_integers_fixed.add(form.key)
        return self.for_form(function, form)

    def known_for(self, form: Form) -> Program | None:
        """Return the program for arguments of a form, None if there is none, or none that still holds."""
        if form.key in self._with_integers_fixed:
            form = form.with_integers_fixed()
        program = self.known.get(form.key)
        return program if program is not None and program.is_current() else None

    def for_arrays(
        self, engine: Engine, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[Program, list[Any]]:
        """Return the program for arguments of which some are arrays of an engine, and what goes into it.

        Raises:
            ClosureError: a TypeError; a transform of fgrad's follows an argument, a variable, or what is closed over.
        """
        leaves, treedef = flatten((args, keywords))
        examples = [engine.example(x) if engine.owns(x) else x for x in leaves]
        program, form = self.for_form(function, Form(function, self.static, *unflatten(treedef, examples)))
        inputs = [strip_ended(x) for x, own in zip(leaves, form.is_input, strict=True) if own]
        if program.closes_over_traced:
            self.forget(form)
            raise _no_program(function)
        if followers(inputs) or program.reads_traced():
            raise errors.ClosureError(
                f"{name_of(function)} was called with arrays of an engine, and a transform of fgrad's follows what it "
                "computes with.\nPass NumPy's arrays, or transform the function before it is compiled."
            )
        return program, inputs

    def note_layout(self, program: Program, form: Form, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Let later calls with such arguments find the program quickly."""
        layout = layout_of(args, keywords)[0] if all(form.is_input) else None
        if layout is not None:
            self.by_layout[layout] = program

    def forget(self, form: Form) -> None:
        """Drop a program that is of no use to a later call."""
        self._dropped(self.known.pop(form.key, None))

    def _dropped(self, program: Program | None) -> None:
        self.by_layout = {layout: each for layout, each in list(self.by_layout.items()) if each is not program}

    def _added(self, function: Any, form: Form) -> tuple[Program, Form]:
        with self._lock:
            program = self.known.get(form.key)
            if program is None or not program.is_current():
                self._change = "" if program is None else program.change()
                program, form = self._made(function, form)
                self.known[form.key] = program
                self.count += not program.closes_over_traced
                if len(self.known) > _MOST_PROGRAMS:
                    self._dropped(self.known.popitem(last=False)[1])
                if self.count % _MANY == 0 and not program.closes_over_traced:
                    self._warn(function)
            return program, form

    def _made(self, function: Any, form: Form) -> tuple[Program, Form]:
        try:
            return Program(function, form, self._options, self._assigning), form
        except Exception:
            if int not in map(type, form.inputs):
                raise
        # An integer may be what a loop counts to, or an axis: then it is part of the program.
        fixed = form.with_integers_fixed()
        program = Program(function, fixed, self._options, self._assigning)
        self._with_integers_fixed.add(form.key)
        return program, fixed

    def _warn(self, function: Any) -> None:
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
            "shape, dtype, structure, or in what is part of the program, such as integers whose value is asked for.\n"
            "Pad arrays to a few sizes, and pass what changes as arrays or floats.",
            errors.CompileWarning,
            stacklevel=depth_of_user(),
        )


class Form:
    """What decides which program is for a call.

    Attributes:
        key: calls with the same one have the same program.
        inputs: the leaves that go into the program.
        is_input: which they are.
        inside: what the function sees of containers, besides leaves.
        outline: what the others are.
    """

    def __init__(self, function: Any, static: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self._leaves, self._treedef = flatten((args, keywords))
        if static in ((), None):
            kinds = [_kind(leaf) for leaf in self._leaves]
        else:
            fixed = _fixed(function, static, args, keywords)
            kinds = [None if is_fixed else _kind(leaf) for leaf, is_fixed in zip(self._leaves, fixed, strict=True)]
        self._is_simple = not keywords and all(type(x) in _SIMPLE for x in args)
        self.inside = () if self._is_simple else inside((args, keywords))
        self._fill(kinds)

    def _fill(self, kinds: list[Any]) -> None:
        pairs = list(zip(self._leaves, kinds, strict=True))
        self._kinds = kinds
        self.is_input = [kind is not None for kind in kinds]
        self.inputs = [leaf for leaf, kind in pairs if kind is not None]
        self.outline = _Outline(self._treedef, [leaf if kind is None else _INPUT for leaf, kind in pairs])
        self.key: Hashable = tuple(kinds)
        if not self._is_simple or None in kinds:
            fixed = tuple(Static(leaf) for leaf, kind in pairs if kind is None)
            self.key = self._treedef, self.inside, self.key, fixed

    def described(self, function: Any, names: Sequence[Name]) -> list[tuple[str, str]]:
        """Return what to call each leaf, and its form by the name of its input, or its value."""
        rest = iter(names)
        forms = [kind_of(next(rest)) if own else shown(x) for x, own in zip(self._leaves, self.is_input, strict=True)]
        return list(zip(texts_of(function, *unflatten(self._treedef, self._leaves)), forms, strict=True))

    def fixed(self) -> list[Any]:
        """Return what is part of the program: leaves, and what objects of registered classes are besides children."""
        metadata = [x.value for x in self.inside if type(x) is Static]
        return [*(x for x in self.outline.leaves if x is not _INPUT), *metadata]

    def with_integers_fixed(self) -> Form:
        """Return the form in which Python's integers are part of the program."""
        form = copy.copy(self)
        form._fill([None if kind is int else kind for kind in self._kinds])
        return form


_INPUT = object()


@dataclass
class _Outline:
    """Arguments without those that go into the program: these are not kept.

    Attributes:
        treedef: how all of them are nested.
        leaves: `_INPUT` for those that go into it.
    """

    treedef: Any
    leaves: list[Any]

    def whole(self, inputs: Sequence[Any]) -> Any:
        """Return arguments and keywords with the given inputs."""
        rest = iter(inputs)
        return unflatten(self.treedef, [next(rest) if leaf is _INPUT else leaf for leaf in self.leaves])


def _fixed(function: Any, static: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[bool]:
    """Return which leaves are part of the program because the user says so."""
    try:
        names = set(select(function, static, args, keywords)[0])
    except errors.ParameterError:
        inspect.signature(function).bind(*args, **keywords)  # what is missing is Python's to say
        raise
    fixed: list[bool] = []
    places: list[tuple[Any, Any]] = [*enumerate(args), *((name, keywords[name]) for name in sorted(keywords))]
    for place, tree in places:
        fixed += [place in names] * len(flatten(tree)[0])
    return fixed


def _kind(leaf: Any) -> Any:
    """Return what programs depend on, of a leaf that goes into them; None if it is part of the program itself."""
    kind = type(leaf)
    if kind is np.ndarray or kind is Tensor:
        return (leaf.shape, leaf.dtype) if leaf.dtype.kind in "biufc" else None
    if kind is float or kind is complex or (kind is int and abs(leaf) < LARGEST):
        return kind
    refuse_labelled(leaf)  # which could be written to later, and the program would not see it
    if kind in BOXES or not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype.kind not in "biufc":
        return None  # among others a variable, which is read when the program runs
    return leaf.shape, leaf.dtype


_IN_MEMORY = "native code computes with numbers in memory"


class Program:
    """A function for arguments of one form.

    Args:
        function: the user's.
        form: of the arguments.
        options: how it is compiled.
        assigning: held by the one thread that may run the function now, if that assigns: nothing of it is to be lost.

    Attributes:
        function: what runs it: of the leaves and of the variables that are read.
        graph: as it was recorded.
        assigned: the variables to which the last results are assigned.
        leaves: what to call each leaf of the arguments, with its dtype and shape, or its value if it is no input.
        seconds: how long recording took, with the second time to compare.
        closes_over_traced: it holds for this call alone, and there is no `function`.
        is_plain: it has to do with no variables, and returns numbers alone.
    """

    def __init__(self, function: Any, form: Form, options: Options, assigning: Lock) -> None:
        self._assigning = assigning
        outline, users = form.outline, [function]

        def flat(*inputs: Any) -> Any:
            args, keywords = outline.whole(inputs)
            return call_users(users[0], args, keywords)

        flat.__name__ = self.name = name_of(function)
        refuse_payloads("compile", form._leaves, _IN_MEMORY)
        examples = tuple(map(_example, form.inputs))
        start = time.perf_counter()
        trace, replaced = new_recording(), Replaced()
        # What is given in place of a tensor is another value in another run; nobody looks on where nothing is given.
        observers = [replaced] if given_now() else []
        with unobserved(), observed_by(*observers):
            self.graph, self.assigned = recorded(flat, examples, {}, integers=True, trace=trace)
        constants = (*self.graph.constants.values(), *self.graph.outputs)
        _check_recorded(self.graph, form)
        meets_others = self.graph.meets_other_traces or bool(replaced.tensors)
        self.closes_over_traced = meets_others or any(type(strip_ended(x)) is Tensor for x in constants)
        self._variables = list(self.graph.variables.values())
        self._trainable = [each.trainable for each in self._variables]
        self._captured = Captured(function, form.fixed())
        if self.closes_over_traced:
            return
        self.seconds = time.perf_counter() - start
        is_number = [type(x) is Name or hasattr(x, "dtype") for x in self.graph.outputs]
        numbers = [strip_ended(x) for x, own in zip(self.graph.outputs, is_number, strict=True) if own]
        self.function = Function(_block(self.graph, numbers), self.name, options)
        # What runs at once is compiled while the function is recorded once more. Not where variables are read: then
        # other threads would have more time to assign to one while it is recorded, which is refused.
        runs = options.engine is None and not followers(form.inputs) and not self._variables
        with self.function.compiling() if runs else contextlib.nullcontext():
            start = time.perf_counter()
            with unobserved(), observed_by(*observers):
                check_repeats(flat, examples, self.graph, self.assigned, trace)
            self.seconds += time.perf_counter() - start
        self._warn_of_long_recording(runs)
        self._captured.leave_out_changed()
        self.is_input, self.leaves = form.is_input, form.described(function, self.graph.inputs)
        users.clear()  # the graph knows `flat`, and is not to keep the object of a method
        self._template = [None if own else held(x) for x, own in zip(self.graph.outputs, is_number, strict=True)]
        self._is_number = is_number
        self._nested = _nesting(self.graph.treedef)
        self.is_plain = not self._variables and not self.assigned and all(is_number)

    def _warn_of_long_recording(self, is_compiled: bool) -> None:
        """Warn where a first call takes seconds because all iterations of a loop were recorded."""
        recorded = len(self.graph.equations)
        if not is_compiled or recorded < _LONG_RECORDING:
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

    def change(self) -> str:
        """Return what to call something that the function refers to and that is another now, an empty text if none."""
        return self._captured.change()

    def is_current(self) -> bool:
        """Return whether what the function refers to is what it was, and variables are trainable if they were."""
        is_same = not self._captured.change()
        return is_same and (not self._variables or self._trainable == [each.trainable for each in self._variables])

    def reads_traced(self) -> bool:
        """Return whether a trace follows a variable that the program reads."""
        return bool(self._variables) and bool(followers(list(map(strip_ended, self._variables))))

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run the program for leaves that nothing follows, while nothing else runs."""
        if not self.is_plain:
            return self(leaves)
        return self._nested([_tensor(each) for each in self.function.run(leaves)])

    def on_values(self, leaves: Sequence[Any]) -> Any:
        """Return what `__call__` does, with plain arrays and numbers of NumPy's, for leaves that nothing follows."""
        if not self.is_plain:
            return tree_map(strip_ended, self(leaves))
        return self._nested([each if each.shape else each[()] for each in self.function.run(leaves)])

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Run the program, and assign what is to be assigned."""
        if not self.assigned:
            return self._result(self._found(leaves))
        with self._assigning:
            found = self._found(leaves)
            assign_all(self.assigned, found[len(found) - len(self.assigned) :])
        return self._result(found)

    def with_arrays(self, leaves: Sequence[Any]) -> Any:
        """Run the program for arrays of an engine, and return such arrays; what is assigned becomes NumPy's."""
        with self._assigning if self.assigned else contextlib.nullcontext():
            found = self.function.call([*leaves, *map(strip_ended, self._variables)])
            assign_all(self.assigned, [np.array(x) for x in found[len(found) - len(self.assigned) :]])
        rest = iter(found)
        return self._nested([next(rest) if own else x for x, own in zip(self._template, self._is_number, strict=True)])

    def _found(self, leaves: Sequence[Any]) -> list[Any]:
        return self.function([*leaves, *map(strip_ended, self._variables)])

    def _result(self, found: Sequence[Any]) -> Any:
        rest = iter(found)
        whole = [_tensor(next(rest)) if own else x for x, own in zip(self._template, self._is_number, strict=True)]
        return self._nested(whole)

    def signature(self, name: str, function: Any, form: Form, results: str | Sequence[str] | None) -> Signature:
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
        """Check that the program returns arrays, and does nothing else.

        Raises:
            UnsupportedError: a NotImplementedError; the function assigns to variables, or returns what is no array.
        """
        if self.assigned:
            raise errors.UnsupportedError(
                f"{self.name} assigns to variables, and an exported function keeps nothing.\nReturn the new values."
            )
        odd = next((x for x, own in zip(self._template, self._is_number, strict=True) if not own), None)
        if odd is not None:
            raise errors.UnsupportedError(f"{self.name} returns {odd!r:.50}, and an exported function arrays alone.")

    def frozen(self) -> Block:
        """Return the program with the values that variables have now as constants."""
        values = {name: np.array(strip_ended(variable)) for name, variable in self.graph.variables.items()}
        graph = self.graph
        return Block(
            graph.inputs, {**graph.constants, **values}, graph.equations, list(map(strip_ended, graph.outputs))
        )

    def inspected(self, leaves: Sequence[Any], measure: bool, programs: Programs) -> Inspection:
        """Return the report of the program."""
        function = self.function
        described = [(f"{label}: {form}", own) for (label, form), own in zip(self.leaves, self.is_input, strict=True)]
        variables = self.graph.variables.items()
        inspection: Any = importlib.import_module("fgrad.native.inspection")  # which takes time, and few ask for it
        return inspection.inspected(  # type: ignore[no-any-return]
            function,
            function.arrays([*map(strip_ended, leaves), *map(strip_ended, self._variables)]) if measure else None,
            name=self.name,
            inputs=[text for text, own in described if own],
            frozen=[text for text, own in described if not own],
            variables=[f"{variable.name}: {kind_of(name)}" for name, variable in variables],
            seconds=self.seconds,
            programs=programs.count,
            changes=changes_between([each.leaves for each in programs.known.values()]),
        )


def _nesting(treedef: Any) -> Callable[[list[Any]], Any]:
    """Return what makes the first of a pair of containers of its leaves; the usual ones are made at once."""
    result = treedef.child(0)
    if result.is_leaf():
        return lambda leaves: leaves[0]
    count = result.num_leaves
    if result.type is tuple and all(child.is_leaf() for child in result.children()):
        return lambda leaves: tuple(leaves[:count])
    return lambda leaves: unflatten(treedef, leaves)[0]


def _check_recorded(graph: Graph, form: Form) -> None:
    """Raise where a graph has other libraries' arrays as constants, or holds for these integers alone."""
    has_integers = int in map(type, form.inputs)
    for equation in graph.equations:
        refuse_payloads("compile", equation.inputs, _IN_MEMORY)
        if has_integers and is_by_sign(equation):
            raise errors.ConcretizationError("use as an exponent", equation.line)


_SIMPLE = {np.ndarray, np.float64, Tensor, float}


def _block(graph: Graph, outputs: Sequence[Any]) -> Block:
    return Block([*graph.inputs, *graph.variables], graph.constants, graph.equations, outputs)


def _example(leaf: Any) -> Any:
    return leaf if type(leaf) in (int, float, complex) else first_example(leaf)


def _tensor(value: Any) -> Any:
    if type(value) is np.ndarray:
        return box(value if value.shape else value[()], UNTRACED, None)
    return untraced(value) if type(value) is Tensor else box(value, UNTRACED, None)


@overload
def compile(function: Callable[P, R]) -> Compiled[P, R]: ...
@overload
def compile(
    *,
    static: Any = (),
    threads: int | None = None,
    precise: bool = False,
    backend: str = "native",
    device: Any = None,
    cache: bool | str | os.PathLike[str] | None = None,
    reroll: bool = True,
) -> Callable[[Callable[P, R]], Compiled[P, R]]: ...
@overload
def compile(
    function: Callable[P, R],
    *,
    static: Any = (),
    threads: int | None = None,
    precise: bool = False,
    backend: str = "native",
    device: Any = None,
    cache: bool | str | os.PathLike[str] | None = None,
    reroll: bool = True,
) -> Compiled[P, R]: ...
@names_keywords
def compile(
    function: Any = None,
    *,
    static: Any = (),
    threads: int | None = None,
    precise: bool = False,
    backend: str = "native",
    device: Any = None,
    cache: bool | str | os.PathLike[str] | None = None,
    reroll: bool = True,
) -> Any:
    """Return a function that does the same as native code.

    The first call with arguments of a form records what `function` computes, as `trace` does, and compiles that.
    Slices, elementwise operations and reductions become loops, which make no arrays on the way; products of matrices,
    and what is solved with them, call the libraries; the rest is left to NumPy. Further calls run the code alone, none
    of the function's Python.

    Arrays, tensors and Python's numbers go into the program. All else is part of it, and so are integers whose value is
    asked for, as by `range(n)`: there is a program for each combination of shapes, dtypes, structure, and values of
    what does not go in. What the function refers to is part of it, too: where a number, an array or an attribute is
    another than it was, which each call looks at, the function is recorded anew. Variables are read when the program
    runs, and assignments to them are carried out when it has ended, all of them or none.

    A loop of Python's is recorded iteration by iteration, and found again: alike iterations are one native loop.
    `scan`, `fori_loop`, `while_loop` and `map` are loops at once, of which one iteration is recorded. `inspect` says
    which loops there are.

    Transforms take a compiled function as any other, and run native code for derivatives and batches; and a gradient
    function can be compiled, which is the usual way.

    Args:
        function: takes and returns arrays, numbers or containers of them. It cannot ask for values that depend on its
            arguments (`if x > 0`).
        static: names or positions of arguments that are part of the program, arrays and floats too.
        threads: on how many cores large loops run; by default what FGRAD_NUM_THREADS or OMP_NUM_THREADS says, or all
            that there are. The result does not depend on it.
        precise: elementary functions are the C library's, one number at a time, and correct to one unit in the last
            place, where the processor has longer numbers for those that are not, as x86 has, and else to a few; by
            default several at once, to four.
        backend: "native", or "jax": JAX compiles the program, and runs it on a CPU, GPU or TPU, in the dtypes that
            NumPy has. Given arrays of JAX's, which may be spread over devices, the function returns such.
        device: where JAX runs it for arrays of NumPy's: "cpu", "gpu", "tpu", or a device of `jax.devices()`; by default
            the first that JAX prefers.
        cache: keep native code in files, so that the next process does not compile it again: True for the user's
            folder of caches, or a folder, into which nobody else may write. By default what the variable FGRAD_CACHE
            says: 1, or a folder. A program that calls the code of SciPy's functions, such as `gammaln`, is not kept.
        reroll: find loops of Python's again in what is recorded. Without it they are compiled as they were recorded,
            which takes longer; `scan` and its kin are loops all the same.

    Returns:
        A function of the same arguments, with Tensors for arrays and numbers in what it returns.

    Raises:
        MissingExtraError: an ImportError, from a call; llvmlite is not installed: `pip install 'fgrad[compile]'`; or
            JAX is not: `pip install 'fgrad[jax]'`.
        NotLoweredError: a NotImplementedError, from a call; JAX has no counterpart of an operation.
        ConcretizationError: a TypeError, from a call; `function` asks for a value.
        FrozenValueError: a RuntimeError, from a call; `function` uses a value that changes from call to call, such as a
            random number, and is not among its arguments.
        ParameterError: a ValueError; `threads` is no positive integer, there is no such backend, or an option is one of
            another backend, or others may write into the folder of the cache.
        NotCallableError: a TypeError; `function` is not a function.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> @fg.compile
        ... @fg.value_and_grad
        ... def loss(x):
        ...     return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
        >>> loss(np.array([1.0, 2.0, 3.0]))
        (Tensor(201.), Tensor([-400., 1002., -200.]))
    """
    if threads is not None and (type(threads) is not int or threads < 1):
        raise errors.ParameterError(f"threads of compile must be a positive integer, or None; it is {threads!r}.")
    _check_backend(backend, threads, precise, device)
    if backend != "native" and (cache or not reroll):
        raise errors.ParameterError(f"cache and reroll of compile are for native code, not for backend={backend!r}.")
    folder = cache_folder(cache) if backend == "native" else None
    options = {
        "static": static,
        "options": Options(threads, precise, backend=backend, device=device, cache=folder, finds_loops=reroll),
    }
    return (lambda function: Compiled(function, options)) if function is None else Compiled(function, options)


def _check_backend(backend: str, threads: int | None, precise: bool, device: Any) -> None:
    """Refuse what is no backend, and options that it does not have.

    Raises:
        ParameterError: a ValueError.
    """
    if backend != "native" and backend not in ENGINES:
        known = " or ".join(map(repr, ("native", *ENGINES)))
        raise errors.ParameterError(f"backend of compile must be {known}, and is {backend!r:.50}.")
    if backend == "native" and device is not None:
        raise errors.ParameterError("device of compile is for backend='jax'; native code runs on the CPU.")
    if backend != "native" and (threads is not None or precise):
        raise errors.ParameterError(f"threads and precise of compile are for native code, not for backend={backend!r}.")
