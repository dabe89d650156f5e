"""Contraction of plain arrays: the matrix products of an `einsum`, planned once and cached.

    contracted(x, y, subscripts="ij,jk->ik")    the sum of products, like `np.einsum`

NumPy's einsum loop iterates over all labels together and multiplies element by element. Two operands with a common
summed label are a matrix product, which BLAS computes; more than two are contracted in pairs. NumPy's loop handles the
rest: outer products, sums of one operand, small products, and dtypes that BLAS does not support.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fgrad.typing import Array

Shape = tuple[int, ...]
Run = Callable[..., Any]

_BLAS = "fdFD"
_LEAST_OF_ALL = 512
"""Number of multiplications below which NumPy's loop is faster than setting up a matrix product."""
_LEAST_OF_A_MATRIX = 24
"""The same limit for each of many products: for shorter ones NumPy's loop is faster."""
_UNLIMITED = 2**62


class Step(NamedTuple):
    """One contraction of a path.

    Attributes:
        places: the indices of its operands in the list; the result is appended.
        run: computes the result.
    """

    places: tuple[int, ...]
    run: Run


def contracted(*operands: Array, subscripts: str, optimize: object = False) -> Any:
    """Return the sum of products given by subscripts with an arrow and without an ellipsis."""
    if len(operands) > 1 and _are_for_blas(operands):
        steps = _steps(subscripts, tuple([x.shape for x in operands]), optimize)
        if steps:
            return _run(steps, operands)
    return np.einsum(subscripts, *operands, optimize=_as_asked(optimize))


def _are_for_blas(operands: Sequence[Any]) -> bool:
    for x in operands:  # noqa: SIM110  # all() takes three times as long
        if type(x) is not np.ndarray or x.dtype.char not in _BLAS:
            return False
    return True


def _as_asked(optimize: object) -> Any:
    """Return a path in the list form of NumPy."""
    return [*optimize] if isinstance(optimize, tuple) and "einsum_path" in optimize else optimize


def _run(steps: Sequence[Step], operands: Sequence[Any]) -> Any:
    dtype = operands[0].dtype
    for x in operands:
        if x.dtype is not dtype:
            operands = _alike(operands)
            break
    if len(operands) == 2:
        return steps[0].run(*operands)
    left = [*operands]
    for step in steps:
        result = step.run(*(left[place] for place in step.places))
        for place in sorted(step.places, reverse=True):
            del left[place]
        left.append(result)
    return left[0]


def _alike(operands: Sequence[Any]) -> Sequence[Any]:
    """Return operands converted to the dtype of the result, which can differ from that of a partial product."""
    dtype = np.result_type(*operands)
    return [x.astype(dtype, copy=False) for x in operands]


@lru_cache(maxsize=4096)
def _steps(subscripts: str, shapes: tuple[Shape, ...], optimize: object) -> tuple[Step, ...]:
    """Return the equivalent contractions; none where NumPy's loop should run, or should raise the error."""
    inputs, output = subscripts.split("->")
    terms = inputs.split(",")
    sizes = _sizes(terms, shapes)
    if sizes is None or len({*output} & {*sizes}) < len(output):
        return ()
    at_once = [tuple(range(len(terms)))]
    is_small = prod(sizes.values()) < _LEAST_OF_ALL
    if is_small and optimize is False:
        return ()
    if (is_small or len(terms) == 2) and isinstance(optimize, bool):
        return tuple(_along(at_once, terms, list(shapes), output))
    path = _path(subscripts, shapes, optimize)  # also checks `optimize`
    return tuple(_along(at_once if is_small else path, terms, list(shapes), output))


def _sizes(terms: Sequence[str], shapes: Sequence[Shape]) -> dict[str, int] | None:
    """Return the sizes of labels; None for empty arrays, or for shapes that NumPy rejects."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape) or len({*zip(term, shape, strict=True)}) != len({*term}):
            return None
        for label, size in zip(term, shape, strict=True):
            known = sizes.get(label, 1)
            if size == 0 or (size != known and 1 not in (size, known)):
                return None
            sizes[label] = max(size, known)
    return sizes


# Paths


def _path(subscripts: str, shapes: Sequence[Shape], optimize: object) -> Sequence[tuple[int, ...]]:
    """Return the indices of the operands of each contraction.

    If a path is requested, it is the one with the fewest multiplications; otherwise no intermediate result is larger
    than the largest operand or the result.
    """
    if isinstance(optimize, tuple) and "einsum_path" in optimize:
        return _numpys_path(subscripts, shapes, [*optimize])
    finder = _opt_einsum()
    if not isinstance(optimize, tuple):
        named = optimize if isinstance(optimize, str) else "auto" if finder else "greedy"
        largest = max(prod(shape) for shape in (*shapes, _shape_of(subscripts, shapes)))
        optimize = named, _UNLIMITED if optimize else largest
    if finder is None or len(optimize) != 2:
        return _numpys_path(subscripts, shapes, optimize)
    named, limit = optimize
    path, _ = finder.contract_path(subscripts, *shapes, shapes=True, optimize=named, memory_limit=limit)
    return [tuple(places) for places in path]


def _shape_of(subscripts: str, shapes: Sequence[Shape]) -> Shape:
    """Return the shape of the result."""
    inputs, output = subscripts.split("->")
    sizes = _sizes(inputs.split(","), shapes) or {}
    return tuple(sizes[label] for label in output)


def _numpys_path(subscripts: str, shapes: Sequence[Shape], optimize: Any) -> Sequence[tuple[int, ...]]:
    path, _ = np.einsum_path(subscripts, *(np.broadcast_to(0.0, shape) for shape in shapes), optimize=optimize)
    return [tuple(places) for places in path[1:]]


@lru_cache(maxsize=1)
def _opt_einsum() -> Any:
    """Return the library for better paths, if it is installed."""
    try:
        return importlib.import_module("opt_einsum")
    except ImportError:
        return None


def _along(path: Sequence[tuple[int, ...]], terms: list[str], shapes: list[Shape], output: str) -> list[Step]:
    """Return the steps of a path; each result keeps the labels that later steps need."""
    steps = []
    for places in path:
        taken, shapes_taken = [terms[place] for place in places], [shapes[place] for place in places]
        for place in sorted(places, reverse=True):
            del terms[place], shapes[place]
        needed = {*output}.union(*terms)
        kept = "".join(label for label in dict.fromkeys("".join(taken)) if label in needed) if terms else output
        product = _matrix_product(taken, shapes_taken, kept) if len(taken) == 2 else None
        steps.append(Step(places, product or _numpys_loop(",".join(taken) + "->" + kept)))
        found = _sizes(taken, shapes_taken) or {}
        terms.append(kept)
        shapes.append(tuple(found[label] for label in kept))
    return steps


def _numpys_loop(subscripts: str) -> Run:
    return lambda *operands: np.einsum(subscripts, *operands)


# Matrix products


class Side(NamedTuple):
    """The conversion of an operand to a matrix, or to a stack of matrices.

    Attributes:
        own: subscripts of diagonals and sums of the operand alone; empty if there are none.
        order: the order of the axes.
        shape: the shape of the stack of matrices.
    """

    own: str
    order: tuple[int, ...]
    shape: Shape


def _as_matrices(x: Any, side: Side) -> Any:
    x = np.einsum(side.own, x) if side.own else x
    x = x.transpose(side.order).reshape(side.shape)
    # BLAS needs contiguous rows or columns; otherwise NumPy would multiply element by element.
    return x if x.itemsize in x.strides[-2:] else np.ascontiguousarray(x)


def _matrix_product(terms: Sequence[str], shapes: Sequence[Shape], output: str) -> Run | None:
    """Return a function that contracts two operands by a matrix product; None where this would be slower."""
    sizes = _sizes(terms, shapes) or {}
    x_labels, y_labels = _own_labels(terms, shapes, output, sizes)
    batch = [label for label in output if label in x_labels and label in y_labels]
    rows = [label for label in output if label in x_labels and label not in y_labels]
    columns = [label for label in output if label in y_labels and label not in x_labels]
    if rows and columns and output.index(columns[0]) < output.index(rows[0]):
        turned = _matrix_product(terms[::-1], shapes[::-1], output)
        return turned and (lambda x, y: turned(y, x))
    larger = max(x_labels, y_labels, key=len)  # avoid transposing the larger operand
    summed = [label for label in larger if label in x_labels and label in y_labels and label not in output]
    m, k, n = (prod(sizes[label] for label in labels) for labels in (rows, summed, columns))
    if not summed or m * k * n < _LEAST_OF_A_MATRIX or prod(sizes.values()) < _LEAST_OF_ALL:
        return None
    stack = tuple(sizes[label] for label in batch)
    left = _side(terms[0], x_labels, [*batch, *rows, *summed], (*stack, m, k))
    right = _side(terms[1], y_labels, [*batch, *summed, *columns], (*stack, k, n))
    found = [*batch, *rows, *columns]
    shape, order = tuple(sizes[label] for label in found), tuple(found.index(label) for label in output)

    def product(x: Array, y: Array) -> Any:
        result = np.matmul(_as_matrices(x, left), _as_matrices(y, right)).reshape(shape).transpose(order)
        return result if result.flags.c_contiguous else result.copy()

    return product


def _own_labels(terms: Sequence[str], shapes: Sequence[Shape], output: str, sizes: dict[str, int]) -> tuple[str, str]:
    """Return the labels of each operand that occur in the product.

    An operand is summed beforehand along an axis of size 1 that is broadcast, and along a summed axis that no other
    operand has; for a repeated label its diagonal is taken.
    """
    long = [
        "".join(label for label in dict.fromkeys(term) if sizes[label] == dict(zip(term, shape, strict=True))[label])
        for term, shape in zip(terms, shapes, strict=True)
    ]
    x_labels, y_labels = (
        "".join(label for label in labels if label in other or label in output)
        for labels, other in zip(long, long[::-1], strict=True)
    )
    return x_labels, y_labels


def _side(term: str, labels: str, order: Sequence[str], shape: Shape) -> Side:
    own = "" if term == labels else f"{term}->{labels}"
    return Side(own, tuple(labels.index(label) for label in order), shape)
