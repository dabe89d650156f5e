"""A recorded program as JAX operations.

    Run().computed(block, leaves)     the results for JAX arrays
    prepared(block)                   the program with loops; raises for operations without a counterpart

Errors that NumPy would have raised are recorded while a program runs: `run.failed()` says whether there were any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.tensor import strip_ended
from fgrad.engines.jax import elements, indices, matrices, orders, sums  # noqa: F401  # which register rules
from fgrad.engines.jax.integers import void_integers
from fgrad.engines.jax.library import alike, cast, dtype_of, exactly, in_native_order, is_known, jnp, lax
from fgrad.engines.jax.table import AS_GIVEN, MADE_OF_OTHERS, REFUSALS, is_lowered, rule_of
from fgrad.graphs.derived import implementation_of, of_arrays
from fgrad.graphs.equations import Equation, Name, kind_of, names_of
from fgrad.graphs.graph import Block
from fgrad.graphs.integers import always
from fgrad.graphs.loop import Iterations, iterations_of
from fgrad.graphs.loop_invariants import simplified
from fgrad.graphs.record import CalledAgain
from fgrad.graphs.rerolling import rerolled
from fgrad.native.user_primitives import USERS

Leaves = Sequence[Any]

_WEAK = {"f": float, "i": int, "c": complex}


class Run:
    """One evaluation of a program.

    Attributes:
        failures: booleans, each of which is true if NumPy would have raised.
    """

    def __init__(self) -> None:
        self.failures: list[Any] = []

    def failed(self) -> Any:
        """Return whether NumPy would have raised; None if it never raises."""
        return functools.reduce(jnp.logical_or, self.failures) if self.failures else None

    def computed(self, block: Block, leaves: Leaves) -> list[Any]:
        """Return the results of a program: JAX arrays, NumPy arrays where known, and objects that are not numbers."""
        values: dict[Name, Any] = {name: in_native_order(x) for name, x in block.constants.items()}
        pairs = zip(block.inputs, leaves, strict=True)
        values.update((name, cast(x, name.dtype)) for name, x in pairs)
        with exactly():
            for equation in block.equations:
                inputs = [values[x] if type(x) is Name else in_native_order(strip_ended(x)) for x in equation.inputs]
                values.update(zip(equation.outputs, self._results(equation, inputs), strict=True))
        return [values[each] if type(each) is Name else each for each in block.outputs]

    def _results(self, equation: Equation, inputs: list[Any]) -> list[Any]:
        try:
            found = self._found(equation, inputs)
        except (TypeError, ValueError, NotImplementedError, AttributeError, IndexError) as error:
            if isinstance(error, errors.FgradError):
                raise
            raise errors.NotLoweredError(_message([equation], str(error).partition("\n")[0])) from error
        return [_fitting(equation, x, name) for x, name in zip(found, equation.outputs, strict=True)]

    def _found(self, equation: Equation, inputs: list[Any]) -> Sequence[Any]:
        iterations = iterations_of(equation)
        if iterations is not None:
            return self._turned(iterations, inputs)
        if (known := always(equation)) is not None:
            return [np.full(equation.outputs[0].shape, known)]
        self.failures += void_integers(equation, inputs)
        if (theirs := _function_of_jax(equation)) is not None:
            return theirs(list(map(jnp.asarray, inputs)))
        if is_made_of_others(equation):
            return self._made(equation, inputs)
        name = equation.primitive.name
        rule = rule_of(name)
        if rule is None:
            raise errors.NotLoweredError(_message([equation], "this version of JAX has no such function"))
        arguments = arguments_of(equation, inputs)
        ans = rule(*arguments, **equation.metadata)
        refused = REFUSALS[name](ans, *arguments, **equation.metadata) if name in REFUSALS else None
        if refused is not None and not (is_known(refused) and not refused.any()):
            self.failures.append(jnp.any(refused))
        return ans if isinstance(ans, (tuple, list)) else (ans,)

    def _made(self, equation: Equation, inputs: list[Any]) -> list[Any]:
        """Return the results of an operation from the recorded program of its implementation."""
        block = _stand_in(equation)
        check_known(block)
        return self.computed(block, of_arrays(equation, inputs))

    # Loops

    def _turned(self, iterations: Iterations, inputs: list[Any]) -> list[Any]:
        names = iterations.body.inputs
        given = [x if is_known(x) else cast(x, name.dtype) for x, name in zip(inputs, names, strict=False)]
        shared, carry, arrays = iterations.parted(given)
        carried = iterations.parted(names)[1]
        carry = [jnp.asarray(cast(x, name.dtype)) for x, name in zip(carry, carried, strict=True)]
        if iterations.condition is not None:
            return self._while(iterations, shared, carry, carried)
        rows = [
            jnp.asarray(x)[along.as_slice(iterations.count)] for x, along in zip(arrays, iterations.reads, strict=True)
        ]
        failures: list[Any] = []

        def iteration(carry: Any, row: Any) -> Any:
            run = Run()
            found = run.computed(iterations.body, [*shared, *carry, *row])
            failures.extend(run.failures)
            after = [_array(x, name) for x, name in zip(found, carried, strict=False)]
            return after, ([jnp.asarray(x) for x in found[len(after) :]], run.failed() if run.failures else False)

        carry, (made, failed) = lax.scan(iteration, carry, rows, length=iterations.count)
        if failures:
            self.failures.append(jnp.any(failed))
        return [*carry, *(x[:: along.step] for x, along in zip(made, iterations.writes, strict=True))]

    def _while(self, iterations: Iterations, shared: Leaves, carry: Leaves, carried: Sequence[Name]) -> list[Any]:
        condition = iterations.condition
        assert condition is not None
        limit = min(iterations.count, jnp.iinfo(jnp.asarray(0).dtype).max)
        may_fail: list[Any] = []

        def state_of(run: Run, count: Any, failed: Any, carry: Sequence[Any]) -> Any:
            """Return the loop carry; it is reset after a failure, since the condition could otherwise hold forever."""
            holds = jnp.asarray(run.computed(condition, [*shared, *carry])[0]).astype(bool)
            may_fail.extend(run.failures)
            failed = failed | run.failed() if run.failures else failed
            return count, failed, (count < limit) & holds & ~failed, list(carry)

        def iteration(state: Any) -> Any:
            count, failed, _, carry = state
            run = Run()
            found = run.computed(iterations.body, [*shared, *carry])
            after = [_array(x, name) for x, name in zip(found, carried, strict=True)]
            return state_of(run, count + 1, failed, after)

        start = state_of(Run(), jnp.asarray(0), jnp.asarray(False), carry)
        if limit == 1:  # a branch, which JAX differentiates in reverse mode, too
            _, failed, _, carry = lax.cond(start[2], iteration, lambda state: state, start)
        else:
            _, failed, _, carry = lax.while_loop(lambda state: state[2], iteration, start)
        if may_fail:
            self.failures.append(failed)
        return list(carry)


def _array(x: Any, name: Name) -> Any:
    return jnp.broadcast_to(jnp.asarray(cast(x, name.dtype)), name.shape)


def _fitting(equation: Equation, x: Any, name: Name) -> Any:
    """Return a result in its recorded dtype.

    Raises:
        NotLoweredError: its shape differs from NumPy's, or it is unexpectedly complex.
    """
    dtype = dtype_of(x)
    if np.shape(x) != name.shape or (dtype.kind == "c" and name.dtype.kind != "c"):
        raise errors.NotLoweredError(_message([equation], f"JAX's result is {dtype}{list(np.shape(x))}"))
    return cast(x, name.dtype)


# Arguments


def arguments_of(equation: Equation, inputs: list[Any]) -> list[Any]:
    """Return the arguments of an operation in the dtypes in which NumPy computes it."""
    primitive, out = equation.primitive, equation.outputs[0]
    if primitive.is_ufunc:
        ufunc: Any = primitive.implementation
        kinds = [_kind(each) for each in equation.inputs]
        if all(
            isinstance(kind, type) for kind in kinds
        ):  # only Python numbers, which NumPy functions convert to arrays
            kinds = [np.dtype(kind) for kind in kinds]
        found = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
        return [cast(x, dtype) for x, dtype in zip(inputs, found, strict=False)]
    if primitive.name == "where":
        return [inputs[0], *(cast(x, out.dtype) for x in inputs[1:])]
    arrays = [np.asarray(x) if isinstance(x, (bool, int, float, complex)) else x for x in inputs]
    return arrays if primitive.name in AS_GIVEN else [alike(x, out.dtype) for x in arrays]


def _kind(x: Any) -> Any:
    """Return an argument for type resolution: a dtype, or a Python number type, which adapts to others."""
    if type(x) is Name and x.is_weak:
        return _WEAK.get(x.dtype.kind, x.dtype)
    return type(x) if type(x) in (int, float, complex) else dtype_of(x)


# Operations replaced by the record of their implementation


def is_made_of_others(equation: Equation) -> bool:
    """Return whether an operation is lowered by recording its implementation."""
    primitive = equation.primitive
    if equation.direct or primitive in USERS:
        return True
    return primitive.name in MADE_OF_OTHERS


def _function_of_jax(equation: Equation) -> Callable[[list[Any]], list[Any]] | None:
    """Return the function of JAX arrays that is this operation, as `from_jax` makes it; None for other operations."""
    implementation = equation.primitive.implementation
    call: Any = implementation.call if isinstance(implementation, CalledAgain) else None
    return call.theirs if getattr(getattr(call, "library", None), "name", "") == "JAX" else None


def _stand_in(equation: Equation) -> Block:
    """Record the implementation of an operation, as a program of its arrays.

    Raises:
        NotLoweredError: it needs concrete values.
    """
    try:
        return implementation_of(equation, _function_of(equation))
    except errors.ConcretizationError as error:
        raise errors.NotLoweredError(_message([equation], "its code needs concrete values")) from error


def _function_of(equation: Equation) -> Callable[..., Any]:
    """Return the function of arrays that is recorded.

    Raises:
        NotLoweredError: it does not exist.
    """
    primitive = equation.primitive
    if isinstance(primitive.implementation, CalledAgain):
        run = primitive.implementation.call.run
        return lambda *leaves: run(leaves)
    if primitive in USERS:
        stand_in = USERS[primitive]
        if stand_in is None:
            raise errors.NotLoweredError(
                _message([equation], "it is an operation of your own, without `extend.deflowering`")
            )
        return stand_in
    return primitive.implementation


# Operations without a counterpart


def prepared(block: Block) -> Block:
    """Return a program with loops, whose operations have counterparts.

    Raises:
        NotLoweredError: a NotImplementedError; one has none.
    """
    block = simplified(rerolled(block))
    check_known(block)
    return block


def check_known(block: Block) -> None:
    """Reject a program with operations that have no counterpart in JAX.

    Raises:
        NotLoweredError: a NotImplementedError; it names them, with the lines.
    """
    found = list(_unknown(block))
    if found:
        raise errors.NotLoweredError(_message(found))


def _unknown(block: Block) -> Iterator[Equation]:
    for equation in block.equations:
        iterations = iterations_of(equation)
        if iterations is not None:
            yield from _unknown(iterations.body)
            yield from _unknown(iterations.condition) if iterations.condition is not None else ()
        elif not is_known_operation(equation) or not all(
            map(_is_known_dtype, names_of((*equation.inputs, *equation.outputs)))
        ):
            yield equation


def is_known_operation(equation: Equation) -> bool:
    """Return whether there is a rule, as far as this is known before the program runs."""
    return is_made_of_others(equation) or is_lowered(equation.primitive.name)


def _is_known_dtype(name: Name) -> bool:
    return name.dtype.kind in _WIDEST and name.dtype.itemsize <= _WIDEST[name.dtype.kind]


def check_32_bits(block: Block) -> None:
    """Reject a program that needs 64 bits.

    Raises:
        DtypeError: a TypeError; it names the wider dtypes.
    """
    for name in (*block.inputs, *(each for equation in block.equations for each in equation.outputs)):
        if not name.is_weak and name.dtype.itemsize > (8 if name.dtype.kind == "c" else 4):
            raise errors.DtypeError(
                f"the program computes with {kind_of(name)}, and JAX is configured for 32 bits.\n"
                'Write jax.config.update("jax_enable_x64", True) at the start, or compute with float32 and int32 '
                "throughout."
            )
    for iterations in filter(None, map(iterations_of, block.equations)):
        check_32_bits(iterations.body)


_WIDEST = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}


def _message(equations: Sequence[Equation], reason: str = "") -> str:
    lines = dict.fromkeys(f"  {each.operation()[:60]}{_forms(each)}{_at(each)}" for each in equations)
    return (
        f"JAX has no counterpart of what the program computes{f': {reason}' if reason else ''}.\n"
        + "\n".join(lines)
        + "\nWrite it in operations that have one (docs/how-to/accelerators.md lists those that have none), or compile "
        "without backend='jax'."
    )


def _forms(equation: Equation) -> str:
    return "".join(f" {kind_of(name)}" for name in names_of(equation.inputs))


def _at(equation: Equation) -> str:
    return f", at {equation.line}" if equation.line else ""
