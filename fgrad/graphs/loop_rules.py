"""What transforms make of loops in programs: loops.

The tangents of a loop are a loop beside it. The pass back is one in the other direction, along the residuals that a
longer form of the loop has left; what all turns share gets a sum over turns, which is carried. A loop over many
examples is one whose carry is a batch.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.tensor import apply_call
from fgrad.core.trace import Trace
from fgrad.graphs.derived import Directions, Leaves, Places, chosen, computed, mapped, outputs_of, recorded_block
from fgrad.graphs.equations import Name
from fgrad.graphs.graph import Block
from fgrad.graphs.loop import CALLED, UNLIMITED, Along, Turns, is_slight
from fgrad.graphs.tidying import varying
from fgrad.rules.rule import Rule, Transparent, Variables
from fgrad.transforms.batch import vmap


def reached(block: Block, moving: Sequence[bool]) -> list[bool]:
    """Return which results depend on inputs that move, through numbers that can have a derivative."""
    found = set(chosen(block.inputs, moving))
    for equation in block.equations:
        if not found.isdisjoint(x for x in equation.inputs if type(x) is Name):
            found.update(name for name in equation.outputs if name.dtype.kind in "fc")
    return [type(x) is Name and x in found for x in block.outputs]


class Moving:
    """What moves in a loop, where some of what goes in does.

    What is carried moves before a turn if it does after it, and the other way round: a cotangent of the carry goes
    through all turns to what it was before the first, also where a turn does not look at it.

    Attributes:
        inputs, outputs: which inputs of a turn, and which of its results.
    """

    def __init__(self, turns: Turns, ours: Sequence[bool]) -> None:
        kinds = [name.dtype.kind in "fc" for name in turns.body.inputs]
        moving = [own and is_float for own, is_float in zip(ours, kinds, strict=True)]
        middle = turns.shared + turns.carried
        while True:
            self.inputs = tuple(moving)
            results = reached(turns.body, moving)
            pairs = zip(moving[turns.shared : middle], results[: turns.carried], strict=True)
            moving[turns.shared : middle] = [before or after for before, after in pairs]
            if tuple(moving) == self.inputs:
                break
        self.outputs = (*self.inputs[turns.shared : middle], *results[turns.carried :])


def linearized(turns: Turns, ours: Places, remembers: bool, leaves: Leaves) -> Any:
    """Return the results, the pullback and the pushforward, by those of the leaves that are `ours`.

    Without a pass back in sight, there is no pullback.
    """
    if turns.condition is not None and remembers and turns.count > 1:
        turns = turns.once("masked", lambda: _masked(turns))
    moving = Moving(turns, ours)
    if not any(moving.outputs):
        return _constant(turns, leaves)
    count = len(outputs_of(turns.body))

    def push(tangents: Leaves, variables: Variables) -> list[Any]:
        loop: Turns = turns.once(("push", ours), lambda: _pushed(turns, moving))
        directions = [t if own else _zeros(x) for x, t, own in zip(leaves, tangents, ours, strict=True)]
        given = zip(*(turns.parted(each) for each in (leaves, directions, moving.inputs)), strict=True)
        found = loop(*(x for part, along, own in given for x in (*part, *chosen(along, own))))
        rest = iter(found[turns.carried :])
        return [next(rest) if own else _zeros(x) for x, own in zip(turns.forms(), moving.outputs, strict=True)]

    if not remembers:
        return turns(*leaves), None, push
    if turns.condition is not None:
        once: _Once = turns.once(("pull", ours), lambda: _Once(turns, moving))
        return *once.forward_and_back(leaves), push
    parts: _BackAndForth = turns.once(("pull", ours), lambda: _BackAndForth(turns, moving))
    found = parts.forward(*leaves)
    residuals = parts.residuals(leaves, found[count:])

    def pull(cotangents: Leaves, variables: Variables) -> list[Any]:
        grads = parts.pulled(residuals, chosen(cotangents, moving.outputs))
        return [x if own else None for x, own in zip(grads, ours, strict=True)]

    return list(found[:count]), pull, push


def _constant(turns: Turns, leaves: Leaves) -> Any:
    """Return the same of a loop whose results do not move, such as one of integers."""

    def pull(cotangents: Leaves, variables: Variables) -> list[Any]:
        return [None] * len(leaves)

    def push(tangents: Leaves, variables: Variables) -> list[Any]:
        return [_zeros(x) for x in turns.forms()]

    return list(turns(*leaves)), pull, push


def _zeros(x: Any) -> Any:
    return np.zeros(np.shape(x), x.dtype if getattr(x, "dtype", np.dtype(int)).kind in "fc" else None)


def _pushed(turns: Turns, moving: Moving) -> Turns:
    """Return the loop that takes tangents too: those of each part behind the part. It returns no outputs but theirs."""
    assert turns.examples is not None
    block = Directions(turns.body, moving.inputs, moving.outputs, turns.examples).pushed()
    count, results = len(moving.inputs), len(moving.outputs)
    names = block.inputs[:count], _spread(block.inputs[count:], moving.inputs)
    tangents = _spread(block.outputs[results:], moving.outputs)
    parts = zip(*(turns.parted(each) for each in (*names, moving.inputs)), strict=True)
    inputs = [[*part, *chosen(along, own)] for part, along, own in parts]
    moved = chosen(tangents[: turns.carried], moving.outputs[: turns.carried])
    outputs = chosen(tangents[turns.carried :], moving.outputs[turns.carried :])
    carry = [*block.outputs[: turns.carried], *moved]
    elements = moving.inputs[turns.shared + turns.carried :]
    return replace(
        turns,
        body=Block([x for each in inputs for x in each], block.constants, block.equations, [*carry, *outputs]),
        shared=len(inputs[0]),
        carried=len(inputs[1]),
        reads=[*turns.reads, *chosen(turns.reads, elements)],
        writes=chosen(turns.writes, moving.outputs[turns.carried :]),
        examples=_examples_of(turns, moving),
        condition=_beside(turns, moving),
        _derived={},
    )


def _beside(turns: Turns, moving: Moving) -> Block | None:
    """Return the condition as a program that is handed tangents, too, which it does not ask for."""
    if turns.condition is None:
        return None
    parts = zip(turns.parted(turns.condition.inputs), turns.parted(moving.inputs), strict=True)
    inputs = [x for names, own in parts for x in (*names, *map(Name, chosen(names, own)))]
    return Block(inputs, turns.condition.constants, turns.condition.equations, turns.condition.outputs)


def _masked(turns: Turns) -> Turns:
    """Return a loop of as many turns as there are at most, of which each counts where the condition holds before.

    Raises:
        ConcretizationError: a TypeError; nobody has said how many there are at most.
    """
    if turns.count == UNLIMITED:
        what = "a pass back through a loop, for the number of turns,"
        raise errors.ConcretizationError(what, errors.users_line())
    body = _masked_body(turns) if is_slight(turns.body.equations) else _skipping_body(turns)
    return replace(turns, body=body, condition=None, _derived={})


def _skipping_body(turns: Turns) -> Block:
    """Return what a turn computes where the condition holds; where it does not, nothing is computed."""
    once = replace(turns, count=1, _derived={})
    assert turns.examples is not None
    given = zip(turns.examples, turns.body.inputs, strict=True)
    return recorded_block(lambda *leaves: list(once(*leaves)), [_like(x, name) for x, name in given])


def _masked_body(turns: Turns) -> Block:
    """Return what a turn computes and throws away where the condition does not hold: there the carry is as it was."""
    condition, examples = turns.condition, turns.examples
    assert condition is not None
    assert examples is not None

    def turn(*leaves: Any) -> list[Any]:
        holds = computed(condition, leaves)[0]
        pairs = zip(computed(turns.body, leaves), leaves[turns.shared :], strict=True)
        return [np.where(holds, after, before) for after, before in pairs]

    given = zip(examples, turns.body.inputs, strict=True)
    with np.errstate(all="ignore"):  # of turns that do not count
        return recorded_block(turn, [_like(x, name) for x, name in given])


def _examples_of(turns: Turns, moving: Moving) -> list[Any]:
    assert turns.examples is not None
    tangents = [np.ones(np.shape(x)) for x in turns.examples]
    parts = zip(*(turns.parted(each) for each in (turns.examples, tangents, moving.inputs)), strict=True)
    return [x for part, along, own in parts for x in (*part, *chosen(along, own))]


def _spread(values: Sequence[Any], places: Sequence[bool]) -> list[Any]:
    """Return a list with values at some places, and None elsewhere."""
    rest = iter(values)
    return [next(rest) if own else None for own in places]


class _BackAndForth:
    """The loops of a run that leaves residuals, and of the pass back.

    Attributes:
        forward: the loop; its last results are residuals.
    """

    def __init__(self, turns: Turns, moving: Moving) -> None:
        assert turns.examples is not None
        self._turns, self._moving = turns, moving
        parted = Directions(turns.body, moving.inputs, moving.outputs, turns.examples).parted(turns.recomputes)
        self._parted = parted
        results = len(turns.body.outputs)
        kept = parted.forward.outputs[results:]
        varies = varying(parted.forward, turns.shared)
        self._is_steady = [x not in varies for x in kept]
        steady = chosen(kept, self._is_steady)
        block = parted.forward
        self._before = Block(block.inputs[: turns.shared], block.constants, block.equations, steady)
        carries = [block.inputs[place] for place in self._places(turns.shared, turns.shared + turns.carried)]
        left = [*(x for x, is_steady in zip(kept, self._is_steady, strict=True) if not is_steady), *carries]
        body = Block(block.inputs, block.constants, block.equations, [*block.outputs[:results], *left])
        self.forward = replace(turns, body=body, writes=[*turns.writes, *(Along() for _ in left)], _derived={})
        self._kept, self._left = len(left) - len(carries), len(left)
        inputs, end = turns.body.inputs, len(turns.body.inputs)
        self._shared_names = [*steady, *(inputs[place] for place in self._places(0, turns.shared))]
        elements = self._places(turns.shared + turns.carried, end)
        self._array_names = [*left, *(inputs[place] for place in elements)]
        self._backward = self._made(turns.examples)

    def _places(self, start: int, stop: int) -> list[int]:
        """Return the places of leaves from some on that the pass back takes, too."""
        return [place for place in self._parted.places if start <= place < stop]

    def residuals(self, leaves: Leaves, left: Leaves) -> tuple[list[Any], list[Any]]:
        """Return what all turns back share, and the arrays along which they go."""
        turns, end = self._turns, len(leaves)
        steady = computed(self._before, leaves[: turns.shared])
        shared = [*steady, *(leaves[place] for place in self._places(0, turns.shared))]
        return shared, [*left, *(leaves[place] for place in self._places(turns.shared + turns.carried, end))]

    def _made(self, examples: Leaves) -> Turns:
        """Return the loop of the pass back."""
        turns, moving = self._turns, self._moving
        middle = turns.shared + turns.carried
        found = computed(self.forward.body, examples)
        shared, arrays = self.residuals(examples, found[len(turns.body.outputs) :])
        moves = moving.outputs[: turns.carried], moving.outputs[turns.carried :]
        ones = [np.ones(x.shape, x.dtype) for x in outputs_of(turns.body)]
        sums = [np.zeros(np.shape(examples[place]), np.asarray(examples[place]).dtype) for place in self._summed()]
        carry = [*chosen(ones[: turns.carried], moves[0]), *sums]
        shared, arrays = list(map(_like, shared, self._shared_names)), list(map(_like, arrays, self._array_names))
        given = [*shared, *carry, *arrays, *chosen(ones[turns.carried :], moves[1])]
        body = recorded_block(self._turn, given)
        reads = [
            *(Along() for _ in range(self._left)),
            *(turns.reads[p - middle] for p in self._places(middle, len(examples))),
        ]
        reads += chosen(turns.writes, moves[1])
        return Turns(
            body,
            turns.count,
            len(self._shared_names),
            len(carry),
            [along.backwards(turns.count) for along in reads],
            [along.backwards(turns.count) for along in chosen(turns.reads, moving.inputs[middle:])],
            given,
        )

    def _summed(self) -> list[int]:
        """Return the places of what turns share and that has cotangents."""
        return [place for place in range(self._turns.shared) if self._parted.connected[place]]

    def _turn(self, *given: Any) -> Any:
        """Compute a turn of the pass back."""
        turns, moving, rest = self._turns, self._moving, iter(given)
        middle = turns.shared + turns.carried

        def take(count: int) -> list[Any]:
            return [next(rest) for _ in range(count)]

        steady = iter(take(sum(self._is_steady)))
        leaves = dict(zip(self._places(0, turns.shared), take(len(self._places(0, turns.shared))), strict=True))
        cotangents = take(sum(moving.outputs[: turns.carried]))
        sums = take(len(self._summed()))
        others = iter(take(self._kept))
        for places in (self._places(turns.shared, middle), self._places(middle, len(moving.inputs))):
            leaves.update(zip(places, take(len(places)), strict=True))
        cotangents += rest
        kept = [next(steady if is_steady else others) for is_steady in self._is_steady]
        found = computed(self._parted.backward, [*kept, *(leaves[p] for p in self._parted.places), *cotangents])
        grads = self._grads(found)
        following = chosen(grads[turns.shared : middle], moving.outputs[: turns.carried])
        totals = [total + grads[place] for total, place in zip(sums, self._summed(), strict=True)]
        return following, totals, chosen(grads[middle:], moving.inputs[middle:])

    def _grads(self, found: Sequence[Any]) -> list[Any]:
        """Return what there is for each input of a turn: zeros where it leads to nothing."""
        rest = iter(found)
        connected = zip(self._turns.body.inputs, self._parted.connected, strict=True)
        return [next(rest) if own else np.zeros(name.shape, name.dtype) for name, own in connected]

    def pulled(self, residuals: tuple[list[Any], list[Any]], cotangents: Leaves) -> list[Any]:
        """Return the cotangents of all leaves, None of those that have none."""
        turns, moving = self._turns, self._moving
        shared, arrays = residuals
        moves = moving.outputs[: turns.carried]
        last, others = cotangents[: sum(moves)], cotangents[sum(moves) :]
        sums = [np.zeros(x.shape, x.dtype) for x in (turns.body.inputs[place] for place in self._summed())]
        found = iter(self._backward(*shared, *last, *sums, *arrays, *others))
        grads: list[Any] = [None] * len(moving.inputs)
        for slot in (slot for slot, own in enumerate(moves, turns.shared) if own):
            grads[slot] = next(found)
        for place in self._summed():
            grads[place] = next(found)
        for place in range(turns.shared + turns.carried, len(grads)):
            grads[place] = next(found) if moving.inputs[place] else None
        return grads


class _Once:
    """The run and the pass back of a loop that turns once or not at all, each of which does so, too."""

    def __init__(self, turns: Turns, moving: Moving) -> None:
        assert turns.examples is not None
        self._turns, self._moving = turns, moving
        self._parted = parted = Directions(turns.body, moving.inputs, moving.outputs, turns.examples).parted()
        self._kept = list(map(Name, parted.forward.outputs[turns.carried :]))
        body, inputs = parted.forward, [*parted.forward.inputs, *self._kept]
        flag = Name(np.False_)
        self._forward = replace(
            turns,
            body=Block([flag, *inputs], body.constants, body.equations, body.outputs),
            shared=1 + turns.shared,
            carried=len(body.outputs),
            examples=[np.True_, *turns.examples, *_zeros_like(self._kept)],
            condition=Block([flag, *inputs], {}, [], [flag]),
            _derived={},
        )
        self._backward = self._made(computed(body, turns.examples)[turns.carried :])

    def _made(self, kept: Leaves) -> Turns:
        """Return the loop of the pass back, by examples of what the run keeps for it."""
        turns, parted = self._turns, self._parted
        assert turns.examples is not None
        names = [turns.body.inputs[place] for place in parted.places]
        leaves = [_like(turns.examples[place], turns.body.inputs[place]) for place in parted.places]
        cotangents = [np.ones(x.shape, x.dtype) for x in self._carried_names()]
        given = [*map(_like, kept, self._kept), *leaves, *cotangents, *_zeros_like(self._summed_names())]
        block = recorded_block(self._turn, given)
        flag = Name(np.False_)
        body = Block([flag, *block.inputs], block.constants, block.equations, block.outputs)
        shared = 1 + len(self._kept) + len(names)
        condition = Block(body.inputs, {}, [], [flag])
        return Turns(body, 1, shared, len(block.outputs), [], [], [np.True_, *given], condition=condition)

    def _carried_names(self) -> list[Name]:
        """Return the names of the carry before the turn where that has cotangents."""
        turns, moving = self._turns, self._moving
        return chosen(turns.body.inputs[turns.shared :], moving.outputs)

    def _summed(self) -> list[int]:
        return [place for place in range(self._turns.shared) if self._parted.connected[place]]

    def _summed_names(self) -> list[Name]:
        return [self._turns.body.inputs[place] for place in self._summed()]

    def _turn(self, *given: Any) -> Any:
        """Compute the turn of the pass back: of what was kept, of leaves, cotangents, and zeros that are replaced."""
        turns, parted = self._turns, self._parted
        found = iter(computed(parted.backward, given[: len(parted.backward.inputs)]))
        connected = zip(turns.body.inputs, parted.connected, strict=True)
        grads = [next(found) if own else np.zeros(name.shape, name.dtype) for name, own in connected]
        return chosen(grads[turns.shared :], self._moving.outputs), [grads[place] for place in self._summed()]

    def forward_and_back(self, leaves: Leaves) -> tuple[list[Any], Any]:
        """Return the results and the pullback."""
        turns, parted = self._turns, self._parted
        assert turns.condition is not None
        (holds,) = computed(turns.condition, leaves)
        found = self._forward(holds, *leaves, *_zeros_like(self._kept))
        residuals = [*found[turns.carried :], *(leaves[place] for place in parted.places)]

        def pull(cotangents: Leaves, variables: Variables) -> list[Any]:
            moved = chosen(cotangents, self._moving.outputs)
            back = iter(self._backward(holds, *residuals, *moved, *_zeros_like(self._summed_names())))
            grads: list[Any] = [None] * len(turns.body.inputs)
            for slot in (slot for slot, own in enumerate(self._moving.outputs, turns.shared) if own):
                grads[slot] = next(back)
            for place in self._summed():
                grads[place] = next(back)
            return grads

        return list(found[: turns.carried]), pull


def _zeros_like(names: Sequence[Name]) -> list[Any]:
    return [np.zeros(name.shape, name.dtype) for name in names]


def _like(x: Any, name: Name) -> Any:
    """Return an example of what a name stands for."""
    return np.asarray(x).item() if name.is_weak else x


# Many examples


def _mapped(turns: Turns, ours: Places, size: int) -> Turns:
    """Return the loop for many examples: in what turns share and in elements along the first axis where they are ours.

    The carry of each is that of many.
    """
    assert turns.examples is not None
    carried = range(turns.shared, turns.shared + turns.carried)
    axes = [0 if own or place in carried else None for place, own in enumerate(ours)]
    examples = [
        x if axis is None else np.array(np.broadcast_to(x, (size, *np.shape(x))))
        for x, axis in zip(turns.examples, axes, strict=True)
    ]
    body = turns.body if turns.condition is None else _masked_body(turns)
    return replace(
        turns, body=mapped(body, axes, examples), examples=examples, condition=_any(turns, axes, examples), _derived={}
    )


def _any(turns: Turns, axes: Sequence[int | None], examples: Leaves) -> Block | None:
    """Return the condition that one example goes on."""
    condition = turns.condition
    if condition is None:
        return None
    one = vmap(lambda *leaves: computed(condition, leaves)[0], in_axes=tuple(axes))
    return recorded_block(lambda *leaves: np.any(one(*leaves)), examples)


def _many(turns: Turns, ours: Places, leaves: Leaves) -> list[Any]:
    """Return the results for many examples, which lie along the first axis of those leaves that are ours."""
    size = next(np.shape(x)[0] for x, own in zip(leaves, ours, strict=True) if own)
    loop: Turns = turns.once(("map", ours, size), lambda: _mapped(turns, ours, size))
    shared, carry, arrays = turns.parted(leaves)
    _, ours_carried, ours_arrays = turns.parted(ours)
    pairs = zip(carry, ours_carried, strict=True)
    carry = [x if own else np.broadcast_to(x, (size, *np.shape(x))) for x, own in pairs]
    arrays = [np.swapaxes(x, 0, 1) if own else x for x, own in zip(arrays, ours_arrays, strict=True)]
    found = loop(*shared, *carry, *arrays)
    return [*found[: turns.carried], *(np.swapaxes(x, 0, 1) for x in found[turns.carried :])]


# As a call that traces are handed


@dataclass(eq=False)
class _TurnsRule(Rule):
    """The rule of a loop.

    Attributes:
        turns: the loop, which also runs it in a recorded program.
    """

    turns: Any = None

    @property
    @override
    def again(self) -> Any:
        return self.turns

    @override
    def followed(self, trace: Trace, leaves: Leaves) -> list[Any]:
        ours = tuple(trace.follows(leaf) for leaf in leaves)

        def linearize(leaves: Leaves) -> Any:
            return linearized(self.turns, ours, trace.remembers, leaves)

        return Rule.followed(replace(self, linearize=linearize), trace, leaves)

    @override
    def mapped(self, ours: Sequence[bool], trace: Any = None) -> Any:
        return Transparent("loop", functools.partial(_many, self.turns, tuple(ours)))


def _nothing(leaves: Leaves) -> Any:
    raise NotImplementedError  # `followed` knows by which leaves to linearize


def _called(turns: Turns, leaves: Sequence[Any]) -> Sequence[Any]:
    if not turns.goes_along_all():
        return turns.run(leaves)
    return apply_call(_TurnsRule(turns, turns.run, _nothing, turns=turns), leaves)


CALLED.append(_called)
