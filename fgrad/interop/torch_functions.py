"""PyTorch functions as operations.

from_torch(f, device=None)    f for arrays and tensors; differentiated and mapped by PyTorch
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ParamSpec, overload

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.errors.places import depth_of_user
from fgrad.interop.imported import Library, Numbers, Theirs, call, load, split
from fgrad.rules.rule import Leaves
from fgrad.transforms.calls import Decorator, decorator

P = ParamSpec("P")


def is_moving(x: Any) -> bool:
    """Return whether a tensor of PyTorch has a derivative."""
    return bool(x.is_floating_point() or x.is_complex())


class _Torch(Library):
    """The interface of PyTorch: autograd for first derivatives, and torch.func for everything derived from them.

    autograd supports every function that PyTorch can differentiate; torch.func, whose transforms compose, does not.

    Args:
        device: the device of its tensors; None: PyTorch's default.
    """

    name = "PyTorch"
    array = "tensors of PyTorch"

    def __init__(self, device: Any) -> None:
        self._torch = load("torch")
        self._chosen = device

    @property
    def _device(self) -> Any:
        return self._torch.get_default_device() if self._chosen is None else self._torch.device(self._chosen)

    @override
    def is_result(self, x: Any) -> bool:
        # A number or NumPy array may have been extracted from a tensor.
        return isinstance(x, self._torch.Tensor)

    @override
    def mode(self, arrays: Leaves) -> AbstractContextManager[Any]:
        return nullcontext()

    @override
    def run(self, function: Theirs, arrays: Leaves) -> list[Any]:
        with self._torch.no_grad():
            return self._back(function(self._over(arrays)))

    @override
    def pulling(self, function: Theirs, arrays: Leaves, name: str | None) -> tuple[list[Any], Numbers]:
        torch = self._torch
        with torch.enable_grad():
            given = self._over(arrays)
            moved = [x.requires_grad_() for x in given if is_moving(x)]
            # Copies, since the function may write into them: PyTorch forbids that for leaf tensors of a graph.
            results = function([x.clone() if x.requires_grad else x for x in given])
        moving = [x for x in results if is_moving(x)]
        connected = [x.requires_grad for x in moving]
        if name and moved and moving and not any(connected):
            raise _detached(name)

        def pulled(cotangents: Leaves) -> Leaves:
            used = [ct for ct, own in zip(self._over(cotangents), connected, strict=True) if own]
            if not used:
                return [np.zeros(x.shape, x.dtype) for x in arrays if x.dtype.kind in "fc"]
            ends = [x for x, own in zip(moving, connected, strict=True) if own]
            found = torch.autograd.grad(ends, moved, used, retain_graph=True, materialize_grads=True)
            return self._back(found)

        return self._back(results), pulled

    @override
    def pushing(self, function: Theirs, arrays: Leaves) -> tuple[list[Any], None]:
        # torch.func.linearize would trace the function, which takes longer than running it again.
        return self.run(function, arrays), None

    @override
    def pulled(self, function: Theirs, moving: Sequence[bool]) -> Theirs:
        def pulled(arrays: list[Any]) -> list[Any]:
            moved, run = self._split(function, arrays[: len(moving)], moving)
            with _noted("a derivative of higher order, or one under vmap"):
                _, pull = self._torch.func.vjp(run, *moved)
                return list(pull(tuple(arrays[len(moving) :])))

        return pulled

    @override
    def pushed(self, function: Theirs, moving: Sequence[bool]) -> Theirs:
        def pushed(arrays: list[Any]) -> list[Any]:
            moved, run = self._split(function, arrays[: len(moving)], moving)
            with _noted("forward mode"):
                return list(self._torch.func.jvp(run, moved, tuple(arrays[len(moving) :]))[1])

        return pushed

    @override
    def mapped(self, function: Theirs, axes: Sequence[int | None], name: str) -> Theirs:
        def mapped(arrays: list[Any]) -> list[Any]:
            run = self._torch.func.vmap(
                lambda *each: tuple(function(list(each))), in_dims=tuple(axes), randomness="same"
            )
            try:
                return list(run(*arrays))
            except RuntimeError:  # such as from `if x > 0`
                results = self._looped(function, arrays, axes)
            _warn_of_loop(name)
            return results

        return mapped

    def _looped(self, function: Theirs, arrays: list[Any], axes: Sequence[int | None]) -> list[Any]:
        size = next(len(x) for x, axis in zip(arrays, axes, strict=True) if axis == 0)
        again, has_run = self.pinned(function)
        examples = [[x if axis is None else x[i] for x, axis in zip(arrays, axes, strict=True)] for i in range(size)]
        results = [function(examples[0])]
        has_run()
        results += [again(example) for example in examples[1:]]
        return [self._torch.stack(each) for each in zip(*results, strict=True)]

    @override
    def pinned(self, function: Theirs) -> tuple[Theirs, Callable[[], None]]:
        states = _RandomState(self._torch, self._device)

        def again(arrays: list[Any]) -> list[Any]:
            with states.again():
                return function(arrays)

        return again, states.keep_used

    def _split(self, function: Theirs, arrays: list[Any], moving: Sequence[bool]) -> tuple[tuple[Any, ...], Any]:
        """Return the differentiated arrays, and the function of copies of them to the floating-point results."""
        moved, run = split(function, arrays, moving, is_moving)
        return moved, lambda *moved: run(*(x.clone() for x in moved))[0]

    def _over(self, arrays: Leaves) -> list[Any]:
        """Return PyTorch tensors: copies, since a PyTorch function may write into its arguments."""
        try:
            return [self._torch.from_numpy(np.array(x)).to(self._device) for x in arrays]
        except TypeError:
            dtypes = ", ".join(str(dtype) for dtype in {x.dtype for x in arrays})
            raise errors.DtypeError(
                f"PyTorch, on {self._device}, has no tensors of one of the dtypes {dtypes}.\n"
                "Convert them before the call: x.astype(np.float64)."
            ) from None

    def _back(self, results: Sequence[Any]) -> list[Any]:
        """Return copies as NumPy arrays: the function may keep its results, and write into them later."""
        try:
            return [np.array(x.detach().resolve_conj().resolve_neg().cpu().numpy()) for x in results]
        except TypeError:
            dtypes = ", ".join(str(dtype) for dtype in {x.dtype for x in results})
            raise errors.DtypeError(
                f"a function of PyTorch returned tensors of dtype {dtypes}, of which NumPy does not have all.\n"
                "Let it return x.float()."
            ) from None


class _RandomState:
    """The state of PyTorch's generator for a device, and for the processor."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self._cuda = [device] if device.type == "cuda" else []
        self._states: list[Any] | None = self._now()

    def _now(self) -> list[Any]:
        return [self._torch.get_rng_state(), *(self._torch.cuda.get_rng_state(device) for device in self._cuda)]

    def keep_used(self) -> None:
        """Discard the saved state if no random number was drawn since."""
        if self._states is not None and all(map(self._torch.equal, self._states, self._now())):
            self._states = None

    @contextmanager
    def again(self) -> Iterator[None]:
        """Restore the saved generator states inside the block."""
        if self._states is None:
            yield
            return
        with self._torch.random.fork_rng(devices=self._cuda):
            self._torch.set_rng_state(self._states[0])
            for device, state in zip(self._cuda, self._states[1:], strict=True):
                self._torch.cuda.set_rng_state(state, device)
            yield


@contextlib.contextmanager
def _noted(what: str) -> Iterator[None]:
    """Add a note to a PyTorch error: why the function ran under torch.func."""
    try:
        yield
    except RuntimeError as error:
        if not getattr(error, "__notes__", None):
            error.add_note(
                f"The function ran under torch.func, for {what}; first derivatives in reverse mode use autograd."
            )
        raise


@functools.cache
def _warn_of_loop(name: str) -> None:
    warnings.warn(
        f"torch.func.vmap cannot map {name}, which runs in a loop, one example after the other",
        errors.LoopWarning,
        stacklevel=depth_of_user(),
    )


def _detached(name: str) -> errors.DetachedError:
    return errors.DetachedError(
        f"{name} returned tensors that PyTorch does not connect to its arguments: all its derivatives would be zero.\n"
        "Values leave PyTorch's graph by .detach(), .item(), .numpy(), torch.tensor(x) and in torch.no_grad(). If the "
        "result is to be a constant, pass fg.stop_gradient(x)."
    )


_library = functools.cache(_Torch)


def _run_from_torch(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], device: object
) -> Any:
    return call(_library(device), function, args, keywords)


@overload
def from_torch(function: Callable[P, Any], device: Any = None) -> Callable[P, Any]: ...
@overload
def from_torch(function: None = None, device: Any = None) -> Decorator[Any]: ...
def from_torch(function: Any = None, device: Any = None) -> Any:
    """Make a function written with PyTorch one operation.

    PyTorch computes its value and its derivatives, and all transforms support it. First derivatives in reverse
    mode use autograd; forward mode, higher orders and `vmap` use `torch.func`, which does not support every
    function: an `autograd.Function` needs `setup_context`, and a function that needs concrete values under `vmap`
    runs in a loop instead, with a warning. When a function is run again, it draws the same random numbers.

    Arrays are copied, since PyTorch functions may write into tensors.

    Args:
        function: takes and returns PyTorch tensors, or containers of them, such as an `nn.Module`. Arrays and tensors
            are converted to PyTorch tensors of the same dtype, and so are floats if there is no floating-point array;
            other arguments, such as Python integers, are passed unchanged. Parameters of a module are constants:
            `torch.func.functional_call` makes them arguments.
        device: the device of its tensors, such as "cuda"; None: PyTorch's default.

    Returns:
        A function of NumPy arrays, tensors and containers of them, which returns fgrad tensors.

    Raises:
        MissingExtraError: an ImportError, from a call; PyTorch is not installed.
        NotCallableError: a TypeError; `function` is not a function.
        OutputError: a TypeError, from a call; `function` returned something that is not a PyTorch tensor.
        DetachedError: a TypeError; no result depends on the arguments, and derivatives are needed.
        DtypeError: a TypeError, from a call; PyTorch lacks the dtype of an argument, or NumPy that of a result.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> from fgrad.interop import from_torch
        >>> energy = from_torch(lambda x: (x.sin() ** 2).sum())
        >>> fg.grad(lambda x: energy(np.exp(x)))(np.array([0.0, 1.0]))
        Tensor([ 0.90929743, -2.0361194 ])
    """
    return decorator(_run_from_torch, function, device=device)
