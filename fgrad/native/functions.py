"""Recorded programs as functions that all transforms support with native code.

    function = Function(block, name)
    function(leaves)                   the results for arrays, or for tensors that transforms trace

The derivatives of a program are programs (`fgrad.graphs.derived`), which are derived on first use.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad._locks import Lock
from fgrad.core.primitive import BOXES, ZERO
from fgrad.core.tensor import Tensor, apply_call, strip_ended
from fgrad.core.trace import Trace
from fgrad.graphs.derived import Directions, chosen, computed, mapped, outputs_of
from fgrad.graphs.equations import Name, names_of
from fgrad.graphs.graph import Block
from fgrad.graphs.integers import check_holds
from fgrad.graphs.replaying import with_loops
from fgrad.native.options import DEFAULT, Options
from fgrad.ops.tracing import first_example
from fgrad.rules.closures import followers
from fgrad.rules.rule import Leaves, Rule, Variables
from fgrad.typing import Operand

Mask = tuple[bool, ...]

_MOST_DERIVED = 64


class Function:
    """A program with its executable and the programs of its derivatives.

    Args:
        block: the program; its outputs are names.
        name: its name in messages.
        options: the options of the compilation.
        written: the positions of results that `run_in_place` may store in the memory of an input, with the input's
            position.

    Attributes:
        has_derivative: which results have a derivative: the floating-point and complex ones.
    """

    def __init__(
        self, block: Block, name: str, options: Options = DEFAULT, written: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        self.block, self.__name__, self.options, self._written = block, name, options, written
        self._outputs = outputs_of(block)
        self.has_derivative = tuple(each.dtype.kind in "fc" for each in self._outputs)
        self._lock = Lock()
        self._executable: Any = None  # an `Executable`
        self._derived: OrderedDict[Any, Any] = OrderedDict()
        self._block_with_loops: Block | None = None

    def __call__(self, leaves: Leaves) -> list[Any]:
        """Return the results for arrays or tensors."""
        leaves = [strip_ended(leaf) if type(leaf) in BOXES else leaf for leaf in leaves]
        if Tensor not in map(type, leaves):
            return self.run(leaves)
        traces = followers(leaves)
        if any(trace.wants_python for trace in traces):
            return self.eager(leaves)
        return apply_call(_rule(self.__name__, lambda leaves: self), leaves)

    def run(self, leaves: Leaves) -> list[Any]:
        """Return the results for plain arrays."""
        for leaf in leaves:
            if type(leaf) is not np.ndarray:
                leaves = self.arrays(leaves)
                break
        if self._written:
            leaves = self.with_own_written(leaves)
        return self.run_in_place(leaves)

    def with_own_written(self, arrays: Leaves) -> list[Any]:
        """Return arrays with copies of those that `run_in_place` may overwrite."""
        return [x.copy() if place in self._written.values() else x for place, x in enumerate(arrays)]

    def run_in_place(self, leaves: Leaves) -> list[Any]:
        """Return the results for plain arrays; a result in the memory of an input is the input's array."""
        found: list[Any] | None = (self._executable or self.executable()).run(leaves)
        if found is None:
            return [np.array(self._checked(x)) for x in self.eager(leaves)]  # results may share memory with leaves
        return found if len(found) == len(self._outputs) else self._with_constants(found)

    def _checked(self, x: Any) -> Any:
        check_holds(x, self.__name__)
        return x

    def call(self, leaves: Leaves) -> list[Any]:
        """Return the results for arrays of an engine, as arrays of that engine."""
        return self._with_constants(self.executable().call(leaves))

    def _with_constants(self, found: list[Any]) -> list[Any]:
        """Return all results, given those that are not constants."""
        rest = iter(found)
        return [next(rest) if type(each) is Name else each.copy() for each in self._outputs]

    def arrays(self, leaves: Leaves) -> list[Any]:
        """Convert leaves to arrays of the shapes and dtypes of the program's inputs."""
        return [_as_array(x, name) for x, name in zip(leaves, self.block.inputs, strict=True)]

    def eager(self, leaves: Leaves) -> list[Any]:
        """Return the results computed by NumPy, operation by operation, under the active transforms."""
        return computed(self.block, leaves)

    def executable(self) -> Any:
        """Return the executable of the program, which is compiled on first use."""
        if self._executable is None:
            with self._lock:
                self._executable = self._executable or self.options.engine.executable(
                    self.block, self.options, self._written
                )
        return self._executable

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Compile the program while the `with` block runs, as far as LLVM does not need the interpreter."""
        executable = self.executable()
        try:
            yield
        finally:  # also after an error, since LLVM must not run when Python exits
            executable.ready()

    def _cached(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return the cached value of a key, which is computed on first use."""
        found = self._derived.get(key)
        if found is None:
            with self._lock:
                found = self._derived.get(key)
                if found is None:
                    found = self._derived[key] = make()
                    if len(self._derived) > _MOST_DERIVED:  # there is one for each batch size
                        self._derived.popitem(last=False)
        return found

    # Derivatives

    def linearize(self, ours: Mask, remembers: bool, leaves: Leaves) -> Any:
        """Return the results, the pullback and the pushforward, with respect to the leaves marked in `ours`.

        The pullback is None unless `remembers`, which means that there is a backward pass.
        """
        examples = list(map(first_example, leaves))
        ours = self._differentiable(ours, examples)
        if not any(ours):
            zeros = [ZERO] * len(self._outputs)
            return self(leaves), lambda cotangents, variables: [None] * len(ours), lambda tangents, variables: zeros

        def push(tangents: Leaves, variables: Variables) -> list[Any]:
            pushed: Function = self._cached(("push", ours), lambda: self._pushforward(ours, examples))
            rest = iter(pushed([*leaves, *chosen(tangents, ours)]))
            found = [next(rest) if own else ZERO for own in self.has_derivative]
            return [
                x if depends else ZERO
                for x, depends in zip(
                    found, self._cached(("moved", ours), lambda: self.depending_results(ours, True)), strict=True
                )
            ]

        if not remembers:
            return self(leaves), None, push
        programs = self._vjp_programs(ours, examples)
        found = programs.forward(leaves)
        results, residuals = found[: len(self._outputs)], found[len(self._outputs) :]
        known = [*residuals, *(leaves[place] for place in programs.places)]

        def pull(cotangents: Leaves, variables: Variables) -> list[Any]:
            rest = iter(programs.backward([*known, *chosen(cotangents, self.has_derivative)]))
            return [next(rest) if own else None for own in programs.connected]

        return results, pull, push

    def connected(self, ours: Mask, leaves: Leaves) -> Mask:
        """Return which of the leaves marked in `ours` affect a result that has a derivative."""
        examples = list(map(first_example, leaves))
        ours = self._differentiable(ours, examples)
        return self._vjp_programs(ours, examples).connected if any(ours) else ours

    def _differentiable(self, ours: Mask, examples: Leaves) -> Mask:
        """Return which of the leaves marked in `ours` are differentiable: the floating-point and complex ones."""
        if not any(self.has_derivative):
            return (False,) * len(ours)
        return tuple(own and np.asarray(x).dtype.kind in "fc" for own, x in zip(ours, examples, strict=True))

    def depending_results(self, ours: Mask, by_derivative: bool = False) -> Mask:
        """Return which results depend on the leaves marked in `ours`.

        Args:
            ours: the leaves.
            by_derivative: whether only operations that have derivatives count.
        """
        depending = {name for name, own in zip(self.block.inputs, ours, strict=True) if own}
        for equation in self.block.equations:
            passes = not by_derivative or equation.direct or equation.primitive.jvp is not None
            if passes and not depending.isdisjoint(names_of(equation.inputs)):
                depending.update(equation.outputs)
        return tuple(type(x) is Name and x in depending for x in self.block.outputs)

    def _vjp_programs(self, ours: Mask, examples: Leaves) -> _VjpPrograms:
        """Return the programs of the forward pass and of the backward pass."""

        def make() -> _VjpPrograms:
            split = Directions(self._with_loops(examples), ours, self.has_derivative, examples).parted()
            return _VjpPrograms(self._like(split.forward), self._like(split.backward), split.places, split.connected)

        return self._cached(("pull", ours), make)  # type: ignore[no-any-return]

    def _pushforward(self, ours: Mask, examples: Leaves) -> Function:
        """Return the program of the tangents."""
        block = Directions(self._with_loops(examples), ours, self.has_derivative, examples).pushed()
        tangents = block.outputs[len(self._outputs) :]
        return self._like(Block(block.inputs, block.constants, block.equations, tangents))

    def _with_loops(self, examples: Leaves) -> Block:
        """Return the program with loops in place of repeated equations, if it is long."""
        if not self.options.finds_loops:
            return self.block
        with self._lock:
            if self._block_with_loops is None:
                names = dict(zip(self.block.inputs, examples, strict=True))
                self._block_with_loops = with_loops(self.block, names, is_masked=True) or self.block
            return self._block_with_loops

    def _like(self, block: Block) -> Function:
        return Function(block, self.__name__, self.options)

    def mapped(self, ours: Mask, leaves: Leaves) -> Function:
        """Return the batched program; the examples are along the first axis of the leaves marked in `ours`."""
        size = next(leaf.shape[0] for leaf, own in zip(leaves, ours, strict=True) if own)

        def make() -> Function:
            axes = tuple(0 if own else None for own in ours)
            examples = [_first_of(x) if own else x for x, own in zip(map(first_example, leaves), ours, strict=True)]
            return self._like(mapped(self._with_loops(examples), axes, list(map(first_example, leaves))))

        return self._cached(("map", ours, size), make)  # type: ignore[no-any-return]


def _first_of(examples: Any) -> Any:
    return examples[0] if len(examples) else np.ones(examples.shape[1:], examples.dtype)


def _as_array(x: Operand, name: Name) -> Any:
    """Convert an operand to an array of the input's shape and dtype; arrays are returned unchanged."""
    if type(x) is float or type(x) is np.float64:
        return np.array(x, name.dtype)
    x = strip_ended(x)
    if type(x) is np.ndarray:
        return x
    return np.ascontiguousarray(x, name.dtype).reshape(name.shape)


@dataclass
class _VjpPrograms:
    """The forward and the backward pass of a program, as functions; see `fgrad.graphs.derived.Parted`."""

    forward: Function
    backward: Function
    places: list[int]
    connected: Mask


# The rule by which traces process calls


@dataclass(eq=False)
class _NativeRule(Rule):
    """The rule of a native function.

    Attributes:
        function_for: returns the function for leaves; there is one for each batch size.
    """

    function_for: Callable[[Leaves], Function] = lambda leaves: Function(Block((), {}, (), ()), "")

    @override
    def followed(self, trace: Trace, leaves: Leaves) -> list[Any]:
        ours = tuple(trace.follows(leaf) for leaf in leaves)

        def linearize(leaves: Leaves) -> Any:
            return self.function_for(leaves).linearize(ours, trace.remembers, leaves)

        if trace.remembers:  # leaves that are not connected are hidden from it, so that their gradients are None
            inside = [leaf._payload if own else leaf for leaf, own in zip(leaves, ours, strict=True)]
            connected = self.function_for(inside).connected(ours, inside)
            leaves = [leaf if own else x for leaf, x, own in zip(leaves, inside, connected, strict=True)]
        return Rule.followed(replace(self, linearize=linearize), trace, leaves)

    @override
    def mapped(self, ours: Sequence[bool], trace: object = None) -> _NativeRule:
        mask = tuple(ours)

        def function_for(leaves: Leaves) -> Function:
            one = [_first_of(first_example(leaf)) if own else leaf for leaf, own in zip(leaves, mask, strict=True)]
            return self.function_for(one).mapped(mask, leaves)

        return _rule(self.name, function_for)


def _never_called(leaves: Leaves) -> Any:
    raise NotImplementedError  # `followed` passes a function that depends on the traced leaves


def _rule(name: str, function_for: Callable[[Leaves], Function]) -> _NativeRule:
    def compute(leaves: Leaves) -> Leaves:
        return function_for(leaves)(leaves)

    compute.__name__ = name
    return _NativeRule(compute, compute, _never_called, function_for=function_for)
