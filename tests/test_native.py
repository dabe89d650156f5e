"""Native programs against NumPy: every primitive's samples, special values, integers, keys, and the last bits."""

import ctypes
import itertools

import mpmath
import numpy as np
import pytest
import scipy.special as scipys
from helpers import defined_as, naming
from primitive_names import DRAWS, SAMPLED, chosen

import fgrad as fg
from fgrad import errors
from fgrad.core.primitive import PRIMITIVES, UFUNCS
from fgrad.core.tensor import apply
from fgrad.graphs.equations import Name
from fgrad.native import ufuncs
from fgrad.native.composites import COMPOSITES
from fgrad.native.executable import Executable
from fgrad.native.scalars import SCALAR_OPERATIONS
from fgrad.scipy import special

pytest.importorskip("llvmlite")

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.3, 1e-310, -1e-310, 1e-45, 3e38, -1e30, np.inf, -np.inf, np.nan]
"""Numbers at which operations decide; in single precision some are others of these."""


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def compiled(function, *arrays):
    """Return what runs a function natively, and the graph of which it was made."""
    graph = fg.trace(function)(*arrays)
    return Executable(graph), graph


def results(function, *arrays):
    """Return the results of a native program, those of the recorded one, and what NumPy ran of it."""
    executable, graph = compiled(function, *arrays)
    given = [
        np.ascontiguousarray(x, name.dtype).reshape(name.shape) for x, name in zip(arrays, graph.inputs, strict=True)
    ]
    found = executable.run(given)
    leaves = [np.asarray(x) for x in fg.tree_leaves(graph(*arrays))]
    wanted = [x for x, name in zip(leaves, graph.outputs, strict=True) if type(name) is Name]
    assert found is not None
    return found, wanted, executable.program.refused


def check(found, wanted, tolerance):
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, wanted)
        return
    scale = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale)


# Every primitive


def recordable(name, dtype, derived=False):
    """Return the sample calls of a primitive that a graph can hold: all but those whose shape depends on values."""
    found = []
    for _, call in chosen(name, dtype, derived=derived):
        try:
            fg.trace(call.function)(*call.arrays)
        except errors.ConcretizationError:
            continue
        found.append(call)
    return found


def together(group):
    """Return the calls of a group as one function, and the arrays that it takes."""
    ends = np.cumsum([0, *(len(call.arrays) for call in group)])

    def function(*arrays):
        parts = [arrays[a:b] for a, b in itertools.pairwise(ends)]
        return [call.function(*part) for call, part in zip(group, parts, strict=True)]

    return function, [x for call in group for x in call.arrays]


def weighed(function):
    """Return the sum of all that a function returns, each number with a weight of its own."""

    def total(*arrays):
        leaves = [x for x in fg.tree_leaves(function(*arrays)) if x.dtype.kind == "f" and x.size]
        return sum(np.sum(x * np.cos(np.arange(x.size, dtype=x.dtype)).reshape(x.shape)) for x in leaves)

    return total


LEFT_TO_NUMPY = {
    "any_exprel", "argpartitioned", "argsorted", "assoc_legendre_p", "astype", "beta_density",
    "beta_distribution_slope", "betaprime_isf", "betaprime_ppf", "carlson_integral",
    "characteristic_polynomial", "cofactors", "convolve_axes", "convolve_axes_guarded", "det",
    "digamma_difference", "eig", "eigh", "eigsh", "expm", "expm_frechet", "f_density", "f_distribution_slope",
    "faddeeva", "fft", "fractional_matrix_power", "gamma_density", "gamma_distribution_slope", "gather_spline",
    "gathered_differences", "hankel1", "hankel1e", "hankel2", "hankel2e", "hurwitz_zeta", "ifft", "interp",
    "inv", "inverse_boxcox_less_one", "inverse_mills_ratio", "invgauss_isf", "invgauss_ppf", "irfft", "isin",
    "kelvin", "lambertw", "legendre_p", "lengths", "lexsort", "log_tukey", "logm", "lu", "matrix_rank",
    "modfresnelm", "modfresnelp", "modified_bessel", "noncentral_chi_square_density", "noncentral_f_kernel",
    "noncentral_t_moment", "normalized_assoc_legendre_p", "partition_order", "pinv", "pinv_and_rank",
    "pinv_and_values", "polygamma", "projected_differences", "qr", "rank_places", "recurrence",
    "recursive_filter", "rfft", "rice_isf", "rice_ppf", "roots", "sampled_product", "sampled_product_guarded",
    "scaled_bessel_derivative", "scatter_spline", "scipy_eig", "scipy_eigh", "scipy_inv", "scipy_svd",
    "searchsorted", "skewnorm_ppf", "slide", "smirnov_derivative", "solve_banded", "solve_factored",
    "solve_toeplitz", "sparse_product", "sparse_product_guarded", "sparse_solve", "sph_legendre_p",
    "spherical_bessel", "spherical_in", "spherical_jn", "spherical_kn", "spherical_yn", "spline_coefficients",
    "sqrtm", "stable_order", "student_distribution_slope", "svd", "t_density", "unitary_factor",
    "vonmises_distribution_inverse", "vonmises_distribution_slope", "vonmises_distribution_tail",
    "weighted_places", "wofz",
    *(name for name in SAMPLED if name.endswith("_log_density")),
}  # fmt: skip
"""Primitives of which NumPy runs a sample or more: what has no native form that is cheap, or is complex."""

TOLERANCES = {"float64": 1e-12, "float32": 2e-5}


IN_ONE_PROGRAM = 8
"""Primitives whose samples are compiled together, which takes LLVM little longer than those of one."""


def groups(names):
    """Return the names in groups, of which each has native forms throughout, or none has."""
    kinds = [[name for name in names if (name in LEFT_TO_NUMPY) == is_left] for is_left in (False, True)]
    found = [kind[i : i + IN_ONE_PROGRAM] for kind in kinds for i in range(0, len(kind), IN_ONE_PROGRAM)]
    return [pytest.param(group, id="-".join(group)) for group in found]


def check_together(check_names, names):
    """Check primitives in one program; where that fails, each in a program of its own, to say which it is."""
    try:
        check_names(names)
    except BaseException:
        for name in names:
            with naming(name):
                check_names([name])
        raise


def check_values(names):
    calls = [call for name in names for dtype in (np.float64, np.float32) for call in recordable(name, dtype)]
    function, arrays = together(calls)
    found, wanted, refused = results(function, *arrays)
    assert names[0] in LEFT_TO_NUMPY or not refused
    for x, y in zip(found, wanted, strict=True):
        check(x, y, TOLERANCES.get(y.dtype.name, 1e-12))


@pytest.mark.parametrize("names", groups([name for name in SAMPLED if name not in DRAWS]))
@pytest.mark.slow
def test_values_of_every_primitive(names):
    check_together(check_values, names)


def is_derived(call):
    """Return whether there are a result and an argument that have derivatives."""
    return all(any(x.dtype.kind == "f" for x in each) for each in (call.arrays, results_of(call)))


def results_of(call):
    return fg.tree_leaves(call.function(*call.arrays))


def check_gradients(names):
    calls = [call for name in names for call in recordable(name, np.float64, derived=True) if is_derived(call)]
    if calls:
        function, arrays = together(calls)
        places = tuple(place for place, x in enumerate(arrays) if x.dtype.kind == "f")
        derivative = fg.value_and_grad(weighed(function), places)
        for found, wanted in zip(*results(derivative, *arrays)[:2], strict=True):
            check(found, wanted, 1e-9)


@pytest.mark.filterwarnings("ignore:every gradient of")
@pytest.mark.parametrize("names", groups([x for x in SAMPLED if PRIMITIVES[x].vjps is not None and x not in DRAWS]))
@pytest.mark.slow
def test_gradients_of_every_primitive(names):
    check_together(check_gradients, names)


# Special values, the kinds of integers, the last bits

ELEMENTWISE = sorted(name for name in SCALAR_OPERATIONS if name in PRIMITIVES and PRIMITIVES[name].is_ufunc)
PAIRS = [name for name in ELEMENTWISE if PRIMITIVES[name].implementation.nin == 2]
FEW_BITS = {np.float64: 4e-15, np.float32: 2e-6}


def pairs_of(values):
    a, b = np.meshgrid(values, values)
    return a.ravel().copy(), b.ravel().copy()


ORDERED = not np.signbit(np.maximum(0.0, -0.0))
"""Whether the processor's extrema tell 0.0 from -0.0, as those of ARM do; others give the second of the two."""
EXTREMA = {"fmax", "fmin", *(("maximum", "minimum") if ORDERED else ())}
"""Of 0.0 and -0.0 NumPy gives the one or the other, as the number of elements and the processor have it."""


def same_specials(found, wanted, dtype, is_extremum):
    """Compare bit by bit what is no finite number other than 0, and the rest to a few last places."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted)
        return
    np.testing.assert_allclose(found, wanted, rtol=FEW_BITS[dtype], atol=4 * np.finfo(dtype).smallest_subnormal)
    known = ~np.isnan(wanted) & ~(is_extremum & (wanted == 0))
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(wanted[known]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.slow
def test_special_values(name, dtype):
    ufunc = PRIMITIVES[name].implementation
    values = np.array(SPECIAL, dtype)
    arrays = pairs_of(values) if ufunc.nin == 2 else (np.tile(values, 3),)
    try:
        wanted = ufunc(*arrays)
    except TypeError:  # of what is for integers alone
        assert not SCALAR_OPERATIONS[name].is_for_floats
        return
    (found,), _, refused = results(ufunc, *arrays)
    assert not refused
    same_specials(found, wanted, dtype, name in EXTREMA)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", sorted({*SCALAR_OPERATIONS} & {*PRIMITIVES} - {*ELEMENTWISE}))
def test_special_values_of_fgrads_own(name, dtype):
    primitive = PRIMITIVES[name]
    arrays = pairs_of(np.array(SPECIAL, dtype))[: len(primitive.vjps)]
    if "share" in name:  # of a total, which is no NaN where a part is none, and not below it
        arrays = tuple(x[~(arrays[0] > arrays[1])] for x in arrays)
    (found,), _, refused = results(lambda *given: apply(primitive, given), *arrays)
    assert not refused
    # One by one, because `scale` decides on the sign of zeros by whether there is an infinity anywhere.
    wanted = [primitive.implementation(*(x[[place]] for x in arrays)) for place in range(len(found))]
    same_specials(found, np.concatenate(wanted), dtype, False)


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_numpys(dtype):
    """Wrap-around, division by zero and negative numbers too."""
    ends = [0, 1] if dtype == "bool" else [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, 2, 3, 7, 100]
    values = np.array(ends if dtype[0] in "ub" else [*ends, -1, -2, -7], dtype)
    a, b = pairs_of(values)
    functions, wanted = [], []
    for name in ELEMENTWISE:
        ufunc = UFUNCS[PRIMITIVES[name].implementation].implementation
        arrays = (a, b)[: ufunc.nin]
        try:
            value = ufunc(*arrays)
        except (TypeError, ValueError):  # np.subtract of truth values, powers that are fractions
            continue
        if value.dtype.name in ("float16", "float32") and ufunc.nin == 1 and name != "sqrt":
            continue  # functions of short integers, which NumPy computes in half precision
        functions.append((name, ufunc))
        wanted.append(value)

    def every(a, b):
        return [ufunc(*(a, b)[: ufunc.nin]) for _, ufunc in functions]

    found, _, _ = results(every, a, b)
    for (name, _), x, y in zip(functions, found, wanted, strict=True):
        with naming(name):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            if y.dtype.kind == "f":
                np.testing.assert_allclose(x, y, rtol=2e-15 if y.dtype == np.float64 else 1e-6, atol=0)
            else:
                np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_reductions_of_integers_are_numpys(dtype):
    x = np.arange(12).astype(dtype).reshape(3, 4)
    functions = [np.sum, np.prod, np.max, np.min, np.any, np.all, np.argmax, np.argmin, np.mean, np.cumsum]
    for found, function in zip(results(lambda x: [f(x, axis=1) for f in functions], x)[0], functions, strict=True):
        with naming(function.__name__):
            wanted = function(x, axis=1)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-15)


RANGES = {
    "exp": (-700, 700), "exp2": (-1000, 1000), "expm1": (-30, 700), "log": (1e-300, 1e300), "log2": (1e-300, 1e300),
    "log10": (1e-300, 1e300), "log1p": (-0.999, 1e300), "sin": (-1e4, 1e4), "cos": (-1e4, 1e4), "tan": (-1e4, 1e4),
    "sinh": (-700, 700), "cosh": (-700, 700), "tanh": (-20, 20), "arcsin": (-1, 1), "arccos": (-1, 1),
    "arctan": (-1e6, 1e6), "arcsinh": (-1e6, 1e6), "arccosh": (1, 1e6), "arctanh": (-0.999, 0.999), "cbrt": (-1e9, 1e9),
    "erf": (-5, 5), "erfc": (-5, 20),
}  # fmt: skip
EXACT = {
    "arcsin": mpmath.asin, "arccos": mpmath.acos, "arctan": mpmath.atan, "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh, "arctanh": mpmath.atanh, "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x, 2), "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
}  # fmt: skip


def points_between(low, high, dtype, count=1201):
    """Return points over a range, also close to 0; their number leaves a rest behind the vectors."""
    if dtype == np.float32:
        low, high = max(low, -80.0 if low > -1000 else low), min(high, 80.0 if high < 2000 else 1e30)
        low = max(low, 1e-30) if 0 < low < 1e-30 else low
    even = np.linspace(low, high, count)
    size = np.geomspace(1e-20 if low <= 0 else low, high, count // 2)
    points = np.concatenate([even, size, -size if low < 0 else size]).astype(dtype)
    return points[(points >= dtype(low)) & (points <= dtype(high))]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", RANGES)
@pytest.mark.slow
def test_last_places_of_elementary_functions(name, dtype):
    """At most 4 units in the last place, in vectors and in what is left of them."""
    points = points_between(*RANGES[name], dtype)
    exact = EXACT.get(name) or getattr(mpmath, name)
    (found,), _, refused = results(PRIMITIVES[name].implementation, points)
    assert not refused
    with mpmath.workprec(120):
        wanted = [exact(mpmath.mpf(float(x))) for x in points]
        errors_ = [
            float(abs(mpmath.mpf(float(y)) - exactly) / mpmath.mpf(float(np.spacing(abs(dtype(float(exactly)))))))
            for y, exactly in zip(found, wanted, strict=True)
        ]
    print(f"{name:8} {np.dtype(dtype)}: {max(errors_):.2f} units in the last place at {points[np.argmax(errors_)]!r}")
    assert max(errors_) <= 4


def units_off(found, exactly, dtype):
    """Return by how many units in the last place a number is off, of the smallest numbers in those of these."""
    unit = np.spacing(np.abs(dtype(float(exactly))))
    return float(abs(mpmath.mpf(float(found)) - exactly) / mpmath.mpf(float(unit)))


def bits_at_random(dtype, count=400):
    """Return numbers from the whole range, the smallest ones among them, and some near 0 and 1."""
    rng, integers = np.random.default_rng(5), {np.float64: np.uint64, np.float32: np.uint32}[dtype]
    bits = rng.integers(0, np.iinfo(integers).max, count, integers).view(dtype)
    tiny = (rng.integers(1, 2**20, count // 4) * np.finfo(dtype).smallest_subnormal).astype(dtype)
    near = rng.choice([-1.0, 1.0], (2, count)) * 10.0 ** rng.uniform(-9, 1, (2, count))
    found = np.concatenate([bits, tiny, -tiny, near[0], 1 + near[1], rng.uniform(-2, 2, count)]).astype(dtype)
    return found[np.isfinite(found)]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="there are no longer numbers to compute in")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", sorted(RANGES))
@pytest.mark.slow
def test_precise_functions_are_off_by_one_unit_in_the_last_place_at_most(name, dtype):
    points = bits_at_random(dtype)
    function = PRIMITIVES[name].implementation
    points = points[np.isfinite(function(points)) & (abs(points) < (1e4 if "erf" in name else np.inf))]
    found = fg.compile(function, precise=True)(points).numpy()
    exact = EXACT.get(name) or getattr(mpmath, name)
    with mpmath.workprec(1200 if name in ("sin", "cos", "tan") else 240):
        wanted = [exact(mpmath.mpf(float(x))) for x in points]
        assert max(units_off(y, exactly, dtype) for y, exactly in zip(found, wanted, strict=True)) <= 1


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="there are no longer numbers to compute in")
def test_precise_functions_of_both_precisions_in_one_program():
    x = np.linspace(-3.0, 3.0, 101)

    found = fg.compile(lambda x, y: (np.cbrt(x), np.cbrt(y), np.arctan2(y, y[::-1])), precise=True)(x, np.float32(x))
    short = np.float32(x).astype(float)
    with mpmath.workprec(240):  # NumPy's own cube root is off by more than one unit on some machines
        roots = [[EXACT["cbrt"](mpmath.mpf(each)) for each in points.tolist()] for points in (x, short)]
        angles = [mpmath.atan2(*pair) for pair in zip(short.tolist(), short[::-1].tolist(), strict=True)]
        for y, wanted in zip(found, (*roots, angles), strict=True):
            off = [units_off(a, b, y.dtype.type) for a, b in zip(y.numpy().tolist(), wanted, strict=True)]
            assert max(off) <= 1


# Keys


def both(function, *arrays):
    """Compare a native program that NumPy has no part in with the function."""
    found, wanted, refused = results(function, *arrays)
    assert not refused
    for x, y in zip(found, wanted, strict=True):
        check(x, y, 1e-14)


KEYS = [
    (np.s_[:, "i"], 2), (np.s_["i", :, "j"], 2), (np.s_["i", 1], 1), (np.s_[..., "i", None, ::2], 1),
    (np.s_[1, :, "i"], 1), (np.s_["i", ..., "j"], 2), (np.s_["i", None, "j"], 2), (np.s_["i", "j", -1], 2),
    (np.s_[::-1, "i", 1:], 1), (np.s_["i"], 1), (np.s_[None, "i"], 1), (np.s_["i", "j", ..., "k"], 3),
]  # fmt: skip


def filled(key, arrays):
    items = key if type(key) is tuple else (key,)
    return tuple(arrays["ijk".index(item)] if isinstance(item, str) else item for item in items)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("key", [key for key, _ in KEYS], ids=str)
def test_keys_with_integers(key, is_known):
    """Axes of the result lie where NumPy puts them; negative indices count from the end, repeated ones add up."""
    x = np.arange(60.0).reshape(3, 4, 5)
    indices = [np.array([[0, -1, 1], [1, 0, 0]]), np.array([2, 1, -3]), np.array([1, 1, -2])]
    value = np.linspace(1, 2, x[filled(key, indices)].size).reshape(x[filled(key, indices)].shape)

    def function(x, value, *given):
        own = filled(key, indices if is_known else [g + 0 for g in given])
        y = x.copy()
        y[own] = value
        return x[own], y, fg.grad(lambda x: np.sum(x[own] * value))(x)

    both(function, x, value, *indices)


@pytest.mark.parametrize("wrong", [3, -4])
def test_an_index_out_of_range_is_numpys_to_refuse(wrong):
    function = fg.trace(lambda x, i: x[i] * 2.0)(np.arange(3.0), np.array([0, 1]))
    executable = Executable(function)
    assert executable.run([np.arange(3.0), np.array([2, -3])])[0].tolist() == [4.0, 0.0]
    assert executable.run([np.arange(3.0), np.array([0, wrong])]) is None


def test_a_mask_that_is_not_known_chooses_between_values():
    def function(x):
        y = x.copy()
        y[x < 0] = 0.0
        y[x[:, 0] > 1] = np.ones(3)
        return y

    both(function, np.linspace(-2, 3, 12).reshape(4, 3))


def test_an_array_written_before_and_behind_a_step_of_numpys_is_one():
    def function(x):
        return np.stack([4.0, np.sum(x), np.sort(x)[0], 5.0])

    found, wanted, refused = results(function, np.array([3.0, 1.0, 2.0]))
    assert len(refused) == 1
    check(found[0], wanted[0], 1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_a_sum_of_one_element_begins_at_zero(dtype):
    """Of no axes and of axes of size 1, too: NumPy's sum of -0.0 is 0.0."""
    for shape in ((), (1,), (2, 1)):
        x = np.full(shape, -0.0, dtype)
        for function in (np.sum, np.mean, np.add.reduce, lambda x: np.sum(x, axis=()), lambda x: np.sum(x, axis=-1)):
            (found,), (wanted,), _ = results(function, x)
            check(found, wanted, 0.0)
            assert not np.signbit([found.real, wanted.real]).any()


def test_running_sums_keep_the_sign_of_zero():
    (found,), _, _ = results(np.cumsum, np.array([-0.0, -0.0, 0.0]))
    assert np.signbit(found).tolist() == [True, True, False]


def test_ufuncs_of_another_layout_are_left_to_numpy(monkeypatch):
    class Shifted(ctypes.Structure):
        _fields_ = [("more", ctypes.c_int), *ufuncs._Layout._fields_]

    x = np.array([0.5, 2.5])
    assert not fg.compile(scipys.gammaln).inspect(x).steps
    monkeypatch.setattr(ufuncs, "_Layout", Shifted)
    compiled = fg.compile(scipys.gammaln)
    np.testing.assert_array_equal(compiled(x), scipys.gammaln(x))
    assert [step.operations for step in compiled.inspect(x).steps] == [{"gammaln": 1}]


def test_inner_loops_are_those_of_the_ufunc_to_the_last_bit():
    for dtype in (np.float64, np.float32):
        x, y = np.linspace(0.1, 30, 101).astype(dtype), dtype(1.5)
        functions = [scipys.gammaln, scipys.i0, scipys.erfcx, scipys.ndtri]
        found, wanted, refused = results(
            lambda x, y: [*(f(x) for f in functions), scipys.gammainc(y, x), scipys.jv(2, x), *scipys.sici(x)], x, y
        )
        assert not refused
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


def test_rounding_to_decimals():
    x = np.array([0.125, -2.675, 1e300, np.nan, -np.inf, -0.0, 150.0, 5.5])
    for decimals in (-2, 0, 1, 2):
        (found,), _, refused = results(lambda x, decimals=decimals: np.round(x, decimals), x)
        assert not refused
        np.testing.assert_array_equal(found, np.round(x, decimals))


def test_extrema_of_numbers_leave_nan_out():
    x = np.array([[np.nan, 1.0, -np.inf], [np.nan, np.nan, np.nan], [2.0, np.inf, np.nan]])
    both(lambda x: [fg.tree_leaves(f(x, axis=1))[0] for f in (np.fmax.reduce, np.fmin.reduce)], x)


def test_the_first_of_equals_and_the_first_nan_are_chosen():
    x = np.array([[1.0, 3.0, 3.0], [np.nan, 1.0, np.nan], [-np.inf, -np.inf, -np.inf], [2.0, np.nan, 5.0]])
    both(lambda x: [f(x, axis=axis) for f in (np.argmax, np.argmin) for axis in (0, 1, None)], x)


@pytest.mark.parametrize("starts", [[0, 2, 2, 5], [1, 4], list(range(0, 40, 2))])
def test_sums_of_segments(starts):
    x = np.linspace(0, 1, 90).reshape(45, 2)
    both(lambda x: np.add.reduceat(x, starts, 0), x)


def test_softmax_and_its_kin_of_infinities():
    x = np.array(
        [[1.0, 2.0, 3.0], [-np.inf, 0.0, -np.inf], [-np.inf, -np.inf, -np.inf], [np.inf, 0.0, np.inf], [1e4, 1e4, 0]]
    )
    both(lambda x: [special.softmax(x, axis=1), special.log_softmax(x, axis=1), special.logsumexp(x, axis=1)], x)


def test_an_implementation_that_asks_for_values_is_left_to_numpy(monkeypatch):
    monkeypatch.setattr("fgrad.native.composites.COMPOSITES", {*COMPOSITES, "interp"})
    points = np.array([0.0, 1.0, 2.0])
    with defined_as(PRIMITIVES["interp"], implementation=lambda x, fp, xp: np.interp(x.tolist(), xp, fp)):
        (found,), (wanted,), refused = results(lambda x: np.interp(x, points, points**2), np.array([0.5, 1.5]))
    assert len(refused) == 1
    check(found, wanted, 1e-15)


def test_what_a_ufunc_raises_is_what_the_user_gets():
    compiled = fg.compile(lambda x: scipys.gammaln(x))
    compiled(np.ones(3))
    with scipys.errstate(all="raise"), pytest.raises(scipys.SpecialFunctionError, match="singularity"):
        compiled(np.array([0.0, -1.0, 2.0]))
    np.testing.assert_array_equal(compiled(np.ones(3)), np.zeros(3))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_places_in_long_rows_are_left_to_numpy(axis):
    """Their numbers would take more memory than the array has."""
    x = np.sin(np.arange(20000.0)).reshape(2, 10000)
    (found,), (wanted,), refused = results(lambda x: np.argmax(x, axis=axis), x)
    np.testing.assert_array_equal(found, wanted)
    assert bool(refused) == (axis != 0)


def _single_in_rows(dtype, shape=(40, 30)):
    """Return an array of which each row but one has one number that is not zero."""
    rng = np.random.default_rng(0)
    value = np.zeros(shape, dtype)
    rows = value.reshape(-1, shape[-1])
    rows[np.arange(len(rows)), rng.integers(shape[-1], size=len(rows))] = rng.integers(1, 9, size=len(rows))
    rows[3] = 0
    return value


CONSTANTS = {
    "identity": np.eye(40),
    "shifted": np.eye(40, 37, 2),
    "weights": _single_in_rows(np.float64),
    "single precision": _single_in_rows(np.float32),
    "integers": _single_in_rows(np.int64),
    "truths": _single_in_rows(np.bool_),
    "three axes": _single_in_rows(np.float64, (4, 20, 30)),
    "infinite": np.where(np.eye(40), np.inf, 0.0),
}


@pytest.mark.parametrize("constant", CONSTANTS.values(), ids=CONSTANTS)
def test_constants_with_one_number_in_a_row_are_not_read(constant):
    x = np.random.default_rng(1).normal(size=constant.shape)
    for function in (lambda x: constant * x, lambda x: (x + constant).T, lambda x: np.maximum(constant[::-1], x)):
        program = fg.compile(function)
        np.testing.assert_array_equal(program(x), function(x))
        assert program.inspect(x).bytes < 2 * x.nbytes + constant.nbytes


def test_other_constants_are_read():
    x = np.random.default_rng(1).normal(size=(40, 40))
    for constant in (-np.eye(40), np.eye(40) + np.eye(40, k=1), np.where(np.eye(40, dtype=bool), 2.0, -0.0)):
        program = fg.compile(lambda x, constant=constant: np.copysign(x, constant))
        np.testing.assert_array_equal(program(x), np.copysign(x, constant))
        assert program.inspect(x).bytes == (2 * x.nbytes + constant.nbytes)


@pytest.mark.parametrize("slope", [2.0, np.inf, np.nan])
def test_zeros_of_a_mask_win_over_known_numbers(slope):
    x = np.array([-1.0, 0.0, 2.0])
    gradient = fg.grad(lambda x: np.sum(np.where(x > 0, x * slope, 0.0)))
    np.testing.assert_array_equal(gradient(x), [0.0, 0.0, slope])
    np.testing.assert_array_equal(fg.compile(gradient)(x), [0.0, 0.0, slope])


def test_a_hessian_reads_nothing_but_its_argument():
    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    x = np.random.default_rng(0).normal(size=60)
    hessian = fg.compile(fg.hessian(rosenbrock))
    np.testing.assert_allclose(hessian(x), fg.hessian(rosenbrock)(x), rtol=1e-14)
    assert hessian.inspect(x).bytes < 1.1 * hessian(x).nbytes


def test_arrays_apart_in_a_key_put_their_axes_where_numpy_does():
    x, rows, columns = np.arange(120.0).reshape(2, 3, 4, 5), np.array([0, 2]), np.array([4, 1])
    for look in (lambda x, i, j: x[:, i, :, j], lambda x, i, j: x[i % 2, :, :, j], lambda x, i, j: x[:, :, i, j]):
        assert fg.compile(look)(x, rows, columns).tolist() == look(x, rows, columns).tolist()


def test_zeros_of_a_mask_win_over_infinities_in_products():
    matrix, mask = np.array([[np.inf, 1.0], [1.0, 2.0]]), np.array([False, True])

    def f(x, matrix):
        return np.sum(np.where(mask, matrix @ x, 0.0))

    assert fg.compile(fg.grad(f))(np.ones(2), matrix).tolist() == [1.0, 2.0]


def test_equations_whose_rows_are_exchanged_have_their_derivatives():
    a, b = np.array([[0.0, 1.0, 2.0], [3.0, 0.5, 1.0], [1.0, 4.0, 0.0]]), np.array([1.0, 2.0, 4.0])

    def f(a, b):
        return np.sum(np.linalg.solve(a, b) ** 2)

    for found, expected in zip(fg.compile(fg.grad(f, (0, 1)))(a, b), fg.grad(f, (0, 1))(a, b), strict=True):
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-12)


def test_the_first_of_equal_extrema_and_sums_along_every_axis():
    x = np.array([[[2.0, 1.0], [2.0, 3.0], [0.0, 3.0]], [[2.0, 1.0], [-1.0, 3.0], [5.0, 3.0]]])
    for axis in (0, 1, 2):
        for f in (np.argmax, np.argmin, np.cumsum, np.cumprod):
            assert fg.compile(lambda x: f(x, axis=axis))(x).tolist() == f(x, axis=axis).tolist(), (f, axis)


def test_nested_lists_of_other_lengths_have_other_programs():
    compiled = fg.compile(lambda tree: tree[0] + (10 * tree[2] if len(tree) == 3 else 100 * tree[1][1]) + tree[1][0])
    for _ in range(3):
        assert compiled([1.0, [2.0], 4.0]) == 43.0
        assert compiled([1.0, [2.0, 4.0]]) == 403.0
