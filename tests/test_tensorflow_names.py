"""Names of TensorFlow around its operations: dtypes and shapes, averages, segments, rows, unknown sizes."""

import contextlib
import copy
import pickle

import numpy as np
import pytest

import fgrad.compat.tensorflow as tf
from fgrad import errors


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def gradient(f, *values):
    tensors = [tf.constant(value) for value in values]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        y = f(*tensors)
    return tape.gradient(y, tensors if len(tensors) > 1 else tensors[0])


# dtypes and shapes


def test_what_a_dtype_tells():
    assert tf.float32.as_numpy_dtype is np.float32
    names = ["is_floating", "is_complex", "is_integer", "is_unsigned", "is_bool"]
    told = {
        dtype.name: [name for name in names if getattr(dtype, name)]
        for dtype in (tf.float16, tf.int8, tf.uint8, tf.complex64, tf.bool)
    }
    assert told == {
        "float16": ["is_floating"],
        "int8": ["is_integer"],
        "uint8": ["is_integer", "is_unsigned"],
        "complex64": ["is_complex"],
        "bool": ["is_bool"],
    }
    assert (tf.float64.size, tf.int32.max, tf.uint8.min) == (8, 2**31 - 1, 0)
    assert tf.float32.max == np.finfo(np.float32).max
    assert tf.float32.min == -tf.float32.max
    assert tf.complex64.real_dtype is tf.float32
    assert tf.float32.real_dtype is tf.float32.base_dtype is tf.float32
    assert tf.float32.is_compatible_with(np.float32)
    assert not tf.float32.is_compatible_with(tf.float64)
    for dtype in (tf.bool, tf.complex64):
        with pytest.raises(TypeError, match=f"{dtype.name} has no smallest"):
            dtype.max  # noqa: B018
    with pytest.raises(AttributeError):
        tf.float32.nothing  # noqa: B018


def test_dtypes_are_numpys():
    assert tf.float32 == np.float32 == tf.float32
    assert tf.float32 == "float32"
    assert np.dtype("float32") == tf.float32
    assert tf.float32 not in (tf.float64, np.float64, None)
    assert tf.float64 != None  # noqa: E711
    assert {tf.float32: 1}[np.dtype(np.float32)] == 1
    assert np.zeros(2, tf.float16).dtype == tf.float16
    assert np.finfo(tf.float32).bits == 32
    assert (repr(tf.float32), str(tf.float32), f"{tf.float32:>8}") == ("tf.float32", "float32", " float32")
    assert tf.float32.kind == "f"
    assert pickle.loads(pickle.dumps(tf.float32)) is copy.deepcopy(tf.float32) is tf.float32
    assert tf.as_dtype(np.dtype("int32")) is tf.as_dtype("int32") is tf.int32


def test_dtypes_of_a_graph(session):
    x, v = tf.placeholder(tf.float32, [2]), tf.Variable([1.0], dtype=tf.float64)
    assert x.dtype is tf.float32
    assert v.dtype is tf.float64
    assert (x * 2).dtype.as_numpy_dtype is np.float32
    assert tf.cast(x, v.dtype).dtype.is_floating
    assert (tf.placeholder(tf.float32) @ tf.placeholder(tf.float32)).dtype is tf.float32


def test_get_shape():
    x, v = tf.constant([[1.0, 2.0]]), tf.Variable([1.0, 2.0])
    assert isinstance(x.get_shape(), tf.TensorShape)
    assert (x.get_shape().as_list(), v.get_shape().as_list(), x.get_shape()) == ([1, 2], [2], (1, 2))
    shapes = []

    def f(x):
        shapes.append(x.get_shape().as_list())
        return x * x

    gradient(f, [1.0, 2.0, 3.0])
    assert shapes == [[3]]


def test_eager_variables_have_their_value_from_the_start():
    assert tf.Variable(1.0).initializer is None
    assert tf.Variable(1.0).get_shape() == ()


def test_placeholders_with_a_default_eagerly():
    x = tf.placeholder_with_default([1.0, 2.0], [None])
    assert (x.tolist(), x.dtype) == ([1.0, 2.0], tf.float32)
    assert gradient(lambda x: tf.placeholder_with_default(x * x, []), 3.0).tolist() == 6.0


# Averages


def test_variables_of_which_averages_are_kept(session):
    v, w = tf.Variable([1.0], name="v"), tf.Variable(2.0, name="w", trainable=False)
    averages = tf.train.ExponentialMovingAverage(0.5)
    assert tf.moving_average_variables() == []
    averages.apply([v, v * 2.0])
    averages.apply([v, w])
    assert tf.moving_average_variables() == [v, w]
    assert tf.moving_average_variables("w") == [w]
    assert tf.get_collection(tf.GraphKeys.MOVING_AVERAGE_VARIABLES) == [v, w]


def test_moving_average_variables_eagerly():
    tf.train.ExponentialMovingAverage(0.5).apply([tf.Variable(1.0)])
    assert tf.moving_average_variables() == []


def test_variables_to_restore(session):
    v, still = tf.Variable(1.0, name="v"), tf.Variable(2.0, name="still", trainable=False)
    other = tf.Variable(3.0, name="other")
    averages = tf.train.ExponentialMovingAverage(0.5, name="mean")
    assert averages.variables_to_restore([v]) == {"v/mean": v, "still": still, "other": other}
    assert averages.variables_to_restore() == {"v/mean": v, "other/mean": other, "still": still}
    total = v + other
    averages.apply([v, total])
    restored = averages.variables_to_restore()
    assert restored == {"v/mean": v, "other/mean": other, "still": still, "add/mean": averages.average(total)}
    assert averages.average(v)._name == averages.average_name(v) == "v/mean"


def test_averages_are_loaded_in_place_of_variables(session, tmp_path):
    w = tf.Variable(1.0, name="w")
    averages = tf.train.ExponentialMovingAverage(0.5)
    step = averages.apply([w])
    session.run(tf.global_variables_initializer())
    session.run(w.assign(3.0))
    session.run(step)
    path = tf.train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default(), tf.Session() as other:
        w = tf.Variable(0.0, name="w")
        tf.train.Saver(tf.train.ExponentialMovingAverage(0.5).variables_to_restore()).restore(other, path)
        assert other.run(w) == 2.0


def test_names_of_averages_in_a_scope(session):
    with tf.variable_scope("one"):
        v = tf.Variable(1.0, name="v")
        total = v + 1.0
    averages = tf.train.ExponentialMovingAverage(0.5, zero_debias=True, name="mean")
    with tf.variable_scope("two"):
        assert averages.average_name(v) == "two/one/v/mean"
        averages.apply([v, total])
    assert averages.average_name(v) == averages.average(v)._name == "two/one/v/mean"
    names = [each._name for each in tf.global_variables()]
    assert names == ["one/v", "two/one/v/mean", "two/one/add/mean", "two/two/one/add/mean/biased",
                     "two/two/one/add/mean/local_step"]  # fmt: skip


def test_an_average_is_a_variable_that_follows():
    w = tf.Variable([1.0, 2.0], name="w")
    averages = tf.train.ExponentialMovingAverage(0.5, name="mean")
    assert averages.average(w) is None
    averages.apply([w])
    average = averages.average(w)
    assert (average.name, average.get_shape().as_list(), average.trainable) == ("w/mean:0", [2], False)
    w.assign([3.0, 4.0])
    averages.apply([w])
    assert averages.average(w) is average
    np.testing.assert_array_equal(average, [2.0, 3.0])
    with pytest.raises(errors.UpdateError, match="w/mean is derived from the variable that it averages"):
        average.assign([0.0, 0.0])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_averages_go_on_by_themselves(copied):
    w = tf.Variable(1.0, name="copied")
    averages = tf.train.ExponentialMovingAverage(0.5)
    averages.apply([w])
    assert float(averages.average(w)) == 1.0
    others = copied(averages)
    w.assign(3.0)
    others.apply([w])
    assert (float(averages.average(w)), float(others.average(w))) == (1.0, 2.0)


# Segments, rows, values without their derivative


def test_segments_that_share_and_that_are_empty():
    rows, ids, weights = [[1.0, 1.0], [1.0, 4.0], [5.0, 0.0], [5.0, 0.0]], [0, 0, 2, 2], [[1.0, 2], [3, 4], [5, 6]]
    for f, shared in (
        (tf.segment_min, [[0.5, 2.0], [0.5, 0.0], [2.5, 3.0], [2.5, 3.0]]),
        (tf.segment_max, [[0.5, 0.0], [0.5, 2.0], [2.5, 3.0], [2.5, 3.0]]),
        (tf.segment_prod, [[1.0, 8.0], [1.0, 2.0], [25.0, 0.0], [25.0, 0.0]]),
    ):
        found = gradient(lambda x, f=f: tf.reduce_sum(f(x, ids) * tf.constant(weights)), rows)
        np.testing.assert_array_equal(found, shared)
        nothing = f(tf.zeros([0, 2]), tf.zeros([0], tf.int32))
        assert nothing.shape == (0, 2)
    assert tf.segment_prod([1, 2, 3], [0, 0, 2]).tolist() == [2, 1, 3]
    assert tf.segment_mean([-3, 0, 3], [0, 0, 2]).tolist() == [-1, 0, 3]
    assert tf.segment_max([1, 2, 3], [0, 0, 2]).dtype == tf.int32


def test_segments_that_cannot_be():
    rows = [[1.0], [2.0], [3.0]]
    for f in (tf.segment_min, tf.segment_max, tf.segment_prod):
        with pytest.raises(errors.InvalidArgumentError, match="increasing order"):
            f(rows, [0, 2, 1])
        with pytest.raises(errors.InvalidArgumentError, match="segment_ids holds -1"):
            f(rows, [-1, 0, 1])
        with pytest.raises(errors.ShapeError, match="segment_ids of shape"):
            f(rows, [0, 1])


def test_depthwise_convolution_by_hand_and_its_options():
    x, k = tf.reshape(tf.range(1.0, 121.0), [2, 4, 5, 3]), tf.reshape(tf.range(1.0, 37.0), [2, 3, 3, 2])
    y = tf.nn.depthwise_conv2d(x, k, strides=[1, 1, 1, 1], padding="SAME")
    assert y.shape == (2, 4, 5, 6)
    assert y.numpy().reshape(-1)[[0, 1, 5, -1]].tolist() == [1048.0, 1088.0, 1440.0, 2142.0]
    assert y.numpy().sum(dtype=np.float64) == 1241308
    turned = tf.nn.depthwise_conv2d(tf.transpose(x, [0, 3, 1, 2]), k, 1, "SAME", data_format="NCHW")
    np.testing.assert_array_equal(tf.transpose(turned, [0, 2, 3, 1]), y)
    with pytest.raises(errors.ParameterError, match="fgrad supports only 1"):
        tf.nn.depthwise_conv2d(x, k, 1, "SAME", dilations=[1, 2])
    with pytest.raises(errors.ShapeError, match="3 channels, but the filters have 2"):
        tf.nn.depthwise_conv2d(x, k[:, :, :2], 1, "SAME")


def test_vectorized_map():
    rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    assert tf.vectorized_map(lambda row: row * 2 + tf.reduce_sum(row), rows).tolist() == [[5.0, 7.0], [13.0, 15.0]]
    pair = (tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]))
    found = tf.vectorized_map(lambda ab: {"s": ab[0] + ab[1], "d": ab[0] - ab[1]}, pair)
    assert {name: x.tolist() for name, x in found.items()} == {"s": [4.0, 6.0], "d": [-2.0, -2.0]}
    constant = tf.vectorized_map(lambda x: 1.0, pair[0])
    assert (constant.tolist(), constant.dtype) == ([1.0, 1.0], tf.float32)
    assert tf.vectorized_map(lambda ab: ab[0] + ab[1], (tf.constant([1.0]), pair[1])).tolist() == [4.0, 5.0]
    assert tf.vectorized_map(lambda ab: ab[0] + ab[1], (tf.constant([1.0]), tf.constant([2.0]))).tolist() == [3.0]
    assert tf.vectorized_map(lambda x: x + 1, tf.zeros([0, 2])).shape == (0, 2)
    assert gradient(lambda x: tf.vectorized_map(lambda row: row * row, x), [3.0, 4.0]).tolist() == [6.0, 8.0]
    with pytest.raises(ValueError, match="sizes"):
        tf.vectorized_map(lambda ab: ab[0] + ab[1], (tf.constant([1.0, 2.0, 3.0]), pair[1]))
    for wrong in (tf.constant(1.0), ()):
        with pytest.raises(errors.ShapeError, match="an axis for rows"):
            tf.vectorized_map(lambda x: x, wrong)


def test_vectorized_map_in_a_graph(session):
    x = tf.placeholder(tf.float32, [None, 2])
    found = tf.vectorized_map(lambda row: {"square": row * row, "sum": tf.reduce_sum(row)}, x)
    assert (found["square"].shape.as_list(), found["sum"].shape.as_list()) == ([None, 2], [None])
    (slope,) = tf.gradients(found["square"], x)
    values = session.run([found, slope], {x: [[1.0, 2.0], [3.0, 4.0]]})
    assert values[0]["square"].tolist() == [[1.0, 4.0], [9.0, 16.0]]
    assert values[0]["sum"].tolist() == [3.0, 7.0]
    assert values[1].tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_gradients_pass_through():
    rounded = tf.grad_pass_through(tf.round)
    assert rounded(tf.constant([1.44, 7.29])).tolist() == [1.0, 7.0]
    np.testing.assert_allclose(gradient(lambda x: rounded(x * x), [1.2, 2.7]), [2.4, 5.4], rtol=1e-6)
    several = tf.grad_pass_through(lambda a, b: (a + 1, b * 2))
    assert [x.tolist() for x in gradient(lambda a, b: several(a, b), 1.0, 2.0)] == [1.0, 1.0]


def test_gradients_pass_a_function_of_variables():
    w, x = tf.Variable(3.0), tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.grad_pass_through(lambda x: x * w)(x)
    assert float(y) == 6.0
    by_x, by_w = tape.gradient(y, [x, w])
    assert (float(by_x), by_w) == (1.0, None)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.grad_pass_through(w.assign)(x * x)
    assert (float(y), float(w), float(tape.gradient(y, x))) == (4.0, 4.0, 4.0)
    with pytest.raises(errors.CustomRuleError, match="has 1 results for 2 arguments"):
        tf.grad_pass_through(lambda a, b: a + b)(1.0, 2.0)


def test_gradients_pass_through_in_a_graph(session):
    x = tf.placeholder(tf.float32, [])
    y = tf.grad_pass_through(tf.round)(x * x)
    assert session.run([y, tf.gradients(y, x)[0]], {x: 1.5}) == [2.0, 3.0]
    v, w = tf.Variable(1.0), tf.Variable(3.0)
    assigned, product = tf.grad_pass_through(v.assign)(w * w), tf.grad_pass_through(lambda x: x * v)(w)
    slopes = [*tf.gradients(assigned, w), *tf.gradients(product, w)]
    session.run(tf.global_variables_initializer())
    assert session.run(slopes) == [6.0, 1.0]
    assert session.run(v) == 9.0
    assert tf.gradients(product, v) == [None]


# Sizes that only a run knows


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        ([None], [-1, 2], [None, 2]),
        ([None, 4], [-1, 2], [None, 2]),
        ([None, 3], [2, -1, 3], [2, None, 3]),
        ([None], [100, -1], [100, None]),
        (None, [-1, 5], [None, 5]),
        ([6, 2], [-1, 3], [4, 3]),
        ([None], [4, 5], [4, 5]),
        ([None], [], []),
    ],
)
def test_reshape_of_unknown_sizes(session, given, wanted, expected):
    x = tf.placeholder(tf.float32, given)
    y = tf.reshape(x, wanted)
    assert (y.shape.as_list(), y.dtype) == (expected, tf.float32)
    assert (y * 2).shape.as_list() == expected


def test_reshape_to_sizes_that_only_a_run_knows(session):
    x, n = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])
    y = tf.reshape(x, [-1, n])
    assert y.shape.as_list() == [None, None]
    assert tf.reshape(x, tf.placeholder(tf.int32, [3])).shape.as_list() == [None, None, None]
    assert session.run(y, {x: np.arange(6.0), n: 3}).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    with pytest.raises(ValueError, match="reshape"):
        session.run(y, {x: np.arange(5.0), n: 3})


def test_gather_from_unknown_sizes(session):
    x, places = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.int32, [None])
    assert tf.gather(x, [100, 200]).shape.as_list() == [2, 3]
    assert tf.gather(params=x, indices=[100, 200]).shape.as_list() == [2, 3]
    assert tf.gather(x, [100], axis=1).shape.as_list() == [None, 1]
    assert tf.gather(x, places).shape.as_list() == [None, 3]
    assert tf.gather(tf.constant([[1.0]]), places).shape.as_list() == [None, 1]
    assert tf.gather(x, places[:, None], batch_dims=1).shape.as_list()[1:] == [1]
    assert tf.gather_nd(x, [[50, 2], [60, 1]]).shape.as_list() == [2]
    assert tf.nn.embedding_lookup(tf.constant([[1.0, 2.0]]), places).shape.as_list() == [None, 2]
    y = tf.gather(x, places)
    assert y.dtype is tf.float32
    assert session.run(y, {x: [[1.0, 2, 3], [4, 5, 6]], places: [1]}).tolist() == [[4.0, 5.0, 6.0]]
    with pytest.raises(errors.InvalidArgumentError, match="holds 5"):
        session.run(y, {x: [[1.0, 2, 3]], places: [5]})


# Slices


@pytest.mark.parametrize("name", ["eager", "graph"])
def test_slices_are_clipped_by_their_values(name):
    graph = tf.Graph()
    session = tf.Session(graph=graph) if name == "graph" else None

    def value(x):
        return session.run(x) if session else x.numpy()

    with graph.as_default() if session else contextlib.nullcontext():
        slices = tf.IndexedSlices(tf.constant([[3.0, 4.0], [0.0, 0.3]]), tf.constant([0, 2]), (4, 2))
        for clipped, expected in (
            (tf.clip_by_value(slices, -1.0, 1.0), [[1.0, 1.0], [0.0, 0.3]]),
            (tf.clip_by_norm(slices, 1.0, axes=[1]), [[0.6, 0.8], [0.0, 0.3]]),
            (tf.clip_by_average_norm(slices, 10.0), [[3.0, 4.0], [0.0, 0.3]]),
        ):
            assert isinstance(clipped, tf.IndexedSlices)
            assert (clipped.indices is slices.indices, clipped.dense_shape) == (True, (4, 2))
            np.testing.assert_allclose(value(clipped.values), expected, rtol=1e-6)
        pair = tf.IndexedSlices(tf.constant([3.0]), tf.constant([1]))
        (one, none, other), norm = tf.clip_by_global_norm([pair, None, tf.constant([0.0, 4.0])], 2.5)
        assert none is None
        np.testing.assert_allclose(value(norm), 5.0)
        np.testing.assert_allclose(value(one.values), [1.5])
        np.testing.assert_allclose(value(other), [0.0, 2.0])


def test_slices_become_tensors(session):
    values = tf.placeholder(tf.float32, [None, 1])
    dense = tf.convert_to_tensor(tf.IndexedSlices(values, [2, 0, 2], [4, 1]))
    (slope,) = tf.gradients(dense * [[1.0], [2.0], [3.0], [4.0]], values)
    found = session.run([dense, slope], {values: [[1.0], [2.0], [3.0]]})
    np.testing.assert_array_equal(found[0], [[2.0], [0.0], [4.0], [0.0]])
    np.testing.assert_array_equal(found[1], [[3.0], [1.0], [3.0]])


def test_slices_that_cannot_be_tensors():
    with pytest.raises(errors.ParameterError, match="without dense_shape"):
        tf.convert_to_tensor(tf.IndexedSlices([1.0], [0]))
    with pytest.raises(errors.InvalidArgumentError, match="holds 5"):
        tf.convert_to_tensor(tf.IndexedSlices([1.0], [5], [2]))
    with pytest.raises(errors.ShapeError, match="do not fit the shape"):
        tf.convert_to_tensor(tf.IndexedSlices([[1.0]], [0], [2]))
