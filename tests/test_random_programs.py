"""Random programs of NumPy statements that make views and copies of arrays and write into them.

A program is a shape and a list of statements, each a kind and three numbers. `source` makes a function of NumPy out of
it, `f(x)`, and that same function is run on a plain array and on traced tensors: the value must be that of the plain
run, the derivatives must be what differences of the plain run say.

    python tests/test_random_programs.py [count] [seed]

runs as many programs (50000 if not told) and prints the smallest failing program of each group, as text to be replayed.
"""

import re
import sys
import time
import traceback
from collections import Counter
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fgrad as fg
from fgrad.ops import indexing

# What a statement may say. In each, one finds
#   {u}  an array variable     {m}  rows of one             {t}  one of x's shape        {like}  another of u's shape
#   {o}  a variable or a part of one that broadcasts into u: an array, a scalar or a plain array; {r} is another
#   {view} {fancy} {places} {element} {other}  keys for u: basic, fancy, fancy for `add.at`, of one element
#   {e}  as o, but broadcasts into the part of u at the last key
#   {s}  a scalar variable     {n}  a scalar or an element  {c}  a number                {new} {second}  new variables
#   {p}  a plain array         {q}  as o, but plain         {part}  a key for p          {plain}  a new plain variable
KINDS = {
    "nothing": "",  # first, for Hypothesis to put in the place of a statement that does not matter
    # copies
    "copy": "{new} = {u}.copy()",
    "sine": "{new} = np.sin({u})",
    "tanh": "{new} = np.tanh({u} + {o})",
    "product": "{new} = {u} * np.cos({o})",
    "square": "{new} = 0.5 * {u}**2",
    "difference": "{new} = {u} - 0.5 * {o}",
    "weighted": "{new} = {u} * {q}",
    "weighted on the left": "{new} = {q} * {u}",
    "power of plain": "{new} = (1.5 + np.sin({u})) ** {q}",
    "where": "{new} = np.where(mask, {t}, {o})",
    "zeros_like": "{new} = np.zeros_like({u})",
    "fancy": "{new} = {u}[{fancy}]",
    "flatten": "{new} = {u}.flatten()",
    "stack": "{new} = np.stack([{u}, {like}])",
    "concatenate": "{new} = np.concatenate([{u}, {like}])",
    "matmul": "{new} = np.tanh({m} @ np.swapaxes({m}, -1, -2))",
    "matmul plain": "{new} = np.tanh(p @ {t}.T)",
    "rows added": "{new} = 0.0\nfor row in {m}:\n    {new} += row",
    # views
    "alias": "{new} = {u}",
    "view": "{new} = {u}[{view}]",
    "view of view": "{new} = {m}[0][::-1]",
    "transpose": "{new} = {u}.T",
    "reshape": "{new} = {u}.reshape({shape})",
    "ravel": "{new} = {u}.ravel()",
    "np.ravel": "{new} = np.ravel({u}.T)",
    "reversed": "{new} = {u}[::-1]",
    "split": "{new}, {second} = np.split({u}, [1], axis={long})",
    "unpacked": "{new}, *_ = {m}",
    "last row": "{new} = list({m})[-1]",
    "swapaxes": "{new} = np.swapaxes({u}, 0, -1)",
    "expand_dims": "{new} = np.expand_dims({u}, {axis})",
    "squeeze": "{new} = {u}.squeeze()",
    "flip": "{new} = np.flip({u}, {axis})",
    # writes
    "set view": "{u}[{view}] = +{e}",  # a new array: NumPy errs between 1-d views that overlap, as `v[::2] = v[:3]`
    "set fancy": "{u}[{fancy}] = {e}",
    "set element": "{u}[{element}] = {e}",
    "set all": "{u}[...] = {o}",
    "set number": "{u}[{view}] = {c}",
    "set plain": "{u}[...] = {q}",
    "add to view": "{u}[{view}] += {e}",
    "add to fancy": "{u}[{fancy}] += {e}",
    "add to element": "{u}[{element}] += {e}",
    "multiply view": "{u}[{view}] *= np.cos({e})",
    "divide fancy": "{u}[{fancy}] /= 1.0 + {e} ** 2",
    "set own part": "{u}[{view}] = np.sin({u}[{view}])",
    "view of view written": "{m}[-1][1:] = {n}",
    "add": "{u} += {o}",
    "add sine": "{u} += np.sin({o})",
    "subtract": "{u} -= {o}",
    "multiply": "{u} *= np.cos({o})",
    "multiply by number": "{u} *= {c}",
    "divide": "{u} /= 1.0 + {o} ** 2",
    "add out": "np.add({o}, {r}, out={u})",
    "multiply out": "{new} = np.multiply({o}, np.cos({r}), out={u})",
    "sine out": "np.sin({o}, out={u})",
    "add.at": "np.add.at({u}, np.s_[{places}], {e})",
    "multiply.at": "np.multiply.at({u}, np.s_[{places}], np.cos({e}))",
    "fill": "{u}.fill({n})",
    "copyto": "np.copyto({u}, {o})",
    "copyto where": "np.copyto({t}, {o}, where=mask)",
    "set masked": "{t}[mask] = {n}",
    "multiply masked": "{t}[mask] *= {c}",
    "swap rows": "{m}[0], {m}[-1] = {m}[-1], {m}[0]",
    "swap elements": "{u}[{element}], {u}[{other}] = {u}[{other}], {u}[{element}]",
    "each row": "for row in {m}:\n    row += 0.5 * row[::-1]",
    "each row set": "for i, row in enumerate({m}):\n    row[...] = np.sin(row) + i",
    "each row by index": "rows = {m}\nfor i in range(1, len(rows)):\n    rows[i] += 0.5 * rows[i - 1]",
    "into first row": "row = {m}[0]\nfor other in {m}[1:]:\n    row += other",
    "each element": "for i in range(1, {u}.shape[0]):\n    {u}[i] = np.sin({u}[i]) + 0.5 * {u}[i - 1]",
    "each number": "for number in {u}:\n    number = number + 1.0",
    # scalars
    "sum": "{new} = 0.1 * np.sum({u} * {o})",
    "mean": "{new} = {u}.mean()",
    "element": "{new} = {u}[{element}]",
    "sum of squares": "{new} = 0.0\nfor number in {u}.ravel():\n    {new} += 0.1 * number * number",
    "scalar alias": "{new} = {s}",
    "add to scalar": "{s} += np.sin({n})",
    "multiply scalar": "{s} *= np.cos({n})",
    "subtract from scalar": "{s} -= {n}",
    # plain arrays: masks, indices, work buffers
    "plain filled": "{p}[:] = {c}",
    "plain part": "{p}[{part}] = {c}",
    "plain added": "{p} += {c}",
    "plain part scaled": "{p}[{part}] *= -0.5",
    "plain view": "{plain} = {p}[{part}]",
    "plain copy": "{plain} = {p} * 2.0",
    "mask turned": "np.logical_not(mask, out=mask)",
    "mask set": "mask[...] = p > {c}",
    "index set": "index[:] = {index}",
}

# What a program starts with; what it never uses is left out.
START = {
    "p": "p = np.cos(np.arange({size})).reshape({shape})",
    "mask": "mask = np.cos(np.arange({size})).reshape({shape}) > 0",
    "index": "index = np.array([0, 1, 0])",
    "v1": "v1 = np.zeros_like(x)",
    "v2": "v2 = x * 1.0",
    "v3": "v3 = np.mean(x * x)",
}
SHAPES = [(4,), (2, 3), (3, 3), (6,)]
X = {shape: np.random.default_rng(8).uniform(-1.5, 1.5, shape).round(2) for shape in SHAPES}

VIEWS = {
    1: ["1:", "::-1", ":-1", "::2", "...", ":2", "None", "-2::-1"],
    2: ["0", ":, 0", "1:", ":, ::-1", "-1", "..., 1:", "::-1, :1", "None, 0"],
    3: ["0", ":, 0", "..., 0", "::-1", "-1, 0", "0, ..., 1:", ":, ::-1", "1:"],
}
FANCY = {
    1: ["[1, 0]", "[0, -1, 0]", "index", "[[0, 1], [1, 1]]", "[-1]", "[0, 1, 2]", "np.array([1, 1])", "[False, True]"],
    2: [
        "[1, 0]",
        "[0, 1], [1, 0]",
        ":, [0, -1]",
        "index",
        "[0, 0, 1]",
        "np.ix_([1, 0], [0, 1])",
        "index, 1",
        "1:, [0]",
    ],
    3: ["[1, 0]", "0, :, [0]", "index", "[0, 1], [1, 0]", "..., [0, -1]", ":, [0, 0]", "[0, 1], 0, 0", "[-1]"],
}
NUMBERS = ["0.5", "-1.0", "0.0", "0.25", "1.5", "-0.75", "2.0", "0.125"]
INDICES = ["1", "[1, 0, 0]", "0", "index[::-1]", "[0, 0, 1]", "1 - index", "[0, 1, 1]", "[1, 0, 1]"]

BIGGEST = 24
"""Elements of the largest array."""
LIMIT = 6.0
"""The largest number: what is larger is scaled down, in the program."""


class NothingToSayError(Exception):
    """A statement that makes no sense for the variables that there are."""


class Writer:
    """Writes a program's statements, and runs each on plain numbers to know what shapes there are."""

    def __init__(self, shape):
        self.shape, self.lines, self.count = shape, [], 0
        self.arrays, self.scalars, self.plain = ["x", "v1", "v2"], ["v3"], ["p"]
        self.values = {"np": np, "x": X[shape].copy()}
        self.start = {name: line.format(size=np.prod(shape), shape=shape) for name, line in START.items()}
        for line in self.start.values():
            exec(line, self.values)

    def write(self, kind, numbers):
        """Write one statement, and a line for each variable that has become too large."""
        words = Words(self, *numbers)
        self.run(KINDS[kind].format_map(words), words.created)
        for name in words.created:
            (self.arrays if np.ndim(self.values[name]) else self.scalars).append(name)
        self.plain += words.created_plain
        for name in self.arrays + self.scalars + self.plain:
            while np.max(np.abs(self.values[name])) > LIMIT:
                self.run(f"{name} *= 0.25")

    def run(self, statement, created=()):
        exec(statement, self.values)
        if not all(is_usual(self.values[name]) for name in created):
            raise NothingToSayError
        self.lines += statement.splitlines()

    def source(self):
        """Return the program as a function, without what it starts with and does not use."""
        lines, used = list(self.lines), set(re.findall(r"\w+", "\n".join(self.lines)))
        lines = [line for name, line in self.start.items() if name in used] + lines
        names = [name for name in self.arrays + self.scalars if name in {"x", *used}]
        each = "np.sum(np.sin(v) * np.cos(np.arange(v.size)).reshape(v.shape))"
        lines.append(f"return sum({each} for v in ({', '.join(names)},))")
        return "\n    ".join(["def f(x):", *lines]) + "\n"


class Words(dict):
    """What the names in a statement stand for, by three numbers; found out from left to right."""

    def __init__(self, writer, i, j, k):
        super().__init__()
        self.writer, self.i, self.j, self.k = writer, i, j, k
        self.created, self.created_plain, self.section = [], [], ()

    def __missing__(self, name):
        self[name] = getattr(self, name)()
        return self[name]

    def of(self, name):
        return np.shape(eval(name, self.writer.values))

    def fresh(self, kept, letter):
        self.writer.count += 1
        kept.append(f"{letter}{self.writer.count + 3}")
        return kept[-1]

    def new(self):
        return self.fresh(self.created, "v")

    second = new

    def plain(self):
        return self.fresh(self.created_plain, "p")

    def u(self):
        return one_of(self.writer.arrays, self.i)

    def m(self):
        name = one_of(self.writer.arrays, self.i)
        shape = self.of(name)
        if len(shape) > 1:
            return name
        return f"{name}[None]" if shape[0] % 2 else f"{name}.reshape(2, -1)"

    def t(self):
        self["u"] = one_of([name for name in self.writer.arrays if self.of(name) == self.writer.shape], self.i)
        return self["u"]

    def like(self):
        shape = self.of(self["u"])
        return one_of([name for name in self.writer.arrays if self.of(name) == shape], self.j)

    def o(self):
        return self.operand(self.j, self.of(self["u"]))

    def r(self):
        return self.operand(self.k, self.of(self["u"]))

    def e(self):
        return self.operand(self.j, self.section)

    def n(self):
        return self.operand(self.j, ())

    def q(self):
        return fitted(one_of(self.writer.plain, self.j), self.writer.values, self.of(self["u"]))

    def operand(self, number, shape):
        names = self.writer.plain + self.writer.scalars + self.writer.arrays
        return fitted(one_of(names, number), self.writer.values, shape)

    def s(self):
        return one_of(self.writer.scalars, self.i)

    def c(self):
        return NUMBERS[self.k]

    def index(self):
        return INDICES[self.k]

    def p(self):
        return one_of(self.writer.plain, self.i)

    def key(self, keys, number, name):
        """Return a key that selects something of an array, and keep the shape of what it selects."""
        values = self.writer.values
        known = [key for key in keys.get(len(self.of(name)), ()) if selects(values[name], key, values)]
        if not known:
            raise NothingToSayError
        key = known[number % len(known)]
        self.section = self.of(f"{name}[{key}]")
        return key

    def view(self):
        return self.key(VIEWS, self.k, self["u"])

    def fancy(self):
        return self.key(FANCY, self.k, self["u"])

    def places(self):
        """Return a key for `add.at`, where NumPy is wrong about numbers that broadcast into a matrix of indices."""
        keys = {dimensions: [key for key in known if "[[" not in key] for dimensions, known in FANCY.items()}
        return self.key(keys, self.k, self["u"])

    def part(self):
        return self.key(VIEWS, self.j, self["p"])

    def element(self):
        return self.place(self.k)

    def other(self):
        return self.place(self.j)

    def place(self, number):
        shape = self.of(self["u"])
        return ", ".join(map(str, np.unravel_index(number % np.prod(shape), shape)))

    def axis(self):
        return str(self.k % len(self.of(self["u"])))

    def long(self):
        axes = [axis for axis, length in enumerate(self.of(self["u"])) if length > 1]
        if not axes:
            raise NothingToSayError
        return str(axes[self.k % len(axes)])

    def shape(self):
        size = int(np.prod(self.of(self["u"])))
        return str(shapes_of(size)[self.k % len(shapes_of(size))])


def one_of(names, number):
    """Return x for 0, the newest for 1, the one before for 2."""
    return names[-number % len(names)]


def is_usual(value):
    """Return whether a value is a number, or an array of a few dimensions and elements."""
    return not isinstance(value, np.ndarray) or (0 < value.ndim < 4 and 0 < value.size <= BIGGEST)


def selects(array, key, values):
    try:
        return eval(f"array[{key}]", {**values, "array": array}).size > 0
    except IndexError:
        return False


def fitted(name, values, shape):
    """Return the variable or a part of it, as text, that broadcasts to a shape."""
    return name + part_that_fits(np.shape(values[name]), shape)


@lru_cache(None)
def part_that_fits(own, shape):
    for part in ("", ".T", "[0]", "[:, 0]", "[0, 1:]", "[..., 0]"):
        try:
            result = eval(f"own{part}", {"own": np.empty(own)})
            np.broadcast_to(result, shape)
        except (IndexError, ValueError, AttributeError):
            continue
        if np.ndim(result) and result.size:
            return part
    return f"[{', '.join('0' for _ in own)}]" if own else ""


@lru_cache(None)
def shapes_of(size):
    return [(size,), (1, size), (size, 1), *[(n, size // n) for n in range(2, size) if size % n == 0]]


def source(program):
    """Return a program as the text of a function."""
    shape, statements = program
    writer = Writer(shape)
    for kind, *numbers in statements:
        try:
            writer.write(kind, numbers)
        except NothingToSayError:
            continue
    return writer.source()


def compiled(text):
    names = {"np": np}
    exec(compile(text, "<program>", "exec"), names)
    return names["f"]


def replay(program):
    """Return a program as a file that prints its gradient."""
    x = np.array2string(X[program[0]], separator=", ")
    return f"import numpy as np, fgrad as fg\n\n{source(program)}\nprint(fg.grad(f)(np.array({x})))\n"


DIRECTIONS = {shape: np.random.default_rng(6).normal(size=(2, *shape)) for shape in SHAPES}
STENCIL = [(-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12)]


def slope(f, x, direction, step=2e-4):
    """Return the derivative of a plain run along a direction, by central differences of fourth order."""
    return float(sum(weight * f(x + place * step * direction) for place, weight in STENCIL)) / step


def curvature(f, x, first, second, step=2e-3):
    """Return the second derivative of a plain run along two directions."""
    return slope(lambda x: slope(f, x, second, step), x, first, step)


def differs(found, expected, tolerance):
    return not abs(found - expected) <= tolerance * (1.0 + abs(expected))


def by_value_and_grad(f, x):
    value, gradient = fg.value_and_grad(f)(x)
    return value, gradient.numpy()


def by_grad(f, x):
    return None, fg.grad(f)(x).numpy()


def by_tape(f, x):
    watched = fg.Tensor(x)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(watched)
        value = f(np.copy(watched))
    zero = fg.UnconnectedGradients.ZERO
    first, again = [tape.gradient(value, watched, unconnected_gradients=zero).numpy() for _ in range(2)]
    return value, np.where(first == again, first, np.nan)


def by_jvp(f, x):
    value, tangent = fg.jvp(f, (x,), (DIRECTIONS[x.shape][0],))
    return value, float(tangent)


def untraced(f, x):
    return f(fg.Tensor(x)), None


WAYS = [untraced, by_value_and_grad, by_grad, by_jvp, by_tape]


def fault(program):
    """Return what is wrong with a program's value or first derivatives, or None."""
    f, x = compiled(source(program)), X[program[0]]
    value = float(f(x.copy()))
    slopes = [slope(f, x, direction) for direction in DIRECTIONS[x.shape]]
    for way in WAYS:
        problem = compare(way, f, x, value, slopes)
        if problem:
            return f"{way.__name__}: {problem}"
    return None


def compare(way, f, x, value, slopes):
    given, before = x.copy(), x.tobytes()
    try:
        found, derivative = way(f, given)
    except Exception as error:
        return raised(error)
    if given.tobytes() != before:
        return "x was written to"
    if found is not None and differs(float(found), value, 1e-10):
        return f"value {float(found)!r}, not {value!r}"
    if derivative is None:
        return None
    if type(derivative) is not float and derivative.shape != x.shape:
        return f"a gradient of shape {derivative.shape}"
    along = [derivative] if type(derivative) is float else along_all(derivative)
    if any(differs(*pair, 1e-6) for pair in zip(along, slopes, strict=False)):
        return f"slopes {along}, not {slopes[: len(along)]}"
    return None


def fault_of_a_batch(program):
    """Return what is wrong with the values of a batch of inputs, or None."""
    f, x = compiled(source(program)), X[program[0]]
    try:
        found = fg.vmap(f)(np.stack([x, -x])).tolist()
    except Exception as error:
        return raised(error)
    expected = [float(f(x.copy())), float(f(-x))]
    if any(differs(*pair, 1e-10) for pair in zip(found, expected, strict=True)):
        return f"values {found}, not {expected}"
    return None


def along_all(gradient):
    return [float(np.sum(gradient * direction)) for direction in DIRECTIONS[gradient.shape]]


def fault_of_second_order(program):
    """Return what is wrong with a program's Hessian-vector product, or None."""
    f, x = compiled(source(program)), X[program[0]]
    first, second = DIRECTIONS[x.shape]
    expected = [curvature(f, x, first, first), curvature(f, x, second, first)]
    try:
        product = fg.hvp(f)(x, first).numpy()
    except Exception as error:
        return raised(error)
    along = along_all(product)
    if any(differs(*pair, 1e-5) for pair in zip(along, expected, strict=True)):
        return f"curvatures {along}, not {expected}"
    return None


def raised(error):
    """Return an error as text, with the number of the program's line."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<program>"]
    return f"{type(error).__name__} in line {lines[-1] if lines else '?'}: {error}"


STATEMENTS = st.tuples(st.sampled_from(list(KINDS)), st.integers(0, 7), st.integers(0, 7), st.integers(0, 7))


@contextmanager
def as_for_large_arrays():
    before, indexing._FEW = indexing._FEW, 0
    try:
        yield
    finally:
        indexing._FEW = before


PROGRAMS = st.tuples(st.sampled_from(SHAPES), st.lists(STATEMENTS, min_size=4, max_size=12))
UNHURRIED = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@settings(UNHURRIED, max_examples=200)
@given(PROGRAMS)
def test_value_and_derivative_are_those_of_the_plain_run(program):
    problem = fault(program)
    assert problem is None, f"{problem}\n{replay(program)}"


@settings(UNHURRIED, max_examples=60)
@given(PROGRAMS)
def test_second_derivative_is_that_of_the_plain_run(program):
    problem = fault_of_second_order(program)
    assert problem is None, f"{problem}\n{replay(program)}"


@settings(UNHURRIED, max_examples=80)
@given(PROGRAMS)
def test_cotangents_that_are_gathered_in_one_buffer(program):
    """As they are for large arrays."""
    with as_for_large_arrays():
        problem = fault(program) or fault_of_second_order(program)
    assert problem is None, f"{problem}\n{replay(program)}"


@settings(UNHURRIED, max_examples=150)
@given(PROGRAMS)
def test_a_batch_is_run_as_its_elements_are(program):
    problem = fault_of_a_batch(program)
    assert problem is None, f"{problem}\n{replay(program)}"


# The programs themselves, on plain arrays.


def drawn(generator):
    """Return a random program, without Hypothesis."""
    kinds, count = list(KINDS), generator.integers(4, 13)
    statements = [(kinds[generator.integers(len(kinds))], *map(int, generator.integers(0, 8, 3))) for _ in range(count)]
    return SHAPES[generator.integers(len(SHAPES))], statements


def some_programs(count):
    generator = np.random.default_rng(0)
    return [drawn(generator) for _ in range(count)]


class Same(np.ndarray):
    """An array with nothing wrong about it, but that numbers come out of it as from `np.ndarray`."""

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return super().__array_wrap__(array, context, return_scalar)[()]

    def mean(self, **keywords):
        return np.sum(self) / self.size


class ZeroPullback(Same):
    """An array whose views are copies: a fault in the meaning of programs, which they have to tell."""

    def __getitem__(self, key):
        return super().__getitem__(key).copy()

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    T = property(lambda self: super().T.copy())

    def reshape(self, *args, **keywords):
        return super().reshape(*args, **keywords).copy()

    def ravel(self, order="C"):
        return super().ravel(order).copy()


class Rebound(Same):
    """An array of which in-place operators make a new one."""

    def __iadd__(self, other):
        return self + other

    def __isub__(self, other):
        return self - other

    def __imul__(self, other):
        return self * other

    def __itruediv__(self, other):
        return self / other


def share_told(kind, programs):
    """Return the share of programs whose value is another one on a kind of array."""
    told = 0
    for program in programs:
        f, x = compiled(source(program)), X[program[0]]
        told += differs(float(f(x.copy().view(kind))), f(x.copy()), 1e-10)
    return told / len(programs)


def test_differences_of_plain_runs_do_not_depend_on_the_step():
    for program in some_programs(150):
        f, x = compiled(source(program)), X[program[0]]
        for direction in DIRECTIONS[x.shape]:
            assert not differs(slope(f, x, direction), slope(f, x, direction, 1e-3), 1e-7), replay(program)


def test_programs_say_everything():
    said = Counter()
    for shape, statements in some_programs(600):
        writer = Writer(shape)
        for kind, *numbers in statements:
            before = len(writer.lines)
            try:
                writer.write(kind, numbers)
            except NothingToSayError:
                assert len(writer.lines) == before
            else:
                said[kind] += 1
    assert min(said[kind] for kind in KINDS) > 10


def test_programs_tell_views_from_copies():
    programs = some_programs(150)
    assert share_told(Same, programs) == 0.0
    assert share_told(ZeroPullback, programs) > 0.4
    assert share_told(Rebound, programs) > 0.15


# Many programs, by hand.


def cause(problem):
    """Return what is wrong without its numbers."""
    return re.split(r"-?\d|: nan", re.sub(r" in line [\d?]+", "", problem.split(": ", 1)[1]))[0].strip()


def shrunk(program, problem):
    """Return the smallest program that was found to be wrong in the same way."""
    for smaller in smaller_ones(program):
        found = fault(smaller)
        if found and cause(found) == cause(problem):
            return shrunk(smaller, found)
    return program, problem


def smaller_ones(program):
    shape, statements = program
    for place in reversed(range(len(statements))):
        yield shape, statements[:place] + statements[place + 1 :]
    for place, statement in enumerate(statements):
        for position in (1, 2, 3):
            for number in range(statement[position]):
                less = (*statement[:position], number, *statement[position + 1 :])
                yield shape, [*statements[:place], less, *statements[place + 1 :]]


def main(count=50_000, seed=0, shown=40):
    """Run random programs; print how many are wrong, and of the first ones each group's smallest."""
    generator, start, causes, groups = np.random.default_rng(seed), time.perf_counter(), Counter(), {}
    for _ in range(count):
        program = drawn(generator)
        problem = fault(program)
        if problem is None:
            continue
        causes[cause(problem)] += 1
        if causes.total() <= shown:
            program, problem = shrunk(program, problem)
            group = groups.setdefault((cause(problem), *sorted({kind for kind, *_ in program[1]})), [])
            group.append((len(source(program)), problem, replay(program)))
    for group in sorted(groups.values(), key=len):
        _, problem, text = min(group)
        print(f"# {len(group)} of the first {shown} failures\n# {problem}\n{text}\n")
    for text, number in causes.most_common():
        print(f"{number:7d}  {text}")
    print(f"{causes.total()} of {count} programs are wrong; {time.perf_counter() - start:.0f} s")
    return causes.total()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])) > 0)
