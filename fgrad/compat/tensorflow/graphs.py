"""Placeholders, control dependencies, device scopes and control flow."""

from __future__ import annotations

import abc
import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import fgrad
from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.branches import branches
from fgrad.compat.deferred.convert import convert
from fgrad.compat.deferred.graph import (
    Convertible,
    Graph,
    GraphTensor,
    Operation,
    Placeholder,
    Symbol,
    TensorShape,
    default_graph,
)
from fgrad.compat.deferred.loops import as_list, loop
from fgrad.compat.deferred.state import as_symbol, group
from fgrad.compat.tensorflow.arguments import chosen, is_deferred, is_version_1, several
from fgrad.compat.tensorflow.math import check_numerics
from fgrad.compat.tensorflow.within import Run, taped
from fgrad.core.tree import flatten, tree_map, unflatten
from fgrad.native.compiled import compile
from fgrad.transforms.batch import vmap
from fgrad.typing import Array

if TYPE_CHECKING:
    import optree


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Placeholder:
    """Return a graph tensor whose value is fed in every run.

    Args:
        dtype: the dtype of fed values.
        shape: the shape of the values; None in it admits any size, and None alone any shape.

    Raises:
        SessionError: a RuntimeError; execution is eager, and there is no graph to feed.
    """
    if not mode.is_deferring():
        raise errors.SessionError(
            "tf.placeholder() is not compatible with eager execution.\nCall tf.disable_v2_behavior() first, work in "
            "`with tf.Graph().as_default():`, or import fgrad.compat.tensorflow1, which starts in graph mode."
        )
    return Placeholder(dtype, shape, name)


class PlaceholderWithDefault(GraphTensor):
    """A tensor whose value may be fed; by default it is that of another tensor."""

    def __init__(self, input: Any, shape: list[Any], name: str | None) -> None:
        default = as_symbol(input)
        self._static = (None if shape is None else list(TensorShape(shape)), default.dtype)
        super().__init__(default.graph, name or "PlaceholderWithDefault", [default])

    def compute(self, run: Any) -> Any:
        return run.values[self.inputs[0]]


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Any:
    """Return a graph tensor whose value may be fed; see `placeholder`. In eager mode it is `input`.

    Args:
        input: the default value.
        shape: the shape of the values.
    """
    if not is_deferred(input):
        return convert(input)
    return PlaceholderWithDefault(input, shape, name)


class ConfigProto:
    """Session options, which are ignored: fgrad runs on the CPU.

    Args:
        options: TensorFlow's options, by name.
    """

    def __init__(self, **options: object) -> None:
        self.gpu_options = SimpleNamespace()
        vars(self).update(options)


def get_default_graph() -> Graph:
    """Return the default graph, to which operations are added."""
    return default_graph()


def get_default_session() -> Any:
    """Return the innermost default session, or None."""
    return mode.open_session()


def control_dependencies(control_inputs: Any) -> Any:
    """Return a context in which new nodes run after others; in eager mode execution is already in order."""
    if not mode.is_deferring():
        return contextlib.nullcontext()
    return default_graph().control_dependencies(control_inputs)


def device(device_name: Any) -> Any:
    """Return a context that is ignored: fgrad runs on the CPU."""
    return contextlib.nullcontext()


def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    """Return a context that is ignored: fgrad runs on the CPU."""
    return contextlib.nullcontext()


def no_op(name: str | None = None) -> Operation | None:
    """Return an operation that does nothing; in eager mode None."""
    return Operation(name or "NoOp", lambda run: None, ()) if mode.is_deferring() else None


def add_check_numerics_ops() -> Operation:
    """Return an operation that raises if a tensor of floats in the graph is infinite or NaN; see `tf.check_numerics`.

    Raises:
        SessionError: a RuntimeError; execution is eager.
        SymbolicTensorError: a TypeError; the graph has loops or branches, which may not have computed a tensor.
    """
    if not mode.is_deferring():
        raise errors.SessionError("add_check_numerics_ops needs a graph: eagerly, call tf.check_numerics(x, message).")
    graph = default_graph()
    floats = [x for x in graph.get_operations() if isinstance(x, GraphTensor) and x.dtype is not None]
    floats = [x for x in floats if x.dtype.kind == "f"]
    for node in floats:
        if node.guards or node.frame is not None:
            raise errors.SymbolicTensorError(
                f"{node.name!r} is inside of tf.cond or tf.while_loop, where add_check_numerics_ops finds nothing to "
                "check.\nCall tf.check_numerics(x, message) for single tensors."
            )
    return group(*(check_numerics(node, node.name) for node in floats), name="check_numerics")  # type: ignore[no-any-return]


def function(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return an equivalent function in native code, as made by `fgrad.compile`.

    A function that cannot be compiled runs as Python: if it needs concrete values (`if x > 0`), or uses different ones
    in each call, such as random numbers; and always without llvmlite, and in graph mode. As in TensorFlow, a
    compiled function runs its Python code only in the first call for each signature.

    Args:
        func: the function; numbers in its result become tensors.
        options: TensorFlow's compilation options, which are ignored.
    """
    if func is None:
        return functools.partial(function, **options)
    held = _Function(func)

    @functools.wraps(func)
    def call(*args: object, **keywords: object) -> Any:
        return held(*args, **keywords)

    return call


class _Function:
    """A function that is compiled if possible, and runs under a tape if it requests gradients."""

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
            # Sources that are still unknown were created by the function itself.
            if not run.needs_tape and (not run.unknown or self._outside):
                raise
            if run.assignments.happened:
                raise errors.TapeError(
                    "this tf.function requests gradients after assigning variables, and cannot be compiled; "
                    "to find the gradients, it would have to run, and to assign, again.\nUse tf.GradientTape, or let "
                    "it not depend on values (`if x > 0`)."
                ) from error
            self._outside = run.unknown
            self._taped = taped(self._python, self._outside)
            # A program has captured tensors as constants, and is independent of outer tapes.
            self._compiled, self._is_refused = compile(self._taped), bool(self._outside)
            return self(*args, **keywords)

    def _result(self, run: Run, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
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
"""Errors of functions that can run, but cannot be compiled."""


def _tensor(x: object) -> Any:
    return convert(x) if isinstance(x, (bool, int, float, complex)) else x


def cond(
    pred: Convertible,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
    *,
    strict: bool | None = None,
    fn1: Callable[[], Any] | None = None,
    fn2: Callable[[], Any] | None = None,
) -> Any:
    """Return the result of one of two functions.

    In eager mode only this function is called. In a graph both are called immediately, and a run computes the nodes
    of the chosen one; nodes that existed before are computed in any case.

    Args:
        pred: the boolean that chooses.
        true_fn, false_fn: functions without arguments that return a tensor, an operation, or a container of them.
        strict: whether a list or tuple of a single result is returned as it is. By default True, and False in
            TensorFlow 1's namespace, where the single result itself is returned.
        fn1, fn2: old names of `true_fn` and `false_fn`.

    Raises:
        StructureError: a TypeError; in a graph, the functions do not return containers of one structure, with dtypes
            of the same kinds.
        NotCallableError: a TypeError; a function is missing.
    """
    one, other = chosen("true_fn", true_fn, "fn1", fn1), chosen("false_fn", false_fn, "fn2", fn2)
    if not (callable(one) and callable(other)):
        raise errors.NotCallableError("tf.cond takes a condition and two functions without arguments.")
    if _is_unpacked(strict):
        one, other = functools.partial(_single, one), functools.partial(_single, other)
    if isinstance(pred, Symbol) or mode.is_deferring():
        return branches(pred, one, other, name)
    return one() if pred else other()


def _single(function: Callable[[], Any]) -> Any:
    """Return the result of a function; if it is a list or tuple of one, this one."""
    result = function()
    return result[0] if isinstance(result, (list, tuple)) and len(result) == 1 else result


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: object,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    *,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool | None = None,
) -> Any:
    """Call a function on loop variables while a condition holds.

    Derivatives pass through the iterations. In eager mode it is a Python `while` loop. In a graph both functions
    are called once, and a run computes their nodes anew in every iteration; nodes that existed before are computed
    once. If the body takes derivatives, they are those of one iteration, in which the initial values are constants.

    Args:
        cond: a function of the loop variables that returns a boolean.
        body: a function of the loop variables that returns the next ones.
        loop_vars: the initial values: a list or tuple, which may contain containers.
        shape_invariants: in a graph, the shapes of variables whose shape changes, with None for sizes that change, in
            the structure of `loop_vars`.
        parallel_iterations, swap_memory: ignored.
        back_prop: in a graph, whether derivatives pass; ignored in eager mode, as in TensorFlow.
        maximum_iterations: the maximal number of iterations.
        return_same_structure: whether a single variable is returned in a list, too. By default True, and False in
            TensorFlow 1's namespace.

    Returns:
        The final loop variables, in a list or tuple like `loop_vars`.

    Raises:
        StructureError: a TypeError; the result of the body has another structure than the loop variables.
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
        raise errors.ParameterError("loop_vars is empty: a loop needs a variable for its condition.")
    if is_deferred(*flatten(first)[0]) or isinstance(maximum_iterations, Symbol):
        found = loop(cond, body, first, shape_invariants, maximum_iterations, back_prop, name)
    else:
        found = _turned(cond, body, tree_map(convert, first), maximum_iterations)
    if not isinstance(loop_vars, (list, tuple)) or (len(first) == 1 and _is_unpacked(return_same_structure)):
        return found[0]
    return found if isinstance(loop_vars, list) else unflatten(flatten(loop_vars)[1], flatten(found)[0])


def vectorized_map(
    fn: Callable[[Any], Any], elems: Convertible, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any:
    """Map a function over all rows together; see `fgrad.vmap`.

    In a graph the function runs when a session runs the graph, on values: all graph tensors that it uses must be in
    `elems`.

    Args:
        fn: takes a row, or a container of rows with the structure of `elems`; returns a tensor or a container of
            tensors.
        elems: a tensor, or a container of tensors with equal numbers of rows; those with one row are repeated.
        fallback_to_while_loop, warn: ignored.

    Returns:
        The results with a leading axis for the rows.

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

    # A trial run on first rows, which is not executed, determines the structure of the results.
    outline = flatten(fn(unflatten(treedef, [as_symbol(leaf)[0] for leaf in leaves])))[1]
    on_rows = several(lambda *leaves: flatten(_on_rows(fn, treedef, leaves))[0], outline.num_leaves, "loop_body")
    return unflatten(outline, on_rows(*leaves))


def _on_rows(fn: Callable[[Any], Any], treedef: optree.PyTreeSpec, leaves: Sequence[Any]) -> Any:
    values = [convert(leaf) for leaf in leaves]
    if not values or not all(value.ndim for value in values):
        raise errors.ShapeError("vectorized_map needs tensors with an axis for rows, or a container of them.")
    serves_all = [len(value) == 1 for value in values]
    if all(serves_all):
        serves_all = [False] * len(values)

    def on_row(*row: Array) -> Any:
        return tree_map(_tensor, fn(unflatten(treedef, row)))

    rows = [value[0] if serves else value for value, serves in zip(values, serves_all, strict=True)]
    return vmap(on_row, in_axes=tuple(None if serves else 0 for serves in serves_all))(*rows)


def _is_unpacked(is_kept: bool | None) -> bool:
    """Return whether a container of one result is replaced by it, as by default in TensorFlow 1's namespace."""
    return is_version_1() if is_kept is None else not is_kept


def _turned(
    cond: Callable[..., Any], body: Callable[..., Any], variables: list[Any], maximum_iterations: int | None
) -> list[Any]:
    """Return the loop variables of the running loop."""
    structure = flatten(variables)[1]
    limit = math.inf if maximum_iterations is None else int(maximum_iterations)
    iterations = 0
    while iterations < limit and cond(*variables):
        leaves, found = flatten(as_list(body(*variables)))
        if found != structure:
            raise errors.StructureError(
                f"body must return the structure of its arguments, {structure}, but returns {found}."
            )
        pairs = zip(leaves, flatten(variables)[0], strict=True)
        variables = unflatten(structure, [convert(leaf, hint=held.dtype) for leaf, held in pairs])
        iterations += 1
    return variables


class Tensor(abc.ABC):  # noqa: B024
    """The type of tensors, both of graph tensors and of those with values."""


Tensor.register(fgrad.Tensor)
Tensor.register(GraphTensor)
