"""Plain data of every function of the coverage tables, overwritten between its use and the pass back.

Each call of each differentiable row is differentiated by one of its points, while the others are plain: private copies,
as are all arrays that the call refers to by its cells, its defaults and the names of its module (masks, weights, grids,
indices). All of these are overwritten, and the point itself, too. The gradient must be that of the same call without
the overwriting, to the last bit, since the operations are the same. An error that names the overwriting would be as
good, and is raised nowhere: all arrays of the tables are small.

Every call is made in real numbers, and the first of complex rows in complex ones, too. Calls that
write one point into another are differentiated by what is written to, since NumPy cannot write a tensor into an array.
"""

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import coverage_table as table
import numpy as np
import pytest
import scipy_tables
from helpers import in_groups, naming

import fgrad as fg
from fgrad.core.tree import flatten, unflatten

ROWS = [row for row in table.rows() if not row.until or row.present()]
ROWS += [row for rows in scipy_tables.AREAS.values() for row in rows]
ROWS = [row for row in ROWS if row.kind == table.DIFFERENTIABLE and row.calls]


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


# Functions of the tables, on copies of all arrays that they refer to


class Own:
    """Makes copies of functions of the tables which refer to copies of arrays.

    Attributes:
        data: the copies, which nobody else refers to.
    """

    def __init__(self) -> None:
        self.data: list[Any] = []
        self._known: dict[int, tuple[Any, Any]] = {}

    def of(self, x: Any) -> Any:
        """Return a copy of an array, of a container of such, or of a function that refers to them."""
        if id(x) not in self._known:
            self._known[id(x)] = x, x  # the original, too: no other object may get its id
            self._known[id(x)] = x, self._copy(x)
        return self._known[id(x)][1]

    def _copy(self, x: Any) -> Any:
        if type(x) is np.ndarray:
            self.data.append(x.copy())
            return self.data[-1]
        if type(x) in (list, tuple):
            return type(x)(map(self.of, x))
        if type(x) is dict:
            return {key: self.of(value) for key, value in x.items()}
        if type(x) is functools.partial:
            return functools.partial(self.of(x.func), *map(self.of, x.args), **self.of(x.keywords))
        if type(x) is types.FunctionType and x.__module__ in TABLES:
            return self._copy_of_function(x)
        return x

    def _copy_of_function(self, x: Any) -> Any:
        known = {name: self.of(x.__globals__[name]) for name in names_in(x.__code__) & x.__globals__.keys()}
        cells = tuple(types.CellType(self.of(cell.cell_contents)) for cell in x.__closure__ or ())
        own = types.FunctionType(x.__code__, {**x.__globals__, **known}, x.__name__, self.of(x.__defaults__), cells)
        own.__kwdefaults__ = self.of(x.__kwdefaults__)
        return own


TABLES = {"coverage_table", *(name for name in vars(scipy_tables) if name.startswith("scipy_") and "table" in name)}


def names_in(code: types.CodeType) -> set[str]:
    """Return the names that a function mentions, and those that the functions in it mention."""
    inner = [names_in(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*inner)


def overwrite(data: Any) -> None:
    """Put other values of the same kind into an array or a list; no number stays as it is."""
    if type(data) is list:
        for place, x in enumerate(data):
            if type(x) is list:
                overwrite(x)
            else:
                data[place] = 0.1 - 1.7 * x
    elif data.dtype.kind == "b":
        data[...] = ~data
    elif data.dtype.kind in "iu":
        data[...] = np.roll(data, 1) if np.array_equal(data, np.flip(data)) else np.flip(data)
    else:
        data[...] = 0.1 - 1.7 * np.flip(data)


# One call, which finds its gradient with or without the overwriting


class Run:
    """One call, on data of its own.

    Args:
        function: of the table.
        points: of the call.
        place: of the point by which it is differentiated.
        kind: what the other points are made into.

    Attributes:
        point: by which it is differentiated.
        data: what is overwritten: the other points, and what the function refers to.
    """

    def __init__(self, function: Any, points: Any, place: int, kind: Callable[[Any], Any] = np.array) -> None:
        own = Own()
        self._function, self._place = own.of(function), place
        self._points = [np.array(x) if each == place else kind(x) for each, x in enumerate(points)]
        self.point = self._points[place]
        self.data = [*own.data, *self._points[:place], *self._points[place + 1 :]]
        self.data = [x for x in self.data if isinstance(x, (np.ndarray, list))]

    def of(self, x: Any) -> Any:
        """Return the result for another point."""
        return self._function(*self._points[: self._place], x, *self._points[self._place + 1 :])

    def overwrite(self) -> None:
        """Overwrite all plain data."""
        for each in self.data:
            overwrite(each)

    def by_pullback(self) -> tuple[Any, list[Any]]:
        """Return the gradient after the overwriting, and values that survive it: all but views of plain data."""
        value, pullback = fg.vjp(self.of, self.point)
        weights, plain = weights_of(value), [x for x in self.data if type(x) is np.ndarray]
        values = [x for x in tensors(value) if not any(np.shares_memory(x._payload, each) for each in plain)]
        before = [np.array(x) for x in values]
        self.overwrite()
        overwrite(self.point)
        for ours, others in zip(values, before, strict=True):
            np.testing.assert_array_equal(np.asarray(ours), others)
        return pullback(weights)[0], before

    def within_a_transform(self) -> Any:
        """Return the gradient of a weighed sum whose function overwrites its data and its point before it returns."""

        def loss(x: Any) -> Any:
            value = self.of(x)
            pairs = zip(fg.tree_leaves(value), fg.tree_leaves(weights_of(value)), strict=True)
            total = sum(np.sum(np.real(weights * each)) for each, weights in pairs if each.dtype.kind in "fc")
            self.overwrite()
            overwrite(self.point)
            return total

        return fg.grad(loss)(self.point)


def gradients_of(function: Any, points: Any, apart: bool) -> list[Any]:
    """Return the gradients by the points, of which all are differentiated together, and nothing is overwritten."""
    function, points = Own().of(function), [np.array(x) for x in points]
    if apart:
        value, pullback = fg.vjp(function, *points)
    else:
        value, pullback = fg.vjp(lambda x: function(x, *points[1:]), points[0])
    return list(pullback(weights_of(value)))


def tensors(tree: Any) -> list[Any]:
    return [x if type(x) is fg.Tensor else fg.constant(x) for x in fg.tree_leaves(tree)]


def weights_of(tree: Any) -> Any:
    """Return arrays of the shapes and dtypes of a result, no two numbers in them equal."""
    leaves, treedef = flatten(tree)
    weights = [np.cos(1 + np.arange(x.size)).reshape(x.shape).astype(x.dtype) for x in tensors(leaves)]
    return unflatten(treedef, weights)


def calls_of(row: table.Row) -> Iterator[tuple[str, Any, Any, bool]]:
    """Yield what a failure calls each call of a row, the function, its points, and whether each of them counts."""
    for number, call in enumerate(row.calls):
        yield f"call {number}", call.function, call.points, call.apart
        if call.complex and number == 0:
            yield "call 0 of complex numbers", call.function, tuple(map(table.twisted, call.points)), call.apart


def places_of(points: Any, apart: bool) -> range:
    """Return the places of the points by which a call is differentiated."""
    return range(len(points) if apart else 1)


def assert_same(found: Any, expected: Any) -> None:
    """Compare gradients of the same operations; other data make them others, and not in the last digits."""
    found, expected = np.asarray(found), np.asarray(expected)
    size = np.max(np.abs(expected), initial=0, where=np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * size)


@pytest.mark.filterwarnings("ignore:every gradient of")
@in_groups("row", ROWS, lambda row: row.names[0])
def test_plain_data_may_be_overwritten_before_the_pass_back(row):
    """Also, for the first call of each row, where it is given as lists, and within the function itself."""
    for number, (name, function, points, apart) in enumerate(calls_of(row)):
        with naming(name):
            gradients = gradients_of(function, points, apart)
        for place in places_of(points, apart):
            case = function, points, place
            with naming(name, f"by argument {place}"):
                assert_same(Run(*case).by_pullback()[0], gradients[place])
            if number == 0 and place < 2:  # so that each point is a list once
                with naming(name, f"by argument {place}", "of lists"):
                    assert_lists_may_be_overwritten(case, gradients[place])
        if number == 0:
            with naming(name, "within a transform"):
                assert_same(Run(function, points, 0).within_a_transform(), gradients[0])


def as_list(x: Any) -> Any:
    return x.tolist() if x.ndim else x.copy()


def assert_lists_may_be_overwritten(case: Any, expected: Any) -> None:
    """Where NumPy or SciPy takes lists; and they mean what they mean there."""
    run = Run(*case, as_list)
    if not any(type(x) is list for x in run.data):
        return
    try:
        plain = [np.array(x) for x in fg.tree_leaves(run.of(run.point))]  # no views of what is overwritten
    except Exception:  # the call takes no lists: it asks for their shapes, or for slices
        return
    found, values = run.by_pullback()
    for ours, numpys in zip(values, plain, strict=True):
        np.testing.assert_allclose(ours, numpys, rtol=1e-12, atol=1e-13)
    if not np.allclose(found, expected, rtol=1e-12):  # lists may mean something else than arrays
        again = Run(*case, as_list)
        value, pullback = fg.vjp(again.of, again.point)
        assert_same(found, pullback(weights_of(value))[0])


def test_the_tables_refer_to_arrays_that_are_overwritten():
    """So that the tests above cannot come to overwrite nothing: data of calls, of their cells, of names of modules."""
    calls = [call for row in ROWS for _, *call in calls_of(row)]
    counts = [len(Run(f, points, place).data) for f, points, apart in calls for place in places_of(points, apart)]
    assert len(counts) > 6000
    assert sum(map(bool, counts)) > 4000
    assert sum(counts) > 8000
    mask = next(row for row in ROWS if row.names[0] == "ndarray.sum").calls[2]
    run = Run(mask.function, mask.points, 0)
    (own,) = run.data
    np.testing.assert_array_equal(own, table.MASK)
    before = run.of(run.point)
    run.overwrite()
    assert not np.array_equal(run.of(run.point), before)
    assert not np.array_equal(own, table.MASK)
