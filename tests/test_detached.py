"""Plain numbers that are taken of traced tensors: what is asked for decides, and never how it is spelled."""

import array
import cmath
import ctypes
import decimal
import fractions
import functools
import json
import logging
import math
import operator
import pickle
import re
import statistics
import struct
import threading
import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from helpers import plain

import fgrad as fg
import fgrad.scipy.optimize
from fgrad import errors


def store(x):
    result = np.zeros(2)
    result[0] = x


def store_in_slice(x):
    np.zeros(2)[:] = x


# What is asked for: the function, and its arguments for a traced number x

REFUSED = {
    "float": (float, lambda x: (x,)),
    "complex": (complex, lambda x: (x,)),
    "complex of two": (complex, lambda x: (x, x)),
    "math.sin": (math.sin, lambda x: (x,)),
    "math.atan2": (math.atan2, lambda x: (1.0, x)),
    "math.isfinite": (math.isfinite, lambda x: (x,)),
    "math.fsum": (math.fsum, lambda x: ([x, x],)),
    "cmath.exp": (cmath.exp, lambda x: (x,)),
    "statistics.fmean": (statistics.fmean, lambda x: ([x, x],)),
    "np.float64": (np.float64, lambda x: (x,)),
    "np.complex64": (np.complex64, lambda x: (x,)),
    "np.asarray of floats": (np.asarray, lambda x: (x, float)),
    "np.array of floats": (np.array, lambda x: ([x, x * x], float)),
    "np.fromiter": (np.fromiter, lambda x: ([x, x], float)),
    "astype": (lambda x: np.array([x, x]).astype(float), lambda x: (x,)),
    "array[i] = x": (store, lambda x: (x,)),
    "array[:] = x": (store_in_slice, lambda x: (x,)),
    "setitem": (operator.setitem, lambda x: (np.zeros(2), 0, x)),
    "array.fill": (np.ndarray.fill, lambda x: (np.zeros(2), x)),
    "array.array": (array.array, lambda x: ("d", [x])),
    "ctypes": (ctypes.c_double, lambda x: (x,)),
}
FREE = {
    "bool": (bool, lambda x: (x,)),
    "int": (int, lambda x: (x,)),
    "round": (round, lambda x: (x,)),
    "math.floor": (math.floor, lambda x: (x,)),
    "comparison": (operator.gt, lambda x: (x, 1.0)),
    "max": (max, lambda x: (x, 1.0)),
    "sorted": (sorted, lambda x: ([x, x],)),
    "format": (format, lambda x: (x, ".3f")),
    "str": (str, lambda x: (x,)),
    "item": (operator.methodcaller("item"), lambda x: (x,)),
    "tolist": (operator.methodcaller("tolist"), lambda x: (x,)),
}
COLLECTED = {
    "np.array": (np.array, lambda x: ([x, x * x],)),
    "np.array of objects": (np.array, lambda x: ([x, x * x], object)),
    "np.asarray": (np.asarray, lambda x: ([x, x * x],)),
    "np.asarray of a tensor": (np.asarray, lambda x: (np.stack([x, x * x]),)),
    "np.ascontiguousarray": (np.ascontiguousarray, lambda x: ([x, x * x],)),
    "np.full": (np.full, lambda x: (1, x + x * x)),
}


# How it is spelled


class Attributes:
    """Functions as attributes of a class, and in methods."""

    def __init__(self, function):
        self.function = function

    def method(self, *args):
        return self.function(*args)


def of_class_attribute(f, args):
    return type("Held", (), {"f": staticmethod(f)}).f(*args)


def of_source(f, args, name="somewhere.py"):
    names = {"f": f, **{f"x{i}": x for i, x in enumerate(args)}}
    exec(compile(f"found = f({', '.join(list(names)[1:])})", name, "exec"), names)
    return names["found"]


def of_local_name(f, args):
    g = f
    return g(*args)


def of_module(f, args):
    """As a function of a frozen module does it: without a source, and without the name of a module."""
    names = {"args": args, "f": f}
    exec(compile("def run(args):\n    return f(*args)\nfound = run(args)", "<frozen formulas>", "exec"), names)
    return names["found"]


SPELLINGS = {
    "star arguments": lambda f, args: f(*args),
    "a local name": of_local_name,
    "partial": lambda f, args: functools.partial(f, *args[:1])(*args[1:]),
    "a method": lambda f, args: Attributes(f).method(*args),
    "map": lambda f, args: next(map(f, *([x] for x in args))),
    "a lambda": lambda f, args: (lambda *given: f(*given))(*args),
    "a table": lambda f, args: {"f": f}["f"](*args),
    "exec of a source": of_source,
    "a class attribute": of_class_attribute,
    "getattr": lambda f, args: getattr(Attributes(f), "function")(*args),  # noqa: B009
    "a comprehension": lambda f, args: [f(*given) for given in [args]][0],  # noqa: RUF015
    "a call from C": lambda f, args: operator.call(f, *args),
    "a frozen module": of_module,
}

every_spelling = pytest.mark.parametrize("spelling", [pytest.param(s, id=name) for name, s in SPELLINGS.items()])


def ways(table):
    return pytest.mark.parametrize(
        ("function", "arguments"), [pytest.param(*way, id=name) for name, way in table.items()]
    )


@every_spelling
@ways(REFUSED)
def test_a_plain_number_is_refused_however_it_is_asked_for(function, arguments, spelling):
    with pytest.raises(errors.DetachedError, match=r"traced tensor.*derivative would be lost"):
        fg.grad(lambda x: (spelling(function, arguments(x)), x**3)[1])(2.0)
    assert spelling(function, arguments(np.float64(2.0))) is not NotImplemented  # as a plain number it runs


@every_spelling
def test_to_format_by_percent_is_to_ask_for_a_number(spelling):
    """From Python 3.15 on, an error of Python's own stands in place of ours."""
    with pytest.raises(TypeError) as raised:
        fg.grad(lambda x: (spelling(operator.mod, ("%.3f", x)), x**3)[1])(2.0)
    assert "from a traced tensor" in str(raised.value) or raised.value.__notes__
    with pytest.raises(TypeError) as raised:
        fg.grad(lambda x: "%.3f" % x)(2.0)  # noqa: UP031
    said = [str(raised.value), *getattr(raised.value, "__notes__", [])]
    assert any('Write f"{x:.3f}" for "%.3f" % x;' in each for each in said)


@every_spelling
@ways(FREE)
def test_to_look_is_free_however_it_is_spelled(function, arguments, spelling):
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slope = fg.grad(lambda x: (seen.append(spelling(function, arguments(x))), x**3)[1])(2.0)
    assert plain(slope) == 12.0
    if function is not str:
        assert seen[0] == function(*arguments(np.float64(2.0)))


@every_spelling
@ways(COLLECTED)
def test_an_array_of_traced_numbers_is_built_however_it_is_spelled(function, arguments, spelling):
    assert plain(fg.grad(lambda x: np.sum(spelling(function, arguments(x))))(3.0)) == 7.0


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


OF_OBJECTS = {
    "np.logical_or": (np.logical_or, lambda x: (np.array([x, 0.0]), np.array([x, x]))),
    "np.logical_and.reduce": (np.logical_and.reduce, lambda x: (np.array([x, 2.0]),)),
    "np.maximum of NaN": (np.maximum, lambda x: (np.array([x]), np.array([np.nan]))),
}


@every_spelling
@ways(OF_OBJECTS)
def test_where_objects_differ_from_numbers_every_spelling_is_refused(function, arguments, spelling):
    """NumPy would return the numbers themselves for truth values, and the number for NaN."""
    with pytest.raises(errors.ObjectArrayError):
        fg.grad(lambda x: np.sum(spelling(function, arguments(x))))(3.0)


def test_python_may_look_beside_an_array_of_traced_numbers():
    def f(x):
        y = np.array([x, 0.0])
        assert any([x, 0.0])
        assert not all([x, 0.0])
        assert (x and 2.0) == 2.0
        assert [bool(each) for each in [x, 0.0] if each] == [True]
        assert np.any(y)
        assert not y.all()
        counts = [y.astype(bool).sum(), np.count_nonzero(y)]  # by their names, which an assert would hide
        assert counts == [1, 1]
        return (x or 0.0) * len(y.nonzero()[0])

    assert plain(fg.grad(f)(3.0)) == 1.0


@pytest.mark.parametrize("mode", [pytest.param(mode, id=name) for name, mode in MODES.items()])
def test_every_transform_refuses(mode):
    def f(x):
        return x**3 + math.sin(x)

    line = f"at test_detached.py:{f.__code__.co_firstlineno + 1}: return x**3 + math.sin(x)"
    with pytest.raises(errors.DetachedError, match=re.escape(line)):
        mode(f)


# What messages say


def message_of(f, x=2.0):
    with pytest.raises(errors.DetachedError) as raised:
        fg.grad(f)(x)
    return str(raised.value)


def of_local_import(x):
    import math as mathematics

    return mathematics.sin(x)


def of_locally_imported_function(x):
    from math import sin

    return sin(x)


MESSAGES = {
    "math": (
        lambda x: math.sin(x),
        "math.sin requested",
        "Write np.sin for math.sin; x.item() for the plain number, or",
    ),
    "math, by another name": (lambda x: math.lgamma(x), "math.lgamma requested", "Write scipy.special.gammaln for"),
    "a local import": (of_local_import, "math.sin requested", "Write np.sin for math.sin;"),
    "a local function": (of_locally_imported_function, "math.sin requested", "Write np.sin for math.sin;"),
    "a default argument": (
        lambda x, f=math.sin: f(x),
        "Something requested",
        "Write np.sin for math.sin or cmath.sin, x",
    ),
    "map": (lambda x: sum(map(math.sin, [x, x])), "math.sin requested", "Write np.sin for math.sin;"),
    "a comprehension": (lambda x: max([math.sin(y) for y in [x, x]]), "math.sin requested", "np.sin for math.sin"),
    "cmath": (lambda x: cmath.exp(x).real, "cmath.exp requested", "Write np.exp for cmath.exp;"),
    "cmath, by another name": (lambda x: cmath.phase(x), "cmath.phase requested", "Write np.angle for cmath.phase;"),
    "fsum": (lambda x: math.fsum([x, x]), "math.fsum requested", "Write np.sum for math.fsum;"),
    "float": (
        lambda x: float(x),
        "float() requested",
        "Write x itself for float(x); x.item() for the plain number, or fg",
    ),
    "float as a key": (lambda x: min([x], key=float), "Something requested", "x itself for float(x)"),
    "complex": (lambda x: complex(x, 1.0).real, "complex() requested", "Write a + 1j * b for complex(a, b);"),
    "a type of NumPy": (lambda x: np.float32(x), "NumPy requested", "np.asarray(x), np.float32(x): omit it"),
    "an array's dtype": (lambda x: np.asarray(x, float), "NumPy requested", "np.asarray(x), np.float32(x): omit it"),
    "an array's element": (store, "NumPy requested", "create `result` with fgrad.numpy.zeros"),
    "NumPy's formatting": (lambda x: np.format_float_positional(x), "NumPy requested", "x.numpy()"),
}


@pytest.mark.parametrize(("f", "what", "instead"), [pytest.param(*row, id=name) for name, row in MESSAGES.items()])
def test_messages_say_what_asked_where_and_what_to_write(f, what, instead):
    text = message_of(f)
    place = f.__code__.co_firstlineno
    assert re.match(f"{re.escape(what)} a plain (number|array) from a traced tensor", text)
    assert any(f"  at test_detached.py:{place + i}: " in text for i in range(5))
    assert instead in text


OF_INTEGERS = {"comb", "factorial", "gcd", "isqrt", "lcm", "perm"}
FREE_OF_MATH = {"ceil", "floor", "trunc", "prod", "sumprod"}  # which round, or compute with the tensor itself
ARGUMENTS = {"dist": "[x], [0.5]", "fsum": "[x]", "ldexp": "x, 2", "fma": "x, 0.5, 0.5"}
ARGUMENTS |= {"isclose": "x, 0.5", "fmax": "x, 0.5", "fmin": "x, 0.5"}
ARGUMENTS |= dict.fromkeys(["atan2", "copysign", "fmod", "nextafter", "pow", "rect", "remainder"], "x, 0.5")
OF_ANY = {"isnormal", "issubnormal"}  # which have no like in NumPy: they look at a number


@pytest.mark.parametrize("module", [math, cmath])
def test_what_is_written_instead_is_there(module):
    for name, function in vars(module).items():
        if not callable(function) or name in OF_INTEGERS | FREE_OF_MATH or name.startswith("_"):
            continue
        call = f"{module.__name__}.{name}({ARGUMENTS.get(name, 'x')})"
        f = eval(f"lambda x: ({call}, x * x)[1]", {module.__name__: module})
        text = message_of(f, 1.5 if name == "acosh" else 0.5)
        if name in OF_ANY:
            assert f"Write {module.__name__}.{name}(x.item())" in text
            continue
        instead = re.findall(rf"Write (.*) for {module.__name__}\.{name};", text)
        assert instead, text
        for each in re.findall(r"np\.([a-z0-9]+)(?![a-z0-9.])", instead[0]):
            assert hasattr(np, each), text


def test_what_another_file_does_is_named_there(tmp_path):
    """A library's function may compute with what it gets; only the user can tell."""
    path = tmp_path / "formulas.py"
    path.write_text("import math\n\ndef wave(x):\n    return math.sin(x)\n", encoding="utf-8")
    names = {}
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), names)
    text = message_of(lambda x: x * names["wave"](x))
    assert "math.sin requested" in text
    assert "at formulas.py:4: return math.sin(x)" in text


X = np.array([1.0, 2.0, 4.0])
OF_SAMPLES = {
    "fmean": (lambda x: np.mean(np.stack(x)), {}),
    "geometric_mean": (lambda x: np.exp(np.mean(np.log(np.stack(x)))), {}),
    "harmonic_mean": (lambda x: 1 / np.mean(1 / np.stack(x)), {}),
    "stdev": (lambda x: np.std(np.stack(x), ddof=1), {}),
    "variance": (lambda x: np.var(np.stack(x), ddof=1), {}),
    "pstdev": (lambda x: np.std(np.stack(x)), {}),
    "pvariance": (lambda x: np.var(np.stack(x)), {}),
    "covariance": (lambda x, y: np.cov(np.stack(x), np.stack(y))[0, 1], {"y": X**2}),
    "correlation": (lambda x, y: np.corrcoef(np.stack(x), np.stack(y))[0, 1], {"y": X**2}),
    "linear_regression": (lambda x, y: np.polyfit(np.stack(x), np.stack(y), 1), {"y": X**2}),
}


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_functions_of_the_module_statistics_are_named_at_the_users_line(name):
    numpys, others = OF_SAMPLES[name]
    pythons = getattr(statistics, name)
    np.testing.assert_allclose(numpys(list(X), **others), pythons(list(X), *map(list, others.values())))

    def f(x):
        return pythons(list(x), *map(list, others.values()))  # the user's line

    with pytest.raises(TypeError) as raised:
        fg.grad(f)(X)
    text = "\n".join([str(raised.value), *getattr(raised.value, "__notes__", ())])
    assert f" for statistics.{name}; " in text
    assert "statistics.py" not in text
    if isinstance(raised.value, errors.DetachedError):
        assert re.search(r"  at test_detached.py:\d+: return .*# the user's line\n", text)


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: math.hypot(*x), "math.hypot requested .*Write np.hypot(x, y), or np.linalg.norm(x) of several"),
        (lambda x: math.hypot(x[0], *x), "math.hypot requested "),
        (lambda x: math.hypot(x[0], *[y for y in x]), "math.hypot requested "),  # noqa: C416
        (lambda x: math.dist(*[x, x + 1]), "Write np.linalg.norm(x - y) for math.dist"),
        (lambda x: math.pow(*x[:2]), "Write np.pow for math.pow"),
        (lambda x: math.fsum(*[x], **{}), "Write np.sum for math.fsum"),  # noqa: PIE804
        (lambda x: float(*x[:1]), "Write x itself for float(x)"),
    ],
)
def test_functions_of_math_with_star_arguments_are_named(f, text):
    with pytest.raises(errors.DetachedError, match=re.escape(text).replace(r"\.\*", "(.|\n)*")):
        fg.grad(f)(X)


REFUSED_BY_PYTHON = {
    "struct": (lambda x: struct.pack("d", x), struct.error, "struct takes plain numbers: x.item()"),
    "memoryview": (lambda x: memoryview(x), TypeError, "no memory: x.item() and x.numpy()"),
    "bytes": (lambda x: bytes(x), TypeError, "no memory"),
    "a dict": (lambda x: {x: 1}, TypeError, "cannot be a key of a dict"),
    "a set": (lambda x: {x}, TypeError, "cannot be a key of a dict"),
    "functools.cache": (functools.cache(lambda x: x), TypeError, "an argument of a cached function"),
    "a member of a set": (lambda x: x in {1.0, 2.0}, TypeError, "a member of a set"),
    "statistics.mean": (lambda x: statistics.mean([x, x]), TypeError, "Write np.mean(np.stack(values))"),
    "statistics.stdev": (
        lambda x: statistics.stdev([x, x]),
        TypeError,
        "Write np.std(np.stack(values), ddof=1) for statistics.stdev",
    ),
    "statistics.pvariance": (lambda x: statistics.pvariance([x, x]), TypeError, "Write np.var(np.stack(values)) for"),
    "statistics.harmonic_mean": (
        lambda x: statistics.harmonic_mean([x, x]),
        TypeError,
        "Write 1 / np.mean(1 / np.stack(values)) for statistics.harmonic_mean",
    ),
    "Decimal": (lambda x: decimal.Decimal(x), TypeError, "x.item()"),
    "Fraction": (lambda x: fractions.Fraction(x), TypeError, "x.item()"),
    "json": (lambda x: json.dumps(x), TypeError, "x.tolist()"),
}


@pytest.mark.parametrize(("f", "kind", "note"), [pytest.param(*r, id=name) for name, r in REFUSED_BY_PYTHON.items()])
def test_errors_of_pythons_say_what_to_write(f, kind, note):
    with pytest.raises(kind) as raised:
        fg.grad(fg.grad(lambda x: x * x if f(x) is None else x))(2.0)
    (said,) = raised.value.__notes__
    assert note in said


def test_the_error_is_pickled_and_is_a_type_error():
    with pytest.raises(TypeError) as raised:
        fg.grad(lambda x: x * float(x))(2.0)
    assert type(raised.value) is errors.DetachedError
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    for each in (errors.ArrayConversionError, errors.ObjectArrayError, errors.ScipyCallError):
        assert issubclass(each, errors.DetachedError)


OF_SCIPY = [
    "inv",
    "solve",
    "cholesky",
    "cho_factor",
    "svd",
    "pinv",
    "lstsq",
    "det",
    "lu_factor",
    "eigh",
    "qr",
    "solve_triangular",
    "expm",
    "sqrtm",
]
OF_TWO = {"solve", "lstsq", "solve_triangular"}


@pytest.mark.parametrize("name", OF_SCIPY)
def test_functions_of_scipy_name_the_one_to_write(name):
    """Whatever they want of the tensor: an array, a number or a truth value."""
    function, matrix = getattr(scipy.linalg, name), np.array([[2.0, 1.0], [1.0, 3.0]])
    args = (matrix[0],) if name in OF_TWO else ()
    for run in (
        lambda f: fg.grad(lambda a: np.sum(f(a)[0]))(matrix), lambda f: fg.jvp(f, (matrix,), (matrix,)),
        lambda f: fg.vmap(f)(matrix[None]), lambda f: fg.trace(f)(matrix), lambda f: fg.compile(f)(matrix),
    ):  # fmt: skip
        with warnings.catch_warnings(), pytest.raises(errors.ScipyCallError) as raised:
            warnings.simplefilter("ignore", DeprecationWarning)  # some versions of SciPy's warn of objects, and go on
            run(functools.partial(function) if not args else lambda a: function(a, *args))
        lines = str(raised.value).splitlines()
        assert lines[0].startswith(f"scipy.linalg.{name} takes plain arrays")
        assert lines[2].startswith(f"Write fgrad.scipy.linalg.{name}, which has the same arguments")
        assert len(lines) <= 4


def test_a_function_of_scipy_that_fgrad_has_called_is_not_named():
    """Its twin is what the user has called: the value that is wanted is an option."""

    def lowest(tol):
        return fgrad.scipy.optimize.minimize(lambda x: np.sum(x * x), [1.0], tol=tol).x

    with pytest.raises(errors.ConcretizationError):
        fg.compile(lowest)(1e-3)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_format_needs_a_value(is_compiled):
    def f(x):
        return x if f"{x:.3f}" else -x

    run = fg.compile(f) if is_compiled else fg.vmap(f)
    with pytest.raises(errors.ConcretizationError, match=r"formatting needs a value(.|\n)*Omit the format"):
        run(np.ones(2))


UNRELATED = {
    "Python": (lambda: (lambda x: x[0])(None), TypeError, "'NoneType' object is not subscriptable"),
    "SciPy": (lambda: scipy.optimize.brentq(lambda t: t**2 + 1, 0.0, 1.0), ValueError, "different signs"),
    "a mistake in a call of SciPy": (lambda: scipy.optimize.brentq(3, 0.0, 1.0), Exception, "callable"),
}


@pytest.mark.parametrize(("run", "kind", "text"), [pytest.param(*row, id=name) for name, row in UNRELATED.items()])
def test_errors_that_have_nothing_to_do_with_an_array_of_traced_numbers_stay_what_they_are(run, kind, text):
    def f(x):
        y = np.array([x, 2.0 * x])
        run()
        return np.sum(y)

    with pytest.raises(kind, match=text) as raised:
        fg.grad(f)(1.0)
    assert not isinstance(raised.value, errors.FgradError)
    assert not hasattr(raised.value, "__notes__")


def content_and_wrong(x):
    try:
        return float(x)
    except TypeError:
        return np.linalg.inv(np.zeros((2, 2)))


def reworded(x):
    try:
        return np.array([x, x], float)
    except Exception as error:
        raise KeyError("mine") from error


def test_what_is_raised_beside_or_on_top_of_an_error_by_the_users_own_doing_stays():
    with pytest.raises(np.linalg.LinAlgError):
        fg.grad(content_and_wrong)(1.0)
    with pytest.raises(KeyError):
        fg.grad(reworded)(1.0)


# What Python only looks at, and what is asked for in words


def of_logging(x):
    logger = logging.getLogger("test_detached")
    logger.addHandler(logging.NullHandler())
    record = logger.makeRecord("test_detached", logging.INFO, __file__, 1, "%s", (x,), None)
    assert record.getMessage() == str(x)


LOOKS = {
    "comparison": lambda x: x > 1.0,
    "branch": lambda x: 1.0 if x else 0.0,
    "bool": lambda x: bool(x),
    "int": lambda x: int(x),
    "max": lambda x: max(x, 1.0),
    "math.floor": lambda x: math.floor(x),
    "math.ceil": lambda x: math.ceil(x),
    "math.trunc": lambda x: math.trunc(x),
    "round": lambda x: round(x),
    "format": lambda x: format(x, ".3f"),
    "an f-string": lambda x: f"{x:.3f} {x} {x!r}",
    "str.format": lambda x: "{:.3e} {}".format(x, x),  # noqa: UP032
    "percent": lambda x: "%d %s" % (x, x),  # noqa: UP031
    "logging": of_logging,
    "str": lambda x: str(x),
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

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mode(f)


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_numbers_that_nothing_follows_any_more():
    x, kept = fg.constant(3.0), []
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            y = y + math.sin(x) * x
        with pytest.raises(errors.DetachedError):
            float(x * x)
    assert (float(y), math.sin(x)) == (9.0 + 3.0 * math.sin(3.0), math.sin(3.0))
    assert tape.gradient(y, x) is None
    value, gradient = fg.value_and_grad(lambda x: (kept.append(x), x * x)[1])(3.0)
    assert [float(each) for each in (value, gradient, kept[0])] == [9.0, 6.0, 3.0]


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
    assert plain(fg.grad(lambda x: 7.0 % x + x % 2.0)(3.0)) == -1.0


def test_to_format_cuts_nothing_and_needs_a_value():
    assert fg.explain(lambda x: (f"{x:.1f}", x)[1], 2.0)[0].reasons == ()
    assert fg.vmap(lambda x: ("%s" % x, f"{x}", x)[2])(np.ones(2)).shape == (2,)  # noqa: UP031


def test_who_is_content_without_a_number_may_go_on():
    def f(x):
        try:
            return x * float(x)
        except TypeError:
            return x * x

    assert plain(fg.grad(f)(2.0)) == 4.0
    np.testing.assert_array_equal(fg.vmap(fg.grad(f))(np.array([1.0, 2.0])), [2.0, 4.0])


def test_a_gradient_that_is_missing_as_a_whole_is_said_once():
    """An integer of it is no loss in itself; the warning names the line."""

    def f(x, y):
        scale = int(y)
        return x * scale

    with pytest.warns(errors.NoGradientWarning, match=r"the argument 'y' is zero(.|\n)*scale = int\(y\)") as caught:
        fg.grad(f, argnums=(0, 1))(2.0, 3.0)
    assert len(caught) == 1


def test_a_large_array_is_no_array_of_numbers():
    """Above 10 000 elements it would take long to make an object of each, whichever function asks."""
    for ask in (np.asarray, np.array, functools.partial(np.asarray)):
        with pytest.raises(errors.ArrayConversionError):
            fg.grad(lambda x, ask=ask: np.sum(ask(x)))(np.ones(10_001))


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

    assert plain(fg.grad(sine)(2.0)) == math.cos(2.0)
    np.testing.assert_allclose(fg.grad(solved)(3.0), 2.0)
    assert seen


def test_a_number_that_another_thread_takes():
    def f(x):
        found = []

        def work():
            try:
                found.append(math.sin(x))
            except errors.DetachedError as error:
                found.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        raise found[0]

    with pytest.raises(errors.DetachedError, match=r"math\.sin requested"):
        fg.grad(f)(2.0)


# Asked in words whether something is followed, and for plain arrays


def test_what_is_traced():
    seen = []

    def f(x):
        seen.extend([fg.is_traced(x), fg.is_traced(x * 2), fg.is_traced([x])])
        return fg.grad(lambda y: y * fg.is_traced(x))(x) * x

    kept = fg.grad(f)(3.0)
    assert seen == [True, True, False]
    assert [fg.is_traced(x) for x in (kept, 1.0, None, np.ones(2), fg.constant(1.0))] == [False] * 5
    variable = fg.Variable(1.0)
    with fg.GradientTape():
        assert fg.is_traced(variable)
    assert not fg.is_traced(variable)


def test_trees_as_plain_arrays():
    found = fg.to_numpy({"a": fg.constant([1.0, 2.0]), "b": (fg.constant(3.0), "text", None, fg.Variable(4))})
    assert type(found["a"]) is np.ndarray
    found["a"][0] = 5.0
    assert found["b"] == (3.0, "text", None, 4)
    assert type(found["b"][0]) is np.float64
    assert fg.to_numpy(2.0) == 2.0
    assert fg.to_numpy(fg.constant(2.0)) == 2.0
    with pytest.raises(errors.ExportError, match="fg.to_numpy would take a traced tensor out of its trace"):
        fg.grad(lambda x: fg.to_numpy([x])[0] * x)(1.0)
