"""Compiled functions that write into their arguments do it as the plain run does."""

import dataclasses

import numpy as np
import pytest

import fgrad as fg
from fgrad import errors

RNG = np.random.default_rng(0)


def arrays():
    return [np.arange(1.0, 7.0), np.linspace(0.5, 2.0, 6), np.cos(np.arange(6.0))]


# Ways to write


def whole(a, b, c):
    a *= 0.5
    a += b * c
    return np.sum(a)


def returned(a, b, c):
    a -= b
    return a


def old_and_new(a, b, c):
    before = a.copy()
    a[...] = b - a
    return np.sum(before * a)


def old_ones(a, b, c):
    before = a.copy()
    a += b
    return before, c


def reversed_in_place(a, b, c):
    a[...] = a[::-1] * b


def shifted(a, b, c):
    a[1:] = a[:-1] + c[1:]
    return a[2] * 3.0


def parts(a, b, c):
    a[0] = b[1]
    a[2:4] *= c[2:4]
    a[[4, 5]] = 7.0


def through_views(a, b, c):
    rows = a.reshape(2, 3)
    rows[0] = b[:3]
    rows.T[1] += 1.0
    a[::-1][0] = 9.0


def exchanged(a, b, c):
    a[...], b[...] = b * 2.0, a * 3.0


def several(a, b, c):
    b *= a
    c += b
    a -= np.sum(c)
    return np.sum(a * b), c[0]


def of_ufuncs(a, b, c):
    np.multiply(a, b, out=a)
    np.sin(b, out=b)
    np.copyto(c, a + b)


def by_methods(a, b, c):
    a.sort()
    b.fill(3.0)
    c.put([0, 1], [4.0, 5.0])


def with_condition(a, b, c):
    a[a > 3.0] = 0.0
    np.putmask(b, b > 1.0, -1.0)
    c[...] = np.where(c > 0, a, b)


def moved_sum(a, b, c):
    a[...] = np.cumsum(a) - np.mean(a)
    b -= np.max(b)


def product(a, b, c):
    m = a.reshape(2, 3)
    m[...] = m @ np.outer(b[:3], c[:3])


def in_a_loop(a, b, c):
    for i in range(1, 6):
        a[i] += 0.5 * a[i - 1]
        b -= 0.1 * c


def unchanged(a, b, c):
    a[...] = a
    b += 0.0


WAYS = [
    *(
        whole,
        returned,
        old_and_new,
        old_ones,
        reversed_in_place,
        shifted,
        parts,
        through_views,
        exchanged,
        several,
        of_ufuncs,
    ),
    *(by_methods, with_condition, moved_sum, product, in_a_loop, unchanged),
]


def check_same(function, compiled, make):
    """Compare two runs of a function, plain and compiled, with their arguments afterwards."""
    plain, own = make(), make()
    for _ in range(3):
        wanted, found = function(*plain), compiled(*own)
        for x, y in zip(fg.tree.leaves(wanted), fg.tree.leaves(found), strict=True):
            np.testing.assert_allclose(np.asarray(y), x, rtol=1e-12, atol=1e-12)
        for x, y in zip(plain, own, strict=True):
            np.testing.assert_allclose(np.asarray(y), x, rtol=1e-12, atol=1e-12)


def strided():
    return [np.repeat(x, 2)[::2] for x in arrays()]


def backward():
    return [x[::-1].copy()[::-1] for x in arrays()]


def parts_of_one():
    whole = np.concatenate(arrays())
    return [whole[:6], whole[6:12], whole[12:]]


def columns_of_one():
    whole = np.stack(arrays(), axis=1).copy()
    return [whole[:, 0], whole[:, 1], whole[:, 2]]


def tensors():
    return [fg.constant(x) for x in arrays()]


def mixed():
    a, b, c = arrays()
    return [a, fg.constant(b), c]


@pytest.mark.parametrize("make", [arrays, strided, backward, parts_of_one, columns_of_one, tensors, mixed])
@pytest.mark.parametrize("way", WAYS)
def test_arguments_change_as_in_the_plain_run(way, make):
    check_same(way, fg.compile(way), make)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("m", [np.array([[1.0, np.nan], [0.0, 1.0]]), np.array([[np.inf, 1.0], [1.0, 1.0]]), np.eye(2)])
def test_a_run_that_numpy_repeats_writes_once(m):
    def f(a, m):
        a += 1.0
        return np.linalg.det(m)

    check_same(f, fg.compile(f), lambda: [np.zeros(3), m.copy()])


def test_a_run_that_raises_changes_nothing():
    def f(a, m):
        a += 1.0
        return np.linalg.svd(m, compute_uv=False) * np.sum(a)

    def g(a, m):
        a += 1.0
        return np.linalg.inv(m)

    for function, m in ((f, np.full((2, 2), np.nan)), (g, np.zeros((2, 2)))):
        a, compiled = np.zeros(3), fg.compile(function)
        compiled(np.zeros(3), np.eye(2))
        with pytest.raises(np.linalg.LinAlgError):
            compiled(a, m)
        np.testing.assert_array_equal(a, np.zeros(3))


def test_a_tensor_that_shares_the_array_is_unchanged():
    a, b, c = tensors()
    other, view = fg.stop_gradient(a), a[:3]
    fg.compile(whole)(a, b, c)
    np.testing.assert_array_equal(other, np.arange(1.0, 7.0))
    np.testing.assert_array_equal(view, np.asarray(a)[:3])
    assert np.asarray(a)[1] != 2.0


# The memory


HOMES = {
    whole: 1, returned: 0, old_and_new: 0, reversed_in_place: 0, shifted: 0, exchanged: 1, several: 3, of_ufuncs: 3,
    product: 0, unchanged: 1,
}  # fmt: skip


@pytest.mark.parametrize("way", HOMES)
def test_results_lie_in_the_memory_of_arguments_where_nothing_reads_it_afterwards(way):
    compiled = fg.compile(way)
    compiled(*arrays())
    (program,) = compiled.programs.known.values()
    assert len(program.function.executable().plan.homes) == HOMES[way]


def _statement(rng, names):
    """Return a random statement that writes into an array."""
    target, *others = rng.permutation(names)[:3]
    form = rng.choice([
        "{t} += {a} * {b}", "{t} *= np.cos({a})", "{t}[...] = {a} - {t} * {b}", "{t}[...] = {t}[::-1] + {a}",
        "{t}[1:] -= {a}[:-1]", "{t}[...] = np.sin({t}) + {t}", "{t} -= np.mean({a})", "{t} += np.sum({t} * {b})",
        "r.append(np.sum({t} * {a}))", "r.append({a} - {b})", "{t}[2] = {a}[1]", "{t}[...] = np.cumsum({a}) / {t}.size",
        "{t}[...] = {a}", "{t}[...] = np.where({t} > {a}, {b}, {t})",
    ])  # fmt: skip
    return form.format(t=target, a=others[0], b=others[1])


@pytest.mark.parametrize("seed", range(40))
def test_random_statements(seed):
    rng = np.random.default_rng(seed)
    names = ["a", "b", "c", "d"]
    lines = [_statement(rng, names) for _ in range(rng.integers(1, 8))]
    source = "\n    ".join([f"def f({', '.join(names)}):", "r = []", *lines, "return r"])
    known = {"np": np}
    exec(source, known)
    size = int(rng.choice([3, 5, 17, 64, 50_000]))
    values = [rng.uniform(0.5, 1.5, size) for _ in names]
    check_same(known["f"], fg.compile(known["f"]), lambda: [x.copy() for x in values])


# Arrays of no axes and of no elements


def by_operators(a, b):
    a -= 2.0 * b
    b *= a
    return a + b


def by_functions(a, b):
    np.add(a, b, out=a)
    b[...] = a * 3.0
    return np.sum(b)


def by_a_view(a, b):
    a.reshape(-1)[...] = b.reshape(-1) + 1.0
    return a * b


def under_another_name(a, b):
    c = a
    c += b
    return a * 2.0


def of_numbers(a, b):
    c = a * 1.0
    d = c
    c += b
    return d


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,)])
@pytest.mark.parametrize("way", [by_operators, by_functions, by_a_view, under_another_name])
def test_arrays_of_no_axes_and_of_no_elements(way, shape):
    compiled = fg.compile(way)
    check_same(way, compiled, lambda: [np.full(shape, 2.0), np.full(shape, 3.0)])
    with fg.debug_nans():
        check_same(way, compiled, lambda: [np.full(shape, 2.0), np.full(shape, 3.0)])


@pytest.mark.parametrize("make", [np.float64, fg.constant, float, np.array])
def test_numbers_are_immutable(make):
    compiled = fg.compile(under_another_name)
    for x in (np.float64(2.0), fg.constant(2.0), np.array(2.0), 2.0, make(2.0)):
        assert compiled(x, 3.0) == (10.0 if type(x) is np.ndarray else under_another_name(x, 3.0))
        assert x == (5.0 if type(x) is np.ndarray else 2.0)
    check_same(of_numbers, fg.compile(of_numbers), lambda: [np.array(2.0), np.array(3.0)])


# Memory order


def through_flat_view(a):
    y = a * 1.0
    y.reshape(-1)[::3] = 0.75
    return np.sum(y * np.arange(25.0).reshape(5, 5))


def through_flat_argument(a):
    a.reshape(-1)[::3] = 0.75
    return np.sum(a * np.arange(25.0).reshape(5, 5))


ORDERS = [
    lambda: np.zeros((5, 5)), lambda: np.zeros((5, 5), order="F"), lambda: np.zeros((5, 10))[:, ::2],
    lambda: np.zeros((10, 5))[::2], lambda: np.zeros((5, 5))[::-1, ::-1], lambda: np.zeros((5, 5))[::-1],
]  # fmt: skip


def filled(make):
    x = make()
    x[...] = np.arange(25.0).reshape(5, 5)
    return x


@pytest.mark.parametrize("function", [through_flat_view, through_flat_argument])
@pytest.mark.parametrize("first", range(len(ORDERS)))
def test_a_program_belongs_to_the_memory_order_of_its_arguments(function, first):
    """Whether what `reshape` returns is a view depends on it."""
    compiled = fg.compile(function)
    for make in (ORDERS[first], *ORDERS):
        own, plain = filled(make), filled(make)
        np.testing.assert_allclose(compiled(own), function(plain))
        np.testing.assert_array_equal(own, plain)
        np.testing.assert_allclose(fg.grad(compiled)(filled(make)), fg.grad(function)(filled(make)))
        np.testing.assert_allclose(compiled(fg.constant(filled(make))), function(fg.constant(filled(make))))


# Containers and transforms


def test_parameters_in_containers_are_updated():
    def step(parameters, state, rate, *, decay):
        state["m"][0][...] = decay * state["m"][0] + parameters["w"]
        parameters["w"] -= rate * state["m"][0]
        return np.sum(parameters["w"])

    def fresh():
        return {"w": np.arange(3.0)}, {"m": [np.ones(3), 2.0]}

    plain, own, compiled = fresh(), fresh(), fg.compile(step)
    for rate in (0.1, 0.2):
        assert compiled(*own, rate, decay=0.9) == step(*plain, rate, decay=0.9)
    np.testing.assert_array_equal(own[0]["w"], plain[0]["w"])
    np.testing.assert_array_equal(own[1]["m"][0], plain[1]["m"][0])


@dataclasses.dataclass
class State:
    weights: np.ndarray
    momentum: np.ndarray


def changes_a_dict(d):
    d["w"] = d["w"] * 2.0
    return np.sum(d["w"])


def adds_to_a_list(xs):
    xs.append(xs[0])
    return xs[0] * 2.0


def replaces_an_attribute(state):
    state.weights = state.weights - state.momentum
    return np.sum(state.weights)


def subtracts_from_a_number(d):
    d["b"] -= 1.0
    return d["b"]


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (changes_a_dict, {"w": np.ones(3)}),
        (adds_to_a_list, [np.ones(3)]),
        (replaces_an_attribute, State(np.ones(3), np.ones(3))),
        (subtracts_from_a_number, {"b": 0.0}),
    ],
)
def test_changes_of_containers_are_warned_of_once(function, argument):
    if isinstance(argument, State):
        fg.register_dataclass(State)
    compiled = fg.compile(function)
    with pytest.warns(errors.CompileWarning, match=f"{function.__name__} changes a list, dict or object"):
        compiled(argument)
    compiled(argument)


def test_a_training_step_with_its_gradient_writes_into_parameters():
    def loss(w, x):
        return np.mean((x @ w) ** 2)

    def step(w, x):
        value, gradient = fg.value_and_grad(loss)(w, x)
        w -= 0.1 * gradient
        return value

    x = RNG.normal(size=(5, 3))
    plain, own, compiled = np.ones(3), np.ones(3), fg.compile(step)
    for _ in range(3):
        np.testing.assert_allclose(compiled(own, x), np.asarray(step(plain, x)))
    np.testing.assert_allclose(own, plain)
    assert np.max(np.abs(own - 1.0)) > 0.01


@pytest.mark.parametrize("way", WAYS)
def test_transforms_of_a_function_that_calls_a_compiled_one(way):
    def total(function):
        def f(x, b, c):
            y, z, w = x * 2.0, b + 0.1 * x, c + 0.1 * x
            found = fg.tree.leaves(function(y, z, w))
            return sum(np.sum(np.cos(each)) for each in [*found, y, w]) + np.sum(z)

        return f

    args = arrays()
    for transform in (fg.grad, fg.hessian, fg.jacfwd, lambda f: fg.vmap(fg.grad(f))):
        given = args if transform in (fg.grad, fg.hessian, fg.jacfwd) else [np.stack([x, 2 * x]) for x in args]
        wanted, found = transform(total(way))(*given), transform(total(fg.compile(way)))(*given)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


BY_TRANSFORMS = [fg.grad, lambda g: lambda b: fg.jvp(g, (b,), (b,)), lambda g: lambda b: fg.vmap(g)(np.stack([b, b]))]


@pytest.mark.parametrize("make", [np.copy, fg.constant])
@pytest.mark.parametrize("transform", BY_TRANSFORMS)
def test_plain_arrays_take_values_that_do_not_depend_on_traced_ones(transform, make):
    def f(a, b):
        a *= 0.5
        return np.sum(a * b)

    compiled, plain, own = fg.compile(f), make(np.arange(3.0)), make(np.arange(3.0))
    wanted, found = transform(lambda b: f(plain, b))(np.ones(3)), transform(lambda b: compiled(own, b))(np.ones(3))
    for x, y in zip(fg.tree.leaves(wanted), fg.tree.leaves(found), strict=True):
        np.testing.assert_allclose(y, x)
    np.testing.assert_array_equal(own, plain)


def test_a_write_into_a_traced_tensor_of_the_closure_happens_once():
    def f(x):
        y = x * 1.0

        @fg.compile
        def changed():
            y[0] = y[0] * 10.0
            return y[1] * 2.0

        return changed() + np.sum(y)

    x = np.array([1.0, 2.0, 3.0])
    with pytest.warns(errors.CompileWarning, match="uses a traced value"):
        value, gradient = fg.value_and_grad(f)(x)
    assert value == 19.0
    np.testing.assert_array_equal(gradient, [10.0, 3.0, 1.0])


def test_a_plain_array_is_written_to_beside_a_traced_argument():
    def scaled(y, buffer):
        buffer *= 2.0
        return np.sum(y * buffer)

    compiled = fg.compile(scaled)
    transforms = (
        lambda f: fg.value_and_grad(f)(np.ones(3)),
        lambda f: fg.jvp(f, (np.ones(3),), (np.ones(3),)),
        lambda f: (fg.vmap(f)(np.ones((2, 3))), 0.0),
    )
    for transform in transforms:
        plain, own = np.arange(3.0), np.arange(3.0)
        wanted, found = (
            transform(lambda y, f=f, buffer=buffer: f(y, buffer)) for f, buffer in ((scaled, plain), (compiled, own))
        )
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(own, plain)


# Refusals


def test_arguments_that_share_memory_are_refused():
    compiled, a = fg.compile(whole), np.arange(6.0)
    compiled(*arrays())
    for b in (a, a[::-1]):
        with pytest.raises(errors.InPlaceError, match=r"whole writes into its argument a, which shares memory with b"):
            compiled(a, b, np.ones(6))
    x = fg.constant(a)
    with pytest.raises(errors.InPlaceError, match="shares memory"):
        compiled(x, x, np.ones(6))
    np.testing.assert_array_equal(a, np.arange(6.0))
    compiled(np.ones(6), a, a)  # these are only read


@pytest.mark.parametrize("make", [np.copy, fg.constant, lambda x: np.repeat(x, 2)[::2]])
def test_arguments_that_share_memory_with_captured_arrays_are_refused(make):
    captured = make(np.arange(6.0))

    def f(a):
        a += 1.0
        return captured * 2.0

    compiled = fg.compile(f)
    with pytest.raises(errors.InPlaceError, match="its argument a, which shares memory with captured"):
        compiled(captured[:])
    np.testing.assert_array_equal(captured, np.arange(6.0))
    np.testing.assert_array_equal(compiled(np.ones(6)), 2.0 * np.arange(6.0))


def test_traced_values_are_not_written_into_plain_arrays():
    a, compiled = np.arange(6.0), fg.compile(whole)
    for transform in BY_TRANSFORMS:
        with pytest.raises(errors.InPlaceError, match="whole, in its argument a, would write a tensor into a plain"):
            transform(lambda b: compiled(a, b, np.ones(6)))(np.ones(6))
    np.testing.assert_array_equal(a, np.arange(6.0))


def test_read_only_arguments_are_refused_as_by_numpy():
    a, b, c = arrays()
    a.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        fg.compile(whole)(a, b, c)
    np.testing.assert_array_equal(a, arrays()[0])


def test_functions_without_python_only_read_their_arguments(tmp_path):
    with pytest.raises(errors.UnsupportedError, match="whole writes into its argument a, and an exported function"):
        fg.compile(whole).export(tmp_path / "whole", *arrays())


def test_another_backend_writes_into_numpys_arrays_alone():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        check_same(whole, fg.compile(whole, backend="jax"), arrays)
        with pytest.raises(errors.InPlaceError, match="whole writes into its argument a, and arrays of JAX cannot"):
            fg.compile(whole, backend="jax")(*map(jax.numpy.asarray, arrays()))


def test_a_measured_report_does_not_change_arguments():
    args = arrays()
    fg.compile(whole).inspect(*args, measure=True)
    for x, y in zip(args, arrays(), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("copied", [np.copy, fg.constant], ids=["array", "tensor"])
def test_the_shape_of_an_argument_may_be_set(copied):
    def function(x):
        x.shape = (-1,)
        x[0] = 5.0
        return np.sum(x[:2])

    a, b = copied(np.ones((2, 2))), copied(np.ones((2, 2)))
    assert float(fg.compile(function)(a)) == float(function(b)) == 6.0
    assert a.shape == b.shape == (4,)
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
