"""What stays in memory and for how long; long loops; threads."""

import contextlib
import gc
import math
import os
import subprocess
import sys
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers import along, plain

import fgrad as fg
from fgrad.core import heap

N = 1000


@pytest.fixture
def without_collector():
    """Leave freeing to reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Watcher:
    """Keeps weak references to the arrays inside of tensors."""

    def __init__(self):
        self.references = []

    def __call__(self, tensor):
        value = tensor
        while type(value) is fg.Tensor:
            value = value._payload
        assert type(value) is np.ndarray
        self.references.append(weakref.ref(value))
        return tensor

    def alive(self):
        return sum(reference() is not None for reference in self.references)


def loss_watched_by(watch):
    """Return a function whose intermediate arrays are watched; the gradient needs each of them."""

    def loss(x):
        y = watch(np.exp(watch(np.sin(watch(x * x)))))
        return np.sum(watch(y * y))

    return loss


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize(
    "run",
    [
        lambda f, x: fg.grad(f)(x),
        lambda f, x: fg.value_and_grad(f)(x),
        lambda f, x: fg.gradients_function(f)(x),
        lambda f, x: fg.value_and_gradients_function(f)(x),
        lambda f, x: fg.jvp(f, (x,), (x,)),
        lambda f, x: fg.vjp(f, x)[1](1.0),
        lambda f, x: fg.vjp(f, x)[0],
        lambda f, x: fg.make_vjp(f)(x)[0],
        lambda f, x: fg.grad(lambda x: np.sum(fg.grad(f)(x)))(x),
        lambda f, x: fg.jvp(fg.grad(f), (x,), (x,)),
        lambda f, x: fg.grad(lambda x: fg.jvp(f, (x,), (np.ones(N),))[1])(x),
    ],
    ids=[
        "grad", "value_and_grad", "gradients_function", "value_and_gradients_function", "jvp", "vjp, pulled",
        "vjp, dropped", "make_vjp", "reverse over reverse", "forward over reverse", "reverse over forward",
    ],
)  # fmt: skip
def test_nothing_stays_of_a_transform(run):
    watch = Watcher()
    result = run(loss_watched_by(watch), np.linspace(0.0, 1.0, N))
    assert len(watch.references) >= 4
    assert watch.alive() == 0
    assert result is not None


WEIGHT = fg.Variable(np.linspace(0.0, 1.0, N))
LONG = np.linspace(0.0, 1.0, 100_000)


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize(
    "run",
    [
        lambda f, x: fg.grad(f)(x),
        lambda f, x: fg.grad(lambda x: f(f(x) * x))(x),
        lambda f, x: fg.grad(lambda x: np.sum(fg.grad(f)(x)))(x),
        lambda f, x: fg.jvp(fg.grad(f), (x,), (x,)),
        lambda f, x: fg.vmap(fg.grad(f))(np.stack([x, x])),
        lambda f, x: fg.implicit_gradients(lambda: f(WEIGHT * x))(),
        lambda f, x: fg.vjp(f, x)[0],
    ],
    ids=["grad", "nested", "reverse over reverse", "forward over reverse", "vmap", "variables", "dropped"],
)
def test_a_checkpoint_leaves_nothing_to_the_collector(run):
    steps = [fg.checkpoint(lambda x: np.sum(np.sin(x) ** 2)), fg.checkpoint(lambda x: np.sum(x) * LONG[-1])]
    with_array = fg.checkpoint(lambda x, y: np.sum(x) * y[-1])  # whose large argument must not be written to
    steps.append(lambda x: with_array(x, LONG))
    for step in steps:
        run(step, np.linspace(0.0, 1.0, N))
    gc.collect()
    for step in steps:
        run(step, np.linspace(0.0, 1.0, N))
        assert gc.collect() == 0


@pytest.mark.usefixtures("without_collector")
def test_a_pullback_keeps_what_it_needs_until_it_is_dropped():
    watch = Watcher()
    value, pullback = fg.vjp(loss_watched_by(watch), np.linspace(0.0, 1.0, N))
    assert watch.alive() > 0
    pullback(1.0)
    pullback(1.0)
    assert watch.alive() > 0
    del pullback
    assert watch.alive() == 0
    assert value.shape == ()


@pytest.mark.usefixtures("without_collector")
def test_results_that_outlive_the_transform_hold_nothing_else():
    watch, kept = Watcher(), []

    def loss(x):
        y = np.sin(watch(x * x))
        kept.append(y)
        z = watch(np.exp(y))
        kept.append(np.sum(z))
        return kept[-1]

    kept.append(fg.value_and_grad(loss)(np.linspace(0.0, 1.0, N)))
    assert watch.alive() == 0
    assert kept[0].shape == (N,)


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("transform", [fg.vjp, lambda f, x: fg.make_vjp(f)(x)])
def test_results_that_outlive_a_pullback_hold_nothing_else(transform):
    watch, kept = Watcher(), []

    def loss(x):
        y = np.sin(watch(x * x))
        kept.append(y)
        return np.sum(watch(np.exp(y)))

    value, pullback = transform(loss, np.linspace(0.0, 1.0, N))
    assert watch.alive() == 2
    del pullback
    assert watch.alive() == 0
    assert (value.shape, kept[0].shape) == ((), (N,))


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("transform", [fg.grad, fg.gradients_function, along])
def test_results_that_outlive_an_exception_hold_nothing_else(transform):
    watch, kept = Watcher(), []

    def failing(x):
        y = np.sin(watch(x * np.ones(N)))
        kept.append(y)
        kept.append(np.sum(watch(np.exp(y))))
        raise KeyError("stop")

    with contextlib.suppress(KeyError):
        transform(failing)(2.0)
    assert len(watch.references) == 2
    assert watch.alive() == 0


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("persistent", [False, True])
def test_dropping_a_tape_frees_its_record(persistent):
    watch = Watcher()
    x = fg.constant(np.linspace(0.0, 1.0, N))
    with fg.GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        y = loss_watched_by(watch)(x)
    assert watch.alive() > 0
    if persistent:
        tape.gradient(y, x)
        assert watch.alive() > 0
    del tape
    assert watch.alive() == 0
    assert y.shape == ()


@pytest.mark.usefixtures("without_collector")
def test_the_gradient_of_a_single_use_tape_frees_its_record():
    watch = Watcher()
    w = fg.Variable(np.linspace(0.0, 1.0, N))
    with fg.GradientTape() as tape:
        y = loss_watched_by(watch)(w)
    assert watch.alive() > 0
    gradient = tape.gradient(y, w)
    assert watch.alive() == 0
    assert (y.shape, gradient.shape) == ((), (N,))


@pytest.mark.usefixtures("without_collector")
def test_reset_frees_the_record():
    watch = Watcher()
    x = fg.constant(np.linspace(0.0, 1.0, N))
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = loss_watched_by(watch)(x)
        assert watch.alive() > 0
        tape.reset()
        assert watch.alive() == 0
    assert y.shape == ()


@pytest.mark.usefixtures("without_collector")
def test_implicit_gradients_and_optimizers_keep_nothing():
    watch = Watcher()
    w = fg.Variable(np.linspace(0.0, 1.0, N))
    loss = loss_watched_by(watch)
    result = fg.implicit_value_and_gradients(lambda: loss(w))()
    assert watch.alive() == 0
    optimizer = fg.optimizers.Adam(1e-3)
    optimizer.minimize(lambda: loss(w))
    assert watch.alive() == 0
    assert len(result) == 2


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("transform", [fg.grad, along, fg.gradients_function])
def test_an_exception_keeps_nothing(transform):
    watch = Watcher()
    loss = loss_watched_by(watch)

    def failing(x):
        loss(x * np.ones(N))
        raise KeyError("stop")

    with contextlib.suppress(KeyError):
        transform(failing)(2.0)
    assert len(watch.references) == 4
    assert watch.alive() == 0


@pytest.mark.usefixtures("without_collector")
def test_addition_keeps_no_operand():
    watch = Watcher()
    x = fg.constant(np.ones(N))
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = watch(watch(watch(x + 1.0) + 2.0) - 3.0)
        y = np.sum(-y)
    assert watch.alive() == 0
    assert plain(tape.gradient(y, x)) == [-1.0] * N


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize(
    ("function", "kept"),
    [
        *((f, 0) for f in (np.exp, np.exp2, np.sqrt, np.cbrt, np.tan, np.reciprocal, np.negative, np.cumsum)),
        *((f, 1) for f in (np.sin, np.log, np.square, np.tanh)),
    ],
)
def test_a_rule_keeps_its_argument_only_where_it_needs_it(function, kept):
    """The others need the result, or nothing."""
    watch = Watcher()
    _, pullback = fg.vjp(lambda x: function(watch(x * 1.0)), np.linspace(0.5, 1.0, N))
    assert watch.alive() == kept
    assert pullback(np.ones(N))[0].shape == (N,)


@pytest.mark.usefixtures("without_collector")
def test_a_variable_that_is_dropped_is_freed():
    def use():
        w = fg.Variable(np.ones(N))
        with fg.GradientTape() as tape:
            y = w * w
        tape.gradient(y, w)
        fg.implicit_gradients(lambda: w * w)()
        return weakref.ref(w)

    assert use()() is None


def _memory(steps, loss_of):
    """Return how many bytes more are in use after a number of steps whose losses are kept."""
    losses = [loss_of() for _ in range(100)]
    before = tracemalloc.get_traced_memory()[0]
    losses.extend(loss_of() for _ in range(steps))
    return (tracemalloc.get_traced_memory()[0] - before) / steps


@pytest.mark.usefixtures("without_collector")
def test_a_list_of_losses_costs_a_number_a_step():
    a = np.linspace(0.0, 1.0, 20)
    w = fg.Variable(np.zeros(20))
    x = fg.constant(np.zeros(20))
    optimizer = fg.optimizers.GradientDescent(0.1)
    value_and_gradients = fg.implicit_value_and_gradients(lambda: np.sum((w - a) ** 2))

    def by_implicit_gradients():
        loss, pairs = value_and_gradients()
        optimizer.apply_gradients(pairs)
        return loss

    def by_tape():
        with fg.GradientTape() as tape:
            loss = np.sum((w - a) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    def by_watching():
        with fg.GradientTape() as tape:
            tape.watch(x)
            loss = np.sum((x - a) ** 2)
        tape.gradient(loss, x)
        return loss

    def by_grad():
        return fg.value_and_grad(lambda x: np.sum((x - a) ** 2))(a)[0]

    tracemalloc.start()
    try:
        # A Tensor, the number in it and the list's entry; after a tape also the emptied trace, with the empty lists
        # and dictionaries in it, whose sizes are Python's: 683 bytes on 3.11, 704 on 3.14. The graph of a step, with
        # its arrays, is more than 2000 bytes.
        assert _memory(500, by_implicit_gradients) < 200
        assert _memory(500, by_grad) < 200
        assert _memory(500, by_tape) < 750
        assert _memory(500, by_watching) < 750
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("without_collector")
def test_a_pass_drops_entries_while_it_runs():
    """Each gradient takes the room of a result that the pass has used up, so the peak does not double."""
    count, size = 40, 100_000
    xs = [np.full(size, 0.5) for _ in range(count)]
    peaks = []

    def loss(xs):
        total = 0.0
        for x in xs:
            total = total + np.sum(np.exp(x))  # the gradient needs the result of exp
        peaks.append(tracemalloc.get_traced_memory()[0])
        return total

    tracemalloc.start()
    try:
        gradients = fg.grad(loss)(xs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(gradients) == count
    assert peaks[0] > 0.9 * count * size * 8
    assert peak < 1.25 * peaks[0]


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("again", [False, True])
def test_a_pass_drops_what_it_has_passed_on(again):
    """Nothing is kept forward, and backward no more than what is on its way."""
    size = 100_000

    def loss(x):
        for _ in range(40):
            x = x * 0.5 + 1.0
        return np.sum(x)

    x = np.ones(size)
    tracemalloc.start()
    try:
        if again:
            _, pullback = fg.vjp(loss, x)
            pullback(1.0)
        else:
            fg.grad(loss)(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * size * 8


def _in_a_small_thread(program):
    """Run a program where few calls may be nested, in Python and on the C stack."""
    result = []

    def run():
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(250)
        try:
            result.append(program())
        finally:
            sys.setrecursionlimit(limit)

    stack = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(stack)
    thread.join()
    assert result, "the thread has failed"
    return result[0]


def test_hundreds_of_thousands_of_operations():
    """In a record as long as that any nested call would overflow the small stack."""

    def f(x):
        y = x
        for _ in range(100_000):
            y = y * 0.5
            y = y + x
        return y

    # y = x (2 - 2^-n), of which nothing is left but 2 x
    assert plain(_in_a_small_thread(lambda: fg.value_and_grad(f)(3.0))) == (6.0, 2.0)


@pytest.mark.parametrize("way", ["vjp", "tape", "persistent tape", "jvp", "dropped", "second order", "tree"])
def test_long_loops(way):
    def f(x):
        y = x
        for _ in range(25_000):
            y = y * 0.5
            y = y + x
        return y

    def by_tape(persistent):
        x = fg.constant(3.0)
        with fg.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    def dropped():
        fg.vjp(f, 3.0)
        x = fg.constant(3.0)
        with fg.GradientTape() as tape:
            tape.watch(x)
            f(x)
        del tape
        return fg.constant(2.0)

    def wide():
        """Doubles again and again: a path count of 2^40."""

        def g(x):
            for _ in range(40):
                x = x + x
            return x * 2.0**-39

        return fg.grad(g)(3.0)

    ways = {
        "vjp": lambda: fg.vjp(f, 3.0)[1](1.0)[0],
        "tape": lambda: by_tape(False),
        "persistent tape": lambda: by_tape(True),
        "jvp": lambda: fg.jvp(f, (3.0,), (1.0,))[1],
        "dropped": dropped,
        "second order": lambda: fg.grad(lambda x: fg.grad(f)(x) * x)(3.0),
        "tree": wide,
    }
    assert plain(_in_a_small_thread(ways[way])) == 2.0


# Threads


@pytest.fixture
def fast_switching():
    """Change from thread to thread as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def _together(programs):
    """Run programs in threads that start together; return what they return."""
    barrier, results, errors = threading.Barrier(len(programs)), {}, []

    def run(place, program):
        try:
            barrier.wait()
            results[place] = program()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=item) for item in enumerate(programs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return [results[place] for place in range(len(programs))]


def _program(k):
    """Return a program for thread `k` that differentiates its own function in every way, and checks."""
    w = fg.Variable(float(k))
    square = fg.implicit_value_and_gradients(lambda x: w * w * x)
    slope = fg.implicit_gradients(lambda x: fg.grad(lambda y: w**3 * y)(x))

    def program():
        for i in range(60):
            x = float(i % 7 + 1)
            assert plain(fg.grad(lambda x: x**k)(x)) == pytest.approx(k * x ** (k - 1))
            assert plain(fg.grad(fg.grad(lambda x: x**k))(x)) == pytest.approx(k * (k - 1) * x ** (k - 2))
            assert plain(along(fg.grad(lambda x: np.sin(k * x)))(x)) == pytest.approx(-k * k * math.sin(k * x))
            assert plain(fg.grad(lambda x: x * fg.grad(lambda y: x * y)(1.0))(x)) == 2 * x
            t = fg.constant(x)
            with fg.GradientTape() as outer:
                outer.watch(t)
                with fg.GradientTape() as inner:
                    inner.watch(t)
                    y = t**3 * w
                first = inner.gradient(y, [t, w])
            assert plain(first) == pytest.approx([3 * x * x * k, x**3])
            assert plain(outer.gradient(first[0], [t, w])) == pytest.approx([6 * x * k, 3 * x * x])
            assert [id(v) for v in outer.watched_variables()] == [id(w)]
            value, ((gradient, variable),) = square(x)
            assert plain((value, gradient)) == (k * k * x, 2 * k * x)
            assert variable is w
            assert plain(slope(x)[0][0]) == 3.0 * k * k
        return True

    return program


@pytest.mark.usefixtures("fast_switching")
def test_eight_threads_with_functions_of_their_own():
    assert _together([_program(k) for k in range(2, 10)]) == [True] * 8


@pytest.mark.usefixtures("fast_switching")
def test_eight_threads_with_one_function_and_one_variable():
    w = fg.Variable(3.0)
    loss = fg.value_and_gradients_function(lambda x: np.sum(np.sin(x) * w))
    implicit = fg.implicit_gradients(lambda x: w * w * x)

    def program(k):
        def run():
            x = np.arange(5.0) * k
            for _ in range(100):
                _, (gradient,) = loss(x)
                np.testing.assert_allclose(np.asarray(gradient), 3.0 * np.cos(x), rtol=1e-14)
                assert plain(implicit(float(k))[0][0]) == 6.0 * k
            return True

        return run

    assert _together([program(k) for k in range(8)]) == [True] * 8


@pytest.mark.usefixtures("fast_switching")
def test_a_thread_pool_inside_a_function():
    a = np.linspace(0.0, 1.0, 64)

    def f(x):
        def part(i):
            y = x * a[i]
            for _ in range(20):
                y = np.sin(y) + x[i % 4]
            return np.sum(y)

        with ThreadPoolExecutor(8) as pool:
            return sum(pool.map(part, range(64)))

    def alone(x):
        total = 0.0
        for i in range(64):
            y = x * a[i]
            for _ in range(20):
                y = np.sin(y) + x[i % 4]
            total = total + np.sum(y)
        return total

    x = np.array([0.5, 1.0, -1.0, 2.0])
    for _ in range(5):
        np.testing.assert_allclose(np.asarray(fg.grad(f)(x)), np.asarray(fg.grad(alone)(x)), rtol=1e-11)
    np.testing.assert_allclose(
        np.asarray(fg.jvp(f, (x,), (np.ones(4),))[1]), np.sum(np.asarray(fg.grad(alone)(x))), rtol=1e-11
    )


@pytest.mark.usefixtures("fast_switching")
def test_a_thread_pool_on_a_tape():
    x = fg.constant(np.array([0.5, 1.0, -1.0, 2.0]))
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        with ThreadPoolExecutor(8) as pool:
            parts = list(pool.map(lambda i: np.sum(x**i), range(1, 33)))
        total = sum(parts)
    exact = sum(i * np.asarray(x) ** (i - 1) for i in range(1, 33))
    np.testing.assert_allclose(np.asarray(tape.gradient(total, x)), exact, rtol=1e-12)
    for i, part in enumerate(parts, 1):
        np.testing.assert_allclose(np.asarray(tape.gradient(part, x)), i * np.asarray(x) ** (i - 1), rtol=1e-12)


@pytest.mark.usefixtures("fast_switching")
def test_a_pullback_in_several_threads():
    value, pullback = fg.vjp(lambda x: np.sin(x) * x, np.linspace(0.0, 3.0, 50))
    x = np.linspace(0.0, 3.0, 50)
    exact = np.cos(x) * x + np.sin(x)

    def program(k):
        def run():
            for _ in range(100):
                np.testing.assert_allclose(np.asarray(pullback(np.full(50, k))[0]), k * exact, rtol=1e-13)
            return True

        return run

    assert _together([program(float(k)) for k in range(8)]) == [True] * 8
    assert value.shape == (50,)


@pytest.mark.usefixtures("fast_switching")
def test_a_persistent_tape_asked_in_several_threads():
    x = fg.constant(3.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x
        for _ in range(50):
            y = y * 1.0 + x

    def run():
        return [plain(tape.gradient(y, x)) for _ in range(50)]

    assert _together([run] * 8) == [[51.0] * 50] * 8


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_a_tape_opened_in_one_thread_does_not_see_the_others_variables():
    w = fg.Variable(2.0)
    results = []
    with fg.GradientTape() as tape:
        thread = threading.Thread(target=lambda: results.append(w * 3.0))
        thread.start()
        thread.join()
        y = results[0] * 1.0
    assert y.item() == 6.0
    assert tape.watched_variables() == ()
    assert tape.gradient(y, w) is None


def test_the_collector_is_left_alone():
    gc.unfreeze()  # what `conftest.py` has frozen, some of which may be freed meanwhile
    usual = gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()
    seen = []

    def now():
        return gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()

    def f(x):
        seen.append(now())
        return fg.grad(lambda y: y * y)(x) * x

    fg.grad(f)(2.0)
    x = fg.constant(3.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
        seen.append(now())
    tape.gradient(y, x)
    fg.trace(f)(2.0)
    assert set(seen) == {usual}
    assert now() == usual


def test_a_threshold_that_the_user_sets_stays():
    usual = gc.get_threshold()
    try:
        fg.grad(lambda x: [gc.set_threshold(123, 4, 5), x][1])(1.0)
        assert gc.get_threshold() == (123, 4, 5)
        gc.set_threshold(0)
        assert fg.grad(lambda x: x * gc.get_threshold()[0])(1.0) == 0.0
    finally:
        gc.set_threshold(*usual)


FRESH = """
import resource, numpy as np, fgrad as fg
def f(x):
    for _ in range(20):
        x = np.sin(x) * x
    return np.sum(x)
gradient, x = fg.grad(f), np.ones(50_000)
for turn in range(12):
    if turn == 2:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    gradient(x)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 10)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have other heaps")
def test_a_pass_finds_the_memory_that_the_last_one_has_left():
    """A record of 24 MB has 6000 pages: none of them comes from the system again."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", FRESH]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert float(ran.stdout) < 600, ran.stdout


def test_a_process_that_may_not_have_so_much_memory_goes_without(monkeypatch):
    def refused(*args):
        raise MemoryError

    monkeypatch.setattr(heap.np, "empty", refused)
    heap.keep_freed_memory()
