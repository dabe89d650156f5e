"""Tensors over arrays of the package sparse: `make peers-test`.

Nothing may make such an array dense but the package itself; `np.asarray` of one raises.
"""

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
import sparse
from helpers import naming, on_tape
from payload_calls import cotangents, examples, shown, tangents, tried, value
from payload_table import OF_SPARSE, REFUSED_BY_SPARSE
from primitive_names import SAMPLED

import fgrad as fg
from fgrad import errors, optimizers

# The package divides by the fill value, and its compiler looks into arrays that are not aligned.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numba.NumbaWarning")

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(12, 3)) * (RNG.random((12, 3)) > 0.5)
X = sparse.COO.from_numpy(DENSE)
Y = RNG.normal(size=12)
W, V = RNG.normal(size=(2, 3))
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "other-arrays.md"
KINDS = {"COO": X, "GCXS": sparse.GCXS.from_numpy(DENSE)}


def dense(tree):
    return [np.asarray(x.todense() if isinstance(x, sparse.SparseArray) else x) for x in shown(tree)]


def assert_same(found, expected):
    for x, y in zip(dense(found), dense(expected), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


LOSSES = {
    "logistic regression": lambda w, x: np.mean(np.logaddexp(0, x @ w) - (Y > 0) * (x @ w)),
    "least squares": lambda w, x: np.sum((x @ w - Y) ** 2) / 2 + 0.1 * np.sum(w**2),
    "Poisson": lambda w, x: np.mean(np.exp(x @ w) - Y * (x @ w)),
    "rectified": lambda w, x: np.mean(np.maximum(x @ w, 0)),
    "rows": lambda w, x: np.sum((x[2:5] @ w) ** 2),
    "from the left": lambda w, x: np.sum((Y @ x) * w**2) + np.sum((w @ x.T) ** 2),
    "elementwise": lambda w, x: np.sum((x * w) ** 2) + np.sum(w**2),
    "sums of columns": lambda w, x: np.sum(np.sum(x * w, axis=0) ** 2),
    "matrix": lambda w, x: np.sum((x @ np.stack([w, w**2], axis=1)) ** 2),
}


WAYS = {
    "value_and_grad": lambda loss, x: fg.value_and_grad(lambda w: loss(w, x))(W),
    "as an argument": lambda loss, x: fg.grad(loss)(W, x),
    "jvp": lambda loss, x: fg.jvp(lambda w: loss(w, x), (W,), (V,)),
    "hvp": lambda loss, x: fg.hvp(lambda w: loss(w, x))(W, V),
    "hessian": lambda loss, x: fg.hessian(lambda w: loss(w, x))(W),
    "vmap": lambda loss, x: fg.vmap(lambda w: loss(w, x))(np.stack([W, V])),
    "vmap of grad": lambda loss, x: fg.vmap(fg.grad(loss), in_axes=(0, None))(np.stack([W, V]), x),
    "tape": lambda loss, x: on_tape(lambda w: loss(w, x), W),
    "checkpoint": lambda loss, x: fg.grad(fg.checkpoint(lambda w: loss(w, x)))(W),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_a_loss_on_sparse_data_has_the_derivatives_of_the_dense_one(way, kind):
    for name, loss in LOSSES.items():
        with naming(name), contextlib.suppress(errors.PayloadError) if kind == "GCXS" else contextlib.nullcontext():
            assert_same(WAYS[way](loss, KINDS[kind]), WAYS[way](loss, DENSE))


def test_both_the_weights_and_the_data_are_differentiated():
    for name in ("least squares", "rows", "matrix", "sums of columns"):
        with naming(name):
            found = fg.grad(LOSSES[name], argnums=(0, 1))(W, X)
            assert_same(found, fg.grad(LOSSES[name], argnums=(0, 1))(W, DENSE))
    assert isinstance(fg.grad(lambda x: np.sum(x * x))(X).value, sparse.COO)


def test_a_batch_of_sparse_examples():
    found = fg.vmap(fg.grad(lambda w, x: np.sum((x @ w) ** 2)), in_axes=(None, 0))(W, np.stack([X, 2 * X]))
    assert_same(
        found, fg.vmap(fg.grad(lambda w, x: np.sum((x @ w) ** 2)), in_axes=(None, 0))(W, np.stack([DENSE, 2 * DENSE]))
    )


def test_jacobians_of_sparse_products():
    for jacobian in (fg.jacfwd, fg.jacrev):
        assert_same(jacobian(lambda w: X @ w)(W), DENSE)


@pytest.mark.parametrize("name", ["least squares", "elementwise"])
def test_an_optimizer_makes_a_plain_array_of_what_it_writes(name):
    def trained(x):
        w = fg.Variable(W)
        optimizer = optimizers.Adam(learning_rate=0.1)
        for _ in range(3):
            optimizer.minimize(lambda: LOSSES[name](w, x))
        return w.value()

    assert_same(trained(X), trained(DENSE))


def test_numbers_are_plain_and_arrays_are_made_so_where_it_is_asked():
    x = fg.constant(X)
    assert type(np.sum(x).value) is np.float64
    assert repr(x).startswith("Tensor(<COO: shape=(12, 3)")
    assert float(np.sum(x)) == np.sum(x).item() == pytest.approx(DENSE.sum())
    np.testing.assert_array_equal(x.numpy(), DENSE)
    assert x.tolist() == DENSE.tolist()
    with pytest.raises(RuntimeError, match="todense"):
        np.asarray(x)


REFUSED = {
    "a dense sum": (lambda w: np.sum((X + w) ** 2), "add does not work on an array of sparse: .*dense array"),
    "a dense slope": (
        lambda w: np.sum(fg.grad(lambda x: np.sum(np.exp(x * w)))(X)),
        "multiply does not work on an array of sparse: .*dense array",
    ),
    "a fill value of 1": (lambda w: np.sum(np.exp(X * w) @ W), "matmul does not work on an array of sparse: .*fill"),
    "no such function": (lambda w: np.sum(np.cumsum(X * w, axis=0)), "cumsum does not work on an array of sparse"),
    "native code": (lambda w: fg.compile(lambda w: np.sum(X @ w))(w), "compile does not work on an array of sparse"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_package_refuses_names_it_and_what_to_write(name):
    use, said = REFUSED[name]
    with pytest.raises(errors.PayloadError, match=said) as caught:
        fg.grad(use)(W)
    assert "x.todense()" in str(caught.value)
    assert "test_payloads_sparse.py:" in str(caught.value)


@pytest.mark.parametrize("use", [lambda w: np.sum(X * w), lambda w: np.sum(X @ w)])
def test_shapes_that_do_not_fit_are_no_fault_of_the_package(use):
    with pytest.raises(ValueError, match="shape") as caught:
        fg.grad(use)(np.ones(5))
    assert not isinstance(caught.value, errors.PayloadError)


def test_a_product_that_the_package_takes_before_the_tensor_says_what_to_write():
    with pytest.raises(errors.MissingRuleError, match=r"write a @ x, or make it a tensor before"):
        fg.grad(lambda w: np.sum(np.matmul(X, w)))(W)
    made = fg.constant(X)
    expected = fg.grad(lambda w: np.sum((DENSE @ w) ** 2))(W)
    for product in (np.matmul, np.dot):
        assert_same(fg.grad(lambda w: np.sum(product(made, w) ** 2))(W), expected)


def test_a_function_compiled_by_numba_refuses_tensors():
    import numba

    with pytest.raises(errors.MissingRuleError, match="a function compiled by numba has no derivative rule"):
        fg.grad(numba.njit(lambda x: x.sum()))(W)


def test_the_unused_zeros_of_a_mask_win_over_infinities():
    def loss(w, x):
        return np.sum(np.where(np.arange(12) == 5, 0.0, np.sqrt(x @ w)))

    w = np.array([1.0, 2.0, 0.0])
    plain = np.abs(DENSE) + np.array([1.0, 0.0, 0.0])
    plain[5] = 0.0
    for way in (fg.grad, fg.hessian):
        found = way(loss)(w, sparse.COO.from_numpy(plain))
        assert np.isfinite(dense(found)[0]).all()
        assert_same(found, way(loss)(w, plain))


def test_the_examples_of_the_page():
    names = {}
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(block, names)
    x = names["x"].todense()
    found = fg.grad(names["loss"])(np.zeros(3)), fg.hessian(names["loss"])(np.zeros(3))
    assert {type(each) for each in shown(found)} == {np.ndarray}
    assert_same(found, (-x.mean(axis=0) / 2, x.T @ x / 4000))


def thinned(x):
    """Return an array with zeros in every other place."""
    return np.where(np.arange(x.size).reshape(x.shape) % 2 == 0, x, 0 * x)


@pytest.mark.parametrize("name", SAMPLED)
def test_every_primitive_on_sparse_arrays(name):
    outcomes = set()
    for way in (value, cotangents, tangents):
        for call in examples(name):
            for plain in (call.arrays, tuple(map(thinned, call.arrays))):
                with naming(way.__name__, plain), np.errstate(all="ignore"):
                    try:
                        expected = way(call, plain)
                    except (np.linalg.LinAlgError, errors.NoDerivativeError):
                        continue  # of a matrix that the zeros have made singular
                    outcome, found = tried(way, call, tuple(map(sparse.COO.from_numpy, plain)), "sparse")
                    outcomes.add(outcome)
                    if outcome == "works":
                        assert_same(found, expected)
    known = {"works"} if name in OF_SPARSE else {"refused"} if name in REFUSED_BY_SPARSE else {"works", "refused"}
    assert outcomes == known
