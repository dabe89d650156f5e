"""fgrad among other libraries: DLPack, the array API, pandas, dataclasses, copies and pickles, scikit-learn."""

import copy
import dataclasses
import fractions
import functools
import importlib.util
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import naming, plain
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator
from test_optimizer_traces import EVERY, make

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.coerce import OPERANDS
from fgrad.optimizers import Adam, GradientDescent, Momentum, run, schedules
from fgrad.scipy.sparse import csr_array
from fgrad.testing import check_grads

V = np.array([1.0, 2.0, 4.0])
M = np.array([[1.0, 2.0], [3.0, 5.0], [-1.0, 0.5]])


# DLPack


@pytest.mark.parametrize("value", [3.0, V, np.float32(M), np.arange(3), V + 1j, V > 1, np.zeros((0, 2)), M.T, M[::2]])
def test_dlpack_hands_over_the_value(value):
    t = fg.constant(value)
    for taken in (np.from_dlpack(t), np.from_dlpack(t, copy=True), np.from_dlpack(fg.Variable(value))):
        assert type(taken) is np.ndarray
        assert (taken.dtype, taken.shape) == (t.dtype, t.shape)
        np.testing.assert_array_equal(taken, value)


def test_dlpack_shares_memory_that_nobody_may_write_to():
    t = fg.constant(V)
    shared, copied = np.from_dlpack(t), np.from_dlpack(t, copy=True)
    assert np.shares_memory(shared, t.value)
    assert not shared.flags.writeable
    assert not np.shares_memory(copied, t.value)
    copied[0] = 9.0
    assert t.tolist() == V.tolist()


class OldConsumer:
    """Takes memory as libraries did that know nothing of read-only arrays; hands it on to NumPy."""

    def __init__(self, tensor):
        self.capsule, self.device = tensor.__dlpack__(), tensor.__dlpack_device__()

    def __dlpack__(self, **keywords):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


def test_consumers_that_know_no_read_only_memory_get_a_copy():
    t = fg.constant(V)
    assert "dltensor_versioned" not in repr(t.__dlpack__())
    assert "dltensor_versioned" in repr(t.__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" not in repr(t.__dlpack__(max_version=(0, 8)))
    taken = np.from_dlpack(OldConsumer(t))
    assert not np.shares_memory(taken, t.value)
    np.testing.assert_array_equal(taken, V)
    with pytest.raises(BufferError, match="readonly"):
        t.__dlpack__(copy=False)


def test_where_tensors_are():
    t = fg.constant(V)
    assert t.__dlpack_device__() == V.__dlpack_device__()
    assert t.device == "cpu"
    moved = t.to_device("cpu")
    assert (type(moved), plain(moved)) == (fg.Tensor, V.tolist())
    with pytest.raises(ValueError, match="Unsupported device"):
        t.to_device("gpu")
    assert plain(fg.grad(lambda x: np.sum(x.to_device(x.device) ** 2))(V)) == (2 * V).tolist()
    assert fg.vmap(lambda x: x * (x.device == "cpu"))(V).tolist() == V.tolist()


@pytest.mark.parametrize(
    "transform",
    [fg.grad, lambda f: lambda x: fg.jvp(f, (x,), (x,)), fg.vmap, fg.trace, fg.hessian],
    ids=["grad", "jvp", "vmap", "trace", "hessian"],
)
@pytest.mark.parametrize("export", [np.from_dlpack, lambda x: pickle.dumps(x) and x], ids=["dlpack", "pickle"])
def test_traced_tensors_are_not_handed_over(transform, export):
    with pytest.raises(errors.ExportError, match=r"out of its trace.*\n  at test_plugging_in.py.*\nUse x.numpy\(\)"):
        transform(lambda x: np.sum(export(x)))(V)


def test_variables_under_a_tape_are_traced():
    w = fg.Variable(V)
    with fg.GradientTape(), pytest.raises(BufferError, match="DLPack would take a traced tensor out"):
        np.from_dlpack(w)
    assert np.from_dlpack(w).tolist() == V.tolist()


def test_what_dlpack_cannot_hold():
    with pytest.raises(BufferError, match="DLPack only supports"):
        np.from_dlpack(fg.constant("text"))


# The array API


STANDARD = (
    "abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and "
    "bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor bool broadcast_arrays broadcast_to "
    "can_cast ceil clip complex128 complex64 concat conj copysign cos cosh diff divide e empty empty_like equal exp "
    "expand_dims expm1 eye fft finfo flip float32 float64 floor floor_divide from_dlpack full full_like greater "
    "greater_equal hypot iinfo imag inf int16 int32 int64 int8 isdtype isfinite isinf isnan less less_equal linalg "
    "linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul matrix_transpose "
    "max maximum mean meshgrid min minimum moveaxis multiply nan negative newaxis nextafter nonzero not_equal ones "
    "ones_like permute_dims pi positive pow prod real reciprocal remainder repeat reshape result_type roll round "
    "searchsorted sign signbit sin sinh sort sqrt square squeeze stack std subtract sum take take_along_axis tan tanh "
    "tensordot tile tril triu trunc uint16 uint32 uint64 uint8 unique_all unique_counts unique_inverse unique_values "
    "var vecdot where zeros zeros_like "
)
"""The names of the standard of 2023, but for those that NumPy got after 2.0."""


def test_the_namespace_has_the_names_of_the_standard():
    xp = fg.constant(V).__array_namespace__()
    assert xp is fnp
    assert [name for name in STANDARD.split() if not hasattr(xp, name)] == []
    assert fg.Variable(V).__array_namespace__(api_version="2022.12") is fnp
    with pytest.raises(ValueError, match="Array API"):
        fg.constant(V).__array_namespace__(api_version="1999.12")


def softmax(x):
    xp = x.__array_namespace__()
    shifted = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return shifted / xp.sum(shifted, axis=-1, keepdims=True)


def standardized(x):
    xp = x.__array_namespace__()
    return (x - xp.mean(x, axis=0)) / xp.sqrt(xp.var(x, axis=0, correction=1) + xp.finfo(x.dtype).eps)


def ridge(x):
    xp = x.__array_namespace__()
    y = xp.linspace(0, 1, x.shape[0], dtype=x.dtype, device=x.device)
    gram = xp.matmul(x.mT, x) + xp.eye(x.shape[-1], dtype=x.dtype)
    return xp.linalg.solve(gram, xp.matmul(x.mT, y))


def filled(x):
    xp = x.__array_namespace__()
    result = xp.zeros((2, *x.shape), dtype=x.dtype)
    for i in range(2):
        result[i, ...] = xp.pow(x, xp.asarray(i + 2.0))
    return xp.concat([xp.permute_dims(result, (0, 2, 1)), xp.astype(xp.stack([x.T, x.T]), x.dtype)])


@pytest.mark.parametrize("f", [softmax, standardized, ridge, filled])
def test_functions_of_the_array_api(f):
    expected = f(M)  # NumPy's arrays have NumPy's namespace
    assert type(expected) is np.ndarray
    np.testing.assert_allclose(f(fg.constant(M)), expected)
    check_grads(f, (M,), order=2)
    stacked = np.stack([M, M + 1.0])
    np.testing.assert_allclose(fg.vmap(f)(stacked), [f(each) for each in stacked])
    np.testing.assert_allclose(fg.trace(f)(M)(M), expected)
    assert fg.vjp(f, np.float32(M))[0].dtype == np.float32


# pandas

SERIES = pd.Series(V, index=[2, 1, 0], name="height")
FRAME = pd.DataFrame({"a": [1.0, 3.0, -1.0], "b": [2.0, 5.0, 0.5]}, index=["x", "y", "z"])
COLUMNS = {
    "Series": (SERIES, V),
    "Index": (pd.Index(V), V),
    "column": (FRAME["a"], M[:, 0]),
    "DataFrame": (FRAME, M),
    "float32": (SERIES.astype(np.float32), np.float32(V)),
    "array": (SERIES.array, V),
    "nullable": (SERIES.astype("Float64"), V),
}


TRANSFORMS = {
    "grad": lambda f, x: fg.grad(f)(x),
    "gradients_function": lambda f, x: fg.gradients_function(f)(x),
    "vjp": lambda f, x: fg.vjp(f, x),
    "jvp": lambda f, x: fg.jvp(f, (x,), (x,)),
    "jacobian": lambda f, x: fg.jacobian(f)(x),
    "hvp": lambda f, x: fg.hvp(f)(x, x),
    "vmap": lambda f, x: fg.vmap(f)(x),
    "trace": lambda f, x: fg.trace(f)(x),
    "compile": lambda f, x: fg.compile(f)(x),
    "deep in a container": lambda f, x: fg.grad(lambda p: f(p["deep"][0]))({"deep": [x]}),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_do_not_become_tensors_without_a_word(name, transform):
    column, array = COLUMNS[name]
    run = functools.partial(TRANSFORMS[transform], lambda x: np.sum(x**3))
    with pytest.raises(
        errors.StructureError, match=r"its labels.*would be lost(?s:.*)Pass its numbers, x.to_numpy\(\)"
    ):
        run(column)
    run(array)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_make_tensors_and_variables(name):
    column, array = COLUMNS[name]
    np.testing.assert_array_equal(fg.constant(column), array)
    w = fg.Variable(column, name="w")
    np.testing.assert_array_equal(w.assign(column * 2.0 if name != "array" else array * 2.0), 2 * array)
    t = fg.constant(column)
    with fg.GradientTape() as tape:
        tape.watch(t)
        y = np.sum(t * t * w)
    gradient, weight = tape.gradient(y, [t, w], output_gradients=1.0)
    np.testing.assert_allclose(gradient, 4 * array**2)
    np.testing.assert_allclose(weight, array**2)


def test_optimizers_and_columns():
    w = fg.Variable(np.zeros(3), name="w")
    GradientDescent(0.5).apply_gradients([(SERIES, w)])
    assert w.tolist() == (-V / 2).tolist()
    optimizer = Momentum(0.5, momentum=0.9)
    params, _ = optimizer.update({"w": V}, optimizer.init({"w": V}), {"w": V})
    assert type(params["w"]) is fg.Tensor
    history = run(lambda p: np.sum((p["w"] - SERIES) ** 2), {"w": V * 0}, 50, GradientDescent(0.3), progress=False)
    np.testing.assert_allclose(history.params["w"], V)


OPERATIONS = {
    "times": lambda x, s: x * s,
    "times, reflected": lambda x, s: s * x,
    "minus": lambda x, s: x - s,
    "minus, reflected": lambda x, s: s - x,
    "divided, reflected": lambda x, s: s / x,
    "power, reflected": lambda x, s: abs(s) ** x,
    "ufunc": lambda x, s: np.multiply(x, s),
    "hypot": lambda x, s: np.hypot(x, s),
    "where": lambda x, s: np.where(s > 1.5, x, s),
    "where, by a tensor": lambda x, s: np.where(x > 1.5, s, x * 2.0),
    "stack": lambda x, s: np.stack([x, s]),
    "dot": lambda x, s: x.T @ s,
    "sum of squares": lambda x, s: np.sum((s - x) ** 2),
}


FUNCTIONS_OF_ARRAYS = ["where", "where, by a tensor", "stack"]


def numbers(result):
    return result.to_numpy() if hasattr(result, "to_numpy") else result


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", ["Series", "Index", "DataFrame", "array", "nullable"])
def test_columns_meet_tensors(name, operation):
    column, array = COLUMNS[name]
    f = OPERATIONS[operation]
    x = np.linspace(0.5, 2.5, array.size).reshape(array.shape)
    if (name, operation) == ("array", "dot"):
        pytest.skip("pandas has no such product")
    expected = f(x, column)
    for concrete in (fg.constant(x), fg.Variable(x)):
        result = f(concrete, column)
        assert type(result) is type(expected) or not hasattr(expected, "to_numpy")
        np.testing.assert_array_equal(numbers(result), numbers(expected))
    takes_tensors = operation in FUNCTIONS_OF_ARRAYS or (
        name == "Series" or (name == "DataFrame" and operation != "dot")
    )
    for transformed in (fg.jacrev, fg.jacfwd, lambda g: lambda x: fg.vmap(g)(x[None])):
        ours = transformed(lambda x: numbers(f(x, column)))
        if takes_tensors:
            np.testing.assert_allclose(ours(x), transformed(lambda x: f(x, array))(x).numpy())
        else:
            with pytest.raises(errors.StructureError, match=r"of pandas(?s:.*)Use its numbers, x.to_numpy\(\)"):
                ours(x)


@pytest.mark.parametrize("ufunc", [np.multiply, np.hypot])
def test_ufuncs_of_a_column_first(ufunc):
    for column, array in (COLUMNS["Series"], COLUMNS["DataFrame"]):
        x = np.linspace(0.5, 2.5, array.size).reshape(array.shape)
        assert type(ufunc(column, fg.constant(x))) is type(column)
        gradient = fg.grad(lambda x: np.sum(ufunc(column, x)))(x)
        np.testing.assert_allclose(gradient, fg.grad(lambda x: np.sum(ufunc(array, x)))(x).numpy())
    # An Index answers itself, before the tensor is asked, and computes with an array of traced numbers.
    gradient = fg.grad(lambda x: np.sum(ufunc(pd.Index(V), x)))(V)
    np.testing.assert_allclose(gradient, fg.grad(lambda x: np.sum(ufunc(V, x)))(V).numpy())


def test_products_of_a_frame_first():
    for f in (lambda x: np.sum(FRAME @ x), lambda x: np.sum(np.matmul(FRAME, x)), lambda x: np.sum(FRAME.dot(x))):
        assert plain(fg.grad(f)(np.ones(2))) == [3.0, 7.5]
    assert plain(fg.grad(lambda x: np.sum(FRAME.to_numpy() @ x))(np.ones(2))) == [3.0, 7.5]
    assert plain(fg.grad(lambda x: np.sum(x @ FRAME.T))(np.ones(2))) == [3.0, 7.5]


def test_labels_select():
    gradient = fg.grad(lambda w: np.sum(w * SERIES))(np.ones(3))
    assert gradient[0] == V[0]  # a gradient has no labels
    assert plain(fg.grad(lambda w: (w * SERIES)[0])(np.ones(3))) == [0.0, 0.0, V[2]]  # the element labelled 0
    assert np.sum(SERIES * fg.constant(V)).item() == V @ V  # a tensor has no labels to align by


def test_columns_select_from_tensors():
    assert plain(fg.grad(lambda x: np.sum(x[SERIES > 1.5]))(V)) == [0.0, 1.0, 1.0]
    assert plain(fg.grad(lambda x: x[SERIES.index[0]])(V)) == [0.0, 0.0, 1.0]


def test_a_model_of_a_frame():
    def loss(p, data):
        assert data is FRAME  # what is not differentiated is left as it is
        return np.mean((p["slope"] * data["a"] + p["start"] - data["b"]) ** 2)

    at = {"slope": 1.5, "start": 0.5}
    residual = 1.5 * M[:, 0] + 0.5 - M[:, 1]
    expected = {"slope": np.mean(2 * residual * M[:, 0]), "start": np.mean(2 * residual)}
    gradient = fg.grad(loss)(at, FRAME)
    assert plain(gradient) == pytest.approx(expected)
    slope = fg.Variable(1.5)
    ((found, _),) = fg.implicit_gradients(lambda: loss({"slope": slope, "start": 0.5}, FRAME))()
    assert found.item() == pytest.approx(expected["slope"])


def test_columns_of_other_kinds():
    with pytest.raises(errors.IntegerInputError, match="holds integers|of type int64"):
        fg.grad(lambda x: np.sum(x * 1.0))(pd.Series([1, 2]))
    with pytest.raises(errors.NonNumericInputError, match="which is not a number"):
        fg.grad(lambda x: np.float64(1.0))(pd.Series(["a", "b"]))
    mixed = pd.DataFrame({"name": ["a", "b"], "x": [1.0, 2.0]})
    seen = []
    gradients = fg.gradients_function(lambda w, data: (seen.append(data), np.sum(w * data["x"]))[1])(2.0, mixed)
    assert seen[0] is mixed
    assert gradients[0].item() == 3.0
    assert gradients[1] is None


def test_masked_arrays_and_matrices_are_refused_as_operands():
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(errors.StructureError, match=r"combined with a MaskedArray.*\n  at test_plugging_in.py"):
        fg.grad(lambda x: np.sum(x * masked))(V)
    with warnings.catch_warnings(action="ignore"):
        matrix = np.matrix([[1.0, 2.0]])
    with pytest.raises(errors.StructureError, match=r"combined with a matrix.*\n.*\nUse a plain array"):
        fg.constant(M) * matrix


WITH_MASKS = {
    "a loop": lambda masked: fg.scan(lambda total, x: (total + x, None), 0.0, masked),
    "a map": lambda masked: fg.map(lambda x: x * 2, masked),
    "a cotangent": lambda masked: fg.vjp(lambda x: x * 2, V)[1](masked),
    "weights": lambda masked: fg.gradients_function(lambda x: x * 2)(V, dy=masked),
    "a tangent": lambda masked: fg.jvp(lambda x: x * 2, (V,), (masked,)),
    "parameters": lambda masked: fg.optimizers.Adam().init(masked),
    "a gradient": lambda masked: fg.optimizers.Adam().apply_gradients([(masked, fg.Variable(V))]),
}


@pytest.mark.parametrize("use", WITH_MASKS)
def test_no_mask_is_dropped(use):
    with pytest.raises(errors.StructureError, match="a MaskedArray cannot be differentiated, batched or recorded"):
        WITH_MASKS[use](np.ma.array(V, mask=np.arange(len(V)) == 1))


def test_what_gives_an_array_is_asked_each_time():
    class Mine:
        value = np.array(2.0)

        def __array__(self, dtype=None, copy=None):
            return self.value

    def f(x):
        mine = Mine()
        product = x * mine * x
        mine.value[...] = 7.0
        return product + x * mine

    assert (fg.constant(3.0) * Mine()).item() == 6.0
    assert fg.grad(f)(3.0) == 2 * 2.0 * 3.0 + 7.0
    assert not {Mine, pd.Series, list} & OPERANDS


# Dataclasses


@fg.register_dataclass
@dataclasses.dataclass
class Params:
    weight: np.ndarray
    bias: float = 0.0


@fg.register_dataclass(static=("name", "power"))
@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    inner: Params
    scale: float
    name: str = "model"
    power: int = 2

    def __call__(self, x):
        return self.scale * np.sum((x @ self.inner.weight + self.inner.bias) ** self.power)


def model(**options):
    return Model(Params(np.array([1.0, -2.0]), 0.5), 3.0, **options)


def test_gradients_of_dataclasses():
    gradient = fg.grad(Model.__call__)(model(), M)
    y = M @ [1.0, -2.0] + 0.5
    assert type(gradient) is Model
    assert type(gradient.inner) is Params
    assert (gradient.name, gradient.power) == ("model", 2)
    np.testing.assert_allclose(gradient.inner.weight, 6.0 * y @ M)
    np.testing.assert_allclose(gradient.inner.bias, 6.0 * y.sum())
    np.testing.assert_allclose(gradient.scale, y @ y)


def test_all_transforms_see_dataclasses():
    at = model(power=3)
    value, pullback = fg.vjp(lambda m: m(M), at)
    assert plain(pullback(1.0)[0].scale) == pytest.approx(value.item() / 3.0)
    tangent = dataclasses.replace(at, inner=Params(np.zeros(2), 0.0), scale=2.0)
    assert fg.jvp(lambda m: m(M), (at,), (tangent,))[1].item() == pytest.approx(value.item() * 2 / 3)
    hessian = fg.hessian(lambda m: m(M))(at)
    np.testing.assert_allclose(hessian.scale.inner.weight, fg.grad(Model.__call__)(at, M).inner.weight / 3.0)
    batch = fg.tree_map(lambda x: np.stack([x, 2.0 * x]), at)
    assert fg.vmap(lambda m: m(M))(batch).shape == (2,)
    assert fg.trace(lambda m: m(M))(at)(at).item() == value.item()
    check_grads(lambda m: m(M), (at,), order=2)


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_dataclasses_of_tensors_variables_and_columns():
    w = fg.Variable([1.0, -2.0], name="w")
    with fg.GradientTape() as tape:
        y = Model(Params(w, 0.5), 3.0)(M)
    found = tape.gradient(y, Params(w, fg.constant(1.0)))
    np.testing.assert_allclose(found.weight, fg.grad(Model.__call__)(model(), M).inner.weight)
    assert found.bias is None
    assert plain(fg.grad(lambda p: np.sum(p.weight**2))(Params(V)).weight) == (2 * V).tolist()


def test_optimizers_take_dataclasses():
    start = Params(np.zeros(2), 1.0)
    history = run(lambda p: np.sum((p.weight - 1.0) ** 2) + p.bias**2, start, 60, GradientDescent(0.3), progress=False)
    assert type(history.params) is Params
    np.testing.assert_allclose(history.params.weight, 1.0)
    assert list(history.gradient_norms) == [".weight", ".bias"]
    assert type(history.state) is fg.optimizers.State


def test_dataclasses_are_saved(tmp_path):
    pytest.importorskip("safetensors")
    fg.save(tmp_path / "m", model())
    again = fg.load(tmp_path / "m", like=model())
    assert again.name == "model"
    np.testing.assert_array_equal(again.inner.weight, [1.0, -2.0])


def test_instances_are_made_without_calling_the_class():
    @fg.register_dataclass(static=["label"])
    @dataclasses.dataclass
    class ChecksumGuard:
        side: float
        label: str = dataclasses.field(init=False)
        factor: dataclasses.InitVar[float] = 2.0

        def __post_init__(self, factor):
            self.side, self.label = float(self.side) * factor, "checked"

        @property
        def area(self):
            return self.side**2

    at = ChecksumGuard(3.0)
    assert fg.tree_leaves(at) == [6.0]
    gradient = fg.grad(lambda square: square.area)(at)
    assert (gradient.side.item(), gradient.label) == (12.0, "checked")


def test_messages_name_fields():
    with pytest.raises(errors.IntegerInputError, match=r"'params'\.bias is 1, of type int"):

        def loss(params):
            return np.sum(params.weight)

        fg.grad(loss)(Params(V, 1))


def test_other_structures_do_not_match():
    with pytest.raises(errors.TangentError, match="primals of jvp have the structure .*, and the tangents"):
        fg.jvp(lambda m: m(M), (model(),), (model(name="other"),))


def test_what_cannot_be_registered():
    @dataclasses.dataclass
    class Square:
        side: float
        area: float = dataclasses.field(init=False)

    with pytest.raises(errors.StructureError, match="Square has a field 'area' with init=False.*\nMake it a property"):
        fg.register_dataclass(Square)
    with pytest.raises(errors.StructureError, match="takes a dataclass, but the argument is <class 'dict'>"):
        fg.register_dataclass(dict)
    with pytest.raises(errors.StructureError, match="takes a dataclass"):
        fg.register_dataclass(Params(V))
    with pytest.raises(errors.ParameterError, match="Params has no field 'c'; its fields are weight, bias"):
        fg.register_dataclass(static=["c"])(Params)
    with pytest.raises(errors.ParameterError, match=r"static must be a list or tuple of names, \('bias',\)"):
        fg.register_dataclass(Params, static="bias")
    with pytest.raises(ValueError, match="already registered"):
        fg.register_pytree_node(csr_array, lambda a: ((a.data,), None), lambda _, data: data)
    with pytest.raises(ValueError, match="already registered|built-in type"):
        fg.register_pytree_node(dict, lambda d: ((), None), lambda _, children: {})


def test_an_unregistered_dataclass_is_a_leaf():
    @dataclasses.dataclass
    class Settings:
        rate: float

    with pytest.raises(errors.NonNumericInputError, match="which is not a number"):
        fg.grad(lambda s: s.rate)(Settings(1.0))


# Copies and pickles


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{
        f"pickle {protocol}": lambda x, protocol=protocol: pickle.loads(pickle.dumps(x, protocol))
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)
    },
}
copies = pytest.mark.parametrize("how", COPIES.values(), ids=COPIES.keys())


@pytest.mark.parametrize("value", [2.0, V, np.float32(M), np.int8([1, 2]), V + 1j, True, np.zeros((0, 2)), "text"])
def test_copies_of_tensors(value):
    t = fg.constant(value)
    for name, how in COPIES.items():
        with naming(name):
            again = how(t)
            assert type(again) is fg.Tensor
            assert again is not t
            assert (again.dtype, again.shape, plain(again)) == (t.dtype, t.shape, plain(t))
            if t.size and t.dtype.kind != "U":
                again[...] = 0
                assert plain(t) == plain(np.asarray(value))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_copies_inside_a_function_are_differentiated(how):
    for f in (lambda x: np.sum(how(x) ** 2), lambda x: np.sum(how([x])[0] ** 2)):
        assert plain(fg.grad(f)(V)) == (2 * V).tolist()
        assert plain(fg.jvp(f, (V,), (V,))[1]) == 2 * V @ V
        assert plain(fg.vmap(lambda x: how(x) * 2)(V)) == (2 * V).tolist()


@copies
def test_copies_of_variables(how):
    w = fg.Variable(np.float32(V), name="w", trainable=False)
    again = how(w)
    assert (again.name, again.trainable, again.dtype, plain(again)) == ("w", False, np.float32, V.tolist())
    again.assign(np.zeros(3))
    assert plain(w) == V.tolist()
    assert again is not w
    x = fg.Variable(3.0, name="x")
    y = how(x)
    ((gradient, found),) = fg.implicit_gradients(lambda: y * y)()
    assert (gradient.item(), found) == (6.0, y)


@copies
def test_copies_keep_what_belongs_together(how):
    w = fg.Variable(V, name="w")
    tree = how({"a": [w, w], "b": fg.constant(1.0)})
    assert tree["a"][0] is tree["a"][1]
    assert (tree["a"][0] is w) == (how is copy.copy)


@EVERY
def test_copies_of_optimizers_with_their_variables(kind):
    for name, how in COPIES.items():
        with naming(name):
            check_copy(make(kind), how)


def check_copy(optimizer, how):
    def loss(variables):
        return np.sum(variables[0] ** 4) + np.sum(variables[1] ** 2)

    variables = [fg.Variable(V, name="w"), fg.Variable(0.5, name="b")]
    for _ in range(2):
        optimizer.minimize(lambda: loss(variables))
    if how is copy.copy:
        twin, twins = copy.copy(optimizer), variables
    else:
        twin, twins = how((optimizer, variables))
        assert twins[0] is not variables[0]
    assert (type(twin), twin.iterations, twin.name) == (type(optimizer), 2, optimizer.name)
    assert plain(twin.state_dict()) == plain(optimizer.state_dict())
    before = plain(variables)
    for _ in range(2):
        twin.minimize(lambda: loss(twins))
    assert (optimizer.iterations, twin.iterations) == (2, 4)
    after = plain(twins)
    if how is not copy.copy:
        assert plain(variables) == before
        for _ in range(2):
            optimizer.minimize(lambda: loss(variables))
        assert plain(variables) == after
        assert plain(optimizer.state_dict()) == plain(twin.state_dict())


@EVERY
def test_copies_of_states(kind):
    optimizer = make(kind)
    params = {"w": V}
    params, state = optimizer.update({"w": V}, optimizer.init(params), params)
    for name, how in COPIES.items():
        with naming(name):
            again = how(state)
            assert type(again) is fg.optimizers.State
            assert plain(optimizer.update({"w": V}, again, params)) == plain(optimizer.update({"w": V}, state, params))


SCHEDULES = [
    schedules.ExponentialDecay(0.1, 10, 0.9, staircase=True),
    schedules.NaturalExpDecay(0.1, 10, 0.9),
    schedules.InverseTimeDecay(0.1, 10, 0.9),
    schedules.PolynomialDecay(0.1, 10, 0.01),
    schedules.PiecewiseConstantDecay([2, 4], [0.1, 0.05, 0.01]),
    schedules.CosineDecay(0.1, 10),
    schedules.CosineDecayRestarts(0.1, 3),
    schedules.LinearCosineDecay(0.1, 10),
    schedules.WarmupCosine(0.1, 2, 10),
    schedules.OneCycle(0.1, 10),
    schedules.ReduceOnPlateau(0.1, patience=1),
]


def test_every_schedule_is_copied_below():
    public = [getattr(schedules, name) for name in schedules.__all__]
    found = {value for value in public if isinstance(value, type) and issubclass(value, schedules.Schedule)}
    assert {type(each) for each in SCHEDULES} == found - {schedules.Schedule}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
def test_copies_of_schedules(schedule):
    for name, how in COPIES.items():
        with naming(name):
            again = how(schedule)
            assert type(again) is type(schedule)
            assert [float(again(step)) for step in range(8)] == [float(schedule(step)) for step in range(8)]
            optimizer = how(Adam(again))
            assert float(optimizer.learning_rate(3)) == float(schedule(3))


def test_copies_of_a_schedule_with_a_state():
    schedule = schedules.ReduceOnPlateau(0.1, factor=0.5, patience=0)
    schedule.update(1.0), schedule.update(2.0)
    again = pickle.loads(pickle.dumps(schedule))
    assert float(again(0)) == float(schedule(0)) < 0.1
    again.update(3.0)
    assert float(again(0)) < float(schedule(0))


def cubed(x, power=3):
    return np.sum(x**power)


@fg.grad
def decorated(x):
    return np.sum(x**3)


w_of_module = fg.Variable(2.0, name="w")


def with_variable(x):
    return w_of_module * np.sum(x)


FUNCTIONS = {
    "grad": (fg.grad(cubed), (V,)),
    "value_and_grad": (fg.value_and_grad(cubed), (V,)),
    "gradients_function": (fg.gradients_function(cubed, params=["x"]), (V,)),
    "implicit_value_and_gradients": (fg.implicit_value_and_gradients(with_variable), (V,)),
    "jacobian": (fg.jacobian(cubed), (V,)),
    "hessian": (fg.hessian(cubed), (V,)),
    "hvp": (fg.hvp(cubed), (V, V)),
    "vmap": (fg.vmap(cubed), (M,)),
    "nested": (fg.vmap(fg.grad(functools.partial(cubed, power=4))), (M,)),
    "decorated": (decorated, (V,)),
    "elementwise_grad": (fg.elementwise_grad(np.sin), (V,)),
    "make_vjp": (fg.make_vjp(cubed), (V,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_copies_of_gradient_functions(name):
    g, args = FUNCTIONS[name]

    def called(g):
        found = g(*args)
        if name == "make_vjp":
            return plain(found[1]())
        if name == "implicit_value_and_gradients":
            return plain([found[0], *(gradient for gradient, _ in found[1])])
        return plain(found)

    for way, how in COPIES.items():
        with naming(way):
            again = how(g)
            assert called(again) == called(g)
            assert repr(again).partition(" at 0x")[0] == repr(g).partition(" at 0x")[0]


def test_functions_that_pickle_cannot_find():
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pickle.dumps(fg.grad(lambda x: x))


def test_histories_and_graphs():
    history = run(cubed, V, 2, GradientDescent(0.01), progress=False)
    again = pickle.loads(pickle.dumps(history))
    assert again.losses.tolist() == history.losses.tolist()
    assert repr(again) == repr(history)
    error = pickle.loads(pickle.dumps(errors.DivergenceError("text")))
    assert error.history is None


# scikit-learn


@pytest.fixture(scope="module")
def logistic():
    path = Path(__file__).parent.parent / "examples" / "logistic_regression.py"
    spec = importlib.util.spec_from_file_location("example_logistic_regression", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)  # where pickle looks for the estimator
        spec.loader.exec_module(module)
        yield module


def test_the_estimator_is_one_of_scikit_learns(logistic):
    results = check_estimator(logistic.GradientLogisticRegression(), on_skip=None, on_fail=None)
    failed = [(each["check_name"], each["exception"]) for each in results if each["status"] == "failed"]
    assert failed == []
    assert {each["status"] for each in results} >= {"passed"}
    assert [each["check_name"] for each in results if each["status"] == "skipped"] in ([], ["check_array_api_input"])


def test_the_example_runs(logistic, capsys):
    result = logistic.main()
    assert result["accuracy"] > 0.97
    assert result["difference"] < 1e-5
    assert "coefficients        within" in capsys.readouterr().out


def test_three_classes_with_weights_as_scikit_learn_has_them(logistic):
    x, y = load_iris(return_X_y=True)
    labels, weight = np.array(["a", "b", "c"])[y], np.random.default_rng(0).uniform(0.5, 2.0, size=y.size)
    ours = logistic.GradientLogisticRegression(C=2.0).fit(x, labels, sample_weight=weight)
    theirs = LogisticRegression(C=2.0, tol=1e-8, max_iter=10_000).fit(x, labels, sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-4)
    assert ours.score(x, labels) == theirs.score(x, labels)
    search = GridSearchCV(logistic.GradientLogisticRegression(), {"C": [0.01, 1.0]}, cv=3).fit(x, labels)
    assert search.best_params_ == {"C": 1.0}


def test_too_few_iterations_are_warned_of(logistic):
    x, y = load_iris(return_X_y=True)
    with pytest.warns(logistic.ConvergenceWarning, match="raise max_iter"):
        logistic.GradientLogisticRegression(max_iter=2).fit(x, y)


# Operands of other kinds


class Quantity:
    """A number with a unit, which decides itself what operators mean."""

    __array_ufunc__ = None

    def __init__(self, value, unit):
        self.value, self.unit = value, unit

    def __rmul__(self, other):
        return Quantity(other * self.value, self.unit)

    def __rtruediv__(self, other):
        return Quantity(other / self.value, f"1/{self.unit}")

    def __gt__(self, other):
        return other < self.value


class Prior:
    __array_priority__ = 1000

    def __rmul__(self, other):
        return ("Prior", other)


@pytest.mark.parametrize("make", [lambda x: x, fg.constant, fg.Variable], ids=["array", "tensor", "variable"])
def test_an_operand_that_claims_an_operator_has_its_turn(make):
    x = make(np.array([1.0, 2.0]))
    product = x * Quantity(3.0, "m")
    assert (type(product), product.unit, product.value.tolist()) == (Quantity, "m", [3.0, 6.0])
    assert (x / Quantity(2.0, "s")).unit == "1/s"
    assert (x < Quantity(1.5, "m")).tolist() == [True, False]
    for _ in range(2):
        name, operand = x * Prior()
        assert (name, operand is x) == ("Prior", True)


def test_what_an_operand_makes_of_tensors_is_differentiated():
    f = lambda x: np.sum((x * Quantity(np.array([3.0, 4.0]), "m")).value ** 2)  # noqa: E731
    assert fg.grad(f)(np.ones(2)).tolist() == [18.0, 32.0]
    assert fg.jacfwd(f)(np.ones(2)).tolist() == [18.0, 32.0]
    assert fg.vmap(fg.grad(f))(np.ones((1, 2))).tolist() == [[18.0, 32.0]]


def test_fractions_are_numbers():
    half = fractions.Fraction(1, 2)
    for f in (lambda x: np.sum(x * half), lambda x: np.sum(half * x), lambda x: np.sum(x - half) / 2):
        assert fg.grad(f)(np.ones(2)).tolist() == [0.5, 0.5]
    assert (fg.constant([1.0, 2.0]) ** half).dtype == np.float64


def test_a_dataclass_that_is_no_container_is_told_which_fields_are_static():
    @dataclasses.dataclass
    class Spring:
        stiffness: float
        label: str

    with pytest.raises(errors.NonNumericInputError, match=r"fg\.register_dataclass\(Spring, static=\['label'\]\)"):
        fg.grad(lambda s: s.stiffness)(Spring(1.0, "left"))


@pytest.mark.parametrize(
    "transform", [fg.grad, fg.jacobian, fg.hessian, fg.sparse_jacobian, fg.sparse_hessian, fg.sparsity, fg.compile]
)
def test_arithmetic_on_a_list_is_explained_once_by_every_transform(transform):
    with pytest.raises(TypeError, match="list") as caught:
        transform(lambda x: np.sum(x**2))([1.0, 2.0])
    (note,) = caught.value.__notes__
    assert "got a list for 'x'" in note
    assert "pass an array" in note
