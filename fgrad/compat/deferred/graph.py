"""Graphs of deferred calls.

    Graph                 the nodes, their names, and the open contexts in which they are created
    Node, GraphTensor     a deferred call; a deferred call with a value
    Placeholder           a value that is fed
    operation             make a function deferrable: called with graph tensors it becomes a node

A node is created once and is immutable, and its inputs are older, so the order of creation
is an order of evaluation. `Node.compute(run)` evaluates one node within a run of a session.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.convert import as_dtype, operands
from fgrad.compat.deferred.dtypes import named
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import boxed
from fgrad.core.tree import flatten, tree_map, unflatten
from fgrad.transforms.reverse import stop_gradient
from fgrad.typing import Array, ArrayLike, DTypeLike, Operand

# Shapes


class Dimension(int):
    """A statically known size: an int with TensorFlow 1's `.value`."""

    @property
    def value(self) -> int:
        return int(self)


class TensorShape(tuple[Any, ...]):
    """The sizes of a graph tensor's axes, as far as they are known: None stands for an unknown size.

    Args:
        dims: the sizes, or None if their number is unknown.

    Example:
        >>> shape = TensorShape([None, 3])
        >>> shape.as_list(), shape.ndims, shape[1].value
        ([None, 3], 2, 3)
    """

    ndims: int | None

    def __new__(cls, dims: Sequence[Any] | None) -> TensorShape:
        sizes = [None if size is None else Dimension(size) for size in dims or ()]
        shape = super().__new__(cls, sizes)
        shape.ndims = None if dims is None else len(sizes)
        return shape

    rank = property(lambda self: self.ndims)

    def as_list(self) -> list[int | None]:
        """Return the sizes as a list.

        Raises:
            ShapeError: a ValueError; the number of axes is unknown.
        """
        if self.ndims is None:
            raise errors.ShapeError("as_list() is not defined on a shape whose number of axes is not known.")
        return [None if size is None else int(size) for size in self]

    def is_fully_defined(self) -> bool:
        """Return whether every size is known."""
        return self.ndims is not None and None not in self

    def num_elements(self) -> int | None:
        """Return the number of elements, or None if it is unknown."""
        return math.prod(self) if self.is_fully_defined() else None

    def admits(self, shape: tuple[int, ...]) -> bool:
        """Return whether an array of a shape is compatible."""
        if self.ndims is None:
            return True
        return len(shape) == self.ndims and all(mine in (None, size) for mine, size in zip(self, shape, strict=True))

    def __repr__(self) -> str:
        return f"TensorShape({None if self.ndims is None else self.as_list()})"

    def __str__(self) -> str:
        return "<unknown>" if self.ndims is None else f"({', '.join(map(str, self))}{',' if self.ndims == 1 else ''})"


# Graphs


class Graph:
    """A collection of deferred calls, which a `Session` runs.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> with tf.Graph().as_default() as graph:
        ...     x = tf.placeholder(tf.float32)
        ...     y = x * x
        >>> tf.Session(graph=graph).run(y, feed_dict={x: 3.0})
        np.float32(9.0)
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.variables: list[Any] = []
        self.variable_scopes: list[Any] = []
        self.opened_scopes: set[str] = set()
        self.optimizers: list[Any] = []
        self.named_variables: dict[str, Any] = {}
        self.collections: dict[str, list[Any]] = {}
        self.seed: int | None = None
        self.name_scope = ""
        self.controls: tuple[Node, ...] = ()
        self.guards: tuple[Guard, ...] = ()
        self.frame: Frame | None = None
        self._taken: set[str] = set()

    def as_default(self) -> contextlib.AbstractContextManager[Graph]:
        """Return a context in which operations become nodes of this graph."""
        return mode.block(self)

    def device(self, device_name_or_function: object) -> contextlib.AbstractContextManager[None]:
        """Return a context that is ignored: fgrad runs on the CPU."""
        return contextlib.nullcontext()

    def unique_name(self, name: str) -> str:
        """Return an unused name, within the open name scope."""
        full = self.name_scope + name
        unique, count = full, 0
        while unique.lower() in self._taken:
            count += 1
            unique = f"{full}_{count}"
        self._taken.add(unique.lower())
        return unique

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[str]:
        """Return a context in which the names of new nodes begin with `name/`; a trailing slash means absolute."""
        previous = self.name_scope
        self.name_scope = name if name.endswith("/") or not name else self.unique_name(name) + "/"
        try:
            yield self.name_scope
        finally:
            self.name_scope = previous

    @contextlib.contextmanager
    def control_dependencies(self, nodes: Sequence[Any] | None) -> Iterator[None]:
        """Return a context in which new nodes depend on others; None clears dependencies, branches and loops."""
        waiting = () if nodes is None else (*self.controls, *(self.node(each) for each in nodes))
        with self._where(waiting, () if nodes is None else self.guards, None if nodes is None else self.frame):
            yield

    @contextlib.contextmanager
    def guarded(self, pred: Node, truth: bool) -> Iterator[None]:
        """Return a context in which new nodes run only if a condition has a given value."""
        with self._where((*self.controls, pred), (*self.guards, (pred, truth)), self.frame):
            yield

    @contextlib.contextmanager
    def within(self, frame: Frame | None) -> Iterator[None]:
        """Return a context in which new nodes belong to a loop, without dependencies; None means no loop."""
        with self._where((), (), frame):
            yield

    @contextlib.contextmanager
    def _where(self, controls: tuple[Node, ...], guards: tuple[Guard, ...], frame: Frame | None) -> Iterator[None]:
        previous = self.controls, self.guards, self.frame
        self.controls, self.guards, self.frame = controls, guards, frame
        try:
            yield
        finally:
            self.controls, self.guards, self.frame = previous

    def node(self, fetch: object) -> Node:
        """Return the node for a tensor, a variable, an operation or a name.

        Raises:
            FetchError: a TypeError; there is no such node, or it belongs to another graph.
        """
        if isinstance(fetch, str):
            name = fetch.removesuffix(":0")
            reads = {variable._name: variable._read for variable in self.variables}
            named: Node | None = self.nodes.get(name, reads.get(name))
            if named is None:
                raise errors.FetchError(f"the graph has no tensor or operation {fetch!r}.")
            return named
        node: Node | None = as_node(fetch) if isinstance(fetch, (Node, Symbol)) else None
        if node is None:
            raise errors.FetchError(
                f"{fetch!r} of type {type(fetch).__name__} is not a graph tensor, a variable, an operation or a name."
            )
        if node.graph is not self:
            raise errors.FetchError(f"{node.name!r} is not an element of this graph: it was made in another one.")
        return node

    def as_graph_element(self, obj: object, allow_tensor: bool = True, allow_operation: bool = True) -> Node:
        """Return the tensor or operation for an object; see `node`. The other arguments are ignored."""
        return self.node(obj)

    def get_tensor_by_name(self, name: str) -> Node:
        """Return the tensor with a name such as `'Const:0'`."""
        return self.node(name)

    get_operation_by_name = get_tensor_by_name

    def get_operations(self) -> list[Node]:
        """Return all nodes in the order of creation."""
        return list(self.nodes.values())

    def get_collection(self, name: str) -> list[Any]:
        """Return the contents of a collection."""
        return list(self.collections.get(name, ()))

    def add_to_collection(self, name: str, value: object) -> None:
        """Add a value to a collection."""
        self.collections.setdefault(name, []).append(value)


class _Default:
    graph = Graph()


def default_graph() -> Graph:
    """Return the graph of the innermost open block, or the default graph of the process."""
    return mode.open_graph() or _Default.graph


def reset_default_graph() -> None:
    """Replace the default graph by an empty one, outside of blocks."""
    _Default.graph = Graph()


def default_session(how: str) -> Any:
    """Return the innermost default session."""
    session = mode.open_session()
    if session is None:
        raise errors.SessionError(
            f"Cannot evaluate by {how}: No default session is registered. Use `with tf.Session() as session:`, "
            "`with session.as_default():`, or pass session=."
        )
    return session


# Nodes


class Symbol:
    """Base class of symbolic values: graph tensors and graph variables, which have values only in a run."""

    __hash__ = object.__hash__
    __array_priority__ = 100  # `array + tensor` is computed by the tensor
    graph: Graph
    _name: str

    def __eq__(self, other: object) -> bool:
        return self is other  # as in TensorFlow 1: tensors are keys of dictionaries

    def _refuse(self, what: str) -> Any:
        raise errors.SymbolicTensorError(
            f"{what} is not allowed for the graph tensor {self._name!r}: it has no value before a session runs it.\n"
            "Run it, session.run(tensor), or choose by value with tf.where."
        )

    def __getitem__(self, key: object) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        packed = [_Slice(each.start, each.stop, each.step) if isinstance(each, slice) else each for each in keys]
        return _element(self, packed)

    def __bool__(self) -> bool:
        return bool(self._refuse("use as a Python bool"))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._refuse("iteration"))

    def __len__(self) -> int:
        return int(self._refuse("len()"))

    def __float__(self) -> float:
        return float(self._refuse("float()"))

    def __int__(self) -> int:
        return int(self._refuse("int()"))

    def __index__(self) -> int:
        return int(self._refuse("use as a Python integer"))

    def __array__(self, dtype: DTypeLike | None = None, copy: object = None) -> Any:
        raise errors.SymbolicArrayError(
            f"Cannot convert the graph tensor {self._name!r} to a NumPy array: it has no value before a session "
            "runs it.\nUse TensorFlow's functions in a graph, tf.sin(x) for np.sin(x)."
        )


Guard = tuple["Node", bool]


class Frame:
    """The frame of a loop: nodes created while it is open are computed in every iteration.

    Attributes:
        outer: the frame of the enclosing loop.
        variables: the nodes of the loop variables, including those of enclosing loops.
    """

    def __init__(self, outer: Frame | None) -> None:
        self.outer = outer
        self.variables: list[GraphTensor] = [] if outer is None else list(outer.variables)

    def is_within(self, frame: Frame | None) -> bool:
        """Return whether this frame is equal to another one, or inside of it."""
        return frame is None or frame is self or (self.outer is not None and self.outer.is_within(frame))


class Node:
    """A deferred call: its name, its dependencies, and its computation in a run.

    Attributes:
        number: the order of creation; inputs have smaller numbers.
        inputs: the nodes whose values it uses.
        controls: the nodes that must run before.
        guards: conditions, with the values that are required for the node to run.
        frame: the loop that contains it; None if there is none.
        differentiable: whether derivatives pass from its value to its inputs.
        reads: the variables that its computation reads.
        inside: the nodes inside, if it is a loop.
    """

    graph: Graph
    _name: str
    differentiable = True
    reads: Collection[Any] = ()
    inside: Sequence[Node] = ()

    def __init__(self, graph: Graph, name: str, inputs: Sequence[Node], controls: Sequence[Node] = ()) -> None:
        for each in inputs:
            if each.graph is not graph:
                raise errors.FetchError(
                    f"{each.name!r} must be from the same graph as the other inputs of {name!r}: graphs share no "
                    "values.\nMake both in one `with tf.Graph().as_default():` block, or feed the value."
                )
        self.graph, self._name = graph, graph.unique_name(name)
        self.inputs, self.controls, self.guards = list(inputs), [*graph.controls, *controls], graph.guards
        self.frame = graph.frame
        for each in (*self.inputs, *self.controls):
            if each.frame is not None and not (self.frame and self.frame.is_within(each.frame)):
                raise errors.SymbolicTensorError(
                    f"{each._name!r} is inside of a loop, and has no value for {self._name!r} outside of it.\n"
                    "Make it one of the loop's variables: return it from the body of tf.while_loop."
                )
        self.number = len(graph.nodes)
        self.line = errors.users_line()
        graph.nodes[self._name] = self

    def compute(self, run: object) -> Any:
        """Return the value, from those of the inputs in `run.values`."""
        raise NotImplementedError(type(self).__name__)

    def is_skipped(self, run: Any) -> bool:
        """Return whether a run skips this node, because a branch is not taken."""
        return not run.skipped.isdisjoint(self.inputs) or self._is_held_back(run)

    def _is_held_back(self, run: Any) -> bool:
        waits = not run.skipped.isdisjoint(self.controls)  # these include the conditions of the guards
        return waits or any(bool(run.values[pred]) is not truth for pred, truth in self.guards)

    @property
    def name(self) -> str:
        return self._name

    @property
    def op(self) -> Node:
        return self

    @property
    def control_inputs(self) -> list[Node]:
        """The operations that must run before."""
        return [each.op for each in self.controls]

    @property
    def outputs(self) -> list[Node]:
        """The tensors that the operation computes."""
        return []


class Operation(Node):
    """A node that is run for its effect; fetching it gives None."""

    def __init__(self, name: str, effect: Callable[[Any], Any], inputs: Sequence[Any], graph: Graph | None = None):
        super().__init__(graph or default_graph(), name, [as_node(each) for each in inputs])
        self._effect = effect

    def compute(self, run: object) -> None:
        self._effect(run)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run the operation in a session, by default the innermost one."""
        (session or default_session("run()")).run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<Operation {self.name!r}>"


class GraphTensor(Symbol, Node):
    """A tensor that is computed when a session runs it; operators and TensorFlow's functions create further nodes.

    Example:
        >>> import fgrad.compat.tensorflow1 as tf
        >>> a = tf.constant([1.0, 2.0])
        >>> with tf.Session() as session:
        ...     (a * 10.0).eval()
        array([10., 20.], dtype=float32)
    """

    _static: tuple[Any, Any] | None = None

    @property
    def name(self) -> str:
        return f"{self._name}:0"

    @property
    def op(self) -> Node:
        return effect_of(self, self._name)

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self.facts()[0])

    @property
    def dtype(self) -> Any:
        return named(self.facts()[1])

    def get_shape(self) -> TensorShape:
        """Return the sizes of the axes, as far as they are known."""
        return self.shape

    def facts(self) -> tuple[Any, Any]:
        """Return the shape and the dtype; None means unknown."""
        if self._static is None:
            self._static = self._infer()
        return self._static

    def _infer(self) -> tuple[Any, Any]:
        return None, None

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Return the value in a session, by default the innermost one."""
        return (session or default_session("eval()")).run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<Tensor {self.name!r} shape={self.shape} dtype={self.dtype}>"


class _Effect(Operation):
    """The operation of a tensor."""

    @property
    def control_inputs(self) -> list[Node]:
        return self.inputs[0].control_inputs

    @property
    def outputs(self) -> list[Node]:
        return self.inputs


def effect_of(tensor: GraphTensor, name: str) -> Operation:
    """Return an operation with the tensor's name, which computes the tensor and returns None."""
    effect: Operation | None = tensor.__dict__.get("_effect_node")
    if effect is None:
        with tensor.graph.within(tensor.frame):
            effect = _Effect(tensor._name + "_op", lambda run: None, [tensor], tensor.graph)
        effect._name = name
        tensor.__dict__["_effect_node"] = effect
    return effect


def as_node(x: Any) -> Any:
    """Return the node of a graph tensor or operation; a variable is read."""
    return x if isinstance(x, Node) else x.read_value()


class Call(GraphTensor):
    """A deferred call of a function; its arguments may be graph tensors, also inside lists."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        keywords: Mapping[str, Any],
        differentiable: bool = True,
    ):
        leaves, self._treedef = flatten((args, keywords))
        self._leaves = [_argument(leaf) for leaf in leaves]
        self._places = [place for place, leaf in enumerate(self._leaves) if isinstance(leaf, Node)]
        super().__init__(graph, name, [self._leaves[place] for place in self._places])
        self.function, self.differentiable = function, differentiable

    def compute(self, run: Any) -> Any:
        return self._called([run.values[node] for node in self.inputs])

    def _called(self, values: Sequence[Any]) -> Any:
        leaves = list(self._leaves)
        for place, value in zip(self._places, values, strict=True):
            leaves[place] = value
        args, keywords = unflatten(self._treedef, leaves)
        return self.function(*args, **keywords)

    def _infer(self) -> tuple[Any, Any]:
        """Call the function on sets of trial values: sizes that differ between the results are unknown."""
        trials = range(len(_SIZES) if any(map(_may_be_empty, self.inputs)) else 2)
        found = [fact for fact in map(self._facts_with, trials) if fact is not None]
        dtypes = {dtype for _, dtype in found}
        shapes = [shape for shape, _ in found]
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        if len(shapes) < 2 or len(set(map(len, shapes))) > 1:
            return None, dtype
        return [
            size if all(size == other for other in sizes) else None for size, *sizes in zip(*shapes, strict=True)
        ], dtype

    def _facts_with(self, trial: int) -> tuple[Any, Any] | None:
        stand_ins = [stand_in(node, trial) for node in self.inputs]
        if any(each is None for each in stand_ins):
            return None
        try:
            with mode.block(None), np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the mean of an empty slice, for example
                result = self._called(stand_ins)
        except Exception:
            return None  # the function rejects the trial values; if it also rejects the actual ones, the run raises
        return (result.shape, result.dtype) if hasattr(result, "dtype") else None


def _argument(leaf: object) -> Any:
    """Return an argument in the form stored by a node: variables are read, arrays copied."""
    if isinstance(leaf, Symbol):
        return as_node(leaf)
    return leaf.copy() if type(leaf) is np.ndarray else leaf


# Two that are coprime and unlikely to occur in a program; and 0, with which `x[:5]` has another size.
_SIZES = (7, 13, 0)
_INTEGERS = (1, 2, 0)


def _may_be_empty(node: Any) -> bool:
    """Return whether a node has axes of unknown size, or integers that may be sizes of a result."""
    if isinstance(node, Call) and not node.inputs:
        return False
    shape, dtype = node.facts()
    return (shape is not None and None in shape) or (dtype is not None and dtype.kind in "iu")


def stand_in(node: Any, trial: int) -> Any:
    """Return a trial value for a node; None if its dtype is unknown.

    The trials, from 0 on, differ in unknown sizes, and in values.
    """
    if isinstance(node, Call) and not node.inputs:
        with mode.block(None):
            return node._called([])
    shape, dtype = node.facts()
    if dtype is None:
        return None
    sizes = _SIZES[:trial] if shape is None else [_SIZES[trial] if size is None else size for size in shape]
    number = {"b": trial % 2, "i": _INTEGERS[trial], "u": _INTEGERS[trial]}.get(dtype.kind, trial + 1)
    value = np.ones((), dtype) * dtype.type(number)
    return boxed(np.broadcast_to(value.astype(dtype), sizes))


class Placeholder(GraphTensor):
    """A value that is fed in every run."""

    def __init__(self, dtype: Any, shape: Any = None, name: str | None = None) -> None:
        self._static = (None if shape is None else list(TensorShape(shape)), as_dtype(dtype))
        super().__init__(default_graph(), name or "Placeholder", ())

    def compute(self, run: object) -> Any:
        raise errors.InvalidArgumentError(
            f"You must feed a value for placeholder tensor {self.name!r} with dtype {self.dtype} and shape "
            f"{self.shape}: session.run(fetches, feed_dict={{placeholder: value}}).\nIt was defined at {self.line}"
        )


# Deferrable functions


def operation(name: str = "", differentiable: bool = True) -> Callable[[Any], Any]:
    """Return a decorator that makes a function of tensors deferrable.

    Args:
        name: the name of its nodes; by default the function's own, in TensorFlow's spelling.
        differentiable: whether derivatives pass through; otherwise its arguments are constants.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        node_name = name or re.sub(r"(?:^|_)(\w)", lambda match: match[1].upper(), function.__name__)
        eager = function if differentiable else _detached(function)

        @functools.wraps(function)
        def call(*args: object, name: str | None = None, **keywords: object) -> Any:
            if mode.is_deferring() or holds_symbol(args) or holds_symbol(keywords.values()):
                graph = _graph_of(args, keywords)
                return Call(graph, name or node_name, eager, args, keywords, differentiable)
            return eager(*args, **keywords)

        return call

    return decorate


def _detached(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def detached(*args: object, **keywords: object) -> Any:
        args, keywords = tree_map(lambda x: stop_gradient(x) if type(x) in BOXES else x, (args, keywords))
        return function(*args, **keywords)

    return detached


def holds_symbol(arguments: Any) -> bool:
    """Return whether arguments, or lists among them, contain a graph tensor."""
    return any(
        isinstance(each, Symbol) or (isinstance(each, (list, tuple)) and holds_symbol(each)) for each in arguments
    )


def _graph_of(args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Graph:
    symbols = [leaf for leaf in flatten((args, keywords))[0] if isinstance(leaf, Symbol)]
    if symbols and mode.is_running():
        raise errors.SymbolicTensorError(
            f"a function that a session runs has used the graph tensor {symbols[0]._name!r} from outside, where it "
            "has no value.\nPass it to the function as an argument."
        )
    return symbols[0].graph if symbols else default_graph()


_WITHOUT_DERIVATIVE = {"lt", "le", "gt", "ge", "and", "or", "xor", "floordiv"}


def _operator(function: Callable[..., Any]) -> tuple[Any, Any]:
    """Return an operator of graph tensors and its reflected version."""
    name = function.__name__.strip("_")

    def call(x: Operand, y: Operand) -> Any:
        return function(*operands(x, y))

    deferred = operation(name, name not in _WITHOUT_DERIVATIVE)(functools.wraps(function)(call))
    return lambda self, other: deferred(self, other), lambda self, other: deferred(other, self)


def _unary(function: Callable[..., Any]) -> Callable[[Any], Any]:
    deferred = operation(function.__name__.strip("_"))(functools.wraps(function)(lambda x: function(x)))
    return lambda self: deferred(self)


class _Slice(NamedTuple):
    """A slice as a container, so that its bounds may be graph tensors."""

    start: Any
    stop: Any
    step: Any


@operation("strided_slice")
def _element(x: Array, key: Sequence[Any]) -> Any:
    return x[tuple(slice(*each) if isinstance(each, _Slice) else each for each in key)]


def _define_operators() -> None:
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
        forward, reflected = _operator(getattr(operator, f"__{name}__"))
        setattr(Symbol, f"__{name}__", forward)
        setattr(Symbol, f"__r{name}__", reflected)
    for name in ("lt", "le", "gt", "ge"):
        setattr(Symbol, f"__{name}__", _operator(getattr(operator, f"__{name}__"))[0])
    for name in ("neg", "abs", "invert"):
        setattr(Symbol, f"__{name}__", _unary(getattr(operator, f"__{name}__")))


_define_operators()


Convertible: TypeAlias = ArrayLike | Symbol
"""What TensorFlow's functions take as a tensor: numbers, nested lists, arrays, tensors, variables, graph tensors."""
