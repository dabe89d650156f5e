"""Programs that JAX runs, against NumPy: every primitive's samples, special values, loops, transforms, devices."""

import contextlib
import functools
import itertools
import os
import pickle
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.special as scipys
from helpers import naming
from primitive_names import DRAWS, SAMPLED, chosen

import fgrad as fg
from fgrad import errors
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import apply
from fgrad.extend import deflowering, register_primitive
from fgrad.graphs.equations import Name

jax = pytest.importorskip("jax")
jnp = jax.numpy

from fgrad.engines.jax import executable, exporting  # noqa: E402  # only where there is JAX
from fgrad.engines.jax.library import in_64_bits, named  # noqa: E402
from fgrad.engines.jax.programs import Run  # noqa: E402
from fgrad.engines.jax.table import NAMES, RULES, is_lowered  # noqa: E402
from fgrad.native.scalars import SCALAR_OPERATIONS  # noqa: E402

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "accelerators.md"

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def in_jax(function):
    return fg.compile(function, backend="jax")


def leaves_of(tree):
    return [np.asarray(leaf) for leaf in fg.tree_leaves(tree)]


def check(found, wanted, tolerance=1e-11):
    for x, y in zip(leaves_of(found), leaves_of(wanted), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        if y.dtype.kind not in "fc":
            np.testing.assert_array_equal(x, y)
            continue
        scale = np.max(np.abs(y[np.isfinite(y)]), initial=0)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale)


# Every primitive

LOWERED = [name for name in SAMPLED if is_lowered(name)]
OF_NUMPY = [
    name for name in LOWERED if not NAMES.get(name, "scipy.special").startswith("scipy.special") or name in RULES
]
PARTLY = {
    "argmax", "argmin", "cofactors", "dawsn", "erf", "erfc", "erfcx", "erfinv", "exp1", "expi", "fresnel", "gamma",
    "gammaln", "hyp1f1", "hyp2f1", "interp", "log_ndtr", "ndtr", "psi", "rgamma", "spence",
}  # fmt: skip
"""Primitives of which some samples are refused: complex arguments, mostly."""

TOLERANCES = {np.float64: 1e-11, np.complex128: 1e-11, np.float32: 1e-4}
"""Of float32, sums in another order, and logarithms of numbers next to 1, leave four digits."""


def recorded(names, dtype, most=None):
    """Return the samples of primitives with their graphs."""
    found = []
    for name in names:
        for _, call in chosen(name, dtype, derived=False)[:most]:
            try:
                found.append((name, call.arrays, fg.trace(call.function)(*call.arrays)))
            except errors.ConcretizationError:  # its shape depends on values
                continue
    return found


@functools.cache
def unoptimized():
    """Return the options, of those that this JAX has, without which compiling takes most of the time."""
    found = {}
    for option in ({"xla_backend_optimization_level": 0}, {"xla_cpu_use_fusion_emitters": False}):
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # no such compile option
            jax.jit(lambda: 0, compiler_options=option)()
            found |= option
    return found


def run_together(samples):
    """Return what JAX makes of samples in one program; None where it refuses one."""

    def together(inputs):
        found = []
        for (_, _, graph), arrays in zip(samples, inputs, strict=True):
            run = Run()
            try:
                results = [jnp.asarray(x) for x in run.computed(graph, arrays)]
            except errors.NotLoweredError:
                results = None
            found.append((results, run.failed() if run.failures else None))
        return found

    with in_64_bits():
        jitted = jax.jit(together, compiler_options=unoptimized())
        return jitted([[np.asarray(x) for x in arrays] for _, arrays, _ in samples])


def check_samples(samples, tolerance):
    refused = set()
    for (name, arrays, graph), (found, failed) in zip(samples, run_together(samples), strict=True):
        if found is None:
            refused.add(name)
            continue
        with naming(name, *map(np.shape, arrays)):
            wanted = [
                x if type(x) is not Name else y for x, y in zip(graph.outputs, leaves_of(graph(*arrays)), strict=True)
            ]
            assert failed is None or not failed
            check(found, wanted, tolerance)
    assert refused <= PARTLY | {name for name, path in NAMES.items() if named(path) is None}  # what this JAX lacks


def test_operations_on_numbers_have_a_counterpart_in_their_row_or_a_rule():
    for name, row in SCALAR_OPERATIONS.items():
        assert (row.jax is None) == (name in RULES), name
        assert row.jax is None or callable(named(NAMES[name])), name


@pytest.mark.parametrize("part", range(4))
def test_values_of_every_primitive(part):
    names = OF_NUMPY[part::4]
    check_samples(recorded(names, np.float64, 4), 1e-11)


def test_values_of_special_functions():
    names = [name for name in LOWERED if name not in OF_NUMPY]
    one_each = {sample[0]: sample for sample in recorded(names, np.float64, 2)}  # to compile one takes JAX a second
    assert one_each.keys() == set(names)
    check_samples(list(one_each.values()), 1e-11)


def test_index_arrays_of_all_kinds():
    def function(x, small, unsigned, key):
        return x[small] + x[unsigned], x[:, key][key]

    arguments = np.eye(3), np.array([1, -1], np.int8), np.array([2, 0], np.uint8), np.array([0, 2, 2])
    check(in_jax(function)(*arguments), function(*arguments))


@pytest.mark.parametrize(("dtype", "first"), [(np.float32, 0), (np.complex128, 1)])
def test_values_in_other_dtypes(dtype, first):
    check_samples(recorded(OF_NUMPY[first::2], dtype, 1), TOLERANCES[dtype])  # half of them, for the sake of time


def test_the_page_names_what_has_no_counterpart():
    missing = [name for name in sorted(PRIMITIVES) if name in SAMPLED and name not in DRAWS and not is_lowered(name)]
    text = ", ".join(f"`{name}`" for name in missing)
    shown = re.search(r"<!-- without a counterpart -->\n(.*?)\n<!-- end -->", PAGE.read_text(), re.DOTALL)
    assert shown is not None
    assert " ".join(shown[1].split()) == text, textwrap.fill(text, 120)


# Where operations decide

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.3, 1e30, -1e30, np.inf, -np.inf, np.nan]
PAIRS = [
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "fmin", "remainder", "fmod", "floor_divide",
    "copysign", "heaviside", "logaddexp", "hypot", "arctan2", "equal", "less", "greater_equal", "logical_xor",
]  # fmt: skip
SINGLES = [
    "sign", "sqrt", "exp", "log", "log1p", "expm1", "floor", "rint", "trunc", "isnan", "isfinite", "signbit", "abs",
    "reciprocal", "tanh", "logical_not", "cbrt", "square",
]  # fmt: skip


def test_special_values():
    a, b = (x.ravel().copy() for x in np.meshgrid(SPECIAL, SPECIAL))

    def pairs(a, b):
        return [getattr(np, name)(a, b) for name in PAIRS]

    def singles(a):
        return [getattr(np, name)(a) for name in SINGLES]

    for function, arrays in ((pairs, (a, b)), (singles, (np.array(SPECIAL),))):
        for name, x, y in zip(
            PAIRS if function is pairs else SINGLES,
            leaves_of(in_jax(function)(*arrays)),
            leaves_of(function(*arrays)),
            strict=True,
        ):
            with naming(name):
                np.testing.assert_allclose(x, y, rtol=1e-14)
                if name not in ("hypot", "maximum", "minimum", "fmax", "fmin"):  # of which NumPy's own sign of 0 varies
                    numbers = ~np.isnan(y) if y.dtype.kind == "f" else np.ones(y.shape, bool)
                    np.testing.assert_array_equal(np.signbit(x[numbers] * 1.0), np.signbit(y[numbers] * 1.0))


@pytest.mark.parametrize("function", [
    np.sum, np.mean, np.nansum, lambda x: np.sum(x, axis=()), lambda x: np.sum(x, axis=-1, keepdims=True),
])  # fmt: skip
def test_a_sum_of_one_element_begins_at_zero(function):
    """NumPy's sum of -0.0 is 0.0; the derivatives are those of a sum."""
    for shape in ((), (1,), (1, 1)):
        x = np.full(shape, -0.0)
        found = in_jax(function)(x)
        check(found, np.asarray(function(x)))
        assert not np.signbit(found).any()
        assert np.all(np.asarray(jax.grad(lambda x: jax.numpy.sum(fg.to_jax(function)(x)))(x)) == 1.0)


OF_NO_NUMBERS = np.array([1 + 1j, np.nan + 1j, 2j, np.inf])
OF_BOOLEANS = {
    "booleans": lambda x: x * (x < 0),
    "booleans as numbers": lambda x: (x < 0).astype(x.dtype) * x,
    "products of booleans": lambda x: (x < 0) @ x,
    "sums of booleans": lambda x: np.sum(x * (x < 0)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("name", OF_BOOLEANS)
def test_no_boolean_hides_what_is_not_finite(name, dtype):
    for odd in (np.inf, np.nan):
        x = np.array([1.0, odd, -2.0], dtype)
        check(in_jax(OF_BOOLEANS[name])(x), OF_BOOLEANS[name](x))


@pytest.mark.parametrize("function", [np.maximum, np.minimum, np.fmax, np.fmin])
def test_extrema_of_two_complex_numbers_are_nan_where_numpys_are(function):
    for x, y in itertools.product((OF_NO_NUMBERS, OF_NO_NUMBERS[::-1], OF_NO_NUMBERS.real), repeat=2):
        check(in_jax(function)(x, y), function(x, y))


@pytest.mark.parametrize("function", [np.max, np.min, np.nanmax, np.nanmin])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_extrema_of_complex_numbers_are_nan_where_numpys_are(function, axis):
    x = np.stack([OF_NO_NUMBERS, OF_NO_NUMBERS[::-1] * 2, np.arange(4) + 0j])
    found = in_jax(lambda x: function(x, axis=axis))(x).numpy()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(function(x, axis=axis)))
    check(in_jax(lambda x: function(x, axis=axis))(x[2:]), function(x[2:], axis=axis))


@pytest.mark.parametrize("dtype", [float, np.float32, int])
def test_parts_of_numbers_have_their_signs(dtype):
    x = np.array([-3, 0, 2]).astype(dtype)
    x = x if dtype is int else np.append(x, [-0.0, 2.5, -2.5, np.inf, -np.inf, np.nan]).astype(dtype)
    found, wanted = in_jax(np.modf)(x), np.modf(x)
    check(found, wanted)
    for part, each in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.signbit(part), np.signbit(each))


def test_complex_powers_of_zero():
    exponents = np.array([1 + 1j, 2, 0.5 - 3j, 0, 1j, -1])
    for base in (np.zeros(6), np.zeros(6, complex)):
        check(in_jax(np.power)(base, exponents), base**exponents)


def test_whole_numbers_divided_by_zero():
    x, y = np.array([7, -7, 0, 5]), np.array([0, 0, 0, -3])
    for function in (np.floor_divide, np.remainder):
        check(in_jax(lambda x, y, function=function: function(x, y))(x, y), function(x, y))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("given", ["f8", "f4", "c16"])
@pytest.mark.filterwarnings("ignore:.*discards the imaginary part")
def test_floats_beyond_integers(given, dtype):
    """NumPy's answer, whatever the processor has in place of an integer that there is not."""
    ends = [0.0, -0.7, -1.0, 127.5, -128.5, 255.9, 300.0, -300.0, 2.0**31, 1e10, -(2.0**63), 1e20, np.nan, np.inf]
    converted = in_jax(lambda x: x.astype(dtype))
    in_turns = in_jax(lambda x: fg.map(lambda each: each.astype(dtype), x))
    with np.errstate(all="ignore"):
        for x in np.array(ends, given)[:, None]:
            check(converted(x), x.astype(dtype))
            check(in_turns(x), x.astype(dtype))


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">c16", ">i4", ">u2"])
def test_bytes_in_the_other_order(dtype):
    x = np.array([1, 2, 3]).astype(dtype)
    function = fg.compile(lambda y: (y, y * 2, np.sum(y * x), y[[0, 1]], (y.real * 1).astype(dtype)), backend="jax")
    for found, wanted in zip(function(x), (x, x * 2, np.sum(x * x), x[:2], x), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    if x.dtype.kind == "f":
        loss = in_jax(lambda y: np.sum(y * x * y))
        np.testing.assert_array_equal(fg.grad(loss)(x), 2 * x * x)
        np.testing.assert_array_equal(fg.vmap(loss)(np.stack([x, x]).astype(dtype)), [36, 36])


def raised_by(function, *args):
    try:
        return function(*args)
    except (OverflowError, ZeroDivisionError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i4", "u8", "f4"])
def test_pythons_integers_beyond_a_dtype(dtype):
    x = np.array([0, 44, 255]).astype(dtype)
    functions = (
        lambda x, k: (x < k, k != x),
        lambda x, k: x + k,
        lambda x, k: np.maximum(x, k),
        lambda x, k: np.where(x > 3, x, k),
        lambda x, k: np.select([x > 3], [x], k),
        lambda x, k: fg.scan(lambda c, each: (c + (each == k), each < k), 0, x),
    )
    compiled = [in_jax(function) for function in functions]
    for each in compiled:
        raised_by(each, x, 1)
    for k in (300, -1, 2, 2**40):
        works = []
        for function, each in zip(functions, compiled, strict=True):
            wanted, found = raised_by(function, x, k), raised_by(each, x, k)
            if isinstance(wanted, type):
                assert found is wanted, k
                assert raised_by(in_jax(lambda x, f=function: f(x, k)), x) is wanted, k
            else:
                check(found, wanted)
                works.append(function)
        check(in_jax(lambda x: [f(x, k) for f in works])(x), [f(x, k) for f in works])


def test_arithmetic_of_pythons_integers():
    for function in (
        lambda a, b: (a * b) * np.ones(2),
        lambda a, b: (a + b * a - b) * 1.0,
        lambda a, b: a / b,
        lambda a, b: a // b,
        lambda a, b: a % b,
        lambda a, b: (a * a * a) * np.ones(2),
        lambda a, b: (a << (b & 127)) * np.ones(2),
        lambda a, b: (a >> b) * np.ones(2),
        lambda a, b: np.array([1, 2], np.int8) + ((a & 1) | (b & 2) ^ 1),
    ):
        compiled = in_jax(function)
        compiled(2, 1)
        for a, b in ((2, 3), (2**40, 2**40), (3, 0), (-7, 2), (1, 70), (1, -1), (2**61, -(2**61)), (2**60 + 1, 3)):
            wanted = raised_by(function, a, b)
            if isinstance(wanted, type):
                assert raised_by(compiled, a, b) is wanted
            else:
                check(compiled(a, b), wanted)
    square = in_jax(lambda a: a * a)
    assert square(3).item() == 9
    with pytest.raises(errors.IntegerRangeError, match="an integer of 82 bits"):
        square(2**40)


def test_powers_of_whole_numbers_with_large_exponents():
    x = np.array([0, 1, 3])
    check(in_jax(lambda x, n: x**n)(x, np.array([100, 100, 65])), x ** np.array([100, 100, 65]))


def test_dtypes_are_numpys():
    kinds = [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_, np.complex64]
    arrays = [np.ones(2, kind) for kind in kinds]

    def all_sums(*arrays):
        return [x + y for x, y in itertools.product(arrays, arrays)] + [
            2.5 * arrays[0],
            2 * arrays[4],
            np.sum(arrays[2]),
        ]

    check(in_jax(all_sums)(*arrays), all_sums(*arrays))


def test_exact_zeros_win_after_a_mask():
    def f(x, a):
        return np.sum(np.where(x > 1.0, np.sqrt(x - 1.0), 0.0)) + np.sum(np.where(False, a @ x, x[0] * x))

    x, a = np.array([1.0, 2.0, 3.0]), np.array([[np.inf, 1.0, 2.0], [0.0, np.nan, 1.0], [1.0, 1.0, 1.0]])
    gradient = fg.grad(f)(x, a)
    assert np.isfinite(gradient).all()
    check(in_jax(fg.grad(f))(x, a), gradient)


@pytest.mark.parametrize("name", ["matmul", "einsum"])
def test_guarded_products(name):
    a = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    b = np.array([[np.inf, np.nan, -np.inf], [1.0, np.inf, 2.0]])
    metadata = {"guard": 0} if name == "matmul" else {"guard": 0, "subscripts": "ij,jk->ik"}

    def product(a, b):
        return apply(PRIMITIVES[f"{name}_guarded"], (a, b), metadata)

    wanted = np.asarray(product(a, b))
    assert np.isnan(wanted).any()
    assert np.isinf(wanted).any()
    assert (wanted[2] == 0).all()
    np.testing.assert_array_equal(np.asarray(in_jax(product)(a, b)), wanted)


def test_writing_takes_the_last_of_several():
    def write(x, places, values):
        y = x * 1.0
        y[places] = values
        y[::2][1] = 7.0
        z = y.reshape(2, 3)
        z[:, places[:2] % 3] *= 2.0
        return y

    arguments = np.zeros(6), np.array([4, 1, 4, -6]), np.array([1.0, 2.0, 3.0, 4.0])
    check(in_jax(write)(*arguments), fg.trace(write)(*arguments)(*arguments))


@pytest.mark.parametrize(
    ("function", "arguments", "error"),
    [
        (lambda x, i: x[i], (np.ones(3), np.array([0, 3])), IndexError),
        (lambda a, b: np.linalg.solve(a, b), (np.ones((2, 2)), np.ones(2)), np.linalg.LinAlgError),
        (lambda a: np.linalg.cholesky(a), (-np.eye(2),), np.linalg.LinAlgError),
        (lambda x, n: x**n, (np.array([2, 3]), np.array([1, -1])), ValueError),
        (lambda x, i: fg.scan(lambda c, k: (c + x[k], None), 0.0, i)[0], (np.ones(3), np.array([0, 5])), IndexError),
    ],
)
def test_what_numpy_refuses(function, arguments, error):
    with pytest.raises(error):
        function(*arguments)
    compiled = in_jax(function)
    with pytest.raises(error):
        compiled(*arguments)
    with jax.enable_x64(True), pytest.raises(error):
        compiled(*map(jnp.asarray, arguments))


# Loops


def orbit(x, speed):
    def step(carry, a):
        carry = carry + speed * np.sin(carry) * a
        return carry, np.sum(carry)

    last, sums = fg.scan(step, x, np.linspace(0.0, 1.0, 9))
    back, _ = fg.scan(step, last, np.linspace(0.0, 1.0, 5), reverse=True)
    return np.sum(back) + np.sum(sums**2)


def by_rows(rows):
    last, states = fg.scan(lambda x, row: (np.sin(x * row), x), 0.3, rows)
    return last + np.sum(states * np.arange(5.0))


def root(a):
    return fg.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a, max_steps=40)


def unrolled(x, speed):
    for k in range(60):
        x = x + 0.01 * k * np.sin(speed * x)
    return np.sum(x)


X = rng.normal(size=4)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (orbit, (X, 0.3)),
        (fg.grad(orbit), (X, 0.3)),
        (fg.grad(by_rows), (np.linspace(0.5, 1.5, 5),)),
        (root, (4.0,)),
        (fg.grad(root), (4.0,)),
        (fg.value_and_grad(unrolled), (X, 0.7)),
        (lambda x: fg.fori_loop(0, 10, lambda i, y: y * x + i, 1.0), (0.5,)),
        (lambda x: fg.while_loop(lambda c: c[0] < 20, lambda c: (c[0] + 3, c[1] * x), (0, x)), (X,)),
    ],
)
def test_loops(function, arguments):
    check(in_jax(function)(*arguments), function(*arguments))


def test_loops_stay_loops():
    lowered = jax.jit(fg.to_jax(unrolled)).lower(X.astype(np.float32), np.float32(0.7)).as_text()
    assert "stablehlo.while" in lowered
    assert lowered.count("stablehlo.sine") == 1


# Transforms, variables, rules of one's own


def energy(x, w):
    hidden = np.tanh(x @ w)
    return np.sum(hidden**2) + np.sum(np.linalg.solve(w.T @ w + np.eye(3, dtype=w.dtype), w[:3])) + np.max(x)


PLACES = rng.normal(size=(5, 4)), rng.normal(size=(4, 3))


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: fg.grad(f, (0, 1)),
        lambda f: lambda x, w: fg.jvp(f, (x, w), (x, w)),
        lambda f: lambda x, w: fg.vmap(f, in_axes=(0, None))(np.stack([x, 2 * x]), w),
    ],
    ids=["grad", "jvp", "vmap"],
)
def test_transforms_in_both_orders(transform, monkeypatch):
    monkeypatch.setattr(executable.jax, "jit", functools.partial(jax.jit, compiler_options=unoptimized()))
    wanted = transform(energy)(*PLACES)
    check(transform(in_jax(energy))(*PLACES), wanted, 1e-10)
    check(in_jax(transform(energy))(*PLACES), wanted, 1e-10)


def test_higher_orders():
    def f(x):
        return np.sum(np.tanh(x) * np.cumsum(x**2))

    check(fg.hessian(in_jax(f))(X), fg.hessian(f)(X))


def test_tapes_and_variables():
    w = fg.Variable(np.array([1.0, 2.0]))

    @in_jax
    def step(x):
        w.assign_sub(0.1 * x)
        return np.sum(w * x)

    assert float(step(np.array([1.0, 1.0]))) == pytest.approx(2.8)
    np.testing.assert_allclose(w.numpy(), [0.9, 1.9])
    loss = in_jax(lambda x: np.sum(w * x))
    with fg.GradientTape() as tape:
        value = loss(np.array([3.0, 4.0]))
    np.testing.assert_allclose(tape.gradient(value, w), [3.0, 4.0])


def test_rules_of_ones_own():
    @fg.custom_vjp
    def clipped(x):
        return np.exp(x)

    clipped.defvjp(lambda x: (np.exp(x), x), lambda x, ct: (np.clip(ct, -1.0, 1.0),))
    check(in_jax(lambda x: np.sum(5.0 * clipped(x)))(X), np.sum(5.0 * np.exp(X)))
    check(in_jax(fg.grad(lambda x: np.sum(5.0 * clipped(x))))(X), np.ones(4))
    check(in_jax(fg.grad(fg.checkpoint(lambda x: np.sum(np.sin(x) ** 2))))(X), 2 * np.sin(X) * np.cos(X))


def test_methods_and_pickles():
    model = Model()
    assert float(model.scaled(X[:1])) == pytest.approx(2 * X[0])
    again = pickle.loads(pickle.dumps(fg.compile(energy, backend="jax")))
    check(again(*PLACES), energy(*PLACES))
    assert pickle.loads(pickle.dumps(fg.to_jax(energy))).function is energy


class Model:
    weight = 2.0

    @fg.compile(backend="jax")
    def scaled(self, x):
        return np.sum(self.weight * x)


# JAX's own arrays


def loss(x, w):
    return np.sum(np.tanh(x @ w) ** 2) + np.max(x)


def test_a_function_of_jaxs_arrays():
    function = fg.to_jax(fg.value_and_grad(loss, (0, 1)))
    x, w = (jnp.asarray(each, np.float32) for each in PLACES)
    wanted = jax.jit(jax.value_and_grad(fg.to_jax(loss), (0, 1)))(x, w)
    assert all(isinstance(leaf, jax.Array) and leaf.dtype == np.float32 for leaf in jax.tree.leaves(function(x, w)))
    for found in (function(x, w), jax.jit(function)(x, w)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4), found, wanted)
    assert jax.jit(jax.vmap(fg.to_jax(loss), in_axes=(0, None)))(jnp.stack([x, x, x]), w).shape == (3,)


def test_64_bits_are_asked_for():
    function = fg.to_jax(loss)
    with jax.enable_x64(False), pytest.raises(errors.DtypeError, match="jax_enable_x64"):
        function(*PLACES)
    with jax.enable_x64(True):
        found = function(*map(jnp.asarray, PLACES))
        assert found.dtype == np.float64
    check(found, loss(*PLACES))


def test_compiled_functions_take_jaxs_arrays():
    x = jnp.asarray(PLACES[0], np.float32)
    value, gradient = in_jax(fg.value_and_grad(loss))(x, PLACES[1].astype(np.float32))
    assert isinstance(value, jax.Array)
    assert isinstance(gradient, jax.Array)
    wanted = fg.value_and_grad(loss)(PLACES[0].astype(np.float32), PLACES[1].astype(np.float32))
    np.testing.assert_allclose(gradient, wanted[1], rtol=1e-4, atol=1e-5)
    with pytest.raises(errors.ClosureError, match="a transform of fgrad's follows"):
        fg.grad(lambda w: in_jax(loss)(x, w))(PLACES[1].astype(np.float32))


def exp(x):
    """Not the exponential function: its name says nothing."""
    return {"sum": jnp.sum(x * x), "rest": (3.0 * x, x > 0)}


@pytest.mark.parametrize("transform", [
    lambda f: f, fg.grad, fg.value_and_grad, fg.hessian,
    lambda f: lambda x: fg.vmap(f)(np.stack([x, 2 * x])),
])  # fmt: skip
def test_functions_of_jax_in_programs_that_jax_runs(transform):
    own = fg.interop.from_jax(exp)

    def loss(x):
        found = own(np.sin(x))
        return found["sum"] * np.sum(np.cos(found["rest"][0]) * found["rest"][1])

    x = np.array([0.5, -1.0, 2.0])
    check(in_jax(transform(loss))(x), transform(loss)(x))
    check(transform(in_jax(loss))(x), transform(loss)(x))
    with in_64_bits():
        check(jax.jit(fg.to_jax(transform(loss)))(x), transform(loss)(x))


@pytest.mark.parametrize("function", [
    lambda x: fg.cond(x[0] > 0, lambda x: np.sum(x**2), np.sum, x),
    lambda x: fg.switch(np.argmax(x), [lambda x: np.sum(np.sin(x)), np.prod, lambda x: np.sum(np.exp(x))], x),
    lambda x: np.sum(fg.scan(lambda c, e: (fg.cond(e > 0, lambda c: c * e, lambda c: c - e, c), c), 1.0, x)[1]),
])  # fmt: skip
def test_jax_differentiates_branches(function):
    ours = fg.to_jax(function)
    with in_64_bits():
        for x in (np.array([0.5, -1.0, 2.0]), np.array([-0.5, 1.0, 0.2])):
            check(jax.jit(jax.grad(ours))(x), fg.grad(function)(x))
            check(jax.hessian(ours)(x), fg.hessian(function)(x))


def test_arrays_of_jax_in_native_programs():
    table = jnp.arange(3.0)
    x = np.arange(3.0) + 1
    check(fg.compile(fg.grad(lambda x: np.sum(table * x**2)))(x), 2 * x * np.arange(3.0))
    native = fg.compile(lambda x, table: x * np.asarray(table))
    for each in (table, table + 1, table):
        check(native(x, each), x * np.asarray(each, float))
    check(fg.compile(lambda table: table + 1)(table), np.arange(3.0, dtype=table.dtype) + 1)
    with pytest.raises(errors.NonNumericInputError, match=r"Pass np.asarray\(x\); or take the derivative to JAX"):
        fg.grad(np.sum)(table)


def test_devices():
    found = fg.compile(loss, backend="jax", device="cpu")(*PLACES)
    check(found, loss(*PLACES))
    assert found.dtype == np.float64
    check(fg.compile(loss, backend="jax", device=jax.devices("cpu")[0])(*PLACES), loss(*PLACES))
    with pytest.raises(errors.ParameterError, match="device 'moon' of compile is not available in JAX"):
        fg.compile(loss, backend="jax", device="moon")(*PLACES)


SHARDED = """
import jax, numpy as np, fgrad as fg
from jax.sharding import NamedSharding, PartitionSpec

def loss(w, x, y):
    return np.mean((np.tanh(x @ w) - y) ** 2)

assert len(jax.devices()) == 8
rng = np.random.default_rng(0)
w, x, y = rng.normal(size=(4, 3)), rng.normal(size=(16, 4)), rng.normal(size=(16, 3))
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("batch",))
with jax.enable_x64(True):
    parts = [jax.device_put(each, NamedSharding(mesh, PartitionSpec("batch"))) for each in (x, y)]
value, gradient = fg.compile(fg.value_and_grad(loss), backend="jax")(w, *parts)
assert len(gradient.sharding.device_set) == 8, gradient.sharding
wanted = fg.value_and_grad(loss)(w, x, y)
np.testing.assert_allclose(gradient, wanted[1], rtol=1e-12)
per_example = fg.compile(lambda x: np.sum(np.sin(x), axis=1), backend="jax")(parts[0])
assert [shard.data.shape for shard in per_example.addressable_shards] == [(2,)] * 8
np.testing.assert_allclose(per_example, np.sum(np.sin(x), axis=1), rtol=1e-12)
print("same")
"""


def test_a_batch_over_eight_devices():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run(
        [sys.executable, "-c", SHARDED], env={**os.environ, **flags}, capture_output=True, text=True, check=False
    )
    assert ran.stdout == "same\n", ran.stderr


# What there is none of


def test_no_counterpart_is_named():
    def airy(x):
        return np.sum(scipys.airy(x)[0])

    with pytest.raises(errors.NotLoweredError, match=r"airy float64\[4\], at .*test_engine_jax.py.*scipys.airy"):
        in_jax(airy)(X)
    with pytest.raises(errors.NotLoweredError, match=r"erf does not .*\n  erf complex128\[4\]"):
        in_jax(lambda x: scipys.erf(x))(X + 1j)
    with pytest.raises(errors.NotLoweredError, match="airy"):
        in_jax(lambda x: fg.scan(lambda c, a: (c + airy(a[None]), None), 0.0, x))(X)


def test_operations_of_ones_own():
    strange = register_primitive(lambda x: x + 1.0, name="strange_in_jax")
    try:
        with pytest.raises(errors.NotLoweredError, match="an operation of your own"):
            in_jax(lambda x: strange(x))(X)
        deflowering(strange, lambda x: x + 1.0)
        check(in_jax(lambda x: strange(2.0 * x))(X), 2.0 * X + 1.0)
    finally:
        del PRIMITIVES["strange_in_jax"]


def test_options():
    for options, message in (
        ({"backend": "torch"}, "backend of compile must be 'native' or 'jax', and is 'torch'"),
        ({"device": "cpu"}, "device of compile is for backend='jax'"),
        ({"backend": "jax", "threads": 2}, "threads and precise of compile are for native code"),
    ):
        with pytest.raises(errors.ParameterError, match=message):
            fg.compile(energy, **options)
    with pytest.raises(errors.ParameterError, match="inspect describes native code"):
        in_jax(energy).inspect(*PLACES)


def test_without_jax():
    code = textwrap.dedent("""
        import sys, numpy as np, fgrad as fg
        assert "jax" not in sys.modules
        sys.modules["jax"] = None
        for run in (fg.compile(np.sin, backend="jax"), fg.to_jax(np.sin), lambda x: fg.trace(np.sin)(x).export()):
            try:
                run(np.ones(3))
            except fg.errors.MissingExtraError as error:
                print(error)
    """)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.count("pip install 'fgrad[jax]'") == 3, ran.stderr


# Export


WEIGHT = fg.Variable(np.array(2.0))


def exportable():
    """Return a graph, its inputs in its order, and its results."""

    def function(p):
        return {"loss": WEIGHT * energy(p["x"], p["w"]), "one": 1.0}

    x, w = PLACES
    return fg.trace(function)({"x": x, "w": w}), (w, x), [2.0 * energy(x, w), np.asarray(1.0)]


def test_what_is_exported():
    graph, inputs, wanted = exportable()
    program = exporting.written(graph, ("cpu", "cuda", "tpu"))
    assert program.platforms == ("cpu", "cuda", "tpu")
    assert "stablehlo.dot_general" in program.mlir_module()
    with in_64_bits():
        check(program.call(*inputs), wanted)


def test_export():
    pytest.importorskip("flatbuffers")
    from jax import export

    graph, inputs, wanted = exportable()
    data = graph.export()
    assert type(data) is bytes
    with in_64_bits():
        check(export.deserialize(bytearray(data)).call(*inputs), wanted)


def test_export_says_what_is_missing():
    with mock.patch.dict(sys.modules, {"flatbuffers": None, "jax._src.export.serialization": None}):
        with pytest.raises(errors.MissingExtraError, match="flatbuffers"):
            fg.trace(energy)(*PLACES).export()


def test_void_iterations_end_a_while_loop():
    by_iteration = fg.compile(backend="jax")(lambda i, t: fg.while_loop(lambda i: i < 100, lambda i: t[i], i))
    by_condition = fg.compile(backend="jax")(lambda i, t: fg.while_loop(lambda i: t[i] < 100, lambda i: i + 1, i))
    for compiled, good, found in ((by_iteration, [1, 2, 100], 100), (by_condition, [1, 2, 100], 2)):
        assert compiled(np.int64(0), np.array(good)).item() == found
        with pytest.raises(IndexError):
            compiled(np.int64(0), np.array([1, 2, 10]))
