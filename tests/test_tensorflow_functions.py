"""Gradient functions of `tf.contrib.eager` in graphs and on lists, and `tf.gradients` inside of `tf.function`."""

import numpy as np
import pytest

import fgrad as fg
import fgrad.compat.tensorflow as tf
import fgrad.compat.tensorflow.contrib.eager as tfe
import fgrad.compat.tensorflow1 as tf1
from fgrad import errors


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def weighted(x, y):
    return x * x * y


# Of lists


def test_nested_lists_of_numbers_are_one_tensor():
    shapes = []

    def f(x):
        shapes.append((tuple(x.shape), x.dtype))
        return tf.reduce_sum(x * x)

    (gradient,) = tfe.gradients_function(f)([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(gradient, [[2.0, 4.0], [6.0, 8.0]])
    value, (gradient,) = tfe.value_and_gradients_function(f)([[1.0]])
    assert (float(value), gradient.tolist()) == (1.0, [[2.0]])
    value, pullback = tfe.make_vjp(f)((1.0, 2.0))
    assert pullback()[0].tolist() == [2.0, 4.0]
    assert shapes == [((2, 2), np.float32), ((1, 1), np.float32), ((2,), np.float32)]


def test_lists_that_hold_tensors_and_dicts_stay_what_they_are():
    (gradient,) = tfe.gradients_function(lambda x: x[0] * x[1])([tf.constant(2.0), 3.0])
    assert [float(each) for each in gradient] == [3.0, 2.0]
    (gradient,) = tfe.gradients_function(lambda x: x["a"] * x["b"])({"a": 2.0, "b": 3.0})
    assert {name: float(each) for name, each in gradient.items()} == {"a": 3.0, "b": 2.0}
    seen = []

    def f(x, shape):
        seen.append(shape)
        return x * 2.0

    tfe.gradients_function(f, params=["x"])(1.0, [1, 2])
    assert seen == [[1, 2]]  # nothing is differentiated by it


# In graphs


def test_gradients_function_in_a_graph(session):
    x = tf.placeholder(tf.float32, [])
    gradients = tfe.gradients_function(weighted)(x, 3.0)
    assert session.run(gradients, {x: 2.0}) == [12.0, 4.0]
    assert session.run(tfe.gradients_function(weighted, params=["y", "x"])(x, 3.0), {x: 2.0}) == [4.0, 12.0]
    assert session.run(tfe.gradients_function(weighted)(x, y=tf.constant(3.0), dy=10.0), {x: 2.0}) == [120.0]
    assert session.run(tfe.gradients_function(weighted)(x, x), {x: 3.0}) == [18.0, 9.0]  # two arguments
    assert tfe.gradients_function(lambda x, y: x * 2.0)(x, 1.0)[1] is None
    (gradient,) = tfe.gradients_function(lambda x: tf.reduce_sum(x * x))([[1.0, 2.0]])
    np.testing.assert_array_equal(session.run(gradient), [[2.0, 4.0]])


def test_values_and_pullbacks_in_a_graph(session):
    x = tf.constant(2.0)
    value, gradients = tfe.value_and_gradients_function(weighted)(x, 3.0)
    assert session.run([value, *gradients]) == [12.0, 12.0, 4.0]
    value, pullback = tfe.make_vjp(weighted)(x, 3.0)
    assert session.run([value, pullback(), pullback(dy=10.0)]) == [12.0, [12.0, 4.0], [120.0, 40.0]]
    second = tfe.gradients_function(lambda x: tfe.gradients_function(lambda x: x**3)(x)[0])(x)
    assert session.run(second) == [12.0]


def test_implicit_gradients_in_a_graph(session):
    v, w = tf.Variable(2.0), tf.Variable(3.0)
    pairs = tfe.implicit_gradients(lambda x: w * v * x)(5.0)
    value, again = tfe.implicit_value_and_gradients(lambda x: w * v * x)(tf.constant(5.0))
    session.run(tf.global_variables_initializer())
    assert [variable for _, variable in pairs] == [v, w]
    assert session.run([gradient for gradient, _ in pairs]) == [15.0, 10.0]
    assert session.run([value, *(gradient for gradient, _ in again)]) == [30.0, 15.0, 10.0]
    with pytest.raises(ValueError, match="No trainable variables were accessed"):
        tfe.implicit_gradients(lambda: tf.constant(1.0))()


@pytest.mark.parametrize("transform", [tfe.gradients_function, tfe.implicit_gradients])
def test_functions_without_a_result_in_a_graph(session, transform):
    with pytest.raises(ValueError, match="returns None; did you forget"):
        transform(lambda x: None)(tf.constant(1.0))


# tf.gradients inside of tf.function


def one(f, *values):
    return tf.function(f)(*map(tf.constant, values))


def test_gradients_inside_of_a_function():
    def f(x):
        y = x * x
        return tf.gradients(y * y, [y, x]), tf.gradients(y, x, grad_ys=tf.constant(10.0))

    (by_y, by_x), (weighed,) = one(f, 3.0)
    assert (float(by_y), float(by_x), float(weighed)) == (18.0, 108.0, 60.0)
    f = tf.function(lambda x: tf.gradients(x**3, x)[0])
    assert [float(f(tf.constant(x))) for x in (1.0, 2.0, 3.0)] == [3.0, 12.0, 27.0]


def test_gradients_of_gradients_and_hessians_inside_of_a_function():
    def f(x):
        (first,) = tf.gradients(x**3, x)
        return tf.gradients(first, x)[0], tf.compat.v1.hessians(tf.reduce_sum(x**3), x)[0]

    second, hessian = one(f, [1.0, 2.0])
    assert second.tolist() == [6.0, 12.0]
    assert hessian.tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_gradients_by_variables_and_by_what_is_not_connected():
    w = tf.Variable(4.0)

    def f(x):
        stopped = tf.gradients(x + 2 * x, x, stop_gradients=[x])
        zero = tf.gradients(tf.constant(1.0), x, unconnected_gradients="zero")
        return tf.gradients(x * w, [x, w]), stopped, zero, tf.gradients(tf.constant(1.0), x)

    by_both, (stopped,), (zero,), nothing = one(f, 3.0)
    assert [float(each) for each in by_both] == [4.0, 3.0]
    assert (float(stopped), float(zero), nothing) == (3.0, 0.0, [None])
    w.assign(5.0)
    assert float(tf.function(lambda x: tf.gradients(x * w, x)[0])(tf.constant(1.0))) == 5.0


def test_functions_that_are_not_compiled():
    def f(x):
        y = x * x if x > 0 else -x
        return tf.gradients(y, x)[0]

    f = tf.function(f)
    assert [float(f(tf.constant(x))) for x in (3.0, -3.0, 4.0)] == [6.0, -1.0, 8.0]


def test_a_tape_around_a_function_that_asks_for_gradients():
    for condition in (lambda x: True, lambda x: x > 0):
        f = tf.function(lambda x, c=condition: tf.gradients(x**3, x)[0] if c(x) else x)
        x = tf.constant(2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert float(tape.gradient(y, x)) == 12.0


def test_functions_in_functions():
    inner = tf.function(lambda x: tf.gradients(x**3, x)[0])
    outer = tf.function(lambda x: (inner(x), tf.gradients(inner(x), x)[0]))
    assert [float(each) for each in outer(tf.constant(2.0))] == [12.0, 12.0]


def test_assignments_happen_once():
    count = tf.Variable(0.0)

    def compiled(x):
        count.assign_add(1.0)
        return tf.gradients(x * x, x)[0]

    f = tf.function(compiled)
    assert [float(f(tf.constant(x))) for x in (1.0, 2.0)] == [2.0, 4.0]
    assert float(count) == 2.0

    def in_python(x):
        count.assign_add(1.0)
        return tf.gradients(x * x if x > 0 else x, x)[0]

    with pytest.raises(errors.TapeError, match="requests gradients after assigning variables"):
        one(in_python, 1.0)
    assert float(count) == 3.0


@pytest.mark.parametrize("holds", [lambda x: True, lambda x: x > 0])
def test_gradients_by_tensors_from_outside(holds):
    outside, other, x = tf.constant(5.0), tf.constant(7.0), tf.constant(2.0)
    f = tf.function(lambda x: tf.gradients(x * x * outside * other if holds(x) else x, [x, outside]))
    for value in (3.0, 4.0):
        assert [float(each) for each in f(tf.constant(value))] == [2 * value * 35, value * value * 7]
    for watched, expected in ((x, 28.0), (other, 4.0)):
        with tf.GradientTape() as tape:
            tape.watch(watched)
            y = f(x)[1]
        assert float(tape.gradient(y, watched)) == expected


@pytest.mark.parametrize("holds", [lambda x: True, lambda x: x > 0])
def test_gradients_by_constants_of_a_function(holds):
    outside = tf.constant(3.0)

    def f(x):
        a = tf.constant(1.0)
        b = 2 * a
        plain = tf.gradients(a + b, [a, b]) if holds(x) else [x]
        return *plain, *tf.gradients(a + b, [a, b], stop_gradients=[a, b]), *tf.gradients(a * outside, a)

    for _ in range(2):
        assert [float(each) for each in one(f, 1.0)] == [3.0, 1.0, 1.0, 1.0, 3.0]


def test_gradients_by_what_a_function_does_not_know():
    outside = tf.constant(5.0)

    def makes(x):
        made = tf.ones([])
        return tf.gradients(x * made, [x, made])

    f = tf.function(makes)
    for _ in range(2):
        with pytest.raises(
            errors.SourceError, match="with respect to which there is no gradient: inside of tf.function"
        ):
            f(tf.constant(3.0))
    with pytest.raises(RuntimeError, match="not supported when eager execution is enabled"):
        tf.gradients(outside * 2.0, outside)
    with pytest.raises(RuntimeError, match="not supported when eager execution is enabled"):
        tf.compat.v1.hessians(outside * 2.0, outside)


def test_a_constant_of_a_function_does_not_move():
    x = tf.constant(1.0)
    with fg.ForwardAccumulator(x, tf.constant(11.0)) as accumulator:
        result = tf.function(lambda x: tf.constant(1.0))(x)
    assert float(result) == 1.0
    assert accumulator.jvp(result) is None


def test_functions_of_tensorflow_1_in_the_default_graph():
    tf1.reset_default_graph()
    v = tf1.Variable(2.0)
    squared, without = tf1.function(lambda x: x * x), tf1.function(lambda: v * 3.0)
    x = tf1.constant(3.0)
    y, z = squared(x), without()
    slopes = tf1.gradients(y, x)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        assert session.run([y, z, slopes]) == [9.0, 6.0, [6.0]]
    tf1.reset_default_graph()
