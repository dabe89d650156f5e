"""Jacobians, Hessians and products with them, against closed forms."""

import collections
import tracemalloc

import numpy as np
import pytest
import scipy.optimize

import fgrad as fg
from fgrad import errors
from fgrad.core.tree import flatten

RNG = np.random.default_rng(1)
A = RNG.normal(size=(3, 2))
H = np.array([[3.0, 1.0], [1.0, 1.0]])
X = np.array([0.5, -1.5])
Point = collections.namedtuple("Point", "x y")

JACOBIANS = [fg.jacfwd, fg.jacrev, fg.jacobian]


def bent(x):
    return np.sin(A @ x)


BENT = np.cos(A @ X)[:, None] * A


@pytest.mark.parametrize("jac", JACOBIANS)
@pytest.mark.parametrize("chunk_size", [None, 1, 2, 100])
def test_a_matrix(jac, chunk_size):
    found = jac(bent, chunk_size=chunk_size)(X)
    assert (type(found), found.shape) == (fg.Tensor, (3, 2))
    np.testing.assert_allclose(found, BENT, rtol=1e-14)


@pytest.mark.parametrize("jac", JACOBIANS)
def test_shapes(jac):
    assert jac(lambda x: x * X)(2.0).tolist() == X.tolist()
    assert jac(lambda x: np.sum(x * x))(X).tolist() == (2 * X).tolist()
    assert jac(lambda x: x * x)(3.0).item() == 6.0
    assert jac(lambda x: x[:0])(X).shape == (0, 2)
    m = RNG.normal(size=(2, 3))
    found = jac(lambda m: m.T)(m)
    np.testing.assert_array_equal(found, np.einsum("il,jk->ijkl", np.eye(3), np.eye(2)))


@pytest.mark.parametrize("jac", JACOBIANS)
def test_containers(jac):
    def f(p, q):
        return {"u": p["a"] * q, "v": (p["b"] ** 2, q)}

    p = {"a": np.array([1.0, 2.0]), "b": 3.0}
    found = jac(f)(p, 5.0)
    assert found["u"]["a"].tolist() == [[5.0, 0.0], [0.0, 5.0]]
    assert found["u"]["b"].tolist() == [0.0, 0.0]
    assert found["v"][0]["b"].item() == 6.0
    assert found["v"][1]["a"].tolist() == [0.0, 0.0]
    by_p, by_q = jac(f, argnums=(0, 1))(p, 5.0)
    assert by_p["u"]["a"].tolist() == found["u"]["a"].tolist()
    assert by_q["u"].tolist() == [1.0, 2.0]
    assert jac(f, argnums="q")(p, q=5.0)["v"][1].item() == 1.0
    point = jac(lambda p: p.x * p.y)(Point(2.0, 3.0))
    assert (type(point), point.x.item(), point.y.item()) == (Point, 3.0, 2.0)


@pytest.mark.parametrize("jac", JACOBIANS)
def test_float32_stays(jac):
    assert jac(lambda x: np.sin(x) * x)(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("jac", JACOBIANS)
@pytest.mark.parametrize("kind", [int, bool])
def test_a_jacobian_of_integers_is_no_integer(jac, kind):
    found = jac(lambda x: x.astype(kind))(X.astype(np.float32))
    assert (found.dtype, found.shape, np.any(found.numpy())) == (np.float32, (2, 2), False)


def test_complex():
    z = np.array([1 + 2j, 3 - 1j])
    expected = np.diag(2 * z)
    np.testing.assert_allclose(fg.jacrev(lambda z: z * z)(z), expected)
    np.testing.assert_allclose(fg.jacobian(lambda z: z * z)(z), expected)
    np.testing.assert_allclose(fg.jacrev(lambda x: x * x * (1 + 2j))(X), np.diag(2 * X) * (1 + 2j))
    np.testing.assert_allclose(fg.jacfwd(lambda x: x * x * (1 + 2j))(X), np.diag(2 * X) * (1 + 2j))
    np.testing.assert_allclose(fg.jacrev(lambda z: np.abs(z) ** 2)(z), np.diag(2 * z))
    with pytest.raises(errors.ParameterError, match="with respect to complex arguments needs reverse mode"):
        fg.jacfwd(lambda z: z * z)(z)


def test_the_mode_is_chosen_by_the_shapes():
    calls = []

    def three(x):
        calls.append(type(x._trace).__name__)
        return np.stack([x[0], x[0] ** 2, x[0] ** 3])

    for size, mode, chunk_size, expected in [
        (1, "auto", None, "ForwardTrace"),
        (8, "auto", None, "ForwardTrace"),
        (8, "auto", 8, "ForwardTrace"),
        (8, "auto", 4, "ReverseTrace"),
        (9, "auto", None, "ReverseTrace"),
        (1, "reverse", None, "ReverseTrace"),
        (9, "forward", None, "ForwardTrace"),
    ]:
        calls.clear()
        found = fg.jacobian(three, mode=mode, chunk_size=chunk_size)(np.full(size, 2.0))
        assert calls == [expected]
        assert found[:, 0].tolist() == [1.0, 4.0, 12.0]
        assert not found[:, 1:].any()
    calls.clear()
    assert fg.jacobian(three)(np.array([2.0j]))[:, 0].tolist() == [1.0, 4.0j, -12.0]
    assert calls == ["ReverseTrace"]


def several(x):
    return {"a": [np.sin(np.outer(x, x)), x * 2.0], "b": x[0]}


def masked(x):
    return np.concatenate([np.where(x > 0, np.sqrt(x), 0.0) * k for k in range(4)])


def unconnected(x):
    return [np.outer(x, x), np.ones(2), np.argsort(x), 1.0]


def with_a_rule(x):
    square = fg.custom_vjp(lambda x: x**2)
    square.defvjp(lambda x: (square(x), x), lambda x, ct: (2 * x * ct,))
    return np.outer(square(x), np.arange(5.0))


@pytest.mark.parametrize("chunk_size", [None, 4])
@pytest.mark.parametrize("f", [several, masked, unconnected, with_a_rule])
def test_a_tall_jacobian_is_that_of_either_mode(f, chunk_size):
    x, calls = np.arange(12.0), []

    def counted(x):
        calls.append(type(x._trace).__name__)
        return f(x)

    found = fg.jacobian(counted, chunk_size=chunk_size)(x)
    assert calls == ["ReverseTrace"]
    for derivative in (fg.jacfwd, fg.jacrev):
        for own, other in zip(flatten(found)[0], flatten(derivative(f)(x))[0], strict=True):
            np.testing.assert_allclose(own, other, atol=1e-12)


def test_a_tall_jacobian_by_several_arguments_and_its_derivative():
    tree, y = {"a": np.arange(9.0), "how": "squared", "b": (1.5, None)}, np.arange(3.0)

    def f(tree, y):
        product = np.outer(np.outer(tree["a"], y), np.sin(tree["a"]) * tree["b"][0])
        return product**2 if tree["how"] == "squared" else product

    by_tree, by_y = fg.jacobian(f, argnums=(0, 1))(tree, y)
    others = fg.jacfwd(f, argnums=(0, 1))(tree, y)
    assert by_tree["how"] is others[0]["how"] is None
    for own, other in [(by_tree["a"], others[0]["a"]), (by_tree["b"][0], others[0]["b"][0]), (by_y, others[1])]:
        np.testing.assert_allclose(own, other, atol=1e-12)
    x = np.linspace(0.1, 1.0, 10)
    for outer in (fg.grad, fg.hessian, lambda g: lambda x: fg.jvp(g, (x,), (x,))[1]):
        expected = outer(lambda x: np.sum(fg.jacrev(lambda x: np.outer(x, np.sin(x)))(x) ** 2))
        found = outer(lambda x: np.sum(fg.jacobian(lambda x: np.outer(x, np.sin(x)))(x) ** 2))
        np.testing.assert_allclose(found(x), expected(x), rtol=1e-10)


SUM, ELEMENTS = (lambda x: np.sum(np.sin(x) * x)), (lambda x: np.sin(x) * x)
ONCE = {
    "grad": (fg.grad, SUM),
    "value_and_grad": (fg.value_and_grad, SUM),
    "gradients_function": (fg.gradients_function, SUM),
    "elementwise_grad": (fg.elementwise_grad, ELEMENTS),
    "vjp": (lambda f: lambda x: fg.vjp(f, x)[1](x), ELEMENTS),
    "jvp": (lambda f: lambda x: fg.jvp(f, (x,), (x,)), ELEMENTS),
    "linearize": (lambda f: lambda x: fg.linearize(f, x)[1](x), ELEMENTS),
    "jacobian": (fg.jacobian, ELEMENTS),
    "jacobian, tall": (fg.jacobian, lambda x: np.outer(x, x)),
    "jacobian, wide": (fg.jacobian, SUM),
    "jacobian, chunks": (lambda f: fg.jacobian(f, chunk_size=2), lambda x: np.outer(x, x)),
    "jacrev": (fg.jacrev, ELEMENTS),
    "jacrev, chunks": (lambda f: fg.jacrev(f, chunk_size=2), ELEMENTS),
    "jacfwd": (fg.jacfwd, ELEMENTS),
    "hessian": (fg.hessian, SUM),
    "hvp": (lambda f: lambda x: fg.hvp(f)(x, x), SUM),
    "gauss_newton_vp": (lambda f: lambda x: fg.gauss_newton_vp(f)(x, x), ELEMENTS),
    "laplacian": (fg.laplacian, SUM),
    "vmap": (fg.vmap, np.sin),
    "sparsity": (fg.sparsity, ELEMENTS),
}


@pytest.mark.parametrize("size", [1, 5, 20])
@pytest.mark.parametrize(("transform", "f"), ONCE.values(), ids=ONCE)
def test_the_function_runs_once(transform, f, size):
    calls = []

    def counted(x):
        calls.append(1)
        return f(x)

    transform(counted)(np.linspace(0.1, 0.9, size))
    assert len(calls) == 1


@pytest.mark.parametrize("f", [ELEMENTS, lambda x: np.outer(x, x)])
def test_a_sparse_derivative_runs_the_function_once_more_for_its_pattern(f):
    calls, x = [], np.linspace(0.1, 0.9, 20)

    def counted(x):
        calls.append(1)
        return f(x)

    for derivative in (fg.sparse_jacobian(counted), fg.sparse_hessian(lambda x: np.sum(counted(x)))):
        calls.clear()
        derivative(x)
        assert len(calls) == 2
        derivative(x + 0.1)
        assert len(calls) == 3


def test_hessian():
    np.testing.assert_allclose(fg.hessian(lambda x: 0.5 * x @ H @ x)(X), H, rtol=1e-14)
    np.testing.assert_allclose(fg.hessian(lambda x: np.exp(x[0]) * x[1] ** 2)(X), [
        [np.exp(X[0]) * X[1] ** 2, 2 * np.exp(X[0]) * X[1]], [2 * np.exp(X[0]) * X[1], 2 * np.exp(X[0])]
    ])  # fmt: skip
    assert fg.hessian(lambda x: x**3)(2.0).item() == 12.0
    nested = fg.hessian(lambda p: p["a"] ** 2 * p["b"])({"a": 3.0, "b": 5.0})
    assert {k: {j: v.item() for j, v in row.items()} for k, row in nested.items()} == {
        "a": {"a": 10.0, "b": 6.0}, "b": {"a": 6.0, "b": 0.0}
    }  # fmt: skip
    both = fg.hessian(lambda x, y: x * x * y, argnums=(0, 1))(3.0, 5.0)
    assert [[v.item() for v in row] for row in both] == [[10.0, 6.0], [6.0, 0.0]]


def test_the_record_of_a_hessian_is_dropped_on_the_way_back():
    """What its steps keep is not there to the end, as it is not in the Jacobian of the gradient."""

    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    def peak(function):
        function(point)
        tracemalloc.start()
        try:
            function(point)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    point = np.linspace(0.5, 1.5, 200)
    assert peak(fg.hessian(rosenbrock)) < 1.1 * peak(fg.jacfwd(fg.grad(rosenbrock)))


def test_hessian_of_several_results():
    found = fg.hessian(bent)(X)
    expected = -np.sin(A @ X)[:, None, None] * A[:, :, None] * A[:, None, :]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("outer", JACOBIANS)
@pytest.mark.parametrize("inner", JACOBIANS)
def test_third_derivatives(outer, inner):
    found = outer(inner(fg.grad(lambda x: np.sum(x**3) + x[0] * x[1] ** 2)))(X)
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 0] = expected[1, 1, 1] = 6.0
    expected[0, 1, 1] = expected[1, 0, 1] = expected[1, 1, 0] = 2.0
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_hvp():
    v = np.array([1.0, 10.0])
    np.testing.assert_allclose(fg.hvp(lambda x: 0.5 * x @ H @ x)(X, v), H @ v, rtol=1e-14)
    found = fg.hvp(lambda p, c: c * p["a"] ** 2 * p["b"])({"a": 3.0, "b": 5.0}, {"a": 1.0, "b": 2.0}, 2.0)
    assert (found["a"].item(), found["b"].item()) == (44.0, 12.0)
    with pytest.raises(errors.TangentError, match=r"x has shape \(2,\), and v has shape \(3,\)\.\nv has the"):
        fg.hvp(lambda x: np.sum(x))(X, np.ones(3))


def test_products_make_no_matrix():
    n = 2000
    x = np.linspace(0.0, 1.0, n)
    for product in (fg.hvp(lambda x: np.sum(np.sin(x) * x[::-1])), fg.gauss_newton_vp(lambda x: np.sin(x) * x[::-1])):
        product(x, x)
        tracemalloc.start()
        product(x, x)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < n * n * 8 / 20


def test_products_serve_scipy():
    def rosenbrock(x):
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    found = scipy.optimize.minimize(
        rosenbrock,
        np.zeros(4),
        jac=fg.grad(rosenbrock),
        hessp=fg.hvp(rosenbrock),
        method="Newton-CG",
        options={"xtol": 1e-12},
    )
    np.testing.assert_allclose(found.x, np.ones(4), atol=1e-6)


def test_gauss_newton():
    v = np.array([1.0, -2.0])
    np.testing.assert_allclose(fg.gauss_newton_vp(bent)(X, v), BENT.T @ BENT @ v, rtol=1e-13)


def test_linearize():
    runs = []

    def f(x, y):
        runs.append(1)
        return {"s": np.sin(x) * y, "t": x}

    value, pushforward = fg.linearize(f, X, 2.0)
    np.testing.assert_allclose(value["s"], np.sin(X) * 2)
    for t in (np.array([1.0, 0.0]), np.array([3.0, -1.0])):
        moved = pushforward(t, 10.0)
        np.testing.assert_allclose(moved["s"], np.cos(X) * t * 2 + np.sin(X) * 10)
        np.testing.assert_array_equal(moved["t"], t)
    assert len(runs) == 1
    with pytest.raises(errors.SeedError, match=r"has shape \(3,\), and its result has shape \(2,\)"):
        pushforward(np.ones(3), 1.0)


def test_linearize_complex_and_under_grad():
    _, pushforward = fg.linearize(lambda z: z * z, 1 + 2j)
    assert pushforward(1j).numpy() == 2j * (1 + 2j)
    assert fg.grad(lambda x: fg.linearize(lambda y: x * y**2, 3.0)[1](1.0))(2.0).item() == 6.0
    assert fg.grad(lambda x: fg.linearize(lambda y: y**3, x)[1](1.0))(2.0).item() == 12.0


def test_elementwise_grad():
    np.testing.assert_allclose(fg.elementwise_grad(np.tanh)(X), 1 - np.tanh(X) ** 2, rtol=1e-14)
    twice = fg.elementwise_grad(fg.elementwise_grad(lambda x, c: c * x**3), argnums=0)
    np.testing.assert_allclose(twice(X, 2.0), 12 * X, rtol=1e-14)


def test_gradients_of_jacobians():
    """d/dx of the squared Frobenius norm of the Jacobian of x**2, which is diag(2 x)."""
    for jac in JACOBIANS:
        np.testing.assert_allclose(fg.grad(lambda x, jac=jac: np.sum(jac(lambda y: y**2)(x) ** 2))(X), 8 * X)
        np.testing.assert_allclose(fg.vmap(jac(lambda y: y**2))(np.stack([X, 2 * X]))[1], np.diag(4 * X))


def test_variables_and_python_control_flow():
    w = fg.Variable(np.array([2.0, 3.0]))

    def f(x):
        return w * x if x[0] > 0 else -w * x

    for jac in JACOBIANS:
        np.testing.assert_array_equal(jac(f)(X), np.diag([2.0, 3.0]))


@pytest.mark.parametrize("jac", JACOBIANS)
def test_bad_input(jac):
    with pytest.raises(errors.IntegerInputError, match="jacobian of <lambda>: the argument 'x' is 3, of type int"):
        jac(lambda x: x * x)(3)
    with pytest.raises(errors.ParameterError, match="chunk_size must be a positive integer or None; it is 0"):
        jac(bent, chunk_size=0)(X)
    with pytest.raises(errors.NotCallableError, match="jacobian takes a function, not 3.0 of type float"):
        jac(3.0)
    with pytest.raises(errors.NoResultError, match="did you forget to return a value"):
        jac(lambda x: None)(X)


def test_bad_mode():
    with pytest.raises(errors.ParameterError, match='mode must be "auto", "forward" or "reverse"; it is \'both\''):
        fg.jacobian(bent, mode="both")(X)


def test_errors_inside_of_a_hessian_name_the_users_function():
    def energy(z):
        return np.abs(z) ** 2

    with pytest.raises(ValueError, match="Jacobian of energy with respect to complex arguments"):
        fg.hessian(energy)(1.0 + 2.0j)


def test_products_and_elementwise_derivatives_are_decorators_with_parentheses_too():
    x, v = np.array([0.3, 0.9]), np.array([1.0, -2.0])

    @fg.hvp()
    def curvature(x):
        return np.sum(np.sin(x) * x)

    @fg.gauss_newton_vp()
    def residuals(x):
        return np.sin(x)

    @fg.elementwise_grad(argnums="y")
    def power(x, y):
        return x**y

    np.testing.assert_allclose(curvature(x, v), (2 * np.cos(x) - x * np.sin(x)) * v)
    np.testing.assert_allclose(residuals(x, v), np.cos(x) ** 2 * v)
    np.testing.assert_allclose(power(x, v), x**v * np.log(x))
