"""`trace`: what is written down, what it computes when it runs again, and what is refused."""

import fractions
import functools
import importlib
import math
import re
import sys
import tracemalloc
import types
import warnings
from collections import namedtuple

import numpy as np
import pytest
from helpers import naming, plain
from primitive_names import LONG, SAMPLED, chosen

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.tensor import Tensor, strip_ended
from fgrad.core.trace import Observer, observed_by
from fgrad.graphs.equations import same_bits
from fgrad.graphs.record import Graph, RecordTrace, trace
from fgrad.testing import check_grads

X = np.array([0.5, 1.5, -2.0])
Y = np.array([1.0, -1.0, 3.0])
A = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 4.0]])


def loss(x):
    return np.sum(np.sin(x) * x)


def agree(found, expected, rtol=1e-12):
    assert type(found) is type(expected) or isinstance(found, Tensor)
    for x, y in zip(fg.tree_leaves(found), fg.tree_leaves(expected), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=rtol)


# The table


def pulled(f):
    def gradients(*arrays):
        result, pullback = fg.vjp(f, *arrays)
        if isinstance(result, tuple):
            return pullback(tuple(np.cos(np.arange(r.size).reshape(r.shape)) for r in result))
        return pullback(np.cos(np.arange(result.size).reshape(result.shape)))

    return gradients


def pushed(f):
    return lambda *arrays: fg.jvp(f, arrays, arrays)[1]


DERIVED = {
    "value": lambda f: f,
    "reverse": pulled,
    "forward": pushed,
    "second": lambda f: pulled(pulled(f)),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_every_primitive(name):
    for dtype, rtol in ((np.float64, 1e-12), (np.complex64, 1e-4)):
        derived = [key for key in DERIVED if key != "second" or (dtype is np.float64 and name not in LONG)]
        for (sample, call), (_, other) in zip(chosen(name, dtype, 0), chosen(name, dtype, 1), strict=True):
            with np.errstate(all="ignore"), naming(sample):
                assert_graphs_are_the_function(call, other, derived, rtol)


def assert_graphs_are_the_function(call, other, derived, rtol):
    expected = {}
    for key in derived:
        f = DERIVED[key](call.function)
        expected[key] = f(*other.arrays)
        agree(trace(f)(*call.arrays)(*other.arrays), expected[key], rtol)
    graph = trace(call.function)(*call.arrays)
    agree(pulled(graph)(*other.arrays), expected["reverse"], rtol)
    agree(pushed(graph)(*other.arrays), expected["forward"], rtol)
    stacked = [np.stack(pair) for pair in zip(call.arrays, other.arrays, strict=True)]
    agree(fg.vmap(graph)(*stacked), fg.vmap(call.function)(*stacked), rtol)


# Printing


def test_the_text_of_a_small_graph():
    def f(p, x, n, *, scale=1.0):
        y = np.sin(p["w"]) * x**n
        return {"y": y[1:], "s": (np.sum(y, axis=0) * 2 + scale, y / np.array([1.0, 2.0, 4.0]))}

    assert str(trace(f)({"w": X}, Y, 2, scale=0.5)) == (
        "graph of f\n"
        "inputs     a: float64[3] = p['w']\n"
        "           b: float64[3] = x\n"
        "           c: float64[] = scale\n"
        "fixed      n = 2\n"
        "           d: float64[3] = sin a\n"
        "           e: float64[3] = square b\n"
        "           f: float64[3] = multiply d e\n"
        "           g: float64[2] = index[template=(1:,)] f\n"
        "           h: float64[] = sum[axis=0, keepdims=False] f\n"
        "           i: float64[] = multiply h 2\n"
        "           j: float64[] = add i c\n"
        "           k: float64[3] = divide f [1.0, 2.0, 4.0]\n"
        "outputs    ['s'][0] = j: float64[]\n"
        "           ['s'][1] = k: float64[3]\n"
        "           ['y'] = g: float64[2]"
    )


def test_the_text_of_constants_variables_and_several_outputs():
    w = fg.Variable(np.float32(2.0), name="w")
    k = np.arange(12.0).reshape(3, 4)

    def f(x):
        left, right = np.split(k @ x + k @ x, [1])
        return left * w, right, np.array([1.0, 2.0]), "done"

    graph = trace(f)(np.ones(4))
    assert (
        repr(graph)
        == str(graph)
        == (
            "graph of f\n"
            "inputs     a: float64[4] = x\n"
            "variables  b: float32[] = w\n"
            "constants  k0: float64[3,4]\n"
            "           c: float64[3] = matmul k0 a\n"
            "           d: float64[3] = matmul k0 a\n"
            "           e: float64[3] = add c d\n"
            "           f: float64[1], g: float64[2] = split[sections=(1,), axis=0] e\n"
            "           h: float64[1] = multiply f b\n"
            "outputs    [0] = h: float64[1]\n"
            "           [1] = g: float64[2]\n"
            "           [2] = [1.0, 2.0]\n"
            "           [3] = 'done'"
        )
    )


def test_the_text_of_keys_and_dtypes():
    def f(x, *rest):
        return x[..., None, ::2][np.array([0, 0])] + rest[0].astype("float32")

    lines = str(trace(f)(X, np.int8(3))).splitlines()
    assert lines[1:6] == [
        "inputs     a: float64[3] = x",
        "           b: int8[] = argument number 1",
        "           c: float64[1,2] = index[template=(..., None, ::2)] a",
        "           d: float64[2,2] = index[template=(_,)] c [0, 0]",
        "           e: float32[] = astype[dtype=float32] b",
    ]


def test_many_names():
    def f(x):
        for _ in range(30):
            x = x * 2.0
        return x

    graph = trace(f)(1.0)
    assert [str(each).split(":")[0] for each in graph.equations[23:27]] == ["y", "z", "aa", "ab"]
    assert graph(1.0).item() == 2.0**30


def test_parts():
    graph = trace(lambda x, y: (np.sin(x) * np.sin(y), 1.0))(X, Y)
    assert graph.counts() == {"sin": 2, "multiply": 1}
    assert [repr(name) for name in graph.inputs] == ["a: float64[3]", "b: float64[3]"]
    assert (str(graph.inputs[0]), graph.inputs[0].shape, graph.inputs[0].dtype) == ("a", (3,), np.float64)
    assert graph.outputs[0] is graph.equations[2].outputs[0]
    assert graph.outputs[1].item() == 1.0
    assert [equation.primitive.name for equation in graph.equations] == ["sin", "sin", "multiply"]
    assert repr(graph.equations[2]) == "e: float64[3] = multiply c d"
    assert graph.equations[2].inputs == (graph.equations[0].outputs[0], graph.equations[1].outputs[0])


# Running


def test_new_values_and_the_containers_of_the_result():
    Pair = namedtuple("Pair", "s t")

    def f(p, *, shift):
        return Pair([p["a"] @ p["b"][0]], {"t": (p["b"][0] + shift, None, "text")})

    graph = trace(f)({"a": A, "b": [X]}, shift=1.0)
    for b, shift in ((X, 1.0), (Y, -2.0)):
        found = graph({"a": A * 2, "b": [b]}, shift=shift)
        assert isinstance(found, Pair)
        assert plain(found) == plain(f({"a": A * 2, "b": [b]}, shift=shift))
        assert isinstance(found.s[0], Tensor)


def test_kinds_of_functions():
    class Model:
        scale = 3.0

        def predict(self, x):
            """Predict."""
            return self.scale * x

        def __call__(self, x):
            return self.scale + x

    model = Model()
    assert trace(model.predict)(2.0)(5.0).item() == 15.0
    assert trace(model)(2.0)(5.0).item() == 8.0
    assert trace(functools.partial(np.multiply, 4.0))(2.0)(5.0).item() == 20.0
    assert trace(np.sin)(X)(Y).tolist() == np.sin(Y).tolist()
    graph = trace(model.predict)(2.0)
    assert (graph.__name__, graph.__doc__) == ("predict", "Predict.")
    assert isinstance(graph, Graph)


def test_numbers():
    graph = trace(lambda x, z: x * z)(2.0, 1j)
    assert [str(name.dtype) for name in graph.inputs] == ["float64", "complex128"]
    assert graph(3, 2).item() == 6 + 0j
    assert graph(np.float64(3.0), 2j).item() == 6j
    half = trace(lambda x: x + 1)(np.float32(1.0))
    assert half(2.0).dtype == np.float32
    assert trace(lambda n: n + 1)(np.array([1, 2]))(np.array([3, 4])).tolist() == [4, 5]
    assert trace(np.logical_not)(np.array([True, False]))(np.array([True, True])).tolist() == [False, False]


def test_inputs_that_come_out_as_they_are():
    graph = trace(lambda x, y: (y, x, x))(X, Y)
    assert graph.equations == ()
    assert plain(graph(Y, X)) == plain((X, Y, Y))
    first, second = trace(lambda x: (x, x))(fg.constant(X))(fg.constant(Y))
    first[0] = 100.0
    assert second.tolist() == Y.tolist()


def test_one_array_for_two_arguments():
    assert trace(lambda x, y: x - y)(X, X)(X, Y).tolist() == (X - Y).tolist()


def test_indexing_assignment_and_loops():
    def f(x, places):
        result = fnp.zeros(4)
        for i, each in enumerate(x):
            result[i + 1] = each * i
        result[0] += len(x) * x[-1]
        return result[places]

    graph = trace(f)(X, np.array([0, 2]))
    assert graph(Y, np.array([3, 0])).tolist() == plain(f(Y, np.array([3, 0])))
    masked = trace(lambda x: np.where(x > 0, x, 0.0))(X)
    assert masked(Y).tolist() == [1.0, 0.0, 3.0]


def test_assignment_at_a_mask():
    def f(x):
        y = x * 2
        y[y < 0] = 7.0
        return y

    assert trace(f)(X)(Y).tolist() == [2.0, 7.0, 6.0]
    assert trace(pulled(f))(X)(Y)[0].tolist() == pulled(f)(Y)[0].tolist()


def test_several_outputs():
    def f(x):
        first, _, last = np.split(x * 2, 3)
        return last - first

    graph = trace(f)(X)
    assert graph.counts() == {"multiply": 1, "split": 1, "subtract": 1}
    assert graph(Y).tolist() == f(Y).tolist()


def test_dead_equations_are_dropped():
    def f(x):
        y = np.exp(x)
        np.cos(y)
        return np.sin(x) if np.sum(y).shape == () else y

    assert trace(f)(X).counts() == {"sin": 1}
    assert trace(lambda x: x.shape[0])(X).equations == ()


def test_a_result_without_arrays():
    assert trace(lambda x: None)(X)(X) is None
    assert trace(lambda x: [])(X)(X) == []


def test_values_are_dropped_after_their_last_use():
    graph = trace(lambda x: np.sum(np.exp(np.sin(x))))(X)
    assert [[str(name) for name in names] for names in graph._spent] == [["a"], ["b"], ["c"]]


def test_long_programs():
    def f(x):
        for _ in range(20_000):
            x = x + 1.0
        return x

    assert trace(f)(0.0)(1.0).item() == 20_001.0


# Constants


def test_constants_are_copied_when_they_are_used():
    k = np.zeros(5)

    def f(x):
        total = x * 0.0
        for i in range(3):
            k[:] = i
            total = total + k * x
        return total

    expected = f(np.ones(5)).tolist()
    graph = trace(f)(np.ones(5))
    k[:] = 100.0
    assert graph(np.ones(5)).tolist() == expected == [3.0] * 5
    assert len(graph.constants) == 3


def test_short_constants_and_lists_are_copied():
    short, listed = np.array([1.0, 2.0]), [3.0, 4.0]
    graph = trace(lambda x: np.add(x * short, listed))(np.ones(2))
    short[:], listed[:] = 0.0, [0.0, 0.0]
    assert graph(np.ones(2)).tolist() == [4.0, 6.0]


def test_a_constant_is_stored_once():
    k = np.array([0.0, -0.0, np.nan, 1.0, 2.0])
    graph = trace(lambda x: x * k + k / x)(np.ones(5))
    assert len(graph.constants) == 1


def test_constant_tensors():
    k = fg.constant(np.arange(6.0))

    def f(x):
        y = x * k
        k[0] = 10.0
        return y + k

    graph = trace(f)(np.ones(6))
    assert graph(np.ones(6)).tolist() == [10.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    k[1] = 99.0
    assert graph(np.ones(6)).tolist() == [10.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_a_constant_result():
    k = np.array([1.0, 2.0])
    graph = trace(lambda x: (k, 3.0, fg.constant(4.0)))(X)
    k[0] = 9.0
    found = graph(X)
    assert plain(found) == ([1.0, 2.0], 3.0, 4.0)
    found[2][...] = 5.0
    assert plain(graph(X)) == ([1.0, 2.0], 3.0, 4.0)


# What is refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda graph: graph(np.ones(4), {"w": 1.0}, 2),
            r"graph of f: the argument 'x' has shape \(4,\), and the graph was recorded with shape \(3,\).\n"
            r"Record it for these arguments, fg.trace\(f\)\(...\), or convert the argument.",
        ),
        (
            lambda graph: graph(X, {"w": X}, 2),
            r"the argument 'p'\['w'\] has shape \(3,\), and the graph was recorded with shape \(\)",
        ),
        (
            lambda graph: graph(X.astype("float32"), {"w": 1.0}, 2),
            r"the argument 'x' has dtype float32, and the graph was recorded with dtype float64",
        ),
        (lambda graph: graph(X, {"w": 1j}, 2), r"\['w'\] has dtype complex128, and .* with dtype float64"),
        (
            lambda graph: graph(X, {"w": "two"}, 2),
            r"'p'\['w'\] is 'two', of type str, and the graph was recorded with an array, float64\[\]",
        ),
        (
            lambda graph: graph(X, {"v": 1.0}, 2),
            r"the argument 'p' has the structure .*'v'.*, and the graph was recorded with .*'w'",
        ),
        (lambda graph: graph([1.0, 2.0, 3.0], {"w": 1.0}, 2), r"the argument 'x' has the structure .*\[\*, \*, \*\]"),
        (
            lambda graph: graph(X, {"w": 1.0}, 3),
            r"the argument 'n' is 3, and the graph was recorded with 2, which is a static argument.\n"
            r"Record again, or record with an array, np.asarray\(n\), to have an input.",
        ),
        (lambda graph: graph(X, {"w": 1.0}, np.int64(2)), r"the argument 'n' is .*2.*, and .* recorded with 2"),
        (
            lambda graph: graph(X, {"w": 1.0}, n=2),
            "called with 2 positional arguments and the keyword n, but recorded with 3 positional arguments.\n"
            "Pass the arguments as in the recorded call, by position or by name.",
        ),
        (lambda graph: graph(X), "called with 1 positional argument, but recorded with 3 positional arguments"),
    ],
)
def test_other_arguments(call, message):
    def f(x, p, n):
        return x * p["w"] * n

    graph = trace(f)(X, {"w": 1.0}, 2)
    with pytest.raises(errors.GraphInputError, match=message) as caught:
        call(graph)
    assert isinstance(caught.value, ValueError)
    assert graph(X, {"w": 2.0}, 2).tolist() == (X * 4).tolist()


def test_things_that_are_no_input():
    names, flags = np.array(["a"], object), np.array(["a", "b"])
    f = trace(lambda x, *rest: x)
    graph = f(X, names, flags, None, "text", True)
    graph(X, names.copy(), flags.copy(), None, "text", True)
    with pytest.raises(errors.GraphInputError, match=r"argument number 5 is False, and .* recorded with True"):
        graph(X, names, flags, None, "text", False)
    with pytest.raises(errors.GraphInputError, match="argument number 2 is array"):
        graph(X, names, flags[:1], None, "text", True)
    with pytest.raises(errors.StructureError, match="MaskedArray cannot be differentiated"):
        f(np.ma.masked_array([1.0], [True]))


@pytest.mark.parametrize(
    ("function", "how"),
    [
        (lambda x: x if x[0] > 0 else -x, r"bool\(\)"),
        (lambda x: float(x[0]), r"float\(\)"),
        (lambda x: int(x[0]), r"int\(\)"),
        (lambda x: x[0].item(), r".item\(\)"),
        (lambda x: x.tolist(), r".tolist\(\)"),
        (lambda x: x.numpy(), r".numpy\(\)"),
        (lambda x: f"{x[0]:.3f}", "formatting"),
        (lambda x: np.arange(0.0, x[0]), r"bool\(\)"),
        (lambda x: np.array([x[0], x[1]]).max(), r"bool\(\)"),
        (lambda x: x[x > 0], "indexing with a mask"),
        (lambda x: np.ones(3)[x > 0], "use as an index"),
        (lambda x: list(range(np.sum(x > 0))), "use as an index"),
        (lambda x: x[: np.argmax(x)], "use as an index"),
        (np.nonzero, r"np.nonzero"),
        (lambda x: fg.grad(lambda y: y if y > 0 else -y)(x[0]), r"bool\(\)"),
        (lambda x: fg.vmap(lambda y: y if y > 0 else -y)(x), r"bool\(\)"),
    ],
)
def test_values_do_not_leak(function, how):
    with pytest.raises(errors.ConcretizationError, match=rf"^{how} needs a value, and under this transform") as caught:
        trace(function)(X)
    assert isinstance(caught.value, TypeError)


def test_arrays_of_traced_numbers_are_recorded():
    for f in (
        lambda x: np.asarray(x) ** 2,
        lambda x: np.array([x, x * x[0]]),
        lambda x: np.array([[x[0], 1.0], [x[1] * x[0], x[1]]]) @ x[:2],
    ):
        graph = trace(f)(X)
        np.testing.assert_allclose(graph(Y), f(Y), rtol=1e-14)
        check_grads(graph, (Y,))


@pytest.mark.parametrize("values", [[5.0, 6.0, 7.0], [5, 6.5, np.float32(7)], [1j, 0, 2.0]])
def test_an_array_of_traced_numbers_that_is_written_over_is_one_of_numbers(values):
    def f(x):
        a = np.array([x[0], x[1], x[2]])
        a[:] = values
        return a

    x, wanted = np.array([0.5, 1.0, 2.0]), np.array(values)
    for run in (
        lambda: trace(f)(x)(x), lambda: fg.compile(f)(x), lambda: fg.vmap(f)(x[None])[0], lambda: fg.vjp(f, x)[0],
        lambda: fg.jvp(f, (x,), (x,))[0],
    ):  # fmt: skip
        np.testing.assert_array_equal(run(), wanted, strict=True)
    exact = np.array([2**70, fractions.Fraction(1, 3)], dtype=object)
    for found in (trace(lambda x: exact)(x)(x), fg.compile(lambda x: exact[:1])(x)):
        assert found.dtype == object


def test_one_value_where_a_mask_is_true_is_recorded_with_its_derivative():
    def f(x):
        y = x * 2
        y[y < 0] = x[0]
        return y

    for graph in (trace(f)(X), f):
        assert trace(pulled(graph))(X)(Y)[0].tolist() == pulled(f)(Y)[0].tolist()


def test_storing_and_missing_rules():
    def stores(x):
        result = np.zeros(3)
        result[0] = x[0]
        return result

    with pytest.raises(errors.ArrayConversionError, match=r"result\[0\] = x\[0\]"):
        trace(stores)(X)
    with pytest.raises(errors.MissingRuleError, match=r"gamma \(vectorized\) has no derivative rule"):
        trace(np.frompyfunc(math.gamma, 1, 1))(X)


def test_not_a_function():
    with pytest.raises(errors.NotCallableError, match="trace takes a function, not 3.0"):
        trace(3.0)


def test_an_error_in_the_function_leaves_nothing_open():
    kept = []

    def f(x):
        kept.append(x)
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        trace(f)(X)
    with pytest.raises(errors.LeakedTensorError, match="belongs to a recording that has ended"):
        kept[0] + 1
    assert (fg.constant(X) + 1).tolist() == (X + 1).tolist()


# Derivatives and batches of graphs, and graphs of them


def test_derivatives_of_a_graph():
    graph = trace(loss)(X)
    agree(fg.grad(graph)(Y), fg.grad(loss)(Y))
    agree(fg.hessian(graph)(Y), fg.hessian(loss)(Y))
    agree(fg.jvp(graph, (Y,), (X,))[1], fg.jvp(loss, (Y,), (X,))[1])
    agree(fg.vmap(graph)(np.stack([X, Y])), fg.vmap(loss)(np.stack([X, Y])))
    agree(fg.vmap(fg.grad(graph))(np.stack([X, Y])), fg.vmap(fg.grad(loss))(np.stack([X, Y])))
    with fg.GradientTape() as tape:
        y = fg.constant(Y)
        tape.watch(y)
        value = graph(y)
    agree(tape.gradient(value, y), fg.grad(loss)(Y))


def test_parameters_of_a_graph_have_the_functions_names():
    graph = trace(lambda x, y: np.sum(x * y))(X, Y)
    assert plain(fg.gradients_function(graph, params=["y"])(X, Y)) == [X.tolist()]
    with pytest.raises(errors.ParameterError, match="has no parameter 'z'; its parameters are x, y"):
        fg.gradients_function(graph, params="z")(X, Y)


@pytest.mark.parametrize(
    "derive",
    [
        fg.grad,
        fg.value_and_grad,
        fg.gradients_function,
        fg.hessian,
        fg.jacfwd,
        fg.jacrev,
        lambda f: lambda x: fg.hvp(f)(x, x),
        lambda f: fg.grad(lambda x: np.sum(fg.grad(f)(x) ** 2)),
        lambda f: lambda x: fg.vmap(fg.grad(f))(np.stack([x, 2 * x])),
    ],
)
def test_graphs_of_derivatives(derive):
    g = derive(loss)
    graph = trace(g)(X)
    assert plain(graph(Y)) == plain(g(Y))


def test_graphs_of_jacobians_and_batches():
    def f(x):
        return np.tanh(A @ x)

    for g in (fg.jacobian(f), fg.jacobian(f, mode="forward"), fg.jacobian(f, mode="reverse")):
        agree(trace(g)(X)(Y), g(Y))
    batched = fg.vmap(f, out_axes=1)
    agree(trace(batched)(np.stack([X, Y]))(np.stack([Y, X])), batched(np.stack([Y, X])))
    by_place = fg.vmap(lambda x, i: x[i])
    places = np.array([2, 0])
    graph = trace(by_place)(np.stack([X, Y]), places)
    agree(graph(np.stack([Y, X]), places[::-1]), by_place(np.stack([Y, X]), places[::-1]))


def test_the_text_of_a_gradient():
    assert str(trace(fg.grad(lambda x: np.sin(x) * 3.0))(1.0)) == (
        "graph of <lambda>\n"
        "inputs     a: float64[] = x\n"
        "           b: float64[] = cos a\n"
        "           c: float64[] = multiply 3.0 b\n"
        "outputs    c: float64[]"
    )


def test_tapes_inside():
    def f(x):
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = np.sum(x**3)
        return tape.gradient(y, x)

    assert trace(f)(X)(Y).tolist() == (3 * Y**2).tolist()


def test_derivatives_run_without_warnings_also_from_a_graph():
    def f(x):
        return np.sum(np.where(x > 0, np.sqrt(x), 0.0))

    graph = trace(fg.grad(f))(np.ones(2))
    assert graph(np.array([0.0, 4.0])).tolist() == [0.0, 0.25]
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        trace(np.log)(np.ones(2))(np.zeros(2))


def test_stop_gradient_is_part_of_the_program():
    graph = trace(lambda x: x * fg.stop_gradient(x))(3.0)
    assert fg.grad(graph)(5.0).item() == 5.0


# Variables


def test_variables_are_read_when_the_graph_runs():
    w, b = fg.Variable(2.0, name="w"), fg.Variable(1, name="b")
    graph = trace(lambda x: w * x + b + w)(3.0)
    assert [variable.name for variable in graph.variables.values()] == ["w", "b"]
    assert graph(3.0).item() == 9.0
    w.assign(10.0)
    b.assign(5)
    assert graph(3.0).item() == 45.0
    assert plain(fg.implicit_gradients(graph)(3.0)) == [(4.0, 10.0)]
    with fg.GradientTape() as tape:
        y = graph(2.0)
    assert tape.gradient(y, w).item() == 3.0


def test_variables_and_derivatives():
    w = fg.Variable(X, name="w")

    def f(x):
        return np.sum(w * w * x)

    graph = trace(f)(2.0)
    (pair,) = fg.implicit_gradients(graph)(3.0)
    assert pair[1] is w
    assert pair[0].tolist() == (6 * X).tolist()
    gradients = trace(lambda x: fg.implicit_gradients(f)(x)[0][0])(1.0)
    w.assign(Y)
    assert gradients(3.0).tolist() == (6 * Y).tolist()
    assert fg.grad(graph)(3.0).item() == np.sum(Y * Y)
    optimizer = fg.optimizers.GradientDescent(0.1)
    optimizer.minimize(lambda: graph(1.0))
    np.testing.assert_allclose(w.numpy(), 0.8 * Y)


def test_a_variable_as_argument_and_as_result():
    w, v = fg.Variable(X, name="w"), fg.Variable(Y, name="v")

    def f(p, x):
        assert isinstance(p["w"], fg.Variable)
        return p["w"] * x, v

    graph = trace(f)({"w": w}, 2.0)
    assert "fixed      p['w'] = Variable" in str(graph)
    w.assign(Y)
    v.assign(X)
    assert plain(graph({"w": w}, 3.0)) == ((3 * Y).tolist(), X.tolist())
    with pytest.raises(errors.GraphInputError, match=r"the argument 'p'\['w'\] is Variable\(.*name='v'"):
        graph({"w": v}, 3.0)
    assert trace(lambda x: x * 2)(X)(w).tolist() == (2 * Y).tolist()


def test_a_variable_that_was_read_in_vain():
    w, v = fg.Variable(2.0, name="w"), fg.Variable(3.0, name="v")

    def f(x):
        np.sin(v)
        return w * x

    graph = trace(f)(1.0)
    assert plain(fg.implicit_gradients(graph)(5.0)) == plain(fg.implicit_gradients(f)(5.0)) == [(5.0, 2.0), (None, 3.0)]


def test_assignments_are_refused():
    w = fg.Variable(2.0, name="w")

    def read_after(x):
        y = w * x
        w.assign_add(1.0)
        return y * w

    def not_read_after(x):
        y = w * x
        w.assign_add(1.0)
        return y

    def assigned_before(x):
        w.assign(5.0)
        return w * x

    def assigned_the_same_before(x):
        w.assign(w.numpy())
        return w * x

    for f in (read_after, not_read_after, assigned_before, assigned_the_same_before):
        with pytest.raises(
            errors.RecordedAssignmentError,
            match=r"^variable 'w' is assigned in a function that is being recorded, but a graph cannot hold",
        ) as caught:
            trace(f)(1.0)
        assert isinstance(caught.value, RuntimeError)
    w.assign(3.0)
    assert float(trace(lambda x: w * x)(1.0)(2.0)) == 6.0  # what was assigned before has nothing to do with it


# Traces in traces


def test_trace_inside_trace():
    def f(x):
        inner = trace(lambda y: np.sin(y) * x)(x)
        return inner(2 * x)

    graph = trace(f)(X)
    assert graph.counts() == {"multiply": 2, "sin": 1}
    assert graph(Y).tolist() == (np.sin(2 * Y) * Y).tolist()
    assert trace(trace(np.sin)(X))(X)(Y).tolist() == np.sin(Y).tolist()


def test_a_gradient_of_a_function_that_records():
    def f(x):
        graph = trace(lambda y: np.sum(np.sin(y) * x))(x)
        return graph(x)

    def plain_f(x):
        return np.sum(np.sin(x) * x)

    agree(fg.grad(f)(Y), fg.grad(plain_f)(Y))
    agree(fg.hessian(f)(Y), fg.hessian(plain_f)(Y))
    agree(fg.jvp(f, (Y,), (X,))[1], fg.jvp(plain_f, (Y,), (X,))[1])
    agree(fg.vmap(f)(np.stack([X, Y])), fg.vmap(plain_f)(np.stack([X, Y])))
    agree(trace(fg.grad(f))(X)(Y), fg.grad(plain_f)(Y))


def test_a_closure_over_a_traced_value_is_a_constant():
    kept = []

    def f(w):
        kept.append(trace(lambda x: w * x + w)(X))
        return np.sum(kept[-1](Y))

    w = np.array([1.0, 2.0, 3.0])
    assert fg.grad(f)(w).tolist() == (Y + 1).tolist()
    (graph,) = kept
    assert len(graph.constants) == 1
    assert graph(Y).tolist() == (w * Y + w).tolist()
    assert fg.grad(lambda x: np.sum(graph(x)))(Y).tolist() == w.tolist()


def test_two_closures_over_one_array():
    def f(w, v):
        return np.sum(trace(lambda x: w * x - v * v * x)(X)(Y))

    w = np.array([1.0, 2.0, 3.0])
    assert plain(fg.gradients_function(f)(w, w)) == [Y.tolist(), (-2 * w * Y).tolist()]


def test_variables_in_nested_traces():
    w = fg.Variable(2.0, name="w")

    def f(x):
        return trace(lambda y: w * y)(x)(x * x) + w

    graph = trace(f)(3.0)
    w.assign(5.0)
    assert graph(3.0).item() == 50.0
    assert plain(fg.implicit_gradients(f)(3.0)) == plain(fg.implicit_gradients(graph)(3.0)) == [(10.0, 5.0)]


def test_a_number_of_pythons_is_converted_where_its_dtype_would_be_another():
    def f(x, k):
        return fg.value_and_grad(lambda k: np.sum(x * k))(k)

    for dtype, count in ((np.float32, 1), (np.float64, 0)):
        x = np.ones(3, dtype)
        graph = trace(f)(x, 2.0)
        assert graph.counts().get("reshape", 0) == count
        for found, wanted in zip(graph(x, 3.0), f(x, 3.0), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)


# Functions that decide for themselves what they mean


def test_calls_that_are_recorded_whole():
    @fg.custom_gradient
    def ruled(x):
        return np.sin(x), lambda dy: 7.0 * dy

    def call(x):
        tracing = strip_ended(x)._trace if isinstance(strip_ended(x), Tensor) else None
        return tracing.record_call("ruled", call, (x,)) if isinstance(tracing, RecordTrace) else ruled(x)

    graph = trace(lambda x: call(x) * 2.0)(1.0)
    assert graph.counts() == {"ruled": 1, "multiply": 1}
    assert graph(0.5).item() == 2 * np.sin(0.5)
    assert fg.grad(graph)(0.5).item() == 14.0
    assert trace(graph)(np.float64(1.0)).counts() == {"ruled": 1, "multiply": 1}
    assert fg.vmap(graph)(X).tolist() == (2 * np.sin(X)).tolist()


def test_a_recorded_call_has_no_other_inputs():
    def f(x):
        return x._trace.record_call("scaled", lambda y: y * x, (x * 2,))

    with pytest.raises(errors.ClosureError, match="scaled is recorded as one call and uses a recorded value"):
        trace(f)(X)


def test_checkpoints():
    f = fg.checkpoint(loss)
    assert trace(fg.grad(f))(X)(Y).tolist() == fg.grad(loss)(Y).tolist()


# Drawing


def test_dot():
    w = fg.Variable(2.0, name='a "big" one')
    k = np.arange(12.0).reshape(3, 4)

    def f(x, n):
        left, right = np.split(k @ x, [n])
        return left * w, right

    assert trace(f)(np.ones(4), 1).to_dot() == (
        'digraph "f" {\n'
        "  node [shape=box, style=rounded]\n"
        '  "a" [label="a: float64[4]\\nx", shape=ellipse]\n'
        '  "b" [label="b: float64[]\\na \\"big\\" one", shape=cylinder]\n'
        '  "k0" [label="k0: float64[3,4]", shape=note]\n'
        '  "e0" [label="matmul\\nc: float64[3]"]\n'
        '  "k0" -> "e0" [label="k0"]\n'
        '  "a" -> "e0" [label="a"]\n'
        '  "e1" [label="split[sections=(1,), axis=0]\\nd: float64[1]\\ne: float64[2]"]\n'
        '  "e0" -> "e1" [label="c"]\n'
        '  "e2" [label="multiply\\nf: float64[1]"]\n'
        '  "e1" -> "e2" [label="d"]\n'
        '  "b" -> "e2" [label="b"]\n'
        '  "out0" [label="output [0]", shape=doubleoctagon]\n'
        '  "e2" -> "out0" [label="f"]\n'
        '  "out1" [label="output [1]", shape=doubleoctagon]\n'
        '  "e1" -> "out1" [label="e"]\n'
        "}"
    )


class NotFoundError(RuntimeError):
    pass


def stand_in(pipe):
    source = types.SimpleNamespace(pipe=pipe)
    return types.SimpleNamespace(Source=lambda text: source, ExecutableNotFound=NotFoundError)


def test_svg(monkeypatch):
    graph = trace(np.sin)(X)
    monkeypatch.setitem(sys.modules, "graphviz", stand_in(lambda format, encoding: f"<{format} {encoding}>"))
    assert graph._repr_svg_() == "<svg utf-8>"

    def missing(format, encoding):
        raise NotFoundError

    monkeypatch.setitem(sys.modules, "graphviz", stand_in(missing))
    assert graph._repr_svg_() is None
    monkeypatch.setitem(sys.modules, "graphviz", None)
    assert graph._repr_svg_() is None


def test_svg_by_graphviz_itself():
    with warnings.catch_warnings(action="ignore"):
        importlib.import_module("graphviz")
        drawn = trace(np.sin)(X)._repr_svg_()
    assert drawn is None or "<svg" in drawn


def test_a_result_whose_form_depends_on_the_values():
    def gradient(p):
        return fg.grad(lambda p: np.real(np.sum(np.roots(p) ** 2)))(p)

    point = np.array([1.0, -3.0, 2.0])
    for f in (np.roots, gradient):
        graph = trace(f)(point)
        other = np.array([2.0, -8.0, 6.0])
        np.testing.assert_allclose(graph(other), f(other))
        for text, values in {"[1]": [0.0, 1.0, -5.0], "[0]": [0.0, 0.0, 3.0], "complex128": [1.0, 0.0, 1.0]}.items():
            with pytest.raises(errors.GraphInputError, match="^roots gives .*" + re.escape(text)):
                graph(np.array(values))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.complex128])
@pytest.mark.parametrize("shape", [(3,), (200, 200)])
def test_arrays_are_compared_bit_by_bit(dtype, shape):
    zeros = np.zeros(shape, dtype)
    other = zeros.copy()
    other[-1] = -0.0 if zeros.dtype.kind in "fc" else 1
    assert same_bits(zeros, zeros.copy())
    assert not same_bits(zeros, other)
    assert same_bits(np.broadcast_to(zeros[:1], shape), zeros)
    assert not same_bits(other, np.broadcast_to(zeros[:1], shape))
    if zeros.dtype.kind in "fc":
        assert same_bits(zeros + np.nan, zeros + np.nan)


@pytest.mark.parametrize("function", [
    lambda x: x.astype(float), lambda x: np.sum(x, dtype=float), lambda x: np.prod(x, dtype=complex), np.argmax,
    np.count_nonzero, lambda x: np.round(x, 1), lambda x: np.linalg.norm(x.astype(np.float32), 1),
])  # fmt: skip
def test_recording_makes_no_arrays_of_what_is_known_from_one_element(function):
    x = np.ones(2**20, np.int8)
    tracemalloc.start()
    try:
        graph = trace(function)(x)
        assert tracemalloc.get_traced_memory()[1] < x.nbytes / 4
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(graph(x), function(x), strict=True)


def test_a_second_recording_computes_nothing_again(monkeypatch):
    computed = []
    answer = RecordTrace._answer

    def counted(self, primitive, *args):
        computed.append(primitive.name)
        return answer(self, primitive, *args)

    def f(x):
        y = x
        for _ in range(3):
            y = np.sin(y) * x
        return np.sum(y)

    monkeypatch.setattr(RecordTrace, "_answer", counted)
    x = np.array([0.5, 2.0])
    fg.trace(fg.grad(f))(x)
    once = [computed.count(name) for name in ("sin", "cos", "multiply", "add")]
    computed.clear()
    found = fg.compile(fg.grad(f))(x)  # which records twice
    assert [computed.count(name) for name in ("sin", "cos", "multiply", "add")] == once
    np.testing.assert_allclose(found, fg.grad(f)(x), rtol=1e-14)


def test_a_second_recording_shares_memory_as_the_first():
    def f(x):
        x[1:] = +np.ones(4)[0]
        v = np.swapaxes(x, 0, -1)
        return np.sum(np.sin(x)) + np.sum(np.sin(v))

    assert float(fg.compile(f)(np.arange(4.0))) == pytest.approx(f(np.arange(4.0)))


class _Names(Observer):
    """Notes the operations that it sees."""

    def __init__(self):
        self.names = []

    def operation(self, primitive, metadata, args, go_on):
        self.names.append(primitive.name)
        return go_on(args)


def test_observers_see_operations_on_numbers_as_those_on_arrays():
    def seen(x):
        names = _Names()
        with observed_by(names):
            fg.trace(lambda x: np.sin(x) * x + 2.0)(x)
        return names.names

    assert seen(np.float64(1.0)) == seen(np.ones(2))


@pytest.mark.parametrize("x", [np.float64(1.5), np.array([1.5, 2.0])])
def test_operations_on_numbers_have_the_users_lines(x):
    def f(x):
        y = np.sin(x)
        z = y * x
        return np.log1p(z) + 2.0

    compiled, first = fg.compile(f), f.__code__.co_firstlineno
    compiled(x)
    (program,) = compiled.programs.known.values()
    assert [each.place[1] - first for each in program.graph.equations] == [1, 2, 3, 3]
