"""The common part of all distributions.

Distribution        SciPy's own if nothing is traced; name, pickling, methods without derivatives
Frozen              a distribution with its parameters: `norm(loc, scale)`
@differentiated()   a method that runs if something is traced
in_double(x, ...)   an argument in double precision, as SciPy computes; complex ones are rejected
count_of(k, ...)    an argument that is a count, and has no derivative
is_everywhere(x)    whether a condition is known to hold for all elements; also is_finite, is_moderate,
                    is_positive, is_above
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from fgrad import errors
from fgrad.core import unbroadcast
from fgrad.core.coerce import as_array
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import elementwise_batch
from fgrad.ops.tracing import concrete_value, is_plainly_traced, run
from fgrad.scipy._docstrings import completed_by
from fgrad.scipy._reals import real_array
from fgrad.typing import Array, ArrayLike, Operand

F = TypeVar("F", bound=Callable[..., Any])

_DOUBLE = np.dtype(np.float64)


def differentiated(*shared: str) -> Callable[[F], F]:
    """Use SciPy's method of the same name if nothing is traced.

    Args:
        shared: what completes the docstring, see `completed_by`.
    """

    def enter(answer: F) -> F:
        @functools.wraps(completed_by(*shared)(answer))
        def choose(self: Any, *args: object, **keywords: object) -> Any:
            if is_plainly_traced((*args, *keywords.values())):
                return answer(self, *args, **keywords)
            scipys = self.scipys_method(answer.__name__)
            return run(scipys, functools.partial(answer, self), args, keywords)

        return cast(F, choose)

    return enter


def in_double(x: Any, name: str) -> Any:
    """Return an argument in double precision, as SciPy computes."""
    if getattr(x, "dtype", None) is _DOUBLE:
        return x
    x = real_array(x, name)
    return x if x.dtype == np.float64 else x.astype(np.float64)


def count_of(x: ArrayLike, argument: str, name: str) -> Any:
    """Return an argument in double precision that has no derivative, because it is an integer.

    Raises:
        NoDerivativeError: a ValueError; it is a floating-point number, and is differentiated.
    """
    return in_double(apply(_COUNT, (as_array(x),), {"argument": argument, "name": name}), name)


def _refuse_count(ans: Operand, x: Operand, argument: str, name: str) -> Any:
    raise errors.NoDerivativeError(
        f"{name} has no derivative in {argument!r}, which is differentiated: it is an integer.\n"
        f"  at {errors.users_line()}\n"
        f"Make it a constant: fg.stop_gradient({argument}), or an array of integers."
    )


_COUNT = Primitive(
    "count",
    lambda x, argument, name: x,
    (_refuse_count,),
    lambda tangents, ans, x, argument, name: _refuse_count(ans, x, argument, name),
)
_COUNT.batch = elementwise_batch(_COUNT)


def is_everywhere(condition: Array) -> bool:
    """Return whether a condition is known to hold for all elements, so that no mask is needed."""
    value = concrete_value(condition)
    return value is not None and bool(value.all() if type(value) is np.ndarray else value)


def is_above(x: Operand, limit: float) -> bool:
    """Return whether all elements are known to be larger than a limit."""
    value = concrete_value(x)
    return value is not None and bool((value > limit).all() if type(value) is np.ndarray else value > limit)


def is_positive(x: Operand) -> bool:
    """Return whether all elements are known to be positive."""
    return is_above(x, 0)


def is_finite(x: Operand) -> bool:
    """Return whether all elements are known to be finite; those of a plain array must also have finite squares."""
    value = concrete_value(x)
    return value is not None and unbroadcast.is_finite(value)


def is_moderate(x: Array) -> bool:
    """Return whether all elements and their squares are known to be finite."""
    value = concrete_value(x)
    return value is not None and unbroadcast.is_finite(value if type(value) is np.ndarray else value * value)


class Distribution:
    """A distribution of `scipy.stats`: some methods are differentiable, and all others reject traced tensors.

    Args:
        scipys: SciPy's distribution, which is used if nothing is traced.
        name: its name in this package.
        signature: the signature of the parameters, which follow the argument of a method.
    """

    def __init__(self, scipys: Any, name: str, signature: inspect.Signature) -> None:
        self.scipys = scipys
        self.name = name
        self.signature = signature
        self.__module__ = "fgrad.scipy.stats"  # so that `pickle` finds it by name

    @property
    def full_name(self) -> str:
        """SciPy's name, for messages."""
        return f"scipy.stats.{self.name}"

    def __call__(self, *args: Any, **kwds: Any) -> Frozen:
        """Return the frozen distribution with these parameters, whose methods take only the remaining argument.

        Args:
            args, kwds: the parameters, by name or position.

        Returns:
            A `Frozen` with the same methods.

        Raises:
            TypeError: a parameter is missing or unknown.

        Example:
            >>> import fgrad as fg
            >>> from fgrad.scipy import stats
            >>> fg.grad(lambda scale: stats.norm(0.0, scale).logpdf(1.0))(2.0)
            Tensor(-0.375)
        """
        return Frozen(self, args, kwds)

    def __repr__(self) -> str:
        return f"fgrad.{self.full_name}"

    def __reduce__(self) -> str:
        return self.name

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of SciPy's distribution that has no derivative."""
        if name.startswith("_") or name == "scipys":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        member = getattr(self.scipys, name)
        return self.refusing(member, name) if callable(member) else member

    def scipys_method(self, name: str) -> Callable[..., Any]:
        """Return the method of SciPy's distribution."""
        method: Callable[..., Any] = getattr(self.scipys, name)
        return method

    def refusing(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return a function that calls a SciPy method, and raises an error if something is traced."""

        def refuse(*args: object, **keywords: object) -> Any:
            raise errors.MissingRuleError(
                f"{self.full_name}.{name}", errors.users_line(), instead=self.instead_of(name)
            )

        return lambda *args, **keywords: run(method, refuse, args, keywords)

    def instead_of(self, name: str) -> str:
        """Return an alternative to a method without a derivative, as a sentence; empty for the default."""
        return ""

    def parameters_of(self, method: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters of a frozen distribution that a method takes."""
        return parameters


class Frozen:
    """A distribution with its parameters, as `norm(loc, scale)`: its methods take only the remaining argument.

    Args:
        dist: the distribution.
        args, kwds: the parameters.

    Raises:
        TypeError: a parameter is missing or unknown.

    Example:
        >>> import fgrad as fg
        >>> from fgrad.scipy import stats
        >>> fg.grad(lambda a: stats.gamma(a, scale=2.0).mean())(1.5)
        Tensor(2.)
    """

    def __init__(self, dist: Distribution, args: tuple[Any, ...], kwds: dict[str, Any]) -> None:
        self.parameters = dist.signature.bind(*args, **kwds).arguments
        self.dist, self.args, self.kwds = dist, args, kwds

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwds.items())]
        return f"{self.dist!r}({', '.join(given)})"

    def __getattr__(self, name: str) -> Any:
        """Return a method of the distribution with the parameters appended to its own argument."""
        if name.startswith("_") or name in ("dist", "args", "kwds", "parameters"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        method = getattr(self.dist, name)
        if not callable(method):
            return method
        if hasattr(type(self.dist), name):
            parameters = self.dist.parameters_of(name, self.parameters)
            return lambda *first, **keywords: method(*first, **parameters, **keywords)

        def of_scipys(args: Any, kwds: Any, first: Any, keywords: Any) -> Any:
            return getattr(self.dist.scipys(*args, **kwds), name)(*first, **keywords)

        return lambda *first, **keywords: self.dist.refusing(of_scipys, name)(self.args, self.kwds, first, keywords)
