"""Subclasses of `tf.train.Optimizer` with their own steps, eagerly and in graphs."""

import copy

import numpy as np
import pytest

import fgrad.compat.tensorflow as tf
import fgrad.compat.tensorflow1 as tf1
from fgrad import errors


class Heavy(tf1.train.Optimizer):
    """Momentum, written as TensorFlow's documentation of the class says."""

    def __init__(self, rate, momentum, use_locking=False, name="Heavy"):
        super().__init__(use_locking, name)
        self._rate, self._momentum = rate, momentum
        self.calls = []

    def _create_slots(self, var_list):
        self.calls.append("slots")
        for variable in var_list:
            self._zeros_slot(variable, "sum", self._name)

    def _prepare(self):
        self.calls.append("prepare")
        self._rate_tensor = tf.convert_to_tensor(self._call_if_callable(self._rate))

    def _apply_dense(self, grad, var):
        total = self.get_slot(var, "sum")
        rate = tf.cast(self._rate_tensor, var.dtype)
        return var.assign_sub(rate * total.assign(self._momentum * total + grad))

    def _finish(self, update_ops, name_scope):
        self.calls.append(f"finish {len(update_ops)} {name_scope}")
        return tf.group(*update_ops, name=name_scope)


def expected(steps):
    w, total = 3.0, 0.0
    for _ in range(steps):
        total = 0.5 * total + 2 * w
        w -= 0.1 * total
    return w, total


def test_a_graph_of_its_own():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        w, step = tf.Variable(3.0, name="w"), tf.train.get_or_create_global_step()
        optimizer = Heavy(0.1, 0.5)
        train = optimizer.minimize(w * w, global_step=step)
        assert train.name == "Heavy"
        assert train in tf.get_collection(tf.GraphKeys.TRAIN_OP)
        assert optimizer.calls == ["slots", "prepare", "finish 1 Heavy/update"]
        session.run(tf.global_variables_initializer())
        session.run(train)
        session.run(train)
        slot = optimizer.get_slot(w, "sum")
        np.testing.assert_allclose(session.run([w, slot]), expected(2), rtol=1e-6)
        assert session.run(step) == 2
        assert slot.name == "w/Heavy:0"
        assert slot in tf.global_variables()
        assert slot not in tf.trainable_variables()
    assert optimizer.get_slot_names() == ["sum"]
    with graph.as_default():
        assert optimizer.variables() == [slot]
    with tf.Graph().as_default():
        assert optimizer.variables() == []


def test_the_state_is_saved_like_other_variables(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable(3.0, name="w")
        train = Heavy(0.1, 0.5).minimize(w * w)
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
        session.run(train)
        tf.train.Saver().restore(session, path)
        session.run(train)
        np.testing.assert_allclose(session.run(w), expected(2)[0], rtol=1e-6)


def test_eagerly():
    w, step = tf.Variable(3.0, name="w"), tf.Variable(0)
    optimizer = Heavy(lambda: 0.1, 0.5)
    for _ in range(2):
        assert optimizer.minimize(lambda: w * w, step) is None
    slot = optimizer.get_slot(w, "sum")
    np.testing.assert_allclose([w.numpy(), slot.numpy()], expected(2), rtol=1e-6)
    assert step.numpy() == 2
    assert optimizer.variables() == [slot]
    assert optimizer.calls[:3] == ["slots", "prepare", "finish 1 Heavy/update"]
    assert repr(optimizer) == "Heavy(name='Heavy')"


def test_either_method_serves():
    class Plain(tf.train.Optimizer):
        def __init__(self):
            super().__init__(False, "Plain")

        def _resource_apply_dense(self, grad, var):
            return var.assign_sub(0.25 * grad)

    class Both(Plain):
        def _apply_dense(self, grad, var):
            return var.assign_sub(0.5 * grad)

    for cls, in_graph in ((Plain, 1.0), (Both, 0.0)):
        w = tf.Variable(2.0)
        cls().minimize(lambda w=w: w * w)
        assert w.numpy() == 1.0
        with tf.Graph().as_default(), tf.Session() as session:
            w = tf.Variable(2.0)
            train = cls().minimize(w * w)
            session.run(tf.global_variables_initializer())
            session.run(train)
            assert session.run(w) == in_graph


def test_in_the_default_graph_of_tensorflow_1():
    tf1.reset_default_graph()
    try:
        w = tf1.Variable(3.0, name="w")
        optimizer = Heavy(0.1, 0.5)
        train = optimizer.minimize(w * w)
        assert [each.name for each in optimizer.variables()] == ["w/Heavy:0"]
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(train)
            np.testing.assert_allclose(session.run(w), expected(1)[0], rtol=1e-6)
    finally:
        tf1.reset_default_graph()


def test_constraints_and_rows():
    rows = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([1, 1]))
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable([[1.0], [2.0]], constraint=lambda w: tf.maximum(w, 1.9))
        train = Heavy(0.5, 0.0).apply_gradients([(tf.IndexedSlices([[1.0], [2.0]], [1, 1]), w)])
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_allclose(session.run(w), [[1.9], [1.9]], rtol=1e-6)
    w = tf.Variable([[1.0], [2.0]], constraint=lambda w: tf.maximum(w, 0.75))
    Heavy(0.5, 0.0).apply_gradients([(rows, w)])
    np.testing.assert_allclose(w.numpy(), [[1.0], [0.75]])


def test_state_that_is_not_of_one_variable():
    class Counting(tf.train.Optimizer):
        def __init__(self):
            super().__init__(False, "Counting")

        def _create_slots(self, var_list):
            first = min(var_list, key=lambda v: v.name)
            self._create_non_slot_variable(initial_value=1.0, name="power", colocate_with=first)
            self._get_or_make_slot_with_initializer(first, tf.ones_initializer(), [], tf.float32, "scale", self._name)

        def _power(self, var):
            return self._get_non_slot_variable("power", graph=getattr(var, "graph", None))

        def _apply_dense(self, grad, var):
            return var.assign_sub(self._power(var) * self.get_slot(var, "scale") * grad)

        def _finish(self, update_ops, name_scope):
            with tf.control_dependencies(update_ops):
                power = self._non_slot_variables()[0]
                return tf.group(*update_ops, power.assign(power * 0.5), name=name_scope)

    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable(0.0)
        optimizer = Counting()
        train = optimizer.apply_gradients([(tf.constant(1.0), w)])
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        assert session.run(w) == -1.75
        assert [v.name for v in optimizer.variables()] == ["Variable/Counting:0", "power:0"]


def test_what_is_refused():
    w = tf.Variable(1.0)
    with pytest.raises(NotImplementedError, match="must define _apply_dense"):
        tf.train.Optimizer(False, "nothing").minimize(lambda: w * w)
    with tf.Graph().as_default(), pytest.raises(errors.UpdateError, match="must define _apply_dense"):
        tf.train.Optimizer(False, "nothing").minimize(tf.Variable(1.0) * 2.0)
    with pytest.raises(ValueError, match="name must not be empty"):
        tf.train.Optimizer(False, "")
    with pytest.raises(ValueError, match="No gradients provided"):
        Heavy(0.1, 0.5).apply_gradients([(None, w)])
    with pytest.raises(errors.UpdateError, match="Trying to update a Tensor"):
        Heavy(0.1, 0.5).apply_gradients([(1.0, tf.constant(1.0))])
    with pytest.raises(errors.StateError, match="holds its state in variables"):
        Heavy(0.1, 0.5).state_dict()


def test_fgrads_own_are_optimizers_too():
    adam = tf.train.AdamOptimizer(0.5)
    assert isinstance(adam, tf.train.Optimizer)
    assert repr(adam).startswith("AdamOptimizer(learning_rate=0.5")
    assert copy.deepcopy(adam).learning_rate == 0.5


def test_powers_of_beta():
    w = tf.Variable(1.0)
    adam = tf.train.AdamOptimizer(0.1, beta1=0.5, beta2=0.25)
    assert adam._get_beta_accumulators() == (None, None)
    adam.minimize(lambda: w * w)
    assert [float(each) for each in adam._get_beta_accumulators()] == [0.25, 0.0625]
    assert set(adam._get_beta_accumulators()) <= set(adam.variables())
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable(1.0)
        adam = tf.train.AdamOptimizer(0.1, beta1=0.5, beta2=0.25)
        train = adam.minimize(w * w)
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(adam._get_beta_accumulators()) == (0.25, 0.0625)
