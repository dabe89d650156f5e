"""Every function of NumPy that fgrad answers, by the ways in which users reach it.

Each row is a call on NumPy's own module. It is run with `numpy` and with `fgrad.numpy`, its value is
compared with NumPy's on plain arrays, and its derivatives with finite differences.
"""

import importlib
import math
import operator
import subprocess
import sys

import numpy as np
import pytest
from helpers import naming

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.primitive import FUNCTIONS, UFUNCS
from fgrad.core.tensor import Tensor
from fgrad.testing import check_grads

RNG = np.random.default_rng(0)
V = RNG.uniform(0.3, 1.5, 4)
M = RNG.uniform(0.3, 1.5, (2, 3))
N = RNG.uniform(0.3, 1.5, (3, 2))
C = RNG.uniform(0.3, 1.5, (2, 3, 4))
Z = V + 1j * V[::-1]
SQUARE = RNG.uniform(0.3, 1.5, (3, 3))
MASK = np.array([[True, False, True], [False, True, True]])

ROWS = [
    ("sum where", lambda np, x: np.sum(x, axis=1, where=MASK), M),
    ("sum where initial", lambda np, x: np.sum(x, axis=0, where=MASK, initial=2.0), M),
    ("prod where initial", lambda np, x: np.prod(x, axis=0, where=MASK, initial=2.0), M),
    ("sum initial", lambda np, x: np.sum(x, initial=2.0), M),
    ("sum dtype", lambda np, x: np.sum(x, dtype=np.complex128).real, M),
    ("prod where", lambda np, x: np.prod(x, axis=0, where=MASK, keepdims=True), M),
    ("max initial where", lambda np, x: np.max(x, axis=1, initial=-1.0, where=MASK), M),
    ("min where", lambda np, x: np.min(x, where=MASK, initial=9.0), M),
    ("amax, amin", lambda np, x: np.amax(x) - np.amin(x), M),
    ("mean", lambda np, x: np.mean(x, axis=(0, -1), keepdims=True), C),
    ("mean of all", lambda np, x: np.mean(x), C),
    ("mean where", lambda np, x: np.mean(x, axis=0, where=MASK), M),
    ("var", lambda np, x: np.var(x, axis=1, ddof=1), M),
    ("var keepdims", lambda np, x: np.var(x, keepdims=True), M),
    ("var where", lambda np, x: np.var(x, axis=1, where=MASK), M),
    ("var complex", lambda np, x: np.var(x), Z),
    ("std", lambda np, x: np.std(x, axis=0), M),
    ("cumsum", lambda np, x: np.cumsum(x), M),
    ("cumsum axis", lambda np, x: np.cumsum(x, axis=-1), M),
    ("cumprod", lambda np, x: np.cumprod(x), M),
    ("cumprod axis", lambda np, x: np.cumprod(x, axis=0), N),
    ("add.reduce", lambda np, x: np.add.reduce(x), M),
    ("add.reduce where", lambda np, x: np.add.reduce(x, axis=1, where=MASK, initial=2.0), M),
    ("multiply.reduce", lambda np, x: np.multiply.reduce(x, axis=1), M),
    ("maximum.reduce", lambda np, x: np.maximum.reduce(x, axis=None), M),
    ("minimum.reduce", lambda np, x: np.minimum.reduce(x, keepdims=True), M),
    ("logaddexp.reduce", lambda np, x: np.logaddexp.reduce(x, axis=1), M),
    ("clip", lambda np, x: np.clip(x, 0.5, 1.0), M),
    ("clip one side", lambda np, x: np.clip(x, None, 1.0) + np.clip(x, 0.5, None), M),
    ("clip by array", lambda np, x: np.clip(x, 0.5, x.mean()), M),
    ("where", lambda np, x: np.where(x > 0.8, x * x, -x), M),
    ("angle", lambda np, x: np.angle(x), Z),
    ("angle in degrees", lambda np, x: np.angle(x, deg=True), Z),
    ("real, imag", lambda np, x: np.real(x) * np.imag(x), Z),
    ("abs, conj", lambda np, x: np.abs(x) * np.conj(x), Z),
    ("dot of vectors", lambda np, x: np.dot(x, V), V),
    ("dot of matrices", lambda np, x: np.dot(x, N), M),
    ("dot with a number", lambda np, x: np.dot(x, 2.0), M),
    ("dot of many axes", lambda np, x: np.dot(C.transpose(0, 2, 1), x), N),
    ("dot of many axes and a vector", lambda np, x: np.dot(x, V), C),
    ("vdot", lambda np, x: np.vdot(x, 1j * Z), Z),
    ("inner", lambda np, x: np.inner(x, M), M),
    ("inner with a number", lambda np, x: np.inner(x, 2.0), M),
    ("outer", lambda np, x: np.outer(x, V), M),
    ("tensordot", lambda np, x: np.tensordot(x, C, axes=([0, 1], [0, 1])), M),
    ("tensordot 1", lambda np, x: np.tensordot(x, N, axes=1), M),
    ("tensordot one axis each", lambda np, x: np.tensordot(x, M, axes=(1, 1)), M),
    ("tensordot 0", lambda np, x: np.tensordot(x, V, axes=0), M),
    ("matmul", lambda np, x: np.matmul(x, N), M),
    ("einsum", lambda np, x: np.einsum("ij,jk->ki", x, N), M),
    ("einsum implicit", lambda np, x: np.einsum("ij,jk", x, N), M),
    ("einsum trace", lambda np, x: np.einsum("ii", x), SQUARE),
    ("einsum ellipsis", lambda np, x: np.einsum("...j,j->...", x, V), C),
    ("einsum broadcast ellipsis", lambda np, x: np.einsum("...i,...i->...", x, V), C),
    ("einsum with spaces", lambda np, x: np.einsum("i j -> j i", x), M),
    ("einsum sublists", lambda np, x: np.einsum(x, [0, 1], N, [1, 2], [0, 2]), M),
    ("reshape", lambda np, x: np.reshape(x, (3, -1)), M),
    ("reshape to a number", lambda np, x: np.reshape(x, 6), M),
    ("reshape F", lambda np, x: np.reshape(x, (3, 2), order="F"), M),
    ("ravel", lambda np, x: np.ravel(x), M),
    ("ravel F", lambda np, x: np.ravel(x, order="F"), M),
    ("transpose", lambda np, x: np.transpose(x, (1, -1, 0)), C),
    ("swapaxes", lambda np, x: np.swapaxes(x, 0, -1), C),
    ("moveaxis", lambda np, x: np.moveaxis(x, [0, 1], [-1, 0]), C),
    ("rollaxis", lambda np, x: np.rollaxis(x, 2), C),
    ("matrix_transpose", lambda np, x: np.matrix_transpose(x), C),
    ("expand_dims", lambda np, x: np.expand_dims(x, (0, -1)), M),
    ("squeeze", lambda np, x: np.squeeze(x[None, :, None]), M),
    ("squeeze axis", lambda np, x: np.squeeze(x[None, :, None], axis=0), M),
    ("broadcast_to", lambda np, x: np.broadcast_to(x, (4, 2, 3)), M),
    ("concatenate", lambda np, x: np.concatenate([x, M, x * 2], axis=1), M),
    ("concatenate None", lambda np, x: np.concatenate([x, V], axis=None), M),
    ("concatenate lists", lambda np, x: np.concatenate([[x[0, 0], 2.0], x[1]]), M),
    ("stack", lambda np, x: np.stack([x, M], axis=-1), M),
    ("stack numbers", lambda np, x: np.stack([x[0], 1.0, x[1] * x[2]]), V),
    ("vstack", lambda np, x: np.vstack([x, V]), V),
    ("hstack", lambda np, x: np.hstack([x, M]), M),
    ("hstack vectors", lambda np, x: np.hstack([x, V]), V),
    ("split", lambda np, x: np.split(x, 2)[0] * np.split(x, 2)[1], V),
    ("split at", lambda np, x: np.split(x, [1], axis=1), M),
    ("array_split", lambda np, x: np.array_split(x, 3), V),
    ("take", lambda np, x: np.take(x, [2, 0, 2], axis=1), M),
    ("take flat", lambda np, x: np.take(x, [[5, 0]]), M),
    ("take wrap", lambda np, x: np.take(x, [5, -3], axis=0, mode="wrap"), M),
    ("take clip", lambda np, x: np.take(x, [5, -3], axis=0, mode="clip"), M),
    ("copy", lambda np, x: np.copy(x), M),
    ("full_like", lambda np, x: np.full_like(x, 2.0) * x, V),
    ("round", lambda np, x: np.round(x, 1) + x, V),
    ("dtype of a ufunc", lambda np, x: np.multiply(x, 2, dtype=np.float64), V),
    ("power", lambda np, x: np.power(x, 1.5) + 2.0**x + x**-1 + x**x, V),
]


@pytest.mark.parametrize(("f", "x"), [pytest.param(*row[1:], id=row[0]) for row in ROWS])
def test_value_and_derivatives(f, x):
    for module in (np, fnp):
        with naming(module.__name__):
            check(module, f, x)


def check(module, f, x):
    plain = f(np, np.asarray(x))
    found = f(module, Tensor(x))
    for ours, numpys in zip(fg.tree_leaves(found), fg.tree_leaves(plain), strict=True):
        assert type(ours) is Tensor
        assert (ours.shape, ours.dtype) == (numpys.shape, numpys.dtype)
        np.testing.assert_allclose(ours, numpys, rtol=1e-13, atol=1e-14)
    check_grads(lambda x: f(module, x), (np.asarray(x),), order=2)


AXES = [np.int64(1), np.array(-1), fg.constant(0), (np.int32(0), np.int64(1))]


@pytest.mark.parametrize("axis", AXES, ids=repr)
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "var", "std", "expand_dims", "argmax", "cumsum"])
def test_axes_of_every_integer_type(name, axis):
    several = isinstance(axis, (tuple, list))
    if several and name in ("argmax", "cumsum"):
        axis = axis[0]
    plain = tuple(map(int, axis)) if isinstance(axis, (tuple, list)) else int(axis)
    function = getattr(np, name)
    np.testing.assert_allclose(function(Tensor(M), axis=axis), function(M, axis=plain), rtol=1e-13)
    check_grads(lambda x: function(x, axis=axis) * 1.0, (M,), order=1)
    check_grads(lambda x: np.transpose(x, [np.int64(1), np.int64(0)]), (M,), order=1)
    check_grads(lambda x: np.tensordot(x, N, np.int64(1)), (M,), order=1)


METHODS = [
    ("sum", (1,)), ("mean", (0,)), ("prod", (0,)), ("max", (1,)), ("min", ()), ("var", (0,)), ("std", (1,)),
    ("cumsum", (1,)), ("cumprod", (1,)), ("reshape", (3, 2)), ("reshape", ((6,),)), ("reshape", (-1,)),
    ("transpose", ()), ("transpose", (1, 0)), ("transpose", ((1, 0),)), ("transpose", (None,)), ("swapaxes", (0, 1)),
    ("squeeze", ()), ("ravel", ()), ("flatten", ()), ("copy", ()), ("take", ([0, 2], 1)), ("dot", (N,)),
    ("clip", (0.5, 1.0)), ("conj", ()), ("conjugate", ()), ("astype", (np.float64,)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), METHODS)
def test_methods(name, args):
    np.testing.assert_allclose(getattr(Tensor(M), name)(*args), getattr(M, name)(*args), rtol=1e-13)
    check_grads(lambda x: getattr(x, name)(*args), (M,), order=1)


@pytest.mark.filterwarnings("ignore:every gradient of")
@pytest.mark.parametrize("name", ["argmax", "argmin", "all", "any"])
def test_methods_without_derivative(name):
    assert getattr(Tensor(M), name)(axis=1).tolist() == getattr(M, name)(axis=1).tolist()
    f = fg.gradients_function(lambda x: getattr(x, name)(axis=1) * 1.0)
    assert f(M)[0].tolist() == np.zeros((2, 3)).tolist()


@pytest.mark.parametrize("name", ["T", "mT", "real", "imag"])
def test_attributes(name):
    np.testing.assert_array_equal(getattr(Tensor(M), name), getattr(M, name))
    check_grads(lambda x: getattr(x, name), (M,), order=1)
    check_grads(lambda x: getattr(x, name), (M + 1j,), order=1)


def test_facts():
    x = Tensor(M)
    assert (x.shape, x.ndim, x.size, x.nbytes, x.dtype, len(x)) == ((2, 3), 2, 6, 48, np.dtype(float), 2)
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((2, 3), 2, 6, 3)
    assert (np.iscomplexobj(x), np.isrealobj(x), np.result_type(x, 1j)) == (False, True, np.dtype(complex))


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod, operator.floordiv,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("other", [1.5, np.float64(1.5), M[::-1] + 0.1, [0.5, 1.5, 2.5]], ids=type)
def test_operators_from_both_sides(op, other):
    for ours, numpys in (
        (op(Tensor(M), other), op(M, np.asarray(other))),
        (op(other, Tensor(M)), op(np.asarray(other), M)),
        (op(Tensor(M), Tensor(other)), op(M, np.asarray(other))),
    ):
        assert type(ours) is Tensor
        np.testing.assert_array_equal(ours, numpys)
    check_grads(lambda x: op(x, np.asarray(other)) * 1.0, (M,), order=1)
    check_grads(lambda x: op(np.asarray(other), x) * 1.0, (M,), order=1)


@pytest.mark.parametrize("op", [operator.neg, operator.pos, abs])
def test_unary_operators(op):
    np.testing.assert_array_equal(op(Tensor(-M)), op(-M))
    check_grads(op, (-M,))


def test_matmul_operator():
    np.testing.assert_array_equal(Tensor(M) @ N, M @ N)
    np.testing.assert_array_equal(M @ Tensor(N), M @ N)
    np.testing.assert_array_equal(Tensor(M) @ [1.0, 2.0, 3.0], M @ [1.0, 2.0, 3.0])
    check_grads(lambda x: x @ [1.0, 2.0, 3.0] + [1.0, 2.0] @ x @ np.ones(3), (M,))


KEYS = [
    0, -1, np.int64(1), slice(1, None), slice(None, None, -2), None, Ellipsis, (0, 1), (slice(None), 1), (..., 0),
    (None, 0, ..., None), (slice(0, 2), None, [0, 1]), [1, 0, 1], np.array([1, 1]), ([0, 1], [2, 0]),
    (slice(None), [0, 0], slice(1, 3)), ([1, 0], slice(None), [0, 3]), (..., np.array([[0, 1], [1, 0]])),
    C[:, 0, 0] > 0.5, (C[:, 0, 0] > 0, 1), C > 0.8, (0, M[0] > 0.6), True, (slice(None), np.array([2])), [], (),
    np.array(1), ([True, False], slice(None)), (np.array([[0], [1]]), np.array([0, 2])), (0, slice(2, 0, -1), 3),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_every_kind_of_index(key):
    np.testing.assert_array_equal(Tensor(C)[key], C[key])
    check_grads(lambda x: x[key], (C,))

    def written(x, v):
        x = x * 1.0
        x[key] = v
        return x

    shape = C[key].shape
    for v in (RNG.uniform(size=shape), np.array(0.5), RNG.uniform(size=shape[-1:])):
        expected = C.copy()
        expected[key] = v
        np.testing.assert_array_equal(written(Tensor(C), v), expected)
        check_grads(written, (C, v))


def test_the_last_of_repeated_indices_wins():
    def f(v):
        x = fnp.zeros(3)
        x[[0, 1, 0]] = v
        return x

    np.testing.assert_array_equal(f(np.array([1.0, 2.0, 3.0])), [3.0, 2.0, 0.0])
    gradient = fg.gradients_function(f)(np.array([1.0, 2.0, 3.0]))[0]
    np.testing.assert_array_equal(gradient, [0.0, 1.0, 1.0])


def test_tensors_as_indices():
    x, i = Tensor(V), Tensor(2)
    assert x[i] == V[2]
    assert x[Tensor([0, 2])].tolist() == V[[0, 2]].tolist()
    assert x[: Tensor(2)].tolist() == V[:2].tolist()
    assert V[i] == V[2]
    assert [10, 11, 12][i] == 12
    assert x[x > 1.0].tolist() == V[V > 1.0].tolist()
    gradient = fg.grad(lambda x: np.sum(x[x > 1.0] ** 2) + x[np.argmax(x)])(V)
    np.testing.assert_allclose(gradient, np.where(V > 1.0, 2 * V, 0) + (V == V.max()))


@pytest.mark.parametrize("key", ["a", 1.5, (0, "a"), 7, (0, 0, 0, 0)])
def test_what_numpy_refuses_as_an_index(key):
    with pytest.raises(IndexError) as numpys:
        C[key]
    with pytest.raises(IndexError) as ours:
        Tensor(C)[key]
    assert str(ours.value) == str(numpys.value)


def test_a_float_is_not_written_into_an_integer_tensor():
    x = Tensor([1, 2, 3])
    with pytest.raises(errors.DtypeError, match=r"would round a value of dtype float64 to the tensor's dtype int64"):
        x[0] = 1.5
    assert x.tolist() == [1, 2, 3]


def test_out_and_where_on_tensors():
    def f(x):
        result = fnp.zeros(4)
        np.multiply(x, 2.0, out=result, where=x > 1.0)
        result += x
        np.add(result, 1.0, result)
        return result

    np.testing.assert_allclose(f(V), np.where(V > 1.0, 2 * V, 0) + V + 1)
    check_grads(f, (V,))
    with pytest.raises(errors.InPlaceError, match="np.add would write a tensor into a plain NumPy array"):
        fg.grad(lambda x: np.sum(np.add(x, 1.0, out=np.zeros(4))))(V)
    with pytest.raises(errors.InPlaceError, match="np.multiply with `where` but without `out`"):
        fg.grad(lambda x: np.sum(np.multiply(x, 1.0, where=x > 1.0)))(V)


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_constructors_return_tensors(name):
    made = getattr(fnp, name)((2, 3), dtype=np.float32)
    assert type(made) is Tensor
    assert (made.shape, made.dtype) == ((2, 3), np.float32)


def test_constructors_with_values():
    assert fnp.array([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert fnp.arange(3).tolist() == [0, 1, 2]
    assert fnp.linspace(0, 1, 3).tolist() == [0.0, 0.5, 1.0]
    assert fnp.eye(2).tolist() == [[1, 0], [0, 1]]
    assert fnp.full(2, 3.0).tolist() == [3.0, 3.0]
    assert fnp.asarray(fnp.arange(2), dtype=float).dtype == float
    assert fnp.array(Tensor([1.0]), dtype=np.float32).dtype == np.float32
    for like in (np.zeros_like, np.ones_like, np.empty_like):
        assert type(like(Tensor(M))) is Tensor
        assert like(Tensor(M), dtype=int, shape=(4,)).shape == (4,)


def test_array_and_full_keep_derivatives():
    assert fg.grad(lambda x: np.sum(fnp.array([[x, 1.0], [x * x, x]])))(3.0).item() == 8.0
    assert fg.grad(lambda x: np.sum(fnp.full((2, 2), x)))(3.0).item() == 4.0
    assert fg.grad(lambda x: np.sum(fnp.full_like(M, x)))(3.0).item() == 6.0
    with pytest.raises(errors.InPlaceError, match=r"np.copyto \(which np.full and np.full_like use\) would write"):
        fg.grad(lambda x: np.sum(np.full_like(M, x)))(3.0)
    with pytest.raises(errors.InPlaceError, match=r"np.copyto \(which np.full and np.full_like use\) would write"):
        fg.grad(lambda x: np.sum(np.full(3, x, float)))(3.0)


def test_numpys_own_make_arrays_of_traced_numbers():
    for f in (
        lambda x: np.full(3, x * x),
        lambda x: np.full((2, 2), x) @ np.full(2, x),
        lambda x: np.array([[x, 1.0], [x * x, x]]) * x,
        lambda x: np.asarray((x, 2.0 * x)) ** 2,
        lambda x: np.vectorize(lambda v: v**3)(np.array([x, 2.0 * x])),
    ):
        check_grads(f, (0.7,))
        expected = f(0.7)
        found = fg.jvp(f, (0.7,), (1.0,))[0]
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_a_masked_extremum_needs_a_start():
    for function in (np.max, np.min):
        with pytest.raises(ValueError, match="to use a where mask one has to specify 'initial'"):
            function(Tensor(M), axis=1, where=MASK)


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i4", "f2", "f4", "f8", "c8", "c16"])
def test_angles_have_numpys_dtype(dtype):
    x = np.array([0, 1, 3]).astype(dtype)
    for given in (x, x[1]):
        found, wanted = np.angle(Tensor(given)), np.angle(given)
        assert np.asarray(found).dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_copyto():
    def f(x):
        result = fnp.zeros(4)
        np.copyto(result, x, where=x > 1.0)
        return result

    np.testing.assert_array_equal(f(V), np.where(V > 1.0, V, 0.0))
    check_grads(f, (V,))


def test_other_names_are_numpys_own():
    assert fnp.pi is np.pi
    assert fnp.float32 is np.float32
    for name in ("linalg", "polynomial", "random"):
        assert importlib.import_module(f"fgrad.numpy.{name}") is getattr(fnp, name) is getattr(np, name)
    assert "linspace" in dir(fnp)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        _ = fnp.no_such_name


def into_two(x, first, second):
    fnp.modf(x, first, second)
    return 2.0 * first + second


@pytest.mark.parametrize(
    "function",
    [
        lambda x, out: fnp.sin(x, out),
        lambda x, out: fnp.add(x, x, x),
        lambda x, out: fnp.multiply(x, 2.0, out),
        lambda x, out: into_two(x, out, 0.0 * x),
    ],
)
def test_out_may_be_given_by_position(function):
    def f(x):
        y = 1.0 * x
        return np.sum(function(y, fnp.zeros(3)) * y)

    x = np.array([0.5, -1.25, 2.25])
    value, gradient = fg.value_and_grad(f)(x)
    assert value == fg.compile(f)(x)
    assert value == f(x)
    check_grads(f, (x,))
    np.testing.assert_allclose(fg.compile(fg.grad(f))(x), gradient)


def test_functions_without_a_rule_run_on_untraced_tensors():
    assert np.percentile(Tensor(V), 50).item() == np.percentile(V, 50)
    gamma = np.frompyfunc(math.gamma, 1, 1)
    assert gamma(Tensor(4.0)) == 6.0
    with pytest.raises(errors.MissingRuleError, match=r"gamma \(vectorized\) has no derivative rule"):
        fg.grad(gamma)(1.0)
    with pytest.raises(errors.MissingRuleError, match=r"fmod \(vectorized\)\.reduce has no derivative rule"):
        fg.grad(np.frompyfunc(math.fmod, 2, 1).reduce)(V)


def test_every_answer_has_the_name_of_what_it_answers():
    assert UFUNCS[np.sin].name == "sin"
    assert all(callable(answer) for answer in FUNCTIONS.values())


WITH_OUT = ["sum", "prod", "mean", "max", "var", "cumsum", "cumprod", "take", "clip"]


@pytest.mark.parametrize("name", WITH_OUT)
def test_no_result_is_written_into_an_array(name):
    args = {"take": ([0],), "clip": (0.0, 1.0)}.get(name, ())
    with pytest.raises(errors.InPlaceError, match=f"np.{name} would write a tensor into a plain NumPy array"):
        fg.grad(lambda x: getattr(np, name)(x, *args, out=np.zeros(())) * 1.0)(V)


@pytest.mark.parametrize(("name", "out"), [("argmax", np.zeros((), int)), ("all", np.zeros((), bool))])
def test_what_has_no_derivative_is_written_into_an_array(name, out):
    """And read from there: an index, or a truth value."""

    def f(x):
        assert getattr(np, name)(x, out=out) is out
        return x[int(out)] * x

    expected = int(getattr(np, name)(V))
    for derivative in (fg.jacobian, fg.jacfwd):
        out[...] = 0
        np.testing.assert_allclose(derivative(f)(V), fg.jacobian(lambda x: x[expected] * x)(V))
        assert out == expected


def test_names_of_numpy_do_not_stand_in_for_pythons():
    script = "import fgrad.numpy as fnp; [getattr(fnp, name) for name in dir(fnp)]; print(fnp.sum([1.0, 2.0], axis=0))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "3.0\n", done.stderr
