"""`tf.random`: random tensors. The numbers are NumPy's, not TensorFlow's for the same seed.

    normal, uniform, truncated_normal       new numbers in every call, and in every run of a graph
    shuffle, categorical                    random permutations and choices
    set_seed                                reproducible numbers
    stateless_normal ...                    the same numbers for the same seed
    Generator                               a separate sequence

Derivatives with respect to the mean, the standard deviation and the bounds are supported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.convert import as_dtype
from fgrad.compat.deferred.graph import Convertible, GraphTensor, Symbol, as_node, default_graph, operation
from fgrad.compat.tensorflow import arrays
from fgrad.compat.tensorflow.arguments import convert, is_deferred, operands, plain, sizes, with_facts_of
from fgrad.compat.tensorflow.missing import missing
from fgrad.core.tensor import boxed
from fgrad.typing import Array, ArrayLike, DTypeLike, Operand

__all__ = [
    "Generator", "categorical", "multinomial", "normal", "random_normal", "random_shuffle", "random_uniform",
    "set_random_seed", "set_seed", "shuffle", "stateless_normal", "stateless_truncated_normal", "stateless_uniform",
    "truncated_normal", "uniform",
]  # fmt: skip

__dir__ = __all__.copy

_FLOAT, _LONG = np.dtype(np.float32), np.dtype(np.int64)

Sample = Callable[[np.random.Generator, tuple[int, ...], Any], Any]


# Numbers of a generator


def _standard_normal(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return generator.standard_normal(shape, np.float32 if dtype == np.float32 else np.float64)


def _standard_truncated(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return normal numbers, redrawing those beyond two standard deviations."""
    values = np.asarray(_standard_normal(generator, shape, dtype))
    while (outside := np.abs(values) > 2).any():
        values[outside] = _standard_normal(generator, (int(outside.sum()),), dtype)
    return values


def _unit_interval(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return numbers in [0, 1); half precision must not round up to 1."""
    if dtype == np.float16:
        return generator.integers(0, 2**11, shape) / 2**11
    return generator.random(shape, np.float32 if dtype == np.float32 else np.float64)


def _gumbel(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return generator.gumbel(size=shape)


def _bits(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return generator.integers(0, 2**63 - 1, shape, endpoint=True)


def _drawn(sample: Sample, generator: np.random.Generator, shape: ArrayLike, dtype: np.dtype[Any]) -> Any:
    return boxed(np.asarray(sample(generator, sizes(shape), dtype)).astype(dtype)[()])


# Generators


def _seeded(*numbers: int) -> np.random.Generator:
    return np.random.default_rng([number % 2**64 for number in numbers])


class _Process:
    """The generators of eager calls: one for each operation seed, and one for calls without."""

    seed: int | None = None
    generators: dict[int | None, np.random.Generator] = {}  # noqa: RUF012

    @classmethod
    def generator(cls, seed: int | None) -> np.random.Generator:
        if seed not in cls.generators:
            cls.generators[seed] = _generator(cls.seed, seed, 0)
        return cls.generators[seed]


def _generator(seed: int | None, own_seed: int | None, number: int) -> np.random.Generator:
    """Return the generator for a seed of the graph or process, a seed of the operation, and its number."""
    if own_seed is not None:
        return _seeded(0 if seed is None else seed + 1, own_seed)
    return np.random.default_rng() if seed is None else _seeded(seed, 0, number)


def set_seed(seed: int) -> None:
    """Seed the random numbers of this process, or of the open graph.

    Args:
        seed: in eager mode, the sequence restarts. In a graph, every session draws the same numbers: set
            the seed before the operations are created.

    Example:
        >>> set_seed(1)
        >>> first = uniform([2])
        >>> set_seed(1)
        >>> uniform([2]) == first
        Tensor([ True,  True])
    """
    if mode.is_deferring():
        default_graph().seed = int(seed)
    else:
        _Process.seed = int(seed)
        _Process.generators = {}


set_random_seed = set_seed


# Draws


class Draw(GraphTensor):
    """Random numbers, new ones in every run, from the generator that `source` returns for the run and the node.

    A session keeps a generator for each such node, so that the runs of two sessions of a graph with
    seeds give the same sequences.
    """

    def __init__(
        self,
        sample: Sample,
        shape: object,
        dtype: np.dtype[Any],
        source: Callable[[Any, Draw], Any],
        name: str | None,
    ) -> None:
        self._shape = _as_nodes(shape)
        self._sample, self._dtype, self._source = sample, dtype, source
        sizes = self._shape if isinstance(self._shape, list) else [self._shape]
        inputs = [each for each in sizes if isinstance(each, GraphTensor)]
        super().__init__(inputs[0].graph if inputs else default_graph(), name or "random", inputs)
        self.seed = self.graph.seed

    def compute(self, run: Any) -> Any:
        if isinstance(self._shape, GraphTensor):
            shape = run.values[self._shape]
        else:
            shape = [run.values[each] if isinstance(each, GraphTensor) else each for each in self._shape]
        return _drawn(self._sample, self._source(run, self), shape, self._dtype)

    def _infer(self) -> tuple[Any, Any]:
        if isinstance(self._shape, GraphTensor):
            return None, self._dtype
        return [None if isinstance(each, GraphTensor) else each for each in self._shape], self._dtype


def _as_nodes(shape: object) -> Any:
    """Return a shape as a graph tensor, or as a list of integers and graph tensors."""
    if isinstance(shape, Symbol):
        return as_node(shape)
    each = shape if np.iterable(shape) else [shape]
    return [as_node(size) if isinstance(size, Symbol) else sizes(size)[0] for size in each]


def _draw(sample: Sample, shape: Any, dtype: np.dtype[Any], seed: int | None, name: str | None) -> Any:
    """Draw numbers immediately, or make a node that draws them in every run."""
    if not is_deferred(shape):
        return _drawn(sample, _Process.generator(seed), shape, dtype)

    def source(run: Any, node: Draw) -> Any:
        generators = run.session.generators
        if node not in generators:
            generators[node] = _generator(node.seed, seed, node.number)
        return generators[node]

    return Draw(sample, shape, dtype, source, name)


# Distributions: a standard sample, shifted and scaled by differentiable operations


@operation("random_affine")
def _moved(draw: Array, scale: Operand, offset: Operand) -> Any:
    draw, scale, offset = operands(draw, scale, offset)
    return draw * scale + offset


@operation("random_between")
def _between(draw: Array, low: Operand, high: Operand) -> Any:
    draw, low, high = operands(draw, low, high)
    return low + draw * (high - low)


@operation("random_integer", differentiable=False)
def _integers(bits: Array, low: Operand, high: Operand, dtype: np.dtype[Any]) -> Any:
    first, last = (int(convert(bound)) for bound in (low, high))
    if not first < last:
        raise errors.InvalidArgumentError(f"need minval < maxval, but they are {first} and {last}.")
    return boxed((first + plain(bits) % (last - first)).astype(dtype))


def _uniformly(draw: Callable[[Sample, Any], Any], low: Operand, high: Operand | None, dtype: np.dtype[Any]) -> Any:
    """Return numbers between two bounds, from a function that draws a sample in a dtype."""
    if dtype.kind not in "iu":
        return _between(draw(_unit_interval, dtype), low, 1 if high is None else high)
    if high is None:
        raise errors.ParameterError(f"Must specify maxval for integer dtype {dtype}.")
    return _integers(draw(_bits, _LONG), low, high, dtype)


def normal(
    shape: object,
    mean: Convertible = 0.0,
    stddev: Convertible = 1.0,
    dtype: DTypeLike = _FLOAT,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Return normally distributed numbers; they are NumPy's, not TensorFlow's for the same seed.

    Args:
        shape: integers, or tensors among them.
        mean, stddev: numbers or tensors that broadcast to the shape.
        dtype: the dtype of the numbers.
        seed: the seed of a sequence of this operation; see `set_seed`.
    """
    return _moved(_draw(_standard_normal, shape, as_dtype(dtype), seed, name), stddev, mean)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: DTypeLike = _FLOAT,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Return normally distributed numbers at most two standard deviations from the mean; see `normal`."""
    return _moved(_draw(_standard_truncated, shape, as_dtype(dtype), seed, name), stddev, mean)


def uniform(
    shape: object,
    minval: Any = 0,
    maxval: Any = None,
    dtype: DTypeLike = _FLOAT,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Return uniformly distributed numbers; they are NumPy's, not TensorFlow's for the same seed.

    Args:
        shape: integers, or tensors among them.
        minval, maxval: the lower bound, and the upper bound, which is excluded, by default 1.
        dtype: the dtype of the numbers; integers need `maxval`.
        seed: the seed of a sequence of this operation; see `set_seed`.

    Raises:
        ParameterError: a ValueError; `dtype` is an integer dtype, and `maxval` is missing.
    """
    return _uniformly(lambda sample, dtype: _draw(sample, shape, dtype, seed, name), minval, maxval, as_dtype(dtype))


def shuffle(value: Convertible, seed: int | None = None, name: str | None = None) -> Any:
    """Return the rows of a tensor in random order."""
    value = arrays.convert_to_tensor(value)
    count = arrays.slice(arrays.shape(value), [0], [1])
    order = arrays.argsort(_draw(_unit_interval, count, np.dtype(np.float64), seed, None))
    return with_facts_of(value, arrays.gather(value, order, name=name))


def categorical(
    logits: Convertible, num_samples: Any, dtype: object = None, seed: int | None = None, name: str | None = None
) -> Any:
    """Draw class numbers.

    Args:
        logits: a matrix; each row holds logarithms of probabilities, up to a constant.
        num_samples: the number of draws for each row.
        dtype: the dtype of the numbers, by default int64.
        seed: see `set_seed`.
    """
    logits = arrays.convert_to_tensor(logits)
    rows = arrays.slice(arrays.shape(logits), [0], [1])
    classes = arrays.slice(arrays.shape(logits), [1], [1])
    shape = arrays.concat([rows, [num_samples], classes], 0)
    return _most_likely(logits, _draw(_gumbel, shape, np.dtype(np.float64), seed, None), dtype, name=name)


@operation("Multinomial", differentiable=False)
def _most_likely(logits: Array, noise: Array, dtype: DTypeLike | None) -> Any:
    """The Gumbel-max trick: the maximum of logits plus Gumbel noise is a class with its probability."""
    found = np.argmax(np.expand_dims(convert(logits), 1) + noise, axis=-1)
    return found.astype(_LONG if dtype is None else as_dtype(dtype))


def multinomial(
    logits: Convertible, num_samples: Any, seed: int | None = None, name: str | None = None, output_dtype: object = None
) -> Any:
    """Draw class numbers; see `categorical`."""
    return categorical(logits, num_samples, output_dtype, seed, name)


# Numbers determined by a seed alone


@operation("stateless_random", differentiable=False)
def _stateless(sample: Sample, shape: Sequence[Any], seed: Sequence[Any], dtype: np.dtype[Any]) -> Any:
    generator = _seeded(*sizes(convert(seed)))
    return _drawn(sample, generator, shape, dtype)


def stateless_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: DTypeLike = _FLOAT, name: str | None = None
) -> Any:
    """Return normally distributed numbers, determined by a seed of two integers."""
    return _moved(_stateless(_standard_normal, shape, seed, as_dtype(dtype), name=name), stddev, mean)


def stateless_truncated_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: DTypeLike = _FLOAT, name: str | None = None
) -> Any:
    """Return numbers as in `truncated_normal`, determined by a seed of two integers."""
    return _moved(_stateless(_standard_truncated, shape, seed, as_dtype(dtype), name=name), stddev, mean)


def stateless_uniform(
    shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: DTypeLike = _FLOAT, name: str | None = None
) -> Any:
    """Return numbers as in `uniform`, determined by a seed of two integers."""
    return _uniformly(
        lambda sample, dtype: _stateless(sample, shape, seed, dtype, name=name), minval, maxval, as_dtype(dtype)
    )


class Generator:
    """A separate sequence of random numbers, continued by every call, and every run of a graph.

    Args:
        seed: the seed of the sequence; None for a different one in each process.

    Example:
        >>> Generator.from_seed(1).uniform([2]) == Generator.from_seed(1).uniform([2])
        Tensor([ True,  True])
    """

    def __init__(self, seed: int | None = None) -> None:
        self._generator = np.random.default_rng() if seed is None else _seeded(seed)

    @classmethod
    def from_seed(cls, seed: int) -> Generator:
        """Return a generator with a given seed."""
        return cls(int(seed))

    @classmethod
    def from_non_deterministic_state(cls) -> Generator:
        """Return a generator with a different sequence in each process."""
        return cls()

    def _draw(self, sample: Sample, shape: Sequence[Any], dtype: np.dtype[Any], name: str | None) -> Any:
        if is_deferred(shape):
            return Draw(sample, shape, dtype, lambda run, node: self._generator, name)
        return _drawn(sample, self._generator, shape, dtype)

    def normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: DTypeLike = _FLOAT, name: str | None = None
    ) -> Any:
        """Return normally distributed numbers."""
        return _moved(self._draw(_standard_normal, shape, as_dtype(dtype), name), stddev, mean)

    def truncated_normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: DTypeLike = _FLOAT, name: str | None = None
    ) -> Any:
        """Return normally distributed numbers at most two standard deviations from the mean."""
        return _moved(self._draw(_standard_truncated, shape, as_dtype(dtype), name), stddev, mean)

    def uniform(
        self, shape: Any, minval: Any = 0, maxval: Any = None, dtype: DTypeLike = _FLOAT, name: str | None = None
    ) -> Any:
        """Return uniformly distributed numbers in [`minval`, `maxval`), by default [0, 1)."""
        return _uniformly(lambda sample, dtype: self._draw(sample, shape, dtype, name), minval, maxval, as_dtype(dtype))


# TensorFlow 1's names at the top level

random_normal = normal
random_uniform = uniform
random_shuffle = shuffle

__getattr__ = missing(__name__)
