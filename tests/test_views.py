"""Which results are views: of every function of NumPy, those that are views of its arguments in a plain run."""

import coverage_table as table
import numpy as np
import pytest
from helpers import grouped, in_groups, naming

import fgrad as fg
import fgrad.numpy
import fgrad.scipy.linalg
import fgrad.scipy.spatial.distance
import fgrad.scipy.special
import fgrad.scipy.stats
from fgrad import errors
from fgrad.core.tree import flatten
from fgrad.testing import check_grads

READ_ONLY = {
    "asarray", "asanyarray", "asarray_chkfinite", "ascontiguousarray", "require", "asmatrix", "from_dlpack",
    "lib.stride_tricks.as_strided",
}  # fmt: skip
"""What NumPy makes itself: arrays, of which those that share the memory of a tensor can only be read."""

PLAIN_WHEN_UNTRACED = {
    "atleast_1d", "atleast_2d", "atleast_3d", "ndarray.base", "ndarray.getfield", "ndarray.view"
}  # fmt: skip
"""What makes such arrays of tensors that nothing follows."""

NEW_TENSORS = {"ndarray.conj", "ndarray.conjugate", "linalg.matrix_power"}
"""What may return its argument itself in a plain run, and returns another tensor here."""


def calls():
    for row in table.rows():
        for number, call in enumerate(row.calls):
            if call.points and row.present():
                yield pytest.param(row, call, id=f"{row.names[0]}-{number}")


CALLS = grouped(calls(), lambda name: name.rpartition("-")[0])


def shared(results, points, share):
    return [[share(result, x) for x in points] for result in flatten(results)[0]]


def plainly(result, x):
    arrays = isinstance(result, np.ndarray) and isinstance(x, np.ndarray)
    return arrays and result.ndim > 0 and np.may_share_memory(result, x)


def by_tensors(result, x):
    tensors = isinstance(result, fg.Tensor) and isinstance(x, fg.Tensor)
    return tensors and (result is x or np.may_share_memory(result, x))


@pytest.mark.filterwarnings("ignore")
@in_groups("cases", [each.values[0] for each in CALLS], lambda cases: cases[0][0].rpartition("-")[0])
@pytest.mark.slow
def test_results_share_memory_as_in_a_plain_run(cases):
    for is_traced in (True, False):
        for case, row, call in cases:
            with naming(case, "traced" if is_traced else "untraced"):
                check_shared_memory(row, call, is_traced)


def check_shared_memory(row, call, is_traced):
    points = [np.array(x) for x in call.points]
    if row.names[0] in READ_ONLY | NEW_TENSORS or (not is_traced and row.names[0] in PLAIN_WHEN_UNTRACED):
        return
    try:
        expected = shared(call.function(*points), points, plainly)
    except Exception:  # a call that is made to see an error
        return
    found = []

    def run(*tensors):
        results = call.function(*tensors)
        found.append(shared(results, tensors, by_tensors))
        return [x for x in flatten(results)[0] if isinstance(x, fg.Tensor)] or tensors[0]

    try:
        if is_traced:
            fg.vjp(run, *points)
        else:
            run(*map(fg.constant, points))
    except (errors.FgradError, TypeError, ValueError, AttributeError):
        assert row.kind != table.DIFFERENTIABLE or not is_traced or any(x.dtype.kind not in "fc" for x in points)
        return
    assert found == [expected]


# What a view is written to by


def written_in_many_ways(x):
    a = x * 1.0
    whole, last, turned, column = a.reshape(2, 3), a[3:], a.reshape(2, 3).T, a.reshape(2, 3)[:, 1]
    last += 1.0
    turned[0] *= 2.0
    whole[1, 1:] = column
    np.multiply(column, 3.0, out=column)
    np.add.at(last, [0, 0, 2], 0.5)
    whole.flat[::2] = 0.25
    np.copyto(turned[2], 7.0, where=np.array([True, False]))
    for row in whole:
        row -= row[0] * 0.5
    first, second = np.split(a, 2)
    first[:], second[:] = second, first
    return np.sum(a**2 * np.arange(6.0)) + np.sum(turned**3) + np.sum(column * last[:2]) + np.sum(second)


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x.astype(np.complex128), lambda x: x.astype(np.float32)])
def test_writes_through_views(make):
    x = make(np.linspace(0.5, 1.5, 6))
    expected = written_in_many_ways(x)
    tolerance = 1e-5 if x.dtype == np.float32 else 1e-12
    value = written_in_many_ways(fg.constant(x))
    np.testing.assert_allclose(value, expected, rtol=tolerance)
    assert value.dtype == expected.dtype
    if x.dtype == np.float64:
        check_grads(written_in_many_ways, (x,), order=2)
        batch = np.stack([x, x**2])
        np.testing.assert_allclose(fg.vmap(written_in_many_ways)(batch), [written_in_many_ways(each) for each in batch])
        np.testing.assert_allclose(fg.trace(written_in_many_ways)(x)(x**2), written_in_many_ways(x**2))
        looped = [fg.grad(written_in_many_ways)(each) for each in batch]
        np.testing.assert_allclose(fg.vmap(fg.grad(written_in_many_ways))(batch), looped)


def parts_of_complex_numbers(x):
    z = x * (1 + 2j)
    z.real += 3.0
    z.imag[1:] *= z.real[:-1]
    z.reshape(2, 3).T.imag[0] = x[:2]
    z.imag -= 1.0
    return np.sum(np.abs(z) ** 2 * np.arange(6.0))


def test_writes_into_parts_of_complex_numbers():
    x = np.linspace(0.5, 1.5, 6)
    np.testing.assert_allclose(parts_of_complex_numbers(fg.constant(x)), parts_of_complex_numbers(x))
    check_grads(parts_of_complex_numbers, (x,), order=2)


@pytest.mark.parametrize("refused", [
    lambda x: x.__iadd__(np.ones((2, 6))),
    lambda x: np.broadcast_to(x, (2, 6)).__setitem__(0, 1.0),
    lambda x: np.diagonal(x.reshape(2, 3)).__setitem__(0, 1.0),
    lambda x: np.lib.stride_tricks.sliding_window_view(x, 2).__setitem__(0, 1.0),
    lambda x: x.astype(int).__iadd__(0.5),
    lambda x: x.__iadd__(1j),
    lambda x: x.__imatmul__(np.ones((6, 2))),
    lambda x: exec("x[0][0] = 1.0", {"x": x}),
    lambda x: (x[:2], x.resize(3)),
    lambda x: x[1:].resize(3),
    lambda x: x.__setitem__(slice(0, 2), np.ones(3)),
])  # fmt: skip
def test_what_numpy_refuses_to_write(refused):
    x = np.linspace(0.5, 1.5, 6)
    with pytest.raises((TypeError, ValueError)) as numpys:
        refused(x.copy())
    for run in (lambda: refused(fg.constant(x)), lambda: fg.grad(lambda x: np.sum(x) * 0 * len(str(refused(x))))(x)):
        with pytest.raises(TypeError if issubclass(numpys.type, TypeError) else ValueError):
            run()


@pytest.mark.parametrize("make", [
    lambda x: np.asarray(x), lambda x: np.asanyarray(x), lambda x: np.ascontiguousarray(x),
    lambda x: np.asarray_chkfinite(x),
])  # fmt: skip
def test_arrays_of_tensors_can_only_be_read(make):
    """What is written into them would not be in the tensor."""
    array = make(fg.constant([1.0, 2.0]))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 5.0

    def f(x):
        array = make(x)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5.0
        return np.sum(array**2)

    assert fg.grad(f)(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_numbers_are_no_arrays():
    def f(x):
        s = total = x[0]
        s += x[1]
        s *= 2.0
        return s * total

    x = np.array([2.0, 3.0])
    assert f(fg.constant(x)) == f(x)
    np.testing.assert_allclose(fg.grad(f)(x), [2 * (2 * 2 + 3), 4])


def _through_an_ellipsis(x):
    y = x * 1.0
    s = t = y[..., 1]
    s *= x[0]
    y[1] += x[2]
    t -= x[1]
    s[...] += 1.0
    return y * s


def _through_squeeze(x):
    y = x * 1.0
    s = y[1:2].squeeze()
    np.multiply(s, x[2], out=s)
    s.fill(x[0] * s)
    return y * s


def _through_reshape_of_a_view(x):
    y = np.outer(x, x)
    s = y.T[1:, :1].T[..., 1:].reshape(())
    s += x[0]
    y *= 2.0
    s /= x[1]
    return y[1] * s


def _through_views_of_no_axes(x):
    y = x * 1.0
    s = y[..., 0]
    r, q = s[None], s[...]
    r *= x[1]
    for each in x:
        q += each
        y[1] += s
    return y + s


def _through_the_imaginary_part(x):
    z = (x * 1.0).astype(complex)
    s = z[..., 0]
    s.real = x[1]
    s.imag += x[2]
    return np.abs(z)


def _of_copies(x):
    y = x * 1.0
    s = y[..., 0]
    for each in s.copy(), +s, s.astype(float), y[0], np.squeeze(y[0]), y[(0,)]:
        each *= 3.0
    return y * s


@pytest.mark.parametrize(
    "function",
    [
        _through_an_ellipsis,
        _through_squeeze,
        _through_reshape_of_a_view,
        _through_views_of_no_axes,
        _through_the_imaginary_part,
        _of_copies,
    ],
)
def test_views_of_shape_empty_are_arrays(function):
    """They are no numbers: `s += y` writes into the whole, under every transform."""
    x = np.array([1.5, 2.0, 3.0])
    batch = np.stack([x, x + 1.0])
    wanted = np.stack([function(each) for each in batch])
    slope = fg.jacrev(function)(x)
    check_grads(function, (x,), order=2)
    np.testing.assert_allclose(fg.vjp(function, x)[0], wanted[0])
    np.testing.assert_allclose(function(fg.constant(x)), wanted[0])
    np.testing.assert_allclose(fg.vmap(function)(batch), wanted)
    np.testing.assert_allclose(fg.trace(function)(x)(batch[1]), wanted[1])
    np.testing.assert_allclose(fg.compile(function)(x), wanted[0])
    np.testing.assert_allclose(fg.compile(fg.jacrev(function))(x), slope)
    np.testing.assert_allclose(fg.jacrev(fg.checkpoint(lambda x: function(x * 1.0)))(x), slope)


def _number_written_by_out(x):
    s = x[3]
    np.add(s, x[0], out=s)
    return s * x[1]


def _number_written_by_index(x):
    s = x[3]
    s[...] = s * x[0] + 1.0
    return s * s


@pytest.mark.parametrize("function", [_number_written_by_out, _number_written_by_index])
def test_the_derivative_of_a_number_that_is_written_to_in_a_batch(function):
    x = np.array([0.5, 2.0, 3.0, 1.5])
    slope = fg.jvp(lambda t: function(fg.stack([t, 2.0, 3.0, 1.5])), (0.5,), (1.0,))[1]
    wanted = fg.grad(function)(x)
    assert wanted[0] == slope
    assert wanted[3] != 0.0
    np.testing.assert_allclose(fg.vmap(fg.grad(function))(np.stack([x, x])), [wanted, wanted])
    np.testing.assert_allclose(fg.compile(fg.vmap(fg.grad(function)))(np.stack([x, x])), [wanted, wanted])


ELEMENTS = {
    "index": lambda x: x[1],
    "iteration": lambda x: list(x)[1],
    "unstack": lambda x: np.unstack(x)[1],
    "take": lambda x: np.take(x, 1),
    "sum": np.sum,
    "vecdot": lambda x: np.vecdot(x, x),
    "linalg.vecdot": lambda x: np.linalg.vecdot(x, x),
    "norm": lambda x: np.linalg.norm(x, axis=0),
    "norm of a matrix": lambda x: np.linalg.matrix_norm(np.outer(x, x)),
    "nanstd": np.nanstd,
    "quantile": lambda x: np.quantile(x, 0.3),
    "nanpercentile": lambda x: np.nanpercentile(x, 30.0, axis=-1),
    "interp": lambda x: np.interp(x[0], np.arange(3.0), x),
    "squeeze of a number": lambda x: np.squeeze(x[1]),
}


OF_SCIPY = {
    "logsumexp": lambda x: fgrad.scipy.special.logsumexp(x, b=x),
    "lstsq": lambda x: fgrad.scipy.linalg.lstsq(np.stack([x, x**2], 1), np.ones(3))[1],
    "logpdf": lambda x: fgrad.scipy.stats.multivariate_normal.logpdf(x, np.zeros(3)),
    "euclidean": lambda x: fgrad.scipy.spatial.distance.euclidean(x, np.zeros(3)),
}


@pytest.mark.parametrize("name", OF_SCIPY)
def test_results_of_scipys_functions_are_numbers(name):
    def function(x):
        s = before = OF_SCIPY[name](x)
        s += 1.0
        return s - before

    assert fg.vjp(function, np.array([0.5, 2.0, 3.0]))[0].item() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_and_results_of_no_axes_are_numbers(name):
    """`s += y` binds a new one, as it does for those of NumPy."""

    def function(x):
        s = before = ELEMENTS[name](x)
        s += 1.0
        return s * before + np.sum(x)

    x = np.array([0.5, 2.0, 3.0])
    assert function(fg.constant(x)).item() == pytest.approx(function(x))
    assert fg.vjp(function, x)[0].item() == pytest.approx(function(x))
    check_grads(function, (x,), order=1)


def test_new_arrays_of_shape_empty_are_arrays():
    """They are no numbers: `s += y` writes into them, for all who refer to them."""

    def add(total, x):
        total += x

    def totals(np, x):
        for make in (
            lambda: np.zeros(()),
            lambda: np.ones(()),
            lambda: np.array(0.5),
            lambda: np.copy(x[0]),
            lambda: np.full((), x[1]),
            lambda: np.zeros_like(x[0]),
            lambda: np.full_like(x[0], x[1]),
        ):
            total = make()
            add(total, x[2])
            yield total

    def function(x):
        return fg.stack(list(totals(fg.numpy, x)))

    x = np.array([2.0, 3.0, 5.0])
    wanted = [5.0, 6.0, 5.5, 7.0, 8.0, 5.0, 8.0]
    assert np.stack(list(totals(np, x))).tolist() == wanted
    for found in (function(x), fg.vjp(function, x)[0], fg.vmap(function)(x[None])[0], fg.compile(function)(x)):
        assert found.tolist() == wanted
    check_grads(function, (x,), order=1)


@pytest.mark.parametrize("make", [fg.numpy.array, fg.numpy.asarray, fg.convert_to_tensor, fg.constant])
def test_an_array_of_one_traced_number_becomes_a_tensor(make):
    assert fg.grad(lambda x: make(np.array(x)) ** 2)(3.0) == 6.0
    assert fg.grad(lambda x: np.sum(make([np.array(x), 1.0]) ** 2))(3.0) == 6.0


def test_new_tensors_can_be_written_to():
    for x in (fg.constant(0.5, shape=(2, 2)), fg.convert_to_tensor([[1.0], [3.0]]), fg.numpy.full((2, 2), 1.0)):
        x[0] = 7.0
        x[1] += 1.0
        assert set(x[0].tolist()) == {7.0}


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
@pytest.mark.parametrize("part", [lambda x: x, np.transpose, lambda x: x[:, ::2], lambda x: x.T[::2]])
def test_copies_lie_in_memory_as_numpys_do(order, part):
    """So that what is raveled is a view of them, or is not, as in a plain run; the method has another default."""

    def f(x):
        copies = part(x).copy(order), np.copy(part(x), order), part(x).copy(), np.copy(part(x))
        for number, copy in enumerate(copies):
            np.ravel(copy)[1] += number + 1
            np.ravel(copy, "F")[1] += number + 10
            np.ravel(copy.T)[0] += number + 20
        return np.stack(copies)

    x = np.arange(6.0).reshape(2, 3)
    for found in (fg.vjp(f, x)[0], fg.jvp(f, (x,), (x,))[0], fg.vmap(f)(np.stack([x, x]))[1], f(fg.constant(x))):
        np.testing.assert_array_equal(found, f(x.copy()))


@pytest.mark.parametrize("write", [lambda v, x: v.__setitem__(..., x), lambda v, x: v.fill(x[0, 0])])
def test_what_is_written_to_an_array_that_all_examples_share_lies_in_memory_as_in_one(write):
    def f(x):
        v = np.zeros_like(x)
        write(v, x)
        r = v.ravel()
        r *= 0.5
        return v

    x = np.arange(1.0, 9).reshape(2, 2, 2)
    np.testing.assert_array_equal(fg.vmap(f)(x), [f(each) for each in x])


def doubled(s, view):
    view[...] = view * 2
    return s


OF_NUMBERS = {
    "x[None]": lambda s: doubled(s, s[None]),
    "the view itself": lambda s: doubled(s[None], s[None]),
    "in place": lambda s: np.add(s[None, None], s, out=s[None, None]).sum() + s,
    "reshape": lambda s: doubled(s, s.reshape(1)),
    "expand_dims": lambda s: doubled(s, np.expand_dims(s, 0)),
    "atleast_1d": lambda s: doubled(s, np.atleast_1d(s)),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_a_number_has_no_views(name):
    """What is made of it with axes is a new array, as NumPy makes one of its numbers."""
    x = np.arange(10.0)

    def function(x):
        return np.sum(OF_NUMBERS[name](np.sum(x)))

    wanted = function(x)
    assert function(fg.constant(x)).item() == wanted
    assert fg.vmap(function)(np.stack([x, x])).tolist() == [wanted, wanted]
    slope = wanted / 45
    assert fg.grad(function)(x).tolist() == [slope] * 10
    assert fg.jvp(function, (x,), (np.ones(10),))[1].item() == 10 * slope
    assert fg.trace(function)(x)(x).item() == wanted
    assert fg.trace(fg.grad(function))(x)(x).tolist() == [slope] * 10


def _set_shapes(xp_array):
    """Return what a program is that sets shapes of an array, of views, and of what views see."""

    def program(x):
        y = xp_array(x) * 2.0  # a root with views
        row, column = y[1:], y[::2]
        y.shape = (2, 3)
        y[0, 1] = 7.0
        row[0] += x[5]
        part = y[:, :2]  # a view
        flat = y.reshape(-1)
        flat.shape = 3, -1
        flat[2] *= x[:2]
        y.shape = 6
        y.shape = (1, 2, 3)
        return y[0].T @ y[0], row * column.sum(), part, flat

    return program


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")  # since NumPy 2.5
def test_shapes_are_set_as_on_arrays():
    x = np.arange(1.0, 7.0)
    plain = _set_shapes(np.asarray)(x)

    def total(x):
        return sum(np.sum(np.sin(part)) for part in _set_shapes(fgrad.numpy.asarray)(x))

    for part, expected in zip(
        fg.value_and_gradients_function(_set_shapes(fgrad.numpy.asarray))(x)[0], plain, strict=True
    ):
        assert part.shape == expected.shape
        np.testing.assert_array_equal(part, expected)
    check_grads(total, (x,), order=2)
    np.testing.assert_allclose(fg.compile(total)(x), total(x))
    batch = np.stack([x, x[::-1] + 1])
    np.testing.assert_allclose(fg.vmap(total)(batch), [total(each) for each in batch])
    np.testing.assert_allclose(fg.vmap(fg.grad(total))(batch), [fg.grad(total)(each) for each in batch])
    v = fg.constant(x)
    v.shape = (3, -1)
    assert v.shape == (3, 2)
    v.shape = [6]
    assert v.tolist() == x.tolist()


def test_shapes_that_cannot_be_set():
    x = fg.constant(np.arange(6.0).reshape(2, 3)).T
    with pytest.raises(AttributeError, match=r"x.reshape\(\(6,\)\)"):
        x.shape = 6
    with pytest.raises(ValueError, match="cannot reshape"):
        x.shape = (4, 2)
    assert x.shape == (3, 2)
    with pytest.raises(TypeError, match="of variable 'w' is fixed"):
        fg.Variable(np.ones(4), name="w").shape = (2, 2)


# Plain arrays of traced elements


CONVERSIONS = [np.asarray, np.ascontiguousarray, np.asanyarray, np.asarray_chkfinite, np.require]


@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("write", ["whole", "element", "view"])
def test_a_write_that_a_plain_array_would_not_see_is_refused(conversion, write):
    def f(x):
        y = x**2
        plain = conversion(y)
        if write == "whole":
            y *= 2
        elif write == "element":
            y[0] = 7.0
        else:
            y[1:][0] = 7.0
        return np.sum(plain)

    for run in (fg.grad(f), lambda x: fg.jvp(f, (x,), (x,))):
        with pytest.raises(errors.InPlaceError, match="would not show") as caught:
            run(np.array([1.0, 2.0, 3.0]))
        assert str(caught.value).count(__file__.rpartition("/")[2]) == 2  # where it was made, and where it was written


def test_a_plain_array_that_is_not_in_use_any_more_refuses_no_write():
    def f(x):
        y = np.asarray(x) * 1.0
        total = np.sum(np.asarray(y))
        copied = np.array(y)
        y *= 2
        return total + np.sum(y) + np.sum(copied)

    x = np.array([1.0, 2.0, 3.0])
    value, slope = fg.value_and_grad(f)(x)
    assert (value.item(), slope.tolist()) == (f(x), [4.0, 4.0, 4.0])


def test_the_plain_array_of_a_view_without_axes_is_read_only():
    def f(x):
        y = x**2
        element = np.asarray(y[..., 1])
        element *= 3  # in a plain run a write into `y`
        return np.sum(y)

    with pytest.raises(ValueError, match="read-only array of traced numbers"):
        fg.grad(f)(np.array([1.0, 2.0, 3.0]))

    def g(x):
        y = x**2
        element = np.asarray(y[..., 1])
        y[1] = 7.0
        return np.sum(y) + element

    with pytest.raises(errors.InPlaceError, match="would not show"):
        fg.grad(g)(np.array([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("same", [lambda y: y.conj(), lambda y: y.conjugate(), lambda y: fg.numpy.array(y, copy=False)])
def test_what_numpy_returns_itself_is_written_to(same):
    def f(x):
        y = x**2
        v = same(y)
        v *= 2
        return np.sum(y)

    assert fg.value_and_grad(f)(np.array([1.0, 2.0]))[1].tolist() == [4.0, 8.0]


# Assignments


def assigned(write):
    """Return a function that writes into a copy of its argument, and depends on all of the result."""

    def f(x):
        whole = np.stack([x, 2.0 * x])
        row = x * 1.0
        write(row, whole, x)
        return np.sum(row**2) + np.sum(whole**3)

    return f


LEADING_AXES = {
    "all of a row": lambda row, whole, x: row.__setitem__(..., x[None] ** 2),
    "two axes": lambda row, whole, x: row.__setitem__(slice(None), x[None, None] ** 2),
    "a slice": lambda row, whole, x: row.__setitem__(slice(2), x[None, 1:] ** 2),
    "a list": lambda row, whole, x: row.__setitem__([2, 0], x[None, 1:] ** 2),
    "a row of a matrix": lambda row, whole, x: whole.__setitem__(0, x[None] ** 2),
    "a column": lambda row, whole, x: whole.__setitem__((slice(None), 1), x[None, 1:] ** 2),
    "rows": lambda row, whole, x: whole.__setitem__(..., x[None, None] ** 2),
    "an axis that is there": lambda row, whole, x: whole.__setitem__(slice(1), x[None] ** 2),
    "copyto": lambda row, whole, x: np.copyto(row, x[None] ** 2),
    "copyto where": lambda row, whole, x: np.copyto(row, x[None] ** 2, where=np.array([True, False, True])),
}


@pytest.mark.parametrize("name", LEADING_AXES)
def test_a_value_may_have_more_axes_of_size_1_in_front(name):
    f = assigned(LEADING_AXES[name])
    x = np.array([0.5, -1.0, 2.0])
    check_grads(f, (x,))
    expected = np.asarray(fg.grad(f)(x))
    for gradient in (fg.jacfwd(f), fg.compile(fg.grad(f)), lambda x: fg.vmap(fg.grad(f))(np.stack([x, x]))[1]):
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-12)


@pytest.mark.parametrize("key", [..., slice(None), [0, 1, 2], np.array([True, True, True]), slice(1, None), 0])
def test_an_array_is_not_dealt_out_to_the_examples_of_a_batch(key):
    values = np.arange(6.0).reshape(2, 3)  # of which there are as many rows as examples
    values = values if key is ... else values[:, key]

    def f(x):
        y = x * 1.0
        y[key] = values
        return y

    for run in (f, fg.vmap(f), fg.vmap(fg.jacfwd(f))):
        with pytest.raises((ValueError, TypeError), match=r"could not|sequence|cannot|requires"):
            run(np.ones(3) if run is f else np.ones((2, 3)))


@pytest.mark.parametrize("batch", [np.ones((2, 3)), np.ones((3, 2)).T, np.broadcast_to(np.ones((3, 1)), (3, 2)).T])
def test_a_write_through_a_flat_view_in_a_batch(batch):
    def f(x):
        y = x * 1.0
        for flat in (y.ravel(), y.reshape(-1), y.reshape(3, 1)):
            flat *= 2.0
        return np.sum(y)

    np.testing.assert_array_equal(fg.vmap(f)(batch), [24.0, 24.0])
    np.testing.assert_array_equal(fg.vmap(fg.grad(f))(batch), np.full((2, 3), 8.0))
    np.testing.assert_array_equal(fg.vmap(fg.vmap(f, in_axes=1))(np.ones((2, 3, 4))), np.full((2, 4), 24.0))


def test_arguments_of_no_axes_are_arrays_or_numbers_as_they_were_given():
    def function(s):
        t = s
        t += 1.0  # writes into an array, and binds another number
        return s * 2.0

    for make, value in ((lambda: np.array(2.0), 6.0), (lambda: 2.0, 4.0), (lambda: np.float64(2.0), 4.0)):
        assert float(function(make())) == value
        for transformed in (
            fg.value_and_grad(function)(make())[0],
            fg.jvp(function, [make()], [1.0])[0],
            fg.vjp(function, make())[0],
            fg.trace(function)(make())(make()),
            fg.compile(function)(make()),
            fg.compile(fg.value_and_grad(function))(make())[0],
            fg.value_and_grad(lambda s: fg.value_and_grad(function)(s)[0])(make())[0],
        ):
            assert float(transformed) == value


@pytest.mark.parametrize(
    "copied",
    [
        lambda y: y[..., 1].copy(),
        lambda y: y[..., 1].copy(order="F"),
        lambda y: y[..., 1].astype(float),
        lambda y: np.copy(y[..., 1]),
        lambda y: np.copy(y[1]),
        lambda y: np.zeros_like(y[1]).copy(),
        lambda y: y[1].copy(),
        lambda y: y[1].astype(float),
    ],
)
def test_copies_of_arrays_without_axes_are_arrays_and_those_of_numbers_are_numbers(copied):
    def function(x):
        y = 1.0 * x
        s = t = copied(y)
        t *= y[0]
        return np.sum(y**2) + 3.0 * s + t

    x = np.array([0.4, 0.8, -0.6])
    assert float(fg.value_and_grad(function)(x)[0]) == pytest.approx(function(x))
    assert float(fg.compile(function)(x)) == pytest.approx(function(x))
