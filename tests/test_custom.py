"""Rules of a user's own, and checkpoints: under every transform, at every order."""

import concurrent.futures
import copy
import functools
import gc
import itertools
import math
import pickle
import tracemalloc
import weakref

import numpy as np
import pytest
from helpers import along, naming, plain

import fgrad as fg
import fgrad.rules.checkpoint as checkpoint
from fgrad import errors
from fgrad.rules.closures import Closure
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


def test_a_program_that_is_recorded_with_a_tape_inside_keeps_the_rule():
    doubled = fg.custom_gradient(lambda x: (x**2, lambda dy: dy * 4 * x))
    w = fg.Variable(2.0)

    def f(x):
        with fg.GradientTape():  # follows variables, and reads none
            return doubled(x)

    def g(x):
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = doubled(x)
        return y + tape.gradient(y, x)

    assert fg.grad(fg.trace(f)(2.0))(3.0).item() == fg.grad(f)(3.0).item() == 12.0
    graph = fg.trace(g)(2.0)
    assert graph(3.0).item() == 9.0 + 12.0
    assert fg.grad(graph)(3.0).item() == fg.grad(g)(3.0).item() == 12.0 + 4.0
    uses = fg.custom_gradient(lambda x: (w * x, lambda dy, variables: (dy, [dy])))
    with pytest.raises(errors.ClosureError, match="recorded as one call and uses a recorded value, or a variable"):
        fg.trace(lambda x: uses(x))(2.0)


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
    f = fg.custom_vjp(lambda x: v * x)
    f.defvjp(lambda x: (v * x, None), lambda _, ct: (ct * v,))
    with pytest.raises(errors.ClosureError, match=r"Pass the value \(or the variable\) as an argument"):
        fg.implicit_gradients(lambda: f(v * 1.0))()


@pytest.mark.parametrize("persistent", [False, True])
def test_closures_over_values_of_the_same_tape_are_refused(persistent):
    x, w = fg.constant(3.0), fg.constant(2.0)
    f = fg.custom_gradient(lambda x: (w * x, lambda dy: dy * w))
    with fg.GradientTape(persistent=persistent) as tape:
        tape.watch([x, w])
        with pytest.raises(errors.ClosureError, match="uses a traced value that is not one of its arguments"):
            f(x)


@pytest.mark.parametrize("outer", [fg.grad, along])
def test_closures_that_would_be_lost_in_an_outer_transform_are_refused(outer):
    """The rule holds for the outer transform, too, and says nothing of w."""

    def loss(w):
        f = fg.custom_gradient(lambda x: (w * x**2, lambda dy: dy * 2 * w * x))
        return fg.grad(lambda x: f(x * w) ** 2)(3.0)

    with pytest.raises(errors.ClosureError, match="uses a traced value that is not one of its arguments"):
        outer(loss)(2.0)


# The rule holds for all traces, not only for the highest


def straight(x):
    return np.round(x), lambda dy: dy


def straight_by_jvp():
    f = fg.custom_jvp(lambda x: np.round(x))
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 1.0))
    return f


@pytest.mark.parametrize("f", [fg.custom_gradient(straight), straight_by_jvp()], ids=["gradient", "jvp"])
@pytest.mark.parametrize("outer", [fg.grad, along, fg.jacrev])
@pytest.mark.parametrize("inner", [fg.grad, along, fg.jacrev])
def test_second_derivatives_of_the_value_are_the_rules(f, outer, inner):
    """With y = round(x), and dy/dx = 1 by the rule, the second derivative of y**3 is 6 y."""
    assert plain(outer(inner(lambda x: f(x) ** 3))(1.7)) == 12.0
    assert plain(fg.vmap(outer(inner(lambda x: f(x) ** 3)))(np.array([1.7, 0.7]))) == [12.0, 6.0]
    assert plain(outer(lambda x: np.sum(fg.vmap(inner(lambda x: f(x) ** 3))(x * np.ones(2))))(1.7)) == 24.0
    assert plain(outer(inner(inner(lambda x: f(x) ** 3)))(1.7)) == 6.0


@pytest.mark.parametrize("persistent", list(itertools.product([False, True], repeat=2)))
def test_the_rule_holds_for_nested_tapes(persistent):
    f, x = fg.custom_gradient(straight), fg.constant(1.7)
    with fg.GradientTape(persistent[0]) as outer:
        outer.watch(x)
        with fg.GradientTape(persistent[1]) as inner:
            inner.watch(x)
            y = f(x) ** 3
        slope = inner.gradient(y, x)
    assert slope.item() == 12.0
    assert plain(outer.gradient([y, slope], x, output_gradients=[10.0, 1.0])) == 132.0
    with fg.ForwardAccumulator(x, 1.0) as accumulator:
        with fg.GradientTape(persistent[1]) as inner:
            inner.watch(x)
            y = f(x) ** 3
        slope = inner.gradient(y, x)
    assert plain(accumulator.jvp([y, slope])) == [12.0, 12.0]


def dropping():
    """Return a function that drops elements at random, and the list of its masks."""
    rng, masks = np.random.default_rng(0), []

    @fg.custom_gradient
    def dropped(x):
        mask = np.float64(rng.random(x.shape) > 0.5)
        masks.append(mask)
        return x * mask, lambda dy: dy * mask

    return dropped, masks


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_the_rule_belongs_to_the_run(persistent, inside):
    """A function that draws random numbers is run once, and its rule knows them."""
    f, masks = dropping()
    x = fg.constant(np.ones(20))
    with fg.GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        y = f(x)
        if inside:
            gradient = tape.gradient(y, x)
    if not inside:
        gradient = tape.gradient(y, x)
    assert len(masks) == 1
    assert plain(y) == plain(gradient) == plain(masks[0])
    masks.clear()
    value, tangent = fg.jvp(lambda x: fg.value_and_grad(lambda x: np.sum(f(x) ** 2))(x), (x,), (x,))
    np.testing.assert_array_equal(value[1], 2 * masks[0])
    np.testing.assert_array_equal(tangent[1], 2 * masks[0])
    masks.clear()
    second = fg.grad(lambda x: np.sum(fg.grad(lambda x: np.sum(f(x) ** 2))(x)))(x)
    assert len(masks) == 1
    np.testing.assert_array_equal(second, 2 * masks[0])


def test_the_record_keeps_what_the_rule_keeps():
    """Neither results nor arguments stay in memory that `grad_fn` does not mention."""
    f = fg.custom_gradient(lambda x: (np.sin(x), lambda dy: dy * 10.0))
    gc.collect()
    gc.disable()
    try:
        x = fg.constant(np.ones(1000))
        with fg.GradientTape() as tape:
            tape.watch(x)
            argument = x + 1.0
            result = f(argument)
            kept = [weakref.ref(argument._payload), weakref.ref(result._payload)]
            y = np.sum(result + 1.0)
            del argument, result
        assert [reference() for reference in kept] == [None, None]
        assert tape.gradient(y, x).tolist() == [10.0] * 1000
    finally:
        gc.enable()


# Variables


def scaled_by(w, *, factor=1.0):
    """Return a function that reads a variable, with the derivatives of `factor` times w x**2."""

    @fg.custom_gradient
    def scaled(x):
        def grad_fn(dy, variables=None):
            assert [variable is w for variable in variables or [w]] == [True]
            by_x = dy * factor * 2 * w * x
            return (by_x, [dy * factor * x**2]) if variables else by_x

        return w * x**2, grad_fn

    return scaled


@pytest.fixture
def w():
    return fg.Variable(2.0, name="w")


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_variables_in_a_tape(w, persistent, inside):
    f, x = scaled_by(w, factor=10.0), fg.constant(3.0)
    with fg.GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        y = f(x) * w
        if inside:
            found = tape.gradient(y, [x, w])
    if not inside:
        found = tape.gradient(y, [x, w])
    assert plain((y, found)) == (36.0, [240.0, 198.0])  # 10 w 2 w x, and 10 x^2 w + w x^2
    assert tape.watched_variables() == (w,)
    if persistent:
        assert plain(tape.gradient(y, [x, w])) == [240.0, 198.0]


def test_variables_without_traced_arguments(w):
    f = scaled_by(w, factor=10.0)
    ((gradient, variable),) = fg.implicit_gradients(lambda: f(3.0))()
    assert (gradient.item(), variable) == (90.0, w)
    with fg.GradientTape() as tape:
        y = f(3.0)
    assert tape.gradient(y, w).item() == 90.0
    with fg.ForwardAccumulator(w, 1.0) as accumulator:
        y = f(3.0)
    assert plain((y, accumulator.jvp(y))) == (18.0, 90.0)


def test_variables_in_minimize(w):
    fg.optimizers.GradientDescent(0.01).minimize(lambda: scaled_by(w, factor=10.0)(3.0))
    assert w.numpy() == 2.0 - 0.9


def test_variables_that_nobody_follows_are_constants(w):
    """The rule is then called without them, as without variables at all."""
    f, frozen = scaled_by(w), fg.Variable(2.0, trainable=False)
    assert f(3.0).item() == 18.0
    assert fg.grad(f)(3.0).item() == 12.0
    assert plain(fg.value_and_grad(f)(3.0)) == (18.0, 12.0)
    assert plain(fg.jvp(f, (3.0,), (1.0,))) == (18.0, 12.0)
    with fg.GradientTape(watch_accessed_variables=False) as tape:
        x = fg.constant(3.0)
        tape.watch(x)
        y = f(x)
    assert plain(tape.gradient(y, [x, w])) == [12.0, None]
    plain_rule = fg.custom_gradient(lambda x: (frozen * x, lambda dy: dy * frozen))
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = plain_rule(x)
    assert plain(tape.gradient(y, [x, frozen])) == [2.0, None]


def test_variables_come_in_the_order_of_creation(w):
    late = fg.Variable([1.0, 2.0], name="late")
    seen = []

    @fg.custom_gradient
    def f():
        def grad_fn(da, db, **keywords):
            seen.append(keywords["variables"])
            return (), [da * 1.0, None]

        return [late[0] * w, late * w], grad_fn

    pairs = fg.implicit_gradients(f)()
    assert [v.name for v in seen[0]] == ["w", "late"]
    without = fg.custom_gradient(lambda: (w * 2.0, lambda dy, variables: (None, [dy * 2.0])))
    assert fg.implicit_gradients(without)()[0][0].item() == 2.0
    assert [(plain(g), v.name) for g, v in pairs] == [(1.0, "w"), ([0.0, 0.0], "late")]


@pytest.mark.parametrize("f", [lambda w: scaled_by(w), lambda w: fg.checkpoint(scaled_by(w))])
def test_second_order_of_variables(w, f):
    f, x = f(w), fg.constant(3.0)

    def loss(x):
        return f(x) ** 2  # w^2 x^4

    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = loss(x)
        by_x, by_w = inner.gradient(y, [x, w])
    assert plain((by_x, by_w)) == (432.0, 324.0)
    assert plain(outer.gradient([by_x, by_w], [x, w], output_gradients=[1.0, 0.0])) == [432.0, 432.0]
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = loss(x)
        by_x, by_w = tape.gradient(y, [x, w])
        (second,) = fg.gradients(by_w, w)
    assert plain((by_x, by_w, second)) == (432.0, 324.0, 162.0)
    assert plain(tape.gradient(by_w, [x, w])) == [432.0, 162.0]
    assert plain(tape.gradient(second, x)) == 216.0
    first = fg.implicit_gradients(lambda: loss(3.0))
    ((second, _),) = fg.implicit_gradients(lambda: first()[0][0])()
    assert second.item() == 162.0
    ((mixed, _),) = fg.implicit_gradients(lambda: fg.grad(loss)(3.0))()
    assert mixed.item() == 432.0
    assert fg.grad(lambda x: fg.implicit_gradients(lambda: loss(x))()[0][0])(3.0).item() == 432.0
    with fg.ForwardAccumulator(w, 1.0) as accumulator:
        ((gradient, _),) = first()
    assert plain((gradient, accumulator.jvp(gradient))) == (324.0, 162.0)


@pytest.mark.parametrize("persistent", [False, True])
def test_the_rule_sees_the_values_that_the_variables_had(w, persistent):
    f, x = scaled_by(w), fg.constant(3.0)
    with fg.GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        y = f(x)
        w.assign(100.0)
        y = y + f(x)
        w.assign(1000.0)
    assert plain(tape.gradient(y, [x, w])) == [2 * 3 * (2.0 + 100.0), 18.0]
    assert w.numpy() == 1000.0


def test_variables_under_vmap(w):
    f, rows = scaled_by(w, factor=10.0), np.array([1.0, 2.0, 3.0])
    with fg.GradientTape() as tape:
        y = np.sum(fg.vmap(f)(rows))
    assert plain((y, tape.gradient(y, w))) == (28.0, 140.0)
    with fg.GradientTape() as tape:
        x = fg.constant(rows)
        tape.watch(x)
        y = fg.vmap(f)(x)
    w.assign(7.0)
    assert plain(tape.gradient(y, [x, w])) == [[40.0, 80.0, 120.0], 140.0]
    with fg.ForwardAccumulator(w, 1.0) as accumulator:
        y = fg.vmap(f)(rows)
    assert plain(accumulator.jvp(y)) == [10.0, 40.0, 90.0]


def test_variables_inside_of_checkpoints_and_rules(w):
    inner = scaled_by(w)

    @fg.custom_gradient
    def outer(x):
        y = fg.checkpoint(inner)(x) * w  # w^2 x^2

        def grad_fn(dy, variables=None):
            return dy * 2 * x * w**2, [dy * 2 * w * x**2]

        return y, grad_fn

    for f in (outer, fg.checkpoint(outer), fg.checkpoint(lambda x: inner(x) * w)):
        for persistent in (False, True):
            x = fg.constant(3.0)
            with fg.GradientTape(persistent=persistent) as tape:
                tape.watch(x)
                y = f(x)
            assert plain((y, tape.gradient(y, [x, w]))) == (36.0, [24.0, 36.0])
        with fg.GradientTape() as tape:
            ((gradient, _),) = fg.implicit_gradients(lambda f=f: f(fg.constant(3.0)))()
        assert plain((gradient, tape.gradient(gradient, w))) == (36.0, 18.0)


def test_a_variable_that_is_an_argument_as_well(w):
    @fg.custom_gradient
    def f(a):
        return a * w, lambda dy, variables: (dy * w, [dy * a])

    ((gradient, _),) = fg.implicit_gradients(lambda: f(w))()
    assert gradient.item() == 4.0


def test_rules_that_do_not_know_of_variables(w):
    late = fg.Variable(3.0, name="late")
    f = fg.custom_gradient(lambda x: (w * late * x, lambda dy: dy * w * late))
    text = r"reads the variables 'w', 'late', and its grad_fn has no parameter 'variables'.*\nWrite grad_fn\(\*dy, "
    with pytest.raises(TypeError, match=text):
        fg.implicit_gradients(lambda: f(1.0))()
    for persistent in (False, True):
        with fg.GradientTape(persistent=persistent):
            with pytest.raises(TypeError, match=text):
                f(w * 1.0)
    assert f(1.0).item() == 6.0
    one = fg.custom_gradient(lambda x: (w * x, lambda dy: dy * w))
    with pytest.raises(TypeError, match="reads the variable 'w', and"):
        fg.vmap(lambda x: fg.implicit_gradients(lambda: one(x))()[0][0])(X)
    built_in = fg.custom_gradient(lambda x: (w * x, max))
    with pytest.raises(TypeError, match="has no parameter 'variables'"):
        fg.implicit_gradients(lambda: built_in(1.0))()


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (1.0, "expected to return a pair: the gradients of the arguments and a list of those of the variables"),
        ((1.0, 2.0), "expected to return a pair: .* It returned"),
        ((1.0, []), "expected to return 1 gradients of variables .'w'., but returned 0"),
        (((1.0, 2.0), [1.0]), "expected to return 1 gradient, one per argument, but returned 2"),
        ((1.0, [np.ones(3)]), r"an array of shape \(3,\) for the variable 'w', which has shape \(\)"),
    ],
)
def test_rules_that_return_something_else_for_variables(w, returned, text):
    f = fg.custom_gradient(lambda x: (w * x, lambda dy, variables: returned))
    with pytest.raises(errors.CustomRuleError, match=text):
        fg.implicit_gradients(lambda: f(3.0))()


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


def test_a_checkpoint_that_uses_values_of_a_later_transform():
    """Its arguments belong to the outer one, and what it closes over to the inner one."""

    def by_w(x):
        return fg.grad(lambda w: fg.checkpoint(lambda x: w**2 * x**2)(x))(2.0)

    assert by_w(3.0).item() == 36.0
    assert fg.grad(by_w)(3.0).item() == 24.0
    w = fg.Variable(2.0)
    f = fg.checkpoint(lambda x: w**2 * x**2)
    assert fg.grad(lambda x: fg.implicit_gradients(lambda: f(x))()[0][0])(3.0).item() == 24.0
    assert fg.implicit_gradients(lambda: fg.grad(f)(3.0))()[0][0].item() == 24.0


def test_a_checkpoint_of_variables_alone_keeps_nothing():
    runs, w = [], fg.Variable(2.0)

    def f(scale):
        runs.append(1)
        return np.exp(w * scale)

    with fg.GradientTape(persistent=True) as tape:
        y = fg.checkpoint(f)(3.0)
    assert len(runs) == 1
    assert tape.gradient(y, w).item() == 3 * np.exp(6.0)
    assert len(runs) == 2
    x = fg.constant(1.0)
    with fg.GradientTape() as tape:  # it follows no variable here
        tape.watch(x)
        y = fg.grad(lambda t: fg.checkpoint(lambda t: t * t * t)(t))(2.0) * x
    assert plain((y, tape.gradient(y, x))) == (12.0, 12.0)


def test_a_checkpoint_that_returns_its_argument():
    same = fg.checkpoint(lambda x: x)
    assert fg.grad(lambda x: same(x) * x)(3.0).item() == 6.0
    assert fg.checkpoint(lambda x: 7.0)(3.0) == 7.0
    assert fg.grad(lambda x: fg.checkpoint(lambda x: 7.0)(x) * x)(3.0).item() == 7.0


def test_a_checkpoint_that_returns_one_result_twice():
    def twice(x):
        y = np.sin(x)
        return y, y

    def loss(x):
        one, other = fg.checkpoint(twice)(x)
        return one * 2.0 + other * 3.0

    assert fg.grad(loss)(0.5).item() == pytest.approx(5.0 * np.cos(0.5), rel=1e-15)


def test_nested_checkpoints():
    inner = fg.checkpoint(lambda x: np.sin(x) * x)
    outer = fg.checkpoint(lambda x: inner(inner(x)) + x)
    check_grads(outer, (X,), order=3)


def test_a_checkpoint_saves_memory_and_no_bit():
    """100 elementwise operations on 0.8 MB, in 10 segments."""

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

    x = np.linspace(0.0, 1.0, 100_000)
    whole, peak_of_whole = measured(chain(segment))
    parts, peak_of_parts = measured(chain(fg.checkpoint(segment)))
    np.testing.assert_array_equal(whole, parts)
    assert peak_of_whole > 100 * 8e5
    assert peak_of_parts < peak_of_whole / 4


def segment_of_module(x):
    return np.sin(x)


def test_a_checkpointed_function_pickles():
    again = pickle.loads(pickle.dumps(fg.checkpoint(segment_of_module)))
    assert again(0.5) == np.sin(0.5)


@fg.custom_vjp
def tripled_by_vjp(x):
    return x * x


tripled_by_vjp.defvjp(lambda x: (x * x, x), lambda x, ct: (3.0 * ct,))


@fg.custom_jvp
def tripled_by_jvp(x):
    return x * x


tripled_by_jvp.defjvp(lambda primals, tangents: (tripled_by_jvp(*primals), 3.0 * tangents[0]))


@fg.custom_gradient
def tripled_by_gradient(x):
    return x * x, lambda ct: 3.0 * ct


class OfMethod:
    @fg.custom_gradient
    def tripled(self, x):
        return x * x, lambda ct: (None, 3.0 * ct)


@pytest.mark.parametrize("function", [tripled_by_vjp, tripled_by_jvp, tripled_by_gradient, OfMethod().tripled])
def test_a_function_with_a_rule_pickles_by_its_name(function):
    for again in (pickle.loads(pickle.dumps(function)), copy.copy(function), copy.deepcopy(function)):
        assert again(2.0) == 4.0
        assert fg.grad(again)(2.0) == 3.0
    assert fg.grad(pickle.loads(pickle.dumps(fg.grad(function))))(2.0) == 0.0


def test_a_function_with_a_rule_of_another_name_is_copied():
    function = fg.custom_gradient(segment_of_module)
    assert copy.copy(function) is not function
    assert copy.copy(function)._function is segment_of_module


def test_a_checkpoint_hands_tensors_on_as_tensors():
    kinds = []

    def f(x, k):
        kinds.append((type(x), type(k)))
        return x * k

    assert fg.grad(lambda x: fg.checkpoint(f)(x * 1.0, 2.0))(3.0).item() == 2.0
    assert kinds == [(fg.Tensor, float)] * 2


def test_a_checkpoint_that_writes_into_what_it_did_not_make_is_refused():
    def into_its_argument(u):
        u[0] = 0.0
        return u * 2

    with pytest.raises(fg.errors.ClosureError, match=r"writes into a tensor that it did not create[\s\S]*np\.copy"):
        fg.grad(lambda u: np.sum(fg.checkpoint(into_its_argument)(u * 1.0)))(np.ones(3))

    def outer(a):
        held = a * 1.0

        def g(x):
            held[0] = x
            return np.sum(held)

        return fg.checkpoint(g)(2.0)

    with pytest.raises(fg.errors.ClosureError, match="writes into a tensor that it did not create"):
        fg.grad(outer)(np.ones(3))

    def into_a_copy(u):
        v = np.copy(u)
        v[0] = 0.0
        return v * 2

    point = np.ones(3)
    assert fg.grad(lambda u: np.sum(fg.checkpoint(into_a_copy)(u)))(point).tolist() == [0.0, 2.0, 2.0]
    assert point.tolist() == [1.0, 1.0, 1.0]


# Functions that are run again


MODULES_OWN = np.random.default_rng(5)


def _seeds():
    np.random.seed(3)
    return np.random.default_rng(7)


class _Noisy:
    def __init__(self, rng):
        self.rng = rng

    def layer(self, x):
        return x * self.rng.normal(size=3)


def test_random_numbers_are_the_same_when_a_checkpoint_runs_again():
    x = np.array([0.5, 1.0, 2.0])
    functions = {
        "global": lambda rng: lambda x: x * np.random.normal(size=3),
        "closed over": lambda rng: lambda x: x * rng.normal(size=3),
        "by default": lambda rng: lambda x, rng=rng: x * rng.normal(size=3),
        "method": lambda rng: _Noisy(rng).layer,
        "partial": lambda rng: functools.partial(lambda rng, x: x * rng.normal(size=3), rng),
        "module": lambda rng: lambda x: x * MODULES_OWN.normal(size=3),
    }
    for name, make in functions.items():
        state = MODULES_OWN.bit_generator.state
        first = make(_seeds())(np.ones(3))
        after = np.random.normal(), MODULES_OWN.normal()
        MODULES_OWN.bit_generator.state = state
        layer = fg.checkpoint(make(_seeds()))
        value, gradient = fg.value_and_grad(lambda x, layer=layer: np.sum(layer(x)))(x)
        np.testing.assert_allclose(gradient, first, rtol=1e-14, err_msg=name)
        assert value.item() == pytest.approx(np.sum(x * first), rel=1e-14)
        assert (np.random.normal(), MODULES_OWN.normal()) == after, name  # they go on from where the function left them


@pytest.mark.parametrize("x", [1.0, 0.0])  # at 0 all the results are the same, and the derivatives are not
@pytest.mark.parametrize("numbers", [(1.0, 2.0, 3.0), (1, 2, 3), np.arange(1.0, 4.0), fg.constant([1.0, 2.0, 3.0])])
def test_a_loop_s_variable_in_a_closure_is_as_at_the_call(x, numbers):
    def sums(x):
        return sum([fg.checkpoint(lambda x: x * (x + 1.0) * i)(x) for i in numbers])

    def nested(x):
        for i in numbers:
            x = fg.checkpoint(lambda x: sum([x * i for _ in range(2)]))(x)
        return x

    def called_later(x):
        parts = [fg.checkpoint(lambda x: x * (x + 1.0) * i) for i in numbers]
        return sum(part(x) for part in parts)  # of Python's closures all three have the last number

    assert fg.grad(sums)(x).item() == fg.jvp(sums, (x,), (1.0,))[1].item() == 6 * (2 * x + 1)
    assert fg.hessian(sums)(x).item() == 12.0
    assert fg.grad(nested)(x).item() == 48.0
    assert fg.grad(called_later)(x).item() == 9 * (2 * x + 1)
    assert fg.trace(sums)(x)(2.0).item() == 36.0
    assert fg.grad(fg.trace(sums)(x))(x).item() == 6 * (2 * x + 1)
    assert fg.vmap(fg.grad(sums))(np.full(2, x)).tolist() == [6 * (2 * x + 1)] * 2
    assert fg.grad(lambda x: np.sum(fg.vmap(sums)(x)))(np.full(2, x)).tolist() == [6 * (2 * x + 1)] * 2


def test_a_pass_after_the_loop():
    pullbacks, results, x = [], [], fg.constant(0.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        for i in (1.0, 2.0, 3.0):
            pullbacks.append(fg.vjp(fg.checkpoint(lambda x: x * i), 0.0)[1])
            results.append(fg.checkpoint(lambda x, scale=2.0, *, shift=0.0: x * i * scale + shift)(x))
    assert [pullback(1.0)[0].item() for pullback in pullbacks] == [1.0, 2.0, 3.0]
    assert [tape.gradient(result, x).item() for result in results] == [2.0, 4.0, 6.0]


def test_traced_values_and_arrays_of_a_loop():
    def sums(x, w):
        parts = []
        for i in range(3):
            v, plain = w[i], np.full(2, float(i))
            parts.append(fg.checkpoint(lambda x: np.sum(x * v * plain))(x))
        return sum(parts)

    along_x, along_w = fg.grad(sums, argnums=(0, 1))(np.array([0.0, 1.0]), np.array([1.0, 2.0, 3.0]))
    assert along_x.tolist() == [8.0, 8.0]
    assert along_w.tolist() == [0.0, 1.0, 2.0]


FACTOR = 1.0


def times_factor(x):
    return sum(x * FACTOR for _ in range(1))


def test_a_name_of_the_module_that_has_another_value_is_an_error():
    def sums(x, numbers):
        global FACTOR
        parts = []
        for number in numbers:
            FACTOR = number
            parts.append(fg.checkpoint(times_factor)(x))
        return sum(parts)

    for numbers in ((1.0, 2.0), (np.ones(2), np.ones(2) * 2), (1, 1.0)):
        with pytest.raises(errors.RerunError, match="times_factor, which is .* other values(.|\n)*script's loop"):
            fg.grad(lambda x, numbers=numbers: np.sum(sums(x, numbers)))(0.0)
    assert fg.grad(sums)(0.0, (2.0, float("2"))).item() == 4.0


def test_what_differs_when_it_is_run_again_is_an_error():
    class Scale:
        value = 0.0

    def sums(x):
        parts = []
        for Scale.value in (1.0, 2.0, 3.0):
            parts.append(fg.checkpoint(lambda x: x * x * Scale.value)(x))
        return sum(parts)

    with pytest.raises(fg.errors.RerunError, match="<lambda>, which is under checkpoint, gives another result"):
        fg.grad(sums)(2.0)
    assert fg.grad(lambda x: sum(fg.checkpoint(lambda x, i: x * x * i)(x, i) for i in range(3)))(2.0).item() == 12.0
    drawn = iter(range(1, 10))
    for transform in (fg.grad, lambda f: lambda x: fg.vjp(f, x)[1](1.0)):
        with pytest.raises(fg.errors.RerunError, match="Pass values that change between calls as arguments"):
            transform(fg.checkpoint(lambda x: x * next(drawn)))(2.0)
    flips = []

    def turned(x):
        flips.append(x)
        return x[::-1] if len(flips) > 1 else x * 1.0

    with pytest.raises(fg.errors.RerunError, match="turned"):
        fg.grad(lambda x: np.sum(fg.checkpoint(turned)(x) * np.arange(3.0)))(np.array([1.0, 2.0, 3.0]))


def test_that_a_large_result_is_another_is_seen_without_much_memory():
    x = np.ones(1 << 20)
    places = iter([(3, 4), (3, 4), (3, 4), (3, 4 + (1 << 19))])  # the same place in another block

    def step(x):
        first, second = next(places)
        y = x * 2
        y[first], y[second] = 7.0, -7.0
        return y

    f = fg.checkpoint(step)
    fg.grad(lambda x: np.sum(f(x)))(x)
    with pytest.raises(fg.errors.RerunError, match="step"):
        fg.grad(lambda x: np.sum(f(x)))(x)
    tracemalloc.start()
    try:
        checkpoint._digest(x)
        assert tracemalloc.get_traced_memory()[1] < x.nbytes / 4
    finally:
        tracemalloc.stop()


def test_results_whose_sums_overflow_are_known_again():
    f = fg.checkpoint(lambda x: x * np.array([1e308] * 8 + [1.0]))
    with np.errstate(over="ignore", invalid="ignore"):
        assert fg.grad(lambda x: f(x)[8])(1.5).item() == 1.0


def test_a_checkpoint_that_forward_mode_meets_draws_once():
    np.random.seed(3)
    drawn, after = np.random.normal(), np.random.normal()
    np.random.seed(3)
    value, tangent = fg.jvp(lambda x: fg.checkpoint(lambda: x * np.random.normal())(), (2.0,), (1.0,))
    assert (value.item(), tangent.item(), np.random.normal()) == (2 * drawn, drawn, after)


def test_a_search_for_what_is_closed_over_leaves_the_generators_as_they_are():
    def drawing(x):
        return x * a * np.random.normal()

    def f(x):
        nonlocal a
        a = x
        assert len(Closure(drawing, [(1.0,), (2.0,)]).values) == 1
        return x

    a = None
    np.random.seed(3)
    expected = np.random.normal()
    np.random.seed(3)
    fg.grad(f)(2.0)
    assert np.random.normal() == expected


def test_a_pullback_of_a_checkpoint_in_another_checkpoint():
    def by(wrap):
        def f(x):
            a = np.exp(x)
            pullback = fg.vjp(wrap(lambda y: np.sin(y) * a), x)[1]
            return np.sum(wrap(lambda v: pullback(v)[0] * a)(x) * x)

        return fg.grad(f)(X), fg.grad(lambda x: np.sum(fg.grad(f)(x) ** 2))(X)

    for found, expected in zip(by(fg.checkpoint), by(lambda f: f), strict=True):
        np.testing.assert_allclose(found, expected)


def test_results_that_are_not_finite_are_known_again():
    f = fg.checkpoint(lambda x: np.array([np.nan, np.inf, 1.0]) * x)
    assert fg.grad(lambda x: f(x)[2])(2.0).item() == 1.0


def every_way(f, x):
    """Return the gradient, the derivative of its square, both by a persistent tape, and each for two points at once."""

    def square(z):
        return np.sum(fg.grad(f)(z) ** 2)

    t = fg.constant(x)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(t)
        by_tape = tape.gradient(f(t), t)
        norm = np.sum(by_tape**2)
    points = np.stack([x, 2 * x])
    found = [fg.grad(f)(x), fg.grad(square)(x), by_tape, tape.gradient(norm, t), fg.jvp(fg.grad(f), (x,), (x,))[1]]
    return [*found, fg.vmap(fg.grad(f))(points), fg.vmap(fg.grad(square))(points)]


def watched_inside(a, y):
    with fg.GradientTape() as tape:
        tape.watch(a)
        z = np.sum(a**3 * y)
    return tape.gradient(z, a)


def moved_inside(a, y):
    with fg.ForwardAccumulator(a, np.ones(2)) as accumulator:
        z = a * a * y
    return accumulator.jvp(z)


def written_inside(a, y):
    b = np.copy(a)
    b[0] = y[1]
    return b * y


@pytest.mark.parametrize(
    "step",
    [
        lambda a, y: copy.copy(a) * y,
        lambda a, y: copy.deepcopy({"a": [a]})["a"][0] * y,
        watched_inside,
        moved_inside,
        written_inside,
        lambda a, y: fg.checkpoint(lambda z: z * z * a)(y),
        lambda a, y: fg.checkpoint(lambda z: fg.checkpoint(lambda w: w * y * a)(z))(y),
        lambda a, y: fg.grad(lambda z: np.sum(fg.checkpoint(lambda w: w**3 * a * y)(z)))(y),
        lambda a, y: y * a + len(f"{(np.round(a) * 0).dtype}"),
        lambda a, y: a,
    ],
)
def test_what_a_checkpoint_closes_over_in_any_form(step):
    def by(wrap):
        def f(x):
            a = np.exp(x)
            return np.sum(wrap(lambda y: step(a, y))(x) * x)

        return every_way(f, X)

    for found, expected in zip(by(fg.checkpoint), by(lambda f: f), strict=True):
        np.testing.assert_allclose(found, expected)


def test_arguments_of_a_checkpoint_that_nothing_follows_stay_as_they_are():
    v = fg.Variable(2.0, name="scale")

    def step(y, table, order, number, tensor, variable):
        assert type(table) is np.ndarray
        assert type(number) is np.float64
        return y[order] * np.linalg.det(np.array(table)) * number * (tensor * 2).numpy() * variable * len(variable.name)

    def by(wrap):
        given = np.array([[2.0, 0.0], [1.0, 3.0]]), np.array([1, 0]), np.float64(0.5), fg.constant(3.0), v
        f = wrap(step)
        return every_way(lambda x: np.sum(f(x, *given) * x), X), fg.implicit_gradients(lambda: np.sum(f(X, *given)))()

    (found, by_v), (expected, expected_by_v) = by(fg.checkpoint), by(lambda f: f)
    for one, other in zip([*found, by_v[0][0]], [*expected, expected_by_v[0][0]], strict=True):
        np.testing.assert_allclose(one, other)


def test_results_of_a_checkpoint_that_are_no_floats_stay_as_they_are():
    def f(x):
        y, count, text, none = fg.checkpoint(lambda y: (y * y, 3, "abc", None))(x)
        assert (type(count), text, none) == (int, "abc", None)
        assert fg.checkpoint(lambda y: None)(x) is None
        return np.sum(y) * count

    np.testing.assert_allclose(fg.vmap(fg.grad(f))(np.array([X, X]))[0], 6 * X)
    np.testing.assert_allclose(fg.hessian(f)(X), 6 * np.eye(2))


def test_a_checkpoint_runs_once_where_nothing_is_differentiated():
    runs = []
    f = fg.checkpoint(lambda x: runs.append(None) or x * 2)
    assert f(3.0) == 6.0
    assert f(fg.constant(3.0)).item() == 6.0
    assert len(runs) == 2


@pytest.mark.parametrize("kind", ["cache", "random", "threads"])
def test_a_checkpoint_that_does_something_else_when_it_runs_again_is_refused(kind):
    def f(x):
        a, draws, kept = np.exp(x), iter([1, 0]), {}

        def step(y):
            if kind == "cache":
                kept["a"] = kept["a"] if kept else a * 2
                return y * kept["a"]
            if kind == "random":
                return y * a if next(draws) else y
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                return sum(pool.map(lambda i: y * a * i, range(3)))

        return np.sum(fg.checkpoint(step)(x))

    with pytest.raises((errors.RerunError, errors.ClosureError), match="gives another result|in another thread"):
        fg.grad(f)(X)


@pytest.mark.parametrize("persistent", [False, True])
def test_what_is_written_after_a_call_is_not_in_its_derivative(persistent):
    product, cube = fg.custom_vjp(lambda x, y: x * y), fg.custom_jvp(lambda x: x**3)
    product.defvjp(lambda x, y: (x * y, (x, y)), lambda kept, ct: (ct * kept[1], ct * kept[0]))
    cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))
    calls = [np.exp, lambda a: a * a, lambda a: product(a, a), cube, fg.checkpoint(lambda a: a * a)]
    calls.append(lambda a: fg.checkpoint(lambda y: a * y)(a))
    for call in calls:
        t = fg.constant(X)
        with fg.GradientTape(persistent=persistent) as tape:
            tape.watch(t)
            a = np.exp(t)
            b = call(a)
            a[0] = 100.0
            b, kept = b * a, b
            found = tape.gradient(np.sum(b), t)
            kept[0] = 100.0

        def f(x, call=call):
            a = np.exp(x)
            return np.sum(call(a) * np.where(np.arange(2) == 0, 100.0, a))

        np.testing.assert_allclose(found, fg.grad(f)(X))


def test_a_function_of_math_in_a_checkpoint_is_refused():
    with pytest.raises(errors.DetachedError, match="math.exp requested a plain number from a traced tensor"):
        fg.grad(lambda x: fg.checkpoint(lambda y: math.exp(y) * y)(x))(2.0)


# A tape inside of the function, under a tape that records its passes


def by_tape(x):
    """Return the cosine, as a gradient by a tape that watches the argument itself."""
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = np.sin(x)
    return tape.gradient(y, x)


def by_persistent_tape(x):
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = np.sin(x)
    return tape.gradient(y, x)


def by_two_tapes(x):
    with fg.GradientTape() as outer, fg.GradientTape() as inner:
        outer.watch(x)
        inner.watch(x)
        y = np.cos(x) + 0.0 * x
    inner.gradient(y, x)
    return y


def by_accumulator(x):
    with fg.ForwardAccumulator(x, np.ones_like(x)) as accumulator:
        y = np.sin(x)
    return accumulator.jvp(y)


@pytest.mark.parametrize("inner", [by_tape, by_persistent_tape, by_two_tapes, by_accumulator])
def test_a_persistent_tape_sees_arguments_that_the_function_watches(inner):
    cosine = fg.custom_gradient(lambda x: (inner(x), lambda dy: -dy * np.sin(x)))
    for x in (fg.constant(0.7), fg.constant([0.7, -0.3])):
        with fg.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = cosine(x)
            first = tape.gradient(y, x)
        np.testing.assert_allclose(first, -np.sin(x))
        np.testing.assert_allclose(tape.gradient(first, x), -np.cos(x))
        np.testing.assert_allclose(tape.gradient(y, x), -np.sin(x))


# Variables that a function with a rule of its own makes each time that it runs


def doubling_by_vjp(made):
    @fg.custom_vjp
    def f(x):
        return made() * x

    f.defvjp(lambda x: (f(x), None), lambda residuals, ct: (2.0 * ct,))
    return f


def doubling_by_jvp(made):
    @fg.custom_jvp
    def f(x):
        return made() * x

    f.defjvp(lambda primals, tangents: (f(*primals), 2.0 * tangents[0]))
    return f


def doubling_by_gradient(made):
    return fg.custom_gradient(lambda x: (made() * x, lambda ct: 2.0 * ct))


DOUBLING = [doubling_by_vjp, doubling_by_jvp, doubling_by_gradient]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("form", DOUBLING)
def test_a_variable_made_inside_is_nothing_to_a_tape_around(form, persistent):
    f = form(lambda: fg.Variable(2.0))

    def on_a_tape(x):
        with fg.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = f(x) * x
        assert tape.watched_variables() == ()
        return y + tape.gradient(y, x)

    def beside_a_tape(x):
        with fg.GradientTape():
            return f(x) * x

    x = 3.0
    assert float(on_a_tape(fg.constant(x))) == 2 * x * x + 4 * x
    for transform in (
        fg.grad,
        fg.jacrev,
        fg.jacfwd,
        lambda g: lambda x: fg.jvp(g, (x,), (1.0,))[1],
        lambda g: lambda x: fg.vmap(fg.grad(g))(np.array([x]))[0],
        lambda g: lambda x: fg.grad(lambda x: fg.checkpoint(g)(x))(x),
    ):
        assert float(transform(on_a_tape)(x)) == 4 * x + 4
        assert float(transform(beside_a_tape)(x)) == 4 * x
    assert float(fg.grad(fg.grad(on_a_tape))(x)) == 4


@pytest.mark.parametrize("form", DOUBLING)
def test_a_variable_made_inside_is_none_that_a_function_has_read(form):
    w, f = fg.Variable(3.0, name="w"), form(lambda: fg.Variable(2.0))
    [(gradient, variable)] = fg.implicit_gradients(lambda: f(w) * 1.0)()
    assert variable is w
    assert float(gradient) == 2.0


@pytest.mark.parametrize("form", DOUBLING)
def test_a_variable_made_inside_that_stays_is_no_argument(form):
    kept = []

    def made():
        kept.append(fg.Variable(2.0))
        return kept[-1]

    def f(x):
        with fg.GradientTape():
            return form(made)(x)

    with pytest.raises(errors.ClosureError, match=r"not one of its arguments|has no parameter 'variables'"):
        fg.grad(f)(3.0)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_variable_made_by_the_first_call_gets_its_gradient(persistent):
    layer = []

    @fg.custom_gradient
    def f(x):
        if not layer:
            layer.append(fg.Variable(2.0))
        w = layer[0]
        return w * x, lambda ct, variables=None: (w * ct, [x * ct for _ in variables or ()])

    for _ in range(2):
        with fg.GradientTape(persistent=persistent) as tape:
            x = fg.constant(3.0)
            tape.watch(x)
            y = f(x)
        assert [float(each) for each in tape.gradient(y, [x, *layer])] == [2.0, 3.0]


def writing_rules():
    """Return sines whose rules write to what they are handed."""

    def pull(x, ct):
        ct *= np.cos(x)
        return (ct,)

    def push(primals, tangents):
        (x,), (t,) = primals, tangents
        t *= np.cos(x)
        x *= 4
        return None, t

    backward, forward = fg.custom_vjp(lambda x: np.sin(x)), fg.custom_jvp(lambda x: np.sin(x))
    backward.defvjp(lambda x: (backward(x), x), pull)
    forward.defjvp(push)
    return [backward, forward, fg.custom_gradient(lambda x: (np.sin(x), lambda ct: pull(x, ct)))]


@pytest.mark.parametrize("place", range(3))
def test_a_rule_may_write_to_what_it_is_handed(place):
    sine, x = writing_rules()[place], np.array([0.3, 0.7])
    given, tangent = x.copy(), np.ones(2)
    np.testing.assert_allclose(fg.grad(lambda x: np.sum((sine(x) + x) * 3))(given), 3 * np.cos(x) + 3)
    np.testing.assert_allclose(fg.jvp(lambda x: sine(x) + x, (given,), (tangent,))[1], np.cos(x) + 1)
    np.testing.assert_allclose(np.diag(fg.hessian(lambda x: np.sum(sine(x)))(given)), -np.sin(x))
    slopes = fg.grad(lambda x: np.sum(fg.vjp(sine, x)[1](tangent)[0] + fg.jvp(sine, (x,), (tangent,))[1]))
    np.testing.assert_allclose(slopes(given), -2 * np.sin(x))
    np.testing.assert_array_equal([given, tangent], [x, np.ones(2)])


def scaled_by_what_is_closed_over(w):
    """Return functions by forms of rules that write numbers of `w` into what they are handed."""

    def pull(residuals, ct):
        ct *= w * residuals
        return (ct,)

    def pull_by_residuals(residuals, ct):
        ct *= residuals[0]["w"] * residuals[1]
        return (ct,)

    def push(primals, tangents):
        (x,), (t,) = primals, tangents
        t *= w * np.cos(x)
        return np.sin(x), t

    closing = fg.custom_vjp(lambda x: w * np.sin(x))
    residual, in_rule_alone = fg.custom_vjp(lambda x: np.sin(x)), fg.custom_vjp(lambda x: np.sin(x))
    closing.defvjp(lambda x: (closing(x), np.cos(x)), pull)
    residual.defvjp(lambda x: (residual(x), ({"w": w}, np.cos(x))), pull_by_residuals)
    in_rule_alone.defvjp(lambda x: (in_rule_alone(x), np.cos(x)), pull)
    forward = fg.custom_jvp(lambda x: np.sin(x))
    forward.defjvp(push)
    gradient = fg.custom_gradient(lambda x: (w * np.sin(x), lambda ct: pull(np.cos(x), ct)))
    return [closing, residual, in_rule_alone, forward, gradient]


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("weigh", [np.sum, lambda y: np.sum(y) * 1.0])
def test_a_rule_may_write_numbers_that_it_closes_over(place, weigh):
    x = np.array([0.3, 0.7])

    def slopes(w):
        function = scaled_by_what_is_closed_over(w)[place]
        along = fg.jvp(function, (x,), (np.ones(2),))[1] if place == 3 else fg.grad(lambda x: weigh(function(x)))(x)
        return np.sum(along)

    np.testing.assert_allclose(fg.grad(slopes)(2.0), np.sum(np.cos(x)))
    np.testing.assert_allclose(fg.jvp(slopes, (2.0,), (1.0,))[1], np.sum(np.cos(x)))
    np.testing.assert_allclose(fg.vmap(slopes)(np.array([2.0, 3.0])), np.sum(np.cos(x)) * np.array([2.0, 3.0]))


def test_a_rule_is_handed_plain_arrays_where_nothing_is_traced_that_it_may_write():
    handed, weight = [], fg.constant(2.0)
    function = fg.custom_vjp(lambda x: weight * x)
    function.defvjp(lambda x: (function(x), weight), lambda w, ct: (handed.append(type(ct)) or ct * w,))
    fg.grad(lambda x: np.sum(function(x)))(np.ones(2))
    assert handed == [np.ndarray]


@pytest.mark.parametrize("record", [lambda f: fg.compile(fg.grad(f)), lambda f: fg.trace(fg.grad(f))])
def test_a_rule_that_makes_a_variable_runs_and_is_told_what_to_write_where_it_is_recorded(record):
    def with_rule(slope_of):
        sine = fg.custom_jvp(np.sin)
        sine.defjvp(lambda primals, tangents: (np.sin(*primals), slope_of(np.cos(*primals)) * tangents[0]))
        return sine

    assert fg.grad(with_rule(fg.Variable))(0.3).item() == np.cos(0.3)
    with pytest.raises(fg.errors.ConcretizationError, match=r"y in place of fg.Variable\(y\)"):
        record(with_rule(fg.Variable))(0.3)
    found = record(with_rule(lambda y: y))(0.3)
    assert float(found(0.3) if callable(found) else found) == pytest.approx(np.cos(0.3), rel=1e-15)


# Rules that use their result, their input, or what was computed in between: to any order


def by_gradient(part):
    @fg.custom_gradient
    def f(u):
        e = np.exp(u)
        y = (e - 1 / e) / (e + 1 / e)
        slopes = {
            "result": lambda: 1 - y * y,
            "input": lambda: 1 - np.tanh(u) ** 2,
            "between": lambda: 4 / (e + 1 / e) ** 2,
        }
        return y, lambda dy: dy * slopes[part]()

    return f


def by_residuals(part):
    f = fg.custom_vjp(lambda u: np.tanh(u))

    def fwd(u):
        y, e = f(u) if part != "result" else np.tanh(u), np.exp(u)
        return y, {"result": (y,), "input": (u,), "between": (e, 1 / e)}[part]

    def bwd(kept, ct):
        slopes = {
            "result": lambda y: 1 - y * y,
            "input": lambda u: 1 - f(u) ** 2,
            "between": lambda a, b: 4 / (a + b) ** 2,
        }
        return (ct * slopes[part](*kept),)

    f.defvjp(fwd, bwd)
    return f


def by_tangents(part):
    f = fg.custom_jvp(lambda u: np.tanh(u))

    def rule(primals, tangents):
        (u,), (t,) = primals, tangents
        y, e = f(u), np.exp(u)
        slopes = {
            "result": lambda: 1 - y * y,
            "input": lambda: 1 - np.tanh(u) ** 2,
            "between": lambda: 4 / (e + 1 / e) ** 2,
        }
        return y, t * slopes[part]()

    f.defjvp(rule)
    return f


NESTED = {
    "grad": lambda f: fg.grad(lambda x: np.sum(f(x))),
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (np.full(2, 1.3),))[1],
    "hvp": lambda f: lambda x: fg.hvp(lambda x: np.sum(f(x)))(x, np.full(2, 0.7)),
    "vmap": lambda f: lambda x: np.sum(fg.vmap(f)(np.stack([x, 2 * x])), axis=0),
}


def nested(names, f):
    for name in names:
        f = NESTED[name](f)
    return f(np.array([0.4, -0.7]))


@pytest.mark.parametrize("rule", [by_gradient, by_residuals, by_tangents])
@pytest.mark.slow
def test_rules_at_any_order(rule):
    """Of an argument that is computed, by one part in turn, and to second order of the argument itself, by each."""
    parts, rules = ("result", "input", "between"), (by_gradient, by_residuals, by_tangents)
    for depth, inner in ((3, np.cos), (2, lambda x: x)):
        for place, names in enumerate(itertools.product(NESTED, repeat=depth), rules.index(rule)):
            expected = nested(names, lambda x: np.tanh(inner(x)))
            for part in parts if depth == 2 else parts[place % 3 :][:1]:
                f = rule(part)
                with naming(*names, part):
                    np.testing.assert_allclose(nested(names, lambda x: f(inner(x))), expected)


def test_a_rule_may_be_applied_to_what_moves_along_a_value_that_it_uses():
    def along_what_is_used(t):  # the tangent of the argument, and what the checkpoint closes over, are one tensor
        return fg.jvp(lambda x: fg.checkpoint(lambda x: x * x * t)(x), (2.0,), (t,))[1]

    def argument(t):
        square = fg.custom_vjp(lambda x, t: x * x * t)
        square.defvjp(
            lambda x, t: (square(x, t), (x, t)), lambda kept, ct: (2 * ct * kept[0] * kept[1], ct * kept[0] ** 2)
        )
        return fg.jvp(lambda x: square(x, t), (2.0,), (t,))[1]

    assert fg.grad(along_what_is_used)(3.0).item() == fg.grad(argument)(3.0).item() == 24.0  # 4 t^2


# Rules that close over values of a batch

BATCH = np.array([1.0, 2.0, 3.0])


def scaled_by_gradient(a):
    return fg.custom_gradient(lambda b: (a * b, lambda dy: dy * a))


def scaled_by_closure(a):
    f = fg.custom_vjp(lambda b: a * b)
    f.defvjp(lambda b: (a * b, None), lambda _, ct: (ct * a,))
    return f


def scaled_by_residuals(a):
    f = fg.custom_vjp(lambda b: a * b)
    f.defvjp(lambda b: (f(b), a), lambda a, ct: (ct * a,))
    return f


def scaled_in_the_pullback_alone(a):
    return fg.custom_gradient(lambda b: (b * 1.0, lambda dy: dy * a))


def scaled_by_tangents(a):
    f = fg.custom_jvp(lambda b: a * b)
    f.defjvp(lambda primals, tangents: (f(*primals), a * tangents[0]))
    return f


def scaled_by_tangents_again(a):
    f = fg.custom_jvp(lambda b: a * b)
    f.defjvp(lambda primals, tangents: (a * primals[0], np.multiply(a, tangents[0])))
    return f


SCALED = [
    scaled_by_gradient, scaled_by_closure, scaled_by_residuals, scaled_in_the_pullback_alone, scaled_by_tangents,
    scaled_by_tangents_again,
]  # fmt: skip


@pytest.mark.parametrize("scaled", SCALED)
def test_a_rule_that_closes_over_a_batched_value(scaled):
    values = BATCH if scaled is not scaled_in_the_pullback_alone else np.ones(3)
    assert fg.vmap(lambda a: scaled(a)(2.0) + 0 * a)(BATCH).tolist() == (2 * values).tolist()
    assert fg.vmap(lambda a, b: scaled(a)(b))(BATCH, BATCH).tolist() == (values * BATCH).tolist()
    assert fg.vmap(lambda a: fg.grad(scaled(a))(2.0))(BATCH).tolist() == BATCH.tolist()
    assert fg.vmap(lambda a, b: fg.grad(scaled(a))(b))(BATCH, BATCH).tolist() == BATCH.tolist()
    assert fg.vmap(lambda a, b: fg.jvp(scaled(a), (b,), (1.0,))[1])(BATCH, BATCH).tolist() == BATCH.tolist()

    def same(b):
        return np.sum(fg.vmap(lambda a: scaled(a)(b))(BATCH))

    def each(b):
        return np.sum(fg.vmap(lambda a, b: scaled(a)(b))(BATCH, b) ** 2)

    def all_pairs(b):
        return fg.vmap(lambda b: fg.vmap(lambda a: scaled(a)(b) + 0 * a)(BATCH))(b)

    assert fg.grad(same)(2.0).item() == fg.jvp(same, (2.0,), (1.0,))[1].item() == 6.0
    np.testing.assert_allclose(fg.grad(each)(BATCH), 2 * BATCH**2 * values)
    np.testing.assert_allclose(fg.hessian(each)(BATCH), 2 * np.diag(BATCH**2))
    np.testing.assert_allclose(fg.laplacian(each)(BATCH), 2 * np.sum(BATCH**2))
    np.testing.assert_allclose(all_pairs(BATCH), np.outer(BATCH, values))
    if scaled is scaled_in_the_pullback_alone:  # of which the outer batch sees nothing before the pass back
        with pytest.raises(errors.ClosureError, match="Pass the value"):
            fg.grad(lambda b: np.sum(all_pairs(b)))(BATCH)
    else:
        np.testing.assert_allclose(fg.grad(lambda b: np.sum(all_pairs(b)))(BATCH), [6.0] * 3)


def test_a_rule_that_closes_over_a_batched_value_that_is_differentiated():
    for scaled in SCALED:
        for transform in (fg.grad, lambda f: lambda x: fg.jvp(f, (x,), (np.ones(3),))[1]):

            def of_constants(a, scaled=scaled):
                return np.sum(fg.vmap(lambda a: scaled(a)(2.0) + 0 * a)(a))

            def of_arguments(a, scaled=scaled):
                return np.sum(fg.vmap(lambda a, b: scaled(a)(b) + 0 * a)(a, a))

            if scaled is scaled_in_the_pullback_alone:  # where a value does not depend on what is closed over
                assert np.sum(transform(of_constants)(BATCH)) == 0.0
                assert np.sum(transform(of_arguments)(BATCH)) == 6.0
                continue
            assert np.sum(transform(of_constants)(BATCH)) == 6.0
            with pytest.raises(errors.ClosureError, match="Pass the value"):
                transform(of_arguments)(BATCH)


def test_a_batched_value_that_a_rule_gets_where_nobody_sees_it_is_an_error():
    def hidden(a):
        box = {"get": lambda: a}
        return fg.custom_gradient(lambda b: (b * 1.0, lambda dy: dy * box["get"]()))

    with pytest.raises(errors.ClosureError, match="Pass the value"):
        fg.grad(lambda b: np.sum(fg.vmap(lambda a: hidden(a)(b) * a)(BATCH)))(2.0)


# Solvers that close over values of a batch


def halved(a):
    return fg.implicit_diff(lambda b: a * b, lambda x, b: x - a * b)


def found_by_numbers(a):
    def solver(b):  # for one example: it asks for plain numbers
        number = math.sqrt(float(a) ** 2 * b**2)
        return number if number > 0 else -number

    return fg.implicit_diff(solver, lambda x, b: x - a * b)


def variable_of_the_batch(a):
    w = fg.Variable(0.0)
    return fg.implicit_diff(lambda b: w + a * b, lambda x, b: x - a * b - w)


@pytest.mark.parametrize("solver", [halved, found_by_numbers, variable_of_the_batch])
def test_a_solver_that_closes_over_a_batched_value(solver):
    def sums(a, b):
        return np.sum(fg.vmap(lambda a: solver(a)(b))(a))

    assert fg.vmap(lambda a: solver(a)(2.0))(BATCH).tolist() == [2.0, 4.0, 6.0]
    assert fg.vmap(lambda a, b: solver(a)(b))(BATCH, BATCH).tolist() == [1.0, 4.0, 9.0]
    assert fg.vmap(lambda a: fg.vmap(lambda b: solver(a)(b))(BATCH))(BATCH).tolist() == np.outer(BATCH, BATCH).tolist()
    assert fg.vmap(fg.grad(lambda a: solver(a)(2.0)))(BATCH).tolist() == [2.0] * 3
    by_a, by_b = fg.grad(sums, argnums=(0, 1))(BATCH, 2.0)
    assert by_a.tolist() == [2.0] * 3
    assert by_b.item() == 6.0
    assert fg.jvp(sums, (BATCH, 2.0), (BATCH, 1.0))[1].item() == 18.0


def test_a_solver_alone_or_an_equation_alone_closes_over_a_batched_value():
    alone = fg.vmap(lambda a: fg.implicit_diff(lambda b: 2.0 * b + 0 * a, lambda x, b: x - 2 * b)(3.0))
    assert alone(BATCH).tolist() == [6.0] * 3
    equation = fg.vmap(lambda a: fg.implicit_diff(lambda b: np.float64(6.0), lambda x, b: x - a * b)(3.0))
    assert np.broadcast_to(equation(np.full(3, 2.0)), 3).tolist() == [6.0] * 3


@fg.custom_jvp
def tripled(x):
    return 3.0 * x


tripled.defjvp(lambda primals, tangents: (tripled(*primals), tripled(*tangents)))


def test_a_forward_rule_may_call_its_function_on_the_tangent():
    x = np.array([1.0, 2.0])
    assert fg.grad(tripled)(2.0) == fg.jvp(tripled, (2.0,), (1.0,))[1] == 3.0
    np.testing.assert_array_equal(fg.jacrev(tripled)(x), 3 * np.eye(2))
    np.testing.assert_array_equal(fg.vmap(fg.grad(tripled))(x), [3.0, 3.0])
    np.testing.assert_array_equal(fg.hessian(lambda x: np.sum(tripled(x) ** 2))(x), 18 * np.eye(2))
    assert fg.grad(fg.grad(lambda x: tripled(x) ** 3))(2.0) == 27 * 6 * 2.0


def test_a_forward_rule_of_containers_may_call_its_function_on_the_tangents():
    @fg.custom_jvp
    def mixed(pair):
        return {"sum": pair[0] + 2 * pair[1], "rest": pair[0]}

    mixed.defjvp(lambda primals, tangents: (mixed(*primals), mixed(*tangents)))
    found = fg.grad(lambda x, y: mixed((x, y))["sum"] * x, argnums=(0, 1))(2.0, 3.0)
    assert found == (2.0 + 6.0 + 2.0, 4.0)


def test_functions_whose_forward_rules_call_each_other_on_tangents():
    @fg.custom_jvp
    def outer(x):
        return tripled(x) * 2

    outer.defjvp(lambda primals, tangents: (outer(*primals), outer(tripled(tangents[0])) / 3))
    assert fg.grad(outer)(1.0) == 6.0


def test_a_rule_may_be_wrapped_by_one_that_closes_over_traced_values():
    def slope(scale):
        def rule(primals, tangents):
            return np.sin(primals[0]), np.cos(primals[0]) * tangents[0]

        @functools.wraps(rule)
        def scaled(primals, tangents):
            results = [np.empty_like(x) for x in primals * 2]  # of arrays that hold traced numbers
            for result, own in zip(results, rule(primals, tangents), strict=True):
                result[...] = own * scale
            return tuple(results)

        f = fg.custom_jvp(lambda x: np.sin(x) * scale)
        f.defjvp(scaled)
        return fg.jvp(f, (X,), (np.ones_like(X),))[1]

    np.testing.assert_allclose(fg.jacfwd(slope)(2.0), np.cos(X))
    np.testing.assert_allclose(fg.vmap(slope)(np.array([2.0, 3.0])), np.array([2.0 * np.cos(X), 3.0 * np.cos(X)]))


EVERY_WAY = {
    "forward": lambda f: fg.jvp(f, (X,), (X,))[1],
    "reverse": lambda f: fg.grad(lambda x: np.sum(f(x)))(X),
    "batched": lambda f: fg.vmap(lambda x: fg.jvp(f, (x,), (x,))[1])(np.stack([X, X])),
}


@pytest.mark.parametrize("way", EVERY_WAY)
def test_tangents_of_another_form_than_the_result_are_refused_in_every_mode(way):
    tangents = {
        r"a tangent of shape \(5,\) and dtype float64, and the result has shape \(2,\)": lambda t: np.ones(5) * t[0],
        "and dtype complex128, and the result has shape .* and dtype float64": lambda t: t * 1j,
        r"a tangent with the structure \(\*, \*\), and the result has the structure \*": lambda t: (t, t),
        r"a tangent with the structure \[\], and the result has the structure \*": lambda t: [],
    }
    for message, tangent in tangents.items():
        f = fg.custom_jvp(lambda x: x * 2.0)
        f.defjvp(lambda primals, given, tangent=tangent: (primals[0] * 2.0, tangent(given[0])))
        with pytest.raises(errors.CustomRuleError, match=message):
            EVERY_WAY[way](f)


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_tangent_may_be_none_or_smaller(way):
    for tangent in (None, 0.0):
        f = fg.custom_jvp(lambda x: np.round(x))
        f.defjvp(lambda primals, given, tangent=tangent: (np.round(primals[0]), tangent))
        np.testing.assert_array_equal(EVERY_WAY[way](f), np.zeros_like(EVERY_WAY[way](f)))
    f = fg.custom_jvp(lambda x: {"a": x + np.sum(x), "b": x * 3.0})
    f.defjvp(lambda primals, given: (f(*primals), {"a": np.sum(given[0]), "b": None}))
    wanted = {"forward": [2.0, 2.0], "reverse": [2.0, 2.0], "batched": [[2.0, 2.0]] * 2}[way]
    np.testing.assert_array_equal(EVERY_WAY[way](lambda x: f(x)["a"] + f(x)["b"]), wanted)


def test_a_cotangent_of_another_shape_is_refused_in_every_mode():
    f = fg.custom_vjp(lambda x, y: x * y)
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda kept, ct: (np.sum(ct), ct * kept[0]))
    for program in (
        lambda: fg.grad(lambda x: np.sum(f(x, X)))(X),
        lambda: fg.jvp(lambda x: f(x, X), (X,), (X,)),
        lambda: fg.jacobian(lambda x: f(x, X))(X),
    ):
        with pytest.raises(
            errors.CustomRuleError, match=r"array of shape \(\) for array number 0 of its arguments, which"
        ):
            program()


# Writes into arguments


def _overwritten(x):
    x[0] = 10.0 * x[1]
    return x * x


def writes_with_vjp():
    f = fg.custom_vjp(_overwritten)
    f.defvjp(lambda x: (_overwritten(x), x), lambda x, ct: (2 * x * ct,))
    return f


def writes_with_jvp():
    f = fg.custom_jvp(_overwritten)
    f.defjvp(lambda primals, tangents: (_overwritten(primals[0]), 2 * primals[0] * tangents[0]))
    return f


def writes_with_gradient():
    return fg.custom_gradient(lambda x: (_overwritten(x), lambda ct: 2 * x * ct))


def writes_with_view():
    def through_view(x):
        x[:1].fill(7.0)
        return x * x

    f = fg.custom_vjp(through_view)
    f.defvjp(lambda x: (through_view(x), x), lambda x, ct: (2 * x * ct,))
    return f


WRITERS = [writes_with_vjp, writes_with_jvp, writes_with_gradient, writes_with_view]
TRANSFORMS = {
    "grad": lambda f: fg.grad(f)(X),
    "grad of grad": lambda f: fg.grad(lambda x: np.sum(fg.grad(f)(x)))(X),
    "jvp": lambda f: fg.jvp(f, (X,), (X,)),
    "vmap": lambda f: fg.vmap(f)(np.stack([X, X])),
    "vmap of grad": lambda f: fg.vmap(fg.grad(f))(np.stack([X, X])),
    "compile": lambda f: fg.compile(f)(X),
    "tensor": lambda f: f(fg.constant(X)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_function_with_a_rule_only_reads_its_arguments(writer, transform):
    f = writer()
    with pytest.raises(errors.InPlaceError, match=r"writes into one of its arguments.*\n  at test_custom.py:\d+"):
        TRANSFORMS[transform](lambda x: np.sum(f(x * 1.0)) + np.sum(x))
    np.testing.assert_array_equal(plain(f)(X.copy()), f(X.copy()))  # arrays of the user's own may be written to


def test_a_large_argument_is_read_only_in_a_function_with_a_rule():
    f = fg.custom_vjp(_overwritten)
    f.defvjp(lambda x: (_overwritten(x), x), lambda x, ct: (2 * x * ct,))
    x = np.ones(200_000)
    with pytest.raises(
        errors.InPlaceError, match=r"writes into one of its arguments.*\n  at test_custom.py:\d+: x\[0\]"
    ):
        fg.grad(lambda x: np.sum(f(x * 1.0)))(x)
    wrong = fg.custom_vjp(lambda x: np.sum(x))
    wrong.defvjp(lambda x: (np.sum(x), x), lambda x, ct: np.zeros(()).fill(x))
    with pytest.raises(ValueError, match="sequence"):  # an error of the user's own is not replaced
        fg.grad(wrong)(x)
    assert x.flags.writeable


def _doubled_total(f):
    return lambda x: np.sum(f(x * 1.0) * 2.0)


def test_a_rule_does_not_write_into_what_it_has_kept():
    def scaled(x, ct):
        x *= ct
        return (x,)

    of_argument = fg.custom_vjp(lambda x: x * x / 2)
    of_argument.defvjp(lambda x: (x * x / 2, x), scaled)
    of_result = fg.custom_vjp(np.exp)
    of_result.defvjp(lambda x: (np.exp(x),) * 2, scaled)

    @fg.custom_gradient
    def in_closure(x):
        y = np.exp(x)
        return y, lambda ct: scaled(y[:], ct)

    for f in (of_argument, of_result, in_closure):
        with pytest.raises(errors.InPlaceError, match=r"the rule of .* writes into an argument or a result"):
            fg.grad(_doubled_total(f))(X)
    own = fg.custom_vjp(np.exp)
    own.defvjp(lambda x: (np.exp(x), np.exp(x)), scaled)
    np.testing.assert_allclose(fg.grad(_doubled_total(own))(X), 2 * np.exp(X))


def test_a_rule_that_changes_what_it_keeps_is_not_called_again():
    @fg.custom_gradient
    def written(x):
        y, double = np.exp(x), np.exp(x)

        def pull(ct):
            y[...] = y * ct
            return y

        return double, pull

    @fg.custom_gradient
    def bound_anew(x):
        y, double = np.exp(x), np.exp(x)

        def pull(ct):
            nonlocal y
            y = y * ct
            return y

        return double, pull

    residual = fg.custom_vjp(np.exp)
    residual.defvjp(lambda x: (np.exp(x), [np.exp(x)]), lambda kept, ct: (kept.append(kept.pop() * ct), kept[0])[1:])
    for f in (written, bound_anew, residual):
        np.testing.assert_allclose(fg.grad(lambda x, f=f: np.sum(f(x)))(X), np.exp(X))
        with fg.GradientTape(persistent=True) as tape:
            x = fg.constant(X)
            tape.watch(x)
            y = np.sum(f(x))
        np.testing.assert_allclose(tape.gradient(y, x), np.exp(X))
        with pytest.raises(errors.InPlaceError, match="has changed what it keeps"):
            tape.gradient(y, x)
    for f in (written, bound_anew):
        with pytest.raises(errors.InPlaceError, match=r"the rule of .* has changed what it keeps.*\n  at test_custom"):
            fg.jvp(fg.grad(lambda x, f=f: np.sum(f(x))), (X,), (np.ones_like(X),))


def test_a_rule_may_cache_what_it_computes():
    @fg.custom_gradient
    def f(x):
        slope, calls = None, []

        def pull(ct):
            nonlocal slope
            slope = np.exp(x) if slope is None else slope
            calls.append(ct)
            return slope * ct

        return np.exp(x), pull

    _, pull = fg.vjp(f, X)
    for _ in range(2):
        np.testing.assert_allclose(pull(np.ones_like(X))[0], np.exp(X))


def test_a_ufunc_with_a_rule_takes_its_arrays_alone():
    f = fg.custom_jvp(np.exp)
    f.defjvp(lambda primals, tangents: (np.exp(*primals), 3.0 * tangents[0]))
    assert fg.grad(f)(0.0) == 3.0
    with pytest.raises(errors.CustomRuleError, match="exp has a custom rule and takes where by keyword only"):
        f(0.0, where=False)
