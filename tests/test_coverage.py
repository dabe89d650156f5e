"""Every public name of NumPy: what `coverage_table.py` says of it holds, and the pages say the same."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage_table as table
import numpy as np
import pytest
from derivatives import check_derivatives
from helpers import in_groups, naming

import fgrad as fg
from fgrad.core.tensor import Tensor
from fgrad.core.tree import flatten, unflatten

ROOT = Path(__file__).parents[1]
SINGLE = {"d": np.float32, "D": np.complex64}


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def rows_of(*kinds: str, **wanted: bool) -> list[Any]:
    """Return the rows of some kinds, those which the installed NumPy has and which have such calls."""
    return [
        row for row in table.rows() if row.kind in kinds and (not row.until or row.present()) and wanted_of(row, wanted)
    ]


def name_of(row: table.Row) -> str:
    return row.names[0]


def wanted_of(row: table.Row, wanted: dict[str, bool]) -> list[tuple[int, table.Call]]:
    calls = enumerate(row.calls)
    return [(number, call) for number, call in calls if all(getattr(call, x) is y for x, y in wanted.items())]


def calls_of(row: table.Row, **wanted: bool) -> Iterator[tuple[str, Any, Any]]:
    """Yield the calls of a row: what a failure calls each, the function, and its points."""
    for number, call in wanted_of(row, wanted):
        yield f"call {number}", call.function, call.points
        if call.complex:
            yield f"call {number} of complex numbers", call.function, tuple(map(table.twisted, call.points))


def arrays(tree: Any) -> list[Any]:
    return [x.numpy() if type(x) is Tensor else np.asarray(x) for x in fg.tree_leaves(tree)]


def weights_of(tree: Any) -> Any:
    """Return arrays of the shapes and dtypes of a result, no two numbers in them equal."""
    leaves, treedef = flatten(tree)
    leaves = [x.numpy() if type(x) is Tensor else np.asarray(x) for x in leaves]
    return unflatten(treedef, [np.cos(1 + np.arange(x.size)).reshape(x.shape).astype(x.dtype) for x in leaves])


def inner(a: Any, b: Any) -> float:
    pairs = zip(arrays(a), arrays(b), strict=True)
    return float(sum(np.sum(np.real(np.conjugate(x) * y)) for x, y in pairs))


def assert_equal(found: Any, expected: Any, rtol: float = 1e-12, atol: float = 1e-13) -> None:
    assert flatten(found)[1] == flatten(expected)[1]
    for ours, numpys in zip(arrays(found), arrays(expected), strict=True):
        assert (ours.shape, ours.dtype) == (numpys.shape, numpys.dtype)
        if numpys.dtype.kind in "fc":
            np.testing.assert_allclose(ours, numpys, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(ours, numpys)


# Differentiable, and constant in pieces


DERIVATIVES = (table.DIFFERENTIABLE, table.IN_PIECES)


@pytest.mark.filterwarnings("ignore:every gradient of")
@in_groups("row", rows_of(*DERIVATIVES), name_of)
def test_values_and_derivatives_of_every_layout_and_precision(row):
    """Values are NumPy's for tensors that nothing follows, and under both traces; the layout changes nothing.

    Reverse mode is the transpose of forward mode; single precision has the derivatives of double precision; and what
    is not used counts for nothing.
    """
    for name, f, points in calls_of(row):
        with naming(name):
            expected = f(*points)
            value, pullback = fg.vjp(f, *points)
            weights = weights_of(value)
            gradients, directions = pullback(weights), tuple(np.sin(2.0 * weights_of(x * 1.0)) + 0.1 for x in points)
            forward, tangents = fg.jvp(f, points, directions)
            for found in (f(*map(Tensor, points)), value, forward):
                assert_equal(found, expected)
            again, pullback_again = fg.vjp(f, *map(scattered, points))
            assert_equal(again, value)
            assert_equal(pullback_again(weights), gradients, rtol=1e-9, atol=1e-9)
            assert_transposed(weights, tangents, gradients, directions)
            assert_single_precision(f, points, gradients)
            assert_unused_counts_for_nothing(f, points, pullback(zeros_of(value)))


def scattered(x: Any) -> Any:
    """Return the same numbers, not next to each other in memory, and not in NumPy's usual order."""
    if not x.ndim:
        return x
    return np.repeat(x.T, 2, axis=-1)[..., ::2].T


def assert_transposed(weights: Any, tangents: Any, gradients: Any, directions: Any) -> None:
    pairs = zip(arrays(weights), arrays(tangents), strict=True)
    several = zip(*((w, t) for w, t in pairs if w.dtype.kind in "fc"), strict=True)
    expected = inner(*several) if any(w.dtype.kind in "fc" for w in arrays(weights)) else 0.0
    np.testing.assert_allclose(expected, inner(gradients, directions), rtol=1e-9, atol=1e-9)


def assert_single_precision(f: Any, points: Any, wide_gradients: Any) -> None:
    """Values have NumPy's dtype, gradients that of the arguments, and both are those of double precision."""
    singles = tuple(x.astype(SINGLE[x.dtype.char]) for x in points)
    value, pullback = fg.vjp(f, *singles)
    assert_equal(value, f(*singles), rtol=1e-4, atol=1e-5)
    _, tangent = fg.jvp(f, singles, singles)
    assert [x.dtype for x in arrays(tangent)] == [x.dtype for x in arrays(value)]
    for ours, wide, x in zip(arrays(pullback(weights_of(value))), arrays(wide_gradients), singles, strict=True):
        assert (ours.dtype, ours.shape) == (x.dtype, x.shape)
        atol = 1e-3 * max(1.0, np.nanmax(np.abs(wide), initial=0))
        np.testing.assert_allclose(ours, wide, rtol=1e-3, atol=atol)


def assert_unused_counts_for_nothing(f: Any, points: Any, unused: Any) -> None:
    """Weights of 0 give gradients of exactly 0, and one used element gives finite ones."""
    for gradient, x in zip(arrays(unused), points, strict=True):
        assert_equal(gradient, np.zeros_like(x))
    for gradient in arrays(fg.grad(first_of(f), argnums=tuple(range(len(points))))(*points)):
        assert np.isfinite(gradient).all()


def first_of(f: Any) -> Any:
    """Return the sum of the first element of each result."""

    def first(*points: Any) -> Any:
        return sum(np.real(np.ravel(x)[:1].sum()) for x in fg.tree_leaves(f(*points)) if x.dtype.kind in "fc")

    return first


@in_groups("row", rows_of(table.DIFFERENTIABLE), name_of)
def test_derivatives_against_finite_differences(row):
    """The first call to second order, in every combination of modes; and by each argument alone."""
    for number, (name, f, points) in enumerate(calls_of(row)):
        with naming(name):
            check_derivatives(f, points, order=1 if number else 2)
    for name, f, points in calls_of(row, apart=True):
        for place, x in enumerate(points) if len(points) > 1 else ():
            with naming(name, f"argument {place} alone"):
                check_derivatives(alone(f, points, place), (x,), order=1)


def alone(f: Any, points: Any, place: int) -> Any:
    """Return a function of one of several points."""
    return lambda x: f(*points[:place], x, *points[place + 1 :])


@in_groups("row", rows_of(table.IN_PIECES), name_of)
def test_pieces_have_the_derivative_zero(row):
    for name, f, points in calls_of(row):
        with naming(name):
            value, pullback = fg.vjp(f, *points)
            for gradient, x in zip(pullback(weights_of(value)), points, strict=True):
                assert_equal(gradient, np.zeros_like(x))
            for tangent, x in zip(arrays(fg.jvp(f, points, points)[1]), arrays(value), strict=True):
                assert_equal(tangent, np.zeros_like(x))


@in_groups("row", rows_of(*DERIVATIVES, batched=True), name_of)
def test_a_batch_is_a_loop(row):
    """Values, gradients of a weighed sum, and values of batches of one argument alone."""
    for name, f, points in calls_of(row, batched=True):
        with naming(name):
            assert_batch_is_loop(f, points, 1e-12)
            assert_batch_is_loop(gradient_of(f), points, 1e-9)
    for name, f, points in calls_of(row, batched=True, apart=True):
        for place, x in enumerate(points) if len(points) > 1 else ():
            with naming(name, f"argument {place} alone"):
                assert_batch_is_loop(alone(f, points, place), (x,), 1e-12)


def gradient_of(f: Any) -> Any:
    def gradient(*points: Any) -> Any:
        value, pullback = fg.vjp(f, *points)
        return pullback(weights_of(zeros_of(value)))

    return gradient


def assert_batch_is_loop(f: Any, points: Any, tolerance: float) -> None:
    several = [np.stack([x, x * 1.02]) for x in points]
    loop = [arrays(f(*row)) for row in zip(*several, strict=True)]
    for ours, expected in zip(arrays(fg.vmap(f)(*several)), zip(*loop, strict=True), strict=True):
        assert_equal(ours, np.stack(expected), rtol=tolerance, atol=tolerance)


def zeros_of(tree: Any) -> Any:
    """Return zeros of the shapes and dtypes of the tensors in a result, whatever follows them."""
    leaves, treedef = flatten(tree)
    return unflatten(treedef, [np.zeros(np.shape(x), x.dtype) for x in leaves])


# Not differentiable, and not supported


@in_groups("row", rows_of(table.NOT_DIFFERENTIABLE), name_of)
def test_what_has_no_derivative_works_under_a_trace(row):
    """It answers what NumPy answers, and counts for nothing in a gradient."""
    for name, f, points in calls_of(row):
        answers = []

        def loss(*points: Any, f: Any = f, answers: list[Any] = answers) -> Any:
            answers.append(f(*points))
            counted = [np.sum(x * 1.0) for x in fg.tree_leaves(answers[0]) if isinstance(x, (Tensor, np.ndarray))]
            return sum(np.sum(x * x) for x in points) + sum(counted)

        with naming(name):
            gradients = fg.grad(loss, argnums=tuple(range(len(points))))(*points)
            for gradient, x in zip(gradients, points, strict=True):
                np.testing.assert_allclose(gradient, 2 * x)
            assert_same_answer(answers[0], f(*points))
            assert_same_answer(f(*map(Tensor, points)), f(*points))


def assert_same_answer(found: Any, expected: Any) -> None:
    for ours, numpys in zip(fg.tree_leaves(found), fg.tree_leaves(expected), strict=True):
        if isinstance(numpys, (np.ndarray, np.generic)):
            assert_equal(ours, numpys)
        else:
            assert ours == numpys


@in_groups("row", rows_of(table.NOT_DIFFERENTIABLE, batched=True), name_of)
def test_what_has_no_derivative_works_in_a_batch(row):
    for name, f, points in calls_of(row, batched=True):
        several = [np.stack([x, x * 1.02]) for x in points]

        def followed(*points: Any, f: Any = f) -> Any:
            return [x for x in fg.tree_leaves(f(*points)) if type(x) is Tensor]

        with naming(name):
            found = arrays(fg.vmap(followed)(*several))
            loop = [arrays(f(*each)) for each in zip(*several, strict=True)]
            if found:  # else nothing in the answer depends on the numbers
                for ours, expected in zip(found, zip(*loop, strict=True), strict=True):
                    assert_equal(ours, np.stack(expected))


@pytest.mark.parametrize("row", [pytest.param(row, id=row.names[0]) for row in table.rows() if row.match])
def test_what_is_not_supported_says_so(row):
    for call in row.calls:
        with pytest.raises(row.error, match=re.escape(row.match)):
            fg.vjp(call.function, *call.points)


@in_groups("row", rows_of(*table.CLASSES[:3], batched=False), name_of)
def test_what_cannot_be_batched_says_so(row):
    message = "needs a value, and under this transform a tensor stands"
    for name, f, points in calls_of(row, batched=False):
        with naming(name), pytest.raises(fg.errors.ConcretizationError, match=message):
            fg.vmap(f)(*(np.stack([x, x * 1.02]) for x in points))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.random.default_rng(0).normal(x),
        lambda x: np.ma.array(x),
        lambda x: np.frompyfunc(float, 1, 1)(x),
        lambda x: np.rec.array(x),
        lambda x: np.char.upper(x),
        lambda x: np.strings.upper(x),
        lambda x: np.float32(x[0, 0]),
    ],
)
def test_other_submodules_and_types_lose_nothing_silently(f):
    message = "from a traced tensor|has no derivative rule|Unknown input type|needs floating-point numbers"
    with pytest.raises((TypeError, ValueError), match=message):
        fg.vjp(f, table.M)


# The table itself, and the page


def test_every_public_name_has_a_row():
    assert table.unclassed() == set()


def test_every_row_is_about_names_that_exist():
    for row in table.rows():
        for name in row.names:
            if table.module_of(name) != "operators" and not row.until:
                assert table.look_up(name) is table.look_up(row.names[0]) is not None, name


def test_no_name_has_two_rows():
    names = [name for row in table.rows() for name in row.names]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("kind", [table.DIFFERENTIABLE, table.IN_PIECES, table.NOT_SUPPORTED])
def test_rows_of_every_kind_have_calls(kind):
    chosen = [row for row in table.rows() if row.kind == kind]
    assert chosen
    assert all(row.calls for row in chosen)


PAGES = runpy.run_path(str(ROOT / "tools" / "table_pages.py"))


def test_the_page_of_numpy_has_every_name():
    page = PAGES["page_of_numpy"]()
    for row in table.rows():
        for name in row.names:
            assert f"\n| `{name}` | " in page, name
    assert set(PAGES["count_lines"](table.counts())) <= set(page.splitlines())


def test_the_summary_has_the_counts_and_the_exceptions_of_the_table():
    summary = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    lines, others = summary.partition("## SciPy")[0].splitlines(), []
    for kind in (table.NOT_SUPPORTED, table.NOT_DIFFERENTIABLE):
        others += ["| why | names |", "| --- | --- |", *PAGES["exception_lines"](table.rows(), kind)]
    expected = [*PAGES["count_lines"](table.counts()), *others]
    assert [line for line in lines if line.startswith("|")] == expected, "\n".join(["write:", *expected])
