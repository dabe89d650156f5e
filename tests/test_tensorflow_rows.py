"""Functions of rows one after the other, and recurrent networks."""

import numpy as np
import pytest

import fgrad as fg
import fgrad.compat.tensorflow as tf
import fgrad.compat.tensorflow1 as tf1
from fgrad import errors

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.0, -0.5]], np.float32)
"""A batch of two."""
STEPS = np.stack([X, X * 0.5, X - 1.0, X * X], axis=1)


@pytest.fixture(params=["eager", "graph"])
def value(request):
    """Return how to get values, which first gives variables theirs."""
    tf.set_random_seed(3)
    tf.reset_default_graph()  # in which scopes are counted
    if request.param == "eager":
        yield lambda x: fg.tree_map(lambda leaf: leaf.numpy(), x)
        return
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)

        def run(x):
            missing = [v for v in tf.global_variables() if not session.has(v)]
            session.run(tf.variables_initializer(missing) if missing else [])
            return session.run(x)

        yield run


# Rows


def test_map(value):
    x = tf.constant(X)
    np.testing.assert_allclose(value(tf.map_fn(lambda row: tf.reduce_sum(row * row), x)), (X * X).sum(1), rtol=1e-6)
    found = value(tf.map_fn(lambda pair: {"a": pair[0] * pair[1], "b": 2}, (x, tf.constant([1.0, 2.0]))))
    np.testing.assert_allclose(found["a"], X * [[1], [2]])
    assert found["b"].tolist() == [2, 2]


def test_scan(value):
    x = tf.constant([1.0, 2.0, 3.0])
    assert value(tf.scan(lambda a, e: a + e, x)).tolist() == [1.0, 3.0, 6.0]
    assert value(tf.scan(lambda a, e: a + e, x, 10.0)).tolist() == [11.0, 13.0, 16.0]
    assert value(tf.scan(lambda a, e: a + e, x, reverse=True)).tolist() == [6.0, 5.0, 3.0]
    sums, products = value(tf.scan(lambda a, e: (a[0] + e[0], a[1] * e[1]), (x, x), initializer=(10.0, 1.0)))
    assert (sums.tolist(), products.tolist()) == ([11.0, 13.0, 16.0], [1.0, 2.0, 6.0])


def test_fold(value):
    x = tf.constant([1.0, 2.0, 3.0])
    assert value(tf.foldl(lambda a, e: 10.0 * a + e, x)) == 123.0
    assert value(tf.foldr(lambda a, e: 10.0 * a + e, x)) == 321.0
    assert value(tf.foldl(lambda a, e: 10.0 * a + e, x, 4.0)) == 4123.0
    assert value(tf.foldl(lambda a, e: a, tf.zeros([0]), 4.0)) == 4.0


def test_derivatives_pass():
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.scan(lambda a, e: a * e, x)
    np.testing.assert_allclose(tape.gradient(y, x), [1 + 2 + 6, 1 + 3, 2])
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([1.0, 2.0, 3.0])
        y = tf.map_fn(lambda e: e * e, x) + tf.foldl(lambda a, e: a * e, x)
        np.testing.assert_allclose(session.run(tf.gradients(y, x)[0]), [2 + 18, 4 + 9, 6 + 6])


def test_what_is_refused():
    with pytest.raises(errors.ShapeError, match="map_fn needs tensors with a known, equal number of rows"):
        tf.map_fn(lambda e: e, tf.constant(1.0))
    with pytest.raises(errors.ShapeError, match="equal number"):
        tf.map_fn(lambda e: e[0], (tf.constant([1.0]), tf.constant([1.0, 2.0])))
    with pytest.raises(errors.ParameterError, match="no rows"):
        tf.map_fn(lambda e: e, tf.zeros([0, 2]))
    with pytest.raises(errors.ParameterError, match="no rows to begin with"):
        tf.foldl(lambda a, e: a, tf.zeros([0]))
    with pytest.raises(errors.DtypeError, match="the same dtype every time, float32, but returned float64"):
        tf.scan(lambda a, e: tf.cast(a + e, tf.float64), tf.constant([1.0, 2.0]))
    with pytest.raises(errors.StructureError, match="the same structure"):
        tf.scan(lambda a, e: (a, e), tf.constant([1.0, 2.0]))
    with tf.Graph().as_default(), pytest.raises(errors.ShapeError, match=r"use tf\.while_loop"):
        tf.map_fn(lambda e: e, tf.placeholder(tf.float32, [None, 2]))


# Recurrent networks


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, c, h, kernel, bias, forget_bias=1.0):
    i, j, f, o = np.split(np.concatenate([x, h], 1) @ kernel + bias, 4, axis=1)
    c = c * sigmoid(f + forget_bias) + sigmoid(i) * np.tanh(j)
    return c, np.tanh(c) * sigmoid(o)


def gru(x, h, gates, gates_bias, candidate, candidate_bias):
    r, u = np.split(sigmoid(np.concatenate([x, h], 1) @ gates + gates_bias), 2, axis=1)
    return u * h + (1 - u) * np.tanh(np.concatenate([x, r * h], 1) @ candidate + candidate_bias)


@pytest.mark.parametrize("is_tuple", [True, False])
def test_a_cell_with_a_memory(value, is_tuple):
    cell = tf.nn.rnn_cell.BasicLSTMCell(4, forget_bias=0.5, state_is_tuple=is_tuple)
    state = cell.zero_state(2, tf.float32)
    output, state = cell(tf.constant(X), state)
    output, state = cell(tf.constant(2 * X), state)
    kernel, bias = value(cell.variables)
    assert (kernel.shape, bias.tolist()) == ((7, 16), [0.0] * 16)
    c, h = lstm(X, *np.zeros((2, 2, 4)), kernel, bias, 0.5)
    c, h = lstm(2 * X, c, h, kernel, bias, 0.5)
    np.testing.assert_allclose(value(output), h, rtol=1e-5, atol=1e-6)
    found = value(state)
    if is_tuple:
        assert isinstance(state, tf.nn.rnn_cell.LSTMStateTuple)
        np.testing.assert_allclose([found.c, found.h], [c, h], rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_allclose(found, np.concatenate([c, h], 1), rtol=1e-5, atol=1e-6)
    assert [v.name for v in cell.variables] == ["basic_lstm_cell/kernel:0", "basic_lstm_cell/bias:0"]
    assert cell.trainable_variables == cell.weights == cell.variables


def test_gates_and_plain_cells(value):
    for cell in (tf.nn.rnn_cell.GRUCell(4), tf.nn.rnn_cell.BasicRNNCell(4, activation=tf.nn.relu)):
        start = np.full((2, 4), 0.25, np.float32)
        output, state = cell(tf.constant(X), tf.constant(start))
        assert state is output
        variables = value(cell.variables)
        if isinstance(cell, tf.nn.rnn_cell.GRUCell):
            assert variables[1].tolist() == [1.0] * 8
            expected = gru(X, start, *variables)
            names = ["gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"]
            assert [v.name for v in cell.variables] == [f"gru_cell/{name}:0" for name in names]
        else:
            expected = np.maximum(np.concatenate([X, start], 1) @ variables[0] + variables[1], 0)
        np.testing.assert_allclose(value(output), expected, rtol=1e-5, atol=1e-6)


def test_a_sequence(value):
    cell = tf.nn.rnn_cell.BasicLSTMCell(4)
    outputs, state = tf.nn.dynamic_rnn(cell, tf.constant(STEPS), sequence_length=[4, 2], dtype=tf.float32)
    kernel, bias = value(cell.variables)
    assert [v.name for v in cell.variables] == ["rnn/basic_lstm_cell/kernel:0", "rnn/basic_lstm_cell/bias:0"]
    c, h = np.zeros((2, 2, 4))
    expected = []
    for place in range(4):
        new_c, new_h = lstm(STEPS[:, place], c, h, kernel, bias)
        inside = (place < np.array([4, 2]))[:, None]
        c, h = np.where(inside, new_c, c), np.where(inside, new_h, h)
        expected.append(np.where(inside, new_h, 0))
    np.testing.assert_allclose(value(outputs), np.stack(expected, 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose([value(state.c), value(state.h)], [c, h], rtol=1e-5, atol=1e-6)
    steps = [tf.constant(STEPS[:, place]) for place in range(4)]
    listed, last = tf.nn.static_rnn(cell, steps, cell.zero_state(2, tf.float32), sequence_length=[4, 2])
    np.testing.assert_allclose([value(each) for each in listed], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(value(last.h), h, rtol=1e-5, atol=1e-6)
    by_time, _ = tf.nn.dynamic_rnn(
        cell, tf.constant(np.swapaxes(STEPS, 0, 1)), [4, 2], dtype=tf.float32, time_major=True
    )
    np.testing.assert_allclose(value(by_time), expected, rtol=1e-5, atol=1e-6)


def test_cells_on_cells(value):
    cells = [tf.nn.rnn_cell.GRUCell(4), tf.nn.rnn_cell.BasicRNNCell(2)]
    both = tf.nn.rnn_cell.MultiRNNCell(cells)
    outputs, states = tf.nn.dynamic_rnn(both, tf.constant(STEPS), dtype=tf.float32)
    first, _ = tf.nn.dynamic_rnn(cells[0], tf.constant(STEPS), dtype=tf.float32)
    second, state = tf.nn.dynamic_rnn(cells[1], first, dtype=tf.float32)
    np.testing.assert_allclose(value(outputs), value(second), rtol=1e-6)
    np.testing.assert_allclose(value(states[1]), value(state), rtol=1e-6)
    assert both.variables == [*cells[0].variables, *cells[1].variables]
    assert cells[0].variables[0].name == "rnn/multi_rnn_cell/cell_0/gru_cell/gates/kernel:0"


def test_a_cell_of_ones_own(value):
    class Sum(tf.nn.rnn_cell.RNNCell):
        state_size = output_size = 3

        def call(self, inputs, state):
            return inputs + state, inputs + state

    outputs, _ = tf.nn.dynamic_rnn(Sum(), tf.constant(STEPS), dtype=tf.float32)
    np.testing.assert_allclose(value(outputs), np.cumsum(STEPS, 1), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="RNNCell.call"):
        tf.nn.rnn_cell.RNNCell()(tf.constant(X), None)


def test_training_in_the_default_graph():
    tf1.reset_default_graph()
    try:
        x = tf1.placeholder(tf1.float32, [None, 4, 3])
        outputs, _ = tf1.nn.dynamic_rnn(tf1.nn.rnn_cell.BasicLSTMCell(4), x, dtype=tf1.float32)
        loss = tf1.reduce_mean(tf1.square(outputs - 0.5))
        train = tf1.train.AdamOptimizer(0.05).minimize(loss)
        assert len(tf1.trainable_variables()) == 2
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            losses = [session.run([loss, train], {x: STEPS})[0] for _ in range(20)]
        assert losses[-1] < 0.8 * losses[0]
    finally:
        tf1.reset_default_graph()


def test_networks_that_cannot_be_built():
    with pytest.raises(errors.ParameterError, match="at least one cell"):
        tf.nn.rnn_cell.MultiRNNCell([])
    with pytest.raises(errors.ParameterError, match="needs inputs"):
        tf.nn.static_rnn(tf.nn.rnn_cell.GRUCell(2), [], dtype=tf.float32)
    with pytest.raises(errors.ParameterError, match="needs inputs"):
        tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), tf.constant(STEPS))
    with tf.Graph().as_default():
        with pytest.raises(errors.ShapeError, match="not known before a run"):
            tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), tf.placeholder(tf.float32, [2, None, 3]), dtype=tf.float32)
        with pytest.raises(errors.ShapeError, match="last size of the inputs of a cell"):
            tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), tf.placeholder(tf.float32, [2, 3, None]), dtype=tf.float32)


@pytest.mark.parametrize("kind", [tf.nn.rnn_cell.BasicRNNCell, tf.nn.rnn_cell.GRUCell, tf.nn.rnn_cell.BasicLSTMCell])
def test_variables_of_a_cell_have_the_dtype_that_is_given(kind):
    for dtype, x in ((tf.float64, X.astype(np.float64)), (None, X), (None, X.astype(np.float64))):
        cell = kind(2, dtype=dtype)
        cell(tf.constant(x), cell.zero_state(2, x.dtype))
        assert {variable.dtype for variable in cell.variables} == {x.dtype}
    cell = kind(2, dtype=tf.float64)
    cell(tf.constant(X), cell.zero_state(2, tf.float32))
    assert {variable.dtype for variable in cell.variables} == {np.dtype(np.float64)}


def test_variables_of_a_scope_are_not_those_of_scopes_whose_names_begin_like_it():
    with tf1.Graph().as_default():
        with tf1.variable_scope("a") as scope:
            tf1.get_variable("w", [1])
            with tf1.variable_scope("inner"):
                tf1.get_variable("w", [1], trainable=False)
        with tf1.variable_scope("ab"):
            tf1.get_variable("w", [1])
        assert [each.name for each in scope.global_variables()] == ["a/w:0", "a/inner/w:0"]
        assert [each.name for each in scope.trainable_variables()] == ["a/w:0"]
        assert len(tf1.get_variable_scope().global_variables()) == 3
