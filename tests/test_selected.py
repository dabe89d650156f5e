"""Elements that a mask without a value chooses: `x[mask]` in batches and in programs, against the plain run."""

import numpy as np
import pytest
import scipy.special

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors

LINE = np.array([0.3, -0.7, 0.9, 0.0, -0.2])
PLANE = np.arange(12.0).reshape(3, 4) / 7 - 0.6
PLANE[0, 0] = 0.0


def scaled(y):
    z = y * 2
    z[z > 1] *= y[z > 1]
    return np.sum(z**2)


def written(y):
    z, m = y * 2, y > 0
    z[m] = np.log(z[m])
    return np.sum(z**2)


def unlike(y):
    m, z = (y > 0) & (y < 0.5), np.zeros_like(y)
    z[m] = y[m] ** 2
    z[~m] = np.sin(y[~m])
    return np.sum(z * np.arange(z.size).reshape(z.shape))


def folded(y):
    z = y.copy()
    z[z < 0] = -z[z < 0]
    z[z > 0.5] -= z[z > 0.5].mean()
    return np.sum(z**3)


def moments(y):
    s = y[y > 0]
    return s.mean() + np.var(s, ddof=1) + s.std() + s.prod() + np.max(s, initial=0.1) + np.sum(s) / s.shape[0]


def in_place(y):
    s = y[y > 0]
    same = s
    s *= 3
    s += 1
    return np.sum(same) / s.size


def infinite(y):
    return np.sum(np.sqrt(y[y > 0])) + np.sum(1 / y[y < 0])


def products(y):
    m = y > 0
    a, b = y[m], np.exp(y)[m]
    return a @ b + np.dot(a, a) + np.inner(b, b)


def rows(y):
    z, m = np.stack([y, y**2, np.cos(y)], -1), y > 0
    z[m, 1] = z[m, 0] ** 3
    z[m] *= z[m].sum(axis=0)
    z[m, ..., 2] = 0.5
    return np.sum((z[m] @ np.array([1.0, 2.0, 3.0])) ** 2) + np.sum(z[m].max(axis=-1) * z[m].sum(axis=1)) + np.sum(z)


def chosen(y):
    m = y > 0
    s = np.where(y[m] > 0.2, y[m] ** 2, 3 * y[m])
    s = s * y.ravel()[:1] + [0.0]
    return s.sum() + np.clip(y[m], 0.1, 0.5).sum() + np.count_nonzero(s > 0.3) * y.sum() + np.any(s > 0.5) * y.sum()


def views(y):
    z = y * 1.0
    part = z.T[::2]
    part[part > 0.1] *= part[part > 0.1] + y.ravel()[0]
    part[part < 0] = y.ravel()[1]
    return np.sum(z**2)


def of_functions(y):
    s = y[y > 0]
    whole, rest = np.divmod(s, 0.25)
    total = np.sum(scipy.special.erf(s)) + fnp.sum(fnp.sin(s)) + np.sum(whole * rest) + np.sum(s.astype(np.float32) * s)
    return total + np.extract(y > 0, y).sum() + np.sum(np.zeros_like(s) + s.copy() + abs(-s) ** 0.5)


def placed(y):
    z = y * 1.0
    np.place(z, z < 0, [1.5])
    np.copyto(z, y, where=z > 1)
    return np.sum(z**2)


def keywords(y):
    s, pairs = y[y > 0], np.stack([y, y**2], -1)[y > 0]
    total = np.sum(s, 0, None) + s.mean(None, np.float64) + np.sum(np.max(pairs, 0, initial=0.2, keepdims=True))
    total += np.sum(pairs.sum(keepdims=True) + s.std(0, None, None, 1)) + np.sum(s, axis=(), where=True).prod()
    return total + np.sum(pairs / pairs.sum(axis=0, keepdims=True)) + np.sum(s / s.max(initial=2.0, keepdims=True))


def products_as_in_numpy(y):
    small = (y * 10).astype(np.int8)[y > 0]
    pairs, weights = np.stack([y, y**2], -1)[y > 0], np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    total = np.sum(np.inner(pairs, weights) ** 2) + np.sum(np.dot(pairs, weights.T) ** 3)
    return total + ((y > 0.1)[y > 0] @ (y > 0.2)[y > 0] + small @ (small * small)) * y.sum()


def the_same_object(y):
    s, z = y[y > 0], (y + 1j * y**2)[y > 0]
    real, other, converted = s.conj(), z.conjugate(), s.astype(float, copy=False)
    s *= 2
    z *= 2
    return np.sum(real * converted) + np.sum(np.abs(other - z) ** 2)


def at_a_tie(y):
    double = y * 2
    largest = np.max(double[y > 0], initial=2 * np.max(y))
    return largest + np.min(double, where=y < 0, initial=2 * np.min(y)) + np.max(y[y > 9], initial=y.ravel()[1])


def looped(y):
    for k in range(3):
        y = y * 1.1
        y[y > 0.4 + k / 10] *= 0.7
    return np.sum(y**2)


PROGRAMS = [
    scaled, written, unlike, folded, moments, in_place, infinite, products, rows, chosen, views, of_functions, placed,
    looped, keywords, products_as_in_numpy, the_same_object, at_a_tie,
]  # fmt: skip


def batch_of(x):
    return np.stack([x, -x, 1.7 * x])


MODES = {
    "value": (lambda f, x: fg.compile(f)(x), lambda f, x: f(x.copy())),
    "gradient": (lambda f, x: fg.compile(fg.grad(f))(x), lambda f, x: fg.grad(f)(x)),
    "of the compiled": (lambda f, x: fg.grad(fg.compile(f))(x), lambda f, x: fg.grad(f)(x)),
    "Hessian": (lambda f, x: fg.compile(fg.hessian(f))(x), lambda f, x: fg.hessian(f)(x)),
    "tangent": (
        lambda f, x: fg.compile(lambda v: fg.jvp(f, (v,), (np.cos(v),))[1])(x),
        lambda f, x: np.sum(fg.grad(f)(x) * np.cos(x)),
    ),
    "batch": (lambda f, x: fg.vmap(f)(batch_of(x)), lambda f, x: np.stack([f(each) for each in batch_of(x)])),
    "gradients": (
        lambda f, x: fg.vmap(fg.grad(f))(batch_of(x)),
        lambda f, x: np.stack([fg.grad(f)(each) for each in batch_of(x)]),
    ),
    "of a batch": (
        lambda f, x: fg.grad(lambda batch: np.sum(fg.vmap(f)(batch)))(batch_of(x)),
        lambda f, x: np.stack([fg.grad(f)(each) for each in batch_of(x)]),
    ),
    "compiled batch": (
        lambda f, x: fg.compile(fg.vmap(fg.grad(f)))(batch_of(x)),
        lambda f, x: np.stack([fg.grad(f)(each) for each in batch_of(x)]),
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_elements_of_a_mask_are_those_of_the_plain_run(f, mode):
    found, expected = MODES[mode]
    for x in (LINE, PLANE) if mode in ("value", "gradient", "batch") else (PLANE,):
        with np.errstate(all="ignore"):  # the mean of no elements
            np.testing.assert_allclose(found(f, x), expected(f, x), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_that_jax_runs(f):
    pytest.importorskip("jax")
    value, gradient = fg.compile(fg.value_and_grad(f), backend="jax")(PLANE)
    np.testing.assert_allclose(value, f(PLANE.copy()), rtol=1e-6)
    np.testing.assert_allclose(gradient, fg.grad(f)(PLANE), rtol=1e-6, atol=1e-12)


def test_elements_that_are_not_chosen_cause_no_warning():
    x = np.array([[0.5, -1.0, 0.0], [2.0, 3.0, -4.0]])
    found = fg.vmap(lambda x: np.sum(np.log(x[x > 0])))(x)  # warnings are errors in tests
    np.testing.assert_allclose(found, [np.log(0.5), np.log(6.0)])
    assert fg.vmap(fg.grad(lambda x: np.sum(x[x > 0] ** 0.5)))(x)[0, 1:].tolist() == [0.0, 0.0]


def test_a_mask_counts_as_it_was():
    def f(x):
        m = x > 0
        s = x[m] * 2
        m[0] = False
        return np.sum(s) + 0 * np.sum(x[m])

    assert fg.compile(f)(np.array([1.0, -2.0, 3.0])) == 8.0

    def other(x):
        m = x > 0
        s = x[m] * 2
        m[0] = False
        x = x * 1.0
        x[m] = s
        return x

    with pytest.raises(errors.ConcretizationError, match="Write one mask"):
        fg.compile(other)(np.array([1.0, -2.0, 3.0]))


def leaves(x, s):
    return {
        "a result": lambda: s,
        "the number": lambda: len(s),
        "an element": lambda: s[0],
        "elements": lambda: sum(s),
        "an array": lambda: np.asarray(s),
        "sorted": lambda: np.sort(s),
        "a maximum": lambda: s.max(),
        "a sum along two": lambda: np.sum(s, axis=0, where=s > 1),
        "joined": lambda: np.concatenate([s, s]),
        "with all": lambda: s + x,
        "by another": lambda: s + x[x < 2],
        "a constant": lambda: fg.stop_gradient(s),
        "an argument": lambda: fg.grad(lambda s: np.sum(s**2))(s),
        "of a rule": lambda: square(s),
        "of a batch": lambda: fg.vmap(np.sin)(s),
        "of a branch": lambda: fg.cond(x[0] > 0, np.sin, np.cos, s),
        "an accumulation": lambda: np.add.accumulate(s),
        "flat": lambda: s.ravel(),
        "a number": lambda: float(s),
        "with shape": lambda: np.zeros_like(s, shape=2),
        "into others": lambda: np.clip(s, 0, 1, out=s + 0),
        "of others, into them": lambda: np.multiply(x[0], 2.0, out=s),
        "into a slice": lambda: (x * 1.0).__setitem__(slice(2), s),
        "of another rank": lambda: np.stack([x, x, x], -1)[x > 1] + s,
        "into another rank": lambda: np.stack([x, x, x], -1).__setitem__(x > 1, s),
    }


@fg.custom_gradient
def square(x):
    return x**2, lambda ct: 2 * ct * x


@pytest.mark.parametrize("name", leaves(None, None))
def test_what_needs_their_number_or_places_is_refused(name):
    def f(x):
        return leaves(x, x[x > 1])[name]()

    x = np.array([1.0, 2.0, 3.0])
    for run in (fg.compile(f), fg.compile(fg.jacobian(f)), lambda x: fg.vmap(f)(x[None])):
        with pytest.raises(errors.ConcretizationError, match=r"(x\[mask\] = f\(x\[mask\]\) work|Write one mask)"):
            run(x)


def test_a_name_that_arrays_do_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'Selected' object has no attribute 'sums'"):
        fg.compile(lambda x: x[x > 0].sums())(LINE)
    with pytest.raises(AttributeError, match=r"Instead: np\.sin\(x\)"):
        fg.vmap(lambda x: x[x > 0].sin())(LINE[None])


def test_elements_in_place_keep_their_dtype():
    def f(x):
        s = x.astype(np.float32)[x > 0]
        s *= np.float64(2.0)
        return s.sum() + (s > 0).sum()

    assert fg.compile(f)(LINE).dtype == f(LINE).dtype == np.float64

    def counted(x):
        s = np.arange(5)[:] + (x * 0).astype(int)
        s = s[x > 0]
        s *= 0.5
        return s.sum()

    with pytest.raises(errors.DtypeError, match="Write x = x"):
        fg.compile(counted)(LINE)


def test_elements_in_place_keep_their_shape():
    def f(x):
        s = x[x > 0, None]
        s += np.array([1.0, 2.0])
        return s.sum()

    with pytest.raises(ValueError, match=r"shape \(2,\) cannot be written into elements of shape \(1,\)"):
        fg.compile(f)(LINE)


def test_axes_are_checked_as_in_numpy():
    for axis, error, message in (((0, 0), ValueError, "repeated axis"), (0.5, TypeError, "float")):
        with pytest.raises(error, match=message):
            fg.compile(lambda x, axis=axis: np.sum(x[x > 0], axis=axis))(LINE)
    with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
        fg.compile(lambda x: np.sum(x[x > 0], axes=0))(LINE)


def squared(z):
    for _ in range(40):
        z = z * z * 0.5 + z * 0.25  # each value is used three times
    return z


def halved(z):
    for _ in range(2000):  # more than Python may recurse
        z = z * 0.5 + 1
    return z


@pytest.mark.parametrize("chain", [squared, halved])
def test_masks_that_are_computed_twice_are_equal(chain):
    def f(x):
        z = x * 1.0
        z[chain(x) > np.float64(0.1)] = x[chain(x) > np.float64(0.1)] * 2
        return np.sum(z)

    assert fg.compile(f)(LINE) == fg.vmap(f)(LINE[None])[0] == f(LINE)

    def unlike(x):
        z = x * 1.0
        z[chain(x) > 0.1] = x[chain(x) > 0.2] * 2
        return np.sum(z)

    with pytest.raises(errors.ConcretizationError, match="Write one mask"):
        fg.compile(unlike)(LINE)


def test_numbers_in_text_are_written_as_numbers():
    def f(x):
        y = x * 2
        y[y > 3] = "1.5"
        return np.sum(y**2)

    x = np.array([1.0, 2.0])
    assert (
        fg.grad(f)(x).tolist()
        == fg.compile(fg.grad(f))(x).tolist()
        == fg.vmap(fg.grad(f))(x[None])[0].tolist()
        == [8, 0]
    )


def test_a_mask_that_does_not_match():
    for f in (lambda x: np.sum(x[x[:2] > 0]), lambda x: x.__setitem__(x[:2] > 0, 1.0)):
        with pytest.raises(IndexError, match="mask"):
            fg.compile(f)(LINE)
    with pytest.raises(np.exceptions.AxisError, match="axis 1"):
        fg.compile(lambda x: np.sum(x[x > 0], axis=1))(LINE)
