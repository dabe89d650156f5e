"""Random numbers with derivatives: the numbers are NumPy's, and the derivatives those of their distributions."""

import math
import pickle

import mpmath
import numpy as np
import pytest

import fgrad as fg
from fgrad import errors
from fgrad.core.tensor import Tensor
from fgrad.random._implicit import IMPLICIT, dirichlet
from fgrad.random._moved import MOVED
from fgrad.random._normal import by_eigenvalues
from fgrad.scipy import stats
from fgrad.testing import check_grads

SEED = 7
COV = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.2], [0.1, -0.2, 0.7]])

CONTINUOUS = {
    "normal": (1.0, 2.0), "laplace": (1.0, 2.0), "logistic": (1.0, 2.0), "gumbel": (1.0, 2.0), "uniform": (1.0, 2.5),
    "exponential": (2.0,), "rayleigh": (2.0,), "lognormal": (0.3, 0.7), "weibull": (1.7,), "pareto": (2.5,),
    "power": (1.7,), "triangular": (0.5, 1.0, 3.0), "standard_gamma": (0.6,), "gamma": (1.6, 2.0),
    "chisquare": (3.0,), "beta": (0.7, 2.0), "f": (6.0, 12.0), "standard_t": (6.0,), "vonmises": (0.3, 2.0),
    "wald": (1.5, 2.0),
}  # fmt: skip
DISCRETE = {
    "poisson": (3.5,), "binomial": (7, 0.3), "geometric": (0.3,), "logseries": (0.3,), "zipf": (2.5,),
    "negative_binomial": (3.5, 0.4), "hypergeometric": (7, 5, 4), "integers": (3, 9),
}  # fmt: skip
OTHERS = {
    "random": (), "standard_normal": (), "standard_exponential": (), "standard_cauchy": (),
    "noncentral_chisquare": (3.0, 1.5), "noncentral_f": (3.0, 5.0, 1.5), "dirichlet": ([0.5, 1.0, 2.0],),
    "multinomial": (9, [0.2, 0.3, 0.5]), "multivariate_hypergeometric": ([4, 5, 6], 7),
    "multivariate_normal": ([1.0, 0.0, 2.0], COV), "choice": (9,),
}  # fmt: skip
ALL = CONTINUOUS | DISCRETE | OTHERS
ARRANGED = {"permutation", "permuted", "shuffle", "bytes", "spawn", "bit_generator"}


def numpys(seed=SEED):
    return np.random.default_rng(seed)


def fgrads(seed=SEED):
    return fg.random.default_rng(seed)


def same_state(a, b):
    return a.bit_generator.state == b.bit_generator.state


# The numbers are NumPy's


def test_every_method_of_numpys_is_in_a_table_here():
    methods = {name for name in dir(np.random.Generator) if not name.startswith("_")}
    assert methods == set(ALL) | ARRANGED


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", [None, 3, (2, 3), ()])
def test_plain_parameters_give_numpys_numbers(name, size):
    ours, theirs = fgrads(), numpys()
    found, wanted = (getattr(rng, name)(*ALL[name], size=size) for rng in (ours, theirs))
    assert type(found) is type(wanted)
    np.testing.assert_array_equal(found, wanted)
    assert same_state(ours, theirs)


def test_the_rest_of_numpys_interface():
    ours, theirs = fgrads(), numpys()
    assert ours.bytes(5) == theirs.bytes(5)
    np.testing.assert_array_equal(ours.permutation(9), theirs.permutation(9))
    np.testing.assert_array_equal(ours.permuted(COV, axis=1), theirs.permuted(COV, axis=1))
    cards, others = list("abcdef"), list("abcdef")
    ours.shuffle(cards)
    theirs.shuffle(others)
    assert cards == others
    assert ours.standard_normal(dtype=np.float32, size=2).dtype == np.float32
    out = np.zeros(3)
    assert ours.random(out=out) is out
    theirs.standard_normal(dtype=np.float32, size=2), theirs.random(3)
    assert ours.integers(5, dtype=np.uint8, endpoint=True) == theirs.integers(5, dtype=np.uint8, endpoint=True)
    children = zip(ours.spawn(2), theirs.spawn(2), strict=True)
    assert all(type(child) is fg.random.Generator and same_state(child, other) for child, other in children)
    copy = pickle.loads(pickle.dumps(ours))
    assert type(copy) is fg.random.Generator
    assert copy.normal() == theirs.normal()
    assert isinstance(ours, np.random.Generator)


def test_seeds_are_numpys():
    for seed in (None, 3, [1, 2], np.random.SeedSequence(4), np.random.MT19937(5)):
        assert type(fg.random.default_rng(seed)) is fg.random.Generator
    rng = fgrads()
    assert fg.random.default_rng(rng) is rng
    shared = numpys()
    assert fg.random.default_rng(shared).bit_generator is shared.bit_generator
    with pytest.raises((TypeError, ValueError)):
        fg.random.default_rng(-1.5)


@pytest.mark.parametrize("name", [*CONTINUOUS, "dirichlet", "multivariate_normal"])
def test_traced_parameters_give_numpys_numbers(name):
    parameters = [np.asarray(x, float) for x in ALL[name]]
    for size in (None, 4, (2, 3)):
        ours, theirs = fgrads(), numpys()
        found, _ = fg.vjp(lambda *p, ours=ours, size=size: getattr(ours, name)(*p, size=size), *parameters)
        wanted = getattr(theirs, name)(*parameters, size=size)
        assert (found.dtype, found.shape) == (np.float64, np.shape(wanted))
        np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-15)
        assert same_state(ours, theirs)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_parameters_broadcast_as_numpys(name):
    first, *others = CONTINUOUS[name]
    columns = [first * np.array([[1.0], [1.1]]), *(np.array([x, 1.05 * x, 1.1 * x]) for x in others)]
    wanted = getattr(numpys(), name)(*columns, size=(2, 3))
    found, pullback = fg.vjp(lambda *p: getattr(fgrads(), name)(*p, size=(2, 3)), *columns)
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    for x, gradient in zip(columns, pullback(np.ones((2, 3))), strict=True):
        assert gradient.shape == x.shape
    _, tangent = fg.jvp(lambda p: getattr(fgrads(), name)(p, *others, size=3), (first,), (1.0,))
    assert tangent.shape == (3,)


def test_precisions():
    x = np.float32(2.0)
    gradient = fg.grad(lambda a: fgrads().gamma(a) + fgrads().normal(a))(x)
    assert gradient.dtype == np.float32
    value, _ = fg.vjp(lambda a: fgrads().standard_gamma(a, dtype=np.float32, size=3), 2.0)
    np.testing.assert_array_equal(value, numpys().standard_gamma(2.0, dtype=np.float32, size=3))
    assert value.dtype == np.float32


# Derivatives of single draws


@pytest.mark.parametrize("name", MOVED)
def test_moved_draws_against_finite_differences_of_the_same_seed(name):
    check_grads(lambda *p: getattr(fgrads(), name)(*p, size=4), CONTINUOUS[name], order=2)


@pytest.mark.parametrize("name", ["gamma", "wald", "vonmises"])
def test_scales_and_directions_against_finite_differences_of_the_same_seed(name):
    shape, last = CONTINUOUS[name]
    if name == "gamma":
        check_grads(lambda scale: fgrads().gamma(shape, scale, size=4), (last,), order=2)
    elif name == "vonmises":
        check_grads(lambda mu: fgrads().vonmises(mu, last, size=4), (shape,), order=1)
    else:  # which scales with both
        check_grads(lambda c: fgrads().wald(c * shape, c * last, size=4), (1.3,), order=2)


def test_a_covariance_by_cholesky_is_that_of_the_same_seed():
    def draws(mean, root):
        return fgrads().multivariate_normal(mean, root @ root.T, size=4, method="cholesky")

    check_grads(draws, (np.zeros(3), np.linalg.cholesky(COV) + 0.1), order=2)


def ratio(tail, density, parameter, is_upper):
    """Return minus the derivative of the distribution function over the density, from the smaller tail."""
    h = mpmath.mpf(10) ** -25 * parameter
    slope = (tail(parameter + h) - tail(parameter - h)) / (2 * h)
    return (slope if is_upper else -slope) / density


def gamma_ratio(x, a):
    x, a = mpmath.mpf(x), mpmath.mpf(a)
    above = x > a
    limits = (x, mpmath.inf) if above else (0, x)
    density = mpmath.exp((a - 1) * mpmath.log(x) - x - mpmath.loggamma(a))
    return ratio(lambda a: mpmath.gammainc(a, *limits, regularized=True), density, a, above)


def beta_ratio(place, x, y, a, b):
    """Return the derivative of the logarithm of the odds; `y` is 1 - x."""
    x, y, *p = map(mpmath.mpf, (x, y, a, b))
    above = x * (p[0] + p[1]) > p[0]

    def tail(parameter):
        q = [parameter, p[1]] if place == 0 else [p[0], parameter]
        return mpmath.betainc(*q[::-1], 0, y, regularized=True) if above else mpmath.betainc(*q, 0, x, regularized=True)

    density = x ** p[0] * y ** p[1] / mpmath.beta(*p)
    return ratio(tail, density, p[place], above)


def velocity(name, place, x, *parameters):
    arrays = [np.float64(each) for each in (x, *parameters)]
    with np.errstate(all="ignore"):
        return float(IMPLICIT[name].velocities[place](*arrays))


GAMMA_DRAWS = [
    (1e-3, 1e-300), (1e-3, 1e-3), (1e-3, 2.0), (0.01, 1e-100), (0.5, 1e-16), (0.5, 40.0), (1.0, 1e-17), (1.0, 300.0),
    (3.0, 1e-5), (3.0, 50.0), (100.0, 30.0), (100.0, 200.0), (1e4, 9500.0),
]  # fmt: skip


@pytest.mark.parametrize(("a", "x"), GAMMA_DRAWS)
def test_gamma_draws_that_are_extreme(a, x):
    with mpmath.workdps(60):
        wanted = float(gamma_ratio(x, a))
    assert velocity("standard_gamma", 0, x, a) == pytest.approx(wanted, rel=1e-12)
    assert velocity("gamma", 0, 3 * x, a, 3.0) == pytest.approx(3 * wanted, rel=1e-12)
    assert velocity("chisquare", 0, 2 * x, 2 * a) == pytest.approx(wanted, rel=1e-12)


BETA_DRAWS = [
    (0.01, 0.01, 1e-200), (0.01, 0.01, 0.3), (0.01, 0.01, 1 - 2.0**-40), (0.5, 2.0, 1e-30), (2.0, 0.5, 1 - 2.0**-50),
    (2.0, 3.0, 1e-6), (30.0, 50.0, 0.1), (30.0, 50.0, 0.9), (300.0, 200.0, 0.55),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "x"), BETA_DRAWS)
@pytest.mark.parametrize("place", [0, 1])
def test_beta_and_f_draws_that_are_extreme(a, b, x, place):
    y = 1 - x
    with mpmath.workdps(60):
        exact = mpmath.mpf(1) - mpmath.mpf(x)
        odds_speed = float(beta_ratio(place, x, exact, a, b))
    assert velocity("beta", place, x, a, b) == pytest.approx(x * y * odds_speed, rel=1e-12)
    if x < 1 - 1e-9:
        # With z = b x / (a y), log z moves as the logarithm of the odds does, and as log(m / n).
        n, m = 2 * a, 2 * b
        z = m * x / (n * y)
        wanted = z * (odds_speed / 2 + (-1 / n if place == 0 else 1 / m))
        cancelled = z * (abs(odds_speed) / 2 + (1 / n if place == 0 else 1 / m))
        assert abs(velocity("f", place, z, n, m) - wanted) <= 1e-10 * abs(wanted) + 1e-14 * cancelled


@pytest.mark.parametrize(("df", "x"), [(0.5, 1e100), (0.5, 1e-8), (3.0, -1e6), (3.0, 2.0), (50.0, 30.0), (1e4, -5.0)])
def test_student_draws_that_are_extreme(df, x):
    with mpmath.workdps(60):
        t, n = abs(mpmath.mpf(x)), mpmath.mpf(df)

        def above(n):
            return mpmath.betainc(n / 2, 0.5, 0, n / (n + t * t), regularized=True) / 2

        density = (1 + t * t / n) ** (-(n + 1) / 2) / mpmath.sqrt(n) / mpmath.beta(n / 2, 0.5)
        wanted = float(ratio(above, density, n, True)) * math.copysign(1, x)
    assert velocity("standard_t", 0, x, df) == pytest.approx(wanted, rel=1e-11)


@pytest.mark.parametrize(
    ("mean", "scale", "x"), [(1.0, 1.0, 1e-2), (1.0, 1.0, 50.0), (1.0, 1e3, 1.1), (1.0, 1e-3, 1e-4), (3.0, 100.0, 9.0)]
)
def test_wald_draws_that_are_extreme(mean, scale, x):
    with mpmath.workdps(400):
        m, c, t = map(mpmath.mpf, (mean, scale, x))

        def below(m, c):
            root = mpmath.sqrt(c / t)
            return mpmath.ncdf(root * (t / m - 1)) + mpmath.exp(2 * c / m) * mpmath.ncdf(-root * (t / m + 1))

        density = mpmath.sqrt(c / (2 * mpmath.pi * t**3)) * mpmath.exp(-c * (t - m) ** 2 / (2 * m * m * t))
        wanted = [float(ratio(lambda m: below(m, c), density, m, False))]
        wanted += [float(ratio(lambda c: below(m, c), density, c, False))]
    found = [velocity("wald", place, x, mean, scale) for place in (0, 1)]
    np.testing.assert_allclose(found, wanted, rtol=1e-11)


@pytest.mark.parametrize(("kappa", "x"), [(1e-6, 3.0), (2.0, -1.0), (2.0, 3.14), (200.0, 0.4)])
def test_von_mises_draws(kappa, x):
    with mpmath.workdps(40):
        k, a = mpmath.mpf(kappa), abs(mpmath.mpf(x))

        def above(k):
            return mpmath.quad(lambda t: mpmath.exp(k * (mpmath.cos(t) - 1)), [a, (a + mpmath.pi) / 2, mpmath.pi]) / (
                2 * mpmath.pi * mpmath.besseli(0, k) * mpmath.exp(-k)
            )

        density = mpmath.exp(k * mpmath.cos(a)) / (2 * mpmath.pi * mpmath.besseli(0, k))
        h = k * mpmath.mpf(10) ** -12
        wanted = float((above(k + h) - above(k - h)) / (2 * h) / density) * math.copysign(1, x)
    assert velocity("vonmises", 1, x, 0.0, kappa) == pytest.approx(wanted, rel=1e-9)
    assert velocity("vonmises", 1, x + 1.0 - 2 * math.pi, 1.0, kappa) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("name", ["standard_gamma", "beta", "f"])
def test_a_draw_that_is_rounded_to_zero_does_not_move(name):
    assert [velocity(name, place, 0.0, *CONTINUOUS[name]) for place in range(len(CONTINUOUS[name]))] == [0.0] * len(
        CONTINUOUS[name]
    )


# Several numbers at once: a velocity v keeps the density p if dp / dparameter + div(p v) = 0


def continuity(log_density, move, x, parameter, change):
    """Return what is left over: of d log p / dparameter + div v + v . grad log p."""

    def v(x):
        return np.asarray(fg.jvp(lambda p: move(p, x), (parameter,), (change,))[1])

    steps = 1e-5 * np.eye(len(x))
    divergence = sum((v(x + step) - v(x - step))[i] / 2e-5 for i, step in enumerate(steps))
    score = fg.jvp(log_density, (x, parameter), (np.zeros_like(x), change))[1]
    return float(score + divergence + v(x) @ np.asarray(fg.grad(log_density)(x, parameter)))


@pytest.mark.parametrize("alpha", [[0.3, 1.0, 2.5], [5.0, 20.0, 1.5], [0.05, 0.1, 0.2]])
def test_dirichlet_draws_keep_the_density(alpha):
    alpha = np.array(alpha)
    x = np.array([0.2, 0.5])  # without the last one, which follows

    def log_density(x, alpha):
        return stats.dirichlet.logpdf(np.concatenate([x, [1 - np.sum(x)]]), alpha)

    def move(alpha, x):
        return dirichlet(alpha, lambda _: np.array([*x, 1 - np.sum(x)]), 0)[:2]

    for change in np.eye(3):
        assert continuity(log_density, move, x, alpha, change) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("cov", [COV, np.eye(3)])
def test_normal_draws_by_eigenvalues_keep_the_density(cov):
    def log_density(x, cov):
        return stats.multivariate_normal.logpdf(x, np.zeros(3), cov)

    for i, j in ((0, 0), (0, 2), (1, 2)):
        change = np.zeros((3, 3))
        change[i, j] = change[j, i] = 1.0
        move = lambda cov, x: by_eigenvalues(cov, lambda _: x)  # noqa: E731
        assert continuity(log_density, move, np.array([0.5, -1.0, 0.3]), cov, change) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("size", [None, (2, 2)])
def test_both_modes_agree_on_several_numbers(size):
    alpha = np.array([0.5, 1.0, 2.0])
    draws = [lambda alpha: fgrads().dirichlet(alpha, size)]
    draws += [lambda mean: fgrads().multivariate_normal(mean, COV, size)]
    draws += [
        lambda root, method=method: fgrads().multivariate_normal(alpha, root @ root.T + COV, size, method=method)
        for method in ("svd", "eigh", "cholesky")
    ]
    for draw, point in zip(draws, (alpha, alpha, COV, COV, COV), strict=True):
        forward = fg.jacfwd(draw)(point)
        np.testing.assert_allclose(fg.jacrev(draw)(point), forward, rtol=1e-11, atol=1e-13)
        second = fg.jacfwd(fg.jacrev(draw))(point)
        np.testing.assert_allclose(second, fg.jacfwd(fg.jacfwd(draw))(point), rtol=1e-9, atol=1e-11)


def test_a_covariance_that_is_singular_has_no_derivative():
    with pytest.raises(errors.NoDerivativeError, match=r"'cov', which is singular.*\n.*\nAdd a small multiple"):
        fg.grad(lambda c: np.sum(fgrads().multivariate_normal(np.zeros(2), c)))(np.zeros((2, 2)))


# Derivatives of means


def within_errors(samples, wanted, times=4.5):
    """Assert that a mean over the first axis is what is expected, by its standard error."""
    samples = np.asarray(samples)
    error = samples.std(axis=0) / math.sqrt(len(samples))
    assert np.all(error > 0)
    assert np.all(np.abs(samples.mean(axis=0) - wanted) < times * error)


MOMENTS = {
    "normal": lambda m, s: m * m + s * s,
    "laplace": lambda m, s: m * m + 2 * s * s,
    "logistic": lambda m, s: m * m + (math.pi * s) ** 2 / 3,
    "uniform": lambda a, b: (a * a + a * b + b * b) / 3,
    "exponential": lambda s: 2 * s * s,
    "rayleigh": lambda s: 2 * s * s,
    "power": lambda a: a / (a + 2),
    "gamma": lambda a, s: a * (a + 1) * s * s,
    "standard_gamma": lambda a: a * (a + 1),
    "chisquare": lambda k: k * (k + 2),
    "beta": lambda a, b: a * (a + 1) / ((a + b) * (a + b + 1)),
    "f": lambda n, m: m * m * (n + 2) / (n * (m - 2) * (m - 4)),
    "standard_t": lambda k: k / (k - 2),
    "wald": lambda m, s: m * m + m**3 / s,
    "triangular": lambda a, c, b: (a * a + b * b + c * c + a * b + a * c + b * c) / 6,
}
"""The mean of the square, by the parameters."""


@pytest.mark.parametrize("name", MOMENTS)
def test_the_mean_of_derivatives_is_the_derivative_of_the_mean(name):
    parameters = CONTINUOUS[name] if name != "standard_t" else (12.0,)
    wanted = fg.grad(MOMENTS[name], argnums=tuple(range(len(parameters))))(*parameters)
    for place, slope in enumerate(wanted):
        change = tuple(float(place == i) for i in range(len(parameters)))
        _, tangents = fg.jvp(lambda *p: getattr(fgrads(), name)(*p, size=1500) ** 2, parameters, change)
        within_errors(tangents, float(slope))


def test_means_of_several_numbers():
    alpha = np.array([0.5, 1.0, 2.0])
    slopes = np.stack([fg.jvp(lambda a: fgrads().dirichlet(a, 1500) ** 2, (alpha,), (e,))[1] for e in np.eye(3)], -1)

    def mean_square(alpha):
        total = np.sum(alpha)
        return alpha * (alpha + 1) / (total * (total + 1))

    within_errors(slopes, fg.jacobian(mean_square)(alpha))
    for method in ("svd", "eigh", "cholesky"):

        def products(cov, method=method):
            x = fgrads().multivariate_normal(np.zeros(3), cov, 1500, method=method)
            return x[:, :, None] * x[:, None, :]

        change = np.array([[0.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
        _, tangents = fg.jvp(products, (COV,), (change,))
        kept = np.abs(change) > 0
        within_errors(np.asarray(tangents)[:, kept], change[kept])


def test_second_derivatives_of_a_mean():
    def squares(a):
        return fgrads().standard_gamma(a, size=2000) ** 2

    second = fg.jvp(lambda a: fg.jvp(squares, (a,), (1.0,))[1], (1.7,), (1.0,))[1]
    within_errors(second, 2.0)

    def scattered(cov):
        return fgrads().multivariate_normal(np.zeros(3), cov, 2000)[:, 0] ** 4  # with mean 3 cov[0, 0]**2

    change = np.diag([1.0, 0.0, 0.0])
    second = fg.jvp(lambda c: fg.jvp(scattered, (c,), (change,))[1], (COV,), (change,))[1]
    within_errors(second, 6.0)


# Elements in another order


X = np.arange(12.0).reshape(3, 4) + 1
ARRANGEMENTS = {
    "permutation": lambda rng, x: rng.permutation(x),
    "permutation of columns": lambda rng, x: rng.permutation(x, axis=1),
    "permuted": lambda rng, x: rng.permuted(x),
    "permuted along rows": lambda rng, x: rng.permuted(x, axis=1),
    "permuted along columns": lambda rng, x: rng.permuted(x, axis=-2),
    "choice": lambda rng, x: rng.choice(x, 5),
    "choice of columns": lambda rng, x: rng.choice(x, (2, 2), replace=False, axis=1, p=[0.1, 0.2, 0.3, 0.4]),
    "choice of one": lambda rng, x: rng.choice(x),
}


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_elements_take_their_derivatives_along(name):
    arrange = ARRANGEMENTS[name]
    wanted = arrange(numpys(), X)
    found, pullback = fg.vjp(lambda x: arrange(fgrads(), x), X)
    np.testing.assert_array_equal(found, wanted)
    weights = np.random.default_rng(1).normal(size=wanted.shape)
    (gradient,) = pullback(weights)
    counted = [np.sum(weights[wanted == x]) for x in X.ravel()]  # the elements differ, so the values say which
    np.testing.assert_allclose(gradient, np.reshape(counted, X.shape), rtol=1e-14)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_shuffle_writes_into_the_tensor(axis):
    def shuffled(x):
        x = x * 1.0
        fgrads().shuffle(x, axis=axis)
        return x

    wanted = X.copy()
    numpys().shuffle(wanted, axis=axis)
    found, pullback = fg.vjp(shuffled, X)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(pullback(wanted)[0], X)


def test_what_a_result_is_written_into():
    def written(x):
        out = x * 0.0
        assert fgrads().permuted(x, out=out) is out
        return out

    np.testing.assert_array_equal(fg.vjp(written, X)[0], numpys().permuted(X))
    with pytest.raises(errors.InPlaceError, match="rng.permuted"):
        fg.grad(lambda x: np.sum(fgrads().permuted(x, out=np.zeros((3, 4)))))(X)
    with pytest.raises(errors.InPlaceError, match="rng.standard_gamma"):
        fg.grad(lambda a: np.sum(fgrads().standard_gamma(a, out=np.zeros(3))))(1.0)


# Discrete draws


NAMES_OF_DISCRETE = {
    "poisson": "lam", "binomial": "p", "geometric": "p", "logseries": "p", "zipf": "a", "negative_binomial": "p",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES_OF_DISCRETE)
def test_a_discrete_draw_refuses_to_drop_a_derivative(name):
    *before, p = DISCRETE[name]

    def draw(p):
        return getattr(fgrads(), name)(*before, p) * 1.0

    match = rf"rng\.{name} has no derivative with respect to '{NAMES_OF_DISCRETE[name]}'[^$]*fg\.score_function"
    for derivative in (
        fg.grad(draw),
        lambda p: fg.jvp(draw, (p,), (1.0,)),
        lambda p: fg.vmap(fg.grad(draw))(np.stack([p, p])),
    ):
        with pytest.raises(errors.NoDerivativeError, match=match):
            derivative(p)
    with fg.GradientTape():
        variable = fg.Variable(p)
        with pytest.raises(errors.NoDerivativeError, match=match):
            draw(variable)
    assert fg.grad(lambda p: p * draw(fg.stop_gradient(p)))(p) == getattr(numpys(), name)(*before, p)


def test_other_draws_that_jump():
    p = np.array([0.2, 0.3, 0.5])
    with pytest.raises(errors.NoDerivativeError, match="rng.multinomial has no derivative with respect to 'pvals'"):
        fg.grad(lambda p: np.sum(fgrads().multinomial(5, p)))(p)
    with pytest.raises(errors.NoDerivativeError, match="rng.multinomial has no derivative with respect to 'pvals'"):
        fg.grad(lambda p: np.sum(fgrads().multinomial(5, [p, 1 - p])))(0.3)
    with pytest.raises(errors.NoDerivativeError, match="rng.poisson has no derivative with respect to 'lam'"):
        fg.grad(lambda lam: np.sum(fgrads().poisson([lam, 1.0])))(0.3)
    with pytest.raises(errors.NoDerivativeError, match="rng.choice has no derivative with respect to 'p'"):
        fg.grad(lambda p: np.sum(fgrads().choice(3, 5, p=p)))(p)
    for name, instead in (("noncentral_chisquare", r"rng\.chisquare\(df - 1\)"), ("noncentral_f", "For dfnum above 1")):
        with pytest.raises(errors.MissingRuleError, match=rf"rng\.{name} has no derivative rule[^$]*{instead}"):
            fg.grad(lambda nonc, name=name: getattr(fgrads(), name)(*OTHERS[name][:-1], nonc))(1.5)


def test_settled_tensors_are_parameters_as_arrays_are():
    assert fgrads().poisson(Tensor(np.full(3, 2.5))).tolist() == numpys().poisson(np.full(3, 2.5)).tolist()
    assert fgrads().choice(3, 2, p=Tensor(np.array([0.2, 0.3, 0.5]))).tolist() == [
        *numpys().choice(3, 2, p=[0.2, 0.3, 0.5])
    ]


# Expectations over discrete draws


@pytest.mark.parametrize("baseline", [0.0, 3.0])
def test_a_score_function_is_exact_in_expectation_to_any_order(baseline):
    counts, rate = np.arange(60.0), 1.7

    def surrogate(rate):
        return fg.score_function(counts**2 * rate, stats.poisson.logpmf(counts, rate), baseline)

    def exact(rate):
        return rate * (rate + rate**2)

    function, weights = surrogate, stats.poisson.pmf(counts, rate)
    np.testing.assert_array_equal(surrogate(rate), counts**2 * rate)
    for _ in range(4):
        assert float(weights @ np.asarray(function(rate))) == pytest.approx(float(exact(rate)), rel=1e-10)
        function = lambda rate, f=function: fg.jvp(f, (rate,), (1.0,))[1]  # noqa: E731
        exact = fg.grad(exact)


def test_a_score_function_of_draws():
    rng, rate = fgrads(), 2.0
    draws = rng.poisson(rate, size=20_000)

    def slopes(baseline):
        def surrogate(rate):
            return fg.score_function(draws**2.0, stats.poisson.logpmf(draws, rate), baseline)

        return np.asarray(fg.jvp(surrogate, (rate,), (1.0,))[1])

    within_errors(slopes(0.0), 1 + 2 * rate)
    within_errors(slopes(6.0), 1 + 2 * rate)
    assert slopes(6.0).std() < 0.9 * slopes(0.0).std()


def test_what_a_score_function_refuses():
    with pytest.raises(errors.ShapeError, match=r"log_probability has shape \(3, 2\), and cost has shape \(3,\)"):
        fg.score_function(np.ones(3), np.zeros((3, 2)))
    with pytest.raises(errors.ShapeError, match=r"baseline has shape \(2,\)"):
        fg.score_function(np.ones(3), np.zeros(3), np.zeros(2))
    with pytest.raises(errors.ParameterError, match="not finite.*\n.*\nDraw with the same parameters"):
        fg.grad(lambda p: fg.score_function(1.0, p - np.inf))(0.0)


# Where functions run more than once, for many, or as programs


def test_a_checkpoint_draws_the_same_numbers_again():
    def cost(scale, rng):
        return np.sum(rng.normal(0.0, scale, 3) ** 2 * rng.gamma(scale, size=3))

    for function in (cost, fg.checkpoint(cost)):
        rng = fgrads()
        value, slope = fg.value_and_grad(function)(1.5, rng)
        theirs = numpys()
        assert value == pytest.approx(np.sum(theirs.normal(0.0, 1.5, 3) ** 2 * theirs.gamma(1.5, size=3)), rel=1e-14)
        assert same_state(rng, theirs)
        if function is cost:
            wanted = slope
    assert slope == pytest.approx(float(wanted), rel=1e-14)
    rng = fgrads()
    closed_over = fg.checkpoint(lambda scale: rng.normal(0.0, scale) ** 2)
    assert fg.grad(closed_over)(2.0) == pytest.approx(4 * numpys().normal() ** 2)


@pytest.mark.parametrize("name", ALL)
def test_each_example_of_a_vmap_draws_its_own_numbers(name):
    """In the order in which a loop over the examples would draw them, which a function that draws once shows."""
    rng, theirs = fgrads(), numpys()
    wanted = np.stack([getattr(theirs, name)(*ALL[name], size=2) for _ in range(3)])
    found = fg.vmap(lambda x: getattr(rng, name)(*ALL[name], size=2) + 0 * x)(np.zeros((3, *(1,) * (wanted.ndim - 1))))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    assert same_state(rng, theirs)
    if ALL[name] and name not in ("choice", "integers", "hypergeometric", "multivariate_hypergeometric"):
        place = int(isinstance(ALL[name][0], int))  # of a parameter that is no whole number
        before, p, after = ALL[name][:place], ALL[name][place], ALL[name][place + 1 :]
        mapped = fg.vmap(lambda p: getattr(fgrads(), name)(*before, p, *after, size=2))
        np.testing.assert_allclose(mapped(np.stack([np.asarray(p)] * 3)), wanted, rtol=1e-14)


def test_a_vmap_of_elements_in_another_order():
    rng, theirs = fgrads(), numpys()
    found = fg.vmap(lambda x: rng.permutation(x))(X)
    np.testing.assert_array_equal(found, [theirs.permutation(x) for x in X])
    assert same_state(rng, theirs)
    found = fg.vmap(lambda x: rng.choice(x, 2, p=x / np.sum(x)))(X)
    np.testing.assert_array_equal(found, [theirs.choice(x, 2, p=x / np.sum(x)) for x in X])
    found = fg.vmap(lambda x: rng.permuted(np.reshape(x, (2, 2)), axis=1))(X)
    np.testing.assert_array_equal(found, [theirs.permuted(x.reshape(2, 2), axis=1) for x in X])
    with pytest.raises(errors.UnsupportedError, match="Write x = rng.permutation"):
        fg.vmap(lambda x: fgrads().shuffle(np.arange(3)))(X)


def test_vmaps_in_vmaps_and_derivatives_in_them():
    rng = fgrads()
    found = fg.vmap(lambda x: fg.vmap(lambda y: rng.normal(x, 1.0) * 1.0)(np.zeros(2)))(np.zeros(3))
    np.testing.assert_array_equal(found, numpys().normal(size=(3, 2)))
    slopes = fg.vmap(lambda x: fg.grad(lambda s: fgrads().normal(x, s))(2.0))(np.zeros(3))
    np.testing.assert_array_equal(slopes, numpys().normal(size=3))
    slope = fg.grad(lambda s: np.sum(fg.vmap(lambda x: x * fgrads().gamma(s))(np.ones(3))))(2.0)
    assert slope == pytest.approx(float(fg.grad(lambda s: np.sum(fgrads().gamma(s, size=3)))(2.0)), rel=1e-14)
    same = fg.vmap(lambda x: x + np.random.default_rng(0).normal())(np.zeros(3))
    assert len(set(same.tolist())) == 1  # NumPy's generators do not know
    assert type(rng.normal()) is float


def test_directions_of_a_derivative_see_the_same_numbers():
    def function(p):
        rng = fgrads()
        return rng.normal(size=4) * p[0] + rng.gamma(p[1], size=4)

    forward, backward = fg.jacfwd(function)(np.ones(2)), fg.jacrev(function)(np.ones(2))
    np.testing.assert_allclose(forward, backward, rtol=1e-13)
    np.testing.assert_array_equal(forward[:, 0], numpys().normal(size=4))


def test_programs_say_that_they_hold_no_random_numbers():
    rng = fgrads()
    with pytest.raises(errors.FrozenValueError, match="Pass the value as an argument"):
        fg.compile(lambda x: rng.normal(x, 1.0))(2.0)
    for draw in (rng.gamma, rng.poisson, lambda a: rng.dirichlet([a, a]), lambda a: rng.choice(2, p=[a, 1 - a])):
        with pytest.raises(errors.ConcretizationError, match="pass them as arguments: loc"):
            fg.compile(lambda a, draw=draw: draw(a))(0.5)

    def turn(carry, x):
        return rng.gamma(carry + x), carry

    slope = fg.grad(lambda a: fg.scan(turn, a, np.ones(3))[0])(0.5)
    assert np.isfinite(slope)
    assert slope != 0


def test_numpys_errors_stay_numpys():
    for plain in (False, True):
        box = (lambda x: x) if plain else Tensor
        with pytest.raises(ValueError, match="scale < 0"):
            fgrads().normal(box(np.zeros(2)), -1.0)
        with pytest.raises(ValueError, match="shape < 0"):
            fgrads().gamma(box(np.array([1.0, -1.0])))
        with pytest.raises(ValueError, match="broadcast"):
            fgrads().gamma(box(np.ones(3)), size=2)
        with pytest.raises(ValueError, match=r"lam"):
            fgrads().poisson(box(np.array(-1.0)))
        with pytest.raises(TypeError):
            fgrads().normal(box(np.zeros(2)), size=2.5)
        with pytest.raises(TypeError, match="sigma"):
            fgrads().normal(box(np.zeros(2)), sigma=1.0)
    for derivative in (fg.grad, fg.vmap):
        with pytest.raises(ValueError, match="scale < 0"):
            derivative(lambda s: fgrads().normal(0.0, s))(np.array([1.0, -1.0]) if derivative is fg.vmap else -1.0)


def test_what_is_misspelled_or_of_another_kind():
    with pytest.raises(errors.MissingNameError, match=r"Did you mean default_rng\?"):
        fg.random.default_rgn(0)
    with pytest.raises(errors.MissingNameError, match=r"method of generators: .* and rng\.normal\(\.\.\.\)"):
        fg.random.normal(0.0, 1.0)
    with pytest.raises(TypeError, match="scael"):
        fg.grad(lambda s: fgrads().normal(0.0, scael=s))(1.0)
    with pytest.raises(TypeError, match=r"gamma\(\)"):
        fg.grad(lambda s: fgrads().gamma(scale=s))(1.0)
    with pytest.raises(errors.DtypeError, match="rng.gamma takes real parameters"):
        fg.vjp(lambda a: fgrads().gamma(a), 1 + 1j)


def test_tapes_and_variables():
    with fg.GradientTape() as tape:
        scale = fg.Variable(2.0)
        result = fgrads().normal(scale, scale) + fgrads().gamma(scale)
    slope = fg.grad(lambda s: fgrads().normal(s, s) + fgrads().gamma(s))(2.0)
    assert tape.gradient(result, scale) == slope


def test_numpys_own_generators_name_this_one():
    for draw in (lambda x: numpys().normal(x, 1.0), lambda x: numpys().permutation(np.stack([x, x]))[0]):
        with pytest.raises(errors.ArrayConversionError, match=r"fg\.random\.default_rng\(seed\)"):
            fg.grad(draw)(1.0)
