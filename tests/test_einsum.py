"""`einsum` by products of matrices: the values and dtypes of NumPy's loop, derivatives, and that BLAS is what runs."""

import sys
import tracemalloc
import types

import numpy as np
import pytest

import fgrad as fg
from fgrad import errors
from fgrad.ops import pairwise

RNG = np.random.default_rng(11)


def _arrays(*shapes, dtype=np.float64):
    arrays = [RNG.uniform(-1.0, 1.0, shape) for shape in shapes]
    if np.dtype(dtype).kind == "c":
        arrays = [x + 1j * RNG.uniform(-1.0, 1.0, x.shape) for x in arrays]
    return [x.astype(dtype) for x in arrays]


FORMS = [
    ("ij,jk->ik", (9, 8), (8, 10)),
    ("ij,jk->ki", (9, 8), (8, 10)),
    ("ji,kj->ik", (8, 9), (10, 8)),
    ("bij,bjk->bik", (4, 6, 5), (4, 5, 7)),
    ("hqd,hkd->hqk", (3, 7, 6), (3, 8, 6)),
    ("hqd,hdw->qw", (3, 7, 6), (3, 6, 8)),
    ("qw,hdw->hqd", (7, 8), (3, 6, 8)),
    ("abij,bjka->kbia", (2, 3, 5, 6), (3, 6, 7, 2)),
    ("ij,ij->", (30, 40), (30, 40)),
    ("ij,j->i", (30, 40), (40,)),
    ("i,ij->j", (30,), (30, 40)),
    ("iij,jk->ik", (6, 6, 8), (8, 12)),
    ("bimn,njbk->ibkm", (2, 3, 3, 5), (5, 4, 2, 4)),
    ("bij,bjk->bik", (1, 6, 5), (4, 5, 7)),
    ("ij,jk->ik", (1, 40), (40, 30)),
    ("ij,ijk->ik", (1, 8), (9, 8, 9)),
    ("...ij,...jk->...ik", (2, 1, 6, 5), (3, 5, 7)),
    ("...ij,jk", (2, 3, 6, 5), (5, 7)),
    ("ij,kj,kl->il", (8, 9), (7, 9), (7, 10)),
    ("bij,bjk,bkl->bil", (4, 6, 6), (4, 6, 6), (4, 6, 6)),
    ("i,ij,j->", (30,), (30, 40), (40,)),
    ("iij,jk,k,ll->il", (6, 6, 7), (7, 8), (8,), (4, 4)),
]
LEFT_TO_NUMPY = [
    ("i,j->ij", (30,), (40,)),
    ("ij,j->ij", (30, 40), (40,)),
    ("bi,bi->b", (200, 8), (200, 8)),
    ("ij,jk->ik", (3, 4), (4, 3)),
    ("ij,jk->ik", (0, 90), (90, 80)),
    ("ij,jk->ik", (90, 0), (0, 80)),
    ("ij,kl->", (30, 40), (20, 10)),
    ("ij->j", (30, 40)),
]
TOLERANCES = {"f": 2e-5, "F": 2e-5, "d": 1e-13, "D": 1e-13}


@pytest.mark.parametrize("form", FORMS + LEFT_TO_NUMPY, ids=str)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_values_are_those_of_numpys_loop(form, dtype):
    subscripts, *shapes = form
    arrays = _arrays(*shapes, dtype=dtype)
    expected = np.einsum(subscripts, *(x.astype("D" if dtype in "FD" else "d") for x in arrays))
    turned = [np.ascontiguousarray(x.T).T for x in arrays]
    with_gaps = [np.repeat(x, 2, axis=-1)[..., ::2] for x in arrays]
    backwards = [np.flip(np.flip(x).copy()) for x in arrays]
    for operands in (arrays, turned, with_gaps, backwards):
        for optimize in (False, True, "optimal", ("greedy", 10**6)):
            found = np.einsum(subscripts, fg.constant(operands[0]), *operands[1:], optimize=optimize).numpy()
            assert found.dtype == dtype
            np.testing.assert_allclose(found, expected, rtol=TOLERANCES[dtype], atol=50 * TOLERANCES[dtype])


def _derivatives(subscripts, arrays):
    """Return the gradient, the tangent, and what each is of the other."""

    def loss(*xs):
        return np.sum(np.abs(np.einsum(subscripts, *xs)) ** 2)

    def gradient(*xs):
        return fg.grad(loss, tuple(range(len(xs))))(*xs)

    def tangent(*xs):
        return fg.jvp(loss, xs, directions)[1]

    directions = tuple(np.sin(np.arange(x.size)).reshape(x.shape).astype(x.dtype) for x in arrays)
    batches = tuple(np.stack([x, 2.0 * x]) for x in arrays)
    return [
        *gradient(*arrays),
        tangent(*arrays),
        *fg.jvp(gradient, tuple(arrays), directions)[1],
        *fg.grad(tangent, tuple(range(len(arrays))))(*arrays),
        *fg.vmap(gradient)(*batches),
        *fg.vmap(gradient, in_axes=(0,) + (None,) * (len(arrays) - 1))(batches[0], *arrays[1:]),
    ]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("dtype", ["d", "D"])
def test_derivatives_are_those_of_numpys_loop(form, dtype, monkeypatch):
    subscripts, *shapes = form
    arrays = _arrays(*shapes, dtype=dtype)
    found = _derivatives(subscripts, arrays)
    monkeypatch.setattr(pairwise, "_steps", lambda subscripts, shapes, optimize: ())
    for each, wanted in zip(found, _derivatives(subscripts, arrays), strict=True):
        np.testing.assert_allclose(each, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_what_is_a_product_of_matrices_is_computed_as_one(form, monkeypatch):
    subscripts, *shapes = form
    arrays, loops = _arrays(*shapes), []
    np.einsum(subscripts, fg.constant(arrays[0]), *arrays[1:])  # the path is found
    einsum = np.einsum
    monkeypatch.setattr(pairwise.np, "einsum", lambda text, *xs, **keywords: loops.append(text) or einsum(text, *xs))
    monkeypatch.setattr(pairwise.np, "einsum_path", None)  # it is not looked for again
    explicit = fg.ops.einsums._explicit(subscripts, tuple(x.ndim for x in arrays))
    pairwise.contracted(*arrays, subscripts=explicit)
    assert all("," not in text or len(arrays) > 2 for text in loops)
    assert len(loops) < len(arrays) + (len(arrays) > 2)
    assert not any(text == explicit for text in loops)


@pytest.mark.parametrize("form", LEFT_TO_NUMPY, ids=str)
def test_what_is_left_to_numpys_loop(form):
    subscripts, *shapes = form
    arrays = _arrays(*shapes)
    found = pairwise.contracted(*arrays, subscripts=subscripts)
    np.testing.assert_array_equal(found, np.einsum(subscripts, *arrays))


@pytest.mark.parametrize("dtype", ["e", "g", "i1", "i8", "u4", "?", "O"])
def test_other_dtypes_are_left_to_numpys_loop(dtype):
    for subscripts, *shapes in FORMS:
        if "." not in subscripts:
            arrays = [np.round(3 * x).astype("i8").astype(dtype) for x in _arrays(*shapes)]
            expected = np.einsum(subscripts, *arrays)
            found = pairwise.contracted(*arrays, subscripts=subscripts)
            assert np.asarray(found).dtype == np.asarray(expected).dtype
            np.testing.assert_array_equal(found, expected)


def test_mixed_dtypes_are_promoted_before_anything_is_summed():
    x, y, z = (1.0 + 1e-4 * each for each in _arrays((20, 20), (20, 20), (20, 20)))
    single = [x.astype("f"), y.astype("f"), z]
    for operands in (single, single[::-1], [single[0], z, single[1]]):
        found = np.einsum("ij,jk,kl->il", fg.constant(operands[0]), *operands[1:]).numpy()
        expected = np.einsum("ij,jk,kl->il", *operands)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    gradient = fg.grad(lambda x: np.sum(np.einsum("ij,jk->ik", x, z)))(single[0])
    assert gradient.dtype == np.float32
    gradient = fg.grad(lambda x: np.real(np.sum(np.einsum("ij,jk->ik", x, 1j * z) ** 2)))(x)
    assert gradient.dtype == np.float64


def test_results_lie_in_c_order():
    for subscripts, *shapes in FORMS:
        result = np.einsum(subscripts, *(fg.constant(x) for x in _arrays(*shapes))).numpy()
        assert np.asarray(result).flags.c_contiguous


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.einsum("ij,jk->ikl", x, x),
        lambda x: np.einsum("ij,jk->ii", x, x),
        lambda x: np.einsum("ij,jk->ik", x, x[:-1]),
        lambda x: np.einsum("ijk,jk->ik", x, x),
        lambda x: np.einsum("ij,jk,kl->il", x, x[:-1], x),
        lambda x: np.einsum("ij,jk,kl->il", x, x, x, optimize="best"),
        lambda x: np.einsum("ij,jk->ik", x, x, optimize=("greedy", 1, 2)),
        lambda x: np.einsum("ii,ij->ij", x[:-1], x),
    ],
)
def test_what_numpy_refuses(call):
    x = np.ones((20, 20))
    with pytest.raises(Exception) as numpys:  # noqa: PT011  # which it is, depends on the call and on NumPy
        call(x)
    with pytest.raises(numpys.type):
        fg.vjp(call, x)


def test_memory_on_the_way():
    """Without a path that the user asks for, no result on the way is larger than what there is anyway."""
    a, b, c = _arrays((400, 2), (400, 2), (400, 2))
    tracemalloc.start()
    for optimize, most in ((False, 100_000), (True, 2_000_000)):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        found = pairwise.contracted(a, b, c, subscripts="id,jd,je->ie", optimize=optimize)
        assert tracemalloc.get_traced_memory()[1] - before < most
        np.testing.assert_allclose(found, a @ (b.T @ c))
    tracemalloc.stop()


def test_a_path_in_lists():
    a, b, c = _arrays((9, 9), (9, 9), (9, 9))
    path = ["einsum_path", [1, 2], [0, 1]]
    expected = fg.grad(lambda x: np.sum((x @ b @ c) ** 2))(a)
    found = fg.grad(lambda x: np.sum(np.einsum("ij,jk,kl->il", x, b, c, optimize=path) ** 2))(a)
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(
        fg.vmap(lambda x: np.einsum("ij,jk,kl->il", x, b, c, optimize=path))(a[None])[0], a @ b @ c
    )


def test_paths_by_opt_einsum(monkeypatch):
    """Where it is installed, it is asked for paths: once for given shapes, with the limit that holds without it."""
    asked = []

    def contract_path(subscripts, *shapes, **keywords):
        asked.append((subscripts, *shapes, keywords))
        return [(2, 1), (1, 0)], None

    finder = types.SimpleNamespace(contract_path=contract_path)
    monkeypatch.setitem(sys.modules, "opt_einsum", finder)
    pairwise._opt_einsum.cache_clear()
    pairwise._steps.cache_clear()
    try:
        a, b, c = _arrays((9, 4), (4, 8), (8, 11))
        for _ in range(2):
            for optimize in (False, True, "dp", ("greedy", 50)):
                found = pairwise.contracted(a, b, c, subscripts="ij,jk,kl->il", optimize=optimize)
                np.testing.assert_allclose(found, a @ b @ c)
    finally:
        pairwise._opt_einsum.cache_clear()
        pairwise._steps.cache_clear()
    call = "ij,jk,kl->il", (9, 4), (4, 8), (8, 11)
    wanted = ("auto", 99), ("auto", 2**62), ("dp", 2**62), ("greedy", 50)
    assert asked == [(*call, {"shapes": True, "optimize": name, "memory_limit": most}) for name, most in wanted]


# matmul and its kin


STACKS = [
    ((16, 8, 9), (9, 7)), ((8, 9), (16, 9, 7)), ((16, 8, 9), (9,)), ((9,), (16, 9, 7)), ((2, 1, 8, 9), (3, 9, 7)),
    ((1, 8, 9), (16, 9, 7)), ((16, 8, 9), (1, 9, 7)), ((16, 1, 9), (9, 1)), ((1, 1), (16, 1, 1)), ((0, 8, 9), (9, 7)),
    ((16, 8, 0), (0, 7)), ((4, 8, 9), (4, 9, 7)), ((1, 1, 8, 9), (9, 7)), ((5, 1, 3, 2), (1, 6, 2, 4)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", STACKS, ids=str)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_derivatives_of_stacked_products(shapes, dtype):
    """They are those of the sums of products, with all axes written out and repeated."""
    x, y = _arrays(*shapes, dtype=dtype)

    def written_out(x, y):
        rows = x if 1 in (x.ndim, y.ndim) else x[..., None, :]
        columns = y if y.ndim == 1 else y.swapaxes(-1, -2)
        columns = columns if 1 in (x.ndim, y.ndim) else columns[..., None, :, :]
        return np.sum(rows * columns, axis=-1)

    ans, pullback = fg.vjp(np.matmul, x, y)
    expected, back = fg.vjp(written_out, x, y)
    np.testing.assert_allclose(ans, expected, rtol=TOLERANCES[dtype], atol=50 * TOLERANCES[dtype])
    (ct,) = _arrays(ans.shape, dtype=dtype)
    for found, wanted in zip(pullback(ct), back(ct), strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=TOLERANCES[dtype], atol=50 * TOLERANCES[dtype])


def test_a_matrix_that_meets_many_gets_one_product():
    """Its cotangent is a sum over all of them, of which no part is written down."""
    many, weights = _arrays((200, 4, 64), (64, 64))
    _, pullback = fg.vjp(np.matmul, many, weights)
    (ct,) = _arrays((200, 4, 64))
    tracemalloc.start()
    _, found = pullback(ct)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * 64 * 64 * 8 / 4
    np.testing.assert_allclose(found, np.einsum("bij,bik->jk", many, ct))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x, y: np.tensordot(x, y, 1), "einsum"),
        (lambda x, y: np.tensordot(x, y, ([0], [1])), "einsum"),
        (lambda x, y: np.dot(x, y), "matmul"),
        (lambda x, y: np.inner(x, y), "einsum"),
        (lambda x, y: np.inner(x[0], y[0]), "matmul"),
        (lambda x, y: np.vdot(x[0], y[0]), "matmul"),
        (lambda x, y: np.cross(x, y), "cross"),
        (lambda x, y: np.linalg.cross(x, y), "cross"),
    ],
)
def test_products_are_one_operation(call, name):
    graph = fg.trace(lambda x, y: call(x, y))(*_arrays((3, 3), (3, 3)))
    steps = [line.split("=", 1)[1].split() for line in str(graph).splitlines() if "=" in line]
    steps = [step[0] for step in steps[2:] if "index" not in step[0]]  # after both inputs
    first, *others = [step.partition("[")[0] for step in steps]
    assert first == name
    assert others in ([], ["reshape", "reshape"])  # which copy a result in Fortran's order, as NumPy's is not in it


@np.errstate(all="ignore")
def test_infinities_of_opposite_sign_in_a_cross_product():
    """What a mask leaves out is no infinity less another one, and what it does not is."""
    bad = np.array([np.inf, np.inf, 1.0])

    def loss(*used):
        return lambda x: np.sum(np.where(np.isin([0, 1, 2], used), np.cross(bad, x), 0.0))

    for gradient in (fg.grad, fg.jacfwd):
        np.testing.assert_array_equal(gradient(loss(2))(np.ones(3)), [-np.inf, np.inf, 0.0])
        np.testing.assert_array_equal(gradient(loss(0))(np.ones(3)), [0.0, -1.0, np.inf])
        np.testing.assert_array_equal(gradient(loss(0, 1))(np.ones(3)), [1.0, -1.0, np.nan])
        np.testing.assert_array_equal(gradient(loss(0, 1, 2))(np.ones(3)), [-np.inf, np.inf, np.nan])
        np.testing.assert_array_equal(gradient(loss())(np.ones(3)), [0.0, 0.0, 0.0])


def test_cross_products_are_numpys_to_the_last_bit():
    for shapes in (((3,), (3,)), ((7, 3), (3,)), ((200, 3), (3,)), ((5, 1, 3), (40, 3))):
        for dtype in TOLERANCES:
            x, y = _arrays(*shapes, dtype=dtype)
            np.testing.assert_array_equal(np.cross(fg.constant(x), y).numpy(), np.cross(x, y))
            assert fg.vjp(np.cross, x, y)[1](np.cross(x, y))[1].dtype == dtype


def test_more_axes_than_letters():
    x = np.ones((1,) * 27)
    with pytest.raises(errors.ParameterError, match="Reshape the arrays"):
        fg.vjp(lambda x: np.tensordot(x, x, 0), x)


def test_arrays_of_another_byte_order_and_off_their_alignment():
    x, y = _arrays((20, 20), (20, 20))
    swapped = x.astype(">f8")
    packed = np.zeros(20 * 20, np.dtype([("byte", "i1"), ("number", "f8")]))
    packed["number"] = x.ravel()
    for each in (swapped, packed["number"].reshape(20, 20)):
        for operands in ((each, each), (each, y), (y, each)):
            found = pairwise.contracted(*operands, subscripts="ij,kj->ik")
            expected = np.einsum("ij,kj->ik", *operands)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)  # sums that cancel


def test_gradients_of_arrays_without_elements():
    """Their axes of size 0 meet axes of size 1, and those that the cotangent lacks."""
    x, one = np.zeros((0, 3)), np.ones((1, 3))
    assert fg.grad(lambda x: np.einsum("ij->", x))(x).shape == (0, 3)
    first, second = fg.grad(lambda x, y: np.sum(np.einsum("ij,ij->i", x, y)), argnums=(0, 1))(x, one)
    assert first.shape == (0, 3)
    np.testing.assert_array_equal(second, np.zeros((1, 3)))
