"""The traces: what an operation means while a transform runs.

    ReverseTrace    records, for each operation, how cotangents get from its result to its arguments
    ForwardTrace    carries a tangent along with every value
    pull_back       the backward pass: runs through a record from its end

A trace has the same three methods whatever its kind: `process` runs one operation, `concrete` and
`as_array` answer when Python or NumPy asks for the value itself. A new kind of trace is a new
subclass; nothing here or in `tensor.py` knows which kinds there are.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.primitive import PRIMITIVES, ZERO, Primitive
from fgrad.core.tensor import Tensor, Trace, apply, box, boxed, new_tensor

Pullback = Callable[[Any], Any]
Like = tuple[tuple[int, ...], "np.dtype[Any]"]
Edge = tuple[int, bool, int, "Pullback | None", Any, Primitive]
"""A result's key, whether the edge is the first one recorded for it, an argument's key, the pullback
between them, the form to bring what it returns into (a `Like`; None: it has it already), and the primitive.
An edge without a pullback, where the derivative is zero, has the user's file and line in place of the form."""


class ReverseTrace(Trace):
    """Records edges from results to arguments; each keeps alive what its pullback captured, no more.

    The record belongs to the trace. A tensor holds only its key in the record, so a tensor that
    outlives the trace holds no graph. Keys are given and edges appended so that the arguments of an
    operation come before its result, also when several threads work on one trace.

    Args:
        persistent: hand tensors of this trace to the rules, in place of the values inside them.
            While the trace runs, a pass over the record is then recorded in its turn.

    Attributes:
        record: the edges, in order.
        exits: how and where values left the trace: their keys, and for each the key that was next.
        holder: returns who keeps the record when the trace does not run, or None.
    """

    def __init__(self, persistent: bool = False) -> None:
        super().__init__()
        self.persistent = persistent
        self.record: list[Edge] = []
        self.holder: Callable[[], Any] = lambda: None
        self._keys = itertools.count()

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is not None:
            self.record = []  # tensors that outlive the error hold no graph
        super().__exit__(kind, error, traceback)

    def root(self, value: Any) -> Tensor:
        """Return `value` as an input of this trace."""
        return box(value, self, next(self._keys))

    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        values: Sequence[Any] = [arg.value if type(arg) is Tensor and arg.tracing is self else arg for arg in args]
        if primitive.is_ufunc:  # which finds its own way to `apply` when a value is a tensor
            ans = primitive.implementation(*values)
        else:
            ans = apply(primitive, values, metadata)
        rules = primitive.vjps
        if rules is None:
            for tensor in [arg for arg in args if type(arg) is Tensor and arg.tracing is self]:
                self.concrete(tensor, primitive.name)
            return boxed(ans)
        key = next(self._keys)
        result: Any = new_tensor()
        result.value, result.tracing, result.note = ans, self, key
        dtype = None if type(ans) is tuple else ans.dtype
        if dtype is None:
            result = tuple(map(self.root, ans))
        handed = [result, *args] if self.persistent else [ans, *values]
        argnum, first = 0, True
        for arg in args:
            if type(arg) is Tensor and arg.tracing is self:
                rule, value = rules[argnum], arg.value
                if metadata and rule is not None:
                    pullback = rule(*handed, **metadata)
                else:  # the same without keywords is faster, and most operations have none
                    pullback = None if rule is None else rule(*handed)
                like: Any = None
                if pullback is None:
                    like = errors.users_place()
                elif dtype is not value.dtype or (primitive.broadcasts and ans.shape != value.shape):
                    like = value.shape, value.dtype
                self.record.append((key, first, arg.note, pullback, like, primitive))
                first = False
            argnum += 1  # noqa: SIM113  # enumerate() takes 40 ns more
        if dtype is None:
            self._join(result, key)
        return result

    def concrete(self, tensor: Tensor, how: str) -> Any:
        self.exits.setdefault((how, errors.users_line()), {}).setdefault(tensor.note, next(self._keys))
        return tensor.value

    def _join(self, outputs: Any, key: int) -> None:
        """Lead the cotangent of each of several outputs into its place among the others'."""
        likes = [(output.value.shape, output.value.dtype) for output in outputs]
        for place, output in enumerate(outputs):
            self.record.append((output.note, True, key, functools.partial(Parts, likes, place), None, _ITEM))


_ITEM = Primitive("item", lambda outputs, place: outputs[place])


class Parts:
    """The cotangents of an operation with several outputs, as far as they have come in."""

    __slots__ = ("likes", "parts")

    def __init__(self, likes: list[Like], place: int, cotangent: Any) -> None:
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


@np.errstate(all="ignore")  # infinities are in the result for all to see
def pull_back(
    record: list[Edge],
    cotangents: dict[int, Any],
    keep: Collection[int] = (),
    stop: Collection[int] = (),
    guarded: bool = False,
) -> dict[int, Any]:
    """Carry cotangents from results to inputs, through a record that is used up on the way.

    An edge, and a cotangent that has been passed on, are dropped at once.

    Args:
        record: the edges in order of recording; the list is empty afterwards.
        cotangents: by key, where the pass begins; changed in place.
        keep: keys of results whose cotangents are wanted although they are passed on.
        stop: keys through which nothing is passed on.
        guarded: the first cotangents may hold exact zeros that mean "not used".

    Returns:
        `cotangents`, which now holds those of the inputs and of `keep`; ZERO is connected, but zero.
    """
    kept = {}
    while record:
        key, first, parent, pullback, like, primitive = record.pop()
        # The first edge of a result is the last to come by: its cotangent is needed no more.
        cotangent = cotangents.pop(key, None) if first else cotangents.get(key)
        if keep and key in keep and cotangent is not None:
            kept[key] = cotangent
        if cotangent is None or (stop and key in stop):
            continue
        if pullback is None or cotangent is ZERO:
            cotangents.setdefault(parent, ZERO)
            continue
        guarded = guarded or primitive.masks
        passed = pullback(Guarded(cotangent) if guarded and primitive.scales else cotangent)
        if like is not None:
            passed = conform(passed, *like)
        prior = cotangents.get(parent)
        if prior is None or prior is ZERO:
            cotangents[parent] = passed
        elif passed is not ZERO:
            cotangents[parent] = prior + passed
    cotangents.update(kept)
    return cotangents


class Guarded:
    """A cotangent or tangent whose exact zeros win over infinity and NaN when it is multiplied.

    Zeros that a mask has put there mean "not used", so `where(x > 0, sqrt(x), 0)` has the derivative 0
    at 0, although `sqrt` has none. It is handed to the rules of primitives that are said to scale.
    """

    __slots__ = ("cotangent",)

    def __init__(self, cotangent: Any) -> None:
        self.cotangent = cotangent

    def __mul__(self, slope: Any) -> Any:
        return apply(PRIMITIVES["scale"], (self.cotangent, slope))

    def __truediv__(self, divisor: Any) -> Any:
        if not hasattr(divisor, "dtype"):
            divisor = np.asarray(divisor, complex if type(divisor) is complex else self.cotangent.dtype)
        return self * (1 / divisor)


def conform(cotangent: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Bring a cotangent into the form of its primal: undo broadcasting and the promotion of dtypes.

    What was repeated along an axis gets the sum along it; the cotangent of a real number that was
    used as a complex one is the real part.
    """
    if dtype.kind not in "fc":
        return ZERO
    if cotangent.shape != shape:
        sizes = cotangent.shape
        new = len(sizes) - len(shape)
        if new:
            cotangent = np.add.reduce(cotangent, axis=0 if new == 1 else tuple(range(new)))
        if sizes[new:] != shape:
            repeated = tuple(axis for axis, size in enumerate(shape) if sizes[new + axis] != size)
            cotangent = np.add.reduce(cotangent, axis=repeated, keepdims=True)
    if cotangent.dtype is not dtype:
        cotangent = (cotangent.real if dtype.kind == "f" else cotangent).astype(dtype)
    return cotangent


class ForwardTrace(Trace):
    """Carries with every value its tangent: the derivative along one direction of the inputs."""

    def root(self, value: Any, tangent: Any) -> Tensor:
        """Return `value` as an input of this trace that moves along `tangent`."""
        return box(value, self, tangent)

    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        active = [type(arg) is Tensor and arg.tracing is self for arg in args]
        values = [arg.value if ours else arg for arg, ours in zip(args, active, strict=True)]
        ans = apply(primitive, values, metadata)
        if primitive.jvp is None:
            return boxed(ans)
        tangents = [arg.note if ours else ZERO for arg, ours in zip(args, active, strict=True)]
        tangent = primitive.jvp(tangents, ans, *values, **metadata)
        return tuple(map(self._moving, ans, tangent)) if type(ans) is tuple else self._moving(ans, tangent)

    def _moving(self, value: Any, tangent: Any) -> Tensor:
        """Box a value with its tangent, in the form of the value."""
        if tangent is ZERO or value.dtype.kind not in "fc":
            return boxed(value)  # type: ignore[no-any-return]
        if tangent.dtype is not value.dtype:
            tangent = tangent.astype(value.dtype)
        if tangent.shape != value.shape:
            tangent = np.broadcast_to(tangent, value.shape)
        return self.root(value, tangent)
