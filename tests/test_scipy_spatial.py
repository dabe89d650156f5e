"""`fgrad.scipy.spatial.distance`: its table, coincident points, memory, and what SciPy refuses."""

import tracemalloc

import numpy as np
import pytest
import rows
import scipy.spatial.distance
import scipy_spatial_table as table
from helpers import in_every_order

import fgrad as fg
from fgrad.scipy.spatial import distance

scipys = scipy.spatial.distance


@pytest.mark.parametrize("row", rows.with_calls(row for row in table.ROWS if not row.error))
def test_every_row(row):
    rows.check_calls(row)


def near_points(offset=1e4, away=1e-7):
    rng = np.random.default_rng(3)
    a = offset + rng.normal(size=(4, 3))
    return a, a[:3] + away * rng.normal(size=(3, 3))


def test_values_are_scipys_to_the_last_digit():
    a, b = near_points()
    for metric in ("euclidean", "sqeuclidean"):
        np.testing.assert_array_equal(
            fg.vjp(lambda a, m=metric: distance.cdist(a, b, m), a)[0], scipys.cdist(a, b, metric)
        )
        np.testing.assert_array_equal(fg.vjp(lambda a, m=metric: distance.pdist(a, m), a)[0], scipys.pdist(a, metric))


def test_gradients_of_near_points_do_not_cancel():
    """The gradient of a single distance is the direction, whose length is 1."""
    a, b = near_points()
    weights = np.diag([1.0, 1.0, 1.0, 0.0])[:, :3]
    found = fg.grad(lambda a: np.sum(weights * distance.cdist(a, b)))(a).numpy()[:3]
    direction = (a[:3] - b) / np.linalg.norm(a[:3] - b, axis=1, keepdims=True)
    np.testing.assert_allclose(found, direction, rtol=1e-14)
    moved = fg.jvp(lambda a: distance.cdist(a, b), (a,), (np.ones_like(a),))[1].numpy()
    np.testing.assert_allclose(np.diag(moved[:3]), np.sum(direction, 1), rtol=1e-13)


@pytest.mark.parametrize("name", [*table.PLAIN, "jensenshannon"])
def test_where_points_coincide_the_derivative_is_zero(name):
    """To first order; so it is beside other points, and where a distance is among all of a set."""
    x, f = np.array([0.5, 0.3, 1.2]), getattr(distance, name)
    np.testing.assert_allclose(fg.grad(f, argnums=(0, 1))(x, x), 0, atol=1e-15)
    points = np.stack([x, x, 2 * x[::-1]])
    whole = fg.jacobian(lambda points: distance.pdist(points, name))(points).numpy()
    np.testing.assert_allclose(whole[0], 0, atol=1e-15)
    assert np.isfinite(whole).all()
    assert np.any(whole[1])
    crossed = fg.grad(lambda a: np.sum(distance.cdist(a, points, name)[0]))(points).numpy()
    assert np.isfinite(crossed).all()


@pytest.mark.parametrize("order", [1, 2])
def test_memory_is_that_of_the_distances(order):
    """300 points with 200 coordinates: all differences would take 144 MB."""
    a = np.random.default_rng(0).normal(size=(300, 200))

    def loss(a):
        return np.sum(distance.cdist(a, a[:290]))

    compute = fg.grad(loss) if order == 1 else lambda a: fg.hvp(loss)(a, a)
    tracemalloc.start()
    try:
        compute(a)
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


def test_names_and_functions_of_scipy_mean_the_same():
    a = table.POINTS
    for metric in ("cityblock", "CB", distance.cityblock):
        value = fg.vjp(lambda a, m=metric: distance.pdist(a, m), a)[0]
        np.testing.assert_allclose(value, scipys.pdist(a, "cityblock"), rtol=1e-15)
    np.testing.assert_allclose(
        fg.vjp(lambda a: distance.minkowski(a[0], a[1], np.inf), a)[0], scipys.chebyshev(a[0], a[1])
    )
    weights = np.array([1.0, 0.0, 0.3])
    found = fg.vjp(lambda a: distance.chebyshev(a[0], a[1], weights), a)[0]
    np.testing.assert_allclose(found, scipys.chebyshev(a[0], a[1], weights))


@pytest.mark.parametrize(
    "call",
    [
        lambda d, x: d.cdist(x, x, "eucldean"),
        lambda d, x: d.cdist(x, x[0]),
        lambda d, x: d.cdist(x, x[:, :2]),
        lambda d, x: d.pdist(x[0]),
        lambda d, x: d.cosine(x, x),
        lambda d, x: d.minkowski(x[0], x[1], -1),
        lambda d, x: d.cityblock(x[0], x[1], [-1.0, 1.0, 1.0]),
        lambda d, x: d.squareform(x),
        lambda d, x: d.squareform(x[0][:2]),
    ],
)
def test_what_scipy_refuses_is_refused_with_its_message(call):
    with pytest.raises(Exception) as theirs:  # noqa: PT011  # its text is what the next lines compare
        call(scipys, table.POINTS)
    with pytest.raises(type(theirs.value)) as ours:
        fg.vjp(lambda x: call(distance, x), table.POINTS)
    assert str(theirs.value).split("[")[0] in str(ours.value)


def test_out_is_refused_where_something_is_traced():
    out = np.empty((3, 3))
    assert distance.cdist(table.POINTS, table.POINTS, out=out) is out
    with pytest.raises(fg.errors.UnsupportedError, match="does not write differentiated results into `out`"):
        fg.grad(lambda x: np.sum(distance.cdist(x, x, out=out)))(table.POINTS)


def test_a_matrix_has_its_derivative_in_the_upper_triangle():
    matrix = scipys.squareform(table.WEIGHTS)
    found = fg.grad(lambda m: distance.squareform(m) @ table.WEIGHTS)(matrix).numpy()
    np.testing.assert_array_equal(found, np.triu(matrix))


@pytest.mark.parametrize("p", [2, 2.0, np.float64(2.0)])
def test_minkowskis_distance_bends_where_a_coordinate_is_the_same(p):
    points = np.array([[0.0, 1.0], [0.0, 0.0]])
    found = fg.hessian(lambda x: distance.minkowski(x, points[1], p))(points[0])
    np.testing.assert_allclose(found, [[1.0, 0.0], [0.0, 0.0]])
    pairs = fg.hessian(lambda x: distance.cdist(x[None], points[1:], "minkowski", p=p)[0, 0])(points[0])
    np.testing.assert_allclose(pairs, found)


def test_second_derivatives_of_minkowskis_distance_by_its_order():
    found = in_every_order(lambda x, y, p: distance.minkowski(np.stack([x, y]), np.zeros(2), p), (0.0, 2.0, 2.0), 2)
    expected = {(0,): 0.0, (1,): 1.0, (2,): 0.0, (0, 0): 0.5, (0, 1): 0.0, (1, 1): 0.0, (1, 2): 0.0, (2, 2): 0.0}
    for places, value in expected.items():
        np.testing.assert_allclose(found[places], value, atol=1e-14, err_msg=str(places))


@pytest.mark.parametrize("axis", [0, -1])
def test_jensenshannon_counts_the_axes_of_each_array(axis):
    """As SciPy does, if the two have different numbers of axes."""
    p, q = np.array([0.2, 0.5, 0.9]), np.array([[0.3, 0.1, 0.4], [0.8, 0.6, 0.2], [0.5, 0.9, 0.7]])
    for pair in ((p, q), (q, p)):
        value, _ = fg.vjp(lambda p, q: distance.jensenshannon(p, q, axis=axis), *pair)
        np.testing.assert_allclose(value, scipy.spatial.distance.jensenshannon(*pair, axis=axis), rtol=1e-12)
        fg.testing.check_grads(lambda p, q: distance.jensenshannon(p, q, axis=axis), pair)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: distance.euclidean(x, np.zeros(2)),
        lambda x: distance.minkowski(x, np.zeros(2)),
        lambda x: distance.canberra(x, np.zeros(2)),
        lambda x: np.sum(distance.cdist(x[:, None], x[:, None])),
        lambda x: np.sum(distance.pdist(x[:, None])),
    ],
)
def test_imaginary_parts_are_not_dropped(function):
    with pytest.raises(fg.errors.DtypeError, match="takes real numbers"):
        fg.vjp(function, np.array([1.0 + 0.5j, 2.0]))


def test_canberra_leaves_out_nan_between_two_points_only():
    u, v = np.array([1.0, np.nan, 4.0]), np.array([3.0, 2.0, 1.0])
    value, slope = fg.value_and_grad(distance.canberra)(u, v)
    assert value == scipys.canberra(u, v)
    np.testing.assert_allclose(slope.numpy()[[0, 2]], fg.grad(distance.canberra)(u[[0, 2]], v[[0, 2]]).numpy())
    assert slope[1] == 0
    assert np.isnan(fg.vjp(lambda u: distance.cdist(u[None], v[None], "canberra"), u)[0]).all()
