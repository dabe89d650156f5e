"""`check`: what it says of right and of wrong derivatives, at kinks, and where something is left out."""

import math
import warnings

import numpy as np
import pytest

import fgrad as fg
from fgrad import errors
from fgrad.debugging.check import _extrapolated
from fgrad.scipy.integrate import quad


@fg.custom_gradient
def with_a_wrong_rule(x):
    return np.sin(x), lambda dy: dy * np.cos(x) * 1.001


@fg.custom_jvp
def with_a_wrong_forward_rule(x):
    return np.sin(x) * 1.0


with_a_wrong_forward_rule.defjvp(lambda primals, tangents: (np.sin(primals[0]), tangents[0] * 0.5))


@fg.custom_gradient
def with_a_wrong_second_derivative(x):
    return np.sin(x), lambda dy: dy * fg.stop_gradient(np.cos(x))


def branch(x):
    return 2.0 * x if x > 1.0 else 3.0 * x


RIGHT = [
    ("one number", lambda x: x * np.sin(x), (0.5,)),
    ("two arguments", lambda x, y: x**2 * y, (0.5, 3.0)),
    ("an array", lambda x: np.sum(np.tanh(x) ** 2), (np.array([0.1, -2.0, 3.0]),)),
    ("several results", lambda x: [np.sin(x), {"a": np.cos(x) * x}], (np.array([0.1, -2.0]),)),
    ("a large array", lambda x: np.sum(np.tanh(x) ** 2), (np.linspace(-1.0, 2.0, 60).reshape(3, 20),)),
    ("a container", lambda p: np.sum(p["w"] ** 2) * p["b"][0], ({"w": np.ones((2, 2)), "b": [3.0]},)),
    ("single precision", lambda x: np.sum(np.exp(x)), (np.float32([0.1, -2.0]),)),
    ("a complex argument", lambda z: np.abs(z) ** 2, (3 + 4j,)),
    ("a complex result", lambda z: np.exp(z) * z, (np.array([0.3 + 0.4j]),)),
    ("a small number", lambda x: np.log(x), (1e-9,)),
    ("a large number", lambda x: np.sqrt(x), (1e12,)),
    ("an integer beside", lambda x, n: x**n, (2.0, 3)),
    ("the value itself is used as a constant", lambda x: x * 3.0, (fg.constant(2.0),)),
    ("a linear algebra", lambda a: np.linalg.det(a), (np.array([[2.0, 1.0], [0.5, 3.0]]),)),
    ("without elements", lambda x, y: np.sum(x) + y, (np.zeros((0, 3)), 2.0)),
    ("with its own rule", fg.checkpoint(np.sin), (0.7,)),
    ("next to a kink", lambda x: np.maximum(x, 1.0), (1.00001,)),
    ("next to a kink, on the other side", lambda x: np.abs(x) * 2.0, (-1e-5,)),
]


@pytest.mark.parametrize(("f", "args"), [pytest.param(*row[1:], id=row[0]) for row in RIGHT])
@pytest.mark.parametrize("order", [1, 2])
def test_right_derivatives(f, args, order):
    report = fg.check(f, *args, order=order)
    assert report.ok, report
    assert report.verdict() == "All derivatives agree."
    assert not report.problems
    assert [each.where for each in report.derivatives if each.where.startswith("order 2: ")] or order == 1
    assert report.derivatives
    for each in report.derivatives:
        assert each.agrees
        assert not each.kink
        assert each.error <= 1e-6 * max(1.0, abs(each.numeric))


def test_what_is_looked_at():
    report = fg.check(lambda p, x, n: p["w"] * x**n, {"w": np.ones(2)}, 3.0, 2)
    assert [each.where for each in report.derivatives] == ["p['w'][0]", "p['w'][1]", "x"]
    report = fg.check(lambda p, x, n: p["w"] * x**n, {"w": np.ones(2)}, 3.0, 2, argnums="x")
    assert [each.where for each in report.derivatives] == ["x"]
    report = fg.check(lambda x, scale=1.0: x * scale, 3.0, scale=2.0, argnums=["scale", "x"])
    assert [each.where for each in report.derivatives] == ["scale", "x"]
    assert [each.where for each in fg.check(lambda z: z * z, 1j).derivatives] == ["z", "z, imaginary part"]
    report = fg.check(lambda x: np.sum(x), np.ones(7))
    assert [each.where for each in report.derivatives] == [f"x, random direction {i}" for i in range(3)]


def test_the_numbers():
    (row,) = fg.check(lambda x: x**3, 2.0).derivatives
    assert (row.forward, row.reverse) == (12.0, 12.0)
    assert row.numeric == pytest.approx(12.0, rel=1e-12)
    assert 0 <= row.error < 1e-10


def test_an_array_of_traced_numbers_as_the_result():
    for function in (lambda x: np.array([x * x, x]), lambda x: {"a": np.array([[x], [3.0 * x]]), "b": (None, x)}):
        report = fg.check(function, 2.0, order=2)
        assert report.ok, report
        assert fg.explain(function, 2.0, argnums="x").status == "fine"
    assert fg.check(np.sin, [1.0, 2.0]).ok  # a list of tensors, of which NumPy makes such an array


WRONG = [
    ("a reverse rule", with_a_wrong_rule, (1.0,), 1, "Derivatives disagree: x."),
    ("a forward rule", with_a_wrong_forward_rule, (1.0,), 1, "Derivatives disagree: x."),
    ("a second derivative", with_a_wrong_second_derivative, (1.0,), 2, "Derivatives disagree: order 2: x."),
    ("one of two arguments", lambda x, y: np.sin(x) * with_a_wrong_rule(y), (1.0, 2.0), 1, "disagree: y."),
    ("a random function", lambda x: x * np.random.default_rng().uniform(), (1.0,), 1, "another value in each call"),
    ("a value that is not finite", lambda x: np.log(x - 1.0), (1.0,), 1, "The value is not finite"),
]


@pytest.mark.parametrize(("f", "args", "order", "text"), [pytest.param(*row[1:], id=row[0]) for row in WRONG])
def test_wrong_derivatives(f, args, order, text):
    report = fg.check(f, *args, order=order)
    assert not report.ok
    with pytest.raises(AssertionError, match=f"check of .*: .*{text}"):
        raise AssertionError(str(report))


def test_a_wrong_second_derivative_needs_order_two():
    assert fg.check(with_a_wrong_second_derivative, 1.0).ok


def test_both_modes_are_compared():
    """The rules are right for the differences of neither; here reverse follows from the forward rule."""
    (row,) = fg.check(with_a_wrong_rule, 1.0).derivatives
    assert row.forward == row.reverse == pytest.approx(math.cos(1.0) * 1.001)
    assert row.numeric == pytest.approx(math.cos(1.0), rel=1e-10)
    assert row.cells()[-1] == "DISAGREE"


# The value


def other_with_tensors(x):
    return x * 2.0 if isinstance(x, fg.Tensor) else x * 3.0


def test_another_value_than_on_plain_arrays_comes_first():
    report = fg.check(other_with_tensors, 1.0)
    assert not report.ok
    assert report.verdict() == "The value with tensors is 2.0, but with plain arrays it is 3.0."
    report = fg.check(lambda x: other_with_tensors(x) * with_a_wrong_rule(x), 1.0)
    assert report.verdict().startswith("The value with tensors is ")
    assert report.verdict().endswith("Derivatives disagree: x.")
    report = fg.check(lambda x: np.ones(2 if isinstance(x, fg.Tensor) else 3) * x, 1.0)
    assert "with plain arrays" in report.verdict()
    assert not fg.check(other_with_tensors, np.array([1.0, 2.0]), order=2).ok
    assert not fg.check(other_with_tensors, fg.constant(1.0)).ok


def test_the_plain_run_gets_copies():
    x, scale = np.array([1.0, 2.0]), np.ones(2)

    def f(x, scale):
        scale *= 2.0
        x[0] = 7.0
        return np.sum(x * 3.0)

    fg.check(f, x, scale, argnums="x")
    assert x.tolist() == [1.0, 2.0]


def test_values_that_are_not_finite_are_the_same():
    assert "plain arrays" not in fg.check(lambda x: np.log(x), np.array([-1.0, 0.0, 1.0])).verdict()


# Values that are large beside their derivatives


@fg.custom_gradient
def square_with_a_wrong_rule(x):
    return x**2, lambda dy: dy * 3.0 * x


@pytest.mark.parametrize("large", [1e6, 1e8, -1e8, 1e10])
def test_a_wrong_derivative_of_a_large_value(large):
    x = np.array([1.0, 2.0])
    report = fg.check(lambda x: large + np.sum(square_with_a_wrong_rule(x)), x)
    assert report.verdict() == "Derivatives disagree: x[0], x[1]."
    report = fg.check(lambda x: large + np.sum(x**2), x)
    assert report.ok
    for row, exact in zip(report.derivatives, 2 * x, strict=True):
        assert abs(row.numeric - exact) <= 10 * row.error
        assert row.error >= 1e-17 * abs(large)  # no luck


@pytest.mark.parametrize("large", [1e14, 1e16, 1e17, -1e20])
@pytest.mark.parametrize("square", [lambda x: x**2, square_with_a_wrong_rule])
def test_a_value_so_large_that_differences_cannot_tell(large, square):
    report = fg.check(lambda x: large + np.sum(square(x)), np.array([1.0, 2.0]))
    assert not report.ok
    text = "Differences are inconclusive, since rounding of the value hides them: x[0], x[1]."
    assert report.verdict() == text
    assert [row.cells()[-1] for row in report.derivatives] == ["cannot tell", "cannot tell"]


def test_a_wrong_derivative_of_a_large_value_in_single_precision():
    x = np.float32([1.0, 2.0])
    assert not fg.check(lambda x: 1e5 + np.sum(square_with_a_wrong_rule(x)), x).ok
    assert fg.check(lambda x: 1e5 + np.sum(x**2), x).ok


def test_derivatives_that_vanish_agree():
    rng = np.random.default_rng(0)
    for x in rng.standard_normal((20, 3)):
        assert fg.check(lambda x: np.sum(np.exp(x) / np.sum(np.exp(x))), x).ok
        assert fg.check(lambda y: np.sum((y - x) ** 2) + 5.0, x + 1e-14).ok  # next to a minimum
        assert fg.check(lambda x: 1e9 * np.cos(x - x), x[0]).ok


# Kinks

KINKS = [
    ("abs", lambda x: np.abs(x), 0.0, "abs", "on a point"),
    ("maximum", lambda x: np.maximum(x, 2.0), 2.0, "maximum", "on a point"),
    ("minimum", lambda x: np.minimum(2.0, x), 2.0, "minimum", "on a point"),
    ("clip", lambda x: np.clip(x, 0.0, 1.0), 1.0, "minimum", "on a point"),
    ("relu", lambda x: np.where(x > 0, x, 0.0), 0.0, "greater", "on a point"),
    ("a Python branch", branch, 1.0, "greater", "on a point"),
    ("largest of equals", lambda x: np.max(np.stack([x, 4.0 - x])), 2.0, "max", "on a point"),
    ("floor", lambda x: np.floor(x) * x, 2.0, "floor", "on a point"),
    ("round", lambda x: np.round(x) * x, 2.5, "round", "on a point"),
    ("astype", lambda x: x.astype(int) * x, 3.0, "astype", "on a point"),
]


@pytest.mark.parametrize(("f", "x", "operation", "text"), [pytest.param(*row[1:], id=row[0]) for row in KINKS])
def test_a_point_on_a_kink(f, x, operation, text):
    report = fg.check(f, x)
    assert not report.ok
    assert report.verdict() == "The point is on a kink, where there is no derivative: x."
    assert [each.kink for each in report.derivatives] == [True]
    kink = report.kinks[0]
    assert (kink.kind, kink.operation) == ("kink", operation)
    assert text in kink.text
    assert kink.line.startswith("test_check.py:")


def test_a_point_near_a_kink():
    report = fg.check(lambda x: np.maximum(x, 1.0), 1.00001)
    assert report.ok
    assert report.kinks[0].text.startswith("The arguments of maximum are 1e-05 away from a point")
    assert fg.check(lambda x: np.maximum(x, 1.0), 1.01).kinks == ()


def test_a_kink_of_one_element():
    report = fg.check(lambda x: np.sum(np.abs(x)), np.array([1.0, 0.0, -1.0]))
    assert [each.kink for each in report.derivatives] == [False, True, False]
    assert "no derivative: x[1]." in report.verdict()


def test_the_end_of_a_domain():
    report = fg.check(lambda x: np.sqrt(x), 0.0)
    assert report.derivatives[0].kink
    assert not report.ok


def test_a_steep_or_curved_function_is_no_kink():
    assert fg.check(lambda x: np.tanh(1000.0 * x), 1e-4).ok
    assert fg.check(lambda x: x**4, 0.0).ok
    assert fg.check(lambda x: np.cosh(x) * 1e8, 0.0).ok
    for number in range(1, 9):
        assert fg.check(lambda x: np.sin(x), number * np.pi).ok  # straight, but for the rounding of its values


# Cuts

CUTS = [
    ("item", lambda x: x * x.item(), ".item()", "x * x.item()"),
    ("numpy", lambda x: np.sin(x.numpy()) + x, ".numpy()", "np.sin(x.numpy()) + x"),
    ("all of it", lambda x: math.sin(x.item()), ".item()", "math.sin(x.item())"),
    (".numpy()", lambda x: x * x.numpy(), ".numpy()", "x * x.numpy()"),
    ("stop_gradient", lambda x: x * fg.stop_gradient(x), "stop_gradient", "fg.stop_gradient(x)"),
]


@pytest.mark.parametrize(("f", "operation", "line"), [pytest.param(*row[1:], id=row[0]) for row in CUTS])
def test_what_is_left_out(f, operation, line):
    report = fg.check(f, 3.0)
    assert not report.ok
    assert report.verdict() == "Derivatives disagree: x."
    assert report.cuts[0].operation == operation
    assert line in report.cuts[0].line
    assert f"{operation} at test_check.py:" in str(report)


def test_a_constant_is_no_cut():
    report = fg.check(lambda x: np.round(x) * 2.0, 3.2)
    assert report.ok
    assert report.cuts[0].kind == "rounding"
    report = fg.check(lambda x, y: y * 2.0, 3.2, 1.0)
    assert report.ok
    assert report.cuts == ()
    assert fg.check(lambda x: 5.0, 3.2).ok


# The report


def test_the_text():
    lines = str(fg.check(lambda x, y: x * y, 2.0, np.float32(3.0))).split("\n")
    assert lines[0] == "check of <lambda>: All derivatives agree."
    assert lines[1:4] == [
        "  x: float64[], gradient float64[]",
        "  y: float32[], gradient float32[]",
        "  value: 6.0 (float64[])",
    ]
    assert lines[4].split() == ["forward", "reverse", "differences", "error"]
    assert [line.split()[0] for line in lines[5:]] == ["x", "y"]
    assert all(line.endswith("agree") for line in lines[5:])


def test_html():
    page = fg.check(lambda x: np.where(x < 1.0, x, 2.0 * x), 1.0)._repr_html_()
    assert "<th>forward</th>" in page
    assert "<td>kink</td>" in page
    assert "x &lt; 1.0" in page
    assert "x < 1.0" not in page


def test_what_it_refuses():
    with pytest.raises(errors.IntegerInputError, match="none of the arguments is a floating-point"):
        fg.check(lambda x: x, 3)
    with pytest.raises(errors.NotCallableError, match=r"not check\(f\(x\)\)"):
        fg.check(fg.constant(3.0))
    with pytest.raises(errors.NoResultError, match="forget to return"):
        fg.check(lambda x: None, 3.0)
    with pytest.raises(errors.OutputError, match="which is not a number"):
        fg.check(lambda x: (x, "text"), 3.0)
    with pytest.raises(errors.ParameterError, match="no parameter 'z'"):
        fg.check(lambda x: x, 3.0, argnums="z")


def test_nothing_is_changed():
    x = np.array([1.0, 2.0])
    t = fg.constant(x)

    def f(x, t):
        x[0] = x[1] * 3.0
        return np.sum(x * t)

    assert fg.check(f, x, t).ok
    assert x.tolist() == t.tolist() == [1.0, 2.0]
    assert "traced" not in repr(t)


def test_inside_of_other_blocks():
    with fg.debug_nans():
        assert not fg.check(lambda x: np.sqrt(x), 0.0).ok
        with pytest.raises(errors.NonFiniteError, match="log gave"):
            np.log(fg.constant(0.0))


def test_the_error_of_the_differences_is_honest():
    rng = np.random.default_rng(0)
    pairs = [(np.exp, np.exp), (np.sin, np.cos), (np.log, np.reciprocal), (np.sqrt, lambda x: 0.5 / np.sqrt(x))]
    for f, slope in pairs:
        for x in rng.uniform(0.1, 5.0, 20):
            value, error = _extrapolated(lambda step: float(f(x + step)), 0.05 * abs(x))
            assert abs(value - slope(x)) <= 10 * error + 1e-9 * abs(slope(x))


def test_a_step_that_moves_under_an_integral_is_a_problem():
    """Differences are as zero as the derivative: SciPy's value does not move by so little. Other warnings arrive."""

    def above(threshold):
        warnings.warn("of the function", UserWarning, stacklevel=1)
        return quad(lambda x: np.where(x > threshold, x, 0.0), 0.0, 1.0)[0]

    with pytest.warns(UserWarning, match="of the function") as told:
        report = fg.check(above, 0.3)
    assert not any(isinstance(each.message, errors.MovingStepWarning) for each in told)
    assert not report.ok
    assert "A part of the derivative may be missing" in report.verdict()
    assert "x > threshold" in report.verdict()
    assert "points=[location]" in report.verdict()
    parted = fg.check(lambda t: quad(lambda x: np.where(x > t, x, 0.0), 0.0, 1.0, points=[t])[0], 0.3)
    assert not parted.problems
