"""A tape's Jacobians of a graph's tensors."""

import numpy as np
import pytest

import fgrad.compat.tensorflow1 as tf
from fgrad import errors


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetches, feed_dict=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed_dict)


A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)


def test_a_jacobian_has_the_axes_of_the_target_and_those_of_the_source():
    x = tf.placeholder(tf.float32, [2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reshape(tf.constant(A) * (x * x), [3, 2])
    jacobian = tape.jacobian(y, x)
    assert jacobian.shape.as_list() == [3, 2, 2]
    assert jacobian.dtype == np.float32
    expected = [[[2 * a * 10.0, 0.0], [0.0, 2 * b * 20.0]] for a, b in A.tolist()]
    np.testing.assert_array_equal(run(jacobian, {x: [10.0, 20.0]}), np.array(expected, np.float32))


def test_a_jacobian_is_nested_as_its_sources_are_and_may_be_by_variables():
    v = tf.Variable([1.0, 2.0])
    c = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(c)
        y = v * v * c
    found = tape.jacobian(y, {"v": v, "c": (c,)})
    assert set(found) == {"v", "c"}
    v_value, c_value = run([found["v"], found["c"][0]])
    np.testing.assert_array_equal(v_value, [[6.0, 0.0], [0.0, 12.0]])
    np.testing.assert_array_equal(c_value, [1.0, 4.0])


def test_sizes_that_only_a_run_knows():
    x = tf.placeholder(tf.float32, [None])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
    jacobian = tape.jacobian(y, x)
    assert jacobian.shape.as_list() == [None, None]
    np.testing.assert_array_equal(run(jacobian, {x: [1.0, 2.0]}), np.diag([3.0, 12.0]))
    np.testing.assert_array_equal(run(jacobian, {x: [3.0]}), [[27.0]])


def test_a_jacobian_of_what_is_not_connected():
    x, other = tf.constant([1.0, 2.0]), tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, other])
        y = x * x
    assert tape.jacobian(y, other) is None
    assert tape.jacobian(y, tf.constant(1.0)) is None
    zeros = tape.jacobian(y, other, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    np.testing.assert_array_equal(run(zeros), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="unconnected_gradients"):
        tape.jacobian(y, x, unconnected_gradients="nonsense")


def test_jacobians_by_what_a_tape_does_not_watch():
    x, rows = tf.constant([1.0, 2.0]), tf.constant([[1.0, 2.0]])
    with tf.GradientTape(persistent=True) as tape:
        y, z = x * x, rows * rows
    assert tape.jacobian(y, x) is None
    np.testing.assert_array_equal(run(tape.batch_jacobian(z, rows)), np.zeros((1, 2, 2)))


def test_what_a_tape_does_not_record_is_constant_for_its_jacobians():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        with tape.stop_recording():
            z = x * x
        y = x * z
    np.testing.assert_array_equal(run(tape.jacobian(y, x)), np.diag([1.0, 4.0]))  # z, and not 3 x^2
    rows = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(rows)
        with tape.stop_recording():
            z = rows * rows
        y = rows * z
    np.testing.assert_array_equal(run(tape.batch_jacobian(y, rows)), [np.diag([1.0, 4.0])])


def test_a_jacobian_of_a_jacobian_and_gradients_of_one():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(x**3)
        gradient = inner.gradient(y, x)
    np.testing.assert_array_equal(run(outer.jacobian(gradient, x)), np.diag([6.0, 12.0]))
    with tf.GradientTape() as inner:
        inner.watch(x)
        y = x**3
    (second,) = tf.gradients(tf.reduce_sum(inner.jacobian(y, x)), x)
    np.testing.assert_array_equal(run(second), [6.0, 12.0])


def test_a_batch_jacobian_takes_rows_apart():
    x = tf.placeholder(tf.float32, [None, 2])
    weights = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.matmul(x * x, weights)
    jacobian = tape.batch_jacobian(y, x)
    assert jacobian.shape.as_list() == [None, 3, 2]
    expected = [[[2 * a * w0, 2 * b * w1] for w0, w1 in [(1, 4), (2, 5), (3, 6)]] for a, b in A.tolist()]
    np.testing.assert_array_equal(run(jacobian, {x: A}), np.array(expected, np.float32))


def test_a_batch_jacobian_refuses_what_is_no_batch():
    x, y = tf.constant(A), tf.constant(A)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        doubled, total = tf.concat([x, x], axis=0), tf.reduce_sum(x * y, axis=1)
    with pytest.raises(ValueError, match="Need first dimension"):
        tape.batch_jacobian(doubled, x)
    with pytest.raises(ValueError, match="must have rank at least 2"):
        tape.batch_jacobian(total, x)
    fed = tf.placeholder(tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(fed)
        total = tf.reduce_sum(fed, axis=1)
    jacobian = tape.batch_jacobian(total, fed)
    with pytest.raises(ValueError, match="must have rank at least 2"):  # a run sees it
        run(jacobian, {fed: A})
    with pytest.raises(errors.SourceError, match="one graph tensor"):
        tape.batch_jacobian([x], x)


@pytest.mark.parametrize("unconnected", ["none", "zero"])
def test_a_batch_jacobian_of_what_is_not_connected_is_zeros_as_in_tensorflow(unconnected):
    x, y = tf.constant(A), tf.constant(A[:, :1])
    with tf.GradientTape() as tape:
        tape.watch(x)
    np.testing.assert_array_equal(
        run(tape.batch_jacobian(y, x, unconnected_gradients=unconnected)), np.zeros((3, 1, 2))
    )
