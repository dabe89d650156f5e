"""Reverse mode: gradients, and products of a cotangent with a Jacobian.

Each of them is a `Linearization`: trace the function on chosen inputs, then pull cotangents back. The public functions
differ in what they select, check and return.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from fgrad import errors
from fgrad.core.foreign import OVERRIDES
from fgrad.core.overrides import as_leaf
from fgrad.core.primitive import ZERO
from fgrad.core.tensor import Tensor
from fgrad.core.tree import paths, tree_map
from fgrad.core.variable import Variable
from fgrad.errors.hints import names_keywords
from fgrad.errors.places import depth_of_user
from fgrad.ops.elementwise import stop_gradient_of
from fgrad.transforms.calls import Decorator, Selection, Transformed, decorator, name_of, place_name, select
from fgrad.transforms.cuts import name_of_source, warn_of_cuts
from fgrad.transforms.linearization import Input, Linearization, UnconnectedGradients, described, instead_of
from fgrad.transforms.running import is_number
from fgrad.typing import Operand

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Weighable(Protocol[P, R_co]):
    """A gradient function: it takes the arguments of the original function, and `dy`."""

    @overload
    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, *args: Any, dy: Any, **keywords: Any) -> R_co: ...


class WeighableDecorator(Protocol[R_co]):
    """The type of a transform with options alone that makes gradient functions with `dy`."""

    def __call__(self, function: Callable[P, Any], /) -> Weighable[P, R_co]: ...


# The transforms


def _run_gradients_function(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], params: Selection = None
) -> list[Any]:
    return _run_value_and_gradients_function(function, args, keywords, params)[1]


def _run_value_and_gradients_function(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], params: Selection = None
) -> tuple[Any, list[Any]]:
    keywords = dict(keywords)
    dy = keywords.pop("dy", None)
    places, keywords = select(function, params, args, keywords)
    if params is None and keywords and not args:
        raise errors.ParameterError(
            f"{name_of(function)} was called with keyword arguments only, and without params the positional arguments "
            f"are differentiated.\nPass the arguments by position, or name them: params={list(keywords)}."
        )
    traced = Linearization(function, args, keywords, places, ones=dy is None)
    _warn_of_none(function, traced)
    return traced.result, traced.gradients(_pulled(function, traced, dy), UnconnectedGradients.NONE)


def _pulled(
    function: Callable[..., Any], traced: Linearization, dy: Operand | None, answer: str = "None"
) -> dict[int, Any]:
    """Pull `dy` back; warn of inputs that are not connected where a number was taken out of the trace."""
    cotangents = traced.pull(dy, "dy")
    if traced.outline is not None:
        known = [(name_of_source(variable), key) for variable, key in traced.watch.chosen.items()]
        for place, given in traced.inputs.items():
            names = [f"the argument {place_name(function, place)}{path}" for path in paths(given.tree)]
            known += [(name, key) for name, key in zip(names, given.keys, strict=True) if key is not None]
        lost = [pair for pair in known if pair[1] not in cotangents]
        warn_of_cuts(traced.outline, lost, traced.targets, answer)
    elif _are_zero(cotangents) and traced.is_newest():
        # A nested derivative may be constant, as that of np.abs: then it is not a mistake.
        warnings.warn(
            f"every gradient of {name_of(function)} is zero: every path to the result leads through an operation whose "
            "derivative is zero, such as np.floor, np.sign or np.argmax; use fgrad.explain for details",
            errors.NoGradientWarning,
            stacklevel=depth_of_user(),
        )
    return cotangents


def _are_zero(cotangents: dict[int, Any]) -> bool:
    """Return whether the derivative with respect to every input is ZERO."""
    first = next(iter(cotangents.values()), None)
    return first is ZERO and all(each is ZERO for each in cotangents.values())


def _warn_of_none(function: Callable[..., Any], traced: Linearization) -> None:
    """Warn of gradients that are None for a reason other than the function's mathematics."""
    if plain := traced.plain_result():
        warnings.warn(f"{plain}: every gradient is None", errors.NoGradientWarning, stacklevel=depth_of_user())
    _warn_of_inputs(function, traced)


def _warn_of_inputs(function: Callable[..., Any], traced: Linearization) -> None:
    """Warn of gradients that are None since their arguments have no derivative."""
    if not any([None in given.keys for given in traced.inputs.values()]):  # noqa: C419  # common case
        return
    texts = [
        f"the gradient of {name_of(function)} is None where the argument {description}; "
        "pass floating-point numbers, such as 3.0 or np.asarray(x, float), to get one"
        for place, given in traced.inputs.items()
        for description in given.numbers_without_gradient(function, place)
    ]
    if not texts and not any(map(Input.is_traced, traced.inputs.values())):
        leaves = [leaf for given in traced.inputs.values() for leaf in given.leaves]
        texts = [
            f"every gradient of {name_of(function)} is None, since no argument holds floating-point numbers; one is "
            f"{described(leaf)}. {instead_of(leaf, 'Pass numbers')}"
            for leaf in leaves[:1]
        ]
    for text in texts:
        warnings.warn(text, errors.NoGradientWarning, stacklevel=depth_of_user())


@overload
def gradients_function(function: Callable[P, Any], params: Selection = None) -> Weighable[P, list[Any]]: ...
@overload
def gradients_function(function: None = None, params: Selection = None) -> WeighableDecorator[list[Any]]: ...
@names_keywords
def gradients_function(function: Callable[..., Any] | None = None, params: Selection = None) -> Any:
    """Return a function that computes the gradients of `function` with respect to its arguments.

    Args:
        function: takes numbers, arrays, tensors or containers of them, and returns the same. Several results, and
            elements of arrays, are summed.
        params: names or positions of the parameters to differentiate, one or several; by default all positional
            arguments.

    Returns:
        `g(*args, dy=None, **keywords)`, which returns a list with one gradient per parameter, each of the dtype, shape
        and structure of its argument; None if it is not connected to the result, and for integers (with a warning).
        `dy` weights the results and has their structure.

    Raises:
        ParameterError: a ValueError; `params` names no parameter.
        NoResultError: a ValueError; `function` returns None.
        SeedError: a ValueError; `dy` does not match the result.
        NotCallableError: a TypeError; `function` is not a function.

    Example:
        >>> def f(x, y):
        ...     return x**3 * y - x * y**2
        >>> gradients_function(f)(2.0, 3.0)
        [Tensor(27.), Tensor(-4.)]
        >>> gradients_function(f, params=["y"])(2.0, 3.0)
        [Tensor(-4.)]
    """
    return decorator(_run_gradients_function, function, params=params)


@overload
def value_and_gradients_function(
    function: Callable[P, Any], params: Selection = None
) -> Weighable[P, tuple[Any, list[Any]]]: ...
@overload
def value_and_gradients_function(
    function: None = None, params: Selection = None
) -> WeighableDecorator[tuple[Any, list[Any]]]: ...
@names_keywords
def value_and_gradients_function(function: Callable[..., Any] | None = None, params: Selection = None) -> Any:
    """Return a function that computes the value of `function` and its gradients.

    Args:
        function, params: as for `gradients_function`.

    Returns:
        `g(*args, dy=None, **keywords)`, which returns `(value, list of gradients)`.

    Raises:
        ParameterError, NoResultError, SeedError, NotCallableError: as for `gradients_function`.

    Example:
        >>> value_and_gradients_function(lambda x, y: x * y)(2.0, 3.0)
        (Tensor(6.), [Tensor(3.), Tensor(2.)])
    """
    return decorator(_run_value_and_gradients_function, function, params=params)


def _run_implicit_gradients(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return _run_implicit_value_and_gradients(function, args, keywords)[1]


def _run_implicit_value_and_gradients(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    traced = Linearization(function, args, keywords, (), variables=True, ones=True)
    traced.warn_of_other_threads()
    if not traced.watch.chosen:
        raise errors.NoVariablesError(
            f"No trainable variables were accessed while {name_of(function)} was being computed.\n"
            "Read an fg.Variable in it (of floating-point numbers: integer ones are not trainable), or use "
            "fg.gradients_function to differentiate with respect to its arguments."
        )
    if plain := traced.plain_result():
        raise errors.OutputError(f"{plain}.\nReturn the tensor computed from variables itself.")
    return traced.result, traced.variable_gradients(_pulled(function, traced, None))


@overload
def implicit_gradients(function: Callable[P, Any]) -> Callable[P, list[tuple[Any, Variable]]]: ...
@overload
def implicit_gradients(function: None = None) -> Decorator[list[tuple[Any, Variable]]]: ...
def implicit_gradients(function: Callable[..., Any] | None = None) -> Any:
    """Return a function that computes gradients with respect to the variables that `function` reads.

    Args:
        function: any function that reads trainable variables; its results are summed.

    Returns:
        `g(*args, **keywords)`, which returns a list of pairs `(gradient, variable)` in the order of
        the variables' creation. A variable that was read but has no effect has the gradient None.

    Raises:
        NoVariablesError: a ValueError; no trainable variable was read.
        NoResultError: a ValueError; `function` returns None.

    Example:
        >>> w = Variable(2.0, name="w")
        >>> implicit_gradients(lambda x: w * w * x)(5.0)
        [(Tensor(20.), Variable(2., name='w'))]
    """
    return decorator(_run_implicit_gradients, function)


@overload
def implicit_value_and_gradients(
    function: Callable[P, Any],
) -> Callable[P, tuple[Any, list[tuple[Any, Variable]]]]: ...
@overload
def implicit_value_and_gradients(function: None = None) -> Decorator[tuple[Any, list[tuple[Any, Variable]]]]: ...
def implicit_value_and_gradients(function: Callable[..., Any] | None = None) -> Any:
    """Return a function that computes the value of `function` and the gradients of its variables.

    Args:
        function: as for `implicit_gradients`.

    Returns:
        `g(*args, **keywords)`, which returns `(value, list of (gradient, variable))`.

    Raises:
        NoVariablesError, NoResultError: as for `implicit_gradients`.

    Example:
        >>> w = Variable(2.0, name="w")
        >>> implicit_value_and_gradients(lambda x: w * x)(5.0)
        (Tensor(10.), [(Tensor(5.), Variable(2., name='w'))])
    """
    return decorator(_run_implicit_value_and_gradients, function)


def _run_grad(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], argnums: Selection, has_aux: bool
) -> Any:
    value, gradients = _run_value_and_grad(function, args, keywords, argnums, has_aux)
    return (gradients, value[1]) if has_aux else gradients


def _run_value_and_grad(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], argnums: Selection, has_aux: bool
) -> Any:
    places, keywords = select(function, argnums, args, keywords)
    traced = Linearization(function, args, keywords, places, has_aux, transform="grad", ones=True)
    _check_scalar(function, traced.result)
    gradients = traced.gradients(_pulled(function, traced, None, "zero"), UnconnectedGradients.ZERO)
    several = not isinstance(argnums, (int, str, np.integer))
    value = (traced.result, traced.aux) if has_aux else traced.result
    return value, tuple(gradients) if several else gradients[0]


def _check_scalar(function: Callable[..., Any], result: Any) -> None:
    if type(result) is Tensor and type(result._payload) is np.float64:  # common case
        return
    if getattr(result, "shape", None) == () and result.dtype.kind == "c":
        raise errors.NonScalarError(
            f"grad needs a function with a real scalar result, and {name_of(function)} returned a complex one, "
            "which has no gradient.\nReturn np.real(y), np.imag(y) or np.abs(y), or use fg.jacobian for the complex "
            "derivative; fg.gradients_function has the gradient of the real part, as TensorFlow."
        )
    if type(result) is Tensor and result.shape == ():
        return
    shape = np.shape(result) if not isinstance(result, (list, tuple, dict)) else None
    if shape == ():
        return
    if shape is None:
        what = f"a {type(result).__name__}"
        remedy = "Return one number, and other results as (number, others) with has_aux=True"
    elif np.size(result) == 1:
        what, remedy = f"shape {shape}", "Return its only element, y.reshape(()) or y[0]"
    else:
        what = f"shape {shape}"
        remedy = "Return a sum or mean, or use fg.jacobian for the derivatives of every element, fg.elementwise_grad "
        remedy += "for an elementwise function, fg.gradients_function for their sum"
    raise errors.NonScalarError(
        f"grad needs a function with a scalar result, and {name_of(function)} returned {what}.\n{remedy}."
    )


@overload
def grad(function: np.ufunc, argnums: Selection = 0, has_aux: bool = False) -> Callable[..., Any]: ...
@overload
def grad(function: Callable[P, Any], argnums: Selection = 0, has_aux: bool = False) -> Callable[P, Any]: ...
@overload
def grad(function: None = None, argnums: Selection = 0, has_aux: bool = False) -> Decorator[Any]: ...
@names_keywords
def grad(function: Callable[..., Any] | None = None, argnums: Selection = 0, has_aux: bool = False) -> Any:
    """Return a function that computes the gradient of a scalar-valued function.

    Args:
        function: takes floating-point or complex numbers, arrays or containers of them in the arguments that are
            differentiated, anything in the others; returns a number of shape `()`.
        argnums: position or name of the argument to differentiate, or several.
        has_aux: `function` returns `(number, aux)`; `aux` is returned unchanged.

    Returns:
        A function of the same arguments that returns the gradient, of the dtype, shape and structure of the argument (a
        tuple of them for several `argnums`), zeros where it is unconnected; with `has_aux` the pair `(gradient, aux)`.

    Raises:
        NonScalarError: a TypeError; the result is not one real number.
        IntegerInputError: a TypeError; a differentiated argument holds integers or booleans.
        ParameterError, NoResultError: ValueErrors; `argnums` is invalid, `function` returns None.
        NotCallableError: a TypeError; `function` is not a function.

    Example:
        >>> grad(lambda x: x**3)(2.0)
        Tensor(12.)
        >>> grad(grad(lambda x: x**3))(2.0)
        Tensor(12.)
        >>> grad(lambda p: p["w"] * p["b"])({"w": 2.0, "b": 3.0})
        {'w': Tensor(3.), 'b': Tensor(2.)}
    """
    return decorator(_run_grad, function, argnums=argnums, has_aux=has_aux)


@overload
def value_and_grad(
    function: Callable[P, Any], argnums: Selection = 0, has_aux: Literal[False] = False
) -> Callable[P, tuple[Tensor, Any]]: ...
@overload
def value_and_grad(
    function: Callable[P, Any], argnums: Selection = 0, has_aux: bool = False
) -> Callable[P, tuple[Any, Any]]: ...
@overload
def value_and_grad(
    function: None = None, argnums: Selection = 0, has_aux: bool = False
) -> Decorator[tuple[Any, Any]]: ...
@names_keywords
def value_and_grad(function: Callable[..., Any] | None = None, argnums: Selection = 0, has_aux: bool = False) -> Any:
    """Return a function that computes the value and the gradient of `function`.

    Args:
        function, argnums, has_aux: as for `grad`.

    Returns:
        A function that returns `(value, gradient)`; with `has_aux` the value is `(number, aux)`.

    Raises:
        NonScalarError, IntegerInputError, ParameterError, NoResultError, NotCallableError: as for `grad`.

    Example:
        >>> value_and_grad(lambda x: x**3)(2.0)
        (Tensor(8.), Tensor(12.))
    """
    return decorator(_run_value_and_grad, function, argnums=argnums, has_aux=has_aux)


@names_keywords
def vjp(function: Callable[..., Any], *primals: object, has_aux: bool = False) -> Any:
    """Return the value of a function and its pullback: the product of a cotangent with its Jacobian.

    Args:
        function: a function of the primals; returns numbers, arrays or containers of them.
        primals: the point; numbers, arrays or containers of them.
        has_aux: `function` returns `(result, aux)`.

    Returns:
        `(value, pullback)`, and with `has_aux` also the aux. `pullback(ct)` takes a cotangent with the structure of the
        value and returns a tuple with one cotangent per primal: J^H ct, and None for integers (with a warning if there
        is no other primal). It can be called repeatedly.

    Raises:
        SeedError: a ValueError, from the pullback; the cotangent does not match the value.
        ParameterError: a ValueError; there are no primals.
        NoResultError, NotCallableError: as for `grad`.

    Example:
        >>> value, pullback = vjp(lambda x, y: x * y, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        >>> pullback(np.array([1.0, 10.0]))
        (Tensor([ 3., 40.]), Tensor([ 1., 20.]))
    """
    transformed = Transformed(_run_vjp, function, {"has_aux": has_aux}, is_kept=False)
    if not primals:
        raise errors.ParameterError(
            "vjp takes the point together with the function: value, pullback = vjp(f, x).\n"
            "make_vjp(f) returns a function of the point: value, pullback = make_vjp(f)(x)."
        )
    return transformed(*primals)


def _run_vjp(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], has_aux: bool
) -> tuple[Any, Callable[[Any], Any], Any] | tuple[Any, Callable[[Any], Any]]:
    traced = Linearization(function, args, keywords, range(len(args)), has_aux, outlives=True)
    if not any([given.is_traced() for given in traced.inputs.values()]):  # noqa: C419  # common case
        _warn_of_inputs(function, traced)

    def pullback(cotangent: object) -> tuple[Any, ...]:
        cotangents = traced.pull(cotangent, "the cotangent", again=True)
        return tuple(traced.gradients(cotangents, UnconnectedGradients.ZERO))

    pullback.__qualname__ = "pullback"  # for Python's error where the cotangent is missing
    return (traced.result, pullback, traced.aux) if has_aux else (traced.result, pullback)


def _run_make_vjp(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    params: Selection,
    persistent: bool = True,
) -> Any:
    places, keywords = select(function, params, args, keywords)
    traced = Linearization(function, args, keywords, places, outlives=True)
    _warn_of_none(function, traced)

    def pullback(dy: Operand | None = None) -> list[Any]:
        return traced.gradients(traced.pull(dy, "dy", again=persistent), UnconnectedGradients.NONE)

    return traced.result, pullback


@overload
def make_vjp(
    function: Callable[P, Any], params: Selection = None, persistent: bool = True
) -> Callable[P, tuple[Any, Callable[..., list[Any]]]]: ...
@overload
def make_vjp(
    function: None = None, params: Selection = None, persistent: bool = True
) -> Decorator[tuple[Any, Callable[..., list[Any]]]]: ...
@names_keywords
def make_vjp(function: Callable[..., Any] | None = None, params: Selection = None, persistent: bool = True) -> Any:
    """Return a function that computes the value of `function` and a function of `dy`.

    Args:
        function, params: as for `gradients_function`.
        persistent: whether `vjp` can be called any number of times. Otherwise it can be called once, and the record is
            freed while it runs.

    Returns:
        `g(*args, **keywords)`, which returns `(value, vjp)`; `vjp(dy=None)` returns the list of gradients weighted with
        `dy`.

    Raises:
        ParameterError, NoResultError, SeedError, NotCallableError: as for `gradients_function`.
        TapeError: a RuntimeError, from `vjp`; it was called before, and is not persistent.

    Example:
        >>> value, pullback = make_vjp(lambda x, y: x**3 * y - x * y**2)(2.0, 3.0)
        >>> pullback(dy=10.0)
        [Tensor(270.), Tensor(-40.)]
    """
    return decorator(_run_make_vjp, function, params=params, persistent=persistent)


def stop_gradient(x: object) -> Any:
    """Return a value as a constant: without its connection to the values it was computed from.

    Args:
        x: a tensor, array or number, or a container of them.

    Returns:
        The same values, which are constants to every running gradient: tensors and variables as Tensors, plain values
        unchanged.

    Example:
        >>> grad(lambda x: x * stop_gradient(x))(3.0)
        Tensor(3.)
    """
    return tree_map(_stopped, x)


def _stopped(leaf: Any) -> Any:
    leaf = as_leaf(leaf) if OVERRIDES[type(leaf)] else leaf
    return stop_gradient_of(leaf) if is_number(leaf) else leaf
