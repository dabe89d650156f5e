"""Fractions and arrays of Python's numbers beside tensors: as their floating-point numbers, on both sides."""

import operator
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from helpers import naming

import fgrad as fg

X = np.array([3.0, 4.0])
HALF = Fraction(1, 2)

OTHERS = {
    "a fraction": HALF,
    "integers": np.array([1, 2], dtype=object),
    "a fraction and a number": np.array([HALF, 1.5], dtype=object),
    "a number": np.array(2, dtype=object),
}

OPERATORS = {
    each.__name__: each
    for each in (
        operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
        operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge,
    )
}  # fmt: skip


def written(x, other):
    y = x * 1.0
    y[...] = other
    return y * x


def added(x, other):
    y = x * 1.0
    y += other
    return y


FUNCTIONS = {
    **OPERATORS,
    "written": written,
    "added": added,
    **{
        each.__name__: each for each in (np.maximum, np.arctan2, np.hypot, np.fmod, np.kron, np.outer, np.dot, np.inner)
    },
    "where": lambda x, other: np.where(x > 3, x, other),
    "select": lambda x, other: np.select([x > 3], [x], np.ravel(other)[0]),
    "clip": lambda x, other: np.clip(x, other, 3.5),
    "concatenate": lambda x, other: np.concatenate([x, np.atleast_1d(other)]),
    "stack": lambda x, other: np.stack([x, np.broadcast_to(other, 2)]),
    "append": lambda x, other: np.append(x, other),
    "insert": lambda x, other: np.insert(x, 0, other),
    "matmul": lambda x, other: np.matmul(x, np.broadcast_to(other, 2)),
    "einsum": lambda x, other: np.einsum("i,i->", x, np.broadcast_to(other, 2)),
    "tensordot": lambda x, other: np.tensordot(x, other, 0),
    "convolve": lambda x, other: np.convolve(x, np.atleast_1d(other)),
    "polyval": lambda x, other: np.polyval(np.atleast_1d(other), x),
    "average": lambda x, other: np.average(x, weights=np.broadcast_to(other, 2)),
    "linspace": lambda x, other: np.linspace(x, other, 3),
    "trapezoid": lambda x, other: np.trapezoid(x, np.broadcast_to(other, 2)),
    "interp": lambda x, other: np.interp(x, np.array([1.0, 5.0]), np.broadcast_to(other, 2) * np.array([1, 2])),
}


@pytest.mark.filterwarnings("ignore:every gradient of")
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_of_python(name, other):
    f, plain = FUNCTIONS[name], np.asarray(other).astype(float)
    sides = {"right": f, "left": lambda x, other: f(other, x)} if name in OPERATORS else {"right": f}
    for side, g in sides.items():
        with naming(side), np.errstate(all="ignore"):
            for transform in (fg.jacrev, fg.jacfwd, fg.value_and_grad):
                found = transform(lambda x, g=g: np.sum(g(x, other) * 1.0))(X)
                expected = transform(lambda x, g=g: np.sum(g(x, plain) * 1.0))(X)
                np.testing.assert_array_equal(np.hstack(found), np.hstack(expected))
            batch = fg.vmap(lambda x, g=g: g(x, other))(np.stack([X, X]))
            np.testing.assert_array_equal(batch.numpy(), fg.vmap(lambda x, g=g: g(x, plain))(np.stack([X, X])).numpy())


@pytest.mark.parametrize("f", [operator.add, operator.mul, operator.truediv])
def test_decimals_are_refused_as_by_python(f):
    for g in (lambda x: f(x, Decimal("1.5")), lambda x: f(Decimal("1.5"), x)):
        for derivative in (fg.grad, lambda g: g):
            with pytest.raises(TypeError, match="unsupported operand"):
                derivative(g)(fg.constant(2.0))
