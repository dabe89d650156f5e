"""Tests of derivatives, of a user's function and of primitives.

check_grads(f, args)        both modes against finite differences, to any order
check_primitive(f, x)       the same, with dtypes and batches: all rules of an operation
calls(primitive)            the sample calls of a primitive, for the generic tests
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import fgrad.core  # noqa: F401  # first, so that threads import it in one order
from fgrad import errors
from fgrad.core.primitive import BOXES, Primitive
from fgrad.core.tensor import apply
from fgrad.core.tree import flatten, paths, unflatten
from fgrad.ops.families import Domain, Sample
from fgrad.transforms.batch import vmap
from fgrad.transforms.forward import jvp
from fgrad.transforms.reverse import vjp
from fgrad.typing import Array, ArrayLike

__all__ = ["Call", "calls", "check_grads", "check_primitive"]

__dir__ = __all__.copy

_STEP = 1e-4
_NAMES = {"fwd": "forward", "rev": "reverse"}


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    rtol: float = 1e-5,
    atol: float | None = None,
) -> None:
    """Compare the derivatives of a function with finite differences.

    The value must equal that of `f` on plain arrays. Along a random direction, the tangent of forward mode is compared
    with central differences of two step sizes, extrapolated (Richardson); the cotangent of reverse mode is compared
    with it through an inner product. For a higher order the derivative itself is checked in the same way.

    Args:
        f: a function of `args`; returns numbers, arrays or containers of them.
        args: the point: float64 or complex128 numbers, arrays or containers of them, not at a kink.
        order: the highest order of derivative.
        modes: "fwd", "rev" or both; a higher order is checked in every combination.
        rtol: the maximal relative difference.
        atol: the maximal absolute difference; None: what the differences themselves may be off by, from the rounding of
            values and from the two step sizes. So a slope of 1e-9 is compared, too, where the value is about 1.

    Raises:
        GradientCheckError: an AssertionError; a derivative or the value differs. The message gives the position.
        ParameterError: a ValueError; `args` is not a tuple or list.

    Example:
        >>> check_grads(lambda x: np.sin(x) * x, (np.array([0.5, 1.0]),))
    """
    if not isinstance(args, (tuple, list)):
        raise errors.ParameterError(
            f"args must be a tuple of the arguments, and it is of type {type(args).__name__}.\n"
            "Write check_grads(f, (x,))."
        )
    unknown = [modes] if isinstance(modes, str) else [mode for mode in modes if mode not in _NAMES]
    if unknown or not modes:
        raise errors.ParameterError(
            f"modes of check_grads are 'fwd', 'rev' or both, in a tuple, and it was given {modes!r}.\n"
            "Write modes=('rev',) for reverse mode alone."
        )
    value = _check_value(f, tuple(args), modes[0])
    _check(f, value, tuple(args), order, modes, rtol, atol, np.random.default_rng(0), "")


def _check_value(f: Callable[..., Any], args: tuple[Any, ...], mode: str) -> Any:
    """Compare the value on copies of plain arrays with that of the differentiated function; return it."""
    leaves, treedef = flatten(args)
    expected = f(*unflatten(treedef, [x.copy() if type(x) is np.ndarray else x for x in leaves]))
    still = unflatten(treedef, [np.zeros_like(x) if x.dtype.kind in "fc" else np.zeros(x.shape) for x in _arrays(args)])
    found = jvp(f, args, still)[0] if mode == "fwd" else vjp(f, *args)[0]
    for path, x, y in zip(paths(expected), _arrays(found), _arrays(expected), strict=True):
        scale = float(np.max(np.abs(y), initial=0, where=np.isfinite(y))) if y.dtype.kind in "fc" else 0.0
        if x.shape != y.shape or not np.allclose(x, y, rtol=1e-6, atol=1e-6 * max(1.0, scale), equal_nan=True):
            raise errors.GradientCheckError(
                f"the value{path} is\n{x}\nwith the derivatives, but f gives\n{y}\nfor plain arrays.\n"
                "The function tests whether its argument is a tensor, or a rule computes another function."
            )
    return expected


def _check(
    f: Callable[..., Any],
    value: ArrayLike,
    args: tuple[Any, ...],
    order: int,
    modes: Sequence[str],
    rtol: float,
    atol: float | None,
    rng: np.random.Generator,
    path: str,
) -> None:
    direction = _random_like(args, rng)
    expected, margins = _difference(f, value, args, direction)
    weights = _random_like(expected, rng)
    bounds = margins if atol is None else [atol] * len(margins)
    for mode in modes:
        if mode == "fwd":
            derivative = _along(f, direction)
            slope = derivative(*args)
            _compare(slope, expected, rtol, bounds, f"{path}forward")
        else:
            derivative = _weighed(f, weights)
            slope = derivative(*args)
            # <weights, J direction> and <J^H weights, direction> are equal.
            bound = sum(float(np.sum(np.abs(w) * b)) for w, b in zip(_arrays(weights), bounds, strict=True))
            _compare(_inner(slope, direction), _inner(weights, expected), rtol, [bound], f"{path}reverse")
        if order > 1:
            _check(derivative, slope, args, order - 1, modes, rtol, atol, rng, f"{path}{_NAMES[mode]} then ")


_MOST = 1e-7
"""By how much a difference may be off at most, for values and slopes of order 1."""
_LEAST = 1e-12
"""Values below this are treated as rounding errors of zeros, such as vanishing residuals."""


def _size(tree: Any) -> float:
    """Return the size of values."""
    sizes = [np.max(np.abs(x), initial=0, where=np.isfinite(x)) for x in _arrays(tree) if x.dtype.kind in "fc"]
    size = max(map(float, sizes), default=0.0)
    return size if size > _LEAST else 1.0


def _along(f: Callable[..., Any], direction: tuple[Any, ...]) -> Callable[..., Any]:
    return lambda *args: jvp(f, args, direction)[1]


def _weighed(f: Callable[..., Any], weights: object) -> Callable[..., Any]:
    return lambda *args: vjp(f, *args)[1](weights)


def _arrays(tree: Any) -> list[npt.NDArray[Any]]:
    return [leaf.numpy() if type(leaf) in BOXES else np.asarray(leaf) for leaf in flatten(tree)[0]]


def _random_like(tree: Any, rng: np.random.Generator) -> Any:
    """Return random numbers, none of which is small: every element is to count."""

    def real_like(x: npt.NDArray[Any]) -> Any:
        return rng.uniform(0.7, 1.5, x.shape) * rng.choice([-1.0, 1.0], x.shape)

    def draw(x: npt.NDArray[Any]) -> Any:
        real = real_like(x)
        if x.dtype.kind == "c":
            return (real + 1j * real_like(x)).astype(x.dtype)
        return real.astype(x.dtype) if x.dtype.kind == "f" else np.zeros(x.shape)

    return unflatten(flatten(tree)[1], [draw(np.asarray(x)) for x in _arrays(tree)])


def _difference(
    f: Callable[..., Any], value: ArrayLike, args: tuple[Any, ...], direction: tuple[Any, ...]
) -> tuple[Any, list[Any]]:
    """Return the derivative of `f` along a direction, and by how much it may be off.

    It is computed by central differences of two step sizes. These differ by more than the error of the extrapolated
    one; the rounding of values is added. The error has a limit, since at a kink the two differ much.
    """
    treedef = flatten(args)[1]
    directions = flatten(direction)[0]

    def central(step: float) -> tuple[list[Any], Any]:
        ahead, behind = (
            f(*unflatten(treedef, [x + sign * step * t for x, t in zip(_arrays(args), directions, strict=True)]))
            for sign in (1, -1)
        )
        changes = [_change(a, b) / (2 * step) for a, b in zip(_arrays(ahead), _arrays(behind), strict=True)]
        return changes, flatten(ahead)[1]

    coarse, out_treedef = central(_STEP)
    fine, _ = central(_STEP / 2)
    size = _size(value)
    # Values are off by some units in the last place; 80 leaves room for ten of them, in both differences.
    rounding = 80 * np.finfo(float).eps * size / _STEP
    slopes = [(4 * h - c) / 3 for h, c in zip(fine, coarse, strict=True)]
    margins = []
    for slope, h, c in zip(slopes, fine, coarse, strict=True):
        most = _MOST * min(size, 1.0) * max(1.0, float(np.max(np.abs(slope), initial=0)))
        margins.append(np.minimum(rounding + 16 * np.abs(h - c), most))
    return unflatten(out_treedef, slopes), margins


def _change(ahead: npt.NDArray[Any], behind: npt.NDArray[Any]) -> Any:
    return ahead - behind if ahead.dtype.kind in "fc" else np.zeros(ahead.shape)


def _inner(a: Any, b: Any) -> float:
    pairs = zip(_arrays(a), _arrays(b), strict=True)
    return float(sum(np.sum(np.real(np.conjugate(x) * y)) for x, y in pairs))


def _compare(found: Any, expected: Any, rtol: float, bounds: Any, what: str) -> None:
    for path, x, y, bound in zip(paths(expected), _arrays(found), _arrays(expected), bounds, strict=True):
        if x.shape != y.shape or not np.all(np.isclose(x, y, rtol=rtol, atol=bound)):
            raise errors.GradientCheckError(
                f"the {what} derivative{path} is\n{x}\nbut finite differences give\n{y}\n"
                "A rule is wrong, or the point is at a kink; fg.check(f, *args) detects both."
            )


def check_primitive(operation: Callable[..., Any], *args: Any, **metadata: object) -> None:
    """Check the rules of an operation at one call, as fgrad's own tests do for its primitives.

    Both modes are compared with finite differences to second order, also with respect to single arguments; gradients
    must have the dtype and shape of their arguments, in single precision too; `vmap` must agree with a loop, for all
    combinations of mapped arguments.

    Args:
        operation: an operation from `fgrad.extend.register_primitive`, or any function of arrays.
        args: float64 or complex128 arrays.
        metadata: keyword arguments.

    Raises:
        GradientCheckError: an AssertionError; a rule is wrong. The message names it.

    Example:
        >>> check_primitive(np.arctan2, np.array([0.5, 1.0]), np.array([1.0, 2.0]))
    """

    def f(*arrays: Array) -> Any:
        return operation(*arrays, **metadata)

    arrays = tuple(np.asarray(x) for x in args)
    check_grads(f, arrays)
    for place, x in enumerate(arrays if len(arrays) > 1 else ()):  # a single array has been checked above
        check_grads(_of_one(f, arrays, place), (x,), order=1)
    _check_form(f, arrays)
    _check_form(f, tuple(x.astype(_SINGLE[x.dtype.char]) for x in arrays))
    for mapped in itertools.product((0, None), repeat=len(arrays)):
        if 0 in mapped:
            _check_batch(f, arrays, mapped)


_SINGLE = {"d": np.float32, "D": np.complex64}


def _of_one(f: Callable[..., Any], arrays: tuple[Any, ...], place: int) -> Callable[..., Any]:
    return lambda x: f(*arrays[:place], x, *arrays[place + 1 :])


def _check_form(f: Callable[..., Any], arrays: tuple[Any, ...]) -> None:
    result, pullback = vjp(f, *arrays)
    found = pullback(unflatten(flatten(result)[1], [np.ones_like(leaf) for leaf in _arrays(result)]))
    for place, (gradient, x) in enumerate(zip(found, arrays, strict=True)):
        if (gradient.dtype, gradient.shape) != (x.dtype, x.shape):
            raise errors.GradientCheckError(
                f"the gradient of argument {place} has dtype {gradient.dtype} and shape {gradient.shape}, "
                f"and the argument has dtype {x.dtype} and shape {x.shape}"
            )


def _check_batch(f: Callable[..., Any], arrays: tuple[Any, ...], mapped: tuple[int | None, ...]) -> None:
    several = [np.stack([x, x * 1.1, x * 0.9]) if axis == 0 else x for x, axis in zip(arrays, mapped, strict=True)]
    rows = [f(*(x[i] if axis == 0 else x for x, axis in zip(several, mapped, strict=True))) for i in range(3)]
    expected = [np.stack(each) for each in zip(*map(_arrays, rows), strict=True)]
    for found, wanted in zip(_arrays(vmap(f, in_axes=mapped)(*several)), expected, strict=True):
        if found.shape != wanted.shape or not np.allclose(found, wanted):
            raise errors.GradientCheckError(f"vmap with in_axes={mapped} gives\n{found}\nand a loop gives\n{wanted}")


@dataclass(frozen=True)
class Call:
    """One sample call of a primitive with random arrays.

    Attributes:
        function: a function that runs the primitive on the arrays.
        arrays: the arguments to differentiate.

    Example:
        >>> from fgrad.core.primitive import PRIMITIVES
        >>> call = next(calls(PRIMITIVES["sin"]))
        >>> bool(np.sin(call.arrays[0]) == call.function(*call.arrays))
        True
    """

    function: Callable[..., Any]
    arrays: tuple[Any, ...]


def calls(primitive: Primitive, dtype: npt.DTypeLike = np.float64, seed: int = 0) -> Iterator[Call]:
    """Return the sample calls of a primitive for a dtype.

    Args:
        primitive: an entry of the table.
        dtype: the dtype of the arrays; samples of real operations are omitted for complex ones.
        seed: the seed of the random numbers.

    Returns:
        An iterator over `Call`s, one for each sample.

    Example:
        >>> from fgrad.core.primitive import PRIMITIVES
        >>> [call.arrays[0].shape for call in calls(PRIMITIVES["sin"])]
        [(), (3,), (2, 3), (0, 2)]
    """
    rng = np.random.default_rng(seed)
    for each in primitive.samples:
        if each.complex or np.dtype(dtype).kind != "c":
            drawn = zip(_domains(each), each.shapes, strict=True)
            yield Call(_calling(primitive, each), tuple(_draw(domain, shape, dtype, rng) for domain, shape in drawn))


def _calling(primitive: Primitive, sample: Sample) -> Callable[..., Any]:
    return lambda *arrays: apply(primitive, (*sample.leading, *arrays, *sample.constants), sample.metadata)


def _domains(sample: Sample) -> Any:
    """Return an interval for each array of a sample."""
    one_for_all = not sample.domain or not isinstance(sample.domain[0], tuple)
    return (sample.domain,) * len(sample.shapes) if one_for_all else sample.domain


def _draw(domain: Domain, shape: tuple[int, ...], dtype: npt.DTypeLike, rng: np.random.Generator) -> Any:
    values = rng.uniform(*domain, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.uniform(*domain, shape)
    return np.asarray(values, dtype)
