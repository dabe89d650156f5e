"""Objects with labels, units or expressions beside tensors: the value of the plain run, or an error with the cure.

Each program runs on plain numbers, and in seven ways with tensors. Where it has a value there, it is the plain run's,
and its gradient is that of finite differences. Where it has none, the error is a TypeError of fgrad's that names the
type and what to write. Which of the two is written next to each program.
"""

import operator
import warnings

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.foreign import FOREIGN, OVERRIDES

P = 2.1
X = np.array([1.1, 5.2, 2.3])


def value_of(result):
    """Return a number that depends on all of a result, whatever holds it."""
    for attribute in ("to_numpy", "to_value"):
        if hasattr(result, attribute) and not isinstance(result, (fg.Tensor, fg.Variable)):
            result = getattr(result, attribute)()
    result = getattr(result, "magnitude", result)
    return np.sum(np.asarray(result, float) * np.arange(1, np.size(result) + 1).reshape(np.shape(result)))


def under_tape(f, x):
    w = fg.Variable(x)
    with fg.GradientTape() as tape:
        y = f(w) + 0.0 * np.sum(w)
    return y, tape.gradient(y, w)


def under_jvp(f, x):
    directions = np.eye(np.size(x)).reshape(-1, *np.shape(x))
    pairs = [fg.jvp(f, (x,), (direction,)) for direction in directions]
    return pairs[0][0], np.reshape([tangent for _, tangent in pairs], np.shape(x))


GRADIENTS = {"grad": lambda f, x: fg.value_and_grad(f)(x), "jvp": under_jvp, "tape": under_tape}
VALUES = {
    "vmap": lambda f, x: fg.vmap(f)(np.asarray(x)[None])[0],
    "compile": lambda f, x: fg.compile(f)(x),
    "tensor": lambda f, x: f(fg.constant(x)),
    "variable": lambda f, x: f(fg.Variable(x)),
}


def differences(f, x, step=1e-6):
    directions = step * np.eye(np.size(x)).reshape(-1, *np.shape(x))
    return np.reshape([(float(f(x + d)) - float(f(x - d))) / (2 * step) for d in directions], np.shape(x))


def check(f, x, refused=(), compiles=True):
    """Compare a program in all modes with its plain run.

    Args:
        f: the program, from `x` to a number.
        x: a number or an array.
        refused: the modes in which an error says what to write instead.
        compiles: whether it is compiled, too, which takes as long as all the rest.
    """
    expected, slope = float(f(x)), differences(f, x)
    for mode, run in {**GRADIENTS, **VALUES}.items():
        if mode == "compile" and not compiles:
            continue
        if mode in refused:
            with pytest.raises(TypeError) as found:
                run(f, x)
            assert isinstance(found.value, errors.FgradError) or found.value.__notes__, mode
            continue
        result = run(f, x)
        value, gradient = result if mode in GRADIENTS else (result, slope)
        np.testing.assert_allclose(float(value), expected, rtol=1e-9, err_msg=mode)
        np.testing.assert_allclose(np.asarray(gradient), slope, rtol=1e-5, atol=1e-5, err_msg=mode)


TRACED = (*GRADIENTS, "vmap", "compile")
MANY = ("vmap", "compile")
"""The modes in which a tensor has no value that could be looked at."""

OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "//": operator.floordiv,
    "%": operator.mod,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "multiply": np.multiply,
    "add": np.add,
    "subtract": np.subtract,
    "divide": np.divide,
    "hypot": np.hypot,
    "arctan2": np.arctan2,
    "logaddexp": np.logaddexp,
    "maximum": np.maximum,
    "fnp.multiply": fnp.multiply,
}


def on_both_sides(test):
    test = pytest.mark.parametrize("side", ["left", "right"])(test)
    return pytest.mark.parametrize("name", OPERATORS)(test)


def operation(name, side, other):
    if side == "left":
        return lambda x: OPERATORS[name](x, other)
    return lambda x: OPERATORS[name](other, x)


# What has a say


def test_which_types_have_a_say_of_their_own():
    class Own:
        def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
            return NotImplemented

    class Memory(np.ndarray):
        pass

    assert OVERRIDES[Own]
    assert not any(OVERRIDES[kind] for kind in (Memory, np.ndarray, np.float64, float, list, fg.Tensor, fg.Variable))
    dask = pytest.importorskip("dask.array")
    assert FOREIGN[dask.Array]
    assert not OVERRIDES[dask.Array]
    assert not FOREIGN[Own]


class Shy:
    """Does not take tensors, nor anything else."""

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return NotImplemented

    def __array_function__(self, function, types, args, keywords):
        return NotImplemented


@pytest.mark.parametrize(
    "run",
    [
        lambda x, s: x * s,
        lambda x, s: s * x if hasattr(s, "__mul__") else np.multiply(s, x),
        lambda x, s: np.multiply(x, s),
        lambda x, s: np.add.outer(x, s),
        lambda x, s: np.multiply(x, s, dtype=float),
        lambda x, s: x < s,
        lambda x, s: np.where(x > 0, x, s),
        lambda x, s: np.stack([x, s]),
        lambda x, s: operator.iadd(x * 1.0, s),
    ],
)
def test_an_unknown_type_is_no_array(run):
    for transform in (fg.grad, fg.jacfwd, fg.vmap):
        with pytest.raises(errors.StructureError, match=r"this Shy of test_other(?s:.*)Use its numbers"):
            transform(lambda x: np.sum(run(x, Shy())))(X)
    with pytest.raises(TypeError):
        run(fg.constant(X), Shy())


def test_an_unknown_type_that_takes_tensors_has_its_turn():
    class Scaled:
        def __init__(self, x, power):
            self.x, self.power = x, power

        def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
            plain = [x.x if isinstance(x, Scaled) else x for x in inputs]
            return Scaled(getattr(ufunc, method)(*plain, **keywords), sum(getattr(x, "power", 0) for x in inputs))

        def __rmul__(self, other):
            return np.multiply(other, self)

    def f(x):
        found = np.add(np.multiply(Scaled(2.0, 1), x) if x.shape else 0.0, x * Scaled(3.0, 2))
        return np.sum(found.x) * found.power

    check(f, X)


# pandas


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


@pytest.fixture
def columns(pd):
    return (
        pd.Series([1.0, 2.0, 3.0], index=list("abc")),
        pd.Series([1.0, 2.0, 3.0], index=list("cba")),
        pd.Series([1.0, 2.0, 3.0], index=list("bcd")),
        pd.DataFrame({"u": [1.0, 2.0, 4.0], "v": [3.0, 0.5, 2.0]}, index=list("abc")),
    )


@pytest.mark.filterwarnings("ignore:every gradient of")
@on_both_sides
def test_operators_with_a_column(name, side, columns):
    s, t, *_ = columns
    f = operation(name, side, s)
    check(lambda p: np.sum(f(p) * 1.0 + t * p), P, compiles=side == "left")
    check(lambda x: np.sum(f(x) * 1.0 * t), X, compiles=side == "right")
    series = f(fg.constant(X))
    assert type(series) is type(s)
    np.testing.assert_array_equal(series, f(X))


@pytest.mark.filterwarnings("ignore:every gradient of")
@on_both_sides
def test_operators_with_a_frame(name, side, columns):
    frame = columns[3]
    f = operation(name, side, frame)
    check(lambda p: np.sum((f(p) * 1.0 - frame) ** 2), P, compiles=side == "left")
    check(lambda x: np.sum(f(x) * 1.0 - frame), X[:2], compiles=side == "right")
    check(lambda x: np.sum(f(x) * 1.0 - frame), np.outer(X, X[:2]), compiles=False)


def written_at(x, key):
    new = x.copy()
    new[key] = 7.0
    return new


KEYS_OF_COLUMNS = {
    "mask": lambda x, s: x[s > 1.5],
    "mask that may be missing": lambda x, s: x[(s > 1.5).astype("boolean")],
    "mask along an axis": lambda x, s: np.stack([x, x])[:, s > 1.5],
    "integers": lambda x, s: x[s.astype(int) - 1],
    "labels": lambda x, s: x[s.reset_index().index[1:]],
    "written": lambda x, s: written_at(x, s > 1.5),
    "range": lambda x, s: x[range(2)],
    "empty": lambda x, s: x[s[:0]],
}


@pytest.mark.parametrize("name", KEYS_OF_COLUMNS)
def test_columns_as_keys(name, columns):
    s = columns[0]
    wanted = KEYS_OF_COLUMNS[name](X, s)

    def function(x):
        return KEYS_OF_COLUMNS[name](x, s)

    batch = fg.vmap(function)(np.stack([X, X]))
    for found in (fg.vjp(function, X)[0], fg.compile(function)(X), fg.trace(function)(X)(X), batch[0]):
        np.testing.assert_array_equal(found, wanted, strict=True)
    check(lambda x: np.sum(function(x) ** 2), X)


PROGRAMS_OF_COLUMNS = {
    "two columns": (lambda p, s, t, u, d: np.sum((p * s - t) ** 2), ()),
    "with missing ones": (lambda p, s, t, u, d: np.sum((p * s - u) ** 2), ()),
    "mean": (lambda p, s, t, u, d: np.mean((s / p - u) ** 2), ()),
    "mean, none skipped": (lambda p, s, t, u, d: (p * s - t).mean(skipna=False), ()),
    "spread": (lambda p, s, t, u, d: (p * s).std() + np.std(p * s) + (p * s).var(ddof=0), ()),
    "extremes": (lambda p, s, t, u, d: (p * s - u).max() + (p * s).min() * (p * s).prod(), ()),
    "median": (lambda p, s, t, u, d: (p * s).median(), ()),
    "functions": (lambda p, s, t, u, d: np.sum(np.exp(-(p * s)) + abs(p * s - 4) + (-(p * s))), ()),
    "by label": (lambda p, s, t, u, d: (p * s)["b"] + (p * s).iloc[0] * (p * s).loc["a":"b"].sum(), ()),
    "by mask": (lambda p, s, t, u, d: (p * s)[p * s > 3].sum(), MANY),
    "truth as numbers": (lambda p, s, t, u, d: p * ((p * s) > 3).sum(), ()),
    "dropna": (lambda p, s, t, u, d: (p * s - u).dropna().sum(), MANY),
    "fillna": (lambda p, s, t, u, d: (p * s - u).fillna(7.0).sum(), MANY),
    "filled operand": (lambda p, s, t, u, d: (p * s).add(u, fill_value=0.5).sum(), MANY),
    "where": (lambda p, s, t, u, d: (p * s).where(s > 1, 0.5).sum(), ()),
    "assignment": (lambda p, s, t, u, d: assigned(p * s).sum(), ()),
    "shift and diff": (lambda p, s, t, u, d: ((p * s).shift(1) * (p * s).diff()).sum(), ()),
    "cumsum": (lambda p, s, t, u, d: ((p * s - u).cumsum() * s).sum(), ()),
    "groupby": (lambda p, s, t, u, d: ((p * s).groupby([0, 0, 1]).sum() ** 2).sum(), ()),
    "reindex": (lambda p, s, t, u, d: (p * s).reindex(list("zab")).sum(), ()),
    "mean of a reindex": (lambda p, s, t, u, d: (p * s).reindex(list("zab")).mean(), ()),
    "sorted by index": (lambda p, s, t, u, d: (p * t).sort_index().iloc[0], ()),
    "sorted by value": (lambda p, s, t, u, d: (p * t).sort_values().iloc[0], MANY),
    "product": (lambda p, s, t, u, d: (p * s).dot(t) + np.dot(p * s, t), ()),
    "numbers": (lambda p, s, t, u, d: np.sum((p * s).to_numpy() ** 2) + np.sum((p * s).values), ()),
    "methods of the array": (lambda p, s, t, u, d: ((p * s - t).values ** 2).sum() + (p * s).values.mean(), ()),
    "more methods of the array": (lambda p, s, t, u, d: (p * s).values.clip(3.0, 7.0).cumsum().dot(t.values), ()),
    "iterated": (lambda p, s, t, u, d: sum(v * v for v in p * s), ()),
    "stacked": (lambda p, s, t, u, d: np.sum(np.stack([p * s, t]) ** 2), ()),
    "method": (lambda p, s, t, u, d: s.mul(p).sub(t).pow(2).sum(), ()),
    "frame": (lambda p, s, t, u, d: ((p * d - d) ** 2).sum().sum(), ()),
    "means of a frame": (lambda p, s, t, u, d: ((p * d).mean() * (p * d).mean(axis=0)).sum(), ()),
    "rows of a frame": (lambda p, s, t, u, d: ((p * d).sum(axis=1) ** 2).sum(), ()),
    "column of a frame": (lambda p, s, t, u, d: (p * d)["u"].sum() * (p * d).loc["a", "v"], ()),
    "new column": (lambda p, s, t, u, d: d.assign(w=p * t).sum(axis=1).max(), ()),
    "transposed": (lambda p, s, t, u, d: ((p * d).T.sum() ** 2).sum(), ()),
    "frame and column": (lambda p, s, t, u, d: (p * d).sub(p * s * p, axis=0).sum().sum(), ()),
}


def assigned(column):
    column = column.copy()
    column["a"] = 0.25
    return column


@pytest.mark.parametrize("name", PROGRAMS_OF_COLUMNS)
def test_programs_of_columns(name, columns):
    f, refused = PROGRAMS_OF_COLUMNS[name]
    check(lambda p: f(p, *columns), P, refused)


PROGRAMS_OF_ARRAYS = {
    "product": (lambda x, s, t, d: x @ s, ()),
    "product with a matrix": (lambda x, s, t, d: np.sum((np.outer(x, x) @ s) ** 2), ()),
    "product with a frame": (lambda x, s, t, d: ((x @ d) ** 2).sum(), ()),
    "matrix and frame": (lambda x, s, t, d: np.sum(np.asarray(np.outer(x, x) @ d)), TRACED),
    "column first": (lambda x, s, t, d: s @ x, ()),
    "dot": (lambda x, s, t, d: np.dot(x, s) + np.vdot(x, t) + x.dot(s), ()),
    "where": (lambda x, s, t, d: np.sum(np.where(s > 1, x, t)), ()),
    "stack": (lambda x, s, t, d: np.sum(np.stack([x, s]) ** 2) + np.sum(np.concatenate([t, x]) ** 2), ()),
    "average": (lambda x, s, t, d: np.average(x, weights=s) + fnp.average(x * x, weights=s), ()),
    "interpolation": (lambda x, s, t, d: np.sum(np.interp(x, s, t**2)), ()),
    "convolution": (lambda x, s, t, d: np.sum(np.convolve(x, s) ** 2), ()),
    "clip": (lambda x, s, t, d: (np.clip(x, s, 4.0) - t).sum() + (x.clip(s, 4.0) * t).sum(), ()),
    "in place": (lambda x, s, t, d: np.sum(operator.iadd(x * 1.0, s)), (*TRACED, "tensor", "variable")),
    "assignment": (lambda x, s, t, d: np.sum(x * written(x * 1.0, s)), ()),
    "mask": (lambda x, s, t, d: np.sum(x[(s > 1).to_numpy()]), ()),
    "aligned later": (lambda x, s, t, d: np.sum((np.maximum(x, s) - t) ** 2), ()),
    "two columns at once": (lambda x, s, t, d: np.clip(x, s, 2 * t).sum(), ()),
    "divmod": (lambda x, s, t, d: (divmod(x, s)[1] * t).sum(), ()),
    "a step of descent": (lambda x, s, t, d: np.sum((s - 0.1 * x - t) ** 2), ()),
}


def written(x, values):
    x[1:] = values[1:]
    return x


@pytest.mark.parametrize("name", PROGRAMS_OF_ARRAYS)
def test_programs_of_arrays_and_columns(name, columns):
    f, refused = PROGRAMS_OF_ARRAYS[name]
    s, t, _, d = columns
    check(lambda x: f(x, s, t, d), X, refused)


@pytest.mark.parametrize(
    "make",
    [
        lambda pd: pd.Index([1.0, 2.0, 3.0]),
        lambda pd: pd.Series([1.0, 2.0, 3.0]).array,
        lambda pd: pd.Series([1.0, 2.0, 3.0], dtype="Float64"),
        lambda pd: pd.Series(["a", "b", "c"]),
        lambda pd: pd.Series(pd.Categorical([1, 2, 3])),
    ],
)
def test_what_cannot_hold_tensors(make, pd):
    x = make(pd)
    for run in (lambda p: p * x, lambda p: p + x):
        for transform in (fg.grad, fg.vmap, fg.trace):
            with pytest.raises(errors.StructureError, match=r"of pandas(?s:.*)x.to_numpy\(\)"):
                transform(lambda p: np.sum(run(p)))(X)


def test_shapes_that_do_not_fit(columns):
    s, _, _, d = columns
    with pytest.raises(errors.ShapeError, match="3 elements cannot hold the shape"):
        fg.grad(lambda x: np.sum(x * s))(np.ones((3, 3)))
    with pytest.raises(ValueError, match="shape"):
        fg.grad(lambda x: np.sum(x * s))(np.ones(2))
    with pytest.raises(errors.ShapeError, match="a frame of shape"):
        fg.grad(lambda x: np.sum(x * d))(np.ones(3))


def test_pandas_divides_integers_in_a_way_of_its_own(pd):
    s = pd.Series([1, 0, 2])
    check(lambda p: np.sum((p // (s + 1)) * 1.0 + p), P)
    with pytest.raises(errors.StructureError, match="floor_divide of integers"):
        fg.vmap(lambda n: np.sum(n // s))(np.array([5, 7]))
    assert list(fg.constant(5) // s) == list(5 // s)


def test_what_a_column_of_a_tensor_does_not_have(columns):
    s, *_ = columns
    with pytest.raises(errors.UnsupportedError, match=r"has no skew(?s:.*)It has sum, prod(?s:.*)x.to_numpy\(\)"):
        fg.grad(lambda p: (p * s).skew())(P)
    with pytest.raises(errors.UnsupportedError, match="has no cummax"):
        fg.grad(lambda p: (p * s).cummax().sum())(P)
    with pytest.raises(errors.ArrayConversionError, match="derivative would be lost"):
        fg.grad(lambda p: (p * s).corr(s))(P)
    with pytest.raises(AttributeError, match="'TensorArray' object has no attribute 'nonsense'"):
        fg.grad(lambda p: (p * s).values.nonsense)(P)


OF_NUMBERS = {
    "interp": lambda s: np.sum(np.interp([1.5, 2.5], [1.0, 2.0, 4.0], s)),
    "points of interp": lambda s: np.sum(np.interp(s, [1.0, 20.0], [1.0, 4.0])),
    "polyfit": lambda s: np.polyfit([1.0, 2.0, 4.0], s, 1)[0],
    "cov": lambda s: np.cov(s, [1.0, 2.0, 4.0])[0, 1],
    "corrcoef": lambda s: np.corrcoef(s, [1.0, 3.0, 4.0])[0, 1],
    "median": lambda s: np.median(s),
    "quantile": lambda s: np.quantile(s, 0.3),
    "gradient": lambda s: np.gradient(s)[0],
    "nanmean": lambda s: np.nanmean(s),
    "bincount": lambda s: np.bincount([0, 1, 1], weights=s)[1],
    "fft": lambda s: np.abs(np.fft.fft(s))[1],
    "solve": lambda s: np.linalg.solve(np.eye(3) + 1, s)[0],
    "lstsq": lambda s: np.linalg.lstsq(np.eye(3) + 1, s)[0][0],
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_functions_of_plain_numbers_say_how_to_get_those_of_a_column(name, columns):
    s, *_ = columns
    f = OF_NUMBERS[name]
    with pytest.raises(errors.ArrayConversionError, match=r"\n.*without labels, s\.to_numpy\(\) of a Series.*\n\(help"):
        fg.grad(lambda p: f(p * s))(P)
    check(lambda p: f((p * s).to_numpy()), P)


def test_functions_of_plain_numbers_say_how_to_get_those_of_a_labelled_array(labelled):
    a = labelled[0]
    with pytest.raises(errors.ObjectArrayError, match=r"without labels.* a\.data of a DataArray"):
        fg.grad(lambda p: np.abs(np.fft.fft(p * a)).sum())(P)
    assert np.isfinite(fg.grad(lambda p: np.abs(np.fft.fft((p * a).data)).sum())(P).item())


def test_numbers_without_labels(columns):
    s, *_, d = columns
    made = fg.grad(lambda p: np.linalg.norm(fnp.array(p * d)) + np.linalg.norm(fnp.asarray(p * s)))(P)
    np.testing.assert_allclose(made, np.linalg.norm(d.to_numpy()) + np.linalg.norm(s.to_numpy()))
    seen = []

    def f(p):
        column = p * s
        seen.append((column.to_numpy(copy=True), column.to_numpy(np.float32).dtype, column.to_numpy(object).dtype))
        seen[0][0][0] = 100.0
        return column.sum()

    np.testing.assert_allclose(fg.grad(f)(P), s.sum())
    assert [str(dtype) for dtype in seen[0][1:]] == ["float32", "object"]
    large = pd_of_many(s)
    np.testing.assert_allclose(fg.grad(lambda p: np.median((p * large).to_numpy()))(P), 10_000.0)


def pd_of_many(column):
    """Return a column of more elements than become objects."""
    return type(column)(np.arange(20_001.0))


def test_columns_of_tensors_show_themselves_and_are_copied(columns):
    s, *_ = columns
    seen = []

    def f(p):
        column = p * s
        seen.append((repr(column), str(column.dtype), column.name, list(column.index)))
        copy = column.copy()
        copy["a"] = 100.0
        return column.sum()

    assert fg.grad(f)(P).item() == 6.0
    assert seen[0][1:] == ("tensor[float64]", None, ["a", "b", "c"])
    assert "4.2" in seen[0][0]


def test_second_derivatives_and_two_arguments(columns):
    s, t, *_ = columns
    assert fg.hessian(lambda p: np.sum((p * p * s - t) ** 2))(P).item() == pytest.approx(
        sum(12 * P**2 * a * a - 4 * a * b for a, b in zip([1, 2, 3], [3, 2, 1], strict=True))
    )
    first, second = fg.grad(lambda a, b: np.sum((a * s + b * t) ** 2), argnums=(0, 1))(2.0, 3.0)
    assert (first.item(), second.item()) == (2 * (2 * 14 + 3 * 10), 2 * (2 * 10 + 3 * 14))


@pytest.mark.parametrize(
    "call",
    [
        lambda column: fg.grad(lambda z: np.sum(z**2))(column),
        lambda column: fg.checkpoint(lambda z: np.sum(z**2))(column),
        lambda column: fg.custom_gradient(lambda z: (np.sum(z**2), lambda g: g * 2 * z))(column),
        lambda column: fg.stop_gradient(column),
    ],
)
def test_columns_of_tensors_are_no_arguments(call, columns):
    s, *_ = columns
    with pytest.raises(errors.StructureError, match=r"this Series of pandas holds(?s:.*)x.to_numpy\(\)"):
        fg.grad(lambda p: np.sum(call(p * s)))(P)
    fg.grad(lambda p: np.sum(call((p * s).to_numpy())))(P)


def test_what_closes_over_a_column_of_a_tensor(columns):
    s, *_ = columns
    assert fg.grad(lambda p: (lambda z: fg.checkpoint(lambda w: np.sum(z * w))(p))(p * s))(P).item() == 12 * P
    assert fg.grad(lambda p: (lambda z: np.sum(fg.vmap(lambda w: np.sum(z * w))(X)))(p * s))(P).item() == pytest.approx(
        6 * X.sum()
    )


def test_columns_are_not_returned(columns):
    s, *_ = columns
    for transform in (fg.jacobian, fg.jacfwd, fg.compile, fg.trace):
        with pytest.raises(errors.StructureError, match=r"Pass or return its numbers, x.to_numpy\(\)"):
            transform(lambda p: p * s)(P)
    with pytest.raises(errors.StructureError, match="Pass or return its numbers"):
        fg.vmap(lambda p: p * s)(X)
    np.testing.assert_allclose(fg.jacobian(lambda p: (p * s).to_numpy())(P), [1.0, 2.0, 3.0])
    (value, aux), gradient = fg.value_and_grad(lambda p: (np.sum(p * s), p * s), has_aux=True)(P)
    assert (value.item(), gradient.item()) == (6 * P, 6.0)
    assert float(aux.sum()) == 6 * P


# Labels are not lost where arguments become tensors


def test_labelled_arguments(columns):
    s, t, *_ = columns
    for run in (
        lambda: fg.grad(lambda s: np.sum((s - t) ** 2))(s),
        lambda: fg.jvp(np.std, (s,), (s,)),
        lambda: fg.vjp(lambda s: s["c"], s),
        lambda: fg.vmap(lambda s: s * 2.0)(s),
        lambda: fg.compile(lambda p, s: np.sum(p * s))(P, s),
    ):
        with pytest.raises(errors.StructureError, match=r"its labels or its unit would be lost(?s:.*)x.to_numpy\(\)"):
            run()
    # What is not differentiated, batched or recorded is left as it is.
    assert fg.grad(lambda p, s: np.sum((p * s - t) ** 2))(P, s).item() == pytest.approx(
        fg.grad(lambda p: np.sum((p * s - t) ** 2))(P).item()
    )
    assert fg.vmap(lambda p, s: p * s["b"], in_axes=(0, None))(X, s).tolist() == (2 * X).tolist()
    assert fg.compile(lambda p, s: p * s["b"], static="s")(P, s).item() == 2 * P


# xarray


@pytest.fixture
def xr():
    return pytest.importorskip("xarray")


@pytest.fixture
def labelled(xr):
    return (
        xr.DataArray([1.0, 2.0, 3.0], dims="i", coords={"i": [0, 1, 2]}),
        xr.DataArray([1.0, 2.0], dims="j"),
        xr.DataArray([5.0, np.nan, 1.0], dims="i", coords={"i": [2, 1, 0]}),
    )


@pytest.mark.filterwarnings("ignore:every gradient of")
@on_both_sides
def test_operators_with_labelled_arrays(name, side, labelled):
    a, b, _ = labelled
    f = operation(name, side, a)
    check(lambda p: np.sum((f(p) * 1.0 * b).data) + 0.0, P, compiles=side == "left")
    check(lambda x: np.sum((f(x) * 1.0 - b).data), X, compiles=side == "right")


PROGRAMS_OF_LABELLED_ARRAYS = {
    "dimensions": lambda p, a, b, c: (p * a * b).sum(),
    "aligned": lambda p, a, b, c: ((p * a - c) ** 2).sum(),
    "broadcast": lambda p, a, b, c: ((a * p + b) ** 2).mean(),
    "functions": lambda p, a, b, c: np.sum(np.exp(p * a)) + np.multiply(p, a).max(),
    "along one": lambda p, a, b, c: ((p * a + b).sum("i") ** 2).sum(),
    "selected": lambda p, a, b, c: (p * a).sel(i=1) * (p * a).isel(i=[0, 1]).sum(),
    "missing": lambda p, a, b, c: (p * c).mean() + (p * c).fillna(0.5).sum(),
    "accumulated": lambda p, a, b, c: (p * a).cumsum("i").sum() + (p * a).diff("i").sum(),
    "product": lambda p, a, b, c: (p * a).dot(a),
    "truth": lambda p, a, b, c: (p * (p * a > 3)).sum(),
}


@pytest.mark.parametrize("name", PROGRAMS_OF_LABELLED_ARRAYS)
def test_programs_of_labelled_arrays(name, labelled):
    f = PROGRAMS_OF_LABELLED_ARRAYS[name]
    check(lambda p: f(p, *labelled).data + 0.0, P)
    assert fg.grad(lambda p: f(p, *labelled))(P).item() == pytest.approx(differences(lambda p: f(p, *labelled), P))


def test_data_sets(xr, labelled):
    check(lambda p: (p * xr.Dataset({"v": labelled[0]}) + p)["v"].sum().data + 0.0, P)


def test_labelled_arrays_at_the_border(labelled):
    a, b, _ = labelled
    for run in (
        lambda: fg.grad(lambda a: (a * b).sum())(a),
        lambda: fg.vmap(lambda a: a * 2.0)(a),
        lambda: fg.compile(lambda p, a: (p * a).sum())(P, a),
    ):
        with pytest.raises(errors.StructureError, match=r"this DataArray of xarray cannot(?s:.*)x.to_numpy\(\)"):
            run()
    for transform in (fg.jacobian, fg.jacfwd, fg.compile):
        with pytest.raises(errors.StructureError, match="this DataArray of xarray holds"):
            transform(lambda p: p * a)(P)
    np.testing.assert_allclose(fg.grad(lambda p: np.sum((p * a).values))(P), np.sum(a.values))
    assert fg.grad(lambda p: np.sum(np.where(a > 1, p, a)))(P).item() == 2.0


# Units


@pytest.fixture
def units():
    pint = pytest.importorskip("pint")
    return pint.UnitRegistry()


PROGRAMS_OF_PINT = {
    "sum of units": lambda p, u, q: ((p * u.km + p * u.m) / u.m).to("").magnitude,
    "quantities": lambda p, u, q: ((p * (1 * u.km) + p * (1 * u.m)) / (1 * u.m)).m_as(""),
    "array": lambda p, u, q: (np.sum(p * q) / u.m).m_as(""),
    "on the right": lambda p, u, q: (q * p)[1].m_as("cm") + (u.km * p).m_as("m"),
    "power": lambda p, u, q: ((p * u.km) ** 2).m_as("m**2"),
    "divided": lambda p, u, q: (p / (2 * u.s)).m_as("1/ms") + ((2 * u.s) / p).m_as("ms"),
    "ufunc": lambda p, u, q: np.sum(np.multiply(p, q).m_as("cm")) + np.hypot(p * u.m, 1 * u.km).m_as("m"),
    "angle": lambda p, u, q: np.sin(p * u.degree).m_as(""),
    "no unit": lambda p, u, q: np.add(u.Quantity(1.0, ""), p).m_as("") + np.exp(p * u.Quantity(1.0, "")).m_as(""),
    "comparison": lambda p, u, q: p * ((p * u.m) < (2 * u.km)) + p * (p < u.Quantity(2.5, "")),
    "where": lambda p, u, q: np.sum(np.where(q > 1 * u.m, p * q, q)).m_as("m"),
    "joined": lambda p, u, q: np.sum(np.concatenate([p * q, q]).m_as("cm")),
    "offset": lambda p, u, q: u.Quantity(p, "degC").to("K").magnitude,
}


@pytest.mark.parametrize("name", PROGRAMS_OF_PINT)
def test_programs_of_pint(name, units):
    q = units.Quantity(np.array([1.0, 2.0, 3.0]), "m")
    check(lambda p: PROGRAMS_OF_PINT[name](p, units, q), P)


def test_quantities_of_pint_keep_their_units(units):
    x = fg.constant(X)
    for product in (
        x * units.km,
        units.km * x,
        x * units.Quantity(1.0, "km"),
        np.multiply(x, units.Quantity(1.0, "km")),
    ):
        assert str(product.units) == "kilometer"
        np.testing.assert_array_equal(product.magnitude, X)
    with pytest.raises(Exception, match="Cannot convert from"):
        fg.grad(lambda p: p + units.Quantity(1.0, "m"))(P)
    for transform in (fg.grad, fg.jacfwd, fg.compile):
        with pytest.raises(errors.StructureError, match=r"this Quantity of pint holds(?s:.*)x.to\(unit\).magnitude"):
            transform(lambda p: p * units.km)(P)
    for run in (lambda q: fg.grad(lambda q: q.m_as("km"))(q), lambda q: fg.jvp(lambda q: q.m_as("km"), (q,), (1.0,))):
        with pytest.raises(errors.StructureError, match="this Quantity of pint cannot"):
            run(units.Quantity(2.0, "m"))


PROGRAMS_OF_ASTROPY = {
    "quantities": (lambda p, u: np.sum((p * (1 * u.km) + p * (1 * u.m)) / (1 * u.m)).to_value(""), TRACED),
    "unit": (lambda p, u: (p * u.km).to_value("m"), TRACED),
    "on the right": (lambda p, u: ((1 * u.km) * p).to_value("m"), TRACED),
    "ufunc": (lambda p, u: np.add(p, 1 * u.dimensionless_unscaled).value, TRACED),
    "divided": (lambda p, u: (p / (2 * u.s)).value, TRACED),
    "comparison": (lambda p, u: p * (p < 3 * u.dimensionless_unscaled), TRACED),
    "numbers": (lambda p, u: p * (2 * u.km).to_value(u.m) + p * (1000 * u.m / u.km).to_value(""), ()),
}


@pytest.mark.parametrize("name", PROGRAMS_OF_ASTROPY)
def test_programs_of_astropy(name):
    u = pytest.importorskip("astropy.units")
    f, refused = PROGRAMS_OF_ASTROPY[name]
    check(lambda p: f(p, u), P, refused)


def test_quantities_of_astropy():
    u = pytest.importorskip("astropy.units")
    x = fg.constant(X)
    for product in (x * (1 * u.km), (1 * u.km) * x, x * u.km, np.multiply(x, 1 * u.km), fg.Variable(X) * (1 * u.km)):
        assert product.unit == u.km
        np.testing.assert_array_equal(product.value, X)
    for run in (
        lambda p: p * (1 * u.km),
        lambda p: (1 * u.km) * p,
        lambda p: p * u.km,
        lambda p: np.add(p, 1 * u.km),
        lambda p: np.stack([p, 1 * u.km]),
    ):
        with pytest.raises(errors.StructureError, match=r"of astropy(?s:.*)x.to_value\(unit\)"):
            fg.grad(lambda p: np.sum(run(p)))(P)
    with pytest.raises(errors.StructureError, match=r"this Quantity of astropy cannot(?s:.*)x.to_value\(unit\)"):
        fg.grad(lambda q: np.sum(q.to_value(u.km)))(X * u.m)
    with pytest.raises(errors.StructureError, match="this Quantity of astropy cannot"):
        fg.vmap(lambda q: q.to_value(u.km))(X * u.m)
    assert fg.stop_gradient(X * u.m).unit == u.m


PROGRAMS_OF_UNYT = {
    "quantities": lambda p, unyt: ((p * (1 * unyt.km) + p * (1 * unyt.m)) / (1 * unyt.m)).to_value("dimensionless"),
    "on the right": lambda p, unyt: ((1 * unyt.km) * p).to_value("m"),
    "unit": lambda p, unyt: (p * unyt.km).to_value("m") + (unyt.km * p).to_value("m"),
    "comparison": lambda p, unyt: p * (p < 3 * unyt.dimensionless),
}


@pytest.mark.parametrize("name", PROGRAMS_OF_UNYT)
def test_programs_of_unyt(name):
    unyt = pytest.importorskip("unyt")
    check(lambda p: PROGRAMS_OF_UNYT[name](p, unyt), P, TRACED)


# Expressions


def test_expressions_of_cvxpy():
    with warnings.catch_warnings(action="ignore"):
        cp = pytest.importorskip("cvxpy")
    x, gradient = cp.Variable(3), fg.grad(lambda x: np.sum(x**2))(X)
    for expression in (gradient @ x, x @ gradient, cp.sum(gradient + x) - 3):
        assert isinstance(expression, cp.Expression)
        x.value = np.ones(3)
        np.testing.assert_allclose(float(np.sum(expression.value)), np.sum(2 * X))
    for run in (lambda w: w @ x, lambda w: w - x, lambda w: x + w):
        with pytest.raises(errors.ArrayConversionError, match="derivative would be lost"):
            fg.grad(lambda w: run(w).value)(X)
