"""What a solver's function refers to is what it was at the call, when the function runs again for a derivative."""

import collections
import functools
import types
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.interpolate
import scipy.optimize

import fgrad as fg
import fgrad.scipy.integrate as si
import fgrad.scipy.linalg as sl
import fgrad.scipy.optimize as so
from fgrad import errors
from fgrad.rules.kept import MOST, Kept

GLOBAL = np.zeros(1)
NUMBER = 0.0


# Where the number 3 comes from, which another one is written over: each returns f(x, b, *args), args, and the write


def array_in_args():
    a = np.array([3.0])
    return lambda x, b, a: x**3 - np.sum(a) * b, (a,), lambda: a.fill(9.0)


def integers_in_args():
    a = np.array([1, 2])
    return lambda x, b, a: x**3 - np.sum(a) * b, (a,), lambda: a.fill(9)


def nested_in_args():
    a = np.array([3.0])
    return lambda x, b, tree: x**3 - np.sum(tree["a"][1][0]) * b, ({"a": [0.0, (a,)]},), lambda: a.fill(9.0)


def object_in_args():
    holder = types.SimpleNamespace(a=np.array([3.0]), n=1)
    return lambda x, b, holder: x**3 - np.sum(holder.a) * b, (holder,), lambda: holder.a.fill(9.0)


def array_in_a_cell():
    a = np.array([3.0])
    return lambda x, b: x**3 - np.sum(a) * b, (), lambda: a.fill(9.0)


def view_in_a_cell():
    a = np.array([3.0, 3.0])
    part = a[::2]
    return lambda x, b: x**3 - np.sum(part) * b, (), lambda: a.fill(9.0)


def name_that_is_bound_again():
    a = 3.0

    def write():
        nonlocal a
        a = 9.0

    return lambda x, b: x**3 - a * b, (), write


def list_in_a_cell():
    numbers = [1.0, 2.0]
    return lambda x, b: x**3 - sum(numbers) * b, (), lambda: numbers.append(9.0)


def containers_in_a_cell():
    a = np.array([3.0])
    tree = collections.OrderedDict(a=[(a, "text")], empty=())
    return lambda x, b: x**3 - np.sum(tree["a"][0][0]) * b, (), lambda: a.fill(9.0)


def tensor_in_a_cell():
    a = fg.constant([3.0])

    def write():
        a[:] = 9.0

    return lambda x, b: x**3 - np.sum(a) * b, (), write


def variable_in_a_cell():
    a = fg.Variable([3.0])
    return lambda x, b: x**3 - np.sum(a) * b, (), lambda: a.assign([9.0])


def array_of_the_module():
    GLOBAL[:] = 3.0
    return lambda x, b: x**3 - np.sum(GLOBAL) * b, (), lambda: GLOBAL.fill(9.0)


def number_of_the_module():
    global NUMBER
    NUMBER = 3.0

    def write():
        global NUMBER
        NUMBER = 9.0

    return lambda x, b: x**3 - NUMBER * b, (), write


def helper(b):
    return np.sum(GLOBAL) * b


def function_of_the_module():
    GLOBAL[:] = 3.0
    return lambda x, b: x**3 - helper(b), (), lambda: GLOBAL.fill(9.0)


class Problem:
    def __init__(self):
        self.a = np.array([3.0])

    def left(self, x, b):
        return x**3 - np.sum(self.a) * b

    def __call__(self, x, b):
        return self.left(x, b)


@dataclass(frozen=True)
class Frozen:
    a: np.ndarray


class Slots:
    __slots__ = ("a", "unset")


def attribute_of_a_method():
    problem = Problem()
    return problem.left, (), lambda: problem.a.fill(9.0)


def attribute_that_is_bound_again():
    problem = Problem()

    def write():
        problem.a = 9.0

    return problem.left, (), write


def object_that_is_called():
    problem = Problem()
    return problem, (), lambda: problem.a.fill(9.0)


def object_in_a_cell():
    problem, holder = Problem(), [Frozen(np.array([0.0])), Slots()]
    holder[1].a = np.zeros(1)

    def left(x, b):
        return problem.left(x, b) + np.sum(holder[0].a + holder[1].a) * b

    return left, (), lambda: [each.a.fill(9.0) for each in (problem, *holder)]


def partial_function():
    a = np.array([3.0])
    return functools.partial(lambda a, x, b: x**3 - np.sum(a) * b, a), (), lambda: a.fill(9.0)


def default():
    a = np.array([3.0])
    return lambda x, b, a=a, *, none=None: x**3 - np.sum(a) * b, (), lambda: a.fill(9.0)


def function_in_a_function():
    a = np.array([3.0])

    def inner(b):
        return np.sum(a) * b

    @functools.wraps(inner)
    def wrapped(b):
        return inner(b)

    return lambda x, b: x**3 - wrapped(b), (), lambda: a.fill(9.0)


def derivative_in_a_function():
    a = np.array([1.5])
    slope = fg.grad(lambda b: np.sum(a) * b**2)
    return lambda x, b: x**3 - slope(b), (), lambda: a.fill(9.0)


def rule_in_a_function():
    a = np.array([3.0])
    product = fg.custom_vjp(lambda b: np.sum(a) * b)
    product.defvjp(lambda b: (product(b), None), lambda _, ct: (np.sum(a) * ct,))
    return lambda x, b: x**3 - product(b), (), lambda: a.fill(9.0)


def work_buffer():
    buffer, a = np.zeros(3), np.array([3.0])

    def left(x, b):
        buffer[:] = 0.0
        buffer[1] = a[0]
        return x**3 - np.sum(buffer) * b

    return left, (), lambda: [buffer.fill(7.0), a.fill(9.0)]


def subclass():
    class Marked(np.ndarray):
        pass

    a = np.array([3.0]).view(Marked)
    return lambda x, b: x**3 - np.sum(np.asarray(a)) * b, (), lambda: a.fill(9.0)


def several_kilobytes():
    a = np.full(10_000, 3e-4)
    return lambda x, b: x**3 - np.sum(a) * b, (), lambda: a.fill(9.0)


SOURCES = [
    array_in_args, integers_in_args, nested_in_args, object_in_args, array_in_a_cell, view_in_a_cell,
    name_that_is_bound_again, list_in_a_cell, containers_in_a_cell, tensor_in_a_cell, variable_in_a_cell,
    array_of_the_module,
    number_of_the_module, function_of_the_module, attribute_of_a_method, attribute_that_is_bound_again,
    object_that_is_called, object_in_a_cell, partial_function, default, function_in_a_function,
    derivative_in_a_function, rule_in_a_function, work_buffer, subclass, several_kilobytes,
]  # fmt: skip


def by_scipy(f, b, *args):
    """Return what a solver of the user's own finds, of plain numbers."""
    return scipy.optimize.brentq(lambda x: float(f(x, b, *args)), 0.0, 5.0)


SOLVERS = {
    "root_scalar": lambda f, args: so.root_scalar(f, args, x0=1.5).root,
    "root": lambda f, args: so.root(lambda x, *args: f(x, *args), [1.5], args).x[0],
    "brentq": lambda f, args: so.brentq(f, 0.0, 5.0, args),
    "implicit_diff": lambda f, args: fg.implicit_diff(functools.partial(by_scipy, f), f)(*args),
    "solve_ivp": lambda f, args: si.solve_ivp(
        lambda t, y, *args: -0.1 * f(y, *args), (0.0, 1.0), [1.0], args=args
    ).y[0, -1],
    "quad": lambda f, args: si.quad(lambda x, *args: f(x, *args), 0.0, 1.0, args)[0],
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_what_is_overwritten_before_the_pass_back(solver, source):
    found = []
    for is_overwritten in (False, True):
        f, args, write = source()
        _, pullback = fg.vjp(lambda b, f=f, args=args: solver(f, (b, *args)), 2.0)
        if is_overwritten:
            write()
        found.append(pullback(1.0)[0].item())
    assert found[0] != 0
    assert found[0] == found[1]


class Settings:
    scale = 1.5
    weights = np.array([1.0, 2.0])


class Model:
    def left(self, x, b):
        return x**2 - b * np.sum(FACTORS) * 0.1


FACTORS = np.array([3.0, 4.0])


def attribute_of_a_class():
    return lambda x, b: x**2 - b * Settings.scale, lambda: setattr(Settings, "scale", Settings.scale + 1.0)


def array_of_a_class():
    return lambda x, b: x**2 - b * Settings.weights[1], lambda: Settings.weights.__setitem__(1, Settings.weights[1] + 1)


def attribute_of_a_module():
    module = types.ModuleType("settings")
    module.rate, module.unused = np.array([2.0]), np.ones(2)

    def write():
        module.unused[:] = 7.0  # which is no fault
        module.rate[0] = 5.0

    return lambda x, b: x**2 - b * module.rate[0], write


def array_that_a_method_of_an_object_names():
    model = Model()
    return lambda x, b: model.left(x, b), lambda: FACTORS.__setitem__(0, FACTORS[0] + 1)


def array_in_an_object_of_another_library():
    spline = scipy.interpolate.CubicSpline([0.0, 1.0, 2.0], [1.0, 3.0, 2.0])
    return lambda x, b: x**2 - b * np.sum(spline.c[3]), lambda: spline.c.__setitem__(3, 5.0)


def array_deep_in_an_object_of_another_library():
    grid = scipy.interpolate.RegularGridInterpolator(([0.0, 1.0],), np.array([1.0, 3.0]))
    return lambda x, b: x**2 - b * grid.grid[0][1], lambda: grid.grid[0].__setitem__(1, 5.0)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (attribute_of_a_class, "Settings.scale"),
        (array_of_a_class, "Settings.weights"),
        (attribute_of_a_module, "settings.rate"),
        (array_that_a_method_of_an_object_names, "test_kept.FACTORS"),
        (array_in_an_object_of_another_library, r"\._?c"),
        (array_deep_in_an_object_of_another_library, r"tuple\[0\]"),
    ],
)
@pytest.mark.parametrize("solver", ["brentq", "solve_ivp", "implicit_diff"])
def test_what_is_not_copied_is_an_error_once_it_is_overwritten(solver, source, what):
    for passes in (0, 2):
        f, write = source()
        _, pullback = fg.vjp(lambda b, f=f: SOLVERS[solver](f, (b,)), 2.0)
        assert all(pullback(1.0)[0].item() != 0 for _ in range(passes))
        write()
        with pytest.raises(errors.OverwrittenError, match=f"refers to .*{what}, which was overwritten before"):
            pullback(1.0)


def test_two_objects_of_a_class_are_told_apart():
    one, other = (scipy.interpolate.CubicSpline([0.0, 1.0, 2.0], [1.0, y, 2.0]) for y in (3.0, 4.0))
    found = fg.grad(lambda b: so.brentq(lambda x: x**2 - b * (one.c[3, 0] + other.c[3, 0]), 0.0, 9.0))(2.0)
    assert found.item() == pytest.approx(0.5)


def test_what_the_function_itself_writes_is_no_fault():
    class Counting:
        calls = 0.0

    def left(x, b):
        Counting.calls += 1.0
        return x**2 - b

    assert fg.grad(lambda b: so.brentq(left, 0.0, 5.0, (b,)))(4.0).item() == pytest.approx(0.25)
    assert Counting.calls > 1


def residuals(p, x, y):
    return p[0] * np.exp(-p[1] * x) - y


def minimum(function, **options):
    return lambda a, b: so.minimize(function, [0.5], (a, b), **options).x


FURTHER = {
    "bisect": lambda a, b: so.bisect(lambda x: x - np.sum(a) * b, 0.0, 100.0),
    "newton": lambda a, b: so.newton(lambda x: x**3 - np.sum(a) * b, 2.0),
    "fsolve": lambda a, b: so.fsolve(lambda x: x**3 - np.sum(a) * b, [2.0]),
    "fixed_point": lambda a, b: so.fixed_point(lambda x: np.cos(x) * b / np.sum(a), 0.5),
    "minimize": lambda a, b: so.minimize(lambda x: np.sum((x - np.sum(a) * b) ** 4 + x**2), [0.5], tol=1e-10).x,
    "minimize, bounds": lambda a, b: so.minimize(lambda x: np.sum(x * a), [0.5], bounds=([b], [4.0 * b])).x,
    "minimize, constraint": lambda a, b: so.minimize(
        lambda x: np.sum(x**2), [4.0, 1.0], constraints={"type": "eq", "fun": lambda x: x @ a - b}
    ).x,
    "least_squares": lambda a, b: so.least_squares(lambda p: residuals(p, a, np.exp(-a * b) + a), [1.0, 0.5]).x,
    "curve_fit": lambda a, b: so.curve_fit(
        lambda x, p: np.exp(-p * x * a), np.array([0.1, 0.7]), np.exp(-b * np.array([0.3, 0.9])), [0.5]
    )[0],
    "odeint": lambda a, b: si.odeint(lambda y, t: -np.sum(a) * b * y, [1.0], [0.0, 0.5, 1.0])[-1],
    "quad_vec": lambda a, b: si.quad_vec(lambda x: np.sin(a * b * x), 0.0, 1.0)[0],
    "solve_bvp": lambda a, b: si.solve_bvp(
        lambda x, y: np.stack([y[1], -b * a[0] * y[0]]), lambda start, end: np.stack([start[0], end[0] - a[1]]),
        np.linspace(0.0, 1.0, 5), np.ones((2, 5)),
    ).y[0],
    "implicit_diff, matrix_free": lambda a, b: fg.implicit_diff(
        lambda b: np.asarray(a) * np.asarray(b), lambda x, b: x - a * b, matrix_free=True
    )(b),
    "funm": lambda a, b: sl.funm(np.eye(2) * b, lambda w: np.sin(w * a[0])),
}  # fmt: skip


@pytest.mark.parametrize("solver", FURTHER.values(), ids=FURTHER)
def test_further_solvers(solver):
    found = []
    for is_overwritten in (False, True):
        a = np.array([1.0, 2.0])
        value, pullback = fg.vjp(lambda b, a=a: solver(a, b), 0.7)
        if is_overwritten:
            a[:] = 9.0
        found.append(pullback(np.ones_like(value))[0].item())
    assert np.isfinite(found[0])
    assert found[0] == found[1]


@pytest.mark.parametrize("order", [fg.grad, fg.hessian, lambda f: fg.grad(fg.grad(fg.grad(f)))])
def test_higher_orders_and_a_loop(order):
    def total(b, copies):
        buffer, parts = np.zeros(1), []
        for i in range(3):
            buffer[:] = i + 1.0
            own = buffer.copy() if copies else buffer
            parts.append(so.brentq(lambda x, own=own: x**2 - own[0] * b, 0.0, 5.0))
            parts.append(so.brentq(lambda x: x**2 - own[0] * b, 0.0, 5.0))
        return sum(parts)

    assert order(lambda b: total(b, False))(2.0).item() == order(lambda b: total(b, True))(2.0).item()


def test_a_memory_map(tmp_path):
    a = np.memmap(tmp_path / "a", np.float64, "w+", shape=(2,))
    a[:] = 1.5
    _, pullback = fg.vjp(lambda b: so.brentq(lambda x: x**3 - np.sum(a) * b, 0.0, 5.0), 2.0)
    a[:] = 9.0
    assert pullback(1.0)[0].item() == pytest.approx(6.0 ** (-2 / 3))


@pytest.mark.parametrize("solver", [SOLVERS["brentq"], SOLVERS["solve_ivp"]])
def test_a_large_array_that_is_overwritten_is_an_error(solver):
    a = np.full(200_000, 1.5e-5)

    def pullback():
        return fg.vjp(lambda b: solver(lambda x, b: x**3 - np.sum(a) * b, (b,)), 2.0)[1]

    before = pullback()
    assert np.isfinite(before(1.0)[0])
    assert np.isfinite(before(1.0)[0])
    a[7] = 9.0
    with pytest.raises(errors.OverwrittenError, match=r"used a plain array of shape \(200000,\)"):
        before(1.0)
    assert np.isfinite(pullback()(1.0)[0])


def test_nothing_of_the_users_is_changed():
    a, calls = np.array([3.0]), []

    def left(x, b):
        calls.append(x)
        return x**3 - np.sum(a) * b

    _, pullback = fg.vjp(lambda b: so.brentq(left, 0.0, 5.0, (b,)), 2.0)
    count = len(calls)
    pullback(1.0)
    assert len(calls) == count  # what the function leaves behind in a pass back is not the user's
    assert a.tolist() == [3.0]


def test_what_is_shared_stays_shared():
    class Node:
        def __init__(self, value):
            self.value, self.me = value, self

        def __del__(self):
            pass

    class Key:
        def __init__(self):
            self.weight = np.ones(1)

    key, node, a, lock = Key(), Node(1), np.zeros(2), object()
    table = {key: a, "set": {key}, "same": a, "lock": lock, "node": node}
    table["table"] = table

    def f():
        return table, f

    copy, g = Kept().now(f)()
    (own,) = copy["set"]
    assert own is not key
    assert copy[own] is copy["same"] is not a
    assert copy["table"] is copy
    assert copy["lock"] is lock
    assert copy["node"] is node  # one that does something when it goes
    assert g()[0] is copy


def test_what_is_too_much_stays_as_it_is():
    long, many = [0.0] * 200_000, [[i] for i in range(2 * MOST)]
    assert Kept().now(long) is long
    copy = Kept().now(many)
    assert copy == many
    assert copy[0] is not many[0]


def test_a_variable_that_is_followed_and_assigned_to():
    w = fg.Variable(3.0)
    for of_root in (SOLVERS["brentq"], SOLVERS["solve_ivp"], SOLVERS["quad"]):
        w.assign(3.0)
        with fg.GradientTape() as tape:
            y = of_root(lambda x, b: x**3 - w * b, (2.0,))
        expected = tape.gradient(y, w).item()
        with fg.GradientTape() as tape:
            y = of_root(lambda x, b: x**3 - w * b, (2.0,))
        w.assign(9.0)
        assert tape.gradient(y, w).item() == expected != 0


# Writes into arguments


def _scaled(a):
    a[0] = 10.0 * a[1]
    return a[0]


def _clipped(t, y):
    y[y < 0.4] = 0.0
    return -y


WRITERS = {
    "brentq": lambda y: so.brentq(lambda x, a: x**3 - _scaled(a), 0.0, 10.0, args=(y,)),
    "root": lambda y: np.sum(so.root(lambda x, a: x**3 - _scaled(a), np.ones(1), args=(y,)).x),
    "solve_ivp": lambda y: np.sum(si.solve_ivp(lambda t, s, a: -s * _scaled(a), (0, 1), np.ones(1), args=(y,)).y),
    "state": lambda y: np.sum(si.solve_ivp(_clipped, (0, 1), y).y),
    "quad": lambda y: si.quad(lambda t, a: t * _scaled(a), 0, 1, args=(y,))[0],
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_solvers_function_only_reads_its_arguments(name):
    x = np.array([1.0, 2.0])
    WRITERS[name](x.copy())  # arrays of the user's own may be written to
    for transform in (fg.grad, lambda f: lambda x: fg.jvp(f, (x,), (x,))):
        with pytest.raises(errors.InPlaceError, match=r"writes into one of its arguments.*\n  at test_kept.py:\d+"):
            transform(lambda x: WRITERS[name](x * 1.0) + np.sum(x))(x)
