"""Training steps as compiled functions: variables, tapes and optimizers inside."""

import warnings

import numpy as np
import pytest

import fgrad as fg
import fgrad.compat.tensorflow as tf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 5)).astype(np.float32)
Y = X @ np.arange(5, dtype=np.float32) + np.float32(0.1)

OPTIMIZERS = {
    "descent": lambda: fg.optimizers.GradientDescent(0.05),
    "momentum": lambda: fg.optimizers.Momentum(0.01, momentum=0.9),
    "adagrad": lambda: fg.optimizers.Adagrad(0.1),
    "adadelta": lambda: fg.optimizers.Adadelta(1.0),
    "rmsprop": lambda: fg.optimizers.RMSProp(0.01),
    "adam": lambda: fg.optimizers.Adam(0.05),
    "adamw": lambda: fg.optimizers.AdamW(0.05),
    "nadam": lambda: fg.optimizers.Nadam(0.01),
    "lion": lambda: fg.optimizers.Lion(0.01),
    "ftrl": lambda: fg.optimizers.Ftrl(0.1),
    "a schedule": lambda: fg.optimizers.Adam(fg.optimizers.schedules.ExponentialDecay(0.05, 5, 0.9)),
}


def train(make, compiles, steps=12):
    weights, bias = fg.Variable(np.zeros(5, np.float32), name="w"), fg.Variable(np.float32(0.0), name="b")
    optimizer = make()

    def step(x, y):
        with fg.GradientTape() as tape:
            loss = np.mean((x @ weights + bias - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, [weights, bias]), [weights, bias], strict=True))
        return loss

    run = fg.compile(step) if compiles else step
    losses = [float(run(X, Y)) for _ in range(steps)]
    return losses, weights.numpy(), bias.numpy(), optimizer.variables(), optimizer.iterations


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_with_a_tape_and_an_optimizer(name):
    eager, compiled = train(OPTIMIZERS[name], False), train(OPTIMIZERS[name], True)
    np.testing.assert_allclose(compiled[0], eager[0], rtol=2e-4)
    for ours, theirs in zip([*compiled[1:3], *compiled[3]], [*eager[1:3], *eager[3]], strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-5)
    assert compiled[4] == 12


@pytest.mark.parametrize("compiles", [False, True])
def test_steps_with_gradients_that_are_not_finite_are_skipped(compiles):
    w, iterations = fg.Variable([1.0, 2.0]), fg.Variable(0, trainable=False)
    optimizer = fg.optimizers.Adam(0.1, skip_nonfinite=True)

    def step(x):
        optimizer.minimize(lambda: np.sum(w**2 * x), iterations)

    run = fg.compile(step) if compiles else step
    run(np.array([1.0, 1.0]))
    before = w.numpy(), [each.copy() for each in optimizer.variables()]
    run(np.array([1.0, np.inf]))
    np.testing.assert_array_equal(w.numpy(), before[0])
    assert all(map(np.array_equal, optimizer.variables(), before[1]))
    assert (optimizer.skipped, optimizer.iterations, iterations.numpy()) == (1, 1, 1)
    run(np.array([1.0, 1.0]))
    assert (optimizer.skipped, optimizer.iterations, iterations.numpy()) == (1, 2, 2)
    assert np.all(w.numpy() < before[0])


def test_steps_eager_and_compiled_in_turns():
    w = fg.Variable([1.0, 2.0])
    optimizer = fg.optimizers.Adam(0.1)
    compiled = fg.compile(lambda: optimizer.minimize(lambda: np.sum(w**2)))
    twin, other = fg.Variable([1.0, 2.0]), fg.optimizers.Adam(0.1)
    for iteration in range(6):
        other.minimize(lambda: np.sum(twin**2))
        if iteration % 2:
            compiled()
        else:
            optimizer.minimize(lambda: np.sum(w**2))
    np.testing.assert_allclose(w.numpy(), twin.numpy(), rtol=1e-12)
    assert optimizer.iterations == 6


def test_updates_of_containers_are_compiled_once_the_step_has_become_an_array():
    optimizer = fg.optimizers.Adam(0.05)

    @fg.compile
    def update(params, state, x, y):
        loss, grads = fg.value_and_grad(lambda p: np.mean((x @ p["w"] + p["b"] - y) ** 2))(params)
        return loss, *optimizer.update(grads, state, params)

    params = {"w": np.zeros(5, np.float32), "b": np.float32(0.0)}
    state = optimizer.init(params)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20):
            _, params, state = update(params, state, X, Y)
    assert state.step == 20
    assert update._programs.count == 2
    _, weights, *_ = train(OPTIMIZERS["adam"], False, 20)
    np.testing.assert_allclose(params["w"], weights, rtol=1e-4)


def test_integers_go_in_unless_their_value_is_asked_for():
    times = fg.compile(lambda x, n: x * n + n // 2)
    x = np.ones(2, np.float32)
    assert [times(x, n)[0].item() for n in (3, 4)] == [4.0, 6.0]
    assert times(x, 3).dtype == np.float32
    assert times._programs.count == 1

    powers = fg.compile(lambda x, n: sum(x**k for k in range(n)))
    assert [powers(np.ones(2), n)[0].item() for n in (3, 4)] == [3.0, 4.0]
    assert powers._programs.count == 2


def test_pythons_numbers_leave_short_arrays_short():
    x = np.ones(3, np.float32)

    def f(x, rate, decay):
        return x * (rate * (1 - decay) + 1.0), np.sqrt(rate) * x, rate > x, x / decay, -rate * x

    for found, wanted in zip(fg.compile(f)(x, 0.1, 0.9), f(x, 0.1, 0.9), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    graph = fg.trace(f)(x, 0.1, 0.9)
    assert [each.dtype for each in graph(x, 0.2, 0.8)] == [np.asarray(each).dtype for each in f(x, 0.2, 0.8)]


def test_the_value_of_a_variable_is_not_frozen():
    w = fg.Variable(2.0)
    with pytest.raises(fg.errors.ConcretizationError, match="numpy"):
        fg.compile(lambda x: x * w.numpy())(np.ones(2))


def test_large_examples_are_not_computed_and_what_needs_values_gets_them():
    x = RNG.normal(size=200)

    def f(x):
        k = np.exp(-((x[:, None] - x[None, :]) ** 2)) + np.eye(200)  # of one element repeated, it would be singular
        return np.sum(np.log(np.diagonal(np.linalg.cholesky(k))))

    np.testing.assert_allclose(fg.trace(f)(x)(x), f(x), rtol=1e-12)
    np.testing.assert_allclose(fg.compile(fg.grad(f))(x), fg.grad(f)(x), rtol=1e-8, atol=1e-10)


def test_what_is_computed_from_large_examples_may_be_undefined_for_them():
    a, b = RNG.normal(size=(2, 64, 64))

    def f(a, b):
        return np.linalg.solve(2.0 * a, b)  # joins matrices, the first of which is an example of one repeated element

    np.testing.assert_allclose(fg.trace(f)(a, b)(a, b), f(a, b), rtol=1e-9)
    np.testing.assert_allclose(fg.compile(f)(a, b), f(a, b), rtol=1e-9, atol=1e-9)

    def repeatedly(a, b):
        return fg.fori_loop(0, 2, lambda i, x: np.linalg.solve(2.0 * a, x), 3.0 * b)

    np.testing.assert_allclose(fg.compile(repeatedly)(a, b), repeatedly(a, b), rtol=1e-6, atol=1e-6)


# TensorFlow's name for it


def test_tensorflows_function_is_compiled():
    w = tf.Variable([1.0, 2.0])
    optimizer = tf.train.AdamOptimizer(0.1)
    runs = []

    @tf.function
    def step(x):
        runs.append(1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(w * x - 1.0))
        optimizer.apply_gradients(zip(tape.gradient(loss, [w]), [w], strict=True))
        return loss

    losses = [step(tf.constant([1.0, 2.0])).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert len(runs) == 2  # recorded, and once more to see that nothing changes by itself
    assert w.dtype == np.float32


def test_tensorflows_function_runs_as_python_where_it_has_to():
    @tf.function
    def absolute(x):
        return x if x > 0 else -x

    assert [absolute(tf.constant(x)).item() for x in (3.0, -3.0)] == [3.0, 3.0]

    rng = np.random.default_rng(0)
    noisy = tf.function(lambda x: x + rng.normal())
    assert noisy(tf.constant(1.0)) != noisy(tf.constant(1.0))


def test_tapes_around_tensorflows_function():
    w = tf.Variable(3.0)
    scaled = tf.function(lambda x: tf.reduce_sum(x**2) * w)
    with tf.GradientTape(persistent=True) as tape:
        x = tf.constant([1.0, 2.0])
        tape.watch(x)
        y = scaled(x)
    np.testing.assert_allclose(tape.gradient(y, x), [6.0, 12.0])
    np.testing.assert_allclose(tape.gradient(y, w), 5.0)


class Scaled(fg.optimizers.Optimizer):
    scale = 1.0

    def rule(self, gradient, param, slots, hyper):
        return param - hyper.learning_rate * self.scale * gradient, {}


class Kept(fg.optimizers.schedules.Schedule):
    def __init__(self):
        self.rate = 0.1

    def value(self, step):
        return self.rate + 0.0 * step


rates = [0.1]


@pytest.mark.parametrize(
    ("optimizer", "change"),
    [
        (lambda: fg.optimizers.Adam(0.1), lambda o, i: setattr(o, "learning_rate", 0.1 * i)),
        (lambda: fg.optimizers.Adam(0.1), lambda o, i: setattr(o, "beta1", 0.1 * i)),
        (lambda: fg.optimizers.Adam(0.1), lambda o, i: setattr(o, "weight_decay", 0.1 * i)),
        (
            lambda: fg.optimizers.Momentum(np.array([0.1, 0.2]), 0.9),
            lambda o, i: o.learning_rate.__setitem__(0, 0.05 * i),
        ),
        (
            lambda: fg.optimizers.Adam(fg.optimizers.schedules.ReduceOnPlateau(0.4, 0.5, 0)),
            lambda o, i: o.learning_rate.update(1.0),
        ),
        (lambda: fg.optimizers.Adam(lambda: rates[0]), lambda o, i: rates.__setitem__(0, 0.1 * i)),
        (lambda: Scaled(0.1), lambda o, i: setattr(o, "scale", float(i))),
        (lambda: fg.optimizers.Adam(Kept()), lambda o, i: setattr(o.learning_rate, "rate", 0.1 * i)),
    ],
    ids=["rate", "beta", "decay", "rates", "plateau", "function", "own optimizer", "own schedule"],
)
def test_compiled_steps_notice_changed_parameters_of_optimizers(optimizer, change):
    states = []
    for compiles in (False, True):
        rates[0] = 0.1
        w, o = fg.Variable([1.0, 2.0]), optimizer()

        def step(x, w=w, o=o):
            o.minimize(lambda: np.sum(w * w) * x)

        run = fg.compile(step) if compiles else step
        for i in range(1, 4):
            run(1.0)
            change(o, i)
        run(1.0)
        states.append(w.numpy())
    np.testing.assert_allclose(*states)


def test_compiled_steps_are_not_recorded_again_for_their_own_changes():
    w, o = (
        fg.Variable([1.0, 2.0]),
        fg.optimizers.Adam(fg.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5), skip_nonfinite=True),
    )
    step = fg.compile(lambda x: o.minimize(lambda: np.sum(w * w) * x))
    for x in (1.0, 2.0, np.nan, 3.0):
        step(x)
    assert (o.skipped, o.iterations, step.inspect(1.0).programs) == (1, 3, 1)


def test_compiled_functions_read_the_state_of_optimizers_and_averages():
    w, o = fg.Variable([1.0, 2.0]), fg.optimizers.Momentum(0.1, momentum=0.5)
    average = fg.ExponentialMovingAverage(0.5)
    with pytest.raises(ValueError, match="asks for the average of variable"):
        fg.compile(lambda: average.average(w))()
    with pytest.raises(ValueError, match="asks for the slot 'momentum' of variable"):
        fg.compile(lambda: o.get_slot(w, "momentum"))()
    assert fg.compile(lambda: o.get_slot(w, "other"))() is None
    average.apply([w])
    o.apply_gradients([(np.ones(2), w)])

    def seen(x):
        return x * average.average(w), o.get_slot(w, "momentum") * x, o.iterations * x

    fast = fg.compile(seen)
    for _ in range(3):
        o.apply_gradients([(np.ones(2), w)])
        average.apply([w])
        for found, wanted in zip(fast(2.0), seen(2.0), strict=True):
            np.testing.assert_allclose(found, wanted)

    @fg.compile
    def step():
        o.minimize(lambda: np.sum(w))
        return o.get_slot(w, "momentum"), o.iterations

    momentum, count = step()
    np.testing.assert_allclose(momentum, o.get_slot(w, "momentum"))
    assert count.item() == o.iterations == 5
