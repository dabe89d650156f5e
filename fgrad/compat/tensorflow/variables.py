"""Variables: eager ones, graph variables, and the scopes that name and share them."""

from __future__ import annotations

import contextlib
import itertools
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.convert import as_dtype, convert
from fgrad.compat.deferred.graph import Convertible, TensorShape, default_graph
from fgrad.compat.deferred.scattering import IndexedSlices as IndexedSlices
from fgrad.compat.deferred.scattering import Scatters, scattered
from fgrad.compat.deferred.state import GraphVariable, with_part
from fgrad.compat.tensorflow.arrays import gather, gather_nd
from fgrad.compat.tensorflow.initializers import GlorotUniform, Zeros
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import ATTRIBUTES, Tensor
from fgrad.core.variable import Variable as NativeVariable
from fgrad.core.variable import plain_value, recording
from fgrad.typing import Array, ArrayLike

_unnamed = itertools.count()


class _VariableType(type):
    """Makes graph variables instances of `Variable`."""

    def __instancecheck__(cls, instance: Convertible) -> bool:
        return isinstance(instance, (NativeVariable, GraphVariable))


class Variable(Scatters, NativeVariable, metaclass=_VariableType):
    """A variable with TensorFlow's defaults; in a graph, one that is initialized by a session.

    Args:
        initial_value: a number, array or tensor, or a function without arguments that returns one.
        trainable: whether gradient functions, tapes and optimizers use it by default.
        name: the name in `repr` and in messages, with `:0` appended.
        dtype: by default float32 for Python floats and int32 for Python integers; arrays keep theirs.
        shape: in a graph, the shape if it is not that of the initial value.
        constraint: a function that is applied to the value after each update by an optimizer, such as
            `lambda w: tf.maximum(w, 0.0)`.
        options: `collections` of the graph, to which the variable is added, besides that of all variables;
            TensorFlow's options for devices and locking, which are ignored.

    Raises:
        ParameterError: a ValueError; `constraint` is not a function, or an option is unknown.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> w = tf.Variable(2.0, name="w")
        >>> w.assign_add(1.0)
        Variable(3., name='w:0', dtype=float32)
    """

    initializer = None
    """The operation that initializes a graph variable; an eager one is already initialized."""

    def __new__(cls, initial_value: Any = None, trainable: bool | None = True, *args: Any, **keywords: Any) -> Any:
        if not mode.is_deferring():
            return super().__new__(cls)
        return _graph_variable(initial_value, trainable, *args, **keywords)

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = True,
        *,
        name: str | None = None,
        dtype: object = None,
        shape: object = None,
        constraint: Callable[[Any], Any] | None = None,
        **options: object,
    ) -> None:
        _check_options(options, constraint)
        self.constraint = constraint
        value = convert(_called(initial_value), dtype)
        super().__init__(value.numpy(), trainable is not False, f"{name or _next_name()}:0", value.dtype)

    def assign(
        self, value: Convertible, use_locking: bool = False, name: Any = None, read_value: bool = True
    ) -> Variable:
        """Replace the value; see `fgrad.Variable.assign`. The other arguments are ignored."""
        return super().assign(value)  # type: ignore[return-value]

    def assign_add(
        self, delta: Convertible, use_locking: bool = False, name: Any = None, read_value: bool = True
    ) -> Variable:
        """Add to the value in place."""
        return super().assign_add(delta)  # type: ignore[return-value]

    def assign_sub(
        self, delta: Convertible, use_locking: bool = False, name: Any = None, read_value: bool = True
    ) -> Variable:
        """Subtract from the value in place."""
        return super().assign_sub(delta)  # type: ignore[return-value]

    def projected(self, value: Convertible) -> Any:
        """Return the value after the constraint, for an update by an optimizer."""
        return value if self.constraint is None else self.constraint(convert(value))

    def _scatter(self, kind: str, by_rows: bool, updates: Any, indices: Any, name: str | None) -> Variable:
        new, places = convert(updates, hint=self.dtype), plain_value(convert(indices))
        with self.lock:
            # A recording includes the write; for a tape it is not a use of the variable.
            is_recorded = recording() is not None
            old, new = (self.value(), new) if is_recorded else (self.numpy(), plain_value(new))
            return self.assign(scattered(kind, by_rows, old, new, places, self.name))

    def gather_nd(self, indices: Any, name: str | None = None) -> Any:
        """Return the elements at indices; see `tf.gather_nd`."""
        return gather_nd(self, indices, name=name)

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """Return the rows with given numbers; see `tf.gather`."""
        return gather(self, indices, name=name)

    def is_initialized(self) -> bool:
        """Return True: an eager variable is already initialized."""
        return True

    @property
    def _shared_name(self) -> str:
        return self.name.removesuffix(":0")

    def ref(self) -> Reference:
        """Return a hashable reference to the variable, for sets and dictionary keys."""
        return Reference(self)

    def __getitem__(self, key: object) -> Tensor:
        return _note_slice(super().__getitem__(key), self, key)

    def initialized_value(self) -> Tensor:
        """Return the value: an eager variable is already initialized."""
        return self.value()

    def get_shape(self) -> TensorShape:
        """Return the shape."""
        return TensorShape(self.shape)

    def __reduce__(self) -> Any:
        return _restored, (type(self), self._value, self.trainable, self.name, self.constraint)

    def __deepcopy__(self, memo: object) -> Variable:
        return _restored(type(self), self._value, self.trainable, self.name, self.constraint)


@dataclass(frozen=True)
class Reference:
    """A hashable reference to a variable: equal to another one if the variable is the same.

    Args:
        variable: the variable.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> v = tf.Variable(1.0)
        >>> {v.ref(): "v"}[v.ref()], v.ref().deref() is v
        ('v', True)
    """

    variable: Any

    def deref(self) -> Any:
        """Return the variable."""
        return self.variable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other.variable is self.variable

    def __hash__(self) -> int:
        return id(self.variable)


class VariableSlice:
    """The position of a part in an eager variable, by which it can be assigned: `v[0].assign(1.0)`.

    The result of `v[0]` is a tensor with the attributes `assign`, `assign_add` and `assign_sub` of this class.

    Args:
        variable: the variable.
        key: the index of the part.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> v = tf.Variable([1.0, 2.0, 3.0], name="v")
        >>> v[0].assign(9.0)
        Variable([9., 2., 3.], name='v:0', dtype=float32)
        >>> v[1:].assign_add([10.0, 20.0])
        Variable([ 9., 12., 23.], name='v:0', dtype=float32)
    """

    def __init__(self, variable: Variable, key: Any) -> None:
        self._variable, self._key = variable, key

    def assign(self, value: Convertible, name: Any = None) -> Variable:
        """Replace the part of the variable.

        Args:
            value: a number, array or tensor that can be broadcast to the part's shape.
            name: ignored.

        Returns:
            The variable.

        Raises:
            ShapeError: a ValueError; the value cannot be broadcast.
            DtypeError: a TypeError; a dtype that cannot be cast without loss of kind, such as float to int.
        """
        return self._put(lambda old, new: new, value)

    def assign_add(self, delta: Convertible, name: Any = None) -> Variable:
        """Add to the part of the variable; see `assign`."""
        return self._put(np.add, delta)

    def assign_sub(self, delta: Any, name: Any = None) -> Variable:
        """Subtract from the part of the variable; see `assign`."""
        return self._put(np.subtract, delta)

    def _put(self, combine: Callable[[Any, Any], Any], value: ArrayLike) -> Variable:
        variable = self._variable
        with variable.lock:
            return variable.assign(with_part(variable.numpy(), self._key, combine, plain_value(value), variable.name))


_WRITERS = {"assign", "assign_add", "assign_sub"}
# By id: tensors have no hash, and no instance attributes.
_slices: dict[int, tuple[weakref.ref[Tensor], VariableSlice]] = {}


def _note_slice(part: Tensor, variable: Variable, key: object) -> Tensor:
    number = id(part)
    _slices[number] = weakref.ref(part, lambda _: _slices.pop(number, None)), VariableSlice(variable, key)
    return part


def _writer_of(x: Array, name: str) -> Any:
    """Return the assignment object of a tensor that is a part of a variable."""
    if name not in _WRITERS or id(x) not in _slices:
        return None
    part, place = _slices[id(x)]
    return getattr(place, name) if part() is x else None


def _shape_of(x: Array, name: str) -> Any:
    """Return the method of tensors that returns their shape."""
    return (lambda: TensorShape(x.shape)) if name == "get_shape" else None


ATTRIBUTES += [_writer_of, _shape_of]
BOXES.add(Variable)


def _restored(
    cls: type[Variable], value: Array, trainable: bool, name: str, constraint: Callable[..., Any] | None = None
) -> Variable:
    with mode.block(None):
        return cls(value, trainable, name=name.removesuffix(":0"), constraint=constraint)


def _called(value: Any) -> Any:
    return value() if callable(value) else value


def _next_name() -> str:
    number = next(_unnamed)
    return f"Variable_{number}" if number else "Variable"


_WITHOUT_EFFECT = {
    "validate_shape", "caching_device", "variable_def", "import_scope", "synchronization",
    "aggregation", "collections", "use_resource", "expected_shape", "partitioner",
    "experimental_enable_variable_lifting",
}  # fmt: skip


def _check_options(options: dict[str, Any], constraint: Any) -> None:
    if constraint is not None and not callable(constraint):
        raise errors.ParameterError(f"The `constraint` argument must be a callable, but it is {constraint!r}.")
    if unknown := sorted(options.keys() - _WITHOUT_EFFECT):
        raise errors.ParameterError(
            f"Variable has no argument {unknown[0]!r}; it takes initial_value, trainable, name, dtype, shape and "
            "constraint."
        )


def _graph_variable(
    initial_value: Any,
    trainable: bool | None,
    *,
    name: str | None = None,
    dtype: object = None,
    shape: object = None,
    constraint: Callable[[Any], Any] | None = None,
    **options: object,
) -> GraphVariable:
    _check_options(options, constraint)
    variable = GraphVariable(initial_value, trainable is not False, name, dtype, shape, constraint)
    collections: Any = options.get("collections") or ()
    for key in collections:
        if key not in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES):
            variable.graph.add_to_collection(key, variable)
    return variable


# Sharing by name


@dataclass
class VariableScope:
    """An open scope: the prefix of its variables' names, whether they may exist already, and their defaults."""

    name: str
    reuse: Any
    initializer: Any
    regularizer: Any = None
    dtype: Any = np.float32
    constraint: Any = None

    def reuse_variables(self) -> None:
        """Make `get_variable` return existing variables only, from now on."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Set the default initializer of the scope's variables."""
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        """Set the default regularizer of the scope's variables."""
        self.regularizer = regularizer

    def global_variables(self) -> list[GraphVariable]:
        """Return the graph's variables in the scope, and in the scopes within it."""
        start = f"{self.name}/" if self.name else ""
        return [each for each in default_graph().variables if each.name.startswith(start)]

    def trainable_variables(self) -> list[GraphVariable]:
        """Return the trainable ones of `global_variables`."""
        return [each for each in self.global_variables() if each.trainable]


AUTO_REUSE = "auto_reuse"


def get_variable_scope() -> VariableScope:
    """Return the innermost open variable scope."""
    scopes = default_graph().variable_scopes
    return scopes[-1] if scopes else VariableScope("", None, None)


@contextlib.contextmanager
def variable_scope(
    name_or_scope: object,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Callable[[Any], Any] | None = None,
    caching_device: object = None,
    partitioner: object = None,
    custom_getter: object = None,
    reuse: object = None,
    dtype: Any = None,
    use_resource: object = None,
    constraint: Callable[[Any], Any] | None = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """Return a context in which `get_variable` prepends a prefix to names.

    Args:
        name_or_scope: the prefix, or a scope to open again, with what was set for it.
        default_name: the prefix if the first is None, made unique within the open scope.
        initializer, regularizer, dtype, constraint: the defaults of `get_variable`; where they are omitted, those of
            the enclosing scope.
        reuse: True to return existing variables, `AUTO_REUSE` to also create missing ones; where it is omitted or
            False, that of the enclosing scope.
        custom_getter: must be None.
        auxiliary_name_scope: whether the names of other nodes have the prefix, too.
        values, caching_device, partitioner, use_resource: ignored.

    Raises:
        VariableScopeError: a ValueError; there is no name.
        ParameterError: a ValueError; there is a `custom_getter`.
    """
    _refuse_getter(custom_getter)
    graph, outer = default_graph(), get_variable_scope()
    path: str
    name: Any
    if name_or_scope is None and default_name is None:
        raise errors.VariableScopeError("If default_name is None then name_or_scope is required.")
    if isinstance(name_or_scope, VariableScope):
        path, name = name_or_scope.name, name_or_scope.name.rsplit("/", 1)[-1]
    else:
        name = default_name if name_or_scope is None else name_or_scope
        path = f"{outer.name}/{name}" if outer.name else name
        path = _unopened(path, graph.opened_scopes) if name_or_scope is None else path
    graph.opened_scopes.add(path)
    given = {"reuse": reuse or None, "initializer": initializer, "regularizer": regularizer}
    given |= {"dtype": as_dtype(dtype), "constraint": constraint}
    inherited = name_or_scope if isinstance(name_or_scope, VariableScope) else outer
    scope = replace(inherited, name=path, **{key: value for key, value in given.items() if value is not None})
    graph.variable_scopes.append(scope)
    try:
        with graph.scope(name) if auxiliary_name_scope else contextlib.nullcontext():
            yield scope
    finally:
        graph.variable_scopes.pop()
        # If the scope is opened again, to share its variables, names are the same.
        graph.opened_scopes -= {each for each in graph.opened_scopes if each.startswith(path + "/")}


def _refuse_getter(custom_getter: object) -> None:
    if custom_getter is not None:
        raise errors.ParameterError(
            "custom_getter is not supported: call the function in the place of tf.get_variable, or compute with its "
            "variables, such as averages of tf.train.ExponentialMovingAverage."
        )


def _unopened(path: str, opened: set[str]) -> str:
    unique, count = path, 0
    while unique in opened:
        count += 1
        unique = f"{path}_{count}"
    return unique


def name_scope(name: str | None, default_name: str | None = None, values: Any = None) -> Any:
    """Return a context in which the names of a graph's new nodes begin with a prefix."""
    if not mode.is_deferring():
        return contextlib.nullcontext(name)
    return default_graph().scope(name or default_name or "")


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Callable[[Any], Any] | None = None,
    trainable: bool | None = True,
    **options: Any,
) -> Any:
    """Return the variable with a name in the open scope: a new one, or with `reuse` the existing one.

    In eager mode nothing is shared: every call creates a variable.

    Args:
        name: the name without the scope's prefix.
        shape: the shape of a new variable; omitted if `initializer` is a value.
        dtype: the dtype of a new variable; by default that of a value, otherwise that of the scope, float32.
        initializer: a function of `(shape, dtype)`, or a value; by default that of the scope, otherwise Glorot's
            uniform one, and zeros for integers.
        regularizer: a function of a new variable; what it returns, unless it is None, is added to the collection
            `tf.GraphKeys.REGULARIZATION_LOSSES` of the graph. By default that of the scope.
        trainable: whether it is trainable.
        options: `constraint`, as for `Variable`, and `collections`, to which a new variable of a graph is added;
            TensorFlow's options for devices and locking, which are ignored.

    Raises:
        VariableScopeError: a ValueError; it exists without `reuse`, has another shape, or does not exist with `reuse`;
            or there are a shape and a value.
        ParameterError: a ValueError; there is a regularizer in eager mode, which has no collections, or a
            `custom_getter`.
    """
    _refuse_getter(options.pop("custom_getter", None))
    if mode.is_running():
        raise errors.SymbolicTensorError(
            f"a function that a session runs uses the variable {name!r}, which it would create anew in every run.\n"
            "Create it outside, and pass it to the function as an argument."
        )
    scope, graph = get_variable_scope(), default_graph()
    full = f"{scope.name}/{name}" if scope.name else name
    held = graph.named_variables.get(full) if mode.is_deferring() else None
    if held is not None:
        if not scope.reuse:
            raise errors.VariableScopeError(
                f"Variable {full} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE "
                f"in variable_scope? It was made as {held!r}."
            )
        _check_shared(full, held, shape)
        return held
    if scope.reuse is True and mode.is_deferring():
        raise errors.VariableScopeError(
            f"Variable {full} does not exist, or was not created with tf.get_variable(). Did you mean to set "
            "reuse=tf.AUTO_REUSE in variable_scope?"
        )
    initializer = scope.initializer if initializer is None else initializer
    options.setdefault("constraint", scope.constraint)
    is_value = initializer is not None and not callable(initializer)
    if is_value and shape is not None:
        raise errors.VariableScopeError(
            f"If initializer is a constant, do not specify shape: {full} has the shape of the value. For one value "
            "in all elements, use tf.constant_initializer(value)."
        )
    dtype = as_dtype(scope.dtype if dtype is None and not is_value else dtype)
    return _new_variable(full, shape, dtype, initializer, regularizer or scope.regularizer, trainable, options)


def _check_shared(name: str, held: GraphVariable, shape: object) -> None:
    if shape is None or not held.shape.is_fully_defined():
        return
    wanted = TensorShape(_sizes(shape))
    if not wanted.admits(tuple(held.shape)):
        raise errors.VariableScopeError(
            f"Trying to share variable {name}, but specified shape {wanted} and found shape {held.shape}."
        )


def _sizes(shape: Any) -> list[Any]:
    """Return a shape, which may be a single number, as a list."""
    return list(shape) if isinstance(shape, Sequence) else [int(size) for size in np.atleast_1d(shape)]


def _new_variable(
    name: str,
    shape: object,
    dtype: Any,
    initializer: Any,
    regularizer: Callable[[Any], Any] | None,
    trainable: Any,
    options: dict[str, Any],
) -> Any:
    if initializer is None:
        initializer = GlorotUniform() if dtype.kind == "f" else Zeros()
    if isinstance(initializer, type):
        initializer = initializer()
    if callable(initializer):
        if shape is None:
            raise errors.VariableScopeError(f"Shape of a new variable ({name}) must be given: shape=[...].")
        shape = _sizes(shape)
        make = initializer

        def initializer() -> Any:
            return make(shape, dtype)

    if not mode.is_deferring():
        if regularizer is not None:
            raise errors.ParameterError(
                f"the regularizer of {name!r} is a term of a graph's collection, and execution is eager: "
                "add regularizer(variable) to the loss."
            )
        return Variable(initializer, trainable, name=name, dtype=dtype, **options)
    graph = default_graph()
    with graph.scope(""):
        variable = _graph_variable(initializer, trainable, name=name, dtype=dtype, **options)
    graph.named_variables[name] = variable
    if regularizer is not None:
        with graph.control_dependencies(None), graph.scope(f"{name}/Regularizer/"):
            term = regularizer(variable)
        if term is not None:
            graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, term)
    return variable


def _writer(kind: str) -> Callable[..., Any]:
    """Make a function that calls a variable's method; row methods receive row numbers and rows separately."""

    def write(
        ref: Any, indices: ArrayLike, updates: ArrayLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        scatter = ref._scatter if isinstance(ref, Scatters) else partial(Variable._scatter, ref)
        return scatter(kind.removeprefix("nd_").capitalize(), not kind.startswith("nd_"), updates, indices, name)

    write.__name__ = write.__qualname__ = f"scatter_{kind}"
    write.__doc__ = f"""Write to elements of a variable: now, or in a graph when the result is evaluated.

    Args:
        ref: the variable.
        indices: {"each index is a row along the last axis" if kind.startswith("nd_") else "numbers of rows"}.
        updates: see the method `scatter_{kind}` of variables.
        use_locking: ignored.

    Returns:
        The variable; in a graph, a tensor whose evaluation writes.

    Raises:
        InvalidArgumentError: a ValueError; an index is negative or too large.
        ShapeError: a ValueError; the shape of the updates does not match the indices.
        DtypeError: a TypeError; the variable cannot hold the updates.
    """
    return write


scatter_nd_update, scatter_nd_add, scatter_nd_sub = map(_writer, ("nd_update", "nd_add", "nd_sub"))
scatter_update, scatter_add, scatter_sub = map(_writer, ("update", "add", "sub"))
scatter_mul, scatter_div = map(_writer, ("mul", "div"))
scatter_max, scatter_min = map(_writer, ("max", "min"))


class GraphKeys:
    """Names of a graph's collections."""

    GLOBAL_VARIABLES = "variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    LOCAL_VARIABLES = "local_variables"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    GLOBAL_STEP = "global_step"
    TRAIN_OP = "train_op"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    UPDATE_OPS = "update_ops"
    SUMMARIES = "summaries"


def _in_scope(items: Sequence[Any], scope: str | None) -> list[Any]:
    """Return the items whose names match a regular expression from their beginning on; None for all items."""
    if scope is None:
        return list(items)
    return [each for each in items if hasattr(each, "name") and re.match(scope, each.name)]


def global_variables(scope: str | None = None) -> list[GraphVariable]:
    """Return the variables of the graph in the order of creation; in eager mode an empty list."""
    return _in_scope(default_graph().variables, scope) if mode.is_deferring() else []


def trainable_variables(scope: str | None = None) -> list[GraphVariable]:
    """Return the trainable variables of the graph in the order of creation; in eager mode an empty list."""
    return [each for each in global_variables(scope) if each.trainable]


def moving_average_variables(scope: str | None = None) -> list[GraphVariable]:
    """Return the variables of the graph with moving averages; in eager mode an empty list."""
    if not mode.is_deferring():
        return []
    return _in_scope(default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES), scope)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """Return the contents of a collection of the graph.

    Args:
        key: the name of the collection.
        scope: a regular expression that the names of the returned items match from their beginning on.
    """
    if key == GraphKeys.GLOBAL_VARIABLES:
        return list(global_variables(scope))
    if key == GraphKeys.TRAINABLE_VARIABLES:
        return list(trainable_variables(scope))
    return _in_scope(default_graph().get_collection(key), scope)


def add_to_collection(name: str, value: object) -> None:
    """Add a value to a collection of the graph."""
    default_graph().add_to_collection(name, value)
