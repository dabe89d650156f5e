"""`fgrad.to_jax`: a function of NumPy code as a function of JAX arrays."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, ParamSpec

from fgrad import errors
from fgrad.engines.jax.engine import JaxEngine
from fgrad.native.options import Options
from fgrad.native.programs import Programs
from fgrad.native.static_arguments import OfInstances
from fgrad.transforms.calls import Transformed, name_of

P = ParamSpec("P")

_ENGINE = JaxEngine()


class InJax(Transformed):
    """The function that `to_jax` returns.

    Args:
        function: the user's function.
        static: names or positions of static arguments.
        programs: existing programs, for a method of one object.
    """

    def __init__(self, function: Callable[..., Any], static: Any = (), programs: Programs | None = None) -> None:
        self._static = static
        super().__init__(_run_to_jax, function, {"programs": programs or self._new()})
        self._of_instances = OfInstances(self._new)

    def _new(self) -> Programs:
        return Programs(self._static, Options(backend="jax", inline=True))

    def __get__(self, instance: object, owner: type | None = None) -> InJax:
        if instance is None or not hasattr(self._function, "__get__"):
            return self
        return InJax(self._function.__get__(instance, owner), self._static, self._of_instances[instance])

    def __reduce__(self) -> Any:
        whole = super().__reduce__()
        return whole if isinstance(whole, str) or whole[0] is getattr else (InJax, (self._function, self._static))


def _evaluating() -> contextlib.AbstractContextManager[None]:
    """Return a context in which, also under `jax.jit`, functions of JAX run on the examples of a recording."""
    evaluating = getattr(sys.modules.get("jax"), "ensure_compile_time_eval", contextlib.nullcontext)
    return evaluating()


def _run_to_jax(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs
) -> Any:
    with _evaluating():
        program, inputs = programs.for_arrays(_ENGINE, function, args, keywords)
    if program.assigned:
        raise errors.RecordedAssignmentError(
            f"variable {program.assigned[0].name!r} is assigned in {name_of(function)}, which is to be a JAX "
            "function.\nReturn the new value, and assign it outside; or use fg.compile(f, backend='jax')."
        )
    return program.with_arrays(inputs)


def to_jax(function: Callable[P, Any], *, static: Any = ()) -> Callable[P, Any]:
    """Return a function of JAX arrays that computes the same as NumPy code.

    The first call records what `function` computes with NumPy for arguments of these shapes and dtypes; the record runs
    as JAX operations. So `jax.jit`, `jax.vmap` and `jax.grad` treat it like a function that was written for JAX, and
    it can be part of a larger one. This includes derivatives computed by fgrad: `to_jax(fg.grad(f))`.

    Args:
        function: takes and returns arrays, numbers or containers of them. It cannot use concrete values that depend on
            its arguments (`if x > 0`). The fgrad variables that it reads have their values at the time of the call.
        static: names or positions of static arguments, which are part of the program.

    Returns:
        A function of the same arguments, as JAX or NumPy arrays, which returns JAX arrays.

    Raises:
        MissingExtraError: an ImportError, from a call; JAX is not installed: `pip install 'fgrad[jax]'`.
        NotLoweredError: a NotImplementedError, from a call; JAX has no counterpart of an operation.
        DtypeError: a TypeError, from a call; the program computes in 64 bits, for which JAX is not configured.
        ConcretizationError: a TypeError, from a call; `function` needs a concrete value.
        FrozenValueError: a RuntimeError, from a call; it uses a value that changes from call to call.
        RecordedAssignmentError: a RuntimeError, from a call; it assigns to a variable.
        NotCallableError: a TypeError; `function` is not a function.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> energy = fg.to_jax(lambda x: np.sum(np.sin(x) ** 2))
        >>> energy
        <to_jax of <function <lambda> at ...>>

        For JAX arrays, `jax.jit(energy)(jax.numpy.ones(3))` compiles it with XLA.
    """
    return InJax(function, static)
