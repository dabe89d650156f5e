"""Rules of loops for transforms: derivatives and batches of loops are loops.

The tangents of a loop are computed by a loop alongside. The backward pass is a loop in the opposite direction, over the
residuals that an extended forward loop stores; cotangents of shared values are summed in the carry. The batch of a loop
is a loop whose carry is a batch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.tensor import apply_call
from fgrad.core.trace import Trace
from fgrad.graphs.derived import (
    Directions,
    Leaves,
    Parted,
    Places,
    chosen,
    computed,
    mapped,
    outputs_of,
    recorded_block,
)
from fgrad.graphs.equations import Name, names_of
from fgrad.graphs.graph import Block
from fgrad.graphs.loop import CALLED, UNLIMITED, Along, Iterations, at_most_once, is_slight
from fgrad.graphs.loop_invariants import varying
from fgrad.rules.rule import Rule, Transparent, Variables
from fgrad.transforms.batch import vmap
from fgrad.typing import Array


def reached(block: Block, moving: Sequence[bool]) -> list[bool]:
    """Return which results depend on differentiated inputs through floating-point or complex numbers."""
    found = set(chosen(block.inputs, moving))
    for equation in block.equations:
        if not found.isdisjoint(names_of(equation.inputs)):
            found.update(name for name in equation.outputs if name.dtype.kind in "fc")
    return [type(x) is Name and x in found for x in block.outputs]


class Moving:
    """The differentiated inputs and results of an iteration.

    A carry is differentiated before an iteration if it is after it, and vice versa: a cotangent of the carry passes
    through all iterations back to the initial value, also through those that do not use it.

    Attributes:
        inputs, outputs: masks of the inputs and results of an iteration.
    """

    def __init__(self, iterations: Iterations, ours: Sequence[bool]) -> None:
        kinds = [name.dtype.kind in "fc" for name in iterations.body.inputs]
        moving = [own and is_float for own, is_float in zip(ours, kinds, strict=True)]
        carry = slice(iterations.shared, iterations.middle)
        while True:
            self.inputs = tuple(moving)
            results = reached(iterations.body, moving)
            pairs = zip(moving[carry], results[: iterations.carried], strict=True)
            moving[carry] = [before or after for before, after in pairs]
            if tuple(moving) == self.inputs:
                break
        self.outputs = (*self.inputs[carry], *results[iterations.carried :])


def linearized(iterations: Iterations, ours: Places, remembers: bool, leaves: Leaves) -> Any:
    """Return the results, the pullback and the pushforward, with respect to the leaves in the mask `ours`.

    Without a backward pass (`remembers` is false), the pullback is None.
    """
    if iterations.condition is not None and remembers and iterations.count > 1:
        iterations = iterations.once("masked", lambda: _masked(iterations))
    moving = Moving(iterations, ours)
    if not any(moving.outputs):
        return _constant(iterations, leaves)
    count = len(outputs_of(iterations.body))

    def push(tangents: Leaves, variables: Variables) -> list[Any]:
        loop: Iterations = iterations.once(("push", ours), lambda: _pushed(iterations, moving))
        directions = [t if own else _zeros(x) for x, t, own in zip(leaves, tangents, ours, strict=True)]
        given = zip(*(iterations.parted(each) for each in (leaves, directions, moving.inputs)), strict=True)
        found = loop(*(x for part, along, own in given for x in (*part, *chosen(along, own))))
        rest = iter(found[iterations.carried :])
        return [next(rest) if own else _zeros(x) for x, own in zip(iterations.forms(), moving.outputs, strict=True)]

    if not remembers:
        return iterations(*leaves), None, push
    if iterations.condition is not None:
        once: _Once = iterations.once(("pull", ours), lambda: _Once(iterations, moving))
        return *once.forward_and_back(leaves), push
    parts: _BackAndForth = iterations.once(("pull", ours), lambda: _BackAndForth(iterations, moving))
    found = parts.forward(*leaves)
    residuals = parts.residuals(leaves, found[count:])

    def pull(cotangents: Leaves, variables: Variables) -> list[Any]:
        grads = parts.pulled(residuals, chosen(cotangents, moving.outputs))
        return [x if own else None for x, own in zip(grads, ours, strict=True)]

    return list(found[:count]), pull, push


def _constant(iterations: Iterations, leaves: Leaves) -> Any:
    """Return the same for a loop with constant results, such as integers."""

    def pull(cotangents: Leaves, variables: Variables) -> list[Any]:
        return [None] * len(leaves)

    def push(tangents: Leaves, variables: Variables) -> list[Any]:
        return [_zeros(x) for x in iterations.forms()]

    return list(iterations(*leaves)), pull, push


def _zeros(x: Any) -> Array:
    return np.zeros(np.shape(x), x.dtype if getattr(x, "dtype", np.dtype(int)).kind in "fc" else None)


def _pushed(iterations: Iterations, moving: Moving) -> Iterations:
    """Return the loop that also takes tangents, those of each part after the part. Its outputs are only theirs."""
    assert iterations.examples is not None
    block = Directions(iterations.body, moving.inputs, moving.outputs, iterations.examples).pushed()
    count, results = len(moving.inputs), len(moving.outputs)
    names = block.inputs[:count], _spread(block.inputs[count:], moving.inputs)
    tangents = _spread(block.outputs[results:], moving.outputs)
    parts = zip(*(iterations.parted(each) for each in (*names, moving.inputs)), strict=True)
    inputs = [[*part, *chosen(along, own)] for part, along, own in parts]
    moved = chosen(tangents[: iterations.carried], moving.outputs[: iterations.carried])
    outputs = chosen(tangents[iterations.carried :], moving.outputs[iterations.carried :])
    carry = [*block.outputs[: iterations.carried], *moved]
    elements = iterations.parted(moving.inputs)[2]
    return replace(
        iterations,
        body=Block([x for each in inputs for x in each], block.constants, block.equations, [*carry, *outputs]),
        shared=len(inputs[0]),
        carried=len(inputs[1]),
        reads=[*iterations.reads, *chosen(iterations.reads, elements)],
        writes=chosen(iterations.writes, moving.outputs[iterations.carried :]),
        examples=_examples_of(iterations, moving),
        masks=None,
        results=(),
        condition=_beside(iterations, moving),
    )


def _beside(iterations: Iterations, moving: Moving) -> Block | None:
    """Return the condition as a program that also takes tangents, which it does not use."""
    if iterations.condition is None:
        return None
    parts = zip(iterations.parted(iterations.condition.inputs), iterations.parted(moving.inputs), strict=True)
    inputs = [x for names, own in parts for x in (*names, *map(Name, chosen(names, own)))]
    return iterations.condition.with_ends(inputs, iterations.condition.outputs)


def _masked(iterations: Iterations) -> Iterations:
    """Return a loop with the maximal number of iterations, in which the condition masks the superfluous ones.

    Raises:
        ConcretizationError: a TypeError; the maximal number of iterations is unknown.
    """
    if iterations.count == UNLIMITED:
        what = "a backward pass through a loop, for the number of iterations,"
        raise errors.ConcretizationError(what, errors.users_line())
    body = _masked_body(iterations) if is_slight(iterations.body.equations) else _skipping_body(iterations)
    return replace(iterations, body=body, condition=None)


def _skipping_body(iterations: Iterations) -> Block:
    """Return the body of an iteration that computes nothing if the condition is false."""
    once = replace(iterations, count=1)
    assert iterations.examples is not None
    given = zip(iterations.examples, iterations.body.inputs, strict=True)
    return recorded_block(lambda *leaves: list(once(*leaves)), [_like(x, name) for x, name in given])


def _masked_body(iterations: Iterations) -> Block:
    """Return the body of an iteration that leaves the carry unchanged if the condition is false."""
    condition, examples = iterations.condition, iterations.examples
    assert condition is not None
    assert examples is not None

    def iteration(*leaves: Any) -> list[Any]:
        holds = computed(condition, leaves)[0]
        pairs = zip(computed(iterations.body, leaves), leaves[iterations.shared :], strict=True)
        return [np.where(holds, after, before) for after, before in pairs]

    given = zip(examples, iterations.body.inputs, strict=True)
    with np.errstate(all="ignore"):  # in masked iterations
        return recorded_block(iteration, [_like(x, name) for x, name in given])


def _examples_of(iterations: Iterations, moving: Moving) -> list[Any]:
    assert iterations.examples is not None
    tangents = [np.ones(np.shape(x), np.asarray(x).dtype) for x in iterations.examples]
    parts = zip(*(iterations.parted(each) for each in (iterations.examples, tangents, moving.inputs)), strict=True)
    return [x for part, along, own in parts for x in (*part, *chosen(along, own))]


def _spread(values: Sequence[Any], places: Sequence[bool]) -> list[Any]:
    """Return a list with the values where a mask is true, and None elsewhere."""
    rest = iter(values)
    return [next(rest) if own else None for own in places]


class _Parts:
    """The forward and backward parts of an iteration, and the cotangents of the inputs of the loop.

    Args:
        iterations: the loop.
        moving: its differentiated inputs and results.
        parted: the program of an iteration, split.
    """

    def __init__(self, iterations: Iterations, moving: Moving, parted: Parted) -> None:
        self._iterations, self._moving, self._parted = iterations, moving, parted
        self._summed = [place for place in range(iterations.shared) if parted.connected[place]]
        """The positions of shared values with cotangents."""

    def _zero_sums(self) -> list[Any]:
        """Return zeros for the cotangents of shared values."""
        return _zeros_like([self._iterations.body.inputs[place] for place in self._summed])

    def _grads(self, found: Sequence[Any]) -> list[Any]:
        """Return the cotangent of each input of an iteration, zeros for an unconnected one."""
        rest = iter(found)
        connected = zip(self._iterations.body.inputs, self._parted.connected, strict=True)
        return [next(rest) if own else np.zeros(name.shape, name.dtype) for name, own in connected]

    def _pulled(self, found: Iterator[Any]) -> list[Any]:
        """Return the cotangents of all leaves, from those of the carry and of shared values; None for the others."""
        moves = self._moving.outputs[: self._iterations.carried]
        grads: list[Any] = [None] * len(self._moving.inputs)
        for place in (*(slot for slot, own in enumerate(moves, self._iterations.shared) if own), *self._summed):
            grads[place] = next(found)
        return grads


class _BackAndForth(_Parts):
    """The forward loop, which stores residuals, and the backward loop.

    Attributes:
        forward: the forward loop; its last results are the residuals.
    """

    def __init__(self, iterations: Iterations, moving: Moving) -> None:
        assert iterations.examples is not None
        directions = Directions(iterations.body, moving.inputs, moving.outputs, iterations.examples)
        parted = directions.parted(iterations.recomputes, iterations.masks and iterations.masks.results)
        super().__init__(iterations, moving, parted)
        block, inputs, results = parted.forward, iterations.body.inputs, len(iterations.body.outputs)
        used = iterations.parted([place in parted.places for place in range(len(inputs))])
        self._used_shared, self._used_carry, self._used_arrays = used
        kept, varies = block.outputs[results:], varying(block, iterations.shared)
        self._is_steady = [x not in varies for x in kept]
        steady = chosen(kept, self._is_steady)
        self._before = Block(block.inputs[: iterations.shared], block.constants, block.equations, steady)
        shared, _, elements = iterations.parted(inputs)
        left = [*(x for x, is_steady in zip(kept, self._is_steady, strict=True) if not is_steady)]
        self._kept = len(left)
        left += chosen(iterations.parted(block.inputs)[1], self._used_carry)
        body = Block(block.inputs, block.constants, block.equations, [*block.outputs[:results], *left])
        writes = [*iterations.writes, *(Along() for _ in left)]
        self.forward = replace(iterations, body=body, writes=writes, masks=None)
        self._left = len(left)
        self._shared_names = [*steady, *chosen(shared, self._used_shared)]
        self._array_names = [*left, *chosen(elements, self._used_arrays)]
        self._backward = self._made(iterations.examples)

    def residuals(self, leaves: Leaves, left: Leaves) -> tuple[list[Any], list[Any]]:
        """Return the residuals that all backward iterations share, and the arrays that they read."""
        shared, _, arrays = self._iterations.parted(leaves)
        steady = computed(self._before, shared)
        return [*steady, *chosen(shared, self._used_shared)], [*left, *chosen(arrays, self._used_arrays)]

    def _made(self, examples: Leaves) -> Iterations:
        """Return the backward loop."""
        iterations, moving = self._iterations, self._moving
        found = computed(self.forward.body, examples)
        shared, arrays = self.residuals(examples, found[len(iterations.body.outputs) :])
        moves = moving.outputs[: iterations.carried], moving.outputs[iterations.carried :]
        ones = [np.ones(x.shape, x.dtype) for x in outputs_of(iterations.body)]
        carry = [*chosen(ones[: iterations.carried], moves[0]), *self._zero_sums()]
        shared, arrays = list(map(_like, shared, self._shared_names)), list(map(_like, arrays, self._array_names))
        given = [*shared, *carry, *arrays, *chosen(ones[iterations.carried :], moves[1])]
        body = recorded_block(self._iteration, given)
        reads = [
            *(Along() for _ in range(self._left)),
            *chosen(iterations.reads, self._used_arrays),
            *chosen(iterations.writes, moves[1]),
        ]
        writes = chosen(iterations.reads, iterations.parted(moving.inputs)[2])
        return Iterations(
            body,
            iterations.count,
            len(self._shared_names),
            len(carry),
            [along.backwards(iterations.count) for along in reads],
            [along.backwards(iterations.count) for along in writes],
            given,
        )

    def _iteration(self, *given: object) -> Any:
        """Compute an iteration of the backward loop."""
        iterations, moving, rest = self._iterations, self._moving, iter(given)

        def take(count: int) -> list[Any]:
            return [next(rest) for _ in range(count)]

        steady, leaves = iter(take(sum(self._is_steady))), take(sum(self._used_shared))
        cotangents, sums = take(sum(moving.outputs[: iterations.carried])), take(len(self._summed))
        others = iter(take(self._kept))
        leaves += take(sum(self._used_carry) + sum(self._used_arrays))
        kept = [next(steady if is_steady else others) for is_steady in self._is_steady]
        grads = self._grads(computed(self._parted.backward, [*kept, *leaves, *cotangents, *rest]))
        totals = [total + grads[place] for total, place in zip(sums, self._summed, strict=True)]
        _, carry, elements = iterations.parted(grads)
        following = chosen(carry, moving.outputs[: iterations.carried])
        return following, totals, chosen(elements, iterations.parted(moving.inputs)[2])

    def pulled(self, residuals: tuple[list[Any], list[Any]], cotangents: Leaves) -> list[Any]:
        """Return the cotangents of all leaves, None for those without a derivative."""
        (shared, arrays), moving = residuals, self._moving
        count = sum(moving.outputs[: self._iterations.carried])
        found = iter(self._backward(*shared, *cotangents[:count], *self._zero_sums(), *arrays, *cotangents[count:]))
        grads = self._pulled(found)
        for place in range(self._iterations.middle, len(grads)):
            grads[place] = next(found) if moving.inputs[place] else None
        return grads


class _Once(_Parts):
    """The forward and backward parts of a loop with at most one iteration; both are such loops."""

    def __init__(self, iterations: Iterations, moving: Moving) -> None:
        assert iterations.examples is not None
        parted = Directions(iterations.body, moving.inputs, moving.outputs, iterations.examples).parted()
        super().__init__(iterations, moving, parted)
        self._kept = list(map(Name, parted.forward.outputs[iterations.carried :]))
        body, examples = parted.forward, iterations.examples
        block = body.with_ends([*body.inputs, *self._kept], body.outputs)
        forward = at_most_once(block, iterations.shared, [*examples, *_zeros_like(self._kept)])
        self._forward = replace(forward, results=iterations.results)
        self._backward = self._made(examples, computed(body, examples)[iterations.carried :])

    def _made(self, examples: Leaves, kept: Leaves) -> Iterations:
        """Return the backward loop, from examples of the inputs and of the residuals."""
        iterations, parted = self._iterations, self._parted
        leaves = [_like(examples[place], iterations.body.inputs[place]) for place in parted.places]
        carry = chosen(iterations.body.inputs[iterations.shared :], self._moving.outputs)
        cotangents = [np.ones(x.shape, x.dtype) for x in carry]
        given = [*map(_like, kept, self._kept), *leaves, *cotangents, *self._zero_sums()]
        return at_most_once(recorded_block(self._iteration, given), len(self._kept) + len(leaves), given)

    def _iteration(self, *given: object) -> Any:
        """Compute an iteration of the backward loop, from residuals, leaves, cotangents, and zeros to be replaced."""
        backward = self._parted.backward
        grads = self._grads(computed(backward, given[: len(backward.inputs)]))
        following = chosen(grads[self._iterations.shared :], self._moving.outputs)
        return following, [grads[place] for place in self._summed]

    def forward_and_back(self, leaves: Leaves) -> tuple[list[Any], Any]:
        """Return the results and the pullback."""
        iterations = self._iterations
        assert iterations.condition is not None
        (holds,) = computed(iterations.condition, leaves)
        found = self._forward(holds, *leaves, *_zeros_like(self._kept))
        residuals = [*found[iterations.carried :], *(leaves[place] for place in self._parted.places)]

        def pull(cotangents: Leaves, variables: Variables) -> list[Any]:
            moved = chosen(cotangents, self._moving.outputs)
            return self._pulled(iter(self._backward(holds, *residuals, *moved, *self._zero_sums())))

        return list(found[: iterations.carried]), pull


def _zeros_like(names: Sequence[Name]) -> list[Any]:
    return [np.zeros(name.shape, name.dtype) for name in names]


def _like(x: Any, name: Name) -> Any:
    """Return an example of a value of a name."""
    return np.asarray(x).item() if name.is_weak else x


# Batches


def _mapped(iterations: Iterations, ours: Places, size: int) -> Iterations:
    """Return the loop for a batch of examples, which lie along the first axes of mapped values.

    Every carry is mapped.
    """
    assert iterations.examples is not None
    carried = range(iterations.shared, iterations.middle)
    axes = [0 if own or place in carried else None for place, own in enumerate(ours)]
    examples = [
        x if axis is None else np.array(np.broadcast_to(x, (size, *np.shape(x))))
        for x, axis in zip(iterations.examples, axes, strict=True)
    ]
    body = iterations.body if iterations.condition is None else _masked_body(iterations)
    return replace(
        iterations,
        body=mapped(body, axes, examples),
        examples=examples,
        results=_results_of_batch(iterations, size),
        condition=_any(iterations, axes, examples),
    )


def _results_of_batch(iterations: Iterations, size: int) -> list[Any]:
    """Return possible results for a batch, in which all examples are equal."""
    carry, arrays = iterations.results[: iterations.carried], iterations.results[iterations.carried :]
    return [
        *(np.broadcast_to(x, (size, *np.shape(x))) for x in carry),
        *(np.broadcast_to(x[:, np.newaxis], (len(x), size, *x.shape[1:])) for x in arrays),
    ]


def _any(iterations: Iterations, axes: Sequence[int | None], examples: Leaves) -> Block | None:
    """Return the condition that any example continues."""
    condition = iterations.condition
    if condition is None:
        return None
    one = vmap(lambda *leaves: computed(condition, leaves)[0], in_axes=tuple(axes))
    return recorded_block(lambda *leaves: np.any(one(*leaves)), examples)


def _many(iterations: Iterations, ours: Places, leaves: Leaves) -> list[Any]:
    """Return the results for a batch of examples; the mask `ours` marks the mapped leaves."""
    size = next(np.shape(x)[0] for x, own in zip(leaves, ours, strict=True) if own)
    loop: Iterations = iterations.once(("map", ours, size), lambda: _mapped(iterations, ours, size))
    shared, carry, arrays = iterations.parted(leaves)
    _, ours_carried, ours_arrays = iterations.parted(ours)
    pairs = zip(carry, ours_carried, strict=True)
    carry = [x if own else np.broadcast_to(x, (size, *np.shape(x))) for x, own in pairs]
    arrays = [np.swapaxes(x, 0, 1) if own else x for x, own in zip(arrays, ours_arrays, strict=True)]
    found = loop(*shared, *carry, *arrays)
    return [*found[: iterations.carried], *(np.swapaxes(x, 0, 1) for x in found[iterations.carried :])]


# The call that traces receive


@dataclass(eq=False)
class _IterationsRule(Rule):
    """The rule of a loop.

    Attributes:
        iterations: the loop, which is also run by a recorded program.
    """

    iterations: Any = None

    @property
    @override
    def again(self) -> Any:
        return self.iterations

    @override
    def followed(self, trace: Trace, leaves: Leaves) -> list[Any]:
        ours = tuple(trace.follows(leaf) for leaf in leaves)

        def linearize(leaves: Leaves) -> Any:
            return linearized(self.iterations, ours, trace.remembers, leaves)

        return Rule.followed(replace(self, linearize=linearize), trace, leaves)

    @override
    def mapped(self, ours: Sequence[bool], trace: object = None) -> Any:
        return Transparent("loop", functools.partial(_many, self.iterations, tuple(ours)))


def _nothing(leaves: Leaves) -> Any:
    raise NotImplementedError  # `followed` selects the leaves with respect to which it linearizes


def _called(iterations: Iterations, leaves: Sequence[Any]) -> Sequence[Any]:
    if not iterations.goes_along_all():
        return iterations.run(leaves)
    masked = iterations.masks and iterations.masks.inputs
    rule = _IterationsRule(iterations, iterations.run, _nothing, masked=masked, iterations=iterations)
    return apply_call(rule, leaves)


CALLED.append(_called)
