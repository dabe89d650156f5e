"""`einsum`: its rules, which are einsums again, and the forms of its call."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.tensor import apply
from fgrad.core.views import VIEWS, seen
from fgrad.ops.contractions import contract, multilinear
from fgrad.ops.elementwise import astype
from fgrad.ops.families import ForEach, answers, sample
from fgrad.ops.indexing import written
from fgrad.ops.pairwise import contracted
from fgrad.ops.patterns import as_einsum
from fgrad.typing import Array, DTypeLike, Operand


@lru_cache(maxsize=4096)
def _backward(
    subscripts: str, argnum: int, ones: tuple[bool, ...]
) -> tuple[str, tuple[Any, ...] | None, tuple[int, ...]]:
    """Return the subscripts of a pullback, where its result lacks axes, and the axes of which diagonals were taken.

    A label that only this operand has was summed: its axis is repeated afterwards. A label that this operand has twice
    picks a diagonal: the identity matrix is one more operand. An axis of size 1 (`ones`) may have been broadcast
    against another operand: the pullback sums over its label.
    """
    inputs, output = subscripts.split("->")
    terms = inputs.split(",")
    labels = terms.pop(argnum)
    unused = (letter for letter in string.ascii_letters if letter not in subscripts)
    target, identities, axes = "", [], []
    for axis, label in enumerate(labels):
        twin = label
        if label in target:
            twin = next(unused)
            identities.append(label + twin)
            axes.append(axis)
        target += twin
    known = set(output).union(*terms, *identities)
    stays = [label in known and not one for label, one in zip(target, ones, strict=True)]
    kept = "".join(label for label, stay in zip(target, stays, strict=True) if stay)
    places = tuple(slice(None) if stay else None for stay in stays)
    return ",".join([output, *terms, *identities]) + "->" + kept, places if None in places else None, tuple(axes)


def _rule(argnum: int, ans: Array, *operands: Array, subscripts: str, optimize: object = False) -> Callable[[Any], Any]:
    """The cotangent is an einsum of the result's cotangent with the other operands."""
    shape = operands[argnum].shape
    backward, places, axes = _backward(subscripts, argnum, tuple(size == 1 for size in shape))
    others = operands[:argnum] + operands[argnum + 1 :]
    # A path that the user names is one for the product itself, not for this one.
    is_path = isinstance(optimize, tuple) and "einsum_path" in optimize
    metadata = {"subscripts": backward, "optimize": is_path or optimize}

    def pullback(ct: Array) -> Any:
        eyes = [np.eye(shape[axis], dtype=ct.dtype) for axis in axes]
        spread = contract(primitive, (ct, *others, *eyes), metadata)
        if places:
            spread = spread[places]
        return spread if spread.shape == shape else np.broadcast_to(spread, shape)

    return pullback


primitive = multilinear(
    contracted,
    ForEach(_rule),
    sample((2, 3), (3, 4), subscripts="ij,jk->ik"),
    sample((2, 3), subscripts="ij->"),
    sample((2, 3), subscripts="ij->j"),
    sample((3, 3), subscripts="ii->i"),
    sample((3, 3), subscripts="ii->"),
    sample((3,), (4,), subscripts="i,j->"),
    sample((5, 2, 3), (5, 3, 2), subscripts="bij,bjk->bik"),
    sample((2, 3), (3,), (2,), subscripts="ij,j,i->ij"),
    sample((2, 2, 2), (2,), subscripts="iij,i->j"),
    sample((), (3,), subscripts=",i->i"),
    sample((1, 2, 3), (4, 3, 2), subscripts="bij,bjk->bik"),
    sample((1, 5), (1, 5), subscripts="ij,jk->ik"),
    sample((1, 1), (3, 4), subscripts="ii,ij->j"),
    sample((2, 3), (3, 4), (4, 2), subscripts="ij,jk,kl->il", optimize=True),
    sample((8, 9), (9, 8), subscripts="ij,jk->ki"),
    sample((2, 3, 3, 5), (5, 2, 2, 4), subscripts="bimn,njbk->ibkm"),
    sample((8, 8), (8, 8), (8, 2), subscripts="ij,kj,jl->lk"),
    name="einsum",
    pattern=lambda step: as_einsum(step.metadata["subscripts"])(step),
)


def _batched(values: Sequence[Any], mapped: Sequence[Any], size: int, metadata: Mapping[str, Any]) -> Any:
    inputs, output = metadata["subscripts"].split("->")
    label = next(letter for letter in string.ascii_letters if letter not in metadata["subscripts"])
    terms = [label + term if m else term for term, m in zip(inputs.split(","), mapped, strict=True)]
    return contract(primitive, values, {**metadata, "subscripts": ",".join(terms) + "->" + label + output})


primitive.batch = _batched


@answers(np.einsum)
def einsum(
    *arguments: Any,
    out: Array | None = None,
    optimize: object = False,
    dtype: DTypeLike | None = None,
    order: object = "K",
    casting: object = "safe",
) -> Any:
    """Return the sum of products that a string of subscripts describes."""
    if isinstance(arguments[0], str):
        subscripts, operands = arguments[0], arguments[1:]
    else:
        subscripts, operands = _from_sublists(arguments)
    arrays = [as_array(x) for x in operands]
    if dtype is not None:
        arrays = [astype(x, dtype, casting=casting) for x in arrays]
    metadata: dict[str, Any] = {"subscripts": _explicit(subscripts, tuple(len(x.shape) for x in arrays))}
    if optimize is not False:
        metadata["optimize"] = optimize if isinstance(optimize, str) else _as_tuple(optimize)
    result = apply(primitive, arrays, metadata)
    if out is None and len(arrays) == 1 and _keeps_all(metadata["subscripts"]):
        return seen(result, arrays[0], primitive, metadata)
    return written("np.einsum", out, result)


def _as_tuple(path: object) -> Any:
    """Return the `optimize` argument in a hashable form."""
    return tuple(map(_as_tuple, path)) if isinstance(path, (tuple, list)) else path


def _keeps_all(subscripts: str) -> bool:
    """Return whether nothing is summed, so that the result is a view: a transpose or a diagonal."""
    inputs, output = subscripts.split("->")
    return set(inputs) == set(output)


def _view(x: Operand, lead: int, subscripts: str, optimize: object = False) -> Any:
    inputs, output = subscripts.split("->")
    return np.einsum(f"...{inputs}->...{output}", x)


VIEWS[primitive] = _view


def _from_sublists(arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Turn the form `einsum(a, [0, 1], b, [1, 2], [0, 2])` into a string and operands."""

    def text(labels: Sequence[Any]) -> str:
        return "".join("..." if i is Ellipsis else string.ascii_letters[i] for i in labels)

    count = len(arguments) // 2
    subscripts = ",".join(text(labels) for labels in arguments[1 : 2 * count : 2])
    if len(arguments) % 2:
        subscripts += "->" + text(arguments[-1])
    return subscripts, arguments[: 2 * count : 2]


@lru_cache(maxsize=4096)
def _explicit(subscripts: str, ndims: tuple[int, ...]) -> str:
    """Return subscripts with an output and with letters in place of each ellipsis."""
    subscripts = subscripts.replace(" ", "")
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"einsum has {len(ndims)} operands and {len(terms)} terms in {subscripts!r}")
    unused = [letter for letter in string.ascii_letters if letter not in subscripts]
    broad = [
        ndim - len(term.replace("...", "")) if "..." in term else 0 for term, ndim in zip(terms, ndims, strict=True)
    ]
    letters = "".join(unused[: max(broad, default=0)])
    terms = [term.replace("...", letters[len(letters) - n :]) for term, n in zip(terms, broad, strict=True)]
    if arrow:
        output = output.replace("...", letters)
    else:
        joined = "".join(terms)
        output = letters + "".join(sorted(c for c in set(joined) - set(letters) if joined.count(c) == 1))
    return ",".join(terms) + "->" + output
