"""Products of matrices, and what is solved with them, as native code: it answers what the eager operations do."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

import fgrad as fg
from fgrad.core.primitive import PRIMITIVES
from fgrad.native import libraries
from fgrad.native.executable import Executable, NumpyStage
from fgrad.native.nests import Rows
from fgrad.native.nodes import LibraryCall, Remap
from fgrad.native.options import Options
from fgrad.native.plan import _has_overlapping_windows
from fgrad.ops.solving import by_cholesky, by_triangle
from fgrad.testing import calls

PRODUCTS = ["matmul", "matmul_guarded", "einsum", "einsum_guarded", "convolve", "convolve_guarded"]
SOLUTIONS = ["cholesky", "solve_factored", "solve", "solve_both", "inv", "det", "slogdet", "cofactors"]
TOLERANCES = {"float64": 1e-11, "float32": 3e-5}


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def definite(*shape):
    x = normal(*shape)
    return x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])


def compiled(f, *arrays):
    return Executable(fg.trace(f)(*arrays))


def refusals(executable):
    return set(executable.program.refused.values())


def agrees(f, *arrays, tolerance=None, executable=None):
    """Compile a function, see that it answers what it does eagerly, and return the compiled program."""
    executable = executable or compiled(f, *arrays)
    found, wanted = executable.run([np.ascontiguousarray(x) for x in arrays]), f(*arrays)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    assert found is not None, "the run is void"
    for ours, eager in zip(found, map(np.asarray, wanted), strict=True):
        assert (ours.shape, ours.dtype) == (eager.shape, eager.dtype)
        bound = tolerance or TOLERANCES.get(eager.dtype.name, 0)
        np.testing.assert_allclose(ours, eager, rtol=bound, atol=bound * (1 + np.abs(eager).max(initial=0)))
    return executable


def is_native(f, *arrays, tolerance=None):
    """Do the same, where NumPy runs nothing."""
    executable = agrees(f, *arrays, tolerance=tolerance)
    assert refusals(executable) == set()
    return executable


def routines(executable):
    return [node for node in executable.program.all if isinstance(node, LibraryCall)]


# Samples


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [*PRODUCTS, *SOLUTIONS])
def test_samples(name, dtype):
    for call in calls(PRIMITIVES[name], dtype):
        executable = agrees(call.function, *call.arrays)
        is_empty = 0 in call.arrays[0].shape
        assert refusals(executable) == ({f"{name} has no native code for these arguments"} & refusals(executable))
        assert not refusals(executable) or is_empty or name == "cofactors"


@pytest.mark.parametrize("dtype", ["int64", "int8", "bool"])
@pytest.mark.parametrize("name", ["matmul", "einsum", "convolve"])
def test_samples_of_other_numbers(name, dtype):
    for call in calls(PRIMITIVES[name]):
        agrees(call.function, *[np.rint(x * 40).astype(dtype) for x in call.arrays])


# Products


def products(a, b, v, s):
    """Return products of matrices, transposes, slices, vectors and stacks of one size."""
    return (
        a @ b, a.T @ b, a @ b.T, a.T @ b.T, a @ v, v @ a, v @ a.T, v @ v,
        a[:, 1:] @ b[1:], a[::2] @ b, a[:, ::2] @ b[::2], a[::-1] @ b,
        s @ b, a @ s, s @ s, np.swapaxes(s, -1, -2) @ s[0], s[:, None] @ s, s @ v, v @ s,
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 10, 11, 13, 16, 17, 20, 64])
def test_products(size):
    executable = is_native(
        products, normal(size, size), normal(size, size, seed=1), normal(size), normal(3, size, size)
    )
    assert bool(routines(executable)) == (size >= 5)


@pytest.mark.parametrize("size", [3, 12, 40])
def test_products_in_single_precision(size):
    arrays = normal(size, size), normal(size, size, seed=1), normal(size), normal(3, size, size)
    is_native(products, *[x.astype(np.float32) for x in arrays])


@pytest.mark.parametrize("shapes", [
    ((1, 1000), (1000, 1)), ((1000, 1), (1, 30)), ((2, 900), (900, 2)), ((900, 2), (2, 900)), ((1, 50), (50, 50)),
    ((0, 30), (30, 40)), ((30, 0), (0, 40)), ((5, 0, 3), (3, 40)), ((2, 1, 20, 30), (3, 30, 10)),
    ((30, 40), (1, 40, 30)), ((200, 4, 4), (200, 4, 4)), ((7, 20, 20), (20,)), ((20,), (7, 20, 20)),
    ((6, 1, 1), (1, 1)), ((50, 6, 7), (7, 8)),
])  # fmt: skip
def test_products_of_odd_shapes(shapes):
    left, right = shapes
    is_native(lambda a, b: a @ b, normal(*left), normal(*right))


@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ij->i", "ij,ij->ij", "ij->ji", "ij,jk,k->i", "i,->i"])
@pytest.mark.parametrize("size", [1, 2, 40])
def test_sums_of_products_keep_numpys_sign_of_zero(subscripts, size):
    """A sum begins at 0.0, which makes 0.0 of -0.0, also where it has one product only; a view has no sum."""
    shapes = {"ij": (size, 1), "jk": (1, size), "k": (size,), "i": (size,), "": ()}
    terms = subscripts.split("->")[0].split(",")
    first = -1.0 if len(terms) > 1 else -0.0
    arrays = [np.full(shapes[term], 0.0 if place else first) for place, term in enumerate(terms)]
    executable = is_native(lambda *given: np.einsum(subscripts, *given), *arrays)
    wanted = np.einsum(subscripts, *arrays)
    assert np.array_equal(np.signbit(executable.run(arrays)[0]), np.signbit(wanted))


VECTORS = [
    lambda a, v, t, s: v @ a,
    lambda a, v, t, s: a.T @ v,
    lambda a, v, t, s: a.T.copy() @ v,
    lambda a, v, t, s: np.sin(a.T) @ v,
    lambda a, v, t, s: t[::2] @ a,
    lambda a, v, t, s: t[1::2] @ a[:, 5:],
    lambda a, v, t, s: a[:, 5:].T @ t[::2],
    lambda a, v, t, s: v[::-1] @ a,
    lambda a, v, t, s: a[::-1].T @ v,
    lambda a, v, t, s: np.einsum("bi,bij->bj", t[:140].reshape(2, 70), s),
    lambda a, v, t, s: np.einsum("bij,i->bj", s, v),
    lambda a, v, t, s: v @ s,
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(VECTORS)))
def test_large_matrices_summed_along_columns_go_to_blas(place):
    arrays = normal(70, 80), normal(70), normal(140), normal(2, 70, 80)
    assert len(routines(is_native(VECTORS[place], *arrays))) == 1


def test_large_matrices_summed_along_rows_are_loops():
    executable = is_native(lambda a, v, w: (a @ v, v @ a.T, a @ w[::2]), normal(70, 80), normal(80), normal(160))
    assert not routines(executable)


def test_transposes_and_slices_go_to_blas_without_a_copy():
    def f(a, b):
        return a.T @ b[10:50, 3:].T

    executable = is_native(f, normal(30, 40), normal(70, 33))
    (product,) = routines(executable)
    assert list(product.arguments) == executable._inputs


def test_a_stack_times_one_matrix_is_one_product():
    executable = is_native(lambda a, b: a @ b, normal(5, 4, 20, 30), normal(30, 40))
    assert [node.options.stack for node in routines(executable)] == [()]


def test_a_matrix_times_a_stack_is_a_product_for_each():
    executable = is_native(lambda a, b: a @ b, normal(20, 30), normal(5, 30, 40))
    (product,) = routines(executable)
    assert product.options.stack == (5,)
    assert list(product.arguments) == executable._inputs[::-1] or list(product.arguments) == executable._inputs


def test_a_product_in_the_middle_of_a_program():
    is_native(lambda x, w, b: np.tanh(x @ w + b).sum(), normal(64, 128), normal(128, 10), normal(10))
    is_native(lambda x, w: np.sin(x) @ np.cos(w).T, normal(5, 6), normal(7, 6))
    is_native(lambda x, w: (np.sin(x) @ np.cos(w).T)[::2, 1:], normal(35, 36), normal(37, 36))


# einsum

EINSUMS = [
    ("ij->ji", (4, 5)), ("ij->", (4, 5)), ("ijk->ik", (4, 5, 6)), ("iij->ij", (4, 4, 3)), ("ii->", (6, 6)),
    ("i,i->", (9,), (9,)), ("i,j->ij", (20,), (30,)), ("ij,ij->", (30, 40), (30, 40)), ("ij,ij->i", (30, 40), (30, 40)),
    ("ij,jk->ik", (20, 30), (30, 40)), ("ij,jk->ki", (20, 30), (30, 40)), ("ji,kj->ik", (30, 20), (40, 30)),
    ("bij,bjk->bik", (5, 20, 30), (5, 30, 10)), ("bij,bjk->ibk", (5, 20, 30), (5, 30, 10)),
    ("bij,bjk->bik", (1, 20, 30), (5, 30, 10)), ("bhqd,bhkd->bhqk", (2, 3, 10, 8), (2, 3, 12, 8)),
    ("bqhd,bkhd->bhqk", (2, 10, 3, 8), (2, 12, 3, 8)), ("ijkl,klm->mij", (3, 4, 5, 6), (5, 6, 7)),
    ("ijkl,ljm->mik", (3, 4, 5, 6), (6, 4, 7)), ("iijk,kl->jl", (4, 4, 20, 20), (20, 20)),
    ("bi,bij,bj->b", (20, 8), (20, 8, 8), (20, 8)), ("ij,jk,kl->il", (20, 30), (30, 40), (40, 10)),
    ("ij,j,i->ij", (30, 40), (40,), (30,)), ("ab,ac,ad->bcd", (50, 4), (50, 5), (50, 6)), (",ij->j", (), (40, 50)),
    ("ij,kl->", (20, 30), (30, 20)), ("ij,ik->jk", (500, 3), (500, 4)),
    ("i,ij,jk,k->", (20,), (20, 30), (30, 20), (20,)),
]  # fmt: skip


@pytest.mark.parametrize("case", EINSUMS, ids=lambda case: case[0])
def test_einsum(case):
    subscripts, *shapes = case
    is_native(lambda *x: np.einsum(subscripts, *x), *[normal(*shape, seed=place) for place, shape in enumerate(shapes)])


@pytest.mark.parametrize("subscripts", ["i,j->", "ij,kl->ik"])
def test_infinities_in_sums_that_are_taken_first_are_left_to_numpy(subscripts):
    def f(a, b):
        return np.einsum(subscripts, a, b)

    a, b = (normal(*[3] * len(term), seed=place) for place, term in enumerate(subscripts[:-2].split("-")[0].split(",")))
    executable = is_native(f, a, b)
    b.flat[1] = np.inf
    assert executable.run([a, b]) is None


def test_three_matrices_are_two_products():
    executable = compiled(
        lambda a, b, c: np.einsum("ij,jk,kl->il", a, b, c), *[normal(30, 30, seed=k) for k in range(3)]
    )
    assert len(routines(executable)) == 2


# Zeros that win over infinities


def masked(x, w):
    return np.sum(np.where(x > 0, x, 0) @ w)


@pytest.mark.parametrize("size", [3, 30])
def test_zeros_of_a_mask_win_over_infinities(size):
    """Small products tell apart what is used; after large ones the run is void, and NumPy's is right."""
    apply = PRIMITIVES["matmul_guarded"].implementation
    x, w = normal(size, size), normal(size, size, seed=1)
    x[:, 1] = 0
    executable = Executable(fg.trace(lambda x, w: _guarded("matmul_guarded", x, w))(x, w))
    agrees(lambda x, w: apply(x, w, guard=0), x, w, executable=executable)
    w[1, 0] = np.inf
    if size < 10:
        agrees(lambda x, w: apply(x, w, guard=0), x, w, executable=executable)
    assert (executable.run([x, w]) is None) == (size > 10)
    x[0, 1] = 1
    if size < 10:
        agrees(lambda x, w: apply(x, w, guard=0), x, w, executable=executable)


def _guarded(name, *args, **metadata):
    return fg.core.tensor.apply(PRIMITIVES[name], args, {"guard": 0, **metadata})


@pytest.mark.parametrize("guard", [0, 1, 2])
def test_zeros_win_in_sums_of_several_products(guard):
    primitive, subscripts = PRIMITIVES["einsum_guarded"], "ij,jk,k->i"
    arrays = [normal(4, 4), normal(4, 4, seed=1), normal(4)]
    arrays[guard][..., 2] = 0
    for place in range(3):
        if place != guard:
            arrays[place][..., 2] = np.inf

    def f(*x):
        return fg.core.tensor.apply(primitive, x, {"subscripts": subscripts, "guard": guard})

    agrees(f, *arrays)


def test_gradients_behind_a_mask():
    def loss(w, v, x):
        return np.sum(np.maximum(x @ w, 0) @ v)

    def f(*args):
        return fg.grad(loss, argnums=(0, 1))(*args)

    arrays = normal(20, 30), normal(30, 4), normal(40, 20)
    executable = is_native(f, *arrays)
    arrays[2][3, 4] = np.inf
    assert executable.run(list(arrays)) is None


# Convolutions


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [(1, 1), (7, 1), (7, 3), (3, 7), (6, 6), (500, 9), (65, 64)])
def test_convolve(sizes, mode):
    is_native(lambda a, v: np.convolve(a, v, mode), normal(sizes[0]), normal(sizes[1], seed=1))


def test_convolve_with_itself_reversed():
    is_native(lambda a: np.convolve(a[::-1], a, "valid"), normal(6))
    is_native(lambda a: np.convolve(a, a), normal(6))


def test_a_correlation_of_booleans_is_one():
    x = np.array([True, False, True, True])
    agrees(lambda x: np.correlate(x, x, "same"), x)
    assert fg.vmap(lambda x: np.correlate(x, x, "same"))(np.stack([x, x])).dtype == np.bool_


def test_a_convolution_of_infinities_is_left_to_numpy():
    """Zeros beyond the ends would make NaN of them."""
    executable = compiled(np.convolve, normal(8), normal(3))
    assert executable.run([np.full(8, np.inf), np.ones(3)]) is None
    assert executable.run([np.ones(8), np.ones(3)]) is not None


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8"])
@pytest.mark.parametrize("mode", ["full", "valid"])
def test_long_kernels(dtype, mode):
    rng = np.random.default_rng(2)
    a, v = ((rng.normal(size=size) * 5).astype(dtype) for size in (300, 200))
    is_native(lambda a, v: np.convolve(a, v, mode), a, v)


@pytest.mark.parametrize("count", [5, 8, 13, 101, 4000])
def test_moving_sums_in_parts(count):
    """Parts have whole vectors of sums; the last one has some sums of the part before it once more."""
    a, v = normal(40_000), normal(40_001 - count, seed=1) / 100

    def f(a, v):
        return np.correlate(a, v, "valid")

    one, two = (fg.compile(f, threads=threads) for threads in (1, 2))
    np.testing.assert_array_equal(one(a, v), two(a, v))
    np.testing.assert_allclose(one(a, v), f(a, v), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("columns", [3, 8, 9, 33, 600])
def test_few_sums_of_many_numbers_in_parts(columns):
    """The parts are along the sums, where there are too few of these."""
    x = normal(900_000 // columns, columns)
    kinds = [lambda x: np.sum(x * x, 0), lambda x: np.max(x, 0), lambda x: np.all(x > -9, 0)]
    for f in (*kinds, lambda x: [kind(x) for kind in kinds]):  # each alone, and all in one nest
        one, two = (np.asarray(fg.compile(f, threads=threads)(x), float) for threads in (1, 2))
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, np.asarray(f(x), float), rtol=1e-11)


def test_each_sum_over_windows_has_loops_of_its_own():
    """What is summed up both ways is computed once for each element, not for each window."""

    def f(a, v):
        return np.sum(np.convolve(2 * a + 1, v, "valid") ** 2)

    executable = is_native(fg.grad(f, argnums=(0, 1)), normal(900), normal(70, seed=1))
    nests = [list(item.writes) for item in executable.plan.items if isinstance(item, Rows)]
    large = [nest for nest in nests if nest[0].value.size > 50_000]
    assert [len(nest) for nest in large] == [1, 1, 1]
    for (write,) in large:
        (windows,) = [each for each in write.value.arguments if _has_overlapping_windows(each)]
        while isinstance(windows, Remap):
            windows = windows.arguments[0]
        assert windows in executable.plan.stored


# Factors and solutions

STACKS = [(), (3,), (2, 1)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 20, 64])
def test_factors(size):
    def f(a, b):
        factors = np.linalg.cholesky(a), np.linalg.cholesky(np.swapaxes(a, -1, -2))
        return (*factors, np.linalg.inv(b), np.linalg.det(b), *np.linalg.slogdet(b))

    for stack in STACKS:
        is_native(f, definite(*stack, size, size), definite(*stack, size, size) - normal(size, size), tolerance=1e-9)


@pytest.mark.parametrize("size", [1, 2, 5, 20, 64])
@pytest.mark.parametrize("stack", STACKS)
def test_triangles(stack, size):
    def f(a, one, many):
        turned = np.swapaxes(a, -1, -2)
        return tuple(
            by_triangle(each, b, triangle, of_transpose)
            for each in (a, turned)
            for b in (one, many)
            for triangle in ("lower", "upper")
            for of_transpose in (False, True)
        )

    is_native(f, definite(*stack, size, size), normal(*stack, size, 1), normal(size, 3), tolerance=1e-10)


@pytest.mark.parametrize("size", [1, 2, 5, 20, 64])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_solve(size, dtype):
    """Matrices that are far from diagonal: their rows are exchanged."""

    def f(a, one, many, stack):
        a_side, stack_side = (fg.core.tensor.apply(PRIMITIVES["solve"], (x, y)) for x, y in ((a, stack), (stack, many)))
        return np.linalg.solve(a, one), np.linalg.solve(a, many), np.linalg.solve(a.T, many), a_side, stack_side

    arrays = normal(size, size), normal(size), normal(size, 3), normal(2, size, size)
    executable = is_native(f, *[x.astype(dtype) for x in arrays], tolerance=1e-8 if dtype == "float64" else 3e-2)
    assert len({type(stage) for stage in executable.stages}) == 1


def test_what_is_factored_once_is_one_call():
    def f(a, b):
        return fg.grad(lambda a, b: np.sum(np.linalg.solve(a, b) ** 2), argnums=(0, 1))(a, b)

    executable = is_native(f, definite(6, 6), normal(6))
    assert [node.routine for node in routines(executable)].count("lu") == 1


def test_factors_that_warn_stay_with_numpy_and_are_used():
    a, b = definite(6, 6), normal(6, 2)
    executable = agrees(by_cholesky, a, b)
    assert refusals(executable) == {"cholesky_factor has no native code"}
    assert [node.routine for node in routines(executable)] == ["solve"]


@pytest.mark.parametrize("f", [
    np.linalg.cholesky, np.linalg.inv, lambda a: np.linalg.solve(a, a[0]), lambda a: by_triangle(a, a[:, :1], "lower"),
])  # fmt: skip
@pytest.mark.parametrize("stack", [(), (3,)])
def test_without_factors_a_run_is_void(f, stack):
    if stack:
        single = f
        f = fg.vmap(single)
    a = np.broadcast_to(np.eye(5), (*stack, 5, 5)).copy()
    executable = compiled(f, a)
    assert executable.run([a]) is not None
    a[..., 3, 3] = 0
    assert executable.run([a]) is None
    with pytest.raises(np.linalg.LinAlgError):
        f(a)


def test_determinants_of_singular_matrices():
    a = np.ones((2, 3, 3))
    is_native(np.linalg.det, a)
    sign, logarithm = compiled(lambda a: tuple(np.linalg.slogdet(a)), a).run([a])
    assert sign.tolist() == [0, 0]
    assert logarithm.tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("f", [np.linalg.det, lambda a: tuple(np.linalg.slogdet(a)), np.linalg.inv])
def test_infinities_and_nan_among_the_pivots_are_left_to_numpy(f, bad):
    fast = fg.compile(f)
    for size in (1, 3, 20):
        for place in range(size):
            a = normal(size, size)
            a[place, place - 1] = bad
            for found, wanted in zip(np.atleast_1d(fast(a)), np.atleast_1d(f(a)), strict=True):
                np.testing.assert_array_almost_equal(found, wanted, decimal=9)


def test_what_is_solved_and_a_determinant_share_factors():
    executable = compiled(lambda a, b: (np.linalg.solve(a, b), np.linalg.slogdet(a)[1]), definite(4, 4), normal(4))
    assert sum(each.routine == "lu" for each in routines(executable)) == 1


def test_cofactors_of_singular_matrices_are_left_to_numpy():
    executable = compiled(fg.grad(np.linalg.det), np.eye(3))
    assert executable.run([np.diag([1.0, 2.0, 0.0])]) is None
    agrees(fg.grad(np.linalg.det), normal(3, 3), executable=executable)


def test_an_error_of_numpys_behind_a_void_run_is_not_its_answer():
    """What follows a matrix without factors gets NaN, and may complain of that."""
    executable = compiled(lambda a: np.linalg.eigh(np.linalg.cholesky(a))[0], np.eye(3))
    assert any(isinstance(stage, NumpyStage) for stage in executable.stages)
    assert executable.run([-np.eye(3)]) is None


# Gradients

GRADIENTS = {
    "layer": (lambda w, x, b: np.sum(np.tanh(x @ w + b) ** 2), (9, 10), (30, 9), (10,)),
    "rectified": (lambda w, x, b: np.sum(np.maximum(x @ w + b, 0) ** 2), (9, 10), (30, 9), (10,)),
    "stack": (lambda x, w: np.sum(np.sin(x @ w)), (4, 8, 9), (9, 8)),
    "broadcast": (lambda x, w: np.sum(np.sin(x @ w)), (4, 1, 8, 9), (3, 9, 8)),
    "vectors": (lambda a, v: v @ np.sin(a @ v), (12, 12), (12,)),
    "einsum": (lambda a, b, c: np.sum(np.einsum("ij,jk,kl->il", a, b, c) ** 2), (9, 12), (12, 11), (11, 9)),
    "form": (lambda a, b, c: np.sum(np.einsum("bi,bij,bj->b", a, b, c) ** 2), (9, 6), (9, 6, 6), (9, 6)),
    "diagonal": (lambda a: np.sum(np.einsum("ii->i", a) ** 2), (9, 9)),
    "tensordot": (lambda a, b: np.sum(np.tensordot(a, b) ** 2), (4, 6, 7), (6, 7, 5)),
    "convolve": (lambda a, v: np.sum(np.convolve(a, v) ** 2), (40,), (5,)),
    "same": (lambda a, v: np.sum(np.convolve(a, v, "same") ** 2), (40,), (5,)),
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gradients(name, dtype):
    f, *shapes = GRADIENTS[name]
    arrays = [normal(*shape, seed=place).astype(dtype) for place, shape in enumerate(shapes)]

    def both(*args):
        value, gradients = fg.value_and_grad(f, argnums=tuple(range(len(args))))(*args)
        return (value, *gradients)

    is_native(both, *arrays)


SOLVED = {
    "solve": lambda a: np.sum(np.linalg.solve(a, a[0] ** 2) ** 2),
    "inverse": lambda a: np.sum(np.linalg.inv(a) ** 3),
    "cholesky": lambda a: np.sum(np.linalg.cholesky(a) ** 3),
    "det": np.linalg.det,
    "slogdet": lambda a: np.linalg.slogdet(a)[1],
    "likelihood": lambda a: np.sum(by_triangle(np.linalg.cholesky(a), a[:, :1], "lower") ** 2),
}


@pytest.mark.parametrize("name", SOLVED)
@pytest.mark.parametrize("size", [1, 4, 20])
def test_gradients_of_solutions(name, size):
    def both(a):
        return fg.value_and_grad(SOLVED[name])(a)

    executable = agrees(both, definite(size, size) / size, tolerance=1e-9)
    assert refusals(executable) <= {"diagonal has no native code"}


def test_second_derivatives():
    agrees(lambda a, v: fg.hvp(SOLVED["inverse"])(a, v), definite(4, 4), normal(4, 4), tolerance=1e-9)
    agrees(lambda w: fg.hessian(lambda w: np.sum(np.tanh(w @ w.T)))(w), normal(3, 4))


# Without SciPy


def test_without_scipy_numpy_runs_what_no_loop_does(monkeypatch):
    monkeypatch.setattr(libraries, "address", lambda name: None)
    is_native(lambda a, b: a @ b, normal(4, 5), normal(5, 6))
    for f in (lambda a: a @ a, np.linalg.inv, np.linalg.cholesky, np.linalg.slogdet):
        executable = agrees(lambda a, f=f: tuple(f(a)), definite(30, 30))
        assert not routines(executable)
        assert len(refusals(executable)) == 1


# In parts, on several cores


def in_parts(f, *arrays):
    """Check a product with one thread and with two, and that both computed the same parts."""
    found = []
    for threads in (1, 2):
        executable = Executable(fg.trace(f)(*arrays), Options(threads=threads))
        assert "_job" in executable.llvm
        agrees(f, *arrays, executable=executable)
        found.append(executable.run(arrays)[0])
    np.testing.assert_array_equal(*found)


LARGE = {
    "rows": ((700, 80), (80, 200)),
    "columns": ((70, 300), (300, 900)),
    "most rows": ((1100, 64), (64, 128)),
    "a stack": ((20, 130, 40), (20, 40, 90)),
    "a stack of one matrix": ((1, 300, 200), (1, 200, 150)),
    "a stack and a matrix": ((130, 40), (20, 40, 90)),
}


@pytest.mark.skipif(not libraries.runs_in_one_thread(), reason="products run in threads of BLAS here")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", LARGE)
def test_large_products_are_computed_in_parts(name, dtype):
    x, y = (normal(*shape).astype(dtype) for shape in LARGE[name])
    turned_x, turned_y = (np.ascontiguousarray(np.swapaxes(each, -1, -2)) for each in (x, y))
    larger = normal(*y.shape[:-1], y.shape[-1] + 3).astype(dtype)
    in_parts(lambda x, y: x @ y, x, y)
    in_parts(lambda x, y: np.swapaxes(x, -1, -2) @ y, turned_x, y)
    in_parts(lambda x, y: x @ np.swapaxes(y, -1, -2), x, turned_y)
    in_parts(lambda x, y: np.swapaxes(x, -1, -2) @ np.swapaxes(y, -1, -2), turned_x, turned_y)
    in_parts(lambda x, y: x @ y[..., 2:-1], x, larger)


@pytest.mark.skipif(not libraries.runs_in_one_thread(), reason="products run in threads of BLAS here")
@pytest.mark.parametrize("shape", [(5000, 150), (150, 5000), (1100, 500)])
def test_products_of_large_matrices_and_vectors_are_computed_in_parts(shape):
    matrix, across, down = normal(*shape), normal(shape[1]), normal(shape[0])
    in_parts(lambda m, v: m @ v, matrix, across)
    in_parts(lambda m, v: v @ m, matrix, down)
    in_parts(lambda m, v: m.T @ v, matrix, down)
    in_parts(lambda m, v: v @ m.T, matrix, across)
    in_parts(lambda m, v: m @ v[:, 1], matrix, normal(shape[1], 3))


def test_products_run_in_the_thread_that_calls_and_the_users_library_keeps_its_threads():
    """In a process of its own, since the number of threads is one for all of them."""
    program = """
import ctypes, glob, os, time
import numpy as np, scipy, scipy.linalg
import fgrad as fg
from fgrad.native import libraries

(path,) = glob.glob(os.path.dirname(scipy.__path__[0]) + "/scipy.libs/libscipy_openblas-*.so")
users = ctypes.CDLL(path)
wanted = users.scipy_openblas_get_num_threads()
count = lambda: len(os.listdir("/proc/self/task"))
before = count()
x = np.ones((300, 300))
assert fg.compile(lambda x: x @ x, threads=1)(x)[0, 0].item() == 300
end = time.monotonic() + 20
while count() > before and time.monotonic() < end:  # threads that have compiled are about to end
    time.sleep(0.01)
assert count() == before, (before, count())
assert users.scipy_openblas_get_num_threads() == wanted
assert libraries._own_library().scipy_openblas_get_num_threads() == 1
assert libraries.address("dgemm") != libraries.address("dgemm", True)
child = os.fork()
if not child:
    right = fg.compile(lambda x: x @ (2 * x), threads=2)(x)[0, 0].item() == 600
    os._exit(0 if right else 1)
assert os.waitpid(child, 0)[1] == 0
print("done")
"""
    if not libraries.runs_in_one_thread():
        pytest.skip("products run in threads of BLAS here")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]  # of forks, with threads of BLAS's
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("done\n", "", 0)


def test_large_factorizations_use_threads_of_lapack():
    if not libraries.runs_in_one_thread():
        pytest.skip("products run in threads of BLAS here")
    for size, uses_threads in ((64, False), (1024, True)):
        llvm = compiled(np.linalg.cholesky, np.eye(size)).llvm
        assert [str(libraries.address("dpotrf", each)) in llvm for each in (False, True)] == [
            not uses_threads, uses_threads,
        ]  # fmt: skip


def test_without_a_library_of_its_own_native_code_calls_the_users(monkeypatch):
    monkeypatch.setattr(libraries, "_second_copy", lambda path: ctypes.CDLL("no such file"))
    for each in (libraries.address, libraries._own_library):
        each.cache_clear()
    try:
        assert not libraries.runs_in_one_thread()
        assert libraries.address("dgemm") == libraries.address("dgemm", True)
        executable = is_native(lambda x, y: x @ y, normal(700, 80), normal(80, 200))
        assert "_job" not in executable.llvm
    finally:
        for each in (libraries.address, libraries._own_library):
            each.cache_clear()
