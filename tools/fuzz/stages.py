"""The stages of a stack: each applies a transform to a function of three numbers and makes one number of it.

In the text `{f}` is the function, `{g}` the new one, `{v}` and `{u}` are constant vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fuzz import infinitesimals as inf
from fuzz.expressions import W
from fuzz.infinitesimals import Function, Number, derivative, dot, number, total

Vector = Sequence[Any]
Formula = Callable[[Function, Sequence[Number], Vector, Vector], Number]


@dataclass(frozen=True)
class Stage:
    """A stage.

    Attributes:
        source: as text.
        formula: the new function's value, from the function, the point and the constant vectors.
        order: of the derivatives that it takes.
        work: how often it runs the function, about.
    """

    source: str
    formula: Formula
    order: int = 1
    work: int = 1

    def judge(self, f: Function, v: Vector, u: Vector) -> Function:
        """Return the new function, in numbers with infinitesimals."""
        return lambda x: self.formula(f, x, v, u)


def first(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return the derivative along `v`."""
    return derivative(f, x, v)


def second(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return the derivative along `v` and `u`."""
    return derivative(lambda y: derivative(f, y, v), x, u)


def coefficient(f: Function, x: Sequence[Number], curve: Sequence[Vector], k: int) -> Number:
    """Return a Taylor coefficient along a curve through `x`, by derivatives of derivatives."""

    def along(t: Sequence[Number]) -> Number:
        moved = [number(0.0) for _ in x]
        for c in reversed(curve):
            moved = [(a + m) * t[0] for a, m in zip(map(number, c), moved, strict=True)]
        return f([a + m for a, m in zip(x, moved, strict=True)])

    for n in range(1, k + 1):
        along = _slope(along, 1 / n)
    return along([number(0.0)])


def _slope(along: Function, factor: float) -> Function:
    return lambda t: derivative(along, t, [1.0]) * factor


def of_curve(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return coefficients along a curve, weighed."""
    curve = [v, u, [inf.sin(y) for y in x]]
    return coefficient(f, x, curve, 3) - coefficient(f, x, curve, 1) * 0.5


def laplacian(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return the sum of second derivatives."""
    units = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    return total([second(f, x, unit, unit) for unit in units])


def same(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return the function's own value."""
    return f(x)


def scaled(x: Sequence[Number], factor: float) -> list[Number]:
    """Return a vector times a number."""
    return [y * factor for y in x]


def product(f: Function) -> Function:
    """Return the function of which the Jacobian's second row is."""
    return lambda y: inf.sin(f(scaled(y, 0.5)))


def of_pair(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return the Jacobian of two results, times `v`, times (1, -0.5)."""
    return derivative(f, x, v) - derivative(product(f), x, v) * 0.5


def gauss_newton(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return the product of a Gauss-Newton matrix with `v`, times `u`."""
    return derivative(f, x, v) * derivative(f, x, u) + derivative(product(f), x, v) * derivative(product(f), x, u)


def rows(x: Sequence[Number]) -> list[list[Number]]:
    """Return the examples of a batch."""
    return [list(x), scaled(x, 0.5), [y + 0.03 for y in x]]


def batched(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return the values of a batch, weighed."""
    return dot([f(row) for row in rows(x)], W)


def batched_slopes(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return the sum of the derivatives of a batch."""
    return total([derivative(f, row, v) for row in rows(x)])


def around(f: Function, x: Sequence[Number]) -> Function:
    """Return a function that uses a point besides."""
    return lambda y: f(y) * f(x) + f([a * b for a, b in zip(x, y, strict=True)])


def closed_over(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return the derivative of a function that uses the point itself besides."""
    return derivative(around(f, x), x, v)


def of_root(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return the root by Newton's method, each step of which doubles how many parts are right."""
    aim = inf.tanh(f(x))
    root = number(aim.real * 0.7)
    for _ in range(12):
        bent = inf.tanh(root)
        root = root - (root + bent * 0.5 - aim) / (1.5 - bent * bent * 0.5)
    return root


def by_variable(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return the derivative by factors of the point."""

    def of_weights(w: Sequence[Number]) -> Number:
        return f([a * b for a, b in zip(w, x, strict=True)])

    return derivative(of_weights, [number(w) for w in W], v)


def stopped(f: Function, x: Sequence[Number], v: Vector, u: Vector) -> Number:
    """Return a product of which one factor has no derivative."""
    return f([number(y.real) for y in x]) * f(x)


def inside(first: str, *body: str) -> str:
    """Return a stage as text: a function whose body is told by lines."""
    return "\n".join([f"def {{g}}(x):\n    {first}", *(f"    {line}" for line in body), ""])


PAIR = "lambda y: np.stack([{f}(y), np.sin({f}(0.5 * y))])"
ROWS = "np.stack([x, 0.5 * x, x + 0.03])"
CUSTOM_JVP = """@fg.custom_jvp
def {g}(x):
    return {f}(x)

{g}.defjvp(lambda primals, tangents: fg.jvp({f}, primals, tangents))
"""
CUSTOM_VJP = """@fg.custom_vjp
def {g}(x):
    return {f}(x)

{g}.defvjp(lambda x: ({f}(x), x), lambda x, ct: (ct * fg.grad({f})(x),))
"""
CUSTOM_PULLBACK = """@fg.custom_vjp
def {g}(x):
    return {f}(x)

{g}.defvjp(lambda x: fg.vjp({f}, x), lambda pullback, ct: pullback(ct))
"""
CUSTOM_GRADIENT = """@fg.custom_gradient
def {g}(x):
    return {f}(x), lambda dy: dy * fg.grad({f})(x)
"""

STAGES = [
    Stage(inside("return np.dot(fg.grad({f})(x), {v})"), first),
    Stage(
        inside("value, gradient = fg.value_and_grad({f})(x)", "return value * np.dot(gradient, {v})"),
        lambda f, x, v, u: f(x) * derivative(f, x, v),
    ),
    Stage(inside("return fg.jvp({f}, (x,), ({v},))[1]"), first),
    Stage(
        inside("return fg.jvp({f}, (x,), (np.sin(x),))[1]"),
        lambda f, x, v, u: derivative(f, x, [inf.sin(y) for y in x]),
    ),
    Stage(
        inside("value, pullback = fg.vjp({f}, x)", "return np.dot(pullback(np.sin(value))[0], {v})"),
        lambda f, x, v, u: inf.sin(f(x)) * derivative(f, x, v),
    ),
    Stage(
        inside("_, push = fg.linearize({f}, x)", "return push({v}) + 0.5 * push(x)"),
        lambda f, x, v, u: derivative(f, x, v) + derivative(f, x, x) * 0.5,
    ),
    Stage(
        inside(
            "value, pullback = fg.vjp({f}, x)",
            "_, transposed = fg.vjp(pullback, np.zeros_like(value))",
            "return transposed(({v},))[0]",
        ),
        first,
    ),
    Stage(inside("value, vjp = fg.make_vjp({f})(x)", "return np.dot(known(vjp(1.0)[0]), {v})"), first),
    Stage(inside("return np.dot(known(fg.gradients_function({f})(x)[0]), {v})"), first),
    Stage(inside(f"return np.dot(fg.jacfwd({PAIR})(x) @ {{v}}, [1.0, -0.5])"), of_pair, work=2),
    Stage(inside(f"return np.dot(fg.jacrev({PAIR})(x) @ {{v}}, [1.0, -0.5])"), of_pair, work=2),
    Stage(inside("return {v} @ fg.hessian({f})(x) @ {u}"), second, order=2, work=2),
    Stage(inside("return np.dot(fg.hvp({f})(x, {v}), {u})"), second, order=2),
    Stage(inside(f"return np.dot(fg.gauss_newton_vp({PAIR})(x, {{v}}), {{u}})"), gauss_newton, work=2),
    Stage(inside(f"return np.dot(fg.vmap({{f}})({ROWS}), W)"), batched, order=0, work=2),
    Stage(inside(f"return np.sum(fg.vmap(fg.grad({{f}}))({ROWS}) @ {{v}})"), batched_slopes, work=2),
    Stage(
        inside(f"return np.sum(fg.vmap(lambda y: fg.jvp({{f}}, (y,), ({{v}},))[1])({ROWS}))"), batched_slopes, work=2
    ),
    Stage(inside("return fg.checkpoint({f})(x)"), same, order=0),
    Stage(inside("return np.dot(fg.grad(fg.checkpoint({f}))(x), {v})"), first),
    Stage(CUSTOM_JVP, same, order=1),
    Stage(CUSTOM_VJP, same, order=1),
    Stage(CUSTOM_PULLBACK, same, order=1),
    Stage(CUSTOM_GRADIENT, same, order=1),
    Stage(
        inside(
            "y = fg.convert_to_tensor(x)",
            "with fg.GradientTape() as tape:",
            "    tape.watch(y)",
            "    z = {f}(y)",
            "return np.dot(slope_of(tape, z, y), {v})",
        ),
        first,
    ),
    Stage(
        inside(
            "y = fg.convert_to_tensor(x)",
            "with fg.GradientTape(persistent=True) as tape:",
            "    tape.watch(y)",
            "    z = {f}(y)",
            "    slope = np.dot(slope_of(tape, z, y), {v})",
            "return np.dot(slope_of(tape, slope, y), {u}) + np.dot(slope_of(tape, z, y), {u})",
        ),
        lambda f, x, v, u: second(f, x, v, u) + derivative(f, x, u),
        order=2,
    ),
    Stage(
        inside(
            "y = fg.convert_to_tensor(x)",
            "with fg.GradientTape() as outer:",
            "    outer.watch(y)",
            "    with fg.GradientTape() as inner:",
            "        inner.watch(y)",
            "        z = {f}(y)",
            "    slope = np.dot(slope_of(inner, z, y), {v}) * z",
            "return np.dot(slope_of(outer, slope, y), {u})",
        ),
        lambda f, x, v, u: derivative(lambda y: derivative(f, y, v) * f(y), x, u),
        order=2,
    ),
    Stage(
        inside(
            "y = fg.convert_to_tensor(x)",
            "with fg.GradientTape(persistent=True) as tape:",
            "    tape.watch(y)",
            "    pair = np.stack([{f}(y), np.sin({f}(0.5 * y))])",
            "return np.dot(tape.jacobian(pair, y, unconnected_gradients=ZERO) @ {v}, [1.0, -0.5])",
        ),
        of_pair,
        work=2,
    ),
    Stage(
        inside(
            "y = fg.convert_to_tensor(x)",
            "with fg.ForwardAccumulator(y, {v}) as accumulator:",
            "    z = {f}(y)",
            "return accumulator.jvp(z, unconnected_gradients=ZERO)",
        ),
        first,
    ),
    Stage(
        inside(
            "w = fg.Variable(W)",
            "pairs = fg.implicit_gradients(lambda: {f}(w * x))()",
            "(gradient,) = [gradient for gradient, variable in pairs if variable is w]",
            "return np.dot(known(gradient), {v})",
        ),
        by_variable,
    ),
    Stage(
        inside(
            "w = fg.Variable(W)",
            "with fg.GradientTape() as tape:",
            "    z = {f}(w * x)",
            "return np.dot(slope_of(tape, z, w), {v})",
        ),
        by_variable,
    ),
    Stage(inside("return np.dot(fg.grad(lambda y: {f}(y) * {f}(x) + {f}(x * y))(x), {v})"), closed_over, work=3),
    Stage(inside("return fg.jvp(lambda y: {f}(y) * {f}(x) + {f}(x * y), (x,), ({v},))[1]"), closed_over, work=3),
    Stage(inside("return fg.taylor({f}, 2)(x, {v})[2]"), lambda f, x, v, u: coefficient(f, x, [v], 2), order=2),
    Stage(inside("return np.dot(fg.taylor({f}, 3)(x, {v}, {u}, np.sin(x)), [0.0, -0.5, 0.0, 1.0])"), of_curve, order=3),
    Stage(
        inside("return fg.derivatives({f}, 3)(x, {v})[3]"), lambda f, x, v, u: coefficient(f, x, [v], 3) * 6, order=3
    ),
    Stage(inside("return fg.laplacian({f})(x)"), laplacian, order=2, work=3),
    Stage(
        inside("return fg.taylor(lambda y: {f}(y) * {f}(x) + {f}(x * y), 2)(x, {v})[2]"),
        lambda f, x, v, u: coefficient(around(f, x), x, [v], 2),
        order=2,
        work=3,
    ),
    Stage(
        inside("return fg.laplacian(lambda y: {f}(y) * {f}(x) + {f}(x * y))(x)"),
        lambda f, x, v, u: laplacian(around(f, x), x, v, u),
        order=2,
        work=6,
    ),
    Stage(
        inside("return np.sin({f}(x)) * x[0] + 0.5 * {f}(0.7 * x)"),
        lambda f, x, v, u: inf.sin(f(x)) * x[0] + f(scaled(x, 0.7)) * 0.5,
        order=0,
        work=2,
    ),
    Stage(
        inside(
            "aim = np.tanh({f}(x))",
            "return fgrad.scipy.optimize.brentq(lambda t: t + 0.5 * np.tanh(t) - aim, -3.0, 3.0, xtol=1e-15)",
        ),
        of_root,
        order=0,
        work=2,
    ),
    Stage(inside("return {f}(fg.stop_gradient(x)) * {f}(x)"), stopped, order=0, work=2),
    Stage(inside("return fg.trace({f})({v})(x)"), same, order=0),
    Stage(
        inside(
            "def step(y, total):",
            "    return total + np.dot(fg.grad({f})(y), {v})",
            "total = 0.0",
            "for y in (x, 0.5 * x, x + 0.03):",
            "    total = step(y, total)",
            "return total",
        ),
        batched_slopes,
        work=3,
    ),
]
