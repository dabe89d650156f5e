"""`tf.custom_gradient`: what functions and rules are handed, what is an argument, structures, errors."""

import numpy as np
import pytest

import fgrad.compat.tensorflow as tf
from fgrad import errors


def gradients(f, *values):
    tensors = [tf.constant(value) for value in values]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        y = f(*tensors)
    return tape.gradient(y, tensors)


def plain(x):
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(map(plain, x))
    return x.tolist() if hasattr(x, "tolist") else x


@pytest.mark.parametrize("given", [3.0, np.float32(3.0), np.array([1.0, 2.0]), tf.constant(3.0), tf.Variable(3.0)])
def test_functions_and_rules_are_handed_tensors(given):
    seen = []

    @tf.custom_gradient
    def doubled(x):
        seen.append(x.numpy())

        def grad_fn(dy):
            seen.append(dy.numpy())
            return dy * 10.0

        return x * 2.0, grad_fn

    np.testing.assert_array_equal(doubled(given), 2 * np.asarray(given))
    x = tf.constant(given) if not isinstance(given, tf.Variable) else given
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = doubled(x)
    np.testing.assert_array_equal(tape.gradient(y, x), 10 * np.ones(np.shape(given)))
    assert [np.shape(each) for each in seen] == [np.shape(given)] * 3
    np.testing.assert_array_equal(seen[2], np.ones(np.shape(given)))


def test_values_that_a_function_has_looked_at():
    @tf.custom_gradient
    def sine(x):
        return np.sin(x.numpy()), lambda dy: dy * tf.cos(x)

    np.testing.assert_allclose(gradients(sine, 0.5)[0], np.cos(0.5), rtol=1e-6)
    x = tf.constant(0.5)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = sine(x)
        first = inner.gradient(y, x)
    np.testing.assert_allclose(outer.gradient(first, x), -np.sin(0.5), rtol=1e-6)


def test_numbers_that_are_returned_are_float32():
    @tf.custom_gradient
    def constant(x):
        return 2.5, lambda dy: dy * 7.0

    y = constant(tf.constant(1.0))
    assert (float(y), y.dtype) == (2.5, tf.float32)
    assert plain(gradients(constant, 1.0)) == [7.0]


class Model:
    scale = 5.0

    @tf.custom_gradient
    def scaled(self, x, y):
        """Multiply."""
        return self.scale * x * y, lambda dy: (dy * self.scale, dy * 100.0)


def test_the_self_of_a_method_is_no_argument():
    assert plain(gradients(Model().scaled, 3.0, 4.0)) == [5.0, 100.0]
    assert float(Model().scaled(3.0, 4.0)) == 60.0
    assert (Model.scaled.__name__, Model.scaled.__doc__, Model().scaled.__name__) == ("scaled", "Multiply.", "scaled")
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.constant(3.0), tf.constant(4.0)
        z = Model().scaled(x, y)
        assert session.run([z, tf.gradients(z, [x, y])]) == [60.0, [5.0, 100.0]]


def test_keywords_and_what_is_no_number():
    @tf.custom_gradient
    def scaled(x, scale=1.0, *, times=1):
        return x * scale * times, lambda dy: dy * scale * times

    assert plain(gradients(lambda x: scaled(x, scale=2.0), 3.0)) == [2.0]
    assert plain(gradients(lambda x: scaled(x, times=3), 3.0)) == [3.0]
    assert plain(gradients(scaled, 3.0)) == [1.0]
    with pytest.raises(ValueError, match="expected to return 2 gradients.* but returned 1"):
        gradients(lambda x: scaled(x, 2.0), 3.0)  # by position it is an argument

    @tf.custom_gradient
    def chosen(x, kind):
        assert kind == "fast"
        return x * 2.0, lambda dy: (dy, None)

    assert plain(gradients(lambda x: chosen(x, "fast"), 3.0)) == [1.0]
    whole = tf.custom_gradient(lambda x, n: (x * 2.0 ** len(range(n)), lambda dy: (dy, None)))
    assert float(whole(1.0, 3)) == 8.0  # an integer stays one of Python's


# Structures

STRUCTURES = [((1.0, ()), [1.0, ()]), (((1.0, ()), [2.0], ()), {"a": (1.0, ()), "b": [2.0, (3.0,)]})]


@pytest.mark.parametrize(("arguments", "results"), STRUCTURES)
@pytest.mark.parametrize("as_list", [False, True])
def test_structures(arguments, results, as_list):
    check_structures(arguments, results, as_list, lambda x: x)


@pytest.mark.parametrize(("arguments", "results"), STRUCTURES)
def test_structures_in_a_graph(arguments, results):
    with tf.Graph().as_default(), tf.Session() as session:
        check_structures(arguments, results, True, lambda x: as_values(x, session))


def as_values(x, session):
    if isinstance(x, dict):
        return {key: as_values(value, session) for key, value in x.items()}
    return type(x)(as_values(each, session) for each in x) if isinstance(x, (list, tuple)) else session.run(x)


def mapped(f, x):
    if isinstance(x, dict):
        return {key: mapped(f, value) for key, value in x.items()}
    return type(x)(mapped(f, each) for each in x) if isinstance(x, (list, tuple)) else f(x)


def flat(x):
    parts = x.values() if isinstance(x, dict) else x
    return [each for part in parts for each in flat(part)] if isinstance(x, (dict, list, tuple)) else [x]


def check_structures(arguments, results, as_list, evaluated):
    """Check a function of a structure to a structure, whose rule tells the gradients as a list or nested."""

    @tf.custom_gradient
    def f(*args):
        assert mapped(lambda x: 0, args) == mapped(lambda x: 0, arguments)
        total = sum(flat(args))

        def grad_fn(*dy):
            assert len(dy) == len(flat(results))
            given = mapped(lambda x: x * 10.0 * sum(dy), args)
            return flat(given) if as_list else given

        return mapped(lambda value: total * value, results), grad_fn

    x = mapped(tf.constant, arguments)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(*x)
    total, count = sum(flat(arguments)), len(flat(results))
    assert plain(evaluated(y)) == mapped(lambda value: total * value, results)
    assert plain(evaluated(tape.gradient(y, x))) == mapped(lambda value: 10.0 * count * value, arguments)


def test_no_arguments():
    one = tf.custom_gradient(lambda: (tf.constant(1.0), lambda dy: ()))
    assert float(one()) == 1.0


# Errors


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda dy: [], "expected to return 1 gradient, .* but returned 0"),
        (lambda dy: (dy, dy), "expected to return 1 gradient, .* but returned 2"),
    ],
)
def test_rules_with_another_number_of_gradients(rule, message):
    f = tf.custom_gradient(lambda x: (x * 2.0, rule))
    with pytest.raises(ValueError, match=message):
        gradients(f, 1.0)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(1.0)
        with pytest.raises(ValueError, match=message):
            session.run(tf.gradients(f(x), x))


@pytest.mark.parametrize("returned", [lambda x: x * x, lambda x: (x * x, 5), lambda x: (x, x, x)])
def test_functions_that_return_no_rule(returned):
    f = tf.custom_gradient(returned)
    with pytest.raises(errors.CustomRuleError, match=r"must return \(result, grad_fn\)"):
        f(tf.constant(2.0))
    with tf.Graph().as_default(), pytest.raises(errors.CustomRuleError, match=r"must return \(result, grad_fn\)"):
        f(tf.constant(2.0))  # where it is called


def test_variables():
    w = tf.Variable(3.0, name="w")
    without = tf.custom_gradient(lambda x: (x * w, lambda dy: dy))
    with pytest.raises(TypeError, match="no parameter 'variables'"):
        gradients(without, 2.0)

    def rule(dy, variables=None):
        assert variables == [w]
        return dy, [dy * 7.0]

    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.custom_gradient(lambda x: (x * w, rule))(x)
    assert plain(tape.gradient(y, [x, w])) == [1.0, 7.0]
    wrong = tf.custom_gradient(lambda x: (x * w, lambda dy, variables=None: (dy, [])))
    with pytest.raises(ValueError, match="expected to return 1 gradients of variables"):
        gradients(wrong, 2.0)


def test_errors_of_a_rule_come_through():
    def rule(dy):
        raise RuntimeError("in the rule")

    f = tf.custom_gradient(lambda x: (x * 2.0, rule))
    with pytest.raises(RuntimeError, match="in the rule"):
        gradients(f, 1.0)


def test_a_graphs_function_that_needs_values_or_makes_a_variable():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([1.0, 2.0])
        looked = tf.custom_gradient(lambda x: (np.exp(x), lambda dy: dy * 3.0))(x)
        np.testing.assert_allclose(session.run(looked), np.exp([1.0, 2.0]), rtol=1e-6)
        np.testing.assert_array_equal(session.run(tf.gradients(looked, x)[0]), [3.0, 3.0])

        def makes(x):
            return x * tf.get_variable("w", shape=[]), lambda dy, variables=None: (dy, [dy])

        made = tf.custom_gradient(makes)(x)
        session.run(tf.global_variables_initializer())
        with pytest.raises(errors.SymbolicTensorError, match="uses the variable 'w'"):
            session.run(made)
