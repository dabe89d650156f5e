"""Every public name of NumPy: what `coverage_table.py` says of it holds, and the pages say the same."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage_table as table
import numpy as np
import pytest

import fgrad as fg
from fgrad.core.tensor import Tensor
from fgrad.core.tree import flatten, unflatten
from fgrad.testing import check_grads

ROOT = Path(__file__).parents[1]
SINGLE = {"d": np.float32, "D": np.complex64}


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def cases(*kinds: str, **wanted: bool) -> list[Any]:
    """Return the calls of rows of some kinds, as parameters: the function, and its points."""
    found = []
    for row in table.rows():
        if row.kind not in kinds or (row.until and not row.present()):
            continue
        for number, call in enumerate(row.calls):
            if all(getattr(call, name) is value for name, value in wanted.items()):
                name = f"{row.names[0]} {number}" if number else row.names[0]
                found.append(pytest.param(call.function, call.points, id=name))
                if call.complex:
                    twisted = tuple(map(table.twisted, call.points))
                    found.append(pytest.param(call.function, twisted, id=f"{name} complex"))
    return found


def cases_of_several(*kinds: str, **wanted: bool) -> list[Any]:
    """Return the calls with more than one point, which may be traced one at a time."""
    return [case for case in cases(*kinds, apart=True, **wanted) if len(case.values[1]) > 1]


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


@pytest.mark.parametrize(("f", "points"), cases(*DERIVATIVES))
def test_value_is_numpys(f, points):
    """For tensors that nothing follows, and under both traces."""
    expected = f(*points)
    assert_equal(f(*map(Tensor, points)), expected)
    assert_equal(fg.vjp(f, *points)[0], expected)
    assert_equal(fg.jvp(f, points, points)[0], expected)


@pytest.mark.parametrize(("f", "points"), cases(*DERIVATIVES))
def test_reverse_mode_is_the_transpose_of_forward_mode(f, points):
    directions = tuple(weights_of(x * 1.0) for x in points)
    value, tangents = fg.jvp(f, points, directions)
    value, pullback = fg.vjp(f, *points)
    floating = [x.dtype.kind in "fc" for x in arrays(value)]
    tangents = [x for x, kept in zip(arrays(tangents), floating, strict=True) if kept]
    weights = weights_of(value)
    several = [x for x, kept in zip(arrays(weights), floating, strict=True) if kept]
    np.testing.assert_allclose(inner(several, tangents), inner(pullback(weights), directions), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("f", "points"), cases(table.DIFFERENTIABLE))
def test_derivatives_against_finite_differences(f, points):
    """To second order, in every combination of modes."""
    check_grads(f, points, order=2)


@pytest.mark.parametrize(("f", "points"), cases_of_several(table.DIFFERENTIABLE))
def test_derivatives_of_each_argument_alone(f, points):
    for place, x in enumerate(points):
        check_grads(lambda x: f(*points[:place], x, *points[place + 1 :]), (x,), order=1)


@pytest.mark.parametrize(("f", "points"), cases(table.IN_PIECES))
def test_pieces_have_the_derivative_zero(f, points):
    value, pullback = fg.vjp(f, *points)
    for gradient, x in zip(pullback(weights_of(value)), points, strict=True):
        assert_equal(gradient, np.zeros_like(x))
    for tangent, x in zip(arrays(fg.jvp(f, points, points)[1]), arrays(value), strict=True):
        assert_equal(tangent, np.zeros_like(x))


@pytest.mark.parametrize(("f", "points"), cases(*DERIVATIVES, batched=True))
def test_a_batch_is_a_loop(f, points):
    """Values, and gradients of a weighed sum."""

    def gradient(*points: Any) -> Any:
        value, pullback = fg.vjp(f, *points)
        return pullback(weights_of(zeros_of(value)))

    assert_batch_is_loop(f, points, 1e-12)
    assert_batch_is_loop(gradient, points, 1e-9)


@pytest.mark.parametrize(("f", "points"), cases_of_several(*DERIVATIVES, batched=True))
def test_a_batch_of_one_argument_is_a_loop(f, points):
    for place, x in enumerate(points):
        assert_batch_is_loop(lambda x: f(*points[:place], x, *points[place + 1 :]), (x,), 1e-12)


def assert_batch_is_loop(f: Any, points: Any, tolerance: float) -> None:
    several = [np.stack([x, x * 1.02, x * 0.98]) for x in points]
    loop = [arrays(f(*row)) for row in zip(*several, strict=True)]
    for ours, expected in zip(arrays(fg.vmap(f)(*several)), zip(*loop, strict=True), strict=True):
        assert_equal(ours, np.stack(expected), rtol=tolerance, atol=tolerance)


def zeros_of(tree: Any) -> Any:
    """Return zeros of the shapes and dtypes of the tensors in a result, whatever follows them."""
    leaves, treedef = flatten(tree)
    return unflatten(treedef, [np.zeros(np.shape(x), x.dtype) for x in leaves])


@pytest.mark.parametrize(("f", "points"), cases(*DERIVATIVES))
def test_single_precision(f, points):
    """Values have NumPy's dtype, gradients that of the arguments, and both are those of double precision."""
    singles = tuple(x.astype(SINGLE[x.dtype.char]) for x in points)
    value, pullback = fg.vjp(f, *singles)
    assert_equal(value, f(*singles), rtol=1e-4, atol=1e-5)
    _, tangent = fg.jvp(f, singles, singles)
    assert [x.dtype for x in arrays(tangent)] == [x.dtype for x in arrays(value)]
    wide_value, wide_pullback = fg.vjp(f, *points)
    found, expected = pullback(weights_of(value)), wide_pullback(weights_of(wide_value))
    for ours, wide, x in zip(arrays(found), arrays(expected), singles, strict=True):
        assert (ours.dtype, ours.shape) == (x.dtype, x.shape)
        np.testing.assert_allclose(ours, wide, rtol=1e-3, atol=1e-3 * max(1.0, np.nanmax(np.abs(wide), initial=0)))


@pytest.mark.parametrize(("f", "points"), cases(*DERIVATIVES))
def test_what_is_not_used_counts_for_nothing(f, points):
    """Weights of 0 give gradients of exactly 0, and one used element gives finite ones."""
    value, pullback = fg.vjp(f, *points)
    unused = pullback(zeros_of(value))
    for gradient, x in zip(arrays(unused), points, strict=True):
        assert_equal(gradient, np.zeros_like(x))

    def first(*points: Any) -> Any:
        return sum(np.real(np.ravel(x)[:1].sum()) for x in fg.tree_leaves(f(*points)) if x.dtype.kind in "fc")

    for gradient in arrays(fg.grad(first, argnums=tuple(range(len(points))))(*points)):
        assert np.isfinite(gradient).all()


def scattered(x: Any) -> Any:
    """Return the same numbers, not next to each other in memory, and not in NumPy's usual order."""
    if not x.ndim:
        return x
    return np.repeat(x.T, 2, axis=-1)[..., ::2].T


@pytest.mark.parametrize(("f", "points"), cases(*DERIVATIVES))
def test_the_layout_in_memory_does_not_matter(f, points):
    value, pullback = fg.vjp(f, *points)
    again, pullback_again = fg.vjp(f, *map(scattered, points))
    assert_equal(again, value)
    assert_equal(pullback_again(weights_of(value)), pullback(weights_of(value)), rtol=1e-9, atol=1e-9)


# Not differentiable, and not supported


@pytest.mark.parametrize(("f", "points"), cases(table.NOT_DIFFERENTIABLE))
def test_what_has_no_derivative_works_under_a_trace(f, points):
    """It answers what NumPy answers, and counts for nothing in a gradient."""
    answers = []

    def loss(*points: Any) -> Any:
        answers.append(f(*points))
        counted = [np.sum(x * 1.0) for x in fg.tree_leaves(answers[0]) if isinstance(x, (Tensor, np.ndarray))]
        return sum(np.sum(x * x) for x in points) + sum(counted)

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


@pytest.mark.parametrize(("f", "points"), cases(table.NOT_DIFFERENTIABLE, batched=True))
def test_what_has_no_derivative_works_in_a_batch(f, points):
    several = [np.stack([x, x * 1.02, x * 0.98]) for x in points]

    def followed(*points: Any) -> Any:
        return [x for x in fg.tree_leaves(f(*points)) if type(x) is Tensor]

    found = arrays(fg.vmap(followed)(*several))
    loop = [arrays(f(*row)) for row in zip(*several, strict=True)]
    if found:  # else nothing in the answer depends on the numbers
        for ours, expected in zip(found, zip(*loop, strict=True), strict=True):
            assert_equal(ours, np.stack(expected))


@pytest.mark.parametrize("row", [pytest.param(row, id=row.names[0]) for row in table.rows() if row.error])
def test_what_is_not_supported_says_so(row):
    for call in row.calls:
        with pytest.raises(row.error, match=re.escape(row.match)):
            fg.vjp(call.function, *call.points)


@pytest.mark.parametrize(("f", "points"), cases(*table.CLASSES[:3], batched=False))
def test_what_cannot_be_batched_says_so(f, points):
    with pytest.raises(fg.errors.ConcretizationError, match="needs a value, and under this transform a tensor stands"):
        fg.vmap(f)(*(np.stack([x, x * 1.02]) for x in points))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.random.default_rng(0).normal(x),
        lambda x: np.ma.array(x),
        lambda x: np.polynomial.Polynomial(x),
        lambda x: np.rec.array(x),
        lambda x: np.char.upper(x),
        lambda x: np.strings.upper(x),
        lambda x: np.float32(x[0, 0]),
    ],
)
def test_other_submodules_and_types_lose_nothing_silently(f):
    message = "NumPy asked a traced tensor|has no derivative rule|Unknown input type"
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
    assert len(chosen) > 10
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
