"""What is said of a graph besides operations: placeholders, dependencies, devices."""

from __future__ import annotations

import abc
import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import fgrad
from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.branches import branches
from fgrad.compat.deferred.convert import convert
from fgrad.compat.deferred.graph import (
    Graph,
    GraphTensor,
    Operation,
    Placeholder,
    Symbol,
    TensorShape,
    default_graph,
    operation,
)
from fgrad.compat.deferred.loops import as_list, loop
from fgrad.compat.deferred.state import as_symbol
from fgrad.compat.tensorflow.arguments import is_deferred, is_version_1
from fgrad.compat.tensorflow.within import Run, taped
from fgrad.core.tree import flatten, tree_map, unflatten
from fgrad.native.compiled import compile
from fgrad.transforms.batch import vmap


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Placeholder:
    """Return a graph tensor whose value is fed at every run.

    Args:
        dtype: in which values are fed.
        shape: of the values; None in it admits any size, None for it any shape.
        name: of the node.

    Raises:
        SessionError: a RuntimeError; operations are computed at once, and there is no graph to feed.
    """
    if not mode.is_deferring():
        raise errors.SessionError(
            "tf.placeholder() is not compatible with eager execution.\nCall tf.disable_v2_behavior() first, work in "
            "`with tf.Graph().as_default():`, or import fgrad.compat.tensorflow1, which is in graph mode at once."
        )
    return Placeholder(dtype, shape, name)


class PlaceholderWithDefault(GraphTensor):
    """A value that may be fed, and otherwise is that of another tensor."""

    def __init__(self, input: Any, shape: Any, name: str | None) -> None:
        default = as_symbol(input)
        self._static = (None if shape is None else list(TensorShape(shape)), default.dtype)
        super().__init__(default.graph, name or "PlaceholderWithDefault", [default])

    def compute(self, run: Any) -> Any:
        return run.values[self.inputs[0]]


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Any:
    """Return a graph tensor whose value may be fed; see `placeholder`. Eagerly it is `input`.

    Args:
        input: its value where none is fed.
        shape: of the values.
        name: of the node.
    """
    if not is_deferred(input):
        return convert(input)
    return PlaceholderWithDefault(input, shape, name)


class ConfigProto:
    """Options for a session, without effect: fgrad computes where it runs.

    Args:
        options: TensorFlow's, by their names.
    """

    def __init__(self, **options: Any) -> None:
        self.gpu_options = SimpleNamespace()
        vars(self).update(options)


def get_default_graph() -> Graph:
    """Return the graph into which operations are put."""
    return default_graph()


def get_default_session() -> Any:
    """Return the session whose block is innermost, or None."""
    return mode.open_session()


def control_dependencies(control_inputs: Any) -> Any:
    """Return a context in which new nodes wait for others; eagerly everything happens in order."""
    if not mode.is_deferring():
        return contextlib.nullcontext()
    return default_graph().control_dependencies(control_inputs)


def device(device_name: Any) -> Any:
    """Return a context without effect: fgrad computes where it runs."""
    return contextlib.nullcontext()


def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    """Return a context without effect: fgrad computes where it runs."""
    return contextlib.nullcontext()


def no_op(name: str | None = None) -> Operation | None:
    """Return an operation that does nothing; eagerly None."""
    return Operation(name or "NoOp", lambda run: None, ()) if mode.is_deferring() else None


def function(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return a function that does the same as native code, as `fgrad.compile` makes it.

    A function that cannot be compiled runs as Python: one that asks for values (`if x > 0`), or that uses others in
    each call, such as random numbers; and all where llvmlite is not installed, and in graph mode. As in TensorFlow, a
    compiled one runs its Python at the first call for arguments of a form alone.

    Args:
        func: the function; numbers that it returns become tensors.
        options: TensorFlow's options on compilation, without effect.
    """
    if func is None:
        return functools.partial(function, **options)
    held = _Function(func)

    @functools.wraps(func)
    def call(*args: Any, **keywords: Any) -> Any:
        return held(*args, **keywords)

    return call


class _Function:
    """A function that is compiled where that is possible, and runs under a tape where it asks for gradients.

    Args:
        python: the function itself.
    """

    def __init__(self, python: Callable[..., Any]) -> None:
        self._compiled, self._python, self._taped = compile(python), python, python
        self._outside: Sequence[Any] = ()
        self._is_refused = False
        self._mode = mode.current()

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if mode.is_deferring() or not (self._mode.eager or mode.is_running()):
            return tree_map(_tensor, self._python(*args, **keywords))
        try:
            with Run() as run:
                return tree_map(_tensor, self._result(run, args, keywords))
        except (errors.TapeError, errors.SourceError) as error:
            # What is unknown again the function has made itself.
            if not run.needs_tape and (not run.unknown or self._outside):
                raise
            if run.assignments.happened:
                raise errors.TapeError(
                    "this tf.function has asked for gradients after it has assigned variables, and cannot be compiled; "
                    "to find the gradients, it would have to run, and to assign, again.\nUse tf.GradientTape, or let "
                    "it not depend on values (`if x > 0`)."
                ) from error
            self._outside = run.unknown
            self._taped = taped(self._python, self._outside)
            # A program knows the tensors from outside as they are when it is made, and nothing of tapes around it.
            self._compiled, self._is_refused = compile(self._taped), bool(self._outside)
            return self(*args, **keywords)

    def _result(self, run: Run, args: Any, keywords: Any) -> Any:
        if not self._is_refused:
            try:
                return self._compiled(*args, **keywords)
            except _NO_PROGRAM:
                self._is_refused = True
        with run.assignments:
            return self._taped(*args, **keywords)


_NO_PROGRAM = (
    errors.ClosureError,
    errors.ConcretizationError,
    errors.FrozenValueError,
    errors.LeakedTensorError,
    errors.MissingExtraError,
)
"""What is raised for functions that can run, but not be compiled."""


def _tensor(x: Any) -> Any:
    return convert(x) if isinstance(x, (bool, int, float, complex)) else x


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None) -> Any:
    """Return the result of one of two functions.

    Eagerly only that one is called. In a graph both are called at once, and of the nodes that they make a
    run computes those of the one that is chosen; what was made before is computed in any case.

    Args:
        pred: the truth value that chooses.
        true_fn, false_fn: functions without arguments that return a tensor, an operation, or a container of them.
        name: of the node.

    Raises:
        StructureError: a TypeError; in a graph, the functions do not return containers of one structure.
    """
    if isinstance(pred, Symbol) or mode.is_deferring():
        return branches(pred, true_fn, false_fn, name)
    return true_fn() if pred else false_fn()


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    *,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool | None = None,
) -> Any:
    """Call a function on variables for as long as a condition holds.

    Derivatives pass through the iterations that were taken. Eagerly it is Python's `while`. In a graph both functions
    are called once, and a run computes what they have made anew in every iteration; what was made before is computed
    once. A body that takes derivatives takes them of one iteration: what the iteration begins with is given.

    Args:
        cond: a function of the variables that returns a truth value.
        body: a function of the variables that returns the next ones.
        loop_vars: what the variables begin with: a list or tuple, also with containers in it.
        shape_invariants: in a graph, the shapes of variables that change theirs, nested as `loop_vars`, with None for
            the sizes that change.
        parallel_iterations, swap_memory: without effect.
        back_prop: in a graph, whether derivatives pass; eagerly without effect, as in TensorFlow.
        name: of the nodes.
        maximum_iterations: the largest number of iterations.
        return_same_structure: whether one variable comes back in a list, too. By default True, and False in
            TensorFlow 1's namespace.

    Returns:
        The variables as the last iteration has left them, in a list or tuple as `loop_vars`.

    Raises:
        StructureError: a TypeError; the body returns something else than the variables.
        DtypeError: a TypeError; in a graph, the body returns another dtype for one.
        ShapeError: a ValueError; in a graph, the body returns another shape for one.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> x = tf.constant(3.0)
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     _, power = tf.while_loop(lambda i, y: i < 4, lambda i, y: [i + 1, x * y], [0, 1.0])
        >>> power, tape.gradient(power, x)
        (Tensor(81., dtype=float32), Tensor(108., dtype=float32))
    """
    first = as_list(loop_vars)
    if not first:
        raise errors.ParameterError("loop_vars is empty: a loop needs a variable, on which its condition depends.")
    if is_deferred(*flatten(first)[0]) or isinstance(maximum_iterations, Symbol):
        found = loop(cond, body, first, shape_invariants, maximum_iterations, back_prop, name)
    else:
        found = _turned(cond, body, tree_map(convert, first), maximum_iterations)
    if not isinstance(loop_vars, (list, tuple)) or (len(first) == 1 and _is_unpacked(return_same_structure)):
        return found[0]
    return found if isinstance(loop_vars, list) else unflatten(flatten(loop_vars)[1], flatten(found)[0])


def vectorized_map(fn: Callable[[Any], Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """Call a function on all rows at once; see `fgrad.vmap`.

    In a graph the function runs when a session runs the graph, on values: what it uses of the graph must be among
    `elems`.

    Args:
        fn: takes a row, or a container of rows nested as `elems` is; returns a tensor or a container of them.
        elems: a tensor, or a container of tensors with as many rows; those with one row serve all.
        fallback_to_while_loop, warn: without effect.

    Returns:
        The results with an axis for the rows in front.

    Raises:
        ShapeError: a ValueError; there are no rows, or different numbers of them.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> tf.vectorized_map(lambda row: tf.reduce_sum(row * row), tf.constant([[1.0, 2.0], [3.0, 4.0]]))
        Tensor([ 5., 25.], dtype=float32)
    """
    leaves, treedef = flatten(elems)
    if not is_deferred(*leaves):
        return _on_rows(fn, treedef, leaves)

    @operation("loop_body")
    def one_of_all(place: int, *leaves: Any) -> Any:
        return flatten(_on_rows(fn, treedef, leaves))[0][place]

    # The nodes that it makes of first rows are not run: they tell how results are nested.
    firsts, outline = flatten(fn(unflatten(treedef, [as_symbol(leaf)[0] for leaf in leaves])))
    return unflatten(outline, [one_of_all(place, *leaves) for place in range(len(firsts))])


def _on_rows(fn: Callable[[Any], Any], treedef: Any, leaves: Sequence[Any]) -> Any:
    values = [convert(leaf) for leaf in leaves]
    if not values or not all(value.ndim for value in values):
        raise errors.ShapeError("vectorized_map takes tensors with an axis for rows, or a container of them.")
    serves_all = [len(value) == 1 for value in values]
    if all(serves_all):
        serves_all = [False] * len(values)

    def on_row(*row: Any) -> Any:
        return tree_map(_tensor, fn(unflatten(treedef, row)))

    rows = [value[0] if serves else value for value, serves in zip(values, serves_all, strict=True)]
    return vmap(on_row, in_axes=tuple(None if serves else 0 for serves in serves_all))(*rows)


def _is_unpacked(return_same_structure: bool | None) -> bool:
    return is_version_1() if return_same_structure is None else not return_same_structure


def _turned(cond: Any, body: Any, variables: list[Any], maximum_iterations: Any) -> list[Any]:
    """Return the variables behind a loop that runs now."""
    structure = flatten(variables)[1]
    limit = math.inf if maximum_iterations is None else int(maximum_iterations)
    iterations = 0
    while iterations < limit and cond(*variables):
        leaves, found = flatten(as_list(body(*variables)))
        if found != structure:
            raise errors.StructureError(f"body must return what it takes, {structure}, and returns {found}.")
        pairs = zip(leaves, flatten(variables)[0], strict=True)
        variables = unflatten(structure, [convert(leaf, hint=held.dtype) for leaf, held in pairs])
        iterations += 1
    return variables


class Tensor(abc.ABC):  # noqa: B024
    """What tensors are instances of, those of a graph and those with values."""


Tensor.register(fgrad.Tensor)
Tensor.register(GraphTensor)
