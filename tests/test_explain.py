"""`explain`: the mistakes that users make most, each with what it is told; and what explaining must not do."""

import gc
import math
import threading
import warnings
import weakref

import numpy as np
import pytest
from helpers import plain

import fgrad as fg
from fgrad import errors
from fgrad.debugging.explain import Explanation, Explanations
from fgrad.tapes.tape import recording_of

HERE = r"^test_explain\.py:\d+: "


def asked(f, x=3.0, **options):
    """Return the explanation of a tape that has recorded a function of a watched tensor."""
    x = fg.constant(x)
    with fg.GradientTape(**options) as tape:
        tape.watch(x)
        y = f(x)
    return fg.explain(tape, y, x)


# The mistakes: what is done, what becomes of the gradient, kind and operation of the reason, its text, its line


def not_watched():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        y = x * x
    return fg.explain(tape, y, x)


def an_equal_tensor_watched():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(fg.constant(3.0))
        y = x * x
    return fg.explain(tape, y, x)


def assigned_since():
    x = fg.constant([3.0, 4.0])
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    x[0] = 5.0
    return fg.explain(tape, y, x)


def a_new_value_in_the_second_step():
    w = fg.constant(3.0)
    for _ in range(2):
        with fg.GradientTape() as tape:
            if tape.watched_variables() == () and w.item() == 3.0:
                tape.watch(w)
            y = w * w
        explained = fg.explain(tape, y, w)
        w = w - 0.1
    return explained


def watched_late():
    a, x = fg.constant(2.0), fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(a)
        y = a * x
        tape.watch(x)
    return fg.explain(tape, y, x)


def watched_late_and_nothing_recorded():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        y = x * x
        tape.watch(x)
    return fg.explain(tape, y, x)


def computed_after_the_block():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
    return fg.explain(tape, x * x, x)


def computed_after_the_block_from_what_was_recorded():
    x = fg.constant(3.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    return fg.explain(tape, y * y, x)


def a_later_result_as_source():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * x
    return fg.explain(tape, y, z)


def inner_gradient_outside_of_the_outer_block():
    x = fg.constant(3.0)
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
    slope = inner.gradient(y, x)
    return fg.explain(outer, slope, x)


def of_another_tape():
    w = fg.Variable(2.0, name="w")
    with fg.GradientTape():
        w * 2.0
    with fg.GradientTape(persistent=True) as other:
        y = w * w
    with fg.GradientTape() as tape:
        w * 3.0
    assert other is not tape
    return fg.explain(tape, y, w)


def not_recorded():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        x * 1.0
        with tape.stop_recording():
            y = x * x
    return fg.explain(tape, y, x)


def never_entered():
    x = fg.constant(3.0)
    return fg.explain(fg.GradientTape(), x * x, x)


def used_up():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    return fg.explain(tape, y, x)


def used_up_after_a_cut():
    x, a = fg.constant(3.0), fg.constant(2.0)
    with fg.GradientTape() as tape:
        tape.watch([x, a])
        y = math.exp((x * 2.0).item()) * a
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.NoGradientWarning)
        assert tape.gradient(y, x) is None
    return fg.explain(tape, y, x)


def of_integers():
    with fg.GradientTape() as tape:
        n = fg.constant(3)
        y = n * 2.0
    return fg.explain(tape, y, n)


def not_trainable():
    w = fg.Variable(2.0, trainable=False, name="w")
    with fg.GradientTape() as tape:
        y = w * w
    return fg.explain(tape, y, w)


def variables_not_watched():
    w = fg.Variable(2.0, name="w")
    with fg.GradientTape(watch_accessed_variables=False) as tape:
        y = w * w
    return fg.explain(tape, y, w)


def a_variable_read_before():
    w = fg.Variable(2.0, name="w")
    value = w.value()
    with fg.GradientTape() as tape:
        y = value * value
    return fg.explain(tape, y, w)


def the_array_of_a_variable():
    w = fg.Variable(2.0, name="w")
    with fg.GradientTape() as tape:
        y = fg.constant(w.numpy() * 2.0) * 1.0
        w * 1.0
    return fg.explain(tape, y, w)


def an_assignment_on_the_way():
    x, state = fg.constant(3.0), fg.Variable(0.0, name="state")
    with fg.GradientTape() as tape:
        tape.watch(x)
        state.assign(x * x)
        y = state * 2.0
    return fg.explain(tape, y, x)


def without_the_source():
    a, x = fg.constant(2.0), fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch([a, x])
        y = a * a
        x * x
    return fg.explain(tape, y, x)


def by_an_index(x):
    places = fg.constant(np.array([1, 0]))
    return np.array([1.0, 2.0])[int(x)] * fg.constant(1.0) + 0.0 * places[0]


@fg.custom_gradient
def without_derivative(x):
    return x * 2.0, lambda dy: None


@fg.custom_gradient
def with_a_bad_rule(x):
    return x * 2.0, lambda dy: dy * np.inf


MISTAKES = [
    # None
    ("never watched", not_watched, "none", "never watched", "", "never watched: call tape.watch", None),
    ("an equal tensor", an_equal_tensor_watched, "none", "never watched", "", "an equal tensor, or a new one", None),
    ("x = x - rate * g", a_new_value_in_the_second_step, "none", "never watched", "", "x = x - rate \\* g", None),
    ("assigned since", assigned_since, "none", "assigned since", "watch", "Call tape.gradient before", "tape.watch(x)"),
    ("watched late", watched_late, "none", "watched late", "watch", "after the target was computed", "tape.watch(x)"),
    ("watched late, nothing recorded", watched_late_and_nothing_recorded, "none", "not recorded", "watch",
     "computed before the source was watched, outside .* No operation on the source was recorded", "tape.watch(x)"),
    ("after the block", computed_after_the_block, "none", "not recorded", "watch", "outside of the tape's block",
     "tape.watch(x)"),
    ("after the block, from a recorded value", computed_after_the_block_from_what_was_recorded, "none",
     "not recorded", "watch", "The target was not recorded", "tape.watch(x)"),
    ("a later result", a_later_result_as_source, "none", "computed later", "", "target was computed before", None),
    ("inner gradient outside", inner_gradient_outside_of_the_outer_block, "none", "another tape", "",
     "compute it inside this tape's block", None),
    ("another tape", of_another_tape, "none", "another tape", "", "recorded by another tape, not by this one", None),
    ("stop_recording", not_recorded, "none", "stop_recording", "stop_recording()", "are not recorded",
     "with tape.stop_recording():"),
    ("never entered", never_entered, "none", "never entered", "", "never entered", None),
    ("used up", used_up, "unknown", "used up", "", "The tape has been used", None),
    ("used up after a cut", used_up_after_a_cut, "none", "cut", ".item()", "left the trace", "math.exp((x"),
    ("an integer", of_integers, "none", "integer", "", "type int64, which has no derivative. Make it a float", None),
    ("not trainable", not_trainable, "none", "not trainable", "", "The variable 'w' is not trainable", None),
    ("variables not watched", variables_not_watched, "none", "never watched", "",
     "watch_accessed_variables=False, and the variable 'w' was not watched", None),
    ("a variable read before", a_variable_read_before, "none", "never read", "", "'w' was not read while", None),
    ("the array of a variable", the_array_of_a_variable, "none", "not recorded", "", "the array v.numpy\\(\\)", None),
    ("an assignment", an_assignment_on_the_way, "none", "storing it in a variable", "storing it in a variable",
     "does not pass through assign", "state.assign(x * x)"),
    ("no path", without_the_source, "none", "independent", "", "does not depend on the source", None),
    ("item", lambda: asked(lambda x: fg.constant(x.item() * 2.0)), "none", "cut", ".item()",
     "NumPy's functions in place of those of math", "fg.constant(x.item() * 2.0)"),
    ("tolist", lambda: asked(lambda x: math.sin((x * x).tolist()) * fg.constant(1.0)), "none", "cut", ".tolist()",
     "are constants", "math.sin((x * x).tolist())"),
    (".numpy()", lambda: asked(lambda x: fg.constant(x.numpy())), "none", "cut", ".numpy()", "NumPy's functions accept",
     "x.numpy()"),
    (".item()", lambda: asked(lambda x: fg.constant(x.item())), "none", "cut", ".item()", r"x\[i\] for an element",
     "x.item()"),
    (".tolist()", lambda: asked(lambda x: fg.constant(x.tolist())), "none", "cut", ".tolist()", "tensor itself",
     "x.tolist()"),
    ("int()", lambda: asked(by_an_index, 1.0), "none", "cut", "int()", "It rounds, too", "[int(x)]"),
    ("stop_gradient", lambda: asked(lambda x: fg.stop_gradient(x) * 2.0), "none", "stop_gradient", "stop_gradient",
     "Remove stop_gradient", "fg.stop_gradient(x) * 2.0"),
    ("stop_gradient of a container", lambda: asked(lambda x: fg.stop_gradient({"a": [x]})["a"][0] * 2.0), "none",
     "stop_gradient", "stop_gradient", "path is cut", 'fg.stop_gradient({"a"'),
    ("a branch", lambda: asked(lambda x: fg.constant(1.0) if x > 0 else fg.constant(2.0)), "none", "branch", "bool()",
     "Only the choice of a branch", "if x > 0 else"),
    ("an index", lambda: asked(lambda x: np.array([1.0, 2.0])[np.argmax(x)] * fg.constant(1.0), [1.0, 2.0]), "none",
     "branch", "use as an index", "a position has no derivative", "np.array([1.0, 2.0])[np.argmax(x)]"),
    # Zero
    ("astype(int)", lambda: asked(lambda x: x.astype(int) * 2.0), "zero", "integers", "astype",
     "conversion to integers", "x.astype(int)"),
    ("a comparison", lambda: asked(lambda x: np.sum(x > 1.0) * 2.0, [1.0, 2.0]), "zero", "comparison", "greater",
     "True or False", "x > 1.0"),
    ("argmax", lambda: asked(lambda x: np.argmax(x) * 2.0, [1.0, 2.0]), "zero", "position", "argmax",
     "A position", "np.argmax(x)"),
    ("rounding", lambda: asked(lambda x: np.round(x, 1) * 2.0), "zero", "rounding", "round", "A rounding",
     "np.round(x, 1)"),
    ("floor", lambda: asked(lambda x: np.floor(x) * 2.0), "zero", "rounding", "floor", "A rounding", "np.floor(x)"),
    ("sign", lambda: asked(lambda x: np.sign(x) * 2.0), "zero", "constant", "sign", "wherever it exists", "np.sign"),
    ("a factor of zero", lambda: fg.explain(lambda x: x * 0.0, 3.0)[0], "zero", "zero factor", "multiply",
     "factor of a product is 0", "x * 0.0"),
    ("where", lambda: fg.explain(lambda x: np.where(x > 5.0, x * x, 1.0), 3.0)[0], "zero", "mask", "where",
     "selected another branch", "np.where(x > 5.0"),
    ("maximum", lambda: fg.explain(lambda x: np.sum(np.maximum(x, 0.0)), -np.ones(2))[0], "zero", "mask", "maximum",
     "selected its other argument for all 2 elements", "np.maximum(x, 0.0)"),
    ("clip", lambda: fg.explain(lambda x: np.clip(x, -1.0, 1.0), 3.0)[0], "zero", "mask", "minimum",
     "which clip uses", "np.clip(x"),
    ("abs at 0", lambda: fg.explain(lambda x: np.abs(x), 0.0)[0], "zero", "zero slope", "abs", "derivative 0 here",
     "np.abs(x)"),
    ("a rule that gives None", lambda: fg.explain(lambda x: without_derivative(x), 3.0)[0], "zero", "zero slope",
     "the rule of without_derivative", "derivative 0 here", "without_derivative(x)"),
    ("paths that cancel", lambda: fg.explain(lambda x: x * 2.0 - x - x, 3.0)[0], "zero", "cancels", "",
     "add up to 0", None),
    # Not finite
    ("sqrt at 0", lambda: fg.explain(lambda x: np.sqrt(x * x), 0.0)[0], "not finite", "rule not finite", "sqrt",
     "An infinity comes from the reverse rule of sqrt", "np.sqrt(x * x)"),
    ("a norm by hand", lambda: fg.explain(lambda x: np.sqrt(np.sum(x * x)), np.zeros(2))[0], "not finite",
     "rule not finite", "sqrt", "select another branch", "np.sqrt(np.sum"),
    ("log of 0", lambda: fg.explain(lambda x: np.log(x) * x, 0.0)[0], "not finite", "value not finite", "log",
     "itself is not finite: the first such value comes from log", "np.log(x)"),
    ("0 / 0", lambda: fg.explain(lambda x: np.sin(x) / x, 0.0)[0], "not finite", "value not finite", "divide",
     "comes from divide", "np.sin(x) / x"),
    ("overflow", lambda: fg.explain(lambda x: np.log(np.exp(x)), 1000.0)[0], "not finite", "value not finite", "exp",
     "comes from exp", "np.log(np.exp(x))"),
    ("a rule that is not finite", lambda: fg.explain(lambda x: with_a_bad_rule(x) * 2.0, 3.0)[0], "not finite",
     "rule not finite", "the rule of with_a_bad_rule", "An infinity", "with_a_bad_rule(x)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "status", "kind", "operation", "text", "line"), [pytest.param(*row[1:], id=row[0]) for row in MISTAKES]
)
def test_a_mistake(program, status, kind, operation, text, line):
    with np.errstate(all="ignore"):
        explained = program()
    assert type(explained) is Explanation
    first = explained.reasons[0]
    assert (explained.status, first.kind, first.operation) == (status, kind, operation)
    with pytest.raises(AssertionError, match=text):  # of the text as a user reads it
        raise AssertionError(str(explained))
    if line is None:
        assert first.line is None
    else:
        assert first.line.startswith("test_explain.py:")
        assert line in first.line
        assert f"{operation} at {first.line}" in str(explained)
    assert str(explained).startswith("The gradient with respect to ")


# What the parts of an explanation are


def test_the_values_of_the_first_operation_that_is_not_finite():
    explained = fg.explain(lambda x: np.sqrt(x - 1.0) * 2.0, np.float64(1.0))[0]
    assert explained.reasons[0].values == ("argument 0: 0.0", "result: 0.0", "cotangent: 2.0", "gave: inf")
    assert str(explained.gradient) == "inf"
    assert [step.operation for step in explained.path] == ["subtract", "sqrt", "multiply"]
    assert all(step.line.startswith("test_explain.py:") for step in explained.path)
    assert explained.hint == ""


def test_the_first_operation_of_the_backward_pass():
    """Two roots of 0: the one that the pass meets first has a finite cotangent, the other has not."""
    explained = fg.explain(lambda x: np.sqrt(np.sqrt(x)), 0.0)[0]
    assert explained.reasons[0].values[-2:] == ("cotangent: 1.0", "gave: inf")


def test_a_branch_that_does_not_matter_is_not_blamed():
    """Of an infinite slope beside the way from the source nothing is said."""
    y = fg.constant(0.0)

    def f(x):
        return np.sqrt(x) + np.sqrt(y)

    x = fg.constant(4.0)
    with fg.GradientTape() as tape:
        tape.watch([x, y])
        z = f(x)
    explained = fg.explain(tape, z, [x, y])
    assert [each.status for each in explained] == ["fine", "not finite"]


def test_of_a_tape_without_lines_what_the_rule_has_kept():
    explained = asked(lambda x: np.sqrt(x), 0.0)
    assert "its rule keeps ans = 0.0" in explained.reasons[0].values
    assert explained.reasons[0].line is None
    assert "debug_lines" in explained.hint


def test_of_a_tape_with_lines():
    x = fg.constant(0.0)
    with fg.debug_lines(), fg.GradientTape() as tape:
        tape.watch(x)
        y = np.sqrt(x)
    explained = fg.explain(tape, y, x)
    assert explained.line.endswith("y = np.sqrt(x)")
    assert explained.hint == ""


def test_lines_belong_to_the_statements():
    def f(x):
        a = np.floor(x)
        b = np.round(x)
        return a + b

    explained = fg.explain(f, 2.3)[0]
    assert [reason.line.split(": ", 1)[1] for reason in explained.reasons] == ["a = np.floor(x)", "b = np.round(x)"]


def test_a_gradient_that_is_fine():
    explained = asked(lambda x: x * x)
    assert (explained.status, explained.reasons, plain(explained.gradient)) == ("fine", (), 6.0)
    assert str(explained).startswith("The gradient with respect to the source is 6.0")
    assert asked(lambda x: x * x.item()).reasons[0].text.startswith("Part of the gradient may be missing")


def test_elements_that_are_zero():
    explained = fg.explain(lambda x: np.sum(np.maximum(x, 0.0)), np.array([1.0, -1.0, -2.0]))[0]
    assert explained.title().endswith("[1., 0., 0.]; 2 of 3 elements are 0")
    assert explained.reasons[0].text.endswith("selected its other argument for 2 of 3 elements.")


def test_several_cuts_are_all_told():
    explained = asked(lambda x: fg.constant(x.numpy() + x.item() + int(x)))
    assert [reason.operation for reason in explained.reasons] == [".numpy()", ".item()", "int()"]


def test_a_cut_of_something_else_is_not_told():
    x, a = fg.constant(3.0), fg.constant(2.0)
    with fg.GradientTape() as tape:
        tape.watch([x, a])
        scale = a.item()
        y = a * a
        x * scale
    assert fg.explain(tape, y, x).reasons[0].kind == "independent"


def test_a_cut_after_the_target_is_not_told():
    x, a = fg.constant(3.0), fg.constant(2.0)
    with fg.GradientTape() as tape:
        tape.watch([x, a])
        y = a * a
        (x * x).item()
    assert fg.explain(tape, y, x).reasons[0].kind == "independent"


def test_a_cut_is_more_certain_than_a_later_tape():
    x = fg.constant(3.0)
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = fg.constant(x.item())
    for tape in (inner, outer):
        assert [reason.operation for reason in fg.explain(tape, y, x).reasons] == [".item()"]


def test_a_branch_is_a_guess():
    explained = asked(lambda x: fg.constant(1.0) if x > 0 else fg.constant(2.0))
    assert [reason.kind for reason in explained.reasons] == ["branch", "not recorded"]


def test_a_value_that_was_printed_is_no_reason():
    x, a = fg.constant(3.0), fg.constant(2.0)
    with fg.GradientTape() as tape:
        tape.watch([x, a])
        assert f"{x * 2.0:.1f}" == "6.0"
        y = a * 2.0
    assert [reason.kind for reason in fg.explain(tape, y, x).reasons] == ["independent"]


def test_the_path_leads_to_the_first_reason():
    def f(x):
        y = x * 2.0
        return fg.constant(y.item() + np.sin(x).tolist())

    explained = fg.explain(f, 3.0)[0]
    assert [reason.operation for reason in explained.reasons[:2]] == [".item()", ".tolist()"]
    assert [step.operation for step in explained.path] == ["multiply", ".item()"]


def test_a_cut_far_from_the_source():
    def f(x):
        for _ in range(100):
            x = x * 1.01
        return fg.constant(x.item())

    explained = fg.explain(f, 1.0)[0]
    assert explained.line.endswith("return fg.constant(x.item())")
    assert len(explained.path) == 101
    assert "... 93 more ..." in str(explained)


def test_the_path_through_what_has_no_derivative():
    explained = fg.explain(lambda x: np.floor(x * 2.0) + 1.0, 3.2)[0]
    assert [step.operation for step in explained.path] == ["multiply", "floor", "add"]


def test_what_comes_after_a_dead_end_is_not_blamed():
    def f(x):
        dead = np.floor(x) * 0.0
        return dead + x * 0.0

    (reason,) = fg.explain(f, 3.2)[0].reasons
    assert reason.line.endswith("return dead + x * 0.0")


def test_zeros_of_the_cotangent_win_as_in_the_gradient():
    explained = fg.explain(lambda x: np.where(x > 0, np.sqrt(x), 0.0), 0.0)[0]
    assert (explained.status, explained.reasons[0].kind) == ("zero", "mask")


def test_several_results_of_one_operation():
    def f(a):
        values, _ = np.linalg.eigh(a)
        return np.sqrt(values[0])

    explained = fg.explain(f, np.diag([0.0, 1.0]))[0]
    assert (explained.status, explained.reasons[0].operation) == ("not finite", "sqrt")
    assert [step.operation for step in explained.path] == ["eigh", "index", "sqrt"]


def test_complex_numbers():
    assert fg.explain(lambda z: np.abs(z) ** 2, 3 + 4j)[0].status == "fine"
    assert fg.explain(lambda z: np.sqrt(z), 0j)[0].reasons[0].operation == "sqrt"


def test_html():
    page = fg.explain(lambda x: np.where(x < 5.0, 1.0, x), 3.0)[0]._repr_html_()
    assert "<li>where at <code>test_explain.py:" in page
    assert "x &lt; 5.0" in page
    assert "x < 5.0" not in page
    pages = fg.explain(lambda x, y: x * y, 2.0, 3.0)._repr_html_()
    assert pages.count("<div>") == 2


# How it is asked


def test_containers_of_sources():
    w, b = fg.Variable(2.0, name="w"), fg.Variable([1.0, 2.0], name="b")
    with fg.GradientTape(persistent=True) as tape:
        y = w * np.sum(b).item()
    explained = fg.explain(tape, y, {"w": w, "b": [b]})
    assert type(explained) is Explanations
    assert [each.source for each in explained] == ["the variable 'b'", "the variable 'w'"]
    assert [each.status for each in explained] == ["none", "fine"]
    assert str(explained) == "\n".join(map(str, explained)) == repr(explained)
    x = fg.constant(1.0)
    assert [each.source for each in fg.explain(tape, y, [x])] == ["the source[0]"]
    assert str(fg.explain(tape, y, [])) == "There is no source to explain."
    assert fg.explain(tape, target=y, source=w).status == "fine"


def test_containers_of_targets():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y, z = x * x, x * 4.0
    assert plain(fg.explain(tape, {"y": y, "z": [z]}, x).gradient) == 10.0


def test_arguments_of_a_function():
    def loss(params, x, scale=2.0):
        return np.sum(params["w"] * fg.stop_gradient(params["b"]) * x) * scale

    params = {"w": np.ones(2), "b": 3.0, "name": "model"}
    everything = fg.explain(loss, params, 2)
    assert [(each.source, each.status) for each in everything] == [
        ("the argument 'params'['b']", "none"),
        ("the argument 'params'['w']", "fine"),
        ("the argument 'x'", "none"),
    ]
    assert everything[2].reasons[0].kind == "integer"
    assert fg.explain(loss, params, 2.0, argnums="x").status == "fine"
    assert fg.explain(loss, params, 2.0, argnums=1).source == "the argument 'x'"
    assert [each.status for each in fg.explain(loss, params, 2.0, argnums=0)] == ["none", "fine"]
    assert fg.explain(loss, params, 2.0, argnums="scale").status == "fine"
    assert fg.explain(loss, params, 2.0, argnums="scale", scale=0.0).path[-1].operation == "multiply"


def test_variables_of_a_function():
    w, b = fg.Variable(2.0, name="w"), fg.Variable(1.0, name="b")
    explained = fg.explain(lambda x: w * x + b.numpy() + 0.0 * b, 3.0)
    assert [(each.source, each.status) for each in explained] == [
        ("the argument 'x'", "fine"),
        ("the variable 'w'", "fine"),
        ("the variable 'b'", "zero"),
    ]


def test_a_function_that_returns_a_plain_number():
    explained = fg.explain(lambda x: math.sin(x.item()), 3.0)[0]
    assert [reason.kind for reason in explained.reasons] == ["cut", "plain result"]
    assert "<lambda> returned 0.14112" in str(explained)
    assert fg.explain(lambda x: 5.0, 3.0)[0].reasons[0].text == "<lambda> returned 5.0, which is not a tensor."


def test_a_function_that_assigns_to_its_argument():
    def f(x):
        x[0] = 5.0
        return np.sum(x * x)

    assert plain(fg.explain(f, np.array([1.0, 2.0]))[0].gradient) == [0.0, 4.0]


def test_the_derivative_of_a_gradient_function():
    explained = fg.explain(fg.grad(lambda x: x * 3.0), 2.0)[0]
    assert explained.status == "none"
    explained = fg.explain(fg.grad(lambda x: np.sqrt(x) ** 3), 0.0)[0]
    assert explained.status == "not finite"
    assert explained.reasons[0].line.startswith("test_explain.py:")
    assert "np.sqrt(x) ** 3" in explained.reasons[0].line


def test_inside_of_another_transform():
    found = []

    def f(x):
        found.append(fg.explain(lambda y: x * np.sqrt(y), 0.0)[0])
        return x * x

    assert plain(fg.grad(f)(3.0)) == 6.0
    assert (found[0].status, found[0].reasons[0].operation) == ("not finite", "sqrt")
    assert plain(fg.vmap(f)(np.array([1.0, 2.0]))) == [1.0, 4.0]
    assert found[1].reasons[0].operation == "sqrt"


def test_what_it_refuses():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(errors.SourceError, match="source must be a Tensor"):
        fg.explain(tape, y, 3.0)
    with pytest.raises(errors.SourceError, match="target must be a Tensor"):
        fg.explain(tape, 3.0, x)
    with pytest.raises(errors.ParameterError, match=r"explain\(tape, target, source\)"):
        fg.explain(tape, y)
    with pytest.raises(errors.ParameterError, match="takes a target and a source"):
        fg.explain(tape, y, x, x)
    with pytest.raises(errors.NotCallableError, match="a GradientTape or a function first"):
        fg.explain(y, tape, x)
    with pytest.raises(errors.NoResultError, match="forget to return a value"):
        fg.explain(lambda x: None, 3.0)
    with pytest.raises(errors.ParameterError, match="has no parameter 'z'"):
        fg.explain(lambda x: x, 3.0, argnums="z")


# What explaining leaves as it was


@pytest.mark.parametrize("persistent", [False, True])
def test_nothing_is_used_up(persistent):
    x = fg.constant(3.0)
    with fg.GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        y = x * x * x
        before = len(recording_of(tape).edges())
        assert plain(fg.explain(tape, y, x).gradient) == 27.0
        assert len(recording_of(tape).edges()) == before  # nor was the pass recorded
        z = y * x
    assert plain(fg.explain(tape, z, x).gradient) == 108.0
    assert plain(fg.explain(tape, z, x).gradient) == 108.0
    assert plain(tape.gradient(z, x)) == 108.0


def test_variables_are_watched_after_it_as_before():
    v, w = fg.Variable(2.0), fg.Variable(3.0)
    with fg.GradientTape() as tape:
        y = v * v
        assert fg.explain(tape, y, v).status == "fine"
        z = w * y
    assert plain(tape.gradient(z, [v, w])) == [12.0, 4.0]


def test_the_record_goes_with_the_tape():
    kept = np.ones(3)
    alive = weakref.ref(kept)
    x = fg.constant(np.ones(3))
    with fg.debug_lines(), fg.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(x * kept)
        y.item()
    fg.explain(tape, y, x)
    gc.disable()
    try:
        del kept, tape
        assert alive() is None
    finally:
        gc.enable()


def test_an_outline_holds_numbers_alone():
    x = fg.constant(np.ones(3))
    kept = np.full(3, 2.0)
    alive = weakref.ref(kept)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(x * kept)
        y.item()
    tape.gradient(y, x)
    del kept
    assert alive() is None
    assert recording_of(tape).outline.pairs


def test_threads_explain_apart():
    results = {}

    def work(name, f):
        results[name] = fg.explain(f, 0.0)[0].reasons[0].line

    def root(x):
        return np.sqrt(x)

    def floored(x):
        return np.floor(x)

    threads = [threading.Thread(target=work, args=(f"{f.__name__} {i}", f)) for i in range(8) for f in (root, floored)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 16
    for name, line in results.items():
        assert line.endswith("np.sqrt(x)" if name.startswith("root") else "np.floor(x)")


# The warning


def test_a_none_is_explained_in_a_line():
    x, a = fg.constant(3.0), fg.constant(2.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch([x, a])
        y = math.sin(x.item()) * a
    text = r"respect to the source is None.*\.item\(\) at test_explain.py:\d+: y = math"
    with pytest.warns(errors.NoGradientWarning, match=text):
        assert tape.gradient(y, x) is None
    with pytest.warns(errors.NoGradientWarning, match=r"respect to the source\['x'\] is None") as caught:
        tape.gradient(y, {"x": x, "a": a})
    assert caught[0].filename == __file__
    assert "\n" not in str(caught[0].message)


def test_functions_warn_too():
    with pytest.warns(errors.NoGradientWarning, match="the argument 'x' is None.*item") as caught:
        assert plain(fg.gradients_function(lambda x, y: math.sin(x.item()) * y)(0.0, 2.0)) == [None, 0.0]
    assert caught[0].filename == __file__
    with pytest.warns(errors.NoGradientWarning, match=r"the argument 'p'\[1\] is None"):
        fg.value_and_gradients_function(lambda p: p[0] * p[1].item())([1.0, 2.0])
    v, w = fg.Variable(2.0, name="v"), fg.Variable(3.0, name="w")
    with pytest.warns(errors.NoGradientWarning, match="the variable 'v' is None") as caught:
        fg.implicit_gradients(lambda: v.item() * w)()
    assert caught[0].filename == __file__
    with pytest.warns(errors.NoGradientWarning, match="the variable 'v' is None"):
        fg.optimizers.GradientDescent(0.1).compute_gradients(lambda: v.item() * w)


def test_it_is_told_once():
    x, a = fg.constant(3.0), fg.constant(2.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(5):
            with fg.GradientTape() as tape:
                tape.watch([x, a])
                y = math.sin(x.item()) * a
            tape.gradient(y, x)
    assert len(caught) == 1


@pytest.mark.parametrize(
    "f",
    [
        lambda x, a: a * a,  # no path, and nothing has left
        lambda x, a: fg.stop_gradient(x) * a,  # which asks for it
        lambda x, a: (x.numpy(), fg.stop_gradient(x) * a)[1],
        lambda x, a: a * (2.0 if x > 0 else 1.0),  # control flow
        lambda x, a: (a * a, a.item())[0],  # a value of another source
        lambda x, a: (a * a, x.item())[0],  # after the target
    ],
)
def test_where_there_is_no_warning(f):
    x, a = fg.constant(3.0), fg.constant(2.0)
    with fg.GradientTape() as tape:
        tape.watch([x, a])
        y = f(x, a)
    assert tape.gradient(y, x) is None


def test_no_warning_where_zeros_are_asked_for():
    x, a = fg.constant(3.0), fg.constant(2.0)
    with fg.GradientTape() as tape:
        tape.watch([x, a])
        y = math.sin(x.item()) * a
    assert plain(tape.gradient(y, x, unconnected_gradients="zero")) == 0.0


# Optimizers


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (lambda w: fg.constant(math.sin(w.item())), r"\.item\(\) at test_explain.py:\d+: .*math.sin\(w.item\(\)\)"),
        (lambda w: fg.stop_gradient(w) * 2.0, r"stop_gradient at test_explain.py:\d+: .*Remove stop_gradient"),
        (lambda w: (w * 1.0, fg.constant(w.numpy()))[1], r"the array v\.numpy\(\)"),
    ],
)
def test_an_optimizer_tells_why(loss, text):
    w = fg.Variable(2.0, name="w")
    with pytest.raises(errors.NoGradientsError, match=f"(?s)No gradients provided.*'w'.*{text}"):
        fg.optimizers.GradientDescent(0.1).minimize(lambda: loss(w))


def test_it_sees_into_checkpoints():
    def inside(x):
        return np.sin(x) * np.where(x > 0, 0.0, 1.0)

    x = fg.constant(2.0)
    with fg.debug_lines(), fg.GradientTape() as tape:
        tape.watch(x)
        y = fg.checkpoint(inside)(x) + 0.0
    explanation = fg.explain(tape, y, x)
    assert explanation.status == "zero"
    assert "return np.sin(x) * np.where(x > 0, 0.0, 1.0)" in str(explanation)
    assert [step.operation for step in explanation.path][-2:] == ["multiply", "add"]
    (found,) = fg.explain(lambda x: fg.checkpoint(inside)(x), 2.0)
    assert "return np.sin(x)" in str(found)


def test_a_mask_that_leaves_out_nothing_is_no_reason():
    def f(x):
        return np.sum(np.maximum(x, -10.0) * np.array([0.0, 1.0]))

    found = fg.explain(f, np.array([1.0, 2.0]), argnums=0)
    assert "1 of 2 elements are 0" in str(found)
    assert found.reasons == ()
