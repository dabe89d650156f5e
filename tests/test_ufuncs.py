"""Every ufunc of NumPy: its derivative or the lack of one, its keywords and its methods."""

import math

import mpmath as mp
import numpy as np
import pytest
from primitive_names import INTEGERS_ONLY
from rows import arrays, check_row, check_values, identified

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.primitive import PRIMITIVES, UFUNC_FORMS, UFUNCS
from fgrad.core.tensor import Tensor
from fgrad.testing import check_grads

pytestmark = pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")

RNG = np.random.default_rng(1)
V = RNG.uniform(0.3, 1.5, 5)
W = RNG.uniform(0.3, 1.5, 5)
M = RNG.uniform(0.3, 1.5, (3, 4))
Z = RNG.uniform(0.3, 1.5, 4) + 1j * RNG.uniform(0.3, 1.5, 4)
MASK = np.array([True, False, True, True, False])

NUMPYS = sorted({value.__name__: value for value in vars(np).values() if isinstance(value, np.ufunc)}.items())


def test_every_ufunc_is_answered():
    assert [name for name, ufunc in NUMPYS if ufunc not in UFUNCS and (ufunc, "__call__") not in UFUNC_FORMS] == []


NEW_SPELLINGS = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "pow", "bitwise_invert", "bitwise_left_shift",
    "bitwise_right_shift",
]  # fmt: skip


@pytest.mark.parametrize("name", NEW_SPELLINGS)
def test_new_spellings_are_the_same_ufuncs(name):
    assert getattr(np, name) in UFUNCS


ROWS = [
    ("positive", np.positive, V),
    ("cbrt", np.cbrt, V),
    ("cbrt below 0", np.cbrt, -V),
    ("fabs", np.fabs, V - 0.9),
    ("degrees", np.degrees, V),
    ("rad2deg", np.rad2deg, V),
    ("radians", np.radians, V),
    ("deg2rad", np.deg2rad, V),
    ("float_power", np.float_power, V, W),
    ("float_power of complex numbers", np.float_power, Z, Z[::-1]),
    ("float_power of integers", lambda y: np.float_power(np.array([2, 3, 4]), y), V[:3]),
    ("power of complex numbers", np.power, Z, Z[::-1]),
    ("fmod", np.fmod, 3 * V, W),
    ("fmod below 0", np.fmod, -3 * V, W),
    ("remainder below 0", np.remainder, -3 * V, W),
    ("divmod", np.divmod, 3 * V, W),
    ("divmod, broadcast", lambda x, y: np.divmod(x[:, None], y), 3 * V, W),
    ("the operator divmod", lambda x: divmod(x, 0.4), 3 * V),
    ("the operator divmod from the right", lambda x: divmod(7.0, x), V),
    ("modf", np.modf, 3 * V - 2),
    ("frexp", np.frexp, 3 * V),
    ("ldexp", lambda x: np.ldexp(x, [1, -2, 3, 0, 5]), V),
    ("frexp and ldexp", lambda x: np.ldexp(*np.frexp(x)), V),
    ("copysign", lambda x: np.copysign(x, [1.0, -1.0, -0.0, 0.0, -2.0]), V - 0.9),
    ("copysign of both", np.copysign, V - 0.9, W - 0.9),
    ("nextafter", lambda x: np.nextafter(x, 9.0), V),
    ("spacing", lambda x: x * np.spacing(x), V),
    ("logaddexp2", np.logaddexp2, V, W),
    ("heaviside", lambda x, h: np.heaviside(x, h) * x, V - 0.9, W),
    ("heaviside at 0", lambda h: np.heaviside(np.array([0.0, 1.0, -1.0]), h), V[:3]),
    ("fmax", np.fmax, V, W),
    ("fmin", np.fmin, V, W),
    ("fmax with nan", lambda x: np.fmax(x, [np.nan, 0.1, 2.0, 0.1, np.nan]), V),
    ("fmin with nan", lambda x: np.fmin([np.nan, 0.1, 2.0, 0.1, np.nan], x), V),
    ("fmax and fmin of complex numbers", lambda x: np.fmax(x, Z[::-1]) + np.fmin(x, Z[::-1]) * x, Z),
    ("maximum of complex numbers", lambda x: np.maximum(x, Z[::-1]) + np.minimum(x, Z[::-1]) * x, Z),
    ("exp2, log2 of complex numbers", lambda x: np.exp2(x) * np.log2(x), Z),
    ("expm1, log1p, log10 of complex numbers", lambda x: np.expm1(x) * np.log1p(x) * np.log10(x), Z),
    ("inverses of complex numbers", lambda x: np.arcsin(x) * np.arccos(x) * np.arctan(x), Z),
    ("hyperbolic inverses of complex numbers", lambda x: np.arcsinh(x) * np.arccosh(x) * np.arctanh(x), Z),
    ("tan, tanh of complex numbers", lambda x: np.tan(x) * np.tanh(x) + np.sinh(x) * np.cosh(x), Z),
    ("reciprocal, square, sqrt", lambda x: np.reciprocal(x) + np.square(x) * np.sqrt(x), Z),
    ("sign, absolute, conjugate", lambda x: np.sign(x) * np.absolute(x) + np.conjugate(x), Z),
    ("rint of complex numbers", lambda x: np.rint(x) * x, Z),
    ("fix", lambda x: np.fix(3 * x) * x, V),
    ("astype", lambda x: np.astype(x, np.complex128) * 1j, V),
    ("the method astype", lambda x: x.astype(np.complex128, order="C", casting="safe", copy=False), V),
    # keywords
    ("dtype", lambda x: np.add(x, 1, dtype=np.float64), V),
    ("dtype of complex numbers", lambda x: np.exp(x, dtype=np.complex128), V),
    ("casting", lambda x: np.multiply(x, 2.0, dtype=np.float32, casting="unsafe").astype(float) * 0 + x, V),
    ("signature", lambda x: np.multiply(x, 2, signature="dd->d", order="C", subok=False), V),
    ("sig", lambda x: np.multiply(x, 2, sig=(None, None, np.float64)), V),
    ("casting alone", lambda x: np.multiply(x, 2.0, casting="no"), V),
    ("subok and order alone", lambda x: np.sin(np.add(x, 2, subok=True), order="F"), V),
    ("casting of a product of matrices", lambda x: np.matmul(x, x.T, casting="same_kind", dtype=np.complex128), M),
    ("dtype of products of vectors", lambda x: np.vecdot(x, x, dtype=np.complex128, subok=False), M),
    ("limits of plain numbers", lambda x: np.arange(5).clip(1, x) * (V[::-1] + 0.05).clip(0.9 * x, 1.1 * x), V),
    # methods
    ("subtract.reduce", lambda x: np.subtract.reduce(x), M),
    ("subtract.reduce axis", lambda x: np.subtract.reduce(x, axis=-1, keepdims=True), M),
    ("subtract.reduce initial", lambda x: np.subtract.reduce(x, axis=1, initial=2.0), M),
    ("divide.reduce", lambda x: np.divide.reduce(x, axis=1), M),
    # Of vectors and rows, NumPy's own power.reduce and arctan2.reduce are wrong on some processors.
    ("power.reduce", lambda x: np.power.reduce(x, axis=0), M),
    ("hypot.reduce", lambda x: np.hypot.reduce(x), V),
    ("hypot.reduce axes", lambda x: np.hypot.reduce(x, axis=(0, 1), keepdims=True), M),
    ("hypot.reduce where", lambda x: np.hypot.reduce(x, where=MASK), V),
    ("logaddexp.reduce", lambda x: np.logaddexp.reduce(x, axis=0), M),
    ("logaddexp2.reduce", lambda x: np.logaddexp2.reduce(x, axis=None), M),
    ("fmax.reduce", lambda x: np.fmax.reduce(x, axis=1), M),
    ("fmin.reduce initial", lambda x: np.fmin.reduce(x, axis=1, initial=0.9), M),
    ("fmax.reduce where", lambda x: np.fmax.reduce(x, where=MASK, initial=0.0), V),
    ("hypot.reduce where initial", lambda x: np.hypot.reduce(x, where=MASK, initial=2.0), V),
    ("logaddexp.reduce where initial", lambda x: np.logaddexp.reduce(x, where=MASK, initial=2.0), V),
    ("logaddexp.reduce where", lambda x: np.logaddexp.reduce(x, where=MASK), V),
    ("logaddexp.reduce initial", lambda x: np.logaddexp.reduce(x, axis=1, initial=2.0), M),
    ("subtract.reduce where initial", lambda x: np.subtract.reduce(x, where=MASK, initial=2.0), V),
    ("divide.reduce where initial", lambda x: np.divide.reduce(x, where=MASK, initial=2.0), V),
    ("add.reduce", lambda x: np.add.reduce(x, axis=1), M),
    ("multiply.reduce", lambda x: np.multiply.reduce(x), M),
    ("maximum.reduce", lambda x: np.maximum.reduce(x, axis=1), M),
    ("arctan2.reduce", lambda x: np.arctan2.reduce(x), M),
    ("logical_and.reduce", lambda x: np.logical_and.reduce(x > 0.5, axis=1) * x[:, 0], M),
    ("logical_or.reduce of numbers", lambda x: np.logical_or.reduce(x) * x, V),
    ("logical_xor.reduce of one", lambda x: np.logical_xor.reduce(x[:1]) * x, V),
    ("add.accumulate", lambda x: np.add.accumulate(x), M),
    ("add.accumulate axis", lambda x: np.add.accumulate(x, axis=1), M),
    ("multiply.accumulate", lambda x: np.multiply.accumulate(x, 1), M),
    ("subtract.accumulate", lambda x: np.subtract.accumulate(x, axis=1), M),
    ("divide.accumulate", lambda x: np.divide.accumulate(x), M),
    ("maximum.accumulate", lambda x: np.maximum.accumulate(x), V),
    ("minimum.accumulate", lambda x: np.minimum.accumulate(x, axis=1), M),
    ("logaddexp.accumulate", lambda x: np.logaddexp.accumulate(x), V),
    ("power.accumulate", lambda x: np.power.accumulate(x), M),
    ("accumulate of one", lambda x: np.hypot.accumulate(x[:1]), V),
    ("add.reduceat", lambda x: np.add.reduceat(x, [0, 2, 3]), V),
    ("add.reduceat backwards", lambda x: np.add.reduceat(x, [3, 1, 1, 0]), V),
    ("add.reduceat axis", lambda x: np.add.reduceat(x, [0, 2], axis=1), M),
    ("multiply.reduceat", lambda x: np.multiply.reduceat(x, [0, 3, 2], axis=-1), M),
    ("maximum.reduceat", lambda x: np.maximum.reduceat(x, [0, 2, 1]), V),
    ("hypot.reduceat", lambda x: np.hypot.reduceat(-x, [0, 1, 3]), V),
    ("subtract.reduceat", lambda x: np.subtract.reduceat(x, [1, 4]), V),
    ("multiply.outer", np.multiply.outer, V, W),
    ("subtract.outer", lambda x, y: np.subtract.outer(x, y), M, V),
    ("power.outer", np.power.outer, V[:2], W[:3]),
    ("add.outer of plain and traced", lambda x: np.add.outer([1.0, 2.0], x), V),
    ("divmod.outer", lambda x: np.divmod.outer(3 * x, W), V[:2]),
]


@pytest.mark.parametrize("row", [pytest.param(row[1:], id=row[0]) for row in ROWS])
def test_values_and_derivatives(row):
    check_row(*row)


def test_rows_have_names_of_their_own():
    assert len(identified(ROWS)) == len(ROWS)


ALONE = [
    (np.bitwise_count, [5, 7]), (np.invert, [5, 7]), (np.isnat, np.array(["NaT", "2020-01-01"], "M8[D]")),
]  # fmt: skip
PAIRS = [np.gcd, np.lcm, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift]


@pytest.mark.parametrize(("ufunc", "x"), ALONE)
def test_ufuncs_of_integers_and_dates(ufunc, x):
    np.testing.assert_array_equal(ufunc(Tensor(x)), ufunc(np.array(x)))


@pytest.mark.parametrize("ufunc", PAIRS)
def test_ufuncs_of_two_integers(ufunc):
    a, b = np.array([12, 18, 7]), np.array([8, 3, 2])
    np.testing.assert_array_equal(ufunc(Tensor(a), b), ufunc(a, b))
    np.testing.assert_array_equal(ufunc(a, Tensor(b)), ufunc(a, b))
    np.testing.assert_array_equal(fg.vmap(ufunc)(a, b), ufunc(a, b))
    np.testing.assert_array_equal(ufunc.outer(Tensor(a), b), ufunc.outer(a, b))
    if ufunc not in (np.left_shift, np.right_shift):
        np.testing.assert_array_equal(ufunc.reduce(Tensor(a)), ufunc.reduce(a))


def test_shifts_are_operators():
    x, n = np.array([1, 5, -7]), np.array([2, 0, 1])
    t = fg.constant(x)
    assert (t << n).tolist() == (x << n).tolist() == (x << fg.constant(n)).tolist()
    assert (t >> 1).tolist() == (x >> 1).tolist()
    assert (2 << fg.constant(n)).tolist() == (2 << n).tolist()
    assert (2 >> fg.constant(n)).tolist() == (2 >> n).tolist()
    t <<= 3
    t >>= 1
    assert t.tolist() == (x << 3 >> 1).tolist()
    assert fg.vmap(lambda x: x << 1)(x).tolist() == (x << 1).tolist()


@pytest.mark.parametrize("bounds", [(-1, 300), (-300, 20), (3, None), (None, 2**70), (-(2**70), -1), (300, 301)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64])
def test_integers_are_clipped_to_integers_of_any_size(dtype, bounds):
    x = np.array([0, 44, 255]).astype(dtype)
    try:
        wanted = np.clip(x, *bounds)
    except OverflowError as error:
        with pytest.raises(OverflowError, match=str(error)):
            np.clip(fg.constant(x), *bounds)
    else:
        found = np.clip(fg.constant(x), *bounds)
        assert (found.tolist(), found.dtype) == (wanted.tolist(), dtype)


@pytest.mark.parametrize("name", ["x[0] = 300", "put", "fill", "full_like"])
def test_an_integer_that_a_dtype_does_not_hold_is_not_written(name):
    t = fg.constant(np.array([1, 2], np.uint8))
    write = {
        "x[0] = 300": lambda: t.__setitem__(0, 300),
        "put": lambda: np.put(t, [0], -1),
        "fill": lambda: t.fill(2**70),
        "full_like": lambda: np.full_like(t, 300),
    }[name]
    with pytest.raises(OverflowError):
        write()
    assert t.tolist() == [1, 2]
    t[0] = 255
    assert t.tolist() == [255, 2]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int16, np.uint8, np.int64, np.float32])
def test_what_is_close_to_integers_and_booleans(dtype):
    with np.errstate(invalid="ignore"):
        low = np.iinfo(dtype).min if np.dtype(dtype).kind == "i" else 0
    a, b = np.array([low, 1, 1, low], dtype), np.array([low, 1, 0, 1], dtype)
    for found in (np.isclose(fg.constant(a), b), np.isclose(a, fg.constant(b)), np.isclose(fg.constant(a), 1)):
        assert found.dtype == bool
    assert np.isclose(fg.constant(a), b).tolist() == np.isclose(a, b).tolist()
    assert np.isclose(fg.constant(a), low).tolist() == np.isclose(a, low).tolist()
    weak = {"atol": 0, "rtol": 0.4999999999999999}  # 1 in the precision of `a`, if that is float32
    assert np.isclose(fg.constant(a), 2, **weak).tolist() == np.isclose(a, 2, **weak).tolist()
    assert fg.vmap(np.isclose)(a, b).tolist() == np.isclose(a, b).tolist()


REDUCED = [
    *(np.add, np.subtract, np.multiply, np.divide, np.maximum, np.fmin, np.hypot, np.gcd, np.logaddexp, np.logaddexp2),
    *(np.bitwise_or, np.logical_and, np.power),
]


@pytest.mark.parametrize("dtype", ["u1", "u2", "i1", "i8", "f4", "f8"])
@pytest.mark.parametrize("ufunc", REDUCED)
def test_reductions_have_numpys_dtypes_and_signs(ufunc, dtype):
    """Of several elements, of one and of none."""
    if ufunc in (np.gcd, np.bitwise_or) and dtype[0] == "f":
        return
    for x in ([1, 2, 3], [3], [-3], []):
        x = np.array(x).astype(dtype)
        try:
            wanted = ufunc.reduce(x)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)):
                ufunc.reduce(fg.constant(x))
            continue
        found = np.asarray(ufunc.reduce(fg.constant(x)))
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-3 if wanted.itemsize == 2 else 1e-6)
        assert np.signbit(found) == np.signbit(wanted)
        if x.size:
            assert ufunc.accumulate(fg.constant(x)).dtype == ufunc.accumulate(x).dtype


@pytest.mark.parametrize("initial", [0.5, 2, -1.5, True, 300, np.float32(0.5), 2j, np.array(2.5)])
@pytest.mark.parametrize("dtype", ["u1", "i1", "i8", "?", "f4", "f8"])
@pytest.mark.parametrize("function", [np.sum, np.prod, np.max, np.min, np.hypot.reduce])
def test_reductions_start_in_the_dtype_of_the_result(function, dtype, initial):
    x = np.array([1, 2, 3]).astype(dtype)
    for each in (x, x[:0]):
        try:
            wanted = function(each, initial=initial)
        except (TypeError, OverflowError) as error:
            with pytest.raises(type(error)):
                function(fg.constant(each), initial=initial)
        else:
            found = np.asarray(function(fg.constant(each), initial=initial))
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-3 if wanted.itemsize == 2 else 1e-6)


def test_a_traced_start_is_differentiated():
    x = np.array([1.0, 2.0])
    assert fg.grad(lambda s: np.sum(fg.constant(x), initial=s))(0.5).item() == 1.0
    assert fg.grad(lambda s: np.prod(fg.constant(x), initial=s))(0.5).item() == 2.0
    assert fg.grad(lambda s: np.max(fg.constant(x), initial=s))(5.0).item() == 1.0


def test_nothing_is_collected_of_an_array_without_elements():
    for dtype in (np.float32, np.int8):
        x = np.arange(3).astype(dtype)
        for function in (np.ascontiguousarray, np.asarray, np.array, np.atleast_1d):
            assert fg.compile(lambda x, f=function: f(x[:0]))(x).dtype == dtype


def test_integers_only_is_complete():
    numpys = {p.name for p in PRIMITIVES.values() if getattr(np, p.name, None) is p.implementation}
    assert {name for name in numpys if not PRIMITIVES[name].samples} == INTEGERS_ONLY


TRUTHS = [
    np.isreal, np.iscomplex, np.isposinf, np.isneginf, np.isfinite, np.isinf, np.isnan, np.signbit,
    lambda x: np.isclose(x, V), lambda x: np.isclose(x, V * (1 + 1e-9), equal_nan=True),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:every gradient of")
@pytest.mark.parametrize("function", TRUTHS)
def test_truth_values_are_constants(function):
    x = np.array([0.5, np.inf, -np.inf, np.nan, -0.0])
    np.testing.assert_array_equal(function(Tensor(x)), function(x))
    np.testing.assert_array_equal(fg.vmap(function)(np.stack([x, x])), np.stack([function(x)] * 2))
    assert fg.grad(lambda x: np.sum(function(x) * 1.0))(V).tolist() == [0.0] * 5


def test_parts_that_are_real():
    z = np.array([1.0 + 0j, 1j])
    assert np.isreal(Tensor(z)).tolist() == [True, False]
    assert np.iscomplex(Tensor(z)).tolist() == [False, True]


def test_real_if_close():
    for f, z in ((lambda x: np.real_if_close(x * (1 + 1e-20j)) * x, V), (np.real_if_close, Z), (np.real_if_close, V)):
        check_values(f, (z,))
        check_grads(f, (z,))


EMATH = [
    ("sqrt", lambda x: np.emath.sqrt(x)), ("log", lambda x: np.emath.log(x)), ("log2", lambda x: np.emath.log2(x)),
    ("log10", lambda x: np.emath.log10(x)), ("logn", lambda x: np.emath.logn(2.0, x)),
    ("power", lambda x: np.emath.power(x, 0.5)), ("power -2", lambda x: np.emath.power(x, -2)),
    ("arccos", lambda x: np.emath.arccos(x)), ("arcsin", lambda x: np.emath.arcsin(x)),
    ("arctanh", lambda x: np.emath.arctanh(x)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function"), EMATH, ids=[name for name, _ in EMATH])
def test_functions_that_go_over_to_complex_numbers(name, function):
    for x in (V / 2, -V, -V - 1, V + 1, Z):
        check_values(function, (x,))
        check_grads(function, (x,))
        single = x.astype(np.complex64 if x is Z else np.float32)
        assert function(Tensor(single)).dtype == function(single).dtype
    with pytest.raises(errors.ConcretizationError, match=f"np.emath.{name.split()[0]} needs a value"):
        fg.vmap(function)(V)


def test_comparisons_of_whole_arrays_give_booleans():
    def f(x):
        assert np.array_equiv(x, np.stack([x.numpy()] * 2)) is True
        assert np.array_equal(x, V) is True
        assert np.allclose(x, V) is True
        return np.sum(x)

    assert fg.grad(f)(V).tolist() == [1.0] * 5


def test_out_takes_tensors_and_refuses_arrays():
    def f(x):
        whole, rest = fnp.zeros(5), fnp.zeros(5)
        np.divmod(3 * x, 0.4, out=(whole, rest))
        np.modf(x, out=(None, whole))
        np.multiply(x, rest, out=rest, where=MASK)
        np.add.reduce(np.stack([x, rest]), out=whole)
        np.hypot.reduce(np.stack([x, whole]), out=whole)
        return whole + np.clip(x, 0.5, 1.0, out=fnp.zeros(5)) + np.round(x, out=fnp.zeros(5)) + np.fix(x, fnp.zeros(5))

    check_grads(f, (V,))
    for name, call in [
        ("np.divmod", lambda x: np.divmod(x, 0.4, out=(np.zeros(5), np.zeros(5)))),
        ("np.modf", lambda x: np.modf(x, out=(None, np.zeros(5)))),
        ("np.hypot.reduce", lambda x: np.hypot.reduce(x, out=np.zeros(()))),
        ("np.subtract.outer", lambda x: np.subtract.outer(x, x, out=np.zeros((5, 5)))),
        ("np.add.at", lambda x: np.add.at(np.zeros(5), [0], x[:1])),
        ("np.fix", lambda x: np.fix(x, out=np.zeros(5))),
    ]:
        with pytest.raises(errors.InPlaceError, match=f"{name} would write a tensor into a plain NumPy array"):
            fg.grad(call)(V)


def test_out_of_what_is_not_traced_may_be_an_array():
    out = np.zeros(5)
    assert np.sin(Tensor(V), out=out) is out
    np.testing.assert_array_equal(out, np.sin(V))
    assert np.round(Tensor(V), 1, out) is out
    np.testing.assert_array_equal(out, np.round(V, 1))


def test_what_numpy_refuses():
    for call in (
        lambda x: np.add(x, 1.5, dtype=np.int64),
        lambda x: np.add(x, 1.5, casting="no", dtype=np.float32),
        lambda x: np.subtract.reduce(x, axis=(0, 1)),
        lambda x: np.subtract.reduce(x, axis=5),
        lambda x: np.subtract.reduce(x, where=x > 0.5),
        lambda x: np.add.accumulate(x, axis=5),
        lambda x: np.add.reduceat(x, [7]),
        lambda x: x.astype(np.int64, casting="safe"),
        lambda x: np.subtract.reduce(x[:0]),
        lambda x: np.add(x, 1.5, casting="safest"),
    ):
        with pytest.raises((TypeError, ValueError, IndexError)) as numpys:
            call(M)
        with pytest.raises(type(numpys.value)) as ours:
            fg.grad(lambda x: np.sum(call(x)))(M)
        assert str(ours.value)[:40] == str(numpys.value)[:40]


KEYS = [[0, 2, 0, 0], (np.array([1, 1]),), slice(1, 3), np.array([True, False, True, False, True]), 2]


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.power])
@pytest.mark.slow
def test_at(ufunc, key):
    def f(x, v):
        y = x * 1.0
        ufunc.at(y, key, v)
        return y

    for v in (RNG.uniform(0.3, 1.5, V[key].shape), np.array(0.7)):
        expected = V.copy()
        ufunc.at(expected, key, v)
        np.testing.assert_allclose(f(Tensor(V), v), expected, rtol=1e-13)
        check_grads(f, (V, v))
        check_grads(fg.vmap(f), (np.stack([V, W]), np.stack([v, v * 0.9])), order=1)


def test_at_with_one_argument_and_with_indices_that_differ():
    def negated(x):
        y = x * 1.0
        np.negative.at(y, [0, 2, 2])
        return y

    expected = V.copy()
    np.negative.at(expected, [0, 2, 2])
    np.testing.assert_array_equal(negated(Tensor(V)), expected)
    check_grads(negated, (V,))

    def added(x, i):
        y = fnp.array(x)
        np.add.at(y, i, fnp.take(x, i))
        return y

    places = np.array([[0, 0], [3, 1]])
    expected = np.stack([np.array(added(Tensor(V), i)) for i in places])
    np.testing.assert_allclose(fg.vmap(added, in_axes=(None, 0))(V, places), expected)


def test_at_on_a_tensor_in_a_table_counts_as_numpy_does():
    counts = fnp.zeros(4)
    np.add.at(counts, [0, 3, 3], 1.0)
    assert counts.tolist() == [1.0, 0.0, 0.0, 2.0]
    whole = fnp.zeros(4, dtype=int)
    with pytest.raises(errors.DtypeError, match="would round a value of dtype float64"):
        np.add.at(whole, [0], 0.5)


def test_a_mask_without_a_neutral_element():
    with pytest.raises(errors.MissingRuleError, match="np.arctan2.reduce with `where` has no derivative rule"):
        fg.grad(lambda x: np.arctan2.reduce(x, where=MASK, initial=1.0))(V)


def test_a_ufunc_of_the_users_own_has_no_rule():
    gamma = np.frompyfunc(math.gamma, 1, 1)
    assert gamma(Tensor([4.0]))[0] == 6.0
    with pytest.raises(errors.MissingRuleError, match=r"gamma.* has no derivative rule"):
        fg.grad(gamma)(4.0)
    with pytest.raises(errors.MissingRuleError, match=r"\.reduce has no derivative rule"):
        fg.grad(np.frompyfunc(math.dist, 2, 1).reduce)(V)
    with pytest.raises(errors.ArrayConversionError, match="or write fg.vmap"):
        fg.grad(lambda x: np.vectorize(math.gamma)(x))(4.0)


def test_empty_and_single():
    assert np.hypot.reduce(Tensor(np.zeros((0, 2)))).tolist() == [0.0, 0.0]
    assert np.subtract.reduce(Tensor([3.0])).item() == 3.0
    assert np.add.reduceat(Tensor(V), np.array([], int)).shape == (0,)
    assert np.hypot.accumulate(Tensor(np.zeros((0, 2)))).shape == (0, 2)
    assert arrays(np.frexp(Tensor(np.zeros(0))))[1].dtype == np.int32


LISTS = [
    np.add, np.multiply, np.divide, np.power, np.arctan2, np.hypot, np.logaddexp, np.logaddexp2, np.maximum, np.fmax,
    np.fmod, np.remainder, np.float_power, np.heaviside, np.copysign, np.vecdot, np.matmul, np.divmod,
]  # fmt: skip


@pytest.mark.parametrize("ufunc", LISTS)
def test_lists_are_arrays_to_a_rule(ufunc):
    numbers = [1.5, 0.0, 2.0, 0.7, 1.0] if ufunc in (np.power, np.arctan2, np.heaviside) else [1.5, 2.5, 2.0, 0.7, 1.0]
    with np.errstate(all="ignore"):
        check_grads(lambda x: ufunc(x, numbers), (V,))
        check_grads(lambda x: ufunc(numbers, x), (V,))


@pytest.mark.parametrize("ufunc", [ufunc for ufunc in LISTS if ufunc not in (np.vecdot, np.matmul, np.float_power)])
@pytest.mark.parametrize("number", [2, 1.5, 0, -1.5])
def test_pythons_numbers_adapt_to_single_precision(ufunc, number):
    x = V.astype(np.float32)
    for f in (lambda x: ufunc(x, number), lambda x: ufunc(number, x)):
        with np.errstate(all="ignore"):
            value, pullback = fg.vjp(f, x)
            _, tangent = fg.jvp(f, (x,), (x,))
            (gradient,) = pullback(np.ones_like(value) if ufunc is not np.divmod else tuple(map(np.ones_like, value)))
        assert {each.dtype for each in arrays((value, tangent, gradient))} == {np.dtype(np.float32)}


def test_a_multiple_that_the_quotient_rounds_up():
    """1.0 / 0.1 is 10.0, and yet fmod(1.0, 0.1) has taken off 0.1 only nine times."""
    assert np.fmod(1.0, 0.1) > 0.09
    assert fg.grad(lambda y: np.fmod(1.0, y))(0.1).item() == -9.0
    assert fg.grad(lambda y: np.remainder(1.0, y))(0.1).item() == -9.0
    assert fg.grad(lambda y: np.divmod(1.0, y)[1])(0.1).item() == -9.0


def test_a_mask_with_more_elements_than_the_array_is_numpys_error():
    for f in (np.sum, np.prod, np.mean, np.nansum, np.all, np.multiply.reduce):
        with pytest.raises(ValueError, match="broadcast"):
            f(np.ones((1, 1)), axis=0, where=np.ones((2, 3), bool))
        with pytest.raises(ValueError, match="broadcast"):
            fg.vjp(lambda x, f=f: f(x, axis=0, where=np.ones((2, 3), bool)), np.ones((1, 1)))


def test_infinities_in_sums_of_exponentials_and_singular_values():
    rows = np.array([[1.0, np.inf], [2.0, 3.0], [-np.inf, -np.inf]])
    found, _ = fg.vjp(lambda x: np.logaddexp.reduce(x, axis=1), rows)
    np.testing.assert_array_equal(found, np.logaddexp.reduce(rows, axis=1))
    with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge"):
        fg.grad(np.linalg.cond)(np.array([[1.0, np.inf], [2.0, 3.0]]))


EMPTY = {
    "max": lambda x: np.max(x, axis=0, initial=2.0),
    "min": lambda x: np.min(x, initial=2.0),
    "nanmax": lambda x: np.nanmax(x, axis=0, initial=2.0),
    "nanmin": lambda x: np.nanmin(x, initial=2.0),
    "norm of order 1": lambda x: np.linalg.norm(x, 1, axis=0),
    "norm of order inf": lambda x: np.linalg.norm(x, np.inf, axis=0),
    "norm of a matrix": lambda x: np.linalg.norm(x, 1),
    "lstsq": lambda x: np.linalg.lstsq(x, x[:, 0])[0],
    "apply_along_axis": lambda x: np.apply_along_axis(lambda row: row * 2.0, 0, x),
}


@pytest.mark.parametrize("name", EMPTY)
def test_arrays_without_elements(name):
    empty = np.zeros((0, 3))
    result, pullback = fg.vjp(EMPTY[name], empty)
    expected = EMPTY[name](empty)
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == expected.dtype
    assert pullback(np.ones(result.shape))[0].shape == (0, 3)


NEAR_THE_END = {
    "tanh": (np.tanh, mp.tanh, [18.0, 40.0, -40.0, 300.0]),
    "arctanh": (np.arctanh, mp.atanh, [1 - 1e-10, -1 + 1e-10, 1 - 2.0**-52]),
    "arcsin": (np.arcsin, mp.asin, [1 - 1e-10, -1 + 2.0**-52]),
    "arccos": (np.arccos, mp.acos, [1 - 1e-10, -1 + 2.0**-52]),
    "arccosh": (np.arccosh, mp.acosh, [1 + 1e-10, 1e150]),
    "arcsinh": (np.arcsinh, mp.asinh, [1e-10, 1e60]),
    "arctan": (np.arctan, mp.atan, [1e-10, 1e60]),
    "expm1": (np.expm1, mp.expm1, [-40.0, -300.0]),
    "log1p": (np.log1p, mp.log1p, [-1 + 1e-10, -1 + 2.0**-52, 1e60]),
}


@pytest.mark.parametrize("name", NEAR_THE_END)
@pytest.mark.slow
def test_derivatives_keep_their_digits_near_the_end_of_a_range(name):
    """A slope of 1e-35 is not 0: whoever takes its logarithm sees the difference."""
    function, exact, places = NEAR_THE_END[name]
    for x in places:
        with mp.workdps(800):
            wanted = [float(c * mp.factorial(k)) for k, c in enumerate(mp.taylor(exact, mp.mpf(x), 3))]
        derivative = function
        for order in (1, 2, 3):
            derivative = fg.grad(derivative)
            assert derivative(x).item() == pytest.approx(wanted[order], rel=1e-14, abs=1e-300)


# Segments: those of each length are reduced together


STARTS = np.array([4, 0, 3, 3, 1, 6, 2, 5])
"""Of segments that overlap, of one element where the next one starts earlier, and of several lengths."""


def by_slices(ufunc, x):
    ends = np.maximum(np.append(STARTS[1:], x.shape[0]), STARTS + 1)
    return np.stack([ufunc.reduce(x[start:end]) for start, end in zip(STARTS, ends, strict=True)])


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.minimum, np.subtract, np.logaddexp])
@pytest.mark.parametrize("x", [[3.0, 1.0, 3.0, 3.0, 0.0, 0.0, 2.0, -1.0], [0.0, 0.0, 2.0, 2.0, 5.0, 1.0, 1.0, 1.0]])
def test_reduceat_is_the_reduction_of_each_slice(ufunc, x):
    x = np.array(x)

    def together(x):
        return ufunc.reduceat(x, STARTS)

    def apart(x):
        return by_slices(ufunc, x)

    np.testing.assert_allclose(together(Tensor(x)), ufunc.reduceat(x, STARTS), rtol=1e-15)
    np.testing.assert_allclose(fg.jacrev(together)(x), fg.jacrev(apart)(x))
    np.testing.assert_allclose(fg.jacfwd(together)(x), fg.jacfwd(apart)(x))
    hessians = [fg.hessian(lambda x, f=f: np.sum(f(x) ** 2 * np.arange(1.0, 9.0)))(x) for f in (together, apart)]
    np.testing.assert_allclose(hessians[0], hessians[1], atol=1e-12)
    batch = np.stack([x, x[::-1], x + 1.0])
    np.testing.assert_allclose(fg.vmap(together)(batch), ufunc.reduceat(batch, STARTS, axis=1))
    columns = fg.vjp(lambda x: ufunc.reduceat(x, STARTS, axis=0), batch.T)[1](np.ones((8, 3)))[0]
    each = [fg.grad(lambda x: np.sum(together(x)))(row) for row in batch]
    np.testing.assert_allclose(columns, np.stack(each, axis=1))
    np.testing.assert_allclose(fg.compile(together)(x), ufunc.reduceat(x, STARTS))
    np.testing.assert_allclose(fg.compile(fg.jacrev(together))(x), fg.jacrev(apart)(x))


def test_reduceat_takes_as_many_operations_for_many_segments_as_for_few():
    def count(size):
        program = fg.trace(lambda x: np.maximum.reduceat(x, np.arange(0, size, 7)))(np.arange(float(size)))
        return len(program.equations)

    assert count(700) == count(70) < 20
