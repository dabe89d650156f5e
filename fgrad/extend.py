"""Custom operations: an implementation on plain arrays, and the rules of its derivatives.

    >>> import numpy as np, fgrad as fg
    >>> from fgrad.extend import defjvp, defvjp, register_primitive
    >>> cube = register_primitive(lambda x: x**3, name="example_cube")
    >>> defvjp(cube, lambda ans, x: lambda ct: ct * 3 * x**2)
    >>> defjvp(cube, lambda t, ans, x: t * 3 * x**2)
    >>> fg.grad(cube)(2.0), fg.grad(fg.grad(cube))(2.0)
    (Tensor(12.), Tensor(12.))

`defbatch` adds a rule for `vmap`, `deflowering` defines the code that `fgrad.compile` runs in place of the operation,
`defpattern` the sparsity pattern for sparse derivatives, and `fgrad.testing.check_primitive` tests the rules.

Rules are ordinary code with NumPy's functions; they are traced themselves, which gives the next order. A reverse rule
computes nothing before the cotangent comes: all computations belong in the inner function. For complex numbers it
transposes and does not conjugate.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fgrad.core  # noqa: F401  # first, so that threads import it in one order
from fgrad import errors
from fgrad.core.primitive import FUNCTIONS, PRIMITIVES, ZERO, Primitive, Rule
from fgrad.core.tensor import apply
from fgrad.core.tree import tree_map
from fgrad.errors.places import depth_of_user
from fgrad.native.user_primitives import USERS
from fgrad.ops.families import register
from fgrad.ops.patterns import as_einsum
from fgrad.rules.arguments import OnlyRead
from fgrad.rules.rule import settled, zeros_of
from fgrad.transforms.reverse import vjp
from fgrad.typing import Array, ArrayLike

__all__ = ["Operation", "defbatch", "defjvp", "deflowering", "defpattern", "defvjp", "register_primitive"]

__dir__ = __all__.copy


class Operation:
    """A callable primitive; it takes arrays by position and metadata by keyword.

    Attributes:
        primitive: the entry of the table; `register_primitive` creates both.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> shifted = register_primitive(lambda x, *, by: np.roll(x, by), name="example_shifted")
        >>> shifted
        <operation example_shifted>
        >>> shifted(np.array([1.0, 2.0, 3.0]), by=1)
        array([3., 1., 2.])
    """

    def __init__(self, primitive: Primitive) -> None:
        functools.update_wrapper(self, primitive.implementation, updated=())
        self.primitive = primitive

    def __call__(self, *args: Any, **metadata: Any) -> Any:
        return apply(self.primitive, args, metadata)

    def __repr__(self) -> str:
        return f"<operation {self.primitive.name}>"


class _NoRules:
    """Placeholder for rules that have not been defined, which raises, so that no derivative is dropped silently."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, argnum: int) -> Rule:
        raise self._error("reverse", "defvjp", "lambda ans, x: lambda ct: ...")

    def __call__(self, *args: Any, **metadata: Any) -> Any:
        raise self._error("forward", "defjvp", "lambda t, ans, x: ...")

    def _error(self, mode: str, define: str, rule: str) -> errors.MissingRuleError:
        instead = f"Define it with fgrad.extend.{define}: {define}({self.name}, {rule}), with a rule for each array."
        return errors.MissingRuleError(f"the operation {self.name}", errors.users_line(), mode, instead)


def _by_transposing(primitive: Primitive, tangents: Sequence[Any], ans: Any, *args: Any, **metadata: Any) -> Any:
    """Push tangents forward by an operation with only reverse rules, which are transposed."""
    rules: Any = primitive.vjps
    pairs = [(rule, t) for rule, t in zip(rules, tangents, strict=True) if rule and t is not ZERO]
    parts = [_pushed(rule(ans, *args, **metadata), t, ans) for rule, t in pairs]
    return functools.reduce(_added, parts) if parts else ZERO


def _pushed(pullback: Callable[[Any], Any], tangent: Array, ans: ArrayLike) -> Any:
    """Return the pushforward of a tangent by the transpose of a pullback; rules do not conjugate, but `vjp` does."""
    results = tuple(map(zeros_of, ans)) if type(ans) is tuple else zeros_of(ans)
    (found,) = vjp(lambda ct: settled(pullback(ct)) * 1.0, results)[1](np.conjugate(tangent))
    return tree_map(np.conjugate, found)


def _added(tangent: ArrayLike, other: Any) -> Any:
    """Return the sum of two tangents of a result, or of several results in a tuple."""
    return tuple(map(operator.add, tangent, other)) if type(tangent) is tuple else tangent + other


def register_primitive(implementation: Callable[..., Any], name: str | None = None) -> Operation:
    """Make a function an operation that traces process as one step.

    Args:
        implementation: computes the result from plain arrays, by position, into which it does not write, and metadata,
            by keyword. For a ufunc, or a NumPy function that dispatches, calls of it then run the operation.
        name: the name in errors; by default the implementation's.

    Returns:
        The operation, to be called in place of `implementation`. It needs `defvjp`, from which forward mode is derived,
        or `defjvp` for forward mode only.

    Raises:
        ParameterError: a ValueError; fgrad has a primitive of this name.
        InPlaceError: a TypeError, from a call; `implementation` writes into one of its arrays.

    Warns:
        ReplacedPrimitiveWarning: an operation of this name was registered before, such as by a notebook cell that runs
            again. Existing references to it keep working.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> logistic = register_primitive(lambda x: 1 / (1 + np.exp(-x)), name="example_logistic")
        >>> defvjp(logistic, lambda ans, x: lambda ct: ct * ans * (1 - ans))
        >>> defjvp(logistic, lambda t, ans, x: t * ans * (1 - ans))
        >>> fg.grad(lambda x: logistic(2 * x))(0.0)
        Tensor(0.5)
    """
    name = name or implementation.__name__
    missing: Any = _NoRules(name)
    if (earlier := PRIMITIVES.get(name)) in USERS:
        warnings.warn(
            f"an operation named {name!r} was registered before, and is replaced: define its rules again",
            errors.ReplacedPrimitiveWarning,
            stacklevel=depth_of_user(),
        )
        del PRIMITIVES[earlier.name]
    computed = implementation if isinstance(implementation, np.ufunc) else _with_dtypes(implementation, name)
    operation = Operation(register(Primitive(name, computed, missing, missing)))
    USERS[operation.primitive] = None
    if not operation.primitive.is_ufunc and (getattr(implementation, "__module__", None) or "").startswith("numpy"):
        FUNCTIONS[implementation] = operation
    return operation


def _with_dtypes(implementation: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Make a function return NumPy numbers in place of Python numbers, and check that it only reads its arrays."""

    @functools.wraps(implementation)
    def computed(*args: object, **metadata: object) -> Any:
        with OnlyRead(args, name):
            result = implementation(*args, **metadata)
        return tuple(map(_with_dtype, result)) if type(result) is tuple else _with_dtype(result)

    return computed


def _with_dtype(x: object) -> Any:
    return np.asarray(x)[()] if isinstance(x, (bool, int, float, complex)) else x


def defvjp(operation: Operation, *rules: Rule | None) -> None:
    """Define the reverse rules of an operation, one for each array.

    Args:
        operation: the operation, from `register_primitive`.
        rules: `rule(ans, *args, **metadata)` returns the pullback, a function of the cotangent; None for a zero
            derivative. Or `rule(ct, ...)`, a function of the cotangent and the residuals: `ans`, or arrays by their
            names in the implementation.

    Raises:
        StructureError: a TypeError; `operation` is not an operation.
        CustomRuleError: a ValueError; a rule names a residual that is not an argument of the operation.

    Example:
        >>> import fgrad as fg
        >>> product = register_primitive(lambda x, y: x * y, name="example_product")
        >>> defvjp(product, lambda ans, x, y: lambda ct: ct * y, lambda ans, x, y: lambda ct: ct * x)
        >>> fg.grad(product, argnums=(0, 1))(2.0, 3.0)
        (Tensor(3.), Tensor(2.))

        With rules that declare their residuals, which takes less time and memory:

        >>> defvjp(product, lambda ct, y: ct * y, lambda ct, x: ct * x)
        >>> fg.grad(product, argnums=(0, 1))(2.0, 3.0)
        (Tensor(3.), Tensor(2.))
    """
    primitive = _checked(operation)
    _define(primitive, "vjps", primitive.owned(rules))
    if type(primitive.jvp) is _NoRules:
        _define(primitive, "jvp", functools.partial(_by_transposing, primitive))


def defjvp(operation: Operation, *rules: Rule | None) -> None:
    """Define the forward rules of an operation, one for each array; their results are summed.

    Args:
        operation: the operation, from `register_primitive`.
        rules: `rule(t, ans, *args, **metadata)` returns the tangent of the result for the tangent `t` of one array;
            None for a zero derivative.

    Raises:
        StructureError: a TypeError; `operation` is not an operation.

    Example:
        >>> import fgrad as fg
        >>> scaled = register_primitive(lambda x, *, by: x * by, name="example_scaled")
        >>> defjvp(scaled, lambda t, ans, x, *, by: t * by)
        >>> fg.jvp(lambda x: scaled(x, by=2.0), (3.0,), (1.0,))
        (Tensor(6.), Tensor(2.))
    """

    def forward(tangents: Sequence[Any], ans: ArrayLike, *args: object, **metadata: object) -> Any:
        total: Any = ZERO
        for rule, t in zip(rules, tangents, strict=True):
            if t is not ZERO and rule is not None:
                part = rule(t, ans, *args, **metadata)
                total = part if total is ZERO else _added(total, part)
        return total

    _define(_checked(operation), "jvp", forward)


def defbatch(operation: Operation, rule: Rule) -> None:
    """Define how `vmap` runs an operation on a batch of examples; without a rule it runs in a loop.

    Args:
        operation: the operation, from `register_primitive`.
        rule: `rule(values, mapped, size, metadata)` gets the arguments, a list of booleans that marks those with `size`
            examples along their first axis, and the metadata. It returns the results with the examples along their
            first axis. It calls the operation, or others, not the implementation.

    Raises:
        StructureError: a TypeError; `operation` is not an operation.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> norm = register_primitive(lambda x, *, axis: np.sqrt(np.sum(x * x, axis)), name="example_norm")
        >>> defbatch(norm, lambda values, mapped, size, metadata: norm(*values, axis=metadata["axis"] + 1))
        >>> fg.vmap(lambda x: norm(x, axis=0))(np.array([[3.0, 4.0], [6.0, 8.0]]))
        Tensor([ 5., 10.])
    """
    _define(_checked(operation), "batch", rule)


def deflowering(operation: Operation, rule: Rule | None) -> None:
    """Define the code that `fgrad.compile` runs in place of an operation; without it NumPy runs the implementation.

    Args:
        operation: the operation, from `register_primitive`.
        rule: `rule(*args, **metadata)` returns the result of the operation, written with NumPy's functions, which
            become native code. None: the implementation runs, as without a rule.

    Raises:
        StructureError: a TypeError; `operation` is not an operation. Also from a call of a compiled function, if the
            result of `rule` has another shape or dtype than that of the operation.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def by_element(x):  # in a Python loop
        ...     return np.array([max(value, 0.1 * value) for value in x])
        >>> leaky = register_primitive(by_element, name="example_leaky")
        >>> deflowering(leaky, lambda x: np.maximum(x, 0.1 * x))
        >>> total = fg.compile(lambda x: np.sum(leaky(x)))
        >>> total(np.array([1.0, -1.0])), total.inspect(np.array([1.0, -1.0])).steps
        (Tensor(0.9), [])
    """
    USERS[_checked(operation)] = rule


def defpattern(operation: Operation, subscripts: str) -> None:
    """Define which elements of a result depend on which of the arguments, for sparse derivatives; by default all.

    Args:
        operation: the operation, from `register_primitive`.
        subscripts: as in `np.einsum`, with a letter for each of the last axes: an element depends on those with the
            same index along axes with the same letter. Leading axes are broadcast. So `"->"` is an elementwise
            operation, `"i->"` a sum along the last axis, `"i->j"` a Fourier transform.

    Raises:
        StructureError: a TypeError; `operation` is not an operation.
        ParameterError: a ValueError; `subscripts` have no arrow followed by the result.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> tripled = register_primitive(lambda x: 3 * x, name="example_tripled")
        >>> defvjp(tripled, lambda ans, x: lambda ct: 3 * ct)
        >>> fg.sparsity(tripled)(np.ones(4)).nnz
        16
        >>> defpattern(tripled, "->")
        >>> fg.sparsity(tripled)(np.ones(4)).nnz
        4
    """
    primitive = _checked(operation)
    if subscripts.count("->") != 1 or not (subscripts.replace("->", "a").replace(",", "a")).isalpha():
        raise errors.ParameterError(
            "subscripts must be letters for the last axes of each argument, separated by commas, an arrow, and those "
            f"of the result, such as 'ij,j->i', and they are {subscripts!r}."
        )
    _define(primitive, "pattern", as_einsum(subscripts))


def _define(primitive: Primitive, name: str, rule: object) -> None:
    """Set an attribute of a user's operation, again if a notebook cell runs again."""
    object.__setattr__(primitive, name, rule)


def _checked(operation: object) -> Primitive:
    if not isinstance(operation, Operation):
        raise errors.StructureError(f"{operation!r} is not an operation: pass a result of register_primitive.")
    return operation.primitive
