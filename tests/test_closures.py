"""What a function uses beside its arguments: found by watching it run, and given to it anew."""

from typing import Any

import numpy as np
import pytest

import fgrad as fg
from fgrad import errors
from fgrad.rules.closures import Closure
from fgrad.rules.vectors import raveled
from fgrad.scipy.optimize import brentq


def seen_by(loss: Any, *args: Any) -> list[Any]:
    """Run a function that returns a result and a closure under `grad`; return the closure's values."""
    kept: list[Any] = []

    def outer(*args: Any) -> Any:
        result, closure = loss(*args)
        kept.extend(value.item() for value in closure.values)
        return result

    fg.grad(outer)(*args)
    return kept


def test_tensors_are_found_wherever_they_stand():
    class Model:
        pass

    def loss(a: Any) -> Any:
        model = Model()
        model.weight, table = a * 2, {"bias": [a + 10]}

        def f(x: Any, rate: Any = a * 3) -> Any:
            return model.weight * x + table["bias"][0] + rate

        closure = Closure(f, [(1.0,)])
        assert float(closure.call([1.0, 2.0, 4.0], 10.0)) == 16
        return f(1.0), closure

    assert seen_by(loss, 1.0) == [2.0, 11.0, 3.0]


def test_arguments_and_constants_are_none_of_them():
    def loss(a: Any) -> Any:
        closure = Closure(lambda x: x * np.ones(3) * fg.constant(2.0), [(a,)])
        return a, closure

    assert seen_by(loss, 1.0) == []


def test_an_argument_that_is_closed_over_too_counts_twice():
    def loss(a: Any) -> Any:
        closure = Closure(lambda x: x * a, [(a,)])
        assert float(closure.call([3.0], 5.0)) == 15
        return a, closure

    assert seen_by(loss, 2.0) == [2.0]


def test_what_a_branch_uses_is_found_at_the_points_that_take_it():
    def loss(a: Any) -> Any:
        b = a * 5
        closure = Closure(lambda x: a * x if x > 0 else b * x, [(1.0,), (-1.0,)])
        return a, closure

    assert seen_by(loss, 2.0) == [2.0, 10.0]


def test_results_of_functions_with_rules_of_their_own_are_not_used_but_made():
    @fg.custom_jvp
    def cube(x: Any) -> Any:
        return x**3

    cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))

    def loss(a: Any) -> Any:
        closure = Closure(lambda x: cube(a * x) * 2, [(1.0,)])
        pullback = fg.vjp(lambda values: closure.call(values, 1.0), closure.values)[1]
        assert pullback(1.0)[0][0].item() == 6 * 4.0
        return a, closure

    assert seen_by(loss, 2.0) == [2.0]


@pytest.mark.parametrize("run", [lambda f, x: fg.grad(f)(x), lambda f, x: fg.jvp(f, (x,), (1.0,))[1]])
def test_under_both_traces_and_nested(run):
    def outer(a: Any) -> Any:
        def inner(b: Any) -> Any:
            closure = Closure(lambda x: a * b * x, [(1.0,)])
            return closure.call(closure.values, 3.0)

        return run(inner, a * 1.0)

    assert float(run(outer, 2.0)) == 3  # d/da of 3 a


def test_the_checkpoint_inside_sees_the_values_given():
    """The backward pass runs it again, when the values are not in place any more."""

    def loss(a: Any) -> Any:
        inside = fg.checkpoint(lambda x: np.sin(x * a))
        closure = Closure(inside, [(1.0,)])
        pullback = fg.vjp(lambda values: closure.call(values, 1.0), [np.float64(0.5)])[1]
        assert float(pullback(1.0)[0][0]) == pytest.approx(np.cos(0.5))
        return a, closure

    assert seen_by(loss, 2.0) == [2.0]


def test_variables_are_found_and_given():
    v = fg.Variable(2.0)

    def loss() -> Any:
        closure = Closure(lambda x: v * x * v, [(1.0,)])
        assert [value.item() for value in closure.values] == [2.0]
        assert float(closure.call([3.0], 2.0)) == 18
        return v * 1.0

    fg.implicit_gradients(loss)()


def test_a_copy_at_each_run_is_refused():
    def loss(a: Any) -> Any:
        copies = iter([a * 1.0, a * 2.0, a * 3.0, a * 4.0])
        Closure(lambda x: next(copies) * x, [(1.0,)])
        return a

    with pytest.raises(errors.ClosureError, match="makes a new copy of it each time that it runs"):
        fg.grad(loss)(1.0)


def test_an_error_inside_puts_everything_back():
    def loss(a: Any) -> Any:
        closure = Closure(lambda x: a * x, [(1.0,)])
        with pytest.raises(KeyError), closure.given([np.float64(5.0)]):
            assert a.item() == 5
            raise KeyError
        assert a.item() == 2
        return a * a

    assert float(fg.grad(loss)(2.0)) == 4


def test_vectors_are_containers_and_back():
    tree = {"a": np.float32(1.5), "b": (np.array([[1.0, 2.0]]), 3 + 4j), "n": 2}
    vector, restore = raveled(tree)
    np.testing.assert_array_equal(vector, [1.5, 1, 2, 3, 4, 2])
    again = restore(vector)
    assert again["a"].dtype == np.float32
    assert again["b"][1] == 3 + 4j
    assert again["b"][0].shape == (1, 2)
    assert raveled(())[0].shape == (0,)
    gradient = fg.grad(lambda tree: np.sum(raveled(tree)[0] ** 2))({"x": 1.0, "y": np.ones(2)})
    np.testing.assert_allclose(gradient["y"], [2, 2])


def test_what_stands_for_a_tensor_is_a_tensor():
    """A solver's function may do with what it closes over all that it does with a tensor."""

    def root(a: Any) -> Any:
        weights = np.stack([a, a * 2])

        def f(x: Any) -> Any:
            own = weights * 1.0
            assert len((weights * 2).numpy()) == 2
            own[0] = a * x
            return x**3 - own[0] - own[1]

        return brentq(f, 0.1, 9.0)

    slope = fg.grad(root)(2.0)  # x^3 = a x + 2 a
    assert float(slope) == pytest.approx(4 / (3 * 4 - 2))


def test_examples_may_differ_in_an_integer_that_is_closed_over():
    def roots(a: Any) -> Any:
        return fg.vmap(lambda n: brentq(lambda x: x**n - a, 0.1, 9.0))(np.array([1, 3]))

    np.testing.assert_allclose(fg.jvp(roots, (8.0,), (1.0,))[1], [1, 1 / 12])
    np.testing.assert_allclose(fg.grad(lambda a: np.sum(roots(a)))(8.0), 1 + 1 / 12)
