"""The forward accumulator: its life, what it takes and returns, and accumulators among other transforms."""

import gc
import threading
import weakref
from collections import namedtuple

import numpy as np
import pytest
from helpers import along, plain

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core import trace, variable
from fgrad.core.primitive import ZERO as ZERO_SLOPE
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply

ZERO = fg.UnconnectedGradients.ZERO


@pytest.fixture
def x():
    return fg.constant(3.0)


def layers(tensor):
    count = 0
    while type(tensor) is fg.Tensor:
        tensor, count = tensor._payload, count + 1
    return count


# Life


def test_inside_the_block_and_after_it():
    x = fg.constant([1.0, 2.0])
    with fg.ForwardAccumulator(x, [1.0, 10.0]) as accumulator:
        y = x * x
        assert plain(accumulator.jvp(y)) == [2.0, 40.0]
    tangent = accumulator.jvp(y)
    assert type(tangent) is fg.Tensor
    assert plain(tangent) == [2.0, 40.0]
    assert plain(accumulator.jvp(y)) == [2.0, 40.0]
    assert plain(y) == [1.0, 4.0]
    assert type(np.asarray(y)) is type(np.asarray(tangent)) is type(np.asarray(x)) is np.ndarray
    assert "traced" not in repr(y) + repr(x) + repr(tangent)


def test_what_is_computed_outside_of_the_block_is_constant(x):
    accumulator = fg.ForwardAccumulator(x, 1.0)
    before = x * x
    with accumulator:
        y = x * before
    after = y * y
    assert plain(accumulator.jvp([before, y, after])) == [None, 9.0, None]


def test_entering_again_goes_on(x):
    accumulator = fg.ForwardAccumulator(x, 1.0)
    with accumulator:
        y = x * x
    between = y * 1.0
    with accumulator:
        z = y * x
        late = x * between
    assert plain(accumulator.jvp([y, z, late])) == [6.0, 27.0, 9.0]


def test_entering_again_finds_the_primals_as_they_were_left():
    x, y = fg.constant([1.0, 2.0]), fg.constant([1.0, 2.0])
    accumulator = fg.ForwardAccumulator([x, y], [[1.0, 1.0], [1.0, 1.0]])
    with accumulator:
        x[0] = 5.0  # a constant now
    y[0] = 5.0  # outside nothing is noticed, and the whole is a new value
    with accumulator:
        z, u = x * x, y * y
    assert plain(accumulator.jvp([z, u])) == [[0.0, 4.0], [10.0, 4.0]]
    for _ in range(50):
        with accumulator:
            pass
    assert layers(x) <= 2


def test_entering_an_open_accumulator(x):
    with fg.ForwardAccumulator(x, 1.0) as accumulator:
        with pytest.raises(ValueError, match=r"Accumulator is already recording.*\n.*second ForwardAccumulator"):
            accumulator.__enter__()
        y = x * x
    assert accumulator.jvp(y).item() == 6.0


def test_one_that_was_never_entered(x):
    with pytest.raises(RuntimeError, match="this ForwardAccumulator was never entered"):
        fg.ForwardAccumulator(x, 1.0).jvp(x)


def test_an_exception_closes_it(x):
    w = fg.Variable(2.0)
    accumulator = fg.ForwardAccumulator([x, w], [1.0, 1.0])
    with pytest.raises(KeyError, match="stop"), accumulator:
        y = x * w
        raise KeyError("stop")
    assert type(np.asarray(x * w)) is np.ndarray
    assert accumulator.jvp(x * w) is None
    assert accumulator.jvp(y).item() == 5.0
    accumulator.__exit__(None, None, None)  # once more does no harm
    with accumulator:
        assert accumulator.jvp(x * w).item() == 5.0


def test_fgrads_error_inside_of_numpys(x):
    with pytest.raises(errors.ArrayConversionError, match="np.stack"), fg.ForwardAccumulator(x, 1.0):
        np.array([x, x], dtype=float)
    with fg.ForwardAccumulator(x, 1.0) as accumulator:
        y = np.sum(np.array([x, x * x]))
    assert accumulator.jvp(y).item() == 7.0


# Primals and tangents

Point = namedtuple("Point", ["x", "y"])


def test_containers(x):
    y, w = fg.constant([1.0, 2.0]), fg.Variable(5.0)
    with fg.ForwardAccumulator({"x": x, "rest": [y, (w,)]}, {"x": 1.0, "rest": [[1.0, 0.0], (10.0,)]}) as accumulator:
        z = x * y * w
    assert plain(accumulator.jvp(z)) == [1 * 1 * 5 + 3 * 1 * 5 + 3 * 1 * 10, 1 * 2 * 5 + 3 * 2 * 10]
    found = accumulator.jvp({"p": Point(x, y), "w": [w]})
    assert type(found["p"]) is Point
    assert plain(found) == {"p": Point(1.0, [1.0, 0.0]), "w": [10.0]}
    assert accumulator.jvp([]) == []


def test_the_same_primal_twice(x):
    w = fg.Variable(2.0)
    with fg.ForwardAccumulator([x, x, w, w], [1.0, 2.0, 10.0, 20.0]) as accumulator:
        y = x * 1.0 + w
    assert accumulator.jvp(y).item() == 33.0
    assert plain(accumulator.jvp([x, w])) == [3.0, 30.0]


def test_no_primals():
    with fg.ForwardAccumulator([], []) as accumulator:
        y = fg.constant(2.0) * 3.0
    assert accumulator.jvp(y) is None


def test_variables_carry_their_tangent_when_they_are_read():
    w, other, frozen = fg.Variable(3.0), fg.Variable(2.0), fg.Variable(4.0, trainable=False)
    with fg.ForwardAccumulator([w, frozen], [1.0, 10.0]) as accumulator:
        y = w * w * other
        w.assign(5.0)
        z = w * other + frozen
    assert plain(accumulator.jvp([y, z, w, other])) == [12.0, 12.0, 1.0, None]
    assert accumulator.jvp(w.value()) is None  # read afterwards
    assert accumulator.jvp(other, unconnected_gradients=ZERO).item() == 0.0


def test_variables_of_other_threads_are_not_noticed():
    w = fg.Variable(3.0)
    found = []
    with fg.ForwardAccumulator(w, 1.0) as accumulator:
        thread = threading.Thread(target=lambda: found.append(w * w))
        thread.start()
        thread.join()
    assert accumulator.jvp(found[0]) is None


@pytest.mark.parametrize(
    ("primal", "tangent", "text"),
    [
        ([1.0, 2.0], 1.0, r"a tangent has shape \(\), and its primal has shape \(2,\)"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], r"a tangent has shape \(3,\), and its primal has shape \(2,\)"),
        (1.0, [1.0], r"a tangent has shape \(1,\), and its primal has shape \(\)"),
        (1.0, np.float32(1), r"a tangent has dtype float32, and its primal has dtype float64.*\n.*astype\('float64'\)"),
        (1.0, fg.constant(1), "a tangent has dtype int64, and its primal has dtype float64"),
        (1.0, 1j, "a tangent has dtype complex128, and its primal has dtype float64"),
        (1.0, "text", "a tangent is 'text'; it must be a number, list, array or tensor of numbers"),
        (1.0, None, "a tangent is None; it must be a number"),
        ([1.0, 2.0], [1.0, [2.0]], r"a tangent is \[1.0, \[2.0\]\]; it must be a number"),
    ],
)
def test_tangents_that_do_not_fit(primal, tangent, text):
    with pytest.raises(ValueError, match=text):
        fg.ForwardAccumulator(fg.constant(primal), tangent)
    with pytest.raises(ValueError, match=text):
        fg.ForwardAccumulator(fg.Variable(primal), tangent)


def test_tangents_of_another_structure(x):
    for tangents in ([1.0], {"a": 1.0}, 1.0):
        with pytest.raises(ValueError, match="primals have the structure .* and the tangents .* must be equal"):
            fg.ForwardAccumulator([x, x], tangents)


def test_numbers_take_the_dtype_of_their_primal():
    x = fg.constant(np.float32([1, 2]))
    with fg.ForwardAccumulator(x, [1, 10]) as accumulator:
        y = np.exp(x) * 2.0
    assert accumulator.jvp(y).dtype == accumulator.jvp(x).dtype == np.float32


@pytest.mark.parametrize("wrong", [3.0, None, np.ones(2), "text"])
def test_primals_must_be_tensors(x, wrong):
    with pytest.raises(ValueError, match=f"Passed in object .* of type '{type(wrong).__name__}' as a primal"):
        fg.ForwardAccumulator([x, wrong], [1.0, 1.0])


def test_an_integer_primal_is_not_followed(x):
    n = fg.constant(3)
    with pytest.warns(errors.NoGradientWarning, match="the primal has dtype int64") as caught:
        accumulator = fg.ForwardAccumulator([x, n], [1.0, 1])
    assert caught[0].filename == __file__
    with accumulator:
        y = x * n
    assert accumulator.jvp(y).item() == 3.0
    assert accumulator.jvp(n) is None
    zero = accumulator.jvp(n, unconnected_gradients=ZERO)
    assert (zero.item(), zero.dtype) == (0, np.int64)


def test_tangents_are_those_of_construction(x):
    tangent = np.array(1.0)
    accumulator = fg.ForwardAccumulator(x, tangent)
    tangent[()] = 7.0
    with accumulator:
        y = x * x
    assert accumulator.jvp(y).item() == 6.0


# Targets


def test_unconnected_targets(x):
    other = fg.constant(np.float32([1, 2]))
    with fg.ForwardAccumulator(x, 1.0) as accumulator:
        y = other * np.float32(2)
        stopped = fg.stop_gradient(x) * 2.0
        left = x.item() * other
        flat = np.floor(x) * 2.0
    assert plain(accumulator.jvp([y, stopped, left, flat])) == [None, None, None, 0.0]
    assert accumulator.jvp(y, unconnected_gradients="none") is None
    for choice in (ZERO, "zero"):
        zeros = accumulator.jvp(y, unconnected_gradients=choice)
        assert plain(zeros) == [0.0, 0.0]
        assert zeros.dtype == np.float32
    with pytest.raises(ValueError, match="Unknown value for unconnected_gradients: 'bogus'"):
        accumulator.jvp(y, unconnected_gradients="bogus")


@pytest.mark.parametrize("wrong", [3.0, None, np.ones(2), "text"])
def test_targets_must_be_tensors(x, wrong):
    with fg.ForwardAccumulator(x, 1.0) as accumulator:
        y = x * x
    for target in (wrong, [y, wrong]):
        with pytest.raises(TypeError, match="target must be a Tensor, a Variable or a container of them"):
            accumulator.jvp(target)


def test_an_operation_with_several_results(x):
    two = Primitive("two_results", lambda x: (x * 2, np.floor(x)), jvp=lambda ts, ans, x: (ts[0] * 2, ZERO_SLOPE))
    with fg.ForwardAccumulator(x, 5.0) as accumulator:
        double, flat = apply(two, (x,))
    assert plain(accumulator.jvp([double, flat])) == [10.0, 0.0]


def test_written_tensors():
    x = fg.constant([[2.0, 0.0], [0.0, 1.0]])
    with fg.ForwardAccumulator(x, np.eye(2)) as accumulator:
        filled = fnp.zeros(2)
        filled[0] = x[0, 0] ** 2
        x[0, 0] = 10.0
        both = x[0, 0] * x[1, 1]
    assert plain(accumulator.jvp([filled, both])) == [[4.0, 0.0], 10.0]


def test_complex_tangents():
    z = fg.constant(3 + 4j)
    with fg.ForwardAccumulator(z, 1j) as accumulator:
        y = z * z
    assert accumulator.jvp(y).item() == 2j * (3 + 4j)


# Among others


def test_over_a_tape(x):
    with fg.ForwardAccumulator(x, 1.0) as accumulator:
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = x**3
        gradient = tape.gradient(y, x)
    assert gradient.item() == 27.0
    assert plain(accumulator.jvp([y, gradient])) == [27.0, 18.0]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("watched_first", [False, True])
def test_inside_a_tape(x, persistent, watched_first):
    with fg.GradientTape(persistent=persistent) as tape:
        if watched_first:
            tape.watch(x)
        with fg.ForwardAccumulator(x, 1.0) as accumulator:
            if not watched_first:
                tape.watch(x)
            y = x**3
        slope = accumulator.jvp(y)
    assert slope.item() == 27.0
    assert tape.gradient(slope, x).item() == 18.0


def test_inside_each_other(x):
    with fg.ForwardAccumulator(x, 1.0) as outer:
        with fg.ForwardAccumulator(x, 1.0) as inner:
            y = x**3
    first = inner.jvp(y)  # the values have been computed in both blocks: the time of asking does not matter
    assert plain((first, outer.jvp(y))) == (27.0, 27.0)
    assert outer.jvp(first).item() == 18.0
    assert inner.jvp(outer.jvp(y)) is None  # the earlier one works below the later one


def test_three_inside_each_other_on_a_variable():
    w = fg.Variable(3.0)
    with fg.ForwardAccumulator(w, 1.0) as a1, fg.ForwardAccumulator(w, 1.0) as a2, fg.ForwardAccumulator(w, 1.0) as a3:
        y = w**5
    assert a1.jvp(a2.jvp(a3.jvp(y))).item() == 540.0


def test_interleaved_with_a_tape_and_each_other(x):
    first, second, tape = fg.ForwardAccumulator(x, 1.0), fg.ForwardAccumulator(x, 10.0), fg.GradientTape()
    first.__enter__()
    tape.__enter__()
    tape.watch(x)
    second.__enter__()
    y = x * x * x
    first.__exit__(None, None, None)
    z = y * x
    second.__exit__(None, None, None)
    tape.__exit__(None, None, None)
    assert plain((first.jvp(y), first.jvp(z), second.jvp(z))) == (27.0, None, 1080.0)
    assert tape.gradient(z, x).item() == 108.0


def test_opened_again_inside_of_a_later_one(x):
    early, late = fg.ForwardAccumulator(x, 1.0), fg.ForwardAccumulator(x, 1.0)
    with early:
        pass
    with late, early:
        y = x**3
    assert plain((early.jvp(y), late.jvp(y))) == (27.0, 27.0)
    assert early.jvp(late.jvp(y)).item() == 18.0  # the one that was opened first is the lower one


@pytest.mark.parametrize("derivative", [fg.grad, along])
def test_inside_a_derivative(derivative):
    def slope(x):
        with fg.ForwardAccumulator(x, 1.0) as accumulator:
            y = x**3
        return accumulator.jvp(y)

    assert slope(fg.constant(3.0)).item() == 27.0
    assert derivative(slope)(3.0).item() == 18.0
    assert derivative(derivative(slope))(3.0).item() == 6.0


@pytest.mark.parametrize("derivative", [fg.grad, along])
def test_a_derivative_inside(x, derivative):
    with fg.ForwardAccumulator(x, 1.0) as accumulator:
        y = x * derivative(lambda t: t * t * x)(x)
    assert plain((y, accumulator.jvp(y))) == (54.0, 54.0)


def test_the_tangent_is_differentiated_too(x):
    def product(t):
        with fg.ForwardAccumulator(x, t) as accumulator:
            y = x**3
        return accumulator.jvp(y)

    assert fg.grad(product)(2.0).item() == 27.0
    assert along(product)(2.0).item() == 27.0
    assert plain(fg.vmap(product)(np.array([1.0, 2.0]))) == [27.0, 54.0]


def test_inside_and_around_vmap(x):
    def slope(x):
        with fg.ForwardAccumulator(x, 1.0) as accumulator:
            y = x**3
        return accumulator.jvp(y)

    assert plain(fg.vmap(slope)(np.array([1.0, 2.0]))) == [3.0, 12.0]
    with fg.ForwardAccumulator(x, 1.0) as accumulator:
        y = fg.vmap(lambda t: t * x * x)(np.array([1.0, 2.0]))
    assert plain(accumulator.jvp(y)) == [6.0, 12.0]


def test_implicit_gradients_inside_and_around():
    w = fg.Variable(3.0)
    with fg.ForwardAccumulator(w, 1.0) as accumulator:
        ((gradient, _),) = fg.implicit_gradients(lambda: w**3)()
    assert plain((gradient, accumulator.jvp(gradient))) == (27.0, 18.0)

    def slope():
        with fg.ForwardAccumulator(w, 1.0) as accumulator:
            y = w**3
        return accumulator.jvp(y)

    ((second, _),) = fg.implicit_gradients(slope)()
    assert second.item() == 18.0


def test_rules_of_a_users_own_and_checkpoints(x):
    doubled = fg.custom_gradient(lambda x: (x**2, lambda dy: dy * 4 * x))
    with fg.ForwardAccumulator(x, 1.0) as accumulator:
        y, z = doubled(x), fg.checkpoint(lambda t: t**2)(x)
    assert plain(accumulator.jvp([y, z])) == [12.0, 6.0]


def test_in_the_loop_of_an_optimizer():
    """The curvature along the step, by one accumulator a step."""
    w, optimizer = fg.Variable([3.0, 4.0]), fg.optimizers.GradientDescent(0.1)
    for _ in range(3):
        optimizer.minimize(lambda: np.sum(w * w))
        with fg.ForwardAccumulator(w, [1.0, 1.0]) as accumulator:
            with fg.GradientTape() as tape:
                loss = np.sum(w * w)
            gradient = tape.gradient(loss, w)
        assert plain(accumulator.jvp(gradient)) == [2.0, 2.0]


# Memory


def test_many_accumulators_on_one_tensor(x):
    for _ in range(1000):
        with fg.ForwardAccumulator(x, 1.0) as accumulator:
            y = x * x
    assert accumulator.jvp(y).item() == 6.0
    assert layers(x) <= 2
    assert layers(y) <= 2


def test_many_tapes_and_accumulators_in_turn(x):
    for _ in range(1000):
        with fg.GradientTape() as tape, fg.ForwardAccumulator(x, 1.0) as accumulator:
            tape.watch(x)
            y = x * x
    assert (accumulator.jvp(y).item(), tape.gradient(y, x).item()) == (6.0, 6.0)
    assert layers(x) <= 4


def test_accumulators_that_are_kept_all_answer(x):
    kept = []
    for n in range(20):
        with fg.ForwardAccumulator(x, float(n)) as accumulator:
            kept.append((accumulator, x * x))
    assert [accumulator.jvp(y).item() for accumulator, y in kept] == [6.0 * n for n in range(20)]
    assert [accumulator.jvp(x).item() for accumulator, _ in kept] == [float(n) for n in range(20)]


def test_dropping_it_frees_what_it_held():
    gc.collect()
    gc.disable()
    try:
        x = fg.constant(np.ones(1000))
        inner = []
        with fg.ForwardAccumulator(x, np.ones(1000)) as accumulator:
            reference = weakref.ref(x._mark)
            z = np.sin(x)
            inner.append(weakref.ref(z._payload))
            inner.append(weakref.ref(z._mark))
            y = np.sum(np.exp(z))
            del z
        assert [each() for each in inner] == [None, None]  # it records nothing
        assert accumulator.jvp(y).shape == ()
        kept = weakref.ref(accumulator)
        assert reference() is not None
        del accumulator
        assert kept() is None
        assert reference() is None  # although x lives
        assert plain(x * 1.0) == [1.0] * 1000
        with fg.ForwardAccumulator(x, np.ones(1000)) as accumulator:
            assert accumulator.jvp(np.sum(x)).item() == 1000.0
    finally:
        gc.enable()


def test_threads_with_accumulators_of_their_own():
    w = fg.Variable(3.0)
    found = {}

    def run(n):
        x = fg.constant(float(n))
        for _ in range(50):
            with fg.ForwardAccumulator([x, w], [1.0, 1.0]) as accumulator:
                y = x * x * w
            found[n] = accumulator.jvp(y).item()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: 2 * n * 3.0 + n * n for n in range(8)}


def test_the_collector_sets_no_context_variable(monkeypatch):
    """It may run within `ContextVar.set`, where the interpreter does not bear another one."""
    changed = []

    class Watches:
        get = staticmethod(trace._watches.get)
        set = staticmethod(changed.append)

    accumulator = fg.ForwardAccumulator(fg.constant(2.0), 1.0)
    accumulator.__enter__()
    accumulator.cycle = accumulator
    monkeypatch.setattr(trace, "_watches", Watches)
    del accumulator
    gc.collect()
    assert variable.open_watches() == changed == []


def test_results_of_a_compiled_function_that_do_not_move():
    def f(x):
        return {"square": x * x, "ones": np.ones(2), "floor": np.floor(x), "still": fg.stop_gradient(x) * 2.0}

    x = fg.constant(2.0)
    for function in (f, fg.compile(f)):
        with fg.ForwardAccumulator(x, 3.0) as accumulator:
            results = function(x)
        tangents = accumulator.jvp({name: fg.constant(y) if name == "ones" else y for name, y in results.items()})
        assert plain(tangents) == {"square": 12.0, "ones": None, "floor": 0.0, "still": None}
        assert accumulator.jvp(results["still"], ZERO) == 0.0


def test_primals_and_their_tangents_are_freed_at_once():
    gc.disable()
    try:
        x, tangent, w = fg.constant(np.ones(3)), fg.constant(np.full(3, 2.0)), fg.Variable(1.0)
        held = [weakref.ref(x), weakref.ref(tangent)]
        with fg.ForwardAccumulator([x, w], [tangent, 1.0]) as accumulator:
            y = 3.0 * x * w
            del tangent
            assert accumulator.jvp(x).tolist() == [2.0, 2.0, 2.0]
            del x
            assert [each() for each in held] == [None, None]
            assert accumulator.jvp(y).tolist() == [9.0, 9.0, 9.0]
            held.append(weakref.ref(y))
            z = y * w
            del y
            assert held[-1]() is None
        assert accumulator.jvp(z).tolist() == [12.0, 12.0, 12.0]
        assert accumulator.jvp(w).numpy() == 1.0
        held.append(weakref.ref(accumulator))
        del accumulator
        assert held[-1]() is None
    finally:
        gc.enable()
