"""Functions that move, repeat, join, part, remove and insert elements, and that make rows of numbers."""

import numpy as np
import pytest
from rows import check_row, identified

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.tensor import Tensor
from fgrad.testing import check_grads

RNG = np.random.default_rng(2)
V = RNG.uniform(0.3, 1.5, 4)
M = RNG.uniform(0.3, 1.5, (2, 3))
S = RNG.uniform(0.3, 1.5, (3, 3))
C = RNG.uniform(0.3, 1.5, (2, 3, 4))
X = np.array(0.7)
Z = V + 1j * V[::-1]
windows = np.lib.stride_tricks.sliding_window_view

ROWS = [
    ("permute_dims", lambda x: np.permute_dims(x, (2, 0, 1)), C),
    ("matrix_transpose", lambda x: np.matrix_transpose(x), C),
    ("concat", lambda x, y: np.concat([x, y], axis=-1), M, M * 2),
    ("concatenate dtype", lambda x: np.concatenate([x, x], dtype=np.complex128, casting="safe"), M),
    ("stack dtype", lambda x: np.stack([x, x], dtype=np.complex128, casting="unsafe"), M),
    ("concatenate numbers in lists", lambda x: np.concatenate([x, [1, 2]]), V),
    ("broadcast_arrays", lambda x, y: np.broadcast_arrays(x, y[:, None], 2.0), V, V[:2]),
    ("atleast_1d", lambda x: np.atleast_1d(x) * 2, X),
    ("atleast_2d", lambda x: np.atleast_2d(x) * 2, V),
    ("atleast_3d of a number", lambda x: np.atleast_3d(x) * 2, X),
    ("atleast_3d of a vector", lambda x: np.atleast_3d(x) * 2, V),
    ("atleast_3d of several", lambda x, y: [2 * each for each in np.atleast_3d(x, y)], M, C),
    ("dstack", lambda x, y: np.dstack([x, y]), V, V),
    ("dstack of matrices", lambda x: np.dstack((x, M)), M),
    ("column_stack", lambda x, y: np.column_stack([x, y]), M, V[:2]),
    ("vstack", lambda x, y: np.vstack([x, y]), V, V),
    ("hstack", lambda x, y: np.hstack([x, y]), X, V),
    ("block", lambda x, y: np.block([[x, np.zeros((2, 1))], [y, 1.0]]), M, V[:3]),
    ("block of one list", lambda x: np.block([x, 2.0, x]), V),
    ("block of no list", lambda x: np.block(x) * 2, V),
    ("unstack", lambda x: np.unstack(x, axis=1), C),
    ("unstack negative axis", lambda x: np.unstack(x, axis=-1), M),
    ("hsplit", lambda x: np.hsplit(x, [1]), M),
    ("hsplit of a vector", lambda x: np.hsplit(x, 2), V),
    ("vsplit", lambda x: np.vsplit(x, 2), M),
    ("dsplit", lambda x: np.dsplit(x, 2), C),
    ("flip", lambda x: np.flip(x), C),
    ("flip axes", lambda x: np.flip(x, (0, -1)), C),
    ("fliplr, flipud", lambda x: np.fliplr(x) * np.flipud(x), M),
    ("rot90", lambda x: np.rot90(x), M),
    ("rot90 twice", lambda x: np.rot90(x, 2, axes=(1, 2)), C),
    ("rot90 back", lambda x: np.rot90(x, -1, axes=(2, 0)), C),
    ("rot90 not at all", lambda x: np.rot90(x, 4) * x, M),
    ("roll", lambda x: np.roll(x, 2), M),
    ("roll axis", lambda x: np.roll(x, -1, axis=1), M),
    ("roll axes", lambda x: np.roll(x, (1, 2), axis=(0, -1)), C),
    ("roll one shift for all axes", lambda x: np.roll(x, 1, axis=(0, 1)), C),
    ("tile", lambda x: np.tile(x, 2), M),
    ("tile axes", lambda x: np.tile(x, (2, 1, 3)), M),
    ("tile fewer", lambda x: np.tile(x, (2,)), C),
    ("repeat", lambda x: np.repeat(x, 2), M),
    ("repeat axis", lambda x: np.repeat(x, 3, axis=-1), M),
    ("repeat counts", lambda x: np.repeat(x, [1, 0, 2], axis=1), M),
    ("resize", lambda x: np.resize(x, (3, 3)), M),
    ("resize to fewer", lambda x: np.resize(x, 4), M),
    ("append", lambda x, y: np.append(x, y), M, V),
    ("append axis", lambda x: np.append(x, [[1.0, 2.0, 3.0]], axis=0), M),
    ("delete", lambda x: np.delete(x, 1), M),
    ("delete list", lambda x: np.delete(x, [0, -1], axis=1), M),
    ("delete slice", lambda x: np.delete(x, slice(None, None, 2), axis=1), C),
    ("delete mask", lambda x: np.delete(x, [True, False, True], axis=1), M),
    ("insert", lambda x, v: np.insert(x, 1, v), M, X),
    ("insert several at one place", lambda x, v: np.insert(x, [2], v), V, V),
    ("insert rows", lambda x, v: np.insert(x, [0, 2, 2], v, axis=1), M, V[:3]),
    ("insert a row", lambda x, v: np.insert(x, 1, v, axis=0), M, V[:3]),
    ("insert a column", lambda x, v: np.insert(x, -1, v, axis=1), M, V[:2]),
    ("insert at a slice", lambda x: np.insert(x, slice(0, 3, 2), 0.5), V),
    ("insert at a mask", lambda x: np.insert(x, np.array([True, False, True, False]), [5.0, 6.0]), V),
    ("sliding_window_view", lambda x: windows(x, 3), V),
    ("sliding_window_view of axes", lambda x: windows(x, (2, 3), axis=(0, 2)), C),
    ("sliding_window_view of all axes", lambda x: windows(x, (1, 2)), M),
    ("diag of a vector", lambda x: np.diag(x, 1), V),
    ("diag of a matrix", lambda x: np.diag(x, -1), S),
    ("diagonal", lambda x: np.diagonal(x, 1, 0, 2), C),
    ("diagflat", lambda x: np.diagflat(x, -2), M),
    ("trace", lambda x: np.trace(x), M),
    ("trace of axes", lambda x: np.trace(x, 1, axis1=-1, axis2=0), C),
    ("trace dtype", lambda x: np.trace(x, dtype=np.complex128), S),
    ("tril", lambda x: np.tril(x, -1), C),
    ("triu", lambda x: np.triu(x, 1), C),
    ("tril of a vector", lambda x: np.tril(x), V),
    ("tril_indices_from", lambda x: x[np.tril_indices_from(x)] * x[np.triu_indices_from(x)], S),
    ("diag_indices_from", lambda x: x[np.diag_indices_from(x)], S),
    ("meshgrid", lambda x, y: np.meshgrid(x, y), V, V[:2]),
    ("meshgrid ij", lambda x, y: np.meshgrid(x, y, [1.0, 2.0], indexing="ij"), V, V[:2]),
    ("meshgrid sparse", lambda x, y: np.meshgrid(x, y, sparse=True), V, V[:2]),
    ("meshgrid of one", lambda x: np.meshgrid(x), V),
    ("complex parts", lambda x: np.roll(np.tile(np.flip(x), 2), 1)[2:] * np.append(x, 1j)[:2].sum(), Z),
    ("linspace", lambda a, b: np.linspace(a, b, 5), X, X * 3),
    ("linspace without end", lambda a: np.linspace(a, 2, 4, endpoint=False), X),
    ("linspace with step", lambda b: np.linspace(0, b, 4, retstep=True), X),
    ("linspace of arrays", lambda a, b: np.linspace(a, b, 3, axis=-1), V, V[0]),
    ("linspace of one", lambda a, b: np.linspace(a, b, 1), X, X * 3),
    ("linspace of none", lambda a, b: np.linspace(a, b, 0) + a, X, X * 3),
    ("linspace dtype", lambda a: np.linspace(a, 5.0, 4, dtype=np.complex128) * 1j, X),
    ("linspace of complex numbers", lambda a: np.linspace(a, 5.0, 4), Z[0]),
    ("linspace of integers", lambda a: a * np.linspace(a, 5.3, 4, dtype=int), X),
    ("logspace", lambda a, b: np.logspace(a, b, 4), X, X * 3),
    ("logspace base", lambda a, base: np.logspace(a, 2.0, 4, base=base, endpoint=False), X, V),
    ("geomspace", lambda a, b: np.geomspace(a, b, 5), X, X * 30),
    ("geomspace below 0", lambda a: np.geomspace(-a, -9.0, 4, endpoint=False), X),
    ("geomspace of arrays", lambda a: np.geomspace(a, 9.0, 3, axis=1), V),
    ("geomspace of complex numbers", lambda a, b: np.geomspace(a, b, 4), Z[0], 3 * Z[1]),
    ("reshape -1", lambda x: np.reshape(x, (-1, 2), order="F", copy=True), C),
    ("expand_dims", lambda x: np.expand_dims(x, (1, -1)), M),
]


@pytest.mark.parametrize("row", [pytest.param(row[1:], id=row[0]) for row in ROWS])
def test_values_and_derivatives(row):
    check_row(*row)


def test_rows_have_names_of_their_own():
    assert len(identified(ROWS)) == len(ROWS)


PADS = [
    ("constant", {}), ("constant", {"constant_values": 2.0}),
    ("constant", {"constant_values": ((1.0, 2.0), (3.0, 4.0))}),
    ("edge", {}), ("linear_ramp", {}), ("linear_ramp", {"end_values": ((1.0, -1.0), (2.0, 0.5))}),
    ("maximum", {}), ("maximum", {"stat_length": 1}), ("minimum", {"stat_length": ((1, 2), (2, 9))}),
    ("mean", {}), ("mean", {"stat_length": 2}), ("median", {}), ("median", {"stat_length": ((2, 1),)}),
    ("reflect", {}), ("reflect", {"reflect_type": "odd"}), ("symmetric", {}), ("symmetric", {"reflect_type": "odd"}),
    ("wrap", {}),
]  # fmt: skip
WIDTHS = [1, ((2, 1), (0, 5)), ((7, 9), (4, 3)), {-1: (1, 2)}]


@pytest.mark.parametrize("widths", WIDTHS, ids=repr)
@pytest.mark.parametrize(("mode", "keywords"), PADS, ids=repr)
def test_pad(mode, keywords, widths):
    if isinstance(widths, dict) and np.lib.NumpyVersion(np.__version__) < "2.3.0":
        widths = ((0, 0), (1, 2))
    if mode == "median":  # whose derivative rule is that of np.median
        np.testing.assert_allclose(np.pad(Tensor(M), widths, mode, **keywords), np.pad(M, widths, mode, **keywords))
        return
    check_row(lambda x: np.pad(x, widths, mode, **keywords), M)


@pytest.mark.parametrize("mode", ["constant", "edge", "linear_ramp", "mean", "maximum", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("x", [V, X, M[:, :1], Z, np.zeros((2, 0)), np.array([[1, 5, 2]])], ids=repr)
def test_pad_of_other_shapes_and_dtypes(mode, x):
    if x.size == 0 and mode != "constant":
        with pytest.raises(ValueError, match="can't|stat_length of 0|zero-size"):
            np.pad(x, 2, mode)
        with pytest.raises(ValueError, match="can't|stat_length of 0|zero-size"):
            np.pad(Tensor(x), 2, mode)
        return
    expected = np.pad(x, 2, mode)
    found = np.pad(Tensor(x), 2, mode)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    if x.dtype.kind in "fc" and x.size and not (mode == "maximum" and x.dtype.kind == "c"):
        check_grads(lambda x: np.pad(x, 2, mode), (x,))


def test_pad_with_traced_values():
    def f(x, c):
        padded = fnp.pad(x, 1, constant_values=c)
        return fnp.pad(padded, ((1, 0), (0, 1)), "linear_ramp", end_values=c * 2)

    expected = np.pad(np.pad(M, 1, constant_values=X), ((1, 0), (0, 1)), "linear_ramp", end_values=X * 2)
    np.testing.assert_allclose(f(M, X), expected)
    check_row(f, M, X)


def test_pad_by_a_function():
    def double_the_edge(vector, widths, axis, keywords):
        vector[: widths[0]] = keywords["factor"] * vector[widths[0]]
        vector[len(vector) - widths[1] :] = vector[-widths[1] - 1]

    def f(x):
        return np.pad(x, ((1, 2), (2, 1)), double_the_edge, factor=2.0)

    np.testing.assert_allclose(f(Tensor(M)), f(M))
    check_grads(f, (M,))


def test_trim_zeros():
    x = np.array([0.0, 0.0, 1.5, 0.0, 2.0, 0.0])
    for trim in ("fb", "f", "b", "FB"):
        np.testing.assert_array_equal(np.trim_zeros(Tensor(x), trim), np.trim_zeros(x, trim))
    assert fg.grad(lambda x: np.sum(np.trim_zeros(x) ** 2))(x).tolist() == [0.0, 0.0, 3.0, 0.0, 4.0, 0.0]
    assert np.trim_zeros(Tensor(np.zeros(3))).shape == (0,)
    with pytest.raises(errors.ConcretizationError, match="np.trim_zeros needs a value"):
        fg.vmap(np.trim_zeros)(np.ones((2, 3)))


def test_atleast_gives_arrays_where_nothing_is_traced():
    for function in (np.atleast_1d, np.atleast_2d, np.atleast_3d):
        assert type(function(Tensor(1.0))) is np.ndarray
        one, other = function(Tensor(V), M)
        assert type(one) is type(other) is np.ndarray
        assert type(fg.vjp(function, V)[0]) is Tensor


def test_atleast_of_a_tensor_or_variable_is_read_only():
    for x in (Tensor(V.copy()), fg.Variable(V)):
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = np.sum(x * x * x)
        for function in (np.atleast_1d, np.atleast_2d, np.atleast_3d):
            with pytest.raises(ValueError, match="read-only"):
                function(x)[...] = 100.0
        np.testing.assert_allclose(tape.gradient(y, x), 3 * V**2)
        np.testing.assert_array_equal(x, V)


def test_ix_():
    rows, columns = np.ix_(Tensor([0, 1]), Tensor([True, False, True]))
    np.testing.assert_array_equal(Tensor(M)[rows, columns], M[np.ix_([0, 1], [0, 2])])
    assert fg.grad(lambda x: np.sum(x[np.ix_(np.argsort(x[:, 0]), [0, 2])]))(M).tolist() == [[1.0, 0.0, 1.0]] * 2


def test_facts_of_shapes_and_dtypes():
    x = Tensor(M.astype(np.float32))
    assert np.can_cast(x, np.float64) is True
    assert np.can_cast(x, np.int64) is False
    assert np.min_scalar_type(x) == np.float32
    assert np.min_scalar_type(Tensor(3)) == np.uint8
    assert np.common_type(x, Tensor([1])) is np.float64
    assert np.may_share_memory(x, x[:1])
    assert np.shares_memory(x.T, x)
    assert not any(np.shares_memory(a, b) for a, b in [(x[:1], x[1:]), (x, x.copy()), (x, M)])
    assert np.result_type(x, np.int8) == np.float32
    assert fnp.isdtype(x.dtype, "real floating")
    assert np.einsum_path("ij,jk->ik", x, x.T)[0] == ["einsum_path", (0, 1)]


REFUSED = [
    lambda x: np.flipud(x[0, 0]), lambda x: np.fliplr(x[0]), lambda x: np.flip(x, 5), lambda x: np.rot90(x, 1, (0, 0)),
    lambda x: np.roll(x, 1, 4), lambda x: np.repeat(x, -1), lambda x: np.resize(x, (-1, 2)),
    lambda x: np.delete(x, 9, axis=0), lambda x: np.insert(x, 9, 1.0, axis=0), lambda x: np.diag(np.stack([x, x])),
    lambda x: np.diagonal(x[0]), lambda x: np.meshgrid(x, indexing="no"), lambda x: np.hsplit(x[0, 0], 2),
    lambda x: np.vsplit(x, 4), lambda x: np.dsplit(x, 2), lambda x: np.pad(x, 1, "no"), lambda x: np.pad(x, -1),
    lambda x: np.pad(x, 1, "edge", constant_values=3), lambda x: np.unstack(x[0, 0]), lambda x: np.ix_(x),
    lambda x: np.linspace(x[0, 0], 1.0, -3), lambda x: np.geomspace(x[0, 0] * 0, 1.0), lambda x: windows(x, 9, axis=0),
    lambda x: np.concatenate([x, x], dtype=int), lambda x: np.expand_dims(x, 9), lambda x: np.append(x, [1.0], axis=0),
    lambda x: np.block([[x], x]), lambda x: np.broadcast_arrays(x, np.zeros(7)), lambda x: np.moveaxis(x, 9, 0),
]  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_what_numpy_refuses(call):
    with pytest.raises((ValueError, TypeError, IndexError)) as numpys:
        call(M)
    with pytest.raises(type(numpys.value)) as ours:
        fg.vjp(call, M)
    if "nested" not in str(ours.value):  # of which NumPy says more
        assert str(ours.value)[:25] == str(numpys.value)[:25]


def test_results_are_not_written_into_arrays():
    for name, call in [
        ("np.concatenate", lambda x: np.concatenate([x, x], out=np.zeros((4, 3)))),
        ("np.stack", lambda x: np.stack([x, x], out=np.zeros((2, 2, 3)))),
        ("np.trace", lambda x: np.trace(x, out=np.zeros(()))),
        (r"np.lib.*sliding_window_view\(\.\.\., writeable=True\)", lambda x: windows(x, 2, 1, writeable=True)),
    ]:
        with pytest.raises(errors.InPlaceError, match=f"{name} would write a tensor into a plain NumPy array"):
            fg.grad(call)(M)

    def f(x):
        out = fnp.zeros((2, 2, 3))
        np.stack([x, x * x], out=out)
        return np.concatenate([x, out[1]], out=fnp.zeros((4, 3)))

    check_grads(f, (M,))


def test_views_by_strides_are_refused():
    with pytest.raises(
        errors.ArrayConversionError, match=r"For windows write np\.lib\.stride_tricks\.sliding_window_view"
    ):
        fg.grad(lambda x: np.sum(np.lib.stride_tricks.as_strided(x, (2, 2))))(M)


def test_constructors_of_fgrad_numpy_take_traced_bounds():
    for name in ("linspace", "logspace", "geomspace"):
        assert type(getattr(fnp, name)(1.0, 2.0, 3)) is Tensor
        check_grads(lambda x: getattr(fnp, name)(x, 2.0, 3), (X,))
    check_grads(lambda x: np.fromfunction(lambda i, j: x * i + x**2 * j, (2, 3)), (X,))
    for name in ("asarray", "array", "asanyarray", "ascontiguousarray", "asarray_chkfinite", "require"):
        check_grads(lambda x: getattr(fnp, name)([[x, 1.0], [2.0, x * x]]), (X,))
    check_grads(lambda x: fnp.array(x, ndmin=2) * fnp.asarray(x, copy=True), (V,))
    with pytest.raises(ValueError, match="must not contain infs or NaNs"):
        fnp.asarray_chkfinite([np.nan])
    assert fg.grad(lambda x: np.sum(np.zeros_like(x) + np.ones_like(x) * x))(V).tolist() == [1.0] * 4


def test_joining_between_brackets():
    x = Tensor(V)
    np.testing.assert_array_equal(fnp.r_[x, 0, 1:3, x[0]], np.r_[V, 0, 1:3, V[0]])
    np.testing.assert_array_equal(fnp.c_[x, V, x * 2], np.c_[V, V, V * 2])
    np.testing.assert_array_equal(fnp.c_[Tensor(M), M], np.c_[M, M])
    np.testing.assert_array_equal(fnp.r_[0:1:5j, x], np.r_[0:1:5j, V])
    check_grads(lambda x: fnp.c_[fnp.r_[x, 1.0, x[:1]], np.ones(6)], (V,))
    with pytest.raises(errors.ParameterError, match="accept no directive, but the first part is 'r'"):
        fnp.r_["r", x]


def test_large_arrays_are_parted_and_joined_in_linear_time():
    x = np.ones(2000)
    found = fg.grad(lambda x: np.sum(np.stack(np.unstack(x * 2))))(x)
    assert found.tolist() == [2.0] * 2000


OF_LISTS = [
    lambda np, x: np.flip(x), lambda np, x: np.fliplr(x), lambda np, x: np.flipud(x), lambda np, x: np.rot90(x),
    lambda np, x: np.roll(x, 1), lambda np, x: np.tile(x, 2), lambda np, x: np.repeat(x, 2, axis=1),
    lambda np, x: np.resize(x, 5), lambda np, x: np.append(x, x), lambda np, x: np.delete(x, 0, axis=1),
    lambda np, x: np.insert(x, 1, 9.0), lambda np, x: np.diagonal(x),
    lambda np, x: np.diag(x), lambda np, x: np.diagflat(x), lambda np, x: np.trace(x), lambda np, x: np.tril(x),
    lambda np, x: np.meshgrid(x[0], x[1]), lambda np, x: np.expand_dims(x, 0), lambda np, x: np.squeeze([x]),
    lambda np, x: np.transpose(x), lambda np, x: np.swapaxes(x, 0, 1), lambda np, x: np.broadcast_to(x, (3, 2, 2)),
    lambda np, x: np.array_split(x, 2), lambda np, x: np.reshape(x, 4), lambda np, x: np.ravel(x),
    lambda np, x: np.take(x, [0, 3]), lambda np, x: np.compress([False, True], x, axis=0), lambda np, x: np.pad(x, 1),
    lambda np, x: np.kron(x, x), lambda np, x: np.dot(x, x), lambda np, x: np.einsum("ij->i", x),
    lambda np, x: np.linspace(0.0, x[0], 3), lambda np, x: np.full_like(x, x[0][0]), lambda np, x: np.copy(x),
    lambda np, x: np.apply_along_axis(np.sum, 0, x), lambda np, x: np.block([[x[0][0], 3.0], x[1]]),
]  # fmt: skip


@pytest.mark.parametrize("call", OF_LISTS)
def test_fgrad_numpy_takes_lists_as_numpy_does(call):
    """With tensors inside, which NumPy's own functions could not take, and without."""
    check_grads(lambda x: call(fnp, [[x, 2.0], [3.0, x * x]]), (X,))
    plain = [[float(X), 2.0], [3.0, float(X) ** 2]]
    for found in (call(fnp, plain), call(fnp, [[Tensor(X), 2.0], [3.0, Tensor(X) ** 2]])):
        for ours, numpys in zip(fg.tree_leaves(found), fg.tree_leaves(call(np, plain)), strict=True):
            assert ours.dtype == numpys.dtype
            np.testing.assert_allclose(ours, numpys, rtol=1e-15)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("width", [1, 2, (3, 5)])
@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_one_infinite_element_stays_where_numpy_has_it_when_padding_oddly(mode, width, special):
    x = np.array([1.0, 2.0, special, 4.0])
    found = fg.vjp(lambda x: np.pad(x, width, mode, reflect_type="odd"), x)[0]
    np.testing.assert_array_equal(found, np.pad(x, width, mode, reflect_type="odd"))


SPLITS = [
    ([3, 1], 0), ([4, 2, 3], 0), ([-1, 2], 0), ([2, 9], 0), ([0, 0, 5], 0), ([5, 5, 1], -1), ((2, 4), 1),
    (np.array([1, 4]), 0), (np.int64(3), 1), (3, -1), (2.0, 0), ([], 0),
]  # fmt: skip


@pytest.mark.parametrize(("places", "axis"), SPLITS, ids=str)
@pytest.mark.parametrize("function", [np.split, np.array_split])
def test_parts_are_numpys_also_where_they_overlap(function, places, axis):
    x = np.arange(36.0).reshape(6, 6)
    expected = function(x, places, axis)
    found = function(fg.constant(x), places, axis)
    assert len(found) == len(expected)
    for part, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(part, wanted)

    def loss(x):
        return sum((i + 1.0) * np.sum(part**2) for i, part in enumerate(function(x, places, axis)))

    weights = np.zeros((6, 6))
    for i, part in enumerate(function(weights, places, axis)):
        part += i + 1.0
    np.testing.assert_array_equal(fg.grad(loss)(x), 2.0 * weights * x)
    np.testing.assert_array_equal(fg.jacfwd(loss)(x), 2.0 * weights * x)
    np.testing.assert_array_equal(fg.vmap(fg.grad(loss))(x[None])[0], 2.0 * weights * x)


def test_what_is_written_into_parts_that_overlap_shows_in_the_whole():
    def f(x):
        y = x * 1.0
        np.split(y, [3, 1])[2][0] = 7.0
        return np.sum(y**2)

    np.testing.assert_array_equal(fg.grad(f)(np.arange(5.0)), [0.0, 0.0, 4.0, 6.0, 8.0])


@pytest.mark.parametrize("arrays", [(V, M), (M, M[:1]), (V, 1.0)])
def test_what_has_another_shape_is_not_stacked(arrays):
    with pytest.raises(ValueError, match="all input arrays must have the same shape"):
        fg.grad(lambda x: np.sum(np.stack([x, *arrays[1:]])))(arrays[0])


def test_many_numbers_are_stacked_as_numpy_does_it():
    numbers = [np.float32(0.5), np.float64(1.5), 2.0]
    stacked = fg.jvp(lambda x: np.stack([x, *numbers]), (np.float32(3.0),), (np.float32(1.0),))[0]
    expected = np.stack([np.float32(3.0), *numbers])
    assert stacked.dtype == expected.dtype
    np.testing.assert_array_equal(stacked, expected)


@pytest.mark.parametrize(
    "move", [lambda x: np.swapaxes(x, 0, -2), lambda x: np.moveaxis(x, 3, -1), np.matrix_transpose]
)
def test_axes_are_moved_however_many_there_are(move):
    x = np.arange(4.0).reshape((2, *[1] * 60, 2))
    value, pullback = fg.vjp(move, x)
    np.testing.assert_array_equal(value, move(x), strict=True)
    np.testing.assert_array_equal(pullback(move(x))[0], x, strict=True)


@pytest.mark.parametrize(("shape", "sizes", "axes"), [
    ((12,), (9,), (0,)), ((5, 12), (10,), (1,)), ((6, 7), (5, 6), (0, 1)), ((6, 7), (6, 5), (1, 0)),
    ((12,), (3, 8), (0, 0)), ((4, 6, 3), (5,), (-2,)),
])  # fmt: skip
def test_few_long_windows(shape, sizes, axes):
    """Their pullback goes from window to window, and not from one offset within them to the next."""
    x = np.random.default_rng(0).normal(size=shape)
    check_grads(lambda x: np.sin(np.lib.stride_tricks.sliding_window_view(x, sizes, axes)) ** 2, (x,))
