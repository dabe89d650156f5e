"""`tf.train`'s optimizers: functions as losses in a graph, tensors to differentiate by, slots, gradients of rows."""

import contextlib

import numpy as np
import pytest

import fgrad as fg
import fgrad.compat.tensorflow as tf
import fgrad.compat.tensorflow1 as tf1
from fgrad import errors


@contextlib.contextmanager
def in_mode(name):
    """Return a context in which operations are computed at once or become nodes of a graph, and how to get values."""
    if name == "eager":
        yield lambda x: x.numpy() if hasattr(x, "numpy") else x
        return
    with tf.Graph().as_default(), tf.Session() as session:
        yield session.run


def start(value):
    value(tf.global_variables_initializer())


@pytest.fixture(params=["eager", "graph"])
def value(request):
    with in_mode(request.param) as value:
        yield value


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


# Losses that are functions


def test_a_function_as_loss(value):
    v, w = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    step = tf.Variable(0, trainable=False)
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    start(value)
    value(optimizer.minimize(lambda: v * w, step))
    np.testing.assert_array_equal(value(v), [-0.5, 0.5])
    assert (float(value(w)), int(value(step))) == (1.5, 1)


def test_var_list_chooses_and_grad_loss_weighs(value):
    v, w = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    start(value)
    ((gradient, found),) = optimizer.compute_gradients(lambda: v * w, [v], grad_loss=tf.constant([1.0, 10.0]))
    assert found is v
    np.testing.assert_array_equal(value(gradient), [3.0, 30.0])
    ((gradient, found),) = optimizer.compute_gradients(lambda: v * w, w)  # one alone
    assert found is w
    assert float(value(gradient)) == 3.0


def test_the_variables_of_a_function_are_those_that_it_reads(session):
    v, w, _unread = (tf.Variable(x, name=name) for x, name in [(1.0, "v"), (2.0, "w"), (3.0, "unread")])
    still = tf.Variable(4.0, trainable=False)
    pairs = tf.train.GradientDescentOptimizer(1.0).compute_gradients(lambda: w * v * still)
    start(session.run)
    assert [variable.name for _, variable in pairs] == ["v:0", "w:0"]
    assert session.run([gradient for gradient, _ in pairs]) == [8.0, 4.0]


def test_a_function_that_depends_on_no_variable(value):
    v = tf.Variable(1.0, name="v")
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    for variables in (None, [v]):
        with pytest.raises(ValueError, match="No gradients provided for any variable"):
            optimizer.minimize(lambda: tf.constant(5.0), var_list=variables)
    assert optimizer.compute_gradients(lambda: tf.constant(5.0), [v])[0][0] is None


def test_what_is_no_loss_in_a_graph(session):
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    v = tf.Variable([1, 2])
    with pytest.raises(errors.NoResultError, match="returned None"):
        optimizer.compute_gradients(lambda: None)
    with pytest.raises(errors.DtypeError, match="Invalid type int32"):
        optimizer.compute_gradients(lambda: v * 2)
    with pytest.raises(errors.NotCallableError, match=r"graph tensor or a function .* it is 3\.0"):
        optimizer.compute_gradients(3.0)


def test_gradients_by_tensors(value):
    x = tf.constant(3.0)
    v = tf.Variable(2.0)
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    start(value)
    pairs = optimizer.compute_gradients(lambda: x * x * v, [x, v])
    assert pairs[0][1] is x
    assert pairs[1][1] is v
    assert [float(value(gradient)) for gradient, _ in pairs] == [12.0, 9.0]
    for fails in (lambda: optimizer.apply_gradients(pairs), lambda: optimizer.minimize(lambda: x * x, var_list=[x])):
        with pytest.raises(NotImplementedError, match="Trying to update a Tensor"):
            fails()
    assert float(value(v)) == 2.0


def test_gradients_that_are_variables(value):
    v, held = tf.Variable([1.0, 2.0]), tf.Variable([10.0, 20.0])
    step = lambda: tf.train.GradientDescentOptimizer(0.5).apply_gradients([(held, v)])  # noqa: E731
    made = step()
    start(value)
    if made is not None:
        value(made)
    np.testing.assert_array_equal(value(v), [-4.0, -8.0])


def test_steps_are_in_the_collection_of_training_operations(session):
    v = tf.Variable(1.0)
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    first, second = optimizer.minimize(v * v), optimizer.apply_gradients([(tf.constant(1.0), v)])
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP) == [first, second]


# What is remembered


def test_a_slot_is_a_variable_that_the_optimizer_goes_on_with():
    v = tf.Variable([1.0, 2.0], name="v")
    optimizer = tf.train.MomentumOptimizer(0.5, 0.5)
    assert optimizer.get_slot(v, "momentum") is None
    optimizer.apply_gradients([([1.0, 2.0], v)])
    slot = optimizer.get_slot(v, "momentum")
    assert isinstance(slot, tf.Variable)
    assert not slot.trainable
    assert (slot.name, slot.get_shape().as_list(), slot.dtype.name) == ("v/Momentum:0", [2], "float32")
    assert optimizer.get_slot(v, "momentum") is slot
    assert optimizer.get_slot(v, "nothing") is None
    np.testing.assert_array_equal(slot, [1.0, 2.0])
    optimizer.apply_gradients([([1.0, 2.0], v)])
    np.testing.assert_array_equal(slot, [1.5, 3.0])
    slot.assign([10.0, 20.0])
    optimizer.apply_gradients([([0.0, 0.0], v)])
    np.testing.assert_array_equal(slot, [5.0, 10.0])
    np.testing.assert_array_equal(v, [1.0 - 0.5 * (1 + 1.5 + 5), 2.0 - 0.5 * (2 + 3 + 10)])


def test_a_slot_of_a_graph_can_be_assigned_and_begun_anew(session):
    v = tf.Variable([1.0, 2.0])
    optimizer = tf.train.MomentumOptimizer(0.5, 0.5)
    step = optimizer.apply_gradients([(tf.constant([1.0, 2.0]), v)])
    slot = optimizer.get_slot(v, "momentum")
    start(session.run)
    np.testing.assert_array_equal(session.run(slot), [0.0, 0.0])
    assigned = slot.assign([10.0, 20.0])
    assert assigned.shape.as_list() == [2]
    np.testing.assert_array_equal(session.run(assigned), [10.0, 20.0])  # before the first step
    session.run(step)
    np.testing.assert_array_equal(session.run(slot), [6.0, 12.0])
    np.testing.assert_array_equal(session.run(v), [-2.0, -4.0])
    session.run(slot.initializer)
    np.testing.assert_array_equal(session.run(slot), [0.0, 0.0])
    np.testing.assert_array_equal(session.run(v), [-2.0, -4.0])
    with tf.Session() as other:  # where nothing has happened
        other.run(slot.initializer)
        other.run(v.initializer)
        np.testing.assert_array_equal(other.run(slot), [0.0, 0.0])


ADAM = ["b/Adam:0", "b/Adam_1:0", "beta1_power:0", "beta2_power:0", "w/Adam:0", "w/Adam_1:0"]


def test_the_variables_of_adam(value):
    w, b = tf.Variable([1.0, 2.0], name="w"), tf.Variable(1.0, name="b")
    optimizer = tf.train.AdamOptimizer(0.1)
    assert optimizer.variables() == []
    step = optimizer.minimize(lambda: tf.reduce_sum(w * w) + b)
    start(value)
    value(step)
    held = optimizer.variables()
    assert [each.name for each in held] == ADAM
    assert [each.get_shape().as_list() for each in held] == [[], [], [], [], [2], [2]]
    assert all(each.dtype == np.float32 for each in held)
    values = [value(each) for each in held]
    np.testing.assert_allclose(values[0], 0.1, rtol=1e-6)
    np.testing.assert_allclose(values[1], 0.001, rtol=1e-5)
    np.testing.assert_allclose(values[2:4], [0.81, 0.998001], rtol=1e-6)  # to the number of the next step
    np.testing.assert_allclose(values[4], [0.2, 0.4], rtol=1e-6)
    assert [each is other for each, other in zip(held, optimizer.variables(), strict=True)] == [True] * 6


def test_variables_of_one_graph_alone():
    optimizer = tf.train.AdamOptimizer(0.1)
    eager = tf.Variable(1.0, name="eager")
    optimizer.minimize(lambda: eager * eager)
    graphs = {}
    for name in ("x", "y"):
        with tf.Graph().as_default() as graphs[name]:
            assert optimizer.variables() == []
            v = tf.Variable(1.0, name=name)
            optimizer.minimize(v * v)
    powers = ["beta1_power:0", "beta2_power:0"]
    for name, graph in graphs.items():
        with graph.as_default():
            assert [each.name for each in optimizer.variables()] == [*powers, f"{name}/Adam:0", f"{name}/Adam_1:0"]
    assert [each.name for each in optimizer.variables()] == [*powers, "eager/Adam:0", "eager/Adam_1:0"]


def test_a_strength_of_a_penalty_may_be_a_graph_tensor():
    with tf.Graph().as_default(), tf.Session() as session:
        w, strength = tf.Variable([1.0, -2.0]), tf.placeholder(tf.float32, [])
        optimizer = tf.train.ProximalGradientDescentOptimizer(0.1, l1_regularization_strength=strength)
        step = optimizer.minimize(tf.reduce_sum(w * w))
        session.run(tf.global_variables_initializer())
        session.run(step, {strength: 5.0})
        np.testing.assert_allclose(session.run(w), [0.3, -1.1], rtol=1e-6)
        session.run(step, {strength: 0.0})
        np.testing.assert_allclose(session.run(w), [0.24, -0.88], rtol=1e-6)


def test_powers_of_a_graph(session):
    v, beta = tf.Variable(1.0), tf.placeholder(tf.float32, [])
    optimizer = tf.train.AdamOptimizer(0.1, beta1=beta)
    step = optimizer.minimize(v * v)
    start(session.run)
    powers = {each.name: each for each in optimizer.variables() if "power" in each.name}
    for _ in range(2):
        session.run(step, {beta: 0.5})
    assert session.run(powers["beta1_power:0"], {beta: 0.5}) == 0.125
    np.testing.assert_allclose(session.run(powers["beta2_power:0"]), 0.999**3, rtol=1e-6)
    session.run(tf.variables_initializer(optimizer.variables()))
    np.testing.assert_allclose(session.run(powers["beta2_power:0"]), 0.999, rtol=1e-6)


def test_powers_cannot_be_assigned():
    v = tf.Variable(1.0)
    optimizer = tf.train.AdamOptimizer(0.1)
    optimizer.minimize(lambda: v * v)
    power = next(each for each in optimizer.variables() if each.name == "beta1_power:0")
    assert power.numpy() == np.float32(0.9**2)
    with pytest.raises(errors.UpdateError, match="beta1_power is derived from the number of steps"):
        power.assign(1.0)


# Hyper-parameters at the end of their range


def test_averages_that_keep_all():
    def two_steps(optimizer):
        w = tf.Variable([1.0, 2.0])
        for _ in range(2):
            with np.errstate(divide="ignore"):
                optimizer.minimize(lambda: w * w)
        return w.numpy().tolist()

    assert two_steps(tf.train.AdadeltaOptimizer(1.0, 1.0, 1.0)) == [1.0, 2.0]
    assert two_steps(tf.train.AdamOptimizer(2.0, 0.0, 1.0)) == [1.0, 2.0]
    assert two_steps(tf.train.RMSPropOptimizer(1.0, 1.0)) == [1.0, 2.0]
    for make in (
        lambda: tf.train.AdadeltaOptimizer(1.0, rho=1.5),
        lambda: tf.train.AdamOptimizer(1.0, beta2=-0.1),
        lambda: tf.train.RMSPropOptimizer(1.0, decay=1.01),
    ):
        with pytest.raises(errors.ParameterError, match="at least 0 and at most 1"):
            make()
    with pytest.raises(errors.ParameterError, match="at least 0 and below 1"):
        fg.optimizers.Adam(1.0, beta2=1.0)


def test_momentum_in_half_precision(value):
    v = tf.Variable([1.0, 2.0], dtype=tf.float16)
    optimizer = tf.train.MomentumOptimizer(2.0, 0.9)
    gradient = tf.constant([0.1, 0.1], tf.float16)
    steps = [optimizer.apply_gradients([(gradient, v)]) for _ in range(2)]
    start(value)
    for step in steps:
        value(step)
    slot = optimizer.get_slot(v, "momentum")
    assert (value(v).dtype, value(slot).dtype) == (np.float16, np.float16)
    np.testing.assert_allclose(value(v), [0.42, 1.42], rtol=1e-3)
    np.testing.assert_allclose(value(slot), [0.19, 0.19], rtol=1e-3)


# Gradients of some rows: two steps, the first with a row that occurs twice

_OPTIMIZERS = {
    "gradient descent": (
        lambda: tf.train.GradientDescentOptimizer(0.1),
        [[0.4, 0.2], [1.9, 1.9], [2.7, 2.6]],
        {},
    ),
    "momentum": (
        lambda: tf.train.MomentumOptimizer(0.1, 0.9),
        [[0.4, 0.2], [1.9, 1.9], [2.7, 2.6]],
        {"momentum": [[6, 8], [1, 1], [3, 4]]},
    ),
    "nesterov": (
        lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        [[-0.14, -0.52], [1.81, 1.81], [2.43, 2.24]],
        {"momentum": [[6, 8], [1, 1], [3, 4]]},
    ),
    "adagrad": (
        lambda: tf.train.AdagradOptimizer(0.1),
        [[0.9001386, 0.9000781], [1.9046538, 1.9046538], [2.9005508, 2.900311]],
        {"accumulator": [[36.1, 64.1], [1.1, 1.1], [9.1, 16.1]]},
    ),
    "adadelta": (
        lambda: tf.train.AdadeltaOptimizer(0.1),
        [[0.9999553, 0.9999553], [1.9999553, 1.9999553], [2.9999552, 2.9999552]],
        {"accum": [[1.8, 3.2], [0.05, 0.05], [0.45, 0.8]]},
    ),
    "rmsprop": (
        lambda: tf.train.RMSPropOptimizer(0.1),
        [[0.7171573, 0.7039068], [1.9, 1.9], [2.7763932, 2.747018]],
        {"rms": [[4.5, 7.3], [1, 1], [1.8, 2.5]]},
    ),
    "rmsprop, centered": (
        lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
        [[0.7051161, 0.6900063], [1.8994962, 1.8994962], [2.7705843, 2.7385118]],
        {"mg": [[0.6, 0.8], [0.1, 0.1], [0.3, 0.4]]},
    ),
    "adam": (
        lambda: tf.train.AdamOptimizer(0.1),
        [[0.8329944, 0.8329943], [1.9255866, 1.9255866], [2.8329945, 2.8329945]],
        {"m": [[0.54, 0.72], [0.1, 0.1], [0.27, 0.36]]},
    ),
    "ftrl": (
        lambda: tf.train.FtrlOptimizer(0.1),
        [[0.8475069, 0.8605803], [1.301631, 1.301631], [2.5860655, 2.663878]],
        {"accum": [[36.1, 64.1], [1.1, 1.1], [9.1, 16.1]]},
    ),
    "proximal gradient descent": (
        lambda: tf.train.ProximalGradientDescentOptimizer(0.1, 0.1, 0.2),
        [[0.382353, 0.1862745], [1.8529412, 1.8529412], [2.637255, 2.5392156]],
        {},
    ),
    "proximal adagrad": (
        lambda: tf.train.ProximalAdagradOptimizer(0.1, 0.1, 0.1, 0.2),
        [[0.8954934, 0.8965893], [1.8596571, 1.8596571], [2.8781538, 2.8834462]],
        {"accumulator": [[36.1, 64.1], [1.1, 1.1], [9.1, 16.1]]},
    ),
}


@pytest.mark.parametrize("name", _OPTIMIZERS)
def test_gradients_of_rows(name, value):
    make, expected, slots = _OPTIMIZERS[name]
    v = tf.Variable([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    optimizer = make()
    first = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), tf.constant([0, 2, 0]))
    second = tf.IndexedSlices([[1.0, 1.0]], [1], tf.constant([3, 2]))
    steps = [optimizer.apply_gradients([(slices, v)]) for slices in (first, second)]
    start(value)
    for step in steps:
        value(step)
    np.testing.assert_allclose(value(v), expected, rtol=2e-6)
    for slot, rows in slots.items():
        np.testing.assert_allclose(value(optimizer.get_slot(v, slot)), rows, rtol=2e-6)


def test_gradients_of_rows_of_a_vector_in_another_dtype(value):
    v = tf.Variable([1.0, 2.0, 3.0])
    slices = tf.IndexedSlices(tf.constant([10.0, 20.0], tf.float64), tf.constant([2, 0], tf.int64))
    step = tf.train.GradientDescentOptimizer(1.0).apply_gradients([(slices, v)])
    start(value)
    value(step)
    np.testing.assert_array_equal(value(v), [-19.0, 2.0, -7.0])


@pytest.mark.parametrize(
    ("values", "indices", "kind", "message"),
    [
        ([1.0], [5], errors.InvalidArgumentError, r"holds 5, which is not in \[0, 2\)"),
        ([1.0], [-1], errors.InvalidArgumentError, r"holds -1, which is not in \[0, 2\)"),
        ([[1.0]], [0], errors.ShapeError, r"must have shape \(1,\), but it has \(1, 1\)"),
        ([1.0, 2.0], [0], errors.ShapeError, r"must have shape \(1,\), but it has \(2,\)"),
        ([1.0], [0.0], errors.DtypeError, "must be a vector of integers"),
        ([[1.0]], [[0]], errors.DtypeError, "must be a vector of integers"),
        ([1j], [0], errors.DtypeError, "is complex"),
    ],
)
def test_gradients_of_rows_that_do_not_fit(values, indices, kind, message):
    v = tf.Variable([1.0, 2.0])
    with pytest.raises(kind, match=message):
        tf.train.MomentumOptimizer(1.0, 0.9).apply_gradients([(tf.IndexedSlices(values, indices), v)])
    np.testing.assert_array_equal(v, [1.0, 2.0])


def test_rows_of_a_number():
    with pytest.raises(errors.ShapeError, match="gradient of 1 rows"):
        tf.train.MomentumOptimizer(1.0, 0.9).apply_gradients([(tf.IndexedSlices([1.0], [0]), tf.Variable(1.0))])


def test_rows_in_a_compiled_function():
    v = tf.Variable([1.0, 2.0])
    optimizer = tf.train.MomentumOptimizer(1.0, 0.5)

    @tf.function
    def step(x):
        optimizer.apply_gradients([(tf.IndexedSlices(x, [1]), v)])
        return v * 1.0

    for expected in ([1.0, -8.0], [1.0, -23.0]):
        np.testing.assert_array_equal(step(tf.constant([10.0])), expected)
    np.testing.assert_array_equal(optimizer.get_slot(v, "momentum"), [0.0, 15.0])


# In TensorFlow 1's namespace, where no block says that there is a graph


def test_optimizers_and_averages_of_the_default_graph():
    tf1.reset_default_graph()
    v = tf1.Variable([1.0, 2.0], name="v")
    optimizer = tf1.train.AdamOptimizer(0.1)
    assert optimizer.variables() == []
    step = optimizer.minimize(lambda: tf1.reduce_sum(v * v))
    ((gradient, found),) = tf1.train.GradientDescentOptimizer(0.1).compute_gradients(lambda: v * v)
    averages = tf1.train.ExponentialMovingAverage(0.5)
    assert averages.variables_to_restore() == {"v/ExponentialMovingAverage": v}
    assert [each.name for each in optimizer.variables()] == [
        "beta1_power:0", "beta2_power:0", "v/Adam:0", "v/Adam_1:0"
    ]  # fmt: skip
    with tf1.variable_scope("scope"):
        assert averages.average_name(v) == "scope/v/ExponentialMovingAverage"
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(gradient), [2.0, 4.0])
        session.run(step)
        np.testing.assert_allclose(session.run(v), [0.9, 1.9], rtol=1e-6)
    assert found is v
    tf1.reset_default_graph()


def test_losses_with_parameters_are_refused_as_ever():
    v = tf.Variable(1.0)
    with pytest.raises(errors.NotCallableError, match="a function without arguments"):
        tf.train.GradientDescentOptimizer(0.1).minimize(lambda x: v * x)
    with pytest.raises(errors.TapeError, match="should be a function"):
        tf.train.GradientDescentOptimizer(0.1).minimize(v * 2.0)
