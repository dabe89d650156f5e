"""`fgrad.numpy` as a namespace of the array API, and SciPy's own functions where they ask for it."""

import copy
import inspect
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy
import scipy.linalg
import scipy.signal
import scipy_switch_table
from helpers import plain

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors

V = np.array([1.0, 2.0, 4.0])
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "scipy-array-api.md"


# Devices


def _with_device():
    """Return the names of NumPy's functions that take `device`, with arguments to call them by."""
    special = {
        "arange": (3,),
        "astype": (V, np.float32),
        "eye": (2,),
        "full": ((2,), 1.5),
        "full_like": (V, 2.5),
        "linspace": (0.0, 1.0, 3),
    }
    for name in ("arange", *np.__all__):  # the signature of `arange` is not known to older Pythons
        try:
            parameters = inspect.signature(getattr(np, name)).parameters
        except (TypeError, ValueError):
            continue
        if "device" in parameters and name != "from_dlpack":
            yield name, special.get(name, (V,) if "like" in name or name.startswith("as") else ((2,),))


@pytest.mark.parametrize(("name", "args"), sorted(dict(_with_device()).items()))
def test_what_numpy_makes_on_a_device_is_made_on_it(name, args):
    make, expected = getattr(fnp, name), getattr(np, name)(*args)
    for device in ("cpu", None):
        made = make(*args, device=device)
        assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
        if not name.startswith("empty"):
            np.testing.assert_array_equal(plain(made), expected)
    with pytest.raises(ValueError, match='Only "cpu" is allowed'):
        make(*args, device="gpu")
    if isinstance(args[0], np.ndarray):
        with pytest.raises(ValueError, match='Only "cpu" is allowed'):
            make(fg.constant(args[0]), *args[1:], device="gpu")


def test_there_are_functions_that_take_a_device():
    assert len(dict(_with_device())) >= 13


@pytest.mark.parametrize(
    "f",
    [
        lambda x: fnp.full((2,), x, device="cpu"),
        lambda x: fnp.full_like(fnp.zeros(2), x, device="cpu"),
        lambda x: np.full_like(fnp.zeros(2), x, device="cpu"),
        lambda x: fnp.linspace(x, 3.0, 2, device="cpu"),
        lambda x: fnp.asarray(x, device="cpu") * np.array([1.0, 1.0]),
    ],
)
def test_derivatives_flow_to_what_is_made_on_a_device(f):
    assert float(fg.grad(lambda x: np.sum(f(x) * np.array([1.0, 10.0])))(2.0)) in (11.0, 1.0)


def test_full_takes_the_order_that_numpy_takes():
    assert fnp.full((2, 3), 1.0, None, "F").shape == (2, 3)


# Numbers that a mask is written to


@pytest.mark.parametrize("truth", [True, np.True_, np.array(True), fg.constant(True)])
def test_a_number_is_written_to_where_a_truth_value_says_so(truth):
    def f(x, y):
        z = x * 1.0
        z[truth] = y
        return z

    assert [float(g) for g in fg.grad(f, argnums=(0, 1))(2.0, 5.0)] == [0.0, 1.0]
    z = fg.constant(2.0)
    z[truth] = 7.0
    assert float(z) == 7.0
    z[~np.asarray(truth)] = 8.0
    assert float(z) == 7.0


def test_a_number_is_written_to_where_a_comparison_with_it_holds():
    def f(x):
        y = x * x
        y[y > 3.0] = 3.0 * x
        return y

    assert (float(fg.grad(f)(2.0)), float(fg.grad(f)(1.0))) == (3.0, 2.0)
    with pytest.raises(TypeError, match="does not support item assignment"):
        fg.constant(1.0)[0] = 2.0


# Operators and protocols


def test_integers_are_shifted_by_operators_and_in_place():
    x = fg.constant([1, 2, 12])
    assert (x << 1).tolist() == [2, 4, 24]
    assert (x >> 1).tolist() == [0, 1, 6]
    assert ((1 << x).tolist(), (64 >> x).tolist()) == ([2, 4, 4096], [32, 16, 0])
    view = x[:2]
    x <<= 2
    x >>= np.array([1, 1, 0])
    assert (x.tolist(), view.tolist()) == ([2, 4, 48], [2, 4])


def test_the_protocols_have_the_signatures_of_the_standard():
    namespace = inspect.signature(fg.Tensor.__array_namespace__).parameters
    assert [(p.name, p.kind) for p in namespace.values()][1:] == [("api_version", inspect.Parameter.KEYWORD_ONLY)]
    exported = inspect.signature(fg.Tensor.__dlpack__).parameters
    assert list(exported)[1:] == ["stream", "max_version", "dl_device", "copy"]
    assert {p.kind for p in list(exported.values())[1:]} == {inspect.Parameter.KEYWORD_ONLY}
    assert list(inspect.signature(fg.Tensor.__dlpack_device__).parameters) == ["self"]


@pytest.mark.parametrize("of", [lambda x: x.copy(), copy.copy, copy.deepcopy, lambda x: x[:], fg.Variable])
def test_a_copy_is_handed_over_too(of):
    x = of(fg.constant(V))
    assert "dltensor" in repr(x.__dlpack__())
    assert np.from_dlpack(x).tolist() == V.tolist()


# Members about memory


MEMBERS = ("flags", "strides", "ctypes", "base", "data")


@pytest.mark.parametrize("name", MEMBERS)
def test_a_traced_tensor_has_no_member_about_memory(name):
    def f(x):
        assert not hasattr(x, name)
        assert getattr(x, name, None) is None
        with pytest.raises(errors.MissingMemberError, match=rf"ndarray\.{name} has no derivative rule") as raised:
            getattr(x, name)
        assert isinstance(raised.value, (AttributeError, TypeError))
        return x.sum()

    fg.grad(f)(V)
    assert hasattr(fg.constant(V), name)


def test_where_scipy_asks_for_such_a_member_its_function_is_named():
    with pytest.raises(AttributeError, match=r"Write fgrad\.scipy\.linalg\.circulant, which has the same arguments"):
        fg.grad(lambda x: np.sum(scipy.linalg.circulant(x)))(V)


def test_asking_for_a_name_that_numpy_warns_of_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not hasattr(fg.constant(V), "str")
    with pytest.raises(AttributeError, match=r"Instead: np\.median\(x\)"):
        fg.constant(V).median()


# Fourier transforms


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_of_a_dtype(name):
    frequencies, numpys = getattr(fnp.fft, name), getattr(np.fft, name)
    assert frequencies(5, 0.5).dtype == np.float64
    for dtype in (np.float32, fnp.float64, "float16"):
        found = frequencies(5, d=0.5, dtype=dtype, device="cpu")
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, numpys(5, 0.5).astype(dtype))
    slopes = fg.jacobian(lambda d: frequencies(4, d, dtype=np.float32))(0.5)
    np.testing.assert_allclose(slopes, fg.jacobian(lambda d: numpys(4, d))(0.5), rtol=1e-6)
    with pytest.raises(errors.DtypeError, match="frequencies have a floating-point dtype"):
        frequencies(4, dtype=np.int64)
    with pytest.raises(ValueError, match=r"[Dd]evice"):
        frequencies(4, device="gpu")


def test_the_module_has_numpys_names():
    assert fnp.fft is fg.constant(V).__array_namespace__().fft
    assert dir(fnp.fft) == dir(np.fft)
    assert fnp.fft.fft is np.fft.fft
    with pytest.raises(AttributeError):
        fnp.fft.nothing  # noqa: B018


# SciPy


def test_the_namespace_has_the_special_functions():
    assert fnp.special is fg.constant(V).__array_namespace__().special
    np.testing.assert_allclose(fg.jacobian(fnp.special.gammaln)(V).numpy().diagonal(), scipy.special.digamma(V))
    assert "special" in dir(fnp)
    assert "special" not in dir(np)
    program = "import sys, fgrad.numpy as np; assert 'scipy' not in sys.modules; np.special.gamma(3.0)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_scipys_code_refuses_in_c_names_the_function_of_fgrad():
    with pytest.raises(errors.ScipyCallError, match=r"Write fgrad\.scipy\.signal\.upfirdn"):
        fg.grad(lambda x: np.sum(scipy.signal.upfirdn(V, x, 2)))(V)


@pytest.fixture(scope="module")
def outcomes():
    return scipy_switch_table.outcomes()


def test_under_the_switch_no_call_is_wrong_and_every_refusal_names_a_way_out(outcomes):
    for area, results in outcomes.items():
        for call, said in results.items():
            assert said != "wrong", (area, call)
            if said != "right" and not said.startswith("no call"):
                way_out = "Write fgrad.|write it with functions|fgrad.numpy.asarray|fg.stop_gradient|by quadrature"
                assert re.search(way_out, said), (area, call, said)


def test_the_page_has_the_table_that_its_command_prints(outcomes):
    page = PAGE.read_text(encoding="utf-8")
    assert "python tests/scipy_switch_table.py" in page
    version = re.search(r"with SciPy (\d+\.\d+)\.", page)
    assert version
    if scipy.__version__.startswith(f"{version[1]}."):
        lines = [line for line in page.splitlines() if line.startswith("|")]
        assert lines == scipy_switch_table.table(outcomes), "write what the command prints"
    else:  # other versions have converted other functions; the special ones have been wrapped since 1.14
        assert outcomes["special"]["gamma(x)"] == outcomes["special"]["gammaln(x)"] == "right"


def run_under_the_switch(program):
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_programs_of_the_page_run():
    first, second = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    first += "\nassert abs(float(digamma) - float(scipy.special.digamma(2.5))) < 1e-14"
    second += "\nassert slope.shape == (4, 3) and np.all(np.isfinite(slope))"
    run_under_the_switch(f"for program in ({first!r}, {second!r}):\n    exec(program, {{}})")


def test_fgrads_own_functions_do_under_the_switch_what_they_do():
    run_under_the_switch("""
import numpy as np, fgrad as fg, scipy.special
from fgrad.scipy import special, stats
from fgrad.testing import check_grads
x = np.array([0.3, 1.2, 2.1])
assert isinstance(special.gamma, np.ufunc) and not isinstance(scipy.special.gamma, np.ufunc)
check_grads(lambda x: special.betaln(x, np.array([1.0, 2.0, 3.0])), (x,))
check_grads(lambda x: scipy.special.gamma(x) + scipy.special.sinc(x) + scipy.special.polygamma(1, x), (x,))
check_grads(lambda x: stats.gamma.logpdf(x, 2.5) + stats.norm.cdf(x), (x,))
assert np.allclose(fg.vmap(scipy.special.gamma)(x), scipy.special.gamma(x))
""")


# scikit-learn


ESTIMATORS = {
    "StandardScaler": "preprocessing.StandardScaler().fit_transform(x)",
    "MinMaxScaler": "preprocessing.MinMaxScaler().fit_transform(x)",
    "MaxAbsScaler": "preprocessing.MaxAbsScaler().fit_transform(x)",
    "Normalizer": "preprocessing.Normalizer().fit_transform(x)",
    "PolynomialFeatures": "preprocessing.PolynomialFeatures().fit_transform(x)",
    "PCA": "decomposition.PCA(2, svd_solver='full').fit_transform(x)",
    "PCA by eigenvalues": "decomposition.PCA(2, svd_solver='covariance_eigh').fit(x).explained_variance_",
    "Ridge": "linear_model.Ridge(solver='svd').fit(x, x[:, 0] * 2 + x[:, 1] ** 2).coef_",
    "prediction of Ridge": "(lambda y: linear_model.Ridge(solver='svd').fit(x, y).predict(x))(x[:, 0] + x[:, 1] ** 2)",
    "kernel": "metrics.pairwise.rbf_kernel(x, x[:3] * 1.1)",
}


def test_estimators_of_scikit_learn_are_differentiated_where_they_dispatch():
    run_under_the_switch(f"""
import numpy as np, fgrad as fg, sklearn
from fgrad.testing import check_grads
from sklearn import decomposition, linear_model, metrics, preprocessing
points = np.random.default_rng(0).normal(size=(8, 3))
with sklearn.config_context(array_api_dispatch=True):
    for name, estimate in {ESTIMATORS!r}.items():
        f = eval("lambda x: " + estimate)
        expected = f(points)
        for found in (f(fg.constant(points)), fg.vjp(f, points)[0]):
            assert isinstance(found, fg.Tensor), name
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-12, err_msg=name)
        check_grads(f, (points,), order=1, modes=("rev",))
""")
