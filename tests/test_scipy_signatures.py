"""Functions of SciPy's names have SciPy's parameters, in SciPy's order and with SciPy's defaults.

A new release of SciPy that changes a signature fails here, and names what changed.
"""

import importlib
import inspect
import pickle

import numpy as np
import pytest
import scipy.optimize

import fgrad as fg
import fgrad.scipy.optimize as optimize
from fgrad.scipy import linalg, ndimage
from fgrad.scipy.spatial import distance

MODULES = (
    "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "sparse.linalg", "spatial",
    "spatial.distance", "special", "stats",
)  # fmt: skip

FURTHER = {"compile", "derivative", "args"}
"""Parameters that fgrad has besides: all are passed by name."""

OTHERWISE = {
    "linalg.eigvals": "check_finite can be passed by position in some versions of SciPy alone",
    "linalg.logm": "disp is deprecated, and gone in the next version",
    "linalg.sqrtm": "disp and blocksize are deprecated, and gone in the next version",
    "optimize.nnls": "atol is deprecated, and does nothing",
    "sparse.diags_array": "the default of dtype is an object that means None",
}
MULTIPLE_UFUNCS = {
    f"special.{name}{end}": "SciPy's has no signature, but *args and **kwargs"
    for name in ("assoc_legendre_p", "legendre_p", "sph_harm_y", "sph_legendre_p")
    for end in ("", "_all")
}


def _pairs():
    for module in MODULES:
        ours = importlib.import_module(f"fgrad.scipy.{module}")
        scipys = importlib.import_module(f"scipy.{module}")
        for name in dir(ours):
            function, counterpart = getattr(ours, name), getattr(scipys, name, None)
            if inspect.isfunction(function) and callable(counterpart) and _has_signature(counterpart):
                yield f"{module}.{name}", function, counterpart


def _has_signature(function):
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return True


PAIRS = {name: pair for name, *pair in _pairs()}


def _parameters(function):
    """Return names, kinds and defaults; what collects further keywords may have any name."""
    found = {}
    for each in inspect.signature(function).parameters.values():
        name = "**" if each.kind is inspect.Parameter.VAR_KEYWORD else each.name
        found[name] = each.kind, None if each.name == "lwork" else each.default  # whose default means nothing
    return found


@pytest.mark.parametrize("name", sorted(PAIRS.keys() - OTHERWISE.keys() - MULTIPLE_UFUNCS.keys()))
def test_the_signature_is_scipys(name):
    ours, scipys = map(_parameters, PAIRS[name])
    further = {each for each in ours.keys() - scipys.keys() if each in FURTHER}
    for each in further:
        assert ours.pop(each)[0] is inspect.Parameter.KEYWORD_ONLY
    assert list(ours) == list(scipys)
    assert str(ours) == str(scipys)  # defaults may be NaN, or arrays


def test_the_exceptions_are_there():
    """Those that depend on SciPy's version may be none with this one."""
    assert len(PAIRS) > 240
    assert {*OTHERWISE, *MULTIPLE_UFUNCS} <= {*PAIRS}
    assert str(_parameters(PAIRS["sparse.diags_array"][0])) != str(_parameters(PAIRS["sparse.diags_array"][1]))


def test_arguments_by_position_are_scipys():
    def valley(x):
        return (x[0] ** 2 - 1.0) ** 2 + 0.3 * x[0]

    found = optimize.basinhopping(valley, [1.0], 20, 1.0, 0.5, rng=0)
    assert found.nit == scipy.optimize.basinhopping(valley, [1.0], 20, 1.0, 0.5, rng=0).nit == 20
    evolved = optimize.differential_evolution(valley, [(-2.0, 2.0)], (), "rand1bin", 50, rng=0)
    wanted = scipy.optimize.differential_evolution(valley, [(-2.0, 2.0)], (), "rand1bin", 50, rng=0)
    assert evolved.nfev == wanted.nfev
    with pytest.raises(TypeError, match="multiple values for argument 'niter'"):
        optimize.basinhopping(valley, [1.0], 20, niter=3)


def test_what_fsolve_and_toms748_take_besides():
    def cube(a):
        return optimize.fsolve(lambda x: x**3 - a, [1.0], (), lambda x: np.diag(3 * x**2), True)

    root, report, status, message = cube(8.0)
    wanted = scipy.optimize.fsolve(lambda x: x**3 - 8.0, [1.0], (), lambda x: np.diag(3 * x**2), True)
    np.testing.assert_allclose(root, wanted[0], rtol=1e-8)
    assert report["nfev"] == wanted[1]["nfev"]
    assert (status, message) == wanted[2:]
    np.testing.assert_allclose(fg.jacobian(lambda a: cube(a)[0])(8.0), [1 / 12], rtol=1e-8)
    columns = optimize.fsolve(lambda x: x * x - 2.0, [1.0, 2.0], fprime=lambda x: np.diag(2 * x), col_deriv=True)
    np.testing.assert_allclose(columns, np.sqrt([2.0, 2.0]), rtol=1e-8)
    coarse = optimize.fsolve(lambda x: x**3 - 8.0, [1.0], fprime=False, epsfcn=1e-2, full_output=True)
    assert (
        coarse[1]["nfev"]
        == scipy.optimize.fsolve(lambda x: x**3 - 8.0, [1.0], epsfcn=1e-2, full_output=True)[1]["nfev"]
    )

    def root_of(a):
        return optimize.toms748(lambda x: x**2 - a, 0.0, 10.0, (), 2, full_output=True)

    assert (
        root_of(4.0)[1].iterations
        == scipy.optimize.toms748(lambda x: x**2 - 4.0, 0.0, 10.0, k=2, full_output=True)[1].iterations
    )
    np.testing.assert_allclose(fg.grad(lambda a: root_of(a)[0])(4.0), 0.25)


def test_a_function_of_a_family_has_its_own_name_and_is_pickled_by_it():
    for function, module in (
        (ndimage.minimum_filter, "ndimage.ranks"),
        (ndimage.convolve, "ndimage.filters"),
        (linalg.cosm, "linalg.functions"),
        (distance.cosine, "spatial.distance"),
    ):
        assert (function.__module__, function.__qualname__) == (f"fgrad.scipy.{module}", function.__name__)
        assert pickle.loads(pickle.dumps(function)) is function


def test_a_wrong_call_of_a_function_of_a_family_names_the_function():
    x = np.ones(3)
    with pytest.raises(TypeError, match=r"^maximum_filter\(\) got an unexpected keyword argument 'sizes'$"):
        fg.jacobian(lambda x: ndimage.maximum_filter(x, sizes=3))(x)
    with pytest.raises(TypeError, match=r"^convolve1d\(\) missing a required argument: 'weights'$"):
        fg.jacobian(lambda x: ndimage.convolve1d(x))(x)
    with pytest.raises(TypeError, match=r"^euclidean\(\) missing 1 required positional argument: 'v'$"):
        fg.grad(lambda x: distance.euclidean(x))(x)
    with pytest.raises(fg.errors.DtypeError, match="compares numbers"):
        fg.jacobian(lambda x: ndimage.maximum_filter(x * 1j, 3))(x)
