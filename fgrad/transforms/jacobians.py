"""Derivatives as arrays, and products with them: pullbacks or pushforwards of a batch of directions.

A Jacobian is the pullback of all unit cotangents (reverse) or the pushforward of all unit tangents (forward), at once
under `vmap`. Products with second derivatives never allocate the matrix.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, overload

import numpy as np

from fgrad import errors
from fgrad.core.foreign import INEXACT, as_payload
from fgrad.core.reverse import ReverseTrace
from fgrad.core.tensor import Tensor, as_now, boxed, strip_ended
from fgrad.core.trace import running
from fgrad.core.tree import flatten, outline_of, paths, tree_map, unflatten
from fgrad.errors.hints import names_keywords
from fgrad.errors.places import depth_of_user
from fgrad.transforms.batch import on_all
from fgrad.transforms.calls import Decorator, Selection, decorator, name_of, select
from fgrad.transforms.forward import jvp, pushforward
from fgrad.transforms.linearization import (
    Input,
    Linearization,
    UnconnectedGradients,
    differentiable,
    refuse_integers,
)
from fgrad.transforms.reverse import grad, vjp
from fgrad.transforms.running import call_users
from fgrad.typing import Array, ArrayLike

P = ParamSpec("P")


def unit_directions(leaves: Sequence[Any]) -> list[Any]:
    """Return all unit directions of all arrays together, for each array along a new first axis."""
    total = sum(leaf.size for leaf in leaves)
    if len(leaves) == 1:
        return [as_payload(np.eye(total, dtype=leaves[0].dtype)).reshape(total, *leaves[0].shape)]
    directions, start = [], 0
    for leaf in leaves:
        units = np.zeros((total, leaf.size), leaf.dtype)
        units[start : start + leaf.size] = np.eye(leaf.size, dtype=leaf.dtype)
        directions.append(as_payload(units).reshape(total, *leaf.shape))
        start += leaf.size
    return directions


def along_all(function: Callable[[list[Any]], Any], directions: list[Any], chunk_size: int | None) -> Any:
    """Apply a function of directions to all of them, a chunk at a time, and concatenate the results.

    A single direction is not batched: a rule may then use its value.
    """
    total = len(directions[0])
    size = total if chunk_size is None else min(chunk_size, total)
    if total != 1 and size == total:
        return on_all(function, directions)

    def chunk(start: int) -> Any:
        if size == 1:
            return tree_map(lambda row: row[None], function([each[start] for each in directions]))
        return on_all(function, [each[start : start + size] for each in directions])

    chunks = [chunk(start) for start in range(0, total, size)]
    if len(chunks) == 1:
        return chunks[0]
    return tree_map(lambda *parts: np.concatenate(parts), *chunks)


def check_chunk_size(chunk_size: int | None) -> None:
    """Raise if `chunk_size` is not a number of directions."""
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise errors.ParameterError(f"chunk_size must be a positive integer or None; it is {chunk_size!r}.")


def _parts(whole: Array, leaves: Sequence[Any], axis: int) -> list[Any]:
    """Return the parts of an axis that belong to each of several arrays."""
    if len(leaves) == 1:
        return [whole]
    ends = list(itertools.accumulate(leaf.size for leaf in leaves))
    return np.split(whole, ends[:-1], axis)


def _arrays(tree: Any) -> tuple[list[Any], Any]:
    leaves, treedef = flatten(tree)
    return [leaf if type(leaf) is Tensor else as_payload(leaf) for leaf in leaves], treedef


def _block(rows: Array, imaginary: Array, output: Array) -> Array:
    """Return a block of a Jacobian from the pullbacks of real and imaginary unit cotangents.

    A pullback is J^H ct: for complex inputs it gives conjugate rows, for real inputs the real part of J, or from an
    imaginary unit the imaginary part. A real output keeps the convention of gradients.
    """
    if output.dtype.kind == "c":
        rows = np.conjugate(rows) if rows.dtype.kind == "c" else rows + 1j * imaginary
    shape = (*output.shape, *rows.shape[1:])
    return rows if rows.shape == shape else np.reshape(rows, shape)


def _by_pullback(traced: Linearization, chunk_size: int | None) -> list[Any]:
    """Return the Jacobian for each traced argument: with the structure of the result, then of the argument."""
    outputs, out_treedef = _arrays(traced.result)

    if len(outputs) == 1 and outputs[0].shape == () and outputs[0].dtype.kind in "fO":  # then it is the gradient
        gradients = traced.gradients(traced.pull(None, "ones"), UnconnectedGradients.ZERO)
        return [unflatten(out_treedef, [gradient]) for gradient in gradients]

    def pull(seeds: list[Any]) -> list[Any]:
        cotangents = traced.pull(unflatten(out_treedef, seeds), "a unit cotangent", again=True)
        return traced.gradients(cotangents, UnconnectedGradients.ZERO)

    units = unit_directions(outputs)
    guarded = running.guarded
    found = along_all(pull, units, chunk_size)
    if running.guarded > guarded:
        _warn_of_lost_products(found, lambda: pull([np.ones_like(x) for x in outputs]), "reverse", "jacfwd")
    imaginary = found
    if any(output.dtype.kind == "c" for output in outputs):
        imaginary = along_all(pull, [u * 1j if u.dtype.kind == "c" else u * 0 for u in units], chunk_size)

    def jacobian_of(argument: Array, twin: Array) -> Any:
        leaves, treedef = flatten(argument)
        parts = [
            map(_block, _parts(a, outputs, 0), _parts(b, outputs, 0), outputs)
            for a, b in zip(leaves, flatten(twin)[0], strict=True)
        ]
        return unflatten(out_treedef, [unflatten(treedef, blocks) for blocks in zip(*parts, strict=True)])

    return [jacobian_of(argument, twin) for argument, twin in zip(found, imaginary, strict=True)]


def _by_pushforward(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    places: Sequence[int | str],
    chunk_size: int | None,
) -> list[Any]:
    """Return the Jacobian for each chosen argument: with the structure of the result, then of the argument."""
    leaves, treedef = flatten(_chosen(args, keywords, places))
    primals = [differentiable(leaf) for leaf in leaves]
    inputs = [as_now(x) for x in primals if x is not None]
    if any([x.dtype.kind == "c" for x in inputs]):  # noqa: C419  # a generator takes twice the time
        raise errors.ParameterError(
            f"the Jacobian of {name_of(function)} with respect to complex arguments needs reverse mode: "
            'use jacrev, or jacobian(mode="reverse").'
        )

    def among_leaves(values: Iterable[Any], rest: Iterable[Any]) -> Any:
        values = iter(values)
        pairs = zip(primals, rest, strict=True)
        return unflatten(treedef, [other if primal is None else next(values) for primal, other in pairs])

    def of_inputs(*values: Array) -> Any:
        new_args, new_keywords = list(args), dict(keywords)
        for place, value in zip(places, among_leaves(values, leaves), strict=True):
            if isinstance(place, int):
                new_args[place] = value
            else:
                new_keywords[place] = value
        return call_users(function, new_args, new_keywords)

    of_inputs.__name__ = name_of(function)
    guarded = running.guarded
    found = along_all(lambda tangents: pushforward(of_inputs, inputs, tangents), unit_directions(inputs), chunk_size)
    if running.guarded > guarded:
        ones = [np.ones_like(x) for x in inputs]
        _warn_of_lost_products(found, lambda: pushforward(of_inputs, inputs, ones), "forward", "jacrev")
    return _by_columns(found, inputs, lambda blocks: among_leaves(blocks, [None] * len(leaves)), len(places))


def _warn_of_lost_products(found: Array, probe: Callable[[], Any], mode: str, other: str) -> None:
    """Warn if a Jacobian holds zeros that come from a slope and have won over infinities, as those of unit vectors do.

    Along a direction without zeros, only zeros of masks win, and the hidden infinities show as NaN.

    Args:
        found: the derivatives along all unit directions, which lie along the first axes.
        probe: returns the derivative along a direction of ones.
        mode: the mode that was used.
        other: the transform in the other mode.

    Warns:
        ZeroTimesInfinityWarning: there are such zeros.
    """
    rows, sums = flatten(found)[0], flatten(probe())[0]
    for row, total in zip(map(strip_ended, rows), map(strip_ended, sums), strict=True):
        if type(row) is np.ndarray and np.any(np.isnan(total) & np.all(np.isfinite(row), axis=0)):
            warnings.warn(
                f"the Jacobian by {mode} mode has zeros where a slope of 0 has met an infinite one. Such a zero cannot "
                f"be distinguished from a zero of a unit vector; the derivative is unknown, and fg.grad of a sum gives "
                f"nan. Compare with fg.{other}",
                errors.ZeroTimesInfinityWarning,
                stacklevel=depth_of_user(),
            )
            return


def _by_columns(found: ArrayLike, inputs: Sequence[Any], nested: Callable[[list[Any]], Any], count: int) -> list[Any]:
    """Return the Jacobian for each of several arguments from the tangents of the result along all unit directions.

    Args:
        found: the tangents, along first axes, with the structure of the result.
        inputs: the arrays in the arguments.
        nested: maps a list with an item for each array to a list with an item for each argument, of its structure.
        count: the number of arguments.
    """
    jacobians: list[list[Any]] = [[] for _ in range(count)]
    outputs, out_treedef = flatten(found)
    for columns in map(strip_ended, outputs):
        if columns.dtype.kind not in INEXACT:  # tangents of integers are integers; a Jacobian is not
            columns = np.zeros(columns.shape, np.result_type(*[x.dtype for x in inputs]))
        last = columns.transpose((*range(1, columns.ndim), 0))
        shapes = [(*columns.shape[1:], *x.shape) for x in inputs]
        blocks = [boxed(part.reshape(shape)) for part, shape in zip(_parts(last, inputs, -1), shapes, strict=True)]
        for own, block in zip(jacobians, nested(blocks), strict=True):
            own.append(block)
    return [unflatten(out_treedef, own) for own in jacobians]


def _by_transpose(traced: Linearization, chunk_size: int | None) -> list[Any]:
    """Return the result of `_by_pushforward`, for a function that has run already, by transposing its pullback."""
    arguments = list(traced.inputs.values())
    inputs = [x for each in arguments for x in each.primals if x is not None]

    def pull(cotangents: object) -> list[Any]:
        found = traced.pull(cotangents, "a cotangent", again=True)
        gradients = traced.gradients(found, UnconnectedGradients.ZERO)
        return [leaf for leaf in flatten(gradients)[0] if leaf is not None]

    def nested(blocks: list[Any]) -> list[Any]:
        rest = iter(blocks)
        return [each.nested(rest) for each in arguments]

    transposed = vjp(pull, tree_map(_any_cotangent, traced.result))[1]
    found = along_all(lambda tangents: transposed(tangents)[0], unit_directions(inputs), chunk_size)
    return _by_columns(found, inputs, nested, len(arguments))


def _run_jacobian(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    argnums: Selection,
    mode: str,
    chunk_size: int | None,
) -> Any:
    check_chunk_size(chunk_size)
    if mode not in ("auto", "forward", "reverse"):
        raise errors.ParameterError(f'mode must be "auto", "forward" or "reverse"; it is {mode!r}.')
    places, keywords = select(function, argnums, args, keywords)
    if mode == "forward" or (mode == "auto" and _has_few_inputs(args, keywords, places, chunk_size)):
        _refuse_integers("jacobian", function, args, keywords, places)
        found = _by_pushforward(function, args, keywords, places, chunk_size)
    else:
        traced = Linearization(function, args, keywords, places, transform="jacobian")
        by_columns = mode == "auto" and _is_tall(traced)
        found = _by_transpose(traced, chunk_size) if by_columns else _by_pullback(traced, chunk_size)
    return as_selected(found, argnums)


FEW = 8
"""Number of inputs up to which a Jacobian is computed forward, before the number of results is known."""


def _has_few_inputs(
    args: tuple[Any, ...], keywords: dict[str, Any], places: Sequence[int | str], chunk_size: int | None
) -> bool:
    """Return whether the arguments hold so few real numbers that one run with all their tangents is cheap."""
    leaves = [leaf for each in _chosen(args, keywords, places) for leaf in flatten(each)[0]]
    primals = [x for x in map(differentiable, leaves) if x is not None]
    return all(x.dtype.kind == "f" for x in primals) and sum(x.size for x in primals) <= min(FEW, chunk_size or FEW)


def _is_tall(traced: Linearization) -> bool:
    """Return whether a real Jacobian has so many more rows than columns that transposing takes less time."""
    outputs, inputs = _arrays(traced.result)[0], _arrays([each.tree for each in traced.inputs.values()])[0]
    is_real = all(x.dtype.kind == "f" for x in (*outputs, *inputs))
    return is_real and sum(x.size for x in outputs) > 2 * sum(x.size for x in inputs)


def as_selected(found: list[Any], argnums: Selection) -> Any:
    """Return the results for several arguments as a tuple, or the only one if a single argument was selected."""
    return found[0] if isinstance(argnums, (int, str, np.integer)) else tuple(found)


def _chosen(args: tuple[Any, ...], keywords: dict[str, Any], places: Sequence[int | str]) -> list[Any]:
    return [args[p] if isinstance(p, int) else keywords[p] for p in places]


def _refuse_integers(
    transform: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    places: Sequence[int | str],
) -> None:
    chosen = _chosen(args, keywords, places)
    if not all([type(x) is np.ndarray and x.dtype.kind == "f" for x in chosen]):  # noqa: C419  # common case
        refuse_integers(
            transform, function, {place: Input(ReverseTrace(), x) for place, x in zip(places, chosen, strict=True)}
        )


@overload
def jacobian(
    function: np.ufunc, argnums: Selection = 0, mode: str = "auto", chunk_size: int | None = None
) -> Callable[..., Any]: ...
@overload
def jacobian(
    function: Callable[P, Any], argnums: Selection = 0, mode: str = "auto", chunk_size: int | None = None
) -> Callable[P, Any]: ...
@overload
def jacobian(
    function: None = None, argnums: Selection = 0, mode: str = "auto", chunk_size: int | None = None
) -> Decorator[Any]: ...
@names_keywords
def jacobian(
    function: Callable[..., Any] | None = None,
    argnums: Selection = 0,
    mode: str = "auto",
    chunk_size: int | None = None,
) -> Any:
    """Return a function that computes the Jacobian of `function` as arrays.

    Args:
        function: takes floating-point numbers, arrays or containers of them in the arguments that are
            differentiated; returns numbers, arrays or containers of them.
        argnums: position or name of the argument to differentiate, or several.
        mode: "reverse", a pullback per element of the result; "forward", a pushforward per element of the arguments;
            "auto", pushforwards if the arguments have up to 8 elements, or less than half as many as the result, and
            otherwise pullbacks.
        chunk_size: the number of directions computed at once; a smaller one needs less memory. By default all, and
            `function` runs once; with mode="forward" it runs once for each chunk.

    Returns:
        A function of the same arguments. For a result `y` and an argument `x` it returns an array of shape `y.shape +
        x.shape`; containers of the result hold containers of the argument. For several `argnums` it returns a tuple.

    Raises:
        IntegerInputError: a TypeError; a differentiated argument holds integers.
        ParameterError: a ValueError; an option or `argnums` is invalid.
        NoResultError, NotCallableError: as for `grad`.

    Example:
        >>> jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
        Tensor([[2., 0.],
                [0., 4.]])
    """
    return decorator(_run_jacobian, function, argnums=argnums, mode=mode, chunk_size=chunk_size)


@overload
def jacrev(function: Callable[P, Any], argnums: Selection = 0, chunk_size: int | None = None) -> Callable[P, Any]: ...
@overload
def jacrev(function: None = None, argnums: Selection = 0, chunk_size: int | None = None) -> Decorator[Any]: ...
@names_keywords
def jacrev(function: Callable[..., Any] | None = None, argnums: Selection = 0, chunk_size: int | None = None) -> Any:
    """Return a function that computes the Jacobian by reverse mode: efficient for few results.

    Args:
        function, argnums, chunk_size: as for `jacobian`.

    Returns:
        As `jacobian`.

    Raises:
        IntegerInputError, ParameterError, NoResultError, NotCallableError: as for `jacobian`.

    Example:
        >>> jacrev(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
        Tensor([2., 4.])
    """
    return decorator(_run_jacobian, function, argnums=argnums, mode="reverse", chunk_size=chunk_size)


@overload
def jacfwd(function: Callable[P, Any], argnums: Selection = 0, chunk_size: int | None = None) -> Callable[P, Any]: ...
@overload
def jacfwd(function: None = None, argnums: Selection = 0, chunk_size: int | None = None) -> Decorator[Any]: ...
@names_keywords
def jacfwd(function: Callable[..., Any] | None = None, argnums: Selection = 0, chunk_size: int | None = None) -> Any:
    """Return a function that computes the Jacobian by forward mode: efficient for few arguments.

    Args:
        function, argnums, chunk_size: as for `jacobian`.

    Returns:
        As `jacobian`.

    Raises:
        IntegerInputError, ParameterError, NoResultError, NotCallableError: as for `jacobian`.

    Example:
        >>> jacfwd(lambda x: x * np.array([1.0, 2.0]))(3.0)
        Tensor([1., 2.])
    """
    return decorator(_run_jacobian, function, argnums=argnums, mode="forward", chunk_size=chunk_size)


def _run_hessian(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    argnums: Selection,
    chunk_size: int | None,
) -> Any:
    check_chunk_size(chunk_size)
    places, keywords = select(function, argnums, args, keywords)
    _refuse_integers("hessian", function, args, keywords, places)

    def slopes(*args: Array, **keywords: object) -> Any:
        return _run_jacobian(function, args, keywords, argnums, "reverse", chunk_size)

    slopes.__name__ = name_of(function)
    return as_selected(_by_pushforward(slopes, args, keywords, places, chunk_size), argnums)


@overload
def hessian(function: Callable[P, Any], argnums: Selection = 0, chunk_size: int | None = None) -> Callable[P, Any]: ...
@overload
def hessian(function: None = None, argnums: Selection = 0, chunk_size: int | None = None) -> Decorator[Any]: ...
@names_keywords
def hessian(function: Callable[..., Any] | None = None, argnums: Selection = 0, chunk_size: int | None = None) -> Any:
    """Return a function that computes the Hessian, by forward over reverse mode.

    Args:
        function, argnums, chunk_size: as for `jacobian`.

    Returns:
        A function of the same arguments. For a scalar result and an argument `x` it returns an array of shape `x.shape
        + x.shape`; containers hold containers, one for each of the two derivatives.

    Raises:
        IntegerInputError, ParameterError, NoResultError, NotCallableError: as for `jacobian`.

    Example:
        >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([3.0, 5.0]))
        Tensor([[10.,  6.],
                [ 6.,  0.]])
    """
    return decorator(_run_hessian, function, argnums=argnums, chunk_size=chunk_size)


def _point_and_vector(
    name: str, function: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Any, Any, tuple[Any, ...]]:
    if len(args) < 2:
        raise errors.TangentError(
            f"{name} of {name_of(function)} takes a point and a vector, and was called with "
            f"{len(args)} argument{'s' * (len(args) != 1)}.\nWrite {name}(f)(x, v)."
        )
    refuse_integers(name, function, {0: Input(ReverseTrace(), args[0])})
    _check_vector(f"{name}({name_of(function)})(x, v)", args[0], args[1])
    return args[0], args[1], args[2:]


def _check_vector(call: str, x: Any, v: Any) -> None:
    """Raise if a vector does not have the containers and shapes of a point.

    Args:
        call: the call of both, for messages.
        x, v: the point and the vector.

    Raises:
        TangentError: they differ.
    """
    leaves, treedef = flatten(x)
    directions, given = flatten(v)
    wanted = "v has the containers and shapes of x."
    if treedef != given:
        raise errors.TangentError(
            f"{call}: x has the structure {outline_of(treedef)}, and v {outline_of(given)}.\n{wanted}"
        )
    for place, (leaf, direction) in enumerate(zip(leaves, directions, strict=True)):
        if np.shape(direction) != np.shape(leaf):
            path = paths(x)[place]
            raise errors.TangentError(
                f"{call}: x{path} has shape {np.shape(leaf)}, and v{path} has shape {np.shape(direction)}.\n{wanted}"
            )


def _run_hvp(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    x, v, rest = _point_and_vector("hvp", function, args)
    gradient: Callable[..., Any] = grad(function)
    return jvp(lambda x: gradient(x, *rest, **keywords), (x,), (v,))[1]


@names_keywords
def hvp(function: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return a function that multiplies the Hessian with a vector.

    The matrix is never allocated: the product is the pushforward of the gradient, a few times the gradient's cost.

    Args:
        function: a function of `x`, a container of floating-point arrays, and possibly of more; returns a number.

    Returns:
        `product(x, v, *args)`, where `v` has the structure of `x`; so has the product. This is the form of `hessp` in
        `scipy.optimize.minimize`.

    Raises:
        TangentError: a ValueError; `x` and `v` differ in structure or shape.
        NonScalarError, IntegerInputError, NoResultError, NotCallableError: as for `grad`.

    Example:
        >>> hvp(lambda x: x[0] ** 2 * x[1])(np.array([3.0, 5.0]), np.array([1.0, 10.0]))
        Tensor([70.,  6.])
    """
    return decorator(_run_hvp, function)  # type: ignore[no-any-return]


def _run_gauss_newton_vp(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    x, v, rest = _point_and_vector("gauss_newton_vp", function, args)

    pullbacks: list[Callable[..., Any]] = []

    def residuals(x: Any) -> Any:
        value, pullback = vjp(lambda x: function(x, *rest, **keywords), x)
        pullbacks.append(pullback)
        return value

    along = jvp(residuals, (x,), (v,))[1]
    return pullbacks[0](along)[0]


@names_keywords
def gauss_newton_vp(residuals: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return a function that multiplies J^T J with a vector, where J is the Jacobian of the residuals.

    J^T J is the Gauss-Newton approximation of the second derivatives of half the sum of squares (Schraudolph,
    https://doi.org/10.1162/08997660260028683). No matrix is allocated.

    Args:
        residuals: a function of `x`, a container of floating-point arrays, and possibly of more; returns arrays, too.

    Returns:
        `product(x, v, *args)`, where `v` has the structure of `x`; so has the product.

    Raises:
        TangentError: a ValueError; `x` and `v` differ in structure or shape.
        IntegerInputError, NoResultError, NotCallableError: as for `grad`.

    Example:
        >>> gauss_newton_vp(lambda x: x**2)(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
        Tensor([ 4., 16.])
    """
    return decorator(_run_gauss_newton_vp, residuals)  # type: ignore[no-any-return]


def linearize(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the value of a function, and its pushforward at that point as a function.

    The function runs once; the pushforward is the transpose of the pullback, and can be called repeatedly.

    Args:
        function: a function of the primals; returns numbers, arrays or containers of them.
        primals: the point.

    Returns:
        `(value, pushforward)`; `pushforward(*tangents)` takes a tangent per primal, of its structure and shapes, and
        returns the tangent of the value.

    Raises:
        SeedError: a ValueError, from the pushforward; tangents do not match the primals.
        NoResultError, NotCallableError: as for `grad`.

    Example:
        >>> value, pushforward = linearize(lambda x, y: x * y, 2.0, 3.0)
        >>> pushforward(1.0, 10.0)
        Tensor(23.)
    """
    if not primals:
        raise errors.ParameterError(
            "linearize takes the point together with the function: value, pushforward = linearize(f, x)."
        )
    _refuse_integers("linearize", function, primals, {}, range(len(primals)))
    value, pullback = vjp(function, *primals)
    _, transposed = vjp(pullback, tree_map(_any_cotangent, value))

    def pushforward(*tangents: Array) -> Any:
        return transposed(tangents)[0]

    return value, pushforward


def _any_cotangent(value: Array) -> Array:
    """Return a cotangent at which a pullback is transposed: 1, 2, 3, ...

    For a linear function any point serves. But rules treat zeros as "not used", and refuse a cotangent of a derivative
    that does not exist; so it has no zeros and no symmetries.
    """
    return np.reshape(np.cumsum(np.ones_like(value)), np.shape(value))


def _run_elementwise_grad(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], argnums: Selection
) -> Any:
    places, keywords = select(function, argnums, args, keywords)
    traced = Linearization(function, args, keywords, places)
    refuse_integers("elementwise_grad", function, traced.inputs)
    return traced.gradients(traced.pull(None, "dy"), UnconnectedGradients.ZERO)[0]


@names_keywords
def elementwise_grad(function: Callable[..., Any] | None = None, argnums: int | str = 0) -> Callable[..., Any]:
    """Return a function that computes the derivative of an elementwise function, element by element.

    Args:
        function: an elementwise function, such as `np.sin`.
        argnums: position or name of the argument to differentiate.

    Returns:
        A function of the same arguments that returns an array of the shape of the argument. If an element of the result
        depends on several elements, their derivatives are summed.

    Raises:
        IntegerInputError: a TypeError; the argument holds integers.
        ParameterError, NoResultError, NotCallableError: as for `grad`.

    Example:
        >>> elementwise_grad(lambda x: x**3)(np.array([1.0, 2.0]))
        Tensor([ 3., 12.])
    """
    return decorator(_run_elementwise_grad, function, argnums=argnums)  # type: ignore[no-any-return]
