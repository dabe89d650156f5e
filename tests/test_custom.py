"""Rules of a user's own, and checkpoints: under every transform, at every order."""

import gc
import pickle
import tracemalloc

import numpy as np
import pytest

import fgrad as fg
from fgrad import errors
from fgrad.testing import check_grads

X = np.array([0.5, 1.5])


def by_vjp():
    @fg.custom_vjp
    def f(x, p):
        return {"s": np.sin(x) * p["a"], "t": x * x}

    def bwd(residuals, ct):
        x, p = residuals
        by_x = ct["s"] * np.cos(x) * p["a"] + ct["t"] * 2 * x
        return by_x, {"a": np.sum(ct["s"] * np.sin(x))}

    f.defvjp(lambda x, p: (f(x, p), (x, p)), bwd)
    return f


def by_jvp():
    @fg.custom_jvp
    def f(x, p):
        return {"s": np.sin(x) * p["a"], "t": x * x}

    def rule(primals, tangents):
        (x, p), (tx, tp) = primals, tangents
        return f(x, p), {"s": np.cos(x) * tx * p["a"] + np.sin(x) * tp["a"], "t": 2 * x * tx}

    f.defjvp(rule)
    return f


def by_gradient():
    @fg.custom_gradient
    def f(x, p):
        def grad_fn(ds, dt):
            return ds * np.cos(x) * p["a"] + dt * 2 * x, {"a": np.sum(ds * np.sin(x))}

        return {"s": np.sin(x) * p["a"], "t": x * x}, grad_fn

    return f


def by_checkpoint():
    return fg.checkpoint(lambda x, p: {"s": np.sin(x) * p["a"], "t": x * x})


FORMS = [by_vjp, by_jvp, by_gradient, by_checkpoint]
P = {"a": np.array(3.0)}


@pytest.fixture(params=FORMS, ids=lambda form: form.__name__)
def f(request):
    return request.param()


def test_values(f):
    found = f(X, P)
    np.testing.assert_allclose(found["s"], np.sin(X) * 3)
    np.testing.assert_allclose(f(X, p=P)["t"], X * X)


def test_both_modes_to_third_order(f):
    check_grads(f, (X, P), order=3)


def test_complex():
    @fg.custom_vjp
    def square(z):
        return z * z

    square.defvjp(lambda z: (square(z), z), lambda z, ct: (ct * np.conjugate(2 * z),))
    check_grads(square, (X + 1j,), order=2)
    check_grads(fg.checkpoint(lambda z: z * z), (X + 1j,), order=2)


def total(f):
    return lambda x, p: np.sum(f(x, p)["s"] * 2.0) + np.sum(f(x, p)["t"])


def test_under_every_transform(f):
    g = total(f)
    expected = 6 * np.cos(X) + 2 * X
    np.testing.assert_allclose(fg.grad(g)(X, P), expected)
    np.testing.assert_allclose(fg.jacfwd(g)(X, P), expected)
    np.testing.assert_allclose(fg.jacrev(g)(X, P), expected)
    np.testing.assert_allclose(fg.hessian(g)(X, P), np.diag(2 - 6 * np.sin(X)), atol=1e-14)
    np.testing.assert_allclose(fg.jacfwd(fg.jacfwd(g))(X, P), np.diag(2 - 6 * np.sin(X)), atol=1e-14)
    np.testing.assert_allclose(fg.jacrev(fg.jacrev(g))(X, P), np.diag(2 - 6 * np.sin(X)), atol=1e-14)
    np.testing.assert_allclose(fg.hvp(lambda x: g(x, P))(X, X), (2 - 6 * np.sin(X)) * X)
    rows = np.stack([X, 2 * X, -X])
    np.testing.assert_allclose(fg.vmap(fg.grad(g), in_axes=(0, None))(rows, P), 6 * np.cos(rows) + 2 * rows)
    np.testing.assert_allclose(
        fg.grad(lambda x: np.sum(fg.vmap(g, in_axes=(0, None))(x, P)))(rows), 6 * np.cos(rows) + 2 * rows
    )
    by_p = fg.grad(lambda p: np.sum(fg.vmap(g, in_axes=(0, None))(rows, p)))(P)
    np.testing.assert_allclose(by_p["a"], 2 * np.sum(np.sin(rows)))
    tangent = fg.jvp(fg.vmap(g, in_axes=(0, None)), (rows, P), (rows, P))[1]
    np.testing.assert_allclose(tangent, np.sum((6 * np.cos(rows) + 2 * rows) * rows + 6 * np.sin(rows), axis=1))
    by_a = fg.vmap(lambda a: g(X, {"a": a}))(np.array([1.0, 2.0]))
    np.testing.assert_allclose(by_a, [g(X, {"a": a}) for a in (1, 2)])
    x = fg.constant(X)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = g(x, P)
        slope = tape.gradient(y, x)
    np.testing.assert_allclose(slope, expected)
    np.testing.assert_allclose(tape.gradient(slope, x), 2 - 6 * np.sin(X))
    w = fg.Variable(X)
    ((gradient, _),) = fg.implicit_gradients(lambda: g(w, P))()
    np.testing.assert_allclose(gradient, expected)


def test_the_rule_is_the_one_that_counts():
    """Not the derivative of the function: the rules here are twice that."""
    doubled = fg.custom_vjp(lambda x: x**2)
    doubled.defvjp(lambda x: (x**2, x), lambda x, ct: (ct * 4 * x,))
    assert fg.grad(doubled)(3.0).item() == 12.0
    assert fg.jvp(doubled, (3.0,), (1.0,))[1].item() == 12.0
    assert fg.vmap(fg.grad(doubled))(X).tolist() == (4 * X).tolist()
    assert fg.grad(lambda x: np.sum(fg.vmap(doubled)(x)))(X).tolist() == (4 * X).tolist()
    forward = fg.custom_jvp(lambda x: x**2)
    forward.defjvp(lambda primals, tangents: (primals[0] ** 2, 4 * primals[0] * tangents[0]))
    assert fg.grad(forward)(3.0).item() == 12.0
    assert fg.jvp(forward, (3.0,), (1.0,))[1].item() == 12.0
    assert fg.vmap(fg.grad(forward))(X).tolist() == (4 * X).tolist()
    straight = fg.custom_gradient(lambda x: (np.round(x), lambda dy: dy))
    assert fg.grad(lambda x: straight(x) * 3)(0.3).item() == 3.0


def test_a_recorded_program_keeps_the_rule():
    doubled = fg.custom_gradient(lambda x: (x**2, lambda dy: dy * 4 * x))
    graph = fg.trace(lambda x: doubled(x) * 3)(2.0)
    assert graph(3.0).item() == 27.0
    assert fg.grad(graph)(3.0).item() == 36.0


def test_second_derivatives_of_a_rule():
    """tensorflow#34503: the derivative of a rule is that of its code."""
    odd = fg.custom_gradient(lambda x: (x**2, lambda dy: dy * x**5))
    assert fg.grad(fg.grad(odd))(2.0).item() == 5 * 2.0**4
    assert fg.jvp(fg.grad(odd), (2.0,), (1.0,))[1].item() == 5 * 2.0**4


def test_the_function_runs_once_and_a_checkpoint_twice():
    runs = []

    def f(x):
        runs.append(1)
        return x * x

    rule = fg.custom_gradient(lambda x: (f(x), lambda dy: dy * 2 * x))
    assert fg.grad(rule)(3.0).item() == 6.0
    assert len(runs) == 1
    runs.clear()
    assert fg.grad(fg.checkpoint(f))(3.0).item() == 6.0
    assert len(runs) == 2


def test_other_arguments():
    @fg.custom_gradient
    def power(x, n, kind="up"):
        assert (type(n), kind) == (int, "up")
        return x**n, lambda dy: (dy * n * x ** (n - 1), None, None)

    assert fg.grad(power)(2.0, 3).item() == 12.0
    assert fg.grad(power)(2.0, n=3).item() == 12.0


def test_methods():
    class Model:
        scale = 3.0

        @fg.custom_gradient
        def f(self, x):
            return self.scale * x, lambda dy: (None, dy * 10)

        @fg.checkpoint
        def g(self, x):
            return self.scale * x * x

    assert fg.grad(Model().f)(1.0).item() == 10.0
    assert fg.grad(Model().g)(2.0).item() == 12.0


def test_metadata():
    def f(x):
        """The square."""
        return x * x

    for wrap in (fg.custom_vjp, fg.custom_jvp, fg.checkpoint):
        assert (wrap(f).__name__, wrap(f).__doc__) == ("f", "The square.")


def test_closures_over_values_of_an_outer_transform():
    def outer(w):
        @fg.custom_vjp
        def f(x):
            return w * x**2

        f.defvjp(lambda x: (w * x**2, x), lambda x, ct: (ct * 2 * w * x,))
        return fg.grad(f)(3.0)

    assert fg.grad(outer)(2.0).item() == 6.0
    assert fg.jvp(outer, (2.0,), (1.0,))[1].item() == 6.0
    assert fg.vmap(outer)(X).tolist() == (6 * X).tolist()


def test_closures_over_values_of_the_same_transform_are_refused():
    def loss(w):
        f = fg.custom_vjp(lambda x: w * x)
        f.defvjp(lambda x: (w * x, None), lambda _, ct: (ct * w,))
        return f(w)

    for transform in (fg.grad, fg.jacfwd, fg.hessian):
        with pytest.raises(errors.ClosureError, match="uses a traced value that is not one of its arguments"):
            transform(loss)(2.0)
    v = fg.Variable(2.0)
    f = fg.custom_gradient(lambda x: (v * x, lambda dy: dy * v))
    with pytest.raises(errors.ClosureError, match=r"Pass the value \(or the variable\) as an argument"):
        fg.implicit_gradients(lambda: f(v * 1.0))()


def test_bad_rules():
    few = fg.custom_gradient(lambda x, y: (x * y, lambda dy: dy))
    with pytest.raises(errors.CustomRuleError, match="expected to return 2 gradients, one per argument, but"):
        fg.grad(few)(2.0, 3.0)
    wide = fg.custom_gradient(lambda x: (np.sum(x), lambda dy: np.ones(5)))
    with pytest.raises(errors.CustomRuleError, match=r"array of shape \(5,\) for array number 0 .* has shape \(2,\)"):
        fg.grad(wide)(X)
    with pytest.raises(errors.CustomRuleError, match=r"returns \(result, grad_fn\), and <lambda> returned"):
        fg.custom_gradient(lambda x: x)(1.0)
    with pytest.raises(errors.CustomRuleError, match=r"has no rule yet: define it with <lambda>.defvjp\(fwd, bwd\)"):
        fg.grad(fg.custom_vjp(lambda x: x))(1.0)
    with pytest.raises(errors.CustomRuleError, match=r"has no rule yet: define it with <lambda>.defjvp\(rule\)"):
        fg.grad(fg.custom_jvp(lambda x: x))(1.0)
    with pytest.raises(errors.CustomRuleError, match="takes scale by keyword only"):
        fg.custom_gradient(lambda x, *, scale=1.0: (x, lambda dy: dy))(1.0, scale=2.0)
    with pytest.raises(errors.NotCallableError, match="custom_vjp takes a function, not 3"):
        fg.custom_vjp(3)
    with pytest.raises(errors.NotCallableError, match="checkpoint takes a function, not 3"):
        fg.checkpoint(3)


def test_containers_and_variables_in_checkpoints():
    w = fg.Variable(2.0, name="w")

    @fg.checkpoint
    def layer(p, *, scale):
        return [p["x"] * w * scale, (p["y"], 7.0)]

    def loss(x):
        out = layer({"x": x, "y": x}, scale=3.0)
        return np.sum(out[0] * out[0]) + np.sum(out[1][0]) * out[1][1]

    np.testing.assert_allclose(fg.grad(loss)(X), 72 * X + 7)
    ((gradient, variable),) = fg.implicit_gradients(lambda: loss(w * X))()
    assert variable is w
    np.testing.assert_allclose(gradient, 36 * np.sum(X**2) * 2.0**3 + 7 * np.sum(X))
    with fg.GradientTape() as tape:
        y = loss(w * X)
    np.testing.assert_allclose(tape.gradient(y, w), gradient)


def test_closures_in_checkpoints_are_differentiated():
    def loss(w):
        def step(x):
            return np.sin(w * w * x)

        return np.sum(fg.checkpoint(step)(fg.checkpoint(step)(w)))

    def plain(w):
        return np.sum(np.sin(w * w * np.sin(w * w * w)))

    np.testing.assert_allclose(fg.grad(loss)(X), fg.grad(plain)(X), rtol=1e-14)
    check_grads(loss, (X,), order=2)


def test_nested_checkpoints():
    inner = fg.checkpoint(lambda x: np.sin(x) * x)
    outer = fg.checkpoint(lambda x: inner(inner(x)) + x)
    check_grads(outer, (X,), order=3)


def test_a_checkpoint_saves_memory_and_no_bit():
    """100 elementwise operations on 8 MB, in 10 segments."""

    def segment(x):
        for _ in range(5):
            x = np.cos(np.sin(x))
        return x

    def chain(step):
        def loss(x):
            for _ in range(10):
                x = step(x)
            return np.sum(x)

        return loss

    def measured(f):
        gc.collect()
        tracemalloc.start()
        gradient = fg.grad(f)(x)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return gradient, peak

    x = np.linspace(0.0, 1.0, 1_000_000)
    whole, peak_of_whole = measured(chain(segment))
    parts, peak_of_parts = measured(chain(fg.checkpoint(segment)))
    np.testing.assert_array_equal(whole, parts)
    assert peak_of_whole > 100 * 8e6
    assert peak_of_parts < peak_of_whole / 4


def segment_of_module(x):
    return np.sin(x)


def test_a_checkpointed_function_pickles():
    again = pickle.loads(pickle.dumps(fg.checkpoint(segment_of_module)))
    assert again(0.5) == np.sin(0.5)
