"""Taylor series, derivatives of high order and Laplacians: against nested derivatives, closed forms and mpmath."""

import gc
import itertools
import math
import pickle
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.linalg
import scipy.special
from helpers import in_groups, naming
from primitive_names import LONG, SAMPLED

import fgrad as fg
import fgrad.numpy
from fgrad import errors
from fgrad.core.primitive import PRIMITIVES
from fgrad.scipy import linalg
from fgrad.scipy.integrate import quad, solve_ivp
from fgrad.scipy.optimize import brentq
from fgrad.testing import calls
from fgrad.transforms.series import Operation

RNG = np.random.default_rng(7)
LIST = np.array([0.3, 0.7])


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def wave(x):
    return np.exp(np.sin(x)) * x


def nested(function, x, direction, order):
    """Return the coefficients by derivatives of derivatives."""

    def along(function):
        return lambda t: fg.jvp(function, (t,), (np.ones_like(t),))[1]

    def moved(t):
        return function(fg.tree_map(lambda x, v: x + t * v, x, direction))

    found = []
    for k in range(order + 1):
        found.append(fg.tree_map(lambda c, k=k: np.asarray(c) / math.factorial(k), moved(np.float64(0.0))))
        moved = along(moved)
    return fg.tree_map(lambda *each: np.stack(each), *found)


def assert_alike(found, wanted, tolerance=1e-9):
    leaves = zip(fg.tree_leaves(found), fg.tree_leaves(wanted), strict=True)
    for x, y in ((np.asarray(x), np.asarray(y)) for x, y in leaves):
        assert x.shape == y.shape
        scale = np.max(np.abs(y[np.isfinite(y)]), initial=1)
        np.testing.assert_allclose(x, y, tolerance, tolerance * scale)


# Every operation


@in_groups("name", SAMPLED)
def test_every_primitive_against_nested_derivatives(name):
    for dtype in (np.float64, np.complex128):
        for call in list(calls(PRIMITIVES[name], dtype))[: 1 if name in LONG else 2]:
            direction = tuple(np.asarray(RNG.normal(size=x.shape), dtype) for x in call.arrays)
            with naming(np.dtype(dtype).name, call.arrays):
                found = fg.taylor(lambda arrays, call=call: call.function(*arrays), 2)(call.arrays, direction)
                wanted = nested(lambda arrays, call=call: call.function(*arrays), call.arrays, direction, 2)
                assert_alike(found, wanted, 1e-7)


@in_groups("name", SAMPLED)
def test_every_primitive_keeps_single_precision(name):
    for call in list(calls(PRIMITIVES[name], np.float32))[: 1 if name in LONG else 2]:
        direction = tuple(np.asarray(RNG.normal(size=x.shape), np.float32) for x in call.arrays)
        with naming(call.arrays):
            found = fg.taylor(lambda arrays, call=call: call.function(*arrays), 2)(call.arrays, direction)
            for leaf, value in zip(*map(fg.tree_leaves, (found, call.function(*call.arrays))), strict=True):
                assert leaf.dtype == value.dtype


# Numbers


def test_the_twentieth_derivative_of_a_composition():
    with mpmath.workdps(60):
        wanted = mpmath.diff(lambda x: mpmath.tanh(x * mpmath.sin(x)), mpmath.mpf(0.7), 20)
    found = fg.derivatives(lambda x: np.tanh(x * np.sin(x)), 20)(0.7)
    assert float(found[20] / float(wanted)) == pytest.approx(1, abs=1e-12)


OF_MPMATH = {
    "exp": (np.exp, mpmath.exp),
    "tan": (np.tan, mpmath.tan),
    "arctan": (np.arctan, mpmath.atan),
    "arcsin": (np.arcsin, mpmath.asin),
    "power": (lambda x: x**2.5, lambda x: x ** mpmath.mpf(2.5)),
    "power of itself": (lambda x: x**x, lambda x: x**x),
    "log": (np.log, mpmath.log),
    "sqrt": (lambda x: np.sqrt(1 + x), lambda x: mpmath.sqrt(1 + x)),
    "quotient": (lambda x: np.sin(x) / (1 + x * x), lambda x: mpmath.sin(x) / (1 + x * x)),
    "erf": (scipy.special.erf, mpmath.erf),
    "digamma": (scipy.special.digamma, mpmath.digamma),
    "bessel": (lambda x: scipy.special.jv(1.3, x), lambda x: mpmath.besselj(mpmath.mpf(1.3), x)),
    "airy": (lambda x: scipy.special.airy(x)[0], mpmath.airyai),
}


@pytest.mark.parametrize("name", OF_MPMATH)
def test_coefficients_to_order_12(name):
    function, reference = OF_MPMATH[name]
    with mpmath.workdps(50):
        wanted = [float(c) for c in mpmath.taylor(reference, mpmath.mpf(0.45), 12)]
    np.testing.assert_allclose(np.asarray(fg.taylor(function, 12)(0.45)), wanted, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("order", [0, 1, 5])
def test_a_polynomial_ends(order):
    found = fg.taylor(lambda x: 2 * x**3 - x + 1, order)(2.0)
    np.testing.assert_array_equal(found, [15.0, 23.0, 12.0, 2.0, 0.0, 0.0][: order + 1])


MATRICES = {
    "inv": np.linalg.inv, "solve": lambda a: np.linalg.solve(a, np.cos(a)), "cholesky": np.linalg.cholesky,
    "eigvalsh": np.linalg.eigvalsh, "svd": lambda a: np.linalg.svd(a)[1], "slogdet": lambda a: np.linalg.slogdet(a)[1],
    "qr": lambda a: np.linalg.qr(a)[0], "expm": linalg.expm, "logm": linalg.logm, "sqrtm": linalg.sqrtm,
}  # fmt: skip


@pytest.mark.parametrize("name", MATRICES)
def test_series_of_matrices_have_the_sums_of_functions_nearby(name):
    square = RNG.normal(size=(3, 3))
    a, direction = square @ square.T + np.eye(3), np.diag([1.0, 0.5, -0.3]) + 0.1
    coefficients = np.asarray(fg.taylor(MATRICES[name], 12)(a, direction))
    nearby = sum(c * 0.02**k for k, c in enumerate(coefficients))
    np.testing.assert_allclose(nearby, np.asarray(MATRICES[name](a + 0.02 * direction)), rtol=1e-13, atol=1e-13)


# What it costs


def operations(function, order, x):
    """Return how many operations on series a function takes."""
    count, begin = 0, Operation.__init__

    def counted(self, *args):
        nonlocal count
        count += 1
        begin(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Operation, "__init__", counted)
        fg.taylor(function, order)(x)
    return count


BOUNDED = {
    "closed": (wave, 1.0), "chain of slopes": (scipy.special.digamma, 2.5), "powers": (lambda x: x**2.5, 2.5),
    "products": (lambda x: np.cross(x, np.sin(x)), 3.5), "bessel": (lambda x: scipy.special.jv(1.3, x), 3.5),
    "solve": (lambda x: np.linalg.solve(np.eye(3) + np.outer(x, x), x), 3.5), "norm": (np.linalg.norm, 2.5),
    "gamma": (lambda x: scipy.special.gammainc(1.2, x), 2.5), "elliptic": (scipy.special.ellipk, 3.5),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDED)
def test_operations_grow_with_a_power_of_the_order(name):
    function, power = BOUNDED[name]
    x = np.array([0.3, 0.5, 0.4])
    few, many = (operations(function, order, x) for order in (4, 8))
    assert many <= few * 2**power


def test_long_chains_and_high_orders_do_not_run_out_of_frames():
    def chain(x):
        for _ in range(800):
            x = np.sin(x) + 0.1 * x
        return x

    assert fg.taylor(chain, 3)(0.3).shape == (4,)
    assert np.isfinite(np.asarray(fg.taylor(scipy.special.digamma, 60)(1.3))).all()


# What goes in and comes out


def test_containers_and_directions():
    found = fg.taylor(lambda p: {"s": p["a"] * p["b"], "k": (np.sin(p["a"]), 2)}, 2)(
        {"a": 0.5, "b": np.arange(2.0)}, {"a": 1.0, "b": np.array([0.0, 1.0])}
    )
    np.testing.assert_allclose(found["s"], [[0.0, 0.5], [0.0, 1.5], [0.0, 1.0]])
    np.testing.assert_allclose(found["k"][0], [np.sin(0.5), np.cos(0.5), -np.sin(0.5) / 2])
    np.testing.assert_array_equal(found["k"][1], [2, 0, 0])


def test_along_a_curve():
    found = fg.taylor(lambda p: p[0] * p[1], 4)([1.0, LIST], [1.0, LIST], [0.0, LIST], [2.0, 0 * LIST])
    curve = np.polynomial.polynomial.polymul([1.0, 1.0, 0.0, 2.0], [1.0, 1.0, 1.0, 0.0])[:5]
    np.testing.assert_allclose(found, np.outer(curve, LIST))
    np.testing.assert_allclose(fg.taylor(np.exp, 3)(0.0, direction=2.0), [1, 2, 2, 4 / 3])


def test_kinds_of_numbers():
    single = fg.taylor(wave, 2)(np.float32(0.3))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, fg.taylor(wave, 2)(0.3), rtol=1e-6)
    found = fg.taylor(lambda z: np.exp(1j * z) * np.abs(z), 3)(0.3 + 0.1j, 0.5 - 1j)
    assert_alike(found, nested(lambda z: np.exp(1j * z) * np.abs(z), 0.3 + 0.1j, 0.5 - 1j, 3))
    exact = fg.taylor(lambda x: x**3 / (1 + x), 3)(Fraction(1, 2))
    assert [*exact] == [Fraction(1, 12), Fraction(4, 9), Fraction(19, 27), Fraction(16, 81)]
    assert fg.taylor(np.sin, 2)(np.zeros((0, 2))).shape == (3, 0, 2)


def test_derivatives_are_coefficients_times_factorials():
    np.testing.assert_allclose(fg.derivatives(np.exp, 6)(np.array([0.0, 1.0])), np.tile([1.0, np.e], (7, 1)))
    assert fg.derivatives(np.exp, 170)(0.0)[170] == pytest.approx(1)


def test_masks_keep_what_they_do_not_choose_out():
    found = fg.taylor(lambda x: np.where(x > 0, np.sqrt(x), 0.0), 3)(np.array([0.0, 4.0]))
    np.testing.assert_allclose(found, [[0, 2], [0, 1 / 4], [0, -1 / 64], [0, 1 / 512]])


def test_what_does_not_move_stays():
    """Also where the slope is infinite, as in forward mode."""
    found = fg.taylor(np.sqrt, 2)(np.array([0.0, 4.0]), np.array([0.0, 1.0]))
    np.testing.assert_allclose(found, [[0, 2], [0, 1 / 4], [0, -1 / 64]])
    found = fg.taylor(lambda x: np.sqrt(np.stack([0.0, x])), 2)(4.0)
    np.testing.assert_allclose(found, [[0, 2], [0, 1 / 4], [0, -1 / 64]])


def test_values_may_be_asked_for_and_buffers_written_to():
    def function(x):
        rows = fg.constant(np.zeros(2))
        rows[0] = x if x > 0 else -x
        rows[1] = np.sin(x) * rows[0]
        rows *= 2
        return rows

    assert_alike(fg.taylor(function, 3)(0.3), fg.taylor(lambda x: 2 * np.stack([x, x * np.sin(x)]), 3)(0.3))


COPIES = {
    "method": lambda part: part.copy(), "function": np.copy, "array": np.array, "flatten": lambda part: part.flatten(),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_a_copied_part_is_not_overwritten_with_the_whole(name):
    def f(s):
        u = fgrad.numpy.zeros(4)
        u[1] = s
        old = COPIES[name](u[1:2])
        u[1:-1] = 7.0 * s
        return old[0] ** 3 + u[1]

    np.testing.assert_allclose(fg.derivatives(f, 3)(0.3), [0.027 + 2.1, 0.27 + 7.0, 1.8, 6.0], rtol=1e-12)
    assert fg.laplacian(lambda x: f(x[0]))(np.array([0.3])) == pytest.approx(1.8)


def test_coefficients_that_are_not_finite_are_told():
    def power(x):
        return x**1.5

    for transform in (fg.taylor(order=2), fg.laplacian):
        with fg.debug_nans():
            assert np.isfinite(np.asarray(transform(power)(0.3))).all()
            with pytest.raises(errors.NonFiniteError, match="the forward rule of power gave an infinity"):
                transform(power)(0.0)


# Together with everything else


@fg.custom_jvp
def custom(x):
    return np.sin(x)


custom.defjvp(lambda primals, tangents: (custom(primals[0]), np.cos(primals[0]) * tangents[0]))


@fg.custom_gradient
def with_gradient(x):
    return np.sin(x), lambda ct: ct * np.cos(x)


@fg.custom_jvp
def recurring(x):
    return np.log(1 + np.exp(x))


recurring.defjvp(
    lambda primals, tangents: (recurring(primals[0]), tangents[0] * np.exp(primals[0] - recurring(primals[0])))
)


def turns(x):
    state = x
    for _ in range(20):
        state = np.sin(state) * x + 0.5
    return state


CALLS = {
    "custom_jvp": (custom, np.sin),
    "custom_gradient": (with_gradient, np.sin),
    "derivative of custom_gradient": (fg.grad(with_gradient), np.cos),
    "second derivative of custom_gradient": (
        fg.grad(lambda x: fg.grad(with_gradient)(x) * with_gradient(x)),
        lambda x: np.cos(2 * x),
    ),
    "rule that asks for the function": (recurring, lambda x: np.log(1 + np.exp(x))),
    "one in the other": (lambda x: custom(custom(x) * x), lambda x: np.sin(np.sin(x) * x)),
    "checkpoint": (fg.checkpoint(wave), wave),
    "compiled": (fg.compile(wave), wave),
    "compiled loop": (fg.compile(turns), turns),
    "scan": (lambda x: fg.scan(lambda c, _: (np.sin(c) * x + 0.5, c), x, None, length=20)[0], turns),
    "solver": (lambda a: brentq(lambda z, a: z**3 + z - a, -5, 5, args=(a,), xtol=1e-15) ** 3, None),
    "integral": (lambda k: quad(lambda t: np.exp(-k * t), 0, 1)[0], lambda k: (1 - np.exp(-k)) / k),
    "ODE": (lambda k: solve_ivp(lambda t, y: -k * y, (0, 1), [1.0], rtol=1e-9, atol=1e-12).y[0, -1], None),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_with_rules_of_their_own(name):
    function, plain = CALLS[name]
    wanted = nested(function, 0.4, 1.0, 3) if plain is None else fg.taylor(plain, 3)(0.4)
    assert_alike(fg.taylor(function, 3)(0.4), wanted, 1e-8)
    assert_alike(fg.laplacian(function)(0.4), 2 * np.asarray(wanted)[2], 1e-8)


def test_series_are_differentiated_and_differentiate():
    fourth = nested(wave, 0.4, 1.0, 4)
    assert float(fg.grad(lambda x: fg.taylor(wave, 4)(x)[3])(0.4)) == pytest.approx(4 * fourth[4])
    assert float(fg.jvp(lambda x: fg.taylor(wave, 4)(x)[3], (0.4,), (1.0,))[1]) == pytest.approx(4 * fourth[4])
    np.testing.assert_allclose(fg.taylor(fg.grad(wave), 3)(0.4), np.arange(1, 5) * fourth[1:])
    x = fg.constant(0.4)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = fg.taylor(wave, 4)(x)[3]
    assert float(tape.gradient(y, x)) == pytest.approx(4 * fourth[4])


def test_a_series_in_a_series():
    def inner(y):
        return fg.taylor(lambda x: np.sin(x * y), 2)(y)[2]  # -y^2 sin(y^2) / 2

    assert_alike(fg.taylor(inner, 3)(0.5), fg.taylor(lambda y: -(y**2) * np.sin(y * y) / 2, 3)(0.5))


def test_batches_and_programs():
    both = np.stack([fg.taylor(wave, 3)(x) for x in LIST])
    assert_alike(fg.vmap(fg.taylor(wave, 3))(LIST), both)
    assert_alike(fg.taylor(fg.vmap(wave), 3)(LIST), both.T)
    assert_alike(fg.compile(fg.taylor(wave, 6))(0.4), fg.taylor(wave, 6)(0.4))
    assert_alike(fg.trace(fg.taylor(wave, 3))(0.4)(0.7), fg.taylor(wave, 3)(0.7))


def test_a_function_that_computes_in_threads():
    def part(x, k):
        return custom(np.exp(np.sin(x * k))) + np.tanh(scipy.special.digamma(x * x + k))

    def function(x):
        with ThreadPoolExecutor(4) as pool:
            return sum(pool.map(lambda k: part(x, k), np.arange(1.0, 9.0)))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for transform in (fg.taylor(order=4), fg.laplacian):
            assert_alike(transform(function)(0.4), transform(lambda x: sum(part(x, k) for k in range(1, 9)))(0.4))
    finally:
        sys.setswitchinterval(interval)


def test_as_decorator_and_in_pickles():
    @fg.taylor(order=2)
    def sine(x):
        return np.sin(x)

    np.testing.assert_allclose(sine(0.0), [0, 1, 0])
    assert repr(fg.taylor(np.sin, 2)) == f"<taylor of {np.sin!r}>"
    for transformed in (fg.taylor(np.sin, 2), fg.derivatives(np.sin, 2), fg.laplacian(np.sin)):
        assert_alike(pickle.loads(pickle.dumps(transformed))(0.3), transformed(0.3))


# What rules of users may do


def rule_with_buffers(primals, tangents):
    (x,), (t,) = primals, tangents
    weights, places, scale = np.ones(2), np.array([1, 0]), fg.constant(SCALES[-1])
    once, turned, scaled = x * weights, x[places], x * scale[0]
    weights *= 3
    places[:] = 0
    scale *= 2
    slope = np.cos(x)
    slope *= 2  # and the cosine that is asked for next is another one
    slope = (slope - np.cos(x)) * (x * weights - 2 * once) / x
    t *= slope
    x *= 5
    return None, t + (turned - primals[0][::-1] / 5) + (x * scale[0] / 5 - 2 * scaled)


SCALES = [np.array([2.0])]


def test_rules_may_write_to_what_they_are_handed_and_use_buffers_again():
    function = fg.custom_jvp(lambda x: np.sin(x))
    function.defjvp(rule_with_buffers)
    for f, plain in ((function, np.sin), (lambda x: function(x * x) * x, lambda x: np.sin(x * x) * x)):
        assert_alike(fg.taylor(f, 4)(LIST), fg.taylor(plain, 4)(LIST))
        assert_alike(fg.laplacian(f)(LIST), fg.laplacian(plain)(LIST))

    def third(a):
        SCALES.append(np.stack([a]))
        try:
            return np.sum(fg.taylor(lambda x: function(x) * a, 3)(LIST)[3])
        finally:
            SCALES.pop()

    assert_alike(fg.grad(third)(1.5), np.sum(np.asarray(fg.taylor(np.sin, 3)(LIST))[3]))


def test_a_rule_whose_result_is_written_to():
    function = fg.custom_jvp(lambda x: np.sin(x))

    def rule(primals, tangents):
        result = function(*primals)
        slope = np.sqrt(1 - result**2)
        result *= 3
        return result, slope * tangents[0]

    function.defjvp(rule)
    assert_alike(fg.taylor(function, 3)(LIST), fg.taylor(np.sin, 3)(LIST))


def closing_over(x, kind):
    def product(y):
        return y * y * x

    if kind == "custom_jvp":
        function = fg.custom_jvp(product)
        function.defjvp(lambda primals, tangents: (function(*primals), 2 * primals[0] * tangents[0]))
    elif kind == "custom_gradient":
        function = fg.custom_gradient(lambda y: (product(y), lambda ct: 2 * y * ct))
    else:
        function = fg.custom_vjp(product)
        forward = function if kind == "custom_vjp" else product
        function.defvjp(lambda y: (forward(y), y), lambda y, ct: (2 * y * ct,))
    return function(x * x)


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_gradient", "custom_vjp", "custom_vjp of the code"])
def test_functions_with_rules_that_close_over_inputs_are_refused(kind):
    for transform in (fg.taylor(order=2), fg.laplacian):
        with pytest.raises(errors.ClosureError, match="is not one of its arguments"):
            transform(lambda x: closing_over(x, kind))(LIST)


def test_a_rule_alone_may_close_over_an_input_and_a_function_may_look_at_one():
    def function(x):
        square = fg.custom_jvp(lambda y: y * y if x > 0 else y)
        square.defjvp(lambda primals, tangents: (square(*primals), 2 * primals[0] * tangents[0] * closed))
        closed = x
        return square(x * x)

    assert_alike(fg.taylor(function, 2)(0.3), np.array([0.3**4, 4 * 0.3**4, 8 * 0.3**3]))
    with pytest.raises(errors.ClosureError):  # which has not been taken along
        fg.laplacian(function)(0.3)


@pytest.mark.parametrize("inner", [lambda x: fg.derivatives(wave, 3)(x)[3], fg.laplacian(wave)])
def test_functions_with_rules_may_take_series(inner):
    function = fg.custom_gradient(lambda x: (inner(x), lambda ct: ct * fg.grad(inner)(x)))
    assert_alike(fg.jvp(fg.grad(function), (0.4,), (1.0,))[1], fg.hessian(inner)(0.4))
    assert_alike(fg.hessian(function)(0.4), fg.hessian(inner)(0.4))
    assert_alike(fg.compile(fg.grad(fg.checkpoint(function)))(0.4), fg.grad(inner)(0.4))


def test_tangents_that_have_left_their_rule_are_refused():
    kept = []
    function = fg.custom_jvp(lambda x: np.sin(x))
    function.defjvp(lambda primals, tangents: (kept.append(tangents[0]), np.cos(primals[0]) * tangents[0]))
    with pytest.raises(errors.LeakedTensorError, match="belongs to a rule that has ended"):
        fg.taylor(lambda x: function(x * x) + kept[0], 3)(0.3)


def test_what_runs_is_healed_where_a_rule_raises():
    function = fg.custom_jvp(lambda x: np.sin(x))
    function.defjvp(lambda primals, tangents: 1 / 0)

    def goes_on(x):
        with pytest.raises(ZeroDivisionError):
            function(x)
        return wave(x)

    assert_alike(fg.taylor(goes_on, 4)(0.4), fg.taylor(wave, 4)(0.4))
    assert_alike(fg.laplacian(goes_on)(0.4), fg.laplacian(wave)(0.4))


def test_nothing_is_left_to_the_collector():
    functions = [wave, np.linalg.norm, recurring, fg.checkpoint(wave), fg.compile(wave)]
    calls = [transform(f) for transform in (fg.taylor(order=3), fg.laplacian) for f in functions]
    for call in calls:
        call(LIST)
    gc.collect()
    gc.disable()
    try:
        for call in calls:
            call(LIST)
        assert gc.collect() == 0
    finally:
        gc.enable()


# Laplacians


def network(sizes):
    layers = [
        (RNG.normal(size=pair) / np.sqrt(pair[0]), RNG.normal(size=pair[1])) for pair in itertools.pairwise(sizes)
    ]

    def function(x):
        for weights, biases in layers:
            x = np.tanh(x @ weights + biases)
        return np.sum(x)

    return function


LAPLACIANS = {
    "network": (network([6, 5, 4]), (6,)),
    "products": (lambda x: np.sum(np.sin(x) * x[::-1]) * x[0], (3,)),
    "norm": (lambda x: np.linalg.norm(x - 1) ** 3, (4,)),
    "matrix": (lambda a: np.linalg.slogdet(np.eye(2) + a @ a.T)[1], (2, 2)),
    "several": (lambda x: np.stack([np.prod(x), np.sum(x**4), 1.0]), (3,)),
    "mask": (lambda x: np.sum(np.where(x > 0, np.sqrt(np.abs(x)), x * x)), (4,)),
    "shares": (lambda x: np.log(np.sum(np.exp(x))) / x[1], (3,)),
    "linear": (lambda x: np.sum(np.concatenate([x, 2 * x])), (3,)),
    "differences": (lambda x: np.sum((1.0 - np.sin(x)) ** 3 + np.exp(x - 2.0)), (3,)),
    "powers side by side": (lambda x: np.sum(np.abs(x) ** np.array([[2.0], [3.0]])), (3,)),
    "repeated": (lambda x: np.sum(np.hypot(x[:, None], x)[0]), (3,)),
}


@pytest.mark.parametrize("name", LAPLACIANS)
def test_a_laplacian_is_the_trace_of_the_hessian(name):
    function, shape = LAPLACIANS[name]
    x = RNG.normal(size=shape)
    hessian = np.asarray(fg.hessian(function)(x)) if np.shape(function(x)) == () else None
    if hessian is None:
        hessian = np.asarray(fg.jacobian(fg.jacobian(function))(x))
    size = math.prod(shape)
    wanted = np.trace(hessian.reshape(-1, size, size), axis1=1, axis2=2).reshape(np.shape(function(x)))
    assert_alike(fg.laplacian(function)(x), wanted)


def test_laplacians_keep_out_what_masks_do_not_choose():
    x = np.array([0.0, 0.5])
    functions = {
        "where": lambda x: np.where(x > 0, x * np.log(x), 0.0),
        "where of two": lambda x: np.where(x > 0, x * np.log(x), x),
        "nansum": lambda x: np.nansum((x / x) * x * x),
        "fmax": lambda x: np.fmax(x * np.log(x), -10.0),
    }
    for name, function in functions.items():
        with naming(name):
            assert_alike(fg.laplacian(function)(x), {"nansum": 2.0}.get(name, np.array([0.0, 2.0])))


def test_numpy_warns_of_the_values_alone_and_once():
    def function(x):
        return np.sum(np.where(x > 0, x * np.log(x), 0.0)) + np.sum(np.exp(x * 1000))

    for transform in (fg.taylor(order=2), fg.laplacian):
        with np.errstate(all="warn"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            transform(function)(np.array([0.0, 1.0]))
        words = [str(each.message).split(" encountered in ") for each in caught]
        assert words == [["divide by zero", "log"], ["invalid value", "multiply"], ["overflow", "exp"]]


def test_laplacians_of_containers_batches_and_higher_orders():
    found = fg.laplacian(lambda p: np.sum(p["a"] * p["b"]) ** 2 + np.sin(p["c"]))(
        {"a": np.ones(2), "b": np.arange(2.0), "c": 0.3}
    )
    assert float(found) == pytest.approx(2 * (1 + 2) - np.sin(0.3))
    function = network([3, 4])
    points = RNG.normal(size=(2, 3))
    assert_alike(fg.vmap(fg.laplacian(function))(points), np.stack([fg.laplacian(function)(x) for x in points]))
    assert_alike(fg.compile(fg.laplacian(function))(points[0]), fg.laplacian(function)(points[0]))
    third = fg.grad(fg.laplacian(function))(points[0])
    assert_alike(third, fg.grad(lambda x: np.trace(fg.hessian(function)(x)))(points[0]))
    biharmonic = fg.laplacian(fg.laplacian(lambda x: np.sum(x**4) + (x[0] * x[1]) ** 2))(points[0])
    assert float(biharmonic) == pytest.approx(24 * 3 + 8)


def test_a_wave_solves_its_equation():
    """u = sin(k . x) has the Laplacian -|k|^2 u."""
    k = RNG.normal(size=5)
    x = RNG.normal(size=5)
    assert float(fg.laplacian(lambda x: np.sin(k @ x))(x)) == pytest.approx(-(k @ k) * np.sin(k @ x))


# Errors

MISTAKES = {
    "order": (lambda: fg.taylor(np.sin, -1), errors.ParameterError, "order of taylor must be an integer of at least 0"),
    "order of floats": (lambda: fg.taylor(np.sin, 2.0), errors.ParameterError, "it is 2.0"),
    "point": (lambda: fg.derivatives(np.sin, 171), errors.ParameterError, "fg.taylor gives the coefficients"),
    "single precision": (
        lambda: fg.derivatives(np.sin, 40)(np.float32(0.3)),
        errors.ParameterError,
        "too large for float32; the largest possible n is 34",
    ),
    "no coefficient": (
        lambda: fg.taylor(np.sin, 2)(1.0, None, None),
        errors.TangentError,
        "the coefficient 2 of the curve None",
    ),
    "arguments": (
        lambda: fg.taylor(np.sin, 2)(1.0, 1.0, 1.0, 1.0),
        errors.ParameterError,
        "(x, direction=None), a point and",
    ),
    "integer": (lambda: fg.taylor(np.sin, 2)(1), errors.IntegerInputError, "x is an integer"),
    "integers within": (
        lambda: fg.taylor(lambda p: p["a"], 2)({"a": 1}),
        errors.IntegerInputError,
        "x['a'] is an integer",
    ),
    "shape": (
        lambda: fg.taylor(np.sin, 2)(LIST, np.ones(3)),
        errors.TangentError,
        "direction has shape (3,), and x has",
    ),
    "curve": (
        lambda: fg.taylor(np.sin, 2)(LIST, LIST, 1.0),
        errors.TangentError,
        "coefficient 2 of the curve has shape ()",
    ),
    "structure": (lambda: fg.taylor(np.sin, 2)(LIST, [LIST]), errors.TangentError, "the point of taylor is nested"),
    "nothing": (lambda: fg.taylor(lambda x: None, 2)(1.0), errors.NoResultError, "did you forget to return"),
    "a value": (lambda: fg.taylor(lambda x: float(x) * 2, 2)(1.0), errors.DetachedError, "float() requested"),
    "no function": (lambda: fg.laplacian(3.0), errors.NotCallableError, "laplacian(f)(x)"),
    "two": (lambda: fg.laplacian(np.sin)(1.0, 2.0), errors.ParameterError, "takes one argument, and 2 were given"),
    "complex": (lambda: fg.laplacian(np.sin)(1j), errors.ParameterError, "real and imaginary parts"),
    "Laplacian of integers": (
        lambda: fg.laplacian(np.sin)(1),
        errors.IntegerInputError,
        "laplacian of sin: x is an integer",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(name):
    act, kind, words = MISTAKES[name]
    with pytest.raises(kind) as caught:
        act()
    assert words in str(caught.value)


def test_an_order_that_takes_more_calls_than_python_allows_is_said():
    def inverted(t):
        return np.linalg.inv(np.eye(2) * 2 + t)[0, 0]

    with pytest.raises(errors.ParameterError, match=r"up to number 250 need more nested calls of rules .* allows"):
        fg.taylor(inverted, 250)(0.1)
    assert_alike(fg.taylor(inverted, 100)(0.1), fg.taylor(lambda t: (1 + 1 / (1 + t)) / 4, 100)(0.1))


@pytest.mark.parametrize(
    ("f", "square"),
    [
        (lambda x: (x + np.zeros(2)) ** 2, lambda x: x**2),
        (lambda x: np.multiply(*[np.broadcast_to(x, (2,)) + np.zeros(2)] * 2), lambda x: x**2),
        (lambda x: np.exp((x + np.zeros(2)) ** 2), lambda x: np.exp(x**2)),
    ],
)
def test_coefficients_are_as_precise_as_the_array_that_a_single_precision_one_has_become(f, square):
    x, t = np.float32(0.3), np.float32(0.1)
    found = fg.taylor(f, 3)(x, t).numpy()
    expected = fg.taylor(square, 3)(np.float64(x), np.float64(t)).numpy()
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.stack([expected] * 2, axis=1), rtol=1e-14)
