"""Optimizers: what they take and return, their edges, their options, their state."""

import copy
import inspect
import pickle
import re

import numpy as np
import pytest
from helpers import along, naming, plain
from test_optimizer_traces import EVERY, OPTIMIZERS, RECOMPUTING, START, TRACES, H, close, loss_of, make

import fgrad as fg
from fgrad import errors
from fgrad.optimizers import (
    Adadelta,
    Adagrad,
    AdagradDA,
    Adam,
    AdamW,
    Ftrl,
    GradientDescent,
    Lamb,
    Lion,
    Momentum,
    Nadam,
    Optimizer,
    ProximalAdagrad,
    ProximalGradientDescent,
    RAdam,
    RMSProp,
    schedules,
)


def test_the_default_parameters_of_adam():
    x = fg.Variable(START)
    Adam().apply_gradients([(np.array([5.0, 3.0]), x)])
    # The first step is learning_rate * g / (|g| + epsilon / sqrt(1 - beta2)), for whatever beta1.
    step = 0.001 * np.array([5.0, 3.0]) / (np.array([5.0, 3.0]) + 1e-8 / np.sqrt(1 - 0.999))
    close(x, START - step)


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


@pytest.mark.parametrize("rate", [-0.5, float("nan"), np.array([0.1, -0.1])])
def test_a_learning_rate_is_not_negative(rate):
    with pytest.raises(errors.ParameterError, match="learning_rate must be 0 or more, and it is"):
        GradientDescent(rate)
    for made in (fg.Variable(rate), lambda: rate) if np.ndim(rate) == 0 else ():  # which are asked in a step
        x = fg.Variable(1.0)
        with pytest.raises(errors.ParameterError, match="learning_rate must be 0 or more, and in step 1 of Gradient"):
            GradientDescent(made).apply_gradients([(1.0, x)])
        with pytest.raises(errors.ParameterError, match="in step 1"):
            optimizer = GradientDescent(made)
            optimizer.update(1.0, optimizer.init(2.0), 2.0)
        assert x.tolist() == 1.0


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


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
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


@EVERY
def test_pairs_without_gradient_are_skipped(kind):
    a, b = fg.Variable(1.0), fg.Variable(2.0)
    optimizer = make(kind, 0.1)
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


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_gradient_that_is_not_a_number_is_applied_and_warned_of_once(number):
    a, b = fg.Variable([1.0, 2.0], name="a"), fg.Variable(1.0, name="b")
    optimizer = GradientDescent(0.5)
    optimizer.apply_gradients([(1.0, b), ([1e308, 1e308], a)])  # of which the sum is infinite
    text = r"GradientDescent: the gradient of variable 'a' holds an infinity or a nan(.|\n)*skip_nonfinite=True"
    with pytest.warns(errors.NonFiniteGradientWarning, match=text) as caught:
        optimizer.apply_gradients([(1.0, b), ([number, 1.0], a)])
    assert caught[0].filename == __file__
    optimizer.apply_gradients([(1.0, b), ([number, 1.0], a)])
    assert np.isfinite(a.numpy()).tolist() == [False, True]
    optimizer = GradientDescent(0.5)
    with pytest.warns(errors.NonFiniteGradientWarning, match=r"the gradient of parameter \['w'\]"):
        optimizer.update({"w": number}, optimizer.init({"w": 2.0}), {"w": 2.0})
    optimizer = GradientDescent(0.5, skip_nonfinite=True)
    optimizer.apply_gradients([(number, b)])
    assert (optimizer.skipped, b.tolist()) == (1, -0.5)


@pytest.mark.parametrize("gradient", [1, 1.0, True + 0, np.float32(1), np.int32(1), np.array(1.0), fg.constant(1)])
def test_a_gradient_is_cast_to_the_dtype_of_its_variable(gradient):
    for dtype in (np.float64, np.float32):
        a = fg.Variable(2.0, dtype=dtype)
        GradientDescent(0.5).apply_gradients([(gradient, a)])
        assert (a.dtype, a.tolist()) == (dtype, 1.5)


UNFIT = [
    (np.ones(3), ValueError, r"gradient of variable 'b' has shape \(3,\), and the variable has shape \(2,\)"),
    (1.0, ValueError, r"gradient of variable 'b' has shape \(\), and the variable has shape \(2,\)"),
    (np.ones((1, 2)), ValueError, r"shape \(1, 2\)"),
    (np.ones(2) * 1j, TypeError, "gradient of the real variable 'b' is complex"),
    (["x", "y"], TypeError, "gradient of variable 'b' must be numbers"),
    (object(), TypeError, "gradient of variable 'b' must be numbers"),
]


@EVERY
def test_a_gradient_that_does_not_fit_changes_nothing(kind):
    for gradient, error, text in UNFIT:
        with naming(gradient):
            check_refused(kind, gradient, error, text)


def check_refused(kind, gradient, error, text):
    a, b, step = fg.Variable(1.0, name="a"), fg.Variable([1.0, 2.0], name="b"), fg.Variable(0)
    optimizer = make(kind, 0.1)
    optimizer.apply_gradients([(1.0, a)])
    before = a.tolist()
    with pytest.raises(error, match=text):
        optimizer.apply_gradients([(1.0, a), (gradient, b)], global_step=step)
    assert (a.tolist(), b.tolist(), step.tolist()) == (before, [1.0, 2.0], 0)
    # The state is unchanged, too: the next step is that of an optimizer that has not seen the error.
    optimizer.apply_gradients([(1.0, a)])
    twin = make(kind, 0.1)
    shadow = fg.Variable(1.0)
    twin.apply_gradients([(1.0, shadow)])
    twin.apply_gradients([(1.0, shadow)])
    assert a.tolist() == shadow.tolist()


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
    for kind in OPTIMIZERS:
        a, b = fg.Variable(START), fg.Variable(START)
        one, other = make(kind, 0.1), make(kind, 0.1)
        for _ in range(3):
            one.minimize(lambda: loss_of(a))
            other.apply_gradients(other.compute_gradients(lambda: loss_of(b)))
        assert a.tolist() == b.tolist()


def test_minimize_with_options():
    a, b, step = fg.Variable(1.0), fg.Variable(2.0), fg.Variable(0)
    GradientDescent(0.5).minimize(lambda: [a * b, a * 2.0], global_step=step, var_list=[a], grad_loss=[1.0, 0.5])
    assert (a.tolist(), b.tolist(), step.tolist()) == (1.0 - 0.5 * 3.0, 2.0, 1)


@pytest.mark.parametrize("kind", [list, tuple])
def test_minimize_takes_the_variables_in_second_place(kind):
    a, b = fg.Variable(1.0), fg.Variable(2.0)
    optimizer = GradientDescent(0.5)
    optimizer.minimize(lambda: a * b, kind([a]))
    assert (a.tolist(), b.tolist(), optimizer.iterations) == (0.0, 2.0, 1)
    with pytest.raises(ValueError, match="No variables to optimize"):
        optimizer.minimize(lambda: a * b, kind([]))
    with pytest.raises(ValueError, match="global_step must be a variable"):
        optimizer.minimize(lambda: a * b, kind([a]), var_list=[b])
    assert (a.tolist(), b.tolist()) == (0.0, 2.0)


def test_a_global_step_that_is_updated_itself():
    a, b = fg.Variable(1.0), fg.Variable(2.0)
    optimizer = GradientDescent(0.5)
    for call in (
        lambda: optimizer.minimize(lambda: a * b, a),
        lambda: optimizer.apply_gradients([(1.0, a)], global_step=a),
    ):
        with pytest.raises(ValueError, match=r"global_step, to which each step adds 1.*\n.*minimize\(loss, \[w\]\)"):
            call()
    assert (a.tolist(), b.tolist()) == (1.0, 2.0)


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
    with pytest.raises(ValueError, match=r"\.item\(\) at test_optimizers.py:\d+.*fg.constant\(\(w"):
        GradientDescent(0.5).minimize(lambda: fg.constant((w * 2.0).item()))


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
    make_one, path, _ = TRACES[name]
    optimizer = make_one()

    def run(x):
        state = optimizer.init(x)
        for _ in range(3):
            x, state = optimizer.update(fg.grad(loss_of)(x), state, x)
        return loss_of(x)

    x = np.array(START)
    gradient = np.asarray(fg.grad(run)(x))
    np.testing.assert_allclose(np.asarray(run(x)), loss_of(np.array(path[-1])), rtol=1e-8)
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


@pytest.mark.filterwarnings("ignore:every gradient of")
@EVERY
def test_the_derivative_by_every_hyper_parameter(kind):
    hypers = ("learning_rate", *kind.hyper_names)
    start = np.array([1.0, -2.0])

    def after(name, value):
        optimizer = make(kind)
        setattr(optimizer, name, value)
        x, state = start, optimizer.init(start)
        for _ in range(6):  # RAdam divides from the fifth on
            x, state = optimizer.update(H @ x, state, x)
        return np.sum(x**2)

    for name in hypers:
        # Differences do not see an epsilon of 1e-8, and strengths of 0 are at the border of what is allowed.
        value = max(getattr(make(kind), name), 0.01)
        gradient = fg.grad(lambda h: after(name, h))(np.float64(value)).item()
        step = 1e-5 * value
        difference = (after(name, value + step).item() - after(name, value - step).item()) / (2 * step)
        assert gradient == pytest.approx(difference, rel=1e-4, abs=1e-7), name
        assert along(lambda h: after(name, h))(np.float64(value)).item() == pytest.approx(gradient, rel=1e-9), name


# Hyper-parameters


@EVERY
def test_every_hyper_parameter_may_be_of_any_kind_everywhere(kind):
    def path(wrap, dtype=np.float64):
        optimizer, x = make(kind), fg.Variable(START, dtype=dtype)
        for name in ("learning_rate", *kind.hyper_names):
            setattr(optimizer, name, wrap(getattr(optimizer, name)))
        for _ in range(6):
            optimizer.minimize(lambda: loss_of(x))
        return x.numpy()

    expected = path(lambda value: value)
    assert (expected != START).all()
    for wrap in (np.float64, np.array, fg.constant, fg.Variable, lambda v: lambda: v, lambda v: lambda: fg.constant(v)):
        np.testing.assert_array_equal(path(wrap), expected)
        np.testing.assert_array_equal(path(wrap, np.float32), path(lambda value: value, np.float32))
    np.testing.assert_array_equal(path(lambda v: schedules.PiecewiseConstantDecay([50], [v, 0.0])), expected)
    # An array has a value for each element; a power of an array is rounded otherwise than one of a number.
    np.testing.assert_allclose(path(lambda value: np.array([value, value])), expected, rtol=1e-12)


@EVERY
def test_a_float32_step_is_computed_with_numbers_of_full_precision(kind):
    # 1 - beta2 would have an error of 1e-5 if beta2 were rounded to float32.
    x, y = fg.Variable(np.float32(START)), fg.Variable(START)
    one, other = make(kind), make(kind)
    for name in kind.hyper_names:
        setattr(one, name, np.float64(getattr(one, name)))
    for _ in range(3):
        one.apply_gradients([(H @ START, x)])
        other.apply_gradients([(H @ START, y)])
    np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-6)


def test_a_hyper_parameter_is_asked_for_once_in_a_step():
    calls = []
    optimizer = Momentum(lambda: calls.append(0) or 0.1, momentum=0.9)
    optimizer.apply_gradients([(1.0, fg.Variable(1.0)), (1.0, fg.Variable(2.0))])
    assert len(calls) == 1
    optimizer.update([1.0, 1.0], optimizer.init([1.0, 2.0]), [1.0, 2.0])
    assert len(calls) == 2


def test_a_schedule_is_called_with_the_number_of_updates():
    class Steps(schedules.Schedule):
        def value(self, step):
            return step + 1

    x = fg.Variable(0.0)
    optimizer = GradientDescent(Steps())
    for total in (-1.0, -3.0, -6.0):
        optimizer.apply_gradients([(1.0, x)])
        assert x.tolist() == total
    params, state = 0.0, optimizer.init(0.0)
    for total in (-1.0, -3.0, -6.0):
        params, state = optimizer.update(1.0, state, params)
        assert plain(params) == total
    optimizer = Adam(schedules.ExponentialDecay(0.1, 1, 0.5), beta1=schedules.PiecewiseConstantDecay([0], [0.5, 0.9]))
    optimizer.apply_gradients([(1.0, x)])
    assert optimizer.get_slot(x, "m").tolist() == 0.5
    optimizer.apply_gradients([(0.0, x)])
    assert optimizer.get_slot(x, "m").tolist() == 0.45


def test_a_hyper_parameter_that_is_assigned():
    x = fg.Variable(1.0)
    optimizer = GradientDescent(0.5)
    optimizer.learning_rate = 0.25
    optimizer.apply_gradients([(1.0, x)])
    assert x.tolist() == 0.75


def test_an_array_as_learning_rate():
    x = fg.Variable([1.0, 1.0])
    GradientDescent(np.array([0.5, 0.25])).apply_gradients([(np.ones(2), x)])
    assert x.tolist() == [0.5, 0.75]
    y = fg.Variable(1.0, name="y")
    optimizer = GradientDescent(np.array([0.5, 0.25]))
    with pytest.raises(ValueError, match=r"update of variable 'y' has shape \(2,\) in place of \(\): a hyper-"):
        optimizer.apply_gradients([(np.ones(2), x), (1.0, y)])
    assert (x.tolist(), y.tolist(), optimizer.iterations) == ([0.5, 0.75], 1.0, 0)
    with pytest.raises(ValueError, match=r"update of parameter \['w'\] has shape \(2,\)"):
        optimizer.update({"w": 1.0}, optimizer.init({"w": 1.0}), {"w": 1.0})


def test_an_error_in_the_middle_of_a_step_changes_nothing():
    a, b, step = fg.Variable(1.0), fg.Variable(np.float32(1e30)), fg.Variable(0)
    optimizer = Adagrad(0.1)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="overflow"):
        optimizer.apply_gradients([(1.0, a), (1e30, b)], global_step=step)
    assert (a.tolist(), b.tolist(), step.tolist(), optimizer.iterations) == (1.0, np.float32(1e30), 0, 0)
    assert optimizer.get_slot(a, "accumulator") is None


@pytest.mark.parametrize(
    ("constructor", "text"),
    [
        (lambda: Adagrad(0.1, initial_accumulator_value=0.0), "_accumulator_value must be positive, and it is 0.0"),
        (lambda: Adagrad(0.1, -1.0), "initial_accumulator_value must be positive"),
        (lambda: Adagrad(0.1, 1j), "initial_accumulator_value must be positive, and it is 1j"),
        (lambda: Adagrad(0.1, True), "initial_accumulator_value must be positive, and it is True"),
        (lambda: ProximalAdagrad(0.1, 0.0), "initial_accumulator_value must be positive"),
        (lambda: ProximalAdagrad(0.1, l1_regularization_strength=-1), "l1_regularization_strength must be 0 or more"),
        (lambda: ProximalGradientDescent(0.1, 0.0, -0.1), "l2_regularization_strength must be 0 or more"),
        (lambda: AdagradDA(0.1, None, 0.0), "initial_gradient_squared_accumulator_value must be positive"),
        (lambda: AdagradDA(0.1, 0), "global_step must be a variable or None, and it is 0"),
        (lambda: AdagradDA(0.1, l1_regularization_strength=-1.0), "l1_regularization_strength must be 0 or more"),
        (lambda: Ftrl(0.1, initial_accumulator_value=-0.1), "initial_accumulator_value must be 0 or more"),
        (lambda: Ftrl(0.1, l1_regularization_strength=-0.1), "l1_regularization_strength must be 0 or more"),
        (lambda: Ftrl(0.1, l2_regularization_strength=-0.1), "l2_regularization_strength must be 0 or more"),
        (lambda: Ftrl(0.1, l2_shrinkage_regularization_strength=-1), "l2_shrinkage_regularization_strength must be 0"),
        (lambda: Ftrl(0.1, learning_rate_power=0.5), "learning_rate_power must not be positive, and it is 0.5"),
        (lambda: Ftrl(0.1, beta=-1.0), "beta must be 0 or more"),
        (lambda: Adam(beta1=1.0), "beta1 must be at least 0 and below 1, and it is 1.0"),
        (lambda: Adam(beta2=-0.1), "beta2 must be at least 0 and below 1"),
        (lambda: Adam(beta2=np.array([0.9, 1.5])), "beta2 must be at least 0 and below 1"),
        (lambda: Adam(beta1=float("nan")), "beta1 must be at least 0 and below 1"),
        (lambda: Adam(epsilon=-1e-8), "epsilon must be 0 or more"),
        (lambda: Adam(fg.constant(-0.5)), "learning_rate must be 0 or more, and it is -0.5"),
        (lambda: Lion(beta1=2.0), "beta1 must be at least 0 and below 1"),
        (lambda: Nadam(momentum_decay=-1.0), "momentum_decay must be 0 or more"),
        (lambda: RAdam(threshold=3.0), "threshold must be 4 or more, and it is 3.0"),
        (lambda: RAdam(threshold=fg.constant(3.0)), "threshold must be 4 or more, and it is 3"),
        (lambda: RAdam(threshold="low"), "threshold must be 4 or more, and it is 'low'"),
        (lambda: Lamb(epsilon=-1e-8), "epsilon must be 0 or more"),  # declared again for another default
        (lambda: AdamW(weight_decay=-0.1), "weight_decay must be 0 or more"),
        (lambda: Adadelta(rho=1.0), "rho must be at least 0 and below 1"),
        (lambda: RMSProp(0.1, decay=1.0), "decay must be at least 0 and below 1"),
        (lambda: RMSProp(0.1, momentum=-1.0), "momentum must be 0 or more"),
        (lambda: Momentum(0.1, momentum=-0.9), "momentum must be 0 or more"),
        (lambda: Adam("fast"), "learning_rate must be a real number, an array or variable .* it is 'fast'"),
        (lambda: Adam(None), "learning_rate must be a real number"),
        (lambda: Adam(0.1j), "learning_rate must be a real number"),
        (lambda: Adam(epsilon="small"), "epsilon must be a real number"),
        (lambda: Adam(weight_decay=-0.1), "weight_decay must be 0 or more"),
        (lambda: Adam(name=""), "name must not be empty"),
        (
            lambda: AdagradDA(0.1, weight_decay=0.1),
            "weight_decay has no effect in AdagradDA.*l2_regularization_strength",
        ),
        (lambda: Ftrl(0.1, weight_decay=lambda: 0.1), "weight_decay has no effect in Ftrl.*l2_regularization_strength"),
    ],
)
def test_constructors_refuse(constructor, text):
    with pytest.raises(errors.ParameterError, match=text) as caught:
        constructor()
    assert isinstance(caught.value, ValueError)
    assert "\n  at test_optimizers.py:" in str(caught.value)


@EVERY
def test_every_constructor_takes_the_shared_options_and_no_others(kind):
    optimizer = make(kind, name="mine", skip_nonfinite=True, decay_mask=None)
    assert (optimizer.name, optimizer.skip_nonfinite) == ("mine", True)
    assert make(kind).name == kind.__name__
    with pytest.raises(TypeError, match="unexpected keyword argument 'bogus'"):
        make(kind, bogus=1)


@EVERY
def test_the_parameters_are_documented_with_their_conditions(kind):
    text = inspect.getdoc(kind)
    for name, parameter in inspect.signature(kind).parameters.items():
        assert re.search(rf"^    (.*, )?{name}(, .*)?: [\w`]", text, re.MULTILINE), name
        assert parameter.kind is not parameter.VAR_KEYWORD
    assert "`learning_rate`, `weight_decay`" in text
    assert re.search("must be\\s+0\\s+or\\s+more", text)


def test_a_parameter_that_is_declared_again_keeps_its_documentation():
    assert "epsilon: keeps the divisor away from 0.\n" in inspect.getdoc(Lamb)
    assert inspect.signature(Lamb).parameters["epsilon"].default == 1e-6


def test_a_keyword_that_a_subclass_passes_on_is_refused_with_the_known_ones():
    class Mine(Momentum):
        def __init__(self, learning_rate, **options):
            super().__init__(learning_rate, 0.9, **options)

    assert Mine(0.1, weight_decay=0.5).weight_decay == 0.5
    with pytest.raises(errors.KeywordError, match=r"Mine\(\) .* 'decay'(.|\n)*learning_rate, .*weight_decay"):
        Mine(0.1, decay=0.5)


def test_what_a_function_returns_is_checked_in_the_step():
    x = fg.Variable(1.0)
    with pytest.raises(errors.ParameterError, match="learning_rate must be a real number.*'fast'"):
        GradientDescent(lambda: "fast").apply_gradients([(1.0, x)])
    assert x.tolist() == 1.0


def test_the_defaults():
    assert vars(Adadelta()).items() >= {"learning_rate": 0.001, "rho": 0.95, "epsilon": 1e-8}.items()
    expected = {"decay": 0.9, "momentum": 0.0, "epsilon": 1e-10, "centered": False}
    assert vars(RMSProp(0.1)).items() >= expected.items()
    expected = {"learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "corrected_epsilon": False}
    assert vars(Adam()).items() >= expected.items()
    assert vars(AdamW()).items() >= {**expected, "corrected_epsilon": True, "weight_decay": 0.01}.items()
    assert vars(Nadam()).items() >= {"epsilon": 1e-7, "momentum_decay": 1.0, "weight_decay": 0.0}.items()
    expected = {"learning_rate_power": -0.5, "initial_accumulator_value": 0.1, "beta": 0.0}
    assert vars(Ftrl(0.1)).items() >= expected.items()
    assert Ftrl(0.1, beta=None).beta == 0.0
    assert Momentum(0.1, 0.9).use_nesterov is False
    for kind in (GradientDescent, Momentum, Adagrad, AdagradDA, RMSProp, Ftrl, ProximalAdagrad):
        with pytest.raises(TypeError, match="learning_rate"):
            kind()


# The slots


@pytest.mark.parametrize(
    ("constructor", "slots"),
    [
        (lambda: GradientDescent(0.1), {}),
        (lambda: ProximalGradientDescent(0.1), {}),
        (lambda: Momentum(0.1, 0.9), {"momentum": 0.0}),
        (lambda: Adagrad(0.1), {"accumulator": 0.1}),
        (lambda: ProximalAdagrad(0.1, 0.5), {"accumulator": 0.5}),
        (lambda: AdagradDA(0.1), {"gradient_accumulator": 0.0, "gradient_squared_accumulator": 0.1}),
        (lambda: Adadelta(), {"accum": 0.0, "accum_update": 0.0}),
        (lambda: RMSProp(0.1), {"momentum": 0.0, "rms": 1.0}),
        (lambda: RMSProp(0.1, centered=True), {"mg": 0.0, "momentum": 0.0, "rms": 1.0}),
        (lambda: Adam(), {"m": 0.0, "v": 0.0}),
        (lambda: Ftrl(0.1), {"accum": 0.1, "linear": 0.0}),
    ],
)
def test_the_slots_and_what_they_start_with(constructor, slots):
    optimizer, x = constructor(), fg.Variable(np.ones((2, 3)))
    state = optimizer.init({"w": x.numpy()})
    assert {name: plain(tree["w"]) for name, tree in state.slots.items()} == {
        name: np.full((2, 3), value).tolist() for name, value in slots.items()
    }
    assert optimizer.get_slot_names() == []
    assert plain(optimizer.variables()) == [0]
    optimizer.apply_gradients([(np.ones((2, 3)), x)])
    assert optimizer.get_slot_names() == sorted(slots)
    assert [np.shape(each) for each in optimizer.variables()] == [(), *[(2, 3)] * len(slots)]
    assert plain(optimizer.variables())[0] == 1


def test_adagrad_da_with_a_global_step():
    x, y, step = fg.Variable(START), fg.Variable(START), fg.Variable(0)
    settings = {"l1_regularization_strength": 0.1, "l2_regularization_strength": 0.2}
    counted, counting = AdagradDA(0.1, step, **settings), AdagradDA(0.1, **settings)
    for _ in range(3):
        counted.apply_gradients([(H @ x.numpy(), x)], global_step=step)
        counting.apply_gradients([(H @ y.numpy(), y)])
    assert x.tolist() == y.tolist()
    step.assign(100)
    counted.apply_gradients([(H @ x.numpy(), x)], global_step=step)
    counting.apply_gradients([(H @ y.numpy(), y)])
    assert x.tolist() != y.tolist()


def test_ftrl_before_the_first_gradient():
    # With nothing accumulated there is nothing to divide by, and the parameter is computed anew: 0.
    x = fg.Variable([1.0, 1.0])
    Ftrl(0.1, initial_accumulator_value=0.0).apply_gradients([([0.0, 1.0], x)])
    assert x.tolist() == [0.0, pytest.approx(-0.1 + 1.0)]


# Pairs and containers that do not fit


@pytest.mark.parametrize(
    "pairs",
    [
        [(1.0, fg.constant(2.0))],
        [(fg.Variable(1.0), 2.0)],
        [1.0],
        [fg.Variable(1.0)],
        [(1.0,)],
        [(1.0, fg.Variable(1.0)), (1.0, np.ones(()))],
    ],
)
def test_what_is_no_pair_of_a_gradient_and_a_variable(pairs):
    with pytest.raises(TypeError, match=r"takes pairs \(gradient, variable\), but one element is"):
        GradientDescent(0.1).apply_gradients(pairs)


def test_a_global_step_that_is_no_variable():
    x = fg.Variable(1.0)
    with pytest.raises(ValueError, match="global_step must be a variable, and it is 3"):
        GradientDescent(0.1).apply_gradients([(1.0, x)], global_step=3)
    assert x.tolist() == 1.0


def test_integers_are_not_optimized():
    n = fg.Variable(3, name="n")
    with pytest.raises(TypeError, match="variable 'n' has dtype int64; an optimizer can only update floating-point"):
        GradientDescent(0.1).apply_gradients([(1.0, n)])
    optimizer = GradientDescent(0.1)
    with pytest.raises(TypeError, match=r"parameter \['w'\]\[1\] has dtype int64"):
        optimizer.init({"w": [1.0, 2]})
    with pytest.raises(TypeError, match=r"parameter \['w'\]\[1\] has dtype int64"):
        optimizer.update({"w": [1.0, 1.0]}, optimizer.init({"w": [1.0, 2.0]}), {"w": [1.0, 2]})


def test_containers_that_do_not_fit():
    optimizer, params = Momentum(0.1, momentum=0.9), {"a": 1.0, "b": [2.0]}
    state = optimizer.init(params)
    for grads in ({"a": 1.0}, {"a": 1.0, "b": 2.0}, [1.0, [2.0]], {"a": 1.0, "b": [2.0, 3.0]}, 1.0):
        with pytest.raises(errors.StateError, match="grads must have the structure of the parameters"):
            optimizer.update(grads, state, params)
    with pytest.raises(errors.StateError, match=r"state.slots\['momentum'\] must have the structure of the parameters"):
        optimizer.update(params, optimizer.init({"a": 1.0}), params)
    with pytest.raises(errors.StateError, match=r"state must be .* Momentum, with.*one with the slots \['m', 'v'\]"):
        optimizer.update(params, Adam().init(params), params)
    with pytest.raises(errors.StateError, match="state must be a result of .* Momentum.*it is None"):
        optimizer.update(params, None, params)
    batch = fg.vmap(optimizer.update)({"a": np.ones(3)}, fg.vmap(optimizer.init)({"a": np.ones(3)}), {"a": np.ones(3)})
    with pytest.raises(errors.StateError, match=r"step of a state must be one integer, and it has shape \(3,\)"):
        optimizer.update({"a": np.ones(3)}, batch[1], {"a": np.ones(3)})


# Weight decay


@EVERY
def test_weight_decay_is_decoupled(kind):
    if kind in RECOMPUTING:
        assert kind.decays == "never"  # and refused, see above
        return
    optimizer, bare, x, y = make(kind, weight_decay=0.25), make(kind, weight_decay=0.0), fg.Variable(START), None
    rate, y = OPTIMIZERS[kind][1], fg.Variable(START)
    for _ in range(3):
        gradient = H @ x.numpy()
        optimizer.apply_gradients([(gradient, x)])
        if kind is Lamb:
            continue  # it takes the decay into its ratio; see the equations
        y.assign(y * (1 - rate * 0.25))
        bare.apply_gradients([(gradient, y)])
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-15)
    params, _ = optimizer.update(H @ START, optimizer.init(np.array(START)), np.array(START))
    again = fg.Variable(START)
    make(kind, weight_decay=0.25).apply_gradients([(H @ START, again)])
    np.testing.assert_array_equal(np.asarray(params), again.numpy())


WEIGHTS, BIASES = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([1.0, 3.0])
MASKED = pytest.mark.parametrize("kind", [GradientDescent, AdamW, Lamb, Lion], ids=lambda kind: kind.__name__)


@MASKED
def test_a_mask_of_weight_decay(kind):
    def after(mask, decay=0.5):
        w, b = fg.Variable(WEIGHTS, name="w"), fg.Variable(BIASES, name="b")
        optimizer = make(kind, weight_decay=decay, decay_mask=mask(w, b))
        for _ in range(2):
            optimizer.apply_gradients([(np.ones((2, 2)), w), (np.ones(2), b)])
        return w.tolist(), b.tolist()

    both, none = after(lambda w, b: None), after(lambda w, b: None, 0.0)
    assert both[0] != none[0]
    assert both[1] != none[1]
    only_w, only_b = (both[0], none[1]), (none[0], both[1])
    assert after(lambda w, b: lambda v: v.ndim > 1) == only_w
    assert after(lambda w, b: lambda v: v.name == "b") == only_b
    assert after(lambda w, b: [w]) == only_w
    assert after(lambda w, b: {b}) == only_b
    assert after(lambda w, b: (w, b)) == both
    assert after(lambda w, b: []) == none


@MASKED
def test_a_mask_for_containers(kind):
    params = {"w": WEIGHTS, "b": [BIASES]}
    grads = fg.tree_map(np.ones_like, params)

    def after(mask, decay=0.5, params=params):
        optimizer = make(kind, weight_decay=decay, decay_mask=mask)
        new, _ = optimizer.update(grads, optimizer.init(params), params)
        return plain(new)

    both, none = after(None), after(None, 0.0)
    only_w = {"w": both["w"], "b": none["b"]}
    assert after({"w": True, "b": [False]}) == only_w
    assert after({"w": np.True_, "b": [np.False_]}) == only_w
    assert after({"w": True, "b": [True]}) == both
    assert after(lambda p: p.ndim > 1) == only_w
    variables = {"w": fg.Variable(WEIGHTS), "b": [fg.Variable(BIASES)]}
    assert after([variables["w"]], params=variables) == only_w
    with pytest.raises(ValueError, match="decay_mask must be a function of one parameter"):
        after([fg.Variable(np.ones((2, 2)))])


@pytest.mark.parametrize("mask", [{"w": True}, [True], True, [1.0], "w", [fg.Variable(1.0)], {"w": 1, "b": 0}, 3])
def test_a_mask_that_fits_nothing(mask):
    w, b = fg.Variable(1.0), fg.Variable(2.0)
    text = "decay_mask must be a function of one parameter .* a list of variables .* booleans with the structure"
    optimizer = AdamW(decay_mask=mask)
    with pytest.raises(errors.ParameterError, match=text):
        optimizer.apply_gradients([(1.0, w), (1.0, b)])
    assert (w.tolist(), b.tolist(), optimizer.iterations) == (1.0, 2.0, 0)
    params = {"w": 1.0, "b": 2.0}
    with pytest.raises(errors.ParameterError, match=text):
        optimizer.update(params, optimizer.init(params), params)


def test_a_mask_may_name_a_variable_that_has_no_gradient_this_time():
    w, b = fg.Variable(1.0), fg.Variable(2.0)
    optimizer = GradientDescent(0.5, weight_decay=0.5, decay_mask=[w])
    optimizer.apply_gradients([(None, w), (1.0, b)])
    assert (w.tolist(), b.tolist()) == (1.0, 1.5)


def test_a_weight_decay_that_changes():
    x = fg.Variable(1.0)
    optimizer = GradientDescent(1.0, weight_decay=schedules.PiecewiseConstantDecay([0], [0.5, 0.0]))
    for expected in (0.5, 0.5):
        optimizer.apply_gradients([(0.0, x)])
        assert x.tolist() == expected


# Steps that are left out


@EVERY
def test_a_gradient_that_is_not_finite_is_skipped(kind):
    for bad in (np.nan, np.inf, -np.inf):
        with naming(bad):
            check_skipped(kind, bad)


def check_skipped(kind, bad):
    a, b, step = fg.Variable(START), fg.Variable(1.0), fg.Variable(0)
    x, y = fg.Variable(START), fg.Variable(1.0)
    skipping, twin = make(kind, skip_nonfinite=True), make(kind)
    for gradient in ([1.0, 2.0], [bad, 1.0], [2.0, -1.0]):
        skipping.apply_gradients([(gradient, a), (3.0, b)], global_step=step)
        if bad not in gradient:
            twin.apply_gradients([(gradient, x), (3.0, y)])
        assert (a.tolist(), b.tolist()) == (x.tolist(), y.tolist())
        assert plain(skipping.variables()) == plain(twin.variables())
    assert (skipping.skipped, skipping.iterations, step.tolist()) == (1, 2, 2)


@EVERY
def test_a_gradient_that_is_not_finite_is_skipped_by_update(kind):
    skipping, twin = make(kind, skip_nonfinite=True), make(kind)
    params = same = {"a": np.array(START), "b": 1.0}
    state, other = skipping.init(params), twin.init(params)
    for first in (1.0, np.nan, -np.inf, 2.0):
        grads = {"a": np.array([first, 1.0]), "b": None}
        before = state
        params, state = skipping.update(grads, state, params)
        if np.isfinite(first):
            same, other = twin.update(grads, other, same)
        else:
            assert plain(state) == plain(before._replace(skipped=before.skipped + 1))
        assert plain(params) == plain(same)
        assert plain(state.slots) == plain(other.slots)
    assert (state.step, state.skipped) == (2, 2)
    assert skipping.skipped == 0  # the count is in the state


@EVERY
def test_steps_are_skipped_where_values_are_not_known(kind):
    skipping, twin = make(kind, skip_nonfinite=True), make(kind)
    params = {"a": np.arange(6.0).reshape(3, 2) + 1}
    grads = [{"a": np.array([[1.0, 2.0], [3.0, np.nan], [np.inf, 1.0]])}, {"a": np.ones((3, 2))}]

    def steps(params, first, second):
        state = skipping.init(params)
        params, state = skipping.update(first, state, params)
        return skipping.update(second, state, params)

    batch, state = fg.vmap(steps)(params, *grads)
    assert plain(state.step) == [2, 1, 1]
    assert plain(state.skipped) == [0, 1, 1]
    graph = fg.trace(lambda params, first: skipping.update(first, skipping.init(params), params))(
        {"a": np.ones(2)}, {"a": np.ones(2)}
    )
    for i in range(3):
        one = {"a": params["a"][i]}
        expected, own = one, twin.init(one)
        for step in grads:
            if np.isfinite(step["a"][i]).all():
                expected, own = twin.update({"a": step["a"][i]}, own, expected)
        np.testing.assert_allclose(np.asarray(batch["a"])[i], np.asarray(expected["a"]), rtol=1e-12)
        for name, tree in own.slots.items():
            np.testing.assert_allclose(np.asarray(state.slots[name]["a"])[i], np.asarray(tree["a"]), rtol=1e-12)
        recorded, after = graph(one, {"a": grads[0]["a"][i]})
        if i:
            assert (plain(recorded["a"]), plain(after.step), plain(after.skipped)) == (one["a"].tolist(), 0, 1)
        else:
            assert plain(after.step) == 1


@EVERY
def test_a_batch_of_optimizations(kind):
    optimizer = make(kind)
    params, grads = np.arange(8.0).reshape(4, 2) + 1, np.linspace(-1, 1, 8).reshape(4, 2)

    def run(x, g):
        state = optimizer.init(x)
        for _ in range(6):
            x, state = optimizer.update(g, state, x)
        return x

    batch = fg.vmap(run)(params, grads)
    for i in range(4):
        np.testing.assert_allclose(np.asarray(batch)[i], np.asarray(run(params[i], grads[i])), rtol=1e-12)
    # A state that comes out of one batch goes into the next; the number of the step is a tensor then.
    x, state = params, fg.vmap(optimizer.init)(params)
    for _ in range(6):
        x, state = fg.vmap(optimizer.update)(grads, state, x)
    np.testing.assert_allclose(np.asarray(x), np.asarray(batch), rtol=1e-12)
    assert plain(state.step) == [6] * 4


def test_a_step_on_variables_needs_values():
    x = fg.Variable(1.0)
    for options in ({}, {"skip_nonfinite": True}):
        optimizer = GradientDescent(0.1, **options)
        with pytest.raises(TypeError, match="needs a value"):
            fg.vmap(lambda g: optimizer.apply_gradients([(g, x)]))(np.ones(3))
        assert (x.tolist(), optimizer.iterations, optimizer.skipped) == (1.0, 0, 0)


def test_a_step_inside_an_open_tape():
    x = fg.Variable(1.0)
    optimizer = Adam(0.1)
    with fg.GradientTape() as tape:
        y = x * x
        optimizer.apply_gradients([(y * 2.0, x)])
    assert x.tolist() == pytest.approx(0.9, abs=1e-7)
    assert tape.gradient(y, x).item() == 2.0


def test_hyper_parameters_that_an_open_tape_follows():
    x, rate, decay = fg.Variable(1.0), fg.Variable(0.5), fg.Variable(0.5)
    optimizer, average = Momentum(rate, momentum=lambda: rate * 1.0), fg.ExponentialMovingAverage(decay)
    with fg.GradientTape() as tape:
        for _ in range(2):
            optimizer.apply_gradients([(1.0, x)])
            average.apply([x])
        y = x * rate
    assert (x.tolist(), plain(average.average(x))) == (-0.25, 0.125)
    assert type(optimizer._slots[x]["momentum"]) in (np.ndarray, np.float64)
    assert plain(tape.gradient(y, [x, rate])) == [0.5, -0.25]


# State


@EVERY
def test_a_fresh_optimizer(kind):
    x, y = fg.Variable(START), fg.Variable(START)
    optimizer = make(kind, skip_nonfinite=True)
    optimizer.apply_gradients([(np.array([np.nan, 1.0]), x)])
    for _ in range(2):
        optimizer.apply_gradients([(np.ones(2), x)])
    twin = optimizer.fresh()
    assert type(twin) is kind
    assert (twin.iterations, twin.skipped, twin.get_slot_names()) == (0, 0, [])
    for _ in range(2):
        twin.apply_gradients([(np.ones(2), y)])
    assert x.tolist() == y.tolist()
    assert (optimizer.iterations, optimizer.skipped) == (2, 1)


def test_copies_and_pickles():
    x = fg.Variable(START, name="x")
    optimizer = Momentum(0.1, momentum=0.9)
    optimizer.apply_gradients([(np.ones(2), x)])
    for twin, y in (copy.deepcopy((optimizer, x)), pickle.loads(pickle.dumps((optimizer, x)))):
        assert y is not x
        twin.apply_gradients([(np.ones(2), y)])
        assert twin.get_slot(y, "momentum").tolist() == [1.9, 1.9]
        assert (twin.iterations, optimizer.iterations) == (2, 1)


def stepped(kind=Adam, names=("a", "b"), **options):
    variables = [fg.Variable(np.full(2, 1.0 + i), name=name) for i, name in enumerate(names)]
    optimizer = make(kind, **options)
    for _ in range(2):
        optimizer.apply_gradients([(np.arange(2.0) + i, v) for i, v in enumerate(variables)])
    return optimizer, variables


@EVERY
def test_state_dict(kind):
    optimizer, (a, b) = stepped(kind)
    state = optimizer.state_dict()
    assert list(state) == ["optimizer", "step", "skipped", "slots", "schedules"]
    assert (state["optimizer"], state["step"], list(state["slots"])) == (kind.__name__, 2, ["a", "b"])
    for variable in (a, b):
        for name in optimizer.get_slot_names():
            slot = state["slots"][variable.name][name]
            np.testing.assert_array_equal(slot, optimizer.get_slot(variable, name))
            slot[...] = 7.0  # a copy
            assert 7.0 not in optimizer.get_slot(variable, name)


@EVERY
def test_load_state_dict(kind):
    for when in ("before", "var_list", "waiting"):
        with naming(when):
            check_loaded(kind, when)


def check_loaded(kind, when):
    optimizer, (a, b) = stepped(kind)
    c, d = fg.Variable(b.numpy(), name="b"), fg.Variable(a.numpy(), name="a")
    again = make(kind)
    if when == "before":  # the variables are known
        before = c.numpy(), d.numpy()
        again.apply_gradients([(np.ones(2), c), (np.ones(2), d)])
        c.assign(before[0]), d.assign(before[1])
    again.load_state_dict(optimizer.state_dict(), [c, d] if when == "var_list" else None)
    assert again.iterations == 2
    if when != "waiting":
        assert plain(again.get_slot(c, "m")) == plain(optimizer.get_slot(b, "m"))
    assert plain(again.state_dict()) == plain(optimizer.state_dict())
    optimizer.apply_gradients([(np.ones(2), a), (np.zeros(2), b)])
    again.apply_gradients([(np.zeros(2), c), (np.ones(2), d)])
    assert (c.tolist(), d.tolist()) == (b.tolist(), a.tolist())
    assert sorted(again.state_dict()["slots"]) == ["a", "b"]


def test_state_waits_for_one_variable_after_the_other():
    optimizer, (a, _) = stepped(Momentum)
    again = make(Momentum)
    again.load_state_dict(optimizer.state_dict())
    c, d, new = (fg.Variable(np.ones(2), name=name) for name in ("b", "a", "new"))
    again.apply_gradients([(np.zeros(2), c), (np.ones(2), new)])
    assert again.get_slot(d, "momentum") is None
    assert plain(again.state_dict()["slots"]["a"]) == plain(optimizer.state_dict()["slots"]["a"])
    again.apply_gradients([(np.zeros(2), d)])
    np.testing.assert_allclose(again.get_slot(d, "momentum"), 0.9 * optimizer.get_slot(a, "momentum"))
    assert plain(again.get_slot(new, "momentum")) == [1.0, 1.0]


def test_variables_of_one_name():
    optimizer, (first, second) = stepped(Momentum, ("same", "same"))
    state = optimizer.state_dict()
    assert list(state["slots"]) == ["same", "same_1"]
    for is_loaded_for in (True, False):
        twins = [fg.Variable(np.ones(2), name="same") for _ in range(2)]
        again = make(Momentum)
        again.load_state_dict(state, twins if is_loaded_for else None)
        again.apply_gradients([(np.zeros(2), v) for v in twins])
        for v, old in zip(twins, (first, second), strict=True):
            np.testing.assert_allclose(again.get_slot(v, "momentum"), 0.9 * optimizer.get_slot(old, "momentum"))
    assert plain(copy.deepcopy(optimizer).state_dict()) == plain(state)


def of_no_name(count, shapes=((2,), (2,))):
    """Make optimizers with steps of variables without names, and return what the optimizer has of them, too."""
    variables = [fg.Variable(np.ones(shape)) for _, shape in zip(range(count), shapes, strict=False)]
    optimizer = make(Momentum)
    optimizer.apply_gradients([(np.full(v.shape, i + 1.0), v) for i, v in enumerate(variables)])
    return optimizer, variables


def test_variables_without_names_find_their_state_by_position():
    optimizer, _ = of_no_name(2)
    new = [fg.Variable(np.ones(2)) for _ in range(2)]  # as a notebook's cell makes them when it runs again
    again = make(Momentum)
    again.load_state_dict(optimizer.state_dict())
    text = r"state was assigned to variables without names by position: that of 'Variable_\d+' to 'Variable_\d+', "
    with pytest.warns(errors.StateWarning, match=text) as caught:
        again.apply_gradients([(np.zeros(2), v) for v in new])
    assert caught[0].filename == __file__
    assert [again.get_slot(v, "momentum")[0] for v in new] == [0.9, 1.8]
    average = fg.ExponentialMovingAverage(0.5)
    average.apply(new)
    later = fg.ExponentialMovingAverage(0.5)
    others = [fg.Variable(np.ones(2)) for _ in range(2)]
    with pytest.warns(errors.StateWarning, match="by position"):
        later.load_state_dict(average.state_dict(), others)
    assert [later.average(v).tolist() for v in others] == [average.average(v).tolist() for v in new]


def test_state_by_position_is_given_to_what_it_fits():
    optimizer, (a, b) = of_no_name(2)
    state = optimizer.state_dict()
    again = make(Momentum)
    again.load_state_dict(state)
    again.apply_gradients([(np.zeros(2), b)])  # whose name is in the state
    assert again.get_slot(b, "momentum")[0] == 1.8
    for shapes, count in ((((2,), (3,)), 2), (((2,),), 1)):
        again = make(Momentum)
        again.load_state_dict(state)
        with pytest.raises(errors.StateError, match=r"variables named \['Variable_\d+', 'Variable_\d+'\], and none of"):
            again.apply_gradients(
                [(np.zeros(shape), fg.Variable(np.zeros(shape))) for _, shape in zip(range(count), shapes, strict=True)]
            )
    # A number may stand for another variable by now: then all of them go by position.
    c, d = fg.Variable(np.ones(2)), fg.Variable(np.ones(2))
    state["slots"] = {"Variable_1000000000": state["slots"][a.name], c.name: state["slots"][b.name]}
    again = make(Momentum)
    again.load_state_dict(state)
    with pytest.warns(errors.StateWarning):
        again.apply_gradients([(np.zeros(2), v) for v in (c, d)])
    assert [again.get_slot(v, "momentum")[0] for v in (c, d)] == [0.9, 1.8]


def test_state_for_variables_of_other_names():
    again = make(Momentum)
    again.load_state_dict(stepped(Momentum)[0].state_dict())
    other = fg.Variable(np.ones(2), name="other")
    with pytest.raises(errors.StateError, match=r"variables named \['a', 'b'\].*they are named \['other'\].\n.*name="):
        again.apply_gradients([(np.ones(2), other)])
    assert other.tolist() == [1.0, 1.0]


def changed(state, **changes):
    return {**state, **changes}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda s: changed(s, optimizer="Adam"), "the state is that of the optimizer Adam, and this is Momentum"),
        (lambda s: changed(s, slots={"a": {"m": np.ones(2)}}), r"variable 'a' has the slots \['m'\], and Momentum has"),
        (lambda s: changed(s, slots={"a": {"momentum": np.ones(3)}}), r"slot 'momentum' of variable 'a' needs"),
        (lambda s: changed(s, slots={"a": {"momentum": 1j * np.ones(2)}}), "needs .* dtype float64; .* complex128"),
        (lambda s: {"step": 1}, r"must be a result of state_dict\(\)"),
        (lambda s: changed(s, step="two"), "the step of a state must be one integer"),
        (lambda s: changed(s, step=1.5), "the step of a state must be one integer"),
        (lambda s: {"slots": {}}, r"must be a result of state_dict\(\)"),
        (lambda s: None, r"must be a result of state_dict\(\); it is None"),
        (
            lambda s: changed(s, schedules={"learning_rate": {}}),
            r"state of their own are \['learning_rate'\]; here they are \[\]",
        ),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change, text):
    optimizer, variables = stepped(Momentum)
    before = plain(optimizer.state_dict())
    with pytest.raises(errors.StateError, match=text):
        optimizer.load_state_dict(change(optimizer.state_dict()), variables)
    assert plain(optimizer.state_dict()) == before


def test_a_waiting_state_of_another_shape():
    again = make(Momentum)
    again.load_state_dict(stepped(Momentum)[0].state_dict())
    a = fg.Variable(np.ones(3), name="a")
    with pytest.raises(errors.StateError, match=r"slot 'momentum' of variable 'a' needs shape \(3,\).* it has \(2,\)"):
        again.apply_gradients([(np.ones(3), a)])
    assert a.tolist() == [1.0, 1.0, 1.0]


def test_a_loaded_state_takes_the_dtype_of_its_variable():
    again = make(Momentum)
    again.load_state_dict(stepped(Momentum)[0].state_dict())
    a = fg.Variable(np.ones(2, np.float32), name="a")
    again.apply_gradients([(np.ones(2), a)])
    assert (a.dtype, again.get_slot(a, "momentum").dtype) == (np.float32, np.float32)


def test_skipped_steps_are_state():
    optimizer, (a, _) = stepped(Momentum, skip_nonfinite=True)
    optimizer.apply_gradients([(np.full(2, np.nan), a)])
    again = make(Momentum, skip_nonfinite=True)
    again.load_state_dict(optimizer.state_dict())
    assert again.skipped == 1


def test_the_state_of_a_schedule_goes_with_the_optimizer():
    def new():
        return GradientDescent(schedules.ReduceOnPlateau(1.0, factor=0.5, patience=0))

    optimizer, again = new(), new()
    for loss in (3.0, 3.0, 3.0):
        optimizer.learning_rate.update(loss)
    again.load_state_dict(optimizer.state_dict())
    x = fg.Variable(1.0)
    again.apply_gradients([(1.0, x)])
    assert x.tolist() == 0.75
    assert again.learning_rate.update(3.0) == optimizer.learning_rate.update(3.0) == 0.125
    with pytest.raises(errors.StateError, match=r"state of their own are \[\]; here they are \['learning_rate'\]"):
        again.load_state_dict(GradientDescent(1.0).state_dict())


def test_a_state_of_schedules_is_loaded_as_a_whole_or_not_at_all():
    def new():
        return Momentum(schedules.ReduceOnPlateau(1.0, patience=0), schedules.ReduceOnPlateau(0.5))

    optimizer, again = new(), new()
    for _ in range(2):
        optimizer.learning_rate.update(1.0)
    state = optimizer.state_dict()
    state["schedules"]["momentum"] = {"best": 1.0}
    with pytest.raises(errors.StateError, match="state of a ReduceOnPlateau holds learning_rate, best.*holds best"):
        again.load_state_dict(state)
    assert again.learning_rate(0) == 1.0
    assert optimizer.learning_rate(0) == 0.1


# An optimizer of one's own


def test_an_optimizer_of_ones_own():
    class SignDescent(Optimizer):
        hyper_names = ("power",)

        def __init__(self, learning_rate, power=1.0, **options):
            super().__init__(learning_rate, **options)
            self.power = power

        def initial_slots(self, param):
            return {"count": np.zeros_like(param)}

        def rule(self, gradient, param, slots, hyper):
            move = hyper.learning_rate / hyper.step**hyper.power
            return param - move * np.sign(gradient), {"count": slots["count"] + 1}

    x = fg.Variable([1.0, -1.0])
    optimizer = SignDescent(0.5, power=lambda: 1.0, weight_decay=0.5)
    optimizer.minimize(lambda: np.sum(x * x))
    assert x.tolist() == [0.25, -0.25]
    optimizer.minimize(lambda: np.sum(x * x))
    assert x.tolist() == [-0.0625, 0.0625]
    assert optimizer.get_slot(x, "count").tolist() == [2.0, 2.0]
    with pytest.raises(NotImplementedError, match="Optimizer"):
        Optimizer(0.1).apply_gradients([(np.ones(2), x)])


# Moving averages of variables


def test_the_average_of_1_and_3():
    w = fg.Variable(1.0)
    average = fg.ExponentialMovingAverage(0.9)
    assert average.average(w) is None
    average.apply(w)
    assert plain(average.average(w)) == 1.0
    w.assign(3.0)
    average.apply([w])
    assert plain(average.average(w)) == pytest.approx(1.2, abs=1e-15)
    assert (average.variables(), average.names()) == ([w], [w.name])


@pytest.mark.parametrize("updates", [0, np.int64(0), fg.Variable(0), lambda: 0])
def test_an_average_moves_faster_in_the_beginning(updates):
    w = fg.Variable(1.0)
    average = fg.ExponentialMovingAverage(0.9, num_updates=updates)
    average.apply([w])
    average.apply([w.assign(3.0)])
    assert plain(average.average(w)) == pytest.approx(2.8, abs=1e-15)


def test_later_the_decay_is_the_one_that_was_given():
    w, step = fg.Variable(1.0), fg.Variable(0)
    average = fg.ExponentialMovingAverage(0.9, num_updates=step)
    average.apply([w])
    for number, decay in ((10, 11 / 20), (1000, 0.9)):
        step.assign(number)
        before = plain(average.average(w))
        average.apply([w.assign(3.0)])
        assert plain(average.average(w)) == pytest.approx(decay * before + (1 - decay) * 3.0, abs=1e-14)


def test_an_average_without_bias():
    w = fg.Variable([1.0, 2.0])
    average = fg.ExponentialMovingAverage(0.9, zero_debias=True)
    total, weight = np.zeros(2), 0.0
    for number, values in enumerate(([1.0, 2.0], [3.0, 5.0], [-1.0, 0.0]), 1):
        average.apply([w.assign(values)])
        total, weight = 0.9 * total + 0.1 * np.array(values), 0.9 * weight + 0.1
        np.testing.assert_allclose(np.asarray(average.average(w)), total / weight, rtol=1e-14)
        assert weight == pytest.approx(1 - 0.9**number)


def test_averages_in_place_of_variables():
    w, b, other = fg.Variable(1.0), fg.Variable(np.float32([1, 2])), fg.Variable(7.0)
    average = fg.ExponentialMovingAverage(0.5)
    average.apply([w, b])
    average.apply([w.assign(3.0), b.assign([5, 6])])
    with average.averaged():
        assert (w.tolist(), b.tolist(), other.tolist()) == (2.0, [3.0, 4.0], 7.0)
        assert b.dtype == np.float32
        with average.averaged():
            assert w.tolist() == 2.0
        w.assign(100.0)
    assert (w.tolist(), b.tolist()) == (3.0, [5.0, 6.0])
    with pytest.raises(KeyError, match="stop"):
        with average.averaged():
            raise KeyError("stop")
    assert (w.tolist(), b.tolist()) == (3.0, [5.0, 6.0])
    assert average.average(b).dtype == np.float32


def test_the_state_of_averages(tmp_path):
    w, b = fg.Variable([1.0, 2.0], name="w"), fg.Variable(np.float32(3.0), name="b")
    for debias in (False, True):
        average, again, waiting = (fg.ExponentialMovingAverage(0.9, zero_debias=debias) for _ in range(3))
        average.apply([w, b])
        average.apply([w.assign([3.0, 4.0]), b])
        fg.save(tmp_path / "averages", average.state_dict())
        state = fg.load(tmp_path / "averages")
        again.load_state_dict(state, [b, w])
        assert plain(again.average(w)) == plain(average.average(w))
        waiting.load_state_dict(state)
        assert (waiting.variables(), sorted(waiting.names())) == ([], ["b", "w"])
        for each in (average, again, waiting):
            each.apply([w, b])
        for each in (again, waiting):
            assert plain(each.average(w)) == plain(average.average(w))
            assert plain(each.state_dict()) == plain(average.state_dict())


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({}, r"must be a result of state_dict\(\)"),
        ({"step": 1, "averages": {"w": {"sum": np.ones(3), "weight": 1.0}}}, r"'w' needs shape \(2,\)"),
        ({"step": 1, "averages": {"w": {"sum": np.ones(2) * 1j, "weight": 1.0}}}, "needs .* dtype float64.*complex128"),
        ({"step": 1, "averages": {"w": {"sum": np.ones(2)}}}, "'w' must hold sum and weight"),
    ],
)
def test_a_state_that_does_not_fit_averages(state, text):
    w = fg.Variable([1.0, 2.0], name="w")
    average = fg.ExponentialMovingAverage(0.9)
    average.apply([w])
    with pytest.raises(errors.StateError, match=text):
        average.load_state_dict(state)
    assert plain(average.average(w)) == [1.0, 2.0]


def test_averages_refuse():
    with pytest.raises(ValueError, match="decay must be at least 0 and below 1"):
        fg.ExponentialMovingAverage(1.5)
    with pytest.raises(ValueError, match="num_updates must be 0 or more"):
        fg.ExponentialMovingAverage(0.9, num_updates=-1)
    average = fg.ExponentialMovingAverage(0.9)
    with pytest.raises(TypeError, match="variable 'n' has dtype int64"):
        average.apply([fg.Variable(1.0), fg.Variable(1, name="n")])
    assert average.variables() == []


@pytest.mark.parametrize("power", [-0.5, 0.0])
@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ftrl_rests_where_its_learning_rate_is_zero(power, beta, dtype):
    class Ending(fg.optimizers.schedules.Schedule):
        def value(self, step):
            return np.maximum(0.1 - 0.05 * step, 0.0)

    w = fg.Variable(np.array([1.0, 2.0], dtype))
    optimizer = Ftrl(Ending(), learning_rate_power=power, beta=beta, l1_regularization_strength=0.01)
    values = []
    with np.errstate(all="raise"):
        for _ in range(5):
            optimizer.minimize(lambda: np.sum(w * w))
            values.append(w.numpy())
    assert w.dtype == dtype
    assert np.isfinite(values).all()
    assert (values[0] != values[1]).all()
    assert values[1].tolist() == values[2].tolist() == values[4].tolist()


def test_learning_rates_by_element_are_not_negative():
    w = fg.Variable([1.0, 2.0], name="w")
    for rate in (lambda: np.array([-1.0, 1.0]), fg.Variable([0.1, -0.1]), lambda: np.array([np.nan, 1.0])):
        with pytest.raises(ValueError, match="learning_rate must be 0 or more, and in step 1"):
            fg.optimizers.GradientDescent(rate).apply_gradients([(np.ones(2), w)])
    assert w.numpy().tolist() == [1.0, 2.0]
