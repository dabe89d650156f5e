"""The pictures: what is drawn is what was computed, and matplotlib is only imported to draw."""

import io
import subprocess
import sys
from unittest import mock

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

import fgrad as fg
from fgrad import errors, plot
from fgrad.optimizers import GradientDescent, run


@pytest.fixture(autouse=True)
def without_a_screen():
    before = matplotlib.get_backend()
    matplotlib.use("Agg")
    yield
    pyplot.close("all")
    matplotlib.use(before)


@pytest.fixture
def axes():
    return Figure().subplots()


def lines(axes):
    """Return the drawn curves: label, x and y."""
    return [(line.get_label(), line.get_xdata(), line.get_ydata()) for line in axes.get_lines()]


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def rendered(axes):
    """Draw in earnest, so that what matplotlib cannot draw is an error."""
    axes.figure.savefig(io.BytesIO(), format="png")


# Where it is drawn


DRAWINGS = {
    "learning_curve": lambda ax: plot.learning_curve([3.0, 2.0, 1.0], ax=ax),
    "gradient_flow": lambda ax: plot.gradient_flow({"w": [3.0, 2.0]}, ax=ax),
    "function": lambda ax: plot.function(np.sin, (0, 1), ax=ax),
    "pattern": lambda ax: plot.pattern(fg.sparse_jacobian(np.diff).plan(np.ones(4)), ax=ax),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_axes_are_given_or_made(name, axes):
    assert DRAWINGS[name](axes) is axes
    assert pyplot.get_fignums() == []
    assert axes.get_title() == ""
    made = DRAWINGS[name](None)
    assert made is not axes
    assert made.figure is pyplot.gcf()
    assert made.get_title() == {"function": "sin", "pattern": "3 x 4, 6 elements, 2 colors"}.get(
        name, name.replace("_", " ")
    )
    rendered(axes)
    rendered(made)


@pytest.mark.parametrize("name", DRAWINGS)
def test_without_matplotlib(name):
    with (
        mock.patch.dict("sys.modules", {"matplotlib.pyplot": None}),
        pytest.raises(errors.MissingExtraError, match="matplotlib, which is not installed: pip install matplotlib"),
    ):
        DRAWINGS[name](None)


def test_fgrad_imports_neither_matplotlib_nor_other_extras():
    program = (
        "import sys, fgrad, fgrad.plot, fgrad.progress; "
        "print([name for name in ('matplotlib', 'tqdm', 'pandas', 'scipy', 'graphviz') if name in sys.modules], "
        "fgrad.plot.function.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[] function\n"


# Learning curves


def test_a_learning_curve(axes):
    plot.learning_curve(fg.constant([3.0, 2.0, 1.0]), ax=axes)
    ((_, x, y),) = lines(axes)
    assert (list(x), list(y)) == ([1, 2, 3], [3.0, 2.0, 1.0])
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()) == ("step", "loss", "linear")
    assert axes.get_legend() is None


def test_losses_come_in_several_forms(axes):
    history = run(lambda x: (x - 1) ** 2, 3.0, 5, GradientDescent(0.1), progress=False)
    named = {"run": history, "list": [fg.constant(2.0), np.float32(1.0), 0], "nothing": []}
    plot.learning_curve(named, ax=axes)
    curves = {label: list(y) for label, _, y in lines(axes)}
    assert curves == {"run": history.losses.tolist(), "list": [2.0, 1.0, 0.0], "nothing": []}
    assert legend(axes) == ["run", "list", "nothing"]
    plot.learning_curve(history, ax=axes, label="mine")
    assert lines(axes)[-1][0] == "mine"
    rendered(axes)


def test_smoothing(axes):
    plot.learning_curve([4.0, 2.0, 6.0, 0.0], ax=axes, smooth=3, label="loss")
    (raw, mean) = axes.get_lines()
    assert raw.get_alpha() < 1
    assert list(raw.get_ydata()) == [4.0, 2.0, 6.0, 0.0]
    np.testing.assert_allclose(mean.get_ydata(), [4.0, 3.0, 4.0, 8 / 3])
    assert mean.get_color() == raw.get_color()
    assert legend(axes) == ["loss"]


@pytest.mark.parametrize(
    ("losses", "log", "scale"),
    [
        ([1000.0, 10.0, 1.0], None, "log"),
        ([50.0, 10.0, 1.0], None, "linear"),
        ([1000.0, 10.0, 0.0], None, "linear"),
        ([1000.0, 10.0, -1.0], None, "linear"),
        ([1000.0, np.inf, np.nan, 1.0], None, "log"),
        ([], None, "linear"),
        ([1000.0, 1.0], False, "linear"),
        ([2.0, 1.0], True, "log"),
    ],
)
def test_the_scale(losses, log, scale, axes):
    assert plot.learning_curve(losses, ax=axes, log=log).get_yscale() == scale
    rendered(axes)


@pytest.mark.parametrize("smooth", [0, -1, 2.5, True])
def test_a_width_that_is_none(smooth):
    with pytest.raises(errors.ParameterError, match=f"smooth must be a positive number of steps, but it is {smooth}"):
        plot.learning_curve([1.0], smooth=smooth)


@pytest.mark.parametrize("losses", [[[1.0, 2.0]], ["a"], [1j]])
def test_losses_that_are_none(losses):
    with pytest.raises(errors.ParameterError, match="losses must be a sequence of real numbers"):
        plot.learning_curve(losses)


# Gradient flow


def test_gradient_flow(axes):
    w, b = fg.Variable([3.0, 4.0], name="w"), fg.Variable(1.0, name="b")
    history = run(lambda: np.sum(w**2) + b**2, None, 3, GradientDescent(0.25), progress=False)
    plot.gradient_flow(history, ax=axes)
    assert [(label, list(x), list(y)) for label, x, y in lines(axes)] == [
        ("w", [1, 2, 3], [10.0, 5.0, 2.5]),
        ("b", [1, 2, 3], [2.0, 1.0, 0.5]),
    ]
    assert legend(axes) == ["w", "b"]
    assert axes.get_ylabel() == "norm of the gradient"


def test_what_has_vanished_or_exploded_is_marked(axes):
    plot.gradient_flow({"w": [1000.0, 0.0, np.inf, None, np.nan, 1.0]}, ax=axes)
    assert axes.get_yscale() == "log"
    (_, x, curve), (_, zeros, _), (_, infinite, _) = lines(axes)
    assert list(x) == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(curve, [1000.0, np.nan, np.nan, np.nan, np.nan, 1.0])
    assert (list(zeros), list(infinite)) == ([2], [3, 5])
    assert [line.get_marker() for line in axes.get_lines()[1:]] == ["v", "x"]
    assert legend(axes) == ["w"]
    rendered(axes)


def test_a_history_tells_no_gradient_from_one_that_is_not_finite(axes):
    w, v = fg.Variable(0.0, name="w"), fg.Variable(1.0, name="v")
    calls = iter(range(3))

    def loss():
        return np.sqrt(w) if next(calls) == 2 else v * 1.0

    with pytest.warns(errors.NonFiniteGradientWarning, match="the gradient of variable 'w'"):
        history = run(loss, [w, v], 3, GradientDescent(1.0), progress=False, check_finite=False)
    plot.gradient_flow(history, ax=axes)
    assert [list(x) for label, x, _ in lines(axes) if label.startswith("_")] == [[3]]


def test_zeros_have_their_place_on_a_linear_axis(axes):
    plot.gradient_flow({"w": [2.0, 0.0, 1.0]}, ax=axes)
    assert axes.get_yscale() == "linear"
    assert len(axes.get_lines()) == 1


def test_what_is_no_history():
    with pytest.raises(errors.ParameterError, match=r"takes the history of optimizers.run or a dict .* not \[1.0\]"):
        plot.gradient_flow([1.0])
    with pytest.raises(errors.ParameterError, match="the norms of 'w' must be a sequence of real numbers"):
        plot.gradient_flow({"w": ["a"]})


# Functions


def test_a_function_and_its_derivatives(axes):
    plot.function(np.sin, (0, np.pi), orders=(0, 1, 2, 3, 4), ax=axes, points=50)
    curves = lines(axes)
    expected = [np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]
    assert [label for label, *_ in curves] == ["sin", "sin'", "sin''", "sin'''", "sin⁽⁴⁾"]
    for (_, x, y), f in zip(curves, expected, strict=True):
        np.testing.assert_array_equal(x, np.linspace(0, np.pi, 50))
        np.testing.assert_allclose(y, f(x), rtol=1e-12, atol=1e-12)
    assert legend(axes) == [label for label, *_ in curves]
    assert axes.get_xlabel() == "x"
    rendered(axes)


def test_a_function_may_branch(axes):
    def kinked(x):
        return x**2 if x > 0 else -3.0 * x

    plot.function(kinked, (-1, 1), ax=axes, points=4)
    (_, x, value), (_, _, slope), (_, _, bend) = lines(axes)
    np.testing.assert_allclose(value, np.where(x > 0, x**2, -3 * x))
    np.testing.assert_allclose(slope, np.where(x > 0, 2 * x, -3.0))
    np.testing.assert_allclose(bend, np.where(x > 0, 2.0, 0.0))


def test_some_orders_alone(axes):
    plot.function(lambda x: x**3, (0.0, 1.0), orders=[2], ax=axes, points=3)
    ((label, _, y),) = lines(axes)
    assert label == "f''"
    np.testing.assert_allclose(y, [0.0, 3.0, 6.0])
    assert plot.function(lambda x: 2.0, (0, 1), orders=[0, 1]).get_title() == ""


def test_ten_derivatives_have_a_name():
    _, axes = pyplot.subplots()
    plot.function(lambda x: x**3, (0.0, 1.0), orders=[12], ax=axes, points=3)
    assert [label for label, _, _ in lines(axes)] == ["f⁽¹²⁾"]


@pytest.mark.parametrize("wrong", [(1, 0), (1, 1), 3, (0, 1, 2), (0, np.inf), ("a", "b"), (0, 1j)])
def test_a_range_that_is_none(wrong):
    with pytest.raises(errors.ParameterError, match="range must be a pair of numbers, the smaller one first"):
        plot.function(np.sin, wrong)


@pytest.mark.parametrize("orders", [(), (-1,), (1.5,), (True,)])
def test_orders_that_are_none(orders):
    with pytest.raises(errors.ParameterError, match="orders must be numbers from 0 on"):
        plot.function(np.sin, (0, 1), orders=orders)


@pytest.mark.parametrize("points", [1, 2.0, True])
def test_too_few_points(points):
    with pytest.raises(errors.ParameterError, match=f"points must be an integer, 2 or more, but it is {points}"):
        plot.function(np.sin, (0, 1), points=points)


def test_functions_that_cannot_be_drawn():
    with pytest.raises(errors.NonScalarError, match=r"at 0.0 it has shape \(2,\)"):
        plot.function(lambda x: np.stack([x, x]), (0, 1))
    with pytest.raises(errors.NonScalarError, match="dtype complex128"):
        plot.function(lambda x: x * 1j, (0, 1), orders=[0])
    with pytest.raises(errors.DetachedError, match=r"float\(\) requested"):
        plot.function(lambda x: float(x) ** 2, (0, 1))


# Patterns


def test_a_pattern_has_a_point_for_each_element_in_the_color_of_its_column(axes):
    plan = fg.sparse_jacobian(np.diff).plan(np.ones(6))
    plot.pattern(plan, ax=axes)
    (points,) = axes.collections
    elements = {
        (int(column), int(row)): color
        for (column, row), color in zip(points.get_offsets(), points.get_array(), strict=True)
    }
    assert elements == {(column, row): column % 2 for row in range(5) for column in (row, row + 1)}
    assert axes.yaxis_inverted()


def test_a_pattern_of_reverse_mode_goes_by_rows(axes):
    plan = fg.sparse_jacobian(lambda x: np.stack([np.sum(x), x[0]])).plan(np.ones(3))
    plot.pattern(plan, ax=axes)
    assert axes.collections[0].get_array().tolist() == [0, 0, 0, 1]


def test_a_pattern_needs_a_plan():
    with pytest.raises(errors.ParameterError, match="draws a plan"):
        plot.pattern(np.eye(3))
