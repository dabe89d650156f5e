"""Messages to workers: a function, and at each step the point at which it is computed.

    Program(work, function, ...)     a pickled function, with the variables that it reads by reference
    program.point(trees)             the numbers of one step: leaves of containers, and values of variables
    loaded(sent)                     on a worker, the function, unpickled once per thread

A function is pickled at each step, and sent again only if the bytes differ: the values it closes over may have
changed. Variables are excluded. A worker replaces them by local copies, whose values are set at each step.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any, ClassVar, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import optree

from fgrad import errors
from fgrad.core.reverse import ReverseTrace
from fgrad.core.tensor import Tensor, strip_ended
from fgrad.core.tree import NAMESPACE, flatten, register_pytree_node, unflatten
from fgrad.core.variable import Variable, VariableWatch, assign_all, creation_number
from fgrad.transforms.calls import name_of

_KEPT = 8
"""How many functions each thread of a worker caches."""

_loaded = threading.local()


class Point(NamedTuple):
    """The point of a computation: the leaves of each container, and the values of variables."""

    leaves: list[list[Any]]
    values: list[tuple[str, bool, Any]]


class Sent(NamedTuple):
    """A pickled function, with the container classes that it needs."""

    digest: str
    classes: bytes
    body: bytes


class Program:
    """A function with the work to do, ready to be sent.

    Args:
        work: `work(function, trees, part, chosen)` returns a list of terms to be added over the parts, and aux.
        function: the user's function.
        trees: containers with the structure of the function's arguments.
        chosen: variables that are passed to `work`.
        has_aux: whether the aux is returned.
    """

    def __init__(
        self,
        work: Callable[..., tuple[list[Any], Any]],
        function: Callable[..., Any],
        trees: Sequence[Any],
        chosen: Sequence[Variable] = (),
        has_aux: bool = False,
    ) -> None:
        self.work, self.function, self.chosen, self.has_aux = work, function, list(chosen), has_aux
        self.name = name_of(function)
        self._treedefs = [flatten(tree)[1] for tree in trees]
        self._variables: list[Variable] = []

    def sent(self) -> Sent:
        """Return the pickled function; `point` then refers to its variables."""
        classes = cloudpickle.dumps(_registered(self._treedefs))
        pickler = _Pickler(self.chosen)
        body = pickler.bytes_of((self.work, self.function, self._treedefs, len(self.chosen)))
        self._variables = pickler.variables
        return Sent(hashlib.blake2b(classes + body).hexdigest(), classes, body)

    def point(self, trees: Sequence[Any]) -> Point:
        """Return the numbers of a step, with the current values of variables."""
        leaves = [[_plain(leaf) for leaf in flatten(tree)[0]] for tree in trees]
        return Point(leaves, [(v.name, v.trainable, _plain(v)) for v in self._variables])

    def result(self, part: Any, point: Point) -> Any:
        """Compute the function on one part, in this process."""
        trees = [unflatten(treedef, leaves) for treedef, leaves in zip(self._treedefs, point.leaves, strict=True)]
        return self.work(self.function, trees, part, self.chosen)


def _of_file(make: Callable[..., CodeType], args: tuple[Any, ...], name: str) -> CodeType:
    """Return code with its file name."""
    return make(*args).replace(co_filename=name)


def _with_file(code: CodeType) -> tuple[Any, ...]:
    """Return the pickling of code with its file name, which cloudpickle omits from version 3.1.3 on.

    Errors on workers need it for the user's line.
    """
    return _of_file, (*cloudpickle.Pickler.dispatch_table[CodeType](code), code.co_filename)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # which is Any
    """Pickler of functions, which replaces a variable by its index in a list."""

    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _with_file}, cloudpickle.Pickler.dispatch_table)

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.variables = list(variables)
        self._file = io.BytesIO()
        super().__init__(self._file)

    def persistent_id(self, obj: object) -> int | None:
        if not isinstance(obj, Variable):
            return None
        if type(obj) is not Variable:
            raise errors.ParameterError(
                f"the loss reads {obj!r:.100}, a {type(obj).__module__}.{type(obj).__name__}, which cannot be "
                "copied to workers.\nUse an fg.Variable, or pass its value as a parameter."
            )
        places = (place for place, known in enumerate(self.variables) if known is obj)
        place = next(places, len(self.variables))
        if place == len(self.variables):
            self.variables.append(obj)
        return place

    def bytes_of(self, what: object) -> bytes:
        self.dump(what)
        return self._file.getvalue()


def _plain(leaf: object) -> Any:
    """Return a leaf as a number or array that can be sent."""
    value = strip_ended(leaf)
    if type(value) is Tensor:
        raise errors.ExportError("fgrad.distributed", errors.users_line())
    return value


def _registered(treedefs: Sequence[Any]) -> list[tuple[type, Any, Any]]:
    """Return the user-defined container classes in trees, with their flatten and unflatten functions."""
    kinds = dict.fromkeys(kind for treedef in treedefs for kind in _kinds(treedef))
    entries = [optree.register_pytree_node.get(kind, namespace=NAMESPACE) for kind in kinds]
    return [
        (each.type, each.flatten_func, each.unflatten_func)
        for each in entries
        if each is not None and each.kind == optree.PyTreeKind.CUSTOM and each.namespace == NAMESPACE
    ]


def _kinds(treedef: optree.PyTreeSpec) -> Iterator[type]:
    if treedef.type is not None:
        yield treedef.type
    for child in treedef.children():
        yield from _kinds(child)


# On a worker


class _Unpickler(cloudpickle.pickle.Unpickler):  # type: ignore[misc]  # which is Any
    """Unpickler of functions, which replaces variables by local copies."""

    def __init__(self, data: bytes, twins: Sequence[Variable]) -> None:
        super().__init__(io.BytesIO(data))
        self._twins = twins

    def persistent_load(self, place: int) -> Variable:
        return self._twins[place]


class Loaded:
    """A function on a worker."""

    def __init__(self, sent: Sent, point: Point) -> None:
        for kind, open_node, close_node in cloudpickle.loads(sent.classes):
            if optree.register_pytree_node.get(kind, namespace=NAMESPACE) is None:
                register_pytree_node(kind, open_node, close_node)
        self._twins = [Variable(value, trainable, name) for name, trainable, value in point.values]
        loaded = _Unpickler(sent.body, self._twins).load()
        self._work, self._function, self._treedefs, count = loaded
        self._chosen = self._twins[:count]

    def result(self, part: Any, point: Point) -> Any:
        """Compute the function on one part, with the variables' values at this step."""
        assign_all(self._twins, [np.array(value) for _, _, value in point.values])
        trees = [unflatten(treedef, leaves) for treedef, leaves in zip(self._treedefs, point.leaves, strict=True)]
        with _Twins(self._twins):
            return self._work(self._function, trees, part, self._chosen)


def loaded(sent: Sent, point: Point) -> Loaded:
    """Return a received function; each thread has its own, since two threads may be at different steps."""
    kept: OrderedDict[str, Loaded] = _loaded.__dict__.setdefault("kept", OrderedDict())
    if sent.digest not in kept:
        kept[sent.digest] = Loaded(sent, point)
    kept.move_to_end(sent.digest)
    while len(kept) > _KEPT:
        kept.popitem(last=False)
    return kept[sent.digest]


class _Twins(VariableWatch):
    """Check that a function on a worker reads only local copies of variables, and does not assign them."""

    def __init__(self, twins: Sequence[Variable]) -> None:
        super().__init__(ReverseTrace(), all_trainable=False)
        self._known = set(twins)
        self._first = creation_number()

    def read(self, variable: Variable, value: object) -> Any:
        if variable not in self._known and variable.number < self._first:
            raise errors.ParameterError(
                f"the loss reads the variable {variable.name!r} of a module, but a worker that imports the module has "
                f"its own variable, with another value.\n  at {errors.users_line()}\n"
                "Let the function close over the variable, pass its value in params, or send the module, too: "
                "cloudpickle.register_pickle_by_value(module)."
            )
        return value

    def assigns(self, variable: Variable) -> None:
        if variable in self._known:
            raise errors.ParameterError(
                f"the loss assigns the variable {variable.name!r}, but the new value would stay on the worker.\n"
                f"  at {errors.users_line()}\nReturn it as aux, and assign it after the step."
            )
