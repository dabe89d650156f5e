"""`fgrad.scipy.sparse`: every call of its table, SciPy's own arrays as constants, large equations, errors."""

import copy
import pickle
import re

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import scipy_sparse_table as table
from rows import check_calls, identified, with_calls

import fgrad as fg
import fgrad.scipy.linalg
import fgrad.scipy.sparse
from fgrad import errors
from fgrad.core.tensor import Tensor
from fgrad.scipy.sparse.linalg import direct
from fgrad.testing import check_grads

S, L = fgrad.scipy.sparse, fgrad.scipy.sparse.linalg
RNG = np.random.default_rng(3)
DENSE = np.array([[4.0, 1.0, 0.0], [0.0, -3.0, 2.0], [1.0, 0.0, 5.0]])
X = np.array([1.0, -2.0, 0.5])
PLACES = tuple(np.nonzero(DENSE))
DATA = DENSE[PLACES]


def array(data=DATA):
    return S.csr_array((data, PLACES), shape=(3, 3))


def constant(kind="csr_array"):
    return getattr(scipy.sparse, kind)(DENSE)


@pytest.mark.parametrize("row", with_calls(table.DIFFERENTIABLE))
def test_values_and_derivatives(row):
    """SciPy's values; both modes to second order; single precision; batches."""
    check_calls(row)


def as_dense(x):
    return x.toarray() if S.issparse(x) else x


# SciPy's own arrays and matrices

FORMATS = ("csr", "csc", "coo", "dia", "bsr", "lil", "dok")
OPERATORS = {
    "a @ x": lambda a, x: a @ x,
    "a @ columns": lambda a, x: a @ np.stack([x, x * x], axis=1),
    "x @ a": lambda a, x: x @ a,
    "rows @ a": lambda a, x: np.stack([x, x * x]) @ a,
    "a.T @ x": lambda a, x: a.T @ x,
    "np.matmul": lambda a, x: np.matmul(a, x),
    "a / x": lambda a, x: a / x,
    "a / number": lambda a, x: a / x[1],
    "number * a": lambda a, x: x[1] * a,
    "a + matrix": lambda a, x: a + np.outer(x, x),
    "matrix - a": lambda a, x: np.outer(x, x) - a,
}


@pytest.mark.parametrize("kind", [f"{name}_{of}" for name in FORMATS for of in ("array", "matrix")])
def test_scipys_arrays_are_constants_in_operators_with_tensors(kind):
    constant_array = constant(kind)
    for name, operator in OPERATORS.items():
        found, tangent = fg.jvp(lambda x, f=operator: as_dense(f(constant_array, x)), (X,), (X,))
        expected, moved = fg.jvp(lambda x, f=operator: f(DENSE, x), (X,), (X,))
        np.testing.assert_allclose(found, expected, rtol=1e-14, err_msg=name)
        np.testing.assert_allclose(tangent, moved, rtol=1e-14, err_msg=name)


@pytest.mark.parametrize("kind", ["csr_array", "csr_matrix", "coo_matrix"])
def test_both_modes_batches_and_variables_with_scipys_arrays(kind):
    a = constant(kind)
    check_grads(lambda x: np.sin(a @ x) * (x @ a), (X,), order=2)
    batch = np.stack([X, 2 * X])
    np.testing.assert_allclose(fg.vmap(lambda x: a @ x)(batch), batch @ DENSE.T)
    variable = fg.Variable(X)
    with fg.GradientTape() as tape:
        y = np.sum((a @ variable) ** 2)
    np.testing.assert_allclose(tape.gradient(y, variable), 2 * DENSE.T @ (DENSE @ X))
    assert type(a @ fg.constant(X)) in (Tensor, np.ndarray)


def test_star_of_a_matrix_is_its_product_and_of_an_array_is_not():
    matrix, a = constant("csr_matrix"), constant()
    np.testing.assert_allclose(fg.jacobian(lambda x: matrix * x)(X), DENSE)
    np.testing.assert_allclose(fg.jacobian(lambda x: x * matrix)(X), DENSE.T)
    np.testing.assert_allclose(fg.grad(lambda x: (x * a).sum())(X), DENSE.sum(axis=0))
    np.testing.assert_allclose(fg.grad(lambda x: (x[0] * matrix).sum())(X), [DENSE.sum(), 0, 0])


def test_what_scipy_would_compute_with_objects_is_refused():
    a = constant()
    for right in (lambda x: a * x, lambda x: a.multiply(x)):  # sums of objects are sums of traced numbers
        np.testing.assert_allclose(fg.grad(lambda x, f=right: f(x).sum())(X), DENSE.sum(0))
    for wrong in (lambda x: a * x, lambda x: a.multiply(x)):
        with pytest.raises(
            errors.ScipyCallError, match=r"x \* a and a / x accept(.|\n)*fgrad\.scipy\.sparse\.csr_array\(a\)"
        ):
            fg.grad(lambda x, wrong=wrong: np.sum(wrong(x).toarray()))(X)
    with pytest.raises((ValueError, NotImplementedError)) as raised:
        fg.grad(lambda x: a.maximum(x).sum())(X)
    assert "csr_array.maximum takes plain arrays" in raised.value.__notes__[0]
    with pytest.raises(errors.ScipyCallError, match=r"write fgrad\.scipy\.sparse\.csr_array in place of SciPy's class"):
        fg.grad(lambda x: scipy.sparse.csr_array((x, PLACES)).sum())(DATA)
    with pytest.raises(errors.ScipyCallError, match=r"Write fgrad\.scipy\.sparse\.linalg\.spsolve"):
        fg.grad(lambda x: np.sum(scipy.sparse.linalg.spsolve(a.tocsc(), x)))(X)
    with pytest.raises(errors.StructureError, match=r"combined with a csr_array by power"):
        fg.grad(lambda x: x[0] ** a)(X)


def test_a_write_to_scipys_array_does_not_reach_what_is_recorded():
    a, data = constant(), DATA.copy()
    pullback = fg.vjp(lambda x: a @ x, X)[1]
    a.data *= 7
    np.testing.assert_allclose(pullback(X)[0], DENSE.T @ X)
    rows = PLACES[0].copy()
    ours = S.csr_array((data, (rows, PLACES[1])))
    rows[:] = 0
    np.testing.assert_allclose(ours.toarray(), DENSE)


# Arrays as containers


def loss(a, x):
    return np.sum(np.sin(a @ x) * L.spsolve(a, x))


def test_an_array_is_an_argument_and_a_result_of_transforms():
    by_data, by_x = fg.grad(loss, argnums=(0, 1))(array(), X)
    dense = fg.grad(lambda a, x: np.sum(np.sin(a @ x) * np.linalg.solve(a, x)), argnums=(0, 1))(DENSE, X)
    np.testing.assert_allclose(by_data.toarray(), np.where(DENSE, dense[0].numpy(), 0), rtol=1e-12)
    np.testing.assert_allclose(by_x, dense[1], rtol=1e-12)
    assert type(by_data) is S.csr_array
    assert by_data.pattern == array().pattern
    np.testing.assert_allclose(fg.grad(fg.checkpoint(loss))(array(), X).data, by_data.data)
    product = fg.hvp(lambda a: loss(a, X))(array(), array())
    full = fg.hessian(lambda data: loss(array(data), X))(DATA)
    np.testing.assert_allclose(product.data, full @ DATA, rtol=1e-10)
    by_row = fg.jacobian(lambda a: a @ X)(array())
    assert by_row.data.shape == (3, 6)
    twice = fg.vmap(lambda data: array(data) * 2.0)(np.stack([DATA, -DATA]))
    np.testing.assert_allclose(twice.data, [2 * DATA, -2 * DATA])
    np.testing.assert_allclose(fg.vmap(loss, in_axes=(0, None))(twice, X), [loss(array(f * DATA), X) for f in (2, -2)])


def test_optimizers_and_tapes_take_arrays():
    optimizer, a = fg.optimizers.GradientDescent(0.1), array()
    state = optimizer.init(a)
    moved, _ = optimizer.update(fg.grad(lambda a: (a * a).sum())(a), state, a)
    np.testing.assert_allclose(moved.toarray(), 0.8 * DENSE)
    variable = fg.Variable(DATA)
    with fg.GradientTape(persistent=True) as tape:
        y = loss(array(variable), X)
    np.testing.assert_allclose(tape.gradient(y, variable), fg.grad(loss)(a, X).data, rtol=1e-12)


def test_copies_of_arrays_are_equal_and_cannot_be_changed():
    for same in (pickle.loads(pickle.dumps(array())), copy.deepcopy(array()), array().copy(), +array()):
        assert same.pattern == array().pattern
        np.testing.assert_array_equal(same.data, DATA)
    with pytest.raises(errors.UnsupportedError, match=r"is immutable(.|\n)*A\.with_data"):
        array().data = DATA
    with pytest.raises(errors.UnsupportedError, match="is immutable"):
        array()[0, 1] = 2.0
    np.testing.assert_array_equal(array().toscipy().toarray(), DENSE)
    assert array().pattern != array().tocsc().pattern


def test_many_elements_are_not_all_printed():
    assert repr(array(np.ones(6))) == "<csr_array of 3 x 3 with 6 stored elements: array([1., 1., 1., 1., 1., 1.])>"
    jacobian = fg.compile(fg.sparse_jacobian(lambda x: x[1:] * x[:-1]))(np.ones(203))
    text = repr(jacobian).replace(", shape=(404,)", "")  # which some versions of NumPy say
    assert text == "<csr_array of 202 x 203 with 404 stored elements: Tensor([1., 1., ..., 1., 1.])>"
    assert str(jacobian) == repr(jacobian)


def test_compiled_programs_give_the_same():
    compiled = fg.compile(fg.grad(lambda data, x: loss(array(data), x)))
    for factor in (1.0, 2.0):
        expected = fg.grad(loss)(array(factor * DATA), X).data
        np.testing.assert_allclose(compiled(factor * DATA, X), expected, rtol=1e-12)
    with pytest.raises(errors.ConvergenceError, match="info=1"):
        fg.compile(lambda b: L.gmres(array(), b, maxiter=1, restart=1)[0])(X)


# Equations


def chain(conductivity):
    """Return the matrix of heat conduction along a chain that is held at its ends."""
    k = conductivity
    return S.diags_array([k[:-1] + k[1:], -k[1:-1], -k[1:-1]], offsets=[0, 1, -1], format="csc")


def test_a_hundred_thousand_unknowns():
    """For all conductivities 1, the derivative of the sum of temperatures is minus the square of their slope."""
    n = 100_000

    def total(conductivity):
        return np.sum(L.spsolve(chain(conductivity), np.ones(n))) / n**3

    gradient = fg.grad(total)(np.ones(n + 1))
    slopes = (n + 1) / 2 - (np.arange(n + 1) + 0.5)
    expected = -(slopes**2) / n**3
    rounding = np.finfo(float).eps * (2 * n / np.pi) ** 2  # times the condition of the matrix
    np.testing.assert_allclose(gradient, expected, rtol=rounding, atol=rounding * np.max(np.abs(expected)))


@pytest.mark.parametrize("solve", [L.spsolve, lambda a, b: L.splu(a).solve(b), lambda a, b: L.factorized(a)(b)])
def test_a_matrix_is_factored_once_for_derivatives_of_all_orders(solve, monkeypatch):
    calls = []
    original = direct._SCIPY.splu
    monkeypatch.setattr(direct._SCIPY, "splu", lambda *args, **options: calls.append(1) or original(*args, **options))
    fg.grad(lambda data: np.sum(solve(array(data), X) ** 2))(DATA)
    assert len(calls) == 1
    fg.hvp(lambda data: np.sum(solve(array(data), X) ** 2))(DATA, DATA)
    assert len(calls) == 2


def test_poisson_with_an_unknown_coefficient_against_dense_equations():
    k, source = 1 + RNG.uniform(size=31), RNG.uniform(size=30)

    def misfit(k, solve):
        return np.sum((solve(chain(k), source) - 1) ** 2)

    sparse = fg.value_and_grad(lambda k: misfit(k, L.spsolve))(k)
    dense = fg.value_and_grad(lambda k: misfit(k, lambda a, b: np.linalg.solve(a.toarray(), b)))(k)
    for ours, expected in zip(sparse, dense, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9)


def test_singular_matrices_are_scipys():
    with pytest.warns(scipy.sparse.linalg.MatrixRankWarning, match="exactly singular"):
        assert np.all(np.isnan(fg.grad(lambda d: np.sum(L.spsolve(S.diags_array(d), X)))(np.array([1.0, 0.0, 1.0]))))
    with pytest.raises(RuntimeError, match="exactly singular"):
        fg.grad(lambda d: np.sum(L.splu(S.diags_array(d)).solve(X)))(np.array([1.0, 0.0, 1.0]))


def test_splu_tells_its_size_and_refuses_other_transposes():
    factors = L.splu(array())
    assert (factors.shape, factors.nnz) == ((3, 3), scipy.sparse.linalg.splu(constant().tocsc()).nnz)
    assert repr(factors) == "<SuperLU of 3 x 3, differentiated>"
    with pytest.raises(ValueError, match="trans must be N, T, or H"):
        factors.solve(X, "n")


# Iterations


def test_what_has_not_converged_is_said_and_not_differentiated():
    def first_steps(b):
        return L.gmres(array(), b, maxiter=1, restart=1, rtol=1e-14)

    (x, info), _ = fg.vjp(first_steps, X)
    np.testing.assert_array_equal(x, scipy.sparse.linalg.gmres(constant(), X, maxiter=1, restart=1, rtol=1e-14)[0])
    assert info == 1
    for transform in (lambda f: fg.grad(lambda b: np.sum(f(b)))(X), lambda f: fg.jvp(f, (X,), (X,))):
        with pytest.raises(errors.ConvergenceError, match=r"gmres did not solve the system(.|\n)*maxiter"):
            transform(lambda b: first_steps(b)[0])


def test_preconditioners_are_transposed_and_callbacks_are_for_the_system_itself():
    counts, products = [], []

    def approximate(x):
        products.append(1)
        return x / np.diag(DENSE)

    without_transpose = scipy.sparse.linalg.LinearOperator((3, 3), approximate)
    expected = fg.grad(lambda b: np.sum(np.linalg.solve(DENSE, b) ** 2))(X)
    for preconditioner in (
        without_transpose,
        scipy.sparse.diags_array(1 / np.diag(DENSE)),
        S.diags_array(1 / np.diag(DENSE)),
    ):

        def solved(b, preconditioner=preconditioner):
            return L.bicgstab(array(), b, rtol=1e-13, M=preconditioner, callback=lambda x: counts.append(1))[0]

        before = len(counts)
        gradient = fg.grad(lambda b: np.sum(solved(b) ** 2))(X)
        np.testing.assert_allclose(gradient, expected, rtol=1e-9)
        during, _ = len(counts) - before, solved(X)
        assert len(counts) - before == 2 * during > 0
    assert products


PRECONDITIONERS = {
    "dense": lambda data: data * np.eye(3),
    "SciPy's": lambda data: scipy.sparse.diags_array(data, format="csr"),
    "ours": lambda data: S.diags_array(data),
}


@pytest.mark.parametrize("kind", PRECONDITIONERS)
def test_a_preconditioner_may_be_overwritten_before_the_pass_back(kind):
    """With one of NaN nothing would converge."""

    def slope(overwritten):
        preconditioner = PRECONDITIONERS[kind](1 / np.diag(DENSE))
        _, pullback = fg.vjp(lambda b: L.gmres(array(), b, rtol=1e-13, M=preconditioner)[0], X)
        if overwritten:
            written = preconditioner if kind == "dense" else preconditioner.data
            written[...] = np.nan
        return pullback(np.ones(3))[0].tolist()

    assert slope(True) == slope(False)


def test_starts_that_differ_in_a_batch_are_not_used():
    found = fg.vmap(lambda b, x0: L.gmres(array(), b, x0, rtol=1e-13)[0])(np.stack([X, -X]), np.ones((2, 3)))
    np.testing.assert_allclose(found, np.linalg.solve(DENSE, np.stack([X, -X]).T).T, rtol=1e-9)


# Eigenvalues and exponentials


def plane(n):
    line = S.diags_array([np.full(n, 2.0), np.full(n - 1, -1.0), np.full(n - 1, -1.0)], offsets=[0, 1, -1])
    return S.kron(line, S.eye_array(n)) + S.kron(S.eye_array(n), line)


def test_eigenvalues_and_vectors_are_those_of_the_dense_matrix():
    potential = RNG.uniform(size=36)

    def lowest(eigh):
        def call(potential):
            w, v = eigh(plane(6) + S.diags_array(potential))
            return np.sum(w[:3] * np.array([1.0, 2.0, 3.0])) + np.sum(np.sum(v[:20, :3] ** 2, axis=0) ** 2)

        return call

    sparse = lowest(lambda a: L.eigsh(a, k=3, sigma=0.0))
    dense = lowest(lambda a: np.linalg.eigh(a.toarray()))
    for derivative in (fg.grad, lambda f: lambda x: fg.hvp(f)(x, x)):
        np.testing.assert_allclose(derivative(sparse)(potential), derivative(dense)(potential), rtol=1e-6, atol=1e-9)


def test_the_pullback_of_eigenvectors_is_linear_where_the_cotangent_is_zero_too():
    def squares(data):
        return np.abs(L.eigsh(table.definite(data), k=2, which="SA")[1]) ** 2

    tangent = np.cos(np.arange(table.DEFINITE.size))
    expected = fg.jvp(squares, (table.DEFINITE,), (tangent,))[1]
    np.testing.assert_allclose(fg.linearize(squares, table.DEFINITE)[1](tangent), expected, rtol=1e-9)
    value, pullback = fg.vjp(squares, table.DEFINITE)
    transposed = fg.vjp(pullback, np.zeros_like(value))[1]
    np.testing.assert_allclose(transposed((tangent,))[0], expected, rtol=1e-9)


def test_second_derivatives_of_complex_eigenvectors_in_a_batch():
    points = np.stack([table.DEFINITE, 1.5 * table.DEFINITE, np.cos(table.DEFINITE) / 4 + table.DEFINITE])
    along = np.sin(np.arange(table.DEFINITE.size))

    def first(t, x):
        return np.abs(L.eigsh(table.definite(x + t[0] * along + t[1] * x + 0j), k=1, which="SA")[1][0, 0]) ** 2

    second = fg.jacrev(fg.jacrev(first))
    found = fg.vmap(second, in_axes=(None, 0))(np.zeros(2), points)
    np.testing.assert_allclose(found, np.stack([second(np.zeros(2), x) for x in points]), rtol=1e-9, atol=1e-12)


def test_eigenvectors_that_are_chosen_arbitrarily_have_no_derivative():
    with pytest.raises(errors.NoDerivativeError, match="belongs to a repeated eigenvalue"):
        fg.grad(lambda d: np.sum(L.eigsh(S.diags_array(d), k=2)[1] ** 4))(np.ones(5))
    with pytest.raises(errors.NoDerivativeError, match="phase of a complex eigenvector"):
        fg.grad(lambda d: np.imag(L.eigsh(S.diags_array(d * (1 + 0j)), k=1)[1][4, 0]))(np.arange(1.0, 6.0))
    values = fg.grad(lambda d: np.sum(L.eigsh(S.diags_array(d), k=2, return_eigenvectors=False)))(np.ones(5))
    np.testing.assert_allclose(np.sum(values), 2.0)


def test_exponentials_of_large_norm_are_those_of_the_dense_matrix():
    data = 8 * RNG.standard_normal(6)

    def sparse(data, x):
        return L.expm_multiply(array(data), x)

    def dense(data, x):
        return fgrad.scipy.linalg.expm(array(data).toarray()) @ x

    for ours, expected in zip(fg.vjp(sparse, data, X), fg.vjp(dense, data, X), strict=True):
        for left, right in zip(*(each(X) if callable(each) else (each,) for each in (ours, expected)), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9 * np.max(np.abs(right)))


# Errors

PRODUCT = scipy.sparse.linalg.aslinearoperator(DENSE)
REFUSED = [
    ("a dense array", lambda x: S.csr_array(np.outer(x, x)), errors.StructureError, r"csr_array\(\(a\[i, j\]"),
    ("nested lists", lambda x: S.csc_array([[x[0], 0.0]]).sum(), errors.StructureError, "not known to be constant"),
    ("columns of elements", lambda x: S.coo_array((np.outer(x, x), PLACES)).sum(), errors.ShapeError, "fg.vmap"),
    ("too few elements", lambda x: array().with_data(x).sum(), errors.ShapeError, "there are 6 places"),
    ("a row", lambda x: (array() * x)[0].sum(), errors.ShapeError, r"A\[\[i\]\]"),
    ("a column", lambda x: (array() * x)[:, 1].sum(), errors.ShapeError, r"A\[:, \[j\]\]"),
    ("a comparison", lambda x: array() * x == array(), errors.UnsupportedError, r"A\.data with B\.data"),
    ("an order", lambda x: array() * x < x, errors.UnsupportedError, r"A\.data with B\.data"),
    ("another format", lambda x: (array() * x).asformat("lil"), errors.UnsupportedError, "'lil' was requested"),
    ("a division by one", lambda x: array() / (array() * x), errors.UnsupportedError, "0 in most places"),
    ("an array of NumPy", lambda x: np.dot(array() * x, np.ones(3)), errors.StructureError, r"A\.toarray\(\)"),
    ("an added number", lambda x: array() + x[0], NotImplementedError, "nonzero scalar"),
    ("a power", lambda x: (array() * x) ** 0, NotImplementedError, "not a positive number"),
    ("other columns", lambda x: array() @ x[:2], ValueError, "dimension mismatch"),
    ("a number by @", lambda x: array() @ x[0], ValueError, r"write A \* x"),
    ("a stack", lambda x: array() @ np.ones((2, 3, 3)) * x, ValueError, "fg.vmap"),
    ("other shapes", lambda x: (array() * x) * np.ones((2, 3)), ValueError, "inconsistent shapes|broadcast"),
    ("sums over a third axis", lambda x: (array() * x).sum(axis=2), ValueError, "axis 2 is out of bounds"),
    ("a sparse right-hand side", lambda x: L.spsolve(array() * x, array()), errors.StructureError, r"b\.toarray\(\)"),
    ("a product alone", lambda x: L.cg(PRODUCT, x), errors.StructureError, "implicit_diff"),
    ("columns for cg", lambda x: L.cg(array(), np.outer(x, x)), ValueError, "incompatible"),
    ("complex minres", lambda x: L.minres(array(), 1j * x), errors.UnsupportedError, "gmres"),
    ("not square", lambda x: L.spsolve(array()[:2] * x, x), ValueError, "square"),
    ("sizes of equations", lambda x: L.spsolve(array(), x[:2]), ValueError, "dimension mismatch"),
    ("generalized eigenvalues", lambda x: L.eigsh(array() * x, 1, S.eye_array(3)), errors.UnsupportedError, "inv"),
    ("times", lambda x: L.expm_multiply(array(), x, 0, 1, 3), errors.UnsupportedError, r"expm_multiply\(A \* t, B\)"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "error", "text"), identified(REFUSED))
def test_mistakes_say_what_to_write(f, error, text):
    with pytest.raises(error, match=text):
        fg.vjp(f, X)


@pytest.mark.parametrize(
    ("look", "text"),
    [
        (lambda: array().diagnoal, "Did you mean diagonal"),
        (lambda: array().maximum, r"which SciPy's has(.|\n)*A\.data"),
        (lambda: S.csr_aray, "Did you mean csr_array"),
        (lambda: S.csr_matrix, "Instead: csr_array"),
        (lambda: S.save_npz, r"scipy\.sparse\.save_npz has no derivative in fgrad"),
        (lambda: L.lsqr, r"Instead: spsolve\(A\.T @ A, A\.T @ b\)"),
        (lambda: L.spslove, "Did you mean spsolve"),
    ],
)
def test_names_that_are_missing_say_what_there_is(look, text):
    with pytest.raises(AttributeError, match=text):
        look()


def test_arrays_are_no_arrays_of_numpy():
    with pytest.raises(TypeError, match="ufunc"):
        np.sin(array())
    for function in (bool, len, iter):
        with pytest.raises((TypeError, ValueError), match=re.escape("ambiguous") + "|not iterable"):
            function(array())


@pytest.mark.parametrize("which", ["LM", "SM", "LA", "SA"])
@pytest.mark.parametrize("sigma", [None, 0.3])
@pytest.mark.parametrize("phase", [1.0, 1j])
def test_eigenvalues_without_vectors_are_in_scipys_order(which, sigma, phase):
    """Which is another one than with vectors."""
    options = {"which": which, "sigma": sigma, "v0": np.linspace(1, 2, 12)}  # the order depends on the start
    upper = np.triu(np.random.default_rng(4).normal(size=(12, 12)), 1)
    matrix = phase * upper + np.conj(phase) * upper.T + np.diag(np.linspace(-3, 2, 12))
    found, moved = fg.jvp(
        lambda a: L.eigsh(a, k=4, **options, return_eigenvectors=False), (matrix,), (matrix @ matrix,)
    )
    expected = scipy.sparse.linalg.eigsh(matrix, k=4, **options, return_eigenvectors=False)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(moved, expected**2, rtol=1e-8)
    pairs = fg.jvp(lambda a: L.eigsh(a, k=4, **options), (matrix,), (matrix @ matrix,))[0]
    with_vectors = scipy.sparse.linalg.eigsh(matrix, k=4, **options)[0]
    np.testing.assert_allclose(pairs[0], with_vectors, rtol=1e-9)


@pytest.mark.parametrize(("dtype", "most"), [(float, 3), (complex, 2)])
def test_arpack_finds_fewer_eigenvalues_than_there_are(dtype, most):
    a = np.diag(np.arange(1.0, 5.0)).astype(dtype)
    assert fg.vjp(lambda a: fgrad.scipy.sparse.linalg.eigsh(a, most)[0], a)[0].shape == (most,)
    with pytest.raises(errors.UnsupportedError, match=f"ARPACK finds {most} eigenvalues at most(.|\n)*np.linalg.eigh"):
        fg.vjp(lambda a: fgrad.scipy.sparse.linalg.eigsh(a, most + 1)[0], a)
