"""What the derivative is where calculus leaves a choice: one table, first and second order.

The rule is: JAX's value where that is finite (equal shares at ties); at other kinks the subgradient
of least norm; what a mask leaves out contributes exactly 0; a true infinity stays.
"""

import mpmath as mp
import numpy as np
import pytest
from helpers import in_every_order

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.ops.reductions import logsumexp
from fgrad.ops.softmaxes import log_softmax, softmax

INF, NAN = np.inf, np.nan
THREE, LEVELS = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 6.0])

# name, function, point, gradient of the sum, derivative of that gradient's sum (None: not pinned)
TABLE = [
    ("sqrt at 0", np.sqrt, [0.0, 4.0], [INF, 0.25], None),
    ("abs at 0", np.abs, [0.0, -2.0], [0.0, -1.0], [0.0, 0.0]),
    ("square at 0", lambda x: x**2, [0.0], [0.0], [2.0]),
    ("x ** 2. at 0", lambda x: x**2.0, [0.0], [0.0], [2.0]),
    ("x ** 1 at 0", lambda x: x**1, [0.0], [1.0], [0.0]),
    ("x ** 0 at 0", lambda x: x**0, [0.0, 2.0], [0.0, 0.0], [0.0, 0.0]),
    ("x ** 0. at 0", lambda x: x**0.0, [0.0], [0.0], [0.0]),
    ("x ** array of 0", lambda x: x ** np.array([0.0, 2.0]), [0.0, 0.0], [0.0, 0.0], [0.0, 2.0]),
    # At 0 it falls from 1 to 0 at once, and so does x ** x from 1: a true infinity.
    ("0 ** x at 2 and 0", lambda x: 0.0**x, [2.0, 0.0], [0.0, -INF], [0.0, INF]),
    ("x ** x at 0", lambda x: x**x, [0.0, 1.0], [-INF, 1.0], None),
    ("max of equal elements", np.max, [1.0, 1.0], [0.5, 0.5], [0.0, 0.0]),
    ("min of three, two equal", np.min, [1.0, 1.0, 3.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]),
    (
        "max at the initial value",
        lambda x: np.max(x, initial=1.0, where=np.array([True, False, False])),
        [1.0, 0.0, 2.0],
        [0.5, 0.0, 0.0],
        [0.0] * 3,
    ),
    (
        "min at the initial value",
        lambda x: np.min(x, initial=1.0, where=np.array([True, False, False])),
        [1.0, 0.0, 2.0],
        [0.5, 0.0, 0.0],
        [0.0] * 3,
    ),
    ("maximum(x, 1) at 1", lambda x: np.maximum(x, 1.0), [1.0, 2.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]),
    ("minimum(1, x) at 1", lambda x: np.minimum(1.0, x), [1.0, 2.0, 0.0], [0.5, 0.0, 1.0], [0.0, 0.0, 0.0]),
    ("maximum(x, 0) at 0", lambda x: np.maximum(x, 0.0), [0.0, 2.0, -1.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]),
    ("where(x > 0, x, 0) at 0", lambda x: np.where(x > 0, x, 0.0), [0.0, 2.0], [0.0, 1.0], [0.0, 0.0]),
    ("maximum(x, x)", lambda x: np.maximum(x, x), [1.0], [1.0], [0.0]),
    ("clip at its bounds", lambda x: np.clip(x, 0, 1), [0.0, 1.0, 0.5, 2.0], [0.5, 0.5, 1.0, 0.0], [0.0] * 4),
    ("prod through one zero", np.prod, [0.0, 2.0, 3.0], [6.0, 0.0, 0.0], [5.0, 3.0, 2.0]),
    ("prod through two zeros", np.prod, [0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [3.0, 3.0, 0.0]),
    ("cumprod through a zero", np.cumprod, [0.0, 2.0, 3.0], [9.0, 0.0, 0.0], [6.0, 4.0, 2.0]),
    ("std of equal elements", np.std, [2.0, 2.0, 2.0], [0.0, 0.0, 0.0], None),
    ("hypot(x, x) at 0", lambda x: np.hypot(x, x), [0.0], [0.0], None),
    ("arctan2(x, x) at 0", lambda x: np.arctan2(x, x), [0.0], [0.0], None),
    ("floor, rint, sign", lambda x: np.floor(x) + np.rint(x) + np.sign(x), [0.3], [0.0], [0.0]),
    ("a comparison", lambda x: (x > 0) * 2.0, [0.3], [0.0], [0.0]),
    ("where hides sqrt", lambda x: np.where(x > 0, np.sqrt(x), 0.0), [0.0, 4.0, -1.0], [0, 0.25, 0], [0, -1 / 32, 0]),
    ("where hides log", lambda x: np.where(x > 0, np.log(x), 0.0), [0.0, 2.0], [0.0, 0.5], [0.0, -0.25]),
    ("where hides x log x", lambda x: np.where(x > 0, x * np.log(x), 0.0), [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]),
    ("where hides sin(x) / x", lambda x: np.where(x == 0, 1.0, np.sin(x) / x), [0.0], [0.0], [0.0]),
    ("where hides exp", lambda x: np.where(x < 9, np.exp(x), 0.0), [1000.0, 0.0], [0.0, 1.0], [0.0, 1.0]),
    ("where hides a power", lambda x: np.where(x > 0, x**0.5, 0.0), [0.0, -1.0, 4.0], [0, 0, 0.25], [0, 0, -1 / 32]),
    ("where hides arcsin", lambda x: np.where(x < 1, np.arcsin(x), 0.0), [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]),
    ("maximum hides 1 / x", lambda x: np.maximum(-1.0 / np.abs(x), -2.0), [0.0, 1.0], [0.0, 1.0], [0.0, -2.0]),
    ("clip hides log", lambda x: np.clip(np.log(x), -1.0, 1.0), [0.0, 1.0], [0.0, 1.0], [0.0, -1.0]),
    ("an index hides log", lambda x: np.log(x)[1], [0.0, 2.0], [0.0, 0.5], [0.0, -0.25]),
    ("fabs at 0", np.fabs, [0.0, -2.0], [0.0, -1.0], [0.0, 0.0]),
    ("x ** 0 at infinity", lambda x: x**0, [INF], [0.0], [0.0]),
    ("logaddexp of infinities", lambda x: np.logaddexp(x[0], x[1]), [INF, INF], [1.0, 1.0], [0.0, 0.0]),
    ("norm of order 1.5", lambda x: np.linalg.norm(x, 1.5), [0.0, 2.0], [0.0, 1.0], [INF, 0.0]),
    ("copysign at 0", lambda x: np.copysign(x, -1.0), [0.0, -2.0, 2.0], [0.0, 1.0, -1.0], [0.0, 0.0, 0.0]),
    ("fmax(x, 1) at 1", lambda x: np.fmax(x, 1.0), [1.0, 2.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]),
    ("fmin(1, x) at 1", lambda x: np.fmin(1.0, x), [1.0, 2.0, 0.0], [0.5, 0.0, 1.0], [0.0, 0.0, 0.0]),
    ("fmax skips nan", lambda x: np.fmax(x, [np.nan, np.nan]), [1.0, 2.0], [1.0, 1.0], [0.0, 0.0]),
    ("fmin hides sqrt", lambda x: np.fmin(np.sqrt(x), -1.0), [0.0, 4.0], [0.0, 0.0], [0.0, 0.0]),
    ("heaviside at 0", lambda x: np.heaviside(x, 0.5), [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]),
    ("heaviside of its middle", lambda h: np.heaviside([0.0, 1.0], h), [0.3, 0.3], [1.0, 0.0], [0.0, 0.0]),
    ("modf of a whole number", lambda x: np.modf(x)[0], [2.0, -2.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]),
    ("frexp at 0", lambda x: np.frexp(x)[0], [0.0, 8.0], [1.0, 0.0625], [0.0, 0.0]),
    ("spacing", lambda x: np.spacing(x), [1.0], [0.0], [0.0]),
    ("nextafter", lambda x: np.nextafter(x, 0.0), [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]),
    ("cbrt at 0", np.cbrt, [0.0, 8.0], [INF, 1 / 12], None),
    ("float_power at 0", lambda x: np.float_power(x, 2), [0.0, 3.0], [0.0, 6.0], [2.0, 2.0]),
    ("float_power 0 at 0", lambda x: np.float_power(x, 0), [0.0], [0.0], [0.0]),
    ("hypot.reduce at 0", np.hypot.reduce, [0.0, 0.0], [0.0, 0.0], None),
    ("fmod at a multiple", lambda x: np.fmod(x, 2.0), [4.0, -4.0], [1.0, 1.0], [0.0, 0.0]),
    ("select hides sqrt", lambda x: np.select([x > 0], [np.sqrt(x)]), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    ("choose hides log", lambda x: np.choose([0, 1], [0 * x, np.log(x)]), [0.0, 2.0], [0.0, 0.5], [0.0, -0.25]),
    ("piecewise skips log", lambda x: np.piecewise(x, [x > 0], [np.log]), [0.0, 2.0], [0.0, 0.5], [0.0, -0.25]),
    ("delete hides log", lambda x: np.delete(np.log(x), 0), [0.0, 2.0], [0.0, 0.5], [0.0, -0.25]),
    ("triu hides log", lambda x: np.triu(np.log(x) * np.ones((2, 1)), 1), [0.0, 2.0], [0.0, 0.5], [0.0, -0.25]),
    ("logaddexp2 of -inf", lambda x: np.logaddexp2(x, x), [-INF], [0.0], None),
    ("sort of equal elements", lambda x: np.sort(x) * THREE, [1.0, 1.0, 0.0], [2.0, 3.0, 1.0], [0.0, 0.0, 0.0]),
    ("partition of equal elements", lambda x: np.partition(x, 1)[1], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0] * 3),
    ("unique takes the first", lambda x: np.unique(x) * [2.0, 3.0], [1.0, 0.0, 1.0], [3.0, 2.0, 0.0], [0.0] * 3),
    ("median of four", np.median, [1.0, 3.0, 2.0, 4.0], [0.0, 0.5, 0.5, 0.0], [0.0] * 4),
    ("median of equal elements", np.median, [1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0] * 3),
    ("nanmedian", np.nanmedian, [1.0, NAN, 3.0], [0.5, 0.0, 0.5], [0.0] * 3),
    ("quantile by q at an element", lambda q: np.quantile(LEVELS, q), [0.5], [8.0], [0.0]),
    ("quantile by q at the ends", lambda q: np.quantile(LEVELS, q), [0.0, 1.0], [2.0, 0.0], [0.0, 0.0]),
    ("nanmax of equal elements", np.nanmax, [1.0, NAN, 1.0, 0.0], [0.5, 0.0, 0.5, 0.0], [0.0] * 4),
    ("nanmax with -inf", np.nanmax, [-INF, NAN], [1.0, 0.0], [0.0, 0.0]),
    ("ptp of equal elements", np.ptp, [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]),
    ("nanprod through a zero", np.nanprod, [0.0, NAN, 3.0], [3.0, 0.0, 0.0], [1.0, 0.0, 1.0]),
    ("nancumprod through a zero", np.nancumprod, [0.0, 2.0, NAN], [5.0, 0.0, 0.0], [2.0, 2.0, 0.0]),
    ("nanstd of equal elements", np.nanstd, [2.0, NAN, 2.0], [0.0, 0.0, 0.0], None),
    ("nan_to_num", np.nan_to_num, [NAN, INF, 2.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]),
    ("logsumexp of -inf", logsumexp, [-INF, -INF], [0.0, 0.0], None),
    ("logaddexp of -inf", lambda x: np.logaddexp(x, x), [-INF], [0.0], None),
    ("logaddexp of -inf and a number", lambda x: np.logaddexp(x, 0.0), [-INF, 0.0], [0.0, 0.5], [0.0, 0.25]),
    ("logaddexp of inf", lambda x: np.logaddexp(x, 0.0), [INF, 0.0], [1.0, 0.5], [0.0, 0.25]),
    ("logaddexp2 of inf", lambda x: np.logaddexp2(0.0, x), [INF, 0.0], [1.0, 0.5], [0.0, np.log(2) / 4]),
    ("logsumexp of inf", logsumexp, [INF, 0.0], [1.0, 0.0], [0.0, 0.0]),
    (
        "logsumexp of -inf in a row",
        lambda x: logsumexp(x.reshape(2, 2), 1),
        [-INF, 1.0, -INF, -INF],
        [0, 1, 0, 0],
        None,
    ),
    # As many elements are chosen as there are rows, and yet one row has none and one has two.
    (
        "max of a row with nan and one with a tie",
        lambda x: np.max(x.reshape(2, 2), 1),
        [NAN, 1, 2, 2],
        [0, 0, 0.5, 0.5],
        None,
    ),
    (
        "nanmin of a nan and of a tie",
        lambda x: np.nanmin(x.reshape(2, 2), 1),
        [NAN, 1, 2, 2],
        [0, 1, 0.5, 0.5],
        [0.0] * 4,
    ),
    (
        "min along rows, one with a tie",
        lambda x: np.min(x.reshape(2, 2), 1),
        [1.0, 3, 2, 2],
        [1.0, 0, 0.5, 0.5],
        [0.0] * 4,
    ),
    ("max of equal infinities", np.max, [INF, INF, 1.0], [0.5, 0.5, 0.0], [0.0] * 3),
    ("max hides log", lambda x: np.max(np.log(x.reshape(2, 1) * [1.0, 1.0]), 0), [0.0, 2.0], [0.0, 1.0], [0.0, -0.5]),
    ("maximum of nan", lambda x: np.maximum(x, 0.0), [NAN, 1.0], [0.0, 1.0], [0.0, 0.0]),
    ("softmax with -inf", lambda x: softmax(x) * [1.0, 2.0, 4.0], [-INF, 1.0, 1.0], [0.0, -0.5, 0.5], None),
    ("log_softmax with -inf", lambda x: log_softmax(x)[1:], [-INF, 1.0, 1.0], [0.0, 0.0, 0.0], None),
    *(
        (f"norm {p!r} of 0", lambda x, p=p: np.linalg.norm(x, p), [0.0, 0.0], [0.0, 0.0], None)
        for p in (None, 1, 2, 3, 1.5, 0.5, -1, INF, -INF, 0)
    ),
    *(
        (f"norm {p!r} of a matrix of 0", lambda x, p=p: np.linalg.norm(x.reshape(2, 2), p), [0.0] * 4, [0.0] * 4, None)
        for p in ("fro", "nuc", 1, -1, 2, -2, INF, -INF)
    ),
    # The second derivative grows beyond all bounds around a length of 0, and its square is smooth.
    ("norm of 0, twice", np.linalg.norm, [0.0, 0.0], [0.0, 0.0], [INF, INF]),
    ("norm 3 of 0, twice", lambda x: np.linalg.norm(x, 3), [0.0, 0.0], [0.0, 0.0], [INF, INF]),
    ("norm**2 of 0", lambda x: np.linalg.norm(x) ** 2, [0.0, 0.0], [0.0, 0.0], [2.0, 2.0]),
    (
        "norm of rows, squared",
        lambda x: np.linalg.norm(x.reshape(2, 2), axis=1) ** 2,
        [0.0, 0, 3, 4],
        [0.0, 0, 6, 8],
        [2.0] * 4,
    ),
    (
        "square of a matrix norm",
        lambda x: np.square(np.linalg.norm(x.reshape(1, 2))),
        [0.0, 0.0],
        [0.0, 0.0],
        [2.0, 2.0],
    ),
    ("hypot(x, 0)**2 at 0", lambda x: np.hypot(x, 0.0) ** 2, [0.0, 3.0], [0.0, 6.0], [2.0, 2.0]),
    ("abs(x)**2 at 0", lambda x: np.abs(x) ** 2, [0.0, -3.0], [0.0, -6.0], [2.0, 2.0]),
    ("abs(1j x)**2 at 0", lambda x: abs(1j * x) ** 2, [0.0, -3.0], [0.0, -6.0], [2.0, 2.0]),
    ("power spectrum of equal ones", lambda x: np.abs(np.fft.fft(x)) ** 2, [1.0] * 4, [8.0] * 4, [8.0] * 4),
    ("std**2 with a weight", lambda x: np.std(x * [1.0, -1.0]) ** 2, [1.0, -1.0], [0.0, 0.0], [1.0, 1.0]),
    ("var with a weight", lambda x: np.var(x * [1.0, -1.0]), [1.0, -1.0], [0.0, 0.0], [1.0, 1.0]),
    ("nanstd**2", lambda x: np.nanstd(x * [1.0, -1.0, 1.0]) ** 2, [1.0, -1.0, NAN], [0.0] * 3, [1.0, 1.0, 0.0]),
    ("cos(norm) at 0", lambda x: np.cos(np.linalg.norm(x)), [0.0, 0.0], [0.0, 0.0], [NAN, NAN]),
    ("cos(hypot) at 0", lambda x: np.cos(np.hypot(x, 0.0)), [0.0, 1.0], [0.0, -np.sin(1)], [NAN, -np.cos(1)]),
    ("cos(abs(1j x)) at 0", lambda x: np.cos(np.abs(1j * x)), [0.0, 1.0], [0.0, -np.sin(1)], [NAN, -np.cos(1)]),
    ("hypot(x, 0) at 0", lambda x: np.hypot(x, 0.0), [0.0, 1.0], [0.0, 1.0], [INF, 0.0]),
    ("where hides norm", lambda x: np.where(x > 0, np.linalg.norm(x), 0.0), [0.0], [0.0], [0.0]),
    ("norm 0.5 with a 0", lambda x: np.linalg.norm(x, 0.5), [0.0, 4.0], [0.0, 1.0], [0.0, 0.0]),
    ("norm inf of equal ones", lambda x: np.linalg.norm(x, INF), [1.0, -1.0], [0.5, -0.5], [0.0, 0.0]),
    ("norm 2 of equal ones", lambda x: np.linalg.norm(x.reshape(2, 2), 2), [1.0, 0, 0, 1], [0.5, 0, 0, 0.5], None),
    (
        "norm nuc of rank 1",
        lambda x: np.linalg.norm(x.reshape(2, 2), "nuc"),
        [2.0, 0, 0, 0],
        [1, 0, 0, 0],
        [0, 0.5, 0.5, 0],
    ),
    ("norm -2 of rank 1", lambda x: np.linalg.norm(x.reshape(2, 2), -2), [2.0, 0, 0, 0], [0.0] * 4, None),
    ("det of rank 1", lambda x: np.linalg.det(x.reshape(2, 2)), [1.0, 2, 2, 4], [4, -2, -2, 1], [1, -1, -1, 1]),
    ("det of 0", lambda x: np.linalg.det(x.reshape(2, 2)), [0.0] * 4, [0.0] * 4, [1, -1, -1, 1]),
    ("eigvalsh of equal ones", lambda x: np.linalg.eigvalsh(x.reshape(2, 2))[0], [1.0, 0, 0, 1], [1, 0, 0, 0], None),
    ("svdvals of equal ones", lambda x: np.linalg.svdvals(x.reshape(2, 2))[0], [1.0, 0, 0, 1], [1, 0, 0, 0], None),
    ("sum of equal eigenvalues", lambda x: np.linalg.eigvalsh(x.reshape(2, 2)), [1.0, 0, 0, 1], [1, 0, 0, 1], None),
]
NAMED = [pytest.param(*row[1:], id=row[0]) for row in TABLE]


def total_gradient(f, x):
    return fg.grad(lambda x: np.sum(f(x)))(x)


@pytest.mark.filterwarnings("ignore:every gradient of")
@pytest.mark.parametrize(("f", "at", "first", "second"), NAMED)
def test_first_and_second_derivatives(f, at, first, second):
    """First ones in both modes; second ones by reverse and by forward over reverse mode."""
    x = np.array(at)

    def gradient(x):
        return total_gradient(f, x)

    def along(f, place):
        direction = np.zeros_like(x)
        direction[place] = 1.0
        return fg.jvp(lambda x: np.sum(f(x)), (x,), (direction,))[1]

    with np.errstate(all="ignore"):
        np.testing.assert_allclose(gradient(x), first, rtol=1e-14)
        for place, slope in enumerate(first):
            np.testing.assert_allclose(along(f, place), slope, rtol=1e-14)
        if second is not None:
            np.testing.assert_allclose(total_gradient(gradient, x), second, rtol=1e-14)
            for place, slope in enumerate(second):
                np.testing.assert_allclose(along(gradient, place), slope, rtol=1e-14)


POWERS = [lambda x, y: x**y, np.power, np.float_power, lambda x, y: np.stack([x, x])[0] ** y]


@pytest.mark.parametrize("f", POWERS)
@pytest.mark.parametrize("point", [(4.0, 0.0), (4.0, 1.0), (0.5, -1.0), (1.0, 0.0), (3.0, 3.0)])
def test_derivatives_of_powers_by_both_arguments(f, point):
    for places, values in in_every_order(f, point).items():
        orders = (places.count(0), places.count(1))
        np.testing.assert_allclose(values, float(mp.diff(lambda x, y: x**y, point, orders)), rtol=1e-10, atol=1e-12)


def limit_at_zero(y, by_x, by_y):
    """Return the limit of a derivative of x**y for x from above to 0, by its terms c x**a log(x)**b."""
    terms = {by_y: 1.0}
    for order in range(by_x):
        raised = {b: (y - order) * c for b, c in terms.items()}
        terms = {b: raised.get(b, 0.0) + (b + 1) * terms.get(b + 1, 0.0) for b in range(by_y + 1)}
    logarithms = [b for b, c in terms.items() if c]
    if not logarithms or y > by_x:
        return 0.0
    b = max(logarithms)
    return terms[b] if y == by_x and b == 0 else np.sign(terms[b]) * (-1) ** b * INF


@pytest.mark.parametrize("y", [-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
def test_derivatives_of_powers_of_0_are_their_limits(y):
    for places, values in in_every_order(lambda x, y: x**y, (0.0, y)).items():
        assert set(values) == {limit_at_zero(y, places.count(0), places.count(1))}, places


def test_second_derivatives_of_powers_are_symmetric_and_the_same_in_batches_and_compiled():
    def f(p):
        return np.sum(p[0] ** p[1])

    points = np.array([[[4.0, 2.0, 0.5], [0.0, 1.0, -1.0]], [[3.0, 0.0, 0.0], [2.0, 3.0, 2.0]]])
    found = [np.asarray(fg.hessian(f)(p)).reshape(6, 6) for p in points]
    for hessian in found:
        np.testing.assert_array_equal(hessian, hessian.T)
    assert found[0][0, 3] == 0.25
    np.testing.assert_allclose(np.reshape(fg.vmap(fg.hessian(f))(points), (2, 6, 6)), found, rtol=1e-14)
    compiled = fg.compile(fg.hessian(f))
    np.testing.assert_allclose([np.reshape(compiled(p), (6, 6)) for p in points], found, rtol=1e-14)


def test_the_logarithm_of_a_base_is_taken_in_the_precision_of_the_power():
    for base in (np.array([2, 3], np.int8), np.array([2, 3], np.float16), np.array([2, 3], np.float32)):
        slope = fg.grad(lambda y, base=base: np.sum(base**y))(np.array([1.5, 2.0]))
        np.testing.assert_allclose(slope, [2**1.5 * np.log(2), 9 * np.log(3)], rtol=1e-15)


def test_logsumexp_of_large_numbers():
    """Accurate to the rounding of its result, 1000.7: about 1e-13."""
    np.testing.assert_allclose(fg.grad(logsumexp)(np.array([1000.0, 1000.0])), [0.5, 0.5], rtol=1e-12)


def test_a_weight_of_zero_means_not_used():
    """x * log(x) has no derivative at 0, and is not asked for one."""
    x, weights = np.array([0.0, 1.0]), np.array([0.0, 1.0])

    def f(x):
        return x * np.log(x)

    def taped():
        t = fg.constant(x)
        with fg.GradientTape(persistent=True) as tape:
            tape.watch(t)
            y = f(t)
        return tape, y, t

    with np.errstate(all="ignore"):
        tape, y, t = taped()
        for found in (
            fg.vjp(f, x)[1](weights)[0],
            fg.gradients_function(f)(x, dy=weights)[0],
            tape.gradient(y, t, output_gradients=weights),
            fg.gradients(y, t, grad_ys=[weights])[0],
        ):
            np.testing.assert_array_equal(found, [0.0, 1.0])
        for jacobian in (tape.jacobian(y, t), fg.jacrev(f)(x)):
            assert jacobian.numpy()[0, 1] == 0.0
            assert jacobian.numpy()[1].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.cbrt(x**3),
        lambda x: np.log(x**2),
        lambda x: np.sqrt(np.abs(x)),
        lambda x: np.arcsin(1 - x**2),
        lambda x: np.arccosh(1 + x**2),
        lambda x: (x**4) ** 0.25,
        lambda x: np.sqrt(x**2) * np.sqrt(x**2),
        lambda x: fnp.stack([x * x, x * x]) @ np.log(fnp.stack([x * x, x * x])),
    ],
)
def test_zero_times_infinity_is_nan_in_both_modes(f):
    """Without a mask nothing says that the zero means "not used": some of these have a derivative, others have not."""
    with np.errstate(all="ignore"):
        for found in (fg.grad(f)(0.0), fg.jacfwd(f)(0.0), fg.jvp(f, (0.0,), (1.0,))[1], fg.jacrev(f)(0.0)):
            assert np.isnan(found)


@pytest.mark.parametrize(
    ("f", "loud"),
    [
        (lambda x: np.cbrt(x**3), fg.jacrev),
        (lambda x: np.log(x**2), fg.jacrev),
        (lambda x: np.exp(np.log(x)), fg.jacfwd),
        (lambda x: np.sqrt(x) ** 2, fg.jacfwd),
        (lambda x: 1 / (1 / x), fg.jacfwd),
    ],
)
def test_zero_times_infinity_is_nan_in_the_jacobian_of_one_mode(f, loud):
    """In that mode the infinity comes first, and no zero that it meets is taken for one of the unit vectors'."""
    quiet = fg.jacfwd if loud is fg.jacrev else fg.jacrev
    with np.errstate(all="ignore"):
        with pytest.warns(errors.ZeroTimesInfinityWarning, match=f"Compare with fg.{loud.__name__}") as caught:
            assert quiet(f)(np.zeros(2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert caught[0].filename == __file__
        jacobian = loud(f)(np.zeros(2)).numpy()
        assert np.isnan(fg.grad(lambda x: np.sum(f(x)))(np.zeros(2))).all()
    assert np.isnan(np.diag(jacobian)).all()
    assert jacobian[0, 1] == jacobian[1, 0] == 0.0


@pytest.mark.parametrize(
    ("f", "second"),
    [
        (lambda x: np.where(x > 0, x * np.log(x), 0.0), 0.0),
        (lambda x: np.maximum(np.sqrt(x), 1.0), 0.0),
        (lambda x: np.where(x > 0, np.sqrt(x), x**2), 2.0),
        (lambda x: np.sqrt(fnp.stack([1.0, x]))[0] + x**2, 2.0),
    ],
)
def test_what_is_masked_is_zero_in_all_orders_of_modes(f, second):
    with np.errstate(all="ignore"):
        for outer in (fg.jacfwd, fg.jacrev):
            for inner in (fg.jacfwd, fg.jacrev):
                assert outer(inner(f))(0.0) == second


@fg.custom_jvp
def positive_part(x):
    return np.maximum(x, 0.0)


positive_part.defjvp(lambda primals, tangents: (positive_part(primals[0]), np.where(primals[0] > 0, tangents[0], 0.0)))


def filled(x):
    whole = np.zeros_like(x, shape=(2,))
    whole[0] = x
    return whole


@pytest.mark.parametrize(
    ("inner", "at", "expected"),
    [
        (lambda x: np.where(x > 0, x, 0.0), 0.0, 0.0),
        (positive_part, 0.0, 0.0),
        (filled, 4.0, 0.25),
        (lambda x: np.concatenate([[0.0], np.reshape(x, 1)]), 4.0, 0.25),
        (lambda x: np.diag(np.stack([x, x])), 4.0, 0.5),
    ],
)
def test_what_does_not_move_has_no_slope_however_infinite(inner, at, expected):
    """Zeros that a mask, a constant or a rule has put into a tangent win over the slope of the root at 0."""

    def f(x):
        return np.sum(np.sqrt(inner(x)))

    x = fg.constant(at)
    with np.errstate(all="ignore"):
        with fg.ForwardAccumulator(x, np.array(1.0)) as accumulator:
            y = f(x)
        for found in (fg.jvp(f, (at,), (1.0,))[1], fg.jacfwd(f)(at), fg.grad(f)(at), accumulator.jvp(y)):
            assert found == expected


COMPANIONS = {
    "maximum": lambda x: np.maximum(x, 1.0),
    "where": lambda x: np.where(x > 1, x, 0.0),
    "clip": lambda x: np.clip(x, 0.5, 2.0),
    "index": lambda x: x[1:],
    "max": np.max,
    "joined": lambda x: np.concatenate([x, [0.0]]),
    "diagonal": np.diag,
    "rule": positive_part,
}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("companion", COMPANIONS.values(), ids=list(COMPANIONS))
def test_masks_elsewhere_in_a_function_decide_nothing(companion, is_first):
    """A zero wins where a mask has made it, and not since there is some mask before or behind."""

    def beside(f):
        return lambda x: np.sum(companion(x)) + f(x) if is_first else f(x) + np.sum(companion(x))

    def unknown(x):
        return np.sum(0.0 * np.sqrt(x))

    def masked(x):
        return np.sum(np.where(x > 0, np.sqrt(x), 0.0))

    x, ones = np.array([0.0, 1.0, 4.0]), np.ones(3)
    with np.errstate(all="ignore"):
        expected = fg.grad(lambda x: np.sum(companion(x)))(x) + np.array([0.0, 0.5, 0.25])
        assert np.isnan(fg.grad(beside(unknown))(x)[0])
        assert np.isnan(fg.jvp(beside(unknown), (x,), (ones,))[1])
        assert np.isnan(fg.taylor(beside(unknown), 1)(x, ones)[1])
        np.testing.assert_allclose(fg.grad(beside(masked))(x), expected)
        np.testing.assert_allclose(fg.jacfwd(beside(masked))(x), expected)


def test_a_value_that_is_used_beside_a_mask_is_used():
    def f(x):
        root = np.sqrt(x)
        return np.sum(np.where(x > 0, root, 0.0)) + np.sum(0.0 * root)

    x = np.array([0.0, 4.0])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(fg.grad(f)(x), [np.nan, 0.25])
        np.testing.assert_array_equal(fg.jvp(f, (x,), (np.array([1.0, 0.0]),))[1], np.nan)


def test_a_direction_of_zeros_moves_nothing():
    x = fg.constant([0.0, 4.0])
    with np.errstate(all="ignore"), fg.ForwardAccumulator(x, np.array([0.0, 1.0])) as accumulator:
        y = np.sqrt(x)
    assert accumulator.jvp(y).tolist() == [0.0, 0.25]


def test_the_square_that_a_length_knows_is_that_of_what_it_was():
    """Also where its argument, or the length itself, is written to before it is squared."""

    def overwritten(x):
        y = x * 1.0
        r = np.abs(y)
        y[0] = 7.0
        return np.sum(r**2)

    def written(x):
        r = np.abs(x)
        r[0] = 5.0
        return np.sum(r**2)

    x = np.array([0.0, -3.0])
    np.testing.assert_array_equal(fg.hessian(overwritten)(x), [[2.0, 0.0], [0.0, 2.0]])
    assert fg.value_and_grad(overwritten)(x)[0] == overwritten(x) == 9.0
    np.testing.assert_array_equal(fg.hessian(written)(x), [[0.0, 0.0], [0.0, 2.0]])
    assert fg.value_and_grad(written)(x)[0] == written(x) == 34.0


def test_what_is_overwritten_before_a_length_is_squared_is_not_in_the_square():
    """Neither a plain array beside a tensor, nor a variable that is assigned to."""

    def buffered(x):
        buffer = np.array([4.0, 4.0])
        r = np.hypot(x, buffer)
        buffer[:] = 0.0
        return np.sum(r**2)

    x = np.array([3.0, 3.0])
    value, gradient = fg.value_and_grad(buffered)(x)
    assert value == buffered(x) == 50.0
    np.testing.assert_allclose(gradient, [6.0, 6.0], rtol=1e-15)

    v = fg.Variable([3.0, -4.0])
    for measure, gradient in ((np.abs, [6.0, -8.0]), (np.linalg.norm, [6.0, -8.0]), (np.std, [3.5, -3.5])):

        def assigned(measure=measure):
            v.assign([3.0, -4.0])
            with fg.GradientTape() as tape:
                r = measure(v)
                v.assign([0.0, 1.0])
                square = np.sum(r**2)
            return square, tape.gradient(square, v)

        square, found = assigned()
        assert square == np.sum(measure(np.array([3.0, -4.0])) ** 2)
        np.testing.assert_allclose(found, gradient, rtol=1e-15)


def test_the_square_of_a_length_is_what_numpy_makes_it():
    x = np.random.default_rng(0).normal(size=(50, 3))
    for f in (
        lambda x: np.linalg.norm(x, axis=1) ** 2,
        lambda x: np.hypot(x[:, 0], x[:, 1]) ** 2,
        lambda x: np.abs(x[:, 0] + 1j * x[:, 1]) ** 2,
        lambda x: np.std(x, axis=0) ** 2,
    ):
        np.testing.assert_array_equal(fg.vjp(f, x)[0], f(x))


def test_an_honest_nan_stays():
    """sqrt(x)**2 has the derivative 1 at 0, which the chain rule cannot know: not a quiet 0."""
    with np.errstate(all="ignore"):
        assert np.isnan(fg.grad(lambda x: np.sqrt(x) ** 2)(0.0))
        assert np.isnan(fg.grad(lambda x: x / x)(0.0))


def test_ties_share_equally_along_an_axis():
    x = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 2.0]])
    expected = [[0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(fg.gradients_function(lambda x: fnp.max(x, axis=1))(x)[0], expected)


def test_the_variance_of_large_numbers_is_stable():
    x = 1e8 + np.array([0.0, 1.0, 2.0])
    np.testing.assert_allclose(fg.grad(np.var)(x), 2 / 3 * np.array([-1.0, 0.0, 1.0]), rtol=1e-7)
    np.testing.assert_allclose(fg.grad(np.std)(x), np.array([-1.0, 0.0, 1.0]) / 3 / np.std([0, 1, 2]), rtol=1e-7)


@pytest.mark.parametrize("r", [1e-200, 1e-160, 1.0, 1e160, 1e200])
def test_the_angle_of_small_and_large_numbers(r):
    for found in (
        fg.grad(np.arctan2, (0, 1))(r, r),
        [fg.jvp(np.arctan2, (r, r), t)[1] for t in ((1.0, 0.0), (0.0, 1.0))],
    ):
        np.testing.assert_allclose(found, [0.5 / r, -0.5 / r], rtol=1e-15)


@pytest.mark.parametrize("r", [1e-300, 1e-200, 1e-160, 1e160, 1e200, 1e300])
@pytest.mark.parametrize(
    ("f", "slope", "bend"),
    [
        (lambda u: np.log(1.0 / u), -1.0, 1.0),
        (lambda u: np.log(np.reciprocal(u)), -1.0, 1.0),
        (lambda u: np.log(u**-1), -1.0, 1.0),
        (lambda u: np.log(u**-0.9), -0.9, 0.9),
        (np.log, 1.0, -1.0),
    ],
)
def test_the_derivative_is_in_range_where_the_result_is(f, slope, bend, r):
    """The slope of 1 / u leaves the range at 1e-200 and 1e200; that of its logarithm does not, nor what is in units."""

    def of_multiple(v):
        return f(v * r)

    np.testing.assert_allclose(float(fg.grad(f)(r)), slope / r, rtol=1e-15)
    np.testing.assert_allclose(float(fg.jvp(of_multiple, (1.0,), (1.0,))[1]), slope, rtol=1e-15)
    for second in (fg.hessian(of_multiple), fg.grad(fg.grad(of_multiple)), fg.jacfwd(fg.jacfwd(of_multiple))):
        np.testing.assert_allclose(float(second(1.0)), bend, rtol=1e-14)


@pytest.mark.parametrize("f", [lambda x: 1.0 / x, np.reciprocal, lambda x: x**-1, lambda x: x**-2, lambda x: 3 / x**3])
def test_a_mask_wins_over_quotients(f):
    def masked(x):
        return np.sum(np.where(x > 0, f(x), 0.0))

    x = np.array([0.0, 2.0])
    with np.errstate(all="ignore"):
        alone = np.diag([0.0, float(fg.grad(fg.grad(f))(2.0))])
        np.testing.assert_array_equal(fg.grad(masked)(x), [0.0, fg.grad(f)(2.0)])
        for second in (fg.hessian(masked), fg.jacrev(fg.jacrev(masked)), fg.jacfwd(fg.jacfwd(masked))):
            np.testing.assert_allclose(second(x), alone, rtol=1e-14)


@pytest.mark.parametrize("x", [1e160, -1e200, 3.0, 0.0])
def test_arcsinh_of_large_numbers(x):
    for first in (fg.grad(np.arcsinh)(x), fg.jvp(np.arcsinh, (x,), (1.0,))[1]):
        np.testing.assert_allclose(float(first), 1 / np.hypot(x, 1.0), rtol=1e-15)


def test_a_sum_is_masked_only_if_all_its_terms_are():
    """In both modes: a slope of 0 is not a mask, and what it hides stays unknown."""

    def positive(x):
        return np.where(x > 0, x, 0.0)

    for f in (
        lambda x: np.sum(np.sqrt(positive(x) + 0.0 * x)),
        lambda x: np.sqrt(np.dot(positive(x), 0.0 * x + 1.0)),
    ):
        assert np.isnan(fg.grad(f)(np.zeros(2))).all()
        assert np.isnan(fg.jvp(f, (np.zeros(2),), (np.ones(2),))[1])
    assert fg.jvp(lambda x: np.sqrt(positive(x) + positive(x)), (0.0,), (1.0,))[1] == 0.0


def test_copysign_of_a_condition():
    """A boolean has the derivative 0, and NumPy's `sign` does not take it."""
    assert fg.grad(lambda x: np.sum(x * np.copysign(x > 0, x)))(np.array([0.5, -2.0])).tolist() == [1.0, 0.0]
