"""TensorFlow's eager spellings: defaults, variables, tapes, gradient functions, optimizers, missing names."""

import copy
import importlib
import operator
import pickle

import numpy as np
import pytest
from helpers import naming

import fgrad as fg
import fgrad.compat.tensorflow as tf
import fgrad.compat.tensorflow.compat.v1 as v1
import fgrad.compat.tensorflow.contrib.eager as tfe
from fgrad import errors
from fgrad.compat.tensorflow import variables


def plain(x):
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(map(plain, x))
    return x.tolist() if hasattr(x, "tolist") else x


# Dtypes and variables

DTYPES = [
    (3.0, "float32"), (3, "int32"), (True, "bool"), (1j, "complex128"), ([1.0, 2], "float32"), ([1, 2], "int32"),
    (2**40, "int64"), (np.float64(3), "float64"), (np.ones(2), "float64"), (np.arange(2), "int64"),
    (np.ones(2, np.float16), "float16"), (fg.constant(3.0), "float64"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "dtype"), DTYPES)
def test_defaults_of_dtypes(value, dtype):
    for made in (tf.constant(value), tf.convert_to_tensor(value)):
        assert isinstance(made, fg.Tensor)
        assert made.dtype == dtype
    if not isinstance(value, fg.Tensor):
        assert tf.Variable(value).dtype == dtype


def test_a_dtype_can_be_asked_for():
    assert tf.constant(3, tf.float64).dtype == tf.float64
    assert tf.constant(3.0, dtype="float16").dtype == np.float16
    assert {tf.constant(3, dtype).dtype for dtype in ("float", float, "float32", np.float32)} == {tf.float32}
    assert plain(tf.constant(2.0, shape=[2, 1])) == [[2], [2]]
    assert plain(tf.constant([1, 2, 3, 4], shape=[2, 2])) == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="without loss"):
        tf.constant(1.5, dtype=tf.int32)
    with pytest.raises(ValueError, match="requested dtype float64 for a tensor of dtype float32"):
        tf.convert_to_tensor(tf.constant(1.0), tf.float64)
    with pytest.raises(TypeError, match="not a dtype"):
        tf.constant(1.0, dtype="floating")
    with pytest.raises(TypeError, match="not a number"):
        tf.constant("text")


def test_numbers_take_the_dtype_of_tensors():
    x = tf.constant([1.0, 2.0], tf.float64)
    for y in (tf.multiply(x, 2.0), tf.add(2.0, x), tf.maximum(x, [1.0, 2.0]), x * 2.0, tf.stack([x, [3.0, 4.0]])):
        assert y.dtype == tf.float64
    assert tf.multiply(2.0, 3.0).dtype == tf.float32
    assert plain(tf.stack([tf.constant(1.0), 2.0])) == [1, 2]


def test_variables():
    w = tf.Variable(2.0, name="w")
    assert isinstance(w, tf.Variable)
    assert isinstance(w, fg.Variable)
    assert (w.name, w.trainable, plain(w.assign_add(1.0)), plain(w.assign_sub(0.5, use_locking=True))) == (
        "w:0", True, 3, 2.5,
    )  # fmt: skip
    assert plain(tf.assign(w, 4.0)) == 4
    assert plain(tf.assign_add(w, 1.0)) == 5
    assert plain(tf.assign_sub(w, 1.0)) == 4
    assert tf.Variable(lambda: tf.ones([2])).shape == (2,)
    assert tf.Variable(1).trainable  # as in TensorFlow; its gradient is None
    assert not tf.Variable(1.0, trainable=False).trainable
    assert plain(w.initialized_value()) == 4
    assert tf.global_variables_initializer() is None
    first, second = tf.Variable(1.0), tf.Variable(1.0)
    assert first.name != second.name
    for again in (copy.deepcopy(w), pickle.loads(pickle.dumps(w))):
        assert type(again) is tf.Variable
        assert again is not w
        assert (again.name, plain(again), again.dtype) == ("w:0", 4, np.float32)
    with pytest.raises(ValueError, match="no argument 'trainabel'"):
        tf.Variable(1.0, trainabel=False)


def test_get_variable_eagerly():
    with tf.variable_scope("layer"):
        w = tf.get_variable("w", [2, 3])
        b = tf.get_variable("b", [3], initializer=tf.zeros_initializer())
    assert (w.name, w.shape, w.dtype, plain(b)) == ("layer/w:0", (2, 3), np.float32, [0, 0, 0])
    with pytest.raises(ValueError, match="Shape of a new variable"):
        tf.get_variable("v", initializer=tf.zeros_initializer())


# Gradient functions: the rows that are about Python's numbers; all others hold for fgrad's own functions

W1, W2 = tf.Variable(2.0, name="w1"), tf.Variable(3.0, name="w2")


def weighted_sum(x1, x2):
    return W1 * x1 + W2 * x2


def test_weighted_sum_four_ways():
    assert plain(tfe.gradients_function(lambda x, y: 2 * x + 3 * y)(5.0, 7.0)) == [2, 3]
    value, gradients = tfe.value_and_gradients_function(weighted_sum)(5.0, 7.0)
    assert (plain(value), plain(gradients)) == (31, [2, 3])
    assert [(plain(g), v) for g, v in tfe.implicit_gradients(weighted_sum)(5.0, 7.0)] == [(5, W1), (7, W2)]
    value, pairs = tfe.implicit_value_and_gradients(weighted_sum)(5.0, 7.0)
    assert plain(value) == 31
    assert all(v is w for (_, v), w in zip(pairs, (W1, W2), strict=True))


def cubic(x, y):
    return x * x * x * y - x * y * y


FUNCTIONS = [
    ({}, [27, -4]), ({"params": ["y"]}, [-4]), ({"params": [1]}, [-4]), ({"params": ["y", "x"]}, [-4, 27]),
    ({"params": "y"}, [-4]), ({"params": 1}, [-4]), ({"params": [0, 0]}, [27, 27]), ({"params": []}, []),
]  # fmt: skip


@pytest.mark.parametrize(("options", "expected"), FUNCTIONS)
def test_gradients_function(options, expected):
    gradients = tfe.gradients_function(cubic, **options)(2.0, 3.0)
    assert plain(gradients) == expected
    assert all(each.dtype == np.float32 for each in gradients)
    value, gradients = tfe.value_and_gradients_function(cubic, **options)(2.0, 3.0)
    assert (plain(value), plain(gradients)) == (6, expected)
    value, pullback = tfe.make_vjp(cubic, **options)(2.0, 3.0)
    assert plain(pullback(dy=10.0)) == [10 * each for each in expected]
    assert plain(pullback()) == expected


def test_conversion_of_arguments():
    seen = []

    def f(x, y):
        seen[:] = [x, y]
        return x * y

    assert tfe.gradients_function(f)(2.0, np.float64(3.0))[0].dtype == np.float32
    assert [type(each).__name__ for each in seen] == ["Tensor", "Tensor"]
    tfe.gradients_function(f, params=["x"])(2.0, 3.0)
    assert type(seen[1]) is float  # what is not differentiated is passed on as it is
    assert plain(tfe.gradients_function(f)(2.0, dy=5.0, y=3.0)) == [15]
    with pytest.warns(fg.errors.NoGradientWarning, match="type"):
        assert plain(tfe.gradients_function(f)(3.0, 2)) == [2, None]
    assert tfe.gradients_function(f).__name__ == "f"

    @tfe.gradients_function(params=["x"])
    def decorated(x):
        return x * x

    assert plain(decorated(3.0)) == [6]
    pullback = tfe.make_vjp(cubic, persistent=False)(2.0, 3.0)[1]
    pullback()
    with pytest.raises(RuntimeError, match="one set of gradients|once"):
        pullback()


# Tapes: TensorFlow's own answers, where fgrad's differ


def tape_gradient(f, x, **options):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x, **options)


WITHOUT_GRADIENT = {
    "round": tf.round, "floor": tf.floor, "ceil": tf.math.ceil, "rint": tf.math.rint,
    "argmax": lambda x: tf.argmax(tf.stack([x, x])), "comparison": lambda x: tf.cast(x > 0, tf.float32),
    "greater": lambda x: tf.cast(tf.greater(x, 0.0), tf.float32),
    "equal": lambda x: tf.cast(tf.equal(x, 0), tf.float32),
    "cast": lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32), "stop_gradient": tf.stop_gradient,
    "one_hot": lambda x: tf.one_hot(tf.cast(x, tf.int32), 5), "zeros_like": tf.zeros_like,
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_what_has_no_gradient(name):
    x = tf.constant(3.3)
    f = WITHOUT_GRADIENT[name]
    assert tape_gradient(f, x) is None
    zero = tape_gradient(f, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert (plain(zero), zero.dtype) == (0, np.float32)


def test_sign_has_the_gradient_zero():
    assert plain(tape_gradient(tf.sign, tf.constant(3.3))) == 0


def test_options_of_jacobians():
    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    assert tape.jacobian(y, x, experimental_use_pfor=False, parallel_iterations=2).shape == (1, 2, 1, 2)
    assert plain(tape.batch_jacobian(y, x, experimental_use_pfor=False)) == [[[2, 0], [0, 4]]]


def test_identity_is_another_tensor():
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        z = tf.identity(x)
        y = x * x
    assert plain(tape.gradient(z, x)) == 1
    assert tape.gradient(y, z) is None


def test_gradients_over_a_tape():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert plain(tf.gradients(y, [x])) == [6]
    assert plain(tape.gradient(y, x)) == 6


def test_forward_accumulator():
    x = tf.constant([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 10.0])) as accumulator:
        y = x * x
    assert plain(accumulator.jvp(y)) == [2, 40]


def test_custom_gradient_and_recomputation():
    @tf.custom_gradient
    def log1pexp(x):
        e = tf.exp(x)
        return tf.math.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    np.testing.assert_allclose(plain(tape_gradient(log1pexp, tf.constant(1.0))), 1 / (1 + np.exp(-1)), rtol=1e-6)
    assert log1pexp(1.0).dtype == np.float32
    runs = []

    @tf.recompute_grad
    def layer(x):
        runs.append(1)
        return tf.sin(x) * W1

    x = tf.constant(0.5)
    np.testing.assert_allclose(plain(tape_gradient(layer, x)), 2 * np.cos(0.5), rtol=1e-6)
    assert len(runs) == 2


def test_cond_and_constants():
    assert plain(tf.cond(tf.constant(1.0) > 0, lambda: 1.0, lambda: 1 / 0)) == 1
    assert isinstance(tf.constant(1.0), tf.Tensor)
    assert not isinstance(1.0, tf.Tensor)
    assert tf.constant([1.0])[:, tf.newaxis].shape == (1, 1)


def test_functions_are_not_compiled():
    @tf.function
    def square(x):
        return x * x

    assert plain(square(tf.constant(3.0))) == 9
    assert square(3.0).numpy() == 9
    assert plain(tf.function(experimental_compile=True)(lambda x: x + 1.0)(tf.constant(3.0))) == 4


# Optimizers


def not_negative(w):
    return tf.maximum(w, 0.0)


@pytest.mark.parametrize(
    "optimizer",
    [tf.train.GradientDescentOptimizer(5.0), tf.train.AdamOptimizer(5.0), fg.optimizers.Adam(5.0)],
    ids=["tf.train.GradientDescentOptimizer", "tf.train.AdamOptimizer", "fg.optimizers.Adam"],
)
def test_optimizers_apply_the_constraints_of_variables(optimizer):
    w = tf.Variable([1.0, 30.0], constraint=not_negative)
    optimizer.minimize(lambda: tf.reduce_sum(w))
    np.testing.assert_allclose(w, [0.0, 25.0], rtol=1e-6)
    w.assign([-1.0, 1.0])
    assert plain(w) == [-1.0, 1.0]  # only what optimizers assign is constrained


def test_variables_keep_their_constraints():
    w = tf.Variable(1.0, constraint=not_negative)
    for each in (
        w,
        copy.deepcopy(w),
        pickle.loads(pickle.dumps(w)),
        tf.get_variable("w", [2], constraint=not_negative),
    ):
        assert each.constraint is not_negative
    assert tf.Variable(1.0).constraint is None
    with pytest.raises(errors.ParameterError, match="must be a callable, but it is 3"):
        tf.Variable(1.0, constraint=3)


def test_a_compiled_step_applies_constraints():
    w = tf.Variable([1.0, 30.0], constraint=not_negative)
    optimizer = fg.optimizers.GradientDescent(5.0)

    @fg.compile
    def step():
        optimizer.minimize(lambda: tf.reduce_sum(w))

    step()
    step()
    np.testing.assert_allclose(w, [0.0, 20.0])


def test_optimizers_eagerly():
    w = tf.Variable([1.0, 2.0])
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.AdamOptimizer(0.1)
    assert optimizer.get_slot_names() == []
    assert optimizer.minimize(lambda: tf.reduce_sum(w * w), global_step=step) is None
    assert (optimizer.get_slot_names(), optimizer.get_name()) == (["m", "v"], "Adam")
    assert plain(step) == 1
    np.testing.assert_allclose(w.numpy(), [0.9, 1.9], rtol=1e-6)
    assert optimizer.get_slot(w, "m").shape == (2,)
    pairs = optimizer.compute_gradients(lambda: tf.reduce_sum(w * w), [w])
    clipped = [(tf.clip_by_value(gradient, -1.0, 1.0), variable) for gradient, variable in pairs]
    assert optimizer.apply_gradients(clipped) is None
    assert w.dtype == np.float32


def test_errors_of_optimizers_eagerly():
    w = tf.Variable(3.0)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    with pytest.raises(RuntimeError, match="`loss` passed to Optimizer.compute_gradients should be a function"):
        optimizer.compute_gradients(w * w)
    with pytest.raises(ValueError, match="gate_gradients must be one of"):
        optimizer.compute_gradients(lambda: w * w, gate_gradients=7)
    with pytest.raises(ValueError, match="No gradients provided"):
        optimizer.minimize(lambda: tf.constant(1.0), var_list=[w])
    with pytest.raises(ValueError, match="No variables provided"):
        optimizer.apply_gradients([])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["exponential_decay", "inverse_time_decay", "polynomial_decay", "cosine_decay"])
def test_a_decaying_rate_keeps_its_dtype(name, dtype):
    rate, rest = tf.constant(0.1, dtype), (0.5,) if name in ("exponential_decay", "inverse_time_decay") else ()
    assert np.asarray(getattr(tf.train, name)(rate, 3, 10, *rest)()).dtype == dtype
    assert np.asarray(tf.train.piecewise_constant(3, [2], [rate, rate])()).dtype == dtype


def test_decay_eagerly_is_a_function():
    step = tf.Variable(0)
    rate = tf.train.exponential_decay(1.0, step, 10, 0.5)
    w = tf.Variable(0.0)
    optimizer = tf.train.GradientDescentOptimizer(rate)
    optimizer.apply_gradients([(1.0, w)])
    step.assign(10)
    optimizer.apply_gradients([(1.0, w)])
    assert (rate(), plain(w)) == (0.5, -1.5)


# Names


def test_loops():
    x, w = tf.constant(3.0), tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        i, y = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * x * w), (0, 1.0))
        first = tape.gradient(y, x)
    assert (plain(i), plain(y), plain(tape.gradient(y, [x, w])), plain(tape.gradient(first, x))) == (
        4, 1296, [1728, 2592], 1728
    )  # fmt: skip
    assert i.dtype == np.int32
    assert plain(tf.while_loop(lambda i: i < 100, lambda i: 2 * i, [1], maximum_iterations=3)) == [8]
    assert plain(v1.while_loop(lambda i: i < 100, lambda i: 2 * i, [1], return_same_structure=False)) == 128
    with pytest.raises(TypeError, match="body must return the structure of its arguments"):
        tf.while_loop(lambda i: i < 3, lambda i: (i, i), [0])
    with pytest.raises(ValueError, match="loop_vars is empty"):
        tf.while_loop(lambda: True, list, [])


def test_parts_of_variables_are_assigned():
    v = tf.Variable([1.0, 2.0, 3.0])
    assert type(v[0]) is fg.Tensor
    assert v[0].assign(9.0) is v
    assert plain(v[1:].assign_add([10.0, 20.0])) == [9, 12, 23]
    assert plain(v[1:3].assign_sub(2)) == [9, 10, 21]
    held = v[0]
    matrix = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    assert plain(matrix[:, 0].assign(v[1:])) == [[10, 2], [21, 4]]
    assert plain(matrix[..., 1, None].assign(0.0)) == [[10, 0], [21, 0]]
    v[0].assign(-1.0)
    assert plain(held) == 9
    for key, value, error, match in (
        (0, [1.0, 2.0], ValueError, r"the part \[0\] of variable 'Variable.*' has shape \(\)"),
        (slice(1), np.ones((1, 1)), ValueError, "what is assigned to it has shape"),
        (0, 1j, TypeError, "cannot hold complex128"),
        (5, 1.0, IndexError, "out of bounds"),
    ):
        with pytest.raises(error, match=match):
            v[key].assign(value)
    assert plain(v) == [-1, 10, 21]
    with pytest.raises(AttributeError, match="only an fg.Variable can be assigned to"):
        (v[0] + 1).assign(1.0)
    with pytest.raises(AttributeError):
        v[1:][0].assign(1.0)


def test_a_part_that_is_assigned_under_a_tape():
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        first = v[0]
        y = first * v[1] ** 2
        v[0].assign(first * 10.0)
        z = tf.reduce_sum(v[:1] * first)
    assert (plain(tape.gradient(y, v)), plain(tape.gradient(y, first))) == ([4, 4], 4)
    assert plain(tape.gradient(z, v)) == [11, 0]  # both reads, each with its value
    assert plain(v) == [10, 2]


def test_a_part_of_a_variable_keeps_nothing():
    v = tf.Variable([1.0, 2.0])
    before = len(variables._slices)
    for _ in range(10):
        v[0].assign_add(v[1])
    assert len(variables._slices) == before


def test_layers():
    images = np.cos(np.arange(2 * 4 * 4 * 3)).reshape(2, 4, 4, 3).astype(np.float32)
    with tf.GradientTape() as tape:
        y = tf.layers.conv2d(images, 5, 3, padding="same", kernel_initializer=tf.ones_initializer())
        y = tf.layers.batch_normalization(y, training=True)
        y = tf.layers.max_pooling2d(tf.layers.average_pooling2d(y, 2, 1), 2, 1)
        y = tf.layers.flatten(tf.layers.dropout(y, training=False))
        loss = tf.reduce_sum(tf.layers.dense(y, 1) ** 2)
    assert y.shape == (2, 20)
    names = ["kernel", "bias", "gamma", "beta", "kernel", "bias"]
    variables = tape.watched_variables()
    assert [each.name.rpartition("/")[2] for each in variables] == [f"{name}:0" for name in names]
    gradients = tape.gradient(loss, variables)
    assert [each.shape for each in gradients] == [each.shape for each in variables]
    dropped = tf.layers.dropout(tf.ones([1000]), 0.5, training=True)
    assert set(plain(dropped)) == {0, 2}


def test_names_that_are_missing():
    for module, name, text in (
        (tf, "keras", "a model is a function of variables, and fg.optimizers trains it"),
        (tf, "relu", "there is tf.nn.relu"),
        (tf, "Varable", "did you mean Variable"),
        (tf, "optimizers", "tf.train.AdamOptimizer"),
        (tf, "zzz", r"`dir\(\)` of the module lists its names"),
        (tf.train, "Checkpoint", "fg.save"),
        (tf.layers, "conv2d_transpose", "is a function of variables|lists its names|did you mean"),
        (tf.nn, "square", "there is tf"),
        (tf.contrib, "layers", "a layer is a function of variables"),
        (v1, "keras", "a model is a function"),
    ):
        with pytest.raises(AttributeError, match=f"has no '{name}'.*{text}") as caught:
            getattr(module, name)
        assert type(caught.value) is errors.MissingNameError
    for name in ("nn", "math", "linalg", "random", "train", "dtypes", "initializers", "errors", "contrib", "autodiff"):
        module = getattr(tf, name)
        with pytest.raises(AttributeError, match="has no 'nobody'"):
            module.nobody  # noqa: B018
        assert not hasattr(module, "__wrapped__")


def test_ways_to_import():
    assert v1.constant is tf.constant
    assert tf.contrib.eager is tfe
    assert tf.compat.v1 is v1
    assert set(dir(tf)) <= set(dir(v1)) | {"compat"}
    for name in ("", ".nn", ".contrib.eager", ".compat.v1", ".train"):
        one = importlib.import_module("fgrad.compat.tensorflow1" + name)
        two = importlib.import_module("fgrad.compat.tensorflow" + name)
        assert set(dir(two)) == set(dir(one))
    from fgrad.compat.tensorflow1.contrib import eager as tfe1

    from fgrad.compat.tensorflow1 import nn

    assert nn.relu.__name__ == "relu"
    assert tfe1.gradients_function.__name__ == "gradients_function"
    assert plain(tfe1.gradients_function(lambda x: x * x)(3.0)) == [6]


NAMES = [
    "constant", "Variable", "ones", "zeros", "fill", "range", "convert_to_tensor", "cast", "reduce_sum",
    "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_any", "reduce_all", "reduce_logsumexp",
    "square", "sqrt", "exp", "log", "abs", "sin", "cos", "tanh", "sigmoid", "pow", "matmul", "tensordot",
    "transpose", "reshape", "concat", "stack", "split", "gather", "where", "clip_by_value", "clip_by_norm",
    "clip_by_global_norm", "global_norm", "maximum", "minimum", "add", "subtract", "multiply", "divide", "add_n",
    "identity", "stop_gradient", "one_hot", "argmax", "equal", "GradientTape", "custom_gradient", "recompute_grad",
    "UnconnectedGradients", "hessians", "gradients", "enable_eager_execution", "Graph", "placeholder", "Session",
    "global_variables_initializer", "initialize_all_variables", "assign", "group", "control_dependencies",
    "get_variable", "variable_scope", "trainable_variables", "set_random_seed", "disable_v2_behavior", "float32",
    "float64", "int32", "math.log", "linalg.matmul", "nn.relu", "nn.softmax", "nn.log_softmax", "nn.sigmoid",
    "nn.tanh", "nn.softplus", "nn.elu", "nn.softmax_cross_entropy_with_logits",
    "nn.sigmoid_cross_entropy_with_logits", "nn.l2_loss", "random.normal", "random.uniform",
    "random.stateless_normal", "random.set_seed", "contrib.eager.Variable", "contrib.eager.gradients_function",
    "contrib.eager.value_and_gradients_function", "contrib.eager.implicit_gradients",
    "contrib.eager.implicit_value_and_gradients", "contrib.eager.make_vjp", "contrib.eager.GradientTape",
    "train.AdamOptimizer", "train.exponential_decay", "train.piecewise_constant", "compat.v1.Session",
    "errors.InvalidArgumentError", "autodiff.ForwardAccumulator",
]  # fmt: skip


@pytest.mark.parametrize("namespace", ["fgrad.compat.tensorflow", "fgrad.compat.tensorflow1"])
def test_names_that_are_there(namespace):
    module = importlib.import_module(namespace)
    for name in NAMES:
        with naming(name):
            assert operator.attrgetter(name)(module) is not None


def test_averages_of_variables_begin_with_them():
    """zero_debias is for averages of tensors, in graphs."""
    w = tf.Variable(1.0)
    averages = tf.train.ExponentialMovingAverage(0.9, zero_debias=True)
    averages.apply([w])
    w.assign(3.0)
    averages.apply([w])
    assert float(averages.average(w)) == pytest.approx(1.2)


WRITTEN = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "sub": lambda old, new: old - new,
    "mul": lambda old, new: old * new,
    "div": lambda old, new: old / new,
    "max": max,
    "min": min,
}


def one_by_one(kind, start, indices, updates):
    expected = np.array(start)
    for index, update in zip(indices, updates, strict=True):
        expected[index] = WRITTEN[kind](expected[index], update)
    return expected


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["update", "add", "sub", "max", "min"])
def test_elements_of_a_variable_are_written_at_indices(kind, compiled):
    start, indices, updates = [[1.0, 2.0], [3.0, 4.0]], [[0, 1], [1, 0], [0, 1]], [1.0, 20.0, 3.0]
    expected = one_by_one(kind, start, [(0, 1), (1, 0), (0, 1)], updates)
    v = tf.Variable(start)
    write = getattr(v, f"scatter_nd_{kind}")
    if compiled:
        fg.compile(lambda: write(indices, updates) * 1.0)()
    else:
        assert write(indices, updates) is v
    assert plain(v) == expected.tolist()
    if kind in ("update", "add", "sub"):
        v = tf.Variable(start)
        getattr(tf, f"scatter_nd_{kind}")(v, tf.constant(indices), tf.constant(updates))
        assert plain(v) == expected.tolist()


@pytest.mark.parametrize("kind", WRITTEN)
def test_rows_of_a_variable_are_written(kind):
    start, rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.array([[4.0, 0.5], [2.0, 8.0]])
    expected = tf.Variable(start)
    for number, row in zip([2, 0], rows, strict=True):
        each = [[number, 0], [number, 1]]
        found = [WRITTEN[kind](old, new) for old, new in zip(start[number], row, strict=True)]
        expected.scatter_nd_update(each, found)
    v, w, of_fgrad = tf.Variable(start), tf.Variable(start), fg.Variable(start)
    assert getattr(v, f"scatter_{kind}")(tf.IndexedSlices(rows, [2, 0])) is v
    getattr(tf, f"scatter_{kind}")(w, [2, 0], rows)
    getattr(tf, f"scatter_{kind}")(of_fgrad, [2, 0], rows)
    assert plain(v) == plain(w) == plain(of_fgrad) == plain(expected)
    with pytest.raises(TypeError, match=rf"scatter_{kind} takes tf.IndexedSlices\(values, indices\)"):
        getattr(v, f"scatter_{kind}")(rows)


def test_one_number_serves_for_all_rows():
    v = tf.Variable([1.0, 2.0, 3.0])
    assert plain(v.scatter_mul(tf.IndexedSlices(2.0, [0, 2]))) == [2, 2, 6]


def test_writing_to_elements_is_no_use_of_the_variable_for_a_tape():
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = v * v
        v.scatter_nd_update([[0]], [5.0])
        z = tf.reduce_sum(y) + tf.reduce_sum(v)
    assert plain(tape.gradient(z, v)) == [3, 5]
    with tf.GradientTape() as tape:
        v.scatter_nd_add([[0]], [5.0])
    assert tape.watched_variables() == ()


@pytest.mark.parametrize(
    ("indices", "updates", "error", "match"),
    [
        ([[0, 2]], [1], ValueError, r"indices holds 2, which is out of bounds of variable 'v:0' with the shape"),
        ([[-1, 0]], [1], ValueError, "indices holds -1"),
        ([[0]], [1], ValueError, r"must have the shape \(1, 2\), and they have \(1,\)"),
        ([[0, 0, 0]], [1], ValueError, "an index has 3 numbers"),
        ([[0, 0]], [1.5], TypeError, "updates of dtype float32 at indices of dtype int32 cannot be written"),
        ([[0.0, 0.0]], [1], TypeError, "at indices of dtype float32"),
    ],
)
def test_what_cannot_be_written_leaves_the_variable_as_it_was(indices, updates, error, match):
    v = tf.Variable([[1, 2], [3, 4]], name="v")
    with pytest.raises(error, match=match):
        v.scatter_nd_update(indices, updates)
    assert plain(v) == [[1, 2], [3, 4]]


def test_elements_of_a_variable_are_read():
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    assert plain(v.gather_nd([[0, 1], [1, 0]])) == [2, 3]
    assert plain(v.sparse_read([1])) == [[3, 4]]
    assert v.is_initialized()


def test_variables_are_keys_by_their_references():
    v, w = tf.Variable(1.0), tf.Variable(1.0)
    state = {v.ref(): "v", w.ref(): "w"}
    assert (state[v.ref()], state[w.ref()], v.ref().deref() is v, v.ref() == w.ref()) == ("v", "w", True, False)


def test_a_batch_jacobian_of_what_is_not_connected_is_zeros_and_there_may_be_no_rows():
    x, y = tf.constant(np.ones((3, 2), np.float32)), tf.constant(np.ones((3, 1), np.float32))
    with tf.GradientTape() as tape:
        tape.watch(x)
    found = tape.batch_jacobian(y, x)
    np.testing.assert_array_equal(found, np.zeros((3, 1, 2)))
    assert found.dtype == np.float32
    nothing = tf.zeros([0, 2])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(nothing)
        y = nothing * nothing
    assert tape.batch_jacobian(y, nothing).shape == (0, 2, 2)
    with pytest.raises(ValueError, match="unconnected_gradients"):
        tape.batch_jacobian(y, nothing, unconnected_gradients="nonsense")


def test_a_regularizer_needs_a_graph():
    with pytest.raises(ValueError, match=r"add regularizer\(variable\) to the loss"):
        tf.get_variable("w", [2], regularizer=tf.nn.l2_loss)
