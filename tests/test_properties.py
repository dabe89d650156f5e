"""Properties that hold for all functions, on functions and arrays that Hypothesis makes up."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import fgrad as fg

checked = settings(deadline=None, max_examples=60, derandomize=True)

NUMBERS = st.floats(-2.0, 2.0, allow_subnormal=False).map(lambda x: round(x, 3))


def arrays(shape):
    return npst.arrays(np.float64, shape, elements=NUMBERS)


VECTORS = arrays(4)

# Smooth everywhere and tame, so that central differences are accurate.
UNARY = {
    "sin": np.sin,
    "tanh": np.tanh,
    "exp": lambda x: np.exp(np.sin(x)),
    "sqrt": lambda x: np.sqrt(1.0 + x * x),
    "log": lambda x: np.log(2.0 + np.cos(x)),
    "square": lambda x: np.square(np.sin(x)),
    "negative": lambda x: -x,
    "arctan": np.arctan,
    "reciprocal": lambda x: 1.0 / (2.0 + np.sin(x)),
    "cube": lambda x: np.tanh(x) ** 3,
    "power": lambda x: (1.5 + np.sin(x)) ** 1.7,
    "reversed": lambda x: x[::-1],
    "cumulated": lambda x: np.cumsum(x) * 0.25,
    "centred": lambda x: x - np.mean(x),
    "summed": lambda x: np.sum(x) * np.full(4, 0.25),
    "picked": lambda x: x[[0, 2, 0, 3]],
    "reshaped": lambda x: np.ravel(x.reshape(2, 2).T),
    "outer": lambda x: np.sum(x[:, None] * np.tanh(x)[None, :], axis=1) * 0.25,
    "normalized": lambda x: x / np.sqrt(1.0 + np.sum(x * x)),
    "softmax": lambda x: np.exp(np.tanh(x)) / np.sum(np.exp(np.tanh(x))),
    "stacked": lambda x: np.sum(np.stack([x, x * x * 0.1]), axis=0),
    "joined": lambda x: np.concatenate([x[2:], np.sin(x[:2])]),
    "selected": lambda x: np.where(np.array([True, False, True, False]), np.sin(x), np.cos(x)),
    "real part": lambda x: np.real(np.exp(1j * x)),
    "modulus": lambda x: np.abs(x + 2.0j),
}
BINARY = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: np.tanh(x) * np.tanh(y),
    "divide": lambda x, y: x / (2.0 + np.sin(y)),
    "hypot": lambda x, y: np.hypot(1.0 + x * x, y),
    "power": lambda x, y: (1.5 + np.sin(x)) ** np.cos(y),
    "arctan2": lambda x, y: np.arctan2(x, 3.0 + np.sin(y)),
    "logaddexp": np.logaddexp,
    "product with a scalar": lambda x, y: x * np.tanh(np.sum(y)),
    "matmul": lambda x, y: np.outer(np.tanh(x), np.tanh(y)) @ np.tanh(x),
}


class Expression:
    """A composed function of two vectors; its text is what a failing example shows."""

    def __init__(self, text, function):
        self.text, self.function = text, function

    def __call__(self, x, y):
        return self.function(x, y)

    def __repr__(self):
        return self.text


LEAVES = [
    Expression("x", lambda x, y: x),
    Expression("y", lambda x, y: y),
    Expression("1.5", lambda x, y: np.full(4, 1.5)),
]


def _larger(children):
    def unary(name, a):
        return Expression(f"{name}({a})", lambda x, y: UNARY[name](a(x, y)))

    def binary(name, a, b):
        return Expression(f"{name}({a}, {b})", lambda x, y: BINARY[name](a(x, y), b(x, y)))

    return st.one_of(
        st.builds(unary, st.sampled_from(sorted(UNARY)), children),
        st.builds(binary, st.sampled_from(sorted(BINARY)), children, children),
    )


def with_x(expression):
    """Make sure that the first argument matters."""
    return Expression(f"x * 0.5 + {expression}", lambda x, y: x * 0.5 + expression(x, y))


EXPRESSIONS = st.recursive(st.sampled_from(LEAVES), _larger, max_leaves=8).map(with_x)
WEIGHTS = np.array([1.0, -0.5, 2.0, 0.25])


def value(f, x, y):
    return np.sum(f(x, y) * WEIGHTS)


def gradient(f, x, y):
    return np.asarray(fg.grad(lambda x: value(f, x, y))(x))


def difference(f, x, direction):
    """Return the derivative along a direction by central differences of fourth order."""
    h = 1e-3
    f1, f2 = (f(x + s * h * direction) - f(x - s * h * direction) for s in (1, 2))
    return (8 * f1 - f2) / (12 * h)


@given(EXPRESSIONS, VECTORS, VECTORS, VECTORS)
@checked
def test_both_modes_agree_with_central_differences(f, x, y, direction):
    reverse = np.sum(gradient(f, x, y) * direction)
    _, tangent = fg.jvp(lambda x: value(f, x, y), (x,), (direction,))
    assert tangent.item() == pytest.approx(reverse, rel=1e-10, abs=1e-10)
    assert reverse == pytest.approx(difference(lambda x: value(f, x, y), x, direction), rel=1e-5, abs=1e-6)


@given(EXPRESSIONS, VECTORS, VECTORS, VECTORS)
@checked
def test_the_second_derivative_is_the_same_by_every_route(f, x, y, direction):
    def loss(x):
        return value(f, x, y)

    def slope(x):
        return np.sum(fg.grad(loss)(x) * direction)

    routes = [
        fg.grad(slope)(x),
        fg.jvp(fg.grad(loss), (x,), (direction,))[1],
        fg.grad(lambda x: fg.jvp(loss, (x,), (direction,))[1])(x),
    ]
    for route in routes[1:]:
        np.testing.assert_allclose(np.asarray(route), np.asarray(routes[0]), rtol=1e-8, atol=1e-8)
    exact = np.sum(np.asarray(routes[0]) * direction)
    assert exact == pytest.approx(difference(lambda x: slope(x).item(), x, direction), rel=1e-4, abs=1e-5)


@given(EXPRESSIONS, VECTORS, VECTORS)
@checked
def test_every_way_to_ask_gives_the_same_gradient(f, x, y):
    expected = gradient(f, x, y)
    w, t = fg.Variable(x), fg.constant(x)
    with fg.GradientTape() as tape:
        tape.watch(t)
        z = value(f, t, y)
    ways = [
        fg.gradients_function(lambda x: f(x, y) * WEIGHTS)(x)[0],
        fg.gradients_function(lambda x: f(x, y))(x, dy=WEIGHTS)[0],
        fg.make_vjp(f)(x, y)[1](WEIGHTS)[0],
        fg.vjp(f, x, y)[1](WEIGHTS)[0],
        fg.implicit_gradients(lambda: value(f, w, y))()[0][0],
        tape.gradient(z, t),
        np.stack([fg.jvp(lambda x: value(f, x, y), (x,), (e,))[1] for e in np.eye(4)]),
    ]
    for way in ways:
        np.testing.assert_allclose(np.asarray(way), expected, rtol=1e-10, atol=1e-12)


@given(EXPRESSIONS, VECTORS, VECTORS)
@checked
def test_the_value_is_that_of_plain_numpy(f, x, y):
    expected = f(x, y)
    for result in (
        fg.vjp(f, x, y)[0],
        fg.jvp(f, (x, y), (x, y))[0],
        f(fg.constant(x), y),
        fg.value_and_gradients_function(f)(x, y)[0],
    ):
        np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-13, atol=1e-13)


@given(EXPRESSIONS, EXPRESSIONS, NUMBERS, NUMBERS, VECTORS, VECTORS)
@checked
def test_gradients_are_linear(f, g, a, b, x, y):
    both = gradient(lambda x, y: a * f(x, y) + b * g(x, y), x, y)
    np.testing.assert_allclose(both, a * gradient(f, x, y) + b * gradient(g, x, y), rtol=1e-9, atol=1e-9)


@given(EXPRESSIONS, EXPRESSIONS, VECTORS, VECTORS)
@checked
def test_the_product_rule(f, g, x, y):
    product = np.asarray(fg.grad(lambda x: value(f, x, y) * value(g, x, y))(x))
    expected = gradient(f, x, y) * value(g, x, y) + value(f, x, y) * gradient(g, x, y)
    np.testing.assert_allclose(product, expected, rtol=1e-9, atol=1e-9)


@given(EXPRESSIONS, EXPRESSIONS, VECTORS, VECTORS)
@checked
def test_the_chain_rule(f, g, x, y):
    """The gradient of f(g(x)) is the pullback of g, at x, of the gradient of f at g(x)."""
    inner, pullback = fg.vjp(lambda x: g(x, y), x)
    composed = np.asarray(fg.grad(lambda x: value(f, g(x, y), y))(x))
    (expected,) = pullback(gradient(f, np.asarray(inner), y))
    np.testing.assert_allclose(composed, np.asarray(expected), rtol=1e-9, atol=1e-9)


@given(EXPRESSIONS, VECTORS, VECTORS)
@checked
def test_an_argument_in_two_places_gets_the_sum(f, x, y):
    by_both = fg.grad(lambda x, y: value(f, x, y), argnums=(0, 1))(x, x)
    once = fg.grad(lambda x: value(f, x, x))(x)
    np.testing.assert_allclose(np.asarray(once), np.asarray(by_both[0]) + np.asarray(by_both[1]), rtol=1e-9, atol=1e-9)


# Shapes and indices


@given(st.data(), npst.array_shapes(min_dims=1, max_dims=4, max_side=4))
@checked
def test_what_moves_elements_moves_their_gradients_back(data, shape):
    x = np.arange(float(math.prod(shape))).reshape(shape)
    permutation = data.draw(st.permutations(range(len(shape))))
    flipped = tuple(slice(None, None, -1) if data.draw(st.booleans()) else slice(None) for _ in shape)

    def moved(x):
        return np.ravel(np.transpose(x, permutation)[tuple(flipped[i] for i in permutation)])

    weights = np.sin(np.arange(x.size))
    order = moved(x).astype(int)
    expected = np.empty(x.size)
    expected[order] = weights
    np.testing.assert_array_equal(np.asarray(fg.grad(lambda x: np.sum(moved(x) * weights))(x)).ravel(), expected)
    back = fg.grad(lambda x: 0.5 * np.sum(moved(x) ** 2))(x)  # x itself, there and back again
    np.testing.assert_array_equal(np.asarray(back), x)
    np.testing.assert_array_equal(np.asarray(fg.jvp(moved, (x,), (x,))[1]), moved(x))


@given(st.data(), npst.array_shapes(min_dims=1, max_dims=3, max_side=4))
@checked
def test_the_gradient_of_an_index_is_an_addition_at_it(data, shape):
    x = np.arange(float(math.prod(shape))).reshape(shape)
    key = data.draw(
        st.one_of(
            npst.basic_indices(shape, allow_newaxis=True),
            npst.integer_array_indices(shape, result_shape=npst.array_shapes(max_dims=2, max_side=4)),
            npst.arrays(np.bool_, shape),
            npst.arrays(np.bool_, shape[0]),
        )
    )
    weights = np.cos(np.arange(x[key].size)).reshape(x[key].shape)
    expected = np.zeros(shape)
    np.add.at(expected, key, weights)
    np.testing.assert_allclose(np.asarray(fg.grad(lambda x: np.sum(x[key] * weights))(x)), expected, atol=1e-14)
    _, tangent = fg.jvp(lambda x: x[key], (x,), (x + 1.0,))
    np.testing.assert_array_equal(np.asarray(tangent), (x + 1.0)[key])
    # The gradient of sum(x[key]^2) / 2 puts each x[key] back, once for every time that it was taken.
    second = fg.jvp(fg.grad(lambda x: 0.5 * np.sum(x[key] ** 2)), (x,), (x + 1.0,))[1]
    expected = np.zeros(shape)
    np.add.at(expected, key, (x + 1.0)[key])
    np.testing.assert_allclose(np.asarray(second), expected, atol=1e-13)


@given(st.data(), npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
@checked
def test_broadcasting_is_undone(data, shapes):
    (first, second), result = shapes.input_shapes, shapes.result_shape
    x, y = data.draw(arrays(first)), data.draw(arrays(second))
    weights = np.cos(np.arange(float(math.prod(result)))).reshape(result)
    by_x, by_y = fg.grad(lambda x, y: np.sum(x * y * weights), argnums=(0, 1))(x, y)
    for gradient_, primal, other in ((by_x, x, y), (by_y, y, x)):
        assert gradient_.shape == primal.shape
        # Each element of the primal is used wherever broadcasting puts its number.
        numbers = np.broadcast_to(np.arange(primal.size).reshape(primal.shape), result)
        expected = np.zeros(primal.size)
        np.add.at(expected, numbers.ravel(), (np.broadcast_to(other, result) * weights).ravel())
        np.testing.assert_allclose(np.asarray(gradient_).ravel(), expected, rtol=1e-12, atol=1e-12)


DTYPES = [np.float16, np.float32, np.float64, np.complex64, np.complex128]
FUNCTIONS = {
    "sum": lambda x: np.sum(x),
    "sine": lambda x: np.sum(np.sin(x)),
    "mixed": lambda x: np.sum(x * np.float64(1.5)),
    "promoted": lambda x: np.sum(x * np.ones((2, *x.shape))),
    "integers": lambda x: np.sum(x * np.arange(x.size).reshape(x.shape)),
    "half": lambda x: np.sum(x[..., :1]),
    "power": lambda x: np.sum(x**3),
    "joined": lambda x: np.sum(np.concatenate([x.ravel(), np.ones(2)])),
    "selected": lambda x: np.sum(np.where(np.ones(x.shape, bool), x, 0.0)),
    "unused": lambda x: np.sum(np.zeros(2)) + np.sum(x) * 0,
    "cast": lambda x: np.sum(x.astype(np.complex128)),
    "assigned": lambda x: _assigned(x),
}


def _assigned(x):
    y = x * 1
    y[..., 0] = 2.0
    return np.sum(y)


@given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.sampled_from(DTYPES),
    npst.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3),
)
@checked
def test_gradients_have_the_dtype_and_shape_of_their_primals(name, dtype, shape):
    x = np.full(shape, 0.5, dtype)
    f = FUNCTIONS[name]

    def real(x):
        return np.real(f(x))

    w, t = fg.Variable(x), fg.constant(x)
    with fg.GradientTape() as tape:
        tape.watch(t)
        y = f(t)
    for result in (
        fg.grad(real)(x),
        fg.gradients_function(f)(x)[0],
        fg.vjp(f, x)[1](1.0)[0],
        fg.implicit_gradients(lambda: f(w))()[0][0],
        tape.gradient(y, t),
        fg.grad(lambda x: np.sum(np.abs(fg.grad(real)(x) * x) ** 2))(x),
    ):
        assert (result.dtype, result.shape) == (dtype, shape)
    value_, tangent = fg.jvp(f, (x,), (x,))
    assert (tangent.dtype, tangent.shape) == (value_.dtype, value_.shape)
    assert value_.dtype == f(x).dtype


# In place and not in place


def _keys(n):
    slices = st.builds(
        slice,
        st.one_of(st.none(), st.integers(-n, n)),
        st.one_of(st.none(), st.integers(-n, n)),
        st.sampled_from([None, 1, 2, -1, -2]),
    )
    integers = st.lists(st.integers(-n, n - 1), min_size=1, max_size=5).map(np.array)
    masks = st.lists(st.booleans(), min_size=n, max_size=n).map(np.array)
    return st.one_of(st.integers(-n, n - 1), slices, integers, masks)


STEPS = st.lists(st.tuples(_keys(5), st.sampled_from(["scaled", "number", "own", "added"])), min_size=1, max_size=5)


def _value_for(kind, x, v, key):
    """Return what a step writes: an expression of the right length, or one number."""
    count = np.arange(5)[key].size
    return {
        "scaled": lambda: np.sin(v)[np.arange(count) % 3].reshape(np.shape(np.arange(5)[key])),
        "number": lambda: v[0] * x[2],
        "own": lambda: x[key] * v[1],
        "added": lambda: x[key] + v[2] ** 2,
    }[kind]()


def in_place(steps):
    def f(x, v):
        y = x * 1.0
        for key, kind in steps:
            y[key] = _value_for(kind, y, v, key)
        return y

    return f


def functional(steps):
    """The same by constant matrices that select what stays and what is written."""

    def f(x, v):
        y = x * 1.0
        for key, kind in steps:
            value = _value_for(kind, y, v, key)
            count = np.arange(5)[key].size
            written = np.full(5, -1)
            written[key] = np.arange(count).reshape(np.shape(np.arange(5)[key]))  # the last one wins
            into = (written[:, None] == np.arange(count)[None, :]).astype(float)
            stays = (written < 0).astype(float)
            if np.ndim(value) == 0:
                y = y * stays + (1 - stays) * value
            else:
                y = y * stays + into @ np.ravel(value)
        return y

    return f


@given(STEPS, arrays(5), arrays(3))
@checked
def test_updates_in_place_equal_their_functional_form(steps, x, v):
    weights = np.array([1.0, -2.0, 0.5, 3.0, 0.25])

    def everything(f):
        def loss(x, v):
            return np.sum(np.sin(f(x, v)) * weights)

        def slope(x, v):
            return np.sum(fg.grad(loss, argnums=1)(x, v) * weights[:3])

        return (
            fg.value_and_grad(loss, argnums=(0, 1))(x, v),
            fg.grad(slope, argnums=(0, 1))(x, v),
            fg.jvp(f, (x, v), (x + 1.0, v - 1.0)),
        )

    leaves = [fg.tree_leaves(everything(make(steps))) for make in (in_place, functional)]
    for a, b in zip(*leaves, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-11)


# Complex numbers


@given(
    st.sampled_from([np.exp, np.sin, np.tanh, np.square, lambda z: z**3, lambda z: 1 / (z + 3.0), np.cosh]),
    st.complex_numbers(max_magnitude=1.0, allow_subnormal=False),
    st.complex_numbers(max_magnitude=1.0, allow_subnormal=False),
)
@checked
def test_the_gradient_of_a_real_loss_predicts_its_change(f, z, direction):
    """For a real loss, d loss = Re(conj(gradient) dz)."""

    def loss(z):
        w = f(z)
        return np.real(w * np.conj(w)) + np.imag(w)

    z, direction = np.complex128(z), np.complex128(direction)
    predicted = np.real(np.conj(fg.grad(loss)(z).item()) * direction)
    assert predicted == pytest.approx(difference(loss, z, direction), rel=1e-6, abs=1e-7)
    assert fg.jvp(loss, (z,), (direction,))[1].item() == pytest.approx(predicted, rel=1e-10, abs=1e-12)


@given(arrays(3), arrays(3))
@checked
def test_a_complex_gradient_is_made_of_the_real_ones(a, b):
    def loss(z):
        return np.sum(np.abs(np.exp(z) + z * z + 3.0))

    by_z = np.asarray(fg.grad(loss)(a + 1j * b))
    by_a, by_b = fg.grad(lambda a, b: loss(a + 1j * b), argnums=(0, 1))(a, b)
    np.testing.assert_allclose(by_z, np.asarray(by_a) + 1j * np.asarray(by_b), rtol=1e-12, atol=1e-12)
