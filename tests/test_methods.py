"""The methods and attributes of arrays, on tensors."""

import io
import pickle

import numpy as np
import pytest
from rows import check_row, identified

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.tensor import Tensor
from fgrad.testing import check_grads

RNG = np.random.default_rng(5)
M = RNG.uniform(0.3, 1.5, (3, 4))
V = RNG.uniform(0.3, 1.5, 5)
Z = V + 1j * V[::-1]

ROWS = [
    ("sum", lambda x: x.sum(axis=1, keepdims=True), M),
    ("prod", lambda x: x.prod(0), M),
    ("mean", lambda x: x.mean(), M),
    ("var", lambda x: x.var(1, ddof=1), M),
    ("std", lambda x: x.std(axis=0), M),
    ("max", lambda x: x.max(1), M),
    ("min", lambda x: x.min(), M),
    ("cumsum", lambda x: x.cumsum(0), M),
    ("cumprod", lambda x: x.cumprod(), M),
    ("clip", lambda x: x.clip(0.5, 1.0), M),
    ("clip one side", lambda x: x.clip(min=0.7), M),
    ("round", lambda x: x.round(1) * x, M),
    ("conj", lambda x: x.conj() * x.conjugate(), Z),
    ("real, imag", lambda x: x.real * x.imag, Z),
    ("T, mT", lambda x: x.T @ x.mT.T, M),
    ("dot", lambda x: x.dot(V[:4]), M),
    ("diagonal", lambda x: x.diagonal(1), M),
    ("trace", lambda x: x.trace(offset=-1), M),
    ("transpose", lambda x: x.transpose(1, 0), M),
    ("swapaxes", lambda x: x.swapaxes(0, -1), M),
    ("reshape", lambda x: x.reshape(2, -1), M),
    ("ravel", lambda x: x.ravel("F"), M),
    ("flatten", lambda x: x.flatten(), M),
    ("flatten F", lambda x: x.flatten(order="F"), M),
    ("squeeze", lambda x: x.reshape(1, 3, 4, 1).squeeze(0), M),
    ("repeat", lambda x: x.repeat([1, 2, 0], axis=0), M),
    ("take", lambda x: x.take([1, 1, 0], axis=1), M),
    ("compress", lambda x: x.compress([True, False, True], axis=0), M),
    ("astype", lambda x: x.astype(np.complex128), M),
    ("copy", lambda x: x.copy() * x, M),
    ("divmod", lambda x: divmod(x, 0.4), M),
    ("flat", lambda x: x.flat[3] * x.flat[::2], M),
    ("flat in a loop", lambda x: sum(each * each for each in x.flat), V),
    ("iteration", lambda x: sum(row * row[0] for row in x), M),
    ("choose", lambda x: (x > 9).astype(int).choose([x, x * x]), V),
]


@pytest.mark.parametrize("row", [pytest.param(row[1:], id=row[0]) for row in ROWS])
def test_values_and_derivatives(row):
    check_row(*row)


def test_rows_have_names_of_their_own():
    assert len(identified(ROWS)) == len(ROWS)


WRITES = [
    ("fill", lambda y, v: y.fill(v[0])),
    ("put", lambda y, v: y.put([0, 2, 2], v[:3])),
    ("an element of flat", lambda y, v: y.flat.__setitem__(4, v[1])),
    ("a slice of flat", lambda y, v: y.flat.__setitem__(slice(None, None, 3), v[:2])),
    ("all of flat", lambda y, v: y.flat.__setitem__(slice(None), v[0])),
    ("one of flat from an array of one", lambda y, v: y.flat.__setitem__([1, 2], v[:1])),
    ("flat itself", lambda y, v: setattr(y, "flat", v[:2])),
]


@pytest.mark.parametrize("write", [pytest.param(write, id=name) for name, write in WRITES])
def test_methods_that_write(write):
    def f(x, v):
        y = x * 1.0
        before = y.copy()
        write(y, v)
        return y * 2 + 0 * before

    np.testing.assert_array_equal(f(Tensor(M), Tensor(V)), f(M, V))
    check_grads(f, (M, V))
    check_grads(fg.vmap(f), (np.stack([M, M[::-1]]), np.stack([V, V[::-1]])), order=1)


def test_a_handle_that_writes_changes_no_other():
    x = Tensor(M)
    other, view = x, x.flat
    copied = x.copy()
    view[0] = 9.0
    assert other[0, 0] == 9.0
    assert copied[0, 0] == M[0, 0]
    assert (len(view), np.asarray(view).shape) == (12, (12,))


@pytest.mark.parametrize("shape", [(2, 2), (2, 4)])
def test_resize_goes_along_in_memory(shape):
    def f(x):
        y = np.copy(x)
        y.resize(shape)
        return y**2

    x = np.asfortranarray(np.arange(1.0, 7.0).reshape(2, 3))
    for point in (x, np.ascontiguousarray(x)):
        expected = f(point)
        for value in (fg.vjp(f, point)[0], fg.jvp(f, (point,), (point,))[0]):
            np.testing.assert_array_equal(value, expected)
        kept = np.where(np.isin(x**2, expected), 2 * x, 0.0)
        np.testing.assert_array_equal(fg.grad(lambda x: np.sum(f(x)))(point), kept)


def test_resize():
    def f(x):
        y = x * 1.0
        y.resize((2, 3))
        z = x * 1.0
        z.resize(2, refcheck=False)
        return y[:, :1] * y, z

    np.testing.assert_array_equal(f(Tensor(V))[0][1], [V[3] ** 2, V[3] * V[4], 0.0])
    check_grads(f, (V,))


def test_sort_and_partition_of_a_handle():
    x = np.array([3.0, 1.0, 2.0])

    def f(x):
        y = x * 1.0
        y.sort()
        z = x * 1.0
        z.partition(0)
        return y * [1.0, 10.0, 100.0] + z[0]

    np.testing.assert_allclose(fg.grad(lambda x: np.sum(f(x)))(x), [100.0, 4.0, 10.0])
    assert Tensor(x).argsort().tolist() == [1, 2, 0]
    assert Tensor(x).argpartition(0).tolist()[0] == 1
    assert Tensor([1.0, 2.0, 3.0]).searchsorted(2.5).item() == 2


def test_indices_and_truth_values():
    x = Tensor([[0.0, 2.0], [3.0, 0.0]])
    assert [each.tolist() for each in x.nonzero()] == [[0, 1], [1, 0]]
    assert (x.argmax().item(), x.argmin(axis=1).tolist()) == (2, [0, 1])
    assert (x.any().item(), x.all(axis=0).tolist()) == (True, [False, False])


def test_facts():
    def f(x):
        assert (x.ndim, x.size, x.shape, x.nbytes, x.itemsize) == (2, 12, (3, 4), 96, 8)
        if hasattr(np.ndarray, "device"):
            assert x.device == "cpu"
            assert x.to_device("cpu") is x
            with pytest.raises(ValueError, match="Unsupported device: gpu"):
                x.to_device("gpu")
        return np.sum(x)

    f(Tensor(M))
    fg.grad(f)(M)
    fg.vmap(f)(np.stack([M, M]))
    assert Tensor(M).strides == M.strides
    with pytest.raises(errors.MissingRuleError, match=r"ndarray\.strides has no derivative rule"):
        fg.grad(lambda x: x.strides)(M)
    with pytest.raises(errors.MissingRuleError, match=r"ndarray\.view has no derivative rule"):
        fg.grad(lambda x: x.view(np.complex128))(M)


def test_leaving_the_trace():
    def f(x):
        assert x.tolist() == M.tolist()
        assert x.item(1) == M.item(1)
        assert x.tobytes() == M.tobytes()
        assert pickle.loads(x.dumps()).tolist() == M.tolist()
        file = io.BytesIO()
        x.dump(file)
        return np.sum(x)

    np.testing.assert_array_equal(fg.grad(f)(M), np.ones((3, 4)))
    with pytest.raises(errors.ConcretizationError, match="ndarray.tobytes needs a value"):
        fg.vmap(lambda x: x.tobytes())(M)


def test_results_in_out():
    def f(x):
        chosen, total = fnp.zeros((2, 4)), fnp.zeros(())
        fg.constant(x).compress([True, False, True], axis=0, out=chosen)
        fg.constant(x).trace(out=total)
        return chosen * total

    check_grads(f, (M,))
    with pytest.raises(errors.InPlaceError, match="np.trace would write a tensor into a plain NumPy array"):
        fg.grad(lambda x: x.trace(out=np.zeros(())))(M)


METHODS_AND_ATTRIBUTES = [name for name in dir(np.ndarray) if not name.startswith("_")]
UNKNOWN_TO_TENSORS = {
    "base", "byteswap", "ctypes", "data", "flags", "getfield", "setfield", "setflags", "strides",
    "newbyteorder", "itemset", "ptp",
}  # fmt: skip
"""About the memory that an array lies in, which a traced tensor does not have."""


@pytest.mark.parametrize("name", METHODS_AND_ATTRIBUTES)
def test_every_method_is_known(name):
    tensor = fg.core.tensor.TensorLike
    known = hasattr(tensor, name) or name in fg.core.primitive.METHODS
    assert known != (name in UNKNOWN_TO_TENSORS), name


def test_a_name_that_arrays_lack():
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'exp'"):
        Tensor(V).exp()
