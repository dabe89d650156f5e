"""Gradients with respect to the variables that a function reads."""

import threading

import numpy as np
import pytest
from helpers import along, plain

import fgrad as fg
from fgrad import errors


@pytest.fixture
def weights():
    return fg.Variable(2.0, name="w1"), fg.Variable(3.0, name="w2")


def test_two_variables(weights):
    w1, w2 = weights

    def f(x1, x2):
        return w1 * x1 + w2 * x2

    pairs = fg.implicit_gradients(f)(5.0, 7.0)
    assert type(pairs) is list
    assert all(type(pair) is tuple for pair in pairs)
    assert [gradient.item() for gradient, _ in pairs] == [5.0, 7.0]
    assert pairs[0][1] is w1
    assert pairs[1][1] is w2
    result = fg.implicit_value_and_gradients(f)(5.0, 7.0)
    assert type(result) is tuple
    value, pairs = result
    assert value.item() == 31.0
    assert [(gradient.item(), v) for gradient, v in pairs] == [(5.0, w1), (7.0, w2)]
    assert plain(fg.gradients_function(f)(5.0, 7.0)) == [2.0, 3.0]


def test_the_order_is_that_of_creation(weights):
    w1, w2 = weights
    pairs = fg.implicit_gradients(lambda x: w2 * x + w1 * 2 * x)(5.0)
    assert [v.name for _, v in pairs] == ["w1", "w2"]
    assert [g.item() for g, _ in pairs] == [10.0, 5.0]


def test_keywords_reach_the_function(weights):
    w1, _ = weights

    def f(x, *, scale, dy=1.0):
        return w1 * x * scale * dy

    assert fg.implicit_gradients(f)(5.0, scale=2.0)[0][0].item() == 10.0
    assert fg.implicit_gradients(f)(x=5.0, scale=2.0, dy=3.0)[0][0].item() == 30.0


def test_arguments_are_not_traced(weights):
    w1, _ = weights
    seen = []

    def f(x, text):
        seen.append((x, text))
        return w1 * x

    fg.implicit_gradients(f)(5.0, "text")
    assert seen == [(5.0, "text")]
    assert type(seen[0][0]) is float


def test_a_variable_that_is_not_trainable_is_left_out(weights):
    _, w2 = weights
    frozen = fg.Variable(2.0, trainable=False)
    value, pairs = fg.implicit_value_and_gradients(lambda x1, x2: frozen * x1 + w2 * x2)(5.0, 7.0)
    assert value.item() == 31.0
    ((gradient, variable),) = pairs
    assert gradient.item() == 7.0
    assert variable is w2


@pytest.mark.parametrize("transform", [fg.implicit_gradients, fg.implicit_value_and_gradients])
def test_no_trainable_variable(transform):
    frozen = fg.Variable(2.0, trainable=False)
    with pytest.raises(ValueError, match="No trainable variables were accessed while <lambda> was being computed"):
        transform(lambda x: x * x)(3.0)
    with pytest.raises(ValueError, match="No trainable variables were accessed"):
        transform(lambda x: frozen * x)(3.0)
    with pytest.raises(ValueError, match="No trainable variables were accessed"):
        transform(lambda x: fg.Variable(2) * x)(3.0)
    assert fg.implicit_gradients(lambda: fg.Variable(2.0) * 3.0)()[0][0].item() == 3.0  # nothing was left open


@pytest.mark.parametrize("transform", [fg.implicit_gradients, fg.implicit_value_and_gradients])
def test_a_function_that_returns_none(transform):
    def forgetful(x):
        fg.Variable(2.0) * x

    with pytest.raises(ValueError, match="returns None; did you forget to return a value from forgetful"):
        transform(forgetful)(3.0)
    # The missing result is what to say first, also where no variable was read.
    with pytest.raises(ValueError, match="returns None; did you forget to return a value from <lambda>"):
        transform(lambda: None)()


def test_a_variable_that_was_read_without_effect(weights):
    w1, w2 = weights

    def f(x):
        w1 * x
        return w2 * x

    (first, v1), (second, v2) = fg.implicit_gradients(f)(5.0)
    assert first is None
    assert second.item() == 5.0
    assert (v1, v2) == (w1, w2)


def test_a_variable_behind_stop_gradient(weights):
    w1, w2 = weights
    (first, _), (second, _) = fg.implicit_gradients(lambda x: fg.stop_gradient(w1) * w2 * x)(5.0)
    assert first is None
    assert second.item() == 10.0


def test_a_variable_read_twice_is_one_input(weights):
    w1, _ = weights
    ((gradient, _),) = fg.implicit_gradients(lambda x: w1 * w1 * x)(5.0)
    assert gradient.item() == 20.0


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda y: y * np.array([1.0, 10.0]), 33.0),
        (lambda y: [y, 10 * y], 33.0),
        (lambda y: {"a": y, "b": (y,)}, 6.0),
    ],
)
def test_results_are_summed(weights, result, expected):
    w1, _ = weights
    value, ((gradient, _),) = fg.implicit_value_and_gradients(lambda x: result(w1 * x))(3.0)
    assert gradient.item() == expected
    assert plain(value) == plain(result(6.0))


def test_the_variable_itself_as_result(weights):
    w1, _ = weights
    value, ((gradient, variable),) = fg.implicit_value_and_gradients(lambda: w1)()
    assert (plain(value), gradient.item()) == (2.0, 1.0)
    assert variable is w1
    w1.assign(5.0)
    assert plain(value) == 2.0  # the value of that time


@pytest.mark.parametrize("result", [lambda y: float(y), lambda y: y.numpy(), lambda y: y.item(), lambda y: 1.0])
def test_a_plain_number_as_result(weights, result):
    w1, _ = weights
    with pytest.raises((TypeError, ValueError), match=r"<lambda> returned a|float\(\) requested"):
        fg.implicit_gradients(lambda x: result(w1 * x))(3.0)


def test_a_structure_that_holds_something_else(weights):
    w1, _ = weights
    with pytest.raises((TypeError, ValueError), match="<lambda> returned 'text'"):
        fg.implicit_gradients(lambda x: [w1 * x, "text"])(3.0)


def test_integer_variables():
    counter, asked = fg.Variable(2), fg.Variable(3, trainable=True)
    w = fg.Variable(5.0)
    pairs = fg.implicit_gradients(lambda: w * counter * asked)()
    assert [(plain(g), v) for g, v in pairs] == [(None, asked), (6.0, w)]


def test_a_variable_created_inside(weights):
    w1, _ = weights
    created = []

    def f(x):
        created.append(fg.Variable(4.0))
        return w1 * created[-1] * x

    pairs = fg.implicit_gradients(f)(5.0)
    assert [(g.item(), v) for g, v in pairs] == [(20.0, w1), (10.0, created[0])]


def test_an_assignment_between_two_reads(weights):
    w1, _ = weights

    def f():
        a = w1 * 5
        w1.assign(10.0)
        return a + w1 * 5

    value, ((gradient, _),) = fg.implicit_value_and_gradients(f)()
    assert (value.item(), gradient.item()) == (60.0, 10.0)


def test_an_assignment_keeps_the_value_of_each_read(weights):
    w1, _ = weights

    def f():
        a = w1 * w1
        w1.assign(10.0)
        return a + w1 * w1

    ((gradient, _),) = fg.implicit_gradients(f)()
    assert gradient.item() == 2 * 2.0 + 2 * 10.0


def test_rows_of_a_table():
    table = fg.Variable(np.zeros((4, 2)))
    ((gradient, _),) = fg.implicit_gradients(lambda: table[[0, 2, 0]])()
    assert plain(gradient) == [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    ((gradient, _),) = fg.implicit_gradients(lambda: np.take(table, [0, 2, 0], axis=0))()
    assert plain(gradient) == [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]


def test_second_order_by_nesting():
    w = fg.Variable(2.0)
    first = fg.implicit_gradients(lambda x: w**3 * x)
    assert first(5.0)[0][0].item() == 60.0
    second = fg.implicit_gradients(lambda x: first(x)[0][0])
    assert second(5.0)[0][0].item() == 60.0  # 6 w x
    assert second(5.0)[0][1] is w
    third = fg.implicit_gradients(lambda x: second(x)[0][0])
    assert third(5.0)[0][0].item() == 30.0


def test_mixed_with_derivatives_by_arguments():
    w = fg.Variable(2.0)
    by_w = fg.implicit_gradients(lambda x: w * w * x * x)
    assert plain(fg.grad(lambda x: by_w(x)[0][0])(5.0)) == 40.0  # d/dx 2 w x^2
    assert plain(along(lambda x: by_w(x)[0][0])(5.0)) == 40.0
    by_x = fg.grad(lambda x: w * w * x * x)
    assert fg.implicit_gradients(by_x)(5.0)[0][0].item() == 40.0  # d/dw 2 w^2 x
    by_t = along(lambda x: w * w * x * x)
    assert fg.implicit_gradients(by_t)(5.0)[0][0].item() == 40.0


def test_an_exception_leaves_nothing_open(weights):
    w1, _ = weights

    def f():
        w1 * 2
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        fg.implicit_gradients(f)()
    assert plain(w1 * 2.0) == 4.0
    assert np.asarray(w1).item() == 2.0  # w1 is not traced any more
    assert fg.implicit_gradients(lambda: w1 * 3.0)()[0][0].item() == 3.0


def test_a_method_as_decorated_function():
    class Model:
        def __init__(self):
            self.w = fg.Variable([1.0, 2.0])

        @fg.implicit_value_and_gradients
        def loss(self, x):
            return np.sum(self.w * x)

    model = Model()
    value, ((gradient, variable),) = model.loss(np.array([3.0, 4.0]))
    assert (value.item(), plain(gradient)) == (11.0, [3.0, 4.0])
    assert variable is model.w


def test_float32_is_kept():
    w = fg.Variable(np.float32([1, 2]))
    value, ((gradient, _),) = fg.implicit_value_and_gradients(lambda x: np.sum(w * x))(np.float32(2))
    assert value.dtype == gradient.dtype == np.float32


def test_complex_variables():
    w = fg.Variable(3.0 + 4.0j)
    ((gradient, _),) = fg.implicit_gradients(lambda: np.abs(w) ** 2)()
    assert gradient.item() == pytest.approx(6.0 + 8.0j, rel=1e-15)


def test_variables_of_other_threads_are_not_followed():
    w, other = fg.Variable(2.0), fg.Variable(3.0)
    result = []

    def f():
        thread = threading.Thread(target=lambda: result.append(other * 2.0))
        thread.start()
        thread.join()
        return w * 5.0

    with pytest.warns(errors.NoGradientWarning, match="read in another thread"):
        ((gradient, variable),) = fg.implicit_gradients(f)()
    assert gradient.item() == 5.0
    assert variable is w
    assert plain(result) == [6.0]


def test_facts_and_printing_are_no_reads(weights):
    w1, _ = weights

    def f(x):
        assert (w1.shape, w1.dtype, w1.size, w1.ndim) == ((), np.float64, 1, 0)
        assert "2." in repr(w1)
        assert "2." in str(w1)
        return x * 1.0

    with pytest.raises(ValueError, match="No trainable variables were accessed"):
        fg.implicit_gradients(f)(3.0)


def test_series_through_a_batch_of_solutions_that_close_over_an_example():
    def root(a):
        return fg.implicit_diff(lambda guess: np.sqrt(a), lambda x, guess: x * x - a)(2.0)

    def total(x):
        return np.sum(fg.vmap(root)(x))

    x, directions = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(fg.laplacian(total)(x), np.sum(-0.25 * x**-1.5))
    expected = fg.taylor(lambda x: np.sum(np.sqrt(x)), 4)(x, directions)
    np.testing.assert_allclose(fg.taylor(total, 4)(x, directions), expected)
    np.testing.assert_allclose(
        fg.vmap(fg.laplacian(total))(np.stack([x, 2 * x])), np.sum(-0.25 * np.stack([x, 2 * x]) ** -1.5, 1)
    )


def test_a_solution_of_equations_that_are_not_symmetric():
    a, b = np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([1.0, 2.0])

    def first(a):
        return fg.implicit_diff(lambda a: np.linalg.solve(a, b), lambda x, a: a @ x - b)(a)[0]

    np.testing.assert_allclose(fg.grad(first)(a).numpy(), [[-0.125, -0.25], [0.03125, 0.0625]], rtol=1e-12)


def test_the_equation_may_write_into_the_solution_and_not_into_arguments():
    def left(x, a):
        x *= x
        return x - a

    root, a = fg.implicit_diff(np.sqrt, left), np.array([4.0, 9.0])
    np.testing.assert_array_equal(root(a), [2.0, 3.0])
    np.testing.assert_allclose(fg.jacobian(root)(a), np.diag([1 / 4, 1 / 6]))

    def overwrites(x, a):
        a *= 2.0
        return x * x - a / 2.0

    def by_overwriting(a):
        a **= 0.5
        return a * 1.0

    for solver, equation in ((np.sqrt, overwrites), (by_overwriting, lambda x, a: x * x - a)):
        with pytest.raises(fg.errors.InPlaceError, match="writes into one of its arguments"):
            fg.jacobian(fg.implicit_diff(solver, equation))(a)
