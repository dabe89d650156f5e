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
and so have the methods of arrays and of ufuncs. The page is made of `tests/coverage_table.py`, and the tests make every
call of that table: {calls} calls, of which {complex} with complex numbers, too.

{counts}

- **Differentiable**: in reverse and in forward mode, to any order. The tests compare the value with NumPy's, one mode
  with the other, and both with finite differences to second order in every combination of modes.
- **Piecewise constant**: the derivative is 0 wherever there is one, and that is what both modes give.
- **Not differentiable**: it works on traced tensors and answers what NumPy answers, and nothing flows back through it;
  or no tensor takes part in it.
- **Not supported**: a traced tensor raises an error, which says what to write instead. Nothing is dropped silently.

The column *numbers* says for which dtypes the tests make the calls: *real* is float32 and float64, *complex* is
complex64 and complex128, too. Results have NumPy's dtype, gradients that of the argument. *Calls* is the number of
calls with different keywords. With *`vmap`* a function runs on a batch as it would in a loop; *no* means that the
result's shape or the answer depends on the values, which a batch does not have, and an error says so.
"""

OF_SCIPY = """\
# What fgrad does with SciPy

The functions of `scipy.special` are ufuncs, and work on tensors as they are: `scipy.special.gammaln(t)`. For the rest
there is `fgrad.scipy`, with SciPy's names and arguments; on plain arrays its functions are SciPy's. A function of SciPy
itself that takes plain arrays alone raises when it meets a traced tensor, and names the one to write.

The page is made of `tests/scipy_tables.py`, and the tests make every call: {calls} calls, of which {complex} with
complex numbers, too. They compare values with SciPy's, reverse with forward mode, both with finite differences to
second order, a batch with a loop, and single with double precision; where differences are too coarse, in tails and near
poles, the reference is `mpmath` with 50 digits, or a closed form.

{counts}

Of the {unary} ufuncs of `scipy.special` with one argument {unary_done} are differentiated, of the {several} with
several arguments {several_done}, in at least one. The words and columns are those of
[the page for NumPy](coverage-numpy.md). An argument that the remark calls without closed form raises an error where it
is traced.
"""

BY_RULE = """\
## Types, constants and submodules

These are no functions, and follow rules:

- Constants (`np.pi`, `np.inf`, `np.newaxis`) are plain numbers.
- Types of numbers: `np.float64(x)` takes the value out of the trace as `float(x)` does, and others raise an error.
  `x.astype(np.float32)` keeps the derivative.
- Other types (`np.dtype`, `np.finfo`, `np.errstate`, `np.busdaycalendar`, `np.memmap`, `np.record`, ...) are about
  settings, memory and files. No tensor takes part in them.
- Other submodules have no rules: a traced tensor that reaches `np.random`, `np.ma`, `np.polynomial`, `np.rec`,
  `np.char` or `np.strings` raises an error, unless the function there is made of operators and of functions above.
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

The operations are named as in graphs and errors. The page is made of `tests/payload_table.py`, and the tests run some
calls of each, for the value and for both derivatives. On dask's arrays what works is right, and computes nothing on the
way; what does not work raises a `PayloadError` that names the operation, or a `ShapeError` where a shape is not known.
On arrays of the package sparse what works is right, too, and nothing is made dense that the package keeps sparse.
On arrays of fractions what works is exact; all else raises, or is NumPy's answer in floating-point numbers.

[How to use them](how-to/other-arrays.md)
"""


def page_of_arrays() -> str:
    """Return the text of the page about arrays of other libraries."""
    partly = "They refuse some arguments, such as keys and orders that dask does not know, or derivatives."
    of_some = "They refuse some arguments, such as two arrays whose result would be dense, or derivatives."
    sections = (
        ("Work on dask's arrays", "", payload_table.OF_DASK),
        ("Work in part on dask's arrays", partly, payload_table.PARTLY_BY_DASK),
        ("Refuse dask's arrays", "They look at values, or dask has no such function.", payload_table.REFUSED_BY_DASK),
        ("Work on sparse arrays", "", payload_table.OF_SPARSE),
        ("Work in part on sparse arrays", of_some, payload_table.PARTLY_BY_SPARSE),
        ("Refuse sparse arrays", "The package sparse has no such function.", payload_table.REFUSED_BY_SPARSE),
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
