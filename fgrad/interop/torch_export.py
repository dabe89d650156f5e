"""Functions of arrays as operations of PyTorch.

    to_torch(f)    f for PyTorch tensors; fgrad computes its derivatives under PyTorch's autograd

For PyTorch a call is one `autograd.Function`. Its backward pass is fgrad's pullback; under a higher derivative in
PyTorch, the pullback is a function of arrays like any other and becomes such an operation again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec

import numpy as np

from fgrad import errors
from fgrad.core.tensor import boxed
from fgrad.core.tree import flatten, unflatten
from fgrad.interop.imported import are_moving, load, split
from fgrad.interop.torch_functions import is_moving
from fgrad.rules.rule import settled
from fgrad.transforms.batch import vmap
from fgrad.transforms.calls import decorator, name_of
from fgrad.transforms.forward import jvp
from fgrad.transforms.reverse import vjp

P = ParamSpec("P")

Flat = Callable[[list[Any]], list[Any]]
"""A function from a list of arrays to a list of arrays."""


@dataclass(eq=False)
class _Lent:
    """One call of a function of arrays, as an argument of PyTorch's autograd function.

    Attributes:
        function: from a list of arrays to a list of results.
        wanted: which arrays require gradients.
        device: the device of the results.
        pull: the pullback from floating-point results to the arrays in `wanted`, set by the run.
        outside: which results are of floating point; set by the run.
    """

    function: Flat
    wanted: Sequence[bool]
    device: Any
    pull: Callable[[list[Any]], list[Any]] | None = None
    outside: list[bool] = field(default_factory=list)

    def run(self, arrays: list[Any]) -> list[Any]:
        """Return the results, and keep the pullback if it is needed."""
        if not any(self.wanted):
            results = [settled(x) for x in self.function(arrays)]
        else:
            results, self.pull = _pulling(self.function, arrays, self.wanted)
        self.outside = are_moving(results)
        return results

    def pulled(self) -> Flat:
        """Return the pullback to the arrays in `wanted`, as a function of arrays and cotangents."""
        count = len(self.wanted)
        return lambda arrays: _pulling(self.function, arrays[:count], self.wanted)[1](arrays[count:])

    def pushed(self, moving: Sequence[bool]) -> Flat:
        """Return the pushforward, as a function of the arrays and of the tangents of floating-point arrays."""
        count = len(moving)

        def pushed(arrays: list[Any]) -> list[Any]:
            moved, run = _split(self.function, arrays[:count], moving)
            return list(jvp(run, moved, arrays[count:], has_aux=True)[1])

        return pushed

    def mapped(self, axes: Sequence[int | None]) -> Flat:
        """Return the batched function, with batch axis 0 for those arrays whose axis is 0."""
        return vmap(self.function, in_axes=(list(axes),))


def _split(function: Flat, arrays: list[Any], wanted: Sequence[bool]) -> tuple[tuple[Any, ...], Callable[..., Any]]:
    """Return the differentiated arrays, and the function of them to the floating-point results, and to all."""
    return split(lambda arrays: list(map(settled, function(arrays))), arrays, wanted, lambda x: x.dtype.kind in "fc")


def _pulling(function: Flat, arrays: list[Any], wanted: Sequence[bool]) -> tuple[list[Any], Any]:
    """Return the results of a function and its pullback, on lists."""
    moved, run = _split(function, arrays, wanted)
    _, pull, results = vjp(run, *moved, has_aux=True)
    return [settled(x) for x in results], lambda cotangents: list(pull(tuple(cotangents)))


@functools.cache
def _operation() -> Any:
    """Return the `autograd.Function` class of calls; PyTorch must be imported."""
    torch = load("torch")

    class FgradFunction(torch.autograd.Function):  # type: ignore[misc, name-defined]  # of a module that is Any
        """A call of a function of arrays."""

        @staticmethod
        def forward(lent: _Lent, *tensors: object) -> Any:
            return tuple(_tensor(torch, x, lent.device) for x in lent.run(_arrays(tensors)))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.lent, *tensors = inputs
            ctx.save_for_backward(*tensors)  # PyTorch rejects the backward pass if one of them was modified
            ctx.save_for_forward(*tensors)
            ctx.mark_non_differentiable(*(x for x in output if not is_moving(x)))

        @staticmethod
        def backward(ctx: Any, *cotangents: object) -> Any:
            lent, tensors = ctx.lent, ctx.saved_tensors
            wanted = [bool(need) and is_moving(x) for need, x in zip(ctx.needs_input_grad[1:], tensors, strict=True)]
            given = [ct for ct, own in zip(cotangents, lent.outside, strict=True) if own]
            followed = torch.is_grad_enabled() or not all(_is_alone(torch, x) for x in [*tensors, *given])
            if lent.pull is None or lent.wanted != wanted or followed:
                again = _Lent(lent.function, wanted, lent.device)
                found = iter(_apply(torch, again.pulled(), [*tensors, *given], lent.device))
            else:
                found = iter([_tensor(torch, x, lent.device) for x in lent.pull(_arrays(given))])
            return (None, *(next(found) if own else None for own in wanted))

        @staticmethod
        def jvp(ctx: Any, _: object, *tangents: object) -> tuple[Any, ...]:
            lent, tensors = ctx.lent, ctx.saved_tensors
            moving = [t is not None and is_moving(x) for t, x in zip(tangents, tensors, strict=True)]
            given = [t for t, own in zip(tangents, moving, strict=True) if own]
            found = iter(_apply(torch, lent.pushed(moving), [*tensors, *given], lent.device))
            return tuple(next(found) if own else None for own in lent.outside)

        @staticmethod
        def vmap(info: object, in_dims: Any, lent: _Lent, *tensors: Any) -> Any:
            axes = in_dims[1:]
            moved = [x if axis is None else x.movedim(axis, 0) for x, axis in zip(tensors, axes, strict=True)]
            mapped = lent.mapped([None if axis is None else 0 for axis in axes])
            results = _apply(torch, mapped, moved, lent.device)
            lent.outside = [is_moving(x) for x in results]
            return tuple(results), (0,) * len(results)

    return FgradFunction


def _apply(torch: Any, function: Flat, tensors: Sequence[Any], device: object) -> Sequence[Any]:
    """Return the results of a function of arrays as tensors in PyTorch's graph."""
    follows = torch.is_grad_enabled()
    wanted = [follows and x.requires_grad for x in tensors]
    return _operation().apply(_Lent(function, wanted, device), *tensors)  # type: ignore[no-any-return]


def _is_alone(torch: Any, x: Any) -> bool:
    """Return whether a tensor has no torch.func transform and no tangent."""
    try:
        x.data_ptr()
    except RuntimeError:
        return False
    return torch.autograd.forward_ad.unpack_dual(x).tangent is None


def _arrays(tensors: Sequence[Any]) -> list[Any]:
    """Return read-only fgrad tensors on the memory of PyTorch tensors."""
    try:
        arrays = [x.detach().resolve_conj().resolve_neg().cpu().numpy() for x in tensors]
    except TypeError:
        dtypes = ", ".join(str(dtype) for dtype in {x.dtype for x in tensors})
        raise errors.DtypeError(
            f"NumPy does not have all of the dtypes {dtypes}, which PyTorch tensors among the arguments have.\n"
            "Convert them before the call: x.float()."
        ) from None
    for array in arrays:
        array.flags.writeable = False
    return [boxed(array) for array in arrays]


def _tensor(torch: Any, x: Any, device: Any) -> Any:
    """Return a copy of an array as a PyTorch tensor, which may be written to."""
    return torch.from_numpy(np.array(x)).to(device)


def _run_to_torch(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    torch = load("torch")
    leaves, treedef = flatten((args, keywords))
    places = [isinstance(x, torch.Tensor) for x in leaves]
    tensors = [x for x, place in zip(leaves, places, strict=True) if place]
    structure: list[Any] = []

    def flat(arrays: list[Any]) -> list[Any]:
        rest = iter(arrays)
        whole = [next(rest) if place else x for x, place in zip(leaves, places, strict=True)]
        given, named = unflatten(treedef, whole)
        results, structure[:] = _results(function, function(*given, **named))
        return results

    device = tensors[0].device if tensors else torch.get_default_device()
    results = _apply(torch, flat, tensors, device)
    return unflatten(structure[0], results)


def _results(function: Callable[..., Any], result: Any) -> tuple[list[Any], list[Any]]:
    """Return the arrays in the result of a function, and its structure."""
    leaves, treedef = flatten(result)
    arrays = [settled(x) for x in leaves]
    wrong = [x for x, array in zip(leaves, arrays, strict=True) if getattr(array.dtype, "kind", None) not in {*"biufc"}]
    if result is None or wrong:
        what = "None" if result is None else f"{wrong[0]!r:.100} of type {type(wrong[0]).__name__}"
        raise errors.OutputError(
            f"{name_of(function)} must return arrays, but it returned {what}.\n"
            "Return arrays, or containers of them; a class of your own is a container after fg.register_pytree_node."
        )
    return arrays, [treedef]


def to_torch(function: Callable[P, Any]) -> Callable[P, Any]:
    """Make a function of arrays an operation of PyTorch.

    Under PyTorch's autograd, fgrad computes its derivatives: in both modes and to any order, with `create_graph=True`
    or `torch.func`, and `torch.func.vmap` is `fg.vmap`. It runs on the CPU; tensors on another device are
    copied there and back.

    Args:
        function: written with NumPy and SciPy; takes and returns arrays or containers of them. PyTorch tensors are
            converted to fgrad tensors; other arguments are passed unchanged. Values that it closes over are constants.

    Returns:
        A function of PyTorch tensors, and of containers of them, which returns PyTorch tensors in the dtypes of
        the results, on the device of the first tensor argument.

    Raises:
        MissingExtraError: an ImportError, from a call; PyTorch is not installed.
        NotCallableError: a TypeError; `function` is not a function.
        OutputError: a TypeError, from a call; `function` returned something that is not an array.
        DtypeError: a TypeError, from a call; NumPy does not support the dtype of a tensor.

    Example:
        >>> import numpy as np, torch
        >>> from fgrad.interop import to_torch
        >>> energy = to_torch(lambda x: np.sum(np.sin(x) ** 2))
        >>> x = torch.tensor([0.0, 1.0], requires_grad=True)
        >>> energy(x.exp()).backward()
        >>> x.grad
        tensor([ 0.9093, -2.0361])
    """
    return decorator(_run_to_torch, function)  # type: ignore[no-any-return]
