"""Patterns of dependence, and the sparse Jacobians and Hessians that are found by them."""

import pickle
import threading

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.sparse
from helpers import naming
from hypothesis import given, settings
from hypothesis import strategies as st
from primitive_names import SAMPLED, chosen

import fgrad as fg
import fgrad.scipy.integrate
import fgrad.scipy.optimize
from fgrad import errors
from fgrad.extend import defpattern, defvjp, register_primitive
from fgrad.patterns import coloring
from fgrad.scipy import sparse


def pattern(function, x, **options):
    return fg.sparsity(function, **options)(x).toarray()


def tridiagonal(n):
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 1


def rosenbrock(x):
    """The chained function of Rosenbrock, whose Hessian has three diagonals."""
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


X = np.array([0.5, -1.0, 2.0, 1.5, -0.3, 0.8])


# Every primitive


def numbers_of(result):
    leaves = [np.ravel(leaf) for leaf in fg.tree_leaves(result) if leaf.dtype.kind in "fc"]
    return np.concatenate(leaves) if leaves else np.zeros(0)


def test_no_pattern_of_a_primitive_lacks_an_element():
    missing = {}
    with np.errstate(all="ignore"):
        for name in SAMPLED:
            for place, call in chosen(name):
                if sum(x.size for x in call.arrays) > 100:
                    continue
                argnums = tuple(range(len(call.arrays)))

                def function(*arrays, call=call):
                    return numbers_of(call.function(*arrays))

                with naming(name, place):
                    dense = fg.jacrev(function, argnums)(*call.arrays)
                    found = fg.sparsity(function, argnums)(*call.arrays)
                for whole, part in zip(dense, found, strict=True):
                    whole = np.abs(whole.numpy().reshape(part.shape))
                    rounding = 1e-12 * np.max(whole[np.isfinite(whole)], initial=0)  # of Fourier transforms
                    if np.any(~(whole <= rounding) & ~part.toarray()):
                        missing[name] = place
    assert missing == {}


# Known patterns

KNOWN = {
    "elementwise": (lambda x: np.sin(x) * x + 1, np.eye(6)),
    "neighbours": (lambda x: x[1:] - x[:-1] ** 2, np.eye(5, 6) + np.eye(5, 6, 1)),
    "np.diff": (np.diff, np.eye(5, 6) + np.eye(5, 6, 1)),
    "roll": (lambda x: np.roll(x, 1) * x, np.eye(6) + np.roll(np.eye(6), 1, 0)),
    "cumsum": (np.cumsum, np.tri(6)),
    "cumprod backwards": (lambda x: np.cumprod(x[::-1])[::-1], np.tri(6).T),
    "sum": (np.sum, np.ones((1, 6))),
    "row sums": (lambda x: x.reshape(2, 3).sum(1), np.kron(np.eye(2), np.ones(3))),
    "column means": (lambda x: x.reshape(2, 3).mean(0), np.tile(np.eye(3), 2)),
    "softmax of rows": (
        lambda x: (lambda e: e / e.sum(1, keepdims=True))(np.exp(x.reshape(3, 2))),
        np.kron(np.eye(3), np.ones((2, 2))),
    ),
    "transpose": (lambda x: x.reshape(2, 3).T, np.eye(6)[[0, 3, 1, 4, 2, 5]]),
    "concatenate": (
        lambda x: np.concatenate([x[3:], np.zeros(1), x[:1]]), np.vstack([np.eye(6)[3:], np.zeros(6), np.eye(6)[0]])
    ),
    "pad": (lambda x: np.pad(x[:2], 1), np.eye(6)[[0, 0, 1, 0]] * [[0], [1], [1], [0]]),
    "stack": (lambda x: np.stack([x[:2], x[2:4]], 1), np.eye(6)[[0, 2, 1, 3]]),
    "take": (lambda x: x[np.array([4, 0, 4])], np.eye(6)[[4, 0, 4]]),
    "repeat": (lambda x: np.repeat(x[:2], 2), np.eye(6)[[0, 0, 1, 1]]),
    "outer": (lambda x: np.outer(x[:2], x[2:4]), np.eye(6)[[0, 0, 1, 1]] + np.eye(6)[[2, 3, 2, 3]]),
    "broadcast": (lambda x: x[:2, None] + x[2:4], np.eye(6)[[0, 0, 1, 1]] + np.eye(6)[[2, 3, 2, 3]]),
    "matrix product": (lambda x: np.ones((2, 3)) @ x.reshape(3, 2), np.tile(np.eye(2), (2, 3))),
    "batched product": (
        lambda x: np.einsum("bij,bj->bi", np.ones((3, 2, 2)), x.reshape(3, 2)), np.kron(np.eye(3), np.ones((2, 2)))
    ),
    "batched solve": (
        lambda x: np.linalg.solve(np.stack([np.eye(2)] * 3), x.reshape(3, 2, 1)), np.kron(np.eye(3), np.ones((2, 2)))
    ),
    "convolution": (lambda x: np.convolve(x, np.ones(3), "same"), tridiagonal(6)),
    "windows": (
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3).sum(1), np.tri(4, 6, 2) - np.tri(4, 6, -1)
    ),
    "sparse product": (lambda x: scipy.sparse.csr_array(tridiagonal(6) * 1.0) @ x, tridiagonal(6)),
    "max of rows": (lambda x: x.reshape(2, 3).max(1), np.kron(np.eye(2), np.ones(3))),
    "sort": (np.sort, np.ones((6, 6))),
    "sort of rows": (lambda x: np.sort(x.reshape(3, 2), 1), np.kron(np.eye(3), np.ones((2, 2)))),
    "fft of rows": (lambda x: np.fft.rfft(x.reshape(3, 2), axis=1).real, np.kron(np.eye(3), np.ones((2, 2)))),
    "an index by value": (lambda x: x[np.argmax(x)], np.ones((1, 6))),
    "where": (lambda x: np.where(x > 0, x, x[::-1]), np.eye(6) + np.eye(6)[::-1]),
    "a mask": (lambda x: set_where(x, x < 0), np.eye(6)),
    "in place": (lambda x: shifted(x), np.eye(6, k=-1) + np.eye(6)[[2]] * np.eye(6)[0][:, None]),
    "through a view": (lambda x: through_views(x), np.eye(6)[[0, 1, 2, 0, 4, 5]]),
    "parts of complex numbers": (lambda x: set_imaginary(x), np.eye(6) + np.eye(6)[[1] * 6]),
    "a product with zero": (lambda x: x * 0, np.eye(6)),
    "stop_gradient": (lambda x: fg.stop_gradient(x) * x[0], np.eye(6)[[0] * 6]),
    "comparison": (lambda x: (x > 0) * 1.0, np.zeros((6, 6))),
    "a number": (lambda x: np.float64(3.0) + 0 * x[0], np.eye(1, 6)),
    "several results": (lambda x: (x[0], {"b": x[2:4]}), np.eye(6)[[0, 2, 3]]),
    "vmap": (lambda x: fg.vmap(lambda row: row @ row)(x.reshape(3, 2)), np.kron(np.eye(3), np.ones(2))),
    "scan": (lambda x: fg.scan(lambda c, t: (c + np.roll(c, 1), None), x, np.arange(2.0))[0],
             sum(np.roll(np.eye(6), k, 0) for k in range(3))),
    "compile": (lambda x: fg.compile(lambda x: x * x[::-1])(x), np.eye(6) + np.eye(6)[::-1]),
    "checkpoint": (lambda x: fg.checkpoint(lambda x: x * x[::-1])(x), np.eye(6) + np.eye(6)[::-1]),
}  # fmt: skip


def set_where(x, mask):
    y = x * 1.0
    y[mask] = 0.0
    return y


def shifted(x):
    y = np.zeros_like(x)
    y[1:] = x[:-1]
    y[0] += x[2]
    return y


def through_views(x):
    y = x.reshape(2, 3) * 1.0
    y.T[0][1:] = x[0]
    return y


def set_imaginary(x):
    y = x * 1j
    y.real[...] = x[1]
    return y


def test_known_patterns():
    for name, (function, expected) in KNOWN.items():
        with naming(name):
            np.testing.assert_array_equal(pattern(function, X), np.asarray(expected) > 0)


def test_patterns_of_gradients():
    cases = {
        "squares": (lambda x: np.sum(x**2), np.eye(6)),
        "linear": (lambda x: np.sum(3 * x), np.zeros((6, 6))),
        "neighbours": (rosenbrock, tridiagonal(6)),
        "blocks": (lambda x: np.sum(np.linalg.norm(x.reshape(2, 3), axis=1)), np.kron(np.eye(2), np.ones((3, 3)))),
        "arrow": (lambda x: np.sum(x[0] * np.sin(x[1:])), np.eye(6) - np.eye(1, 6).T @ np.eye(1, 6) + ARROW > 0),
        "square of a sum": (lambda x: np.sum(x) ** 2, np.ones((6, 6))),
    }
    for name, (function, expected) in cases.items():
        with naming(name):
            np.testing.assert_array_equal(pattern(fg.grad(function), X), np.asarray(expected) > 0)


ARROW = np.array([[row * column == 0 and row != column for column in range(6)] for row in range(6)])


# Functions with a rule of their own


@fg.custom_vjp
def straight_through(x):
    return np.round(x)


straight_through.defvjp(lambda x: (straight_through(x), None), lambda residuals, ct: (ct * 2,))


@fg.custom_jvp
def turned(x):
    return x[::-1] * 1.0


turned.defjvp(lambda primals, tangents: (turned(*primals), tangents[0][::-1]))


def test_a_rule_says_what_a_function_depends_on():
    np.testing.assert_array_equal(pattern(straight_through, X), np.eye(6))
    np.testing.assert_array_equal(pattern(turned, X), np.eye(6)[::-1])
    np.testing.assert_array_equal(pattern(fg.vmap(straight_through), X), np.eye(6))
    np.testing.assert_array_equal(pattern(lambda x: turned(turned(x)), X), np.eye(6))
    np.testing.assert_array_equal(pattern(fg.grad(lambda x: np.sum(turned(x) ** 2)), X), np.eye(6))
    np.testing.assert_array_equal(fg.sparse_jacobian(straight_through)(X).toarray(), 2 * np.eye(6))


@fg.custom_gradient
def rounded(x):
    return np.round(x), lambda ct: ct


def test_a_rule_that_recurs_says_it_for_second_derivatives_too():
    def loss(x):
        return np.sum(rounded(x) ** 2 * x[::-1])

    found = fg.sparse_hessian(loss)
    np.testing.assert_allclose(found(X).toarray(), fg.hessian(loss)(X))
    np.testing.assert_array_equal(found.plan(X).pattern.toarray(), (np.eye(6) + np.eye(6)[::-1]) > 0)


def test_solutions_depend_on_all_that_their_equations_do():
    def solved(x):
        return fgrad.scipy.optimize.root(lambda y: y**3 + y - x, x).x

    found, dense = pattern(solved, X), fg.jacobian(solved)(X).numpy()
    assert not np.any((np.abs(dense) > 1e-12) & ~found)


def test_operations_of_ones_own():
    blocks = register_primitive(lambda x, y: np.einsum("...i,...i->...", x, y), name="test_products_of_rows")
    defvjp(blocks, lambda ans, x, y: lambda ct: ct[..., None] * y, lambda ans, x, y: lambda ct: ct[..., None] * x)

    def function(x):
        return blocks(x.reshape(2, 3), np.ones(3)) + blocks(np.ones((2, 3)), x[:3])

    assert pattern(function, X).all()
    defpattern(blocks, "i,i->")
    np.testing.assert_array_equal(pattern(function, X), np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]]))
    for wrong in ("ij", "i->j->k", "...i->i", "1->1"):
        with pytest.raises(errors.ParameterError, match="'ij,j->i', and they are"):
            defpattern(blocks, wrong)
    with pytest.raises(errors.StructureError, match="is not an operation"):
        defpattern(np.sin, "->")


# Programs drawn at random


def rows(x):
    return x.reshape(2, -1)


MENU = [
    np.sin,
    lambda x: x * x[::-1],
    lambda x: np.roll(x, 2),
    lambda x: x - np.roll(x, 1) ** 2,
    np.cumsum,
    np.sort,
    lambda x: np.where(x > 0, x, np.roll(x, 1)),
    lambda x: np.maximum(x, x[::-1]),
    lambda x: np.concatenate([x[2:], x[:2]]),
    lambda x: np.tile(rows(x).sum(0), 2),
    lambda x: (rows(x) / (1 + rows(x) ** 2).sum(1, keepdims=True)).ravel(),
    lambda x: (rows(x).T @ np.ones((2, 2))).T.ravel(),
    lambda x: np.repeat(x[::2], 2),
    lambda x: np.convolve(x, [1.0, -2.0, 1.0], "same"),
    lambda x: x[np.array([5, 4, 0, 1, 1, 2])],
    lambda x: set_where(x, x < 0),
    shifted,
    lambda x: x * np.max(x[:3]),
    lambda x: np.fft.irfft(np.fft.rfft(x)),
    lambda x: fg.vmap(lambda row: row * row[0])(rows(x)).ravel(),
    straight_through,
    turned,
]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, len(MENU) - 1), min_size=1, max_size=4), st.integers(0, 1000))
def test_no_element_is_missing_from_the_pattern_of_a_program(steps, seed):
    def program(x):
        for step in steps:
            x = MENU[step](x)
        return x

    rng = np.random.default_rng(seed)
    found = pattern(program, rng.normal(size=6))
    for _ in range(3):
        x = rng.normal(size=6)
        dense = fg.jacobian(program)(x).numpy()
        assert not np.any((np.abs(dense) > 1e-9 * np.abs(dense).max(initial=0)) & ~found)
        np.testing.assert_allclose(fg.sparse_jacobian(program)(x).toarray(), dense, rtol=1e-9, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, len(MENU) - 1), min_size=1, max_size=3), st.integers(0, 1000))
def test_hessians_of_programs(steps, seed):
    def program(x):
        total = np.sum(x[0] * x[1:])
        for step in steps:
            x = MENU[step](x)
        return total + np.sum(x**2)

    x = np.random.default_rng(seed).normal(size=6)
    dense = fg.hessian(program)(x).numpy()
    np.testing.assert_allclose(fg.sparse_hessian(program)(x).toarray(), dense, rtol=1e-8, atol=1e-9)


# Colors


def shares_color_in_a_row(matrix, colors):
    return any(len(set(colors[row])) < np.count_nonzero(row) for row in matrix)


def is_star_coloring(matrix, colors):
    """Whether neighbours differ in color, and every path of four vertices has three."""
    edges = [(a, b) for a, b in zip(*np.nonzero(matrix), strict=True) if a != b]
    if any(colors[a] == colors[b] for a, b in edges):
        return False
    return not any(
        colors[a] == colors[c] and colors[b] == colors[d]
        for a, b in edges
        for b2, c in edges
        if b2 == b and c != a
        for c2, d in edges
        if c2 == c and d not in (a, b)
    )


def test_colors():
    rng = np.random.default_rng(0)
    for size in range(1, 12):
        for density in (0.1, 0.3):
            matrix = rng.random((size, size + 2)) < density
            colors = coloring.columns(scipy.sparse.csr_array(matrix))
            assert not shares_color_in_a_row(matrix, colors)
            square = matrix[:, :size] | matrix[:, :size].T
            assert is_star_coloring(square, coloring.symmetric(scipy.sparse.csr_array(square)))


@pytest.mark.parametrize(
    ("name", "matrix", "columns", "star"),
    [
        ("diagonal", np.eye(7), 1, 1),
        ("tridiagonal", tridiagonal(7), 3, 3),
        ("arrow", np.eye(7) + np.eye(1, 7) + np.eye(1, 7).T, 7, 2),
        ("blocks", np.kron(np.eye(3), np.ones((2, 2))), 2, 2),
        ("full", np.ones((5, 5)), 5, 5),
        ("nothing", np.zeros((4, 4)), 1, 1),
    ],
)
def test_known_numbers_of_colors(name, matrix, columns, star):
    found = scipy.sparse.csr_array(np.asarray(matrix) > 0)
    assert coloring.columns(found).max() + 1 == columns
    assert coloring.symmetric(found).max() + 1 == star


def test_the_mode_with_fewer_colors_is_taken():
    wide = fg.sparse_jacobian(lambda x: np.stack([np.sum(x**2), x[0]]))
    assert (wide.plan(X).mode, wide.plan(X).count) == ("reverse", 2)
    tall = fg.sparse_jacobian(lambda x: np.outer(x[:1], np.arange(9.0)).ravel() + x[1])
    assert (tall.plan(X).mode, tall.plan(X).count) == ("forward", 2)
    for mode in ("forward", "reverse"):
        function = fg.sparse_jacobian(lambda x: x[1:] * x[:-1], mode=mode)
        assert function.plan(X).mode == mode
        np.testing.assert_allclose(function(X).toarray(), fg.jacobian(lambda x: x[1:] * x[:-1])(X))


# Values

FUNCTIONS = {
    "differences": lambda x: x[1:] * np.exp(x[:-1]),
    "a number": lambda x: np.sum(np.sin(x)),
    "several": lambda x: {"a": x[:2] ** 2, "b": (x[0] * x[5], np.outer(x[1:3], x[3:5]))},
    "nothing": lambda x: np.ones(3) + 0 * x[:3],
    "complex": lambda x: np.exp(1j * x) * x[0],
    "dense": lambda x: x / np.linalg.norm(x),
    "integers": lambda x: np.argmax(x),
    "constants": lambda x: (x[0] ** 2, 3.0, np.arange(2)),
    "one complex number": lambda x: np.sum(x) * (1 + 2j),
}


def test_values_are_those_of_the_dense_jacobian():
    for name, function in FUNCTIONS.items():
        with naming(name):
            results, jacobians = fg.tree_leaves(function(X)), fg.tree_leaves(fg.jacobian(function, mode="forward")(X))
            shapes = [(np.size(result), 6) for result in results]
            dense = np.concatenate([np.reshape(leaf, shape) for leaf, shape in zip(jacobians, shapes, strict=True)])
            found = fg.sparse_jacobian(function)(X)
            assert isinstance(found, scipy.sparse.csr_array)
            np.testing.assert_allclose(found.toarray(), dense, rtol=1e-12, atol=1e-15)


def test_both_modes_take_constants_among_the_results():
    for mode in ("forward", "reverse"):
        found = fg.sparse_jacobian(lambda x: (x[1] ** 2, 3.0), mode=mode)(X)
        np.testing.assert_allclose(found.toarray(), np.outer([1, 0], np.eye(6)[1] * 2 * X[1]))


def test_hessians():
    for function in (rosenbrock, lambda x: np.sum(x[0] * np.sin(x)), lambda x: np.prod(x), lambda x: np.sum(3 * x)):
        found = fg.sparse_hessian(function)
        np.testing.assert_allclose(found(X).toarray(), fg.hessian(function)(X), rtol=1e-10, atol=1e-12)
        assert found.plan(X).mode == "symmetric"


def test_single_precision_and_shapes():
    x = np.linspace(0.5, 1.5, 6, dtype=np.float32).reshape(2, 3)
    found = fg.sparse_jacobian(lambda x: np.cumsum(x * x, axis=1))(x)
    assert (found.dtype, found.shape) == (np.float32, (6, 6))
    np.testing.assert_allclose(found.toarray(), np.kron(np.eye(2), np.tri(3)) * 2 * x.ravel(), rtol=1e-6)
    assert fg.sparse_hessian(lambda x: np.sum(x**3))(x).dtype == np.float32
    assert fg.sparse_jacobian(np.sin)(x.astype(np.float16)).dtype == np.float32  # SciPy has none of half precision
    assert fg.sparse_jacobian(lambda x: x**2)(3.0).toarray() == 6.0
    assert fg.sparse_jacobian(lambda x: x**2)(np.zeros(0)).shape == (0, 0)


def test_rounding_is_no_missing_element():
    x = np.linspace(0.5, 1.5, 50)
    weights = np.linspace(0.1, 3.0, 49)

    def in_single(x):
        x = x.astype(np.float32)
        return (x[1:] * np.exp(x[:-1]) - np.sin(x[1:])).astype(np.float64)

    counted = Counted(in_single)
    for function, point in (
        (lambda x: weights * x[1:] * np.exp(x[:-1]), x.astype(np.float32)),
        (lambda x: x[1:] * np.exp(x[:-1]), x.astype(np.float16)),
        (counted, x),
    ):
        jacobian = fg.sparse_jacobian(function)
        plans = [(jacobian(point + shift), jacobian.plan(point))[1] for shift in np.zeros(3, point.dtype)]
        assert plans[0] is plans[1] is plans[2]
        dense = fg.jacobian(function)(point)
        np.testing.assert_allclose(jacobian(point).toarray(), dense, rtol=2e-3 if point.dtype == np.float16 else 1e-5)


def test_containers_are_one_vector():
    params = {"a": np.array([1.0, 2.0]), "b": 3.0}
    found = fg.sparse_jacobian(lambda p: p["a"] * p["b"])(params)
    np.testing.assert_allclose(found.toarray(), [[3, 0, 1], [0, 3, 2]])
    found = fg.sparse_hessian(lambda p: np.sum(p["a"] ** 2 * p["b"]))(params)
    np.testing.assert_allclose(found.toarray(), [[6, 0, 2], [0, 6, 4], [2, 4, 0]])


def test_several_arguments():
    def function(x, y, scale=2.0):
        return scale * x * y

    x, y = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    by_x, by_y = fg.sparse_jacobian(function, argnums=(0, 1))(x, y)
    np.testing.assert_allclose(by_x.toarray(), np.diag(2 * y))
    np.testing.assert_allclose(by_y.toarray(), np.diag(2 * x))
    np.testing.assert_allclose(fg.sparse_jacobian(function, argnums="scale")(x, y).toarray(), (x * y)[:, None])
    np.testing.assert_allclose(fg.sparse_jacobian(function, argnums="scale")(x, y, scale=1.0).toarray().ravel(), x * y)
    blocks = fg.sparse_hessian(lambda x, y: np.sum(x**2 * y), argnums=(0, 1))(x, y)
    assert [[block.toarray().tolist() for block in row] for row in blocks] == [
        [np.diag(2 * y).tolist(), np.diag(2 * x).tolist()], [np.diag(2 * x).tolist(), np.zeros((2, 2)).tolist()]
    ]  # fmt: skip
    assert [len(row) for row in fg.sparse_hessian(lambda x: np.sum(x**2), argnums=(0,))(x)] == [1]
    assert fg.sparsity(function, argnums=("x", "scale"))(x, y)[1].shape == (2, 1)


def test_chunks_and_large_arrays_give_the_same():
    x = np.linspace(-1, 1, 10_001)
    whole = fg.sparse_hessian(rosenbrock)(x)
    for chunk_size in (1, 3, 100):
        part = fg.sparse_hessian(rosenbrock, chunk_size=chunk_size)(x)
        np.testing.assert_allclose(part.data, whole.data, rtol=1e-12, atol=1e-10)
    band = fg.sparse_jacobian(lambda x: x[1:] * x[:-1], mode="reverse")(x)
    np.testing.assert_allclose(band.diagonal(), x[1:])


# Plans


class Counted:
    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, x):
        self.calls += 1
        return self.function(x)


def test_a_plan_is_kept_for_a_shape():
    counted = Counted(lambda x: x[1:] * x[:-1])
    jacobian = fg.sparse_jacobian(counted)
    jacobian(X)
    first = counted.calls
    jacobian(X + 1)
    again = counted.calls - first
    assert again == first - 1  # without the run that finds the pattern
    assert jacobian.plan(X) is jacobian.plan(X + 2)
    assert counted.calls == first + again
    jacobian(X[:4])
    assert counted.calls == 2 * first + again
    assert len(jacobian.plans) == 2
    for size in range(2, 20):
        jacobian(np.ones(size))
    assert len(jacobian.plans) == 8


def test_a_plan_or_a_pattern_can_be_passed_in():
    counted = Counted(lambda x: x[1:] * x[:-1])
    plan = fg.sparse_jacobian(lambda x: x[1:] * x[:-1]).plan(X)
    expected = fg.jacobian(counted.function)(X)
    dense = np.eye(5, 6) + np.eye(5, 6, 1)
    for given_pattern in (plan, plan.pattern, dense, scipy.sparse.coo_array(dense), sparse.csr_array(dense)):
        counted.calls = 0
        np.testing.assert_allclose(fg.sparse_jacobian(counted, sparsity=given_pattern)(X).toarray(), expected)
        assert counted.calls == 1
    hessian = fg.sparse_hessian(rosenbrock, sparsity=np.triu(tridiagonal(6)))  # either half is enough
    np.testing.assert_allclose(hessian(X).toarray(), fg.hessian(rosenbrock)(X))


def test_another_branch_gets_another_pattern():
    def function(x):
        return x * 2 if x[0] > 0 else x * x[::-1]

    jacobian = fg.sparse_jacobian(function)
    for sign in (1, -1, 1, -1):
        np.testing.assert_allclose(jacobian(sign * X).toarray(), fg.jacobian(function)(sign * X))
    longer = fg.sparse_jacobian(lambda x: x[x > 0] * 2)
    for sign in (1, -1):
        np.testing.assert_allclose(longer(sign * X).toarray(), fg.jacobian(lambda x: x[x > 0] * 2)(sign * X))


def test_infinite_elements_do_not_disturb_others():
    found = fg.sparse_jacobian(np.sqrt)(np.array([0.0, 4.0]))
    np.testing.assert_array_equal(found.toarray(), [[np.inf, 0], [0, 0.25]])


def test_a_result_can_be_changed_without_harm_to_the_plan():
    jacobian = fg.sparse_jacobian(lambda x: np.stack([x[0] * x[1], x[1] ** 2]))
    first = jacobian(np.array([0.0, 1.0]))
    first.eliminate_zeros()
    np.testing.assert_allclose(jacobian(np.array([2.0, 3.0])).toarray(), [[3, 2], [0, 6]])


def test_plans_in_threads_methods_and_pickles():
    jacobian = fg.sparse_jacobian(heat, argnums=1)
    jacobian(0.0, X)
    copied = pickle.loads(pickle.dumps(jacobian))
    assert copied.plans == {}
    np.testing.assert_allclose(copied(0.0, X).toarray(), jacobian(0.0, X).toarray())

    class Model:
        weight = 3.0

        @fg.sparse_jacobian
        def slopes(self, x):
            return self.weight * x

    model = Model()
    np.testing.assert_allclose(model.slopes(X).toarray(), 3 * np.eye(6))
    assert model.slopes.plan(X).count == 1
    found = {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: fg.sparse_jacobian(np.sin)(np.ones(n)).nnz}))
        for n in (2, 3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {2: 2, 3: 3}


# Under other transforms


def test_gradients_of_a_sparse_matrix():
    def function(x):
        return x[1:] * x[:-1] ** 2

    def loss(x, jacobian):
        return np.sum((jacobian(x) @ np.arange(1.0, 7.0)) ** 2)

    found = fg.grad(lambda x: loss(x, fg.sparse_jacobian(function)))(X)
    np.testing.assert_allclose(found, fg.grad(lambda x: loss(x, fg.jacobian(function)))(X))
    second = fg.hessian(lambda x: loss(x, fg.sparse_jacobian(function, mode="reverse")))(X)
    np.testing.assert_allclose(second, fg.hessian(lambda x: loss(x, fg.jacobian(function)))(X))
    _, tangent = fg.jvp(lambda x: loss(x, fg.sparse_hessian(rosenbrock)), (X,), (np.ones(6),))
    np.testing.assert_allclose(tangent, fg.grad(lambda x: loss(x, fg.hessian(rosenbrock)))(X).sum())


def test_under_vmap_tape_and_compile():
    function = fg.sparse_jacobian(lambda x: x[1:] * x[:-1] ** 2)

    def product(x):
        return function(x) @ np.ones(6)

    points = np.stack([X, X + 1])
    whole = fg.vmap(function)(points)
    assert whole.data.shape == (2, 10)
    np.testing.assert_allclose(fg.vmap(product)(points), np.stack([product(x) for x in points]))
    with fg.GradientTape() as tape:
        x = fg.constant(X)
        tape.watch(x)
        y = np.sum(product(x))
    np.testing.assert_allclose(tape.gradient(y, x), fg.grad(lambda x: np.sum(product(x)))(X))
    np.testing.assert_allclose(fg.compile(product)(X), product(X))
    np.testing.assert_allclose(
        fg.sparse_jacobian(fg.compile(lambda x: x[1:] * x[:-1] ** 2))(X).toarray(), function(X).toarray()
    )


# In SciPy


def broyden(x):
    """Broyden's tridiagonal equations."""
    padded = np.pad(x, 1)
    return (3 - 2 * x) * x - padded[:-2] - 2 * padded[2:] + 1


def test_least_squares_and_root_of_scipy():
    start = -np.ones(20)
    jacobian = fg.sparse_jacobian(broyden)
    found = scipy.optimize.least_squares(broyden, start, jac=jacobian)
    assert found.success
    assert found.cost < 1e-15
    assert scipy.optimize.root(broyden, start, jac=lambda x: jacobian(x).toarray()).success


def test_minimize_of_scipy():
    found = scipy.optimize.minimize(
        rosenbrock, np.zeros(12), jac=fg.grad(rosenbrock), hess=fg.sparse_hessian(rosenbrock), method="trust-constr"
    )
    np.testing.assert_allclose(found.x, 1, atol=1e-4)


def heat(t, y):
    padded = np.pad(y, 1)
    return 100 * (padded[2:] - 2 * y + padded[:-2])


def test_solve_ivp_of_scipy():
    start = np.sin(np.linspace(0.1, 3, 20))
    jacobian = fg.sparse_jacobian(heat, argnums=1)
    found = scipy.integrate.solve_ivp(heat, (0, 0.1), start, method="BDF", jac=jacobian, rtol=1e-6)
    expected = scipy.integrate.solve_ivp(heat, (0, 0.1), start, method="BDF", rtol=1e-6)
    assert found.success
    np.testing.assert_allclose(found.y[:, -1], expected.y[:, -1], rtol=1e-4, atol=1e-8)
    assert found.nfev <= expected.nfev


# In fgrad's solvers, which differentiate the solution


def shifted_broyden(x, a):
    return broyden(x) + a


def test_roots_and_least_squares_with_sparse_jacobians():
    start, jacobian = -np.ones(8), fg.sparse_jacobian(shifted_broyden)

    def total(solver, jac, **options):
        return fg.grad(lambda a: np.sum(solver(shifted_broyden, start, jac=jac, args=(a,), **options).x))(0.5)

    expected = total(fgrad.scipy.optimize.root, None)
    np.testing.assert_allclose(total(fgrad.scipy.optimize.root, jacobian), expected, rtol=1e-8)
    np.testing.assert_allclose(total(fgrad.scipy.optimize.root, jacobian, method="lm"), expected, rtol=1e-6)
    np.testing.assert_allclose(total(fgrad.scipy.optimize.least_squares, jacobian), expected, rtol=1e-8)


@pytest.mark.parametrize("method", ["trust-constr", "Newton-CG", "trust-exact", "trust-ncg"])
def test_minima_with_sparse_hessians(method):
    def loss(x, a):
        return np.sum((x[1:] - a * x[:-1]) ** 2) + np.sum((x - 1) ** 4)

    def total(a, **options):
        return np.sum(fgrad.scipy.optimize.minimize(loss, np.zeros(5), args=(a,), tol=1e-10, **options).x)

    found = fg.grad(total)(1.2, jac=fg.grad(loss), hess=fg.sparse_hessian(loss), method=method)
    np.testing.assert_allclose(found, fg.grad(total)(1.2), rtol=1e-4)


@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_solutions_of_stiff_equations_with_sparse_jacobians(method):
    def slope(t, y, k):
        return k * heat(t, y)

    start, jacobian = np.sin(np.linspace(0.1, 3, 8)), fg.sparse_jacobian(slope, argnums=1)

    def total(k, **options):
        found = fgrad.scipy.integrate.solve_ivp(slope, (0, 0.1), start, args=(k,), rtol=1e-7, atol=1e-9, **options)
        return np.sum(found.y[:, -1])

    found = fg.grad(total)(0.1, method=method, jac=jacobian, derivative="adjoint")
    np.testing.assert_allclose(found, fg.grad(total)(0.1), rtol=1e-4)
    np.testing.assert_allclose(total(0.1, method=method, jac=jacobian), total(0.1), rtol=1e-5)


# Errors

DIAGONAL = fg.sparse_jacobian(np.sin).plan(X)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: fg.sparse_jacobian(np.sin)(np.arange(3)), errors.IntegerInputError, "which has no derivative"),
        (lambda: fg.sparse_jacobian(np.sin)(np.ones(2) * 1j), errors.DtypeError, "dtype is complex128.*two arguments"),
        (lambda: fg.sparse_jacobian(np.sin, mode="both")(X), errors.ParameterError, '"auto", "forward" or "reverse"'),
        (lambda: fg.sparse_jacobian(lambda x: 1j * x, mode="reverse")(X), errors.ParameterError, 'mode="forward"'),
        (lambda: fg.sparse_jacobian(np.sin, chunk_size=0)(X), errors.ParameterError, "chunk_size"),
        (lambda: fg.sparse_jacobian(np.sin, sparsity=np.eye(5))(X), errors.ShapeError, "5 columns.*6 numbers"),
        (lambda: fg.sparse_jacobian(np.sin, sparsity=np.ones(6))(X), errors.ShapeError, "must be a matrix"),
        (lambda: fg.sparse_jacobian(np.sin, sparsity=DIAGONAL)(X[:5]), errors.ShapeError, "6 columns.*5 numbers"),
        (lambda: fg.sparse_jacobian(np.sin, sparsity=np.ones((5, 6)))(X), errors.SparsityError, "rows than its 5"),
        (lambda: fg.sparse_jacobian(np.sin, "forward", sparsity=np.ones((5, 6)))(X), errors.ParameterError, "forward"),
        (lambda: fg.sparse_jacobian(np.cumsum, sparsity=np.eye(6))(X), errors.SparsityError, "`sparsity` has none"),
        (lambda: fg.sparse_hessian(np.sin)(X), errors.NonScalarError, "shape"),
        (lambda: fg.sparsity(lambda x: None)(X), errors.NoResultError, "forget to return"),
        (lambda: fg.sparsity(3.0), errors.NotCallableError, "sparsity takes a function"),
        (lambda: fg.sparsity(lambda x: x * np.sum(x))(np.ones(12_000)), errors.SparsityError, "Use products"),
    ],
)  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error, match=f"(?s){text}"):
        call()


def test_a_function_that_is_never_twice_the_same_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(errors.SparsityError, match="draws random numbers"):
        fg.sparse_jacobian(lambda x: x * rng.normal(size=6), chunk_size=1)(X)
