"""Random expressions of NumPy's operations in a vector of three numbers, as text and in numbers with infinitesimals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz import infinitesimals as inf
from fuzz.infinitesimals import Number, dot, number, total

M = [[0.4, -0.7, 0.2], [0.9, 0.1, -0.5], [-0.3, 0.6, 0.8]]
W = [0.5, -1.25, 0.75]
DOMINANT = [[2.0, 0.3, -0.4], [0.1, 2.5, 0.6], [-0.2, 0.4, 3.0]]

PREAMBLE = f"""import numpy as np
import fgrad as fg
import fgrad.scipy.optimize

M = np.array({M})
W = np.array({W})
DOMINANT = np.array({DOMINANT})
ZERO = fg.UnconnectedGradients.ZERO


def put(v, s):
    v = v.copy()
    v[1] = s
    v[:2] *= 0.5
    return v


def iterate(v, s):
    for _ in range(3):
        v = np.sin(v) + 0.3 * s
    return v


def halved(s):
    while s * s > 0.5:
        s = s * 0.6
    return s


def slope_of(tape, y, x):
    return tape.gradient(y, x, unconnected_gradients=ZERO)


def known(gradient):
    return np.zeros(3) if gradient is None else gradient
"""

Vector = Sequence[Number]


def solve(v: Vector, w: Vector) -> list[Number]:
    """Return the solution for a matrix near `DOMINANT`, by elimination."""
    rows = [[DOMINANT[i][j] + v[i] * w[j] * 0.1 for j in range(3)] + [number(W[i])] for i in range(3)]
    for i in range(3):
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(3):
            if k != i:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[3] for row in rows]


def determinant(v: Vector, w: Vector) -> Number:
    """Return the determinant of a matrix near `DOMINANT`."""
    (a, b, c), (d, e, f), (g, h, i) = ([DOMINANT[p][q] + v[p] * w[q] * 0.1 for q in range(3)] for p in range(3))
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


def put(v: Vector, s: Number) -> list[Number]:
    """Return what the program's function of this name does."""
    return [v[0] * 0.5, s * 0.5, v[2]]


def iterate(v: Vector, s: Number) -> list[Number]:
    """Return what the program's function of this name does."""
    for _ in range(3):
        v = [inf.sin(x) + s * 0.3 for x in v]
    return list(v)


def halved(s: Number) -> Number:
    """Return what the program's function of this name does."""
    while s * s > 0.5:
        s = s * 0.6
    return s


def variance(v: Vector) -> Number:
    """Return the mean square of what the mean leaves."""
    mean = total(v) / 3.0
    return total([(x - mean) * (x - mean) for x in v]) / 3.0


def cumulative(v: Vector) -> list[Number]:
    """Return the sums from the first number to each."""
    return [total(v[: k + 1]) for k in range(3)]


def each(f: Callable[..., Number]) -> Callable[..., list[Number]]:
    """Return a function of vectors that works element by element."""
    return lambda *vectors: [f(*xs) for xs in zip(*vectors, strict=True)]


def larger(x: Number, y: Number) -> Number:
    """Return the larger one of two numbers."""
    return max(y, x)


@dataclass(frozen=True)
class Operation:
    """An operation.

    Attributes:
        arguments: `v` for a vector, `s` for a number, one letter for each.
        source: as text, with the arguments in braces.
        judge: in numbers with infinitesimals.
    """

    arguments: str
    source: str
    judge: Callable[..., Any]


VECTORS = [
    Operation("v", "np.sin({0})", each(inf.sin)),
    Operation("v", "np.cos({0})", each(inf.cos)),
    Operation("v", "np.tanh({0})", each(inf.tanh)),
    Operation("v", "np.arctan({0})", each(inf.arctan)),
    Operation("v", "np.exp(-0.3 * {0} ** 2)", each(lambda x: inf.exp(x * x * -0.3))),
    Operation("v", "np.log1p({0} ** 2)", each(lambda x: inf.log(x * x + 1.0))),
    Operation("v", "np.sqrt(1.0 + {0} * {0})", each(lambda x: inf.sqrt(x * x + 1.0))),
    Operation("v", "1.0 / (1.5 + {0} ** 2)", each(lambda x: 1.0 / (x * x + 1.5))),
    Operation("v", "np.power(1.5 + np.sin({0}), 1.7)", each(lambda x: inf.power(inf.sin(x) + 1.5, 1.7))),
    Operation("vv", "{0} * {1}", each(lambda x, y: x * y)),
    Operation("vv", "({0} + {1})", each(lambda x, y: x + y)),
    Operation("vv", "({0} - 0.5 * {1})", each(lambda x, y: x - y * 0.5)),
    Operation("vv", "{0} / (2.0 + {1} ** 2)", each(lambda x, y: x / (y * y + 2.0))),
    Operation(
        "vv", "np.hypot({0}, 1.0 + {1} ** 2)", each(lambda x, y: inf.sqrt(x * x + (1.0 + y * y) * (1.0 + y * y)))
    ),
    Operation("vv", "np.maximum({0}, {1})", each(larger)),
    Operation("vv", "np.where({0} > {1}, {0}, np.sin({1}))", each(lambda x, y: x if x > y else inf.sin(y))),
    Operation("v", "np.sort({0})", lambda v: sorted(v, key=lambda x: x.real)),
    Operation("v", "(M @ {0})", lambda v: [dot(v, row) for row in M]),
    Operation("v", "({0} @ M)", lambda v: [dot(v, column) for column in zip(*M, strict=True)]),
    Operation("v", "{0}[::-1]", lambda v: list(v[::-1])),
    Operation("v", "np.roll({0}, 1)", lambda v: [v[2], v[0], v[1]]),
    Operation("v", "{0}[[2, 0, 0]]", lambda v: [v[2], v[0], v[0]]),
    Operation("v", "np.cumsum({0})", cumulative),
    Operation("vv", "np.concatenate([{0}[1:], {1}[:1]])", lambda v, w: [v[1], v[2], w[0]]),
    Operation("sss", "np.stack([{0}, {1}, {2}])", lambda *numbers: list(numbers)),
    Operation("ss", "np.array([{0}, {1}, 0.5])", lambda s, t: [s, t, number(0.5)]),
    Operation("vs", "put({0}, {1})", put),
    Operation("vs", "iterate({0}, {1})", iterate),
    Operation("vs", "{0} * {1}", lambda v, s: [x * s for x in v]),
    Operation("vv", "np.linalg.solve(DOMINANT + 0.1 * np.outer({0}, {1}), W)", solve),
    Operation(
        "vv", "np.sum(np.outer({0}, np.sin({1})), axis=0)", lambda v, w: [total(v) * y for y in each(inf.sin)(w)]
    ),
    Operation(
        "vv",
        "np.cross({0}, {1})",
        lambda v, w: [v[(i + 1) % 3] * w[(i + 2) % 3] - v[(i + 2) % 3] * w[(i + 1) % 3] for i in range(3)],
    ),
]

NUMBERS = [
    Operation("v", "np.sum({0})", total),
    Operation("v", "np.mean({0})", lambda v: total(v) / 3.0),
    Operation("vv", "np.dot({0}, {1})", dot),
    Operation("v", "{0}[1]", lambda v: v[1]),
    Operation("v", "{0}.max()", lambda v: larger(larger(v[0], v[1]), v[2])),
    Operation("v", "np.prod({0})", lambda v: v[0] * v[1] * v[2]),
    Operation("v", "np.var({0})", variance),
    Operation("v", "np.log(np.sum(np.exp({0})))", lambda v: inf.log(total([inf.exp(x) for x in v]))),
    Operation("v", "np.linalg.norm(np.append({0}, 1.0))", lambda v: inf.sqrt(dot(v, v) + 1.0)),
    Operation("vv", "np.einsum('i,ij,j', {0}, M, {1})", lambda v, w: dot(v, [dot(w, row) for row in M])),
    Operation("vv", "np.linalg.det(DOMINANT + 0.1 * np.outer({0}, {1}))", determinant),
    Operation("s", "np.sin({0})", inf.sin),
    Operation("s", "np.tanh({0}) ** 3", lambda s: inf.power(inf.tanh(s), 3)),
    Operation("s", "halved({0})", halved),
    Operation("s", "abs({0})", lambda s: s if s > 0.0 else -s),
    Operation("ss", "{0} * {1}", lambda s, t: s * t),
    Operation("ss", "({0} - 0.5 * {1})", lambda s, t: s - t * 0.5),
    Operation("ss", "{0} / (1.0 + {1} ** 2)", lambda s, t: s / (t * t + 1.0)),
]

Judge = Callable[[Vector], Any]


def expression(rng: np.random.Generator) -> tuple[str, Callable[[Vector], Number]]:
    """Return a random expression for one number, as text, and as its judge."""
    return made(rng, "s", int(rng.integers(2, 6)))


def made(rng: np.random.Generator, kind: str, depth: int) -> tuple[str, Judge]:
    """Return an expression for a vector or a number, as deep as is told."""
    if depth <= 0 and kind == "v":
        return "x", lambda x: x
    if depth <= 0:
        return "np.dot(x, W)", lambda x: dot(x, W)
    table = VECTORS if kind == "v" else NUMBERS
    operation = table[rng.integers(len(table))]
    parts = [made(rng, letter, depth - int(rng.integers(1, 3))) for letter in operation.arguments]
    judges = [judge for _, judge in parts]
    source = operation.source.format(*(text for text, _ in parts))
    return f"({source})", lambda x: operation.judge(*(judge(x) for judge in judges))
