"""Tensors where arrays are expected, assignment by index, copies, and what happens at the edges."""

import copy
import decimal
import functools
import io
import json
import math
import pickle
import warnings
from collections import namedtuple

import numpy as np
import pytest
from helpers import along, plain
from matplotlib.figure import Figure
from scipy import integrate, optimize

import fgrad as fg
import fgrad.numpy as fnp


def from_grad():
    """Return the gradient of a sum of cubes: [3, 12, 27] at [1, 2, 3]."""
    return fg.grad(lambda x: np.sum(x**3))(np.array([1.0, 2.0, 3.0]))


def from_tape():
    x = fg.constant([1.0, 2.0, 3.0])
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x**3
    return tape.gradient(y, x)


def from_jvp():
    return fg.jvp(lambda x: x**3, (np.array([1.0, 2.0, 3.0]),), (np.ones(3),))[1]


def from_value():
    return fg.value_and_gradients_function(lambda x: x * x * 3.0)(np.array([1.0, 2.0, 3.0]))[0]


def from_second_order():
    return fg.grad(lambda x: np.sum(fg.grad(lambda y: np.sum(y**4))(x)))(np.array([0.5, 1.0, 1.5]))


def from_aux():
    return fg.grad(lambda x: (np.sum(x), x**2 * 3.0), has_aux=True)(np.array([1.0, 2.0, 3.0]))[1]


def from_inside():
    kept = []
    fg.grad(lambda x: (kept.append(3 * x * x), np.sum(x))[1])(np.array([1.0, 2.0, 3.0]))
    return kept[0]


ORIGINS = [from_grad, from_tape, from_jvp, from_value, from_second_order, from_aux, from_inside]
VALUES = np.array([3.0, 12.0, 27.0])


@pytest.fixture(params=ORIGINS, ids=lambda origin: origin.__name__)
def t(request):
    """What came back from a transform, with the values 3, 12 and 27."""
    return request.param()


USES = {
    "t + t": lambda t: t + t,
    "t + a": lambda t: t + np.ones(3),
    "a + t": lambda t: np.ones(3) + t,
    "1 / t": lambda t: 1 / t,
    "t ** 2": lambda t: t**2,
    "t ** 0.5": lambda t: t**0.5,
    "2 ** t": lambda t: 2**t,
    "t @ t": lambda t: t @ t,
    "-t": lambda t: -t,
    "abs": lambda t: abs(t),
    "+t": lambda t: +t,
    "t % 5": lambda t: t % 5,
    "t // 5": lambda t: t // 5,
    "divmod": lambda t: divmod(t, 5),
    "5 divmod": lambda t: divmod(100, t),
    "t < a": lambda t: t < np.array([5.0, 12.0, 20.0]),
    "t <= a": lambda t: t <= np.array([5.0, 12.0, 20.0]),
    "t == a": lambda t: t == np.array([5.0, 12.0, 20.0]),
    "t != 12": lambda t: t != 12,
    "a > t": lambda t: np.array([5.0, 12.0, 20.0]) > t,
    "np.sin": np.sin,
    "np.sum": np.sum,
    "np.max": np.max,
    "np.percentile": lambda t: np.percentile(t, 50),
    "np.median": np.median,
    "np.histogram": lambda t: np.histogram(t, bins=2),
    "np.unique": np.unique,
    "np.searchsorted": lambda t: np.searchsorted(t, 10.0),
    "np.interp": lambda t: np.interp(5.0, t, t),
    "np.convolve": lambda t: np.convolve(t, t),
    "np.cov": np.cov,
    "np.quantile": lambda t: np.quantile(t, [0.1, 0.9]),
    "np.spacing": np.spacing,
    "np.frexp": np.frexp,
    "np.argsort": np.argsort,
    "np.nonzero": np.nonzero,
    "np.isfinite": np.isfinite,
    "np.isclose": lambda t: np.isclose(t, 12.0),
    "np.allclose": lambda t: np.allclose(t, [3.0, 12.0, 27.0]),
    "np.array_equal": lambda t: np.array_equal(t, t),
    "np.add.reduce": np.add.reduce,
    "np.add.accumulate": np.add.accumulate,
    "np.multiply.outer": lambda t: np.multiply.outer(t, t),
    "np.maximum.reduce": np.maximum.reduce,
    "np.stack": lambda t: np.stack([t, np.zeros(3)]),
    "np.vstack": lambda t: np.vstack([t, np.zeros(3)]),
    "np.where": lambda t: np.where(t > 5, t, 0),
    "np.linalg.norm": np.linalg.norm,
    "np.fft.rfft": np.fft.rfft,
    "np.polyfit": lambda t: np.polyfit(np.arange(3.0), t, 1),
    "np.array": np.array,
    "np.asarray": np.asarray,
    "np.array of a list": lambda t: np.array([t, t]),
    "np.array of elements": lambda t: np.array([t[0], t[1]]),
    "np.float32": lambda t: np.asarray(t, np.float32),
    "np.copy": np.copy,
    "t[0]": lambda t: t[0],
    "t[-1]": lambda t: t[-1],
    "t[1:]": lambda t: t[1:],
    "t[::-1]": lambda t: t[::-1],
    "t[t > 5]": lambda t: t[t > 5],
    "t[[0, 2]]": lambda t: t[[0, 2]],
    "t[None]": lambda t: t[None],
    "t[...]": lambda t: t[...],
    "a[t]": lambda t: np.arange(30)[t.astype(int)],
    "a[t > 5]": lambda t: np.arange(3)[t > 5],
    "list": list,
    "sum": sum,
    "max": max,
    "sorted": lambda t: sorted(t, reverse=True),
    "unpacking": lambda t: (lambda a, b, c: a * b + c)(*t),
    "zip": lambda t: [a * b for a, b in zip(t, [1, 2, 3], strict=True)],
    "enumerate": lambda t: [i * a for i, a in enumerate(t)],
    "reversed": lambda t: list(reversed(t)),
    "in": lambda t: 12.0 in t,
    "len": len,
    "float": lambda t: float(t[1]),
    "int": lambda t: int(t[1]),
    "complex": lambda t: complex(t[1]),
    "bool": lambda t: bool(t[1] > 5),
    "math.sqrt": lambda t: math.sqrt(t[1]),
    "math.fsum": math.fsum,
    "format": lambda t: f"{t[1]:.3f}",
    "str.format": lambda t: "{:08.3f}".format(t[1]),  # noqa: UP032
    "percent": lambda t: "%.2e" % t[1],  # noqa: UP031
    "range": lambda t: list(range(t[0].astype(int))),
    "index": lambda t: [10, 20, 30, 40][t[0].astype(int)],
    "slice": lambda t: [10, 20, 30, 40, 50][t[0].astype(int) :],
    "json": lambda t: json.dumps(t.tolist()),
    "shape": lambda t: (t.shape, t.ndim, t.size, t.dtype),
    "np.shape": lambda t: (np.shape(t), np.ndim(t), np.size(t)),
    "np.random": lambda t: np.random.default_rng(0).normal(t, t),
    "np.savetxt": lambda t: (np.savetxt(f := io.StringIO(), t), f.getvalue())[1],
    "np.testing": lambda t: np.testing.assert_allclose(t, VALUES),
    "np.linspace": lambda t: np.linspace(0.0, t[0], 4),
    "np.full": lambda t: np.full(2, t[0]),
    "np.full_like": lambda t: np.full_like(t, 7.0),
    "np.zeros_like": np.zeros_like,
    "np.zeros": lambda t: np.zeros(t.shape) + t,
    "np.broadcast_to": lambda t: np.broadcast_to(t, (2, 3)),
    "np.ndindex": lambda t: [t[i] for i in np.ndindex(t.shape)],
    "np.ndenumerate": lambda t: [(i, v) for i, v in np.ndenumerate(t)],
    "a.dot(t)": lambda t: np.ones(3).dot(t),
    "iadd on an array": lambda t: np.zeros(3).__iadd__(t),
    "out": lambda t: np.multiply(t, 2.0, out=np.zeros(3)),
    "np.add.at": lambda t: (a := np.zeros(3), np.add.at(a, [0, 0, 1], t))[0],
    "np.copyto": lambda t: (a := np.zeros(3), np.copyto(a, t))[0],
    "a.fill": lambda t: (a := np.zeros(3), a.fill(t[1]))[0],
}


@pytest.mark.parametrize("use", USES)
def test_a_result_serves_as_an_array(use):
    program = USES[use]
    expected = program(VALUES.copy())
    for origin in ORIGINS:
        result = program(origin())
        assert type(result) is fg.Tensor or type(result) is type(expected), (origin.__name__, type(result))
        if type(result) in (fg.Tensor, np.ndarray):
            assert (result.dtype, result.shape) == (np.asarray(expected).dtype, np.shape(expected))
            np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-14)
        else:
            _equal(result, expected)


def _equal(result, expected):
    if isinstance(expected, (list, tuple)):
        assert len(result) == len(expected)
        for r, e in zip(result, expected, strict=True):
            _equal(r, e)
    elif isinstance(expected, (np.ndarray, float, complex)):
        np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-14)
    else:
        assert result == expected


# The methods that an ndarray has


METHODS = {
    "all": (), "any": (), "argmax": (), "argmin": (), "argsort": (), "astype": (int,), "clip": (2.0, 5.0), "conj": (),
    "conjugate": (), "copy": (), "cumprod": (), "cumsum": (), "diagonal": (), "dot": (np.ones(3),), "flatten": (),
    "max": (), "mean": (), "min": (), "nonzero": (), "prod": (), "ravel": (), "repeat": (2,), "reshape": (3, 2),
    "round": (1,), "squeeze": (), "std": (), "sum": (), "swapaxes": (0, 1), "take": ([0, 1],), "tolist": (),
    "trace": (), "transpose": (), "var": (),
}  # fmt: skip
AXIS = [
    "all", "any", "argmax", "argmin", "argsort", "cumprod", "cumsum", "max", "mean", "min", "prod", "std", "sum", "var"
]  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_a_method_of_arrays(method):
    a = np.array([[3.0, 1.25, 0.0], [4.0, 5.0, 2.5]])
    calls = [(METHODS[method], {})] + ([((), {"axis": 1}), ((), {"axis": -2})] if method in AXIS else [])
    for args, keywords in calls:
        _equal(plain(getattr(fg.constant(a), method)(*args, **keywords)), plain(getattr(a, method)(*args, **keywords)))


@pytest.mark.parametrize("name", ["T", "real", "imag", "shape", "ndim", "size", "dtype", "nbytes", "itemsize", "mT"])
def test_an_attribute_of_arrays(name):
    a = np.array([[1.0 + 2.0j, 3.0], [4.0, 5.0]])
    _equal(plain(getattr(fg.constant(a), name)), plain(getattr(a, name)))


@pytest.mark.parametrize("method", ["reshape", "transpose"])
def test_both_forms_of_shape_methods(method):
    a = np.arange(24.0).reshape(2, 3, 4)
    t = fg.constant(a)
    if method == "reshape":
        assert plain(t.reshape(4, -1)) == plain(t.reshape((4, -1))) == a.reshape(4, -1).tolist()
        assert t.reshape(-1).shape == (24,)
        assert plain(t.reshape(4, 6, order="F")) == a.reshape(4, 6, order="F").tolist()
    else:
        assert plain(t.transpose(2, 0, 1)) == plain(t.transpose((2, 0, 1))) == a.transpose(2, 0, 1).tolist()
        assert plain(t.transpose()) == a.T.tolist()


def test_elements_of_a_result_can_be_written_into_arrays(t):
    for dtype in (np.float64, np.float32, np.int64, np.complex128):
        a = np.zeros(3, dtype)
        a[0] = t[1]
        a[1:] = t[:2]
        a[1] += t[0]
        assert a.tolist() == [12.0, 6.0, 12.0]
    a = np.zeros((2, 3))
    a[1] = t
    a[0, :2] = t[1:]
    assert a.tolist() == [[12.0, 27.0, 0.0], [3.0, 12.0, 27.0]]


def test_the_array_of_a_result_cannot_change_it(t):
    a = np.asarray(t)
    with pytest.raises(ValueError, match="read-only"):
        a[0] = 7.0
    b = np.array(t)
    b[0] = 7.0
    c = t.numpy()
    c[0] = 7.0
    assert plain(t) == VALUES.tolist()


def test_a_scalar_result():
    s = fg.grad(lambda x: x**3)(2.0)
    assert float(s) == 12.0
    assert int(s) == 12
    assert complex(s) == 12.0
    assert s == 12.0
    assert s
    assert f"{s:.3f}" == "12.000"
    assert f"{s}" == "12.0"
    assert repr(s) == "Tensor(12.)"
    assert type(s.item()) is float
    assert type(s.numpy()) is np.float64
    assert type(float(s)) is float
    assert (s.shape, s.ndim, s.size) == ((), 0, 1)
    assert max(s, 5.0) == 12.0
    assert [v.item() for v in sorted([s, fg.constant(1.0)])] == [1.0, 12.0]
    assert decimal.Decimal(float(s)) == 12
    assert math.isclose(s, 12.0)
    assert [1, 2, 3][fg.constant(1)] == 2


def test_printing():
    assert repr(fg.constant([1.0, 2.5])) == "Tensor([1. , 2.5])"
    assert repr(fg.constant(np.float32([1, 2]))) == "Tensor([1., 2.], dtype=float32)"
    assert str(fg.constant([1.0, 2.5])) == "[1.  2.5]"
    seen = []
    fg.grad(lambda x: (seen.append(repr(x)), x)[1])(3.0)
    assert seen == ["Tensor(3., traced by grad)"]
    seen.clear()
    fg.grad(lambda x: (seen.append(f"{x:.1f} {x}"), x)[1])(3.0)
    assert seen == ["3.0 3.0"]


# Other libraries


def test_matplotlib_plots_results(t):
    axes = Figure().subplots()
    (line,) = axes.plot(t, t * 2)
    np.testing.assert_array_equal(line.get_xdata(), VALUES)
    np.testing.assert_array_equal(line.get_ydata(), 2 * VALUES)
    axes.figure.canvas.draw()


DRAWINGS = {
    "scatter": lambda axes, t: axes.scatter(t, t, c=t),
    "bar": lambda axes, t: axes.bar(t, t),
    "errorbar": lambda axes, t: axes.errorbar(t, t, yerr=t),
    "axhline": lambda axes, t: axes.axhline(t[0]),
    "imshow": lambda axes, t: axes.imshow(t.reshape(1, 3)),
    "fill_between": lambda axes, t: axes.fill_between(t, t, 2 * t),
    "hist": lambda axes, t: axes.hist(t),
    "limits": lambda axes, t: axes.set(xlim=(t[0], t[2]), title=f"{t[0]:.2f}"),
    "semilogy": lambda axes, t: axes.semilogy(list(t)),
    "contour": lambda axes, t: axes.contour(np.multiply.outer(t, t)),
}


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_matplotlib_draws_results(drawing):
    axes = Figure().subplots()
    DRAWINGS[drawing](axes, from_grad())
    axes.figure.canvas.draw()
    assert axes.has_data() or axes.get_ylim() != (0.0, 1.0) or axes.get_xlim() != (0.0, 1.0)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "CG", "Newton-CG", "TNC", "SLSQP", "trust-constr"])
def test_a_gradient_as_scipys_jac(method):
    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    start = np.array([1.3, 0.7, 0.8])
    fit = optimize.minimize(rosenbrock, start, method=method, jac=fg.grad(rosenbrock))
    np.testing.assert_allclose(fit.x, np.ones(3), atol=1e-2)


def test_scipy_with_value_and_gradient_and_products_with_the_hessian():
    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def product(x, v):
        return fg.jvp(fg.grad(rosenbrock), (x,), (v,))[1]

    start = np.array([1.3, 0.7, 0.8])
    fit = optimize.minimize(fg.value_and_grad(rosenbrock), start, jac=True, hessp=product, method="trust-ncg")
    assert fit.success
    np.testing.assert_allclose(fit.x, np.ones(3), atol=1e-4)
    assert optimize.check_grad(rosenbrock, fg.grad(rosenbrock), start) < 1e-4


def test_other_callbacks_of_scipy():
    root = optimize.brentq(fg.grad(lambda x: (x - 2.0) ** 2), 0.0, 5.0)
    assert root == pytest.approx(2.0)
    root = optimize.newton(
        fg.grad(lambda x: np.cosh(x - 1.0)), 0.0, fprime=fg.grad(fg.grad(lambda x: np.cosh(x - 1.0)))
    )
    assert float(root) == pytest.approx(1.0)
    area, _ = integrate.quad(fg.grad(lambda x: x**3), 0.0, 2.0)
    assert area == pytest.approx(8.0)
    # A ball in a bowl: x'' = -dV/dx with V = x^2 / 2.
    force = fg.grad(lambda x: -x * x / 2)
    path = integrate.solve_ivp(lambda t, y: [y[1], force(y[0])], (0.0, math.pi), [1.0, 0.0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(path.y[:, -1], [-1.0, 0.0], atol=1e-6)
    path = integrate.solve_ivp(lambda t, y: fg.constant([y[1], -y[0]]), (0.0, math.pi), [1.0, 0.0], rtol=1e-8)
    np.testing.assert_allclose(path.y[0, -1], -1.0, atol=1e-4)
    fit = optimize.least_squares(lambda x: fg.constant([x[0] - 1.0, 10 * (x[1] - 2.0)]), [0.0, 0.0])
    np.testing.assert_allclose(fit.x, [1.0, 2.0], atol=1e-6)


# Assignment by index


ASSIGNMENTS = {
    "element": lambda x, v: x.__setitem__(1, v[0]),
    "last": lambda x, v: x.__setitem__(-1, v[0]),
    "slice": lambda x, v: x.__setitem__(slice(0, 3), v),
    "number into a slice": lambda x, v: x.__setitem__(slice(0, 3), v[1]),
    "step": lambda x, v: x.__setitem__(slice(None, None, 2), v),
    "reversed": lambda x, v: x.__setitem__(slice(3, 0, -1), v),
    "mask": lambda x, v: x.__setitem__(np.array([True, False, True, False, True]), v),
    "computed mask": lambda x, v: x.__setitem__(x > 2.5, v),
    "integers": lambda x, v: x.__setitem__([4, 0, 2], v),
    "repeated integers": lambda x, v: x.__setitem__([1, 3, 1], v),
    "negative repeated": lambda x, v: x.__setitem__([1, -4, 1], v),
    "ellipsis": lambda x, v: x.__setitem__(Ellipsis, v[2]),
    "none": lambda x, v: x.__setitem__((None, slice(0, 3)), v[None]),
    "empty": lambda x, v: x.__setitem__(slice(2, 2), v[:0]),
    "from itself": lambda x, v: x.__setitem__(slice(1, None), x[:-1] * v[0]),
    "constant": lambda x, v: x.__setitem__(slice(1, 3), 7.0),
    "integer constant": lambda x, v: x.__setitem__(0, 7),
    "list": lambda x, v: x.__setitem__(slice(1, 3), [7.0, 8.0]),
    "twice": lambda x, v: (x.__setitem__(0, v[0] * x[1]), x.__setitem__(0, x[0] * v[1])),
    "swap": lambda x, v: x.__setitem__([0, 1], x[[1, 0]]),
}


def _written(name, v, start, squared, np_=fnp):
    """Return sum(w * x^2) or sum(w * x) after an assignment into a copy of `start`."""
    x = start + np_.zeros(5)
    ASSIGNMENTS[name](x, v)
    return np.sum((x * x if squared else x * 1.0) * np.array([1.0, 10.0, 100.0, 1000.0, 10000.0]))


@pytest.mark.parametrize("name", ASSIGNMENTS)
@pytest.mark.parametrize("squared", [False, True])
def test_assignment_by_index(name, squared):
    start, v = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([0.5, -1.0, 2.0])
    f = functools.partial(_written, name, squared=squared)
    g = functools.partial(_written, name, squared=squared, np_=np)  # the same on arrays
    value, (by_v, by_start) = fg.value_and_grad(f, argnums=(0, 1))(v, start)
    assert value.item() == pytest.approx(g(v, start), rel=1e-15)
    for place, (gradient, x) in enumerate([(by_v, v), (by_start, start)]):
        for i in range(len(x)):
            step = 1e-6 * np.eye(len(x))[i]
            above, below = (g(*((v + s, start) if place == 0 else (v, start + s))) for s in (step, -step))
            assert gradient[i].item() == pytest.approx((above - below) / 2e-6, rel=1e-6, abs=1e-4), (place, i)
    value, tangent = fg.jvp(f, (v, start), (np.ones(3), np.ones(5)))
    assert tangent.item() == pytest.approx(np.sum(np.asarray(by_v)) + np.sum(np.asarray(by_start)), rel=1e-13)


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_second_order_of_assignment_by_index(name):
    start, v = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([0.5, -1.0, 2.0])

    def slope(v, s):
        return fg.grad(lambda v, s: _written(name, v, s, squared=True))(v, s)

    direction = np.array([1.0, 2.0, 3.0])
    second = fg.grad(lambda v: np.sum(slope(v, start) * direction))(v)
    forward = fg.jvp(lambda v: slope(v, start), (v,), (direction,))[1]
    for i in range(3):
        step = 1e-6 * np.eye(3)[i]
        difference = np.sum((slope(v + step, start) - slope(v - step, start)).numpy() * direction) / 2e-6
        assert second[i].item() == pytest.approx(difference, rel=1e-5, abs=1e-2)
    np.testing.assert_allclose(np.asarray(forward), np.asarray(second), rtol=1e-12)


def test_a_repeated_index_keeps_the_last_value():
    def f(v):
        x = fnp.zeros(2)
        x[[0, 0, 1]] = v
        return np.sum(x * np.array([1.0, 10.0]))

    assert plain(fg.value_and_grad(f)(np.array([3.0, 4.0, 5.0]))) == (54.0, [0.0, 1.0, 10.0])


def test_loops_that_fill():
    def powers(x):
        result = fnp.zeros(4)
        for i in range(4):
            result[i] = x**i
        return result

    assert plain(fg.jvp(powers, (3.0,), (1.0,))) == ([1.0, 3.0, 9.0, 27.0], [0.0, 1.0, 6.0, 27.0])
    assert plain(fg.grad(lambda x: np.sum(powers(x)))(3.0)) == 34.0
    assert plain(fg.grad(fg.grad(lambda x: np.sum(powers(x))))(3.0)) == 20.0

    def table(x):
        result = fnp.empty((2, 3))
        for i in range(2):
            for j in range(3):
                result[i, j] = x[i] * x[j]
        return np.sum(result)

    # (x0 + x1) (x0 + x1 + x2)
    assert plain(fg.grad(table)(np.array([1.0, 2.0, 3.0]))) == [9.0, 9.0, 3.0]

    def recurrence(x):
        u = fnp.ones(6)
        for i in range(2, 6):
            u[i] = x * u[i - 1] + u[i - 2]
        return u[5]

    # u2 = x + 1, u3 = x^2 + x + 1, u4 = x^3 + x^2 + 2 x + 1, u5 = x^4 + x^3 + 3 x^2 + 2 x + 1
    assert plain(fg.grad(recurrence)(2.0)) == 4 * 8 + 3 * 4 + 6 * 2 + 2.0


def test_augmented_assignment():
    def f(x):
        y = x * 1.0
        y[0] += x[1]
        y[1:] *= x[0]
        y -= 1.0
        y **= 2
        return np.sum(y)

    # (x0 + x1 - 1)^2 + (x1 x0 - 1)^2
    a, b = 2.0, 3.0
    expected = [2 * (a + b - 1) + 2 * (a * b - 1) * b, 2 * (a + b - 1) + 2 * (a * b - 1) * a]
    assert plain(fg.grad(f)(np.array([a, b]))) == expected


def test_views_change_and_nothing_else_does():
    kept = {}

    def f(x):
        y = x * 2.0
        view, copied, reshaped, row = y[:], copy.copy(y), y.reshape(3, 1), y[0]
        z = y
        y[0] = 100.0
        kept.update(x=x, view=view, copied=copied, reshaped=reshaped, row=row, y=y, z=z)
        return np.sum(x * y) + np.sum(view)

    array = np.array([1.0, 2.0, 3.0])
    gradient = fg.grad(f)(array)
    assert plain(gradient) == [100.0, 10.0, 14.0]
    assert array.tolist() == [1.0, 2.0, 3.0]
    assert plain(kept["x"]) == [1.0, 2.0, 3.0]
    assert plain(kept["copied"]) == [2.0, 4.0, 6.0]
    assert plain(kept["view"]) == [100.0, 4.0, 6.0]
    assert plain(kept["reshaped"]) == [[100.0], [4.0], [6.0]]
    assert plain(kept["row"]) == 2.0
    assert kept["z"] is kept["y"]
    assert plain(kept["y"]) == [100.0, 4.0, 6.0]


def test_writing_leaves_the_sources_of_tensors_alone():
    array = np.array([1.0, 2.0])
    t = fg.constant(array)
    t[0] = 7.0
    assert array.tolist() == [1.0, 2.0]
    u = fg.convert_to_tensor(t)
    v = +t
    v[1] = 9.0
    assert plain(t) == [7.0, 2.0]
    assert plain(u) == [7.0, 2.0]
    w = fg.Variable([1.0, 2.0])
    value = w.value()
    value[0] = 5.0
    assert w.tolist() == [1.0, 2.0]
    a = np.array([1.0, 2.0])
    result = fg.grad(lambda x: np.sum(a * x))(np.ones(2))
    result[0] = 99.0
    assert a.tolist() == [1.0, 2.0]


def test_the_gradient_can_be_written_to_without_touching_another():
    first, second = fg.gradients_function(lambda x, y: np.sum(x + y))(np.zeros(2), np.zeros(2))
    first[0] = 5.0
    assert plain(second) == [1.0, 1.0]
    one, other = fg.grad(lambda x, y: np.sum(x * 1.0) + np.sum(y), argnums=(0, 1))(np.zeros(2), np.zeros(2))
    array = one.numpy()
    array[0] = 5.0
    assert plain(one) == plain(other) == [1.0, 1.0]


def test_assignment_keeps_the_dtype():
    t = fg.constant(np.float32([1, 2]))
    t[0] = 0.1
    assert t.dtype == np.float32
    assert t[0].item() == np.float32(0.1)

    def f(v):
        x = fnp.zeros(2, np.float32)
        x[0] = v
        return np.sum(x)

    gradient = fg.grad(f)(3.0)
    assert (gradient.item(), gradient.dtype) == (1.0, np.float64)


def test_assignment_of_integers_and_masks():
    n = fg.constant([1, 2, 3])
    n[1] = 7
    n[n > 2] = 0
    assert plain(n) == [1, 0, 0]
    assert n.dtype == np.int64
    b = fg.constant([True, False])
    b[1] = True
    assert plain(b) == [True, True]


def test_assignment_of_complex_values():
    def f(z):
        x = fnp.zeros(2, complex)
        x[0] = z * z
        x[1] = 2.0
        return np.sum(np.real(x * np.conj(x)))

    # |z^2|^2 = |z|^4 with the gradient 4 |z|^2 z
    assert fg.grad(f)(1.0 + 2.0j).item() == pytest.approx(20.0 * (1 + 2j), rel=1e-14)


def test_assignment_in_a_tape():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = fnp.zeros(3)
        y[0] = x
        y[1:] = x * x
        z = np.sum(y * y)
    assert tape.gradient(z, x).item() == 2 * 3.0 + 2 * 4 * 27.0


def test_the_constructors_of_fgrad_numpy():
    for name, args in {
        "zeros": ((2, 3),), "ones": (2,), "full": (2, 7.0), "eye": (2,), "identity": (2,), "arange": (3.0,),
        "linspace": (0.0, 1.0, 3), "array": ([[1.0, 2.0]],), "asarray": ([1, 2],),
    }.items():  # fmt: skip
        result, expected = getattr(fnp, name)(*args), getattr(np, name)(*args)
        assert type(result) is fg.Tensor
        assert (result.dtype, plain(result)) == (expected.dtype, plain(expected))
    assert fnp.empty((2, 0)).shape == (2, 0)
    assert fnp.zeros(2, dtype=np.float32).dtype == np.float32
    assert plain(fnp.zeros_like(np.ones(2))) == [0.0, 0.0]
    assert plain(fg.grad(lambda x: np.sum(fnp.full(3, x) * fnp.array([x, 1.0, 2 * x])))(2.0)) == 6 * 2.0 + 1


# Copies and pickles


@pytest.mark.parametrize("value", [3.0, [1.0, 2.0], np.float32([[1], [2]]), [1, 2], True, 1 + 2j, np.zeros((0, 2))])
def test_copies_of_tensors(value):
    t = fg.constant(value)
    copies = [copy.copy(t), copy.deepcopy(t), t.copy(), +t if t.dtype != bool else copy.copy(t)]
    copies += [pickle.loads(pickle.dumps(t, protocol)) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)]
    for other in copies:
        assert type(other) is fg.Tensor
        assert other is not t
        assert (other.dtype, other.shape, plain(other)) == (t.dtype, t.shape, plain(t))
        if t.size:
            other[...] = 0
            assert plain(t) == plain(np.asarray(value))


def test_deepcopy_of_containers():
    tree = {"a": [fg.constant([1.0, 2.0])]}
    other = copy.deepcopy(tree)
    other["a"][0][0] = 9.0
    assert plain(tree) == {"a": [[1.0, 2.0]]}


def test_results_can_be_pickled(t):
    assert plain(pickle.loads(pickle.dumps(t))) == VALUES.tolist()


def test_copies_inside_a_function():
    def f(x):
        y, z = copy.copy(x), copy.deepcopy([x])[0]
        y[0] = 5.0
        return np.sum(x * y * z)

    # x0^2 5 + x1^3
    assert plain(fg.grad(f)(np.array([2.0, 3.0]))) == [20.0, 27.0]
    assert plain(fg.jvp(f, (np.array([2.0, 3.0]),), (np.ones(2),))[1]) == 47.0


def test_a_traced_tensor_cannot_be_pickled():
    with pytest.raises(TypeError, match="pickling"):
        fg.grad(lambda x: (pickle.dumps(x), x)[1])(3.0)


# Iteration, length, truth


def test_what_has_no_length_or_truth():
    scalar, vector = fg.constant(3.0), fg.constant([1.0, 2.0])
    with pytest.raises(TypeError, match=r"len\(\) of unsized object"):
        len(scalar)
    with pytest.raises(TypeError, match="iteration over a 0-d"):
        iter(scalar)
    with pytest.raises(TypeError, match="iteration over a 0-d"):
        _, _ = scalar
    with pytest.raises(ValueError, match="truth value of an array with more than one element is ambiguous"):
        bool(vector)
    with pytest.raises(TypeError, match="only (length-1|0-dimensional) arrays can be converted"):
        float(vector)
    with pytest.raises(TypeError, match="unhashable type: 'Tensor'"):
        hash(scalar)
    with pytest.raises(ValueError, match="can only convert an array of size 1"):
        vector.item()
    with pytest.raises(TypeError, match="index must be an integer.*float64"):
        [1, 2][scalar]
    with pytest.raises(ValueError, match="not enough values to unpack"):
        _, _, _ = vector


def test_iteration_inside_a_function():
    assert plain(fg.grad(lambda x: sum(v * v for v in x))(np.array([1.0, 2.0]))) == [2.0, 4.0]
    assert plain(fg.grad(lambda x: functools.reduce(lambda a, b: a * b, x))(np.array([2.0, 3.0]))) == [3.0, 2.0]

    def unpacked(x):
        a, (b, c) = x[0, 0], x[1]
        return a * b * c

    assert plain(fg.grad(unpacked)(np.array([[2.0, 3.0], [5.0, 7.0]]))) == [[35.0, 0.0], [14.0, 10.0]]


ELEMENTS = {
    "iter": lambda x: x,
    "flat": lambda x: x.flat,
    "data": lambda x: np.asarray(x.data),
    "base": lambda x: x.base if x.base is not None else x,
    "ravel": lambda x: x.ravel(),
    "indices": lambda x: (x[i] for i in range(len(x))),
    "np.ndindex": lambda x: (x[i] for i in np.ndindex(x.shape)),
    "reversed": reversed,
    "sorted": sorted,
    "np.ndenumerate": lambda x: (v for _, v in np.ndenumerate(x)),
    "np.nditer": np.nditer,
    "tuple": tuple,
    "np.split": lambda x: np.split(x, 2),
}


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("derivative", [fg.grad, lambda f: lambda x: fg.jvp(f, (x,), (np.array([1.0, 0.0]),))[1]])
def test_elements_carry_their_derivatives_or_are_refused(name, derivative):
    def f(x):
        return np.sum(x) + sum(np.sum(v * v) for v in ELEMENTS[name](x))

    try:
        result = derivative(f)(np.array([2.0, 3.0]))
    except (TypeError, AttributeError):
        with pytest.raises(
            (TypeError, AttributeError), match="traced tensor|no derivative rule|flat|data|base|Iterator operand"
        ):
            derivative(f)(np.array([2.0, 3.0]))
        assert name in ("flat", "data", "base", "np.ndenumerate", "np.nditer")
    else:
        assert plain(result) in ([5.0, 7.0], 5.0)


# Containers stay plain


Point = namedtuple("Point", ["x", "y"])


@pytest.mark.parametrize(
    "tree",
    [{"a": 2.0, "b": 3.0}, [2.0, 3.0], (2.0, 3.0), Point(2.0, 3.0), {"a": [2.0], "b": (3.0, Point(1.0, np.ones(2)))}],
)
def test_containers_are_what_they_were(tree):
    def check(inside, outside):
        assert type(inside) is (fg.Tensor if isinstance(outside, (float, np.ndarray)) else type(outside))
        if isinstance(outside, dict):
            assert isinstance(inside, dict)
            assert list(inside) == list(outside)
            for key in outside:
                check(inside[key], outside[key])
        elif isinstance(outside, (list, tuple)):
            for a, b in zip(inside, outside, strict=True):
                check(a, b)

    def f(p):
        check(p, tree)
        return sum(np.sum(leaf) for leaf in fg.tree_leaves(p))

    gradient = fg.grad(f)(tree)
    assert type(gradient) is type(tree)
    assert all(np.all(np.asarray(leaf) == 1.0) for leaf in fg.tree_leaves(gradient))
    fg.jvp(f, (tree,), (tree,))


def test_a_container_that_the_function_changes_is_not_the_users():
    def f(p):
        p["c"] = p.pop("a") * 2.0
        p["list"].append(5.0)
        return p["c"] * p["list"][0]

    params = {"a": 2.0, "list": [3.0]}
    assert plain(fg.grad(f)(params)) == {"a": 6.0, "list": [4.0]}
    assert params == {"a": 2.0, "list": [3.0]}


# Exceptions


class Stop(BaseException):
    """Not an Exception, like KeyboardInterrupt."""


@pytest.mark.parametrize("error", [KeyError, Stop, StopIteration, GeneratorExit, RecursionError])
def test_an_exception_leaves_nothing_open(error):
    w = fg.Variable(3.0)

    def failing(x):
        y = x * w
        with fg.GradientTape():
            fg.jvp(lambda t: fg.grad(lambda s: _raise(error, s * t * y))(1.0), (1.0,), (1.0,))

    for transform in (fg.grad, fg.gradients_function, along, fg.implicit_gradients, fg.make_vjp):
        with pytest.raises(error, match="stop"):
            transform(failing)(2.0)
    assert type(np.asarray(w * 2.0)) is np.ndarray  # no trace follows the variable
    assert plain(fg.grad(fg.grad(lambda x: x**3 * w))(2.0)) == 36.0
    assert plain(fg.implicit_gradients(lambda: w * w)()[0][0]) == 6.0
    assert plain(along(lambda x: x * x)(3.0)) == 6.0


def _raise(error, value):
    raise error("stop")


def test_an_exception_in_an_inner_tape():
    x = fg.constant(3.0)
    with fg.GradientTape() as outer:
        outer.watch(x)
        with pytest.raises(KeyError, match="stop"), fg.GradientTape() as inner:
            inner.watch(x)
            y = x * x
            raise KeyError("stop")
        z = y * x
    assert inner.gradient(y, x).item() == 6.0
    assert outer.gradient(z, x).item() == 27.0


def test_an_exception_in_a_pullback_does_no_harm():
    _, pullback = fg.vjp(lambda x: x * x, np.ones(2))
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        pullback(np.ones(3))
    assert plain(pullback(np.ones(2))) == ([2.0, 2.0],)


def test_numpys_error_state_is_the_users():
    before = np.geterr()
    with np.errstate(all="raise"):
        assert plain(fg.grad(np.sqrt)(0.0)) == np.inf
        with pytest.raises(FloatingPointError, match="divide by zero"):
            fg.grad(lambda x: 1.0 / x)(np.float64(0.0))
        assert set(np.geterr().values()) == {"raise"}
    assert np.geterr() == before


# Truth values and integers carry no derivative, and pick from plain arrays


DATA, GRID, TABLE = np.array([10.0, 20.0, 30.0]), np.linspace(0, 5, 11), np.arange(20.0) ** 2


def _into_labels(x):
    labels = np.zeros(3)
    labels[:] = x > 1.5
    return np.sum(labels * x)


def _one_label_after_the_other(x):
    labels = np.zeros(3, bool)
    for i in range(3):
        labels[i] = x[i] > 1.5
    return np.sum(x[labels] ** 2)


def _places(x):
    places = np.zeros(3, int)
    places[0] = np.argmax(x)
    places[1:] = np.argsort(x)[1:]
    return np.sum(TABLE[places] * x)


PICKING = {
    "data[x > 0]": lambda x: np.sum(DATA[x > 1.5]) * np.sum(x),
    "grid[searchsorted]": lambda x: np.sum(GRID[np.searchsorted(GRID, x)] * x),
    "table[floor]": lambda x: np.sum(TABLE[np.floor(x).astype(int)] * x),
    "eye[argmax]": lambda x: np.sum(np.eye(3)[np.argmax(x)] * x),
    "take by argsort": lambda x: np.sum(np.take(TABLE, np.argsort(x)) * x),
    "labels[:] = x > 0": _into_labels,
    "labels[i] = x > 0": _one_label_after_the_other,
    "places": _places,
    "np.array of comparisons": lambda x: np.sum(np.array([v > 1.5 for v in x]) * x),
    "bincount": lambda x: np.sum(np.bincount(np.floor(x).astype(int), minlength=4) * np.arange(4.0)) * x[0],
    "counts": lambda x: float(np.sum(x > 1.5)) * x[1] + np.count_nonzero(x > 1.5) * x[0] + DATA[x > 1.5].size * x[2],
}


@pytest.mark.parametrize("name", PICKING)
def test_what_has_no_derivative_picks_from_plain_arrays(name):
    f, x = PICKING[name], np.array([1.2, 2.3, 1.7])
    steps = np.eye(3) * 1e-6
    expected = [(float(f(x + step)) - float(f(x - step))) / 2e-6 for step in steps]

    def by_tape(x):
        x = fg.constant(x)
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for transform in (fg.grad, fg.jacfwd, fg.jacrev, lambda f: by_tape):
            np.testing.assert_allclose(transform(f)(x), expected, rtol=1e-6)
        np.testing.assert_allclose(fg.hessian(f)(x), fg.jacfwd(fg.jacfwd(f))(x), rtol=1e-12, atol=1e-12)


def test_under_vmap_there_is_no_one_value_to_pick_by():
    with pytest.raises(fg.errors.ConcretizationError, match="vmap"):
        fg.vmap(lambda x: np.sum(DATA[x > 1.5]))(np.ones((2, 3)))


# A transform that has ended


@pytest.mark.parametrize("transform", [fg.grad, fg.jacrev, fg.jacfwd, fg.value_and_grad])
def test_tensors_that_leak_are_constants_afterwards(transform):
    leaked = []

    def f(x):
        leaked.append(x * 2.0)
        return np.sum(x)

    transform(f)(np.ones(2))
    trace = leaked[0]._trace
    assert trace.level == 0
    after = leaked[0] * 3.0
    assert after.tolist() == [6.0, 6.0]
    assert after._trace is not trace
    assert not getattr(trace, "record", None)
    assert fg.grad(lambda y: np.sum(y * leaked[0]))(np.ones(2)).tolist() == [2.0, 2.0]


# Results are the user's own, and not the memory of what was passed


def _aux(x):
    return np.sum(x), (x, x[1:], 3)


SHARING = {
    "value_and_gradients_function": lambda a: fg.value_and_gradients_function(lambda x: x)(a)[0],
    "a view": lambda a: fg.value_and_gradients_function(lambda x: x[::-1])(a)[0],
    "reshaped": lambda a: fg.value_and_gradients_function(lambda x: np.reshape(x, (3, 1)))(a)[0],
    "weights": lambda a: fg.gradients_function(lambda x: x)(np.ones(3), dy=a)[0],
    "vjp": lambda a: fg.vjp(lambda x: x, a)[0],
    "pullback": lambda a: fg.vjp(lambda x: x, np.ones(3))[1](a)[0],
    "jvp": lambda a: fg.jvp(lambda x: x, (a,), (np.ones(3),))[0],
    "tangent": lambda a: fg.jvp(lambda x: x[::-1], (np.ones(3),), (a,))[1],
    "vmap": lambda a: fg.vmap(lambda x: x)(a),
    "vmap, moved": lambda a: fg.vmap(lambda x: x, out_axes=1)(a.reshape(3, 1)),
    "aux": lambda a: fg.grad(_aux, has_aux=True)(a)[1],
    "aux of jvp": lambda a: fg.jvp(_aux, (a,), (a,), has_aux=True)[2],
    "graph": lambda a: fg.trace(lambda x: x)(np.zeros(3))(a),
    "tape": lambda a: _identity_on_a_tape(a),
}


def _identity_on_a_tape(weights):
    x = fg.constant(np.ones(3))
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * 1.0
    return tape.gradient(y, x, output_gradients=weights)


@pytest.mark.parametrize("name", SHARING)
def test_results_do_not_change_with_what_was_passed(name):
    a = np.array([1.0, 2.0, 3.0])
    result = SHARING[name](a)
    before = [np.array(leaf) for leaf in fg.tree_leaves(result)]
    a -= 10.0
    for leaf, kept in zip(fg.tree_leaves(result), before, strict=True):
        np.testing.assert_array_equal(leaf, kept)
