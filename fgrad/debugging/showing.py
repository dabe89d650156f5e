"""The representations of tensors and variables: their `repr`, and a table or a summary in notebooks.

    text_of(x)      the `repr`: value, dtype if unusual, and the names of traces
    html_of(x)      in a notebook: a small array as a table, a large one as a summary
    traced_by(x)    the names of transforms that trace it, such as `grad in vmap`

No trace records an exit: a shown value has not left it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fgrad.core.layers import layers
from fgrad.core.primitive import METHODS
from fgrad.core.tensor import renewed
from fgrad.core.trace import Trace
from fgrad.core.variable import Variable, open_watches
from fgrad.debugging.reports import escaped
from fgrad.transforms.calls import Transformed
from fgrad.typing import Array

_USUAL = (np.float64, np.int64, np.bool_, np.complex128)

LONGEST_SIDE = 12
"""The number of rows and columns up to which arrays are shown in full in notebooks."""

_MOST_CORNERS = 8


# Names of traces


def traced_by(x: Array) -> str:
    """Return the names of transforms that trace a tensor, or watch a variable, the innermost first; or ""."""
    if isinstance(x, Variable):
        watching = [watch.trace for watch in reversed(open_watches()) if x in watch.chosen and watch.trace.level]
        return " in ".join(_names(watching))
    return " in ".join(_names(_running(x)))


def _running(x: Array) -> Iterator[Trace]:
    """Return the running traces of a tensor, the innermost first."""
    return (layer._trace for layer in layers(renewed(x)) if layer._trace.level)


def _names(traces: Iterable[Trace]) -> list[str]:
    """Return the user's name of each trace; several traces of one transform are named once."""
    owners: list[tuple[Any, str]] = []
    for each in traces:
        owner = _owner(each)
        if not owners or owner[0] is not owners[-1][0]:
            owners.append(owner)
    return [name for _, name in owners]


def _owner(trace: Trace) -> tuple[Any, str]:
    """Return the tape, accumulator or transform to which a running trace belongs, and its name."""
    holder = trace.holder()
    if holder is not None:
        return holder, type(holder).__name__
    calls = list(_calls(trace))
    for place, transformed in enumerate(calls, 1):
        # hessian runs jacobian and vmap, but the user called hessian. In vmap(grad(f)) the user called both.
        if place == len(calls) or any(outer.function is transformed for outer in calls[place:]):
            return transformed, transformed.transform
    return trace, type(trace).__name__  # started by hand


def _calls(trace: Trace) -> Iterator[Transformed]:
    """Yield the transform that started a trace, and the enclosing ones, up to the user's code."""
    call = trace.call
    while call is not None:
        transformed, call, *_ = call
        if transformed is not None:
            yield transformed


# Parts of the text


def _facts(x: Array, array: npt.NDArray[Any]) -> list[str]:
    """Return facts about a tensor besides its value, which may be a batch of values."""
    facts = []
    batch = _batch_of(x, array)
    if batch:
        facts.append(f"{' x '.join(map(str, batch))} examples of shape {x.shape}")
    elif not _has_value(x) or array.size > np.get_printoptions()["threshold"] or (not array.size and array.ndim > 1):
        facts.append(f"shape={array.shape}")
    if array.dtype not in _USUAL or not _has_value(x):
        facts.append(f"dtype={array.dtype}")
    return [*facts, *_tracing(x)]


def _tracing(x: Array) -> list[str]:
    names = traced_by(x)
    return [f"{'watched' if isinstance(x, Variable) else 'traced'} by {names}"] if names else []


def _batch_of(x: Array, array: npt.NDArray[Any]) -> tuple[int, ...]:
    """Return the sizes of the batch axes, which the tensor's shape does not include."""
    return array.shape[: array.ndim - len(x.shape)]


def _has_value(x: Array) -> bool:
    """Return whether there is a value: a recorded tensor stands for all values of its shape."""
    return not any(each.is_program for each in _running(x))


def text_of(x: Any, suffix: str = "") -> str:
    """Return the `repr` of a tensor or variable.

    Args:
        x: a Tensor or Variable.
        suffix: text to append after the value.

    Example:
        >>> import fgrad as fg
        >>> with fg.GradientTape() as tape:
        ...     x = fg.constant([1.0, 2.0])
        ...     tape.watch(x)
        ...     print(repr(x * 2), repr(fg.stop_gradient(x)))
        Tensor([2., 4.], traced by GradientTape) Tensor([1., 2.])
    """
    name, shown = type(x).__name__, x._shown()
    if not isinstance(shown, (np.ndarray, np.generic)):  # of another library: its own repr
        return f"{name}({', '.join([repr(shown) + suffix, *_tracing(x)])})"
    array = np.asarray(shown)
    parts = [np.array2string(array, separator=", ", prefix=f"{name}(")] if _has_value(x) else []
    return f"{name}({', '.join([text + suffix for text in parts] + _facts(x, array))})"


# Notebooks


def html_of(x: Any) -> str:
    """Return the representation of a tensor or variable in a notebook.

    An array of at most two axes and `LONGEST_SIDE` rows and columns is a table; a larger one is summarized: its range
    and mean, the number of elements that are not finite, and the elements in its corners.
    """
    if not isinstance(x._shown(), (np.ndarray, np.generic)):
        return f"<pre>{escaped(text_of(x))}</pre>"
    array = np.asarray(x._shown())
    batch = _batch_of(x, array)
    name = [f"name={x.name!r}"] if isinstance(x, Variable) else []
    facts = [*name, *([] if batch else [f"shape={array.shape}"]), f"dtype={array.dtype}", *_facts(x, array)]
    title = f"<div><b>{type(x).__name__}</b> {escaped(', '.join(dict.fromkeys(facts)))}</div>"
    if not _has_value(x) or not array.size:
        return title
    if array.ndim > 2 or max((1, *array.shape)) > LONGEST_SIDE:
        return title + _summary(array)
    return title + (_table(np.reshape(array, (len(array), -1)), "example ") if batch else _table(array))


METHODS["__repr__"], METHODS["_repr_html_"] = text_of, html_of


def _table(array: npt.NDArray[Any], row: str = "") -> str:
    """Return an array of at most two axes as a table with indices; `row` labels the rows."""
    if not array.ndim:
        return f"<pre>{escaped(_number(array[()]))}</pre>"
    rows = [list(map(_number, elements)) for elements in np.atleast_2d(array)]
    labels = [f"{row}{number}" for number in range(len(rows))] if array.ndim == 2 else [""]
    header = ["", *map(str, range(array.shape[-1]))]
    return _html_table(header, [[label, *row] for label, row in zip(labels, rows, strict=True)])


def _summary(array: npt.NDArray[Any]) -> str:
    """Return the range, the mean, the number of elements that are not finite, and the corners of a large array."""
    corners = list(itertools.product(*({0: None, size - 1: None} for size in array.shape)))
    if len(corners) > _MOST_CORNERS:
        corners = [corners[0], corners[-1]]
    rows = _statistics(array) + [[str(list(corner)), _number(array[corner])] for corner in corners]
    return _html_table([], rows)


def _statistics(array: npt.NDArray[Any]) -> list[list[str]]:
    if array.dtype.kind == "b":
        return [["true", f"{np.count_nonzero(array)} of {array.size}"]]
    if array.dtype.kind not in "iufc":
        return []
    measured = np.abs(array) if array.dtype.kind == "c" else array
    finite = measured[np.isfinite(measured)]
    of_what = " of absolute value" * (array.dtype.kind == "c") + " of finite elements" * (finite.size < array.size)
    rows = []
    if finite.size:
        for title, value in (("min", finite.min()), ("mean", finite.mean(dtype=np.float64)), ("max", finite.max())):
            rows.append([title + of_what, _number(value)])
    return [
        *rows,
        ["nan", str(np.count_nonzero(np.isnan(array)))],
        ["infinite", str(np.count_nonzero(np.isinf(array)))],
    ]


def _number(element: object) -> str:
    if np.asarray(element).dtype.kind not in "fc":
        return str(element)
    return f"{element:.{np.get_printoptions()['precision']}g}"


def _html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the first cell of each row is its title."""
    top = "".join(f"<th>{escaped(cell)}</th>" for cell in header)
    lines = [f"<tr>{top}</tr>"] if header else []
    for title, *cells in rows:
        body = "".join(f"<td>{escaped(cell)}</td>" for cell in cells)
        lines.append(f"<tr><th>{escaped(title)}</th>{body}</tr>")
    return f"<table>{''.join(lines)}</table>"
