"""How compiled functions behave: arguments and results, methods, transforms, variables, what is refused, threads."""

import collections
import copy
import dataclasses
import fractions
import functools
import gc
import inspect
import pickle
import subprocess
import sys
import threading
import time
import types
import warnings
import weakref
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
import scipy.optimize
import test_random_programs as programs
from hypothesis import given, settings
from hypothesis import strategies as st
from test_interrupts import interrupted_at

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.trace import observing, running
from fgrad.core.tree import flatten
from fgrad.core.variable import open_watches
from fgrad.errors import (
    CompileWarning,
    ConcretizationError,
    FrozenValueError,
    LeakedTensorError,
    MissingExtraError,
    NotCallableError,
    ParameterError,
    ShapeError,
    StructureError,
    UnsupportedError,
)
from fgrad.graphs.record import RecordTrace, recorded
from fgrad.native import segments
from fgrad.native.machine import Machine, Module
from fgrad.native.purity import check_repeats
from fgrad.scipy import integrate, optimize

pytest.importorskip("llvmlite")

GRID = np.arange(12.0).reshape(3, 4)
X = np.linspace(0.3, 1.7, 5)
V = np.linspace(-1.0, 1.0, 5)
M = np.random.default_rng(0).normal(size=(5, 5))


def wave(x):
    return np.sin(x) * 2 + x


def vector(x):
    return np.tanh(M @ x) * np.sin(x) + x[::-1] * np.cumsum(x)


def loss(x):
    return np.sum(vector(x) ** 2) + np.prod(x)


def as_leaf(x):
    return x if x is None or isinstance(x, (str, fg.Variable)) else np.asarray(x)


def assert_same(found, wanted):
    """Numbers of the same dtypes and shapes, in the same containers."""
    found, treedef = flatten(found)
    wanted, outline = flatten(wanted)
    assert treedef == outline
    for x, y in zip(map(as_leaf, found), map(as_leaf, wanted), strict=True):
        if isinstance(x, np.ndarray):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            tolerance = 1e-4 if x.dtype in (np.float32, np.complex64, np.float16) else 1e-9
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance / 10)
        else:
            assert x is y or x == y


# Arguments and results

UNALIGNED = np.frombuffer(b"\0" + GRID.tobytes(), np.uint8)[1:].view(np.float64)
READ_ONLY = GRID.copy()
READ_ONLY.flags.writeable = False
ARRAYS = {
    "big-endian": GRID.astype(">f8"),
    "transposed": GRID.T,
    "every other": GRID[:, ::2],
    "backwards": GRID[::-1, ::-1],
    "unaligned": UNALIGNED,
    "read-only": READ_ONLY,
    "empty": np.zeros((0, 3)),
    "broadcast": np.broadcast_to(1.5, (3, 4)),
    "of no axes": np.array(1.5),
    "a number of NumPy's": np.float32(1.5),
    "a number of Python's": 1.5,
    "complex": 1.5j,
    "an integer": 3,
    "half": GRID.astype(np.float16),
    "long": GRID.astype(np.longdouble),
    "single complex": GRID.astype(np.complex64),
    "tensor": fg.constant(GRID),
    "subclass": GRID.view(type("Own", (np.ndarray,), {})),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_every_kind(name):
    x = ARRAYS[name]
    before = np.array(x)
    compiled = fg.compile(wave)
    for _ in range(2):
        assert_same(compiled(x), wave(fg.Tensor(np.asarray(x)) if isinstance(x, np.ndarray) else x))
    assert np.array_equal(before, np.asarray(x))


def test_one_program_for_arrays_in_the_same_memory_order():
    compiled = fg.compile(wave)
    for x in (GRID, GRID.T.copy().T, np.tile(GRID, 2)[:, ::2], READ_ONLY, GRID[::-1][::-1]):
        assert_same(compiled(x), fg.Tensor(wave(x)))
    assert compiled._programs.count == 3  # in C order, in F order, and with gaps


class Pair(NamedTuple):
    first: object
    second: object


@dataclasses.dataclass
class Settings:
    scale: object
    kind: str


SINGLE = GRID.astype(np.float32)
CALLS = [
    (lambda x, y: x * y + y, (SINGLE, 2.0), {}),
    (lambda x, y: x * y + y, (SINGLE, np.float64(2.0)), {}),
    (lambda x, y, z: z * (x * y), (1.0, 2.0, SINGLE), {}),
    (lambda x, y: x + y, (np.arange(3, dtype=np.int8), 1), {}),
    (lambda x, y: x // y + x % y - x * y, (np.arange(3), np.array([2, 3, -4])), {}),
    (lambda x, y: (x & y) | ~x, (np.array([True, False]), np.array([True, True])), {}),
    (lambda x: x + x * 3, (np.arange(100, dtype=np.uint8),), {}),
    (lambda p: {key: np.sin(x) for key, x in p.items()}, ({"w": GRID, "b": GRID[0]},), {}),
    (lambda p, *, k=2.0, s="+": p["a"] + k if s == "+" else p["a"] - k, ({"a": GRID},), {"k": GRID[0], "s": "-"}),
    (lambda x, k=2.0, n=3: x * k**n, (GRID,), {}),
    (lambda *args, **keywords: sum(args) + sum(keywords.values()), (GRID, GRID[0]), {"c": GRID, "d": 2.0}),
    (lambda p: Pair(p.second, p.first * 2), (Pair(GRID, GRID + 1),), {}),
    (lambda x, name: getattr(np, name)(x), (GRID, "cos"), {}),
    (lambda x, y: x if y is None else y, (GRID, None), {}),
    (lambda xs: sum(xs), ([1.0, 2.0, GRID],), {}),
    (lambda x, g: g(x), (GRID, np.tanh), {}),
    (lambda x, dtype: x.astype(dtype), (GRID, np.float32), {}),
    (lambda x, key: x[key], (GRID, slice(1, 3)), {}),
    (lambda x, n: sum(x * i for i in range(n)), (GRID, 3), {}),
    (lambda x, flag: x if flag else -x, (GRID, True), {}),
    (lambda x: {"a": None, "b": "text", "c": [x, 2, 3.5, (x + 1,)]}, (GRID,), {}),
    (lambda x: (1, 2.5, np.arange(3.0), None), (GRID,), {}),
    (lambda x: None, (GRID,), {}),
    (lambda x: np.max(x, axis=1), (GRID,), {}),
    (lambda x: np.sum(x) + 1, (np.zeros((0, 3)),), {}),
]


@pytest.mark.parametrize("place", range(len(CALLS)))
def test_calls_of_every_kind(place):
    function, args, keywords = CALLS[place]
    compiled = fg.compile(function)
    wanted = fg.tree_map(lambda x: x if isinstance(x, str) else fg.Tensor(x), function(*args, **keywords))
    for _ in range(2):
        assert_same(compiled(*args, **keywords), wanted)


class Registered:
    def __init__(self, parts, unit):
        self.parts, self.unit = parts, unit


fg.register_pytree_node(Registered, lambda x: (x.parts, x.unit), lambda unit, parts: Registered(list(parts), unit))

ROW = GRID[0]
LAYOUTS = [
    (({"w": ROW, "b": ROW + 1},), {}),
    (({"b": ROW + 1, "w": ROW},), {}),
    (({"w": [ROW], "b": (ROW, 2.0)},), {}),
    (([ROW, [ROW + 1, {"c": 2.0}]], (ROW,)), {}),
    (([ROW, [ROW + 1], {"c": 2.0}], (ROW,)), {}),
    (([ROW], [ROW, ROW + 1]), {}),
    (([ROW, ROW + 1], [ROW]), {}),
    (([ROW, ROW + 1, ROW],), {}),
    (((ROW, ROW + 1, ROW),), {}),
    ((Pair(ROW, {"x": ROW + 1}),), {}),
    ((Pair((ROW,), [ROW + 1]),), {}),
    ((Registered([ROW, ROW + 1], "m"),), {}),
    ((Registered([ROW, ROW + 1], "s"),), {}),
    ((Registered([ROW], "s"), ROW), {}),
    (([ROW, None, ROW + 1],), {}),
    (([None, ROW, ROW + 1],), {}),
    (([ROW],), {"scale": {"x": ROW}}),
    (([ROW],), {"shift": {"x": ROW}}),
    (([ROW.astype(np.float32), ROW],), {}),
    (([ROW, ROW.astype(np.float32)],), {}),
    (([fg.Tensor(ROW), np.float64(2.0)],), {}),
    (({1: ROW, "a": ROW},), {}),  # names that cannot be put in order
    (({"w": ROW, "count": 3},), {}),
]


@pytest.mark.filterwarnings("ignore::fgrad.errors.CompileWarning")
def test_containers_find_the_program_that_was_made_for_them():
    def outline(*args, **keywords):
        leaves, treedef = flatten((args, keywords))
        return [np.sum(x) * (place + 1) for place, x in enumerate(leaves)], len(str(treedef))

    compiled = fg.compile(outline)
    for _ in range(3):
        for place in np.random.default_rng(0).permutation(len(LAYOUTS)):
            args, keywords = LAYOUTS[place]
            totals, length = compiled(*args, **keywords)
            expected, told = outline(*args, **keywords)
            np.testing.assert_allclose(totals, expected, err_msg=str(place))
            assert length == told
    assert compiled.inspect(*LAYOUTS[0][0]).programs == len(LAYOUTS)


def first_of(x):
    return next(iter(x.values())) * 1.0


def named_by_keys(x):
    return {str(key): value * 1.0 for key, value in x.items()}


ALIKE = [
    # what is compiled, and calls that differ in no leaf, and in no container by `==`
    (first_of, [(({"a": ROW, "b": ROW + 1},), {}), (({"b": ROW + 1, "a": ROW},), {})]),
    (named_by_keys, [(({key: ROW},), {}) for key in (1, True, 1.0)]),
    (
        lambda x: {type(key).__name__: value * 1.0 for key, value in x.items()},
        [(({key: ROW},), {}) for key in ("a", np.str_("a"), "a")],
    ),
    (
        lambda x, y: x[0] - y["y"] if isinstance(x, tuple) else x * 1000 + y,
        [((ROW,), {"y": ROW + 1}), (((ROW,), {"y": ROW + 1}), {})],
    ),
    (lambda p: p.parts[0] * p.unit, [((Registered([np.arange(3)], unit),), {}) for unit in (2, 2.0, True, 1)]),
    (lambda p: p.parts[0] * p.unit[0], [((Registered([ROW], (unit,)),), {}) for unit in (0.0, -0.0)]),
    (lambda p: p.parts[0] * p.unit, [((Registered([ROW], unit),), {}) for unit in (np.ones(4), np.zeros(4))]),
]


@pytest.mark.parametrize(("function", "calls"), ALIKE)
def test_calls_that_are_nearly_alike_have_programs_of_their_own(function, calls):
    compiled = fg.compile(function)
    for _ in range(2):
        for args, keywords in calls:
            wanted = fg.tree_map(fg.Tensor, function(*args, **keywords))
            assert repr(compiled(*args, **keywords)) == repr(wanted)
    if function is first_of:
        slopes = [fg.grad(lambda x: np.sum(compiled(x)))(*args) for args, _ in calls]
        assert [float(np.sum(each["a"])) for each in slopes] == [ROW.size, 0.0]


def test_what_an_object_of_a_registered_class_holds_may_change():
    compiled, x = fg.compile(lambda p: p.parts[0] * p.unit[0]), Registered([ROW], [2.0])
    for factor in (2.0, 2.0, 5.0, 5.0):
        x.unit[0] = factor
        assert_same(compiled(x), fg.Tensor(ROW * factor))


def test_programs_of_containers_that_are_dropped_are_found_no_more():
    factor = [2.0]
    compiled = fg.compile(lambda p: p["x"] * factor[0])
    for _ in range(2):
        assert compiled({"x": 3.0}) == 6.0
    factor[0] = 5.0
    for _ in range(2):
        assert compiled({"x": 3.0}) == 15.0
    many = fg.compile(lambda p: p["x"] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size in range(1, 70):
            many({"x": np.ones(size)})
    assert len(many.programs.by_layout) == len(many.programs.known) < 69


def test_containers_of_traced_arrays_are_differentiated():
    compiled = fg.compile(lambda p: np.sum(p["w"] ** 2 * p["b"]))
    params = {"w": ROW, "b": ROW + 1}
    for _ in range(2):
        assert_same(compiled(params), fg.Tensor(np.sum(ROW**2 * (ROW + 1))))
        assert_same(fg.grad(compiled)(params), {"w": fg.Tensor(2 * ROW * (ROW + 1)), "b": fg.Tensor(ROW**2)})


@pytest.mark.slow
def test_more_arrays_than_python_may_recurse():
    count = 1100
    values = [float(i) for i in range(count)]
    compiled = fg.compile(sum)
    assert compiled(values) == count * (count - 1) / 2
    gradients = fg.compile(fg.grad(lambda xs: sum(xs) ** 2))(values)
    assert gradients == [count * (count - 1)] * count


def test_a_class_that_is_no_container_is_part_of_the_program():
    chosen = fg.compile(lambda x, settings: x * settings.scale)
    double, triple = Settings(2.0, "a"), Settings(3.0, "a")
    assert_same([chosen(GRID, double), chosen(GRID, triple)], [fg.Tensor(GRID * 2), fg.Tensor(GRID * 3)])


@pytest.mark.parametrize("kind", [np.ma.array, np.matrix])
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_arrays_with_a_meaning_of_their_own_are_refused(kind):
    compiled = fg.compile(wave)
    for _ in range(2):
        with pytest.raises(StructureError):
            compiled(kind([[1.0, 2.0]]))
        compiled(np.array([[1.0, 2.0]]))
    with pytest.raises(StructureError):
        fg.vmap(wave)(kind([[1.0, 2.0]]))


def test_errors_of_numpy_stay():
    with pytest.raises(ValueError, match="zero-size array to reduction operation maximum"):
        fg.compile(np.max)(np.zeros((0, 3)))
    with pytest.raises(OverflowError):
        fg.compile(lambda x, y: x + y)(np.arange(3, dtype=np.int8), 1000)
    chosen = fg.compile(lambda x, i: x[i])
    chosen(GRID, np.array([2, 1]))
    with pytest.raises(IndexError, match="out of bounds"):
        chosen(GRID, np.array([2, 9]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x, x, y, x.T, x[1:], x.reshape(4, 3)),
        lambda x, y: (lambda z: (z, z, z.T))(np.sin(x)),
        lambda x, y: (np.arange(3.0), np.sort(x)[::-1], x.ravel(), np.asarray(x)),
    ],
)
def test_results_share_no_memory(function):
    x = GRID.copy()
    compiled = fg.compile(function)
    for _ in range(2):
        found = [each.value for each in compiled(x, x)]
        assert_same(found, list(function(x, x)))
        for place, one in enumerate(found):
            assert not any(np.shares_memory(one, other) for other in [x, *found[:place]])
    first, second = compiled(x, x), compiled(x, x)
    assert not any(np.shares_memory(a.value, b.value) for a, b in zip(first, second, strict=True))


def test_arguments_of_a_call_are_not_kept():
    x = np.arange(5.0)
    held = weakref.ref(x)
    compiled = fg.compile(wave)
    compiled(x)
    fg.grad(lambda x: np.sum(compiled(x)))(x)
    del x
    assert held() is None


# What is part of a program


def counted(function):
    """Return a function that counts its recordings, of which there are two for each program."""
    calls = []

    @functools.wraps(function)
    def counting(*args, **keywords):
        calls.append(1)
        return function(*args, **keywords)

    return counting, calls


@pytest.mark.parametrize(
    ("one", "other"),
    [(0.0, -0.0), (np.zeros(5), -np.zeros(5)), (1, True), (2.0, np.float64(2.0)), (np.ones(5), np.ones(5, np.float32))],
)
def test_static_values_that_differ_have_programs_of_their_own(one, other):
    function, calls = counted(lambda x, k: x / k)
    quotient = fg.compile(function, static="k")
    with np.errstate(all="ignore"):
        for value in (one, other, one):
            assert_same(quotient(X, value), fg.Tensor(X / value))
    assert len(calls) == 4


def test_static_values_that_are_alike_share_a_program():
    for value in (float("nan"), np.array([np.nan, 1.0]), {1, 2}, frozenset((1,)), "text", 3, 1j):
        function, calls = counted(lambda x, k: x + 1)
        same = fg.compile(function, static=["k"])
        same(V, copy.deepcopy(value)), same(V, k=copy.deepcopy(value)), same(V, copy.deepcopy(value))
        assert len(calls) == 4, value  # once by position, once by name


def test_static_arguments_by_name_and_position():
    def power(x, n, m=1):
        return x**n if n > m else -x

    for static in ("n", 1, ["n", "m"], (1, 2), -1):
        assert_same(fg.compile(power, static=static)(V, np.int64(2)), fg.Tensor(V**2))
        assert_same(fg.compile(static=static)(power)(V, 1), fg.Tensor(-V))
    with pytest.raises(ParameterError, match="no parameter 'k'"):
        fg.compile(power, static="k")(V, 2)
    with pytest.raises(TypeError, match="missing a required argument: 'n'"):
        fg.compile(power, static="n")(V)


def test_a_set_that_has_changed_is_another_value():
    chosen = {1, 2}
    times = fg.compile(lambda x, s: x * len(s))
    before = times(V, chosen)
    chosen.add(3)
    assert_same([before, times(V, chosen)], [fg.Tensor(V * 2), fg.Tensor(V * 3)])


@pytest.mark.filterwarnings("ignore::fgrad.errors.CompileWarning")
def test_a_static_argument_that_is_differentiated():
    product = fg.compile(lambda x, k: x * k, static="k")
    assert_same([fg.grad(product, argnums=1)(x, 2.0) for x in (1.0, 3.0)], [fg.Tensor(1.0), fg.Tensor(3.0)])
    assert_same(fg.vmap(product, in_axes=(None, 0))(3.0, np.arange(3.0)), fg.Tensor(3 * np.arange(3.0)))


def test_changing_forms_are_warned_of_and_the_cache_has_a_limit():
    sums = fg.compile(lambda x, n: np.sum(x) * n, static="n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(80):
            assert float(sums(X[:2], n)) == (X[0] + X[1]) * n
    assert [each.category for each in caught] == [CompileWarning] * 10
    assert caught[0].filename == __file__
    assert "80th time" in str(caught[-1].message)
    assert len(sums._programs.known) == 64


# Methods, and what compiled functions look like


class Model:
    def __init__(self, scale):
        self.scale = scale
        self.calls = []

    @fg.compile
    def scaled(self, x):
        self.calls.append(1)
        return x * self.scale

    @classmethod
    @fg.compile
    def of_the_class(cls, x):
        return x * len(cls.__name__)

    @staticmethod
    @fg.compile
    def alone(x):
        return x * 3

    @fg.compile
    def __call__(self, x):
        return x + self.scale


class Alike(Model):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


class Unhashable(Model):
    __hash__ = None

    def __eq__(self, other):
        return True


class Slotted:
    __slots__ = ("calls", "scale")

    def __init__(self, scale):
        self.scale, self.calls = scale, []

    @fg.compile
    def scaled(self, x):
        self.calls.append(1)
        return x * self.scale


def test_methods():
    model = Model(2.0)
    assert_same([model.scaled(X), Model(5.0).scaled(X), Model.scaled(model, X)], [fg.Tensor(X * k) for k in (2, 5, 2)])
    assert_same([model.of_the_class(X), Model.of_the_class(X)], [fg.Tensor(X * 5)] * 2)
    assert_same([model.alone(X), Model.alone(X), model(X)], [fg.Tensor(X * 3), fg.Tensor(X * 3), fg.Tensor(X + 2)])
    assert_same(fg.grad(lambda x: np.sum(model.scaled(x)))(X), fg.Tensor(np.full(5, 2.0)))
    assert model.scaled.__name__ == "scaled"


@pytest.mark.parametrize("kind", [Model, Alike, Unhashable, Slotted])
def test_each_object_has_programs_of_its_own_and_keeps_them(kind):
    objects = [kind(scale) for scale in (2.0, 3.0, 4.0)]
    for _ in range(3):
        assert_same([each.scaled(X) for each in objects], [fg.Tensor(X * each.scale) for each in objects])
    assert [len(each.calls) for each in objects] == [2, 2, 2]


def test_programs_of_a_method_do_not_keep_its_object():
    model = Model(2.0)
    held = weakref.ref(model)
    model.scaled(X), model.scaled(X)
    del model
    assert held() is None


def test_functions_of_every_kind():
    partial = functools.partial(lambda x, k, n=1: x * k**n, k=2.0, n=3)
    kinds = [partial, Model(2.0).scaled, Model(2.0), np.sin, abs, np.sum, fg.compile(np.cos)]
    for function in kinds:
        assert_same(
            fg.compile(function)(V),
            fg.Tensor(function(V)) if function is abs else fg.Tensor(np.asarray(function(V))[()]),
        )


@pytest.mark.parametrize("given", [3, "n", None])
def test_what_is_no_function_is_refused(given):
    if given is None:
        assert callable(fg.compile(None))
        return
    with pytest.raises(NotCallableError, match=r"@fg.compile\(static="):
        fg.compile(given)


@fg.compile
def of_this_module(x: float, *, k: float = 2.0) -> float:
    """Multiply."""
    return x * k


def plain(x):
    return x * 3.0


def test_compiled_functions_look_like_what_they_were_made_of():
    assert (of_this_module.__name__, of_this_module.__doc__) == ("of_this_module", "Multiply.")
    assert str(inspect.signature(of_this_module)) == "(x: float, *, k: float = 2.0) -> float"
    assert repr(fg.compile(plain)) == f"<compile of {plain!r}>"


@pytest.mark.parametrize(
    "function", [of_this_module, fg.compile(plain), fg.compile(fg.grad(plain)), fg.compile(np.sin)]
)
def test_pickles_and_copies_compile_anew(function):
    wanted = function(2.0)
    for other in (pickle.loads(pickle.dumps(function)), copy.copy(function), copy.deepcopy(function)):
        assert_same(other(2.0), wanted)
    assert pickle.loads(pickle.dumps(of_this_module)) is of_this_module


# Transforms


def two(x, y):
    return np.sum(np.sin(x) * y[..., None]) + np.max(y * 2)


def tape_of(w, **options):
    function = w(vector)

    def gradients(x):
        x = fg.constant(x)
        with fg.GradientTape(**options) as tape:
            tape.watch(x)
            y = function(x)
            z = np.sum(y**2)
        return tape.gradient(z, x)

    return gradients


def nested_tapes(w, outermost=lambda f: f):
    function = w(loss)

    @outermost
    def second(x):
        x = fg.constant(x) if isinstance(x, np.ndarray) else x
        with fg.GradientTape() as outer:
            outer.watch(x)
            with fg.GradientTape() as inner:
                inner.watch(x)
                y = function(x)
            total = np.sum(inner.gradient(y, x) ** 2)
        return outer.gradient(total, x)

    return second


def asked_inside(w):
    function = w(loss)

    def again(x):
        x = fg.constant(x)
        with fg.GradientTape(persistent=True) as tape:
            tape.watch(x)
            total = np.sum(tape.gradient(function(x), x))
        return tape.gradient(total, x)

    return again


def accumulated(w):
    function = w(vector)

    def forward(x):
        x = fg.constant(x)
        with fg.ForwardAccumulator(x, V) as accumulator:
            y = function(x)
        return accumulator.jvp(y)

    return forward


def by_tape_jacobian(w):
    function = w(vector)

    def jacobian(x):
        x = fg.constant(x)
        with fg.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = function(x)
        return tape.jacobian(y, x)

    return jacobian


@fg.checkpoint
def segment(x):
    return np.sin(np.sin(x)) * x


@fg.custom_vjp
def with_vjp(x):
    return np.sin(x)


with_vjp.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (ct * np.cos(x) * 1.5,))


@fg.custom_jvp
def with_jvp(x):
    return np.sin(x)


with_jvp.defjvp(lambda primals, tangents: (np.sin(primals[0]), tangents[0] * np.cos(primals[0]) * 2.5))


def rule_around(w):
    @fg.custom_vjp
    def sine(x):
        return w(np.sin)(x)

    sine.defvjp(lambda x: (w(np.sin)(x), x), lambda x, ct: (ct * w(np.cos)(x) * 1.5,))
    return fg.grad(lambda x: np.sum(sine(x) * x))


def sum_of(f):
    return lambda *args: np.sum(f(*args))


SQUARE = M @ M.T + 5 * np.eye(5)
TRANSFORMS = {
    # what is done, with compile or with nothing in the place of w, and the arguments
    "grad": (lambda w: fg.grad(w(loss)), X),
    "value_and_grad": (lambda w: fg.value_and_grad(w(loss)), X),
    "jvp": (lambda w: lambda x: fg.jvp(w(vector), (x,), (V,)), X),
    "vjp": (lambda w: lambda x: (lambda y, pull: (y, pull(V), pull(V * 2)))(*fg.vjp(w(vector), x)), X),
    "linearize": (lambda w: lambda x: (lambda y, push: (y, push(V), push(V * 2)))(*fg.linearize(w(vector), x)), X),
    "jacfwd": (lambda w: fg.jacfwd(w(vector)), X),
    "jacrev": (lambda w: fg.jacrev(w(vector)), X),
    "hessian": (lambda w: fg.hessian(w(loss)), X),
    "hvp": (lambda w: lambda x: fg.hvp(w(loss))(x, V), X),
    "gauss_newton_vp": (lambda w: lambda x: fg.gauss_newton_vp(w(vector))(x, V), X),
    "make_vjp": (lambda w: lambda x: (lambda y, pull: (y, pull(V)))(*fg.make_vjp(w(vector))(x)), X),
    "gradients_function": (lambda w: fg.gradients_function(w(two)), X, V),
    "by name": (lambda w: fg.value_and_gradients_function(w(two), params=["y"]), X, V),
    "unconnected": (lambda w: fg.gradients_function(w(lambda x, y: np.sum(x) + np.sum(fg.stop_gradient(y)))), X, V),
    "unconnected zeros": (lambda w: fg.grad(w(lambda x, y: np.sum(x)), argnums=(0, 1)), X, V),
    "vmap": (lambda w: fg.vmap(w(vector)), M),
    "vmap of a column": (lambda w: fg.vmap(w(vector), in_axes=1, out_axes=1), M),
    "vmap of vmap": (lambda w: fg.vmap(fg.vmap(w(vector))), np.stack([M, M + 1])),
    "vmap of one argument": (lambda w: fg.vmap(w(two), in_axes=(0, None)), M, X),
    "vmap of nothing": (lambda w: fg.vmap(w(vector)), np.zeros((0, 5))),
    "third order": (
        lambda w: fg.grad(sum_of(fg.grad(lambda x: np.sum(fg.grad(w(loss))(x) ** 2)))),
        X,
    ),
    "grad of compiled grad": (lambda w: fg.grad(lambda x: np.sum(w(fg.grad(w(loss)))(x) ** 2)), X),
    "compiled grad of compiled": (lambda w: w(fg.grad(w(loss))), X),
    "compiled hessian": (lambda w: w(fg.hessian(w(loss))), X),
    "compiled twice in between": (lambda w: w(fg.jacfwd(w(fg.jacrev(w(vector))))), X),
    "vmap of grad": (lambda w: fg.vmap(fg.grad(w(loss))), M),
    "grad of vmap": (lambda w: fg.grad(lambda m: np.sum(fg.vmap(w(vector))(m) ** 2)), M),
    "vmap of hessian": (lambda w: fg.vmap(fg.hessian(w(loss))), M),
    "hessian of vmap": (
        lambda w: fg.hessian(lambda m: np.sum(fg.vmap(w(vector))(m.reshape(2, 5)) ** 2)),
        M[:2].ravel(),
    ),
    "compiled vmap of grad": (lambda w: w(fg.vmap(fg.grad(w(loss)))), M),
    "vmap of compiled grad": (lambda w: fg.vmap(w(fg.grad(loss))), M),
    "jvp of jvp": (lambda w: lambda x: fg.jvp(lambda x: fg.jvp(w(vector), (x,), (V,))[1], (x,), (V,)), X),
    "jvp of grad": (lambda w: lambda x: fg.jvp(fg.grad(w(loss)), (x,), (V,)), X),
    "grad of jvp": (lambda w: fg.grad(lambda x: np.sum(fg.jvp(w(vector), (x,), (V,))[1])), X),
    "jacfwd of jacrev": (lambda w: fg.jacfwd(fg.jacrev(w(vector))), X),
    "jacrev of jacrev": (lambda w: fg.jacrev(fg.jacrev(w(vector))), X),
    "vjp of vjp": (lambda w: lambda x: fg.vjp(lambda x: fg.vjp(w(vector), x)[1](V)[0], x)[1](V), X),
    "linearize of grad": (lambda w: lambda x: fg.linearize(fg.grad(w(loss)), x)[1](V), X),
    "single precision": (lambda w: fg.value_and_grad(w(lambda x: np.sum(np.sin(x) ** 2 * 2.0))), X.astype(np.float32)),
    "both precisions": (lambda w: fg.grad(w(lambda x, y: np.sum(x * y)), argnums=(0, 1)), X.astype(np.float32), V),
    "a number": (lambda w: fg.value_and_grad(w(lambda x: np.sin(x) * x)), 0.5),
    "complex": (lambda w: fg.grad(w(lambda z: np.abs(np.sum(z * z)) ** 2)), X + 1j * V),
    "complex results": (lambda w: lambda z: fg.vjp(w(lambda z: z * z * 1j), z)[1](z), X + 1j * V),
    "integers among results": (lambda w: lambda x: fg.vjp(w(lambda x: (np.argsort(x), x * 2)), x)[0], X),
    "integers among arguments": (lambda w: fg.grad(w(lambda x, i: np.sum(x[i] ** 2))), X, np.array([0, 0, 3])),
    "aux": (lambda w: fg.value_and_grad(w(lambda x: (np.sum(x**2), x > 1)), has_aux=True), X),
    "stop_gradient": (lambda w: fg.grad(w(lambda x: np.sum(x * fg.stop_gradient(x)))), X),
    "constants among results": (lambda w: fg.grad(lambda x: w(lambda y: (y, 3.0, np.ones(2)))(x)[1] * np.sum(x)), X),
    "its argument": (lambda w: fg.grad(lambda x: np.sum(w(lambda y: y)(x))), X),
    "dict": (lambda w: fg.grad(w(lambda p: np.sum(p["a"] * p["b"]))), {"a": X, "b": V}),
    "the same argument twice": (lambda w: fg.grad(w(lambda x, y: np.sum(x * x * y)), argnums=(0, 1)), X, X),
    "checkpoint inside": (lambda w: fg.hessian(w(lambda x: np.sum(segment(x)))), X),
    "checkpoint around": (lambda w: fg.grad(lambda x: np.sum(fg.checkpoint(w(vector))(x))), X),
    "compiled with a checkpoint": (lambda w: w(fg.grad(lambda x: np.sum(segment(x)))), X),
    "custom_vjp inside": (lambda w: fg.hessian(w(lambda x: np.sum(with_vjp(x) * x))), X),
    "custom_vjp inside vmap": (lambda w: fg.vmap(fg.grad(w(lambda x: np.sum(with_vjp(x) * x)))), M),
    "custom_vjp around": (rule_around, X),
    "custom_jvp inside": (lambda w: fg.jacfwd(w(lambda x: with_jvp(x) * x)), X),
    "compiled with custom_jvp": (lambda w: w(fg.grad(lambda x: np.sum(with_jvp(x) * x))), X),
    "tape": (tape_of, X),
    "persistent tape": (lambda w: tape_of(w, persistent=True), X),
    "nested tapes": (nested_tapes, X),
    "tapes inside": (lambda w: nested_tapes(lambda f: f, w), X),
    "tapes inside a grad": (lambda w: fg.grad(lambda x: np.sum(nested_tapes(w, w)(x))), X),
    "a tape asked inside": (asked_inside, X),
    "jacobian of a tape": (by_tape_jacobian, X),
    "accumulator": (accumulated, X),
    "brentq inside": (
        lambda w: fg.grad(w(lambda a: optimize.brentq(lambda x, a: x**3 - a, 0.0, 5.0, args=(a,)))),
        2.0,
    ),
    "brentq of": (lambda w: fg.grad(lambda a: optimize.brentq(w(lambda x, a: x**3 - a), 0.0, 5.0, args=(a,))), 2.0),
    "root of": (
        lambda w: fg.grad(lambda a: np.sum(optimize.root(w(lambda x, a: x**3 - a), np.ones(2), args=(a,)).x)),
        np.array([2.0, 3.0]),
    ),
    "quad of": (
        lambda w: fg.grad(lambda a: integrate.quad(w(lambda x, a: np.sin(a * x)), 0.0, 1.0, args=(a,))[0]),
        2.0,
    ),
    "odeint of": (
        lambda w: fg.grad(lambda a: integrate.odeint(w(lambda y, t, a: -a * y), np.ones(2), V[-2:], args=(a,))[-1, 0]),
        2.0,
    ),
    "scipy's minimize": (
        lambda w: (
            lambda a: (
                scipy.optimize.minimize(w(fg.value_and_grad(lambda x: np.sum((x - a) ** 2))), np.zeros(2), jac=True).x
            )
        ),
        2.0,
    ),
    "svd": (
        lambda w: fg.vmap(fg.grad(w(lambda s: np.sum(np.sin(np.linalg.svd(s)[1]))))),
        np.stack([SQUARE, SQUARE + M]),
    ),
    "solve": (lambda w: lambda s: fg.hvp(w(lambda s: np.sum(np.linalg.solve(s, X) ** 2)))(s, M), SQUARE),
    "fft": (lambda w: fg.hessian(w(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 3))), X),
    "masked": (lambda w: fg.grad(w(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0)))), np.array([0.0, -1.0, 2.0])),
    "kinks": (
        lambda w: fg.grad(w(lambda x: np.max(x) + np.sum(np.abs(x)) + np.sum(np.maximum(x, 0)) + np.linalg.norm(x))),
        np.zeros(3),
    ),
    "products with zeros": (lambda w: fg.hessian(w(np.prod)), np.array([0.0, 2.0, 3.0])),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_compiled_functions_and_compiled_transforms(name):
    make, *args = TRANSFORMS[name]
    with np.errstate(all="ignore"):
        wanted = make(lambda function: function)(*args)
        found = make(fg.compile)
        for _ in range(2):
            assert_same(found(*args), wanted)


CLOSURES = {
    "grad": lambda w: fg.grad(lambda a: np.sum(w(lambda y: y * a)(X))),
    "grad of both": lambda w: fg.grad(lambda a: np.sum(w(lambda y: y * a)(a * X))),
    "result": lambda w: fg.grad(lambda a: w(lambda y: (np.sum(y), a * 3))(X)[1]),
    "jvp": lambda w: lambda a: fg.jvp(lambda a: w(lambda y: y * a)(X), (a,), (1.0,)),
    "vmap": lambda w: lambda a: fg.vmap(lambda a: w(lambda y: y * a)(X))(np.array([a, 1.0])),
    "rule": lambda w: fg.grad(lambda a: np.sum(w(lambda y: with_vjp(y * a))(X))),
}


@pytest.mark.parametrize("name", CLOSURES)
def test_functions_that_close_over_traced_values_run_without_native_code(name):
    make = CLOSURES[name]
    with pytest.warns(CompileWarning, match="uses a traced value that is not one of its arguments"):
        found = make(fg.compile)(2.0)
    assert_same(found, make(lambda f: f)(2.0))


def test_a_program_inside_of_a_program_may_close_over_its_values():
    product = fg.compile(lambda a: fg.compile(lambda y: y * a)(X))
    assert_same([product(2.0), product(3.0)], [fg.Tensor(X * 2), fg.Tensor(X * 3)])


def test_a_tensor_that_leaks_from_a_recording_is_of_no_use():
    leaked = []
    fg.compile(lambda x: [leaked.append(x), x * 2][1])(X)
    with pytest.raises(LeakedTensorError):
        leaked[0] * 2


def test_a_single_number_that_is_needed_along_an_axis():
    def written(x):
        x[::2] *= 0.5
        return np.sum(np.sin(x))

    assert_same(fg.grad(fg.compile(written))(X[:4]), fg.grad(written)(X[:4]))


def test_each_number_of_examples_is_compiled_once():
    function, calls = counted(lambda x: np.sum(np.sin(x)))
    sums = fg.compile(function)
    for count in (2, 3, 4, 2, 3):
        assert_same(fg.vmap(sums)(np.ones((count, 3))), fg.Tensor(np.full(count, 3 * np.sin(1.0))))
    assert len(calls) == 2
    (program,) = sums._programs.known.values()
    assert [key[-1] for key in program.function._derived] == [2, 3, 4]


SHORT_PROGRAMS = st.tuples(st.sampled_from(programs.SHAPES), st.lists(programs.STATEMENTS, min_size=2, max_size=6))


@settings(programs.UNHURRIED, max_examples=30)
@given(SHORT_PROGRAMS)
@pytest.mark.slow
def test_random_programs_are_what_they_are_without_compile(program):
    f, x = programs.compiled(programs.source(program)), programs.X[program[0]]
    compiled, before = fg.compile(f), x.tobytes()
    text, own, plain = programs.source(program), x.copy(), x.copy()
    for found, wanted in [
        (compiled(own), f(plain)),
        (own, plain),
        (fg.grad(compiled)(x), fg.grad(f)(x)),
    ]:
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9, err_msg=text)
    assert x.tobytes() == before


# Variables


def test_variables_are_read_when_the_program_runs():
    w, u = fg.Variable(2.0), fg.Variable(np.ones(4))
    total = fg.compile(lambda x: np.sum(x * w * u))
    x = np.arange(4.0)
    found = [float(total(x))]
    w.assign(3.0)
    found.append(float(total(x)))
    u.assign(x)
    found.append(float(total(x)))
    assert found == [12.0, 18.0, 42.0]
    with fg.GradientTape() as tape:
        y = total(x)
    assert_same(tape.gradient(y, [w, u]), [fg.Tensor(14.0), fg.Tensor(3 * x)])


def test_gradients_of_variables_in_pairs_with_the_variables_themselves():
    w, u = fg.Variable(3.0), fg.Variable(np.arange(4.0))

    def total(x):
        return np.sum(x * w * u)

    x = np.arange(4.0)
    for gradients in (
        fg.implicit_gradients(fg.compile(total)),
        fg.compile(fg.implicit_gradients(total)),
        fg.compile(fg.implicit_gradients(fg.compile(total))),
    ):
        (first, one), (second, other) = gradients(x)
        assert one is w
        assert other is u
        assert_same([first, second], [fg.Tensor(14.0), fg.Tensor(3 * x)])


def test_a_first_call_under_a_tape_that_watches_its_variables():
    w = fg.Variable(2.0)
    product = fg.compile(lambda x: x * w)
    with fg.GradientTape() as tape:
        y = product(3.0)
    assert float(tape.gradient(y, w)) == 3.0


def test_variables_as_results_are_themselves():
    w = fg.Variable(2.0)
    found = fg.compile(lambda x: {"a": w.assign(x), "b": w, "c": w.value()})(7.0)
    assert found["a"] is w
    assert found["b"] is w
    assert (float(w), float(found["c"])) == (7.0, 7.0)


def test_a_variable_that_is_trainable_no_longer():
    w, u = fg.Variable(2.0), fg.Variable(3.0)
    gradients = fg.compile(fg.implicit_gradients(lambda x: x * w * u))
    counts = [len(gradients(1.0))]
    for trainable in (False, True):
        u.trainable = trainable
        counts.append(len(gradients(1.0)))
    assert counts == [2, 1, 2]


def test_variables_as_arguments():
    product = fg.compile(lambda v, x: v * x)
    one, other = fg.Variable(2.0), fg.Variable(2.0)
    assert_same([product(one, X), product(other, X)], [fg.Tensor(X * 2)] * 2)
    other.assign(5.0)
    assert_same([product(one, X), product(other, X)], [fg.Tensor(X * 2), fg.Tensor(X * 5)])
    product_and_more = fg.compile(lambda v, x: [v.assign_add(1.0), v * x][1])
    assert_same(product_and_more(one, X), fg.Tensor(X * 3))
    assert float(one) == 3.0


def counting(s, x):
    s.assign_add(1.0)
    result = s * x
    s.assign_add(1.0)
    return result, s.value()


def test_assignments_are_seen_by_what_reads_after_them():
    found, wanted = fg.Variable(0.0), fg.Variable(0.0)
    count = fg.compile(functools.partial(counting, found))
    for _ in range(3):
        assert_same(count(X), tuple(map(fg.Tensor, (x.numpy() for x in counting(wanted, X)))))
        assert float(found) == float(wanted)


def test_assignments_of_every_kind():
    a, b, single, whole = fg.Variable(1.0), fg.Variable(2.0), fg.Variable(np.zeros(3, np.float32)), fg.Variable(5)

    @fg.compile
    def assigned(x):
        before = a.value()
        a.assign(b)
        b.assign(before)
        single.assign(x)
        whole.assign_add(2)

    x = np.arange(3.0)
    assigned(x)
    assert (float(a), float(b), int(whole)) == (2.0, 1.0, 7)
    assert_same(single.numpy(), np.arange(3, dtype=np.float32))
    same = fg.Variable(np.zeros(3))
    kept = fg.compile(lambda x: [same.assign(x), x][1])(x)
    x[:] = 9.0
    kept[0] = 8.0
    assert same.numpy().tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(ShapeError):
        fg.compile(lambda x: a.assign(x))(x)


@pytest.mark.parametrize("transform", ["grad", "tape", "vmap"])
def test_assignments_under_transforms(transform):
    def run(function, s):
        if transform == "grad":
            return fg.grad(lambda x: np.sum(function(x)[0]))(X)
        if transform == "vmap":
            return fg.vmap(lambda x: x * 2)(X)
        with fg.GradientTape() as tape:
            y = np.sum(function(X)[0]) * s
        return tape.gradient(y, s)

    found, wanted = fg.Variable(1.0), fg.Variable(1.0)
    assert_same(
        run(fg.compile(functools.partial(counting, found)), found), run(functools.partial(counting, wanted), wanted)
    )
    assert float(found) == float(wanted)


def test_what_depends_on_the_example_cannot_be_assigned():
    s = fg.Variable(0.0)
    with pytest.raises(ConcretizationError, match="storing it in a variable"):
        fg.vmap(fg.compile(lambda a: [s.assign(a), a][1]))(X)
    assert float(s) == 0.0


def test_nothing_is_assigned_when_an_error_comes():
    s, u = fg.Variable(1.0), fg.Variable(np.ones(4))

    @fg.compile
    def inverse(x):
        s.assign(55.0)
        u.assign(x * 2)
        return np.linalg.inv(x.reshape(2, 2))

    good, bad = np.array([1.0, 0, 0, 2.0]), np.zeros(4)
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError):
            inverse(bad)
        assert (float(s), u.numpy().tolist()) == (1.0, [1.0] * 4)
        assert_same(inverse(good), fg.Tensor(np.linalg.inv(good.reshape(2, 2))))
        s.assign(1.0), u.assign(np.ones(4))


@pytest.mark.slow
def test_interrupts_assign_all_or_nothing():
    s, u = fg.Variable(0.0), fg.Variable(np.zeros(3))
    x = np.array([1.0, 2.0, 3.0])

    def step(x):
        s.assign_add(1.0)
        u.assign_add(x)
        return s * np.sum(np.linalg.inv(np.diag(x)))

    def check(function, number):
        before = float(s)
        is_over = not interrupted_at(number, lambda: function(x))
        assert float(s) in (before, before + 1.0)
        assert u.numpy().tolist() == (float(s) * x).tolist()
        assert (running.call, open_watches(), observing) == (None, [], set())
        return is_over

    known = fg.compile(step)
    known(x)
    assert any(check(known, number) for number in range(1, 5000, 7))
    assert any(check(fg.compile(step), number) for number in range(1, 400_000, 12007))
    assert_same(known(x), fg.Tensor(float(s) * np.sum(1 / x)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: fg.Variable(2.0) * x,
        lambda x: fg.Variable(np.ones(3)),
        lambda x: [fg.Variable(2.0).assign(x[0]), x][1],
    ],
)
def test_variables_that_are_made_inside_are_refused(function):
    with pytest.raises(FrozenValueError, match="Create variables outside"):
        fg.compile(function)(X)


def test_a_variable_that_is_made_once_and_kept():
    kept = []

    @fg.compile
    def lazily(x):
        if not kept:
            kept.append(fg.Variable(3.0))
        return x * kept[0]

    assert_same(lazily(X), fg.Tensor(X * 3))
    kept[0].assign(4.0)
    assert_same(lazily(X), fg.Tensor(X * 4))


# What a function refers to is what it is at the call

FACTOR = 2.0
SCALES = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


class Rates:
    rate = 2.0


class Network:
    shift = 1.0

    def __init__(self):
        self.rate, self.weights, self.parts, self.steps = 2.0, np.ones(5), {"a": [1.0]}, []

    def inner(self, x):
        return x * self.weights * self.parts["a"][0] + self.shift

    @fg.compile
    def loss(self, x):
        return np.sum(self.inner(x)) * self.rate


def scaled_by_global(x):
    return x * FACTOR


def by_settings(x, rate=Rates):
    return x * rate.rate


def closing_over(value):
    def function(x):
        return x * value[0] if isinstance(value, list) else x * value

    def rebind(other):
        nonlocal value
        value = other

    return function, rebind


def check_like_plain(compiled, function, x):
    """The value and derivatives are those of one function, which is the user's as it is now."""

    def total(f):
        return lambda x: np.sum(f(x) ** 2)

    assert_same(compiled(x), fg.convert_to_tensor(function(x)))
    for transform in (fg.grad, fg.value_and_grad, fg.hessian, fg.jacfwd):
        assert_same(transform(total(compiled))(x), transform(total(function))(x))
    assert_same(fg.vmap(compiled)(np.stack([x, 2 * x])), fg.vmap(function)(np.stack([x, 2 * x])))
    assert_same(compiled(x), fg.convert_to_tensor(function(x)))


@pytest.mark.parametrize(
    "read", [lambda w, x: x * w[0], lambda w, x: x * np.sum(w), lambda w, x: x * w.reshape(3, 1)[0, 0]]
)
def test_a_captured_tensor_that_is_written_to(read):
    w = fg.constant(np.zeros(3))
    w[0] = 1.0
    part = w[:2]
    compiled, of_part = fg.compile(lambda x: read(w, x)), fg.compile(lambda x: x * part[0])
    with warnings.catch_warnings(action="ignore", category=errors.CompileWarning):
        for value in range(5):
            w[0] = value
            assert (compiled(10.0).item(), of_part(10.0).item()) == (10.0 * value, 10.0 * value)


def test_a_captured_array_that_is_written_to():
    for shape in ((5,), (400, 5), ()):
        table = np.ones(shape)
        function = lambda x, table=table: np.sum(x * table, axis=0) + x  # noqa: E731
        if not shape:
            function = lambda x, table=table: x * table  # noqa: E731
        compiled = fg.compile(function)
        check_like_plain(compiled, function, X)
        table[...] = 3.0
        check_like_plain(compiled, function, X)
        table[(0,) * table.ndim] = -7.0
        check_like_plain(compiled, function, X)


def test_captured_numbers_and_cells():
    for first, second in ((2.0, 3.0), (2, 3), (np.ones(5), np.zeros(5)), ([2.0], [4.0]), (0.0, -0.0), (1, 1.0)):
        function, rebind = closing_over(first)
        compiled = fg.compile(function)
        check_like_plain(compiled, function, X)
        rebind(second)
        check_like_plain(compiled, function, X)
        assert np.signbit(compiled(X).numpy()).tolist() == np.signbit(function(X)).tolist()
        if isinstance(second, list):
            second[0] = 9.0
            check_like_plain(compiled, function, X)


def test_globals_and_what_they_refer_to(monkeypatch):
    for function in (scaled_by_global, lambda x: scaled_by_global(x) + 1, lambda x: [scaled_by_global][0](x * SCALES)):
        compiled = fg.compile(function)
        check_like_plain(compiled, function, X)
        monkeypatch.setitem(globals(), "FACTOR", FACTOR + 1)
        check_like_plain(compiled, function, X)
    monkeypatch.setitem(globals(), "scaled_by_global", lambda x: x - FACTOR)  # as a cell of a notebook that ran again
    check_like_plain(compiled, function, X)


def test_attributes_of_classes_and_arguments_that_are_no_inputs(monkeypatch):
    compiled, own = fg.compile(by_settings), Rates()
    for _ in range(2):
        check_like_plain(compiled, by_settings, X)
        assert_same(compiled(X, own), fg.convert_to_tensor(X * own.rate))
        monkeypatch.setattr(Rates, "rate", 5.0)
    own.rate = 7.0
    assert_same(compiled(X, own), fg.convert_to_tensor(X * 7))


@pytest.mark.filterwarnings("ignore::fgrad.errors.CompileWarning")
def test_attributes_of_self_and_what_they_hold(monkeypatch):
    model = Network()
    changes = (
        lambda: setattr(model, "rate", 5.0),
        lambda: setattr(model, "weights", model.weights * 2),
        lambda: model.weights.__setitem__(0, 7.0),
        lambda: model.parts.__setitem__("a", [3.0]),
        lambda: model.parts["a"].__setitem__(0, 4.0),
        lambda: monkeypatch.setattr(Network, "shift", 2.0),
        lambda: setattr(model, "shift", 3.0),
        lambda: monkeypatch.setattr(Network, "inner", lambda self, x: x * self.rate),
    )
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):
            wanted = np.sum(model.inner(X)) * model.rate
            assert_same(model.loss(X), fg.convert_to_tensor(wanted))
            assert_same(fg.grad(model.loss)(X), fg.grad(lambda x: np.sum(model.inner(x)) * model.rate)(X))


@pytest.mark.parametrize("kind", ["slots", "property", "called", "partial", "frozen"])
def test_objects_of_every_kind_are_looked_at(kind):
    class Slotted:
        __slots__ = ("rate", "_rate")

        def __init__(self):
            self.rate = self._rate = 2.0

        @property
        def twice(self):
            return self._rate * 2

        def __call__(self, x):
            return x * self.rate

    own = Slotted()
    function = {
        "slots": lambda x: x * own.rate,
        "property": lambda x: x * own.twice,
        "called": own,
        "partial": functools.partial(lambda own, x: x * own.rate, own),
        "frozen": lambda x: x * holder[0].rate,
    }[kind]
    holder = (own,)
    compiled = fg.compile(function)
    check_like_plain(compiled, function, X)
    own.rate = own._rate = 3.0
    check_like_plain(compiled, function, X)


HOLDERS = {
    "partial": lambda k: functools.partial(lambda k, x: x * k, k),
    "keyword of a partial": lambda k: functools.partial(lambda x, k: x * k, k=k),
    "partial of a partial": lambda k: functools.partial(functools.partial(lambda k, x: x * k, k)),
    "partial of NumPy's": lambda k: functools.partial(np.multiply, k),
    "derivative of a partial": lambda k: fg.grad(functools.partial(lambda k, x: np.sum(x * k * x), k)),
    "namespace": lambda k: attribute_of(types.SimpleNamespace(k=k)),
    "view of a dictionary": lambda k: item_of(types.MappingProxyType({"k": k}), "k"),
    "dictionaries": lambda k: item_of(collections.ChainMap({}, {"k": k}), "k"),
    "deque": lambda k: item_of(collections.deque([k]), 0),
    "list of a user's": lambda k: item_of(collections.UserList([k]), 0),
}


def attribute_of(own):
    return lambda x: x * own.k


def item_of(own, key):
    return lambda x: x * own[key]


@pytest.mark.parametrize("name", HOLDERS)
def test_an_array_is_found_wherever_it_is_kept(name):
    k = np.linspace(1.0, 2.0, X.size).reshape(X.shape)
    function = HOLDERS[name](k)
    compiled = fg.compile(function)
    check_like_plain(compiled, function, X)
    k[:1] = 5.0
    check_like_plain(compiled, function, X)


def test_items_and_attributes_of_pythons_own_objects_may_be_others():
    namespace, rates, first = types.SimpleNamespace(rate=2.0), collections.deque([2.0]), {"rate": 2.0}
    proxy = types.MappingProxyType(first)
    for function, change in (
        (lambda x: x * namespace.rate, lambda: setattr(namespace, "rate", 3.0)),
        (lambda x: x * rates[0], lambda: rates.appendleft(3.0)),
        (lambda x: x * proxy["rate"], lambda: first.update(rate=3.0)),
    ):
        compiled = fg.compile(function)
        check_like_plain(compiled, function, X)
        change()
        check_like_plain(compiled, function, X)


@pytest.mark.slow
def test_an_estimator_that_is_fitted_again_is_another():
    linear_model = pytest.importorskip("sklearn.linear_model")
    estimator = linear_model.LinearRegression()
    estimator.fit(np.eye(X.size), np.ones(X.size))
    compiled = fg.compile(lambda x: x @ estimator.coef_)
    check_like_plain(compiled, lambda x: x @ estimator.coef_, X)
    estimator.fit(np.eye(X.size), np.arange(X.size))
    check_like_plain(compiled, lambda x: x @ estimator.coef_, X)


def test_what_no_code_asks_for_may_change():
    """A list of losses, a counter of steps, notes of what was recorded."""
    calls, model = [], Network()

    @fg.compile
    def noted(x):
        calls.append(x.shape)
        return np.sum(model.inner(x))

    for size in (5, 1, 5, 1):
        noted(X[:1] if size == 1 else X)
        model.steps.append(size)
        model.steps = [*model.steps]
    assert len(calls) == 4  # twice for each of two forms


def test_what_can_only_be_read_and_equal_numbers_need_no_new_program():
    table = np.ones(5)
    table.flags.writeable = False
    function, rebind = closing_over(1000.5)
    compiled = fg.compile(lambda x: function(x) * table)
    for _ in range(3):
        compiled(X)
        rebind(float("1000.5"))
    assert compiled.programs.count == 1


def test_what_keeps_changing_is_named():
    model = Network()

    def changed_and_called():
        for k in range(8):
            model.rate = float(k)
            model.loss(X)

    with pytest.warns(CompileWarning, match=r"self\.rate, which it refers to, keeps changing"):
        changed_and_called()


@pytest.mark.parametrize("empty", [np.empty_like, lambda x: fnp.empty(12)])
def test_what_memory_held_before_is_no_constant_of_a_program(empty):
    def f(x):
        made = empty(x)
        for i in range(12):
            made[i] = x[i] * 2
        return np.sum(made)

    assert not np.any(fg.vjp(empty, np.ones(12))[0])
    for _ in range(5):
        junk = [RNG.normal(size=12) for _ in range(50)]
        del junk
        assert fg.compile(f)(np.ones(12)).item() == 24.0


OF_MANY_AXES = {
    "elements": lambda x: np.sin(x) * np.ones(1) + 1,
    "gradient": fg.grad(lambda x: np.sum(np.sin(x) * x)),
    "batch": fg.vmap(lambda x: x * 2),
    "sum": lambda x: np.sum(x * x, axis=0),
    "sum of some": lambda x: np.sum(x, axis=-1, where=x > 0),
    "part": lambda x: np.expand_dims(x[0], 0) * 2,
    "key": lambda x: x[[1, 0], ...],
    "transpose": lambda x: x.T + 1,
    "repeated": lambda x: np.broadcast_to(x[:1], x.shape) * x,
    "product": lambda x: np.swapaxes(x, 0, -2) @ np.ones((x.shape[-1], 3)),
    "gradient of a product": fg.grad(lambda x: np.sum((np.swapaxes(x, 0, -2) @ np.ones((x.shape[-1], 3))) ** 2)),
}


@pytest.mark.parametrize("name", OF_MANY_AXES)
@pytest.mark.parametrize(("axes", "size"), [(33, 2), (40, 2), (40, 700), (50, 2)])
def test_arrays_have_as_many_axes_as_numpys(name, axes, size):
    x = np.linspace(-1.0, 1.0, 2 * size).reshape((2, *[1] * (axes - 2), size))
    assert_same(fg.compile(OF_MANY_AXES[name])(x), fg.convert_to_tensor(OF_MANY_AXES[name](x)))


# Integers of Python's, which have no bounds


def scanned_below(x, k):
    return fg.scan(lambda c, each: (c + (each == k), each < k), 0, x)


def put_into(x, k):
    new = x.copy()
    new[0] = k
    return new


def copied_into(x, k):
    new = x.copy()
    np.copyto(new, k, where=x > 3)
    return new


def raised_by(function, *args):
    try:
        return function(*args)
    except (OverflowError, ZeroDivisionError, ValueError) as error:
        return type(error)


MEETING = {
    "less": lambda x, k: x < k,
    "equal": lambda x, k: x == k,
    "not_equal from the left": lambda x, k: k != x,
    "greater_equal": lambda x, k: x >= k,
    "add": lambda x, k: x + k,
    "maximum": lambda x, k: np.maximum(x, k),
    "and": lambda x, k: x & k,
    "where": lambda x, k: np.where(x > 3, x, k),
    "where of an element": lambda x, k: np.where(x[1] > 3, k, x[0]),
    "select": lambda x, k: np.select([x > 3], [x], k),
    "piecewise": lambda x, k: np.piecewise(x, [x > 3], [k, 0]),
    "copied": lambda x, k: copied_into(x, k),
    "inserted": lambda x, k: np.insert(x, 1, k),
    "remainder": lambda x, k: x % k,
    "shift": lambda x, k: (x << k, k >> x),
    "iterations": scanned_below,
    "written": put_into,
    "full_like": lambda x, k: np.full_like(x, k) + 0 * x,
    "isclose": lambda x, k: np.isclose(x, k),
    "a mask in a sum": lambda x, k: np.sum(np.where(x < k, 1.5, 0.0)),
}


OF_INTEGERS = {"and", "shift", "written", "full_like", "piecewise", "copied", "inserted"}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in MEETING
        for dtype in ("u1", "i1", "i4", "u8", *(() if name in OF_INTEGERS else ("f4",)))
    ],
)
def test_integers_beyond_the_dtype_that_they_meet(name, dtype):
    """They are compared as they are, and else NumPy's error, whatever the first call was with."""
    x, function = np.array([0, 44, 255]).astype(dtype), MEETING[name]
    compiled = fg.compile(function)
    raised_by(compiled, x, 1)
    with np.errstate(all="ignore"):
        for k in (300, -1, 2, 0, 2**40):
            wanted = raised_by(function, x, k)
            constant = [raised_by(fg.compile(lambda x, k=k: function(x, k)), x)] if k in (300, -1) else []
            for found in (raised_by(compiled, x, k), *constant):
                if isinstance(wanted, type):
                    assert found is wanted, k
                else:
                    assert_same(found, fg.tree_map(fg.convert_to_tensor, wanted))


def test_constants_of_any_size_are_compared_as_they_are():
    x = np.array([0, 44, 255], np.uint64)
    for k in (2**63, 2**64, -(2**63), -(2**80)):
        assert_same(
            fg.compile(lambda x, k=k: (x < k, x >= k, x == k))(x), fg.tree_map(np.asarray, (x < k, x >= k, x == k))
        )


PYTHONS = {
    "product": lambda a, b: a * b,
    "sum": lambda a, b: a + b * a - b,
    "quotient": lambda a, b: a / b,
    "floor": lambda a, b: a // b,
    "rest": lambda a, b: a % b,
    "power": lambda a, b: a**b,
    "shift": lambda a, b: a << b,
    "shift back": lambda a, b: (a >> b) + b,
    "shift beside an array": lambda a, b: (a << b) * np.ones(2) + (b >> a),
    "bits": lambda a, b: ((a & b) | 3) ^ (b - a),
    "bits beside an array": lambda a, b: np.array([1, 2], np.int8) + ((a & 1) | (b & 2)),
    "product beside an array": lambda a, b: (a * b) * np.ones(2),
    "power beside an array": lambda a, b: (a * a * a) * np.ones(2) + b,
    "compared": lambda a, b: (a * b) > np.ones(2) * 3,
    "iterations": lambda a, b: fg.fori_loop(0, 5, lambda i, c: c * a + b, 1),
    "counted": lambda a, b: fg.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * a), (0, b))[1],
}


@pytest.mark.parametrize("name", PYTHONS)
def test_arithmetic_of_pythons_integers_is_pythons(name):
    """They do not overflow, and raise for a divisor of 0; what no array holds is refused as a result."""
    function = PYTHONS[name]
    compiled = fg.compile(function)
    compiled(2, 1)
    for a, b in (
        (2, 3),
        (2**40, 2**40),
        (3, 0),
        (-7, 2),
        (2**61, -(2**61)),
        (2**60 + 1, 3),
        (10, 70),
        (-3, 3),
        (3, -1),
    ):
        if name in ("power", "shift", "shift beside an array") and abs(b) > 70:
            continue
        wanted = raised_by(function, a, b)
        if type(wanted) is int and wanted.bit_length() > 63:
            wanted = errors.IntegerRangeError
        found = raised_by(compiled, a, b)
        if isinstance(wanted, type):
            assert issubclass(found, wanted), (a, b)
        else:
            assert_same(found, fg.convert_to_tensor(wanted))


@pytest.mark.parametrize("function", [
    lambda a, b: a**b, np.power, lambda a, b: np.ones(2, int) * a**b,
    lambda a, b: fg.fori_loop(0, 2, lambda i, c: c * 2.0 + a**b, 1.0),
])  # fmt: skip
def test_powers_of_integers_are_fractions_where_the_exponent_is_negative(function):
    """Whichever came first, and NumPy's own error where its function is called."""
    for exponents in ((3, -1, 3, 0), (-1, 3, -2)):
        compiled = fg.compile(lambda a, b: function(a, b))
        for b in exponents:
            wanted = raised_by(function, 2, b)
            if isinstance(wanted, type):
                assert raised_by(compiled, 2, b) is wanted
            else:
                assert_same(compiled(2, b), fg.convert_to_tensor(wanted))


@pytest.mark.parametrize("n", [2, -3, 1])
def test_reciprocals_of_arrays_of_integers_are_integers(n):
    """An array of objects asks each for a quotient."""
    for function in (lambda n: np.reciprocal(np.array([n, n])), lambda n: np.reciprocal(np.array([n, 3]))):
        assert_same(fg.compile(function)(n), fg.convert_to_tensor(function(n)))
    for transform in (fg.vmap, fg.compile):
        with pytest.raises(errors.ObjectArrayError, match="for integers the result would be an integer"):
            transform(lambda x: np.reciprocal(np.array([x[0], x[0]])))(np.full((2, 2), n))
    np.testing.assert_array_equal(fg.compile(lambda x: 1 / np.array([x[0], x[0]]))(np.array([n])), [1 / n] * 2)


# Frozen values, and values that are asked for


def changing(make):
    """Return a function of x that calls `make(x, n)` with the number of the call."""
    calls = []

    def function(x):
        calls.append(1)
        return make(x, len(calls))

    return function


RNG = np.random.default_rng(0)
STATE = fg.Variable(0.0)
OTHER = fg.Variable(0.0)
FROZEN = {
    "generator": lambda x: x + RNG.normal(size=5),
    "np.random": lambda x: x + np.random.rand(),
    "a result": lambda x: (x, np.random.rand()),
    "clock": lambda x: x * time.perf_counter(),
    "mask": changing(lambda x, n: np.where(np.arange(5) == n % 5, x, 0)),
    "counter": changing(lambda x, n: x * n),
    "branch": changing(lambda x, n: x if n % 2 else -x),
    "which of two": changing(lambda x, n: [y := x + 1, z := x + 2, np.sin(y if n % 2 else z)]),
    "which of two inputs": changing(lambda x, n: [np.sin([x, 2 * x][k]) for k in ((0, 1) if n % 2 else (1, 0))]),
    "number of results": changing(lambda x, n: [x] * n),
    "names of results": changing(lambda x, n: {str(n): x}),
    "text": changing(lambda x, n: (x, str(n))),
    "slice": changing(lambda x, n: x[:n]),
    "key in a result": changing(lambda x, n: x[None][0, :n]),
    "axis": changing(lambda x, n: np.sum(x.reshape(5, 1), axis=n % 2)),
    "assigned": changing(lambda x, n: [STATE.assign(n), x][1]),
    "which is assigned": changing(lambda x, n: [(STATE if n % 2 else OTHER).assign(x[0]), x][1]),
}


@pytest.mark.parametrize("name", FROZEN)
def test_values_that_change_from_call_to_call_are_refused(name):
    with pytest.raises(FrozenValueError):
        fg.compile(FROZEN[name])(X)


UNNEEDED = {
    "a value": lambda x: [x + np.random.rand(), x * 2][1],
    "an operation": changing(lambda x, n: [np.sin(x) if n % 2 else np.cos(x), x * 2][1]),
    "how many": changing(lambda x, n: [[x + k for k in range(n)], x * 2][1]),
    "a form": changing(lambda x, n: [x[: n % 3 + 1] * 2, x * 2][1]),
    "a table": changing(lambda x, n: [x @ np.full((5, 5), n), x * 2][1]),
    "what only a part shares": changing(lambda x, n: [y := x + 1, y * n, (y - 1) * 2][2]),
}


@pytest.mark.parametrize("name", UNNEEDED)
def test_what_changes_and_is_needed_by_no_result_is_left_out(name):
    compiled = fg.compile(UNNEEDED[name])
    for _ in range(2):
        np.testing.assert_allclose(compiled(X), X * 2)


TABLE = np.arange(25.0).reshape(5, 5)


def test_a_table_that_is_made_in_each_call_is_a_constant():
    compiled = fg.compile(lambda x: TABLE.copy() @ (TABLE.copy() @ x) + np.ones(5))
    assert_same(compiled(X), fg.Tensor(TABLE @ (TABLE @ X) + 1))


@pytest.mark.parametrize(
    "table",
    [
        lambda n: TABLE + (n == 2),
        lambda n: TABLE.astype(np.float32 if n == 2 else float),
        lambda n: np.where(TABLE > 0, TABLE, -0.0 if n == 2 else 0.0),
        lambda n: TABLE[:, :1] if n == 2 else TABLE,
        lambda n: np.ones(n),
        lambda n: np.ones(5) if n == 2 else 1.0,
        lambda n: np.ones(5) if n == 2 else np.ones(1),  # which stands in the equation
        lambda n: 1 if n == 2 else 1.0,
        lambda n: -0.0 if n == 2 else 0.0,
    ],
)
def test_tables_that_change_are_refused(table):
    with pytest.raises(FrozenValueError):
        fg.compile(changing(lambda x, n: np.sum(x[:1, None] * table(n))))(X)


def test_a_table_that_is_written_to_between_its_uses():
    @fg.compile
    def twice(x):
        table = TABLE.copy()
        y = table @ x
        table += 1
        return y, table @ x

    assert_same(twice(X), (fg.Tensor(TABLE @ X), fg.Tensor((TABLE + 1) @ X)))


def written_in_an_iteration(c, x):
    new = fnp.ones(8)
    new[2:] += x * c[2:]
    return new, new[1:3]


def columns(x):
    new = fnp.ones((8, 3))
    new[:, 1] += x
    new.T[0, 2:] *= x[2:]
    return new


def views(x):
    new = fnp.arange(8.0)
    view = new[1:]
    view[:3] = x[:3]
    view *= x[1:]
    return new, view


def unrolled(x):
    new = fnp.ones(8)
    for i in range(8):
        new[i:] += x[i]
    return new


def with_out(x):
    new = fnp.full(8, 3.0)
    before = new + 1
    np.add(new, x, out=new)
    np.multiply(new[2:], x[2:], out=new[2:])
    np.add.at(new, [1, 1, 2], x[:3])
    return before, new


def scaled(x):
    new = fnp.zeros(8)
    new[:] *= x
    return new


WRITTEN = {
    "columns": columns,
    "views": views,
    "iterations": unrolled,
    "out": with_out,
    "zeros": scaled,
    "scan": lambda x: fg.scan(written_in_an_iteration, x, x),
    "map": lambda x: fg.map(lambda each: written_in_an_iteration(x, each)[0], x),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_new_arrays_may_be_written_to(name):
    """What is written to is the first constant of the program, as it was before."""
    x, function = np.arange(8.0) - 3, WRITTEN[name]
    compiled = fg.compile(function)
    compiled(x * 0 + 7)  # which is not to be seen in the results for another argument
    assert_same(compiled(x), fg.tree_map(fg.convert_to_tensor, function(x)))
    assert_same(fg.trace(function)(x * 0 + 7)(x), compiled(x))

    def loss(x):
        return sum(np.sum(each**2) for each in flatten(function(x))[0])

    assert_same(fg.compile(fg.grad(loss))(x), fg.grad(loss)(x))
    assert_same(fg.grad(fg.compile(loss))(x), fg.grad(loss)(x))


THIRDS = np.arange(8).astype(np.longdouble) / 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * np.longdouble(3) + THIRDS,
        lambda x: (x.astype(np.longdouble) + THIRDS * THIRDS)[2:] * 2,
        lambda x: x + (THIRDS + 1j * THIRDS),
        lambda x: x * np.array([fractions.Fraction(i, 3) for i in range(8)], object).astype(float),
        lambda x: (x * np.array([i / 3 for i in range(8)], object)).astype(float),
    ],
)
def test_constants_are_compared_by_what_they_are(function):
    """Some bytes of a long double are no part of the number, and those of objects say where they lie."""
    x = np.arange(8.0) - 3
    assert_same(fg.compile(function)(x), fg.convert_to_tensor(function(x)))


@pytest.mark.parametrize(
    "table",
    [
        lambda n: THIRDS + (n == 2),
        lambda n: np.where(THIRDS > 0, THIRDS, -0.0 if n == 2 else 0.0),
        lambda n: np.array([fractions.Fraction(n, 3)] * 8, object),
    ],
)
def test_constants_of_rare_kinds_that_change_are_refused(table):
    with pytest.raises(FrozenValueError):
        fg.compile(changing(lambda x, n: x * table(n)))(np.ones(8))


def test_values_that_only_the_second_recording_asks_for():
    for change in (lambda x, n: x * (n == 1 or float(x[0])), lambda x, n: x if n == 1 else x[x > 0]):
        with pytest.raises(ConcretizationError, match='static="n"'):
            fg.compile(changing(change))(X)


def test_the_second_recording_takes_the_equations_of_the_first():
    function, trace = (
        fg.value_and_grad(lambda x: np.sum(np.sin(TABLE @ x)[1:] * np.ones(4))),
        RecordTrace(is_compiled=True),
    )
    graph, assigned = recorded(function, (X,), {}, integers=True, trace=trace)
    with mock.patch("fgrad.graphs.record.Equation", side_effect=AssertionError("an equation was made")):
        check_repeats(function, (X,), graph, assigned, trace)


def test_the_second_recording_computes_what_was_left_out_for_its_own_values():
    """Of large arrays only one element is an example; for some operations that will not do, then all is computed."""
    x = np.random.default_rng(0).normal(size=(40, 40))

    def inverse(x, n):
        np.sin(x * n)  # needed by no result: with another number the second recording goes its own way from here
        return np.linalg.inv(np.exp(x)[:3, :3]) + np.linalg.inv(TABLE[:3, :3] @ np.exp(x)[:3, :3] + np.eye(3))

    expected = inverse(x, 0)
    for function in (lambda x: inverse(x, 1), changing(inverse)):
        np.testing.assert_allclose(fg.compile(function)(x), expected, rtol=1e-9)


def test_side_effects_happen_while_recording():
    function, calls = counted(wave)
    compiled = fg.compile(function)
    for _ in range(4):
        compiled(X)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x > 0 else -x,
        lambda x: float(x),
        lambda x: x.item(),
        lambda x: x * int(x),
        lambda x: [x, x + 1][x.astype(int)],
        lambda x: max(x, x + 1),
        lambda x: x[x > 0],
        lambda x: np.nonzero(x),
        lambda x: x.tolist(),
    ],
)
def test_values_that_are_asked_for(function):
    with pytest.raises(ConcretizationError, match=r"fg.compile\(static=") as caught:
        fg.compile(function)(np.float64(1.0))
    assert "np.where" in str(caught.value)


def test_an_adaptive_solver_inside():
    area = fg.compile(lambda a: integrate.quad(lambda x, a: np.sin(a * x), 0.0, 1.0, args=(a,))[0])
    with pytest.raises(ConcretizationError, match="Call the solver outside"):
        area(2.0)


# Threads, errors, memory, other environments


def test_threads_share_a_compiled_function():
    def function(x):
        return np.sum(np.sin(x) * x) + np.prod(np.tanh(x)) + np.linalg.norm(np.linalg.inv(SQUARE)[: len(x)] @ X)

    sizes = range(1, 6)
    wanted = {n: (fg.value_and_grad(function)(X[:n]), fg.hessian(function)(X[:n])) for n in sizes}
    values, plain = fg.compile(fg.value_and_grad(function)), fg.compile(function)
    state = fg.Variable(0.0)
    step = fg.compile(lambda x: [state.assign_add(1.0), x * state][1])
    failures, start = [], threading.Barrier(8)

    def work(number):
        try:
            start.wait()
            for iteration in range(10):
                n = 1 + (iteration * 3 + number) % 5
                assert_same(values(X[:n]), wanted[n][0])
                assert_same(fg.hessian(plain)(X[:n]), wanted[n][1])
                step(X[:n])
        except BaseException as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    finally:
        sys.setswitchinterval(before)
    assert not failures
    assert float(state) == 80.0
    assert (values._programs.count, plain._programs.count) == (5, 5)


def in_another_thread(work, *args):
    thread = threading.Thread(target=work, args=args)
    thread.start()
    thread.join()


def test_another_thread_may_assign_during_a_recording():
    w, assigned = fg.Variable(2.0), fg.Variable(0.0)

    def function(x):
        y = w * x
        in_another_thread(w.assign_add, 1.0)
        assigned.assign_add(1.0)
        in_another_thread(assigned.assign_add, 10.0)
        return y * w

    compiled = fg.compile(function)
    compiled(X)  # assigns while it is recorded, twice
    assert_same(compiled(X), 16 * X)
    assert (float(w), float(assigned)) == (4.0, 22.0)
    graph = fg.trace(lambda x: [w * x, in_another_thread(w.assign, 7.0), w * x])(X)
    assert_same(graph(X)[2], 7 * X)


def test_no_assignment_is_lost_to_another_thread():
    w = fg.Variable(np.zeros(3))
    optimizer = fg.optimizers.GradientDescent(1.0)
    add, subtract = fg.compile(lambda x: w.assign_add(x)), fg.compile(lambda x: w.assign_sub(x))
    step = fg.compile(lambda x: optimizer.apply_gradients([(x, w)]))
    calls = [add, subtract, step, lambda x: w.assign_add(3 * x)]
    start = threading.Barrier(len(calls))

    def work(call):
        start.wait()
        for _ in range(200):
            call(np.ones(3))

    [call(np.ones(3)) for call in calls]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(call,)) for call in calls]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    finally:
        sys.setswitchinterval(before)
    assert_same(w.numpy(), np.full(3, 402.0))
    assert optimizer.state_dict()["step"] == 201


def test_compiled_functions_that_call_each_other():
    @fg.compile
    def down(x, n):
        return x if n == 0 else up(x * n, n - 1)

    @fg.compile
    def up(x, n):
        return x if n == 0 else down(x + n, n - 1)

    start, found = threading.Barrier(2), []

    def work(function):
        start.wait()
        found.append(float(function(1.0, 4)))

    threads = [threading.Thread(target=work, args=(each,), daemon=True) for each in (down, up)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert sorted(found) == [15.0, 17.0]


def test_nothing_is_left_of_what_is_dropped():
    gc.collect()
    gc.disable()
    try:
        compiled = fg.compile(fg.value_and_grad(lambda x: np.sum(np.sin(np.linalg.inv(x)) * x)))
        compiled(SQUARE)
        fg.vmap(compiled)(np.stack([SQUARE, SQUARE]))
        (program,) = compiled._programs.known.values()
        executable = program.function.executable()
        module = executable._module
        held = [compiled, program, program.function, executable, module, module._engine]  # with the engine, its code
        held = [weakref.ref(each) for each in held]
        del compiled, program, executable, module
        assert [each() for each in held] == [None] * 6
    finally:
        gc.enable()


@pytest.fixture
def held_up(monkeypatch):
    """An event for which LLVM waits when all that is left to do needs no interpreter."""
    event = threading.Event()

    def compiled(self, *given, found=Machine._compiled):
        *given, leaves_python = given
        engine = found(self, *given, lambda: None)
        leaves_python()
        assert event.wait(60)
        return engine

    monkeypatch.setattr(Machine, "_compiled", compiled)
    return event


def test_llvm_compiles_while_the_function_is_recorded_again(held_up):
    runs = []

    @fg.compile
    def f(x):
        runs.append(x)
        if len(runs) == 2:
            held_up.set()
        return np.sin(x)

    assert_same(f(X), fg.Tensor(np.sin(X)))
    assert len(runs) == 2


def test_a_function_that_is_refused_leaves_nothing_running(held_up, monkeypatch):
    made = []
    monkeypatch.setattr(Module, "_make", lambda self, given, make=Module._make: (make(self, given), made.append(self)))

    @fg.compile
    def f(x):
        if made:
            raise AssertionError("there is code before the function is known to repeat itself")
        threading.Timer(0.2, held_up.set).start()
        return x * np.random.default_rng().random()

    with pytest.raises(FrozenValueError):
        f(X)
    assert len(made) == 1


def test_what_only_has_its_derivative_taken_is_not_compiled_itself():
    texts = []
    with mock.patch.object(
        Machine, "compiled", lambda self, *given, found=Machine.compiled: texts.append(given) or found(self, *given)
    ):
        fg.grad(fg.compile(lambda x: np.sum(np.sin(x))))(X)
    assert len(texts) == 2  # forward with what the pass back needs, and the pass back


MANY = """
import numpy as np, fgrad as fg
from fgrad.native.machine import Machine

def memory():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

machine, texts = Machine.this(), []
with_text = Machine.compiled
Machine.compiled = lambda self, *given: texts.append(given) or with_text(self, *given)
fg.compile(lambda x: np.sum(np.sin(x) * x))(np.ones(4))
for iteration in range(250):
    with_text(machine, *texts[0])
    if iteration == 50:
        before = memory()
print(memory() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.slow
def test_programs_that_are_dropped_free_their_memory():
    grown = int(subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True).stdout)
    assert grown < 6 << 20  # it would be 15 MB if pass managers were not freed


NUMBERS = """
from fgrad.native.machine import Machine

def memory():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

for iteration in range(251):
    sums = [f"  %s{k + 1} = fadd double %s{k}, 0x3FF{200 * iteration + k:013X}" for k in range(200)]
    text = ["define double @f(double %s0) #0 {", *sums, "  ret double %s200", "}"]
    Machine.this().compiled("\\n".join(text))
    if iteration == 50:
        before = memory()
print(memory() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.slow
def test_the_numbers_of_programs_that_are_dropped_are_forgotten():
    grown = int(subprocess.run([sys.executable, "-c", NUMBERS], capture_output=True, text=True, check=True).stdout)
    assert grown < 5 << 20  # it would be 17 MB if all modules shared what LLVM keeps of numbers; its heap may grow by 2


def test_without_llvmlite():
    sine = fg.compile(np.sin)
    Machine.this.cache_clear()
    try:
        with mock.patch.dict(sys.modules, {"llvmlite": None, "llvmlite.binding": None}):
            for _ in range(2):
                with pytest.raises(MissingExtraError, match=r"pip install 'fgrad\[compile\]'[\s\S]*at test_compile.py"):
                    sine(X)
    finally:
        Machine.this.cache_clear()
    assert_same(sine(X), fg.Tensor(np.sin(X)))


WITHOUT_SCIPY = """
import sys
sys.modules["scipy"] = None
import numpy as np, fgrad as fg
M = np.random.default_rng(0).normal(size=(30, 30))
x = np.linspace(0.1, 1, 30)
def f(x):
    A = M @ M.T + np.diag(x)
    total = np.sum(np.tanh(M @ x) * x) + np.linalg.slogdet(A)[1] + np.sum(np.linalg.solve(A, x))
    return total + np.sum(np.linalg.cholesky(A)) + np.sum(np.convolve(x, x)) + np.sum(np.abs(np.fft.fft(x)))
assert np.allclose(fg.compile(f)(x), f(x))
assert np.allclose(fg.compile(fg.grad(f))(x), fg.grad(f)(x))
"""


def test_without_scipy():
    subprocess.run([sys.executable, "-c", WITHOUT_SCIPY], check=True)


def test_arrays_that_are_laid_out_otherwise(monkeypatch):
    segments.check_layout()
    for name, place in (("_DATA", 8), ("_FLAGS", 8)):
        segments.check_layout.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(segments, name, getattr(segments, name) + place)
            with pytest.raises(UnsupportedError, match="Leave out compile"):
                fg.compile(np.sin)(X)
    segments.check_layout.cache_clear()
    segments.check_layout()


BESIDE_A_NUMBER = {
    "product": lambda x, k: np.sum(x * k),
    "sum times it": lambda x, k: np.sum(x) * k,
    "power": lambda x, k: np.sum(x**k),
    "power of it": lambda x, k: np.sum(k**x),
    "sine of it": lambda x, k: np.sum(np.sin(k) * x),
    "square of it": lambda x, k: np.sum(k * k * x),
}


@pytest.mark.parametrize("name", BESIDE_A_NUMBER)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_a_number_of_pythons_that_is_differentiated_is_numpys(name, dtype):
    """It takes the dtype of what it meets, except where derivatives by it are taken."""
    function, x = BESIDE_A_NUMBER[name], np.array([1.0, 2.0], dtype)

    def loss(x, k):
        return np.real(function(x, k))

    for derivatives in (
        lambda x, k: fg.value_and_grad(loss)(x, k),
        lambda x, k: fg.value_and_grad(loss, argnums=1)(x, k),
        lambda x, k: fg.value_and_grad(loss, argnums=(0, 1))(x, k),
        lambda x, k: fg.jvp(function, (x, k), (x, 1.0)),
        lambda x, k: fg.jvp(lambda x: function(x, k), (x,), (x,)),
        lambda x, k: fg.vjp(loss, x, k)[1](1.0),
        lambda x, k: fg.grad(lambda k: np.sum(np.real(fg.grad(loss)(x, k))))(k),
    ):
        for found, wanted in zip(
            *(flatten(run(x, 2.5))[0] for run in (fg.compile(derivatives), derivatives)), strict=True
        ):
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, 2e-2 if dtype == np.float16 else 1e-5)
