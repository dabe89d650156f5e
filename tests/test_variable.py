"""Variables: their state, and that they serve wherever a tensor does."""

import contextlib
import copy
import pickle
import threading

import numpy as np
import pytest
from helpers import plain

import fgrad as fg


def test_creation():
    w = fg.Variable(2.0)
    assert (w.dtype, w.shape, w.trainable) == (np.float64, (), True)
    assert fg.Variable([1, 2]).dtype == np.int64
    assert fg.Variable([1, 2]).trainable is False
    assert fg.Variable(True).trainable is False
    for wrong in ("a", ["1.0"], b"1", np.datetime64("2024-01-01"), None):
        with pytest.raises(TypeError, match="a variable holds numbers"):
            fg.Variable(wrong)
    assert fg.Variable(1 + 2j).trainable is True
    assert fg.Variable([1, 2], trainable=True).trainable is True
    assert fg.Variable(2.0, trainable=False).trainable is False
    assert fg.Variable([1, 2], dtype=np.float32).dtype == np.float32
    assert fg.Variable(2.0, name="w").name == "w"
    assert fg.Variable(fg.constant([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert fg.Variable(fg.Variable(2.0)).tolist() == 2.0
    assert fg.Variable(2.0).name != fg.Variable(2.0).name


def test_the_initial_value_is_copied():
    a = np.array([1.0, 2.0])
    w = fg.Variable(a)
    a[0] = 10.0
    assert w.tolist() == [1.0, 2.0]
    w.numpy()[0] = 10.0
    assert w.tolist() == [1.0, 2.0]


def test_repr_shows_value_and_name():
    assert repr(fg.Variable([1.0, 2.0], name="w")) == "Variable([1., 2.], name='w')"
    assert repr(fg.Variable(np.float32(2), name="b")) == "Variable(2., name='b', dtype=float32)"


def test_assign():
    w = fg.Variable([1.0, 2.0])
    assert w.assign([3.0, 4.0]) is w
    assert w.tolist() == [3.0, 4.0]
    assert w.assign_add(1.0) is w
    assert w.tolist() == [4.0, 5.0]
    assert w.assign_sub(np.array([1.0, 2.0])) is w
    assert w.tolist() == [3.0, 3.0]
    w.assign(fg.constant([5.0, 6.0]))
    assert w.tolist() == [5.0, 6.0]
    w.assign(fg.Variable([7.0, 8.0]))
    assert w.tolist() == [7.0, 8.0]
    a = np.array([1.0, 2.0])
    w.assign(a)
    a[0] = 9.0
    assert w.tolist() == [1.0, 2.0]


def test_what_was_computed_before_keeps_its_value():
    w = fg.Variable([1.0, 2.0])
    value, array, view = w.value(), w.numpy(), w[:]
    w.assign([3.0, 4.0])
    assert plain(value) == plain(array) == plain(view) == [1.0, 2.0]
    assert plain(w.read_value()) == [3.0, 4.0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.complex64])
def test_assign_keeps_the_dtype(dtype):
    w = fg.Variable(1, dtype=dtype)
    w.assign(np.int64(3))
    assert (w.dtype, w.tolist()) == (dtype, 3)
    w.assign_add(1)
    assert (w.dtype, w.tolist()) == (dtype, 4)
    if np.dtype(dtype).kind in "fc":
        w.assign_sub(np.float64(0.5))
        assert (w.dtype, w.tolist()) == (dtype, 3.5)


@pytest.mark.parametrize("value", [1.0, [1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]])
def test_a_value_of_another_shape(value):
    w = fg.Variable([1.0, 2.0], name="w")
    with pytest.raises(ValueError, match=r"variable 'w' has shape \(2,\), and the value to assign has shape"):
        w.assign(value)
    assert w.tolist() == [1.0, 2.0]


def test_an_increment_that_broadcasts_to_another_shape():
    w = fg.Variable([1.0, 2.0], name="w")
    with pytest.raises(ValueError, match=r"variable 'w' has shape \(2,\).*\(1, 2\)"):
        w.assign_add([[1.0, 2.0]])
    with pytest.raises(ValueError, match="broadcast"):
        w.assign_sub([1.0, 2.0, 3.0])
    assert w.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("initial", "value", "text"),
    [
        (1, 1.5, "'w' has dtype int64, which cannot hold a value of dtype float64"),
        (1.0, 1.5j, "'w' has dtype float64, which cannot hold a value of dtype complex128"),
        (1.0, "text", "'w' has dtype float64, which cannot hold"),
        (True, 2, "'w' has dtype bool, which cannot hold a value of dtype int64"),
    ],
)
def test_a_value_of_another_kind(initial, value, text):
    w = fg.Variable(initial, name="w")
    with pytest.raises(TypeError, match=text):
        w.assign(value)
    assert w.tolist() == initial


def test_assignment_by_index_is_refused():
    w = fg.Variable([1.0, 2.0], name="w")
    with pytest.raises(TypeError, match="variable 'w' cannot be assigned by index"):
        w[0] = 5.0
    assert w.tolist() == [1.0, 2.0]


def test_identity_and_hash():
    v, w = fg.Variable(1.0), fg.Variable(1.0)
    table = {v: "v", w: "w"}
    v.assign(5.0)
    assert (table[v], table[w]) == ("v", "w")
    assert len({v, w, v}) == 2
    assert w in [v, w]
    assert plain(v == 5.0) is True
    assert plain(fg.Variable([1.0, 2.0]) == [1.0, 3.0]) == [True, False]


USES = {
    "t * w": (lambda t, a, w: t * w, [3.0, 8.0]),
    "w * t": (lambda t, a, w: w * t, [3.0, 8.0]),
    "a * w": (lambda t, a, w: a * w, [3.0, 8.0]),
    "w * a": (lambda t, a, w: w * a, [3.0, 8.0]),
    "w - 1": (lambda t, a, w: w - 1, [2.0, 3.0]),
    "1 - w": (lambda t, a, w: 1 - w, [-2.0, -3.0]),
    "w / 2": (lambda t, a, w: w / 2, [1.5, 2.0]),
    "12 / w": (lambda t, a, w: 12 / w, [4.0, 3.0]),
    "-w": (lambda t, a, w: -w, [-3.0, -4.0]),
    "abs": (lambda t, a, w: abs(-w), [3.0, 4.0]),
    "w ** 2": (lambda t, a, w: w**2, [9.0, 16.0]),
    "2 ** w": (lambda t, a, w: 2**w, [8.0, 16.0]),
    "w @ a": (lambda t, a, w: w @ a, 11.0),
    "a @ w": (lambda t, a, w: a @ w, 11.0),
    "w // 2": (lambda t, a, w: w // 2, [1.0, 2.0]),
    "w % 2": (lambda t, a, w: w % 2, [1.0, 0.0]),
    "w > 3": (lambda t, a, w: w > 3, [False, True]),
    "w == a": (lambda t, a, w: w == a, [False, False]),
    "w[0]": (lambda t, a, w: w[0], 3.0),
    "w[::-1]": (lambda t, a, w: w[::-1], [4.0, 3.0]),
    "w[w > 3]": (lambda t, a, w: w[w > 3], [4.0]),
    "np.square": (lambda t, a, w: np.square(w), [9.0, 16.0]),
    "np.sum": (lambda t, a, w: np.sum(w), 7.0),
    "np.stack": (lambda t, a, w: np.stack([w, t]), [[3.0, 4.0], [1.0, 2.0]]),
    "np.stack w w": (lambda t, a, w: np.stack([w, w]), [[3.0, 4.0], [3.0, 4.0]]),
    "np.concatenate": (lambda t, a, w: np.concatenate([a, w]), [1.0, 2.0, 3.0, 4.0]),
    "np.maximum": (lambda t, a, w: np.maximum(w, 3.5), [3.5, 4.0]),
    "np.where": (lambda t, a, w: np.where(w > 3, w, a), [1.0, 4.0]),
    "w.sum()": (lambda t, a, w: w.sum(), 7.0),
    "w.mean()": (lambda t, a, w: w.mean(), 3.5),
    "w.reshape": (lambda t, a, w: w.reshape(2, 1), [[3.0], [4.0]]),
    "w.T": (lambda t, a, w: w.T, [3.0, 4.0]),
    "list(w)": (lambda t, a, w: list(w), [3.0, 4.0]),
    "unpacking": (lambda t, a, w: (lambda x, y: x * y)(*w), 12.0),
    "np.asarray": (lambda t, a, w: np.asarray(w), [3.0, 4.0]),
    "np.percentile": (lambda t, a, w: np.percentile(w, 50), 3.5),
    "fg.constant": (lambda t, a, w: fg.constant(w), [3.0, 4.0]),
    "fg.stop_gradient": (lambda t, a, w: fg.stop_gradient(w), [3.0, 4.0]),
    "value": (lambda t, a, w: w.value(), [3.0, 4.0]),
    "numpy": (lambda t, a, w: w.numpy(), [3.0, 4.0]),
    "astype": (lambda t, a, w: w.astype(int), [3, 4]),
    "max": (lambda t, a, w: max(w), 4.0),
}


@pytest.mark.parametrize("use", USES)
def test_use(use):
    program, expected = USES[use]
    w = fg.Variable([3.0, 4.0])
    assert plain(program(fg.constant([1.0, 2.0]), np.array([1.0, 2.0]), w)) == expected
    assert w.tolist() == [3.0, 4.0]
    assert type(w) is fg.Variable


# What is not meant to carry a derivative, or is constant in pieces; and a method of variables alone.
WITHOUT = {"value", "w > 3", "w == a", "np.asarray", "np.percentile", "fg.stop_gradient", "numpy", "astype", "w // 2"}


@pytest.mark.parametrize("use", [use for use in USES if use not in WITHOUT])
def test_use_is_differentiated(use):
    program, _ = USES[use]
    w, a = fg.Variable([3.0, 4.0]), np.array([1.0, 2.0])

    def total(values):
        return sum(np.sum(part * (i + 1)) for i, part in enumerate(fg.tree_leaves(program(fg.constant(a), a, values))))

    ((gradient, variable),) = fg.implicit_gradients(lambda: total(w))()
    assert variable is w
    np.testing.assert_allclose(np.asarray(gradient), np.asarray(fg.grad(total)(np.array([3.0, 4.0]))), rtol=1e-14)
    assert np.any(np.asarray(gradient) != 0)


def test_numbers():
    w = fg.Variable(2.5)
    assert float(w) == 2.5
    assert int(w) == 2
    assert complex(w) == 2.5
    assert bool(w) is True
    assert w.item() == 2.5
    assert f"{w:.2f}" == "2.50"
    assert [10, 20, 30][fg.Variable(1)] == 20
    assert type(w.numpy()) is np.float64
    assert len(fg.Variable([1.0, 2.0])) == 2
    a = np.zeros(2)
    a[0] = w
    assert a.tolist() == [2.5, 0.0]


def test_augmented_assignment_makes_a_tensor_and_leaves_the_variable():
    w = v = fg.Variable(2.0)
    w += 1.0
    assert plain(w) == 3.0
    assert plain(v) == 2.0


def test_copies():
    w = fg.Variable([1.0, 2.0], name="w", trainable=False)
    for other in (copy.copy(w), copy.deepcopy(w), pickle.loads(pickle.dumps(w))):
        assert other is not w
        assert (other.tolist(), other.name, other.trainable, other.dtype) == ([1.0, 2.0], "w", False, np.float64)
        other.assign([5.0, 6.0])
        assert w.tolist() == [1.0, 2.0]


def test_a_copy_is_created_later_than_what_came_before_it():
    w, v = fg.Variable(2.0, name="w"), fg.Variable(3.0, name="v")
    twin = copy.deepcopy(w)
    pairs = fg.implicit_gradients(lambda: twin * v * w)()
    assert [plain(g) for g, _ in pairs] == [6.0, 4.0, 6.0]
    assert [id(variable) for _, variable in pairs] == [id(w), id(v), id(twin)]


def test_assigning_a_traced_value_does_not_connect():
    b = fg.Variable(0.0)
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        b.assign(x * x)
        y = b * 1.0
    assert plain(tape.gradient(y, [x, b])) == [None, 1.0]
    assert b.tolist() == 9.0

    def f(x):
        b.assign_add(x)
        return b * x

    assert plain(fg.grad(f)(2.0)) == 11.0
    assert b.tolist() == 11.0


def test_the_result_of_assign_counts_as_a_read():
    a = fg.Variable(2.0)
    with fg.GradientTape() as tape:
        r = a.assign_add(1.0)
        y = r * a
    assert plain(y) == 9.0
    assert plain(tape.gradient(y, a)) == 6.0


def test_threads_have_their_own_watches():
    w = fg.Variable(3.0)
    inside, leave = threading.Event(), threading.Event()
    results = {}

    def slow():
        with fg.GradientTape() as tape:
            y = w * w
            inside.set()
            leave.wait()
            y = y * w
        results["slow"] = plain(tape.gradient(y, w))

    thread = threading.Thread(target=slow)
    thread.start()
    inside.wait()
    assert np.asarray(w).item() == 3.0  # not traced in this thread
    results["quick"] = plain(fg.implicit_gradients(lambda: w * 5.0)()[0][0])
    leave.set()
    thread.join()
    assert results == {"quick": 5.0, "slow": 27.0}


WRITES = {
    "w[0]": lambda w: w.__setitem__(0, 1.0),
    "np.add.at": lambda w: np.add.at(w, [0], 1.0),
    "np.maximum.at": lambda w: np.maximum.at(w, [0], 1.0),
    "np.negative.at": lambda w: np.negative.at(w, [0]),
    "np.fill_diagonal": lambda w: np.fill_diagonal(w, 1.0),
    "np.put": lambda w: np.put(w, [0], [1.0]),
    "np.place": lambda w: np.place(w, np.ones((2, 2), bool), [1.0]),
    "np.putmask": lambda w: np.putmask(w, np.ones((2, 2), bool), [1.0]),
    "np.copyto": lambda w: np.copyto(w, 1.0),
    "np.put_along_axis": lambda w: np.put_along_axis(w, np.zeros((1, 2), int), 1.0, 0),
    "np.nan_to_num": lambda w: np.nan_to_num(w, copy=False),
    "out": lambda w: np.add(1.0, 2.0, out=w),
    "out of a traced sum": lambda w: np.sum(w * np.ones((2, 2, 2)), 0, out=w),
    "w.put": lambda w: w.put([0], [1.0]),
    "w.resize": lambda w: w.resize((4,)),
    "w.sort": lambda w: w.sort(),
    "w.partition": lambda w: w.partition(1),
    "w.fill": lambda w: w.fill(1.0),
    "w.flat[0]": lambda w: w.flat.__setitem__(0, 1.0),
    "w.flat": lambda w: setattr(w, "flat", 1.0),
    "w.real": lambda w: setattr(w, "real", 1.0),
    "w.imag": lambda w: setattr(w, "imag", 1.0),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("watched", [False, True])
def test_what_writes_into_an_array_says_how_to_assign_a_variable(write, watched):
    w = fg.Variable([[1.0, 2.0], [3.0, 4.0]], name="w")
    with fg.GradientTape() if watched else contextlib.nullcontext():
        with pytest.raises(TypeError, match=r"variable 'w' cannot be assigned by index: assign a whole value"):
            write(w)
    np.testing.assert_array_equal(w.numpy(), [[1.0, 2.0], [3.0, 4.0]])


def test_parts_of_a_variable_are_read():
    w = fg.Variable([1.0 + 2.0j])
    assert (w.real.tolist(), w.imag.tolist(), list(w.flat)) == ([1.0], [2.0], [1.0 + 2.0j])
    w += 1.0
    assert isinstance(w, fg.Tensor)


def test_additions_and_subtractions_in_a_program():
    w = fg.Variable(5.0, name="w")

    @fg.compile
    def step(x):
        w.assign_sub(x)
        w.assign_add(3 * x)
        return w * 2.0

    assert [step(1.0).item(), step(10.0).item()] == [14.0, 54.0]
    assert w.numpy() == 27.0


def assigned_and_overwritten(w, x):
    t = w * x
    w.assign(t)
    t[0] = 99.0
    return np.sum(w)


def plain_and_overwritten(w, x):
    t = np.zeros(3)
    w.assign(t)
    t[0] = 99.0
    return np.sum(w) + x


def read_and_overwritten(w, x):
    w.assign(w * x)
    y = w.value()
    y[0] = 99.0
    return np.sum(w) + np.sum(y)


def view_and_overwritten(w, x):
    t = w * x
    w.assign(t[::-1])
    t *= 10.0
    w.assign_add(t)
    t[:] = 0.0
    return np.sum(w)


def overwritten_in_a_loop(w, x):
    def step(i, total):
        t = w + x
        w.assign(t)
        t[1] = 77.0
        return total + np.sum(w)

    return fg.fori_loop(0, 3, step, 0.0)


@pytest.mark.parametrize(
    "program",
    [
        assigned_and_overwritten,
        plain_and_overwritten,
        read_and_overwritten,
        view_and_overwritten,
        overwritten_in_a_loop,
    ],
)
def test_programs_overwrite_what_they_have_assigned(program):
    w, v = fg.Variable([1.0, 2.0, 3.0]), fg.Variable([1.0, 2.0, 3.0])
    fast = fg.compile(lambda x: program(v, x))
    for x in (2.0, 5.0):
        np.testing.assert_allclose(fast(x), program(w, x))
        np.testing.assert_allclose(v, w)
