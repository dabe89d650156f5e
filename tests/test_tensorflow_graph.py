"""Graph mode: placeholders, sessions, symbolic gradients, and scripts of TensorFlow 1 as they are written."""

import gc
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import fgrad as fg
import fgrad.compat.tensorflow as tf2
import fgrad.compat.tensorflow1 as tf
from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.graph import operation


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetches, feed_dict=None, initialize=True):
    with tf.Session() as session:
        if initialize:
            session.run(tf.global_variables_initializer())
        return session.run(fetches, feed_dict)


def plain(x):
    """Return fetched values as lists of Python numbers."""
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(map(plain, x))
    return x.tolist() if hasattr(x, "tolist") else x


def pair():
    a = tf.constant(1.0)
    b = 2 * a
    return a, b


def chain():
    x = tf.constant(3.0)
    y = x * x
    return x, y, y * y


# What `tf.gradients` returns: (the row, a program, the values of what it returns)


def of_sum(**options):
    a, b = pair()
    return tf.gradients(a + b, [a, b], **options)


def stopped(places):
    a, b = pair()
    return tf.gradients(a + b, [a, b], stop_gradients=[(a, b)[place] for place in places])


def stopped_bare():
    a, b = pair()
    return tf.gradients(a + b, [a, b], stop_gradients=b)


def stopped_in_a_chain():
    x, y, z = chain()
    return tf.gradients(z, [x, y], stop_gradients=[y])


def vector(*weights):
    v = tf.constant([1.0, 2.0, 3.0])
    return tf.gradients(v * v, v, *weights)


def list_of_ys(grad_ys=None):
    x = tf.constant(3.0)
    return tf.gradients([x * x, x], x, grad_ys)


def unconnected(**options):
    return tf.gradients(tf.constant(2.0) * 2.0, [tf.constant([3.0, 4.0])], **options)


def of_int():
    x = tf.constant(3)
    return tf.gradients(x * x, x)


def later():
    x = tf.constant(3.0)
    return tf.gradients(x, [x * x])


def of_rounded(function):
    x = tf.constant(3.3)
    return tf.gradients(function(x), [x])


def through_int():
    x = tf.constant(3.3)
    return tf.gradients(tf.cast(tf.cast(x, tf.int32), tf.float32) * 2.0, [x])


def third_order():
    x = tf.constant(3.0)
    first = tf.gradients(x * x * x, x)
    second = tf.gradients(first, x)
    return [first, second, tf.gradients(second, x)]


def clipped():
    x = tf.constant(3.0)
    return [tf.clip_by_value(gradient, -1.0, 1.0) for gradient in tf.gradients(x * x, [x])]


def of_clipped():
    x = tf.constant(0.4)
    (first,) = tf.gradients(x * x, x)
    return tf.gradients(tf.clip_by_value(first, -1.0, 1.0) * x, x)


def hessian():
    x = tf.constant([1.0, 2.0])
    return tf.hessians(tf.reduce_sum(x * x * x), [x])


def mixed_second():
    x, y = tf.constant(2.0), tf.constant(3.0)
    (first,) = tf.gradients(x * x * y, x)
    return tf.gradients(first, [x, y])


GRADIENTS = [
    ("a + b, b = 2a", of_sum, [3, 1]),
    ("stop both", lambda: stopped([0, 1]), [1, 1]),
    ("stop b", lambda: stopped([1]), [1, 1]),
    ("stop a bare tensor", stopped_bare, [1, 1]),
    ("z = y*y, y = x*x, stop y", stopped_in_a_chain, [None, 18]),
    ("a single x gives a list of one", lambda: tf.gradients(*reversed(pair())), [2]),
    ("vector ys are summed", vector, [[2, 4, 6]]),
    ("list ys are summed", list_of_ys, [7]),
    ("grad_ys", lambda: vector([[1.0, 10.0, 100.0]]), [[2, 40, 600]]),
    ("grad_ys, a bare tensor", lambda: vector(tf.constant([1.0, 10.0, 100.0])), [[2, 40, 600]]),
    ("grad_ys of a list", lambda: list_of_ys([10.0, 1.0]), [61]),
    ("None in grad_ys means ones", lambda: list_of_ys([None, 10.0]), [16]),
    ("unconnected", unconnected, [None]),
    ("unconnected, zero", lambda: unconnected(unconnected_gradients="zero"), [[0, 0]]),
    ("unconnected, ZERO", lambda: unconnected(unconnected_gradients=tf.UnconnectedGradients.ZERO), [[0, 0]]),
    ("int x", of_int, [None]),
    ("x after y", later, [None]),
    ("Python numbers", lambda: tf.gradients(tf.constant(3.0), 3.0), [None]),
    ("empty xs", lambda: tf.gradients(tf.constant(3.0), []), []),
    ("empty ys", lambda: tf.gradients([], [tf.constant(3.0)]), [None]),
    ("empty ys, zero", lambda: tf.gradients([], [tf.constant(3.0)], unconnected_gradients="zero"), [0]),
    ("duplicates in xs", lambda: (lambda x: tf.gradients(x * x, [x, x]))(tf.constant(3.0)), [6, 6]),
    ("y is x", lambda: (lambda x: tf.gradients(x, x))(tf.constant(3.0)), [1]),
    ("round", lambda: of_rounded(tf.round), [None]),
    ("floor", lambda: of_rounded(tf.floor), [None]),
    ("argmax", lambda: of_rounded(lambda x: tf.argmax(tf.stack([x, x]))), [None]),
    ("comparison", lambda: of_rounded(lambda x: tf.cast(x > 0, tf.float32)), [None]),
    ("stop_gradient", lambda: of_rounded(tf.stop_gradient), [None]),
    ("sign", lambda: of_rounded(tf.sign), [0]),
    ("through an integer", through_int, [None]),
    ("identity is another tensor", lambda: of_rounded(tf.identity), [1]),
    ("gradients of gradients", third_order, [[27], [18], [6]]),
    ("clipped in a list comprehension", clipped, [1]),
    ("gradient of a clipped gradient", of_clipped, [pytest.approx(1.6)]),
    ("Hessian", hessian, [[[6, 0], [0, 12]]]),
    ("mixed second derivatives", mixed_second, [6, 4]),
]


@pytest.mark.parametrize(("program", "expected"), [case[1:] for case in GRADIENTS], ids=[case[0] for case in GRADIENTS])
def test_gradients(program, expected):
    gradients = program()
    connected = [each for each in gradients if each is not None]
    values = iter(plain(run(connected)))
    assert [None if each is None else next(values) for each in gradients] == expected


def closed():
    session = tf.Session()
    session.close()
    session.run(tf.constant(1.0))


def feed_wrong_shape():
    x = tf.placeholder(tf.float32, [2])
    run(x, {x: [1.0, 2.0, 3.0]})


def feed_nothing():
    run(tf.placeholder(tf.float32, name="nothing") * 2.0)


def in_a_scope(reuse, shape=(2,)):
    with tf.variable_scope("scope", reuse=reuse):
        return tf.get_variable("w", shape)


def twice(reuse=None, shape=(2,)):
    in_a_scope(None)
    in_a_scope(reuse, shape)


def of_another_graph():
    with tf.Graph().as_default():
        return tf.constant(1.0)


def eager(program):
    with mode.block(None):
        return program()


ERRORS = [
    ("wrong number of grad_ys", ValueError, "Length mismatch. Passed 1 grad_ys for 2 ys", lambda: list_of_ys([1.0])),
    ("grad_ys of another dtype", TypeError, "grad_ys has dtype int32", lambda: vector([tf.constant([1, 2, 3])])),
    ("grad_ys of another shape", ValueError, r"grad_ys has shape \(2,\)", lambda: vector([tf.constant([1.0, 2.0])])),
    ("a bogus choice", ValueError, "Unknown value .* 'bogus'", lambda: unconnected(unconnected_gradients="bogus")),
    ("ys None", TypeError, "ys is None", lambda: tf.gradients(None, [tf.constant(1.0)])),
    ("not fed", ValueError, "must feed a value for placeholder tensor 'nothing:0'", feed_nothing),
    ("fed in a wrong shape", ValueError,
     r"Cannot feed value of shape \(3,\) for Tensor Placeholder:0, which has shape \(2,\)", feed_wrong_shape),
    ("not initialized", RuntimeError, "uninitialized value w", lambda: run(tf.Variable(1.0, name="w"), None, False)),
    ("a closed session", RuntimeError, "Attempted to use a closed Session.", closed),
    ("eval without a session", ValueError, "No default session is registered", lambda: tf.constant(1.0).eval()),
    ("run without a session", ValueError, "No default session is registered", lambda: tf.no_op().run()),
    ("get_variable twice", ValueError, "scope/w already exists", twice),
    ("get_variable of another shape", ValueError,
     r"Trying to share variable scope/w, but specified shape \(3, 2\) and found shape \(2,\)",
     lambda: twice(True, [3, 2])),
    ("get_variable of another size", ValueError, r"specified shape \(3,\) and found", lambda: twice(tf.AUTO_REUSE, 3)),
    ("two graphs", ValueError, "'Const:0' must be from the same graph as the other inputs of 'add'",
     lambda: tf.constant(2.0) + of_another_graph()),
    ("two graphs in an assignment", ValueError, "must be from the same graph",
     lambda: tf.Variable(1.0).assign(of_another_graph())),
    ("two graphs in a group", ValueError, "must be from the same graph",
     lambda: tf.group(tf.no_op(), of_another_graph())),
    ("get_variable missing", ValueError, "scope/w does not exist", lambda: in_a_scope(True)),
    ("bool", TypeError, "use as a Python bool is not allowed", lambda: bool(tf.constant(1.0) > 0)),
    ("iterating", TypeError, "iteration is not allowed", lambda: list(tf.constant([1.0]))),
    ("len", TypeError, r"len\(\) is not allowed", lambda: len(tf.constant([1.0]))),
    ("float", TypeError, r"float\(\) is not allowed", lambda: float(tf.constant(1.0))),
    ("np.sin", NotImplementedError, "Cannot convert the graph tensor .* to a NumPy array",
     lambda: np.sin(tf.constant(1.0))),
    ("fetch None", TypeError, "Fetch argument None", lambda: run([None])),
    ("fetch a number", TypeError, r"3\.0 of type float is not a graph tensor", lambda: run(3.0)),
    ("fetch an unknown name", ValueError, "no tensor or operation 'nobody:0'", lambda: run("nobody:0")),
    ("feed a graph tensor", TypeError, "value of a feed cannot be a graph tensor",
     lambda: run([], {tf.placeholder(tf.float32): tf.constant(1.0)})),
    ("feed what an integer cannot hold", ValueError, "has dtype float64, and values that int32 cannot hold",
     lambda: run([], {tf.placeholder(tf.int32): [1.0, 2.5]})),
    ("feed complex numbers", ValueError, "has dtype complex128, and values that float32 cannot hold",
     lambda: run([], {tf.placeholder(tf.float32): 1j})),
    ("feed a text", ValueError, "is not an array of numbers", lambda: run([], {tf.placeholder(tf.float32): "text"})),
    ("an initial value of another kind", TypeError, "has dtype int32, and its initial value has dtype float32",
     lambda: run(tf.Variable(tf.constant(2.7), dtype=tf.int32))),
    ("as_list of an unknown shape", ValueError, "number of axes is not known",
     lambda: tf.placeholder(tf.float32).get_shape().as_list()),
    ("a placeholder eagerly", RuntimeError, "not compatible with eager execution",
     lambda: eager(lambda: tf2.placeholder("f4"))),
    ("gradients eagerly", RuntimeError,
     "tf.gradients is not supported when eager execution is enabled. Use tf.GradientTape instead.",
     lambda: eager(lambda: tf2.gradients(tf2.constant(1.0), [tf2.constant(1.0)]))),
    ("hessians eagerly", RuntimeError, "fg.hessian",
     lambda: eager(lambda: tf2.hessians(tf2.constant(1.0), [tf2.constant(1.0)]))),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "program"), [case[1:] for case in ERRORS], ids=[case[0] for case in ERRORS])
def test_errors(kind, text, program):
    with pytest.raises(kind, match=text) as caught:
        program()
    assert isinstance(caught.value, errors.FgradError)


def test_a_tensor_of_another_graph_is_refused():
    with tf.Graph().as_default():
        x = tf.constant(1.0)
    with pytest.raises(ValueError, match="not an element of this graph"):
        run(x)


# Sessions


def test_fetches_keep_their_structure():
    x = tf.placeholder(tf.float32)
    fetched = run({"a": [x, x * x], "b": (x + 1.0, "Placeholder:0")}, {x: 3.0})
    assert plain(fetched) == {"a": [3, 9], "b": (4, 3)}
    assert fetched["b"][0].dtype == np.float32
    assert run([tf.no_op(), tf.group(x)], {x: 3.0}) == [None, None]


def test_names():
    with tf.name_scope("outer"):
        a = tf.constant(1.0)
        b = tf.constant(2.0, name="b")
    assert (a.name, b.name, a.op.name) == ("outer/Const:0", "outer/b:0", "outer/Const")
    assert tf.constant(3.0).name == "Const:0"
    assert tf.constant(3.0).name == "Const_1:0"
    w = tf.Variable(4.0, name="w")
    assert w.op.name == "w"
    assert plain(run(["outer/b:0", "Const:0", "w:0", w.op])) == [2, 3, 4, None]
    assert isinstance(a, tf.Tensor)


def test_whole_numbers_may_be_fed_as_floats():
    x = tf.placeholder(tf.int32)
    fetched = run(x, {x: np.array([1.0, 2.0])})
    assert (plain(fetched), fetched.dtype) == ([1, 2], np.int32)


def test_a_node_whose_value_is_another_nodes_has_a_derivative_of_its_own():
    x = tf.constant(3.0)
    y = tf.cond(tf.constant(True), lambda: x, lambda: -x)
    assert plain(run(tf.gradients(x * x + y, x, stop_gradients=[y]))) == [6]
    assert plain(run(tf.gradients(x * x + y, [x, y]))) == [7, 1]


def test_cond():
    x = tf.placeholder(tf.float32, [])
    y = tf.cond(x > 0, lambda: x * x, lambda: tf.log(x) * 0.0 + 5.0)
    with np.errstate(all="ignore"):
        assert plain(run([y, tf.gradients(y, x)], {x: 3.0})) == [9, [6]]
        assert plain(run([y, tf.gradients(y, x)], {x: -1.0}))[1] != [-2]


def counts(*names):
    return [tf.Variable(0.0, name=name, trainable=False) for name in names]


def test_only_the_branch_that_is_taken_has_effects():
    pred, v = tf.placeholder(tf.bool, []), tf.Variable(1.0)
    yes, no, before = counts("yes", "no", "before")
    outside = before.assign_add(1.0)

    def true_fn():
        with tf.control_dependencies([yes.assign_add(1.0)]):
            return tf.identity(outside)

    train = tf.cond(pred, true_fn, lambda: no.assign_add(10.0))
    minimized = tf.cond(pred, lambda: tf.train.GradientDescentOptimizer(0.5).minimize(v * v), tf.no_op)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert plain(session.run([train, minimized], {pred: True})) == [1, True]
        assert plain(session.run([yes, no, before, v])) == [1, 0, 1, 0]
        assert plain(session.run([train, minimized], {pred: False})) == [10, False]
        assert plain(session.run([yes, no, before, v])) == [1, 10, 2, 0]


def test_branches_within_branches():
    x = tf.placeholder(tf.float32, [])
    low, high = counts("low", "high")

    def above():
        return tf.cond(x > 10, lambda: high.assign_add(1.0) * x, lambda: low.assign_add(1.0) + x * x)

    y = tf.cond(x > 0, above, lambda: -x)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [plain(session.run([y, tf.gradients(y, x)[0]], {x: value})) for value in (-2.0, 3.0, 20.0)] == [
            [2, -1], [10, 6], [20, 1]
        ]  # fmt: skip
        assert plain(session.run([low, high])) == [1, 1]


def test_results_of_branches():
    pred, x = tf.placeholder(tf.bool, []), tf.constant([1.0, 2.0])
    inside = []
    both = tf.cond(pred, lambda: {"a": x, "b": [1.0]}, lambda: {"a": inside.append(2 * x) or inside[0], "b": [5.0]})
    assert both["a"].shape == (2,)
    assert both["a"].dtype == np.float32
    assert plain(run(both, {pred: True})) == {"a": [1, 2], "b": [1]}
    assert plain(run([both, inside[0] + 1], {pred: False})) == [{"a": [2, 4], "b": [5]}, [3, 5]]
    with pytest.raises(ValueError, match="has no value: it is in a branch that was not taken"):
        run(inside[0] + 1, {pred: True}, initialize=False)
    with pytest.raises(TypeError, match="must return the same structure"):
        tf.cond(pred, lambda: x, lambda: [x, x])
    with pytest.raises(TypeError, match="false_fn must have a return value"):
        tf.cond(pred, lambda: x, lambda: None)


def test_a_single_result_of_branches_in_a_list():
    pred, x = tf.constant(True), tf.constant(2.0)
    assert plain(run(tf.cond(pred, lambda: [x], lambda: x * x))) == 2
    assert plain(run(tf.cond(pred, fn1=lambda: (x,), fn2=lambda: [x * x]))) == 2
    assert plain(run(tf.cond(pred, lambda: [x], lambda: [x * x], strict=True))) == [2]
    with mode.block(None):
        assert tf2.cond(True, lambda: [2.0], lambda: [3.0]) == [2.0]
        assert tf2.cond(True, lambda: [2.0], lambda: [3.0], strict=False) == 2.0
    with pytest.raises(TypeError, match="takes a condition and two functions"):
        tf.cond(pred, lambda: x)


# Loops


def powers(x, w, iterations, count=None):
    """Return the number of iterations and `(x * w) ** iterations`, in a loop that counts its iterations in a
    variable."""

    def body(i, y):
        with tf.control_dependencies([] if count is None else [count.assign_add(1.0)]):
            return i + 1, y * x * w

    return tf.while_loop(lambda i, y: i < iterations, body, (0, 1.0))


def test_derivatives_pass_through_the_iterations_that_were_taken():
    x, iterations = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])
    w, (count,) = tf.Variable(2.0), counts("count")
    i, y = powers(x, w, iterations, count)
    assert (i.dtype, i.shape, y.dtype, y.shape) == (np.int32, (), np.float32, ())
    first = tf.gradients(y, [x, w])
    second = tf.gradients(first[0], [x, w])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert plain(session.run([i, y, first, second], {x: 3.0, iterations: 4})) == [
            4,
            1296,
            [1728, 2592],
            [1728, 3456],
        ]
        assert plain(session.run([i, y, first, second], {x: 3.0, iterations: 0})) == [0, 1, [0, 0], [0, 0]]
        assert plain(session.run(count)) == 4


def test_a_limit_of_iterations():
    limit = tf.placeholder(tf.int32, [])
    doubled = [tf.while_loop(lambda i: i < 100, lambda i: 2 * i, [1], maximum_iterations=each) for each in (3, limit)]
    assert plain(run(doubled, {limit: 0})) == [8, 1]


def test_what_was_made_before_a_loop_is_computed_once_and_in_a_body_in_every_iteration():
    before, inside, never = counts("before", "inside", "never")
    step = before.assign_add(1.0)

    def body(i, total):
        never.assign_add(1.0)
        return i + 1, total + step + inside.assign_add(1.0) * inside

    total = tf.while_loop(lambda i, _: i < 3, body, (0, 0.0))[1]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert plain(session.run([total, tf.gradients(total, inside)[0]])) == [3 + 1 + 4 + 9, 2 * (1 + 2 + 3)]
        assert plain(session.run([before, inside, never])) == [1, 3, 0]


def test_loops_within_loops_and_branches():
    x, n, pred = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, []), tf.placeholder(tf.bool, [])

    def outer(i, total):
        return i + 1, total + tf.while_loop(lambda j, y: j < i, lambda j, y: [j + 1, y * x], [0, 1.0])[1]

    nested = tf.while_loop(lambda i, total: i < n, outer, [0, 0.0])[1]
    branch = tf.while_loop(
        lambda i, a: i < n, lambda i, a: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: a * x, lambda: a + x)), (0, 1.0)
    )[1]
    (count,) = counts("iterations")
    chosen = tf.cond(pred, lambda: powers(x, 1.0, n, count)[1], lambda: x)
    found = [each for y in (nested, branch, chosen) for each in (y, tf.gradients(y, x)[0])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        # 1 + x + x^2 + x^3, ((x + x) x) + x, x^4 or x
        assert plain(session.run(found, {x: 2.0, n: 4, pred: True})) == [15, 17, 10, 9, 16, 32]
        assert plain(session.run(found, {x: 2.0, n: 4, pred: False})) == [15, 17, 10, 9, 2, 1]
        assert plain(session.run(count)) == 4


def test_derivatives_inside_of_a_body():
    """They are those of one iteration: what it begins with is given. Those of the whole loop see them."""
    x = tf.placeholder(tf.float32, [])
    w = tf.Variable(5.0)

    def descend(i, z):
        return i + 1, z - 0.25 * tf.gradients((z - x) ** 2, z)[0]

    z = tf.while_loop(lambda i, z: i < 3, descend, [0, 0.0])[1]
    assert plain(run([z, tf.gradients(z, x)], {x: 2.0})) == [1.75, [0.875]]

    def by_variable(i, total):
        return i + 1, total + tf.gradients(total * w * w, w)[0]

    total = tf.while_loop(lambda i, t: i < 2, by_variable, [0, x])[1]
    assert plain(run([total, tf.gradients(total, [x, w])], {x: 1.0})) == [121, [121, 44]]  # x (1 + 2w)^2

    def same(i, y, held):
        return i + 1, y + tf.gradients(y * x * held, held)[0], held

    # y and held begin as the same tensor
    y = tf.while_loop(lambda i, y, held: i < 1, same, [0, x, x])[1]
    assert plain(run([y, tf.gradients(y, x)], {x: 3.0})) == [12, [7]]
    optimizer = tf.train.GradientDescentOptimizer(0.25)

    def train(i):
        with tf.control_dependencies([optimizer.minimize((w - 1.0) ** 2)]):
            return i + 1

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert plain(session.run(tf.while_loop(lambda i: i < 3, train, [0]))) == 3
        assert plain(session.run(w)) == 1.5
    with pytest.raises(TypeError, match="outside of the loop in which its derivative is taken"):
        tf.while_loop(lambda i, z: i < 3, lambda i, z: [i + 1, tf.gradients(z * x, x)[0]], [0, 1.0])


def test_values_that_are_fed_before_a_loop():
    x = tf.placeholder(tf.float32, [])
    middle = x * x
    y = powers(middle, 1.0, 2)[1]
    assert plain(run([y, tf.gradients(y, [x, middle])], {x: 3.0, middle: 5.0})) == [25, [60, 10]]


def test_containers_and_shapes_of_loops():
    x = tf.placeholder(tf.float32, [])
    start = {"i": 0, "pair": (tf.constant([1.0]), x)}
    changing = {"i": [], "pair": (tf.TensorShape([None]), [])}

    def body(held):
        rows, factor = held["pair"]
        return {"i": held["i"] + 1, "pair": (tf.concat([rows, rows[-1:] * factor], 0), factor)}

    found = tf.while_loop(lambda held: held["i"] < 3, body, [start], [changing], return_same_structure=True)
    assert found[0]["pair"][0].shape.as_list() == [None]
    rows, gradient = run([found, tf.gradients(found[0]["pair"][0], x)], {x: 2.0})
    assert plain(rows) == [{"i": 3, "pair": ([1, 2, 4, 8], 2)}]
    assert plain(gradient) == [1 + 4 + 12]
    with pytest.raises(ValueError, match="begins with shape .1,., and the body returns shape .2,."):
        tf.while_loop(lambda held: held["i"] < 3, body, [start])
    unknown = tf.placeholder(tf.float32)
    grown = tf.while_loop(lambda v: tf.size(v) < 3, lambda v: v + unknown, [tf.ones([2])])
    with pytest.raises(ValueError, match="pass shape_invariants, with None"):
        run(grown, {unknown: np.ones((2, 2))})
    with pytest.raises(TypeError, match="shape_invariants must have the structure of loop_vars"):
        tf.while_loop(lambda v: True, lambda v: v, [x], [[], []])
    with pytest.raises(ValueError, match="shape_invariants has"):
        tf.while_loop(lambda v: True, lambda v: v, [x], [tf.TensorShape([2])])


def test_derivatives_that_a_loop_holds_back():
    x = tf.placeholder(tf.float32, [])
    y = tf.while_loop(lambda y: y < 10.0, lambda y: y * x, [x], back_prop=False)
    assert tf.gradients(y, x) == [None]
    assert plain(run(tf.gradients(y + x, x), {x: 3.0})) == [1]


@pytest.mark.parametrize(
    ("match", "error", "program"),
    [
        ("begins with dtype int32, and the body returns float32", TypeError,
         lambda: tf.while_loop(lambda i: i < 3, lambda i: tf.cast(i, tf.float32), [0])),
        ("body must return the structure", TypeError, lambda: tf.while_loop(lambda i: i < 3, lambda i: [i, i], [0])),
        ("cond must return one truth value", TypeError, lambda: tf.while_loop(lambda i: i + 1, lambda i: i, [0])),
        ("loop_vars is empty", ValueError, lambda: tf.while_loop(lambda: True, list, [])),
        ("is inside of a loop, and has no value for", TypeError, lambda: leaked() + 1),
        ("is inside of a loop, and has no value for", TypeError, lambda: leaked(lambda x: tf.Variable(x).initializer)),
        ("where it has another value in every iteration", TypeError, lambda: run(leaked())),
        ("where it has another value in every iteration", TypeError, lambda: run([], {leaked(): 1})),
    ],
)  # fmt: skip
def test_mistakes_with_loops(match, error, program):
    with pytest.raises(error, match=match):
        program()


def leaked(made=lambda x: x * 2.0):
    """Return what a body has made, from outside of it."""
    kept = []

    def body(x):
        kept.append(made(x))
        return x + 1.0

    tf.while_loop(lambda x: x < 3.0, body, [0.0])
    return kept[0]


def test_shapes_of_shared_variables():
    held = in_a_scope(None)
    assert all(in_a_scope(True, shape) is held for shape in (2, [2], (2,), None, [None], np.array([2])))


def test_slots_have_names_after_their_variables():
    w = tf.Variable(1.0, name="w")
    optimizer = tf.train.AdamOptimizer(0.1)
    optimizer.minimize(w * w)
    names = ["beta1_power:0", "beta2_power:0", "w/Adam:0", "w/Adam_1:0"]
    assert [each.name for each in optimizer.variables()] == names
    assert optimizer.get_slot(w, "v") is optimizer.get_slot(w, "v")
    assert optimizer.get_slot(w, "nothing") is None


def test_feeding_overrides_any_tensor():
    x = tf.constant(3.0)
    y = x + 2.0
    z = y * y
    assert plain(run([z, y], {y: 5.0})) == [25, 5]
    assert plain(run(x * x, {x: 5.0})) == 25


def test_gradients_pass_through_a_tensor_whose_value_is_fed():
    x = tf.placeholder(tf.float32)
    y = x * x
    z = y * y
    gradient = tf.gradients(z, [x, y])
    # dz/dy at the fed y, dy/dx at the fed x
    assert plain(run([z, gradient], {x: 3.0, y: 5.0})) == [25, [60, 10]]
    with pytest.raises(ValueError, match="must feed a value"):
        run(gradient[0], {y: 5.0})
    assert plain(run(tf.gradients(z, y), {y: 5.0})) == [10]


def test_a_gradient_may_be_fed():
    w = tf.Variable(3.0)
    (gradient,) = tf.gradients(w * w, [w])
    assert plain(run(gradient * 2.0, {gradient: 10.0})) == 20


def test_every_node_is_evaluated_once_in_a_run():
    calls = []

    @operation("Counted")
    def counted(x):
        calls.append(x)
        return x * 2.0

    x = tf.constant(3.0)
    y = counted(x)
    gradients = tf.gradients([y * y, y], [x, y])
    calls.clear()  # dtypes are found by calling the function on stand-ins
    assert plain(run([y, y + y, gradients])) == [6, 12, [26, 13]]
    assert len(calls) == 1


def test_unknown_dimensions():
    x = tf.placeholder(tf.float32, [None, 3])
    w = tf.Variable(np.ones((3, 2), np.float32))
    y = tf.matmul(x, w)
    flat = tf.reshape(x, [-1])
    rows = tf.shape(x)[0]
    loss = tf.reduce_mean(y * y)
    (gradient,) = tf.gradients(loss, [w])
    assert x.shape.as_list() == [None, 3]
    assert y.get_shape().as_list() == [None, 2]
    assert (y.shape[1].value, y.shape.ndims, loss.shape.ndims, gradient.shape.as_list()) == (2, 2, 0, [3, 2])
    assert flat.shape.as_list() == [None]
    assert y.dtype == np.float32
    for n in (1, 4):
        data = np.arange(3.0 * n).reshape(n, 3)
        total, size, found = run([loss, rows, gradient], {x: data})
        expected = 2 * data.T @ (data @ np.ones((3, 2))) / (2 * n)
        assert size == n
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        np.testing.assert_allclose(total, np.mean((data @ np.ones((3, 2))) ** 2), rtol=1e-6)


def test_an_unknown_number_of_axes():
    x = tf.placeholder(tf.float32)
    y = tf.reduce_sum(x * 2.0)
    assert (x.shape.ndims, str(x.shape), repr(x.shape)) == (None, "<unknown>", "TensorShape(None)")
    assert y.dtype == np.float32
    assert plain(run([y, tf.gradients(y, x)], {x: [[1.0, 2.0]]})) == [6, [[[2, 2]]]]


def test_operators_in_both_orders():
    x = tf.placeholder(tf.float32)
    a = np.array([1.0, 2.0])
    expressions = [x + a, a + x, x - 1, 1 - x, x * a, a * x, x / 2, 2 / x, x // 2, x % 2, x**2, 2**x, -x, abs(-x),
                   x > 1, x >= 1, x < 1, 1 < x, x[0], x[:1], x[..., None], x[-1:][0], x @ a]  # fmt: skip
    n = np.array([3.0, 4.0], np.float32)
    expected = [n + a, a + n, n - 1, 1 - n, n * a, a * n, n / 2, 2 / n, n // 2, n % 2, n**2, 2**n, -n, n,
                n > 1, n >= 1, n < 1, n > 1, n[0], n[:1], n[..., None], n[-1], n @ a]  # fmt: skip
    for found, value in zip(run(expressions, {x: n}), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-6)
    # what has no dtype of its own takes the tensor's
    assert {each.dtype for each in run(expressions[:14], {x: n})} == {np.dtype(np.float32)}


def test_a_slice_with_graph_tensors():
    x, n = tf.constant([1.0, 2.0, 3.0]), tf.placeholder(tf.int32)
    assert plain(run([x[n], x[:n], x[n:]], {n: 1})) == [2, [1], [2, 3]]


def test_constants_are_copied():
    a = np.array([1.0, 2.0])
    x = tf.constant(a) + a
    a[:] = 100.0
    assert plain(run(x)) == [2, 4]


def test_eval_and_default_sessions():
    x = tf.placeholder(tf.float32)
    w = tf.Variable(2.0)
    with tf.Session() as session:
        w.initializer.run()
        assert (x * w).eval({x: 3.0}) == 6
        assert w.eval() == 2
        assert tf.get_default_session() is session
        w.load(5.0)
        assert (x * w).eval(feed_dict={x: 3.0}) == 15
    assert tf.get_default_session() is None
    assert not session.has(w)  # with the block the session has ended
    session = tf.Session()
    with session.as_default():
        w.initializer.run()
    assert w.eval(session=session) == 2
    interactive = tf.InteractiveSession()
    w.initializer.run()
    assert w.eval() == 2
    interactive.close()
    assert tf.get_default_session() is None


def test_the_error_of_a_node_says_where_it_was_defined():
    x = tf.placeholder(tf.float32)
    y = x @ tf.constant([[1.0, 2.0]])
    with pytest.raises(ValueError, match="matmul") as caught:
        run(y, {x: np.ones((2, 3))})
    assert any("'matmul:0', defined at test_tensorflow_graph.py" in note for note in caught.value.__notes__)


# Variables


def test_sessions_have_variables_of_their_own():
    w = tf.Variable(1.0, name="w")
    add = tf.assign_add(w, 10.0)
    one, two = tf.Session(), tf.Session()
    for session in (one, two):
        session.run(tf.global_variables_initializer())
    assert one.run(add) == 11
    assert (one.run(w), two.run(w)) == (11, 1)
    one.run(tf.initialize_all_variables())
    assert one.run(w) == 1


def test_assignments_act_when_they_are_fetched():
    w = tf.Variable(1.0)
    tf.assign(w, 100.0)
    double = w.assign(w * 2.0)
    down = tf.assign_sub(w, 0.5)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(w) == 1
        assert session.run(double) == 2
        assert session.run(double.op) is None
        assert session.run(w) == 4
        assert session.run(down) == 3.5
        assert session.run(tf.group(double, down)) is None


def test_derivatives_of_an_assignment_go_to_the_variable():
    """As with a tape: its result is a read of the variable, and no path leads to what was assigned."""
    x, v = tf.constant(3.0), tf.Variable(2.0)
    replaced, increased = tf.assign(v, 2 * x), v.assign_add(1.0)
    assert tf.gradients(replaced, x) == [None]
    assert tf.gradients(increased, replaced) == [None]
    assert plain(run(tf.gradients(replaced * replaced * x, [x, v]))) == [36, 36]
    assert plain(run(tf.gradients(replaced * replaced, v), initialize=False)) == [12]
    assert plain(run(tf.gradients(increased * increased, [v, increased]))) == [6, 6]


def test_reads_without_dependencies_see_the_value_before_the_run():
    w = tf.Variable(1.0)
    up = w.assign_add(1.0)
    later = w * 10.0
    with tf.control_dependencies([up]):
        after = tf.identity(w) * 10.0
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert plain(session.run([up, later])) == [2, 10]
        assert plain(session.run([later, after])) == [20, 30]
        assert session.run(w) == 3


def test_gradients_of_all_reads_add_up():
    w = tf.Variable(2.0)
    first = w * w
    with tf.control_dependencies([w.assign(10.0)]):
        second = w.read_value() * w.read_value()
    assert plain(run([first + second, tf.gradients(first + second, w)])) == [104, [24]]


def test_initial_values():
    a = tf.Variable(2.0, name="a")
    b = tf.Variable(a.initialized_value() * 3.0)
    c = tf.Variable(lambda: tf.constant([1.0, 2.0]))
    d = tf.Variable(1.5, dtype=tf.float64)
    e = tf.Variable([1, 2])
    assert plain(run([a, b, c, d, e])) == [2, 6, [1, 2], 1.5, [1, 2]]
    assert [v.dtype for v in (a, c, d, e)] == [np.float32, np.float32, np.float64, np.int32]
    assert [v.name for v in (a, b)] == ["a:0", "Variable:0"]
    assert isinstance(a, tf.Variable)
    assert a.shape.as_list() == []


def test_collections():
    a = tf.Variable(1.0, name="a")
    b = tf.Variable(1.0, trainable=False, name="b")
    with tf.variable_scope("layer"):
        c = tf.get_variable("c", shape=[2, 3])
        with tf.variable_scope("inner"):
            d = tf.get_variable("d", initializer=tf.constant(4.0))
    assert tf.trainable_variables() == [a, c, d]
    assert tf.global_variables() == [a, b, c, d]
    assert tf.trainable_variables("layer") == [c, d]
    assert tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "layer/inner") == [d]
    assert [c.name, d.name] == ["layer/c:0", "layer/inner/d:0"]
    tf.add_to_collection("losses", a)
    assert tf.get_collection("losses") == [a]
    values = run([c, d])
    assert values[0].shape == (2, 3)
    assert values[1] == 4
    with tf.variable_scope("layer", reuse=True):
        assert tf.get_variable("c") is c
    with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
        assert tf.get_variable("c") is c
        assert tf.get_variable("new", [1]) is tf.get_variable("new")


def test_collections_by_the_names_of_their_items():
    with tf.variable_scope("a"):
        inside = tf.get_variable("v", [1], collections=["mine", tf.GraphKeys.GLOBAL_VARIABLES])
    outside = tf.Variable(1.0, name="b", collections=["mine"])
    assert tf.get_collection("mine") == [inside, outside]
    assert tf.get_collection("mine", scope="a/") == [inside]
    assert tf.get_collection("mine", scope=".*b") == [outside]
    assert tf.trainable_variables("b|c") == [outside]


def test_regularizers():
    def double(w):
        return 2.0 * tf.reduce_sum(w)

    with tf.variable_scope("net", regularizer=double, initializer=tf.ones_initializer()) as net:
        tf.get_variable("w", [2])
        with tf.variable_scope("inner"):
            tf.get_variable("w", [3])
        tf.get_variable("free", [4], regularizer=lambda w: None)
        tf.get_variable("other", [5], regularizer=tf.reduce_sum)
    with tf.variable_scope(net, reuse=tf.AUTO_REUSE):
        tf.get_variable("w", [2])
        tf.get_variable("again", [6])
    terms = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert plain(run(terms)) == [4, 6, 5, 12]
    assert terms[0].name.startswith("net/w/Regularizer/")
    assert plain(run(tf.gradients(terms[0], tf.trainable_variables()[0]))) == [[2, 2]]


def test_what_a_variable_scope_sets():
    with tf.variable_scope("s", dtype=tf.float64, constraint=lambda w: tf.minimum(w, 1.5)) as scope:
        scope.set_initializer(tf.ones_initializer())
        a = tf.get_variable("a", [])
    with tf.variable_scope(scope):
        b = tf.get_variable("b", [])
        with tf.variable_scope("inner", reuse=False):
            c = tf.get_variable("c", [], tf.float32)
    assert [each.dtype for each in (a, b, c)] == [np.float64, np.float64, np.float32]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.train.GradientDescentOptimizer(0.75).minimize(-a - b))
        assert plain(session.run([a, b, c])) == [1.5, 1.5, 1]
    with tf.variable_scope("t", reuse=tf.AUTO_REUSE) as shared:
        d = tf.get_variable("d", [2])
    with tf.variable_scope(shared):
        assert tf.get_variable("d", [2]) is d
    with tf.variable_scope("u", auxiliary_name_scope=False):
        assert (tf.constant(1.0, name="k").name, tf.get_variable("d", [2]).name) == ("k:0", "u/d:0")
    with pytest.raises(ValueError, match="custom_getter is not supported"), tf.variable_scope("v", custom_getter=max):
        pass
    with pytest.raises(TypeError, match="inializer"), tf.variable_scope("v", inializer=1):
        pass


def test_variables_that_start_with_values():
    assert tf.get_variable("a", initializer=np.zeros(3)).dtype == np.float64
    assert tf.get_variable("b", initializer=1).dtype == np.int32
    assert tf.get_variable("c", initializer=2.0).dtype == np.float32
    assert tf.get_variable("d", dtype=tf.float32, initializer=np.zeros(3)).dtype == np.float32
    with pytest.raises(ValueError, match="If initializer is a constant, do not specify shape"):
        tf.get_variable("e", [3], initializer=1.0)


def test_a_variable_starts_with_the_value_of_another_one():
    a = tf.Variable(2.0)
    b = tf.Variable(a * 3.0)
    c = tf.Variable(b + a)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert plain(session.run([a, b, c])) == [2, 6, 8]
        session.run(a.assign(10.0))
        session.run(b.initializer)
        assert plain(session.run(b)) == 30
    with pytest.raises(RuntimeError, match="uninitialized value"):
        run([a.initial_value, a], initialize=False)


def test_random_numbers_are_drawn_in_every_run():
    x = tf.random_normal([3])
    y = x + 0.0
    with tf.Session() as session:
        first, same = session.run([x, y])
        np.testing.assert_array_equal(first, same)
        assert not np.array_equal(first, session.run(x))


def test_seeds():
    tf.set_random_seed(1)
    x = tf.random_uniform([3])
    w = tf.Variable(tf.random_normal([2]))
    first = run([x, w])
    again = run([x, w])
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_feed_dict_by_name_and_default_placeholder():
    x = tf.placeholder(tf.float32, name="x")
    rate = tf.placeholder_with_default(0.5, shape=[])
    assert plain(run(x * rate, {"x:0": 4.0})) == 2
    assert plain(run(x * rate, {x: 4.0, rate: 2.0})) == 8


# Optimizers in graphs


def quadratic():
    w = tf.Variable([1.0, 2.0], name="w", dtype=tf.float64)
    h = tf.constant(np.array([[3.0, 1.0], [1.0, 1.0]]))
    return w, 0.5 * tf.reduce_sum(w * tf.linalg.matvec(h, w))


OPTIMIZERS = {
    "GradientDescent": (lambda: tf.train.GradientDescentOptimizer(0.1), [-0.022, 1.314], {}),
    "Momentum": (lambda: tf.train.MomentumOptimizer(0.1, 0.9), [-1.003, 0.675], {"momentum": [7.33, 5.35]}),
    "Nesterov": (
        lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        [-0.946318, 0.519606], {"momentum": [4.4122, 4.0126]},
    ),
    "Adagrad": (
        lambda: tf.train.AdagradOptimizer(0.1),
        [0.7788571775411199, 1.7781635091208807], {"accumulator": [65.02107108124795, 24.046794581675034]},
    ),
    "AdagradDA": (
        lambda: tf.train.AdagradDAOptimizer(0.1, tf.train.get_or_create_global_step()),
        [-0.08401770517333643, -0.0863892885589732],
        {
            "gradient_accumulator": [4.233857583870598, 2.616558435828949],
            "gradient_squared_accumulator": [25.393985093557987, 9.17362708365757],
        },
    ),
    "Adadelta": (
        lambda: tf.train.AdadeltaOptimizer(1.0, epsilon=1e-6),
        [0.9864577511396592, 1.9864533087198046],
        {
            "accum": [3.539220548200168, 1.2756994732777724],
            "accum_update": [2.908090115634438e-06, 2.9100781956774918e-06],
        },
    ),
    "RMSProp": (
        lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.9, centered=True),
        [-0.2556571136455724, 0.921143769322591],
        {
            "mg": [0.976688552057744, 0.6322508953461823],
            "momentum": [0.5213916736179119, 0.46565106105889265],
            "rms": [4.617795019009459, 2.288586276725152],
        },
    ),
    "Adam": (
        lambda: tf.train.AdamOptimizer(0.1),
        [0.7011555580976525, 1.7009027518698407],
        {"m": [1.2391150318260256, 0.7550542832291784], "v": [0.0637385290446896, 0.023576992037989516]},
    ),
    "Ftrl": (
        lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.1, l2_regularization_strength=0.2),
        [0.7139386774280767, 1.55111452315578], None,
    ),
    "ProximalGradientDescent": (
        lambda: tf.train.ProximalGradientDescentOptimizer(0.1, 0.1, 0.2),
        [-0.019898078416295414, 1.2144989483682744], {},
    ),
    "ProximalAdagrad": (
        lambda: tf.train.ProximalAdagradOptimizer(0.1, 0.1, 0.1, 0.2),
        [0.7668453968620715, 1.7425699508624044], {"accumulator": [64.25473682841056, 23.73700187153248]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("by_hand", [False, True])
def test_three_steps_in_a_graph(name, by_hand):
    make, expected, slots = OPTIMIZERS[name]
    w, loss = quadratic()
    optimizer = make()
    assert optimizer.get_slot(w, "anything") is None
    if by_hand:
        step = optimizer.apply_gradients(optimizer.compute_gradients(loss))
    else:
        step = optimizer.minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            assert session.run(step) is None
        np.testing.assert_allclose(session.run(w), expected, rtol=0, atol=1e-12)
        for slot, value in (slots or {}).items():
            np.testing.assert_allclose(session.run(optimizer.get_slot(w, slot)), value, rtol=0, atol=1e-12)
        assert slots is None or optimizer.get_slot_names() == sorted(slots)
        # initializing again forgets the slots as well
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(step)
        np.testing.assert_allclose(session.run(w), expected, rtol=0, atol=1e-12)


def test_every_optimizer_is_tried():
    classes = {name for name in dir(tf.train) if name.endswith("Optimizer")} - {"Optimizer"}
    assert classes == {f"{name}Optimizer" for name in OPTIMIZERS} - {"NesterovOptimizer"}


def test_pairs_of_graph_tensors():
    a, b = tf.Variable(2.0, name="a"), tf.Variable(3.0, name="b")
    tf.Variable(1.0, trainable=False)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    pairs = optimizer.compute_gradients(a * a)
    assert [variable for _, variable in pairs] == [a, b]
    assert pairs[1][0] is None
    clipped = [(tf.clip_by_value(gradient, -1.0, 1.0), v) for gradient, v in pairs if gradient is not None]
    step = optimizer.apply_gradients(clipped)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert plain(session.run([pairs[0], step])) == [(4, 2), None]
        assert plain(session.run([a, b])) == [pytest.approx(1.9), 3]


def test_rows_of_compute_and_apply():
    a, b = tf.Variable(2.0, name="a"), tf.Variable(3.0, name="b")
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    assert len(optimizer.compute_gradients(a * b, var_list=a)) == 1
    weights = tf.constant([1.0, 10.0, 100.0])
    (weighed,) = optimizer.compute_gradients(a * tf.ones([3]), a, grad_loss=weights)
    assert run(weighed[0]) == 111
    x = tf.constant(3.0)
    ((gradient, source),) = optimizer.compute_gradients(x * x, [x])
    assert source is x
    assert run(gradient) == 6
    step = tf.train.get_or_create_global_step()
    assert tf.train.get_global_step() is step
    update = optimizer.apply_gradients([(1.0, a), (None, b), (2.0, a)], global_step=step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(update)
        session.run(update)
        assert plain(session.run([a, b, step])) == [pytest.approx(1.4), 3, 2]


OPTIMIZER_ERRORS = [
    ("empty var_list", ValueError, "No variables to optimize", lambda o, a: o.minimize(a * a, var_list=[])),
    ("update a tensor", NotImplementedError, "Trying to update a Tensor",
     lambda o, a: o.apply_gradients([(1.0, a * 1.0)])),
    ("an integer loss", TypeError, "Invalid type int32 for .*, expected: .float32",
     lambda o, a: o.minimize(tf.cast(a, tf.int32))),
    ("no gradient", ValueError, r"No gradients provided for any variable, check your graph .* \['a:0'\] and loss",
     lambda o, a: o.minimize(tf.constant(1.0))),
    ("all None", ValueError, r"No gradients provided for any variable: \['a:0'\]",
     lambda o, a: o.apply_gradients([(None, a)])),
    ("empty", ValueError, "No variables provided", lambda o, a: o.apply_gradients([])),
    ("gate_gradients", ValueError, "gate_gradients must be one of", lambda o, a: o.minimize(a * a, gate_gradients=7)),
    ("an empty name", ValueError, "name must not be empty", lambda o, a: tf.train.AdamOptimizer(name="")),
    ("a wrong shape", ValueError, r"the variable has shape \(\)",
     lambda o, a: run(o.apply_gradients([(tf.constant([1.0, 2.0]), a)]))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "text", "program"), [case[1:] for case in OPTIMIZER_ERRORS], ids=[case[0] for case in OPTIMIZER_ERRORS]
)
def test_errors_of_optimizers(kind, text, program):
    a = tf.Variable(2.0, name="a")
    with pytest.raises(kind, match=text):
        program(tf.train.GradientDescentOptimizer(0.1), a)


def test_no_variables():
    with pytest.raises(ValueError, match="No variables to optimize"):
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0))


def test_a_learning_rate_that_is_fed_or_decays():
    w = tf.Variable(0.0)
    rate = tf.placeholder(tf.float32)
    fed = tf.train.GradientDescentOptimizer(rate).apply_gradients([(1.0, w)])
    step = tf.train.create_global_step()
    decaying = tf.train.exponential_decay(1.0, step, 10, 0.5, staircase=True)
    decayed = tf.train.MomentumOptimizer(decaying, 0.0).apply_gradients([(1.0, w)], global_step=step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for value in (0.5, 0.25):
            session.run(fed, {rate: value})
        assert session.run(w) == -0.75
        session.run(w.initializer)
        for _ in range(20):
            session.run(decayed)
        assert plain(session.run([w, step, decaying])) == [-15, 20, 0.25]


STEPS = [0, 5, 6, 10, 15, 16, 20, 25]
DECAYS = {
    "exponential": (lambda s: tf.train.exponential_decay(1.0, s, 10, 0.5),
                    [1, 0.707106781187, 0.659753955386, 0.5, 0.353553390593, 0.329876977693, 0.25, 0.176776695297]),
    "staircase": (lambda s: tf.train.exponential_decay(1.0, s, 10, 0.5, staircase=True),
                  [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]),
    "polynomial": (lambda s: tf.train.polynomial_decay(1.0, s, 10, 0.1, 2.0), [1, 0.325, 0.244, *[0.1] * 5]),
    "cycle": (lambda s: tf.train.polynomial_decay(1.0, s, 10, 0.1, 2.0, cycle=True),
              [1, 0.325, 0.244, 0.1, 0.15625, 0.136, 0.1, 0.125]),
    "inverse_time": (lambda s: tf.train.inverse_time_decay(1.0, s, 10, 0.5),
                     [1, 0.8, 0.769230769231, 0.666666666667, 0.571428571429, 0.555555555556, 0.5, 0.444444444444]),
    "natural_exp": (lambda s: tf.train.natural_exp_decay(1.0, s, 10, 0.5),
                    [1, 0.778800783071, 0.740818220682, 0.606530659713, 0.472366552741, 0.449328964117,
                     0.367879441171, 0.28650479686]),
    "piecewise": (lambda s: tf.train.piecewise_constant(s, [5, 15], [1.0, 0.5, 0.1]),
                  [1, 1, 0.5, 0.5, 0.5, 0.1, 0.1, 0.1]),
    "cosine": (lambda s: tf.train.cosine_decay(1.0, s, 20, 0.1),
               [1, 0.868198, 0.814503, 0.55, 0.231802, 0.185942, 0.1, 0.1]),
    "restarts": (lambda s: tf.train.cosine_decay_restarts(1.0, s, 10, 2.0, 0.5),
                 [1, 0.5, 0.345491, 0.5, 0.426777, 0.396946, 0.25, 0.073223]),
    "linear_cosine": (lambda s: tf.train.linear_cosine_decay(1.0, s, 20),
                      [1.001, 0.641165, 0.556725, 0.251, 0.037612, 0.020098, 0.001, 0.001]),
}  # fmt: skip


@pytest.mark.parametrize("name", DECAYS)
def test_decays(name):
    decay, expected = DECAYS[name]
    step = tf.placeholder(tf.int64)
    rate = decay(step)
    with tf.Session() as session:
        found = [session.run(rate, {step: each}) for each in STEPS]
    # the table has 12 digits, of the last four rows 6
    np.testing.assert_allclose(found, expected, rtol=0, atol=6e-7 if "cosine" in name or name == "restarts" else 1e-12)
    with mode.block(None):
        count = tf2.Variable(0, dtype=tf.int64)
        eager = decay(count)
        values = []
        for each in STEPS:
            count.assign(each)
            values.append(eager())
    np.testing.assert_allclose(values, found, rtol=0, atol=1e-15)


def test_moving_averages():
    w = tf.Variable(1.0)
    slow = tf.train.ExponentialMovingAverage(0.9)
    follow = slow.apply([w])
    quick = tf.train.ExponentialMovingAverage(0.9, num_updates=0)
    follow_quickly = quick.apply([w])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([follow, follow_quickly])
        session.run(w.assign(3.0))
        session.run([follow, follow_quickly])
        assert plain(session.run([slow.average(w), quick.average(w)])) == [pytest.approx(1.2), pytest.approx(2.8)]
    assert slow.average(tf.Variable(1.0)) is None


def test_averages_that_follow_an_update():
    w = tf.Variable(1.0)
    averages = tf.train.ExponentialMovingAverage(tf.constant(0.9))
    with tf.control_dependencies([w.assign_add(1.0)]):
        follow = averages.apply()
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(w) == 1
        session.run(follow)
        assert plain(session.run([w, averages.average(w)])) == [2, pytest.approx(1.1)]


def test_averages_of_tensors_begin_at_zero():
    x, w = tf.placeholder(tf.float32, [2], name="x"), tf.Variable(1.0)
    y, unknown = tf.multiply(x, 2.0, name="y"), tf.placeholder(tf.float32, name="unknown")
    plainly, corrected = (tf.train.ExponentialMovingAverage(0.5, zero_debias=debias) for debias in (False, True))
    follow = [plainly.apply([y, unknown]), corrected.apply([y, w])]
    assert plainly.average(y).name == "y/ExponentialMovingAverage:0"
    averages = [plainly.average(y), corrected.average(y), corrected.average(w), plainly.average(unknown)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer(), {unknown: 3.0})
        session.run(follow, {x: [1.0, 2.0], unknown: 3.0})
        assert plain(session.run(averages)) == [[1, 2], [2, 4], 1, 1.5]
        session.run(follow, {x: [3.0, 0.0], unknown: 3.0})
        assert plain(session.run(averages)) == [[3.5, 1], pytest.approx([14 / 3, 4 / 3]), 1, 2.25]


def test_names_in_scopes_that_are_opened_again():
    def layer():
        with tf.variable_scope(None, default_name="dense"):
            return tf.get_variable("k", [1]).name, tf.constant(1.0).name

    assert layer() == ("dense/k:0", "dense/Const:0")
    assert layer() == ("dense_1/k:0", "dense_1/Const:0")
    with tf.variable_scope("net") as net:
        assert layer() == ("net/dense/k:0", "net/dense/Const:0")
        assert layer() == ("net/dense_1/k:0", "net/dense_1/Const:0")
    with tf.variable_scope("net", reuse=True):
        assert layer() == ("net/dense/k:0", "net_1/dense/Const:0")
        assert layer() == ("net/dense_1/k:0", "net_1/dense_1/Const:0")
    with tf.variable_scope(net, reuse=True):
        assert layer() == ("net/dense/k:0", "net_2/dense/Const:0")
    with tf.variable_scope("a/b"):
        assert (tf.get_variable("k", [1]).name, tf.constant(1.0).name) == ("a/b/k:0", "a/b/Const:0")
    with pytest.raises(ValueError, match="name_or_scope is required"), tf.variable_scope(None):
        pass


def test_parts_of_variables_are_assigned():
    v, x = tf.Variable([1.0, 2.0, 3.0]), tf.placeholder(tf.float32, [2])
    first, rest, added = v[0].assign(9.0), v[1:].assign(x), tf.scatter_nd_add(v, [[0], [0]], [1, 10])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert plain(session.run(first)) == [9, 2, 3]
        assert plain(session.run(rest, {x: [5.0, 6.0]})) == [9, 5, 6]
        assert plain(session.run(added)) == [20, 5, 6]
        assert plain(session.run([v[0], tf.gradients(v[0] * v[2], v)])) == [20, [[6, 0, 20]]]
    with pytest.raises(TypeError, match="has no value before a session runs it"):
        v[tf.constant(0)].assign(1.0)
    w = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.Session() as session:
        session.run(w.initializer)
        assert plain(session.run(w[0].assign_add([10.0, 20.0]))) == [[11, 22], [3, 4]]
        assert plain(session.run(w[:, 1].assign_sub(1.0))) == [[11, 21], [3, 3]]
        with pytest.raises(ValueError, match=r"the part \[0\] of variable .* has shape \(2,\)"):
            session.run(w[0].assign([1.0, 2.0, 3.0]))


def test_elements_of_variables_are_written_at_indices():
    v, indices, updates = tf.Variable([1.0, 2.0, 3.0]), tf.placeholder(tf.int32, [None, 1]), tf.placeholder(tf.float32)
    writes = {
        kind: getattr(v, f"scatter_nd_{kind}")(indices, updates) for kind in ("update", "add", "sub", "max", "min")
    }
    rows = tf.scatter_mul(v, [1, 2], [10.0, 100.0])
    with tf.Session() as session:
        for kind, expected in (
            ("update", [5, 2, 7]), ("add", [6, 2, 10]), ("sub", [-4, 2, -4]), ("max", [5, 2, 7]), ("min", [1, 2, 3])
        ):  # fmt: skip
            session.run(v.initializer)
            assert plain(session.run(writes[kind], {indices: [[2], [0]], updates: [7.0, 5.0]})) == expected
            assert plain(session.run(v)) == expected
        assert plain(session.run(rows)) == [1, 20, 300]
        with pytest.raises(ValueError, match="indices holds 3"):
            session.run(writes["add"], {indices: [[3]], updates: [1.0]})
        assert plain(session.run(v.scatter_add(tf.IndexedSlices([1.0], [0])))) == [2, 20, 300]


def network(x, name=None):
    hidden = tf.layers.dense(x, 4, activation=tf.nn.relu)
    return tf.layers.dense(hidden, 1, kernel_initializer=tf.ones_initializer(), use_bias=False, name=name)


def test_dense_layers():
    x = tf.placeholder(tf.float32, [None, 3])
    y = network(x, "last")
    names = [(each.name, tuple(each.shape)) for each in tf.global_variables()]
    assert names == [("dense/kernel:0", (3, 4)), ("dense/bias:0", (4,)), ("last/kernel:0", (4, 1))]
    again = tf.layers.dense(tf.layers.dense(x, 4, tf.nn.relu, name="dense", reuse=True), 1, tf.tanh, name="other")
    assert tf.layers.dense(tf.zeros([2, 5, 3]), 6).shape.as_list() == [2, 5, 6]
    assert [each.name for each in tf.global_variables()][3:] == [
        "other/kernel:0", "other/bias:0", "dense_1/kernel:0", "dense_1/bias:0"
    ]  # fmt: skip
    data = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])
    kernel = tf.global_variables()[0]
    found, kernel_value, shape = run([y, kernel, again], {x: data})
    np.testing.assert_allclose(found, np.maximum(data @ kernel_value, 0).sum(1, keepdims=True), rtol=1e-5)
    assert shape.shape == (2, 1)
    with pytest.raises(ValueError, match="last dimension of the inputs of `dense` must be defined"):
        tf.layers.dense(tf.placeholder(tf.float32, [2, None]), 3)
    with pytest.raises(ValueError, match="dense/kernel already exists"):
        tf.layers.dense(x, 4, name="dense")


IMAGES = np.cos(np.arange(3 * 5 * 4 * 2) * 0.7).reshape(3, 5, 4, 2)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_layers_for_images(data_format):
    is_last = data_format == "channels_last"
    images = IMAGES if is_last else np.moveaxis(IMAGES, 3, 1)
    x = tf.placeholder(tf.float32, [None, *images.shape[1:]])
    options = {"data_format": data_format}
    bias = tf.constant_initializer(0.5)
    y = tf.layers.conv2d(x, 6, [3, 2], 2, "same", activation=tf.nn.relu, bias_initializer=bias, **options)
    largest, mean = (
        pool(x, [2, 3], 2, "valid", **options) for pool in (tf.layers.max_pooling2d, tf.layers.average_pooling2d)
    )
    flat = tf.layers.flatten(x, **options)
    assert y.shape.as_list() == ([None, 3, 2, 6] if is_last else [None, 6, 3, 2])
    assert flat.shape.as_list() == [None, 40]
    kernel, offset = tf.global_variables()
    assert [(each.name, tuple(each.shape)) for each in (kernel, offset)] == [
        ("conv2d/kernel:0", (3, 2, 2, 6)), ("conv2d/bias:0", (6,))
    ]  # fmt: skip
    expected = tf.nn.relu(tf.nn.conv2d(IMAGES.astype(np.float32), kernel, 2, "SAME") + 0.5)
    found = run(
        [y, expected, largest, mean, flat, tf.gradients(y, kernel), tf.gradients(expected, kernel)], {x: images}
    )
    y, expected, largest, mean = (found[0], found[1], found[2], found[3])
    if not is_last:
        y, largest, mean = (np.moveaxis(each, 1, 3) for each in (y, largest, mean))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    windows = np.stack([IMAGES[:, i : i + 3 : 2, j : j + 1] for i in range(2) for j in range(3)])
    np.testing.assert_allclose(largest, windows.max(0), rtol=1e-6)
    np.testing.assert_allclose(mean, windows.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[4], IMAGES.reshape(3, -1), rtol=1e-6)
    np.testing.assert_allclose(found[5], found[6], rtol=1e-5, atol=1e-5)


def test_the_sizes_of_images_are_known_as_far_as_those_of_images_and_filters_are():
    known, unknown = tf.placeholder(tf.float32, [2, 5, 5, 3]), tf.placeholder(tf.float32, [None, 5, None, 3])
    of_known, of_unknown = tf.placeholder(tf.float32, [2, 2, 3, 2]), tf.placeholder(tf.float32, [None, None, 3, 2])
    for layer, results in ((tf.nn.conv2d, 2), (tf.nn.depthwise_conv2d, 6)):
        assert layer(known, of_known, 1, "VALID").shape.as_list() == [2, 4, 4, results]
        assert layer(unknown, of_known, 1, "VALID").shape.as_list() == [None, 4, None, results]
        assert layer(unknown, of_known, 16, "SAME").shape.as_list() == [None, 1, None, results]
        assert layer(known, of_unknown, 1, "VALID").shape.ndims is None
        assert layer(tf.zeros([1, 99, 99, 3]), of_unknown, 1, "SAME").shape.ndims is None
    for layer in (tf.nn.max_pool, tf.nn.avg_pool):
        assert layer(known, 2, 2, "VALID").shape.as_list() == [2, 2, 2, 3]
        assert layer(unknown, 2, 16, "SAME").shape.as_list() == [None, 1, None, 3]


def test_mistakes_with_layers():
    x = tf.placeholder(tf.float32, [None, 5, 5, None])
    with pytest.raises(ValueError, match="last dimension of the inputs of `conv2d` must be defined"):
        tf.layers.conv2d(x, 2, 3)
    with pytest.raises(ValueError, match="size of axis 3 of the inputs of `batch_normalization` must be defined"):
        tf.layers.batch_normalization(x, 3)
    with pytest.raises(ValueError, match="use 'channels_last' or 'channels_first'"):
        tf.layers.max_pooling2d(x, 2, 2, data_format="NHWC")
    with pytest.raises(ValueError, match="fgrad supports only 1"):
        tf.layers.conv2d(tf.ones([1, 5, 5, 2]), 2, 3, dilation_rate=2)


def normalized(x, axes, mean=None, variance=None):
    mean = x.mean(axes, keepdims=True) if mean is None else mean
    variance = x.var(axes, keepdims=True) if variance is None else variance
    return (x - mean) / np.sqrt(variance + 1e-3)


@pytest.mark.parametrize(
    ("data", "axis", "correction"),
    [
        (IMAGES[0, 0], -1, 1.0),
        (IMAGES, -1, 60 / 59),  # of images, the averages follow the unbiased variance
        (IMAGES, 1, 24 / 23),
        (IMAGES, 2, 1.0),
        (IMAGES[0], 1, 1.0),
    ],
)
def test_batch_normalization(data, axis, correction):
    x, training = tf.placeholder(tf.float32, data.shape), tf.placeholder(tf.bool, [])
    y = tf.layers.batch_normalization(x, axis, momentum=0.9, training=training)
    always = tf.layers.batch_normalization(x, axis, training=True, scale=False, center=False)
    axes = tuple(each for each in range(data.ndim) if each != axis % data.ndim)
    slope = tf.gradients(tf.reduce_sum(y * np.sin(data).astype(np.float32)), x)[0]
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert [each.name.rpartition("/")[2] for each in tf.global_variables()] == [
        "gamma:0", "beta:0", "moving_mean:0", "moving_variance:0", "moving_mean:0", "moving_variance:0"
    ]  # fmt: skip
    assert len(tf.trainable_variables()) == 2
    assert y.shape == data.shape
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        still = session.run([y, slope], {x: data, training: False})
        np.testing.assert_allclose(still[0], data / np.sqrt(1.001), rtol=1e-5)
        np.testing.assert_allclose(still[1], np.sin(data) / np.sqrt(1.001), rtol=1e-5, atol=1e-6)
        session.run(updates[:2], {x: data, training: False})
        assert set(session.run(tf.global_variables()[2]).tolist()) == {0.0}
        moved = session.run([y, slope, always, updates], {x: data, training: True})
        np.testing.assert_allclose(moved[0], normalized(data, axes), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(moved[2], moved[0], rtol=1e-5, atol=1e-6)
        exact = fg.grad(lambda x: np.sum(normalized(x, axes) * np.sin(data)))(data)
        np.testing.assert_allclose(moved[1], exact, rtol=2e-3, atol=2e-4)
        mean, variance = session.run(tf.global_variables()[2:4])
        np.testing.assert_allclose(mean, 0.1 * data.mean(axes), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(variance, 0.9 + 0.1 * data.var(axes) * correction, rtol=1e-5)


def test_dropout_where_one_trains():
    x, training = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.bool, [])
    y = tf.layers.dropout(x, 0.25, seed=3, training=training)
    data = np.ones(4000)
    kept, gradient = run([y, tf.gradients(y, x)[0]], {x: data, training: True})
    assert set(kept.tolist()) == {0.0, np.float32(4 / 3)}
    assert 2800 < np.count_nonzero(kept) < 3200
    np.testing.assert_array_equal(gradient, kept)
    assert plain(run([y, tf.layers.dropout(x)], {x: [1.0, 2.0], training: False})) == [[1, 2], [1, 2]]


def trained(session, step, count):
    for _ in range(count):
        session.run(step)
    return plain(session.run(tf.global_variables()))


def test_a_saver_goes_on_where_it_was(tmp_path):
    w, steps = tf.Variable([1.0, 2.0], name="w"), tf.train.get_or_create_global_step()
    step = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(w**4), steps)
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        trained(session, step, 3)
        path = saver.save(session, tmp_path / "model", global_step=steps)
        assert path == str(tmp_path / "model-3")
        expected = trained(session, step, 2)
    with tf.Session() as session:
        saver.restore(session, path)
        assert trained(session, step, 2) == expected
        for number in (4, 5):
            saver.save(session, tmp_path / "model", number)
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["checkpoint", "model-4.safetensors", "model-5.safetensors"]
    assert saver.last_checkpoints == [str(tmp_path / "model-4"), str(tmp_path / "model-5")]


def test_the_last_checkpoint(tmp_path, monkeypatch):
    v = tf.Variable(1.0, name="v")
    assert tf.train.latest_checkpoint(tmp_path) is None
    with tf.Session() as session:
        session.run(v.initializer)
        saver = tf.train.Saver(max_to_keep=2)
        paths = []
        for number in (1, 2, 3):
            session.run(v.assign(number))
            paths.append(saver.save(session, tmp_path / "model", number))
        state = tf.train.get_checkpoint_state(str(tmp_path))
        assert tf.train.latest_checkpoint(str(tmp_path)) == state.model_checkpoint_path == paths[2]
        assert state.all_model_checkpoint_paths == saver.last_checkpoints == paths[1:]
        assert [tf.train.checkpoint_exists(each) for each in paths] == [False, True, True]
        assert (tmp_path / "checkpoint").read_text().splitlines()[0] == f'model_checkpoint_path: "{paths[2]}"'
        session.run(v.assign(0.0))
        saver.restore(session, tf.train.latest_checkpoint(tmp_path))
        assert plain(session.run(v)) == 3

        resumed = tf.train.Saver(max_to_keep=2)
        resumed.recover_last_checkpoints([*paths, tmp_path / "gone"])
        other = resumed.save(session, tmp_path / "model", 4, latest_filename="other")
        assert [tf.train.checkpoint_exists(each) for each in (*paths, other)] == [False, False, True, True]
        assert tf.train.latest_checkpoint(tmp_path, "other") == other
        resumed.save(session, tmp_path / "aside", write_state=False)
        assert tf.train.latest_checkpoint(tmp_path, "other") == other

        monkeypatch.chdir(tmp_path)  # paths that are not absolute are those of the folder, wherever it is moved
        (tmp_path / 'über "uns"').mkdir()
        saver.save(session, 'über "uns"/model')
        (tmp_path / 'über "uns"').rename(tmp_path / "moved")
        assert tf.train.latest_checkpoint("moved") == "moved/model"
        (tmp_path / "moved/model.safetensors").unlink()
        assert tf.train.latest_checkpoint("moved") is None
        with pytest.raises(ValueError, match="latest_checkpoint did not find a checkpoint"):
            saver.restore(session, tf.train.latest_checkpoint("moved"))


def test_a_saver_of_some_variables(tmp_path):
    with pytest.raises(ValueError, match="No variables to save"):
        tf.train.Saver()
    v, w = tf.Variable(1.0, name="v"), tf.Variable([2.0], name="w")
    path = str(tmp_path / "some")
    with tf.Session() as session:
        with pytest.raises(RuntimeError, match="uninitialized value v"):
            tf.train.Saver().save(session, path)
        session.run([v.initializer, w.initializer])
        tf.train.Saver({"old": v}).save(session, path)
        session.run(v.assign(5.0))
        tf.train.Saver({"old": v}).restore(session, path)
        assert plain(session.run(v)) == 1
        with pytest.raises(ValueError, match="Key w not found in checkpoint"):
            tf.train.Saver([w]).restore(session, path)
        with pytest.raises(ValueError, match=r"variable old has shape \(1,\), and \(\) in"):
            tf.train.Saver({"old": w}).restore(session, path)


# Programs


def test_custom_gradients_and_recomputation():
    @tf.custom_gradient
    def doubled(x):
        return x * x, lambda dy: dy * 100.0

    x = tf.constant(3.0)
    assert plain(run([doubled(x), tf.gradients(doubled(x), x)])) == [9, [100]]
    w = tf.Variable(2.0)
    again = tf.recompute_grad(lambda x: tf.sin(x * w))
    direct = tf.sin(x * w)
    np.testing.assert_allclose(run(tf.gradients(again(x), [x, w])), run(tf.gradients(direct, [x, w])))
    with pytest.raises(TypeError, match="has used the graph tensor"):
        run(tf.custom_gradient(lambda x: (x * w, lambda dy: dy))(x))


def test_a_tape_in_a_graph():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert run(tape.gradient(y, {"x": x})["x"]) == 6


def test_a_tape_in_a_graph_follows_what_it_watches_and_what_is_made_in_its_block():
    x, v, w = tf.constant(3.0), tf.Variable(2.0), tf.Variable(4.0)
    u = x * v
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(u)
        y = u * u * w + v
    assert plain(run(tape.gradient(y, [u, v, w]))) == [48.0, 1.0, 36.0]
    assert tape.gradient(y, [x]) == tape.gradient(u, [v]) == tape.gradient(u * w, [w]) == [None]
    assert run(tape.gradient(y, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)) == 0.0
    assert tape.watched_variables() == (v, w)


def test_nested_tapes_in_a_graph_follow_their_own_variables():
    v, w = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape(watch_accessed_variables=False) as outer:
        outer.watch(v)
        with tf.GradientTape() as inner:
            loss = v * w * w
        (slope,) = inner.gradient(loss, [w])
    by_v, by_w = outer.gradient(slope, [v, w])
    assert (run(by_v), by_w) == (6.0, None)
    assert (outer.watched_variables(), inner.watched_variables()) == ((v,), (v, w))


def test_a_tape_in_a_graph_records_nothing_while_it_is_stopped():
    w = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        with tape.stop_recording():
            scale = w * w
        y = scale * w
        tape.reset()
        z = w * 5.0
    assert tape.gradient(y, w) is None
    assert run(tape.gradient(z, w)) == 5.0
    with tf.GradientTape() as tape:
        with tape.stop_recording():
            scale = w * w
        y = scale * w
    assert run(tape.gradient(y, w)) == 9.0


def test_optimizers_apply_the_constraints_of_variables_in_a_graph():
    w = tf.Variable([1.0, -2.0, 30.0], constraint=lambda w: tf.maximum(w, 0.0))
    other = tf.get_variable("other", [2], initializer=tf.ones_initializer(), constraint=lambda w: w / tf.reduce_sum(w))
    loss = tf.reduce_sum(w) + tf.reduce_sum(other * other)
    step = tf.train.GradientDescentOptimizer(5.0).minimize(loss, name="train")
    assert step.name == "train"
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert plain(session.run([w, other])) == [[0.0, 0.0, 25.0], [0.5, 0.5]]
        session.run(step)
        assert plain(session.run(w)) == [0.0, 0.0, 20.0]


def test_a_constraint_may_depend_on_tensors_of_the_graph():
    limit = tf.placeholder(tf.float32, [])
    w = tf.Variable(1.0, constraint=lambda w: tf.minimum(w, limit))
    step = tf.train.AdamOptimizer(10.0).minimize(-w)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step, {limit: 4.0})
        assert session.run(w) == 4.0


@pytest.mark.parametrize(
    "clip", [lambda x: tf.clip_by_value(x, np.zeros((2, 1)), 1.0), lambda x: tf.clip_by_norm(x, [[1.0], [2.0]])]
)
def test_clipping_in_a_graph_does_not_broadcast(clip):
    with pytest.raises(errors.ShapeError, match="is clipped to"):
        run(clip(tf.placeholder_with_default([3.0, 4.0], [None])))


def test_linear_regression_as_in_tensorflow_1():
    rng = np.random.default_rng(0)
    data_x = rng.normal(size=(64, 2)).astype(np.float32)
    data_y = data_x @ np.array([[2.0], [-1.0]], np.float32) + 0.5

    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    w = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
    optimizer = tf.train.GradientDescentOptimizer(learning_rate=0.1)
    grads_and_vars = optimizer.compute_gradients(loss)
    capped = [(tf.clip_by_value(grad, -1.0, 1.0), var) for grad, var in grads_and_vars]
    train = optimizer.apply_gradients(capped)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(100):
            _, value = sess.run([train, loss], feed_dict={x: data_x, y: data_y})
            losses.append(value)
        final_w, final_b = sess.run([w, b])
    assert losses[0] > 4
    assert losses[-1] < 1e-4
    np.testing.assert_allclose(final_w.ravel(), [2, -1], atol=1e-2)
    np.testing.assert_allclose(final_b, [0.5], atol=1e-2)


def test_memory_does_not_grow_over_hundreds_of_runs(graph):
    x = tf.placeholder(tf.float32, [None, 8])
    w = tf.Variable(tf.random_normal([8, 4]))
    loss = tf.reduce_sum(tf.square(tf.matmul(x, w)))
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    data = np.ones((16, 8))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())

        def train(steps):
            for _ in range(steps):
                session.run([step, loss, w], {x: data})

        train(20)
        nodes = len(graph.get_operations())
        gc.collect()
        tracemalloc.start()
        train(10)
        before = tracemalloc.get_traced_memory()[0]
        train(250)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    assert len(graph.get_operations()) == nodes
    assert grown < 5000  # a step's arrays are larger than that


def test_the_namespaces_switch_for_themselves():
    script = """
import fgrad.compat.tensorflow as tf2
import fgrad.compat.tensorflow1 as tf1
modes = lambda: (tf1.executing_eagerly(), tf2.executing_eagerly())
made = lambda tf: (tf.constant(1.0), tf.Variable(1.0), tf.zeros_initializer()([2]), tf.random.Generator(1).normal([2]))
kinds = lambda: ["".join(type(each).__name__[0] for each in made(tf)) for tf in (tf1, tf2)]
print(modes(), kinds())
tf1.enable_eager_execution()
tf2.compat.v1.disable_v2_behavior()
print(modes(), kinds())
"""
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    lines = output.splitlines()
    # Call and GraphVariable, or Tensor and Variable
    assert lines[0] == "(False, True) ['CGCC', 'TVTT']"
    assert lines[1] == "(True, False) ['TVTT', 'CGCC']"


def test_an_error_in_a_run_leaves_nothing_behind():
    x = tf.placeholder(tf.float32, [None])
    w = tf.Variable([1.0, 2.0])
    step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(w * x))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(ValueError, match="broadcast"):
            session.run(step, {x: [1.0, 2.0, 3.0]})
        assert plain(session.run(w)) == [1, 2]
        session.run(step, {x: [1.0, 1.0]})
        np.testing.assert_allclose(session.run(w), [0.9, 1.9], rtol=1e-6)


def test_elements_of_a_graph():
    v = tf.Variable(1.0, name="v")
    x = tf.constant(2.0, name="x")
    graph = tf.get_default_graph()
    assert graph.as_graph_element("x:0") is graph.as_graph_element(x) is x
    assert graph.as_graph_element(v) is v.read_value()
    with pytest.raises(TypeError, match="has no tensor or operation 'y:0'"):
        graph.as_graph_element("y:0")


def test_gradients_of_complex_numbers_need_weights():
    x = tf.constant(3.0)
    z = tf.complex(x, x * x)
    for ys in (z, [x, z]):
        with pytest.raises(TypeError, match=r"of complex tensors .* must set grad_ys \(y.dtype = complex64\)"):
            tf.gradients(ys, x)
    assert plain(run(tf.gradients(z, x, grad_ys=tf.constant(1.0 + 2.0j, tf.complex64)))) == [13.0]
    assert plain(run(tf.gradients([x, z], x, grad_ys=[None, tf.constant(1.0 + 0.0j, tf.complex64)]))) == [2.0]


def test_static_shapes_hold_for_few_rows():
    x, n = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.int32, [])
    made = {
        "a slice": (x[:5], [None, 3]),
        "a slice from a place": (x[2:4], [None, 3]),
        "a slice of known rows": (tf.ones([9])[:5], [5]),
        "steps": (tf.range(0, n, 3), [None]),
        "rows": (tf.gather(x, [0, 1]), [2, 3]),
        "a sum": (tf.reduce_sum(x[:5], 0), [3]),
        "a mean": (tf.reduce_mean(x, 0), [3]),
        "joined": (tf.concat([x, x[:2]], 0), [None, 3]),
    }
    assert {name: value.shape.as_list() for name, (value, _) in made.items()} == {n: s for n, (_, s) in made.items()}
    assert run([x[:5], tf.range(0, n, 3)], {x: np.ones((2, 3)), n: 0})[0].shape == (2, 3)


def test_branches_of_different_kinds_of_dtype_are_refused():
    x = tf.placeholder(tf.float32)
    with pytest.raises(errors.StructureError, match=r"return float32 and int32(.|\n)*tf.cast"):
        tf.cond(tf.constant(True), lambda: x, lambda: tf.constant(1))
    chosen = tf.cond(tf.constant(True), lambda: x, lambda: tf.constant(1.0, tf.float64))
    with tf.Session() as session:
        assert session.run(chosen, {x: 3.0}) == 3.0
