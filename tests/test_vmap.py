"""`vmap`: axes, containers, composition, and what it refuses."""

import warnings

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.primitive import PRIMITIVES, UFUNCS
from fgrad.extend import defjvp, defvjp, register_primitive
from fgrad.scipy import linalg
from fgrad.transforms import batch

X = np.arange(6.0).reshape(3, 2)
Y = X.T * 10


def test_axes():
    assert fg.vmap(np.sum)(X).tolist() == X.sum(axis=1).tolist()
    assert fg.vmap(np.sum, in_axes=1)(X).tolist() == X.sum(axis=0).tolist()
    assert fg.vmap(np.sum, in_axes=-1)(X).tolist() == X.sum(axis=0).tolist()
    assert fg.vmap(lambda x: x * 2, out_axes=1)(X).tolist() == (2 * X).T.tolist()
    assert fg.vmap(lambda x: x * 2, out_axes=-1)(X).tolist() == (2 * X).T.tolist()
    assert fg.vmap(np.dot, in_axes=(0, 1))(X, Y).tolist() == np.sum(X * Y.T, axis=1).tolist()
    assert fg.vmap(np.multiply, in_axes=(0, None))(X, 2.0).tolist() == (2 * X).tolist()
    assert fg.vmap(lambda x, *, y: x + y)(X, y=X).tolist() == (2 * X).tolist()


def test_containers():
    def f(p, z):
        return {"s": p["a"] + p["b"][0], "t": (z,)}

    out = fg.vmap(f, in_axes=({"a": 0, "b": None}, None), out_axes={"s": 1, "t": None})({"a": X, "b": [1.0]}, 5.0)
    assert out["s"].tolist() == (X + 1).T.tolist()
    assert out["t"][0].item() == 5.0
    assert fg.vmap(lambda p: p[0] * p[1], in_axes=((0, 1),))((X, Y)).tolist() == (X * Y.T).tolist()
    assert fg.vmap(lambda p: p[0] * p[1], in_axes=([1, 0],))([Y, X]).tolist() == (X * Y.T).tolist()


def test_axes_in_a_dict_belong_to_its_keys_in_whatever_order():
    def f(p):
        return p["a"] * p["b"]

    assert (
        fg.vmap(f, in_axes=({"b": None, "a": 1},))({"b": np.array([1.0, 10.0]), "a": X.T}).tolist()
        == (X * [1.0, 10.0]).tolist()
    )
    pair = fg.vmap(lambda x: {"b": x, "a": x * 2}, out_axes={"b": 1, "a": 0})(X)
    assert pair["b"].tolist() == X.T.tolist()
    assert pair["a"].tolist() == (2 * X).tolist()


def test_a_result_that_is_the_same_for_all():
    assert fg.vmap(lambda x: np.array([1.0, 2.0]))(X).tolist() == [[1.0, 2.0]] * 3
    assert fg.vmap(lambda x: 7.0)(X).tolist() == [7.0] * 3
    assert fg.vmap(lambda x: 7.0, out_axes=None)(X).item() == 7.0


def test_an_example_shows_its_own_shape():
    def f(x):
        assert (x.shape, x.ndim, x.size, len(x), x.dtype) == ((2,), 1, 2, 2, np.float64)
        assert isinstance(x, fg.Tensor)
        a, b = x
        return a * b

    assert fg.vmap(f)(X).tolist() == (X[:, 0] * X[:, 1]).tolist()


def test_assignment():
    def f(x):
        result = fnp.zeros(3)
        result[0] = x[1]
        result[1:] = x
        result[-1] += 1.0
        return result

    assert fg.vmap(f)(X).tolist() == [[1, 0, 2], [3, 2, 4], [5, 4, 6]]


def test_indices_that_differ():
    rows, columns = np.array([2, 0]), np.array([1, 0])
    assert fg.vmap(lambda i, j: fnp.asarray(X)[i, j])(rows, columns).tolist() == [5.0, 0.0]
    assert fg.vmap(lambda i: fnp.asarray(X)[:, i], in_axes=0)(columns).tolist() == X[:, columns].T.tolist()
    three = np.arange(24.0).reshape(2, 3, 4)
    found = fg.vmap(lambda x, i: x[i, :, [0, 1]])(np.stack([three, three + 1]), columns)
    expected = np.stack([three[1, :, [0, 1]], (three + 1)[0, :, [0, 1]]])
    assert found.tolist() == expected.tolist()
    five = np.arange(240.0).reshape(2, 3, 4, 5, 2)
    rows, columns = np.array([[0, 2, 1], [1, 1, 0]]), np.array([[1, 0, 1], [0, 1, 1]])
    found = fg.vmap(lambda x, i, j: x[:, i, :, j])(five, rows, columns)
    assert found.tolist() == [x[:, i, :, j].tolist() for x, i, j in zip(five, rows, columns, strict=True)]


@pytest.mark.parametrize("axis", range(-4, 4))
def test_every_axis_in_and_out(axis):
    examples = np.arange(120.0).reshape(2, 3, 4, 5)
    found = fg.vmap(lambda x: np.concatenate([x, x]), in_axes=axis, out_axes=axis)(examples)
    loop = [np.concatenate([x, x]) for x in np.moveaxis(examples, axis, 0)]
    np.testing.assert_array_equal(found, np.stack(loop, axis))


def test_nested():
    outer = fg.vmap(fg.vmap(np.multiply, in_axes=(None, 0)), in_axes=(0, None))
    assert outer(X[:, 0], Y[0]).tolist() == np.outer(X[:, 0], Y[0]).tolist()


def test_gradients_of_examples_and_of_batches():
    def f(x):
        return np.sum(np.sin(x) * x)

    expected = np.cos(X) * X + np.sin(X)
    np.testing.assert_allclose(fg.vmap(fg.grad(f))(X), expected)
    np.testing.assert_allclose(fg.grad(lambda x: np.sum(fg.vmap(f)(x)))(X), expected)
    value, gradient = fg.vmap(fg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, np.sum(np.sin(X) * X, axis=1))
    np.testing.assert_allclose(gradient, expected)


def test_control_flow_on_what_is_not_mapped():
    def f(x, sign):
        return x if sign > 0 else -x

    assert fg.vmap(f, in_axes=(0, None))(X, -1.0).tolist() == (-X).tolist()


def test_perturbation_confusion():
    """A closure over a mapped value inside another map (Siskind and Pearlmutter, 2008, for `grad`)."""
    found = fg.vmap(lambda x: x * fg.grad(lambda y: x + y)(1.0))(X[:, 0])
    assert found.tolist() == X[:, 0].tolist()
    found = fg.grad(lambda x: np.sum(fg.vmap(lambda y: x * y)(np.ones(3))))(2.0)
    assert found.item() == 3.0


def test_random_numbers_are_the_same_for_all():
    rng = np.random.default_rng(0)
    found = fg.vmap(lambda x: x * 0 + rng.normal())(X[:, 0])
    assert len(set(found.tolist())) == 1


def test_variables_and_tapes():
    w = fg.Variable(2.0)
    ((gradient, _),) = fg.implicit_gradients(lambda: np.sum(fg.vmap(lambda x: w * x)(X)))()
    assert gradient.item() == X.sum()

    def by_tape(x):
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = np.sum(x * x) * w
        return tape.gradient(y, x)

    assert fg.vmap(by_tape)(X).tolist() == (4 * X).tolist()


def test_a_batch_is_not_stored_in_a_variable():
    w = fg.Variable(np.zeros(3))
    with pytest.raises(errors.ConcretizationError, match="storing it in a variable needs a value"):
        fg.vmap(lambda x: w.assign_add(x))(np.ones((3, 3)))
    assert w.numpy().tolist() == [0.0, 0.0, 0.0]


def test_written_where_indices_differ():
    def f(v, i):
        result = fnp.zeros(3)
        result[i] = v
        return np.sum(result * np.array([1.0, 10.0, 100.0]))

    found = fg.vmap(fg.grad(f))(np.ones((2, 2)), np.array([[0, 1], [2, 2]]))
    assert found.tolist() == [[1.0, 10.0], [0.0, 100.0]]


@pytest.fixture
def table():
    kept = [(table, dict(table)) for table in (PRIMITIVES, UFUNCS)]
    batch._warn_of_loop.cache_clear()
    yield
    for changed, before in kept:
        changed.clear()
        changed.update(before)


@pytest.mark.usefixtures("table")
def test_without_a_rule_it_loops_and_says_so_once():
    cube = register_primitive(lambda x, y: x**3 * y, name="unbatched_cube")
    defvjp(cube, lambda ans, x, y: lambda ct: ct * 3 * x**2 * y, lambda ans, x, y: lambda ct: ct * x**3)
    defjvp(cube, lambda t, ans, x, y: t * 3 * x**2 * y, lambda t, ans, x, y: t * x**3)
    with pytest.warns(errors.LoopWarning, match="vmap has no batching rule for unbatched_cube and runs it in a loop"):
        assert fg.vmap(cube, in_axes=(0, None))(X, 2.0).tolist() == (2 * X**3).tolist()
    with warnings.catch_warnings(action="error"):
        found = fg.vmap(fg.grad(lambda x, y: np.sum(cube(x, y))), in_axes=(0, None))(X, 2.0)
    assert found.tolist() == (6 * X**2).tolist()


ASKING = {
    "if": lambda x: x if x > 0 else -x,
    "float": lambda x: float(x) * x,
    "int": lambda x: int(x) * x,
    "item": lambda x: x.item() * x,
    "numpy": lambda x: x.numpy() * x,
    "np.arange": lambda x: np.sum(np.arange(0.0, x)),
    "np.float64": lambda x: np.float64(x) * x,
    "np.max of np.array": lambda x: np.max(np.array([x, x])),
    "a mask": lambda x: np.sum(np.sort(fnp.ones(3)[fnp.ones(3) > x])),
}


@pytest.mark.parametrize("f", ASKING.values(), ids=ASKING)
def test_asking_for_a_value(f):
    with pytest.raises(errors.ConcretizationError, match=r"needs a value(.|\n)*test_vmap.py(.|\n)*np.where"):
        fg.vmap(f)(X[:, 0])
    assert fg.vmap(np.sin)(X).shape == X.shape  # nothing was left open


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.asarray(x) * x,
        lambda x: np.sum(np.array([x, x * x])),
        lambda x: np.array([[x, 1.0], [x * x, 2.0]]) @ np.array([x, 3.0]),
        lambda x: np.full(2, x) * x,
    ],
)
def test_arrays_of_numbers_that_are_mapped(f):
    expected = np.stack([f(x) for x in X[:, 0]])
    np.testing.assert_allclose(fg.vmap(f)(X[:, 0]), expected, rtol=1e-14)
    slopes = np.stack([(f(x + 1e-6) - f(x - 1e-6)) / 2e-6 for x in X[:, 0]])
    np.testing.assert_allclose(fg.vmap(fg.jacobian(f))(X[:, 0]), slopes, rtol=1e-7)


def test_bad_axes():
    def f(x, shift):
        return x + shift

    with pytest.raises(errors.AxisError, match="axes of different sizes: 3 for 'x', 2 for 'shift'") as caught:
        fg.vmap(f)(X, Y)
    assert "\nGive in_axes=None to arguments that are the same for all examples." in str(caught.value)
    with pytest.raises(errors.AxisError, match=r"in_axes names axis 2 of 'x', which has shape \(3, 2\)"):
        fg.vmap(f, in_axes=(2, None))(X, 1.0)
    with pytest.raises(errors.AxisError, match=r"in_axes names axis 0 of 'shift', which has shape \(\)"):
        fg.vmap(f)(X, 1.0)
    with pytest.raises(errors.AxisError, match="has no argument to map over"):
        fg.vmap(f, in_axes=None)(X, X)
    with pytest.raises(errors.AxisError, match=r"in_axes is \(0,\), which does not match"):
        fg.vmap(f, in_axes=(0,))(X, X)
    with pytest.raises(errors.AxisError, match="out_axes is 5 for a result of f with 2 axes"):
        fg.vmap(f, out_axes=5)(X, X)
    with pytest.raises(errors.AxisError, match="out_axes is None for a result of f that differs"):
        fg.vmap(f, out_axes=None)(X, X)
    with pytest.raises(errors.NotCallableError, match="vmap takes a function, not 3"):
        fg.vmap(3)


USES = {
    "an operator": lambda t: t + 0,
    "a reflected operator": lambda t: 1.0 - t,
    "a comparison": lambda t: t == 1.0,
    "a function": np.sin,
    "a sum": lambda t: t.sum(),
    "joining": lambda t: np.stack([t, t]),
    "an index": lambda t: t[0],
    "a write": lambda t: t.__setitem__(0, 1.0),
    "in place": lambda t: t.__iadd__(1.0),
    "a view": lambda t: t.T,
    "its dtype": lambda t: t.dtype,
    "a value": lambda t: t.numpy(),
    "a list": lambda t: t.tolist(),
    "an array": np.asarray,
    "its text": str,
    "a variable": fg.Variable,
    "beside what is traced": lambda t: fg.grad(lambda x: np.sum(x * t))(1.0),
    "as an argument": lambda t: fg.grad(np.sum)(t),
    "in another batch": lambda t: fg.vmap(lambda x: x * t)(np.ones(4)),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_tensor_of_a_batch_or_recording_that_has_ended(use):
    kept = []

    def f(x):
        kept.append(2 * x)
        return x

    assert fg.vmap(f)(X).tolist() == X.tolist()
    fg.trace(f)(X)
    fg.vmap(fg.grad(lambda x: np.sum(f(x))))(X)
    for t, owner in zip(kept, ("vmap", "recording", "vmap"), strict=True):
        with pytest.raises(errors.LeakedTensorError, match=rf"belongs to a {owner} that has ended(.|\n)*Return it"):
            use(t)


def test_the_shape_of_a_tensor_of_a_batch_that_has_ended():
    kept = []
    fg.vmap(lambda x: kept.append(x) or x)(X)
    for ask in (np.shape, len, lambda t: t.size, lambda t: t.ndim, iter):
        with pytest.raises(errors.LeakedTensorError):
            ask(kept[0])


def test_what_a_batch_returns_can_be_used():
    kept = []

    def f(x):
        kept.append(x)
        return {"sum": np.sum(x), "x": x, "fixed": np.ones(2)}

    result = fg.vmap(f)(X)
    assert (result["sum"] + result["x"][:, 0] + result["fixed"][:, 0]).shape == (3,)
    with pytest.raises(errors.LeakedTensorError):
        fg.vmap(lambda x: kept[0] * x)(X)
    with pytest.raises(ZeroDivisionError):
        fg.vmap(lambda x: kept.append(x) or 1 / 0)(X)
    with pytest.raises(errors.LeakedTensorError):
        kept[-1] + 1


def test_random_numbers_that_all_examples_share_come_with_a_warning():
    draws = {
        "normal": lambda x: x + np.random.normal(size=2),
        "uniform": lambda x: x * np.random.uniform(size=2),
        "permutation": lambda x: x[np.random.permutation(2)],
        "a mask": lambda x: np.where(np.random.rand(2) > 0.5, x, 0.0),
    }
    for draw in draws.values():
        for call in (
            fg.vmap(draw),
            fg.vmap(fg.grad(lambda x: np.sum(draw(x) ** 2))),
            fg.grad(lambda x: np.sum(fg.vmap(draw)(x))),
        ):
            with pytest.warns(errors.SharedDrawsWarning, match="the same for all examples.*default_rng") as caught:
                call(X)
            assert [each.filename for each in caught] == [__file__]
    with pytest.warns(errors.SharedDrawsWarning):
        noisy = fg.vmap(draws["normal"])(X) - X
    assert np.ptp(noisy, axis=0).max() < 1e-12


@pytest.mark.filterwarnings("error")
def test_draws_of_an_algorithm_come_without_a_warning():
    """SciPy estimates norms of powers by random vectors, and integrates over boxes at random points."""
    a = np.random.default_rng(1).normal(size=(3, 20, 20)) + 30 * np.eye(20)

    def power(a):
        return linalg.fractional_matrix_power(a, 0.3)

    state = np.random.get_state()[1:3]
    roots = fg.vmap(power)(a)
    assert np.random.get_state()[2] != state[1]  # so this test shows something
    np.testing.assert_allclose(roots[1], power(a[1]), rtol=1e-12)

    with pytest.warns(errors.SharedDrawsWarning):
        fg.vmap(lambda a: power(a) + np.random.uniform())(a)
    with pytest.warns(errors.SharedDrawsWarning):
        fg.vmap(lambda a: power(a * np.random.uniform()))(a)


@pytest.mark.filterwarnings("error")
def test_random_numbers_of_each_example_come_without_a_warning():
    rng = fg.random.default_rng(0)
    np.random.seed(0)
    noise = np.random.normal(size=3)
    noisy = fg.vmap(lambda x, noise: x + noise + rng.normal())(X, noise)
    assert np.ptp(noisy - X, axis=0).all()
    fg.jacobian(lambda x: x * np.random.normal())(X[0])  # whose directions are no examples


# Masks that differ between examples


def _zeros_where_large(x):
    y = x * 1.0
    y[x > 0.3] = 0.0
    return y


def _rows_of_traced_values(x):
    y = x * 1.0
    y[x[:, 0] > 0.3] = x[0] * 2.0
    return y


def _traced_number(x):
    y = x * 1.0
    y[x > 0.3] = np.sum(x)
    return y


def _integers_into_rows(x):
    y = x * 1.0
    y[x[:, 0] > 0.0] = np.arange(4)
    return y


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("f", [_zeros_where_large, _rows_of_traced_values, _traced_number, _integers_into_rows])
def test_one_value_can_be_written_where_a_mask_is_true(f, dtype):
    x = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(dtype)
    found = fg.vmap(f)(x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, [f(each) for each in x])
    gradient = fg.grad(lambda x: np.sum(np.cos(f(x))))
    np.testing.assert_allclose(fg.vmap(gradient)(x), [gradient(each) for each in x], rtol=1e-5)
    np.testing.assert_allclose(fg.jacfwd(f)(x[0]), fg.jacrev(f)(x[0]), rtol=1e-5)


def test_a_mask_of_a_batch_has_the_shape_of_the_array():
    def f(x, count):
        y = x * 1.0
        y[x[:count, 0] > 0.0] = 0.0
        return y

    x = np.ones((5, 3, 4))
    for count in (1, 2):
        with pytest.raises(IndexError, match="mask"):
            fg.vmap(lambda x, count=count: f(x, count))(x)


def test_as_many_values_as_a_mask_has_true_elements_are_refused_in_a_batch():
    def f(x):
        y = x * 1.0
        y[x > 0.0] = np.ones(2)
        return y

    with pytest.raises(errors.ConcretizationError, match="indexing with a mask"):
        fg.vmap(f)(np.array([[1.0, 2.0, -3.0], [1.0, -2.0, 3.0]]))


def test_a_mask_of_a_view_in_a_batch():
    def f(x):
        y = x * 1.0
        turned = y.T
        turned[turned > 0.0] = 0.0
        return y

    x = np.arange(-9.0, 9.0).reshape(2, 3, 3)
    assert fg.vmap(f)(x).tolist() == np.minimum(x, 0.0).tolist()
    assert fg.vmap(fg.grad(lambda x: np.sum(f(x) ** 2)))(x).tolist() == (2 * np.minimum(x, 0.0)).tolist()


def test_values_for_the_true_elements_of_a_mask_have_derivatives_one_by_one():
    mask, weights = np.array([[True, False, True], [False, True, False]]), np.arange(6.0).reshape(2, 3)

    def f(values, rows):
        y = np.ones((2, 3)) * values[0] * 0.0
        y[mask] = values
        z = y * 1.0
        z[mask[:, 0]] = rows
        return np.sum(weights * y) + 10.0 * np.sum(weights * z)

    for_values, for_rows = fg.grad(f, argnums=(0, 1))(np.ones(3), np.ones((1, 3)))
    np.testing.assert_allclose(for_values, [0.0, 2.0, 44.0])
    np.testing.assert_allclose(for_rows, [[0.0, 10.0, 20.0]])
