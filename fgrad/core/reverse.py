"""Reverse mode: a trace that records how cotangents get from results to arguments, and the backward pass.

ReverseTrace    records an edge for each active argument of an operation
pull_back       the backward pass: processes a record from its end
Edge            an entry of a record with named fields
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.coerce import PLAIN
from fgrad.core.foreign import INEXACT, explain_refusal, payload_of
from fgrad.core.lazy_sum import GATHERING, Gathered, finished
from fgrad.core.masked import pulled_by_masked
from fgrad.core.primitive import UFUNCS, ZERO, Primitive, ReverseRule, may_save
from fgrad.core.snapshots import LARGE, ChecksumGuard, Copies, is_large, snapshot
from fgrad.core.tensor import Tensor, apply, box, boxed, own_handle
from fgrad.core.trace import NOTHING, Call, Trace, is_seen, observing, recorded, running
from fgrad.core.unbroadcast import FEW_PRODUCTS, SUMMED, summed
from fgrad.typing import Array, ArrayLike

Pullback = Callable[[Any], Any]
_ARRAY = np.ndarray
_NUMBER = np.float64
_REALS = {np.float64, np.float32, float, int}
"""Types for which Python's operators give the same as NumPy's functions; Python's complex numbers do not."""
Form = tuple[tuple[int, ...], "np.dtype[Any]"]
"""The shape and dtype of a primal, to which its cotangent is converted."""


class Edge(NamedTuple):
    """One entry of a record. Records hold plain tuples, which are five times faster to make: `Edge(*entry)` reads one.

    Attributes:
        result: the key of an operation's result.
        is_first: whether the edge is the first one recorded for that result.
        argument: the key of the argument.
        rule: computes the cotangent of the argument from that of the result and the saved residuals.
        saved: the residuals; a pullback, if the rule is the `closure` of its primitive.
        form: the shape and dtype to which the rule's result is converted; None: no conversion is needed.
    """

    result: int
    is_first: bool
    argument: int
    rule: ReverseRule
    saved: Any
    form: Form | None

    @property
    def primitive(self) -> Primitive:
        """The operation."""
        return self.rule.primitive

    @property
    def pullback(self) -> Pullback:
        """Maps the cotangent of the result to that of the argument; a `ZeroPullback` for a zero derivative."""
        if self.rule is self.primitive.closure:
            return self.saved  # type: ignore[no-any-return]
        return lambda ct: self.rule.pull(ct, self.saved)

    def pulled_by(self, pullback: Pullback) -> Edge:
        """Return the edge with another pullback."""
        return self._replace(rule=self.primitive.closure, saved=pullback)


Entry = tuple[int, bool, int, ReverseRule, Any, "Form | None"]


class ZeroPullback:
    """The pullback of an argument with zero derivative; `place` is the user's file and line."""

    __slots__ = ("place",)

    def __init__(self, place: tuple[str, int]) -> None:
        self.place = place

    def __call__(self, cotangent: Array) -> Any:
        return ZERO


class ReverseTrace(Trace):
    """Records edges from results to arguments. An edge keeps the residuals of its pullback alive, nothing else.

    The record belongs to the trace. A tensor holds only its key in the record, so a tensor that
    outlives the trace holds no graph. Keys are given and edges appended so that the arguments of an operation come
    before its result, also when several threads use one trace.

    Args:
        persistent: pass tensors of this trace to the rules, instead of the values inside them. While the trace runs, a
            backward pass over the record is then recorded, too.
        ends_with_call: the record is not used after the current transform call, so that large plain arrays may be
            read-only until then.

    Attributes:
        record: the edges, in order.
        exits: values that left the trace, by how and where: their keys, each with the next key at that time.
    """

    differentiates = True
    remembers = True

    def __init__(self, persistent: bool = False, ends_with_call: bool = False) -> None:
        super().__init__()
        self.persistent = persistent
        self.may_lock = ends_with_call and self.call is not None
        self.record: list[Entry] = running.record()
        self.copies: Copies = {}
        self._keys = itertools.count()

    @override
    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self.record = []  # tensors that outlive the error hold no graph
        self.copies.clear()
        super().__exit__(kind, error, traceback)

    def root(self, value: Any) -> Tensor:
        """Return `value` as an input of this trace."""
        return box(value, self, next(self._keys))

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        if not (observing and is_seen()):
            if len(args) == 1:
                return self._process_one(primitive, args, metadata)
            if len(args) == 2 and not metadata:
                return self.process_two(primitive, *args)
        values = [self._inside(arg) if type(arg) is Tensor else arg for arg in args]
        if PLAIN.issuperset(map(type, values)) and not (observing and is_seen()):
            ans = primitive.implementation(*values, **metadata) if metadata else primitive.compute(*values)
        else:
            ans = apply(primitive, values, metadata)
        return self._recorded(primitive, args, values, ans, metadata)

    # `_process_one` and `process_two` repeat `process` and `_recorded` for operations on one array and for binary
    # operators, which most operations are. They take two thirds of the time.

    def _process_one(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        (x,) = args
        a, rules = x._payload, primitive.vjps
        if type(a) in PLAIN:  # the same without keywords is faster
            ans = primitive.compute(a, **metadata) if metadata else primitive.compute(a)
        else:
            ans = apply(primitive, (a,), metadata)
        if rules is None or type(ans) is tuple:
            return self._recorded(primitive, args, (a,), ans, metadata)
        for each in metadata.values():
            if type(each) is _ARRAY:
                return self._recorded(primitive, args, (a,), ans, metadata)
        result = box(ans, self, next(self._keys))
        values = (ans, a) if not self.persistent else self._handles(result, args, (a,))
        rule, form = rules[0], None if ans.dtype is a.dtype else (a.shape, a.dtype)
        if type(rule) is ReverseRule and not metadata:
            self.record.append((result._mark, True, x._mark, rule, rule.pick(values), form))
            return result
        pullback = None if rule is None else rule(*values, **metadata) if metadata else rule(*values)
        self.record.append((result._mark, True, x._mark, primitive.closure, pullback or _cut(), form))
        return result

    @override
    def process_two(self, primitive: Primitive, x: Any, y: Any) -> Any:
        kind_x, kind_y = type(x), type(y)
        follows_x = follows_y = False
        a = x if kind_x is not Tensor else x._payload if (follows_x := x._trace is self) else own_handle(x)
        b = y if kind_y is not Tensor else y._payload if (follows_y := y._trace is self) else own_handle(y)
        rules: Any = primitive.vjps
        if kind_y is _ARRAY and rules is not None and may_save(rules[0], 1):
            b = snapshot(y, self.copies) if y.nbytes <= LARGE else self._kept(y, primitive.name)
        elif kind_x is _ARRAY and rules is not None and may_save(rules[1], 0):
            a = snapshot(x, self.copies) if x.nbytes <= LARGE else self._kept(x, primitive.name)
        if a is None or b is None:  # it needs a checksum
            ans = apply(primitive, (a := x if a is None else a, b := y if b is None else b))
            return self._recorded(primitive, (x, y), (a, b), ans, NOTHING)
        if (kind_a := type(a)) is _ARRAY and (kind_y is float or type(b) in PLAIN):
            ans = primitive.implementation(a, b)
        elif kind_a in _REALS and type(b) in _REALS:
            ans = primitive.compute(a, b)
        else:
            ans = apply(primitive, (a, b))
        if rules is None or (kind := type(ans)) is tuple:
            return self._recorded(primitive, (x, y), (a, b), ans, NOTHING)
        key = next(self._keys)
        result = box(ans, self, key)
        values = (ans, a, b) if not self.persistent else self._handles(result, (x, y), (a, b))
        if follows_x:
            rule, form = rules[0], None
            # With a Python number, an array keeps its shape; to compare shapes takes as long as to box it.
            if not (kind is _NUMBER is kind_a or (ans.dtype is a.dtype and (kind_y is float or ans.shape == a.shape))):
                rule, form = _rule_and_form(primitive, 0, ans, a)
            if type(rule) is ReverseRule:
                self.record.append((key, True, x._mark, rule, rule.pick(values), form))
            else:
                self.record.append((key, True, x._mark, primitive.closure, _pullback(rule, values), form))
        if follows_y:
            rule, form = rules[1], None
            if not (kind is _NUMBER is type(b) or (ans.dtype is b.dtype and (kind_x is float or ans.shape == b.shape))):
                rule, form = _rule_and_form(primitive, 1, ans, b)
            if type(rule) is ReverseRule:
                self.record.append((key, not follows_x, y._mark, rule, rule.pick(values), form))
            else:
                self.record.append((key, not follows_x, y._mark, primitive.closure, _pullback(rule, values), form))
        return result

    def _inside(self, tensor: Tensor) -> Any:
        return tensor._payload if tensor._trace is self else own_handle(tensor)

    def _handles(self, result: ArrayLike, args: Sequence[Any], values: Sequence[Any]) -> Sequence[Any]:
        """Return the arguments of rules in a persistent trace: tensors of it, so that it records what they do."""
        return _own_handles([result, *(arg if type(arg) is Tensor else x for arg, x in zip(args, values, strict=True))])

    def _recorded(
        self, primitive: Primitive, args: Sequence[Any], values: Sequence[Any], ans: Any, metadata: Mapping[str, Any]
    ) -> Any:
        """Return the result of an operation as a tensor of this trace, and record an edge for each active argument."""
        if primitive.vjps is None:
            leave = self._left if primitive.parted is None else self._joined
            return leave(primitive, args, values, ans, metadata)
        key = next(self._keys)
        if type(ans) is tuple:  # each output adds its cotangent to those of the others
            result: Any = tuple(map(self.root, ans))
            dtype = None  # every argument's cotangent is converted then
        else:
            result = box(ans, self, key)
            dtype = ans.dtype
        kept, large = self._all_kept(primitive, args, values) if _ARRAY in map(type, args) else (values, ())
        if metadata and _ARRAY in map(type, metadata.values()):
            metadata, others = self._kept_metadata(primitive, metadata)
            large = [*large, *others]
        handed = self._handles(result, args, kept) if self.persistent else (ans, *kept)
        seen = observing and is_seen()
        argnum, first = 0, True
        for arg in args:
            if type(arg) is Tensor and arg._trace is self:
                rule, value, form = primitive.vjps[argnum], arg._payload, None
                if dtype is not value.dtype or (primitive.broadcasts and ans.shape != value.shape):
                    rule, form = _rule_and_form(primitive, argnum, ans, value)
                if type(rule) is ReverseRule and not (large or seen or metadata):
                    entry = (key, first, arg._mark, rule, rule.pick(handed), form)
                else:
                    pullback = _pullback(rule, handed, metadata)
                    if type(pullback) is ZeroPullback:
                        form = None
                    elif large:
                        pullback = ChecksumGuard(pullback, large, primitive.name)
                    if seen:
                        pullback = recorded(primitive, primitive.name, pullback, handed[1:], handed[0])
                    entry = (key, first, arg._mark, primitive.closure, pullback, form)
                self.record.append(entry)
                first = False
            argnum += 1  # noqa: SIM113  # enumerate() takes 40 ns more
        if dtype is None:
            self._join(result, key)
        return result

    def _joined(
        self, primitive: Primitive, args: Sequence[Any], values: Sequence[Any], ans: Array, metadata: Mapping[str, Any]
    ) -> Tensor:
        """Return the joined arrays, recording one pullback for all of them."""
        assert primitive.parted is not None
        result = self.root(ans)
        parents = []
        for place, (arg, value) in enumerate(zip(args, values, strict=True)):
            if type(arg) is Tensor and arg._trace is self:
                form = None if value.dtype is ans.dtype else (value.shape, value.dtype)
                parents.append((arg._mark, place, form))
        pullback = primitive.parted(ans, *values, **metadata)
        if is_seen():
            pullback = recorded(primitive, primitive.name, pullback, values, ans)
        self._enter_at_once(result._mark, parents, primitive, pullback, [False] * len(parents))
        return result

    def _enter_at_once(
        self,
        key: int,
        parents: Sequence[tuple[int, int, Form | None]],
        primitive: Primitive,
        pullback: Pullback,
        masked: Sequence[bool],
    ) -> None:
        """Record edges from a result to several arguments whose cotangents one pullback returns as a list.

        Args:
            key: of the result.
            parents: for each argument its key, its place in the list that the pullback returns, and its form.
            primitive, pullback: the operation.
            masked: for each argument, whether its item of the list is masked if the whole is not.
        """
        together = next(self._keys)
        for index, (parent, place, form) in enumerate(parents):
            rule = _MASKED_ITEM if masked[index] else ITEM
            self.record.append((together, index == 0, parent, rule, place, form))
        self.record.append((key, True, together, primitive.closure, pullback, None))

    def _all_kept(self, primitive: Primitive, args: Sequence[Any], values: Sequence[Any]) -> tuple[Sequence[Any], Any]:
        """Return the values of arguments that pullbacks may keep, and the large ones that need a checksum."""
        kept, large, rules = [*values], [], primitive.vjps
        assert rules is not None
        followed = [place for place, arg in enumerate(args) if type(arg) is Tensor and arg._trace is self]
        for place, array in enumerate(args):
            if type(array) is _ARRAY and any(may_save(rules[argnum], place) for argnum in followed):
                if (as_now := self._kept(array, primitive.name)) is None:
                    large.append(array)
                else:
                    kept[place] = as_now
        return kept, large

    def _kept(self, array: Any, name: str) -> Any:
        """Return a plain array for a pullback to keep, since the user may overwrite it before the backward pass.

        Args:
            array: an array that an operation uses.
            name: the name of the operation.

        Returns:
            A copy, or a large array itself if it is read-only from now on; None if it needs a checksum.
        """
        if not is_large(array):
            return snapshot(array, self.copies)
        return array if self.lock(array, name) else None

    def _kept_metadata(self, primitive: Primitive, metadata: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
        """Return metadata that pullbacks may keep, and the large arrays in it that need a checksum."""
        kept, large = {**metadata}, []
        for name, array in metadata.items():
            if type(array) is _ARRAY:
                if (as_now := self._kept(array, primitive.name)) is None:
                    large.append(array)
                else:
                    kept[name] = as_now
        return kept, large

    def _join(self, outputs: Sequence[Tensor], key: int) -> None:
        """Record outputs as the parts of one result, whose cotangent is a `Parts`."""
        likes = [(output._payload.shape, output._payload.dtype) for output in outputs]
        for place, output in enumerate(outputs):
            self.record.append((output._mark, True, key, OUTPUT, (likes, place), None))

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        return call.followed(self, leaves)

    def attach(
        self,
        name: str,
        parents: Sequence[int],
        results: Sequence[Any],
        pull: Callable[[Any], list[Any]],
        masked: Sequence[bool] | None = None,
    ) -> list[Tensor]:
        """Record a call as one operation, and return its results as tensors of this trace.

        Args:
            name: of the function.
            parents: keys of the values that the call depends on.
            results: arrays, or tensors of lower traces.
            pull: maps the cotangents of all results, a `Parts`, to those of the parents.
            masked: for each parent, whether the cotangent that it gets is masked; by default all are.
        """
        whole = next(self._keys)
        outputs = [self.root(result) for result in results]
        if is_seen():
            pull = recorded(_CALL, f"the rule of {name}", pull, (), None)
        call = _CALL if masked is None else _UNMASKED_CALL
        edges = [(parent, place, None) for place, parent in enumerate(parents)]
        self._enter_at_once(whole, edges, call, pull, masked or [False] * len(parents))
        self._join(outputs, whole)
        return outputs

    def _left(
        self, primitive: Primitive, args: Sequence[Any], values: Sequence[Any], ans: object, metadata: Mapping[str, Any]
    ) -> Any:
        """Return the result of an operation without a derivative, and record that its arguments left the trace."""
        for arg in args:
            if type(arg) is Tensor and arg._trace is self:
                self.concrete(arg, primitive.name)
        return boxed(ans)

    @override
    def concrete(self, tensor: Tensor, how: str) -> Any:
        self.exits.setdefault((how, errors.users_place()), {}).setdefault(tensor._mark, next(self._keys))
        return tensor._payload


def _own_handles(values: Sequence[Any]) -> list[Any]:
    """Return values for a rule to keep: later writes of the user to a tensor do not change them."""
    return [own_handle(x) if type(x) is Tensor else tuple(_own_handles(x)) if type(x) is tuple else x for x in values]


def _rule_and_form(primitive: Primitive, argnum: int, ans: Any, value: Any) -> tuple[Any, Form | None]:
    """Return the rule of an argument whose shape or dtype differs from that of the result, and its form."""
    assert primitive.vjps is not None
    if type(ans) is not tuple and ans.dtype is value.dtype:
        if not primitive.broadcasts:
            return primitive.vjps[argnum], None
        rule = SUMMED[primitive][argnum] if primitive in SUMMED else None
        if rule is not None and (not value.shape or ans.size > FEW_PRODUCTS):
            return rule, None
    return primitive.vjps[argnum], (value.shape, value.dtype)


def _pullback(rule: Callable[..., Any] | None, values: Sequence[Any], metadata: Mapping[str, Any] = NOTHING) -> Any:
    """Return the pullback of a rule for `(ans, *args)`."""
    pullback = rule and (rule(*values, **metadata) if metadata else rule(*values))
    return pullback or _cut()


def _cut() -> ZeroPullback:
    return ZeroPullback(errors.users_place())


_PART = Primitive("part", lambda outputs, place: outputs[place], kind="part")
_CALL = Primitive("call", lambda *args: args, masks="both", kind="part")
_UNMASKED_CALL = Primitive("call", lambda *args: args, kind="part")
ITEM = _PART.own(ReverseRule(operator.getitem, ["place"], [0]))
"""The cotangent of one argument, where one pullback returns the cotangents of all arguments."""
_MASKED_ITEM = Primitive("part", operator.getitem, masks="both", kind="part").own(
    ReverseRule(operator.getitem, ["place"], [0])
)
OUTPUT = _PART.own(ReverseRule(lambda ct, output: Parts(output[0], output[1], ct), ["output"], [0]))
"""The cotangents of all outputs, with that of one output filled in."""


class Parts:
    """The cotangents of an operation with several outputs, as far as they are known."""

    __slots__ = ("likes", "parts")

    def __init__(self, likes: list[Form], place: int, cotangent: Array) -> None:
        self.likes = likes
        self.parts: dict[int, Any] = {place: cotangent}

    def __add__(self, other: Parts) -> Parts:
        for place, cotangent in other.parts.items():
            self.parts[place] = self.parts[place] + cotangent if place in self.parts else cotangent
        return self

    def __getitem__(self, place: int) -> Any:
        return self.parts[place] if place in self.parts else np.zeros(*self.likes[place])

    def __len__(self) -> int:
        return len(self.likes)


_SEVERAL = {list, Parts}
"""Types that hold the cotangents of several arrays."""


@np.errstate(all="ignore")  # the result shows infinities
def pull_back(
    record: list[Entry],
    cotangents: dict[int, Any],
    keep: Collection[int] = (),
    stop: Collection[int] = (),
    masked: Iterable[int] = (),
) -> dict[int, Any]:
    """Propagate cotangents from results to inputs. The record is consumed.

    Edges, and cotangents of intermediate results, are dropped as soon as they have been used.

    Args:
        record: the edges in order of recording; the list is empty afterwards.
        cotangents: the cotangents at the start, by key; changed in place.
        keep: keys of intermediate results whose cotangents are returned, too.
        stop: keys at which propagation stops.
        masked: keys of initial cotangents whose exact zeros mean "not used".

    Returns:
        `cotangents`, which now holds those of the inputs and of `keep`; ZERO means connected with derivative zero.
    """
    around = running.place
    try:
        kept = _passed_back(record, cotangents, keep, stop, set(masked))
    finally:
        running.place = around  # a replayed record may have changed it
    for key, cotangent in cotangents.items():
        if type(cotangent) is Gathered:
            cotangents[key] = cotangent.finished()
    cotangents.update(kept)
    return cotangents


def _passed_back(
    record: list[Entry], cotangents: dict[int, Any], keep: Collection[int], stop: Collection[int], masked: set[int]
) -> dict[int, Any]:
    """Propagate cotangents through all of a record, and return those of `keep`.

    A cotangent is masked if each contribution to it is masked or comes from a rule that masks.
    """
    kept = {}
    sums: set[int] = set()  # keys whose cotangents were allocated here and are referred to by no pullback
    while record:
        key, first, parent, rule, saved, form = record.pop()
        # The first edge of a result is processed last: its cotangent is not needed after it.
        cotangent = cotangents.pop(key, None) if first else cotangents.get(key)
        if keep and key in keep and cotangent is not None:
            kept[key] = cotangent = finished(cotangent)
        if cotangent is None or (stop and key in stop):
            continue
        if (kind := type(cotangent)) is not _ARRAY and kind is not _NUMBER:  # not the common case
            if cotangent is ZERO:
                cotangents.setdefault(parent, ZERO)
                continue
            if kind is not Tensor:
                cotangent = _for_rule(cotangent, rule)
        is_masked: Any = masked and key in masked
        try:
            if is_masked and rule.primitive.scales:
                passed = pulled_by_masked(rule, saved, cotangent)
            else:
                passed = rule.function(cotangent, saved) if rule.count == 1 else rule.pull(cotangent, saved)
            if form is not None and passed is not ZERO:
                passed = conform(passed, *form)
        except Exception as error:
            explain_refusal(rule.primitive, (cotangent, *_held(saved)), error)
            raise
        if is_masked and first:
            masked.discard(key)
        prior = cotangents.get(parent)
        if prior is None or prior is ZERO:
            cotangents[parent] = passed
            if (is_masked or rule.masks) and passed is not ZERO:
                masked.add(parent)
        elif passed is not ZERO:
            cotangents[parent] = _added(prior, passed, parent in sums)
            sums.add(parent)
            if masked and not (is_masked or rule.masks):
                masked.discard(parent)
    return kept


def _for_rule(cotangent: Any, rule: ReverseRule) -> Any:
    """Return a cotangent as a rule takes it."""
    if type(cotangent) is Gathered and rule.primitive not in GATHERING:
        cotangent = cotangent.finished()
    return cotangent if type(cotangent) in _SEVERAL else payload_of(cotangent)


def _held(saved: object) -> list[Any]:
    """Return the residuals of an edge: an array among them may belong to the library that raised the error."""
    held, cells = list(getattr(saved, "args", ())), getattr(saved, "__closure__", None) or ()
    return held + [cell.cell_contents for cell in cells] + (list(saved) if type(saved) is tuple else [saved])


def _added(prior: Any, passed: Any, is_own: bool) -> Any:
    """Return the sum of two cotangents.

    Args:
        prior: the sum so far.
        passed: the cotangent to add.
        is_own: `prior` was allocated by this pass and is referred to by nothing else: it may be overwritten.
    """
    try:
        is_array = type(prior) is _ARRAY is type(passed)
        if is_own and is_array and prior.dtype == passed.dtype and prior.shape == passed.shape:
            prior += passed
            return prior
        return prior + passed
    except Exception as error:
        explain_refusal(UFUNCS[np.add], (prior, passed), error)
        raise


def conform(cotangent: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Convert a cotangent to the shape and dtype of its primal: undo broadcasting and the promotion of dtypes.

    Along an axis of repetition the cotangent is summed; the cotangent of a real number that was used as a complex one
    is the real part.
    """
    if dtype.kind not in INEXACT:
        return ZERO
    cotangent = finished(cotangent)
    if cotangent.shape != shape:
        sizes = cotangent.shape
        new = len(sizes) - len(shape)
        if new:
            cotangent = summed(cotangent, tuple(range(new)), False)
        if sizes[new:] != shape:
            repeated = tuple(axis for axis, size in enumerate(shape) if sizes[new + axis] != size)
            cotangent = summed(cotangent, repeated, True)
    if cotangent.dtype is not dtype:
        cotangent = (cotangent.real if dtype.kind == "f" else cotangent).astype(dtype)
    return cotangent
