"""Tensors over arrays of other libraries, and over arrays of exact numbers."""

import contextlib
import functools
import itertools
import operator
import runpy
from fractions import Fraction
from numbers import Rational
from pathlib import Path

import numpy as np
import pytest
from helpers import in_groups, naming, on_tape
from payload_calls import cotangents, examples, shown, tangents, tried, value
from payload_table import (
    OF_DASK,
    OF_FRACTIONS,
    PARTLY_BY_DASK,
    PARTLY_BY_SPARSE,
    REFUSED_BY_DASK,
    REFUSED_BY_SPARSE,
)
from primitive_names import LONG, SAMPLED

import fgrad as fg
from fgrad import errors, optimizers
from fgrad.core.primitive import PRIMITIVES
from fgrad.ops.lazy import LOOKING_AT_VALUES

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


class Scheduler:
    """Computes as dask's own in one thread does, and counts how often."""

    def __init__(self):
        self.count = 0

    def __call__(self, graph, keys, **options):
        self.count += 1
        return dask.local.get_sync(graph, keys, **options)


@pytest.fixture(autouse=True, scope="module")
def names_cost_nothing():
    """Graphs of dask name each array by a hash of all that it is made of, which takes longer than to plan it."""
    numbers = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dask.array.core.tokenize", lambda *args, **keywords: f"number-{next(numbers)}")
        patch.setattr("dask.array.utils.has_keyword", functools.lru_cache(None)(dask.utils.has_keyword))
        yield


@pytest.fixture(autouse=True)
def scheduler():
    counting = Scheduler()
    with dask.config.set(scheduler=counting), np.errstate(all="ignore"):
        yield counting


def lazy(x):
    return da.from_array(x, chunks=tuple(max(1, (size + 1) // 2) for size in x.shape))


def computed(tree):
    return [np.asarray(x) for x in dask.compute(*shown(tree), optimize_graph=False)]


def assert_same(found, expected):
    for x, y in zip(computed(found), computed(expected), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
Y = (RNG.random(12) > 0.5).astype(float)
W, V = RNG.normal(size=(2, 3)) * 0.3


def cross_entropy(w, x, y):
    z = x @ np.stack([w, 2 * w, -w], axis=1)
    z = z - np.max(z, axis=1, keepdims=True)
    return -np.mean((z - np.log(np.sum(np.exp(z), axis=1, keepdims=True)))[:, 0] * y)


LOSSES = {
    "logistic regression": lambda w, x, y: np.mean(np.logaddexp(0, x @ w) - y * (x @ w)),
    "Poisson": lambda w, x, y: np.mean(np.exp(x @ w) - y * (x @ w)),
    "least squares": lambda w, x, y: np.sum((x @ w - y) ** 2) / 2 + 0.1 * np.sum(w**2),
    "length": lambda w, x, y: np.linalg.norm(np.dot(x, w) - y),
    "cross-entropy": cross_entropy,
    "rectified": lambda w, x, y: np.mean(np.maximum(x @ w, 0) + np.where(x @ w > 0, y, 0)),
    "methods": lambda w, x, y: ((x @ w).reshape(3, 4).sum(axis=0) * 2).mean() + (x.T @ y) @ w,
}


WAYS = {
    "value_and_grad": lambda loss: fg.value_and_grad(loss)(W),
    "value_and_gradients_function": lambda loss: fg.value_and_gradients_function(loss)(W),
    "jvp": lambda loss: fg.jvp(loss, (W,), (V,)),
    "hvp": lambda loss: fg.hvp(loss)(W, V),
    "hessian": lambda loss: fg.hessian(loss)(W),
    "vmap": lambda loss: fg.vmap(loss)(np.stack([W, V])),
    "vmap of grad": lambda loss: fg.vmap(fg.grad(loss))(np.stack([W, V])),
    "tape": lambda loss: on_tape(loss, W),
    "checkpoint": lambda loss: fg.grad(fg.checkpoint(loss))(W),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_on_dask_data_is_lazy_in_every_transform(name, way, scheduler):
    x, y = lazy(X), lazy(Y)
    found = WAYS[way](lambda w: LOSSES[name](w, x, y))
    assert {type(each) for each in shown(found)} == {da.Array}
    assert "dask.array" in repr(found)
    assert scheduler.count == 0
    assert_same(found, WAYS[way](lambda w: LOSSES[name](w, X, Y)))


@pytest.mark.parametrize("name", LOSSES)
def test_data_can_be_arguments_and_be_differentiated(name, scheduler):
    data = lazy(X), lazy(Y)
    found = fg.grad(LOSSES[name], argnums=(0, 1))(W, *data)
    assert scheduler.count == 0
    assert_same(found, fg.grad(LOSSES[name], argnums=(0, 1))(W, X, Y))


def test_a_batch_of_lazy_examples(scheduler):
    loss = LOSSES["least squares"]
    found = fg.vmap(fg.grad(loss), in_axes=(None, 0, 0))(W, lazy(X), lazy(Y))
    assert scheduler.count == 0
    assert_same(found, fg.vmap(fg.grad(loss), in_axes=(None, 0, 0))(W, X, Y))


def test_weights_and_tangents_may_be_lazy(scheduler):
    value, pullback = fg.vjp(lambda x: np.sqrt(x * x).sum(axis=0), lazy(X))
    found = value, pullback(lazy(V)), fg.jvp(np.tanh, (lazy(X),), (lazy(X),))
    assert scheduler.count == 0
    value, pullback = fg.vjp(lambda x: np.sqrt(x * x).sum(axis=0), X)
    assert_same(found, (value, pullback(V), fg.jvp(np.tanh, (X,), (X,))))


def test_scipys_functions_run_on_blocks(scheduler):
    import scipy.special

    def loss(w, x, y):
        return np.sum(scipy.special.gammaln(1 + (x @ w) ** 2) + scipy.special.xlogy(y, scipy.special.expit(x @ w)))

    found = fg.hessian(loss)(W, lazy(X), lazy(Y))
    assert scheduler.count == 0
    assert_same(found, fg.hessian(loss)(W, X, Y))


def test_minimize_computes_once_for_each_variable(scheduler):
    def trained(x, y):
        w, b = fg.Variable(W), fg.Variable(0.0)
        optimizer = optimizers.Adam(learning_rate=0.1)
        for _ in range(3):
            optimizer.minimize(lambda: np.mean((x @ w + b - y) ** 2))
        return w.value(), b.value()

    found = trained(lazy(X), lazy(Y))
    assert scheduler.count == 6
    assert_same(found, trained(X, Y))


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.truediv, np.maximum])
def test_operators_give_tensors_in_either_order(op, scheduler):
    x, t = lazy(X), fg.constant(lazy(X + 1))
    for found, expected in ((op(x, t), op(X, X + 1)), (op(t, x), op(X + 1, X))):
        assert type(found) is fg.Tensor
        assert type(found.value) is da.Array
        assert_same(found, expected)


def test_a_tensor_shows_itself_without_being_computed(scheduler):
    x = fg.constant(lazy(X))
    assert repr(x).startswith("Tensor(dask.array<")
    assert str(x).startswith("dask.array<")
    assert x._repr_html_().startswith("<pre>Tensor(dask.array")
    with fg.GradientTape() as tape:
        tape.watch(x)
        assert repr(x * 2).endswith("traced by GradientTape)")
    assert (x.shape, x.dtype, x.ndim, x.size, len(x)) == ((12, 3), np.float64, 2, 36, 12)
    assert scheduler.count == 0
    np.testing.assert_array_equal(x.numpy(), X)
    assert scheduler.count == 1


@pytest.mark.parametrize(
    "use",
    [
        lambda w, x: np.sum(x[x[:, 0] > 0] @ w),
        lambda w, x: np.sum((x @ w)[x[:, 0] > 0]),
        lambda w, x: fg.grad(lambda x: np.sum(x))(x[x[:, 0] > 0]) @ w,
    ],
)
def test_a_shape_that_is_not_known_says_what_to_write(use, scheduler):
    with pytest.raises(errors.ShapeError, match=r"x.compute_chunk_sizes\(\)"):
        fg.grad(use)(W, lazy(X))
    assert scheduler.count == 0
    with pytest.raises(errors.ShapeError, match="array of dask has the shape"):
        fg.constant(lazy(X)[lazy(X) > 0])


def test_known_chunk_sizes_are_enough():
    chosen = lazy(X)[lazy(X)[:, 0] > 0].compute_chunk_sizes()
    assert_same(
        fg.grad(lambda w: np.sum((chosen @ w) ** 2))(W), fg.grad(lambda w: np.sum((X[X[:, 0] > 0] @ w) ** 2))(W)
    )


def test_data_that_is_overwritten_before_the_pass_back_was_copied():
    x = lazy(X)

    def loss(w):
        result = np.sum(x @ w)
        x[0] = 0.0
        return result

    assert_same(fg.grad(loss)(W), X.sum(axis=0))


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("det", lambda x: np.linalg.det(x.T @ x)),
        ("svd", lambda x: np.sum(np.linalg.svd(x, compute_uv=False))),
        ("stable_order", lambda x: np.sum(np.sort(x, axis=0))),
    ],
)
def test_what_looks_at_values_refuses_before_it_computes(name, use, scheduler):
    with pytest.raises(errors.PayloadError, match=f"{name} does not work on an array of dask: it depends on values"):
        fg.grad(use)(lazy(X))
    assert scheduler.count == 0


@pytest.mark.parametrize("use", [lambda x: fg.compile(lambda w: np.sum(x @ w))(W), lambda x: fg.compile(np.sum)(x)])
def test_native_code_refuses_lazy_arrays(use, scheduler):
    with pytest.raises(errors.PayloadError, match="compile does not work on an array of dask: native code"):
        use(lazy(X))
    assert scheduler.count == 0


def test_elements_cannot_be_written():
    x = fg.constant(lazy(X))
    with pytest.raises(errors.PayloadError, match="replace does not work on an array of dask"):
        x[0] = 1.0


def test_the_unused_zeros_of_a_mask_win_over_infinities(scheduler):
    """Lazily, too: what a mask has left out has no derivative, although it is infinite."""
    x = np.where(np.arange(12)[:, None] == 5, np.inf, X)

    def loss(w, x):
        return np.sum(np.where(np.arange(12) == 5, 0.0, x @ w))

    found = fg.grad(loss)(W, lazy(x))
    assert scheduler.count == 0
    assert_same(found, fg.grad(loss)(W, x))
    assert np.isfinite(computed(found)[0]).all()


# Every primitive


@pytest.mark.parametrize("name", SAMPLED)
def test_every_primitive_on_dask(name, scheduler):
    """Of long primitives that work throughout, which take dask seconds to plan, the value of one block."""
    outcomes, is_long = set(), name in LONG and name in OF_DASK
    ways = (value,) if is_long else (cotangents, tangents) if name in OF_DASK else (value, cotangents, tangents)
    for way in ways:
        for call in examples(name):
            arrays = tuple(map(da.asarray if is_long else lazy, call.arrays))
            scheduler.count = 0
            with naming(way.__name__, call.arrays):
                outcome, found = tried(way, call, arrays, "dask")
                outcomes.add(outcome)
                assert scheduler.count == 0
                if outcome == "works":
                    assert_same(found, way(call, call.arrays))
    expected = {"works"} if name in OF_DASK else {"refused"} if name in REFUSED_BY_DASK else {"works", "refused"}
    assert outcomes == expected


def test_the_page_lists_every_primitive():
    pages = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "table_pages.py"))["PAGES"]
    of_libraries, of_fractions = pages["coverage-arrays.md"]().split("## Are exact for fractions")
    for of_one in of_libraries.split("## Work on sparse arrays"):
        assert all(of_one.count(f"`{name}`") == 1 for name in SAMPLED)
    assert all(f"`{name}`" in of_fractions for name in OF_FRACTIONS)


def test_the_table_has_primitives_alone():
    assert REFUSED_BY_DASK | PARTLY_BY_DASK | OF_FRACTIONS <= set(SAMPLED)
    assert REFUSED_BY_SPARSE | PARTLY_BY_SPARSE <= set(SAMPLED)
    assert set(PRIMITIVES) >= LOOKING_AT_VALUES


def exact(x):
    array = np.empty(x.shape, object)
    for place in np.ndindex(x.shape):
        array[place] = Fraction(float(x[place])).limit_denominator(64)
    return array


def is_exact(x):
    x = np.asarray(x)
    return x.dtype.kind in "bui" or all(isinstance(each, (Rational, bool)) for each in x.flat)


# SciPy's linear algebra still makes floats of objects, and from 1.18 on says that it will refuse them.
@pytest.mark.filterwarnings("ignore:Calling .* with arguments of dtype=object:DeprecationWarning")
@in_groups("name", SAMPLED)
def test_every_primitive_on_fractions(name):
    outcomes = set()
    for way in (value, cotangents, tangents):
        for call in examples(name):
            arrays = tuple(map(exact, call.arrays))
            with naming(way.__name__, arrays):
                with contextlib.suppress(errors.PayloadError):
                    found = shown(way(call, arrays))
                    outcomes.add(all(map(is_exact, found)))
                    expected = computed(way(call, tuple(x.astype(float) for x in arrays)))
                    for x, y in zip(found, expected, strict=True):
                        assert np.shape(x) == y.shape
                        kind = complex if y.dtype.kind == "c" else bool if y.dtype.kind == "b" else float
                        np.testing.assert_allclose(np.asarray(x, kind), y, rtol=1e-9, atol=1e-12)
                    continue
                outcomes.add("refused")
    assert (outcomes == {True}) == (name in OF_FRACTIONS)


# Exact numbers

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
EXACT = np.array([HALF, THIRD, Fraction(3, 4)])


def elements(tensor):
    return np.asarray(tensor.numpy()).tolist()


def test_derivatives_of_rational_functions_are_fractions():
    gradient = fg.grad(lambda x: np.sum(x**3 / (1 + x)))(EXACT)
    assert elements(gradient) == [3 * x**2 / (1 + x) - x**3 / (1 + x) ** 2 for x in EXACT]
    assert all(type(each) is Fraction for each in elements(gradient))
    assert gradient.dtype == object
    assert elements(fg.hessian(lambda x: np.prod(x) * x[0])(EXACT))[0] == [HALF, Fraction(3, 4), THIRD]
    assert elements(fg.grad(fg.grad(lambda x: x**5))(Fraction(1, 7))) == 20 * Fraction(1, 343)
    assert elements(fg.hvp(lambda x: np.sum(x[:-1] * x[1:] ** 2))(EXACT, EXACT))[0] == 2 * THIRD**2


def test_means_of_fractions_are_exact():
    """Seeds are ones, and Python divides integers to floating-point numbers."""
    assert elements(fg.grad(np.mean)(EXACT)) == [THIRD] * 3
    assert elements(fg.grad(lambda x: np.mean(np.maximum(x, HALF)))(EXACT)) == [THIRD / 2, 0, THIRD]
    assert elements(fg.hessian(lambda x: np.sum(x * np.mean(x)))(EXACT)) == [[2 * THIRD] * 3] * 3
    assert elements(fg.hessian(np.mean)(EXACT)) == [[0] * 3] * 3
    assert elements(fg.grad(np.var)(EXACT)) == [2 * THIRD * (x - np.mean(EXACT)) for x in EXACT]
    assert elements(fg.hessian(lambda x: np.var(x, ddof=1))(EXACT))[0] == [2 * THIRD, -THIRD, -THIRD]


def test_fractions_in_batches_and_on_tapes():
    batch = np.stack([EXACT, 2 * EXACT])
    assert elements(fg.vmap(fg.grad(lambda x: x @ x))(batch)) == (2 * batch).tolist()
    x = fg.constant(EXACT)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = np.max(x) * x.reshape(3, 1) @ np.array([[Fraction(2)]])
    assert elements(tape.gradient(y, x)) == [Fraction(3, 2), Fraction(3, 2), Fraction(14, 3)]
    value, tangent = fg.jvp(lambda x: (x @ x) * x, (EXACT,), (EXACT,))
    assert elements(tangent) == [3 * each for each in elements(value)]


def test_a_fraction_beside_floating_point_numbers_is_one_of_them():
    assert (fg.constant([1.0, 2.0]) * HALF).dtype == np.float64
    assert elements(fg.grad(lambda x: x @ EXACT[:2])(np.array([1.0, 2.0]))) == [0.5, 1 / 3]


def test_an_element_that_was_overwritten_before_the_pass_back_was_copied():
    factor = EXACT.copy()

    def loss(x):
        result = x @ factor
        factor[0] = Fraction(100)
        return result

    assert elements(fg.grad(loss)(EXACT)) == EXACT.tolist()


def test_numbers_of_mpmath_keep_their_digits():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        x = np.array([mpmath.mpf(1) / 3, mpmath.mpf(2)])
        found = elements(fg.grad(lambda x: np.sum(x**3 / (1 + x)))(x))
        expected = [3 * each**2 / (1 + each) - each**3 / (1 + each) ** 2 for each in x]
        assert all(abs(a - b) < mpmath.mpf(10) ** -37 for a, b in zip(found, expected, strict=True))


def test_a_tensor_of_fractions_shows_them():
    x = fg.constant(EXACT[:1])
    assert (repr(x), str(x), str(x[0])) == ("Tensor([Fraction(1, 2)], dtype=object)", "[Fraction(1, 2)]", "1/2")


def test_objects_that_are_no_numbers_are_refused():
    with pytest.raises(errors.NonNumericInputError, match="no number|no derivative"):
        fg.grad(lambda x: x)(np.array(["a", None], object))


def test_importing_fgrad_loads_no_other_library():
    import subprocess
    import sys

    code = "import fgrad, sys; print([name for name in ('dask', 'mpmath', 'sparse', 'cupy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
