"""Error propagation against closed forms and samples, and the errors of fitted parameters against textbooks."""

import dataclasses

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from helpers import plain

import fgrad as fg
from fgrad import errors

RNG = np.random.default_rng(0)
MEAN = np.array([1.0, 2.0, -0.5])
COVARIANCE = np.array([[0.04, 0.01, 0.0], [0.01, 0.09, -0.02], [0.0, -0.02, 0.01]])


def close(actual, expected, **options):
    np.testing.assert_allclose(plain(actual), expected, **{"rtol": 1e-10, "atol": 1e-14, **options})


# First order


def test_linear_functions_are_exact():
    slopes = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 5.0]])
    for order in (1, 2):
        mean, covariance = fg.propagate(lambda x: slopes @ x + 1.0, MEAN, COVARIANCE, order=order)
        close(mean, slopes @ MEAN + 1.0)
        close(covariance, slopes @ COVARIANCE @ slopes.T)
        assert type(mean) is type(covariance) is fg.Tensor


def test_products_of_powers_add_relative_errors():
    # GUM, 5.1.6: for c x1^p1 x2^p2 with independent inputs, relative variances add, weighed by the squared powers.
    mean, variance = fg.propagate(lambda x: 3.0 * x[0] ** 2 / x[1], np.array([2.0, 4.0]), np.array([0.01, 0.04]))
    assert mean.item() == 3.0
    assert variance.item() / 9.0 == pytest.approx(2**2 * 0.01 / 4 + 0.04 / 16)
    assert mean.shape == variance.shape == ()


def test_correlations_count():
    # GUM, 5.2.2 NOTE 1: with all correlations 1, the errors of a sum add up.
    u = np.array([0.1, 0.2, 0.3])
    assert fg.propagate(np.sum, MEAN, np.outer(u, u))[1].item() == pytest.approx(0.6**2)
    assert fg.propagate(lambda x: x[0] - x[1], np.ones(2), np.full((2, 2), 0.5))[1].item() == pytest.approx(0.0)


def test_the_example_of_the_guide():
    # GUM, H.2: resistance, reactance and impedance from five simultaneous observations of U, I and phi.
    seen = {
        "U": np.array([5.007, 4.994, 5.005, 4.990, 4.999]),
        "I": np.array([19.663, 19.639, 19.640, 19.685, 19.678]) * 1e-3,
        "phi": np.array([1.0456, 1.0438, 1.0468, 1.0428, 1.0433]),
    }

    def impedance(x):
        ratio = x["U"] / x["I"]
        return {"R": ratio * np.cos(x["phi"]), "X": ratio * np.sin(x["phi"]), "Z": ratio}

    names = sorted(seen)
    spread = np.cov([seen[name] for name in names]) / 5
    covariance = {a: {b: spread[i, j] for j, b in enumerate(names)} for i, a in enumerate(names)}
    mean, carried = fg.propagate(impedance, {name: seen[name].mean() for name in names}, covariance)
    close([mean[name] for name in "RXZ"], [127.732, 219.847, 254.260], atol=0.0005, rtol=0)
    sigma = {name: carried[name][name].item() ** 0.5 for name in "RXZ"}
    close(list(sigma.values()), [0.071, 0.295, 0.236], atol=0.001, rtol=0)  # 0.2956 is printed as 0.295
    correlations = [carried[a][b].item() / (sigma[a] * sigma[b]) for a, b in ("RX", "RZ", "XZ")]
    close(correlations, [-0.588, -0.485, 0.993], atol=0.0005, rtol=0)


def test_first_order_against_samples():
    def f(x):
        return np.stack([np.sin(x[0]) * x[1], np.exp(x[2]), x[0] / x[1]])

    small = COVARIANCE * 1e-4
    samples = RNG.multivariate_normal(MEAN, small, 400_000)
    values = np.stack([np.sin(samples[:, 0]) * samples[:, 1], np.exp(samples[:, 2]), samples[:, 0] / samples[:, 1]])
    mean, covariance = fg.propagate(f, MEAN, small)
    close(mean, values.mean(axis=1), rtol=1e-4)
    spread = np.sqrt(np.diag(np.cov(values)))
    close(covariance / np.outer(spread, spread), np.corrcoef(values), atol=0.01)


# Second order


def test_quadratic_functions_are_exact():
    # For Gaussian x and symmetric q, with covariance s: E[x'qx] = m'qm + tr(qs), and for two of them
    # Cov[x'qx, x'px] = 2 tr(qsps) + 4 m'qspm; a linear term adds to the slope.
    q, p = (a + a.T for a in RNG.normal(size=(2, 3, 3)))
    b = RNG.normal(size=3)

    def f(x):
        return np.stack([x @ q @ x, x @ p @ x + b @ x])

    mean, covariance = fg.propagate(f, MEAN, COVARIANCE, order=2)
    slopes = np.stack([2 * q @ MEAN, 2 * p @ MEAN + b])
    expected = slopes @ COVARIANCE @ slopes.T
    expected += [[2 * np.trace(x @ COVARIANCE @ y @ COVARIANCE) for x in (q, p)] for y in (q, p)]
    close(mean, np.add(f(MEAN), [np.trace(q @ COVARIANCE), np.trace(p @ COVARIANCE)]))
    close(covariance, expected)


@pytest.mark.parametrize(
    ("f", "moments"),
    [
        # The mean and variance of f(x) for a Gaussian x, up to the second power of its variance v.
        (np.exp, lambda m, v: (np.exp(m) * (1 + v / 2), np.exp(2 * m) * (v + 1.5 * v**2))),
        (np.sin, lambda m, v: (np.sin(m) * (1 - v / 2), np.cos(m) ** 2 * (v - v**2) + np.sin(m) ** 2 * v**2 / 2)),
        (lambda x: x**3, lambda m, v: (m**3 + 3 * m * v, 9 * m**4 * v + 36 * m**2 * v**2)),
        (lambda x: 1 / x, lambda m, v: (1 / m + v / m**3, v / m**4 + 8 * v**2 / m**6)),
    ],
    ids=["exp", "sin", "cube", "reciprocal"],
)
def test_all_terms_of_second_order(f, moments):
    for m, v in ((0.7, 0.1), (1.5, 0.01)):
        mean, variance = fg.propagate(f, m, v, order=2)
        close([mean, variance], moments(m, v))


def test_the_note_of_the_guide():
    # GUM, note to 5.1.2: for independent Gaussians sum_ij [(d2f/dxi dxj)^2 / 2 + df/dxi d3f/dxi dxj^2] u_i^2 u_j^2.
    def f(x):
        return np.exp(x[0]) * np.sin(x[1]) + x[0] * x[2] ** 3

    u2 = np.array([0.01, 0.02, 0.03])
    first, second = fg.grad(f)(MEAN).numpy(), fg.hessian(f)(MEAN).numpy()
    third = fg.jacobian(fg.hessian(f))(MEAN).numpy()
    expected = first**2 @ u2 + np.einsum("ij,i,j", second**2 / 2, u2, u2) + np.einsum("i,ijj,i,j", first, third, u2, u2)
    assert fg.propagate(f, MEAN, u2, order=2)[1].item() == pytest.approx(expected)


def test_second_order_is_closer_to_samples():
    def f(x):
        return np.stack([np.exp(x[0]) * x[1], np.cos(x[1]), x[2] ** 2 * x[0]])

    samples = RNG.multivariate_normal(MEAN, COVARIANCE, 1_000_000)
    values = np.stack(
        [np.exp(samples[:, 0]) * samples[:, 1], np.cos(samples[:, 1]), samples[:, 2] ** 2 * samples[:, 0]]
    )
    means, spreads = values.mean(axis=1), np.cov(values)
    first, first_spread = fg.propagate(f, MEAN, COVARIANCE)
    second, second_spread = fg.propagate(f, MEAN, COVARIANCE, order=2)
    assert np.linalg.norm(second - means) < 0.2 * np.linalg.norm(first - means)
    assert np.linalg.norm(second_spread - spreads) < 0.3 * np.linalg.norm(first_spread - spreads)


def test_an_expansion_that_fails_says_so():
    assert fg.propagate(np.sin, 0.0, 4.0)[1].item() == 4.0
    with pytest.raises(errors.ParameterError, match="gives the result of sin a negative variance.*\nUse order=1"):
        fg.propagate(np.sin, 0.0, 4.0, order=2)
    with pytest.raises(errors.ParameterError, match=r"gives the result of f\['b'\] a negative"):

        def f(x):
            return {"a": x, "b": np.sin(x)}

        fg.propagate(f, 0.0, 4.0, order=2)


# Containers, shapes and dtypes


@dataclasses.dataclass
class Line:
    slope: float
    start: float


fg.register_dataclass(Line)


def test_containers_and_the_forms_of_a_covariance():
    mean = {"b": np.ones((2, 1)), "a": 3.0}
    matrix = np.array([[4.0, 0.5, 0.1], [0.5, 9.0, 0.2], [0.1, 0.2, 16.0]])  # in the order a, b[0, 0], b[1, 0]
    blocks = {
        "a": {"a": 4.0, "b": [[0.5], [0.1]]},
        "b": {"a": np.array([[0.5], [0.1]]), "b": matrix[1:, 1:].reshape(2, 1, 2, 1)},
    }
    blocks["a"]["b"] = np.array(blocks["a"]["b"])

    def f(p):
        return [p["a"] * p["b"], (np.sum(p["b"]),)]

    slopes = np.array([[1.0, 3.0, 0.0], [1.0, 0.0, 3.0], [0.0, 1.0, 1.0]])
    expected = slopes @ matrix @ slopes.T
    for covariance in (matrix, fg.constant(matrix), blocks):
        value, spread = fg.propagate(f, mean, covariance)
        assert plain(value) == [[[3.0], [3.0]], (2.0,)]
        close(spread[0][0], expected[:2, :2].reshape(2, 1, 2, 1))
        close(spread[0][1][0], expected[:2, 2].reshape(2, 1))
        close(spread[1][0][0], expected[2, :2].reshape(2, 1))
        close(spread[1][0][1][0], expected[2, 2])
    variances = {"a": 4.0, "b": np.array([[9.0], [16.0]])}
    close(fg.propagate(f, mean, variances)[1][1][0][1][0], 25.0)


def test_what_comes_out_can_go_in():
    mean = {"b": np.ones((2, 1)), "a": 3.0}
    covariance = {"a": 1.0, "b": np.full((2, 1), 2.0)}
    middle = fg.propagate(lambda p: {"x": p["a"] * p["b"], "y": p["a"]}, mean, covariance)
    end = fg.propagate(lambda q: np.sum(q["x"]) * q["y"], *middle)
    whole = fg.propagate(lambda p: np.sum(p["a"] * p["b"]) * p["a"], mean, covariance)
    close(end, plain(whole))


def test_arrays_of_several_axes():
    mean, covariance = RNG.normal(size=(2, 2)), RNG.normal(size=(4, 4))
    covariance = covariance @ covariance.T
    expected = fg.propagate(np.sin, mean.ravel(), covariance)
    for form in (covariance, covariance.reshape(2, 2, 2, 2)):
        value, spread = fg.propagate(np.sin, mean, form)
        close(value, expected[0].reshape(2, 2))
        close(spread, expected[1].reshape(2, 2, 2, 2))
    close(fg.propagate(np.sum, mean, np.full((2, 2), 0.5))[1], 2.0)


def test_dataclasses():
    value, variance = fg.propagate(lambda line: line.slope * 2.0 + line.start, Line(3.0, 1.0), Line(0.1, 0.2))
    assert (value.item(), variance.item()) == (7.0, pytest.approx(0.6))
    doubled = fg.propagate(lambda line: Line(line.start, line.slope), Line(3.0, 1.0), Line(0.1, 0.2))
    assert plain(doubled[1].slope.slope) == pytest.approx(0.2)


@pytest.mark.parametrize("order", [1, 2])
def test_dtypes_are_kept(order):
    value, spread = fg.propagate(np.exp, np.float32([1, 2]), np.float32([0.1, 0.2]), order=order)
    assert value.dtype == spread.dtype == np.float32
    reference = fg.propagate(np.exp, np.array([1.0, 2.0]), np.float32([0.1, 0.2]).astype(float), order=order)
    close(spread, plain(reference[1]), rtol=1e-5)


def test_constants_have_no_variance():
    value, variance = fg.propagate(lambda x: np.stack([x * 0 + 2.0, x]), 1.0, 4.0, order=2)
    assert plain(value) == [2.0, 1.0]
    assert plain(variance) == [[0.0, 0.0], [0.0, 4.0]]


def test_the_input_is_left_as_it_is():
    mean, covariance = MEAN.copy(), COVARIANCE.copy()
    fg.propagate(lambda x: x**2, mean, covariance, order=2)
    assert mean.tolist() == MEAN.tolist()
    assert covariance.tolist() == COVARIANCE.tolist()


def test_errors_can_be_differentiated():
    def variance(voltage, spread):
        return fg.propagate(lambda x: x[0] ** 2 / x[1], np.stack([voltage, voltage * 0 + 2.0]), spread * np.eye(2))[1]

    # (x0 spread)^2 + (x0^2 / 4)^2 spread, with spread as the variance of both
    exact = lambda v, s: s * v**2 + s * v**4 / 16  # noqa: E731
    assert variance(3.0, 0.1).item() == pytest.approx(exact(3.0, 0.1))
    assert fg.grad(variance)(3.0, 0.1).item() == pytest.approx(0.1 * (6.0 + 27 / 4))
    assert fg.grad(variance, argnums=1)(3.0, 0.1).item() == pytest.approx(exact(3.0, 1.0))
    close(fg.vmap(variance, in_axes=(0, None))(np.array([1.0, 3.0]), 0.1), [exact(1.0, 0.1), exact(3.0, 0.1)])


# What is refused


def test_covariances_that_do_not_fit():
    with pytest.raises(errors.ShapeError, match=r"it has shape \(2, 2\).*\nIt must be a matrix of shape \(3, 3\)"):
        fg.propagate(np.sin, MEAN, np.eye(2))
    with pytest.raises(errors.ShapeError, match="it has another structure"):
        fg.propagate(lambda p: p["a"], {"a": 1.0}, {"b": 1.0})
    with pytest.raises(errors.ShapeError, match=r"its parts have the shapes \[\(2,\)\]"):
        fg.propagate(lambda p: p["a"], {"a": 1.0}, {"a": np.ones(2)})
    with pytest.raises(errors.ShapeError, match=r"a block of shape \(3,\) has shape \(2,\)"):
        fg.propagate(lambda p: p[0], [1.0, MEAN], [[1.0, np.ones(2)], [MEAN, COVARIANCE]])
    with pytest.raises(errors.ShapeError, match="covariance does not match"):
        fg.propagate(lambda p: p[0], [1.0, MEAN], 1.0)


@pytest.mark.parametrize(
    ("covariance", "text"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], r"must be symmetric.*\nUse \(c \+ c.T\) / 2"),
        ([[1.0, 0.0], [0.0, -1.0]], "with nonnegative variances on its diagonal"),
        ([[np.nan, 0.0], [0.0, 1.0]], "must be finite"),
        ([[1.0, np.inf], [np.inf, 1.0]], "must be finite"),
    ],
)
def test_covariances_that_are_none(covariance, text):
    with pytest.raises(errors.ParameterError, match=text):
        fg.propagate(np.sin, np.ones(2), np.array(covariance))


def test_errors_of_rounding_are_no_asymmetry():
    nearly = COVARIANCE + np.triu(COVARIANCE, 1) * 1e-15
    close(fg.propagate(np.sin, MEAN, nearly)[1], plain(fg.propagate(np.sin, MEAN, COVARIANCE)[1]))


@pytest.mark.parametrize("order", [0, 3, True, "2", 1.5])
def test_orders_that_are_none(order):
    with pytest.raises(errors.ParameterError, match=f"order must be 1 or 2, and it is {order!r}"):
        fg.propagate(np.sin, 1.0, 1.0, order=order)


def test_numbers_that_are_not_real():
    with pytest.raises(errors.DtypeError, match=r"mean\['a'\] must be real .* dtype is int64.\nWrite 3.0 for 3"):
        fg.propagate(lambda p: p["a"], {"a": 3}, {"a": 1.0})
    with pytest.raises(errors.DtypeError, match="mean must be real .* complex128"):
        fg.propagate(np.sin, 1j, 1.0)
    with pytest.raises(errors.DtypeError, match="the result of <lambda> must be real .* complex128"):
        fg.propagate(lambda x: x * 1j, 1.0, 1.0)
    with pytest.raises(errors.ParameterError, match="mean holds no numbers"):
        fg.propagate(np.sin, [], [])


def test_functions_that_cannot_be_differentiated():
    with pytest.raises(errors.NoResultError, match="returns None"):
        fg.propagate(lambda x: None, 1.0, 1.0)
    with pytest.raises(errors.OutputError, match="'text' of type str"):
        fg.propagate(lambda x: "text", 1.0, 1.0)

    def detached(x):
        return np.float64(x.item())

    with pytest.raises(errors.DetachedError, match="detached returned a value that is not connected"):
        fg.propagate(detached, 1.0, 1.0)


# Fitted parameters

T = np.linspace(0.0, 4.0, 30)
Y = 1.5 * np.exp(-0.7 * T) + 0.3 + np.random.default_rng(1).normal(scale=0.05, size=T.size)


def decay(p, t=T):
    return p["size"] * np.exp(-p["rate"] * t) + p["offset"]


def named(x):
    return dict(zip(("size", "rate", "offset"), x, strict=True))


def test_the_mean_of_a_sample():
    x = RNG.normal(size=50)

    def loss(p):
        return np.sum((x - p["mean"]) ** 2) / (2 * p["variance"]) + x.size / 2 * np.log(p["variance"])

    best = {"mean": x.mean(), "variance": x.var()}
    found = fg.standard_errors(loss, best)
    # The observed information of a Gaussian at its maximum.
    close(found["mean"], np.sqrt(x.var() / 50))
    close(found["variance"], np.sqrt(2 * x.var() ** 2 / 50))


def test_linear_regression():
    powers = np.stack([np.ones_like(T), T, T**2], axis=1)
    best, (squares,), *_ = np.linalg.lstsq(powers, Y, rcond=None)
    expected = np.linalg.inv(powers.T @ powers) * squares / (T.size - 3)
    for factor in (1.0, 0.5, 7.0):

        def loss(b):
            return factor * np.sum((powers @ b - Y) ** 2)

        close(fg.parameter_covariance(loss, best, residuals=T.size), expected, rtol=1e-8)
        close(fg.standard_errors(loss, best, residuals=T.size), np.sqrt(np.diag(expected)), rtol=1e-8)


def test_against_curve_fit():
    def model(t, size, rate, offset):
        return decay({"size": size, "rate": rate, "offset": offset}, t)

    def loss(p):
        return np.sum((decay(p) - Y) ** 2)

    found, covariance = scipy.optimize.curve_fit(model, T, Y, [1.0, 1.0, 0.0], ftol=1e-14, xtol=1e-14)
    best = named(found)
    ours = fg.standard_errors(loss, best, residuals=T.size)
    # curve_fit leaves out the curvature of the model, which is small where residuals are.
    close([ours[name] for name in best], np.sqrt(np.diag(covariance)), rtol=0.03)
    known = scipy.optimize.curve_fit(model, T, Y, found, sigma=np.full(T.size, 0.05), absolute_sigma=True)[1]
    ours = fg.standard_errors(lambda p: loss(p) / (2 * 0.05**2), best)
    close([ours[name] for name in best], np.sqrt(np.diag(known)), rtol=0.03)


@pytest.mark.slow
def test_errors_cover_the_truth():
    rng, deviations = np.random.default_rng(2), []
    for _ in range(300):
        x = rng.exponential(2.0, size=200)
        # The negative log-likelihood of a Weibull distribution in the logarithms of its shape and scale.
        shape, _, scale = scipy.stats.weibull_min.fit(x, floc=0)

        def loss(p, x=x):
            shape, scale = np.exp(p[0]), np.exp(p[1])
            return -np.sum(p[0] - p[1] + (shape - 1) * (np.log(x) - p[1]) - (x / scale) ** shape)

        best = np.log([shape, scale])
        deviations.append((best - np.log([1.0, 2.0])) / fg.standard_errors(loss, best).numpy())
    close(np.std(deviations, axis=0), [1.0, 1.0], rtol=0.12)


def test_units_make_no_difference():
    def loss(p):
        return (p["tiny"] / 1e-12 - 1) ** 2 / 2 + (p["huge"] / 1e12 + p["tiny"] / 1e-12 - 2) ** 2 / 2

    found = fg.standard_errors(loss, {"tiny": 1e-12, "huge": 1e12})
    close([found["tiny"] / 1e-12, found["huge"] / 1e12], [1.0, np.sqrt(2.0)])


def test_a_fit_is_propagated_to_the_curve():
    def loss(p):
        return np.sum((decay(p) - Y) ** 2)

    found = scipy.optimize.minimize(lambda x: loss(named(x)), [1.0, 1.0, 0.0])
    best = fg.optimizers.run(loss, named(found.x), 100, fg.optimizers.GradientDescent(0.01), progress=False).params
    covariance = fg.parameter_covariance(loss, best, residuals=T.size)
    curve, spread = fg.propagate(lambda p: decay(p, np.array([0.0, 10.0])), best, covariance)
    close(spread[1, 1], plain(covariance["offset"]["offset"]), rtol=0.2)  # far out only the offset is left
    assert spread.shape == (2, 2)
    assert type(best["size"]) is fg.Tensor
    close(curve, plain(decay(best, np.array([0.0, 10.0]))))


def test_dtypes_of_errors():
    found = fg.standard_errors(lambda p: np.sum((p - 1) ** 2), np.float32([1.0, 1.0]))
    assert found.dtype == np.float32
    close(found, [np.sqrt(0.5)] * 2, rtol=1e-6)


def test_a_perfect_fit_has_no_errors():
    close(fg.standard_errors(lambda p: np.sum((p * T - 2 * T) ** 2), 2.0, residuals=T.size), 0.0)
    y = 0.1 * T + 0.7  # not exact in binary
    nearly = np.linalg.lstsq(np.stack([T, np.ones_like(T)], axis=1), y, rcond=None)[0]
    close(fg.standard_errors(lambda p: np.sum((p[0] * T + p[1] - y) ** 2), nearly, residuals=T.size), [0, 0])


def test_a_point_that_is_no_minimum():
    with pytest.raises(errors.ParameterError, match="Newton's method would be 3 standard errors long.\nMinimize"):
        fg.standard_errors(lambda x: x**2 / 2, 3.0)
    assert fg.standard_errors(lambda x: x**2 / 2, 0.9).item() == pytest.approx(1.0)  # within an error
    with pytest.raises(errors.ParameterError, match="no minimum at params: .* in which params changes most"):
        fg.standard_errors(lambda x: -(x**2), 0.0)
    with pytest.raises(errors.ParameterError, match=r"direction in which params\['b'\] changes most"):
        fg.standard_errors(lambda p: p["a"] ** 2 + p["a"] * 0 * p["b"], {"a": 0.0, "b": 1.0})
    with pytest.raises(errors.ParameterError, match="the data do not determine all parameters"):
        fg.standard_errors(lambda p: (p[0] + p[1]) ** 2, np.zeros(2))
    with pytest.raises(errors.ParameterError, match="no minimum at params"):
        fg.standard_errors(lambda p: p[0] ** 2 + p[1] ** 2 + 3 * p[0] * p[1], np.zeros(2))


def test_too_few_residuals():
    with pytest.raises(errors.ParameterError, match="2 residuals do not determine 2 parameters and a variance"):
        fg.standard_errors(lambda p: np.sum(p**2), np.zeros(2), residuals=2)


def test_parameters_that_are_not_real():
    with pytest.raises(errors.DtypeError, match=r"params\[1\] must be real floating-point numbers"):
        fg.standard_errors(lambda p: p[0] ** 2, [1.0, 2])
    with pytest.raises(errors.NonScalarError, match="residuals_of returned shape"):

        def residuals_of(p):
            return p**2

        fg.standard_errors(residuals_of, np.zeros(2))
