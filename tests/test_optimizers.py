"""Optimizers: the paths that they take, on variables and as pure functions, and their edges."""

import numpy as np
import pytest
from helpers import along, plain

import fgrad as fg
from fgrad.optimizers import Adam, GradientDescent, Momentum

H = np.array([[3.0, 1.0], [1.0, 1.0]])
START = [1.0, 2.0]

# Three steps on x H x / 2 from (1, 2), and the slots after the third, as TensorFlow 2.21 takes them with
# hyper-parameters in float64.
TRACES = {
    "gradient descent": (
        lambda: GradientDescent(0.1),
        [[0.5, 1.7], [0.17999999999999994, 1.48], [-0.02200000000000002, 1.314]],
        {},
    ),
    "momentum": (
        lambda: Momentum(0.1, momentum=0.9),
        [[0.5, 1.7], [-0.27, 1.21], [-1.0030000000000001, 0.6749999999999999]],
        {"momentum": [7.33, 5.35]},
    ),
    "nesterov": (
        lambda: Momentum(learning_rate=0.1, momentum=0.9, use_nesterov=True),
        [[0.050000000000000044, 1.43], [-0.6552, 0.9057999999999999], [-0.946318, 0.5196059999999999]],
        {"momentum": [4.4122, 4.0126]},
    ),
    "adam": (
        lambda: Adam(0.1),
        [
            [0.9000000063245549, 1.9000000105409245],
            [0.8003037372921366, 1.800239079820717],
            [0.7011555580976525, 1.7009027518698407],
        ],
        {"m": [1.2391150318260256, 0.7550542832291784], "v": [0.0637385290446896, 0.023576992037989516]},
    ),
    "adam with a large epsilon": (
        lambda: Adam(learning_rate=0.1, beta1=0.9, beta2=0.999, epsilon=0.1),
        [
            [0.9387425886722793, 1.9513167019494861],
            [0.8702527837126375, 1.8945421813174212],
            [0.7983042346103986, 1.833506351245853],
        ],
        {"m": [1.2846090553625023, 0.7795848326589647], "v": [0.06795450866152464, 0.02497019045926146]},
    ),
}

OPTIMIZERS = [GradientDescent, lambda rate: Momentum(rate, momentum=0.9), Adam]


def close(result, expected):
    np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=1e-12)


def loss_of(x):
    return 0.5 * x @ (H @ x)


@pytest.mark.parametrize("name", TRACES)
def test_three_steps_of_minimize(name):
    make, path, slots = TRACES[name]
    optimizer, x = make(), fg.Variable(START)
    assert optimizer.get_slot_names() == []
    for point in path:
        assert optimizer.minimize(lambda: loss_of(x)) is None
        close(x, point)
    assert optimizer.get_slot_names() == sorted(slots)
    for slot, value in slots.items():
        close(optimizer.get_slot(x, slot), value)


@pytest.mark.parametrize("name", TRACES)
def test_three_steps_of_apply_gradients(name):
    make, path, slots = TRACES[name]
    optimizer, x = make(), fg.Variable(START)
    for point in path:
        assert optimizer.apply_gradients([(H @ x.numpy(), x)]) is None
        close(x, point)
    for slot, value in slots.items():
        close(optimizer.get_slot(x, slot), value)


@pytest.mark.parametrize("name", TRACES)
def test_three_steps_as_pure_functions(name):
    make, path, slots = TRACES[name]
    optimizer = make()
    params = {"x": np.array(START), "more": [2.0]}
    before = plain(params)
    state = optimizer.init(params)
    assert sorted(state.slots) == sorted(slots)
    states = [state]
    for point in path:
        grads = fg.grad(lambda p: loss_of(p["x"]) + p["more"][0] ** 2)(params)
        params, state = optimizer.update(grads, state, params)
        close(params["x"], point)
        states.append(state)
    for slot, value in slots.items():
        close(state.slots[slot]["x"], value)
    assert before == {"x": START, "more": [2.0]}
    # Nothing has been changed in place: the first state gives the first step again.
    first = {"x": np.array(START), "more": [2.0]}
    again, _ = optimizer.update({"x": H @ START, "more": [4.0]}, states[0], first)
    close(again["x"], path[0])
    assert [s.step for s in states] == [0, 1, 2, 3]


@pytest.mark.parametrize("name", TRACES)
def test_variables_and_pure_functions_take_the_same_path(name):
    make, _, _ = TRACES[name]
    rng = np.random.default_rng(0)
    optimizer, pure = make(), make()
    w, b = fg.Variable(rng.normal(size=(3, 2))), fg.Variable(rng.normal(size=2))
    params = (w.numpy(), b.numpy())
    state = pure.init(params)
    for _ in range(5):
        grads = (rng.normal(size=(3, 2)), rng.normal(size=2))
        optimizer.apply_gradients(zip(grads, (w, b), strict=True))
        params, state = pure.update(grads, state, params)
    np.testing.assert_allclose(np.asarray(params[0]), w.numpy(), rtol=0, atol=1e-15)
    np.testing.assert_allclose(np.asarray(params[1]), b.numpy(), rtol=0, atol=1e-15)


def test_the_default_parameters_of_adam():
    x = fg.Variable(START)
    Adam().apply_gradients([(np.array([5.0, 3.0]), x)])
    # The first step is learning_rate * g / (|g| + epsilon / sqrt(1 - beta2)), for whatever beta1.
    step = 0.001 * np.array([5.0, 3.0]) / (np.array([5.0, 3.0]) + 1e-8 / np.sqrt(1 - 0.999))
    close(x, START - step)


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_float32_is_kept(make):
    x = fg.Variable(np.float32(START))
    optimizer = make(0.1)
    for _ in range(2):
        optimizer.minimize(lambda: np.sum(x * x))
        assert x.dtype == np.float32
    for slot in optimizer.get_slot_names():
        assert optimizer.get_slot(x, slot).dtype == np.float32
    params, state = {"x": np.float32(START)}, optimizer.init({"x": np.float32(START)})
    for _ in range(2):
        params, state = optimizer.update({"x": np.ones(2)}, state, params)  # a float64 gradient
        assert params["x"].dtype == np.float32
        assert all(leaf.dtype == np.float32 for leaf in fg.tree_leaves(state.slots))


def test_hyper_parameters_are_not_rounded_to_float32():
    x = fg.Variable(1.0)
    GradientDescent(0.1).apply_gradients([(1.0, x)])
    assert x.numpy() == 1.0 - 0.1


def test_hyper_parameters_of_another_dtype_do_not_promote():
    for rate in (np.float64(0.5), np.array(0.5), fg.constant(0.5), fg.Variable(0.5), lambda: np.float64(0.5)):
        x = fg.Variable(np.float32(1))
        GradientDescent(rate).apply_gradients([(1.0, x)])
        assert (x.dtype, x.tolist()) == (np.float32, 0.5)
        params, _ = GradientDescent(rate).update(np.float32(1), GradientDescent(rate).init(x.numpy()), np.float32(1))
        assert (params.dtype, plain(params)) == (np.float32, 0.5)


def test_a_learning_rate_that_changes():
    steps = iter([0.5, 0.25])
    x = fg.Variable(1.0)
    optimizer = GradientDescent(lambda: next(steps))
    optimizer.apply_gradients([(1.0, x)])
    assert x.tolist() == 0.5
    optimizer.apply_gradients([(1.0, x)])
    assert x.tolist() == 0.25
    rate = fg.Variable(0.5, trainable=False)
    optimizer = GradientDescent(rate)
    optimizer.apply_gradients([(1.0, x)])
    assert x.tolist() == -0.25
    rate.assign(1.0)
    optimizer.apply_gradients([(1.0, x)])
    assert x.tolist() == -1.25


@pytest.mark.parametrize("value", [0.9, np.float64(0.9), fg.constant(0.9), fg.Variable(0.9), lambda: 0.9])
def test_every_hyper_parameter_may_be_of_any_kind(value):
    x = fg.Variable(START)
    optimizer = Momentum(0.1, momentum=value)
    for point in TRACES["momentum"][1]:
        optimizer.minimize(lambda: loss_of(x))
        close(x, point)
    y = fg.Variable(START)
    optimizer = Adam(0.1, beta1=value, beta2=lambda: 0.999, epsilon=np.array(1e-8))
    for point in TRACES["adam"][1]:
        optimizer.minimize(lambda: loss_of(y))
        close(y, point)


def test_a_negative_learning_rate_ascends():
    x = fg.Variable(1.0)
    GradientDescent(-0.5).apply_gradients([(1.0, x)])
    assert x.tolist() == 1.5


# compute_gradients


def test_compute_gradients():
    b, a = fg.Variable(3.0), fg.Variable(2.0)
    frozen = fg.Variable(5.0, trainable=False)
    optimizer = GradientDescent(0.1)
    pairs = optimizer.compute_gradients(lambda: a * a * b * frozen)
    assert type(pairs) is list
    assert [(g.item(), v) for g, v in pairs] == [(20.0, b), (60.0, a)]
    assert (a.tolist(), b.tolist()) == (2.0, 3.0)
    assert optimizer.compute_gradients(lambda: fg.constant(1.0)) == []


def test_compute_gradients_with_a_list_of_variables():
    a, b = fg.Variable(2.0), fg.Variable(3.0)
    frozen = fg.Variable(5.0, trainable=False)
    compute = GradientDescent(0.1).compute_gradients
    assert [(plain(g), v) for g, v in compute(lambda: a * a, [b, a])] == [(None, b), (4.0, a)]
    assert [(plain(g), v) for g, v in compute(lambda: a * frozen, [frozen])] == [(2.0, frozen)]
    assert [(plain(g), v) for g, v in compute(lambda: a * b, var_list=a)] == [(3.0, a)]
    assert [(plain(g), v) for g, v in compute(lambda: a * b, var_list=(v for v in (a, b)))] == [(3.0, a), (2.0, b)]
    n = fg.Variable(3)
    assert [(plain(g), v) for g, v in compute(lambda: a * n, [n, a])] == [(None, n), (3.0, a)]
    with pytest.raises(ValueError, match="No variables to optimize"):
        compute(lambda: a * a, [])


def test_compute_gradients_of_a_vector():
    v = fg.Variable(1.0)
    compute = GradientDescent(0.1).compute_gradients
    loss = lambda: v * np.array([1.0, 2.0, 3.0])  # noqa: E731
    assert compute(loss)[0][0].item() == 6.0
    assert compute(loss, grad_loss=np.array([1.0, 10.0, 100.0]))[0][0].item() == 321.0
    assert compute(loss, grad_loss=2.0)[0][0].item() == 12.0
    with pytest.raises(ValueError, match=r"shape \(2,\).*shape \(3,\)"):
        compute(loss, grad_loss=np.ones(2))


@pytest.mark.parametrize(
    ("loss", "error", "text"),
    [
        (lambda w: w * w, TypeError, "loss must be a function without arguments"),
        (lambda w: 3.0, TypeError, "loss must be a function without arguments"),
        (lambda w: w, TypeError, "loss must be a function without arguments"),
        (lambda w: lambda: None, ValueError, "loss function returned None"),
        (lambda w: lambda: float(w * w), TypeError, "loss must be a floating-point tensor, and it is 9.0"),
        (lambda w: lambda: 1.0, TypeError, "loss must be a floating-point tensor"),
        (lambda w: lambda: (w * w).astype(int), TypeError, "loss must be a floating-point tensor.*\n?.*int64"),
        (lambda w: lambda: "text", TypeError, "loss must be a floating-point tensor, and it is 'text'"),
    ],
)
def test_a_loss_of_another_kind(loss, error, text):
    w = fg.Variable(3.0)
    optimizer = Momentum(0.1, momentum=0.9)
    for method in (optimizer.compute_gradients, optimizer.minimize):
        with pytest.raises(error, match=text):
            method(loss(w))
    assert w.tolist() == 3.0
    assert optimizer.get_slot_names() == []


# apply_gradients


def test_apply_gradients_applies_what_it_is_handed():
    a, b, c = fg.Variable(1.0), fg.Variable([1.0, 2.0]), fg.Variable(5.0)
    optimizer = GradientDescent(0.5)
    pairs = ((g, v) for g, v in [(fg.constant(2.0), a), ([2.0, 4.0], b), (None, c)])
    optimizer.apply_gradients(pairs)
    assert (a.tolist(), b.tolist(), c.tolist()) == (0.0, [0.0, 0.0], 5.0)
    optimizer.apply_gradients([(fg.Variable(2.0), a)])
    assert a.tolist() == -1.0


def test_clipped_gradients():
    w = fg.Variable([3.0, 4.0])
    optimizer = GradientDescent(1.0)
    pairs = optimizer.compute_gradients(lambda: np.sum(w * w))
    clipped, norm = fg.clip_by_global_norm([g for g, _ in pairs], 5.0)
    assert norm.item() == 10.0
    optimizer.apply_gradients(zip(clipped, [v for _, v in pairs], strict=True))
    np.testing.assert_allclose(w.numpy(), [0.0, 0.0], atol=1e-15)


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_pairs_without_gradient_are_skipped(make):
    a, b = fg.Variable(1.0), fg.Variable(2.0)
    optimizer = make(0.1)
    optimizer.apply_gradients([(None, a), (1.0, b)])
    assert a.tolist() == 1.0
    assert b.tolist() != 2.0
    assert all(optimizer.get_slot(a, name) is None for name in optimizer.get_slot_names())
    params, state = {"a": 1.0, "b": 2.0}, optimizer.init({"a": 1.0, "b": 2.0})
    params, state = optimizer.update({"a": None, "b": 1.0}, state, params)
    assert plain(params["a"]) == 1.0
    assert plain(params["b"]) == b.tolist()


def test_nothing_to_apply():
    a, b, step = fg.Variable(1.0, name="a"), fg.Variable(2.0, name="b"), fg.Variable(0)
    optimizer = Adam(0.1)
    with pytest.raises(ValueError, match="No variables provided"):
        optimizer.apply_gradients([], global_step=step)
    with pytest.raises(ValueError, match="No gradients provided for any variable.*'a', 'b'"):
        optimizer.apply_gradients([(None, a), (None, b)], global_step=step)
    assert (a.tolist(), b.tolist(), step.tolist()) == (1.0, 2.0, 0)
    optimizer.apply_gradients([(5.0, a)])
    assert a.tolist() == pytest.approx(0.9, abs=1e-8)  # this was Adam's first step


def test_the_same_variable_twice():
    a = fg.Variable(2.0)
    GradientDescent(0.1).apply_gradients([(1.0, a), (2.0, a)])
    assert a.tolist() == pytest.approx(1.7, abs=1e-15)


def test_a_variable_that_is_not_trainable_is_updated_when_handed_in():
    a = fg.Variable(2.0, trainable=False)
    GradientDescent(0.5).apply_gradients([(1.0, a)])
    assert a.tolist() == 1.5


def test_a_gradient_that_is_not_a_number_is_applied():
    a = fg.Variable([1.0, 2.0])
    GradientDescent(0.5).apply_gradients([([np.nan, 1.0], a)])
    np.testing.assert_array_equal(a.numpy(), [np.nan, 1.5])


@pytest.mark.parametrize("gradient", [1, 1.0, True + 0, np.float32(1), np.int32(1), np.array(1.0), fg.constant(1)])
def test_a_gradient_is_cast_to_the_dtype_of_its_variable(gradient):
    for dtype in (np.float64, np.float32):
        a = fg.Variable(2.0, dtype=dtype)
        GradientDescent(0.5).apply_gradients([(gradient, a)])
        assert (a.dtype, a.tolist()) == (dtype, 1.5)


@pytest.mark.parametrize(
    ("gradient", "error", "text"),
    [
        (np.ones(3), ValueError, r"gradient of variable 'b' has shape \(3,\), and the variable has shape \(2,\)"),
        (1.0, ValueError, r"gradient of variable 'b' has shape \(\), and the variable has shape \(2,\)"),
        (np.ones((1, 2)), ValueError, r"shape \(1, 2\)"),
        (np.ones(2) * 1j, TypeError, "gradient of the real variable 'b' is complex"),
        (["x", "y"], TypeError, "gradient of variable 'b' must be numbers"),
        (object(), TypeError, "gradient of variable 'b' must be numbers"),
    ],
)
@pytest.mark.parametrize("make", OPTIMIZERS)
def test_a_gradient_that_does_not_fit_changes_nothing(make, gradient, error, text):
    a, b, step = fg.Variable(1.0, name="a"), fg.Variable([1.0, 2.0], name="b"), fg.Variable(0)
    optimizer, twin = make(0.1), make(0.1)
    optimizer.apply_gradients([(1.0, a)])
    twin.apply_gradients([(1.0, fg.Variable(1.0))])
    before = a.tolist()
    with pytest.raises(error, match=text):
        optimizer.apply_gradients([(1.0, a), (gradient, b)], global_step=step)
    assert (a.tolist(), b.tolist(), step.tolist()) == (before, [1.0, 2.0], 0)
    # The state is unchanged, too: the next step is that of an optimizer that has not seen the error.
    optimizer.apply_gradients([(1.0, a)])
    v = fg.Variable(before)
    twin = make(0.1)
    shadow = fg.Variable(1.0)
    twin.apply_gradients([(1.0, shadow)])
    twin.apply_gradients([(1.0, shadow)])
    assert a.tolist() == shadow.tolist()
    assert v.tolist() == before


def test_update_refuses_another_shape():
    optimizer = Adam(0.1)
    params = {"a": np.ones(2)}
    with pytest.raises(ValueError, match=r"shape \(3,\).*shape \(2,\)"):
        optimizer.update({"a": np.ones(3)}, optimizer.init(params), params)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_global_step(dtype):
    a, step = fg.Variable(1.0), fg.Variable(0, dtype=dtype)
    optimizer = GradientDescent(lambda: 1.0 / (1.0 + step.numpy()))
    optimizer.apply_gradients([(0.5, a)], global_step=step)
    assert (step.tolist(), a.tolist()) == (1, 0.5)  # counted after the update, which saw 0
    optimizer.minimize(lambda: a * 1.0, global_step=step)
    assert (step.tolist(), a.tolist()) == (2, 0.0)
    assert step.dtype == dtype


# minimize


def test_minimize_is_compute_then_apply():
    for make in OPTIMIZERS:
        a, b = fg.Variable(START), fg.Variable(START)
        one, other = make(0.1), make(0.1)
        for _ in range(3):
            one.minimize(lambda: loss_of(a))
            other.apply_gradients(other.compute_gradients(lambda: loss_of(b)))
        assert a.tolist() == b.tolist()


def test_minimize_with_options():
    a, b, step = fg.Variable(1.0), fg.Variable(2.0), fg.Variable(0)
    GradientDescent(0.5).minimize(lambda: [a * b, a * 2.0], global_step=step, var_list=[a], grad_loss=[1.0, 0.5])
    assert (a.tolist(), b.tolist(), step.tolist()) == (1.0 - 0.5 * 3.0, 2.0, 1)


def test_minimize_without_any_gradient():
    a, b, step = fg.Variable(1.0, name="a"), fg.Variable(2.0, name="b"), fg.Variable(0)
    optimizer = GradientDescent(0.5)
    with pytest.raises(ValueError, match="No gradients provided for any variable.*'a', 'b'"):
        optimizer.minimize(lambda: fg.stop_gradient(a * b), global_step=step)
    with pytest.raises(ValueError, match="No gradients provided for any variable.*'b'"):
        optimizer.minimize(lambda: a * 1.0, var_list=[b])
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        optimizer.minimize(lambda: fg.constant(1.0))
    with pytest.raises(ValueError, match="No variables to optimize"):
        optimizer.minimize(lambda: a * 1.0, var_list=[])
    assert (a.tolist(), b.tolist(), step.tolist()) == (1.0, 2.0, 0)


def test_the_message_names_the_line_where_a_value_left_the_trace():
    w = fg.Variable(2.0, name="w")
    with pytest.raises(ValueError, match=r"float\(\) at test_optimizers.py:\d+.*fg.constant\(float"):
        GradientDescent(0.5).minimize(lambda: fg.constant(float(w * 2.0)))


def test_minimize_keeps_variables_without_gradient():
    a, b = fg.Variable(1.0), fg.Variable(2.0)

    def loss():
        b * 1.0
        return a * a

    GradientDescent(0.5).minimize(loss)
    assert (a.tolist(), b.tolist()) == (0.0, 2.0)


def test_an_exception_in_the_loss():
    a = fg.Variable(1.0)

    def loss():
        a * 2.0
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        GradientDescent(0.5).minimize(loss)
    assert a.tolist() == 1.0
    GradientDescent(0.5).minimize(lambda: a * a)
    assert a.tolist() == 0.0


def test_a_loss_with_an_inner_gradient():
    a = fg.Variable(2.0)
    # The loss is (d/dx a x^2 at 3)^2 = 36 a^2.
    ((gradient, _),) = GradientDescent(0.5).compute_gradients(lambda: fg.grad(lambda x: a * x * x)(3.0) ** 2)
    assert gradient.item() == 144.0


def test_complex_variables_descend():
    target = np.array([2.0 - 1.0j, 1.0 + 1.0j])
    for make, steps in ((GradientDescent, 80), (Adam, 400)):
        z = fg.Variable([1.0 + 5.0j, -3.0j])
        optimizer = make(0.2)
        for _ in range(steps):
            optimizer.minimize(lambda: np.sum(np.abs(z - target) ** 2))
        np.testing.assert_allclose(z.numpy(), target, atol=1e-3)


def test_slots():
    a, b = fg.Variable(1.0), fg.Variable(1.0)
    optimizer = Momentum(0.1, momentum=0.9)
    optimizer.apply_gradients([(2.0, a)])
    assert optimizer.get_slot(a, "momentum").tolist() == 2.0
    assert optimizer.get_slot(b, "momentum") is None
    assert optimizer.get_slot(a, "bogus") is None
    optimizer.get_slot(a, "momentum")[...] = 7.0  # a copy
    assert optimizer.get_slot(a, "momentum").tolist() == 2.0


def test_an_optimizer_serves_several_variables_of_several_shapes():
    a, b = fg.Variable(2.0), fg.Variable(np.ones((2, 3)))
    optimizer = Adam(0.1)
    for _ in range(200):
        optimizer.minimize(lambda: (a - 1.0) ** 2 + np.sum((b - 3.0) ** 2))
    assert a.tolist() == pytest.approx(1.0, abs=1e-2)
    np.testing.assert_allclose(b.numpy(), np.full((2, 3), 3.0), atol=1e-2)


# Differentiating a step


def test_the_derivative_of_a_step_by_the_learning_rate():
    # x' = x - r g with g = 2 x; the loss x'^2 has the derivative -2 x' g by r.
    def after(rate):
        optimizer = GradientDescent(rate)
        x = np.float64(3.0)
        (g,) = fg.gradients_function(lambda x: x * x)(x)
        new, _ = optimizer.update(g, optimizer.init(x), x)
        return new**2

    assert fg.grad(after)(0.25).item() == pytest.approx(-2 * (3.0 - 0.25 * 6.0) * 6.0, rel=1e-14)
    assert along(after)(0.25).item() == pytest.approx(-18.0, rel=1e-14)


@pytest.mark.parametrize("name", TRACES)
def test_the_derivative_of_three_steps_by_the_start(name):
    make, path, _ = TRACES[name]
    optimizer = make()

    def run(x):
        state = optimizer.init(x)
        for _ in range(3):
            x, state = optimizer.update(fg.grad(loss_of)(x), state, x)
        return loss_of(x)

    x = np.array(START)
    gradient = np.asarray(fg.grad(run)(x))
    close(run(x), loss_of(np.array(path[-1])))
    for i in range(2):
        step = 1e-6 * np.eye(2)[i]
        difference = (run(x + step).item() - run(x - step).item()) / 2e-6
        assert gradient[i] == pytest.approx(difference, rel=1e-5, abs=1e-7)
    if name == "gradient descent":
        m = np.linalg.matrix_power(np.eye(2) - 0.1 * H, 3)
        np.testing.assert_allclose(gradient, m.T @ H @ m @ x, rtol=1e-12)


def test_the_state_is_a_container():
    optimizer = Momentum(0.1, momentum=0.9)
    state = optimizer.init({"w": np.ones(2)})
    doubled = fg.tree_map(lambda leaf: leaf * 2, state)
    assert type(doubled) is type(state)
    assert plain(doubled.slots) == {"momentum": {"w": [0.0, 0.0]}}
