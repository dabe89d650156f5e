"""Plain arrays that are overwritten after an operation has used them: the derivative is that of the plain run."""

import copy
import functools
import gc
import itertools
import pickle
import sys
import threading
import tracemalloc
import weakref

import numpy as np
import pytest
from helpers import plain

import fgrad as fg
import fgrad.extend
import fgrad.scipy.signal
from fgrad import errors
from fgrad.core import snapshots
from fgrad.core.coerce import OPERANDS
from fgrad.core.reverse import _added
from fgrad.core.views import layout
from fgrad.transforms import calls

X = np.array([1.0, 2.0, 3.0])


def work_buffer(x):
    e, s = np.zeros(3), 0.0
    for i in range(3):
        e[:] = 0
        e[i] = 1
        s = s + (i + 1) * np.dot(e, x)
    return s


def factor_on_the_left(x):
    c, s = np.ones(3), 0.0
    for i in range(3):
        c[i] = 5.0 * i
        s = s + np.sum(c * np.sin(x))
    return s


def factor_on_the_right(x):
    c, s = np.ones(3), 0.0
    for _ in range(3):
        c *= 2.0
        s = s + np.sum(np.sin(x) * c / (1 + c))
    return s


def mask(x):
    chosen, s = np.zeros(3, bool), 0.0
    for i in range(3):
        chosen[i] = True
        s = s + np.sum(np.where(chosen, x**2, x))
    return s


def boolean_index(x):
    chosen, s = np.zeros(3, bool), 0.0
    for i in range(3):
        chosen[i] = True
        s = s + np.sum(x[chosen] ** 2)
    return s


def index_buffer(x):
    places, s = np.array([0, 0]), 0.0
    for i in range(3):
        places[:] = i, (i + 1) % 3
        s = s + x[places[0]] * x[places[1]] + np.sum(x[places] ** 3) + np.sum(np.take(x, places))
    return s


def filled(x):
    c = np.full(3, 2.0)
    s = np.sum(c * x)
    c.fill(7.0)
    return s + np.sum(c * x)


def sorted_in_place(x):
    c = np.array([3.0, 1.0, 2.0])
    s = np.sum(c * x**2)
    c.sort()
    return s + np.sum(c * x)


def by_out(x):
    c = np.ones(3)
    s = np.sum(c * x)
    np.multiply(c, 3.0, out=c)
    return s + np.sum(x * c)


def through_a_view(x):
    whole = np.arange(6.0)
    part = whole[::2]
    s = np.sum(part * x**2)
    whole[:] = -1.0
    return s + np.sum(part * x)


def matrix(x):
    a, s = np.eye(3), 0.0
    for i in range(3):
        a[i, 0] += 2.0
        s = s + np.sum((a @ x) ** 2) + np.sum(x @ a)
    return s


def solved(x):
    a, s = np.eye(3) * 2.0, 0.0
    for i in range(2):
        a[i, i] += 1.0
        s = s + np.sum(np.linalg.solve(a, x) ** 2)
    return s


def einsum(x):
    a, s = np.eye(3), 0.0
    for i in range(3):
        a[:, i] = i + 1.0
        s = s + np.einsum("ij,i,j", a, x, x)
    return s


def selected(x):
    c, s = np.zeros(3), 0.0
    for i in range(3):
        c[:] = i + 0.5
        s = s + np.sum(np.maximum(x, c) * x) + np.sum(np.clip(x, c - 1, c + 1)) + np.sum(x**c)
    return s


def in_a_checkpoint(x):
    c, s = np.ones(3), 0.0
    step = fg.checkpoint(lambda x, c: np.sin(x) * c)
    for i in range(3):
        c[i] = 4.0
        s = s + np.sum(step(x, c))
    return s


def by_a_rule(x):
    scaled = fg.custom_vjp(lambda x, c: x * c)
    scaled.defvjp(lambda x, c: (x * c, (x, c)), lambda residuals, ct: (ct * residuals[1], ct * residuals[0]))
    c, s = np.ones(3), 0.0
    for i in range(3):
        c[i] = 4.0
        s = s + np.sum(scaled(x, c) ** 2)
    return s


PROGRAMS = [
    work_buffer, factor_on_the_left, factor_on_the_right, mask, boolean_index, index_buffer, filled, sorted_in_place,
    by_out, through_a_view, matrix, solved, einsum, selected, in_a_checkpoint, by_a_rule,
]  # fmt: skip


def differences(f, x, step=1e-6):
    rows = np.eye(len(x)) * step
    return np.array([(float(f(x + row)) - float(f(x - row))) / (2 * step) for row in rows])


def by_tape(f, persistent):
    def gradient(x):
        x = fg.constant(x)
        with fg.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return gradient


MODES = {
    "grad": fg.grad,
    "jacfwd": fg.jacfwd,
    "vjp": lambda f: lambda x: fg.vjp(f, x)[1](1.0)[0],
    "tape": lambda f: by_tape(f, False),
    "persistent tape": lambda f: by_tape(f, True),
    "batch": lambda f: lambda x: fg.vmap(fg.grad(f))(np.stack([x, x]))[1],
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_derivative_is_that_of_the_plain_run(program):
    x = X + 0.2
    expected = differences(program, x)
    for mode, transform in MODES.items():
        np.testing.assert_allclose(transform(program)(x), expected, rtol=1e-6, atol=1e-8, err_msg=mode)
    v = np.array([1.0, -2.0, 0.5])
    products = differences(lambda x: fg.grad(program)(x) @ v, x)
    np.testing.assert_allclose(fg.hvp(program)(x, v), products, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(fg.grad(lambda x: fg.grad(program)(x) @ v)(x), products, rtol=1e-5, atol=1e-7)


def test_arguments_that_are_overwritten_before_the_pullback_is_called():
    for make in (fg.vjp, lambda f, x: fg.make_vjp(f)(x)):
        x = X.copy()
        value, pullback = make(lambda x: x**3, x)
        x[:] = 0.0
        assert value.tolist() == [1.0, 8.0, 27.0]
        assert pullback(np.ones(3))[0].tolist() == [3.0, 12.0, 27.0]
    x = X.copy()
    value, _ = fg.vjp(lambda x: x, x)
    x -= 1
    assert value.tolist() == X.tolist()


def test_a_mini_batch_inside_a_tape():
    w, batch = fg.Variable(np.ones(3)), np.zeros((2, 3))
    with fg.GradientTape() as tape:
        loss = 0.0
        for i in range(3):
            batch[:] = i + 1.0
            loss = loss + np.sum(batch @ w)
    assert tape.gradient(loss, w).tolist() == [12.0, 12.0, 12.0]


# Large arrays


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_large_array_that_is_overwritten_is_an_error(program, monkeypatch):
    monkeypatch.setattr("fgrad.core.reverse.LARGE", 0)
    monkeypatch.setattr("fgrad.core.snapshots.LARGE", 0)
    with pytest.raises(
        errors.OverwrittenError, match=r"(written to|overwritten) before the backward [\s\S]*at test_over"
    ):
        fg.grad(program)(X + 0.2)
    assert not snapshots._locked
    with pytest.raises(errors.OverwrittenError, match=r"overwritten before the backward pass[\s\S]*at test_over"):
        fg.vjp(program, X + 0.2)[1](1.0)


LARGE = np.random.default_rng(5).standard_normal((400, 400))


def fresh():
    return LARGE.copy()


def test_a_large_array_is_read_only_while_a_transform_runs_and_a_write_names_its_place():
    a, x = fresh(), np.ones(400)

    def writes(x):
        total = np.sum((a @ x) ** 2)
        assert not a.flags.writeable
        a[0] = 7.0
        return total

    with pytest.raises(
        errors.OverwrittenError, match=r"matmul used [\s\S]*used at test_over.*a @ x[\s\S]*written at test_o"
    ):
        fg.grad(writes)(x)
    assert a.flags.writeable
    np.testing.assert_array_equal(a, LARGE)
    np.testing.assert_allclose(fg.grad(lambda x: np.sum((a @ x) ** 2))(x), 2 * a.T @ (a @ x))
    assert a.flags.writeable


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: fg.grad(f),
        lambda f: fg.value_and_grad(f),
        lambda f: fg.gradients_function(f),
        lambda f: fg.jacobian(f, mode="reverse"),
        lambda f: fg.hessian(f),
        lambda f: lambda x: fg.hvp(f)(x, x),
        lambda f: fg.grad(lambda x: fg.grad(f)(x) @ x),
        lambda f: lambda x: fg.optimizers.GradientDescent(0.1).minimize(lambda: f(fg.Variable(x))),
    ],
)
def test_arrays_are_writable_again_whatever_ends_a_transform(transform):
    a, x = fresh(), np.ones(400)
    part, turned = a[100:], a.T

    def f(x, ends=None):
        total = np.sum((a @ x) ** 2) + np.sum((turned @ x) ** 2) + np.sum((part @ x) ** 2)
        if ends is not None:
            raise ends
        return total

    for ends in (None, ValueError("no"), KeyboardInterrupt()):
        try:
            transform(lambda x, ends=ends: f(x, ends))(x)
        except (ValueError, KeyboardInterrupt):
            pass
        assert a.flags.writeable
        assert part.flags.writeable
        assert turned.flags.writeable
        assert not snapshots._locked


@pytest.mark.parametrize(
    ("owner", "name"), [(snapshots, "_lineage"), (snapshots.Locks, "release"), (calls, "release_all")]
)
def test_arrays_are_writable_again_after_an_interrupt_while_they_are_released(owner, name, monkeypatch):
    a, x = fresh(), np.ones(400)
    part = a[100:]
    function, pending = getattr(owner, name), []

    def interrupted(*args):
        if pending:
            raise pending.pop()
        return function(*args)

    def f(x):
        total = np.sum((a @ x) ** 2) + np.sum((part @ x) ** 2)
        pending.append(KeyboardInterrupt())
        return total

    monkeypatch.setattr(owner, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        fg.grad(f)(x)
    monkeypatch.undo()
    assert a.flags.writeable
    assert part.flags.writeable
    assert not snapshots._locked
    np.testing.assert_allclose(fg.grad(lambda x: np.sum(a @ x))(x), np.sum(a, axis=0))


def test_what_was_read_only_stays_so_and_to_make_it_writable_is_an_error():
    a, x = fresh(), np.ones(400)
    a.flags.writeable = False
    fg.grad(lambda x: np.sum((a @ x) ** 2))(x)
    assert not a.flags.writeable

    def unlocks(x):
        total = np.sum((a @ x) ** 2)
        a.flags.writeable = True
        return total

    with pytest.raises(errors.OverwrittenError, match="made writable before the backward pass"):
        fg.grad(unlocks)(x)


def test_threads_share_a_lock():
    a, x = fresh(), np.ones(400)
    ended, locked, seen = threading.Event(), threading.Event(), []

    def slow(x):
        total = np.sum((a @ x) ** 2)
        locked.set()
        ended.wait(10)
        return total

    thread = threading.Thread(target=lambda: seen.append(plain(fg.grad(slow)(x))))
    thread.start()
    assert locked.wait(10)
    fg.grad(lambda x: np.sum((a @ x) ** 2))(x)
    assert not a.flags.writeable
    ended.set()
    thread.join()
    assert a.flags.writeable
    np.testing.assert_allclose(seen[0], 2 * a.T @ (a @ x))


def test_pullbacks_and_tapes_leave_nothing_locked():
    a, x = fresh(), fg.constant(np.ones(400))
    _, pullback = fg.vjp(lambda x: a @ x, x)
    assert a.flags.writeable
    pullback(np.ones(400))
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(a @ x)
    assert a.flags.writeable
    a[0] += 1.0
    with pytest.raises(errors.OverwrittenError, match="overwritten before the backward pass"):
        tape.gradient(y, x)


def test_a_write_through_an_earlier_view_is_found_where_one_looks_for_it():
    a, x = fresh(), np.ones(400)
    row = a[0]

    def f(x):
        total = np.sum((a @ x) ** 2)
        row[:] += 1.0
        return total

    fg.grad(f)(x)
    with fg.debug_overwrites(), pytest.raises(errors.OverwrittenError, match=r"overwritten [\s\S]*used at test_over"):
        fg.grad(f)(x)
    with pytest.raises(errors.OverwrittenError, match="overwritten"):
        fg.check(f, x)
    assert a.flags.writeable


def test_memory_of_another_library_is_compared(tmp_path):
    mapped = np.memmap(tmp_path / "data", dtype=float, mode="w+", shape=(400, 400))
    mapped[:] = LARGE
    buffer = bytearray(LARGE.tobytes())
    for a in (mapped, np.frombuffer(buffer).reshape(400, 400)):

        def f(x, a=a):
            total = np.sum((a @ x) ** 2)
            a[0] = 7.0
            return total

        with pytest.raises(errors.OverwrittenError, match=r"(written to|overwritten) before the backward pass"):
            fg.grad(f)(np.ones(400))
        a[0] = LARGE[0]
        np.testing.assert_allclose(
            fg.grad(lambda x, a=a: np.sum((a @ x) ** 2))(np.ones(400)), 2 * LARGE.T @ (LARGE @ np.ones(400))
        )
        assert a.flags.writeable


# Subclasses and lists


def of_memmap(tmp_path):
    array = np.memmap(tmp_path / "data", dtype=float, mode="w+", shape=(3,))
    array[:] = 1.0, 2.0, 0.5
    return array


class Own(np.ndarray):
    pass


KINDS = {
    "array": lambda folder: np.array([1.0, 2.0, 0.5]),
    "memmap": of_memmap,
    "subclass": lambda folder: np.array([1.0, 2.0, 0.5]).view(Own),
    "list": lambda folder: [1.0, 2.0, 0.5],
    "buffer": lambda folder: memoryview(bytearray(np.array([1.0, 2.0, 0.5]))).cast("d"),
}
OPERATIONS = {
    "*": lambda x, k: x * k * x,
    "reflected *": lambda x, k: k * x * x,
    "/": lambda x, k: (x / k) ** 2,
    "@": lambda x, k: (x @ k) ** 2,
    "outer": lambda x, k: np.multiply.outer(x, k) ** 2,
    "where": lambda x, k: np.where(np.asarray(k) > 0.7, x * x, x),
    "where of it": lambda x, k: np.where(x > 1.5, k, x) * x,
    "clip": lambda x, k: np.clip(x, k, 9.0) ** 2,
    "maximum": lambda x, k: np.maximum(x, k) ** 2,
    "logaddexp": lambda x, k: np.logaddexp(x, k),
    "hypot": lambda x, k: np.hypot(x, k),
    "power": lambda x, k: np.power(x, k),
    "convolve": lambda x, k: np.convolve(x, k) ** 2,
    "correlate": lambda x, k: np.correlate(x, k, "full") ** 2,
    "polymul": lambda x, k: np.polymul(x, k) ** 2,
    "matmul of rows": lambda x, k: np.matmul([k, k], x) ** 2,
    "dot": lambda x, k: np.dot(k, x) ** 2,
    "einsum": lambda x, k: np.einsum("i,i,i", x, k, x),
    "interp": lambda x, k: np.interp(x, [0.0, 1.0, 4.0], k) ** 2,
    "trapezoid": lambda x, k: np.trapezoid(x * x, k),
    "convolve of SciPy": lambda x, k: fgrad.scipy.signal.convolve(x, k) ** 2,
    "fftconvolve": lambda x, k: fgrad.scipy.signal.fftconvolve(x, k) ** 2,
    "oaconvolve": lambda x, k: fgrad.scipy.signal.oaconvolve(x, k) ** 2,
    "upfirdn": lambda x, k: fgrad.scipy.signal.upfirdn(k, x) ** 2,
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_plain_operand_may_be_overwritten(kind, name, tmp_path):
    operation = OPERATIONS[name]
    expected = fg.grad(lambda x: np.sum(operation(x, np.array([1.0, 2.0, 0.5]))))(X)

    def f(x):
        operand = KINDS[kind](tmp_path)
        total = np.sum(operation(x, operand))
        for i in range(3):
            operand[i] = 9.0
        return total

    np.testing.assert_array_equal(plain(fg.grad(f)(X)), plain(expected))
    np.testing.assert_allclose(plain(fg.jacfwd(lambda x: np.sum(operation(x, KINDS[kind](tmp_path))))(X)), expected)
    batched = fg.vmap(lambda x: np.sum(operation(x, KINDS[kind](tmp_path))))(np.stack([X, X]))
    np.testing.assert_allclose(plain(batched)[1], np.sum(operation(X, np.array([1.0, 2.0, 0.5]))))


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("is_first", [True, False])
def test_lists_with_traced_numbers_are_operands(kind, is_first):
    """Whichever lists have been operands before: what is known of a type is no property of one list."""
    if not is_first:
        assert (fg.constant(X) * kind(X)).tolist() == (X * X).tolist()
    for operation in (lambda x, k: x * k, lambda x, k: k * x, lambda x, k: x @ k, np.multiply, np.dot):
        f = lambda x, operation=operation: np.sum(operation(x, kind([x[0], 2.0, x[1]])))  # noqa: E731
        for transform in (fg.grad, fg.jacfwd, lambda f: fg.compile(fg.grad(f))):
            assert np.asarray(transform(f)(X)).tolist() == [2 * X[0], 2.0 + X[2], X[1]]
        assert np.asarray(fg.vmap(f)(np.stack([X, X]))).tolist() == [X[0] ** 2 + 2 * X[1] + X[1] * X[2]] * 2
    assert not {list, tuple, memoryview, fg.Tensor, fg.Variable} & OPERANDS


class Rules:
    def method(self, ans, x, k):
        return lambda ct: ct * k

    @staticmethod
    def static(ans, x, k):
        return functools.partial(np.multiply, k)


def helper(ans, x, k):
    return of_helper(k)


def of_helper(k):
    return lambda ct: ct * k


SPELLINGS = {
    "lambda": lambda ans, x, k: lambda ct: ct * k,
    "partial": functools.partial(lambda unit, ans, x, k: lambda ct: ct * k, 1.0),
    "bound method": Rules().method,
    "static method": Rules.static,
    "helper": helper,
    "star arguments": lambda ans, *args: lambda ct: ct * args[1],
    "declared": lambda ct, k: ct * k,
}


@pytest.mark.parametrize("rule", SPELLINGS.values(), ids=SPELLINGS)
def test_a_users_rule_keeps_what_its_operation_used_however_it_is_spelled(rule):
    scaled = fg.extend.register_primitive(lambda x, k: x * k, name=f"scaled_{next(COUNT)}")
    fg.extend.defvjp(scaled, rule, None)

    def f(x):
        k = np.array([1.0, 2.0, 0.5])
        total = np.sum(scaled(x, k))
        k[:] = 9.0
        return total

    assert fg.grad(f)(X).tolist() == [1.0, 2.0, 0.5]


@pytest.mark.parametrize("of_tape", [False, True])
@pytest.mark.parametrize("size", [3, 200_000])
@pytest.mark.parametrize("arrays", [1, 2])
def test_arrays_among_the_keywords_of_a_users_operation(size, arrays, of_tape):
    scaled = fg.extend.register_primitive(lambda *x, k: x[0] * k, name=f"scaled_by_keyword_{next(COUNT)}")
    rules = [lambda ans, *x, k: lambda ct: ct * k, *[None] * (arrays - 1)]
    fg.extend.defvjp(scaled, *rules)
    x, others = np.ones(size), [2.0] * (arrays - 1)

    def f(x):
        k = np.arange(1.0, size + 1)
        total = np.sum(scaled(x, *others, k=k))
        k[:] = 9.0
        return total

    def gradient():
        return of_a_tape(f, x) if of_tape else fg.grad(f)(x)

    if size == 3:
        assert gradient().tolist() == [1.0, 2.0, 3.0]
    else:
        with pytest.raises(errors.OverwrittenError, match="scaled_by_keyword_"):
            gradient()


COUNT = itertools.count()


def test_a_large_array_that_stays_is_as_good_as_a_small_one():
    a = np.random.default_rng(0).standard_normal((300, 500))
    assert a.nbytes > snapshots.LARGE
    x = np.linspace(-1.0, 1.0, 500)
    by_matrix = fg.grad(lambda x: np.sum((a @ x) ** 2) + np.sum(a * x))(x)
    np.testing.assert_allclose(by_matrix, 2 * a.T @ (a @ x) + a.sum(0), rtol=1e-12)
    with pytest.raises(errors.OverwrittenError, match=r"matmul used a plain array of shape \(300, 500\)"):
        pullback = fg.vjp(lambda x: a @ x, x)[1]
        a[3], a[4] = a[4].copy(), a[3].copy()
        pullback(np.ones(300))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int8, np.bool_])
@pytest.mark.parametrize("shape", [(), (1,), (5, 3), (4096,), (70, 130), (0,), (3, 41, 101)])
def test_fingerprints_tell_writes(dtype, shape):
    rng = np.random.default_rng(1)
    array = (rng.standard_normal(shape) * 10).astype(dtype)
    before = snapshots.fingerprint(array)
    assert snapshots.fingerprint(array.copy()) == before
    assert snapshots.fingerprint(np.asfortranarray(array)) == before
    for _ in range(20 if array.size > 1 else 0):
        changed = array.copy()
        flat = changed.reshape(-1)
        i, j = rng.choice(flat.size, 2, replace=False)
        flat[i], flat[j] = flat[j], flat[i]
        if not np.array_equal(changed, array):
            assert snapshots.fingerprint(changed) != before
        flat[i] = ~flat[i] if dtype is np.bool_ else flat[i] + 1
        if not np.array_equal(changed, array):
            assert snapshots.fingerprint(changed) != before


# What can only be read


def test_what_can_only_be_read_needs_no_fingerprint():
    owner, seen_through = np.ones((1000, 1000)), np.ones((1000, 1000))
    owner.flags.writeable = False
    view = seen_through[:]
    view.flags.writeable = False
    for array in (owner, owner[::2], np.frombuffer(bytes(8_000_000)).reshape(1000, 1000)):
        assert snapshots.ChecksumGuard(np.sin, [array], "sin").prints == [None]
    for array in (view, seen_through):
        assert snapshots.ChecksumGuard(np.sin, [array], "sin").prints == [snapshots.fingerprint(array)]


@pytest.mark.parametrize("size", [3, 10_000])
def test_a_work_buffer_is_written_to_again_where_a_function_runs_again(size):
    buffer, x = np.zeros(size), np.linspace(0.5, 1.0, size)

    def squares_of_sums(x, buffer):
        np.cumsum(np.ones(len(buffer)), out=buffer)
        return np.sum((buffer * x) ** 2)

    expected = 2 * np.arange(1.0, size + 1) ** 2 * x
    np.testing.assert_allclose(fg.grad(lambda x: fg.checkpoint(squares_of_sums)(x, buffer))(x), expected)


def large_data_in_a_rule(data):
    product = fg.custom_vjp(lambda x, data: data @ x)
    product.defvjp(lambda x, data: (product(x, data), data), lambda data, ct: (data.T @ ct, None))
    return lambda x: np.sum(product(x, data))


USES = {
    "product": lambda data: lambda x: np.sum(data @ x),
    "elements": lambda data: lambda x: np.sum(np.concatenate([data * x, data * x])),
    "checkpoint": lambda data: lambda x: np.sum(fg.checkpoint(lambda x, data: data @ x)(x, data)),
    "rule": large_data_in_a_rule,
}


def of_a_tape(f, x):
    x = fg.constant(x)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_large_data_that_can_only_be_read_is_not_compared(use, monkeypatch):
    data, x = np.random.default_rng(0).normal(size=(2000, 100)), np.ones(100)
    expected, counted = of_a_tape(use(data), x), []
    monkeypatch.setattr(snapshots, "fingerprint", lambda array: counted.append(array) or 0)
    of_a_tape(use(data), x)
    assert counted
    counted.clear()
    data.flags.writeable = False
    np.testing.assert_array_equal(of_a_tape(use(data), x), expected)
    assert not counted


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_large_data_that_can_be_written_to_again_is_an_error(use):
    data, x = np.ones((2000, 100)), fg.constant(np.ones(100))
    data.flags.writeable = False
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = use(data)(x)
    data.flags.writeable = True
    with pytest.raises(errors.OverwrittenError, match=r"made writable before the backward pass[\s\S]*at test_over"):
        tape.gradient(y, x)


def test_smaller_data_may_be_written_to_again():
    data, x = np.ones((100, 100)), fg.constant(np.ones(100))
    data.flags.writeable = False
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(data @ x)
    data.flags.writeable = True
    data[:] = 7.0
    np.testing.assert_array_equal(tape.gradient(y, x), np.full(100, 100.0))


# What it costs in memory


def test_a_sum_keeps_nothing_and_a_record_lets_go():
    seen = []

    def f(x):
        added, factor = np.ones(1000), np.full(1000, 2.0)
        seen.extend(map(weakref.ref, (added, factor)))
        y = np.sum(x + added) + np.sum(x * factor)
        del added, factor
        gc.collect()
        assert [reference() for reference in seen[-2:]] == [
            None,
            None,
        ]
        return y

    assert fg.grad(f)(np.ones(1000))[0].item() == 3.0


def test_an_array_that_is_used_again_and_again_is_copied_once(monkeypatch):
    a, copies = np.ones((80, 80)), []
    snapshot = snapshots.snapshot
    monkeypatch.setattr("fgrad.core.reverse.snapshot", lambda *given: copies.append(snapshot(*given)) or copies[-1])

    def f(x):
        for _ in range(5):
            x = a @ x
        return np.sum(x)

    fg.grad(f)(np.ones(80))
    assert len(copies) == 5
    assert len(set(map(id, copies))) == 1


def test_one_copy_serves_all_traces():
    a, x = np.linspace(0.5, 1.5, 20_000), np.linspace(0.0, 1.0, 20_000)
    with pytest.MonkeyPatch.context() as patch:
        copies = []
        snapshot = snapshots.snapshot
        patch.setattr("fgrad.core.reverse.snapshot", lambda *given: copies.append(snapshot(*given)) or copies[-1])
        _, pullback = fg.vjp(fg.grad(lambda x: np.sum(np.sin(a * x))), x)
        of_a = [id(copy) for copy in copies if copy[0] == a[0]]
        assert len(of_a) > 2
        assert len(set(of_a)) == 1
    before, a[:] = a.copy(), 7.0
    np.testing.assert_allclose(pullback(np.ones(20_000))[0], -before * before * np.sin(before * x), rtol=1e-12)


def test_a_number_that_is_repeated_is_not_copied_as_often():
    """As the cotangent of a sum is, which the outer gradient sees as a plain array."""
    ones = np.broadcast_to(1.0, (1000, 1000))
    assert not any(snapshots.snapshot(ones, {}).strides)
    x = np.linspace(0.0, 1.0, 1_000_000)
    inner = fg.grad(lambda x: np.sum(np.sin(x)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "fingerprint", None)
        found = fg.grad(lambda x: np.sum(inner(x)))(x)
    np.testing.assert_allclose(found, -np.sin(x), rtol=1e-12)


def test_nobody_can_write_into_a_copy_that_traces_share():
    a = np.ones(20_000)
    copy = snapshots.snapshot(a, {})
    assert copy is not a
    with pytest.raises(ValueError, match="read-only"):
        copy[0] = 2.0


# Tensors that are written to: what was recorded stays what it was


def into_what_an_inner_function_uses(p):
    q = p * 1.0

    def inner(y):
        a = np.sum(y**2 * q)
        q[0] = 7.0
        return a

    return np.sum(fg.grad(inner)(np.ones(3)))


def into_the_argument_of_an_inner_gradient(p):
    q = p * 1.0

    def inner(y):
        a = np.sum(y**2)
        q[0] = 7.0
        return a

    return np.sum(fg.grad(inner)(q) * p)


def into_what_a_pullback_was_made_of(p):
    q = p * 1.0
    value, pull = fg.vjp(lambda y: y * q, q)
    q[0] = 7.0
    return np.sum(value * p) + np.sum(pull(p)[0] * p)


def into_a_seed_and_a_tangent(p):
    q = p * 1.0
    (given,) = fg.vjp(lambda y: y, p)[1](q)
    _, moved = fg.jvp(lambda y: y, (p,), (q,))
    q *= 0.0
    return np.sum(given * moved)


def into_the_result_of_a_transform(p):
    q = p * 1.0
    r = fg.vmap(lambda y: y)(q)
    r *= 5.0
    return np.sum(q**2) + np.sum(r**2)


def into_the_operand_of_a_checkpoint(p):
    u = p * 1.0
    for _ in range(3):
        u[:] = fg.checkpoint(lambda v: np.sin(v) * v)(u)
    return np.sum(u)


def into_what_a_custom_rule_keeps(p):
    y = p * 1.0
    z = np.sum(_squared(y))
    y[0] = 100.0
    return z


@fg.custom_vjp
def _squared(x):
    return x * x


_squared.defvjp(lambda x: (x * x, x), lambda x, ct: (ct * 2 * x,))

WRITES = {
    into_what_an_inner_function_uses: lambda p: np.sum(2 * p),
    into_the_argument_of_an_inner_gradient: lambda p: np.sum(2 * p * p),
    into_what_a_pullback_was_made_of: lambda p: np.sum(p**3) + np.sum(p * p * p),
    into_a_seed_and_a_tangent: lambda p: np.sum(p * p),
    into_the_result_of_a_transform: lambda p: np.sum(26 * p**2),
    into_the_operand_of_a_checkpoint: None,
    into_what_a_custom_rule_keeps: lambda p: np.sum(p**2),
}


def _sines(p):
    for _ in range(3):
        p = np.sin(p) * p
    return np.sum(p)


@pytest.mark.parametrize("program", WRITES, ids=lambda program: program.__name__)
def test_writes_into_tensors_change_nothing_that_is_recorded(program):
    expected = WRITES[program] or _sines
    value, gradient = fg.value_and_grad(program)(X)
    np.testing.assert_allclose(value, expected(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, fg.grad(expected)(X), rtol=1e-12)
    np.testing.assert_allclose(fg.jvp(program, (X,), (X,))[1], fg.jvp(expected, (X,), (X,))[1], rtol=1e-12)
    x = fg.constant(X)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = program(x)
    for _ in range(2):
        np.testing.assert_allclose(tape.gradient(y, x), gradient, rtol=1e-12)


def test_a_persistent_tape_keeps_what_was_written_to_afterwards():
    x = fg.Variable([1.0, 2.0])
    with fg.GradientTape(persistent=True) as tape:
        h = x * 2
        a = np.sum(h**2)
        h[0] = 0.0
    assert tape.gradient(a, x).tolist() == [8.0, 16.0]


@pytest.mark.parametrize("call", [
    lambda c: fg.vmap(lambda z: z)(c),
    lambda c: fg.vjp(lambda z: z, c)[0],
    lambda c: fg.vjp(lambda z: z, c)[1](c)[0],
    lambda c: fg.jvp(lambda z: z, (c,), (c,))[1],
    lambda c: fg.value_and_grad(lambda z: (np.sum(z), z), has_aux=True)(c)[0][1],
    lambda c: fg.trace(lambda z: z)(c)(c),
])  # fmt: skip
def test_results_can_be_written_to_without_harm_to_the_arguments(call):
    c = fg.constant(X)
    result = call(c)
    result *= 5.0
    np.testing.assert_array_equal(c, X)


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("part", ["real", "imag"])
def test_writes_through_a_path_that_is_no_view_of_this_array(axes, part):
    from fgrad.core.primitive import PRIMITIVES
    from fgrad.ops.indexing import _assigned

    steps = (
        (PRIMITIVES["transpose"], {"axes": (2, 0, 1)}, (4, 2, 3)),
        (PRIMITIVES[part], {}, (4, 2, 3)),
        (PRIMITIVES["reshape"], {"shape": (8, 3)}, (8, 3)),
    )
    plain = (np.arange(24.0) * (1 + 2j)).reshape(2, 3, 4)
    array = plain.transpose(axes).copy().transpose(np.argsort(axes))
    found = _assigned(array, -1.0, (slice(1, 6),), steps, 0)
    expected = plain.transpose(2, 0, 1).copy()
    getattr(expected, part).reshape(8, 3)[1:6] = -1.0
    np.testing.assert_array_equal(found.transpose(2, 0, 1), expected)


# Writes take time and memory by their own size


def rows_one_after_the_other(count):
    def f(x):
        u = np.zeros_like(x, shape=(count, x.size))
        u[0] = x
        for i in range(count - 1):
            u[i + 1] = u[i] + 0.01 * np.sin(u[i])
        return np.sum(u**2)

    return f


@pytest.mark.parametrize("derivative", [
    lambda f, x: fg.grad(f)(x),
    lambda f, x: fg.jvp(f, (x,), (x,)),
    lambda f, x: fg.hvp(f)(x, x),
    lambda f, x: f(fg.constant(x)),
], ids=["grad", "jvp", "hvp", "value"])  # fmt: skip
def test_rows_are_written_without_a_copy_of_the_whole(derivative):
    """If each of the 300 writes copied the 600 kilobytes, or kept them, there would be many times of that."""
    derivative(rows_one_after_the_other(3), np.ones(250))
    tracemalloc.start()
    derivative(rows_one_after_the_other(300), np.ones(250))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 25 * 600_000


@pytest.mark.parametrize("size", [100, 20_000])
def test_the_array_that_is_written_to_stays_the_same_one_until_it_is_seen(size):
    x = fg.constant(np.zeros(size))
    x[0] = 1.0
    memory = layout(x).ctypes.data
    parts = []
    for i in range(1, 10):
        x[i] = 1.0
        parts += [x[i], x[i - 1 : i + 1], x[[i, i + 1]], x.reshape(2, -1)[0, i : i + 2]]  # parts are copies
        assert layout(x).ctypes.data == memory
    kept = x * 1.0, x.copy(), x.numpy(), np.asarray(x), x[:]
    assert [each.tolist() for each in parts[4:8]] == [1.0, [1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    x[0] = 7.0
    assert layout(x).ctypes.data != memory
    assert [each[0] for each in kept] == [1.0, 1.0, 1.0, 1.0, 7.0]  # the last one is a view


def test_what_was_written_to_is_assigned_passed_and_returned():
    def f(x):
        y, z = x * 1.0, x * 2.0
        y[1:] = x[0]
        z[...] = y
        y[0] = 7.0
        w = x * 1.0
        w[0] = x[1]
        total = fg.vjp(np.sin, w)[1](w)[0] + fg.jvp(np.sin, (w,), (w,))[1]
        w[1] = x[2]
        return z, np.sum(y * z) + np.sum(total), w

    x = np.array([1.0, 2.0, 3.0])
    z, total, w = f(x)
    g = fg.vmap(f)(x[None])
    for found, expected in zip(g, (z, total, w), strict=True):
        np.testing.assert_allclose(found[0], expected)
    np.testing.assert_allclose(fg.jacrev(lambda x: f(x)[0])(x), [[1, 0, 0], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_allclose(fg.jacrev(lambda x: f(x)[2])(x), [[0, 1, 0], [0, 0, 1], [0, 0, 1]])
    np.testing.assert_allclose(fg.grad(lambda x: f(x)[1])(x), fg.jacfwd(lambda x: f(x)[1])(x))
    np.testing.assert_allclose(fg.compile(lambda x: f(x)[1])(x), total)


def test_threads_may_read_what_was_written_to():
    for _ in range(200):
        x = fg.constant(np.zeros(6))
        x[0] = 1.0
        barrier, found = threading.Barrier(4), []

        def read(x=x, barrier=barrier, found=found):
            barrier.wait()
            found.append((x.shape, x[0].item(), np.sum(x).item(), x.dtype))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [((6,), 1.0, 1.0, np.float64)] * 4


PIECES = [0, -1, slice(1, 3), slice(None), slice(None, None, -1), slice(0, 9, 2), [0, 2, 2], np.arange(6) % 2 == 0]
MOVES = [lambda y: y, lambda y: y.reshape(2, 3).T, lambda y: y[::-1], lambda y: y[None]]


def assignments(x, seed):
    """Write into an array, by views and by parts of itself, and keep what is read on the way."""
    rng = np.random.default_rng(seed)
    y, kept = x * 1.0, []
    views = [y]
    for step in range(20):
        z = views[rng.integers(len(views))]
        key = PIECES[rng.integers(len(PIECES) - (len(z) != 6))]
        key = key if not isinstance(key, list) or len(z) > 2 else 0
        match rng.integers(6):
            case 0:
                z[key] = x[step % 6] * 1.5
            case 1:
                z[key] = z[key] * 0.5 + x[0]
            case 2:
                z[key] += 0.25 * x[1]
            case 3:
                kept.append(z[key])
            case 4:
                kept.append(np.sum(z * z))
            case 5:
                views = [y, MOVES[rng.integers(len(MOVES))](y)]
    return np.sum(y**2) + sum(np.sum(np.sin(each)) for each in kept) + sum(np.sum(each) for each in views)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.slow
def test_random_assignments_are_those_of_a_plain_run(seed):
    def f(x):
        return assignments(x, seed)

    x = np.linspace(0.5, 1.5, 6)
    value, slope = f(x), fg.jacfwd(f)(x)
    assert f(fg.constant(x)).item() == pytest.approx(value, rel=1e-13)
    direction = np.cos(np.arange(6.0))
    np.testing.assert_allclose((f(x + 1e-6 * direction) - f(x - 1e-6 * direction)) / 2e-6, slope @ direction, rtol=1e-6)
    found, gradient = fg.value_and_grad(f)(x)
    assert found.item() == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12)
    np.testing.assert_allclose(fg.vmap(f)(np.stack([x, 2 * x])), [value, f(2 * x)], rtol=1e-13)
    curved = fg.jvp(fg.grad(f), (x,), (direction,))[1]
    np.testing.assert_allclose(fg.hvp(f)(x, direction), curved, rtol=1e-11, atol=1e-11)
    if seed % 5 == 0:  # compiling one takes longer than all else
        np.testing.assert_allclose(fg.compile(f)(x), value, rtol=1e-13)
    with fg.debug_lines():
        np.testing.assert_allclose(fg.grad(f)(x), slope, rtol=1e-12)


def test_what_is_joined_of_many_numbers():
    f = lambda x: np.sum(np.stack([x[i % 3] * i for i in range(3000)]) ** 2)  # noqa: E731
    expected = [2 * x * sum(i * i for i in range(place, 3000, 3)) for place, x in enumerate(X)]
    np.testing.assert_allclose(fg.grad(f)(X), expected)
    np.testing.assert_allclose(fg.jvp(f, (X,), (X,))[1], np.dot(expected, X))


# Views that are asked for by something else than an operation, after their root was written to


def test_a_view_can_be_watched_and_asked_for_after_a_write():
    base = fg.constant(np.arange(6.0))
    view = base[1:3]
    base[1] = 5.0
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(view)
        y = np.sum(view**2)
        whole = view * 1.0
        part = whole[1:]
        whole[1] = view[0] * 3.0
        z = np.sum(part * 1.0)
    assert tape.gradient(y, view).tolist() == [10.0, 4.0]
    assert tape.gradient(part, view).tolist() == [3.0, 0.0]
    assert tape.gradient(z, part).tolist() == [1.0]
    base[2] = 7.0
    assert repr(view) == "Tensor([5., 7.])"
    with fg.ForwardAccumulator(view, fg.constant([1.0, 0.0])) as accumulator:
        square = view**2
    assert accumulator.jvp(square).tolist() == [10.0, 0.0]


@pytest.mark.parametrize("place", [1, 5])
@pytest.mark.parametrize("is_before", [True, False])
def test_a_watched_view_whose_root_is_written_to_is_an_error(place, is_before):
    """What the view shows from then on is not followed, also where it is the same as before."""
    base = fg.constant(np.arange(6.0))
    view = base[1:3]
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(view)
        if is_before:
            base[place] = 5.0
        y = np.sum(view**2)
        base[place] = 5.0
    for unconnected in (fg.UnconnectedGradients.NONE, fg.UnconnectedGradients.ZERO):
        with pytest.raises(errors.WatchError, match="is a view, and its base was written to"):
            tape.gradient(y, {"v": view}, unconnected_gradients=unconnected)
    view = base[1:3]
    with fg.ForwardAccumulator(view, np.ones(2)) as accumulator:
        before = np.sum(view**2)
        base[place] = 5.0
        after = np.sum(view**2)
    assert accumulator.jvp(before) == 2 * np.sum(np.asarray([5.0 if place == 1 else 1.0, 2.0]))
    with pytest.raises(errors.WatchError, match="a primal of shape .* is a view"):
        accumulator.jvp(after)


def test_a_watched_tensor_that_is_written_to_after_its_use_is_an_error():
    x = fg.constant(X)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = np.sum(x**2)
        assert tape.gradient(y, x).tolist() == (2 * X).tolist()
        x[0] = 5.0
        z = np.sum(x**2)
    assert tape.gradient(z, x).tolist() == [10.0, *2 * X[1:]]
    with pytest.raises(errors.WatchError, match="the target depends on its value before"):
        tape.gradient(y, x)
    with pytest.raises(errors.WatchError, match="the target depends on its value before"):
        tape.jacobian(y, x)
    assert tape.gradient(fg.constant(1.0), x) is None


@pytest.mark.parametrize("ask", [
    lambda view: view.shape, lambda view: view.dtype, len, repr, str, lambda view: f"{view}", np.asarray, copy.copy,
    copy.deepcopy, lambda view: pickle.loads(pickle.dumps(view)), lambda view: view.tolist(), lambda view: view.numpy(),
    lambda view: list(view), lambda view: fg.jvp(lambda x: x, (view,), (view,)),
    lambda view: fg.explain(fg.grad(np.sum), view),
    lambda view: fg.vmap(np.sin)(view), lambda view: fg.checkpoint(np.sin)(view), fg.stop_gradient, fg.tree_leaves,
    lambda view: fg.Variable(view, name="w"), lambda view: np.stack([view, view]), lambda view: view + view,
    lambda view: 2 * view,
    lambda view: view[0], lambda view: np.dot(view, view), lambda view: view == view, lambda view: view._repr_html_(),
    lambda view: [*zip(view, view, strict=True)], lambda view: np.array([view, view]), lambda view: fg.constant(view),
])  # fmt: skip
def test_what_is_asked_of_a_view_after_a_write(ask):
    base = fg.constant(np.arange(6.0))
    view, other = base[1:3], fg.constant([7.0, 2.0])
    base[1] = 7.0
    assert repr(ask(view)) == repr(ask(other))


def test_a_view_of_a_traced_tensor_after_a_write_inside_of_transforms():
    def f(x):
        y = x * 2.0
        view = y[1:]
        y[1] = x[0] ** 2
        inner = fg.grad(lambda v: np.sum(v**3))(view)
        y[2] = 0.0
        held = fg.checkpoint(lambda v: np.sin(v) * view)(view)
        return np.sum(inner) + np.sum(held) + np.sum(fg.vmap(lambda v: v * v)(view))

    def same(x):
        first = np.stack([x[0] ** 2, 2 * x[2]])
        second = np.stack([x[0] ** 2, 0.0 * x[0]])
        return np.sum(3 * first**2) + np.sum(np.sin(second) * second) + np.sum(second**2)

    np.testing.assert_allclose(fg.grad(f)(X), fg.grad(same)(X))


def test_a_long_cotangent_that_others_refer_to_is_not_added_to():
    """The cotangent of a sum goes to both of its arguments as it is; what else comes to one is not the other's."""
    x, z, weights = np.linspace(1.0, 2.0, 4096), np.zeros(4096), np.linspace(-1.0, 1.0, 4096)

    def f(x, z):
        squares = x * x
        return np.sum((x + z) * weights) + np.sum(squares)

    for _ in range(2):
        of_x, of_z = fg.grad(f, argnums=(0, 1))(x, z)
        np.testing.assert_allclose(of_x, weights + 2 * x)
        np.testing.assert_array_equal(of_z, weights)
    tensors = fg.constant(x), fg.constant(z)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(tensors)
        y = f(*tensors)
    for _ in range(2):
        np.testing.assert_array_equal(tape.gradient(y, tensors)[1], weights)


def test_cotangents_are_added_up_in_sums_that_the_pass_has_made():
    one, other = np.ones(4096), np.ones(4096)
    assert _added(one, other, False) is not one
    assert one[0] == 1.0
    assert _added(one, other, True) is one
    assert one[0] == 2.0
    assert _added(one, np.ones(4096, np.float32), True) is not one


def test_sums_of_cotangents_do_not_depend_on_who_refers_to_what():
    """A profiler that reads the variables of frames refers to what is in them; no array is shared for that."""

    def profiler(frame, event, argument):
        held.append(dict(frame.f_locals))

    x, held = np.linspace(1.0, 2.0, 4096), []
    f = lambda x: np.sum(x * x) + np.sum(x + x) + np.sum(np.sin(x) * x)  # noqa: E731
    expected = plain(fg.grad(f)(x))
    sys.setprofile(profiler)
    try:
        found = plain(fg.grad(f)(x))
    finally:
        sys.setprofile(None)
    np.testing.assert_array_equal(found, expected)


# The argument itself

OF_ARGUMENTS = {
    "grad": lambda f, x: fg.grad(f)(x),
    "value_and_grad": lambda f, x: fg.value_and_grad(f)(x)[1],
    "gradients_function": lambda f, x: fg.gradients_function(f)(x)[0],
    "jacrev": lambda f, x: fg.jacrev(f)(x),
    "jacfwd": lambda f, x: fg.jacfwd(f)(x),
    "hessian": lambda f, x: fg.hessian(f)(x),
    "hvp": lambda f, x: fg.hvp(f)(x, np.ones_like(x)),
    "jvp of grad": lambda f, x: fg.jvp(fg.grad(f), (x,), (np.ones_like(x),))[1],
    "taylor of grad": lambda f, x: fg.taylor(fg.grad(f), 1)(x)[1],
    "laplacian of grad": lambda f, x: fg.laplacian(fg.grad(f))(x),
    "elementwise_grad": lambda f, x: fg.elementwise_grad(f)(x),
    "vmap of grad": lambda f, x: fg.vmap(fg.grad(f))(x[None])[0],
    "pytree": lambda f, x: fg.grad(lambda tree: f(tree["x"][0]))({"x": [x]})["x"][0],
}


@pytest.mark.parametrize("derivative", OF_ARGUMENTS.values(), ids=list(OF_ARGUMENTS))
def test_the_argument_may_be_overwritten_while_a_transform_runs(derivative):
    x = np.array([1.0, 2.0])

    def cubes(t):
        return np.sum(t**3)

    def overwriting(t):
        total = cubes(t)
        x[:] = 9.0
        return total

    expected = derivative(cubes, x.copy())
    np.testing.assert_array_equal(derivative(overwriting, x), expected)
    assert x.tolist() == [9.0, 9.0]


@pytest.mark.parametrize("derivative", [fg.grad, fg.jacrev, fg.elementwise_grad, lambda f: fg.vmap(fg.grad(f))])
def test_a_longer_argument_is_read_only_while_a_transform_runs(derivative):
    """A copy of it would take more time than a simple function."""
    x = np.ones((1, 10_000))

    def overwriting(t):
        total = np.sum(t**3)
        x[:] = 9.0
        return total

    with pytest.raises(errors.OverwrittenError, match=r"overwriting used a plain array of shape .*written to"):
        derivative(overwriting)(x)
    x[:] = 2.0
    np.testing.assert_array_equal(derivative(lambda t: np.sum(t**3))(x), np.full((1, 10_000), 12.0))
    assert x.flags.writeable


def test_each_use_of_an_array_has_the_elements_of_its_time():
    """Of an array that is large enough for its copies to be shared between its uses."""
    weights = np.ones(10_000)

    def f(x):
        first = np.sum(x * weights)
        weights[:] = 5.0
        return first + np.sum(x * weights)

    assert fg.grad(f)(np.zeros(10_000)).tolist() == [6.0] * 10_000


def test_each_use_of_an_array_in_a_recording_has_the_elements_of_its_time():
    def f(x):
        weights = np.ones(100)
        first = x * weights
        weights[:] = 5.0
        return first + x * weights

    assert fg.trace(f)(np.ones(100))(np.ones(100)).tolist() == [6.0] * 100
