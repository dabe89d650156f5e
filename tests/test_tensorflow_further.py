"""What TensorFlow's own tests ask for: modules of `tensorflow.python`, layers that hold variables, checks of shapes."""

import gc

import numpy as np
import pytest

import fgrad.compat.tensorflow as tf
import fgrad.compat.tensorflow1 as tf1
from fgrad import errors
from fgrad.compat.tensorflow.python.ops.parallel_for.gradients import batch_jacobian, jacobian
from fgrad.compat.tensorflow.python.training import moving_averages
from fgrad.testing import check_grads


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


@pytest.fixture
def default_graph():
    tf1.reset_default_graph()
    yield
    tf1.reset_default_graph()


def started(session):
    session.run(tf.global_variables_initializer())
    return session


# tensorflow.python


def test_a_moving_average_without_a_correction(session):
    mean = tf.Variable([10.0, 11.0])
    update = moving_averages.assign_moving_average(mean, tf.constant([1.0, 2.0]), 0.25, zero_debias=False)
    started(session).run(update)
    np.testing.assert_allclose(session.run(mean), [3.25, 4.25])


def corrected(values, decay):
    total = 0.0
    for value in values:
        total = decay * total + (1 - decay) * value
    return total / (1 - decay ** len(values))


def test_a_moving_average_that_begins_at_zero(session):
    mean, value = tf.Variable([0.0, 0.0], name="mean"), tf.placeholder(tf.float32, [2])
    update = moving_averages.assign_moving_average(mean, value, 0.25)
    started(session)
    for _ in range(2):
        session.run(update, {value: [1.0, 2.0]})
    session.run(update, {value: [5.0, 6.0]})
    np.testing.assert_allclose(session.run(mean), [corrected([x, x, x + 4], 0.25) for x in (1, 2)], rtol=1e-6)
    assert [v.name for v in tf.global_variables()] == ["mean:0", "mean/biased:0", "mean/local_step:0"]
    assert tf.trainable_variables() == [mean]


def test_eagerly_each_average_has_one_sum():
    mean, other = tf.Variable(0.0), tf.Variable(0.0)
    for value in (1.0, 1.0, 5.0):
        assert moving_averages.assign_moving_average(mean, value, 0.25) is mean
        moving_averages.assign_moving_average(other, 2 * value, 0.25)
    np.testing.assert_allclose(
        [mean.numpy(), other.numpy()], [corrected([x, x, 5 * x], 0.25) for x in (1, 2)], rtol=1e-6
    )
    held = len(moving_averages._sums)
    del mean, other
    gc.collect()
    assert len(moving_averages._sums) == held - 2


def test_names_in_scopes(session):
    with tf.variable_scope("outer") as outer:
        with tf.variable_scope("inner"):
            mean = tf.Variable(1.0, name="mean")
            for _ in range(2):
                moving_averages.assign_moving_average(mean, 0.0, 0.9)
    names = {v.name for v in outer.global_variables()}
    path = "outer/inner/outer/inner/mean"
    assert names == {
        "outer/inner/mean:0",
        *(f"{path}/{name}:0" for name in ("biased", "local_step", "biased_1", "local_step_1")),
    }
    assert outer.trainable_variables() == [mean]


def test_a_weighted_average(session):
    value, weight = (tf.placeholder(tf.float32, []) for _ in range(2))
    mean = moving_averages.weighted_moving_average(value, 0.5, weight)
    started(session)
    assert session.run(mean, {value: 3.0, weight: 4.0}) == 3.0
    found = session.run(mean, {value: 11.0, weight: 22.0})
    np.testing.assert_allclose(found, (3 * 4 * 0.25 + 11 * 22 * 0.5) / (4 * 0.25 + 22 * 0.5), rtol=1e-6)


def test_a_weighted_average_needs_a_graph():
    with pytest.raises(errors.SessionError, match="keeps its sums in a graph"):
        moving_averages.weighted_moving_average(1.0, 0.5, 1.0)


def test_jacobians_without_a_tape(session):
    x, y = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[1.0], [1.0]])
    z = x * x
    found = session.run([batch_jacobian(z, x), jacobian(z[0], {"x": x})["x"]])
    np.testing.assert_allclose(found[0], [[[2, 0], [0, 4]], [[6, 0], [0, 8]]])
    np.testing.assert_allclose(found[1], [[[2, 0], [0, 0]], [[0, 4], [0, 0]]])
    assert jacobian(z, y) is None
    assert batch_jacobian(z, y) is None
    with pytest.raises(errors.ShapeError, match=r"output shape \(1, 2\) and inp shape \(2, 2\)"):
        batch_jacobian(z[:1], x)


def test_jacobians_need_a_graph():
    with pytest.raises(errors.TapeError, match="not recorded when execution is eager"):
        jacobian(tf.constant(1.0), tf.constant(1.0))
    with pytest.raises(errors.TapeError, match="not recorded when execution is eager"):
        batch_jacobian(tf.constant([1.0]), tf.constant([1.0]))


def test_the_modules_are_in_both_namespaces(default_graph):
    from fgrad.compat.tensorflow1.python.training import moving_averages as in_graph

    mean = tf1.Variable(10.0)
    update = in_graph.assign_moving_average(mean, 2.0, 0.75, zero_debias=False)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        assert session.run(update) == 8.0
    with pytest.raises(errors.MissingNameError, match="moving_averages has no 'nothing'"):
        moving_averages.nothing  # noqa: B018


# Layers


def test_a_dense_layer_keeps_its_variables():
    layer = tf.layers.Dense(2, activation=tf.nn.relu, kernel_initializer=tf.ones_initializer(), name="last")
    assert layer.variables == []
    x = tf.constant([[1.0, 2.0, 3.0], [-1.0, 0.0, 0.0]])
    assert layer(x).numpy().tolist() == [[6.0, 6.0], [0.0, 0.0]]
    kernel, bias = layer.variables
    assert layer(x) is not None
    assert layer.weights == layer.trainable_variables == [kernel, bias]
    assert (layer.kernel, layer.bias) == (kernel, bias)
    assert [kernel.name, bias.name] == ["last/kernel:0", "last/bias:0"]
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(layer(x))
    assert tape.gradient(y, bias).numpy().tolist() == [1.0, 1.0]
    still = tf.layers.Dense(2, use_bias=False, trainable=False)
    still(x)
    assert (len(still.variables), still.trainable_variables) == (1, [])


def test_a_dense_layer_in_the_default_graph(default_graph):
    layer = tf1.layers.Dense(2, kernel_initializer=tf1.ones_initializer())
    x = tf1.placeholder(tf1.float32, [None, 3])
    y = layer(x) + layer(2.0 * x)
    assert [v.name for v in tf1.trainable_variables()] == ["dense/kernel:0", "dense/bias:0"]
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        assert session.run(y, {x: [[1.0, 1.0, 1.0]]}).tolist() == [[9.0, 9.0]]


VOLUMES = np.random.default_rng(4).normal(size=(2, 3, 5, 4, 2)).astype(np.float32)


def windows_of(x, size, steps, padding):
    """Return the mean and the largest element of each window of volumes, by their definition."""
    own = x.shape[1:4]
    if padding == "SAME":
        results = [-(-n // s) for n, s in zip(own, steps, strict=True)]
        totals = [max((r - 1) * s + k - n, 0) for r, s, k, n in zip(results, steps, size, own, strict=True)]
        before = [total // 2 for total in totals]
    else:
        results = [(n - k) // s + 1 for n, k, s in zip(own, size, steps, strict=True)]
        before = [0, 0, 0]
    means, largest = (np.zeros((len(x), *results, x.shape[-1])) for _ in range(2))
    for place in np.ndindex(*results):
        starts = [p * s - b for p, s, b in zip(place, steps, before, strict=True)]
        part = tuple(slice(max(a, 0), a + k) for a, k in zip(starts, size, strict=True))
        held = x[(slice(None), *part)]
        means[(slice(None), *place)] = held.mean((1, 2, 3))
        largest[(slice(None), *place)] = held.max((1, 2, 3))
    return means, largest


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("size", "steps"), [(2, 1), ([2, 3, 1], [1, 2, 2]), ([1, 2, 2, 2, 1], 2)])
def test_pooling_of_volumes(size, steps, padding):
    sizes = [size] * 3 if isinstance(size, int) else size[-4:-1] if len(size) == 5 else size
    means, largest = windows_of(VOLUMES, sizes, [steps] * 3 if isinstance(steps, int) else steps, padding)
    np.testing.assert_allclose(tf.nn.avg_pool3d(VOLUMES, size, steps, padding), means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tf.nn.max_pool3d(VOLUMES, size, steps, padding), largest)
    first = np.moveaxis(VOLUMES, -1, 1)
    by_channel = [1, 1, *sizes] if np.ndim(size) else size
    found = tf.nn.max_pool3d(first, by_channel, steps, padding, data_format="NCDHW")
    np.testing.assert_allclose(found, np.moveaxis(largest, -1, 1))
    check_grads(lambda x: tf.nn.avg_pool3d(x, size, steps, padding), (VOLUMES.astype(np.float64),))
    check_grads(lambda x: tf.nn.max_pool3d(x, size, steps, padding), (VOLUMES.astype(np.float64),))


def test_layers_that_pool_volumes(session):
    x = tf.placeholder(tf.float32, [None, 3, 5, 4, 2])
    largest = tf.layers.max_pooling3d(x, 2, [1, 2, 2], "same")
    mean = tf.layers.average_pooling3d(x, (2, 2, 2), 1, data_format="channels_last", name="mean")
    assert (largest.shape.as_list(), mean.shape.as_list()) == ([None, 3, 3, 2, 2], [None, 2, 4, 3, 2])
    found = session.run([largest, mean], {x: VOLUMES})
    np.testing.assert_allclose(found[0], windows_of(VOLUMES, [2, 2, 2], [1, 2, 2], "SAME")[1])
    np.testing.assert_allclose(found[1], windows_of(VOLUMES, [2, 2, 2], [1, 1, 1], "VALID")[0], rtol=1e-5, atol=1e-6)


def test_pooling_that_is_refused():
    with pytest.raises(errors.ParameterError, match=r"\[2, 2\] must be one number, three, or five"):
        tf.nn.max_pool3d(VOLUMES, [2, 2], 1, "SAME")
    with pytest.raises(errors.ParameterError, match="use 'NDHWC' or 'NCDHW'"):
        tf.nn.avg_pool3d(VOLUMES, 2, 1, "SAME", data_format="NHWC")
    with pytest.raises(errors.ParameterError, match="use 'NHWC' or 'NCHW'"):
        tf.nn.max_pool(VOLUMES[0], 2, 1, "SAME", data_format="NDHWC")
    with pytest.raises(errors.ShapeError, match=r"windows of \(4, 4, 4\) do not fit into images of \(3, 5, 4\)"):
        tf.nn.max_pool3d(VOLUMES, 4, 1, "VALID")
    with pytest.raises(errors.ParameterError, match="channels_first"):
        tf.layers.max_pooling3d(VOLUMES, 2, 1, data_format="NDHWC")


# Numbers that are not finite


def test_numerics_are_checked():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.check_numerics(x * x, "squares")
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]
    with (
        pytest.raises(errors.InvalidArgumentError, match="quotient : Tensor had Inf and NaN"),
        np.errstate(all="ignore"),
    ):
        tf.check_numerics(tf.constant([0.0, 1.0]) / 0.0, "quotient")
    with pytest.raises(errors.InvalidArgumentError, match="Tensor had Inf values"):
        tf.check_numerics(tf.constant(np.inf), "this")
    with pytest.raises(errors.SessionError, match="needs a graph"):
        tf.add_check_numerics_ops()


def test_all_numerics_of_a_graph_are_checked(session):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.math.log(x)
    checks = tf.add_check_numerics_ops()
    session.run([y, checks], {x: [1.0, 2.0]})
    with pytest.raises(errors.InvalidArgumentError, match="Log:0 : Tensor had NaN"), np.errstate(all="ignore"):
        session.run([y, checks], {x: [-1.0, 2.0]})
    tf.cond(y[0] > 0.0, lambda: y + 1.0, lambda: y)
    with pytest.raises(errors.SymbolicTensorError, match=r"inside of tf\.cond"):
        tf.add_check_numerics_ops()


# Shapes, dtypes, rows


@pytest.mark.parametrize(
    "clip",
    [
        lambda x: tf.clip_by_value(x, tf.constant([-1.0, -2.0]), 1.0),
        lambda x: tf.clip_by_value(x, -1.0, clip_value_max=np.array([1.0, 2.0], np.float32), name="clipped"),
        lambda x: tf.clip_by_norm(x, tf.constant([1.0, 2.0])),
    ],
)
def test_limits_do_not_change_the_shape(clip, session):
    with pytest.raises(errors.ShapeError, match="would give the shape"):
        clip(tf.ones([2, 3, 1]))
    assert clip(tf.ones([2, 3, 2])).shape == (2, 3, 2)
    x = tf.placeholder(tf.float32)
    with pytest.raises(errors.ShapeError, match="would give the shape"):
        session.run(clip(x), {x: np.ones([2, 3, 1])})


def test_steps_of_piecewise_constant_have_one_dtype():
    step = tf.Variable(0)
    with pytest.raises(ValueError, match=r"boundaries has an element of dtype float32, -1\.0, where int32"):
        tf.train.piecewise_constant(step, [-1.0, 1.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="values has an element of dtype int32, 2, where float32"):
        tf.train.piecewise_constant(step, [1, 2], [1.0, 2, 3.0])
    with pytest.raises(ValueError, match="values has an element of dtype float64"):
        tf.train.piecewise_constant(step, [1, 2], [1.0, np.array(0.5), 0.25])
    wide = tf.Variable(np.array(3, np.int64))
    assert float(tf.train.piecewise_constant(wide, [1, 2], [1.0, 0.5, 0.25])()) == 0.25


def test_a_rate_with_noise(session):
    rate = tf.train.noisy_linear_cosine_decay(1.0, 5, 10, initial_variance=0.0, alpha=0.5, beta=0.25)
    line = 0.5 + 0.5
    np.testing.assert_allclose(session.run(rate), line * 0.5 * (1 + np.cos(np.pi * 0.25)) + 0.25, rtol=1e-6)
    noisy = tf.train.noisy_linear_cosine_decay(1.0, 5, 10)
    assert session.run(noisy) != session.run(noisy)


def test_a_rate_with_noise_eagerly():
    step = tf.Variable(0)
    tf.set_random_seed(1)
    rate = tf.train.noisy_linear_cosine_decay(0.5, step, 10, initial_variance=4.0, variance_decay=1.0)
    found = np.array([float(rate()) for _ in range(2000)])
    assert abs(found.mean() - 0.5) < 0.1
    assert abs(found.std() - 0.5 * 2.0) < 0.1
    step.assign(9)
    found, cosine = np.array([float(rate()) for _ in range(2000)]), 0.5 * (1 + np.cos(np.pi * 0.45))
    assert abs(found.std() - 0.5 * np.sqrt(0.4) * cosine) < 0.02
    step.assign(20)
    assert float(tf.train.noisy_linear_cosine_decay(0.5, step, 10, 0.0)()) == pytest.approx(0.0005)


def test_rows_are_dense_in_operations(session):
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([2, 0]), tf.constant([3, 1]))
    found = session.run([tf.multiply(slices, 2.0), tf.stack([slices, slices])])
    np.testing.assert_array_equal(found[0], [[4.0], [0.0], [2.0]])
    np.testing.assert_array_equal(found[1], [[[2.0], [0.0], [1.0]]] * 2)


def test_rows_are_dense_in_operations_eagerly():
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([2, 0]), tf.constant([3, 1]))
    np.testing.assert_array_equal(tf.multiply(slices, 2.0).numpy(), [[4.0], [0.0], [2.0]])
    with pytest.raises(errors.ParameterError, match="number of rows is unknown"):
        tf.multiply(slices._replace(dense_shape=None), 2.0)


def test_rows_are_weights(session):
    x = tf.constant([[1.0], [2.0], [3.0]])
    rows = tf.IndexedSlices(tf.constant([[10.0], [20.0]]), tf.constant([2, 0]), tf.constant([3, 1]))
    for weights in (rows, [rows]):
        (gradient,) = tf.gradients(x * x, x, grad_ys=weights)
        np.testing.assert_array_equal(session.run(gradient), [[40.0], [0.0], [60.0]])
    first, _ = tf.gradients([x * x, x], [x, x], grad_ys=[rows, None])
    np.testing.assert_array_equal(session.run(first), [[41.0], [1.0], [61.0]])
    with pytest.raises(errors.ParameterError, match="number of rows is unknown"):
        tf.gradients(x, x, grad_ys=rows._replace(dense_shape=None))


# Graphs


def test_operations_know_what_they_wait_for(session):
    first = tf.no_op(name="first")
    with tf.control_dependencies([first]):
        y = tf.constant(1.0, name="y") + 1.0
    assert y.op.control_inputs == [first]
    assert y.op.outputs == [y]
    assert first.control_inputs == first.outputs == []
    w = tf.Variable(1.0)
    assert w.op.outputs == [w.read_value()]
    assert w.initializer.control_inputs == []


def test_devices_and_aggregation_are_ignored(session):
    with tf.get_default_graph().device("/device:GPU:0"):
        w = tf.Variable(2.0, name="w")
    for way in ("ADD_N", "DEFAULT", "EXPERIMENTAL_TREE", "EXPERIMENTAL_ACCUMULATE_N"):
        (gradient,) = tf.gradients(w * w, w, aggregation_method=getattr(tf.AggregationMethod, way))
        assert started(session).run(gradient) == 4.0
    assert w._shared_name == "w"


def test_names_of_eager_variables():
    assert tf.Variable(2.0, name="w")._shared_name == "w"


def test_scopes_in_the_default_graph(default_graph):
    with tf1.variable_scope("scope") as scope:
        first, second = tf1.get_variable("w", []), tf1.get_variable("v", [], trainable=False)
    assert scope.global_variables() == [first, second]
    assert scope.trainable_variables() == [first]
