"""What TensorFlow 2.21 was measured to do, row by row, and what fgrad does in its place.

A row of `ROWS` is a call or a situation. Each has cases: a function that returns what was observed, and
what is expected: a value, or the error or warning that says why there is none. Where TensorFlow is
silent or wrong fgrad's own behaviour is expected, with a comment. `LATER` names the facts of TensorFlow
that belong to its spellings in `fgrad.compat`, and not to the native names.
"""

import contextlib
import functools
import threading
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from helpers import plain

import fgrad as fg
from fgrad import errors
from fgrad.tapes.tape import departures

NONE, ZERO = fg.UnconnectedGradients.NONE, fg.UnconnectedGradients.ZERO
Point = namedtuple("Point", ["x", "y"])

ROWS = {
    "gradients_function": [
        "f=2x+3y at (5., 7.)",
        "f=x^3 y - x y^2 at (2, 3)",
        "one parameter by name or position",
        "order of params",
        "duplicates in params",
        "empty params",
        "a bare name",
        "a bare position",
        "a negative position",
        "a position out of range",
        "an unknown name",
        "names and positions mixed",
        "keyword arguments",
        "too few positional arguments",
        "*args, callable object, partial, bound method",
        "the same tensor for two parameters",
        "python int argument",
        "float and int arguments",
        "output cast to int",
        "parameter not used",
        "f returns None",
        "f returns a python number or a .numpy() value",
        "f returns its argument",
        "vector, list and dict output",
        "dy for a vector",
        "dy list for list output",
        "dy list shorter than outputs",
        "scalar dy for a vector output",
        "dy of another shape",
        "python dy with float64 result",
        "list argument",
        "dict argument",
        "argument not in params",
        "string argument",
        "Variable as argument",
        "complex argument, real result",
        "complex argument, complex result",
        "second order",
        "exception inside f",
        "wrapper metadata",
        "value and gradients",
        "make_vjp",
        "make_vjp that is not persistent",
        "make_vjp with keyword arguments",
    ],
    "implicit_gradients": [
        "two variables",
        "body reads w2 first",
        "value and gradients of variables",
        "keyword arguments of an implicit function",
        "a variable that is not trainable",
        "nothing trainable read",
        "implicit function returns None",
        "variable read without effect",
        "variable read twice",
        "vector or list result of variables",
        "f returns the variable itself",
        "f returns a python float, alone or in a structure",
        "integer variable",
        "variable created inside f",
        "assign inside f between two reads",
        "gather of a variable in f",
        "gradients_function of implicit_gradients",
    ],
    "life cycle": [
        "after the block; a constant that is not watched",
        "watch after y was computed",
        "second gradient or jacobian on a non-persistent tape",
        "gradient on a tape never entered",
        "watch never entered, or after used up",
        "watch after exit, unused tape",
        "watched_variables never entered",
        "gradient inside its own block, not persistent",
        "gradient inside its own block, persistent",
        "persistent, first gradient taken outside, then gradient of it",
        "intermediate results as sources",
        "nested, inner gradient inside the outer block",
        "nested, inner gradient after the outer block",
        "only the outer or only the inner watches",
        "re-enter while open",
        "enter again after exit, tape not used up",
        "enter again after a non-persistent tape was used",
        "exception in the block",
        "op run in another thread",
        "100 000 chained ops",
    ],
    "targets, sources, outputs": [
        "vector, list, dict target",
        "structures of sources",
        "the same source twice",
        "target is the source",
        "target constant",
        "unconnected source",
        "target None",
        "target or source a python float or ndarray",
        "watch of something else",
        "watch of an int tensor",
        "float to int to float cast",
        "float64 source, float32 loss",
        "argmax, round, floor, comparison, sign",
        "stop_gradient, .numpy() and back",
        "complex sources",
        "NumPy functions, np.array and float() of a watched tensor",
    ],
    "output_gradients": [
        "weights on v*v",
        "a python list for one vector target",
        "float32 for a float64 target",
        "wrong shape of weights",
        "list for list of targets",
        "None inside the list",
        "weights watched by an outer tape",
    ],
    "jacobian, batch_jacobian": [
        "jacobian of u*u",
        "jacobian of something unconnected",
        "list as target, list as source of batch_jacobian",
        "jacobian of a non-persistent tape",
        "Hessian as jacobian of an inner gradient",
        "batch_jacobian of X*X",
        "rank 1 target",
        "batch sizes differ",
        "batch_jacobian of something unconnected",
        "rows depend on other rows",
    ],
    "variables, stop_recording, reset": [
        "trainable read, untrainable watched by hand",
        "watch_accessed_variables=False",
        "order of watched_variables",
        "read_value watches",
        "assign between reads",
        "b.assign(tracked) then reading b",
        "the result of assign counts as a read",
        "target is the variable",
        "gather of a variable",
        "stop_recording",
        "gradient inside stop_recording",
        "stop_recording on a tape that is not recording",
        "exception in stop_recording",
        "reset",
    ],
    "forward mode and custom gradients": [
        "jvp of x*x",
        "forward over a tape gradient",
        "nested accumulators",
        "unconnected in forward mode",
        "wrong tangent dtype",
        "wrong tangent shape",
        "re-enter an accumulator",
        "custom_gradient: wrong number of gradients",
        "custom_gradient: a variable used inside",
        "recompute_grad",
    ],
}  # fmt: skip

LATER = {
    "python floats become float32": "fgrad's defaults are NumPy's; compat.tensorflow has TensorFlow's",
    "a logged warning in place of a Python warning": "a matter of TensorFlow's logger",
    "tfe.gradients_function refuses keyword arguments": "a restriction, not a result",
    "gather gives IndexedSlices": "an object of TensorFlow's own; fgrad's gradients are dense",
    "experimental_use_pfor, parallel_iterations": "options of TensorFlow's own, refused here; compat accepts them",
    "round, floor, argmax, comparisons and casts to integers answer None": "the derivative is zero; compat says None",
}


@dataclass
class Raises:
    """The expected error: its built-in class, and its text."""

    kind: type[BaseException]
    text: str


@dataclass
class Warns:
    """The expected warning, and the result that comes with it."""

    text: str
    result: Any


CASES: list[tuple[str, Any, Any]] = []


def case(row: str, expected: Any) -> Any:
    """Add the decorated function to the cases of a row."""

    def add(observe: Any) -> Any:
        CASES.append((row, observe, expected))
        return observe

    return add


def cases(row: str, *pairs: tuple[Any, Any]) -> None:
    for observe, expected in pairs:
        case(row, expected)(observe)


# gradients_function


def cubic(x, y):
    return x**3 * y - x * y**2


def square(x):
    return x * x


def of(f, *args, params=None, **keywords):
    return fg.gradients_function(f, params=params)(*args, **keywords)


def pick(params):
    return lambda: of(cubic, 2.0, 3.0, params=params)


class Model:
    scale = 3.0

    def __call__(self, x):
        return self.scale * x

    def method(self, x):
        return self.scale * x * x


cases(
    "f=2x+3y at (5., 7.)",
    (lambda: of(lambda x, y: 2 * x + 3 * y, 5.0, 7.0), [2.0, 3.0]),
    (lambda: type(of(lambda x, y: 2 * x + 3 * y, 5.0, 7.0)), list),
    (lambda: [str(g.dtype) for g in of(lambda x, y: x * y, 5.0, np.float32(7))], ["float64", "float32"]),
)
cases("f=x^3 y - x y^2 at (2, 3)", (pick(None), [27.0, -4.0]))
cases("one parameter by name or position", (pick(["y"]), [-4.0]), (pick([1]), [-4.0]))
cases("order of params", (pick(["y", "x"]), [-4.0, 27.0]))
cases("duplicates in params", (pick([0, 0]), [27.0, 27.0]))
cases("empty params", (pick([]), []))
cases("a bare name", (pick("y"), [-4.0]))
cases("a bare position", (pick(1), [-4.0]))
cases("a negative position", (pick([-1]), [-4.0]), (pick([-3]), Raises(ValueError, "position -3 is out of range")))
cases(
    "a position out of range",
    (pick([5]), Raises(ValueError, "position 5 is out of range: cubic was called with 2 positional arguments .* x, y")),
)
cases("an unknown name", (pick(["z"]), Raises(ValueError, "cubic has no parameter 'z'; its parameters are x, y")))
cases(
    "names and positions mixed",
    (pick(["x", 1]), Raises(ValueError, r"params must be all names or all positions; got \['x', 1\]")),
)


def scaled(x, *, scale):
    return x * x * scale


cases(
    "keyword arguments",
    (lambda: of(scaled, 3.0, scale=2.0), [12.0]),
    (lambda: of(scaled, 3.0, scale=2.0, params=["scale"]), [9.0]),
)


def with_default(x, y=10.0):
    return x * y


cases(
    "too few positional arguments",
    (lambda: of(cubic, 2.0), Raises(TypeError, "missing 1 required positional argument: 'y'")),
    (lambda: of(with_default, 2.0), [10.0]),
    (lambda: of(with_default, 2.0, params=[0]), [10.0]),
    (lambda: of(with_default, 2.0, params=["y"]), [2.0]),
    (lambda: of(cubic, 2.0, params=["y"]), Raises(ValueError, "with respect to 'y', which was not passed")),
)
cases(
    "*args, callable object, partial, bound method",
    (lambda: of(lambda *xs: xs[0] * xs[1], 2.0, 3.0), [3.0, 2.0]),
    (lambda: of(Model(), 2.0), [3.0]),
    (lambda: of(functools.partial(cubic, 2.0), 3.0), [-4.0]),
    (lambda: of(Model().method, 2.0, params=["x"]), [12.0]),
)


@case("the same tensor for two parameters", [9.0, 18.0])
def _():
    o = fg.constant(3.0)
    return of(lambda x, y: x * y * y, o, o)


NO_GRADIENT = "is None where the argument"
cases("python int argument", (lambda: of(square, 3), Warns(NO_GRADIENT, [None])))
cases(
    "float and int arguments",
    (lambda: of(lambda x, n: x * x * n, 3.0, 1), Warns(NO_GRADIENT, [6.0, None])),
    (lambda: of(lambda x, n: x * x * n, 3.0, True), Warns(NO_GRADIENT, [6.0, None])),
)
cases("output cast to int", (lambda: of(lambda x: x.astype(int), 3.0), [0.0]))  # as that of round; TensorFlow: None
cases("parameter not used", (lambda: of(lambda x, y: x * x, 3.0, 4.0), [6.0, None]))


def forgetful(x):
    x * x


RETURNS_NONE = "Cannot differentiate a function that returns None; did you forget to return a value from forgetful"
cases("f returns None", (lambda: of(forgetful, 3.0), Raises(ValueError, RETURNS_NONE)))
cases(  # TensorFlow: [None], silently
    "f returns a python number or a .numpy() value",
    (lambda: of(lambda x: 2.0, 3.0), Warns("returned a plain float, 2.0, and no tensor", [None])),
    (lambda: of(lambda x: x.numpy(), 3.0), Raises(TypeError, r"values left the trace:\n  .numpy\(\) at")),
    (lambda: of(float, 3.0), Raises(TypeError, r"requested a plain number from a traced tensor.*\n  at")),
)
cases("f returns its argument", (lambda: of(lambda x: x, 3.0), [1.0]))
cases(
    "vector, list and dict output",
    (lambda: of(square, np.array([1.0, 2.0])), [[2.0, 4.0]]),
    (lambda: of(lambda x: [x * x, x], 3.0), [7.0]),
    (lambda: of(lambda x: {"a": x * x, "b": x}, 3.0), [7.0]),
)
ONE_TWO = np.array([1.0, 2.0])
cases("dy for a vector", (lambda: of(square, ONE_TWO, dy=[10.0, 100.0]), [[20.0, 400.0]]))
cases("dy list for list output", (lambda: of(lambda x: [x * x, x], 3.0, dy=(1.0, 10.0)), [16.0]))
cases(  # TensorFlow takes ones for the missing one
    "dy list shorter than outputs",
    (lambda: of(lambda x: [x * x, x], 3.0, dy=[1.0]), Raises(ValueError, "dy has 1 entries for 2 results")),
)
cases("scalar dy for a vector output", (lambda: of(square, ONE_TWO, dy=2.0), [[4.0, 8.0]]))
cases(
    "dy of another shape",
    (
        lambda: of(square, ONE_TWO, dy=np.ones(3)),
        Raises(ValueError, r"dy has shape \(3,\), and its result has shape \(2,\)"),
    ),
)
cases(
    "python dy with float64 result",
    (lambda: of(square, 3.0, dy=2.0), [12.0]),
    (lambda: str(of(square, 3.0, dy=np.float32(2))[0].dtype), "float64"),
)
cases(  # TensorFlow packs the list into one tensor
    "list argument",
    (lambda: of(lambda p: p[0] * p[1], [2.0, 5.0]), [[5.0, 2.0]]),
    (lambda: of(lambda p: p[0] * p[1][0], [2.0, [5.0]]), [[5.0, [2.0]]]),
)
cases("dict argument", (lambda: of(lambda p: p["a"] * p["b"], {"b": 2.0, "a": 5.0}), [{"b": 5.0, "a": 2.0}]))


@case("argument not in params", ([6.0], float, type(None)))
def _():
    seen = []

    def f(x, y, z):
        seen.extend([type(y), type(z)])
        return x * x

    return of(f, 3.0, 2.0, None, params=["x"]), *seen


cases("string argument", (lambda: of(lambda x, text: x * x, 3.0, "text"), [6.0, None]))
cases("Variable as argument", (lambda: of(square, fg.Variable(3.0)), [6.0]))
cases("complex argument, real result", (lambda: of(lambda z: abs(z) ** 2, 3 + 4j), [6 + 8j]))
cases("complex argument, complex result", (lambda: of(square, 3 + 4j), [6 - 8j]))
cases("second order", (lambda: of(lambda x, y: of(cubic, x, y)[0], 2.0, 3.0), [36.0, 6.0]))


@case("exception inside f", ("KeyError('stop')", [6.0]))
def _():
    def failing(x):
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop") as caught:
        of(failing, 3.0)
    return repr(caught.value), of(square, 3.0)


cases(
    "wrapper metadata",
    (lambda: fg.gradients_function(cubic).__name__, "cubic"),
    (lambda: fg.gradients_function(_documented).__doc__, "The square."),
)


def _documented(x):
    """The square."""
    return x * x


cases(
    "value and gradients",
    (lambda: fg.value_and_gradients_function(square)(3.0), (9.0, [6.0])),
    (
        lambda: fg.value_and_gradients_function(lambda x: {"a": [x * x], "b": x})(3.0, dy={"a": [1.0], "b": 10.0}),
        ({"a": [9.0], "b": 3.0}, [16.0]),
    ),
)


@case("make_vjp", (6.0, [27.0, -4.0], [270.0, -40.0], [-4.0]))
def _():
    value, vjp = fg.make_vjp(cubic)(2.0, 3.0)
    return value, vjp(), vjp(dy=10.0), fg.make_vjp(cubic, params=["y"])(2.0, 3.0)[1]()


def once(*calls):
    value, vjp = fg.make_vjp(square, persistent=False)(ONE_TWO)
    return [value, *(vjp(**call) for call in calls)]


@case("make_vjp that is not persistent", [[1.0, 4.0], [[2.0, 40.0]]])
def _():
    value, vjp = fg.make_vjp(square, persistent=False)(ONE_TWO)
    with pytest.raises(ValueError, match=r"dy has shape \(3,\)"):
        vjp(dy=np.ones(3))  # a refused call has not used it up
    return [value, vjp(dy=[1.0, 10.0])]


cases(
    "make_vjp that is not persistent",
    (lambda: once({}, {}), Raises(RuntimeError, "square can only be used to compute one set of gradients")),
)
cases("make_vjp with keyword arguments", (lambda: fg.make_vjp(scaled)(3.0, scale=2.0)[1](), [12.0]))


# implicit_gradients


def weights():
    return fg.Variable(2.0, name="w1"), fg.Variable(3.0, name="w2")


def named(pairs):
    return [(gradient, variable.name) for gradient, variable in pairs]


@case("two variables", ([(5.0, "w1"), (7.0, "w2")], True, [list, tuple]))
def _():
    w1, w2 = weights()
    pairs = fg.implicit_gradients(lambda x1, x2: w1 * x1 + w2 * x2)(5.0, 7.0)
    return named(pairs), pairs[0][1] is w1 and pairs[1][1] is w2, [type(pairs), type(pairs[0])]


@case("body reads w2 first", [(5.0, "w1"), (7.0, "w2")])
def _():
    w1, w2 = weights()
    return named(fg.implicit_gradients(lambda x1, x2: w2 * x2 + w1 * x1)(5.0, 7.0))


@case("value and gradients of variables", (31.0, [(5.0, "w1"), (7.0, "w2")]))
def _():
    w1, w2 = weights()
    value, pairs = fg.implicit_value_and_gradients(lambda x1, x2: w1 * x1 + w2 * x2)(5.0, 7.0)
    return value, named(pairs)


@case("keyword arguments of an implicit function", [(30.0, "w1")])
def _():
    w1, _ = weights()
    return named(fg.implicit_gradients(lambda x, scale, dy: w1 * x * scale * dy)(5.0, scale=2.0, dy=3.0))


@case("a variable that is not trainable", [(7.0, "w2")])
def _():
    wn, w2 = fg.Variable(2.0, trainable=False), weights()[1]
    return named(fg.implicit_gradients(lambda x1, x2: wn * x1 + w2 * x2)(5.0, 7.0))


cases(
    "nothing trainable read",
    (
        lambda: fg.implicit_gradients(square)(3.0),
        Raises(ValueError, "No trainable variables were accessed while square was being computed"),
    ),
)
cases(
    "implicit function returns None",
    (lambda: fg.implicit_gradients(forgetful)(3.0), Raises(ValueError, RETURNS_NONE)),
)


@case("variable read without effect", [(None, "w1"), (5.0, "w2")])
def _():
    w1, w2 = weights()
    return named(fg.implicit_gradients(lambda x: (w1 * x, w2 * x)[1])(5.0))


@case("variable read twice", [(20.0, "w1")])
def _():
    w1, _ = weights()
    return named(fg.implicit_gradients(lambda x: w1 * w1 * x)(5.0))


@case("vector or list result of variables", ([(33.0, "w1")], [(6.0, "w1")]))
def _():
    w1, _ = weights()
    vector = fg.implicit_gradients(lambda x: w1 * x * np.array([1.0, 10.0]))(3.0)
    return named(vector), named(fg.implicit_gradients(lambda x: [w1 * x, w1 * x])(3.0))


@case("f returns the variable itself", (2.0, [(1.0, "w1")]))  # TensorFlow: nothing trainable read
def _():
    w1, _ = weights()
    value, pairs = fg.implicit_value_and_gradients(lambda: w1)()
    return value, named(pairs)


cases(  # TensorFlow: 'float' object has no attribute '_id'
    "f returns a python float, alone or in a structure",
    (
        lambda: fg.implicit_gradients(lambda w: (w * 1.0, 7.0)[1])(fg.Variable(2.0)),
        Raises(TypeError, "returned a plain float, 7.0, and no tensor"),
    ),
    (lambda: fg.implicit_gradients(lambda w: float(w * 1.0))(fg.Variable(2.0)), Raises(TypeError, "left the trace")),
    (lambda: named(fg.implicit_gradients(lambda w: [w * 3.0, 7.0])(fg.Variable(2.0, name="w"))), [(3.0, "w")]),
    (
        lambda: fg.implicit_gradients(lambda w: [w * 3.0, "text"])(fg.Variable(2.0)),
        Raises(TypeError, "returned 'text' of type str, which is not a number, array or tensor"),
    ),
)


@case("integer variable", [(None, "asked"), (6.0, "w")])  # not trainable unless asked
def _():
    n, asked, w = fg.Variable(2), fg.Variable(3, trainable=True, name="asked"), fg.Variable(5.0, name="w")
    return named(fg.implicit_gradients(lambda: w * n * asked)())


cases(
    "variable created inside f",
    (lambda: named(fg.implicit_gradients(lambda x: fg.Variable(2.0, name="new") * x)(5.0)), [(5.0, "new")]),
)


@case("assign inside f between two reads", (60.0, [(10.0, "w1")]))
def _():
    w1, _ = weights()

    def f():
        a = w1 * 5
        w1.assign(10.0)
        return a + w1 * 5

    value, pairs = fg.implicit_value_and_gradients(f)()
    return value, named(pairs)


@case("gather of a variable in f", [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])  # dense
def _():
    e = fg.Variable(np.zeros((4, 2)))
    return fg.implicit_gradients(lambda: e[[0, 2, 0]])()[0][0]


@case("gradients_function of implicit_gradients", [10.0])
def _():
    w1, _ = weights()
    return of(lambda x: fg.implicit_gradients(lambda x: w1 * x * x)(x)[0][0], 5.0)


# GradientTape


def taped(f, *values, persistent=False):
    """Return a tape that has recorded f of constants, the result, and the constants."""
    xs = [fg.constant(value) for value in values]
    with fg.GradientTape(persistent) as tape:
        tape.watch(xs)
        y = f(*xs)
    return tape, y, xs


def slope(f, *values, **options):
    tape, y, xs = taped(f, *values)
    gradients = tape.gradient(y, xs, **options)
    return gradients[0] if len(xs) == 1 else gradients


@case("after the block; a constant that is not watched", (6.0, None))
def _():
    c = fg.constant(3.0)
    with fg.GradientTape() as tape:
        y = c * c
    return slope(square, 3.0), tape.gradient(y, c)


@case("watch after y was computed", 9.0)
def _():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        y = x * x
        tape.watch(x)
        z = x * y
    return tape.gradient(z, x)


USED_UP = "A non-persistent GradientTape can only be used to compute one set of gradients"


def asked_twice(second):
    tape, y, (x,) = taped(square, 3.0)
    tape.gradient(y, x)
    return getattr(tape, second)(y, x)


cases(
    "second gradient or jacobian on a non-persistent tape",
    (lambda: asked_twice("gradient"), Raises(RuntimeError, USED_UP)),
    (lambda: asked_twice("jacobian"), Raises(RuntimeError, USED_UP)),
)
NEVER = "this GradientTape was never entered"
cases(
    "gradient on a tape never entered",
    (lambda: fg.GradientTape().gradient(fg.constant(1.0), fg.constant(1.0)), Raises(RuntimeError, NEVER)),
)


def watch_when_used_up():
    tape, y, (x,) = taped(square, 3.0)
    tape.gradient(y, x)
    tape.watch(x)


cases(
    "watch never entered, or after used up",
    (lambda: fg.GradientTape().watch(fg.constant(1.0)), Raises(RuntimeError, NEVER)),
    (watch_when_used_up, Raises(RuntimeError, USED_UP)),
)


@case("watch after exit, unused tape", [6.0, None])
def _():
    tape, y, (x,) = taped(square, 3.0)
    other = fg.constant(5.0)
    tape.watch(other)
    other * other
    return tape.gradient(y, [x, other])


@case("watched_variables never entered", ((), 1, tuple))
def _():
    w = fg.Variable(2.0)
    with fg.GradientTape() as tape:
        y = w * 2.0
    tape.gradient(y, w)
    return fg.GradientTape().watched_variables(), len(tape.watched_variables()), type(tape.watched_variables())


@case("gradient inside its own block, not persistent", (6.0, np.ndarray))
def _():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        first = tape.gradient(x * x, x)
        after = type(np.asarray(x * x))  # not recorded any more
        with pytest.raises(RuntimeError, match=USED_UP):
            tape.watch(x)
    return first, after


@case("gradient inside its own block, persistent", (27.0, 18.0, 6.0, 18.0, None))
def _():
    x = fg.constant(3.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x * x
        first = tape.gradient(y, x)
        second = tape.gradient(first, x)
        third = tape.gradient(second, x)
    return first, second, third, tape.gradient(first, x), tape.gradient(third, x)


@case("persistent, first gradient taken outside, then gradient of it", (6.0, None))
def _():
    tape, y, (x,) = taped(square, 3.0, persistent=True)
    first = tape.gradient(y, x)
    return first, tape.gradient(first, x)


@case("intermediate results as sources", (108.0, 6.0, 18.0))
def _():
    x = fg.constant(3.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    return tape.gradient(z, x), tape.gradient(y, x), tape.gradient(z, y)


def nested(inside=True, late=False, outer_watches=True, inner_watches=True):
    x = fg.constant(3.0)
    with fg.GradientTape() as outer:
        if outer_watches:
            outer.watch(x)
        with fg.GradientTape() as inner:
            if inner_watches:
                inner.watch(x)
            y = x**3
            first = inner.gradient(y, x) if inside else None
        if not inside and not late:
            first = inner.gradient(y, x)
    if late:
        first = inner.gradient(y, x)
    return first, outer.gradient(y if first is None else first, x)


cases(
    "nested, inner gradient inside the outer block",
    (nested, (27.0, 18.0)),
    (lambda: nested(inside=False), (27.0, 18.0)),
)
cases("nested, inner gradient after the outer block", (lambda: nested(inside=False, late=True), (27.0, None)))
cases(
    "only the outer or only the inner watches",
    (lambda: nested(inner_watches=False), (None, 27.0)),
    (lambda: nested(outer_watches=False), (27.0, None)),
)


def re_entered(persistent=False):
    with fg.GradientTape(persistent) as tape, tape:
        pass


cases("re-enter while open", (re_entered, Raises(ValueError, "Tape is still recording")))
cases("re-enter while open", (lambda: re_entered(True), Raises(ValueError, "Tape is still recording")))


def continued(persistent):
    tape, y, (x,) = taped(square, 3.0, persistent=persistent)
    with tape:
        z = y * x
    return tape.gradient(z, x)


cases("enter again after exit, tape not used up", (lambda: continued(False), 27.0), (lambda: continued(True), 27.0))


@case("enter again after a non-persistent tape was used", [None, 2.0])
def _():
    tape, y, (x,) = taped(square, 3.0)
    tape.gradient(y, x)
    new = fg.constant(5.0)
    with tape:
        tape.watch(new)
        z = x * 1.0 + new * 2.0
    return tape.gradient(z, [x, new])


@case("exception in the block", (np.ndarray, 6.0))
def _():
    x, tape = fg.constant(3.0), fg.GradientTape()
    with contextlib.suppress(KeyError), tape:
        tape.watch(x)
        y = x * x
        raise KeyError("stop")
    return type(np.asarray(x * x)), tape.gradient(y, x)


@case("op run in another thread", 6.0)  # TensorFlow: None, silently
def _():
    x, found = fg.constant(3.0), []
    with fg.GradientTape() as tape:
        tape.watch(x)
        thread = threading.Thread(target=lambda: found.append(x * x))
        thread.start()
        thread.join()
    return tape.gradient(found[0], x)


@case("100 000 chained ops", 1.0)
def _():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(100_000):
            y = y + 1.0
    return tape.gradient(y, x)


# Targets, sources, outputs

cases(
    "vector, list, dict target",
    (lambda: slope(square, ONE_TWO), [2.0, 4.0]),
    (lambda: slope(lambda x: [x * x, x], 3.0), 7.0),
    (lambda: slope(lambda x: {"a": x * x, "b": (x,)}, 3.0), 7.0),
)


def structured(make):
    tape, y, xs = taped(lambda a, b, c: a * b * c, 2.0, 3.0, 5.0)
    return tape.gradient(y, make(*xs))


cases(
    "structures of sources",
    (lambda: structured(lambda a, b, c: {"a": a, "bd": [b, (c,)]}), {"a": 15.0, "bd": [10.0, (6.0,)]}),
    (lambda: list(structured(lambda a, b, c: {"z": a, "a": b})), ["z", "a"]),
    (lambda: structured(lambda a, b, c: (a, b)), (15.0, 10.0)),
    (lambda: structured(lambda a, b, c: Point(c, a)), Point(6.0, 15.0)),
    (lambda: structured(lambda a, b, c: []), []),
)
cases("the same source twice", (lambda: structured(lambda a, b, c: [a, a]), [15.0, 15.0]))
cases("target is the source", (lambda: slope(lambda x: x, 3.0), 1.0))
cases(
    "target constant",
    (lambda: slope(lambda x: fg.constant(7.0), 3.0), None),
    (lambda: slope(lambda x: fg.constant(7.0), 3.0, unconnected_gradients=ZERO), 0.0),
)


def unconnected(choice):
    return slope(lambda x, y: x * x, 3.0, np.float32([1, 2]), unconnected_gradients=choice)


cases(
    "unconnected source",
    (lambda: unconnected(NONE), [6.0, None]),
    (lambda: unconnected(ZERO), [6.0, [0.0, 0.0]]),
    (lambda: str(unconnected("zero")[1].dtype), "float32"),
    (lambda: unconnected("none"), [6.0, None]),
    (lambda: unconnected("bogus"), Raises(ValueError, "Unknown value for unconnected_gradients: 'bogus'")),
)
TARGET = "target must be a Tensor, a Variable or a container of them; it holds"
SOURCES = "sources must be a Tensor, a Variable or a container of them; it holds"


def asked_for(target=None, sources=None, wrong=None):
    tape, y, (x,) = taped(square, 3.0)
    return tape.gradient(y if target is None else target(y), x if sources is None else sources(x))


cases(
    "target None",
    (lambda: asked_for(target=lambda y: None), Raises(TypeError, f"{TARGET} None")),
    (lambda: asked_for(target=lambda y: [y, None]), Raises(TypeError, f"{TARGET} None")),
)
cases(
    "target or source a python float or ndarray",
    (lambda: asked_for(target=lambda y: 3.0), Raises(TypeError, f"{TARGET} 3.0 of type float")),
    (lambda: asked_for(sources=lambda x: 3.0), Raises(TypeError, f"{SOURCES} 3.0 of type float")),
    (lambda: asked_for(sources=lambda x: np.ones(2)), Raises(TypeError, rf"{SOURCES} array\(.* of type ndarray")),
)


def watched(x):
    with fg.GradientTape() as tape:
        tape.watch(x)


cases(
    "watch of something else",
    (lambda: watched(np.ones(2)), Raises(ValueError, r"object array\(.* of type 'ndarray', not a Tensor or Variable")),
    (lambda: watched(3.0), Raises(ValueError, "Passed in object 3.0 of type 'float', not a Tensor or Variable")),
    (lambda: watched(None), Raises(ValueError, "Passed in object None of type 'NoneType', not a Tensor or Variable")),
    (lambda: watched("text"), Raises(ValueError, "Passed in object 'text' of type 'str', not a Tensor or Variable")),
    (lambda: watched([fg.constant(1.0), {"a": fg.Variable(1.0)}]), None),
)


def integer_source(choice):
    tape, y, (n,) = taped(lambda n: n * 2.0, 3)
    gradient = tape.gradient(y, n, unconnected_gradients=choice)
    return gradient if gradient is None else (gradient, str(gradient.dtype))


INTEGER = "the watched tensor has dtype int64; only floating-point and complex tensors have gradients"
cases(
    "watch of an int tensor",
    (lambda: integer_source(NONE), Warns(INTEGER, None)),
    (lambda: integer_source(ZERO), Warns(INTEGER, (0, "int64"))),
)
cases(  # as round and back; TensorFlow: None
    "float to int to float cast",
    (lambda: slope(lambda x: x.astype(int).astype(float), 2.5), 0.0),
    (lambda: slope(lambda x: x.astype(int) * 2.0 + x, 2.5), 1.0),
)


@case("float64 source, float32 loss", (5.0, "float64"))
def _():
    gradient = slope(lambda x: (x * x).astype(np.float32), 2.5)
    return gradient, str(gradient.dtype)


cases(  # for TensorFlow all but sign have no derivative; here it is zero, as that of sign
    "argmax, round, floor, comparison, sign",
    (lambda: slope(lambda v: np.argmax(v), ONE_TWO), [0.0, 0.0]),
    (lambda: slope(lambda v: np.argmax(v) * 1.0, ONE_TWO), [0.0, 0.0]),
    (lambda: slope(lambda x: np.round(x), 2.3), 0.0),
    (lambda: slope(lambda x: np.floor(x), 2.3), 0.0),
    (lambda: slope(lambda x: x > 1.0, 2.3), 0.0),
    (lambda: slope(lambda x: np.sign(x), 2.3), 0.0),
)
cases(
    "stop_gradient, .numpy() and back",
    (lambda: slope(lambda x: x * fg.stop_gradient(x), 3.0), 3.0),
    (lambda: slope(lambda x: fg.stop_gradient(x) * 2.0, 3.0), None),
    (lambda: slope(lambda x: fg.constant(x.numpy()) * x, 3.0), 3.0),
)
cases(
    "complex sources",
    (lambda: slope(lambda z: abs(z) ** 2, 3 + 4j), 6 + 8j),
    (lambda: slope(square, 3 + 4j), 6 - 8j),
    (lambda: slope(lambda z: np.real(z * z), 3 + 4j), 6 - 8j),
    (lambda: slope(np.conj, 3 + 4j), 1 - 0j),
    (lambda: slope(np.exp, 3 + 4j), complex(np.conj(np.exp(3 + 4j)))),
)
cases(  # TensorFlow: None, None, 3 and 3, silently
    "NumPy functions, np.array and float() of a watched tensor",
    (lambda: slope(np.sin, 0.0), 1.0),
    (lambda: slope(lambda x: np.array([x, x * x]), 3.0), 7.0),
    (lambda: slope(lambda x: np.sum(np.array([x, x * x])), 3.0), 7.0),
    (
        lambda: slope(lambda x: np.array([x, x * x], dtype=float), 3.0),
        Raises(TypeError, r"np.array\(\[x, y\]\): write np.stack"),
    ),
    (lambda: slope(lambda x: np.stack([x, x * x]), 3.0), 7.0),
    (lambda: slope(lambda x: x.item() * x, 3.0), 3.0),  # the value was asked for in so many words
    (lambda: slope(lambda x: float(x) * x, 3.0), Raises(TypeError, "Write x itself for float")),
    (lambda: departed(), [".item() at test_tensorflow_facts.py"]),
)


def departed():
    tape, _, _ = taped(lambda x: x.item() * x, 3.0)
    return [line.split(":")[0] for line in departures(tape)]


# output_gradients


def weighed(weights, f=square):
    return slope(f, np.array([1.0, 2.0, 3.0]), output_gradients=weights)


def two(v):
    return [v * v, v * 1.0]


HUNDRED = np.array([1.0, 10.0, 100.0])
cases(
    "weights on v*v",
    (lambda: weighed(HUNDRED), [2.0, 40.0, 600.0]),
    (lambda: weighed(fg.constant(HUNDRED)), [2.0, 40.0, 600.0]),
    (lambda: weighed(4.0), [8.0, 16.0, 24.0]),
    (lambda: weighed(None), [2.0, 4.0, 6.0]),
)
cases("a python list for one vector target", (lambda: weighed([1.0, 10.0, 100.0]), [2.0, 40.0, 600.0]))
cases(
    "float32 for a float64 target",
    (lambda: weighed(HUNDRED.astype(np.float32)), [2.0, 40.0, 600.0]),
    (lambda: str(weighed(HUNDRED.astype(np.float32)).dtype), "float64"),
)
cases(
    "wrong shape of weights",
    (
        lambda: weighed(np.ones(2)),
        Raises(ValueError, r"output_gradients has shape \(2,\), and its result has shape \(3,\)"),
    ),
)
cases(
    "list for list of targets",
    (lambda: weighed([HUNDRED, 10.0], two), [12.0, 50.0, 610.0]),
    (lambda: weighed([HUNDRED], two), Raises(ValueError, "output_gradients has 1 entries for 2 results")),
    (lambda: weighed([1.0, 2.0, 3.0], two), Raises(ValueError, "output_gradients has 3 entries for 2 results")),
)
cases("None inside the list", (lambda: weighed([None, 10.0], two), [12.0, 14.0, 16.0]))


@case("weights watched by an outer tape", ([2.0, 40.0], [2.0, 4.0]))
def _():
    weights = fg.constant([1.0, 10.0])
    with fg.GradientTape() as outer:
        outer.watch(weights)
        gradient = slope(square, ONE_TWO, output_gradients=weights)
    return gradient, outer.gradient(gradient, weights)


# jacobian, batch_jacobian


def jacobian(f, *values, **options):
    tape, y, xs = taped(f, *values)
    return tape.jacobian(y, xs[0] if len(xs) == 1 else xs, **options)


cases(
    "jacobian of u*u",
    (lambda: jacobian(square, ONE_TWO), [[2.0, 0.0], [0.0, 4.0]]),
    (lambda: jacobian(lambda x, y: x * y, ONE_TWO, 3.0), [[[3.0, 0.0], [0.0, 3.0]], [1.0, 2.0]]),
    (lambda: jacobian(square, 3.0), 6.0),
    (lambda: jacobian(np.sum, ONE_TWO), [1.0, 1.0]),
    (lambda: jacobian(lambda u: u[:0], ONE_TWO).shape, (0, 2)),
)
cases(
    "jacobian of something unconnected",
    (lambda: jacobian(lambda x, y: x * x, ONE_TWO, np.ones(3))[1], None),
    (
        lambda: jacobian(lambda x, y: x * x, ONE_TWO, np.ones(3), unconnected_gradients=ZERO)[1],
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    ),
)


def listed(which):
    tape, y, (x,) = taped(square, np.ones((2, 2)))
    if which == "target":
        return tape.jacobian([y], x)
    return tape.batch_jacobian(y, [x])


cases(
    "list as target, list as source of batch_jacobian",
    (lambda: listed("target"), Raises(TypeError, "a Jacobian needs one Tensor or Variable as target, not")),
    (lambda: listed("source"), Raises(TypeError, "batch_jacobian takes one Tensor or Variable as source, not")),
)


@case("jacobian of a non-persistent tape", [[2.0, 0.0], [0.0, 4.0]])
def _():
    x = fg.constant(ONE_TWO)
    with fg.GradientTape() as tape:
        tape.watch(x)
        return tape.jacobian(x * x, x)


cases(  # they say how TensorFlow is to compute it
    "jacobian of a non-persistent tape",
    (
        lambda: jacobian(square, ONE_TWO, experimental_use_pfor=False),
        Raises(TypeError, "unexpected keyword argument 'experimental_use_pfor'"),
    ),
    (
        lambda: jacobian(square, ONE_TWO, parallel_iterations=1),
        Raises(TypeError, "unexpected keyword argument 'parallel_iterations'"),
    ),
)


@case("Hessian as jacobian of an inner gradient", [[4.0, 2.0], [2.0, 0.0]])
def _():
    x = fg.constant(ONE_TWO)
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = x[0] ** 2 * x[1]
        gradient = inner.gradient(y, x)
    return outer.jacobian(gradient, x)


ROWS_OF_TWO = np.array([[1.0, 2.0], [3.0, 4.0]])


def batch_jacobian(f, *values, **options):
    tape, y, xs = taped(f, *values)
    return tape.batch_jacobian(y, xs[-1], **options)


cases(
    "batch_jacobian of X*X",
    (lambda: batch_jacobian(square, ROWS_OF_TWO), [[[2.0, 0.0], [0.0, 4.0]], [[6.0, 0.0], [0.0, 8.0]]]),
)
cases(
    "rank 1 target",
    (
        lambda: batch_jacobian(lambda x: x[:, 0], ROWS_OF_TWO),
        Raises(ValueError, r"the target has shape \(2,\) and must have rank at least 2"),
    ),
)
cases(
    "batch sizes differ",
    (
        lambda: batch_jacobian(lambda x: x[:1], ROWS_OF_TWO),
        Raises(ValueError, r"Need first dimension of target shape \(1, 2\) and source shape \(2, 2\) to match"),
    ),
)
cases(  # TensorFlow: zeros in both cases, by a documented quirk
    "batch_jacobian of something unconnected",
    (lambda: batch_jacobian(lambda x, z: x * x, ROWS_OF_TWO, ROWS_OF_TWO), None),
    (
        lambda: batch_jacobian(lambda x, z: x * x, ROWS_OF_TWO, ROWS_OF_TWO, unconnected_gradients=ZERO),
        np.zeros((2, 2, 2)).tolist(),
    ),
)
cases(  # sums over the rows of the target; the documentation warns of it
    "rows depend on other rows",
    (lambda: batch_jacobian(lambda x: x * x[::-1], ROWS_OF_TWO)[0], [[6.0, 0.0], [0.0, 8.0]]),
    (lambda: "depends on other rows" in fg.GradientTape.batch_jacobian.__doc__, True),
)


# Variables, stop_recording, reset


@case("trainable read, untrainable watched by hand", ([6.0, None], [3.0, 2.0], ["a", "b"]))
def _():
    a, b = fg.Variable(2.0, name="a"), fg.Variable(3.0, trainable=False, name="b")
    with fg.GradientTape() as tape:
        y = a * b * 2.0
    first = tape.gradient(y, [a, b])
    with fg.GradientTape() as tape:
        tape.watch(b)
        y = a * b
    return first, tape.gradient(y, [a, b]), [v.name for v in tape.watched_variables()]


@case("watch_accessed_variables=False", ([None, 2.0], ["b"]))
def _():
    a, b = fg.Variable(2.0), fg.Variable(3.0, name="b")
    with fg.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(b)
        y = a * b
    return tape.gradient(y, [a, b]), [v.name for v in tape.watched_variables()]


@case("order of watched_variables", ["a", "n", "b"])
def _():
    a, n, b = fg.Variable(2.0, name="a"), fg.Variable(3, trainable=True, name="n"), fg.Variable(4.0, name="b")
    with fg.GradientTape() as tape:
        b * n * a
    return [v.name for v in tape.watched_variables()]


@case("read_value watches", (1, 3.0))
def _():
    a = fg.Variable(2.0)
    with fg.GradientTape() as tape:
        y = a.read_value() * 3.0
    return len(tape.watched_variables()), tape.gradient(y, a)


@case("assign between reads", 24.0)
def _():
    a = fg.Variable(2.0)
    with fg.GradientTape() as tape:
        y = a * a
        a.assign(10.0)
        y = y + a * a
    return tape.gradient(y, a)


@case("b.assign(tracked) then reading b", [None, 1.0])
def _():
    a, b = fg.Variable(2.0), fg.Variable(0.0)
    with fg.GradientTape() as tape:
        b.assign(a * 3.0)
        y = b * 1.0
    return tape.gradient(y, [a, b])


cases(
    "b.assign(tracked) then reading b",
    (lambda: "a derivative does not pass from the variable" in " ".join(fg.Variable.__doc__.split()), True),
)


@case("the result of assign counts as a read", (9.0, 6.0))
def _():
    a = fg.Variable(2.0)
    with fg.GradientTape() as tape:
        r = a.assign_add(1.0)
        y = r * a
    return y, tape.gradient(y, a)


@case("target is the variable", (1.0, None))
def _():
    a = fg.Variable(2.0)
    with fg.GradientTape(persistent=True) as tape:
        y = a * 3.0
    return tape.gradient(a, a), tape.gradient(y, a.value())


@case("gather of a variable", ([[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]], [[3.0, 3.0], [1.0, 1.0], [2.0, 2.0]]))
def _():
    e = fg.Variable(np.zeros((3, 2)))
    with fg.GradientTape(persistent=True) as tape:
        rows = np.take(e, [0, 2, 0], axis=0)
        both = np.sum(rows) + np.sum(e)
    return tape.gradient(rows, e), tape.gradient(both, e)


@case("stop_recording", (6.0, None, 81.0))
def _():
    x = fg.constant(3.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            z = y * y
        w = z * x
    return tape.gradient(y, x), tape.gradient(z, x), tape.gradient(w, x)


@case("gradient inside stop_recording", (6.0, None))
def _():
    x = fg.constant(3.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            first = tape.gradient(y, x)
    return first, tape.gradient(first, x)


def stopped(tape, times=1):
    with contextlib.ExitStack() as stack:
        for _ in range(times):
            stack.enter_context(tape.stop_recording())


def stopped_twice():
    with fg.GradientTape() as tape:
        stopped(tape, times=2)


cases(
    "stop_recording on a tape that is not recording",
    (
        lambda: stopped(fg.GradientTape()),
        Raises(RuntimeError, "Trying to stop recording a tape which is not recording"),
    ),
    (lambda: stopped(taped(square, 3.0)[0]), Raises(ValueError, "Tape is not recording.")),
    (stopped_twice, Raises(ValueError, "Tape is not recording.")),
)


@case("exception in stop_recording", 6.0)
def _():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        with contextlib.suppress(KeyError), tape.stop_recording():
            raise KeyError("stop")
        y = x * x
    return tape.gradient(y, x)


@case("reset", ((), [None, None], [7.0, None]))
def _():
    x, a = fg.constant(3.0), fg.Variable(2.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * a
        tape.reset()
        forgotten = tape.watched_variables()
        tape.watch(x)
        z = x * 7.0
    return forgotten, tape.gradient(y, [x, a]), tape.gradient(z, [x, a])


cases("reset", (lambda: taped(square, 3.0)[0].reset(), Raises(ValueError, "Tape is not recording.")))


# Forward mode and custom gradients


def pushed(f, value, tangent, **options):
    x = fg.constant(value)
    with fg.ForwardAccumulator(x, tangent) as accumulator:
        y = f(x)
    return accumulator.jvp(y, **options)


cases("jvp of x*x", (lambda: pushed(square, [1.0, 2.0], [1.0, 10.0]), [2.0, 40.0]))


@case("forward over a tape gradient", (27.0, 18.0))
def _():
    x = fg.constant(3.0)
    with fg.ForwardAccumulator(x, 1.0) as accumulator:
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = x**3
        gradient = tape.gradient(y, x)
    return accumulator.jvp(y), accumulator.jvp(gradient)


@case("nested accumulators", (27.0, 18.0))
def _():
    x = fg.constant(3.0)
    with fg.ForwardAccumulator(x, 1.0) as outer, fg.ForwardAccumulator(x, 1.0) as inner:
        y = x**3
    first = inner.jvp(y)
    return first, outer.jvp(first)


cases(
    "unconnected in forward mode",
    (lambda: pushed(lambda x: fg.constant(7.0), 3.0, 1.0), None),
    (lambda: pushed(lambda x: fg.constant(7.0), 3.0, 1.0, unconnected_gradients="zero"), 0.0),
)
cases(
    "wrong tangent dtype",
    (
        lambda: pushed(square, 3.0, np.float32(1)),
        Raises(ValueError, "a tangent has dtype float32, and its primal has dtype float64"),
    ),
)
cases(  # TensorFlow accepts it
    "wrong tangent shape",
    (
        lambda: pushed(square, [1.0, 2.0], [1.0, 2.0, 3.0]),
        Raises(ValueError, r"a tangent has shape \(3,\), and its primal has shape \(2,\)"),
    ),
)


@case("re-enter an accumulator", Raises(ValueError, "Accumulator is already recording."))
def _():
    with fg.ForwardAccumulator(fg.constant(3.0), 1.0) as accumulator, accumulator:
        pass


few = fg.custom_gradient(lambda x, y: (x * y, lambda dy: dy))
cases(
    "custom_gradient: wrong number of gradients",
    (lambda: slope(few, 2.0, 3.0), Raises(ValueError, "expected to return 2 gradients, .* but returned 1")),
)


def with_variable(knows_of_variables):
    w = fg.Variable(2.0, name="w")

    @fg.custom_gradient
    def f(x):
        if knows_of_variables:
            return x * w, lambda dy, variables=None: (dy * 10.0, [dy * 100.0 for _ in variables])
        return x * w, lambda dy: dy * 10.0

    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, [x, w])


cases(
    "custom_gradient: a variable used inside",
    (lambda: with_variable(True), [10.0, 100.0]),
    (
        lambda: with_variable(False),
        Raises(TypeError, "reads the variable 'w', and its grad_fn has no parameter 'variables'"),
    ),
)


@case("recompute_grad", (1, 6.0, 2))
def _():
    runs = []

    @fg.checkpoint
    def f(x):
        runs.append(1)
        return x * x

    tape, y, (x,) = taped(f, 3.0)
    before = len(runs)
    return before, tape.gradient(y, x), len(runs)


# The tests

SECTION_OF = {row: section for section, rows in ROWS.items() for row in rows}


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
@pytest.mark.parametrize(
    ("observe", "expected"),
    [pytest.param(observe, expected, id=f"{SECTION_OF.get(row)}: {row}") for row, observe, expected in CASES],
)
def test_fact(observe, expected):
    if isinstance(expected, Raises):
        with pytest.raises(expected.kind, match=expected.text) as caught:
            observe()
        builtin = isinstance(caught.value, TypeError) and "argument" in expected.text  # Python's own
        assert isinstance(caught.value, errors.FgradError) or builtin
    elif isinstance(expected, Warns):
        with pytest.warns(errors.NoGradientWarning, match=expected.text):
            found = observe()
        assert plain(found) == expected.result
    else:
        found = plain(observe())
        assert found == expected
        assert type(found) is type(expected)


def test_every_row_has_a_case():
    observed = {row for row, _, _ in CASES}
    assert sorted(SECTION_OF) == sorted(observed)
    assert sum(map(len, ROWS.values())) == len(SECTION_OF)  # no row stands twice
    assert all(LATER.values())
