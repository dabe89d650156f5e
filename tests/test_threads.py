"""Threads that share what they close over: nothing of the user's is replaced while one of them looks.

The interpreter switches threads as often as it can, so that what is swapped in place for a moment is seen.
"""

import asyncio
import contextvars
import copy
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fgrad as fg
import fgrad.scipy.integrate
import fgrad.scipy.optimize
from fgrad.core.trace import Observer, is_seen, observed_by, observing

THREADS = 4


@pytest.fixture(autouse=True)
def _switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(task, count=12):
    """Run a task of a number in several threads at once, and return what each gave."""
    together = threading.Barrier(THREADS)

    def run(number):
        if number < THREADS:
            together.wait()
        return task(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(count)))


def by_root(a):
    return fgrad.scipy.optimize.brentq(lambda x: x**3 - a, 0.0, 10.0)


def by_steps(a):
    return fgrad.scipy.integrate.solve_ivp(lambda t, y: -a * y, (0.0, 1.0), [1.0], rtol=1e-8).y[0, -1]


def by_adjoint(a):
    options = {"derivative": "adjoint", "rtol": 1e-8, "atol": 1e-8}
    return fgrad.scipy.integrate.solve_ivp(lambda t, y: -a * y, (0.0, 1.0), [1.0], **options).y[0, -1]


def by_quad(a):
    return fgrad.scipy.integrate.quad(lambda x: np.sin(a * x), 0.0, 1.0)[0]


def by_checkpoint(a):
    return fg.checkpoint(lambda x: np.sin(x * a) + a)(np.float64(0.5))


def by_rule(a):
    steep = fg.custom_gradient(lambda x: (x * 1.0, lambda dy: dy * 3.0))
    return steep(a * a)


def by_least_squares(a):
    return fgrad.scipy.optimize.least_squares(lambda x: x - a, np.ones(1)).x[0]


def by_vmap(a):
    return np.sum(fg.vmap(lambda x: np.sin(x * a))(np.arange(3.0)))


def by_graph(a):
    return fg.trace(lambda x: x * x)(np.float64(2.0))(a)


def by_linearization(a):
    return fg.jvp(lambda x: x * a * x, (a,), (1.0,))[1]


CLOSING_OVER = [
    by_root, by_steps, by_adjoint, by_quad, by_checkpoint, by_rule, by_least_squares, by_vmap, by_graph,
    by_linearization,
]  # fmt: skip


@pytest.mark.parametrize("f", CLOSING_OVER)
def test_the_same_traced_value_in_several_threads(f):
    """All threads use the very same tensor of one tape, and each of their results is differentiated."""
    expected = fg.grad(f)(2.0).item()
    assert in_threads(lambda _: fg.grad(f)(2.0).item()) == pytest.approx([expected] * 12, rel=1e-6)

    x = fg.constant(2.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * 1.0
        values = in_threads(lambda _: f(y))
    for value in values:
        assert tape.gradient(value, x).item() == pytest.approx(expected, rel=1e-6)


def test_optimizers_that_share_nothing_but_the_loss():
    def train(number):
        w = fg.Variable(np.full(3, float(number)))
        optimizer = fg.optimizers.Adam(0.1)
        for _ in range(20):
            optimizer.minimize(lambda: np.sum(fg.checkpoint(lambda: (w - 1.0) ** 2)()))
        return w.numpy()

    alone = [train(number) for number in range(4)]
    for number, found in enumerate(in_threads(train, 4)):
        np.testing.assert_array_equal(found, alone[number])


def test_debugging_in_one_thread_is_not_seen_in_others():
    def task(number):
        with np.errstate(all="ignore"):
            if number % 2:
                with fg.debug_nans(), pytest.raises(fg.errors.NonFiniteError):
                    fg.grad(lambda x: np.log(x * 0.0))(1.0)
                return 0.0
            return fg.grad(lambda x: np.sqrt(x * x + 0.0) + np.log(x))(2.0).item()

    assert in_threads(task, 40) == pytest.approx([1.5, 0.0] * 20)


def in_eight(task):
    """Run a task in eight threads at once."""
    together = threading.Barrier(8)

    def run(number):
        together.wait(10)
        return task(number)

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(run, range(8)))


def test_no_assignment_is_lost():
    w, v = fg.Variable(np.zeros(3)), fg.Variable(0.0)

    def task(number):
        for _ in range(500):
            w.assign_add(np.ones(3))
            v.assign_sub(1.0)

    in_eight(task)
    assert w.numpy().tolist() == [4000.0] * 3
    assert v.numpy() == -4000.0


@pytest.mark.parametrize("shared", [True, False])
def test_no_step_of_an_optimizer_is_lost(shared):
    """Threads meet variables in either order, with one optimizer or their own, while others assign."""
    a, b, count = fg.Variable(0.0), fg.Variable(0.0), fg.Variable(0)
    optimizers = [fg.optimizers.GradientDescent(1.0)] * 8
    if not shared:
        optimizers = [fg.optimizers.GradientDescent(1.0) for _ in range(8)]

    def task(number):
        pairs = [(-1.0, a), (-2.0, b)][:: 1 if number % 2 else -1]
        for _ in range(100):
            optimizers[number].apply_gradients(pairs, global_step=count)
            optimizers[number].minimize(lambda: -a - 2.0 * b)
            a.assign_add(1.0)

    in_eight(task)
    assert (a.numpy(), b.numpy(), count.numpy()) == (2400.0, 3200.0, 800)
    assert optimizers[0].iterations == (1600 if shared else 200)


def test_no_slot_of_an_optimizer_is_lost():
    w = fg.Variable(0.0)
    optimizer = fg.optimizers.Adagrad(0.1, initial_accumulator_value=1.0)
    in_eight(lambda _: [optimizer.apply_gradients([(2.0, w), (2.0, w)]) for _ in range(50)])
    assert optimizer.get_slot(w, optimizer.get_slot_names()[0]) == 1.0 + 800 * 4.0


def test_no_slot_is_lost_between_eager_and_compiled_steps():
    w, v = fg.Variable(np.zeros(3)), fg.Variable(0.0)
    optimizer = fg.optimizers.Adagrad(0.1, initial_accumulator_value=1.0)

    def step(gradient):
        optimizer.apply_gradients([(gradient, w), (1.0, v)])

    compiled = fg.compile(step)
    step(np.ones(3))
    compiled(np.ones(3))
    in_eight(lambda number: [(compiled if number % 2 else step)(np.ones(3)) for _ in range(50)])
    assert optimizer.iterations == 402
    assert [optimizer.get_slot(each, "accumulator").max() for each in (w, v)] == [403.0, 403.0]


def taken_meanwhile(work, take):
    """Return what `take` gives while another thread works."""
    thread, found = threading.Thread(target=work), []
    thread.start()
    while thread.is_alive():
        found.append(take())
    thread.join()
    return found


STATES = [fg.optimizers.Optimizer.state_dict, lambda x: pickle.loads(pickle.dumps(x)).state_dict(),
          lambda x: copy.copy(x).state_dict(), lambda x: copy.deepcopy(x).state_dict()]  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("take", STATES)
def test_the_state_of_an_optimizer_is_that_of_one_step(take, compiled):
    pairs = [(1.0, fg.Variable(0.0, name=name)) for name in "ab"]
    optimizer = fg.optimizers.Adagrad(0.1, initial_accumulator_value=1.0)

    def step():
        optimizer.apply_gradients(pairs)

    step()
    run = fg.compile(step) if compiled else step
    run()
    for state in taken_meanwhile(lambda: [run() for _ in range(300)], lambda: take(optimizer)):
        sums = [float(slots["accumulator"]) for slots in state["slots"].values()]
        assert sums == [1.0 + state["step"]] * 2


def test_no_update_of_a_moving_average_is_lost():
    w, average = fg.Variable(1.0, name="w"), fg.ExponentialMovingAverage(0.999, zero_debias=True)
    in_eight(lambda _: [average.apply(w) for _ in range(50)])
    state = average.state_dict()
    assert state["step"] == 400
    assert state["averages"]["w"]["weight"] == pytest.approx(1.0 - 0.999**400)
    assert copy.deepcopy(average).state_dict() == copy.copy(average).state_dict() == state


def test_copies_have_locks_of_their_own():
    w, optimizer = fg.Variable(1.0), fg.optimizers.Momentum(0.5, momentum=0.9)
    optimizer.apply_gradients([(1.0, w)])
    for made in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        twin, other = made(w), made(optimizer)
        with w.lock, optimizer._lock, ThreadPoolExecutor(1) as pool:
            pool.submit(lambda twin=twin, other=other: other.apply_gradients([(1.0, twin)])).result(10)
        assert twin.numpy() < w.numpy() == 0.5


def test_what_another_thread_observes_changes_no_bit_of_a_tangent():
    def f(x):
        return np.sum(np.sqrt(x[1:]) / x[:-1] + np.log(x[2]))

    x = np.linspace(0.3, 2.0, 9)
    alone = fg.hessian(f)(x).numpy()
    open_, done = threading.Event(), threading.Event()

    def observe():
        with fg.debug_nans():
            open_.set()
            done.wait()

    observer = threading.Thread(target=observe)
    observer.start()
    try:
        open_.wait()
        np.testing.assert_array_equal(fg.hessian(f)(x).numpy(), alone)
    finally:
        done.set()
        observer.join()


class Counting(Observer):
    """Counts the operations that it sees."""

    def __init__(self):
        self.count = 0

    def operation(self, primitive, metadata, args, go_on):
        self.count += 1
        return go_on(args)


def test_observers_belong_to_their_thread():
    observer, seen = Counting(), []
    with observed_by(observer):
        assert is_seen()
        thread = threading.Thread(target=lambda: seen.append((is_seen(), float(fg.grad(np.sin)(0.0)))))
        thread.start()
        thread.join()
        assert observer.count == 0
        fg.grad(np.sin)(0.0)
    assert seen == [(False, 1.0)]
    assert observer.count > 0
    assert not observing


def test_observers_and_tapes_belong_to_their_asynchronous_task():
    w = fg.Variable(2.0)

    async def looks(other):
        observer = Counting()
        with observed_by(observer), fg.GradientTape() as tape:
            other.set()
            await asyncio.sleep(0.01)
            before = observer.count
            y = w * w
        return before, observer.count > before, float(tape.gradient(y, w))

    async def computes(other):
        await other.wait()
        assert not is_seen()
        with fg.GradientTape() as tape:
            y = w * 3.0
            await asyncio.sleep(0)
        return float(tape.gradient(y, w))

    async def both():
        other = asyncio.Event()
        return await asyncio.gather(looks(other), computes(other))

    assert asyncio.run(both()) == [(0, True, 4.0), 3.0]
    assert not observing


def test_debugging_belongs_to_its_asynchronous_task():
    """Two tasks have blocks open that begin and end in each other's; a third has none."""

    async def raises(before, after):
        await asyncio.sleep(before)
        with fg.debug_nans():
            await asyncio.sleep(after)
            with pytest.raises(fg.errors.NonFiniteError):
                fg.grad(lambda x: np.sqrt(x) * 2.0)(0.0)

    async def does_not():
        await asyncio.sleep(0.01)
        return float(fg.grad(lambda x: np.sqrt(x) * 2.0)(0.0))

    async def together():
        return await asyncio.gather(raises(0.0, 0.02), raises(0.005, 0.03), does_not())

    assert asyncio.run(together())[2] == np.inf
    assert not observing


def _losses(run):
    """Return a loss that reads `a` here and `b` in another thread, which `run` makes use of."""
    a, b = fg.Variable(2.0, name="a"), fg.Variable(3.0, name="b")
    return (lambda: a * run(lambda: b * 2.0)), a, b


def _differentiated(loss, a, b):
    """Return the gradients that four ways of taking them find, by variable."""
    pairs = fg.implicit_gradients(loss)()
    pairs += fg.implicit_value_and_gradients(loss)()[1]
    pairs += fg.optimizers.GradientDescent(0.1).compute_gradients(loss)
    with fg.GradientTape() as tape:
        y = loss()
    pairs += zip(tape.gradient(y, [a, b]), [a, b], strict=True)
    found = {"a": [], "b": []}
    for gradient, variable in pairs:
        found[variable.name].append(gradient if gradient is None else gradient.item())
    return found


def test_a_variable_that_another_thread_reads_comes_with_a_warning():
    with ThreadPoolExecutor(1) as pool:
        loss, a, b = _losses(lambda function: pool.submit(function).result())
        with pytest.warns(fg.errors.NoGradientWarning, match="'b' was read in another thread") as caught:
            assert _differentiated(loss, a, b) == {"a": [6.0] * 4, "b": [None]}
        assert len(caught) == 4
        assert {each.filename for each in caught} == {__file__}


@pytest.mark.filterwarnings("error")
def test_a_variable_is_followed_in_a_thread_that_has_the_context():
    with ThreadPoolExecutor(1) as pool:
        loss, a, b = _losses(lambda function: pool.submit(contextvars.copy_context().run, function).result())
        assert _differentiated(loss, a, b) == {"a": [6.0] * 4, "b": [4.0] * 4}
        with fg.debug_nans(), pytest.raises(fg.errors.NonFiniteError):
            pool.submit(contextvars.copy_context().run, fg.grad(np.sqrt), 0.0).result()


def test_a_variable_of_which_another_thread_computes_a_part_comes_with_a_warning():
    """Its gradient is that of the part which is computed here: half of an answer is worse than none."""
    w = fg.Variable(2.0, name="w")
    with ThreadPoolExecutor(1) as pool:

        def loss():
            return w * 3.0 + pool.submit(lambda: w * w).result()

        for run in (
            lambda: fg.implicit_gradients(loss)()[0][0],
            lambda: fg.optimizers.GradientDescent(0.1).compute_gradients(loss)[0][0],
            lambda: gradient_by_tape(loss, w),
        ):
            with pytest.warns(
                fg.errors.NoGradientWarning, match="'w' was read in another thread.* adds nothing"
            ) as found:
                assert run() == 3.0
            assert len(found) == 1


def gradient_by_tape(loss, w):
    with fg.GradientTape() as tape:
        y = loss()
    return tape.gradient(y, w)


@pytest.mark.filterwarnings("error")
def test_variables_that_other_threads_read_for_themselves_come_without_a_warning():
    w = fg.Variable(3.0)
    with ThreadPoolExecutor(1) as pool:

        def loss():
            pool.submit(w.numpy).result()  # a number to show, of which nothing is computed here
            pool.submit(fg.implicit_gradients(lambda: fg.Variable(2.0) * 2.0)).result()  # which is watched there
            pool.submit(fg.grad(lambda x: x * w), 1.0).result()  # a constant of another derivative
            return w * w

        assert fg.implicit_gradients(loss)()[0][0] == 6.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("look", [np.asarray, float, fg.Variable.item, fg.Variable.tolist, fg.Variable.numpy, repr])
def test_another_thread_that_looks_at_a_variable_comes_without_a_warning(look):
    w = fg.Variable(2.0)
    with ThreadPoolExecutor(1) as pool:

        def loss():
            pool.submit(look, w).result()
            return w * w

        assert fg.implicit_gradients(loss)()[0][0] == 4.0
