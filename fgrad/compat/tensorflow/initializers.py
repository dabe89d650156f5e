"""`tf.initializers`: initial values of variables.

An initializer is called with a shape and returns a tensor of the requested dtype, in a graph
a node that draws new values in every run. TensorFlow's other names of the classes are at the end.

    >>> Constant(2.0)([2])
    Tensor([2., 2.], dtype=float32)
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from fgrad import errors
from fgrad.compat.deferred.convert import as_dtype
from fgrad.compat.deferred.graph import operation
from fgrad.compat.tensorflow import arrays, random
from fgrad.compat.tensorflow.arguments import convert, sizes
from fgrad.compat.tensorflow.missing import missing
from fgrad.core.tensor import boxed
from fgrad.typing import Array, DTypeLike, Shape


class Initializer:
    """Makes the initial value of a variable; called with a shape, and a dtype other than float32 if needed."""

    dtype: Any = np.dtype(np.float32)

    def __init__(self, dtype: DTypeLike | None = None) -> None:
        self.dtype = _dtype_or_float(dtype)

    def __call__(self, shape: Any, dtype: DTypeLike | None = None, partition_info: Any = None) -> Any:
        """Return a tensor.

        Args:
            shape: integers.
            dtype: the dtype; by default that of the initializer.
            partition_info: ignored.
        """
        return self.make(sizes(shape), self.dtype if dtype is None else as_dtype(dtype))

    def make(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return a tensor of a shape and dtype."""
        raise NotImplementedError(type(self).__name__)


def _dtype_or_float(dtype: DTypeLike | None) -> Any:
    return Initializer.dtype if dtype is None else as_dtype(dtype)


class Zeros(Initializer):
    """Makes zeros."""

    def make(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        return arrays.zeros(shape, dtype)


class Ones(Initializer):
    """Makes ones."""

    def make(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        return arrays.ones(shape, dtype)


class Constant(Initializer):
    """Makes given values.

    Args:
        value: one number for all elements, or one for each element.
        dtype: the dtype, by default float32.
        verify_shape: ignored: wrong shapes are always rejected.
    """

    def __init__(self, value: Any = 0, dtype: DTypeLike | None = None, verify_shape: bool = False) -> None:
        self.value, self.dtype = value, _dtype_or_float(dtype)

    def make(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        return _filled(self.value, shape, dtype)


@operation("Const")
def _filled(value: Any, shape: Shape, dtype: object) -> Array:
    values = convert(value).astype(dtype)
    return np.broadcast_to(values, sizes(shape)) if values.size == 1 else np.reshape(values, sizes(shape))


class Identity(Initializer):
    """Makes the identity matrix, times a number."""

    def __init__(self, gain: float = 1.0, dtype: DTypeLike | None = None) -> None:
        self.gain, self.dtype = gain, _dtype_or_float(dtype)

    def make(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        if len(shape) != 2:
            raise errors.ShapeError(f"an identity matrix has two axes, but the shape is {shape}.")
        return arrays.eye(*shape, dtype=dtype) * np.asarray(self.gain, dtype)


class RandomNormal(Initializer):
    """Draws normally distributed numbers."""

    def __init__(
        self, mean: Any = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: DTypeLike | None = None
    ) -> None:
        self.mean, self.stddev, self.seed, self.dtype = mean, stddev, seed, _dtype_or_float(dtype)

    def make(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        return random.normal(shape, self.mean, self.stddev, dtype, self.seed)


class TruncatedNormal(RandomNormal):
    """Draws normally distributed numbers at most two standard deviations from the mean."""

    def make(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        return random.truncated_normal(shape, self.mean, self.stddev, dtype, self.seed)


class RandomUniform(Initializer):
    """Draws uniformly distributed numbers between two bounds; `maxval` is 1 by default."""

    def __init__(
        self, minval: Any = 0, maxval: float | None = None, seed: int | None = None, dtype: DTypeLike | None = None
    ) -> None:
        self.minval, self.maxval, self.seed, self.dtype = minval, maxval, seed, _dtype_or_float(dtype)

    def make(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        return random.uniform(shape, self.minval, self.maxval, dtype, self.seed)


_TRUNCATED_DEVIATION = 0.87962566103423978
"""Standard deviation of a standard normal distribution truncated to -2 to 2."""


class VarianceScaling(Initializer):
    """Draws numbers whose variance is `scale` divided by a number of connections.

    Args:
        scale: a positive number.
        mode: "fan_in" for the connections into a unit, "fan_out" for those out of it, "fan_avg" for their mean.
        distribution: "truncated_normal" (also "normal"), "untruncated_normal" or "uniform".
        seed: see `tf.random.set_seed`.
        dtype: the dtype, by default float32.

    Raises:
        ParameterError: a ValueError; an option has an unknown value.
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        if not scale > 0:
            raise errors.ParameterError(f"scale must be positive, but it is {scale}.")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise errors.ParameterError(f"mode is {mode!r}; use 'fan_in', 'fan_out' or 'fan_avg'.")
        if distribution not in ("normal", "truncated_normal", "untruncated_normal", "uniform"):
            raise errors.ParameterError(
                f"distribution is {distribution!r}; use 'truncated_normal', 'untruncated_normal' or 'uniform'."
            )
        self.scale, self.mode, self.distribution, self.seed = scale, mode, distribution, seed
        self.dtype = _dtype_or_float(dtype)

    def make(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        fan_in, fan_out = _fans(shape)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        deviation = math.sqrt(self.scale / max(1.0, fan))
        if self.distribution == "uniform":
            limit = math.sqrt(3) * deviation
            return random.uniform(shape, -limit, limit, dtype, self.seed)
        if self.distribution == "untruncated_normal":
            return random.normal(shape, 0.0, deviation, dtype, self.seed)
        return random.truncated_normal(shape, 0.0, deviation / _TRUNCATED_DEVIATION, dtype, self.seed)


def _fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return fan-in and fan-out: the last two axes, times the size of a filter."""
    if len(shape) < 2:
        size = shape[0] if shape else 1
        return size, size
    field = math.prod(shape[:-2])
    return shape[-2] * field, shape[-1] * field


class _Scaled(VarianceScaling):
    """A `VarianceScaling` with a fixed scale, mode and distribution."""

    scaling: ClassVar[tuple[float, str, str]]

    def __init__(self, seed: int | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__(*self.scaling, seed, dtype)


class GlorotUniform(_Scaled):
    """Draws uniform numbers, scaled by the mean of fan-in and fan-out (Glorot and Bengio, 2010)."""

    scaling = (1.0, "fan_avg", "uniform")


class GlorotNormal(_Scaled):
    """Draws normal numbers, scaled by the mean of fan-in and fan-out (Glorot and Bengio, 2010)."""

    scaling = (1.0, "fan_avg", "truncated_normal")


class HeNormal(_Scaled):
    """Draws normal numbers for layers with `relu` (He and others, 2015)."""

    scaling = (2.0, "fan_in", "truncated_normal")


class HeUniform(_Scaled):
    """Draws uniform numbers for layers with `relu` (He and others, 2015)."""

    scaling = (2.0, "fan_in", "uniform")


class LecunNormal(_Scaled):
    """Draws normal numbers whose variance is the reciprocal of the number of inputs."""

    scaling = (1.0, "fan_in", "truncated_normal")


class LecunUniform(_Scaled):
    """Draws uniform numbers whose variance is the reciprocal of the number of inputs."""

    scaling = (1.0, "fan_in", "uniform")


class UniformUnitScaling(Initializer):
    """Draws uniform numbers between bounds of `factor` times the square root of 3 over the number of inputs."""

    def __init__(self, factor: float = 1.0, seed: int | None = None, dtype: DTypeLike | None = None) -> None:
        self.factor, self.seed, self.dtype = factor, seed, _dtype_or_float(dtype)

    def make(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        limit = self.factor * math.sqrt(3 / max(1, math.prod(shape[:-1])))
        return random.uniform(shape, -limit, limit, dtype, self.seed)


class Orthogonal(Initializer):
    """Draws a matrix with orthonormal rows or columns, times a number; leading axes are merged into rows."""

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: DTypeLike | None = None) -> None:
        self.gain, self.seed, self.dtype = gain, seed, _dtype_or_float(dtype)

    def make(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        if len(shape) < 2:
            raise errors.ShapeError(f"an orthogonal matrix has at least two axes, but the shape is {shape}.")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        draw = random.normal((max(rows, columns), min(rows, columns)), dtype=dtype, seed=self.seed)
        return _orthonormal(draw, shape, self.gain)


@operation("orthogonal", differentiable=False)
def _orthonormal(draw: Any, shape: Shape, gain: float) -> Any:
    q, r = np.linalg.qr(draw.numpy())
    q = q * np.sign(np.diag(r))  # for a uniform distribution over rotations
    if q.shape[1] != shape[-1]:
        q = q.T
    return boxed((gain * q).reshape(shape).astype(draw.dtype))


# TensorFlow's other names

zeros = zeros_initializer = Zeros
ones = ones_initializer = Ones
constant = constant_initializer = Constant
identity = Identity
random_normal = random_normal_initializer = RandomNormal
random_uniform = random_uniform_initializer = RandomUniform
truncated_normal = truncated_normal_initializer = TruncatedNormal
variance_scaling = variance_scaling_initializer = VarianceScaling
uniform_unit_scaling_initializer = UniformUnitScaling
glorot_uniform = glorot_uniform_initializer = GlorotUniform
glorot_normal = glorot_normal_initializer = GlorotNormal
he_normal, he_uniform = HeNormal, HeUniform
lecun_normal, lecun_uniform = LecunNormal, LecunUniform
orthogonal = orthogonal_initializer = Orthogonal

__getattr__ = missing(__name__)
