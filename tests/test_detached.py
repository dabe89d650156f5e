"""Plain numbers that are taken of traced tensors: which lines are warned of, how often, and what is no loss."""

import cmath
import logging
import math
import pickle
import re
import threading
import warnings

import numpy as np
import pytest
from helpers import plain

import fgrad as fg
import fgrad.scipy.optimize
from fgrad import errors


def warned(run):
    """Run a program, and return the texts of the warnings, which are all of one class."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    assert {each.category for each in caught} <= {errors.DetachedWarning}
    assert {each.filename for each in caught} <= {__file__}  # it points at the user's line
    return [str(each.message) for each in caught]


# Routes on which a number gets lost


def of_local_import(x):
    import math as mathematics

    return mathematics.sin(x)


def of_local_name(x):
    from math import sin

    return sin(x)


def of_default(x, function=math.sin):
    return function(x)


def of_table(x):
    return {"sine": math.sin}["sine"](x)


def of_map(x):
    return sum(map(math.sin, [x, x]))


def of_loop_over_map(x):
    total = 0.0
    for value in map(math.sin, [x]):
        total += value
    return total


def of_local_type(x):
    double = np.float64
    return double(x)


ROUTES = {
    "math": (lambda x: math.sin(x), "math.sin took", "Write np.sin for math.sin; or math.sin(x.item())"),
    "math, by another name": (lambda x: math.lgamma(x), "math.lgamma took", "Write scipy.special.gammaln for"),
    "a local import": (of_local_import, "math.sin took", "Write np.sin for math.sin;"),
    "a local name": (of_local_name, "math.sin took", "Write np.sin for math.sin;"),
    "a default argument": (of_default, "something took", "Write np.sin for math.sin or cmath.sin, and x itself"),
    "a table": (of_table, "something took", "np.sin for math.sin"),
    "map": (of_map, "math.sin took", "Write np.sin for math.sin;"),
    "a loop over map": (of_loop_over_map, "something took", "np.sin for math.sin"),
    "a comprehension": (lambda x: max([math.sin(each) for each in [x, x]]), "math.sin took", "np.sin for math.sin"),
    "cmath": (lambda x: cmath.exp(x).real, "cmath.exp took", "Write np.exp for cmath.exp;"),
    "cmath, by another name": (lambda x: cmath.phase(x), "cmath.phase took", "Write np.angle for cmath.phase;"),
    "fsum": (lambda x: math.fsum([x, x]), "math.fsum took", "Write np.sum for math.fsum;"),
    "float": (lambda x: float(x), "float() took", "Write x itself for float(x); or x.item() where"),
    "float as a key": (lambda x: min([x], key=float).item(), "something took", "x.item() where the plain"),
    "complex": (lambda x: complex(x, 1.0).real, "complex() took", "Write a + 1j * b for complex(a, b);"),
    "complex of two": (lambda x: abs(complex(x, x)), "complex() took", "or x.item() where the plain number is meant"),
    "a type of NumPy": (of_local_type, "something took", "x itself for float(x)"),
}


def of_tape(f, x=2.0):
    x = fg.constant(x)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


def of_tape_that_is_asked_again(f):
    x = fg.constant(2.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    tape.gradient(y, x, unconnected_gradients="zero")
    tape.jacobian(y, x)
    return fg.gradients(y, x)


def of_tape_inside(f):
    x = fg.constant(2.0)
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        slope = tape.gradient(y, x)
    return outer.gradient(slope, x)


def of_outer_tape(f):
    """Only the outer one is asked."""
    x = fg.constant(2.0)
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
    return outer.gradient(y, x)


def of_accumulator(f):
    x = fg.constant(2.0)
    with fg.ForwardAccumulator(x, 1.0) as accumulator:
        y = f(x)
    accumulator.jvp(y)
    return accumulator.jvp(y)


def of_variable(f):
    w = fg.Variable(2.0)
    return fg.implicit_gradients(lambda: f(w))()


def of_optimizer(f):
    w = fg.Variable(2.0)
    fg.optimizers.GradientDescent(0.1).minimize(lambda: f(w))


def of_pullback(f):
    _, pullback = fg.vjp(f, 2.0)
    pullback(1.0)
    return pullback(1.0)


def in_a_loop(f):
    return lambda x: sum(fg.checkpoint(f)(x + i) for i in range(10))


MODES = {
    "grad": lambda f: fg.grad(f)(2.0),
    "value_and_grad": lambda f: fg.value_and_grad(lambda x: (f(x), 0.0), has_aux=True)(2.0),
    "gradients_function": lambda f: fg.gradients_function(f)(2.0),
    "implicit_gradients": of_variable,
    "vjp": of_pullback,
    "make_vjp": lambda f: fg.make_vjp(f)(2.0)[1](),
    "linearize": lambda f: fg.linearize(f, 2.0)[1](1.0),
    "jvp": lambda f: fg.jvp(f, (2.0,), (1.0,)),
    "jacobian": lambda f: fg.jacobian(f)(2.0),
    "jacobian, forward": lambda f: fg.jacobian(f, mode="forward")(2.0),
    "jacobian, run twice": lambda f: fg.jacobian(lambda x: np.stack([f(x), f(x), x]))(2.0),
    "jacobian, in chunks": lambda f: fg.jacobian(lambda x: f(x[0]) + x, mode="forward", chunk_size=1)(np.ones(3)),
    "elementwise_grad": lambda f: fg.elementwise_grad(f)(2.0),
    "hessian": lambda f: fg.hessian(f)(2.0),
    "hvp": lambda f: fg.hvp(f)(2.0, 1.0),
    "grad of grad": lambda f: fg.grad(fg.grad(f))(2.0),
    "grad of a function of grad": lambda f: fg.grad(lambda x: x * fg.grad(f)(x))(2.0),
    "jvp of grad": lambda f: fg.jvp(lambda x: fg.grad(f)(x), (2.0,), (1.0,)),
    "checkpoint": lambda f: fg.grad(fg.checkpoint(f))(2.0),
    "checkpoint, forward": lambda f: fg.jvp(fg.checkpoint(f), (2.0,), (1.0,)),
    "checkpoints in a loop": lambda f: fg.grad(in_a_loop(f))(2.0),
    "checkpoints in a loop, forward": lambda f: fg.jvp(in_a_loop(f), (2.0,), (1.0,)),
    "checkpoints in a loop, on a tape": lambda f: of_tape(in_a_loop(f)),
    "grad in a loop": lambda f: fg.grad(lambda x: sum(fg.grad(f)(x + i) for i in range(10)))(2.0),
    "tape": of_tape,
    "tape, asked again": of_tape_that_is_asked_again,
    "tape inside of a tape": of_tape_inside,
    "tape around a tape": of_outer_tape,
    "accumulator": of_accumulator,
    "optimizer": of_optimizer,
}


@pytest.mark.parametrize("mode", [MODES[name] for name in ("grad", "jvp", "tape", "checkpoint")])
@pytest.mark.parametrize(("route", "what", "instead"), [pytest.param(*row, id=name) for name, row in ROUTES.items()])
def test_every_route_is_warned_of_once(route, what, instead, mode):
    (text,) = warned(lambda: mode(lambda x: x**3 + route(x)))
    place = route.__code__.co_firstlineno
    assert text.startswith(f"a part of the derivative may be missing: {what} a plain number out of the trace")
    assert any(f"test_detached.py:{place + i}: " in text for i in range(5))
    assert instead in text


@pytest.mark.parametrize("mode", [pytest.param(mode, id=name) for name, mode in MODES.items()])
def test_every_transform_warns_once_of_a_line(mode):
    def f(x):
        total = x**3
        for _ in range(1000):
            total = total + math.sin(x)
        return total

    (text,) = warned(lambda: mode(f))
    assert f"at test_detached.py:{f.__code__.co_firstlineno + 3}: total = total + math.sin(x)" in text


def test_what_is_lost_in_a_part():
    x = np.array([1.0, 2.0])
    (text,) = warned(lambda: fg.grad(lambda x: np.sum(x**2) + math.sin(x[0]))(x))
    assert "np.sum(x**2) + math.sin(x[0])" in text


def test_each_call_warns_and_each_line():
    def f(x):
        y = math.sin(x) * x
        return y * float(x)

    g = fg.grad(f)
    first = warned(lambda: g(2.0))
    assert ["y = math.sin(x) * x" in first[0], "return y * float(x)" in first[1]] == [True, True]
    assert warned(lambda: g(2.0)) == first
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(5):
            g(2.0)
    assert len(caught) == 2  # shown once, as Python does it


OF_INTEGERS = {"comb", "factorial", "gcd", "isqrt", "lcm", "perm"}
QUIET = {"ceil", "floor", "trunc", "prod", "sumprod"}  # which round, or compute with the tensor itself
ARGUMENTS = {"dist": "[x], [0.5]", "fsum": "[x]", "ldexp": "x, 2", "fma": "x, 0.5, 0.5"}
ARGUMENTS |= dict.fromkeys(["atan2", "copysign", "fmod", "nextafter", "pow", "rect", "remainder"], "x, 0.5")


@pytest.mark.parametrize("module", [math, cmath])
def test_what_is_written_instead_is_there(module):
    for name, function in vars(module).items():
        if not callable(function) or name in OF_INTEGERS | QUIET or name.startswith(("_", "is")):
            continue
        call = f"{module.__name__}.{name}({ARGUMENTS.get(name, 'x')})"
        f = eval(f"lambda x: ({call}, x * x)[1]", {module.__name__: module})
        (text,) = warned(lambda f=f, name=name: fg.grad(f)(1.5 if name == "acosh" else 0.5))
        instead = re.findall(rf"Write (.*) for {module.__name__}\.{name};", text)
        assert instead, text
        for each in re.findall(r"np\.([a-z0-9]+)(?![a-z0-9.])", instead[0]):
            assert hasattr(np, each), text


def test_several_functions_in_a_line():
    (text,) = warned(lambda: fg.grad(lambda x: x * math.sin(x) * math.exp(x) * math.sin(2 * x))(2.0))
    assert "math.sin, math.exp took a plain number" in text
    assert text.count("np.sin for math.sin") == text.count("np.exp for math.exp") == 1


def test_it_is_a_warning_of_gradients():
    assert issubclass(errors.DetachedWarning, errors.NoGradientWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.DetachedWarning)
        with pytest.raises(errors.DetachedWarning, match=r"at test_detached.py:\d+: ") as raised:
            fg.grad(lambda x: x * float(x))(2.0)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize("route", [pytest.param(row[0], id=name) for name, row in ROUTES.items()])
@pytest.mark.parametrize("transform", [fg.grad, fg.jacobian, fg.gradients_function, fg.elementwise_grad, fg.make_vjp])
def test_it_is_an_error_alone_where_nothing_else_connects_the_result(transform, route):
    def run():
        with pytest.raises(errors.DetachedError, match=r"not connected to its arguments(.|\n)*test_detached.py:\d+"):
            transform(route)(2.0)

    assert warned(run) == []


def test_what_another_file_does_is_named_there(tmp_path):
    """A library's function may compute with what it gets; only the user can tell."""
    path = tmp_path / "formulas.py"
    path.write_text("import math\n\ndef wave(x):\n    return math.sin(x)\n", encoding="utf-8")
    names = {}
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), names)
    (text,) = warned(lambda: fg.grad(lambda x: x * names["wave"](x))(2.0))
    assert "math.sin took" in text
    assert "at formulas.py:4: return math.sin(x)" in text


# What Python only looks at, and what is asked for in words


def of_logging(x):
    logger = logging.getLogger("test_detached")
    logger.addHandler(logging.NullHandler())
    record = logger.makeRecord("test_detached", logging.INFO, __file__, 1, "%f", (x,), None)
    assert record.getMessage() == f"{x:f}"


LOOKS = {
    "comparison": lambda x: x > 1.0,
    "branch": lambda x: 1.0 if x else 0.0,
    "bool": lambda x: bool(x),
    "int": lambda x: int(x),
    "max": lambda x: max(x, 1.0),
    "math.isfinite": lambda x: math.isfinite(x),
    "math.isclose": lambda x: math.isclose(x, 2.0),
    "cmath.isnan": lambda x: cmath.isnan(x),
    "a local isnan": lambda x, math=math: math.isnan(x),
    "math.floor": lambda x: math.floor(x),
    "math.ceil": lambda x: math.ceil(x),
    "math.trunc": lambda x: math.trunc(x),
    "round": lambda x: round(x),
    "format": lambda x: format(x, ".3f"),
    "an f-string": lambda x: f"{x:.3f} {x} {x!r}",
    "str.format": lambda x: "{:.3e} {}".format(x, x),  # noqa: UP032
    "percent": lambda x: "%f" % x,  # noqa: UP031
    "percent, several": lambda x: "%d %.2f %s" % (x, x, x),  # noqa: UP031
    "percent, of a name": lambda x, form="%g": form % x,
    "percent, of bytes": lambda x: b"%g" % x,
    "logging": of_logging,
    "str": lambda x: str(x),
    "NumPy's formatting": lambda x: np.format_float_positional(x) + np.format_float_scientific(x),
    "print": lambda x: print(x, end=""),
    "item": lambda x: x.item(),
    "numpy": lambda x: float(x.numpy()),
    "tolist": lambda x: x.tolist(),
    "stop_gradient": lambda x: float(fg.stop_gradient(x)) + math.sin(fg.stop_gradient(x)),
    "a truth value": lambda x: float(x > 1.0),
    "an integer": lambda x: float(x.astype(int)) + math.sqrt(np.argmax(np.stack([x, x]))),
    "a constant": lambda x: float(fg.constant(3.0)) + math.sin(fg.Variable(3.0, trainable=False)),
}


@pytest.mark.parametrize("mode", [pytest.param(mode, id=name) for name, mode in MODES.items()])
def test_to_look_is_no_loss(mode):
    for look in LOOKS.values():

        def f(x, look=look):
            look(x)
            return x**3

        assert warned(lambda f=f: mode(f)) == [], look


def test_numbers_that_nothing_follows_any_more():
    x, kept = fg.constant(3.0), []
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            y = y + math.sin(x) * x
    assert warned(lambda: (float(y), math.sin(x), tape.gradient(y, x), float(y))) == []
    value, gradient = fg.value_and_grad(lambda x: (kept.append(x), x * x)[1])(3.0)
    assert warned(lambda: [float(each) for each in (value, gradient, kept[0])]) == []


def test_what_rounds_gives_integers():
    def f(x):
        found = [math.floor(x), math.ceil(x), math.trunc(x)]
        assert [type(each) for each in found] == [int] * 3
        return x * sum(found)

    assert plain(fg.grad(f)(2.5)) == 7.0
    assert plain(fg.grad(f)(-2.5)) == -7.0
    assert math.floor(fg.Variable(2.5)) == math.trunc(fg.constant(2.5)) == 2
    with pytest.raises(errors.ConcretizationError, match=r"int\(\) needs a value"):
        fg.vmap(lambda x: x * math.floor(x))(np.ones(2))


def test_percent_of_numbers_is_an_operation():
    assert warned(lambda: plain(fg.grad(lambda x: 7.0 % x + x % 2.0)(3.0))) == []
    assert plain(fg.grad(lambda x: 7.0 % x)(3.0)) == -2.0


def test_to_format_cuts_nothing_and_needs_a_value():
    assert fg.explain(lambda x: ("%.1f" % x, x)[1], 2.0)[0].reasons == ()  # noqa: UP031
    with pytest.raises(errors.ConcretizationError, match=r"formatting needs a value(.|\n)*Leave the format out"):
        fg.vmap(lambda x: ("%.1f" % x, x)[1])(np.ones(2))  # noqa: UP031
    assert fg.vmap(lambda x: ("%s" % x, f"{x}", x)[2])(np.ones(2)).shape == (2,)  # noqa: UP031


def test_a_number_that_is_not_there_is_not_lost():
    def f(x):
        try:
            return x * float(x)
        except TypeError:
            return x * x

    assert warned(lambda: fg.vmap(fg.grad(f))(np.array([1.0, 2.0]))) == []


def test_a_tape_that_is_not_asked_has_lost_nothing():
    x = fg.constant(2.0)

    def run():
        with fg.GradientTape() as tape:
            tape.watch(x)
            x * float(x)

    assert warned(run) == []


def test_a_gradient_that_is_missing_as_a_whole_is_said_once():
    """The warning of it names the line, too; other lines have one of their own."""

    def f(x, y):
        scale = math.exp(y)
        return x * scale * float(x)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fg.grad(f, argnums=(0, 1))(2.0, 3.0)
    assert [each.category for each in caught] == [errors.NoGradientWarning, errors.DetachedWarning]
    assert "the argument 'y' is zero" in str(caught[0].message)
    assert "scale = math.exp(y)" in str(caught[0].message)
    assert "x * scale * float(x)" in str(caught[1].message)


def test_rules_and_solvers_want_values():
    """Where a rule gives the derivative, numbers are no loss, in the function itself or in a callback."""

    @fg.custom_gradient
    def sine(x):
        return math.sin(x), lambda dy: dy * math.cos(x)

    seen = []

    def solved(a):
        def callback(intermediate_result):
            seen.append(float(intermediate_result.fun) + float(a))

        start = [float(fg.stop_gradient(a)), 0.0]
        return np.sum(fgrad.scipy.optimize.minimize(lambda x: np.sum((x - a) ** 2), start, callback=callback).x)

    assert warned(lambda: fg.grad(lambda x: x * sine(x))(2.0)) == []
    assert plain(fg.grad(sine)(2.0)) == math.cos(2.0)
    np.testing.assert_allclose(fg.grad(solved)(3.0), 2.0)
    assert seen


def test_threads_warn_apart():
    barrier = threading.Barrier(4)

    def work(scale):
        def f(x):
            barrier.wait()
            return x * math.sin(scale * x)

        fg.grad(f)(2.0)

    def run():
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(warned(run)) == 4


def test_a_number_that_another_thread_takes():
    def f(x):
        found = []
        thread = threading.Thread(target=lambda: found.append(math.sin(x)))
        thread.start()
        thread.join()
        return x * found[0]

    (text,) = warned(lambda: fg.grad(f)(2.0))
    assert "math.sin took" in text
