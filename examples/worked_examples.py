"""The small examples whose answers can be worked out by hand, with the numbers that fgrad gives.

    python examples/worked_examples.py

`main()` returns the numbers by name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad as fg


def weighted_sum() -> dict[str, Any]:
    """Differentiate f = w1*x1 + w2*x2 with respect to its arguments and to its variables."""
    w1, w2 = fg.Variable(2.0, name="w1"), fg.Variable(3.0, name="w2")

    def f(x1: Any, x2: Any) -> Any:
        return w1 * x1 + w2 * x2

    def g(w1: Any, w2: Any, x1: Any, x2: Any) -> Any:
        return w1 * x1 + w2 * x2

    by_argument = fg.gradients_function(f)(5.0, 7.0)
    by_name = fg.gradients_function(g, params=["w1", "w2"])(2.0, 3.0, 5.0, 7.0)
    by_variable = fg.implicit_gradients(f)(5.0, 7.0)
    value, pairs = fg.implicit_value_and_gradients(f)(5.0, 7.0)
    w1.trainable = False
    only_w2 = fg.implicit_gradients(f)(5.0, 7.0)
    return {
        "by argument": by_argument,
        "by name": by_name,
        "by variable": [(gradient, variable.name) for gradient, variable in by_variable],
        "the variables themselves": by_variable[0][1] is w1 and by_variable[1][1] is w2,
        "value": value,
        "value's gradients": [gradient for gradient, _ in pairs],
        "w1 not trainable": [(gradient, variable.name) for gradient, variable in only_w2],
    }


def arguments() -> dict[str, Any]:
    """Differentiate by one argument or several, with weights, containers and unconnected arguments."""
    x = np.array([1.0, 2.0, 3.0])

    return {
        "two arguments": fg.gradients_function(lambda x, y: x**3 * y - x * y**2)(2.0, 3.0),
        "a vector result is summed": fg.gradients_function(np.square)(x)[0],
        "a vector result with weights": fg.gradients_function(np.square)(x, dy=np.array([1.0, 10.0, 100.0]))[0],
        "one object as two arguments": fg.gradients_function(lambda a, b: 2 * a + 3 * b)(x[0], x[0]),
        "an unconnected argument": fg.gradients_function(lambda x, y: x * x)(3.0, 4.0),
        "an unconnected argument of grad": fg.grad(lambda x, y: x * x, argnums=(0, 1))(3.0, 4.0),
        "an integer": quietly(lambda: fg.gradients_function(lambda x, n: x * n)(2.0, 3)),
        "an integer in grad": error_of(lambda: fg.grad(lambda x: x * x)(3)),
        "a vector result in grad": error_of(lambda: fg.grad(np.square)(x)),
        "no trainable variable": error_of(lambda: fg.implicit_gradients(lambda x: x * x)(3.0)),
        "an unknown name": error_of(lambda: fg.gradients_function(lambda x: x * x, params=["y"])(3.0)),
        "a container": fg.grad(lambda p: p["w"] * p["b"] ** 2)({"w": 2.0, "b": 3.0}),
        "float32 stays": str(fg.grad(lambda x: np.sum(np.sin(x)))(x.astype(np.float32)).dtype),
    }


def higher_orders() -> dict[str, Any]:
    """Derive derivatives, and see that an inner derivative does not mix with an outer one."""
    return {
        "x^3 at 3, first": fg.grad(lambda x: x**3)(3.0),
        "x^3 at 3, second": fg.grad(fg.grad(lambda x: x**3))(3.0),
        "x^3 at 3, third": fg.grad(fg.grad(fg.grad(lambda x: x**3)))(3.0),
        "x * d(x + y)/dy": fg.grad(lambda x: x * fg.grad(lambda y: x + y)(1.0))(1.0),
        "forward mode": fg.jvp(lambda x, y: x * y, (2.0, 3.0), (1.0, 10.0)),
        "forward over reverse": fg.jvp(fg.grad(lambda x: x**4), (2.0,), (1.0,)),
    }


def tapes() -> dict[str, Any]:
    """Record with tapes: once, again and again, inside each other."""
    x = fg.constant(3.0)
    with fg.GradientTape() as once:
        once.watch(x)
        square = x * x
    first = once.gradient(square, x)

    with fg.GradientTape(persistent=True) as again:
        again.watch(x)
        y = x * x
        z = y * y

    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            cube = x**3
        inside = inner.gradient(cube, x)
    second = outer.gradient(inside, x)

    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            cube = x**3
    outside = inner.gradient(cube, x)

    with fg.GradientTape(persistent=True) as own:
        own.watch(x)
        dy = own.gradient(x**3, x)

    def enter_twice() -> None:
        with fg.GradientTape() as tape, tape:
            pass

    return {
        "x^2 at 3": first,
        "asked a second time": error_of(lambda: once.gradient(square, x)),
        "persistent, dz/dx": again.gradient(z, x),
        "persistent, dz/dy of an intermediate": again.gradient(z, y),
        "nested, second order": second,
        "inner gradient outside of the block": quietly(lambda: outer.gradient(outside, x)),
        "own gradient recorded": own.gradient(dy, x),
        "entered while open": error_of(enter_twice),
    }


def stops() -> dict[str, Any]:
    """Cut the path of a derivative: `stop_gradients`, `stop_gradient`, `stop_recording`."""
    a = fg.constant(1.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(a)
        b = 2 * a
        total = a + b

    x = fg.constant(3.0)
    with fg.GradientTape() as paused:
        paused.watch(x)
        with paused.stop_recording():
            scale = x * x
        y = scale * x

    return {
        "gradients(a + b, [a, b])": fg.gradients(total, [a, b]),
        "the same, stopped at both": fg.gradients(total, [a, b], stop_gradients=[a, b]),
        "x * stop_gradient(x)": fg.grad(lambda x: x * fg.stop_gradient(x))(3.0),
        "stop_recording": paused.gradient(y, x),
        "float(x) * 2": error_of(lambda: fg.grad(lambda x: float(x) * 2)(3.0)),
        "np.array([x, x])": fg.grad(lambda x: np.sum(np.array([x, x])))(3.0),
        "np.array([x, x], float)": error_of(lambda: fg.grad(lambda x: np.sum(np.array([x, x], float)))(3.0)),
    }


def steps() -> dict[str, Any]:
    """Take one optimizer step in four ways, and two that cannot be taken."""
    variables = [fg.Variable(3.0, name=f"w{i}") for i in range(3)]
    optimizer = fg.optimizers.GradientDescent(0.1)
    optimizer.minimize(lambda: variables[0] ** 2)
    optimizer.apply_gradients(optimizer.compute_gradients(lambda: variables[1] ** 2))
    pairs = optimizer.compute_gradients(lambda: variables[2] ** 2)
    optimizer.apply_gradients([(fg.clip_by_norm(gradient, 1.0), variable) for gradient, variable in pairs])
    params, _ = optimizer.update({"w": 6.0}, optimizer.init({"w": 3.0}), {"w": 3.0})
    return {
        "minimize": variables[0].value(),
        "compute_gradients, apply_gradients": variables[1].value(),
        "with the gradient clipped to norm 1": variables[2].value(),
        "as a pure function": params,
        "a loss without the variable": error_of(
            lambda: optimizer.minimize(lambda: fg.constant(1.0), None, variables[0])
        ),
        "an empty list": error_of(lambda: optimizer.apply_gradients([])),
    }


def complex_numbers() -> dict[str, Any]:
    """Differentiate real functions of complex numbers: the gradient points to steepest ascent."""
    return {
        "|z|^2 at 3+4j": fg.grad(lambda z: np.abs(z) ** 2)(3 + 4j),
        "real(z)^2 at 3+4j": fg.grad(lambda z: np.real(z) ** 2)(3 + 4j),
        "imag(z)^2 at 3+4j": fg.grad(lambda z: np.imag(z) ** 2)(3 + 4j),
        "|z| at 0": fg.grad(np.abs)(0j),
    }


def kinks() -> dict[str, Any]:
    """Differentiate where there is no derivative, or where a formula would divide by zero."""
    return {
        "abs at 0": fg.grad(np.abs)(0.0),
        "sqrt at 0": fg.grad(np.sqrt)(0.0),
        "where(x > 0, sqrt(x), 0) at 0": fg.grad(lambda x: np.where(x > 0, np.sqrt(x), 0))(0.0),
        "x**0 at 0": fg.grad(lambda x: x**0)(0.0),
        "max of [1, 3, 3]": fg.grad(np.max)(np.array([1.0, 3.0, 3.0])),
        "maximum(x, 1) at 1": fg.grad(lambda x: np.maximum(x, 1))(1.0),
        "clip(x, 0, 1) at 1": fg.grad(lambda x: np.clip(x, 0, 1))(1.0),
        "clip(x, 0, 1) at 2": fg.grad(lambda x: np.clip(x, 0, 1))(2.0),
        "arctan2(x, 0) at 0": fg.grad(lambda x: np.arctan2(x, 0.0))(0.0),
        "hypot(x, 0) at 0": fg.grad(lambda x: np.hypot(x, 0.0))(0.0),
        "std of [1, 1, 1]": fg.grad(np.std)(np.ones(3)),
        "prod of [2, 0, 3]": fg.grad(np.prod)(np.array([2.0, 0.0, 3.0])),
        "sum of cumprod of [0, 2, 3]": fg.grad(lambda x: np.sum(np.cumprod(x)))(np.array([0.0, 2.0, 3.0])),
        "floor at 1.5": quietly(lambda: fg.grad(np.floor)(1.5)),
    }


def assignment() -> dict[str, Any]:
    """Assign to an element: the handle changes, and no other tensor or array does."""
    before = np.array([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        y = x
        y[0] = y[1] * y[2]
        return np.sum(y)

    return {"x[0] = x[1] * x[2], summed": fg.grad(f)(before), "the array afterwards": before}


def quietly(function: Callable[[], Any]) -> Any:
    """Return what a function returns, without the warning that a gradient is None or zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fg.errors.NoGradientWarning)
        return function()


def error_of(function: Callable[[], Any]) -> str:
    """Return the names of the exception that a function raises, fgrad's and the built-in one."""
    try:
        function()
    except fg.errors.FgradError as error:
        builtin = next(each for each in type(error).__mro__ if each.__module__ == "builtins" and each is not Exception)
        return f"{type(error).__name__} ({builtin.__name__})"
    raise AssertionError("nothing was raised")


def plain(x: Any) -> Any:
    """Return tensors as Python numbers, in the same containers."""
    return fg.tree_map(lambda leaf: leaf.tolist() if isinstance(leaf, (fg.Tensor, np.ndarray)) else leaf, x)


GROUPS = (weighted_sum, arguments, higher_orders, tapes, stops, steps, complex_numbers, kinks, assignment)


def main() -> dict[str, Any]:
    """Print every example, and return the numbers by name."""
    results: dict[str, Any] = {}
    for group in GROUPS:
        title = (group.__doc__ or "").splitlines()[0]
        print(title)
        for name, value in group().items():
            results[name] = plain(value)
            print(f"    {name:40} {results[name]}")
    return results


if __name__ == "__main__":
    main()
