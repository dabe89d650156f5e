"""A hook of MkDocs: the pages that are made of tables in `tests`, of which the tests run every row.

    coverage-numpy.md    what fgrad does with each function of NumPy, from `tests/coverage_table.py`
    coverage-scipy.md    the same for SciPy, from `tests/scipy_tables.py`
    coverage-arrays.md   which operations work on arrays of other libraries, from `tests/payload_table.py`
    mistakes.md          common mistakes, and what fgrad says to them, from `tests/test_mistakes.py`

`docs/coverage.md`, which is written by hand, has the counts and the exceptions. The tests compare it with the tables.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from itertools import starmap
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import coverage_table as table  # found by the line above
import payload_table
import scipy_tables
import test_mistakes

INTRODUCTION = """\
# What fgrad does with each function of NumPy

Every public function of `numpy`, `numpy.linalg`, `numpy.fft` and `numpy.emath` of NumPy 2.4 and 2.5 has a row here,
and so do the methods of arrays and of ufuncs. The page is generated from `tests/coverage_table.py`, and the tests run
every call of that table: {calls} calls, {complex} of them also with complex numbers.

{counts}

- **Differentiable**: in reverse and in forward mode, to any order. The tests compare the value with NumPy's, one mode
  with the other, and both with finite differences to second order in every combination of modes.
- **Piecewise constant**: the derivative is 0 wherever it exists, and both modes return 0.
- **Not differentiable**: the function works on traced tensors and returns what NumPy returns, and no derivative flows
  through it; or it takes no tensors.
- **Not supported**: a traced tensor raises an error, which says what to write instead. No derivative is dropped
  silently.

The column *numbers* lists the dtypes of the tested calls: *real* means float32 and float64, *complex* also complex64
and complex128. Results have NumPy's dtype, and gradients the dtype of the argument. *Calls* is the number of calls with
different keywords. *`vmap`* says whether the function runs on a batch as it would in a loop; *no* means that the shape
of the result, or the result itself, depends on values, which are not concrete in a batch. Then an error says so.
"""

OF_SCIPY = """\
# What fgrad does with SciPy

The functions of `scipy.special` are ufuncs, and work on tensors directly: `scipy.special.gammaln(t)`. All other
functions are in `fgrad.scipy`, with SciPy's names and arguments; on plain arrays they call SciPy. A function of SciPy
itself that only takes plain arrays raises an error for a traced tensor, and the error names the replacement.

The page is generated from `tests/scipy_tables.py`, and the tests run every call: {calls} calls, {complex} of them also
with complex numbers. They compare values with SciPy's, reverse with forward mode, both with finite differences to
second order, a batch with a loop, and single with double precision. Where finite differences are not accurate enough,
in tails and near poles, the reference is `mpmath` with 50 digits, or a closed form.

{counts}

Of the {unary} ufuncs of `scipy.special` with one argument, {unary_done} are differentiated; of the {several} with
several arguments, {several_done} are differentiated with respect to at least one. The terms and columns are those of
[the page for NumPy](coverage-numpy.md). If a remark says that there is no closed form for an argument, tracing this
argument raises an error.
"""

BY_RULE = """\
## Types, constants and submodules

These are not functions, and follow general rules:

- Constants (`np.pi`, `np.inf`, `np.newaxis`) are plain numbers.
- Types of numbers: `np.float64(x)` and other types of floating-point numbers raise an error, as `float(x)` does;
  `np.int64(x)` returns an integer, as `int(x)` does. `x.astype(np.float32)` keeps the derivative.
- Other types (`np.dtype`, `np.finfo`, `np.errstate`, `np.busdaycalendar`, `np.memmap`, `np.record`, ...) represent
  settings, memory and files, and take no tensors.
- Other submodules have no rules: `np.random`, `np.ma`, `np.polynomial`, `np.rec`, `np.char` and `np.strings` raise an
  error for a traced tensor, unless the called function is made of operators and of the functions above.
"""


def page_of_numpy() -> str:
    """Return the text of the page about NumPy."""
    calls = [call for row in table.rows() for call in row.calls]
    introduction = INTRODUCTION.format(
        calls=len(calls),
        complex=sum(call.complex for call in calls),
        counts="\n".join(count_lines(table.counts())),
    )
    sections = [section(area, rows) for area, rows in table.AREAS.items()]
    return "\n".join([introduction, *sections, BY_RULE])


def count_lines(counts: dict[str, dict[str, int]]) -> Iterator[str]:
    """Yield the table of how many names are of each class."""
    yield f"| | {' | '.join(table.CLASSES)} |"
    yield "| --- |" + " ---: |" * len(table.CLASSES)
    for module, numbers in counts.items():
        name = module if module == "operators" else f"`{module}`"
        yield f"| {name} | {' | '.join(str(numbers[kind]) for kind in table.CLASSES)} |"


def exception_lines(rows: Iterable[table.Row], kind: str) -> Iterator[str]:
    """Yield a table's lines about the names of one class, by what the rows remark."""
    names: dict[str, list[str]] = {}
    for row in rows:
        if row.kind == kind:
            names.setdefault(row.remark, []).extend(row.names)
    for remark, found in names.items():
        yield f"| {remark} | {', '.join(f'`{name}`' for name in found)} |"


def section(area: str, rows: list[table.Row]) -> str:
    """Return the rows of one area under its heading."""
    heads = ("| name | derivative | `vmap` | numbers | calls | remark |", "| --- | --- | --- | --- | ---: | --- |")
    lines = [f"## {area}", "", *heads]
    for row in rows:
        lines += [f"| `{name}` | {' | '.join(facts(row))} | {remark(row, name)} |" for name in row.names]
    return "\n".join([*lines, ""])


DERIVATIVE = {
    table.DIFFERENTIABLE: "yes",
    table.IN_PIECES: "0",
    table.NOT_DIFFERENTIABLE: "none",
    table.NOT_SUPPORTED: "not supported",
}


def facts(row: table.Row) -> list[str]:
    """Return what the columns between the name and the remark say."""
    batched = {call.batched for call in row.calls}
    has_facts = bool(row.calls) and row.error is None
    return [
        DERIVATIVE[row.kind],
        {(True,): "yes", (False,): "no"}.get(tuple(batched), "depends") if has_facts else "",
        ("real, complex" if any(call.complex for call in row.calls) else "real") if has_facts else "",
        str(len(row.calls)) if row.calls else "",
    ]


def remark(row: table.Row, name: str) -> str:
    """Return what there is to say about one name."""
    parts = [row.remark] if row.remark else []
    if name != row.names[0]:
        parts.insert(0, f"the same as `{row.names[0]}`")
    if row.error is not None:
        parts.append(f"raises `{row.error.__name__}`")
    if row.until:
        parts.append(f"up to NumPy {row.until}")
    return "; ".join(parts)


def page_of_scipy() -> str:
    """Return the text of the page about SciPy."""
    calls = [call for rows in scipy_tables.AREAS.values() for row in rows for call in row.calls]
    differentiated = {
        name.rpartition(".")[2]
        for row in scipy_tables.AREAS["special"]
        if row.kind in (table.DIFFERENTIABLE, table.IN_PIECES)
        for name in row.names
    }
    unary, several = scipy_tables.ufuncs([1]), scipy_tables.ufuncs(range(2, 10))
    introduction = OF_SCIPY.format(
        calls=len(calls),
        complex=sum(call.complex for call in calls),
        counts="\n".join(count_lines(scipy_tables.counts())),
        unary=len(unary),
        unary_done=len(unary & differentiated),
        several=len(several),
        several_done=len(several & differentiated),
    )
    return "\n".join([introduction, *(section(area, rows) for area, rows in scipy_tables.AREAS.items())])


OF_ARRAYS = """\
# Which operations work on other arrays

The operations have the names that graphs and errors show. The page is generated from `tests/payload_table.py`, and the
tests run some calls of each operation, for the value and for both derivatives.

- On dask arrays, operations that work return correct lazy results, and compute nothing. Other operations raise a
  `PayloadError` that names the operation, or a `ShapeError` if a shape is not known.
- On arrays of the package `sparse`, operations that work return correct results, and make nothing dense that the
  package keeps sparse.
- On arrays of fractions, operations that work are exact. Other operations raise an error, or return NumPy's result in
  floating-point numbers.

See [how to use these arrays](how-to/other-arrays.md).
"""


def page_of_arrays() -> str:
    """Return the text of the page about arrays of other libraries."""
    partly = "Some arguments raise an error, such as keys and orders that dask does not support, or derivatives."
    of_some = "Some arguments raise an error, such as two arrays whose result would be dense, or derivatives."
    sections = (
        ("Work on dask arrays", "", payload_table.OF_DASK),
        ("Work in part on dask arrays", partly, payload_table.PARTLY_BY_DASK),
        ("Do not work on dask arrays", "They depend on values, or dask lacks them.", payload_table.REFUSED_BY_DASK),
        ("Work on sparse arrays", "", payload_table.OF_SPARSE),
        ("Work in part on sparse arrays", of_some, payload_table.PARTLY_BY_SPARSE),
        ("Do not work on sparse arrays", "The package sparse lacks them.", payload_table.REFUSED_BY_SPARSE),
        ("Are exact for fractions", "", payload_table.OF_FRACTIONS),
    )
    return "\n".join([OF_ARRAYS, *itertools.chain.from_iterable(starmap(names_under, sections))])


def names_under(heading: str, remark: str, names: Iterable[str]) -> list[str]:
    """Return a heading, a remark, and names below."""
    return [
        f"## {heading}",
        "",
        *([remark, ""] if remark else []),
        ", ".join(f"`{name}`" for name in sorted(names)),
        "",
    ]


PAGES = {
    "coverage-arrays.md": page_of_arrays,
    "coverage-numpy.md": page_of_numpy,
    "coverage-scipy.md": page_of_scipy,
    "mistakes.md": test_mistakes.page,
}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages to those that lie in `docs`."""
    for name, page in PAGES.items():
        files.append(File.generated(config, name, content=page()))
    return files
