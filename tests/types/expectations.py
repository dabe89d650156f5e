"""What a type checker knows of fgrad; `make lint` runs mypy over this file."""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np

import fgrad as fg
from fgrad.scipy import linalg, ndimage, special
from fgrad.scipy.spatial import distance
from fgrad.typing import Array, ArrayLike, Axes, DTypeLike, Operand, Shape


def area(width: float, height: float = 1.0, *, scale: float = 1.0) -> float:
    return width * height * scale


@fg.grad
def bare(x: float) -> float:
    return x * x


@fg.gradients_function(params=["width"])
def with_arguments(width: float, height: float) -> float:
    return width * height


@fg.custom_vjp
def doubled(x: float) -> float:
    return 2 * x


@fg.custom_jvp
def tripled(x: float) -> float:
    return 3 * x


def energy(position: Array, mass: Operand = 1.0) -> Array:
    """Return half the square of a length: what calculates takes arrays and tensors alike."""
    total: Array = mass * (position * position).sum() / 2 - np.sin(position)[0] + position.T @ position
    return total


def total(values: ArrayLike, axis: Axes = None, dtype: DTypeLike = float) -> Shape:
    """Return the shape of a sum."""
    array = np.asarray(values, dtype)
    return array.shape if axis is None else ()


def expectations() -> None:
    """What holds for a type checker; it is not meant to run."""
    t = fg.Tensor([1.0, 2.0])
    w = fg.Variable(1.0)

    # Parameters of the function are those of what a transform returns.
    assert_type(bare(2.0), Any)
    assert_type(with_arguments(1.0, 2.0), list[Any])
    assert_type(with_arguments(1.0, 2.0, dy=3.0), list[Any])
    assert_type(fg.value_and_grad(area)(1.0, 2.0, scale=3.0), tuple[fg.Tensor, Any])
    assert_type(fg.value_and_grad(area, has_aux=True)(1.0, 2.0), tuple[Any, Any])
    assert_type(fg.value_and_grad(area, 0, True)(1.0, 2.0), tuple[Any, Any])
    assert_type(doubled(2.0), float)
    assert_type(tripled(2.0), float)
    assert_type(fg.gradients_function(area)(1.0, scale=3.0), list[Any])
    assert_type(fg.value_and_gradients_function(area)(1.0), tuple[Any, list[Any]])
    assert_type(fg.implicit_gradients(area)(1.0), list[tuple[Any, fg.Variable]])
    assert_type(fg.implicit_value_and_gradients(area)(1.0), tuple[Any, list[tuple[Any, fg.Variable]]])
    assert_type(fg.checkpoint(area)(1.0, scale=2.0), float)
    assert_type(fg.compile(area)(1.0, scale=2.0), float)
    assert_type(fg.compile(static="scale")(area)(1.0, scale=2.0), float)
    assert_type(fg.compile(fg.grad(area))(1.0), Any)
    assert_type(fg.compile(area).inspect(1.0, measure=True), fg.Inspection)
    assert_type(fg.sparse_hessian(area).plan(1.0, height=2.0), fg.SparsePlan)
    assert_type(fg.sparse_jacobian(mode="forward")(area)(1.0, scale=2.0), Any)
    assert_type(fg.make_vjp(area)(1.0), tuple[Any, Callable[..., list[Any]]])

    # With options alone, a transform is a decorator.
    assert_type(fg.grad(argnums=1)(area)(1.0, scale=2.0), Any)
    assert_type(fg.value_and_grad(has_aux=True)(area)(1.0), tuple[Any, Any])
    assert_type(fg.implicit_gradients()(area)(1.0), list[tuple[Any, fg.Variable]])
    assert_type(fg.make_vjp(persistent=False)(area)(1.0), tuple[Any, Callable[..., list[Any]]])
    assert_type(fg.jacobian(function=area, mode="forward")(1.0), Any)

    # Tensors
    assert_type(fg.constant([1.0]), fg.Tensor)
    assert_type(fg.convert_to_tensor(1.0), fg.Tensor)
    assert_type(t + 1, fg.Tensor)
    assert_type(1.0 - t, fg.Tensor)
    assert_type(t @ t, fg.Tensor)
    assert_type(-t, fg.Tensor)
    assert_type(t**2, fg.Tensor)
    assert_type(t > 1, fg.Tensor)
    assert_type(t[0], fg.Tensor)
    assert_type(t.sum(axis=0), fg.Tensor)
    assert_type(t.reshape(2, 1), fg.Tensor)
    assert_type(t.shape, tuple[int, ...])
    assert_type(t.dtype, np.dtype[Any])
    assert_type(float(t[0]), float)
    assert_type(w * t, fg.Tensor)
    assert_type(w.assign(2.0), fg.Variable)
    assert_type(w.value(), fg.Tensor)

    # Arrays and tensors; what is taken as one
    energy(t)
    energy(w, 2)
    energy(np.ones(3), t)
    energy(np.ones(3, int), np.float64(2.0))
    energy(energy(t))
    assert_type(fg.grad(energy)(t, 2.0), Any)
    total(t, 0)
    total([t, 1.0], (0, 1), "float32")
    total([[1, t], [w, 2.0]], dtype=np.float32)
    total(3.0)
    total(np.float32(3.0))
    total(t, axis=np.int64(0))

    # Results of functions serve wherever arrays and numbers do.
    result = special.erf(t)
    float(result + 1)
    np.sin(result[0])
    special.logsumexp([t[0], 1.0], axis=0)
    special.softmax(t, axis=np.argmax([1.0, 2.0]))
    linalg.det([[1.0, t[0]], [2, 3]]) + 1
    distance.euclidean([0, 0], (1.0, 2.0))

    # A ufunc, whose own type has several signatures, is a function of arrays as any other.
    fg.vmap(np.sin)(t)
    fg.vmap(fg.grad(np.sin))(np.ones(3))
    fg.compile(np.arctan2)(np.ones(3), t)
    fg.jacobian(np.sin, mode="forward")(np.ones(3))
    fg.checkpoint(np.sin)(t)

    # Optimizers, and schedules, whose parameters are declared
    adam = fg.optimizers.Adam(0.1, beta1=0.5, corrected_epsilon=True, weight_decay=0.1, name=None)
    assert_type(adam, fg.optimizers.Adam)
    assert_type(adam.name, str)
    assert_type(adam.corrected_epsilon, bool)
    assert_type(fg.optimizers.schedules.ExponentialDecay(1.0, 10, 0.5).staircase, bool)

    # The functions of a family in fgrad.scipy have its parameters.
    ndimage.maximum_filter(t, size=3, mode="nearest")
    ndimage.correlate1d([1.0, t[0]], [1, 2])
    linalg.cosm(A=t)
    distance.euclidean(t, t, w=t)

    # Mistakes that are found: each comment that ignores one would be reported if it were not needed.
    bare("text")  # type: ignore[arg-type]
    energy([1.0, 2.0])  # type: ignore[arg-type]
    energy(t, "heavy")  # type: ignore[arg-type]
    total(None)  # type: ignore[arg-type]
    total(t, axis=0.5)  # type: ignore[arg-type]
    linalg.cosm(None)  # type: ignore[arg-type]
    bare(1.0, 2.0)  # type: ignore[call-arg]
    fg.value_and_grad(area)(1.0, depth=2.0)  # type: ignore[call-arg]
    doubled(1.0, 2.0)  # type: ignore[call-arg]
    fg.grad(3.0)  # type: ignore[call-overload]
    fg.compile(area)(1.0, depth=2.0)  # type: ignore[call-arg]
    fg.grad(argnums=1)(area)(1.0, depth=2.0)  # type: ignore[call-arg]
    fg.jacobian(mode="forward")(area)("text")  # type: ignore[arg-type]
    fg.grad(area, argnum=1)  # type: ignore[call-overload]
    fg.optimizers.Adam(0.1, lr=0.1)  # type: ignore[call-arg]
    fg.optimizers.Adam(0.1, 0.9, 0.999, 1e-8, True)  # type: ignore[call-arg]
    fg.optimizers.Momentum(0.1)  # type: ignore[call-arg]
    fg.optimizers.Adam(name=1)  # type: ignore[arg-type]
    fg.optimizers.schedules.CosineDecay(1.0)  # type: ignore[call-arg]
    ndimage.maximum_filter(t, 3, sizes=3)  # type: ignore[call-arg]
    linalg.cosm(A=t, b=t)  # type: ignore[call-arg]
    distance.euclidean(t)  # type: ignore[call-arg]
