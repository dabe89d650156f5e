"""Functions of JAX as operations here, gradients for other libraries, and what is said where one is not installed."""

import importlib.util
import pickle
import re
import subprocess
import sys
import types
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivatives import check_derivatives

import fgrad as fg
import fgrad.scipy.special
from fgrad import errors
from fgrad.interop import from_jax, from_torch, jax_functions, register_einops, to_torch, torch_functions
from fgrad.scipy import integrate, optimize

X, Y = np.array([0.3, 0.9]), np.array([0.5, 3.0])


def in_jax(x, y):
    return jnp.sin(x) * y, {"s": jnp.sum(x * y * y)}


def in_numpy(x, y):
    return np.sin(x) * y, {"s": np.sum(x * y * y)}


def program(f):
    """Return a function of two vectors to a number, in which `f` stands among other operations."""

    def run(x, y):
        product, rest = f(np.exp(x), y)
        return np.sum(product**2) + rest["s"]

    return run


def sinus(x):
    return jnp.sin(x)


TRANSFORMS = {
    "grad": fg.grad,
    "value_and_grad": fg.value_and_grad,
    "by both": lambda f: fg.grad(f, argnums=(0, 1)),
    "hessian": fg.hessian,
    "reverse over reverse": lambda f: fg.jacrev(fg.grad(f, argnums=1)),
    "forward over reverse": lambda f: fg.jacfwd(fg.jacrev(f)),
    "reverse over forward": lambda f: fg.jacrev(fg.jacfwd(f)),
    "third order": lambda f: lambda x, y: fg.jvp(lambda x: fg.hvp(lambda x: f(x, y))(x, y), (x,), (y,))[1],
    "third order in reverse": lambda f: (
        lambda x, y: fg.grad(lambda x: y @ fg.grad(lambda x: x @ fg.grad(f)(x, y) * y[0])(x))(x)
    ),
    "hvp": lambda f: lambda x, y: fg.hvp(lambda x: f(x, y))(x, y),
    "vmap": lambda f: lambda x, y: fg.vmap(f)(np.stack([x, y]), np.stack([y, y])),
    "vmap of some": lambda f: lambda x, y: fg.vmap(f, in_axes=(1, None))(np.stack([x, y, x], 1), y),
    "vmap of grad": lambda f: lambda x, y: fg.vmap(fg.grad(f, argnums=(0, 1)), in_axes=(0, None))(np.stack([x, y]), y),
    "grad of vmap": lambda f: fg.grad(lambda x, y: np.sum(fg.vmap(f, in_axes=(0, None))(np.stack([x, 2 * x]), y))),
    "vmap of vmap": lambda f: (
        lambda x, y: fg.vmap(lambda x: fg.vmap(lambda y: f(x, y))(np.stack([y, x])))(np.stack([x, y]))
    ),
    "linearize": lambda f: lambda x, y: fg.linearize(f, x, y)[1](y, x),
    "checkpoint": lambda f: fg.grad(fg.checkpoint(f)),
    "trace": lambda f: lambda x, y: fg.trace(fg.grad(f))(x, y)(y, x),
    "compile": lambda f: lambda x, y: fg.compile(fg.grad(f))(x, y),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_give_what_they_give_for_the_same_function_in_numpy(name):
    transform = TRANSFORMS[name]
    found, expected = (fg.tree_leaves(transform(program(f))(X, Y)) for f in (from_jax(in_jax), in_numpy))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_derivatives_agree_with_finite_differences():
    check_derivatives(program(from_jax(in_jax)), (X, Y), order=2)
    check_derivatives(from_jax(lambda z: jnp.exp(z) * jnp.conj(z)), (X + 1j * Y,), order=2)


def test_complex_gradients_are_in_the_users_convention():
    def length(module):
        return lambda z: module.sum(module.abs(z * z * (1 + 2j)) ** 2)

    z = X + 1j * Y
    np.testing.assert_allclose(fg.grad(from_jax(length(jnp)))(z), fg.grad(length(np))(z))
    (found,) = fg.vjp(from_jax(lambda z: z**2), z)[1](np.array([1j, 2.0]))
    np.testing.assert_allclose(found, fg.vjp(lambda z: z**2, z)[1](np.array([1j, 2.0]))[0])


def test_tapes_record_it_persistent_ones_their_own_passes_too():
    with fg.GradientTape(persistent=True) as tape:
        x = fg.constant(X)
        tape.watch(x)
        y = from_jax(jnp.sin)(x)
        first = tape.gradient(y, x)
    np.testing.assert_allclose(first, np.cos(X))
    np.testing.assert_allclose(tape.gradient(first, x), -np.sin(X))
    np.testing.assert_allclose(tape.jacobian(y, x), np.diag(np.cos(X)), atol=1e-15)


def test_variables_may_be_arguments():
    w = fg.Variable(2.0)
    ((gradient, variable),) = fg.implicit_gradients(lambda: from_jax(jnp.square)(w))()
    assert gradient == 4.0
    assert variable is w


# Containers and arguments


def test_containers_and_keywords_reach_the_function_and_come_back():
    @from_jax
    def function(tree, *, scale, name="", n=2):
        assert name == "given"
        assert type(n) is int
        assert isinstance(tree["a"][0], jax.Array)
        return [tree["a"][0] * scale, {"n": tree["b"] ** n}], None

    tree = {"a": (X, 3), "b": 2.0}
    (first, rest), nothing = function(tree, scale=np.float64(3.0), name="given")
    np.testing.assert_array_equal(first, X * 3)
    assert (rest, nothing) == ({"n": 4.0}, None)
    gradient = fg.grad(lambda b: function({"a": (X, 3), "b": b}, scale=Y, name="given", n=3)[0][1]["n"])(2.0)
    assert gradient == 12.0


def test_decorated_functions_and_methods():
    class Model:
        power = 3

        @from_jax
        def value(self, x):
            """Return a power."""
            return x**self.power

    assert fg.grad(Model().value)(2.0) == 12.0
    assert Model.value.__doc__ == "Return a power."


def test_it_can_be_pickled():
    assert pickle.loads(pickle.dumps(from_jax(sinus)))(0.5) == np.sin(0.5)


def test_integers_carry_no_derivative_and_may_be_results():
    f = from_jax(lambda a, i, n: (a[i] * n, i + 1))
    i = np.array([1, 1])
    values, integers = f(X, i, 3)
    np.testing.assert_allclose(values, 3 * X[i])
    np.testing.assert_array_equal(integers, [2, 2])
    np.testing.assert_array_equal(fg.jacobian(lambda a: f(a, i, 3)[0])(X), [[0, 3], [0, 3]])
    (_, integers), (tangent, none) = fg.jvp(lambda a: f(a, i, 3), (X,), (np.ones(2),))
    np.testing.assert_array_equal(tangent, [3, 3])
    np.testing.assert_array_equal(none, [0, 0])
    np.testing.assert_array_equal(fg.vmap(lambda i: f(X, i, 2)[0])(np.array([1, 0])), 2 * X[::-1])
    gradients = fg.vmap(fg.grad(lambda a, i: f(a, i, 3)[0]), in_axes=(None, 0))(X, np.array([1, 0]))
    np.testing.assert_array_equal(gradients, [[0, 3], [3, 0]])


def test_random_keys_and_arrays_of_jax_pass_as_they_are():
    key = jax.random.key(0)
    f = from_jax(lambda key, shift, x: jax.random.normal(key, x.shape, x.dtype) * x + shift)
    with jax.enable_x64(True):
        drawn = np.asarray(jax.random.normal(key, (2,), float))
    np.testing.assert_allclose(fg.jvp(lambda x: f(key, jnp.ones(2), x), (X,), (X,))[1], drawn * X)


# Dtypes


@pytest.mark.parametrize(
    "value", [2.0, 2, 2j, np.float64(2), np.array([2.0]), np.array([1.0, 2.0])[::-1], X.astype(">f8")]
)
def test_64_bits_stay_64_bits(value):
    assert not jax.config.jax_enable_x64
    found = from_jax(jnp.sin)(value)
    assert found.dtype.itemsize == (16 if found.dtype.kind == "c" else 8)
    np.testing.assert_allclose(found, np.sin(value), rtol=1e-14)
    assert not jax.config.jax_enable_x64


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">c16"])
def test_traced_arrays_of_the_other_byte_order(dtype):
    x = X.astype(dtype)
    value, pullback = fg.vjp(from_jax(lambda x: jnp.sin(x) * x), x)
    np.testing.assert_allclose(value, np.sin(X) * X, rtol=1e-6)
    np.testing.assert_allclose(pullback(np.ones_like(value))[0], np.cos(X) * X + np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(fg.jvp(from_jax(jnp.sin), (x,), (x,))[1], np.cos(X) * X, rtol=1e-6)


def test_derivatives_have_64_bits_too():
    scaled = np.array([1.0, 1e-10])
    gradient = fg.grad(lambda x: np.sum(from_jax(lambda x: (1 + x) ** 2)(x)))(scaled)
    assert gradient[1] == 2 * (1 + 1e-10)
    assert fg.hessian(from_jax(lambda x: jnp.sum(x**3)))(scaled)[1, 1] == 6e-10


def test_32_bits_stay_32_bits():
    x = np.ones(2, np.float32)
    for result in (
        from_jax(jnp.sin)(x),
        from_jax(lambda x: x + jnp.zeros(2))(x),
        from_jax(lambda x, c: x * c)(x, 2.0),
        fg.grad(lambda x: np.sum(from_jax(jnp.sin)(x)))(x),
        fg.jvp(from_jax(jnp.sin), (x,), (x,))[1],
    ):
        assert result.dtype == np.float32


def test_dtypes_that_one_side_lacks_are_refused():
    if np.dtype(np.longdouble).itemsize > 8:
        with pytest.raises(errors.DtypeError, match=r"JAX has no arrays of dtype float\d+.\n.*x.astype"):
            from_jax(jnp.sin)(np.ones(2, np.longdouble))
    with pytest.raises(errors.DtypeError, match="dtype bfloat16, which NumPy does not support"):
        from_jax(lambda x: x.astype(jnp.bfloat16))(X)


# Memory


def test_results_share_memory_with_jax_and_can_be_written_to_without_harm():
    made = []

    @from_jax
    def doubled(x):
        made.append(x * 2)
        return made[-1]

    y = doubled(X)
    assert np.shares_memory(y.value, np.asarray(made[0]))
    y[0] = 9.0
    np.testing.assert_array_equal(made[0], X * 2)


def test_large_aligned_arrays_reach_jax_without_a_copy():
    memory = np.zeros(8 * 20_000 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    x = memory[start : start + 8 * 20_000].view(np.float64)
    addresses = []
    from_jax(lambda x: addresses.append(x.unsafe_buffer_pointer()) or x[0])(x)
    assert addresses == [x.ctypes.data]


def test_what_it_returns_as_it_is_shares_no_memory_with_the_array_that_was_passed():
    memory = np.zeros(8 * 20_000 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    x = memory[start : start + 8 * 20_000].view(np.float64)
    identity = from_jax(lambda x: (x, x.reshape(2, -1)))
    value, (one, other) = fg.vjp(identity, x)[1]((x, x.reshape(2, -1)))[0], identity(x)
    for result in (value, one, other, *fg.jvp(identity, (x,), (x,))[1]):
        assert not np.shares_memory(result.value, x)


@pytest.mark.parametrize("size", [10, 100_000])
def test_an_input_may_be_overwritten_before_the_pass(size):
    x = np.ones(size)
    _, pullback = fg.vjp(from_jax(jnp.sin), x)
    x[:] = 3.0
    try:
        (found,) = pullback(np.ones(size))
    except errors.OverwrittenError:
        assert size > 10
    else:
        np.testing.assert_allclose(found, np.cos(1.0))


# In solvers


def test_roots_are_differentiated_through_it():
    borrowed = from_jax(lambda x, p: x**3 - p + 0.1 * jnp.sum(x))

    def root(equation):
        return lambda p: np.sum(optimize.root(lambda x: equation(x, p), np.ones(2)).x)

    def same(x, p):
        return x**3 - p + 0.1 * np.sum(x)

    for transform in (fg.grad, fg.hessian):
        np.testing.assert_allclose(transform(root(borrowed))(Y), transform(root(same))(Y), atol=1e-12)


def test_equations_of_motion_may_be_written_in_it():
    borrowed = from_jax(jax.jit(lambda t, y, p: jnp.stack([y[1], -p[0] * y[0] - p[1] * y[1]])))

    def end(motion):
        solve = integrate.solve_ivp
        return lambda p: np.sum(solve(lambda t, y: motion(t, y, p), (0.0, 1.0), np.array([1.0, 0.0])).y[:, -1])

    expected = fg.grad(end(lambda t, y, p: np.stack([y[1], -p[0] * y[0] - p[1] * y[1]])))(Y)
    np.testing.assert_allclose(fg.grad(end(borrowed))(Y), expected, rtol=1e-10)


@pytest.mark.parametrize("transform", [fg.grad, fg.hessian, lambda f: fg.compile(fg.grad(f))])
def test_loops_take_it(transform):
    def looped(f):
        return lambda c: fg.scan(lambda c, x: (f(c, x), c), c, Y)[0] + fg.fori_loop(0, 3, lambda i, c: f(c, 0.5), c)

    expected = transform(looped(lambda c, x: np.sin(c) * x + c))(0.7)
    np.testing.assert_allclose(transform(looped(from_jax(lambda c, x: jnp.sin(c) * x + c)))(0.7), expected, rtol=1e-12)


# What JAX's own rules say


def test_rules_of_jax_are_kept():
    @jax.custom_vjp
    def function(x):
        return 2 * x

    function.defvjp(lambda x: (function(x), None), lambda residuals, ct: (7 * ct,))
    assert fg.grad(from_jax(function))(1.0) == 7.0
    with pytest.raises(TypeError, match="forward-mode"):
        fg.jvp(from_jax(function), (1.0,), (1.0,))
    assert fg.grad(from_jax(lambda x: jax.lax.stop_gradient(x) * x))(3.0) == 3.0


def test_values_may_be_asked_for_but_under_vmap():
    f = from_jax(lambda x: x**2 if x > 0 else -x)
    assert fg.grad(f)(2.0) == 4.0
    fg.grad(lambda x: np.sum(np.array([x[0], x[1]])))(X)  # on which what JAX says of its objects must not be blamed
    with pytest.raises(jax.errors.TracerBoolConversionError):
        fg.vmap(f)(X)


# Mistakes


@pytest.mark.parametrize(("result", "said"), [("text", "'text' of type str"), (None, "None"), (object, "of type type")])
def test_results_that_are_no_arrays_are_refused(result, said):
    with pytest.raises(errors.OutputError, match=f"<lambda> must be a function of JAX, but it returned .*{said}"):
        from_jax(lambda x: result)(2.0)


def test_traced_values_that_it_closes_over_are_refused():
    with pytest.raises(errors.ClosureError, match="computes with tensors of fgrad that are not among its arguments"):
        fg.grad(lambda x: from_jax(lambda y: y * x)(2.0))(3.0)
    w = fg.Variable(2.0)
    with pytest.raises(
        errors.ExportError, match=r"JAX would take a traced .*\n  at test_interop_libraries\.py:\d+: fg\.imp"
    ):
        fg.implicit_gradients(lambda: from_jax(lambda y: y * w)(2.0))()
    with pytest.raises(errors.ArrayConversionError):
        fg.grad(lambda x: np.sum(from_jax(lambda y: jnp.asarray(x) * y)(X)))(X)
    with pytest.raises(jax.errors.TracerArrayConversionError):
        fg.grad(lambda x: from_jax(lambda y: y * x)(x))(3.0)
    with pytest.raises(TypeError, match="not a valid JAX type"):
        fg.grad(lambda x: from_jax(lambda y: y * jnp.sin(x))(x))(3.0)


def test_only_functions_are_taken():
    for take in (from_jax, from_torch, to_torch):
        with pytest.raises(errors.NotCallableError, match=f"{take.__name__} takes a function"):
            take(X)


def test_an_array_of_jax_beside_a_tensor_is_a_constant():
    """The operators of JAX's arrays leave it to tensors what they mean."""
    array = jnp.asarray([2.0, 3.0])
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(array * x))(X), [2.0, 3.0])
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(x * array))(X), [2.0, 3.0])
    np.testing.assert_array_equal(fg.grad(lambda x: x @ array)(X), [2.0, 3.0])
    assert fg.compile(lambda x: np.sum((x == array) + (x < array)))(X) == np.sum((X == [2, 3]) + (X < [2, 3]))

    class Odd:
        __array_priority__ = 1.0

    with pytest.raises(errors.StructureError, match="a tensor cannot be combined with a Odd, which is not an array"):
        np.multiply(fg.constant(X), Odd())


def test_a_library_that_is_missing_is_named():
    jax_functions._jax.cache_clear()
    torch_functions._library.cache_clear()  # of which another test may have made one
    with mock.patch.dict(sys.modules, {"jax": None, "torch": None}):
        with pytest.raises(errors.MissingExtraError, match=r"library jax, .*pip install 'fgrad\[jax\]'"):
            from_jax(jnp.sin)(2.0)
        for take in (from_torch, to_torch):
            with pytest.raises(errors.MissingExtraError, match=r"library torch, .*pip install 'fgrad\[torch\]'"):
                take(np.sin)(2.0)


def test_importing_fgrad_imports_no_other_library():
    code = "import sys, fgrad.interop; assert not {'jax', 'jaxlib', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


LIBRARIES_OF_ARRAYS = ["scipy.sparse", "pandas", "pandas.api.extensions", "dask.array", "jax", "IPython"]


def test_a_library_may_be_half_imported_by_another_thread():
    class Number:
        def __array__(self, dtype=None, copy=None):
            return np.array(3.0)

    compiled = fg.compile(np.sin, backend="jax")
    compiled(X)
    with mock.patch.dict(sys.modules, {name: types.ModuleType(name) for name in LIBRARIES_OF_ARRAYS}):
        assert fg.grad(lambda x: np.multiply(x, Number()))(2.0).item() == 3.0
        np.testing.assert_allclose(compiled(X), np.sin(X))
        assert fg.grad(lambda x: fgrad.scipy.special.erf(x))(0.0).item() == pytest.approx(2 / np.sqrt(np.pi))
        assert errors.users_line().startswith("test_interop_libraries.py:")


# The page of gradients for other libraries

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "gradients-for-others.md"
FIRST, *BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
LIBRARIES = {re.search(r"import (\w+)", block)[1]: block for block in BLOCKS}


def test_the_page_is_about_these_libraries():
    names = {"nlopt", "lmfit", "xgboost", "cvxpy", "optax", "json", "pandas", "einops"}
    assert set(LIBRARIES) == names
    assert len(BLOCKS) == len(names)


@pytest.mark.parametrize("library", [name for name in LIBRARIES if importlib.util.find_spec(name)])
def test_the_blocks_of_the_page_run(library):
    subprocess.run([sys.executable, "-c", FIRST + LIBRARIES[library]], check=True)


def test_operators_of_jax_take_tensors_that_nothing_follows():
    array, tensor = jnp.asarray([2.0, 3.0]), fg.constant(X)
    for result in (array * tensor, tensor + array, jnp.asarray(tensor), array.at[0].set(tensor[0])):
        assert isinstance(result, jax.Array)
    np.testing.assert_allclose(array * tensor, np.array([2.0, 3.0]) * X, rtol=1e-6)
    with jax.enable_x64(True):
        assert (jnp.asarray([2.0]) * tensor).dtype == np.float64
    assert isinstance(jnp.asarray(fg.Variable(X)), jax.Array)


def test_functions_of_jax_refuse_what_is_traced_and_say_what_takes_it():
    assert not hasattr(X, "__jax_array__")
    for function in (jnp.sin, lambda x: jnp.add(jnp.ones(2), x), jax.jit(sinus)):
        with pytest.raises(TypeError) as raised:
            fg.grad(lambda x: np.sum(function(x)))(X)
        assert any("fgrad.interop.from_jax(function)(x)" in note for note in raised.value.__notes__)


def test_einops_that_is_missing_is_named():
    register_einops.cache_clear()
    with (
        mock.patch.dict(sys.modules, {"einops": None}),
        pytest.raises(errors.MissingExtraError, match="library einops, which is not installed: pip install einops"),
    ):
        register_einops()


class AsksAsNumba:
    """What numba does to find the type of an argument."""

    def __call__(self, x):
        return getattr(x, "_numba_type_", None)


def test_numba_is_told_apart_whether_a_tensor_is_traced():
    with pytest.raises(errors.UnsupportedError, match=r"compiled by numba takes plain arrays: pass x\.numpy\(\)"):
        AsksAsNumba()(fg.constant(X))
    with pytest.raises(errors.MissingRuleError, match="compiled by numba has no derivative rule, and a traced tensor"):
        fg.grad(lambda x: AsksAsNumba()(x))(X)
