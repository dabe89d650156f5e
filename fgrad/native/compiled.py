"""`fgrad.compile`: a function of the user's, recorded once for each form of its arguments, and run as native code."""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, box, boxed, settle
from fgrad.core.trace import UNTRACED, attention, running
from fgrad.core.tree import flatten, tree_map, unflatten
from fgrad.core.variable import assign_all
from fgrad.errors.places import depth_of_user
from fgrad.graphs.arguments import texts_of
from fgrad.graphs.equations import Name, kind_of, shown
from fgrad.graphs.graph import Block, Graph
from fgrad.graphs.record import recorded
from fgrad.native.freezing import check_repeats
from fgrad.native.functions import Function
from fgrad.native.inspection import Inspection, changes_between, inspected
from fgrad.native.options import Options
from fgrad.ops.tracing import example_of
from fgrad.transforms.calls import Transformed, name_of, select
from fgrad.transforms.running import call_users, is_number, untraced

P = ParamSpec("P")
R = TypeVar("R")

_MOST_PROGRAMS = 64
_MANY = 8
"""So many programs for one function, one after the other, are worth a warning."""


class Compiled(Transformed, Generic[P, R]):
    """The function that `compile` returns: called, it does what the function does, as native code.

    Args:
        function: the user's.
        options: of `compile`.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> total = fg.compile(lambda x, y: np.sum(x * y))
        >>> total(np.array([1.0, 2.0]), 3.0)
        Tensor(9.)
        >>> print(total.inspect(np.array([1.0, 2.0]), 3.0).stages[0].operations)
        {'multiply': 1, 'sum': 1}
    """

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        self._programs = _Programs(function, **options)
        super().__init__(_run_compile, function, {"programs": self._programs})
        self._given = options
        self._bound: weakref.WeakKeyDictionary[Any, Compiled[Any, Any]] = weakref.WeakKeyDictionary()

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        if not keywords and not running.watches and running.call is None:  # the usual case, in the shortest time
            program = self._programs.known.get(tuple([_form_of(x) for x in args]))
            if program is not None and not attention:
                return program.run(args)  # type: ignore[no-any-return]
        return super().__call__(*args, **keywords)  # type: ignore[no-any-return]

    def inspect(self, *args: Any, measure: bool = False, **keywords: Any) -> Inspection:
        """Return what the program for these arguments consists of; it is compiled if there is none yet.

        Args:
            args, keywords: as the function is called with them.
            measure: time each stage for these arguments, by running it for a fiftieth of a second.

        Returns:
            A report; printed, it lists the loops and routines with the user's lines, what NumPy runs and why, flops,
            bytes and memory.

        Raises:
            FgradError: what a call raises, too.
        """
        options = {"programs": self._programs, "measure": measure}
        call = Transformed(_run_inspect, self._function, options, is_kept=False)
        return call(*args, **keywords)  # type: ignore[no-any-return]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or not hasattr(self._function, "__get__"):
            return self
        bound = Compiled(self._function.__get__(instance, owner), self._given)
        try:
            return self._bound.setdefault(instance, bound)
        except TypeError:  # it cannot be a key, so there are programs for each time that it is asked for
            return bound

    def __reduce__(self) -> Any:
        whole = super().__reduce__()
        return whole if isinstance(whole, str) or whole[0] is getattr else (Compiled, (self._function, self._given))


def _form_of(x: Any) -> Any:
    """Return what `_kind` does, of the leaves that are met most often, and None of all else."""
    kind = type(x)
    if kind is np.ndarray or kind is np.float64:
        return x.shape, x.dtype
    if kind is Tensor:
        return None if x.tracing.level or x.tracing.outdated else (x.value.shape, x.value.dtype)
    return kind if kind is float else None


def _run_compile(function: Any, args: tuple[Any, ...], keywords: dict[str, Any], programs: _Programs) -> Any:
    if attention and any(observer.wants_python for observer in running.observers):
        return _run_python(function, args, keywords, programs)
    program, leaves = programs.for_call(args, keywords)
    return program(leaves)


def _run_inspect(
    function: Any, args: tuple[Any, ...], keywords: dict[str, Any], programs: _Programs, measure: bool
) -> Inspection:
    program, leaves = programs.for_call(args, keywords)
    return program.inspected(leaves, measure, programs)


def _run_python(function: Any, args: tuple[Any, ...], keywords: dict[str, Any], programs: _Programs) -> Any:
    """Run the function itself, on tensors as when it is recorded, for somebody who wants to see its operations."""
    form = programs.form(args, keywords)
    args, keywords = form.whole([x if type(x) in (int, float, complex) else boxed(x) for x in form.inputs])
    return tree_map(lambda x: _tensor(x) if is_number(x) else x, call_users(function, args, keywords))


class _Programs:
    """The programs of one function, by the form of the arguments.

    Attributes:
        known: those that there are, the latest last.
        count: how many there have been.
    """

    def __init__(self, function: Any, static: Any, options: Options) -> None:
        self._function, self._static, self._options = function, static, options
        self.known: OrderedDict[Hashable, _Program] = OrderedDict()
        self.count = 0
        self._with_integers_fixed: set[Hashable] = set()
        self._lock = threading.RLock()

    def for_call(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[_Program, list[Any]]:
        """Return the program for arguments, and those of their leaves that go into it."""
        form = self.form(args, keywords)
        if form.key in self._with_integers_fixed:
            form = _Form(self._function, self._static, args, keywords, fixes_integers=True)
        program = self.known.get(form.key)
        if program is None:
            program, form = self._added(form, args, keywords)
        return program, form.inputs

    def form(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> _Form:
        """Return what decides which program is for arguments."""
        return _Form(self._function, self._static, args, keywords)

    def _added(self, form: _Form, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[_Program, _Form]:
        with self._lock:
            if form.key not in self.known:
                try:
                    program = _Program(self._function, form, self._options)
                except Exception:
                    if int not in map(type, form.inputs):
                        raise
                    # An integer may be what a loop counts to, or an axis: then it is part of the program.
                    fixed = _Form(self._function, self._static, args, keywords, fixes_integers=True)
                    program = _Program(self._function, fixed, self._options)
                    self._with_integers_fixed.add(form.key)
                    form = fixed
                self.known[form.key] = program
                self.count += 1
                if len(self.known) > _MOST_PROGRAMS:
                    self.known.popitem(last=False)
                if self.count % _MANY == 0:
                    self._warn()
            return self.known[form.key], form

    def _warn(self) -> None:
        warnings.warn(
            f"{name_of(self._function)} was compiled for the {self.count}th time: its arguments keep changing in "
            "shape, dtype, structure, or in what is no array.\nPass integers that change as arrays, np.asarray(n), "
            "and pad arrays to a few sizes.",
            errors.CompileWarning,
            stacklevel=depth_of_user(),
        )


class _Form:
    """What decides which program is for a call.

    Attributes:
        key: calls with the same one have the same program.
        inputs: the leaves that go into the program.
    """

    def __init__(
        self,
        function: Any,
        static: Any,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        fixes_integers: bool = False,
    ) -> None:
        self.leaves, self.treedef = flatten((args, keywords))
        kinds = [_kind(leaf) for leaf in self.leaves]
        if static not in ((), None):
            fixed = _fixed(function, static, args, keywords)
            kinds = [None if is_fixed else kind for kind, is_fixed in zip(kinds, fixed, strict=True)]
        if fixes_integers:
            kinds = [None if kind is int else kind for kind in kinds]
        self.is_input = [kind is not None for kind in kinds]
        rest: tuple[_Static, ...] = ()
        if None not in kinds:
            self.inputs = self.leaves
        else:
            self.inputs = [leaf for leaf, own in zip(self.leaves, self.is_input, strict=True) if own]
            rest = tuple([_Static(x) for x, own in zip(self.leaves, self.is_input, strict=True) if not own])
        if not keywords and not rest and all(type(x) in _SIMPLE for x in args):
            self.key: Hashable = tuple(kinds)
        else:
            self.key = self.treedef, tuple(kinds), rest

    def described(self, function: Any, names: Sequence[Name]) -> list[tuple[str, str]]:
        """Return what to call each leaf, and its form by the name of its input, or its value."""
        rest = iter(names)
        forms = [kind_of(next(rest)) if own else shown(x) for x, own in zip(self.leaves, self.is_input, strict=True)]
        return list(zip(texts_of(function, *unflatten(self.treedef, self.leaves)), forms, strict=True))

    def whole(self, inputs: Sequence[Any]) -> Any:
        """Return arguments and keywords with other inputs."""
        rest = iter(inputs)
        leaves = [next(rest) if own else x for x, own in zip(self.leaves, self.is_input, strict=True)]
        return unflatten(self.treedef, leaves)


def _fixed(function: Any, static: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[bool]:
    """Return which leaves are part of the program because the user says so."""
    names = set(select(function, static, args, keywords)[0])
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
    if kind is float or kind is complex or (kind is int and abs(leaf) < 1 << 62):
        return kind
    if kind in BOXES or not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype.kind not in "biufc":
        return None  # among others a variable, which is read when the program runs
    return leaf.shape, leaf.dtype


class _Static:
    """Part of a key: something that is no input of the program."""

    def __init__(self, value: Any) -> None:
        self.value = value
        try:
            self._hash = hash((type(value), value))
        except TypeError:
            self._hash = hash(value.tobytes()) if isinstance(value, np.ndarray) else id(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Static) or type(self.value) is not type(other.value):
            return False
        if isinstance(self.value, np.ndarray):
            return self.value.dtype == other.value.dtype and bool(np.array_equal(self.value, other.value))
        return self.value is other.value or bool(self.value == other.value)


class _Program:
    """A function for arguments of one form.

    Attributes:
        function: what runs it: of the leaves and of the variables that are read.
        graph: as it was recorded.
        assigned: the variables to which the last results are assigned.
        leaves: what to call each leaf of the arguments, with its dtype and shape, or its value if it is no input.
        seconds: how long recording took, with the second time to compare.
    """

    def __init__(self, function: Any, form: _Form, options: Options) -> None:
        def flat(*inputs: Any) -> Any:
            args, keywords = form.whole(inputs)
            return call_users(function, args, keywords)

        flat.__name__ = self.name = name_of(function)
        examples = tuple(map(_example, form.inputs))
        start = time.perf_counter()
        self.graph, self.assigned = recorded(flat, examples, {}, integers=True)
        check_repeats(flat, examples, self.graph, self.assigned)
        self.seconds = time.perf_counter() - start
        self.is_input, self.leaves = form.is_input, form.described(function, self.graph.inputs)
        self._variables = list(self.graph.variables.values())
        is_number = [type(x) is Name or hasattr(x, "dtype") for x in self.graph.outputs]
        self._template = [None if own else x for x, own in zip(self.graph.outputs, is_number, strict=True)]
        self._is_number = is_number
        numbers = [settle(x) for x, own in zip(self.graph.outputs, is_number, strict=True) if own]
        self.function = Function(_block(self.graph, numbers), self.name, options)
        self._nested = _nesting(self.graph.treedef)
        self._is_plain = not self._variables and not self.assigned and all(is_number)

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run the program for leaves that nothing follows, while nothing else runs."""
        if not self._is_plain:
            return self(leaves)
        return self._nested([_tensor(each) for each in self.function.run(leaves)])

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Run the program, and assign what is to be assigned."""
        found = self.function([*leaves, *map(settle, self._variables)])
        if self.assigned:
            count = len(found) - len(self.assigned)
            assign_all(self.assigned, found[count:])
        rest = iter(found)
        whole = [_tensor(next(rest)) if own else x for x, own in zip(self._template, self._is_number, strict=True)]
        return self._nested(whole)

    def inspected(self, leaves: Sequence[Any], measure: bool, programs: _Programs) -> Inspection:
        """Return the report of the program."""
        function = self.function
        described = [(f"{label}: {form}", own) for (label, form), own in zip(self.leaves, self.is_input, strict=True)]
        variables = self.graph.variables.items()
        return inspected(
            function,
            function.arrays([*map(settle, leaves), *map(settle, self._variables)]) if measure else None,
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
    if result.type is tuple and result.num_children == count:
        return lambda leaves: tuple(leaves[:count])
    return lambda leaves: unflatten(treedef, leaves)[0]


_SIMPLE = {np.ndarray, np.float64, Tensor, float}


def _block(graph: Graph, outputs: Sequence[Any]) -> Block:
    return Block([*graph.inputs, *graph.variables], graph.constants, graph.equations, outputs)


def _example(leaf: Any) -> Any:
    return leaf if type(leaf) in (int, float, complex) else example_of(leaf)


def _tensor(value: Any) -> Any:
    if type(value) is np.ndarray:
        return box(value if value.shape else value[()], UNTRACED, None)
    return untraced(value) if type(value) is Tensor else box(value, UNTRACED, None)


@overload
def compile(function: Callable[P, R]) -> Compiled[P, R]: ...
@overload
def compile(
    *, static: Any = (), threads: int | None = None, precise: bool = False
) -> Callable[[Callable[P, R]], Compiled[P, R]]: ...
def compile(function: Any = None, *, static: Any = (), threads: int | None = None, precise: bool = False) -> Any:
    """Return a function that does the same as native code.

    The first call with arguments of a form records what `function` computes, as `trace` does, and compiles that.
    Slices, elementwise operations and reductions become loops, which make no arrays on the way; products of matrices,
    and what is solved with them, call the libraries; the rest is left to NumPy. Further calls run the code alone, none
    of the function's Python.

    Arrays, tensors and Python's numbers go into the program. All else is part of it, and so are integers whose value is
    asked for, as by `range(n)`: there is a program for each combination of shapes, dtypes, structure, and values of
    what does not go in. Variables are read
    when the program runs, and assignments to them are carried out when it has ended, all of them or none.

    Transforms take a compiled function as any other, and run native code for derivatives and batches; and a gradient
    function can be compiled, which is the usual way.

    Args:
        function: takes and returns arrays, numbers or containers of them. It cannot ask for values that depend on its
            arguments (`if x > 0`).
        static: names or positions of arguments that are part of the program, arrays and floats too.
        threads: on how many cores large loops run; by default what FGRAD_NUM_THREADS or OMP_NUM_THREADS says, or all
            that there are. The result does not depend on it.
        precise: elementary functions are the C library's, one number at a time, and correct to about one unit in the
            last place; by default several at once, to four.

    Returns:
        A function of the same arguments, with Tensors for arrays and numbers in what it returns.

    Raises:
        MissingExtraError: an ImportError, from a call; llvmlite is not installed: `pip install 'fgrad[compile]'`.
        ConcretizationError: a TypeError, from a call; `function` asks for a value.
        FrozenValueError: a RuntimeError, from a call; `function` uses a value that changes from call to call, such as a
            random number, and is not among its arguments.
        ParameterError: a ValueError; `threads` is no positive integer.
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
    options = {"static": static, "options": Options(threads, precise)}
    return (lambda function: Compiled(function, options)) if function is None else Compiled(function, options)
