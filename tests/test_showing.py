"""What tensors and variables show of themselves: value, shape, dtype, and what traces them."""

import re
import threading

import numpy as np
import pytest

import fgrad as fg
from fgrad.debugging import showing
from fgrad.tapes.tape import departures

V = np.array([1.0, 2.0])
SEEN: list[str] = []


def seen(x):
    """Note the repr of what passes by."""
    SEEN.append(repr(x))
    return x


def total(x):
    return np.sum(seen(x) ** 2)


def showed(program):
    """Return the reprs that a program passed by, each once."""
    SEEN.clear()
    program()
    return list(dict.fromkeys(SEEN))


class Model:
    """Transforms as methods."""

    @fg.value_and_grad(argnums="x")
    def slope(self, x):
        return seen(x)


# Untraced


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3.0, "Tensor(3.)"),
        ([1.0, 2.5], "Tensor([1. , 2.5])"),
        ([[1, 2], [3, 4]], "Tensor([[1, 2],\n        [3, 4]])"),
        (True, "Tensor(True)"),
        (1 + 2j, "Tensor(1.+2.j)"),
        (np.float32([1, 2]), "Tensor([1., 2.], dtype=float32)"),
        (np.int8(3), "Tensor(3, dtype=int8)"),
        ([], "Tensor([])"),
        (np.zeros((0, 3)), "Tensor([], shape=(0, 3))"),
        (np.zeros((0, 3), np.float32), "Tensor([], shape=(0, 3), dtype=float32)"),
        ("abc", "Tensor('abc', dtype=<U3)"),
    ],
)
def test_untraced_tensors(value, expected):
    assert repr(fg.constant(value)) == expected


def test_what_is_summarized_says_its_shape():
    assert repr(fg.constant(np.zeros(1000))).count("shape") == 0
    assert repr(fg.constant(np.zeros((2, 1000)))).endswith("[0., 0., 0., ..., 0., 0., 0.]], shape=(2, 1000))")
    with np.printoptions(threshold=3):
        assert repr(fg.constant(np.zeros(4, np.float32))) == "Tensor([0., 0., 0., 0.], shape=(4,), dtype=float32)"
        assert repr(fg.Variable(np.arange(9), name="w")).endswith("8], name='w', shape=(9,))")


def test_variables():
    assert repr(fg.Variable(3.0, name="w")) == "Variable(3., name='w')"
    assert repr(fg.Variable(np.float32([1, 2]), name="w")) == "Variable([1., 2.], name='w', dtype=float32)"
    assert repr(fg.Variable(np.zeros((0, 2)), name="w")) == "Variable([], name='w', shape=(0, 2))"


def test_str_is_the_value_alone():
    texts = []
    fg.grad(lambda x: (texts.append(str(x)), np.sum(x))[1])(V)
    assert texts == ["[1. 2.]"]


# What traces


def taped():
    with fg.GradientTape() as tape:
        x = fg.constant(V)
        tape.watch(x)
        seen(x * 2)
    seen(x * 2)


def two_tapes():
    x = fg.constant(3.0)
    with fg.GradientTape() as outer, fg.GradientTape() as inner:
        outer.watch(x), inner.watch(x)
        seen(x * x)
    seen(inner.gradient(x, x))


def paused():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            seen(x * 1)


def accumulated():
    x = fg.constant(V)
    with fg.ForwardAccumulator(x, V):
        seen(x * 1)


TRACED = {
    "grad": (lambda: fg.grad(total)(V), "Tensor([1., 2.], traced by grad)"),
    "float32": (lambda: fg.grad(total)(np.float32(V)), "Tensor([1., 2.], dtype=float32, traced by grad)"),
    "large": (
        lambda: fg.grad(total)(np.zeros(2000)),
        "Tensor([0., 0., 0., ..., 0., 0., 0.], shape=(2000,), traced by grad)",
    ),
    "value_and_grad": (lambda: fg.value_and_grad(total)(V), "Tensor([1., 2.], traced by value_and_grad)"),
    "gradients_function": (lambda: fg.gradients_function(seen)(V), "Tensor([1., 2.], traced by gradients_function)"),
    "a method": (lambda: Model().slope(1.0), "Tensor(1., traced by value_and_grad)"),
    "a decorator": (lambda: fg.grad(argnums="x")(lambda x: seen(x))(1.0), "Tensor(1., traced by grad)"),
    "vjp": (lambda: fg.vjp(seen, V), "Tensor([1., 2.], traced by vjp)"),
    "jvp": (lambda: fg.jvp(seen, (V,), (V,)), "Tensor([1., 2.], traced by jvp)"),
    "jacobian": (lambda: fg.jacobian(seen)(V), "Tensor([1., 2.], traced by jacobian)"),
    "jacobian forward": (lambda: fg.jacobian(seen, mode="forward")(V), "Tensor([1., 2.], traced by jacobian)"),
    "hessian": (lambda: fg.hessian(total)(V), "Tensor([1., 2.], traced by hessian)"),
    "hvp": (lambda: fg.hvp(total)(V, V), "Tensor([1., 2.], traced by hvp)"),
    "grad of grad": (lambda: fg.grad(fg.grad(seen))(1.0), "Tensor(1., traced by grad in grad)"),
    "hessian of grad": (
        lambda: fg.jacobian(fg.grad(total))(V),
        "Tensor([1., 2.], traced by grad in jacobian)",
    ),
    "vmap": (lambda: fg.vmap(seen)(V), "Tensor([1., 2.], 2 examples of shape (), traced by vmap)"),
    "vmap of rows": (
        lambda: fg.vmap(seen)(np.ones((2, 3), np.float32)),
        "Tensor([[1., 1., 1.],\n        [1., 1., 1.]], 2 examples of shape (3,), dtype=float32, traced by vmap)",
    ),
    "vmap of vmap": (
        lambda: fg.vmap(fg.vmap(seen))(np.ones((1, 3))),
        "Tensor([[1., 1., 1.]], 1 x 3 examples of shape (), traced by vmap in vmap)",
    ),
    "vmap of grad": (
        lambda: fg.vmap(fg.grad(seen))(V),
        "Tensor([1., 2.], 2 examples of shape (), traced by grad in vmap)",
    ),
    "grad of vmap": (
        lambda: fg.grad(lambda x: np.sum(fg.vmap(seen)(x)))(V),
        "Tensor([1., 2.], 2 examples of shape (), traced by vmap in grad)",
    ),
    "trace": (lambda: fg.trace(seen)(V), "Tensor(shape=(2,), dtype=float64, traced by trace)"),
    "trace of grad": (
        lambda: fg.trace(fg.grad(total))(V),
        "Tensor(shape=(2,), dtype=float64, traced by grad in trace)",
    ),
    "paused": (paused, "Tensor(3.)"),
    "accumulator": (accumulated, "Tensor([1., 2.], traced by ForwardAccumulator)"),
}


@pytest.mark.parametrize("name", TRACED)
def test_what_traces_a_tensor(name):
    program, expected = TRACED[name]
    assert showed(program) == [expected]


def test_tapes():
    assert showed(taped) == ["Tensor([2., 4.], traced by GradientTape)", "Tensor([2., 4.])"]
    assert showed(two_tapes)[0] == "Tensor(9., traced by GradientTape in GradientTape)"


def test_results_are_not_traced():
    assert repr(fg.grad(total)(V)) == "Tensor([2., 4.])"
    kept = []
    fg.grad(lambda x: (kept.append(x), np.sum(x))[1])(V)
    assert repr(kept[0]) == "Tensor([1., 2.])"


def test_a_watched_variable_says_so():
    w, v = fg.Variable(2.0, name="w"), fg.Variable(1.0, name="v")

    def loss():
        y = w * 2.0
        seen(w), seen(v)
        return y

    assert showed(lambda: fg.implicit_gradients(loss)()) == [
        "Variable(2., name='w', watched by implicit_gradients)",
        "Variable(1., name='v')",
    ]
    with fg.GradientTape() as tape:
        tape.watch(v)
        assert repr(v) == "Variable(1., name='v', watched by GradientTape)"
    assert repr(v) == "Variable(1., name='v')"


def test_showing_a_variable_does_not_read_it():
    w, v = fg.Variable(2.0, name="w"), fg.Variable(1.0, name="v")
    pairs = fg.implicit_gradients(lambda: (repr(v), v._repr_html_(), w * 1.0)[-1])()
    assert [variable for _, variable in pairs] == [w]


def test_showing_a_tensor_does_not_take_its_value_out():
    x = fg.constant(V)
    with fg.GradientTape() as tape:
        tape.watch(x)
        repr(x * 1), (x * 1)._repr_html_()
    assert departures(tape) == []


def test_in_another_thread_it_is_the_same():
    def f(x):
        thread = threading.Thread(target=seen, args=(x,))
        thread.start(), thread.join()
        return x * 1.0

    assert showed(lambda: fg.grad(f)(2.0)) == ["Tensor(2., traced by grad)"]


def test_traced_by():
    names = []
    fg.vmap(fg.grad(lambda x: (names.append(showing.traced_by(x)), x)[1]))(V)
    assert names == ["grad in vmap"]
    assert showing.traced_by(fg.constant(V)) == ""


# Notebooks


def title(page):
    return re.search(r"<div>(.*?)</div>", page)[1]


def rows(page):
    """Return the cells of the table, row by row."""
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]


def test_a_number_is_shown_as_it_is():
    page = fg.constant(2.5)._repr_html_()
    assert title(page) == "<b>Tensor</b> shape=(), dtype=float64"
    assert "<pre>2.5</pre>" in page


def test_small_arrays_are_tables():
    page = fg.constant([[1.0, 2.5], [3.0, np.nan]])._repr_html_()
    assert title(page) == "<b>Tensor</b> shape=(2, 2), dtype=float64"
    assert rows(page) == [["", "0", "1"], ["0", "1", "2.5"], ["1", "3", "nan"]]
    assert rows(fg.constant([1, 2])._repr_html_()) == [["", "0", "1"], ["", "1", "2"]]
    assert rows(fg.constant([1 + 2j])._repr_html_())[1] == ["", "1+2j"]
    assert rows(fg.constant([True])._repr_html_())[1] == ["", "True"]
    with np.printoptions(precision=3):
        assert rows(fg.constant([1 / 3])._repr_html_())[1] == ["", "0.333"]


def test_large_arrays_are_summed_up():
    array = np.arange(600.0).reshape(20, 30)
    array[3, 4], array[5, 6], array[7, 8] = np.nan, np.inf, -np.inf
    finite = array[np.isfinite(array)]
    page = fg.constant(array)._repr_html_()
    assert title(page) == "<b>Tensor</b> shape=(20, 30), dtype=float64"
    assert rows(page) == [
        ["min of finite elements", "0"],
        ["mean of finite elements", f"{finite.mean():.8g}"],
        ["max of finite elements", "599"],
        ["nan", "1"],
        ["infinite", "2"],
        ["[0, 0]", "0"],
        ["[0, 29]", "29"],
        ["[19, 0]", "570"],
        ["[19, 29]", "599"],
    ]


def test_summaries_of_other_kinds():
    assert rows(fg.constant(np.zeros(1000, bool))._repr_html_())[0] == ["true", "0 of 1000"]
    page = rows(fg.constant(np.full(20, 3 + 4j))._repr_html_())
    assert page[:3] == [[f"{name} of absolute value", "5"] for name in ("min", "mean", "max")]
    cube = rows(fg.constant(np.zeros((2, 2, 2, 2), int))._repr_html_())
    assert [row[0] for row in cube] == ["min", "mean", "max", "nan", "infinite", "[0, 0, 0, 0]", "[1, 1, 1, 1]"]
    assert rows(fg.constant(np.full(20, np.nan))._repr_html_())[:2] == [["nan", "20"], ["infinite", "0"]]
    assert rows(fg.constant(np.array(["a"] * 20))._repr_html_()) == [["[0]", "a"], ["[19]", "a"]]
    large = rows(fg.constant(np.full(5000, 2.0**127, np.float32))._repr_html_())
    assert large[1] == ["mean", "1.7014118e+38"]  # the sum is beyond float32
    assert rows(fg.constant(np.zeros((0, 3)))._repr_html_()) == []


def test_the_side_from_which_on_arrays_are_summed_up():
    longest = showing.LONGEST_SIDE
    assert len(rows(fg.constant(np.zeros((longest, 2)))._repr_html_())) == longest + 1
    assert rows(fg.constant(np.zeros((longest + 1, 2)))._repr_html_())[0][0] == "min"


def test_traced_tensors_say_so_in_notebooks():
    pages = []

    def keep(x):
        pages.append(x._repr_html_())
        return np.sum(x)

    fg.grad(keep)(V)
    assert title(pages[-1]) == "<b>Tensor</b> shape=(2,), dtype=float64, traced by grad"
    fg.vmap(keep)(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    assert title(pages[-1]) == "<b>Tensor</b> dtype=float64, 3 examples of shape (2,), traced by vmap"
    assert rows(pages[-1])[1:] == [["example 0", "1", "2"], ["example 1", "3", "4"], ["example 2", "5", "6"]]
    fg.vmap(keep)(V)
    assert rows(pages[-1]) == [["", "0"], ["example 0", "1"], ["example 1", "2"]]
    fg.vmap(keep)(np.zeros((3, 20)))
    assert rows(pages[-1])[0] == ["min", "0"]
    fg.trace(keep)(V)
    assert pages[-1] == "<div><b>Tensor</b> shape=(2,), dtype=float64, traced by trace</div>"


def test_what_a_page_is_made_of_is_escaped():
    w = fg.Variable([1.0], name="<script>")
    assert title(w._repr_html_()) == ("<b>Variable</b> name=&#x27;&lt;script&gt;&#x27;, shape=(1,), dtype=float64")
    assert "<b>bold" not in fg.constant(np.array(["<b>bold</b>"]))._repr_html_()


def test_notebooks_draw_graphs():
    graph = fg.trace(np.sin)(V)
    drawn = graph._repr_svg_()
    assert drawn is None or "<svg" in drawn  # without Graphviz a notebook shows the text
    assert not hasattr(graph, "_repr_html_")  # which it would prefer to the drawing
    assert repr(graph).startswith("graph of sin")
