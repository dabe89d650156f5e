"""Every error of fgrad, reached from a user's program: its class, its built-in, its text, and no harm done."""

import copy
import inspect
import math
import operator
import pickle
import warnings
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from helpers import along, naming, plain

import fgrad as fg
import fgrad.compat.tensorflow1 as tf
import fgrad.distributed
import fgrad.numpy as fnp
import fgrad.scipy.optimize as optimize
from fgrad import errors
from fgrad.testing import check_grads

# Ufuncs of the user's own, of which fgrad knows nothing.
gamma, fmod = np.frompyfunc(math.gamma, 1, 1), np.frompyfunc(math.fmod, 2, 1)


def used_tape():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    return tape, y, x


def filled(array):
    """Return a function that writes its argument into a plain array."""

    def f(x):
        array[0] = x
        return np.sum(array)

    return f


def added_to(array):
    def f(x):
        a = array
        a += x
        return np.sum(a)

    return f


def nested_tapes():
    with fg.GradientTape() as tape, tape:
        pass


def used_again():
    tape, y, x = used_tape()
    tape.gradient(y, x)


def float_into_integers(x):
    counts = fnp.zeros(2, int)
    counts[0] = x
    return np.sum(counts)


def watch_a_number():
    with fg.GradientTape() as tape:
        tape.watch(3.0)


def a_number_as_source():
    w = fg.Variable(3.0)
    with fg.GradientTape() as tape:
        y = w * w
    tape.gradient(y, 3.0)


def forgets(x):
    x * x


def returns_text(x):
    return x * x, "done"


def a_step_without_effect():
    w = fg.Variable(3.0, name="w")
    fg.optimizers.GradientDescent(0.1).minimize(lambda: fg.stop_gradient(w) * 2.0)


def root_of_zero():
    with fg.debug_nans():
        fg.grad(np.sqrt)(0.0)


def save_without_the_library():
    with mock.patch.dict("sys.modules", {"safetensors": None}):
        fg.save("unused", {"w": 1.0})


def shared_without_leave():
    with tf.Graph().as_default():
        tf.get_variable("w", [2])
        tf.get_variable("w", [2])


def fetch(make):
    with tf.Graph().as_default():
        tf.Session().run(make())


def feed_another_shape():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2])
        tf.Session().run(x, {x: [1.0, 2.0, 3.0]})


def update_a_tensor():
    with tf.Graph().as_default():
        tf.train.GradientDescentOptimizer(0.1).apply_gradients([(1.0, tf.constant(3.0))])


V = np.array([1.0, 2.0])
grad = fg.grad


def assigning(variable):
    def f(x):
        y = variable * x
        variable.assign(3.0)
        return y * variable

    return f


# class, its built-in, a program, and what its message must say
def kept_from_a_batch():
    kept = []
    fg.vmap(lambda x: kept.append(x) or x)(V)
    return kept[0] + 1


def changing():
    calls = iter(range(1, 9))
    return lambda x: x * next(calls)


def overwriting():
    def f(x):
        weights = np.ones((400, 400))
        total = np.sum(weights * x)
        weights[0] = 7.0
        return total

    return grad(f)(2.0)


CASES = [
    (errors.SymbolicTensorError, TypeError, lambda: bool(tf.constant(1.0)), "use as a Python bool is not allowed"),
    (errors.SymbolicArrayError, NotImplementedError, lambda: np.sin(tf.constant(1.0)), "Cannot convert the graph"),
    (errors.FetchError, TypeError, lambda: fetch(lambda: 3.0), "3.0 of type float is not a graph tensor"),
    (errors.FetchError, ValueError, lambda: fetch(lambda: "x:0"), "no tensor or operation 'x:0'"),
    (errors.SessionError, ValueError, lambda: tf.constant(1.0).eval(), "No default session is registered"),
    (errors.InvalidArgumentError, ValueError, feed_another_shape, "Cannot feed value of shape"),
    (
        errors.FailedPreconditionError,
        RuntimeError,
        lambda: fetch(lambda: tf.Variable(1.0, name="w")),
        "uninitialized value w",
    ),
    (
        errors.FrozenValueError,
        RuntimeError,
        lambda: fg.compile(lambda x: x * np.random.default_rng().normal())(np.ones(3)),
        "uses a value that changes from call to call",
    ),
    (errors.MissingNameError, AttributeError, lambda: tf.keras, "a model is a function of variables"),
    (errors.VariableScopeError, ValueError, shared_without_leave, "w already exists"),
    (errors.UpdateError, NotImplementedError, update_a_tensor, "Trying to update a Tensor"),
    (
        errors.IntegerRangeError,
        OverflowError,
        lambda: list(map(fg.compile(lambda n: n * n), (3, 2**40))),
        "computes an integer of 82 bits",
    ),
    (
        errors.GraphInputError,
        ValueError,
        lambda: fg.trace(np.sum)(np.ones(3))(np.ones(4)),
        r"has shape \(4,\)",
    ),
    (
        errors.RecordedAssignmentError,
        RuntimeError,
        lambda: fg.trace(assigning(fg.Variable(1.0)))(2.0),
        "cannot hold assignments",
    ),
    (errors.ConcretizationError, TypeError, lambda: fg.vmap(lambda x: x if x > 0 else -x)(V), r"bool\(\) needs"),
    (
        errors.PayloadError,
        TypeError,
        lambda: fg.grad(np.sqrt)(Fraction(1, 4)),
        r"sqrt does not work on an array of objects \(Fraction\): loop of ufunc",
    ),
    (
        errors.PartitionError,
        RuntimeError,
        lambda: fgrad.distributed.value_and_grad(lambda p, part: np.sum(p @ part))(
            np.ones(2), [np.ones((2, 3)), np.ones((3, 2))]
        ),
        r"partition 1(.|\n)*test_errors\.py",
    ),
    (errors.AxisError, ValueError, lambda: fg.vmap(np.add)(V, np.ones(3)), "axes of different sizes"),
    (errors.LeakedTensorError, RuntimeError, kept_from_a_batch, "belongs to a vmap that has ended"),
    (errors.CustomRuleError, ValueError, lambda: grad(fg.custom_vjp(np.sin))(1.0), "has no rule yet"),
    (
        errors.ClosureError,
        TypeError,
        lambda: grad(lambda w: fg.custom_gradient(lambda x: (w * x, lambda dy: dy))(w))(2.0),
        "uses a traced value that is not one of its arguments",
    ),
    (
        errors.ArrayConversionError,
        TypeError,
        lambda: grad(lambda x: np.sum(np.array([x, x], dtype=float)))(3.0),
        r"np\.stack",
    ),
    (errors.ArrayConversionError, TypeError, lambda: grad(lambda x: np.asarray(x, float) * 2)(3.0), r"x\.numpy\(\)"),
    (errors.ArrayConversionError, TypeError, lambda: grad(filled(np.zeros(2)))(3.0), r"fgrad\.numpy\.zeros"),
    (
        errors.ObjectArrayError,
        TypeError,
        lambda: grad(lambda x: np.sum(np.arctan2(1.0, np.array([1.0, x]))))(3.0),
        r"does not support an array of traced numbers \('float' object has no attribute 'arctan2'\)",
    ),
    (
        errors.ObjectArrayError,
        TypeError,
        lambda: grad(lambda x: np.linalg.det(np.array([[x, 1.0], [0.0, x]])))(3.0),
        r"does not support an array of traced numbers(.|\n)*write fgrad\.numpy\.array",
    ),
    (
        errors.RerunError,
        RuntimeError,
        lambda: grad(fg.checkpoint(changing()))(2.0),
        "gives another result, or uses other values, when it runs again",
    ),
    (
        errors.OverwrittenError,
        RuntimeError,
        overwriting,
        r"a plain array of shape \(400, 400\), which was",
    ),
    (errors.InPlaceError, TypeError, lambda: grad(added_to(np.zeros(2)))(V), r"np\.add .*plain NumPy array"),
    (errors.InPlaceError, TypeError, lambda: grad(lambda x: np.sin(x, out=np.zeros(2)))(V), r"np\.sin .*`out=`"),
    (
        errors.MissingMemberError,
        AttributeError,
        lambda: grad(lambda x: x.flags)(V),
        r"ndarray\.flags has no derivative",
    ),
    (errors.MissingRuleError, TypeError, lambda: grad(gamma)(3.0), r"gamma \(vectorized\) has no derivative rule"),
    (
        errors.ScipyCallError,
        TypeError,
        lambda: grad(lambda x: np.sum(scipy.linalg.expm(x)))(np.ones((2, 2))),
        "scipy.linalg.expm takes plain arrays, and was called with a traced tensor, or got one from your function",
    ),
    (
        errors.UnsupportedError,
        NotImplementedError,
        lambda: fg.jacobian(lambda a: 2 * optimize.minimize(lambda x: (x[0] - a) ** 2, [2.0]).hess_inv)(3.0),
        "hess_inv of minimize is not differentiated, and it depends on what is",
    ),
    (
        errors.ConvergenceError,
        RuntimeError,
        lambda: grad(lambda a: optimize.root_scalar(lambda x: x**3 - a, x0=90.0, maxiter=3).root)(8.0),
        "SciPy did not find the root|the result of .* is not a solution",
    ),
    (
        errors.SingularEquationError,
        ValueError,
        lambda: grad(lambda a: optimize.brentq(lambda x: (x - a) ** 3, 0.0, 9.0, xtol=1e-300))(4.5),
        "has a singular Jacobian there",
    ),
    (
        errors.SparsityError,
        ValueError,
        lambda: fg.sparse_jacobian(np.cumsum, sparsity=np.eye(3))(np.ones(3)),
        "has elements where `sparsity` has none",
    ),
    (
        errors.NoClosedFormError,
        NotImplementedError,
        lambda: grad(lambda v: scipy.special.jv(v, 1.5))(0.5),
        "scipy.special.jv has no closed-form derivative with respect to its argument 'v', which is traced",
    ),
    (
        errors.NoDerivativeError,
        ValueError,
        lambda: grad(lambda x: np.linalg.eigh(x)[1][1, 0])(np.eye(2)),
        "the loss depends on .* which np.linalg.eigh chooses arbitrarily",
    ),
    (
        errors.MissingRuleError,
        TypeError,
        lambda: grad(lambda x: np.busday_count(x, x))(V),
        r"np\.busday_count has no deriv",
    ),
    (errors.MissingRuleError, TypeError, lambda: grad(lambda x: gamma.at(x, 0))(V), r"gamma \(vectorized\)\.at has no"),
    (
        errors.ExportError,
        TypeError,
        lambda: grad(lambda x: (pickle.dumps(x), x)[1])(3.0),
        "pickling would take a traced tensor out of its trace",
    ),
    (errors.ExportError, BufferError, lambda: grad(lambda x: np.sum(np.from_dlpack(x)))(V), "DLPack would take"),
    (
        errors.DivergenceError,
        FloatingPointError,
        lambda: fg.optimizers.run(lambda x: np.sqrt(x * x), 0.0, 9, progress=False),
        "the loss is 0 in step 1.\nThe gradient is not finite for parameter params",
    ),
    (
        errors.KeywordError,
        TypeError,
        lambda: fg.optimizers.Adam(lr=0.1),
        r"Adam\(\) got an unexpected keyword argument 'lr'; here it is called learning_rate",
    ),
    (errors.NotCallableError, TypeError, lambda: grad(9.0), r"^grad takes a function, not 9\.0 of type float"),
    (errors.NotCallableError, TypeError, lambda: grad(fg.constant(9.0)), r"\(f\)\(x\), not .*\(f\(x\)\)"),
    (errors.ParameterError, ValueError, lambda: grad(np.sin, argnums=3)(1.0), "position 3 is out of range"),
    (
        errors.ParameterError,
        ValueError,
        lambda: fg.gradients_function(forgets, "y")(1.0),
        "forgets has no parameter 'y'",
    ),
    (errors.ParameterError, ValueError, lambda: fg.clip_by_norm([1.0], -1.0), "clip_norm must not be negative"),
    (errors.NoResultError, ValueError, lambda: grad(forgets)(3.0), "forget to return a value from forgets"),
    (errors.OutputError, TypeError, lambda: grad(returns_text)(3.0), "returns_text returned 'done' of type str"),
    (errors.OutputError, TypeError, lambda: grad(lambda x: x, has_aux=True)(3.0), "must return a pair"),
    (errors.DetachedError, TypeError, lambda: grad(lambda x: math.sin(x))(3.0), r"math\.sin requested .*\n.* at "),
    (errors.NonScalarError, TypeError, lambda: grad(lambda x: x * x)(V), r"shape \(2,\)\.\n.*sum or mean"),
    (errors.NonScalarError, TypeError, lambda: grad(lambda x: x)(np.ones((1, 1))), r"shape \(1, 1\)\.\n.*y\.reshape"),
    (errors.NonScalarError, TypeError, lambda: grad(lambda x: [x, x])(3.0), "returned a list"),
    (errors.IntegerInputError, TypeError, lambda: grad(np.square)(3), r"3, of type int.*\n.*3\.0 instead of 3"),
    (
        errors.NonNumericInputError,
        TypeError,
        lambda: grad(np.square)("abc"),
        r"'abc', of type str, which is not a number",
    ),
    (errors.IntegerInputError, TypeError, lambda: fg.jvp(np.square, (3,), (1.0,)), r"primals\[0\] is an integer"),
    (errors.SeedError, ValueError, lambda: fg.vjp(np.square, V)[1](np.ones(3)), r"shape \(3,\).*shape \(2,\)"),
    (errors.SeedError, ValueError, lambda: fg.gradients_function(np.square)(V, dy=1j), "dy is complex"),
    (errors.TangentError, ValueError, lambda: fg.jvp(np.square, (V,), (1.0,)), r"shape \(\).*shape \(2,\)"),
    (errors.NoVariablesError, ValueError, lambda: fg.implicit_gradients(np.sin)(3.0), "while sin was being computed"),
    (errors.ShapeError, ValueError, lambda: fg.Variable(V, name="w").assign(1.0), r"'w' has shape \(2,\)"),
    (errors.DtypeError, TypeError, lambda: fg.Variable(1, name="n").assign(1.5), "'n' has dtype int64"),
    (errors.DtypeError, TypeError, lambda: grad(float_into_integers)(3.0), "round a value of dtype float64"),
    (errors.StructureError, TypeError, lambda: fg.global_norm(V), "t_list must be a list of arrays"),
    (errors.TapeError, RuntimeError, used_again, "non-persistent GradientTape can only be used"),
    (errors.TapeError, RuntimeError, lambda: fg.GradientTape().gradient(fg.constant(1.0), []), "never entered"),
    (errors.TapeStateError, ValueError, nested_tapes, "Tape is still recording"),
    (errors.TapeStateError, ValueError, lambda: used_tape()[0].reset(), "Tape is not recording"),
    (errors.WatchError, ValueError, watch_a_number, r"Passed in object 3\.0 of type 'float'.*\n.*fg\.constant"),
    (errors.SourceError, TypeError, a_number_as_source, r"sources must be a Tensor.*3\.0 of type float"),
    (
        errors.StateError,
        ValueError,
        lambda: fg.optimizers.Adam().load_state_dict(fg.optimizers.Adamax().state_dict()),
        "the state is that of the optimizer Adamax, and this is Adam",
    ),
    (errors.SaveError, TypeError, lambda: fg.save("unused", {"rate": math.sin}), "'rate' is <built-in .* cannot hold"),
    (
        errors.LoadError,
        ValueError,
        lambda: fg.load(__file__),
        r"test_errors\.py' is damaged, or not a safetensors file",
    ),
    (errors.MissingExtraError, ImportError, save_without_the_library, "pip install safetensors"),
    (
        errors.NotLoweredError,
        NotImplementedError,
        lambda: fg.to_jax(lambda x: scipy.special.airy(x)[0])(np.ones(2)),
        "JAX has no counterpart",
    ),
    (errors.NoGradientsError, ValueError, a_step_without_effect, "does not depend on .*'w'"),
    (
        errors.ConcretizationError,
        TypeError,
        lambda: fg.vmap(lambda x: -x if x < 0 else x)(V),
        r"bool\(\) needs a value",
    ),
    (
        errors.PayloadError,
        TypeError,
        lambda: fg.grad(np.sqrt)(Fraction(1, 4)),
        r"sqrt does not work on an array of objects \(Fraction\): loop of ufunc",
    ),
    (errors.AxisError, ValueError, lambda: fg.vmap(np.add)(np.ones((3, 2)), np.ones((4, 2))), "3.*4"),
    (errors.NonFiniteError, FloatingPointError, root_of_zero, r"the reverse rule of sqrt gave an infinity"),
    (errors.GradientCheckError, AssertionError, lambda: check_grads(np.abs, (np.array([0.0]),)), "differ"),
]


@pytest.mark.parametrize(("kind", "builtin", "program", "text"), CASES)
def test_an_error(kind, builtin, program, text):
    with pytest.raises(builtin, match=text) as caught:
        program()
    assert type(caught.value) is kind
    assert isinstance(caught.value, errors.FgradError)
    assert str(caught.value).endswith(f"(help: fgrad.errors.{kind.__name__})")
    # Nothing was left behind.
    assert plain(fg.grad(lambda x: x * x)(3.0)) == 6.0
    assert plain(along(lambda x: x * x)(3.0)) == 6.0


def _classes():
    return {c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.FgradError)}


def test_every_class_has_a_case():
    reached = {kind for kind, *_ in CASES} | {errors.FgradError}
    assert _classes() - reached == set()


def test_every_class_has_a_manual():
    for kind in _classes():
        assert kind.__doc__, kind
        if kind is not errors.FgradError:
            assert ">>>" in kind.__doc__, kind


def test_the_warning():
    with pytest.warns(UserWarning, match="gradient of square is None where the argument .* 3, of type int") as caught:
        assert fg.gradients_function(np.square)(3) == [None]
    assert caught[0].category is errors.NoGradientWarning
    assert caught[0].filename == __file__  # it points at the user's line
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(errors.NoGradientWarning, match="is None"):
            fg.gradients_function(np.square)(3)


# What would drop a derivative


def by_tape(f):
    def derivative(x):
        x = fg.constant(x)
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return derivative


DERIVATIVES = {"grad": fg.grad, "jvp": lambda f: lambda x: fg.jvp(f, (x,), (np.ones_like(x),))[1], "tape": by_tape}


def _writes():
    def element(a, x):
        a[0] = x

    def slices(a, x):
        a[:2] = x

    def row(a, x):
        a[...] = x

    def mask(a, x):
        a[np.array([True, False, True])] = x

    def unpacked(a, x):
        a[0], a[1] = x, x

    def in_a_list(a, x):
        a[:2] = [x, x]

    def from_a_loop(a, x):
        for a[1] in [x]:
            pass

    def in_place_on_an_element(a, x):
        a[0] += x

    def two_dimensions(a, x):
        a.reshape(1, 3)[0, 1] = x

    def put(a, x):
        a.put(0, x)

    def copyto(a, x):
        np.copyto(a, x)

    def np_put(a, x):
        np.put(a, 0, x)

    def putmask(a, x):
        np.putmask(a, a == 0, x)

    def place(a, x):
        np.place(a, a == 0, x)

    def fill_diagonal(a, x):
        np.fill_diagonal(a.reshape(1, 3), x)

    def add_at(a, x):
        np.add.at(a, 0, x)

    def iadd(a, x):
        a += x

    def imul(a, x):
        a *= x

    def iadd_slice(a, x):
        a[:2] += x

    def out(a, x):
        np.multiply(a, x, out=a)

    def out_of_sum(a, x):
        np.sum(x, out=a[0, ...])

    return [f for f in locals().values() if callable(f)]


WRITES = _writes()


DTYPES = [np.float64, np.complex128]


STORES = {"element", "slices", "row", "mask", "unpacked", "in_a_list", "from_a_loop", "in_place_on_an_element"}
STORES |= {"two_dimensions", "put", "fill_diagonal"}


@pytest.mark.parametrize("dtype", [np.int64, np.bool_])
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_what_an_array_of_integers_stores_is_what_a_plain_run_stores(write, dtype):
    """To store is to round, as by `int`, which has no derivative; operations that write into it are refused."""
    array, plainly = np.zeros(3, dtype), np.zeros(3, dtype)

    def f(x):
        write(array, x)
        return np.sum(array) + x * 0.0

    if write.__name__ in STORES:
        write(plainly, 3.5)
        assert plain(fg.grad(f)(3.5)) == 0.0
    else:
        with pytest.raises(errors.FgradError, match=r"test_errors\.py:\d+.*\n|has no derivative rule|write a tensor"):
            fg.grad(f)(3.5)
    np.testing.assert_array_equal(array, plainly)
    with pytest.raises(errors.FgradError):
        fg.vmap(f)(np.ones(2))


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_writing_a_traced_number_into_a_plain_array(write):
    message = r"test_errors\.py:\d+.*\n|has no derivative rule|write a tensor"
    for mode, derivative in DERIVATIVES.items():
        for dtype in DTYPES:
            array = np.zeros(3, dtype)

            def f(x, array=array):
                write(array, x)
                return np.sum(array) + x * 0.0

            with naming(mode, dtype.__name__):
                with pytest.raises(errors.FgradError, match=message):
                    derivative(f)(3.0)
                assert not array.any()


# As statements, for the line itself says what to write instead.


def _writes_of_vectors():
    def everything(a, x):
        a[:] = x

    def slices(a, x):
        a[1:] = x[1:]

    def mask(a, x):
        a[np.array([True, True])] = x

    def indices(a, x):
        a[[0, 1]] = x

    def out(a, x):
        np.add(a, x, out=a)

    return [f for f in locals().values() if callable(f)]


@pytest.mark.parametrize("write", _writes_of_vectors(), ids=lambda write: write.__name__)
def test_writing_a_traced_vector_into_a_plain_array(write):
    for mode, derivative in DERIVATIVES.items():
        for dtype in DTYPES:
            array = np.zeros(2, dtype)

            def f(x, array=array):
                write(array, x)
                return np.sum(array) + np.sum(x) * 0.0

            with naming(mode, dtype.__name__):
                with pytest.raises(TypeError, match=r"fgrad\.numpy"):
                    derivative(f)(np.array([3.0, 4.0]))
                assert not array.any()


@pytest.mark.parametrize("mode", DERIVATIVES)
def test_writing_through_flat(mode):
    array = np.zeros(3)

    def f(x):
        array.flat[0] = x
        return np.sum(array) + x * 0.0

    # NumPy puts an error of its own in the place of every other one here.
    with pytest.raises((errors.FgradError, ValueError), match=r"Error setting single item|fgrad\.numpy"):
        DERIVATIVES[mode](f)(3.0)
    assert not array.any()


CALLS = {
    "operator.setitem": lambda a, x: operator.setitem(a, 0, x),
    "fill": lambda a, x: a.fill(x),
    "map": lambda a, x: list(map(a.__setitem__, [0], [x])),
}


@pytest.mark.parametrize("mode", ["grad", "jvp"])
@pytest.mark.parametrize("write", CALLS)
def test_writing_by_way_of_a_call(write, mode):
    array = np.zeros(3)

    def f(x):
        CALLS[write](array, x)
        return np.sum(array) + x * 0.0

    with pytest.raises(errors.FgradError, match=r"fgrad\.numpy"):
        DERIVATIVES[mode](f)(3.0)
    assert not array.any()


CONVERSIONS = {
    "np.array list": lambda x: np.array([x, x]),
    "np.array nested": lambda x: np.array([[x, 1.0], [2.0, x]]),
    "np.array one": lambda x: np.array([x]),
    "np.array tuple": lambda x: np.array((x, 1.0)),
    "np.array": np.array,
    "np.array float": lambda x: np.array(x, dtype=float),
    "np.array list float": lambda x: np.array([x, x], dtype=float),
    "np.asarray": np.asarray,
    "np.asarray list": lambda x: np.asarray([x]),
    "np.asanyarray": np.asanyarray,
    "np.ascontiguousarray": np.ascontiguousarray,
    "np.asarray float32": lambda x: np.asarray(x, np.float32),
    "np.full": lambda x: np.full(3, x),
    "np.linspace": lambda x: np.linspace(0.0, x, 3),
    "np.arange": lambda x: np.arange(0.0, x),
    "np.fromiter": lambda x: np.fromiter((x for _ in range(3)), float),
    "a list into a function": lambda x: np.array([1.0, 2.0]) * [x, x],
    "np.mean of a list": lambda x: np.mean([x, x]),
    "np.sum of a list": lambda x: np.sum([x, x]),
    "np.dot with a list": lambda x: np.dot([x, x], [1.0, 2.0]),
}


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_a_conversion_is_refused_or_differentiated(conversion):
    def f(x):
        return np.sum(CONVERSIONS[conversion](x)) + x * 0.0

    expected = {
        "np.array list": 2.0,
        "np.array nested": 2.0,
        "np.array one": 1.0,
        "np.array tuple": 1.0,
        "np.array": 1.0,
        "np.asarray": 1.0,
        "np.asarray list": 1.0,
        "np.mean of a list": 1.0,
        "np.sum of a list": 2.0,
        "np.dot with a list": 3.0,
        "a list into a function": 3.0,
        "np.linspace": 1.5,
        "np.full": 3.0,
        "np.ascontiguousarray": 1.0,
        "np.asanyarray": 1.0,
    }.get(conversion)
    for mode, derivative in DERIVATIVES.items():
        with naming(mode):
            try:
                found = derivative(f)(3.0)
            except errors.FgradError:
                with pytest.raises(TypeError, match=r"test_errors\.py:\d+|no derivative rule"):
                    derivative(f)(3.0)
            else:
                assert expected is not None, "the derivative was dropped in silence"
                assert plain(found) == expected


def test_the_message_names_the_line():
    def f(x):
        return np.sum(np.array([x, x], float))  # the line

    line = r"at test_errors\.py:\d+: return np\.sum\(np\.array\(\[x, x\], float\)\)  # the line"
    with pytest.raises(TypeError, match=line):
        fg.grad(f)(3.0)

    def g(x):
        a = np.zeros(2)
        a[0] = x  # this one
        return np.sum(a)

    with pytest.raises(TypeError, match=r"at test_errors\.py:\d+: a\[0\] = x  # this one"):
        fg.grad(g)(3.0)

    def h(x):
        return gamma(x)  # and this

    with pytest.raises(TypeError, match=r"at test_errors\.py:\d+: return gamma\(x\)  # and this"):
        fg.grad(h)(3.0)

    def i(x):
        a = np.array([[x, 1.0], [0.0, x]])  # built here
        return np.linalg.det(a)  # and used here

    lines = r"return np.linalg.det\(a\)  # and used here\n  it was built at test_errors\.py:\d+: a = .*  # built here"
    with pytest.raises(TypeError, match=rf"at test_errors\.py:\d+: {lines}"):
        fg.grad(i)(3.0)


def test_a_number_that_was_asked_for_may_be_written():
    def f(x):
        a = np.zeros(2)
        a[0] = x.item()
        a[1] = x.numpy()
        a[int(x)] = fg.stop_gradient(x)
        a[bool(x > 5)] = x.item()
        return x * np.sum(a)

    assert plain(fg.grad(f)(1.0)) == 2.0
    assert plain(along(f)(1.0)) == 2.0


def test_object_arrays_hold_tensors():
    def f(x):
        a = np.empty(2, object)
        a[0], a[1] = x, x * x
        return a[0] * a[1]

    assert plain(fg.grad(f)(3.0)) == 27.0


@pytest.mark.parametrize(
    "call",
    [gamma, lambda x: fmod(x, 2.0), lambda x: fmod.outer(x, x), fmod.reduce],
)
@pytest.mark.parametrize("mode", DERIVATIVES)
def test_a_function_without_a_rule(call, mode):
    text = r"has no derivative rule.*\n.*test_errors.py:\d+.*\n(.*\n)?.*fg\.stop_gradient"
    with pytest.raises(TypeError, match=text):
        DERIVATIVES[mode](lambda x: np.sum(call(x)))(np.array([3.0, 4.0]))


# Errors that NumPy and Python raise for the same call on arrays stay theirs


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda x: x + np.ones(3), ValueError, "could not be broadcast together"),
        (lambda x: x @ np.ones(3), ValueError, "matmul"),
        (lambda x: x[5], IndexError, "out of bounds"),
        (lambda x: x[0, 0], IndexError, "too many indices"),
        (lambda x: x["a"], IndexError, "integer"),
        (lambda x: x[0.5], IndexError, "integer"),
        (lambda x: x.reshape(3), ValueError, "cannot reshape array"),
        (lambda x: np.concatenate([x, np.ones((2, 2))]), ValueError, "dimension"),
        (lambda x: np.stack([x, np.ones(3)]), ValueError, "same shape"),
        (lambda x: np.sum(x, axis=3), ValueError, "axis 3 is out of bounds"),
        (lambda x: np.transpose(x, (1, 0)), ValueError, "axes don't match"),
        (lambda x: x.bogus, AttributeError, "bogus"),
        (lambda x: np.sum(x, bogus=1), TypeError, "bogus"),
        (lambda x: np.sin(x, x, x), TypeError, "positional"),
        (lambda x: x + "text", TypeError, "loop|dtype|str"),
        (lambda x: x + None, TypeError, "NoneType"),
        (lambda x: float(x), TypeError, "0-dimensional|length-1"),
        (lambda x: bool(x), ValueError, "truth value of an array"),
        (lambda x: {x: 1}, TypeError, "unhashable type"),
        (lambda x: [10, 20][x], TypeError, "index must be an integer|integers or slices"),
        (lambda x: x & 1, TypeError, "bitwise_and"),
        (lambda x: x(3.0), TypeError, "not callable"),
    ],
)
def test_an_error_of_numpy_stays_one(f, error, text):
    for mode, derivative in DERIVATIVES.items():
        with naming(mode):
            fg.grad(lambda x: np.sum(np.array([x[0], x[1]])))(np.ones(2))  # which has nothing to do with it
            with pytest.raises(error, match=text) as caught:
                derivative(f)(np.array([1.0, 2.0]))
            assert not isinstance(caught.value, errors.FgradError)
            assert plain(fg.grad(lambda x: x * x)(3.0)) == 6.0


# Nothing has changed


@pytest.mark.parametrize("mode", DERIVATIVES)
def test_what_outlives_an_error_is_a_constant(mode):
    kept = []

    def f(x):
        kept.append(x * 2.0)
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        DERIVATIVES[mode](f)(np.array([3.0, 4.0]))
    (left,) = kept
    assert np.asarray(left).tolist() == [6.0, 8.0]  # which a tensor that is followed refuses
    assert plain(fg.grad(lambda x: np.sum(x * left))(np.ones(2))) == [6.0, 8.0]


def test_refused_calls_leave_the_state_as_it_was():
    w = fg.Variable([1.0, 2.0], name="w")
    for wrong, error in ((1.0, ValueError), (np.ones(3), ValueError), (np.ones(2) * 1j, TypeError)):
        with pytest.raises(error, match="'w' has"):
            w.assign(wrong)
    assert w.tolist() == [1.0, 2.0]
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        with pytest.raises(ValueError, match="still recording"):
            tape.__enter__()
        with pytest.raises(ValueError, match="Passed in object"):
            tape.watch(3.0)
        y = y * x
    with pytest.raises(ValueError, match="unconnected_gradients"):
        tape.gradient(y, x, unconnected_gradients="bogus")
    with pytest.raises(TypeError, match="sources must be"):
        tape.gradient(y, "x")
    with pytest.raises(ValueError, match="output_gradients has shape"):
        tape.gradient(y, x, output_gradients=np.ones(2))
    assert tape.gradient(y, x).item() == 27.0


def test_a_refused_write_to_a_tensor_leaves_it_as_it_was():
    for write, error in (
        (lambda t: t.__setitem__(0, 1.5), TypeError),
        (lambda t: t.__setitem__(0, 1j), TypeError),
        (lambda t: t.__setitem__(5, 1), IndexError),
        (lambda t: t.__setitem__(slice(None), np.ones(3, int)), ValueError),
    ):
        t = fg.constant([1, 2])
        with pytest.raises(error, match="round|out of bounds|broadcast"):
            write(t)
        assert plain(t) == [1, 2]
    t = fg.constant([1.0, 2.0])
    with pytest.raises(TypeError, match="complex"):
        t[0] = 1j
    assert plain(t) == [1.0, 2.0]


def test_not_a_function():
    for transform in (
        fg.grad, fg.value_and_grad, fg.gradients_function, fg.value_and_gradients_function,
        fg.implicit_gradients, fg.implicit_value_and_gradients, fg.make_vjp,
    ):  # fmt: skip
        with pytest.raises(TypeError, match=rf"^{transform.__name__} takes a function, not 3\.0 of type float"):
            transform(3.0)
    with pytest.raises(TypeError, match="^vjp takes a function"):
        fg.vjp(3.0, 1.0)
    with pytest.raises(TypeError, match="^jvp takes a function"):
        fg.jvp(3.0, (1.0,), (1.0,))


def test_errors_can_be_pickled():
    for kind, _, program, _ in CASES:
        with pytest.raises(errors.FgradError, match="help: fgrad.errors") as caught:
            program()
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is kind
        reason, above = caught.value.__context__, 0
        while reason is not None and above < 100:
            reason, above = reason.__cause__ or reason.__context__, above + 1
        assert above < 100  # no error is its own reason: libraries that pickle reasons, too, would never end
        assert str(again) == str(caught.value)
        assert getattr(again, "__notes__", None) == getattr(caught.value, "__notes__", None)


def test_what_errors_hold_is_pickled_with_them():
    with pytest.raises(errors.DivergenceError) as caught:
        fg.optimizers.run(lambda x: np.sqrt(x * x), 0.0, 9, progress=False)
    caught.value.add_note("in the second fold")
    for again in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert again.__notes__ == ["in the second fold"]
        assert len(again.history) == len(caught.value.history)


def test_a_masked_array_has_another_meaning_in_operations():
    other = np.ma.array([1.0, 2.0], mask=[False, True])
    with pytest.raises(errors.StructureError, match="cannot be combined with a MaskedArray"):
        fg.grad(lambda x: np.sum(x * other))(np.ones(2))
